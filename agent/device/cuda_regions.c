/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * cuda_regions - memory of clients, pinned or staged.
 *
 * A region is registered in pieces, for the driver refuses very much at once,
 * and lets nothing else go on meanwhile.  Where the device's address of a piece
 * is not the worker's, each piece may have its own, so tasks are looked up by
 * the worker's address.
 *
 * The list of pieces is read by dispatch for every slice, and changes when a
 * session comes or goes: a longer one is made aside, and exchanged under the
 * lock.
 */

#include "agent/device/cuda.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct region {
	struct gm_region region;
	bool is_staged;
	struct gm_cuda_piece *pieces;
	uint32_t n, room;
};

/* ---- the list ------------------------------------------------------------ */

/* How many begin at or before @at. */
static uint32_t pieces_until(const struct gm_cuda_pieces *list, uintptr_t at)
{
	uint32_t low = 0, high = list ? list->n : 0;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (list->piece[middle].from <= at)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

int gm_cuda_piece_at(struct gm_cuda *cuda, const char *client,
		     struct gm_cuda_piece *ret_piece)
{
	uintptr_t at = (uintptr_t)client;
	const struct gm_cuda_piece *piece;
	uint32_t n;
	int rc = -EINVAL;

	pthread_mutex_lock(&cuda->lock);
	n = pieces_until(cuda->pieces, at);
	if (n > 0) {
		piece = &cuda->pieces->piece[n - 1];
		if (at - piece->from < piece->bytes) {
			*ret_piece = *piece;
			rc = 0;
		}
	}
	pthread_mutex_unlock(&cuda->lock);
	return rc;
}

/* Only the slow thread changes the list, so it may read it without the lock. */
static void exchange(struct gm_cuda *cuda, struct gm_cuda_pieces *list)
{
	struct gm_cuda_pieces *old = cuda->pieces;

	pthread_mutex_lock(&cuda->lock);
	cuda->pieces = list;
	pthread_mutex_unlock(&cuda->lock);
	free(old);
}

static struct gm_cuda_pieces *new_list(uint32_t n)
{
	struct gm_cuda_pieces *list =
		calloc(1, sizeof(*list) + n * sizeof(list->piece[0]));

	if (list)
		list->n = n;
	return list;
}

static int add_pieces(struct gm_cuda *cuda, const struct gm_cuda_piece *pieces,
		      uint32_t n)
{
	const struct gm_cuda_pieces *old = cuda->pieces;
	uint32_t n_old = old ? old->n : 0;
	uint32_t first = pieces_until(old, pieces[0].from);
	struct gm_cuda_pieces *list = new_list(n_old + n);

	if (!list)
		return -ENOMEM;
	if (first > 0)
		memcpy(list->piece, old->piece, first * sizeof(*pieces));
	memcpy(list->piece + first, pieces, n * sizeof(*pieces));
	if (n_old > first)
		memcpy(list->piece + first + n, old->piece + first,
		       (n_old - first) * sizeof(*pieces));
	exchange(cuda, list);
	return 0;
}

/* In place: to forget must not need memory. */
static void drop_pieces(struct gm_cuda *cuda, uintptr_t from, uint32_t n)
{
	struct gm_cuda_pieces *list = cuda->pieces;
	uint32_t first = pieces_until(list, from) - 1;

	pthread_mutex_lock(&cuda->lock);
	memmove(list->piece + first, list->piece + first + n,
		(list->n - first - n) * sizeof(list->piece[0]));
	list->n -= n;
	pthread_mutex_unlock(&cuda->lock);
	if (list->n == 0)
		exchange(cuda, NULL);
}

/* ---- registration -------------------------------------------------------- */

static int pin_piece(struct gm_cuda *cuda, struct gm_cuda_piece *piece)
{
	const struct gm_driver *cu = cuda->driver;
	void *at = (void *)piece->from;
	uint32_t flags = GM_CU_MEMHOSTREGISTER_PORTABLE |
			 GM_CU_MEMHOSTREGISTER_DEVICEMAP;
	int rc;

	if (!piece->writable)
		flags |= GM_CU_MEMHOSTREGISTER_READ_ONLY;
	/* The pages belong to a client, and so do errors over them. */
	rc = gm_cuda_suspect(cuda,
			     cu->cuMemHostRegister(at, piece->bytes, flags));
	if (rc < 0)
		return rc;
	rc = gm_cuda_check(cuda,
			   cu->cuMemHostGetDevicePointer(&piece->at, at, 0));
	if (rc < 0)
		(void)cu->cuMemHostUnregister(at);
	return rc;
}

static void unpin(struct gm_cuda *cuda, struct region *r)
{
	for (uint32_t i = 0; i < r->n; i++)
		(void)gm_cuda_check(cuda, cuda->driver->cuMemHostUnregister(
						  (void *)r->pieces[i].from));
	r->n = 0;
}

/* Room for one piece more, which is zeroes. */
static struct gm_cuda_piece *next_piece(struct region *r)
{
	struct gm_cuda_piece *pieces;
	uint32_t room = r->room ? 2 * r->room : 4;

	if (r->n == r->room) {
		pieces = reallocarray(r->pieces, room, sizeof(*pieces));
		if (!pieces)
			return NULL;
		r->pieces = pieces;
		r->room = room;
	}
	r->pieces[r->n] = (struct gm_cuda_piece){ .at = 0 };
	return &r->pieces[r->n];
}

/* Half of a piece that was refused, in whole pages; 0: it was the least. */
static uint64_t less_than(uint64_t each, int rc)
{
	uint64_t half = each / 2 / GM_CUDA_PIECE_LEAST * GM_CUDA_PIECE_LEAST;

	return rc == -ENOMEM || rc == -EINVAL ? half : 0;
}

/* In pieces as large as are taken.  Those of a failure are given back. */
static int pin(struct gm_cuda *cuda, struct region *r, bool writable)
{
	uint64_t each = cuda->piece_bytes, done = 0;
	int rc = 0;

	while (rc == 0 && done < r->region.bytes) {
		uint64_t left = r->region.bytes - done;
		struct gm_cuda_piece *piece = next_piece(r);

		if (!piece) {
			rc = -ENOMEM;
			break;
		}
		*piece = (struct gm_cuda_piece){
			.from = (uintptr_t)r->region.at + done,
			.bytes = left < each ? left : each,
			.writable = writable,
		};
		rc = pin_piece(cuda, piece);
		if (rc == 0) {
			done += piece->bytes;
			r->n++;
		} else if (less_than(piece->bytes, rc)) {
			each = less_than(piece->bytes, rc);
			rc = 0;
		}
	}
	if (rc < 0)
		unpin(cuda, r);
	return rc;
}

/* Kept until the end: where one session is staged others will be. */
static int make_staging(struct gm_cuda *cuda)
{
	gm_cu_ptr at;
	char *host;
	int rc;

	if (cuda->staging)
		return 0;
	rc = gm_cuda_pin(cuda, GM_CUDA_UNITS * GM_CUDA_SLICE_BYTES, &host, &at);
	if (rc < 0)
		return rc;
	pthread_mutex_lock(&cuda->lock);
	cuda->staging = host;
	cuda->staging_at = at;
	pthread_mutex_unlock(&cuda->lock);
	return 0;
}

static bool can_pin(const struct gm_cuda *cuda, bool writable)
{
	return cuda->can_register && (writable || cuda->can_read_only);
}

/* All of it in one piece, whose bytes go through staging. */
static int stage(struct gm_cuda *cuda, struct region *r, bool writable)
{
	struct gm_cuda_piece *piece = next_piece(r);
	int rc = piece ? make_staging(cuda) : -ENOMEM;

	if (rc < 0)
		return rc;
	*piece = (struct gm_cuda_piece){ .from = (uintptr_t)r->region.at,
					 .bytes = r->region.bytes,
					 .writable = writable };
	r->is_staged = true;
	r->n = 1;
	return 0;
}

/* Pinned if that can be, else staged: kernel, platform or limits may not allow
 * it.  Memory that is no client's, or is pinned already, is refused. */
static int reach(struct gm_cuda *cuda, struct region *r, bool writable)
{
	int rc = can_pin(cuda, writable) ? pin(cuda, r, writable) : -EOPNOTSUPP;

	if (rc == -EINVAL || rc == -ENOTRECOVERABLE)
		return rc;
	if (rc < 0)
		rc = stage(cuda, r, writable);
	if (rc < 0)
		return rc;
	rc = add_pieces(cuda, r->pieces, r->n);
	if (rc < 0 && !r->is_staged)
		unpin(cuda, r);
	return rc;
}

int gm_cuda_reach(struct gm_backend_device *dev, char *at, uint64_t bytes,
		  bool writable, struct gm_region **ret_region)
{
	struct gm_cuda *cuda = (struct gm_cuda *)dev;
	struct region *r;
	int rc = gm_cuda_bind(cuda);

	if (rc < 0)
		return rc;
	if (bytes == 0)
		return -EINVAL;
	r = calloc(1, sizeof(*r));
	if (!r)
		return -ENOMEM;
	r->region = (struct gm_region){ .at = at, .bytes = bytes };
	rc = reach(cuda, r, writable);
	if (rc < 0) {
		free(r->pieces);
		free(r);
		return rc;
	}
	r->region.address = r->pieces[0].at;
	*ret_region = &r->region;
	return 0;
}

void gm_cuda_unreach(struct gm_backend_device *dev, struct gm_region *region)
{
	struct gm_cuda *cuda = (struct gm_cuda *)dev;
	struct region *r = (struct region *)region;

	(void)gm_cuda_bind(cuda);
	drop_pieces(cuda, (uintptr_t)region->at, r->n);
	if (!r->is_staged)
		unpin(cuda, r);
	free(r->pieces);
	free(r);
}

void gm_cuda_regions_close(struct gm_cuda *cuda)
{
	exchange(cuda, NULL);
	if (cuda->staging)
		(void)cuda->driver->cuMemFreeHost(cuda->staging);
	cuda->staging = NULL;
}
