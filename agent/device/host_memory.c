/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/device/host_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "agent/common/close_thread.h"
#include "agent/common/huge_pages.h"
#include "agent/common/memory_file.h"
#include "gpumap.h"

#ifndef MADV_POPULATE_WRITE /* Linux 5.14 */
#define MADV_POPULATE_WRITE 23
#endif

/* Populated by one call: tens of milliseconds. */
#define POPULATE_BYTES (UINT64_C(64) << 20)

struct host_buffer {
	struct gm_buffer buffer;
	uint64_t map_bytes; /* whole pages */
	uint64_t populated; /* bytes whose pages are there */
	int fd;             /* of an exportable one, or -1 */
};

/* A quarter of the descriptors is for others than exports: those who run out of
 * exports go on, a row that cannot take a session in does not.  The lowest that
 * is free is the next, so one this high says how many there are. */
static int fds_for_exports;

void gm_host_memory_init(void)
{
	long all = sysconf(_SC_OPEN_MAX);

	fds_for_exports =
		all > 0 && all < INT_MAX ? (int)(all - all / 4) : INT_MAX;
}

static uint64_t whole_pages(uint64_t bytes)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);

	return (bytes + page - 1) / page * page;
}

/* A request above all of the node's memory would get some process killed before
 * it ended in an error: the kernel has to find such a shortage. */
static bool is_absurd(uint64_t bytes)
{
	struct sysinfo info;

	return sysinfo(&info) == 0 &&
	       bytes / info.mem_unit > info.totalram + info.totalswap;
}

static void drop(int fd, void *map, uint64_t bytes)
{
	gm_close_thread_unmap_now(map, bytes);
	if (fd >= 0)
		close(fd);
}

static int map_private(uint64_t bytes, void **ret_map)
{
	void *map = gm_huge_pages_map(bytes, PROT_READ | PROT_WRITE,
				      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (map == MAP_FAILED)
		return -ENOMEM;
	madvise(map, bytes, MADV_HUGEPAGE);
	*ret_map = map;
	return 0;
}

/* The last page makes the file as long as it is to be: as many bytes as the
 * buffer has, which programs that get it as a file rely on.  Sealed: an
 * importer that cut it short would kill this process.  The module that hands
 * out a descriptor seals it further, or for good: this mapping can write
 * whatever the seals are. */
static int size_and_map(int fd, uint64_t bytes, void **ret_map)
{
	uint64_t whole = whole_pages(bytes);
	uint64_t last = whole - (uint64_t)sysconf(_SC_PAGESIZE);
	void *map;

	if (fallocate(fd, 0, (off_t)last, (off_t)(bytes - last)) < 0 ||
	    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) < 0)
		return -ENOMEM;
	map = gm_huge_pages_map(whole, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
				0);
	if (map == MAP_FAILED)
		return -ENOMEM;
	*ret_map = map;
	return 0;
}

static int map_shared(uint64_t bytes, int *ret_fd, void **ret_map)
{
	int fd = gm_memory_file("gpumap-buffer"), rc;

	if (fd < 0)
		return fd;
	rc = fd < fds_for_exports ? size_and_map(fd, bytes, ret_map) : -EMFILE;
	if (rc < 0)
		close(fd);
	else
		*ret_fd = fd;
	return rc;
}

/* Huge pages, and what they leave. */
int gm_host_populate(struct gm_backend_device *dev, struct gm_buffer *buffer)
{
	struct host_buffer *b = (struct host_buffer *)buffer;
	char *at = (char *)(uintptr_t)buffer->address + b->populated;
	uint64_t bytes = b->map_bytes - b->populated;
	uint64_t in_file = buffer->bytes - b->populated;
	int rc;

	(void)dev;
	if (bytes > POPULATE_BYTES)
		bytes = POPULATE_BYTES;
	if (in_file > bytes)
		in_file = bytes;
	gm_huge_pages_fill(at, bytes);
	/* A kernel that does not know the advice finds the pages when they are
	 * touched. */
	if (b->fd < 0)
		rc = madvise(at, bytes, MADV_POPULATE_WRITE) < 0 &&
				     errno != EINVAL
			     ? -1
			     : 0;
	else
		rc = fallocate(b->fd, 0, (off_t)b->populated, (off_t)in_file);
	if (rc < 0)
		return -ENOMEM;
	b->populated += bytes;
	return b->populated == b->map_bytes;
}

