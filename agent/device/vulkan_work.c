/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * vulkan_work - work on lanes, and the marks behind it.
 *
 * A command sees all that the command before it on its lane has written.  Lanes
 * that share a queue are in order there, so that a slow one may hold up others;
 * nothing relies on that order.
 *
 * Each mark has a command buffer, which is recorded again when the mark has
 * passed.  GM_GPU_SLOW has no marks: its work is submitted when it is waited
 * for, with values of its own.
 */

#include "agent/device/vulkan.h"

#include <errno.h>
#include <string.h>

#define ALL          VK_PIPELINE_STAGE_ALL_COMMANDS_BIT
#define WRITES       VK_ACCESS_MEMORY_WRITE_BIT
#define WAIT_NS      UINT64_C(1000000000) /* then a waiter looks for a loss */
#define BOUNCE_BYTES (UINT64_C(4) << 20)

/* ---- lanes --------------------------------------------------------------- */

static VkResult make_lane(struct gm_vulkan *vulkan, struct gm_vulkan_lane *lane)
{
	const struct gm_vulkan_calls *vk = &vulkan->vk;
	const VkSemaphoreTypeCreateInfo timeline = {
		GM_VK(SEMAPHORE_TYPE_CREATE_INFO),
		.semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE,
	};
	const VkSemaphoreCreateInfo semaphore = {
		GM_VK(SEMAPHORE_CREATE_INFO),
		.pNext = &timeline,
	};
	const VkCommandPoolCreateInfo pool = {
		GM_VK(COMMAND_POOL_CREATE_INFO),
		.flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT,
		.queueFamilyIndex = vulkan->family,
	};
	VkCommandBufferAllocateInfo commands = {
		GM_VK(COMMAND_BUFFER_ALLOCATE_INFO),
		.level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
		.commandBufferCount = GM_VULKAN_COMMANDS,
	};
	VkResult result = vk->vkCreateSemaphore(vulkan->device, &semaphore,
						NULL, &lane->ended);

	if (result >= 0)
		result = vk->vkCreateCommandPool(vulkan->device, &pool, NULL,
						 &lane->pool);
	commands.commandPool = lane->pool;
	if (result >= 0)
		result = vk->vkAllocateCommandBuffers(vulkan->device, &commands,
						      lane->commands);
	return result;
}

VkResult gm_vulkan_work_open(struct gm_vulkan *vulkan)
{
	VkResult result = VK_SUCCESS;

	for (uint32_t i = 0; i < vulkan->n_queues; i++) {
		vulkan->vk.vkGetDeviceQueue(vulkan->device, vulkan->family, i,
					    &vulkan->queues[i].queue);
		pthread_mutex_init(&vulkan->queues[i].lock, NULL);
	}
	for (uint32_t i = 0; i <= GM_GPU_SLOW && result >= 0; i++) {
		vulkan->lanes[i].queue = &vulkan->queues[i % vulkan->n_queues];
		result = make_lane(vulkan, &vulkan->lanes[i]);
	}
	return result;
}

void gm_vulkan_work_close(struct gm_vulkan *vulkan)
{
	for (uint32_t i = 0; i <= GM_GPU_SLOW; i++) {
		struct gm_vulkan_lane *lane = &vulkan->lanes[i];

		vulkan->vk.vkDestroyCommandPool(vulkan->device, lane->pool,
						NULL);
		vulkan->vk.vkDestroySemaphore(vulkan->device, lane->ended,
					      NULL);
	}
	for (uint32_t i = 0; i < vulkan->n_queues; i++)
		if (vulkan->queues[i].queue)
			pthread_mutex_destroy(&vulkan->queues[i].lock);
}

/* All that was written before is there for what comes behind. */
static void order(struct gm_vulkan *vulkan, VkCommandBuffer commands,
		  VkPipelineStageFlags stage, VkAccessFlags uses)
{
	const VkMemoryBarrier barrier = {
		GM_VK(MEMORY_BARRIER),
		.srcAccessMask = WRITES,
		.dstAccessMask = uses,
	};

	vulkan->vk.vkCmdPipelineBarrier(commands, ALL, stage, 0, 1, &barrier, 0,
					NULL, 0, NULL);
}

int gm_vulkan_record(struct gm_vulkan *vulkan, uint32_t at,
		     VkCommandBuffer *ret_commands)
{
	const VkCommandBufferBeginInfo info = {
		GM_VK(COMMAND_BUFFER_BEGIN_INFO),
		.flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT,
	};
	struct gm_vulkan_lane *lane = &vulkan->lanes[at];
	VkCommandBuffer commands = lane->commands[lane->next];
	int rc = lane->is_open
			 ? 0
			 : gm_stream_check(&vulkan->gpu,
					   vulkan->vk.vkBeginCommandBuffer(
						   commands, &info));

	if (rc < 0)
		return rc;
	lane->is_open = true;
	order(vulkan, commands, ALL, VK_ACCESS_MEMORY_READ_BIT | WRITES);
	*ret_commands = commands;
	return 0;
}

