/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "shm/layer_name.h"

#include <string.h>

static bool is_container(const char *word, size_t n)
{
	static const char *const containers[] = { "layers", "h",     "blk",
						  "blocks", "block", "layer" };

	for (size_t i = 0; i < sizeof(containers) / sizeof(containers[0]); i++)
		if (gm_layer_name_is(containers[i], word, n))
			return true;
	return false;
}

/* Parse a decimal number as programs print it. */
static bool parse_layer(const char *word, size_t n, uint64_t *ret)
{
	uint64_t value = 0;

	if (n == 0 || (n > 1 && word[0] == '0'))
		return false;
	for (size_t i = 0; i < n; i++) {
		if (word[i] < '0' || word[i] > '9')
			return false;
		if (value <= UINT32_MAX)
			value = 10 * value + (uint64_t)(word[i] - '0');
	}
	*ret = value;
	return true;
}

/* Bytes up to the next dot, or to the end. */
static size_t word_bytes(const char *word)
{
	size_t n = 0;

	while (word[n] != '\0' && word[n] != '.')
		n++;
	return n;
}

bool gm_layer_name_parse(const char *text, struct gm_layer_name *ret_name)
{
	const char *word = text;

	for (;;) {
		size_t n = word_bytes(word), next_n;
		const char *next = word + n + 1;
		uint64_t layer;

		if (word[n] == '\0')
			return false;
		next_n = word_bytes(next);
		/* A name must go on behind the number. */
		if (next[next_n] == '\0' || next[next_n + 1] == '\0')
			return false;
		if (is_container(word, n) &&
		    parse_layer(next, next_n, &layer)) {
			*ret_name = (struct gm_layer_name){
				text, (size_t)(next - text), layer
			};
			return true;
		}
		word = next;
	}
}

int gm_layer_name_compare_stack(const struct gm_layer_name *a,
				const struct gm_layer_name *b)
{
	if (a->prefix != b->prefix)
		return a->prefix < b->prefix ? -1 : 1;
	return memcmp(a->text, b->text, a->prefix);
}

int gm_layer_name_compare(const void *a, const void *b)
{
	const struct gm_layer_name *x = a, *y = b;
	int order = gm_layer_name_compare_stack(x, y);

	return order != 0 ? order
			  : (x->layer > y->layer) - (x->layer < y->layer);
}
