/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * cuda_memory - memory of the device, cut from slabs.
 *
 * The driver hands out whole granules of some megabytes, and waits for whatever
 * runs before it does.  So it is asked for slabs, and buffers are cut from
 * them; only a large one has a slab of its own.
 *
 * An extent remembers who had it last: another owner gets it cleared.  Neither
 * what the driver hands out is known to hold nothing, for it may have been a
 * slab of ours before, nor an extent that several have had a part of.
 */

#include "agent/device/cuda.h"

#include <errno.h>
#include <stdlib.h>

#include "gpumap.h"

#define GRAIN      UINT64_C(512) /* of an extent: what any operation wants */
#define GRANULE    (UINT64_C(2) << 20) /* of the driver */
#define SLAB_BYTES (UINT64_C(32) << 20)
#define OWN_BYTES  (UINT64_C(8) << 20) /* buffers from here on: own slab */

#define ANYBODY    UINT64_MAX /* who had it last, when that is not known */

struct extent {
	TAILQ_ENTRY(extent) entry; /* in the order of addresses */
	uint64_t at;
	uint64_t bytes;
	uint64_t owner; /* who has it, or had it last */
	bool is_free;
};

struct gm_cuda_slab {
	TAILQ_ENTRY(gm_cuda_slab) entry;
	TAILQ_HEAD(gm_cuda_extents, extent) extents;
	uint64_t bytes;
	uint64_t used;
};

struct buffer {
	struct gm_buffer buffer;
	struct gm_cuda_slab *slab;
	struct extent *extent;
};

static uint64_t round_up(uint64_t bytes, uint64_t grain)
{
	return (bytes + grain - 1) / grain * grain;
}

int gm_cuda_clear(struct gm_cuda *cuda, gm_cu_ptr at, uint64_t bytes)
{
	const struct gm_driver *cu = cuda->driver;
	int rc = gm_cuda_check(cuda,
			       cu->cuMemsetD8Async(at, 0, bytes, cuda->slow));

	if (rc == 0)
		rc = gm_cuda_check(cuda, cu->cuStreamSynchronize(cuda->slow));
	return rc;
}

/* ---- slabs --------------------------------------------------------------- */

static struct extent *new_extent(uint64_t at, uint64_t bytes, uint64_t owner)
{
	struct extent *extent = calloc(1, sizeof(*extent));

	if (extent)
		*extent = (struct extent){
			.at = at,
			.bytes = bytes,
			.owner = owner,
			.is_free = true,
		};
	return extent;
}

static int ask_driver(struct gm_cuda *cuda, uint64_t *bytes, uint64_t least,
		      gm_cu_ptr *ret_at)
{
	const struct gm_driver *cu = cuda->driver;
	int rc = gm_cuda_check(cuda, cu->cuMemAlloc(ret_at, *bytes));

	if (rc == -ENOMEM && least < *bytes) {
		/* A device that is almost full. */
		*bytes = least;
		rc = gm_cuda_check(cuda, cu->cuMemAlloc(ret_at, least));
	}
	return rc;
}

static int add_slab(struct gm_cuda *cuda, uint64_t least,
		    struct gm_cuda_slab **ret_slab)
{
	uint64_t bytes = least < OWN_BYTES ? SLAB_BYTES : least;
	struct gm_cuda_slab *slab = calloc(1, sizeof(*slab));
	struct extent *all = new_extent(0, 0, ANYBODY);
	gm_cu_ptr at = 0;
	int rc = slab && all ? ask_driver(cuda, &bytes, least, &at) : -ENOMEM;

	if (rc < 0) {
		free(all);
		free(slab);
		return rc;
	}
	all->at = at;
	all->bytes = bytes;
	slab->bytes = bytes;
	TAILQ_INIT(&slab->extents);
	TAILQ_INSERT_HEAD(&slab->extents, all, entry);
	TAILQ_INSERT_TAIL(&cuda->slabs, slab, entry);
	*ret_slab = slab;
	return 0;
}

static void drop_slab(struct gm_cuda *cuda, struct gm_cuda_slab *slab)
{
	struct extent *extent = TAILQ_FIRST(&slab->extents);

	TAILQ_REMOVE(&cuda->slabs, slab, entry);
	(void)gm_cuda_check(cuda, cuda->driver->cuMemFree(extent->at));
	while ((extent = TAILQ_FIRST(&slab->extents)) != NULL) {
		TAILQ_REMOVE(&slab->extents, extent, entry);
		free(extent);
	}
	free(slab);
}

void gm_cuda_slabs_close(struct gm_cuda *cuda)
{
	struct gm_cuda_slab *slab;

	while ((slab = TAILQ_FIRST(&cuda->slabs)) != NULL)
		drop_slab(cuda, slab);
}

/* An empty slab goes back, but for one: who frees all often asks again. */
static void trim(struct gm_cuda *cuda, struct gm_cuda_slab *slab)
{
	struct gm_cuda_slab *other;

	if (slab->used > 0)
		return;
	if (slab->bytes == SLAB_BYTES) {
		TAILQ_FOREACH(other, &cuda->slabs, entry)
		{
			if (other != slab && other->used == 0)
				break;
		}
		if (!other)
			return;
	}
	drop_slab(cuda, slab);
}

/* The one that is kept, too.  Returns whether there was any. */
static bool drop_empty(struct gm_cuda *cuda)
{
	struct gm_cuda_slab *slab = TAILQ_FIRST(&cuda->slabs), *next;
	bool dropped = false;

	for (; slab; slab = next) {
		next = TAILQ_NEXT(slab, entry);
		if (slab->used > 0)
			continue;
		drop_slab(cuda, slab);
		dropped = true;
	}
	return dropped;
}

/* ---- extents ------------------------------------------------------------- */

