/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * All that lets a waiting reservation in: the end of another one, of a wait, or
 * of a start window, in each way that these end.
 */

#include "tests/support/reserve_clients.h"

#define USER 54321u

static struct story_times freed;

static void refused(const struct want *want, int ret, const char *why)
{
	struct outcome out = reserve_now(want);

	if (!EQ(out.ret, ret) || !OK(strstr(out.refusal, why) != NULL))
		NOTE("want \"%s\", got \"%s\"", why, out.refusal);
}

/* Kill a client.  The one that has room then is admitted. */
static struct outcome let_in(struct client *dead, const struct client *next)
{
	uint64_t since = story_now();
	struct outcome out;

	client_kill(dead);
	out = client_outcome(next);
	if (!EQ(out.ret, 0))
		NOTE("%s: %s", next->want.name, out.refusal);
	story_time(&freed, since);
	return out;
}

/* ---- room ---------------------------------------------------------------- */

static void deaths_let_in_one_after_another(void)
{
	struct want want = want_of("has", 0, 12 * GIB);
	struct client has = client_reserve(&want), queue[8];
	char name[8];

	for (uint32_t i = 0; i < 8; i++) {
		snprintf(name, sizeof(name), "q%u", i);
		want = want_of(name, 0, (i % 2 ? 9 : 14) * GIB);
		queue[i] = client_wait(&want);
		EQ(line_place(name, NULL), (int)i);
	}
	for (uint32_t i = 0; i < 8; i++) {
		let_in(i == 0 ? &has : &queue[i - 1], &queue[i]);
		EQ(line_length(), 7 - (int)i);
		EQ(reserved(0), queue[i].want.bytes);
	}
	client_kill(&queue[7]);
	OK(reserve_calms_down());
}

static void a_release_lets_in(void)
{
	struct want want = want_of("has", 0, 12 * GIB);
	struct client has = client_reserve(&want), waits;

	want = want_of("waits", 0, 10 * GIB);
	waits = client_wait(&want);
	EQ(gpumap_layers_release(map, "has"), 0);
	EQ(client_outcome(&waits).ret, 0);
	client_kill(&waits);
	client_kill(&has);
	OK(reserve_calms_down());
}

static void a_smaller_map_lets_in(void)
{
	struct want want = want_of("has", 0, 12 * GIB);
	struct client has = client_reserve(&want), waits;

	want = want_of("waits", 0, 10 * GIB);
	waits = client_wait(&want);
	EQ(client_do(&has, ORDER_SHRINK), 0);
	EQ(client_outcome(&waits).ret, 0);
	EQ(reserved(0), 10 * GIB + 1);
	client_kill(&waits);
	client_kill(&has);
	OK(reserve_calms_down());
}

/* A map that grows takes what others wait for. */
static void a_larger_map_takes_its_turn(void)
{
	struct want want = want_of("has", 0, 12 * GIB), more;
	struct client has = client_reserve(&want), waits;

	more = want_of("grows", 0, 1);
	EQ(reserve_now(&more).ret, 0);
	want = want_of("waits", 0, 31 * GIB / 2);
	waits = client_wait(&want);
	more.bytes = GIB;
	more.wait_ns = 0;
	EQ(reserve_now(&more).ret, -ENOSPC);
	EQ(line_place("waits", NULL), 0);
	EQ(reserved(0), 12 * GIB + 1);
	/* A map may keep what it has. */
	more.bytes = 1;
	EQ(reserve_now(&more).ret, 0);
	let_in(&has, &waits);
	more.bytes = GIB / 4;
	EQ(reserve_now(&more).ret, 0);
	EQ(reserved(0), 63 * GIB / 4);
	EQ(gpumap_layers_release(map, "grows"), 0);
	client_kill(&waits);
	OK(reserve_calms_down());
}

