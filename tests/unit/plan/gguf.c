/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* gguf: a small model written byte by byte, and what may be wrong with it. */

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/plan/checkpoint.h"
#include "agent/plan/gguf.h"
#include "tests/support/tap.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define U32      4u
#define STRING   8u
#define LIST     9u

/* A file while it is written. */
static unsigned char bytes[8192];
static size_t n_bytes, data_start;

static void put(uint64_t value, unsigned int n)
{
	for (; n > 0; n--, value >>= 8)
		bytes[n_bytes++] = (unsigned char)value;
}

static void put_string(const char *s)
{
	put(strlen(s), 8);
	memcpy(bytes + n_bytes, s, strlen(s));
	n_bytes += strlen(s);
}

static void put_number(const char *key, uint32_t value)
{
	put_string(key);
	put(U32, 4);
	put(value, 4);
}

static void put_tensor(const char *name, uint64_t d0, uint64_t d1,
		       uint32_t type, uint64_t offset)
{
	put_string(name);
	put(2, 4);
	put(d0, 8);
	put(d1, 8);
	put(type, 4);
	put(offset, 8);
}

static void put_data(uint64_t n)
{
	data_start = (n_bytes + 31) / 32 * 32;
	memset(bytes + n_bytes, 0, data_start + n - n_bytes);
	n_bytes = data_start + n;
}

static void put_start(uint32_t version, uint64_t n_tensors, uint64_t n_pairs)
{
	n_bytes = 0;
	put(0x46554747, 4);
	put(version, 4);
	put(n_tensors, 8);
	put(n_pairs, 8);
}

/* Two layers of Q4_0 and F32, 18 * 8 and 4 * 3 bytes, and an embedding. */
static void put_model(uint32_t version)
{
	put_start(version, 5, 8);
	put_number("llama.attention.head_count", 8); /* before it is named */
	put_string("general.architecture");
	put(STRING, 4);
	put_string("llama");
	put_number("llama.block_count", 2);
	put_number("llama.embedding_length", 64);
	put_number("llama.attention.head_count_kv", 2);
	put_number("other.block_count", 9);
	put_string("tokenizer.ggml.tokens");
	put(LIST, 4);
	put(STRING, 4);
	put(2, 8);
	put_string("a");
	put_string("");
	put_string("lists");
	put(LIST, 4);
	put(LIST, 4);
	put(1, 8);
	put(U32, 4);
	put(2, 8);
	put(7, 8);
	put_tensor("token_embd.weight", 2, 5, 1, 0);
	put_tensor("blk.0.attn_q.weight", 32, 8, 2, 32);
	put_tensor("blk.0.attn_norm.weight", 3, 1, 0, 192);
	put_tensor("blk.1.attn_q.weight", 32, 8, 2, 224);
	put_tensor("blk.1.attn_norm.weight", 3, 1, 0, 384);
	put_data(396);
}

/* The header from the first @n bytes of a file that has @rest more. */
static int take(size_t n, size_t rest, struct gm_tensors *t,
		struct gm_model_config *config, struct gm_plan_error *err)
{
	return gm_gguf_header(&(struct gm_file_header){ "m.gguf", bytes, n,
							rest },
			      t, config, NULL, err);
}

static int check(struct gm_model_config *config, struct gm_plan_error *err)
{
	struct gm_tensors t = { 0 };
	int r = take(n_bytes, 0, &t, config, err);

	gm_safetensors_free(&t);
	return r;
}

static void a_model_is_read(void)
{
	for (uint32_t version = 2; version <= 3; version++) {
		struct gm_model_config c = { 0 };
		struct gm_tensors t = { 0 };

		put_model(version);
		EQ(take(n_bytes, 0, &t, &c, NULL), 0);
		EQ(t.n, 5);
		STR(t.v[1].name, "blk.0.attn_q.weight");
		EQ(t.v[1].begin, 32);
		EQ(t.v[1].bytes, 8 * 18);
		STR(gm_gguf_type(t.v[1].dtype), "Q4_0");
		EQ(c.n_layers, 2);
		EQ(c.n_heads, 8);
		OK(c.has_kv);
		EQ(c.kv.n_heads, 2);
		EQ(c.kv.k_dim, 8);
		EQ(c.kv.v_dim, 8);
		STR(c.type, "llama");
		gm_safetensors_free(&t);
	}
}

static void a_part_asks_for_more_and_a_short_file_is_refused(void)
{
	int again = 0, truncated = 0;

	put_model(3);
	for (size_t n = 0; n < n_bytes; n++) {
		struct gm_model_config c;
		struct gm_tensors t = { 0 };
		int r = take(n, n_bytes - n, &t, &c, NULL);

		again += r == -EAGAIN || r == 0;
		gm_safetensors_free(&t);
		r = take(n, 0, &t, &c, NULL);
		truncated += r == -ENODATA;
		gm_safetensors_free(&t);
	}
	EQ(again, n_bytes);
	EQ(truncated, n_bytes);
}

