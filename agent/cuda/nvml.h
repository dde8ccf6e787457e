/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * nvml - the management library, opened at run time.
 *
 * For gpumap-probe alone: a call can block for ever, so it belongs into a
 * process that may be killed.  As with driver.h, each function is a member of
 * its own name; one that this driver lacks answers FUNCTION_NOT_FOUND, so a
 * fact that is missing and a function that is missing are one case.
 *
 * The types are those of the library's ABI; no header of NVIDIA's is needed.
 * Handles keep the library's tags, enumerations travel as unsigned int.
 */
#ifndef GM_NVML_H
#define GM_NVML_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/cuda/library.h"

struct nvmlDevice_st;
struct nvmlEventSet_st;

typedef unsigned int gm_nvml_result; /* enum gm_nvml_error, and others */

enum gm_nvml_error {
	GM_NVML_SUCCESS = 0,
	GM_NVML_UNINITIALIZED = 1,
	GM_NVML_INVALID_ARGUMENT = 2,
	GM_NVML_NOT_SUPPORTED = 3,
	GM_NVML_NO_PERMISSION = 4,
	GM_NVML_ALREADY_INITIALIZED = 5,
	GM_NVML_NOT_FOUND = 6,
	GM_NVML_INSUFFICIENT_SIZE = 7,
	GM_NVML_INSUFFICIENT_POWER = 8,
	GM_NVML_DRIVER_NOT_LOADED = 9,
	GM_NVML_TIMEOUT = 10,
	GM_NVML_IRQ_ISSUE = 11,
	GM_NVML_LIBRARY_NOT_FOUND = 12,
	GM_NVML_FUNCTION_NOT_FOUND = 13,
	GM_NVML_CORRUPTED_INFOROM = 14,
	GM_NVML_GPU_IS_LOST = 15,
	GM_NVML_RESET_REQUIRED = 16,
	GM_NVML_OPERATING_SYSTEM = 17,
	GM_NVML_LIB_RM_VERSION_MISMATCH = 18,
	GM_NVML_IN_USE = 19,
	GM_NVML_MEMORY = 20,
	GM_NVML_NO_DATA = 21,
	GM_NVML_VGPU_ECC_NOT_SUPPORTED = 22,
	GM_NVML_INSUFFICIENT_RESOURCES = 23,
	GM_NVML_FREQ_NOT_SUPPORTED = 24,
	GM_NVML_ARGUMENT_VERSION_MISMATCH = 25,
	GM_NVML_DEPRECATED = 26,
	GM_NVML_NOT_READY = 27,
	GM_NVML_GPU_NOT_FOUND = 28,
	GM_NVML_INVALID_STATE = 29,
	GM_NVML_UNKNOWN = 999
};

enum {
	GM_NVML_UUID_BYTES = 96, /* of text, with its NUL */
	GM_NVML_NAME_BYTES = 96,
	GM_NVML_TEMPERATURE_GPU = 0,
	GM_NVML_FEATURE_ENABLED = 1,
	GM_NVML_COMPUTEMODE_DEFAULT = 0,
	GM_NVML_COMPUTEMODE_PROHIBITED = 2,
	GM_NVML_COMPUTEMODE_EXCLUSIVE_PROCESS = 3,
	GM_NVML_P2P_READ = 0, /* nvmlDeviceGetP2PStatus */
	GM_NVML_P2P_WRITE = 1,
	GM_NVML_P2P_NVLINK = 2,
	GM_NVML_P2P_ATOMICS = 3,
	GM_NVML_P2P_STATUS_OK = 0,
	GM_NVML_TOPOLOGY_INTERNAL = 0,
	GM_NVML_TOPOLOGY_SINGLE = 10,
	GM_NVML_TOPOLOGY_MULTIPLE = 20,
	GM_NVML_TOPOLOGY_HOSTBRIDGE = 30,
	GM_NVML_TOPOLOGY_NODE = 40,
	GM_NVML_TOPOLOGY_SYSTEM = 50,
	GM_NVML_FIELD_RECOVERY_ACTION = 230, /* nvmlDeviceGetFieldValues */
	GM_NVML_VALUE_UNSIGNED_INT = 1
};

/* Values of GM_NVML_FIELD_RECOVERY_ACTION. */
enum gm_nvml_recovery {
	GM_NVML_RECOVERY_NONE = 0,
	GM_NVML_RECOVERY_GPU_RESET = 1,
	GM_NVML_RECOVERY_NODE_REBOOT = 2,
	GM_NVML_RECOVERY_DRAIN_P2P = 3,
	GM_NVML_RECOVERY_DRAIN_AND_RESET = 4
};