/* The processor sees what was written when the lane has the value. */
static VkResult submit(struct gm_vulkan *vulkan, struct gm_vulkan_lane *lane,
		       uint64_t value)
{
	VkSemaphore before[GM_GPU_LANES];
	VkPipelineStageFlags stages[GM_GPU_LANES];
	uint64_t values[GM_GPU_LANES];
	VkTimelineSemaphoreSubmitInfo timeline = {
		GM_VK(TIMELINE_SEMAPHORE_SUBMIT_INFO),
		.pWaitSemaphoreValues = values,
		.signalSemaphoreValueCount = 1,
		.pSignalSemaphoreValues = &value,
	};
	VkSubmitInfo info = {
		GM_VK(SUBMIT_INFO),
		.pNext = &timeline,
		.pWaitSemaphores = before,
		.pWaitDstStageMask = stages,
		.commandBufferCount = 1,
		.pCommandBuffers = &lane->commands[lane->next],
		.signalSemaphoreCount = 1,
		.pSignalSemaphores = &lane->ended,
	};
	uint32_t n = 0;
	VkResult result;

	for (uint32_t i = 0; i < GM_GPU_LANES; i++) {
		if (!lane->after[i])
			continue;
		before[n] = vulkan->lanes[i].ended;
		stages[n] = ALL;
		values[n++] = lane->after[i];
		lane->after[i] = 0;
	}
	timeline.waitSemaphoreValueCount = info.waitSemaphoreCount = n;
	order(vulkan, *info.pCommandBuffers, VK_PIPELINE_STAGE_HOST_BIT,
	      VK_ACCESS_HOST_READ_BIT);
	result = vulkan->vk.vkEndCommandBuffer(*info.pCommandBuffers);
	if (result < 0)
		return result;
	pthread_mutex_lock(&lane->queue->lock);
	result = vulkan->vk.vkQueueSubmit(lane->queue->queue, 1, &info,
					  VK_NULL_HANDLE);
	pthread_mutex_unlock(&lane->queue->lock);
	lane->is_open = false;
	lane->next = (lane->next + 1) % GM_VULKAN_COMMANDS;
	lane->value = value;
	return result;
}

/* Waits that fail return at once, then and ever after. */
static int wait_for(struct gm_vulkan *vulkan, const struct gm_vulkan_lane *lane,
		    uint64_t value)
{
	const VkSemaphoreWaitInfo info = {
		GM_VK(SEMAPHORE_WAIT_INFO),
		.semaphoreCount = 1,
		.pSemaphores = &lane->ended,
		.pValues = &value,
	};
	VkResult result;

	do
		result = vulkan->vk.vkWaitSemaphores(vulkan->device, &info,
						     WAIT_NS);
	while (result == VK_TIMEOUT && !gm_stream_is_lost(&vulkan->gpu));
	if (result < 0)
		return gm_stream_lose_by(&vulkan->gpu, result);
	return result == VK_SUCCESS ? 0 : -ENOTRECOVERABLE;
}

/* ---- work ---------------------------------------------------------------- */

/* By way of memory that the device reaches: waits for each part of it. */
static int bounce(struct gm_gpu *gpu, struct gm_gpu_at to,
		  struct gm_gpu_at from, uint64_t bytes)
{
	struct gm_vulkan *vulkan = (struct gm_vulkan *)gpu;
	struct gm_gpu_at at = { 0 };
	uint64_t part;
	int rc = vulkan->bounce
			 ? 0
			 : gm_vulkan_pin(gpu, BOUNCE_BYTES, &vulkan->bounce);

	at.mem = vulkan->bounce;
	for (; rc == 0 && bytes > 0; bytes -= part) {
		part = bytes < BOUNCE_BYTES ? bytes : BOUNCE_BYTES;
		if (!from.mem)
			memcpy(at.mem->host, (void *)(uintptr_t)from.offset,
			       part);
		rc = gm_vulkan_copy(gpu, GM_GPU_SLOW, from.mem ? at : to,
				    from.mem ? from : at, part);
		if (rc == 0)
			rc = gm_vulkan_finish(gpu, GM_GPU_SLOW);
		if (rc == 0 && !to.mem)
			memcpy((void *)(uintptr_t)to.offset, at.mem->host,
			       part);
		from.offset += part;
		to.offset += part;
	}
	return rc;
}

int gm_vulkan_copy(struct gm_gpu *gpu, uint32_t lane, struct gm_gpu_at to,
		   struct gm_gpu_at from, uint64_t bytes)
{
	struct gm_vulkan *vulkan = (struct gm_vulkan *)gpu;

