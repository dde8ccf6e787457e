/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/worker/queue/session.h"

#include <errno.h>
#include <linux/futex.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/common/huge_pages.h"
#include "agent/common/numa_bind.h"
#include "agent/worker/queue/dependency.h"
#include "agent/worker/queue/quantum.h"
#include "shm/point.h"
#include "shm/tracepoint.h"

static bool inside(uint64_t at, uint64_t bytes, uint64_t size)
{
	return bytes <= size && at <= size - bytes;
}

/* gpumapd made these values, so a mismatch is a bug, found here and not later
 * by a page fault. */
static int check_wire(const struct gm_wire *wire, const int *fds)
{
	uint64_t queue_bytes;
	struct stat st;

	if (wire->attach.depth < GM_DEPTH_MIN ||
	    wire->attach.depth > GM_DEPTH_MAX ||
	    (wire->attach.depth & (wire->attach.depth - 1)) != 0)
		return -EINVAL;
	if (wire->place >= GM_JOURNAL_PLACES || wire->session == 0)
		return -EINVAL;
	queue_bytes = gm_queue_bytes(wire->attach.depth);
	if (wire->attach.queue_at < GM_PAGE ||
	    wire->attach.queue_at % GM_PAGE != 0 ||
	    fstat(fds[GM_SESSION_QUEUES], &st) < 0 ||
	    !inside(wire->attach.queue_at, queue_bytes, (uint64_t)st.st_size))
		return -EINVAL;
	if (fstat(fds[GM_SESSION_ARENA], &st) < 0 ||
	    !inside(0, wire->attach.arena_bytes, (uint64_t)st.st_size) ||
	    !inside(wire->attach.range_at, wire->attach.range_bytes,
		    wire->attach.arena_bytes))
		return -EINVAL;
	return 0;
}

/* Part of a file. */
struct part {
	int fd;
	uint64_t at;
	uint64_t bytes;
	int protection; /* as mmap()'s */
};

/* Map a part of a file as the mapping's part @i.  The layout's pages are 4 KiB
 * and the kernel's may be larger, so it may begin within a page of the
 * kernel's. */
static int map_part(struct gm_mapping *mapping, int i, struct part part,
		    void **ret_at)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	uint64_t extra = part.at % page;
	void *map;

	map = gm_huge_pages_map(part.bytes + extra, part.protection, MAP_SHARED,
				part.fd, (off_t)(part.at - extra));
	if (map == MAP_FAILED)
		return -errno;
	mapping->part[i].at = map;
	mapping->part[i].bytes = part.bytes + extra;
	*ret_at = (char *)map + extra;
	return 0;
}

/* If binding fails, the range stays usable from a remote node. */
static void bind_range(const struct gm_wire *wire, char *arena, int node)
{
	if (node >= 0 && wire->attach.range_bytes)
		gm_numa_bind_range(arena + wire->attach.range_at,
				   wire->attach.range_bytes, node,
				   GM_NUMA_BIND_PREFER);
}

/* This costs address space only until an entry waits for another row. */
static int map_timelines(struct gm_worker_session *s,
			 const struct gm_wire *wire, int fd)
{
	struct stat st;
	void *queues = NULL;
	uint64_t n;
	int rc;

	if (fstat(fd, &st) < 0)
		return -errno;
	n = ((uint64_t)st.st_size - GM_PAGE) /
	    gm_queue_bytes(wire->attach.depth);
	s->n_rows = n < GM_ROWS ? (uint32_t)n : GM_ROWS;
	rc = map_part(&s->mapping, 3,
		      (struct part){ .fd = fd,
				     .bytes = (uint64_t)st.st_size,
				     .protection = PROT_READ },
		      &queues);
	if (rc == 0)
		s->queues = queues;
	return rc;
}

static int map_all(struct gm_worker_session *s, const struct gm_wire *wire,
		   const int *fds, int node, bool with_arena)
{
	const int both = PROT_READ | PROT_WRITE;
	const int queues = fds[GM_SESSION_QUEUES];
	const struct part page = { queues, 0, GM_PAGE, both };
	const struct part own = { queues, wire->attach.queue_at,
				  gm_queue_bytes(wire->attach.depth), both };
	const struct part all = { fds[GM_SESSION_ARENA], 0,
				  wire->attach.arena_bytes, both };
	void *client = NULL, *queue = NULL, *arena = NULL;
	int rc;

	rc = map_part(&s->mapping, 0, page, &client);
	if (rc == 0)
		rc = map_part(&s->mapping, 1, own, &queue);
	if (rc == 0 && with_arena && wire->attach.arena_bytes)
		rc = map_part(&s->mapping, 2, all, &arena);
	if (rc == 0 && with_arena)
		rc = map_timelines(s, wire, queues);
	if (rc < 0)
		return rc;
	s->client = client;
	s->queue = queue;
	s->timeline = gm_queue_timeline(queue, wire->attach.depth);
	s->decoder.arena = arena;
	s->decoder.arena_bytes = with_arena ? wire->attach.arena_bytes : 0;
	if (!arena)
		return 0;
	bind_range(wire, arena, node);
	/* Effective where the administrator permits huge pages for shared
	 * memory on request; clients do the same for their large
	 * allocations. */
	madvise(s->mapping.part[2].at, s->mapping.part[2].bytes, MADV_HUGEPAGE);
	return 0;
}

