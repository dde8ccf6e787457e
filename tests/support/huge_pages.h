/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * huge_pages.h - what of a mapping is there, and in huge pages; and whether
 * this kernel gives them to who asks.
 */
#ifndef GM_TEST_SUPPORT_HUGE_PAGES_H
#define GM_TEST_SUPPORT_HUGE_PAGES_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

#define HUGE_BLOCK (UINT64_C(2) << 20)

/* Bytes of the mapping that holds @at which are mapped by huge pages, here. */
uint64_t huge_bytes(const void *at);

/* Bytes of [at, at + bytes) that have memory, whichever process touched it; @at
 * starts a page. */
uint64_t present_bytes(const void *at, uint64_t bytes);

/* A page, and the whole block of it as a huge one: of a memfd. */
bool huge_pages_are_given(void);

#endif
