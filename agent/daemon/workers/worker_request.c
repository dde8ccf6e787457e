/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/workers/worker_request.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "agent/daemon/base/loop.h"
#include "agent/daemon/base/parts.h"
#include "agent/daemon/base/server.h"
#include "agent/daemon/workers/worker_child.h"
#include "agent/daemon/workers/worker_process.h"
#include "gpumap.h"
#include "shm/point.h"
#include "shm/queue.h"

#define STRIKES_MAX 2u /* workers that one claim may cost */

static void take_off(struct gm_worker_request *claim)
{
	TAILQ_REMOVE(&claim->attachment->claims, claim, entry);
	claim->attachment = NULL;
}

static void end(struct gm_worker_request *claim, int status, const char *why)
{
	take_off(claim);
	claim->gone(claim, status, why);
}

/* Has the worker something mapped for it, as long as it is HELD? */
static bool is_kept(const struct gm_worker_request *claim)
{
	return claim->ask == GM_WIRE_REGISTER || claim->ask == GM_WIRE_IMPORT ||
	       claim->ask == GM_WIRE_BORROW || claim->ask == GM_WIRE_JOIN;
}

/* Is it answered with a descriptor? */
static bool gives_fd(const struct gm_worker_request *claim)
{
	return claim->ask == GM_WIRE_EXPORT || claim->ask == GM_WIRE_PROVE;
}

/* Was it registered before, and stays?  The next worker has it before it begins
 * any job of the session, because jobs name it as soon as they find that
 * worker. */
static bool is_awaited(const struct gm_worker_request *claim)
{
	return claim->was_held && claim->ask == GM_WIRE_REGISTER;
}

/* ---- what is asked ----------------------------------------------------- */

static int say(struct gm_worker_process *worker,
	       struct gm_attachment *attachment,
	       const struct gm_worker_request *claim, enum gm_wire_type type)
{
	struct gm_wire wire = {
		.type = type,
		.session = attachment->session,
		.place = attachment->place,
		.handle = claim->handle,
	};

	if (type == GM_WIRE_FORGET)
		return gm_worker_child_send(worker, &wire, NULL, 0);
	if (claim->ask == GM_WIRE_JOIN) {
		wire.join = claim->join;
	} else {
		wire.buffer = claim->buffer;
		wire.buffer.is_awaited = is_awaited(claim);
	}
	if (claim->kernel)
		snprintf(wire.text, sizeof(wire.text), "%s", claim->kernel);
	return gm_worker_child_send(worker, &wire, &claim->fd,
				    claim->fd < 0 ? 0 : 1);
}

/* The request was HELD once, and the row's present worker does not hold it. */
static bool is_missed(const struct gm_worker_request *claim)
{
	return claim->was_held && !claim->leaves &&
	       claim->state <= GM_WORKER_REQUEST_ASKED;
}

static bool is_fetch(const struct gm_worker_request *claim)
{
	return claim->ask == GM_WIRE_FETCH;
}

int gm_worker_requests_send(struct gm_worker_process *worker,
			    struct gm_attachment *attachment, bool *ret_waits)
{
	struct gm_worker_request *claim;

	attachment->asks = false;
	TAILQ_FOREACH(claim, &attachment->claims, entry)
	{
		int error = 0;

		attachment->asks |= claim->state == GM_WORKER_REQUEST_WAITING;
		/* Memory that takes long to reach is its client's trouble, and
		 * does not keep the row from others. */
		if (is_missed(claim) &&
		    gm_loop_now() - worker->since_ns < GM_CLAIMS_WAIT_NS)
			*ret_waits = true;
		if (claim->state == GM_WORKER_REQUEST_LEAVING) {
			error = say(worker, attachment, claim, GM_WIRE_FORGET);
			if (error == 0)
				claim->state = GM_WORKER_REQUEST_LEFT;
		}
		if (error)
			return error;
	}
	return 0;
}

/* Jobs of another row wait for pieces, which may be one that drains, too, and
 * that we wait for: they are fetched for as long as there is a worker. */
static bool may_fetch(const struct gm_attachment *attachment)
{
	return attachment->worker->state == GM_PROCESS_SERVING &&
	       !attachment->worker->is_recovery &&
	       attachment->state == GM_ATTACHMENT_TAKEN;
}

