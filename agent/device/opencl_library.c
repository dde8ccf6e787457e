/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/device/opencl.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#define PLATFORMS 8u
#define DEVICES   64u

/* A process has one. */
static struct {
	char name[256]; /* "": none yet */
	gm_opencl_get_platforms *get_platforms;
	struct gm_opencl_calls calls;
} process;

static const struct {
	const char *name;
	uint32_t slot;
	uint32_t offset; /* in struct gm_opencl_calls */
} symbols[] = {
#define SYMBOL(slot, name, type, arguments) \
	{ #name, slot, offsetof(struct gm_opencl_calls, name) },
#include "agent/device/opencl_symbols.h"
};

static int refuse(int rc, char *ret_why, const char *library, const char *what)
{
	snprintf(ret_why, GM_GPU_WHY_BYTES, "%.300s %s", library, what);
	return rc;
}

/* By its own name, or by the one that any library answers for its extensions.
 * POSIX, not C, lets a pointer to data hold a function. */
static bool find_entry(void *handle, gm_opencl_get_platforms **ret_entry)
{
	void *entry = dlsym(handle, "clIcdGetPlatformIDsKHR");
	void *get = dlsym(handle, "clGetExtensionFunctionAddress");
	gm_opencl_get_address *get_address;

	if (!entry && get) {
		memcpy(&get_address, &get, sizeof(get));
		entry = get_address("clIcdGetPlatformIDsKHR");
	}
	if (entry)
		memcpy(ret_entry, &entry, sizeof(entry));
	return entry != NULL;
}

/* A library stays until the process ends, for it leaves threads behind. */
static int load(const char *library, char *ret_why)
{
	const char *error;
	void *handle;

	if (process.name[0])
		return strcmp(process.name, library) == 0
			       ? 0
			       : refuse(-EBUSY, ret_why, library,
					"is another library than the one that "
					"this process has");
	if (!library[0] || strlen(library) >= sizeof(process.name))
		return refuse(-ENOENT, ret_why, library, "is no library");
	handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
	if (!handle) {
		error = dlerror();
		snprintf(ret_why, GM_GPU_WHY_BYTES, "%s",
			 error ? error : library);
		return error && strstr(error, library) &&
				       strstr(error, strerror(ENOENT))
			       ? -ENOENT
			       : -ELIBBAD;
	}
	if (!find_entry(handle, &process.get_platforms)) {
		dlclose(handle);
		return refuse(-ELIBBAD, ret_why, library,
			      "is no vendor's library of OpenCL");
	}
	snprintf(process.name, sizeof(process.name), "%s", library);
	return 0;
}

/* "OpenCL 1.2 and more": older tables end before the functions that we call. */
static bool is_old(gm_cl platform)
{
	gm_cl_int (*info)(gm_cl, gm_cl_uint, size_t, void *, size_t *);
	char version[128] = "";
	unsigned int major = 0, minor = 0;

	memcpy(&info, &platform->calls[1], sizeof(info));
	return info(platform, GM_CL_PLATFORM_VERSION, sizeof(version), version,
		    NULL) != GM_CL_SUCCESS ||
	       sscanf(version, "OpenCL %u.%u", &major, &minor) != 2 ||
	       major * 10 + minor < 12;
}

/* The first function that it lacks, or NULL. */
static const char *find_calls(gm_cl platform)
{
	for (size_t i = 0; i < sizeof(symbols) / sizeof(symbols[0]); i++) {
		void *const *call = &platform->calls[symbols[i].slot];

		if (!*call)
			return symbols[i].name;
		memcpy((char *)&process.calls + symbols[i].offset, call,
		       sizeof(*call));
	}
	return NULL;
}

int gm_opencl_library(const char *library, uint32_t number,
		      const struct gm_opencl_calls **ret_calls,
		      gm_cl *ret_device, char ret_why[GM_GPU_WHY_BYTES])
{
	gm_cl platforms[PLATFORMS], devices[DEVICES];
	gm_cl_uint n_platforms = 0, n_shown = 0;
	const char *lacks = NULL;
	bool is_any_old = false;
	int rc = load(library, ret_why);

	if (rc < 0)
		return rc;
	/* An error is how some say that there is none. */
	if (process.get_platforms(PLATFORMS, platforms, &n_platforms) !=
	    GM_CL_SUCCESS)
		n_platforms = 0;
	for (uint32_t p = 0; p < n_platforms && p < PLATFORMS; p++) {
		gm_cl_uint n = 0;

		if (is_old(platforms[p])) {
			is_any_old = true;
			continue;
		}
		lacks = find_calls(platforms[p]);
		if (lacks)
			break;
		if (process.calls.clGetDeviceIDs(platforms[p],
						 GM_CL_DEVICE_TYPE_ALL, DEVICES,
						 devices, &n) != GM_CL_SUCCESS)
			continue;
		n = n < DEVICES ? n : DEVICES;
		if (number - n_shown < n) {
			*ret_calls = &process.calls;
			*ret_device = devices[number - n_shown];
			return 0;
		}
		n_shown += n;
	}
	if (lacks || (is_any_old && n_shown == 0)) {
		snprintf(ret_why, GM_GPU_WHY_BYTES,
			 "%.300s is older than OpenCL 1.2%s%s", library,
			 lacks ? ": it lacks " : "", lacks ? lacks : "");
		return -EOPNOTSUPP;
	}
	snprintf(ret_why, GM_GPU_WHY_BYTES,
		 "%.300s shows %u devices, and none is %u", library, n_shown,
		 number);
	return -ENODEV;
}
