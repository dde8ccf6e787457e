/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* agent_map - the segment of a test's own agent, mapped for writing, so that
 * what an agent left can be looked at and be damaged. */
#ifndef GM_TEST_SUPPORT_AGENT_SEGMENT_H
#define GM_TEST_SUPPORT_AGENT_SEGMENT_H

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shm/layers.h"
#include "shm/rows.h"
#include "tests/support/agent.h"

struct agent_map {
	struct gm_map map;
	ino_t inode;
};

/* Returns whether there is a segment that this build can read. */
static inline bool agent_map_open(const struct agent *a, struct agent_map *m)
{
	int fd = open(a->segment, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	bool good = false;
	struct stat st;
	void *base;

	if (fd < 0)
		return false;
	if (fstat(fd, &st) == 0 && st.st_size > 0) {
		base = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE,
			    MAP_SHARED, fd, 0);
		good = base != MAP_FAILED &&
		       gm_check_map(base, (uint64_t)st.st_size, &m->map) == 0;
		m->inode = st.st_ino;
	}
	close(fd);
	return good;
}

static inline void agent_map_close(struct agent_map *m)
{
	munmap(m->map.base, m->map.bytes);
}

static inline uint32_t agent_map_state(const struct agent_map *m)
{
	return gm_get(&m->map.header->state);
}

static inline uint64_t agent_map_epoch(const struct agent_map *m)
{
	return gm_get(&m->map.header->epoch);
}

/* Returns the version of a layer map, 0 when there is none. */
static inline uint64_t agent_map_version(const struct agent_map *m,
					 const char *name)
{
	struct gm_layers_image image;
	struct gm_object object;

	if (gm_layers_open(&m->map, name, &object, &image) != 0)
		return 0;
	return image.object.version;
}

#endif
