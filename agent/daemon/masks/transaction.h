/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * transaction - the common steps of changes that publish a mask.
 *
 * publish.c uses them for requests of clients, republish.c for masks that are
 * there already, or were.
 */
#ifndef GM_DAEMON_MASKS_TRANSACTION_H
#define GM_DAEMON_MASKS_TRANSACTION_H

#include "agent/daemon/map/transaction.h"
#include "agent/daemon/masks/device_replicas.h"
#include "agent/daemon/masks/numa_segments.h"
#include "agent/daemon/masks/validate.h"

/* A node's replica. */
struct gm_mask_part {
	struct gm_span *span;
	bool is_shared; /* it has bytes: the same, if the hash is right */
};

/* A row's replica on its device. */
struct gm_mask_target {
	struct gm_mask_change *of;
	struct gm_mask_device *device; /* NULL: it has none */
	bool is_new;
	uint32_t n_looks; /* at the row's masks, before it was asked for */
	struct gm_mask_wait wait;
};

struct gm_mask_change {
	struct gm_change change;
	struct gm_mask_image image;
	struct gm_replica_image replicas[GM_ROWS];
	struct gm_masks_rows rows; /* that are asked for, or their map's */
	struct gm_mask_part parts[GM_NODES];
	uint32_t n_parts;
	uint32_t n_copies;
	struct gm_mask_target targets[GM_ROWS]; /* as replicas */
	uint32_t n_awaited;                     /* of these */
	int refusal;                            /* of the first */
	bool is_lenient; /* rows without a device do without a replica */
	bool is_alone;   /* the same hash, other bytes: it shares no span */
	bool differs;

	/* The version that is to be published anew, checked before; 0: none. */
	uint64_t follows;

	/* Where the tensor comes from: generated, or a file, or a span. */
	int fd;
	uint64_t at;
	struct gm_span *source;
	void *staging; /* image.bytes, rounded up to words */

	/* The parts that are written before the slot is stored. */
	bool has_file;   /* a state file of its own */
	bool is_damaged; /* the one that it was to be made from */
	uint64_t least_version;
	struct gm_put put;
	uint8_t (*uuids)[16]; /* of rows, for the file; NULL: of a map */
};

static inline struct gm_mask_change *gm_mask_change_of(struct gm_change *change)
{
	return gm_owner(change, struct gm_mask_change, change);
}

/* Zeroed, with no descriptor.  NULL: no memory. */
struct gm_mask_change *gm_mask_change_new(const struct gm_change_kind *kind);
void gm_mask_change_free(struct gm_change *change);

/* Room for the tensor.  Returns 0, -ENOMEM. */
int gm_mask_change_stage(struct gm_mask_change *p);

/* Which rows, and on which nodes; the spans come later.  Returns as
 * gm_mask_check_rows(). */
int gm_mask_change_choose(struct gm_mask_change *p);

/* May this uid have so much of masks, this one among them?  Returns 0,
 * -EDQUOT. */
int gm_mask_change_quota(struct gm_mask_change *p, uint32_t uid);

/* Replicas with bytes of their own, and those on devices. */
uint32_t gm_mask_change_places(const struct gm_mask_change *p);

/* Hash the staged tensor, on the I/O thread. */
void gm_mask_change_sum(struct gm_mask_change *p);

/* Make a tensor by its rule in staging memory and hash it, on the I/O thread.
 * Returns 0, -ENOMEM. */
int gm_mask_change_generate(struct gm_mask_change *p);

/* Steps of a kind: settle, proceed. */
int gm_mask_change_settle(struct gm_change *change);
void gm_mask_change_proceed(struct gm_change *change);

#endif
