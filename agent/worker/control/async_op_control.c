/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/worker/control/async_op_private.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "agent/common/huge_pages.h"
#include "agent/worker/collective/collective.h"
#include "agent/worker/control/agent_socket.h"
#include "agent/worker/control/io_events.h"
#include "gpumap.h"

/* ---- registration ------------------------------------------------------ */

/* Map the file's part into the slot.  No page of it is populated. */
static int map_pages(struct gm_buffer_entry *slot, int fd, uint64_t at,
		     uint64_t bytes, bool writable)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	uint64_t extra = at % page;
	uint64_t whole = (bytes + extra + page - 1) / page * page;
	char *map;

	map = gm_huge_pages_map(whole, PROT_READ | (writable ? PROT_WRITE : 0),
				MAP_SHARED, fd, (off_t)(at - extra));
	if (map == MAP_FAILED)
		return -errno;
	slot->map = map;
	slot->map_bytes = whole;
	slot->at = map + extra;
	slot->bytes = bytes;
	return 0;
}

int gm_async_op_map(struct gm_buffer_entry *slot, int fd, uint64_t at,
		    uint64_t bytes, bool writable)
{
	int rc = map_pages(slot, fd, at, bytes, writable);

	if (rc < 0)
		return rc;
	rc = gm_async_op_populate(slot->map, slot->map_bytes, writable);
	if (rc < 0) {
		munmap(slot->map, slot->map_bytes);
		slot->map = NULL;
	}
	return rc;
}

/* Record the registration in the journal while it is in progress.  gpumapd
 * stops repeating a registration that workers die of, see
 * agent/daemon/workers/worker_request.h. */
static void enter(const struct gm_async_op_job *e)
{
	struct gm_journal *signs = e->session->signs;

	gm_put(&signs->slow_handle, e->handle);
	gm_put(&signs->slow_place, (uint64_t)e->session->place + 1);
}

static void leave(const struct gm_async_op_job *e)
{
	gm_put(&e->session->signs->slow_place, 0);
}

static void watch(struct gm_buffer_entry *slot, struct gm_mapping *whole)
{
	slot->mapping.part[0].at = slot->map;
	slot->mapping.part[0].bytes = slot->map_bytes;
	slot->mapping.whole = whole;
	gm_sigbus_watch(&slot->mapping);
}

static void do_register(struct gm_async_op_job *e,
			struct gm_backend_device *dev)
{
	bool writable = !(e->flags & GPUMAP_BUFFER_READ_ONLY);
	struct gm_buffer_entry *slot = e->slot;

	if (!slot->map) {
		e->rc = map_pages(slot, e->fd, e->at, e->bytes, writable);
		if (e->rc == 0)
			watch(slot, &e->session->mapping);
	}
	if (e->rc == 0)
		e->rc = gm_async_op_populate_part(e, slot->map, slot->map_bytes,
						  writable);
	if (e->job.again)
		return;
	close(e->fd);
	if (e->rc == 0 && dev->backend->reach)
		e->rc = dev->backend->reach(dev, slot->map, slot->map_bytes,
					    writable, &slot->region);
	if (e->rc < 0) {
		gm_sigbus_unregister(&slot->mapping);
		gm_async_op_drop_slot(dev, slot);
	} else if (slot->region && slot->region->address) {
		slot->address = slot->region->address +
				(uint64_t)(slot->at - slot->map);
	}
}

static void work_register(struct gm_blocking_job *job,
			  struct gm_backend_device *dev)
{
	struct gm_async_op_job *e = (struct gm_async_op_job *)job;

	enter(e);
	do_register(e, dev);
	leave(e);
}

/* Send the result of a job to gpumapd, with a descriptor or -1. */
static void answer(struct gm_worker *w, const struct gm_async_op_job *e,
		   enum gm_wire_type type, int fd)
{
	const struct gm_worker_session *s = e->session;
	struct gm_wire wire = gm_agent_socket_about(type, s->id, s->place);

	wire.handle = e->handle;
	wire.buffer.bytes = e->bytes;
	wire.status = e->rc;
	gm_io_events_say(w, &wire, fd);
}

/* Called before the answer.  With the last answer gpumapd publishes the row as
 * READY, and clients that see READY submit to this worker. */
static void arrived(struct gm_worker *w, const struct gm_async_op_job *e)
{
	if (e->awaited)
		gm_io_events_has_awaited(w, e->session);
}

