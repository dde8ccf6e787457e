/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* Times of jobs: spans, which jobs are timed and for how many they count, and
 * which are recorded. */

#include "gpumap.h"
#include "tests/support/worker/quantum_rig.h"

static struct gm_trace *ring;

static uint64_t timed(void)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < GM_JOB_TIMES; i++)
		sum += gm_get(&journal->job_times[i]);
	return sum;
}

static void spans_end_where_the_next_begin(void)
{
	EQ(gpumap_job_time(0), 0);
	EQ(gpumap_job_time(1000), 0);
	EQ(gpumap_job_time(UINT64_MAX), GPUMAP_JOB_TIMES - 1);
	EQ(gpumap_job_time_end(GPUMAP_JOB_TIMES - 1), UINT64_MAX);
	EQ(gpumap_job_time_end(0), 1000);
	EQ(gpumap_job_time_end(11), UINT64_C(4194304000));
	for (uint32_t i = 0; i < GPUMAP_JOB_TIMES - 1; i++) {
		EQ(gpumap_job_time(gpumap_job_time_end(i)), i);
		EQ(gpumap_job_time(gpumap_job_time_end(i) + 1), i + 1);
	}
}

/* As often as each counts for, and after no fixed number of turns. */
static void one_turn_in_so_many_is_timed(void)
{
	enum { TURNS = 200000 };
	struct gm_job_clock clock;
	uint32_t gap = 0, shortest = UINT32_MAX, longest = 0;
	uint64_t sum = 0;

	gm_job_clock_init(&clock, journal, 1);
	for (int i = 0; i < TURNS; i++) {
		uint32_t weight = gm_job_clock_turn(&clock);

		sum += weight;
		gap++;
		if (weight == 0)
			continue;
		EQ(weight, GM_JOB_CLOCK_EACH);
		shortest = gap < shortest && i > 0 ? gap : shortest;
		longest = gap > longest ? gap : longest;
		gap = 0;
	}
	OK(sum > TURNS * 0.97 && sum < TURNS * 1.03);
	EQ(shortest, 1);
	EQ(longest, 2 * GM_JOB_CLOCK_EACH - 1);
	EQ(gm_job_clock_turn(NULL), 0);
}

static void a_job_counts_for_its_weight(void)
{
	const struct gm_job_stamp stamp = { .read_ns = 1000, .weight = 64 };
	const struct gm_job_stamp untimed = { .weight = 64 };
	uint64_t ns = gm_get(&journal->job_ns), n = timed();
	uint64_t in_span = gm_get(&journal->job_times[1]);
	struct gm_job_clock clock;

	gm_job_clock_init(&clock, journal, 1);
	gm_job_clock_ended(&clock, &stamp, 1, 0, 4000, 0);
	gm_job_clock_ended(&clock, &untimed, 1, 0, 4000, 0);
	gm_job_clock_ended(NULL, &stamp, 1, 0, 4000, 0);
	EQ(gm_get(&journal->job_ns) - ns, 64 * 3000);
	EQ(timed() - n, 64);
	EQ(gm_get(&journal->job_times[1]) - in_span, 64);
}

static struct gm_worker_session *serve_timed(struct hand_client *c,
					     struct gm_job_clock *clock)
{
	struct gm_worker_session *s = serve(c);

	gm_job_clock_init(clock, journal, 1);
	s->clock = clock;
	s->uid = 7;
	return s;
}

static void submit_nops(struct hand_client *c, struct gm_worker_session *s,
			struct counting *k, uint32_t n)
{
	struct gm_entry e = hand_nop(c);
	int32_t status;
	uint32_t pos;

	for (uint32_t i = 0; i < n; i++) {
		hand_submit(c, &e, 1);
		gm_quantum_serve(s, &k->dev);
		hand_take(c, &pos, &status);
	}
}

static void small_jobs_count_for_others(void)
{
	struct counting k = { .dev.backend = &counting_backend };
	uint64_t before = timed(), n;
	struct gm_worker_session *s;
	struct gm_job_clock clock;
	struct hand_client c;

	hand_open(&c, 1, 0, ROW, 128, MIB);
	s = serve_timed(&c, &clock);
	submit_nops(&c, s, &k, 10000);
	n = timed() - before;
	EQ(n % GM_JOB_CLOCK_EACH, 0);
	OK(n > 8000 && n < 12000);
	stop(&c, s);
}

