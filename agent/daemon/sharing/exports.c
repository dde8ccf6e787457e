/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/sharing/exports.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/common/log.h"
#include "agent/daemon/account/quota.h"
#include "agent/daemon/base/events.h"
#include "agent/daemon/base/loop.h"
#include "agent/daemon/base/parts.h"
#include "agent/daemon/config.h"
#include "agent/daemon/devices/rows.h"
#include "agent/daemon/sessions/session.h"
#include "agent/daemon/sharing/export_accounting.h"
#include "agent/daemon/sharing/peer_access.h"
#include "agent/daemon/sharing/peer_mapping.h"
#include "agent/daemon/sharing/share_request.h"
#include "agent/daemon/workers/attachment.h"
#include "gpumap.h"
#include "shm/point.h"
#include "shm/queue.h"

/* ---- who has what ------------------------------------------------------ */

/* From now on it can be imported by its name only. */
static void abandon(struct gm_export *export)
{
	/* The descriptor outlives the export, and the buffer may, too. */
	export->session->has_lent |= export->is_lent;
	export->session = NULL;
	GM_POINT("export_abandoned");
	gm_export_drop_unused(export);
}

static void let_go(struct gm_importer *importer, struct gm_importer_list *mine)
{
	struct gm_export *export = importer->export;

	TAILQ_REMOVE(mine, importer, mine);
	TAILQ_REMOVE(&export->importers, importer, entry);
	importer->user->imports--;
	/* The descriptor may be the last reference to the memory. */
	gm_close_thread_close(&export->server->close_thread,
			      importer->request.fd);
	free(importer);
	gm_export_drop_unused(export);
}

int gm_exports_admit(const struct gm_control_server *s, uint32_t row,
		     const struct gm_user *user, uint64_t bytes,
		     char ret_why[GM_WHY_BYTES])
{
	uint64_t most = gm_quota_exports(s->d, row, user->uid);
	uint64_t has = gm_export_accounting_bytes(s, row, user) +
		       gm_peer_mappings_bytes(s, row, user) +
		       gm_events_row_bytes(s->d, row, user->uid).masks;

	if (has <= most && bytes <= most - has)
		return 0;
	return gm_why(ret_why, -EDQUOT,
		      "uid %u has exported %" PRIu64
		      " bytes of row %u, masks among them, and "
		      "asks for %" PRIu64 ", it may export %" PRIu64
		      "; forget some, or reserve more with a layer map",
		      (unsigned)user->uid, has, row, bytes, most);
}

void gm_exports_free(struct gm_session *session)
{
	struct gm_control_server *s = session->server;
	struct gm_export *export = TAILQ_FIRST(&s->exports), *next;
	struct gm_importer *importer;

	while ((importer = TAILQ_FIRST(&session->imports)))
		let_go(importer, &session->imports);
	for (; export; export = next) {
		next = TAILQ_NEXT(export, entry);
		if (export->session == session)
			abandon(export);
	}
}

bool gm_exports_are_others(const struct gm_session *session)
{
	const struct gm_importer *importer;
	const struct gm_export *export;

	TAILQ_FOREACH(importer, &session->imports, mine)
	{
		export = importer->export;
		if (export->is_lent ||
		    (export->user != session->user && !export->is_sealed))
			return true;
	}
	TAILQ_FOREACH(export, &session->server->exports, entry)
	{
		if (export->session == session && export->is_lent)
			return true;
	}
	return session->has_lent;
}

void gm_exports_connection_dropped(struct gm_connection *c, const char *why)
{
	struct gm_importer *importer;

	while ((importer = TAILQ_FIRST(&c->imports)))
		let_go(importer, &c->imports);
}

/* ---- EXPORT ------------------------------------------------------------ */

static void answer_export(struct gm_connection *c,
			  const struct gm_export *export)
{
	struct gm_export_reply reply = { export->id, export->bytes };

	gm_connection_answer(c, 0, NULL, &reply, sizeof(reply), -1);
}

