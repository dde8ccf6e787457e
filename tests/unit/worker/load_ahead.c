/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* load: what is read ahead of LOADs, whatever becomes of them. */

#include "tests/support/worker/load_rig.h"

/* ---- stories ------------------------------------------------------------- */

/* Two LOADs of four pages, all reads of the first are begun, and some of them
 * have ended: the second is read ahead. */
static struct user *open_two(uint32_t n_ended)
{
	struct user *u = open_row(4);
	const struct gm_entry e[2] = { load_of(u, 0, 4, 0),
				       load_of(u, 8, 4, 8) };

	submit(u, e, 2);
	go();
	EQ(n_reading(u->s->load), 4);
	OK(!u->s->ahead);
	end_reads(u->s->load, n_ended);
	EQ(n_reading(u->s->load), 4 - n_ended);
	return u;
}

/* Reads of the next begin while the last of the one before are under way, and
 * nothing of it is copied until that has ended. */
static void the_next_is_read_while_the_last_drains(void)
{
	struct user *u = open_two(1);

	EQ(n_reading(u->s->ahead), 1);
	end_reads(u->s->load, 1);
	EQ(n_reading(u->s->ahead), 2);
	/* No more than half of the depth is its. */
	end_reads(u->s->load, 1);
	EQ(n_reading(u->s->ahead), 2);
	EQ(r.w.loader.n_ahead, 2);
	end_reads(u->s->ahead, 2);
	EQ(n_in(u->s->ahead, GM_PIECE_READY), 2);
	EQ(u->n_ended, 0);
	OK(is_untouched(u, 8, 4));
	end_reads(u->s->load, 1);
	expect(u, (int32_t[]){ 0 }, 1);
	OK(has(u, 0, 4, 0));
	OK(has(u, 8, 2, 8));
	OK(!u->s->ahead);
	EQ(r.w.loader.n_ahead, 0);
	EQ(n_reading(u->s->load), 2);
	EQ(u->s->load->copied, 2 * PAGE);
	end_reads(u->s->load, 2);
	expect(u, (int32_t[]){ 0, 0 }, 2);
	OK(has(u, 8, 4, 8));
	close_row();
}

/* Whichever is read first: memory has what it has when one comes after the
 * other, and so does who reads it behind them. */
static void memory_sees_one_after_the_other(void)
{
	struct user *u = open_row(8);
	struct gm_entry e[4] = { load_of(u, 0, 4, 0), load_of(u, 8, 4, 2),
				 load_of(u, 16, 1, 5),
				 hand_copy(&u->c, 8 * PAGE, 0, 6 * PAGE) };

	submit(u, e, 4);
	go();
	EQ(n_reading(u->s->load), 4);
	if (!OK(u->s->ahead))
		return;
	EQ(n_reading(u->s->ahead), 4);
	end_reads(u->s->ahead, 4);
	OK(is_untouched(u, 0, 16));
	end_all_reads();
	expect(u, (int32_t[]){ 0, 0, 0, 0 }, 4);
	for (uint64_t to = 0; to < 16; to += 8) {
		OK(has(u, 0, 2, to));
		OK(has(u, 8, 3, to + 2));
		OK(has(u, 16, 1, to + 5));
	}
	close_row();
}

/* Small ones: as many as come to half of the depth. */
static void many_are_read_ahead(void)
{
	struct user *u = open_row(8);
	const struct gm_load *load;
	struct gm_entry e[12];
	uint32_t n = 0;

	for (uint32_t i = 0; i < 12; i++)
		e[i] = load_of(u, i * 3, 1, i);
	submit(u, e, 12);
	go();
	for (load = u->s->ahead; load; load = load->behind)
		n += n_reading(load);
	EQ(n, 4);
	EQ(r.w.loader.n_used, 5);
	/* The last that was begun ends first. */
	for (load = u->s->ahead; load->behind; load = load->behind)
		;
	end_reads(load, 1);
	EQ(u->n_ended, 0);
	end_all_reads();
	expect(u, (int32_t[12]){ 0 }, 12);
	for (uint32_t i = 0; i < 12; i++)
		OK(has(u, i * 3, 1, i));
	close_row();
}

