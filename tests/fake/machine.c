/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "tests/fake/machine.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/files/nodefile.h"
#include "tests/support/fnv.h"

/* The same name, the same UUID. */
static void set_uuid(struct fake_gpu *gpu, const char *node, uint32_t i)
{
	uint64_t half[2];

	half[0] = fnv(node, strlen(node));
	half[0] = fnv_more(half[0], &i, sizeof(i));
	half[1] = fnv_more(half[0], gpu->name, strlen(gpu->name));
	memcpy(gpu->uuid, half, sizeof(half));
	gpu->uuid[6] = (gpu->uuid[6] & 0x0f) | 0x40; /* version 4 */
	gpu->uuid[8] = (gpu->uuid[8] & 0x3f) | 0x80; /* variant 1 */
}

/* A card's or an instance's facts in the table. */
static void set_gpu(struct fake_gpu *gpu, const struct gm_nodefile_row *row,
		    const char *node, uint32_t i)
{
	*gpu = (struct fake_gpu){
		.numa_node = row->numa_node,
		.cc_major = row->cc_major,
		.cc_minor = row->cc_minor,
		.sms = row->units ? row->units : 1,
		.threads_per_sm =
			row->threads_per_unit ? row->threads_per_unit : 1536,
		.is_integrated = row->is_integrated,
		.has_ecc = !row->is_integrated && !strstr(row->name, "GeForce"),
		.is_split = row->is_split,
		.parent = i,
		.total = row->total_bytes,
		.reserved = row->total_bytes - row->free_bytes,
	};
	snprintf(gpu->name, sizeof(gpu->name), "%s", row->name);
	snprintf(gpu->profile, sizeof(gpu->profile), "%s", row->mig);
	set_uuid(gpu, node, i);
}

/* Where card @k of @n is, for those who count cards. */
static void place_card(struct fake_gpu *gpu, uint32_t k, uint32_t n)
{
	uint32_t place = (k + 1) % n;

	gpu->domain = n > 2 && place >= n / 2;
	gpu->bus = 0x17 + 7 * place;
	gpu->minor = n - 1 - place;
	gpu->nvml_index = n - 1 - k;
}

/* Instance @k of its card.  A driver's numbers of them have gaps. */
static void place_part(struct fake_gpu *part, const struct fake_gpu *card,
		       uint32_t k)
{
	part->parent = card->parent;
	part->domain = card->domain;
	part->bus = card->bus;
	part->minor = card->minor;
	part->nvml_index = card->nvml_index;
	part->has_ecc = card->has_ecc;
	part->gi = 2 * k + 1;
	part->mig_index = k;
}

/* The CPUs of the card's node; of all nodes where it is near to none. */
static void set_cpus(struct fake_gpu *gpu, const struct gm_nodefile *node)
{
	uint32_t n_all = 0;

	for (uint32_t row = 0; row < node->n_rows; row++) {
		const struct gm_nodefile_row *host = &node->rows[row];

		if (host->kind != GPUMAP_DEVICE_HOST)
			continue;
		if (host->numa_node >= 0 && host->numa_node == gpu->numa_node) {
			gpu->first_cpu = n_all;
			gpu->n_cpus = host->units;
			return;
		}
		n_all += host->units;
	}
	gpu->n_cpus = n_all;
}

/* Returns how many there are, or -E2BIG. */
static int take_gpus(const struct gm_nodefile *node,
		     struct fake_gpu gpus[FAKE_GPUS])
{
	uint32_t n = 0, n_cards = 0, n_parts = 0, k = 0;

	for (uint32_t row = 0; row < node->n_rows; row++) {
		if (node->rows[row].kind != GPUMAP_DEVICE_CUDA)
			continue;
		if (n == FAKE_GPUS)
			return -E2BIG;
		n_cards += node->rows[row].mig[0] == '\0';
		set_gpu(&gpus[n], &node->rows[row], node->name, n);
		set_cpus(&gpus[n++], node);
	}
	for (uint32_t i = 0, card = 0; i < n; i++) {
		if (fake_is_part(&gpus[i])) {
			place_part(&gpus[i], &gpus[card], n_parts++);
			continue;
		}
		card = i;
		n_parts = 0;
		place_card(&gpus[i], k++, n_cards);
	}
	return (int)n;
}

static int read_gpus(const char *path, struct fake_gpu gpus[FAKE_GPUS],
		     uint32_t *ret_n)
{
	static struct gm_plan_error err;
	struct gm_nodefile node;
	int r = gm_nodefile_read(path, &node, &err);

	if (r) {
		fprintf(stderr, "stand-in: %s\n", err.text);
		return r;
	}
	r = take_gpus(&node, gpus);
	gm_nodefile_free(&node);
	if (r < 0) {
		fprintf(stderr, "stand-in: %s: more than %d cards\n", path,
			FAKE_GPUS);
		return r;
	}
	*ret_n = (uint32_t)r;
	return 0;
}

static int make_node(const char *path)
{
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);

	if (fd < 0) {
		fprintf(stderr, "stand-in: %s: %m\n", path);
		return -errno;
	}
	close(fd);
	return 0;
}

static int make_nodes(const char *dev, const struct fake_gpu *gpus, uint32_t n)
{
	char path[FAKE_NODE_BYTES];
	int r = 0;

	for (uint32_t i = 0; i < n && !r; i++) {
		snprintf(path, sizeof(path), "%s/nvidia-caps", dev);
		if (gpus[i].is_split && mkdir(path, 0777) && errno != EEXIST)
			return -errno;
		for (int k = 0; k < FAKE_NODES && !r; k++)
			if (fake_node(dev, &gpus[i], k, path))
				r = make_node(path);
	}
	return r;
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
