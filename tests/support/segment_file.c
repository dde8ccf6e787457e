/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "tests/support/segment_file.h"

void segment_file_beat(struct segment_file *file)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	gm_put(&file->segment.map.header->heartbeat,
	       (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec);
}

void segment_file_remove(struct segment_file *file)
{
	if (file->memory != NULL)
		munmap(file->memory, SEGMENT_BYTES);
	file->memory = NULL;
	unlink(file->path);
}

int segment_file_make(const char *what, struct segment_file *ret_file)
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
