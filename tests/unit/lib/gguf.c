/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* gguf: a small model written byte by byte, and what may be wrong with it. */

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gpumap.h"
#include "gpumap/model.h"
#include "lib/model/checkpoint/checkpoint.h"
#include "tests/support/gguf_file.h"
#include "tests/support/tap.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static struct gguf out;

static void put_tensor(const char *name, uint64_t d0, uint64_t d1,
		       uint32_t type, uint64_t offset)
{
	gguf_text(&out, name);
	gguf_put(&out, 2, 4);
	gguf_put(&out, d0, 8);
	gguf_put(&out, d1, 8);
	gguf_put(&out, type, 4);
	gguf_put(&out, offset, 8);
}

static void put_data(uint64_t n)
{
	out.data = (out.n + 31) / 32 * 32;
	memset(out.at + out.n, 0, out.data + n - out.n);
	out.n = out.data + n;
}

/* Two layers of Q4_0 and F32, 18 * 8 and 4 * 3 bytes, and an embedding. */
static void put_model(uint32_t version)
{
	gguf_begin(&out, version, 5, 8);
	/* The architecture is named later. */
	gguf_number(&out, "llama.attention.head_count", 8);
	gguf_text(&out, "general.architecture");
	gguf_put(&out, GGUF_STRING, 4);
	gguf_text(&out, "llama");
	gguf_number(&out, "llama.block_count", 2);
	gguf_number(&out, "llama.embedding_length", 64);
	gguf_number(&out, "llama.attention.head_count_kv", 2);
	gguf_number(&out, "other.block_count", 9);
	gguf_text(&out, "tokenizer.ggml.tokens");
	gguf_put(&out, GGUF_LIST, 4);
	gguf_put(&out, GGUF_STRING, 4);
	gguf_put(&out, 2, 8);
	gguf_text(&out, "a");
	gguf_text(&out, "");
	gguf_text(&out, "lists");
	gguf_put(&out, GGUF_LIST, 4);
	gguf_put(&out, GGUF_LIST, 4);
	gguf_put(&out, 1, 8);
	gguf_put(&out, GGUF_U32, 4);
	gguf_put(&out, 2, 8);
	gguf_put(&out, 7, 8);
	put_tensor("token_embd.weight", 2, 5, 1, 0);
	put_tensor("blk.0.attn_q.weight", 32, 8, 2, 32);
	put_tensor("blk.0.attn_norm.weight", 3, 1, 0, 192);
	put_tensor("blk.1.attn_q.weight", 32, 8, 2, 224);
	put_tensor("blk.1.attn_norm.weight", 3, 1, 0, 384);
	put_data(396);
}

static struct gm_reason why;
static struct gm_weights ws = { .why = &why };
static struct gm_weights_config config;

/* Read the header from the first @n bytes of a file that has @rest more, and
 * the facts in it. */
static int take(size_t n, size_t rest)
{
	struct gm_weights_split split;
	int ret = gm_weights_add_file(&ws, "m.gguf");
	struct gm_weight_file *file = ws.files;

	if (!OK(ret == 0 && (file->header = malloc(n + 1)) != NULL))
		exit(1);
	memcpy(file->header, out.at, n);
	ret = gm_weights_gguf_header(&ws, 0, file->header, n, n + rest, &split);
	if (ret == 0) {
		const struct gm_weights_meta meta = {
			.data = out.at,
			.bytes = file->pairs_end,
			.format = GPUMAP_META_GGUF
		};

		gm_weights_keep_names(&ws, 0, 0);
		ret = gm_weights_config_read(&meta, &why, &config);
	}
	return ret;
}

static void forget(void)
{
	gm_weights_free(&ws);
	ws.why = &why;
}

static int check(void)
{
	int ret = take(out.n, 0);

	OK(ret == 0 || ws.n == 0);
	forget();
	return ret;
}

static void says(const char *what)
{
	if (!OK(strstr(why.text, what) != NULL))
		NOTE("it says: %s", why.text);
}

/* The converter writes it for Llama 4's architecture without windows. */
static void a_window_of_0_is_none(void)
{
	for (uint64_t window = 0; window < 2; window++) {
		gguf_begin(&out, 3, 0, 1 + (window == 0));
		gguf_text(&out, "general.architecture");
		gguf_put(&out, GGUF_STRING, 4);
		gguf_text(&out, "llama4");
		if (window == 0)
			gguf_number(&out, "llama4.attention.sliding_window", 0);
		put_data(0);
		EQ(take(out.n, 0), 0);
		EQ(config.window, window == 0 ? 0 : 8192);
		EQ(config.kinds[0] == GM_LAYER_WINDOW, window != 0);
		forget();
	}
}

