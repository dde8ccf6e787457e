/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* decode: entries that name buffers, of the row's own, registered, another
 * row's and files. */

#include <errno.h>
#include <stdlib.h>

#include "gpumap.h"
#include "tests/support/worker/decode_arena.h"
#include "tests/support/tap.h"

#define ROW   6u
#define BYTES 1000u

static char *const mapped = (char *)(uintptr_t)0x900000;

/* One of each kind: the device's alone, mapped here too, and to be read
 * only. */
static uint64_t handle_of(uint32_t index)
{
	return gm_handle_make(
		40 + index, index < 2 ? GM_BUFFER_DEVICE : GM_BUFFER_REGISTERED,
		index < 2 ? ROW : 0, index);
}

static struct gm_buffer_table make_buffers(void)
{
	static struct gm_buffer memory = { .address = 0x500000,
					   .bytes = BYTES };
	struct gm_buffer_table b;

	gm_buffers_init(&b);
	for (uint32_t i = 0; i < 3; i++) {
		struct gm_buffer_entry *slot = NULL;

		EQ(gm_buffers_add(&b, handle_of(i), &slot), 0);
		EQ(gm_buffers_add(&b, handle_of(i), &slot), -EEXIST);
		slot->bytes = BYTES;
		slot->ready = true;
		slot->address = 0x500000 + i * 0x10000;
		slot->at = i ? mapped + i * 0x10000 : NULL;
		slot->buffer = i < 2 ? &memory : NULL;
		slot->flags = i == 2 ? GPUMAP_BUFFER_READ_ONLY : 0;
	}
	return b;
}

static void drop_buffers(struct gm_buffer_table *b)
{
	struct gm_slots all;
	struct gm_buffer_entry *slot;

	gm_buffers_take_all(b, &all);
	while ((slot = STAILQ_FIRST(&all)) != NULL) {
		STAILQ_REMOVE_HEAD(&all, entry);
		free(slot);
	}
}

static int check_with(const struct gm_buffer_table *buffers, struct gm_entry *e,
		      struct gm_decoded_entry *v)
{
	struct gm_decoder with = decoder;
	uint64_t words[GM_ENTRY_WORDS];

	with.buffers = buffers;
	with.row = ROW;
	gm_entry_pack(e, words);
	return gm_decode_entry(&with, words, NULL, v);
}

static const struct {
	const char *what;
	uint64_t dst_buffer, dst, src_buffer, src, n;
	int want;
} named[] = {
#define OF_FILE   (UINT64_C(50) << 32 | (uint64_t)GM_BUFFER_FILE << 30 | 9)
#define DEVICE    (UINT64_C(40) << 32 | ROW << 22)
#define MAPPED    (UINT64_C(41) << 32 | ROW << 22 | 1)
#define READ_ONLY (UINT64_C(42) << 32 | UINT64_C(1) << 30 | 2)
	{ "into the arena", 0, 0, DEVICE, 0, BYTES, 0 },
	{ "out of it", DEVICE, 0, 0, 0, BYTES, 0 },
	{ "across", DEVICE, 0, MAPPED, 0, BYTES, 0 },
	{ "a byte too many", DEVICE, 1, MAPPED, 0, BYTES, -ERANGE },
	{ "of the source", DEVICE, 0, MAPPED, 1, BYTES, -ERANGE },
	{ "an end that wraps", DEVICE, UINT64_MAX, 0, 0, 2, -ERANGE },
	{ "inside of one", DEVICE, 0, DEVICE, 500, 500, 0 },
	{ "over itself", DEVICE, 0, DEVICE, 499, 500, -EINVAL },
	{ "inside of a mapped one", MAPPED, 0, MAPPED, 500, 500, 0 },
	{ "over itself, mapped", MAPPED, 1, MAPPED, 0, 500, -EINVAL },
	{ "of what may be read", DEVICE, 0, READ_ONLY, 0, BYTES, 0 },
	{ "into it", READ_ONLY, 0, DEVICE, 0, 1, -EACCES },
	{ "the generation before", 0, 0, DEVICE - (UINT64_C(1) << 32), 0, 1,
	  -ESTALE },
	{ "another kind", 0, 0, DEVICE | UINT64_C(1) << 30, 0, 1, -ESTALE },
	{ "another index", 0, 0, DEVICE + 5, 0, 1, -ESTALE },
	{ "an index that is none", 0, 0, DEVICE + GM_BUFFERS_MAX, 0, 1,
	  -ESTALE },
	{ "another row's", 0, 0, DEVICE + (1 << 22), 0, 1, -ESTALE },
	{ "into another row's", DEVICE + (1 << 22), 0, 0, 0, 1, -ESTALE },
	{ "all bits", UINT64_MAX, 0, 0, 0, 1, -ESTALE },
};

