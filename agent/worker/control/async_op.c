/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/worker/control/async_op_private.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "agent/common/huge_pages.h"
#include "agent/worker/collective/collective.h"
#include "agent/worker/collective/nccl_group.h"
#include "agent/worker/control/agent_socket.h"
#include "agent/worker/control/io_events.h"
#include "agent/worker/io/remote_copy.h"
#include "agent/worker/memory/alloc.h"
#include "agent/worker/memory/stall_guard.h"
#include "agent/worker/programs/program.h"
#include "agent/worker/queue/async_exec.h"
#include "agent/worker/queue/quantum.h"
#include "agent/worker/queue/run_queue.h"
#include "gpumap.h"
#include "shm/point.h"
#include "shm/queue.h"

/* Populated in one turn of the slow thread: tens of milliseconds. */
#define POPULATE_BYTES (UINT64_C(64) << 20)

#ifndef MADV_POPULATE_READ /* Linux 5.14 */
#define MADV_POPULATE_READ  22
#define MADV_POPULATE_WRITE 23
#endif

/* The job that releases all of a session is allocated with its first request,
 * because leaving must not need memory. */
bool gm_async_op_has_last(struct gm_worker_session *s)
{
	if (s->last_op)
		return true;
	s->last_op = calloc(1, sizeof(*s->last_op));
	return s->last_op;
}

struct gm_async_op_job *gm_async_op_new(struct gm_worker_session *s,
					enum gm_worker_call call,
					gm_async_op_work work,
					gm_async_op_done done)
{
	struct gm_async_op_job *e;

	if (!gm_async_op_has_last(s))
		return NULL;
	e = calloc(1, sizeof(*e));
	if (!e)
		return NULL;
	e->job.call = call;
	e->job.work = work;
	e->job.done = done;
	e->session = s;
	e->fd = -1;
	STAILQ_INIT(&e->slots);
	return e;
}

void gm_async_op_hand_over(struct gm_worker *w, struct gm_async_op_job *e)
{
	struct gm_user_budget *budget = e->session->buffers.budget;

	e->session->n_slow++;
	e->job.memory = &e->session->mapping;
	gm_blocking_thread_give(&w->slow, budget ? &budget->blocking : NULL,
				&e->job);
}

void gm_async_op_hand_to_clique(struct gm_async_op_job *e)
{
	e->session->n_slow++;
	gm_blocking_thread_give(&e->member->thread->slow, NULL, &e->job);
}

/* A job returned from the slow thread.  A device failure is handled before
 * anything else. */
struct gm_async_op_job *gm_async_op_returned(struct gm_blocking_job *job,
					     struct gm_worker *w)
{
	struct gm_async_op_job *e = (struct gm_async_op_job *)job;

	if (e->rc == -ENOTRECOVERABLE)
		gm_io_events_failed(w);
	e->session->n_slow--;
	return e;
}

void gm_async_op_finished(struct gm_worker *w, struct gm_async_op_job *e)
{
	struct gm_worker_session *s = e->session;

	free(e);
	if (s->departing)
		gm_async_ops_depart(w, s);
	else if (s->ended)
		gm_async_ops_give_back(w, s);
}

/* ---- release ----------------------------------------------------------- */

void gm_async_op_drop_slot(struct gm_backend_device *dev,
			   struct gm_buffer_entry *slot)
{
	if (slot->region)
		dev->backend->unreach(dev, slot->region);
	if (slot->map)
		gm_close_thread_unmap_now(slot->map, slot->map_bytes);
	if (slot->buffer)
		dev->backend->free(dev, slot->buffer);
	gm_program_unload(dev, slot->program);
	slot->program = NULL;
	slot->region = NULL;
	slot->map = NULL;
	slot->buffer = NULL;
}

static void work_drop(struct gm_blocking_job *job,
		      struct gm_backend_device *dev)
{
	struct gm_async_op_job *e = (struct gm_async_op_job *)job;
	struct gm_buffer_entry *slot;

	STAILQ_FOREACH(slot, &e->slots, entry)
	gm_async_op_drop_slot(dev, slot);
	for (uint32_t i = 0; i < e->n_regions; i++)
		if (e->regions[i])
			dev->backend->unreach(dev, e->regions[i]);
}

static void say_forgotten(struct gm_worker *w,
			  const struct gm_worker_session *s, uint64_t handle,
			  int status)
{
	struct gm_wire wire =
		gm_agent_socket_about(GM_WIRE_FORGOTTEN, s->id, s->place);

	wire.handle = handle;
	wire.status = status;
	gm_io_events_say(w, &wire, -1);
}

