/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * gpumap/job.h - submit jobs to rows, and take their completions.
 */
#ifndef GPUMAP_JOB_H
#define GPUMAP_JOB_H

#include <stddef.h>
#include <stdint.h>

#include <gpumap/session.h>
#include <gpumap/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * The operation of a job.  The results are the same bits on any row, host or
 * CUDA, and for any division of the job into slices:
 *
 *   - f16 and bf16 are widened to f32, exactly; the computation is in f32, and
 *     rounded to the element once, at the end.  f64 is computed in f64.
 *   - Each product, each sum and each conversion is rounded to the nearest,
 *     ties to even.  Nothing is fused, subnormals are kept, and a result that
 *     is too large becomes an infinity.
 *   - A NaN gives a NaN; which one is unspecified.
 *   - A sum of floats has one order: in chunks of 1024 elements, lane l of 32
 *     starts with 0 and adds elements l, l + 32 and so on in turn; then each
 *     lane l adds lane l + 16, then l + 8, to l + 1, and lane 0 is an element
 *     of the next round, which goes on in the same way until one is left.
 */
enum gpumap_op {
	GPUMAP_OP_NOP = 0,
	GPUMAP_OP_FILL = 1,  /* dst[i] = pattern */
	GPUMAP_OP_COPY = 2,  /* dst[i] = src[i]; the two must not overlap, nor
			      * be the memories of two rows */
	GPUMAP_OP_SCALE = 3, /* dst[i] = alpha * src[i]; dst may be src; f16,
			      * bf16, f32, f64 */
	GPUMAP_OP_AXPY = 4,  /* dst[i] += alpha * src[i], product and sum both
			      * rounded; dst may be src; as SCALE */
	/* submitted by gpumap_buffer_alloc(); no job */
	GPUMAP_OP_ALLOC = 5,
	/* submitted by gpumap_buffer_free(); no job */
	GPUMAP_OP_FREE = 6,
	GPUMAP_OP_CAST = 7, /* dst[i] = src[i] as another dtype, the job's
			      * @to; f16, bf16 and f32 into each other; the two
			      * must not overlap */
	/* Reductions: dst is one element outside of src, which has at least
	 * one. */
	GPUMAP_OP_SUM = 8,  /* of f16, bf16 and f32 an f32; of f64 an f64; of
			    * i32 and i64 an i64, of the others an u64, which
			    * wrap */
	GPUMAP_OP_MIN = 9,  /* of src's dtype; -0 is less than +0 */
	GPUMAP_OP_MAX = 10, /* likewise */
	/* Operations with a mask, which repeats from its beginning when it
	 * ends.  Such a job takes the room of two in the queue.  dst may be
	 * src; neither may overlap the mask. */
	GPUMAP_OP_MASK_ADD = 11,  /* dst[i] = src[i] + mask[(mask_first + i) %
				  * mask_n], the mask of the same dtype: f16,
				  * bf16, f32, f64 */
	GPUMAP_OP_MASK_BOOL = 12, /* dst[i] = -infinity where that byte of the
				   * mask is not 0, else src[i], as it is */
	GPUMAP_OP_LOAD = 13, /* n bytes of the file @src_buffer, from src_at on,
			      * to dst; u8 */
	GPUMAP_OP_RUN = 14,  /* n items by the job's @program; takes the room of
			      * two in the queue */
	/* Submitted by gpumap_comm_submit(); not for jobs.  Rank r of k has
	 * send_r and gets recv_r; sends and recvs have n elements each, unless
	 * stated otherwise. */
	GPUMAP_OP_BARRIER = 16,        /* ends when all have come */
	GPUMAP_OP_ALL_REDUCE = 17,     /* recv_r = send_0 op send_1 op ... */
	GPUMAP_OP_ALL_GATHER = 18,     /* recv_r, of k * n, is all sends, by
					* their ranks */
	GPUMAP_OP_REDUCE_SCATTER = 19, /* of sends of k * n, recv_r is part r of
					* what all_reduce would give */
	GPUMAP_OP_BROADCAST = 20,      /* recv_r = send_root; the root's recv is
					* ignored */
	GPUMAP_OP_SEND = 21,           /* recv_peer = send_root */
	GPUMAP_OP_RECV = 22            /* the peer's part of SEND */
};

