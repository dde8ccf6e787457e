/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "tests/support/load_file.h"

/* Never 0, which is what a hole is. */
static unsigned char load_byte(uint64_t at)
{
	uint64_t x = at * UINT64_C(0x9e3779b97f4a7c15);

	return (unsigned char)(x >> 57 | 1) ^ (unsigned char)(at >> 9 << 1);
}

void load_fill(char *to, uint64_t from, uint64_t n)
{
	for (uint64_t i = 0; i < n; i++)
		to[i] = (char)load_byte(from + i);
}

bool load_matches(const char *at, uint64_t from, uint64_t n)
{
	for (uint64_t i = 0; i < n; i++) {
		if (at[i] == (char)load_byte(from + i))
			continue;
		NOTE("byte %lu of %lu from %lu on is wrong", (unsigned long)i,
		     (unsigned long)n, (unsigned long)from);
		return false;
	}
	return true;
}

void load_write(int fd, uint64_t from, uint64_t n)
{
	static char block[1 << 20];

	while (n) {
		uint64_t some = n < sizeof(block) ? n : sizeof(block);

		load_fill(block, from, some);
		if (pwrite(fd, block, some, (off_t)from) != (ssize_t)some)
			exit(99);
		from += some;
		n -= some;
	}
}

int load_file(const char *folder, uint64_t bytes)
{
	char path[256];
	int fd;

	snprintf(path, sizeof(path), "%s/agent-load.%d", folder, (int)getpid());
	fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		exit(99);
	unlink(path);
	load_write(fd, 0, bytes);
	return fd;
}

uint64_t load_register(struct gpumap_session *session, int fd)
{
	uint64_t file = 0;

	EQ(gpumap_buffer_register_file(session, fd, 0, &file), 0);
	return file;
}

struct gpumap_job load_job(uint64_t file, uint64_t at, uint64_t n, void *to)
{
	return (struct gpumap_job){ .op = GPUMAP_OP_LOAD,
				    .dtype = GPUMAP_DTYPE_U8,
				    .dst = to,
				    .n = n,
				    .src_buffer = file,
				    .src_at = at };
}

int load(struct gpumap_session *session, uint32_t row, uint64_t file,
	 uint64_t at, uint64_t n, void *to)
{
	struct gpumap_job job = load_job(file, at, n, to);

	return story_run(session, row, &job);
}
