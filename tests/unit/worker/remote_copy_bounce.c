/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * across: stages that cannot be had, while the row that borrows has another one
 * already.  gpumapd is played here.
 */

#include "agent/worker/io/remote_copy.h"
#include "agent/worker/memory/buffers.h"
#include "tests/support/worker/schedule_rig.h"

#define OTHER 1u /* the row that is borrowed from */

static void open_row(void)
{
	open_host();
	r.w.slow.dev = &counter;
	join_host(&crowd[0], 1, 32, 1);
}

/* The session, with everything that it had. */
static void close_row(void)
{
	struct gm_worker_session *s = crowd[0].s;
	struct gm_wire wire;

	gm_run_queue_dismiss(&r.w, s);
	gm_journal_close(s->owed);
	s->pair = r.w.pair;
	gm_async_ops_depart(&r.w, s);
	rig_slow(&r);
	EQ(rig_hear(&r, &wire, 10000), GM_WIRE_DETACHED);
	hand_close(&crowd[0].c, ROW);
	n_crowd = 0;
	rig_close(&r);
}

static int stage_file(void)
{
	int fd = memfd_create("test-stage", MFD_CLOEXEC);

	if (fd < 0 || ftruncate(fd, (off_t)GM_STAGE_BYTES) < 0)
		exit(99);
	return fd;
}

/* Which cannot be mapped. */
static int bad_file(void)
{
	int fd = open("/dev/null", O_RDWR | O_CLOEXEC);

	if (fd < 0)
		exit(99);
	return fd;
}

/* The @i-th buffer.  The answer comes when the slow thread has been looked
 * at. */
static void borrow(uint32_t i, uint64_t id, int fd)
{
	const struct gm_wire wire = { .type = GM_WIRE_BORROW,
				      .session = crowd[0].c.id,
				      .place = crowd[0].c.place,
				      .handle = hand_handle(OTHER, i),
				      .buffer.bytes = MIB,
				      .buffer.borrower = ROW,
				      .buffer.stage = id };

	gm_remote_copy_borrow(&r.w, &wire, fd);
}

/* The status of the next answer. */
static int borrowed(void)
{
	struct gm_wire wire;

	if (!EQ(rig_hear(&r, &wire, 10000), GM_WIRE_BORROWED))
		return 1;
	return wire.status;
}

/* The id of the stage that pieces would go to. */
static uint64_t present(void)
{
	const struct gm_buffer_entry *stage =
		gm_buffers_stage(&crowd[0].s->buffers, ROW);

	return stage && stage->ready ? stage->handle : 0;
}

/* There is another one before the first could be mapped. */
static void one_that_was_replaced(bool leaves_at_once)
{
	open_row();
	borrow(0, 77, bad_file());
	borrow(1, 78, stage_file());
	rig_slow(&r);
	OK(borrowed() < 0);
	EQ(borrowed(), 0);
	EQ(present(), 78);
	if (!leaves_at_once) {
		gm_async_ops_give_back(&r.w, crowd[0].s);
		rig_slow(&r);
	}
	EQ(present(), 78);
	close_row();
}

/* The buffer is being dropped when the worker finds that it has none. */
static void one_that_is_being_dropped(void)
{
	open_row();
	borrow(0, 77, bad_file());
	borrow(1, 78, stage_file());
	gm_async_ops_give_back(&r.w, crowd[0].s);
	rig_slow(&r);
	OK(borrowed() < 0);
	EQ(borrowed(), 0);
	EQ(present(), 78);
	close_row();
}

/* A copy that relies on it has none either, and the next request gets one. */
static void one_that_nobody_replaces(void)
{
	open_row();
	borrow(0, 77, bad_file());
	borrow(1, 77, stage_file());
	rig_slow(&r);
	OK(borrowed() < 0);
	OK(borrowed() < 0);
	EQ(present(), 0);
	borrow(2, 78, stage_file());
	rig_slow(&r);
	EQ(borrowed(), 0);
	EQ(present(), 78);
	close_row();
}

TAP_CASE()
{
	EQ(gm_sigbus_init(), 0);
	one_that_nobody_replaces();
	one_that_was_replaced(false);
	one_that_was_replaced(true);
	one_that_is_being_dropped();
	return tap_done();
}
