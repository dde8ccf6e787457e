/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * contract_cuda - <gpumap/cuda.h> on the contract tests' driver: its calls are
 * its user's own, and here they are those in cu.
 */
#ifndef GM_TEST_CONTRACT_PUBLIC_CUDA_H
#define GM_TEST_CONTRACT_PUBLIC_CUDA_H

#include "tests/contract/contract.h"

#define cuCtxGetDevice                 cu.cuCtxGetDevice
#define cuCtxSynchronize               cu.cuCtxSynchronize
#define cuDeviceGet                    cu.cuDeviceGet
#define cuDeviceGetCount               cu.cuDeviceGetCount
#define cuDeviceGetUuid_v2             cu.cuDeviceGetUuid_v2
#define cuMemAddressFree               cu.cuMemAddressFree
#define cuMemAddressReserve            cu.cuMemAddressReserve
#define cuMemGetAllocationGranularity  cu.cuMemGetAllocationGranularity
#define cuMemImportFromShareableHandle cu.cuMemImportFromShareableHandle
#define cuMemMap                       cu.cuMemMap
#define cuMemRelease                   cu.cuMemRelease
#define cuMemSetAccess                 cu.cuMemSetAccess
#define cuMemUnmap                     cu.cuMemUnmap
#include <gpumap/cuda.h>
#undef cuCtxGetDevice
#undef cuCtxSynchronize
#undef cuDeviceGet
#undef cuDeviceGetCount
#undef cuDeviceGetUuid_v2
#undef cuMemAddressFree
#undef cuMemAddressReserve
#undef cuMemGetAllocationGranularity
#undef cuMemImportFromShareableHandle
#undef cuMemMap
#undef cuMemRelease
#undef cuMemSetAccess
#undef cuMemUnmap

#endif
