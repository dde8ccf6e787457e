/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * nvml_symbols - every function of NVML that gpumap calls.
 *
 * A table without a guard: who includes it defines
 *
 *	SYMBOL(group, name, arguments)
 *
 * NVML has its versions in its names.  Functions of CORE, MIG and EVENTS are
 * there together or not at all; each FACT comes or lacks by itself.
 */

/* One table, one shape. */
/* clang-format off */

/* Without these there is no NVML. */
SYMBOL(CORE, nvmlInit_v2, (void))
SYMBOL(CORE, nvmlShutdown, (void))
SYMBOL(CORE, nvmlSystemGetDriverVersion, (char *ret_text, unsigned int bytes))
SYMBOL(CORE, nvmlDeviceGetCount_v2, (unsigned int *ret_count))
SYMBOL(CORE, nvmlDeviceGetHandleByIndex_v2,
       (unsigned int index, struct nvmlDevice_st **ret_dev))
SYMBOL(CORE, nvmlDeviceGetUUID,
       (struct nvmlDevice_st *dev, char *ret_uuid, unsigned int bytes))
SYMBOL(CORE, nvmlDeviceGetName,
       (struct nvmlDevice_st *dev, char *ret_name, unsigned int bytes))
SYMBOL(CORE, nvmlDeviceGetPciInfo_v3,
       (struct nvmlDevice_st *dev, struct gm_nvml_pci *ret_pci))
SYMBOL(CORE, nvmlDeviceGetMinorNumber,
       (struct nvmlDevice_st *dev, unsigned int *ret_minor))

/* Facts that a card may not know, or a driver not report. */
SYMBOL(FACT, nvmlSystemGetCudaDriverVersion_v2, (int *ret_version))
SYMBOL(FACT, nvmlDeviceGetMemoryInfo,
       (struct nvmlDevice_st *dev, struct gm_nvml_memory *ret_memory))
SYMBOL(FACT, nvmlDeviceGetMemoryInfo_v2,
       (struct nvmlDevice_st *dev, struct gm_nvml_memory_v2 *ret_memory))
SYMBOL(FACT, nvmlDeviceGetNumaNodeId,
       (struct nvmlDevice_st *dev, unsigned int *ret_node))
SYMBOL(FACT, nvmlDeviceGetCpuAffinity,
       (struct nvmlDevice_st *dev, unsigned int n_words,
	unsigned long *ret_words))
SYMBOL(FACT, nvmlDeviceGetCudaComputeCapability,
       (struct nvmlDevice_st *dev, int *ret_major, int *ret_minor))
SYMBOL(FACT, nvmlDeviceGetComputeMode,
       (struct nvmlDevice_st *dev, unsigned int *ret_mode))
SYMBOL(FACT, nvmlDeviceGetEccMode,
       (struct nvmlDevice_st *dev, unsigned int *ret_current,
	unsigned int *ret_pending))
SYMBOL(FACT, nvmlDeviceGetTemperature,
       (struct nvmlDevice_st *dev, unsigned int sensor,
	unsigned int *ret_celsius))
SYMBOL(FACT, nvmlDeviceGetUtilizationRates,
       (struct nvmlDevice_st *dev, struct gm_nvml_utilisation *ret_percent))
SYMBOL(FACT, nvmlDeviceGetPowerUsage,
       (struct nvmlDevice_st *dev, unsigned int *ret_milliwatts))
SYMBOL(FACT, nvmlDeviceGetComputeRunningProcesses_v3,
       (struct nvmlDevice_st *dev, unsigned int *n,
	struct gm_nvml_process *ret_processes))
SYMBOL(FACT, nvmlDeviceGetFieldValues,
       (struct nvmlDevice_st *dev, int n, struct gm_nvml_field *fields))
SYMBOL(FACT, nvmlDeviceGetP2PStatus,
       (struct nvmlDevice_st *from, struct nvmlDevice_st *to,
	unsigned int capability, unsigned int *ret_status))
SYMBOL(FACT, nvmlDeviceGetTopologyCommonAncestor,
       (struct nvmlDevice_st *a, struct nvmlDevice_st *b,
	unsigned int *ret_level))
SYMBOL(FACT, nvmlDeviceGetNvLinkState,
       (struct nvmlDevice_st *dev, unsigned int link, unsigned int *ret_state))
SYMBOL(FACT, nvmlDeviceGetNvLinkRemotePciInfo_v2,
       (struct nvmlDevice_st *dev, unsigned int link,
	struct gm_nvml_pci *ret_pci))

/* Instances of a split GPU; without, there are none. */
SYMBOL(MIG, nvmlDeviceGetMigMode,
       (struct nvmlDevice_st *dev, unsigned int *ret_current,
	unsigned int *ret_pending))
SYMBOL(MIG, nvmlDeviceGetMaxMigDeviceCount,
       (struct nvmlDevice_st *dev, unsigned int *ret_count))
SYMBOL(MIG, nvmlDeviceGetMigDeviceHandleByIndex,
       (struct nvmlDevice_st *dev, unsigned int index,
	struct nvmlDevice_st **ret_mig))
SYMBOL(MIG, nvmlDeviceGetGpuInstanceId,
       (struct nvmlDevice_st *mig, unsigned int *ret_id))
SYMBOL(MIG, nvmlDeviceGetComputeInstanceId,
       (struct nvmlDevice_st *mig, unsigned int *ret_id))
SYMBOL(MIG, nvmlDeviceGetAttributes_v2,
       (struct nvmlDevice_st *mig, struct gm_nvml_attributes *ret_attributes))

/* Xid and ECC events; without, a failure is seen when work fails. */
SYMBOL(EVENTS, nvmlEventSetCreate, (struct nvmlEventSet_st **ret_set))
SYMBOL(EVENTS, nvmlDeviceGetSupportedEventTypes,
       (struct nvmlDevice_st *dev, unsigned long long *ret_types))
SYMBOL(EVENTS, nvmlDeviceRegisterEvents,
       (struct nvmlDevice_st *dev, unsigned long long types,
	struct nvmlEventSet_st *set))
SYMBOL(EVENTS, nvmlEventSetWait_v2,
       (struct nvmlEventSet_st *set, struct gm_nvml_event *ret_event,
	unsigned int timeout_ms))
SYMBOL(EVENTS, nvmlEventSetFree, (struct nvmlEventSet_st *set))

/* clang-format on */

#undef SYMBOL