/* A place in time: all that one session has submitted to a row up to @value. */
struct gpumap_time {
	uint32_t row;
	uint32_t reserved; /* 0 */
	uint64_t value;    /* from gpumap_submitted(); 0: the beginning */
};

#define GPUMAP_WAITS_MAX 4u /* of one job */

struct gpumap_job {
	uint32_t op;     /* enum gpumap_op */
	uint32_t dtype;  /* enum gpumap_dtype: of the elements of src and of
			  * dst, except dst of CAST and SUM */
	void *dst;       /* in the session's arena, aligned to its elements;
			  * ignored with dst_buffer */
	const void *src; /* likewise; NULL where the operation has none */
	uint64_t n;      /* elements, of src where there is one; items of RUN */
	double alpha;    /* SCALE, AXPY: rounded to f32, except for f64 */
	uint64_t pattern; /* FILL: its low bytes, as many as an element has */
	uint64_t cookie;  /* given back with the completion */
	/* Buffers, for memory outside the arena; 0: dst or src is used. */
	uint64_t dst_buffer;
	uint64_t src_buffer;
	uint64_t dst_at; /* bytes from the beginning of the buffer */
	uint64_t src_at;
	/* A job with any of these takes the room of two in the queue. */
	uint64_t deadline_ns;            /* on CLOCK_MONOTONIC; 0 or
					  * GPUMAP_NO_DEADLINE: none */
	const struct gpumap_time *waits; /* the jobs that must have ended before
					  * this one begins; read by the call */
	uint32_t n_waits;                /* GPUMAP_WAITS_MAX at most */
	uint32_t to;                     /* CAST: enum gpumap_dtype of dst */
	/* MASK_ADD, MASK_BOOL. */
	uint32_t mask_n;      /* elements of the mask, at least 1 */
	uint32_t mask_first;  /* mask element for element 0, below mask_n */
	const void *mask;     /* as src; ignored with mask_buffer */
	uint64_t mask_buffer; /* or from gpumap_buffer_register_mask() */
	uint64_t mask_at;
	/* RUN.  src and dst are aligned to the dtype's elements, for items of
	 * any size, and are the same or do not overlap. */
	uint64_t program;        /* from gpumap_program_load() */
	uint32_t src_item_bytes; /* of an item of src; 0: there is no src */
	uint32_t dst_item_bytes; /* likewise */
	const void *params;    /* in the arena; copied when the job is begun */
	uint32_t params_bytes; /* GPUMAP_PARAMS_MAX at most; 0: no params */
	uint32_t reserved;     /* 0 */
	uint64_t spare[4];     /* 0; for fields of later versions */
};

#define GPUMAP_PARAMS_MAX 4096u

struct gpumap_done {
	uint64_t cookie;
	uint32_t row;
	int32_t status;    /* 0 or a negative errno, see gpumap_submit() */
	uint64_t spare[2]; /* 0 */
};

