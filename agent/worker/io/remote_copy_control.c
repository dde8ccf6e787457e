/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/worker/io/remote_copy.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/worker/control/agent_socket.h"
#include "agent/worker/control/async_op_private.h"
#include "agent/worker/control/io_events.h"
#include "agent/worker/io/test_pattern.h"
#include "gpumap.h"
#include "shm/point.h"

#define TRIAL_BYTES (UINT64_C(2) << 20)

static void answer(struct gm_worker *w, const struct gm_async_op_job *e,
		   enum gm_wire_type type, uint64_t bytes, int fd)
{
	struct gm_wire wire =
		gm_agent_socket_about(type, e->session->id, e->session->place);

	wire.handle = e->handle;
	wire.buffer.bytes = bytes;
	wire.buffer.stage_at = e->stage_at;
	wire.buffer.borrower = e->borrower;
	wire.status = e->rc;
	gm_io_events_say(w, &wire, fd);
}

/* Make a job for a record, with the fields that its answer repeats. */
static struct gm_async_op_job *new_job(struct gm_worker_session *s,
				       const struct gm_wire *wire, int fd,
				       gm_async_op_work work,
				       gm_async_op_done done)
{
	struct gm_async_op_job *e =
		gm_async_op_new(s, GM_CALL_REMOTE_COPY, work, done);

	if (!e)
		return NULL;
	e->handle = wire->handle;
	e->at = wire->buffer.at;
	e->bytes = wire->buffer.bytes;
	e->stage_at = wire->buffer.stage_at;
	e->borrower = wire->buffer.borrower;
	e->fd = fd;
	return e;
}

/* ---- path tests ---------------------------------------------------------- */

static uint64_t *make_pattern(uint64_t seed)
{
	uint64_t *words = malloc(TRIAL_BYTES);

	if (words)
		gm_trial_fill(words, TRIAL_BYTES / sizeof(*words), seed);
	return words;
}

/* The descriptor keeps the memory. */
static int prove(struct gm_backend_device *dev, uint64_t owner, uint64_t seed)
{
	const struct gm_backend *backend = dev->backend;
	uint64_t *words = make_pattern(seed);
	struct gm_buffer *buffer;
	int rc = words ? 0 : -ENOMEM;

	if (rc == 0)
		rc = backend->alloc(dev, owner, TRIAL_BYTES,
				    GPUMAP_BUFFER_EXPORTABLE, &buffer);
	if (rc == 0) {
		rc = gm_device_store(dev, buffer->address, words, TRIAL_BYTES);
		if (rc == 0)
			rc = backend->export_fd(dev, buffer);
		backend->free(dev, buffer);
	}
	free(words);
	return rc;
}

static void work_prove(struct gm_blocking_job *job,
		       struct gm_backend_device *dev)
{
	struct gm_async_op_job *e = (struct gm_async_op_job *)job;

	e->fd = prove(dev, e->session->id, e->at);
	e->rc = e->fd < 0 ? e->fd : 0;
}

static void done_prove(struct gm_blocking_job *job, struct gm_worker *w)
{
	struct gm_async_op_job *e = gm_async_op_returned(job, w);

	answer(w, e, GM_WIRE_PROVEN, TRIAL_BYTES, e->rc < 0 ? -1 : e->fd);
	GM_POINT("worker_proven");
	gm_async_op_finished(w, e);
}

void gm_remote_copy_prove(struct gm_worker *worker, const struct gm_wire *wire)
{
	const struct gm_backend *backend = worker->dev->backend;
	struct gm_worker_session *s = gm_async_op_session_of(worker, wire);
	struct gm_async_op_job *e = NULL;
	int rc = -ENOENT;

	if (s && (!backend->store || !backend->export_fd))
		rc = -EOPNOTSUPP;
	else if (s) {
		e = new_job(s, wire, -1, work_prove, done_prove);
		rc = e ? 0 : -ENOMEM;
	}
	if (rc < 0)
		gm_async_op_refuse(worker, wire, GM_WIRE_PROVEN, rc, -1);
	else
		gm_async_op_hand_over(worker, e);
}

static void work_try(struct gm_blocking_job *job, struct gm_backend_device *dev)
{
	struct gm_async_op_job *e = (struct gm_async_op_job *)job;
	uint64_t *words = make_pattern(e->at);

	e->rc = words ? dev->backend->try_peer(dev, e->fd, words, TRIAL_BYTES)
		      : -ENOMEM;
	free(words);
	close(e->fd);
}

static void done_try(struct gm_blocking_job *job, struct gm_worker *w)
{
	struct gm_async_op_job *e = gm_async_op_returned(job, w);

	answer(w, e, GM_WIRE_TRIED, TRIAL_BYTES, -1);
	GM_POINT("worker_tried");
	gm_async_op_finished(w, e);
}

