/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* Show from which size of work each row is worth it. */

#include "agent/ctl/ctl.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char *const works[GPUMAP_WORKS] = {
	[GPUMAP_WORK_GEMM] = "gemm",     [GPUMAP_WORK_POTRF] = "potrf",
	[GPUMAP_WORK_XTWX] = "xtwx",     [GPUMAP_WORK_FILL] = "fill",
	[GPUMAP_WORK_COPY] = "copy",     [GPUMAP_WORK_SCALE] = "scale",
	[GPUMAP_WORK_AXPY] = "axpy",     [GPUMAP_WORK_CAST] = "cast",
	[GPUMAP_WORK_REDUCE] = "reduce", [GPUMAP_WORK_MASK] = "mask",
};

static json_t *to_json(const struct gpumap_policy *policy)
{
	json_t *least = json_object();

	for (uint32_t i = 0; i < GPUMAP_WORKS; i++)
		json_object_set_new(
			least, works[i],
			policy->least[i] <= INT64_MAX
				? json_integer((json_int_t)policy->least[i])
				: json_null());
	return json_pack(
		"{s:I, s:o, s:o}", "row", (json_int_t)policy->row,
		"calibrated_ns",
		policy->calibrated_ns != 0
			? json_integer((json_int_t)policy->calibrated_ns)
			: json_null(),
		"least", least);
}

static void print_line(const struct gpumap_policy *policy)
{
	printf("%3u  %-10s", policy->row,
	       policy->calibrated_ns != 0 ? "yes" : "no");
	for (uint32_t i = 0; i < GPUMAP_WORKS; i++)
		if (policy->least[i] == UINT64_MAX)
			printf(" %10s", "never");
		else
			printf(" %10" PRIu64, policy->least[i]);
	putchar('\n');
}

static void print_heading(void)
{
	printf("row  calibrated");
	for (uint32_t i = 0; i < GPUMAP_WORKS; i++)
		printf(" %10s", works[i]);
	putchar('\n');
}

int gm_ctl_policy(struct gm_ctl *ctl)
{
	uint32_t n =
		ctl->n_rows > 0 ? ctl->n_rows : gpumap_device_count(ctl->map);
	struct gpumap_policy policy = { .size = sizeof(policy) };
	json_t *list = json_array();

	/* All are reset before the first is shown. */
	for (uint32_t i = GM_GIVEN(ctl, RESET) ? 0 : n; i < 2 * n; i++) {
		uint32_t row = ctl->n_rows > 0 ? ctl->rows[i % n] : i % n;
		int ret = gpumap_policy_read(ctl->map, row, &policy);

		if (ret == 0 && i < n) {
			memset(policy.least, 0, sizeof(policy.least));
			ret = gpumap_policy_set(ctl->map, &policy);
		}
		if (ret != 0) {
			json_decref(list);
			return gm_ctl_fail(ctl, ret, "row %u", row);
		}
		if (i == n && !ctl->json)
			print_heading();
		if (i >= n && ctl->json)
			json_array_append_new(list, to_json(&policy));
		else if (i >= n)
			print_line(&policy);
	}
	if (ctl->json)
		return gm_ctl_print(json_pack("{s:o}", "policies", list));
	json_decref(list);
	return GM_EXIT_OK;
}
