/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * async_rig.h - a worker of a late device in this process, without its loop.
 */
#ifndef GM_TEST_SUPPORT_WORKER_ASYNC_RIG_H
#define GM_TEST_SUPPORT_WORKER_ASYNC_RIG_H

#include "agent/worker/control/async_op.h"
#include "agent/worker/memory/sigbus.h"
#include "agent/worker/queue/async_exec.h"
#include "agent/worker/queue/run_queue.h"
#include "tests/support/worker/async_device.h"
#include "tests/support/worker/queue_client.h"
#include "tests/support/tap.h"

#define ROW 0u
#define KIB (UINT64_C(1) << 10)
#define MIB (UINT64_C(1) << 20)

struct rig {
	struct gm_worker w;
	struct late late;
	struct gm_journal *journal;
	int journal_fd;
	struct gm_group_page group_page;
	int pair[2]; /* gpumapd's end, the worker's */
};

void rig_open(struct rig *r, uint64_t slice_bytes, uint32_t slices);
void rig_close(struct rig *r);

/* As an ATTACH would; the session is awake. */
struct gm_worker_session *rig_attach(struct rig *r, struct hand_client *c);

/* Both, and a client of @arena_bytes whose session that is. */
struct gm_worker_session *rig_begin(struct rig *r, struct hand_client *c,
				    uint64_t slice_bytes, uint32_t slices,
				    uint64_t arena_bytes);

/* Run the jobs of the slow thread until it has none. */
void rig_slow(struct rig *r);

/* Turns, as long as they get anywhere without the device. */
void rig_serve(struct rig *r, struct gm_worker_session *s);

/* Its turns after entries of its own, and after the end of one slice or of
 * all. */
void rig_submit(struct rig *r, struct hand_client *c,
		struct gm_worker_session *s, const struct gm_entry *e,
		uint32_t n);
void rig_land(struct rig *r, struct gm_worker_session *s, uint64_t value);
void rig_land_all(struct rig *r, struct gm_worker_session *s);

/* As a DETACH would.  Whether it is gone is another matter. */
void rig_detach(struct rig *r, struct gm_worker_session *s);

/* The next record for gpumapd; its type, or 0 where none comes in time. */
uint32_t rig_hear(struct rig *r, struct gm_wire *ret_wire, int timeout_ms);

/* A record of gpumapd's, with GM_SESSION_FDS descriptors or none. */
void rig_tell(struct rig *r, const struct gm_wire *wire, const int *fds);

/* For a worker that has its ring. */
void rig_tell_attach(struct rig *r, const struct hand_client *c);

/* Detached and gone, with everything that it had. */
void rig_end(struct rig *r, struct hand_client *c, struct gm_worker_session *s);

/* And so is the worker. */
void rig_finish(struct rig *r, struct hand_client *c,
		struct gm_worker_session *s);

/* Statuses of the next @n completions have to be these, in order of entries. */
void rig_expect(struct hand_client *c, uint32_t first, const int *status,
		uint32_t n);

#endif
