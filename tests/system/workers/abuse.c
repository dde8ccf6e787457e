/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* gpumap-worker under clients that take memory away, ring without end, or hand
 * in work that is slow for its size: what others have of it stays as it was. */

#include "agent/worker/queue/doorbell_limit.h"
#include "tests/support/process.h"
#include "tests/support/worker/worker_row.h"

static void holes_hurt_their_maker_only(void)
{
	struct hand_client good, bad;
	struct gm_entry e;
	struct gm_wire wire;
	struct row row;

	row_make(&row);
	hand_open(&good, 1, 0, ROW, 16, 4 * MIB);
	hand_open(&bad, 2, 1, ROW, 16, 4 * MIB);
	OK(row_start(&row, false));
	EQ(row_attach(&row, &good), 0);
	EQ(row_attach(&row, &bad), 0);

	/* A hole where there is memory to fill it is zeroes. */
	memset(bad.memory, 1, 2 * MIB);
	EQ(fallocate(bad.arena, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
		     (off_t)MIB),
	   0);
	e = hand_copy(&bad, 2 * MIB, 0, 2 * MIB);
	EQ(hand_do(&bad, &e), 0);
	EQ(bad.memory[2 * MIB], 0);
	EQ(bad.memory[4 * MIB - 1], 1);

	/* Where there is none it is SIGBUS, as behind the end of a file. */
	EQ(ftruncate(bad.arena, (off_t)MIB), 0);
	hand_submit(&bad, &e, 1);
	EQ(row_hear(&row, &wire), GM_WIRE_VIOLATION);
	EQ(wire.session, 2);
	e = hand_nop(&good);
	EQ(hand_do(&good, &e), 0);

	/* The queue's own memory, with no worker reading it. */
	EQ(ftruncate(good.queues, 0), 0);
	hand_ring(&good);
	EQ(row_hear(&row, &wire), GM_WIRE_VIOLATION);
	EQ(wire.session, 1);
	row_tell_about(&row, GM_WIRE_DETACH, &good);
	EQ(row_hear(&row, &wire), GM_WIRE_DETACHED);
	EQ(row_drain(&row), 0);
	hand_close(&good, ROW);
	hand_close(&bad, ROW);
	row_drop(&row);
}

/* After a calm second, and when the worker has come to look after that.  The
 * first bell that it hears may be one of the flood. */
static bool is_heard_again(const struct row *row, struct hand_client *c)
{
	uint64_t end = hand_now() + HAND_PATIENCE_NS;
	int heard = 0;

	while (heard < 2 && hand_now() < end) {
		struct gm_entry e = hand_nop(c);
		uint64_t rings;

		hand_nap();
		if (!row_becomes_odd(&c->queue->parked))
			return false;
		rings = gm_get(&row->journal->doorbells);
		if (hand_do(c, &e) != 0)
			return false;
		heard += gm_get(&row->journal->doorbells) > rings;
	}
	return heard == 2;
}

static void floods_are_not_listened_to(void)
{
	enum { ROUNDS = 300 };
	struct hand_client good, bad;
	struct gm_entry e;
	uint64_t one = 1, rings, since, seconds;
	struct row row;
	int failed = 0;
	pid_t flood;

	row_make(&row);
	hand_open(&good, 1, 0, ROW, 16, MIB);
	hand_open(&bad, 2, 1, ROW, 16, MIB);
	since = hand_now();
	OK(row_start(&row, false));
	EQ(row_attach(&row, &good), 0);
	EQ(row_attach(&row, &bad), 0);
	flood = fork();
	if (flood == 0)
		for (;;)
			if (write(bad.doorbell, &one, sizeof(one)) < 0)
				_exit(1);

	for (int i = 0; i < ROUNDS && !failed; i++) {
		e = hand_nop(&good);
		failed += hand_do(&good, &e) != 0;
		e = hand_nop(&bad);
		failed += hand_do(&bad, &e) != 0;
		hand_nap();
	}
	EQ(failed, 0);
	rings = gm_get(&row.journal->doorbells);
	seconds = (hand_now() - since) / GM_FLOOD_SECOND_NS;
	NOTE("%" PRIu64 " doorbells were answered", rings);
	/* Those of the jobs, and so many of the flood in a second, which has
	 * a hundred times as many. */
	OK(rings <= 2 * ROUNDS + (seconds + 2) * (GM_FLOOD_LIMIT + 1));
	kill(flood, SIGKILL);
	waitpid(flood, NULL, 0);

	OK(is_heard_again(&row, &bad));
	EQ(row_drain(&row), 0);
	hand_close(&good, ROW);
	hand_close(&bad, ROW);
	row_drop(&row);
}