/* The first of a seat's that there is a place for. */
static struct gm_worker_request *
first_waiting(const struct gm_worker_process *worker,
	      const struct gm_attachment *attachment)
{
	struct gm_worker_request *claim;

	TAILQ_FOREACH(claim, &attachment->claims, entry)
	{
		if (claim->state == GM_WORKER_REQUEST_WAITING &&
		    (is_fetch(claim) || !worker->drain_sent) &&
		    gm_user_queue_have_place(worker, attachment,
					     is_fetch(claim)))
			break;
	}
	return claim;
}

static struct gm_worker_request *
next_claim(const struct gm_worker_process *worker)
{
	struct gm_worker_request *claim, *next = NULL;
	const struct gm_attachment *attachment;

	TAILQ_FOREACH(attachment, &worker->attachments, entry)
	{
		if (attachment->state != GM_ATTACHMENT_TAKEN ||
		    !attachment->asks ||
		    (next &&
		     !gm_user_queue_are_before(attachment, next->attachment)))
			continue;
		claim = first_waiting(worker, attachment);
		if (claim)
			next = claim;
	}
	return next;
}

int gm_worker_requests_ask_all(struct gm_worker_process *worker)
{
	struct gm_worker_request *claim;

	while (worker->n_asked < GM_USER_QUEUE_MOST &&
	       (claim = next_claim(worker)) != NULL) {
		int error = say(worker, claim->attachment, claim, claim->ask);

		if (error)
			return error;
		claim->state = GM_WORKER_REQUEST_ASKED;
		gm_user_queue_asked(worker, claim->attachment, is_fetch(claim));
		GM_POINT("claim_asked");
	}
	return 0;
}

static int check_attachment(const struct gm_attachment *attachment,
			    char ret_why[GM_WHY_BYTES])
{
	const struct gm_worker_process *worker = attachment->worker;

	if (!worker || worker->draining ||
	    attachment->state >= GM_ATTACHMENT_LEAVING)
		return gm_why(ret_why, -ESHUTDOWN,
			      "the row is being given up; open its queue anew");
	if (worker->state == GM_PROCESS_STUCK ||
	    worker->state == GM_PROCESS_OFF ||
	    gm_worker_child_is_barred(worker) ||
	    gm_worker_child_rests_long(worker))
		return gm_why(ret_why, -ENODEV,
			      "row %u has no worker now; see its reason in "
			      "gpumapctl devices, or use another row",
			      worker->row);
	return 0;
}

int gm_worker_requests_add(struct gm_attachment *attachment,
			   struct gm_worker_request *claim,
			   char ret_why[GM_WHY_BYTES])
{
	struct gm_worker_process *worker = attachment->worker;
	int error = 0;

	if (!worker || !is_fetch(claim) || !may_fetch(attachment))
		error = check_attachment(attachment, ret_why);
	if (error)
		return error;
	claim->attachment = attachment;
	claim->state = GM_WORKER_REQUEST_WAITING;
	TAILQ_INSERT_TAIL(&attachment->claims, claim, entry);
	return 0;
}

uint32_t gm_worker_requests_awaited(const struct gm_attachment *attachment)
{
	const struct gm_worker_request *claim;
	uint32_t n = 0;

	TAILQ_FOREACH(claim, &attachment->claims, entry)
	n += is_awaited(claim);
	return n;
}

bool gm_worker_requests_leave(struct gm_worker_request *claim)
{
	struct gm_attachment *attachment = claim->attachment;

	/* A worker has to unmap what it has mapped, and FORGET can be sent only
	 * after its answer.  The same holds for registrations that it
	 * awaits. */
	if ((claim->state == GM_WORKER_REQUEST_ASKED && is_kept(claim)) ||
	    (claim->state == GM_WORKER_REQUEST_WAITING && is_awaited(claim) &&
	     attachment->state != GM_ATTACHMENT_WAITING &&
	     !attachment->worker->is_recovery)) {
		claim->leaves = true; /* no session waits for it now */
		return true;
	}
	if (claim->state == GM_WORKER_REQUEST_HELD && is_kept(claim)) {
		claim->state = GM_WORKER_REQUEST_LEAVING;
		return true;
	}
	if (claim->state < GM_WORKER_REQUEST_LEAVING)
		end(claim, 0, "");
	return false;
}

/* ---- what is answered -------------------------------------------------- */

/* The request that this record answers; 0 for FORGOTTEN and for other
 * records. */