/* The same file by a descriptor that cannot write, where /proc has one.  A
 * client of the worker's user may hold a lease of a file that was exported
 * before: with O_NONBLOCK the open does not wait for it. */
static int read_only_of(int fd)
{
	char path[32];
	int other;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	other = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (other < 0)
		return fd;
	close(fd);
	return other;
}

/*
 * Before a client has a descriptor of a host's memory, it is decided for ever
 * whether others may write the memory: the worker's mapping can, and is older.
 *
 * A card's memory is no such file, and is not handed out read-only.
 */
static int seal(struct gm_export *export)
{
	const struct gm_daemon *d = export->server->d;
	int want = F_SEAL_SEAL | (export->read_only ? F_SEAL_FUTURE_WRITE : 0);
	int seals = fcntl(export->fd, F_GET_SEALS);

	if (!gm_device_can(d->devices->of[export->row], GPUMAP_DEVICE_MAPPED) ||
	    seals < 0)
		return 0;
	if (!(seals & F_SEAL_SEAL) && fcntl(export->fd, F_ADD_SEALS, want) == 0)
		seals |= want;
	export->is_sealed = seals & F_SEAL_FUTURE_WRITE;
	if (export->is_sealed != export->read_only && (seals & F_SEAL_SEAL))
		return gm_why(export->server->why, -EBUSY,
			      "others have had the buffer %s; allocate another",
			      export->read_only ? "for writing" : "read-only");
	if (export->is_sealed)
		export->fd = read_only_of(export->fd);
	return 0;
}

static void is_exported(struct gm_worker_request *request, uint64_t bytes,
			int fd)
{
	struct gm_export *export = gm_owner(request, struct gm_export, request);
	struct gm_control_server *s = export->server;
	struct gm_connection *c = export->session->connection;

	export->fd = fd;
	export->status =
		gm_exports_admit(s, export->row, export->user, bytes, s->why);
	if (export->status == 0)
		export->status = seal(export);
	if (export->status) {
		gm_attachments_give_back(request);
		return;
	}
	export->bytes = bytes;
	export->id = (uint64_t) export->row << 56 | ++s->last_export;
	gm_log_of(export->user->uid, GM_LOG_INFO, "exported",
		  "session=%" PRIu64 " row=%u export=%#" PRIx64
		  " bytes=%" PRIu64 " uid=%u uid_exports=%u",
		  export->session->id, export->row, export->id, bytes,
		  (unsigned)export->user->uid, export->user->exports);
	GM_POINT("export_held");
	if (c)
		answer_export(c, export);
}

static void is_not_exported(struct gm_worker_request *request, int status,
			    const char *why)
{
	struct gm_export *export = gm_owner(request, struct gm_export, request);
	struct gm_connection *c = export->session->connection;
	bool was_refused = export->id == 0;

	if (export->status < 0) {
		status = export->status;
		why = export->server->why;
	}
	abandon(export);
	if (c && was_refused)
		gm_connection_answer(c, status, why, NULL, 0, -1);
}

/* A handle of memory of a row that this session has a queue on. */
static int check_handle(struct gm_connection *c, uint64_t handle)
{
	if (!c->session)
		return gm_connection_bad(c, -EINVAL,
					 "this connection is no session");
	if (gm_handle_kind(handle) != GM_BUFFER_DEVICE ||
	    gm_handle_generation(handle) == 0 ||
	    gm_handle_index(handle) >= GM_BUFFERS_MAX)
		return gm_connection_bad(c, -EINVAL,
					 "%#" PRIx64 " is no handle of a row's "
					 "memory",
					 handle);
	return gm_session_check_row(c, gm_handle_row(handle));
}

static int make_export(struct gm_session *session,
		       const struct gm_export_ask *ask,
		       struct gm_export **ret_export)
{
	struct gm_export *export = calloc(1, sizeof(*export));