static void an_administrator_need_not_wait(void)
{
	struct want want = want_of("has", 0, 12 * GIB);
	struct client has = client_reserve(&want), waits;

	want = want_of("waits", 0, 14 * GIB);
	waits = client_wait(&want);
	want = want_of("named", 0, 4 * GIB);
	want.is_held = false;
	want.wait_ns = 0;
	EQ(reserve_now(&want).ret, 0);
	client_kill(&has);
	while (reserved(0) != 4 * GIB)
		story_nap(1000);
	EQ(line_place("waits", NULL), 0);
	EQ(gpumap_layers_release(map, "named"), 0);
	EQ(client_outcome(&waits).ret, 0);
	client_kill(&waits);
	OK(reserve_calms_down());
}

/* Neither row is taken before the other. */
static void all_rows_are_taken_at_once(void)
{
	struct want want = want_of("zero", 0, 10 * GIB);
	struct client zero = client_reserve(&want), one, both, after;

	want = want_of("one", 1, 10 * GIB);
	one = client_reserve(&want);
	want = want_either("both", 0, 1, 31 * GIB / 2);
	want.is_one = false;
	both = client_wait(&want);
	want = want_of("after", 1, GIB);
	after = client_wait(&want);
	client_kill(&zero);
	while (reserved(0) != 0)
		story_nap(1000);
	EQ(line_place("both", NULL), 0);
	EQ(line_place("after", NULL), 1);
	EQ(let_in(&one, &both).n_rows, 2);
	EQ(reserved(0), 31 * GIB / 2);
	EQ(reserved(1), 31 * GIB / 2);
	OK(!client_answered(&after, 0));
	client_kill(&both);
	EQ(client_outcome(&after).ret, 0);
	EQ(reserved(1), GIB);
	client_kill(&after);
	OK(reserve_calms_down());
}

static void any_row_leaves_the_others(void)
{
	struct want want = want_of("zero", 0, 16 * GIB);
	struct client zero = client_reserve(&want), one, either, only, pass;
	struct gpumap_wait_info info = { .size = sizeof(info) };

	want = want_of("one", 1, 16 * GIB);
	one = client_reserve(&want);
	want = want_either("either", 0, 1, 4 * GIB);
	either = client_wait(&want);
	line_place("either", &info);
	EQ(info.n_rows, 2);
	EQ(info.rows[0], 3);
	want = want_of("only", 0, 4 * GIB);
	only = client_wait(&want);
	EQ(let_in(&one, &either).rows[0], 1);
	EQ(line_place("only", NULL), 0);
	OK(!client_answered(&only, 0));
	want = want_either("pass", 0, 1, 4 * GIB);
	pass = client_reserve(&want);
	EQ(reserved(1), 8 * GIB);
	let_in(&zero, &only);
	client_kill(&either);
	client_kill(&only);
	client_kill(&pass);
	OK(reserve_calms_down());
}

/* Small ones go by a large one, as long as it gets its row when those have
 * ended that were there before it. */
static void what_fits_beside_goes_by(void)
{
	struct want want = want_of("has", 0, 12 * GIB);
	struct client has = client_reserve(&want), large, small, other;
	struct gpumap_wait_info info = { .size = sizeof(info) };

	want = want_of("large", 0, 13 * GIB);
	large = client_wait(&want);
	want = want_of("small", 0, 2 * GIB);
	small = client_reserve(&want);
	want = want_of("other", 0, 2 * GIB);
	other = client_wait(&want);
	line_place("other", &info);
	EQ(info.n_before, 1);
	line_place("large", &info);
	EQ(info.n_before, 0);
	/* When one that went by has ended another one may. */
	client_kill(&small);
	EQ(client_outcome(&other).ret, 0);
	let_in(&has, &large);
	EQ(reserved(0), 15 * GIB);
	client_kill(&large);
	client_kill(&other);
	OK(reserve_calms_down());
}

