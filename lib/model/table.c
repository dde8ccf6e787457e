/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "lib/model/table.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NOWHERE UINT32_MAX

/* The offsets of a table's parts. */
struct parts {
	uint64_t dims;
	uint64_t names;
	uint64_t meta;
	uint64_t end;
};

/* Each count is below 2^32, so the sums do not overflow. */
static struct parts parts_of(const struct gm_model_table *t)
{
	struct parts p;

	p.dims = sizeof(*t) + t->n_tensors * sizeof(struct gm_model_tensor);
	p.names = p.dims + t->n_dims * sizeof(uint64_t);
	p.meta = p.names + t->name_bytes;
	if (t->meta_bytes > 0)
		p.meta = (p.meta + 7) & ~UINT64_C(7);
	p.end = p.meta + t->meta_bytes;
	return p;
}

/* ---- making one ---------------------------------------------------------- */

static uint64_t name_bytes(const struct gm_weights *ws)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < ws->n; i++)
		bytes += strlen(ws->v[i].name) + 1;
	return bytes;
}

static struct gm_model_tensor tensor_of(const struct gpumap_model *m, size_t i,
					uint64_t name)
{
	const struct gm_weight *w = &m->weights.v[i];
	const struct gm_model_place *place = &m->places[i];
	const char *type = gm_weights_type(w->type);
	struct gm_model_tensor t = { .name = name,
				     .shape = w->shape,
				     .at = place->at,
				     .bytes = w->bytes,
				     .buffer = place->buffer,
				     .row = place->row,
				     .layer = place->layer,
				     .n_dims = w->n_dims };

	memcpy(t.type, type, strnlen(type, sizeof(t.type) - 1));
	return t;
}

int gm_model_table_make(struct gpumap_model *model, void **ret_table,
			uint64_t *ret_bytes)
{
	const struct gm_weights *ws = &model->weights;
	struct gm_model_table head = { .magic = GM_MODEL_TABLE_MAGIC,
				       .version = GM_MODEL_TABLE_VERSION,
				       .n_buffers = model->n_buffers,
				       .n_tensors = ws->n,
				       .n_dims = ws->n_dims,
				       .name_bytes = name_bytes(ws),
				       .meta_bytes = model->meta.bytes,
				       .meta_format = model->meta.format,
				       .fingerprint =
					       gm_fingerprint_weights(ws) };
	const struct parts parts = parts_of(&head);
	struct gm_model_tensor *tensors;
	uint64_t name = 0;
	char *table;

	if (!model->order.as_file)
		head.files = gm_fingerprint_files(ws);
	if (model->order.path != NULL)
		snprintf(head.path, sizeof(head.path), "%s",
			 gm_reason_path(model->order.path));
	if (parts.end > GPUMAP_SHARE_ABOUT_MAX)
		return gm_reason_set(&model->why, -E2BIG,
				     "its metadata, and the names and shapes "
				     "of its tensors, have %" PRIu64
				     " bytes, more than a share says about "
				     "itself; load it without a name",
				     parts.end);
	table = calloc(1, parts.end);
	if (table == NULL)
		return -ENOMEM;
	memcpy(table, &head, sizeof(head));
	tensors = (struct gm_model_tensor *)(table + sizeof(head));
	if (ws->n_dims > 0)
		memcpy(table + parts.dims, ws->dims,
		       ws->n_dims * sizeof(ws->dims[0]));
	for (size_t i = 0; i < ws->n; i++) {
		size_t n = strlen(ws->v[i].name) + 1;

		tensors[i] = tensor_of(model, i, name);
		memcpy(table + parts.names + name, ws->v[i].name, n);
		name += n;
	}
	if (head.meta_bytes > 0)
		memcpy(table + parts.meta, model->meta.data, head.meta_bytes);
	*ret_table = table;
	*ret_bytes = parts.end;
	return 0;
}

int gm_model_table_check(struct gpumap_model *model)
{
	void *table;
	uint64_t bytes;
	int ret;

	if (model->n_buffers > GPUMAP_SHARE_BUFFERS_MAX)
		return gm_reason_set(&model->why, -E2BIG,
				     "it takes %u buffers, and a share has at "
				     "most %u; load it without a name",
				     model->n_buffers,
				     GPUMAP_SHARE_BUFFERS_MAX);
	ret = gm_model_table_make(model, &table, &bytes);
	if (ret == 0)
		free(table);
	return ret;
}

/* ---- reading one --------------------------------------------------------- */

static int bad(struct gpumap_model *m, const char *what)
{
	return gm_reason_set(&m->why, -EPROTO,
			     "its table of tensors is not sound: %s", what);
}