/* Polls that the worker's io_uring has, -1 where that cannot be seen. */
static int count_polls(pid_t pid)
{
	char path[64], line[256];
	int n = -1;

	for (int fd = 0; fd < 32 && n < 0; fd++) {
		FILE *f;

		snprintf(path, sizeof(path), "/proc/%d/fdinfo/%d", (int)pid,
			 fd);
		f = fopen(path, "re");
		while (f && fgets(line, sizeof(line), f)) {
			if (strncmp(line, "PollList:", 9) == 0)
				n = 0;
			else if (n >= 0 && strstr(line, "op="))
				n++;
		}
		if (f)
			fclose(f);
	}
	return n;
}

/* A poll that is given up while its bell rings must be gone as well: each one
 * that stayed would make every later bell dearer. */
static void floods_leave_no_polls(void)
{
	enum { MANY = 12 };
	struct hand_client bad[MANY];
	struct gm_wire wire;
	struct row row;
	uint64_t one = 1;
	int polls, failed = 0;
	pid_t flood;

	row_make(&row);
	OK(row_start(&row, false));
	for (uint32_t i = 0; i < MANY; i++) {
		hand_open(&bad[i], i + 1, i, ROW, 16, MIB);
		failed += row_attach(&row, &bad[i]) != 0;
	}
	flood = fork();
	if (flood == 0)
		for (uint32_t i = 0;; i++)
			if (write(bad[i % MANY].doorbell, &one, sizeof(one)) <
			    0)
				_exit(1);
	failed += !row_grows_past(&row.journal->doorbells, 1001 * MANY - 1);
	for (uint32_t i = 0; i < MANY; i++) {
		row_tell_about(&row, GM_WIRE_DETACH, &bad[i]);
		failed += row_hear(&row, &wire) != GM_WIRE_DETACHED;
	}
	kill(flood, SIGKILL);
	waitpid(flood, NULL, 0);
	EQ(failed, 0);
	polls = count_polls(row.pid);
	if (polls < 0)
		SKIP(1, "the worker's io_uring cannot be looked at");
	else
		EQ(polls, 2); /* gpumapd's, and the slow thread's */
	EQ(row_drain(&row), 0);
	for (uint32_t i = 0; i < MANY; i++)
		hand_close(&bad[i], ROW);
	row_drop(&row);
}

/* Most completions that were seen under one sign of life. */
static uint64_t longest_silence(struct gm_journal *journal, uint64_t until)
{
	uint64_t end = hand_now() + HAND_PATIENCE_NS;
	uint64_t beat = 0, first = 0, most = 0, done = 0;

	while (done < until && hand_now() < end) {
		uint64_t before = gm_get_acquire(&journal->beat);

		done = gm_get_acquire(&journal->completed);
		if (gm_get_acquire(&journal->beat) != before)
			continue;
		if (before != beat)
			first = done;
		beat = before;
		if (done - first > most)
			most = done - first;
	}
	return most;
}

/* Products that no normal float can hold cost a CPU a hundred times what others
 * do, and every session has a queue full of them: that makes a pass long, and
 * no less alive. */
static void slow_work_is_no_silence(void)
{
	enum { MANY = 40, DEPTH = 64 };
	static struct hand_client c[MANY];
	const uint32_t small = 0x00400000;
	struct gm_entry jobs[DEPTH];
	const double alpha = 0.25;
	struct row row;
	int failed = 0;

	row_make(&row);
	OK(row_start(&row, false));
	for (uint32_t i = 0; i < MANY; i++) {
		hand_open(&c[i], i + 1, i, ROW, DEPTH, MIB / 4);
		failed += row_attach(&row, &c[i]) != 0;
		for (uint64_t at = 0; at < MIB / 8; at += sizeof(small))
			memcpy(c[i].memory + at, &small, sizeof(small));
	}
	for (uint32_t i = 0; i < DEPTH; i++) {
		jobs[i] = (struct gm_entry){ .op = GPUMAP_OP_SCALE,
					     .dtype = GPUMAP_DTYPE_F32,
					     .incarnation = 1,
					     .dst = MIB / 8,
					     .n = 16384 };
		memcpy(&jobs[i].value, &alpha, sizeof(alpha));
	}
	for (uint32_t i = 0; i < MANY; i++)
		hand_submit(&c[i], jobs, DEPTH);
	/* 32 turns of 16 jobs each, and some that were under way. */
	OK(longest_silence(row.journal, MANY * DEPTH) <= 1024);
	EQ(gm_get(&row.journal->completed), MANY * DEPTH);
	EQ(failed, 0);
	EQ(row_drain(&row), 0);
	for (uint32_t i = 0; i < MANY; i++)
		hand_close(&c[i], ROW);
	row_drop(&row);
}

/* All of them use one arena, so that the last jobs of the one can tell how far
 * the others are. */
