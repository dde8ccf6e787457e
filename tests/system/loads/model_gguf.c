/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Checks the loading of GGUF files: the blocks of each tensor, byte by byte, on
 * the row of its layer, by name for other sessions, from one file and from
 * several.  Also checks that damaged files are refused, each for a reason that
 * the refusal names.
 */

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gpumap.h"
#include "gpumap/model.h"
#include "tests/support/gguf_file.h"
#include "tests/support/shards.h"
#include "tests/support/story_rows.h"

/* ---- a file -------------------------------------------------------------- */

/* Every byte is known, right or wrong: as in shards.h tensor i begins where
 * load_byte() is at i * SHARD_STEP. */

struct gguf_tensor {
	const char *name;
	uint32_t type;
	uint32_t n_dims;
	uint64_t dims[4]; /* the first varies fastest */
	uint64_t bytes;
};

/* Three pairs, as there are before what a file says of its own. */
static void gguf_usual(struct gguf *g)
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

static void gguf_entry(struct gguf *g, const struct gguf_tensor *t,
		       uint64_t offset)
{
	gguf_text(g, t->name);
	gguf_put(g, t->n_dims, 4);
	for (uint32_t i = 0; i < t->n_dims; i++)
		gguf_put(g, t->dims[i], 8);
	gguf_put(g, t->type, 4);
	gguf_put(g, offset, 8);
}

static uint64_t gguf_pad(uint64_t at, uint64_t alignment)
{
	return (at + alignment - 1) / alignment * alignment;
}

/* Entries of tensors @from to @end - 1 of @v, and their bytes. */
static void gguf_tensors(struct gguf *g, const struct gguf_tensor *v,
			 size_t from, size_t end, uint64_t alignment)
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

static void gguf_write(const struct gguf *g, const char *path)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	if (fd < 0 || write(fd, g->at, g->n) != (ssize_t)g->n)
		exit(99);
	close(fd);
}

static struct agent agent;
static struct gpumap *map;
static size_t pairs_end; /* of the file that was written last */
static struct gguf file;
static char one[64], parts[2][64]; /* paths of the files */

/* Types: F32 0, F16 1, Q4_0 2 (18 bytes of 32 elements), Q8_0 8 (34 of 32),
 * Q4_K 12 (144 of 256). */
static const struct gguf_tensor tensors[] = {
	{ "token_embd.weight", 1, 2, { 32, 100 }, 6400 },
	{ "blk.0.attn_q.weight", 2, 2, { 64, 33 }, 1188 },
	{ "blk.0.attn_norm.weight", 0, 1, { 65 }, 260 },
	{ "blk.0.ffn_down.weight", 12, 3, { 256, 5, 2 }, 1440 },
	{ "blk.1.attn_q.weight", 8, 2, { 32, 1 }, 34 },
	{ "blk.1.empty", 0, 2, { 0, 7 }, 0 },
	{ "blk.1.scalar", 0, 0, { 0 }, 4 },
	{ "output_norm.weight", 0, 1, { 3 }, 12 },
};

#define N     (sizeof(tensors) / sizeof(tensors[0]))
#define FIRST 3u /* tensors of the first of two files */

static struct gpumap_session *session_open(void)
{
	struct gpumap_session_opts opts = { .size = sizeof(opts),
					    .arena_bytes = MIB };
	struct gpumap_session *session = NULL;

	if (!EQ(gpumap_session_open(map, &opts, &session), 0))
		NOTE("%s", gpumap_refusal(map));
	return session;
}

/* Write all tensors to one file. */
static void write_one(uint32_t version, uint64_t alignment)
{
	gguf_begin(&file, version, N, alignment == 32 ? 3 : 4);
	gguf_usual(&file);
	if (alignment != 32)
		gguf_number(&file, "general.alignment", alignment);
	pairs_end = file.n;
	gguf_tensors(&file, tensors, 0, N, alignment);
	gguf_write(&file, one);
}

/* Write one of two files, with some of the tensors.  The file says that it is
 * number @number. */
static void write_part(uint32_t part, uint32_t number, uint32_t n_tensors)
{
	size_t from = part ? FIRST : 0, end = part ? N : FIRST;

	gguf_begin(&file, 3, end - from, 6);
	gguf_usual(&file);
	gguf_number(&file, "split.no", number);
	gguf_number(&file, "split.count", 2);
	gguf_number(&file, "split.tensors.count", n_tensors);
	gguf_tensors(&file, tensors, from, end, 32);
	gguf_write(&file, parts[part]);
}

/* The metadata are the file's first bytes, up to the tensors. */
static void has_pairs(const struct gpumap_model *model)
{
	struct gpumap_model_meta meta = { .size = sizeof(meta) };

	EQ(gpumap_model_meta(model, &meta), 0);
	EQ(meta.format, GPUMAP_META_GGUF);
	EQ(meta.bytes, pairs_end);
	OK(meta.bytes == pairs_end &&
	   memcmp(meta.data, file.at, pairs_end) == 0);
}

