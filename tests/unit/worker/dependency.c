/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* wait: a head that waits for another row, whose worker is this test. */

#include "agent/worker/memory/sigbus.h"
#include "agent/worker/queue/dependency.h"
#include "tests/support/worker/async_rig.h"

#define OTHER 1u /* row */
#define MS    UINT64_C(1000000)

static struct rig r;

struct scene {
	struct hand_client c;
	struct gm_worker_session *s;
	struct gm_timeline *other;
	gm_a64 *bits; /* of those who wait for the other row */
};

static void open_scene(struct scene *v)
{
	struct gm_queue *queue;

	rig_open(&r, 64 * KIB, 4);
	/* The client's memory reaches as far as its last row. */
	hand_open(&v->c, 1, 0, OTHER, 16, MIB);
	queue = v->c.queue;
	v->other = gm_queue_timeline(queue, 16);
	queue = (void *)((char *)v->c.page + gm_queue_at(ROW, 16));
	v->c.queue = queue;
	v->c.entries.slots = gm_queue_entries(queue);
	v->c.done.slots = gm_queue_done(queue, 16);
	v->c.waker.parked = &queue->parked;
	v->s = rig_attach(&r, &v->c);
	v->s->wakeups = &r.w.wakeups;
	v->bits = &r.group_page.awaited[OTHER].by[ROW / 64];
}

static void close_scene(struct scene *v)
{
	struct gm_wire wire;

	gm_dependency_leave(&r.w, v->s);
	late_land_all(&r.late);
	rig_detach(&r, v->s);
	gm_async_exec_poll(&r.w);
	rig_slow(&r);
	while (rig_hear(&r, &wire, 10000) == GM_WIRE_WAKER)
		;
	EQ(wire.type, GM_WIRE_DETACHED);
	hand_close(&v->c, OTHER);
	rig_close(&r);
}

/* The other row has come so far, under this incarnation. */
static void other_is_at(struct scene *v, uint32_t incarnation, uint64_t value)
{
	gm_put_ordered(&v->other->ended,
		       gm_time_make(0, incarnation, value)); /* WAIT.tell */
}

static void submit(struct scene *v, uint64_t until, uint64_t deadline_ns)
{
	struct gm_entry e[2] = { hand_nop(&v->c), hand_second(deadline_ns) };

	e[0].flags = GM_ENTRY_MORE;
	e[1].flags = 1; /* wait */
	e[1].dst = until;
	hand_submit(&v->c, e, 2);
}

/* As the loop does: turns, and what they leave. */
static void serve(struct scene *v)
{
	rig_serve(&r, v->s);
	if (v->s->wait.on)
		gm_dependency_enter(&r.w, v->s);
	rig_serve(&r, v->s);
}

/* The status of the pair that ends next, at @first; 1: it has not. */
static int32_t ended(struct scene *v, uint32_t first)
{
	uint32_t pos = 0, second = 0;
	int32_t status = 1, nothing = 1;

	if (!hand_take(&v->c, &pos, &status) ||
	    !hand_take(&v->c, &second, &nothing))
		return 1;
	return pos == first && second == first + 1 && nothing == 0 ? status : 1;
}

static void a_head_waits_until_it_is_told(void)
{
	uint64_t until = gm_time_make(OTHER, 1, 3), ns;
	struct scene v;

	open_scene(&v);
	other_is_at(&v, 1, 2);
	submit(&v, until, 0);
	serve(&v);
	EQ(ended(&v, 0), 1);
	EQ(v.s->entries.pos, 0); /* it has not been read */
	OK(!v.s->active);
	OK(!gm_async_exec_due(&r.w, v.s));
	EQ(gm_get(v.bits), 1u << ROW);
	/* The worker need not poll for a while, unless woken. */
	OK(gm_dependency_is_due(&r.w, &ns) ||
	   (ns > 0 && ns <= GM_WAIT_LOOK_NS));
	other_is_at(&v, 1, 3);
	gm_put(v.bits, 0);
	gm_dependency_told(&r.w);
	OK(gm_dependency_is_due(&r.w, &ns));
	gm_dependency_look(&r.w);
	OK(v.s->active);
	EQ(r.w.waiting.n, 0);
	serve(&v);
	EQ(ended(&v, 0), 0);
	EQ(v.s->now & (GM_TIME_VALUES - 1), 2);
	close_scene(&v);
}

