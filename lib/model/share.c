/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* Share a loaded model by its name, and open one that another session has
 * shared. */

#include "lib/model/table.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* ---- requests to the agent -------------------------------------------- */

void gm_model_unname(struct gpumap_model *model)
{
	struct gm_model_name *name = &model->name;
	char why[GM_WHY];

	memcpy(why, gpumap_refusal(model->map), sizeof(why));
	if (name->share != 0)
		gpumap_share_close(model->session, name->share);
	if (name->claimed)
		gm_share_claim(model->session, name->text, GM_SHARE_CLAIM_DROP,
			       NULL);
	name->share = 0;
	name->claimed = false;
	gm_map_refuse(model->map, why);
}

/* ---- models that other sessions loaded -------------------------------- */

/* Read the rows and bytes of the share's buffers. */
static int look_at(struct gpumap_model *m, const struct gpumap_share_info *info)
{
	struct gpumap_export_info part = { .size = sizeof(part) };
	int ret = 0;

	m->buffers = calloc(info->n_buffers, sizeof(*m->buffers));
	if (m->buffers == NULL)
		return -ENOMEM;
	m->n_buffers = info->n_buffers;
	for (uint32_t i = 0; ret == 0 && i < m->n_buffers; i++) {
		ret = gpumap_share_buffer(m->session, m->name.share, i, &part,
					  NULL);
		m->buffers[i].bytes = part.bytes;
		m->buffers[i].row = part.row;
	}
	return ret;
}

static bool is_mapped(const struct gpumap *map, uint32_t row)
{
	uint32_t flags;

	return gm_model_row_flags(map, row, &flags) == 0 &&
	       (flags & GPUMAP_DEVICE_MAPPED) != 0;
}

void gm_model_unmap(struct gpumap_model *model)
{
	for (uint32_t i = 0; model->buffers != NULL && i < model->n_buffers;
	     i++) {
		struct gm_model_buffer *buffer = &model->buffers[i];

		if (buffer->memory != NULL)
			munmap(buffer->memory, buffer->bytes);
		buffer->memory = NULL;
	}
}

static int map_buffer(struct gpumap_model *m, uint32_t i, int fd)
{
	bool read_only = (m->name.flags & GPUMAP_SHARE_READ_ONLY) != 0;
	struct gm_model_buffer *buffer = &m->buffers[i];
	void *memory = mmap(NULL, buffer->bytes,
			    read_only ? PROT_READ : PROT_READ | PROT_WRITE,
			    MAP_SHARED, fd, 0);

	if (memory == MAP_FAILED)
		return gm_refuse_memory(m->map, buffer->bytes);
	buffer->memory = memory;
	return 0;
}

/* Map buffer *@i and those behind it whose descriptors come along. */
static int map_some(struct gpumap_model *m, uint32_t *i)
{
	int fds[GM_CONTROL_FDS_MAX], ret, n;
	uint32_t end = *i;

	while (end < m->n_buffers && end - *i < GM_CONTROL_FDS_MAX &&
	       is_mapped(m->map, m->buffers[end].row))
		end++;
	n = ret =
		gpumap_share_fds(m->session, m->name.share, *i, end - *i, fds);
	for (int k = 0; k < n; k++) {
		if (ret >= 0)
			ret = map_buffer(m, *i, fds[k]);
		++*i;
		close(fds[k]);
	}
	return ret;
}

static int import(struct gpumap_model *m, uint32_t i)
{
	struct gm_model_buffer *buffer = &m->buffers[i];
	int ret = gm_part_open_row(m->session, buffer->row);

	/* Read the incarnation before the import: if the worker dies in
	 * between, a later call notices. */
	if (ret == 0) {
		buffer->incarnation =
			gm_part_incarnation(m->session, buffer->row);
		ret = gpumap_share_buffer(m->session, m->name.share, i, NULL,
					  &buffer->handle);
	}
	return ret;
}

/* Are they the very files that the share was loaded from? */
static bool are_same_inodes(struct gpumap_model *m)
{
	struct gm_weights weights;
	bool same;

	if (m->fingerprint_files == 0 || m->order.as_file ||
	    gm_weights_list(m->order.path, &m->why, &weights) != 0)
		return false;
	same = gm_fingerprint_files(&weights) == m->fingerprint_files;
	gm_weights_free(&weights);
	return same;
}

/* Compare the files that were asked for with those that the share was loaded
 * from.  Headers are read only of others: copies, or those of a container. */
