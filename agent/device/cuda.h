/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * cuda - the backend of CUDA rows: what its files share.
 *
 *	cuda.c		one device opened and closed, and what went wrong
 *	cuda_lanes.c	streams, slices under way, who waits for them
 *	cuda_work.c	from a slice to calls of the driver
 *	cuda_reduce.c	and those of reductions
 *	cuda_mask.c	and the masks of those that have one
 *	cuda_kernel.c	and those that a client has brought
 *	cuda_memory.c	memory of the device, cut from slabs
 *	cuda_shared.c	memory of the device that can be exported
 *	cuda_across.c	memory of other devices, and what others fetch
 *	cuda_regions.c	memory of clients, pinned or staged
 *	cuda_clique.c	collectives with other devices, by NCCL
 *
 * Lanes.  A row has a few streams that all sessions share.  A slice goes to the
 * lane of what it does; when the slice before it in its session is on another
 * lane, its lane waits for that one's event.  Behind every slice its lane
 * writes the next number to a word of its own and records an event: the word is
 * what who looks reads, the event what who sleeps waits for.  Where the device
 * cannot write words, events are queried.
 *
 * Client memory is either reached, so that the device copies and computes on it
 * in place, or staged: the worker copies it to pinned memory of its own before
 * the device reads, and from there after the device has written, which is when
 * ended() is asked.  The processor never writes what the device reaches, nor
 * reads it.
 *
 * Threads.  Lanes, slots, staging units in use: dispatch.  Slabs: the slow
 * thread.  The list of regions, and that there is staging at all: under lock,
 * which is held for moments only.  Each lane has a thread that sleeps for it.
 *
 * Edges
 *
 *   LANE.word	the device has written all that a slice writes before its lane's
 *		word is seen to have reached the slice's value
 */
#ifndef GM_CUDA_H
#define GM_CUDA_H

#include <pthread.h>
#include <sys/queue.h>

#include "agent/cuda/driver.h"
#include "agent/cuda/operators.h"
#include "agent/device/device.h"
#include "gpumap.h"
#include "shm/atomic.h"

#define GM_CUDA_SLICE_BYTES    (UINT64_C(4) << 20) /* over the bus, at most */
#define GM_CUDA_OWN_LEAST      (UINT64_C(4) << 20) /* of its own memory */
#define GM_CUDA_OWN_MOST       (UINT64_C(256) << 20)
#define GM_CUDA_OWN_TIMES      4u /* as fast as the bus, if it says nothing */
#define GM_CUDA_BUS_RATE       UINT64_C(25000000000) /* bytes in a second */
#define GM_CUDA_SMALL_BYTES    (UINT64_C(64) << 10)  /* of one that goes soon */
#define GM_CUDA_SESSION_SLICES 3u  /* leaves room for another session */
#define GM_CUDA_UNDER_WAY      4u  /* slices of a lane */
#define GM_CUDA_SLOTS          8u  /* of a lane: a sleeper keeps one longer */
#define GM_CUDA_UNITS          8u  /* of staging, so many bytes each */
#define GM_CUDA_FAILED         16u /* slices that are remembered */
/* Registered at once.  The driver holds locks of the process's memory and of
 * the node as long as it pins a piece, and calls of the whole node wait.  Some
 * kernels refuse 2 GiB; less is tried where a piece is refused. */
#define GM_CUDA_PIECE_BYTES (UINT64_C(1) << 30)
#define GM_CUDA_PIECE_LEAST (UINT64_C(32) << 20)

enum gm_cuda_lane_index {
	GM_CUDA_IN = 0,     /* client memory to the device */
	GM_CUDA_OUT = 1,    /* and back */
	GM_CUDA_ACROSS = 2, /* copies between like and like */
	GM_CUDA_SOON = 3,   /* small computations, before */
	GM_CUDA_BULK = 4,   /* large ones */
	GM_CUDA_LANES = 5,
	GM_CUDA_NO_LANE = 5 /* of a flight that has ended already */
};

