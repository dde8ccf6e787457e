/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * model - load a checkpoint into buffers, as few as possible on each row.
 *
 * The tensors of one row are laid out in the order of the files: each begins at
 * a multiple of GM_MODEL_ALIGN, and tensors that lie one behind the other in a
 * file and in a buffer are one run.  The loader reads runs in pieces and keeps
 * a few in each row's queue: enough that the row always has the next one, few
 * enough that the session's other jobs there wait for no more than those.
 *
 *	checkpoint	the tensors that there are
 *	place.c		each tensor's row, and its place in the row's buffers
 *	begin.c		the map, the headers and the places, before loading
 *	load.c		allocating, loading, freeing: a step at a time
 *	share.c		sharing a model by name, and opening a shared one
 *	table		the description of a model that is shared with it
 *	state.c		claiming a name, and which step a model is at
 *	model.c		the functions that callers use
 */
#ifndef GM_MODEL_H
#define GM_MODEL_H

#include <gpumap/model.h>

#include "lib/model/checkpoint/checkpoint.h"
#include "lib/private.h"

#define GM_MODEL_ALIGN UINT64_C(256) /* of a tensor in its buffer */
/* A larger tensor has a buffer of its own.  On a busy machine an allocation
 * proceeds at some 100 MB/s, and may take a minute. */
#define GM_MODEL_BUFFER (UINT64_C(1) << 30)
#define GM_MODEL_PIECE  (UINT64_C(32) << 20) /* bytes that one job loads */
#define GM_MODEL_PIECE_ALIGN \
	(UINT64_C(1) << 20) /* alignment of a piece's end in its file */
#define GM_MODEL_QUEUED  4u /* such jobs in flight on a row */
#define GM_MODEL_LOOKS   8u /* samples of progress, for the rate */
#define GM_MODEL_LOOK_NS (UINT64_C(500) * 1000 * 1000)
#define GM_MODEL_ASK_NS \
	(UINT64_C(100) * 1000 * 1000) /* between two requests for a name */

/* The place of one tensor, parallel to the weights. */
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
	uint32_t incarnation; /* of the worker that has the memory */
	void *memory;         /* mapped here, and not imported; or NULL */
};

/* A copy of the caller's order: the caller's own may be gone when loading
 * begins. */
struct gm_model_order {
	char *path;
	char *layers; /* NULL: all goes to rows[0] */
	uint32_t *rows;
	uint32_t n_rows;
	bool as_file; /* no checkpoint: one file, whatever is in it */
};

/* The name by which other sessions can open the model. */
struct gm_model_name {
	char text[GPUMAP_NAME_MAX + 1]; /* empty: it has no name */
	uint32_t flags;                 /* GPUMAP_SHARE_* */
	uint32_t *uids;
	uint32_t n_uids;
	bool mapped;    /* memory of host rows is mapped, not imported */
	bool any_files; /* a share of other files will do, too */
	/* The caller's fingerprint; its size is 0 if there is none. */
	struct gpumap_fingerprint expect;
	bool claimed;   /* this session has reserved the name */
	bool was_there; /* another session had loaded it */
	uint64_t share; /* 0: not shared yet, or not any more */
	uint64_t asked_ns;
};

struct gm_model_run {
	uint64_t from; /* offset in the file */
	uint64_t to;   /* offset in the buffer */
	uint64_t bytes;
	uint32_t file;
	uint32_t buffer;
};

/* A job in flight. */
struct gm_model_op {
	struct gm_ending ending;
	struct gpumap_model *model;
	struct gm_model_lane *lane;
	bool busy;
	bool is_alloc;
	uint32_t file; /* of a LOAD */
	uint32_t buffer;
	uint64_t bytes;
};

