/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * load_rig.h - LOADs of a worker without its loop, on a device that computes
 * while it is called or on one that is late.
 *
 * Reads end when a story says so, each by itself: what the kernel answers is
 * kept until then.  A page is read at a time.
 */
#ifndef GM_TEST_SUPPORT_WORKER_LOAD_RIG_H
#define GM_TEST_SUPPORT_WORKER_LOAD_RIG_H

#include "agent/worker/collective/collective.h"
#include "agent/worker/control/io_events.h"
#include "agent/worker/io/load_private.h"
#include "agent/worker/memory/staging.h"
#include "agent/worker/queue/schedule.h"
#include "tests/support/worker/async_rig.h"

#define PAGE       4096u
#define FILE_PAGES 64u
#define PASSES     4096 /* until nothing gets anywhere, at most */

struct user {
	struct hand_client c;
	struct gm_worker_session *s;
	uint64_t file;
	uint32_t n_ended;
	int32_t status[16];
};

static struct rig r;
static bool is_late;
static int file;
static unsigned read_event; /* of its tag, see events.c */
static struct user users[2];
static uint32_t n_users;
static struct {
	bool is_there;
	int res;
} answers[GM_LOAD_READS_MAX];

static inline char byte_of(uint64_t at)
{
	return (char)(1 + (at / PAGE * 31 + at) % 251);
}

/* ---- who is there -------------------------------------------------------- */

/* The number of a read's event; only this file uses it. */
static inline void learn_event(void)
{
	static char scrap[PAGE];
	struct io_uring_cqe *cqe;

	gm_io_events_read(&r.w, file, scrap, PAGE, 0, 0);
	if (io_uring_submit_and_wait(&r.w.ring, 1) < 0 ||
	    io_uring_peek_cqe(&r.w.ring, &cqe) != 0)
		exit(99);
	read_event = (unsigned)(io_uring_cqe_get_data64(cqe) >> 56);
	io_uring_cqe_seen(&r.w.ring, cqe);
}

static inline struct gm_worker_session *attach_host(struct hand_client *c)
{
	int fds[GM_SESSION_FDS] = { c->queues, c->arena, dup(c->doorbell),
				    dup(c->socket[1]) };
	struct gm_wire wire = hand_attach(c, ROW);
	struct gm_worker_session *s;

	if (gm_session_map(&wire, fds, r.journal, -1, true, &s) < 0 ||
	    gm_run_queue_admit(&r.w, s) < 0)
		exit(99);
	gm_session_take_over(s, c->incarnation);
	r.w.place[s->place] = s;
	gm_run_queue_wake(&r.w, s);
	return s;
}

static inline struct user *join(uint32_t uid)
{
	struct user *u = &users[n_users];
	uint32_t i = n_users++;
	struct gm_wire wire = {
		.type = GM_WIRE_REGISTER,
		.handle = gm_handle_make(1, GM_BUFFER_FILE, ROW, 0),
	};

	memset(u, 0, sizeof(*u));
	hand_open(&u->c, i + 1, i, ROW, 32, FILE_PAGES * PAGE);
	u->c.uid = uid;
	u->s = is_late ? rig_attach(&r, &u->c) : attach_host(&u->c);
	wire.session = u->c.id;
	wire.place = u->c.place;
	gm_async_ops_register(&r.w, &wire, dup(file));
	EQ(rig_hear(&r, &wire, 10000), GM_WIRE_REGISTERED);
	u->file = wire.handle;
	/* The queue is shared, but no code here writes it. */
	gm_buffers_find(&u->s->buffers, u->file)->is_memory = false;
	return u;
}

static inline struct user *open_row(uint32_t depth)
{
	const char *why;

	rig_open(&r, MIB, 3);
	if (!is_late)
		r.w.dev = r.late.host;
	gm_load_init(&r.w.loader, depth, PAGE);
	gm_collective_init(&r.w);
	if (gm_uring_open(&r.w.ring, &why) < 0)
		exit(99);
	memset(answers, 0, sizeof(answers));
	n_users = 0;
	learn_event();
	return join(1);
}

/* ---- entries ------------------------------------------------------------- */

/* Pages of the file, to pages of the arena. */
static inline struct gm_entry load_of(const struct user *u, uint64_t from,
				      uint64_t n, uint64_t to)
{
	return (struct gm_entry){ .op = GPUMAP_OP_LOAD,
				  .dtype = GPUMAP_DTYPE_U8,
				  .incarnation = u->c.incarnation,
				  .src_buffer = u->file,
				  .src = from * PAGE,
				  .dst = to * PAGE,
				  .n = n * PAGE };
}

static inline void submit(struct user *u, const struct gm_entry *entries,
			  uint32_t n)
{
	hand_submit(&u->c, entries, n);
	gm_run_queue_wake(&r.w, u->s);
}

static inline void take(struct user *u)
{
	uint32_t pos;
	int32_t status;

	while (hand_take(&u->c, &pos, &status)) {
		if (EQ(pos, u->n_ended))
			u->status[u->n_ended++] = status;
	}
}

