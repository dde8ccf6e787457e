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
	shm_names_remove(file->instance);
}

static int fill_node(int fd, uint32_t node, uint64_t made, unsigned char byte)
{
	const uint64_t bytes = SEGMENT_MASK_AT + GM_SPAN_UNIT;
	struct gm_node_header *h;

	if (fchmod(fd, 0644) != 0 || ftruncate(fd, (off_t)bytes) != 0)
		return -1;
	h = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (h == MAP_FAILED)
		return -1;
	gm_put(&h->magic, GM_NODE_MAGIC);
	gm_put(&h->major, GM_LAYOUT_MAJOR);
	gm_put(&h->minor, GM_LAYOUT_MINOR);
	gm_put(&h->byte_order, GM_BYTE_ORDER);
	gm_put(&h->node, node);
	gm_put(&h->size, bytes);
	gm_put(&h->made, made);
	memset((char *)h + SEGMENT_MASK_AT, byte, SEGMENT_MASK_BYTES);
	munmap(h, bytes);
	return 0;
}

int segment_file_node(struct segment_file *file, uint64_t made,
		      unsigned char byte)
{
	char name[16], path[GM_NAMES_BYTES];
	int fd, ret;

	gm_names_node(name, file->n_nodes);
	shm_names_file(path, file->instance, name);
	fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return -1;
	ret = fill_node(fd, file->n_nodes++, made, byte);
	close(fd);
	return ret;
}

int segment_file_make(const char *what, struct segment_file *ret_file)
{
	struct segment_file file = { 0 };
	int fd, ret = -1;

	snprintf(file.instance, sizeof(file.instance), "test.%s.%d", what,
		 (int)getpid());
	shm_names_file(file.path, file.instance, "map");
	if (!shm_names_make(file.instance))
		return -1;
	unlink(file.path);
	fd = open(file.path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0) {
		shm_names_remove(file.instance);
		return -1;
	}
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
