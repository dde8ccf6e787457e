/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * load: bytes of LOADs count in the rounds as those of all jobs do, on a device
 * that only counts and on one that is late.  Reads take no time here: a session
 * that has staging has its bytes at the next pass.
 */

#include "agent/worker/control/io_events.h"
#include "agent/worker/io/load_private.h"
#include "agent/worker/memory/staging.h"
#include "tests/support/worker/schedule_rig.h"

#define FILE_BYTES (4 * MIB)
#define LANE       4u /* slices under way */
#define TURN       (128 * KIB)

static int file;

/* ---- members ------------------------------------------------------------- */

static void open_loader(uint32_t depth)
{
	const char *why;

	gm_load_init(&r.w.loader, depth, 0);
	gm_collective_init(&r.w);
	if (gm_uring_open(&r.w.ring, &why) < 0)
		exit(99);
}

static void join(struct member *m, uint32_t uid, uint64_t bytes, bool is_late)
{
	if (is_late)
		join_late(m, uid, bytes);
	else
		join_host(m, uid, 32, bytes);
	m->share = TURN;
}

/* The session does LOADs of @bytes each. */
static void join_loader(struct member *m, uint32_t uid, uint64_t bytes,
			bool is_late)
{
	struct gm_wire wire = {
		.type = GM_WIRE_REGISTER,
		.handle = gm_handle_make(1, GM_BUFFER_FILE, ROW, 0),
	};

	join(m, uid, 0, is_late);
	wire.session = m->c.id;
	wire.place = m->c.place;
	gm_async_ops_register(&r.w, &wire, dup(file));
	EQ(rig_hear(&r, &wire, 10000), GM_WIRE_REGISTERED);
	EQ(wire.status, 0);
	m->job = (struct gm_entry){ .op = GPUMAP_OP_LOAD,
				    .dtype = GPUMAP_DTYPE_U8,
				    .incarnation = m->c.incarnation,
				    .src_buffer = wire.handle,
				    .n = bytes };
}

static uint32_t n_in(enum gm_piece_state state)
{
	const struct gm_piece *piece;
	const struct gm_load *load;
	uint32_t n = 0;

	TAILQ_FOREACH(load, &r.w.loader.loads, entry)
	TAILQ_FOREACH(piece, &load->pieces, entry)
	n += piece->state == state;
	return n;
}

/* May anything be copied?  Not of what is read ahead. */
static bool is_ready(void)
{
	const struct gm_piece *piece;
	const struct gm_load *load;

	TAILQ_FOREACH(load, &r.w.loader.loads, entry)
	TAILQ_FOREACH(piece, &load->pieces, entry)
	{
		if (piece->state == GM_PIECE_READY && !load->is_ahead)
			return true;
	}
	return false;
}

/* All that were begun. */
static void end_reads(void)
{
	uint64_t end = hand_now() + HAND_PATIENCE_NS;

	while (n_in(GM_PIECE_READING))
		if (hand_now() < end)
			gm_io_events_handle(&r.w);
		else
			exit(99);
}

static void close_loader(void)
{
	struct gm_wire wire;

	end_reads();
	for (uint32_t i = 0; i < n_crowd; i++) {
		struct gm_worker_session *s = crowd[i].s;

		late_land_all(&r.late);
		rig_slow(&r);
		gm_run_queue_dismiss(&r.w, s);
		r.w.place[i] = NULL;
		gm_journal_close(s->owed);
		s->pair = r.w.pair;
		if (s->flights)
			gm_async_exec_leave(&r.w, s);
		gm_load_leave(&r.w, s);
		gm_async_ops_depart(&r.w, s);
		while (r.w.loader.n_copies)
			gm_load_land(&r.w);
		gm_async_exec_poll(&r.w);
		rig_slow(&r);
		EQ(rig_hear(&r, &wire, 10000), GM_WIRE_DETACHED);
		hand_close(&crowd[i].c, ROW);
	}
	n_crowd = 0;
	EQ(r.w.loader.n_loads, 0);
	EQ(r.w.loader.n_used, 0);
	gm_staging_drop(&r.w);
	rig_slow(&r);
	io_uring_queue_exit(&r.w.ring);
	rig_close(&r);
}

/* ---- passes, as the loop does them --------------------------------------- */

static bool pass_once(bool is_late)
{
	bool worked = gm_pass(&r.w, is_late);

	if (r.w.loader.n_loads)
		worked |= gm_load_pass(&r.w);
	if (r.w.slow.n)
		rig_slow(&r);
	end_reads();
	return worked;
}

static void host_loads_pass(void)
{
	for (uint32_t i = 0; i < n_crowd; i++)
		feed(&crowd[i]);
	set_shares();
	pass_once(false);
}