static void a_checkpoint_may_be_one_file(void)
{
	char path[] = "/tmp/gpumap-test-gguf.XXXXXX";
	struct gm_checkpoint ckpt = { 0 };
	struct gm_plan_error err = { 0 };
	int fd = mkstemp(path);

	put_model(3);
	if (!OK(fd >= 0 && write(fd, bytes, n_bytes) == (ssize_t)n_bytes))
		return;
	if (EQ(gm_checkpoint_read(path, &ckpt, &err), 0)) {
		EQ(ckpt.n_layers, 2);
		EQ(ckpt.layer_bytes[0], 18 * 8 + 12);
		EQ(ckpt.layer_bytes[1], 18 * 8 + 12);
		EQ(ckpt.non_mapped_bytes, 20);
		EQ(ckpt.total_bytes, 2 * (18 * 8 + 12) + 20);
		EQ(ckpt.n_shards, 1);
		STR(ckpt.dtype, "Q4_0");
		EQ(ckpt.config.kv.n_heads, 2);
		gm_checkpoint_free(&ckpt);
	}
	/* A file that is no model. */
	EQ(ftruncate(fd, 0), 0);
	EQ(gm_checkpoint_read(path, &ckpt, &err), -ENODATA);
	close(fd);
	unlink(path);
}

/* A file of one tensor. */
static int with_tensor(uint64_t d0, uint64_t d1, uint32_t type, uint64_t offset,
		       uint64_t data, struct gm_plan_error *err)
{
	struct gm_model_config c;

	put_start(3, 1, 0);
	put_tensor("blk.0.x", d0, d1, type, offset);
	put_data(data);
	return check(&c, err);
}

static void tensors_that_cannot_be_are_refused(void)
{
	static const struct {
		uint64_t d0, d1;
		uint32_t type;
		uint64_t offset, data;
		int r;
		const char *error;
	} table[] = {
		{ 32, 2, 2, 0, 36, 0, "" },
		{ 0, 2, 0, 0, 0, 0, "" },
		{ 33, 2, 2, 0, 99, -EINVAL, "rows end within a block" },
		{ 32, 2, 2, 32, 99, -EINVAL, "a gap is before it" },
		{ 32, 2, 2, 7, 99, -EINVAL, "a gap is before it" },
		{ 32, 2, 2, 0, 35, -ENODATA, "the file ends before it" },
		{ 1, 1, 4, 0, 99, -EINVAL, "unknown type 4" },
		{ 1, 1, 40, 0, 99, -EINVAL, "unknown type 40" },
		{ UINT64_MAX, 1, 0, 0, 9, -EOVERFLOW, "2^64 or more" },
		{ 1 << 30, UINT64_C(1) << 33, 0, 0, 9, -EOVERFLOW, "2^64" },
		{ 32, UINT64_MAX / 18 + 1, 2, 0, 9, -EOVERFLOW, "2^64" },
	};

	for (size_t i = 0; i < COUNT(table); i++) {
		struct gm_plan_error err = { 0 };

		EQ(with_tensor(table[i].d0, table[i].d1, table[i].type,
			       table[i].offset, table[i].data, &err),
		   table[i].r);
		if (!OK(strstr(err.text, table[i].error) != NULL))
			NOTE("%s", err.text);
	}
}

static void headers_that_cannot_be_are_refused(void)
{
	struct gm_plan_error err = { 0 };
	struct gm_model_config c = { .n_layers = 7 };

	put_model(1);
	EQ(check(&c, &err), -EINVAL);
	put_model(0x03000000);
	EQ(check(&c, &err), -EINVAL);
	OK(strstr(err.text, "the other way round") != NULL);
	put_model(3);
	bytes[0] = 'g';
	EQ(check(&c, &err), -EINVAL);
	STR(err.text, "m.gguf is not a GGUF file");
	put_start(3, UINT64_MAX, 0);
	EQ(check(&c, &err), -E2BIG);
	put_start(3, 0, UINT64_MAX);
	EQ(check(&c, &err), -ENODATA);
	put_start(3, 0, 1);
	put_number("general.alignment", 24);
	put_data(0);
	EQ(check(&c, &err), -EINVAL);
	put_start(3, 0, 1);
	put_number("split.count", 5);
	put_data(0);
	EQ(check(&c, &err), -EINVAL);
	STR(err.text, "m.gguf is one of 5 files of a model");
	put_start(3, 0, 1);
	put_string("k");
	put(LIST, 4);
	for (int i = 0; i < 9; i++) { /* lists in lists */
		put(LIST, 4);
		put(1, 8);
	}
	EQ(check(&c, &err), -EINVAL);
	put_start(3, 0, 1);
	put_string("k");
	put(LIST, 4);
	put(U32, 4);
	put(UINT64_MAX / 4 + 1, 8); /* times four it would be none */
	EQ(check(&c, &err), -ENODATA);
	put_start(3, 2, 0);
	put_tensor("twice", 1, 1, 0, 0);
	put_tensor("twice", 1, 1, 0, 32);
	put_data(36);
	EQ(check(&c, &err), -EINVAL);
	OK(strstr(err.text, "it is there twice") != NULL);
	EQ(c.n_layers, 7);
}

