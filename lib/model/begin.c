/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* Read the map, the checkpoint's headers and metadata, and decide on places. */

#include "lib/model/table.h"

#include <errno.h>
#include <stdlib.h>

int gm_model_row_flags(const struct gpumap *map, uint32_t row,
		       uint32_t *ret_flags)
{
	struct gpumap_device device = { .size = sizeof(device) };
	int ret;

	do
		ret = gpumap_device_read(map, row, &device);
	while (ret == -EAGAIN);
	if (ret == 0)
		*ret_flags = device.flags;
	return ret;
}

int gm_model_layers_read(const struct gpumap *map, const char *name,
			 struct gm_model_layers *ret_layers)
{
	struct gm_model_layers *l = ret_layers;
	uint32_t n = 0;
	int ret;

	do {
		gm_model_layers_free(l);
		l->rows = calloc((size_t)n + GPUMAP_ROWS_MAX, sizeof(*l->rows));
		l->bytes = calloc((size_t)n + 1, sizeof(*l->bytes));
		if (l->rows == NULL || l->bytes == NULL)
			return -ENOMEM;
		l->facts.size = sizeof(l->facts);
		ret = gpumap_layers_read(map, name, &l->facts, l->rows,
					 l->bytes, n, l->charges,
					 GPUMAP_ROWS_MAX);
		n = l->facts.n_layers;
	} while (ret == -ENOBUFS);
	return ret;
}

void gm_model_layers_free(struct gm_model_layers *layers)
{
	free(layers->rows);
	free(layers->bytes);
	layers->rows = NULL;
	layers->bytes = NULL;
}

static int read_layers(const struct gpumap *map, const char *name,
		       struct gm_model_layers *l)
{
	struct gm_reason why;
	int ret = gm_model_layers_read(map, name, l);

	if (ret == 0 && l->facts.setting == GPUMAP_SETTING_NCCL)
		ret = gm_reason_set(&why, -EOPNOTSUPP,
				    "layer map \"%.63s\" gives each row a part "
				    "of every layer, and whole tensors are "
				    "loaded; make a map by layers",
				    name);
	else if (ret == -ENOENT)
		gm_reason_set(&why, ret,
			      "no layer map is named \"%.63s\"; publish it, or "
			      "plan it with --commit",
			      name);
	else
		gm_reason_set(&why, ret, "layer map \"%.63s\": %s", name,
			      gpumap_strerror(ret));
	if (ret != 0)
		gm_map_refuse(map, why.text);
	return ret;
}

/* Open the queue pairs of all the model's rows now, so that loading never waits
 * for one. */
static int open_lanes(struct gpumap_model *m)
{
	int ret = 0;

	if (m->n_lanes == 0)
		return gm_reason_set(&m->why, -EINVAL,
				     "nothing of this model belongs to these "
				     "rows; name some of its layer map's");
	for (uint32_t i = 0; ret == 0 && i < m->n_lanes; i++)
		ret = gm_part_open_row(m->session, m->lanes[i].row);
	return ret;
}

int gm_model_read(struct gpumap_model *model, struct gm_weights *ret_weights)
{
	const struct gm_model_order *order = &model->order;

	return order->as_file
		       ? gm_weights_whole(order->path, &model->why, ret_weights)
		       : gm_weights_read(order->path, NULL, &model->why,
					 ret_weights);
}

int gm_model_begin(struct gpumap_model *model)
{
	const struct gm_model_order *order = &model->order;
	struct gm_model_layers layers = { .rows = NULL };
	struct gm_model_plan plan = { .name = order->layers,
				      .only = order->rows,
				      .n_only = order->n_rows };
	int ret = 0;

	if (order->layers != NULL)
		ret = read_layers(model->map, order->layers, &layers);
	else
		plan.base = order->rows[0];
	if (ret == 0 && order->layers != NULL) {
		plan.rows = layers.rows;
		plan.bytes = layers.bytes;
		plan.n_layers = layers.facts.n_layers;
		plan.base = layers.facts.base_row;
	}
	if (ret == 0)
		ret = gm_model_read(model, &model->weights);
	if (ret == 0 && !order->as_file)
		ret = gm_weights_meta_read(
			&model->weights, GPUMAP_SHARE_ABOUT_MAX, &model->meta);
	model->owns_meta = ret == 0;
	if (ret == 0)
		ret = gm_model_place(model, &plan);
	if (ret == 0 && model->name.text[0] != '\0')
		ret = gm_model_table_check(model);
	if (ret == 0)
		ret = open_lanes(model);
	gm_model_layers_free(&layers);
	if (ret == 0)
		model->state = GPUMAP_MODEL_ALLOCATING;
	return ret;
}
