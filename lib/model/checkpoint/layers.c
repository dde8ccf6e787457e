/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Find which tensors belong to which layer.
 *
 * The names of tensors tell their layers (shm/layer_name.h).  A map is for the
 * stack of layers that has as many as the map; a model's own stack is the one
 * that its metadata count.
 */

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "lib/model/checkpoint/checkpoint.h"
#include "shm/layer_name.h"

/* A tensor whose name puts it into a layer. */
struct member {
	struct gm_layer_name name; /* first */
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

/* ---- beside the layers --------------------------------------------------- */

/* Modules beside a stack of layers. */
static const struct {
	const char *name;
	int32_t of;
} modules[] = {
	{ "lm_head", GM_OF_HEAD },
	{ "output", GM_OF_HEAD },
	{ "output_layer", GM_OF_HEAD },
	{ "embed_out", GM_OF_HEAD },
	{ "head", GM_OF_HEAD },
	{ "norm", GM_OF_LAST_NORM },
	{ "norm_f", GM_OF_LAST_NORM },
	{ "ln_f", GM_OF_LAST_NORM },
	{ "final_layernorm", GM_OF_LAST_NORM },
	{ "final_layer_norm", GM_OF_LAST_NORM },
	{ "output_norm", GM_OF_LAST_NORM },
	{ "embed_tokens", GM_OF_EMBEDDING },
	{ "embeddings", GM_OF_EMBEDDING },
	{ "embed_in", GM_OF_EMBEDDING },
	{ "embed", GM_OF_EMBEDDING },
	{ "wte", GM_OF_EMBEDDING },
	{ "token_embd", GM_OF_EMBEDDING },
	{ "tok_embeddings", GM_OF_EMBEDDING },
	{ "word_embeddings", GM_OF_EMBEDDING },
	{ "shared", GM_OF_EMBEDDING },
};

/* Find what a tensor of no layer is by its module, "model.norm" of
 * "model.norm.weight", which has to be beside the stack or around it. */
static int32_t find_module(const char *name, const struct gm_layer_name *first)
{
	const char *end = strrchr(name, '.'), *start;
	size_t n;

	if (end == NULL)
		return GM_OF_NO_LAYER;
	start = memrchr(name, '.', (size_t)(end - name));
	start = start != NULL ? start + 1 : name;
	n = (size_t)(start - name);
	if (n > first->prefix || memcmp(name, first->text, n) != 0)
		return GM_OF_NO_LAYER;
	n = (size_t)(end - start);
	for (size_t i = 0; i < sizeof(modules) / sizeof(modules[0]); i++)
		if (strlen(modules[i].name) == n &&
		    memcmp(modules[i].name, start, n) == 0)
			return modules[i].of;
	return GM_OF_NO_LAYER;
}

/* The bytes that are with the last layer. */
static uint64_t count_head(const struct gm_weights *weights,
			   const struct gm_layer_name *first)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < weights->n; i++)
		if (find_module(weights->v[i].name, first) <= GM_OF_LAST_NORM)
			bytes += weights->v[i].bytes;
	return bytes;
}

/* Store the layer of each tensor of the stack, of which the first @n count; and
 * what each other tensor is. */
static void store_layers(const struct gm_weights *weights,
			 const struct member *v, const struct stack *stack,
			 uint32_t n, int32_t *ret_layers)
{
	for (size_t i = 0; i < weights->n; i++)
		ret_layers[i] =
			find_module(weights->v[i].name, &v[stack->first].name);
	for (size_t i = stack->first; i < stack->end; i++)
		ret_layers[v[i].weight] = v[i].name.layer < n
						  ? (int32_t)v[i].name.layer
						  : GM_OF_NO_LAYER;
}

/* ---- layers -------------------------------------------------------------- */

static struct stack measure(const struct member *v, size_t n, size_t first)
{
	struct stack stack = { .first = first, .end = first };

