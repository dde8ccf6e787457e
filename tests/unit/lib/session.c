/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Against a peer in a thread: requests and what is wrong with their replies,
 * descriptors to sleep on, the agent's end, pins, and what a forked child may
 * do.
 */

#include <signal.h>
#include <sys/time.h>
#include <sys/wait.h>

#include "tests/support/peer/peer_session.h"

/* ---- a descriptor -------------------------------------------------------- */

static bool readable(int fd, int ms)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return poll(&p, 1, ms) == 1;
}

static void the_descriptor_wakes(void)
{
	struct gpumap_session *plain = open_session(16, 0);
	struct gpumap_session *s = open_session(16, GPUMAP_SESSION_POLLABLE);
	struct gpumap_job nop = { .op = GPUMAP_OP_NOP };
	struct gpumap_done done;
	bool woken = true;
	int fd;

	EQ(gpumap_session_fd(plain), -ENOTSUP);
	EQ(gpumap_session_arm(plain), -ENOTSUP);
	gpumap_session_close(plain);
	fd = gpumap_session_fd(s);
	OK(fd >= 0);
	OK((fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0);
	for (int i = 0; i < 20 && woken; i++) {
		gm_put(&peer.hold, 1);
		woken &= gpumap_submit(s, 0, &nop, 1) == 0;
		woken &= gpumap_session_arm(s) == 0;
		woken &= !readable(fd, 0);
		gm_put(&peer.hold, 0);
		woken &= readable(fd, 30000);
		woken &= gpumap_poll(s, &done, 1) == 1;
	}
	OK(woken);
	gm_put(&peer.answered, 0);
	EQ(gpumap_submit(s, 0, &nop, 1), 0);
	while (gm_get(&peer.answered) == 0)
		usleep(100);
	EQ(gpumap_session_arm(s), 1);
	EQ(gpumap_poll(s, &done, 1), 1);
	EQ(gpumap_session_arm(s), 0);
	OK(!readable(fd, 0));
	gpumap_session_close(s);
}

/* Does a job end without a byte to the descriptor? */
static bool ends_silently(struct gpumap_session *s)
{
	struct gpumap_job nop = { .op = GPUMAP_OP_NOP };
	struct gpumap_done done;
	bool is_silent;

	gm_put(&peer.answered, 0);
	if (gpumap_submit(s, 0, &nop, 1) != 0)
		return false;
	while (gm_get(&peer.answered) == 0)
		usleep(100);
	is_silent = !readable(gpumap_session_fd(s), 0);
	return gpumap_poll(s, &done, 1) == 1 && is_silent;
}

/* Submitting leaves a session armed; taking completions and waiting for them do
 * not. */
static void taking_and_waiting_disarm(void)
{
	struct gpumap_session *s = open_session(16, GPUMAP_SESSION_POLLABLE);
	struct gpumap_job nop = { .op = GPUMAP_OP_NOP };
	int fd = gpumap_session_fd(s);
	struct gpumap_done done;
	uint64_t buffer = 0;

	EQ(gpumap_session_arm(s), 0);
	EQ(gpumap_submit(s, 0, &nop, 1), 0);
	OK(readable(fd, 30000));
	EQ(gpumap_poll(s, &done, 1), 1);
	EQ(gpumap_session_arm(s), 0);
	EQ(gpumap_poll(s, &done, 1), 0);
	OK(ends_silently(s));
	EQ(gpumap_session_arm(s), 0);
	EQ(gpumap_wait(s, &done, 1, 0), -ENODATA);
	OK(ends_silently(s));
	/* This call has something to wait for. */
	EQ(gpumap_session_arm(s), 0);
	gm_put(&peer.hold, 2);
	EQ(gpumap_buffer_alloc(s, 1, 64, 0, soon(), &buffer), -ETIME);
	OK(ends_silently(s));
	gm_put(&peer.hold, 0);
	gpumap_session_close(s);
}

/* ---- requests ------------------------------------------------------------ */

static void requests_and_refusals(void)
{
	struct gpumap_session_info info[200];

	EQ(gpumap_layers_release(map, "mine"), 0);
	STR(gpumap_refusal(map), "");
	EQ(gpumap_layers_release(map, "theirs"), -EPERM);
	STR(gpumap_refusal(map), "not yours");
	EQ(gpumap_session_list(map, info, 200), 100);
	OK(info[0].id == 1 && info[99].id == 100 && info[70].pid == 5);
	EQ(gpumap_session_list(map, info, 3), 100);
	EQ(gpumap_session_list(map, NULL, 0), 100);
}

/* Sessions come and go between two portions of the list. */
static void a_list_has_as_many_as_were_stored(void)
{
	struct gpumap_session_info info[200];

	gm_put(&peer.sessions, 107);
	EQ(gpumap_session_list(map, info, 200), 100);
	EQ(gpumap_session_list(map, info, 70), 107);
	gm_put(&peer.sessions, 40);
	EQ(gpumap_session_list(map, info, 200), 100);
	EQ(gpumap_session_list(map, info, 70), 70);
	gm_put(&peer.sessions, 0);
}

static void a_lost_connection_is_made_again(void)
{
	uint32_t hellos;

	EQ(gpumap_layers_release(map, "mine"), 0);
	hellos = gm_get(&peer.hellos);
	EQ(gpumap_layers_release(map, "mine"), 0);
	EQ(gm_get(&peer.hellos), hellos);
	gm_put(&peer.hang_up, 1);
	while (gm_get(&peer.hang_up) != 0)
		usleep(100);
	EQ(gpumap_layers_release(map, "mine"), 0);
	EQ(gm_get(&peer.hellos), hellos + 1);
	/* Not under way, for the agent may have acted. */
	gm_put(&peer.lie, PEER_HANG_UP);
	EQ(gpumap_layers_release(map, "mine"), -ECONNRESET);
	OK(gpumap_refusal(map)[0] != '\0');
	EQ(gm_get(&peer.hellos), hellos + 1);
	gm_put(&peer.lie, PEER_HONEST);
	EQ(gpumap_layers_release(map, "mine"), 0);
}

/* More often than the library looks at the clock.  The limit ends a library
 * that waits for ever. */
static void interrupted(int signal)
{
	static int n;

	if (++n == 300)
		gm_put(&peer.deaf, PEER_HEARS);
}

static void signals_prolong_no_wait_for_a_silent_agent(void)
{
	const struct itimerval often = { { 0, 100000 }, { 0, 100000 } };
	const struct itimerval never = { { 0, 0 }, { 0, 0 } };
	struct sigaction restart = { .sa_handler = interrupted,
				     .sa_flags = SA_RESTART };
	EQ(gpumap_layers_release(map, "mine"), 0);
	sigaction(SIGALRM, &restart, NULL);
	setitimer(ITIMER_REAL, &often, NULL);
	gm_put(&peer.deaf, PEER_STOPPED);
	EQ(gpumap_layers_release(map, "mine"), -ECONNRESET);
	OK(gpumap_refusal(map)[0] != '\0');
	EQ(gm_get(&peer.deaf), PEER_STOPPED);
	setitimer(ITIMER_REAL, &never, NULL);
	gm_put(&peer.deaf, PEER_HEARS);
	EQ(gpumap_layers_release(map, "mine"), 0);
}

static void lies_of_the_agent_are_caught(void)
{
	struct gpumap_session_opts opts = { .size = sizeof(opts) };
	struct gpumap_session *s = NULL;
	gm_put(&peer.lie, PEER_NO_SEALS);
	EQ(gpumap_session_open(map, NULL, &s), -EPROTO);
	gm_put(&peer.lie, PEER_SMALL_ARENA);
	EQ(gpumap_session_open(map, NULL, &s), -EPROTO);
	gm_put(&peer.lie, PEER_EXTRA_FD);
	EQ(gpumap_session_open(map, NULL, &s), -EPROTO);
	gm_put(&peer.lie, PEER_WRONG_SERIAL);
	EQ(gpumap_session_open(map, NULL, &s), -EPROTO);
	EQ(gpumap_layers_release(map, "mine"), -EPROTO);
	gm_put(&peer.lie, PEER_CUT_RECORD);
	EQ(gpumap_layers_release(map, "mine"), -EPROTO);
	gm_put(&peer.lie, PEER_HANG_UP);
	EQ(gpumap_session_open(map, NULL, &s), -ECONNRESET);
	OK(s == NULL);
	/* A newer agent's longer bodies are no lie. */
	gm_put(&peer.lie, PEER_LONG_BODY);
	EQ(gpumap_layers_release(map, "mine"), 0);
	EQ(gpumap_session_open(map, NULL, &s), 0);
	gpumap_session_close(s);
	gm_put(&peer.lie, PEER_HONEST);
	opts.arena_bytes = PEER_RANGE + 1;
	EQ(gpumap_session_open(map, &opts, &s), -EDQUOT);
	STR(gpumap_refusal(map), "too large; ask for less");
	opts.depth = 17;
	EQ(gpumap_session_open(map, &opts, &s), -EINVAL);
	opts.depth = 2048;
	EQ(gpumap_session_open(map, &opts, &s), -EINVAL);
	opts.depth = 0;
	opts.flags = 8;
	EQ(gpumap_session_open(map, &opts, &s), -E2BIG);
}

static void lies_of_a_worker_end_the_session(void)
{
	static const uint32_t lies[] = { PEER_STRANGER, PEER_TWICE,
					 PEER_GOOD_STATUS };
	struct gpumap_job nops[2] = { { .op = GPUMAP_OP_NOP } };
	struct gpumap_done done[4];

	for (uint32_t i = 0; i < 3; i++) {
		struct gpumap_session *s = open_session(16, 0);
		int ret = 1;

		gm_put(&peer.lie, lies[i]);
		EQ(gpumap_submit(s, 0, nops, 2), 0);
		while (ret > 0)
			ret = gpumap_wait(s, done, 4, GPUMAP_NO_DEADLINE);
		EQ(ret, -EPROTO);
		EQ(gpumap_poll(s, done, 4), -EPROTO);
		EQ(gpumap_submit(s, 0, nops, 1), -EPROTO);
		gm_put(&peer.lie, PEER_HONEST);
		gpumap_session_close(s);
	}
}

static void a_refused_queue_says_why(void)
{
	struct gpumap_session *s = open_session(16, 0);
	struct gpumap_job nop = { .op = GPUMAP_OP_NOP, .n = 10 };
	void *memory;

	gm_put(&peer.lie, PEER_NO_QUEUE);
	EQ(gpumap_submit(s, 0, &nop, 1), -ENODEV);
	STR(gpumap_refusal(map), "the row is lost");
	EQ(gpumap_alloc(s, 0, 64, &memory), -ENODEV);
	EQ(gpumap_scatter(s, &nop, NULL, NULL, 0), -ENODEV);
	gm_put(&peer.lie, PEER_HONEST);
	EQ(gpumap_alloc(s, 0, 64, &memory), 0);
	gpumap_session_close(s);
}

/* ---- the agent's end ----------------------------------------------------- */

static void the_agents_end_ends_the_jobs(void)
{
	struct gpumap_session *s = open_session(16, GPUMAP_SESSION_POLLABLE);
	struct gpumap_job nops[6] = { { .op = GPUMAP_OP_NOP } };
	struct gpumap_done done[8];
	struct gpumap_tile tiles[2];

	for (uint32_t i = 0; i < 6; i++)
		nops[i].cookie = i;
	gm_put(&peer.served, 0);
	EQ(gpumap_submit(s, 0, nops, 2), 0);
	while (gm_get(&peer.served) < 2)
		usleep(100);
	gm_put(&peer.hold, 3);
	EQ(gpumap_submit(s, 0, nops + 2, 2), 0);
	EQ(gpumap_submit(s, 1, nops + 4, 2), 0);
	gm_put(&peer.hang_up, 1);
	EQ(gpumap_wait(s, done, 8, GPUMAP_NO_DEADLINE), 2);
	OK(done[0].status == 0 && done[1].status == 0);
	EQ(gpumap_wait(s, done, 8, GPUMAP_NO_DEADLINE), 4);
	for (uint32_t i = 0; i < 4; i++)
		OK(done[i].status == -ECONNRESET && done[i].cookie >= 2 &&
		   done[i].cookie < 6);
	EQ(gpumap_wait(s, done, 8, GPUMAP_NO_DEADLINE), -ECONNRESET);
	EQ(gpumap_poll(s, done, 8), -ECONNRESET);
	EQ(gpumap_submit(s, 0, nops, 1), -ECONNRESET);
	EQ(gpumap_scatter(s, nops, NULL, tiles, 2), -ECONNRESET);
	EQ(gpumap_session_arm(s), -ECONNRESET);
	gm_put(&peer.hold, 0);
	gpumap_session_close(s);

	/* In the middle of a scatter. */
	s = open_session(16, 0);
	nops[0].n = 10;
	EQ(gpumap_scatter(s, nops, NULL, tiles, 2), 2);
	gm_put(&peer.hold, 3);
	gm_put(&peer.hang_up, 1);
	EQ(gpumap_scatter(s, nops, NULL, tiles, 2), -ECONNRESET);
	EQ(tiles[1].status, -ECONNRESET);
	gm_put(&peer.hold, 0);
	gpumap_session_close(s);
}

/* A client that only polls makes no system call, and the map tells it to
 * look. */
static void a_poller_learns_of_a_new_agent(void)
{
	struct gpumap_session *s = open_session(16, 0);
	gm_a64 *epoch = &file.segment.map.header->epoch;
	struct gpumap_job nop = { .op = GPUMAP_OP_NOP };
	struct gpumap_done done;
	int ret = 0;

	gm_put(&peer.hold, 1);
	EQ(gpumap_submit(s, 0, &nop, 1), 0);
	gm_put(&peer.hang_up, 1);
	while (gm_get(&peer.hang_up) != 0)
		usleep(100);
	gm_put(epoch, gm_get(epoch) + 1);
	for (int i = 0; i < 1000 && ret == 0; i++)
		ret = gpumap_poll(s, &done, 1);
	EQ(ret, 1);
	EQ(done.status, -ECONNRESET);
	gm_put(&peer.hold, 0);
	gpumap_session_close(s);
}

/* ---- fork ---------------------------------------------------------------- */

static int child_says(struct gpumap_session *s)
{
	struct gpumap_job nop = { .op = GPUMAP_OP_NOP };
	struct gpumap_session *other;
	struct gpumap_view view;
	struct gpumap_done done;
	void *memory;

	if (gpumap_submit(s, 0, &nop, 1) != -EOWNERDEAD)
		return 1;
	if (gpumap_poll(s, &done, 1) != -EOWNERDEAD ||
	    gpumap_wait(s, &done, 1, 0) != -EOWNERDEAD)
		return 2;
	if (gpumap_scatter(s, &nop, NULL, NULL, 0) != -EOWNERDEAD ||
	    gpumap_alloc(s, 0, 64, &memory) != -EOWNERDEAD)
		return 3;
	if (gpumap_session_fd(s) != -EOWNERDEAD ||
	    gpumap_session_arm(s) != -EOWNERDEAD)
		return 4;
	if (gpumap_layers_release(map, "mine") != -EOWNERDEAD ||
	    gpumap_session_open(map, NULL, &other) != -EOWNERDEAD ||
	    gpumap_session_list(map, NULL, 0) != -EOWNERDEAD)
		return 5;
	if (gpumap_layers_view(map, "model", &view) != 0 ||
	    gpumap_view_get(&view, 1) != 1)
		return 6;
	gpumap_session_close(s);
	gpumap_detach(map);
	return 0;
}

static void a_child_may_only_read(void)
{
	struct gpumap_session *s = open_session(16, GPUMAP_SESSION_POLLABLE);
	struct gpumap_job nop = { .op = GPUMAP_OP_NOP };
	struct gpumap_done done;
	int status = -1;
	pid_t child;

	EQ(gpumap_submit(s, 0, &nop, 1), 0);
	child = fork();
	if (child == 0)
		_exit(child_says(s));
	waitpid(child, &status, 0);
	OK(WIFEXITED(status));
	EQ(WEXITSTATUS(status), 0);
	/* Nothing that the child closed was the parent's. */
	EQ(gpumap_wait(s, &done, 1, GPUMAP_NO_DEADLINE), 1);
	EQ(gpumap_submit(s, 1, &nop, 1), 0);
	EQ(gpumap_wait(s, &done, 1, GPUMAP_NO_DEADLINE), 1);
	gpumap_session_close(s);
}

/* An attachment that has made no request has no page to tell: its pid does. */
static void a_child_of_a_reader_may_only_read(void)
{
	struct gpumap_attach_opts opts = { .size = sizeof(opts),
					   .instance = file.instance,
					   .runtime_dir = peer.dir };
	struct gpumap *reader = NULL;
	int status = -1;
	pid_t child;

	EQ(gpumap_attach(&opts, &reader), 0);
	child = fork();
	if (child == 0)
		_exit(gpumap_session_list(reader, NULL, 0) == -EOWNERDEAD ? 0
									  : 1);
	waitpid(child, &status, 0);
	EQ(WEXITSTATUS(status), 0);
	gpumap_detach(reader);
}

/* ---- pins, and the segment over the socket ------------------------------- */

static void a_pinned_view_never_asks_to_be_refreshed(void)
{
	struct gpumap_view view;
	uint64_t pin = 0;

	EQ(gpumap_layers_pin(map, "none", &view, &pin), -ENOENT);
	EQ(gpumap_layers_pin(map, "model", &view, &pin), 0);
	EQ(pin, 99);
	publish_model();
	EQ(gpumap_view_get(&view, 1), 1);
	EQ(gpumap_view_refresh(map, &view), 0);
	EQ(gpumap_view_get(&view, 1), 1);
	EQ(gpumap_unpin(map, pin), 0);
}

static void detaching_ends_the_pins(void)
{
	struct gpumap_attach_opts opts = { .size = sizeof(opts),
					   .instance = file.instance,
					   .runtime_dir = peer.dir };
	struct gpumap *holder = NULL;
	struct gpumap_view view;
	uint64_t pin;

	EQ(gpumap_attach(&opts, &holder), 0);
	for (int i = 0; i < 9; i++)
		EQ(gpumap_layers_pin(holder, "model", &view, &pin), 0);
	EQ(gpumap_unpin(holder, pin), 0);
	gm_put(&peer.unpinned, 0);
	gpumap_detach(holder);
	EQ(gm_get(&peer.unpinned), 8);
}

/* The name is gone, as in a container with a /dev/shm of its own. */
static void the_agent_hands_the_segment_over(void)
{
	struct gpumap_attach_opts opts = { .size = sizeof(opts),
					   .instance = file.instance,
					   .runtime_dir = peer.dir };
	char name[sizeof(file.path)];
	struct gpumap *other = NULL;

	memcpy(name, file.path, sizeof(name));
	snprintf(file.path, sizeof(file.path), "%.100s.aside", name);
	EQ(rename(name, file.path), 0);
	EQ(gpumap_attach(&opts, &other), 0);
	if (other != NULL)
		EQ(gpumap_device_count(other), 3);
	gpumap_detach(other);
	EQ(rename(file.path, name), 0);
	memcpy(file.path, name, sizeof(name));
}

TAP_CASE()
{
	if (!client_begin("session"))
		return tap_done();
	the_descriptor_wakes();
	taking_and_waiting_disarm();
	requests_and_refusals();
	a_list_has_as_many_as_were_stored();
	a_lost_connection_is_made_again();
	signals_prolong_no_wait_for_a_silent_agent();
	lies_of_the_agent_are_caught();
	lies_of_a_worker_end_the_session();
	a_refused_queue_says_why();
	the_agents_end_ends_the_jobs();
	a_poller_learns_of_a_new_agent();
	a_child_may_only_read();
	a_child_of_a_reader_may_only_read();
	a_pinned_view_never_asks_to_be_refreshed();
	detaching_ends_the_pins();
	the_agent_hands_the_segment_over();
	return client_end();
}
