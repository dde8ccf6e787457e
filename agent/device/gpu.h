/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * gpu - the interface of a driver: a GPU row's calls to its device.
 *
 * stream*.c are the backend of every row of a GPU: they cut, order, stage and
 * wait.  A driver does what it is told: it is one table of functions over a
 * struct of its own that begins with struct gm_gpu.  README.md says what each
 * of them promises, and which thread calls it.
 *
 * All that return an int return 0 or a status of device.h, unless they say
 * more.  A driver that finds its device or its context of no use any more calls
 * gm_stream_lose(), and returns -ENOTRECOVERABLE.
 */
#ifndef GM_GPU_H
#define GM_GPU_H

#include <pthread.h>

#include "agent/device/device.h"
#include "shm/atomic.h"

#define GM_GPU_REACH     (1u << 0) /* client memory in place */
#define GM_GPU_READ_ONLY (1u << 1) /* and also what must not be written */

/* Work on a lane is done in order.  Slices are on the first GM_GPU_LANES. */
enum gm_gpu_lane {
	GM_GPU_IN = 0,     /* client memory to the device */
	GM_GPU_OUT = 1,    /* and back */
	GM_GPU_ACROSS = 2, /* copies between like and like */
	GM_GPU_SOON = 3,   /* small computations, before */
	GM_GPU_BULK = 4,   /* large ones */
	GM_GPU_LANES = 5,
	GM_GPU_SLOW = 5, /* the slow thread's, without marks */
	GM_GPU_ALL = 6   /* finish() */
};

#define GM_GPU_MARKS     8u /* of a lane: the slots of struct gm_async_exec */
#define GM_GPU_ARGS      6u
#define GM_GPU_WHY_BYTES 512u

/* Memory that the device can use.  A driver's own struct begins with this. */
struct gm_gpu_mem {
	uint64_t address; /* where kernels take none: any range of its own */
	uint64_t bytes;   /* that there are, at least those asked for */
	char *host;       /* as the processor has it; NULL: it does not */
};

/* Where bytes are.  Without @mem @offset is a pointer to memory of the process
 * that the device cannot use, and copies may wait for. */
struct gm_gpu_at {
	struct gm_gpu_mem *mem;
	uint64_t offset;
};

struct gm_gpu_arg {
	enum {
		GM_GPU_ARG_AT, /* a pointer; NULL where there is no mem */
		GM_GPU_ARG_U64,
		GM_GPU_ARG_F32,
		GM_GPU_ARG_F64
	} kind;
	union {
		struct gm_gpu_at at;
		uint64_t u64;
		float f32;
		double f64;
	};
	uint64_t bytes; /* that a kernel may use from @at on */
	uint32_t each;  /* of an element there; 0: not known */
};

/* A kernel, and the program of a client that has it; the driver's own. */
struct gm_gpu_kernel;
struct gm_gpu_program;

/*
 * Operators compute what README.md says, to the bit, of these arguments:
 *
 *	FILL			dst, bytes, pattern
 *	SCALE, AXPY		dst, src, n, alpha (F64 for f64, else F32)
 *	CAST			dst, src, n
 *	MASK_ADD, MASK_BOOL	dst, src, n, mask, m, at
 *	SUM, MIN, MAX		dst, src, n: one dst of each chunk of src
 *	RUN			dst, src, n, and params
 *
 * A byte of FILL is the one of the pattern at its place, modulo 8; element i of
 * a mask goes with mask[(at + i) % m].  Memory may have any alignment.
 */
struct gm_gpu_launch {
	const struct gm_gpu_kernel *kernel;
	uint32_t op; /* enum gpumap_op */
	uint32_t n_args;
	bool is_whole; /* operands begin at multiples of their elements */
	uint64_t n;    /* bytes of FILL, else elements; RUN: items */
	struct gm_gpu_arg args[GM_GPU_ARGS];
	const void *params; /* of RUN, behind the arguments */
	uint64_t params_bytes;
};

struct gm_gpu_ops;

