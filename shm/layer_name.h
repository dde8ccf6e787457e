/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * layer_name - which layer does a tensor belong to, by its name?
 *
 * [PREFIX.]layers.N.REST and the like: N is the layer.  A model may have
 * several stacks of layers, such as a vision tower's beside the language
 * model's; the names of each have a prefix of their own.
 */
#ifndef GM_LAYER_NAME_H
#define GM_LAYER_NAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct gm_layer_name {
	const char *text;
	size_t prefix;  /* bytes before the number */
	uint64_t layer; /* more than UINT32_MAX: some number beyond that */
};

/* Are the @n bytes at @part, which have no NUL, this word?  Threads: any. */
static inline bool gm_layer_name_is(const char *word, const char *part,
				    size_t n)
{
	size_t i = 0;

	while (i < n && word[i] == part[i])
		i++;
	return i == n && word[n] == '\0';
}

/* Find the layer.  @text has to outlive the result.  Returns false where the
 * name has none.  Threads: any. */
bool gm_layer_name_parse(const char *text, struct gm_layer_name *ret_name);

/* Order names by their prefixes.  Returns 0 for names of one stack.  Threads:
 * any. */
int gm_layer_name_compare_stack(const struct gm_layer_name *a,
				const struct gm_layer_name *b);

/* Likewise, and then by layer: for qsort() of names, or of structs that begin
 * with one. */
int gm_layer_name_compare(const void *a, const void *b);

#endif
