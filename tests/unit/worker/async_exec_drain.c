/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* flight: a worker that drains leaves nothing behind that it has begun. */

#include "agent/worker/queue/session.h"
#include "tests/support/worker/async_rig.h"

#define ROUNDS 40

static struct rig r;

/* An allocation comes back while the worker watches a queue that is empty: the
 * entry ends before the worker does. */
static int what_is_begun_is_ended(void)
{
	struct gm_wire wire = { .type = GM_WIRE_DRAIN };
	struct hand_client c[2];
	struct gm_entry e;
	const char *why;
	int missed;

	rig_open(&r, 64 * KIB, 4);
	gm_put(&r.group_page.spin_limit, 1);
	if (gm_uring_open(&r.w.ring, &why) < 0) {
		rig_close(&r);
		SKIP(1, why);
		return -1;
	}
	for (uint32_t i = 0; i < 2; i++) {
		hand_open(&c[i], i + 1, i, ROW, 16, MIB);
		e = i ? hand_nop(&c[i])
		      : hand_alloc(&c[i], hand_handle(ROW, 1), 1000, 0);
		hand_submit(&c[i], &e, 1);
		rig_tell_attach(&r, &c[i]);
	}
	rig_tell(&r, &wire, NULL);
	wire.type = GM_WIRE_LEAVE;
	rig_tell(&r, &wire, NULL);
	gm_worker_run(&r.w);
	missed = (hand_n_done(&c[0]) != 1) + (hand_n_done(&c[1]) != 1);
	for (uint32_t i = 0; i < 2; i++) {
		EQ(rig_hear(&r, &wire, 10000), GM_WIRE_ATTACHED);
		EQ(wire.status, 0);
	}
	EQ(rig_hear(&r, &wire, 10000), GM_WIRE_DRAINED);
	for (uint32_t i = 0; i < 2; i++)
		rig_end(&r, &c[i], r.w.place[i]);
	io_uring_queue_exit(&r.w.ring);
	rig_close(&r);
	return missed;
}

TAP_CASE()
{
	int missed = 0, rc = 0;

	EQ(gm_sigbus_init(), 0);
	for (int i = 0; i < ROUNDS && rc >= 0; i++) {
		rc = what_is_begun_is_ended();
		missed += rc > 0;
	}
	EQ(missed, 0);
	return tap_done();
}
