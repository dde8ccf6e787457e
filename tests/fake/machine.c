/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "tests/fake/machine.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "agent/plan/nodefile.h"

/* FNV-1a: the same name, the same UUID. */
static uint64_t hash(uint64_t from, const void *data, size_t n)
{
	const uint8_t *at = data;

	while (n--)
		from = (from ^ *at++) * UINT64_C(0x100000001b3);
	return from;
}

static void set_uuid(struct fake_gpu *gpu, const char *node, uint32_t i)
{
	uint64_t half[2];

	half[0] = hash(UINT64_C(0xcbf29ce484222325), node, strlen(node));
	half[0] = hash(half[0], &i, sizeof(i));
	half[1] = hash(half[0], gpu->name, strlen(gpu->name));
	memcpy(gpu->uuid, half, sizeof(half));
	gpu->uuid[6] = (gpu->uuid[6] & 0x0f) | 0x40; /* version 4 */
	gpu->uuid[8] = (gpu->uuid[8] & 0x3f) | 0x80; /* variant 1 */
}

static void set_gpu(struct fake_gpu *gpu, const struct gm_nodefile_row *row,
		    const char *node, uint32_t i, uint32_t n)
{
	uint32_t place = (i + 1) % n;

	*gpu = (struct fake_gpu){
		.domain = n > 2 && place >= n / 2,
		.bus = 0x17 + 7 * place,
		.minor = n - 1 - place,
		.nvml_index = n - 1 - i,
		.numa_node = row->numa_node,
		.cc_major = row->cc_major,
		.cc_minor = row->cc_minor,
		.sms = row->units ? row->units : 1,
		.threads_per_sm =
			row->threads_per_unit ? row->threads_per_unit : 1536,
		.is_integrated = row->is_integrated,
		.total = row->total_bytes,
		.reserved = row->total_bytes - row->free_bytes,
	};
	snprintf(gpu->name, sizeof(gpu->name), "%s", row->name);
	set_uuid(gpu, node, i);
}

static int read_gpus(const char *path, struct fake_gpu gpus[FAKE_GPUS],
		     uint32_t *ret_n)
{
	static struct gm_plan_error err;
	struct gm_nodefile node;
	uint32_t n = 0, i = 0;
	int r = gm_nodefile_read(path, &node, &err);

	if (r) {
		fprintf(stderr, "stand-in: %s\n", err.text);
		return r;
	}
	for (uint32_t row = 0; row < node.n_rows; row++)
		n += node.rows[row].kind == GPUMAP_DEVICE_CUDA;
	if (n > FAKE_GPUS) {
		fprintf(stderr, "stand-in: %s: more than %d cards\n", path,
			FAKE_GPUS);
		gm_nodefile_free(&node);
		return -E2BIG;
	}
	for (uint32_t row = 0; row < node.n_rows; row++)
		if (node.rows[row].kind == GPUMAP_DEVICE_CUDA) {
			set_gpu(&gpus[i], &node.rows[row], node.name, i, n);
			i++;
		}
	gm_nodefile_free(&node);
	*ret_n = n;
	return 0;
}

static int make_nodes(const char *dev, const struct fake_gpu *gpus, uint32_t n)
{
	char path[192];
	int fd;

	for (uint32_t i = 0; i < n; i++) {
		snprintf(path, sizeof(path), "%s/nvidia%u", dev, gpus[i].minor);
		fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
		if (fd < 0) {
			fprintf(stderr, "stand-in: %s: %m\n", path);
			return -errno;
		}
		close(fd);
	}
	return 0;
}

/* The rest of a machine that has its cards. */
static int equip(int fd, const char *plan, const char *dev)
{
	struct fake_hardware hw;
	const char *where;
	char path[64];
	int r;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	r = fake_hardware_open(path, &hw);
	if (r)
		return r;
	if (dev)
		snprintf(hw.board->dev, sizeof(hw.board->dev), "%s", dev);
	fake_lock(&hw);
	r = plan ? fake_plan_apply(&hw, plan, false, &where) : 0;
	fake_unlock(&hw);
	if (r)
		fprintf(stderr, "stand-in: no such fault: %s\n", where);
	fake_hardware_leave(&hw);
	return r;
}

int fake_machine_make(int fd, const char *node, const char *plan,
		      const char *dev)
{
	struct fake_gpu gpus[FAKE_GPUS];
	uint32_t n = 0;
	int r = read_gpus(node, gpus, &n);

	if (!r && dev)
		r = make_nodes(dev, gpus, n);
	if (!r)
		r = fake_hardware_make(fd, gpus, n);
	return r ? r : equip(fd, plan, dev);
}
