/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * The allocator cuts one range into extents, free or taken, that touch each
 * other and cover it.  The extents are the nodes of a tree ordered by offset,
 * kept shallow by random priorities (a treap); each node knows the largest free
 * extent below it, so a search finds the first extent that fits without
 * visiting those that do not.
 *
 * None of this bookkeeping lies in the arena: a client or a worker that writes
 * over the payload does not damage the bookkeeping.
 */

#include "lib/internal.h"

#include <errno.h>
#include <stdlib.h>

struct gm_extent {
	struct gm_extent *below; /* lower offsets */
	struct gm_extent *above;
	uint64_t at;
	uint64_t bytes;
	uint64_t largest; /* free extent in this subtree */
	uint64_t priority;
	bool taken;
};

static uint64_t largest(const struct gm_extent *e)
{
	return e != NULL ? e->largest : 0;
}

static void sum_up(struct gm_extent *e)
{
	e->largest = e->taken ? 0 : e->bytes;
	if (largest(e->below) > e->largest)
		e->largest = largest(e->below);
	if (largest(e->above) > e->largest)
		e->largest = largest(e->above);
}

/* Cut a tree in two: offsets below @at, and the rest. */
static void split(struct gm_extent *e, uint64_t at, struct gm_extent **ret_low,
		  struct gm_extent **ret_high)
{
	if (e == NULL) {
		*ret_low = *ret_high = NULL;
	} else if (e->at < at) {
		split(e->above, at, &e->above, ret_high);
		*ret_low = e;
		sum_up(e);
	} else {
		split(e->below, at, ret_low, &e->below);
		*ret_high = e;
		sum_up(e);
	}
}

/* Every offset in @low is below every one in @high. */
static struct gm_extent *join(struct gm_extent *low, struct gm_extent *high)
{
	if (low == NULL || high == NULL)
		return low != NULL ? low : high;
	if (low->priority > high->priority) {
		low->above = join(low->above, high);
		sum_up(low);
		return low;
	}
	high->below = join(low, high->below);
	sum_up(high);
	return high;
}

/* xorshift: good enough for priorities, and never 0. */
static uint64_t roll(struct gm_arena *arena)
{
	arena->dice ^= arena->dice << 13;
	arena->dice ^= arena->dice >> 7;
	arena->dice ^= arena->dice << 17;
	return arena->dice;
}

static struct gm_extent *create(struct gm_arena *arena, uint64_t at,
				uint64_t bytes)
{
	struct gm_extent *e = calloc(1, sizeof(*e));

	if (e == NULL)
		return NULL;
	e->at = at;
	e->bytes = bytes;
	e->largest = bytes;
	e->priority = roll(arena);
	return e;
}

static void insert(struct gm_arena *arena, struct gm_extent *e)
{
	struct gm_extent *low, *high;

	e->below = e->above = NULL;
	sum_up(e);
	split(arena->root, e->at, &low, &high);
	arena->root = join(join(low, e), high);
}

/* Take one extent out of the tree; the tree contains it. */
static struct gm_extent *extract(struct gm_arena *arena, uint64_t at)
{
	struct gm_extent *low, *rest, *e, *high;

	split(arena->root, at, &low, &rest);
	split(rest, at + 1, &e, &high);
	arena->root = join(low, high);
	return e;
}

static struct gm_extent *find(const struct gm_arena *arena, uint64_t at)
{
	struct gm_extent *e = arena->root;

	while (e != NULL && e->at != at)
		e = at < e->at ? e->below : e->above;
	return e;
}

/* Bytes from offset @at to the next offset whose address in memory is a
 * multiple of @align. */
static uint64_t skip_to(const struct gm_arena *arena, uint64_t at,
			uint64_t align)
{
	return gm_round_up(arena->start + at, align) - (arena->start + at);
}

/* The first free extent that holds @bytes at a multiple of @align.  Every
 * extent starts and ends at a multiple of GM_ARENA_ALIGN, so for that alignment
 * the search never backtracks. */
