/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Checks collectives that no library would submit: parts whose other ranks
 * never come, ranks that ask for different operations, numbers of other
 * sessions' communicators or of none, and random entries.  The session that
 * submits them gets errors, and other sessions are not disturbed.
 *
 * With STAGE_CUDA the rows are cards.
 */

#include <linux/futex.h>
#include <sys/syscall.h>

#include "tests/support/story_rows.h"
#include "tests/support/dice.h"
#include "tests/support/raw.h"
#include "shm/control_comm.h"

#define DEPTH 64u
#define RANGE (UINT64_C(8) << 20)

static struct agent agent;
static struct gpumap *map;
static char path[192];

/* One rank's part.  Its input is at the beginning of its row's range, its
 * output half a range further. */
struct part {
	uint32_t row, op, dtype, comm, peer;
	uint64_t n, deadline_ns;
};

static int open_comm(struct raw *c, const uint32_t *rows, uint32_t n,
		     uint32_t bytes)
{
	struct gm_comm_open ask = { .n_ranks = n };

	return raw_ask_tail(c, GM_CONTROL_COMM_OPEN, &ask, sizeof(ask), rows,
			    bytes);
}

/* Open a session with queues on rows 0 and 1, and with communicator 1 over
 * both. */
static bool open_pair(struct raw *c)
{
	static const uint32_t rows[] = { 0, 1 };

	if (EQ(raw_open_queue(c, path, 0, DEPTH, RANGE), 0) &&
	    EQ(raw_queue(c, 1), 0) &&
	    EQ(open_comm(c, rows, 2, sizeof(rows)), 0))
		return true;
	raw_close(c);
	return false;
}

static void post_entry(struct raw *c, uint32_t row, struct gm_entry entry,
		       uint64_t deadline_ns)
{
	struct gm_entry pair[2] = { entry };

	/* The entry's second slot carries the deadline, in words that have the
	 * names of a first slot's fields. */
	pair[0].flags = GM_ENTRY_MORE;
	pair[1] = (struct gm_entry){ .op = GM_OP_MORE,
				     .incarnation = (uint32_t)deadline_ns,
				     .zero = (uint32_t)(deadline_ns >> 32) };
	raw_post(&c->row[row], pair, 2);
}

static void post(struct raw *c, const struct part *p)
{
	struct gm_entry e = raw_entry(&c->row[p->row], (uint8_t)p->op);

	e.dtype = (uint8_t)p->dtype;
	e.n = p->n;
	e.value = p->comm | (uint64_t)p->peer << 32;
	e.src = p->row * RANGE;
	e.dst = p->row * RANGE + RANGE / 2;
	post_entry(c, p->row, e, p->deadline_ns);
}

/* Returns the status of the next part that ends on a row, or 1 when none
 * does. */
static int32_t end_of(struct raw *c, uint32_t row)
{
	uint64_t until = raw_now() + RAW_PATIENCE_NS;
	int32_t status[2];

	for (int i = 0; i < 2; i++) {
		uint32_t position;

		while (!raw_take(&c->row[row], &position, &status[i])) {
			if (raw_is_over(c) || raw_now() > until)
				return 1;
			raw_nap(100000);
		}
	}
	return status[0];
}

/* Run barriers in another session.  Returns how many steps went wrong. */
static int neighbours(void)
{
	struct gpumap_collective barrier = { .size = sizeof(barrier),
					     .op = GPUMAP_OP_BARRIER };
	uint64_t until = story_now() + STORY_LIMIT_NS;
	struct gpumap_session *s;
	struct gpumap_comm *comm = NULL;
	struct gpumap_done done;
	int wrong = 0;

	if (gpumap_session_open(map, NULL, &s) != 0)
		return 1;
	wrong += gpumap_comm_open(s, "both", NULL, &comm) != 0;
	for (int i = 0; wrong == 0 && i < 50; i++)
		wrong += gpumap_comm_submit(comm, &barrier) != 0 ||
			 gpumap_wait(s, &done, 1, until) != 1 ||
			 done.status != 0;
	wrong += gpumap_comm_close(comm) != 0;
	gpumap_session_close(s);
	return wrong;
}

