/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * parse - reads and checks strings of NVML and of the kernel's module.
 *
 * Pure.  None of these strings is trusted: a string without an end, or one of a
 * card whose memory is damaged, is refused and has no other effect.
 */
#ifndef GM_PROBE_PARSE_H
#define GM_PROBE_PARSE_H

#include <stddef.h>
#include <stdint.h>

/*
 * gm_parse_copy - printable text of at most @bytes with its end
 *
 *    size		bytes that @text has; it need not end within them
 *
 * Bytes that are not printable ASCII become '?'; blanks around the text are
 * left out.
 */
void gm_parse_copy(char *ret_text, size_t bytes, const char *text, size_t size);

/*
 * gm_parse_uuid - "GPU-" or "MIG-" and a UUID in five groups
 *
 * Returns	0, or -EINVAL: anything else, the UUID of zeros too
 */
int gm_parse_uuid(const char *text, uint8_t ret_uuid[16]);

/*
 * gm_parse_pci - a PCI address, "17:00.0" or with a domain of 4 or 8 digits
 *
 * ret_bus	bus << 8 | device << 3 | function
 *
 * Returns	0, or -EINVAL
 */
int gm_parse_pci(const char *text, uint32_t *ret_domain, uint32_t *ret_bus);

/* A driver's version, "550.163.01" as 550163; 0 for what is none. */
uint32_t gm_parse_driver(const char *text);

/* "1g.10gb" of "NVIDIA H100 MIG 1g.10gb", "" where there is none. */
void gm_parse_profile(const char *name, char *ret_profile, size_t bytes);

/* One of /proc/driver/nvidia/gpus/PCI/information. */
struct gm_parse_information {
	char id[64]; /* "GPU-...", "" as long as the module does not know it */
	uint8_t uuid[16];
	int32_t minor; /* -1: not told */
};

void gm_parse_information(const char *text,
			  struct gm_parse_information *ret_information);

/*
 * gm_parse_made_uuid - for a card whose own cannot be read
 *
 * By its PCI address.  Version 8, "as its maker likes": no card of NVIDIA's has
 * one.
 */
void gm_parse_made_uuid(uint32_t domain, uint32_t bus, uint8_t ret_uuid[16]);

#endif
