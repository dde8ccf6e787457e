/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "tests/contract/contract.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tests/support/stand_in.h"

struct contract_cu cu;

void *contract_open(const char *name)
{
	const char *folder = getenv("GM_CUDA_LIBRARY");
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s%s%s", folder ? folder : "",
		 folder ? "/" : "", name);
	return dlopen(path, RTLD_NOW | RTLD_LOCAL);
}

static void load(void *library)
{
	__typeof__(&cuGetProcAddress_v2) get =
		(__typeof__(&cuGetProcAddress_v2))dlsym(library,
							"cuGetProcAddress_v2");
	int version = 0;
	void *at = NULL;

	if (!get || get("cuDriverGetVersion", &at, 2020, 0, NULL) || !at ||
	    ((__typeof__(&cuDriverGetVersion))at)(&version))
		return;
		/* A driver that is older than a form of a call has not that
		 * form, and would give an older one. */
#define SYMBOL(name, since, function)                                       \
	at = NULL;                                                          \
	if (since <= version && get(#name, &at, since, 0, NULL) == 0 && at) \
		cu.function = (__typeof__(&function))at;
#include "tests/support/cuda_symbols.h"
#undef SYMBOL
}

const char *contract_load(char **argv)
{
	void *library;

	stand_in_exec(argv);
	/* A thread of the driver's may outlive main: it stays loaded. */
	library = contract_open("libcuda.so.1");
	if (!library)
		return dlerror();
	load(library);
	return NULL;
}

bool contract_is_real(void)
{
	return getenv("GPUMAP_FAKE_HARDWARE") == NULL;
}

bool contract_presume(bool holds, const char *what, const char *file, int line)
{
	if (holds || !contract_is_real())
		return tap_check(holds, what, file, line);
	printf("# {\"otherwise\":\"%s:%d: %s\"}\n", file, line, what);
	SKIP(1, "this card is otherwise, and may be");
	return false;
}

bool contract_is_part(CUdevice device)
{
	CUuuid own, card;

	return cu.cuDeviceGetUuid_v2(&own, device) == CUDA_SUCCESS &&
	       cu.cuDeviceGetUuid(&card, device) == CUDA_SUCCESS &&
	       memcmp(&own, &card, sizeof(own)) != 0;
}

void contract_name(CUdevice device, char ret_name[CONTRACT_NAME_BYTES])
{
	CUuuid uuid;
	int at = 4;

	strcpy(ret_name, contract_is_part(device) ? "MIG-" : "GPU-");
	if (cu.cuDeviceGetUuid_v2(&uuid, device) != CUDA_SUCCESS)
		return;
	for (int i = 0; i < 16; i++)
		at += sprintf(ret_name + at, "%s%02x",
			      i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "",
			      (unsigned char)uuid.bytes[i]);
}

double contract_now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec * 1e3 + (double)ts.tv_nsec / 1e6;
}

void contract_rest_ms(int ms)
{
	struct timespec ts = { .tv_sec = ms / 1000,
			       .tv_nsec = ms % 1000 * 1000000L };

	nanosleep(&ts, NULL);
}
