/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/worker/io/load_private.h"

#include <errno.h>
#include <stdlib.h>

#include "agent/worker/control/async_op_private.h"
#include "agent/worker/control/io_events.h"
#include "agent/worker/memory/staging.h"
#include "agent/worker/queue/heartbeat.h"
#include "agent/worker/queue/run_queue.h"
#include "gpumap.h"
#include "shm/point.h"

#define DEPTH      16u
#define READ_BYTES (512u << 10)

void gm_load_init(struct gm_loader *loader, uint32_t depth, uint32_t read_bytes)
{
	*loader = (struct gm_loader){
		.depth = depth ? depth : DEPTH,
		.read_bytes = read_bytes ? read_bytes : READ_BYTES,
		.refused_at = UINT64_MAX,
	};
	TAILQ_INIT(&loader->loads);
	TAILQ_INIT(&loader->free);
}

static struct gm_reader *reader_of(struct gm_loader *l, uint32_t uid)
{
	struct gm_reader *reader;

	LIST_FOREACH(reader, &l->readers, entry)
	{
		if (reader->uid == uid)
			return reader;
	}
	reader = calloc(1, sizeof(*reader));
	if (!reader)
		return NULL;
	reader->uid = uid;
	LIST_INSERT_HEAD(&l->readers, reader, entry);
	return reader;
}

struct gm_load *gm_load_new(struct gm_loader *loader,
			    struct gm_worker_session *session,
			    struct gm_buffer_entry *file, uint64_t at,
			    uint64_t bytes)
{
	struct gm_load *load = calloc(1, sizeof(*load));

	if (!load)
		return NULL;
	load->reader = reader_of(loader, session->uid);
	if (!load->reader) {
		free(load);
		return NULL;
	}
	load->session = session;
	load->handle = file->handle;
	load->fd = file->fd;
	load->at = at;
	load->task.n = bytes;
	load->cut = (struct gm_aligned_read){ .from = at, .left = bytes };
	TAILQ_INIT(&load->pieces);
	TAILQ_INSERT_TAIL(&loader->loads, load, entry);
	load->reader->n_loads++;
	loader->n_loads++;
	return load;
}

/* Are all reads of the uid late? They may never end. */
static bool is_stuck(const struct gm_reader *reader)
{
	return reader->n_late && reader->n_late == reader->n_pieces;
}

uint32_t gm_load_share(struct gm_worker *worker)
{
	struct gm_loader *l = &worker->loader;
	struct gm_reader *reader = LIST_FIRST(&l->readers), *next;
	uint32_t n = 0, share;
	uint32_t most = (l->depth * GM_LOAD_CHUNKS - l->n_late) / GM_LOAD_PART;

	for (; reader; reader = next) {
		bool is_new;

		next = LIST_NEXT(reader, entry);
		if (reader->n_asked && !is_stuck(reader))
			reader->round = worker->round;
		is_new = worker->round - reader->round <= GM_LOAD_ROUNDS;
		n += is_new && !is_stuck(reader);
		if (is_new || reader->n_loads)
			continue;
		LIST_REMOVE(reader, entry);
		free(reader);
	}
	share = l->depth / (n ? n : 1);
	if (share > most)
		share = most;
	return share ? share : 1;
}

void gm_load_forget_readers(struct gm_loader *loader)
{
	struct gm_reader *reader;

	while ((reader = LIST_FIRST(&loader->readers)) != NULL) {
		LIST_REMOVE(reader, entry);
		free(reader);
	}
}

int gm_load_begin(struct gm_worker *worker, struct gm_worker_session *session)
{
	struct gm_loader *l = &worker->loader;
	struct gm_async_op pending = session->pending;
	struct gm_buffer_entry *slot =
		gm_buffers_find(&session->buffers, pending.handle);
	struct gm_load *load;

	session->pending.handle = 0;
	if (!slot)
		return -ESTALE; /* forgotten before the entry began */
	load = gm_load_take_ahead(worker, session, &pending);
	if (!load)
		load = gm_load_new(l, session, slot, pending.at,
				   pending.task.n);
	if (!load)
		return -ENOMEM;
	load->task = pending.task;
	load->task.op = GPUMAP_OP_COPY;
	load->deadline_ns = pending.deadline_ns;
	load->reader->n_asked++;
	l->n_asked++;
	l->look = true;
	session->load = load;
	session->stalled = true;
	gm_run_queue_drop(worker, session);
	GM_POINT("load_begun");
	return 0;
}

void gm_load_drop_piece(struct gm_loader *loader, struct gm_piece *piece)
{
	struct gm_load *load = piece->load;

	TAILQ_REMOVE(&load->pieces, piece, entry);
	load->reader->n_pieces--;
	gm_staging_give(loader, piece);
}

void gm_load_drop_ready(struct gm_loader *loader, struct gm_load *load)
{
	struct gm_piece *piece = TAILQ_FIRST(&load->pieces), *next;

	for (; piece; piece = next) {
		next = TAILQ_NEXT(piece, entry);
		if (piece->state == GM_PIECE_READY)
			gm_load_drop_piece(loader, piece);
	}
}

/* Their data would be dropped, and a read that waits for an event holds its
 * staging until then. */
static void cancel_reads(struct gm_worker *w, const struct gm_load *load)
{
	const struct gm_piece *piece;

	TAILQ_FOREACH(piece, &load->pieces, entry)
	{
		if (piece->state == GM_PIECE_READING)
			gm_io_events_cancel_read(w, gm_staging_number(piece));
	}
}

