/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* Checks what gpumapctl doctor says of rows: each fault by its own check. */

#include "tests/unit/doctor/examine.h"
#include "tests/support/sysfs_tree.h"

#define GIB (UINT64_C(1) << 30)

static struct gpumap_device rows[4];
static struct gm_doctor doctor = { .root = tree.root, .rows = rows };
static struct examined well;

static void make_well(void)
{
	memset(rows, 0, sizeof(rows));
	for (uint32_t i = 0; i < 4; i++) {
		rows[i] = (struct gpumap_device){
			.row = i,
			.kind = i < 3 ? GPUMAP_DEVICE_CUDA : GPUMAP_DEVICE_HOST,
			.state = GPUMAP_DEVICE_READY,
			.flags = GPUMAP_DEVICE_ECC,
			.figures = GPUMAP_FIGURES_KNOWN,
			.free_bytes = 10 * GIB,
			.reserved_bytes = 30 * GIB,
			.used_by_holders = 20 * GIB,
			.recovery = i < 2 ? GPUMAP_RECOVERY_NONE : UINT32_MAX,
			.mig_gi = -1,
		};
		strcpy(rows[i].name, "Card");
	}
	/* None of this is a fault. */
	rows[0].restarts = 2;
	rows[2].numa_node = 1;
	strcpy(rows[2].name, "Another");
	rows[2].flags = 0;
	rows[3].numa_node = -1;
	rows[3].figures = GPUMAP_FIGURES_NONE;
	doctor.n_rows = 4;
	/* No check of rows looks into the map. */
	doctor.map = (struct gpumap *)(uintptr_t)rows;
}

static bool is(const char *id, enum gm_verdict verdict, const char *text,
	       const char *remedy)
{
	bool ret = OK(breaks(&well, &doctor, id, verdict, text, remedy));

	make_well();
	return ret;
}

static void all_rows(void)
{
	rows[1].state = GPUMAP_DEVICE_FAILED;
	strcpy(rows[1].reason, "Xid 79");
	rows[2].state = GPUMAP_DEVICE_LOST;
	is("rows.state", GM_VERDICT_FAIL,
	   "out of service: 1 (FAILED: Xid 79), 2 (LOST)", "gpumapctl devices");
	rows[0].state = GPUMAP_DEVICE_DRAINING;
	is("rows.state", GM_VERDICT_WARN, "0 (DRAINING)", "undrain");
	/* A card that is split is FAILED, and nothing is wrong with it. */
	rows[1].state = GPUMAP_DEVICE_FAILED;
	rows[1].flags |= GPUMAP_DEVICE_MIG;
	is("rows.state", GM_VERDICT_PASS, "all 4 rows", "");
	rows[3].restarts = 3;
	is("rows.restarts", GM_VERDICT_WARN, "3 (3 times)", "worker_ended");
	rows[2].flags |= GPUMAP_DEVICE_CORDONED;
	is("rows.cordoned", GM_VERDICT_WARN, ": 2", "uncordon");
	rows[1].free_bytes = 9 * GIB;
	is("rows.promised", GM_VERDICT_WARN,
	   "1 (9.0 GiB free, 10.0 GiB promised)", "gpumapctl who");
}

static void cards(void)
{
	rows[1].numa_node = -1;
	is("rows.numa_node", GM_VERDICT_WARN, "rows 1", "BIOS");
	rows[0].figures = GPUMAP_FIGURES_REFUSED;
	is("rows.figures", GM_VERDICT_WARN, "0 (the driver refuses)", "vGPU");
	rows[0].figures = GPUMAP_FIGURES_NAMESPACE;
	is("rows.figures", GM_VERDICT_WARN, "pid namespace", "pids");
	rows[1].xids = 2;
	rows[1].last_xid = 31;
	is("rows.xid", GM_VERDICT_WARN, "1 (2, the last 31)", "dmesg");
	rows[0].recovery = GPUMAP_RECOVERY_GPU_RESET;
	is("rows.recovery", GM_VERDICT_FAIL, ": 0", "gpumapctl drain");
	rows[1].flags = 0;
	is("rows.ecc", GM_VERDICT_WARN, ": 1", "nvidia-smi -e 1");
}

static void without(void)
{
	struct gm_doctor none = { .root = tree.root };

	for (size_t i = 0; i < well.n; i++)
		if (strcmp(well.table[i].id, "rows.numa_node") != 0)
			EQ(look(&well.table[i], &none).verdict,
			   GM_VERDICT_SKIP);
	doctor.n_rows = 0;
	EQ(look(&gm_doctor_rows[0], &doctor).verdict, GM_VERDICT_FAIL);
	make_well();
	/* A long list is cut. */
	for (uint32_t i = 0; i < 4; i++) {
		rows[i].state = GPUMAP_DEVICE_LOST;
		memset(rows[i].reason, 'x', sizeof(rows[i].reason) - 1);
	}
	OK(strlen(look(&gm_doctor_rows[0], &doctor).text) < 320);
	make_well();
}

TAP_CASE()
{
	if (!tree_begin())
		return tap_done();
	tree_file("sys/devices/system/node/node1/cpulist", "1\n");
	make_well();
	well = examine(gm_doctor_rows, &doctor);
	EQ(well.n, 9);
	for (size_t i = 0; i < well.n; i++)
		if (!EQ(well.verdicts[i], GM_VERDICT_PASS))
			NOTE("%s", well.table[i].id);
	all_rows();
	cards();
	without();
	tree_end();
	return tap_done();
}