/*
 * gpumap_submit - submit jobs to the worker of one row, in order
 *
 * All of @jobs or none are submitted.  Memory that they name must stay
 * unchanged until they have ended.  Jobs of a row are done in order.  A job
 * that waits for jobs on other rows begins when all of those have ended, with
 * or without an error, and sees in memory what they wrote; later jobs of its
 * row wait, too.  A job can only wait for jobs that were submitted before it,
 * so no job waits for ever unless another takes for ever.
 *
 * A LOAD that fails may have written parts of its destination, anywhere in it.
 * A LOAD from a file system that does not answer takes for ever, and holds up
 * the jobs of its own session on the row, but no other session's.
 *
 * A job ends with one of
 *
 *	0		done
 *	-EINVAL		its dtype does not go with its operation, a pointer is
 *			not aligned, source and destination overlap, or
 *			destination and mask, or a reduction has no elements
 *	-ERANGE		it reaches past the arena or the buffer
 *	-ESTALE		its buffer was lost with an earlier worker, or was freed
 *			before a copy to another row began
 *	-EOPNOTSUPP	the device cannot do this operation
 *	-ETIME		its deadline passed before it began, and nothing was
 *			done; or between its slices, and no further slice began
 *	-ECANCELED	by gpumap_cancel() or gpumap_cancel_job(), and nothing
 *			was done
 *	-ENODATA	LOAD: the file ends before the bytes to be read
 *	-EREMOTEIO	LOAD: the storage or the file system failed a read
 *	-EACCES, -EBADF	LOAD: the worker may not read the file
 *	-ENOMEM		LOAD: the row has no memory to read to
 *	-EIO		the worker died before the job ended, and it may have
 *			been done in part; or the job was submitted between a
 *			worker's death and the row's being READY again, or
 *			while a worker took another's place; or a
 *			worker died before it had done, as far as this session
 *			had seen, the jobs that this one waits for, and nothing
 *			was done
 *	-ENODEV		the row is lost, drained, or unusable by its health
 *	-ECONNRESET	the agent died; a worker may still be writing until it
 *			notices that
 *
 * Returns	0
 *		-EAGAIN		fewer than @n jobs fit beside those in flight:
 *				take completions first
 *		-EINVAL		an operation or dtype that this library does not
 *				know, n is 0 or more than fit into the depth;
 *				more than four waits, or a wait for a value that
 *				was not submitted; a LOAD whose source is not a
 *				file, or a file that is not a LOAD's source; a
 *				mask of another dtype
 *		-ERANGE		a pointer outside of this session's arena, or
 *				elements outside of the buffer: each operand and
 *				mask lies in one buffer, even if another is
 *				registered next to it; for a buffer
 *				gpumap_refusal() says more
 *		-ESTALE		a buffer was freed
 *		-EPERM		a buffer is another session's
 *		-ENOENT		the mask has no replica on this row
 *		-EACCES		the destination is READ_ONLY
 *		-EOPNOTSUPP	a buffer is memory of another row, and not the
 *				source of a COPY
 *		-ENODEV		no such row
 *		-ECONNRESET, -EPROTO	the session has ended
 *		-EOWNERDEAD	called in a forked child
 *		-ENOMEM, -ESHUTDOWN, -EMFILE	as gpumap_alloc(), the first
 *						time
 *		-EIO		the row's worker died over a registration, or
 *				over another row's buffer, that the row was not
 *				told of yet; the buffer is valid
 *		-EDQUOT, -EPERM, -ENOMEM, ...
 *				the answer of the agent and the worker to a
 *				registration, or to another row's buffer, that
 *				the row was not told of yet; gpumap_refusal()
 *				says more
 * Cost		no system call while the worker is awake, one when it sleeps;
 *		the first call on a row makes its queue pair; the first that
 *		names a registration there has it mapped; the first that names
 *		another row's buffer sets up access between the two workers
 * Threads	the session's own thread
 */
GPUMAP_API int gpumap_submit(struct gpumap_session *session, uint32_t row,
			     const struct gpumap_job *jobs, uint32_t n);

/*
 * gpumap_credit - count the jobs that fit beside those in flight
 *
 * A job with a deadline or waits, a mask, a cast or a program takes the room of
 * two.  A row that this session has not used yet has the room of its depth.
 *
 * Returns	the number of jobs that take the room of one
 *		-ENODEV		no such row
 *		-ECONNRESET, -EPROTO, -EOWNERDEAD
 * Cost		no system call; completions that gpumap_poll() has not taken
 *		still take their room
 * Threads	the session's own thread
 */
GPUMAP_API int gpumap_credit(struct gpumap_session *session, uint32_t row);

/*
 * gpumap_submitted - the place in time of the last submission to a row
 *
 * A job that waits for it, on any row, begins when all jobs that this session
 * has submitted to @row so far have ended.
 *
 * ret_time	its value is 0 if nothing was submitted
 *
 * Returns	0, -ENODEV: no such row, -ECONNRESET, -EPROTO, -EOWNERDEAD
 * Cost		no system call
 * Threads	the session's own thread
 */
GPUMAP_API int gpumap_submitted(struct gpumap_session *session, uint32_t row,
				struct gpumap_time *ret_time);

/*
 * gpumap_cancel - cancel the jobs of a row that have not begun
 *
 * Each of those jobs ends with -ECANCELED and has done nothing.  The worker
 * checks once in each turn: jobs that it begins before the check, and one that
 * it does in slices, end as if there had been no call.  gpumap_poll() takes the
 * completions of all of them as usual.  A job that waits has not begun.  The
 * row's part of a model that is being loaded is among them, its allocations and
 * its LOADs: the model fails with -ECANCELED.
 *
 * Returns	0
 *		-ENODEV		no such row
 *		-ECONNRESET, -EPROTO, -EOWNERDEAD
 * Cost		one system call, which does not wait
 * Threads	the session's own thread
 */