static int check_head(struct gpumap_model *m, const struct gm_model_table *t,
		      uint64_t bytes)
{
	if (t->magic != GM_MODEL_TABLE_MAGIC)
		return gm_reason_set(&m->why, -EINVAL,
				     "what is shared by this name is no model; "
				     "open it with gpumap_share_open()");
	if (t->version != GM_MODEL_TABLE_VERSION)
		return bad(m, "another release of the library has written it; "
			      "release the share, and load the model again");
	if (t->n_tensors > GM_WEIGHTS_TENSORS || t->n_dims > UINT32_MAX ||
	    t->name_bytes > UINT32_MAX || t->meta_bytes > UINT32_MAX ||
	    parts_of(t).end != bytes)
		return bad(m, "its parts do not fill it");
	if (t->n_buffers != m->n_buffers)
		return bad(m, "it is of other buffers");
	if (t->meta_format > GPUMAP_META_GGUF || t->reserved != 0 ||
	    (t->meta_format == 0) != (t->meta_bytes == 0))
		return bad(m, "its metadata is of no known format");
	if (memchr(t->path, '\0', sizeof(t->path)) == NULL)
		return bad(m, "the path of its files does not end");
	return 0;
}

/* Take a tensor's place, or none where the share lacks it. */
static int take_place(struct gpumap_model *m, const struct gm_model_tensor *t,
		      struct gm_model_place *place)
{
	const struct gm_model_buffer *b = &m->buffers[t->buffer];

	*place = (struct gm_model_place){ .row = t->row,
					  .layer = t->layer,
					  .buffer = t->buffer,
					  .at = t->at };
	if (t->buffer == NOWHERE)
		return 0;
	if (t->buffer >= m->n_buffers)
		return bad(m, "a tensor is in a buffer that there is not");
	if (t->bytes > b->bytes || t->at > b->bytes - t->bytes)
		return bad(m, "a tensor is not inside its buffer");
	if (t->row != b->row)
		return bad(m, "a tensor is on another row than its buffer");
	m->total += t->bytes;
	return 0;
}

static int take(struct gpumap_model *m, const struct gm_model_tensor *t,
		const struct gm_model_table *head, size_t i)
{
	struct gm_weight *w = &m->weights.v[i];

	if (t->name >= head->name_bytes)
		return bad(m, "a name begins behind the last");
	if (t->shape > head->n_dims || t->n_dims > head->n_dims - t->shape)
		return bad(m, "a shape ends behind the last");
	*w = (struct gm_weight){ .name = m->names + t->name,
				 .bytes = t->bytes,
				 .shape = t->shape,
				 .n_dims = t->n_dims };
	if (memchr(t->type, '\0', sizeof(t->type)) == NULL ||
	    !gm_weights_type_find(t->type, &w->type))
		return bad(m, "a tensor has a type that is not known here; use "
			      "the same release of the library on both sides");
	if (i > 0 && strcmp(w[-1].name, w->name) >= 0)
		return bad(m, "tensors are not in the order of their names");
	return take_place(m, t, &m->places[i]);
}

static int make_room(struct gpumap_model *m, const struct gm_model_table *head)
{
	m->weights.v = calloc(head->n_tensors + 1, sizeof(*m->weights.v));
	m->weights.dims = calloc(head->n_dims + 1, sizeof(*m->weights.dims));
	m->places = calloc(head->n_tensors + 1, sizeof(*m->places));
	m->names = calloc(1, head->name_bytes + 1);
	return m->weights.v != NULL && m->weights.dims != NULL &&
			       m->places != NULL && m->names != NULL
		       ? 0
		       : -ENOMEM;
}

int gm_model_table_read(struct gpumap_model *model, const void *table,
			uint64_t bytes)
{
	const char *at = table;
	struct gm_model_table head = { .magic = 0 };
	struct gm_model_tensor tensor;
	struct parts parts;
	int ret;

	if (bytes >= sizeof(head))
		memcpy(&head, at, sizeof(head));
	ret = check_head(model, &head, bytes);
	if (ret == 0)
		ret = make_room(model, &head);
	if (ret != 0)
		return ret;
	model->fingerprint = head.fingerprint;
	model->fingerprint_files = head.files;
	memcpy(model->path, head.path, sizeof(model->path));
	gm_reason_make_plain(model->path);
	parts = parts_of(&head);
	memcpy(model->weights.dims, at + parts.dims,
	       head.n_dims * sizeof(uint64_t));
	memcpy(model->names, at + parts.names, head.name_bytes);
	model->weights.n_dims = head.n_dims;
	if (head.meta_bytes > 0)
		model->meta = (struct gm_weights_meta){
			.data = (void *)(at + parts.meta),
			.bytes = head.meta_bytes,
			.format = head.meta_format,
		};
	at += sizeof(head);
	for (size_t i = 0; ret == 0 && i < head.n_tensors; i++) {
		memcpy(&tensor, at + i * sizeof(tensor), sizeof(tensor));
		ret = take(model, &tensor, &head, i);
		model->weights.n = i + 1;
	}
	return ret;
}