static void a_model_is_read(void)
{
	for (uint32_t version = 2; version <= 3; version++) {
		const struct gm_weight *w;

		put_model(version);
		EQ(take(out.n, 0), 0);
		EQ(ws.n, 5);
		w = &ws.v[1];
		STR(w->name, "blk.0.attn_q.weight");
		EQ(w->begin, out.data + 32);
		EQ(w->bytes, 8 * 18);
		EQ(w->n_dims, 2);
		OK(ws.dims[w->shape] == 8 && ws.dims[w->shape + 1] == 32);
		STR(gm_weights_type(w->type), "Q4_0");
		EQ(config.n_layers, 2);
		EQ(config.n_heads, 8);
		EQ(config.n_kv_heads, 2);
		EQ(config.k_dim, 8);
		EQ(config.v_dim, 8);
		STR(config.type, "llama");
		forget();
	}
}

static void a_part_asks_for_more_and_a_short_file_is_refused(void)
{
	int again = 0, truncated = 0;

	put_model(3);
	for (size_t n = 0; n < out.n; n++) {
		int r = take(n, out.n - n);

		again += r == -EAGAIN || r == 0;
		forget();
		truncated += take(n, 0) == -ENODATA;
		forget();
	}
	EQ(again, out.n);
	EQ(truncated, out.n);
}

static void write_file(const char *path)
{
	FILE *file = fopen(path, "we");

	OK(file && fwrite(out.at, 1, out.n, file) == out.n);
	if (file)
		fclose(file);
}

static int measure(const char *path, struct gm_weights_sizes *ret_sizes)
{
	return gm_weights_measure(path, NULL, &why, ret_sizes);
}

static void a_checkpoint_may_be_one_file(void)
{
	char path[] = "/tmp/gpumap-test-gguf.XXXXXX";
	struct gm_weights_sizes sizes = { 0 };
	int fd = mkstemp(path);

	put_model(3);
	write_file(path);
	if (EQ(measure(path, &sizes), 0)) {
		EQ(sizes.n_layers, 2);
		EQ(sizes.layer_bytes[0], 18 * 8 + 12);
		EQ(sizes.layer_bytes[1], 18 * 8 + 12);
		EQ(sizes.other_bytes, 20);
		EQ(sizes.total_bytes, 2 * (18 * 8 + 12) + 20);
		EQ(sizes.n_files, 1);
		STR(gm_weights_type(sizes.type), "Q4_0");
		EQ(sizes.config.n_kv_heads, 2);
		gm_weights_sizes_free(&sizes);
	}
	gguf_begin(&out, 3, 1, 0);
	put_tensor("output.w", 2, 5, 0, 0);
	put_data(40);
	write_file(path);
	EQ(measure(path, &sizes), -EINVAL);
	OK(strncmp(why.text, "gpumap-test-gguf.", 17) == 0);
	says(": no tensor's name has the number of a layer; ");
	/* A file that is no model. */
	EQ(ftruncate(fd, 0), 0);
	EQ(measure(path, &sizes), -ENODATA);
	close(fd);
	unlink(path);
}

/* Three blocks, the last of which predicts more tokens, of a file of some
 * type. */
static int with_type(const char *type, struct gm_weights_sizes *ret_sizes)
{
	char path[] = "/tmp/gpumap-test-gguf.XXXXXX";
	int fd = mkstemp(path), ret;

	gguf_begin(&out, 3, 3, 4);
	gguf_text(&out, "general.architecture");
	gguf_put(&out, GGUF_STRING, 4);
	gguf_text(&out, "glm4moe");
	gguf_text(&out, "general.type");
	gguf_put(&out, GGUF_STRING, 4);
	gguf_text(&out, type);
	gguf_number(&out, "glm4moe.block_count", 3);
	gguf_number(&out, "glm4moe.nextn_predict_layers", 1);
	put_tensor("blk.0.x", 4, 2, 0, 0);
	put_tensor("blk.1.x", 4, 2, 0, 32);
	put_tensor("blk.2.x", 4, 2, 0, 64);
	put_data(96);
	write_file(path);
	ret = measure(path, ret_sizes);
	close(fd);
	unlink(path);
	return ret;
}

