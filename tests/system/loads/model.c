/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Checks the loading of checkpoints: each byte of each tensor is on the row of
 * its layer, the session's other jobs run meanwhile, and nothing is left when
 * the model is freed.
 */

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gpumap.h"
#include "gpumap/model.h"
#include "tests/support/story_rows.h"
#include "tests/support/shards.h"

#define ARENA (8 * MIB)

static struct agent agent;
static struct gpumap *map;

/* Odd sizes, and names of every kind in no order. */
static const struct shard_tensor small[] = {
	{ "model.layers.2.b", "BF16", "[3,5]", 30, 0, false },
	{ "model.layers.0.a", "F32", "[1024,64]", 262144, 0, false },
	{ "model.layers.0.b", "U8", "[7]", 7, 0, false },
	{ "model.norm.weight", "F32", "[100]", 400, 0, false },
	{ "model.layers.1.empty", "F16", "[0,9]", 0, 0, false },
	{ "model.layers.1.a", "BF16", "[512,512]", 524288, 0, false },
	{ "model.layers.3.mlp.layers.0.w", "I8", "[100003]", 100003, 1, false },
	{ "model.embed_tokens.weight", "BF16", "[1000,33]", 66000, 1, false },
	{ "model.layers.3.a", "F8_E4M3", "[4096]", 4096, 1, false },
	{ "vision.blocks.0.a", "F32", "[]", 4, 1, false },
	{ "vision.blocks.1.a", "F64", "[2]", 16, 1, false },
};

#define N_SMALL (sizeof(small) / sizeof(small[0]))

static struct gpumap_session *session_open(uint32_t depth)
{
	struct gpumap_session_opts opts = { .size = sizeof(opts),
					    .depth = depth,
					    .arena_bytes = ARENA };
	struct gpumap_session *session = NULL;

	if (!EQ(gpumap_session_open(map, &opts, &session), 0))
		NOTE("%s", gpumap_refusal(map));
	return session;
}

static int begin(struct gpumap_session *session, const struct shards *s,
		 const char *layers, const uint32_t *rows, uint32_t n_rows,
		 struct gpumap_model **ret_model)
{
	struct gpumap_model_opts opts = { .size = sizeof(opts),
					  .path = s->path,
					  .layers = layers,
					  .rows = rows,
					  .n_rows = n_rows };

	return gpumap_model_load(session, &opts, ret_model);
}

/* Load a model from beginning to end. */
static struct gpumap_model *load_whole(struct gpumap_session *session,
				       const struct shards *s,
				       const char *layers, const uint32_t *rows,
				       uint32_t n_rows)
{
	struct gpumap_model *model = NULL;

	if (!EQ(begin(session, s, layers, rows, n_rows, &model), 0))
		NOTE("%s", gpumap_refusal(map));
	if (!model ||
	    !EQ(gpumap_model_wait(model, story_now() + STORY_LIMIT_NS), 0)) {
		NOTE("%s", gpumap_refusal(map));
		exit(1);
	}
	return model;
}

/* Copy a tensor to its row's arena, and compare its bytes. */
static bool is_right(struct gpumap_session *session, const struct shards *s,
		     size_t i, const struct gpumap_tensor *t)
{
	void *memory = NULL;
	bool right = true;

	if (gpumap_alloc(session, t->row, MIB, &memory) != 0)
		exit(99);
	for (uint64_t at = 0; right && at < t->bytes; at += MIB) {
		uint64_t n = t->bytes - at < MIB ? t->bytes - at : MIB;
		struct gpumap_job job = { .op = GPUMAP_OP_COPY,
					  .dst = memory,
					  .n = n,
					  .src_buffer = t->buffer,
					  .src_at = t->at + at };

		memset(memory, 0x55, n);
		right = EQ(story_run(session, t->row, &job), 0) &&
			shards_match(s, i, memory, at, n);
	}
	gpumap_free(session, memory);
	return right;
}

/* Find every tensor by its name.  Check its description, and its bytes if its
 * row was loaded. */
