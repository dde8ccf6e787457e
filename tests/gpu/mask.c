/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Masks on a card, in a program's own context: gpumap/cuda.h imports a replica
 * once, and again when the mask has been published anew, by a client or after
 * the death of the row's worker; what it finds there is the mask, to the last
 * bit.
 */

#include <errno.h>

#include "agent/mask/mask.h"
#include "tests/contract/public_cuda.h"
#include "tests/gpu/agent.h"

#define SIZE  1500u /* queries, and keys: more than two granules as bf16 */
#define BYTES ((uint64_t)SIZE * SIZE * 2)

static struct gpu_agent g;

static int publish(uint64_t window, const uint32_t *rows, uint32_t n)
{
	struct gpumap_mask_request r = {
		.size = sizeof(r),
		.name = "m",
		.kind = GPUMAP_MASK_CUSTOM,
		.form = GPUMAP_MASK_SLIDING,
		.dtype = GPUMAP_DTYPE_BF16,
		.tgt_len = SIZE,
		.sliding_window = window,
		.rows = rows,
		.n_rows = n,
	};
	int ret = gpumap_mask_publish(g.map, &r, NULL);

	if (ret != 0)
		NOTE("%d: %s", ret, gpumap_refusal(g.map));
	return ret;
}

static bool is_right(const struct gpumap_cuda_mask *mask, uint64_t window)
{
	const struct gm_mask_spec spec = { .form = GM_MASK_SLIDING,
					   .tgt_len = SIZE,
					   .sliding_window = window };
	char *want = malloc(BYTES), *got = malloc(BYTES);
	bool right = false;

	if (want && got && mask->memory.bytes == BYTES &&
	    cu.cuMemcpyDtoH_v2(got, mask->memory.address, BYTES) ==
		    CUDA_SUCCESS) {
		gm_mask_fill(&spec, GPUMAP_DTYPE_BF16, 0, SIZE, want);
		right = memcmp(got, want, BYTES) == 0;
	}
	free(want);
	free(got);
	return right;
}

/* Descriptors of replicas that the agent has handed out. */
static uint32_t times_lent(void)
{
	char path[PATH_MAX], line[1024];
	uint32_t n = 0;
	FILE *log;

	snprintf(path, sizeof(path), "%s/log", g.agent.dir);
	log = fopen(path, "re");
	while (log && fgets(line, sizeof(line), log))
		n += strstr(line, "event=mask_lent ") != NULL;
	if (log)
		fclose(log);
	return n;
}

static int get(struct gpumap_mask *mask, struct gpumap_cuda_mask *cached)
{
	CUresult result = CUDA_SUCCESS;
	int ret = gpumap_cuda_mask_get(g.map, mask, g.row, cached, &result);

	if (ret != 0 && ret != -EAGAIN)
		NOTE("%d: CUDA %d: %s", ret, result, gpumap_refusal(g.map));
	return ret;
}

/* Once more until it is there, with what was found on the way. */
static int get_new(struct gpumap_mask *mask, struct gpumap_cuda_mask *cached,
		   uint64_t not_this)
{
	uint64_t until = story_now() + STORY_LIMIT_NS;
	int ret = -ETIME;

	while (story_now() < until) {
		ret = get(mask, cached);
		if (ret != -EAGAIN && (ret || cached->export_id != not_this))
			break;
		story_nap(1000);
	}
	return ret;
}

static void a_mask_is_imported_once(struct gpumap_mask *mask,
				    struct gpumap_cuda_mask *cached)
{
	CUdeviceptr at;

	if (!EQ(get(mask, cached), 0))
		return;
	OK(is_right(cached, 100));
	at = cached->memory.address;
	for (int i = 0; i < 1000; i++) {
		if (get(mask, cached) != 0 || cached->memory.address != at)
			break;
	}
	EQ(cached->memory.address, at);
	EQ(times_lent(), 1);
	EQ(gpumap_cuda_mask_get(g.map, mask, g.host, cached, NULL),
	   -EOPNOTSUPP);
	EQ(cached->memory.address, at);
}

static void a_new_version_takes_its_place(struct gpumap_mask *mask,
					  struct gpumap_cuda_mask *cached)
{
	const uint32_t rows[] = { g.row, g.host };
	uint64_t id = cached->export_id;

	EQ(publish(200, rows, 2), 0);
	EQ(get(mask, cached), -EAGAIN);
	EQ(cached->export_id, id);
	OK(is_right(cached, 100)); /* ours until the next call */
	EQ(get(mask, cached), 0);
	OK(cached->export_id != id);
	OK(is_right(cached, 200));
	EQ(times_lent(), 2);
}

static void it_outlives_the_worker(struct gpumap_mask *mask,
				   struct gpumap_cuda_mask *cached)
{
	struct gpumap_device device = story_device(g.map, g.row);
	uint64_t id = cached->export_id;

	if (!OK(device.worker_pid != 0))
		return;
	kill((pid_t)device.worker_pid, SIGKILL);
	OK(story_back(g.map, g.row, device.restarts));
	OK(is_right(cached, 200));
	EQ(get_new(mask, cached, id), 0);
	OK(cached->export_id != id);
	OK(is_right(cached, 200));
	EQ(times_lent(), 3);
}

static void what_is_released_stays(struct gpumap_mask *mask,
				   struct gpumap_cuda_mask *cached)
{
	EQ(gpumap_mask_release(g.map, "m"), 0);
	EQ(get(mask, cached), -ENOENT);
	OK(is_right(cached, 200));
	EQ(gpumap_cuda_mask_release(cached), CUDA_SUCCESS);
	EQ(gpumap_cuda_mask_release(cached), CUDA_SUCCESS);
	EQ(cached->export_id, 0);
}

static void in_our_context(void)
{
	const uint32_t rows[] = { g.row, g.host };
	struct gpumap_cuda_mask cached = { .export_id = 0 };
	struct gpumap_mask *mask = NULL;
	CUcontext context;
	CUdevice device;

	if (!EQ(gpumap_cuda_device(g.map, g.row, &device), 0) ||
	    !EQ(cu.cuDevicePrimaryCtxRetain(&context, device), CUDA_SUCCESS) ||
	    !EQ(cu.cuCtxSetCurrent(context), CUDA_SUCCESS))
		return;
	EQ(publish(100, rows, 2), 0);
	if (EQ(gpumap_mask_open(g.map, "m", 0, &mask), 0)) {
		a_mask_is_imported_once(mask, &cached);
		a_new_version_takes_its_place(mask, &cached);
		it_outlives_the_worker(mask, &cached);
		what_is_released_stays(mask, &cached);
		gpumap_mask_close(g.map, mask);
	}
	cu.cuDevicePrimaryCtxRelease_v2(device);
}

TAP_CASE_ARGS(argc, argv)
{
	(void)argc;
	gpu_agent_go_under(argv);
	if (!gpu_begin(argv))
		return tap_done();
	if (gpu_agent_make(&g, ""))
		in_our_context();
	gpu_agent_remove(&g);
	return tap_done();
}
