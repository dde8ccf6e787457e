/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/sharing/peer_copy.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "agent/common/log.h"
#include "agent/daemon/base/loop.h"
#include "agent/daemon/base/parts.h"
#include "agent/daemon/base/session_memory.h"
#include "agent/daemon/config.h"
#include "agent/daemon/devices/p2p.h"
#include "agent/daemon/devices/rows.h"
#include "agent/daemon/sessions/session.h"
#include "agent/daemon/sharing/exports.h"
#include "agent/daemon/sharing/peer_mapping.h"
#include "agent/daemon/workers/attachment.h"
#include "gpumap.h"
#include "shm/point.h"
#include "shm/queue.h"

#define SOURCE_ENDED "the worker of the buffer's row has ended"

static int lend(struct gm_peer_mapping *x);

static struct gm_daemon *daemon_of(const struct gm_peer_mapping *x)
{
	return x->session->server->d;
}

static uint32_t source_of(const struct gm_peer_mapping *x)
{
	return gm_handle_row(x->handle);
}

static bool is_of_card(const struct gm_peer_mapping *x)
{
	return gm_device_can(daemon_of(x)->devices->of[source_of(x)],
			     GPUMAP_DEVICE_CARD);
}

static int ask(struct gm_peer_mapping *x, uint32_t row,
	       struct gm_worker_request *request)
{
	char *why = x->session->server->why;

	if (!x->session->queue[row])
		return gm_why(why, -ESHUTDOWN, "the session is ending");
	request->handle = x->handle;
	return gm_attachments_ask(&x->session->queue[row]->attachment, request,
				  why);
}

static int ask_source(struct gm_peer_mapping *x)
{
	int error;

	x->has_source = true;
	error = ask(x, source_of(x), &x->source);
	if (error)
		x->has_source = false;
	return error;
}

static void close_fd(struct gm_peer_mapping *x, int *fd)
{
	gm_close_thread_close(&x->session->server->close_thread, *fd);
	*fd = -1;
}

static void fail(struct gm_peer_mapping *x, int status, const char *why)
{
	struct gm_connection *c = x->session->connection;
	char words[GM_WHY_BYTES];

	/* The next step may set a text of its own. */
	gm_why(words, status, "%s", why);
	gm_peer_mapping_free(x);
	if (c)
		gm_connection_answer(c, status, words, NULL, 0, -1);
}

/* A step was asked for, or could not be. */
static void went(struct gm_peer_mapping *x, int error)
{
	if (error)
		fail(x, error, x->session->server->why);
}

/* A step is done: is there still something to go on with? */
static bool is_lost(struct gm_peer_mapping *x)
{
	if (!x->is_lost)
		return false;
	fail(x, -ESTALE, SOURCE_ENDED);
	return true;
}

static void is_open(struct gm_peer_mapping *x)
{
	struct gm_connection *c = x->session->connection;
	bool was_lost = x->is_lost;

	x->state = GM_PEER_MAPPING_OPEN;
	gm_log_of(x->session->user->uid, GM_LOG_INFO, "reached",
		  "session=%" PRIu64 " row=%u from=%u handle=%#" PRIx64
		  " way=%s",
		  x->session->id, x->row, source_of(x), x->handle,
		  x->stage        ? "stage"
		  : is_of_card(x) ? "peer"
				  : "map");
	GM_POINT("peer_mapping_open");
	/* The source's worker may have ended meanwhile. */
	if (x->is_lost)
		gm_peer_mapping_close(x);
	if (c)
		gm_connection_answer(c, was_lost ? -ESTALE : 0,
				     was_lost ? SOURCE_ENDED : NULL, NULL, 0,
				     -1);
}

/* The status to tell the client when the row has ended its part.  Only the
 * source's worker takes the buffer along. */
static int of_row(const struct gm_peer_mapping *x, int status)
{
	if (status == -ESTALE && !x->is_lost)
		return -EIO;
	return status ? status : -ESTALE;
}

/* Does another way make sense after this refusal? */
static bool may_lend(int status)
{
	switch (status) {
	case -ESTALE:
	case -ESHUTDOWN:
	case -ENODEV:
	case 0:
		return false;
	default:
		return true;
	}
}

/* ---- the row's part ------------------------------------------------------ */

static void reach_held(struct gm_worker_request *request, uint64_t bytes,
		       int fd)
{
	struct gm_peer_mapping *x =
		gm_owner(request, struct gm_peer_mapping, reach);

	close_fd(x, &x->fd);
	is_open(x);
}