static void buffers_are_checked_by_their_handles(void)
{
	struct gm_buffer_table b = make_buffers();
	struct gm_decoded_entry v;

	EQ(handle_of(0), DEVICE);
	EQ(handle_of(1), MAPPED);
	EQ(handle_of(2), READ_ONLY);
	for (size_t i = 0; i < sizeof(named) / sizeof(named[0]); i++) {
		struct gm_entry e =
			entry_of(GPUMAP_OP_COPY, GPUMAP_DTYPE_U8, named[i].dst,
				 named[i].src, named[i].n);

		e.dst_buffer = named[i].dst_buffer;
		e.src_buffer = named[i].src_buffer;
		tap_equal(check_with(&b, &e, &v), named[i].want, named[i].what,
			  __FILE__, __LINE__);
		if (named[i].want == 0)
			continue;
		/* Without a table nothing is anything. */
		if (named[i].want == -ESTALE)
			EQ(check_with(NULL, &e, &v), -ESTALE);
	}
	drop_buffers(&b);
}

/* Another row's, as they come to be known here: one is imported, the other
 * borrowed. */
static void add_another_rows(struct gm_buffer_table *b, uint64_t handle,
			     bool borrowed)
{
	struct gm_buffer_entry *slot = NULL;

	EQ(gm_buffers_add(b, handle, &slot), 0);
	slot->bytes = BYTES;
	slot->flags = GPUMAP_BUFFER_READ_ONLY;
	slot->address = borrowed ? 0 : 0x700000;
	slot->borrowed = borrowed;
	slot->ready = true;
}

static void another_rows_memory_is_copied_from_only(void)
{
	const uint64_t imported = gm_handle_make(50, GM_BUFFER_DEVICE, 7, 7);
	const uint64_t borrowed = gm_handle_make(51, GM_BUFFER_DEVICE, 8, 8);
	struct gm_buffer_table b = make_buffers();
	struct gm_decoded_entry v;
	struct gm_entry e =
		entry_of(GPUMAP_OP_COPY, GPUMAP_DTYPE_F32, 8, 16, 10);

	add_another_rows(&b, imported, false);
	add_another_rows(&b, borrowed, true);
	e.dst_buffer = DEVICE;
	e.src_buffer = imported;
	EQ(check_with(&b, &e, &v), 0);
	EQ(v.buffer, 0);
	EQ(v.bytes, 40);
	EQ(v.task.src_address, 0x700000 + 16);
	e.src_buffer = borrowed;
	EQ(check_with(&b, &e, &v), 0);
	EQ(v.buffer, borrowed);
	EQ(v.at, 16);
	EQ(v.bytes, 0); /* no turn runs it */
	EQ(v.task.n, 10);
	EQ(v.task.dst_address, 0x500000 + 8);
	e.n = 0;
	EQ(check_with(&b, &e, &v), 0);
	EQ(v.buffer, 0); /* nothing to be done */
	e.n = 10;
	e.src = BYTES - 36;
	EQ(check_with(&b, &e, &v), -ERANGE);
	e.src = 18;
	EQ(check_with(&b, &e, &v), -EINVAL);
	e.src = 16;
	e.op = GPUMAP_OP_AXPY;
	EQ(check_with(&b, &e, &v), -EOPNOTSUPP);
	e.src_buffer = imported;
	EQ(check_with(&b, &e, &v), -EOPNOTSUPP);
	e.op = GPUMAP_OP_COPY;
	e.dst_buffer = imported;
	e.src_buffer = DEVICE;
	EQ(check_with(&b, &e, &v), -EACCES);
	e.dst_buffer = borrowed;
	EQ(check_with(&b, &e, &v), -EACCES);
	/* This row may not free it. */
	e = entry_of(GPUMAP_OP_FREE, GPUMAP_DTYPE_U8, 0, 0, 0);
	e.dst_buffer = borrowed;
	EQ(check_with(&b, &e, &v), -EINVAL);
	drop_buffers(&b);
}

