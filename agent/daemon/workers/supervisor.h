/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * supervisor - start, watch and restart the workers of all rows.
 *
 * Each row has one worker, and one for each uid whose clients run programs
 * there.  A session's queue on a row is attached to the row.  The attachment
 * outlives workers: each worker is told of it (ATTACH), and when one dies, a
 * short recovery process ends the jobs that it owed before the next one starts.
 * Only workers and recovery processes touch the memory behind an attachment.
 */
#ifndef GM_DAEMON_WORKERS_SUPERVISOR_H
#define GM_DAEMON_WORKERS_SUPERVISOR_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/types.h>

#include "agent/common/refusal.h"
#include "agent/daemon/workers/worker_request.h"

struct gm_daemon;
struct gm_worker_process;

enum gm_attachment_state {
	GM_ATTACHMENT_WAITING, /* the row's child, if any, does not know it */
	GM_ATTACHMENT_OFFERED, /* ATTACH is sent */
	GM_ATTACHMENT_TAKEN,   /* and answered */
	GM_ATTACHMENT_LEAVING, /* DETACH is to be sent */
	GM_ATTACHMENT_LEFT     /* and is sent */
};

/* Why a row may have no worker.  Any of them is enough. */
#define GM_BAR_HEALTH (UINT32_C(1) << 0) /* the probe says so */
#define GM_BAR_DRAIN  (UINT32_C(1) << 1) /* the administrator wants it */
#define GM_BAR_LOST   (UINT32_C(1) << 2) /* its worker found no such device */

/* Embedded in its owner, who fills the first part and keeps it as it is. */
struct gm_attachment {
	uint64_t session; /* never reused */
	uint32_t uid;
	pid_t pid; /* of the session's process, which lives; 0: not seen */
	bool runs_programs; /* wants the worker for those of this uid */
	uint32_t depth;
	uint64_t queue_at;
	uint64_t arena_bytes;
	uint64_t range_at;
	uint64_t range_bytes;
	int queues; /* descriptors, the owner's; socket may be -1 */
	int arena;
	int doorbell;
	int socket;

	/* The worker serves this queue, for the first time; or it cannot, with
	 * a negative status, and the attachment has ended already. */
	void (*attached)(struct gm_attachment *attachment, int status,
			 const char *why);
	/* The contract was broken or memory is short: the session must end. */
	void (*broken)(struct gm_attachment *attachment, const char *why);
	/* The same, and the client has kept the worker from other clients'
	 * jobs: its user must not do that again soon. */
	void (*stalled)(struct gm_attachment *attachment, const char *why);
	/* After gm_supervisor_leave(): none of its memory is mapped any more,
	 * and the owner may free it. */
	void (*left)(struct gm_attachment *attachment);

	/* The supervisor's own. */
	TAILQ_ENTRY(gm_attachment) entry;
	struct gm_worker_process *worker; /* NULL: not attached */
	enum gm_attachment_state state;
	uint32_t place;       /* of its journal */
	uint32_t incarnation; /* workers it has been offered to */
	uint32_t strikes;     /* recovery processes that died over it */
	bool was_attached;
	bool is_owed; /* by a dead worker, and not recovered yet */
	struct gm_worker_request_list requests; /* empty while not attached */
	struct gm_user_queue *queued_user; /* of its uid, see user_queue.h */
	uint64_t asked;                    /* number of the last for it */
	bool asks;                         /* some of its requests wait */
	/* Its bytes when what is free was read last; and the least of that and
	 * the reading before: see account/usage.h. */
	uint64_t seen_bytes;
	uint64_t sure_bytes;
};

/*
 * gm_supervisor_start - after every row was published as PROBING or LOST
 *
 * Returns	0, or a negative errno after it has logged why
 */
int gm_supervisor_start(struct gm_daemon *d);

/* Start no worker any more, and let those that run finish. */
void gm_supervisor_drain(struct gm_daemon *d);

/* Have they? */
bool gm_supervisor_drained(const struct gm_daemon *d);

/* Free everything; workers end with us. */
void gm_supervisor_exit(struct gm_daemon *d);

/*
 * gm_supervisor_attach - have the worker of a row serve a queue
 *
 * attachment	zero but for the fields that its owner fills
 * ret_why	the error and its remedy
 *
 * attachment->attached() tells when it is served, which may take until the row
 * is back.  A new session is refused after a second of back-off, when the row
 * is barred, and when its worker does not end by SIGKILL.
 *
 * Returns	0
 *		-ENODEV		there is no such row, or it has no worker, or
 *				none soon
 *		-EUSERS		the row has no place left
 *		-ESHUTDOWN	the agent is draining
 *		-ENOMEM
 */
int gm_supervisor_attach(struct gm_daemon *d, uint32_t row,
			 struct gm_attachment *attachment,
			 char ret_why[GM_WHY_BYTES]);

/* Detach.  attachment->left() follows, perhaps before this returns. */
void gm_supervisor_leave(struct gm_daemon *d, struct gm_attachment *attachment);

/*
 * gm_supervisor_admit - a row that came late, or came back, is to be served
 *
 * One that is served already stays as it is.  Returns 0, or a negative errno.
 */
int gm_supervisor_admit(struct gm_daemon *d, uint32_t row);

/* Has the row a process, a session's place, or programs of a uid? */
bool gm_supervisor_row_used(const struct gm_daemon *d, uint32_t row);

/* The row is given to another device; it is not used. */
void gm_supervisor_row_reused(struct gm_daemon *d, uint32_t row);

/*
 * gm_supervisor_bar - have no worker on this row until gm_supervisor_unbar()
 *
 * bar		GM_BAR_*
 * finish	the worker ends what is in its rings first, and is killed when
 *		it has done nothing for config.drain_row_ns; else it is killed
 *		now
 * why		for its log, and for sessions that ask for the row
 * closed	called once, perhaps before this returns, when no process of the
 *		row runs: the agent has closed its device; or NULL
 *
 * The caller shows the row's state before.  Sessions stay attached, and their
 * jobs end with -ENODEV.
 */
void gm_supervisor_bar(struct gm_daemon *d, uint32_t row, uint32_t bar,
		       bool finish, const char *why,
		       void (*closed)(struct gm_daemon *d, uint32_t row));

/* Explain why @closed has not been called: which process of the row still runs,
 * and what the administrator can do. */
void gm_supervisor_what_runs(const struct gm_daemon *d, uint32_t row,
			     char ret_why[GM_WHY_BYTES]);

/*
 * gm_supervisor_unbar - take reasons off a row
 *
 * bars		GM_BAR_*, one or more.  The caller passes GM_BAR_HEALTH and
 *		GM_BAR_LOST each time that the probe says that the device is
 *		usable; the call costs nothing when the row was not barred
 *
 * With the last reason gone, the row gets a worker if a session is attached,
 * and is shown READY.
 */
void gm_supervisor_unbar(struct gm_daemon *d, uint32_t row, uint32_t bars);

#endif