static void blocks_that_predict_more_tokens_are_no_layers(void)
{
	struct gm_weights_sizes sizes = { 0 };

	if (EQ(with_type("model", &sizes), 0)) {
		EQ(sizes.n_layers, 2);
		EQ(sizes.config.n_extra, 1);
		EQ(sizes.other_bytes, 32);
		gm_weights_sizes_free(&sizes);
	}
	EQ(with_type("mmproj", &sizes), -EINVAL);
	says("general.type is \"mmproj\", and no language model");
}

/* A header, with a vocabulary in it, may be longer than the first read. */
static void headers_may_be_long(void)
{
	static unsigned char zeros[4096];
	char path[] = "/tmp/gpumap-test-gguf.XXXXXX";
	struct gm_weights_sizes sizes = { 0 };
	int fd = mkstemp(path), pieces = 0;
	FILE *file = fdopen(fd, "w");

	gguf_begin(&out, 3, 1, 1);
	gguf_text(&out, "tokenizer.ggml.scores");
	gguf_put(&out, GGUF_LIST, 4);
	gguf_put(&out, 0, 4); /* bytes */
	gguf_put(&out, 7 << 20, 8);
	OK(fwrite(out.at, 1, out.n, file) == out.n);
	for (; pieces < (7 << 20) / (int)sizeof(zeros); pieces++)
		fwrite(zeros, 1, sizeof(zeros), file);
	out.n = 0;
	put_tensor("blk.0.x", 4, 1, 0, 0);
	gguf_put(&out, 0, 8); /* as much as aligns it at most, and 16 bytes */
	OK(fwrite(out.at, 1, out.n, file) == out.n);
	fwrite(zeros, 1, 64, file);
	fclose(file);
	EQ(measure(path, &sizes), 0);
	EQ(sizes.total_bytes, 16);
	gm_weights_sizes_free(&sizes);
	unlink(path);
}

/* A file of a tensor of 12 bytes, and of another behind it. */
static int with_tensor(uint64_t d0, uint64_t d1, uint32_t type, uint64_t offset,
		       uint64_t data)
{
	gguf_begin(&out, 3, 2, 0);
	put_tensor("blk.0.y", 3, 1, 0, 0);
	put_tensor("blk.0.x", d0, d1, type, offset);
	put_data(32 + data);
	return check();
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
		{ 32, 2, 2, 32, 36, 0, "" },
		{ 0, 2, 0, 32, 0, 0, "" },
		{ 64, 1, 40, 32, 36, 0, "" }, /* NVFP4, Q1_0 */
		{ 128, 1, 41, 32, 18, 0, "" },
		{ 33, 2, 2, 32, 99, -EINVAL, "rows end within a block" },
		{ 32, 2, 2, 64, 99, -EINVAL, "blk.0.x: there is a gap before" },
		{ 32, 2, 2, 33, 99, -EINVAL, "there is a gap before it" },
		{ 32, 2, 2, 8, 99, -EINVAL, "blk.0.x: it overlaps another" },
		{ 32, 2, 2, UINT64_MAX, 99, -EINVAL, "there is a gap before" },
		{ 32, 2, 2, 32, 35, -ENODATA, "it ends inside blk.0.x" },
		/* of types that are not known, which have no blocks */
		{ 1, 1, 4, 32, 99, 0, "" },
		{ 33, 1, 42, 32, 99, 0, "" },
		{ UINT64_MAX, UINT64_MAX, UINT32_MAX, 32, 99, 0, "" },
		{ 1, 1, 42, 0, 0, -EINVAL, "blk.0.x: it overlaps another" },
		{ 1, 1, 42, 64, 99, -EINVAL, "there is a gap before it" },
		{ 1, 1, 42, 32, 0, -ENODATA, "it ends inside blk.0.x" },
		{ UINT64_MAX, 1, 0, 32, 9, -EINVAL, "2^64 bytes or more" },
		{ 1 << 30, UINT64_C(1) << 33, 0, 32, 9, -EINVAL, "2^64" },
		{ 32, UINT64_MAX / 18 + 1, 2, 32, 9, -EINVAL, "2^64" },
	};

	for (size_t i = 0; i < COUNT(table); i++) {
		if (!EQ(with_tensor(table[i].d0, table[i].d1, table[i].type,
				    table[i].offset, table[i].data),
			table[i].r))
			NOTE("case %zu", i);
		says(table[i].error);
	}
}

