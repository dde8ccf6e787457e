/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/device/vulkan.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/common/node_clock.h"

#define APART_TIMES 4u /* nothing says what a bus or memory does */
#define FAMILIES    16u
#define NONE        VK_SHADER_FLOAT_CONTROLS_INDEPENDENCE_NONE

/* ---- errors -------------------------------------------------------------- */

static int meaning(int code, const char **ret_name)
{
	static const struct {
		VkResult result;
		int rc;
		const char *name;
	} errors[] = {
#define ERROR(name, rc) { VK_ERROR_##name, rc, "VK_ERROR_" #name }
		ERROR(OUT_OF_HOST_MEMORY, -ENOMEM),
		ERROR(OUT_OF_DEVICE_MEMORY, -ENOMEM),
		ERROR(TOO_MANY_OBJECTS, -ENOMEM),
		ERROR(MEMORY_MAP_FAILED, -ENOMEM),
		ERROR(DEVICE_LOST, -ENOTRECOVERABLE),
		ERROR(FEATURE_NOT_PRESENT, -EOPNOTSUPP),
		ERROR(INVALID_EXTERNAL_HANDLE, -EINVAL),
		ERROR(INITIALIZATION_FAILED, -EIO),
	};

	for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++)
		if (errors[i].result == code) {
			*ret_name = errors[i].name;
			return errors[i].rc;
		}
	*ret_name = "an error";
	return code < 0 ? -EIO : 0;
}

/* ---- what a device is ---------------------------------------------------- */

struct facts {
	VkPhysicalDeviceProperties2 all;
	VkPhysicalDeviceVulkan11Properties p11;
	VkPhysicalDeviceVulkan12Properties p12;
	VkPhysicalDeviceExternalMemoryHostPropertiesEXT host;
	VkPhysicalDeviceFeatures2 features;
	VkPhysicalDeviceVulkan11Features f11;
	VkPhysicalDeviceVulkan12Features f12;
	const char *extensions[3]; /* of ours, that it has */
	uint32_t n_extensions;
	bool has_fd, has_host;
};

static int ask(struct gm_vulkan *vulkan, struct facts *f)
{
	const VkPhysicalDeviceFeatures *features = &f->features.features;
	const char *names[] = { VK_KHR_EXTERNAL_MEMORY_FD_EXTENSION_NAME,
				VK_EXT_EXTERNAL_MEMORY_HOST_EXTENSION_NAME,
				VK_EXT_MEMORY_BUDGET_EXTENSION_NAME };
	bool *has[] = { &f->has_fd, &f->has_host, &vulkan->has_budget };

	vulkan->vk.vkGetPhysicalDeviceProperties2(vulkan->physical, &f->all);
	if (f->all.properties.apiVersion < VK_API_VERSION_1_2)
		return gm_stream_lacks(&vulkan->gpu, "Vulkan 1.2");
	vulkan->vk.vkGetPhysicalDeviceFeatures2(vulkan->physical, &f->features);
	if (!f->f12.bufferDeviceAddress || !features->shaderInt64)
		return gm_stream_lacks(&vulkan->gpu, "addresses of 64 bits");
	if (!f->f12.timelineSemaphore)
		return gm_stream_lacks(&vulkan->gpu, "timeline semaphores");
	if (!f->f12.storageBuffer8BitAccess || !f->f11.storageBuffer16BitAccess)
		return gm_stream_lacks(&vulkan->gpu,
				       "elements of 8 and 16 bits");
	for (uint32_t i = 0; i < 3; i++) {
		*has[i] = gm_vulkan_has(vulkan->physical, names[i]);
		if (*has[i])
			f->extensions[f->n_extensions++] = names[i];
	}
	return 0;
}

/* The operators ask for what makes floats exact, as far as the device has it.
 * llvmpipe promises no subnormals, and keeps them. */
static void find_floats(struct gm_vulkan *vulkan, const struct facts *f)
{
	const VkPhysicalDeviceVulkan12Properties *p = &f->p12;
	bool keeps = p->driverID == VK_DRIVER_ID_MESA_LLVMPIPE;
	uint32_t *modes = vulkan->float_modes;

	if (p->denormBehaviorIndependence != NONE &&
	    p->roundingModeIndependence != NONE) {
		modes[0] = p->shaderDenormPreserveFloat32 |
			   p->shaderSignedZeroInfNanPreserveFloat32 << 1 |
			   p->shaderRoundingModeRTEFloat32 << 2;
		modes[1] = p->shaderDenormPreserveFloat64 |
			   p->shaderSignedZeroInfNanPreserveFloat64 << 1 |
			   p->shaderRoundingModeRTEFloat64 << 2;
	}
	vulkan->has_f32 = keeps || modes[0] == 7;
	vulkan->has_f64 =
		f->features.features.shaderFloat64 && (keeps || modes[1] == 7);
}

