/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/worker/io/load_private.h"

#include <errno.h>

#include "agent/worker/control/io_events.h"
#include "agent/worker/memory/stall_guard.h"
#include "agent/worker/queue/accounting.h"
#include "agent/worker/queue/heartbeat.h"
#include "gpumap.h"
#include "shm/point.h"

/* Make a task that copies the data of a piece. */
static struct gm_task task_of(const struct gm_piece *piece)
{
	const struct gm_region *region = piece->chunk->region;
	struct gm_task task = piece->load->task;
	char *src = piece->at + piece->read.head;

	if (task.dst)
		task.dst = (char *)task.dst + piece->to;
	if (task.dst_address)
		task.dst_address += piece->to;
	task.src = src;
	if (region && region->address)
		task.src_address =
			region->address + (uint64_t)(src - region->at);
	task.n = piece->read.want;
	return task;
}

/* Account for a copied slice of a piece. */
static void copied(struct gm_worker *w, struct gm_piece *piece, int rc)
{
	struct gm_load *load = piece->load;

	piece->state = GM_PIECE_READY;
	if (rc < 0) {
		gm_load_fail(w, load, rc);
	} else {
		piece->copied += piece->slice;
		load->copied += piece->slice;
		gm_put(&w->journal->loaded_bytes,
		       gm_get(&w->journal->loaded_bytes) + piece->slice);
	}
	GM_POINT("load_copied");
	if (load->status < 0)
		gm_load_drop_ready(&w->loader, load);
	else if (piece->copied == piece->read.want)
		gm_load_drop_piece(&w->loader, piece);
	gm_load_settle(w, load);
}

static void set_slice(const struct gm_worker *w, struct gm_piece *piece)
{
	uint64_t most = w->n_active ? GM_LOAD_SLICE : UINT32_MAX;
	uint32_t left = piece->read.want - piece->copied;

	/* The source is host memory, so slice_bytes limits the slice. */
	if (w->dev->slice_bytes && most > w->dev->slice_bytes)
		most = w->dev->slice_bytes;
	piece->slice = left < most ? left : (uint32_t)most;
}

/* ---- synchronous devices ------------------------------------------------- */

static void run(struct gm_worker *w, struct gm_piece *piece)
{
	struct gm_worker_session *s = piece->load->session;
	struct gm_task task = task_of(piece);
	uint64_t since_ns = gm_now_ns(), price, now_ns;
	int rc;
	GM_ACCESSES(&s->mapping);

	set_slice(w, piece);
	gm_beat_at(w->journal, GM_CALL_DEVICE, since_ns);
	rc = w->dev->backend->run(w->dev, &task, piece->copied, piece->slice);
	now_ns = gm_now_ns();
	gm_beat_at(w->journal, GM_CALL_LOOP, now_ns);
	price = gm_quantum_price(w->dev, s->share, piece->slice);
	gm_charge_user(w, s, (int64_t)price);
	gm_quantum_learn(s, w->dev, piece->slice, now_ns - since_ns);
	copied(w, piece, rc);
}

/* ---- asynchronous devices ------------------------------------------------ */

/* Returns false if the device has no room now. */
static bool start(struct gm_worker *w, struct gm_piece *piece)
{
	struct gm_task task = task_of(piece);
	struct gm_load *load = piece->load;
	int rc;

	set_slice(w, piece);
	piece->since_ns = gm_now_ns();
	gm_beat_at(w->journal, GM_CALL_DEVICE, piece->since_ns);
	/* The session has no other work in flight, and pieces have different
	 * targets, so this copy waits for none. */
	rc = w->dev->backend->start(w->dev, &task, piece->copied, piece->slice,
				    NULL, &piece->flight);
	gm_beat_at(w->journal, GM_CALL_LOOP, piece->since_ns);
	if (rc == -ENOTRECOVERABLE)
		gm_io_events_failed(w);
	if (rc == -EAGAIN) {
		w->loader.refused_at = w->landed;
		return false;
	}
	if (rc < 0) {
		copied(w, piece, rc);
		return true;
	}
	gm_charge_user(w, load->session, piece->slice);
	piece->state = GM_PIECE_COPYING;
	load->n_copies++;
	w->loader.n_copies++;
	w->n_in_flight++;
	GM_POINT("load_copying");
	return true;
}

