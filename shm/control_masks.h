/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * control_masks.h - the messages of control.h about masks.
 */
#ifndef GM_CONTROL_MASKS_H
#define GM_CONTROL_MASKS_H

#include <stdint.h>

/*
 * MASK_PUBLISH: make a mask, or replace the one of its name, and have a replica
 * of it for each row.
 *
 * A CUSTOM one is generated as @form says, or its tensor is read from the
 * descriptor that comes along: a memfd that is sealed against all change, on a
 * session's connection.  Tail: n_rows uint32_t, or none where @map names a
 * layer map, whose rows the mask then follows.
 */
struct gm_mask_publish {
	char name[64];
	char map[64];   /* empty: the rows of the tail */
	uint32_t kind;  /* enum gpumap_mask_kind */
	uint32_t form;  /* enum gpumap_mask_form */
	uint32_t dtype; /* enum gpumap_dtype */
	uint32_t rank;  /* of a loaded tensor */
	uint64_t shape[4];
	uint64_t at; /* in the descriptor's file */
	uint64_t tgt_len;
	uint64_t past_kv_len;
	uint64_t sliding_window;
	uint64_t chunk_size;
	uint32_t n_rows;
	uint32_t reserved;
};

struct gm_mask_publish_reply {
	uint64_t version;
	uint64_t bytes;    /* of the tensor */
	uint32_t n_copies; /* replicas that were written */
	uint32_t n_shared; /* replicas that existed already, by another name */
};

/* MASK_NODE: send the descriptor of a node segment, for a client that cannot
 * open it by name.  No reply body. */
struct gm_mask_node {
	uint32_t node;
	uint32_t reserved;
};

/*
 * MASK_USE: let jobs of this session name a mask, as it is published now,
 * whatever is published or released under its name later.  FORGET ends that.
 * The mask's bytes count with the arenas of the uid, one replica's for each
 * node.
 */
struct gm_mask_use {
	uint64_t handle; /* its handle, of kind REGISTERED, see queue.h */
	char name[64];   /* NUL-terminated */
};

struct gm_mask_use_reply {
	uint64_t version;
	uint64_t bytes; /* of the tensor */
	uint32_t dtype; /* enum gpumap_dtype */
	uint32_t reserved;
};

/* MASK_SHOW: let jobs of a row name a mask that MASK_USE gave a handle: the row
 * has a replica of it, and its queue is open.  No reply body. */
struct gm_mask_show {
	uint64_t handle;
	uint32_t row;
	uint32_t reserved;
};

_Static_assert(sizeof(struct gm_mask_publish) == 224, "wire");
_Static_assert(sizeof(struct gm_mask_publish_reply) == 24, "wire");
_Static_assert(sizeof(struct gm_mask_node) == 8, "wire");
_Static_assert(sizeof(struct gm_mask_use) == 72, "wire");
_Static_assert(sizeof(struct gm_mask_use_reply) == 24, "wire");
_Static_assert(sizeof(struct gm_mask_show) == 16, "wire");

#endif