/* Until nothing gets anywhere, and then the device ends what it began first.
 * Returns whether anything was under way. */
static bool late_loads_pass(void)
{
	uint64_t next = r.late.n_landed + 1;

	for (uint32_t i = 0; i < n_crowd; i++)
		feed(&crowd[i]);
	set_shares();
	gm_async_exec_poll(&r.w);
	while (pass_once(true))
		;
	return late_end(next);
}

static void open_row(bool is_late, uint32_t depth)
{
	if (is_late) {
		rig_open(&r, TURN, 3);
		r.late.room = LANE;
	} else {
		open_host();
	}
	open_loader(depth);
}

/* Until the last of them has had @bytes. */
static void serve_until(uint64_t bytes, bool is_late)
{
	uint32_t idle = 0;

	while (crowd[n_crowd - 1].bytes < bytes && idle < 1000) {
		if (is_late)
			idle += !late_loads_pass();
		else
			host_loads_pass();
	}
	OK(idle < 1000);
}

static uint64_t bytes_by(uint32_t uid)
{
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < n_crowd; i++)
		if (crowd[i].c.uid == uid)
			bytes += crowd[i].bytes;
	return bytes;
}

static bool have_the_same(void)
{
	uint64_t a = bytes_by(1), b = bytes_by(2);
	uint64_t most = a > b ? a : b, least = a > b ? b : a;

	if ((most - least) * 100 <= most * PERCENT)
		return true;
	NOTE("%llu and %llu", (unsigned long long)a, (unsigned long long)b);
	return false;
}

/* ---- stories ------------------------------------------------------------- */

/* How many are loaded at once gets a user no more of the row. */
static void loads_do_not_count(bool is_late, uint32_t depth)
{
	open_row(is_late, depth);
	for (uint32_t i = 0; i < 7; i++)
		join_loader(&crowd[i], i == 6 ? 2 : 1,
			    i % 2 ? FILE_BYTES : MIB + 5, is_late);
	serve_until(40 * MIB, is_late);
	OK(have_the_same());
	close_loader();
}

/* Beside a user whose turns are of @turn, loaders get as much as that user. */
static void loads_have_as_much_as_others(bool is_late, uint32_t loaders,
					 uint64_t turn)
{
	open_row(is_late, 0);
	for (uint32_t i = 0; i < loaders; i++)
		join_loader(&crowd[i], 1, FILE_BYTES, is_late);
	join(&crowd[loaders], 2, MIB, is_late);
	crowd[loaders].share = turn;
	serve_until(40 * MIB, is_late);
	OK(have_the_same());
	close_loader();
}

/* A user that also loads gets no more by it. */
static void loads_are_no_extra(bool is_late)
{
	open_row(is_late, 0);
	for (uint32_t i = 0; i < 6; i++)
		join_loader(&crowd[i], 1, FILE_BYTES, is_late);
	join(&crowd[6], 1, 300 * KIB, is_late);
	join(&crowd[7], 2, 300 * KIB, is_late);
	serve_until(40 * MIB, is_late);
	OK(have_the_same());
	close_loader();
}

/* A session that loads alone asks for more, and the device ends its first
 * copies first.  Returns whether the pass has got anywhere. */
static bool pass_alone(bool is_late)
{
	uint64_t before = crowd[0].bytes + r.late.n_started;

	feed(&crowd[0]);
	set_shares();
	pass_once(is_late);
	if (is_late && r.late.n_landed < r.late.n_started)
		late_land(&r.late, r.late.n_landed + 1);
	return crowd[0].bytes + r.late.n_started != before;
}

/* Alone, no pass is in vain: where one has copied nothing a round was over, and
 * the next one does. */
static void who_is_alone_waits_for_nobody(bool is_late, uint32_t depth)
{
	uint32_t idle = 0, in_a_row = 0;

	open_row(is_late, depth);
	join_loader(&crowd[0], 1, FILE_BYTES, is_late);
	for (uint32_t i = 0; i < 4096 && crowd[0].entries < 8; i++) {
		if (pass_alone(is_late))
			in_a_row = 0;
		else if (is_ready() && !r.w.n_in_flight)
			in_a_row++;
		if (in_a_row > idle)
			idle = in_a_row;
	}
	OK(crowd[0].entries >= 8);
	OK(idle <= 1);
	close_loader();
}

/* Storage goes on reading while what it has read is copied: of the staging that
 * a load has filled once, no more than one place is empty, until the end. */