static uint64_t soon(void)
{
	return raw_now() + 200 * 1000 * 1000;
}

static void alone_it_ends_in_time(void)
{
	struct part p = { .op = GPUMAP_OP_ALL_REDUCE,
			  .dtype = GPUMAP_DTYPE_F32,
			  .comm = 1,
			  .n = 9 };
	struct raw c;

	if (!open_pair(&c))
		return;
	p.deadline_ns = soon();
	post(&c, &p);
	EQ(neighbours(), 0);
	EQ(end_of(&c, 0), -ETIME);
	OK(raw_now() >= p.deadline_ns);
	/* The communicator is broken for the other rank, too. */
	p.row = 1;
	p.deadline_ns = 0;
	post(&c, &p);
	EQ(end_of(&c, 1), -ESTALE);
	raw_close(&c);
}

/* A part that is refused before it begins ends the other ranks' parts all the
 * same. */
static void a_part_that_never_begins(void)
{
	struct part p = { .op = GPUMAP_OP_ALL_REDUCE,
			  .dtype = GPUMAP_DTYPE_F32,
			  .comm = 1,
			  .n = 9 };
	struct gm_timeline *timeline;
	struct raw c;
	int32_t status;

	if (!open_pair(&c))
		return;
	post(&c, &p);
	p.row = 1;
	p.deadline_ns = 1; /* long ago */
	post(&c, &p);
	EQ(end_of(&c, 1), -ETIME);
	/* The other part began before the refusal, or after it. */
	status = end_of(&c, 0);
	OK(status == -ETIME || status == -ESTALE);
	raw_close(&c);

	/* The part is canceled before it is posted, and so never begins. */
	if (!open_pair(&c))
		return;
	p.deadline_ns = 0;
	timeline = gm_queue_timeline(c.row[1].queue, DEPTH);
	gm_put(&timeline->cancel, gm_cancel_make(c.row[1].entries.pos + 2));
	post(&c, &p);
	EQ(end_of(&c, 1), -ECANCELED);
	p.row = 0;
	post(&c, &p);
	EQ(end_of(&c, 0), -ESTALE);
	raw_close(&c);
}

static void others_groups_are_nobodys(void)
{
	static const uint32_t numbers[] = { 0, 2, 99, UINT32_MAX };
	struct part p = { .op = GPUMAP_OP_BARRIER, .dtype = GPUMAP_DTYPE_U8 };
	struct raw c;

	if (!open_pair(&c))
		return;
	for (uint32_t i = 0; i < 4; i++) {
		p.comm = numbers[i];
		post(&c, &p);
		EQ(end_of(&c, 0), -ESTALE);
	}
	EQ(neighbours(), 0);
	p.comm = 1;
	post(&c, &p);
	p.row = 1;
	post(&c, &p);
	EQ(end_of(&c, 0), 0);
	EQ(end_of(&c, 1), 0);
	raw_close(&c);
}

/* All ranks find that their parts differ, and continue. */
static void ranks_that_differ(void)
{
	const struct part one = { .op = GPUMAP_OP_ALL_REDUCE,
				  .dtype = GPUMAP_DTYPE_F32,
				  .comm = 1,
				  .n = 9 };
	struct part other[5];
	struct raw c;

	if (!open_pair(&c))
		return;
	for (uint32_t i = 0; i < 5; i++) {
		other[i] = one;
		other[i].row = 1;
	}
	other[0].op = GPUMAP_OP_ALL_GATHER;
	other[1].dtype = GPUMAP_DTYPE_I32;
	other[2].n = 10;
	other[3].peer = 1;
	other[4].dtype = 99;
	for (uint32_t i = 0; i < 5; i++) {
		post(&c, &one);
		post(&c, &other[i]);
		EQ(end_of(&c, 0), -EINVAL);
		EQ(end_of(&c, 1), -EINVAL);
	}
	/* The counts differ, but both ranks begin with equally much. */
	other[0] = other[1] = one;
	other[0].n = RANGE / 16;
	other[1].n = RANGE / 8;
	other[1].row = 1;
	post(&c, &other[0]);
	post(&c, &other[1]);
	EQ(end_of(&c, 0), -EINVAL);
	EQ(end_of(&c, 1), -EINVAL);
	other[0].op = GPUMAP_OP_SEND;
	other[1].op = GPUMAP_OP_RECV;
	other[0].peer = 1;
	post(&c, &other[0]);
	post(&c, &other[1]);
	EQ(end_of(&c, 0), -EINVAL);
	EQ(end_of(&c, 1), -EINVAL);
	/* The memory is outside the session's: every rank gets the error. */
	other[0] = one;
	other[0].row = 1;
	other[0].n = 64 * RANGE;
	post(&c, &other[0]);
	other[0].row = 0;
	post(&c, &other[0]);
	EQ(end_of(&c, 0), -EFAULT);
	EQ(end_of(&c, 1), -EFAULT);
	other[0] = one;
	other[0].row = 1;
	post(&c, &one);
	post(&c, &other[0]);
	EQ(end_of(&c, 0), 0);
	EQ(end_of(&c, 1), 0);
	raw_close(&c);
}