	while (stack.end < n &&
	       gm_layer_name_compare_stack(&v[stack.end].name,
					   &v[first].name) == 0) {
		const struct member *m = &v[stack.end++];

		stack.n_found += m->name.layer == stack.n_found;
		stack.n_layers = m->name.layer + 1;
		stack.bytes += m->bytes;
	}
	return stack;
}

/* Are the stack's first layers those of the map, to the byte?  Some models have
 * more layers behind them, to predict more tokens. */
static bool goes_on(const struct gm_weights *weights,
		    const struct gm_layers_sought *sought,
		    const struct member *v, const struct stack *stack)
{
	size_t at = stack->first;

	if (stack->n_layers <= sought->n_layers || sought->bytes == NULL)
		return false;
	for (uint32_t i = 0; i < sought->n_layers; i++) {
		uint64_t bytes = 0;

		for (; at < stack->end && v[at].name.layer == i; at++)
			bytes += v[at].bytes;
		if (bytes == 0)
			return false;
		/* Whose sizes these are may have counted the head apart. */
		if (bytes != sought->bytes[i] && i + 1 == sought->n_layers)
			bytes += count_head(weights, &v[stack->first].name);
		if (bytes != sought->bytes[i])
			return false;
	}
	return true;
}

/* Do the metadata say so?  A map may know no bytes. */
static bool has_extra(struct gm_weights *weights,
		      const struct gm_layers_sought *sought,
		      const struct stack *stack)
{
	struct gm_weights_config config;

	return stack->n_layers > sought->n_layers &&
	       gm_weights_config_of(weights, &config) == 0 &&
	       config.n_layers == sought->n_layers &&
	       stack->n_layers == sought->n_layers + config.n_extra;
}

