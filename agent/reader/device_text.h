/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* device_text - facts about a device as text. */
#ifndef GM_DEVICE_TEXT_H
#define GM_DEVICE_TEXT_H

#include <stdbool.h>
#include <stdint.h>

#include "gpumap.h"

#define GM_DEVICE_UUID 37 /* bytes of a UUID's text */
#define GM_DEVICE_PCI  24 /* bytes of a PCI address's text */

/* "READY", for example. */
const char *gm_device_state(uint32_t state);

/* Write a device's UUID without a prefix, in lower case. */
void gm_device_uuid(const struct gpumap_device *device,
		    char ret_text[GM_DEVICE_UUID]);

/* Write "0000:17:00.0".  Returns false, with "", if it is not known. */
bool gm_device_pci(const struct gpumap_device *device,
		   char ret_text[GM_DEVICE_PCI]);

#endif
