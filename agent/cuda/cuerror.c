/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/cuda/cuerror.h"

#include <errno.h>

#define N_OF(array) (sizeof(array) / sizeof((array)[0]))

#define PENDING     GM_CUERROR_PENDING
#define REFUSED     GM_CUERROR_REFUSED
#define RETRY       GM_CUERROR_RETRY
#define ABSENT      GM_CUERROR_ABSENT
#define DOUBT       GM_CUERROR_DOUBT
#define STICKY      GM_CUERROR_STICKY

/*
 * Sticky are those of which the driver's documentation says that the process
 * must be terminated, and four that have been seen to stay: a device assertion,
 * an uncorrectable memory or link error, and the unknown error.
 *
 * 9, 17, 21, 35, 53, 98, 1052 and 1053 are HIP's alone.
 */
static const struct known {
	uint16_t result;
	uint8_t class;
	uint8_t error; /* errno */
	const char *name;
} table[] = {
	{ 1, REFUSED, EINVAL, "INVALID_VALUE" },
	{ 2, RETRY, ENOMEM, "OUT_OF_MEMORY" },
	{ 3, DOUBT, EIO, "NOT_INITIALIZED" },
	{ 4, DOUBT, EIO, "DEINITIALIZED" },
	{ 5, REFUSED, EIO, "PROFILER_DISABLED" },
	{ 6, REFUSED, EIO, "PROFILER_NOT_INITIALIZED" },
	{ 7, REFUSED, EIO, "PROFILER_ALREADY_STARTED" },
	{ 8, REFUSED, EIO, "PROFILER_ALREADY_STOPPED" },
	{ 9, REFUSED, EINVAL, "INVALID_CONFIGURATION" },
	{ 17, REFUSED, EINVAL, "INVALID_DEVICE_POINTER" },
	{ 21, REFUSED, EINVAL, "INVALID_MEMCPY_DIRECTION" },
	{ 34, REFUSED, EIO, "STUB_LIBRARY" },
	{ 35, REFUSED, EOPNOTSUPP, "INSUFFICIENT_DRIVER" },
	{ 36, REFUSED, EOPNOTSUPP, "CALL_REQUIRES_NEWER_DRIVER" },
	{ 46, RETRY, ENODEV, "DEVICE_UNAVAILABLE" },
	{ 53, DOUBT, EIO, "PRIOR_LAUNCH_FAILURE" },
	{ 98, REFUSED, ENOEXEC, "INVALID_DEVICE_FUNCTION" },
	{ 100, ABSENT, ENODEV, "NO_DEVICE" },
	{ 101, ABSENT, ENODEV, "INVALID_DEVICE" },
	{ 102, REFUSED, EPERM, "DEVICE_NOT_LICENSED" },
	{ 200, REFUSED, ENOEXEC, "INVALID_IMAGE" },
	{ 201, DOUBT, EIO, "INVALID_CONTEXT" },
	{ 202, REFUSED, EIO, "CONTEXT_ALREADY_CURRENT" },
	{ 205, REFUSED, EIO, "MAP_FAILED" },
	{ 206, REFUSED, EIO, "UNMAP_FAILED" },
	{ 207, REFUSED, EIO, "ARRAY_IS_MAPPED" },
	{ 208, REFUSED, EIO, "ALREADY_MAPPED" },
	{ 209, REFUSED, ENOEXEC, "NO_BINARY_FOR_GPU" },
	{ 210, REFUSED, EIO, "ALREADY_ACQUIRED" },
	{ 211, REFUSED, EIO, "NOT_MAPPED" },
	{ 212, REFUSED, EIO, "NOT_MAPPED_AS_ARRAY" },
	{ 213, REFUSED, EIO, "NOT_MAPPED_AS_POINTER" },
	{ 214, STICKY, EIO, "ECC_UNCORRECTABLE" },
	{ 215, REFUSED, EOPNOTSUPP, "UNSUPPORTED_LIMIT" },
	{ 216, REFUSED, EIO, "CONTEXT_ALREADY_IN_USE" },
	{ 217, REFUSED, EOPNOTSUPP, "PEER_ACCESS_UNSUPPORTED" },
	{ 218, REFUSED, ENOEXEC, "INVALID_PTX" },
	{ 219, REFUSED, EIO, "INVALID_GRAPHICS_CONTEXT" },
	{ 220, STICKY, EIO, "NVLINK_UNCORRECTABLE" },
	{ 221, REFUSED, ENOEXEC, "JIT_COMPILER_NOT_FOUND" },
	{ 222, REFUSED, ENOEXEC, "UNSUPPORTED_PTX_VERSION" },
	{ 223, REFUSED, ENOEXEC, "JIT_COMPILATION_DISABLED" },
	{ 224, REFUSED, EOPNOTSUPP, "UNSUPPORTED_EXEC_AFFINITY" },
	{ 225, REFUSED, ENOEXEC, "UNSUPPORTED_DEVSIDE_SYNC" },
	{ 226, STICKY, EIO, "CONTAINED" },
	{ 300, REFUSED, ENOEXEC, "INVALID_SOURCE" },
	{ 301, REFUSED, ENOENT, "FILE_NOT_FOUND" },
	{ 302, REFUSED, ENOENT, "SHARED_OBJECT_SYMBOL_NOT_FOUND" },
	{ 303, REFUSED, EIO, "SHARED_OBJECT_INIT_FAILED" },
	{ 304, DOUBT, EIO, "OPERATING_SYSTEM" },
	{ 400, REFUSED, EINVAL, "INVALID_HANDLE" },
	{ 401, DOUBT, EIO, "ILLEGAL_STATE" },
	{ 402, REFUSED, EIO, "LOSSY_QUERY" },
	{ 500, REFUSED, ENOENT, "NOT_FOUND" },
	{ 600, PENDING, EAGAIN, "NOT_READY" },
	{ 700, STICKY, EIO, "ILLEGAL_ADDRESS" },
	{ 701, REFUSED, EINVAL, "LAUNCH_OUT_OF_RESOURCES" },
	{ 702, STICKY, EIO, "LAUNCH_TIMEOUT" },
	{ 703, REFUSED, EINVAL, "LAUNCH_INCOMPATIBLE_TEXTURING" },
	{ 704, REFUSED, EIO, "PEER_ACCESS_ALREADY_ENABLED" },
	{ 705, REFUSED, EIO, "PEER_ACCESS_NOT_ENABLED" },
	{ 708, REFUSED, EIO, "PRIMARY_CONTEXT_ACTIVE" },
	{ 709, DOUBT, EIO, "CONTEXT_IS_DESTROYED" },
	{ 710, STICKY, EIO, "ASSERT" },
	{ 711, REFUSED, EIO, "TOO_MANY_PEERS" },
	{ 712, REFUSED, EINVAL, "HOST_MEMORY_ALREADY_REGISTERED" },
	{ 713, REFUSED, EINVAL, "HOST_MEMORY_NOT_REGISTERED" },
	{ 714, STICKY, EIO, "HARDWARE_STACK_ERROR" },
	{ 715, STICKY, EIO, "ILLEGAL_INSTRUCTION" },
	{ 716, STICKY, EIO, "MISALIGNED_ADDRESS" },
	{ 717, STICKY, EIO, "INVALID_ADDRESS_SPACE" },
	{ 718, STICKY, EIO, "INVALID_PC" },
	{ 719, STICKY, EIO, "LAUNCH_FAILED" },
	{ 720, REFUSED, EINVAL, "COOPERATIVE_LAUNCH_TOO_LARGE" },
	{ 721, STICKY, EIO, "TENSOR_MEMORY_LEAK" },
	{ 800, REFUSED, EPERM, "NOT_PERMITTED" },
	{ 801, REFUSED, EOPNOTSUPP, "NOT_SUPPORTED" },
	{ 802, RETRY, EAGAIN, "SYSTEM_NOT_READY" },
	{ 803, RETRY, ENODEV, "SYSTEM_DRIVER_MISMATCH" },
	{ 804, RETRY, ENODEV, "COMPAT_NOT_SUPPORTED_ON_DEVICE" },
	{ 805, RETRY, EAGAIN, "MPS_CONNECTION_FAILED" },
	{ 806, RETRY, EAGAIN, "MPS_RPC_FAILURE" },
	{ 807, RETRY, EAGAIN, "MPS_SERVER_NOT_READY" },
	{ 808, RETRY, EAGAIN, "MPS_MAX_CLIENTS_REACHED" },
	{ 809, RETRY, EAGAIN, "MPS_MAX_CONNECTIONS_REACHED" },
	{ 810, STICKY, EIO, "MPS_CLIENT_TERMINATED" },
	{ 811, REFUSED, EOPNOTSUPP, "CDP_NOT_SUPPORTED" },
	{ 812, REFUSED, ENOEXEC, "CDP_VERSION_MISMATCH" },
	{ 900, REFUSED, EIO, "STREAM_CAPTURE_UNSUPPORTED" },
	{ 901, REFUSED, EIO, "STREAM_CAPTURE_INVALIDATED" },
	{ 902, REFUSED, EIO, "STREAM_CAPTURE_MERGE" },
	{ 903, REFUSED, EIO, "STREAM_CAPTURE_UNMATCHED" },
	{ 904, REFUSED, EIO, "STREAM_CAPTURE_UNJOINED" },
	{ 905, REFUSED, EIO, "STREAM_CAPTURE_ISOLATION" },
	{ 906, REFUSED, EIO, "STREAM_CAPTURE_IMPLICIT" },
	{ 907, REFUSED, EIO, "CAPTURED_EVENT" },
	{ 908, REFUSED, EIO, "STREAM_CAPTURE_WRONG_THREAD" },
	{ 909, RETRY, EAGAIN, "TIMEOUT" },
	{ 910, REFUSED, EIO, "GRAPH_EXEC_UPDATE_FAILURE" },
	{ 911, STICKY, EIO, "EXTERNAL_DEVICE" },
	{ 912, REFUSED, EINVAL, "INVALID_CLUSTER_SIZE" },
	{ 913, REFUSED, EIO, "FUNCTION_NOT_LOADED" },
	{ 914, REFUSED, EINVAL, "INVALID_RESOURCE_TYPE" },
	{ 915, REFUSED, EINVAL, "INVALID_RESOURCE_CONFIGURATION" },
	{ 916, DOUBT, EIO, "KEY_ROTATION" },
	{ 999, STICKY, EIO, "UNKNOWN" },
	{ 1052, DOUBT, EIO, "RUNTIME_MEMORY" },
	{ 1053, DOUBT, EIO, "RUNTIME_OTHER" },
};