/* Choose the stack that the map is for. */
static int choose(struct gm_weights *weights,
		  const struct gm_layers_sought *sought, const struct member *v,
		  size_t n, struct stack *ret, struct gm_reason *why)
{
	struct stack best = { 0 }, stack = { 0 };
	int best_rank = -1;

	while (stack.end < n) {
		int its;

		stack = measure(v, n, stack.end);
		its = stack.n_layers == sought->n_layers
			      ? 2
			      : goes_on(weights, sought, v, &stack);
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
	if (best_rank < 1 && !has_extra(weights, sought, &best))
		return gm_reason_set(
			why, -EINVAL,
			"layer map \"%s\" has %u layers, the model "
			"%" PRIu64 " (%.*sN.); make a map for this "
			"model",
			sought->map, sought->n_layers, best.n_layers,
			(int)(v[best.first].name.prefix < 60
				      ? v[best.first].name.prefix
				      : 60),
			v[best.first].name.text);
	if (best.n_found < sought->n_layers)
		return gm_reason_set(why, -EINVAL,
				     "no tensor of layer %" PRIu64 " is there; "
				     "fetch the model's missing files",
				     best.n_found);
	*ret = best;
	return 0;
}

/* The tensors of all layers, sorted by prefix and layer, to free(); or NULL. */
static struct member *list_members(const struct gm_weights *weights,
				   size_t *ret_n)
{
	struct member *v = calloc(weights->n + 1, sizeof(*v)); /* never 0 */
	size_t n = 0;

	for (size_t i = 0; v != NULL && i < weights->n; i++) {
		v[n].weight = i;
		v[n].bytes = weights->v[i].bytes;
		n += gm_layer_name_parse(weights->v[i].name, &v[n].name);
	}
	if (v != NULL)
		gm_weights_sort(v, n, sizeof(v[0]), gm_layer_name_compare);
	*ret_n = n;
	return v;
}

int gm_weights_layers(struct gm_weights *weights,
		      const struct gm_layers_sought *sought,
		      int32_t *ret_layers, struct gm_layers_stack *ret_stack,
		      struct gm_reason *why)
{
	struct stack stack = { 0 };
	struct member *v;
	size_t n;
	int ret;

	v = list_members(weights, &n);
	if (v == NULL)
		return -ENOMEM;
	ret = choose(weights, sought, v, n, &stack, why);
	if (ret == 0)
		store_layers(weights, v, &stack, sought->n_layers, ret_layers);
	if (ret == 0 && ret_stack != NULL)
		*ret_stack = (struct gm_layers_stack){
			.prefix = v[stack.first].name.text,
			.prefix_bytes = v[stack.first].name.prefix,
			.n_layers = stack.n_layers,
		};
	free(v);
	return ret;
}

/* ---- a model's own layers ------------------------------------------------ */

static bool agrees(const struct gm_weights_config *config,
		   const struct stack *stack)
{
	return config->n_layers == 0 || stack->n_layers == config->n_layers ||
	       stack->n_layers == config->n_layers + config->n_extra;
}

/* The largest of the stacks that agree with the metadata, or of all. */
static struct stack find_own(const struct gm_weights_config *config,
			     const struct member *v, size_t n)
{
	struct stack best = { 0 }, stack = { 0 };

	while (stack.end < n) {
		bool is_better;

		stack = measure(v, n, stack.end);
		is_better = agrees(config, &stack) == agrees(config, &best)
				    ? stack.bytes > best.bytes
				    : agrees(config, &stack);
		if (best.n_layers == 0 || is_better)
			best = stack;
	}
	return best;
}

static int check_own(const struct gm_weights *weights,
		     const struct gm_weights_config *config,
		     const struct stack *stack, const struct member *v)
{
	const char *what = gm_reason_path(
		weights->is_file ? weights->files[0].name : weights->folder);
	const struct gm_layer_name *name = &v[stack->first].name;
	int shown = (int)(name->prefix < 60 ? name->prefix : 60);
	const char *missing =
		weights->has_index && weights->n_files == 1
			? "model.safetensors is read, not the files of the "
			  "index beside it: remove one"
			: "fetch what is missing";

	if (stack->n_layers == 0)
		return gm_reason_set(weights->why, -EINVAL,
				     "%s: no tensor's name has the number of "
				     "a layer; layers are named layers.N., "
				     "layer.N., blocks.N., block.N., h.N. or "
				     "blk.N. with or without a prefix",
				     what);
	if (stack->n_layers > GM_WEIGHTS_LAYERS)
		return gm_reason_set(weights->why, -E2BIG,
				     "%s: tensor %.60s: more than the %u "
				     "layers that a map may have; is this a "
				     "model?",
				     what, v[stack->end - 1].name.text,
				     GM_WEIGHTS_LAYERS);
	if (stack->n_found != stack->n_layers)
		return gm_reason_set(weights->why, -EINVAL,
				     "%s: no tensor of layer %.*s%" PRIu64
				     ", but there are of layer %" PRIu64
				     "; fetch the model's missing files",
				     what, shown, name->text, stack->n_found,
				     stack->n_layers - 1);
	if (agrees(config, stack))
		return 0;
	return gm_reason_set(weights->why, -EINVAL,
			     "%s: its metadata say %" PRIu32 " layers, there "
			     "are tensors of %" PRIu64 " (%.*sN.); %s",
			     what, config->n_layers, stack->n_layers, shown,
			     name->text, missing);
}

int gm_weights_own_layers(const struct gm_weights *weights,
			  const struct gm_weights_config *config,
			  int32_t *ret_layers, uint32_t *ret_n)
{
	struct stack stack;
	struct member *v;
	size_t n;
	int ret;

	v = list_members(weights, &n);
	if (v == NULL)
		return -ENOMEM;
	stack = find_own(config, v, n);
	ret = check_own(weights, config, &stack, v);
	*ret_n = config->n_layers != 0 ? config->n_layers
				       : (uint32_t)stack.n_layers;
	if (ret == 0)
		store_layers(weights, v, &stack, *ret_n, ret_layers);
	free(v);
	return ret;
}
