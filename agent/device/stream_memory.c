/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * stream_memory - memory of the device, cut from slabs or exportable, and what
 * is copied from and to it while the slow thread waits.
 *
 * A driver hands out whole granules of some megabytes, and waits for whatever
 * runs before it does.  So it is asked for slabs, and buffers are cut from
 * them; only a large one has a slab of its own.
 *
 * An extent remembers who had it last: another owner gets it cleared.  Neither
 * what the driver hands out is known to hold nothing, for it may have been a
 * slab of ours before, nor an extent that several have had a part of.
 *
 * An exportable buffer is memory of its own, because a descriptor stands for
 * all of it.  The memory exists as long as a process has it or a descriptor.
 */

#include "agent/device/stream.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gpumap.h"

#define GRAIN      UINT64_C(512) /* of an extent: what any operation wants */
#define GRANULE    (UINT64_C(2) << 20) /* of the driver */
#define SLAB_BYTES (UINT64_C(32) << 20)
#define OWN_BYTES  (UINT64_C(8) << 20) /* buffers from here on: own slab */

#define ANYBODY    UINT64_MAX /* who had it last, when that is not known */

struct extent {
	TAILQ_ENTRY(extent) entry; /* in the order of addresses */
	struct gm_stream_slab *slab;
	uint64_t at; /* in its slab */
	uint64_t bytes;
	uint64_t owner; /* who has it, or had it last */
	bool is_free;
};

struct gm_stream_slab {
	struct gm_gpu_mem *mem;
	TAILQ_ENTRY(gm_stream_slab) entry;
	TAILQ_HEAD(extents, extent) extents;
	uint64_t used;
	bool is_alone; /* for one buffer, whatever it has */
};

struct buffer {
	struct gm_buffer buffer;
	struct extent *extent;
};

static uint64_t round_up(uint64_t bytes, uint64_t grain)
{
	return (bytes + grain - 1) / grain * grain;
}

/* Clear memory of its previous user. */
static int clear(struct gm_stream *stream, struct gm_gpu_at at, uint64_t bytes)
{
	int rc = stream->ops->fill(stream->gpu, GM_GPU_SLOW, at, bytes, 0);

	return rc < 0 ? rc : stream->ops->finish(stream->gpu, GM_GPU_SLOW);
}

/* ---- slabs --------------------------------------------------------------- */

static struct extent *new_extent(struct gm_stream_slab *slab, uint64_t at,
				 uint64_t bytes, uint64_t owner)
{
	struct extent *extent = calloc(1, sizeof(*extent));

	if (extent)
		*extent = (struct extent){
			.slab = slab,
			.at = at,
			.bytes = bytes,
			.owner = owner,
			.is_free = true,
		};
	return extent;
}

/* All of @mem, which goes with a failure; tasks may name it from now on. */
static int add_slab(struct gm_stream *stream, struct gm_gpu_mem *mem,
		    bool is_alone, struct extent **ret_extent)
{
	struct gm_stream_slab *slab = calloc(1, sizeof(*slab));
	struct extent *all = new_extent(slab, 0, mem->bytes, ANYBODY);
	struct gm_stream_place place = { .from = mem->address,
					 .bytes = mem->bytes,
					 .mem = mem,
					 .writable = true };
	int rc = slab && all ? gm_stream_add(stream, &stream->own, &place)
			     : -ENOMEM;

	if (rc < 0) {
		stream->ops->release(stream->gpu, mem);
		free(all);
		free(slab);
		return rc;
	}
	slab->mem = mem;
	slab->is_alone = is_alone;
	TAILQ_INIT(&slab->extents);
	TAILQ_INSERT_HEAD(&slab->extents, all, entry);
	TAILQ_INSERT_TAIL(&stream->slabs, slab, entry);
	*ret_extent = all;
	return 0;
}

static void drop_slab(struct gm_stream *stream, struct gm_stream_slab *slab)
{
	struct extent *extent;

	TAILQ_REMOVE(&stream->slabs, slab, entry);
	gm_stream_drop(stream, &stream->own, slab->mem->address);
	stream->ops->release(stream->gpu, slab->mem);
	while ((extent = TAILQ_FIRST(&slab->extents)) != NULL) {
		TAILQ_REMOVE(&slab->extents, extent, entry);
		free(extent);
	}
	free(slab);
}

void gm_stream_slabs_close(struct gm_stream *stream)
{
	struct gm_stream_slab *slab;

	while ((slab = TAILQ_FIRST(&stream->slabs)) != NULL)
		drop_slab(stream, slab);
}