static uint32_t question_of(uint32_t answer)
{
	switch (answer) {
	case GM_WIRE_REGISTERED:
		return GM_WIRE_REGISTER;
	case GM_WIRE_EXPORTED:
		return GM_WIRE_EXPORT;
	case GM_WIRE_IMPORTED:
		return GM_WIRE_IMPORT;
	case GM_WIRE_PROVEN:
		return GM_WIRE_PROVE;
	case GM_WIRE_TRIED:
		return GM_WIRE_TRY;
	case GM_WIRE_LENT:
		return GM_WIRE_LEND;
	case GM_WIRE_BORROWED:
		return GM_WIRE_BORROW;
	case GM_WIRE_FETCHED:
		return GM_WIRE_FETCH;
	case GM_WIRE_JOINED:
		return GM_WIRE_JOIN;
	default:
		return 0;
	}
}

static struct gm_attachment *attachment_of(struct gm_worker_process *worker,
					   uint64_t session)
{
	struct gm_attachment *attachment;

	TAILQ_FOREACH(attachment, &worker->attachments, entry)
	{
		if (attachment->session == session)
			break;
	}
	return attachment;
}

/* The claim that an answer is about: it may have left meanwhile, and then there
 * is none. */
static struct gm_worker_request *find(struct gm_worker_process *worker,
				      const struct gm_wire *wire)
{
	uint32_t ask = question_of(wire->type);
	struct gm_attachment *attachment = attachment_of(worker, wire->session);
	struct gm_worker_request *claim;

	if (!attachment)
		return NULL;
	TAILQ_FOREACH(claim, &attachment->claims, entry)
	{
		if (claim->handle != wire->handle ||
		    (ask == GM_WIRE_FETCH &&
		     (claim->buffer.borrower != wire->buffer.borrower ||
		      claim->buffer.stage_at != wire->buffer.stage_at)))
			continue;
		if (ask ? claim->ask == ask &&
				    claim->state == GM_WORKER_REQUEST_ASKED
			: claim->state == GM_WORKER_REQUEST_LEFT)
			return claim;
	}
	return NULL;
}

static const char *words_of(const struct gm_worker_request *claim, int status)
{
	switch (status) {
	case -ENOMEM:
		return "there is not so much memory";
	case -EMFILE:
		return "no descriptor is left for it; raise LimitNOFILE of "
		       "gpumapd";
	case -ESTALE:
		return "the session has no buffer of this handle";
	case -EEXIST:
		return "the handle is in use";
	case -EDQUOT:
		return "it is more than the session may have of this row";
	case -EOPNOTSUPP:
		return claim->ask == GM_WIRE_EXPORT
			       ? "the buffer was not allocated as "
				 "GPUMAP_BUFFER_EXPORTABLE, or the row cannot"
			       : "the row cannot do that";
	default:
		return "the worker could not do it; see its log";
	}
}

static void refused(struct gm_worker_request *claim, int status,
		    const char *text)
{
	struct gm_attachment *attachment = claim->attachment;

	if (claim->leaves) {
		end(claim, 0, "");
		return;
	}
	if (claim->was_held) {
		attachment->broken(attachment,
				   "a new worker could not reach what the "
				   "session has registered");
		return;
	}
	end(claim, status, text[0] ? text : words_of(claim, status));
}

/* Returns whether it has taken the descriptor. */
static bool granted(struct gm_worker_request *claim, const struct gm_wire *wire,
		    int fd)
{
	bool takes_fd = gives_fd(claim);

	claim->state = GM_WORKER_REQUEST_HELD;
	claim->strikes = 0;
	if (claim->leaves)
		gm_worker_requests_leave(claim);
	if (claim->was_held)
		return false;
	claim->was_held = true;
	/* This may be the end of the claim. */
	claim->held(claim,
		    claim->ask == GM_WIRE_JOIN ? wire->joined.device_bytes
					       : wire->buffer.bytes,
		    fd);
	return takes_fd;
}

bool gm_worker_requests_on_message(struct gm_worker_process *worker,
				   const struct gm_wire *wire, int fd)
{
	struct gm_worker_request *claim;
	bool is_taken = false;

	if (wire->type == GM_WIRE_FORGOTTEN) {
		claim = find(worker, wire);
		if (claim)
			end(claim, 0, "");
	} else if (question_of(wire->type)) {
		gm_user_queue_answered(worker,
				       attachment_of(worker, wire->session),
				       wire->type == GM_WIRE_FETCHED);
		claim = find(worker, wire);
		if (claim && wire->status < 0)
			refused(claim, wire->status, wire->text);
		else if (claim && gives_fd(claim) && fd < 0)
			refused(claim, -EMFILE, "");
		else if (claim)
			is_taken = granted(claim, wire, fd);
	} else {
		return false;
	}
	/* The descriptor may be the last reference to the memory. */
	if (!is_taken && worker->d->server)
		gm_close_thread_close(&worker->d->server->close_thread, fd);
	else if (!is_taken && fd >= 0)
		close(fd);
	return true;
}

