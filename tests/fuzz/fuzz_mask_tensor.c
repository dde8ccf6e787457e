/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Masks in safetensors files.
 *
 *	bytes 0-1	bytes of data after the header, little-endian
 *	byte 2		not 0: the tensor "m" is asked for, else the only one
 *	then		the header's JSON
 */

#include "tests/fuzz/fuzz_mask.h"

#define HEAD 3

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct gm_plan_error err = { 0 };
	struct gm_mask_tensor t;
	uint64_t data_bytes;
	int r;

	if (size < HEAD)
		return 0;
	data_bytes = data[0] | (uint64_t)data[1] << 8;
	r = gm_mask_tensor_in(&(struct gm_file_header){ "input", data + HEAD,
							size - HEAD,
							data_bytes },
			      data[2] ? "m" : NULL, &t, &err);
	if (r) {
		check_error(r, &err);
		return 0;
	}
	check_mask(&t);
	MUST(t.bytes <= data_bytes && t.offset <= data_bytes - t.bytes);
	return 0;
}
