/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * The backend of CUDA rows with memory of another card: imported, copied from,
 * and tried over links that are sound and over some that are not.
 */

#include "tests/support/gpu_bench.h"
#include "tests/support/fake_machine.h"

#define BYTES (UINT64_C(3) << 20)

static const struct gm_backend *const cuda = &gm_cuda_backend;

struct pair {
	struct fake_hardware hw;
	struct gm_backend_device *dev[2];
	struct gm_buffer *theirs; /* of the first */
	int fd;                   /* that stands for it */
	unsigned char *want;
};

static int pair_open(struct pair *p)
{
	char text[FAKE_UUID_TEXT];
	struct gm_device_config config = { .uuid = text };

	WANT(fake_hardware_open(getenv("GPUMAP_FAKE_HARDWARE"), &p->hw) == 0);
	for (uint32_t i = 0; i < 2; i++) {
		fake_uuid_print(&p->hw.board->gpus[i], text);
		WANT(cuda->open(&config, &p->dev[i]) == 0);
	}
	p->want = malloc(BYTES);
	WANT(p->want);
	for (uint64_t i = 0; i < BYTES; i++)
		p->want[i] = (unsigned char)(i * 131 >> 7);
	WANT(cuda->alloc(p->dev[0], 1, BYTES, GPUMAP_BUFFER_EXPORTABLE,
			 &p->theirs) == 0);
	WANT(gm_device_store(p->dev[0], p->theirs->address, p->want, BYTES) ==
	     0);
	p->fd = cuda->export_fd(p->dev[0], p->theirs);
	WANT(p->fd >= 0);
	return 0;
}

static int pair_close(struct pair *p)
{
	close(p->fd);
	cuda->free(p->dev[0], p->theirs);
	for (uint32_t i = 0; i < 2; i++)
		cuda->close(p->dev[i]);
	fake_hardware_leave(&p->hw);
	free(p->want);
	return 0;
}

/* All of it or the beginning, and nothing of what is no memory. */
static int another_cards_is_copied(void)
{
	struct gm_buffer *ours;
	unsigned char *got = malloc(BYTES);
	struct pair p;

	WANT(pair_open(&p) == 0 && got);
	WANT(cuda->alloc(p.dev[1], 1, BYTES, 0, &ours) == 0);
	WANT(cuda->copy_peer(p.dev[1], ours->address, p.fd, BYTES - 5) == 0);
	WANT(gm_device_fetch(p.dev[1], ours->address, got, BYTES) == 0);
	WANT(memcmp(got, p.want, BYTES - 5) == 0);
	WANT(cuda->copy_peer(p.dev[1], ours->address, p.fd, BYTES) == 0);
	WANT(gm_device_fetch(p.dev[1], ours->address, got, BYTES) == 0);
	WANT(memcmp(got, p.want, BYTES) == 0);
	WANT(cuda->copy_peer(p.dev[1], ours->address, 0, BYTES) == -EINVAL);
	WANT(cuda->copy_peer(p.dev[1], ours->address, p.fd,
			     BYTES + (4 << 20)) == -EINVAL);
	cuda->free(p.dev[1], ours);
	free(got);
	return pair_close(&p);
}

/* Any part of it, from any byte to any. */
static int memory_comes_and_goes(void)
{
	struct gm_buffer *plain;
	unsigned char got[100];
	struct pair p;

	WANT(pair_open(&p) == 0);
	WANT(cuda->alloc(p.dev[0], 1, 4096, 0, &plain) == 0);
	WANT(gm_device_store(p.dev[0], plain->address + 33, p.want + 5, 100) ==
	     0);
	memset(got, 0, sizeof(got));
	WANT(gm_device_fetch(p.dev[0], plain->address + 43, got, 90) == 0);
	WANT(memcmp(got, p.want + 15, 90) == 0 && got[90] == 0);
	WANT(gm_device_fetch(p.dev[0], p.theirs->address + BYTES - 7, got, 7) ==
	     0);
	WANT(memcmp(got, p.want + BYTES - 7, 7) == 0);
	cuda->free(p.dev[0], plain);
	return pair_close(&p);
}

/* Several at once, as far apart there and here as one likes; and the first word
 * that one cannot be had is the last. */
