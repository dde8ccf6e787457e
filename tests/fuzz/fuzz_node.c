/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* Node files: whatever is taken has rows that a plan can count with. */

#include "tests/fuzz/fuzz_plan.h"

#include <string.h>

#include "agent/files/nodefile.h"

static void check_row(const struct gm_nodefile_row *row)
{
	bool is_cuda = row->kind == GPUMAP_DEVICE_CUDA;
	bool is_host = row->kind == GPUMAP_DEVICE_HOST;

	MUST(is_cuda || is_host || row->kind == GPUMAP_DEVICE_DUMMY);
	MUST(row->name[0] != '\0');
	MUST(memchr(row->name, '\0', sizeof(row->name)) != NULL);
	for (const char *s = row->name; *s; s++)
		MUST((unsigned char)*s >= ' ' && *s != 0x7f);
	MUST(row->total_bytes > 0 && row->free_bytes <= row->total_bytes);
	MUST(row->has_cc == is_cuda);
	MUST(is_cuda ? row->cc_major > 0
		     : row->cc_major == 0 && row->cc_minor == 0);
	MUST(row->units <= INT32_MAX && row->numa_node >= -1);
	MUST(!is_host || (!row->is_integrated && !row->threads_per_unit));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct gm_plan_error err = { .code = 0 };
	struct gm_nodefile node = { .n_rows = 0 };
	int r = gm_nodefile_parse((const char *)data, size, &node, &err);

	if (r) {
		check_error(r, &err);
		return 0;
	}
	MUST(node.n_rows > 0 && node.n_rows <= GPUMAP_ROWS_MAX);
	for (uint32_t i = 0; i < node.n_rows; i++)
		check_row(&node.rows[i]);
	gm_nodefile_free(&node);
	return 0;
}
