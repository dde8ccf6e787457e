/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* labels - the labels of a sample. */
#ifndef GM_LABELS_H
#define GM_LABELS_H

#include <stddef.h>
#include <stdint.h>

#define GM_LABELS_BYTES 2048

/* Labels of a sample, as they are written: a="b",c="d". */
struct gm_labels {
	size_t n;
	char text[GM_LABELS_BYTES];
};

/* Add a label.  Bytes of @value that are no printable ASCII become '?': other
 * users choose the names of things.  A label that finds no room is left out. */
void gm_labels_add(struct gm_labels *labels, const char *name,
		   const char *value);
void gm_labels_number(struct gm_labels *labels, const char *name,
		      uint64_t value);

#endif
