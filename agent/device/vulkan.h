/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * vulkan - the driver of Vulkan rows (gpu.h): what its files share.
 *
 *	vulkan.c		opening, and what an error means
 *	vulkan_library.c	the loader, one vendor's driver, its functions
 *	vulkan_memory.c		memory of the device, the worker and clients
 *	vulkan_program.c	operators, and programs of clients
 *	vulkan_work.c		work on lanes, and marks
 *
 * A lane records its work, and a mark submits what was recorded since the mark
 * before.  Each lane has a timeline semaphore, whose value is that of the last
 * mark that has passed.  Lanes have a queue each where the device has so many;
 * calls for one that is shared take turns.
 *
 * A kernel of a client is an entry point of a module of SPIR-V for Vulkan 1.2,
 * a compute shader without descriptors, whose groups have one dimension, of a
 * constant size.  An invocation is an item: more may come than there are, and
 * fewer than 65536 groups.  Its push constants are
 *
 *	uint64_t dst, src	addresses, 0 where there is none
 *	uint64_t n		items
 *	...			the parameters, so many bytes as the job has
 *
 * in 128 bytes or what the device has, at most 256.  The image of a module ends
 * behind its last function, where a NUL follows.
 */
#ifndef GM_VULKAN_H
#define GM_VULKAN_H

#define VK_NO_PROTOTYPES
#include <vulkan/vulkan_core.h>

#include "agent/device/stream.h"

#define GM_VULKAN_PUSH_BYTES 256u /* of push constants, at most */
/* At most so many marks are under way: the command buffer before is free. */
#define GM_VULKAN_COMMANDS (GM_GPU_MARKS + 1)
#define GM_VULKAN_CAN      24u /* capabilities of modules */

/* How structs of Vulkan begin. */
#define GM_VK(name) .sType = VK_STRUCTURE_TYPE_##name

/* Kinds of memory that is shared, and of clients' memory. */
#define GM_VULKAN_FD   VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT
#define GM_VULKAN_HOST VK_EXTERNAL_MEMORY_HANDLE_TYPE_HOST_ALLOCATION_BIT_EXT

struct gm_vulkan_calls {
#define SYMBOL(name) PFN_##name name;
#include "agent/device/vulkan_symbols.h"
};

/* One of an operator or of a client's program. */
struct gm_vulkan_kernel {
	VkPipeline any;   /* operands may begin at any byte */
	VkPipeline whole; /* with whole elements; NULL: there is none */
	uint32_t each;    /* elements, or bytes, of a group */
};

struct gm_vulkan_queue {
	VkQueue queue;
	pthread_mutex_t lock; /* of submissions */
};

struct gm_vulkan_lane {
	struct gm_vulkan_queue *queue;
	VkSemaphore ended;
	uint64_t value; /* that the last submission will give it */
	VkCommandPool pool;
	VkCommandBuffer commands[GM_VULKAN_COMMANDS];
	uint32_t next;                /* of those, to record */
	bool is_open;                 /* it is being recorded */
	uint64_t after[GM_GPU_LANES]; /* values of others to wait for, or 0 */
};

struct gm_vulkan {
	struct gm_gpu gpu;
	struct gm_vulkan_calls vk;
	VkPhysicalDevice physical;
	VkDevice device;
	VkPhysicalDeviceMemoryProperties types;
	uint32_t heap;       /* that is the device's memory */
	uint64_t alloc_max;  /* bytes of one piece */
	uint64_t reach_each; /* and a multiple of: of client memory; 0: none */
	bool has_budget, can_share;
	bool is_cpu;
	uint32_t
		float_modes[2]; /* of f32, f64: modes that it has, a bit each */
	bool has_f32, has_f64;  /* exactly */
	uint32_t group_max, groups_max, push_max;
	uint32_t can[GM_VULKAN_CAN]; /* capabilities of programs */
	uint32_t n_can;
	VkPipelineLayout layout;
	struct gm_vulkan_kernel *kernels; /* of each module of operators */
	const struct gm_vulkan_kernel *fill;
	uint32_t family, n_queues;
	struct gm_vulkan_queue queues[GM_GPU_LANES + 1];
	struct gm_vulkan_lane lanes[GM_GPU_LANES + 1]; /* and GM_GPU_SLOW */
	gm_a64 used;               /* bytes of the device's memory */
	struct gm_gpu_mem *bounce; /* slow thread: for memory of the process */
};

