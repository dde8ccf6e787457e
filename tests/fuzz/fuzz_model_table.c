/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * A share's own description of its model, as another process has written it:
 * the bytes of the table, for a share of two buffers.
 */

#include "tests/fuzz/fuzz.h"

#include <errno.h>
#include <string.h>

#include <gpumap/model.h>

#include "lib/model/table.h"

static void check_tensor(const struct gpumap_model *m, size_t i)
{
	const struct gm_model_place *p = &m->places[i];
	const struct gm_weight *w = &m->weights.v[i];

	MUST(w->name >= m->names);
	MUST(w->shape + w->n_dims <= m->weights.n_dims);
	MUST(gm_weights_type(w->type) != NULL);
	MUST(gm_weights_find(&m->weights, w->name) == w);
	if (p->buffer == UINT32_MAX)
		return;
	MUST(p->buffer < m->n_buffers && p->row == m->buffers[p->buffer].row);
	MUST(w->bytes <= m->buffers[p->buffer].bytes &&
	     p->at <= m->buffers[p->buffer].bytes - w->bytes);
}

/* A table that was read can be written; names that lay one inside the other may
 * be too many then. */
static void check_again(struct gpumap_model *m, const uint8_t *data)
{
	uint64_t bytes;
	void *table;
	int ret = gm_model_table_make(m, &table, &bytes);

	if (ret == -E2BIG)
		return;
	MUST(ret == 0 && bytes >= sizeof(struct gm_model_table));
	MUST(memcmp(table, data, offsetof(struct gm_model_table, n_dims)) == 0);
	free(table);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct gm_model_buffer buffers[] = { { .bytes = 100, .row = 0 },
					     { .bytes = 280, .row = 1 } };
	struct gpumap_model m = { .buffers = buffers, .n_buffers = 2 };
	int ret = gm_model_table_read(&m, data, size);

	MUST(ret == 0 || ret == -EINVAL || ret == -EPROTO);
	if (ret != 0)
		MUST(m.why.text[0] != '\0');
	for (size_t i = 0; ret == 0 && i < m.weights.n; i++)
		check_tensor(&m, i);
	if (ret == 0)
		check_again(&m, data);
	gm_weights_free(&m.weights);
	free(m.names);
	free(m.places);
	return 0;
}
