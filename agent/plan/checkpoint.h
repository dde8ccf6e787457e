/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * checkpoint - measure a model on disk, layer by layer.
 *
 * A checkpoint is a directory as model hubs serve them: config.json, and the
 * weights in
 *
 *	model.safetensors, or else
 *	the files that model.safetensors.index.json names, or else
 *	every *.safetensors in it.
 *
 * A checkpoint is read whole or refused.  Each shard must be complete and
 * consistent, no tensor may be in two of them, every tensor that the index
 * names must be in the shard it names, no layer may be missing, and config.json
 * must state as many layers as there are: a difference means that a download
 * stopped half-way or that files of two models got mixed, and a plan made from
 * it would be wrong. (config.json names the layers that a model stores past its
 * last to predict more tokens; they count as non-mapped.)  Tensors in a shard
 * that the index does not name are counted, because a loader that reads the
 * shard holds them.
 *
 * A checkpoint may also be a GGUF file, whose header states what a config.json
 * would.  For a model that is split @path is any of its files, and all of them
 * are read.
 *
 * Only headers are read, never the weights.
 */
#ifndef GM_CHECKPOINT_H
#define GM_CHECKPOINT_H

#include <stdint.h>

#include "agent/plan/error.h"
#include "agent/plan/model_config.h"

#define GM_CHECKPOINT_SHARDS  4096u                 /* most files of a model */
#define GM_CHECKPOINT_HEADERS (UINT64_C(256) << 20) /* most bytes, together */

struct gm_checkpoint {
	uint32_t n_layers; /* at least 1 */
	uint32_t n_shards;
	uint64_t n_tensors;
	uint64_t *layer_bytes;         /* n_layers of them */
	uint64_t non_mapped_bytes;     /* embeddings, head, vision tower... */
	uint64_t total_bytes;          /* all layers and the non-mapped */
	const char *dtype;             /* of most bytes: "BF16" */
	struct gm_model_config config; /* from config.json */
};

/*
 * gm_checkpoint_read - measure the model at @path
 *
 * ret_ckpt	give it back with gm_checkpoint_free()
 *
 * Returns	0
 *		-ENOENT		no such directory, no config.json, no weights,
 *				or a shard that the index names is not there
 *		-EINVAL		malformed, incomplete or contradictory
 *		-ENODATA	a file is truncated
 *		-EFBIG, -E2BIG	beyond a limit
 *		-EOVERFLOW	sizes of 2^64 or more
 *		-ENOMEM, and what opening and reading answer
 *		Each with a text that names the file and tensor.
 * Cost		one open and two reads per shard
 * Threads	any
 */
int gm_checkpoint_read(const char *path, struct gm_checkpoint *ret_ckpt,
		       struct gm_plan_error *ret_err);

/* Called before each file is read, with the number of files before it, and of
 * all. */
struct gm_checkpoint_watch {
	void (*read)(void *data, uint32_t n_read, uint32_t n_files);
	void *data;
};

/* The same, watched: a model of many files on a remote file system takes long.
 * @watch may be NULL. */
int gm_checkpoint_watch(const char *path,
			const struct gm_checkpoint_watch *watch,
			struct gm_checkpoint *ret_ckpt,
			struct gm_plan_error *ret_err);

/* Free what gm_checkpoint_read() gave.  NULL is allowed. */
void gm_checkpoint_free(struct gm_checkpoint *ckpt);

#endif
