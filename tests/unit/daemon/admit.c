/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * admit: which maps and reservations are refused, wait, have their turn and are
 * admitted, at instants of the test's own clock.
 */

#include <sys/socket.h>
#include <sys/stat.h>

#include "agent/common/node_clock.h"
#include "agent/daemon/account/wait_line.h"
#include "agent/daemon/base/connection.h"
#include "agent/daemon/base/io_thread.h"
#include "agent/daemon/map/admit.h"
#include "agent/daemon/map/admit_place.h"
#include "agent/daemon/map/room.h"
#include "agent/daemon/map/transaction.h"
#include "agent/daemon/sharing/export_accounting.h"
#include "agent/daemon/sharing/share.h"
#include "agent/daemon/state/state.h"
#include "tests/support/ledger_rig.h"
#include "tests/support/standing_clock.h"

#define SECOND  UINT64_C(1000000000)
#define STEP    (SECOND / 20)
#define LONG_NS (600 * SECOND)
#define QUIET   1 /* instead of a status: there is no answer */
#define NOWHERE 9u

static struct gm_control_server *server;
static struct gm_user user;
static char parent[] = "/tmp/gpumap-admit.XXXXXX";

/* ---- time ---------------------------------------------------------------- */

static void stop(struct gm_loop *loop)
{
	gm_loop_stop(loop);
}

static void do_nothing(struct gm_timer *timer)
{
	(void)timer;
}

/* All that is due now, but nothing that comes of it. */
static void step(void)
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
static void turn(void)
{
	for (int i = 0; i < 8; i++)
		step();
}

static void pass(uint64_t ns)
{
	for (uint64_t end = standing_ns + ns; standing_ns < end;) {
		standing_ns += STEP;
		turn();
	}
}

/* All that is due, and all that the I/O thread has to write for it. */
static void write_all(void)
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

static struct peer come_as(uid_t uid)
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

static struct peer come(void)
{
	return come_as(0);
}

static void hang_up(struct peer *p)
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

static struct gm_room head_of(const struct asked *asked)
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
static int answer_of(const struct peer *p, void *ret_body, size_t bytes)
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

static int told(const struct peer *p)
{
	return answer_of(p, NULL, 0);
}

/* The status that is known at once. */
static int publish(struct peer *p, const struct asked *asked)
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
static int ask(struct peer *p, const struct asked *asked)
{
	int ret = publish(p, asked);

	write_all();
	return ret == QUIET ? told(p) : ret;
}

static struct gm_reserve_reply answered;

static int reserve(struct peer *p, const struct asked *asked)
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

static struct gm_room_row room_of(struct peer *p, const struct asked *asked)
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

static uint32_t slot_of(const char *name)
{
	struct gm_room map = { .flags = GPUMAP_PLAN_COMMIT };

	snprintf(map.name, sizeof(map.name), "%s", name);
	return gm_room_slot(d, &map);
}

/* From the front of the line: the first is 1; 0: it is not there. */
static uint32_t position(const char *name)
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
static uint64_t left_to_others(void)
{
	const struct gm_wait_place newcomer = { .uid = 7 };
	struct gm_wait_limits limits;

	d->line->fresh_ns = 0;
	gm_wait_line_limits(d, &newcomer, &limits);
	return limits.bytes[2];
}

/* Each row is full. */
static void fill(void)
{
	EQ(hold("h0", getpid(), 0, TOTAL, SHOWN), 0);
	EQ(hold("h1", getpid(), 1, TOTAL, SHOWN), 0);
	EQ(hold("h2", getpid(), 2, TOTAL, SHOWN), 0);
	pass(STEP);
}

static void give_back(const char *name)
{
	EQ(release(name), 0);
	turn();
}

static void clear(void)
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

/* The model needs less of row 2 than it keeps, and no other
 * row. */
static const struct asked narrow = { .name = "model",
				     HELD,
				     .row = 2,
				     .bytes = 800,
				     .n_others = 1,
				     .others = { 2 },
				     .least = 100,
				     .only_waits = true,
				     .wait_ns = LONG_NS };
static const struct asked next = {
	.name = "next", HELD, .row = 2, .bytes = TOTAL, .wait_ns = LONG_NS
};

/* All rows are full, the model waits first, and two others behind it; then row
 * 2 is free, and it is the model's turn. */
static struct peer c, behind, third;

static void come_all(void)
{
	c = come();
	behind = come();
	third = come();
}

