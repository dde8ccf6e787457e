/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * gpumap/plan.h - place a model on rows, and have the agent reserve its memory.
 */
#ifndef GPUMAP_PLAN_H
#define GPUMAP_PLAN_H

#include <stddef.h>
#include <stdint.h>

#include <gpumap/layers.h>
#include <gpumap/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The use of a plan: bits of gpumap_plan_request.flags. */
/* publish it as the layer map @name */
#define GPUMAP_PLAN_PUBLISH (UINT32_C(1) << 0)
#define GPUMAP_PLAN_COMMIT \
	(UINT32_C(1) << 1) /* publish it, and reserve its charges */
#define GPUMAP_PLAN_HELD \
	(UINT32_C(1) << 2) /* with COMMIT: only while this process lives */
#define GPUMAP_PLAN_BASE (UINT32_C(1) << 3) /* @base_row is set */
#define GPUMAP_PLAN_NEW \
	(UINT32_C(1) << 4) /* replace no map, or one that this process holds */
/* the map is @owner_uid's; for root, and the user in [cluster] of
 * gpumapd.conf(5) */
#define GPUMAP_PLAN_FOR (UINT32_C(1) << 5)

/* How a paged KV cache is sized. */
enum gpumap_paged {
	GPUMAP_PAGED_NONE = 0,  /* it is not paged */
	GPUMAP_PAGED_MIB = 1,   /* paged_amount MiB */
	GPUMAP_PAGED_SHARE = 2, /* paged_share of the first row's memory */
	GPUMAP_PAGED_TOKENS = 3 /* paged_amount tokens */
};

struct gpumap_plan_request {
	size_t size;          /* sizeof(struct gpumap_plan_request) */
	const char *name;     /* with GPUMAP_PLAN_PUBLISH or _COMMIT */
	uint32_t flags;       /* GPUMAP_PLAN_* */
	uint32_t setting;     /* enum gpumap_setting */
	uint32_t strategy;    /* enum gpumap_strategy; 0: fill */
	uint32_t base_row;    /* of what belongs to no layer, with
			      * GPUMAP_PLAN_BASE; else the row of layer 0 */
	const char *text;     /* a manual map's spec; the layers of each rank of
			      * a pipeline, "16,16"; or a topology's ranges,
			      * "0-16:cuda[0];16-32:cpu:Q8_0": of layers from
			      * the first to before the second, or of one, with
			      * a device, a type that they are quantised to, or
			      * both, and "*" for a pattern over names of
			      * tensors.  The range with the higher end wins,
			      * of equals the later one */
	const char *weights;  /* of a pipeline without @text: "1,2"; or NULL */
	const uint32_t *rows; /* only these, in this order; NULL: all rows,
			      * but dummy rows only where a spec names them or
			      * there are no others */
	uint32_t n_rows;
	/* The model. */
	uint32_t n_layers;           /* 0: as many as the spec has */
	const uint64_t *layer_bytes; /* n_layers of them; NULL: not known */
	uint64_t other_bytes;        /* of what belongs to no layer */
	uint64_t tied_bytes;         /* of an embedding, part of other_bytes,
				      * that is the head as well: engines keep
				      * it again with the last layer, unless
				      * that is on the base row */
	uint32_t dtype;              /* enum gpumap_dtype, of most weights */
	uint32_t n_heads;            /* of attention; 0: not known */
	/* The caches of all layers: their n_layers in sum are the model's.
	 * NULL: it is not known what any layer keeps, and nothing is charged
	 * for it.  Where it is known of some layers alone, those others are not
	 * charged, and COMMIT is refused */
	const struct gpumap_layer_cache *caches;
	uint32_t n_caches; /* at most 8192 */
	/* The use of the model. */
	uint32_t compute_dtype; /* GPUMAP_DTYPE_F16, _BF16, _F32 or _F64; 0: the
				 * best that the rows in use can do */
	uint64_t max_seq_len;   /* 0: 4096 */
	uint32_t max_batch_size; /* 0: 1 */
	uint32_t paged;          /* enum gpumap_paged */
	uint64_t paged_amount;
	float paged_share;
	uint32_t paged_block;         /* tokens: 8, 16 or 32; 0: 32 */
	uint32_t paged_element_bytes; /* 0: of compute_dtype */
	uint32_t owner_uid;           /* with GPUMAP_PLAN_FOR; else 0 */
	/* With COMMIT: wait so long for room instead of being refused with
	 * -ENOSPC or -EBUSY.  0: do not wait */
	uint64_t wait_ns;
	/* With HELD: this process is in its start window on each row of the
	 * map, for so long at most, which is an hour or less.  0: it is
	 * not */
	uint64_t start_ns;
	/* enum gpumap_engine: the engine that will keep the caches, by whose
	 * rule they are charged (gpumap(7)); 0, or one without a rule: what the
	 * layers need */
	uint32_t engine;
	uint32_t conv_taps;   /* inputs that each convolution over tokens has,
			       * the newest one too; 0: not known */
	uint32_t state_bytes; /* of an element of a recurrence, as the model
			       * says; 0: it does not */
	uint32_t reserved;    /* 0 */
};

