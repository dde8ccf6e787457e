/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* What is said between a keeper and its child, see worker_process.h and
 * wire.h. */

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/common/log.h"
#include "agent/daemon/account/quota.h"
#include "agent/daemon/account/usage.h"
#include "agent/daemon/daemon.h"
#include "agent/daemon/workers/worker_process.h"
#include "agent/daemon/workers/worker_users.h"
#include "shm/point.h"

#define RECORDS_A_TURN 64
#define STRIKES_MAX    16u /* undertakers that one seat may cost */

int gm_seats_say(struct gm_keeper *keeper, const struct gm_wire *wire,
		 const int *fds, size_t n_fds)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(4 * sizeof(int))];
	} control = { 0 };
	struct iovec record = { (void *)wire, sizeof(*wire) };
	struct msghdr message = { .msg_iov = &record, .msg_iovlen = 1 };

	if (n_fds) {
		struct cmsghdr *head;

		message.msg_control = control.bytes;
		message.msg_controllen = CMSG_SPACE(n_fds * sizeof(int));
		head = CMSG_FIRSTHDR(&message);
		head->cmsg_level = SOL_SOCKET;
		head->cmsg_type = SCM_RIGHTS;
		head->cmsg_len = CMSG_LEN(n_fds * sizeof(int));
		memcpy(CMSG_DATA(head), fds, n_fds * sizeof(int));
	}
	if (sendmsg(keeper->socket.fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL) ==
	    sizeof(*wire))
		return 0;
	return -errno;
}

/* A worker is told of a seat as the next of its incarnations, an undertaker as
 * that of the dead. */
static int offer(struct gm_keeper *keeper, struct gm_seat *seat)
{
	uint32_t incarnation =
		seat->incarnation + (keeper->is_undertaker ? 0 : 1);
	struct gm_wire wire = {
		.type = GM_WIRE_ATTACH,
		.status = keeper->is_undertaker && gm_keeper_is_barred(keeper)
				  ? -ENODEV
				  : 0,
		.session = seat->session,
		.place = seat->place,
		.depth = seat->depth,
		.incarnation = incarnation,
		.uid = seat->uid,
		.queue_at = seat->queue_at,
		.arena_bytes = seat->arena_bytes,
		.range_at = seat->range_at,
		.range_bytes = seat->range_bytes,
		.awaited = keeper->is_undertaker ? 0 : gm_claims_awaited(seat),
		.quota = gm_quota_of(keeper->d, keeper->row, seat->uid,
				     gm_usage_within_reach(keeper, seat->uid)),
	};
	int fds[4] = { seat->queues, seat->arena, seat->doorbell,
		       seat->socket };
	int error = gm_seats_say(keeper, &wire, fds, seat->socket < 0 ? 3 : 4);

	if (error)
		return error;
	seat->incarnation = incarnation;
	seat->state = GM_SEAT_OFFERED;
	keeper->n_offered++;
	GM_POINT("seat_offered");
	return 0;
}

static int ask_to_leave(struct gm_keeper *keeper, struct gm_seat *seat)
{
	struct gm_wire wire = {
		.type = GM_WIRE_DETACH,
		.session = seat->session,
		.place = seat->place,
	};
	int error = gm_seats_say(keeper, &wire, NULL, 0);

	if (error == 0)
		seat->state = GM_SEAT_LEFT;
	return error;
}

/* Is there something to say about this seat now? */
static bool is_next(const struct gm_keeper *keeper, const struct gm_seat *seat)
{
	if (keeper->is_undertaker)
		return seat->state == GM_SEAT_WAITING && seat->is_owed &&
		       keeper->n_offered < GM_SEATS_OFFERED;
	if (seat->state == GM_SEAT_LEAVING)
		return true;
	return seat->state == GM_SEAT_WAITING && !keeper->told_end &&
	       keeper->n_offered < GM_SEATS_OFFERED;
}

/* Returns 0 when all is said, 1 when answers are awaited to what was, or a
 * negative errno. */