static int make(uint64_t bytes, int fd, void *map,
		struct gm_buffer **ret_buffer)
{
	struct host_buffer *b = calloc(1, sizeof(*b));

	if (!b)
		return -ENOMEM;
	b->map_bytes = whole_pages(bytes);
	b->fd = fd;
	b->buffer.address = (uintptr_t)map;
	b->buffer.bytes = bytes;
	*ret_buffer = &b->buffer;
	return 0;
}

int gm_host_alloc(struct gm_backend_device *dev, uint64_t owner, uint64_t bytes,
		  uint32_t flags, struct gm_buffer **ret_buffer)
{
	uint64_t whole = whole_pages(bytes);
	struct gm_buffer *buffer;
	void *map = NULL;
	int fd = -1, rc;

	(void)dev;
	(void)owner;
	if (bytes == 0)
		return -EINVAL;
	if (whole < bytes || is_absurd(whole))
		return -ENOMEM;
	rc = flags & GPUMAP_BUFFER_EXPORTABLE ? map_shared(bytes, &fd, &map)
					      : map_private(whole, &map);
	if (rc < 0)
		return rc;
	rc = make(bytes, fd, map, &buffer);
	if (rc < 0) {
		drop(fd, map, whole);
		return rc;
	}
	buffer->charged = whole;
	buffer->flags = flags;
	*ret_buffer = buffer;
	return 0;
}

void gm_host_free(struct gm_backend_device *dev, struct gm_buffer *buffer)
{
	struct host_buffer *b = (struct host_buffer *)buffer;

	(void)dev;
	if (!b)
		return;
	drop(b->fd, (void *)(uintptr_t)b->buffer.address, b->map_bytes);
	free(b);
}

int gm_host_export_fd(struct gm_backend_device *dev, struct gm_buffer *buffer)
{
	struct host_buffer *b = (struct host_buffer *)buffer;
	int fd;

	(void)dev;
	if (b->fd < 0)
		return -EOPNOTSUPP;
	fd = fcntl(b->fd, F_DUPFD_CLOEXEC, 0);
	return fd < 0 ? -errno : fd;
}

/* A mapping that cannot be written is for reading: jobs that name it are
 * checked. */
static bool can_write(int fd)
{
	int mode = fcntl(fd, F_GETFL), seals = fcntl(fd, F_GET_SEALS);

	return mode >= 0 && (mode & O_ACCMODE) == O_RDWR &&
	       (seals < 0 || !(seals & (F_SEAL_WRITE | F_SEAL_FUTURE_WRITE)));
}

int gm_host_import_fd(struct gm_backend_device *dev, int fd, uint64_t bytes,
		      struct gm_buffer **ret_buffer)
{
	uint64_t whole = whole_pages(bytes);
	struct gm_buffer *buffer;
	struct stat st;
	int prot = PROT_READ | (can_write(fd) ? PROT_WRITE : 0), rc;
	void *map;

	(void)dev;
	if (bytes == 0 || whole < bytes || fstat(fd, &st) < 0 ||
	    !S_ISREG(st.st_mode) || (uint64_t)st.st_size < bytes)
		return -EINVAL;
	map = gm_huge_pages_map(whole, prot, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED)
		return errno == EACCES ? -EINVAL : -ENOMEM;
	rc = make(bytes, -1, map, &buffer);
	if (rc < 0) {
		drop(-1, map, whole);
		return rc;
	}
	buffer->imported = true;
	*ret_buffer = buffer;
	return 0;
}
