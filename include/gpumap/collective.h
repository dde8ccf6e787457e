/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * gpumap/collective.h - run all_reduce and other collectives over the rows of a
 * group.
 *
 * A collective is a job of several rows at once, each a rank of a group of a
 * mesh.  A communicator is one session's use of a group: the session has a
 * queue on each of the rows, and submits each collective once, for all of the
 * ranks.
 *
 * Each rank's part of a collective is an entry in its own row's queue, and the
 * session's later jobs wait there until it has ended; other sessions go on.  A
 * group's collectives are done in the order in which they were submitted, and
 * so are those of groups that share a row: one session submits all of them, so
 * all rows have the same order, and no row waits for another for ever.
 *
 * A rank's results are the same bits on each rank and in each run.  f16 and
 * bf16 are computed in f32, in the order of the ranks, and rounded once.
 * Integers wrap; their average is exact, and truncated towards zero.  The least
 * and greatest of floats are those of GPUMAP_OP_MIN and MAX; a NaN gives a NaN.
 *
 * Every rank takes part, or the collective ends with an error.  A collective
 * that ends with neither 0 nor -EINVAL breaks the communicator: all collectives
 * that are under way in it end, with the same errno, and later ones end with
 * -ESTALE.  Close it then and open it again, which waits until all of the rows'
 * workers are back.
 *
 * Where one of the rows is a card, the ranks' data passes through memory of the
 * host, a mebibyte at a time, and is computed there: results are the same bits
 * as those of host rows.
 */
#ifndef GPUMAP_COLLECTIVE_H
#define GPUMAP_COLLECTIVE_H

#include <stddef.h>
#include <stdint.h>

#include <gpumap/job.h>
#include <gpumap/session.h>
#include <gpumap/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The operation that combines several ranks' elements. */
enum gpumap_reduce {
	GPUMAP_REDUCE_SUM = 0,
	GPUMAP_REDUCE_PRODUCT = 1,
	GPUMAP_REDUCE_MIN = 2,
	GPUMAP_REDUCE_MAX = 3,
	GPUMAP_REDUCE_AVERAGE = 4
};

/* One session's use of a mesh's group.  Opaque. */
struct gpumap_comm;

#define GPUMAP_COMM_RANKS_MAX 64u

/*
 * gpumap_comm_open - open a communicator for a group of a mesh
 *
 * mesh		published with gpumap_mesh_publish(); the communicator has the
 *		rows that its ranks have now, even if the mesh changes, until
 *		gpumap_comm_renew()
 * group	NULL: "world"
 * ret_comm	give it back with gpumap_comm_close(), before the session
 *
 * Returns	0
 *		-ENOENT		there is no such mesh, or no such group of it
 *		-EOPNOTSUPP	the session was opened with
 *				GPUMAP_SESSION_PROGRAMS; or the agent is older
 *				than collectives, or than cards as ranks
 *		-E2BIG		the group has more than 64 ranks
 *		-EDQUOT		this session has 256 communicators, or this user
 *				has 1024, or as many bytes of arenas as it may:
 *				one takes 9 KiB for each rank, and 512 bytes for
 *				each two ranks; with a card among them 2 MiB
 *				more for each rank, and 2 MiB once
 *		-ESTALE		a row's worker ended meanwhile, or a drain of
 *				another card began: try again
 *		-ENODEV, -ESHUTDOWN, -EMFILE, -ENOMEM, -ECONNRESET, -EPROTO,
 *		-EOWNERDEAD	as gpumap_alloc(); -EAGAIN, -EINVAL as
 *				gpumap_mesh_group().  gpumap_refusal() says more
 * Cost		a round trip on the control socket, and one to each row's
 *		worker; waits for workers that are being started
 * Threads	the session's own thread
 */
GPUMAP_API int gpumap_comm_open(struct gpumap_session *session,
				const char *mesh, const char *group,
				struct gpumap_comm **ret_comm);