/* Bytes to bring to a client once a slice has ended. */
struct gm_cuda_landing {
	char *to; /* NULL: none */
	const char *from;
	uint64_t bytes;
};

struct gm_cuda_slot {
	struct CUevent_st *event; /* recorded behind the slice */
	uint64_t value;           /* of its lane's word */
	struct gm_cuda_landing landing;
	uint32_t units; /* of staging that it has, a bit each */
	bool busy;
	bool failed;  /* part of it never began */
	bool queried; /* its word will not be written: by event */
	bool dirty; /* it or one before it of its session writes to a client */
	gm_a32 watched; /* a sleeper waits for the event */
};

/* The state of a reduction in slices, see cuda_reduce.c.  A level has the
 * results of 1024 elements of the level before; 2^63 elements have 7.  Level 1
 * has several chunks, so that one launch takes as many elements as a slice. */
#define GM_CUDA_REDUCERS 8u /* of a lane: tasks at a time */
#define GM_CUDA_LEVELS   6u /* beside that of the elements */
#define GM_CUDA_CHUNKS   16u
#define GM_CUDA_REDUCER_BYTES \
	((GM_CUDA_LEVELS + GM_CUDA_CHUNKS) * UINT64_C(8192))

struct gm_cuda_reducer {
	const struct gm_task *task; /* NULL: free */
	gm_cu_ptr at;               /* GM_CUDA_REDUCER_BYTES */
	uint64_t next;              /* element of the next slice */
	/* For each level: elements it has, and has it been full before? */
	uint32_t filled[GM_CUDA_LEVELS + 2];
	bool passed[GM_CUDA_LEVELS + 2];
};

struct gm_cuda;

struct gm_cuda_lane {
	struct gm_cuda *cuda;
	struct CUstream_st *stream;
	gm_a64 *word;      /* in pinned memory, and as the device names it: */
	gm_cu_ptr word_at; /* 0: events only */
	uint64_t value;    /* given to the last slice */
	uint32_t n_busy;
	struct gm_cuda_slot slots[GM_CUDA_SLOTS];

	/* SOON, BULK: */
	gm_cu_ptr bounce; /* a slice's bytes on the device, of masks */
	struct gm_cuda_reducer reducers[GM_CUDA_REDUCERS];

	/* The waker of the thread that sleeps for it. */
	pthread_t sleeper;
	bool has_sleeper;
	pthread_mutex_t mutex;
	pthread_cond_t cond;
	struct gm_cuda_slot *wanted; /* to wait for next */
	bool leaving;
};

/* Client memory that was registered at once, or is staged. */
struct gm_cuda_piece {
	uintptr_t from;
	uint64_t bytes;
	gm_cu_ptr at; /* as the device names it; 0: staged */
	bool writable;
};

/* In the order of their addresses. */
struct gm_cuda_pieces {
	uint32_t n;
	struct gm_cuda_piece piece[];
};

/* Facts that a slice does not have to look up. */
#define GM_CUDA_DTYPES (GPUMAP_DTYPE_U64 + 1)

struct gm_cuda_functions {
	/* By enum gm_operator and gpumap_dtype; NULL: not to be had.  FILL's is
	 * that of U8, for any.  The last line has none, for operations without
	 * a kernel. */
	struct CUfunc_st *of[GM_OPERATORS + 1][GM_CUDA_DTYPES];
	/* CAST, from one to the other. */
	struct CUfunc_st *cast[GM_CUDA_DTYPES][GM_CUDA_DTYPES];
};

TAILQ_HEAD(gm_cuda_slabs, gm_cuda_slab);

struct gm_cuda {
	struct gm_backend_device dev;
	const struct gm_driver *driver;
	int ordinal;
	struct CUctx_st *ctx;
	struct CUmod_st *module;
	struct gm_cuda_functions functions;
	const char *nccl; /* see gm_device_config */
	uint32_t units;   /* multiprocessors */
	bool can_register, can_read_only, can_export, can_write_words;

	gm_a32 lost;   /* the driver's number for why, 0: it is not */
	char why[120]; /* under lock; for people */