void gm_remote_copy_try(struct gm_worker *worker, const struct gm_wire *wire,
			int fd)
{
	struct gm_worker_session *s = gm_async_op_session_of(worker, wire);
	struct gm_async_op_job *e = NULL;
	int rc = -ENOENT;

	if (s && !worker->dev->backend->try_peer)
		rc = -EOPNOTSUPP;
	else if (s && fd < 0)
		rc = -EMFILE;
	else if (s) {
		e = new_job(s, wire, fd, work_try, done_try);
		rc = e ? 0 : -ENOMEM;
	}
	if (rc < 0)
		gm_async_op_refuse(worker, wire, GM_WIRE_TRIED, rc, fd);
	else
		gm_async_op_hand_over(worker, e);
}

/* ---- bounce buffers ------------------------------------------------------ */

/* Map a bounce buffer. Without a slot it is mapped already, or an earlier job
 * maps it. */
static void work_stage(struct gm_blocking_job *job,
		       struct gm_backend_device *dev)
{
	struct gm_async_op_job *e = (struct gm_async_op_job *)job;
	struct gm_buffer_entry *stage = e->stage;

	if (stage)
		e->rc = gm_async_op_map(stage, e->fd, 0, GM_STAGE_BYTES, true);
	close(e->fd);
	if (!stage || e->rc < 0 || !dev->backend->reach)
		return;
	e->rc = dev->backend->reach(dev, stage->map, stage->map_bytes, true,
				    &stage->region);
	if (e->rc < 0)
		gm_async_op_drop_slot(dev, stage);
}

/* Is the bounce buffer ready now, whichever job mapped it? */
static int staged(const struct gm_async_op_job *e)
{
	struct gm_buffer_table *buffers = &e->session->buffers;
	struct gm_buffer_entry *stage = gm_buffers_stage(buffers, e->borrower);

	if (e->stage && e->rc < 0) {
		/* If a newer one has replaced it, this one was given up and is
		 * freed with the other given-up slots. */
		if (stage == e->stage) {
			buffers->slot[GM_BUFFERS_MAX + e->borrower] = NULL;
			free(stage);
		}
		return e->rc;
	}
	if (e->stage && stage == e->stage)
		stage->ready = true;
	return stage && stage->ready && stage->handle == e->at ? 0 : -ENOMEM;
}

/* Make a job after which the bounce buffer with this id is ready. */
static struct gm_async_op_job *stage_job(struct gm_worker_session *s,
					 const struct gm_wire *wire, int fd,
					 gm_async_op_done done)
{
	struct gm_buffer_entry *stage =
		gm_buffers_stage(&s->buffers, wire->buffer.borrower);
	struct gm_async_op_job *e = new_job(s, wire, fd, work_stage, done);

	if (!e || (stage && stage->handle == wire->buffer.stage))
		return e;
	if (gm_buffers_add_stage(&s->buffers, wire->buffer.borrower,
				 wire->buffer.stage, s->entries.pos,
				 &e->stage) == 0)
		return e;
	free(e);
	return NULL;
}

static void done_lend(struct gm_blocking_job *job, struct gm_worker *w)
{
	struct gm_async_op_job *e = gm_async_op_returned(job, w);

	e->rc = staged(e);
	answer(w, e, GM_WIRE_LENT, e->bytes, -1);
	GM_POINT("worker_lent");
	gm_async_op_finished(w, e);
}

/* Find memory that other rows may fetch: this device's own. */
static struct gm_buffer_entry *own_slot(const struct gm_worker_session *s,
					uint64_t handle)
{
	struct gm_buffer_entry *slot = gm_buffers_find(&s->buffers, handle);

	return slot && slot->ready && slot->buffer &&
			       gm_handle_row(handle) == s->decoder.row
		       ? slot
		       : NULL;
}

void gm_remote_copy_lend(struct gm_worker *worker, const struct gm_wire *wire,
			 int fd)
{
	struct gm_worker_session *s = gm_async_op_session_of(worker, wire);
	const struct gm_buffer_entry *slot =
		s ? own_slot(s, wire->handle) : NULL;
	struct gm_async_op_job *e = NULL;
	int rc = -ESTALE;

	if (slot &&
	    (wire->buffer.borrower >= GM_ROWS || wire->buffer.stage == 0))
		rc = -EINVAL;
	else if (slot && fd < 0)
		rc = -EMFILE;
	else if (slot) {
		e = stage_job(s, wire, fd, done_lend);
		rc = e ? 0 : -ENOMEM;
	}
	if (rc < 0) {
		gm_async_op_refuse(worker, wire, GM_WIRE_LENT, rc, fd);
		return;
	}
	e->bytes = slot->bytes;
	gm_async_op_hand_over(worker, e);
}