/* Two slices in two turns, of which neither is timed by chance. */
static void a_long_job_counts_once(void)
{
	struct counting k = { .dev.backend = &counting_backend };
	uint64_t before, failed = gm_get(&journal->failed);
	struct gm_worker_session *s;
	struct gm_job_clock clock;
	struct hand_client c;
	struct gm_entry e;

	hand_open(&c, 2, 0, ROW, 128, 64 * MIB);
	s = serve_timed(&c, &clock);
	clock.left = UINT32_MAX;
	before = timed();
	e = hand_copy(&c, 32 * MIB, 0, 3 * MIB / 2);
	hand_submit(&c, &e, 1);
	fast_turn(s, &k);
	EQ(timed() - before, 0);
	while (gm_turn_due(s))
		fast_turn(s, &k);
	EQ(timed() - before, 1);
	EQ(gm_get(&journal->failed) - failed, 0);

	k.rc = -EIO;
	hand_submit(&c, &e, 1);
	fast_turn(s, &k);
	EQ(timed() - before, 2);
	EQ(gm_get(&journal->failed) - failed, 1);
	OK(gm_get(&journal->job_ns) > 0);
	stop(&c, s);
}

/* Also where one turn publishes several times. */
static void a_failed_job_counts_once(void)
{
	struct counting k = { .dev.backend = &counting_backend };
	uint64_t completed = gm_get(&journal->completed);
	uint64_t failed = gm_get(&journal->failed);
	struct gm_entry e[2 * GM_TURN_BATCH];
	struct gm_worker_session *s;
	struct gm_job_clock clock;
	struct hand_client c;

	hand_open(&c, 4, 0, ROW, 128, MIB);
	s = serve_timed(&c, &clock);
	for (uint32_t i = 0; i < 2 * GM_TURN_BATCH; i++)
		e[i] = i % 2 == 0 ? hand_copy(&c, 0, 0, UINT64_C(1) << 40)
				  : hand_nop(&c);
	hand_submit(&c, e, 2 * GM_TURN_BATCH);
	EQ(fast_turn(s, &k), 2 * GM_TURN_BATCH);
	EQ(gm_get(&journal->completed) - completed, 2 * GM_TURN_BATCH);
	EQ(gm_get(&journal->failed) - failed, GM_TURN_BATCH);
	stop(&c, s);
}

/* A second slot is no job. */
static void a_trace_has_each_job(void)
{
	struct counting k = { .dev.backend = &counting_backend };
	struct gm_trace_record records[8];
	struct gm_worker_session *s;
	struct gm_job_clock clock;
	struct hand_client c;
	struct gm_entry e[6];
	uint64_t pos = 0, lost, n;

	hand_open(&c, 3, 0, ROW, 128, 64 * MIB);
	s = serve_timed(&c, &clock);
	clock.left = UINT32_MAX;
	clock.trace = ring;
	e[0] = hand_nop(&c);
	e[1] = hand_second(UINT64_MAX);
	e[0].flags = GM_ENTRY_MORE;
	e[2] = hand_copy(&c, MIB, 0, 64);
	/* Longer than small ones, and over within the turn. */
	e[3] = hand_copy(&c, MIB, 0, 2 * GM_TURN_SMALL);
	e[4] = hand_nop(&c);
	e[5] = hand_copy(&c, 32 * MIB, 0, 3 * MIB / 2);
	n = timed();
	hand_submit(&c, e, 6);
	while (gm_turn_due(s))
		fast_turn(s, &k);
	EQ(timed() - n, 5); /* each for itself */
	if (EQ(gm_trace_get(ring, &pos, records, 8, &lost), 5)) {
		EQ(records[0].op, GPUMAP_OP_NOP);
		EQ(records[1].op, GPUMAP_OP_COPY);
		EQ(records[1].n, 64);
		EQ(records[2].n, 2 * GM_TURN_SMALL);
		EQ(records[3].op, GPUMAP_OP_NOP);
		EQ(records[4].n, 3 * MIB / 2);
		for (int i = 0; i < 5; i++) {
			EQ(records[i].session, 3);
			EQ(records[i].uid, 7);
			EQ(records[i].status, 0);
			OK(records[i].read_ns != 0);
			OK(records[i].read_ns <= records[i].started_ns);
			OK(records[i].started_ns <= records[i].ended_ns);
			OK(i == 0 ||
			   records[i].read_ns >= records[i - 1].ended_ns);
		}
	}
	EQ(lost, 0);
	clock.trace = NULL;
	submit_nops(&c, s, &k, 1);
	EQ(gm_trace_get(ring, &pos, records, 8, &lost), 0);
	stop(&c, s);
}

TAP_CASE()
{
	turn_begin();
	ring = aligned_alloc(4096, GM_TRACE_BYTES);
	if (ring == NULL)
		exit(99);
	memset((void *)ring, 0, GM_TRACE_BYTES);
	spans_end_where_the_next_begin();
	one_turn_in_so_many_is_timed();
	a_job_counts_for_its_weight();
	small_jobs_count_for_others();
	a_long_job_counts_once();
	a_failed_job_counts_once();
	a_trace_has_each_job();
	free(ring);
	turn_end();
	return tap_done();
}
