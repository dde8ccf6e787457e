/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/workers/attachment.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "agent/common/log.h"
#include "agent/daemon/account/credit.h"
#include "agent/daemon/account/quota.h"
#include "agent/daemon/account/usage.h"
#include "agent/daemon/base/loop.h"
#include "agent/daemon/base/parts.h"
#include "agent/daemon/config.h"
#include "agent/daemon/devices/rows.h"
#include "agent/daemon/workers/death.h"
#include "agent/daemon/workers/worker_child.h"
#include "agent/daemon/workers/worker_users.h"
#include "shm/point.h"

#define WITHHELD    "its memory keeps the worker waiting"
#define STRIKES_MAX 16u /* recovery processes that may die over one session */

/* A worker gets the attachment's next incarnation, a recovery process that of
 * the dead worker. */
static int offer(struct gm_worker_process *worker,
		 struct gm_attachment *attachment)
{
	uint32_t incarnation =
		attachment->incarnation + (worker->is_recovery ? 0 : 1);
	struct gm_wire wire = {
		.type = GM_WIRE_ATTACH,
		.status =
			worker->is_recovery && gm_worker_child_is_barred(worker)
				? -ENODEV
				: 0,
		.session = attachment->session,
		.place = attachment->place,
		.attach.depth = attachment->depth,
		.attach.incarnation = incarnation,
		.attach.uid = attachment->uid,
		.attach.queue_at = attachment->queue_at,
		.attach.arena_bytes = attachment->arena_bytes,
		.attach.range_at = attachment->range_at,
		.attach.range_bytes = attachment->range_bytes,
		.attach.n_awaited =
			worker->is_recovery
				? 0
				: gm_worker_requests_awaited(attachment),
		.attach.quota = gm_quota_of(
			worker->d, worker->row, attachment->uid,
			gm_usage_within_reach(worker, attachment->uid)),
	};
	int fds[4] = { attachment->queues, attachment->arena,
		       attachment->doorbell, attachment->socket };
	int error = gm_worker_child_send(worker, &wire, fds,
					 attachment->socket < 0 ? 3 : 4);

	if (error)
		return error;
	attachment->incarnation = incarnation;
	attachment->state = GM_ATTACHMENT_OFFERED;
	worker->n_offered++;
	GM_POINT("attachment_offered");
	return 0;
}

static int ask_to_leave(struct gm_worker_process *worker,
			struct gm_attachment *attachment)
{
	struct gm_wire wire = {
		.type = GM_WIRE_DETACH,
		.session = attachment->session,
		.place = attachment->place,
	};
	int error = gm_worker_child_send(worker, &wire, NULL, 0);

	if (error == 0)
		attachment->state = GM_ATTACHMENT_LEFT;
	return error;
}

/* Is there a message to send about this attachment now? */
static bool is_next(const struct gm_worker_process *worker,
		    const struct gm_attachment *attachment)
{
	if (worker->is_recovery)
		return attachment->state == GM_ATTACHMENT_WAITING &&
		       attachment->is_owed &&
		       worker->n_offered < GM_ATTACHMENTS_OFFERED;
	if (attachment->state == GM_ATTACHMENT_LEAVING)
		return true;
	return attachment->state == GM_ATTACHMENT_WAITING &&
	       !worker->drain_sent &&
	       worker->n_offered < GM_ATTACHMENTS_OFFERED;
}

/* Returns 0 when all is said, 1 when answers are awaited to what was, or a
 * negative errno. */
static int say_all(struct gm_worker_process *worker)
{
	struct gm_attachment *attachment;
	bool waits = false;
	int error = gm_worker_users_send(worker);

	TAILQ_FOREACH(attachment, &worker->attachments, entry)
	{
		if (error)
			return error;

		waits |= attachment->state <= GM_ATTACHMENT_OFFERED;
		if (is_next(worker, attachment))
			error = attachment->state == GM_ATTACHMENT_LEAVING
					? ask_to_leave(worker, attachment)
					: offer(worker, attachment);
		else if (attachment->state == GM_ATTACHMENT_TAKEN &&
			 !worker->is_recovery)
			error = gm_worker_requests_send(worker, attachment,
							&waits);
	}
	if (error == 0 && !worker->is_recovery)
		error = gm_worker_requests_ask_all(worker);
	return error ? error : waits;
}

static bool is_any_owed(const struct gm_worker_process *worker)
{
	const struct gm_attachment *attachment;

	TAILQ_FOREACH(attachment, &worker->attachments, entry)
	{
		if (attachment->is_owed)
			return true;
	}
	return false;
}