/* The third operand is in the second slot, and is checked as the others are. */
static void masks_are_this_rows(void)
{
	const uint64_t imported = gm_handle_make(50, GM_BUFFER_DEVICE, 7, 7);
	const uint64_t borrowed = gm_handle_make(51, GM_BUFFER_DEVICE, 8, 8);
	const struct {
		uint64_t third_buffer, third;
		int want;
	} tries[] = {
		{ DEVICE, 16, 0 },
		{ MAPPED, 16, 0 },
		{ READ_ONLY, 16, 0 },
		{ DEVICE, BYTES - 12, -ERANGE },
		{ DEVICE, 18, -EINVAL },
		{ DEVICE + 1, 16, -ESTALE },
		{ imported, 16, -EOPNOTSUPP },
		{ borrowed, 16, -EOPNOTSUPP },
	};
	struct gm_entry e =
		entry_of(GPUMAP_OP_MASK_ADD, GPUMAP_DTYPE_F32, 8, 512, 10);
	struct gm_buffer_table b = make_buffers();
	struct gm_decoder with = decoder;
	struct gm_decoded_entry v;

	add_another_rows(&b, imported, false);
	add_another_rows(&b, borrowed, true);
	with.buffers = &b;
	with.row = ROW;
	e.flags = GM_ENTRY_MORE;
	e.value = 4;
	for (uint32_t i = 0; i < sizeof(tries) / sizeof(tries[0]); i++) {
		struct gm_more more = { .op = GM_OP_MORE,
					.third = tries[i].third,
					.third_buffer = tries[i].third_buffer };
		uint64_t words[GM_ENTRY_WORDS], second[GM_ENTRY_WORDS];

		gm_entry_pack(&e, words);
		gm_more_pack(&more, second);
		if (!EQ(gm_decode_entry(&with, words, second, &v),
			tries[i].want))
			NOTE("tries[%u]", i);
		if (tries[i].want == 0)
			EQ(v.task.mask_address,
			   0x500000 + i * 0x10000 + tries[i].third);
	}
	drop_buffers(&b);
}

static const struct {
	const char *what;
	uint64_t dst_buffer, dst, src_buffer, src, n;
	int want;
} loads[] = {
	{ "a load", 0, 1, OF_FILE, 7, 100, 0 },
	{ "a load to a buffer", DEVICE, BYTES - 1, OF_FILE, 0, 1, 0 },
	{ "the last byte", 0, 0, OF_FILE, GM_FILE_BYTES - 1, 1, 0 },
	{ "one more", 0, 0, OF_FILE, GM_FILE_BYTES - 1, 2, -ERANGE },
	{ "an offset that wraps", 0, 0, OF_FILE, UINT64_MAX, 2, -ERANGE },
	{ "bytes that wrap", 0, 0, OF_FILE, 1, UINT64_MAX, -ERANGE },
	{ "out of the arena", 0, 1, OF_FILE, 0, ARENA, -ERANGE },
	{ "out of a buffer", MAPPED, 1, OF_FILE, 0, BYTES, -ERANGE },
	{ "to what is not written", READ_ONLY, 0, OF_FILE, 0, 1, -EACCES },
	{ "from memory", 0, 0, MAPPED, 0, 1, -EINVAL },
	{ "from the arena", 0, 0, 0, 0, 1, -ESTALE },
	{ "to a file", OF_FILE, 0, OF_FILE, 0, 1, -EINVAL },
	{ "from what is gone", 0, 0, OF_FILE ^ 1, 0, 1, -ESTALE },
};

static void only_files_are_loaded(void)
{
	struct gm_buffer_table b = make_buffers();
	struct gm_buffer_entry *slot = NULL;
	struct gm_decoded_entry v;
	struct gm_entry e;

	EQ(gm_buffers_add(&b, OF_FILE, &slot), 0);
	slot->fd = 0;
	e = entry_of(GPUMAP_OP_LOAD, GPUMAP_DTYPE_U8, 0, 0, 1);
	e.src_buffer = OF_FILE;
	EQ(check_with(&b, &e, &v), -ESTALE); /* not yet */
	slot->ready = true;
	for (size_t i = 0; i < sizeof(loads) / sizeof(loads[0]); i++) {
		e = entry_of(GPUMAP_OP_LOAD, GPUMAP_DTYPE_U8, loads[i].dst,
			     loads[i].src, loads[i].n);
		e.dst_buffer = loads[i].dst_buffer;
		e.src_buffer = loads[i].src_buffer;
		tap_equal(check_with(&b, &e, &v), loads[i].want, loads[i].what,
			  __FILE__, __LINE__);
		EQ(v.bytes, 0); /* no turn runs it */
		if (loads[i].want)
			continue;
		EQ(v.buffer, OF_FILE);
		EQ(v.at, loads[i].src);
		EQ(v.task.n, loads[i].n);
		OK(v.task.dst || v.task.dst_address);
	}
	e = entry_of(GPUMAP_OP_LOAD, GPUMAP_DTYPE_U8, 0, 0, 0);
	e.src_buffer = OF_FILE;
	EQ(check_with(&b, &e, &v), 0);
	EQ(v.buffer, 0); /* nothing to be done */
	e = entry_of(GPUMAP_OP_LOAD, GPUMAP_DTYPE_F32, 0, 0, 1);
	e.src_buffer = OF_FILE;
	EQ(check_with(&b, &e, &v), -EINVAL);
	e = entry_of(GPUMAP_OP_COPY, GPUMAP_DTYPE_U8, 0, 0, 1);
	e.src_buffer = OF_FILE;
	EQ(check_with(&b, &e, &v), -EINVAL);
	drop_buffers(&b);
}

