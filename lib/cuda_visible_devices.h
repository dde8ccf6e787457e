/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * cuda_visible_devices - which rows a process sees under its
 * CUDA_VISIBLE_DEVICES.
 *
 * The module reads the variable as the driver does, over a list of devices
 * instead of a driver: CUDA ordinal i of the process is entry i of the answer.
 * Pure: the caller brings the two variables and knows which devices can be
 * opened here.
 *
 * The text is a list with commas.  Its first entry decides what the others
 * must be:
 *
 *	3			an ordinal of the order in use; blanks and a
 *				sign before it and anything behind it are
 *				ignored
 *	GPU-8932f937		a UUID as nvidia-smi prints it, or as much from
 *				its beginning as no other device shares
 *	MIG-c7885		the same for a MIG instance
 *	MIG-GPU-8932f937/1/2	a MIG instance by GPU, GPU instance and compute
 *				instance
 *
 * The first entry that names no device, several, or is of another sort ends
 * the list: the entries before it hold.  A device named twice leaves none.  An
 * empty text is an empty list; no text is every device.
 *
 * Ordinals count the devices that can be enumerated here, so in a container
 * only those that were given to it.  A GPU that is split into MIG instances is
 * never enumerated itself: its ordinal and its UUID stand for its first
 * instance.  Drivers before CUDA 12.8 enumerate one MIG instance and nothing
 * beside it; later ones one compute instance of each GPU instance, beside whole
 * GPUs, and take GPU- and MIG- entries in one list.
 *
 * Not documented by the driver, and taken as programs that imitate it take it:
 * that a repeated device leaves none, that only ordinals may have blanks before
 * them, that case matters, and what an ordinal counts where GPUs are split.
 */
#ifndef GM_LIB_CUDA_VISIBLE_DEVICES_H
#define GM_LIB_CUDA_VISIBLE_DEVICES_H

#include <stdint.h>

#include "lib/private.h"

struct gm_visible_device {
	uint32_t row;       /* its row, for the answer */
	uint32_t flags;     /* GM_VISIBLE_* */
	uint8_t uuid[16];   /* of the instance, if it is one */
	uint8_t parent[16]; /* of a MIG instance: its GPU's UUID */
	int32_t mig_gi;     /* GPU instance; -1: a whole GPU */
	int32_t mig_ci;     /* compute instance; -1: a whole GPU */
	int32_t fastest;    /* the GPU's place in FASTEST_FIRST order; -1: not
			     * known, after those that are */
	uint32_t pci_domain;
	uint32_t pci_bus; /* bus << 8 | device << 3 | function */
};

/* Its device node cannot be opened by this process. */
#define GM_VISIBLE_CLOSED (UINT32_C(1) << 0)
/* A GPU in MIG mode: only its instances are enumerated. */
#define GM_VISIBLE_SPLIT (UINT32_C(1) << 1)

enum gm_visible_order { GM_VISIBLE_FASTEST_FIRST, GM_VISIBLE_PCI_BUS_ID };

struct gm_visible_node {
	const struct gm_visible_device *devices; /* in any order */
	uint32_t n_devices;
	uint32_t order;        /* enum gm_visible_order */
	uint32_t cuda_version; /* the driver's, 1000 * major + 10 * minor */
};

/* Why a list ended before its text did. */
enum gm_visible_stop {
	GM_VISIBLE_COMPLETE = 0,  /* nothing did */
	GM_VISIBLE_UNKNOWN = 1,   /* an entry that names no device */
	GM_VISIBLE_AMBIGUOUS = 2, /* one that names several */
	GM_VISIBLE_MIXED = 3,     /* one of another sort than the first */
	GM_VISIBLE_REPEATED = 4   /* one named before: the list is empty */
};

struct gm_visible_list {
	uint32_t n;
	uint32_t rows[GPUMAP_ROWS_MAX]; /* row of ordinal 0, 1 and so on */
	uint32_t stop;                  /* enum gm_visible_stop */
	uint32_t at; /* byte of the text where that entry begins */
	/* named, but by its rules for MIG the driver does not enumerate them
	 * beside the others */
	uint32_t n_dropped;
};

#define GM_VISIBLE_NAME 41u /* bytes of a name, "GPU-" and the UUID; and NUL */

/* The name of a device, as entries of CUDA_VISIBLE_DEVICES have it.  @prefix is
 * "GPU-", or "MIG-" for an instance. */
GM_PRIVATE void gm_visible_name(const char prefix[4], const uint8_t uuid[16],
				char ret_name[GM_VISIBLE_NAME]);

/* A device by its facts. */
GM_PRIVATE struct gm_visible_device
gm_visible_of(const struct gpumap_device *device);

/* Give each instance its card's UUID and speed, found by the PCI address that
 * both have.  A card that is not there gets a made-up UUID from its address,
 * which no real card has. */
GM_PRIVATE void gm_visible_pair(struct gm_visible_device *devices, uint32_t n);

/* The order that CUDA_DEVICE_ORDER asks for; NULL: it is not set. */
uint32_t gm_visible_order(const char *text);

/*
 * gm_visible_resolve - what CUDA_VISIBLE_DEVICES makes visible
 *
 * text		its value, NULL where it is not set
 *
 * Returns	0, also for a list that is empty or was cut short
 *		-EINVAL		more than GPUMAP_ROWS_MAX devices
 * Threads	any
 */
GM_PRIVATE int gm_visible_resolve(const struct gm_visible_node *node,
				  const char *text,
				  struct gm_visible_list *ret_list);

/* A stop in words, for people: constant text, never NULL. */
const char *gm_visible_stop_text(uint32_t stop);

#endif
