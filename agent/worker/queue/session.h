/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * session - one client's queue pair on this row, and the client's memory.
 *
 * The worker maps the client's page, the queue pair of this row and the arena.
 * The worker also maps all queues of the session read-only, for the timelines
 * of other rows.  A value that the client can write is copied before it is
 * checked.  The words that only the worker writes are never read back: the
 * worker keeps its own copies of their values here.
 */
#ifndef GM_WORKER_QUEUE_SESSION_H
#define GM_WORKER_QUEUE_SESSION_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "agent/common/close_thread.h"
#include "agent/common/wire.h"
#include "agent/device/reduce.h"
#include "agent/worker/memory/buffers.h"
#include "agent/worker/memory/sigbus.h"
#include "agent/worker/queue/decode.h"
#include "agent/worker/queue/doorbell_limit.h"
#include "agent/worker/queue/drr.h"
#include "agent/worker/queue/job_clock.h"
#include "agent/worker/queue/spin.h"
#include "shm/journal.h"
#include "shm/queue.h"
#include "shm/ring.h"

/* A job that is executed in slices.  bytes is 0 while there is none. */
struct gm_work {
	struct gm_task task;
	struct gm_reduce so_far; /* partial result, if the task reduces */
	uint64_t bytes;          /* of the whole task */
	uint64_t next;           /* next element to process */
	uint64_t deadline_ns;    /* no slice starts after it; 0: no limit */
	uint32_t each;           /* bytes accounted per element */
	bool taken;              /* recorded in the journal */
};

/* A request that an entry's turn cannot execute by itself, because another
 * thread or row takes part.  handle is 0 while there is none. */
struct gm_async_op {
	uint32_t op;    /* ALLOC, LOAD, COPY between rows, a collective */
	uint32_t flags; /* ALLOC */
	/* Handle of the buffer or the file, or number of the group. */
	uint64_t handle;
	uint64_t bytes;       /* ALLOC */
	uint64_t at;          /* LOAD, COPY: offset in the source */
	uint64_t deadline_ns; /* LOAD, COPY, collective; 0: none */
	struct gm_task task;  /* LOAD, COPY: the destination */
	struct gm_comm_ask ask;
};

/* A COPY between rows that is in progress. */
struct gm_remote_copy {
	TAILQ_ENTRY(gm_remote_copy)
	entry; /* in the worker's list while on is true */
	struct gm_worker_session *session;
	bool on;
	struct gm_async_op what;
	uint64_t bytes; /* of the whole copy */
	uint64_t asked; /* bytes requested so far */
	uint64_t piece_at[GM_STAGE_PIECES];
	uint64_t piece_bytes[GM_STAGE_PIECES];
	uint32_t busy; /* bitmask of the pieces in progress */
	/* Bitmask of the pieces that another row writes to.  Such a write may
	 * belong to an earlier copy whose deadline has passed. */
	uint32_t away;
	int status; /* the first failure */
};

/* An ALLOC that may wait for memory (memory/alloc.h). */
struct gm_alloc_wait {
	/* In the worker's list while on is true. */
	TAILQ_ENTRY(gm_alloc_wait) entry;
	struct gm_worker_session *session;
	bool on;
	struct gm_async_op what;
};

/* The timelines that the entry at the head of the ring waits for
 * (dependency.h). */
struct gm_wait {
	bool on;     /* the head waits: no entry is read */
	bool listed; /* in the worker's list of waiting heads */
	uint8_t n;
	uint64_t deadline_ns; /* 0: none */
	uint64_t until[GM_WAITS_MAX];
};