static int pieces_come_and_go(void)
{
	struct gm_buffer *plain;
	unsigned char got[700];
	struct gm_strides in = { .bytes = 100, .n = 5, .step = 120 };
	struct gm_strides out = { .at = (char *)got, .bytes = 90, .n = 5 };
	uint32_t bad = 0;
	struct pair p;

	WANT(pair_open(&p) == 0);
	WANT(cuda->alloc(p.dev[0], 1, 4096, 0, &plain) == 0);
	in.address = plain->address + 33;
	in.address_step = 200;
	in.at = (char *)p.want;
	WANT(cuda->store(p.dev[0], &in) == 0);
	memset(got, 7, sizeof(got));
	out.address = plain->address + 43;
	out.address_step = 200;
	out.step = 130;
	WANT(cuda->fetch(p.dev[0], &out) == 0);
	for (uint32_t i = 0; i < 5; i++)
		for (uint32_t k = 0; k < 130; k++)
			bad += got[i * 130 + k] !=
			       (k < 90 ? p.want[i * 120 + 10 + k] : 7);
	WANT(bad == 0);
	out.address_step = BYTES << 10; /* but the first there is nothing */
	memset(got, 7, sizeof(got));
	WANT(cuda->fetch(p.dev[0], &out) < 0);
	WANT(memcmp(got, p.want + 10, 90) == 0 && got[130] == 7);
	out.address_step = 200;
	WANT(cuda->fetch(p.dev[0], &out) == 0);
	cuda->free(p.dev[0], plain);
	return pair_close(&p);
}

static int tasks_read_another_cards(void)
{
	struct gm_task task = { .op = GPUMAP_OP_COPY,
				.dtype = GPUMAP_DTYPE_U8,
				.n = BYTES };
	struct gm_buffer *here, *ours;
	struct gm_async_exec flight;
	unsigned char *got = malloc(BYTES);
	struct pair p;
	int rc = 0;

	WANT(pair_open(&p) == 0 && got);
	WANT(cuda->import_peer(p.dev[1], p.fd, BYTES, &here) == 0);
	WANT(here->imported && here->charged == 0 && here->bytes == BYTES);
	WANT(cuda->alloc(p.dev[1], 1, BYTES, 0, &ours) == 0);
	task.dst_address = ours->address;
	task.src_address = here->address;
	WANT(cuda->start(p.dev[1], &task, 0, BYTES, NULL, &flight) == 0);
	while (rc == 0)
		rc = cuda->ended(p.dev[1], &flight);
	WANT(rc == 1);
	WANT(gm_device_fetch(p.dev[1], ours->address, got, BYTES) == 0);
	WANT(memcmp(got, p.want, BYTES) == 0);
	cuda->free(p.dev[1], ours);
	/* More than it has, and what is no memory. */
	WANT(cuda->import_peer(p.dev[1], p.fd, BYTES + (4 << 20), &ours) ==
	     -EINVAL);
	WANT(cuda->import_peer(p.dev[1], 0, BYTES, &ours) == -EINVAL);
	cuda->free(p.dev[1], here);
	free(got);
	return pair_close(&p);
}

static int try_it(int want)
{
	struct gm_device_memory before, after;
	struct pair p;

	WANT(pair_open(&p) == 0);
	WANT(cuda->memory(p.dev[1], &before) == 0);
	WANT(cuda->try_peer(p.dev[1], p.fd, p.want, BYTES) == want);
	/* And the other way to look at it: it is not what is wanted. */
	p.want[BYTES - 1] ^= 1;
	WANT(cuda->try_peer(p.dev[1], p.fd, p.want, BYTES) == -EIO);
	WANT(cuda->memory(p.dev[1], &after) == 0);
	WANT(after.free == before.free);
	return pair_close(&p);
}

static int a_sound_link(void)
{
	return try_it(0);
}

static int a_link_that_lies(void)
{
	return try_it(-EIO);
}

static const struct scene_part parts[] = {
	{ "memory_comes_and_goes", NULL, memory_comes_and_goes },
	{ "pieces_come_and_go", NULL, pieces_come_and_go },
	{ "tasks_read_another_cards", NULL, tasks_read_another_cards },
	{ "another_cards_is_copied", NULL, another_cards_is_copied },
	{ "a_sound_link", NULL, a_sound_link },
	{ "a_link_that_lies", "row 1: peer copies corrupt", a_link_that_lies },
};

TAP_CASE_ARGS(argc, argv)
{
	return scene_main(argc, argv, NULL, parts,
			  sizeof(parts) / sizeof(parts[0]));
}
