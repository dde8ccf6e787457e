/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* memory_file - make memory that descriptors can be had of. */
#ifndef GM_COMMON_MEMORY_FILE_H
#define GM_COMMON_MEMORY_FILE_H

/*
 * gm_memory_file - make a memfd, empty and close-on-exec
 *
 * The file can be sealed and is no program: where vm.memfd_noexec is 2 Linux
 * before 6.6 refuses any other.
 *
 * Returns	the descriptor or a negative errno
 */
int gm_memory_file(const char *name);

#endif
