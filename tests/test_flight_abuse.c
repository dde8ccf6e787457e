/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * flight: bells for nothing, as the worker hears of them.
 */

#include "agent/worker/events.h"
#include "tests/flight_rig.h"

static struct rig r;

/* Returns false, with nothing left open, where this kernel has no ring. */
static bool begin(uint64_t slice_bytes, uint32_t slices)
{
	const char *why;

	rig_open(&r, slice_bytes, slices);
	if (gm_uring_open(&r.w.ring, &why) == 0) {
		gm_events_start(&r.w);
		return true;
	}
	rig_close(&r);
	SKIP(1, why);
	return false;
}

static void finish(void)
{
	io_uring_queue_exit(&r.w.ring);
	rig_close(&r);
}

static struct gm_session *attach(struct hand_client *c)
{
	struct gm_wire wire;

	hand_open(c, 1, 0, ROW, 16, MIB);
	rig_tell_attach(&r, c);
	gm_events_handle(&r.w);
	EQ(rig_hear(&r, &wire, 10000), GM_WIRE_ATTACHED);
	EQ(wire.status, 0);
	return r.w.place[c->place];
}

/* Ring, and have it heard, as often as it takes. */
static bool goes_deaf(struct hand_client *c, const struct gm_session *s)
{
	uint64_t end = hand_now() + HAND_PATIENCE_NS;

	while (!s->flood.deaf && hand_now() < end) {
		hand_ring(c);
		gm_events_handle(&r.w);
	}
	return s->flood.deaf;
}

/* ---- bells ------------------------------------------------------------- */

/* Whose slices are under way, and whose ring holds more. */
static void bells_of_a_full_session_are_counted(void)
{
	static const int well[3];
	struct gm_session *s;
	struct hand_client c;
	struct gm_entry e[3];

	if (!begin(64 * KIB, 1))
		return;
	s = attach(&c);
	for (int i = 0; i < 3; i++)
		e[i] = hand_copy(&c, 0, 512 * KIB, 64);
	hand_submit(&c, e, 3);
	gm_roster_wake(&r.w, s);
	rig_serve(&r, s);
	OK(gm_roster_park(&r.w, s));
	OK(goes_deaf(&c, s));
	OK(!s->active); /* and costs no turns */
	gm_events_look(&r.w);
	OK(!s->active);
	/* It is served all the same. */
	for (int i = 0; i < 3; i++) {
		late_land_all(&r.late);
		gm_flight_look(&r.w);
		rig_serve(&r, s);
	}
	rig_expect(&c, 0, well, 3);
	rig_end(&r, &c, s);
	finish();
}

/* Whose entry is an allocation that takes its time. */
static void bells_of_a_stalled_session_are_counted(void)
{
	static const int well[2];
	struct gm_session *s;
	struct hand_client c;
	struct gm_entry e[2];

	if (!begin(64 * KIB, 1))
		return;
	s = attach(&c);
	e[0] = hand_alloc(&c, hand_handle(ROW, 1), 1000, 0);
	e[1] = hand_nop(&c);
	hand_submit(&c, e, 2);
	gm_put(&r.late.hold, 1);
	gm_roster_wake(&r.w, s);
	gm_flight_serve(&r.w, s);
	OK(s->stalled);
	OK(goes_deaf(&c, s));
	gm_events_look(&r.w);
	OK(!s->active);
	gm_put(&r.late.hold, 0);
	rig_slow(&r);
	OK(s->active);
	rig_serve(&r, s);
	rig_expect(&c, 0, well, 2);
	rig_end(&r, &c, s);
	finish();
}

int main(void)
{
	EQ(gm_fault_init(), 0);
	bells_of_a_full_session_are_counted();
	bells_of_a_stalled_session_are_counted();
	return tap_done();
}