/* An empty slab goes back, but for one: who frees all often asks again. */
static void trim(struct gm_stream *stream, struct gm_stream_slab *slab)
{
	struct gm_stream_slab *other;

	if (slab->used > 0)
		return;
	if (slab->mem->bytes == SLAB_BYTES && !slab->is_alone) {
		TAILQ_FOREACH(other, &stream->slabs, entry)
		{
			if (other != slab && other->used == 0)
				break;
		}
		if (!other)
			return;
	}
	drop_slab(stream, slab);
}

/* The one that is kept, too.  Returns whether there was any. */
static bool drop_empty(struct gm_stream *stream)
{
	struct gm_stream_slab *slab = TAILQ_FIRST(&stream->slabs), *next;
	bool dropped = false;

	for (; slab; slab = next) {
		next = TAILQ_NEXT(slab, entry);
		if (slab->used > 0)
			continue;
		drop_slab(stream, slab);
		dropped = true;
	}
	return dropped;
}

/* ---- extents ------------------------------------------------------------- */

static struct extent *find_extent(struct gm_stream_slab *slab, uint64_t bytes)
{
	struct extent *extent;

	if (slab->mem->bytes - slab->used < bytes)
		return NULL;
	TAILQ_FOREACH(extent, &slab->extents, entry)
	{
		if (extent->is_free && extent->bytes >= bytes)
			return extent;
	}
	return NULL;
}

/* Keep the first bytes of it, and leave the rest free. */
static int split(struct extent *extent, uint64_t bytes)
{
	struct extent *rest;

	if (extent->bytes == bytes)
		return 0;
	rest = new_extent(extent->slab, extent->at + bytes,
			  extent->bytes - bytes, extent->owner);
	if (!rest)
		return -ENOMEM;
	extent->bytes = bytes;
	TAILQ_INSERT_AFTER(&extent->slab->extents, extent, rest, entry);
	return 0;
}

/* Two neighbours that are free become one. */
static void merge(struct extent *low, struct extent *high)
{
	if (!low || !high || !low->is_free || !high->is_free)
		return;
	if (low->owner != high->owner)
		low->owner = ANYBODY;
	low->bytes += high->bytes;
	TAILQ_REMOVE(&low->slab->extents, high, entry);
	free(high);
}

static void give_extent(struct gm_stream *stream, struct extent *extent)
{
	struct gm_stream_slab *slab = extent->slab;
	struct extent *low = TAILQ_PREV(extent, extents, entry);

	slab->used -= extent->bytes;
	extent->is_free = true;
	merge(extent, TAILQ_NEXT(extent, entry));
	merge(low, extent);
	trim(stream, slab);
}

static int take_extent(struct gm_stream *stream, uint64_t owner, uint64_t bytes,
		       struct extent *extent)
{
	struct gm_gpu_at at = { extent->slab->mem, extent->at };
	int rc = split(extent, bytes);

	if (rc < 0) {
		trim(stream, extent->slab);
		return rc;
	}
	extent->is_free = false;
	extent->slab->used += bytes;
	if (extent->owner != owner)
		rc = clear(stream, at, bytes);
	if (rc < 0) {
		give_extent(stream, extent);
		return rc;
	}
	extent->owner = owner;
	return 0;
}

/* From a slab that has room, or from a new one. */
static int find_room(struct gm_stream *stream, uint64_t bytes,
		     struct extent **ret_extent)
{
	uint64_t least = round_up(bytes, GRANULE);
	uint64_t most = bytes < OWN_BYTES ? SLAB_BYTES : least;
	const struct gm_gpu_ops *ops = stream->ops;
	struct gm_stream_slab *slab;
	struct gm_gpu_mem *mem;
	int rc;

	TAILQ_FOREACH(slab, &stream->slabs, entry)
	{
		*ret_extent =
			bytes < OWN_BYTES ? find_extent(slab, bytes) : NULL;
		if (*ret_extent)
			return 0;
	}
	rc = ops->alloc(stream->gpu, most, false, &mem);
	/* A device that is almost full. */
	if (rc == -ENOMEM && least < most)
		rc = ops->alloc(stream->gpu, least, false, &mem);
	return rc < 0 ? rc : add_slab(stream, mem, false, ret_extent);
}

/* ---- buffers ------------------------------------------------------------- */

static struct gm_buffer *as_buffer(struct buffer *b, uint64_t bytes,
				   uint32_t flags)
{
	b->buffer.address = b->extent->slab->mem->address + b->extent->at;
	b->buffer.bytes = bytes;
	b->buffer.flags = flags;
	return &b->buffer;
}

