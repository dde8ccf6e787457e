/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* decode: jobs that run a program, as no honest library would write them. */

#include <errno.h>
#include <stdlib.h>

#include "agent/worker/programs/program.h"
#include "agent/worker/queue/decode.h"
#include "gpumap.h"
#include "shm/queue.h"
#include "tests/support/tap.h"

#define ARENA 65536u
#define NOW   5u
#define ROW   3u

static struct gm_buffer_table buffers;
static struct gm_decoder decoder = { .arena = (char *)(uintptr_t)0x100000,
				     .arena_bytes = ARENA,
				     .incarnation = NOW,
				     .row = ROW,
				     .buffers = &buffers };

/* Never looked into. */
static struct gm_program a_program;

static uint64_t put(uint32_t kind, uint32_t row, uint64_t bytes)
{
	static uint32_t n;
	uint64_t handle = gm_handle_make(n + 1, kind, row, n);
	struct gm_buffer_entry *slot = NULL;

	n++;
	if (gm_buffers_add(&buffers, handle, &slot) != 0)
		exit(99);
	slot->ready = true;
	slot->bytes = bytes;
	slot->at = bytes ? (char *)(uintptr_t)0x1000000 : NULL;
	if (kind == GM_BUFFER_PROGRAM)
		slot->program = &a_program;
	return handle;
}

/* 16 items of 8 bytes, to as many of 4, all in the arena. */
static struct gm_entry good(void)
{
	return (struct gm_entry){ .op = GPUMAP_OP_RUN,
				  .flags = GM_ENTRY_MORE,
				  .dtype = GPUMAP_DTYPE_F32,
				  .incarnation = NOW,
				  .dst = 4096,
				  .src = 8192,
				  .n = 16,
				  .value = 8 | UINT64_C(4) << 32 };
}

static uint64_t program;
static struct gm_decoded_entry v;

static int check_with(const struct gm_entry *entry, uint64_t params,
		      uint64_t handle)
{
	struct gm_more more = { .op = GM_OP_MORE,
				.third = params,
				.third_buffer = handle };
	uint64_t words[GM_ENTRY_WORDS], second[GM_ENTRY_WORDS];

	gm_entry_pack(entry, words);
	gm_more_pack(&more, second);
	return gm_decode_entry(&decoder, words, second, &v);
}

static int check_it(const struct gm_entry *entry)
{
	return check_with(entry, 0, program);
}

static void it_becomes_a_tile(void)
{
	struct gm_entry e = good();

	EQ(check_with(&e, gm_params_make(64, 32), program), 0);
	OK(v.program == &a_program);
	OK(v.task.dst == decoder.arena + 4096);
	OK(v.task.src == decoder.arena + 8192);
	OK(v.task.mask == decoder.arena + 64);
	EQ(v.task.mask_n, 32);
	EQ(v.task.n, 16);
	EQ(v.bytes, 0);
	e.n = 0;
	EQ(check_it(&e), 0);
	OK(v.program == NULL);
	e = good();
	e.value = 0; /* it neither reads nor writes */
	e.dst = e.src = UINT64_MAX;
	EQ(check_it(&e), 0);
	OK(v.task.dst == NULL && v.task.src == NULL);
}

static void programs_are_known_by_their_handle(void)
{
	struct gm_entry e = good();
	uint64_t memory = put(GM_BUFFER_DEVICE, ROW, 4096);

	EQ(check_with(&e, 0, 0), -ESTALE);
	EQ(check_with(&e, 0, program + (UINT64_C(1) << 32)), -ESTALE);
	EQ(check_with(&e, 0, memory), -EINVAL);
	e.flags = 0;
	EQ(check_it(&e), -EPROTO);
	e = good();
	e.to = GPUMAP_DTYPE_F32;
	EQ(check_it(&e), -EPROTO);
	e = good();
	e.dtype = 200;
	EQ(check_it(&e), -EINVAL);
}