static inline bool has(const struct user *u, uint64_t from, uint64_t n,
		       uint64_t to)
{
	for (uint64_t i = 0; i < n * PAGE; i++) {
		if (u->c.memory[to * PAGE + i] == byte_of(from * PAGE + i))
			continue;
		NOTE("byte %llu from page %llu on is wrong",
		     (unsigned long long)i, (unsigned long long)to);
		return false;
	}
	return true;
}

static inline bool is_untouched(const struct user *u, uint64_t at, uint64_t n)
{
	for (uint64_t i = at * PAGE; i < (at + n) * PAGE; i++)
		if (u->c.memory[i] != 0)
			return false;
	return true;
}

/* ---- passes, as the loop does them --------------------------------------- */

static inline bool pass_once(void)
{
	bool worked = gm_pass(&r.w, is_late);

	if (r.w.loader.n_loads)
		worked |= gm_load_pass(&r.w);
	if (r.w.slow.n) {
		rig_slow(&r);
		worked = true;
	}
	if (is_late && r.late.n_landed < r.late.n_started) {
		late_land_all(&r.late);
		gm_async_exec_poll(&r.w);
		worked = true;
	}
	for (uint32_t i = 0; i < n_users; i++)
		take(&users[i]);
	return worked || gm_load_due(&r.w.loader);
}

/* All that may be done before another read ends. */
static inline void go(void)
{
	int n = 0;

	while (n < PASSES && pass_once())
		n++;
	OK(n < PASSES);
}

/* ---- reads --------------------------------------------------------------- */

static inline uint32_t n_in(const struct gm_load *load,
			    enum gm_piece_state state)
{
	const struct gm_piece *piece;
	uint32_t n = 0;

	if (!load)
		return 0;
	TAILQ_FOREACH(piece, &load->pieces, entry)
	n += piece->state == state;
	return n;
}

static inline uint32_t n_reading(const struct gm_load *load)
{
	return n_in(load, GM_PIECE_READING);
}

/* The kernel's result of a read, before it is handled. */
static inline void gather(uint32_t number)
{
	struct io_uring_cqe *cqe;

	while (!answers[number].is_there) {
		uint64_t tag;

		if (io_uring_submit_and_wait(&r.w.ring, 1) < 0 ||
		    io_uring_peek_cqe(&r.w.ring, &cqe) != 0)
			exit(99);
		tag = io_uring_cqe_get_data64(cqe);
		if (tag >> 56 == read_event) {
			answers[(uint32_t)tag].is_there = true;
			answers[(uint32_t)tag].res = cqe->res;
		}
		io_uring_cqe_seen(&r.w.ring, cqe);
	}
}

/* The oldest of a load that is under way ends so; 1: as the kernel says. */
static inline void end_one_as(const struct gm_load *load, int res)
{
	const struct gm_piece *piece;
	uint32_t number;

	TAILQ_FOREACH(piece, &load->pieces, entry)
	{
		if (piece->state == GM_PIECE_READING)
			break;
	}
	if (!piece)
		exit(99);
	number = gm_staging_number(piece);
	gather(number);
	answers[number].is_there = false;
	gm_load_read_ended(&r.w, number, res == 1 ? answers[number].res : res);
}

static inline void end_reads(const struct gm_load *load, uint32_t n)
{
	while (n--)
		end_one_as(load, 1);
	go();
}

static inline const struct gm_load *any_reading(void)
{
	const struct gm_load *load;

	TAILQ_FOREACH(load, &r.w.loader.loads, entry)
	{
		if (n_reading(load))
			break;
	}
	return load;
}

static inline void end_all_reads(void)
{
	const struct gm_load *load;

	while ((load = any_reading()) != NULL)
		end_reads(load, 1);
}

static inline void expect(const struct user *u, const int32_t *status,
			  uint32_t n)
{
	EQ(u->n_ended, n);
	for (uint32_t i = 0; i < n && i < u->n_ended; i++)
		EQ(u->status[i], status[i]);
}

/* ---- the end ------------------------------------------------------------- */

static inline void leave(struct user *u)
{
	late_land_all(&r.late);
	rig_slow(&r);
	gm_run_queue_dismiss(&r.w, u->s);
	r.w.place[u->c.place] = NULL;
	gm_journal_close(u->s->owed);
	u->s->pair = r.w.pair;
	if (u->s->flights)
		gm_async_exec_leave(&r.w, u->s);
	gm_load_leave(&r.w, u->s);
	gm_async_ops_depart(&r.w, u->s);
	while (r.w.loader.n_copies)
		gm_load_land(&r.w);
	gm_async_exec_poll(&r.w);
	rig_slow(&r);
}

static inline void close_row(void)
{
	struct gm_wire wire;

	for (uint32_t i = 0; i < n_users; i++) {
		leave(&users[i]);
		EQ(rig_hear(&r, &wire, 10000), GM_WIRE_DETACHED);
		hand_close(&users[i].c, ROW);
	}
	n_users = 0;
	end_all_reads();
	EQ(r.w.loader.n_loads, 0);
	EQ(r.w.loader.n_asked, 0);
	EQ(r.w.loader.n_used, 0);
	EQ(r.w.loader.n_ahead, 0);
	EQ(r.w.loader.n_late, 0);
	gm_staging_drop(&r.w);
	rig_slow(&r);
	io_uring_queue_exit(&r.w.ring);
	rig_close(&r);
}

#endif