static int alloc(struct gm_stream *stream, uint64_t owner, uint64_t bytes,
		 uint32_t flags, struct gm_buffer **ret_buffer)
{
	uint64_t taken = round_up(bytes, bytes < OWN_BYTES ? GRAIN : GRANULE);
	struct buffer *b = calloc(1, sizeof(*b));
	struct gm_gpu_mem *mem;
	int rc;

	if (!b)
		return -ENOMEM;
	if (flags & GPUMAP_BUFFER_EXPORTABLE) {
		rc = stream->ops->alloc(stream->gpu, bytes, true, &mem);
		if (rc == 0) {
			taken = mem->bytes;
			rc = add_slab(stream, mem, true, &b->extent);
		}
	} else {
		rc = find_room(stream, taken, &b->extent);
	}
	if (rc == 0)
		rc = take_extent(stream, owner, taken, b->extent);
	if (rc < 0) {
		free(b);
		return rc;
	}
	b->buffer.charged = taken;
	*ret_buffer = as_buffer(b, bytes, flags);
	return 0;
}

int gm_stream_alloc(struct gm_backend_device *dev, uint64_t owner,
		    uint64_t bytes, uint32_t flags,
		    struct gm_buffer **ret_buffer)
{
	struct gm_stream *stream = (struct gm_stream *)dev;
	int rc = gm_stream_bind(stream);

	if (rc < 0)
		return rc;
	if (bytes == 0 || (flags & ~GPUMAP_BUFFER_EXPORTABLE))
		return -EINVAL;
	if (bytes > INT64_MAX)
		return -ENOMEM;
	rc = alloc(stream, owner, bytes, flags, ret_buffer);
	/* Memory kept for later allocations must not make one fail. */
	if (rc == -ENOMEM && drop_empty(stream))
		rc = alloc(stream, owner, bytes, flags, ret_buffer);
	return rc;
}

void gm_stream_free(struct gm_backend_device *dev, struct gm_buffer *buffer)
{
	struct gm_stream *stream = (struct gm_stream *)dev;
	struct buffer *b = (struct buffer *)buffer;

	/* A device that is lost takes its memory along. */
	(void)gm_stream_bind(stream);
	give_extent(stream, b->extent);
	free(b);
}

/* ---- exports and imports ------------------------------------------------- */

int gm_stream_export_fd(struct gm_backend_device *dev, struct gm_buffer *buffer)
{
	struct gm_stream *stream = (struct gm_stream *)dev;
	struct buffer *b = (struct buffer *)buffer;
	int fd, rc = gm_stream_bind(stream);

	if (rc < 0)
		return rc;
	if (!(buffer->flags & GPUMAP_BUFFER_EXPORTABLE))
		return -EOPNOTSUPP;
	fd = stream->ops->export_fd(stream->gpu, b->extent->slab->mem);
	if (fd >= 0 && fcntl(fd, F_SETFD, FD_CLOEXEC) < 0) {
		rc = -errno;
		close(fd);
		return rc;
	}
	return fd;
}

/* A descriptor of something else has many names among a driver's errors. */
static int import_refused(int rc)
{
	switch (rc) {
	case -EOPNOTSUPP:
	case -ENOMEM:
	case -ENOTRECOVERABLE:
		return rc;
	default:
		return -EINVAL;
	}
}

static int import_mem(struct gm_stream *stream, int fd, uint64_t bytes,
		      bool of_others, struct gm_gpu_mem **ret_mem)
{
	int rc = gm_stream_bind(stream);

	if (rc < 0)
		return rc;
	if (bytes == 0 || bytes > INT64_MAX)
		return -EINVAL;
	if (!stream->ops->import_fd)
		return -EOPNOTSUPP;
	rc = stream->ops->import_fd(stream->gpu, fd, bytes, of_others, ret_mem);
	return rc < 0 ? import_refused(rc) : 0;
}

/* Its maker is charged. */
static int import(struct gm_backend_device *dev, int fd, uint64_t bytes,
		  bool of_others, struct gm_buffer **ret_buffer)
{
	struct gm_stream *stream = (struct gm_stream *)dev;
	struct buffer *b = calloc(1, sizeof(*b));
	struct gm_gpu_mem *mem;
	int rc = b ? import_mem(stream, fd, bytes, of_others, &mem) : -ENOMEM;

	if (rc == 0)
		rc = add_slab(stream, mem, true, &b->extent);
	if (rc < 0) {
		free(b);
		return rc;
	}
	b->extent->is_free = false;
	b->extent->slab->used = mem->bytes;
	b->buffer.imported = true;
	*ret_buffer = as_buffer(b, bytes, 0);
	return 0;
}