/* A map that is kept for good leaves it too little: it keeps none waiting. */
static void one_that_never_fits_bars_nobody(void)
{
	struct want named = {
		.name = "named", .n_rows = 1, .rows = { 0 }, .bytes = 4 * GIB
	};
	struct want want = want_of("large", 0, 13 * GIB);
	struct client large, small, next;

	EQ(reserve_now(&named).ret, 0);
	large = client_wait(&want);
	want = want_of("small", 0, 12 * GIB);
	small = client_reserve(&want);
	want = want_of("next", 0, GIB);
	next = client_wait(&want);
	/* From then on it will fit one day, and keeps others from the row. */
	EQ(gpumap_layers_release(map, "named"), 0);
	want = want_of("late", 0, GIB);
	want.wait_ns = 0;
	EQ(reserve_now(&want).ret, -ENOSPC);
	EQ(line_place("next", NULL), 1);
	let_in(&small, &large);
	EQ(client_outcome(&next).ret, 0);
	client_kill(&large);
	client_kill(&next);
	OK(reserve_calms_down());
}

static void a_wait_is_dropped(void)
{
	struct want want = want_of("has", 0, 16 * GIB);
	struct client has = client_reserve(&want), first, second;
	struct outcome out;

	want = want_of("first", 0, 16 * GIB);
	first = client_wait(&want);
	want = want_of("second", 0, 4 * GIB);
	second = client_wait(&want);
	EQ(gpumap_wait_drop(map, "none"), -ENOENT);
	EQ(gpumap_wait_drop(map, "has"), -ENOENT);
	EQ(gpumap_wait_drop(map, "first"), 0);
	out = client_outcome(&first);
	EQ(out.ret, -ECANCELED);
	OK(strstr(out.refusal, "waited, and was dropped") != NULL);
	EQ(line_length(), 1);
	let_in(&has, &second);
	client_kill(&first);
	client_kill(&second);
	OK(reserve_calms_down());
}

/* Another user ends its own alone. */
static int drops_its_own(void)
{
	map = story_attach(&agent);
	if (map == NULL || gpumap_wait_drop(map, "root's") != -ENOENT)
		return 1;
	return gpumap_wait_drop(map, "user's") == 0 ? 0 : 2;
}

static void a_user_drops_no_others(void)
{
	struct want want = want_of("has", 0, 16 * GIB);
	struct client has = client_reserve(&want), roots, users;

	want = want_of("root's", 0, GIB);
	roots = client_wait(&want);
	want = want_of("user's", 0, GIB);
	want.uid = USER;
	users = client_wait(&want);
	EQ(user_run(USER, drops_its_own), 0);
	EQ(client_outcome(&users).ret, -ECANCELED);
	let_in(&has, &roots);
	client_kill(&roots);
	client_kill(&users);
	OK(reserve_calms_down());
}

/* ---- waits --------------------------------------------------------------- */

static void the_end_of_a_wait_lets_in(void)
{
	struct want want = want_of("has", 0, 12 * GIB);
	struct client has = client_reserve(&want), waits, behind;

	want = want_of("waits", 0, 31 * GIB / 2);
	want.wait_ns = SECOND;
	waits = client_wait(&want);
	want = want_of("behind", 0, GIB);
	behind = client_wait(&want);
	EQ(client_outcome(&waits).ret, -ETIMEDOUT);
	EQ(client_outcome(&behind).ret, 0);
	EQ(line_length(), 0);
	client_kill(&waits);
	client_kill(&behind);
	client_kill(&has);
	OK(reserve_calms_down());
}

/* A process that stands still keeps its place; another one is not kept. */
static void a_stopped_client_keeps_its_place(void)
{
	struct want want = want_of("has", 0, 12 * GIB);
	struct client has = client_reserve(&want), waits, behind;

	want = want_of("waits", 0, 10 * GIB);
	waits = client_wait(&want);
	want = want_of("behind", 0, 16 * GIB);
	behind = client_wait(&want);
	OK(process_stop(waits.pid));
	client_kill(&has);
	while (holder_of("waits").version == 0)
		story_nap(1000);
	EQ(holder_of("waits").pid, waits.pid);
	EQ(line_place("behind", NULL), 0);
	kill(waits.pid, SIGCONT);
	EQ(client_outcome(&waits).ret, 0);
	let_in(&waits, &behind);
	client_kill(&behind);
	OK(reserve_calms_down());
}

/* ---- start windows ------------------------------------------------------- */

