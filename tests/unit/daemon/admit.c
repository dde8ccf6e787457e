/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * admit: which maps and reservations are refused, which wait, and for what.
 */

#include "agent/daemon/sharing/export_accounting.h"
#include "agent/daemon/sharing/share.h"
#include "tests/support/admit_rig.h"

/* ---- forms --------------------------------------------------------------- */

/* The status of PUBLISH or RESERVE as it stands. */
static int send_form(uint16_t type, const void *body, size_t bytes,
		     const char *tail, const char *end)
{
	struct gm_request r = { .header = { .type = type },
				.tail = tail,
				.tail_bytes = (uint32_t)(end - tail) };
	int ret;

	memcpy(r.body, body, bytes);
	ret = type == GM_CONTROL_PUBLISH ? gm_admit_publish_handle(c.c, &r)
					 : gm_admit_reserve_handle(c.c, &r);
	write_all();
	return ret != 0 ? ret : told(&c);
}

/* A map as it should be, but for one thing. */
static void a_map_has_a_form(void)
{
	enum { GOOD, RUNS, LAYERS, NO_LAYERS, SIZES, SPEC, MORE, TWICE, TURNS };
	static char tail[1 << 17];

	c = come();
	for (int wrong = GOOD; wrong <= TURNS; wrong++) {
		const struct gm_charge_image charge = { .row = 2 };
		struct gm_plan_run run = { 2, 1 };
		const uint32_t others[] = { 2, wrong == TWICE ? 2 : 1 };
		struct gm_publish body = {
			.map = head_of(&plain),
			.setting = GPUMAP_SETTING_AUTO,
			.base_row = 2,
			.n_layers = 1,
			.n_charges = 1,
			.n_runs = wrong == RUNS ? GM_PLAN_RUNS_MAX + 1 : 1,
			.n_rows = 2,
			.spec_bytes = wrong == SPEC ? 4097 : 4,
			.rows_given = gm_room_rows_given(d),
		};
		char *at = tail;

		if (wrong == LAYERS)
			run.n_layers = GM_LAYERS_MAX + 1;
		if (wrong == NO_LAYERS)
			run.n_layers = 0;
		body.n_layers = body.n_runs * run.n_layers;
		body.n_bytes = wrong == SIZES ? 2 : 0;
		if (wrong == TURNS) {
			body.n_runs = body.n_rows = body.n_layers = 0;
			body.map.wait_ns = LONG_NS;
		}
		at = mempcpy(at, &charge, sizeof(charge));
		for (uint32_t i = 0; i < body.n_runs; i++)
			at = mempcpy(at, &run, sizeof(run));
		memset(at, 0, 8 * (size_t)body.n_bytes);
		at += 8 * (size_t)body.n_bytes;
		at = mempcpy(at, others, 4 * (size_t)body.n_rows);
		memset(at, '1', body.spec_bytes);
		at += body.spec_bytes;
		at[-1] = '\0';
		if (wrong == MORE)
			at += 8;
		if (!EQ(send_form(GM_CONTROL_PUBLISH, &body, sizeof(body), tail,
				  at),
			wrong == GOOD ? 0 : -EINVAL))
			NOTE("form %d", wrong);
	}
	hang_up(&c);
	clear();
}

static void a_reservation_has_a_form(void)
{
	const uint64_t tail[GM_ROWS + 2] = { 100 };
	const char *from = (const char *)tail;
	struct gm_reserve_ask body = { .map = head_of(&plain), .n_bytes = 1 };
	struct gm_room nameless = head_of(&plain);
	struct gm_request r = { .header = { .type = GM_CONTROL_ROOM } };

	c = come();
	EQ(send_form(GM_CONTROL_RESERVE, &body, sizeof(body), from, from + 8),
	   0);
	EQ(send_form(GM_CONTROL_RESERVE, &body, sizeof(body), from, from + 16),
	   -EINVAL);
	body.dtype = GPUMAP_DTYPE_F8_E5M2 + 1;
	EQ(send_form(GM_CONTROL_RESERVE, &body, sizeof(body), from, from + 8),
	   -EINVAL);
	body.dtype = 0;
	body.n_bytes = 0;
	EQ(send_form(GM_CONTROL_RESERVE, &body, sizeof(body), from, from),
	   -EINVAL);
	body.n_bytes = 1;
	body.n_rows = 2; /* row 0 twice */
	EQ(send_form(GM_CONTROL_RESERVE, &body, sizeof(body), from, from + 16),
	   -EINVAL);
	body.n_bytes = GM_ROWS + 1;
	body.n_rows = 0;
	EQ(send_form(GM_CONTROL_RESERVE, &body, sizeof(body), from,
		     from + 8 * (GM_ROWS + 1)),
	   -EINVAL);
	memset(nameless.name, 'x', sizeof(nameless.name));
	memcpy(r.body, &nameless, sizeof(nameless));
	EQ(gm_admit_room_handle(c.c, &r), -EINVAL);
	hang_up(&c);
	clear();
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
	hang_up(&c);
	clear();
}

static void an_agent_that_ends_admits_nothing(void)
{
	struct gm_request room = { .header = { .type = GM_CONTROL_ROOM } };

	c = come();
	d->draining = true;
	EQ(ask(&c, &plain), -ESHUTDOWN);
	EQ(gm_admit_room_handle(c.c, &room), -ESHUTDOWN);
	d->draining = false;
	hang_up(&c);
	clear();
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
	hang_up(&c);
	clear();
}

/* A request that does not wait has another attempt where its layers may lie
 * elsewhere; one that lies there has not. */
