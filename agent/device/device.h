/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * device - the interface of a backend: a worker's calls to its device.
 *
 * Each backend is one vtable in one file.  A worker opens one device after it
 * has pinned itself.  The worker validates entries of clients, cuts them into
 * slices and schedules sessions; a backend only computes.  A backend leaves a
 * call NULL that it cannot do, and the worker answers -EOPNOTSUPP.
 *
 * A backend computes in one of two ways.  One that has run() does a slice while
 * it is being called.  One that has start() begins it and is asked later
 * whether it has ended: slices of one session end in the order in which they
 * began, those of two sessions in any.
 *
 * Threads.  The dispatch thread of the worker serves queues: it calls open,
 * close, run, start, ended, arm, clique_start, clique_ended, and no call that
 * may wait.  The worker's one slow thread makes the calls that wait for the
 * device: memory, alloc, populate, free, reach, unreach, export_fd, import_fd,
 * import_peer, try_peer, copy_peer, fetch, store, load_kernel, unload_kernel.
 * Each clique has a thread for the calls that wait for other devices:
 * clique_version, clique_id, clique_begin, clique_ready, clique_abort, and
 * memory, too.  Two calls of one clique never run at once.  All threads may be
 * inside the backend at once.
 *
 * A backend that finds its device or its context of no use any more returns
 * -ENOTRECOVERABLE, then and from every later call; fault() says why, and the
 * worker ends.
 */
#ifndef GM_DEVICE_H
#define GM_DEVICE_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/device/task.h"

/* The configuration of a row's device. */
struct gm_device_config {
	const char *root; /* before /sys and /proc, for tests; else NULL */
	int node;         /* host: NUMA node whose memory the row has */
	uint32_t parts;   /* host: rows that share the node, 0 or 1 for one */
	const char *uuid; /* GPU: as its driver names it; NULL: the first */
	const char *library; /* GPU: folder of the driver to take instead of
			       * the system's, or NULL; OpenCL: its library;
			       * Vulkan: its manifest */
	const char *nccl;    /* GPU: folder of the library for cliques, "": the
			   * system's, or NULL: there are to be none */
	const char *builder; /* path of gpumap-build, for OpenCL */
	const char *cache;   /* folder of the worker's own that compilers write
			       * to; likewise */
	const char *operators; /* folder that has the row's operators compiled,
				* or NULL; it is @cache: the backend keeps them
				* there */
	uint64_t slice_bytes;  /* of its slices, 0 for what is usual: see
			       * gm_device_slice() */
};

/* Bytes.  Free is a hint that neighbours make stale; the ledger is not. */
struct gm_device_memory {
	uint64_t total;
	uint64_t free;
};

/* Memory of the device's own.  Every backend's own struct begins with this. */
struct gm_buffer {
	uint64_t address; /* as tasks name it */
	uint64_t bytes;   /* that were asked for, or that an import has */
	uint64_t charged; /* of the device's memory that it takes */
	uint32_t flags;   /* GPUMAP_BUFFER_* */
	bool imported;
};

/* Client memory, mapped by the worker, that the device may reach.  Every
 * backend's own struct begins with this. */
struct gm_region {
	char *at;
	uint64_t bytes;
	uint64_t address; /* of @at, as tasks name it */
};

/* A slice under way. */
struct gm_async_exec {
	uint32_t lane;  /* of the device */
	uint32_t slot;  /* the backend's own */
	uint64_t value; /* that the lane's word has reached once it has ended */
};

/* Bytes of the device's own memory, and as many of ours. */
struct gm_strides {
	uint64_t address;
	char *at;
	uint64_t bytes; /* of each */
	uint32_t n;
	uint64_t address_step; /* from one to the next, there and here */
	uint64_t step;
};

/* Devices that do collectives among themselves: one's end of it, the backend's
 * own. */
struct gm_nccl_group;

#define GM_NCCL_GROUP_ID_BYTES 128u