static void reach_gone(struct gm_worker_request *request, int status,
		       const char *why)
{
	struct gm_peer_mapping *x =
		gm_owner(request, struct gm_peer_mapping, reach);

	if (x->state == GM_PEER_MAPPING_IMPORTING && !x->is_lost &&
	    may_lend(status)) {
		went(x, lend(x));
		return;
	}
	if (x->state < GM_PEER_MAPPING_OPEN)
		fail(x, of_row(x, status), why);
	else
		gm_peer_mapping_free(x);
}

static int import(struct gm_peer_mapping *x)
{
	x->state = GM_PEER_MAPPING_IMPORTING;
	x->reach = (struct gm_worker_request){ .ask = GM_WIRE_IMPORT,
					       .buffer.bytes = x->bytes,
					       .buffer.is_card = is_of_card(x),
					       .buffer.flags =
						       GPUMAP_BUFFER_READ_ONLY,
					       .fd = x->fd,
					       .held = reach_held,
					       .gone = reach_gone };
	return ask(x, x->row, &x->reach);
}

static int borrow(struct gm_peer_mapping *x, uint64_t bytes)
{
	x->state = GM_PEER_MAPPING_BORROWING;
	x->reach = (struct gm_worker_request){ .ask = GM_WIRE_BORROW,
					       .buffer.stage = x->stage->id,
					       .buffer.bytes = bytes,
					       .buffer.borrower = x->row,
					       .fd = x->stage->fd,
					       .held = reach_held,
					       .gone = reach_gone };
	return ask(x, x->row, &x->reach);
}

/* ---- the source's part --------------------------------------------------- */

static void source_gone(struct gm_worker_request *request, int status,
			const char *why)
{
	struct gm_peer_mapping *x =
		gm_owner(request, struct gm_peer_mapping, source);

	if (!x->has_source) /* we have left it */
		return;
	x->has_source = false;
	if (x->state == GM_PEER_MAPPING_EXPORTING && may_lend(status))
		went(x, lend(x));
	else if (x->state == GM_PEER_MAPPING_EXPORTING ||
		 x->state == GM_PEER_MAPPING_LENDING)
		fail(x, status ? status : -ESTALE, why);
	else if (x->state == GM_PEER_MAPPING_OPEN)
		gm_peer_mapping_close(x);
	else
		x->is_lost = true;
}

static void lent(struct gm_worker_request *request, uint64_t bytes, int fd)
{
	struct gm_peer_mapping *x =
		gm_owner(request, struct gm_peer_mapping, source);

	/* The borrower has died since, and left it behind. */
	went(x, x->stage->is_retired ? lend(x) : borrow(x, bytes));
}

static int check_stage(const struct gm_peer_mapping *x)
{
	char what[96];

	snprintf(what, sizeof(what),
		 "copies from row %u to row %u go by way of memory beside the "
		 "arena",
		 source_of(x), x->row);
	return gm_user_admit_memory(x->session->server, x->session->user,
				    GM_STAGE_BYTES, what);
}

/* The session's stage on the row, made on first use. */
static int hold_stage(struct gm_peer_mapping *x)
{
	struct gm_peer_mappings *all = &x->session->peer_mappings;
	struct gm_bounce_buffer *stage;
	int error;

	TAILQ_FOREACH(stage, &all->stages, entry)
	{
		if (stage->row == x->row)
			break;
	}
	if (!stage) {
		error = check_stage(x);
		if (error)
			return error;
		stage = calloc(1, sizeof(*stage));
		if (!stage)
			return -ENOMEM;
		stage->fd =
			gm_session_memory_open("gpumap-stage", GM_STAGE_BYTES);
		if (stage->fd < 0) {
			error = stage->fd;
			free(stage);
			return error;
		}
		stage->id = ++all->last_stage;
		stage->row = x->row;
		x->session->user->arena_bytes += GM_STAGE_BYTES;
		TAILQ_INSERT_TAIL(&all->stages, stage, entry);
	}
	stage->holds++;
	x->stage = stage;
	return 0;
}

