/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "lib/model/model.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MODEL_FLAGS (GPUMAP_MODEL_ANY_FILES | GPUMAP_MODEL_AS_FILE)
#define KNOWN_FLAGS (GPUMAP_BUFFER_EXPORTABLE | MODEL_FLAGS)

/* ---- begin --------------------------------------------------------------- */

/* A file is one piece, in memory that programs can map. */
static int check_file(const struct gpumap *map,
		      const struct gpumap_model_opts *opts)
{
	uint32_t flags;
	int ret;

	if (opts->layers != NULL || opts->n_rows != 1)
		return gm_refuse(
			map, -EINVAL,
			"a file goes to one row whole: give that row, and "
			"no layer map");
	ret = gm_model_row_flags(map, opts->rows[0], &flags);
	if (ret == 0 && (flags & GPUMAP_DEVICE_MAPPED) == 0)
		return gm_refuse(map, -EOPNOTSUPP,
				 "only memory of a host row is a file to other "
				 "programs: give a host row");
	return ret;
}

static int check_opts(const struct gpumap *map,
		      const struct gpumap_model_opts *opts)
{
	if ((opts->flags & ~KNOWN_FLAGS) != 0)
		return opts->flags == GPUMAP_BUFFER_READ_ONLY
			       ? gm_refuse(map, -EINVAL,
					   "weights are written once, by this "
					   "session: see share_flags for "
					   "GPUMAP_SHARE_READ_ONLY")
			       : gm_refuse_unknown(map);
	if ((opts->share_flags & ~GM_SHARE_FLAGS) != 0)
		return gm_refuse_unknown(map);
	if (opts->name == NULL &&
	    (opts->share_flags != 0 || opts->n_uids != 0 ||
	     opts->fingerprint != NULL ||
	     (opts->flags & GPUMAP_MODEL_ANY_FILES) != 0))
		return gm_refuse(map, -EINVAL,
				 "who may have it is said, or its fingerprint, "
				 "and no name to have it by");
	if (opts->path == NULL || opts->path[0] == '\0')
		return gm_refuse(map, -EINVAL,
				 "no path: give the directory of a checkpoint");
	if ((opts->rows == NULL) != (opts->n_rows == 0) ||
	    (opts->layers == NULL && opts->n_rows != 1))
		return gm_refuse(map, -EINVAL,
				 "neither a layer map nor one row: say where "
				 "the model is to go");
	if ((opts->flags & GPUMAP_MODEL_AS_FILE) != 0)
		return check_file(map, opts);
	return 0;
}

static void drop(struct gpumap_model *m)
{
	gm_weights_free(&m->weights);
	free(m->order.path);
	free(m->order.layers);
	free(m->order.rows);
	free(m->name.uids);
	free((char *)m->name.expect.fields);
	if (m->owns_meta)
		free(m->meta.data);
	free(m->names);
	gm_model_unmap(m);
	free(m->places);
	free(m->files);
	free(m->runs);
	free(m->buffers);
	free(m->lanes);
	free(m);
}

static int copy(const void *list, size_t bytes, void *ret_copy)
{
	void *ours = bytes > 0 ? malloc(bytes) : NULL;

	if (ours == NULL)
		return bytes > 0 ? -ENOMEM : 0;
	memcpy(ours, list, bytes);
	*(void **)ret_copy = ours;
	return 0;
}

/* Copy the caller's order for the time of loading. */
static int take_order(struct gpumap_model *m,
		      const struct gpumap_model_opts *opts)
{
	struct gm_model_order *order = &m->order;
	struct gm_model_name *name = &m->name;
	int ret = copy(opts->path, strlen(opts->path) + 1, &order->path);

	if (ret == 0 && opts->layers != NULL)
		ret = copy(opts->layers, strlen(opts->layers) + 1,
			   &order->layers);
	if (ret == 0)
		ret = copy(opts->rows, opts->n_rows * sizeof(*order->rows),
			   &order->rows);
	if (ret == 0 && opts->n_uids > 0)
		ret = copy(opts->uids, opts->n_uids * sizeof(*name->uids),
			   &name->uids);
	order->n_rows = opts->n_rows;
	name->n_uids = opts->n_uids;
	name->flags = opts->share_flags;
	name->any_files = (opts->flags & GPUMAP_MODEL_ANY_FILES) != 0;
	order->as_file = (opts->flags & GPUMAP_MODEL_AS_FILE) != 0;
	m->flags = opts->flags & ~MODEL_FLAGS;
	if (opts->name == NULL)
		return ret;
	if (ret == 0 && opts->fingerprint != NULL)
		ret = gm_share_fingerprint_copy(m->session, opts->fingerprint,
						&name->expect);
	m->flags |= GPUMAP_BUFFER_EXPORTABLE;
	memcpy(name->text, opts->name, strlen(opts->name) + 1);
	return ret;
}