/* A file of one F32 tensor of @n_dims dimensions of 1. */
static int with_name(const char *name, size_t n, uint32_t n_dims)
{
	gguf_begin(&out, 3, 1, 0);
	gguf_put(&out, n, 8);
	memcpy(out.at + out.n, name, n);
	out.n += n;
	gguf_put(&out, n_dims, 4);
	for (uint32_t i = 0; i < n_dims; i++)
		gguf_put(&out, 1, 8);
	gguf_put(&out, 0, 4);
	gguf_put(&out, 0, 8);
	put_data(4);
	return check();
}

/* Its bytes are those up to the next tensor, or to the file's end. */
static void a_type_may_be_newer_than_this_library(void)
{
	gguf_begin(&out, 3, 3, 0);
	put_tensor("blk.0.x", 5, 7, 77, 0);
	put_tensor("blk.0.z", 5, 7, 78, 96);
	put_tensor("blk.0.y", 1, 1, 0, 64);
	put_data(96 + 33);
	EQ(take(out.n, 0), 0);
	if (EQ(ws.n, 3)) {
		STR(gm_weights_type(ws.v[0].type), "OTHER");
		EQ(gm_weights_dtype(ws.v[0].type), GPUMAP_DTYPE_U8);
		EQ(ws.v[0].bytes, 64);
		EQ(ws.v[1].bytes, 4);
		STR(ws.v[2].name, "blk.0.z");
		EQ(ws.v[2].begin, out.data + 96);
		EQ(ws.v[2].bytes, 33);
	}
	forget();
}

/* As the format's own library has them; but no name here has a NUL. */
static void names_and_shapes_are_of_many_kinds(void)
{
	static char name[2000];

	memset(name, 'x', sizeof(name));
	EQ(with_name("", 0, 0), 0);
	EQ(with_name(name, sizeof(name), 5), 0);
	EQ(with_name("\xff", 1, 64), 0);
	EQ(with_name("a\0b", 3, 1), -EINVAL);
	says("a tensor's name or shape is none");
	EQ(with_name("a", 1, 65), -EINVAL);
	says("a tensor's name or shape is none");
}

/* A file of one F32 tensor with an alignment of its own. */
static int with_alignment(uint32_t alignment, size_t gap)
{
	gguf_begin(&out, 3, 1, 1);
	gguf_number(&out, "general.alignment", alignment);
	put_tensor("blk.0.x", 1, 1, 0, 0);
	memset(out.at + out.n, 0, gap + 4);
	out.n += gap + 4;
	return check();
}

static void lists_in_lists(int depth)
{
	gguf_begin(&out, 3, 0, 1);
	gguf_text(&out, "k");
	gguf_put(&out, GGUF_LIST, 4);
	for (int i = 1; i < depth; i++) {
		gguf_put(&out, GGUF_LIST, 4);
		gguf_put(&out, 1, 8);
	}
	gguf_put(&out, GGUF_U32, 4);
	gguf_put(&out, 0, 8);
}

static void headers_that_cannot_be_are_refused(void)
{
	put_model(1);
	EQ(check(), -EOPNOTSUPP);
	put_model(0x03000000);
	EQ(check(), -EOPNOTSUPP);
	says("the other way round; convert it to version 3, little-endian");
	put_model(3);
	out.at[0] = 'g';
	EQ(check(), -EINVAL);
	says("m.gguf is not a GGUF file");
	gguf_begin(&out, 3, UINT64_MAX, 0);
	EQ(check(), -E2BIG);
	says("18446744073709551615 tensors, more than a model can have");
	gguf_begin(&out, 3, 0, UINT64_MAX);
	EQ(check(), -ENODATA);
	EQ(with_alignment(1, 0), 0);
	EQ(with_alignment(4096, 4096), 0);
	EQ(with_alignment(1u << 31, 0), -ENODATA);
	EQ(with_alignment(24, 24), -EINVAL);
	EQ(with_alignment(0, 32), -EINVAL);
	says("its alignment is no power of two");
	gguf_begin(&out, 3, 0, 1);
	gguf_text(&out, "x");
	gguf_put(&out, 13, 4);
	EQ(check(), -EINVAL);
	says("its metadata has a type that is none");
	lists_in_lists(200);
	EQ(check(), 0);
	gguf_begin(&out, 3, 0, 1);
	gguf_text(&out, "k");
	gguf_put(&out, GGUF_LIST, 4);
	gguf_put(&out, 13, 4);
	gguf_put(&out, 0, 8);
	EQ(check(), 0);
	out.at[out.n - 8] = 1;
	EQ(check(), -EINVAL);
	says("a list in its metadata is none");
	gguf_begin(&out, 3, 0, 1);
	gguf_text(&out, "k");
	gguf_put(&out, GGUF_LIST, 4);
	gguf_put(&out, GGUF_U32, 4);
	gguf_put(&out, UINT64_MAX / 4 + 1, 8); /* times four it would be none */
	EQ(check(), -ENODATA);
	gguf_begin(&out, 3, 0, 2);
	gguf_text(&out, "general.architecture");
	gguf_put(&out, GGUF_STRING, 4);
	gguf_text(&out, "llama");
	gguf_number(&out, "llama.block_count", 65537);
	config.n_layers = 7;
	EQ(check(), -EINVAL);
	says("numbers that cannot be");
	EQ(config.n_layers, 7);
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

	gguf_begin(&out, 3, 1, part == 1 ? 5 : 3);
	gguf_number(&out, "split.no", no);
	gguf_number(&out, "split.count", count);
	gguf_number(&out, "split.tensors.count", 3);
	if (part == 1) {
		gguf_text(&out, "general.architecture");
		gguf_put(&out, GGUF_STRING, 4);
		gguf_text(&out, "llama");
		gguf_number(&out, "llama.block_count", 2);
	}
	put_tensor(tensor, 2, 5, 0, 0);
	put_data(40);
	part_path(path, part, 3);
	write_file(path);
}