/* An error of a read ahead is not reported: the piece is read again, once, when
 * its entry has begun, and ends with the result of that read. */
static void what_fails_is_read_again(int res, int32_t status)
{
	struct user *u = open_two(2);
	const struct gm_entry third = load_of(u, 16, 1, 16);
	const struct gm_load *first = u->s->load;

	EQ(n_reading(u->s->ahead), 2);
	submit(u, &third, 1);
	end_one_as(u->s->ahead, res);
	go();
	OK(!u->s->ahead);
	/* And one that no entry asks for. */
	EQ(r.w.loader.n_used, 3);
	EQ(u->n_ended, 0);
	end_reads(first, 2);
	expect(u, (int32_t[]){ 0 }, 1);
	EQ(n_reading(u->s->load), 3);
	if (status) {
		end_one_as(u->s->load, res);
		go();
	}
	end_all_reads();
	expect(u, (int32_t[]){ 0, status, 0 }, 3);
	OK(has(u, 0, 4, 0));
	OK(status || has(u, 8, 4, 8));
	OK(has(u, 16, 1, 16));
	close_row();
}

/* Nor is it to fail that it was to be asked again. */
static void what_goes_on_goes_on(int res)
{
	struct user *u = open_two(2);

	end_one_as(u->s->ahead, res);
	EQ(n_reading(u->s->ahead), 2);
	end_reads(u->s->ahead, 2);
	EQ(n_in(u->s->ahead, GM_PIECE_READY), 2);
	end_all_reads();
	expect(u, (int32_t[]){ 0, 0 }, 2);
	OK(has(u, 8, 4, 8));
	close_row();
}

/* One that has another answer in its slot by the time that it begins. */
static void what_another_came_for_is_not_taken(void)
{
	struct user *u = open_two(2);
	const struct gm_entry other = load_of(u, 20, 4, 8);

	OK(u->s->ahead);
	u->c.entries.pos--;
	submit(u, &other, 1);
	end_all_reads();
	expect(u, (int32_t[]){ 0, 0 }, 2);
	OK(has(u, 20, 4, 8));
	close_row();
}

/* A file that is forgotten is read no more, and its entry finds no file. */
static void what_is_forgotten_is_not_read(void)
{
	struct user *u = open_two(1);
	struct gm_wire wire = { .type = GM_WIRE_FORGET,
				.session = u->c.id,
				.place = u->c.place,
				.handle = u->file };

	EQ(n_reading(u->s->ahead), 1);
	gm_async_ops_forget(&r.w, &wire);
	end_reads(u->s->load, 1);
	EQ(n_reading(u->s->ahead), 1);
	end_reads(u->s->ahead, 1);
	OK(!u->s->ahead);
	end_all_reads();
	expect(u, (int32_t[]){ 0, -ESTALE }, 2);
	EQ(rig_hear(&r, &wire, 10000), GM_WIRE_FORGOTTEN);
	EQ(wire.status, 0);
	EQ(r.w.loader.n_used, 0);
	close_row();
}

/* A session that cancels it has its staging back, sooner or later. */
static void what_is_cancelled_is_given_back(void)
{
	struct user *u = open_two(2);
	const struct gm_entry third = load_of(u, 16, 1, 16);

	OK(u->s->ahead);
	gm_put(&u->s->timeline->cancel, gm_cancel_make(2));
	end_all_reads();
	expect(u, (int32_t[]){ 0, -ECANCELED }, 2);
	OK(is_untouched(u, 8, 4));
	r.w.now_ns = hand_now();
	gm_load_tick(&r.w);
	EQ(r.w.loader.n_loads, 0);
	EQ(r.w.loader.n_used, 0);
	submit(u, &third, 1);
	go();
	end_all_reads();
	expect(u, (int32_t[]){ 0, -ECANCELED, 0 }, 3);
	OK(has(u, 16, 1, 16));
	close_row();
}

