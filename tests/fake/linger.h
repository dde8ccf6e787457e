/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* linger - detain a process on its way out. */
#ifndef FAKE_LINGER_H
#define FAKE_LINGER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * fake_linger - see to it that the end of a process takes @ns longer
 *
 * Returns	0 once that is so
 *		1 where the kernel does not let us
 */
int fake_linger(pid_t pid, uint64_t ns);

#endif