/* A driver's own struct begins with this.  gm_stream_open() makes it, all
 * zeroes behind this; open() of the driver writes what it says. */
struct gm_gpu {
	const struct gm_gpu_ops *ops;
	uint32_t flags;      /* open(): GM_GPU_* */
	uint32_t own_times;  /* open(): as fast as the bus it works in its own
			     * memory */
	uint32_t copy_times; /* open(): and copies there; 0: the same */
	/* open(): words that mark() has written, on lines of their own; NULL:
	 * none, and passed() tells */
	const gm_a64 *words[GM_GPU_LANES];
	gm_a32 lost;
	gm_a32 armed; /* for gm_stream_told() */
	pthread_mutex_t lock;
	/* Why, and the driver's number for it.  Under lock, or by an open()
	 * that fails. */
	int code;
	char why[GM_GPU_WHY_BYTES];
	int ended_fd;
};

struct gm_gpu_ops {
	uint32_t bytes; /* of the driver's own struct gm_gpu */

	/* Whose the driver is, for people, and what a number of its means: 0
	 * or a status of device.h.  NULL: it calls none of gm_stream_check(),
	 * _step() and _lose_by(). */
	const char *maker;
	int (*meaning)(int code, const char **ret_name);

	/* As of gm_backend.  A close() follows also where open() failed. */
	int (*open)(struct gm_gpu *gpu, const struct gm_device_config *config,
		    char ret_took[GM_TOOK_BYTES]);
	void (*close)(struct gm_gpu *gpu);
	int (*memory)(struct gm_gpu *gpu, struct gm_device_memory *ret_memory);
	/* For a thread, before other calls.  NULL: none has to. */
	int (*bind)(struct gm_gpu *gpu);

	/* Memory: the device's own, the worker's, a client's. */
	int (*alloc)(struct gm_gpu *gpu, uint64_t bytes, bool shareable,
		     struct gm_gpu_mem **ret_mem);
	int (*pin)(struct gm_gpu *gpu, uint64_t bytes,
		   struct gm_gpu_mem **ret_mem);
	int (*reach)(struct gm_gpu *gpu, char *at, uint64_t bytes,
		     bool writable, struct gm_gpu_mem **ret_mem);
	void (*release)(struct gm_gpu *gpu, struct gm_gpu_mem *mem);
	/* A descriptor of shareable memory; of_others: of any device's.  NULL:
	 * there is no such memory. */
	int (*export_fd)(struct gm_gpu *gpu, struct gm_gpu_mem *mem);
	int (*import_fd)(struct gm_gpu *gpu, int fd, uint64_t bytes,
			 bool of_others, struct gm_gpu_mem **ret_mem);

	/* Work on a lane, which is not waited for. */
	int (*copy)(struct gm_gpu *gpu, uint32_t lane, struct gm_gpu_at to,
		    struct gm_gpu_at from, uint64_t bytes);
	int (*fill)(struct gm_gpu *gpu, uint32_t lane, struct gm_gpu_at to,
		    uint64_t bytes, uint8_t value);
	int (*launch)(struct gm_gpu *gpu, uint32_t lane,
		      const struct gm_gpu_launch *launch);

	/* Marks behind it.  mark: 0: the lane's word tells; 1: passed() alone
	 * does.  passed: 1; 0: not yet.  These and wait() fail with
	 * -ENOTRECOVERABLE alone.  wait: NULL: threads of the driver's write
	 * all words, by gm_stream_told(), and passed is NULL too. */
	int (*mark)(struct gm_gpu *gpu, const struct gm_async_exec *mark);
	int (*passed)(struct gm_gpu *gpu, const struct gm_async_exec *mark);
	int (*wait)(struct gm_gpu *gpu, const struct gm_async_exec *mark);
	/* Later work on the lane waits for a mark of another. */
	int (*after)(struct gm_gpu *gpu, uint32_t lane,
		     const struct gm_async_exec *mark);
	/* Is a lane that makes no progress sound?  May be slow.  NULL: a loss
	 * is met without. */
	int (*look)(struct gm_gpu *gpu, uint32_t lane);
	/* Wait for all of GM_GPU_SLOW, or of GM_GPU_ALL lanes. */
	int (*finish)(struct gm_gpu *gpu, uint32_t lane);

