/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * group: parts of collectives are of the rounds as all jobs are.  The other
 * rank of each group is played here.
 */

#include "agent/worker/collective/member.h"
#include "tests/support/worker/schedule_rig.h"

/* Rank 0 is the worker's; each has what it gives and gets in a part of its
 * own. */
#define PART (2 * MIB)

static void *peer_reach(void *arg, uint32_t rank, struct gm_comm_place place,
			uint64_t bytes, bool writes)
{
	const struct member *m = arg;

	(void)rank;
	(void)bytes;
	(void)writes;
	return m->c.memory + place.at;
}

static struct gm_entry all_reduce(const struct member *m, uint64_t bytes)
{
	return (struct gm_entry){ .op = GPUMAP_OP_ALL_REDUCE,
				  .dtype = GPUMAP_DTYPE_F32,
				  .incarnation = m->c.incarnation,
				  .n = bytes / 4,
				  .value = 1 };
}

/* The session does all_reduce over and over. */
static void join_group(struct member *m, uint32_t uid, uint64_t bytes)
{
	struct gm_wire join = { .type = GM_WIRE_JOIN,
				.handle = 1,
				.join.n_ranks = 2,
				.join.rank = 0 };
	int fd;

	join_host(m, uid, GM_DEPTH_MIN, 0);
	m->page = hand_share("test-page", gm_comm_page_bytes(2), &fd);
	gm_comm_init(&m->peer, m->page, 1, 2);
	m->peer.reach = peer_reach;
	m->peer.arg = m;
	join.session = m->c.id;
	join.place = m->c.place;
	gm_collective_join(&r.w, &join, fd);
	EQ(rig_hear(&r, &join, 10000), GM_WIRE_JOINED);
	m->job = all_reduce(m, bytes);
}

/* Until it has to wait, or has ended one. */
static void play_peer(struct member *m)
{
	struct gm_comm_ask ask = { .op = GM_COMM_ALL_REDUCE,
				   .dtype = GPUMAP_DTYPE_F32,
				   .n = m->job.n,
				   .send = { 0, PART },
				   .recv = { 0, PART } };
	bool is_told;
	int rc;

	if (m->is_away)
		return;
	if (!m->is_called)
		gm_comm_begin(&m->peer, &ask, &m->call);
	m->is_called = true;
	do
		rc = gm_comm_step(&m->peer, &m->call, MIB, &is_told);
	while (rc == 0);
	if (rc == -EAGAIN)
		return;
	EQ(rc, 1);
	m->is_called = false;
}

/* As the loop does it. */
static void group_pass(void)
{
	host_pass();
	set_shares();
	gm_collective_pass(&r.w);
	for (uint32_t i = 0; i < n_crowd; i++)
		if (crowd[i].page)
			play_peer(&crowd[i]);
}

/* Each rank's reads in one: its half of both, and the other half. */
static uint64_t read_by(uint32_t uid)
{
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < n_crowd; i++) {
		const struct member *m = &crowd[i];

		if (m->c.uid == uid)
			bytes += m->page ? m->entries * m->job.n * 4 * 3 / 2
					 : m->bytes;
	}
	return bytes;
}

static bool have_the_same(uint64_t a, uint64_t b)
{
	uint64_t most = a > b ? a : b, least = a > b ? b : a;

	if ((most - least) * 100 <= most * PERCENT)
		return true;
	NOTE("%llu and %llu", (unsigned long long)a, (unsigned long long)b);
	return false;
}

/* A user that also does collectives gets no more of the row by them. */
static void collectives_are_no_extra(void)
{
	open_host();
	gm_collective_init(&r.w);
	for (uint32_t i = 0; i < 4; i++)
		join_group(&crowd[i], 1, 512 * KIB);
	join_host(&crowd[4], 1, DEPTH, 300 * KIB);
	join_host(&crowd[5], 2, DEPTH, 300 * KIB);
	for (uint32_t i = 0; i < n_crowd; i++)
		crowd[i].share = 128 * KIB;
	while (crowd[5].bytes < 80 * MIB)
		group_pass();
	OK(have_the_same(read_by(1), read_by(2)));
	leave_all();
}

/* Nor less, who does nothing else, be it one after the other or several at
 * once, beside turns of any size. */
static void collectives_have_as_much_as_others(uint32_t groups, uint64_t turn)
{
	open_host();
	gm_collective_init(&r.w);
	for (uint32_t i = 0; i < groups; i++) {
		join_group(&crowd[i], 1, 512 * KIB);
		crowd[i].share = turn;
	}
	join_host(&crowd[groups], 2, DEPTH, 3 * MIB);
	crowd[groups].share = turn;
	while (crowd[groups].bytes < 80 * MIB)
		group_pass();
	OK(have_the_same(read_by(1), read_by(2)));
	leave_all();
}

