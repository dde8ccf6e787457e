/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Checks what gpumapctl top shows where: whole screens, each size, 256 rows,
 * and names that would confuse a terminal.
 */

#include "tests/unit/top/node.h"

static void a_screen_is_as_expected(void)
{
	static const char expected[] =
		" node  gpumapd 1.2.3 READY for 3 h, start 3  4 rows     "
		"               08:12:03\n"
		"─ rows ───────────────"
		"──────────── ██ sessions  "
		"▓▓ others  ▒▒ promised  ·· free\n"
		" row kind  state      memory                       taken"
		"/all  busy  heat  power\n"
		" NUMA node 0  2 rows, 40.0 GiB used, 40.0 GiB promised, "
		"80.0 GiB free\n"
		"   0 cuda  READY      ███▓▓▒▒▒▒▒··"
		"········ 40.0 GiB/80.0 GiB  50 %  60 C  300 W\n"
		"   1 cuda  READY      ███▓▓▒▒▒▒▒··"
		"········ 40.0 GiB/80.0 GiB  50 %  60 C  300 W\n"
		" NUMA node 1  2 rows, 40.0 GiB used, 40.0 GiB promised, "
		"80.0 GiB free\n"
		"   2 cuda  READY      ███▓▓▒▒▒▒▒··"
		"········ 40.0 GiB/80.0 GiB  50 %  60 C  300 W\n"
		"   3 cuda  READY      ███▓▓▒▒▒▒▒··"
		"········ 40.0 GiB/80.0 GiB  50 %  60 C  300 W\n";

	node_make(4);
	node_draw();
	OK(is_sound());
	if (!OK(strncmp(screen, expected, sizeof(expected) - 1) == 0))
		NOTE("\n%s\nis not\n%s", screen, expected);
	OK(shows("─ row 0  H100  40.0 GiB free ─"));
	OK(shows("   25 %"));
	OK(shows(" used                                  ▄"));
	OK(shows(" busy                                 █"));
	OK(shows("─ sessions and reservations 4  models 2  waits 2 ─"));
	OK(shows(" ada  has 4.0 GiB, reserves 8.0 GiB\n   vllm 100\n"));
	OK(shows("\n     session 7 has 4.0 GiB, lent 1.0 GiB of rows 0,1, "
		 "90 s\n"));
	OK(shows(" q quit  h help  Tab panel  s sort  / filter  t tree"));
}

static void panels_show_all(void)
{
	node_make(4);
	node_draw_at(120, 60);
	OK(shows("   python 300 session 8 has 0 B of row 0, 5 s\n"));
	OK(shows("     reserves 8.0 GiB of row 1 as small\n"));
	OK(shows(" bob  has 2.0 GiB, reserves 30.0 GiB\n"
		 "   no process 2.0 GiB of row 0, kept by a name or by "
		 "importers\n"
		 "   sglang 200 reserves 30.0 GiB of row 2 as large\n"));
	OK(shows(" llama                                   ada        16.0 GiB "
		 "3 holders, kept, rows 0-2, 2 h\n"));
	OK(shows(" plan                                    bob        40.0 GiB "
		 "80 layers, rows 1-4\n"));
	OK(shows(
		" 1 trtllm 400 asks 60.0 GiB of rows 1,2 as first, waits 3 s, "
		"1.0 GiB missing on row 2\n"
		"    for sglang 200, which reserves 30.0 GiB as large\n"
		" 2 trtllm 500 asks a plan of row 2 as second, waits 1 s\n"
		"    for sglang 200, which reserves 30.0 GiB as large, 1 waits "
		"before\n"));
	sessions[1].info.load_bytes = 5 * GIB;
	sessions[1].info.load_total_bytes = 12 * GIB;
	node_draw();
	OK(shows("   python 300 session 8 has 0 B, loads ████······ 41 % of "
		 "12.0 GiB of row 0, 5 s\n"));
	/* More than all, as a session may say. */
	sessions[1].info.load_bytes = UINT64_MAX;
	node_draw();
	OK(shows(" loads ██████████ 100 % of 12.0 GiB"));
	view.is_flat = true;
	node_draw();
	EQ(line_of("NUMA node"), -1);
	OK(shows(" ada        vllm 100          session 7 has 4.0 GiB"));
	holders[1].bytes = charges[1].kv_bytes = 0;
	waits[1].info.flags = GPUMAP_WAIT_FOR_START;
	holders[0].holder.start_ns = 5 * SECOND;
	waits[1].info.rows[0] = 2;
	node_draw();
	OK(shows("as first, waits 3 s, 1.0 GiB missing on row 2 for vllm 100"));
	OK(shows("as second, waits 1 s for vllm 100"));
	OK(shows("reserves 8.0 GiB of row 1 as small, starts, 5 s left"));
	/* None that waits to start waits for one that has started. */
	holders[0].holder.start_ns = 0;
	node_draw();
	OK(shows("as second, waits 1 s 1 wait"));
}

