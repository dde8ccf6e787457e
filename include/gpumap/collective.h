/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * gpumap/collective.h - all_reduce and its like, over the rows of a group.
 *
 * Jobs of several rows at once, each a rank of a group.  A group is that of a
 * mesh, and a communicator is one session's use of it: the session has a queue
 * on each of the rows, and submits each collective once, for all of the ranks.
 *
 * Each rank's part of a collective takes its turn in its own row's queue, and
 * what the session submits behind it waits there until it has ended; other
 * sessions go on.  A group's collectives are done in the order in which they
 * were submitted, and so are those of groups that share a row: as one session
 * submits all of them, no two rows disagree over that order, and none waits for
 * another for ever.
 *
 * A rank's results are the same bits on each rank and in each run.  f16 and
 * bf16 are computed in f32, in the order of the ranks, and rounded once.
 * Integers wrap; their average is exact, and cut off towards zero.  The least
 * and greatest of floats are those of GPUMAP_OP_MIN and MAX, and a NaN wins.
 *
 * Every rank takes part, or everybody gets an error.  What ends in any other
 * way than well or with -EINVAL breaks the communicator: all that is under way
 * in it ends, with the same errno, and what is submitted later with -ESTALE.
 * Close it then and open it anew, which waits until all of the rows' workers
 * are back.
 *
 * Where one of the rows is a card, what the ranks give and get goes by way of
 * memory of the host, a mebibyte at a time, and is computed there: results are
 * the same bits as those of host rows.
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

/* What several ranks' elements become. */
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
 * gpumap_comm_open - take up a group of a mesh
 *
 * mesh		published with gpumap_mesh_publish(); the rows that its ranks
 *		have now are the communicator's, whatever it has later, until
 *		gpumap_comm_renew()
 * group	NULL: "world"
 * ret_comm	give it back with gpumap_comm_close(), before the session
 *
 * Returns	0
 *		-ENOENT		there is no such mesh, or no such group of it
 *		-EOPNOTSUPP	the session was opened with
 *				GPUMAP_SESSION_PROGRAMS; or the agent is older
 *				than this, or than cards as ranks
 *		-E2BIG		the group has more than 64 ranks
 *		-EDQUOT		this session has 256 of them, or this user 1024,
 *				or as many bytes of arenas as it may: one takes
 *				9 KiB for each rank, and 512 bytes for each two;
 *				with a card among them 2 MiB more for each, and
 *				once more
 *		-ESTALE		a row's worker ended meanwhile: try again
 *		-ENODEV, -ESHUTDOWN, -EMFILE, -ENOMEM, -ECONNRESET, -EPROTO,
 *		-EOWNERDEAD	as gpumap_alloc(); -EAGAIN, -EINVAL as
 *				gpumap_mesh_group().  gpumap_refusal() says more
 * Cost		a round trip on the control socket, and one to each row's
 *		worker; waits for workers that are just being started
 * Threads	the session's own thread
 */
GPUMAP_API int gpumap_comm_open(struct gpumap_session *session,
				const char *mesh, const char *group,
				struct gpumap_comm **ret_comm);

/*
 * Where all ranks are cards they may do it among themselves, by NCCL, at the
 * speed of the links between them.  That is asked for, because it gives up some
 * of what is said above: sums depend on the order in which NCCL takes the
 * ranks, which is that of its links, and f16 and bf16 may be rounded on the
 * way; the bits may differ from one machine to the next, and from those of
 * windows; which of a NaN and a number is the least or the greatest, and how
 * the average of integers is cut off or whether their sum wraps before, is
 * NCCL's affair.  All else holds.
 *
 * What goes so is ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER and BROADCAST of
 * buffers that are the cards' own, of all ranks, and SEND of such of the two;
 * anything else, and all of a group whose cards could not meet, goes by way of
 * windows as ever.  They meet where nccl in [cuda] of gpumapd.conf says so,
 * NCCL 2.19 or later is there, none of them is a part of a card (MIG), and none
 * of them serves another session's communicator in this way, or eight of this
 * one's.
 */
#define GPUMAP_COMM_NCCL (UINT32_C(1) << 0)

struct gpumap_comm_opts {
	size_t size;       /* sizeof(struct gpumap_comm_opts) */
	uint32_t flags;    /* GPUMAP_COMM_* */
	uint32_t reserved; /* 0 */
};

/*
 * gpumap_comm_open_opts - take up a group of a mesh, in other ways
 *
 * opts		NULL: as gpumap_comm_open()
 *
 * Returns	as gpumap_comm_open(), or
 *		-E2BIG		a field or a flag newer than this library.  An
 *				agent older than a flag does without it, and
 *				gpumap_comm_flags() says so
 * Cost		as gpumap_comm_open(); with GPUMAP_COMM_NCCL also the meeting of
 *		the cards, seconds, and some hundred MiB of each card, which no
 *		session is charged for
 * Threads	the session's own thread
 */
GPUMAP_API int gpumap_comm_open_opts(struct gpumap_session *session,
				     const char *mesh, const char *group,
				     const struct gpumap_comm_opts *opts,
				     struct gpumap_comm **ret_comm);

/*
 * gpumap_comm_flags - what it has become
 *
 * Returns	GPUMAP_COMM_NCCL where that was asked for and its cards have
 *		met; or 0. gpumap_comm_renew() may change it
 * Cost		no system call
 * Threads	the session's own thread
 */
GPUMAP_API uint32_t gpumap_comm_flags(const struct gpumap_comm *comm);

