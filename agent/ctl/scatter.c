/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Run a scatter and check it: every element of the result, or with a reduction
 * every tile's result, is compared with the value that this process computes,
 * so that a row that drops, repeats or misplaces a tile is named.
 */

#include <stdio.h>
#include <string.h>

#include "agent/ctl/clock.h"
#include "agent/ctl/fields.h"
#include "shm/ops.h"

#define ALPHA         3.0
#define PATTERN       UINT64_C(0x5a)
#define DEFAULT_BYTES (UINT64_C(64) << 20)
#define MOST_BYTES    (UINT64_C(1) << 40)

/* A prime, so that no tile begins where the mask does. */
#define MASK_N     1021u
#define MASK_FIRST 5u

static const struct kind {
	const char *name;
	uint32_t op;
	uint32_t dtype;
	uint32_t to;  /* of the result */
	bool reduces; /* each tile has one result */
} kinds[] = {
	{ "copy", GPUMAP_OP_COPY, GPUMAP_DTYPE_U8, 0, false },
	{ "fill", GPUMAP_OP_FILL, GPUMAP_DTYPE_U8, 0, false },
	{ "scale", GPUMAP_OP_SCALE, GPUMAP_DTYPE_F32, 0, false },
	{ "axpy", GPUMAP_OP_AXPY, GPUMAP_DTYPE_F32, 0, false },
	{ "cast", GPUMAP_OP_CAST, GPUMAP_DTYPE_F32, GPUMAP_DTYPE_BF16, false },
	{ "mask_add", GPUMAP_OP_MASK_ADD, GPUMAP_DTYPE_F32, 0, false },
	{ "mask_bool", GPUMAP_OP_MASK_BOOL, GPUMAP_DTYPE_F32, 0, false },
	{ "sum", GPUMAP_OP_SUM, GPUMAP_DTYPE_I32, 0, true },
	{ "min", GPUMAP_OP_MIN, GPUMAP_DTYPE_I32, 0, true },
	{ "max", GPUMAP_OP_MAX, GPUMAP_DTYPE_I32, 0, true },
};

const struct gm_ctl_choice gm_ctl_scatter_ops = GM_CHOICE("--op", kinds);

struct run {
	const struct gm_ctl *ctl;
	const struct kind *kind;
	struct gpumap_session *session;
	struct gpumap_scatter_opts opts;
	struct gpumap_job job;
	/* bytes of an element of the source, of the result and of the mask */
	uint32_t element, result, mask;
	uint64_t bytes;
	struct gpumap_tile tiles[GPUMAP_ROWS_MAX];
	uint32_t n_tiles;
	uint64_t best_ns; /* of all rounds */
	uint64_t rounds;
};

/* ---- expected results ---------------------------------------------------- */

static uint8_t source_byte(uint64_t i)
{
	return (uint8_t)(i * 131 + (i >> 12));
}

/* Small integers: exact in f32 after any single operation. */
static float source(uint64_t i)
{
	return (float)(i % 8191);
}

static float target(uint64_t i)
{
	return (float)(i % 127);
}

/* Small and large, of either sign. */
static int32_t source_i32(uint64_t i)
{
	return (int32_t)(uint32_t)(i * UINT64_C(2654435761) >> (i % 24));
}

static float mask_f32(uint64_t k)
{
	return -(float)k;
}

static bool mask_hides(uint64_t k)
{
	return k % 7 == 0;
}