static void what_groups_there_cannot_be(void)
{
	static const uint32_t rows[] = { 0, 1, 0, 2 };
	uint32_t many[GM_COMM_RANKS_MAX + 1] = { 0 };
	struct gm_comm_close close = { .comm = 7 };
	static const unsigned char longer[sizeof(struct gm_comm_open) + 1] = {
		2
	};
	struct raw c;
#ifndef STAGE_CUDA
	int refused = 0, fds;
#endif

	if (!open_pair(&c))
		return;
	EQ(open_comm(&c, rows, 0, 0), -EINVAL);
	EQ(open_comm(&c, rows, 2, 4), -EINVAL);
	EQ(open_comm(&c, rows, 3, 12), -EINVAL);    /* row 0 twice */
	EQ(open_comm(&c, rows + 2, 2, 8), -ENODEV); /* no queue on 2 */
	EQ(open_comm(&c, many, 65, sizeof(many)), -E2BIG);
	EQ(raw_ask(&c, GM_CONTROL_COMM_CLOSE, &close, sizeof(close), NULL, 0,
		   NULL),
	   -ENOENT);
	/* A body of another length, as another release sends it; the tail
	 * begins elsewhere. */
	EQ(raw_ask_tail(&c, GM_CONTROL_COMM_OPEN, longer, sizeof(longer), rows,
			8),
	   0);
	close.comm = 1;
	EQ(raw_ask(&c, GM_CONTROL_COMM_CLOSE, &close, sizeof(close), NULL, 0,
		   NULL),
	   0);
	EQ(raw_ask(&c, GM_CONTROL_COMM_CLOSE, &close, sizeof(close), NULL, 0,
		   NULL),
	   -ENOENT);
#ifndef STAGE_CUDA /* with cards they are too large to have so many */
	/* No communicator keeps a descriptor in the agent. */
	fds = story_holds_at_rest(agent.pid);
	for (int i = 1; i < 256; i++)
		refused += open_comm(&c, rows, 2, 8) != 0;
	EQ(refused, 0);
	EQ(open_comm(&c, rows, 2, 8), -EDQUOT);
	OK(story_gives_back(agent.pid, fds));
#endif
	raw_close(&c);
	EQ(neighbours(), 0);
}

/* A request with unknown flags is refused, the refusal names the flags, and no
 * communicator is opened. */
static void unknown_flags_are_refused(void)
{
	static const uint32_t rows[] = { 0, 1 };
	static const uint32_t odd[] = { 2, 0x80000001, UINT32_MAX };
	struct gm_comm_open ask = { .n_ranks = 2 };
	struct raw c;

	if (!EQ(raw_open_queue(&c, path, 0, DEPTH, RANGE), 0) ||
	    !EQ(raw_queue(&c, 1), 0))
		return;
	for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++) {
		char flags[32];

		ask.flags = odd[i];
		snprintf(flags, sizeof(flags), "flags 0x%x:", odd[i]);
		EQ(raw_ask_tail(&c, GM_CONTROL_COMM_OPEN, &ask, sizeof(ask),
				rows, sizeof(rows)),
		   -EINVAL);
		OK(strstr(c.refusal, flags) != NULL &&
		   strstr(c.refusal, "this agent knows 0x1") != NULL);
	}
	/* The agent knows this flag, though it uses no NCCL here. */
	ask.flags = GM_COMM_MAY_NCCL;
	EQ(raw_ask_tail(&c, GM_CONTROL_COMM_OPEN, &ask, sizeof(ask), rows,
			sizeof(rows)),
	   0);
	raw_close(&c);
}