static struct want to_start(const char *name, uint32_t row)
{
	struct want want = want_of(name, row, GIB);

	want.start_ns = LONG_NS;
	return want;
}

/* The agent may be about to try again, and knows no obstacle then. */
static bool comes_to_wait_for_start(const char *name)
{
	struct gpumap_wait_info info = { .size = sizeof(info) };
	uint64_t until = story_now() + STORY_LIMIT_NS;

	while (info.flags == 0 && story_now() < until) {
		story_nap(1000);
		line_place(name, &info);
	}
	return info.flags == GPUMAP_WAIT_FOR_START;
}

static void a_window_ends_in_every_way(void)
{
	struct want want = to_start("a", 0);
	struct client a = client_reserve(&want), b, c, d;

	want = to_start("b", 0);
	b = client_wait(&want);
	OK(comes_to_wait_for_start("b"));
	want = to_start("c", 0);
	c = client_wait(&want);
	want = to_start("d", 0);
	d = client_wait(&want);
	/* Its holder says so, */
	EQ(client_do(&a, ORDER_START), 0);
	EQ(client_outcome(&b).ret, 0);
	EQ(holder_of("a").start_ns, 0);
	EQ(line_length(), 2);
	/* dies, */
	let_in(&b, &c);
	EQ(line_length(), 1);
	/* or loses its map. */
	EQ(gpumap_layers_release(map, "c"), 0);
	EQ(client_outcome(&d).ret, 0);
	OK(holder_of("d").start_ns > 0 && holder_of("d").start_ns <= LONG_NS);
	client_kill(&a);
	client_kill(&c);
	client_kill(&d);
	OK(reserve_calms_down());
}

static void a_window_ends_by_itself(void)
{
	struct want want = to_start("starts", 0);
	struct client starts, next;

	want.start_ns = SECOND / 20;
	starts = client_reserve(&want);
	want = to_start("next", 0);
	next = client_start(&want);
	EQ(client_outcome(&next).ret, 0);
	EQ(holder_of("starts").start_ns, 0);
	OK(holder_of("starts").version != 0);
	/* Its holder may say so late. */
	EQ(client_do(&starts, ORDER_START), 0);
	OK(holder_of("next").start_ns > 0);
	client_kill(&starts);
	client_kill(&next);
	OK(reserve_calms_down());
}

/* Neither a map that is replaced nor another row is an obstacle. */
static void only_others_windows_are_waited_for(void)
{
	struct want want = to_start("starts", 0);
	struct client starts = client_reserve(&want);
	char pid[16];

	snprintf(pid, sizeof(pid), "%d", (int)starts.pid);
	want = to_start("hasty", 0);
	want.wait_ns = 0;
	refused(&want, -EBUSY, pid);
	refused(&want, -EBUSY, "starts");
	want = want_either("hasty", 0, 1, GIB);
	want.wait_ns = 0;
	want.start_ns = LONG_NS;
	EQ(reserve_now(&want).rows[0], 1);
	EQ(reserve_now(&want).rows[0], 1);
	want.is_one = false;
	refused(&want, -EBUSY, "starts");
	want = want_of("quiet", 0, GIB);
	want.wait_ns = 0;
	EQ(reserve_now(&want).ret, 0);
	EQ(holder_of("quiet").start_ns, 0);
	EQ(gpumap_layers_release(map, "hasty"), 0);
	EQ(gpumap_layers_release(map, "quiet"), 0);
	client_kill(&starts);
	OK(reserve_calms_down());
}

/* Run as another user. */
static int end_its_window(void)
{
	map = story_attach(&agent);
	return map != NULL ? -gpumap_started(map, "starts") : 98;
}

