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

#define STRIKES_MAX 2u /* workers that one request may cost */

static void take_off(struct gm_worker_request *request)
{
	TAILQ_REMOVE(&request->attachment->requests, request, entry);
	request->attachment = NULL;
}

static void end(struct gm_worker_request *request, int status, const char *why)
{
	take_off(request);
	request->gone(request, status, why);
}

/* Has the worker something mapped for it, as long as it is HELD? */
static bool is_kept(const struct gm_worker_request *request)
{
	return request->ask == GM_WIRE_REGISTER ||
	       request->ask == GM_WIRE_IMPORT ||
	       request->ask == GM_WIRE_BORROW || request->ask == GM_WIRE_JOIN;
}

/* Is it answered with a descriptor? */
static bool gives_fd(const struct gm_worker_request *request)
{
	return request->ask == GM_WIRE_EXPORT || request->ask == GM_WIRE_PROVE;
}

/* Was it registered before, and stays?  The next worker has it before it begins
 * any job of the session, because jobs name it as soon as they find that
 * worker. */
static bool is_awaited(const struct gm_worker_request *request)
{
	return request->was_held && request->ask == GM_WIRE_REGISTER;
}

/* ---- what is asked ----------------------------------------------------- */

static int say(struct gm_worker_process *worker,
	       struct gm_attachment *attachment,
	       const struct gm_worker_request *request, enum gm_wire_type type)
{
	struct gm_wire wire = {
		.type = type,
		.session = attachment->session,
		.place = attachment->place,
		.handle = request->handle,
	};

	if (type == GM_WIRE_FORGET)
		return gm_worker_child_send(worker, &wire, NULL, 0);
	if (request->ask == GM_WIRE_JOIN) {
		wire.join = request->join;
	} else {
		wire.buffer = request->buffer;
		wire.buffer.is_awaited = is_awaited(request);
	}
	if (request->kernel)
		snprintf(wire.text, sizeof(wire.text), "%s", request->kernel);
	return gm_worker_child_send(worker, &wire, &request->fd,
				    request->fd < 0 ? 0 : 1);
}

/* The request was HELD once, and the row's present worker does not hold it. */
static bool is_missed(const struct gm_worker_request *request)
{
	return request->was_held && !request->leaves &&
	       request->state <= GM_WORKER_REQUEST_ASKED;
}

static bool is_fetch(const struct gm_worker_request *request)
{
	return request->ask == GM_WIRE_FETCH;
}

int gm_worker_requests_send(struct gm_worker_process *worker,
			    struct gm_attachment *attachment, bool *ret_waits)
{
	struct gm_worker_request *request;

