/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/exporter/labels.h"

#include <inttypes.h>
#include <stdio.h>

/* Copy @value with escapes.  Returns its end, or NULL if it finds no room. */
static char *escape(char *to, const char *end, const char *value)
{
	for (; *value != '\0'; value++) {
		if (end - to < 3)
			return NULL;
		if (*value == '\\' || *value == '"')
			*to++ = '\\';
		*to++ = *value >= ' ' && *value <= '~' ? *value : '?';
	}
	return to;
}

void gm_labels_add(struct gm_labels *labels, const char *name,
		   const char *value)
{
	char *to = labels->text + labels->n;
	const char *end = labels->text + sizeof(labels->text) - 1;
	int n = snprintf(to, (size_t)(end - to), "%s%s=\"",
			 labels->n > 0 ? "," : "", name);

	if (n < 0 || n >= end - to)
		to = NULL;
	else
		to = escape(to + n, end, value);
	if (to == NULL) {
		labels->text[labels->n] = '\0';
		return;
	}
	*to++ = '"';
	*to = '\0';
	labels->n = (size_t)(to - labels->text);
}

void gm_labels_number(struct gm_labels *labels, const char *name,
		      uint64_t value)
{
	char text[24];

	snprintf(text, sizeof(text), "%" PRIu64, value);
	gm_labels_add(labels, name, text);
}
