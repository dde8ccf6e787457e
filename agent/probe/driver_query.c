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
#include "agent/probe/parse.h"
#include "agent/probe/probe.h"
#include "agent/probe/protocol.h"
#include "gpumap.h"

static struct gm_driver cu;

/* The end, good or bad. */
static void __attribute__((noreturn)) driven(const struct gm_note *note)
{
	gm_protocol_send(note);
	/* A driver's exit handlers may take longer than all that we did. */
	_exit(EXIT_SUCCESS);
}

static void __attribute__((noreturn))
refused(const char *call, gm_cu_result result)
{
	struct gm_note note = { .type = GM_NOTE_DRIVEN,
				.health = GM_PROBE_FAILED,
				.code = (int32_t)result };
	const char *remedy = gm_cuerror_remedy(result);

	gm_protocol_text(&note, "CUDA %u %s from %s%s%s", result,
			 gm_cuerror_name(result), call, remedy ? ": " : "",
			 remedy ? remedy : "");
	driven(&note);
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

static void say_device(int ordinal)
{
	struct gm_note note = { .type = GM_NOTE_DRIVER };
	struct gm_note_driver *d = &note.driver;
	struct gm_cu_uuid uuid;
	gm_cu_result result;
	size_t bytes = 0;
	int dev;

	result = cu.cuDeviceGet(&dev, ordinal);
	if (result == GM_CU_SUCCESS)
		result = cu.cuDeviceGetUuid(&uuid, dev);
	/* The uuid could name no card; a missing card is asked for alone. */
	if (result != GM_CU_SUCCESS)
		return;
	memcpy(note.uuid, uuid.bytes, sizeof(note.uuid));
	d->ordinal = ordinal;
	d->host_node = attribute(GM_CU_HOST_NUMA_ID, dev, -1);
	d->cc_major = amount(GM_CU_COMPUTE_CAPABILITY_MAJOR, dev);
	d->cc_minor = amount(GM_CU_COMPUTE_CAPABILITY_MINOR, dev);
	d->units = amount(GM_CU_MULTIPROCESSOR_COUNT, dev);
	d->threads_per_unit = amount(GM_CU_MAX_THREADS_PER_MULTIPROCESSOR, dev);
	d->shared_bytes = amount(GM_CU_MAX_SHARED_MEMORY_PER_BLOCK, dev);
	d->l2_bytes = amount(GM_CU_L2_CACHE_SIZE, dev);
	if (attribute(GM_CU_ECC_ENABLED, dev, 0))
		d->flags |= GPUMAP_DEVICE_ECC;
	if (attribute(GM_CU_INTEGRATED, dev, 0))
		d->flags |= GPUMAP_DEVICE_INTEGRATED;
	if (attribute(GM_CU_PAGEABLE_MEMORY_ACCESS, dev, 0))
		d->flags |= GPUMAP_DEVICE_PAGEABLE;
	d->compute_mode = amount(GM_CU_COMPUTE_MODE, dev);
	d->cuda_version = (uint32_t)cu.version;
	if (cu.cuDeviceTotalMem(&bytes, dev) == GM_CU_SUCCESS)
		d->total_bytes = bytes;
	gm_protocol_send(&note);
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
	struct gm_note end = { .type = GM_NOTE_DRIVEN };
	char why[GM_LIBRARY_WHY_BYTES];
	gm_cu_result result;
	int n = 0;

	gm_protocol_call("loading libcuda.so.1");
	if (gm_driver_open(o->library, &cu, why) < 0) {
		end.health = GM_PROBE_FAILED;
		gm_protocol_text(&end, "%.150s", why);
		driven(&end);
	}
	gm_protocol_call("cuInit");
	result = cu.cuInit(0);
	if (result != GM_CU_SUCCESS)
		refused("cuInit", result);
	gm_protocol_call("a look at the device");
	result = cu.cuDeviceGetCount(&n);
	if (result != GM_CU_SUCCESS)
		refused("cuDeviceGetCount", result);
	if (o->device && (n < 1 || !is_device(o->device)))
		refused("CUDA_VISIBLE_DEVICES", GM_CU_NO_DEVICE);
	for (int i = 0; i < n; i++)
		say_device(i);
	driven(&end);
}