static int begin(struct gpumap_session *session, const char *path,
		 const char *name, struct gpumap_model **ret_model)
{
	struct gpumap_model_opts opts = {
		.size = sizeof(opts),
		.path = path,
		.layers = "two",
		.name = name,
		.share_flags = name ? GPUMAP_SHARE_READ_ONLY : 0
	};

	return gpumap_model_load(session, &opts, ret_model);
}

static bool bytes_are_right(struct gpumap_session *session, size_t i,
			    const struct gpumap_tensor *t)
{
	struct gpumap_job job = { .op = GPUMAP_OP_COPY,
				  .n = t->bytes,
				  .src_buffer = t->buffer,
				  .src_at = t->at };
	void *memory = NULL;
	bool right;

	if (gpumap_alloc(session, t->row, t->bytes, &memory) != 0)
		exit(99);
	job.dst = memory;
	right = EQ(story_run(session, t->row, &job), 0) &&
		load_matches(memory, i * SHARD_STEP, t->bytes);
	gpumap_free(session, memory);
	return right;
}

static void is_right(struct gpumap_session *session, struct gpumap_model *model)
{
	static const char *const types[] = { "F16",  "Q4_0", "F32", "Q4_K",
					     "Q8_0", "F32",  "F32", "F32" };
	static const uint32_t rows[] = { 0, 0, 0, 0, 1, 1, 1, 1 };
	static const int32_t layers[] = { -1, 0, 0, 0, 1, 1, 1, -1 };

	for (size_t i = 0; i < N; i++) {
		struct gpumap_tensor t = { .size = sizeof(t) };
		uint32_t n = tensors[i].n_dims;

		if (!EQ(gpumap_model_find(model, tensors[i].name, &t), 0))
			continue;
		STR(t.type, types[i]);
		EQ(t.dtype, i == 0                         ? GPUMAP_DTYPE_F16
			    : strcmp(types[i], "F32") == 0 ? GPUMAP_DTYPE_F32
							   : GPUMAP_DTYPE_U8);
		EQ(t.row, rows[i]);
		EQ(t.layer, layers[i]);
		EQ(t.bytes, tensors[i].bytes);
		EQ(t.n_dims, n);
		for (uint32_t d = 0; d < n; d++)
			EQ(t.shape[d], tensors[i].dims[n - 1 - d]);
		if (t.bytes > 0)
			OK(bytes_are_right(session, i, &t));
	}
}

/* Load a model from beginning to end, and check it. */
static void loads(const char *path)
{
	struct gpumap_session *session = session_open();
	struct gpumap_model *model = NULL;

	if (!EQ(begin(session, path, NULL, &model), 0) ||
	    !EQ(gpumap_model_wait(model, story_now() + STORY_LIMIT_NS), 0))
		NOTE("%s", gpumap_refusal(map));
	else
		is_right(session, model);
	EQ(gpumap_model_close(model, GPUMAP_NO_DEADLINE), 0);
	gpumap_session_close(session);
	OK(shards_taken(map, 0));
}

static void one_file_has_all(void)
{
	write_one(3, 32);
	loads(one);
	write_one(2, 4096);
	loads(one);
	write_one(3, 1);
	loads(one);
}

/* The header, with a long tokenizer, may be longer than the first read. */
static void headers_may_be_long(void)
{
	gguf_begin(&file, 3, N, 4);
	gguf_usual(&file);
	gguf_text(&file, "tokenizer.ggml.scores");
	gguf_put(&file, GGUF_LIST, 4);
	gguf_put(&file, 0, 4); /* type of the elements: bytes */
	gguf_put(&file, 5 * MIB, 8);
	memset(file.at + file.n, 0xff, 5 * MIB);
	file.n += 5 * MIB;
	gguf_tensors(&file, tensors, 0, N, 32);
	gguf_write(&file, one);
	loads(one);
}

static void any_of_several_stands_for_all(void)
{
	write_part(0, 0, N);
	write_part(1, 1, N);
	loads(parts[0]);
	loads(parts[1]);
}

/* A model that is opened by its name has its types and shapes. */
static void others_have_it_by_its_name(void)
{
	struct gpumap_session *first = session_open(), *other = session_open();
	struct gpumap_model *model = NULL, *found = NULL;

	write_one(3, 32);
	EQ(begin(first, one, "blocks", &model), 0);
	EQ(gpumap_model_wait(model, story_now() + STORY_LIMIT_NS), 0);
	if (EQ(gpumap_model_open(other, "blocks", GPUMAP_SHARE_READ_ONLY, NULL,
				 &found),
	       0))
		is_right(other, found);
	has_pairs(model);
	has_pairs(found);
	EQ(gpumap_model_close(found, GPUMAP_NO_DEADLINE), 0);
	EQ(gpumap_model_close(model, GPUMAP_NO_DEADLINE), 0);
	gpumap_session_close(other);
	gpumap_session_close(first);
	OK(shards_taken(map, 0));
}