#define GM_NVML_EVENT_SINGLE_BIT_ECC UINT64_C(0x1)
#define GM_NVML_EVENT_DOUBLE_BIT_ECC UINT64_C(0x2)
#define GM_NVML_EVENT_XID            UINT64_C(0x8)
#define GM_NVML_EVENT_UNAVAILABLE    UINT64_C(0x4000)
#define GM_NVML_EVENT_RECOVERY       UINT64_C(0x8000)

struct gm_nvml_pci {
	char legacy_id[16];
	unsigned int domain;
	unsigned int bus;
	unsigned int device;
	unsigned int device_id;
	unsigned int subsystem_id;
	char id[32]; /* "00000000:17:00.0": compared as numbers, not as text */
};

struct gm_nvml_memory {
	unsigned long long total;
	unsigned long long free;
	unsigned long long used; /* with what the driver keeps */
};

struct gm_nvml_memory_v2 {
	unsigned int version; /* GM_NVML_MEMORY_V2 */
	unsigned long long total;
	unsigned long long reserved; /* by the driver */
	unsigned long long free;
	unsigned long long used;
};

/* A struct's version is its size with a number above it. */
#define GM_NVML_MEMORY_V2 \
	((unsigned int)sizeof(struct gm_nvml_memory_v2) | 2u << 24)

struct gm_nvml_utilisation { /* percent */
	unsigned int gpu;
	unsigned int memory;
};

struct gm_nvml_attributes {
	unsigned int multiprocessors;
	unsigned int copy_engines;
	unsigned int decoders;
	unsigned int encoders;
	unsigned int jpeg_units;
	unsigned int ofa_units;
	unsigned int gpu_slices;
	unsigned int compute_slices;
	unsigned long long memory_mib;
};

struct gm_nvml_field {
	unsigned int field; /* GM_NVML_FIELD_* */
	unsigned int scope;
	long long timestamp_us;
	long long latency_us;
	unsigned int type;     /* GM_NVML_VALUE_* */
	gm_nvml_result result; /* of this field */
	union {
		double f64;
		unsigned int u32;
		unsigned long long u64;
		long long i64;
	} value;
};

struct gm_nvml_event {
	struct nvmlDevice_st *device;
	unsigned long long type;   /* one of GM_NVML_EVENT_* */
	unsigned long long data;   /* the Xid */
	unsigned int gpu_instance; /* UINT32_MAX: the whole GPU */
	unsigned int compute_instance;
};

struct gm_nvml_process {
	unsigned int pid;         /* in the initial pid namespace, or 0 */
	unsigned long long bytes; /* UINT64_MAX: the driver does not tell */
	unsigned int gpu_instance;
	unsigned int compute_instance;
};

enum gm_nvml_group {
	GM_NVML_CORE = 0, /* always there */
	GM_NVML_FACT = 1, /* every one of them */
	GM_NVML_MIG = 2,
	GM_NVML_EVENTS = 3,
	GM_NVML_GROUPS = 4
};

struct gm_nvml {
	struct gm_library library;
	uint32_t has;              /* a bit per enum gm_nvml_group */
	uint32_t n_missing;        /* functions */
	const char *first_missing; /* name of one; NULL: none */
#define SYMBOL(group, name, arguments) gm_nvml_result(*name) arguments;
#include "agent/cuda/nvml_symbols.h"
};

/*
 * gm_nvml_open - find the library and its functions, and initialise nothing
 *
 * where	NULL: "libnvidia-ml.so.1" wherever the system has it
 * ret_why	GM_LIBRARY_WHY_BYTES: on failure, a line for people
 *
 * Returns	0
 *		-ENOENT		there is none: no fault
 *		-ELIBBAD	what is there cannot be loaded, or is no NVML
 * Threads	any
 */
int gm_nvml_open(const struct gm_library_where *where, struct gm_nvml *ret_nvml,
		 char *ret_why);

static inline bool gm_nvml_has(const struct gm_nvml *nvml, uint32_t group)
{
	return nvml->has >> group & 1;
}

/* "GPU_IS_LOST" and so on; "unknown error" for other numbers.  Never NULL. */
const char *gm_nvml_error_name(gm_nvml_result result);

/* The remedy for an administrator: a sentence, or NULL. */
const char *gm_nvml_error_remedy(gm_nvml_result result);

#endif
