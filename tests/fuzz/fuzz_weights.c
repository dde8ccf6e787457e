/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Model files as the library reads them: headers, beside the agent's own reader
 * of the same bytes, the places of their tensors, and indexes.
 *
 *	bytes 0-1	bytes of data after the header, little-endian
 *	byte 2		layers of the map that it is placed by
 *	byte 3		ignored
 *	then		the header's JSON, or the index's
 *
 * Inputs of fuzz_safetensors are inputs of this.
 */

#include "tests/fuzz/fuzz.h"

#include <errno.h>
#include <string.h>

#include "agent/plan/safetensors.h"
#include "lib/model.h"

#define HEAD  4
#define BEGIN 1000u /* of the data, in its file */

static char *copy_of(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 1);

	MUST(text != NULL);
	if (size > 0)
		memcpy(text, data, size);
	return text;
}

static void read_header(struct gm_weights *ws, const uint8_t *data, size_t size,
			int *ret_error)
{
	uint64_t bytes = data[0] | (uint64_t)data[1] << 8;

	MUST(gm_weights_add_file(ws, "input") == 0);
	ws->files[0].header = copy_of(data + HEAD, size - HEAD);
	*ret_error = gm_weights_header(ws, 0, ws->files[0].header, size - HEAD,
				       BEGIN, bytes);
	if (*ret_error != 0)
		MUST(ws->why->text[0] != '\0');
}

static const struct gm_tensor *named(const struct gm_tensors *list,
				     const char *name)
{
	for (size_t i = 0; i < list->n; i++)
		if (strcmp(list->v[i].name, name) == 0)
			return &list->v[i];
	return NULL;
}

/* The library accepts every header that the agent's reader accepts, with the
 * same result; but for NULs behind a number, which jansson does not see. */
static void compare(const struct gm_weights *ws, int error, const uint8_t *data,
		    size_t size)
{
	uint64_t bytes = data[0] | (uint64_t)data[1] << 8;
	struct gm_plan_error err = { 0 };
	struct gm_tensors list = { 0 };

	if (memchr(data + HEAD, '\0', size - HEAD) != NULL)
		return;
	if (gm_safetensors_header(
		    &(struct gm_file_header){ "input", data + HEAD, size - HEAD,
					      bytes },
		    0, &list, &err) == 0) {
		MUST(error == 0 && ws->n == list.n);
		for (size_t i = 0; i < ws->n; i++) {
			const struct gm_weight *w = &ws->v[i];
			const struct gm_tensor *t = named(&list, w->name);

			MUST(t && t->begin + BEGIN == w->begin &&
			     t->bytes == w->bytes);
			MUST(strcmp(gm_safetensors_dtype(t->dtype),
				    gm_weights_type(w->type)) == 0);
		}
	}
	gm_safetensors_free(&list);
}

/* Every byte is read once, to where nothing else is. */
static void check_runs(const struct gpumap_model *m)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < m->n_lanes; i++) {
		const struct gm_model_lane *lane = &m->lanes[i];
		uint64_t end = 0, bytes = 0;

		MUST(i == 0 || lane->row > m->lanes[i - 1].row);
		for (size_t j = lane->run; j < lane->end_run; j++) {
			const struct gm_model_run *run = &m->runs[j];

			if (j > lane->run && run->buffer != run[-1].buffer)
				end = 0;
			MUST(run->buffer >= lane->buffer &&
			     run->buffer < lane->end_buffer);
			MUST(run->to >= end && run->to % GM_MODEL_ALIGN == 0);
			end = run->to + run->bytes;
			MUST(end <= m->buffers[run->buffer].bytes);
			bytes += run->bytes;
		}
		MUST(bytes == lane->bytes);
		sum += bytes;
	}
	MUST(sum == m->total);
}

static void place(struct gm_weights *ws, uint32_t n_layers)
{
	uint32_t rows[256];
	uint64_t bytes[256] = { 0 };
	const struct gm_model_plan plan = { .name = n_layers ? "map" : NULL,
					    .rows = rows,
					    .bytes = bytes,
					    .n_layers = n_layers };
	struct gpumap_model *m = calloc(1, sizeof(*m));
	int ret;

	MUST(m != NULL);
	for (uint32_t i = 0; i < 256; i++)
		rows[i] = i % 3;
	m->weights = *ws;
	ret = gm_model_place(m, &plan);
	MUST(ret == 0 || (ret == -EINVAL && m->why.text[0] != '\0'));
	if (ret == 0)
		check_runs(m);
	free(m->places);
	free(m->files);
	free(m->runs);
	free(m->buffers);
	free(m->lanes);
	free(m);
}

static void read_index(const uint8_t *data, size_t size)
{
	struct gm_reason why = { "" };
	struct gm_weights ws = { .why = &why, .folder = copy_of(NULL, 0) };
	struct gm_weights_index index = { 0 };
	int ret;

	ws.folder[0] = '\0';
	ret = gm_weights_index_read(&ws, copy_of(data, size), size, &index);
	if (ret == 0) {
		MUST(index.n > 0 && ws.n_files > 0 && ws.n_files <= index.n);
		MUST(gm_weights_index_check(&ws, &index) == -EINVAL);
	} else {
		MUST(why.text[0] != '\0');
	}
	gm_weights_index_free(&index);
	gm_weights_free(&ws);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct gm_reason why = { "" };
	struct gm_weights ws = { .why = &why };
	int error;

	if (size < HEAD)
		return 0;
	read_header(&ws, data, size, &error);
	compare(&ws, error, data, size);
	if (error == 0)
		place(&ws, data[2]);
	gm_weights_free(&ws);
	read_index(data + HEAD, size - HEAD);
	return 0;
}