void gm_attachments_send_drain(struct gm_worker_process *worker)
{
	struct gm_wire wire = { .type = GM_WIRE_DRAIN };

	/* Without room now, the next look tries again. */
	if (!worker->drain_sent && worker->socket.fd >= 0 &&
	    gm_worker_child_send(worker, &wire, NULL, 0) == 0)
		worker->drain_sent = true;
}

/* Ask to be called when there is room, as long as there is none. */
static void want_room(struct gm_worker_process *worker, bool wants)
{
	if (wants == worker->wants_room)
		return;
	if (gm_loop_mod(worker->d->loop, &worker->socket,
			EPOLLIN | (wants ? (uint32_t)EPOLLOUT : 0)) == 0)
		worker->wants_room = wants;
}

static void send_leave(struct gm_worker_process *worker)
{
	struct gm_wire wire = { .type = GM_WIRE_LEAVE };

	if (worker->may_leave && !worker->leave_sent &&
	    worker->socket.fd >= 0 &&
	    gm_worker_child_send(worker, &wire, NULL, 0) == 0)
		worker->leave_sent = true;
}

/* Not before: what a client submits to a queue that the new worker has not
 * taken yet is of the dead one's incarnation, and ends with -EIO. */
static void settled(struct gm_worker_process *worker)
{
	if (worker->is_shown || worker->draining ||
	    gm_worker_child_is_barred(worker))
		return;
	worker->is_shown = true;
	gm_death_over(worker);
	if (worker->is_card && gm_worker_process_is_shown(worker) &&
	    worker->d->config->cuda_standby)
		gm_standby_want(worker);
	GM_POINT("supervise_ready");
}

void gm_attachments_flush(struct gm_worker_process *worker)
{
	int error;

	if (worker->socket.fd < 0 || (worker->state != GM_PROCESS_SERVING &&
				      worker->state != GM_PROCESS_RECOVERING))
		return;
	error = say_all(worker);
	want_room(worker, error == -EAGAIN);
	if (error == -EPIPE || error == -ECONNRESET)
		gm_worker_child_hung_up(worker);
	else if (error == 0 && !worker->is_recovery)
		settled(worker);
	if (error >= 0 && (worker->is_recovery ? !is_any_owed(worker)
					       : worker->drain_requested))
		gm_attachments_send_drain(worker);
	if (error >= 0)
		send_leave(worker);
}

/* Take the attachment off the row.  The caller tells its owner. */
static void detach(struct gm_worker_process *worker,
		   struct gm_attachment *attachment)
{
	gm_worker_requests_attachment_gone(attachment);
	gm_usage_leaves(attachment);
	gm_credit_recount(worker->d, worker->row);
	gm_user_queue_leave(attachment);
	TAILQ_REMOVE(&worker->attachments, attachment, entry);
	gm_journal_close(gm_journal_at(worker->journal, attachment->place));
	worker->free[worker->n_free++] = (uint16_t)attachment->place;
	attachment->worker = NULL;
	if (!gm_worker_process_has_attachments(worker))
		gm_worker_child_unneeded(worker);
}

static void has_left(struct gm_worker_process *worker,
		     struct gm_attachment *attachment)
{
	detach(worker, attachment);
	attachment->left(attachment);
}

static void worker_attached(struct gm_worker_process *worker,
			    struct gm_attachment *attachment,
			    const struct gm_wire *wire)
{
	if (attachment->state !=
	    GM_ATTACHMENT_OFFERED) /* it is about to leave */
		return;
	if (wire->status < 0 && attachment->was_attached) {
		attachment->broken(attachment,
				   "a new worker could not map its memory");
		return;
	}
	if (wire->status < 0) {
		detach(worker, attachment);
		attachment->attached(
			attachment, wire->status,
			"the worker could not map the session's memory");
		return;
	}
	attachment->state = GM_ATTACHMENT_TAKEN;
	if (!attachment->was_attached) {
		attachment->was_attached = true;
		attachment->attached(attachment, 0, NULL);
	}
}

static void recovery_attached(struct gm_worker_process *worker,
			      struct gm_attachment *attachment,
			      const struct gm_wire *wire)
{
	if (wire->status < 0) {
		/* Its memory cannot be used, so its jobs cannot be ended. */
		attachment->is_owed = false;
		if (attachment->state == GM_ATTACHMENT_OFFERED)
			attachment->state = GM_ATTACHMENT_TAKEN;
		if (wire->status == -EBUSY)
			attachment->stalled(attachment, WITHHELD);
		else
			attachment->broken(attachment,
					   "its memory could not be mapped");
		return;
	}
	attachment->is_owed = false;
	attachment->strikes = 0;
	if (attachment->state == GM_ATTACHMENT_OFFERED)
		attachment->state = GM_ATTACHMENT_TAKEN;
	GM_POINT("attachment_recovered");
}