static void write_parts(void)
{
	write_part(1, 0, 3, "blk.0.w");
	write_part(2, 1, 3, "blk.1.w");
	write_part(3, 2, 3, "output.w");
}

static int read_parts(unsigned int part)
{
	struct gm_weights_sizes model = { 0 };
	char path[192];
	int r;

	part_path(path, part, 3);
	r = measure(path, &model);
	if (r)
		return r;
	EQ(model.n_layers, 2);
	EQ(model.n_files, 3);
	EQ(model.n_tensors, 3);
	EQ(model.layer_bytes[1], 80); /* with the head */
	EQ(model.other_bytes, 0);
	EQ(model.total_bytes, 120);
	STR(model.config.type, "llama");
	gm_weights_sizes_free(&model);
	return 0;
}

static void a_model_may_be_split(void)
{
	char path[192], other[192];

	snprintf(parts_dir, sizeof(parts_dir), "/tmp/gpumap-test-gguf.%ld",
		 (long)getpid());
	EQ(mkdir(parts_dir, 0700), 0);
	write_parts();
	EQ(read_parts(1), 0);
	EQ(read_parts(3), 0); /* whichever is named */
	write_part(2, 1, 3, "blk.0.w");
	EQ(read_parts(1), -EINVAL);
	says("tensor blk.0.w is in ");
	write_part(2, 1, 4, "blk.1.w");
	EQ(read_parts(1), -EINVAL);
	says("00002-of-00003.gguf says that it is file 2 of 4");
	write_part(2, 2, 3, "blk.1.w");
	EQ(read_parts(1), -EINVAL);
	says("says that it is file 3 of 3");
	write_part(1, 3, 3, "blk.0.w");
	EQ(read_parts(1), -EINVAL);
	says("says that it is file 4 of 3");
	write_part(1, 0, 5000, "blk.0.w");
	EQ(read_parts(1), -E2BIG);
	write_parts();
	write_part(3, 2, 3, "output.w");
	part_path(path, 3, 3);
	memcpy(out.at, "version ", 8);
	write_file(path);
	EQ(read_parts(1), -EINVAL);
	says("is not a GGUF file, as the others of the model are");
	write_parts();
	part_path(path, 2, 3);
	EQ(unlink(path), 0);
	EQ(read_parts(1), -ENOENT);
	says("m-00002-of-00003.gguf: No such file or directory; fetch the "
	     "missing file");
	part_path(path, 1, 3);
	part_path(other, 1, 4);
	EQ(rename(path, other), 0);
	EQ(measure(other, &(struct gm_weights_sizes){ 0 }), -EINVAL);
	says("does not end in -00001-of-00003.gguf");
	unlink(other);
	part_path(path, 3, 3);
	unlink(path);
	EQ(rmdir(parts_dir), 0);
}

TAP_CASE()
{
	a_model_may_be_split();
	a_model_is_read();
	a_window_of_0_is_none();
	a_part_asks_for_more_and_a_short_file_is_refused();
	a_checkpoint_may_be_one_file();
	blocks_that_predict_more_tokens_are_no_layers();
	headers_may_be_long();
	tensors_that_cannot_be_are_refused();
	a_type_may_be_newer_than_this_library();
	names_and_shapes_are_of_many_kinds();
	headers_that_cannot_be_are_refused();
	return tap_done();
}
