/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * kernel_agent - an agent with stand-in cards and a directory of programs, and
 * jobs that run device code there.
 */
#ifndef GM_TEST_SUPPORT_KERNEL_AGENT_H
#define GM_TEST_SUPPORT_KERNEL_AGENT_H

#include "tests/support/cuda_agent.h"
#include "tests/support/program_agent.h"
#include "tests/support/program_kernels.h"

#define ITEMS  1000u
#define NO_ROW UINT32_MAX

static struct cuda_scene scene;
static uint32_t card, other_card, host;

static const char all[] = KERNEL_ALL;

static inline uint32_t row_of(uint32_t kind, uint32_t from)
{
	for (uint32_t row = from; row < gpumap_device_count(map); row++)
		if (story_device(map, row).kind == kind)
			return row;
	return NO_ROW;
}

static inline bool begin(const char *cuda, const char *programs)
{
	char more[512];

	snprintf(more, sizeof(more),
		 "[host]\nenabled = yes\nrows = 1\n[socket]\nmode = 0666\n"
		 "[programs]\ndirectory = %s\n%s",
		 folder, programs);
	cuda_scene_agent(&scene, &agent, cuda, more);
	if (!OK(agent_start(&agent)) || !OK((map = story_attach(&agent))))
		return false;
	card = row_of(GPUMAP_DEVICE_CUDA, 0);
	other_card = row_of(GPUMAP_DEVICE_CUDA, card + 1);
	host = row_of(GPUMAP_DEVICE_HOST, 0);
	return OK(card != NO_ROW && other_card != NO_ROW && host != NO_ROW);
}

static inline void put_bytes(const char *file, const void *bytes, size_t n)
{
	char path[256];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", folder, file);
	unlink(path);
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0755);
	if (fd < 0 || write(fd, bytes, n) != (ssize_t)n)
		exit(99);
	fchmod(fd, 0755);
	close(fd);
}

static inline int bring(struct gpumap_session *session, uint32_t row,
			const char *kernel, uint64_t *ret_program)
{
	const struct gpumap_program_image image = { .size = sizeof(image),
						    .image = all,
						    .bytes = sizeof(all) - 1,
						    .kernel = kernel };
	int ret = gpumap_program_load_image(session, row, &image, ret_program);

	if (ret != 0)
		NOTE("%s: %d: %s", kernel ? kernel : "all of it", ret,
		     gpumap_refusal(map));
	return ret;
}

/* src, dst, and where parameters are. */
static inline float *some_memory(struct gpumap_session *session, uint32_t row)
{
	void *memory = NULL;
	float *at;

	if (gpumap_alloc(session, row, 64 << 10, &memory) != 0)
		exit(99);
	at = memory;
	for (uint32_t i = 0; i < ITEMS; i++)
		at[i] = (float)i;
	memset(at + ITEMS, 0, sizeof(*at) * ITEMS);
	at[3 * ITEMS] = 3;
	return at;
}

static inline struct gpumap_job square_job(uint64_t program, float *memory)
{
	return (struct gpumap_job){ .op = GPUMAP_OP_RUN,
				    .dtype = GPUMAP_DTYPE_F32,
				    .src = memory,
				    .dst = memory + ITEMS,
				    .src_item_bytes = 4,
				    .dst_item_bytes = 4,
				    .n = ITEMS,
				    .program = program,
				    .params = memory + 3 * ITEMS,
				    .params_bytes = 4 };
}

/* One that has neither src nor parameters. */
static inline struct gpumap_job plain_job(uint64_t program, float *memory)
{
	return (struct gpumap_job){ .op = GPUMAP_OP_RUN,
				    .dtype = GPUMAP_DTYPE_U32,
				    .dst = memory + 2 * ITEMS,
				    .dst_item_bytes = 8,
				    .n = ITEMS / 2,
				    .program = program };
}

static inline bool squared(const float *memory, float scale)
{
	for (uint32_t i = 0; i < ITEMS; i++)
		if (memory[ITEMS + i] != scale * (float)i * (float)i)
			return false;
	return true;
}

#endif