static void done_borrow(struct gm_blocking_job *job, struct gm_worker *w)
{
	struct gm_async_op_job *e = gm_async_op_returned(job, w);

	e->rc = staged(e);
	if (e->rc < 0) {
		gm_async_op_abandon(e->session, e->slot);
	} else {
		e->slot->bytes = e->bytes;
		e->slot->flags = GPUMAP_BUFFER_READ_ONLY;
		e->slot->borrowed = true;
		e->slot->ready = true;
	}
	answer(w, e, GM_WIRE_BORROWED, e->bytes, -1);
	GM_POINT("worker_borrowed");
	gm_async_op_finished(w, e);
}

static int begin_borrow(struct gm_worker *w, struct gm_worker_session *s,
			const struct gm_wire *wire, int fd)
{
	struct gm_async_op_job *e;
	struct gm_buffer_entry *slot;
	int rc = gm_buffers_add(&s->buffers, wire->handle, &slot);

	if (rc < 0)
		return rc;
	e = stage_job(s, wire, fd, done_borrow);
	if (!e) {
		gm_async_op_abandon(s, slot);
		return -ENOMEM;
	}
	e->slot = slot;
	gm_async_op_hand_over(w, e);
	return 0;
}

void gm_remote_copy_borrow(struct gm_worker *worker, const struct gm_wire *wire,
			   int fd)
{
	struct gm_worker_session *s = gm_async_op_session_of(worker, wire);
	int rc = -ENOENT;

	if (s &&
	    (gm_handle_kind(wire->handle) != GM_BUFFER_DEVICE ||
	     gm_handle_row(wire->handle) == worker->row ||
	     wire->buffer.borrower != worker->row || wire->buffer.stage == 0))
		rc = -EINVAL;
	else if (s && fd < 0)
		rc = -EMFILE;
	else if (s)
		rc = begin_borrow(worker, s, wire, fd);
	if (rc < 0)
		gm_async_op_refuse(worker, wire, GM_WIRE_BORROWED, rc, fd);
}

/* ---- into the bounce buffer ---------------------------------------------- */

static void work_fetch(struct gm_blocking_job *job,
		       struct gm_backend_device *dev)
{
	struct gm_async_op_job *e = (struct gm_async_op_job *)job;

	/* A job that frees the memory is queued behind this one. */
	if (e->from)
		memcpy(e->to, e->from, e->bytes);
	else
		e->rc = gm_device_fetch(dev, e->address, e->to, e->bytes);
}

static void done_fetch(struct gm_blocking_job *job, struct gm_worker *w)
{
	struct gm_async_op_job *e = gm_async_op_returned(job, w);

	/* If memory was missing, the copy read zeroes. */
	if (gm_get(&e->session->mapping.broken))
		e->rc = -EIO;
	answer(w, e, GM_WIRE_FETCHED, e->bytes, -1);
	GM_POINT("worker_fetched");
	gm_remote_copy_queue_landed(w);
	gm_async_op_finished(w, e);
}

static bool inside(uint64_t at, uint64_t bytes, uint64_t size)
{
	return bytes <= size && at <= size - bytes;
}

static int begin_fetch(struct gm_worker *w, struct gm_worker_session *s,
		       const struct gm_wire *wire)
{
	struct gm_buffer_entry *slot = own_slot(s, wire->handle);
	struct gm_buffer_entry *stage =
		gm_buffers_stage(&s->buffers, wire->buffer.borrower);
	struct gm_async_op_job *e;

	if (!slot || !stage || !stage->ready)
		return -ESTALE;
	if (!inside(wire->buffer.at, wire->buffer.bytes, slot->bytes) ||
	    !inside(wire->buffer.stage_at, wire->buffer.bytes, stage->bytes))
		return -ERANGE;
	e = new_job(s, wire, -1, work_fetch, done_fetch);
	if (!e)
		return -ENOMEM;
	e->slot = slot;
	e->stage = stage;
	e->to = stage->at + wire->buffer.stage_at;
	if (slot->at)
		e->from = slot->at + wire->buffer.at;
	else
		e->address = slot->address + wire->buffer.at;
	gm_remote_copy_queue_give(w, e);
	return 0;
}

void gm_remote_copy_fetch(struct gm_worker *worker, const struct gm_wire *wire)
{
	struct gm_worker_session *s = gm_async_op_session_of(worker, wire);
	int rc = s ? begin_fetch(worker, s, wire) : -ESTALE;

	if (rc < 0)
		gm_async_op_refuse(worker, wire, GM_WIRE_FETCHED, rc, -1);
}
