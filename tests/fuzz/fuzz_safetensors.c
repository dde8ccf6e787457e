/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Headers of safetensors files, the layers found in them, and the places of
 * their tensors.
 *
 *	bytes 0-1	bytes of data after the header, little-endian
 *	byte 2		layers that the metadata say, 0 if they do not; and of
 *			the map that the model is placed by
 *	byte 3		layers past them
 *	then		the header's JSON
 *
 * The length in front of a header is checked apart, or every second mutation
 * would only break it.
 */

#include <gpumap/model.h>

#include "tests/fuzz/fuzz_checkpoint.h"

#include "lib/model/model.h"

#define HEAD  4
#define BEGIN 1000u /* of the data, in its file */

static void check_length(struct gm_weights *ws, const uint8_t *data,
			 size_t size)
{
	uint64_t bytes;
	int ret;

	if (size < GM_WEIGHTS_LENGTH)
		return;
	ret = gm_weights_length(ws, "input", data, size, &bytes);
	if (ret != 0)
		check_refusal(ret, ws);
	else
		MUST(bytes <= size - GM_WEIGHTS_LENGTH &&
		     bytes <= GM_WEIGHTS_HEADER);
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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct gm_reason why;
	struct gm_weights ws = no_weights(&why);
	struct gm_weights_config config = { .n_layers = 0 };
	uint64_t data_bytes, at = BEGIN;
	int ret;

	check_length(&ws, data, size);
	MUST(gm_weights_add_file(&ws, "input") == 0);
	if (size < HEAD) {
		gm_weights_free(&ws);
		return 0;
	}
	data_bytes = data[0] | (uint64_t)data[1] << 8;
	config.n_layers = data[2];
	config.n_extra = data[2] != 0 ? data[3] : 0;
	ws.files[0].header = copy_of(data + HEAD, size - HEAD);
	ret = gm_weights_header(&ws, 0, ws.files[0].header, size - HEAD, BEGIN,
				data_bytes);
	if (ret != 0)
		check_refusal(ret, &ws);
	if (ret == 0)
		gm_weights_keep_names(&ws, 0, 0);
	for (size_t i = 0; i < ws.n; i++) {
		MUST(ws.v[i].begin == at && ws.v[i].file == 0);
		MUST(gm_weights_bits(ws.v[i].type) != 0);
		at += ws.v[i].bytes;
	}
	if (ret == 0) {
		MUST(at == BEGIN + data_bytes);
		check_layers(&ws, data_bytes, &config);
		place(&ws, data[2]);
	}
	gm_weights_free(&ws);
	return 0;
}
