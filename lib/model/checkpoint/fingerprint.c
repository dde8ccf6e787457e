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

static uint64_t mix_time(uint64_t hash, const struct timespec *time)
{
	hash = mix_number(hash, (uint64_t)time->tv_sec);
	return mix_number(hash, (uint64_t)time->tv_nsec);
}

/* The sum of the files is the same in any order: of a split GGUF file the one
 * that was asked for comes first. */
static uint64_t sum_files(const struct gm_weights *weights, bool by_inode)
{
	uint64_t sum = START;

	for (uint32_t i = 0; i < weights->n_files; i++) {
		const struct gm_weight_file *file = &weights->files[i];
		const struct stat *stat = &file->stat;
		uint64_t hash = mix_text(START, file->name);

		hash = mix_number(hash, (uint64_t)stat->st_size);
		hash = mix_time(hash, &stat->st_mtim);
		if (by_inode) {
			hash = mix_number(hash, stat->st_dev);
			hash = mix_number(hash, stat->st_ino);
			hash = mix_time(hash, &stat->st_ctim);
		}
		sum += hash;
	}
	return sum;
}

uint64_t gm_fingerprint_files(const struct gm_weights *weights)
{
	return weights->is_file && weights->n_files > 1
		       ? 0
		       : sum_files(weights, true);
}

uint64_t gm_fingerprint_weights(const struct gm_weights *weights)
{
	uint64_t hash = sum_files(weights, false);

	for (size_t i = 0; i < weights->n; i++) {
		const struct gm_weight *w = &weights->v[i];

		hash = mix_text(hash, w->name);
		hash = mix_text(hash, gm_weights_type(w->type));
		/* Those of a share's table name none. */
		if (w->file < weights->n_files)
			hash = mix_text(hash, weights->files[w->file].name);
		hash = mix_number(hash, w->begin);
		hash = mix_number(hash, w->bytes);
	}
	return hash;
}
