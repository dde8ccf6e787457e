/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * The backend of CUDA rows with other cards: three of them form a clique, by
 * the stand-in for NCCL, and do collectives, and any two of them sends; a
 * version that is too old, a rank that never comes and an asynchronous error
 * are each found out, and what is aborted leaves its card as it was.  Rows of
 * HIP do the same by the stand-in for RCCL.
 */

#include <endian.h>
#include <inttypes.h>
#include <limits.h>

#include "agent/cuda/nccl.h"
#include "tests/stubs/nccl.h"
#include "tests/support/gpu_bench.h"
#include "tests/support/fake_machine.h"

#define RANKS 3u
#define N     1025u
#define BYTES (N * sizeof(int32_t))

_Static_assert(sizeof(struct gm_nccl_config) == sizeof(ncclConfig_t) &&
		       offsetof(struct gm_nccl_config, blocking) ==
			       offsetof(ncclConfig_t, blocking) &&
		       offsetof(struct gm_nccl_config, net_name) ==
			       offsetof(ncclConfig_t, netName) &&
		       offsetof(struct gm_nccl_config, split_share) ==
			       offsetof(ncclConfig_t, splitShare) &&
		       sizeof(struct gm_nccl_id) == sizeof(ncclUniqueId),
	       "one layout");
_Static_assert((int)GM_NCCL_U8 == (int)ncclUint8 &&
		       (int)GM_NCCL_I32 == (int)ncclInt32 &&
		       (int)GM_NCCL_I64 == (int)ncclInt64 &&
		       (int)GM_NCCL_F16 == (int)ncclFloat16 &&
		       (int)GM_NCCL_F32 == (int)ncclFloat32 &&
		       (int)GM_NCCL_BF16 == (int)ncclBfloat16 &&
		       (int)GM_NCCL_SUM == (int)ncclSum &&
		       (int)GM_NCCL_PROD == (int)ncclProd &&
		       (int)GM_NCCL_MIN == (int)ncclMin &&
		       (int)GM_NCCL_MAX == (int)ncclMax &&
		       (int)GM_NCCL_AVG == (int)ncclAvg &&
		       (int)GM_NCCL_IN_PROGRESS == (int)ncclInProgress,
	       "the same numbers");

static const struct gm_backend *cuda = &gm_cuda_backend;

static char folder[PATH_MAX];

struct ring {
	struct fake_hardware hw;
	struct gm_backend_device *dev[RANKS];
	struct gm_nccl_group *clique[RANKS];
	struct gm_buffer *give[RANKS], *get[RANKS];
};

/* As gm_device_config has it. */
static void name_card(const struct fake_gpu *gpu, char ret_id[FAKE_UUID_TEXT])
{
	uint64_t number;

	memcpy(&number, gpu->uuid, sizeof(number));
	fake_uuid_print(gpu, ret_id);
	if (cuda == &gm_hip_backend)
		snprintf(ret_id, FAKE_UUID_TEXT, "GPU-%016" PRIx64,
			 be64toh(number));
}

/* Each rank has its own thread in a worker; here they take turns. */
static void be(const struct ring *r, uint32_t rank)
{
	struct gm_device_memory memory;

	cuda->memory(r->dev[rank], &memory);
}

static int ring_open(struct ring *r)
{
	char text[FAKE_UUID_TEXT];
	struct gm_device_config config = { .uuid = text, .nccl = folder };

	memset(r, 0, sizeof(*r));
	WANT(fake_hardware_open(getenv("GPUMAP_FAKE_HARDWARE"), &r->hw) == 0);
	for (uint32_t i = 0; i < RANKS; i++) {
		name_card(&r->hw.board->gpus[i], text);
		WANT(cuda->open(&config, &r->dev[i]) == 0);
		WANT(cuda->alloc(r->dev[i], 1, RANKS * BYTES, 0, &r->give[i]) ==
		     0);
		WANT(cuda->alloc(r->dev[i], 1, RANKS * BYTES, 0, &r->get[i]) ==
		     0);
	}
	return 0;
}

static int ring_begin(struct ring *r, uint32_t ranks)
{
	unsigned char id[GM_NCCL_GROUP_ID_BYTES];

	WANT(cuda->clique_version(r->dev[0]) >= GM_NCCL_MIN_VERSION);
	WANT(cuda->clique_id(r->dev[0], id) == 0);
	for (uint32_t i = 0; i < ranks; i++)
		WANT(cuda->clique_begin(r->dev[i], id, i, RANKS,
					&r->clique[i]) == 0);
	return 0;
}

