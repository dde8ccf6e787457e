/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * A card through gpumapd: every copy there is and every operator, against what
 * a host row makes of the same; what copies reach of the bandwidth that a bare
 * loop has from pinned memory; what a round trip costs beside a bare one.
 */

#include <errno.h>
#include <sys/mman.h>

#include "tests/gpu/agent.h"

#define WORDS    65537u /* no multiple of anything */
#define BYTES    (4ull * WORDS)
#define NO_LIMIT GPUMAP_NO_DEADLINE

static uint32_t word_of(uint32_t i)
{
	return i * 2654435761u + 12345;
}

static void write_words(uint32_t *at)
{
	for (uint32_t i = 0; i < WORDS; i++)
		at[i] = word_of(i);
}

static unsigned int count_wrong(const uint32_t *at)
{
	unsigned int wrong = 0;

	for (uint32_t i = 0; i < WORDS; i++)
		wrong += at[i] != word_of(i);
	return wrong;
}

/* ---- places that bytes can be in ---------------------------------------- */

enum { ARENA, BUFFER, REGISTERED, PLACES };

static const char *const names[PLACES] = { "arena", "buffer", "registered" };

struct place {
	void *memory; /* of the arena, and of what is registered */
	uint64_t buffer;
};

static bool make_places(struct gpu_agent *g, struct place places[PLACES])
{
	int fd = memfd_create("gpumap-copies", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	memset(places, 0, PLACES * sizeof(*places));
	if (!OK(fd >= 0) || !EQ(ftruncate(fd, 2 << 20), 0) ||
	    !EQ(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0))
		return false;
	places[REGISTERED].memory =
		mmap(NULL, 2 << 20, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	return OK(places[REGISTERED].memory != MAP_FAILED) &&
	       EQ(gpumap_buffer_register(g->session, fd, 0, 2 << 20, 0,
					 &places[REGISTERED].buffer),
		  0) &&
	       EQ(close(fd), 0) &&
	       EQ(gpumap_alloc(g->session, g->row, BYTES,
			       &places[ARENA].memory),
		  0) &&
	       EQ(gpumap_buffer_alloc(g->session, g->row, BYTES, 0, NO_LIMIT,
				      &places[BUFFER].buffer),
		  0);
}

static void drop_places(struct gpu_agent *g, struct place places[PLACES])
{
	EQ(gpumap_buffer_unregister(g->session, places[REGISTERED].buffer), 0);
	EQ(gpumap_buffer_free(g->session, places[BUFFER].buffer), 0);
	EQ(gpumap_free(g->session, places[ARENA].memory), 0);
	munmap(places[REGISTERED].memory, 2 << 20);
}

static struct gpumap_job copy(const struct place *to, const struct place *from)
{
	return (struct gpumap_job){
		.op = GPUMAP_OP_COPY,
		.dtype = GPUMAP_DTYPE_U32,
		.n = WORDS,
		.dst = to->buffer ? NULL : to->memory,
		.src = from->buffer ? NULL : from->memory,
		.dst_buffer = to->buffer,
		.src_buffer = from->buffer,
	};
}

/* Fill a place from the arena, by the row itself where it is a buffer. */
static bool put(struct gpu_agent *g, struct place places[PLACES], int to)
{
	struct gpumap_job job = copy(&places[to], &places[ARENA]);

	write_words(to == BUFFER ? places[ARENA].memory : places[to].memory);
	return to != BUFFER || EQ(gpu_agent_do(g->session, g->row, &job), 0);
}

static unsigned int get(struct gpu_agent *g, struct place places[PLACES],
			int from)
{
	struct gpumap_job job = copy(&places[ARENA], &places[from]);

	if (from != BUFFER)
		return count_wrong(places[from].memory);
	memset(places[ARENA].memory, 0, BYTES);
	if (!EQ(gpu_agent_do(g->session, g->row, &job), 0))
		return WORDS;
	return count_wrong(places[ARENA].memory);
}

static void bytes_go_from_anywhere_to_anywhere(struct gpu_agent *g)
{
	struct place places[PLACES], other[PLACES];

	if (!make_places(g, places) || !make_places(g, other))
		return;
	for (int from = 0; from < PLACES; from++)
		for (int to = 0; to < PLACES; to++) {
			struct gpumap_job job = copy(&other[to], &places[from]);

			NOTE("%s to %s", names[from], names[to]);
			if (!put(g, places, from))
				continue;
			EQ(gpu_agent_do(g->session, g->row, &job), 0);
			EQ(get(g, other, to), 0);
		}
	drop_places(g, places);
	drop_places(g, other);
}

/* ---- operators ---------------------------------------------------------- */

static const struct {
	const char *name;
	uint32_t dtype, bytes;
} dtypes[] = {
	{ "f16", GPUMAP_DTYPE_F16, 2 },
	{ "bf16", GPUMAP_DTYPE_BF16, 2 },
	{ "f32", GPUMAP_DTYPE_F32, 4 },
};

/* Numbers of every size and sign, none of them a NaN in any of the types. */
static void write_numbers(uint8_t *at, uint32_t bytes, uint32_t seed)
{
	for (uint32_t i = 0; i < WORDS; i++) {
		uint32_t bits = (i + seed) * 2246822519u;

		if (bytes == 2) {
			uint16_t half =
				(uint16_t)((bits >> 7 & 0x8fff) | 0x3000);

			memcpy(at + 2ull * i, &half, 2);
		} else {
			bits = (bits & 0x8fffffffu) | 0x30000000u;
			memcpy(at + 4ull * i, &bits, 4);
		}
	}
}

/* The row's copy, in memory of its own. */
static bool compute(struct gpu_agent *g, uint32_t row, uint32_t op,
		    uint32_t dtype, uint32_t bytes, void **ret_result)
{
	struct gpumap_job job = { .op = op,
				  .dtype = dtype,
				  .n = WORDS,
				  .alpha = -1.7,
				  .pattern = 0x1234567890abcdefu };
	void *dst = NULL, *src = NULL;

	if (gpumap_alloc(g->session, row, 4ull * WORDS, &dst) ||
	    gpumap_alloc(g->session, row, 4ull * WORDS, &src))
		return false;
	write_numbers(dst, bytes, 1);
	write_numbers(src, bytes, 99);
	job.dst = dst;
	job.src = op == GPUMAP_OP_FILL ? NULL : src;
	*ret_result = dst;
	return EQ(gpu_agent_do(g->session, row, &job), 0) &&
	       EQ(gpumap_free(g->session, src), 0);
}

static void operators_agree_with_the_host(struct gpu_agent *g)
{
	static const struct {
		const char *name;
		uint32_t op;
	} ops[] = { { "fill", GPUMAP_OP_FILL },
		    { "copy", GPUMAP_OP_COPY },
		    { "scale", GPUMAP_OP_SCALE },
		    { "axpy", GPUMAP_OP_AXPY } };

	for (size_t i = 0; i < 4; i++)
		for (size_t d = 0; d < 3; d++) {
			void *card = NULL, *host = NULL;

			/* Arithmetic of host rows is of f32. */
			if (ops[i].op >= GPUMAP_OP_SCALE &&
			    dtypes[d].dtype != GPUMAP_DTYPE_F32)
				continue;
			NOTE("%s of %s", ops[i].name, dtypes[d].name);
			if (!OK(compute(g, g->row, ops[i].op, dtypes[d].dtype,
					dtypes[d].bytes, &card)) ||
			    !OK(compute(g, g->host, ops[i].op, dtypes[d].dtype,
					dtypes[d].bytes, &host)))
				continue;
			EQ(memcmp(card, host, (size_t)dtypes[d].bytes * WORDS),
			   0);
			EQ(gpumap_free(g->session, card), 0);
			EQ(gpumap_free(g->session, host), 0);
		}
}

/* ---- bandwidth and round trips ------------------------------------------ */

/* A bare driver's figures, from a process that has one. */
struct bare {
	double in_gbs, out_gbs;    /* from and to pinned memory */
	double launch_us, copy_us; /* p50 until a poll sees the end */
	double launch99_us, copy99_us;
};

#define PIECE (64 * GPU_MIB)

static double copy_bare(CUdeviceptr device, void *host, CUstream stream,
			bool is_in, size_t n)
{
	double from = contract_now_ms();

	for (size_t i = 0; i < n; i++)
		WANT(!(is_in ? cu.cuMemcpyHtoDAsync_v2(device, host, PIECE,
						       stream)
			     : cu.cuMemcpyDtoHAsync_v2(host, device, PIECE,
						       stream)));
	WANT(!cu.cuStreamSynchronize(stream));
	return (double)(n * PIECE) / 1e6 / (contract_now_ms() - from);
}

static void wait_bare(CUstream stream)
{
	CUresult result;

	do
		result = cu.cuStreamQuery(stream);
	while (result == CUDA_ERROR_NOT_READY);
	WANT(!result);
}

static void trips_bare(CUdeviceptr device, void *host, CUstream stream,
		       struct bare *b)
{
	const size_t n = (size_t)gpu_rounds(20000, 50);
	double *launches = calloc(n, sizeof(double));
	double *copies = calloc(n, sizeof(double));
	CUmodule module;
	CUfunction f;
	uint32_t value = 1;
	void *params[] = { &device, &value };

	WANT(launches && copies);
	WANT(!cu.cuModuleLoadData(&module, CONTRACT_KERNELS));
	WANT(!cu.cuModuleGetFunction(&f, module, "contract_store"));
	for (size_t i = 0; i < n; i++) {
		double from = contract_now_ms(), middle;

		WANT(!cu.cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, stream, params,
					NULL));
		wait_bare(stream);
		middle = contract_now_ms();
		WANT(!cu.cuMemcpyHtoDAsync_v2(device, host, 4, stream));
		wait_bare(stream);
		launches[i] = (middle - from) * 1e3;
		copies[i] = (contract_now_ms() - middle) * 1e3;
	}
	qsort(launches, n, sizeof(double), gpu_compare);
	qsort(copies, n, sizeof(double), gpu_compare);
	b->launch_us = launches[n / 2];
	b->copy_us = copies[n / 2];
	b->launch99_us = launches[n * 99 / 100];
	b->copy99_us = copies[n * 99 / 100];
	free(launches);
	free(copies);
	WANT(!cu.cuModuleUnload(module));
}

static int measure_bare(char **argv)
{
	size_t n = (size_t)gpu_rounds(64, 1);
	struct bare b = { 0 };
	CUdeviceptr device;
	CUcontext context;
	CUstream stream;
	void *host;

	WANT(!contract_load(argv) && !cu.cuInit(0));
	WANT(!cu.cuDevicePrimaryCtxRetain(&context, 0) &&
	     !cu.cuCtxSetCurrent(context));
	WANT(!cu.cuMemAlloc_v2(&device, PIECE));
	WANT(!cu.cuMemHostAlloc(&host, PIECE, 0));
	WANT(!cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	memset(host, 1, PIECE);
	(void)copy_bare(device, host, stream, true, 1);
	b.in_gbs = copy_bare(device, host, stream, true, n);
	b.out_gbs = copy_bare(device, host, stream, false, n);
	trips_bare(device, host, stream, &b);
	WANT(gpu_tell(GPU_PART_SOCKET, &b, sizeof(b), -1));
	WANT(!cu.cuStreamDestroy_v2(stream) && !cu.cuMemFreeHost(host) &&
	     !cu.cuMemFree_v2(device) && !cu.cuCtxSetCurrent(NULL));
	WANT(!cu.cuDevicePrimaryCtxRelease_v2(0));
	return 0;
}

/* Through the agent: eight pieces in flight, from the arena to a buffer. */
static double copy_agent(struct gpu_agent *g, void *memory, uint64_t buffer,
			 bool is_in, size_t n)
{
	struct gpumap_job job = { .op = GPUMAP_OP_COPY,
				  .dtype = GPUMAP_DTYPE_U8,
				  .n = PIECE };
	double from = contract_now_ms();
	size_t sent = 0, ended = 0;

	job.dst = is_in ? NULL : memory;
	job.src = is_in ? memory : NULL;
	job.dst_buffer = is_in ? buffer : 0;
	job.src_buffer = is_in ? 0 : buffer;
	while (ended < n) {
		struct gpumap_done done[8];
		int r;

		while (sent < n && sent - ended < 8)
			if (gpumap_submit(g->session, g->row, &job, 1) == 0)
				sent++;
			else
				break;
		r = gpumap_wait(g->session, done, 8,
				story_now() + STORY_LIMIT_NS);
		if (r < 0)
			return 0;
		for (int i = 0; i < r; i++)
			if (done[i].status)
				return 0;
		ended += (size_t)r;
	}
	return (double)(n * PIECE) / 1e6 / (contract_now_ms() - from);
}

/* p50 and p99 in us of a job that a client polls for. */
static bool trip_agent(struct gpu_agent *g, const struct gpumap_job *job,
		       double *ret_p50, double *ret_p99)
{
	const size_t n = (size_t)gpu_rounds(20000, 50);
	double *times = calloc(n, sizeof(double));
	bool is_good = times != NULL;

	for (size_t i = 0; is_good && i < n; i++) {
		double from = contract_now_ms();
		struct gpumap_done done = { .status = -EIO };
		int r = gpumap_submit(g->session, g->row, job, 1);

		while (r == 0)
			r = gpumap_poll(g->session, &done, 1);
		is_good = r == 1 && done.status == 0;
		times[i] = (contract_now_ms() - from) * 1e3;
	}
	if (is_good) {
		qsort(times, n, sizeof(double), gpu_compare);
		*ret_p50 = times[n / 2];
		*ret_p99 = times[n * 99 / 100];
	}
	free(times);
	return OK(is_good);
}

static void trips(struct gpu_agent *g, const struct bare *b, uint64_t buffer,
		  void *memory)
{
	struct gpumap_job nop = { .op = GPUMAP_OP_NOP };
	struct gpumap_job word = { .op = GPUMAP_OP_COPY,
				   .dtype = GPUMAP_DTYPE_U32,
				   .dst_buffer = buffer,
				   .src = memory,
				   .n = 1 };
	double p50 = 0, p99 = 0;

	if (trip_agent(g, &nop, &p50, &p99))
		FACT("\"trip\":\"nop\",\"us_p50\":%.2f,\"us_p99\":%.2f,"
		     "\"bare_launch_us_p50\":%.2f,\"bare_launch_us_p99\":%.2f,"
		     "\"ratio\":%.3f",
		     p50, p99, b->launch_us, b->launch99_us,
		     p50 / b->launch_us);
	if (trip_agent(g, &word, &p50, &p99))
		FACT("\"trip\":\"4 bytes\",\"us_p50\":%.2f,\"us_p99\":%.2f,"
		     "\"bare_copy_us_p50\":%.2f,\"bare_copy_us_p99\":%.2f,"
		     "\"ratio\":%.3f",
		     p50, p99, b->copy_us, b->copy99_us, p50 / b->copy_us);
}

static void a_bare_loop_is_little_faster(struct gpu_agent *g)
{
	size_t n = (size_t)gpu_rounds(64, 1);
	struct bare b = { 0 };
	struct gpu_part part = { .socket = -1 };
	uint64_t buffer = 0;
	void *memory = NULL;
	double in, out;

	if (!OK(gpu_part_begin("bare", 0, &part)))
		return;
	OK(gpu_hear(part.socket, &b, sizeof(b), NULL));
	EQ(gpu_part_end(&part), 0);
	if (!EQ(gpumap_alloc(g->session, g->row, PIECE, &memory), 0) ||
	    !EQ(gpumap_buffer_alloc(g->session, g->row, PIECE, 0, NO_LIMIT,
				    &buffer),
		0))
		return;
	memset(memory, 1, PIECE);
	OK(copy_agent(g, memory, buffer, true, 1) > 0);
	in = copy_agent(g, memory, buffer, true, n);
	out = copy_agent(g, memory, buffer, false, n);
	OK(in > 0 && out > 0);
	FACT("\"copy\":\"in\",\"gb_s\":%.2f,\"bare_gb_s\":%.2f,\"ratio\":%.3f",
	     in, b.in_gbs, in / b.in_gbs);
	FACT("\"copy\":\"out\",\"gb_s\":%.2f,\"bare_gb_s\":%.2f,\"ratio\":%.3f",
	     out, b.out_gbs, out / b.out_gbs);
	trips(g, &b, buffer, memory);
	EQ(gpumap_buffer_free(g->session, buffer), 0);
	EQ(gpumap_free(g->session, memory), 0);
}

TAP_CASE_ARGS(argc, argv)
{
	struct gpu_agent g;

	gpu_agent_go_under(argv);
	if (argc == 3)
		return measure_bare(argv);
	if (!gpu_begin(argv))
		return tap_done();
	if (gpu_agent_make(&g, "") && gpu_agent_session(&g, 256 * GPU_MIB)) {
		bytes_go_from_anywhere_to_anywhere(&g);
		operators_agree_with_the_host(&g);
		a_bare_loop_is_little_faster(&g);
	}
	gpu_agent_remove(&g);
	return tap_done();
}
