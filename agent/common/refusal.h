/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* refusal - the words of a refusal, made where it is decided, for the log or a
 * client. */
#ifndef GM_COMMON_REFUSAL_H
#define GM_COMMON_REFUSAL_H

#define GM_WHY_BYTES 256 /* as in struct gm_refusal */

/* Write the words, cut where they are too long.  Returns @error. */
int gm_why(char ret_why[GM_WHY_BYTES], int error, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

#endif
