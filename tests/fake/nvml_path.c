/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* NVML's facts of a card's neighbours: CPUs, memory, other cards. */

#include <string.h>

#include "tests/fake/nvml.h"

#define LINKS_MAX 18 /* NVLinks of a card */

/* Only where cards are NUMA nodes themselves, and none of these is. */
nvmlReturn_t nvmlDeviceGetNumaNodeId(nvmlDevice_t device, unsigned int *node)
{
	const struct fake_gpu *gpu;
	nvmlReturn_t result = fake_nvml_enter_whole("nvmlDeviceGetNumaNodeId",
						    device, node, &gpu);

	return result ? result : fake_nvml_leave(NVML_ERROR_NOT_SUPPORTED);
}

static void add_cpu(unsigned int cpu, unsigned int n, unsigned long *cpus)
{
	const unsigned int bits = 8 * sizeof(*cpus);

	if (cpu / bits < n)
		cpus[cpu / bits] |= 1ul << cpu % bits;
}

/* CPUs that do not fit into the caller's @n words are left out. */
nvmlReturn_t nvmlDeviceGetCpuAffinity(nvmlDevice_t device, unsigned int n,
				      unsigned long *cpus)
{
	const struct fake_gpu *gpu;
	nvmlReturn_t result = fake_nvml_enter_whole("nvmlDeviceGetCpuAffinity",
						    device, cpus, &gpu);

	if (result)
		return result;
	if (!n)
		return fake_nvml_leave(NVML_ERROR_INVALID_ARGUMENT);
	if (!gpu->n_cpus)
		return fake_nvml_leave(NVML_ERROR_NOT_SUPPORTED);
	memset(cpus, 0, n * sizeof(*cpus));
	for (uint32_t i = 0; i < gpu->n_cpus; i++)
		add_cpu(gpu->first_cpu + i, n, cpus);
	return fake_nvml_leave(NVML_SUCCESS);
}

/* The card at the other end of a link of @gpu, -1: there is no such link.  The
 * plan has them, each for both of its ends. */
static int64_t far_end(uint32_t gpu, unsigned int link)
{
	const struct fake_plan *plan = &fake_nvml.hw.board->plan;

	for (uint32_t i = 0; i < plan->n_faults; i++) {
		const struct fake_fault *f = &plan->faults[i];

		if (f->kind != FAKE_LINK ||
		    (f->gpu != gpu && f->value != gpu) || link--)
			continue;
		return f->gpu == gpu ? (int64_t)f->value : f->gpu;
	}
	return -1;
}

static bool is_linked(uint32_t a, uint32_t b)
{
	int64_t end = 0;

	for (unsigned int link = 0; end >= 0; link++) {
		end = far_end(a, link);
		if (end == b)
			return true;
	}
	return false;
}

/* Enter a call about a link, of cards that have any. */
static nvmlReturn_t enter_link(const char *name, nvmlDevice_t device,
			       unsigned int link, const void *answer)
{
	const struct fake_gpu *gpu;
	nvmlReturn_t result = fake_nvml_enter_whole(name, device, answer, &gpu);

	if (result)
		return result;
	if (far_end(fake_nvml_gpu(device), 0) < 0)
		return fake_nvml_leave(NVML_ERROR_NOT_SUPPORTED);
	return link < LINKS_MAX ? NVML_SUCCESS
				: fake_nvml_leave(NVML_ERROR_INVALID_ARGUMENT);
}

nvmlReturn_t nvmlDeviceGetNvLinkState(nvmlDevice_t device, unsigned int link,
				      unsigned int *is_active)
{
	nvmlReturn_t result =
		enter_link("nvmlDeviceGetNvLinkState", device, link, is_active);

	if (result)
		return result;
	*is_active = far_end(fake_nvml_gpu(device), link) >= 0;
	return fake_nvml_leave(NVML_SUCCESS);
}

nvmlReturn_t nvmlDeviceGetNvLinkRemotePciInfo_v2(nvmlDevice_t device,
						 unsigned int link,
						 nvmlPciInfo_t *pci)
{
	nvmlReturn_t result = enter_link("nvmlDeviceGetNvLinkRemotePciInfo_v2",
					 device, link, pci);
	int64_t end;

	if (result)
		return result;
	end = far_end(fake_nvml_gpu(device), link);
	if (end < 0 || end >= fake_nvml.hw.board->n_gpus)
		return fake_nvml_leave(NVML_ERROR_INVALID_ARGUMENT);
	fake_nvml_pci(&fake_nvml.hw.board->gpus[end], pci);
	return fake_nvml_leave(NVML_SUCCESS);
}

static bool has_peers(const struct fake_gpu *gpu)
{
	return !gpu->is_integrated && !gpu->is_split;
}

/* Two cards of one call, which are two. */
static nvmlReturn_t enter_two(const char *name, nvmlDevice_t a, nvmlDevice_t b,
			      const void *answer, const struct fake_gpu **ret_a,
			      const struct fake_gpu **ret_b)
{
	nvmlReturn_t result = fake_nvml_enter_whole(name, a, answer, ret_a);

	if (result)
		return result;
	if (a == b || fake_nvml_gpu(b) >= fake_nvml.hw.board->n_gpus ||
	    fake_is_part(&fake_nvml.hw.board->gpus[fake_nvml_gpu(b)]))
		return fake_nvml_leave(NVML_ERROR_INVALID_ARGUMENT);
	*ret_b = &fake_nvml.hw.board->gpus[fake_nvml_gpu(b)];
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetP2PStatus(nvmlDevice_t a, nvmlDevice_t b,
				    nvmlGpuP2PCapsIndex_t what,
				    nvmlGpuP2PStatus_t *status)
{
	const struct fake_gpu *one, *other;
	nvmlReturn_t result =
		enter_two("nvmlDeviceGetP2PStatus", a, b, status, &one, &other);
	bool is_had;

	if (result)
		return result;
	is_had = what == NVML_P2P_CAPS_INDEX_NVLINK
			 ? is_linked(fake_nvml_gpu(a), fake_nvml_gpu(b))
			 : has_peers(one) && has_peers(other);
	*status = is_had ? NVML_P2P_STATUS_OK : NVML_P2P_STATUS_NOT_SUPPORTED;
	return fake_nvml_leave(NVML_SUCCESS);
}

nvmlReturn_t nvmlDeviceGetTopologyCommonAncestor(nvmlDevice_t a, nvmlDevice_t b,
						 nvmlGpuTopologyLevel_t *level)
{
	const struct fake_gpu *one, *other;
	nvmlReturn_t result = enter_two("nvmlDeviceGetTopologyCommonAncestor",
					a, b, level, &one, &other);

	if (result)
		return result;
	*level = one->numa_node == other->numa_node ? NVML_TOPOLOGY_NODE
						    : NVML_TOPOLOGY_SYSTEM;
	return fake_nvml_leave(NVML_SUCCESS);
}