static int ring_meet(struct ring *r)
{
	WANT(ring_begin(r, RANKS) == 0);
	for (uint32_t i = 0; i < RANKS; i++) {
		uint64_t until = bench_now_ms() + 6 * BENCH_WAIT;
		int rc = 0;

		while (rc == 0 && bench_now_ms() < until)
			rc = cuda->clique_ready(r->dev[i], r->clique[i]);
		WANT(rc == 1);
	}
	return 0;
}

static int ring_close(struct ring *r)
{
	for (uint32_t i = 0; i < RANKS; i++) {
		cuda->clique_abort(r->dev[i], r->clique[i]);
		be(r, i);
		cuda->free(r->dev[i], r->give[i]);
		cuda->free(r->dev[i], r->get[i]);
	}
	for (uint32_t i = 0; i < RANKS; i++)
		cuda->close(r->dev[i]);
	fake_hardware_leave(&r->hw);
	return 0;
}

static int32_t value(uint32_t rank, uint32_t i)
{
	return (int32_t)(rank * 1000003u + i * 7u) - 999;
}

static int fill(struct ring *r)
{
	int32_t *values = malloc(RANKS * BYTES);

	WANT(values);
	for (uint32_t k = 0; k < RANKS; k++) {
		for (uint32_t i = 0; i < RANKS * N; i++)
			values[i] = value(k, i);
		be(r, k);
		WANT(gm_device_store(r->dev[k], r->give[k]->address, values,
				     RANKS * BYTES) == 0);
		memset(values, 0x33, RANKS * BYTES);
		WANT(gm_device_store(r->dev[k], r->get[k]->address, values,
				     RANKS * BYTES) == 0);
	}
	free(values);
	return 0;
}

/* At rank @k, all of it.  Returns what the last one that did not end well
 * said. */
static int together(struct ring *r, uint32_t op, uint32_t reduce)
{
	int worst = 1;

	for (uint32_t k = 0; k < RANKS; k++) {
		struct gm_nccl_group_task t = { .op = op,
						.dtype = GPUMAP_DTYPE_I32,
						.reduce = reduce,
						.peer = 1,
						.n = N,
						.send = r->give[k]->address,
						.recv = r->get[k]->address };

		if (op == GM_NCCL_GROUP_BROADCAST && k == t.peer)
			t.recv = 0;
		else if (op == GM_NCCL_GROUP_BROADCAST)
			t.send = 0;
		be(r, k);
		WANT(cuda->clique_start(r->dev[k], r->clique[k], &t) == 0);
	}
	for (uint32_t k = 0; k < RANKS; k++) {
		uint64_t until = bench_now_ms() + 6 * BENCH_WAIT;
		int rc = 0;

		be(r, k);
		while (rc == 0 && bench_now_ms() < until)
			rc = cuda->clique_ended(r->dev[k], r->clique[k]);
		if (rc != 1)
			worst = rc;
	}
	return worst;
}

static int64_t of_all(uint32_t op, uint32_t i)
{
	int64_t all = value(0, i);

	for (uint32_t k = 1; k < RANKS; k++) {
		int64_t one = value(k, i);

		if (op == GPUMAP_REDUCE_MAX)
			all = one > all ? one : all;
		else if (op == GPUMAP_REDUCE_MIN)
			all = one < all ? one : all;
		else
			all += one;
	}
	return op == GPUMAP_REDUCE_AVERAGE ? all / (int64_t)RANKS : all;
}

static int32_t wanted(uint32_t op, uint32_t reduce, uint32_t rank, uint32_t i)
{
	switch (op) {
	case GM_NCCL_GROUP_ALL_REDUCE:
		return (int32_t)of_all(reduce, i);
	case GM_NCCL_GROUP_REDUCE_SCATTER:
		return (int32_t)of_all(reduce, rank * N + i);
	case GM_NCCL_GROUP_ALL_GATHER:
		return value(i / N, i % N);
	default:
		return value(1, i);
	}
}

