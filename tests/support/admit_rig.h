/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * admit_rig - clients that ask for ROOM, PUBLISH and RESERVE, and the agent's
 * inside that answers them, at instants of the test's own clock.
 */
#ifndef GM_TEST_SUPPORT_ADMIT_RIG_H
#define GM_TEST_SUPPORT_ADMIT_RIG_H

#include <sys/socket.h>

#include "agent/common/node_clock.h"
#include "agent/daemon/account/wait_line.h"
#include "agent/daemon/base/connection.h"
#include "agent/daemon/base/io_thread.h"
#include "agent/daemon/map/admit.h"
#include "agent/daemon/map/admit_place.h"
#include "agent/daemon/map/room.h"
#include "agent/daemon/map/transaction.h"
#include "agent/daemon/state/state.h"
#include "tests/support/ledger_rig.h"
#include "tests/support/standing_clock.h"

#define SECOND  UINT64_C(1000000000)
#define STEP    (SECOND / 20)
#define LONG_NS (600 * SECOND)
#define QUIET   1 /* instead of a status: there is no answer */

static struct gm_control_server *server;
static struct gm_user user;
static char parent[] = "/tmp/gpumap-admit.XXXXXX";

/* ---- time ---------------------------------------------------------------- */

static inline void stop(struct gm_loop *loop)
{
	gm_loop_stop(loop);
}

static inline void do_nothing(struct gm_timer *timer)
{
	(void)timer;
}

/* All that is due now, but nothing that comes of it. */
static inline void step(void)
{
	struct gm_timer now = { .fired = do_nothing };

	gm_timer_set(d->loop, &now, gm_loop_now());
	d->loop->turned = stop;
	if (gm_loop_run(d->loop) != 0)
		exit(99);
	gm_timer_stop(d->loop, &now);
	d->loop->stop = false;
}

/* All that is due. */
static inline void turn(void)
{
	for (int i = 0; i < 8; i++)
		step();
}

static inline void pass(uint64_t ns)
{
	for (uint64_t end = standing_ns + ns; standing_ns < end;) {
		standing_ns += STEP;
		turn();
	}
}

/* All that is due, and all that the I/O thread has to write for it. */
static inline void write_all(void)
{
	struct epoll_event event;

	for (turn(); !gm_transactions_drained(d); turn()) {
		if (epoll_wait(d->loop->epoll, &event, 1, 10000) == 1) {
			struct gm_source *source = event.data.ptr;

			source->ready(source, event.events);
		}
	}
}

/* ---- clients ------------------------------------------------------------- */

struct peer {
	struct gm_connection *c;
	int end;
};

static inline struct peer come_as(uid_t uid)
{
	struct peer p = { calloc(1, sizeof(*p.c)), -1 };
	int pair[2];

	if (p.c == NULL ||
	    socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0)
		exit(99);
	*p.c = (struct gm_connection){ .server = server,
				       .source = { .fd = pair[0] },
				       .process = { .fd = -1 },
				       .user = &user,
				       .uid = uid,
				       .pid = getpid(),
				       .node_ns = gm_node_clock_now(),
				       .busy = 1 };
	p.end = pair[1];
	return p;
}

static inline struct peer come(void)
{
	return come_as(0);
}

static inline void hang_up(struct peer *p)
{
	gm_transactions_connection_dropped(p->c, "test");
	gm_admit_place_connection_dropped(p->c, "test");
	close(p->c->source.fd);
	close(p->end);
	free(p->c);
	write_all();
}

struct asked {
	const char *name;
	uint32_t flags;                  /* besides COMMIT; */
	bool is_question;                /* or nothing is to be published */
	uint32_t row;                    /* that has the layer */
	uint64_t bytes;                  /* of it */
	uint32_t n_others, others[ROWS]; /* rows that would do as well */
	uint64_t least;
	bool only_waits, has_no_charge, is_of_others, takes_all;
	uint32_t base_row;
	uint32_t owner;
	uint64_t wait_ns, start_ns;
};

static inline struct gm_room head_of(const struct asked *asked)
{
	struct gm_room head = { .flags = asked->is_question
						 ? 0
						 : asked->flags |
							   GPUMAP_PLAN_COMMIT,
				.owner_uid = asked->owner,
				.wait_ns = asked->wait_ns,
				.start_ns = asked->start_ns };

	snprintf(head.name, sizeof(head.name), "%s", asked->name);
	return head;
}