/* ---- memory of the device ---------------------------------------------- */

static void work_import(struct gm_blocking_job *job,
			struct gm_backend_device *dev)
{
	struct gm_async_op_job *e = (struct gm_async_op_job *)job;

	e->rc = dev->backend->import_fd(dev, e->fd, e->bytes, &e->slot->buffer);
	close(e->fd);
}

static void imported(struct gm_blocking_job *job, struct gm_worker *w,
		     enum gm_wire_type type)
{
	struct gm_async_op_job *e = gm_async_op_returned(job, w);

	if (e->rc < 0)
		gm_async_op_abandon(e->session, e->slot);
	else
		gm_async_op_open_slot(w, e->session, e->slot);
	arrived(w, e);
	answer(w, e, type, -1);
	gm_async_op_finished(w, e);
}

static void done_import(struct gm_blocking_job *job, struct gm_worker *w)
{
	imported(job, w, GM_WIRE_IMPORTED);
}

/* Import of a mask that exists on the device.  For the session it is a
 * registration. */
static void done_register_import(struct gm_blocking_job *job,
				 struct gm_worker *w)
{
	imported(job, w, GM_WIRE_REGISTERED);
}

static void done_mapping(struct gm_worker *w, struct gm_async_op_job *e,
			 enum gm_wire_type type)
{
	struct gm_worker_session *s = e->session;
	struct gm_buffer_entry *slot = e->slot;

	if (e->rc < 0) {
		gm_async_op_abandon(s, slot);
	} else {
		slot->ready = true;
	}
	arrived(w, e);
	answer(w, e, type, -1);
	gm_async_op_finished(w, e);
}

static void done_register(struct gm_blocking_job *job, struct gm_worker *w)
{
	done_mapping(w, gm_async_op_returned(job, w), GM_WIRE_REGISTERED);
}

struct gm_worker_session *gm_async_op_session_of(const struct gm_worker *worker,
						 const struct gm_wire *wire)
{
	struct gm_worker_session *s = NULL;

	if (wire->place < GM_JOURNAL_PLACES)
		s = worker->place[wire->place];
	return s && s->id == wire->session ? s : NULL;
}

void gm_async_op_refuse(struct gm_worker *worker, const struct gm_wire *wire,
			enum gm_wire_type type, int status, int fd)
{
	struct gm_wire reply =
		gm_agent_socket_about(type, wire->session, wire->place);

	reply.handle = wire->handle;
	reply.buffer.stage_at = wire->buffer.stage_at;
	reply.buffer.borrower = wire->buffer.borrower;
	reply.status = status;
	gm_io_events_say(worker, &reply, -1);
	if (fd >= 0)
		close(fd);
}

/* Reserve a slot for the handle of a record, and fill in the job. */
static int prepare(struct gm_worker_session *s, const struct gm_wire *wire,
		   int fd, struct gm_async_op_job *e,
		   struct gm_async_op_job **ret_op)
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
	e->slot->flags = wire->buffer.flags;
	e->handle = wire->handle;
	e->bytes = wire->buffer.bytes;
	e->at = wire->buffer.at;
	e->flags = wire->buffer.flags;
	e->awaited = wire->buffer.is_awaited;
	e->fd = fd;
	*ret_op = e;
	return 0;
}

/* Register a file without operations on it that could block. */
static int register_file(struct gm_worker *w, struct gm_worker_session *s,
			 const struct gm_wire *wire, int fd)
{
	struct gm_buffer_entry *slot;
	int rc = fd < 0 ? -EMFILE : 0;

	if (rc == 0 && !gm_async_op_has_last(s))
		rc = -ENOMEM;
	if (rc == 0)
		rc = gm_buffers_add(&s->buffers, wire->handle, &slot);
	if (rc < 0)
		return rc;
	slot->fd = fd;
	/* Only memfds have seals.  The file system is not queried, because it
	 * may never answer. */
	slot->is_memory = fcntl(fd, F_GET_SEALS) >= 0;
	slot->ready = true;
	if (wire->buffer.is_awaited)
		gm_io_events_has_awaited(w, s);
	answer(w,
	       &(struct gm_async_op_job){ .session = s,
					  .handle = wire->handle },
	       GM_WIRE_REGISTERED, -1);
	return 0;
}

