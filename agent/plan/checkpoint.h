/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * checkpoint - how large a model is, layer by layer, as it lies on disk.
 *
 * A checkpoint is a directory as model hubs serve them: config.json, and the
 * weights in
 *
 *	model.safetensors, or else
 *	what model.safetensors.index.json names, or else
 *	every *.safetensors in it.
 *
 * It is taken whole or refused.  Each shard must be complete and agree with
 * itself, no tensor may be in two of them, every tensor that the index names
 * must be in the shard it names, no layer may be missing, and config.json
 * must say as many layers as there are: a difference means that a download
 * stopped half-way or files of two models got mixed, and a plan made from it
 * would be wrong where it hurts.  (Layers that a model stores past its last
 * to predict more tokens are known by config.json, and count as non-mapped.)
 * Tensors in a shard that the index does not name are counted: a loader that
 * reads the shard will hold them.
 *
 * Or it is a GGUF file, which says of itself what a config.json would; of one
 * that is split, any of its files, and all of them are read.
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
	struct gm_model_config config; /* what config.json says */
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

/* Free what gm_checkpoint_read() gave.  NULL is allowed. */
void gm_checkpoint_free(struct gm_checkpoint *ckpt);

#endif
