/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* watched: many sources, one verdict, and facts that are joined. */

#include <string.h>

#include "agent/cuda/nvml.h"
#include "agent/daemon/health/watched.h"
#include "gpumap.h"
#include "tests/support/tap.h"

static const uint8_t uuid[16] = { 1, 2, 3 };

static struct gm_watched card;

static void look(uint32_t health, int32_t code, uint32_t recovery)
{
	struct gm_probe_wire wire = { .type = GM_PROBE_MOVING,
				      .health = health,
				      .code = code };

	wire.moving = (struct gm_probe_moving){ .recovery = recovery };
	gm_watched_moving(&card, &wire);
}

static void begin(void)
{
	struct gm_probe_wire facts = { .type = GM_PROBE_DEVICE };

	gm_watched_begin(&card, uuid, 1);
	card.slot = 0;
	facts.device.facts.numa_node = -1;
	gm_watched_facts(&card, &facts);
	look(GM_PROBE_USABLE, 0, GM_NVML_RECOVERY_NONE);
	card.verdict_is_due = false;
}

static void set(enum gm_verdict_source source, uint32_t health,
		const char *text)
{
	struct gm_verdict verdict = { .health = health };

	snprintf(verdict.text, sizeof(verdict.text), "%s", text);
	gm_watched_set(&card, source, &verdict);
}

static void worst_verdict_counts(void)
{
	begin();
	EQ(gm_watched_verdict(&card)->health, GM_PROBE_USABLE);
	OK(gm_watched_is_askable(&card));
	set(GM_VERDICT_DRIVER, GM_PROBE_FAILED, "driver");
	STR(gm_watched_verdict(&card)->text, "driver");
	/* Still worth asking. */
	OK(gm_watched_is_askable(&card));
	set(GM_VERDICT_NVML, GM_PROBE_TAKEN, "mode");
	STR(gm_watched_verdict(&card)->text, "mode");
	set(GM_VERDICT_XID, GM_PROBE_FAILED, "xid");
	STR(gm_watched_verdict(&card)->text, "xid");
	OK(!gm_watched_is_askable(&card));
	set(GM_VERDICT_SILENCE, GM_PROBE_FAILED, "silence");
	STR(gm_watched_verdict(&card)->text, "silence");
	set(GM_VERDICT_NVML, GM_PROBE_LOST, "lost");
	STR(gm_watched_verdict(&card)->text, "lost");
	EQ(gm_watched_verdict(&card)->health, GM_PROBE_LOST);
	for (int i = 0; i < GM_VERDICTS; i++)
		gm_watched_set(&card, i, NULL);
	EQ(gm_watched_verdict(&card)->health, GM_PROBE_USABLE);
	STR(gm_watched_verdict(&card)->text, "");
}

static void same_verdict_is_told_once(void)
{
	begin();
	gm_watched_set(&card, GM_VERDICT_DRIVER, NULL);
	OK(!card.verdict_is_due);
	set(GM_VERDICT_DRIVER, GM_PROBE_FAILED, "a");
	OK(card.verdict_is_due);
	card.verdict_is_due = false;
	set(GM_VERDICT_DRIVER, GM_PROBE_FAILED, "a");
	OK(!card.verdict_is_due);
	set(GM_VERDICT_DRIVER, GM_PROBE_FAILED, "b");
	OK(card.verdict_is_due);
}

static uint32_t after(uint64_t xid)
{
	struct gm_verdict verdict;

	begin();
	if (gm_watched_is_grave(xid, &verdict))
		gm_watched_set(&card, GM_VERDICT_XID, &verdict);
	return gm_watched_verdict(&card)->health;
}

static void few_xids_are_of_the_card(void)
{
	for (uint64_t xid = 0; xid < 200; xid++) {
		uint32_t want = xid == 79                ? GM_PROBE_LOST
				: xid == 48 || xid == 95 ? GM_PROBE_FAILED
							 : GM_PROBE_USABLE;

		if (!EQ(after(xid), want))
			NOTE("xid %u", (unsigned int)xid);
	}
	EQ(after(48 + (UINT64_C(1) << 32)), GM_PROBE_USABLE);
}

