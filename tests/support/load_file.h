/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * load_file.h - files whose every byte is known, and LOADs of them.
 */
#ifndef GM_TEST_SUPPORT_LOAD_FILE_H
#define GM_TEST_SUPPORT_LOAD_FILE_H

#include <fcntl.h>
#include <sys/stat.h>

#include "tests/support/story.h"

#define MIB (UINT64_C(1) << 20)

void load_fill(char *to, uint64_t from, uint64_t n);
bool load_matches(const char *at, uint64_t from, uint64_t n);
void load_write(int fd, uint64_t from, uint64_t n);

/* A file in @folder without a name; readable and writable. */
int load_file(const char *folder, uint64_t bytes);
uint64_t load_register(struct gpumap_session *session, int fd);

struct gpumap_job load_job(uint64_t file, uint64_t at, uint64_t n, void *to);
int load(struct gpumap_session *session, uint32_t row, uint64_t file,
	 uint64_t at, uint64_t n, void *to);

#endif
