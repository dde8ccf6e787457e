/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* name - what an object may be called: names go into logs and onto terminals,
 * and are single words there. */
#ifndef GM_COMMON_NAME_H
#define GM_COMMON_NAME_H

#include "agent/common/refusal.h"

/* Returns 0, or -EINVAL: empty, too long, no UTF-8, or with a blank or a
 * character that is not printed as itself in it: a control character, one that
 * changes the direction of the text, one of no width. */
int gm_name_check(const char *name, char ret_why[GM_WHY_BYTES]);

#endif
