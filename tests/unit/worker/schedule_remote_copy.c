/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * across: copies between rows are of the rounds of both rows, counted in bytes.
 * The other row's worker, and gpumapd between them, are played here; what the
 * slow thread is handed takes no time.
 */

#include "agent/worker/control/io_events.h"
#include "agent/worker/io/remote_copy.h"
#include "tests/support/worker/schedule_rig.h"

#define OTHER 1u          /* the row that we borrow from, or lend to */
#define BYTES (4 * MIB)   /* of a copy, and of what is lent */
#define TURN  (128 * KIB) /* of who does plain jobs */
#define LANE  4u

/* When it is counted parts of six copies are in hand, which are not. */
#define SERVED (240 * MIB)

struct party {
	bool is_carrier;
	bool is_begun; /* there are fetches */
	bool is_done;  /* and there are no more */
	uint64_t lent;
	uint64_t at; /* of the next piece that is fetched from us */
};

static struct party party[CROWD];
static uint64_t on_hand; /* pieces that the slow thread had at once, at most */

/* ---- devices ------------------------------------------------------------- */

static int heap_alloc(struct gm_backend_device *dev, uint64_t owner,
		      uint64_t bytes, uint32_t flags,
		      struct gm_buffer **ret_buffer)
{
	struct gm_buffer *b = calloc(1, sizeof(*b));

	(void)dev;
	(void)owner;
	b->address = (uintptr_t)calloc(1, bytes);
	b->bytes = bytes;
	b->charged = bytes;
	b->flags = flags;
	*ret_buffer = b;
	return 0;
}

static void heap_free(struct gm_backend_device *dev, struct gm_buffer *buffer)
{
	(void)dev;
	free((void *)(uintptr_t)buffer->address);
	free(buffer);
}

static int heap_fetch(struct gm_backend_device *dev,
		      const struct gm_strides *strides)
{
	(void)dev;
	memcpy(strides->at, (void *)(uintptr_t)strides->address,
	       strides->bytes);
	return 0;
}

static struct gm_backend host_like = { .name = "counting",
				       .run = count_run,
				       .alloc = heap_alloc,
				       .free = heap_free };
static struct gm_backend card_like;

static void open_row(bool is_late)
{
	const char *why;

	rig_open(&r, TURN, 3);
	gm_collective_init(&r.w);
	if (gm_uring_open(&r.w.ring, &why) < 0)
		exit(99);
	on_hand = 0;
	memset(party, 0, sizeof(party));
	if (is_late) {
		card_like = late_backend;
		card_like.alloc = heap_alloc;
		card_like.free = heap_free;
		card_like.fetch = heap_fetch;
		r.late.dev.backend = &card_like;
		r.late.room = LANE;
		return;
	}
	counter.backend = &host_like;
	r.w.dev = &counter;
	r.w.slow.dev = &counter;
}

/* ---- members ------------------------------------------------------------- */

static void join(uint32_t uid, uint64_t bytes, bool is_late)
{
	struct member *m = &crowd[n_crowd];

	if (is_late)
		join_late(m, uid, bytes);
	else
		join_host(m, uid, 32, bytes);
	m->share = TURN;
}

static struct gm_wire about(const struct member *m, enum gm_wire_type type)
{
	return (struct gm_wire){ .type = type,
				 .session = m->c.id,
				 .place = m->c.place };
}

static int stage_file(void)
{
	int fd = memfd_create("test-stage", MFD_CLOEXEC);

	if (fd < 0 || ftruncate(fd, (off_t)GM_STAGE_BYTES) < 0)
		exit(99);
	return fd;
}

static void expect(enum gm_wire_type type)
{
	struct gm_wire wire;

	rig_slow(&r);
	EQ(rig_hear(&r, &wire, 10000), type);
	EQ(wire.status, 0);
}

/* The session copies out of the other row's lent memory, over and over. */
static void join_borrower(uint32_t uid, bool is_late)
{
	uint64_t handle = hand_handle(OTHER, 0);
	struct member *m = &crowd[n_crowd];
	struct gm_wire wire;

	join(uid, 1, is_late);
	wire = about(m, GM_WIRE_BORROW);
	wire.handle = handle;
	wire.buffer.bytes = BYTES;
	wire.buffer.borrower = ROW;
	wire.buffer.stage = 77;
	gm_remote_copy_borrow(&r.w, &wire, stage_file());
	expect(GM_WIRE_BORROWED);
	party[m->c.place].is_carrier = true;
	m->job = hand_copy(&m->c, 0, 0, BYTES);
	m->job.src_buffer = handle;
}

