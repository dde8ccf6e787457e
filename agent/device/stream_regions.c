/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * stream_regions - where memory is, and memory of clients, reached or staged.
 *
 * A region is reached in pieces, for a driver refuses very much at once, and
 * lets nothing else go on meanwhile.  Where the device's address of a piece is
 * not the worker's, each piece may have its own, so tasks are looked up by the
 * worker's address.
 *
 * The lists of places are read by dispatch for every slice, and change when
 * memory comes or goes.
 */

#include "agent/device/stream.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- places -------------------------------------------------------------- */

/* How many begin at or before @at. */
static uint32_t places_until(const struct gm_stream_places *places, uint64_t at)
{
	uint32_t low = 0, high = places->n;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (places->place[middle].from <= at)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

const struct gm_stream_place *
gm_stream_find(const struct gm_stream_places *places, uint64_t at)
{
	uint32_t n = places_until(places, at);
	const struct gm_stream_place *place;

	if (n == 0)
		return NULL;
	place = &places->place[n - 1];
	return at - place->from < place->bytes ? place : NULL;
}

int gm_stream_add(struct gm_stream *stream, struct gm_stream_places *places,
		  const struct gm_stream_place *place)
{
	uint32_t first = places_until(places, place->from);
	uint32_t behind = places->n - first, room = places->room;
	struct gm_stream_place *old = places->place, *list = old;

	if (places->n == room) {
		room = room ? 2 * room : 16;
		list = reallocarray(NULL, room, sizeof(*list));
		if (!list)
			return -ENOMEM;
		if (first)
			memcpy(list, old, first * sizeof(*list));
	}
	pthread_mutex_lock(&stream->lock);
	if (behind)
		memmove(list + first + 1, old + first, behind * sizeof(*list));
	list[first] = *place;
	places->place = list;
	places->room = room;
	places->n++;
	pthread_mutex_unlock(&stream->lock);
	if (list != old)
		free(old);
	return 0;
}

/* In place: to forget must not need memory. */
void gm_stream_drop(struct gm_stream *stream, struct gm_stream_places *places,
		    uint64_t from)
{
	struct gm_stream_place *end = places->place + places->n;
	struct gm_stream_place *place =
		places->place + places_until(places, from) - 1;

	pthread_mutex_lock(&stream->lock);
	memmove(place, place + 1, (size_t)(end - place - 1) * sizeof(*place));
	places->n--;
	pthread_mutex_unlock(&stream->lock);
}

/* ---- regions ------------------------------------------------------------- */

static void drop_pieces(struct gm_stream *stream, const struct gm_region *r)
{
	const struct gm_stream_places *client = &stream->client;
	uint64_t from = (uintptr_t)r->at;
	uint32_t n;

	while ((n = places_until(client, from + r->bytes - 1)) > 0 &&
	       client->place[n - 1].from >= from) {
		struct gm_stream_place piece = client->place[n - 1];

		gm_stream_drop(stream, &stream->client, piece.from);
		if (piece.mem)
			stream->ops->release(stream->gpu, piece.mem);
	}
}

/* Half of a piece that was refused, in whole pages; 0: it was the least. */
static uint64_t less_than(uint64_t each, int rc)
{
	uint64_t half =
		each / 2 / GM_STREAM_PIECE_LEAST * GM_STREAM_PIECE_LEAST;

	return rc == -ENOMEM || rc == -EINVAL ? half : 0;
}

static int reach_piece(struct gm_stream *stream, struct gm_stream_place *piece)
{
	int rc = stream->ops->reach(stream->gpu, (char *)(uintptr_t)piece->from,
				    piece->bytes, piece->writable, &piece->mem);

	if (rc < 0)
		return rc;
	rc = gm_stream_add(stream, &stream->client, piece);
	if (rc < 0)
		stream->ops->release(stream->gpu, piece->mem);
	return rc;
}

/* In pieces as large as are taken.  Those of a failure are given back. */
static int reach_pieces(struct gm_stream *stream, struct gm_region *r,
			bool writable)
{
	uint64_t each = stream->piece_bytes, left = r->bytes;
	struct gm_stream_place piece = { .from = (uintptr_t)r->at,
					 .writable = writable };
	int rc = 0;

	while (rc == 0 && left > 0) {
		piece.bytes = left < each ? left : each;
		rc = reach_piece(stream, &piece);
		if (rc == 0) {
			if (left == r->bytes)
				r->address = piece.mem->address;
			left -= piece.bytes;
			piece.from += piece.bytes;
		} else if (less_than(piece.bytes, rc)) {
			each = less_than(piece.bytes, rc);
			rc = 0;
		}
	}
	if (rc < 0)
		drop_pieces(stream, r);
	return rc;
}

/* Kept until the end: where one session is staged others will be. */
static int make_staging(struct gm_stream *stream)
{
	struct gm_gpu_mem *staging;
	int rc;

	if (stream->staging)
		return 0;
	rc = stream->ops->pin(
		stream->gpu, GM_STREAM_UNITS * GM_STREAM_SLICE_BYTES, &staging);
	if (rc < 0)
		return rc;
	pthread_mutex_lock(&stream->lock);
	stream->staging = staging;
	pthread_mutex_unlock(&stream->lock);
	return 0;
}

static bool can_reach(const struct gm_stream *stream, bool writable)
{
	uint32_t flags = stream->gpu->flags;

	return (flags & GM_GPU_REACH) &&
	       (writable || (flags & GM_GPU_READ_ONLY));
}

/* All of it in one piece, whose bytes go through staging. */
static int stage(struct gm_stream *stream, struct gm_region *r, bool writable)
{
	int rc = make_staging(stream);

	r->address = 0;
	if (rc < 0)
		return rc;
	return gm_stream_add(
		stream, &stream->client,
		&(struct gm_stream_place){ .from = (uintptr_t)r->at,
					   .bytes = r->bytes,
					   .writable = writable });
}

int gm_stream_reach(struct gm_backend_device *dev, char *at, uint64_t bytes,
		    bool writable, struct gm_region **ret_region)
{
	struct gm_stream *stream = (struct gm_stream *)dev;
	struct gm_region *r;
	int rc = gm_stream_bind(stream);

	if (rc < 0)
		return rc;
	if (bytes == 0)
		return -EINVAL;
	r = calloc(1, sizeof(*r));
	if (!r)
		return -ENOMEM;
	*r = (struct gm_region){ .at = at, .bytes = bytes };
	rc = can_reach(stream, writable) ? reach_pieces(stream, r, writable)
					 : -EOPNOTSUPP;
	/* Else staged: kernel, platform or limits may not allow it.  Memory
	 * that is no client's, or is reached already, is refused. */
	if (rc < 0 && rc != -EINVAL && rc != -ENOTRECOVERABLE)
		rc = stage(stream, r, writable);
	if (rc < 0) {
		free(r);
		return rc;
	}
	*ret_region = r;
	return 0;
}

void gm_stream_unreach(struct gm_backend_device *dev, struct gm_region *region)
{
	struct gm_stream *stream = (struct gm_stream *)dev;

	(void)gm_stream_bind(stream);
	drop_pieces(stream, region);
	free(region);
}

void gm_stream_regions_close(struct gm_stream *stream)
{
	if (stream->staging)
		stream->ops->release(stream->gpu, stream->staging);
	/* A worker's own staging is reached until its end. */
	for (uint32_t i = 0; i < stream->client.n; i++) {
		if (stream->client.place[i].mem)
			stream->ops->release(stream->gpu,
					     stream->client.place[i].mem);
	}
	free(stream->client.place);
	free(stream->own.place);
}