static int look_at(struct ring *r, uint32_t op, uint32_t reduce)
{
	uint32_t n = op == GM_NCCL_GROUP_ALL_GATHER ? RANKS * N : N, wrong = 0;
	int32_t *got = malloc(RANKS * BYTES);

	WANT(got);
	for (uint32_t k = 0; k < RANKS; k++) {
		if (op == GM_NCCL_GROUP_BROADCAST && k == 1)
			continue;
		be(r, k);
		WANT(gm_device_fetch(r->dev[k], r->get[k]->address, got,
				     RANKS * BYTES) == 0);
		for (uint32_t i = 0; i < n; i++)
			wrong += got[i] != wanted(op, reduce, k, i);
		for (uint32_t i = n; i < RANKS * N; i++)
			wrong += got[i] != 0x33333333;
	}
	free(got);
	WANT(wrong == 0);
	return 0;
}

static int everything_is_right(void)
{
	struct ring r;

	WANT(ring_open(&r) == 0);
	WANT(ring_meet(&r) == 0);
	for (uint32_t op = GM_NCCL_GROUP_ALL_REDUCE;
	     op <= GM_NCCL_GROUP_BROADCAST; op++) {
		bool reduces = op == GM_NCCL_GROUP_ALL_REDUCE ||
			       op == GM_NCCL_GROUP_REDUCE_SCATTER;

		for (uint32_t how = 0; how <= GPUMAP_REDUCE_AVERAGE; how++) {
			if (how == GPUMAP_REDUCE_PRODUCT || (!reduces && how))
				continue;
			WANT(fill(&r) == 0);
			WANT(together(&r, op, how) == 1);
			WANT(look_at(&r, op, how) == 0);
		}
	}
	return ring_close(&r);
}

/* ---- pairs --------------------------------------------------------------- */

/* One end of it, of @n elements of a type.  Returns as clique_start(). */
static int pass_on(struct ring *r, uint32_t op, uint32_t rank, uint32_t peer,
		   uint32_t dtype, uint64_t n)
{
	const struct gm_nccl_group_task t = {
		.op = op,
		.dtype = dtype,
		.peer = peer,
		.n = n,
		.send = op == GM_NCCL_GROUP_SEND ? r->give[rank]->address : 0,
		.recv = op == GM_NCCL_GROUP_RECV ? r->get[rank]->address : 0,
	};

	be(r, rank);
	return cuda->clique_start(r->dev[rank], r->clique[rank], &t);
}

/* The final status of one rank's part. */
static int ended(struct ring *r, uint32_t rank)
{
	uint64_t until = bench_now_ms() + 6 * BENCH_WAIT;
	int rc = 0;

	be(r, rank);
	while (rc == 0 && bench_now_ms() < until)
		rc = cuda->clique_ended(r->dev[rank], r->clique[rank]);
	return rc;
}

/* From one to another, so many bytes and no more; the third has no part in
 * it. */
static int pair_once(struct ring *r, uint32_t from, uint32_t to, uint32_t dtype,
		     uint64_t n)
{
	static const uint32_t each[] = {
		[GPUMAP_DTYPE_U8] = 1,   [GPUMAP_DTYPE_F16] = 2,
		[GPUMAP_DTYPE_BF16] = 2, [GPUMAP_DTYPE_F32] = 4,
		[GPUMAP_DTYPE_I32] = 4,  [GPUMAP_DTYPE_I64] = 8,
	};
	uint64_t bytes = n * each[dtype];
	unsigned char *gave = malloc(RANKS * BYTES), *got;

	got = malloc(RANKS * BYTES);
	WANT(gave && got && bytes <= RANKS * BYTES);
	WANT(fill(r) == 0);
	/* The first rank waits for the other. */
	if (n % 2)
		WANT(pass_on(r, GM_NCCL_GROUP_SEND, from, to, dtype, n) == 0);
	WANT(pass_on(r, GM_NCCL_GROUP_RECV, to, from, dtype, n) == 0);
	if (n % 2 == 0)
		WANT(pass_on(r, GM_NCCL_GROUP_SEND, from, to, dtype, n) == 0);
	WANT(ended(r, to) == 1);
	WANT(ended(r, from) == 1);
	be(r, from);
	WANT(gm_device_fetch(r->dev[from], r->give[from]->address, gave,
			     RANKS * BYTES) == 0);
	for (uint32_t k = 0; k < RANKS; k++) {
		uint64_t i = k == to ? bytes : 0, wrong = 0;

		be(r, k);
		WANT(gm_device_fetch(r->dev[k], r->get[k]->address, got,
				     RANKS * BYTES) == 0);
		WANT(k != to || memcmp(got, gave, bytes) == 0);
		for (; i < RANKS * BYTES; i++)
			wrong += got[i] != 0x33;
		WANT(wrong == 0);
	}
	free(gave);
	free(got);
	return 0;
}