static struct gm_attachment *find(struct gm_worker_process *worker,
				  const struct gm_wire *wire)
{
	struct gm_attachment *attachment;

	TAILQ_FOREACH(attachment, &worker->attachments, entry)
	{
		if (attachment->session == wire->session)
			return attachment;
	}
	return NULL;
}

/* A child is of the agent's own build, but its messages about attachments may
 * come late: about one that has left, or that the agent has asked to leave. */
void gm_attachments_on_message(struct gm_worker_process *worker,
			       const struct gm_wire *wire)
{
	struct gm_attachment *attachment = find(worker, wire);

	if (wire->type == GM_WIRE_ATTACHED && worker->n_offered)
		worker->n_offered--;
	if (!attachment)
		return;
	if (wire->type == GM_WIRE_ATTACHED && worker->is_recovery) {
		recovery_attached(worker, attachment, wire);
	} else if (wire->type == GM_WIRE_ATTACHED) {
		worker_attached(worker, attachment, wire);
	} else if (wire->type == GM_WIRE_DETACHED) {
		if (attachment->state == GM_ATTACHMENT_LEFT)
			has_left(worker, attachment);
	} else {
		gm_log_of(attachment->uid, GM_LOG_WARNING, "violation",
			  "row=%u%s session=%llu reason=%s", worker->row,
			  worker->of, (unsigned long long)wire->session,
			  gm_quote(wire->text).text);
		if (wire->status == -EBUSY)
			attachment->stalled(attachment, wire->text);
		else
			attachment->broken(attachment, wire->text);
	}
}

void gm_attachments_stalled(struct gm_worker_process *worker, uint32_t place)
{
	struct gm_attachment *attachment;

	TAILQ_FOREACH(attachment, &worker->attachments, entry)
	{
		if (attachment->place == place)
			break;
	}
	if (attachment && attachment->state < GM_ATTACHMENT_LEAVING)
		attachment->stalled(attachment, WITHHELD);
}

/* The recovery process died over the first attachment that it had not answered
 * for. */
static void strike(struct gm_worker_process *worker)
{
	struct gm_attachment *attachment;

	TAILQ_FOREACH(attachment, &worker->attachments, entry)
	{
		if (attachment->state == GM_ATTACHMENT_OFFERED)
			break;
	}
	if (!attachment || ++attachment->strikes < STRIKES_MAX)
		return;
	attachment->is_owed = false;
	attachment->broken(attachment, "recoveries die of its memory");
}

bool gm_attachments_child_gone(struct gm_worker_process *worker)
{
	struct gm_attachment *attachment, *next;
	bool is_owed = false;

	if (worker->is_recovery)
		strike(worker);
	else
		gm_worker_requests_strike(worker);
	if (!worker->is_recovery) {
		gm_usage_ends(worker);
		gm_credit_recount(worker->d, worker->row);
	}
	gm_worker_users_hung_up(worker);
	worker->n_offered = 0;
	worker->wants_room = false;
	worker->drain_sent = false;
	for (attachment = TAILQ_FIRST(&worker->attachments); attachment;
	     attachment = next) {
		next = TAILQ_NEXT(attachment, entry);
		if (attachment->state == GM_ATTACHMENT_LEAVING ||
		    attachment->state == GM_ATTACHMENT_LEFT) {
			has_left(worker, attachment);
			continue;
		}
		if (!worker->is_recovery &&
		    attachment->state != GM_ATTACHMENT_WAITING)
			attachment->is_owed = true;
		attachment->state = GM_ATTACHMENT_WAITING;
		is_owed |= attachment->is_owed;
		if (!worker->is_recovery) /* may free it */
			gm_worker_requests_worker_gone(attachment);
	}
	return is_owed;
}

bool gm_attachments_owe_all(struct gm_worker_process *worker)
{
	struct gm_attachment *attachment;

	TAILQ_FOREACH(attachment, &worker->attachments, entry)
	attachment->is_owed = true;
	return gm_worker_process_has_attachments(worker);
}

/* ---- refusals ---------------------------------------------------------- */

static int refuse_for_long(const struct gm_worker_process *worker,
			   char ret_why[GM_WHY_BYTES])
{
	return gm_why(
		ret_why, -ENODEV,
		"the worker of row %u died %u times before its first job, "
		"and rests; see its reason in %sthe log, or use another row",
		worker->row, worker->early_deaths,
		gm_worker_process_is_shown(worker) ? "gpumapctl devices and "
						   : "");
}