	/* The kernel of an operator, or NULL; and that of a client's program,
	 * as load_kernel() of gm_backend. */
	const struct gm_gpu_kernel *(*find)(struct gm_gpu *gpu, uint32_t op,
					    uint32_t dtype, uint32_t to);
	int (*load)(struct gm_gpu *gpu, const struct gm_kernel_image *image,
		    struct gm_gpu_program **ret_program,
		    const struct gm_gpu_kernel **ret_kernel,
		    char ret_why[GM_KERNEL_WHY_BYTES]);
	void (*unload)(struct gm_gpu *gpu, struct gm_gpu_program *program);
};

/* A device that a vendor's library shows, before anything opens it.  0, "" and
 * false: it is not told. */
struct gm_gpu_facts {
	char id[64]; /* no other of the library's has it */
	char name[64];
	char version[64]; /* of its driver */
	bool is_cpu;
	bool is_unified; /* its memory is the processor's */
	bool has_f16;
	bool has_pci;
	bool exports;        /* memory, by descriptors */
	uint32_t pci_domain; /* its address: as gpumap_device has it */
	uint32_t pci_bus;
	uint32_t vendor; /* as on PCI */
	uint32_t units;
	uint32_t group; /* items that one may have */
	uint64_t local_bytes;
	uint64_t bytes; /* of its memory */
};

#define GM_GPU_DEVICES 64u /* of one library */

/* ---- stream.c, for drivers ----------------------------------------------- */

/* open() of a driver's backend; GM_STREAM_CALLS are its other calls. */
int gm_stream_open(const struct gm_backend *backend,
		   const struct gm_gpu_ops *ops,
		   const struct gm_device_config *config,
		   struct gm_backend_device **ret_dev);

/* A mark of the word's lane has passed, and its value is this.  Values may come
 * in any order.  Threads: any */
void gm_stream_told(struct gm_gpu *gpu, gm_a64 *word, uint64_t value);

/* Log which floats the operators compute by integers. */
void gm_stream_say_floats(bool has_f32, bool has_f64);

/* A compiler's message, in one line. */
void gm_stream_flatten(char *log);

/* The id of facts[i]: its address, else its uuid, NULL for none, which some
 * drivers give to all devices of a kind, else its name; and a number where one
 * before has the same.  The same device has the same id in every process. */
void gm_stream_identify(struct gm_gpu_facts *facts, uint32_t i,
			const uint8_t *uuid);

/* The device of n that has this id, NULL for the first.  Returns its index;
 * -ENODEV, and a line for people. */
int gm_stream_find_id(const struct gm_gpu_facts *facts, uint32_t n,
		      const char *id, const char *library,
		      char ret_why[GM_GPU_WHY_BYTES]);

/* When opening began, and its three parts ended. */
void gm_stream_took(const uint64_t at_ns[4], char ret_took[GM_TOOK_BYTES]);

/* The meaning of a driver's number for the caller: 0; -errno; -ENOTRECOVERABLE,
 * and the device is lost.  Threads: any */
int gm_stream_check(struct gm_gpu *gpu, int code);

/* The device is of no use any more: a number says so.  Returns
 * -ENOTRECOVERABLE.  Threads: any */
int gm_stream_lose_by(struct gm_gpu *gpu, int code);

/* A step of open() had this number, or the device lacks what it needs: why it
 * failed is kept.  Return 0 or -errno. */
int gm_stream_step(struct gm_gpu *gpu, int code, const char *what);
int gm_stream_lacks(struct gm_gpu *gpu, const char *what);

/* The device is of no use any more, and that is why: the first reason counts.
 * Returns -ENOTRECOVERABLE.  Threads: any */
int gm_stream_lose(struct gm_gpu *gpu, int code, const char *why);

static inline bool gm_stream_is_lost(struct gm_gpu *gpu)
{
	return gm_get(&gpu->lost) != 0;
}

#endif
