/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* The role --census: is there anything at all, and how many? */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/probe/nvml_session.h"
#include "agent/probe/parse.h"
#include "agent/probe/sysfs.h"

static struct gm_nvml nvml;

/* No card is no fault, and is reported with what was seen. */
static void absent(const struct gm_probe_options *o, struct gm_probe_wire *wire)
{
	size_t cards = gm_sysfs_count(o->sysfs);
	size_t used = strlen(wire->text);

	wire->health = GM_PROBE_ABSENT;
	if (cards)
		snprintf(wire->text + used, sizeof(wire->text) - used,
			 " (PCI devices of NVIDIA's here: %zu)", cards);
}

static void count(const struct gm_probe_options *o, struct gm_probe_wire *wire)
{
	unsigned int n = 0;
	gm_nvml_result result = nvml.nvmlDeviceGetCount_v2(&n);

	if (result != GM_NVML_SUCCESS) {
		gm_nvml_session_refused(wire, "nvmlDeviceGetCount", result);
	} else if (n == 0) {
		gm_say_text(wire, "the driver has no card");
		absent(o, wire);
	}
	wire->n_cards = n < GM_PROBE_GPUS ? n : GM_PROBE_GPUS;
}

static void say_places(const struct gm_probe_options *o)
{
	static struct gm_probe_wire places[GM_PROBE_GPUS];
	size_t n;

	/* The module takes locks of its own for these files. */
	gm_say_call("a read of /proc/driver/nvidia");
	n = gm_sysfs_list(o->sysfs, places, GM_PROBE_GPUS);
	for (size_t i = 0; i < n; i++)
		gm_say_record(&places[i]);
}

int gm_enumerate_run(const struct gm_probe_options *o)
{
	struct gm_probe_wire wire = { 0 };
	int rc = gm_nvml_session_open(o, &nvml, &wire);

	if (rc == 0)
		count(o, &wire);
	else if (rc == -ENOENT || rc == -ENODEV)
		absent(o, &wire);
	wire.type = GM_PROBE_CENSUS;
	gm_say_record(&wire);
	if (wire.health == GM_PROBE_USABLE)
		say_places(o);
	if (rc == 0)
		nvml.nvmlShutdown();
	_exit(EXIT_SUCCESS);
}
