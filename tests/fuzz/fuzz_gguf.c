/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Headers of GGUF files, and the layers found in them.
 *
 *	bytes 0-1	bytes of the file that the input does not have,
 *			little-endian
 *	then		the start of the file
 */

#include "tests/fuzz/fuzz_plan.h"

#include <errno.h>
#include <string.h>

#include "agent/plan/gguf.h"

#define HEAD 2

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct gm_plan_error err = { 0 };
	struct gm_model_config config = { 0 };
	struct gm_tensors t = { 0 };
	uint64_t more, at = 0;
	int r;

	if (size < HEAD)
		return 0;
	more = data[0] | (uint64_t)data[1] << 8;
	r = gm_gguf_header("input", data + HEAD, size - HEAD,
			   size - HEAD + more, &t, &config, NULL, &err);
	if (r == -EAGAIN)
		MUST(more > 0);
	else if (r)
		check_error(r, &err);
	for (size_t i = 0; i < t.n && r == 0; i++) {
		MUST(gm_gguf_type(t.v[i].dtype) && t.v[i].name[0]);
		MUST(t.v[i].begin >= at);
		at = t.v[i].begin + t.v[i].bytes;
	}
	if (r == 0) {
		MUST(at <= size - HEAD + more);
		check_stack(&t, size - HEAD + more, &config);
	}
	gm_safetensors_free(&t);
	return 0;
}
