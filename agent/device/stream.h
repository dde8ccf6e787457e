/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * stream - the backend of rows of GPUs, over a driver (gpu.h).
 *
 *	stream.c		one device opened and closed, and what went
 *				wrong
 *	stream_lanes.c		slices under way, who waits for them
 *	stream_work.c		from a slice to calls of the driver
 *	stream_reduce.c		and those of reductions
 *	stream_mask.c		and the masks of those that have one
 *	stream_memory.c		memory of the device, and what others fetch
 *	stream_regions.c	memory of clients, reached or staged
 *
 * Lanes.  A row has a few lanes that all sessions share.  A slice goes to the
 * lane of what it does; when the slice before it in its session is on another
 * lane, its lane waits for that one's mark.  Behind every slice its lane has a
 * mark, which writes the next number to a word of the lane: the word is what
 * who looks reads, the mark what who sleeps waits for.  Where the device cannot
 * write words, marks are queried.
 *
 * Client memory is either reached, so that the device copies and computes on it
 * in place, or staged: the worker copies it to pinned memory of its own before
 * the device reads, and from there after the device has written, which is when
 * ended() is asked.  The processor never writes what the device reaches, nor
 * reads it.
 *
 * Threads.  Lanes, slots, staging units in use: dispatch.  Slabs: the slow
 * thread.  The lists of places, and that there is staging at all: under lock,
 * which is held for moments only.  Each lane has a thread that sleeps for it,
 * unless threads of the driver write the words: then they wake the worker.
 *
 * Edges
 *
 *   LANE.word	the device has written all that a slice writes before its lane's
 *		word is seen to have reached the slice's value
 *   LANE.armed	a thread of a driver writes a word, then looks for a sleeper;
 *		one that is about to sleep arms, then looks at the words.
 *		tests/model/told.pml
 */
#ifndef GM_STREAM_H
#define GM_STREAM_H

#include <pthread.h>
#include <sys/queue.h>

#include "agent/device/gpu.h"
#include "agent/device/reduce.h"
#include "gpumap.h"
#include "shm/atomic.h"

#define GM_STREAM_SLICE_BYTES    (UINT64_C(4) << 20) /* over the bus, at most */
#define GM_STREAM_OWN_LEAST      (UINT64_C(4) << 20) /* of its own memory */
#define GM_STREAM_OWN_MOST       (UINT64_C(256) << 20)
#define GM_STREAM_SMALL_BYTES    (UINT64_C(64) << 10) /* that go soon */
#define GM_STREAM_SESSION_SLICES 3u  /* leaves room for another session */
#define GM_STREAM_UNDER_WAY      4u  /* slices of a lane */
#define GM_STREAM_UNITS          8u  /* of staging, so many bytes each */
#define GM_STREAM_FAILED         16u /* slices that are remembered */
/* Reached at once.  The driver holds locks of the process's memory and of the
 * node as long as it pins a piece, and calls of the whole node wait.  Some
 * kernels refuse 2 GiB; less is tried where a piece is refused. */
#define GM_STREAM_PIECE_BYTES (UINT64_C(1) << 30)
#define GM_STREAM_PIECE_LEAST (UINT64_C(32) << 20)

/* Bytes to bring to a client once a slice has ended. */
struct gm_stream_landing {
	char *to; /* NULL: none */
	const char *from;
	uint64_t bytes;
};

/* A slice, and the mark behind it.  A sleeper keeps one longer. */
struct gm_stream_slot {
	struct gm_async_exec mark;
	struct gm_stream_landing landing;
	uint32_t units; /* of staging that it has, a bit each */
	bool busy;
	bool failed;  /* part of it never began */
	bool queried; /* its word will not be written: by mark */
	bool dirty; /* it or one before it of its session writes to a client */
	gm_a32 watched; /* a sleeper waits for the mark */
};

/* The state of a reduction in slices, see stream_reduce.c.  A level has the
 * results of 1024 elements of the level before; 2^63 elements have 7.  Level 1
 * has several chunks, so that one launch takes as many elements as a slice. */
#define GM_STREAM_REDUCERS 8u /* of a lane: tasks at a time */
#define GM_STREAM_LEVELS   6u /* beside that of the elements */
#define GM_STREAM_CHUNKS   16u
#define GM_STREAM_REDUCER_BYTES \
	((GM_STREAM_LEVELS + GM_STREAM_CHUNKS) * UINT64_C(8192))