static int say_all(struct gm_keeper *keeper)
{
	struct gm_seat *seat;
	bool waits = false;
	int error = gm_worker_users_say(keeper);

	TAILQ_FOREACH(seat, &keeper->seats, entry)
	{
		if (error)
			return error;

		waits |= seat->state <= GM_SEAT_OFFERED;
		if (is_next(keeper, seat))
			error = seat->state == GM_SEAT_LEAVING
					? ask_to_leave(keeper, seat)
					: offer(keeper, seat);
		else if (seat->state == GM_SEAT_TAKEN && !keeper->is_undertaker)
			error = gm_claims_say(keeper, seat, &waits);
	}
	if (error == 0 && !keeper->is_undertaker)
		error = gm_claims_ask_all(keeper);
	return error ? error : waits;
}

static bool is_anything_owed(const struct gm_keeper *keeper)
{
	const struct gm_seat *seat;

	TAILQ_FOREACH(seat, &keeper->seats, entry)
	{
		if (seat->is_owed)
			return true;
	}
	return false;
}

void gm_seats_tell_end(struct gm_keeper *keeper)
{
	struct gm_wire wire = { .type = GM_WIRE_DRAIN };

	/* Without room now, the next look tries again. */
	if (!keeper->told_end && keeper->socket.fd >= 0 &&
	    gm_seats_say(keeper, &wire, NULL, 0) == 0)
		keeper->told_end = true;
}

/* Ask to be called when there is room, as long as there is none. */
static void want_room(struct gm_keeper *keeper, bool wants)
{
	if (wants == keeper->wants_room)
		return;
	if (gm_loop_mod(&keeper->d->loop, &keeper->socket,
			EPOLLIN | (wants ? (uint32_t)EPOLLOUT : 0)) == 0)
		keeper->wants_room = wants;
}

void gm_seats_pump(struct gm_keeper *keeper)
{
	int error;

	if (keeper->socket.fd < 0 || (keeper->state != GM_KEEPER_SERVING &&
				      keeper->state != GM_KEEPER_BURYING))
		return;
	error = say_all(keeper);
	want_room(keeper, error == -EAGAIN);
	if (error == -EPIPE || error == -ECONNRESET)
		gm_keeper_hung_up(keeper);
	else if (error == 0 && !keeper->is_undertaker)
		gm_keeper_settled(keeper);
	if (error >= 0 && (keeper->is_undertaker ? !is_anything_owed(keeper)
						 : keeper->wants_end))
		gm_seats_tell_end(keeper);
	if (error >= 0)
		gm_need_tell_leave(keeper);
}

/* Take the seat away from the row; its owner decides what becomes of it. */
static void unseat(struct gm_keeper *keeper, struct gm_seat *seat)
{
	gm_claims_seat_gone(seat);
	gm_usage_leaves(seat);
	gm_askers_leave(seat);
	TAILQ_REMOVE(&keeper->seats, seat, entry);
	gm_journal_close(gm_journal_at(keeper->journal, seat->place));
	keeper->free[keeper->n_free++] = (uint16_t)seat->place;
	seat->keeper = NULL;
	if (!gm_keeper_has_seats(keeper))
		gm_need_ends(keeper);
}

static void has_left(struct gm_keeper *keeper, struct gm_seat *seat)
{
	unseat(keeper, seat);
	seat->left(seat);
}

static void worker_attached(struct gm_keeper *keeper, struct gm_seat *seat,
			    const struct gm_wire *wire)
{
	if (seat->state != GM_SEAT_OFFERED) /* it is about to leave */
		return;
	if (wire->status < 0 && seat->was_seated) {
		seat->broken(seat, "a new worker could not map its memory");
		return;
	}
	if (wire->status < 0) {
		unseat(keeper, seat);
		seat->seated(seat, wire->status,
			     "the worker could not map the session's memory");
		return;
	}
	seat->state = GM_SEAT_TAKEN;
	if (!seat->was_seated) {
		seat->was_seated = true;
		seat->seated(seat, 0, NULL);
	}
}

