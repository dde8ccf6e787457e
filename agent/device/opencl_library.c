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
	char version[TEXT_BYTES] = "";
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

/* All devices of all platforms.  Returns as gm_opencl_list(). */
static int list(const char *library, gm_cl ret_devices[GM_OPENCL_DEVICES],
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
		gm_cl_uint n = 0, room = GM_OPENCL_DEVICES - n_shown;

		if (is_old(platforms[p])) {
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

/* The same device has the same one in every process and after a reboot: its
 * address, else its uuid, which some give to all of a kind, else its name. */
static void write_id(gm_cl device, struct gm_opencl_facts *facts)
{
	uint8_t uuid[16];

	if (facts->has_pci) {
		snprintf(facts->id, sizeof(facts->id), "%04x:%02x:%02x.%x",
			 facts->pci.domain, facts->pci.bus, facts->pci.device,
			 facts->pci.function);
	} else if (has(device, "cl_khr_device_uuid") &&
		   ask(device, GM_CL_DEVICE_UUID_KHR, uuid, sizeof(uuid))) {
		for (uint32_t i = 0; i < sizeof(uuid); i++)
			snprintf(facts->id + 2 * i, 3, "%02x", uuid[i]);
	} else {
		snprintf(facts->id, sizeof(facts->id) - 4, "%s", facts->name);
	}
}

static void describe(gm_cl device, struct gm_opencl_facts *facts)
{
	char name[TEXT_BYTES] = "";
	size_t items = 0;

	memset(facts, 0, sizeof(*facts));
	(void)ask(device, GM_CL_DEVICE_TYPE, &facts->type, sizeof(facts->type));
	(void)ask(device, GM_CL_DEVICE_NAME, name, sizeof(name));
	gm_stream_flatten(name);
	snprintf(facts->name, sizeof(facts->name), "%.*s",
		 (int)sizeof(facts->name) - 1, name[0] ? name : "OpenCL");
	(void)ask(device, GM_CL_DRIVER_VERSION, facts->version,
		  sizeof(facts->version) - 1);
	(void)ask(device, GM_CL_DEVICE_VENDOR_ID, &facts->vendor,
		  sizeof(facts->vendor));
	(void)ask(device, GM_CL_DEVICE_MAX_COMPUTE_UNITS, &facts->units,
		  sizeof(facts->units));
	if (ask(device, GM_CL_DEVICE_MAX_WORK_GROUP_SIZE, &items,
		sizeof(items)))
		facts->group = (uint32_t)items;
	(void)ask(device, GM_CL_DEVICE_LOCAL_MEM_SIZE, &facts->local_bytes,
		  sizeof(facts->local_bytes));
	(void)ask(device, GM_CL_DEVICE_GLOBAL_MEM_SIZE, &facts->bytes,
		  sizeof(facts->bytes));
	(void)ask(device, GM_CL_DEVICE_HOST_UNIFIED_MEMORY, &facts->is_unified,
		  sizeof(facts->is_unified));
	facts->has_f16 = has(device, "cl_khr_fp16");
	facts->has_pci = has(device, "cl_khr_pci_bus_info") &&
			 ask(device, GM_CL_DEVICE_PCI_BUS_INFO_KHR, &facts->pci,
			     sizeof(facts->pci));
	write_id(device, facts);
}

int gm_opencl_list(const char *library,
		   struct gm_opencl_facts ret_facts[GM_OPENCL_DEVICES],
		   gm_cl ret_devices[GM_OPENCL_DEVICES],
		   char ret_why[GM_GPU_WHY_BYTES])
{
	int n = list(library, ret_devices, ret_why);

	for (int i = 0; i < n; i++) {
		char own[sizeof(ret_facts[i].id)];
		uint32_t same = 0;

		describe(ret_devices[i], &ret_facts[i]);
		memcpy(own, ret_facts[i].id, sizeof(own));
		for (int k = 0; k < i; k++)
			same += strncmp(ret_facts[k].id, own, strlen(own)) == 0;
		if (same)
			snprintf(ret_facts[i].id + strlen(own),
				 sizeof(own) - strlen(own), "/%u", same);
	}
	return n;
}

int gm_opencl_library(const char *library, const char *id,
		      const struct gm_opencl_calls **ret_calls,
		      gm_cl *ret_device, char ret_why[GM_GPU_WHY_BYTES])
{
	static struct gm_opencl_facts facts[GM_OPENCL_DEVICES];
	gm_cl devices[GM_OPENCL_DEVICES];
	int n = gm_opencl_list(library, facts, devices, ret_why), i = 0;

	if (n < 0)
		return n;
	while (i < n && id && strcmp(facts[i].id, id) != 0)
		i++;
	if (i == n) {
		snprintf(ret_why, GM_GPU_WHY_BYTES,
			 "%.300s shows %d devices, and none is %.64s", library,
			 n, id ? id : "the first");
		return -ENODEV;
	}
	*ret_calls = &process.calls;
	*ret_device = devices[i];
	return 0;
}
