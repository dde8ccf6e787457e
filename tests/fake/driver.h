/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * driver - one process's state of the stand-in driver.
 *
 * One lock guards everything here; fake_enter() takes it and fake_leave() gives
 * it back.  fake_moved is signalled whenever something has happened that a
 * thread may wait for.  Operations run outside the lock, on the lanes of their
 * context.
 *
 * A handle that a caller holds is a number, never a pointer of ours, and is not
 * given out twice: a destroyed one is known as such.
 *
 * A device address is not an address of this process either: reading it faults,
 * as it does on a real card.  Its bytes lie at the same offset in a second
 * window, the shadow.
 */
#ifndef FAKE_DRIVER_H
#define FAKE_DRIVER_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tests/fake/hardware.h"
#include "tests/support/cuda_abi.h"

enum fake_kind {
	FAKE_CONTEXT = 1,
	FAKE_STREAM,
	FAKE_EVENT,
	FAKE_MODULE,
	FAKE_FUNCTION,
	FAKE_HANDLE, /* of memory */
	FAKE_KINDS
};

struct fake_op;

/* One in-order queue of a context, as the hardware has a few of them. */
struct fake_lane {
	struct fake_context *ctx;
	struct fake_op *first, **last;
	pthread_t thread;
	bool has_thread;
};

#define FAKE_LANES_MAX 32

struct fake_device {
	uint32_t gpu; /* in the hardware */
	CUdevice ordinal;
	struct fake_context *primary;
	unsigned int primary_flags;
	CUresult error; /* sticky: of this device in this process */
	unsigned int contexts;
	int node; /* its device node, while there are contexts; -1 */
};

struct fake_stream {
	uint64_t handle;
	struct fake_stream *next;
	struct fake_context *ctx;
	struct fake_lane *lane;
	struct fake_op *last; /* enqueued, NULL before the first */
	unsigned int flags;
	int priority;
};

struct fake_context {
	uint64_t handle;
	struct fake_context *next;
	struct fake_device *dev;
	unsigned int flags;
	unsigned int uses; /* of a primary context */
	bool is_primary;
	bool is_stopping;
	bool is_taken; /* a call has it for itself: fake_context_alone() */
	unsigned int pending, kernels; /* operations queued; kernels running */
	unsigned int n_lanes, next_lane;
	struct fake_lane lanes[FAKE_LANES_MAX];
	struct fake_stream legacy;
	struct fake_stream *streams;
};

struct fake_driver {
	struct fake_hardware hw;
	int version;
	int32_t pid; /* that called cuInit, 0 before */
	uint32_t n_devices;
	struct fake_device devices[FAKE_GPUS];
	struct fake_context *contexts;
};

extern struct fake_driver fake;
extern pthread_mutex_t fake_mutex;
extern pthread_cond_t fake_moved;

/* driver.c */

/* Take the lock, if this process has called cuInit. */
CUresult fake_enter(void);

/* The same, and the context of this thread, if it is healthy. */
CUresult fake_enter_context(struct fake_context **ret_ctx);

/* Give the lock back.  Returns @result. */
CUresult fake_leave(CUresult result);

/* NULL where @ordinal is none. */
struct fake_device *fake_device(CUdevice ordinal);

/* The condition at which a thread of ours must end; after a lost card,
 * everything. */
CUresult fake_health(struct fake_device *dev);

/* Wait, with the lock given up meanwhile. */
void fake_wait(void);

void fake_sleep_ns(uint64_t ns);

/* Sleep for as long as the plan says that a call takes, or until all of the
 * plan is taken away. */
void fake_take_time(uint64_t ns);

/* handles.c */

/* A new handle for @object, 0 where memory is short. */
uint64_t fake_handle_new(enum fake_kind kind, void *object);

/* The object of @handle, or NULL where it has none any more. */
void *fake_handle_get(enum fake_kind kind, uint64_t handle);
void fake_handle_drop(enum fake_kind kind, uint64_t handle);

/* How many there are of a kind. */
unsigned int fake_handles_left(enum fake_kind kind);

/* visible.c: which cards and instances this process sees by a driver of
 * @version, CUDA_VISIBLE_DEVICES and CUDA_DEVICE_ORDER, in its order.  Returns
 * how many. */
uint32_t fake_visible(const struct fake_board *board, int version,
		      uint32_t ret_gpus[FAKE_GPUS]);

/* device_fault.c: count a launch or a copy, outside the lock, and apply what
 * the plan has for it. Returns the error that it ends with. */
CUresult fake_strike(struct fake_context *ctx, enum fake_fault_on on);

/* slow_exit.c: let this process take so much longer to die. */
void fake_exit_slowly(uint64_t ns);

/* device.c */
int fake_attribute(struct fake_device *dev, CUdevice_attribute attribute);

/* context.c */

/* The context of this thread, as far as it has a living one. */
CUresult fake_current(struct fake_context **ret_ctx);

/* Wait until nothing that was enqueued is left to do, or an error. */
CUresult fake_context_drain(struct fake_context *ctx);