/* Ask for the next piece of what it lends. */
static void fetch_from(struct member *m, uint32_t piece)
{
	struct party *p = &party[m->c.place];
	struct gm_wire wire = about(m, GM_WIRE_FETCH);

	wire.handle = p->lent;
	wire.buffer.at = p->at;
	wire.buffer.bytes = GM_STAGE_PIECE_BYTES;
	wire.buffer.stage_at = piece * GM_STAGE_PIECE_BYTES;
	wire.buffer.borrower = OTHER;
	p->at = (p->at + GM_STAGE_PIECE_BYTES) % BYTES;
	gm_remote_copy_fetch(&r.w, &wire);
}

/* The other row copies out of what it has, all the time. */
static void join_lender(uint32_t uid, bool is_late)
{
	struct member *m = &crowd[n_crowd];
	struct party *p = &party[n_crowd];
	struct gm_entry alloc;
	struct gm_wire wire;

	join(uid, 1, is_late);
	p->is_carrier = true;
	p->lent = hand_handle(ROW, 0);
	alloc = hand_alloc(&m->c, p->lent, BYTES, 0);
	hand_submit(&m->c, &alloc, 1);
	m->owed++;
	for (uint32_t i = 0; i < 4; i++) {
		gm_pass(&r.w, is_late);
		rig_slow(&r);
	}
	wire = about(m, GM_WIRE_LEND);
	wire.handle = p->lent;
	wire.buffer.borrower = OTHER;
	wire.buffer.stage = 78;
	gm_remote_copy_lend(&r.w, &wire, stage_file());
	expect(GM_WIRE_LENT);
}

/* The parts of the other row and of gpumapd. */
static void play_others(void)
{
	struct gm_wire wire;

	while (rig_hear(&r, &wire, 0)) {
		struct member *m = &crowd[wire.place];

		EQ(wire.status, 0);
		if (wire.type == GM_WIRE_FETCH) {
			wire.type = GM_WIRE_FETCHED;
			gm_remote_copy_fetched(&r.w, &wire);
		} else if (wire.type == GM_WIRE_FETCHED) {
			m->bytes += wire.buffer.bytes;
			if (!party[wire.place].is_done)
				fetch_from(m, (uint32_t)(wire.buffer.stage_at /
							 GM_STAGE_PIECE_BYTES));
		}
	}
}

/* ---- passes, as the loop does them --------------------------------------- */

static bool pass_once(bool is_late)
{
	bool worked = gm_pass(&r.w, is_late);

	if (r.w.remote_copies.held)
		worked |= gm_remote_copy_queue_go(&r.w);
	if (r.w.remote_copies.n_in_flight > on_hand)
		on_hand = r.w.remote_copies.n_in_flight;
	if (r.w.slow.n) {
		rig_slow(&r);
		worked = true;
	}
	play_others();
	return worked;
}

static void begin_fetches(struct member *m)
{
	struct party *p = &party[m->c.place];

	for (uint32_t i = 0; !p->is_begun && i < GM_STAGE_PIECES; i++)
		fetch_from(m, i);
	p->is_begun = true;
}

static void feed_all(void)
{
	for (uint32_t i = 0; i < n_crowd; i++) {
		struct member *m = &crowd[i];
		uint64_t before = m->entries;

		if (party[i].lent) {
			begin_fetches(m);
			continue;
		}
		feed(m);
		if (party[i].is_carrier)
			m->bytes += (m->entries - before) * BYTES;
	}
	set_shares();
}

static void others_pass(bool is_late)
{
	uint64_t next = r.late.n_landed + 1;

	feed_all();
	if (!is_late) {
		pass_once(false);
		return;
	}
	gm_async_exec_poll(&r.w);
	for (uint32_t i = 0; i < 64 && pass_once(true); i++)
		;
	late_end(next);
}

static void serve_until(uint64_t bytes, bool is_late)
{
	uint64_t end = hand_now() + 3 * HAND_PATIENCE_NS;

	while (crowd[n_crowd - 1].bytes < bytes && hand_now() < end)
		others_pass(is_late);
	OK(crowd[n_crowd - 1].bytes >= bytes);
	OK(on_hand <= GM_REMOTE_COPY_QUEUE_MOST);
}

static bool have_the_same(void)
{
	uint64_t had[3] = { 0 }, most, least;

	for (uint32_t i = 0; i < n_crowd; i++)
		had[crowd[i].c.uid] += crowd[i].bytes;
	most = had[1] > had[2] ? had[1] : had[2];
	least = had[1] > had[2] ? had[2] : had[1];
	if ((most - least) * 100 <= most * PERCENT)
		return true;
	NOTE("%llu and %llu", (unsigned long long)had[1],
	     (unsigned long long)had[2]);
	return false;
}

