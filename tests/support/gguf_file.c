/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "tests/support/gguf_file.h"

void gguf_put(struct gguf *g, uint64_t value, unsigned int n)
{
	for (; n > 0; n--, value >>= 8)
		g->at[g->n++] = (unsigned char)value;
}

void gguf_text(struct gguf *g, const char *text)
{
	gguf_put(g, strlen(text), 8);
	memcpy(g->at + g->n, text, strlen(text));
	g->n += strlen(text);
}

void gguf_number(struct gguf *g, const char *key, uint64_t value)
{
	gguf_text(g, key);
	gguf_put(g, GGUF_U32, 4);
	gguf_put(g, value, 4);
}

void gguf_begin(struct gguf *g, uint32_t version, uint64_t n_tensors,
		uint64_t n_pairs)
{
	g->n = 0;
	gguf_put(g, 0x46554747, 4);
	gguf_put(g, version, 4);
	gguf_put(g, n_tensors, 8);
	gguf_put(g, n_pairs, 8);
}

void gguf_usual(struct gguf *g)
{
	gguf_text(g, "general.architecture");
	gguf_put(g, GGUF_STRING, 4);
	gguf_text(g, "llama");
	gguf_number(g, "llama.block_count", 2);
	gguf_text(g, "tokenizer.ggml.tokens");
	gguf_put(g, GGUF_LIST, 4);
	gguf_put(g, GGUF_STRING, 4);
	gguf_put(g, 2, 8);
	gguf_text(g, "a");
	gguf_text(g, "");
}

void gguf_entry(struct gguf *g, const struct gguf_tensor *t, uint64_t offset)
{
	gguf_text(g, t->name);
	gguf_put(g, t->n_dims, 4);
	for (uint32_t i = 0; i < t->n_dims; i++)
		gguf_put(g, t->dims[i], 8);
	gguf_put(g, t->type, 4);
	gguf_put(g, offset, 8);
}

uint64_t gguf_pad(uint64_t at, uint64_t alignment)
{
	return (at + alignment - 1) / alignment * alignment;
}

void gguf_tensors(struct gguf *g, const struct gguf_tensor *v, size_t from,
		  size_t end, uint64_t alignment)
{
	uint64_t at = 0;

	for (size_t i = from; i < end; i++) {
		gguf_entry(g, &v[i], at);
		at = gguf_pad(at + v[i].bytes, alignment);
	}
	g->data = gguf_pad(g->n, alignment);
	memset(g->at + g->n, 0, g->data + at - g->n);
	g->n = g->data;
	for (size_t i = from; i < end; i++) {
		load_fill((char *)g->at + g->n, i * SHARD_STEP, v[i].bytes);
		g->n = g->data +
		       gguf_pad(g->n - g->data + v[i].bytes, alignment);
	}
	/* The last is not followed by anything. */
	if (end > from)
		g->n -= gguf_pad(v[end - 1].bytes, alignment) -
			v[end - 1].bytes;
}

void gguf_write(const struct gguf *g, const char *path)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	if (fd < 0 || write(fd, g->at, g->n) != (ssize_t)g->n)
		exit(99);
	close(fd);
}