	/* dispatch */
	struct gm_cuda_lane lanes[GM_CUDA_LANES];
	gm_a64 *words;
	gm_cu_ptr bounce;  /* a slice's bytes on the device, of ACROSS, and
			    * behind them what SOON and BULK have */
	uint32_t in_use;   /* staging units, a bit each */
	uint32_t n_failed; /* slices that failed alone, and the last of them */
	struct gm_async_exec failed[GM_CUDA_FAILED];
	uint32_t n_looked; /* times that a slice had not ended */

	pthread_mutex_t lock;
	struct gm_cuda_pieces *pieces; /* NULL: none */
	char *staging; /* units, one after the other; NULL: none yet */
	gm_cu_ptr staging_at;

	/* slow thread */
	struct CUstream_st *slow;
	struct gm_cuda_slabs slabs;
	uint64_t granule;     /* of memory that can be exported; 0: ask */
	uint64_t piece_bytes; /* GM_CUDA_PIECE_BYTES, less in tests */
};

/* ---- cuda.c ------------------------------------------------------------- */

/* The context is of no use any more.  The first reason counts.  Returns
 * -ENOTRECOVERABLE.  Threads: any */
int gm_cuda_lose(struct gm_cuda *cuda, gm_cu_result result);

/*
 * gm_cuda_check - what a result of the driver means for who called
 *
 * Returns	0; -ENOTRECOVERABLE; else as gm_cuerror_errno()
 * Threads	any that has the context
 */
int gm_cuda_check(struct gm_cuda *cuda, gm_cu_result result);

/* The same, where a stranger's argument may be to blame: what a trivial call
 * does not meet as well was the argument's fault, whatever its number. */
int gm_cuda_suspect(struct gm_cuda *cuda, gm_cu_result result);

/* In words, behind @what and with what helps. */
void gm_cuda_explain(gm_cu_result result, const char *what, char *ret_why,
		     size_t bytes);

/* For the slow thread, before anything else: the context, or why not. */
int gm_cuda_bind(struct gm_cuda *cuda);

static inline bool gm_cuda_is_lost(struct gm_cuda *cuda)
{
	return gm_get(&cuda->lost) != 0;
}

/* Pinned memory of the worker's own, and the device's name for it. */
int gm_cuda_pin(struct gm_cuda *cuda, uint64_t bytes, char **ret_host,
		gm_cu_ptr *ret_at);

/* ---- cuda_kernel.c ------------------------------------------------------ */

#define GM_CUDA_LOG_BYTES 1024u

/* A module of an image; ret_log is what the compiler said, in one line. */
gm_cu_result gm_cuda_compile(struct gm_cuda *cuda, const void *image,
			     struct CUmod_st **ret_module,
			     char ret_log[GM_CUDA_LOG_BYTES]);

int gm_cuda_load_kernel(struct gm_backend_device *dev, const void *image,
			const char *name, struct gm_kernel **ret_kernel,
			char ret_why[GM_KERNEL_WHY_BYTES]);
void gm_cuda_unload_kernel(struct gm_backend_device *dev,
			   struct gm_kernel *kernel);

/* ---- cuda_lanes.c ------------------------------------------------------- */

int gm_cuda_lanes_open(struct gm_cuda *cuda);
void gm_cuda_lanes_close(struct gm_cuda *cuda);

/* Wake who polls dev.ended_fd.  Threads: any */
void gm_cuda_tell(struct gm_cuda *cuda);

/* The slot of a slice that has not been found to have ended; else NULL. */
struct gm_cuda_slot *gm_cuda_slot_of(struct gm_cuda *cuda,
				     const struct gm_async_exec *flight);

/* A slot for a slice that is about to begin, or NULL: the lane is full. */
struct gm_cuda_slot *gm_cuda_slot_free(struct gm_cuda_lane *lane);

/*
 * gm_cuda_slot_begin - the slice is on its lane: number it, and record it
 *
 * Returns	0; -ENOTRECOVERABLE
 */
int gm_cuda_slot_begin(struct gm_cuda *cuda, struct gm_cuda_lane *lane,
		       struct gm_cuda_slot *slot,
		       struct gm_async_exec *ret_flight);

