/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * gguf_file.h - GGUF files whose every byte is known, right or wrong.
 *
 * As in shards.h tensor i begins where load_byte() is at i * SHARD_STEP.
 */
#ifndef GM_TEST_SUPPORT_GGUF_FILE_H
#define GM_TEST_SUPPORT_GGUF_FILE_H

#include "tests/support/shards.h"

enum gguf_value { GGUF_U32 = 4, GGUF_STRING = 8, GGUF_LIST = 9, GGUF_U64 = 10 };

struct gguf_tensor {
	const char *name;
	uint32_t type;
	uint32_t n_dims;
	uint64_t dims[4]; /* the first varies fastest */
	uint64_t bytes;
};

/* A file while it is written. */
struct gguf {
	unsigned char at[8 << 20];
	size_t n;
	size_t data; /* where it begins */
};

void gguf_put(struct gguf *g, uint64_t value, unsigned int n);
void gguf_text(struct gguf *g, const char *text);
void gguf_number(struct gguf *g, const char *key, uint64_t value);
void gguf_begin(struct gguf *g, uint32_t version, uint64_t n_tensors,
		uint64_t n_pairs);

/* Three pairs, as there are before what a file says of its own. */
void gguf_usual(struct gguf *g);
void gguf_entry(struct gguf *g, const struct gguf_tensor *t, uint64_t offset);
uint64_t gguf_pad(uint64_t at, uint64_t alignment);

/* Entries of tensors @from to @end - 1 of @v, and their bytes. */
void gguf_tensors(struct gguf *g, const struct gguf_tensor *v, size_t from,
		  size_t end, uint64_t alignment);
void gguf_write(const struct gguf *g, const char *path);

#endif