static struct gm_extent *first_fit(const struct gm_arena *arena,
				   struct gm_extent *e, uint64_t bytes,
				   uint64_t align)
{
	while (e != NULL && e->largest >= bytes) {
		struct gm_extent *fit =
			first_fit(arena, e->below, bytes, align);
		uint64_t skip = skip_to(arena, e->at, align);

		if (fit != NULL)
			return fit;
		if (!e->taken && e->bytes >= skip && e->bytes - skip >= bytes)
			return e;
		e = e->above;
	}
	return NULL;
}

int gm_arena_init(struct gm_arena *arena, uint64_t start, uint64_t bytes)
{
	struct gm_extent *e;

	arena->start = start;
	arena->dice = UINT64_C(0x9e3779b97f4a7c15);
	arena->bytes = bytes / GM_ARENA_ALIGN * GM_ARENA_ALIGN;
	e = create(arena, 0, arena->bytes);
	if (e == NULL)
		return -ENOMEM;
	arena->root = e;
	return 0;
}

static void destroy(struct gm_extent *e)
{
	while (e != NULL) {
		struct gm_extent *above = e->above;

		destroy(e->below);
		free(e);
		e = above;
	}
}

void gm_arena_fini(struct gm_arena *arena)
{
	destroy(arena->root);
	arena->root = NULL;
}

/* Turn the part [at, at + bytes) of a free extent into a taken one. */
static int carve(struct gm_arena *arena, struct gm_extent *e, uint64_t at,
		 uint64_t bytes)
{
	uint64_t skip = at - e->at, rest = e->bytes - skip - bytes;
	struct gm_extent *before = NULL, *after = NULL;

	/* Allocate before changing anything: -ENOMEM leaves the tree as it
	 * was. */
	if (skip > 0)
		before = create(arena, e->at, skip);
	if (rest > 0)
		after = create(arena, at + bytes, rest);
	if ((skip > 0 && before == NULL) || (rest > 0 && after == NULL)) {
		free(before);
		free(after);
		return -ENOMEM;
	}
	e = extract(arena, e->at);
	e->at = at;
	e->bytes = bytes;
	e->taken = true;
	insert(arena, e);
	if (before != NULL)
		insert(arena, before);
	if (after != NULL)
		insert(arena, after);
	return 0;
}

int gm_arena_take(struct gm_arena *arena, uint64_t bytes, uint64_t *ret_at)
{
	uint64_t align =
		bytes < GM_ARENA_LARGE ? GM_ARENA_ALIGN : GM_ARENA_LARGE;
	struct gm_extent *e;
	uint64_t at;
	int ret;

	if (bytes == 0 || bytes > arena->bytes)
		return -ENOMEM;
	bytes = gm_round_up(bytes, GM_ARENA_ALIGN);
	e = first_fit(arena, arena->root, bytes, align);
	if (e == NULL && align == GM_ARENA_LARGE) {
		align = GM_PAGE;
		e = first_fit(arena, arena->root, bytes, align);
	}
	if (e == NULL)
		return -ENOMEM;
	at = e->at + skip_to(arena, e->at, align);
	ret = carve(arena, e, at, bytes);
	if (ret == 0)
		*ret_at = at;
	return ret;
}

/* The last extent that starts before @at. */
static struct gm_extent *find_before(const struct gm_arena *arena, uint64_t at)
{
	struct gm_extent *e = arena->root, *best = NULL;

	while (e != NULL) {
		if (e->at < at) {
			best = e;
			e = e->above;
		} else {
			e = e->below;
		}
	}
	return best;
}

int gm_arena_give(struct gm_arena *arena, uint64_t at)
{
	struct gm_extent *e = find(arena, at), *near;

	if (e == NULL || !e->taken)
		return -EINVAL;
	e = extract(arena, at);
	e->taken = false;
	near = find(arena, e->at + e->bytes);
	if (near != NULL && !near->taken) {
		near = extract(arena, near->at);
		e->bytes += near->bytes;
		free(near);
	}
	near = find_before(arena, e->at);
	if (near != NULL && !near->taken) {
		near = extract(arena, near->at);
		e->at = near->at;
		e->bytes += near->bytes;
		free(near);
	}
	insert(arena, e);
	return 0;
}