/* The same for one that is cancelled alone. */
static void what_one_was_cancelled_is_given_back(void)
{
	struct user *u = open_two(2);
	const struct gm_entry third = load_of(u, 16, 1, 16);

	OK(u->s->ahead);
	submit(u, &third, 1);
	gm_entry_cancel(gm_ring_slot(&u->c.entries, 1, GM_ENTRY_WORDS));
	end_all_reads();
	expect(u, (int32_t[]){ 0, -ECANCELED, 0 }, 3);
	OK(is_untouched(u, 8, 4));
	OK(has(u, 16, 1, 16));
	r.w.now_ns = hand_now();
	gm_load_tick(&r.w);
	EQ(r.w.loader.n_loads, 0);
	EQ(r.w.loader.n_used, 0);
	close_row();
}

static void what_is_cancelled_is_not_read_ahead(void)
{
	struct user *u = open_row(8);
	const struct gm_entry e[2] = { load_of(u, 0, 4, 0),
				       load_of(u, 8, 1, 8) };

	submit(u, e, 2);
	gm_entry_cancel(gm_ring_slot(&u->c.entries, 1, GM_ENTRY_WORDS));
	go();
	EQ(n_reading(u->s->load), 4);
	OK(!u->s->ahead);
	end_all_reads();
	expect(u, (int32_t[]){ 0, -ECANCELED }, 2);
	close_row();
}

/* One whose time is over ends, and the next has what was read for it. */
static void the_next_goes_on_when_one_is_over(void)
{
	struct user *u = open_two(2);

	EQ(n_reading(u->s->ahead), 2);
	u->s->load->deadline_ns = 1;
	gm_load_tick(&r.w);
	go();
	expect(u, (int32_t[]){ -ETIME }, 1);
	EQ(n_reading(u->s->load), 2);
	OK(!u->s->ahead);
	end_all_reads();
	expect(u, (int32_t[]){ -ETIME, 0 }, 2);
	OK(has(u, 8, 4, 8));
	close_row();
}

/* A session that leaves waits for no read, and drops the pieces that have
 * come. */
static void who_leaves_takes_it_along(void)
{
	struct user *u = open_two(2);
	struct gm_wire wire;

	end_reads(u->s->ahead, 1);
	EQ(r.w.loader.n_used, 4);
	leave(u);
	EQ(rig_hear(&r, &wire, 10000), GM_WIRE_DETACHED);
	hand_close(&u->c, ROW);
	n_users = 0;
	EQ(r.w.loader.n_used, 3);
	EQ(r.w.loader.n_ahead, 0);
	close_row();
}

/* Others of its uid may have the staging of one whose reads are late. */
static void who_is_late_reads_nothing_ahead(void)
{
	struct user *u = open_two(2);

	end_reads(u->s->ahead, 2);
	EQ(r.w.loader.n_ahead, 2);
	r.w.now_ns = hand_now() + GM_LOAD_LATE_NS + 1;
	gm_load_tick(&r.w);
	EQ(r.w.loader.n_ahead, 0);
	EQ(r.w.loader.n_used, 2);
	EQ(r.w.loader.n_late, 2);
	go();
	OK(!u->s->ahead);
	rig_slow(&r);
	end_all_reads();
	expect(u, (int32_t[]){ 0, 0 }, 2);
	OK(has(u, 8, 4, 8));
	close_row();
}