struct gm_stream_reducer {
	const struct gm_task *task; /* NULL: free */
	struct gm_gpu_at at;        /* GM_STREAM_REDUCER_BYTES */
	uint64_t next;              /* element of the next slice */
	/* For each level: elements it has, and has it been full before? */
	uint32_t filled[GM_STREAM_LEVELS + 2];
	bool passed[GM_STREAM_LEVELS + 2];
};

struct gm_stream;

struct gm_stream_lane {
	struct gm_stream *stream;
	uint32_t n_busy;
	const gm_a64 *word; /* NULL: marks only */
	uint64_t value;     /* given to the last slice */
	struct gm_stream_slot slots[GM_GPU_MARKS];

	/* SOON, BULK: */
	struct gm_gpu_at bounce; /* a slice's bytes on the device, of masks */
	struct gm_stream_reducer reducers[GM_STREAM_REDUCERS];

	/* The waker of the thread that sleeps for it. */
	pthread_t sleeper;
	bool has_sleeper;
	pthread_mutex_t mutex;
	pthread_cond_t cond;
	struct gm_stream_slot *wanted; /* to wait for next, and its mark */
	struct gm_async_exec mark;
	bool leaving;
};

/* Memory that tasks name, from one address on: a piece of a client's, or of
 * the device's own. */
struct gm_stream_place {
	uint64_t from;
	uint64_t bytes;
	struct gm_gpu_mem *mem; /* NULL: staged */
	bool writable;
};

/* In the order of their addresses. */
struct gm_stream_places {
	struct gm_stream_place *place;
	uint32_t n, room;
};

#define GM_STREAM_DTYPES (GPUMAP_DTYPE_U64 + 1)

/* Facts that a slice does not have to look up; NULL: not to be had. */
struct gm_stream_kernels {
	/* By enum gpumap_op and gpumap_dtype.  FILL's is U8's, for any. */
	const struct gm_gpu_kernel *of[GM_OPS][GM_STREAM_DTYPES];
	/* CAST, from one to the other. */
	const struct gm_gpu_kernel *cast[GM_STREAM_DTYPES][GM_STREAM_DTYPES];
};

TAILQ_HEAD(gm_stream_slabs, gm_stream_slab);

struct gm_stream {
	struct gm_backend_device dev;
	const struct gm_gpu_ops *ops;
	struct gm_gpu *gpu;
	struct gm_stream_kernels kernels;
	bool is_open; /* the driver's device is */

	/* dispatch */
	struct gm_stream_lane lanes[GM_GPU_LANES];
	struct gm_gpu_mem *scratch; /* a slice's bytes, of ACROSS, and behind
				     * them what SOON and BULK have */
	uint32_t in_use;            /* staging units, a bit each */
	uint32_t n_failed; /* slices that failed alone, and the last of them */
	struct gm_async_exec failed[GM_STREAM_FAILED];
	uint32_t n_looked; /* times that a slice had not ended */

	pthread_mutex_t lock;
	struct gm_stream_places client, own;
	struct gm_gpu_mem *staging; /* units, one after the other; NULL: none
				     * yet */

	/* slow thread */
	struct gm_stream_slabs slabs;
	uint64_t piece_bytes; /* GM_STREAM_PIECE_BYTES, less in tests */
};

struct gm_kernel {
	struct gm_gpu_program *program;
	const struct gm_gpu_kernel *kernel;
};

/* For a thread that is not dispatch, before anything else: the device, or why
 * not. */
int gm_stream_bind(struct gm_stream *stream);

/* Ask the driver for the kernels of all operators. */
void gm_stream_find_kernels(struct gm_stream *stream);

/* Wake who polls dev.ended_fd.  Threads: any */
void gm_stream_tell(struct gm_gpu *gpu);

/* ---- stream_lanes.c ------------------------------------------------------ */

int gm_stream_lanes_open(struct gm_stream *stream);
void gm_stream_lanes_close(struct gm_stream *stream);

/* The slot of a slice that has not been found to have ended; else NULL. */
struct gm_stream_slot *gm_stream_slot_of(struct gm_stream *stream,
					 const struct gm_async_exec *flight);

