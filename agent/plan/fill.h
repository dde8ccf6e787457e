/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * fill - make the automatic map of mistral.rs.
 *
 * Devices are filled in the order given, each with as many layers as fit
 * beside the largest activation and those layers' KV cache; the host comes
 * last, unless a device is integrated and shares its memory.  Maps, warnings
 * and texts of errors are those of mistral.rs, with these differences:
 *
 *   - Weights that are no layer's (embeddings, head) are charged to the first
 *     device that takes a layer.  mistral.rs charges them to the first device
 *     even if it takes none, and then to no device.  If no device has room for
 *     them beside a layer the error says so.
 *   - A host among the devices is counted once; mistral.rs offers its memory
 *     twice.
 *   - Numbers are positions in the list of devices, as there, but remain so:
 *     they are not used as ordinals later.
 *   - A model without layers, a division by zero and overflows of 64 bits are
 *     errors; in mistral.rs they panic or wrap.
 *
 * Layers and total need not agree, as in mistral.rs: with a total that is too
 * small filling stops early, and the remaining layers go to the host.
 */
#ifndef GM_FILL_H
#define GM_FILL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/plan/error.h"
#include "agent/plan/kv.h"
#include "agent/plan/spec.h"

#define GM_FILL_DEVICES 4096u /* most devices of one request */

struct gm_fill_device {
	uint64_t avail; /* free bytes */
	bool is_host;
	bool is_integrated; /* its memory is the host's */
};

struct gm_fill_request {
	const struct gm_fill_device *devices;
	size_t n_devices;
	uint64_t host_avail; /* free bytes of the host */
	const uint64_t *layer_bytes;
	uint32_t n_layers;
	uint64_t non_mapped_bytes;
	uint64_t total_bytes; /* of the whole model */
	uint64_t mapped_act_elems;
	uint64_t non_mapped_act_elems;
	uint32_t dtype_bytes;
	uint64_t max_seq_len;
	uint64_t max_batch_size;
	struct gm_kv_shape kv;           /* its n_layers too */
	const struct gm_kv_paged *paged; /* NULL for an unpaged cache */
};

/* The charge to one device. */
struct gm_fill_charge {
	uint32_t device; /* position, or n_devices for the host added last */
	bool is_host;
	bool has_non_mapped;
	uint32_t n_layers;
	uint64_t weight_bytes;
	uint64_t kv_bytes;
	uint64_t act_bytes;
	uint64_t reserve_bytes; /* kept free */
	uint64_t left_bytes;
};

struct gm_fill {
	struct gm_spec_entry *entries; /* of devices, in order; a row is a
					  position */
	size_t n_entries;
	uint32_t host_layers; /* all that are not in entries */
	bool is_paged;        /* the cache; cleared once the host has layers */
	uint64_t kv_bytes;    /* of one layer */
	struct gm_fill_charge *charges;
	size_t n_charges;
	char **warnings;
	size_t n_warnings;
};

/*
 * gm_fill_make - fill devices with layers
 *
 * ret_fill	give it back with gm_fill_free()
 *
 * Returns	0
 *		-EINVAL		a number that cannot be
 *		-ENOSPC		the model does not fit
 *		-EOVERFLOW	a sum or product of 2^64 or more
 *		-ENOMEM
 * Threads	any
 */
int gm_fill_make(const struct gm_fill_request *request,
		 struct gm_fill *ret_fill, struct gm_plan_error *ret_err);

/* Free what gm_fill_make() gave.  NULL is allowed. */
void gm_fill_free(struct gm_fill *fill);

#endif
