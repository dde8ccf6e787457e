/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * schedule_rig.h - sessions of a worker without its loop that always have work,
 * and what each of them got, counted in bytes and in entries.
 */
#ifndef GM_TEST_SUPPORT_WORKER_SCHEDULE_RIG_H
#define GM_TEST_SUPPORT_WORKER_SCHEDULE_RIG_H

#include "agent/comm/comm.h"
#include "agent/worker/collective/collective.h"
#include "agent/worker/queue/schedule.h"
#include "tests/support/worker/async_rig.h"

#define CROWD   32u
#define DEPTH   256u
#define PERCENT 10u

struct member {
	struct hand_client c;
	struct gm_worker_session *s;
	struct gm_entry job;
	uint64_t share;   /* of each turn, 0: as it comes */
	uint64_t bytes;   /* done for it */
	uint64_t entries; /* ended */
	uint32_t owed;    /* entries in its queue */
	const char *own;  /* its memory of the device, or NULL */

	/* For a session that does collectives: */
	struct gm_comm_page *page; /* NULL: it does none */
	struct gm_comm peer;       /* the other rank */
	struct gm_comm_call call;
	bool is_called;
	bool is_away; /* it does not come */
};

static struct rig r;
static struct member crowd[CROWD];
static uint32_t n_crowd;

/* The session whose arena this is, or whose memory of the device. */
static inline struct member *whose(const void *at)
{
	for (uint32_t i = 0; i < n_crowd; i++) {
		const char *arena = crowd[i].s->decoder.arena;

		if ((const char *)at == crowd[i].own)
			return &crowd[i];
		if ((const char *)at >= arena &&
		    (const char *)at < arena + crowd[i].c.arena_bytes)
			return &crowd[i];
	}
	exit(99);
}

static inline int count_run(struct gm_backend_device *dev,
			    const struct gm_task *task, uint64_t first,
			    uint64_t count)
{
	(void)dev;
	(void)first;
	whose(task->dst)->bytes += count * gm_ops_dtype_bytes(task->dtype);
	return 0;
}

static const struct gm_backend counting = { .name = "counting",
					    .run = count_run };
static struct gm_backend_device counter = { .backend = &counting };

/* ---- members ------------------------------------------------------------- */

static inline struct gm_entry fill(const struct hand_client *c, uint64_t bytes)
{
	struct gm_entry e = hand_copy(c, 0, 0, bytes);

	e.op = GPUMAP_OP_FILL;
	return e;
}

/* Keep its queue full; take what has ended. */
static inline void feed(struct member *m)
{
	uint32_t pos;
	int32_t status;

	while (hand_take(&m->c, &pos, &status)) {
		m->entries++;
		m->owed--;
		if (status != 0)
			exit(99);
	}
	while (m->owed < m->c.depth) {
		hand_submit(&m->c, &m->job, 1);
		m->owed++;
	}
}

static inline void join_host(struct member *m, uint32_t uid, uint32_t depth,
			     uint64_t bytes)
{
	uint32_t i = n_crowd++;
	int fds[GM_SESSION_FDS];
	struct gm_wire wire;

	memset(m, 0, sizeof(*m));
	hand_open(&m->c, i + 1, i, ROW, depth, 8 * MIB);
	m->c.uid = uid;
	memcpy(fds,
	       (int[]){ m->c.queues, m->c.arena, dup(m->c.doorbell),
			dup(m->c.socket[1]) },
	       sizeof(fds));
	wire = hand_attach(&m->c, ROW);
	if (gm_session_map(&wire, fds, r.journal, -1, true, &m->s) < 0 ||
	    gm_run_queue_admit(&r.w, m->s) < 0)
		exit(99);
	gm_session_take_over(m->s, m->c.incarnation);
	r.w.place[i] = m->s;
	gm_run_queue_wake(&r.w, m->s);
	m->job = bytes ? fill(&m->c, bytes) : hand_nop(&m->c);
}

static inline void join_late(struct member *m, uint32_t uid, uint64_t bytes)
{
	uint32_t i = n_crowd++;

	memset(m, 0, sizeof(*m));
	hand_open(&m->c, i + 1, i, ROW, 32, 8 * MIB);
	m->c.uid = uid;
	m->s = rig_attach(&r, &m->c);
	m->job = fill(&m->c, bytes);
}

static inline void leave(struct member *m)
{
	struct gm_wire wire;

	if (m->s->flights) {
		rig_end(&r, &m->c, m->s);
		return;
	}
	if (m->page) {
		gm_collective_leave(&r.w, m->s);
		munmap(m->page, gm_comm_page_bytes(2));
	}
	gm_run_queue_dismiss(&r.w, m->s);
	gm_journal_close(m->s->owed);
	m->s->pair = r.w.pair;
	gm_async_ops_depart(&r.w, m->s);
	EQ(rig_hear(&r, &wire, 10000), GM_WIRE_DETACHED);
	hand_close(&m->c, ROW);
}

static inline void leave_all(void)
{
	for (uint32_t i = 0; i < n_crowd; i++)
		leave(&crowd[i]);
	n_crowd = 0;
	rig_close(&r);
}

static inline void open_host(void)
{
	rig_open(&r, 0, 1);
	r.w.dev = &counter;
}

/* Whatever was learned of time. */
static inline void set_shares(void)
{
	for (uint32_t i = 0; i < n_crowd; i++)
		if (crowd[i].share)
			crowd[i].s->share = crowd[i].share;
}

/* A pass in which every session has work. */
static inline void host_pass(void)
{
	for (uint32_t i = 0; i < n_crowd; i++)
		feed(&crowd[i]);
	set_shares();
	gm_pass(&r.w, false);
}

/* The late device ends slice @next, if it began that one.  Returns whether it
 * did. */
static inline bool late_end(uint64_t next)
{
	const struct late_slice *slice = &r.late.slice[next];

	if (next > r.late.n_started)
		return false;
	late_land(&r.late, next);
	whose(slice->task.dst ? slice->task.dst
			      : (void *)(uintptr_t)slice->task.dst_address)
		->bytes += slice->count;
	return true;
}

/* ---- what they got ------------------------------------------------------- */

static inline uint64_t bytes_of(const struct member *m)
{
	return m->bytes;
}

static inline uint64_t entries_of(const struct member *m)
{
	return m->entries;
}

static inline uint64_t most_of(uint64_t (*what)(const struct member *m))
{
	uint64_t most = 0;

	for (uint32_t i = 0; i < n_crowd; i++)
		if (what(&crowd[i]) > most)
			most = what(&crowd[i]);
	return most;
}

static inline bool are_even(uint64_t (*what)(const struct member *m))
{
	uint64_t most = most_of(what), least = most;

	for (uint32_t i = 0; i < n_crowd; i++)
		if (what(&crowd[i]) < least)
			least = what(&crowd[i]);
	if ((most - least) * 100 <= most * PERCENT)
		return true;
	NOTE("from %llu to %llu", (unsigned long long)least,
	     (unsigned long long)most);
	return false;
}

#endif
