/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <gpumap/model.h>

#include "lib/model/checkpoint/checkpoint.h"
#include "lib/private.h"

_Static_assert(sizeof(((struct gpumap_model_sizes *)0)->architecture) ==
		       sizeof(((struct gm_weights_config *)0)->type),
	       "it is copied");

/* The caller's struct, and the memory that it points to. */
struct gm_model_measured {
	struct gpumap_model_sizes seen; /* first */
	struct gm_weights_sizes own;
};

static void show(struct gm_model_measured *m)
{
	const struct gm_weights_config *config = &m->own.config;

	m->seen = (struct gpumap_model_sizes){
		.n_layers = m->own.n_layers,
		.n_files = m->own.n_files,
		.n_tensors = m->own.n_tensors,
		.layer_bytes = m->own.layer_bytes,
		.other_bytes = m->own.other_bytes,
		.tied_bytes = m->own.tied_bytes,
		.total_bytes = m->own.total_bytes,
		.type = gm_weights_type(m->own.type),
		.dtype = gm_weights_dtype(m->own.type),
		.n_heads = config->n_heads,
		.caches = m->own.caches,
		.n_caches = m->own.n_caches,
		.n_extra_layers = config->n_extra,
		.conv_taps = config->conv_taps,
		.state_bytes = config->state_bytes,
	};
	memcpy(m->seen.architecture, config->type, sizeof(config->type));
}

int gpumap_model_measure(const char *path,
			 struct gpumap_model_sizes **ret_sizes)
{
	struct gm_model_measured *m;
	struct gm_reason why;
	int ret;

	if (path == NULL || path[0] == '\0')
		return gm_refuse(NULL, -EINVAL,
				 "no path: give the directory of a checkpoint");
	m = calloc(1, sizeof(*m));
	if (m == NULL)
		return gm_refuse_memory(NULL, sizeof(*m));
	ret = gm_weights_measure(path, NULL, &why, &m->own);
	if (ret == 0) {
		show(m);
		*ret_sizes = &m->seen;
		return gm_refuse_plain(NULL, 0);
	}
	free(m);
	return why.text[0] != '\0' ? gm_refuse(NULL, ret, "%s", why.text)
				   : gm_refuse_plain(NULL, ret);
}

void gpumap_model_sizes_free(struct gpumap_model_sizes *sizes)
{
	if (sizes == NULL)
		return;
	gm_weights_sizes_free(&((struct gm_model_measured *)sizes)->own);
	free(sizes);
}