static struct extent *find_extent(struct gm_cuda_slab *slab, uint64_t bytes)
{
	struct extent *extent;

	if (slab->bytes - slab->used < bytes)
		return NULL;
	TAILQ_FOREACH(extent, &slab->extents, entry)
	{
		if (extent->is_free && extent->bytes >= bytes)
			return extent;
	}
	return NULL;
}

/* Keep the first bytes of it, and leave the rest free. */
static int split(struct gm_cuda_slab *slab, struct extent *extent,
		 uint64_t bytes)
{
	struct extent *rest;

	if (extent->bytes == bytes)
		return 0;
	rest = new_extent(extent->at + bytes, extent->bytes - bytes,
			  extent->owner);
	if (!rest)
		return -ENOMEM;
	extent->bytes = bytes;
	TAILQ_INSERT_AFTER(&slab->extents, extent, rest, entry);
	return 0;
}

/* Two neighbours that are free become one. */
static void merge(struct gm_cuda_slab *slab, struct extent *low,
		  struct extent *high)
{
	if (!low || !high || !low->is_free || !high->is_free)
		return;
	if (low->owner != high->owner)
		low->owner = ANYBODY;
	low->bytes += high->bytes;
	TAILQ_REMOVE(&slab->extents, high, entry);
	free(high);
}

static void give_extent(struct gm_cuda_slab *slab, struct extent *extent)
{
	struct extent *low = TAILQ_PREV(extent, gm_cuda_extents, entry);

	slab->used -= extent->bytes;
	extent->is_free = true;
	merge(slab, extent, TAILQ_NEXT(extent, entry));
	merge(slab, low, extent);
}

static int take_extent(struct gm_cuda *cuda, uint64_t owner, uint64_t bytes,
		       struct gm_cuda_slab *slab, struct extent *extent)
{
	int rc = split(slab, extent, bytes);

	if (rc < 0)
		return rc;
	extent->is_free = false;
	slab->used += bytes;
	if (extent->owner != owner) {
		rc = gm_cuda_clear(cuda, extent->at, bytes);
		if (rc < 0) {
			give_extent(slab, extent);
			return rc;
		}
	}
	extent->owner = owner;
	return 0;
}

/* From a slab that has room, or from a new one. */
static int find_room(struct gm_cuda *cuda, uint64_t bytes,
		     struct gm_cuda_slab **ret_slab, struct extent **ret_extent)
{
	struct gm_cuda_slab *slab;
	struct extent *extent;
	int rc;

	if (bytes < OWN_BYTES) {
		TAILQ_FOREACH(slab, &cuda->slabs, entry)
		{
			extent = find_extent(slab, bytes);
			if (extent) {
				*ret_slab = slab;
				*ret_extent = extent;
				return 0;
			}
		}
	}
	rc = add_slab(cuda, round_up(bytes, GRANULE), &slab);
	if (rc < 0)
		return rc;
	*ret_slab = slab;
	*ret_extent = TAILQ_FIRST(&slab->extents);
	return 0;
}

/* ---- buffers ------------------------------------------------------------- */

static int alloc_plain(struct gm_cuda *cuda, uint64_t owner, uint64_t bytes,
		       struct gm_buffer **ret_buffer)
{
	uint64_t taken = round_up(bytes, bytes < OWN_BYTES ? GRAIN : GRANULE);
	struct buffer *b = calloc(1, sizeof(*b));
	int rc = b ? find_room(cuda, taken, &b->slab, &b->extent) : -ENOMEM;

	if (rc == 0) {
		rc = take_extent(cuda, owner, taken, b->slab, b->extent);
		if (rc < 0)
			trim(cuda, b->slab);
	}
	if (rc < 0) {
		free(b);
		return rc;
	}
	b->buffer = (struct gm_buffer){
		.address = b->extent->at,
		.bytes = bytes,
		.charged = taken,
	};
	*ret_buffer = &b->buffer;
	return 0;
}

static int alloc(struct gm_cuda *cuda, uint64_t owner, uint64_t bytes,
		 uint32_t flags, struct gm_buffer **ret_buffer)
{
	return flags & GPUMAP_BUFFER_EXPORTABLE
		       ? gm_cuda_shared_alloc(cuda, bytes, ret_buffer)
		       : alloc_plain(cuda, owner, bytes, ret_buffer);
}

int gm_cuda_alloc(struct gm_backend_device *dev, uint64_t owner, uint64_t bytes,
		  uint32_t flags, struct gm_buffer **ret_buffer)
{
	struct gm_cuda *cuda = (struct gm_cuda *)dev;
	int rc = gm_cuda_bind(cuda);

	if (rc < 0)
		return rc;
	if (bytes == 0 || (flags & ~GPUMAP_BUFFER_EXPORTABLE))
		return -EINVAL;
	if (bytes > INT64_MAX)
		return -ENOMEM;
	rc = alloc(cuda, owner, bytes, flags, ret_buffer);
	/* Memory kept for later allocations must not make one fail. */
	if (rc == -ENOMEM && drop_empty(cuda))
		rc = alloc(cuda, owner, bytes, flags, ret_buffer);
	return rc;
}

void gm_cuda_free(struct gm_backend_device *dev, struct gm_buffer *buffer)
{
	struct gm_cuda *cuda = (struct gm_cuda *)dev;
	struct buffer *b = (struct buffer *)buffer;

	/* A context that is lost takes its memory along. */
	(void)gm_cuda_bind(cuda);
	if (buffer->imported || (buffer->flags & GPUMAP_BUFFER_EXPORTABLE)) {
		gm_cuda_shared_free(cuda, buffer);
		return;
	}
	give_extent(b->slab, b->extent);
	trim(cuda, b->slab);
	free(b);
}