/* The status of the answer that has come, and up to @bytes behind its
 * header. */
static inline int answer_of(const struct peer *p, void *ret_body, size_t bytes)
{
	struct {
		struct gm_control header;
		char body[1024];
	} reply = { .header = { .status = QUIET } };

	if (recv(p->end, &reply, sizeof(reply), MSG_DONTWAIT) < 0)
		return QUIET;
	if (bytes != 0)
		memcpy(ret_body, reply.body, bytes);
	return reply.header.status;
}

static inline int told(const struct peer *p)
{
	return answer_of(p, NULL, 0);
}

/* The status that is known at once. */
static inline int publish(struct peer *p, const struct asked *asked)
{
	struct gm_request r = { .header = { .type = GM_CONTROL_PUBLISH } };
	struct gm_publish body = {
		.map = head_of(asked),
		.setting = asked->n_others != 0 ? GPUMAP_SETTING_AUTO
						: GPUMAP_SETTING_MANUAL,
		.n_layers = !asked->only_waits,
		.n_charges = !asked->has_no_charge,
		.n_runs = !asked->only_waits,
		.n_rows = asked->n_others,
		.spec_bytes = 4,
		.base_row = asked->row,
		.least_bytes = asked->least,
		.rows_given = gm_room_rows_given(d) + asked->is_of_others,
	};
	const struct gm_charge_image charge = { .row = asked->row,
						.n_layers = 1,
						.weight_bytes = asked->bytes };
	const struct gm_plan_run run = { asked->row, 1 };
	char tail[256], *at = tail;
	int ret;

	if (asked->base_row != 0)
		body.base_row = asked->base_row;
	at = mempcpy(at, &charge, body.n_charges * sizeof(charge));
	at = mempcpy(at, &run, body.n_runs * sizeof(run));
	at = mempcpy(at, asked->others, asked->n_others * 4);
	at = mempcpy(at, "0:1", 4);
	memcpy(r.body, &body, sizeof(body));
	r.tail = tail;
	r.tail_bytes = (uint32_t)(at - tail);
	ret = gm_admit_publish_handle(p->c, &r);
	return ret != 0 ? ret : told(p);
}

/* The status once all has been written that it has caused. */
static inline int ask(struct peer *p, const struct asked *asked)
{
	int ret = publish(p, asked);

	write_all();
	return ret == QUIET ? told(p) : ret;
}

static struct gm_reserve_reply answered;

static inline int reserve(struct peer *p, const struct asked *asked)
{
	struct gm_request r = { .header = { .type = GM_CONTROL_RESERVE } };
	struct gm_reserve_ask body = { .map = head_of(asked),
				       .n_bytes = asked->takes_all
							  ? asked->n_others
							  : 1,
				       .n_rows = asked->n_others };
	char tail[64], *at = tail;
	int ret;

	for (uint32_t i = 0; i < body.n_bytes; i++)
		at = mempcpy(at, &asked->bytes, 8);
	at = mempcpy(at, asked->others, asked->n_others * 4);
	memcpy(r.body, &body, sizeof(body));
	r.tail = tail;
	r.tail_bytes = (uint32_t)(at - tail);
	ret = gm_admit_reserve_handle(p->c, &r);
	write_all();
	return ret != 0 ? ret : answer_of(p, &answered, sizeof(answered));
}

static inline struct gm_room_row room_of(struct peer *p,
					 const struct asked *asked)
{
	struct gm_request r = { .header = { .type = GM_CONTROL_ROOM } };
	const struct gm_room head = head_of(asked);
	struct {
		struct gm_room_reply head;
		struct gm_room_row rows[ROWS];
	} reply = { .head = { .n = 0 } };

	memcpy(r.body, &head, sizeof(head));
	EQ(gm_admit_room_handle(p->c, &r), 0);
	EQ(answer_of(p, &reply, sizeof(reply)), 0);
	return reply.rows[asked->row];
}

static inline uint32_t slot_of(const char *name)
{
	struct gm_room map = { .flags = GPUMAP_PLAN_COMMIT };

	snprintf(map.name, sizeof(map.name), "%s", name);
	return gm_room_slot(d, &map);
}