#ifndef STAGE_CUDA
/* The kernel limits a worker's number of mappings, and all users share them. */
static void a_user_has_a_share_of_the_workers(void)
{
	static const uint32_t row = 0;
	uint64_t until = raw_now() + RAW_PATIENCE_NS;
	struct raw c[5];
	int refused = 0, n = 0;

	while (n < 5 && EQ(raw_open_queue(&c[n], path, 0, DEPTH, RANGE), 0))
		n++;
	for (int i = 0; n == 5 && i < 1024; i++)
		refused += open_comm(&c[i / 256], &row, 1, sizeof(row)) != 0;
	EQ(refused, 0);
	EQ(open_comm(&c[4], &row, 1, sizeof(row)), -EDQUOT);
	while (n > 0)
		raw_close(&c[--n]);
	/* Communicators count until the agent has seen their sessions' end. */
	while (neighbours() != 0 && raw_now() < until)
		raw_nap(1000000);
	EQ(neighbours(), 0);
}
#endif

/* Entries of random numbers are posted.  All of them end. */
static void dice_are_thrown(void)
{
	int left = 0, odd = 0, rounds = story_rounds() * 10;
	struct raw c;

	if (!open_pair(&c))
		return;
	for (int i = 0; i < rounds; i++) {
		uint64_t deadline = raw_now() + (i % 8 ? 0 : 5000000);
		uint32_t n = dice(4) ? 2 : 1;

		for (uint32_t row = 0; row < n; row++) {
			struct gm_entry e = raw_entry(
				&c.row[row],
				(uint8_t)(GPUMAP_OP_BARRIER + dice(7)));

			e.dtype = (uint8_t)dice(8);
			e.to = (uint8_t)dice(6);
			e.n = dice(3) ? dice(3000) : dice(UINT64_MAX);
			e.value = (1 + i / 50 % 8) | dice(3) << 32;
			e.src = dice(4) ? dice(2 * RANGE) : dice(UINT64_MAX);
			e.dst = dice(4) ? dice(2 * RANGE) : dice(UINT64_MAX);
			e.src_buffer = dice(8) ? 0 : dice(UINT64_MAX);
			post_entry(&c, row, e, deadline);
		}
		for (uint32_t row = 0; row < n; row++) {
			int32_t status = end_of(&c, row);

			left += status == 1;
			odd += status != 0 && status != -EINVAL &&
			       status != -EFAULT && status != -ETIME &&
			       status != -ESTALE;
		}
		if (i % 50 == 49) {
			static const uint32_t rows[] = { 0, 1 };

			left += open_comm(&c, rows, 2, 8) != 0;
		}
	}
	EQ(left, 0);
	EQ(odd, 0);
	raw_close(&c);
	EQ(neighbours(), 0);
}

/* Sleep until a part ends on the row, and poll only after each wakeup.  Returns
 * the part's status, or 1 when no wakeup came in time. */
static int32_t asleep_until(struct raw *c, uint32_t row)
{
	const struct timespec most = { RAW_PATIENCE_NS / 1000000000, 0 };
	int32_t status[2];

	for (int i = 0; i < 2;) {
		uint32_t position, wake = gm_get(&c->page->wake);

		gm_put_ordered(&c->page->parked,
			       (gm_get(&c->page->parked) | 1) + 2);
		if (raw_take(&c->row[row], &position, &status[i]))
			i++;
		else if (syscall(SYS_futex, &c->page->wake, FUTEX_WAIT, wake,
				 &most, NULL, 0) != 0 &&
			 errno == ETIMEDOUT)
			return 1;
	}
	gm_put_ordered(&c->page->parked, gm_get(&c->page->parked) + 1);
	return status[0];
}

