/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * nvml_abi - the part of NVML's interface that our tests touch: names,
 * numbers and layouts that programs and library agree on.  nvml.h is not part
 * of every toolkit, so the tests do without.
 */
#ifndef GM_TEST_SUPPORT_NVML_ABI_H
#define GM_TEST_SUPPORT_NVML_ABI_H

#include <dlfcn.h>
#include <stdint.h>

typedef struct nvmlDevice_st *nvmlDevice_t;
typedef struct nvmlEventSet_st *nvmlEventSet_t;

typedef enum {
	NVML_SUCCESS = 0,
	NVML_ERROR_UNINITIALIZED = 1,
	NVML_ERROR_INVALID_ARGUMENT = 2,
	NVML_ERROR_NOT_SUPPORTED = 3,
	NVML_ERROR_NO_PERMISSION = 4,
	NVML_ERROR_NOT_FOUND = 6,
	NVML_ERROR_INSUFFICIENT_SIZE = 7,
	NVML_ERROR_DRIVER_NOT_LOADED = 9,
	NVML_ERROR_TIMEOUT = 10,
	NVML_ERROR_FUNCTION_NOT_FOUND = 13,
	NVML_ERROR_GPU_IS_LOST = 15,
	NVML_ERROR_LIB_RM_VERSION_MISMATCH = 18,
	NVML_ERROR_ARGUMENT_VERSION_MISMATCH = 25,
	NVML_ERROR_UNKNOWN = 999
} nvmlReturn_t;

typedef struct {
	char busIdLegacy[16];
	unsigned int domain, bus, device;
	unsigned int pciDeviceId, pciSubSystemId;
	char busId[32];
} nvmlPciInfo_t;

typedef struct {
	unsigned long long total, free, used;
} nvmlMemory_t;

typedef struct {
	unsigned int version;
	unsigned long long total, reserved, free, used;
} nvmlMemory_v2_t;

#define NVML_MEMORY_V2 ((unsigned int)sizeof(nvmlMemory_v2_t) | 2u << 24)

typedef struct {
	unsigned int gpu, memory;
} nvmlUtilization_t;

typedef struct {
	unsigned int pid;
	unsigned long long usedGpuMemory;
	unsigned int gpuInstanceId, computeInstanceId;
} nvmlProcessInfo_t;

#define NVML_VALUE_NOT_AVAILABLE (~0ull)

typedef struct {
	nvmlDevice_t device;
	unsigned long long eventType, eventData;
	unsigned int gpuInstanceId, computeInstanceId;
} nvmlEventData_t;

typedef struct {
	unsigned int multiprocessorCount, sharedCopyEngineCount;
	unsigned int sharedDecoderCount, sharedEncoderCount;
	unsigned int sharedJpegCount, sharedOfaCount;
	unsigned int gpuInstanceSliceCount, computeInstanceSliceCount;
	unsigned long long memorySizeMB;
} nvmlDeviceAttributes_t;

typedef struct {
	unsigned int fieldId, scopeId;
	long long timestamp, latencyUsec;
	unsigned int valueType;
	nvmlReturn_t nvmlReturn;
	union {
		double dVal;
		unsigned int uiVal;
		unsigned long long ullVal;
		long long sllVal;
	} value;
} nvmlFieldValue_t;

enum { NVML_FI_DEV_GET_GPU_RECOVERY_ACTION = 230 };
enum { NVML_VALUE_TYPE_UNSIGNED_INT = 1 };

typedef enum {
	NVML_P2P_STATUS_OK = 0,
	NVML_P2P_STATUS_NOT_SUPPORTED = 5,
	NVML_P2P_STATUS_UNKNOWN = 6
} nvmlGpuP2PStatus_t;

typedef enum {
	NVML_P2P_CAPS_INDEX_READ = 0,
	NVML_P2P_CAPS_INDEX_WRITE = 1,
	NVML_P2P_CAPS_INDEX_NVLINK = 2
} nvmlGpuP2PCapsIndex_t;

typedef enum {
	NVML_TOPOLOGY_SINGLE = 10,
	NVML_TOPOLOGY_HOSTBRIDGE = 30,
	NVML_TOPOLOGY_NODE = 40,
	NVML_TOPOLOGY_SYSTEM = 50
} nvmlGpuTopologyLevel_t;

enum {
	NVML_COMPUTEMODE_DEFAULT = 0,
	NVML_COMPUTEMODE_PROHIBITED = 2,
	NVML_COMPUTEMODE_EXCLUSIVE_PROCESS = 3
};

enum { NVML_TEMPERATURE_GPU = 0 };

#define NVML_EVENT_DBE 2ull /* a double-bit error of ECC */
#define NVML_EVENT_XID 8ull