/* The part of the model that goes to one row: ranges of the lists below. */
struct gm_model_lane {
	uint32_t row;
	uint32_t incarnation; /* of the worker that has the memory */
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

/* A session's models. */
struct gm_models {
	struct gm_session_part part;
	struct gpumap_model *first; /* all models not yet freed */
	struct gm_loading told;     /* what the agent knows of them */
};

struct gpumap_model {
	struct gpumap_session *session; /* NULL: the session has been closed */
	struct gpumap *map;             /* its attachment */
	struct gm_models *models;       /* the session's */
	struct gpumap_model *next;      /* of them */
	uint32_t state;                 /* enum gpumap_model_state */
	uint32_t flags;                 /* of its buffers */
	int32_t status;                 /* of the first failure */
	struct gm_reason why;
	struct gm_model_order order;
	struct gm_model_name name;
	struct gm_weights weights;
	/* The files that a share which was opened is of, with their tensors and
	 * without: 0 where these do not tell enough. */
	uint64_t fingerprint, fingerprint_files;
	char path[96];
	char *names; /* names of weights that a share described, or NULL */
	/* Metadata of the checkpoint: read from it, and owned; or in the
	 * share's description, which stays mapped with the share. */
	struct gm_weights_meta meta;
	bool owns_meta;
	struct gm_model_place *places;
	struct gm_model_file *files;
	struct gm_model_run *runs;
	struct gm_model_buffer *buffers;
	struct gm_model_lane *lanes;
	uint32_t n_buffers;
	uint32_t n_lanes;
	uint64_t total;
	uint64_t loaded;
	uint64_t begun_ns; /* when the first byte was requested; 0: not yet */
	uint64_t ended_ns;
	struct gm_model_look {
		uint64_t ns;
		uint64_t bytes;
	} looks[GM_MODEL_LOOKS];
	uint32_t n_looks;
};

/* The rows for the tensors. */
struct gm_model_plan {
	const char *name;     /* of the layer map; NULL: all goes to @base */
	const uint32_t *rows; /* of each layer */
	/* bytes of each layer in the map; 0: not known */
	const uint64_t *bytes;
	uint32_t n_layers;
	uint32_t base;
	const uint32_t *only; /* rows that are loaded; NULL: all */
	uint32_t n_only;
};

/* Read what there is to load.  Returns as gm_weights_read(), with
 * model->why. */
int gm_model_read(struct gpumap_model *model, struct gm_weights *ret_weights);

/* Read headers and decide on places, once it is known that this session loads
 * the model.  Returns 0, or as gpumap_model_load() with model->why or the
 * agent's refusal. */
int gm_model_begin(struct gpumap_model *model);

/* A layer map at the time of the call; later publications do not matter. */
struct gm_model_layers {
	struct gpumap_layers facts;
	uint32_t *rows; /* with room for GPUMAP_ROWS_MAX more */
	uint64_t *bytes;
	struct gpumap_charge charges[GPUMAP_ROWS_MAX];
};

/* Read it.  Returns -ENOMEM, or as gpumap_layers_read(); it is to be freed in
 * any case. */
int gm_model_layers_read(const struct gpumap *map, const char *name,
			 struct gm_model_layers *ret_layers);
void gm_model_layers_free(struct gm_model_layers *layers);

/* Fill in places, runs, buffers and lanes.  Returns 0, -EINVAL or -ENOMEM, with
 * model->why. */
int gm_model_place(struct gpumap_model *model,
		   const struct gm_model_plan *plan);

/* The flags of a row, of enum gpumap_device_flags.  Returns 0, or as
 * gpumap_device_read(). */
int gm_model_row_flags(const struct gpumap *map, uint32_t row,
		       uint32_t *ret_flags);

/* ---- share.c ------------------------------------------------------------- */

/* Open the share of the model's name and import all its buffers, or none.
 * Returns as gpumap_model_open(), with model->why or the agent's refusal. */
int gm_model_adopt(struct gpumap_model *model);

/* Unmap what gm_model_adopt() has mapped. */
void gm_model_unmap(struct gpumap_model *model);

/* Export all buffers before anything is read: a model that cannot be shared is
 * not loaded.  Returns as gm_session_call(). */
int gm_model_export(struct gpumap_model *model);

/* Share the loaded model.  Returns as gpumap_share_publish(). */
int gm_model_publish(struct gpumap_model *model);

/* Give up the share and the claim of the name. */
void gm_model_unname(struct gpumap_model *model);

/* ---- load.c, state.c ----------------------------------------------------- */

/* Go on in a state.  A model that is WAITING is opened if another session has
 * shared it, or loaded if the agent now grants this one the claim.  Returns 0,
 * or -EAGAIN: nothing of the model is in flight, and its next job has no room
 * until the caller takes completions. */
int gm_model_turn_wait(struct gpumap_model *model);
int gm_model_turn_alloc(struct gpumap_model *model);
int gm_model_turn_load(struct gpumap_model *model);
int gm_model_turn_end(struct gpumap_model *model);

/* Do as much as is possible now, likewise, in whatever state. */
int gm_model_turn(struct gpumap_model *model);

/* The session's models; NULL: no memory. */
struct gm_models *gm_models_of(struct gpumap_session *session);

/* Go on with all models that are being loaded. */
void gm_models_turn(struct gm_models *models);

/* Tell the agent how far the session's models are, if it is news. */
void gm_models_tell(struct gm_models *models);

/* Is the model loaded or failed, with nothing left to do? */
static inline bool gm_model_is_over(const struct gpumap_model *model)
{
	return model->state == GPUMAP_MODEL_LOADED ||
	       model->state == GPUMAP_MODEL_FAILED;
}

/* End the model with this status, unless it is over. */
static inline void gm_model_fail(struct gpumap_model *model, int32_t status)
{
	if (model->state == GPUMAP_MODEL_ENDING || gm_model_is_over(model))
		return;
	model->status = status;
	model->state = GPUMAP_MODEL_ENDING;
}

/* The fingerprint that the caller wants, or NULL. */
static inline const struct gpumap_fingerprint *
gm_model_expected(const struct gm_model_name *name)
{
	return name->expect.size != 0 ? &name->expect : NULL;
}

#endif
