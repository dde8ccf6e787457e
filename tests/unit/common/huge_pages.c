/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * thp: memory that the agent fills is in huge pages, what is there already is
 * left alone, and blocks of files are mapped as blocks.
 */

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>

#include "agent/common/huge_pages.h"
#include "agent/device/device.h"
#include "gpumap.h"
#include "tests/support/huge_pages.h"
#include "tests/support/tap.h"

#define BLOCKS 3u
#define BYTES  (BLOCKS * HUGE_BLOCK)

static void mappings_start_where_blocks_do(void)
{
	uint64_t offset = HUGE_BLOCK + 12288;
	int fd = memfd_create("test-thp", MFD_CLOEXEC);
	char *map;

	EQ(ftruncate(fd, 2 * BYTES), 0);
	map = gm_huge_pages_map(BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
				(off_t)offset);
	if (OK(map != MAP_FAILED)) {
		EQ(((uintptr_t)map - offset) % HUGE_BLOCK, 0);
		map[0] = map[BYTES - 1] = 1;
		EQ(munmap(map, BYTES), 0);
	}
	map = gm_huge_pages_map(BYTES, PROT_READ, MAP_SHARED, -1, 0);
	OK(map == MAP_FAILED);
	EQ(errno, EBADF);
	close(fd);
}

static void what_lacks_is_filled_and_kept(void)
{
	int fd = memfd_create("test-thp", MFD_CLOEXEC);
	char *map;

	EQ(ftruncate(fd, BYTES), 0);
	map = gm_huge_pages_map(BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
				0);
	if (!OK(map != MAP_FAILED))
		return;
	map[5] = 5;
	map[2 * HUGE_BLOCK + 7] = 7;
	/* One block is complete, of small pages, and stays so. */
	for (uint64_t at = HUGE_BLOCK; at < 2 * HUGE_BLOCK; at += 4096)
		map[at] = 9;
	/* All but the first page and the last. */
	gm_huge_pages_fill(map + 4096, BYTES - 2 * 4096);
	EQ(present_bytes(map, BYTES), HUGE_BLOCK + 2 * 4096);
	gm_huge_pages_fill(map, BYTES);
	EQ(present_bytes(map, BYTES), BYTES);
	EQ(huge_bytes(map), 2 * HUGE_BLOCK);
	EQ(map[5], 5);
	EQ(map[HUGE_BLOCK], 9);
	EQ(map[2 * HUGE_BLOCK + 7], 7);
	munmap(map, BYTES);
	close(fd);
}

static void buffers_of_host_rows_are_huge(uint32_t flags)
{
	struct gm_device_config config = { .parts = 1 };
	uint64_t asked = BYTES + 100, got = HUGE_BLOCK * BLOCKS + 4096;
	struct gm_backend_device *dev;
	struct gm_buffer *b;

	if (!EQ(gm_host_backend.open(&config, &dev), 0))
		return;
	if (EQ(gm_host_backend.alloc(dev, 1, asked, flags, &b), 0)) {
		while (gm_host_backend.populate(dev, b) == 0)
			;
		void *at = (void *)(uintptr_t)b->address;

		EQ(b->charged, got);
		EQ(present_bytes(at, got), got);
		EQ(huge_bytes(at), BYTES);
		gm_host_backend.free(dev, b);
	}
	gm_host_backend.close(dev);
}

TAP_CASE()
{
	mappings_start_where_blocks_do();
	if (!huge_pages_are_given()) {
		SKIP(1, "this kernel gives no huge pages to who asks");
		return tap_done();
	}
	what_lacks_is_filled_and_kept();
	buffers_of_host_rows_are_huge(0);
	buffers_of_host_rows_are_huge(GPUMAP_BUFFER_EXPORTABLE);
	return tap_done();
}
