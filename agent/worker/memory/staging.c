/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/worker/memory/staging.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "agent/worker/control/async_op_private.h"
#include "agent/worker/control/io_events.h"
#include "agent/worker/io/load_private.h"

struct gm_piece *gm_staging_take(struct gm_loader *loader)
{
	struct gm_piece *piece = TAILQ_FIRST(&loader->free);

	if (!piece)
		return NULL;
	TAILQ_REMOVE(&loader->free, piece, entry);
	loader->n_used++;
	return piece;
}

/* Reuse the last piece first, because the CPU's caches may still hold it. */
void gm_staging_give(struct gm_loader *loader, struct gm_piece *piece)
{
	piece->state = GM_PIECE_FREE;
	piece->load = NULL;
	TAILQ_INSERT_HEAD(&loader->free, piece, entry);
	loader->n_used--;
}

struct gm_piece *gm_staging_piece(struct gm_loader *loader, uint32_t number)
{
	struct gm_chunk *chunk = loader->chunk[number / GM_LOAD_DEPTH_MAX];

	return &chunk->piece[number % GM_LOAD_DEPTH_MAX];
}

uint32_t gm_staging_number(const struct gm_piece *piece)
{
	return piece->chunk->number * GM_LOAD_DEPTH_MAX +
	       (uint32_t)(piece - piece->chunk->piece);
}

/* ---- in the slow thread -------------------------------------------------- */

/* The worker is bound to its node, so memory that it populates is on that
 * node. */
static int make(struct gm_chunk *chunk, struct gm_backend_device *dev)
{
	char *at = mmap(NULL, chunk->bytes, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int rc;

	if (at == MAP_FAILED)
		return -errno;
	rc = gm_async_op_populate(at, chunk->bytes, true);
	if (rc == 0 && dev->backend->reach)
		rc = dev->backend->reach(dev, at, chunk->bytes, true,
					 &chunk->region);
	if (rc < 0)
		munmap(at, chunk->bytes);
	else
		chunk->at = at;
	return rc;
}

static void work_make(struct gm_blocking_job *job,
		      struct gm_backend_device *dev)
{
	struct gm_chunk *chunk = (struct gm_chunk *)job;

	chunk->rc = make(chunk, dev);
}

static void work_drop(struct gm_blocking_job *job,
		      struct gm_backend_device *dev)
{
	struct gm_chunk *chunk = (struct gm_chunk *)job;

	if (chunk->region)
		dev->backend->unreach(dev, chunk->region);
	munmap(chunk->at, chunk->bytes);
}

/* ---- in the loop --------------------------------------------------------- */

/* Fail the loads that wait for staging that cannot be allocated. */
static void refuse_all(struct gm_worker *w)
{
	struct gm_load *load = TAILQ_FIRST(&w->loader.loads), *next;

	for (; load; load = next) {
		next = TAILQ_NEXT(load, entry);
		gm_load_fail(w, load, -ENOMEM);
		gm_load_settle(w, load);
	}
}

static void done_make(struct gm_blocking_job *job, struct gm_worker *w)
{
	struct gm_chunk *chunk = (struct gm_chunk *)job;
	struct gm_loader *l = &w->loader;

	if (chunk->rc == -ENOTRECOVERABLE)
		gm_io_events_failed(w);
	l->growing = false;
	l->look = true;
	if (chunk->rc < 0) {
		free(chunk);
		if (l->n_chunks == 0)
			refuse_all(w);
		return;
	}
	while (l->chunk[chunk->number])
		chunk->number++;
	l->chunk[chunk->number] = chunk;
	l->n_chunks++;
	for (uint32_t i = 0; i < chunk->n_pieces; i++) {
		struct gm_piece *piece = &chunk->piece[i];

		piece->chunk = chunk;
		piece->at = chunk->at + (uint64_t)i * l->read_bytes;
		TAILQ_INSERT_TAIL(&l->free, piece, entry);
	}
}

static void done_drop(struct gm_blocking_job *job, struct gm_worker *w)
{
	(void)w;
	free(job);
}

void gm_staging_grow(struct gm_worker *worker)
{
	struct gm_loader *l = &worker->loader;
	struct gm_chunk *chunk;

	if (l->growing || l->n_chunks == GM_LOAD_CHUNKS)
		return;
	chunk = calloc(1, sizeof(*chunk) + l->depth * sizeof(struct gm_piece));
	if (!chunk) {
		if (l->n_chunks == 0)
			refuse_all(worker);
		return;
	}
	l->growing = true;
	chunk->n_pieces = l->depth;
	chunk->bytes = (uint64_t)l->depth * l->read_bytes;
	chunk->job.call = GM_CALL_REGISTER;
	chunk->job.work = work_make;
	chunk->job.done = done_make;
	gm_blocking_thread_give(&worker->slow, NULL, &chunk->job);
}

void gm_staging_drop(struct gm_worker *worker)
{
	struct gm_loader *l = &worker->loader;

	gm_load_forget_readers(l);
	TAILQ_INIT(&l->free);
	for (uint32_t i = 0; i < GM_LOAD_CHUNKS; i++) {
		struct gm_chunk *chunk = l->chunk[i];

		if (!chunk)
			continue;
		l->chunk[i] = NULL;
		chunk->job.call = GM_CALL_FORGET;
		chunk->job.work = work_drop;
		chunk->job.done = done_drop;
		gm_blocking_thread_give(&worker->slow, NULL, &chunk->job);
	}
	l->n_chunks = 0;
}
