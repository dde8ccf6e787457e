/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/reader/device_text.h"

#include <stdio.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

const char *gm_device_state(uint32_t state)
{
	static const char *const names[] = {
		[GPUMAP_DEVICE_PROBING] = "PROBING",
		[GPUMAP_DEVICE_READY] = "READY",
		[GPUMAP_DEVICE_RESTARTING] = "RESTARTING",
		[GPUMAP_DEVICE_DRAINING] = "DRAINING",
		[GPUMAP_DEVICE_FAILED] = "FAILED",
		[GPUMAP_DEVICE_LOST] = "LOST",
	};

	return state < COUNT(names) && names[state] != NULL ? names[state]
							    : "unknown";
}

void gm_device_uuid(const struct gpumap_device *device,
		    char ret_text[GM_DEVICE_UUID])
{
	static const char digits[] = "0123456789abcdef";
	char *at = ret_text;

	for (size_t i = 0; i < sizeof(device->uuid); i++) {
		if (i == 4 || i == 6 || i == 8 || i == 10)
			*at++ = '-';
		*at++ = digits[device->uuid[i] >> 4];
		*at++ = digits[device->uuid[i] & 15];
	}
	*at = '\0';
}

bool gm_device_pci(const struct gpumap_device *device,
		   char ret_text[GM_DEVICE_PCI])
{
	ret_text[0] = '\0';
	if ((device->known & GPUMAP_KNOWN_PCI) == 0)
		return false;
	snprintf(ret_text, GM_DEVICE_PCI, "%04x:%02x:%02x.%x",
		 device->pci_domain, device->pci_bus >> 8 & 0xff,
		 device->pci_bus >> 3 & 0x1f, device->pci_bus & 7);
	return true;
}