static void a_window_is_its_users(void)
{
	struct want want = to_start("starts", 0);
	struct client starts = client_reserve(&want), users;

	want = want_of("named", 0, GIB);
	want.is_held = false;
	EQ(reserve_now(&want).ret, 0);
	EQ(gpumap_started(map, "named"), -ENOENT);
	EQ(gpumap_started(map, "none"), -ENOENT);
	EQ(gpumap_started(map, NULL), -EINVAL);
	EQ(gpumap_layers_release(map, "named"), 0);
	if (geteuid() != 0) {
		SKIP(5, "only root can be another user");
		client_kill(&starts);
		return;
	}
	EQ(user_run(54321, end_its_window), EPERM);
	OK(holder_of("starts").start_ns > 0);
	/* Root may end another user's. */
	client_kill(&starts);
	OK(reserve_calms_down());
	want = to_start("starts", 0);
	want.uid = 54321;
	users = client_reserve(&want);
	EQ(holder_of("starts").uid, 54321);
	EQ(gpumap_started(map, "starts"), 0);
	EQ(holder_of("starts").start_ns, 0);
	client_kill(&users);
	OK(reserve_calms_down());
}

static void a_turn_does_not_replace_room(void)
{
	struct want want = to_start("starts", 0);
	struct client starts, large, next;
	struct gpumap_wait_info info = { .size = sizeof(info) };

	want.bytes = 12 * GIB;
	starts = client_reserve(&want);
	want = to_start("large", 0);
	want.bytes = 31 * GIB / 2;
	large = client_wait(&want);
	line_place("large", &info);
	EQ(info.flags, 0);
	EQ(info.missing_bytes, 23 * GIB / 2);
	want = want_of("next", 0, GIB);
	next = client_wait(&want);
	EQ(client_do(&starts, ORDER_START), 0);
	EQ(line_place("large", NULL), 0);
	EQ(line_place("next", NULL), 1);
	let_in(&starts, &large);
	OK(!client_answered(&next, 0));
	client_kill(&large);
	EQ(client_outcome(&next).ret, 0);
	client_kill(&next);
	OK(reserve_calms_down());
}

/* ---- the next agent ------------------------------------------------------ */

static bool is_unheard(int ret)
{
	return ret == -ECONNRESET || ret == -ECONNREFUSED || ret == -ESTALE;
}

static void an_agent_ends(int signal)
{
	struct want want = to_start("starts", 0);
	struct client starts = client_reserve(&want), next;
	uint64_t left = holder_of("starts").start_ns;
	int ret;

	want = to_start("next", 0);
	next = client_wait(&want);
	gpumap_detach(map);
	agent_kill(&agent, signal);
	ret = client_outcome(&next).ret;
	if (!OK(is_unheard(ret)))
		NOTE("%d", ret);
	client_kill(&next);
	OK(agent_start(&agent));
	map = story_attach(&agent);
	EQ(line_length(), 0);
	EQ(holder_of("starts").pid, starts.pid);
	OK(holder_of("starts").start_ns > 0);
	OK(holder_of("starts").start_ns <= left);
	want.wait_ns = 0;
	refused(&want, -EBUSY, "starts");
	want = to_start("next", 0);
	next = client_wait(&want);
	let_in(&starts, &next);
	client_kill(&next);
	OK(reserve_calms_down());
}

TAP_CASE()
{
	agent_make(&agent, NULL);
	reserve_configure("[socket]\nmode = 0666\n");
	if (!OK(agent_start(&agent))) {
		agent_show_log(&agent);
		return tap_done();
	}
	map = story_attach(&agent);

	deaths_let_in_one_after_another();
	a_release_lets_in();
	a_smaller_map_lets_in();
	a_larger_map_takes_its_turn();
	an_administrator_need_not_wait();
	all_rows_are_taken_at_once();
	any_row_leaves_the_others();
	what_fits_beside_goes_by();
	one_that_never_fits_bars_nobody();
	a_wait_is_dropped();
	a_user_drops_no_others();
	the_end_of_a_wait_lets_in();
	a_stopped_client_keeps_its_place();
	a_window_ends_in_every_way();
	a_window_ends_by_itself();
	only_others_windows_are_waited_for();
	a_window_is_its_users();
	a_turn_does_not_replace_room();
	an_agent_ends(SIGKILL);
	an_agent_ends(SIGTERM);
	story_tell(&freed, "from a death to the next reservation");

	story_finish(&agent, map);
	agent_remove(&agent);
	return tap_done();
}