static int register_memory(struct gm_worker *w, struct gm_worker_session *s,
			   const struct gm_wire *wire, int fd)
{
	bool is_ours = wire->buffer.is_card;
	struct gm_async_op_job *e;
	int rc;

	if (wire->buffer.bytes == 0 || wire->buffer.bytes > INT64_MAX ||
	    wire->buffer.at > INT64_MAX - wire->buffer.bytes)
		return -EINVAL;
	if (is_ours && !w->dev->backend->import_fd)
		return -EOPNOTSUPP;
	rc = prepare(s, wire, fd,
		     is_ours ? gm_async_op_new(s, GM_CALL_IMPORT, work_import,
					       done_register_import)
			     : gm_async_op_new(s, GM_CALL_REGISTER,
					       work_register, done_register),
		     &e);
	if (rc < 0)
		return rc;
	e->job.kind = GM_BLOCKING_MAKES;
	gm_async_op_hand_over(w, e);
	return 0;
}

/* ---- programs ---------------------------------------------------------- */

static void do_program(struct gm_async_op_job *e, struct gm_backend_device *dev)
{
	char kernel[GM_PROGRAM_WHY_BYTES];

	if (!dev->backend->load_kernel) {
		e->rc = gm_program_load(e->fd, &e->slot->program, e->why);
		return;
	}
	memcpy(kernel, e->why, sizeof(kernel));
	e->rc = gm_program_load_image(dev, e->fd, kernel, &e->slot->program,
				      e->why);
}

static void work_program(struct gm_blocking_job *job,
			 struct gm_backend_device *dev)
{
	struct gm_async_op_job *e = (struct gm_async_op_job *)job;

	enter(e);
	do_program(e, dev);
	leave(e);
}

static void done_program(struct gm_blocking_job *job, struct gm_worker *w)
{
	struct gm_async_op_job *e = gm_async_op_returned(job, w);
	struct gm_worker_session *s = e->session;
	struct gm_wire wire =
		gm_agent_socket_about(GM_WIRE_REGISTERED, s->id, s->place);

	if (e->rc < 0)
		gm_async_op_abandon(s, e->slot);
	else
		e->slot->ready = true;
	wire.handle = e->handle;
	wire.status = e->rc;
	snprintf(wire.text, sizeof(wire.text), "%s", e->why);
	arrived(w, e);
	gm_io_events_say(w, &wire, -1);
	gm_async_op_finished(w, e);
}

static int register_program(struct gm_worker *w, struct gm_worker_session *s,
			    const struct gm_wire *wire, int fd)
{
	struct gm_async_op_job *e;
	int rc;

	rc = prepare(s, wire, fd,
		     gm_async_op_new(s, GM_CALL_START, work_program,
				     done_program),
		     &e);
	if (rc < 0)
		return rc;
	snprintf(e->why, sizeof(e->why), "%.*s", (int)sizeof(wire->text) - 1,
		 wire->text);
	gm_async_op_hand_over(w, e);
	return 0;
}

void gm_async_ops_register(struct gm_worker *worker, const struct gm_wire *wire,
			   int fd)
{
	struct gm_worker_session *s = gm_async_op_session_of(worker, wire);
	uint32_t kind = gm_handle_kind(wire->handle);
	int rc = s ? -EINVAL : -ENOENT;

	if (s && kind == GM_BUFFER_REGISTERED)
		rc = register_memory(worker, s, wire, fd);
	else if (s && kind == GM_BUFFER_FILE)
		rc = register_file(worker, s, wire, fd);
	else if (s && kind == GM_BUFFER_PROGRAM)
		rc = register_program(worker, s, wire, fd);
	if (rc == 0)
		return;
	if (s && wire->buffer.is_awaited)
		gm_io_events_has_awaited(worker, s);
	gm_async_op_refuse(worker, wire, GM_WIRE_REGISTERED, rc, fd);
}

void gm_async_ops_forget(struct gm_worker *worker, const struct gm_wire *wire)
{
	struct gm_worker_session *s = gm_async_op_session_of(worker, wire);
	struct gm_buffer_entry *slot = NULL;

	if (gm_handle_generation(wire->handle) == 0) {
		gm_collective_forget(worker, wire);
		return;
	}
	if (s)
		slot = gm_buffers_find(&s->buffers, wire->handle);
	/* Memory that an entry allocated is freed by an entry only. */
	if (!slot || !slot->ready ||
	    (slot->buffer && !slot->buffer->imported)) {
		gm_async_op_refuse(worker, wire, GM_WIRE_FORGOTTEN, -ESTALE,
				   -1);
		return;
	}
	gm_buffers_give_up(&s->buffers, slot, s->entries.pos);
	slot->answered_to = true;
	worker->n_forgets++;
	gm_async_ops_give_back(worker, s);
}