GPUMAP_API int gpumap_cancel(struct gpumap_session *session, uint32_t row);

/*
 * gpumap_cancel_job - cancel the jobs of a row that have this cookie
 *
 * As gpumap_cancel(), for those of gpumap_submit() that have @cookie, and at
 * any time: the worker checks each job when its turn comes, and those that wait
 * when it is woken.  Jobs behind them go on.
 *
 * Returns	how many there are, of which some may have begun; 0: none
 *		-ENODEV		no such row
 *		-ECONNRESET, -EPROTO, -EOWNERDEAD
 * Cost		a search of the jobs in flight on the row, and one system call,
 *		which does not wait
 * Threads	the session's own thread
 */
GPUMAP_API int gpumap_cancel_job(struct gpumap_session *session, uint32_t row,
				 uint64_t cookie);

/*
 * gpumap_poll - take completions, without waiting
 *
 * Returns	how many were stored, at most @n; 0: none
 *		-ECONNRESET	the session has ended and all completions have
 *				been taken
 *		-EPROTO		the worker violated the protocol; close the
 *				session
 *		-EINVAL		n is 0
 *		-EOWNERDEAD	called in a forked child
 * Cost		no system call while the agent lives; as gpumap_model_progress()
 *		while a model is being loaded
 * Threads	the session's own thread
 */
GPUMAP_API int gpumap_poll(struct gpumap_session *session,
			   struct gpumap_done *ret_done, uint32_t n);

/*
 * gpumap_wait - take completions, waiting for the first
 *
 * deadline_ns	on CLOCK_MONOTONIC, or GPUMAP_NO_DEADLINE
 *
 * Returns	as gpumap_poll(), but never 0:
 *		-ETIME		the deadline passed; the jobs are still in
 *				flight
 *		-ENODATA	nothing is in flight
 * Cost		spins up to 50 microseconds where that pays, then a futex wait
 * Threads	the session's own thread
 */
GPUMAP_API int gpumap_wait(struct gpumap_session *session,
			   struct gpumap_done *ret_done, uint32_t n,
			   uint64_t deadline_ns);

/* The part of a scatter that one row had. */
struct gpumap_tile {
	uint32_t row;
	int32_t status; /* as a job ends, see gpumap_submit() */
	uint64_t first; /* element */
	uint64_t n;     /* elements */
	/* of its row, as in gpumap_time: a wait for it waits for this tile */
	uint64_t value;
	uint64_t spare[2]; /* 0 */
};

/* Tiles that end with -EIO, -ENODEV, -EOPNOTSUPP or -ENOMEM are done once more,
 * one after the other, on a READY host row that has not failed, if there is
 * one. */
#define GPUMAP_SCATTER_FALLBACK (UINT32_C(1) << 0)

struct gpumap_scatter_opts {
	size_t size;           /* sizeof(struct gpumap_scatter_opts) */
	const uint32_t *rows;  /* each once; NULL: all READY hosts and cards
				* of the device table, once no worker is being
				* started */
	const double *weights; /* one per row of rows; NULL: their scores */
	uint32_t n_rows;       /* in rows, weights and buffers */
	uint32_t flags;        /* GPUMAP_SCATTER_* */
	uint64_t deadline_ns;  /* on CLOCK_MONOTONIC; 0: none */
	/* One per row of rows, if each row has a buffer of its own: its tile
	 * begins at the job's dst_at or src_at in it.  NULL: the job's. */
	const uint64_t *dst_buffers;
	const uint64_t *src_buffers;
	/* For a reduction whose results are in the arena: room for one element,
	 * with any alignment, which receives their combination; NULL: the
	 * caller combines them. */
	void *ret_combined;
};