/* A slot for a slice that is about to begin, or NULL: the lane is full. */
struct gm_stream_slot *gm_stream_slot_free(struct gm_stream_lane *lane);

/* The slice is on its lane: number it, and mark it.  0; -ENOTRECOVERABLE */
int gm_stream_slot_begin(struct gm_stream_lane *lane,
			 struct gm_stream_slot *slot,
			 struct gm_async_exec *ret_flight);

/* Has all that a lane has of this slice passed? */
bool gm_stream_slot_passed(struct gm_stream_lane *lane,
			   struct gm_stream_slot *slot);

/* ---- stream_regions.c ---------------------------------------------------- */

/* The place that has the byte at this address, or NULL.  Under lock; the slow
 * thread, which alone changes the lists, may do without. */
const struct gm_stream_place *
gm_stream_find(const struct gm_stream_places *places, uint64_t at);

/* Add one, or drop the one that begins there.  Slow thread.  0; -ENOMEM */
int gm_stream_add(struct gm_stream *stream, struct gm_stream_places *places,
		  const struct gm_stream_place *place);
void gm_stream_drop(struct gm_stream *stream, struct gm_stream_places *places,
		    uint64_t from);

void gm_stream_regions_close(struct gm_stream *stream);

/* ---- stream_work.c: a slice while it is being issued --------------------- */

/* Where the bytes of one operand are, from some byte of it on. */
struct gm_stream_side {
	char *client;        /* as the worker has them; NULL: own memory, */
	uint64_t address;    /* as tasks name it */
	struct gm_gpu_at at; /* as copies and kernels name them */
	uint64_t left;       /* bytes until @at has to be asked for again */
	uint32_t unit;       /* of staging, a bit; 0: in place */
	uint32_t each;       /* bytes of an element */
	bool is_written;
};

/* Elements, but those of a copy are bytes. */
struct gm_stream_slice {
	const struct gm_task *task;
	uint32_t has;  /* GM_OPS_* */
	uint32_t each; /* bytes of the larger operand's element */
	uint32_t lane; /* that it is on */
	bool is_last;  /* of its task */
	uint64_t n;
	struct gm_stream_side dst, src;
	struct gm_stream_side mask; /* all that is needed, from its first */
	uint64_t mask_n;            /* elements that it has there, and */
	uint64_t mask_at;           /* the one that goes with the next */
	struct gm_stream_reducer *reducer; /* of a reduction */
};

static inline struct gm_gpu_at gm_stream_plus(struct gm_gpu_at at,
					      uint64_t bytes)
{
	at.offset += bytes;
	return at;
}

static inline struct gm_gpu_arg gm_stream_arg(struct gm_gpu_at at,
					      uint64_t bytes)
{
	return (struct gm_gpu_arg){ .kind = GM_GPU_ARG_AT,
				    .at = at,
				    .bytes = bytes };
}

/* Whole elements. */
static inline struct gm_gpu_arg gm_stream_operand(struct gm_gpu_at at,
						  uint64_t n, uint32_t each)
{
	struct gm_gpu_arg arg = gm_stream_arg(at, n * each);

	arg.each = each;
	return arg;
}

static inline struct gm_gpu_arg gm_stream_number(uint64_t number)
{
	return (struct gm_gpu_arg){ .kind = GM_GPU_ARG_U64, .u64 = number };
}

/* As kernels that take addresses have it.  F32: in the lower half. */
static inline uint64_t gm_stream_word(const struct gm_gpu_arg *arg)
{
	if (arg->kind != GM_GPU_ARG_AT)
		return arg->u64;
	return (arg->at.mem ? arg->at.mem->address : 0) + arg->at.offset;
}

/* Find where the side goes on, under lock.  Returns 0; -EINVAL; -ENXIO: it is
 * staged. */
int gm_stream_locate(struct gm_stream *stream, struct gm_stream_side *side);

/* Go on by @bytes.  Staging has all of a slice, so it ends with it. */
int gm_stream_advance(struct gm_stream *stream, struct gm_stream_side *side,
		      uint64_t bytes);

/* Have the device bring together bytes that may lie in several places. */
int gm_stream_gather(struct gm_stream *stream, uint32_t lane,
		     struct gm_gpu_at to, struct gm_stream_side *from,
		     uint64_t bytes, bool goes_on);