static void memory_ends_where_it_ends(void)
{
	uint64_t memory = put(GM_BUFFER_DEVICE, ROW, 4096);
	uint64_t other = put(GM_BUFFER_DEVICE, ROW + 1, 4096);
	struct gm_entry e = good();

	e.dst = ARENA - 64;
	EQ(check_it(&e), 0);
	e.dst += 4;
	EQ(check_it(&e), -ERANGE);
	e = good();
	e.n = UINT64_MAX / 4; /* that wraps */
	EQ(check_it(&e), -ERANGE);
	e = good();
	e.src_buffer = memory;
	e.src = 4096 - 128;
	EQ(check_it(&e), 0);
	e.src += 4;
	EQ(check_it(&e), -ERANGE);
	e.src = 0;
	e.src_buffer = other;
	EQ(check_it(&e), -EOPNOTSUPP);
	e = good();
	e.dst_buffer = program;
	EQ(check_it(&e), -EINVAL);
	e = good();
	e.dst = 4098; /* between two elements */
	EQ(check_it(&e), -EINVAL);
	e = good();
	EQ(check_with(&e, gm_params_make(ARENA - 31, 32), program), -ERANGE);
	EQ(check_with(&e, gm_params_make(0, GM_PARAMS_MAX + 1), program),
	   -ERANGE);
	EQ(check_with(&e, gm_params_make(0, GM_PARAMS_MAX), program), 0);
}

static void both_are_the_same_or_apart(void)
{
	struct gm_entry e = good();

	e.src = e.dst;
	EQ(check_it(&e), 0);
	e.src = e.dst + 64;
	EQ(check_it(&e), 0);
	e.src = e.dst + 60;
	EQ(check_it(&e), -EINVAL);
	e.src = e.dst - 124;
	EQ(check_it(&e), -EINVAL);
	e.src = e.dst - 128;
	EQ(check_it(&e), 0);
}

/* Device code: a task like others, in whatever the device reaches. */
static void kernels_become_tasks(void)
{
	static struct gm_program with_kernel;
	uint64_t own = put(GM_BUFFER_PROGRAM, 0, 0);
	uint64_t memory = put(GM_BUFFER_DEVICE, ROW, 4096);
	struct gm_buffer_entry *slot = gm_buffers_find(&buffers, memory);
	struct gm_entry e = good();

	with_kernel.kernel = (struct gm_kernel *)&a_program;
	gm_buffers_find(&buffers, own)->program = &with_kernel;
	EQ(check_with(&e, gm_params_make(64, 32), own), 0);
	OK(v.program == NULL);
	OK(v.task.kernel == with_kernel.kernel);
	EQ(v.each, 8);
	EQ(v.bytes, 128);
	OK(v.task.mask == decoder.arena + 64);
	EQ(v.task.mask_n, 32);
	e.value = 0; /* it has no operand, and is work all the same */
	EQ(check_with(&e, 0, own), 0);
	EQ(v.bytes, 16);
	e.n = 0;
	EQ(check_with(&e, 0, own), 0);
	EQ(v.bytes, 0);

	/* The card's own memory is not mapped here. */
	slot->at = NULL;
	slot->address = 0x7000000;
	e = good();
	e.dst_buffer = e.src_buffer = memory;
	e.dst = 64;
	e.src = 256;
	EQ(check_with(&e, 0, own), 0);
	OK(v.task.dst == NULL && v.task.src == NULL);
	EQ(v.task.dst_address, 0x7000040);
	EQ(v.task.src_address, 0x7000100);
	e.src = 60;
	EQ(check_with(&e, 0, own), -EINVAL);
	e.src = 124;
	EQ(check_with(&e, 0, own), -EINVAL);
	e.src = e.dst;
	EQ(check_with(&e, 0, own), 0);
	EQ(check_with(&e, 0, program), -EOPNOTSUPP);
	e.value = UINT64_C(4) << 32; /* dst alone */
	EQ(check_with(&e, 0, program), -EOPNOTSUPP);
	e.value = 8;
	EQ(check_with(&e, 0, program), -EOPNOTSUPP);
	slot->borrowed = true;
	EQ(check_with(&e, 0, own), -EOPNOTSUPP);
}

TAP_CASE()
{
	gm_buffers_init(&buffers);
	program = put(GM_BUFFER_PROGRAM, 0, 0);
	it_becomes_a_tile();
	programs_are_known_by_their_handle();
	memory_ends_where_it_ends();
	both_are_the_same_or_apart();
	kernels_become_tasks();
	return tap_done();
}
