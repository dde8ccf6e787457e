/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/cuda/nccl.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define N_OF(array) (sizeof(array) / sizeof((array)[0]))

/* By enum gm_nccl_library. */
static const struct maker {
	const char *name, *soname, *key;
	const char *from; /* the first that has 2.19 or a later one */
	const char *const *folders;
} makers[] = {
	[GM_NCCL_NVIDIA] = { "NCCL", "libnccl.so.2", "nccl-library in [cuda]",
			     "NCCL 2.19", NULL },
	[GM_NCCL_AMD] = { "RCCL", "librccl.so.1", "rccl-library in [hip]",
			  "RCCL of ROCm 6.2",
			  (const char *const[]){ "/opt/rocm/lib", NULL } },
};

static const struct symbol {
	const char *name;
	uint32_t offset; /* in struct gm_nccl */
} symbols[] = {
#define SYMBOL(name, arguments) { #name, offsetof(struct gm_nccl, name) },
#include "agent/cuda/nccl_symbols.h"
};

/* The first symbol that it lacks, or NULL. */
static const char *find_functions(struct gm_nccl *nccl)
{
	for (size_t i = 0; i < N_OF(symbols); i++) {
		void *fn = dlsym(nccl->library.handle, symbols[i].name);

		if (!fn)
			return symbols[i].name;
		memcpy((char *)nccl + symbols[i].offset, &fn, sizeof(fn));
	}
	return NULL;
}

static int find_library(const struct maker *maker, const char *folder,
			struct gm_library *ret_library, char *ret_why)
{
	const struct gm_library_where where = { .soname = maker->soname,
						.compat = folder,
						.folders = maker->folders };
	int rc = gm_library_open(&where, ret_library, ret_why);

	if (rc == -ENOENT)
		snprintf(ret_why, GM_LIBRARY_WHY_BYTES,
			 "there is no %s: install %s or a later one, or name "
			 "its folder with %s of gpumapd.conf",
			 maker->soname, maker->from, maker->key);
	return rc;
}

static int check_version(const struct maker *maker, const struct gm_nccl *nccl,
			 char *ret_why)
{
	int v = nccl->version;

	if (v >= GM_NCCL_MIN_VERSION && v <= GM_NCCL_MAX_VERSION)
		return 0;
	snprintf(ret_why, GM_LIBRARY_WHY_BYTES,
		 "%s is %s %d.%d.%d, and one from 2.19 on is needed, below 3: "
		 "install %s or a later one",
		 nccl->library.path, maker->name, v / 10000, v % 10000 / 100,
		 v % 100, maker->from);
	return -EOPNOTSUPP;
}

int gm_nccl_open(enum gm_nccl_library which, const char *folder,
		 struct gm_nccl *ret_nccl, char *ret_why)
{
	const struct maker *maker = &makers[which];
	struct gm_nccl nccl = { .version = 0 };
	const char *lacks;
	int rc = find_library(maker, folder, &nccl.library, ret_why);

	if (rc < 0)
		return rc;
	lacks = find_functions(&nccl);
	if (lacks && nccl.ncclGetVersion == NULL) {
		snprintf(ret_why, GM_LIBRARY_WHY_BYTES, "%s is no %s",
			 nccl.library.path, maker->name);
		return -ELIBBAD;
	}
	if (nccl.ncclGetVersion(&nccl.version) != GM_NCCL_SUCCESS)
		nccl.version = 0;
	rc = check_version(maker, &nccl, ret_why);
	if (rc < 0)
		return rc;
	if (lacks) {
		snprintf(ret_why, GM_LIBRARY_WHY_BYTES, "%s lacks %s",
			 nccl.library.path, lacks);
		return -ELIBBAD;
	}
	*ret_nccl = nccl;
	return 0;
}

const char *gm_nccl_error_name(gm_nccl_result result)
{
	static const char *const names[] = {
		[GM_NCCL_SUCCESS] = "success",
		[GM_NCCL_UNHANDLED_CUDA_ERROR] = "unhandled CUDA error",
		[GM_NCCL_SYSTEM_ERROR] = "system error",
		[GM_NCCL_INTERNAL_ERROR] = "internal error",
		[GM_NCCL_INVALID_ARGUMENT] = "invalid argument",
		[GM_NCCL_INVALID_USAGE] = "invalid usage",
		[GM_NCCL_REMOTE_ERROR] = "remote error",
		[GM_NCCL_IN_PROGRESS] = "in progress",
	};

	return result < N_OF(names) ? names[result] : "unknown result";
}
