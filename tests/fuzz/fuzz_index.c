/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* Indexes: the input is the text. */

#include "tests/fuzz/fuzz_checkpoint.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct gm_weights_index index = { 0 };
	struct gm_reason why;
	struct gm_weights ws = no_weights(&why);
	int ret = gm_weights_index_read(&ws, copy_of(data, size), size, &index);

	if (ret != 0)
		check_refusal(ret, &ws);
	else
		MUST(index.n > 0 && ws.n_files > 0 && ws.n_files <= index.n);
	for (size_t i = 1; i < index.n; i++)
		MUST(strcmp(index.v[i - 1].file, index.v[i].file) <= 0);
	for (uint32_t i = 0; i < ws.n_files; i++)
		MUST(strchr(ws.files[i].name, '/') == NULL);
	if (ret == 0)
		MUST(gm_weights_index_check(&ws, &index) == -EINVAL);
	gm_weights_index_free(&index);
	gm_weights_free(&ws);
	return 0;
}
