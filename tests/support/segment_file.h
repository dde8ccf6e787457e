/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * segment_file.h - a segment made by a test, under a name that gpumap_attach()
 * finds.  The name is the process's own, and gone when the test is.
 */
#ifndef GM_TEST_SUPPORT_SEGMENT_FILE_H
#define GM_TEST_SUPPORT_SEGMENT_FILE_H

#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "tests/support/segment.h"

struct segment_file {
	char instance[40];
	char path[80];
	void *memory; /* SEGMENT_BYTES, writable */
	struct segment segment;
};

static inline void segment_file_beat(struct segment_file *file)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	gm_put(&file->segment.map.header->heartbeat,
	       (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec);
}

static inline void segment_file_remove(struct segment_file *file)
{
	if (file->memory != NULL)
		munmap(file->memory, SEGMENT_BYTES);
	file->memory = NULL;
	unlink(file->path);
}

/* Returns 0 with an empty READY segment in place, or -1. */
static inline int segment_file_make(const char *what,
				    struct segment_file *ret_file)
{
	struct segment_file file = { 0 };
	int fd, ret = -1;

	snprintf(file.instance, sizeof(file.instance), "test.%s.%d", what,
		 (int)getpid());
	snprintf(file.path, sizeof(file.path), "/dev/shm/gpumap.1.%s",
		 file.instance);
	unlink(file.path);
	fd = open(file.path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return -1;
	/* Not by the mode of open(): the umask would have its say. */
	if (fchmod(fd, 0644) == 0 && ftruncate(fd, SEGMENT_BYTES) == 0) {
		file.memory = mmap(NULL, SEGMENT_BYTES, PROT_READ | PROT_WRITE,
				   MAP_SHARED, fd, 0);
		if (file.memory == MAP_FAILED)
			file.memory = NULL;
		else
			ret = segment_make(file.memory, 4096, &file.segment);
	}
	close(fd);
	if (ret != 0) {
		segment_file_remove(&file);
		return -1;
	}
	segment_file_beat(&file);
	*ret_file = file;
	return 0;
}

#endif