static void land(struct gm_worker *w, struct gm_load *load)
{
	struct gm_piece *piece = TAILQ_FIRST(&load->pieces), *next;

	for (; piece; piece = next) {
		int rc;

		next = TAILQ_NEXT(piece, entry);
		if (piece->state != GM_PIECE_COPYING)
			continue;
		rc = w->dev->backend->ended(w->dev, &piece->flight);
		if (rc == -ENOTRECOVERABLE)
			gm_io_events_failed(w);
		if (rc == 0)
			continue;
		load->n_copies--;
		w->loader.n_copies--;
		w->n_in_flight--;
		w->landed++;
		copied(w, piece, rc < 0 ? rc : 0);
		/* The load may be freed; later calls handle the rest. */
		return;
	}
}

bool gm_load_land(struct gm_worker *worker)
{
	struct gm_load *load = TAILQ_FIRST(&worker->loader.loads), *next;
	uint64_t before = worker->landed;

	for (; load && worker->loader.n_copies; load = next) {
		next = TAILQ_NEXT(load, entry);
		if (load->n_copies)
			land(worker, load);
	}
	return worker->landed != before;
}

uint64_t gm_load_oldest_ns(const struct gm_loader *loader)
{
	const struct gm_load *load;
	const struct gm_piece *piece;
	uint64_t oldest_ns = 0;

	if (!loader->n_copies)
		return 0;
	TAILQ_FOREACH(load, &loader->loads, entry)
	TAILQ_FOREACH(piece, &load->pieces, entry)
	{
		if (piece->state == GM_PIECE_COPYING &&
		    (!oldest_ns || piece->since_ns < oldest_ns))
			oldest_ns = piece->since_ns;
	}
	return oldest_ns;
}

/* ---- choosing the next --------------------------------------------------- */

static struct gm_piece *ready_of(const struct gm_load *load)
{
	struct gm_piece *piece;

	TAILQ_FOREACH(piece, &load->pieces, entry)
	{
		if (piece->state == GM_PIECE_READY)
			break;
	}
	return piece;
}

bool gm_load_is_owed(const struct gm_worker *worker)
{
	const struct gm_load *load;

	TAILQ_FOREACH(load, &worker->loader.loads, entry)
	{
		if (load->session && !load->is_ahead && load->status == 0 &&
		    (load->n_copies || ready_of(load)) &&
		    gm_charge_left(worker, load->session))
			return true;
	}
	return false;
}

/* The oldest piece to copy, of the next load whose user has credit in the
 * round. */
static struct gm_piece *next_piece(struct gm_worker *w)
{
	uint32_t most = w->dev->backend->start ? w->dev->slices : 1;
	struct gm_load *load;

	TAILQ_FOREACH(load, &w->loader.loads, entry)
	{
		struct gm_piece *piece = NULL;

		if (!load->is_ahead && load->n_copies < (most ? most : 1))
			piece = ready_of(load);
		if (piece && gm_charge_left(w, load->session))
			return piece;
		w->loader.held |= piece != NULL;
	}
	return NULL;
}

static void rotate(struct gm_loader *l, struct gm_load *load)
{
	TAILQ_REMOVE(&l->loads, load, entry);
	TAILQ_INSERT_TAIL(&l->loads, load, entry);
}

bool gm_load_copy(struct gm_worker *worker)
{
	struct gm_loader *l = &worker->loader;
	struct gm_piece *piece;
	bool any = false;

	piece = next_piece(worker);
	if (piece && gm_load_is_over(worker, piece->load))
		return true;
	if (piece && !worker->dev->backend->start) {
		rotate(l, piece->load);
		run(worker, piece);
		return true;
	}
	/* Retry a refused copy only after another slice has ended. */
	if (worker->landed == l->refused_at && worker->n_in_flight)
		return false;
	for (; piece; piece = next_piece(worker)) {
		rotate(l, piece->load);
		if (!start(worker, piece))
			break;
		any = true;
	}
	return any;
}