	if (!export)
		return -ENOMEM;
	export->user = gm_user_hold(session->server, session->user->uid);
	if (!export->user) {
		free(export);
		return -ENOMEM;
	}
	export->user->exports++;
	export->is_counted = true;
	export->server = session->server;
	export->session = session;
	export->row = gm_handle_row(ask->handle);
	export->is_named = ask->flags & GM_EXPORT_NAMED;
	export->read_only = ask->flags & GM_EXPORT_READ_ONLY;
	export->fd = -1;
	export->request = (struct gm_worker_request){ .ask = GM_WIRE_EXPORT,
						      .handle = ask->handle,
						      .fd = -1,
						      .held = is_exported,
						      .gone = is_not_exported };
	TAILQ_INIT(&export->importers);
	TAILQ_INSERT_TAIL(&session->server->exports, export, entry);
	*ret_export = export;
	return 0;
}

static int check_export(struct gm_connection *c,
			const struct gm_export_ask *ask)
{
	int error = check_handle(c, ask->handle);

	if (error)
		return error;
	if (ask->reserved ||
	    (ask->flags != 0 && ask->flags != GM_EXPORT_NAMED &&
	     ask->flags != (GM_EXPORT_NAMED | GM_EXPORT_READ_ONLY)))
		return gm_connection_bad(c, -EINVAL,
					 "export flags %#x are not known",
					 ask->flags);
	return 0;
}

/* Once more: it has one id, and who may write it does not change. */
static int export_again(struct gm_connection *c, const struct gm_request *r,
			const struct gm_export_ask *ask,
			struct gm_export *export)
{
	bool read_only = ask->flags & GM_EXPORT_READ_ONLY;

	if (read_only != export->read_only)
		return gm_connection_bad(
			c, -EBUSY,
			"the buffer is exported %s; forget that first",
			export->read_only ? "read-only" : "for writing");
	if (!(ask->flags & GM_EXPORT_NAMED))
		export->is_named = false;
	gm_connection_wait(c, &r->header);
	answer_export(c, export);
	return 0;
}

int gm_export_handle(struct gm_connection *c, const struct gm_request *r)
{
	uint32_t most = c->server->d->config->exports_per_uid;
	struct gm_export *export;
	struct gm_export_ask ask;
	int error;

	memcpy(&ask, r->body, sizeof(ask));
	error = check_export(c, &ask);
	if (error)
		return error;
	export = gm_export_find_own(c->session, ask.handle);
	if (export)
		return export_again(c, r, &ask, export);
	gm_connection_wait(c, &r->header);
	if (c->user->exports >= most)
		error = gm_connection_bad(
			c, -EDQUOT,
			"uid %u has %u exports, which is its limit; forget "
			"some, or raise exports-per-uid in [limits] of "
			"gpumapd.conf",
			(unsigned)c->uid, c->user->exports);
	if (error == 0)
		error = make_export(c->session, &ask, &export);
	if (error == 0) {
		error = gm_attachments_ask(
			&c->session->queue[export->row]->attachment,
			&export->request, c->server->why);
		if (error)
			abandon(export);
	}
	if (error)
		c->waits = false;
	return error;
}

/* ---- IMPORT ------------------------------------------------------------ */

/* One that can be had, by whom it may concern. */
static int find(struct gm_connection *c, uint64_t id,
		struct gm_export **ret_export)
{
	const struct gm_control_server *s = c->server;
	struct gm_export *export;

	TAILQ_FOREACH(export, &s->exports, entry)
	{
		if (export->id == id && id != 0 && export->fd >= 0)
			break;
	}
	/* The permission for its name was checked when the session opened
	 * it. */
	if (export && gm_shares_holds(c->session, export)) {
		*ret_export = export;
		return 0;
	}
	if (!export || !export->session ||
	    (export->is_named && export->session != c->session))
		return gm_connection_bad(c, -ENOENT,
					 "there is no export %#" PRIx64
					 ": it was forgotten, or "
					 "its session or its worker has ended",
					 id);
	if (export->user->uid != c->uid &&
	    s->d->config->cuda_share != GM_CONFIG_SHARE_ANY)
		return gm_connection_bad(
			c, -EACCES,
			"the export is another uid's, and share in [cuda] of "
			"gpumapd.conf keeps it there");
	*ret_export = export;
	return 0;
}

