/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Decide on the row and the buffer of each tensor.
 *
 * The names of tensors tell their layers, [PREFIX.]layers.N.REST and the like,
 * by the same rule that plans use.  A model may have several stacks of layers,
 * such as a vision tower's beside the language model's.  The map is for the
 * stack with as many layers as it has.
 */

#include "lib/model.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define NOWHERE UINT32_MAX

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
static bool goes_on(const struct gm_model_plan *plan, const struct member *v,
		    const struct stack *stack)
{
	size_t at = stack->first;

	if (stack->n_layers <= plan->n_layers)
		return false;
	for (uint32_t i = 0; i < plan->n_layers; i++) {
		uint64_t bytes = 0;

		for (; at < stack->end && v[at].layer == i; at++)
			bytes += v[at].bytes;
		if (bytes == 0 || bytes != plan->bytes[i])
			return false;
	}
	return true;
}

static int rank(const struct gm_model_plan *plan, const struct member *v,
		const struct stack *stack)
{
	return stack->n_layers == plan->n_layers ? 2 : goes_on(plan, v, stack);
}

/* Choose the stack that the map is for. */
static int choose(struct gpumap_model *m, const struct gm_model_plan *plan,
		  const struct member *v, size_t n, struct stack *ret)
{
	struct stack best = { 0 }, stack = { 0 };
	int best_rank = -1;

	while (stack.end < n) {
		int its;

		stack = measure(v, n, stack.end);
		its = rank(plan, v, &stack);
		if (its < best_rank ||
		    (its == best_rank && stack.bytes <= best.bytes))
			continue;
		best = stack;
		best_rank = its;
	}
	if (n == 0)
		return gm_reason_set(&m->why, -EINVAL,
				     "no tensor's name has the number of a "
				     "layer, as in layers.0.; load it without "
				     "a layer map");
	if (best_rank < 1)
		return gm_reason_set(
			&m->why, -EINVAL,
			"layer map \"%s\" has %u layers, the model "
			"%" PRIu64 " (%.*sN.); make a map for this "
			"model",
			plan->name, plan->n_layers, best.n_layers,
			(int)(v[best.first].prefix < 60 ? v[best.first].prefix
							: 60),
			v[best.first].name);
	if (best.n_found < plan->n_layers)
		return gm_reason_set(&m->why, -EINVAL,
				     "no tensor of layer %" PRIu64 " is there; "
				     "fetch the model's missing files",
				     best.n_found);
	*ret = best;
	return 0;
}

static int find_layers(struct gpumap_model *m, const struct gm_model_plan *plan)
{
	const struct gm_weights *ws = &m->weights;
	struct member *v = calloc(ws->n + 1, sizeof(*v)); /* never 0 */
	struct stack stack = { 0 };
	size_t n = 0;
	int ret;

	if (v == NULL)
		return -ENOMEM;
	for (size_t i = 0; i < ws->n; i++) {
		v[n].weight = i;
		v[n].bytes = ws->v[i].bytes;
		n += find_layer(ws->v[i].name, &v[n]);
	}
	qsort(v, n, sizeof(v[0]), by_prefix_and_layer);
	ret = choose(m, plan, v, n, &stack);
	for (size_t i = stack.first; ret == 0 && i < stack.end; i++) {
		struct gm_model_place *place = &m->places[v[i].weight];

		if (v[i].layer >= plan->n_layers)
			continue;
		place->layer = (int32_t)v[i].layer;
		place->row = plan->rows[v[i].layer];
	}
	free(v);
	return ret;
}

/* ---- buffers and runs ---------------------------------------------------- */

/* The tensors to load, in loading order. */
struct item {
	size_t weight;
	uint64_t from;
	uint32_t row;
	uint32_t file;
};

static int by_row_and_place(const void *a, const void *b)
{
	const struct item *x = a, *y = b;

	if (x->row != y->row)
		return x->row < y->row ? -1 : 1;
	if (x->file != y->file)
		return x->file < y->file ? -1 : 1;
	return (x->from > y->from) - (x->from < y->from);
}

static bool is_wanted(const struct gm_model_plan *plan, uint32_t row)
{
	if (plan->only == NULL)
		return true;
	for (uint32_t i = 0; i < plan->n_only; i++)
		if (plan->only[i] == row)
			return true;
	return false;
}

