/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * gpumap/layers.h - read and publish layer maps, which place a model's layers
 * on rows.
 */
#ifndef GPUMAP_LAYERS_H
#define GPUMAP_LAYERS_H

#include <stddef.h>
#include <stdint.h>

#include <gpumap/types.h>
#include <gpumap/view.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The origin of a layer map. */
enum gpumap_setting {
	GPUMAP_SETTING_MANUAL = 1,   /* a spec */
	GPUMAP_SETTING_AUTO = 2,     /* a strategy */
	GPUMAP_SETTING_TOPOLOGY = 3, /* a topology file */
	GPUMAP_SETTING_DUMMY = 4,    /* everything on the base row */
	GPUMAP_SETTING_NCCL = 5,     /* every rank has a part of all layers */
	GPUMAP_SETTING_PIPELINE = 6, /* a range of layers for each rank */
	/* bytes of rows and no model: only of a request; what it publishes is
	 * MANUAL */
	GPUMAP_SETTING_RESERVE = 7
};

/* How an automatic map is made. */
enum gpumap_strategy {
	GPUMAP_STRATEGY_FILL = 1,    /* one row after the other */
	GPUMAP_STRATEGY_BALANCE = 2, /* the slowest row as fast as possible */
	GPUMAP_STRATEGY_FEWEST = 3   /* as few rows as possible */
};

/* Guarantees of a layer map: bits of gpumap_layers.flags. */
/* its charges are reserved */
#define GPUMAP_LAYERS_COMMITTED (UINT32_C(1) << 0)
/* reserved while one process lives */
#define GPUMAP_LAYERS_HELD (UINT32_C(1) << 1)

struct gpumap_layers {
	size_t size; /* sizeof(struct gpumap_layers) */
	char name[64];
	uint64_t version; /* grows with every publication under this name */
	uint64_t published_ns; /* since 1970 */
	uint32_t owner_uid;
	uint32_t setting; /* enum gpumap_setting */
	uint32_t n_layers;
	uint32_t n_rows;        /* rows with a charge: those that hold a layer,
				 * and the base row even if it holds none */
	uint32_t base_row;      /* of what belongs to no layer */
	uint32_t dtype;         /* enum gpumap_dtype, of most weights */
	uint64_t layer_bytes;   /* of all layers; 0: not known */
	uint64_t other_bytes;   /* of what belongs to no layer */
	char spec[256];         /* an equivalent spec, "0:16;1:16"; cut with
				 * "..." if it is longer; empty if no spec can
				 * express it */
	uint32_t flags;         /* GPUMAP_LAYERS_* */
	uint32_t strategy;      /* enum gpumap_strategy; 0: none */
	uint32_t compute_dtype; /* enum gpumap_dtype, of activations and KV
				 * cache; 0: not chosen */
	uint32_t
		max_batch_size; /* for which the KV cache is charged; 0: none */
	uint64_t max_seq_len;
};

/*
 * Each of some layers of a model, one after the other, keeps so much of each
 * sequence.  Elements of keys and values are of the cache's type, those whose
 * number is fixed of the activations', and those of a recurrence have 4 bytes,
 * as in vLLM, SGLang and llama.cpp.
 */
struct gpumap_layer_cache {
	uint32_t n_layers; /* at least 1 */
	uint32_t
		n_heads; /* into which ranks divide it, whole ones each; 1: each
			   * rank keeps all of it; 0: it is not known what the
			   * layer keeps */
	uint32_t window; /* most tokens that are kept; 0: all */
	uint32_t reserved;       /* 0 */
	uint64_t token_elements; /* of keys and values of a token, all heads */
	uint64_t conv_elements;  /* whose number is fixed: last inputs of a
				  * convolution, and keys and values of an
				  * encoder's output of known length */
	uint64_t state_elements; /* of a recurrence */
};

/* The memory that a map takes from one row, or that a plan would take. */
struct gpumap_charge {
	uint32_t row;
	uint32_t n_layers; /* 0: only parts that belong to no layer */
	uint64_t weight_bytes;
	uint64_t kv_bytes;
	uint64_t activation_bytes;
	uint64_t reserve_bytes; /* kept back */
	/* of a plan: of the memory that was free and not reserved; of a map
	 * that is published 0 */
	uint64_t left_bytes;
	uint64_t spare; /* 0 */
};

/*
 * gpumap_layers_view - get a view of a layer map, for gpumap_view_get()
 *
 * name		of the map
 * ret_view	entry i is the row that holds layer i
 *
 * Returns	0
 *		-ENOENT		no map has this name
 *		-EAGAIN		the agent was publishing all through our
 *				attempts
 *		-EPROTO		the segment is damaged
 *		-EINVAL		a name longer than GPUMAP_NAME_MAX, or empty
 * Cost		no system call; a search of the directory
 * Threads	any; async-signal-safe
 */
GPUMAP_API int gpumap_layers_view(const struct gpumap *map, const char *name,
				  struct gpumap_view *ret_view);

