/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/device/vulkan.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EXTENSIONS 512u
#define LOADER     "libvulkan.so.1"

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

bool gm_vulkan_has(VkPhysicalDevice physical, const char *extension)
{
	static VkExtensionProperties list[EXTENSIONS];
	uint32_t n = EXTENSIONS;

	if (process.calls.vkEnumerateDeviceExtensionProperties(physical, NULL,
							       &n, list) < 0)
		return false;
	for (uint32_t i = 0; i < n; i++)
		if (strcmp(list[i].extensionName, extension) == 0)
			return true;
	return false;
}

uint32_t gm_vulkan_heap(VkPhysicalDevice physical,
			VkPhysicalDeviceMemoryProperties *ret_memory)
{
	VkPhysicalDeviceMemoryProperties2 memory = { GM_VK(
		PHYSICAL_DEVICE_MEMORY_PROPERTIES_2) };
	VkMemoryHeap *heaps = ret_memory->memoryHeaps;
	uint32_t heap = 0;

	process.calls.vkGetPhysicalDeviceMemoryProperties2(physical, &memory);
	*ret_memory = memory.memoryProperties;
	for (uint32_t i = 0; i < ret_memory->memoryHeapCount; i++)
		if ((heaps[i].flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT) &&
		    (heaps[i].size > heaps[heap].size ||
		     !(heaps[heap].flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT)))
			heap = i;
	return heap;
}

/* Vulkan tells of no units; a processor has its own. */
static void describe(VkPhysicalDevice physical, struct gm_gpu_facts *facts,
		     uint8_t ret_uuid[VK_UUID_SIZE])
{
	VkPhysicalDevicePCIBusInfoPropertiesEXT pci = { GM_VK(
		PHYSICAL_DEVICE_PCI_BUS_INFO_PROPERTIES_EXT) };
	VkPhysicalDeviceIDProperties id = { GM_VK(
		PHYSICAL_DEVICE_ID_PROPERTIES) };
	VkPhysicalDeviceVulkan12Properties p12 = {
		GM_VK(PHYSICAL_DEVICE_VULKAN_1_2_PROPERTIES), &id
	};
	VkPhysicalDeviceProperties2 all = { GM_VK(PHYSICAL_DEVICE_PROPERTIES_2),
					    &p12 };
	const VkPhysicalDeviceProperties *p = &all.properties;
	bool has_pci =
		gm_vulkan_has(physical, VK_EXT_PCI_BUS_INFO_EXTENSION_NAME);
	VkPhysicalDeviceMemoryProperties memory;
	uint32_t heap = gm_vulkan_heap(physical, &memory);

	id.pNext = has_pci ? &pci : NULL;
	process.calls.vkGetPhysicalDeviceProperties2(physical, &all);
	memcpy(ret_uuid, id.deviceUUID, VK_UUID_SIZE);
	*facts = (struct gm_gpu_facts){
		.is_cpu = p->deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU,
		.is_unified =
			p->deviceType == VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU,
		.units = p->deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU
				 ? (uint32_t)sysconf(_SC_NPROCESSORS_ONLN)
				 : 0,
		.has_pci = has_pci,
		.pci_domain = pci.pciDomain,
		.pci_bus =
			pci.pciBus << 8 | pci.pciDevice << 3 | pci.pciFunction,
		.vendor = p->vendorID,
		.group = p->limits.maxComputeWorkGroupInvocations,
		.local_bytes = p->limits.maxComputeSharedMemorySize,
		.bytes = memory.memoryHeaps[heap].size,
		.exports = gm_vulkan_has(
			physical, VK_KHR_EXTERNAL_MEMORY_FD_EXTENSION_NAME),
	};
	snprintf(facts->name, sizeof(facts->name), "%.63s", p->deviceName);
	snprintf(facts->version, sizeof(facts->version), "%.63s",
		 p12.driverInfo);
}

int gm_vulkan_list(const char *manifest,
		   struct gm_gpu_facts ret_facts[GM_GPU_DEVICES],
		   VkPhysicalDevice ret_devices[GM_GPU_DEVICES],
		   char ret_why[GM_GPU_WHY_BYTES])
{
	uint8_t uuid[VK_UUID_SIZE];
	uint32_t n = GM_GPU_DEVICES;
	int rc = load(manifest, ret_why);

	if (rc < 0)
		return rc;
	if (process.calls.vkEnumeratePhysicalDevices(process.instance, &n,
						     ret_devices) < 0)
		n = 0;
	for (uint32_t i = 0; i < n; i++) {
		describe(ret_devices[i], &ret_facts[i], uuid);
		gm_stream_identify(ret_facts, i, uuid);
	}
	return (int)n;
}

int gm_vulkan_library(const char *manifest, const char *id,
		      struct gm_vulkan_calls *ret_calls,
		      VkPhysicalDevice *ret_physical,
		      char ret_why[GM_GPU_WHY_BYTES])
{
	static struct gm_gpu_facts facts[GM_GPU_DEVICES];
	VkPhysicalDevice devices[GM_GPU_DEVICES];
	int n = gm_vulkan_list(manifest, facts, devices, ret_why), i;

	if (n < 0)
		return n;
	i = gm_stream_find_id(facts, (uint32_t)n, id, manifest, ret_why);
	if (i < 0)
		return i;
	*ret_calls = process.calls;
	*ret_physical = devices[i];
	return 0;
}
