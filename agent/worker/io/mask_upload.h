/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * mask_upload - makes copies of masks in device memory for gpumapd.
 *
 * gpumapd sends the bytes in a node's memory and gets a descriptor for a copy
 * on the device, uploaded or copied from another card.  gpumapd keeps the
 * descriptor and thereby the copy.  The worker keeps nothing, and no session is
 * involved.
 */
#ifndef GM_WORKER_IO_MASK_UPLOAD_H
#define GM_WORKER_IO_MASK_UPLOAD_H

#include "agent/worker/worker.h"

/* Handle a MASK of gpumapd, which is answered now or later.  Takes over @fd and
 * @peer.  @peer is another card's copy, or -1; bytes that cannot be copied from
 * it are uploaded. */
void gm_mask_upload(struct gm_worker *worker, const struct gm_wire *wire,
		    int fd, int peer);

#endif