static void lists_that_are_not_known_say_so(void)
{
	node_make(4);
	facts.n_sessions = facts.n_shares = facts.n_waits = -1;
	facts.n_holders = facts.n_maps = 0;
	strcpy(facts.refusal, "no \x1b[31magent");
	node_draw_at(120, 60);
	OK(is_sound());
	EQ(line_of("sessions and reservations 0"), -1);
	OK(shows(" not known: no ?[31magent\n"));
	facts.n_sessions = facts.n_shares = facts.n_waits = facts.n_usages = 0;
	node_draw();
	OK(shows(" no session and no reservation\n"));
	OK(shows(" no share and no layer map\n"));
	OK(shows(" no request waits\n"));
}

static void rows_are_in_order(void)
{
	node_make(4);
	rows[3].used = 30 * GIB;
	rows[1].left = 60 * GIB;
	rows[2].device.temperature = 70000;
	rows[2].device.state = GPUMAP_DEVICE_FAILED;
	strcpy(rows[2].device.reason, "Xid 79");
	rows[1].device.flags = GPUMAP_DEVICE_CORDONED;
	rows[2].device.restarts = 5;
	view.is_flat = true;
	node_draw_at(120, 60);
	OK(line_of("\n   0 cuda  READY") < line_of("\n   1 cuda  CORDONED"));
	OK(shows("H100: Xid 79\n"));
	OK(shows("  70 C  300 W    5  H100: Xid 79\n"));
	OK(shows("  5 workers died"));
	view.sort = GM_TOP_BY_USED;
	node_draw();
	EQ(line_of("\n   3 cuda"), 2);
	view.sort = GM_TOP_BY_FREE;
	node_draw();
	EQ(line_of("\n   1 cuda"), 2);
	OK(shows("─ rows by free memory ─"));
	view.sort = GM_TOP_BY_STATE;
	node_draw();
	EQ(line_of("\n   2 cuda"), 2);
	OK(line_of("\n   0 cuda") < line_of("\n   1 cuda"));
	strcpy(view.filter, "xid");
	node_draw();
	OK(shows("─ rows by state with xid ─"));
	EQ(line_of("\n   0 cuda"), -1);
	EQ(line_of("\n   2 cuda"), 2);
	OK(shows("\n nothing with this text\n"));
	/* The row that is selected is one that is shown. */
	EQ(view.row, 2);
}

static void jobs_have_a_rate(void)
{
	node_make(4);
	rows[0].jobs = history.jobs[0] = 100;
	node_draw_at(120, 40);
	OK(shows("  power jobs/s"));
	OK(shows("  300 W      0 ")); /* of one sample */
	facts.taken_ns += 2 * SECOND;
	rows[0].jobs += 7;
	rows[1].jobs += 30000;
	rows[3].device.kind = GPUMAP_DEVICE_DUMMY;
	gm_top_history_add(&history, &facts);
	node_draw();
	OK(shows("  300 W      4 "));
	OK(shows("  300 W   15 k "));
	OK(rows[3].rate < 1);
	/* Another device has the row. */
	facts.taken_ns += 2 * SECOND;
	rows[1].jobs = 1;
	gm_top_history_add(&history, &facts);
	OK(rows[1].rate < 1);
	view.history = NULL; /* once: there is no time between */
	node_draw();
	EQ(line_of("jobs/s"), -1);
}

static void each_size_is_filled(void)
{
	for (uint32_t n = 0; n <= GPUMAP_ROWS_MAX; n += 64) {
		bool is_good = true;

		node_make(n);
		view.row = n > 0 ? n - 1 : 0;
		for (int width = 1; width <= 300; width += 23)
			for (int height = 1; height <= 100; height += 9) {
				const struct gm_top_place *p =
					&view.places[GM_TOP_ROWS];
				bool is_small = width < GM_TOP_LEAST_WIDTH ||
						height < GM_TOP_LEAST_HEIGHT;

				view.is_ascii = (width & 1) != 0;
				node_draw_at(width, height);
				is_good = is_good && view.page.n == height &&
					  is_sound() &&
					  (is_small || n == 0 ||
					   (p->at >= p->first &&
					    p->at < p->first + p->height));
				if (!is_good) {
					NOTE("%dx%d", width, height);
					break;
				}
			}
		OK(is_good);
	}
	node_draw_at(40, 10);
	OK(shows("too small:\ntop needs 60x16,\nthis is 40x10\n"));
}

static void once_has_every_row(void)
{
	char text[32];
	bool is_there = true;

	node_make(GPUMAP_ROWS_MAX);
	view.history = NULL;
	node_draw_at(80, 0);
	for (uint32_t i = 0; i < GPUMAP_ROWS_MAX; i++) {
		snprintf(text, sizeof(text), "\n %3u cuda ", i);
		is_there = is_there && strstr(screen, text) != NULL;
	}
	OK(is_there && is_sound());
	OK(shows(" llama "));
	OK(shows("as first, waits"));
	EQ(line_of("q quit"), -1);
}