static void free_slots(struct gm_worker *w, struct gm_async_op_job *e)
{
	struct gm_buffer_entry *slot;

	while ((slot = STAILQ_FIRST(&e->slots)) != NULL) {
		STAILQ_REMOVE_HEAD(&e->slots, entry);
		if (slot->answered_to)
			say_forgotten(w, e->session, slot->handle, 0);
		if (slot->fd >= 0)
			gm_io_events_close(w, slot->fd);
		free(slot);
	}
}

static void done_drop(struct gm_blocking_job *job, struct gm_worker *w)
{
	struct gm_async_op_job *e = gm_async_op_returned(job, w);

	free_slots(w, e);
	gm_async_op_finished(w, e);
}

uint32_t gm_async_op_settled(const struct gm_worker_session *s)
{
	if (s->ended && !s->load && !s->n_slow &&
	    !(s->flights && gm_async_exec_waits(s)))
		return s->entries.pos;
	if (s->flights)
		return gm_async_exec_oldest(s);
	return s->entries.pos - (s->work.bytes || s->stalled ? 1 : 0);
}

void gm_async_ops_give_back(struct gm_worker *worker,
			    struct gm_worker_session *session)
{
	struct gm_buffer_table *buffers = &session->buffers;
	uint32_t now = gm_async_op_settled(session);
	struct gm_buffer_entry *slot;
	struct gm_async_op_job *e;

	if (!STAILQ_FIRST(&buffers->given_up))
		return;
	e = gm_async_op_new(session, GM_CALL_FREE, work_drop, done_drop);
	/* The slots wait for the next call. */
	if (!e)
		return;
	e->job.kind = GM_BLOCKING_FREES;
	while ((slot = gm_buffers_next_given_up(buffers, now)) != NULL) {
		if (slot->answered_to)
			worker->n_forgets--;
		if (slot->region)
			e->job.call = GM_CALL_FORGET;
		else if (slot->program)
			e->job.call = GM_CALL_START;
		gm_remote_copy_queue_hurry(worker, session, slot);
		gm_sigbus_unregister(&slot->mapping);
		STAILQ_INSERT_TAIL(&e->slots, slot, entry);
	}
	if (STAILQ_EMPTY(&e->slots))
		free(e);
	else
		gm_async_op_hand_over(worker, e);
}

void gm_async_ops_look(struct gm_worker *worker)
{
	for (uint32_t i = 0; worker->n_forgets && i < GM_JOURNAL_PLACES; i++)
		if (worker->place[i])
			gm_async_ops_give_back(worker, worker->place[i]);
}

/* ---- entries ------------------------------------------------------------ */

void gm_async_op_open_slot(struct gm_worker *w, struct gm_worker_session *s,
			   struct gm_buffer_entry *slot)
{
	struct gm_buffer *buffer = slot->buffer;

	slot->bytes = buffer->bytes;
	slot->address = buffer->address;
	/* A device that computes in the worker's own threads has the memory
	 * mapped. */
	if (!w->dev->backend->start) {
		slot->at = (char *)(uintptr_t)buffer->address;
		slot->mapping.part[0].at = slot->at;
		slot->mapping.part[0].bytes = buffer->bytes;
		slot->mapping.whole = &s->mapping;
		gm_sigbus_watch(&slot->mapping);
	}
	slot->ready = true;
}

void gm_async_op_abandon(struct gm_worker_session *s,
			 struct gm_buffer_entry *slot)
{
	gm_buffers_remove(&s->buffers, slot);
	free(slot);
}

void gm_async_op_stall(struct gm_worker *w, struct gm_worker_session *s)
{
	s->stalled = true;
	gm_run_queue_drop(w, s);
	GM_POINT("worker_stalled");
}

void gm_async_op_ended(struct gm_worker *w, struct gm_worker_session *s,
		       int32_t status)
{
	GM_ACCESSES(&s->mapping);

	if (!s->ended && !s->departing) {
		if (s->flights)
			gm_async_exec_finish(s, status);
		else
			gm_quantum_finish(s, status);
	}
	s->stalled = false;
	gm_async_ops_give_back(w, s);
	if (!s->departing)
		gm_run_queue_wake(w, s);
}

int gm_async_ops_begin(struct gm_worker *worker,
		       struct gm_worker_session *session)
{
	switch (session->pending.op) {
	case GPUMAP_OP_LOAD:
		return gm_load_begin(worker, session);
	case GPUMAP_OP_COPY:
		return gm_remote_copy_begin(worker, session);
	case GPUMAP_OP_ALLOC:
		return gm_alloc_begin(worker, session);
	default:
		return gm_collective_begin(worker, session);
	}
}

int gm_async_op_populate(char *at, uint64_t bytes, bool writable)
{
	if (writable)
		gm_huge_pages_fill(at, bytes);
	if (madvise(at, bytes,
		    writable ? MADV_POPULATE_WRITE : MADV_POPULATE_READ) == 0 ||
	    errno == EINVAL)
		return 0;
	return -errno;
}

