/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * load_private - what the files that load share, see load.h.
 */
#ifndef GM_WORKER_IO_LOAD_PRIVATE_H
#define GM_WORKER_IO_LOAD_PRIVATE_H

#include "agent/worker/control/blocking_thread.h"
#include "agent/worker/io/load.h"
#include "agent/worker/worker.h"

/* Memory for as many reads as may be under way at once. */
struct gm_chunk {
	struct gm_slow_job job;
	char *at;
	uint64_t bytes;
	struct gm_region *region; /* where the device does the copies */
	uint32_t number;
	uint32_t n_pieces;
	int rc;
	struct gm_piece piece[];
};

/* ---- load.c ------------------------------------------------------------ */

/* @bytes of a file, NULL for want of memory.  Nobody asks for them yet. */
struct gm_load *gm_load_new(struct gm_loader *loader,
			    struct gm_worker_session *session,
			    struct gm_buffer_entry *file, uint64_t at,
			    uint64_t bytes);

/* What is begun of it goes on, nothing else: it has failed so. */
void gm_load_fail(struct gm_load *load, int32_t status);

/* It needs this piece no longer, or none of those that nobody has now. */
void gm_load_drop_piece(struct gm_loader *loader, struct gm_piece *piece);
void gm_load_drop_ready(struct gm_loader *loader, struct gm_load *load);

/* Fail it if its time is over.  Returns whether it is. */
bool gm_load_is_over(struct gm_worker *worker, struct gm_load *load);

/* End it if nothing is to be waited for any more; it may be gone then. */
void gm_load_settle(struct gm_worker *worker, struct gm_load *load);

/* How much staging a uid may have. */
uint32_t gm_load_share(struct gm_worker *worker);

/* Nobody reads any more. */
void gm_load_forget_readers(struct gm_loader *loader);

/* ---- load_ahead.c ------------------------------------------------------ */

/* The next entry that is to be read ahead, where a uid may have @share of
 * staging.  NULL for none. */
struct gm_load *gm_load_look_ahead(struct gm_worker *worker, uint32_t share);

/* Has its session the file of one that is ahead?  One that was forgotten is
 * closed, sooner or later. */
bool gm_load_is_there(const struct gm_load *load);

/* May more of it be read? */
bool gm_load_may_read_ahead(const struct gm_loader *loader,
			    const struct gm_load *load);

/* What has been read for @errand, the entry that begins.  NULL for nothing. */
struct gm_load *gm_load_take_ahead(struct gm_worker *worker,
				   struct gm_worker_session *session,
				   const struct gm_async_op *errand);

/* All that is read ahead for it, which those that have no reads under way do
 * not outlive.  Until the next entry has begun there is nothing new. */
void gm_load_drop_ahead(struct gm_worker *worker,
			struct gm_worker_session *session);

/* The same of all whose staging may be held for long, or in vain. */
void gm_load_drop_stale(struct gm_worker *worker);

/* ---- load_reads.c ------------------------------------------------------ */

/* Begin what reads there is staging for.  Returns whether there were any. */
bool gm_load_reads(struct gm_worker *worker);

/* ---- load_copies.c ----------------------------------------------------- */

/* See what the device has ended.  Returns whether there was anything. */
bool gm_load_land(struct gm_worker *worker);

/* Do a slice, or begin as many as the device takes.  Returns whether there was
 * anything to do. */
bool gm_load_copy(struct gm_worker *worker);

/* ---- memory/staging.c ---------------------------------------------------- */

/* A piece that is nobody's, NULL for none. */
struct gm_piece *gm_staging_take(struct gm_loader *loader);
void gm_staging_give(struct gm_loader *loader, struct gm_piece *piece);

/* By its number, see gm_staging_number(). */
struct gm_piece *gm_staging_piece(struct gm_loader *loader, uint32_t number);
uint32_t gm_staging_number(const struct gm_piece *piece);

/* Have more of it, unless that is under way or there is enough. */
void gm_staging_grow(struct gm_worker *worker);

/* Give all of it back: nothing is in use. */
void gm_staging_drop(struct gm_worker *worker);

#endif
