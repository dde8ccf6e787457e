/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Checks one layer of a real model with its published names, shapes and shards:
 * the whole checkpoint is opened, all of it holes, and one row's layer is
 * loaded.
 *
 * The metadata is not part of the source.  Without it beside the checkout the
 * test is skipped.
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gpumap.h"
#include "gpumap/model.h"
#include "tests/support/story_rows.h"
#include "tests/support/shards.h"

#define MODEL     "qwen2.5-14b"
#define LAYERS    48u
#define PER_LAYER 12u
#define TENSORS   (LAYERS * PER_LAYER + 3)
#define BYTES     UINT64_C(29531895808) /* of all tensors, as the index says */
#define NEEDS     (UINT64_C(2) << 30)   /* free memory needed */
#define LOOK      (UINT64_C(64) << 10)

static struct agent agent;
static struct gpumap *map;
static struct shards model = { .n_files = 8 };

/* Make the checkpoint.  Returns false, having skipped the test, where there is
 * no model. */
static bool make_model(void)
{
	const char *top = getenv("abs_top_srcdir");
	char script[512], command[2048];

	snprintf(script, sizeof(script), "%s/../shared/models/make-checkpoint",
		 top ? top : ".");
	snprintf(model.path, sizeof(model.path), "agent-real.%d",
		 (int)getpid());
	if (access(script, X_OK) != 0) {
		SKIP(1, "no metadata of real models beside the source");
		return false;
	}
	if (system("python3 -c '' 2>/dev/null") != 0) {
		SKIP(1, "making a checkpoint needs python3");
		return false;
	}
	snprintf(command, sizeof(command),
		 "'%s' '%s/../shared/models/" MODEL "' '%s' >/dev/null", script,
		 top ? top : ".", model.path);
	return OK(system(command) == 0);
}

static struct gpumap_model *load_one_layer(struct gpumap_session *session)
{
	static const uint32_t row = 1;
	struct gpumap_model_opts opts = { .size = sizeof(opts),
					  .path = model.path,
					  .layers = "real",
					  .rows = &row,
					  .n_rows = 1 };
	struct gpumap_model *ret = NULL;

	if (!EQ(gpumap_model_load(session, &opts, &ret), 0) ||
	    !EQ(gpumap_model_wait(ret, story_now() + STORY_LIMIT_NS), 0)) {
		NOTE("%s", gpumap_refusal(map));
		gpumap_model_close(ret, GPUMAP_NO_DEADLINE);
		return NULL;
	}
	return ret;
}

/* Are @n bytes of a tensor zeroes, as a hole reads? */
static bool is_hole(struct gpumap_session *session,
		    const struct gpumap_tensor *t, uint64_t at, uint64_t n,
		    char *memory)
{
	struct gpumap_job job = { .op = GPUMAP_OP_COPY,
				  .dst = memory,
				  .n = n,
				  .src_buffer = t->buffer,
				  .src_at = t->at + at };
	uint64_t wrong = 0;

	memset(memory, 0x55, n);
	if (!EQ(story_run(session, t->row, &job), 0))
		return false;
	for (uint64_t i = 0; i < n; i++)
		wrong += memory[i] != 0;
	return wrong == 0;
}

/* Returns the size of the row's one buffer, in whole pages.  Tensors begin at
 * multiples of 256 in it. */
static uint64_t buffer_bytes(struct gpumap_model *m, uint64_t tensors)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	struct gpumap_model_buffer buffer = { 0 };

	EQ(gpumap_model_buffers(m, &buffer, 1), 1);
	EQ(buffer.row, 1);
	OK(buffer.bytes >= tensors &&
	   buffer.bytes < tensors + PER_LAYER * UINT64_C(256));
	return (buffer.bytes + page - 1) / page * page;
}

static void look_at(struct gpumap_session *session, struct gpumap_model *m)
{
	struct gpumap_tensor t = { .size = sizeof(t) };
	uint32_t cursor = 0, n = 0, n_here = 0, odd = 0;
	uint64_t bytes = 0, bytes_here = 0;
	void *memory = NULL;

	EQ(gpumap_alloc(session, 1, LOOK, &memory), 0);
	while (memory && gpumap_model_next(m, &cursor, &t) == 1) {
		bool is_here = t.layer == (int32_t)LAYERS - 2;
		uint64_t some = t.bytes < LOOK ? t.bytes : LOOK;

		n++;
		bytes += t.bytes;
		odd += (t.row == 1) != is_here || (t.buffer != 0) != is_here ||
		       strcmp(t.type, "BF16") != 0;
		if (!is_here)
			continue;
		n_here++;
		bytes_here += t.bytes;
		odd += !is_hole(session, &t, 0, some, memory) ||
		       !is_hole(session, &t, t.bytes - some, some, memory);
	}
	EQ(n, TENSORS);
	EQ(n_here, PER_LAYER);
	EQ(odd, 0);
	EQ(bytes, BYTES);
	OK(shards_taken(map, buffer_bytes(m, bytes_here)));
}

static void one_layer_loads(void)
{
	struct gpumap_session_opts opts = { .size = sizeof(opts),
					    .arena_bytes = MIB };
	struct gpumap_tensor t = { .size = sizeof(t) };
	struct gpumap_session *session = NULL;
	struct gpumap_model *m;

	EQ(shards_map(map, "real", "0:46;1:1;2:1"), 0);
	EQ(gpumap_session_open(map, &opts, &session), 0);
	m = load_one_layer(session);
	if (m) {
		look_at(session, m);
		EQ(gpumap_model_find(m, "model.layers.46.mlp.down_proj.weight",
				     &t),
		   0);
		EQ(t.n_dims, 2);
		EQ(t.shape[0], 5120);
		EQ(t.shape[1], 13824);
		EQ(gpumap_model_close(m, GPUMAP_NO_DEADLINE), 0);
	}
	gpumap_session_close(session);
	OK(shards_taken(map, 0));
}

TAP_CASE()
{
	if (!make_model())
		return tap_done();
	stage_make(&agent, "[host]\nrows = 3\n");
	if (OK(agent_start(&agent)) && OK((map = story_attach(&agent)))) {
		if (story_device(map, 1).free_bytes < NEEDS)
			SKIP(1, "less than 2 GiB of memory are free");
		else
			one_layer_loads();
	}
	shards_remove(&model);
	return stage_finish(&agent, map);
}