enum gm_nccl_group_op {
	GM_NCCL_GROUP_ALL_REDUCE = 1, /* numbers as enum gm_comm_op has them */
	GM_NCCL_GROUP_ALL_GATHER = 2,
	GM_NCCL_GROUP_REDUCE_SCATTER = 3,
	GM_NCCL_GROUP_BROADCAST = 4,
	GM_NCCL_GROUP_SEND = 5, /* two ranks' affair */
	GM_NCCL_GROUP_RECV = 6
};

/* Addresses are the device's own memory's; @n elements as in
 * agent/comm/comm.h. */
struct gm_nccl_group_task {
	uint32_t op;
	uint32_t dtype;  /* enum gpumap_dtype */
	uint32_t reduce; /* enum gpumap_reduce */
	uint32_t peer; /* of a BROADCAST the root; SEND, RECV: the other rank */
	uint64_t n;
	uint64_t send; /* at the root of a BROADCAST alone */
	uint64_t recv; /* and everywhere but there */
};

/* Device code of a client's. */
struct gm_kernel_image {
	const void *bytes; /* a NUL follows them */
	size_t n;
	const char *kernel; /* its entry point */
};

/* The same as loaded; the backend's own. */
struct gm_kernel;

#define GM_KERNEL_WHY_BYTES 240u

struct gm_backend_device;

struct gm_backend {
	const char *name; /* "host": also the row's kind, for people */
	uint32_t kind;    /* enum gpumap_device_kind */

	/*
	 * prepare - do the long work that needs no device and no context
	 *
	 * The worker calls it before open(), or never; open() then does the
	 * rest, and reports errors of both.
	 */
	void (*prepare)(const struct gm_device_config *config);

	/*
	 * open - take the device
	 *
	 * config	strings in it are kept by address
	 *
	 * Returns	0
	 *		-ENODEV	it is not there, or another process has it
	 *		-EAGAIN	not now: try again later
	 *		-ENOMEM, and others that last
	 */
	int (*open)(const struct gm_device_config *config,
		    struct gm_backend_device **ret_dev);

	/* close - give it back.  NULL is allowed. */
	void (*close)(struct gm_backend_device *dev);

	/* memory - what it has and what is left.  Returns 0 or -errno. */
	int (*memory)(struct gm_backend_device *dev,
		      struct gm_device_memory *ret_memory);

	/*
	 * run - do elements first to first + count - 1 of a task
	 *
	 * Slices of a task may come in any size and order, with slices of
	 * other tasks between them, but those of a reduction in their order,
	 * with what they came to so far in task->so_far; how memory is written
	 * (past the caches or through them) follows from the whole task.  When
	 * it returns the elements are written and ordered before whatever the
	 * caller publishes next.
	 *
	 * Returns	0
	 *		-EOPNOTSUPP, -EINVAL	as gm_ops_takes()
	 *		-ERANGE		the slice is not inside the task, or not
	 *				the next of a reduction
	 */
	int (*run)(struct gm_backend_device *dev, const struct gm_task *task,
		   uint64_t first, uint64_t count);

	/*
	 * start - begin elements first to first + count - 1 of a task
	 *
	 * after	the session's slice before this one, which it must not
	 *		overtake; NULL for none
	 * ret_flight	what to ask ended() about; written on success only
	 *
	 * Slices of a reduction begin at multiples of 1024 elements and come in
	 * their order, from the same @task.  At most gm_device_slice() bytes of
	 * dst and of src, and at most dev->slices of one session at a time.
	 * RUN is one slice, of whatever size.
	 *
	 * Returns	0
	 *		-EAGAIN		no room now: ask again when a slice has
	 *				ended
	 *		-EOPNOTSUPP, -EINVAL, -ERANGE	as run()
	 *		-ENOMEM, -EIO	this slice alone was refused
	 *		-ENOTRECOVERABLE
	 */
	int (*start)(struct gm_backend_device *dev, const struct gm_task *task,
		     uint64_t first, uint64_t count,
		     const struct gm_async_exec *after,
		     struct gm_async_exec *ret_flight);

