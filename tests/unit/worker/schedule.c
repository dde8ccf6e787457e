/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * pass: who has how much of a row, counted in bytes and in entries, never in
 * time.
 *
 * Sessions that always have work, with jobs of all sizes, turns of all sizes
 * and queues of all depths, on a device that only counts and on one that is
 * late.
 */

#include "tests/support/worker/schedule_rig.h"

/* ---- a device that is called --------------------------------------------- */

static void sizes_and_turns_do_not_matter(void)
{
	static const uint64_t sizes[] = { 6 * KIB,  9 * KIB + 1, 40 * KIB,
					  64 * KIB, 100 * KIB,   333 * KIB,
					  MIB,      5 * MIB + 3 };
	static const uint64_t shares[] = { 128 * KIB, 256 * KIB, 560 * KIB,
					   MIB };

	open_host();
	for (uint32_t i = 0; i < CROWD; i++) {
		join_host(&crowd[i], 0, DEPTH, sizes[i % 8]);
		crowd[i].share = shares[i / 8];
	}
	while (most_of(bytes_of) < 40 * MIB)
		host_pass();
	OK(are_even(bytes_of));
	leave_all();
}

/* A session that is slower for its size gets less, and not so much less that
 * time alone would decide. */
static void slow_work_costs_more(void)
{
	open_host();
	for (uint32_t i = 0; i < 2; i++) {
		join_host(&crowd[i], 0, DEPTH, 512 * KIB);
		crowd[i].share = i == 0 ? 16 * KIB : MIB;
	}
	while (most_of(bytes_of) < 80 * MIB)
		host_pass();
	OK(crowd[0].bytes < 11 * MIB && crowd[0].bytes > 9 * MIB);
	leave_all();
}

static void depths_do_not_matter(void)
{
	open_host();
	for (uint32_t i = 0; i < CROWD; i++)
		join_host(&crowd[i], 0, GM_DEPTH_MIN << i % 4, i % 3 * 500);
	while (most_of(entries_of) < 40 * (uint64_t)GM_ROUND_ENTRIES)
		host_pass();
	OK(are_even(entries_of));
	leave_all();
}

/* A user with many sessions gets no more by them. */
static void users_have_the_same(void)
{
	uint64_t others = 0;

	open_host();
	for (uint32_t i = 0; i < 8; i++) {
		join_host(&crowd[i], i == 0 ? 1 : 2, DEPTH, 300 * KIB);
		crowd[i].share = i == 0 ? 128 * KIB : MIB;
	}
	while (crowd[0].bytes < 80 * MIB)
		host_pass();
	for (uint32_t i = 1; i < 8; i++)
		others += crowd[i].bytes;
	OK(others > 76 * MIB && others < 84 * MIB);
	crowd[0].bytes = crowd[1].bytes; /* between the other seven */
	OK(are_even(bytes_of));
	leave_all();
}

/* A small job waits for no more than a turn of each. */
static void nobody_waits_for_a_round(void)
{
	struct hand_client *c = &crowd[3].c;
	uint32_t pos, turns, most = 0;
	int32_t status;

	open_host();
	for (uint32_t i = 0; i < 3; i++) {
		join_host(&crowd[i], 0, DEPTH, 3 * MIB);
		crowd[i].share = 128 * KIB;
	}
	join_host(&crowd[3], 0, DEPTH, 0);
	n_crowd = 3; /* which are fed */
	for (uint32_t i = 0; i < 1000; i++) {
		hand_submit(c, &crowd[3].job, 1);
		turns = r.w.busy;
		while (!hand_take(c, &pos, &status))
			host_pass();
		turns = r.w.busy - turns;
		if (turns > most)
			most = turns;
	}
	OK(most <= 4);
	OK(are_even(bytes_of));
	n_crowd = 4;
	leave_all();
}

/* ---- a device that is late ----------------------------------------------- */

#define LANE 4u /* slices under way */

/* Passes as long as they get anywhere, and then the device ends what it began
 * first; whether anything was under way. */
static bool late_pass(void)
{
	uint64_t next = r.late.n_landed + 1;

	for (uint32_t i = 0; i < n_crowd; i++)
		feed(&crowd[i]);
	gm_async_exec_poll(&r.w);
	do {
		while (gm_pass(&r.w, true))
			;
		if (r.w.slow.n)
			rig_slow(&r);
	} while (gm_pass(&r.w, true));
	return late_end(next);
}

static void a_window_is_no_share(void)
{
	static const uint64_t sizes[] = { 24 * KIB, 64 * KIB, 200 * KIB, MIB };
	uint32_t idle = 0;

	rig_open(&r, 128 * KIB, 3);
	r.late.room = LANE;
	for (uint32_t i = 0; i < 4; i++)
		join_late(&crowd[i], 0, sizes[i]);
	while (most_of(bytes_of) < 24 * MIB && idle < 1000)
		idle += !late_pass();
	EQ(idle, 0);
	OK(are_even(bytes_of));
	leave_all();
}