/*
 * gpumap_view_refresh - after -EAGAIN: fill a view with the table as it is
 * published now
 *
 * view		as filled before; its object is first searched where it was
 *
 * Returns	0
 *		-ENOENT		the object has been released
 *		-ESTALE		the map was retired: attach again; the view
 *				still returns its old entries
 *		-EAGAIN, -EPROTO	as the call that filled it
 *		-EINVAL		the view is not of this attachment
 *		-EOWNERDEAD	it is pinned by the process that forked this
 *				one: pin anew, with an attachment of this
 *				process's own
 *		the view is unchanged then
 * Cost		no system call; a few loads
 * Threads	the view's own thread; async-signal-safe
 */
GPUMAP_API int gpumap_view_refresh(const struct gpumap *map,
				   struct gpumap_view *view);

/*
 * gpumap_layers_read - read a whole layer map, as one publication
 *
 * ret_layers	set its @size before the call; may be NULL
 * ret_rows	receives the row of each layer; may be NULL
 * ret_bytes	receives the bytes of each layer; may be NULL
 * n		room in ret_rows and ret_bytes
 * ret_charges	receives a charge per row, in first-use order; may be NULL
 * n_charges	room in ret_charges
 *
 * Returns	0
 *		-ENOBUFS	n or n_charges is smaller than the map; only
 *				ret_layers was stored
 *		-ENOENT, -EAGAIN, -EPROTO, -EINVAL	as gpumap_layers_view()
 *		-E2BIG		ret_layers->size is more than 4096 bytes
 *		On -EAGAIN and -EPROTO the content of the arrays is undefined:
 *		the call reads into them, and has found that the entries are not
 *		of one publication.
 * Cost		no system call; one pass over the map unless raced
 * Threads	any; async-signal-safe
 */
GPUMAP_API int gpumap_layers_read(const struct gpumap *map, const char *name,
				  struct gpumap_layers *ret_layers,
				  uint32_t *ret_rows, uint64_t *ret_bytes,
				  size_t n, struct gpumap_charge *ret_charges,
				  size_t n_charges);

/*
 * gpumap_layers_next - list the names of all layer maps, one for each call
 *
 * cursor	0 for the first call, then as the previous call left it
 * ret_name	receives the name, at most GPUMAP_NAME_MAX bytes and a NUL
 *
 * Maps that are published or released meanwhile may or may not be seen; one
 * that is released and published again meanwhile may be seen twice.
 *
 * Returns	1 with a name, 0 when there is none left
 * Cost		no system call
 * Threads	any; async-signal-safe
 */
GPUMAP_API int gpumap_layers_next(const struct gpumap *map, uint32_t *cursor,
				  char ret_name[GPUMAP_NAME_MAX + 1]);

/*
 * gpumap_layers_release - have the agent remove a layer map
 *
 * Memory that the map has reserved is freed with it.
 *
 * Returns	0
 *		-ENOENT		no map has this name
 *		-EINVAL		no map can have this name
 *		-EPERM		it belongs to another user, and this process
 *				does not hold it
 *		-ENOSPC, -EROFS, -EIO	the file of the map cannot be removed
 *					from the agent's disk: the map stays.
 *					Never for a held map, which has no file;
 *					and never -EDQUOT
 *		-EACCES, -ECONNREFUSED, -ECONNRESET, -EOWNERDEAD, ...	as every
 *				request
 * Cost		a round trip on the control socket
 * Threads	any, in turn
 */
GPUMAP_API int gpumap_layers_release(struct gpumap *map, const char *name);

/*
 * gpumap_layers_pin - get a view that stays valid over later publications
 *
 * The block is not reused until gpumap_unpin(), gpumap_detach(), or the end of
 * this process, even if the agent dies.  A pinned view never returns -EAGAIN,
 * except in a forked child: the pin is this process's, and ends with it.
 *
 * A pin of a committed map of this user, or of any user for root, says that
 * this process uses the map: memory that it and its descendants have of the
 * map's rows is part of what the map reserves, as that of the map's holder is,
 * until the pin is given back, or the map is replaced or released.
 *
 * ret_view	as gpumap_layers_view()
 * ret_pin	give it back with gpumap_unpin()
 *
 * Returns	0
 *		-EDQUOT		this user has pinned as many bytes as it may
 *		-ENOSPC		the table of holders is full
 *		-ESRCH		the agent does not see this process, for example
 *				because it is in a pid namespace of its own
 *				beside the agent's
 *		-ENOENT, -EINVAL	as gpumap_layers_view()
 *		-EACCES, -ECONNREFUSED, -ECONNRESET, -EPROTO, -ENOMEM,
 *		-EOWNERDEAD, ...	as every request
 * Cost		a round trip on the control socket
 * Threads	any, in turn
 */
GPUMAP_API int gpumap_layers_pin(struct gpumap *map, const char *name,
				 struct gpumap_view *ret_view,
				 uint64_t *ret_pin);

/*
 * gpumap_unpin - give a pin back; its view must not be used any more
 *
 * Returns	0, -ENOENT when there is no such pin of this process, or as
 *		every request: -EACCES, -ECONNREFUSED, -ECONNRESET, -EPROTO,
 *		-EOWNERDEAD, ...
 * Cost		a round trip on the control socket
 * Threads	any, in turn
 */
GPUMAP_API int gpumap_unpin(struct gpumap *map, uint64_t pin);

#ifdef __cplusplus
}
#endif
#endif