static struct gm_importer *make_importer(struct gm_export *export,
					 struct gm_user *user,
					 struct gm_session *session,
					 struct gm_importer_list *mine)
{
	struct gm_importer *importer = calloc(1, sizeof(*importer));

	if (!importer)
		return NULL;
	user->imports++;
	importer->user = user;
	importer->export = export;
	importer->session = session;
	importer->request.fd = -1;
	TAILQ_INSERT_TAIL(&export->importers, importer, entry);
	TAILQ_INSERT_TAIL(mine, importer, mine);
	return importer;
}

static void is_imported(struct gm_worker_request *request, uint64_t bytes,
			int fd)
{
	struct gm_importer *importer =
		gm_owner(request, struct gm_importer, request);
	const struct gm_export *export = importer->export;
	struct gm_connection *c = importer->session->connection;
	struct gm_import_reply reply = { .bytes = export->bytes,
					 .row = export->row };

	gm_close_thread_close(&export->server->close_thread, request->fd);
	request->fd = -1;
	gm_log_of(importer->session->user->uid, GM_LOG_INFO, "imported",
		  "session=%" PRIu64 " row=%u export=%#" PRIx64
		  " handle=%#" PRIx64,
		  importer->session->id, export->row, export->id,
		  request->handle);
	if (c)
		gm_connection_answer(c, 0, NULL, &reply, sizeof(reply), -1);
}

static void is_not_imported(struct gm_worker_request *request, int status,
			    const char *why)
{
	struct gm_importer *importer =
		gm_owner(request, struct gm_importer, request);
	struct gm_session *session = importer->session;
	struct gm_connection *c = session->connection;
	bool was_refused = !request->was_held;
	bool was_forgotten = importer->is_forgotten;

	let_go(importer, &session->imports);
	if (c && was_refused)
		gm_connection_answer(c, status, why, NULL, 0, -1);
	else if (c && was_forgotten)
		gm_connection_answer(c, 0, NULL, NULL, 0, -1);
}

/* Into a session, by the worker of its row. */
static int import_here(struct gm_connection *c, const struct gm_request *r,
		       const struct gm_import *ask, struct gm_export *export)
{
	struct gm_session *session = c->session;
	struct gm_importer *importer;
	int error;

	error = gm_export_accounting_admit(c, export);
	if (error)
		return error;
	importer = make_importer(export, session->user, session,
				 &session->imports);
	if (!importer)
		return -ENOMEM;
	/* One of its own: the export may be forgotten while we wait. */
	importer->request = (struct gm_worker_request){
		.ask = GM_WIRE_IMPORT,
		.handle = ask->handle,
		.buffer.bytes = export->bytes,
		.buffer.flags = ask->flags,
		.fd = fcntl(export->fd, F_DUPFD_CLOEXEC, 0),
		.held = is_imported,
		.gone = is_not_imported,
	};
	error = importer->request.fd < 0 ? -errno : 0;
	gm_connection_wait(c, &r->header);
	if (error == 0)
		error = gm_attachments_ask(
			&session->queue[ask->row]->attachment,
			&importer->request, c->server->why);
	if (error) {
		c->waits = false;
		let_go(importer, &session->imports);
	}
	return error;
}

/* A host's memory is sealed; that of a card could be written through any
 * descriptor of it.  A user that could change its own memory anyway gets one,
 * and is trusted to map it for reading only. */
static int check_lend(struct gm_connection *c, const struct gm_export *export)
{
	if (!export->read_only || export->is_sealed || c->user == export->user)
		return 0;
	return gm_connection_bad(
		c, -EACCES,
		"it is shared read-only by another user, and a descriptor of "
		"row %u's memory could write; import it",
		export->row);
}

