/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * session - one client's queue on this row, and the client's memory.
 *
 * Mapped are the client's page, the queue pair of this row, and the arena; and,
 * to be read only, all of the queues, for the timelines of other rows.
 * Whatever the client can write is copied before it is believed, and the words
 * that are ours to write are never read back: their values are kept here.
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
#include "agent/worker/queue/spin.h"
#include "shm/journal.h"
#include "shm/queue.h"
#include "shm/ring.h"

/* A job that is done in slices.  Idle while bytes is 0. */
struct gm_work {
	struct gm_task task;
	struct gm_reduce so_far; /* of the task, if it reduces */
	uint64_t bytes;          /* of the whole task */
	uint64_t next;           /* element */
	uint64_t deadline_ns;    /* after which no slice begins; 0: none */
	uint32_t each;           /* bytes that an element counts for */
	bool taken;              /* in the journal */
};

/* What an entry asks of others than its turn.  None while handle is 0. */
struct gm_async_op {
	uint32_t op;    /* ALLOC, LOAD, COPY between rows, a collective */
	uint32_t flags; /* ALLOC */
	uint64_t
		handle; /* of the buffer, or of the file, or a group's number */
	uint64_t bytes; /* ALLOC */
	uint64_t at;    /* LOAD, COPY: in the source */
	uint64_t deadline_ns; /* LOAD, COPY, a collective; 0: none */
	struct gm_task task;  /* LOAD, COPY: where to */
	struct gm_comm_ask ask;
};

/* A COPY under way. */
struct gm_remote_copy {
	TAILQ_ENTRY(gm_remote_copy) entry; /* of the worker's, while it is on */
	struct gm_worker_session *session;
	bool on;
	struct gm_async_op what;
	uint64_t bytes; /* of it all */
	uint64_t asked; /* for, so far */
	uint64_t piece_at[GM_STAGE_PIECES];
	uint64_t piece_bytes[GM_STAGE_PIECES];
	uint32_t busy; /* pieces that are, a bit each */
	uint32_t away; /* that another row writes to, be it for one before
			* whose time was up */
	int status;    /* the first failure */
};

/* An ALLOC, and whether it waits for memory (memory/alloc.h). */
struct gm_alloc_wait {
	TAILQ_ENTRY(gm_alloc_wait) entry; /* of the worker's, while it is on */
	struct gm_worker_session *session;
	bool on;
	struct gm_async_op what;
};

/* What the entry at the head of the ring waits for (dependency.h). */
struct gm_wait {
	bool on;     /* it waits: nothing is read */
	bool listed; /* among the worker's that do */
	uint8_t n;
	uint64_t deadline_ns; /* 0: none */
	uint64_t until[GM_WAITS_MAX];
};

/* A collective by way of this rank's windows (collective/staged.h). */
struct gm_staged {
	struct gm_comm_ask ask; /* of it all */
	uint64_t each_round;    /* elements */
	uint64_t rounds;
	uint64_t next; /* round that a window is to be filled for, */
	uint64_t at;   /* and that goes around */
	char *send;    /* where this rank's own memory is mapped; NULL: */
	char *recv;
	uint64_t send_address; /* the device has it there */
	uint64_t recv_address;
	uint32_t each;                   /* bytes of an element */
	uint32_t n_copies;               /* that the slow thread has */
	uint8_t window[GM_COMM_WINDOWS]; /* of each, see staged.c */
	bool tells;
	int status; /* of the first failure: nothing is begun any more */
};

/* This rank's part of a collective that is under way
 * (collective/collective.h). */
struct gm_part {
	TAILQ_ENTRY(gm_worker_session) entry; /* in the worker's */
	struct gm_collective_member *member;  /* NULL: there is none */
	struct gm_comm_call call;
	struct gm_staged relay;
	uint32_t way;         /* of those with windows, see nccl_group.c */
	uint64_t deadline_ns; /* 0: none */
	bool waits;           /* for another rank, at the last look */
};

struct gm_async_op_job;
struct gm_async_execs;
struct gm_guest;
struct gm_wakeup_list;
struct gm_load;

struct gm_worker_session {
	/* What every turn touches. */
	struct gm_ring entries;
	struct gm_ring done;
	struct gm_waker waker;
	struct gm_journal_queue *owed;
	struct gm_journal *signs;
	struct gm_client *client;
	struct gm_judge judge;
	struct gm_work work;
	uint64_t share; /* payload bytes of its next turn */
	struct gm_deficit deficit;
	bool spent;      /* no more in this round: nothing of it is begun */
	bool alone;      /* nobody else is awake: its turns may be longer */
	int socket;      /* of a client that wants a pollable fd, or -1 */
	bool second;     /* the next entry is the last one's second slot */
	bool cancels;    /* in this turn: some may be cancelled, by @cancel */
	bool halted;     /* the loop has to look after its turn: why, errands */
	const char *why; /* set: the session is served no longer */
	struct gm_mapping ground;
	struct gm_timeline *timeline;
	uint64_t now;    /* a place in time: what has ended */
	uint64_t cancel; /* the client's word, at the beginning of the turn */
	struct gm_wakeup_list *herald; /* NULL: nobody waits for this row */

