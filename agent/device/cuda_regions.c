/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * cuda_regions - memory of clients, pinned or staged.
 *
 * A region is registered in pieces, for the driver refuses very much at once.
 * Where the device's address of a piece is not the worker's, each piece may
 * have its own, so tasks are looked up by the worker's address.
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
	uint32_t n; /* pieces */
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

static void unpin(struct gm_cuda *cuda, const struct gm_cuda_piece *pieces,
		  uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		(void)gm_cuda_check(cuda, cuda->driver->cuMemHostUnregister(
						  (void *)pieces[i].from));
}

static int pin(struct gm_cuda *cuda, struct gm_cuda_piece *pieces, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		int rc = pin_piece(cuda, &pieces[i]);

		if (rc < 0) {
			unpin(cuda, pieces, i);
			return rc;
		}
	}
	return 0;
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

static struct gm_cuda_piece *cut(struct gm_cuda *cuda, char *at, uint64_t bytes,
				 bool writable, uint32_t *ret_n)
{
	uint64_t each = cuda->piece_bytes;
	uint64_t n = bytes / each + (bytes % each != 0);
	struct gm_cuda_piece *pieces =
		n <= UINT32_MAX ? calloc(n, sizeof(*pieces)) : NULL;

	if (!pieces)
		return NULL;
	for (uint64_t i = 0; i < n; i++) {
		uint64_t left = bytes - i * each;

		pieces[i] = (struct gm_cuda_piece){
			.from = (uintptr_t)at + i * each,
			.bytes = left < each ? left : each,
			.writable = writable,
		};
	}
	*ret_n = (uint32_t)n;
	return pieces;
}

/* Pinned if that can be, else staged. */
static int reach(struct gm_cuda *cuda, struct gm_cuda_piece *pieces, uint32_t n,
		 bool *ret_is_staged)
{
	bool is_staged = !can_pin(cuda, pieces[0].writable);
	int rc;

	if (!is_staged) {
		rc = pin(cuda, pieces, n);
		if (rc == -EINVAL || rc == -ENOMEM || rc == -ENOTRECOVERABLE)
			return rc;
		/* Kernel, platform or limits do not allow it. */
		is_staged = rc < 0;
	}
	if (is_staged) {
		for (uint32_t i = 0; i < n; i++)
			pieces[i].at = 0;
		rc = make_staging(cuda);
		if (rc < 0)
			return rc;
	}
	rc = add_pieces(cuda, pieces, n);
	if (rc < 0 && !is_staged)
		unpin(cuda, pieces, n);
	*ret_is_staged = is_staged;
	return rc;
}

int gm_cuda_reach(struct gm_backend_device *dev, char *at, uint64_t bytes,
		  bool writable, struct gm_region **ret_region)
{
	struct gm_cuda *cuda = (struct gm_cuda *)dev;
	struct gm_cuda_piece *pieces;
	struct region *r;
	uint32_t n;
	int rc = gm_cuda_bind(cuda);

	if (rc < 0)
		return rc;
	if (bytes == 0)
		return -EINVAL;
	r = calloc(1, sizeof(*r));
	pieces = cut(cuda, at, bytes, writable, &n);
	rc = r && pieces ? reach(cuda, pieces, n, &r->is_staged) : -ENOMEM;
	if (rc == 0) {
		r->n = n;
		r->region = (struct gm_region){
			.at = at,
			.bytes = bytes,
			.address = pieces[0].at,
		};
		*ret_region = &r->region;
	} else {
		free(r);
	}
	free(pieces);
	return rc;
}

void gm_cuda_unreach(struct gm_backend_device *dev, struct gm_region *region)
{
	struct gm_cuda *cuda = (struct gm_cuda *)dev;
	struct region *r = (struct region *)region;
	uintptr_t from = (uintptr_t)region->at;

	(void)gm_cuda_bind(cuda);
	drop_pieces(cuda, from, r->n);
	for (uint32_t i = 0; i < r->n && !r->is_staged; i++) {
		const struct gm_cuda_piece piece = {
			.from = from + i * cuda->piece_bytes,
		};

		unpin(cuda, &piece, 1);
	}
	free(r);
}

void gm_cuda_regions_close(struct gm_cuda *cuda)
{
	exchange(cuda, NULL);
	if (cuda->staging)
		(void)cuda->driver->cuMemFreeHost(cuda->staging);
	cuda->staging = NULL;
}
