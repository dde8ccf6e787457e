/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * A model whose layers may lie on any rows waits for room: its client hears
 * when it is its turn, and may use the turn, miss it, or end in it.  The
 * clients are made by hand, so that each does what it does at the instant that
 * is meant.
 */

#include <gpumap/plan.h>
#include <gpumap/reservation.h>

#include <poll.h>

#include "tests/support/plan_agent.h"
#include "tests/support/raw.h"

#define SECOND  UINT64_C(1000000000)
#define LONG_NS (600 * SECOND)

static char path[160];

/* ---- a client ------------------------------------------------------------ */

struct asked {
	const char *name;
	uint32_t row;
	uint64_t bytes;   /* of it */
	bool is_anywhere; /* rows 0 to 2 would do as well */
	bool only_waits;
	uint64_t wait_ns;
};

struct tail {
	struct gm_charge_image charge;
	struct gm_plan_run run;
	uint32_t rows[3];
	char spec[4];
};

static struct raw come(void)
{
	struct raw c;

	raw_init(&c);
	EQ(raw_open(&c, path), 0);
	return c;
}

/* Ask what there is of row 2 for a map of this name. */
static struct gm_room_row ask_room(struct raw *c, const char *name,
				   uint64_t *ret_given)
{
	struct {
		struct gm_room_reply head;
		struct gm_room_row rows[ROWS];
	} reply = { .head = { .n = 0 } };
	struct gm_room ask = { .flags = GPUMAP_PLAN_COMMIT,
			       .wait_ns = LONG_NS };

	snprintf(ask.name, sizeof(ask.name), "%s", name);
	EQ(raw_ask(c, GM_CONTROL_ROOM, &ask, sizeof(ask), &reply, sizeof(reply),
		   NULL),
	   0);
	EQ(reply.head.n, ROWS);
	if (ret_given)
		*ret_given = reply.head.rows_given;
	return reply.rows[2];
}

/* Send PUBLISH, and do not wait for its answer. */
static void publish(struct raw *c, const struct asked *asked)
{
	struct gm_publish body = {
		.map = { .flags = GPUMAP_PLAN_COMMIT,
			 .wait_ns = asked->wait_ns },
		.setting = asked->is_anywhere ? GPUMAP_SETTING_AUTO
					      : GPUMAP_SETTING_MANUAL,
		.n_layers = asked->only_waits ? 0 : 1,
		.n_charges = 1,
		.n_runs = asked->only_waits ? 0 : 1,
		.n_rows = asked->is_anywhere ? 3 : 0,
		.spec_bytes = 4,
		.base_row = asked->row,
		.least_bytes = asked->bytes,
	};
	struct tail parts = {
		.charge = { .row = asked->row,
			    .n_layers = 1,
			    .weight_bytes = asked->bytes },
		.run = { asked->row, 1 },
		.rows = { 0, 1, 2 },
		.spec = "2:1",
	};
	char tail[sizeof(parts)];
	uint32_t n = 0;
	struct raw_record record = { .body = &body,
				     .body_bytes = sizeof(body),
				     .tail = tail };

	(void)ask_room(c, asked->name, &body.rows_given);
	snprintf(body.map.name, sizeof(body.map.name), "%s", asked->name);
	memcpy(tail, &parts.charge, body.n_charges * sizeof(parts.charge));
	n += body.n_charges * (uint32_t)sizeof(parts.charge);
	memcpy(tail + n, &parts.run, body.n_runs * sizeof(parts.run));
	n += body.n_runs * (uint32_t)sizeof(parts.run);
	memcpy(tail + n, parts.rows, body.n_rows * 4);
	n += body.n_rows * 4;
	memcpy(tail + n, parts.spec, 4);
	record.tail_bytes = n + 4;
	record.header = raw_header(c, GM_CONTROL_PUBLISH, sizeof(body),
				   record.tail_bytes);
	EQ(raw_send(c, &record, 0), 0);
}

static int answer_of(struct raw *c)
{
	struct gm_control head = { .status = 1 };
	char body[512];

	if (raw_receive(c, &head, body, sizeof(body),
			(int[GM_CONTROL_FDS_MAX]){ 0 }) < 0)
		return 1;
	return head.status;
}

static bool is_quiet(const struct raw *c)
{
	struct pollfd polled = { .fd = c->socket, .events = POLLIN };

	return poll(&polled, 1, 0) == 0;
}

static int line_length(void)
{
	return gpumap_wait_list(map, NULL, 0);
}

static bool has_line(int n)
{
	uint64_t until = story_now() + STORY_LIMIT_NS;

	while (line_length() != n && story_now() < until)
		story_nap(1000);
	return EQ(line_length(), n);
}

