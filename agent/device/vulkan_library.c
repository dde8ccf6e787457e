/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/device/vulkan.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DEVICES 64u
#define LOADER  "libvulkan.so.1"

/* A process has one. */
static struct {
	char manifest[256]; /* "": none yet */
	VkInstance instance;
	struct gm_vulkan_calls calls;
} process;

static const struct {
	const char *name;
	uint32_t offset; /* in struct gm_vulkan_calls */
} symbols[] = {
#define SYMBOL(name) { #name, offsetof(struct gm_vulkan_calls, name) },
#include "agent/device/vulkan_symbols.h"
};

static int refuse(int rc, char *ret_why, const char *library, const char *what)
{
	snprintf(ret_why, GM_GPU_WHY_BYTES, "%.300s %s", library, what);
	return rc;
}

/* Drivers leave threads behind: loader and instance stay until the process
 * ends.  Loaders before 1.3.207 read the second variable, and Mesa's own layer,
 * which opens displays, the last, where the loader does not know the third. */
static int make_instance(const char *manifest, PFN_vkGetInstanceProcAddr get,
			 char *ret_why)
{
	const VkApplicationInfo application = {
		GM_VK(APPLICATION_INFO),
		.apiVersion = VK_API_VERSION_1_2,
	};
	const VkInstanceCreateInfo info = {
		GM_VK(INSTANCE_CREATE_INFO),
		.pApplicationInfo = &application,
	};
	PFN_vkVoidFunction call = get(NULL, "vkCreateInstance");
	PFN_vkCreateInstance create;
	VkResult result;

	setenv("VK_DRIVER_FILES", manifest, 1);
	setenv("VK_ICD_FILENAMES", manifest, 1);
	setenv("VK_LOADER_LAYERS_DISABLE", "~implicit~", 1);
	setenv("NODEVICE_SELECT", "1", 1);
	memcpy(&create, &call, sizeof(call));
	result = create(&info, NULL, &process.instance);
	if (result < 0)
		return refuse(result == VK_ERROR_OUT_OF_HOST_MEMORY ? -ENOMEM
								    : -ELIBBAD,
			      ret_why, manifest, "names no driver of Vulkan");
	for (size_t i = 0; i < sizeof(symbols) / sizeof(symbols[0]); i++) {
		call = get(process.instance, symbols[i].name);
		if (!call)
			return refuse(-ELIBBAD, ret_why, LOADER " lacks",
				      symbols[i].name);
		memcpy((char *)&process.calls + symbols[i].offset, &call,
		       sizeof(call));
	}
	return 0;
}

static int load(const char *manifest, char *ret_why)
{
	PFN_vkGetInstanceProcAddr get;
	void *handle, *symbol;
	int rc;

	if (process.manifest[0])
		return strcmp(process.manifest, manifest) == 0
			       ? 0
			       : refuse(-EBUSY, ret_why, manifest,
					"is another driver than the one that "
					"this process has");
	if (strlen(manifest) >= sizeof(process.manifest) ||
	    access(manifest, R_OK) < 0)
		return refuse(-ENOENT, ret_why, manifest, "cannot be read");
	handle = dlopen(LOADER, RTLD_NOW | RTLD_LOCAL);
	symbol = handle ? dlsym(handle, "vkGetInstanceProcAddr") : NULL;
	if (!symbol)
		return refuse(handle ? -ELIBBAD : -ENOENT, ret_why, LOADER,
			      "is no loader of Vulkan, or is not there");
	memcpy(&get, &symbol, sizeof(get));
	rc = make_instance(manifest, get, ret_why);
	if (rc == 0)
		snprintf(process.manifest, sizeof(process.manifest), "%s",
			 manifest);
	return rc;
}

int gm_vulkan_library(const char *manifest, uint32_t number,
		      struct gm_vulkan_calls *ret_calls,
		      VkPhysicalDevice *ret_physical,
		      char ret_why[GM_GPU_WHY_BYTES])
{
	VkPhysicalDevice devices[DEVICES];
	uint32_t n = DEVICES;
	int rc = load(manifest, ret_why);

	if (rc < 0)
		return rc;
	if (process.calls.vkEnumeratePhysicalDevices(process.instance, &n,
						     devices) < 0)
		n = 0;
	if (number >= n) {
		snprintf(ret_why, GM_GPU_WHY_BYTES,
			 "%.300s shows %u devices, and none is %u", manifest, n,
			 number);
		return -ENODEV;
	}
	*ret_calls = process.calls;
	*ret_physical = devices[number];
	return 0;
}