static void unmap_all(struct gm_mapping *mapping)
{
	for (int i = 0; i < GM_MAPPING_PARTS; i++)
		if (mapping->part[i].at)
			gm_close_thread_unmap_now(mapping->part[i].at,
						  mapping->part[i].bytes);
}

static int keep(int *fd)
{
	int kept = *fd;

	*fd = -1;
	return kept;
}

int gm_session_map(const struct gm_wire *wire, int fds[GM_SESSION_FDS],
		   struct gm_journal *journal, int node, bool with_arena,
		   struct gm_worker_session **ret_session)
{
	uint32_t mask = wire->attach.depth - 1;
	struct gm_worker_session *s;
	int rc;

	if (fds[GM_SESSION_QUEUES] < 0)
		return -EMFILE;
	rc = check_wire(wire, fds);
	if (rc < 0)
		return rc;
	s = aligned_alloc(GM_LINE, sizeof(*s) + GM_LINE - sizeof(*s) % GM_LINE);
	if (!s)
		return -ENOMEM;
	*s = (struct gm_worker_session){ .id = wire->session,
					 .uid = wire->attach.uid,
					 .place = wire->place,
					 .quota = wire->attach.quota,
					 .range_at = wire->attach.range_at,
					 .range_bytes =
						 wire->attach.range_bytes };
	s->mapping.place = wire->place;
	gm_buffers_init(&s->buffers);
	s->decoder.buffers = &s->buffers;
	rc = map_all(s, wire, fds, node, with_arena);
	if (rc < 0) {
		unmap_all(&s->mapping);
		free(s);
		return rc;
	}
	gm_sigbus_watch(&s->mapping);
	s->signs = journal;
	s->owed = gm_journal_at(journal, wire->place);
	s->entries = (struct gm_ring){ gm_queue_entries(s->queue), mask, 0 };
	s->done = (struct gm_ring){ gm_queue_done(s->queue, wire->attach.depth),
				    mask, 0 };
	s->waker.parked = &s->client->parked;
	s->doorbell = keep(&fds[GM_SESSION_DOORBELL]);
	s->socket = keep(&fds[GM_SESSION_SOCKET]);

	/* An owner that died before it began has not consumed anything. */
	if (gm_get_acquire(&s->owed->session) != s->id) /* JOURNAL.order */
		gm_journal_open(s->owed, s->id);
	/* Device memory at the previous worker is gone. */
	gm_put(&s->owed->bytes, 0);
	s->buffers.shown = &s->owed->bytes;
	GM_POINT("worker_opened");
	*ret_session = s;
	return 0;
}

void gm_session_take_over(struct gm_worker_session *session,
			  uint32_t incarnation)
{
	struct gm_journal_state state =
		gm_journal_read(session->owed, session->entries.mask + 1);

	session->share = GM_TURN_FIRST;
	session->entries.pos = state.entry;
	session->done.pos = state.done;
	session->decoder.incarnation = incarnation;
	gm_time_begin(session, incarnation);
	gm_put_release(&session->queue->incarnation,
		       incarnation); /* QUEUE.born */
	GM_POINT("worker_incarnate");
	gm_ring_adopt(&session->queue->parked, &session->parked);
	GM_POINT("worker_adopted");
}

void gm_session_wake(struct gm_worker_session *session, bool in_any_case)
{
	struct gm_client *client = session->client;
	gm_a64 *wakes = &session->signs->wakes;

	gm_add_ordered(&client->wake, 1); /* RING.wake */
	GM_POINT("worker_wake_counted");
	/* Wake one waiter: a session belongs to one thread.  More waiters would
	 * be the client's own choice, at the worker's cost. */
	syscall(SYS_futex, &client->wake, FUTEX_WAKE, 1, NULL, NULL, 0);
	if (session->socket >= 0 && (in_any_case || gm_get(&client->by_fd)))
		send(session->socket, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
	gm_put(wakes, gm_get(wakes) + 1);
	GM_TRACEPOINT(wake, session->id);
}

/* Runs in the close thread. */
static void close_all(void *session)
{
	struct gm_worker_session *s = session;

	unmap_all(&s->mapping);
	if (s->doorbell >= 0)
		close(s->doorbell);
	if (s->socket >= 0)
		close(s->socket);
	s->gone(s);
}

void gm_session_unmap(struct gm_worker_session *session,
		      struct gm_close_thread *close_thread,
		      void (*gone)(void *session))
{
	gm_sigbus_unregister(&session->mapping);
	session->gone = gone;
	gm_close_thread_call_job(close_thread, &session->closing, close_all,
				 session);
}
