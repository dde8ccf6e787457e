/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * A user that would keep others from rows by waiting for them: requests that no
 * room could end do not wait, a process does not start again before others, and
 * ten thousand requests take nothing from other users.
 */

#include <sys/mman.h>
#include <sys/resource.h>

#include <gpumap/plan.h>

#include "tests/support/raw.h"
#include "tests/support/reserve_clients.h"

#define MANY      10000u
#define USER      54321u
#define OTHER_FDS 1000u /* of the agent and of this process */

static struct pollfd sockets[MANY];
static uint32_t n_many;

/* In memory that is shared: the requests of the many that were sent, and that
 * were refused because the user has too many of them. */
static struct tally {
	_Atomic uint32_t sent, refused, wrong;
} * tally;

static uint32_t how_many(void)
{
	struct rlimit files;

	getrlimit(RLIMIT_NOFILE, &files);
	files.rlim_cur = files.rlim_max;
	setrlimit(RLIMIT_NOFILE, &files);
	/* The agent has a socket and a pidfd for each. */
	return files.rlim_max > 2 * MANY + OTHER_FDS
		       ? MANY
		       : (uint32_t)(files.rlim_max - OTHER_FDS) / 2;
}

/* Send a request and do not wait for its answer.  Returns the socket. */
static int put_one(uint32_t i)
{
	const struct {
		uint64_t bytes;
		uint32_t row, padding;
	} tail = { GIB, 0, 0 };
	struct gm_reserve_ask body = {
		.map = { .flags = GPUMAP_PLAN_COMMIT | GPUMAP_PLAN_HELD,
			 .wait_ns = LONG_NS },
		.n_bytes = 1,
		.n_rows = 1,
	};
	struct raw_record record = { .body = &body,
				     .body_bytes = sizeof(body),
				     .tail = &tail,
				     .tail_bytes = 12 };
	static struct raw raw;
	char path[128];

	snprintf(path, sizeof(path), "%s/%s.sock", agent.dir, agent.instance);
	snprintf(body.map.name, sizeof(body.map.name), "many%u", i);
	if (raw_open(&raw, path) != 0)
		return -1;
	record.header = raw_header(&raw, GM_CONTROL_RESERVE, sizeof(body), 12);
	if (raw_send(&raw, &record, 0) == 0)
		return raw.socket;
	close(raw.socket);
	return -1;
}

static void take_one(struct pollfd *of)
{
	struct {
		struct gm_control header;
		char text[512];
	} reply;

	if (recv(of->fd, &reply, sizeof(reply), 0) <
	    (ssize_t)sizeof(reply.header))
		return;
	if (reply.header.status == -EDQUOT)
		tally->refused++;
	else if (reply.header.status != 0)
		tally->wrong++;
	of->fd = -1 - of->fd; /* poll(2) leaves it out */
}

/* In a child: the many are its until it is killed. */
static void put_many(void)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (!user_become(USER, USER))
		_exit(99);
	for (uint32_t i = 0; i < n_many; i++) {
		sockets[i] = (struct pollfd){ put_one(i), POLLIN, 0 };
		if (sockets[i].fd < 0)
			_exit(1);
		tally->sent++;
	}
	while (poll(sockets, n_many, -1) > 0)
		for (uint32_t i = 0; i < n_many; i++)
			if (sockets[i].revents != 0)
				take_one(&sockets[i]);
	_exit(1);
}

static pid_t start_many(void)
{
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid == 0)
		put_many();
	return pid;
}

/* Wait until each of them waits or was refused.  Returns how many wait. */
static uint32_t many_are_there(void)
{
	uint64_t until = story_now() + 4 * STORY_LIMIT_NS;
	uint32_t n;

	do {
		story_nap(10000);
		n = (uint32_t)line_length();
	} while (n + tally->refused + tally->wrong != n_many &&
		 story_now() < until);
	EQ(tally->sent, n_many);
	EQ(tally->wrong, 0);
	EQ(n + tally->refused, n_many);
	return n;
}

static void all_are_listed_in_order(uint32_t n)
{
	struct gpumap_wait_info *line = calloc(n, sizeof(*line));
	uint32_t wrong = 0;
	int last = -1;

	if (line == NULL)
		exit(99);
	EQ(line_read(line, n), (intmax_t)n);
	for (uint32_t i = 0; i < n; i++) {
		int number = atoi(line[i].name + strlen("many"));

		wrong += number <= last || line[i].bytes != GIB ||
			 line[i].rows[0] != 1 || line[i].uid != USER;
		last = number;
	}
	EQ(wrong, 0);
	free(line);
}