struct remedy {
	gm_cu_result result;
	const char *text;
};

#define NO_AMD_CARD                                                          \
	"no card for this process: is amdgpu loaded, and may its user open " \
	"/dev/kfd and the nodes in /dev/dri?"

static const struct remedy hip_remedies[] = {
	{ GM_CU_OUT_OF_MEMORY,
	  "free memory of the card, or reserve less on it" },
	{ GM_CU_NO_DEVICE, NO_AMD_CARD },
	{ GM_CU_INVALID_DEVICE, NO_AMD_CARD },
	{ GM_CU_INVALID_IMAGE, "the program is no code object of AMD's" },
	{ GM_CU_NO_BINARY_FOR_GPU,
	  "the program has no code for this card: build it for the card's "
	  "gfx architecture" },
	{ GM_CU_ECC_UNCORRECTABLE,
	  "the card's memory is damaged: see its ras counters in sysfs" },
	{ GM_CU_UNKNOWN, "see dmesg for amdgpu" },
};

static const struct remedy remedies[] = {
	{ GM_CU_OUT_OF_MEMORY,
	  "free memory of the card, or reserve less on it" },
	{ GM_CU_STUB_LIBRARY,
	  "the toolkit's stub was loaded instead of a driver: take its folder "
	  "out of LD_LIBRARY_PATH" },
	{ GM_CU_CALL_REQUIRES_NEWER_DRIVER, "install a newer driver" },
	{ GM_CU_DEVICE_UNAVAILABLE, "another process holds the card in an "
				    "exclusive compute mode: end it, "
				    "or nvidia-smi -c DEFAULT" },
	{ GM_CU_NO_DEVICE,
	  "no card for this process: is its /dev/nvidia* node here, its MIG "
	  "instance made, nvidia-modprobe run?" },
	{ GM_CU_INVALID_DEVICE,
	  "the card has left, or MIG instances were made anew: probe again" },
	{ GM_CU_DEVICE_NOT_LICENSED,
	  "the virtual GPU has no licence: see nvidia-gridd" },
	{ GM_CU_NO_BINARY_FOR_GPU,
	  "the program has no code for this card: build it for the card's "
	  "compute capability, or with PTX" },
	{ GM_CU_INVALID_PTX,
	  "the PTX does not compile: the compiler's words are in the log" },
	{ GM_CU_JIT_COMPILER_NOT_FOUND,
	  "install libnvidia-ptxjitcompiler of the driver's version" },
	{ GM_CU_UNSUPPORTED_PTX_VERSION,
	  "the PTX is newer than the driver: install a newer driver, or build "
	  "with an older toolkit" },
	{ GM_CU_JIT_COMPILATION_DISABLED,
	  "unset CUDA_DISABLE_PTX_JIT and CUDA_DISABLE_JIT" },
	{ GM_CU_ECC_UNCORRECTABLE,
	  "the card's memory is damaged: see nvidia-smi -q -d ECC, reset the "
	  "card" },
	{ GM_CU_NVLINK_UNCORRECTABLE, "a link of the card fails: see "
				      "nvidia-smi nvlink -e, reset the card" },
	{ GM_CU_OPERATING_SYSTEM,
	  "a system call of the driver failed: see its limits on memory and "
	  "files, and whether /dev/nvidia-uvm may be opened: nvidia-modprobe "
	  "-u -c 0, then restart gpumapd" },
	{ GM_CU_SYSTEM_NOT_READY,
	  "start the fabric manager of the driver's version: systemctl start "
	  "nvidia-fabricmanager; in confidential computing: nvidia-smi "
	  "conf-compute -srs 1" },
	{ GM_CU_SYSTEM_DRIVER_MISMATCH,
	  "libcuda and the kernel's driver are of different versions: reboot "
	  "after an upgrade, and take CUDA's compat folder out of the search" },
	{ GM_CU_COMPAT_NOT_SUPPORTED_ON_DEVICE,
	  "a compat library was loaded and this card does not support one: "
	  "take its folder out of the search, or set cuda.compat to none" },
	{ GM_CU_MPS_CONNECTION_FAILED,
	  "the MPS daemon does not answer: start nvidia-cuda-mps-control -d, "
	  "or set cuda.mps=no" },
	{ GM_CU_MPS_RPC_FAILURE, "restart the MPS daemon" },
	{ GM_CU_MPS_SERVER_NOT_READY,
	  "the MPS server waits for its clients to end after a fault" },
	{ GM_CU_MPS_MAX_CLIENTS_REACHED,
	  "end other clients of the MPS server" },
	{ GM_CU_MPS_MAX_CONNECTIONS_REACHED,
	  "end other clients of the MPS server" },
	{ GM_CU_UNKNOWN,
	  "see dmesg for NVRM; after a suspend, or without /dev/nvidia-uvm, "
	  "reload nvidia-uvm: nvidia-modprobe -u -c 0, then restart gpumapd" },
};