struct gpumap_plan {
	size_t size; /* sizeof(struct gpumap_plan), set by the caller */
	uint32_t n_layers;
	uint32_t n_charges;     /* rows with a charge */
	uint32_t base_row;      /* of what belongs to no layer */
	uint32_t compute_dtype; /* enum gpumap_dtype */
	uint64_t kv_bytes;      /* of a layer's cache: the mean of all layers,
				 * rounded up */
	uint64_t version;       /* of the published map; 0: not published */
	uint64_t missing_bytes; /* of missing_row; with -ENOSPC and -ETIMEDOUT
				 * 0: not known, else 0: it fits.  A manual plan
				 * that is not committed need not fit */
	uint32_t missing_row;
	uint32_t reserved;
	char spec[256];     /* as in struct gpumap_layers */
	char warnings[512]; /* one to a line, cut with "..." */
};

/*
 * gpumap_plan_make - place a model, and have the agent publish the map
 *
 * The agent says what is free of each row and not reserved by committed maps,
 * the library plans with that, and the agent admits the map's charges: no two
 * plans receive the same memory, whichever processes request them.  A map for
 * which the memory has gone meanwhile is placed again; where that happens twice
 * it waits in the line for 2 seconds at most.  A map that is replaced gives up
 * its own reservation first.
 *
 * GPUMAP_SETTING_RESERVE has no model: it reserves layer_bytes[i] of rows[i],
 * for n_layers = n_rows rows, and keeps nothing back.  The bytes are 1 or more,
 * or 0 of a map that is held or only asked for.  With one layer and another
 * n_rows it reserves layer_bytes[0] of that one among @rows that has the fewest
 * bytes left then, the first where there are several.  NULL stands for the rows
 * that are neither hosts nor dummies, or for all where there are no such rows.
 * The map has one layer on each row that it reserves.
 *
 * A request with wait_ns waits in a line, as gpumap(7) says: it is admitted
 * when it fits, and a later request passes it where both could stand there
 * together.  Nor does a held map without wait_ns overtake those in the line; a
 * map that it replaces may keep its bytes.  A RESERVE request of 0 bytes comes
 * after those alone that wait for a start window, and after none if it has no
 * window.  In the line another RESERVE request waits for the rows whose memory,
 * if all of it were free, would suffice.  Any other request waits for the rows
 * of its map; or, where a strategy places the layers, for all that it may use.
 * Such a map is placed again when it is its turn, in this call.  A turn ends
 * after a second in which this process has not answered, such as one that is
 * stopped; a request that has missed two turns comes last in the line.  While
 * its user's other maps have so much of a row that it would be more than one
 * user's share, a request waits for them to end, and keeps none waiting.
 *
 * A map that is made for another user counts in all limits as that user's,
 * whose processes may replace and release it; the process that holds it may
 * release it, too.  For a user that no limits apply to, such as root, the map
 * is the caller's own.
 *
 * A map with start_ns is admitted when no process is in its start window on one
 * of its rows.  The window ends with gpumap_started(), the map, its holder, or
 * start_ns after the admission.
 *
 * ret_plan	set its @size before the call
 * ret_rows	receives the row of each layer; may be NULL
 * n		room in ret_rows
 * ret_charges	receives each row's charge, in first-use order; may be NULL
 * n_charges	room in ret_charges
 *
 * Returns	0
 *		-ENOSPC		it does not fit: missing_bytes and missing_row
 *				of ret_plan tell by how much and where, if that
 *				is known.  Or the segment, its table of holders
 *				or the agent's disk is full
 *		-EBUSY		a process is in its start window on a row, or is
 *				to be before this one
 *		-ETIMEDOUT	wait_ns are over, and it does not fit, or one of
 *				the above is so still; or the agent runs, and
 *				did not answer within gpumap_request_limit()
 *				beyond them: gpumap_refusal() tells which
 *		-ECANCELED	it waited, and gpumap_wait_drop() ended that
 *		-ENOBUFS	n or n_charges is too small: only ret_plan was
 *				stored.  The request has been carried out
 *		-EINVAL		a number or a text was refused, such as n_layers
 *				above 65536
 *		-E2BIG		a text with more layers than a map may have; a
 *				map to be published that changes its row more
 *				than 8191 times; more than 8192 caches; or a
 *				field newer than this library
 *		-ENODEV		a row that does not exist, or is failed, lost,
 *				drained or cordoned
 *		-EAGAIN		the memory was gone whenever the map was to be
 *				published, or a row was given to another device
 *				meanwhile
 *		-EOVERFLOW	sizes of 2^64 bytes or more
 *		-EDQUOT		32 MiB of this user's requests wait for their
 *				turn; or, to publish, it has published or
 *				reserved as much as it may, or requests more
 *				than that, wait_ns or not
 *		-EPERM		the name belongs to another user; or this user
 *				may not make maps for others
 *		-EEXIST		with GPUMAP_PLAN_NEW: a map has this name, and
 *				this process does not hold it
 *		-ESHUTDOWN	the agent is shutting down
 *		-ESRCH		a held map, and the agent does not see this
 *				process
 *		-EROFS, -EIO	to publish: the agent's disk is read-only, or
 *				fails, so that the map would not outlast the
 *				agent, or the map that this held one replaces
 *				would outlast it
 *		-EACCES		this user may not talk to the agent
 *		-ECONNREFUSED, -ECONNRESET	no agent, or it went away
 *		-EPROTO, -EMFILE, -ENFILE, -ENOMEM	as every request, see
 *				gpumap_refusal()
 *		-EMSGSIZE	more than fits through a socket on this machine:
 *				beyond some 50000 layers with sizes,
 *				net.core.wmem_max decides
 *		-EOWNERDEAD	called in a forked child
 *		gpumap_refusal() says what was wrong
 * Cost		a round trip on the control socket, a second one to publish, and
 *		the plan: a millisecond for 80 layers on 8 rows; with
 *		GPUMAP_PLAN_COMMIT a write to disk
 * Threads	any, in turn
 */