/* Pieces may wait, and those that leave do not wait for their round. */
static void close_row(void)
{
	struct gm_wire wire;

	late_land_all(&r.late);
	for (uint32_t i = 0; i < n_crowd; i++) {
		struct gm_worker_session *s = crowd[i].s;

		gm_run_queue_dismiss(&r.w, s);
		r.w.place[i] = NULL;
		gm_journal_close(s->owed);
		s->pair = r.w.pair;
		if (s->flights)
			gm_async_exec_leave(&r.w, s);
		gm_async_ops_depart(&r.w, s);
		gm_async_exec_poll(&r.w);
		rig_slow(&r);
		while (rig_hear(&r, &wire, 10000) &&
		       wire.type != GM_WIRE_DETACHED)
			;
		EQ(wire.type, GM_WIRE_DETACHED);
		hand_close(&crowd[i].c, ROW);
	}
	n_crowd = 0;
	EQ(r.w.remote_copies.n, 0);
	EQ(r.w.remote_copies.n_in_flight, 0);
	io_uring_queue_exit(&r.w.ring);
	rig_close(&r);
	counter.backend = &counting;
}

/* ---- stories ------------------------------------------------------------- */

typedef void (*joins)(uint32_t uid, bool is_late);

/* A user gets no more by copying between more rows at once. */
static void copies_do_not_count(joins join_carrier, bool is_late)
{
	open_row(is_late);
	for (uint32_t i = 0; i < 7; i++)
		join_carrier(i == 6 ? 2 : 1, is_late);
	serve_until(SERVED, is_late);
	OK(have_the_same());
	close_row();
}

/* Beside a user that has other work, they get as much as that user. */
static void copies_have_as_much_as_others(joins join_carrier, bool is_late)
{
	open_row(is_late);
	for (uint32_t i = 0; i < 6; i++)
		join_carrier(1, is_late);
	join(2, MIB, is_late);
	serve_until(SERVED, is_late);
	OK(have_the_same());
	close_row();
}

/* A user that also copies gets no more by it. */
static void copies_are_no_extra(joins join_carrier, bool is_late)
{
	open_row(is_late);
	for (uint32_t i = 0; i < 6; i++)
		join_carrier(1, is_late);
	join(1, MIB, is_late);
	join(2, MIB, is_late);
	serve_until(SERVED, is_late);
	OK(have_the_same());
	close_row();
}

/* Alone, at most two passes are in vain: a piece is two rounds. */
static void who_is_alone_waits_for_nobody(joins join_carrier, bool is_late)
{
	uint32_t idle = 0, most = 0;
	uint64_t before;

	open_row(is_late);
	join_carrier(1, is_late);
	for (uint32_t i = 0; i < 1000 && crowd[0].bytes < 64 * MIB; i++) {
		feed_all();
		before = r.w.remote_copies.carried;
		pass_once(is_late);
		idle = r.w.remote_copies.n &&
				       r.w.remote_copies.carried == before
			       ? idle + 1
			       : 0;
		if (idle > most)
			most = idle;
	}
	OK(crowd[0].bytes >= 64 * MIB);
	OK(most <= 2);
	close_row();
}

/* A buffer that is freed while pieces of it wait is freed behind them. */
static void what_waits_is_copied_before_it_goes(bool is_late)
{
	struct gm_worker_session *s;
	struct gm_entry e;

	open_row(is_late);
	join_lender(1, is_late);
	s = crowd[0].s;
	party[0].is_done = true;
	s->user->deficit.bytes = -(int64_t)(64 * MIB);
	serve_until(GM_STAGE_PIECE_BYTES * GM_STAGE_PIECES, is_late);
	s->user->deficit.bytes = -(int64_t)(64 * MIB);
	s->user->deficit.round = r.w.round;
	for (uint32_t i = 0; i < GM_STAGE_PIECES; i++)
		fetch_from(&crowd[0], i);
	EQ(r.w.remote_copies.n, GM_STAGE_PIECES);
	EQ(r.w.slow.n, 0);
	e = hand_free(&crowd[0].c, party[0].lent);
	hand_submit(&crowd[0].c, &e, 1);
	gm_run_queue_wake(&r.w, s);
	s->user->deficit.bytes = 1; /* for the turn alone */
	gm_pass(&r.w, is_late);
	EQ(r.w.remote_copies.n, 0);
	EQ(r.w.slow.n, GM_STAGE_PIECES + 1);
	rig_slow(&r);
	party[0].is_done = true;
	play_others();
	EQ(crowd[0].bytes, 2 * GM_STAGE_PIECES * GM_STAGE_PIECE_BYTES);
	close_row();
}

/* ---- time ---------------------------------------------------------------- */

#define PIECES ((uint32_t)(BYTES / GM_STAGE_PIECE_BYTES))