static void a_task_names_both_sides_of_memory(void)
{
	static struct gm_region region = { .bytes = 1024, .address = 0x70000 };
	struct gm_region *reached[4] = { NULL, &region };
	struct gm_buffer_table b = make_buffers();
	struct gm_decoder with = decoder;
	struct gm_entry e =
		entry_of(GPUMAP_OP_COPY, GPUMAP_DTYPE_U8, 16, 1024 + 8, 100);
	uint64_t words[GM_ENTRY_WORDS];
	struct gm_decoded_entry v;

	with.buffers = &b;
	with.row = ROW;
	with.reached = reached;
	with.reached_each = 1024;
	e.dst_buffer = DEVICE;
	gm_entry_pack(&e, words);
	EQ(gm_decode_entry(&with, words, NULL, &v), 0);
	OK(v.task.dst == NULL);
	EQ(v.task.dst_address, 0x500000 + 16);
	OK(v.task.src == decoder.arena + 1024 + 8);
	EQ(v.task.src_address, 0x70000 + 8);
	/* Over the border of what is reached. */
	e.src = 1024 - 8;
	e.dst_buffer = MAPPED;
	gm_entry_pack(&e, words);
	EQ(gm_decode_entry(&with, words, NULL, &v), 0);
	EQ(v.task.src_address, 0);
	OK(v.task.dst == mapped + 0x10000 + 16);
	EQ(v.task.dst_address, 0x510000 + 16);
	drop_buffers(&b);
}

static void allocations_are_checked(void)
{
	struct gm_buffer_table b = make_buffers();
	uint64_t fresh = gm_handle_make(9, GM_BUFFER_DEVICE, ROW, 9);
	struct gm_entry e =
		entry_of(GPUMAP_OP_ALLOC, GPUMAP_DTYPE_U8, 0, 0, 77);
	struct gm_decoded_entry v;

	e.dst_buffer = fresh;
	e.value = GPUMAP_BUFFER_EXPORTABLE;
	EQ(check_with(&b, &e, &v), 0);
	EQ(v.bytes, 0);
	EQ(v.buffer, fresh);
	EQ(v.task.n, 77);
	EQ(v.flags, GPUMAP_BUFFER_EXPORTABLE);
	e.value = GPUMAP_BUFFER_READ_ONLY;
	EQ(check_with(&b, &e, &v), -EINVAL);
	e.value = UINT64_C(1) << 40;
	EQ(check_with(&b, &e, &v), -EINVAL);
	e.value = 0;
	e.dtype = GPUMAP_DTYPE_F32;
	EQ(check_with(&b, &e, &v), -EINVAL);
	e.dtype = GPUMAP_DTYPE_U8;
	e.n = UINT64_MAX;
	EQ(check_with(&b, &e, &v), -ENOMEM);
	e.op = GPUMAP_OP_FREE;
	EQ(check_with(&b, &e, &v), -ESTALE);
	e.dst_buffer = DEVICE;
	EQ(check_with(&b, &e, &v), 0);
	EQ(v.buffer, DEVICE);
	e.dst_buffer = READ_ONLY; /* the agent's to take back */
	EQ(check_with(&b, &e, &v), -EINVAL);
	drop_buffers(&b);
}

TAP_CASE()
{
	buffers_are_checked_by_their_handles();
	another_rows_memory_is_copied_from_only();
	masks_are_this_rows();
	a_task_names_both_sides_of_memory();
	only_files_are_loaded();
	allocations_are_checked();
	return tap_done();
}