/*
 * gpumap_scatter - split one job's elements over rows, and wait for all
 *
 * The elements are split by weight with the largest-remainder rule, exactly;
 * rows that get none are left out.  Memory that the rows share, the arena and
 * registered memory, is split in the same way; with dst_buffers or src_buffers
 * each row uses the beginning of its own buffer.  For a reduction dst has as
 * many elements as there are tiles, each its tile's result, in their order;
 * with dst_buffers each row has its own.  A mask is not split: each tile
 * continues in it where the previous one ends.  With ret_combined the results
 * of a reduction are combined once every tile has ended with 0, from the first
 * to the last: each sum of floats is rounded, integers wrap, -0 is less than
 * +0, and a NaN gives a NaN.  So a sum of floats depends on the split, and on
 * nothing else: a caller that needs the same sum again names rows and weights.
 * Credit is checked on every row before the first tile is submitted.
 * job->cookie is not used, and completions of other jobs stay for
 * gpumap_poll().  job->waits and job->deadline_ns hold for every tile.
 *
 * Without a list of rows the call waits for rows that are PROBING or
 * RESTARTING, until they are READY or FAILED, as gpumap_alloc() waits for one:
 * after a restart of the agent no row is left out.  See gpumap_wait_ready().
 *
 * With GPUMAP_SCATTER_FALLBACK the result must not overlap the input, so AXPY
 * and jobs in place are refused; so are dst_buffers, src_buffers and LOAD,
 * which another row does not reach.  A tile that was done again has the row and
 * the value of that second run.
 *
 * opts		NULL for the defaults
 * ret_tiles	a tile per row that had one, in the order of the rows; remaining
 *		room gets tiles of 0 elements; may be NULL
 * n		room in ret_tiles
 *
 * Returns	the number of tiles; every one has ended with 0
 *		-EIO, -ENODEV, -EINVAL, -ERANGE, ...
 *				the first tile's status that was not 0; all
 *				tiles have ended, and ret_tiles tells which
 *				failed
 *		-EAGAIN		a row has no credit left
 *		-EINVAL		as gpumap_submit(); a row is named twice;
 *				weights or buffers without rows; a flag that
 *				does not go with the job; ret_combined for a job
 *				that is no reduction, or has its results in
 *				buffers
 *		-ERANGE		the job reaches past the arena or a buffer
 *		-ENODEV		no row, or a row that does not exist; without a
 *				list of rows also: a worker was still being
 *				started when opts->deadline_ns passed
 *		-ESHUTDOWN	the agent is shutting down, and no row is READY
 *		-ENOBUFS	more tiles than n
 *		-ESTALE, -EPERM, -ENOENT, -EACCES, -EOPNOTSUPP, -EDQUOT
 *				of a buffer, as gpumap_submit()
 *				in these cases nothing was submitted and
 *				ret_tiles is untouched
 *		-ETIME		opts->deadline_ns passed; tiles that had not
 *				ended carry -ETIME and still use their memory:
 *				reuse it in jobs that wait for those tiles, or
 *				close the session
 *		-ECONNRESET, -EOWNERDEAD, -E2BIG
 * Cost		per tile as gpumap_submit(), then as gpumap_wait()
 * Threads	the session's own thread
 */
GPUMAP_API int gpumap_scatter(struct gpumap_session *session,
			      const struct gpumap_job *job,
			      const struct gpumap_scatter_opts *opts,
			      struct gpumap_tile *ret_tiles, uint32_t n);

/*
 * gpumap_scatter_alloc - allocate memory that a scatter finds at home
 *
 * Memory of gpumap_alloc() lies on one row's NUMA node, and rows of other nodes
 * read and write it across.  Here each row's tile lies on the row's own node,
 * as far as pages of 4 KiB, or of 2 MiB where the kernel gives those, can be
 * told apart.  Less than 2 MiB, or where the tiles' rows have one node or the
 * kernel does not let this process choose, it is memory of the first tile's
 * row.
 *
 * The memory is of the range of the first tile's row, and goes with
 * gpumap_free().  Its content is zero, or what this session left there.
 *
 * n		elements that the scatter will have
 * element	bytes of each; an operation with a source and a result of
 *		different types has memory of its own for each
 * opts		rows and weights as the scatter will have them; NULL for the
 *		defaults.  A caller that names them has the same tiles again
 *		after the device table has changed
 *
 * Returns	0
 *		-EINVAL		n or element is 0; a row is named twice; weights
 *				without rows
 *		-ENODEV, -ESHUTDOWN	as gpumap_scatter(), which waits
 *				likewise
 *		-ENOMEM, and what gpumap_alloc() returns
 *		-E2BIG		a field newer than this library
 * Cost		as gpumap_alloc(), and a system call for each tile
 * Threads	the session's own thread
 */
GPUMAP_API int gpumap_scatter_alloc(struct gpumap_session *session, uint64_t n,
				    uint32_t element,
				    const struct gpumap_scatter_opts *opts,
				    void **ret_memory);

#ifdef __cplusplus
}
#endif
#endif
