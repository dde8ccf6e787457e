/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * contract - includes and helpers of all tests of the driver's promises.
 *
 * The tests reach the driver as programs do: libcuda.so.1 by its soname, each
 * call through cuGetProcAddress under the CUDA version of its form.  They run
 * unchanged on a card, on a driver of another kind in the folder
 * $GM_CUDA_LIBRARY, and on a machine that is not there: $CONTRACT_UNDER, where
 * set, is a command that gives them one, and they run themselves under it.  A
 * test that needs more than the machine has is skipped with the reason.
 */
#ifndef GM_TEST_CONTRACT_CONTRACT_H
#define GM_TEST_CONTRACT_CONTRACT_H

#include "tests/support/cuda_abi.h"
#include "tests/support/tap.h"

struct contract_cu {
#define SYMBOL(name, since, function) __typeof__(&function) function;
#include "tests/support/cuda_symbols.h"
#undef SYMBOL
};

/* The driver.  A call that it lacks is NULL. */
extern struct contract_cu cu;

/* dlopen() a library of the driver, in $GM_CUDA_LIBRARY if that is set. */
void *contract_open(const char *name);

/* Load it.  NULL, or what there is not. */
const char *contract_load(char **argv);

/* Is there a card, rather than a stand-in? */
bool contract_is_real(void);

/*
 * PRESUME - what the stand-in does because drivers seem to do it
 *
 * No document promises it, or another process that uses the card may change
 * it, and gpumap does not depend on it.  On the stand-in it is a check as OK
 * is.  On a card that is otherwise the check is skipped, and a line of the
 * report says so.
 */
#define PRESUME(condition) \
	contract_presume((condition), #condition, __FILE__, __LINE__)
bool contract_presume(bool holds, const char *what, const char *file, int line);

/* A call that is to succeed. */
#define GOOD(call) EQ((call), CUDA_SUCCESS)

/*
 * contract_begin - load the driver
 *
 * Returns	true: go on
 *		false: there is none; the test has been told to skip, and main
 *		returns tap_done()
 */
static inline bool contract_begin(char **argv)
{
	const char *lack = contract_load(argv);

	if (lack)
		LACK("cuda", 1, lack);
	return !lack && OK(cu.cuInit && cu.cuDriverGetVersion);
}

/* The same, with cuInit and at least @n_devices. */
static inline bool contract_begin_devices(char **argv, int n_devices)
{
	CUresult result;
	int n = 0;

	if (!contract_begin(argv))
		return false;
	result = cu.cuInit(0);
	if (result == CUDA_ERROR_NO_DEVICE) {
		LACK("cuda", 1, "no device");
		return false;
	}
	if (!GOOD(result) || !GOOD(cu.cuDeviceGetCount(&n)))
		return false;
	if (n >= n_devices)
		return true;
	SKIP(1, "not enough devices");
	return false;
}

/* The primary context of device 0, retained and current to this thread. */
static inline CUcontext contract_context(void)
{
	CUcontext context = NULL;

	if (GOOD(cu.cuDevicePrimaryCtxRetain(&context, 0)))
		GOOD(cu.cuCtxSetCurrent(context));
	return context;
}

/* Give it back. */
static inline void contract_end_context(void)
{
	GOOD(cu.cuCtxSetCurrent(NULL));
	GOOD(cu.cuDevicePrimaryCtxRelease_v2(0));
}

/* Is this device an instance of a split card?  CUDA tells the card's UUID by
 * the call's first form, and the device's own by the second. */
bool contract_is_part(CUdevice device);

/* Its UUID as CUDA_VISIBLE_DEVICES and NVML have it, GPU- or MIG- and 36
 * characters, which are not there if the driver does not tell. */
#define CONTRACT_NAME_BYTES 48
void contract_name(CUdevice device, char ret_name[CONTRACT_NAME_BYTES]);

/* Milliseconds since some start, and a rest of so many. */
double contract_now_ms(void);
void contract_rest_ms(int ms);

#endif
