/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/worker/io/load_private.h"

#include <errno.h>
#include <fcntl.h>

#include "agent/worker/control/io_events.h"
#include "agent/worker/memory/staging.h"
#include "agent/worker/queue/accounting.h"
#include "shm/point.h"

#define TRIES 8u /* of a read that is refused or interrupted */

static void begin(struct gm_worker *w, struct gm_piece *piece)
{
	struct gm_read *r = &piece->read;

	piece->state = GM_PIECE_READING;
	piece->since_ns = w->now_ns;
	gm_io_events_read(w, piece->load->fd, piece->at + r->begun,
			  r->bytes - r->begun, r->from + r->begun,
			  gm_staging_number(piece));
	GM_POINT("load_reading");
}

/* Bytes that a uid has requested, at least the count of the others when it
 * came. */
static uint64_t asked_by(const struct gm_loader *l, const struct gm_reader *r)
{
	return r->asked > l->asked ? r->asked : l->asked;
}

/* Has @r a better claim to staging than @other? */
static bool has_less(const struct gm_loader *l, const struct gm_reader *r,
		     const struct gm_reader *other)
{
	if (r->n_pieces != other->n_pieces)
		return r->n_pieces < other->n_pieces;
	return asked_by(l, r) < asked_by(l, other);
}

/* Can the load read, in this round or the next? */
static bool may_read(const struct gm_loader *l, const struct gm_load *load,
		     uint32_t share)
{
	return load->cut.left && load->status == 0 &&
	       load->reader->n_pieces < share &&
	       (!load->is_ahead || gm_load_may_read_ahead(l, load));
}

static struct gm_load *next_load(struct gm_worker *w, uint32_t share)
{
	struct gm_loader *l = &w->loader;
	struct gm_load *load, *next = NULL;

	TAILQ_FOREACH(load, &l->loads, entry)
	{
		if (!may_read(l, load, share))
			continue;
		if (!gm_charge_left(w, load->session))
			l->held = true;
		else if (!next || has_less(l, load->reader, next->reader))
			next = load;
	}
	return next;
}

static void pay(struct gm_loader *l, struct gm_reader *r, uint32_t bytes)
{
	l->asked = asked_by(l, r);
	r->asked = l->asked + bytes;
}

bool gm_load_reads(struct gm_worker *worker)
{
	struct gm_loader *l = &worker->loader;
	uint32_t share = gm_load_share(worker);
	struct gm_load *load = NULL;
	bool any = false;

	while (l->n_used - l->n_late < l->depth) {
		struct gm_piece *piece;

		load = next_load(worker, share);
		if (!load)
			load = gm_load_look_ahead(worker, share);
		piece = load ? gm_staging_take(l) : NULL;
		if (!piece)
			break;
		piece->load = load;
		piece->tries = 0;
		piece->copied = 0;
		piece->is_late = false;
		piece->to = load->task.n - load->cut.left;
		gm_aligned_read_next(&load->cut, l->read_bytes, &piece->read);
		TAILQ_INSERT_TAIL(&load->pieces, piece, entry);
		load->reader->n_pieces++;
		l->n_ahead += load->is_ahead;
		pay(l, load->reader, piece->read.want);
		begin(worker, piece);
		TAILQ_REMOVE(&l->loads, load, entry);
		TAILQ_INSERT_TAIL(&l->loads, load, entry);
		any = true;
	}
	if (load && l->n_chunks == 0)
		gm_staging_grow(worker);
	return any;
}

/* The file system refuses direct reads of the file or of this part.  The client
 * owns the open file description and may set O_DIRECT again. */
static void read_through_cache(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	if (flags >= 0 && (flags & O_DIRECT))
		fcntl(fd, F_SETFL, flags & ~O_DIRECT);
}

static int32_t status_of(int res)
{
	switch (res) {
	case -EACCES:
	case -EPERM:
		return -EACCES;
	case -EBADF:
	case -ENOMEM:
		return res;
	default:
		return -EREMOTEIO;
	}
}

static void failed(struct gm_worker *w, struct gm_piece *piece, int res)
{
	bool again = res == -EINTR || res == -EAGAIN || res == -EINVAL;

	if (!again || ++piece->tries == TRIES) {
		gm_load_fail(w, piece->load, status_of(res));
		return;
	}
	if (res == -EINVAL)
		read_through_cache(piece->load->fd);
	begin(w, piece);
}

void gm_load_read_ended(struct gm_worker *worker, uint32_t piece, int res)
{
	struct gm_piece *p = gm_staging_piece(&worker->loader, piece);
	struct gm_load *load = p->load;

	p->state = GM_PIECE_READY;
	worker->loader.look = true;
	worker->loader.n_late -= p->is_late;
	load->reader->n_late -= p->is_late;
	p->is_late = false;
	if (load->is_ahead && !gm_load_is_there(load))
		gm_load_fail(worker, load, -ESTALE);
	if (load->status == 0 && res < 0) {
		failed(worker, p, res);
	} else if (load->status == 0) {
		switch (gm_aligned_read_took(&p->read, (uint32_t)res)) {
		case GM_READ_SHORT:
			begin(worker, p);
			break;
		case GM_READ_AT_END:
			gm_load_fail(worker, load, -ENODATA);
			break;
		case GM_READ_WHOLE:
			break;
		}
	}
	if (load->status < 0 && load->is_ahead) {
		gm_load_drop_ahead(worker, load->session);
		return;
	}
	if (load->status < 0)
		gm_load_drop_ready(&worker->loader, load);
	gm_load_settle(worker, load);
}
