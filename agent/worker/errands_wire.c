/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/worker/errand.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "agent/common/thp.h"
#include "agent/worker/events.h"
#include "agent/worker/pair.h"
#include "gpumap.h"

/* ---- registration ------------------------------------------------------ */

static int map_registered(const struct gm_errand_job *e, struct gm_slot *slot)
{
	bool writable = !(e->flags & GPUMAP_BUFFER_READ_ONLY);
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	uint64_t extra = e->at % page;
	uint64_t bytes = (e->bytes + extra + page - 1) / page * page;
	char *map;
	int rc;

	map = gm_thp_map(bytes, PROT_READ | (writable ? PROT_WRITE : 0),
			 MAP_SHARED, e->fd, (off_t)(e->at - extra));
	if (map == MAP_FAILED)
		return -errno;
	rc = gm_errand_populate(map, bytes, writable);
	if (rc < 0) {
		munmap(map, bytes);
		return rc;
	}
	slot->map = map;
	slot->map_bytes = bytes;
	slot->at = map + extra;
	slot->bytes = e->bytes;
	return 0;
}

static void work_register(struct gm_slow_job *job, struct gm_device *dev)
{
	struct gm_errand_job *e = (struct gm_errand_job *)job;
	struct gm_slot *slot = e->slot;

	e->rc = map_registered(e, slot);
	close(e->fd);
	if (e->rc < 0 || !dev->backend->reach)
		return;
	e->rc = dev->backend->reach(dev, slot->map, slot->map_bytes,
				    !(e->flags & GPUMAP_BUFFER_READ_ONLY),
				    &slot->region);
	if (e->rc < 0)
		gm_errand_drop_slot(dev, slot);
	else if (slot->region->address)
		slot->address = slot->region->address +
				(uint64_t)(slot->at - slot->map);
}

static void answer(struct gm_worker *w, const struct gm_session *s,
		   enum gm_wire_type type, uint64_t handle, uint64_t bytes,
		   int status, int fd)
{
	struct gm_wire wire = gm_pair_about(type, s->id, s->place);

	wire.handle = handle;
	wire.bytes = bytes;
	wire.status = status;
	gm_events_say(w, &wire, fd);
}

static void done_register(struct gm_slow_job *job, struct gm_worker *w)
{
	struct gm_errand_job *e = gm_errand_returned(job, w);
	struct gm_session *s = e->session;
	struct gm_slot *slot = e->slot;

	if (e->rc < 0) {
		gm_errand_abandon(s, slot);
	} else {
		slot->ground.part[0].at = slot->map;
		slot->ground.part[0].bytes = slot->map_bytes;
		slot->ground.whole = &s->ground;
		gm_fault_watch(&slot->ground);
		slot->ready = true;
	}
	answer(w, s, GM_WIRE_REGISTERED, e->handle, e->bytes, e->rc, -1);
	gm_errand_finished(w, e);
}

static struct gm_session *session_of(const struct gm_worker *w,
				     const struct gm_wire *wire)
{
	struct gm_session *s = NULL;

	if (wire->place < GM_JOURNAL_PLACES)
		s = w->place[wire->place];
	return s && s->id == wire->session ? s : NULL;
}

/* What gpumapd asks about a session that has none, or that cannot be. */
static void refuse(struct gm_worker *w, const struct gm_wire *wire,
		   enum gm_wire_type type, int status, int fd)
{
	struct gm_wire reply = gm_pair_about(type, wire->session, wire->place);

	reply.handle = wire->handle;
	reply.status = status;
	gm_events_say(w, &reply, -1);
	if (fd >= 0)
		close(fd);
}

/* A place for the handle of a record, and a job for it. */
static int prepare(struct gm_session *s, const struct gm_wire *wire, int fd,
		   struct gm_errand_job *e, struct gm_errand_job **ret_errand)
{
	int rc;

	if (!e)
		return -ENOMEM;
	rc = fd < 0 ? -EMFILE
		    : gm_buffers_add(&s->buffers, wire->handle, &e->slot);
	if (rc < 0) {
		free(e);
		return rc;
	}
	e->slot->flags = wire->flags;
	e->handle = wire->handle;
	e->bytes = wire->bytes;
	e->at = wire->at;
	e->flags = wire->flags;
	e->fd = fd;
	*ret_errand = e;
	return 0;
}

/* Nothing is asked of a file here: that could wait. */
static int register_file(struct gm_worker *w, struct gm_session *s,
			 const struct gm_wire *wire, int fd)
{
	struct gm_slot *slot;
	int rc = fd < 0 ? -EMFILE : 0;

	if (rc == 0 && !gm_errand_has_last(s))
		rc = -ENOMEM;
	if (rc == 0)
		rc = gm_buffers_add(&s->buffers, wire->handle, &slot);
	if (rc < 0)
		return rc;
	slot->fd = fd;
	slot->ready = true;
	answer(w, s, GM_WIRE_REGISTERED, wire->handle, 0, 0, -1);
	return 0;
}