static int compare(struct gpumap_model *m)
{
	struct gm_weights weights;
	bool same;
	int ret;

	if (m->order.path == NULL || m->name.any_files || are_same_inodes(m))
		return 0;
	ret = gm_model_read(m, &weights);
	if (ret != 0)
		return ret;
	same = gm_fingerprint_weights(&weights) == m->fingerprint;
	gm_weights_free(&weights);
	return same ? 0
		    : gm_reason_set(&m->why, -EEXIST,
				    "\"%s\" holds other files, or an earlier "
				    "state of these, from %s; load them by "
				    "another name, or release the share first",
				    m->name.text, m->path);
}

static int take(struct gpumap_model *m)
{
	struct gpumap_share_info info = { .size = sizeof(info) };
	int ret = gpumap_share_info(m->session, m->name.share, &info);

	if (ret == 0)
		ret = look_at(m, &info);
	if (ret == 0)
		ret = gm_model_table_read(m, info.about, info.about_bytes);
	if (ret == 0)
		ret = compare(m);
	for (uint32_t i = 0; ret == 0 && i < m->n_buffers;)
		if (m->name.mapped && is_mapped(m->map, m->buffers[i].row))
			ret = map_some(m, &i);
		else
			ret = import(m, i++);
	return ret;
}

/* Undo take(). */
static void clear(struct gpumap_model *m)
{
	gm_weights_free(&m->weights);
	gm_model_unmap(m);
	free(m->names);
	free(m->places);
	free(m->buffers);
	m->meta = (struct gm_weights_meta){ .data = NULL };
	m->names = NULL;
	m->places = NULL;
	m->buffers = NULL;
	m->n_buffers = 0;
	m->total = 0;
}

int gm_model_adopt(struct gpumap_model *model)
{
	struct gm_model_name *name = &model->name;
	int ret = gpumap_share_open(model->session, name->text,
				    name->flags & GPUMAP_SHARE_READ_ONLY,
				    gm_model_expected(name), &name->share);

	if (ret != 0)
		return ret;
	ret = take(model);
	if (ret != 0) {
		gm_model_unname(model);
		clear(model);
		return ret;
	}
	name->was_there = true;
	model->loaded = model->total;
	model->begun_ns = model->ended_ns = gm_now_ns();
	model->state = GPUMAP_MODEL_LOADED;
	return 0;
}

/* ---- share it --------------------------------------------------------- */

int gm_model_export(struct gpumap_model *model)
{
	uint32_t flags = GM_EXPORT_NAMED;
	int ret = 0;

	if ((model->name.flags & GPUMAP_SHARE_READ_ONLY) != 0)
		flags |= GM_EXPORT_READ_ONLY;
	for (uint32_t i = 0; ret == 0 && i < model->n_buffers; i++)
		ret = gm_part_export(model->session, model->buffers[i].handle,
				     flags);
	return ret;
}

int gm_model_publish(struct gpumap_model *model)
{
	struct gm_model_name *name = &model->name;
	struct gpumap_share_request request = {
		.size = sizeof(request),
		.name = name->text,
		.n_buffers = model->n_buffers,
		.flags = name->flags,
		.uids = name->uids,
		.n_uids = name->n_uids,
		.fingerprint = gm_model_expected(name)
	};
	uint64_t *handles = calloc(model->n_buffers, sizeof(*handles));
	void *table;
	int ret = -ENOMEM;

	if (handles != NULL)
		ret = gm_model_table_make(model, &table, &request.about_bytes);
	if (ret == 0) {
		for (uint32_t i = 0; i < model->n_buffers; i++) {
			struct gm_model_buffer *b = &model->buffers[i];

			handles[i] = b->handle;
			b->incarnation =
				gm_part_incarnation(model->session, b->row);
		}
		request.buffers = handles;
		request.about = table;
		ret = gpumap_share_publish(model->session, &request,
					   &name->share);
		free(table);
	}
	free(handles);
	name->claimed = name->claimed && ret != 0;
	return ret;
}

/* ---- when a worker has died -------------------------------------------- */

int gpumap_model_renew(struct gpumap_model *model)
{
	struct gpumap_session *s = model->session;
	int ret = s != NULL ? gm_session_begin(s) : -ECONNRESET;

	if (ret == 0 && model->state != GPUMAP_MODEL_LOADED)
		return -EAGAIN;
	if (ret == 0 && model->name.share == 0)
		return gm_refuse(model->map, -EINVAL,
				 "the model has no name: load it again");
	for (uint32_t i = 0; ret == 0 && i < model->n_buffers; i++) {
		struct gm_model_buffer *b = &model->buffers[i];

		if (b->memory != NULL ||
		    gm_part_incarnation(s, b->row) == b->incarnation)
			continue;
		ret = gpumap_buffer_free(s, b->handle);
		if (ret == -ESTALE)
			ret = 0; /* freed by an earlier call that failed */
		if (ret == 0)
			ret = import(model, i);
	}
	return ret;
}