	const VkBufferCopy region = { .srcOffset = from.offset,
				      .dstOffset = to.offset,
				      .size = bytes };
	VkCommandBuffer commands;
	int rc;

	/* Dispatch has memory for all that it copies. */
	if (!to.mem || !from.mem)
		return lane == GM_GPU_SLOW ? bounce(gpu, to, from, bytes)
					   : -EINVAL;
	rc = gm_vulkan_record(vulkan, lane, &commands);
	if (rc == 0)
		vulkan->vk.vkCmdCopyBuffer(commands,
					   gm_vulkan_memory_of(from.mem),
					   gm_vulkan_memory_of(to.mem), 1,
					   &region);
	return rc;
}

/* Vulkan fills whole words. */
int gm_vulkan_fill(struct gm_gpu *gpu, uint32_t lane, struct gm_gpu_at to,
		   uint64_t bytes, uint8_t value)
{
	struct gm_vulkan *vulkan = (struct gm_vulkan *)gpu;
	const struct gm_gpu_launch launch = {
		.kernel = (const struct gm_gpu_kernel *)vulkan->fill,
		.op = GPUMAP_OP_FILL,
		.n = bytes,
		.n_args = 3,
		.args = { gm_stream_arg(to, bytes), gm_stream_number(bytes),
			  gm_stream_number(value *
					   UINT64_C(0x0101010101010101)) },
	};
	VkCommandBuffer commands;
	int rc;

	if (to.offset % 4 || bytes % 4)
		return vulkan->fill ? gm_vulkan_launch(gpu, lane, &launch)
				    : -EOPNOTSUPP;
	rc = gm_vulkan_record(vulkan, lane, &commands);
	if (rc == 0)
		vulkan->vk.vkCmdFillBuffer(commands,
					   gm_vulkan_memory_of(to.mem),
					   to.offset, bytes,
					   value * UINT32_C(0x01010101));
	return rc;
}

/* ---- marks --------------------------------------------------------------- */

int gm_vulkan_mark(struct gm_gpu *gpu, const struct gm_async_exec *mark)
{
	struct gm_vulkan *vulkan = (struct gm_vulkan *)gpu;
	struct gm_vulkan_lane *lane = &vulkan->lanes[mark->lane];
	VkCommandBuffer commands;
	VkResult result;
	int rc = lane->is_open
			 ? 0
			 : gm_vulkan_record(vulkan, mark->lane, &commands);

	if (rc < 0)
		return gm_stream_lose(gpu, 0, strerror(-rc));
	result = submit(vulkan, lane, mark->value);
	return result < 0 ? gm_stream_lose_by(&vulkan->gpu, result) : 1;
}

int gm_vulkan_passed(struct gm_gpu *gpu, const struct gm_async_exec *mark)
{
	struct gm_vulkan *vulkan = (struct gm_vulkan *)gpu;
	uint64_t value = 0;
	VkResult result = vulkan->vk.vkGetSemaphoreCounterValue(
		vulkan->device, vulkan->lanes[mark->lane].ended, &value);

	if (result < 0)
		return gm_stream_lose_by(&vulkan->gpu, result);
	return value >= mark->value;
}

int gm_vulkan_wait(struct gm_gpu *gpu, const struct gm_async_exec *mark)
{
	struct gm_vulkan *vulkan = (struct gm_vulkan *)gpu;

	return wait_for(vulkan, &vulkan->lanes[mark->lane], mark->value);
}

int gm_vulkan_after(struct gm_gpu *gpu, uint32_t lane,
		    const struct gm_async_exec *mark)
{
	struct gm_vulkan *vulkan = (struct gm_vulkan *)gpu;
	uint64_t *value = &vulkan->lanes[lane].after[mark->lane];

	if (*value < mark->value)
		*value = mark->value;
	return 0;
}

int gm_vulkan_finish(struct gm_gpu *gpu, uint32_t at)
{
	struct gm_vulkan *vulkan = (struct gm_vulkan *)gpu;
	struct gm_vulkan_lane *slow = &vulkan->lanes[GM_GPU_SLOW];
	VkResult result;
	int rc = 0;

	/* Work of a device that is lost may never end. */
	if (gm_stream_is_lost(gpu))
		return -ENOTRECOVERABLE;
	if (slow->is_open) {
		result = submit(vulkan, slow, slow->value + 1);
		if (result < 0)
			return gm_stream_lose_by(&vulkan->gpu, result);
	}
	for (uint32_t i = at == GM_GPU_ALL ? 0 : GM_GPU_SLOW;
	     i <= GM_GPU_SLOW && rc == 0; i++)
		rc = wait_for(vulkan, &vulkan->lanes[i],
			      vulkan->lanes[i].value);
	return rc;
}