/* By their numbers in SPIR-V: those of subgroups are in Vulkan's order. */
static void find_capabilities(struct gm_vulkan *vulkan, const struct facts *f)
{
	const VkPhysicalDeviceFeatures *features = &f->features.features;
	const struct {
		uint32_t number;
		bool has;
	} can[] = {
		{ 0 /* Matrix */, true },
		{ 1 /* Shader */, true },
		{ 9 /* Float16 */, f->f12.shaderFloat16 },
		{ 10 /* Float64 */, features->shaderFloat64 },
		{ 11 /* Int64 */, true },
		{ 22 /* Int16 */, features->shaderInt16 },
		{ 39 /* Int8 */, f->f12.shaderInt8 },
		{ 4433 /* StorageBuffer16BitAccess */, true },
		{ 4448 /* StorageBuffer8BitAccess */, true },
		{ 5345 /* VulkanMemoryModel */, f->f12.vulkanMemoryModel },
		{ 5347 /* PhysicalStorageBufferAddresses */, true },
	};

	for (size_t i = 0; i < sizeof(can) / sizeof(can[0]); i++)
		if (can[i].has)
			vulkan->can[vulkan->n_can++] = can[i].number;
	for (uint32_t i = 0; i < 8; i++)
		if (f->p11.subgroupSupportedOperations >> i & 1)
			vulkan->can[vulkan->n_can++] = 61 + i;
}

/* Can memory of this kind do all that? */
static bool can_be(struct gm_vulkan *vulkan,
		   VkExternalMemoryHandleTypeFlagBits kind,
		   VkExternalMemoryFeatureFlags all)
{
	const VkPhysicalDeviceExternalBufferInfo info = {
		GM_VK(PHYSICAL_DEVICE_EXTERNAL_BUFFER_INFO),
		.usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT,
		.handleType = kind,
	};
	VkExternalBufferProperties p = { GM_VK(EXTERNAL_BUFFER_PROPERTIES) };
	VkExternalMemoryFeatureFlags has;

	vulkan->vk.vkGetPhysicalDeviceExternalBufferProperties(vulkan->physical,
							       &info, &p);
	has = p.externalMemoryProperties.externalMemoryFeatures;
	/* One for a buffer alone would have to be told of it. */
	return (has & (all | VK_EXTERNAL_MEMORY_FEATURE_DEDICATED_ONLY_BIT)) ==
	       all;
}

static void find_memory(struct gm_vulkan *vulkan, const struct facts *f)
{
	vulkan->heap = gm_vulkan_heap(vulkan->physical, &vulkan->types);
	vulkan->alloc_max = f->p11.maxMemoryAllocationSize;
	vulkan->can_share =
		f->has_fd &&
		can_be(vulkan, GM_VULKAN_FD,
		       VK_EXTERNAL_MEMORY_FEATURE_EXPORTABLE_BIT |
			       VK_EXTERNAL_MEMORY_FEATURE_IMPORTABLE_BIT);
	if (f->has_host && can_be(vulkan, GM_VULKAN_HOST,
				  VK_EXTERNAL_MEMORY_FEATURE_IMPORTABLE_BIT))
		vulkan->reach_each = f->host.minImportedHostPointerAlignment;
	/* Threads of a driver for CPUs block SIGBUS: a client that takes its
	 * memory away would end the worker, so that memory is staged. */
	if (vulkan->reach_each && !vulkan->is_cpu)
		vulkan->gpu.flags = GM_GPU_REACH | GM_GPU_READ_ONLY;
	vulkan->gpu.own_times = vulkan->is_cpu ? 1 : APART_TIMES;
	vulkan->gpu.copy_times = APART_TIMES; /* a processor's, too */
}

/* ---- opening ------------------------------------------------------------- */

/* With the family that computes by the most queues, and all features that it
 * has, but for one that costs time. */
static int make_device(struct gm_vulkan *vulkan, struct facts *f)
{
	static const float same[GM_GPU_LANES + 1];
	VkQueueFamilyProperties families[FAMILIES];
	uint32_t n = FAMILIES;
	VkDeviceQueueCreateInfo queues = {
		GM_VK(DEVICE_QUEUE_CREATE_INFO),
		.pQueuePriorities = same,
	};
	const VkDeviceCreateInfo info = {
		GM_VK(DEVICE_CREATE_INFO),
		.pNext = &f->features,
		.queueCreateInfoCount = 1,
		.pQueueCreateInfos = &queues,
		.enabledExtensionCount = f->n_extensions,
		.ppEnabledExtensionNames = f->extensions,
	};

	vulkan->vk.vkGetPhysicalDeviceQueueFamilyProperties(vulkan->physical,
							    &n, families);
	for (uint32_t i = 0; i < n; i++)
		if ((families[i].queueFlags & VK_QUEUE_COMPUTE_BIT) &&
		    families[i].queueCount > queues.queueCount) {
			queues.queueFamilyIndex = i;
			queues.queueCount = families[i].queueCount;
		}
	if (queues.queueCount == 0)
		return gm_stream_lacks(&vulkan->gpu, "queue that computes");
	if (queues.queueCount > GM_GPU_LANES + 1)
		queues.queueCount = GM_GPU_LANES + 1;
	vulkan->family = queues.queueFamilyIndex;
	vulkan->n_queues = queues.queueCount;
	f->features.features.robustBufferAccess = false;
	return gm_stream_step(&vulkan->gpu,
			      vulkan->vk.vkCreateDevice(vulkan->physical, &info,
							NULL, &vulkan->device),
			      "vkCreateDevice");
}

