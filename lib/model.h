/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * model - a checkpoint on its way into buffers, as few as may be for each row.
 *
 * What belongs to one row is laid out in the order of the files: each tensor
 * begins at a multiple of GM_MODEL_ALIGN, and tensors that lie one behind the
 * other in a file and in a buffer are one run.  Runs are read in pieces, some
 * of which each row has in its queue, so that it always knows what to read next
 * and what else the session submits there waits for no more than those.
 *
 *	weights		which tensors there are
 *	model_place.c	which row each belongs to, and where in its buffers it
 *			goes
 *	model_load.c	allocating, loading, giving back: a step at a time
 *	model_share.c	a name for it, and what others have given one
 *	model_table	what such a name says of it
 *	model.c		what callers see
 */
#ifndef GM_MODEL_H
#define GM_MODEL_H

#include "lib/checkpoint/checkpoint.h"
#include "lib/internal.h"

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
#define GM_MODEL_ASK_NS \
	(UINT64_C(100) * 1000 * 1000) /* between two questions for a name */

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
	uint32_t row;
	uint32_t incarnation; /* of the worker that it is with */
};

/* What is to be loaded.  Ours: the caller's may be gone when it begins. */
struct gm_model_order {
	char *path;
	char *layers; /* NULL: all goes to rows[0] */
	uint32_t *rows;
	uint32_t n_rows;
};

/* By which others have it. */
struct gm_model_name {
	char text[GPUMAP_NAME_MAX + 1]; /* empty: they do not */
	uint32_t flags;                 /* GPUMAP_SHARE_* */
	uint32_t *uids;
	uint32_t n_uids;
	bool claimed;   /* nobody else shares by it now */
	bool was_there; /* somebody else had loaded it */
	uint64_t share; /* 0: not yet, or not any more */
	uint64_t asked_ns;
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
	struct gm_model_order order;
	struct gm_model_name name;
	struct gm_weights weights;
	char *names; /* of weights that were told by a share; NULL */
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

/* Read headers and decide on places, once it is known that it is to be loaded.
 * Returns 0, or as gpumap_load_model() with model->why or what the agent
 * said. */
int gm_model_begin(struct gpumap_model *model);

/* Fill in places, runs, buffers and lanes.  Returns 0, -EINVAL or -ENOMEM, with
 * model->why. */
int gm_model_place(struct gpumap_model *model,
		   const struct gm_model_plan *plan);

/* Do what can be done now.  Returns 0, or -EAGAIN: nothing of it is in flight,
 * and its next job finds no room behind completions that the caller has to
 * take. */
int gm_model_turn(struct gpumap_model *model);

/* ---- model_share.c ------------------------------------------------------- */

/* Of one that is WAITING: has somebody shared it, or is it ours to load? */
void gm_model_ask(struct gpumap_model *model);

/* Have what is shared by its name: all of it, or nothing.  Returns as
 * gpumap_model_open(), with model->why or what the agent said. */
int gm_model_adopt(struct gpumap_model *model);

/* Can what has been placed be shared?  Returns 0, or -E2BIG with model->why. */
int gm_model_judge_name(struct gpumap_model *model);

/* What cannot be shared is not loaded either.  Returns as gm_session_call(). */
int gm_model_export(struct gpumap_model *model);

/* It is there.  Returns as gpumap_share(). */
int gm_model_publish(struct gpumap_model *model);

/* We do not hold it any more, and are not about to load it. */
void gm_model_unname(struct gpumap_model *model);

/* ---- model_load.c -------------------------------------------------------- */

/* It is to end so, if it is on its way. */
void gm_model_fail(struct gpumap_model *model, int32_t status);

/* Is there nothing left to do? */
static inline bool gm_model_is_over(const struct gpumap_model *model)
{
	return model->state == GPUMAP_MODEL_LOADED ||
	       model->state == GPUMAP_MODEL_FAILED;
}

#endif
