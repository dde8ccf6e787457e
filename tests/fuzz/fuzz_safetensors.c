/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Headers of model files, and the layers found in them.
 *
 *	bytes 0-1	bytes of data after the header, little-endian
 *	byte 2		layers that config.json says, 0 if it does not
 *	byte 3		layers past them
 *	then		the header's JSON
 *
 * The length in front of a header is checked apart, or every second mutation
 * would only break it.
 */

#include "tests/fuzz/fuzz_plan.h"

#include <string.h>

#include "agent/plan/safetensors.h"

#define HEAD 4

static void check_length(const uint8_t *data, size_t size)
{
	struct gm_plan_error err = { 0 };
	uint64_t bytes;
	int r;

	if (size < GM_SAFETENSORS_LENGTH)
		return;
	r = gm_safetensors_length("input", data, size, &bytes, &err);
	if (r)
		check_error(r, &err);
	else
		MUST(bytes <= size - GM_SAFETENSORS_LENGTH &&
		     bytes <= GM_SAFETENSORS_HEADER);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct gm_plan_error err = { 0 };
	struct gm_tensors t = { 0 };
	struct gm_model_config config;
	uint64_t data_bytes, at = 0;
	int r;

	check_length(data, size);
	if (size < HEAD)
		return 0;
	data_bytes = data[0] | (uint64_t)data[1] << 8;
	config = (struct gm_model_config){ .n_layers = data[2],
					   .n_extra = data[2] ? data[3] : 0 };
	r = gm_safetensors_header(
		&(struct gm_file_header){ "input", data + HEAD, size - HEAD,
					  data_bytes },
		7, &t, &err);
	if (r) {
		check_error(r, &err);
		MUST(t.n == 0);
	}
	for (size_t i = 0; i < t.n; i++) {
		MUST(t.v[i].begin == at && t.v[i].shard == 7);
		MUST(gm_safetensors_dtype(t.v[i].dtype));
		at += t.v[i].bytes;
	}
	if (r == 0) {
		MUST(at == data_bytes);
		check_stack(&t, data_bytes, &config);
	}
	gm_safetensors_free(&t);
	return 0;
}