static void copies_do_not_hold_reads_up(void)
{
	const struct gm_load *load, *full = NULL;
	uint32_t low = 0, n = 0;

	open_row(false, 4);
	join_loader(&crowd[0], 1, FILE_BYTES, false);
	crowd[0].share = 16 * KIB;
	for (uint32_t i = 0; i < 4096 && crowd[0].entries < 8; i++) {
		feed(&crowd[0]);
		set_shares();
		gm_pass(&r.w, false);
		gm_load_pass(&r.w);
		rig_slow(&r);
		load = crowd[0].s->load;
		if (!load || !load->cut.left)
			full = NULL;
		else if (r.w.loader.n_used >= 3)
			full = load;
		else if (full == load)
			low++;
		n += full != NULL;
		end_reads();
	}
	OK(n > 0);
	EQ(low, 0);
	close_loader();
}

/* Late is a read that gets no answer, not one that gets many short ones. */
static void short_answers_are_answers(void)
{
	struct io_uring_cqe *cqe;

	open_row(false, 1);
	join_loader(&crowd[0], 1, MIB, false);
	feed(&crowd[0]);
	set_shares();
	for (uint32_t i = 0; i < 16 && n_in(GM_PIECE_READING) == 0; i++) {
		gm_pass(&r.w, false);
		gm_load_pass(&r.w);
		rig_slow(&r);
	}
	EQ(n_in(GM_PIECE_READING), 1);
	r.w.now_ns = hand_now();
	for (uint32_t i = 0; i < 4; i++) {
		if (io_uring_wait_cqe(&r.w.ring, &cqe) != 0)
			exit(99);
		EQ(cqe->res, 512 * KIB - i * 4 * KIB);
		cqe->res = 4 * KIB;
		r.w.now_ns += GM_LOAD_LATE_NS / 2 + 1;
		gm_io_events_handle(&r.w);
		EQ(n_in(GM_PIECE_READING), 1);
		gm_load_tick(&r.w);
		EQ(r.w.loader.n_late, 0);
	}
	close_loader();
}

/* Their bytes are counted as turns are, by which the clock is read. */
static void the_clock_is_read_beside_loads(bool is_late)
{
	uint32_t n = 0;

	open_row(is_late, 0);
	join_loader(&crowd[0], 1, FILE_BYTES, is_late);
	for (uint32_t i = 0; i < 4096 && crowd[0].entries < 8; i++)
		n += pass_alone(is_late);
	OK(n > GM_BUSY_TURNS);
	OK(r.w.busy >= n);
	close_loader();
}

/* Beside one whose round is over by far, who is parked while the device has
 * something of it is told at the end of a round, not of all of them. */
static void a_round_ends_with_what_the_device_has_ended(void)
{
	struct member *loader = &crowd[0], *other = &crowd[1];
	struct gm_deficit *deficit;
	int32_t status = 1;
	uint32_t pos, first;

	open_row(true, 0);
	join_loader(loader, 1, FILE_BYTES, true);
	join(other, 2, 64 * KIB, true);
	hand_submit(&loader->c, &loader->job, 1);
	loader->owed++;
	for (uint32_t i = 0; i < 64 && !r.w.n_in_flight; i++)
		pass_once(true);
	late_land_all(&r.late);
	while (r.w.loader.n_copies)
		gm_load_land(&r.w);
	OK(n_in(GM_PIECE_READY) > 0);
	hand_submit(&other->c, &other->job, 1);
	gm_run_queue_wake(&r.w, other->s);
	r.w.round++; /* the user's first */
	gm_pass(&r.w, true);
	rig_slow(&r); /* it is reached */
	gm_pass(&r.w, true);
	EQ(r.w.n_in_flight, 1);
	gm_run_queue_park(&r.w, other->s);
	late_land_all(&r.late);
	deficit = &loader->s->user->deficit;
	gm_deficit_left(deficit, r.w.round);
	deficit->bytes = -(int64_t)(64 * MIB);
	r.w.loader.held = true;
	first = r.w.round;
	for (uint32_t i = 0; i < 8; i++)
		pass_once(true);
	OK(r.w.round - first < 8);
	EQ(hand_take(&other->c, &pos, &status), 1);
	EQ(status, 0);
	deficit->bytes = 1;
	close_loader();
}

