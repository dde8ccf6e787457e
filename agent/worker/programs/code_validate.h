/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * code_validate - device code that a client has brought, before a driver sees
 * it.
 *
 * A driver is given an address and no length: it believes what the bytes say of
 * themselves.  So what they say is judged first, as far as it is about how many
 * there are.
 *
 * Pure.
 */
#ifndef GM_WORKER_PROGRAMS_CODE_VALIDATE_H
#define GM_WORKER_PROGRAMS_CODE_VALIDATE_H

#include <stddef.h>

/*
 * gm_image_judge - is it PTX, a cubin or a fatbin, and whole?
 *
 * bytes, n	the image, with a NUL behind its n bytes
 *
 * Returns	NULL, or what is wrong; constant
 */
const char *gm_image_judge(const void *bytes, size_t n);

#endif