static const struct known *find(gm_cu_result result)
{
	for (size_t i = 0; i < N_OF(table); i++) {
		if (table[i].result == result)
			return &table[i];
	}
	return NULL;
}

uint32_t gm_cuerror_class(gm_cu_result result)
{
	const struct known *known = find(result);

	if (result == GM_CU_SUCCESS)
		return GM_CUERROR_NONE;
	return known ? known->class : GM_CUERROR_DOUBT;
}

const char *gm_cuerror_name(gm_cu_result result)
{
	const struct known *known = find(result);

	if (result == GM_CU_SUCCESS)
		return "SUCCESS";
	return known ? known->name : "unknown error";
}

static const char *remedy_of(const struct remedy *list, size_t n,
			     gm_cu_result result)
{
	for (size_t i = 0; i < n; i++) {
		if (list[i].result == result)
			return list[i].text;
	}
	return NULL;
}

const char *gm_cuerror_remedy(gm_cu_result result)
{
	return remedy_of(remedies, N_OF(remedies), result);
}

const char *gm_cuerror_remedy_hip(gm_cu_result result)
{
	return remedy_of(hip_remedies, N_OF(hip_remedies), result);
}

int gm_cuerror_errno(gm_cu_result result)
{
	const struct known *known = find(result);

	if (result == GM_CU_SUCCESS)
		return 0;
	return known ? -known->error : -EIO;
}
