/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/worker/loader.h"

#include <errno.h>
#include <fcntl.h>

#include "agent/worker/events.h"
#include "shm/point.h"

#define TRIES 8u /* of a read that is refused, or sent away */

static void begin(struct gm_worker *w, struct gm_piece *piece)
{
	struct gm_read *r = &piece->read;

	piece->state = GM_PIECE_READING;
	gm_events_read(w, piece->load->fd, piece->at + r->begun,
		       r->bytes - r->begun, r->from + r->begun,
		       gm_staging_number(piece));
	GM_POINT("load_reading");
}

/* Staging that the loads of one uid have, those too that nobody asks for. */
static uint32_t share_of(const struct gm_loader *l, uint32_t uid)
{
	const struct gm_load *load;
	uint32_t n = 0;

	TAILQ_FOREACH(load, &l->loads, entry)
	{
		if (load->uid == uid)
			n += load->n_pieces;
	}
	return n;
}

static struct gm_load *next_load(const struct gm_loader *l)
{
	struct gm_load *load;

	TAILQ_FOREACH(load, &l->loads, entry)
	{
		if (load->cut.left && load->status == 0 &&
		    share_of(l, load->uid) < l->depth)
			break;
	}
	return load;
}

bool gm_load_reads(struct gm_worker *worker)
{
	struct gm_loader *l = &worker->loader;
	struct gm_load *load = NULL;
	bool any = false;

	while (l->n_used - l->n_late < l->depth &&
	       (load = next_load(l)) != NULL) {
		struct gm_piece *piece = gm_staging_take(l);

		if (!piece)
			break;
		piece->load = load;
		piece->tries = 0;
		piece->copied = 0;
		piece->is_late = false;
		piece->since_ns = worker->now_ns;
		piece->to = load->task.n - load->cut.left;
		gm_cut_next(&load->cut, l->read_bytes, &piece->read);
		TAILQ_INSERT_TAIL(&load->pieces, piece, entry);
		load->n_pieces++;
		begin(worker, piece);
		TAILQ_REMOVE(&l->loads, load, entry);
		TAILQ_INSERT_TAIL(&l->loads, load, entry);
		any = true;
	}
	if (load && l->n_chunks == 0)
		gm_staging_grow(worker);
	return any;
}

/* The file system takes no such reads, or not of this part of the file.  The
 * description is the client's, who may have it so again. */
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
		gm_load_fail(piece->load, status_of(res));
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
	if (p->is_late)
		worker->loader.n_late--;
	p->is_late = false;
	if (load->status == 0 && res < 0) {
		failed(worker, p, res);
	} else if (load->status == 0) {
		switch (gm_cut_took(&p->read, (uint32_t)res)) {
		case GM_READ_SHORT:
			begin(worker, p);
			break;
		case GM_READ_AT_END:
			gm_load_fail(load, -ENODATA);
			break;
		case GM_READ_WHOLE:
			break;
		}
	}
	if (load->status < 0)
		gm_load_drop_ready(&worker->loader, load);
	gm_load_settle(worker, load);
}
