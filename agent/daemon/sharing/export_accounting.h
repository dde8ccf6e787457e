/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * export_accounting - count exported memory, its importers, and the user that
 * pays for it.
 *
 * The structs are those of exports.c.
 */
#ifndef GM_DAEMON_SHARING_EXPORT_ACCOUNTING_H
#define GM_DAEMON_SHARING_EXPORT_ACCOUNTING_H

#include "agent/daemon/sharing/exports.h"
#include "agent/daemon/workers/worker_request.h"

struct gm_shared;

struct gm_export {
	TAILQ_ENTRY(gm_export) entry; /* of the server */
	struct gm_control_server *server;
	struct gm_session *session; /* whose it is; NULL: abandoned */
	struct gm_shared *shared;   /* what it has a name as, or NULL */
	struct gm_user *user;       /* who is charged */
	struct gm_worker_request request;
	uint64_t id; /* 0: the worker has not answered yet */
	int status;  /* why it was given up, in the words of server->why */
	uint64_t bytes;
	uint32_t row;
	int fd;         /* -1: not to be had any more */
	bool is_named;  /* to be had by name alone */
	bool read_only; /* likewise, and not by a session that could write it */
	bool is_sealed; /* its descriptors cannot, either */
	bool is_lent;   /* another user than its own has had one that can */
	bool is_counted; /* with those of the uid that can be had */
	struct gm_importer_list importers;
};

/* An importer: a session by a request, or a connection by a descriptor. */
struct gm_importer {
	TAILQ_ENTRY(gm_importer) entry; /* of the export */
	TAILQ_ENTRY(gm_importer) mine;  /* of the session or connection */
	struct gm_export *export;
	struct gm_user *user;             /* whose it is */
	struct gm_session *session;       /* NULL: a connection */
	bool is_forgotten;                /* its client waits for that */
	struct gm_worker_request request; /* its descriptor is one of its own */
};

/* An export of no session, which has a name, for a user that is charged; NULL
 * for want of memory.  The caller fills in the rest. */
struct gm_export *gm_export_restore(struct gm_control_server *s,
				    struct gm_user *user);

/* Its session or its name is gone: without either the export is closed, and
 * freed when no session has imported it. */
void gm_export_drop_unused(struct gm_export *export);

/* The export of this session's buffer with this handle, for all users, or
 * NULL. */
struct gm_export *gm_export_find_own(const struct gm_session *session,
				     uint64_t handle);

/* Bytes of a row that a user has exported, but for those that only others
 * keep. */
uint64_t gm_export_accounting_bytes(const struct gm_control_server *s,
				    uint32_t row, const struct gm_user *user);

/* Has any session or connection exported memory of this row? */
bool gm_export_accounting_row(const struct gm_daemon *d, uint32_t row);

/*
 * gm_export_accounting_admit - may this connection's user import one more time?
 *
 * The number of imports counts against the user, whichever user has exported.
 * The user may have only a part of each row by others' exports, because it can
 * keep that memory from them as long as it likes.
 *
 * Returns	0, or -EDQUOT with server->why
 */
int gm_export_accounting_admit(struct gm_connection *c,
			       const struct gm_export *export);

/* The count alone; and the bytes alone, of what the user has already.  Returns
 * as gm_export_accounting_admit(). */
int gm_export_accounting_admit_count(struct gm_connection *c);
int gm_export_accounting_admit_held(struct gm_connection *c,
				    const struct gm_export *export);

/* Event; see base/events.h: bytes that were exported, that no session can
 * import any more, and that some session has. */
void gm_exports_row_bytes(const struct gm_daemon *d, uint32_t row, uint32_t uid,
			  struct gm_row_bytes *sum);

/* Likewise: bytes that sessions have exported, and that are kept without
 * them. */
void gm_exports_kept_bytes(const struct gm_daemon *d, uint64_t sums[GM_ROWS]);

/* Count, into @ret_item, the bytes that importers have of a session's exports
 * of @item's row, and those that the session has of others'. */
void gm_exports_count(const struct gm_session *session,
		      struct gm_usage_item *ret_item);

/* List exports that cannot be imported any more, by (uid, row): the one behind
 * @ret_item, or the first.  Returns false behind the last. */
bool gm_exports_next_abandoned(const struct gm_daemon *d, bool goes_on,
			       struct gm_usage_item *ret_item);

#endif
