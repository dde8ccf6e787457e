/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include <string.h>

#include "lib/model/checkpoint/checkpoint.h"

/* FNV-1a, 64 bits: it tells files apart, and nothing trusts it. */
#define START UINT64_C(0xcbf29ce484222325)
#define PRIME UINT64_C(0x00000100000001b3)

static uint64_t mix(uint64_t hash, const void *bytes, size_t n)
{
	const unsigned char *at = bytes;

	for (size_t i = 0; i < n; i++)
		hash = (hash ^ at[i]) * PRIME;
	return hash;
}

static uint64_t mix_number(uint64_t hash, uint64_t n)
{
	return mix(hash, &n, sizeof(n));
}

static uint64_t mix_text(uint64_t hash, const char *text)
{
	return mix(hash, text, strlen(text) + 1);
}

static uint64_t mix_files(const struct gm_weights *weights)
{
	uint64_t hash = START;

	for (uint32_t i = 0; i < weights->n_files; i++) {
		const struct gm_weight_file *file = &weights->files[i];

		hash = mix_text(hash, file->name);
		hash = mix_number(hash, (uint64_t)file->stat.st_size);
		hash = mix_number(hash, (uint64_t)file->stat.st_mtim.tv_sec);
		hash = mix_number(hash, (uint64_t)file->stat.st_mtim.tv_nsec);
	}
	return hash;
}

uint64_t gm_fingerprint_files(const struct gm_weights *weights)
{
	return weights->is_file && weights->n_files > 1 ? 0
							: mix_files(weights);
}

uint64_t gm_fingerprint_weights(const struct gm_weights *weights)
{
	uint64_t hash = mix_files(weights);

	for (size_t i = 0; i < weights->n; i++) {
		const struct gm_weight *w = &weights->v[i];

		hash = mix_text(hash, w->name);
		hash = mix_text(hash, gm_weights_type(w->type));
		hash = mix_number(hash, w->file);
		hash = mix_number(hash, w->begin);
		hash = mix_number(hash, w->bytes);
	}
	return hash;
}