/* Nor does a session behind one that is, and that no entry asks for. */
static void reads_that_nobody_asks_for_are_late(void)
{
	struct user *u = open_two(2);
	const struct gm_entry third = load_of(u, 16, 1, 16);

	submit(u, &third, 1);
	end_reads(u->s->ahead, 2);
	r.w.now_ns = hand_now() + GM_LOAD_LATE_NS + 1;
	gm_load_tick(&r.w);
	EQ(r.w.loader.n_late, 2);
	u->s->load->deadline_ns = 1;
	gm_load_tick(&r.w);
	go();
	expect(u, (int32_t[]){ -ETIME }, 1);
	while (n_reading(u->s->load)) {
		OK(!u->s->ahead);
		end_reads(u->s->load, 1);
	}
	end_all_reads();
	expect(u, (int32_t[]){ -ETIME, 0, 0 }, 3);
	OK(has(u, 8, 4, 8));
	close_row();
}

/* A new session finds staging, and as long as it asks no session reads
 * ahead. */
static void who_comes_finds_staging(uint32_t uid)
{
	struct user *u = open_two(3), *other;
	struct gm_entry e[2] = { load_of(u, 16, 1, 16) };

	EQ(n_reading(u->s->ahead), 2);
	other = join(uid);
	submit(u, e, 1);
	e[0] = load_of(other, 30, 1, 0);
	e[1] = load_of(other, 40, 4, 8);
	submit(other, e, 2);
	go();
	EQ(n_reading(other->s->load), 1);
	OK(!other->s->ahead);
	end_reads(u->s->load, 1);
	expect(u, (int32_t[]){ 0 }, 1);
	OK(!u->s->ahead);
	end_all_reads();
	expect(u, (int32_t[]){ 0, 0, 0 }, 3);
	expect(other, (int32_t[]){ 0, 0 }, 2);
	OK(has(u, 8, 4, 8));
	OK(has(other, 40, 4, 8));
	close_row();
}

/* Pieces that were read ahead cannot be copied yet, and hold up no rounds. */
static void nobody_waits_for_it(void)
{
	struct user *u = open_two(2), *other;
	struct gm_entry e = { .op = GPUMAP_OP_FILL,
			      .dtype = GPUMAP_DTYPE_U8,
			      .n = FILE_PAGES * PAGE };

	end_reads(u->s->ahead, 2);
	EQ(n_in(u->s->ahead, GM_PIECE_READY), 2);
	other = join(2);
	e.incarnation = other->c.incarnation;
	for (uint32_t i = 0; i < 16; i++)
		submit(other, &e, 1);
	go();
	expect(other, (int32_t[16]){ 0 }, 16);
	EQ(n_reading(u->s->load), 2);
	end_all_reads();
	expect(u, (int32_t[]){ 0, 0 }, 2);
	close_row();
}

/* A worker that drains ends what came before, and reads nothing ahead. */
static void who_drains_reads_nothing_ahead(bool finds_late)
{
	struct user *u = open_two(2);
	const struct gm_entry third = load_of(u, 16, 1, 16);

	EQ(n_reading(u->s->ahead), 2);
	submit(u, &third, 1);
	r.w.draining = true;
	u->s->drain = u->c.entries.pos;
	if (finds_late)
		r.w.now_ns = hand_now() + GM_LOAD_LATE_NS + 1;
	gm_load_tick(&r.w);
	go();
	OK(!u->s->ahead);
	if (!finds_late)
		end_reads(u->s->load, 2);
	expect(u, (int32_t[]){ finds_late ? -EIO : 0 }, 1);
	while (n_reading(u->s->load)) {
		OK(!u->s->ahead);
		end_reads(u->s->load, 1);
	}
	end_all_reads();
	expect(u, (int32_t[]){ finds_late ? -EIO : 0, 0, 0 }, 3);
	OK(has(u, 8, 4, 8));
	close_row();
}