	/* What the loop decides by. */
	TAILQ_ENTRY(gm_worker_session) turn; /* while active */
	struct gm_guest *guest;
	struct gm_queue *queue;
	uint32_t parked;   /* our copy of queue->parked */
	uint32_t cpu;      /* our copy of queue->cpu */
	bool active;       /* awake: gets turns */
	bool idle;         /* active, and found empty at the last look */
	bool ended;        /* by a violation; waits for its DETACH */
	uint64_t since_ns; /* when idleness was first timed, 0: not yet */
	uint64_t budget_ns;
	uint64_t last; /* the pass that served it last */
	struct gm_doorbell_spin spin;
	struct gm_doorbell_spin *watched; /* that the budget is of */
	struct gm_flood flood;

	struct gm_wait wait;
	TAILQ_ENTRY(gm_worker_session) waiting; /* while wait.listed */
	char *queues;    /* all of them, to be read only */
	uint32_t n_rows; /* that have one */

	/* Memory besides the arena, and the slow thread
	 * (control/async_op.h). */
	struct gm_buffer_table buffers;
	struct gm_async_op errand;
	struct gm_remote_copy carry;
	struct gm_alloc_wait alloc;
	struct gm_async_op_job *last_errand; /* once there was a first */
	uint32_t n_slow;       /* jobs that the slow thread has of it */
	struct gm_load *load;  /* what it has under way, or NULL */
	struct gm_load *ahead; /* the first that is read ahead, or NULL */
	struct gm_part part;
	LIST_HEAD(, gm_collective_member) members; /* of groups */
	bool stalled;      /* an entry waits for these: it gets no turns */
	bool departing;    /* DETACHED as soon as nothing is under way */
	uint64_t range_at; /* of the arena, this row's */
	uint64_t range_bytes;
	struct gm_region **reached; /* parts of the arena, see decode.h */
	uint32_t n_reached;

	/* What the device has of it (async_exec.h); NULL where it computes only
	 * while it is called. */
	struct gm_async_execs *flights;

	/* What it is. */
	uint64_t id;
	uint32_t uid; /* of the client */
	uint32_t place;
	uint64_t quota;  /* of that uid, as the ATTACH said */
	uint32_t serial; /* of attachments to this worker */
	uint32_t drain;  /* position at which draining stops */
	uint32_t awaits; /* registrations, before it begins as this one: */
	uint32_t incarnation;
	int doorbell;
	int pair; /* where its end is told */
};

/* Why a session ended whose memory was found missing. */
#define GM_SESSION_BROKEN "memory that the session uses was taken away"

enum {
	GM_SESSION_QUEUES,
	GM_SESSION_ARENA,
	GM_SESSION_DOORBELL,
	GM_SESSION_SOCKET,
	GM_SESSION_FDS
};

/*
 * gm_session_map - judge an ATTACH record and map what it names
 *
 * fds		GM_SESSION_FDS of them, -1 where there is none.  Those that
 *		are kept are set to -1, the others stay the caller's.
 * node		to bind the row's range of the arena to, or -1
 * with_arena	false for an undertaker, who needs the queue only
 *
 * Returns	0
 *		-EINVAL		numbers that gpumapd would not send
 *		-EMFILE		what it names did not come: no descriptor is
 *				left
 *		-ENOMEM, ...	from mmap
 */
int gm_session_map(const struct gm_wire *wire, int fds[GM_SESSION_FDS],
		   struct gm_journal *journal, int node, bool with_arena,
		   struct gm_worker_session **ret_session);

/* Go on where the journal says that the last owner of the queue was buried,
 * or begin; say so to the client.  It is parked then: look at its ring. */
void gm_session_take_over(struct gm_worker_session *session,
			  uint32_t incarnation);

/* An entry has become an errand, to be begun when all before it has ended. */
static inline void gm_session_send(struct gm_worker_session *session,
				   const struct gm_decoded_entry *verdict)
{
	session->errand =
		(struct gm_async_op){ .op = verdict->task.op,
				      .flags = verdict->flags,
				      .handle = verdict->buffer,
				      .bytes = verdict->task.n,
				      .at = verdict->at,
				      .deadline_ns = verdict->deadline_ns,
				      .task = verdict->task,
				      .ask = verdict->ask };
}

/* Wake the client, which sleeps: by futex, and by its socket if it has one
 * that it sleeps on, or in any case. */
void gm_session_wake(struct gm_worker_session *session, bool in_any_case);

/* Unmap and close all, in the closer's thread.  Once that is done it calls
 * @gone, which frees @session. */
void gm_session_unmap(struct gm_worker_session *session,
		      struct gm_closer *closer, void (*gone)(void *session));

#endif