/* A model without a name is begun at once; one with a name after the agent was
 * asked. */
static int begin(struct gpumap_model *m, const struct gpumap_model_opts *opts)
{
	int ret = take_order(m, opts);

	if (ret == 0 && m->name.text[0] == '\0')
		ret = gm_model_begin(m);
	if (ret == 0 && m->name.text[0] != '\0') {
		m->state = GPUMAP_MODEL_WAITING;
		gm_model_turn_wait(m);
		ret = m->status;
	}
	return ret;
}

static int check_name(const struct gpumap *map,
		      const struct gpumap_model_opts *opts)
{
	size_t n = opts->name != NULL ? strnlen(opts->name, GPUMAP_NAME_MAX + 1)
				      : 1;

	if (n == 0 || n > GPUMAP_NAME_MAX)
		return gm_refuse(map, -EINVAL, "a name has 1 to 63 bytes");
	if (opts->n_uids > GPUMAP_SHARE_UIDS_MAX)
		return gm_refuse(
			map, -EINVAL,
			"a share names at most 64 users: have it for any user");
	return 0;
}

/* Make an empty model of the session. */
static int make(struct gpumap_session *session, struct gpumap_model **ret_model)
{
	struct gm_models *models = gm_models_of(session);
	struct gpumap_model *m = models != NULL ? calloc(1, sizeof(*m)) : NULL;

	if (m == NULL)
		return gm_refuse_memory(gm_part_map(session), sizeof(*m));
	m->session = session;
	m->map = gm_part_map(session);
	m->models = models;
	*ret_model = m;
	return 0;
}

/* Add the model to the session's list and give it to the caller, or drop it. */
static int give(struct gpumap_model *m, int ret,
		struct gpumap_model **ret_model)
{
	if (ret != 0) {
		if (m->why.text[0] != '\0')
			gm_map_refuse(m->map, m->why.text);
		gm_model_unname(m);
		drop(m);
		return ret;
	}
	m->next = m->models->first;
	m->models->first = m;
	if (!gm_model_is_over(m))
		m->models->part.wants_turn = true;
	gm_model_turn(m);
	*ret_model = m;
	return 0;
}

int gpumap_model_load(struct gpumap_session *session,
		      const struct gpumap_model_opts *opts,
		      struct gpumap_model **ret_model)
{
	struct gpumap_model_opts ours;
	struct gpumap *map = gm_part_map(session);
	struct gpumap_model *m;
	int ret = gm_session_begin(session);

	if (ret == 0)
		ret = gm_map_size_in(map, &ours, sizeof(ours), opts);
	if (ret == 0)
		ret = check_opts(map, &ours);
	if (ret == 0)
		ret = check_name(map, &ours);
	if (ret == 0)
		ret = make(session, &m);
	if (ret != 0)
		return ret;
	return give(m, begin(m, &ours), ret_model);
}

int gpumap_model_open(struct gpumap_session *session, const char *name,
		      uint32_t flags, const struct gpumap_fingerprint *expect,
		      struct gpumap_model **ret_model)
{
	struct gpumap_model_opts opts = { .name = name, .share_flags = flags };
	struct gpumap *map = gm_part_map(session);
	struct gpumap_model *m;
	int ret = gm_session_begin(session);

	if (ret == 0 &&
	    (flags & ~(GPUMAP_SHARE_READ_ONLY | GPUMAP_MODEL_MAPPED)) != 0)
		ret = gm_refuse_unknown(map);
	if (ret == 0)
		ret = name != NULL
			      ? check_name(map, &opts)
			      : gm_refuse(map, -EINVAL, "no name is given");
	if (ret == 0)
		ret = make(session, &m);
	if (ret != 0)
		return ret;
	m->name.flags = flags & GPUMAP_SHARE_READ_ONLY;
	m->name.mapped = (flags & GPUMAP_MODEL_MAPPED) != 0;
	memcpy(m->name.text, name, strlen(name) + 1);
	if (expect != NULL)
		ret = gm_share_fingerprint_copy(session, expect,
						&m->name.expect);
	if (ret == 0)
		ret = gm_model_adopt(m);
	return give(m, ret, ret_model);
}

/* ---- progress ------------------------------------------------------------ */

