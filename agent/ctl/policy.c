/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* Show from which size of work each row is worth it. */

#include <stdio.h>
#include <string.h>

#include "agent/ctl/fields.h"

#define WORK(id, name)                                         \
	GM_FIELD(gpumap_policy, name, least[GPUMAP_WORK_##id], \
		 GM_COLUMN(name, 10), .as = GM_AS_OR_MAX, .none = "never")

static const struct gm_ctl_field works[] = {
	WORK(GEMM, "gemm"),
	WORK(POTRF, "potrf"),
	WORK(XTWX, "xtwx"),
	WORK(FILL, "fill"),
	WORK(COPY, "copy"),
	WORK(SCALE, "scale"),
	WORK(AXPY, "axpy"),
	WORK(CAST, "cast"),
	WORK(REDUCE, "reduce"),
	WORK(MASK, "mask"),
	{ 0 },
};

_Static_assert(sizeof(works) / sizeof(works[0]) == GPUMAP_WORKS + 1,
	       "each has a column");

static const struct gm_ctl_field policy_fields[] = {
	GM_FIELD(gpumap_policy, "row", row, GM_COLUMN("row", 3)),
	GM_FIELD(gpumap_policy, "calibrated_ns", calibrated_ns,
		 .as = GM_AS_OR_NULL),
	GM_FIELD(gpumap_policy, NULL, calibrated_ns,
		 GM_COLUMN(" calibrated", -10), .as = GM_AS_FLAG),
	{ .name = "least", .type = GM_TYPE_RECORD, .fields = works },
	{ 0 },
};

void gm_ctl_policy(struct gm_ctl *ctl)
{
	uint32_t n =
		ctl->n_rows > 0 ? ctl->n_rows : gpumap_device_count(ctl->map);
	struct gpumap_policy policy = { .size = sizeof(policy) };
	struct gm_ctl_list list = { .items = NULL };

	/* All are reset before the first is shown. */
	for (uint32_t i = GM_GIVEN(ctl, RESET) ? 0 : n; i < 2 * n; i++) {
		uint32_t row = ctl->n_rows > 0 ? ctl->rows[i % n] : i % n;
		int ret = gpumap_policy_read(ctl->map, row, &policy);

		if (ret == 0 && i < n) {
			memset(policy.least, 0, sizeof(policy.least));
			ret = gpumap_policy_set(ctl->map, &policy);
		}
		if (ret != 0)
			gm_ctl_fail(ctl, ret, "row %u", row);
		if (i == n)
			list = gm_ctl_list_begin(ctl, policy_fields);
		if (i >= n)
			gm_ctl_list_add(&list, &policy);
	}
	gm_ctl_list_end(&list, "policies");
}