GPUMAP_API int
gpumap_plan_make(struct gpumap *map, const struct gpumap_plan_request *request,
		 struct gpumap_plan *ret_plan, uint32_t *ret_rows, size_t n,
		 struct gpumap_charge *ret_charges, size_t n_charges);

struct gpumap_layers_request {
	size_t size; /* sizeof(struct gpumap_layers_request) */
	const char *name;
	const char *spec;            /* "ROW:LAYERS;ROW:LAYERS" or "LAYERS" */
	uint32_t n_layers;           /* of the model; 0: as the spec has */
	uint32_t dtype;              /* enum gpumap_dtype */
	const uint64_t *layer_bytes; /* n_layers of them, the last one's with
				      * the head; NULL: not known */
	uint64_t other_bytes;        /* of what belongs to no layer */
};

/*
 * gpumap_layers_publish - publish a layer map by its spec
 *
 * This is gpumap_plan_make() with GPUMAP_SETTING_MANUAL and
 * GPUMAP_PLAN_PUBLISH, but that the map's charges are weights alone: a map of
 * this name is replaced in one step, if this user owns it, and no memory is
 * reserved.  The map stays until it is released, over restarts of the agent and
 * of the machine.
 *
 * Returns	as gpumap_plan_make()
 * Cost		two round trips on the control socket, and a write to disk
 * Threads	any, in turn
 */
GPUMAP_API int
gpumap_layers_publish(struct gpumap *map,
		      const struct gpumap_layers_request *request);

#ifdef __cplusplus
}
#endif
#endif
