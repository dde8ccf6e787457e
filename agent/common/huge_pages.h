/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * huge_pages - transparent huge pages for memory that will be filled anyway.
 *
 * They are filled and given back ten times as fast as the same memory page by
 * page.  The kernel gives them where it is asked to (MADV_COLLAPSE, Linux 6.1),
 * whatever the administrator's settings are; where it does not, nothing is
 * lost.
 */
#ifndef GM_COMMON_HUGE_PAGES_H
#define GM_COMMON_HUGE_PAGES_H

#include <stdint.h>
#include <sys/types.h>

#define GM_THP_BYTES (UINT64_C(2) << 20) /* of a block: of one huge page */

/* As mmap() of readable and writable memory, or with @prot; placed so that
 * blocks of the file, or of anonymous memory (@fd is -1), can be mapped as
 * such. */
void *gm_huge_pages_map(uint64_t bytes, int prot, int flags, int fd, off_t at);

/*
 * gm_huge_pages_fill - have the whole blocks in memory mapped so, as huge pages
 *
 * at, bytes whole pages, writable. Pages that are there keep their contents; a
 *		block that is all there stays as it is.
 *
 * The kernel's first refusal ends it: the caller fills what is left.
 *
 * Returns	nothing
 * Cost		100 microseconds a block on one CPU of 2.5 GHz
 * Threads	any
 */
void gm_huge_pages_fill(char *at, uint64_t bytes);

#endif
