/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * The built-in operators on a device, by our own way to the driver, against
 * their definition: all kernels, aligned and not.
 *
 * On a card this runs their PTX.  Under $CONTRACT_UNDER it runs what stands in
 * for it, and shows that names, parameters and launches fit.
 */

#include <errno.h>
#include <unistd.h>

#include "agent/cuda/cuerror.h"
#include "agent/cuda/driver.h"
#include "tests/support/operators/operators_case.h"
#include "tests/support/stand_in.h"
#include "tests/support/tap.h"

#define N     1500u
#define ROOM  (N * 8u + 64u)
#define ROOMS 3u /* dst, src, mask */

static struct gm_driver cu;
static struct CUmod_st *module;
static struct CUstream_st *stream;
static gm_cu_ptr device;
static uint32_t units;
static unsigned char host[ROOMS][ROOM], want[ROOM], got[ROOM];

static bool good(gm_cu_result result, const char *call)
{
	if (result == GM_CU_SUCCESS)
		return true;
	NOTE("%s: %u, %s", call, result, gm_cuerror_name(result));
	return false;
}

#define GOOD(call) good((call), #call)

/* The first device, its primary context, the text, a stream and memory. */
static bool set_up(void)
{
	struct CUctx_st *context;
	int dev, count;

	return GOOD(cu.cuDeviceGet(&dev, 0)) &&
	       GOOD(cu.cuDeviceGetAttribute(&count, GM_CU_MULTIPROCESSOR_COUNT,
					    dev)) &&
	       (units = (uint32_t)count) > 0 &&
	       GOOD(cu.cuDevicePrimaryCtxRetain(&context, dev)) &&
	       GOOD(cu.cuCtxSetCurrent(context)) &&
	       GOOD(cu.cuModuleLoadDataEx(&module, gm_operators_ptx, 0, NULL,
					  NULL)) &&
	       GOOD(cu.cuStreamCreateWithPriority(
		       &stream, GM_CU_STREAM_NON_BLOCKING, 0)) &&
	       GOOD(cu.cuMemAlloc(&device, ROOMS * ROOM));
}

static bool tear_down(void)
{
	return GOOD(cu.cuMemFree(device)) && GOOD(cu.cuStreamDestroy(stream)) &&
	       GOOD(cu.cuModuleUnload(module)) &&
	       GOOD(cu.cuCtxSetCurrent(NULL)) &&
	       GOOD(cu.cuDevicePrimaryCtxRelease(0));
}

/* On the device, with what the definition is given. */
static bool launch(const struct trial *t, const struct ref_args *at_host)
{
	struct ref_args a = *at_host;
	char name[GM_OPERATOR_NAME_BYTES];
	struct gm_worker_exec l = gm_operators_launch(t->op, t->n, units);
	struct CUfunc_st *fn;
	uint64_t values[6];
	void *params[6];

	a.dst = (void *)(uintptr_t)(device + t->shift);
	a.src = (void *)(uintptr_t)(device + ROOM + t->src_shift);
	a.mask = (void *)(uintptr_t)(device + 2 * ROOM + t->mask_shift);
	parameters(t, &a, values);
	for (int i = 0; i < 6; i++)
		params[i] = &values[i];
	return gm_operators_name(t->op, t->dtype, t->to, name) == 0 &&
	       GOOD(cu.cuModuleGetFunction(&fn, module, name)) &&
	       GOOD(cu.cuMemcpyHtoDAsync(device, host, ROOMS * ROOM, stream)) &&
	       GOOD(cu.cuLaunchKernel(fn, l.blocks, 1, 1, l.threads, 1, 1, 0,
				      stream, params, NULL)) &&
	       GOOD(cu.cuMemcpyDtoHAsync(got, device, ROOM, stream)) &&
	       GOOD(cu.cuStreamSynchronize(stream));
}

static bool holds(const struct trial *t)
{
	struct ref_args a = {
		.dst = want + t->shift,
		.src = host[1] + t->src_shift,
		.mask = host[2] + t->mask_shift,
		.n = t->n,
		.alpha = -1.5,
		.pattern = any_bits(),
		.m = 77,
		.at = 5,
	};
	uint32_t out = out_dtype(t);
	uint64_t end = t->shift + out_n(t) * ref_bytes(out);

	throw_numbers(host[0], ROOM, GPUMAP_DTYPE_U8, ANY);
	throw_numbers(host[0] + t->shift, out_n(t), out, t->numbers);
	throw_numbers(host[1] + t->src_shift, t->n, t->dtype, t->numbers);
	throw_numbers(host[2] + t->mask_shift, a.m, t->dtype, t->numbers);
	if (t->op == GM_OPERATOR_MASK_BOOL)
		memset(host[2], 0, t->mask_shift + 40);
	memcpy(want, host[0], ROOM);
	ref_run(t->op, t->dtype, t->to, &a);
	if (!launch(t, &a))
		return false;
	for (uint64_t i = 0; i < out_n(t); i++) {
		if (!ref_same(out, ref_load(got + t->shift, i, out),
			      ref_load(want + t->shift, i, out))) {
			NOTE("element %" PRIu64, i);
			return false;
		}
	}
	return memcmp(got, want, t->shift) == 0 &&
	       memcmp(got + end, want + end, ROOM - end) == 0;
}

static void try_kernel(uint32_t op, uint32_t dtype, uint32_t to,
		       const char *name)
{
	struct trial t = { .op = op, .dtype = dtype, .to = to, .n = N };
	bool pass;

	t.numbers = ANY;
	pass = holds(&t);
	t.numbers = TAME;
	t.n = N - 7;
	t.shift = t.src_shift = 3;
	t.mask_shift = 1;
	tap_check(holds(&t) && pass, name, __FILE__, __LINE__);
}

TAP_CASE_ARGS(argc, argv)
{
	char why[GM_LIBRARY_WHY_BYTES];
	gm_cu_result result;
	int rc;

	stand_in_exec(argv);
	rc = gm_driver_open(getenv("GM_CUDA_LIBRARY"), &cu, why);
	if (rc == -ENOENT) {
		LACK("cuda", 1, why);
		return tap_done();
	}
	if (!EQ(rc, 0)) {
		NOTE("%s", why);
		return tap_done();
	}
	result = cu.cuInit(0);
	if (gm_cuerror_class(result) == GM_CUERROR_ABSENT) {
		LACK("cuda", 1, "no device");
		return tap_done();
	}
	if (OK(GOOD(result)) && OK(set_up())) {
		for_each_kernel(try_kernel);
		OK(tear_down());
	}
	return tap_done();
}
