/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * mask_device - what the files that keep replicas on devices share.
 *
 *	mask_devices.c		which there are, and who waits for them
 *	mask_device_asks.c	how the workers of their rows make them
 *	mask_loans.c		who was given a descriptor
 */
#ifndef GM_MASK_DEVICE_H
#define GM_MASK_DEVICE_H

#include "agent/daemon/mask_devices.h"

enum gm_mask_device_state {
	GM_MASK_WAITING,
	GM_MASK_ASKED,
	GM_MASK_READY,
	GM_MASK_FAILED
};

struct gm_mask_device {
	TAILQ_ENTRY(gm_mask_device) entry; /* of all */
	struct gm_daemon *d;
	uint64_t id;
	uint32_t row;
	uint32_t row_generation;
	uint32_t uid;
	uint32_t refs;
	enum gm_mask_device_state state;
	bool is_stale; /* nobody gets it any more */
	uint32_t strikes;
	uint64_t asked; /* counts the questions of its row */
	uint64_t bytes; /* of the row's memory that it takes */
	int fd;         /* -1: there is none */
	struct gm_node_segment *segment;
	struct gm_span *span; /* with a reference of ours */
	struct gm_mask_waits waits;
	int status; /* of one that FAILED */
	char why[GM_WHY_BYTES];
};

/* It could not be made, or is not to be had any more. */
void gm_mask_device_fail(struct gm_mask_device *device, int status,
			 const char *why);

/* Those who wait are to be told, from the loop. */
void gm_mask_devices_tell(struct gm_daemon *d);

#endif
