/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * vulkan_program - operators, and programs of clients.
 *
 * The operators are part of this program, as SPIR-V.  All pipelines of theirs
 * are made when the device is opened: some drivers wait for all work before
 * they make one.
 */

#include "agent/device/vulkan.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/common/log.h"
#include "agent/cuda/operators.h"
#include "agent/device/spirv.h"

#define LANES      32u
#define GROUP      256u
#define FILL_BYTES 8u /* of an invocation */

/* Made when building: MODULES, and the words of each. */
#include "agent/device/ops_vulkan_spirv.h"

static const struct module {
	const char *name;
	const uint32_t *words;
	uint32_t n;
	uint32_t floats; /* bits of those that it computes, or 0 */
	bool by_integers;
	bool is_reduction;
} modules[] = {
#define MODULE(name, words, ...) \
	{ #name, words, sizeof(words) / sizeof(words[0]), __VA_ARGS__ },
	MODULES
};
#define N_MODULES (sizeof(modules) / sizeof(modules[0]))

/* ---- SPIR-V -------------------------------------------------------------- */

enum {
	VERSION_LAST = 0x00010500,
	MODEL_COMPUTE = 5,
	MODE_LOCAL_SIZE = 17,
	DECORATION_DESCRIPTOR_SET = 34,
	EXACT_WORDS = 18 /* more, of a module that asks for exact floats */
};

/* Add an instruction for each of the modes of float_modes. */
static size_t add_exact(uint32_t *words, size_t n, uint32_t modes,
			uint32_t entry, uint32_t bits)
{
	static const uint32_t exact[3][2] = {
		{ 4464, 4459 }, /* DenormPreserve, as capability and mode */
		{ 4466, 4461 }, /* SignedZeroInfNanPreserve */
		{ 4467, 4462 }, /* RoundingModeRTE */
	};

	for (uint32_t k = 0; k < 3; k++) {
		const uint32_t all[] = { 4u << 16 | GM_SPIRV_EXECUTION_MODE,
					 entry, exact[k][1], bits };
		const uint32_t can[] = { 2u << 16 | GM_SPIRV_CAPABILITY,
					 exact[k][0] };
		size_t bytes = entry ? sizeof(all) : sizeof(can);

		if (!(modes >> k & 1))
			continue;
		memcpy(words + n, entry ? all : can, bytes);
		n += bytes / sizeof(*words);
	}
	return n;
}

/* Copy an operator's module, and ask for exact floats of @bits as far as the
 * device can.  Returns its words. */
static size_t ask_exact(const struct module *module, uint32_t modes,
			uint32_t bits, uint32_t *ret)
{
	size_t n = GM_SPIRV_HEAD, length;

	memcpy(ret, module->words, GM_SPIRV_HEAD * sizeof(*ret));
	n = add_exact(ret, n, modes, 0, bits);
	for (const uint32_t *at = module->words + GM_SPIRV_HEAD;
	     at < module->words + module->n; at += length) {
		length = *at >> 16;
		memcpy(ret + n, at, length * sizeof(*ret));
		n += length;
		if ((*at & 0xffff) == GM_SPIRV_ENTRY_POINT)
			n = add_exact(ret, n, modes, at[2], bits);
	}
	return n;
}

/* ---- pipelines ----------------------------------------------------------- */

/* @group of an operator; 0: the module is a client's, with its own. */
static VkResult make_kernel(struct gm_vulkan *vulkan, const uint32_t *words,
			    size_t n, const char *name, uint32_t group,
			    struct gm_vulkan_kernel *k)
{
	static const VkSpecializationMapEntry entries[] = {
		{ .constantID = 0, .offset = 0, .size = 4 },
		{ .constantID = 1, .offset = 4, .size = 4 },
	};
	uint32_t constants[2] = { group, true }; /* and ANY of ops_vulkan.h */
	const VkSpecializationInfo ours = { 2, entries, sizeof(constants),
					    constants };
	const VkShaderModuleCreateInfo info = {
		GM_VK(SHADER_MODULE_CREATE_INFO),
		.codeSize = n * sizeof(*words),
		.pCode = words,
	};
	VkComputePipelineCreateInfo pipeline = {
		GM_VK(COMPUTE_PIPELINE_CREATE_INFO),
		.stage = { GM_VK(PIPELINE_SHADER_STAGE_CREATE_INFO),
			   .stage = VK_SHADER_STAGE_COMPUTE_BIT, .pName = name,
			   .pSpecializationInfo = group ? &ours : NULL },
		.layout = vulkan->layout,
	};
	const struct gm_vulkan_calls *vk = &vulkan->vk;
	VkShaderModule module;
	VkResult result =
		vk->vkCreateShaderModule(vulkan->device, &info, NULL, &module);

	if (result < 0)
		return result;
	pipeline.stage.module = module;
	result = vk->vkCreateComputePipelines(vulkan->device, VK_NULL_HANDLE, 1,
					      &pipeline, NULL, &k->any);
	constants[1] = false;
	if (result >= 0 && group)
		result = vk->vkCreateComputePipelines(vulkan->device,
						      VK_NULL_HANDLE, 1,
						      &pipeline, NULL,
						      &k->whole);
	vk->vkDestroyShaderModule(vulkan->device, module, NULL);
	return result;
}

/* ---- operators ----------------------------------------------------------- */

/* The device takes one of the two that compute floats. */
static bool is_taken(const struct gm_vulkan *vulkan,
		     const struct module *module)
{
	bool is_exact =
		module->floats == 64 ? vulkan->has_f64 : vulkan->has_f32;

	return module->floats == 0 || module->by_integers != is_exact;
}

static VkResult make_operator(struct gm_vulkan *vulkan,
			      const struct module *module, uint32_t *room,
			      struct gm_vulkan_kernel *k)
{
	bool is_double = module->floats == 64;
	size_t n = ask_exact(module, vulkan->float_modes[is_double],
			     is_double ? 64 : 32, room);
	uint32_t group = GROUP < vulkan->group_max ? GROUP : vulkan->group_max;

	k->each = strcmp(module->name, "gm_fill") == 0 ? group * FILL_BYTES
						       : group;
	if (module->is_reduction) {
		group = LANES;
		k->each = GM_REDUCE_CHUNK;
	}
	return make_kernel(vulkan, room, n, "main", group, k);
}

int gm_vulkan_operators(struct gm_vulkan *vulkan)
{
	const VkPushConstantRange range = {
		.stageFlags = VK_SHADER_STAGE_COMPUTE_BIT,
		.size = vulkan->push_max,
	};
	const VkPipelineLayoutCreateInfo info = {
		GM_VK(PIPELINE_LAYOUT_CREATE_INFO),
		.pushConstantRangeCount = 1,
		.pPushConstantRanges = &range,
	};
	VkResult result = vulkan->vk.vkCreatePipelineLayout(
		vulkan->device, &info, NULL, &vulkan->layout);
	uint32_t most = 0, *room;

	gm_stream_say_floats(vulkan->has_f32, vulkan->has_f64);
	for (size_t i = 0; i < N_MODULES; i++)
		most = modules[i].n > most ? modules[i].n : most;
	room = calloc(most + EXACT_WORDS, sizeof(*room));
	vulkan->kernels = calloc(N_MODULES, sizeof(*vulkan->kernels));
	if (result < 0 || !room || !vulkan->kernels) {
		free(room);
		return -ENOMEM;
	}
	for (size_t i = 0; i < N_MODULES; i++) {
		if (!is_taken(vulkan, &modules[i]))
			continue;
		result = make_operator(vulkan, &modules[i], room,
				       &vulkan->kernels[i]);
		if (result < 0)
			gm_log(GM_LOG_WARNING, "operators_missing",
			       "code=%d operator=%s", result, modules[i].name);
	}
	free(room);
	return 0;
}

void gm_vulkan_operators_close(struct gm_vulkan *vulkan)
{
	for (size_t i = 0; vulkan->kernels && i < N_MODULES; i++) {
		vulkan->vk.vkDestroyPipeline(vulkan->device,
					     vulkan->kernels[i].any, NULL);
		vulkan->vk.vkDestroyPipeline(vulkan->device,
					     vulkan->kernels[i].whole, NULL);
	}
	vulkan->vk.vkDestroyPipelineLayout(vulkan->device, vulkan->layout,
					   NULL);
}

const struct gm_gpu_kernel *gm_vulkan_find(struct gm_gpu *gpu, uint32_t op,
					   uint32_t dtype, uint32_t to)
{
	struct gm_vulkan *vulkan = (struct gm_vulkan *)gpu;
	char name[GM_OPERATOR_NAME_BYTES];

	if (gm_operators_name(gm_operators_of(op), dtype, to, name) < 0)
		return NULL;
	for (size_t i = 0; i < N_MODULES; i++) {
		const struct gm_vulkan_kernel *k = &vulkan->kernels[i];

		if (!k->whole || strcmp(modules[i].name, name) != 0)
			continue;
		if (op == GPUMAP_OP_FILL)
			vulkan->fill = k;
		return (const struct gm_gpu_kernel *)k;
	}
	return NULL;
}

/* ---- programs of clients ------------------------------------------------- */

static bool can(const struct gm_vulkan *vulkan, uint32_t capability)
{
	for (uint32_t i = 0; i < vulkan->n_can; i++)
		if (vulkan->can[i] == capability)
			return true;
	return false;
}

/* Look at a client's module, as far as drivers trust it.  Returns 0, and the
 * invocations of its groups; else why not. */
static int read_module(const struct gm_vulkan *vulkan,
		       const struct gm_kernel_image *image, uint32_t *ret_group,
		       char *ret_why)
{
	const uint32_t *words = image->bytes, *at = words + GM_SPIRV_HEAD;
	const uint32_t *end = words + image->n / sizeof(*words);
	const char *what = gm_spirv_check(words, image->n);
	uint32_t entry = 0, group = 0;
	int rc = -ENOEXEC;
	char lack[64];

	if (!what && words[1] > VERSION_LAST)
		what = "it is no SPIR-V of Vulkan 1.2";
	for (; !what && at < end; at += *at >> 16) {
		switch (*at & 0xffff) {
		case GM_SPIRV_CAPABILITY:
			snprintf(lack, sizeof(lack),
				 "the row has no capability %u", at[1]);
			what = can(vulkan, at[1]) ? NULL : lack;
			break;
		case GM_SPIRV_ENTRY_POINT:
			if (gm_spirv_is_entry(at, MODEL_COMPUTE, image->kernel))
				entry = at[2];
			break;
		case GM_SPIRV_EXECUTION_MODE:
			if (at[1] != entry || at[2] != MODE_LOCAL_SIZE ||
			    *at >> 16 < 6)
				break;
			group = at[3];
			if (group == 0 || group > vulkan->group_max ||
			    at[4] != 1 || at[5] != 1)
				what = "its groups are too large, or have "
				       "another dimension";
			break;
		case GM_SPIRV_DECORATE:
			if (at[2] == DECORATION_DESCRIPTOR_SET)
				what = "it has descriptors";
		}
	}
	if (!what && !entry) {
		what = "no compute shader has this name";
		rc = -ENOENT;
	}
	if (!what && !group)
		what = "the size of its groups is no constant";
	if (what)
		snprintf(ret_why, GM_KERNEL_WHY_BYTES, "kernel %s: %s",
			 image->kernel, what);
	*ret_group = group;
	return what ? rc : 0;
}

int gm_vulkan_load(struct gm_gpu *gpu, const struct gm_kernel_image *image,
		   struct gm_gpu_program **ret_program,
		   const struct gm_gpu_kernel **ret_kernel,
		   char ret_why[GM_KERNEL_WHY_BYTES])
{
	struct gm_vulkan *vulkan = (struct gm_vulkan *)gpu;
	struct gm_vulkan_kernel *k = calloc(1, sizeof(*k));
	int rc = k ? read_module(vulkan, image, &k->each, ret_why) : -ENOMEM;

	if (rc == 0) {
		rc = gm_stream_check(gpu,
				     make_kernel(vulkan, image->bytes,
						 image->n / sizeof(uint32_t),
						 image->kernel, 0, k));
		if (rc < 0)
			snprintf(ret_why, GM_KERNEL_WHY_BYTES,
				 "kernel %s: the driver refuses it",
				 image->kernel);
		if (rc < 0 && rc != -ENOMEM && rc != -ENOTRECOVERABLE)
			rc = -ENOEXEC;
	}
	if (rc < 0) {
		free(k);
		return rc;
	}
	*ret_program = (struct gm_gpu_program *)k; /* has nothing else */
	*ret_kernel = (const struct gm_gpu_kernel *)k;
	return 0;
}

void gm_vulkan_unload(struct gm_gpu *gpu, struct gm_gpu_program *program)
{
	struct gm_vulkan *vulkan = (struct gm_vulkan *)gpu;
	struct gm_vulkan_kernel *k = (struct gm_vulkan_kernel *)program;

	vulkan->vk.vkDestroyPipeline(vulkan->device, k->any, NULL);
	free(k);
}

/* ---- launches ------------------------------------------------------------ */

int gm_vulkan_launch(struct gm_gpu *gpu, uint32_t lane,
		     const struct gm_gpu_launch *l)
{
	struct gm_vulkan *vulkan = (struct gm_vulkan *)gpu;
	const struct gm_vulkan_calls *vk = &vulkan->vk;
	const struct gm_vulkan_kernel *k =
		(const struct gm_vulkan_kernel *)l->kernel;
	uint64_t push[GM_VULKAN_PUSH_BYTES / sizeof(uint64_t)] = { 0 };
	uint64_t groups = l->n / k->each + (l->n % k->each != 0), rows = 1;
	VkCommandBuffer commands;
	int rc;

	if (l->params_bytes > vulkan->push_max - l->n_args * sizeof(push[0]) ||
	    (l->op == GPUMAP_OP_RUN && groups > vulkan->groups_max))
		return -EINVAL;
	if (groups > vulkan->groups_max) {
		rows = (groups - 1) / vulkan->groups_max + 1;
		groups = vulkan->groups_max;
	}
	for (uint32_t i = 0; i < l->n_args; i++)
		push[i] = gm_stream_word(&l->args[i]);
	if (l->params_bytes)
		memcpy(push + l->n_args, l->params, l->params_bytes);
	rc = gm_vulkan_record(vulkan, lane, &commands);
	if (rc < 0)
		return rc;
	vk->vkCmdBindPipeline(commands, VK_PIPELINE_BIND_POINT_COMPUTE,
			      k->whole && l->is_whole ? k->whole : k->any);
	vk->vkCmdPushConstants(commands, vulkan->layout,
			       VK_SHADER_STAGE_COMPUTE_BIT, 0, vulkan->push_max,
			       push);
	vk->vkCmdDispatch(commands, (uint32_t)groups, (uint32_t)rows, 1);
	return 0;
}
