/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * How much of a card's bandwidth operators reach in its own memory: jobs
 * through gpumapd, eight in flight, beside a bare loop that launches the same
 * kernel over the same bytes.
 */

#include "agent/cuda/operators.h"
#include "tests/gpu/agent.h"

#define NO_LIMIT GPUMAP_NO_DEADLINE
#define DEPTH    8u
#define SIZES    2u

static const struct {
	const char *name;
	uint32_t op;     /* enum gpumap_op */
	uint32_t kernel; /* enum gm_operator */
	uint32_t to;     /* of CAST */
	uint32_t moved;  /* bytes that an element reads and writes */
} ops[] = {
	{ "fill", GPUMAP_OP_FILL, GM_OPERATOR_FILL, 0, 4 },
	{ "copy", GPUMAP_OP_COPY, GM_OPERATORS, 0, 8 },
	{ "scale", GPUMAP_OP_SCALE, GM_OPERATOR_SCALE, 0, 8 },
	{ "axpy", GPUMAP_OP_AXPY, GM_OPERATOR_AXPY, 0, 12 },
	{ "cast", GPUMAP_OP_CAST, GM_OPERATOR_CAST, GPUMAP_DTYPE_F16, 6 },
	{ "sum", GPUMAP_OP_SUM, GM_OPERATOR_SUM, 0, 4 },
};

#define OPS (sizeof(ops) / sizeof(ops[0]))

/* A job has more bytes than a slice, or much less. */
static uint64_t elements(uint32_t size)
{
	uint64_t bytes = gpu_rounds(size ? 256 * GPU_MIB : 4 * GPU_MIB,
				    size ? 32 * GPU_MIB : 64 << 10);

	return bytes / 4;
}

/* All rounds of a size move at least 8 GiB. */
static uint64_t rounds(uint32_t size)
{
	return gpu_rounds(size ? 32 : 2048, 3);
}

static double gb_s(size_t op, uint32_t size, double ms)
{
	return (double)(rounds(size) * elements(size) * ops[op].moved) / 1e6 /
	       ms;
}

/* ---- a bare loop -------------------------------------------------------- */

struct bare {
	double gb_s[OPS][SIZES];
};

static CUdeviceptr bare_dst, bare_src;
static uint32_t units;

static CUresult launch(size_t op, CUfunction f, uint64_t n, CUstream stream)
{
	uint64_t bytes = 4 * n, pattern = 0x123456789abcdef0u;
	bool is_fill = ops[op].op == GPUMAP_OP_FILL;
	uint64_t count = is_fill ? bytes : n;
	float alpha = 0.5f;
	void *filled[] = { &bare_dst, &bytes, &pattern };
	void *others[] = { &bare_dst, &bare_src, &n, &alpha };
	struct gm_worker_exec l;

	if (ops[op].op == GPUMAP_OP_COPY)
		return cu.cuMemcpyDtoDAsync_v2(bare_dst, bare_src, bytes,
					       stream);
	l = gm_operators_launch(ops[op].kernel, count, units);
	return cu.cuLaunchKernel(f, l.blocks, 1, 1, l.threads, 1, 1, 0, stream,
				 is_fill ? filled : others, NULL);
}

static double measure(size_t op, uint32_t size, CUfunction f, CUstream stream)
{
	double from;

	WANT(!launch(op, f, elements(size), stream));
	WANT(!cu.cuStreamSynchronize(stream));
	from = contract_now_ms();
	for (uint64_t i = 0; i < rounds(size); i++)
		WANT(!launch(op, f, elements(size), stream));
	WANT(!cu.cuStreamSynchronize(stream));
	return gb_s(op, size, contract_now_ms() - from);
}

