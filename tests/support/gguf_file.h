/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* gguf_file.h - write GGUF files, right or wrong, value by value. */
#ifndef GM_TEST_SUPPORT_GGUF_FILE_H
#define GM_TEST_SUPPORT_GGUF_FILE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum gguf_value { GGUF_U32 = 4, GGUF_STRING = 8, GGUF_LIST = 9, GGUF_U64 = 10 };

/* A file while it is written. */
struct gguf {
	unsigned char at[8 << 20];
	size_t n;
	size_t data; /* where it begins */
};

static inline void gguf_put(struct gguf *g, uint64_t value, unsigned int n)
{
	for (; n > 0; n--, value >>= 8)
		g->at[g->n++] = (unsigned char)value;
}

static inline void gguf_text(struct gguf *g, const char *text)
{
	gguf_put(g, strlen(text), 8);
	memcpy(g->at + g->n, text, strlen(text));
	g->n += strlen(text);
}

static inline void gguf_number(struct gguf *g, const char *key, uint64_t value)
{
	gguf_text(g, key);
	gguf_put(g, GGUF_U32, 4);
	gguf_put(g, value, 4);
}

static inline void gguf_begin(struct gguf *g, uint32_t version,
			      uint64_t n_tensors, uint64_t n_pairs)
{
	g->n = 0;
	gguf_put(g, 0x46554747, 4);
	gguf_put(g, version, 4);
	gguf_put(g, n_tensors, 8);
	gguf_put(g, n_pairs, 8);
}

#endif