static void begin_turn_of(const struct asked *model)
{
	come_all();
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

static void begin_turn(void)
{
	begin_turn_of(&waits);
}

/* One client alone, and no room. */
static void begin_one(void)
{
	c = come();
	fill();
}

static void end_one(void)
{
	hang_up(&c);
	clear();
}

static void end_turn(void)
{
	hang_up(&third);
	hang_up(&behind);
	end_one();
}

/* A turn passes, and at once comes another one, as nothing bars it. */
static void miss_turn(void)
{
	pass(SECOND + STEP);
}

/* ---- turns --------------------------------------------------------------- */

static void a_turn_is_used(void)
{
	begin_turn();
	EQ(ask(&c, &made), 0);
	EQ(reserved(2), 800);
	EQ(position("model"), 0);
	EQ(position("other"), 1);
	give_back("model");
	write_all();
	EQ(told(&behind), 0);
	end_turn();
}

/* The second one that is missed puts the place last, and it keeps nothing until
 * its client asks again; then it may miss one again. */
static void missed_turns_pass(void)
{
	struct asked last = other;

	begin_turn();
	miss_turn();
	EQ(position("model"), 1);
	EQ(left_to_others(), 200);
	pass(SECOND - 2 * STEP);
	EQ(position("model"), 1);
	EQ(told(&behind), QUIET);
	pass(2 * STEP);
	write_all();
	EQ(told(&behind), 0);
	EQ(position("next"), 1);
	EQ(position("model"), 2);
	/* The next one that it misses is the first of two. */
	last.name = "last";
	EQ(ask(&behind, &last), QUIET);
	EQ(position("last"), 3);
	hang_up(&third);
	third = come();
	turn();
	OK(c.c->line->turn.due_ns != 0);
	EQ(left_to_others(), 200);
	give_back("other");
	write_all();
	EQ(told(&behind), 0);
	EQ(position("model"), 1);
	EQ(left_to_others(), UINT64_MAX);
	EQ(ask(&third, &next), QUIET);
	miss_turn();
	EQ(position("model"), 1);
	EQ(publish(&c, &waits), QUIET);
	EQ(left_to_others(), 0);
	end_turn();
}

/* Nor do requests that come too late make a turn longer. */
static void late_requests_make_no_turn_longer(void)
{
	struct asked late = made;

	late.is_of_others = true;
	begin_turn();
	for (int i = 0; i < 2; i++) {
		EQ(position("model"), 1);
		pass(SECOND / 2);
		EQ(ask(&c, &late), -EAGAIN);
		EQ(told(&behind), QUIET);
		pass(SECOND / 2);
	}
	write_all();
	EQ(told(&behind), 0);
	end_turn();
}

/* Its turns have passed, and no other comes before the next one has row 2. */
static void lose_turns(void)
{
	begin_turn_of(&narrow);
	pass(2 * SECOND + STEP);
	write_all();
	EQ(told(&behind), 0);
	EQ(position("next"), 1);
	EQ(position("model"), 2);
	OK(c.c->line != NULL && !c.c->line->wait.is_tried);
}

/* Nor do they miss turns. */
static void late_requests_miss_no_turn(void)
{
	struct asked late = narrow, last = other;

	late.only_waits = false;
	late.is_of_others = true;
	last.name = "last";
	lose_turns();
	EQ(ask(&behind, &last), QUIET);
	for (int i = 0; i < 3; i++) {
		EQ(ask(&c, &late), -EAGAIN);
		turn();
		EQ(position("model"), 2);
	}
	end_turn();
}

/* A client asks for what is there, and does not take it. */
static void declined_turns_pass(void)
{
	begin_turn();
	EQ(ask(&c, &waits), QUIET);
	turn();
	EQ(told(&c), QUIET); /* nothing has changed */
	EQ(position("model"), 1);
	EQ(told(&behind), QUIET);
	pass(SECOND + STEP);
	EQ(told(&c), -EAGAIN);
	EQ(ask(&c, &waits), QUIET);
	write_all();
	EQ(told(&behind), 0);
	EQ(position("model"), 2);
	hang_up(&third);
	third = come();
	EQ(left_to_others(), UINT64_MAX);
	end_turn();
}

/* A map that came too late is another attempt. */
static void an_attempt_is_no_missed_turn(void)
{
	struct asked much = made;

	much.bytes = 1000;
	begin_turn();
	EQ(hold("last", getpid(), 2, 100, SHOWN), 0);
	miss_turn();
	EQ(position("model"), 1);
	EQ(publish(&c, &much), QUIET);
	turn();
	EQ(told(&c), -EAGAIN);
	miss_turn();
	EQ(position("model"), 1);
	EQ(release("last"), 0);
	end_turn();
}

/* Room came between its look and its place. */
static void a_new_place_has_missed_nothing(void)
{
	come_all();
	fill();
	give_back("h2");
	EQ(publish(&c, &waits), QUIET);
	EQ(ask(&behind, &other), QUIET);
	EQ(told(&c), -EAGAIN);
	EQ(ask(&c, &waits), QUIET);
	pass(SECOND + STEP);
	EQ(told(&c), -EAGAIN);
	EQ(position("model"), 1);
	EQ(told(&behind), QUIET);
	end_turn();
}

/* One that asks for nothing, or for what it cannot have, declines nothing:
 * @before waits before it. */
static void declines_nothing(const struct asked *asked,
			     const struct asked *before)
{
	come_all();
	EQ(hold("h2", getpid(), 2, 300, SHOWN), 0);
	if (before != NULL)
		EQ(ask(&third, before), QUIET);
	EQ(publish(&c, asked), QUIET);
	EQ(ask(&behind, &other), QUIET);
	EQ(told(&c), -EAGAIN);
	for (int i = 0; i < 4; i++) {
		EQ(ask(&c, asked), QUIET);
		EQ(position("model"), 1 + (before != NULL));
		pass(SECOND + STEP);
		EQ(told(&c), -EAGAIN);
	}
	end_turn();
}

static void those_without_room_decline_nothing(void)
{
	struct asked nothing = waits, more = waits, kept = waits;

	nothing.has_no_charge = true;
	nothing.least = 0;
	declines_nothing(&nothing, NULL);
	/* Other rows have the bytes, and the one that it asks for has not; */
	more.bytes = 900;
	declines_nothing(&more, NULL);
	/* or it has, and is to be another's. */
	kept.bytes = 600;
	declines_nothing(&kept, &next);
}

/* The line looks at its places while a request's file is being written, or that
 * of another one before it. */
static void a_request_in_hand_is_not_tried(bool is_behind_another)
{
	struct asked at_once = narrow, small = plain;
	const struct gm_admit_place *place;

	lose_turns();
	at_once.only_waits = false;
	at_once.flags = 0;
	at_once.wait_ns = 0;
	at_once.bytes = 100;
	small.name = "last";
	small.flags = 0;
	small.bytes = 10;
	place = c.c->line;
	if (is_behind_another)
		EQ(publish(&behind, &small), QUIET);
	EQ(publish(&c, &at_once), QUIET);
	OK(!gm_transactions_drained(d));
	EQ(TAILQ_EMPTY(&d->changes->waiting), !is_behind_another);
	gm_wait_line_drop(d, "next", 0, true);
	step();
	OK(gm_transactions_drained(d) || !place->is_again);
	write_all();
	EQ(told(&c), 0);
	if (is_behind_another)
		EQ(told(&behind), 0);
	end_turn();
}

/* The change that its turn was for, and that its client has not heard of, is
 * there for its next request; and for that alone. */
static void a_late_client_hears_of_room(void)
{
	struct asked much = made;

	much.bytes = TOTAL;
	begin_turn();
	EQ(hold("last", getpid(), 2, 100, SHOWN), 0);
	EQ(publish(&c, &much), QUIET);
	turn();
	EQ(told(&c), -EAGAIN);
	for (int i = 0; i < 2; i++) {
		EQ(publish(&c, &much), QUIET);
		turn();
		EQ(told(&c), QUIET);
		pass(SECOND + STEP);
		EQ(told(&c), -EAGAIN);
		miss_turn();
		EQ(publish(&c, &much), QUIET);
		turn();
		EQ(told(&c), -EAGAIN);
	}
	end_turn();
}

/* Another's request takes a place of its own, behind all. */
static void a_place_serves_one_map(void)
{
	struct asked changed[] = { waits, waits, waits };

	changed[0].name = "next";
	changed[1].start_ns = SECOND;
	changed[2].flags |= GPUMAP_PLAN_FOR;
	changed[2].owner = OTHER;
	changed[2].bytes = 300;
	for (int i = 0; i < 3; i++) {
		const struct gm_wait_place *last;

		begin_turn();
		EQ(room_of(&c, &waits).most_bytes, UINT64_MAX);
		OK(room_of(&c, &changed[i]).most_bytes <= 200);
		EQ(publish(&c, &changed[i]), QUIET);
		EQ(position("other"), 1);
		last = TAILQ_LAST(&d->line->places, gm_wait_place_list);
		STR(last->name, changed[i].name);
		EQ(last->uid, changed[i].owner);
		EQ(last->has_start, changed[i].start_ns != 0);
		write_all();
		end_turn();
	}
}

static void a_place_can_be_left(void)
{
	struct asked none = waits;

	none.wait_ns = 0;
	none.has_no_charge = true;
	begin_turn();
	EQ(ask(&c, &none), 0);
	OK(c.c->line == NULL);
	EQ(told(&behind), 0);
	EQ(position("next"), 1);
	/* Allowed for one that has none. */
	EQ(ask(&c, &none), 0);
	end_turn();
	/* And by hanging up. */
	begin_turn();
	hang_up(&c);
	EQ(told(&behind), 0);
	c = come();
	end_turn();
}

/* ---- ends ---------------------------------------------------------------- */

static void a_place_that_is_dropped_is_refused(void)
{
	begin_turn();
	EQ(gm_wait_line_drop(d, "model", 0, true), 1);
	EQ(ask(&c, &made), -ECANCELED);
	EQ(told(&behind), 0);
	end_turn();
	/* While it waits for room. */
	begin_one();
	EQ(ask(&c, &waits), QUIET);
	EQ(gm_wait_line_drop(d, "model", 0, true), 1);
	turn();
	EQ(told(&c), -ECANCELED);
	EQ(position("model"), 0);
	end_one();
}

static void time_ends_a_wait(void)
{
	struct asked soon = waits, fixed = other;
	struct peer f = come();

	begin_one();
	soon.wait_ns = fixed.wait_ns = SECOND / 2;
	EQ(ask(&c, &soon), QUIET);
	EQ(ask(&f, &fixed), QUIET);
	pass(SECOND / 4);
	EQ(told(&c), QUIET);
	pass(SECOND / 4 + STEP);
	EQ(told(&c), -ETIMEDOUT);
	EQ(told(&f), -ETIMEDOUT);
	OK(TAILQ_EMPTY(&d->line->places));
	/* In its turn; and another request makes it no longer. */
	soon.wait_ns = 3 * SECOND / 2;
	EQ(ask(&c, &soon), QUIET);
	pass(SECOND / 4);
	give_back("h2");
	EQ(told(&c), -EAGAIN);
	EQ(ask(&c, &soon), QUIET);
	pass(SECOND + STEP);
	EQ(told(&c), -EAGAIN);
	pass(SECOND + STEP);
	EQ(position("model"), 0);
	EQ(left_to_others(), UINT64_MAX);
	soon.only_waits = false;
	EQ(ask(&c, &soon), 0);
	EQ(d->ledger->of[slot_of("model")]->came_ns, standing_ns);
	EQ(release("model"), 0);
	soon.only_waits = true;
	/* So long that it never is. */
	soon.wait_ns = UINT64_MAX;
	soon.bytes = 900;
	EQ(hold("h2", getpid(), 2, TOTAL, SHOWN), 0);
	EQ(ask(&c, &soon), QUIET);
	EQ(position("model"), 1);
	hang_up(&c);
	hang_up(&f);
	clear();
}

/* ---- looks --------------------------------------------------------------- */

/* A client is told where a glance finds as much as it needs. */
static void no_turn_comes_without_room(void)
{
	struct asked least = waits, two = waits, nothing = waits;

	begin_one();
	EQ(ask(&c, &waits), QUIET);
	EQ(hold("h2", getpid(), 2, 300, SHOWN), 0);
	turn();
	EQ(told(&c), QUIET);
	/* Together with what there is of another row. */
	EQ(hold("h1", getpid(), 1, 900, SHOWN), 0);
	turn();
	EQ(told(&c), -EAGAIN);
	EQ(ask(&c, &waits), QUIET);
	/* A row is gone: that is for the client to find. */
	EQ(hold("h2", getpid(), 2, TOTAL, SHOWN), 0);
	d->devices->of[1]->moving.state = GPUMAP_DEVICE_LOST;
	gm_wait_line_changed(d);
	turn();
	EQ(told(&c), -EAGAIN);
	d->devices->of[1]->moving.state = GPUMAP_DEVICE_READY;
	end_one();

	/* Its client says how much that is, also if it keeps nothing; */
	begin_one();
	nothing.has_no_charge = true;
	EQ(ask(&c, &nothing), QUIET);
	EQ(hold("h2", getpid(), 2, 300, SHOWN), 0);
	turn();
	EQ(told(&c), QUIET);
	give_back("h2");
	EQ(told(&c), -EAGAIN);
	end_one();

	/* and at most what it keeps. */
	begin_one();
	least.least = 500;
	EQ(ask(&c, &least), QUIET);
	EQ(hold("h2", getpid(), 2, 500, SHOWN), 0);
	turn();
	EQ(told(&c), -EAGAIN);
	end_one();
	begin_one();
	two.least = 5000;
	EQ(ask(&c, &two), QUIET);
	give_back("h2");
	EQ(told(&c), -EAGAIN);
	end_one();
}

/* A map replaces one of its name, whose bytes are its own. */
static void a_map_may_grow(void)
{
	struct asked grows = waits;

	begin_one();
	EQ(hold("model", getpid(), 2, 1, SHOWN), -ENOSPC);
	give_back("h2");
	EQ(hold("model", getpid(), 2, 500, SHOWN), 0);
	EQ(hold("last", getpid(), 2, 500, SHOWN), 0);
	grows.bytes = 900;
	grows.least = 900;
	EQ(ask(&c, &grows), QUIET);
	EQ(hold("last", getpid(), 2, 100, SHOWN), 0);
	turn();
	EQ(told(&c), -EAGAIN);
	end_one();
	/* Also one that came after the place. */
	begin_one();
	EQ(ask(&c, &grows), QUIET);
	give_back("h2");
	EQ(told(&c), -EAGAIN);
	EQ(ask(&c, &grows), QUIET);
	EQ(hold("last", getpid(), 2, 100, SHOWN), 0);
	EQ(hold("model", getpid(), 2, 500, SHOWN), 0);
	turn();
	EQ(told(&c), -EAGAIN);
	end_one();
}

/* A place keeps rows from others that its turn can come for. */
static void rows_are_kept_for_a_turn_alone(void)
{
	struct asked elsewhere = waits;

	begin_one();
	elsewhere.n_others = 1;
	EQ(ask(&c, &elsewhere), QUIET); /* row 0 */
	EQ(left_to_others(), UINT64_MAX);
	/* A new place counts at once. */
	behind = come();
	EQ(room_of(&behind, &plain).most_bytes, UINT64_MAX);
	EQ(publish(&behind, &other), QUIET);
	EQ(room_of(&c, &plain).most_bytes, 200);
	hang_up(&behind);
	end_one();
}

/* ---- refusals ------------------------------------------------------------ */

/* Rows that cannot be used: where others would do its client makes another
 * map. */
static void rows_have_to_be_there(void)
{
	struct asked anywhere = made, based = plain, elsewhere = made;

	c = come();
	anywhere.wait_ns = 0;
	elsewhere.wait_ns = 0;
	elsewhere.row = 0;
	based.base_row = 1;
	d->devices->of[2]->moving.state = GPUMAP_DEVICE_FAILED;
	EQ(ask(&c, &plain), -ENODEV);
	EQ(ask(&c, &anywhere), -EAGAIN);
	EQ(ask(&c, &elsewhere), 0);
	d->devices->of[2]->moving.state = GPUMAP_DEVICE_READY;
	d->devices->of[1]->facts.flags |= GPUMAP_DEVICE_CORDONED;
	EQ(ask(&c, &based), -ENODEV);
	d->devices->of[1]->facts.flags &= ~(uint32_t)GPUMAP_DEVICE_CORDONED;
	d->devices->of[2]->facts.flags |= GPUMAP_DEVICE_CORDONED;
	EQ(ask(&c, &based), -ENODEV);
	d->devices->of[2]->facts.flags &= ~(uint32_t)GPUMAP_DEVICE_CORDONED;
	EQ(ask(&c, &based), 0);
	end_one();
}

static void an_agent_that_ends_admits_nothing(void)
{
	c = come();
	d->draining = true;
	EQ(ask(&c, &plain), -ESHUTDOWN);
	d->draining = false;
	end_one();
}

static void a_new_map_replaces_its_own_alone(void)
{
	struct asked new = plain;
	pid_t child = start_child();

	c = come();
	new.flags |= GPUMAP_PLAN_NEW;
	EQ(ask(&c, &new), 0);
	EQ(ask(&c, &new), 0);
	EQ(release("model"), 0);
	EQ(hold("model", child, 2, 100, SHOWN), 0);
	EQ(ask(&c, &new), -EEXIST);
	EQ(release("model"), 0);
	EQ(commit("model", 0, 2, 100), 0);
	EQ(ask(&c, &new), -EEXIST);
	new.flags &= ~(uint32_t)GPUMAP_PLAN_NEW;
	EQ(ask(&c, &new), 0);
	end_child(child);
	end_one();
}

/* A request that does not wait has another attempt where its layers may lie
 * elsewhere; one that lies there has not. */
static void what_does_not_fit_is_refused(void)
{
	struct asked asked = made, fixed = other;

	asked.wait_ns = fixed.wait_ns = 0;
	begin_one();
	EQ(ask(&c, &asked), -EAGAIN);
	EQ(ask(&c, &fixed), -ENOSPC);
	OK(TAILQ_EMPTY(&d->line->places) && c.c->line == NULL);
	/* One that waits and lies there comes in when there is room. */
	EQ(ask(&c, &other), QUIET);
	give_back("h1");
	EQ(told(&c), QUIET);
	EQ(release("h2"), 0);
	step();
	/* From there on it waits for no more than its file. */
	EQ(reserved(2), 800);
	OK(TAILQ_EMPTY(&d->line->places));
	EQ(told(&c), QUIET);
	write_all();
	EQ(told(&c), 0);
	end_one();
}

/* The place that it had counts from the time of its arrival. */
static void maps_have_come_when_they_were_asked_for(void)
{
	uint32_t slot = 0;

	begin_one();
	EQ(ask(&c, &other), QUIET);
	pass(SECOND);
	give_back("h2");
	write_all();
	EQ(told(&c), 0);
	while (d->ledger->of[slot] == NULL ||
	       d->ledger->of[slot]->of[0].bytes != 800)
		slot++;
	OK(d->ledger->of[slot]->came_ns + SECOND <=
	   d->ledger->of[slot]->since_ns);
	end_one();
}

/* Each user may have half of a row. */
static void a_share_is_waited_for_alone(void)
{
	struct asked much = waits, some = waits, fixed = other;

	c = come_as(OTHER);
	much.bytes = 600;
	some.bytes = fixed.bytes = 300;
	some.least = 300;
	/* One is never to have so much; */
	EQ(ask(&c, &much), -EDQUOT);
	much.only_waits = false;
	EQ(ask(&c, &much), -EDQUOT);
	EQ(reserve(&c, &much), -EDQUOT);
	/* one is, when another map of its user ends, and until then it keeps
	 * nothing from others; */
	EQ(commit("last", OTHER, 2, 300), 0);
	EQ(room_of(&c, &some).lasting_bytes, 200);
	EQ(room_of(&c, &plain).lasting_bytes, 200);
	EQ(ask(&c, &fixed), QUIET);
	EQ(left_to_others(), UINT64_MAX);
	EQ(release("last"), 0);
	write_all();
	EQ(told(&c), 0);
	EQ(room_of(&c, &some).lasting_bytes, 200);
	EQ(room_of(&c, &fixed).lasting_bytes, 500);
	/* likewise where any row would do. */
	EQ(publish(&c, &some), QUIET);
	EQ(left_to_others(), UINT64_MAX);
	end_one();
}

/* A share that is kept stays when its session has ended. */
static void kept_shares_do_not_end(void)
{
	struct gm_shared kept = { .flags = GPUMAP_SHARE_KEEP },
			 other_kind = { 0 };
	struct gm_session *session = (void *)server; /* any */
	struct gm_export exports[] = {
		{ .row = 2, .bytes = 300, .session = session, .shared = &kept },
		{ .row = 2,
		  .bytes = 7,
		  .session = session,
		  .shared = &other_kind },
		{ .row = 2, .bytes = 7, .session = session },
		{ .row = 2, .bytes = 7, .shared = &kept },
		{ .row = 1, .bytes = 7, .session = session, .shared = &kept },
	};
	struct asked one = plain;

	c = come();
	for (size_t i = 0; i < 5; i++)
		TAILQ_INSERT_TAIL(&server->exports, &exports[i], entry);
	EQ(room_of(&c, &plain).lasting_bytes, TOTAL - 300);
	one.row = 1;
	EQ(room_of(&c, &one).lasting_bytes, TOTAL - 7);
	/* The session is that of a reservation for good. */
	EQ(commit("last", 0, 2, 400), 0);
	EQ(room_of(&c, &plain).lasting_bytes, TOTAL - 700);
	gm_ledger_promise(d, slot_of("last"), 2)->session_bytes = 250;
	EQ(room_of(&c, &plain).lasting_bytes, TOTAL - 450);
	gm_ledger_promise(d, slot_of("last"), 2)->session_bytes = 0;
	TAILQ_INIT(&server->exports);
	end_one();
}

static void an_administrator_need_not_wait(void)
{
	struct asked rude = plain, good = plain;

	begin_turn();
	rude.name = good.name = "last";
	rude.bytes = good.bytes = 300;
	good.flags = 0;
	hang_up(&third);
	third = come();
	EQ(room_of(&third, &rude).most_bytes, 200);
	EQ(ask(&third, &rude), -ENOSPC);
	EQ(room_of(&third, &good).most_bytes, UINT64_MAX);
	EQ(ask(&third, &good), 0);
	end_turn();
}

/* ---- start windows ------------------------------------------------------- */

static void one_starts_at_a_time(void)
{
	struct asked a = plain, b = plain, e = plain, none;

	come_all();
	a.start_ns = b.start_ns = e.start_ns = 10 * SECOND;
	a.bytes = b.bytes = e.bytes = 0;
	b.name = "other";
	e.name = "next";
	EQ(ask(&c, &a), 0);
	EQ(ask(&behind, &b), -EBUSY);
	b.wait_ns = e.wait_ns = LONG_NS;
	EQ(ask(&behind, &b), QUIET);
	OK(TAILQ_FIRST(&d->line->places)->is_for_start);
	/* Another can wait behind one that waits; */
	none = e;
	none.wait_ns = 0;
	EQ(ask(&third, &none), -EBUSY);
	EQ(ask(&third, &e), QUIET);
	OK(TAILQ_LAST(&d->line->places, gm_wait_place_list)->is_for_start);
	EQ(room_of(&c, &none).most_bytes, 0);
	/* and each of them is heard of the end of a window in time. */
	EQ(gm_pins_started(d, slot_of("model")), 0);
	pass(SECOND / 5);
	write_all();
	EQ(told(&behind), 0);
	EQ(told(&third), QUIET);
	pass(11 * SECOND);
	write_all();
	EQ(told(&third), 0);
	end_turn();
}

/* Its client makes no plan while processes start on all of its rows. */
static void no_turn_comes_in_windows(void)
{
	struct asked starts = plain, anywhere = made;

	come_all();
	starts.start_ns = 10 * SECOND;
	for (uint32_t row = 0; row < 3; row++) {
		starts.name = (const char *[]){ "h0", "h1", "last" }[row];
		starts.row = row;
		EQ(ask(&c, &starts), 0);
	}
	anywhere.start_ns = SECOND;
	anywhere.least = 0;
	EQ(ask(&behind, &anywhere), QUIET);
	OK(TAILQ_FIRST(&d->line->places)->is_for_start);
	pass(3 * SECOND);
	EQ(told(&behind), QUIET);
	EQ(gm_pins_started(d, slot_of("h1")), 0);
	pass(SECOND / 5);
	EQ(told(&behind), -EAGAIN);
	/* The model may wait for room then. */
	EQ(hold("h2", getpid(), 2, 500, SHOWN), 0);
	EQ(publish(&behind, &anywhere), QUIET);
	OK(!TAILQ_FIRST(&d->line->places)->is_for_start);
	end_turn();
}

/* One that waits for room as well does not wait to start alone. */
static void a_window_is_not_all_that_is_waited_for(void)
{
	struct asked starts = plain, both = plain;

	begin_turn();
	hang_up(&c);
	write_all();
	EQ(told(&behind), 0);
	EQ(position("next"), 1);
	c = come();
	EQ(release("h1"), 0);
	starts.row = 1;
	starts.start_ns = both.start_ns = 10 * SECOND;
	EQ(ask(&c, &starts), 0);
	both.name = "last";
	both.takes_all = true;
	both.n_others = 2;
	both.others[0] = 1;
	both.others[1] = 2;
	EQ(reserve(&behind, &both), -ENOSPC);
	both.wait_ns = LONG_NS;
	EQ(reserve(&behind, &both), QUIET);
	OK(!TAILQ_LAST(&d->line->places, gm_wait_place_list)->is_for_start);
	hang_up(&third);
	third = come();
	turn();
	OK(TAILQ_FIRST(&d->line->places)->is_for_start);
	end_turn();
}

/* ---- bytes of rows ------------------------------------------------------- */

static void the_most_that_is_missing_is_told(void)
{
	struct asked both = { .bytes = 600,
			      .is_question = true,
			      .takes_all = true,
			      .n_others = 2,
			      .others = { 1, 2 },
			      .name = "" };

	c = come();
	EQ(hold("h1", getpid(), 1, 900, SHOWN), 0);
	EQ(hold("h2", getpid(), 2, 500, SHOWN), 0);
	EQ(reserve(&c, &both), 0);
	EQ(answered.missing_bytes, 500);
	EQ(answered.missing_row, 1);
	OK(!is_published(""));
	end_one();
}

/* Its rows are kept also while its file is written. */
static void a_reservation_waits_for_its_rows(void)
{
	struct asked one = other, any = other;

	come_all();
	fill();
	one.n_others = 1;
	one.others[0] = 2;
	EQ(reserve(&c, &one), QUIET);
	EQ(left_to_others(), 200);
	EQ(TAILQ_FIRST(&d->line->places)->bytes, 800);
	any.name = "last";
	any.bytes = 500;
	any.n_others = 2;
	any.others[0] = 1;
	any.others[1] = 2;
	EQ(reserve(&behind, &any), QUIET);
	give_back("h1");
	write_all();
	EQ(told(&behind), 0);
	EQ(reserved(1), 500);
	EQ(told(&c), QUIET);
	give_back("h2");
	write_all();
	EQ(told(&c), 0);
	EQ(reserved(2), 800);
	end_turn();
	/* In hand. */
	come_all();
	fill();
	one.flags = 0;
	EQ(reserve(&c, &one), QUIET);
	EQ(release("h2"), 0);
	step();
	EQ(left_to_others(), 200);
	OK(!gm_transactions_drained(d));
	write_all();
	EQ(told(&c), 0);
	EQ(left_to_others(), UINT64_MAX);
	end_turn();
}

TAP_CASE()
{
	server = calloc(1, sizeof(*server));
	if (server == NULL || mkdtemp(parent) == NULL ||
	    !ledger_begin("test-admit"))
		return 99;
	d->state_dir = parent;
	d->instance = "it";
	server->d = d;
	d->server = server;
	TAILQ_INIT(&server->exports);
	standing_ns = gm_node_clock_now();
	gm_transactions_init(d->changes);
	EQ(gm_state_start(d, why), 0);
	EQ(gm_io_thread_start(d->io_thread, d->loop, "a"), 0);
	a_turn_is_used();
	missed_turns_pass();
	late_requests_make_no_turn_longer();
	late_requests_miss_no_turn();
	declined_turns_pass();
	an_attempt_is_no_missed_turn();
	a_new_place_has_missed_nothing();
	those_without_room_decline_nothing();
	a_request_in_hand_is_not_tried(false);
	a_request_in_hand_is_not_tried(true);
	a_late_client_hears_of_room();
	a_place_serves_one_map();
	a_place_can_be_left();
	a_place_that_is_dropped_is_refused();
	time_ends_a_wait();
	no_turn_comes_without_room();
	a_map_may_grow();
	rows_are_kept_for_a_turn_alone();
	rows_have_to_be_there();
	an_agent_that_ends_admits_nothing();
	a_new_map_replaces_its_own_alone();
	what_does_not_fit_is_refused();
	maps_have_come_when_they_were_asked_for();
	a_share_is_waited_for_alone();
	kept_shares_do_not_end();
	an_administrator_need_not_wait();
	one_starts_at_a_time();
	no_turn_comes_in_windows();
	a_window_is_not_all_that_is_waited_for();
	the_most_that_is_missing_is_told();
	a_reservation_waits_for_its_rows();
	standing_ns = 0;
	EQ(gm_io_thread_stop(d->io_thread, UINT64_MAX), 0);
	gm_state_exit(d);
	shm_names_remove_dir(parent);
	ledger_end();
	free(server);
	return tap_done();
}