/* An entry that is not a LOAD and the very next one waits for its turn. */
static void only_the_very_next_is(const struct gm_entry *e, uint32_t n,
				  const int32_t *status)
{
	struct user *u = users;

	submit(u, e, n);
	go();
	while (u->s->load && n_reading(u->s->load)) {
		OK(!u->s->ahead);
		end_reads(u->s->load, 1);
	}
	end_all_reads();
	expect(u, status, n);
	close_row();
}

static void others_are_not(void)
{
	struct user *u = open_row(4);
	struct gm_entry first = load_of(u, 0, 2, 0), next = load_of(u, 2, 2, 2),
			more;

	only_the_very_next_is((struct gm_entry[]){ first, hand_nop(&u->c),
						   next },
			      3, (int32_t[]){ 0, 0, 0 });
	open_row(4);
	more = next;
	more.flags = GM_ENTRY_MORE;
	only_the_very_next_is(
		(struct gm_entry[]){ first, more, hand_second(hand_now() * 2) },
		3, (int32_t[]){ 0, 0, 0 });
	open_row(4);
	more = first;
	more.flags = GM_ENTRY_MORE;
	only_the_very_next_is(
		(struct gm_entry[]){ more, hand_second(hand_now() * 2), next },
		3, (int32_t[]){ 0, 0, 0 });
	open_row(4);
	more = next;
	more.incarnation++;
	only_the_very_next_is((struct gm_entry[]){ first, more, next }, 3,
			      (int32_t[]){ 0, -EIO, 0 });
	open_row(4);
	more = next;
	more.dst = FILE_PAGES * PAGE;
	only_the_very_next_is((struct gm_entry[]){ first, more, next }, 3,
			      (int32_t[]){ 0, -ERANGE, 0 });
	open_row(1);
	only_the_very_next_is((struct gm_entry[]){ first, next }, 2,
			      (int32_t[]){ 0, 0 });
}

/* A file that is memory may be what the one before writes. */
static void what_is_memory_is_not(void)
{
	struct user *u = open_row(4);
	struct gm_entry e[2] = { load_of(u, 0, 2, 0), load_of(u, 2, 2, 2) };

	gm_buffers_find(&u->s->buffers, u->file)->is_memory = true;
	only_the_very_next_is(e, 2, (int32_t[]){ 0, 0 });
}

static void play(void)
{
	the_next_is_read_while_the_last_drains();
	memory_sees_one_after_the_other();
	many_are_read_ahead();
	what_fails_is_read_again(-EIO, 0);
	what_fails_is_read_again(-EIO, -EREMOTEIO);
	what_fails_is_read_again(-EACCES, -EACCES);
	what_fails_is_read_again(0, -ENODATA);
	what_goes_on_goes_on(-EAGAIN);
	what_goes_on_goes_on(-EINVAL);
	what_goes_on_goes_on(PAGE / 2);
	what_another_came_for_is_not_taken();
	what_is_forgotten_is_not_read();
	what_is_cancelled_is_given_back();
	what_one_was_cancelled_is_given_back();
	what_is_cancelled_is_not_read_ahead();
	the_next_goes_on_when_one_is_over();
	who_leaves_takes_it_along();
	who_is_late_reads_nothing_ahead();
	who_comes_finds_staging(1);
	who_comes_finds_staging(2);
	reads_that_nobody_asks_for_are_late();
	nobody_waits_for_it();
	who_drains_reads_nothing_ahead(false);
	who_drains_reads_nothing_ahead(true);
	others_are_not();
	what_is_memory_is_not();
}

TAP_CASE()
{
	static char page[PAGE];

	EQ(gm_sigbus_init(), 0);
	file = memfd_create("test-file", MFD_CLOEXEC);
	for (uint64_t at = 0; at < FILE_PAGES * PAGE; at += PAGE) {
		for (uint64_t i = 0; i < PAGE; i++)
			page[i] = byte_of(at + i);
		if (pwrite(file, page, PAGE, (off_t)at) != PAGE)
			exit(99);
	}
	play();
	is_late = true;
	play();
	close(file);
	return tap_done();
}
