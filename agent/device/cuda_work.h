/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * cuda_work - a slice while it is being issued: what cuda_work.c and
 * cuda_reduce.c share.
 */
#ifndef GM_CUDA_WORK_H
#define GM_CUDA_WORK_H

#include "agent/device/cuda.h"

/* Where the bytes of one operand are, from some byte of it on. */
struct gm_cuda_side {
	char *client; /* as the worker has them; NULL: device memory, or none */
	char *host;   /* what copies name: client memory, or its staging */
	gm_cu_ptr at; /* as the device names them */
	uint64_t
		left; /* bytes until @at and @host have to be asked for again */
	uint32_t unit; /* of staging, a bit; 0: in place */
	uint32_t each; /* bytes of an element */
};

/* Elements, but those of a copy are bytes. */
struct gm_cuda_slice {
	const struct gm_task *task;
	uint32_t has;  /* GM_OPS_* */
	uint32_t each; /* bytes of the larger operand's element */
	bool is_last;  /* of its task */
	uint64_t n;
	struct gm_cuda_side dst, src;
	struct gm_cuda_side mask; /* all that is needed, from its first byte */
	uint64_t mask_n;          /* elements that it has there, and */
	uint64_t mask_at;         /* the one that goes with the next */
	struct gm_cuda_reducer *reducer; /* of a reduction */
};

/* Go on by @bytes.  Staging has all of a slice, so it ends with it. */
int gm_cuda_advance(struct gm_cuda *cuda, struct gm_cuda_side *side,
		    uint64_t bytes, bool is_written);

/* Launch a kernel over @n elements. */
gm_cu_result gm_cuda_launch(struct gm_cuda *cuda, struct CUfunc_st *fn,
			    uint32_t op, uint64_t n, void **params,
			    struct CUstream_st *stream);

/* A unit of staging for the operand.  Returns 0 or -EAGAIN. */
int gm_cuda_take_unit(struct gm_cuda *cuda, struct gm_cuda_side *side);

/* ---- cuda_kernel.c ------------------------------------------------------- */

/*
 * gm_cuda_run - a client's kernel over all items
 *
 * Returns	0; -EINVAL: it takes other parameters, or cannot be launched so;
 *		-EOPNOTSUPP: an operand is not in one piece; or -errno
 */
int gm_cuda_run(struct gm_cuda *cuda, struct gm_cuda_slice *s,
		struct CUstream_st *stream);

/* ---- cuda_mask.c --------------------------------------------------------- */

/* For a slice that begins with element @first.  Returns 0 or -EAGAIN. */
int gm_cuda_mask_find(struct gm_cuda *cuda, struct gm_cuda_slice *s,
		      uint64_t first);

/* Have the processor bring it to the staging that it has. */
void gm_cuda_mask_stage(struct gm_cuda_slice *s);

/* Have the device bring it to @to, which has room for a slice.  Returns 0 or
 * -errno. */
int gm_cuda_mask_gather(struct gm_cuda *cuda, struct gm_cuda_slice *s,
			gm_cu_ptr to, struct CUstream_st *stream);

/* ---- cuda_reduce.c ------------------------------------------------------- */

/* Does the driver have all kernels that the reduction needs? */
bool gm_cuda_can_reduce(const struct gm_cuda *cuda, const struct gm_task *task);

/*
 * gm_cuda_reducer_take - room for what a reduction's slices leave to the next
 *
 * first	element that the slice begins with
 *
 * Returns	0; -EAGAIN: all are taken; -ERANGE: it is not the task's next
 */
int gm_cuda_reducer_take(struct gm_cuda *cuda, uint32_t lane,
			 const struct gm_task *task, uint64_t first,
			 struct gm_cuda_reducer **ret_reducer);

/* Work on the lane may still use it: the next user is behind that work. */
void gm_cuda_reducer_give_back(struct gm_cuda_reducer *reducer);

/*
 * gm_cuda_reduce - a slice of a reduction
 *
 * ret_issued	elements that are on the lane or may be, also on failure
 *
 * Returns	0 or -errno
 */
int gm_cuda_reduce(struct gm_cuda *cuda, struct gm_cuda_slice *s,
		   struct CUstream_st *stream, uint64_t *ret_issued);

#endif
