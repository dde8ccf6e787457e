/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * gpu_bench - a GPU row's backend in a test's hands, and a host row's beside
 * it, which says what is right.
 *
 * The client memory of a bench is a memfd, as a session's is.  A job goes
 * through the backend as a worker takes it: in slices, some under way, each
 * after the one before it.
 */
#ifndef GM_TEST_SUPPORT_GPU_BENCH_H
#define GM_TEST_SUPPORT_GPU_BENCH_H

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "agent/device/device.h"
#include "gpumap.h"
#include "tests/support/dice.h"
#include "tests/support/tap.h"

#define BENCH_ROOM  (UINT64_C(18) << 20) /* of each operand, at most */
#define BENCH_LARGE (UINT64_C(6) << 20)
#define BENCH_SMALL (UINT64_C(16) << 10)
#define BENCH_SIDES 2u       /* dst, src */
#define BENCH_SET   "gfx90a" /* of HIP's cards: every clang knows it */
#define BENCH_WAIT  120000   /* ms, and then something is wrong */

struct bench {
	/* Before it is opened: NULL is CUDA's, and the system's. */
	const struct gm_backend *backend;
	const char *library;
	const char *cache;     /* folder for the library's compiler */
	const char *operators; /* folder that keeps operators, or NULL */
	bool is_serial;        /* the library bears one thread at a time */

	struct gm_backend_device *dev, *host;
	bool can_export;
	bool copies_alone; /* there are no operators */
	uint64_t room;     /* of each operand that is looked at */
	char *client; /* both operands, in memory that the device reaches */
	struct gm_region *region;
	struct gm_buffer *buffer[BENCH_SIDES];
	char *want; /* dst as the host row leaves it */
	char *kept; /* src, and dst as it was */
	struct gm_async_exec
		last; /* of the session's, and whether there is one */
	bool has_last;
	bool sleeps; /* waits by ended_fd rather than by looking */
	uint32_t n_sleeps;
	bool mask_is_here; /* of trials, in client memory wherever src is */
	bool is_hard; /* of trials: numbers have subnormals, NaNs and such */
};

uint64_t bench_now_ms(void);

/* Until a slice has ended: 0, or what it ended with. */
int bench_wait(struct bench *b, const struct gm_async_exec *flight);

/* One slice, as soon as there is room for it. */
int bench_start(struct bench *b, const struct gm_task *task, uint64_t first,
		uint64_t count, struct gm_async_exec *ret_flight);

/* A whole job, as a worker does it.  0 or what a slice ended with. */
int bench_run(struct bench *b, const struct gm_task *task);
void bench_close(struct bench *b);
char *bench_map(uint64_t bytes);

/* Returns 0 or -errno.  The caller closes it in either case. */
int bench_open(struct bench *b, const char *uuid);

/* The same of the first device, and the checks say why not: a machine may lack
 * @thing. */
bool bench_is_open(struct bench *b, const char *thing);

/* A text as a client's image. */
#define BENCH_TEXT(text, name) \
	(&(const struct gm_kernel_image){ text, strlen(text), name })

/*
 * bench_square - load a client's program, and run it
 *
 * image	makes params[0] * src[i] * src[i] of f32, and writes no more
 * ret_task	of the run, in client memory: the caller may run it again, and
 *		unloads the kernel
 *
 * The checks say what is wrong.  Returns whether the program is loaded.
 */
bool bench_square(struct bench *b, const struct gm_kernel_image *image,
		  struct gm_kernel **ret_kernel, struct gm_task *ret_task);

/* Another bench on the same device, that sleeps.  As bench_is_open(). */
bool bench_again(const struct bench *b, const char *thing,
		 struct bench *ret_other);

/* All client memory in place, or through staging: flags of struct gm_gpu. */
bool bench_reach(struct bench *b, uint32_t flags);

/* A few elements of one buffer to the other, in the device's own memory: AXPY,
 * or a copy where there is no operator. */
struct gm_task bench_task(struct bench *b, double alpha);

/* ---- trials: one job, on the device and on the host --------------------- */

struct trial {
	uint32_t op, dtype;
	uint64_t n;
	uint64_t at[BENCH_SIDES];    /* bytes into the operand's room */
	bool on_device[BENCH_SIDES]; /* else in client memory */
	uint32_t to;                 /* CAST */
	uint32_t mask_n; /* of a mask that is in src's room, behind it */
};

struct gm_task trial_copy(struct bench *b, uint32_t side, bool is_out);
int trial_run(struct bench *b, const struct trial *t);

/* All of dst's room is what it should be, and src is what it was; or the
 * operator is refused, where there are none. */
bool trial_holds(struct bench *b, const struct trial *t);

/* One of each kind in each place: how many do not hold. */
int trials_failed(struct bench *b, uint64_t n);

#endif