static int lend(struct gm_peer_mapping *x)
{
	struct gm_bounce_buffer *before = x->stage;
	int error;

	gm_peer_mapping_leave_source(x);
	close_fd(x, &x->fd);
	x->bytes = 0;
	x->stage = NULL;
	if (before)
		gm_bounce_buffer_drop(x->session, before);
	x->state = GM_PEER_MAPPING_LENDING;
	error = hold_stage(x);
	if (error)
		return error;
	x->source = (struct gm_worker_request){ .ask = GM_WIRE_LEND,
						.buffer.stage = x->stage->id,
						.buffer.borrower = x->row,
						.fd = x->stage->fd,
						.held = lent,
						.gone = source_gone };
	return ask_source(x);
}

/* ---- is the path any good? ----------------------------------------------- */

static void try_held(struct gm_worker_request *request, uint64_t bytes, int fd)
{
	struct gm_peer_mapping *x =
		gm_owner(request, struct gm_peer_mapping, proof);

	x->has_proof = true;
	gm_attachments_give_back(request);
}

static void try_gone(struct gm_worker_request *request, int status,
		     const char *why)
{
	struct gm_peer_mapping *x =
		gm_owner(request, struct gm_peer_mapping, proof);

	close_fd(x, &x->proof_fd);
	/* An end of the session or a lack of memory is no fault of the path. */
	if (x->has_proof || (status != -ESHUTDOWN && status != -ENODEV &&
			     status != -ENOMEM && status != -EMFILE))
		gm_p2p_paths_tried(daemon_of(x), x->row, source_of(x), status);
	if (is_lost(x))
		return;
	if (x->has_proof)
		went(x, import(x));
	else if (may_lend(status))
		went(x, lend(x));
	else
		fail(x, of_row(x, status), why);
}

static void prove_held(struct gm_worker_request *request, uint64_t bytes,
		       int fd)
{
	struct gm_peer_mapping *x =
		gm_owner(request, struct gm_peer_mapping, proof);

	x->has_proof = true;
	x->proof_fd = fd;
	gm_attachments_give_back(request);
}

static void prove_gone(struct gm_worker_request *request, int status,
		       const char *why)
{
	struct gm_peer_mapping *x =
		gm_owner(request, struct gm_peer_mapping, proof);
	uint64_t seed = request->buffer.seed;

	if (is_lost(x))
		return;
	if (!x->has_proof) {
		if (may_lend(status))
			went(x, lend(x));
		else
			fail(x, status ? status : -ESTALE, why);
		return;
	}
	x->has_proof = false;
	x->state = GM_PEER_MAPPING_TRYING;
	x->proof = (struct gm_worker_request){ .ask = GM_WIRE_TRY,
					       .buffer.seed = seed,
					       .fd = x->proof_fd,
					       .held = try_held,
					       .gone = try_gone };
	went(x, ask(x, x->row, &x->proof));
}

static int prove(struct gm_peer_mapping *x)
{
	x->state = GM_PEER_MAPPING_PROVING;
	x->proof = (struct gm_worker_request){ .ask = GM_WIRE_PROVE,
					       .buffer.seed = gm_loop_now(),
					       .fd = -1,
					       .held = prove_held,
					       .gone = prove_gone };
	return ask(x, source_of(x), &x->proof);
}

/* ---- imports ------------------------------------------------------------- */

static enum gm_path_state path_of(const struct gm_peer_mapping *x)
{
	return is_of_card(x)
		       ? gm_p2p_paths_state(daemon_of(x), x->row, source_of(x))
		       : GM_PATH_GOOD;
}

static void exported(struct gm_worker_request *request, uint64_t bytes, int fd)
{
	struct gm_peer_mapping *x =
		gm_owner(request, struct gm_peer_mapping, source);
	struct gm_session *session = x->session;
	int error =
		gm_exports_admit(session->server, source_of(x), session->user,
				 bytes, session->server->why);

	x->fd = fd;
	if (error) {
		went(x, lend(x));
		return;
	}
	x->bytes = bytes;
	switch (path_of(x)) {
	case GM_PATH_GOOD:
		went(x, import(x));
		break;
	case GM_PATH_UNTRIED:
		went(x, prove(x));
		break;
	default:
		went(x, lend(x));
	}
}

int gm_peer_mapping_begin(struct gm_peer_mapping *x)
{
	enum gm_path_state path = path_of(x);

	if (path != GM_PATH_GOOD && path != GM_PATH_UNTRIED)
		return lend(x);
	x->state = GM_PEER_MAPPING_EXPORTING;
	x->source = (struct gm_worker_request){ .ask = GM_WIRE_EXPORT,
						.fd = -1,
						.held = exported,
						.gone = source_gone };
	return ask_source(x);
}