/* Is the model this process's, and not its parent's? */
static bool is_ours(const struct gpumap_model *m)
{
	return m->session == NULL || gm_part_state(m->session) != -EOWNERDEAD;
}

/* Begin a call: no reason of an earlier one is left. */
static void begin_call(const struct gpumap_model *m)
{
	if (m->session != NULL)
		gm_map_refuse(m->map, "");
}

/* Bytes per second, over the samples that are kept. */
static uint64_t rate_of(const struct gpumap_model *m, uint64_t now)
{
	uint32_t n = m->n_looks < GM_MODEL_LOOKS ? m->n_looks : GM_MODEL_LOOKS;
	const struct gm_model_look *first =
		&m->looks[(m->n_looks - n) % GM_MODEL_LOOKS];
	uint64_t ns, bytes;

	if (m->state == GPUMAP_MODEL_LOADED) {
		ns = m->ended_ns - m->begun_ns;
		bytes = m->total;
	} else {
		ns = n > 0 ? now - first->ns : 0;
		bytes = n > 0 ? m->loaded - first->bytes : 0;
	}
	return ns > 0 ? (uint64_t)((double)bytes * 1e9 / (double)ns) : 0;
}

static void put_progress(const struct gpumap_model *m,
			 struct gpumap_model_progress *p)
{
	uint64_t now = m->ended_ns != 0 ? m->ended_ns : gm_now_ns();

	p->state = m->state;
	p->status = m->status;
	p->bytes = m->loaded;
	p->total_bytes = m->total;
	p->elapsed_ns = m->begun_ns != 0 ? now - m->begun_ns : 0;
	p->bytes_per_second = rate_of(m, now);
	p->left_ns = UINT64_MAX;
	if (m->loaded == m->total)
		p->left_ns = 0;
	else if (p->bytes_per_second > 0)
		p->left_ns = (uint64_t)((double)(m->total - m->loaded) * 1e9 /
					(double)p->bytes_per_second);
	p->n_tensors = (uint32_t)m->weights.n;
	p->n_buffers = m->n_buffers;
	p->was_there = m->name.was_there;
	p->share = m->name.share;
}

/* A failed model stores its reason at every call: other requests may have
 * replaced it. */
static int outcome(const struct gpumap_model *m)
{
	if (m->state == GPUMAP_MODEL_LOADED)
		return 1;
	if (m->state == GPUMAP_MODEL_WAITING)
		gm_map_refuse(m->map, m->why.text);
	if (m->state != GPUMAP_MODEL_FAILED)
		return 0;
	if (m->session != NULL)
		gm_map_refuse(m->map, m->why.text);
	return m->status;
}

int gpumap_model_progress(struct gpumap_model *model,
			  struct gpumap_model_progress *ret_progress)
{
	struct gpumap_model_progress progress = { 0 };
	int ret = is_ours(model) ? 0 : -EOWNERDEAD;

	begin_call(model);
	if (ret == 0 && ret_progress != NULL) {
		ret = gm_size_out(ret_progress,
				  offsetof(struct gpumap_model_progress,
					   elapsed_ns));
		if (ret == -EINVAL && model->session != NULL)
			gm_map_size_out(model->map, ret_progress,
					offsetof(struct gpumap_model_progress,
						 elapsed_ns));
	}
	if (ret != 0)
		return ret;
	if (!gm_model_is_over(model)) {
		gm_session_tell_cpu(model->session);
		gm_session_reap(model->session, NULL, 0);
		gm_models_turn(model->models);
	}
	put_progress(model, &progress);
	if (ret_progress != NULL)
		gm_size_put(ret_progress, &progress, sizeof(progress));
	return outcome(model);
}

int gpumap_model_wait(struct gpumap_model *model, uint64_t deadline_ns)
{
	struct gpumap_session *s = model->session;
	bool first = true;
	int ret;

	begin_call(model);
	if (!is_ours(model))
		return -EOWNERDEAD;
	if (!gm_model_is_over(model))
		gm_session_tell_cpu(s);
	for (;;) {
		if (!gm_model_is_over(model)) {
			gm_session_reap(s, NULL, 0);
			gm_models_turn(model->models);
		}
		if (gm_model_is_over(model)) {
			ret = outcome(model);
			return ret == 1 ? 0 : ret;
		}
		ret = gm_model_turn(model);
		if (ret == 0)
			ret = gm_session_idle(s, deadline_ns, first);
		if (ret != 0)
			return ret;
		first = false;
	}
}

/* ---- end ----------------------------------------------------------------- */