/* ---- split into files ---------------------------------------------------- */

static char parts_dir[128];

static void part_path(char path[192], unsigned int part, unsigned int n)
{
	snprintf(path, 192, "%s/m-%05u-of-%05u.gguf", parts_dir, part, n);
}

/* Part @part of three, the numbers in it @no and @count. */
static void write_part(unsigned int part, uint32_t no, uint32_t count,
		       const char *tensor)
{
	char path[192];
	FILE *file;

	put_start(3, 1, part == 1 ? 5 : 3);
	put_number("split.no", no);
	put_number("split.count", count);
	put_number("split.tensors.count", 3);
	if (part == 1) {
		put_string("general.architecture");
		put(STRING, 4);
		put_string("llama");
		put_number("llama.block_count", 2);
	}
	put_tensor(tensor, 2, 5, 0, 0);
	put_data(40);
	part_path(path, part, 3);
	file = fopen(path, "we");
	OK(file && fwrite(bytes, 1, n_bytes, file) == n_bytes);
	if (file)
		fclose(file);
}

static void write_parts(void)
{
	write_part(1, 0, 3, "blk.0.w");
	write_part(2, 1, 3, "blk.1.w");
	write_part(3, 2, 3, "output.w");
}

static int read_parts(unsigned int part, struct gm_plan_error *err)
{
	struct gm_checkpoint model = { 0 };
	char path[192];
	int r;

	part_path(path, part, 3);
	r = gm_checkpoint_read(path, &model, err);
	if (r)
		return r;
	EQ(model.n_layers, 2);
	EQ(model.n_shards, 3);
	EQ(model.n_tensors, 3);
	EQ(model.layer_bytes[1], 40);
	EQ(model.non_mapped_bytes, 40);
	EQ(model.total_bytes, 120);
	STR(model.config.type, "llama");
	gm_checkpoint_free(&model);
	return 0;
}

static void a_model_may_be_split(void)
{
	struct gm_plan_error err = { 0 };
	char path[192], other[192];

	snprintf(parts_dir, sizeof(parts_dir), "/tmp/gpumap-test-gguf.%ld",
		 (long)getpid());
	EQ(mkdir(parts_dir, 0700), 0);
	write_parts();
	EQ(read_parts(1, &err), 0);
	EQ(read_parts(3, &err), 0); /* whichever is named */
	write_part(2, 1, 3, "blk.0.w");
	EQ(read_parts(1, &err), -EINVAL);
	OK(strstr(err.text, "tensor blk.0.w is in ") != NULL);
	write_part(2, 1, 4, "blk.1.w");
	EQ(read_parts(1, &err), -EINVAL);
	OK(strstr(err.text, "00002-of-00003.gguf says that it is file 2 of "
			    "4") != NULL);
	write_part(2, 2, 3, "blk.1.w");
	EQ(read_parts(1, &err), -EINVAL);
	OK(strstr(err.text, "says that it is file 3 of 3") != NULL);
	write_part(2, 3, 3, "blk.1.w");
	EQ(read_parts(1, &err), -EINVAL);
	OK(strstr(err.text, "the number of a file that cannot be") != NULL);
	write_part(1, 0, 5000, "blk.0.w");
	EQ(read_parts(1, &err), -E2BIG);
	write_parts();
	part_path(path, 2, 3);
	EQ(unlink(path), 0);
	EQ(read_parts(1, &err), -ENOENT);
	OK(strstr(err.text, "m-00002-of-00003.gguf: No such file") != NULL);
	STR(err.remedy, "fetch the model's missing files");
	part_path(path, 1, 3);
	part_path(other, 1, 4);
	EQ(rename(path, other), 0);
	EQ(gm_checkpoint_read(other, &(struct gm_checkpoint){ 0 }, &err),
	   -EINVAL);
	OK(strstr(err.text, "does not end in -00001-of-00003.gguf") != NULL);
	unlink(other);
	part_path(path, 3, 3);
	unlink(path);
	EQ(rmdir(parts_dir), 0);
}

TAP_CASE()
{
	a_model_may_be_split();
	a_model_is_read();
	a_part_asks_for_more_and_a_short_file_is_refused();
	a_checkpoint_may_be_one_file();
	tensors_that_cannot_be_are_refused();
	headers_that_cannot_be_are_refused();
	return tap_done();
}