/* The first @n of rows 0 to 2 but for @free of row 2, as this process's map. */
static void take(const char *name, uint32_t n, uint64_t free)
{
	static const uint32_t rows[] = { 0, 1, 2 };
	uint64_t bytes[] = { 8 * GIB, 8 * GIB, 10 * GIB - free };
	struct gpumap_plan_request request = {
		.size = sizeof(request),
		.name = name,
		.flags = GPUMAP_PLAN_COMMIT | GPUMAP_PLAN_HELD,
		.setting = GPUMAP_SETTING_RESERVE,
		.rows = rows,
		.n_rows = n,
		.n_layers = n,
		.layer_bytes = bytes,
	};
	struct gpumap_plan answer;

	EQ(plan(&request, &answer), 0);
}

/* Another has all the room, and @c waits for as much as @asked. */
static struct raw wait_behind_all(const struct asked *asked)
{
	struct raw c = come();

	take("has", 3, 0);
	publish(&c, asked);
	OK(has_line(1));
	OK(is_quiet(&c));
	return c;
}

static void give_back(const char *name)
{
	EQ(gpumap_layers_release(map, name), 0);
}

static const struct asked waits = { .name = "model",
				    .row = 2,
				    .bytes = 8 * GIB,
				    .is_anywhere = true,
				    .only_waits = true,
				    .wait_ns = LONG_NS };
static const struct asked made = { .name = "model",
				   .row = 2,
				   .bytes = 8 * GIB,
				   .is_anywhere = true,
				   .wait_ns = LONG_NS };
static const struct asked fixed = {
	.name = "fixed", .row = 2, .bytes = 8 * GIB, .wait_ns = LONG_NS
};

/* ---- cases --------------------------------------------------------------- */

static void a_turn_is_used(void)
{
	struct raw c = wait_behind_all(&waits);
	struct gm_room_row row;

	give_back("has");
	EQ(answer_of(&c), -EAGAIN);
	OK(has_line(1));
	row = ask_room(&c, "model", NULL);
	EQ(row.avail_bytes, 10 * GIB);
	OK(row.most_bytes >= 8 * GIB);
	EQ(all_reserved(), 0);
	publish(&c, &made);
	EQ(answer_of(&c), 0);
	EQ(reserved(2), 8 * GIB);
	EQ(line_length(), 0);
	give_back("model");
	raw_close(&c);
}

/* A client is not told of changes that cannot be enough. */
static void one_that_cannot_fit_is_not_told(void)
{
	struct asked much = waits;
	struct raw c = come();

	much.bytes = 9 * GIB;
	take("has", 3, 8 * GIB);
	publish(&c, &much);
	OK(has_line(1));
	for (int i = 0; i < 3; i++) {
		EQ(commit("other", GPUMAP_PLAN_HELD, 0), 0);
		give_back("other");
	}
	OK(is_quiet(&c));
	give_back("has");
	EQ(answer_of(&c), -EAGAIN);
	raw_close(&c);
	OK(has_line(0));
}

/* Layers that lie on certain rows are the agent's to try. */
static void a_fixed_map_has_no_turn(void)
{
	struct raw c = wait_behind_all(&fixed);

	give_back("has");
	EQ(answer_of(&c), 0);
	EQ(reserved(2), 8 * GIB);
	give_back("fixed");
	raw_close(&c);
}

static void missed_turns_pass(void)
{
	struct raw c = wait_behind_all(&waits), behind = come();
	uint64_t since;

	publish(&behind, &fixed);
	OK(has_line(2));
	since = story_now();
	give_back("has");
	EQ(answer_of(&c), -EAGAIN);
	take("rest", 2, 0);
	/* Two turns of a second each. */
	EQ(answer_of(&behind), 0);
	OK(story_now() - since >= 2 * SECOND);
	OK(has_line(1));
	/* The place keeps nothing from others until its client asks again. */
	give_back("fixed");
	EQ(commit("next", GPUMAP_PLAN_HELD, GIB / 2), 0);
	give_back("next");
	publish(&behind, &fixed);
	EQ(answer_of(&behind), 0);
	/* The client may ask again, from the line's end. */
	publish(&c, &made);
	OK(has_line(1));
	OK(is_quiet(&c));
	give_back("fixed");
	EQ(answer_of(&c), -EAGAIN);
	publish(&c, &made);
	EQ(answer_of(&c), 0);
	give_back("model");
	give_back("rest");
	raw_close(&c);
	raw_close(&behind);
}

/* ROOM says what those in the line leave to others. */
static void the_line_is_in_the_room(void)
{
	struct raw c = wait_behind_all(&waits), other = come();

	give_back("has");
	EQ(answer_of(&c), -EAGAIN);
	EQ(ask_room(&other, "other", NULL).avail_bytes, 10 * GIB);
	EQ(ask_room(&other, "other", NULL).most_bytes, 2 * GIB);
	EQ(ask_room(&other, "other", NULL).lasting_bytes, 10 * GIB);
	OK(ask_room(&c, "model", NULL).most_bytes >= 8 * GIB);
	raw_close(&c);
	OK(has_line(0));
	raw_close(&other);
}

