/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* Choose devices of the table. */

#include <stdio.h>

#include "agent/ctl/ctl.h"

static int show(const struct gm_ctl *ctl, const uint32_t *rows, int n)
{
	json_t *list = ctl->json ? json_array() : NULL;

	if (!ctl->json)
		gm_ctl_device_heading();
	for (int i = 0; i < n; i++) {
		struct gpumap_device device = { .size = sizeof(device) };
		int ret = gpumap_device_read(ctl->map, rows[i], &device);

		if (ret != 0) {
			json_decref(list);
			return gm_ctl_fail(ctl, ret, "row %u", rows[i]);
		}
		if (ctl->json)
			json_array_append_new(list,
					      gm_ctl_device_json(&device));
		else
			gm_ctl_device_line(&device);
	}
	if (!ctl->json)
		return GM_EXIT_OK;
	return gm_ctl_print(json_pack("{s:o}", "devices", list));
}

int gm_ctl_choose(struct gm_ctl *ctl)
{
	static const char *const orders[] = {
		[GPUMAP_CHOOSE_BEST] = "best",
		[GPUMAP_CHOOSE_FREE_MEMORY] = "free-memory",
		[GPUMAP_CHOOSE_FREE_COMPUTE] = "free-compute",
	};
	struct gpumap_choice choice = {
		.size = sizeof(choice),
		.prefer = ctl->choose.prefer,
		.compute_capability = ctl->choose.cc,
		.cuda_version = ctl->choose.cuda_version,
		.total_bytes = ctl->choose.memory,
		.free_bytes = ctl->choose.free,
		.rows = ctl->n_rows > 0 ? ctl->rows : NULL,
		.n_rows = ctl->n_rows,
	};
	uint32_t rows[GPUMAP_ROWS_MAX];
	int n;

	if (ctl->choose.by != NULL) {
		int by = gm_ctl_find_word("--by", ctl->choose.by, orders,
					  sizeof(orders[0]),
					  sizeof(orders) / sizeof(orders[0]));

		if (by < 0)
			return GM_EXIT_USAGE;
		choice.by = (uint32_t)by;
	}
	n = gm_ctl_attach(ctl);
	if (n != GM_EXIT_OK)
		return n;
	n = gpumap_device_choose(ctl->map, &choice, rows, GPUMAP_ROWS_MAX);
	return n < 0 ? gm_ctl_fail(ctl, n, "choose") : show(ctl, rows, n);
}
