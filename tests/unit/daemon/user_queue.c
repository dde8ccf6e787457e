/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * user_queue: whose request is next, where a worker has as many as it may have.
 * This program plays the worker, which sends no answers about requests; the
 * test makes them.
 */

#include "agent/daemon/workers/attachment.h"
#include "tests/support/worker_process_rig.h"

#define GUESTS 4u
#define EACH   (GM_USER_QUEUE_MOST + 4u) /* requests of a user */

struct asks {
	struct client client;
	struct gm_worker_request request[EACH];
	uint32_t n;
	uint32_t n_answered;
};

static struct asks asks[GUESTS];
static const uint32_t uids[GUESTS] = { 1, 1, 2, 3 };

static void held(struct gm_worker_request *request, uint64_t bytes, int fd)
{
	(void)bytes;
	(void)fd;
	if (request->ask == GM_WIRE_FETCH)
		gm_attachments_give_back(request);
}

static void gone(struct gm_worker_request *request, int status, const char *why)
{
	(void)request;
	(void)status;
	(void)why;
}

static bool all_are_seated(void)
{
	for (uint32_t i = 0; i < GUESTS; i++)
		if (asks[i].client.status > 0)
			return false;
	return true;
}

static bool all_have_left(void)
{
	for (uint32_t i = 0; i < GUESTS; i++)
		if (!asks[i].client.has_left)
			return false;
	return true;
}

static void come(void)
{
	memset(asks, 0, sizeof(asks));
	for (uint32_t i = 0; i < GUESTS; i++)
		EQ(attach_user_of(&asks[i].client, uids[i]), 0);
	OK(until(all_are_seated));
}

static void ask(uint32_t i, enum gm_wire_type type, uint32_t n)
{
	char why[GM_WHY_BYTES] = "";

	while (n-- > 0) {
		uint32_t at = asks[i].n++;
		struct gm_worker_request *request = &asks[i].request[at];

		*request = (struct gm_worker_request){ .ask = type,
						       .handle = 100 + at,
						       .fd = -1,
						       .held = held,
						       .gone = gone };
		if (!EQ(gm_attachments_ask(&asks[i].client.attachment, request,
					   why),
			0))
			NOTE("%s", why);
	}
}

/* The oldest of a client's is answered. */
static void answer(uint32_t i)
{
	const struct gm_worker_request *request =
		&asks[i].request[asks[i].n_answered++];
	struct gm_wire wire = { .type = request->ask == GM_WIRE_FETCH
						? GM_WIRE_FETCHED
						: GM_WIRE_REGISTERED,
				.session = asks[i].client.attachment.session,
				.handle = request->handle };

	EQ(request->state, GM_WORKER_REQUEST_ASKED);
	OK(gm_worker_requests_on_message(worker, &wire, -1));
	gm_attachments_flush(worker);
}

/* How many of a client's have been asked, answered or not. */
static uint32_t asked(uint32_t i)
{
	uint32_t n = asks[i].n_answered;

	for (uint32_t at = n; at < asks[i].n; at++)
		n += asks[i].request[at].state == GM_WORKER_REQUEST_ASKED;
	return n;
}

/* A worker detaches only after it has answered the attachment's requests. */
static void go(void)
{
	while (worker->n_asked) {
		for (uint32_t i = 0; i < GUESTS; i++)
			if (asked(i) > asks[i].n_answered)
				answer(i);
	}
	for (uint32_t i = 0; i < GUESTS; i++) {
		EQ(asks[i].n_answered, asks[i].n);
		gm_supervisor_leave(d, &asks[i].client.attachment);
	}
	OK(until(all_have_left));
	OK(LIST_EMPTY(&worker->user_queue));
}

/* The first has all places, and came first.  The second is of the same uid. */
static void a_place_is_of_who_has_the_fewest(void)
{
	come();
	ask(0, GM_WIRE_REGISTER, EACH);
	ask(1, GM_WIRE_REGISTER, 2);
	ask(2, GM_WIRE_REGISTER, 2);
	ask(3, GM_WIRE_REGISTER, 1);
	EQ(asked(0), GM_USER_QUEUE_MOST);
	EQ(worker->n_asked, GM_USER_QUEUE_MOST);
	answer(0);
	EQ(asked(2), 1);
	answer(0);
	EQ(asked(3), 1);
	answer(0);
	EQ(asked(2), 2);
	/* And between those of one user. */
	answer(0);
	EQ(asked(1), 1);
	answer(0);
	EQ(asked(1), 1);
	answer(0);
	EQ(asked(1), 2);
	while (asked(0) < EACH)
		answer(0);
	EQ(worker->n_asked, GM_USER_QUEUE_MOST);
	go();
}

/* However many wait, half of the places are not theirs, and of these half not
 * one user's. */
static void pieces_leave_places(void)
{
	come();
	ask(0, GM_WIRE_FETCH, 8);
	ask(1, GM_WIRE_FETCH, 8);
	EQ(asked(0), GM_USER_QUEUE_FETCHES / 2);
	EQ(asked(1), 0);
	ask(2, GM_WIRE_FETCH, 8);
	ask(3, GM_WIRE_FETCH, 1);
	EQ(asked(2), GM_USER_QUEUE_FETCHES / 2);
	EQ(asked(3), 0);
	answer(0);
	EQ(asked(3), 1);
	answer(0);
	EQ(asked(1), 1);
	answer(3);
	EQ(asked(0), 1 + GM_USER_QUEUE_FETCHES / 2);
	EQ(asked(1), 1);
	ask(3, GM_WIRE_REGISTER, GM_USER_QUEUE_FETCHES);
	EQ(asked(3), 1 + GM_USER_QUEUE_FETCHES);
	EQ(worker->n_asked, GM_USER_QUEUE_MOST);
	go();
}

TAP_CASE_ARGS(argc, argv)
{
	play_if_child(argc, argv);
	if (begin()) {
		a_place_is_of_who_has_the_fewest();
		pieces_leave_places();
		end();
	}
	return tap_done();
}