#define NVML_CALLS(CALL)                                                       \
	CALL(nvmlInit_v2, (void))                                              \
	CALL(nvmlShutdown, (void))                                             \
	CALL(nvmlSystemGetDriverVersion, (char *text, unsigned int n))         \
	CALL(nvmlSystemGetCudaDriverVersion_v2, (int *version))                \
	CALL(nvmlDeviceGetCount_v2, (unsigned int *n))                         \
	CALL(nvmlDeviceGetHandleByIndex_v2,                                    \
	     (unsigned int index, nvmlDevice_t *device))                       \
	CALL(nvmlDeviceGetHandleByUUID,                                        \
	     (const char *uuid, nvmlDevice_t *device))                         \
	CALL(nvmlDeviceGetHandleByPciBusId_v2,                                 \
	     (const char *id, nvmlDevice_t *device))                           \
	CALL(nvmlDeviceGetName,                                                \
	     (nvmlDevice_t device, char *text, unsigned int n))                \
	CALL(nvmlDeviceGetUUID,                                                \
	     (nvmlDevice_t device, char *text, unsigned int n))                \
	CALL(nvmlDeviceGetIndex, (nvmlDevice_t device, unsigned int *index))   \
	CALL(nvmlDeviceGetMinorNumber,                                         \
	     (nvmlDevice_t device, unsigned int *minor))                       \
	CALL(nvmlDeviceGetPciInfo_v3,                                          \
	     (nvmlDevice_t device, nvmlPciInfo_t * pci))                       \
	CALL(nvmlDeviceGetMemoryInfo,                                          \
	     (nvmlDevice_t device, nvmlMemory_t * memory))                     \
	CALL(nvmlDeviceGetMemoryInfo_v2,                                       \
	     (nvmlDevice_t device, nvmlMemory_v2_t * memory))                  \
	CALL(nvmlDeviceGetNumaNodeId,                                          \
	     (nvmlDevice_t device, unsigned int *node))                        \
	CALL(nvmlDeviceGetCpuAffinity,                                         \
	     (nvmlDevice_t device, unsigned int n, unsigned long *cpus))       \
	CALL(nvmlDeviceGetCudaComputeCapability,                               \
	     (nvmlDevice_t device, int *major, int *minor))                    \
	CALL(nvmlDeviceGetComputeMode,                                         \
	     (nvmlDevice_t device, unsigned int *mode))                        \
	CALL(nvmlDeviceGetPersistenceMode,                                     \
	     (nvmlDevice_t device, unsigned int *mode))                        \
	CALL(nvmlDeviceGetMigMode,                                             \
	     (nvmlDevice_t device, unsigned int *current,                      \
	      unsigned int *pending))                                          \
	CALL(nvmlDeviceGetEccMode,                                             \
	     (nvmlDevice_t device, unsigned int *current,                      \
	      unsigned int *pending))                                          \
	CALL(nvmlDeviceGetTemperature,                                         \
	     (nvmlDevice_t device, unsigned int sensor,                        \
	      unsigned int *degrees))                                          \
	CALL(nvmlDeviceGetPowerUsage,                                          \
	     (nvmlDevice_t device, unsigned int *milliwatts))                  \
	CALL(nvmlDeviceGetUtilizationRates,                                    \
	     (nvmlDevice_t device, nvmlUtilization_t * percent))               \
	CALL(nvmlDeviceGetComputeRunningProcesses_v3,                          \
	     (nvmlDevice_t device, unsigned int *n, nvmlProcessInfo_t *infos)) \
	CALL(nvmlDeviceGetMaxMigDeviceCount,                                   \
	     (nvmlDevice_t device, unsigned int *count))                       \
	CALL(nvmlDeviceGetMigDeviceHandleByIndex,                              \
	     (nvmlDevice_t device, unsigned int index, nvmlDevice_t *part))    \
	CALL(nvmlDeviceIsMigDeviceHandle,                                      \
	     (nvmlDevice_t device, unsigned int *is_part))                     \
	CALL(nvmlDeviceGetDeviceHandleFromMigDeviceHandle,                     \
	     (nvmlDevice_t device, nvmlDevice_t * card))                       \
	CALL(nvmlDeviceGetGpuInstanceId,                                       \
	     (nvmlDevice_t device, unsigned int *id))                          \
	CALL(nvmlDeviceGetComputeInstanceId,                                   \
	     (nvmlDevice_t device, unsigned int *id))                          \
	CALL(nvmlDeviceGetAttributes_v2,                                       \
	     (nvmlDevice_t device, nvmlDeviceAttributes_t * attributes))       \
	CALL(nvmlDeviceGetFieldValues,                                         \
	     (nvmlDevice_t device, int n, nvmlFieldValue_t *values))           \
	CALL(nvmlDeviceGetNvLinkState,                                         \
	     (nvmlDevice_t device, unsigned int link,                          \
	      unsigned int *is_active))                                        \
	CALL(nvmlDeviceGetNvLinkRemotePciInfo_v2,                              \
	     (nvmlDevice_t device, unsigned int link, nvmlPciInfo_t *pci))     \
	CALL(nvmlDeviceGetP2PStatus,                                           \
	     (nvmlDevice_t a, nvmlDevice_t b, nvmlGpuP2PCapsIndex_t what,      \
	      nvmlGpuP2PStatus_t * status))                                    \
	CALL(nvmlDeviceGetTopologyCommonAncestor,                              \
	     (nvmlDevice_t a, nvmlDevice_t b, nvmlGpuTopologyLevel_t * level)) \
	CALL(nvmlDeviceGetSupportedEventTypes,                                 \
	     (nvmlDevice_t device, unsigned long long *types))                 \
	CALL(nvmlEventSetCreate, (nvmlEventSet_t * set))                       \
	CALL(nvmlEventSetFree, (nvmlEventSet_t set))                           \
	CALL(nvmlDeviceRegisterEvents,                                         \
	     (nvmlDevice_t device, unsigned long long types,                   \
	      nvmlEventSet_t set))                                             \
	CALL(nvmlEventSetWait_v2, (nvmlEventSet_t set, nvmlEventData_t * data, \
				   unsigned int timeout_ms))

#define NVML_DECLARE(name, params) nvmlReturn_t name params;
NVML_CALLS(NVML_DECLARE)
#undef NVML_DECLARE

const char *nvmlErrorString(nvmlReturn_t result);

/* The calls as a program finds them: one that is not there is NULL. */
struct nvml_calls {
#define CALL(name, params) nvmlReturn_t(*name) params;
	NVML_CALLS(CALL)
#undef CALL
};

static inline void nvml_calls_find(struct nvml_calls *ret_calls, void *library)
{
#define CALL(name, params) *(void **)&ret_calls->name = dlsym(library, #name);
	NVML_CALLS(CALL)
#undef CALL
}

#endif
