/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Find which tensors belong to which layer.
 *
 * The names of tensors tell their layers, [PREFIX.]layers.N.REST and the like,
 * by the same rule that plans use.  A model may have several stacks of layers,
 * such as a vision tower's beside the language model's.  A map is for the stack
 * with as many layers as it has.
 */

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "lib/checkpoint/checkpoint.h"

/* A tensor whose name puts it into a layer. */
struct member {
	const char *name;
	size_t prefix; /* bytes of the name before the number */
	uint64_t layer;
	size_t weight;
	uint64_t bytes;
};

/* The members with one prefix, as a range of all members. */
struct stack {
	size_t first, end;
	uint64_t n_layers; /* highest number + 1 */
	uint64_t n_found;  /* numbers that a tensor has, from 0 without a gap */
	uint64_t bytes;
};

/* ---- layers -------------------------------------------------------------- */

static bool is_container(const char *word, size_t n)
{
	static const char *const containers[] = { "layers", "h",     "blk",
						  "blocks", "block", "layer" };

	for (size_t i = 0; i < sizeof(containers) / sizeof(containers[0]); i++)
		if (strlen(containers[i]) == n &&
		    memcmp(containers[i], word, n) == 0)
			return true;
	return false;
}

/* Parse a decimal number as programs print it.  A number past any map's layers
 * saturates. */
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

static bool find_layer(const char *name, struct member *ret)
{
	const char *word = name;

	for (;;) {
		size_t n = strcspn(word, "."), next_n;
		const char *next = word + n + 1;

		if (word[n] == '\0')
			return false;
		next_n = strcspn(next, ".");
		/* A name must go on behind the number. */
		if (next[next_n] == '\0' || next[next_n + 1] == '\0')
			return false;
		if (is_container(word, n) &&
		    parse_layer(next, next_n, &ret->layer)) {
			ret->name = name;
			ret->prefix = (size_t)(next - name);
			return true;
		}
		word = next;
	}
}

static int compare_prefix(const struct member *a, const struct member *b)
{
	if (a->prefix != b->prefix)
		return a->prefix < b->prefix ? -1 : 1;
	return memcmp(a->name, b->name, a->prefix);
}

static int by_prefix_and_layer(const void *a, const void *b)
{
	const struct member *x = a, *y = b;
	int order = compare_prefix(x, y);

	return order != 0 ? order
			  : (x->layer > y->layer) - (x->layer < y->layer);
}

static struct stack measure(const struct member *v, size_t n, size_t first)
{
	struct stack stack = { .first = first, .end = first };

	while (stack.end < n && compare_prefix(&v[stack.end], &v[first]) == 0) {
		const struct member *m = &v[stack.end++];

		stack.n_found += m->layer == stack.n_found;
		stack.n_layers = m->layer + 1;
		stack.bytes += m->bytes;
	}
	return stack;
}

/* Are the stack's first layers those of the map, to the byte?  Some models have
 * more layers behind them, to predict more tokens. */
static bool goes_on(const struct gm_layers_sought *sought,
		    const struct member *v, const struct stack *stack)
{
	size_t at = stack->first;

	if (stack->n_layers <= sought->n_layers || sought->bytes == NULL)
		return false;
	for (uint32_t i = 0; i < sought->n_layers; i++) {
		uint64_t bytes = 0;

		for (; at < stack->end && v[at].layer == i; at++)
			bytes += v[at].bytes;
		if (bytes == 0 || bytes != sought->bytes[i])
			return false;
	}
	return true;
}

static int rank(const struct gm_layers_sought *sought, const struct member *v,
		const struct stack *stack)
{
	if (stack->n_layers == sought->n_layers)
		return 2;
	return goes_on(sought, v, stack);
}

/* Choose the stack that the map is for. */
static int choose(const struct gm_layers_sought *sought, const struct member *v,
		  size_t n, struct stack *ret, struct gm_reason *why)
{
	struct stack best = { 0 }, stack = { 0 };
	int best_rank = -1;

	while (stack.end < n) {
		int its;

		stack = measure(v, n, stack.end);
		its = rank(sought, v, &stack);
		if (its < best_rank ||
		    (its == best_rank && stack.bytes <= best.bytes))
			continue;
		best = stack;
		best_rank = its;
	}
	if (n == 0)
		return gm_reason_set(why, -EINVAL,
				     "no tensor's name has the number of a "
				     "layer, as in layers.0.; load it without "
				     "a layer map");
	if (best_rank < 1)
		return gm_reason_set(
			why, -EINVAL,
			"layer map \"%s\" has %u layers, the model "
			"%" PRIu64 " (%.*sN.); make a map for this "
			"model",
			sought->map, sought->n_layers, best.n_layers,
			(int)(v[best.first].prefix < 60 ? v[best.first].prefix
							: 60),
			v[best.first].name);
	if (best.n_found < sought->n_layers)
		return gm_reason_set(why, -EINVAL,
				     "no tensor of layer %" PRIu64 " is there; "
				     "fetch the model's missing files",
				     best.n_found);
	*ret = best;
	return 0;
}

int gm_weights_layers(const struct gm_weights *weights,
		      const struct gm_layers_sought *sought,
		      int32_t *ret_layers, struct gm_layers_stack *ret_stack,
		      struct gm_reason *why)
{
	struct member *v = calloc(weights->n + 1, sizeof(*v)); /* never 0 */
	struct stack stack = { 0 };
	size_t n = 0;
	int ret;

	if (v == NULL)
		return -ENOMEM;
	for (size_t i = 0; i < weights->n; i++) {
		ret_layers[i] = -1;
		v[n].weight = i;
		v[n].bytes = weights->v[i].bytes;
		n += find_layer(weights->v[i].name, &v[n]);
	}
	qsort(v, n, sizeof(v[0]), by_prefix_and_layer);
	ret = choose(sought, v, n, &stack, why);
	for (size_t i = stack.first; ret == 0 && i < stack.end; i++)
		if (v[i].layer < sought->n_layers)
			ret_layers[v[i].weight] = (int32_t)v[i].layer;
	if (ret == 0 && ret_stack != NULL)
		*ret_stack = (struct gm_layers_stack){
			.prefix = v[stack.first].name,
			.prefix_bytes = v[stack.first].prefix,
			.n_layers = stack.n_layers,
		};
	free(v);
	return ret;
}
