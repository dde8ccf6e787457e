/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * gpumap/mask.h - attention masks, replicated before they are needed.
 */
#ifndef GPUMAP_MASK_H
#define GPUMAP_MASK_H

#include <stddef.h>
#include <stdint.h>

#include <gpumap/types.h>
#include <gpumap/view.h>

#ifdef __cplusplus
extern "C" {
#endif

enum gpumap_mask_kind {
	GPUMAP_MASK_NONE = 1,         /* every query sees every key */
	GPUMAP_MASK_CAUSAL_FLASH = 2, /* the kernel does it, without a tensor */
	GPUMAP_MASK_CUSTOM = 3        /* a tensor */
};

/* How a CUSTOM mask came about.  Query i is at position past_kv_len + i; what
 * it may not see is 1 (u8) or minus infinity (f16, bf16, f32), the rest 0. */
enum gpumap_mask_form {
	GPUMAP_MASK_LOADED = 0,  /* from bytes of a client's */
	GPUMAP_MASK_CAUSAL = 1,  /* no key after the query */
	GPUMAP_MASK_SLIDING = 2, /* nor one more than sliding_window before */
	GPUMAP_MASK_CHUNKED =
		3, /* nor one of another chunk; the cache is seen */
	GPUMAP_MASK_BIDIRECTIONAL_SLIDING = 4 /* nothing sliding_window or more
					       * away, on either side */
};

struct gpumap_mask_request {
	size_t size; /* sizeof(struct gpumap_mask_request) */
	const char *name;
	uint32_t kind;  /* enum gpumap_mask_kind */
	uint32_t form;  /* enum gpumap_mask_form, of a CUSTOM one */
	uint32_t dtype; /* enum gpumap_dtype: U8, F16, BF16 or F32 */
	/* What it is generated from. */
	uint64_t tgt_len;        /* queries */
	uint64_t past_kv_len;    /* keys before the first of them */
	uint64_t sliding_window; /* of the SLIDING ones */
	uint64_t chunk_size;     /* of a CHUNKED one; at least 1 */
	/* What is loaded: @data, row-major and without gaps. */
	uint32_t rank; /* 1 to GPUMAP_MASK_RANK_MAX */
	uint64_t shape[GPUMAP_MASK_RANK_MAX];
	const void *data;
	/* Where to.  A layer map's rows, also those that it will have; or a
	 * list. */
	const char *map; /* NULL: the list */
	const uint32_t *rows;
	uint32_t n_rows;
};

/* What publishing has come to. */
struct gpumap_mask_result {
	size_t size; /* sizeof(struct gpumap_mask_result) */
	uint64_t version;
	uint64_t bytes;    /* of the tensor */
	uint32_t n_copies; /* times that it was written: once per NUMA node, and
			    * once per CUDA row */
	uint32_t n_shared; /* where it was already, under another name */
};

/*
 * gpumap_mask_publish - have the agent make a mask, and replicas of it
 *
 * Each row of a host can read the mask in the memory of its NUMA node from then
 * on; rows of one node have one replica between them.  Each CUDA row has one in
 * its own memory, for this user alone, and the node near it keeps the bytes
 * that it was made from.  Masks with the same bytes share their replicas.  A
 * mask of this name is replaced in one step, if it is yours; it stays until it
 * is released, and over restarts of the agent.
 *
 * One that follows a layer map has replicas for all rows of that which can have
 * some, and is published anew when the map is.  So is one on CUDA rows when a
 * worker of theirs has died, or a row goes out of service, and has none then,
 * or comes back.  A mask without a tensor can be had by every row, others by
 * all but dummy rows.
 *
 * request	set its @size
 * ret_result	set its @size; may be NULL
 *
 * Returns	0
 *		-EINVAL		the name, a kind, a form, a dtype, a size or a
 *				row was refused
 *		-ENODEV		a row that does not exist, or is out of service
 *		-ENOENT		no layer map of this name
 *		-EOPNOTSUPP	a row that cannot have a replica, or none that
 *				can
 *		-EFBIG		the mask is larger than any may be here
 *		-EOVERFLOW	it would have 2^64 elements or bytes
 *		-EPERM		the name belongs to another user
 *		-EDQUOT		this user has published as much as it may
 *		-ENOSPC		masks.bytes are used up, or /dev/shm, or the
 *				segment, or what a CUDA row has left for masks
 *		-EIO		a CUDA row's workers die of making a replica
 *		-EAGAIN		rows have changed meanwhile
 *		-EUSERS		of loaded ones: see gpumap_session_open(), for
 *				a session lasts as long as this call
 *		-ENOMEM, -E2BIG, -EACCES, -ECONNREFUSED, -ECONNRESET,
 *		-EOWNERDEAD
 *		gpumap_refusal() says what was wrong
 * Cost		a round trip on the control socket, as long as generating and
 *		copying takes, and a CUDA row's worker to start
 * Threads	one at a time
 */
GPUMAP_API int gpumap_mask_publish(struct gpumap *map,
				   const struct gpumap_mask_request *request,
				   struct gpumap_mask_result *ret_result);

/*
 * gpumap_mask_release - have the agent take a mask back
 *
 * Who has it pinned goes on reading it.
 *
 * Returns	0
 *		-ENOENT		no mask has this name
 *		-EINVAL		no mask can have this name
 *		-EPERM		it belongs to another user
 *		-EACCES, -ECONNREFUSED, -ECONNRESET, -EOWNERDEAD
 * Cost		a round trip on the control socket
 * Threads	one at a time
 */
GPUMAP_API int gpumap_mask_release(struct gpumap *map, const char *name);

/* A published mask.  Its tensor is dense, the last dimension the fastest. */
struct gpumap_mask_info {
	size_t size; /* sizeof(struct gpumap_mask_info) */
	char name[64];
	uint64_t version;
	uint64_t published_ns; /* since 1970 */
	uint32_t owner_uid;
	uint32_t kind;  /* enum gpumap_mask_kind */
	uint32_t form;  /* enum gpumap_mask_form */
	uint32_t dtype; /* enum gpumap_dtype */
	uint32_t rank;
	uint32_t n_rows; /* that have a replica */
	uint64_t shape[GPUMAP_MASK_RANK_MAX];
	uint64_t strides[GPUMAP_MASK_RANK_MAX]; /* bytes */
	uint64_t bytes;
	uint64_t hash;    /* of the bytes: equal for equal ones */
	uint64_t tgt_len; /* as it was asked for */
	uint64_t past_kv_len;
	uint64_t sliding_window;
	uint64_t chunk_size;
	char map[64]; /* whose rows it follows; "": a list's */
};

/*
 * gpumap_mask_read - what a mask is, and which rows have it
 *
 * ret_info	set its @size before the call; may be NULL
 * ret_rows	receives the rows; may be NULL
 * n		room in ret_rows
 *
 * Returns	0
 *		-ENOBUFS	n is smaller than info.n_rows; only ret_info was
 *				stored
 *		-ENOENT		no mask has this name
 *		-EAGAIN		the agent was publishing all through our
 *				attempts
 *		-EPROTO		the segment is damaged
 *		-EINVAL, -E2BIG	the name, ret_info->size
 * Cost		no system call
 * Threads	any; async-signal-safe
 */
GPUMAP_API int gpumap_mask_read(const struct gpumap *map, const char *name,
				struct gpumap_mask_info *ret_info,
				uint32_t *ret_rows, size_t n);

/*
 * gpumap_mask_next - the names of all masks, one a call
 *
 * cursor, ret_name	as for gpumap_layers_next()
 *
 * Returns	1 with a name, 0 when there is none left
 * Cost		no system call
 * Threads	any; async-signal-safe
 */
GPUMAP_API int gpumap_mask_next(const struct gpumap *map, uint32_t *cursor,
				char ret_name[GPUMAP_NAME_MAX + 1]);

#define GPUMAP_MASK_PIN \
	(UINT32_C(1) << 0) /* this version, until it is closed */

/*
 * gpumap_mask_open - look a mask up once, for gpumap_mask_get()
 *
 * name		of the mask
 * flags	0 or GPUMAP_MASK_PIN: what is published later changes nothing,
 *		its bytes are not reused, and gpumap_mask_get() never answers
 *		-EAGAIN; until it is closed, or this process ends
 * ret_mask	give it back with gpumap_mask_close()
 *
 * Returns	0
 *		-ENOENT		no mask has this name
 *		-EACCES		this user may not read the memory of masks;
 *				gpumap_refusal() says which group may
 *		-EAGAIN		the agent was publishing all through our
 *				attempts
 *		-EPROTO		the segment is damaged
 *		-EPERM		the memory of masks could have been written by
 *				others than its agent; it was not mapped
 *		-EDQUOT, -ENOSPC, -ESRCH, -ECONNREFUSED, -ECONNRESET,
 *		-EOWNERDEAD	of pins: as gpumap_layers_pin()
 *		-EINVAL, -E2BIG, -ENOMEM, -EMFILE
 * Cost		maps the memory of each NUMA node that has a replica, once per
 *		attachment; a pin is a round trip on the control socket
 * Threads	one at a time
 */
GPUMAP_API int gpumap_mask_open(struct gpumap *map, const char *name,
				uint32_t flags, struct gpumap_mask **ret_mask);

/*
 * gpumap_mask_close - give it back; NULL is allowed
 *
 * Its views must not be used any more.  Close masks before gpumap_detach().
 *
 * Returns	nothing
 * Cost		frees; of a pinned mask a round trip on the control socket
 * Threads	one at a time
 */
GPUMAP_API void gpumap_mask_close(struct gpumap *map, struct gpumap_mask *mask);

/*
 * gpumap_mask_renew - see what is published now; gpumap_mask_get() calls it
 *
 * Returns	-EAGAIN		the views are those of another version now: what
 *				was read of the one before may not hold
 *		-ENOENT		the mask has been released
 *		-ESTALE		the map was retired: attach again
 *		-EACCES, -EPERM, -EPROTO, -ENOMEM, -EMFILE	as
 *				gpumap_mask_open()
 *		the views are what they were then
 * Cost		no system call, but to map a node's memory for the first time
 * Threads	the mask's own thread
 */
GPUMAP_API int gpumap_mask_renew(struct gpumap *map, struct gpumap_mask *mask);

#ifdef __cplusplus
}
#endif
#endif
