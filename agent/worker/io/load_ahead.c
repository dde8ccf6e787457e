/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/worker/io/load_private.h"

#include "agent/worker/memory/stall_guard.h"
#include "agent/worker/queue/accounting.h"
#include "gpumap.h"
#include "shm/point.h"

/* ---- the read-ahead list ------------------------------------------------- */

static uint32_t count(const struct gm_load *load)
{
	const struct gm_piece *piece;
	uint32_t n = 0;

	TAILQ_FOREACH(piece, &load->pieces, entry)
	n++;
	return n;
}

/* Take the first read-ahead load off its session's list. */
static void leave(struct gm_loader *l, struct gm_load *load)
{
	l->n_ahead -= count(load);
	load->is_ahead = false;
	load->session->ahead = load->behind;
	load->behind = NULL;
}

bool gm_load_is_there(const struct gm_load *load)
{
	const struct gm_buffer_entry *slot =
		gm_buffers_find(&load->session->buffers, load->handle);

	return slot && slot->fd == load->fd;
}

bool gm_load_may_read_ahead(const struct gm_loader *loader,
			    const struct gm_load *load)
{
	return loader->n_asked <= 1 && loader->n_ahead < loader->depth / 2 &&
	       gm_load_is_there(load);
}

/* ---- choosing the next --------------------------------------------------- */

/* The only load whose entry has begun, if entries behind it may be read ahead.
 * NULL otherwise. */
static struct gm_load *only_load(const struct gm_worker *w, uint32_t share)
{
	const struct gm_loader *l = &w->loader;
	struct gm_load *load;

	if (l->n_asked != 1 || l->n_ahead >= l->depth / 2 || w->draining)
		return NULL;
	TAILQ_FOREACH(load, &l->loads, entry)
	{
		if (load->session && !load->is_ahead)
			break;
	}
	if (!load || load->is_last || load->status < 0 ||
	    load->reader->n_late || load->reader->n_pieces >= share)
		return NULL;
	return load;
}

/* Is the entry @places behind the last one read a LOAD without second slot,
 * which thus waits for no timeline? An entry with a second slot is not decoded
 * without it. */
static bool is_load(const struct gm_worker_session *s, uint32_t places,
		    struct gm_decoded_entry *ret_verdict)
{
	uint64_t words[GM_ENTRY_WORDS];
	GM_ACCESSES(&s->mapping);

	return places <= s->entries.mask &&
	       gm_ring_peek(&s->entries, GM_ENTRY_WORDS, places, words) &&
	       !gm_entry_is_cancelled(words[0]) &&
	       gm_decode_entry(&s->decoder, words, NULL, ret_verdict) == 0 &&
	       ret_verdict->task.op == GPUMAP_OP_LOAD && ret_verdict->buffer;
}

struct gm_load *gm_load_look_ahead(struct gm_worker *worker, uint32_t share)
{
	struct gm_loader *l = &worker->loader;
	struct gm_load *last = only_load(worker, share), **place, *load;
	struct gm_decoded_entry verdict;
	struct gm_worker_session *s;
	struct gm_buffer_entry *file;
	uint32_t n = 0;

	if (!last)
		return NULL;
	s = last->session;
	for (place = &s->ahead; *place; place = &last->behind) {
		last = *place;
		n++;
	}
	if (last->cut.left || !is_load(s, n, &verdict))
		return NULL;
	/* An earlier entry may write this memory. */
	file = gm_buffers_find(&s->buffers, verdict.buffer);
	if (file->is_memory)
		return NULL;
	if (!gm_charge_left(worker, s)) {
		l->held = true;
		return NULL;
	}
	load = gm_load_new(l, s, file, verdict.at, verdict.task.n);
	if (!load)
		return NULL;
	load->is_ahead = true;
	load->pos = s->entries.pos + n;
	load->since_ns = worker->now_ns;
	*place = load;
	GM_POINT("load_ahead");
	return load;
}

/* ---- taking over and dropping -------------------------------------------- */

struct gm_load *gm_load_take_ahead(struct gm_worker *worker,
				   struct gm_worker_session *session,
				   const struct gm_async_op *pending)
{
	struct gm_load *load = session->ahead;

	if (!load)
		return NULL;
	/* The client may have changed the slot, and another entry may have
	 * begun in between. */
	if (load->pos != session->entries.pos - 1 ||
	    load->handle != pending->handle || load->at != pending->at ||
	    load->task.n != pending->task.n) {
		gm_load_drop_ahead(worker, session);
		return NULL;
	}
	leave(&worker->loader, load);
	return load;
}

void gm_load_drop_ahead(struct gm_worker *worker,
			struct gm_worker_session *session)
{
	struct gm_load *load;

	if (session->load)
		session->load->is_last = true;
	while ((load = session->ahead) != NULL) {
		leave(&worker->loader, load);
		gm_load_fail(worker, load, -ECANCELED);
		gm_load_drop_ready(&worker->loader, load);
		load->session = NULL;
		gm_load_settle(worker, load);
	}
}

/* Will the load's entry not begin, or not soon? */
static bool is_stale(const struct gm_worker *w, const struct gm_load *load)
{
	const struct gm_worker_session *s = load->session;

	if (load->reader->n_late || w->draining)
		return true;
	if (s->load)
		return false;
	return (s->entries.pos != load->pos && !s->pending.handle) ||
	       w->now_ns - load->since_ns >= GM_LOAD_LATE_NS;
}

static struct gm_worker_session *stale_one(const struct gm_worker *w)
{
	const struct gm_load *load;

	TAILQ_FOREACH(load, &w->loader.loads, entry)
	{
		if (load->is_ahead && is_stale(w, load))
			return load->session;
	}
	return NULL;
}

void gm_load_drop_stale(struct gm_worker *worker)
{
	struct gm_worker_session *session;

	while ((session = stale_one(worker)) != NULL)
		gm_load_drop_ahead(worker, session);
}