	attachment->asks = false;
	TAILQ_FOREACH(request, &attachment->requests, entry)
	{
		int error = 0;

		attachment->asks |= request->state == GM_WORKER_REQUEST_WAITING;
		/* Memory that takes long to reach is its client's trouble, and
		 * does not keep the row from others. */
		if (is_missed(request) && gm_loop_now() - worker->since_ns <
						  GM_WORKER_REQUESTS_WAIT_NS)
			*ret_waits = true;
		if (request->state == GM_WORKER_REQUEST_LEAVING) {
			error = say(worker, attachment, request,
				    GM_WIRE_FORGET);
			if (error == 0)
				request->state = GM_WORKER_REQUEST_LEFT;
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
	struct gm_worker_request *request;

	TAILQ_FOREACH(request, &attachment->requests, entry)
	{
		if (request->state == GM_WORKER_REQUEST_WAITING &&
		    (is_fetch(request) || !worker->drain_sent) &&
		    gm_user_queue_have_place(worker, attachment,
					     is_fetch(request)))
			break;
	}
	return request;
}

static struct gm_worker_request *
next_request(const struct gm_worker_process *worker)
{
	struct gm_worker_request *request, *next = NULL;
	const struct gm_attachment *attachment;

	TAILQ_FOREACH(attachment, &worker->attachments, entry)
	{
		if (attachment->state != GM_ATTACHMENT_TAKEN ||
		    !attachment->asks ||
		    (next &&
		     !gm_user_queue_are_before(attachment, next->attachment)))
			continue;
		request = first_waiting(worker, attachment);
		if (request)
			next = request;
	}
	return next;
}

int gm_worker_requests_ask_all(struct gm_worker_process *worker)
{
	struct gm_worker_request *request;

	while (worker->n_asked < GM_USER_QUEUE_MOST &&
	       (request = next_request(worker)) != NULL) {
		int error =
			say(worker, request->attachment, request, request->ask);

		if (error)
			return error;
		request->state = GM_WORKER_REQUEST_ASKED;
		worker->n_joining += request->ask == GM_WIRE_JOIN;
		gm_user_queue_asked(worker, request->attachment,
				    is_fetch(request));
		GM_POINT("worker_request_asked");
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
			   struct gm_worker_request *request,
			   char ret_why[GM_WHY_BYTES])
{
	struct gm_worker_process *worker = attachment->worker;
	int error = 0;

	if (!worker || !is_fetch(request) || !may_fetch(attachment))
		error = check_attachment(attachment, ret_why);
	if (error)
		return error;
	request->attachment = attachment;
	request->state = GM_WORKER_REQUEST_WAITING;
	TAILQ_INSERT_TAIL(&attachment->requests, request, entry);
	return 0;
}

uint32_t gm_worker_requests_awaited(const struct gm_attachment *attachment)
{
	const struct gm_worker_request *request;
	uint32_t n = 0;

	TAILQ_FOREACH(request, &attachment->requests, entry)
	n += is_awaited(request);
	return n;
}

bool gm_worker_requests_leave(struct gm_worker_request *request)
{
	struct gm_attachment *attachment = request->attachment;

	/* A worker has to unmap what it has mapped, and FORGET can be sent only
	 * after its answer.  The same holds for registrations that it
	 * awaits. */
	if ((request->state == GM_WORKER_REQUEST_ASKED && is_kept(request)) ||
	    (request->state == GM_WORKER_REQUEST_WAITING &&
	     is_awaited(request) &&
	     attachment->state != GM_ATTACHMENT_WAITING &&
	     !attachment->worker->is_recovery)) {
		request->leaves = true; /* no session waits for it now */
		return true;
	}
	if (request->state == GM_WORKER_REQUEST_HELD && is_kept(request)) {
		request->state = GM_WORKER_REQUEST_LEAVING;
		return true;
	}
	if (request->state < GM_WORKER_REQUEST_LEAVING)
		end(request, 0, "");
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

/* The request that an answer is about, or NULL: it may have left meanwhile. */
static struct gm_worker_request *find(struct gm_worker_process *worker,
				      const struct gm_wire *wire)
{
	uint32_t ask = question_of(wire->type);
	struct gm_attachment *attachment = attachment_of(worker, wire->session);
	struct gm_worker_request *request;

	if (!attachment)
		return NULL;
	TAILQ_FOREACH(request, &attachment->requests, entry)
	{
		if (request->handle != wire->handle ||
		    (ask == GM_WIRE_FETCH &&
		     (request->buffer.borrower != wire->buffer.borrower ||
		      request->buffer.stage_at != wire->buffer.stage_at)))
			continue;
		if (ask ? request->ask == ask &&
				    request->state == GM_WORKER_REQUEST_ASKED
			: request->state == GM_WORKER_REQUEST_LEFT)
			return request;
	}
	return NULL;
}

static const char *words_of(const struct gm_worker_request *request, int status)
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
		return request->ask == GM_WIRE_EXPORT
			       ? "the buffer was not allocated as "
				 "GPUMAP_BUFFER_EXPORTABLE, or the row cannot"
			       : "the row cannot do that";
	default:
		return "the worker could not do it; see its log";
	}
}

static void refused(struct gm_worker_request *request, int status,
		    const char *text)
{
	struct gm_attachment *attachment = request->attachment;

	if (request->leaves) {
		end(request, 0, "");
		return;
	}
	if (request->was_held) {
		attachment->broken(attachment,
				   "a new worker could not reach what the "
				   "session has registered");
		return;
	}
	end(request, status, text[0] ? text : words_of(request, status));
}

/* Returns whether it has taken the descriptor. */
static bool granted(struct gm_worker_request *request,
		    const struct gm_wire *wire, int fd)
{
	bool takes_fd = gives_fd(request);

	request->state = GM_WORKER_REQUEST_HELD;
	request->strikes = 0;
	if (request->leaves)
		gm_worker_requests_leave(request);
	if (request->was_held)
		return false;
	request->was_held = true;
	/* This may be the end of the request. */
	request->held(request,
		      request->ask == GM_WIRE_JOIN ? wire->joined.device_bytes
						   : wire->buffer.bytes,
		      fd);
	return takes_fd;
}

bool gm_worker_requests_on_message(struct gm_worker_process *worker,
				   const struct gm_wire *wire, int fd)
{
	struct gm_worker_request *request;
	bool is_taken = false;

	if (wire->type == GM_WIRE_FORGOTTEN) {
		request = find(worker, wire);
		if (request)
			end(request, 0, "");
	} else if (question_of(wire->type)) {
		gm_user_queue_answered(worker,
				       attachment_of(worker, wire->session),
				       wire->type == GM_WIRE_FETCHED);
		if (wire->type == GM_WIRE_JOINED && worker->n_joining > 0)
			worker->n_joining--;
		request = find(worker, wire);
		if (request && wire->status < 0)
			refused(request, wire->status, wire->text);
		else if (request && gives_fd(request) && fd < 0)
			refused(request, -EMFILE, "");
		else if (request)
			is_taken = granted(request, wire, fd);
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
	struct gm_worker_request *request;
	struct gm_attachment *attachment;

	TAILQ_FOREACH(attachment, &worker->attachments, entry)
	TAILQ_FOREACH(request, &attachment->requests, entry)
	{
		if (request->state == GM_WORKER_REQUEST_ASKED &&
		    request->ask == GM_WIRE_REGISTER &&
		    request->handle == handle && attachment->place + 1 == place)
			request->strikes++;
	}
	gm_put(&signs->slow_place, 0);
	gm_user_queue_silence(worker);
}

/* Made for this worker by itself, and not to be had for the next. */
static bool is_devices(const struct gm_worker_request *request)
{
	return request->buffer.is_card;
}

/* A request of this attachment that does not wait for the next worker. */
static struct gm_worker_request *first_lost(struct gm_attachment *attachment)
{
	struct gm_worker_request *request;

	TAILQ_FOREACH(request, &attachment->requests, entry)
	{
		if (request->ask != GM_WIRE_REGISTER || is_devices(request) ||
		    request->state >= GM_WORKER_REQUEST_LEAVING ||
		    request->leaves ||
		    (request->state == GM_WORKER_REQUEST_ASKED &&
		     !request->was_held))
			return request;
	}
	return NULL;
}

static bool kills(struct gm_attachment *attachment)
{
	const struct gm_worker_request *request;

	TAILQ_FOREACH(request, &attachment->requests, entry)
	{
		if (request->strikes >= STRIKES_MAX)
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
	struct gm_worker_request *request;

	if (kills(attachment)) {
		attachment->broken(attachment,
				   "workers die of what it has registered");
		return;
	}
	while ((attachment = attachment_of(worker, session)) &&
	       (request = first_lost(attachment))) {
		bool has_left = request->leaves ||
				request->state >= GM_WORKER_REQUEST_LEAVING;

		end(request, has_left ? 0 : -ESTALE,
		    has_left ? "" : "the row's worker has died over it");
	}
	if (!attachment)
		return;
	TAILQ_FOREACH(request, &attachment->requests, entry)
	request->state = GM_WORKER_REQUEST_WAITING;
}

void gm_worker_requests_attachment_gone(struct gm_attachment *attachment)
{
	struct gm_worker_request *request;

	while ((request = TAILQ_FIRST(&attachment->requests)))
		end(request, -ESHUTDOWN, "the session has left the row");
}

/* As in attachment.c: one that is stuck will give no answer. */
static struct gm_worker_request *
first_newcomer(const struct gm_worker_process *worker)
{
	enum gm_worker_request_state last = worker->state == GM_PROCESS_STUCK
						    ? GM_WORKER_REQUEST_ASKED
						    : GM_WORKER_REQUEST_WAITING;
	struct gm_worker_request *request;
	struct gm_attachment *attachment;

	TAILQ_FOREACH(attachment, &worker->attachments, entry)
	TAILQ_FOREACH(request, &attachment->requests, entry)
	{
		if (request->state <= last && !request->was_held &&
		    !request->leaves &&
		    !(is_fetch(request) && may_fetch(attachment)))
			return request;
	}
	return NULL;
}

void gm_worker_requests_refuse_newcomers(struct gm_worker_process *worker,
					 int status, const char *why)
{
	struct gm_worker_request *request;

	while ((request = first_newcomer(worker)))
		end(request, status, why);
}
