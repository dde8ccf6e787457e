/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Masks in safetensors files.
 *
 *	bytes 0-1	bytes of data after the header, little-endian
 *	byte 2		not 0: the tensor "m" is asked for, else the only one
 *	then		the header's JSON
 */

#include "tests/fuzz/fuzz_checkpoint.h"
#include "tests/fuzz/fuzz_mask.h"

#define HEAD 3

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct gm_plan_error err = { 0 };
	struct gm_mask_tensor t;
	struct gm_reason why;
	struct gm_weights ws;
	uint64_t data_bytes;
	int r;

	if (size < HEAD)
		return 0;
	data_bytes = data[0] | (uint64_t)data[1] << 8;
	ws = no_weights(&why);
	MUST(gm_weights_add_file(&ws, "input") == 0);
	ws.files[0].header = copy_of(data + HEAD, size - HEAD);
	r = gm_weights_header(&ws, 0, ws.files[0].header, size - HEAD, 0,
			      data_bytes);
	r = r ? gm_error_of_sentence(&err, r, why.text)
	      : gm_mask_tensor_in(&ws, data[2] ? "m" : NULL, &t, &err);
	gm_weights_free(&ws);
	if (r) {
		check_error(r, &err);
		return 0;
	}
	check_mask(&t);
	MUST(t.bytes <= data_bytes && t.offset <= data_bytes - t.bytes);
	return 0;
}
