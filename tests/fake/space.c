/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "tests/fake/driver.h"

#define WINDOW_MOST  (UINT64_C(1) << 39)
#define WINDOW_LEAST (UINT64_C(1) << 36)

/* Between two pieces: what runs over the end of one meets nothing. */
#define GAP UINT64_C(4096)

static uint64_t window, shadow, window_bytes;
static uint64_t cursor; /* addresses before it were given out once */

static struct entry {
	struct fake_range range;
	struct entry *next;
} * entries;

bool fake_space_init(void)
{
	uint64_t bytes = window_bytes ? 0 : WINDOW_MOST;

	for (; bytes >= WINDOW_LEAST; bytes /= 2) {
		void *at = mmap(NULL, 2 * bytes, PROT_NONE,
				MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
				0);

		if (at == MAP_FAILED)
			continue;
		madvise(at, 2 * bytes, MADV_DONTDUMP);
		window = ((uint64_t)(uintptr_t)at + FAKE_GRANULE - 1) /
			 FAKE_GRANULE * FAKE_GRANULE;
		window_bytes = bytes - FAKE_GRANULE;
		shadow = window + bytes;
		cursor = window;
		break;
	}
	return window_bytes != 0;
}

static bool is_in_window(uint64_t address)
{
	return address - window < window_bytes;
}

void *fake_shadow(uint64_t address)
{
	return (void *)(uintptr_t)(address - window + shadow);
}

struct fake_range *fake_space_overlap(uint64_t base, uint64_t bytes)
{
	for (struct entry *e = entries; e; e = e->next)
		if (base < e->range.base + e->range.bytes &&
		    e->range.base < base + bytes)
			return &e->range;
	return NULL;
}

static uint64_t find_from(uint64_t base, uint64_t bytes, uint64_t alignment)
{
	const struct fake_range *taken;

	for (;;) {
		base = (base + alignment - 1) / alignment * alignment;
		if (base < window || base - window > window_bytes ||
		    window_bytes - (base - window) < bytes)
			return 0;
		taken = fake_space_overlap(base, bytes);
		if (!taken)
			return base;
		base = taken->base + taken->bytes;
	}
}

uint64_t fake_space_find(uint64_t bytes, uint64_t alignment)
{
	uint64_t base;

	if (bytes > window_bytes)
		return 0;
	/* Old addresses come last: a stale one should find nothing. */
	base = find_from(cursor, bytes, alignment);
	if (base)
		cursor = base + bytes + GAP;
	else
		base = find_from(window, bytes, alignment);
	return base;
}

struct fake_range *fake_space_add(const struct fake_range *range)
{
	struct entry *e = malloc(sizeof(*e));

	if (!e)
		return NULL;
	e->range = *range;
	e->next = entries;
	entries = e;
	return &e->range;
}

void fake_space_remove(struct fake_range *range)
{
	struct entry **at = &entries;

	while (&(*at)->range != range)
		at = &(*at)->next;
	struct entry *e = *at;
	*at = e->next;
	free(e);
}

struct fake_range *fake_space_at(uint64_t address)
{
	struct fake_range *reserved = NULL;

	for (struct entry *e = entries; e; e = e->next) {
		struct fake_range *r = &e->range;

		if (address - r->base >= r->bytes)
			continue;
		if (r->kind != FAKE_RANGE_RESERVED)
			return r;
		reserved = r;
	}
	return reserved;
}

struct fake_range *fake_space_reserved(uint64_t address)
{
	for (struct entry *e = entries; e; e = e->next)
		if (e->range.kind == FAKE_RANGE_RESERVED &&
		    address - e->range.base < e->range.bytes)
			return &e->range;
	return NULL;
}

struct fake_range *fake_space_of(const struct fake_context *ctx)
{
	for (struct entry *e = entries; e; e = e->next)
		if (e->range.ctx == ctx)
			return &e->range;
	return NULL;
}

unsigned int fake_space_left(void)
{
	unsigned int n = 0;

	for (struct entry *e = entries; e; e = e->next)
		n += e->range.kind != FAKE_RANGE_ALIAS;
	return n;
}