static int register_memory(struct gm_worker *w, struct gm_session *s,
			   const struct gm_wire *wire, int fd)
{
	struct gm_errand_job *e;
	int rc;

	if (wire->bytes == 0 || wire->bytes > INT64_MAX ||
	    wire->at > INT64_MAX - wire->bytes)
		return -EINVAL;
	rc = prepare(s, wire, fd,
		     gm_errand_new(s, GM_CALL_REGISTER, work_register,
				   done_register),
		     &e);
	if (rc == 0)
		gm_errand_hand_over(w, e);
	return rc;
}

void gm_errands_register(struct gm_worker *worker, const struct gm_wire *wire,
			 int fd)
{
	struct gm_session *s = session_of(worker, wire);
	uint32_t kind = gm_handle_kind(wire->handle);
	int rc = s ? -EINVAL : -ENOENT;

	if (s && kind == GM_BUFFER_REGISTERED)
		rc = register_memory(worker, s, wire, fd);
	else if (s && kind == GM_BUFFER_FILE)
		rc = register_file(worker, s, wire, fd);
	if (rc < 0)
		refuse(worker, wire, GM_WIRE_REGISTERED, rc, fd);
}

void gm_errands_forget(struct gm_worker *worker, const struct gm_wire *wire)
{
	struct gm_session *s = session_of(worker, wire);
	struct gm_slot *slot = NULL;

	if (s)
		slot = gm_buffers_find(&s->buffers, wire->handle);
	/* What entries allocate, entries free. */
	if (!slot || !slot->ready ||
	    (slot->buffer && !slot->buffer->imported)) {
		refuse(worker, wire, GM_WIRE_FORGOTTEN, -ESTALE, -1);
		return;
	}
	gm_buffers_give_up(&s->buffers, slot, s->entries.pos);
	slot->answered_to = true;
	worker->n_forgets++;
	gm_errands_give_back(worker, s);
}

/* ---- export and import ------------------------------------------------- */

static void work_export(struct gm_slow_job *job, struct gm_device *dev)
{
	struct gm_errand_job *e = (struct gm_errand_job *)job;

	/* Who frees it now is behind us in the queue. */
	e->fd = dev->backend->export_fd(dev, e->slot->buffer);
	e->rc = e->fd < 0 ? e->fd : 0;
}

static void done_export(struct gm_slow_job *job, struct gm_worker *w)
{
	struct gm_errand_job *e = gm_errand_returned(job, w);

	answer(w, e->session, GM_WIRE_EXPORTED, e->handle, e->bytes, e->rc,
	       e->rc < 0 ? -1 : e->fd);
	gm_errand_finished(w, e);
}

void gm_errands_export(struct gm_worker *worker, const struct gm_wire *wire)
{
	struct gm_session *s = session_of(worker, wire);
	struct gm_slot *slot = NULL;
	struct gm_errand_job *e = NULL;
	int rc = 0;

	if (s)
		slot = gm_buffers_find(&s->buffers, wire->handle);
	if (!slot || !slot->ready || !slot->buffer)
		rc = -ESTALE;
	else if (!worker->dev->backend->export_fd || slot->buffer->imported ||
		 !(slot->flags & GPUMAP_BUFFER_EXPORTABLE))
		rc = -EOPNOTSUPP;
	if (rc == 0) {
		e = gm_errand_new(s, GM_CALL_EXPORT, work_export, done_export);
		rc = e ? 0 : -ENOMEM;
	}
	if (rc < 0) {
		refuse(worker, wire, GM_WIRE_EXPORTED, rc, -1);
		return;
	}
	e->slot = slot;
	e->handle = wire->handle;
	e->bytes = slot->bytes;
	gm_errand_hand_over(worker, e);
}

static void work_import(struct gm_slow_job *job, struct gm_device *dev)
{
	struct gm_errand_job *e = (struct gm_errand_job *)job;

	e->rc = dev->backend->import_fd(dev, e->fd, e->bytes, &e->slot->buffer);
	close(e->fd);
}

static void done_import(struct gm_slow_job *job, struct gm_worker *w)
{
	struct gm_errand_job *e = gm_errand_returned(job, w);

	if (e->rc < 0)
		gm_errand_abandon(e->session, e->slot);
	else
		gm_errand_open_slot(w, e->session, e->slot);
	answer(w, e->session, GM_WIRE_IMPORTED, e->handle, e->bytes, e->rc, -1);
	gm_errand_finished(w, e);
}

void gm_errands_import(struct gm_worker *worker, const struct gm_wire *wire,
		       int fd)
{
	struct gm_session *s = session_of(worker, wire);
	struct gm_errand_job *e;
	int rc = -ENOENT;

	if (s && (gm_handle_kind(wire->handle) != GM_BUFFER_DEVICE ||
		  gm_handle_row(wire->handle) != worker->row))
		rc = -EINVAL;
	else if (s && !worker->dev->backend->import_fd)
		rc = -EOPNOTSUPP;
	else if (s)
		rc = prepare(s, wire, fd,
			     gm_errand_new(s, GM_CALL_IMPORT, work_import,
					   done_import),
			     &e);
	if (rc < 0)
		refuse(worker, wire, GM_WIRE_IMPORTED, rc, fd);
	else
		gm_errand_hand_over(worker, e);
}