/* Once for each connection is enough to remember. */
int gm_export_lend(struct gm_connection *c, struct gm_export *export)
{
	struct gm_importer *importer;
	int error = check_lend(c, export);

	if (error)
		return error;
	TAILQ_FOREACH(importer, &c->imports, mine)
	{
		if (importer->export == export)
			break;
	}
	if (!importer) {
		error = gm_export_accounting_admit(c, export);
		if (error)
			return error;
		importer = make_importer(export, c->user, NULL, &c->imports);
	}
	if (!importer)
		return -ENOMEM;
	export->is_lent |= c->user != export->user && !export->is_sealed;
	return 0;
}

/* To the client itself. */
static int hand_out(struct gm_connection *c, const struct gm_request *r,
		    struct gm_export *export)
{
	struct gm_import_reply reply = { .bytes = export->bytes,
					 .row = export->row };
	int error = gm_export_lend(c, export);

	if (error)
		return error;
	return gm_connection_reply(c, &r->header,
				   &(struct gm_reply){ .body = &reply,
						       .body_bytes =
							       sizeof(reply),
						       .fds = &export->fd,
						       .n_fds = 1 });
}

static int check_import(struct gm_connection *c, const struct gm_import *ask,
			const struct gm_export *export)
{
	const struct gm_importer *importer;
	uint32_t n = 0;
	int error;

	if (ask->handle == 0 && ask->flags)
		return gm_connection_bad(
			c, -EINVAL, "a descriptor cannot be made read-only");
	if (ask->handle == 0)
		return 0;
	error = check_handle(c, ask->handle);
	if (error)
		return error;
	if (ask->flags & ~GPUMAP_BUFFER_READ_ONLY)
		return gm_connection_bad(c, -EINVAL,
					 "import flags %#x are not known",
					 ask->flags);
	if (export->read_only && !(ask->flags & GPUMAP_BUFFER_READ_ONLY))
		return gm_connection_bad(c, -EACCES,
					 "it is shared read-only: import it "
					 "GPUMAP_BUFFER_READ_ONLY");
	if (ask->row != export->row || gm_handle_row(ask->handle) != ask->row)
		return gm_connection_bad(
			c, -EOPNOTSUPP,
			"the export is memory of row %u, and is imported there",
			export->row);
	TAILQ_FOREACH(importer, &c->session->imports, mine)
	n++;
	if (n >= GM_BUFFERS_MAX)
		return gm_connection_bad(c, -EDQUOT,
					 "the session has %u imports; forget "
					 "those that it has freed",
					 n);
	return 0;
}

int gm_exports_import_handle(struct gm_connection *c,
			     const struct gm_request *r)
{
	struct gm_export *export = NULL;
	struct gm_import ask;
	int error;

	memcpy(&ask, r->body, sizeof(ask));
	error = find(c, ask.id, &export);
	if (error == 0)
		error = check_import(c, &ask, export);
	if (error)
		return error;
	return ask.handle ? import_here(c, r, &ask, export)
			  : hand_out(c, r, export);
}

/* ---- FORGET ------------------------------------------------------------ */

static struct gm_importer *find_import(const struct gm_session *session,
				       uint64_t handle)
{
	struct gm_importer *importer;

	TAILQ_FOREACH(importer, &session->imports, mine)
	{
		if (importer->request.handle == handle)
			break;
	}
	return importer;
}

int gm_export_forget(struct gm_connection *c, const struct gm_control *request,
		     uint64_t handle)
{
	struct gm_export *export = gm_export_find_own(c->session, handle);
	struct gm_importer *importer = find_import(c->session, handle);

	if (importer && !importer->is_forgotten) {
		importer->is_forgotten = true;
		gm_connection_wait(c, request);
		gm_attachments_give_back(&importer->request);
		return 0;
	}
	if (!export)
		return gm_connection_bad(c, -ENOENT,
					 "the session has neither exported nor "
					 "imported %#" PRIx64,
					 handle);
	gm_attachments_give_back(&export->request);
	return gm_connection_reply(c, request, NULL);
}
