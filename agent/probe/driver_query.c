/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * The role --driver: asks CUDA for facts that it alone knows, without any
 * context.
 *
 * The variables that choose visible cards and their order are in the
 * environment already: the process that starts this one sets them.
 */

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/cuda/cuerror.h"
#include "agent/cuda/driver.h"
#include "agent/probe/facts.h"
#include "agent/probe/parse.h"
#include "agent/probe/probe.h"
#include "agent/probe/say.h"
#include "agent/probe/sysfs.h"
#include "gpumap.h"

static struct gm_driver cu;

static void __attribute__((noreturn))
refused(const char *call, gm_cu_result result)
{
	struct gm_probe_wire note = { .health = GM_PROBE_FAILED,
				      .code = (int32_t)result };
	const char *remedy = gm_cuerror_remedy(result);

	gm_say_text(&note, "CUDA %u %s from %s%s%s", result,
		    gm_cuerror_name(result), call, remedy ? ": " : "",
		    remedy ? remedy : "");
	gm_say_done(&note);
}

/* An attribute, or @without where the driver does not tell. */
static int attribute(unsigned int which, int dev, int without)
{
	int value;

	return cu.cuDeviceGetAttribute(&value, which, dev) == GM_CU_SUCCESS
		       ? value
		       : without;
}

static uint32_t amount(unsigned int which, int dev)
{
	int value = attribute(which, dev, 0);

	return value > 0 ? (uint32_t)value : 0;
}

/* The node's CPUs, where this kernel has the node. */
static void put_node(const char *sysfs, int dev, struct gm_row_image *row)
{
	row->numa_node = attribute(GM_CU_HOST_NUMA_ID, dev, -1);
	if (row->numa_node < 0 ||
	    gm_sysfs_node(sysfs, row->numa_node, row->cpus, sizeof(row->cpus)) <
		    0)
		return;
	row->known |= GPUMAP_KNOWN_NUMA;
	if (row->cpus[0])
		row->known |= GPUMAP_KNOWN_CPUS;
}

static void put_facts(int dev, struct gm_row_image *row)
{
	size_t bytes = 0;

	row->cc_major = amount(GM_CU_COMPUTE_CAPABILITY_MAJOR, dev);
	row->cc_minor = amount(GM_CU_COMPUTE_CAPABILITY_MINOR, dev);
	row->units = amount(GM_CU_MULTIPROCESSOR_COUNT, dev);
	row->threads_per_unit =
		amount(GM_CU_MAX_THREADS_PER_MULTIPROCESSOR, dev);
	row->shared_bytes = amount(GM_CU_MAX_SHARED_MEMORY_PER_BLOCK, dev);
	row->l2_bytes = amount(GM_CU_L2_CACHE_SIZE, dev);
	row->flags = gm_facts_types(row->cc_major, row->cc_minor);
	if (attribute(GM_CU_ECC_ENABLED, dev, 0))
		row->flags |= GPUMAP_DEVICE_ECC;
	if (attribute(GM_CU_INTEGRATED, dev, 0))
		row->flags |=
			GPUMAP_DEVICE_INTEGRATED | GPUMAP_DEVICE_MAIN_MEMORY;
	if (attribute(GM_CU_PAGEABLE_MEMORY_ACCESS, dev, 0))
		row->flags |= GPUMAP_DEVICE_PAGEABLE;
	row->cuda_version = (uint32_t)cu.version;
	if (cu.cuDeviceTotalMem(&bytes, dev) == GM_CU_SUCCESS)
		row->total_bytes = bytes;
	row->known |= (row->cc_major ? GPUMAP_KNOWN_CC : 0) |
		      (row->units ? GPUMAP_KNOWN_UNITS : 0) |
		      (row->total_bytes ? GPUMAP_KNOWN_MEMORY : 0);
}

static void say_device(const char *sysfs, int ordinal)
{
	struct gm_probe_wire wire = { .type = GM_PROBE_DRIVER };
	struct gm_cu_uuid uuid;
	gm_cu_result result;
	int dev;

	result = cu.cuDeviceGet(&dev, ordinal);
	if (result == GM_CU_SUCCESS)
		result = cu.cuDeviceGetUuid(&uuid, dev);
	/* The uuid could name no card; a missing card is asked for alone. */
	if (result != GM_CU_SUCCESS)
		return;
	memcpy(wire.uuid, uuid.bytes, sizeof(wire.uuid));
	wire.device.facts.ordinal_pci = ordinal;
	put_facts(dev, &wire.device.facts);
	put_node(sysfs, dev, &wire.device.facts);
	gm_say_record(&wire);
}

/* Has the one device that is visible the name that it was asked for by? */
static bool is_device(const char *id)
{
	struct gm_cu_uuid uuid;
	uint8_t wanted[16];
	int dev;

	return gm_parse_uuid(id, wanted) == 0 &&
	       cu.cuDeviceGet(&dev, 0) == GM_CU_SUCCESS &&
	       cu.cuDeviceGetUuid(&uuid, dev) == GM_CU_SUCCESS &&
	       memcmp(uuid.bytes, wanted, sizeof(wanted)) == 0;
}

int gm_driver_query_run(const struct gm_probe_options *o)
{
	struct gm_probe_wire end = { 0 };
	char why[GM_LIBRARY_WHY_BYTES];
	gm_cu_result result;
	int n = 0;

	gm_say_call("loading libcuda.so.1");
	if (gm_driver_open(o->library, &cu, why) < 0) {
		end.health = GM_PROBE_FAILED;
		gm_say_text(&end, "%.150s", why);
		gm_say_done(&end);
	}
	gm_say_call("cuInit");
	result = cu.cuInit(0);
	if (result != GM_CU_SUCCESS)
		refused("cuInit", result);
	gm_say_call("a look at the device");
	result = cu.cuDeviceGetCount(&n);
	if (result != GM_CU_SUCCESS)
		refused("cuDeviceGetCount", result);
	if (o->device && (n < 1 || !is_device(o->device)))
		refused("CUDA_VISIBLE_DEVICES", GM_CU_NO_DEVICE);
	for (int i = 0; i < n; i++)
		say_device(o->sysfs, i);
	gm_say_done(&end);
}