	/*
	 * quit - of a task that was begun the rest will not be started
	 *
	 * NULL: a backend that keeps nothing from one slice to the next.
	 */
	void (*quit)(struct gm_backend_device *dev, const struct gm_task *task);

	/*
	 * ended - has a slice ended, and is what it wrote visible?
	 *
	 * Returns	1; 0: not yet; -EIO: it failed alone; -ENOTRECOVERABLE
	 * Cost		a load while it has not
	 */
	int (*ended)(struct gm_backend_device *dev,
		     const struct gm_async_exec *flight);

	/*
	 * arm - before the worker sleeps with slices under way
	 *
	 * Returns	0		dev->ended_fd becomes readable when one
	 *				of them has ended
	 *		1		one has: do not sleep
	 *		-ENOTRECOVERABLE
	 */
	int (*arm)(struct gm_backend_device *dev);

	/*
	 * alloc - memory of the device's own, for one session
	 *
	 * owner	whose it will be: bytes that another owner left there
	 *		are cleared first
	 * flags	GPUMAP_BUFFER_*
	 *
	 * Returns	0; -ENOMEM: the device is full; -EMFILE: too much is
	 *		exportable; -EOPNOTSUPP: it cannot export;
	 *		-ENOTRECOVERABLE
	 */
	int (*alloc)(struct gm_backend_device *dev, uint64_t owner,
		     uint64_t bytes, uint32_t flags,
		     struct gm_buffer **ret_buffer);

	/*
	 * populate - get some more of the pages of a buffer that alloc() made
	 *
	 * Called until all are there, before anything else is done with the
	 * buffer.  NULL: alloc() gets them.
	 *
	 * Returns	1: all are there; 0: there are more
	 *		-ENOMEM: the device is full, and free() is due
	 */
	int (*populate)(struct gm_backend_device *dev,
			struct gm_buffer *buffer);

	/* free - give it back; no slice that uses it is under way. */
	void (*free)(struct gm_backend_device *dev, struct gm_buffer *buffer);

	/*
	 * reach - have the device reach client memory
	 *
	 * at, bytes	whole pages of a shared mapping that is populated, which
	 *		overlap with nothing that is reached already
	 * writable	the client may have it written
	 *
	 * Returns	0, also where the device cannot and copies go through
	 *		staging; -EINVAL, -ENOMEM, -ENOTRECOVERABLE
	 */
	int (*reach)(struct gm_backend_device *dev, char *at, uint64_t bytes,
		     bool writable, struct gm_region **ret_region);
	void (*unreach)(struct gm_backend_device *dev,
			struct gm_region *region);

	/* export_fd - a descriptor that stands for an exportable buffer, for
	 * the caller to close.  Returns it, or -EOPNOTSUPP, -EMFILE, ... */
	int (*export_fd)(struct gm_backend_device *dev,
			 struct gm_buffer *buffer);

	/* import_fd - the memory that a descriptor of export_fd() stands for.
	 * Returns 0; -EINVAL: it is none, or has fewer bytes; -EOPNOTSUPP. */
	int (*import_fd)(struct gm_backend_device *dev, int fd, uint64_t bytes,
			 struct gm_buffer **ret_buffer);

	/* import_peer - the same of another device of its kind, for tasks to
	 * read.  Whether that can be relied on only try_peer() tells. */
	int (*import_peer)(struct gm_backend_device *dev, int fd,
			   uint64_t bytes, struct gm_buffer **ret_buffer);

	/*
	 * try_peer - is memory of another device what it should be?
	 *
	 * fd		of export_fd() of the other device
	 * want		the bytes that are in there
	 *
	 * Returns	0; -EIO: it can be read, and is not; else as
	 *		import_peer()
	 */
	int (*try_peer)(struct gm_backend_device *dev, int fd, const void *want,
			uint64_t bytes);

