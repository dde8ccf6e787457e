/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* Which form of a call a name and a version mean, and names of errors. */

#include <string.h>

#include "tests/contract/contract.h"

static void *look_up(const char *name, int version)
{
	void *at = &cu;

	return cu.cuGetProcAddress_v2(name, &at, version, 0, NULL) == 0 ? at
									: &cu;
}

static void the_version_needs_no_init(void)
{
	int version = 0;

	GOOD(cu.cuDriverGetVersion(&version));
	OK(version >= 12000);
	NOTE("driver for CUDA %d.%d", version / 1000, version % 1000 / 10);
	EQ(cu.cuDriverGetVersion(NULL), CUDA_ERROR_INVALID_VALUE);
}

static void before_init_nothing_works(void)
{
	int n;

	EQ(cu.cuDeviceGetCount(&n), CUDA_ERROR_NOT_INITIALIZED);
	EQ(cu.cuInit(1), CUDA_ERROR_INVALID_VALUE);
}

static void a_version_chooses_the_form(void)
{
	int version = 0;
	void *old, *new;

	GOOD(cu.cuDriverGetVersion(&version));
	old = look_up("cuStreamWriteValue64", 9000);
	new = look_up("cuStreamWriteValue64", 11070);
	OK(old && new &&old != new);
	OK(look_up("cuStreamWriteValue64", version) == new);
	OK(look_up("cuMemAlloc", 12000) == look_up("cuMemAlloc", 3020));
	OK(look_up("cuMemAlloc_v2", 12000) == NULL);
}

/* With success, and so a caller compares the versions itself. */
static void a_newer_version_gets_the_drivers_newest_form(void)
{
	CUdriverProcAddressQueryResult status;
	int version = 0;
	void *at, *newest;

	GOOD(cu.cuDriverGetVersion(&version));
	newest = look_up("cuStreamWriteValue64", version);
	OK(newest != NULL && newest != (void *)&cu);
	for (int more = 10; more < 100000; more *= 10) {
		GOOD(cu.cuGetProcAddress_v2("cuStreamWriteValue64", &at,
					    version + more, 0, &status));
		OK(at == newest);
		EQ(status, CU_GET_PROC_ADDRESS_SUCCESS);
	}
}

static void what_is_missing_is_null_and_no_error(void)
{
	CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SUCCESS;
	void *at = &cu;

	GOOD(cu.cuGetProcAddress_v2("cuNoSuchCall", &at, 12000, 0, &status));
	OK(at == NULL);
	EQ(status, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);

	at = &cu;
	GOOD(cu.cuGetProcAddress_v2("cuLaunchKernelEx", &at, 9000, 0, &status));
	OK(at == NULL);
	EQ(status, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);

	GOOD(cu.cuGetProcAddress_v2("cuMemAlloc", &at, 12000, 0, &status));
	OK(at != NULL);
	EQ(status, CU_GET_PROC_ADDRESS_SUCCESS);
}

static void errors_have_names(void)
{
	const char *name = "";

	GOOD(cu.cuGetErrorName(CUDA_ERROR_ILLEGAL_ADDRESS, &name));
	STR(name, "CUDA_ERROR_ILLEGAL_ADDRESS");
	GOOD(cu.cuGetErrorString(CUDA_ERROR_OUT_OF_MEMORY, &name));
	OK(name && *name);
	EQ(cu.cuGetErrorName((CUresult)12345, &name), CUDA_ERROR_INVALID_VALUE);
	OK(name == NULL);
}

TAP_CASE_ARGS(argc, argv)
{
	if (contract_begin(argv)) {
		the_version_needs_no_init();
		before_init_nothing_works();
		a_version_chooses_the_form();
		a_newer_version_gets_the_drivers_newest_form();
		what_is_missing_is_null_and_no_error();
		errors_have_names();
	}
	return tap_done();
}
