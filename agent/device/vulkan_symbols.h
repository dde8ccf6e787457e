/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * vulkan_symbols - every function of Vulkan that gpumap calls.
 *
 * A table without a guard: the source that includes it defines SYMBOL(name).
 * All are of Vulkan 1.2, but for those of two extensions, at the end.
 */

/* One table, one shape. */
/* clang-format off */

SYMBOL(vkCreateInstance)
SYMBOL(vkEnumeratePhysicalDevices) SYMBOL(vkEnumerateDeviceExtensionProperties)
SYMBOL(vkGetPhysicalDeviceExternalBufferProperties)
SYMBOL(vkGetPhysicalDeviceFeatures2) SYMBOL(vkGetPhysicalDeviceProperties2)
SYMBOL(vkGetPhysicalDeviceMemoryProperties2)
SYMBOL(vkGetPhysicalDeviceQueueFamilyProperties)
SYMBOL(vkCreateDevice) SYMBOL(vkDestroyDevice) SYMBOL(vkGetDeviceQueue)
SYMBOL(vkCreateSemaphore) SYMBOL(vkDestroySemaphore)
SYMBOL(vkGetSemaphoreCounterValue) SYMBOL(vkWaitSemaphores)
SYMBOL(vkCreateCommandPool) SYMBOL(vkDestroyCommandPool)
SYMBOL(vkAllocateCommandBuffers)
SYMBOL(vkBeginCommandBuffer) SYMBOL(vkEndCommandBuffer) SYMBOL(vkQueueSubmit)
SYMBOL(vkCmdBindPipeline) SYMBOL(vkCmdCopyBuffer) SYMBOL(vkCmdDispatch)
SYMBOL(vkCmdFillBuffer) SYMBOL(vkCmdPipelineBarrier) SYMBOL(vkCmdPushConstants)
SYMBOL(vkCreateBuffer) SYMBOL(vkDestroyBuffer) SYMBOL(vkGetBufferDeviceAddress)
SYMBOL(vkAllocateMemory) SYMBOL(vkFreeMemory) SYMBOL(vkMapMemory)
SYMBOL(vkBindBufferMemory) SYMBOL(vkGetBufferMemoryRequirements)
SYMBOL(vkCreatePipelineLayout) SYMBOL(vkDestroyPipelineLayout)
SYMBOL(vkCreateShaderModule) SYMBOL(vkDestroyShaderModule)
SYMBOL(vkCreateComputePipelines) SYMBOL(vkDestroyPipeline)
SYMBOL(vkGetMemoryFdKHR) SYMBOL(vkGetMemoryHostPointerPropertiesEXT)

#undef SYMBOL
