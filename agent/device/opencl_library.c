/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/device/opencl.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#define PLATFORMS  8u
#define TEXT_BYTES 512u /* PoCL's version has more than 128 */

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

/* A library stays until the process ends, for it leaves threads behind. */
static int load(const char *library, char *ret_why)
{
	gm_opencl_get_address *get_address;
	void *handle, *entry, *get;
	const char *error;

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
	/* By its own name, or by the one that any library answers for its
	 * extensions.  POSIX, not C, lets a pointer to data hold a function. */
	entry = dlsym(handle, "clIcdGetPlatformIDsKHR");
	get = dlsym(handle, "clGetExtensionFunctionAddress");
	if (!entry && get) {
		memcpy(&get_address, &get, sizeof(get));
		entry = get_address("clIcdGetPlatformIDsKHR");
	}
	if (!entry) {
		dlclose(handle);
		return refuse(-ELIBBAD, ret_why, library,
			      "is no vendor's library of OpenCL");
	}
	memcpy(&process.get_platforms, &entry, sizeof(entry));
	snprintf(process.name, sizeof(process.name), "%s", library);
	return 0;
}

/* 12: "OpenCL 1.2 and more".  Older tables end before the functions that we
 * call.  0: it does not tell. */
static unsigned int version_of(gm_cl platform)
{
	gm_cl_int (*info)(gm_cl, gm_cl_uint, size_t, void *, size_t *);
	char version[TEXT_BYTES] = "";
	unsigned int major = 0, minor = 0;

	memcpy(&info, &platform->calls[1], sizeof(info));
	if (info(platform, GM_CL_PLATFORM_VERSION, sizeof(version), version,
		 NULL) != GM_CL_SUCCESS ||
	    sscanf(version, "OpenCL %u.%u", &major, &minor) != 2)
		return 0;
	return major * 10 + minor;
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

/* All devices of all platforms.  Returns as gm_opencl_list(). */
static int list(const char *library, gm_cl ret_devices[GM_GPU_DEVICES],
		char *ret_why)
{
	gm_cl platforms[PLATFORMS];
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
	for (uint32_t p = 0; p < n_platforms && p < PLATFORMS && !lacks; p++) {
		gm_cl_uint n = 0, room = GM_GPU_DEVICES - n_shown;

		if (version_of(platforms[p]) < 12) {
			is_any_old = true;
			continue;
		}
		lacks = find_calls(platforms[p]);
		if (!lacks && room &&
		    process.calls.clGetDeviceIDs(
			    platforms[p], GM_CL_DEVICE_TYPE_ALL, room,
			    ret_devices + n_shown, &n) == GM_CL_SUCCESS)
			n_shown += n < room ? n : room;
	}
	if (lacks || (is_any_old && n_shown == 0)) {
		snprintf(ret_why, GM_GPU_WHY_BYTES,
			 "%.300s is older than OpenCL 1.2%s%s", library,
			 lacks ? ": it lacks " : "", lacks ? lacks : "");
		return -EOPNOTSUPP;
	}
	return (int)n_shown;
}

/* ---- what a device is ---------------------------------------------------- */

/* The value stays as it is where the device does not tell. */
static bool ask(gm_cl device, gm_cl_uint what, void *ret, size_t bytes)
{
	return process.calls.clGetDeviceInfo(device, what, bytes, ret, NULL) ==
	       GM_CL_SUCCESS;
}

static bool has(gm_cl device, const char *extension)
{
	static char all[16384];
	size_t n = strlen(extension);

	all[0] = '\0';
	if (!ask(device, GM_CL_DEVICE_EXTENSIONS, all, sizeof(all)))
		return false;
	for (const char *at = all; (at = strstr(at, extension)); at += n)
		if ((at == all || at[-1] == ' ') &&
		    (at[n] == '\0' || at[n] == ' '))
			return true;
	return false;
}

static void describe(gm_cl device, struct gm_gpu_facts *facts)
{
#define ASK(what, value) \
	ask(device, GM_CL_DEVICE_##what, &(value), sizeof(value))
	struct gm_opencl_pci pci = { 0 };
	gm_cl_ulong type = 0;
	gm_cl_uint is_unified = 0;
	char name[TEXT_BYTES] = "";
	size_t items = 0;

	memset(facts, 0, sizeof(*facts));
	(void)ASK(TYPE, type);
	(void)ASK(NAME, name);
	(void)ASK(VENDOR_ID, facts->vendor);
	(void)ASK(MAX_COMPUTE_UNITS, facts->units);
	(void)ASK(MAX_WORK_GROUP_SIZE, items);
	(void)ASK(LOCAL_MEM_SIZE, facts->local_bytes);
	(void)ASK(GLOBAL_MEM_SIZE, facts->bytes);
	(void)ASK(HOST_UNIFIED_MEMORY, is_unified);
	(void)ask(device, GM_CL_DRIVER_VERSION, facts->version,
		  sizeof(facts->version) - 1);
	gm_stream_flatten(name);
	snprintf(facts->name, sizeof(facts->name), "%.*s",
		 (int)sizeof(facts->name) - 1, name[0] ? name : "OpenCL");
	facts->is_cpu = (type & GM_CL_DEVICE_TYPE_CPU) != 0;
	facts->is_unified = is_unified != 0;
	facts->group = (uint32_t)items;
	facts->has_f16 = has(device, "cl_khr_fp16");
	facts->has_pci = has(device, "cl_khr_pci_bus_info") &&
			 ASK(PCI_BUS_INFO_KHR, pci);
	facts->pci_domain = pci.domain;
	facts->pci_bus = pci.bus << 8 | pci.device << 3 | pci.function;
}

int gm_opencl_list(const char *library,
		   struct gm_gpu_facts ret_facts[GM_GPU_DEVICES],
		   gm_cl ret_devices[GM_GPU_DEVICES],
		   char ret_why[GM_GPU_WHY_BYTES])
{
	int n = list(library, ret_devices, ret_why);

	for (int i = 0; i < n; i++) {
		uint8_t uuid[16];
		bool has_uuid = has(ret_devices[i], "cl_khr_device_uuid") &&
				ask(ret_devices[i], GM_CL_DEVICE_UUID_KHR, uuid,
				    sizeof(uuid));

		describe(ret_devices[i], &ret_facts[i]);
		gm_stream_identify(ret_facts, (uint32_t)i,
				   has_uuid ? uuid : NULL);
	}
	return n;
}

int gm_opencl_library(const char *library, const char *id,
		      const struct gm_opencl_calls **ret_calls,
		      gm_cl *ret_device, char ret_why[GM_GPU_WHY_BYTES])
{
	static struct gm_gpu_facts facts[GM_GPU_DEVICES];
	gm_cl devices[GM_GPU_DEVICES];
	int n = gm_opencl_list(library, facts, devices, ret_why), i;

	if (n < 0)
		return n;
	i = gm_stream_find_id(facts, (uint32_t)n, id, library, ret_why);
	if (i < 0)
		return i;
	*ret_calls = &process.calls;
	*ret_device = devices[i];
	return 0;
}

/* Does a text such as "SPIR-V_1.0 SPIR-V_1.2" have a version that takes modules
 * of this one? */
static bool takes(const char *versions, uint32_t version)
{
	static const char prefix[] = "SPIR-V_";
	unsigned int major, minor;

	for (const char *at = versions; (at = strstr(at, prefix)); at++)
		if (sscanf(at + sizeof(prefix) - 1, "%u.%u", &major, &minor) ==
			    2 &&
		    major == version >> 16 && minor >= (version >> 8 & 0xff))
			return true;
	return false;
}

gm_opencl_create_with_il *gm_opencl_il(gm_cl device, uint32_t version,
				       char ret_why[GM_GPU_WHY_BYTES])
{
	gm_opencl_create_with_il *create = NULL;
	char versions[TEXT_BYTES] = "";
	void *(*get_address)(gm_cl, const char *);
	gm_cl platform = NULL;
	void *entry = NULL;

	(void)ask(device, GM_CL_DEVICE_IL_VERSION, versions,
		  sizeof(versions) - 1);
	if (takes(versions, version) &&
	    ask(device, GM_CL_DEVICE_PLATFORM, &platform, sizeof(platform))) {
		if (version_of(platform) >= 21)
			entry = platform->calls[GM_CL_SLOT_CREATE_WITH_IL];
		memcpy(&get_address, &platform->calls[GM_CL_SLOT_GET_ADDRESS],
		       sizeof(get_address));
		if (!entry && get_address)
			entry = get_address(platform,
					    "clCreateProgramWithILKHR");
	}
	if (entry)
		memcpy(&create, &entry, sizeof(entry));
	else
		snprintf(ret_why, GM_GPU_WHY_BYTES,
			 "the program is of SPIR-V %u.%u, and this row takes "
			 "OpenCL C%s%.200s",
			 version >> 16, version >> 8 & 0xff,
			 strstr(versions, "SPIR-V") ? " and " : " alone",
			 strstr(versions, "SPIR-V") ? versions : "");
	return create;
}
