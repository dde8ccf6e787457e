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
static void absent(const struct gm_probe_options *o, struct gm_note *note)
{
	size_t cards = gm_sysfs_count(o->sysfs);
	size_t used = strlen(note->text);

	note->census.outcome = GM_PROBE_ABSENT;
	if (cards)
		snprintf(note->text + used, sizeof(note->text) - used,
			 " (PCI devices of NVIDIA's here: %zu)", cards);
}

static void count(const struct gm_probe_options *o, struct gm_note *note)
{
	unsigned int n = 0;
	gm_nvml_result result = nvml.nvmlDeviceGetCount_v2(&n);

	if (result != GM_NVML_SUCCESS) {
		gm_nvml_session_refused(note, "nvmlDeviceGetCount", result);
		note->census.outcome = GM_PROBE_BROKEN;
	} else if (n == 0) {
		gm_protocol_text(note, "the driver has no card");
		absent(o, note);
	}
	note->census.n_cards = n < GM_PROBE_GPUS ? n : GM_PROBE_GPUS;
}

static void say_places(const struct gm_probe_options *o)
{
	static struct gm_note notes[GM_PROBE_GPUS];
	size_t n;

	/* The module takes locks of its own for these files. */
	gm_protocol_call("a read of /proc/driver/nvidia");
	n = gm_sysfs_list(o->sysfs, notes, GM_PROBE_GPUS);
	for (size_t i = 0; i < n; i++)
		gm_protocol_send(&notes[i]);
}

int gm_enumerate_run(const struct gm_probe_options *o)
{
	struct gm_note note = { .type = GM_NOTE_CENSUS };
	int rc = gm_nvml_session_open(o, &nvml, &note);

	if (rc == -ENOENT || rc == -ENODEV)
		absent(o, &note);
	else if (rc < 0)
		note.census.outcome = GM_PROBE_BROKEN;
	else
		count(o, &note);
	gm_protocol_send(&note);
	if (note.census.outcome == 0)
		say_places(o);
	if (rc == 0)
		nvml.nvmlShutdown();
	_exit(EXIT_SUCCESS);
}