/* Has all that a lane has of this slice passed? */
bool gm_cuda_slot_passed(struct gm_cuda *cuda, struct gm_cuda_lane *lane,
			 struct gm_cuda_slot *slot);

int gm_cuda_ended(struct gm_backend_device *dev,
		  const struct gm_async_exec *flight);
int gm_cuda_arm(struct gm_backend_device *dev);

/* ---- the others: as device.h -------------------------------------------- */

int gm_cuda_start(struct gm_backend_device *dev, const struct gm_task *task,
		  uint64_t first, uint64_t count,
		  const struct gm_async_exec *after,
		  struct gm_async_exec *ret_flight);

void gm_cuda_quit(struct gm_backend_device *dev, const struct gm_task *task);

int gm_cuda_alloc(struct gm_backend_device *dev, uint64_t owner, uint64_t bytes,
		  uint32_t flags, struct gm_buffer **ret_buffer);
void gm_cuda_free(struct gm_backend_device *dev, struct gm_buffer *buffer);
void gm_cuda_slabs_close(struct gm_cuda *cuda);

/* Clear memory of its previous user.  Returns 0 or -errno. */
int gm_cuda_clear(struct gm_cuda *cuda, gm_cu_ptr at, uint64_t bytes);

int gm_cuda_shared_alloc(struct gm_cuda *cuda, uint64_t bytes,
			 struct gm_buffer **ret_buffer);
void gm_cuda_shared_free(struct gm_cuda *cuda, struct gm_buffer *buffer);
int gm_cuda_export_fd(struct gm_backend_device *dev, struct gm_buffer *buffer);
int gm_cuda_import_fd(struct gm_backend_device *dev, int fd, uint64_t bytes,
		      struct gm_buffer **ret_buffer);
int gm_cuda_import_peer(struct gm_backend_device *dev, int fd, uint64_t bytes,
			struct gm_buffer **ret_buffer);
int gm_cuda_try_peer(struct gm_backend_device *dev, int fd, const void *want,
		     uint64_t bytes);
int gm_cuda_copy_peer(struct gm_backend_device *dev, uint64_t address, int fd,
		      uint64_t bytes);
int gm_cuda_fetch(struct gm_backend_device *dev,
		  const struct gm_strides *strides);
int gm_cuda_store(struct gm_backend_device *dev,
		  const struct gm_strides *strides);

int gm_cuda_reach(struct gm_backend_device *dev, char *at, uint64_t bytes,
		  bool writable, struct gm_region **ret_region);
void gm_cuda_unreach(struct gm_backend_device *dev, struct gm_region *region);
void gm_cuda_regions_close(struct gm_cuda *cuda);

int gm_cuda_clique_version(struct gm_backend_device *dev);
int gm_cuda_clique_id(struct gm_backend_device *dev,
		      unsigned char ret_id[GM_NCCL_GROUP_ID_BYTES]);
int gm_cuda_clique_begin(struct gm_backend_device *dev,
			 const unsigned char id[GM_NCCL_GROUP_ID_BYTES],
			 uint32_t rank, uint32_t ranks,
			 struct gm_nccl_group **ret_clique);
int gm_cuda_clique_ready(struct gm_backend_device *dev,
			 struct gm_nccl_group *clique);
int gm_cuda_clique_start(struct gm_backend_device *dev,
			 struct gm_nccl_group *clique,
			 const struct gm_nccl_group_task *task);
int gm_cuda_clique_ended(struct gm_backend_device *dev,
			 struct gm_nccl_group *clique);
void gm_cuda_clique_abort(struct gm_backend_device *dev,
			  struct gm_nccl_group *clique);

/*
 * gm_cuda_piece_at - where client memory is
 *
 * ret_piece	the piece that holds the byte at @client; where it is staged,
 *		there is staging from now on
 *
 * Returns	0; -EINVAL: it is not reached
 */
int gm_cuda_piece_at(struct gm_cuda *cuda, const char *client,
		     struct gm_cuda_piece *ret_piece);

#endif
