/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * A scatter that checks itself: every element of the result is compared with
 * what this process computes, so a row that drops, repeats or misplaces a tile
 * is named.
 */

#include "agent/ctl/ctl.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/ctl/clock.h"

#define ALPHA         3.0
#define PATTERN       UINT64_C(0x5a)
#define DEFAULT_BYTES (UINT64_C(64) << 20)

struct run {
	const struct gm_ctl *ctl;
	struct gpumap_session *session;
	struct gpumap_job job;
	uint64_t bytes;
	struct gpumap_tile tiles[GPUMAP_ROWS_MAX];
	int n_tiles;
	uint64_t best_ns; /* of all rounds */
	uint64_t rounds;
};

static const struct {
	const char *name;
	uint32_t op;
	uint32_t dtype;
	uint32_t element; /* bytes */
} ops[] = {
	{ "copy", GPUMAP_OP_COPY, GPUMAP_DTYPE_U8, 1 },
	{ "fill", GPUMAP_OP_FILL, GPUMAP_DTYPE_U8, 1 },
	{ "scale", GPUMAP_OP_SCALE, GPUMAP_DTYPE_F32, 4 },
	{ "axpy", GPUMAP_OP_AXPY, GPUMAP_DTYPE_F32, 4 },
};

/* Small integers: exact in f32 whatever the operation does to them once. */
static float source(uint64_t i)
{
	return (float)(i % 8191);
}

static float target(uint64_t i)
{
	return (float)(i % 127);
}

/* Source and destination hold what the check expects to start from. */
static void prepare(struct run *run)
{
	uint8_t *bytes = (uint8_t *)run->job.src;
	float *from = (float *)run->job.src, *to = run->job.dst;

	if (run->job.dtype == GPUMAP_DTYPE_U8) {
		memset(run->job.dst, 0, run->bytes);
		for (uint64_t i = 0; bytes != NULL && i < run->bytes; i++)
			bytes[i] = (uint8_t)(i * 131 + (i >> 12));
		return;
	}
	for (uint64_t i = 0; i < run->job.n; i++) {
		from[i] = source(i);
		to[i] = target(i);
	}
}

/* The first element that is not as it should be, or the number of them. */
static uint64_t first_wrong(const struct run *run)
{
	const uint8_t *bytes = run->job.dst;
	const float *to = run->job.dst;

	for (uint64_t i = 0; i < run->job.n; i++) {
		bool right;

		if (run->job.op == GPUMAP_OP_FILL)
			right = bytes[i] == PATTERN;
		else if (run->job.op == GPUMAP_OP_COPY)
			right = bytes[i] == (uint8_t)(i * 131 + (i >> 12));
		else if (run->job.op == GPUMAP_OP_SCALE)
			right = to[i] == (float)ALPHA * source(i);
		else
			right = to[i] == target(i) + (float)ALPHA * source(i);
		if (!right)
			return i;
	}
	return run->job.n;
}

/* Where source and destination lie: the first row that takes part. */
static uint32_t first_row(const struct gm_ctl *ctl)
{
	uint32_t n = gpumap_device_count(ctl->map);

	if (ctl->n_rows > 0)
		return ctl->rows[0];
	for (uint32_t row = 0; row < n; row++) {
		struct gpumap_device device = { .size = sizeof(device) };

		if (gpumap_device_read(ctl->map, row, &device) == 0 &&
		    device.state == GPUMAP_DEVICE_READY &&
		    device.kind != GPUMAP_DEVICE_DUMMY)
			return row;
	}
	return 0;
}

static int set_up(struct run *run)
{
	const struct gm_ctl *ctl = run->ctl;
	uint32_t row = first_row(ctl);
	struct gpumap_session_opts opts = {
		.size = sizeof(opts),
		.arena_bytes = 2 * run->bytes + (UINT64_C(1) << 20),
	};
	void *memory;
	int ret;

	ret = gpumap_session_open(ctl->map, &opts, &run->session);
	if (ret != 0)
		return gm_ctl_fail(ctl, ret, "open a session");
	ret = gpumap_alloc(run->session, row, run->bytes, &run->job.dst);
	if (ret == 0 && run->job.op != GPUMAP_OP_FILL) {
		ret = gpumap_alloc(run->session, row, run->bytes, &memory);
		run->job.src = ret == 0 ? memory : NULL;
	}
	if (ret != 0)
		return gm_ctl_fail(ctl, ret, "memory on row %u", row);
	return GM_EXIT_OK;
}