static void others_go_on(void)
{
	struct want want = want_of("else", 1, GIB);
	struct gpumap_layers_request request = { .size = sizeof(request),
						 .name = "map",
						 .spec = "0:4" };
	struct story_times times = { 0 };
	uint32_t wrong = 0;

	want.start_ns = LONG_NS;
	for (int i = 0; i < 20; i++) {
		uint64_t since = story_now();

		wrong += reserve_now(&want).ret != 0;
		wrong += gpumap_started(map, "else") != 0;
		wrong += gpumap_layers_release(map, "else") != 0;
		wrong += gpumap_layers_publish(map, &request) != 0;
		wrong += gpumap_layers_release(map, "map") != 0;
		story_time(&times, since);
	}
	EQ(wrong, 0);
	story_tell(&times, "a reservation on another row, and a map");
}

static void the_many_do_no_harm(void)
{
	struct want want = want_of("has", 0, 16 * GIB);
	struct client has = client_reserve(&want), last;
	uint64_t since = story_now();
	pid_t many = start_many();
	uint32_t n = many_are_there();

	NOTE("%u of %u requests wait; all were sent in %" PRIu64 " ms", n,
	     n_many, (story_now() - since) / 1000000);
	OK(n > 16);
	all_are_listed_in_order(n);
	others_go_on();
	want = want_of("last", 0, GIB);
	last = client_start(&want);
	OK(line_has((int)n + 1));
	client_kill(&has);
	/* There is room for 16, and one user's places keep the row from others
	 * by the first of them only. */
	EQ(client_outcome(&last).ret, 0);
	OK(line_has((int)n - 15));
	EQ(reserved(0), 16 * GIB);
	OK(holder_of("many0").version != 0);
	since = story_now();
	kill(many, SIGKILL);
	waitpid(many, NULL, 0);
	OK(line_has(0));
	NOTE("they were gone in %" PRIu64 " ms",
	     (story_now() - since) / 1000000);
	EQ(tally->wrong, 0);
	client_kill(&last);
	OK(reserve_calms_down());
}

/* ---- waits without an end ------------------------------------------------ */

/* Run as another user while row 0 is full: each would wait for ever. */
static int is_told_at_once(void)
{
	struct want want = want_of("mine", 0, 8 * GIB + 1);

	map = story_attach(&agent);
	if (map == NULL)
		return 1;
	/* More than its share, of one row or of any. */
	if (reserve_now(&want).ret != -EDQUOT)
		return 2;
	want = want_either("mine", 0, 1, 8 * GIB + 1);
	if (reserve_now(&want).ret != -EDQUOT)
		return 3;
	/* Another user's name. */
	want = want_of("has", 0, GIB);
	if (reserve_now(&want).ret != -EPERM)
		return 4;
	/* All that it may hold. */
	for (int i = 0; i < 8; i++) {
		snprintf(want.name, sizeof(want.name), "mine%d", i);
		want.rows[0] = 1;
		want.bytes = 1;
		if (reserve_now(&want).ret != 0)
			return 5;
	}
	want = want_of("mine", 0, GIB);
	return reserve_now(&want).ret == -EDQUOT ? 0 : 6;
}

static void a_wait_that_room_would_not_end_is_none(void)
{
	struct want want = want_of("has", 0, 16 * GIB);
	struct client has = client_reserve(&want);

	EQ(user_run(USER, is_told_at_once), 0);
	client_kill(&has);
	OK(reserve_calms_down());
}

/* A user waits for an end of its own maps, and others do not. */
static void more_than_a_share_is_waited_for_alone(void)
{
	struct want want = want_of("has", 0, 6 * GIB), root, other;
	struct client has, more, either, next;

	want.uid = USER;
	has = client_reserve(&want);
	snprintf(want.name, sizeof(want.name), "more");
	want.bytes = 4 * GIB;
	more = client_wait(&want);
	root = want_of("next", 1, 6 * GIB);
	next = client_reserve(&root);
	other = want_of("other", 1, 6 * GIB);
	EQ(reserve_now(&other).ret, 0);
	/* Row 0 is left to others, row 1 is not. */
	want = want_either("either", 0, 1, 8 * GIB);
	want.uid = USER;
	either = client_wait(&want);
	root = want_of("zero", 0, 4 * GIB);
	root.wait_ns = 0;
	EQ(reserve_now(&root).ret, 0);
	root = want_of("beside", 1, 4 * GIB);
	root.wait_ns = 0;
	EQ(reserve_now(&root).ret, 0);
	EQ(gpumap_layers_release(map, "other"), 0);
	root = want_of("one", 1, 5 * GIB);
	root.wait_ns = 0;
	EQ(reserve_now(&root).ret, -ENOSPC);
	EQ(line_length(), 2);
	client_kill(&has);
	EQ(client_outcome(&more).ret, 0);
	EQ(line_place("either", NULL), 0);
	client_kill(&next);
	EQ(client_outcome(&either).rows[0], 1);
	EQ(gpumap_layers_release(map, "zero"), 0);
	EQ(gpumap_layers_release(map, "beside"), 0);
	client_kill(&more);
	client_kill(&either);
	OK(reserve_calms_down());
}

