/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* decode: the result of each entry, every reserved bit, every edge of the
 * arena. */

#include <errno.h>

#include "gpumap.h"
#include "tests/support/worker/decode_arena.h"
#include "tests/support/tap.h"

static const struct {
	const char *what;
	uint8_t op, dtype;
	uint64_t dst, src, n;
	int want;
} table[] = {
#define U8  GPUMAP_DTYPE_U8
#define F32 GPUMAP_DTYPE_F32
#define I64 GPUMAP_DTYPE_I64
	{ "a no-op", GPUMAP_OP_NOP, U8, 0, 0, 0, 0 },
	{ "a no-op looks at no argument", GPUMAP_OP_NOP, F32, UINT64_MAX, 1,
	  UINT64_MAX, 0 },
	{ "a no-op of no dtype", GPUMAP_OP_NOP, 200, 0, 0, 0, -EINVAL },
	{ "the whole arena", GPUMAP_OP_FILL, U8, 0, 0, ARENA, 0 },
	{ "a byte more", GPUMAP_OP_FILL, U8, 0, 0, ARENA + 1, -ERANGE },
	{ "the last byte", GPUMAP_OP_FILL, U8, ARENA - 1, 0, 1, 0 },
	{ "the byte after it", GPUMAP_OP_FILL, U8, ARENA, 0, 1, -ERANGE },
	{ "nothing, at the end", GPUMAP_OP_FILL, U8, ARENA, 0, 0, 0 },
	{ "nothing, past it", GPUMAP_OP_FILL, U8, ARENA + 1, 0, 0, -ERANGE },
	{ "the last element", GPUMAP_OP_FILL, I64, ARENA - 8, 0, 1, 0 },
	{ "half of it", GPUMAP_OP_FILL, I64, ARENA - 4, 0, 1, -ERANGE },
	{ "not aligned", GPUMAP_OP_FILL, I64, 4, 0, 1, -EINVAL },
	{ "an end that wraps", GPUMAP_OP_FILL, U8, UINT64_MAX, 0, 2, -ERANGE },
	{ "a size that wraps", GPUMAP_OP_FILL, I64, 0, 0, UINT64_C(1) << 61,
	  -ERANGE },
	{ "a size that wraps to a little", GPUMAP_OP_FILL, I64, 0, 0,
	  (UINT64_C(1) << 61) + 1, -ERANGE },
	{ "a fill looks at no source", GPUMAP_OP_FILL, U8, 0, UINT64_MAX, 8,
	  0 },
	{ "a copy", GPUMAP_OP_COPY, U8, 0, 100, 100, 0 },
	{ "a source that reaches out", GPUMAP_OP_COPY, U8, 0, ARENA - 99, 100,
	  -ERANGE },
	{ "a source that is not aligned", GPUMAP_OP_COPY, F32, 0, 101, 5,
	  -EINVAL },
	{ "a copy onto itself", GPUMAP_OP_COPY, U8, 8, 8, 8, -EINVAL },
	{ "a copy of nothing onto itself", GPUMAP_OP_COPY, U8, 8, 8, 0, 0 },
	{ "overlap from below", GPUMAP_OP_COPY, U8, 0, 99, 100, -EINVAL },
	{ "overlap from above", GPUMAP_OP_COPY, U8, 99, 0, 100, -EINVAL },
	{ "side by side", GPUMAP_OP_COPY, U8, 100, 0, 100, 0 },
	{ "a scale in place", GPUMAP_OP_SCALE, F32, 64, 64, 16, 0 },
	{ "a scale half in place", GPUMAP_OP_SCALE, F32, 64, 68, 16, -EINVAL },
	{ "a scale of bytes", GPUMAP_OP_SCALE, U8, 0, 64, 16, -EINVAL },
	{ "an axpy in place", GPUMAP_OP_AXPY, F32, 0, 0, 1024, 0 },
	{ "an axpy of nothing we know", GPUMAP_OP_AXPY, 10, 0, 0, 1, -EINVAL },
#undef U8
#undef F32
#undef I64
};

static void arguments_are_checked(void)
{
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		struct gm_entry e =
			entry_of(table[i].op, table[i].dtype, table[i].dst,
				 table[i].src, table[i].n);
		struct gm_decoded_entry verdict;

		tap_equal(check_it(&e, &verdict), table[i].want, table[i].what,
			  __FILE__, __LINE__);
	}
}