static void lost_ends_with_an_answer_and_a_fault_with_a_reset(void)
{
	struct gm_probe_wire facts = { .type = GM_PROBE_DEVICE };

	after(79);
	card.is_asked = true;
	gm_watched_facts(&card, &facts);
	EQ(gm_watched_verdict(&card)->health, GM_PROBE_USABLE);
	OK(!card.is_asked);
	after(95);
	card.is_asked = true;
	gm_watched_facts(&card, &facts);
	EQ(gm_watched_verdict(&card)->health, GM_PROBE_FAILED);
	OK(card.is_asked);
	/* All is well is no sign of a reset, unless one was asked for. */
	look(GM_PROBE_USABLE, 0, GM_NVML_RECOVERY_NONE);
	look(GM_PROBE_USABLE, 0, UINT32_MAX);
	EQ(gm_watched_verdict(&card)->health, GM_PROBE_FAILED);
	look(GM_PROBE_USABLE, 0, GM_NVML_RECOVERY_GPU_RESET);
	EQ(gm_watched_verdict(&card)->health, GM_PROBE_FAILED);
	look(GM_PROBE_FAILED, 7, GM_NVML_RECOVERY_NONE);
	EQ(gm_watched_verdict(&card)->code, 95);
	look(GM_PROBE_USABLE, 0, GM_NVML_RECOVERY_NONE);
	EQ(gm_watched_verdict(&card)->health, GM_PROBE_USABLE);
	after(48);
	look(GM_PROBE_FAILED, GM_NVML_RESET_REQUIRED, UINT32_MAX);
	EQ(gm_watched_verdict(&card)->code, 48);
	look(GM_PROBE_USABLE, 0, UINT32_MAX);
	EQ(gm_watched_verdict(&card)->health, GM_PROBE_USABLE);
	/* A reset that was asked for before the Xid is of another fault. */
	begin();
	look(GM_PROBE_USABLE, 0, GM_NVML_RECOVERY_GPU_RESET);
	set(GM_VERDICT_XID, GM_PROBE_FAILED, "xid");
	look(GM_PROBE_USABLE, 0, GM_NVML_RECOVERY_NONE);
	EQ(gm_watched_verdict(&card)->health, GM_PROBE_FAILED);
}

static void drivers_facts_win(void)
{
	struct gm_probe_wire nvml = { .type = GM_PROBE_DEVICE };
	struct gm_probe_wire cuda = { .type = GM_PROBE_DRIVER };
	struct gm_row_image *row = &nvml.device.facts;

	row->numa_node = -1;
	row->total_bytes = 100;
	row->cc_major = 9;
	row->known = GPUMAP_KNOWN_CC | GPUMAP_KNOWN_MEMORY;
	cuda.device.facts.total_bytes = 90;
	cuda.device.facts.units = 7;
	cuda.device.facts.flags = GPUMAP_DEVICE_INTEGRATED;
	cuda.device.facts.known = GPUMAP_KNOWN_MEMORY | GPUMAP_KNOWN_UNITS;
	begin();
	gm_watched_facts(&card, &nvml);
	EQ(gm_watched_device(&card).facts.total_bytes, 100);
	EQ(gm_watched_device(&card).facts.known & GPUMAP_KNOWN_UNITS, 0);
	EQ(gm_watched_device(&card).facts.ordinal_pci, -1);
	card.facts_are_due = false;
	gm_watched_driver(&card, &cuda);
	OK(card.facts_are_due);
	EQ(gm_watched_device(&card).facts.total_bytes, 90);
	EQ(gm_watched_device(&card).facts.units, 7);
	EQ(gm_watched_device(&card).facts.cc_major, 9);
	OK(gm_watched_device(&card).facts.flags & GPUMAP_DEVICE_INTEGRATED);
	EQ(gm_watched_device(&card).facts.known & GPUMAP_KNOWN_ORDINALS, 0);
	EQ(memcmp(gm_watched_device(&card).facts.uuid, uuid, 16), 0);
	/* Each list has other ordinals, which is no news. */
	card.facts_are_due = false;
	cuda.device.facts.ordinal_pci = 3;
	gm_watched_driver(&card, &cuda);
	OK(!card.facts_are_due);
}

static int node_of(enum gm_probe_affinity by, int nvml, int driver)
{
	struct gm_probe_wire facts = { .type = GM_PROBE_DEVICE };
	struct gm_probe_wire cuda = { .type = GM_PROBE_DRIVER };
	struct gm_probe_device device;

	facts.device.affinity = by;
	facts.device.facts.numa_node = nvml;
	cuda.device.facts.numa_node = driver;
	cuda.device.facts.known =
		driver >= 0 ? GPUMAP_KNOWN_NUMA | GPUMAP_KNOWN_CPUS : 0;
	strcpy(cuda.device.facts.cpus, "4-7");
	begin();
	gm_watched_facts(&card, &facts);
	gm_watched_driver(&card, &cuda);
	device = gm_watched_device(&card);
	STR(device.facts.cpus, device.facts.numa_node == 1 ? "4-7" : "");
	return device.facts.numa_node;
}

static void node_is_of_sysfs_then_the_driver_then_nvml(void)
{
	EQ(node_of(GM_AFFINITY_SYSFS, 0, 1), 0);
	EQ(node_of(GM_AFFINITY_NVML, 0, 1), 1);
	EQ(node_of(GM_AFFINITY_NONE, -1, 1), 1);
	EQ(node_of(GM_AFFINITY_NVML, 0, -1), 0);
	EQ(node_of(GM_AFFINITY_NONE, -1, -1), -1);
}

TAP_CASE()
{
	worst_verdict_counts();
	same_verdict_is_told_once();
	few_xids_are_of_the_card();
	lost_ends_with_an_answer_and_a_fault_with_a_reset();
	drivers_facts_win();
	node_is_of_sysfs_then_the_driver_then_nvml();
	return tap_done();
}