/* Nor is a LOAD without its time while staging is being made. */
static void a_deadline_holds_before_there_is_staging(bool is_late)
{
	struct member *m = &crowd[0];
	struct gm_entry e[2];
	uint32_t pos = 1;
	int32_t status = 1;

	open_row(is_late, 0);
	join_loader(m, 1, FILE_BYTES, is_late);
	e[0] = m->job;
	e[0].flags = GM_ENTRY_MORE;
	e[1] = hand_second(hand_now() * 2);
	hand_submit(&m->c, e, 2);
	gm_run_queue_wake(&r.w, m->s);
	for (uint32_t i = 0; i < 4; i++) {
		gm_pass(&r.w, is_late);
		if (!m->s->load)
			rig_slow(&r); /* it is reached */
	}
	if (OK(m->s->load)) {
		gm_load_pass(&r.w);
		EQ(r.w.loader.n_chunks, 0);
		OK(gm_load_wants_clock(&r.w.loader));
		EQ(gm_load_nap(&r.w), GM_LOAD_NAP_NS);
		m->s->load->deadline_ns = hand_now() + GM_LOAD_NAP_NS / 2;
		OK(gm_load_nap(&r.w) <= GM_LOAD_NAP_NS / 2);
		m->s->load->deadline_ns = 1;
		EQ(gm_load_nap(&r.w), 1);
		gm_load_tick(&r.w);
		EQ(r.w.loader.n_loads, 0);
	}
	gm_pass(&r.w, is_late);
	EQ(hand_take(&m->c, &pos, &status), 1);
	EQ(pos, 0);
	EQ(status, -ETIME);
	rig_slow(&r);
	close_loader();
}

/* One whose reads never end costs another nothing, and it takes many of them to
 * leave the next none. */
static void who_is_stuck_takes_no_part(uint32_t depth)
{
	struct gm_loader *l = &r.w.loader;
	struct gm_reader *reader;
	uint32_t n;

	open_row(false, depth);
	for (n = 0; n < 64; n++) {
		reader = calloc(1, sizeof(*reader));
		if (!reader)
			exit(99);
		reader->uid = n;
		reader->n_loads = reader->n_asked = 1;
		LIST_INSERT_HEAD(&l->readers, reader, entry);
		reader->n_pieces = gm_load_share(&r.w);
		if (n < 2)
			EQ(reader->n_pieces, depth);
		if (reader->n_pieces > depth * GM_LOAD_CHUNKS - l->n_late)
			break;
		reader->n_late = reader->n_pieces;
		reader->n_asked = 0;
		l->n_late += reader->n_late;
	}
	OK(n >= 2 * GM_LOAD_CHUNKS);
	gm_load_forget_readers(l);
	l->n_late = 0;
	close_loader();
}

static void play(bool is_late)
{
	static const uint32_t depths[] = { 0, 1, 2, 64 };

	for (uint32_t i = 0; i < 4; i++) {
		loads_do_not_count(is_late, depths[i]);
		who_is_alone_waits_for_nobody(is_late, depths[i]);
	}
	loads_have_as_much_as_others(is_late, 1, TURN);
	loads_have_as_much_as_others(is_late, 6, TURN);
	loads_have_as_much_as_others(is_late, 6, MIB);
	loads_are_no_extra(is_late);
	the_clock_is_read_beside_loads(is_late);
	a_deadline_holds_before_there_is_staging(is_late);
}

/* kernel-limit is about the device: a slow file is no reason to end a worker,
 * and hides no copy that hangs. */
static void only_copies_are_in_flight(void)
{
	struct gm_piece reading = { .state = GM_PIECE_READING, .since_ns = 10 };
	struct gm_piece ready = { .state = GM_PIECE_READY, .since_ns = 20 };
	struct gm_piece old = { .state = GM_PIECE_COPYING, .since_ns = 30 };
	struct gm_piece young = { .state = GM_PIECE_COPYING, .since_ns = 40 };
	struct gm_load load = { .n_copies = 2 };
	struct gm_loader loader;

	gm_load_init(&loader, 0, 0);
	TAILQ_INIT(&load.pieces);
	TAILQ_INSERT_TAIL(&loader.loads, &load, entry);
	TAILQ_INSERT_TAIL(&load.pieces, &reading, entry);
	TAILQ_INSERT_TAIL(&load.pieces, &young, entry);
	TAILQ_INSERT_TAIL(&load.pieces, &ready, entry);
	EQ(gm_load_oldest_ns(&loader), 0);
	loader.n_copies = 1;
	EQ(gm_load_oldest_ns(&loader), 40);
	TAILQ_INSERT_TAIL(&load.pieces, &old, entry);
	loader.n_copies = 2;
	EQ(gm_load_oldest_ns(&loader), 30);
}

TAP_CASE()
{
	only_copies_are_in_flight();
	EQ(gm_sigbus_init(), 0);
	file = memfd_create("test-file", MFD_CLOEXEC);
	if (file < 0 || ftruncate(file, FILE_BYTES) < 0)
		exit(99);
	play(false);
	play(true);
	a_round_ends_with_what_the_device_has_ended();
	short_answers_are_answers();
	copies_do_not_hold_reads_up();
	who_is_stuck_takes_no_part(4);
	who_is_stuck_takes_no_part(16);
	close(file);
	return tap_done();
}