/* One that is told for nothing does not ask to be told again at once. */
static void who_is_told_for_nothing_takes_its_time(void)
{
	struct scene v;
	uint64_t ns;

	open_scene(&v);
	other_is_at(&v, 1, 0);
	submit(&v, gm_time_make(OTHER, 1, 9), 0);
	serve(&v);
	EQ(gm_get(v.bits), 1u << ROW);
	other_is_at(&v, 1, 1);
	gm_put(v.bits, 0);
	gm_dependency_told(&r.w);
	gm_dependency_look(&r.w); /* asks again: this was the first time */
	gm_put(v.bits, 0);
	r.w.waiting.arm_ns = hand_now() + 1000 * MS;
	r.w.waiting.next_ns = r.w.waiting.arm_ns;
	gm_dependency_told(&r.w);
	gm_dependency_look(&r.w);
	EQ(gm_get(v.bits), 0);
	OK(gm_dependency_is_due(&r.w, &ns) ||
	   (ns > 0 && ns <= GM_WAIT_PACE_NS));
	r.w.waiting.arm_ns = r.w.waiting.next_ns = 0;
	gm_dependency_look(&r.w);
	EQ(gm_get(v.bits), 1u << ROW);
	close_scene(&v);
}

static void it_ends_for_other_reasons(void)
{
	uint64_t until = gm_time_make(OTHER, 1, 9);
	struct scene v;

	open_scene(&v);
	other_is_at(&v, 1, 0);
	submit(&v, until, hand_now() + 20 * MS);
	serve(&v);
	while (!v.s->active) {
		hand_nap();
		gm_dependency_look(&r.w);
	}
	serve(&v);
	EQ(ended(&v, 0), -ETIME);

	submit(&v, until, 0);
	serve(&v);
	gm_put(&v.s->timeline->cancel, gm_cancel_make(v.c.entries.pos));
	OK(gm_dependency_rung(&r.w, v.s));
	serve(&v);
	EQ(ended(&v, 2), -ECANCELED);

	/* One alone, and not the one behind. */
	submit(&v, until, 0);
	serve(&v);
	gm_entry_cancel(gm_ring_slot(&v.c.entries, 4, GM_ENTRY_WORDS));
	submit(&v, until, 0);
	OK(gm_dependency_rung(&r.w, v.s));
	serve(&v);
	EQ(ended(&v, 4), -ECANCELED);

	EQ(ended(&v, 6), 1);
	OK(!gm_dependency_rung(&r.w, v.s));
	other_is_at(&v, GM_TIME_DEAD, 9);
	OK(gm_dependency_rung(&r.w, v.s));
	serve(&v);
	EQ(ended(&v, 6), -EIO);

	/* Another worker has come, and was there before we looked. */
	submit(&v, until, 0);
	other_is_at(&v, 2, 9);
	serve(&v);
	EQ(ended(&v, 8), -EIO);
	close_scene(&v);
}

/* The error of one is reported before the others have come. */
static void nobody_waits_for_what_cannot_be(void)
{
	uint64_t until = gm_time_make(OTHER, 1, 9);
	struct scene v;

	open_scene(&v);
	other_is_at(&v, 1, 0);
	for (uint32_t i = 0; i < 4; i++) {
		uint64_t never = i % 2 ? gm_time_make(OTHER, 2, 1)
				       : gm_time_make(GM_ROWS - 1, 1, 1);
		struct gm_entry e[2] = { hand_nop(&v.c), hand_second(0) };

		e[0].flags = GM_ENTRY_MORE;
		e[1].flags = 2; /* waits */
		e[1].dst = i < 2 ? until : never;
		e[1].src = i < 2 ? never : until;
		hand_submit(&v.c, e, 2);
		serve(&v);
		EQ(ended(&v, 2 * i), i % 2 ? -EIO : -EINVAL);
	}
	close_scene(&v);
}

