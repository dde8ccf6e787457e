/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* cut: ranges of files as aligned reads, over files that are made up. */

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "agent/worker/io/aligned_read.h"
#include "tests/support/dice.h"
#include "tests/support/tap.h"

#define BUFFER (4u * GM_LOAD_ALIGN)

static unsigned char noise(uint64_t at)
{
	return (unsigned char)((at * 2654435761u) >> 11);
}

/* The result of a read of a file of @size; one in three is short. */
static uint32_t answer(bool shorts, uint64_t size, uint64_t from,
		       unsigned char *to, uint32_t bytes)
{
	uint64_t n = from < size ? size - from : 0;

	if (n > bytes)
		n = bytes;
	if (shorts && n > GM_LOAD_ALIGN && dice(3) == 0)
		n = GM_LOAD_ALIGN + dice(n - GM_LOAD_ALIGN);
	for (uint64_t i = 0; i < n; i++)
		to[i] = noise(from + i);
	return (uint32_t)n;
}

static bool is_aligned(const struct gm_read *r)
{
	return r->from % GM_LOAD_ALIGN == 0 && r->begun % GM_LOAD_ALIGN == 0 &&
	       r->bytes % GM_LOAD_ALIGN == 0 && r->bytes > r->begun &&
	       r->bytes <= BUFFER && r->want > 0 &&
	       r->head + r->want <= r->bytes;
}

/* Returns 0, 1 where the file ended, or -1: what came was not what is there, or
 * the reads do not end. */
static int read_all(bool shorts, uint64_t size, uint64_t from, uint64_t n)
{
	struct gm_aligned_read cut = { .from = from, .left = n };
	unsigned char buffer[BUFFER];
	struct gm_read r;
	uint64_t at = from;

	while (cut.left) {
		enum gm_read_is is = GM_READ_SHORT;

		gm_aligned_read_next(&cut, BUFFER, &r);
		if (r.from + r.head != at)
			return -1;
		memset(buffer, 0xee, sizeof(buffer));
		for (int i = 0; is == GM_READ_SHORT && i < 20; i++) {
			if (!is_aligned(&r))
				return -1;
			is = gm_aligned_read_took(
				&r,
				answer(shorts, size, r.from + r.begun,
				       buffer + r.begun, r.bytes - r.begun));
		}
		if (is != GM_READ_WHOLE)
			return is == GM_READ_AT_END ? 1 : -1;
		for (uint32_t i = 0; i < r.want; i++)
			if (buffer[r.head + i] != noise(at + i))
				return -1;
		at += r.want;
	}
	return at == from + n ? 0 : -1;
}

static const uint64_t edges[] = {
	0,    1,          511,    512,  513,  4095,       4096,
	4097, BUFFER - 1, BUFFER, 5000, 8192, BUFFER + 1, 3 * BUFFER + 77
};

#define N_EDGES (sizeof(edges) / sizeof(edges[0]))

static void every_edge_is_read(bool shorts)
{
	unsigned wrong = 0;

	for (size_t s = 0; s < N_EDGES; s++)
		for (size_t f = 0; f < N_EDGES; f++)
			for (size_t n = 0; n < N_EDGES; n++) {
				bool fits = edges[f] + edges[n] <= edges[s] ||
					    edges[n] == 0;

				wrong += read_all(shorts, edges[s], edges[f],
						  edges[n]) != !fits;
			}
	EQ(wrong, 0);
}

static void anything_is_read(void)
{
	unsigned wrong = 0;

	for (int i = 0; i < 20000; i++) {
		uint64_t size = dice(6 * BUFFER);
		uint64_t from = dice(4 * BUFFER);
		uint64_t n = dice(4 * BUFFER);
		bool fits = from + n <= size || n == 0;

		wrong += read_all(true, size, from, n) != !fits;
	}
	EQ(wrong, 0);
}

/* One that gets shorter while it is read again ends; it does not go round. */
static void a_file_that_shrinks_ends(void)
{
	struct gm_aligned_read cut = { .from = 0, .left = BUFFER };
	struct gm_read r;

	gm_aligned_read_next(&cut, BUFFER, &r);
	EQ(gm_aligned_read_took(&r, 10000), GM_READ_SHORT);
	EQ(r.begun, 8192);
	EQ(gm_aligned_read_took(&r, 100), GM_READ_AT_END);
	EQ(gm_aligned_read_took(&r, 10000 - 8192), GM_READ_AT_END);
	EQ(gm_aligned_read_took(&r, 10001 - 8192), GM_READ_SHORT);
	EQ(gm_aligned_read_took(&r, BUFFER - 8192), GM_READ_WHOLE);
}

static void the_last_byte_that_can_be_is_read(void)
{
	struct gm_aligned_read cut = { .from = (uint64_t)INT64_MAX - 65535 - 1,
				       .left = 1 };
	struct gm_read r;

	gm_aligned_read_next(&cut, BUFFER, &r);
	OK(is_aligned(&r));
	OK(r.from + r.bytes <= (uint64_t)INT64_MAX);
	EQ(cut.left, 0);
}

TAP_CASE()
{
	every_edge_is_read(false);
	every_edge_is_read(true);
	anything_is_read();
	a_file_that_shrinks_ends();
	the_last_byte_that_can_be_is_read();
	return tap_done();
}