/* A collective that goes through this rank's windows (collective/staged.h). */
struct gm_staged {
	/* The whole collective. */
	struct gm_comm_ask ask;
	uint64_t each_round; /* elements per round */
	uint64_t rounds;
	/* Next round to fill a window for. */
	uint64_t next;
	uint64_t at; /* round that the group executes */
	char *send;  /* mapping of this rank's own memory, or NULL */
	char *recv;
	/* Device addresses of the same memory, used where send or recv is
	 * NULL. */
	uint64_t send_address;
	uint64_t recv_address;
	uint32_t each;     /* bytes per element */
	uint32_t n_copies; /* copies handed to the slow thread */
	/* State of each window, see staged.c. */
	uint8_t window[GM_COMM_WINDOWS];
	bool tells;
	int status; /* first failure; nothing new starts after it */
};

/* This rank's part of a collective in progress (collective/collective.h). */
struct gm_part {
	TAILQ_ENTRY(gm_worker_session) entry; /* in the worker's list */
	struct gm_collective_member *member;  /* NULL: no part is in progress */
	struct gm_comm_call call;
	struct gm_staged relay;
	uint32_t way; /* method, for groups with windows, see nccl_group.c */
	uint64_t deadline_ns; /* 0: none */
	bool waits;           /* for another rank, at the last poll */
};

struct gm_async_op_job;
struct gm_async_execs;
struct gm_row_user;
struct gm_wakeup_list;
struct gm_load;

struct gm_worker_session {
	/* Used in every turn. */
	struct gm_ring entries;
	struct gm_ring done;
	struct gm_waker waker;
	struct gm_journal_queue *owed;
	struct gm_journal *signs;
	struct gm_client *client;
	struct gm_decoder decoder;
	struct gm_work work;
	uint64_t share; /* payload bytes allowed in its next turn */
	struct gm_deficit deficit;
	/* The session has used up its round: no entry of it starts. */
	bool spent;
	/* No other session is awake, so its turns may be longer. */
	bool alone;
	int socket;  /* of a client that asked for a pollable fd, or -1 */
	bool second; /* the next slot is the last entry's second slot */
	/* In this turn entries may be cancelled, up to @cancel. */
	bool cancels;
	/* The loop has work after this turn: see @why, @pending, @buffers and
	 * @wait. */
	bool halted;
	const char *why; /* set: the session is not served any more */
	struct gm_mapping mapping;
	struct gm_timeline *timeline;
	uint64_t now; /* timeline value: the entries that have ended */
	/* Copy of the client's word, read when the turn began. */
	uint64_t cancel;
	/* Wakeup list of the worker; NULL in the recovery process. */
	struct gm_wakeup_list *wakeups;
	/* Clock of the worker; likewise. */
	struct gm_job_clock *clock;

	/* State that the loop schedules by. */
	TAILQ_ENTRY(gm_worker_session)
	turn; /* in its user's list, while active */
	struct gm_row_user *user;
	struct gm_queue *queue;
	uint32_t parked;   /* the worker's copy of queue->parked */
	uint32_t cpu;      /* the worker's copy of queue->cpu */
	bool active;       /* awake: the session gets turns */
	bool idle;         /* active, and its ring was empty at the last poll */
	bool ended;        /* ended by a violation; waits for its DETACH */
	uint64_t since_ns; /* start of the idle period, 0: not timed yet */
	uint64_t budget_ns;
	uint64_t last; /* pass that last served the session */
	struct gm_doorbell_spin spin;
	struct gm_doorbell_spin
		*watched; /* the predictor that budget_ns came from */
	struct gm_flood flood;

	struct gm_wait wait;
	/* In the worker's list, while wait.listed. */
	TAILQ_ENTRY(gm_worker_session) waiting;
	char *queues;    /* all queues of the session, mapped read-only */
	uint32_t n_rows; /* number of queues in that mapping */