/* Slices in flight land, whatever the head behind them waits for. */
static void what_is_under_way_goes_on(void)
{
	struct hand_client *c;
	struct gm_entry e;
	struct scene v;
	uint32_t pos = 1;
	int32_t status;

	open_scene(&v);
	c = &v.c;
	other_is_at(&v, 1, 0);
	e = hand_copy(c, 512 * KIB, 0, 1000);
	hand_submit(c, &e, 1);
	submit(&v, gm_time_make(OTHER, 1, 1), 0);
	serve(&v);
	EQ(r.late.n_started, 1);
	OK(v.s->wait.on);
	OK(v.s->active);
	gm_run_queue_park(&r.w, v.s);
	OK(!v.s->active);
	late_land(&r.late, 1);
	gm_async_exec_poll(&r.w);
	OK(v.s->active);
	serve(&v);
	OK(hand_take(c, &pos, &status));
	EQ(pos, 0);
	OK(v.s->wait.on);
	other_is_at(&v, 1, 1);
	OK(gm_dependency_rung(&r.w, v.s));
	serve(&v);
	EQ(ended(&v, 1), 0);
	close_scene(&v);
}

/* A worker that ends an entry wakes those that wait, or asks for their
 * eventfd. */
static void who_waits_is_woken(void)
{
	int waker = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	struct gm_entry e;
	struct gm_wire wire;
	struct scene v;
	uint64_t told = 0, ns;

	open_scene(&v);
	gm_put(&r.group_page.awaited[ROW].by[1], UINT64_C(1) << 6); /* row 70 */
	e = hand_nop(&v.c);
	hand_submit(&v.c, &e, 1);
	serve(&v);
	EQ(gm_get(&r.group_page.awaited[ROW].by[1]), 0);
	OK(r.w.wakeups.owes);
	OK(!gm_dependency_is_due(&r.w, &ns));
	EQ(rig_hear(&r, &wire, 10000), GM_WIRE_WAKER);
	EQ(wire.place, 70);
	OK(!gm_dependency_is_due(&r.w, &ns)); /* once */
	EQ(rig_hear(&r, &wire, 0), 0);
	gm_dependency_waker(&r.w, 70, dup(waker));
	OK(!r.w.wakeups.owes);
	EQ(read(waker, &told, sizeof(told)), 8);
	EQ(told, 1);
	/* From now on at once. */
	gm_put(&r.group_page.awaited[ROW].by[1], UINT64_C(1) << 6);
	hand_submit(&v.c, &e, 1);
	serve(&v);
	EQ(read(waker, &told, sizeof(told)), 8);
	gm_dependency_waker(&r.w, 70, dup(waker)); /* a second is closed */
	gm_dependency_waker(&r.w, 700, dup(waker));
	hand_submit(&v.c, &e, 1);
	serve(&v);
	EQ(read(waker, &told, sizeof(told)), -1);
	close(r.w.wakeups.waker[70]);
	close(waker);
	close_scene(&v);
}

static void a_drain_waits_for_a_while(void)
{
	struct scene v;

	open_scene(&v);
	other_is_at(&v, 1, 0);
	r.w.waiting.drain_ns = gm_worker_drain_now(&r.w) + 1000 * 1000 * MS;
	OK(!gm_dependency_holds(&r.w));
	submit(&v, gm_time_make(OTHER, 1, 1), 0);
	serve(&v);
	OK(gm_dependency_holds(&r.w));
	/* The machine stands still for an hour: the limit has not passed. */
	gm_node_clock_offset -= 3600 * 1000 * MS;
	OK(gm_dependency_holds(&r.w));
	/* A sleep that was announced counts. */
	r.w.waiting.drain_ns = gm_worker_drain_now(&r.w) + 500 * MS;
	gm_running_clock_sleep(&r.w.drain_clock, 1000 * MS);
	gm_node_clock_offset -= 1000 * MS;
	OK(!gm_dependency_holds(&r.w));
	gm_node_clock_offset = 0;
	close_scene(&v);
}

TAP_CASE()
{
	EQ(gm_sigbus_init(), 0);
	a_head_waits_until_it_is_told();
	who_is_told_for_nothing_takes_its_time();
	it_ends_for_other_reasons();
	nobody_waits_for_what_cannot_be();
	what_is_under_way_goes_on();
	who_waits_is_woken();
	a_drain_waits_for_a_while();
	return tap_done();
}