/* Whichever of its files is named. */
static void any_of_several_finds_it(void)
{
	struct gpumap_session *first = session_open(), *other = session_open();
	struct gpumap_model *model = NULL, *found = NULL;

	write_part(0, 0, N);
	write_part(1, 1, N);
	for (int i = 0; i < 2; i++) {
		EQ(begin(first, parts[i], "parts", &model), 0);
		EQ(gpumap_model_wait(model, story_now() + STORY_LIMIT_NS), 0);
		if (EQ(begin(other, parts[1 - i], "parts", &found), 0))
			is_right(other, found);
		EQ(gpumap_model_close(found, GPUMAP_NO_DEADLINE), 0);
		EQ(gpumap_model_close(model, GPUMAP_NO_DEADLINE), 0);
	}
	gpumap_session_close(other);
	gpumap_session_close(first);
	OK(shards_taken(map, 0));
}

/* Returns gpumapctl's exit status with these words. */
static int ctl(const char *words)
{
	const char *gpumapctl = getenv("GPUMAPCTL");
	char command[1024];
	int status;

	snprintf(command, sizeof(command),
		 "'%s' --runtime-dir '%s' --instance '%s' %s >/dev/null",
		 gpumapctl ? gpumapctl : "gpumapctl", agent.dir, agent.instance,
		 words);
	status = system(command);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* A map is made for the file, and then the file is loaded with it. */
static void what_was_planned_for_it_loads(void)
{
	char words[256];

	write_part(0, 0, N);
	write_part(1, 1, N);
	snprintf(words, sizeof(words),
		 "plan --model %s --commit planned --kv-elements 8", parts[0]);
	EQ(ctl(words), 0);
	snprintf(words, sizeof(words), "load planned --model %s --once",
		 parts[1]);
	EQ(ctl(words), 0);
	EQ(ctl("release planned"), 0);
	OK(shards_taken(map, 0));
}

/* ---- damage -------------------------------------------------------------- */

static struct gpumap_session *asking;

static void refuse(const char *path, int error, const char *what)
{
	struct gpumap_model *model = NULL;

	EQ(begin(asking, path, NULL, &model), error);
	if (!OK(strstr(gpumap_refusal(map), what) != NULL))
		NOTE("it says: %s", gpumap_refusal(map));
	if (model)
		gpumap_model_close(model, GPUMAP_NO_DEADLINE);
}

static void files_that_end_early_are_named(void)
{
	size_t all;

	write_one(3, 32);
	all = file.n;
	for (size_t n = all - 1; n > file.data; n -= n > all / 2 ? 7 : 100) {
		file.n = n;
		gguf_write(&file, one);
		refuse(one, -ENODATA, "is truncated: it ends inside");
		if (n < file.data + 200)
			break;
	}
	for (size_t n = 0; n < file.data; n += 41) {
		file.n = n;
		gguf_write(&file, one);
		refuse(one, -ENODATA,
		       "is truncated: it ends inside its header");
	}
}

/* Which files are right tests/unit/lib knows.  Here a few are wrong. */
static void files_that_are_wrong_are_named(void)
{
	struct gguf_tensor t = { "blk.3.x", 2, 2, { 32, 4 }, 72 };

	gguf_begin(&file, 3, 2, 3);
	gguf_usual(&file);
	gguf_entry(&file, &tensors[2], 0);
	gguf_entry(&file, &t, 288);
	memset(file.at + file.n, 0, 4096);
	file.n = gguf_pad(file.n, 32) + 2048;
	gguf_write(&file, one);
	refuse(one, -EINVAL, "has 2 layers, the model 4");
	write_one(3, 32);
	file.at[4] = 1;
	gguf_write(&file, one);
	refuse(one, -EOPNOTSUPP, "convert it to version 3, little-endian");
	write_part(0, 0, N + 1);
	write_part(1, 1, N);
	refuse(parts[0], -EINVAL, "the model has 9 tensors, its files 8");
}

static void what_is_damaged_is_refused(void)
{
	asking = session_open();
	files_that_end_early_are_named();
	files_that_are_wrong_are_named();
	OK(shards_taken(map, 0));
	gpumap_session_close(asking);
	/* After the refusals the session's user can load a good file. */
	one_file_has_all();
}

TAP_CASE()
{
	snprintf(one, sizeof(one), "agent-gguf.%d", (int)getpid());
	for (uint32_t i = 0; i < 2; i++)
		snprintf(parts[i], sizeof(parts[i]),
			 "agent-gguf.%d-0000%u-of-00002.gguf", (int)getpid(),
			 i + 1);
	stage_make(&agent, "[host]\nrows = 2\n");
	if (!OK(agent_start(&agent)) || !OK((map = story_attach(&agent))))
		return tap_done();
	EQ(shards_map(map, "two", "0:1;1:1"), 0);
	one_file_has_all();
	headers_may_be_long();
	any_of_several_stands_for_all();
	others_have_it_by_its_name();
	any_of_several_finds_it();
	what_was_planned_for_it_loads();
	what_is_damaged_is_refused();
	unlink(one);
	unlink(parts[0]);
	unlink(parts[1]);
	return stage_finish(&agent, map);
}