/* Launch a kernel of the slice's operation. */
int gm_stream_launch(struct gm_stream *stream, const struct gm_stream_slice *s,
		     struct gm_gpu_launch *launch);

/* A unit of staging for the operand.  Under lock.  Returns 0 or -EAGAIN. */
int gm_stream_take_unit(struct gm_stream *stream, struct gm_stream_side *side);

/* The unit that the operand has, as the processor has it. */
static inline char *gm_stream_unit(const struct gm_stream_side *side)
{
	return side->at.mem->host + side->at.offset;
}

/* ---- stream_mask.c ------------------------------------------------------- */

/* For a slice that begins with element @first.  Under lock.  Returns 0 or
 * -EAGAIN. */
int gm_stream_mask_find(struct gm_stream *stream, struct gm_stream_slice *s,
			uint64_t first);

/* Have the processor bring it to the staging that it has. */
void gm_stream_mask_stage(struct gm_stream_slice *s);

/* Have the device bring it to its lane's memory.  Returns 0 or -errno. */
int gm_stream_mask_gather(struct gm_stream *stream, struct gm_stream_slice *s);

/* ---- stream_reduce.c ----------------------------------------------------- */

/* Does the driver have all kernels that the reduction needs? */
bool gm_stream_can_reduce(const struct gm_stream *stream,
			  const struct gm_task *task);

/* Room for what a reduction's slices leave to the next, of which this begins
 * with element @first.  0; -EAGAIN: all are taken; -ERANGE: not the next */
int gm_stream_reducer_take(struct gm_stream *stream, struct gm_stream_slice *s,
			   uint64_t first);

/* A slice of a reduction.  ret_issued: elements that are on the lane or may be,
 * also on failure.  Returns 0 or -errno. */
int gm_stream_reduce(struct gm_stream *stream, struct gm_stream_slice *s,
		     uint64_t *ret_issued);

/* ---- stream_memory.c ----------------------------------------------------- */

void gm_stream_slabs_close(struct gm_stream *stream);

/* A thread has to, before other calls. */
static inline int gm_stream_bind_thread(const struct gm_gpu_ops *ops,
					struct gm_gpu *gpu)
{
	return ops->bind ? ops->bind(gpu) : 0;
}

/* ---- a driver's backend -------------------------------------------------- */

/* One table, one shape. */
/* clang-format off */

/* The calls of device.h that are the same for every driver. */
#define GM_STREAM_CALLS(CALL) \
	CALL(close) CALL(memory) CALL(start) CALL(quit) CALL(ended) \
	CALL(arm) CALL(alloc) CALL(free) CALL(reach) CALL(unreach) \
	CALL(export_fd) CALL(import_fd) CALL(import_peer) CALL(try_peer) \
	CALL(copy_peer) CALL(fetch) CALL(store) CALL(load_kernel) \
	CALL(unload_kernel) CALL(fault)

#define GM_STREAM_DECLARE(call) \
	__typeof__(*((struct gm_backend *)0)->call) gm_stream_##call;
#define GM_STREAM_SET(call) .call = gm_stream_##call,

GM_STREAM_CALLS(GM_STREAM_DECLARE)

/* gm_DRIVER_backend, and its members that are the driver's own. */
#define GM_STREAM_BACKEND(driver, KIND, ops, ...)                          \
	static int open_##driver(const struct gm_device_config *config,    \
				 struct gm_backend_device **ret_dev)       \
	{                                                                  \
		return gm_stream_open(&gm_##driver##_backend, &(ops),      \
				      config, ret_dev);                    \
	}                                                                  \
	const struct gm_backend gm_##driver##_backend = {                  \
		.name = #driver, .kind = GPUMAP_DEVICE_##KIND,             \
		.open = open_##driver, GM_STREAM_CALLS(GM_STREAM_SET)      \
		__VA_ARGS__                                                \
	}

/* A driver's functions that are gm_DRIVER_ and the member of gm_gpu_ops. */
#define GM_STREAM_DRIVER_DECLARE(driver, call) \
	__typeof__(*((struct gm_gpu_ops *)0)->call) gm_##driver##_##call;
#define GM_STREAM_DRIVER_SET(driver, call) .call = gm_##driver##_##call,

/* clang-format on */

#endif