	/* Memory other than the arena, and requests to the slow thread
	 * (control/async_op.h). */
	struct gm_buffer_table buffers;
	struct gm_async_op pending;
	/* The job that work or pending has; there is one of them at most. */
	struct gm_job_stamp stamp;
	struct gm_remote_copy carry;
	struct gm_alloc_wait alloc;
	struct gm_async_op_job *last_op; /* NULL until the first one */
	uint32_t n_slow;       /* jobs of this session at the slow thread */
	struct gm_load *load;  /* the load in progress, or NULL */
	struct gm_load *ahead; /* the first load that is read ahead, or NULL */
	struct gm_part part;
	LIST_HEAD(, gm_collective_member) members; /* memberships in groups */
	/* An entry waits for a request above, so the session gets no turns. */
	bool stalled;
	/* The session becomes DETACHED as soon as nothing of it is in
	 * progress. */
	bool departing;
	uint64_t range_at; /* offset of this row's range of the arena */
	uint64_t range_bytes;
	/* Mapped parts of the arena, see decode.h. */
	struct gm_region **reached;
	uint32_t n_reached;

	/* Entries at the device (async_exec.h).  NULL where the device computes
	 * only during a call to its backend. */
	struct gm_async_execs *flights;

	/* Identity, from the ATTACH record. */
	uint64_t id;
	uint32_t uid; /* of the client */
	uint32_t place;
	uint64_t quota;  /* of that uid, from the ATTACH record */
	uint32_t serial; /* number of this attachment to the worker */
	uint32_t drain;  /* drain ends before this position */
	/* Registrations to wait for before the session starts as
	 * @incarnation. */
	uint32_t awaits;
	uint32_t incarnation;
	int doorbell;
	int pair; /* socket on which the end is reported */

	/* For the close thread: leaving must not need memory. */
	struct gm_close_thread_job closing;
	void (*gone)(void *session);
};

/* Reason reported for a session that ended because its memory was missing. */
#define GM_SESSION_BROKEN "memory that the session uses was taken away"

/* Likewise, because it kept a thread waiting (memory/stall_guard.h). */
#define GM_SESSION_WITHHELD                                                 \
	"holes were punched into memory that the session uses, which kept " \
	"the worker waiting"

enum {
	GM_SESSION_QUEUES,
	GM_SESSION_ARENA,
	GM_SESSION_DOORBELL,
	GM_SESSION_SOCKET,
	GM_SESSION_FDS
};

/*
 * gm_session_map - validate an ATTACH record and map what it names
 *
 * fds		GM_SESSION_FDS of them, -1 where there is none.  Those that
 *		are kept are set to -1, the caller keeps the others.
 * node		to bind the row's range of the arena to, or -1
 * with_arena	false in the recovery process, which needs the queue only
 *
 * Returns	0
 *		-EINVAL		values that gpumapd would not send
 *		-EMFILE		the descriptors did not arrive: this process has
 *				no free descriptor left
 *		-ENOMEM, ...	from mmap
 */
int gm_session_map(const struct gm_wire *wire, int fds[GM_SESSION_FDS],
		   struct gm_journal *journal, int node, bool with_arena,
		   struct gm_worker_session **ret_session);

/* Continue at the position that the journal records for the previous owner of
 * the queue, or start a new queue, and publish the new incarnation to the
 * client.  The queue is parked afterwards: the caller has to check its ring. */
void gm_session_take_over(struct gm_worker_session *session,
			  uint32_t incarnation);

/* Store an entry as the session's request to other threads or rows.  The
 * request begins when all entries before it have ended. */
static inline void gm_session_send(struct gm_worker_session *session,
				   const struct gm_decoded_entry *verdict)
{
	session->pending =
		(struct gm_async_op){ .op = verdict->task.op,
				      .flags = verdict->flags,
				      .handle = verdict->buffer,
				      .bytes = verdict->task.n,
				      .at = verdict->at,
				      .deadline_ns = verdict->deadline_ns,
				      .task = verdict->task,
				      .ask = verdict->ask };
}

/* Wake the sleeping client by futex.  Also write to its socket, if it has one,
 * when the client sleeps on the socket or @in_any_case is set. */
void gm_session_wake(struct gm_worker_session *session, bool in_any_case);

/* Unmap and close everything in the close thread, which then calls @gone.
 * @gone frees @session. */
void gm_session_unmap(struct gm_worker_session *session,
		      struct gm_close_thread *close_thread,
		      void (*gone)(void *session));

#endif
