/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* Decide on the row and the buffer of each tensor. */

#include "lib/model/model.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define NOWHERE UINT32_MAX

/* ---- layers -------------------------------------------------------------- */

static int find_layers(struct gpumap_model *m, const struct gm_model_plan *plan)
{
	const struct gm_layers_sought sought = { .map = plan->name,
						 .bytes = plan->bytes,
						 .n_layers = plan->n_layers };
	int32_t *layers = calloc(m->weights.n + 1, sizeof(*layers));
	int ret;

	if (layers == NULL)
		return -ENOMEM;
	ret = gm_weights_layers(&m->weights, &sought, layers, NULL, &m->why);
	for (size_t i = 0; ret == 0 && i < m->weights.n; i++) {
		int32_t with = gm_layer_with(layers[i], plan->n_layers);

		if (layers[i] >= 0)
			m->places[i].layer = layers[i];
		if (with >= 0)
			m->places[i].row = plan->rows[with];
	}
	free(layers);
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
	    gm_round_up(buffer[-1].bytes, GM_MODEL_ALIGN) + w->bytes <=
		    GM_MODEL_BUFFER)
		buffer--;
	else
		lane->end_buffer = ++m->n_buffers;
	buffer->row = item->row;
	place->buffer = (uint32_t)(buffer - m->buffers);
	place->at = gm_round_up(buffer->bytes, GM_MODEL_ALIGN);
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
