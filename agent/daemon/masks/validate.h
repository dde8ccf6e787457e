/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* mask_check - what a request for a mask says, and whether there can be such a
 * mask, for such rows. */
#ifndef GM_DAEMON_MASKS_VALIDATE_H
#define GM_DAEMON_MASKS_VALIDATE_H

#include <stdbool.h>

#include "agent/daemon/base/connection.h"
#include "agent/mask/mask.h"
#include "shm/replicas.h"

struct gm_masks_rows {
	uint32_t n;
	uint32_t of[GM_ROWS]; /* each once */
};

/*
 * gm_mask_check_request - the form of a MASK_PUBLISH, without a look at rows
 *
 * ret_image	all but hash and replicas
 * ret_rows	those of the tail
 * ret_at	where in c->fd the tensor begins; c->fd has it all
 *
 * Returns	0, or a status to refuse with, with server->why
 */
int gm_mask_check_request(struct gm_connection *c, const struct gm_request *r,
			  struct gm_mask_image *ret_image,
			  struct gm_masks_rows *ret_rows, uint64_t *ret_at);

/*
 * gm_mask_check_image - can there be such a mask, of at most @limit bytes?
 *
 * image	kind, form, dtype, what its rule needs or the rank and shape;
 *		receives its bytes, shape and strides
 *
 * Returns	0; -EINVAL, -EOVERFLOW, -EFBIG with ret_why
 */
int gm_mask_check_image(struct gm_mask_image *image, uint64_t limit,
			char ret_why[GM_WHY_BYTES]);

/*
 * gm_mask_check_rows - find the rows that a mask is for, as things are now
 *
 * map		the layer map whose rows they become; "": @rows are checked
 * has_tensor	leave out, or refuse, rows that cannot hold one
 *
 * Returns	0
 *		-ENOENT		no layer map of this name
 *		-ENODEV, -EOPNOTSUPP
 */
int gm_mask_check_rows(const struct gm_daemon *d, const char *map,
		       bool has_tensor, struct gm_masks_rows *rows,
		       char ret_why[GM_WHY_BYTES]);

/* The rule of a generated mask. */
struct gm_mask_spec gm_mask_check_spec(const struct gm_mask_image *image);

#endif