void gm_load_fail(struct gm_worker *worker, struct gm_load *load,
		  int32_t status)
{
	if (load->status != 0)
		return;
	load->status = status;
	cancel_reads(worker, load);
}

bool gm_load_is_over(struct gm_worker *worker, struct gm_load *load)
{
	if (load->deadline_ns == 0 || load->status < 0 ||
	    gm_now_ns() < load->deadline_ns)
		return false;
	gm_load_fail(worker, load, -ETIME);
	gm_load_drop_ready(&worker->loader, load);
	gm_load_settle(worker, load);
	return true;
}

static void let_go(struct gm_worker *w, struct gm_load *load)
{
	load->session->load = NULL;
	load->session = NULL;
	load->reader->n_asked--;
	w->loader.n_asked--;
}

/* End the entry of a load. */
static void end(struct gm_worker *w, struct gm_load *load)
{
	struct gm_worker_session *s = load->session;

	GM_POINT("load_ending");
	let_go(w, load);
	/* Publish nothing if memory was missing: the data may be lost. */
	if (!gm_get(&s->mapping.broken))
		gm_async_op_ended(w, s, load->status);
	if (s->departing)
		gm_async_ops_depart(w, s);
}

void gm_load_settle(struct gm_worker *worker, struct gm_load *load)
{
	struct gm_loader *l = &worker->loader;

	if (load->is_ahead)
		return;
	if (load->session && !load->n_copies &&
	    (load->status < 0 || load->copied == load->task.n))
		end(worker, load);
	if (load->session || !TAILQ_EMPTY(&load->pieces))
		return;
	TAILQ_REMOVE(&l->loads, load, entry);
	load->reader->n_loads--;
	free(load);
	if (--l->n_loads == 0)
		l->idle_ns = worker->now_ns;
}

void gm_load_leave(struct gm_worker *worker, struct gm_worker_session *session)
{
	struct gm_load *load = session->load;

	gm_load_drop_ahead(worker, session);
	if (!load)
		return;
	gm_load_fail(worker, load, -ECANCELED);
	gm_load_drop_ready(&worker->loader, load);
	if (load->n_copies)
		return;
	let_go(worker, load);
	gm_load_settle(worker, load);
}

bool gm_load_pass(struct gm_worker *worker)
{
	bool worked = false;

	worker->loader.look = false;
	worker->loader.held = false;
	if (worker->loader.n_copies)
		worked |= gm_load_land(worker);
	/* Start reads before copies, which use up the round: otherwise storage
	 * would be idle while there is data to copy. */
	worked |= gm_load_reads(worker);
	if (io_uring_sq_ready(&worker->ring))
		io_uring_submit(&worker->ring);
	worked |= gm_load_copy(worker);
	if (io_uring_sq_ready(&worker->ring))
		io_uring_submit(&worker->ring);
	worker->busy += worked;
	return worked;
}

/* Find late reads, whose storage may never answer. */
static void find_late(struct gm_worker *w, struct gm_load *load)
{
	struct gm_piece *piece;
	bool any = false, any_new = false;

	TAILQ_FOREACH(piece, &load->pieces, entry)
	{
		if (piece->state != GM_PIECE_READING ||
		    w->now_ns - piece->since_ns < GM_LOAD_LATE_NS)
			continue;
		any_new |= !piece->is_late;
		w->loader.n_late += !piece->is_late;
		load->reader->n_late += !piece->is_late;
		piece->is_late = any = true;
	}
	/* Once more: the kernel does not see a read that it has just begun. */
	if (any_new && load->status < 0)
		cancel_reads(w, load);
	/* A draining worker does not wait for reads that may never end. */
	if (any && w->draining) {
		gm_load_fail(w, load, -EIO);
		gm_load_drop_ready(&w->loader, load);
	}
}

void gm_load_tick(struct gm_worker *worker)
{
	struct gm_loader *l = &worker->loader;
	struct gm_load *load = TAILQ_FIRST(&l->loads), *next;
	uint32_t n_late = l->n_late;

	for (; load; load = next) {
		next = TAILQ_NEXT(load, entry);
		if (gm_load_is_over(worker, load))
			continue;
		find_late(worker, load);
		gm_load_settle(worker, load);
	}
	gm_load_drop_stale(worker);
	if (l->n_late > n_late)
		l->look = true;
	if (l->n_late && TAILQ_EMPTY(&l->free))
		gm_staging_grow(worker);
	if (l->n_chunks && l->n_loads == 0 && l->n_used == 0 && !l->growing &&
	    worker->now_ns - l->idle_ns >= GM_LOAD_IDLE_NS)
		gm_staging_drop(worker);
}

uint64_t gm_load_nap(const struct gm_worker *worker)
{
	uint64_t now_ns = gm_now_ns(), until_ns = now_ns + GM_LOAD_NAP_NS;
	const struct gm_load *load;

	if (!gm_load_wants_clock(&worker->loader))
		return 0;
	TAILQ_FOREACH(load, &worker->loader.loads, entry)
	{
		/* A failed load waits only for the device. */
		if (load->deadline_ns && load->status == 0 &&
		    load->deadline_ns < until_ns)
			until_ns = load->deadline_ns;
	}
	return until_ns > now_ns ? until_ns - now_ns : 1;
}