/* From the front of the line: the first is 1; 0: it is not there. */
static inline uint32_t position(const char *name)
{
	const struct gm_wait_place *place;
	uint32_t n = 1;

	TAILQ_FOREACH(place, &d->line->places, entry)
	{
		if (strcmp(place->name, name) == 0)
			return n;
		n++;
	}
	return 0;
}

/* The most that a newcomer may have of the last row. */
static inline uint64_t left_to_others(void)
{
	const struct gm_wait_place newcomer = { .uid = 7 };
	struct gm_wait_limits limits;

	d->line->fresh_ns = 0;
	gm_wait_line_limits(d, &newcomer, &limits);
	return limits.bytes[2];
}

/* Each row is full. */
static inline void fill(void)
{
	EQ(hold("h0", getpid(), 0, TOTAL, SHOWN), 0);
	EQ(hold("h1", getpid(), 1, TOTAL, SHOWN), 0);
	EQ(hold("h2", getpid(), 2, TOTAL, SHOWN), 0);
	pass(STEP);
}

static inline void give_back(const char *name)
{
	EQ(release(name), 0);
	turn();
}

static inline void clear(void)
{
	static const char *const names[] = { "h0",    "h1",   "h2",  "model",
					     "other", "next", "last" };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (is_published(names[i]))
			EQ(release(names[i]), 0);
	OK(TAILQ_EMPTY(&d->line->places));
	EQ(reserved(0) + reserved(1) + reserved(2), 0);
	pass(2 * SECOND);
}

#define ANYWHERE .n_others = 3, .others = { 0, 1, 2 }
#define HELD     .flags = GPUMAP_PLAN_HELD

static const struct asked waits = { .name = "model",
				    HELD,
				    .row = 2,
				    .bytes = 800,
				    ANYWHERE,
				    .least = 800,
				    .only_waits = true,
				    .wait_ns = LONG_NS };
static const struct asked plain = {
	.name = "model", HELD, .row = 2, .bytes = 100
};
static const struct asked made = { .name = "model",
				   HELD,
				   .row = 2,
				   .bytes = 800,
				   ANYWHERE,
				   .least = 800,
				   .wait_ns = LONG_NS };
static const struct asked other = {
	.name = "other", HELD, .row = 2, .bytes = 800, .wait_ns = LONG_NS
};

static const struct asked next = {
	.name = "next", HELD, .row = 2, .bytes = TOTAL, .wait_ns = LONG_NS
};

/* All rows are full, the model waits first, and two others behind it; then row
 * 2 is free, and it is the model's turn. */
static struct peer c, behind, third;

static inline void begin_turn_of(const struct asked *model)
{
	c = come();
	behind = come();
	third = come();
	fill();
	EQ(ask(&c, model), QUIET);
	EQ(ask(&behind, &other), QUIET);
	EQ(ask(&third, &next), QUIET);
	EQ(position("model"), 1);
	EQ(position("other"), 2);
	EQ(position("next"), 3);
	give_back("h2");
	EQ(told(&c), -EAGAIN);
	EQ(told(&behind), QUIET);
	OK(c.c->line != NULL);
}

static inline void begin_turn(void)
{
	begin_turn_of(&waits);
}

static inline void end_turn(void)
{
	hang_up(&third);
	hang_up(&behind);
	hang_up(&c);
	clear();
}

/* Returns false where nothing can be tested. */
static inline bool admit_begin(const char *name)
{
	server = calloc(1, sizeof(*server));
	if (server == NULL || mkdtemp(parent) == NULL || !ledger_begin(name))
		return false;
	d->state_dir = parent;
	d->instance = "it";
	server->d = d;
	d->server = server;
	TAILQ_INIT(&server->exports);
	standing_ns = gm_node_clock_now();
	gm_transactions_init(d->changes);
	return EQ(gm_state_start(d, why), 0) &&
	       EQ(gm_io_thread_start(d->io_thread, d->loop, "a"), 0);
}

static inline int admit_end(void)
{
	standing_ns = 0;
	EQ(gm_io_thread_stop(d->io_thread, UINT64_MAX), 0);
	gm_state_exit(d);
	shm_names_remove_dir(parent);
	ledger_end();
	free(server);
	return tap_done();
}

#endif