/* ---- deaths ------------------------------------------------------------ */

/* The oldest request need not be the cause of the death: its answer may have
 * been on the way.  The journal names the cause.  Requests other than
 * registrations are gone with their worker. */
void gm_worker_requests_strike(struct gm_worker_process *worker)
{
	struct gm_journal *signs = worker->journal;
	uint64_t place = gm_get(&signs->slow_place);
	uint64_t handle = gm_get(&signs->slow_handle);
	struct gm_worker_request *claim;
	struct gm_attachment *attachment;

	TAILQ_FOREACH(attachment, &worker->attachments, entry)
	TAILQ_FOREACH(claim, &attachment->claims, entry)
	{
		if (claim->state == GM_WORKER_REQUEST_ASKED &&
		    claim->ask == GM_WIRE_REGISTER && claim->handle == handle &&
		    attachment->place + 1 == place)
			claim->strikes++;
	}
	gm_put(&signs->slow_place, 0);
	gm_user_queue_silence(worker);
}

/* Made for this worker by itself, and not to be had for the next. */
static bool is_devices(const struct gm_worker_request *claim)
{
	return claim->buffer.kind == GPUMAP_DEVICE_CUDA;
}

/* A request of this attachment that does not wait for the next worker. */
static struct gm_worker_request *first_lost(struct gm_attachment *attachment)
{
	struct gm_worker_request *claim;

	TAILQ_FOREACH(claim, &attachment->claims, entry)
	{
		if (claim->ask != GM_WIRE_REGISTER || is_devices(claim) ||
		    claim->state >= GM_WORKER_REQUEST_LEAVING ||
		    claim->leaves ||
		    (claim->state == GM_WORKER_REQUEST_ASKED &&
		     !claim->was_held))
			return claim;
	}
	return NULL;
}

static bool kills(struct gm_attachment *attachment)
{
	const struct gm_worker_request *claim;

	TAILQ_FOREACH(claim, &attachment->claims, entry)
	{
		if (claim->strikes >= STRIKES_MAX)
			return true;
	}
	return false;
}

/* The owner's callback may end the session.  Its attachment leaves the row at
 * once then, because no child has it mapped, with all of its requests.  So the
 * search begins anew each time, and finds the attachment by its session's
 * number. */
void gm_worker_requests_worker_gone(struct gm_attachment *attachment)
{
	struct gm_worker_process *worker = attachment->worker;
	uint64_t session = attachment->session;
	struct gm_worker_request *claim;

	if (kills(attachment)) {
		attachment->broken(attachment,
				   "workers die of what it has registered");
		return;
	}
	while ((attachment = attachment_of(worker, session)) &&
	       (claim = first_lost(attachment))) {
		bool has_left = claim->leaves ||
				claim->state >= GM_WORKER_REQUEST_LEAVING;

		end(claim, has_left ? 0 : -ESTALE,
		    has_left ? "" : "the row's worker has died over it");
	}
	if (!attachment)
		return;
	TAILQ_FOREACH(claim, &attachment->claims, entry)
	claim->state = GM_WORKER_REQUEST_WAITING;
}

void gm_worker_requests_attachment_gone(struct gm_attachment *attachment)
{
	struct gm_worker_request *claim;

	while ((claim = TAILQ_FIRST(&attachment->claims)))
		end(claim, -ESHUTDOWN, "the session has left the row");
}

/* As in attachment.c: one that is stuck will give no answer. */
static struct gm_worker_request *
first_newcomer(const struct gm_worker_process *worker)
{
	enum gm_worker_request_state last = worker->state == GM_PROCESS_STUCK
						    ? GM_WORKER_REQUEST_ASKED
						    : GM_WORKER_REQUEST_WAITING;
	struct gm_worker_request *claim;
	struct gm_attachment *attachment;

	TAILQ_FOREACH(attachment, &worker->attachments, entry)
	TAILQ_FOREACH(claim, &attachment->claims, entry)
	{
		if (claim->state <= last && !claim->was_held &&
		    !claim->leaves &&
		    !(is_fetch(claim) && may_fetch(attachment)))
			return claim;
	}
	return NULL;
}

void gm_worker_requests_refuse_newcomers(struct gm_worker_process *worker,
					 int status, const char *why)
{
	struct gm_worker_request *claim;

	while ((claim = first_newcomer(worker)))
		end(claim, status, why);
}