	/*
	 * copy_peer - bytes of another device's memory to memory of ours
	 *
	 * fd		of export_fd() of the other device, whose first bytes
	 *		they are
	 *
	 * Waits.  Returns 0; else as import_peer(), or what the copy met: then
	 * memory of ours has anything in it.
	 */
	int (*copy_peer)(struct gm_backend_device *dev, uint64_t address,
			 int fd, uint64_t bytes);

	/* fetch, store - bytes of the device's own memory to memory of ours,
	 * and back.  Waits for all of them together, also when one fails.
	 * Returns 0, or -errno.  NULL: it is mapped. */
	int (*fetch)(struct gm_backend_device *dev,
		     const struct gm_strides *strides);
	int (*store)(struct gm_backend_device *dev,
		     const struct gm_strides *strides);

	/*
	 * load_kernel - make what RUN runs of a client's image
	 *
	 * image	of a validated format
	 * ret_why	what the driver says of it, where it is refused
	 *
	 * Returns	0; -ENOEXEC: it cannot run here; -ENOENT: it has no
	 *		such entry point; -ENOMEM, -ENOTRECOVERABLE, ...
	 */
	int (*load_kernel)(struct gm_backend_device *dev,
			   const struct gm_kernel_image *image,
			   struct gm_kernel **ret_kernel,
			   char ret_why[GM_KERNEL_WHY_BYTES]);

	/* unload_kernel - no slice that runs it is under way. */
	void (*unload_kernel)(struct gm_backend_device *dev,
			      struct gm_kernel *kernel);

	/*
	 * clique_version - the version of the device's collective library
	 *
	 * All ranks of a clique must have the same version.
	 *
	 * Returns	the version, above 1; -ENOENT, -ELIBBAD, -EOPNOTSUPP:
	 *		there is none, and the log says why
	 */
	int (*clique_version)(struct gm_backend_device *dev);

	/* clique_id - a new name by which all ranks meet.  The name lasts as
	 * long as this process, and so may a thread and a socket, unless
	 * all ranks meet by it.  Returns 0; -EIO */
	int (*clique_id)(struct gm_backend_device *dev,
			 unsigned char ret_id[GM_NCCL_GROUP_ID_BYTES]);

	/*
	 * clique_begin - begin to meet the other ranks
	 *
	 * Does not wait for them: clique_ready() tells.
	 *
	 * Returns	0; -EIO; -ENOMEM; -ENOTRECOVERABLE
	 */
	int (*clique_begin)(struct gm_backend_device *dev,
			    const unsigned char id[GM_NCCL_GROUP_ID_BYTES],
			    uint32_t rank, uint32_t ranks,
			    struct gm_nccl_group **ret_clique);

	/* Returns 1: all have met; 0: not yet; -EIO: they never will */
	int (*clique_ready)(struct gm_backend_device *dev,
			    struct gm_nccl_group *clique);

	/*
	 * clique_start - take part in the clique's next collective
	 *
	 * One at a time.  Every rank does, of a SEND the two of it, in the same
	 * order wherever two take part in both of two, and none before all of
	 * it are about to.
	 *
	 * Returns	0; -EIO: the clique is of no use any more
	 */
	int (*clique_start)(struct gm_backend_device *dev,
			    struct gm_nccl_group *clique,
			    const struct gm_nccl_group_task *task);

	/* Returns 1: this rank's part has ended; 0: not yet; -EIO: it never
	 * will, before the clique is aborted; -ENOTRECOVERABLE */
	int (*clique_ended)(struct gm_backend_device *dev,
			    struct gm_nccl_group *clique);

	/* clique_abort - leave it, in whatever state it is.  Afterwards nothing
	 * of it touches memory any more.  May wait for ever.  NULL is
	 * allowed. */
	void (*clique_abort)(struct gm_backend_device *dev,
			     struct gm_nccl_group *clique);