static void all_are_right(struct gpumap_session *session,
			  const struct shards *s, struct gpumap_model *model,
			  uint64_t rows)
{
	for (size_t i = 0; i < s->n; i++) {
		const struct shard_tensor *want = &s->v[i];
		struct gpumap_tensor t = { .size = sizeof(t) };
		bool here;

		if (!EQ(gpumap_model_find(model, want->name, &t), 0))
			continue;
		here = want->bytes > 0 && (rows >> t.row & 1) != 0;
		OK(strcmp(t.name, want->name) == 0 &&
		   strcmp(t.type, want->type) == 0);
		EQ(t.bytes, want->bytes);
		EQ(t.at % 256, 0);
		if (!EQ(t.buffer != 0, here) ||
		    (here && !OK(is_right(session, s, i, &t))))
			NOTE("tensor %s, row %u", want->name, t.row);
	}
}

static void tensor_is(struct gpumap_model *model, const char *name,
		      uint32_t row, int32_t layer, uint32_t dtype,
		      uint32_t n_dims, uint64_t last_dim)
{
	struct gpumap_tensor t = { .size = sizeof(t) };

	EQ(gpumap_model_find(model, name, &t), 0);
	EQ(t.row, row);
	EQ(t.layer, layer);
	EQ(t.dtype, dtype);
	EQ(t.n_dims, n_dims);
	if (n_dims > 0)
		EQ(t.shape[n_dims - 1], last_dim);
}

/* ---- placement ----------------------------------------------------------- */

static void tensors_go_to_the_rows_of_their_layers(void)
{
	struct gpumap_session *session = session_open(0);
	struct shards s = shards_make(small, N_SMALL, 2);
	struct gpumap_model_progress p = { .size = sizeof(p) };
	struct gpumap_model_buffer buffers[4];
	struct gpumap_tensor t = { .size = sizeof(t) };
	struct gpumap_model *model;
	uint32_t cursor = 0, n = 0;

	EQ(shards_map(map, "m", "1:3;0:1"), 0);
	model = load_whole(session, &s, "m", NULL, 0);
	all_are_right(session, &s, model, UINT64_MAX);
	tensor_is(model, "model.layers.2.b", 1, 2, GPUMAP_DTYPE_BF16, 2, 5);
	tensor_is(model, "model.layers.3.mlp.layers.0.w", 0, 3, GPUMAP_DTYPE_I8,
		  1, 100003);
	tensor_is(model, "model.norm.weight", 0, -1, GPUMAP_DTYPE_F32, 1, 100);
	tensor_is(model, "vision.blocks.0.a", 1, -1, GPUMAP_DTYPE_F32, 0, 0);
	EQ(gpumap_model_find(model, "model.layers.4.a", &t), -ENOENT);
	while (gpumap_model_next(model, &cursor, &t) == 1)
		n++;
	EQ(n, N_SMALL);
	EQ(gpumap_model_progress(model, &p), 1);
	EQ(p.state, GPUMAP_MODEL_LOADED);
	EQ(p.bytes, p.total_bytes);
	EQ(p.total_bytes,
	   262144 + 30 + 7 + 400 + 524288 + 100003 + 66000 + 4096 + 4 + 16);
	EQ(p.left_ns, 0);
	EQ(p.n_tensors, N_SMALL);
	EQ(gpumap_model_buffers(model, buffers, 4), 2);
	OK(buffers[0].row + buffers[1].row == 1 && buffers[0].buffer != 0 &&
	   buffers[1].buffer != 0);
	shards_let_go(map);
	EQ(gpumap_model_close(model, GPUMAP_NO_DEADLINE), 0);
	OK(shards_taken(map, 0));
	gpumap_session_close(session);
	shards_remove(&s);
}

