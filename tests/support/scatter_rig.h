/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * scatter_rig.h - what is scattered over two rows: a registered file of
 * floats, and a buffer on each row.
 */
#ifndef GM_TEST_SUPPORT_SCATTER_RIG_H
#define GM_TEST_SUPPORT_SCATTER_RIG_H

#include <fcntl.h>
#include <sys/mman.h>

#include "tests/support/story_rows.h"

#define ROWS   2u
#define FLOATS (UINT64_C(1) << 20)
#define BYTES  (4 * FLOATS)

struct file {
	float *at;
	uint64_t buffer;
};

static inline struct file file_make(struct gpumap_session *s)
{
	int fd = memfd_create("weights", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	struct file file = { 0 };

	if (fd < 0 || ftruncate(fd, BYTES) != 0 ||
	    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK) != 0)
		exit(99);
	file.at = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (file.at == MAP_FAILED)
		exit(99);
	EQ(gpumap_buffer_register(s, fd, 0, BYTES, 0, &file.buffer), 0);
	close(fd);
	return file;
}

static inline void file_end(struct gpumap_session *s, struct file *file)
{
	EQ(gpumap_buffer_unregister(s, file->buffer), 0);
	munmap(file->at, BYTES);
}

static inline uint64_t alloc_on(struct gpumap_session *s, uint32_t row)
{
	uint64_t buffer = 0;

	EQ(gpumap_buffer_alloc(s, row, BYTES, GPUMAP_BUFFER_EXPORTABLE,
			       GPUMAP_NO_DEADLINE, &buffer),
	   0);
	return buffer;
}

static inline struct gpumap_job copy_all(void)
{
	return (struct gpumap_job){ .op = GPUMAP_OP_COPY,
				    .dtype = GPUMAP_DTYPE_F32,
				    .n = FLOATS };
}

/* Three to five: neither row gets what the other does. */
static inline struct gpumap_scatter_opts spread(void)
{
	static const uint32_t rows[] = { 1, 0 };
	static const double weights[] = { 3, 5 };

	return (struct gpumap_scatter_opts){
		.size = sizeof(struct gpumap_scatter_opts),
		.rows = rows,
		.weights = weights,
		.n_rows = ROWS,
	};
}

#endif