/* ---- vulkan_library.c ---------------------------------------------------- */

/*
 * gm_vulkan_list - have the loader show one vendor's driver, and list its
 * devices
 *
 * manifest	of the driver, a file of icd.d; a process has one
 * ret_why	GM_GPU_WHY_BYTES: on failure, a line for people
 *
 * Sets variables of the environment that the loader reads: call it before there
 * are threads that read any.
 *
 * Returns	how many
 *		-ENOENT		there is no loader, or no such manifest
 *		-ELIBBAD	the loader finds no driver of Vulkan by it
 *		-EBUSY		the process has another driver
 *		-ENOMEM
 */
int gm_vulkan_list(const char *manifest,
		   struct gm_gpu_facts ret_facts[GM_GPU_DEVICES],
		   VkPhysicalDevice ret_devices[GM_GPU_DEVICES],
		   char ret_why[GM_GPU_WHY_BYTES]);

/* The same, and find the device of this id, NULL for the first.  Returns 0, or
 * as gm_vulkan_list(), or -ENODEV: there is none. */
int gm_vulkan_library(const char *manifest, const char *id,
		      struct gm_vulkan_calls *ret_calls,
		      VkPhysicalDevice *ret_physical,
		      char ret_why[GM_GPU_WHY_BYTES]);

/* Does a device have it? */
bool gm_vulkan_has(VkPhysicalDevice physical, const char *extension);

/* The heap that is the device's memory. */
uint32_t gm_vulkan_heap(VkPhysicalDevice physical,
			VkPhysicalDeviceMemoryProperties *ret_memory);

/* ---- vulkan_memory.c ----------------------------------------------------- */

struct gm_vulkan_mem {
	struct gm_gpu_mem mem;
	VkBuffer buffer;
	VkDeviceMemory memory;
	uint64_t counted; /* of the device's memory */
};

static inline VkBuffer gm_vulkan_memory_of(const struct gm_gpu_mem *mem)
{
	return ((const struct gm_vulkan_mem *)mem)->buffer;
}

/* ---- vulkan_work.c ------------------------------------------------------- */

VkResult gm_vulkan_work_open(struct gm_vulkan *vulkan);
void gm_vulkan_work_close(struct gm_vulkan *vulkan);

/* Where the next command of a lane is recorded, behind what the commands before
 * it have written.  Returns 0, -errno */
int gm_vulkan_record(struct gm_vulkan *vulkan, uint32_t lane,
		     VkCommandBuffer *ret_commands);

/* ---- vulkan_program.c ---------------------------------------------------- */

/* Make the operators; one that the driver refuses is missing, and the log says
 * so.  Returns 0, -ENOMEM */
int gm_vulkan_operators(struct gm_vulkan *vulkan);
void gm_vulkan_operators_close(struct gm_vulkan *vulkan);

/* ---- of all files: as gpu.h ---------------------------------------------- */

/* One table, one shape. */
/* clang-format off */

#define GM_VULKAN_DRIVER(CALL) \
	CALL(vulkan, memory) CALL(vulkan, alloc) CALL(vulkan, pin) \
	CALL(vulkan, reach) CALL(vulkan, release) CALL(vulkan, export_fd) \
	CALL(vulkan, import_fd) CALL(vulkan, copy) CALL(vulkan, fill) \
	CALL(vulkan, launch) CALL(vulkan, mark) CALL(vulkan, passed) \
	CALL(vulkan, wait) CALL(vulkan, after) CALL(vulkan, finish) \
	CALL(vulkan, find) CALL(vulkan, load) CALL(vulkan, unload)

GM_VULKAN_DRIVER(GM_STREAM_DRIVER_DECLARE)

/* clang-format on */

#endif