/*
 * Where all ranks are cards, the cards may do collectives among themselves, by
 * NCCL, at the speed of the links between them.  The caller must ask for that,
 * because some of the above does not hold then: sums depend on the order in
 * which NCCL takes the ranks, which follows its links, and f16 and bf16 may be
 * rounded on the way.  The bits may differ from one machine to the next, and
 * from those of collectives that pass through the host.  NCCL decides which of
 * a NaN and a number is the least or the greatest, how the average of integers
 * is truncated, and whether their sum wraps before.  All else holds.
 *
 * NCCL does ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER and BROADCAST if the buffers
 * of all ranks are the cards' own, and SEND if both buffers are.  All others,
 * and all collectives of a group whose cards could not form an NCCL
 * communicator, pass through the host.  Cards form one if nccl in [cuda] of
 * gpumapd.conf permits it, NCCL 2.19 or later is installed, no rank is a part
 * of a card (MIG), no card serves another session's communicator in this way,
 * or eight of this session's, and no card of the node is drained or has left.
 * Cards of HIP do the same by RCCL, and rccl in [hip] permits it.
 */
#define GPUMAP_COMM_NCCL (UINT32_C(1) << 0)

struct gpumap_comm_opts {
	size_t size;       /* sizeof(struct gpumap_comm_opts) */
	uint32_t flags;    /* GPUMAP_COMM_* */
	uint32_t reserved; /* 0 */
};

/*
 * gpumap_comm_open_opts - open a communicator for a group, with options
 *
 * opts		NULL: as gpumap_comm_open()
 *
 * Returns	as gpumap_comm_open(), or
 *		-E2BIG		a field or a flag newer than this library
 * Cost		as gpumap_comm_open(); with GPUMAP_COMM_NCCL also seconds for
 *		the cards to form their communicator, and some hundred MiB of
 *		each card, for which no session is charged
 * Threads	the session's own thread
 */
GPUMAP_API int gpumap_comm_open_opts(struct gpumap_session *session,
				     const char *mesh, const char *group,
				     const struct gpumap_comm_opts *opts,
				     struct gpumap_comm **ret_comm);

/*
 * gpumap_comm_flags - the flags that are in effect
 *
 * Returns	GPUMAP_COMM_NCCL if that was requested and its cards have formed
 *		a communicator; or 0. gpumap_comm_renew() may change it
 * Cost		no system call
 * Threads	the session's own thread
 */
GPUMAP_API uint32_t gpumap_comm_flags(const struct gpumap_comm *comm);

/*
 * gpumap_comm_renew - open the communicator's group again
 *
 * Call this after one of its workers has died, a deadline has passed or a
 * collective was cancelled: a broken communicator stays broken until then.  Its
 * ranks are on the rows that the mesh has for them now; these may be other
 * rows, and another number of them, if the mesh was published again.  The
 * communicator keeps the flags that it was opened with; gpumap_comm_flags()
 * tells which are in effect this time.  Collectives that are under way end with
 * -EIO, as by gpumap_comm_close().
 *
 * Returns	0 or as gpumap_comm_open(): the communicator stays broken then;
 *		renew it later or close it.  -ESTALE: a row's worker ended
 *		meanwhile, or a drain of another card began: try again
 * Cost		those of gpumap_comm_close() and gpumap_comm_open()
 * Threads	the session's own thread
 */
GPUMAP_API int gpumap_comm_renew(struct gpumap_comm *comm);

/*
 * gpumap_comm_close - close a communicator; NULL is allowed
 *
 * Collectives that are under way end with -EIO, and gpumap_poll() takes them as
 * usual.  When this has returned no worker touches their memory any more.
 *
 * Returns	0; -ECONNRESET, -EPROTO, -EOWNERDEAD: it is freed all the same
 * Cost		a round trip on the control socket, and one to each row's
 *		worker; a worker that is stopped is waited for until the agent
 *		ends it, for about three seconds, and one whose card does not
 *		end a copy for about thirty
 * Threads	the session's own thread
 */
GPUMAP_API int gpumap_comm_close(struct gpumap_comm *comm);

/*
 * gpumap_comm_rows - the rows of a communicator's ranks
 *
 * ret_rows	receives the row of each rank, as far as there is room
 * n		room in ret_rows
 *
 * Returns	how many ranks there are, which may be more than @n
 * Cost		no system call
 * Threads	the session's own thread
 */
GPUMAP_API int gpumap_comm_rows(const struct gpumap_comm *comm,
				uint32_t *ret_rows, size_t n);

/* The memory from which one rank sends and into which it receives: in the
 * session's arena, in registered memory, or in buffers of the rank's own row,
 * aligned to its elements.  Where all ranks are host rows a buffer must be
 * allocated with GPUMAP_BUFFER_EXPORTABLE. */