static void share_arena(struct hand_client *c, const struct hand_client *with)
{
	close(c->arena);
	c->arena = dup(with->arena);
	munmap(c->memory, c->arena_bytes);
	c->memory = mmap(NULL, c->arena_bytes, PROT_READ | PROT_WRITE,
			 MAP_SHARED, c->arena, 0);
	if (c->memory == MAP_FAILED)
		exit(99);
}

#define CROWD 8u
#define FILLS (4 * MIB)

static struct gm_entry fill_of(uint32_t region)
{
	return (struct gm_entry){ .op = GPUMAP_OP_FILL,
				  .dtype = GPUMAP_DTYPE_U8,
				  .incarnation = 1,
				  .dst = region * FILLS,
				  .n = FILLS,
				  .value = 0xff };
}

/* Fill a region, then copy the last byte of each of the others'. */
static void submit_witness(struct hand_client *c)
{
	struct gm_entry jobs[1 + CROWD];

	jobs[0] = fill_of(CROWD);
	for (uint32_t i = 0; i < CROWD; i++)
		jobs[1 + i] =
			hand_copy(c, CROWD * FILLS + i, (i + 1) * FILLS - 1, 1);
	hand_submit(c, jobs, 1 + CROWD);
}

/* A user with many sessions gets as many turns as a user with one: when the one
 * session's job has ended, those of the many sessions have not. */
static void a_crowd_gets_one_share(void)
{
	static struct hand_client c[CROWD + 1];
	uint32_t through = 0, position;
	struct row row;
	int32_t status;
	int failed = 0;

	row_make(&row);
	OK(row_start(&row, false));
	for (uint32_t i = 0; i <= CROWD; i++) {
		hand_open(&c[i], i + 1, i, ROW, 16, (CROWD + 1) * FILLS);
		if (i > 0)
			share_arena(&c[i], &c[0]);
		c[i].uid = i < CROWD ? 1000 : 1001;
		failed += row_attach(&row, &c[i]) != 0;
		failed += !row_becomes_odd(&c[i].queue->parked);
	}
	/* They begin at one moment. */
	failed += !process_stop(row.pid);
	for (uint32_t i = 0; i < CROWD; i++) {
		struct gm_entry job = fill_of(i);

		hand_submit(&c[i], &job, 1);
	}
	submit_witness(&c[CROWD]);
	kill(row.pid, SIGCONT);
	for (uint32_t i = 0; i < 2 * CROWD + 1; i++) {
		failed += !hand_wait(&c[i < CROWD ? i : CROWD], &position,
				     &status) ||
			  status != 0;
	}
	for (uint32_t i = 0; i < CROWD; i++)
		through += c[0].memory[CROWD * FILLS + i] != 0;
	OK(through < 2);
	NOTE("%u of %u through", through, CROWD);
	EQ(failed, 0);
	EQ(row_drain(&row), 0);
	for (uint32_t i = 0; i <= CROWD; i++)
		hand_close(&c[i], ROW);
	row_drop(&row);
}

/* Many refusals, which the client does not read: the row goes on. */
static void a_deaf_agent_stops_no_row(void)
{
	enum { MANY = 3000 };
	struct hand_client c;
	struct gm_wire wire;
	struct gm_entry e;
	struct row row;
	uint64_t end;
	int told = 0, heard = 0;

	row_make(&row);
	hand_open(&c, 1, 0, ROW, 16, MIB);
	OK(row_start(&row, false));
	EQ(row_attach(&row, &c), 0);
	fcntl(row.pair, F_SETFL, O_NONBLOCK);
	memset(&wire, 0, sizeof(wire));
	wire.type = GM_WIRE_DETACH;
	wire.session = 77; /* of no session */
	/* Both directions would fill in turn, if it stopped reading. */
	end = hand_now() + HAND_PATIENCE_NS;
	while (told < MANY && hand_now() < end) {
		if (send(row.pair, &wire, sizeof(wire), MSG_NOSIGNAL) > 0)
			told++;
		else
			hand_nap();
	}
	EQ(told, MANY);
	e = hand_nop(&c);
	EQ(hand_do(&c, &e), 0);
	/* And nothing of it is lost. */
	fcntl(row.pair, F_SETFL, 0);
	while (heard < MANY && row_hear(&row, &wire) == GM_WIRE_DETACHED)
		heard++;
	EQ(heard, MANY);
	EQ(row_drain(&row), 0);
	hand_close(&c, ROW);
	row_drop(&row);
}

TAP_CASE()
{
	if (!row_can_run())
		return tap_done();
	holes_hurt_their_maker_only();
	floods_are_not_listened_to();
	floods_leave_no_polls();
	slow_work_is_no_silence();
	a_crowd_gets_one_share();
	a_deaf_agent_stops_no_row();
	return tap_done();
}