/*
 * gpumap_comm_renew - take up its group again
 *
 * After a worker of it has died, a deadline has passed or a collective was
 * cancelled: whatever breaks a communicator breaks it for good until then.  Its
 * ranks are on the rows that the mesh has for them now, which may be other rows
 * and another number of them where somebody has reshaped it.  It keeps the
 * flags it was opened with; gpumap_comm_flags() says what has become of them
 * this time.  Collectives that are under way end with -EIO, as by
 * gpumap_comm_close().
 *
 * Returns	0
 *		or as gpumap_comm_open(): it stays broken then, to be renewed
 *		later or closed.  -ESTALE: a row's worker ended meanwhile: try
 *		again
 * Cost		those of gpumap_comm_close() and gpumap_comm_open()
 * Threads	the session's own thread
 */
GPUMAP_API int gpumap_comm_renew(struct gpumap_comm *comm);

/*
 * gpumap_comm_close - give it up; NULL is allowed
 *
 * Collectives that are under way end with -EIO and are taken by gpumap_poll()
 * as ever.  When this has returned no worker touches their memory any more.
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
 * gpumap_comm_rows - which rows are its ranks
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

/* What one rank gives and gets: in the session's arena, in what it has
 * registered, or in buffers of the rank's own row, aligned to its elements.
 * Where all ranks are host rows a buffer has to be one that was allocated with
 * GPUMAP_BUFFER_EXPORTABLE. */
struct gpumap_rank {
	const void *send; /* in the arena; of no account with send_buffer */
	void *recv;       /* likewise */
	uint64_t send_buffer;
	uint64_t recv_buffer;
	uint64_t send_at; /* bytes from the beginning of the buffer */
	uint64_t recv_at;
};

struct gpumap_collective {
	size_t size;     /* sizeof(struct gpumap_collective) */
	uint32_t op;     /* GPUMAP_OP_BARRIER to GPUMAP_OP_SEND */
	uint32_t dtype;  /* GPUMAP_DTYPE_U8, _F16, _BF16, _F32, _I32 or _I64 */
	uint32_t reduce; /* ALL_REDUCE and REDUCE_SCATTER: enum gpumap_reduce */
	uint32_t root;   /* BROADCAST, SEND: the rank that gives */
	uint32_t peer;   /* SEND: the rank that gets */
	uint32_t n_waits;
	uint64_t n; /* elements */
	/* One for each rank, in their order, whether it gives and gets anything
	 * or not; NULL for BARRIER.  A rank's send and recv may be the same
	 * where they have the same size; where not, the smaller may be the
	 * rank's part of the larger.  Nothing that is written may overlap
	 * otherwise. */
	const struct gpumap_rank *ranks;
	const struct gpumap_time *waits; /* of each rank, as of a job */
	uint64_t deadline_ns; /* on CLOCK_MONOTONIC; 0 or GPUMAP_NO_DEADLINE:
			       * none */
	uint64_t cookie;      /* given back with the completion */
};

/*
 * gpumap_collective - have all ranks of a group do something together
 *
 * Submits the ranks' parts to all of their rows, or none.  There is one
 * completion, when the last of them has ended: gpumap_poll() and gpumap_wait()
 * give it with @cookie and the row of rank 0.  A job that is to wait for it
 * waits for what was submitted last, gpumap_submitted(), to each of the rows
 * whose ranks it needs: when a rank's part has ended its recv is whole, and
 * nobody reads its send.
 *
 * It ends with one of
 *
 *	0		done, by all
 *	-EINVAL		operation, reduction and dtype do not go together, or
 *			memory overlaps where it must not.  Nothing was done
 *	-EFAULT		a rank does not reach memory of another
 *	-ETIME		the deadline passed.  It is told 150 ms later at most,
 *			even where a worker does not answer; that one may
 *			write to its rank's recv until gpumap_comm_close()
 *			returns
 *	-ECANCELED	by gpumap_cancel(), on any of the rows, begun or not
 *	-EIO		the worker of a rank ended; or it was closed; or as a
 *			job
 *	-ESTALE		the communicator had been broken before
 *	-ENODEV, -ECONNRESET	as a job
 *
 * What was to be received is undefined after any of them but 0 and -EINVAL.
 *
 * Returns	0
 *		-EAGAIN		one of the rows has not enough credit, or as
 *				many collectives as a queue is deep wait to be
 *				taken: take completions first
 *		-EINVAL		no such operation, dtype, reduction or rank; no
 *				@ranks; a pointer that is not aligned; a wait
 *				for what was not submitted
 *		-ERANGE		memory outside of the arena or of a buffer
 *		-ESTALE		the communicator is broken: see
 *				gpumap_comm_renew(); or a buffer was freed
 *		-EPERM		a buffer is another session's
 *		-EACCES		recv is READ_ONLY
 *		-EOPNOTSUPP	a buffer is neither registered nor one of its
 *				rank's row; or of host rows alone, and not
 *				EXPORTABLE
 *		-E2BIG		a field newer than this library
 *		-ECONNRESET, -EPROTO, -EOWNERDEAD, and what gpumap_submit() has
 *		of buffers that a row has not seen yet
 * Cost		as gpumap_submit(), for each row; up to 4 KiB of a rank go by
 *		way of one step, in about the time of two jobs' round trips
 * Threads	the session's own thread
 */
GPUMAP_API int gpumap_collective(struct gpumap_comm *comm,
				 const struct gpumap_collective *what);

#ifdef __cplusplus
}
#endif
#endif