static int scatter_once(struct run *run)
{
	struct gpumap_scatter_opts opts = {
		.size = sizeof(opts),
		.rows = run->ctl->n_rows > 0 ? run->ctl->rows : NULL,
		.n_rows = run->ctl->n_rows,
	};
	uint64_t start, ns, wrong;
	int ret;

	prepare(run);
	start = gm_clock_ns();
	ret = gpumap_scatter(run->session, &run->job, &opts, run->tiles,
			     GPUMAP_ROWS_MAX);
	ns = gm_clock_ns() - start;
	if (ret < 0) {
		for (int i = 0; i < GPUMAP_ROWS_MAX; i++)
			if (run->tiles[i].n != 0 && run->tiles[i].status != 0)
				fprintf(stderr, "gpumapctl: row %u: %s\n",
					run->tiles[i].row,
					gpumap_strerror(run->tiles[i].status));
		return gm_ctl_fail(run->ctl, ret, "scatter");
	}
	run->n_tiles = ret;
	if (ns < run->best_ns)
		run->best_ns = ns;
	wrong = first_wrong(run);
	if (wrong == run->job.n)
		return GM_EXIT_OK;
	for (int i = 0; i < run->n_tiles; i++)
		if (wrong - run->tiles[i].first < run->tiles[i].n)
			fprintf(stderr,
				"gpumapctl: element %llu is wrong; row %u had "
				"it\n",
				(unsigned long long)wrong, run->tiles[i].row);
	return GM_EXIT_FAILED;
}

static int show(const struct run *run, const char *op)
{
	double rate = (double)run->bytes / (double)run->best_ns;
	json_t *tiles = json_array();
	char size[32];

	for (int i = 0; i < run->n_tiles; i++)
		json_array_append_new(
			tiles, json_pack("{s:I, s:I, s:I, s:i}", "row",
					 (json_int_t)run->tiles[i].row, "first",
					 (json_int_t)run->tiles[i].first, "n",
					 (json_int_t)run->tiles[i].n, "status",
					 (int)run->tiles[i].status));
	if (run->ctl->json)
		return gm_ctl_print(json_pack(
			"{s:s, s:I, s:I, s:I, s:f, s:b, s:o}", "op", op,
			"bytes", (json_int_t)run->bytes, "rounds",
			(json_int_t)run->rounds, "best_ns",
			(json_int_t)run->best_ns, "gigabytes_per_second", rate,
			"right", 1, "tiles", tiles));
	json_decref(tiles);
	for (int i = 0; i < run->n_tiles; i++)
		printf("  row %3u  elements %llu - %llu\n", run->tiles[i].row,
		       (unsigned long long)run->tiles[i].first,
		       (unsigned long long)(run->tiles[i].first +
					    run->tiles[i].n - 1));
	printf("%s of %s over %d rows: every element is right; best of %llu "
	       "rounds %.3f ms, %.1f GB/s\n",
	       op, gm_ctl_size(run->bytes, size), run->n_tiles,
	       (unsigned long long)run->rounds, (double)run->best_ns / 1e6,
	       rate);
	return GM_EXIT_OK;
}

int gm_ctl_scatter(struct gm_ctl *ctl)
{
	struct run run = { .ctl = ctl, .best_ns = UINT64_MAX };
	const char *name = ctl->op != NULL ? ctl->op : "copy";
	size_t op = 0;
	int ret;

	while (op < sizeof(ops) / sizeof(ops[0]) &&
	       strcmp(ops[op].name, name) != 0)
		op++;
	if (op == sizeof(ops) / sizeof(ops[0])) {
		fprintf(stderr,
			"gpumapctl: --op is copy, fill, scale or axpy, not "
			"\"%s\"\n",
			name);
		return GM_EXIT_USAGE;
	}
	run.bytes = (ctl->given & GM_OPT_BYTES) ? ctl->bytes : DEFAULT_BYTES;
	run.bytes = run.bytes / ops[op].element * ops[op].element;
	run.rounds = (ctl->given & GM_OPT_ROUNDS) ? ctl->rounds : 3;
	if (run.bytes == 0 || run.bytes > UINT64_C(1) << 40 ||
	    run.rounds == 0) {
		fputs("gpumapctl: nothing to do: --bytes and --rounds are at "
		      "least one element and one\n",
		      stderr);
		return GM_EXIT_USAGE;
	}
	run.job = (struct gpumap_job){ .op = ops[op].op,
				       .dtype = ops[op].dtype,
				       .n = run.bytes / ops[op].element,
				       .alpha = ALPHA,
				       .pattern = PATTERN };
	ret = set_up(&run);
	for (uint64_t i = 0; ret == GM_EXIT_OK && i < run.rounds; i++)
		ret = scatter_once(&run);
	if (ret == GM_EXIT_OK)
		ret = show(&run, name);
	gpumap_session_close(run.session);
	return ret;
}