/* Whether the card of @ctx may use what is there. */
static bool may_use(const struct fake_context *ctx, const struct fake_range *r,
		    bool is_write)
{
	uint32_t self = UINT32_C(1) << ctx->dev->ordinal;

	switch (r->kind) {
	case FAKE_RANGE_DEVICE:
		return r->dev == ctx->dev;
	case FAKE_RANGE_MAPPED:
		return (is_write ? r->writers : r->readers) & self;
	case FAKE_RANGE_ALIAS:
	case FAKE_RANGE_HOST:
		return true;
	default:
		return false;
	}
}

static void *location(const struct fake_range *r, uint64_t address)
{
	switch (r->kind) {
	case FAKE_RANGE_DEVICE:
	case FAKE_RANGE_MAPPED:
		return fake_shadow(address);
	case FAKE_RANGE_ALIAS:
		return (void *)(uintptr_t)(address - r->base + r->alias);
	default:
		return (void *)(uintptr_t)address;
	}
}

bool fake_space_is_mapped(uint64_t base, uint64_t bytes, bool is_write)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	uint64_t at = base, from, to;
	char line[512], mode[8];

	if (!maps)
		return false;
	while (at < base + bytes && fgets(line, sizeof(line), maps)) {
		if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %7s", &from, &to,
			   mode) != 3 ||
		    to <= at)
			continue;
		if (from > at || mode[0] != 'r' || (is_write && mode[1] != 'w'))
			break;
		at = to;
	}
	fclose(maps);
	return at >= base + bytes;
}

/* Memory that the driver was not told of: with HMM or ATS it is in reach. */
static void *reach_pageable(const struct fake_context *ctx, uint64_t address,
			    uint64_t bytes, bool is_write)
{
	if (!fake_attribute(ctx->dev,
			    CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS) ||
	    fake_space_overlap(address, bytes) ||
	    !fake_space_is_mapped(address, bytes, is_write))
		return NULL;
	return (void *)(uintptr_t)address;
}

void *fake_space_reach(const struct fake_context *ctx, uint64_t address,
		       uint64_t bytes, bool is_write)
{
	const struct fake_range *first = fake_space_at(address), *r = first;
	uint64_t at = address, end;

	if (__builtin_add_overflow(address, bytes, &end))
		return NULL;
	if (!r)
		return reach_pageable(ctx, address, bytes, is_write);
	/* Mappings may lie side by side, and then are one piece to a card. */
	for (;;) {
		if (!r || !may_use(ctx, r, is_write))
			return NULL;
		at = r->base + r->bytes;
		if (at >= end)
			return location(first, address);
		if (r->kind != FAKE_RANGE_MAPPED)
			return NULL;
		r = fake_space_at(at);
		if (r && r->kind != FAKE_RANGE_MAPPED)
			return NULL;
	}
}

enum fake_place fake_space_place(const struct fake_context *ctx,
				 uint64_t address, uint64_t bytes,
				 bool is_write, void **ret_at,
				 uint32_t *ret_gpu)
{
	const struct fake_range *r = fake_space_at(address);

	if (address > UINT64_MAX - bytes)
		return FAKE_NOWHERE;
	if (!r) {
		if (is_in_window(address) || !address ||
		    fake_space_overlap(address, bytes))
			return FAKE_NOWHERE;
		*ret_at = (void *)(uintptr_t)address;
		*ret_gpu = FAKE_ANY_GPU;
		return FAKE_PAGEABLE;
	}
	*ret_at = location(r, address);
	*ret_gpu = r->gpu;
	if (r->kind == FAKE_RANGE_MAPPED)
		return fake_space_reach(ctx, address, bytes, is_write)
			       ? FAKE_ON_DEVICE
			       : FAKE_NOWHERE;
	if (r->kind == FAKE_RANGE_RESERVED ||
	    bytes > r->base + r->bytes - address)
		return FAKE_NOWHERE;
	return r->kind == FAKE_RANGE_DEVICE ? FAKE_ON_DEVICE : FAKE_PINNED;
}