/* Any two, in either direction, as often as they like: the others are together
 * all the same. */
static int pairs_are_right(void)
{
	static const uint32_t dtypes[] = {
		GPUMAP_DTYPE_U8,  GPUMAP_DTYPE_F16, GPUMAP_DTYPE_BF16,
		GPUMAP_DTYPE_F32, GPUMAP_DTYPE_I32, GPUMAP_DTYPE_I64
	};
	static const uint64_t sizes[] = { 1, 2, 333, 512, N };
	struct ring r;

	WANT(ring_open(&r) == 0);
	WANT(ring_meet(&r) == 0);
	for (uint32_t d = 0; d < 6; d++) {
		for (uint32_t i = 0; i < 5; i++) {
			uint32_t from = (d + i) % RANKS;
			uint32_t to = (from + 1 + i % 2) % RANKS;

			WANT(pair_once(&r, from, to, dtypes[d], sizes[i]) == 0);
		}
		WANT(fill(&r) == 0);
		WANT(together(&r, GM_NCCL_GROUP_ALL_REDUCE, 0) == 1);
		WANT(look_at(&r, GM_NCCL_GROUP_ALL_REDUCE, 0) == 0);
	}
	return ring_close(&r);
}

/* The other rank never begins its end: only an abort brings ours back. */
static int half_a_pair_is_aborted(void)
{
	struct ring r;

	WANT(ring_open(&r) == 0);
	for (uint32_t op = GM_NCCL_GROUP_SEND; op <= GM_NCCL_GROUP_RECV; op++) {
		WANT(ring_meet(&r) == 0);
		WANT(fill(&r) == 0);
		WANT(pass_on(&r, op, 1, 2, GPUMAP_DTYPE_I32, RANKS * N) == 0);
		usleep(50000);
		/* The source of a send may lie between them. */
		WANT(op == GM_NCCL_GROUP_SEND ||
		     cuda->clique_ended(r.dev[1], r.clique[1]) == 0);
		for (uint32_t k = 0; k < RANKS; k++) {
			cuda->clique_abort(r.dev[k], r.clique[k]);
			r.clique[k] = NULL;
		}
	}
	WANT(ring_meet(&r) == 0);
	WANT(pair_once(&r, 2, 1, GPUMAP_DTYPE_F32, N) == 0);
	return ring_close(&r);
}

/* ---- what goes wrong ----------------------------------------------------- */

/* At both ends.  All abort, the third one too, and have it again. */
static int a_pair_fails(void)
{
	struct ring r;

	WANT(ring_open(&r) == 0);
	WANT(ring_meet(&r) == 0);
	WANT(fill(&r) == 0);
	setenv("FAKE_NCCL", "async=1", 1);
	WANT(pass_on(&r, GM_NCCL_GROUP_SEND, 0, 2, GPUMAP_DTYPE_F16, N) == 0);
	WANT(pass_on(&r, GM_NCCL_GROUP_RECV, 2, 0, GPUMAP_DTYPE_F16, N) == 0);
	WANT(ended(&r, 0) == -EIO);
	WANT(ended(&r, 2) == -EIO);
	unsetenv("FAKE_NCCL");
	for (uint32_t k = 0; k < RANKS; k++) {
		cuda->clique_abort(r.dev[k], r.clique[k]);
		r.clique[k] = NULL;
	}
	WANT(ring_meet(&r) == 0);
	WANT(pair_once(&r, 0, 2, GPUMAP_DTYPE_F16, N) == 0);
	return ring_close(&r);
}

/* The first collective fails where it is, and everywhere its kernels hang:
 * after the abort a clique can be had again. */
static int an_error_is_found_and_aborted(void)
{
	struct ring r;

	WANT(ring_open(&r) == 0);
	WANT(ring_meet(&r) == 0);
	WANT(fill(&r) == 0);
	setenv("FAKE_NCCL", "async=1", 1);
	WANT(together(&r, GM_NCCL_GROUP_ALL_REDUCE, 0) == -EIO);
	unsetenv("FAKE_NCCL");
	for (uint32_t k = 0; k < RANKS; k++) {
		cuda->clique_abort(r.dev[k], r.clique[k]);
		r.clique[k] = NULL;
	}
	WANT(ring_meet(&r) == 0);
	WANT(fill(&r) == 0);
	WANT(together(&r, GM_NCCL_GROUP_ALL_GATHER, 0) == 1);
	WANT(look_at(&r, GM_NCCL_GROUP_ALL_GATHER, 0) == 0);
	return ring_close(&r);
}