static void undertaker_attached(struct gm_keeper *keeper, struct gm_seat *seat,
				const struct gm_wire *wire)
{
	if (wire->status < 0) {
		/* Its memory cannot be mapped: nobody can be told anything. */
		seat->is_owed = false;
		if (seat->state == GM_SEAT_OFFERED)
			seat->state = GM_SEAT_TAKEN;
		seat->broken(seat, "its memory could not be mapped");
		return;
	}
	seat->is_owed = false;
	seat->strikes = 0;
	if (seat->state == GM_SEAT_OFFERED)
		seat->state = GM_SEAT_TAKEN;
	GM_POINT("seat_buried");
}

static struct gm_seat *find(struct gm_keeper *keeper,
			    const struct gm_wire *wire)
{
	struct gm_seat *seat;

	TAILQ_FOREACH(seat, &keeper->seats, entry)
	{
		if (seat->session == wire->session)
			return seat;
	}
	return NULL;
}

/* A child is of our own build, but what it says about seats may come late:
 * about one that has left, or in any order with our own wish. */
static void heard_of_seat(struct gm_keeper *keeper, struct gm_wire *wire)
{
	struct gm_seat *seat = find(keeper, wire);

	if (wire->type == GM_WIRE_ATTACHED && keeper->n_offered)
		keeper->n_offered--;
	if (!seat)
		return;
	if (wire->type == GM_WIRE_ATTACHED && keeper->is_undertaker) {
		undertaker_attached(keeper, seat, wire);
	} else if (wire->type == GM_WIRE_ATTACHED) {
		worker_attached(keeper, seat, wire);
	} else if (wire->type == GM_WIRE_DETACHED) {
		if (seat->state == GM_SEAT_LEFT)
			has_left(keeper, seat);
	} else {
		gm_log(GM_LOG_WARNING, "violation",
		       "row=%u%s session=%llu reason=%s", keeper->row,
		       keeper->of, (unsigned long long)wire->session,
		       gm_quote(wire->text).text);
		seat->broken(seat, wire->text);
	}
}

static void has_failed(struct gm_keeper *keeper, const struct gm_wire *wire)
{
	gm_death_begins(keeper);
	if (keeper->why[0])
		return;
	snprintf(keeper->why, sizeof(keeper->why), "%s", wire->text);
	keeper->code = wire->code;
}

/* @fd came with it, or is -1. */
static void heard(struct gm_keeper *keeper, struct gm_wire *wire, int fd)
{
	wire->text[sizeof(wire->text) - 1] = '\0';
	if (!keeper->is_undertaker && (gm_claims_heard(keeper, wire, fd) ||
				       gm_worker_users_heard(keeper, wire, fd)))
		return;
	if (fd >= 0)
		close(fd);
	switch (wire->type) {
	case GM_WIRE_READY:
		gm_keeper_ready(keeper, wire->text);
		break;
	case GM_WIRE_FAILED:
		has_failed(keeper, wire);
		break;
	case GM_WIRE_DRAINED:
		gm_need_drained(keeper);
		break;
	case GM_WIRE_STANDBY: /* of a spare that was needed before that */
		break;
	case GM_WIRE_WAKER:
		gm_wakers_hand(keeper, wire->place);
		break;
	case GM_WIRE_ATTACHED:
	case GM_WIRE_DETACHED:
	case GM_WIRE_VIOLATION:
		heard_of_seat(keeper, wire);
		break;
	default:
		gm_keeper_kill(keeper, "it said what no worker says");
	}
}

/* One record, and the descriptor that came with it, or -1.  Returns its bytes,
 * 0, or -1 with errno set, as recvmsg(). */
static ssize_t receive(struct gm_keeper *keeper, struct gm_wire *ret_wire,
		       int *ret_fd)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_LEN(sizeof(int))]; /* room for one, no more */
	} control;
	struct iovec room = { ret_wire, sizeof(*ret_wire) };
	struct msghdr message = { .msg_iov = &room,
				  .msg_iovlen = 1,
				  .msg_control = control.bytes,
				  .msg_controllen = sizeof(control.bytes) };
	ssize_t n = recvmsg(keeper->socket.fd, &message,
			    MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	struct cmsghdr *head = n > 0 ? CMSG_FIRSTHDR(&message) : NULL;

	*ret_fd = -1;
	if (head && head->cmsg_level == SOL_SOCKET &&
	    head->cmsg_type == SCM_RIGHTS)
		memcpy(ret_fd, CMSG_DATA(head), sizeof(int));
	return n;
}

