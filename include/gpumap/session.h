/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * gpumap/session.h - open sessions, which have queues to the rows and memory
 * for payloads.
 */
#ifndef GPUMAP_SESSION_H
#define GPUMAP_SESSION_H

#include <stddef.h>
#include <stdint.h>

#include <gpumap/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- sessions ------------------------------------------------------------ */

/* Queue pairs and a payload arena of one client.  Opaque. */
struct gpumap_session;

#define GPUMAP_SESSION_POLLABLE (UINT32_C(1) << 0) /* gpumap_session_fd() */
/* Allocations take memory only where they are touched, page by page: for
 * clients that allocate much more than they touch.  Touching then costs ten
 * times as much, and so does freeing; and what a job touches first counts for
 * the control group of the agent. */
#define GPUMAP_SESSION_SPARSE (UINT32_C(1) << 1)
/* Workers that only this user's sessions with this flag use do all of the
 * session's jobs: the jobs may run programs, see gpumap_program_load(). */
#define GPUMAP_SESSION_PROGRAMS (UINT32_C(1) << 2)

struct gpumap_session_opts {
	size_t size;          /* sizeof(struct gpumap_session_opts) */
	uint32_t depth;       /* jobs in flight per row, a power of two from 16
			       * to 1024; 0: 256 */
	uint32_t flags;       /* GPUMAP_SESSION_* */
	uint64_t arena_bytes; /* of each row's range, rounded up to pages; 0: 64
			       * MiB.  Only allocations in it take memory, see
			       * gpumap_alloc() */
};

/*
 * gpumap_session_open - open a session with the agent
 *
 * opts		NULL for the defaults
 *
 * Returns	0
 *		-ENODEV		the node has dummy rows only
 *		-EUSERS		this user or the agent has no session left
 *		-EDQUOT		arena_bytes is more than this user may have
 *		-EINVAL		depth is no power of two from 16 to 1024
 *		-EPERM		this user may not have programs run;
 *				gpumap_refusal() names the setting
 *		-E2BIG		a field or a flag newer than this library
 *		-ESHUTDOWN	the agent is draining
 *		-ESTALE		the map was retired: attach again
 *		-ECONNREFUSED	no agent answers; -EACCES: not for this user
 *		-ECONNRESET, -EPROTO, -ENOMEM, -EMFILE, -ENFILE, -EOWNERDEAD
 *				as every request, see gpumap_refusal()
 * Cost		a few system calls and a round trip on the control socket.
 *		Where it would be refused because of memory that closed sessions
 *		hold until a worker has released them, the call waits for that,
 *		5 s at most
 * Threads	any
 */
GPUMAP_API int gpumap_session_open(struct gpumap *map,
				   const struct gpumap_session_opts *opts,
				   struct gpumap_session **ret_session);

/*
 * gpumap_session_close - end a session; NULL is allowed
 *
 * Jobs in flight are dropped, and the arena is unmapped.  A child that was
 * forked meanwhile does not keep the session.  In a forked child the call only
 * frees the child's own memory.
 *
 * Returns	nothing
 * Cost		a few system calls; does not wait.  The agent frees the memory
 * Threads	the session's own thread
 */
GPUMAP_API void gpumap_session_close(struct gpumap_session *session);

/*
 * gpumap_session_fd - get a descriptor that becomes readable when a job ends
 *
 * Only for sessions opened with GPUMAP_SESSION_POLLABLE.  Call
 * gpumap_session_arm() before a sleep on it; the descriptor stays the
 * session's.
 *
 * Returns	the descriptor, or -ENOTSUP without the flag, -EOWNERDEAD
 * Cost		no system call
 * Threads	the session's own thread
 */
GPUMAP_API int gpumap_session_fd(const struct gpumap_session *session);

/*
 * gpumap_session_arm - have the descriptor made readable by the next completion
 *
 * The session stays armed until a call takes completions or waits for some:
 * gpumap_poll(), gpumap_wait(), gpumap_scatter(), gpumap_buffer_alloc() and
 * gpumap_model_wait().  Arm after these and before the sleep; other calls, such
 * as gpumap_submit(), may come in between.
 *
 * The wakeup for an earlier sleep may come late and end this one: if
 * gpumap_poll() takes nothing then, arm again.
 *
 * Returns	0		sleep on it now, for a second at most: this call
 *				detects the agent's end, the descriptor does not
 *		1		do not sleep: completions are waiting
 *		-ENOTSUP, -ECONNRESET, -EPROTO, -EOWNERDEAD
 * Cost		a store and a check of each queue, and two system calls that do
 *		not wait: the descriptor is drained, the socket polled
 * Threads	the session's own thread
 */
GPUMAP_API int gpumap_session_arm(struct gpumap_session *session);

/* One of the agent's sessions. */
struct gpumap_session_info {
	uint64_t id;
	uint32_t pid;
	uint32_t uid;
	uint32_t n_queues; /* rows that it has used */
	uint32_t depth;
	uint64_t arena_bytes; /* of all ranges */
	uint64_t age_ns;
	uint64_t rows[GPUMAP_ROWS_MAX / 64]; /* with a queue; bit row % 64 of
					      * rows[row / 64] */
	/* Bytes that were read of models which it is loading, and all of them,
	 * 0 while it loads none.  The session's own process says so. */
	uint64_t load_bytes;
	uint64_t load_total_bytes;
};