/* The others are not ready as long as one is missing, and are let go of it. */
static int a_rank_that_never_comes(void)
{
	struct ring r;

	WANT(ring_open(&r) == 0);
	WANT(ring_begin(&r, RANKS - 1) == 0);
	usleep(100000);
	for (uint32_t k = 0; k < RANKS - 1; k++)
		WANT(cuda->clique_ready(r.dev[k], r.clique[k]) == 0);
	return ring_close(&r);
}

static int what_is_no_nccl_is_refused(void)
{
	char why[GM_LIBRARY_WHY_BYTES] = "";
	struct gm_nccl nccl = { .version = 77 };

	WANT(gm_nccl_open(GM_NCCL_NVIDIA, "/nowhere", &nccl, why) == -ELIBBAD);
	WANT(strstr(why, "/nowhere") && nccl.version == 77);
	setenv("FAKE_NCCL", "version=21805", 1);
	WANT(gm_nccl_open(GM_NCCL_NVIDIA, folder, &nccl, why) == -EOPNOTSUPP);
	WANT(strstr(why, "2.18.5") && strstr(why, "2.19"));
	setenv("FAKE_NCCL", "version=30000", 1);
	WANT(gm_nccl_open(GM_NCCL_NVIDIA, folder, &nccl, why) == -EOPNOTSUPP);
	unsetenv("FAKE_NCCL");
	WANT(nccl.version == 77);
	WANT(gm_nccl_open(GM_NCCL_NVIDIA, folder, &nccl, why) == 0);
	WANT(nccl.version == 22809);
	WANT(strcmp(gm_nccl_error_name(GM_NCCL_INVALID_USAGE),
		    "invalid usage") == 0);
	WANT(strcmp(gm_nccl_error_name(99), "unknown result") == 0);
	return 0;
}

/* ---- the same by RCCL ---------------------------------------------------- */

static int hip_is_right(void)
{
	cuda = &gm_hip_backend;
	return everything_is_right();
}

static int hip_pairs_are_right(void)
{
	cuda = &gm_hip_backend;
	return pairs_are_right();
}

static int hip_errors_are_found(void)
{
	cuda = &gm_hip_backend;
	return an_error_is_found_and_aborted();
}

static int an_old_rccl_is_refused(void)
{
	char why[GM_LIBRARY_WHY_BYTES] = "";
	struct gm_nccl nccl;
	struct ring r;

	cuda = &gm_hip_backend;
	setenv("FAKE_NCCL", "version=21806", 1);
	WANT(gm_nccl_open(GM_NCCL_AMD, folder, &nccl, why) == -EOPNOTSUPP);
	WANT(strstr(why, "RCCL 2.18.6") && strstr(why, "ROCm 6.2"));
	WANT(ring_open(&r) == 0);
	WANT(cuda->clique_version(r.dev[0]) == -EOPNOTSUPP);
	unsetenv("FAKE_NCCL");
	WANT(cuda->clique_version(r.dev[0]) == 22005);
	return ring_close(&r);
}

static const struct scene_part parts[] = {
	{ "everything_is_right", NULL, everything_is_right },
	{ "pairs_are_right", NULL, pairs_are_right },
	{ "half_a_pair_is_aborted", NULL, half_a_pair_is_aborted },
	{ "a_pair_fails", NULL, a_pair_fails },
	{ "an_error_is_found_and_aborted", NULL,
	  an_error_is_found_and_aborted },
	{ "a_rank_that_never_comes", NULL, a_rank_that_never_comes },
	{ "what_is_no_nccl_is_refused", NULL, what_is_no_nccl_is_refused },
	{ "hip_is_right", NULL, hip_is_right },
	{ "hip_pairs_are_right", NULL, hip_pairs_are_right },
	{ "hip_errors_are_found", NULL, hip_errors_are_found },
	{ "an_old_rccl_is_refused", NULL, an_old_rccl_is_refused },
};

TAP_CASE_ARGS(argc, argv)
{
	const char *build = getenv("abs_top_builddir");

	snprintf(folder, sizeof(folder), "%s/tests/fake/.libs",
		 build ? build : ".");
	return scene_main(argc, argv, NULL, parts,
			  sizeof(parts) / sizeof(parts[0]));
}