static int refuse_barred(const struct gm_worker_process *worker,
			 char ret_why[GM_WHY_BYTES])
{
	const struct gm_moving_image *moving =
		&worker->d->devices->of[worker->row]->moving;

	return gm_why(ret_why, -ENODEV,
		      "row %u cannot be used now (%.*s); use another row",
		      worker->row, (int)sizeof(moving->reason),
		      moving->reason[0] ? moving->reason : "no reason given");
}

static int refuse_stuck(const struct gm_worker_process *worker,
			char ret_why[GM_WHY_BYTES])
{
	return gm_why(ret_why, -ENODEV,
		      "the worker of row %u (pid %d) does not end, not even "
		      "by SIGKILL; use another row",
		      worker->row, (int)worker->child.pid);
}

/* Returns 0 if a new session may come to the worker, or -ENODEV with the
 * reason. */
int gm_attachments_admit(const struct gm_worker_process *worker,
			 char ret_why[GM_WHY_BYTES])
{
	if (worker->state == GM_PROCESS_STUCK)
		return refuse_stuck(worker, ret_why);
	if (gm_worker_child_is_barred(worker))
		return refuse_barred(worker, ret_why);
	if (gm_worker_child_rests_long(worker))
		return refuse_for_long(worker, ret_why);
	return 0;
}

/* The death of a worker ends attachments that were offered to it.  A stuck
 * worker does not die and never runs again, so these are refused, too. */
static struct gm_attachment *
first_newcomer(const struct gm_worker_process *worker)
{
	enum gm_attachment_state last = worker->state == GM_PROCESS_STUCK
						? GM_ATTACHMENT_OFFERED
						: GM_ATTACHMENT_WAITING;
	struct gm_attachment *attachment;

	TAILQ_FOREACH(attachment, &worker->attachments, entry)
	if (!attachment->was_attached && attachment->state <= last)
		return attachment;
	return NULL;
}

/* The callback of a refused client may change the list: begin anew each
 * time. */
void gm_attachments_refuse_newcomers(struct gm_worker_process *worker,
				     const char *why)
{
	struct gm_attachment *attachment;

	while ((attachment = first_newcomer(worker))) {
		detach(worker, attachment);
		attachment->attached(attachment, -ENODEV, why);
	}
	gm_worker_requests_refuse_newcomers(worker, -ENODEV, why);
	gm_worker_users_refused(worker, -ENODEV, why);
}

void gm_attachments_refuse(struct gm_worker_process *worker)
{
	char why[GM_WHY_BYTES];

	if (gm_attachments_admit(worker, why) < 0)
		gm_attachments_refuse_newcomers(worker, why);
}

/* ---- coming and going --------------------------------------------------- */

int gm_attachments_add(struct gm_worker_process *worker,
		       struct gm_attachment *attachment,
		       char ret_why[GM_WHY_BYTES])
{
	int error;

	if (gm_attachments_admit(worker, ret_why) < 0)
		return -ENODEV;
	if (worker->n_free == 0)
		return gm_why(ret_why, -EUSERS,
			      "row %u serves %u sessions, which is all it can",
			      worker->row, GM_JOURNAL_PLACES);
	error = gm_user_queue_join(worker, attachment);
	if (error)
		return gm_why(ret_why, error, "out of memory");
	attachment->worker = worker;
	attachment->state = GM_ATTACHMENT_WAITING;
	TAILQ_INIT(&attachment->requests);
	attachment->place = worker->free[--worker->n_free];
	gm_journal_open(gm_journal_at(worker->journal, attachment->place),
			attachment->session);
	TAILQ_INSERT_TAIL(&worker->attachments, attachment, entry);
	return 0;
}

void gm_attachments_leave(struct gm_attachment *attachment)
{
	struct gm_worker_process *worker = attachment->worker;

	if (!worker) {
		attachment->left(attachment);
	} else if (attachment->state == GM_ATTACHMENT_WAITING) {
		/* No running child has it mapped. */
		has_left(worker, attachment);
	} else if (attachment->state != GM_ATTACHMENT_LEFT) {
		attachment->is_owed = false;
		attachment->state = GM_ATTACHMENT_LEAVING;
		gm_attachments_flush(worker);
	}
}

int gm_attachments_ask(struct gm_attachment *attachment,
		       struct gm_worker_request *request,
		       char ret_why[GM_WHY_BYTES])
{
	struct gm_worker_process *worker = attachment->worker;
	int error = gm_worker_requests_add(attachment, request, ret_why);

	if (error == 0)
		gm_attachments_flush(worker);
	return error;
}

void gm_attachments_give_back(struct gm_worker_request *request)
{
	struct gm_worker_process *worker = request->attachment->worker;

	if (gm_worker_requests_leave(request))
		gm_attachments_flush(worker);
}