/* Which bits of an entry may be set at all: the eight words, a bit each. */
static void every_reserved_bit_is_a_breach(void)
{
	static const uint64_t free_bits[GM_ENTRY_WORDS] = {
		/* op, CANCELLED, dtype */
		UINT64_C(0x00ff02ff) << 32 | UINT32_MAX,
		UINT32_MAX, /* incarnation */
		UINT64_MAX,
		UINT64_MAX,
		UINT64_MAX,
		UINT64_MAX,
		UINT64_MAX,
		UINT64_MAX,
	};
	struct gm_entry e = entry_of(GPUMAP_OP_NOP, 0, 0, 0, 0);
	int wrong = 0, breaches = 0;

	for (unsigned bit = 0; bit < 64 * GM_ENTRY_WORDS; bit++) {
		bool may = free_bits[bit / 64] >> bit % 64 & 1;
		uint64_t words[GM_ENTRY_WORDS];
		struct gm_decoded_entry verdict;
		int rc;

		gm_entry_pack(&e, words);
		words[bit / 64] ^= UINT64_C(1) << bit % 64;
		rc = gm_decode_entry(&decoder, words, NULL, &verdict);
		breaches += rc == -EPROTO;
		if (rc == -EPROTO && (!verdict.why || !verdict.why[0]))
			wrong++;
		if (!may && rc != -EPROTO)
			wrong++;
		if (!may && gm_decode_is_plain(&decoder, words))
			wrong++;
		/* Bits 5 and up make operations that there are not, and bit 4
		 * a barrier. */
		if (may && rc == -EPROTO && (bit < 37 || bit > 39))
			wrong++;
	}
	EQ(wrong, 0);
	EQ(breaches, 7 + 8 + 32 + 3);
}

/* Bit 0 of the flags is none where what it promises is there; of that every bit
 * may be set but those of its operation and those that are reserved. */
static void a_second_slot_has_reserved_bits_too(void)
{
	static const struct {
		uint64_t bits[GM_ENTRY_WORDS];
		uint8_t n_waits;
	} free_bits[] = {
#define WAIT (~(UINT64_C(0xff) << 48)) /* all but the lane */
		{ { UINT64_C(0x00000700) << 32 | UINT32_MAX, UINT64_MAX, 0, 0,
		    0, 0, UINT64_MAX, UINT64_MAX },
		  0 },
		{ { UINT64_C(0x00000400) << 32 | UINT32_MAX, UINT64_MAX, WAIT,
		    WAIT, WAIT, WAIT, UINT64_MAX, UINT64_MAX },
		  GM_WAITS_MAX },
#undef WAIT
	};
	struct gm_entry e = entry_of(GPUMAP_OP_NOP, 0, 0, 0, 0);
	uint64_t words[GM_ENTRY_WORDS], second[GM_ENTRY_WORDS];
	int wrong = 0;

	e.flags = GM_ENTRY_MORE;
	gm_entry_pack(&e, words);
	OK(!gm_decode_is_plain(&decoder, words));
	for (size_t i = 0; i < 2; i++) {
		struct gm_more more = { .op = GM_OP_MORE,
					.n_waits = free_bits[i].n_waits };

		for (unsigned bit = 0; bit < 64 * GM_ENTRY_WORDS; bit++) {
			bool may = free_bits[i].bits[bit / 64] >> bit % 64 & 1;
			struct gm_decoded_entry v;
			int rc;

			gm_more_pack(&more, second);
			second[bit / 64] ^= UINT64_C(1) << bit % 64;
			rc = gm_decode_entry(&decoder, words, second, &v);
			wrong += (rc == -EPROTO) == may;
			wrong += rc == -EPROTO && (!v.why || !v.why[0]);
		}
	}
	EQ(wrong, 0);
}

static void slots_come_in_pairs(void)
{
	struct gm_entry e = entry_of(GPUMAP_OP_NOP, 0, 0, 0, 0);
	struct gm_more more = { .op = GM_OP_MORE, .deadline_ns = 77 };
	uint64_t words[GM_ENTRY_WORDS], second[GM_ENTRY_WORDS];
	struct gm_decoded_entry v;

	e.flags = GM_ENTRY_MORE;
	gm_entry_pack(&e, words);
	gm_more_pack(&more, second);
	EQ(gm_decode_entry(&decoder, words, second, &v), 0);
	EQ(v.deadline_ns, 77);
	EQ(gm_decode_entry(&decoder, words, NULL, &v), -EPROTO);
	EQ(gm_decode_entry(&decoder, words, words, &v), -EPROTO);
	EQ(gm_decode_entry(&decoder, second, NULL, &v), -EPROTO);
	/* The slot behind an entry without a second one is not read. */
	e.flags = 0;
	gm_entry_pack(&e, words);
	EQ(gm_decode_entry(&decoder, words, second, &v), 0);
	EQ(v.deadline_ns, 0);
}

