/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Checks the labels of cards and MIG instances in gpumap-exporter's metrics,
 * which are those of NVIDIA's DCGM exporter, and what the driver tells of them.
 */

#include "tests/support/cuda_agent.h"
#include "tests/support/ctl.h"
#include "tests/support/exporter.h"

static struct cuda_scene scene;
static struct exporter exporter;
static struct gpumap *map;

static void __attribute__((format(printf, 2, 3)))
add(char *to, const char *format, ...)
{
	size_t n = strlen(to);
	va_list list;

	va_start(list, format);
	vsnprintf(to + n, 1024 - n, format, list);
	va_end(list);
}

/* The labels as DCGM's exporter orders and writes them. */
static void dcgm_labels(const struct gpumap_device *d, char ret_text[1024])
{
	const uint8_t *u = d->uuid;
	char host[64];

	ret_text[0] = '\0';
	if (d->nvml_index >= 0)
		add(ret_text, "gpu=\"%d\",", d->nvml_index);
	add(ret_text,
	    "UUID=\"%s-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-"
	    "%02x%02x%02x%02x%02x%02x\",",
	    d->mig_gi >= 0 ? "MIG" : "GPU", u[0], u[1], u[2], u[3], u[4], u[5],
	    u[6], u[7], u[8], u[9], u[10], u[11], u[12], u[13], u[14], u[15]);
	add(ret_text, "pci_bus_id=\"%08X:%02X:%02X.%X\",", d->pci_domain,
	    d->pci_bus >> 8, d->pci_bus >> 3 & 31, d->pci_bus & 7);
	if (d->minor_number >= 0)
		add(ret_text, "device=\"nvidia%d\",", d->minor_number);
	add(ret_text, "modelName=\"%s\",", d->name);
	if (d->mig_gi >= 0)
		add(ret_text, "GPU_I_PROFILE=\"%s\",GPU_I_ID=\"%d\",",
		    d->mig_profile, d->mig_gi);
	gethostname(host, sizeof(host));
	add(ret_text, "hostname=\"%s\"", host);
}

static void labels_are_dcgms(void)
{
	uint32_t n_cards = 0, n_parts = 0;

	OK(exporter_scrape(&exporter));
	for (uint32_t row = 0; row < gpumap_device_count(map); row++) {
		struct gpumap_device d = story_device(map, row);
		char row_label[24], labels[1024];

		if (d.kind != GPUMAP_DEVICE_CUDA)
			continue;
		n_cards += d.mig_gi < 0;
		n_parts += d.mig_gi >= 0;
		dcgm_labels(&d, labels);
		snprintf(row_label, sizeof(row_label), "row=\"%u\"", row);
		if (!OK(EXPORTER_VALUE("gpumap_device_memory_bytes", row_label,
				       "kind=\"total\"",
				       labels) == (double)d.total_bytes))
			NOTE("row %u: %s", row, labels);
		OK(EXPORTER_VALUE("gpumap_device_xids_total", row_label) ==
		   (double)d.xids);
		if ((d.known & GPUMAP_KNOWN_TEMPERATURE) != 0)
			OK(EXPORTER_VALUE("gpumap_device_temperature_celsius",
					  row_label) > 0);
	}
	OK(n_cards > 0 && n_parts > 0);
}

TAP_CASE()
{
	if (!OK(cuda_scene_make(&scene, "split.yaml", NULL)))
		return tap_done();
	cuda_scene_agent(&scene, &agent, "", "");
	if (!OK(agent_start(&agent)) || !exporter_start(&exporter, NULL))
		return tap_done();
	map = story_attach(&agent);
	labels_are_dcgms();
	gpumap_detach(map);
	exporter_stop(&exporter);
	EQ(agent_kill(&agent, SIGTERM), 0);
	agent_remove(&agent);
	cuda_scene_end(&scene);
	return tap_done();
}
