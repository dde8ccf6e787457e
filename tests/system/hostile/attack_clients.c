/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* Attacks through the ways in which a client starts, stops and dies. */

#include "tests/system/hostile/attack.h"

#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gpumap.h"

#define DEPTH 64u
#define RANGE (UINT64_C(4) << 20)

static void fill_all(const struct raw *c, struct raw_queue *q)
{
	struct gm_entry e = raw_entry(q, GPUMAP_OP_FILL);

	e.n = c->arena_bytes;
	e.value = 0xa5;
	raw_post(q, &e, 1);
}

/* ---- abandoned --------------------------------------------------------- */

/* Open a session, have all of its arena touched, and leave in the middle of
 * that. */
static void abandoned(struct hostile *h)
{
	struct raw c;
	struct raw_queue *q;

	while ((q = hostile_session(h, &c, DEPTH, 0, RANGE)) != NULL) {
		fill_all(&c, q);
		raw_nap(hostile_below(h, 2000000));
		raw_close(&c);
		hostile_round(h);
	}
}

/* Send requests in a row without reading, and leave before the last is
 * answered. */
static void hasty(struct hostile *h)
{
	struct raw c;

	while (hostile_goes_on(h)) {
		struct gm_session_open open = { .depth = DEPTH,
						.range_bytes = RANGE };
		struct gm_queue_open queue = { .row = 0 };

		if (raw_open(&c, h->path) == 0) {
			struct raw_record records[2] = {
				{ .header = raw_header(&c,
						       GM_CONTROL_SESSION_OPEN,
						       sizeof(open), 0),
				  .body = &open,
				  .body_bytes = sizeof(open) },
				{ .header =
					  raw_header(&c, GM_CONTROL_QUEUE_OPEN,
						     sizeof(queue), 0),
				  .body = &queue,
				  .body_bytes = sizeof(queue) },
			};

			for (int i = 0; i < 8; i++) {
				raw_send(&c, &records[i != 0], MSG_DONTWAIT);
				queue.row++;
			}
			if (hostile_below(h, 2))
				shutdown(c.socket, (int)hostile_below(h, 3));
			raw_nap(hostile_below(h, 300000));
		}
		raw_close(&c);
		hostile_round(h);
	}
}

/* ---- children ---------------------------------------------------------- */

static pid_t start(void)
{
	pid_t pid = fork();

	if (pid < 0)
		return pid;
	if (pid == 0)
		prctl(PR_SET_PDEATHSIG, SIGKILL);
	return pid;
}

static void end(pid_t pid)
{
	if (pid <= 0)
		return;
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

/* A client stops between its request and the answer, with jobs in flight, and
 * is killed while stopped. */
static void stopped(struct hostile *h)
{
	while (hostile_goes_on(h)) {
		uint64_t random = hostile_random(h);
		pid_t pid = start();

		if (pid == 0) {
			struct raw c;
			struct raw_queue *q;
			struct gm_queue_open queue = { .row = h->n_rows - 1 };
			struct raw_record record;

			h->random = random;
			q = hostile_session(h, &c, DEPTH, 0, RANGE);
			if (!q)
				_exit(0);
			fill_all(&c, q);
			record = (struct raw_record){
				.header = raw_header(&c, GM_CONTROL_QUEUE_OPEN,
						     sizeof(queue), 0),
				.body = &queue,
				.body_bytes = sizeof(queue),
			};
			raw_send(&c, &record, MSG_DONTWAIT);
			raise(SIGSTOP);
			_exit(0);
		}
		if (pid > 0)
			waitpid(pid, NULL, WUNTRACED);
		raw_nap(hostile_below(h, 5000000));
		end(pid);
		hostile_round(h);
	}
}

/* Use another process's session, as long as it lasts. */
static void inherit(const struct raw *c, struct raw_queue *q)
{
	while (!raw_is_over(c)) {
		hostile_take_all(q);
		if (hostile_credit(q))
			fill_all(c, q);
		raw_ring(q);
	}
	_exit(0);
}

/* A client with children that keep its descriptors.  @alive is open as long as
 * any of them lives. */
static void bequeath(struct hostile *h, int alive)
{
	struct raw c;
	struct raw_queue *q = hostile_session(h, &c, DEPTH, 0, RANGE);

	if (!q)
		_exit(0);
	for (int i = 0; i < 6; i++) {
		if (fork() == 0)
			inherit(&c, q);
	}
	if (write(alive, "", 1) != 1)
		_exit(1);
	for (;;)
		pause();
}

/* Have all processes closed the other end? */
static bool all_gone(int fd)
{
	uint64_t until = raw_now() + RAW_PATIENCE_NS;
	char byte;

	while (raw_now() < until) {
		struct pollfd p = { fd, POLLIN, 0 };

		if (poll(&p, 1, 100) > 0 && read(fd, &byte, 1) == 0)
			return true;
	}
	return false;
}

/* A session ends with the process that opened it, whichever process still holds
 * its descriptors.  The children notice the end and exit. */
static void heirs(struct hostile *h)
{
	while (hostile_goes_on(h)) {
		int alive[2];
		pid_t owner;
		char byte;

		h->random = hostile_random(h);
		if (pipe(alive) != 0)
			return;
		owner = start();
		if (owner == 0) {
			close(alive[0]);
			setpgid(0, 0);
			bequeath(h, alive[1]);
		}
		close(alive[1]);
		if (owner > 0 && read(alive[0], &byte, 1) == 1)
			raw_nap(hostile_below(h, 3000000));
		end(owner);
		if (!all_gone(alive[0])) {
			hostile_lapse(h, "a session survived its client");
			kill(-owner, SIGKILL);
		}
		close(alive[0]);
		hostile_round(h);
	}
}

const struct hostile_attack hostile_clients[] = {
	{ "abandoned", abandoned, 1 },
	{ "hasty", hasty, 1 },
	{ "stopped", stopped, 1 },
	{ "heirs", heirs, 6 },
	{ NULL, NULL, 0 },
};