	/* fault - after -ENOTRECOVERABLE, or with NULL after an open() that
	 * failed: why, a line that stays, and the driver's number for it, 0
	 * where it has none. */
	const char *(*fault)(struct gm_backend_device *dev, int *ret_code);
};

#define GM_TOOK_BYTES 96u

/* Every backend's own struct begins with this. */
struct gm_backend_device {
	const struct gm_backend *backend;
	uint64_t slice_bytes; /* of one slice at most; 0: any */
	uint64_t own_bytes;   /* and of one that is in memory of its own, */
	uint64_t copy_bytes;  /* of a copy there; 0: the same */
	uint32_t slices;      /* of one session under way at most */
	/* See arm(); -1: none.  An eventfd that the backend adds to and no
	 * thread reads: the worker is woken by each write, whatever the
	 * counter's value. */
	int ended_fd;
	/* The times of open()'s parts, for the log: "init_ms=480
	 * context_ms=190 module_ms=12"; "" if the backend has none. */
	char took[GM_TOOK_BYTES];
};

/* The most bytes of a slice of @task, 0 for any.  Work in the device's own
 * memory takes so much less time than work over the bus that one size would be
 * too long for the bus or too short to be worth a launch. */
static inline uint64_t gm_device_slice(const struct gm_backend_device *dev,
				       const struct gm_task *task)
{
	if (task->dst || task->src || task->mask)
		return dev->slice_bytes;
	return task->op == GPUMAP_OP_COPY && dev->copy_bytes ? dev->copy_bytes
							     : dev->own_bytes;
}

/* One piece: bytes of the device's own memory to memory of ours, and back, of
 * which the second only reads the latter. */
static inline int gm_device_fetch(struct gm_backend_device *dev,
				  uint64_t address, void *to, uint64_t bytes)
{
	return dev->backend->fetch(dev,
				   &(struct gm_strides){ .address = address,
							 .at = (char *)to,
							 .bytes = bytes,
							 .n = 1 });
}

static inline int gm_device_store(struct gm_backend_device *dev,
				  uint64_t address, const void *from,
				  uint64_t bytes)
{
	return dev->backend->store(
		dev, &(struct gm_strides){ .address = address,
					   .at = (char *)(uintptr_t)from,
					   .bytes = bytes,
					   .n = 1 });
}

/* Bytes of a slice that count in full wherever they are: a slice has to be
 * begun, however few bytes it has. */
#define GM_DEVICE_BEGIN_BYTES (UINT64_C(64) << 10)

/*
 * gm_device_cost - what a slice of @bytes of @task counts in rounds (drr.h)
 *
 * Sessions are to have the same time of a device.  A whole slice of the
 * device's own memory takes as long as a whole slice over the bus, so both
 * count the same.  All bytes of a RUN count: only its client knows how often
 * the kernel uses them.
 *
 * Returns	at most @bytes, and at most as much as for more bytes
 */
static inline uint64_t gm_device_cost(const struct gm_backend_device *dev,
				      const struct gm_task *task,
				      uint64_t bytes)
{
	uint64_t whole = dev->slice_bytes, own = gm_device_slice(dev, task);

	if (task->kernel || own <= whole || whole < GM_DEVICE_BEGIN_BYTES ||
	    bytes <= GM_DEVICE_BEGIN_BYTES)
		return bytes;
	return GM_DEVICE_BEGIN_BYTES + (bytes - GM_DEVICE_BEGIN_BYTES) *
					       (whole - GM_DEVICE_BEGIN_BYTES) /
					       (own - GM_DEVICE_BEGIN_BYTES);
}

extern const struct gm_backend gm_host_backend;
extern const struct gm_backend gm_cuda_backend;
extern const struct gm_backend gm_hip_backend;
extern const struct gm_backend gm_opencl_backend;
extern const struct gm_backend gm_vulkan_backend; /* with HAVE_VULKAN */

#endif