/* A mask is none without a second slot. */
static void unknown_operations_are_breaches(void)
{
	int wrong = 0;

	for (unsigned op = 0; op < 256; op++) {
		struct gm_entry e =
			entry_of((uint8_t)op, GPUMAP_DTYPE_F32, 0, 0, 0);
		struct gm_decoded_entry verdict;
		int rc = check_it(&e, &verdict);

		/* Entries of masks lack their second slot. */
		wrong += (rc == -EPROTO) !=
			 (op >= GPUMAP_OP_MASK_ADD && op != GPUMAP_OP_LOAD &&
			  (op < GPUMAP_OP_BARRIER || op > GPUMAP_OP_RECV));
	}
	EQ(wrong, 0);
}

/* All ranks must learn of their errors: these are passed on. */
static void collectives_are_passed_on(void)
{
	struct gm_entry e = entry_of(GPUMAP_OP_REDUCE_SCATTER, 99, 1, 2, 3);
	struct gm_decoded_entry v;

	e.to = 200;
	e.value = 7 | UINT64_C(5) << 32;
	e.dst_buffer = 11;
	e.src_buffer = 12;
	EQ(check_it(&e, &v), 0);
	EQ(v.bytes, 0);
	EQ(v.buffer, 7);
	OK(v.ask.op == GM_COMM_REDUCE_SCATTER && v.ask.dtype == 99 &&
	   v.ask.reduce == 200 && v.ask.peer == 5 && v.ask.n == 3);
	OK(v.ask.recv.buffer == 11 && v.ask.recv.at == 1 &&
	   v.ask.send.buffer == 12 && v.ask.send.at == 2);
	e.incarnation++;
	EQ(check_it(&e, &v), -EIO);
	EQ(v.buffer, 7);
	e.incarnation--;
	e.value = 0;
	EQ(check_it(&e, &v), -ESTALE);
	e.value = 7;
	e.zero = 1;
	EQ(check_it(&e, &v), -EPROTO);
	/* Where it is mapped, and may be written. */
	OK(gm_decode_memory(&decoder, 0, 64, 64, true) == decoder.arena + 64);
	OK(gm_decode_memory(&decoder, 0, decoder.arena_bytes - 63, 64, false) ==
	   NULL);
	OK(gm_decode_memory(&decoder, 77, 0, 1, false) == NULL);
}

static void the_dead_are_not_served(void)
{
	struct gm_entry e = entry_of(GPUMAP_OP_NOP, 0, 0, 0, 0);
	uint64_t words[GM_ENTRY_WORDS];
	struct gm_decoded_entry verdict;

	e.incarnation = NOW - 1;
	EQ(check_it(&e, &verdict), -EIO);
	gm_entry_pack(&e, words);
	OK(!gm_decode_is_plain(&decoder, words));
	/* A breach ends the session, whatever the entry's operation. */
	e.flags = 4;
	EQ(check_it(&e, &verdict), -EPROTO);
}

static void a_task_is_what_was_asked_for(void)
{
	struct gm_entry e =
		entry_of(GPUMAP_OP_SCALE, GPUMAP_DTYPE_F32, 256, 512, 16);
	double alpha = -2.5;
	struct gm_decoded_entry v;

	memcpy(&e.value, &alpha, sizeof(alpha));
	EQ(check_it(&e, &v), 0);
	EQ(v.bytes, 64);
	EQ(v.task.op, GPUMAP_OP_SCALE);
	EQ(v.task.dtype, GPUMAP_DTYPE_F32);
	EQ(v.task.n, 16);
	OK(v.task.dst == decoder.arena + 256);
	OK(v.task.src == decoder.arena + 512);
	OK(v.task.alpha == -2.5);

	e = entry_of(GPUMAP_OP_FILL, GPUMAP_DTYPE_I64, 8, 0, 2);
	e.value = UINT64_C(0x1122334455667788);
	EQ(check_it(&e, &v), 0);
	OK(v.task.pattern == UINT64_C(0x1122334455667788));
	OK(v.task.src == NULL);
}

static void plain_no_ops_take_the_short_cut(void)
{
	struct gm_entry e = entry_of(GPUMAP_OP_NOP, 0, 0, 0, 0);
	uint64_t words[GM_ENTRY_WORDS];
	struct gm_decoded_entry v;

	gm_entry_pack(&e, words);
	words[0] |= 12345;
	OK(gm_decode_is_plain(&decoder, words));
	EQ(gm_decode_entry(&decoder, words, NULL, &v), 0);
	EQ(v.bytes, 0);
}

TAP_CASE()
{
	arguments_are_checked();
	every_reserved_bit_is_a_breach();
	a_second_slot_has_reserved_bits_too();
	slots_come_in_pairs();
	unknown_operations_are_breaches();
	collectives_are_passed_on();
	the_dead_are_not_served();
	a_task_is_what_was_asked_for();
	plain_no_ops_take_the_short_cut();
	return tap_done();
}
