/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * async_exec: doorbells without work, sessions that broke the contract, and a
 * device that is lost while no session uses it, as the worker hears of them.
 */

#include <sys/wait.h>

#include "agent/worker/control/io_events.h"
#include "agent/worker/io/load_private.h"
#include "agent/worker/memory/staging.h"
#include "agent/worker/queue/schedule.h"
#include "tests/support/worker/async_rig.h"

static struct rig r;

/* Returns false, with nothing left open, where this kernel has no ring. */
static bool begin(uint64_t slice_bytes, uint32_t slices)
{
	const char *why;

	rig_open(&r, slice_bytes, slices);
	if (gm_uring_open(&r.w.ring, &why) == 0) {
		gm_io_events_start(&r.w);
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

static struct gm_worker_session *attach(struct hand_client *c)
{
	struct gm_wire wire;

	hand_open(c, 1, 0, ROW, 16, MIB);
	rig_tell_attach(&r, c);
	gm_io_events_handle(&r.w);
	EQ(rig_hear(&r, &wire, 10000), GM_WIRE_ATTACHED);
	EQ(wire.status, 0);
	return r.w.place[c->place];
}

/* Ring, and have it heard, as often as it takes. */
static bool is_muted(struct hand_client *c, const struct gm_worker_session *s)
{
	uint64_t end = hand_now() + HAND_PATIENCE_NS;

	while (!s->flood.muted && hand_now() < end) {
		hand_ring(c);
		gm_io_events_handle(&r.w);
	}
	return s->flood.muted;
}

/* ---- bells ------------------------------------------------------------- */

/* Whose slices are under way, and whose ring holds more. */
static void bells_of_a_full_session_are_counted(void)
{
	static const int well[3];
	struct gm_worker_session *s;
	struct hand_client c;
	struct gm_entry e[3];

	if (!begin(64 * KIB, 1))
		return;
	s = attach(&c);
	for (int i = 0; i < 3; i++)
		e[i] = hand_copy(&c, 0, 512 * KIB, 64);
	hand_submit(&c, e, 3);
	gm_run_queue_wake(&r.w, s);
	rig_serve(&r, s);
	OK(gm_run_queue_park(&r.w, s));
	OK(is_muted(&c, s));
	OK(!s->active); /* and costs no turns */
	gm_io_events_look(&r.w);
	OK(!s->active);
	/* The session is served all the same. */
	for (int i = 0; i < 3; i++) {
		late_land_all(&r.late);
		gm_async_exec_poll(&r.w);
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
	struct gm_worker_session *s;
	struct hand_client c;
	struct gm_entry e[2];

	if (!begin(64 * KIB, 1))
		return;
	s = attach(&c);
	e[0] = hand_alloc(&c, hand_handle(ROW, 1), 1000, 0);
	e[1] = hand_nop(&c);
	hand_submit(&c, e, 2);
	gm_put(&r.late.hold, 1);
	gm_run_queue_wake(&r.w, s);
	gm_async_exec_serve(&r.w, s);
	OK(s->stalled);
	OK(is_muted(&c, s));
	gm_io_events_look(&r.w);
	OK(!s->active);
	gm_put(&r.late.hold, 0);
	rig_slow(&r);
	OK(s->active);
	rig_serve(&r, s);
	rig_expect(&c, 0, well, 2);
	rig_end(&r, &c, s);
	finish();
}

/* ---- a breach ---------------------------------------------------------- */

static uint64_t registered(uint32_t kind)
{
	return gm_handle_make(1, kind, 0, kind);
}

static struct gm_wire about(uint32_t type, const struct hand_client *c,
			    uint32_t kind)
{
	struct gm_wire wire = { .type = type };

	wire.session = c->id;
	wire.place = c->place;
	wire.handle = registered(kind);
	wire.buffer.bytes = 4096;
	return wire;
}

static void register_new(const struct hand_client *c, uint32_t kind)
{
	struct gm_wire wire = about(GM_WIRE_REGISTER, c, kind);
	int fd;

	munmap(hand_share("test-registered", wire.buffer.bytes, &fd),
	       wire.buffer.bytes);
	gm_async_ops_register(&r.w, &wire, fd);
	rig_slow(&r);
	EQ(rig_hear(&r, &wire, 10000), GM_WIRE_REGISTERED);
	EQ(wire.status, 0);
}

/* Work in flight may use it; entries behind the breach never will. */
static void who_broke_the_contract_is_forgotten_at_once(void)
{
	struct gm_worker_session *s;
	struct hand_client c;
	struct gm_entry e[2];
	struct gm_wire wire;

	if (!begin(64 * KIB, 2))
		return;
	s = attach(&c);
	register_new(&c, GM_BUFFER_REGISTERED);
	e[0] = hand_copy(&c, 0, 512 * KIB, 256 * KIB);
	e[1] = hand_nop(&c);
	e[1].flags = 4;
	hand_submit(&c, e, 2);
	gm_run_queue_wake(&r.w, s);
	rig_serve(&r, s); /* two of four slices */
	late_land_all(&r.late);
	rig_serve(&r, s); /* the others */
	late_land(&r.late, 3);
	rig_serve(&r, s);
	STR(s->why, "unknown flag");
	gm_io_events_violated(&r.w, s);
	EQ(rig_hear(&r, &wire, 10000), GM_WIRE_VIOLATION);
	wire = about(GM_WIRE_FORGET, &c, GM_BUFFER_REGISTERED);
	gm_async_ops_forget(&r.w, &wire);
	EQ(r.w.slow.n, 0); /* the last slice is under way */
	EQ(r.w.n_forgets, 1);
	late_land_all(&r.late);
	OK(gm_async_exec_may_sleep(&r.w)); /* and no event will wake it */
	rig_slow(&r);
	EQ(rig_hear(&r, &wire, 10000), GM_WIRE_FORGOTTEN);
	EQ(wire.status, 0);
	EQ(r.w.n_forgets, 0);
	rig_end(&r, &c, s);
	finish();
}

/* The slow thread may be copying to it, for a job between rows. */
static void the_slow_thread_ends_before_memory_goes(void)
{
	struct gm_worker_session *s;
	struct hand_client c;
	struct gm_entry e;
	struct gm_wire wire;

	if (!begin(64 * KIB, 1))
		return;
	s = attach(&c);
	register_new(&c, GM_BUFFER_REGISTERED);
	e = hand_alloc(&c, hand_handle(ROW, 5), 1000, 0);
	hand_submit(&c, &e, 1);
	gm_put(&r.late.hold, 1);
	gm_run_queue_wake(&r.w, s);
	gm_async_exec_serve(&r.w, s);
	OK(s->stalled);
	s->why = "a breach meanwhile";
	gm_io_events_violated(&r.w, s);
	EQ(rig_hear(&r, &wire, 10000), GM_WIRE_VIOLATION);
	wire = about(GM_WIRE_FORGET, &c, GM_BUFFER_REGISTERED);
	gm_async_ops_forget(&r.w, &wire);
	EQ(r.w.slow.n, 1);
	EQ(r.w.n_forgets, 1);
	gm_put(&r.late.hold, 0);
	rig_slow(&r);
	EQ(rig_hear(&r, &wire, 10000), GM_WIRE_FORGOTTEN);
	EQ(wire.status, 0);
	rig_end(&r, &c, s);
	finish();
}

/* Which the device copies from staging to memory that is forgotten. */
static void a_load_ends_before_its_memory_goes(void)
{
	uint64_t end = hand_now() + HAND_PATIENCE_NS;
	struct gm_worker_session *s;
	struct hand_client c;
	struct gm_entry e;
	struct gm_wire wire;

	if (!begin(64 * KIB, 1))
		return;
	gm_load_init(&r.w.loader, 0, 0);
	s = attach(&c);
	register_new(&c, GM_BUFFER_REGISTERED);
	register_new(&c, GM_BUFFER_FILE);
	e = hand_copy(&c, 0, 0, 4096);
	e.op = GPUMAP_OP_LOAD;
	e.dst_buffer = registered(GM_BUFFER_REGISTERED);
	e.src_buffer = registered(GM_BUFFER_FILE);
	hand_submit(&c, &e, 1);
	gm_run_queue_wake(&r.w, s);
	gm_async_exec_serve(&r.w, s);
	OK(s->load != NULL);
	while (r.late.n_started == 0 && hand_now() < end) {
		gm_io_events_handle(&r.w);
		gm_pass(&r.w, true); /* for the rounds */
		gm_load_pass(&r.w);
	}
	EQ(r.late.n_started, 1);
	s->why = "a breach meanwhile";
	gm_io_events_violated(&r.w, s);
	EQ(rig_hear(&r, &wire, 10000), GM_WIRE_VIOLATION);
	wire = about(GM_WIRE_FORGET, &c, GM_BUFFER_REGISTERED);
	gm_async_ops_forget(&r.w, &wire);
	EQ(r.w.slow.n, 0);
	EQ(r.w.n_forgets, 1);
	late_land_all(&r.late);
	gm_load_pass(&r.w);
	rig_slow(&r);
	EQ(rig_hear(&r, &wire, 10000), GM_WIRE_FORGOTTEN);
	EQ(wire.status, 0);
	gm_staging_drop(&r.w);
	rig_end(&r, &c, s);
	finish();
}

/* ---- the device -------------------------------------------------------- */

/* The device signals, and no slice is in flight. */
static void an_idle_worker_ends_with_its_device(void)
{
	struct gm_wire wire = { 0 };
	uint64_t one = 1;
	int status = 0;
	pid_t child;

	rig_open(&r, 64 * KIB, 1);
	gm_blocking_thread_stop(&r.w.slow); /* a fork has but one thread */
	fflush(stdout);
	child = fork();
	if (child == 0) {
		const char *why;

		if (gm_blocking_thread_start(&r.w.slow, r.w.dev,
					     &r.journal->slow, -1) < 0 ||
		    gm_uring_open(&r.w.ring, &why) < 0)
			_exit(77);
		gm_io_events_start(&r.w);
		r.late.lost = true;
		if (write(r.late.dev.ended_fd, &one, sizeof(one)) < 0)
			_exit(78);
		gm_io_events_handle(&r.w);
		_exit(79);
	}
	waitpid(child, &status, 0);
	OK(WIFEXITED(status));
	if (WEXITSTATUS(status) == 77) {
		SKIP(1, "no ring or no thread here");
	} else {
		EQ(WEXITSTATUS(status), 1);
		EQ(rig_hear(&r, &wire, 10000), GM_WIRE_FAILED);
		EQ(wire.code, 700);
	}
	EQ(gm_blocking_thread_start(&r.w.slow, r.w.dev, &r.journal->slow, -1),
	   0);
	rig_close(&r);
}

/* The journal's sign while memory is being registered. */
static uint64_t noted_place, noted_handle;

static int noting_reach(struct gm_backend_device *dev, char *at, uint64_t bytes,
			bool writable, struct gm_region **ret_region)
{
	noted_place = gm_get(&r.journal->slow_place);
	noted_handle = gm_get(&r.journal->slow_handle);
	return late_reach(dev, at, bytes, writable, ret_region);
}

/* For gpumapd, should the worker die of it. */
static void a_registration_is_noted_while_it_is_done(void)
{
	struct gm_backend noting = late_backend;
	struct gm_worker_session *s;
	struct hand_client c;

	if (!begin(64 * KIB, 1))
		return;
	noting.reach = noting_reach;
	r.late.dev.backend = &noting;
	s = attach(&c);
	EQ(gm_get(&r.journal->slow_place), 0);
	register_new(&c, GM_BUFFER_REGISTERED);
	EQ(noted_place, c.place + 1);
	EQ(noted_handle, registered(GM_BUFFER_REGISTERED));
	EQ(gm_get(&r.journal->slow_place), 0);
	rig_end(&r, &c, s);
	r.late.dev.backend = &late_backend;
	finish();
}

TAP_CASE()
{
	EQ(gm_sigbus_init(), 0);
	a_registration_is_noted_while_it_is_done();
	bells_of_a_full_session_are_counted();
	bells_of_a_stalled_session_are_counted();
	who_broke_the_contract_is_forgotten_at_once();
	the_slow_thread_ends_before_memory_goes();
	a_load_ends_before_its_memory_goes();
	an_idle_worker_ends_with_its_device();
	return tap_done();
}
