/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "lib/internal.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

/* The kernel maps a whole page for these bytes. */
#define GUARD_BYTES sizeof(uint64_t)

int gm_fork_guard_make(struct gm_guard *guard)
{
	void *page = mmap(NULL, GUARD_BYTES, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (page == MAP_FAILED)
		return -errno;
	if (madvise(page, GUARD_BYTES, MADV_WIPEONFORK) != 0) {
		int error = -errno;

		munmap(page, GUARD_BYTES);
		return error;
	}
	*(uint64_t *)page = GM_GUARD_MINE;
	gm_put_release(&guard->mine, page); /* GUARD.made */
	return 0;
}

void gm_fork_guard_drop(struct gm_guard *guard)
{
	uint64_t *page = gm_get(&guard->mine);

	if (page != NULL)
		munmap(page, GUARD_BYTES);
	gm_put(&guard->mine, NULL);
}

/* Before the first request there is nothing that a child could share by
 * mistake, so an attachment that only reads is spared the page. */
int gm_fork_map_mine(const struct gpumap *map)
{
	bool made = gm_get(&map->mine.mine) != NULL;
	bool mine = made ? gm_guard_mine(&map->mine) : getpid() == map->pid;

	return mine ? 0 : -EOWNERDEAD;
}
