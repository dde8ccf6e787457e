/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* size_text - write a number of bytes for a person. */
#ifndef GM_SIZE_TEXT_H
#define GM_SIZE_TEXT_H

#include <stdint.h>

#define GM_SIZE_TEXT 32

/* Write "1.5 GiB", with at most four digits.  Returns @ret_text. */
const char *gm_size_text(uint64_t bytes, char ret_text[GM_SIZE_TEXT]);

struct gm_size_word {
	char text[GM_SIZE_TEXT];
};

/* For a refusal: what there is, rounded down, and what was asked for, rounded
 * up.  So they differ where the second is more. */
struct gm_size_word gm_size_down(uint64_t bytes);
struct gm_size_word gm_size_up(uint64_t bytes);

#endif