int gm_async_op_populate_part(struct gm_async_op_job *e, char *at,
			      uint64_t bytes, bool writable)
{
	uint64_t n = bytes - e->populated;
	int rc;

	if (n > POPULATE_BYTES)
		n = POPULATE_BYTES;
	rc = gm_async_op_populate(at + e->populated, n, writable);
	/* The guard may have replaced the memory meanwhile. */
	if (rc == 0 && gm_get(&e->session->mapping.broken))
		rc = -EFAULT;
	if (rc < 0)
		return rc;
	e->populated += n;
	e->job.again = e->populated < bytes;
	return 0;
}

/* ---- the arena --------------------------------------------------------- */

static void work_reach(struct gm_blocking_job *job,
		       struct gm_backend_device *dev)
{
	struct gm_async_op_job *e = (struct gm_async_op_job *)job;
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	char *at = e->session->decoder.arena + e->at;
	uint64_t bytes = (e->bytes + page - 1) / page * page;

	e->rc = gm_async_op_populate_part(e, at, bytes, true);
	if (e->rc == 0 && !job->again)
		e->rc = dev->backend->reach(dev, at, bytes, true, &e->region);
}

static void done_reach(struct gm_blocking_job *job, struct gm_worker *w)
{
	struct gm_async_op_job *e = gm_async_op_returned(job, w);
	struct gm_worker_session *s = e->session;

	if (e->rc == 0)
		s->reached[e->part] = e->region;
	if (!s->ended && !s->departing) {
		gm_async_exec_reached(w, s, e->rc);
		gm_run_queue_wake(w, s);
	}
	gm_async_op_finished(w, e);
}

int gm_async_ops_reach(struct gm_worker *worker,
		       struct gm_worker_session *session, uint32_t part)
{
	struct gm_async_op_job *e = gm_async_op_new(session, GM_CALL_REGISTER,
						    work_reach, done_reach);

	if (!e)
		return -ENOMEM;
	e->job.kind = GM_BLOCKING_MAKES;
	e->part = part;
	e->at = part * session->decoder.reached_each;
	e->bytes = session->decoder.arena_bytes - e->at;
	if (e->bytes > session->decoder.reached_each)
		e->bytes = session->decoder.reached_each;
	gm_async_op_hand_over(worker, e);
	return 0;
}

/* ---- departure --------------------------------------------------------- */

/* Runs in the close thread, when nothing of the session is mapped any more. */
static void say_detached(void *session)
{
	struct gm_worker_session *s = session;

	gm_agent_socket_say(s->pair, GM_WIRE_DETACHED, s->id, s->place, 0, "");
	free(s->flights);
	free(s->reached);
	free(s->buffers.slot); /* a table without slots */
	free(s);
}

static void done_depart(struct gm_blocking_job *job, struct gm_worker *w)
{
	struct gm_async_op_job *e = gm_async_op_returned(job, w);
	struct gm_worker_session *s = e->session;

	free_slots(w, e);
	free(e);
	gm_buffers_close_budget(&s->buffers, &w->budgets);
	gm_session_unmap(s, &w->close_thread, say_detached);
	gm_alloc_retry(w);
}

void gm_async_ops_depart(struct gm_worker *worker,
			 struct gm_worker_session *session)
{
	struct gm_worker_session *s = session;
	struct gm_async_op_job *e = s->last_op;
	struct gm_buffer_entry *slot;

	gm_remote_copy_leave(worker, s);
	gm_alloc_leave(worker, s);
	gm_remote_copy_queue_hurry(worker, s, NULL);
	s->departing = true;
	gm_buffers_leave(&s->buffers);
	if (s->n_slow || s->load || (s->flights && gm_async_exec_waits(s)))
		return;
	if (!e) { /* the session never had a request */
		gm_buffers_close_budget(&s->buffers, &worker->budgets);
		gm_session_unmap(s, &worker->close_thread, say_detached);
		gm_alloc_retry(worker);
		return;
	}
	e->job.kind = GM_BLOCKING_FREES;
	e->job.call = GM_CALL_FREE;
	e->job.work = work_drop;
	e->job.done = done_depart;
	e->session = s;
	gm_buffers_take_all(&s->buffers, &e->slots);
	STAILQ_FOREACH(slot, &e->slots, entry)
	{
		if (slot->answered_to)
			worker->n_forgets--;
		gm_sigbus_unregister(&slot->mapping);
	}
	e->regions = s->reached;
	e->n_regions = s->n_reached;
	gm_async_op_hand_over(worker, e);
}

void gm_async_ops_done(struct gm_worker *worker)
{
	struct gm_blocking_job *job;

	while ((job = gm_blocking_thread_take(&worker->slow)) != NULL)
		job->done(job, worker);
	if (!worker->has_cliques)
		return;
	while ((job = gm_nccl_group_done(worker)) != NULL)
		job->done(job, worker);
}
