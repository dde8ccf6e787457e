/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * fuzz.h - macros and rules of the fuzz targets.
 *
 * fuzz_<input>.c defines LLVMFuzzerTestOneInput(): libFuzzer and AFL++ call it
 * with inputs they invent (--enable-fuzz), replay.c with those kept in
 * corpus/<input> (make check).  The target must survive every input, leak
 * nothing, and check with MUST() the conditions that hold for all of them.  An
 * input that broke something is kept in the corpus with the fix.
 */
#ifndef FUZZ_H
#define FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* NDEBUG changes nothing here. */
#define MUST(cond)                                                         \
	do {                                                               \
		if (!(cond)) {                                             \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, \
				#cond);                                    \
			abort();                                           \
		}                                                          \
	} while (0)

#endif