int gm_seats_listen(struct gm_keeper *keeper)
{
	for (int i = 0; i < RECORDS_A_TURN && keeper->socket.fd >= 0; i++) {
		struct gm_wire wire;
		int fd;
		ssize_t n = receive(keeper, &wire, &fd);

		if (n == (ssize_t)sizeof(wire)) {
			heard(keeper, &wire, fd);
			continue;
		}
		if (fd >= 0)
			close(fd);
		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return 0;
		if (n > 0)
			gm_keeper_kill(keeper, "it sent half a record");
		return -EPIPE;
	}
	return keeper->socket.fd >= 0 ? 1 : -EPIPE;
}

/* The undertaker died over the first seat that it had not answered for. */
static void strike(struct gm_keeper *keeper)
{
	struct gm_seat *seat;

	TAILQ_FOREACH(seat, &keeper->seats, entry)
	{
		if (seat->state == GM_SEAT_OFFERED)
			break;
	}
	if (!seat || ++seat->strikes < STRIKES_MAX)
		return;
	seat->is_owed = false;
	seat->broken(seat, "undertakers die of its memory");
}

bool gm_seats_child_gone(struct gm_keeper *keeper)
{
	struct gm_seat *seat, *next;
	bool is_owed = false;

	if (keeper->is_undertaker)
		strike(keeper);
	else
		gm_claims_strike(keeper);
	if (!keeper->is_undertaker)
		gm_usage_ends(keeper);
	gm_worker_users_hung_up(keeper);
	keeper->n_offered = 0;
	keeper->wants_room = false;
	keeper->told_end = false;
	for (seat = TAILQ_FIRST(&keeper->seats); seat; seat = next) {
		next = TAILQ_NEXT(seat, entry);
		if (seat->state == GM_SEAT_LEAVING ||
		    seat->state == GM_SEAT_LEFT) {
			has_left(keeper, seat);
			continue;
		}
		if (!keeper->is_undertaker && seat->state != GM_SEAT_WAITING)
			seat->is_owed = true;
		seat->state = GM_SEAT_WAITING;
		is_owed |= seat->is_owed;
		if (!keeper->is_undertaker) /* may free it */
			gm_claims_worker_gone(seat);
	}
	return is_owed;
}

bool gm_seats_owe_all(struct gm_keeper *keeper)
{
	struct gm_seat *seat;

	TAILQ_FOREACH(seat, &keeper->seats, entry)
	seat->is_owed = true;
	return gm_keeper_has_seats(keeper);
}

/* ---- refusals ---------------------------------------------------------- */

static int refuse_for_long(const struct gm_keeper *keeper,
			   char ret_why[GM_WHY_BYTES])
{
	return gm_why(
		ret_why, -ENODEV,
		"the worker of row %u died %u times before its first job, "
		"and rests; see its reason in %sthe log, or use another row",
		keeper->row, keeper->early_deaths,
		gm_keeper_is_shown(keeper) ? "gpumapctl devices and " : "");
}

static int refuse_barred(const struct gm_keeper *keeper,
			 char ret_why[GM_WHY_BYTES])
{
	const struct gm_moving_image *moving =
		&keeper->d->devices.of[keeper->row]->moving;

	return gm_why(ret_why, -ENODEV,
		      "row %u cannot be used now (%.*s); use another row",
		      keeper->row, (int)sizeof(moving->reason),
		      moving->reason[0] ? moving->reason : "no reason given");
}

static int refuse_stuck(const struct gm_keeper *keeper,
			char ret_why[GM_WHY_BYTES])
{
	return gm_why(ret_why, -ENODEV,
		      "the worker of row %u (pid %d) does not end, not even "
		      "by SIGKILL; use another row",
		      keeper->row, (int)keeper->child.pid);
}

/* Why nobody new may come to it; 0 when they may. */
int gm_seats_judge(const struct gm_keeper *keeper, char ret_why[GM_WHY_BYTES])
{
	if (keeper->state == GM_KEEPER_STUCK)
		return refuse_stuck(keeper, ret_why);
	if (gm_keeper_is_barred(keeper))
		return refuse_barred(keeper, ret_why);
	if (gm_keeper_rests_long(keeper))
		return refuse_for_long(keeper, ret_why);
	return 0;
}