static int make_context(struct gm_vulkan *vulkan)
{
	struct facts f = {
		.all = { GM_VK(PHYSICAL_DEVICE_PROPERTIES_2), &f.p11 },
		.p11 = { GM_VK(PHYSICAL_DEVICE_VULKAN_1_1_PROPERTIES), &f.p12 },
		.p12 = { GM_VK(PHYSICAL_DEVICE_VULKAN_1_2_PROPERTIES),
			 &f.host },
		.host = { GM_VK(
			PHYSICAL_DEVICE_EXTERNAL_MEMORY_HOST_PROPERTIES_EXT) },
		.features = { GM_VK(PHYSICAL_DEVICE_FEATURES_2), &f.f11 },
		.f11 = { GM_VK(PHYSICAL_DEVICE_VULKAN_1_1_FEATURES), &f.f12 },
		.f12 = { GM_VK(PHYSICAL_DEVICE_VULKAN_1_2_FEATURES) },
	};
	const VkPhysicalDeviceLimits *limits = &f.all.properties.limits;
	int rc = ask(vulkan, &f);

	if (rc < 0)
		return rc;
	vulkan->is_cpu =
		f.all.properties.deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU;
	vulkan->push_max = limits->maxPushConstantsSize < GM_VULKAN_PUSH_BYTES
				   ? limits->maxPushConstantsSize
				   : GM_VULKAN_PUSH_BYTES;
	vulkan->groups_max = limits->maxComputeWorkGroupCount[0];
	vulkan->group_max = limits->maxComputeWorkGroupInvocations;
	if (vulkan->group_max > limits->maxComputeWorkGroupSize[0])
		vulkan->group_max = limits->maxComputeWorkGroupSize[0];
	find_floats(vulkan, &f);
	find_capabilities(vulkan, &f);
	find_memory(vulkan, &f);
	rc = make_device(vulkan, &f);
	return rc < 0 ? rc
		      : gm_stream_step(&vulkan->gpu,
				       gm_vulkan_work_open(vulkan), "lanes");
}

static int vulkan_open(struct gm_gpu *gpu,
		       const struct gm_device_config *config, char *ret_took)
{
	struct gm_vulkan *vulkan = (struct gm_vulkan *)gpu;
	const char *manifest = config->library ? config->library : "";
	uint64_t at_ns[4] = { gm_node_clock_now() };
	int rc = gm_vulkan_library(manifest, config->uuid, &vulkan->vk,
				   &vulkan->physical, gpu->why);

	at_ns[1] = gm_node_clock_now();
	if (rc == 0)
		rc = make_context(vulkan);
	at_ns[2] = gm_node_clock_now();
	if (rc == 0)
		rc = gm_vulkan_operators(vulkan);
	at_ns[3] = gm_node_clock_now();
	gm_stream_took(at_ns, ret_took);
	return rc;
}

/* Work may still be under way on a device that is lost, and use all that it
 * has: it is left as it is, for the process ends. */
static void vulkan_close(struct gm_gpu *gpu)
{
	struct gm_vulkan *vulkan = (struct gm_vulkan *)gpu;

	if (vulkan->bounce)
		gm_vulkan_release(gpu, vulkan->bounce);
	if (vulkan->device && !gm_stream_is_lost(gpu)) {
		gm_vulkan_operators_close(vulkan);
		gm_vulkan_work_close(vulkan);
		vulkan->vk.vkDestroyDevice(vulkan->device, NULL);
	}
	free(vulkan->kernels);
}

static const struct gm_gpu_ops ops = { .bytes = sizeof(struct gm_vulkan),
				       .maker = "Vulkan",
				       .meaning = meaning,
				       .open = vulkan_open,
				       .close = vulkan_close,
				       GM_VULKAN_DRIVER(GM_STREAM_DRIVER_SET) };

/* Loading the driver takes most of the time that needs no device. */
static void prepare(const struct gm_device_config *config)
{
	struct gm_vulkan_calls calls;
	char why[GM_GPU_WHY_BYTES];
	VkPhysicalDevice physical;

	(void)gm_vulkan_library(config->library, config->uuid, &calls,
				&physical, why);
}

GM_STREAM_BACKEND(vulkan, VULKAN, ops, .prepare = prepare);
