/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * model - a checkpoint on its way into buffers, as few as may be for each row.
 *
 * What belongs to one row is laid out in the order of the files: each tensor
 * begins at a multiple of GM_MODEL_ALIGN, and tensors that lie one behind the
 * other in a file and in a buffer are one run.  Runs are read in pieces, some of
 * which each row has in its queue, so that it always knows what to read next and
 * what else the session submits there waits for no more than those.
 *
 *	weights		which tensors there are
 *	model_place.c	which row each belongs to, and where in its buffers it goes
 *	model_load.c	allocating, loading, giving back: a step at a time
 *	model.c		what callers see
 */
#ifndef GM_MODEL_H
#define GM_MODEL_H

#include "lib/internal.h"
#include "lib/weights.h"

#define GM_MODEL_ALIGN UINT64_C(256) /* of a tensor in its buffer */
/* A larger tensor has its own.  Memory comes at some 100 MB/s where all else is
 * busy, too, and an allocation may take a minute. */
#define GM_MODEL_BUFFER (UINT64_C(1) << 30)
#define GM_MODEL_PIECE  (UINT64_C(32) << 20) /* bytes that one job loads */
#define GM_MODEL_PIECE_ALIGN \
	(UINT64_C(1) << 20) /* of the end of one in its file */
#define GM_MODEL_QUEUED  4u /* such jobs, of a row */
#define GM_MODEL_LOOKS   8u /* at the clock, for the rate */
#define GM_MODEL_LOOK_NS (UINT64_C(500) * 1000 * 1000)

/* Beside each of the weights. */
struct gm_model_place {
	uint32_t row;
	int32_t layer;   /* -1: of none */
	uint32_t buffer; /* UINT32_MAX: not loaded here, or empty */
	uint64_t at;
};

struct gm_model_buffer {
	uint64_t handle; /* 0: none now */
	uint64_t bytes;
};

struct gm_model_run {
	uint64_t from; /* in the file */
	uint64_t to;   /* in the buffer */
	uint64_t bytes;
	uint32_t file;
	uint32_t buffer;
};

/* A job in flight. */
struct gm_model_op {
	struct gpumap_model *model;
	struct gm_model_lane *lane;
	bool busy;
	bool is_alloc;
	uint32_t file; /* of a LOAD */
	uint32_t buffer;
	uint64_t bytes;
};

/* What one row has of it: ranges of the lists below. */
struct gm_model_lane {
	uint32_t row;
	uint32_t incarnation; /* of the worker whose memory it is */
	uint32_t buffer, end_buffer;
	uint32_t next_buffer;
	size_t run, end_run;
	uint64_t done; /* bytes of @run that have been submitted */
	uint64_t bytes;
	uint32_t n_busy;
	struct gm_model_op ops[GM_MODEL_QUEUED];
};

struct gm_model_file {
	uint64_t handle; /* 0: not registered now */
	uint64_t left;   /* bytes that have not ended */
};

struct gpumap_model {
	struct gpumap_session *session; /* NULL: has been closed */
	struct gpumap_model *next;      /* of the session's */
	uint32_t state;                 /* enum gpumap_model_state */
	uint32_t flags;                 /* of its buffers */
	int32_t status;                 /* of the first failure */
	struct gm_reason why;
	struct gm_weights weights;
	struct gm_model_place *places;
	struct gm_model_file *files;
	struct gm_model_run *runs;
	struct gm_model_buffer *buffers;
	struct gm_model_lane *lanes;
	uint32_t n_buffers;
	uint32_t n_lanes;
	uint64_t total;
	uint64_t loaded;
	uint64_t begun_ns; /* when the first byte was asked for, 0: not yet */
	uint64_t ended_ns;
	struct gm_model_look {
		uint64_t ns;
		uint64_t bytes;
	} looks[GM_MODEL_LOOKS];
	uint32_t n_looks;
};

/* Which rows are for which tensors. */
struct gm_model_plan {
	const char *name;      /* of the layer map; NULL: all goes to @base */
	const uint32_t *rows;  /* of each layer */
	const uint64_t *bytes; /* likewise, as the map has them; 0: not known */
	uint32_t n_layers;
	uint32_t base;
	const uint32_t *only; /* rows that are loaded; NULL: all */
	uint32_t n_only;
};

/* Fill in places, runs, buffers and lanes.  Returns 0, -EINVAL or -ENOMEM, with
 * model->why. */
int gm_model_place(struct gpumap_model *model,
		   const struct gm_model_plan *plan);

/* Do what can be done now.  Returns 0, or -EAGAIN: nothing of it is in flight, and
 * its next job finds no room behind completions that the caller has to take. */
int gm_model_turn(struct gpumap_model *model);

/* It is to end so, if it is on its way. */
void gm_model_fail(struct gpumap_model *model, int32_t status);

/* Is there nothing left to do? */
static inline bool gm_model_is_over(const struct gpumap_model *model)
{
	return model->state == GPUMAP_MODEL_LOADED ||
	       model->state == GPUMAP_MODEL_FAILED;
}

#endif