/* The other rank comes late, dies or is given up while the client sleeps. */
static void sleepers_are_woken(void)
{
	struct part one = { .op = GPUMAP_OP_ALL_REDUCE,
			    .dtype = GPUMAP_DTYPE_F32,
			    .comm = 1 };
	struct part other = one;
	struct gpumap_device device;
	int rounds = story_rounds() * 10, asleep = 0, bad = 0;
	int32_t status;
	struct raw c;

	if (!open_pair(&c))
		return;
	other.row = 1;
	for (int i = 0; i < rounds && bad == 0; i++) {
		/* Small data goes through the communicator's page, large data
		 * does not. */
		one.n = other.n = i % 2 ? 9 : RANGE / 8;
		post(&c, i % 4 < 2 ? &one : &other);
		raw_nap((uint64_t)story_moment(i, 2000000));
		post(&c, i % 4 < 2 ? &other : &one);
		bad += asleep_until(&c, (uint32_t)i / 2 % 2) != 0;
		bad += asleep_until(&c, 1 - (uint32_t)i / 2 % 2) != 0;
		asleep++;
	}
	EQ(bad, 0);
	EQ(asleep, rounds);
	one.deadline_ns = soon();
	post(&c, &one);
	EQ(asleep_until(&c, 0), -ETIME);
	raw_close(&c);

	if (!open_pair(&c))
		return;
	one.deadline_ns = 0;
	post(&c, &one);
	device = story_device(map, 1);
	kill((pid_t)device.worker_pid, SIGKILL);
	/* The part began before the worker's death, or after it. */
	status = asleep_until(&c, 0);
	OK(status == -EIO || status == -ESTALE);
	OK(story_back(map, 1, device.restarts));
	raw_close(&c);
}

static void rows_drain_and_sessions_go(void)
{
	struct part p = { .op = GPUMAP_OP_BARRIER,
			  .dtype = GPUMAP_DTYPE_U8,
			  .comm = 1 };
	struct raw c;

	if (!open_pair(&c))
		return;
	post(&c, &p);
	EQ(gpumap_device_drain(map, 0), 0);
	EQ(end_of(&c, 0), -EIO);
	EQ(gpumap_device_undrain(map, 0), 0);
	raw_close(&c);
	EQ(neighbours(), 0);
	for (int i = 0; i < 20; i++) {
		if (!open_pair(&c))
			return;
		p.row = (uint32_t)i % 2;
		post(&c, &p);
		if (i % 4 < 2)
			raw_nap(1000000);
		raw_close(&c);
	}
	EQ(neighbours(), 0);
	/* A part is still waiting when the agent ends. */
	if (open_pair(&c)) {
		post(&c, &p);
		EQ(agent_kill(&agent, SIGTERM), 0);
	}
	raw_close(&c);
}

TAP_CASE()
{
	static const uint32_t rows[] = { 0, 1 };
	struct gpumap_mesh_request both = { .size = sizeof(both),
					    .name = "both",
					    .topology = GPUMAP_MESH_DATA,
					    .n_rows = 2,
					    .tp = 1,
					    .pp = 1,
					    .dp = 2,
					    .rows = rows };

	stage_make(&agent, "[host]\nrows = 3\n");
	snprintf(path, sizeof(path), "%s/%s.sock", agent.dir, agent.instance);
	if (OK(agent_start(&agent)) && OK((map = story_attach(&agent))) &&
	    EQ(gpumap_mesh_publish(map, &both), 0)) {
		alone_it_ends_in_time();
		a_part_that_never_begins();
		others_groups_are_nobodys();
		ranks_that_differ();
		what_groups_there_cannot_be();
		unknown_flags_are_refused();
#ifndef STAGE_CUDA
		a_user_has_a_share_of_the_workers();
#endif
		dice_are_thrown();
		sleepers_are_woken();
		rows_drain_and_sessions_go();
	}
	gpumap_detach(map);
	if (tap_failures)
		agent_show_log(&agent);
	stage_end(&agent);
	return tap_done();
}