static void users_have_the_same_of_a_late_device(void)
{
	uint64_t others;
	uint32_t idle = 0;

	rig_open(&r, 128 * KIB, 3);
	r.late.room = LANE;
	join_late(&crowd[0], 1, 32 * KIB);
	join_late(&crowd[1], 2, MIB);
	join_late(&crowd[2], 2, 300 * KIB);
	while (crowd[0].bytes < 24 * MIB && idle < 1000)
		idle += !late_pass();
	EQ(idle, 0);
	others = crowd[1].bytes + crowd[2].bytes;
	OK(others > 21 * MIB && others < 27 * MIB);
	leave_all();
}

/* More bytes never cost less, nor more than they are. */
static void costs_rise_with_bytes(void)
{
	const struct gm_backend_device dev = { .slice_bytes = 128 * KIB,
					       .own_bytes = 3 * MIB };
	const struct gm_task own = { .op = GPUMAP_OP_FILL };
	const struct gm_task run = { .op = GPUMAP_OP_RUN,
				     .kernel = (const void *)&own };
	const struct gm_task bus = { .op = GPUMAP_OP_COPY, .src = &own };
	uint64_t last = 0, wrong = 0;

	for (uint64_t n = 0; n <= 3 * MIB; n += 777) {
		uint64_t cost = gm_device_cost(&dev, &own, n);

		wrong += cost < last || cost > n;
		wrong += n <= 64 * KIB && cost != n;
		wrong += gm_device_cost(&dev, &run, n) != n;
		wrong += gm_device_cost(&dev, &bus, n) != n;
		last = cost;
	}
	EQ(wrong, 0);
	EQ(gm_device_cost(&dev, &own, 3 * MIB), 128 * KIB);
}

/* Jobs in memory of the device's own. */
static void join_own(struct member *m, uint32_t uid, uint64_t bytes)
{
	const uint64_t handle = hand_handle(ROW, 1);
	struct gm_entry alloc;

	join_late(m, uid, bytes);
	alloc = hand_alloc(&m->c, handle, bytes, 0);
	hand_submit(&m->c, &alloc, 1);
	rig_serve(&r, m->s);
	m->owed = 1;
	m->job.dst_buffer = handle;
	m->own =
		(const char *)(uintptr_t)gm_buffers_find(&m->s->buffers, handle)
			->address;
}

/* A whole slice of the device's own memory takes the time of one over the bus.
 * A short one takes no less for being there. */
static void own_memory_counts_by_time(uint64_t own_bytes, uint64_t want_bytes)
{
	uint32_t idle = 0;

	rig_open(&r, 128 * KIB, 3);
	r.late.dev.own_bytes = MIB;
	r.late.room = LANE;
	join_late(&crowd[0], 1, own_bytes < MIB ? own_bytes : MIB);
	join_own(&crowd[1], 2, own_bytes);
	while (crowd[0].bytes < 8 * MIB && idle < 1000)
		idle += !late_pass();
	EQ(idle, 0);
	if (!OK(crowd[1].bytes * 100 > want_bytes * 90 &&
		crowd[1].bytes * 100 < want_bytes * 110))
		NOTE("%llu", (unsigned long long)crowd[1].bytes);
	leave_all();
}

/* One that waits for others goes to sleep, and is not forgotten. */
static void who_is_held_may_sleep(void)
{
	struct member *large = &crowd[0], *small = &crowd[1];

	rig_open(&r, 128 * KIB, 1);
	r.late.room = LANE;
	join_late(large, 0, MIB);
	join_late(small, 0, 16 * KIB);
	for (uint32_t i = 0; i < 10 * LANE; i++)
		late_pass();
	/* Both have one under way.  The large one's memory is there. */
	feed(large);
	feed(small);
	large->s->deficit.bytes = -(int64_t)MIB;
	OK(!gm_async_exec_has_ended(&r.w, large->s) || gm_pass(&r.w, true));
	late_land_all(&r.late);
	gm_pass(&r.w, true);
	gm_pass(&r.w, true);
	OK(gm_async_exec_waits(small->s));
	OK(!gm_async_exec_waits(large->s));
	OK(gm_run_queue_park(&r.w, large->s));
	OK(!large->s->active);
	EQ(gm_get(&large->c.queue->parked) & 1, 0);
	gm_async_exec_poll(&r.w);
	OK(!large->s->active);
	/* The small one has nothing more to ask for, and the round is over. */
	late_land_all(&r.late);
	small->s->deficit.bytes = 0;
	gm_pass(&r.w, true);
	gm_async_exec_poll(&r.w);
	OK(large->s->active);
	leave_all();
}

TAP_CASE()
{
	EQ(gm_sigbus_init(), 0);
	sizes_and_turns_do_not_matter();
	slow_work_costs_more();
	depths_do_not_matter();
	users_have_the_same();
	nobody_waits_for_a_round();
	a_window_is_no_share();
	users_have_the_same_of_a_late_device();
	costs_rise_with_bytes();
	own_memory_counts_by_time(MIB, 64 * MIB);
	own_memory_counts_by_time(64 * KIB, 8 * MIB);
	who_is_held_may_sleep();
	return tap_done();
}