static int measure_bare(char **argv)
{
	uint64_t bytes = 4 * elements(1);
	char name[GM_OPERATOR_NAME_BYTES];
	struct bare b = { 0 };
	CUcontext context;
	CUmodule module;
	CUstream stream;

	WANT(!contract_load(argv) && !cu.cuInit(0));
	WANT(!cu.cuDevicePrimaryCtxRetain(&context, 0) &&
	     !cu.cuCtxSetCurrent(context));
	units = (uint32_t)gpu_attribute(
		CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
	WANT(!cu.cuMemAlloc_v2(&bare_dst, bytes) &&
	     !cu.cuMemAlloc_v2(&bare_src, bytes) &&
	     !cu.cuMemsetD8_v2(bare_dst, 0, bytes) &&
	     !cu.cuMemsetD8_v2(bare_src, 0, bytes));
	WANT(!cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) &&
	     !cu.cuModuleLoadData(&module, gm_operators_ptx));
	for (size_t op = 0; op < OPS; op++) {
		CUfunction f = NULL;

		if (ops[op].kernel != GM_OPERATORS)
			WANT(gm_operators_name(ops[op].kernel, GPUMAP_DTYPE_F32,
					       ops[op].to, name) == 0 &&
			     !cu.cuModuleGetFunction(&f, module, name));
		for (uint32_t size = 0; size < SIZES; size++)
			b.gb_s[op][size] = measure(op, size, f, stream);
	}
	WANT(gpu_tell(GPU_PART_SOCKET, &b, sizeof(b), -1));
	WANT(!cu.cuModuleUnload(module) && !cu.cuStreamDestroy_v2(stream) &&
	     !cu.cuMemFree_v2(bare_src) && !cu.cuMemFree_v2(bare_dst) &&
	     !cu.cuCtxSetCurrent(NULL) && !cu.cuDevicePrimaryCtxRelease_v2(0));
	return 0;
}

/* ---- the agent ---------------------------------------------------------- */

/* How many jobs have ended, negative an error. */
static int take(struct gpu_agent *g)
{
	struct gpumap_done done[DEPTH];
	int r = gpumap_wait(g->session, done, DEPTH,
			    story_now() + STORY_LIMIT_NS);

	for (int i = 0; i < r; i++)
		if (done[i].status)
			return done[i].status;
	return r;
}

/* 0: a job failed, and said so. */
static double run_jobs(struct gpu_agent *g, const struct gpumap_job *job,
		       size_t op, uint32_t size, uint64_t n)
{
	double from = contract_now_ms();
	uint64_t sent = 0, ended = 0;

	while (ended < n) {
		int r = 0;

		while (sent < n && sent - ended < DEPTH && r == 0) {
			r = gpumap_submit(g->session, g->row, job, 1);
			sent += r == 0;
		}
		r = take(g);
		if (!OK(r > 0))
			return 0;
		ended += (uint64_t)r;
	}
	return gb_s(op, size, contract_now_ms() - from);
}

static void beside_a_bare_loop(struct gpu_agent *g, const struct bare *b,
			       const uint64_t buffer[2])
{
	for (size_t op = 0; op < OPS; op++)
		for (uint32_t size = 0; size < SIZES; size++) {
			struct gpumap_job job = {
				.op = ops[op].op,
				.dtype = GPUMAP_DTYPE_F32,
				.to = ops[op].to,
				.n = elements(size),
				.dst_buffer = buffer[0],
				.pattern = 0x9abcdef0u,
				.alpha = 0.5,
			};
			double reached;

			if (ops[op].op != GPUMAP_OP_FILL)
				job.src_buffer = buffer[1];
			if (!(run_jobs(g, &job, op, size, 1) > 0))
				return;
			reached = run_jobs(g, &job, op, size, rounds(size));
			FACT("\"operator\":\"%s\",\"mib\":%.3f,\"gb_s\":%.1f,"
			     "\"bare_gb_s\":%.1f,\"ratio\":%.3f",
			     ops[op].name,
			     (double)elements(size) * 4 / (double)GPU_MIB,
			     reached, b->gb_s[op][size],
			     reached / b->gb_s[op][size]);
		}
}

static void operators_use_the_card(struct gpu_agent *g)
{
	struct gpu_part part = { .socket = -1 };
	struct bare b = { 0 };
	uint64_t buffer[2];

	if (!OK(gpu_part_begin("bare", 0, &part)))
		return;
	OK(gpu_hear(part.socket, &b, sizeof(b), NULL));
	if (!EQ(gpu_part_end(&part), 0))
		return;
	for (int i = 0; i < 2; i++)
		if (!EQ(gpumap_buffer_alloc(g->session, g->row, 4 * elements(1),
					    0, NO_LIMIT, &buffer[i]),
			0))
			return;
	beside_a_bare_loop(g, &b, buffer);
	for (int i = 0; i < 2; i++)
		EQ(gpumap_buffer_free(g->session, buffer[i]), 0);
}

TAP_CASE_ARGS(argc, argv)
{
	struct gpu_agent g;

	gpu_agent_go_under(argv);
	if (argc == 3)
		return measure_bare(argv);
	if (!gpu_begin(argv))
		return tap_done();
	if (gpu_agent_make(&g, "") && gpu_agent_session(&g, GPU_MIB))
		operators_use_the_card(&g);
	gpu_agent_remove(&g);
	return tap_done();
}