int gm_stream_import_fd(struct gm_backend_device *dev, int fd, uint64_t bytes,
			struct gm_buffer **ret_buffer)
{
	return import(dev, fd, bytes, false, ret_buffer);
}

int gm_stream_import_peer(struct gm_backend_device *dev, int fd, uint64_t bytes,
			  struct gm_buffer **ret_buffer)
{
	return import(dev, fd, bytes, true, ret_buffer);
}

/* ---- bytes that others fetch, and of other devices -------------------------
 *
 * All of it waits for the device, on the slow thread's own lane.
 */

/* Copies that began before one was refused go on in memory of ours. */
static int finish(struct gm_stream *stream, int rc)
{
	int end = stream->ops->finish(stream->gpu, GM_GPU_SLOW);

	return rc < 0 ? rc : end;
}

static int copy(struct gm_stream *stream, struct gm_gpu_at to,
		struct gm_gpu_at from, uint64_t bytes)
{
	return stream->ops->copy(stream->gpu, GM_GPU_SLOW, to, from, bytes);
}

/* Bytes of the device's own memory, which are in one place. */
static int find_own(struct gm_stream *stream, uint64_t address, uint64_t bytes,
		    struct gm_gpu_at *ret_at)
{
	const struct gm_stream_place *place =
		gm_stream_find(&stream->own, address);

	if (!place || bytes > place->bytes - (address - place->from))
		return -EINVAL;
	*ret_at = (struct gm_gpu_at){ place->mem, address - place->from };
	return 0;
}

static int copy_strides(struct gm_backend_device *dev,
			const struct gm_strides *p, bool is_store)
{
	struct gm_stream *stream = (struct gm_stream *)dev;
	struct gm_gpu_at own, ours;
	int rc = gm_stream_bind(stream);

	if (rc < 0)
		return rc;
	for (uint32_t i = 0; rc == 0 && i < p->n; i++) {
		ours.mem = NULL;
		ours.offset = (uintptr_t)p->at + i * p->step;
		rc = find_own(stream, p->address + i * p->address_step,
			      p->bytes, &own);
		if (rc == 0)
			rc = is_store ? copy(stream, own, ours, p->bytes)
				      : copy(stream, ours, own, p->bytes);
	}
	return finish(stream, rc);
}

int gm_stream_fetch(struct gm_backend_device *dev,
		    const struct gm_strides *strides)
{
	return copy_strides(dev, strides, false);
}

int gm_stream_store(struct gm_backend_device *dev,
		    const struct gm_strides *strides)
{
	return copy_strides(dev, strides, true);
}

/* As a task would have it: to memory of this device first. */
static int compare(struct gm_stream *stream, struct gm_gpu_at theirs,
		   struct gm_gpu_at ours, const void *want, uint64_t bytes)
{
	void *got = malloc(bytes);
	struct gm_gpu_at to = { .offset = (uintptr_t)got };
	int rc = got ? clear(stream, ours, ours.mem->bytes) : -ENOMEM;

	if (rc == 0)
		rc = finish(stream, copy(stream, ours, theirs, bytes));
	if (rc == 0)
		rc = finish(stream, copy(stream, to, ours, bytes));
	if (rc == 0 && memcmp(got, want, bytes) != 0)
		rc = -EIO;
	free(got);
	return rc;
}

int gm_stream_try_peer(struct gm_backend_device *dev, int fd, const void *want,
		       uint64_t bytes)
{
	struct gm_stream *stream = (struct gm_stream *)dev;
	struct gm_gpu_at theirs = { 0 }, ours = { 0 };
	int rc = import_mem(stream, fd, bytes, true, &theirs.mem);

	if (rc < 0)
		return rc;
	rc = stream->ops->alloc(stream->gpu, bytes, true, &ours.mem);
	if (rc == 0) {
		rc = compare(stream, theirs, ours, want, bytes);
		stream->ops->release(stream->gpu, ours.mem);
	}
	stream->ops->release(stream->gpu, theirs.mem);
	return rc;
}

int gm_stream_copy_peer(struct gm_backend_device *dev, uint64_t address, int fd,
			uint64_t bytes)
{
	struct gm_stream *stream = (struct gm_stream *)dev;
	struct gm_gpu_at theirs = { 0 }, to;
	int rc = import_mem(stream, fd, bytes, true, &theirs.mem);

	if (rc < 0)
		return rc;
	rc = find_own(stream, address, bytes, &to);
	if (rc == 0)
		rc = finish(stream, copy(stream, to, theirs, bytes));
	stream->ops->release(stream->gpu, theirs.mem);
	return rc;
}
