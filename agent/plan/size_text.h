/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* size_text - write a number of bytes for a person. */
#ifndef GM_SIZE_TEXT_H
#define GM_SIZE_TEXT_H

#include <stdint.h>

#define GM_SIZE_TEXT 32

/* Write "1.5 GiB", with at most four digits.  Returns @ret_text. */
const char *gm_size_text(uint64_t bytes, char ret_text[GM_SIZE_TEXT]);

#endif
