/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * load_private - structs and functions shared by the files of load, see load.h.
 */
#ifndef GM_WORKER_IO_LOAD_PRIVATE_H
#define GM_WORKER_IO_LOAD_PRIVATE_H

#include "agent/worker/control/blocking_thread.h"
#include "agent/worker/io/load.h"
#include "agent/worker/worker.h"

/* Staging memory for as many reads as may be in progress at once. */
struct gm_chunk {
	struct gm_blocking_job job;
	char *at;
	uint64_t bytes;
	/* Mapping for the device, if the device makes the copies. */
	struct gm_region *region;
	uint32_t number;
	uint32_t n_pieces;
	int rc;
	struct gm_piece piece[];
};

/* ---- load.c ------------------------------------------------------------ */

/* Make a load of @bytes of a file that no entry waits for yet.  NULL: no
 * memory. */
struct gm_load *gm_load_new(struct gm_loader *loader,
			    struct gm_worker_session *session,
			    struct gm_buffer_entry *file, uint64_t at,
			    uint64_t bytes);

/* Fail a load with @status, unless it has failed already: reads in progress are
 * cancelled, copies in progress end, nothing new starts. */
void gm_load_fail(struct gm_worker *worker, struct gm_load *load,
		  int32_t status);

/* Free a piece of a load, or all of its pieces without a read or a copy. */
void gm_load_drop_piece(struct gm_loader *loader, struct gm_piece *piece);
void gm_load_drop_ready(struct gm_loader *loader, struct gm_load *load);

/* Fail a load whose deadline has passed.  Returns whether that is so. */
bool gm_load_is_over(struct gm_worker *worker, struct gm_load *load);

/* End a load that waits for nothing any more.  The load may be freed. */
void gm_load_settle(struct gm_worker *worker, struct gm_load *load);

/* Limit of staging pieces of one uid. */
uint32_t gm_load_share(struct gm_worker *worker);

/* Free all readers, when no load exists. */
void gm_load_forget_readers(struct gm_loader *loader);

/* ---- load_ahead.c ------------------------------------------------------ */

/* Make a load for the next entry to read ahead, if its uid has fewer than
 * @share pieces of staging.  NULL for none. */
struct gm_load *gm_load_look_ahead(struct gm_worker *worker, uint32_t share);

/* Does the session of a read-ahead load still have its file?  A file that was
 * forgotten is closed some time later. */
bool gm_load_is_there(const struct gm_load *load);

/* May more of a read-ahead load be read? */
bool gm_load_may_read_ahead(const struct gm_loader *loader,
			    const struct gm_load *load);

/* Take over the load that was read ahead for @pending, an entry that begins.
 * NULL for none. */
struct gm_load *gm_load_take_ahead(struct gm_worker *worker,
				   struct gm_worker_session *session,
				   const struct gm_async_op *pending);

/* Drop the session's read-ahead loads.  Those with reads in progress stay until
 * these end.  No new read-ahead begins until the next entry has begun. */
void gm_load_drop_ahead(struct gm_worker *worker,
			struct gm_worker_session *session);

/* Drop read-ahead loads that may hold staging for long or without use. */
void gm_load_drop_stale(struct gm_worker *worker);

/* ---- load_reads.c ------------------------------------------------------ */

/* Start reads as far as there is staging.  Returns whether any started. */
bool gm_load_reads(struct gm_worker *worker);

/* ---- load_copies.c ----------------------------------------------------- */

/* Account for copies that the device has ended.  Returns whether there were
 * any. */
bool gm_load_land(struct gm_worker *worker);

/* Copy a slice, or start as many copies as the device accepts.  Returns whether
 * there was any work. */
bool gm_load_copy(struct gm_worker *worker);

#endif