int gpumap_model_cancel(struct gpumap_model *model)
{
	begin_call(model);
	if (!is_ours(model))
		return -EOWNERDEAD;
	if (gm_model_is_over(model) || model->state == GPUMAP_MODEL_ENDING)
		return 0;
	gm_reason_set(&model->why, -ECANCELED, "it was cancelled");
	gm_model_fail(model, -ECANCELED);
	gm_models_turn(model->models);
	return 0;
}

int gpumap_model_close(struct gpumap_model *model, uint64_t deadline_ns)
{
	struct gpumap_model **at;
	int ret;

	if (model == NULL)
		return 0;
	if (model->session != NULL && is_ours(model)) {
		/* A loaded model ends like one that is being loaded: a step at
		 * a time. */
		if (model->state == GPUMAP_MODEL_LOADED) {
			model->state = GPUMAP_MODEL_ENDING;
			model->status = -ECANCELED;
			model->models->part.wants_turn = true;
		} else {
			gm_model_fail(model, -ECANCELED);
		}
		ret = gpumap_model_wait(model, deadline_ns);
		if (!gm_model_is_over(model))
			return ret;
	}
	if (model->session != NULL) {
		at = &model->models->first;
		while (*at != model)
			at = &(*at)->next;
		*at = model->next;
		if (is_ours(model))
			gm_models_tell(model->models);
	}
	drop(model);
	return 0;
}

/* ---- tensors ------------------------------------------------------------- */

static int put_tensor(const struct gpumap_model *m, size_t i,
		      struct gpumap_tensor *ret_tensor)
{
	const struct gm_weight *w = &m->weights.v[i];
	const struct gm_model_place *place = &m->places[i];
	struct gpumap_tensor tensor = {
		.name = w->name,
		.type = gm_weights_type(w->type),
		.dtype = gm_weights_dtype(w->type),
		.n_dims = w->n_dims,
		.shape = m->weights.dims + w->shape,
		.row = place->row,
		.layer = place->layer,
		.at = place->at,
		.bytes = w->bytes,
		.part = place->buffer,
	};
	int ret = gm_size_out(ret_tensor, offsetof(struct gpumap_tensor, row));

	if (ret != 0)
		return ret;
	if (m->state == GPUMAP_MODEL_LOADED && place->buffer != UINT32_MAX)
		tensor.buffer = m->buffers[place->buffer].handle;
	if (place->buffer != UINT32_MAX &&
	    m->buffers[place->buffer].memory != NULL)
		tensor.data =
			(char *)m->buffers[place->buffer].memory + place->at;
	gm_size_put(ret_tensor, &tensor, sizeof(tensor));
	return 0;
}

int gpumap_model_find(const struct gpumap_model *model, const char *name,
		      struct gpumap_tensor *ret_tensor)
{
	const struct gm_weight *w;

	if (name == NULL)
		return -EINVAL;
	w = gm_weights_find(&model->weights, name);
	if (w == NULL)
		return -ENOENT;
	return put_tensor(model, (size_t)(w - model->weights.v), ret_tensor);
}

int gpumap_model_next(const struct gpumap_model *model, uint32_t *cursor,
		      struct gpumap_tensor *ret_tensor)
{
	int ret;

	if (*cursor >= model->weights.n)
		return 0;
	ret = put_tensor(model, *cursor, ret_tensor);
	if (ret != 0)
		return ret;
	++*cursor;
	return 1;
}

int gpumap_model_meta(const struct gpumap_model *model,
		      struct gpumap_model_meta *ret_meta)
{
	struct gpumap_model_meta meta = { .format = model->meta.format,
					  .data = model->meta.data,
					  .bytes = model->meta.bytes };
	int ret = gm_size_out(ret_meta, sizeof(meta));

	if (ret != 0)
		return ret;
	/* The description of a share is unmapped with its session. */
	if (meta.bytes == 0 || (model->session == NULL && !model->owns_meta))
		return -ENODATA;
	gm_size_put(ret_meta, &meta, sizeof(meta));
	return 0;
}

uint32_t gpumap_model_buffers(const struct gpumap_model *model,
			      struct gpumap_model_buffer *ret_buffers,
			      uint32_t n)
{
	for (uint32_t i = 0; i < model->n_buffers && i < n; i++) {
		const struct gm_model_buffer *buffer = &model->buffers[i];

		ret_buffers[i] =
			(struct gpumap_model_buffer){ .bytes = buffer->bytes,
						      .row = buffer->row };
		if (model->state == GPUMAP_MODEL_LOADED)
			ret_buffers[i].buffer = buffer->handle;
	}
	return model->n_buffers;
}