static void one_row_may_have_all(void)
{
	struct gpumap_session *session = session_open(0);
	struct shards s = shards_make(small, 6, 1);
	const uint32_t row = 1;
	struct gpumap_model *model = load_whole(session, &s, NULL, &row, 1);
	char path[sizeof(s.path)];

	all_are_right(session, &s, model, UINT64_MAX);
	tensor_is(model, "model.layers.1.a", 1, -1, GPUMAP_DTYPE_BF16, 2, 512);
	EQ(gpumap_model_close(model, GPUMAP_NO_DEADLINE), 0);
	/* The path is the file itself instead of its folder. */
	memcpy(path, s.path, sizeof(path));
	snprintf(s.path, sizeof(s.path), "%.30s/model.safetensors", path);
	model = load_whole(session, &s, NULL, &row, 1);
	memcpy(s.path, path, sizeof(path));
	all_are_right(session, &s, model, UINT64_MAX);
	gpumap_session_close(session);
	EQ(gpumap_model_progress(model, NULL), -ECANCELED);
	EQ(gpumap_model_close(model, GPUMAP_NO_DEADLINE), 0);
	OK(shards_taken(map, 0));
	shards_remove(&s);
}

static void some_rows_may_be_left_out(void)
{
	struct gpumap_session *session = session_open(0);
	struct shards s = shards_make(small, N_SMALL, 2);
	const uint32_t only = 0, other = 5;
	struct gpumap_model *model;

	EQ(shards_map(map, "m", "1:3;0:1"), 0);
	model = load_whole(session, &s, "m", &only, 1);
	all_are_right(session, &s, model, 1);
	EQ(gpumap_model_buffers(model, NULL, 0), 1);
	EQ(gpumap_model_close(model, GPUMAP_NO_DEADLINE), 0);
	EQ(begin(session, &s, "m", &other, 1, &model), -EINVAL);
	gpumap_session_close(session);
	shards_remove(&s);
}

/* A model has more layers than its map.  The map's layers have the map's sizes
 * to the byte. */
static void layers_behind_the_last_go_to_the_base(void)
{
	struct gpumap_session *session = session_open(0);
	struct shards s = shards_make(small, N_SMALL, 2);
	uint64_t bytes[] = { 262151, 524288, 30 };
	struct gpumap_layers_request request = { .size = sizeof(request),
						 .name = "cut",
						 .spec = "0:1;1:2",
						 .n_layers = 3,
						 .layer_bytes = bytes,
						 .other_bytes = 1 };
	struct gpumap_model *model = NULL;

	EQ(gpumap_layers_publish(map, &request), 0);
	model = load_whole(session, &s, "cut", NULL, 0);
	tensor_is(model, "model.layers.2.b", 1, 2, GPUMAP_DTYPE_BF16, 2, 5);
	tensor_is(model, "model.layers.3.a", 0, -1, GPUMAP_DTYPE_F8_E4M3, 1,
		  4096);
	EQ(gpumap_model_close(model, GPUMAP_NO_DEADLINE), 0);
	/* The norm behind the layers may be counted with the last. */
	bytes[2] += 400;
	EQ(gpumap_layers_publish(map, &request), 0);
	model = load_whole(session, &s, "cut", NULL, 0);
	EQ(gpumap_model_close(model, GPUMAP_NO_DEADLINE), 0);
	bytes[2]++;
	EQ(gpumap_layers_publish(map, &request), 0);
	EQ(begin(session, &s, "cut", NULL, 0, &model), -EINVAL);
	OK(strstr(gpumap_refusal(map), "\"cut\" has 3 layers, the model 4"));
	gpumap_session_close(session);
	shards_remove(&s);
}

/* Several pieces of one tensor are under way, and of several rows. */
static const struct shard_tensor large[] = {
	{ "h.0.a", "U8", "[71303171]", 71303171, 0, false },
	{ "h.0.b", "U8", "[13]", 13, 0, false },
	{ "h.1.a", "BF16", "[4194304]", 8388608, 1, false },
	{ "h.1.b", "BF16", "[4194305]", 8388610, 1, false },
	{ "wte", "F32", "[1000]", 4000, 1, false },
};