static size_t list_items(const struct gpumap_model *m,
			 const struct gm_model_plan *plan, struct item *ret)
{
	size_t n = 0;

	for (size_t i = 0; i < m->weights.n; i++) {
		const struct gm_weight *w = &m->weights.v[i];
		uint32_t row = m->places[i].row;

		if (w->bytes > 0 && is_wanted(plan, row))
			ret[n++] = (struct item){ i, w->begin, row, w->file };
	}
	qsort(ret, n, sizeof(ret[0]), by_row_and_place);
	return n;
}

static uint64_t aligned(uint64_t at)
{
	return (at + GM_MODEL_ALIGN - 1) / GM_MODEL_ALIGN * GM_MODEL_ALIGN;
}

/* A lane for each row, room for a buffer and a run for each tensor. */
static int make_room(struct gpumap_model *m, size_t n)
{
	m->lanes = calloc(GM_ROWS, sizeof(*m->lanes));
	m->buffers = calloc(n + 1, sizeof(*m->buffers));
	m->runs = calloc(n + 1, sizeof(*m->runs));
	m->files = calloc(m->weights.n_files + 1, sizeof(*m->files));
	if (m->lanes == NULL || m->buffers == NULL || m->runs == NULL ||
	    m->files == NULL)
		return -ENOMEM;
	return 0;
}

static struct gm_model_lane *lane_of(struct gpumap_model *m, uint32_t row,
				     size_t run)
{
	struct gm_model_lane *lane = &m->lanes[m->n_lanes];

	if (m->n_lanes > 0 && lane[-1].row == row)
		return lane - 1;
	m->n_lanes++;
	lane->row = row;
	lane->run = lane->end_run = run;
	lane->buffer = lane->end_buffer = lane->next_buffer = m->n_buffers;
	for (uint32_t i = 0; i < GM_MODEL_QUEUED; i++)
		lane->ops[i] = (struct gm_model_op){ .model = m, .lane = lane };
	return lane;
}

/* Place the next tensor of its row.  The last run is extended where
 * possible. */
static void put(struct gpumap_model *m, const struct item *item)
{
	const struct gm_weight *w = &m->weights.v[item->weight];
	struct gm_model_place *place = &m->places[item->weight];
	size_t next = m->n_lanes > 0 ? m->lanes[m->n_lanes - 1].end_run : 0;
	struct gm_model_lane *lane = lane_of(m, item->row, next);
	struct gm_model_buffer *buffer = &m->buffers[m->n_buffers];
	struct gm_model_run *run = &m->runs[next];

	if (lane->end_buffer > lane->buffer &&
	    aligned(buffer[-1].bytes) + w->bytes <= GM_MODEL_BUFFER)
		buffer--;
	else
		lane->end_buffer = ++m->n_buffers;
	buffer->row = item->row;
	place->buffer = (uint32_t)(buffer - m->buffers);
	place->at = aligned(buffer->bytes);
	buffer->bytes = place->at + w->bytes;
	lane->bytes += w->bytes;
	m->files[item->file].left += w->bytes;
	m->total += w->bytes;
	if (next > lane->run && run[-1].buffer == place->buffer &&
	    run[-1].file == item->file &&
	    run[-1].from + run[-1].bytes == item->from &&
	    run[-1].to + run[-1].bytes == place->at) {
		run[-1].bytes += w->bytes;
		return;
	}
	*run = (struct gm_model_run){ .from = item->from,
				      .to = place->at,
				      .bytes = w->bytes,
				      .file = item->file,
				      .buffer = place->buffer };
	lane->end_run = next + 1;
}

int gm_model_place(struct gpumap_model *model, const struct gm_model_plan *plan)
{
	const size_t n_weights = model->weights.n;
	struct item *items = calloc(n_weights + 1, sizeof(*items));
	size_t n;
	int ret = 0;

	model->places = calloc(n_weights + 1, sizeof(*model->places));
	if (items == NULL || model->places == NULL) {
		free(items);
		return -ENOMEM;
	}
	for (size_t i = 0; i < n_weights; i++)
		model->places[i] = (struct gm_model_place){ .row = plan->base,
							    .layer = -1,
							    .buffer = NOWHERE };
	if (plan->name != NULL)
		ret = find_layers(model, plan);
	n = ret == 0 ? list_items(model, plan, items) : 0;
	if (ret == 0)
		ret = make_room(model, n);
	for (size_t i = 0; ret == 0 && i < n; i++)
		put(model, &items[i]);
	free(items);
	return ret;
}