/* What a worker has been told of, its death gives back; but one that is stuck
 * does not die, nor will it ever run again. */
static struct gm_seat *first_newcomer(const struct gm_keeper *keeper)
{
	enum gm_seat_state last = keeper->state == GM_KEEPER_STUCK
					  ? GM_SEAT_OFFERED
					  : GM_SEAT_WAITING;
	struct gm_seat *seat;

	TAILQ_FOREACH(seat, &keeper->seats, entry)
	if (!seat->was_seated && seat->state <= last)
		return seat;
	return NULL;
}

/* What a refused client does next may change the list: begin anew each time. */
void gm_seats_refuse_newcomers(struct gm_keeper *keeper, const char *why)
{
	struct gm_seat *seat;

	while ((seat = first_newcomer(keeper))) {
		unseat(keeper, seat);
		seat->seated(seat, -ENODEV, why);
	}
	gm_claims_refuse_newcomers(keeper, -ENODEV, why);
	gm_worker_users_refused(keeper, -ENODEV, why);
}

void gm_seats_refuse(struct gm_keeper *keeper)
{
	char why[GM_WHY_BYTES];

	if (gm_seats_judge(keeper, why) < 0)
		gm_seats_refuse_newcomers(keeper, why);
}

/* Whose seat it is to be: the row's own worker's, or that of programs. */
static int find_keeper(struct gm_daemon *d, uint32_t row,
		       const struct gm_seat *seat,
		       struct gm_keeper **ret_keeper,
		       char ret_why[GM_WHY_BYTES])
{
	struct gm_keeper *keeper =
		row < GM_ROWS ? d->supervisor->rows.keepers[row] : NULL;
	int error = 0;

	if (!keeper)
		return gm_why(ret_why, -ENODEV,
			      "row %u has no worker; see gpumapctl devices",
			      row);
	if (d->supervisor->draining)
		return gm_why(ret_why, -ESHUTDOWN,
			      "the agent is shutting down");
	if (seat->runs_programs)
		error = gm_crews_keeper(d->supervisor, row, seat->uid, &keeper);
	if (error)
		return gm_why(ret_why, error,
			      "no worker for programs on row %u: %s", row,
			      strerror(-error));
	*ret_keeper = keeper;
	return 0;
}

int gm_supervisor_seat(struct gm_daemon *d, uint32_t row, struct gm_seat *seat,
		       char ret_why[GM_WHY_BYTES])
{
	struct gm_keeper *keeper = NULL;
	int error = find_keeper(d, row, seat, &keeper, ret_why);

	if (error)
		return error;
	if (gm_seats_judge(keeper, ret_why) < 0)
		return -ENODEV;
	if (keeper->n_free == 0)
		return gm_why(ret_why, -EUSERS,
			      "row %u serves %u sessions, which is all it can",
			      row, GM_JOURNAL_PLACES);
	error = gm_askers_join(keeper, seat);
	if (error)
		return gm_why(ret_why, error, "out of memory");
	seat->keeper = keeper;
	seat->state = GM_SEAT_WAITING;
	TAILQ_INIT(&seat->claims);
	seat->place = keeper->free[--keeper->n_free];
	gm_journal_open(gm_journal_at(keeper->journal, seat->place),
			seat->session);
	TAILQ_INSERT_TAIL(&keeper->seats, seat, entry);
	gm_need_begins(keeper);
	gm_seats_pump(keeper);
	return 0;
}

void gm_supervisor_leave(struct gm_daemon *d, struct gm_seat *seat)
{
	struct gm_keeper *keeper = seat->keeper;

	if (!keeper) {
		seat->left(seat);
	} else if (seat->state == GM_SEAT_WAITING) {
		has_left(keeper, seat); /* no living child has it mapped */
	} else if (seat->state != GM_SEAT_LEFT) {
		seat->is_owed = false;
		seat->state = GM_SEAT_LEAVING;
		gm_seats_pump(keeper);
	}
}