/* ---- export and import ------------------------------------------------- */

static void work_export(struct gm_blocking_job *job,
			struct gm_backend_device *dev)
{
	struct gm_async_op_job *e = (struct gm_async_op_job *)job;

	/* A job that frees the memory is queued behind this one. */
	e->fd = dev->backend->export_fd(dev, e->slot->buffer);
	e->rc = e->fd < 0 ? e->fd : 0;
}

static void done_export(struct gm_blocking_job *job, struct gm_worker *w)
{
	struct gm_async_op_job *e = gm_async_op_returned(job, w);

	answer(w, e, GM_WIRE_EXPORTED, e->rc < 0 ? -1 : e->fd);
	gm_async_op_finished(w, e);
}

void gm_async_ops_export(struct gm_worker *worker, const struct gm_wire *wire)
{
	struct gm_worker_session *s = gm_async_op_session_of(worker, wire);
	struct gm_buffer_entry *slot = NULL;
	struct gm_async_op_job *e = NULL;
	int rc = 0;

	if (s)
		slot = gm_buffers_find(&s->buffers, wire->handle);
	if (!slot || !slot->ready || !slot->buffer)
		rc = -ESTALE;
	else if (!worker->dev->backend->export_fd || slot->buffer->imported ||
		 !(slot->flags & GPUMAP_BUFFER_EXPORTABLE))
		rc = -EOPNOTSUPP;
	if (rc == 0) {
		e = gm_async_op_new(s, GM_CALL_EXPORT, work_export,
				    done_export);
		rc = e ? 0 : -ENOMEM;
	}
	if (rc < 0) {
		gm_async_op_refuse(worker, wire, GM_WIRE_EXPORTED, rc, -1);
		return;
	}
	e->slot = slot;
	e->handle = wire->handle;
	e->bytes = slot->bytes;
	gm_async_op_hand_over(worker, e);
}

/* Memory of a host row is a file, as a client's registered memory is. */
static void done_import_file(struct gm_blocking_job *job, struct gm_worker *w)
{
	done_mapping(w, gm_async_op_returned(job, w), GM_WIRE_IMPORTED);
}

static void work_import_peer(struct gm_blocking_job *job,
			     struct gm_backend_device *dev)
{
	struct gm_async_op_job *e = (struct gm_async_op_job *)job;

	e->rc = dev->backend->import_peer(dev, e->fd, e->bytes,
					  &e->slot->buffer);
	close(e->fd);
}

/* Make the job that imports memory of another row. */
static struct gm_async_op_job *new_import(struct gm_worker *w,
					  struct gm_worker_session *s,
					  const struct gm_wire *wire)
{
	if (gm_handle_row(wire->handle) == w->row)
		return gm_async_op_new(s, GM_CALL_IMPORT, work_import,
				       done_import);
	if (!wire->buffer.is_card)
		return gm_async_op_new(s, GM_CALL_REGISTER, work_register,
				       done_import_file);
	return gm_async_op_new(s, GM_CALL_IMPORT, work_import_peer,
			       done_import);
}

static bool can_import(const struct gm_worker *w, const struct gm_wire *wire)
{
	if (gm_handle_row(wire->handle) == w->row)
		return w->dev->backend->import_fd;
	return !wire->buffer.is_card || w->dev->backend->import_peer;
}

void gm_async_ops_import(struct gm_worker *worker, const struct gm_wire *wire,
			 int fd)
{
	struct gm_worker_session *s = gm_async_op_session_of(worker, wire);
	struct gm_async_op_job *e;
	int rc = -ENOENT;

	if (s && (gm_handle_kind(wire->handle) != GM_BUFFER_DEVICE ||
		  wire->buffer.bytes == 0 || wire->buffer.bytes > INT64_MAX))
		rc = -EINVAL;
	else if (s && !can_import(worker, wire))
		rc = -EOPNOTSUPP;
	else if (s)
		rc = prepare(s, wire, fd, new_import(worker, s, wire), &e);
	if (rc < 0) {
		gm_async_op_refuse(worker, wire, GM_WIRE_IMPORTED, rc, fd);
		return;
	}
	e->job.kind = GM_BLOCKING_MAKES;
	gm_async_op_hand_over(worker, e);
}