static void large_tensors_come_in_pieces(void)
{
	struct gpumap_session *session = session_open(0);
	struct shards s = shards_make(large, 5, 2);
	struct gpumap_model *model;

	EQ(shards_map(map, "m", "0:1;1:1"), 0);
	model = load_whole(session, &s, "m", NULL, 0);
	all_are_right(session, &s, model, UINT64_MAX);
	gpumap_session_close(session);
	EQ(gpumap_model_close(model, GPUMAP_NO_DEADLINE), 0);
	shards_remove(&s);
}

static void its_buffers_can_be_exported(void)
{
	struct gpumap_session *session = session_open(0);
	struct gpumap_session *other = session_open(0);
	struct shards s = shards_make(small, 4, 1);
	struct gpumap_model_opts opts = { .size = sizeof(opts),
					  .path = s.path,
					  .rows = (const uint32_t[]){ 1 },
					  .n_rows = 1,
					  .flags = GPUMAP_BUFFER_EXPORTABLE };
	struct gpumap_tensor t = { .size = sizeof(t) };
	struct gpumap_model *model = NULL;
	uint64_t id = 0;

	EQ(gpumap_model_load(session, &opts, &model), 0);
	EQ(gpumap_model_wait(model, story_now() + STORY_LIMIT_NS), 0);
	EQ(gpumap_model_find(model, "model.layers.0.a", &t), 0);
	EQ(gpumap_buffer_export(session, t.buffer, &id), 0);
	EQ(gpumap_buffer_import(other, id, GPUMAP_BUFFER_READ_ONLY, &t.buffer),
	   0);
	OK(is_right(other, &s, 1, &t));
	EQ(gpumap_model_close(model, GPUMAP_NO_DEADLINE), 0);
	/* The import survives the owner's free. */
	OK(is_right(other, &s, 1, &t));
	gpumap_session_close(session);
	gpumap_session_close(other);
	OK(shards_taken(map, 0));
	shards_remove(&s);
}

/* ---- beside other work --------------------------------------------------- */

/* The load goes on whenever the session takes completions of its jobs. */
static void jobs_go_on_meanwhile(void)
{
	struct gpumap_session *session = session_open(0);
	struct shards s = shards_make(large, 5, 2);
	struct gpumap_job nop = { .op = GPUMAP_OP_NOP };
	uint64_t until = story_now() + STORY_LIMIT_NS;
	struct gpumap_model_progress p = { .size = sizeof(p) };
	struct gpumap_model *model = NULL;
	pid_t workers[] = { (pid_t)story_device(map, 0).worker_pid,
			    (pid_t)story_device(map, 1).worker_pid };
	uint32_t nops = 0;
	int ret;

	EQ(shards_map(map, "m", "0:1;1:1"), 0);
	EQ(begin(session, &s, "m", NULL, 0, &model), 0);
	do {
		nops += story_run(session, nops % 2, &nop) == 0;
		EQ(gpumap_model_progress(model, &p) < 0, 0);
		OK(p.bytes <= p.total_bytes);
	} while (p.state == GPUMAP_MODEL_ALLOCATING ||
		 (p.bytes < p.total_bytes / 2 && story_now() < until));
	/* From now on only job completions are taken, and no progress is asked
	 * for, until the files are closed, or for long where that is not seen.
	 */
	while (story_now() < until &&
	       (ret = story_run(session, 0, &nop)) == 0 &&
	       (story_holds(workers[0], "agent-model.") != 0 ||
		story_holds(workers[1], "agent-model.") != 0))
		;
	EQ(gpumap_model_progress(model, &p), 1);
	NOTE("%u jobs went by", nops);
	all_are_right(session, &s, model, UINT64_MAX);
	EQ(gpumap_model_close(model, GPUMAP_NO_DEADLINE), 0);
	gpumap_session_close(session);
	shards_remove(&s);
}

