/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * preference - does a device match the text by which a user prefers it?
 *
 * The forms are kapsl's, in the order in which they are tried:
 *
 *	mig:ID, partition:ID	the UUID of a GPU or of a MIG instance
 *	cuda:1			a backend, and a device's number there
 *	0000:17:00.0		a PCI id: any text with a ':' and a '.'
 *	H100			a part of the name
 *
 * White space around the text and its parts is removed, and the case of ASCII
 * letters is ignored.  An empty text is no preference and matches nothing.
 */
#ifndef GM_PREFERENCE_H
#define GM_PREFERENCE_H

#include <stdbool.h>
#include <stdint.h>

#include "shm/chars.h"

enum gm_preference_kind {
	GM_PREFERENCE_NONE,
	GM_PREFERENCE_PARTITION,
	GM_PREFERENCE_BACKEND,
	GM_PREFERENCE_PCI,
	GM_PREFERENCE_NAME
};

struct gm_preference {
	enum gm_preference_kind kind;
	struct gm_chars text; /* the id, backend, PCI id or part of a name */
	uint64_t id;          /* BACKEND */
};

/* A device as texts.  NULL: not known, which matches nothing. */
struct gm_preference_device {
	const char *name;
	const char *backend;
	uint64_t id; /* among the devices of the backend */
	const char *pci_bus_id;
	const char *partition_id;
};

/* Read a preference from @spec, which has to outlive it.  Threads: any. */
struct gm_preference gm_preference_parse(const char *spec);

/* Does the device match?  Cost: a pass over the name for each letter of the
 * text.  Threads: any. */
bool gm_preference_matches(const struct gm_preference *preference,
			   const struct gm_preference_device *device);

#endif