/* Round to the nearest bf16, ties to even. */
static uint16_t bf16_of(float from)
{
	uint32_t bits;

	memcpy(&bits, &from, sizeof(bits));
	return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/* Is the result of tile @i right? */
static bool tile_is_right(const struct run *run, uint64_t i)
{
	const struct gpumap_tile *tile = &run->tiles[i];
	int64_t sum = 0, least = INT32_MAX, most = INT32_MIN;

	for (uint64_t k = tile->first; k < tile->first + tile->n; k++) {
		int64_t value = source_i32(k);

		sum += value;
		least = value < least ? value : least;
		most = value > most ? value : most;
	}
	if (run->job.op == GPUMAP_OP_SUM)
		return ((const int64_t *)run->job.dst)[i] == sum;
	return ((const int32_t *)run->job.dst)[i] ==
	       (run->job.op == GPUMAP_OP_MIN ? least : most);
}

/* Is element @i of the result, or with a reduction tile @i's result, the value
 * that this process computes? */
static bool is_right(const struct run *run, uint64_t i)
{
	const void *dst = run->job.dst;
	const uint64_t k = (i % MASK_N + MASK_FIRST) % MASK_N;
	const float *floats = dst;

	switch (run->job.op) {
	case GPUMAP_OP_COPY:
		return ((const uint8_t *)dst)[i] == source_byte(i);
	case GPUMAP_OP_FILL:
		return ((const uint8_t *)dst)[i] == PATTERN;
	case GPUMAP_OP_SCALE:
		return floats[i] == (float)ALPHA * source(i);
	case GPUMAP_OP_AXPY:
		return floats[i] == target(i) + (float)ALPHA * source(i);
	case GPUMAP_OP_CAST:
		return ((const uint16_t *)dst)[i] == bf16_of(source(i));
	case GPUMAP_OP_MASK_ADD:
		return floats[i] == source(i) + mask_f32(k);
	case GPUMAP_OP_MASK_BOOL: /* minus infinity, where it hides */
		return mask_hides(k)
			       ? floats[i] < 0 && floats[i] * 2 == floats[i]
			       : floats[i] == source(i);
	default:
		return tile_is_right(run, i);
	}
}

/* Bytes of the result. */
static uint64_t result_bytes(const struct run *run)
{
	return (run->kind->reduces ? GPUMAP_ROWS_MAX : run->job.n) *
	       run->result;
}

/* Fill source and destination with the values that the check expects. */
static void prepare(struct run *run)
{
	void *memory = (void *)(uintptr_t)run->job.src;
	uint8_t *bytes = memory;
	int32_t *ints = memory;
	float *from = memory, *to = run->job.dst;

	if (run->job.op == GPUMAP_OP_AXPY) {
		for (uint64_t i = 0; i < run->job.n; i++)
			to[i] = target(i);
	} else {
		memset(to, 0, result_bytes(run));
	}
	for (uint64_t i = 0; memory != NULL && i < run->job.n; i++) {
		if (run->job.dtype == GPUMAP_DTYPE_U8)
			bytes[i] = source_byte(i);
		else if (run->job.dtype == GPUMAP_DTYPE_I32)
			ints[i] = source_i32(i);
		else
			from[i] = source(i);
	}
}

/* The number of elements of the result, or with a reduction of tiles. */
static uint64_t n_results(const struct run *run)
{
	return run->kind->reduces ? (uint64_t)run->n_tiles : run->job.n;
}

/* ---- the scatter --------------------------------------------------------- */

static void set_up(struct run *run)
{
	const struct gm_ctl *ctl = run->ctl;
	/* The row of the mask and of results: the first that takes part. */
	uint32_t row = ctl->n_rows > 0 ? ctl->rows[0] : 0, cursor = 0;
	struct gpumap_device d;
	struct gpumap_session_opts opts = {
		.size = sizeof(opts),
		.arena_bytes =
			2 * gm_ctl_room(run->bytes) + (UINT64_C(1) << 20),
	};
	void *memory;
	int ret = gpumap_session_open(ctl->map, &opts, &run->session);

	if (ret != 0)
		gm_ctl_fail(ctl, ret, "open a session");
	while (ctl->n_rows == 0 && gm_ctl_next_device(ctl->map, &cursor, &d))
		if (d.state == GPUMAP_DEVICE_READY &&
		    (d.flags & GPUMAP_DEVICE_SERVES) != 0) {
			row = d.row;
			break;
		}
	if (run->kind->reduces)
		ret = gpumap_alloc(run->session, row, result_bytes(run),
				   &run->job.dst);
	else
		ret = gpumap_scatter_alloc(run->session, run->job.n,
					   run->result, &run->opts,
					   &run->job.dst);
	if (ret == 0 && run->job.op != GPUMAP_OP_FILL) {
		ret = gpumap_scatter_alloc(run->session, run->job.n,
					   run->element, &run->opts, &memory);
		run->job.src = ret == 0 ? memory : NULL;
	}
	if (ret == 0 && run->mask != 0) {
		ret = gpumap_alloc(run->session, row, MASK_N * run->mask,
				   &memory);
		run->job.mask = ret == 0 ? memory : NULL;
		run->job.mask_n = MASK_N;
		run->job.mask_first = MASK_FIRST;
		for (uint32_t k = 0; ret == 0 && k < MASK_N; k++)
			if (run->mask == 1)
				((uint8_t *)memory)[k] = mask_hides(k);
			else
				((float *)memory)[k] = mask_f32(k);
	}
	if (ret != 0)
		gm_ctl_fail(ctl, ret, "memory on row %u", row);
}

static void scatter_once(struct run *run)
{
	uint64_t start, ns, wrong = 0;
	int ret;

	prepare(run);
	start = gm_clock_ns();
	ret = gpumap_scatter(run->session, &run->job, &run->opts, run->tiles,
			     GPUMAP_ROWS_MAX);
	ns = gm_clock_ns() - start;
	if (ret < 0) {
		for (int i = 0; i < GPUMAP_ROWS_MAX; i++)
			if (run->tiles[i].n != 0 && run->tiles[i].status != 0)
				gm_ctl_say(
					"row %u: %s", run->tiles[i].row,
					gpumap_strerror(run->tiles[i].status));
		gm_ctl_fail(run->ctl, ret, "scatter");
	}
	run->n_tiles = (uint32_t)ret;
	if (ns < run->best_ns)
		run->best_ns = ns;
	while (wrong < n_results(run) && is_right(run, wrong))
		wrong++;
	if (wrong == n_results(run))
		return;
	if (run->kind->reduces)
		gm_ctl_failed("the result of row %u is wrong",
			      run->tiles[wrong].row);
	for (uint32_t i = 0; i < run->n_tiles; i++)
		if (wrong - run->tiles[i].first < run->tiles[i].n)
			gm_ctl_say("element %llu is wrong; row %u had it",
				   (unsigned long long)wrong,
				   run->tiles[i].row);
	gm_ctl_exit(GM_EXIT_FAILED);
}

static const struct gm_ctl_field tile_fields[] = {
	GM_MEMBERS(gpumap_tile, row, first, n, status),
	{ 0 },
};

static void show(const struct run *run)
{
	double rate = (double)run->bytes / (double)run->best_ns;
	char size[32];

	if (run->ctl->json) {
		gm_ctl_print(json_pack(
			"{s:s, s:I, s:I, s:I, s:f, s:b, s:o}", "op",
			run->kind->name, "bytes", (json_int_t)run->bytes,
			"rounds", (json_int_t)run->rounds, "best_ns",
			(json_int_t)run->best_ns, "gigabytes_per_second", rate,
			"right", 1, "tiles",
			gm_ctl_fields_array(run->ctl, tile_fields, run->tiles,
					    run->n_tiles,
					    sizeof(run->tiles[0]))));
		return;
	}
	for (uint32_t i = 0; i < run->n_tiles; i++)
		printf("  row %3u  elements %llu - %llu\n", run->tiles[i].row,
		       (unsigned long long)run->tiles[i].first,
		       (unsigned long long)(run->tiles[i].first +
					    run->tiles[i].n - 1));
	printf("%s of %s over %u row%s: every %s is right; best of %llu "
	       "round%s %.3f ms, %.1f GB/s\n",
	       run->kind->name, gm_size_text(run->bytes, size), run->n_tiles,
	       gm_ctl_s(run->n_tiles),
	       run->kind->reduces ? "row's result" : "element",
	       (unsigned long long)run->rounds, gm_ctl_s(run->rounds),
	       (double)run->best_ns / 1e6, rate);
}

void gm_ctl_scatter(struct gm_ctl *ctl)
{
	const struct kind *kind = &kinds[gm_ctl_choose_word(
		&gm_ctl_scatter_ops,
		GM_GIVEN(ctl, OP) ? GM_TEXT(ctl, OP) : "copy")];
	struct run run = {
		.ctl = ctl,
		.kind = kind,
		.element = gm_ops_dtype_bytes(kind->dtype),
		.result = gm_ops_dtype_bytes(
			gm_ops_result(kind->op, kind->dtype, kind->to)),
		.bytes = GM_GIVEN(ctl, BYTES) ? GM_NUMBER(ctl, BYTES)
					      : DEFAULT_BYTES,
		.rounds = GM_GIVEN(ctl, ROUNDS) ? GM_NUMBER(ctl, ROUNDS) : 3,
		.best_ns = UINT64_MAX,
		.opts = { .size = sizeof(run.opts),
			  .rows = ctl->n_rows > 0 ? ctl->rows : NULL,
			  .n_rows = ctl->n_rows },
	};

	if ((gm_ops_has(kind->op) & GM_OPS_MASK) != 0)
		run.mask = gm_ops_mask_bytes(kind->op, kind->dtype);
	run.bytes = run.bytes / run.element * run.element;
	if (run.bytes == 0 || run.bytes > MOST_BYTES)
		gm_ctl_wrong("--bytes of %s is from %u, an element, to 1T",
			     kind->name, run.element);
	run.job = (struct gpumap_job){ .op = kind->op,
				       .dtype = kind->dtype,
				       .to = kind->to,
				       .n = run.bytes / run.element,
				       .alpha = ALPHA,
				       .pattern = PATTERN };
	set_up(&run);
	for (uint64_t i = 0; i < run.rounds; i++)
		scatter_once(&run);
	show(&run);
	gpumap_session_close(run.session);
}
