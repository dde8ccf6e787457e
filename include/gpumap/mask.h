/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * gpumap/mask.h - publish and read attention masks, which have a replica near
 * each row.
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
	GPUMAP_MASK_CAUSAL_FLASH = 2, /* the kernel masks, without a tensor */
	GPUMAP_MASK_CUSTOM = 3        /* a tensor */
};

/* The origin of a CUSTOM mask.  Query i is at position past_kv_len + i; a key
 * that it may not see is 1 (u8) or minus infinity (f16, bf16, f32), the rest
 * 0. */
enum gpumap_mask_form {
	GPUMAP_MASK_LOADED = 0, /* from a client's bytes */
	GPUMAP_MASK_CAUSAL = 1, /* no key after the query */
	/* nor one more than sliding_window before it */
	GPUMAP_MASK_SLIDING = 2,
	GPUMAP_MASK_CHUNKED =
		3, /* nor one of another chunk; all of the cache is visible */
	GPUMAP_MASK_BIDIRECTIONAL_SLIDING = 4 /* nothing sliding_window or more
					       * away, on either side */
};

struct gpumap_mask_request {
	size_t size; /* sizeof(struct gpumap_mask_request) */
	const char *name;
	uint32_t kind;  /* enum gpumap_mask_kind */
	uint32_t form;  /* enum gpumap_mask_form, of a CUSTOM one */
	uint32_t dtype; /* enum gpumap_dtype: U8, F16, BF16 or F32 */
	/* The parameters for generating it. */
	uint64_t tgt_len;        /* queries */
	uint64_t past_kv_len;    /* keys before the first of them */
	uint64_t sliding_window; /* of the SLIDING ones */
	uint64_t chunk_size;     /* of a CHUNKED one; at least 1 */
	/* The tensor to load: @data, row-major and without gaps. */
	uint32_t rank; /* 1 to GPUMAP_MASK_RANK_MAX */
	uint64_t shape[GPUMAP_MASK_RANK_MAX];
	const void *data;
	/* The rows for replicas: those of a layer map, including its later
	 * ones; or a list. */
	const char *map; /* NULL: the list */
	const uint32_t *rows;
	uint32_t n_rows;
};

/* The result of publishing. */
struct gpumap_mask_result {
	size_t size; /* sizeof(struct gpumap_mask_result) */
	uint64_t version;
	uint64_t bytes;    /* of the tensor */
	uint32_t n_copies; /* replicas that were written: one for each NUMA node
			    * and each card */
	/* replicas that existed already, under another name */
	uint32_t n_shared;
};

/*
 * gpumap_mask_publish - have the agent publish a mask, with replicas
 *
 * Each host row can then read the mask in the memory of its NUMA node; rows of
 * one node share one replica.  Each card has a replica in its own memory,
 * for this user only, and the node near it keeps the bytes that the replica was
 * made from.  Masks with the same bytes share their replicas.  A mask of this
 * name is replaced in one step, if this user owns it; the mask stays until it
 * is released, also over restarts of the agent.
 *
 * A mask that follows a layer map has replicas for all rows of the map that can
 * have one, and is published again when the map is.  A mask on cards is
 * published again when one of their workers has died, or when a row goes out of
 * service, where it then has no replica, or comes back.  Every row can have a
 * mask without a tensor; rows whose memory is exported, GPUMAP_DEVICE_EXPORTS,
 * can have others.
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
 *		-EFBIG		the mask is larger than the agent permits
 *		-EOVERFLOW	it would have 2^64 elements or bytes
 *		-EPERM		the name belongs to another user
 *		-EDQUOT		this user has published as much as it may
 *		-ENOSPC		no space is left of masks.bytes, in /dev/shm, in
 *				the segment, or in a card's memory for masks
 *		-EIO		making a replica kills a card's workers
 *		-EAGAIN		rows have changed meanwhile
 *		-EUSERS		for loaded masks: see gpumap_session_open(),
 *				because this call opens a session while it lasts
 *		-ENOMEM, -E2BIG, -EACCES, -ECONNREFUSED, -ECONNRESET,
 *		-EOWNERDEAD
 *		gpumap_refusal() says what was wrong
 * Cost		a round trip on the control socket, which takes as long as
 *		generating and copying, and starting a card's worker
 * Threads	any, in turn
 */
