/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * .npy files.
 *
 *	bytes 0-1	bytes of data after the header, little-endian
 *	then		the header, without the magic and lengths before it
 *
 * The bytes before a header are checked apart, of the input as a whole.
 */

#include "tests/fuzz/fuzz_mask.h"

#include "agent/mask/npy.h"

#define HEAD 2

static void check_prolog(const uint8_t *data, size_t size)
{
	size_t n = size < GM_NPY_PROLOG ? size : GM_NPY_PROLOG;
	struct gm_plan_error err = { 0 };
	uint32_t begin, bytes;
	int r = gm_npy_prolog(&(struct gm_file_header){ "input", data, n,
							size - n },
			      &begin, &bytes, &err);

	if (r)
		check_error(r, &err);
	else
		MUST(begin <= n && bytes <= GM_NPY_HEADER &&
		     bytes <= size - begin);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct gm_plan_error err = { 0 };
	struct gm_mask_tensor t;
	uint64_t data_bytes;
	int r;

	check_prolog(data, size);
	if (size < HEAD)
		return 0;
	data_bytes = data[0] | (uint64_t)data[1] << 8;
	r = gm_npy_header("input", (const char *)data + HEAD, size - HEAD,
			  data_bytes, &t, &err);
	if (r) {
		check_error(r, &err);
		return 0;
	}
	check_mask(&t);
	MUST(t.bytes == data_bytes);
	return 0;
}
