/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * version - compare versions such as "12.4": part by part, as numbers.
 *
 * A version consists of whole numbers of any length with dots between them, and
 * white space around it is ignored.  Parts that are missing at its end are 0,
 * so "12" and "12.0" are equal, and an empty text is the lowest version.
 */
#ifndef GM_VERSION_H
#define GM_VERSION_H

#include <stdbool.h>

/* Is it a version?  Threads: any. */
bool gm_version_valid(const char *text);

/* Is the version @text at least @least?  False where @text is NULL or one of
 * them is no version.  Threads: any. */
bool gm_version_reaches(const char *text, const char *least);

#endif
