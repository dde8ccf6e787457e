/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "tests/support/agent_segment.h"

bool agent_map_open(const struct agent *a, struct agent_map *m)
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

void agent_map_close(struct agent_map *m)
{
	munmap(m->map.base, m->map.bytes);
}

uint32_t agent_map_state(const struct agent_map *m)
{
	return gm_get(&m->map.header->state);
}

uint64_t agent_map_epoch(const struct agent_map *m)
{
	return gm_get(&m->map.header->epoch);
}

uint64_t agent_map_version(const struct agent_map *m, const char *name)
{
	struct gm_layers_image image;
	struct gm_object object;

	if (gm_layers_open(&m->map, name, &object, &image) != 0)
		return 0;
	return image.object.version;
}
