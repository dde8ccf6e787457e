/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "lib/model/checkpoint/checkpoint.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lib/model/checkpoint/json_scan.h"

#define NAME  GM_WEIGHTS_INDEX_NAME
#define AGAIN "; fetch " NAME " again"

static int bad_json(struct gm_weights *ws)
{
	return gm_reason_set(ws->why, -EINVAL,
			     "%s" NAME " is not the JSON that it should "
			     "be" AGAIN,
			     gm_reason_path(ws->folder));
}

/* Does the name denote a file in the folder itself? */
static bool is_plain(const char *name)
{
	return name[0] != '\0' && strchr(name, '/') == NULL &&
	       strcmp(name, ".") != 0 && strcmp(name, "..") != 0;
}

static int read_map(struct gm_weights *ws, struct gm_scan *scan,
		    struct gm_weights_index *index)
{
	char *tensor, *file;
	int ret;

	index->n = 0; /* the last map counts, and a tensor's last file */
	if (!gm_json_scan_enter(scan, '{'))
		return bad_json(ws);
	while ((ret = gm_json_scan_key(scan, &tensor)) == 1) {
		struct gm_indexed *v;

		if (!gm_json_scan_string(scan, &file) || !is_plain(file))
			return gm_reason_set(ws->why, -EINVAL,
					     "%s" NAME ": the file of tensor "
					     "%.60s is not the name of one "
					     "beside the index" AGAIN,
					     gm_reason_path(ws->folder),
					     tensor);
		if (index->n == GM_WEIGHTS_TENSORS)
			return gm_reason_set(ws->why, -E2BIG,
					     "%s" NAME " names more than %u "
					     "tensors; is this a model?",
					     gm_reason_path(ws->folder),
					     GM_WEIGHTS_TENSORS);
		v = gm_weights_grow(index->v, index->n, &index->room,
				    sizeof(*v));
		if (v == NULL)
			return -ENOMEM;
		index->v = v;
		v[index->n++] = (struct gm_indexed){ tensor, file };
	}
	return ret == 0 ? 0 : bad_json(ws);
}

static int read_all(struct gm_weights *ws, struct gm_scan *scan,
		    struct gm_weights_index *index)
{
	char *key;
	int ret;

	if (!gm_json_scan_enter(scan, '{'))
		return bad_json(ws);
	while ((ret = gm_json_scan_key(scan, &key)) == 1) {
		if (strcmp(key, "weight_map") == 0)
			ret = read_map(ws, scan, index);
		else
			ret = gm_json_scan_skip(scan) ? 0 : bad_json(ws);
		if (ret != 0)
			return ret;
	}
	if (ret != 0 || !gm_json_scan_at_end(scan))
		return bad_json(ws);
	if (index->n == 0)
		return gm_reason_set(ws->why, -EINVAL,
				     "%s" NAME ": it names no tensor" AGAIN,
				     gm_reason_path(ws->folder));
	return 0;
}

static int by_file(const void *a, const void *b)
{
	const struct gm_indexed *x = a, *y = b;

	return strcmp(x->file, y->file);
}

int gm_weights_index_read(struct gm_weights *weights, char *text, size_t n,
			  struct gm_weights_index *ret_index)
{
	struct gm_scan scan = gm_scan_begin(text, n);
	struct gm_weights_index index = { .text = text };
	int ret;

	scan.python = true;
	ret = read_all(weights, &scan, &index);
	if (ret == 0)
		index.n = gm_weights_keep_last(index.v, index.n,
					       sizeof(index.v[0]));
	if (ret == 0)
		qsort(index.v, index.n, sizeof(index.v[0]), by_file);
	for (size_t i = 0; ret == 0 && i < index.n; i++)
		if (i == 0 || by_file(&index.v[i - 1], &index.v[i]) != 0)
			ret = gm_weights_add_file(weights, index.v[i].file);
	if (ret == 0)
		*ret_index = index;
	else
		gm_weights_index_free(&index);
	return ret;
}

int gm_weights_index_check(struct gm_weights *weights,
			   const struct gm_weights_index *index)
{
	for (size_t i = 0; i < index->n; i++) {
		const struct gm_weight *w =
			gm_weights_find(weights, index->v[i].tensor);

		if (w == NULL ||
		    strcmp(weights->files[w->file].name, index->v[i].file) != 0)
			return gm_reason_set(weights->why, -EINVAL,
					     "%.100s: tensor %.60s, which the "
					     "index says is in it, is not; "
					     "fetch it and " NAME " again",
					     index->v[i].file,
					     index->v[i].tensor);
	}
	return 0;
}

void gm_weights_index_free(struct gm_weights_index *index)
{
	free(index->text);
	free(index->v);
	*index = (struct gm_weights_index){ 0 };
}