/* Begins a copy that has a time, and notes what it asks for. */
static void begin_copy(struct member *m, bool is_late,
		       struct gm_wire ret_asked[PIECES])
{
	struct gm_entry e[2] = { m->job, hand_second(hand_now() * 2) };

	e[0].flags = GM_ENTRY_MORE;
	hand_submit(&m->c, e, 2);
	gm_run_queue_wake(&r.w, m->s);
	for (uint32_t i = 0; i < 4 && !m->s->carry.on; i++) {
		gm_pass(&r.w, is_late);
		r.w.round++;
	}
	for (uint32_t i = 0; i < PIECES; i++)
		EQ(rig_hear(&r, &ret_asked[i], 10000), GM_WIRE_FETCH);
}

static void its_time_is_up(struct member *m)
{
	EQ(m->s->carry.on, true);
	OK(gm_remote_copy_nap(&r.w) > 0);
	m->s->carry.what.deadline_ns = 1;
	gm_remote_copy_poll(&r.w);
}

/* The job has ended so, with its second slot. */
static void expect_end(struct member *m, bool is_late, int status)
{
	const int want[] = { status, 0 };
	uint32_t first = m->c.done.pos;

	r.w.round += 100; /* for the second */
	for (uint32_t i = 0; i < 4; i++)
		gm_pass(&r.w, is_late);
	rig_expect(&m->c, first, want, 2);
	EQ(m->s->carry.on, false);
	EQ(gm_remote_copy_nap(&r.w), 0);
}

/* Pieces that wait for their user's round do not keep a copy from its end. */
static void who_waits_for_his_round_has_his_time(bool is_late)
{
	struct member *m = &crowd[0];
	struct gm_wire asked[PIECES];

	open_row(is_late);
	join_borrower(1, is_late);
	begin_copy(m, is_late, asked);
	m->s->user->deficit.bytes = -(int64_t)(64 * MIB);
	m->s->user->deficit.round = r.w.round;
	for (uint32_t i = 0; i < PIECES; i++) {
		asked[i].type = GM_WIRE_FETCHED;
		gm_remote_copy_fetched(&r.w, &asked[i]);
	}
	EQ(r.w.remote_copies.n, PIECES);
	its_time_is_up(m);
	EQ(r.w.remote_copies.n, 0);
	EQ(r.w.slow.n, 0);
	expect_end(m, is_late, -ETIME);
	close_row();
}

/* Nor does a row that does not answer; but no other session gets the memory
 * that it may be writing to until it has. */
static void who_is_not_answered_has_his_time(bool is_late)
{
	struct gm_wire asked[2][PIECES], wire;
	struct member *m = &crowd[0];

	open_row(is_late);
	join_borrower(1, is_late);
	for (uint32_t k = 0; k < 2; k++) {
		begin_copy(m, is_late, asked[k]);
		its_time_is_up(m);
		expect_end(m, is_late, -ETIME);
	}
	EQ(m->s->carry.away, 0xf);
	hand_submit(&m->c, &m->job, 1);
	gm_run_queue_wake(&r.w, m->s);
	for (uint32_t i = 0; i < 4; i++) {
		gm_pass(&r.w, is_late);
		r.w.round++;
	}
	EQ(m->s->carry.on, true);
	EQ(rig_hear(&r, &wire, 0), 0);
	for (uint32_t k = 0; k < 2 * PIECES; k++) {
		wire = asked[k / PIECES][k % PIECES];
		wire.type = GM_WIRE_FETCHED;
		wire.status = -EIO; /* which no client waits for */
		gm_remote_copy_fetched(&r.w, &wire);
	}
	for (uint32_t i = 0; i < 64 && m->s->carry.on; i++)
		pass_once(is_late);
	EQ(m->s->carry.on, false);
	for (uint32_t i = 0; i < 4; i++)
		gm_pass(&r.w, is_late);
	rig_expect(&m->c, m->c.done.pos, (int[]){ 0 }, 1);
	close_row();
}

static void play(joins join_carrier, bool is_late)
{
	copies_do_not_count(join_carrier, is_late);
	copies_have_as_much_as_others(join_carrier, is_late);
	copies_are_no_extra(join_carrier, is_late);
	who_is_alone_waits_for_nobody(join_carrier, is_late);
}

TAP_CASE()
{
	EQ(gm_sigbus_init(), 0);
	for (int is_late = 0; is_late < 2; is_late++) {
		play(join_lender, is_late);
		play(join_borrower, is_late);
		what_waits_is_copied_before_it_goes(is_late);
		who_waits_for_his_round_has_his_time(is_late);
		who_is_not_answered_has_his_time(is_late);
	}
	return tap_done();
}