/*
 * gpumap_session_list - list the agent's sessions, by id
 *
 * ret_info	room for @n
 *
 * Returns	the number of sessions, which may be more than @n, or -EACCES,
 *		-ECONNREFUSED, -ECONNRESET, -EPROTO, -EOWNERDEAD, when ret_info
 *		may hold some of them
 * Cost		a round trip on the control socket for every 64 sessions
 * Threads	any, in turn
 */
GPUMAP_API int gpumap_session_list(struct gpumap *map,
				   struct gpumap_session_info *ret_info,
				   size_t n);

/* The memory that one session has on one device. */
struct gpumap_usage {
	size_t size; /* sizeof(struct gpumap_usage), set by the caller */
	/* id; 0: it has ended, and importers still have this */
	uint64_t session;
	uint32_t pid; /* of the session's process, 0 with session 0 */
	uint32_t uid; /* the user who is charged for it */
	uint32_t row;
	uint32_t importers; /* importers of some of it: sessions, and
				  * connections that received a descriptor */
	uint64_t bytes;     /* of buffers, as the device rounds them; with
			     * session 0 as lent_bytes */
	/* of its exports, the bytes that importers have */
	uint64_t lent_bytes;
	uint64_t borrowed_bytes; /* of exports that it has imported itself; they
				  * are charged to their exporters */
};

/*
 * gpumap_usage_list - list the memory that sessions have on each device
 *
 * There is one item for each session and row that it uses, by session and row.
 * Before them, with session 0, there is one for each user and row with memory
 * that importers still have, but whose session has forgotten it or ended.
 *
 * ret_usage	room for @n; the @size of the first is set, and is that of all,
 *		also after the call
 *
 * Returns	the number of items, which may be more than @n, or
 *		-E2BIG		@size is more than 4096 bytes
 *		-EINVAL		@size is smaller than its first fields
 *		-EACCES, -ECONNREFUSED, -ECONNRESET, -EPROTO, -EOWNERDEAD, when
 *		ret_usage may hold some of them
 * Cost		a round trip on the control socket for every 64
 * Threads	any, in turn
 */
GPUMAP_API int gpumap_usage_list(struct gpumap *map,
				 struct gpumap_usage *ret_usage, size_t n);

/* ---- counts -------------------------------------------------------------- */

struct gpumap_session_counts {
	size_t size;        /* sizeof(struct gpumap_session_counts) */
	uint64_t submitted; /* jobs, tiles, buffers made and freed */
	uint64_t completed;
	uint64_t doorbells; /* system calls that woke a worker */
	uint64_t parks;     /* times that this side went to sleep */
};

/*
 * gpumap_session_counts - read counts of what this session has done
 *
 * Returns	0, -E2BIG, or -EINVAL as gpumap_health()
 * Cost		no system call
 * Threads	the session's own thread
 */
GPUMAP_API int gpumap_session_counts(const struct gpumap_session *session,
				     struct gpumap_session_counts *ret_counts);

/* ---- arena --------------------------------------------------------------- */

/*
 * gpumap_alloc - allocate memory near a row, which the row's worker can reach
 *
 * The first allocation on a row makes its queue pair, which is a round trip,
 * and waits for the row's worker if that is being started.  The same holds for
 * the first submission.
 *
 * The content is zero, or what this session left there.
 *
 * An allocation has its memory at once, counted for the control group of this
 * process, and the session keeps it until it ends.  From 2 MiB on, whole blocks
 * of 2 MiB are in huge pages, which is ten times as fast as page by page, if
 * the kernel gives them (from Linux 6.1 on, while some are free).  Before Linux
 * 5.14, and in a session of GPUMAP_SESSION_SPARSE, memory is taken when it is
 * touched.
 *
 * row		the row whose range of the arena it is taken from
 * bytes	at least 1; the result is aligned to 64; from 2 MiB on to 2 MiB
 *		if the range has room for that, else to 4096
 *
 * Returns	0
 *		-ENOMEM		the range has no room of this size, or there is
 *				no memory for it
 *		-ENODEV		no such row, or it has another device than when
 *				this session was opened; or its worker died so
 *				often before its first job that the next start
 *				is a second or more away; or it does not end,
 *				not even by SIGKILL
 *		-ESHUTDOWN	the agent is draining
 *		-EMFILE		no descriptor is left for the queue pair; the
 *				session has ended
 *		-EINVAL		bytes is 0
 *		-ECONNRESET, -EPROTO	the session has ended
 *		-EOWNERDEAD	called in a forked child
 * Cost		a search of the free list; system calls the first time, and
 *		for memory that was not there yet: 0.1 s for a GiB in huge
 *		pages
 * Threads	the session's own thread
 */
GPUMAP_API int gpumap_alloc(struct gpumap_session *session, uint32_t row,
			    uint64_t bytes, void **ret_memory);

/*
 * gpumap_free - free memory of gpumap_alloc(); NULL is allowed
 *
 * No job that uses the memory may be in flight.
 *
 * Returns	0, or -EINVAL when @memory did not come from gpumap_alloc()
 * Cost		a search of the free list; no system call
 * Threads	the session's own thread
 */
GPUMAP_API int gpumap_free(struct gpumap_session *session, void *memory);

#ifdef __cplusplus
}
#endif
#endif