GPUMAP_API int gpumap_mask_publish(struct gpumap *map,
				   const struct gpumap_mask_request *request,
				   struct gpumap_mask_result *ret_result);

/*
 * gpumap_mask_release - have the agent remove a mask
 *
 * Processes that have it pinned can still read it.
 *
 * Returns	0
 *		-ENOENT		no mask has this name
 *		-EINVAL		no mask can have this name
 *		-EPERM		it belongs to another user
 *		-EACCES, -ECONNREFUSED, -ECONNRESET, -EOWNERDEAD
 * Cost		a round trip on the control socket
 * Threads	any, in turn
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
	uint32_t n_rows; /* rows that have a replica */
	uint64_t shape[GPUMAP_MASK_RANK_MAX];
	uint64_t strides[GPUMAP_MASK_RANK_MAX]; /* bytes */
	uint64_t bytes;
	uint64_t hash;    /* of the bytes: equal for equal ones */
	uint64_t tgt_len; /* as it was requested */
	uint64_t past_kv_len;
	uint64_t sliding_window;
	uint64_t chunk_size;
	char map[64]; /* the layer map whose rows it follows; "": a list */
};

/*
 * gpumap_mask_read - read a mask's facts, and the rows that have a replica
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
 * gpumap_mask_next - list the names of all masks, one for each call
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
	(UINT32_C(1) << 0) /* keep this version until the mask is closed */

/*
 * gpumap_mask_open - find a mask once, for gpumap_mask_get()
 *
 * name		of the mask
 * flags	0 or GPUMAP_MASK_PIN: until the mask is closed or this process
 *		ends, later publications do not change it, its bytes are not
 *		reused, and gpumap_mask_get() never returns -EAGAIN.  A forked
 *		child does not have the pin: the call returns -EOWNERDEAD there
 * ret_mask	give it back with gpumap_mask_close()
 *
 * Returns	0
 *		-ENOENT		no mask has this name
 *		-EACCES		this user may not read the memory of masks;
 *				gpumap_refusal() names the group that may
 *		-EAGAIN		the agent was publishing all through our
 *				attempts
 *		-EPROTO		the segment is damaged
 *		-EPERM		another user than the map's owner could have
 *				written the memory of masks; it was not mapped,
 *				and the agent did not hand it over
 *		-EDQUOT, -ENOSPC, -ESRCH, -ECONNREFUSED, -ECONNRESET,
 *		-EOWNERDEAD	of pins: as gpumap_layers_pin()
 *		-EINVAL, -E2BIG, -ENOMEM, -EMFILE
 * Cost		maps the memory of each NUMA node that has a replica, once per
 *		attachment, with a round trip on the control socket if its file
 *		cannot be opened by name; a pin is a round trip as well
 * Threads	any, in turn
 */
GPUMAP_API int gpumap_mask_open(struct gpumap *map, const char *name,
				uint32_t flags, struct gpumap_mask **ret_mask);

/*
 * gpumap_mask_close - close a mask; NULL is allowed
 *
 * Its views must not be used any more.  Close masks before gpumap_detach().
 *
 * Returns	nothing
 * Cost		frees; of a pinned mask a round trip on the control socket
 * Threads	the mask's own thread
 */
GPUMAP_API void gpumap_mask_close(struct gpumap *map, struct gpumap_mask *mask);

/*
 * gpumap_mask_renew - read the current publication; gpumap_mask_get() calls it
 *
 * Returns	-EAGAIN		the views are now those of another version: data
 *				that was read of the previous one may be wrong
 *		-ENOENT		the mask has been released
 *		-ESTALE		the map was retired: attach again
 *		-EOWNERDEAD	the mask is pinned by the process that forked
 *				this one
 *		-EACCES, -EPERM, -EPROTO, -ENOMEM, -EMFILE	as
 *				gpumap_mask_open()
 *		after the errors other than -EAGAIN, and in a pinned mask, the
 *		views are unchanged
 * Cost		no system call, except to map a node's memory for the first time
 * Threads	the mask's own thread
 */
GPUMAP_API int gpumap_mask_renew(struct gpumap *map, struct gpumap_mask *mask);

#ifdef __cplusplus
}
#endif
#endif
