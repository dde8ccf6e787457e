/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* The readers' side of thresholds: gpumap_worth() of views, and floors. */

#include <errno.h>

#include "gpumap.h"
#include "tests/support/segment_file.h"
#include "tests/support/tap.h"

static struct segment_file file;
static struct gpumap *map;

static void put(uint32_t row, uint32_t work, uint64_t least)
{
	gm_put(&file.segment.map.rows[row].least[work], least);
}

/* A view that may not be looked at: NULL. */
static void nothing_is_touched_below_the_floor(void)
{
	EQ(gpumap_worth(NULL, GPUMAP_WORK_GEMM, 524287), 0);
	EQ(gpumap_worth(NULL, GPUMAP_WORK_XTWX, 524287), 0);
	EQ(gpumap_worth(NULL, GPUMAP_WORK_POTRF, 116), 0);
	for (uint32_t work = GPUMAP_WORK_FILL; work < GPUMAP_WORKS; work++)
		EQ(gpumap_worth(NULL, work, 4095), 0);
	EQ(gpumap_worth(NULL, GPUMAP_WORKS, UINT64_MAX), 0);
	EQ(gpumap_worth(NULL, UINT32_MAX, UINT64_MAX), 0);
}

static void floors_are_equal_in_operations(void)
{
	EQ(gpumap_flops(64, 64, 64), gpumap_work_floor(GPUMAP_WORK_GEMM));
	OK(UINT64_C(117) * 117 * 117 / 3 >= 524288);
	OK(UINT64_C(116) * 116 * 116 / 3 < 524288);
}

static void operations_are_counted_without_overflow(void)
{
	EQ(gpumap_flops(2, 3, 4), 48);
	EQ(gpumap_flops(0, UINT64_MAX, UINT64_MAX), 0);
	EQ(gpumap_flops(UINT64_MAX, UINT64_MAX, 0), 0);
	OK(gpumap_flops(UINT64_MAX, 1, 1) == UINT64_MAX);
	OK(gpumap_flops(UINT64_MAX, UINT64_MAX, 1) == UINT64_MAX);
	OK(gpumap_flops(UINT64_C(1) << 32, UINT64_C(1) << 30, 1) ==
	   UINT64_C(1) << 63);
	OK(gpumap_flops(UINT64_C(1) << 32, UINT64_C(1) << 31, 1) == UINT64_MAX);
}

static void a_view_follows_its_row(void)
{
	struct gpumap_policy_view zero, one;

	put(0, GPUMAP_WORK_AXPY, 10000);
	put(1, GPUMAP_WORK_AXPY, UINT64_MAX);
	EQ(gpumap_policy_view(map, 0, &zero), 0);
	EQ(gpumap_policy_view(map, 1, &one), 0);
	EQ(gpumap_worth(&zero, GPUMAP_WORK_AXPY, 9999), 0);
	EQ(gpumap_worth(&zero, GPUMAP_WORK_AXPY, 10000), 1);
	EQ(gpumap_worth(&one, GPUMAP_WORK_AXPY, UINT64_MAX - 1), 0);
	put(0, GPUMAP_WORK_AXPY, 20000);
	EQ(gpumap_worth(&zero, GPUMAP_WORK_AXPY, 10000), 0);
	EQ(gpumap_worth(&zero, GPUMAP_WORK_AXPY, 20000), 1);
	/* Even where a threshold is lower, the floor holds. */
	put(0, GPUMAP_WORK_AXPY, 1);
	EQ(gpumap_worth(&zero, GPUMAP_WORK_AXPY, 4095), 0);
	EQ(gpumap_worth(&zero, GPUMAP_WORK_AXPY, 4096), 1);
	EQ(gpumap_policy_view(map, 2, &one), -ENODEV);
	EQ(gpumap_policy_view(map, UINT32_MAX, &one), -ENODEV);
}

static void thresholds_are_read(void)
{
	struct gpumap_policy policy = { .size = sizeof(policy) };
	struct gm_row_image facts;

	EQ(gm_rows_facts(&file.segment.map, 1, &facts), 0);
	facts.generation = 5;
	segment_facts(&file.segment, 1, &facts);
	for (uint32_t work = 0; work < GPUMAP_WORKS_MAX; work++)
		put(1, work, 1000 + work);
	gm_put(&file.segment.map.rows[1].calibrated, 77);
	EQ(gpumap_policy_read(map, 1, &policy), 0);
	EQ(policy.size, sizeof(policy));
	EQ(policy.row, 1);
	EQ(policy.generation, 5);
	EQ(policy.calibrated_ns, 77);
	for (uint32_t work = 0; work < GPUMAP_WORKS; work++)
		EQ(policy.least[work], 1000 + work);
	/* The library does not pass on what it does not know. */
	EQ(policy.least[GPUMAP_WORKS], 0);
	EQ(gpumap_policy_read(map, 2, &policy), -ENODEV);
	EQ(gpumap_policy_read(map, 1, NULL), -EINVAL);
	policy.size = 8;
	EQ(gpumap_policy_read(map, 1, &policy), -EINVAL);
}

TAP_CASE()
{
	struct gpumap_attach_opts opts = { .size = sizeof(opts),
					   .runtime_dir = "/nonexistent" };

	nothing_is_touched_below_the_floor();
	floors_are_equal_in_operations();
	operations_are_counted_without_overflow();
	if (segment_file_make("policy", &file) != 0) {
		SKIP(1, "no segment in /dev/shm");
		return tap_done();
	}
	opts.instance = file.instance;
	segment_row(&file.segment, 0, "host zero");
	segment_row(&file.segment, 1, "host one");
	if (EQ(gpumap_attach(&opts, &map), 0)) {
		a_view_follows_its_row();
		thresholds_are_read();
	}
	gpumap_detach(map);
	segment_file_remove(&file);
	return tap_done();
}