/* The window of the same map would begin anew, before another's. */
static void one_starts_again_in_turn(void)
{
	struct want want = want_of("starts", 0, GIB), other;
	struct client next;

	want.start_ns = LONG_NS;
	EQ(reserve_now(&want).ret, 0);
	other = want_of("next", 0, GIB);
	other.start_ns = LONG_NS;
	next = client_wait(&other);
	want.wait_ns = 0;
	EQ(reserve_now(&want).ret, -EBUSY);
	/* Without a window it ends its own. */
	want.start_ns = 0;
	EQ(reserve_now(&want).ret, 0);
	EQ(client_outcome(&next).ret, 0);
	EQ(gpumap_layers_release(map, "starts"), 0);
	client_kill(&next);
	OK(reserve_calms_down());
}

/* ---- every holder's place in use ---------------------------------------- */

/* Run as another user. */
static int is_refused_in_time(void)
{
	struct want want = want_of("mine", 1, GIB);

	map = story_attach(&agent);
	if (map == NULL)
		return 1;
	want.wait_ns = 0;
	if (reserve_now(&want).ret != -ENOSPC)
		return 2;
	want.wait_ns = 1;
	return reserve_now(&want).ret == -ETIMEDOUT ? 0 : 3;
}

/* Another user's pin may end at any time. */
static void a_place_among_the_holders_is_waited_for(void)
{
	const struct gpumap_layers_request pinned = { .size = sizeof(pinned),
						      .name = "pinned",
						      .spec = "0:1" };
	static uint64_t pins[GM_HOLDERS];
	struct want want = want_of("waits", 1, GIB);
	struct client waits;
	struct gpumap_view view;
	uint32_t n = 0;

	EQ(gpumap_layers_publish(map, &pinned), 0);
	while (n < GM_HOLDERS &&
	       gpumap_layers_pin(map, "pinned", &view, &pins[n]) == 0)
		n++;
	EQ(n, GM_HOLDERS);
	EQ(user_run(USER, is_refused_in_time), 0);
	want.uid = USER;
	waits = client_wait(&want);
	EQ(gpumap_unpin(map, pins[0]), 0);
	EQ(client_outcome(&waits).ret, 0);
	EQ(reserved(1), GIB);
	client_kill(&waits);
	while (n-- > 1)
		gpumap_unpin(map, pins[n]);
	EQ(gpumap_layers_release(map, "pinned"), 0);
	OK(reserve_calms_down());
}

static bool start(const char *limits)
{
	reserve_configure(limits);
	if (!OK(agent_start(&agent))) {
		agent_show_log(&agent);
		return false;
	}
	map = story_attach(&agent);
	return true;
}

TAP_CASE()
{
	n_many = how_many();
	tally = mmap(NULL, sizeof(*tally), PROT_READ | PROT_WRITE,
		     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (tally == MAP_FAILED)
		return 99;
	agent_make(&agent, NULL);
	if (geteuid() != 0) {
		SKIP(1, "only root can be another user");
		return tap_done();
	}
	if (start("[socket]\nmode = 0666\n"
		  "[limits]\npins-per-uid = 8\nreserve-per-uid = 50\n")) {
		a_wait_that_room_would_not_end_is_none();
		more_than_a_share_is_waited_for_alone();
		one_starts_again_in_turn();
		story_finish(&agent, map);
	}
	if (start("[socket]\nmode = 0666\n"
		  "[limits]\nconnections = 20000\n"
		  "connections-per-uid = 15000\n"
		  "reserve-per-uid = 100\n")) {
		the_many_do_no_harm();
		story_finish(&agent, map);
	}
	if (start("[socket]\nmode = 0666\n"
		  "[limits]\npins-per-uid = 1024\n")) {
		a_place_among_the_holders_is_waited_for();
		story_finish(&agent, map);
	}
	agent_remove(&agent);
	return tap_done();
}