static void no_name_reaches_the_terminal(void)
{
	static const char evil[] = "\x1b]0;x\x07\xc2\x9b"
				   "31m\xe2\x80\xae\xff\x7f\xcc\x81";

	node_make(4);
	for (uint32_t i = 0; i < 4; i++) {
		snprintf(rows[i].device.name, sizeof(rows[i].device.name), "%s",
			 evil);
		snprintf(rows[i].device.reason, sizeof(rows[i].device.reason),
			 "%s", evil);
	}
	strcpy(shares[0].info.name, evil);
	strcpy(maps[0].layers.name, evil);
	strcpy(holders[1].holder.name, evil);
	strcpy(waits[0].info.name, evil);
	strcpy(view.message, evil);
	node_draw_at(200, 60);
	OK(is_sound());
	OK(shows("?]0;x??31m????"));
	node_draw_at(80, 24);
	OK(is_sound());
}

static void wide_names_take_two_columns(void)
{
	node_make(4);
	strcpy(shares[0].info.name, "模型模型模型模型模型"
				    "模型模型模型模型");
	view.tab = GM_TOP_MODELS;
	for (int width = 60; width < 80; width++) {
		node_draw_at(width, 24);
		if (!OK(is_sound()))
			NOTE("%d columns", width);
	}
	OK(shows(" 模型"));
	view.is_ascii = true;
	node_draw();
	OK(is_sound());
	OK(shows(" ????"));
}

static void an_agent_that_is_gone_leaves_its_facts(void)
{
	struct gm_top_facts now = {
		.n_usages = -1, .n_sessions = -1, .n_shares = -1, .n_waits = -1
	};

	node_make(4);
	/* From an agent that is there nothing is kept. */
	now.health.state = GPUMAP_READY;
	gm_top_facts_keep(&now, &facts);
	EQ(now.n_sessions, -1);
	/* One that goes refuses before it is missed. */
	strcpy(now.refusal, "no answer");
	gm_top_facts_keep(&now, &facts);
	EQ(now.n_waits, 2);
	now.refusal[0] = '\0';
	gm_top_facts_keep(&facts, &now);
	facts.health.stale = 1;
	gm_top_facts_keep(&facts, &now);
	now.health.stale = 1;
	now.health.age_ns = 63 * SECOND;
	now.time_s = facts.time_s;
	strcpy(now.instance, "node");
	now.rows = rows;
	now.n_rows = 4;
	for (uint32_t i = 0; i < 4; i++)
		rows[i].ours = 0; /* as they are read */
	gm_top_facts_keep(&now, &facts);
	EQ(now.n_sessions, 2);
	EQ(facts.n_sessions, -1);
	EQ(rows[1].ours, 4 * GIB);
	facts = now;
	node_draw_at(120, 40);
	OK(shows(" GONE, start 0 "));
	OK(shows("\n No gpumapd since 08:11:00 (63 s), facts are old: run "
		 "gpumapctl doctor, systemctl status gpumapd\n"));
	OK(shows("   vllm 100 session 7 has 4.0 GiB"));
	facts.health.stale = 0;
	facts.health.state = GPUMAP_RETIRED;
	node_draw();
	OK(shows(" RETIRED, start 0 "));
}

static void json_has_all(void)
{
	json_t *json, *list;

	node_make(4);
	facts.n_waits = -1;
	json = gm_top_facts_json(&facts);
	EQ(json_array_size(json_object_get(json, "rows")), 4);
	EQ(json_array_size(json_object_get(json, "reservations")), 2);
	OK(json_is_null(json_object_get(json, "waits")));
	list = json_array_get(json_object_get(json, "rows"), 3);
	EQ(json_integer_value(json_object_get(list, "session_bytes")),
	   10 * GIB);
	EQ(json_integer_value(json_object_get(list, "temperature")), 60000);
	list = json_array_get(json_object_get(json, "sessions"), 0);
	EQ(json_array_size(json_object_get(list, "usage")), 1);
	EQ(json_array_size(json_object_get(list, "rows")), 2);
	json_decref(json);
	facts.n_waits = 2;
	facts.n_usages = -1;
	json = gm_top_facts_json(&facts);
	list = json_array_get(json_object_get(json, "waits"), 1);
	STR(json_string_value(json_object_get(list, "for")), "large");
	EQ(json_integer_value(json_object_get(list, "before")), 1);
	list = json_array_get(json_object_get(json, "rows"), 0);
	OK(json_is_null(json_object_get(list, "session_bytes")));
	json_decref(json);
}

TAP_CASE()
{
	OK(setlocale(LC_CTYPE, "C.UTF-8") != NULL);
	a_screen_is_as_expected();
	panels_show_all();
	lists_that_are_not_known_say_so();
	rows_are_in_order();
	jobs_have_a_rate();
	each_size_is_filled();
	once_has_every_row();
	no_name_reaches_the_terminal();
	wide_names_take_two_columns();
	an_agent_that_is_gone_leaves_its_facts();
	json_has_all();
	gm_top_view_free(&view);
	free(screen);
	return tap_done();
}