/* Completions that were not taken fill the queue: the wait reports that. */
static void completions_are_to_be_taken(void)
{
	struct gpumap_session *session = session_open(16);
	struct shards s = shards_make(small, N_SMALL, 2);
	struct gpumap_job nop = { .op = GPUMAP_OP_NOP };
	struct gpumap_model *model = NULL;
	struct gpumap_done done[16];
	int ret, n = 0;

	EQ(shards_map(map, "m", "0:4"), 0);
	for (int i = 0; i < 16; i++)
		EQ(gpumap_submit(session, 0, &nop, 1), 0);
	EQ(begin(session, &s, "m", NULL, 0, &model), 0);
	EQ(gpumap_model_wait(model, story_now() + STORY_LIMIT_NS), -EAGAIN);
	while (n < 16 && (ret = gpumap_wait(session, done, 16,
					    story_now() + STORY_LIMIT_NS)) > 0)
		n += ret;
	EQ(n, 16);
	EQ(gpumap_model_wait(model, story_now() + STORY_LIMIT_NS), 0);
	all_are_right(session, &s, model, UINT64_MAX);
	for (int i = 0; i < 16; i++)
		EQ(gpumap_submit(session, 0, &nop, 1), 0);
	while (gpumap_model_close(model, GPUMAP_NO_DEADLINE) == -EAGAIN)
		EQ(gpumap_wait(session, done, 1, story_now() + STORY_LIMIT_NS),
		   1);
	OK(shards_taken(map, 0));
	gpumap_session_close(session);
	shards_remove(&s);
}

static void two_models_load_at_once(void)
{
	struct gpumap_session *session = session_open(0);
	struct shards s = shards_make(large, 5, 2);
	struct gpumap_model *model[2] = { NULL };

	EQ(shards_map(map, "m", "0:1;1:1"), 0);
	EQ(begin(session, &s, "m", NULL, 0, &model[0]), 0);
	EQ(begin(session, &s, "m", NULL, 0, &model[1]), 0);
	EQ(gpumap_model_wait(model[1], story_now() + STORY_LIMIT_NS), 0);
	EQ(gpumap_model_wait(model[0], story_now() + STORY_LIMIT_NS), 0);
	EQ(gpumap_model_close(model[0], GPUMAP_NO_DEADLINE), 0);
	all_are_right(session, &s, model[1], UINT64_MAX);
	EQ(gpumap_model_close(model[1], GPUMAP_NO_DEADLINE), 0);
	OK(shards_taken(map, 0));
	gpumap_session_close(session);
	shards_remove(&s);
}

static void a_child_has_no_model(void)
{
	struct gpumap_session *session = session_open(0);
	struct shards s = shards_make(small, 4, 1);
	const uint32_t row = 0;
	struct gpumap_model *model = load_whole(session, &s, NULL, &row, 1);
	int status = 0;
	pid_t pid = fork();

	if (pid == 0)
		_exit(gpumap_model_progress(model, NULL) != -EOWNERDEAD ||
		      gpumap_model_wait(model, 0) != -EOWNERDEAD ||
		      gpumap_model_cancel(model) != -EOWNERDEAD ||
		      gpumap_model_close(model, GPUMAP_NO_DEADLINE) != 0);
	EQ(waitpid(pid, &status, 0), pid);
	EQ(status, 0);
	all_are_right(session, &s, model, UINT64_MAX);
	gpumap_session_close(session);
	gpumap_model_close(model, GPUMAP_NO_DEADLINE);
	gpumap_model_close(NULL, GPUMAP_NO_DEADLINE);
	shards_remove(&s);
}

TAP_CASE()
{
	stage_make(&agent, "[host]\nrows = 2\n");
	if (!OK(agent_start(&agent)) || !OK((map = story_attach(&agent))))
		return tap_done();
	tensors_go_to_the_rows_of_their_layers();
	one_row_may_have_all();
	some_rows_may_be_left_out();
	layers_behind_the_last_go_to_the_base();
	large_tensors_come_in_pieces();
	its_buffers_can_be_exported();
	jobs_go_on_meanwhile();
	completions_are_to_be_taken();
	two_models_load_at_once();
	a_child_has_no_model();
	OK(shards_taken(map, 0));
	gpumap_detach(map);
	EQ(agent_kill(&agent, SIGTERM), 0);
	if (tap_failures)
		agent_show_log(&agent);
	stage_end(&agent);
	return tap_done();
}