struct gpumap_rank {
	const void *send; /* in the arena; ignored with send_buffer */
	void *recv;       /* likewise */
	uint64_t send_buffer;
	uint64_t recv_buffer;
	uint64_t send_at; /* bytes from the beginning of the buffer */
	uint64_t recv_at;
	uint64_t spare[2]; /* 0; for fields of later versions */
};

struct gpumap_collective {
	size_t size;     /* sizeof(struct gpumap_collective) */
	uint32_t op;     /* GPUMAP_OP_BARRIER to GPUMAP_OP_SEND */
	uint32_t dtype;  /* GPUMAP_DTYPE_U8, _F16, _BF16, _F32, _I32 or _I64 */
	uint32_t reduce; /* ALL_REDUCE and REDUCE_SCATTER: enum gpumap_reduce */
	uint32_t root;   /* BROADCAST, SEND: the rank that sends */
	uint32_t peer;   /* SEND: the rank that receives */
	uint32_t n_waits;
	uint64_t n; /* elements */
	/* One for each rank, in their order, whether it sends and receives or
	 * not; NULL for BARRIER.  A rank's send and recv may be the same if
	 * they have the same size; otherwise the smaller may be the rank's part
	 * of the larger.  Memory that is written may not overlap in any other
	 * way. */
	const struct gpumap_rank *ranks;
	const struct gpumap_time *waits; /* for each rank, as for a job */
	uint64_t deadline_ns; /* on CLOCK_MONOTONIC; 0 or GPUMAP_NO_DEADLINE:
			       * none */
	uint64_t cookie;      /* given back with the completion */
};

/*
 * gpumap_comm_submit - submit a collective of all ranks of a group
 *
 * Submits the ranks' parts to all of their rows, or none.  There is one
 * completion, when the last of them has ended: gpumap_poll() and gpumap_wait()
 * return it with @cookie and the row of rank 0.  A job that must wait for the
 * collective waits for the last submission, gpumap_submitted(), on each of the
 * rows whose ranks it needs: when a rank's part has ended its recv is complete,
 * and no rank reads its send any more.
 *
 * A collective ends with one of
 *
 *	0		done, by all
 *	-EINVAL		operation, reduction and dtype do not go together, or
 *			memory overlaps where it must not.  Nothing was done
 *	-EFAULT		a rank does not reach memory of another
 *	-ETIME		the deadline passed.  The completion comes 150 ms later
 *			at most, even if a worker does not answer; such a worker
 *			may write to its rank's recv until gpumap_comm_close()
 *			returns
 *	-ECANCELED	by gpumap_cancel(), on any of the rows, begun or not
 *	-EIO		the worker of a rank ended; or NCCL refused, and
 *			nccl_failed in the agent's log says why; or the
 *			communicator was closed; or as a job
 *	-ESTALE		the communicator had been broken before
 *	-ENODEV, -ECONNRESET	as a job
 *
 * The content of all recv is undefined after any of them except 0 and -EINVAL.
 *
 * Returns	0
 *		-EAGAIN		one of the rows has not enough credit, or the
 *				completions of as many collectives as a queue is
 *				deep were not taken yet: take completions first
 *		-EINVAL		no such operation, dtype, reduction or rank; no
 *				@ranks; a pointer that is not aligned; a wait
 *				for a value that was not submitted
 *		-ERANGE		memory outside of the arena or of a buffer
 *		-ESTALE		the communicator is broken: see
 *				gpumap_comm_renew(); or a buffer was freed
 *		-EPERM		a buffer is another session's
 *		-EACCES		recv is READ_ONLY
 *		-EOPNOTSUPP	a buffer is neither registered nor one of its
 *				rank's row; or the group has host rows only, and
 *				it is not EXPORTABLE
 *		-E2BIG		a field newer than this library
 *		-ECONNRESET, -EPROTO, -EOWNERDEAD, and the errors of
 *		gpumap_submit() for buffers that a row was not told of yet
 * Cost		as gpumap_submit(), for each row; up to 4 KiB of a rank take one
 *		step, in about the time of two jobs' round trips
 * Threads	the session's own thread
 */
GPUMAP_API int gpumap_comm_submit(struct gpumap_comm *comm,
				  const struct gpumap_collective *what);

#ifdef __cplusplus
}
#endif
#endif