/* Between users who do nothing else: how many a user has does not matter. */
static void groups_do_not_count(void)
{
	open_host();
	gm_collective_init(&r.w);
	for (uint32_t i = 0; i < 7; i++) {
		join_group(&crowd[i], i == 0 ? 1 : 2, 512 * KIB);
		crowd[i].share = 128 * KIB;
	}
	while (read_by(1) < 80 * MIB)
		group_pass();
	OK(have_the_same(read_by(1), read_by(2)));
	leave_all();
}

/* Small ones are entries as any others. */
static void small_collectives_are_entries(void)
{
	open_host();
	gm_collective_init(&r.w);
	join_group(&crowd[0], 1, 64);
	join_group(&crowd[1], 1, 64);
	join_host(&crowd[2], 1, DEPTH, 0);
	join_host(&crowd[3], 2, DEPTH, 0);
	while (crowd[3].entries < 40 * (uint64_t)GM_ROUND_ENTRIES)
		group_pass();
	OK(have_the_same(crowd[0].entries + crowd[1].entries + crowd[2].entries,
			 crowd[3].entries));
	leave_all();
}

/* A session that waits for another rank uses nothing of the row, and delays no
 * other. */
static void who_waits_pays_nothing(void)
{
	open_host();
	gm_collective_init(&r.w);
	join_group(&crowd[0], 1, 512 * KIB);
	join_host(&crowd[1], 1, DEPTH, 300 * KIB);
	join_host(&crowd[2], 2, DEPTH, 300 * KIB);
	for (uint32_t i = 0; i < n_crowd; i++)
		crowd[i].share = 128 * KIB;
	crowd[0].is_away = true;
	while (crowd[2].bytes < 40 * MIB)
		group_pass();
	EQ(crowd[0].entries, 0);
	OK(have_the_same(crowd[1].bytes, crowd[2].bytes));
	crowd[0].is_away = false;
	while (crowd[2].bytes < 80 * MIB)
		group_pass();
	OK(crowd[0].entries > 1);
	OK(have_the_same(read_by(1), read_by(2)));
	leave_all();
}

/* On a device that computes meanwhile a part begins within a turn, and what it
 * gives to its windows then is paid once, by the user as by the session. */
static void what_begins_in_a_turn_is_paid_once(void)
{
	struct gm_wire wire = { .type = GM_WIRE_JOIN,
				.handle = 1,
				.join.n_ranks = 2,
				.join.flags = GM_JOIN_STAGED };
	struct member *m = &crowd[n_crowd++];
	struct gm_deficit *user, *own;
	int64_t had, had_own;
	int fd;

	rig_open(&r, 128 * KIB, 3);
	gm_collective_init(&r.w);
	memset(m, 0, sizeof(*m));
	hand_open(&m->c, 1, 0, ROW, GM_DEPTH_MIN, 8 * MIB);
	m->s = rig_attach(&r, &m->c);
	munmap(hand_share("test-page", gm_comm_bytes(2, true), &fd),
	       gm_comm_bytes(2, true));
	wire.session = m->c.id;
	gm_collective_join(&r.w, &wire, fd);
	rig_slow(&r);
	EQ(rig_hear(&r, &wire, 10000), GM_WIRE_JOINED);
	m->job = all_reduce(m, 512 * KIB);
	user = &m->s->user->deficit;
	own = &m->s->deficit;
	OK(gm_deficit_left(user, ++r.w.round));
	OK(gm_deficit_left(own, ++m->s->user->round));
	had = user->bytes;
	had_own = own->bytes;
	hand_submit(&m->c, &m->job, 1);
	gm_run_queue_wake(&r.w, m->s);
	gm_pass(&r.w, true);
	EQ(r.w.parts.n, 1);
	OK(own->bytes < had_own);
	EQ(had - user->bytes, had_own - own->bytes);
	/* Whatever the session's share is: copies take no time of the loop. */
	OK(m->s->share < 128 * KIB);
	EQ(had_own - own->bytes, m->s->part.member->copied);
	rig_slow(&r);
	gm_collective_leave(&r.w, m->s);
	leave_all();
}

TAP_CASE()
{
	EQ(gm_sigbus_init(), 0);
	collectives_are_no_extra();
	collectives_have_as_much_as_others(1, MIB);
	collectives_have_as_much_as_others(1, 16 * KIB);
	collectives_have_as_much_as_others(4, MIB);
	groups_do_not_count();
	small_collectives_are_entries();
	who_waits_pays_nothing();
	what_begins_in_a_turn_is_paid_once();
	return tap_done();
}