static void what_does_not_fit_is_refused(void)
{
	struct asked asked = made, fixed = other;

	asked.wait_ns = fixed.wait_ns = 0;
	c = come();
	fill();
	EQ(ask(&c, &asked), -EAGAIN);
	OK(TAILQ_EMPTY(&d->line->places) && c.c->line == NULL);
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
	hang_up(&c);
	clear();
}

/* The place that it had counts from the time of its arrival. */
static void maps_have_come_when_they_were_asked_for(void)
{
	uint32_t slot = 0;

	c = come();
	fill();
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
	hang_up(&c);
	clear();
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
	hang_up(&c);
	clear();
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
	hang_up(&c);
	clear();
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

	c = come();
	behind = come();
	third = come();
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
	EQ(room_of(&c, &none).most_bytes, 0);
	pass(SECOND / 5);
	write_all();
	EQ(told(&behind), 0);
	EQ(told(&third), QUIET);
	pass(11 * SECOND);
	write_all();
	EQ(told(&third), 0);
	end_turn();
}

/* A map keeps what it has, whatever others wait for; but it opens no window
 * anew before those that wait for one. */
static void a_map_keeps_its_bytes(void)
{
	static const struct {
		uint64_t bytes, start_ns;
		int want[2]; /* others wait for room, or to start */
	} cases[] = {
		{ 100, 0, { 0, 0 } },
		{ 101, 0, { -ENOSPC, 0 } },
		{ 50, 0, { 0, 0 } },
		{ 50, SECOND, { 0, -EBUSY } },
		{ 51, SECOND, { -ENOSPC, -EBUSY } },
		{ 0, SECOND, { 0, -EBUSY } },
	};
	struct asked starts = plain;

	starts.name = "last";
	starts.start_ns = LONG_NS;
	for (int is_start = 0; is_start < 2; is_start++) {
		struct asked waiting = next;

		c = come();
		behind = come();
		third = come();
		EQ(ask(&c, &plain), 0);
		if (is_start) {
			EQ(ask(&third, &starts), 0);
			waiting.bytes = 100;
			waiting.start_ns = SECOND;
		}
		EQ(ask(&behind, &waiting), QUIET);
		EQ(position("next"), 1);
		for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
			struct asked again = plain;

			again.bytes = cases[i].bytes;
			again.start_ns = cases[i].start_ns;
			if (!EQ(ask(&c, &again), cases[i].want[is_start]))
				NOTE("case %zu", i);
		}
		end_turn();
	}
}

/* A map that waited to start waits for room, when that is gone. */
static void room_goes_while_one_waits_to_start(void)
{
	struct asked starts = plain, anywhere = made;

	c = come();
	behind = come();
	third = come();
	starts.start_ns = 10 * SECOND;
	EQ(ask(&c, &starts), 0);
	anywhere.name = "last";
	anywhere.start_ns = SECOND;
	EQ(publish(&behind, &anywhere), QUIET);
	OK(TAILQ_FIRST(&d->line->places)->is_for_start);
	turn();
	EQ(told(&behind), -EAGAIN);
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

/* The row that has the fewest bytes left then, of those that can be used. */
static void a_row_is_chosen(void)
{
	struct asked any = plain, named = plain;
	uint32_t *flags = &d->devices->of[0]->facts.flags;

	c = come();
	behind = come_as(OTHER);
	named.n_others = 1; /* row 0 */
	*flags |= GPUMAP_DEVICE_CORDONED;
	EQ(reserve(&c, &named), -ENODEV);
	EQ(reserve(&c, &any), 0);
	EQ(reserved(1), 100);
	*flags &= ~(uint32_t)GPUMAP_DEVICE_CORDONED;
	d->devices->of[0]->moving.state = GPUMAP_DEVICE_LOST;
	EQ(reserve(&c, &named), -ENODEV);
	EQ(reserve(&c, &any), 0);
	EQ(reserved(1), 100);
	d->devices->of[0]->moving.state = GPUMAP_DEVICE_READY;
	EQ(hold("h2", getpid(), 2, 500, SHOWN), 0);
	EQ(reserve(&c, &any), 0);
	EQ(reserved(2), 600);
	EQ(release("model"), 0);
	/* Its user may have no more of row 2. */
	EQ(commit("last", OTHER, 2, 300), 0);
	any.bytes = 250;
	any.name = "next";
	any.n_others = 2;
	any.others[0] = 2;
	any.others[1] = 1;
	EQ(hold("h2", getpid(), 2, 100, SHOWN), 0);
	EQ(reserve(&behind, &any), 0);
	EQ(reserved(1), 250);
	hang_up(&c);
	hang_up(&behind);
	clear();
}

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
	hang_up(&c);
	clear();
}

/* Its rows are kept also while its file is written. */
static void a_reservation_waits_for_its_rows(void)
{
	struct asked one = other, any = other;

	c = come();
	behind = come();
	third = come();
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
	c = come();
	behind = come();
	third = come();
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
	if (!admit_begin("test-admit"))
		return 99;
	a_map_has_a_form();
	a_reservation_has_a_form();
	rows_have_to_be_there();
	an_agent_that_ends_admits_nothing();
	a_new_map_replaces_its_own_alone();
	what_does_not_fit_is_refused();
	maps_have_come_when_they_were_asked_for();
	a_share_is_waited_for_alone();
	kept_shares_do_not_end();
	an_administrator_need_not_wait();
	one_starts_at_a_time();
	a_map_keeps_its_bytes();
	room_goes_while_one_waits_to_start();
	a_window_is_not_all_that_is_waited_for();
	a_row_is_chosen();
	the_most_that_is_missing_is_told();
	a_reservation_waits_for_its_rows();
	return admit_end();
}
