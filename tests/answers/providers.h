/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * providers - choose the devices of a request by kapsl's rules.
 *
 * A provider is a name for a backend: "tensorrt" runs on cuda devices, "coreml"
 * on metal ones, each other one on devices of its own name.  White space around
 * the names of providers and backends, and the case of ASCII letters, is
 * ignored.  Two rules differ from kapsl's: versions are compared as versions,
 * and where no device is found that is an error, never all devices.
 */
#ifndef GM_PROVIDERS_H
#define GM_PROVIDERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/model/plan/error.h"
#include "shm/chars.h"

struct gm_provider_device {
	uint64_t id; /* among the devices of its backend */
	const char *backend;
	uint64_t memory_mb;
	const char *cuda_version;       /* "12.4", or NULL */
	const char *compute_capability; /* "9.0", or NULL */
};

/*
 * gm_providers_best - find the device with the most memory
 *
 * Where several have as much, the highest compute capability decides, and then
 * the last place.  A CPU is no candidate.
 *
 * ret_index	receives it; @n: there is none
 *
 * Returns	the name of the best provider that any device has: cuda, metal,
 *		rocm, oneapi or directml, or else cpu
 * Threads	any
 */
const char *gm_providers_best(const struct gm_provider_device *devices,
			      size_t n, size_t *ret_index);

struct gm_provider_request {
	/* Without a provider other than a CPU, add those that the devices have,
	 * the fastest first, and the CPU. */
	bool is_fastest;
	const char **providers; /* preferred one first */
	size_t n_providers;
	const char *min_cuda_version; /* of cuda devices; NULL: any */
	uint64_t min_vram_mb;         /* of all but CPUs */
	bool has_id;
	uint64_t id; /* of all but CPUs */
	/* NULL, or how the devices are to be used; the id is ignored by those
	 * that use several devices */
	const char *strategy;
};

/* The result of gm_providers_select(). */
struct gm_provider_choice {
	struct gm_chars provider; /* lives as long as the request */
	size_t *devices;          /* indices, ascending; to free() */
	size_t n_devices;
};

/*
 * gm_providers_select - find the devices of the first provider that has any
 *
 * Returns	0, -EINVAL, -ENODEV, -ENOMEM
 * Threads	any
 */
int gm_providers_select(const struct gm_provider_request *request,
			const struct gm_provider_device *devices, size_t n,
			struct gm_provider_choice *ret_choice,
			struct gm_plan_error *ret_err);

#endif