static void its_end_in_its_turn_ends_its_place(void)
{
	struct raw c = wait_behind_all(&waits), behind = come();

	publish(&behind, &fixed);
	OK(has_line(2));
	give_back("has");
	EQ(answer_of(&c), -EAGAIN);
	raw_close(&c);
	EQ(answer_of(&behind), 0);
	give_back("fixed");
	raw_close(&behind);
}

static void a_place_can_be_left(void)
{
	struct asked none = waits, other = made;
	struct raw c = wait_behind_all(&waits);

	give_back("has");
	EQ(answer_of(&c), -EAGAIN);
	none.wait_ns = 0;
	publish(&c, &none);
	EQ(answer_of(&c), 0);
	EQ(line_length(), 0);
	EQ(all_reserved(), 0);
	/* Likewise by a map of another name. */
	take("has", 3, 0);
	publish(&c, &waits);
	OK(has_line(1));
	give_back("has");
	EQ(answer_of(&c), -EAGAIN);
	other.name = "other";
	publish(&c, &other);
	EQ(answer_of(&c), 0);
	EQ(line_length(), 0);
	give_back("other");
	raw_close(&c);
}

static void one_that_is_dropped_in_its_turn_hears_of_it(void)
{
	struct raw c = wait_behind_all(&waits);

	give_back("has");
	EQ(answer_of(&c), -EAGAIN);
	EQ(gpumap_wait_drop(map, "model"), 0);
	publish(&c, &made);
	EQ(answer_of(&c), -ECANCELED);
	EQ(line_length(), 0);
	EQ(all_reserved(), 0);
	publish(&c, &made);
	EQ(answer_of(&c), 0);
	give_back("model");
	raw_close(&c);
}

static void its_time_may_be_over(void)
{
	struct asked soon = waits;
	struct raw c;

	soon.wait_ns = SECOND / 2;
	c = wait_behind_all(&soon);
	EQ(answer_of(&c), -ETIMEDOUT);
	EQ(line_length(), 0);
	give_back("has");
	raw_close(&c);
}

/* A map that was made from a look at other rows is made again. */
static void rows_that_were_given_anew_are_looked_at(void)
{
	struct raw c = come();
	struct gm_publish body = { .map = { .name = "late",
					    .flags = GPUMAP_PLAN_COMMIT },
				   .setting = GPUMAP_SETTING_MANUAL,
				   .n_layers = 1,
				   .n_charges = 1,
				   .n_runs = 1,
				   .spec_bytes = 4 };
	struct {
		struct gm_charge_image charge;
		struct gm_plan_run run;
		char spec[4];
	} tail = { { .row = 2 }, { 2, 1 }, "2:1" };

	(void)ask_room(&c, "late", &body.rows_given);
	body.rows_given++;
	EQ(raw_ask_tail(&c, GM_CONTROL_PUBLISH, &body, sizeof(body), &tail,
			sizeof(tail.charge) + sizeof(tail.run) + 4),
	   -EAGAIN);
	body.rows_given--;
	/* Layers lie on rows that are charged. */
	tail.run.row = 1;
	EQ(raw_ask_tail(&c, GM_CONTROL_PUBLISH, &body, sizeof(body), &tail,
			sizeof(tail.charge) + sizeof(tail.run) + 4),
	   -EINVAL);
	tail.run.row = 2;
	EQ(raw_ask_tail(&c, GM_CONTROL_PUBLISH, &body, sizeof(body), &tail,
			sizeof(tail.charge) + sizeof(tail.run) + 4),
	   0);
	give_back("late");
	raw_close(&c);
}

TAP_CASE()
{
	agent_make(&agent, NULL);
	configure("");
	snprintf(path, sizeof(path), "%s/%s.sock", agent.dir, agent.instance);
	if (OK(agent_start(&agent))) {
		map = story_attach(&agent);
		a_turn_is_used();
		one_that_cannot_fit_is_not_told();
		a_fixed_map_has_no_turn();
		missed_turns_pass();
		the_line_is_in_the_room();
		its_end_in_its_turn_ends_its_place();
		a_place_can_be_left();
		one_that_is_dropped_in_its_turn_hears_of_it();
		its_time_may_be_over();
		rows_that_were_given_anew_are_looked_at();
		OK(is_empty());
		gpumap_detach(map);
	}
	if (tap_failures)
		agent_show_log(&agent);
	agent_remove(&agent);
	return tap_done();
}
