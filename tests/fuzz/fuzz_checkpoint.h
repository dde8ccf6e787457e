/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* fuzz_checkpoint.h - what holds of every answer of lib/model/checkpoint. */
#ifndef FUZZ_CHECKPOINT_H
#define FUZZ_CHECKPOINT_H

#include <errno.h>
#include <string.h>

#include "lib/model/checkpoint/checkpoint.h"
#include "tests/fuzz/fuzz.h"

/* A copy of exactly so many bytes, which the reader may change. */
static inline char *copy_of(const uint8_t *data, size_t size)
{
	char *text = malloc(size);

	MUST(text != NULL || size == 0);
	if (size > 0)
		memcpy(text, data, size);
	return text;
}

/* Weights of no file yet. */
static inline struct gm_weights no_weights(struct gm_reason *why)
{
	struct gm_weights ws = { .why = why, .folder = calloc(1, 1) };

	why->text[0] = '\0';
	MUST(ws.folder != NULL);
	return ws;
}

/* An error has a sentence that can be printed, and nothing has been added. */
static inline void check_refusal(int ret, const struct gm_weights *ws)
{
	MUST(ret < 0 && ws->n == 0 && ws->n_dims == 0);
	MUST(ret == -EAGAIN || ws->why->text[0] != '\0');
	for (const char *s = ws->why->text; *s; s++)
		MUST((unsigned char)*s >= ' ' && *s != 0x7f);
}

/* The layers among the tensors of a file with @bytes of them. */
static inline void check_layers(const struct gm_weights *ws, uint64_t bytes,
				const struct gm_weights_config *config)
{
	struct gm_weights_sizes sizes = { .config = *config };
	uint64_t sum = 0;

	if (gm_weights_measure_layers(ws, &sizes) != 0) {
		MUST(ws->why->text[0] != '\0' && sizes.layer_bytes == NULL);
		return;
	}
	MUST(sizes.n_layers > 0);
	MUST(config->n_layers == 0 || sizes.n_layers == config->n_layers);
	for (uint32_t i = 0; i < sizes.n_layers; i++)
		sum += sizes.layer_bytes[i];
	MUST(sum <= bytes);
	gm_weights_sizes_free(&sizes);
}

#endif
