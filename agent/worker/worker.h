/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * worker - one process, one row: what its parts share.
 */
#ifndef GM_WORKER_H
#define GM_WORKER_H

#include <liburing.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "agent/common/close_thread.h"
#include "agent/common/wire.h"
#include "agent/device/device.h"
#include "agent/worker/control/blocking_thread.h"
#include "agent/worker/control/send_queue.h"
#include "agent/worker/io/load.h"
#include "agent/worker/io/remote_copy_queue.h"
#include "agent/worker/queue/dependency.h"
#include "agent/worker/queue/session.h"
#include "shm/journal.h"

/* A user, as long as any session of his is attached. */
struct gm_guest {
	TAILQ_ENTRY(gm_guest) entry;            /* while any of them is awake */
	TAILQ_HEAD(, gm_worker_session) active; /* those, in turn */
	struct gm_deficit deficit;              /* by the rounds of all users */
	uint32_t round;                         /* of its sessions */
	uint32_t n_sessions;
	uint32_t uid;
	uint64_t carried; /* bytes, see io/remote_copy_queue.h */
};

/* Parts of collectives that are under way, see collective/collective.h. */
struct gm_parts {
	TAILQ_HEAD(, gm_worker_session) list;
	uint32_t n;
	uint32_t n_seen;    /* looked at since one could go on or was held */
	bool held;          /* of them, some are: their users' round is over */
	bool told;          /* since one of them came on */
	uint64_t arm_ns;    /* before then no bit is set */
	uint64_t since_ns;  /* none could go on; 0: not known yet */
	uint64_t budget_ns; /* to be watched for, since then */
	struct gm_doorbell_spin spin;
};

/* A thread for what waits for other devices, see collective/nccl_group.h. */
struct gm_nccl_group_thread {
	struct gm_slow slow;
	bool runs;     /* from its first clique on */
	bool is_taken; /* a member has it */
};

struct gm_worker {
	/* From main: where we are. */
	uint32_t row;
	int node; /* of the arena ranges, -1 for none */
	int pair; /* to gpumapd */
	struct gm_journal *journal;
	struct gm_group_page *commons;
	struct gm_backend_device *dev;
	struct gm_closer closer;
	struct gm_slow slow;
	struct gm_nccl_group_thread cliques[GM_JOURNAL_NCCL_GROUPS];
	bool has_cliques;
	uint64_t clique_limit_ns; /* to meet the others in */
	uint64_t clique_drain_ns; /* until then they may hold up the drain */
	struct gm_outbox outbox;  /* the loop's; closers wait for room */
	struct io_uring ring;

	/* The loop's own. */
	TAILQ_HEAD(, gm_guest) guests; /* with sessions that are awake */
	struct gm_user_budget *purses; /* of all uids, see memory/buffers.h */
	uint32_t n_active;             /* sessions that are awake */
	uint32_t n_idle;    /* of them, found empty at the last look */
	uint32_t n_deaf;    /* that flood, see queue/doorbell_limit.h */
	uint32_t cpu;       /* where we ran last, plus 1 */
	uint32_t quiet;     /* passes without work since the clock was read */
	uint32_t busy;      /* turns served since then */
	uint64_t now_ns;    /* when the clock was read */
	uint64_t looked_ns; /* at the rings of the deaf */
	uint64_t pass;
	uint32_t round;     /* of all users */
	uint32_t serial;    /* of attachments */
	uint32_t n_forgets; /* FORGETs that wait for what is under way */
	TAILQ_HEAD(, gm_async_execs)
	flying;           /* that the device has anything of */
	uint32_t n_aloft; /* slices under way, of all sessions */
	uint64_t landed;  /* slices that have ended so far */
	TAILQ_HEAD(, gm_remote_copy)
	carried; /* copies from other rows under way, see io/remote_copy.h */
	TAILQ_HEAD(, gm_alloc_wait) alloc_waits; /* see memory/alloc.h */
	struct gm_waiting waiting;
	struct gm_wakeup_list herald;
	struct gm_loader loader;
	struct gm_remote_copy_queue ferry;
	struct gm_parts parts;
	LIST_HEAD(, gm_collective_member)
	cliqued; /* see collective/nccl_group.h */
	bool may_spin;
	bool draining;
	bool drained; /* and said so: no session has a turn any more */
	bool dismissed;
	bool leaving;
	struct gm_worker_session *place[GM_JOURNAL_PLACES];
};

/*
 * gm_uring_open - a ring, with the best flags that this kernel takes, that can
 * poll, read and close descriptors and cancel that, and nothing else
 *
 * ret_why	receives what refuses and the remedy, constant text
 *
 * Returns	0 or -errno
 */
int gm_uring_open(struct io_uring *ring, const char **ret_why);

/* gm_loop_run - serve until gpumapd hangs up or has us drain.  Returns the exit
 * status. */
int gm_loop_run(struct gm_worker *worker);

/* gm_bury_run - end what a dead worker of this row owed, queue by queue.
 * Returns the exit status. */
int gm_bury_run(struct gm_worker *worker);

#endif