/*
 * Wait until no kernel runs, as calls do that allocate, pin and load; until
 * nothing is left to do at all, as calls do that free and unload.  The driver
 * holds the context's lock meanwhile, so all other calls wait for the kernels
 * too, also those of other threads and of other streams.
 */
CUresult fake_context_calm(struct fake_context *ctx);
CUresult fake_context_alone(struct fake_context *ctx);

/* Sleep with that lock, and with the lock of the whole machine, which NVML's
 * calls and those of other processes take too. */
void fake_context_sleep(struct fake_context *ctx, uint64_t ns);

/* space.c */

enum fake_range_kind {
	FAKE_RANGE_DEVICE,   /* cuMemAlloc */
	FAKE_RANGE_RESERVED, /* an address without memory */
	FAKE_RANGE_MAPPED,   /* a piece of a reservation with memory */
	FAKE_RANGE_ALIAS,    /* device address of registered host memory */
	FAKE_RANGE_HOST,     /* cuMemHostAlloc */
	FAKE_RANGE_REGISTERED,
};

struct fake_memory;

struct fake_range {
	enum fake_range_kind kind;
	uint64_t base;
	uint64_t bytes;
	struct fake_context *ctx;
	struct fake_device *dev;    /* whose memory it is, as far as seen */
	uint32_t gpu;               /* the same; FAKE_ANY_GPU: the host's */
	struct fake_memory *memory; /* of a mapping */
	uint64_t offset;            /* of what was registered in its page */
	uint64_t alias;             /* the other address of host memory */
	uint64_t charged;
	uint32_t readers, writers; /* bit per ordinal that has access */
	unsigned int flags;
};

/* Make the two windows.  False where there are no addresses for them. */
bool fake_space_init(void);

/* A free range of device addresses, 0 where there is none. */
uint64_t fake_space_find(uint64_t bytes, uint64_t alignment);

/* NULL where memory is short.  The pointer lasts until it is removed. */
struct fake_range *fake_space_add(const struct fake_range *range);
void fake_space_remove(struct fake_range *range);

/* The range at @address; of two, the one that has memory. */
struct fake_range *fake_space_at(uint64_t address);

/* The reservation at @address, with memory or without. */
struct fake_range *fake_space_reserved(uint64_t address);

/* Any range that overlaps, of whatever kind. */
struct fake_range *fake_space_overlap(uint64_t base, uint64_t bytes);

/* A range that was made in a context, NULL where there is none left. */
struct fake_range *fake_space_of(const struct fake_context *ctx);

/* How many there are, aliases apart. */
unsigned int fake_space_left(void);

/* Where device memory lies in this process. */
void *fake_shadow(uint64_t address);

/* Memory that a copy finds at an address. */
enum fake_place {
	FAKE_NOWHERE, /* not memory, or not all of it one piece of it */
	FAKE_ON_DEVICE,
	FAKE_PINNED,
	FAKE_PAGEABLE, /* or so the driver must believe */
};

enum fake_place fake_space_place(const struct fake_context *ctx,
				 uint64_t address, uint64_t bytes,
				 bool is_write, void **ret_at,
				 uint32_t *ret_gpu);

/* Whether all of it is mapped in this process, for writing too where that is
 * asked. */
bool fake_space_is_mapped(uint64_t base, uint64_t bytes, bool is_write);

/*
 * Where in this process the bytes are that code on the card of @ctx finds at
 * an address.  NULL where not all of it is memory that it may use so.
 */
void *fake_space_reach(const struct fake_context *ctx, uint64_t address,
		       uint64_t bytes, bool is_write);

/* lane.c */

/* The stream behind a handle, 0 and 1 being the legacy one. */
CUresult fake_stream_get(struct fake_context *ctx, CUstream handle,
			 struct fake_stream **ret_stream);

/* An operation's work.  Runs outside the lock; an error is sticky. */
typedef CUresult fake_run(struct fake_op *op);

struct fake_op {
	struct fake_op *next;
	struct fake_context *ctx;
	unsigned int refs;
	bool is_done;
	bool is_kernel;
	uint64_t ended; /* ns, once done */
	unsigned int n_after;
	struct fake_op **after; /* what must be done before */
	fake_run *run;
	void *data; /* freed with the operation */
};

/*
 * Put an operation at the end of @stream, @data (malloc'd, may be NULL) with
 * it, @also to wait for as well, or NULL.  @ret_op, where not NULL, receives
 * a reference.
 */
CUresult fake_enqueue(struct fake_stream *stream, fake_run *run, void *data,
		      bool is_kernel, struct fake_op *also,
		      struct fake_op **ret_op);

struct fake_op *fake_op_get(struct fake_op *op);
void fake_op_put(struct fake_op *op);

/* Wait for it, or for an error of its context. */
CUresult fake_op_wait(struct fake_op *op);

CUresult fake_stream_drain(struct fake_stream *stream);
void fake_lanes_stop(struct fake_context *ctx);

/* event.c: destroy all that were made in @ctx. */
void fake_events_forget(struct fake_context *ctx);

/* memory.c: give back all that was allocated and registered in @ctx. */
void fake_memory_forget(struct fake_context *ctx);

/* module.c: unload all that was loaded into @ctx. */
void fake_modules_forget(struct fake_context *ctx);

#endif
