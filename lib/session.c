/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "lib/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shm/rows.h"

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

/* Older headers lack it. */
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

/* The gap that spinning assumes before the first measured one. */
#define FIRST_GAP_NS UINT64_C(10000)

static bool valid_depth(uint32_t depth)
{
	return depth >= GM_DEPTH_MIN && depth <= GM_DEPTH_MAX &&
	       (depth & (depth - 1)) == 0;
}

/* Map a memfd whose seals keep every process from shrinking it. */
static int map_sealed(int fd, uint64_t bytes, void **ret_memory)
{
	struct stat file;
	void *memory;
	int seals = fcntl(fd, F_GET_SEALS);

	if (seals < 0 || (seals & SEALS) != SEALS)
		return -EPROTO;
	if (fstat(fd, &file) != 0)
		return -errno;
	if ((uint64_t)file.st_size < bytes)
		return -EPROTO;
	memory = gm_huge_map(fd, bytes);
	if (memory == MAP_FAILED)
		return -errno;
	/* The rings have one producer: a forked child must not be a second
	 * one. */
	if (madvise(memory, bytes, MADV_DONTFORK) != 0) {
		int error = -errno;

		munmap(memory, bytes);
		return error;
	}
	*ret_memory = memory;
	return 0;
}

static int map_memory(struct gpumap_session *s, const struct gm_call *call)
{
	void *memory;
	int ret = map_sealed(call->fds[0], s->queues_bytes, &memory);

	if (ret != 0)
		return ret;
	s->client = memory;
	ret = map_sealed(call->fds[1], s->arena_bytes, &memory);
	if (ret != 0)
		return ret;
	s->arena = memory;
	if (s->sparse)
		return 0;
	/* For small allocations, where the administrator lets shared memory
	 * have huge pages as it is touched; large ones have them anyway. */
	madvise(memory, s->arena_bytes, MADV_HUGEPAGE);
	return gm_huge_init(&s->huge, s->arena, s->n_rows, s->range_bytes);
}

/* Validate the agent's reply and take what it granted. */
static int accept_reply(struct gpumap_session *s, struct gm_call *call,
			const struct gm_session_reply *reply,
			const struct gm_session_open *asked)
{
	bool pollable = (asked->flags & GPUMAP_SESSION_POLLABLE) != 0;
	int ret;

	if (!valid_depth(reply->depth) || reply->n_rows == 0 ||
	    reply->n_rows > GM_ROWS || reply->range_bytes == 0 ||
	    reply->range_bytes % GM_PAGE != 0 ||
	    reply->range_bytes > (uint64_t)INT64_MAX / GM_ROWS ||
	    reply->range_bytes < asked->range_bytes ||
	    (asked->depth != 0 && reply->depth != asked->depth) ||
	    call->n_fds != (pollable ? 3u : 2u))
		return -EPROTO;
	s->id = reply->id;
	s->depth = reply->depth;
	s->n_rows = reply->n_rows;
	s->range_bytes = reply->range_bytes;
	s->arena_bytes = reply->n_rows * reply->range_bytes;
	s->queues_bytes = gm_queue_at(reply->n_rows, reply->depth);
	ret = map_memory(s, call);
	if (ret == 0 && pollable) {
		s->wake_fd = call->fds[2];
		call->fds[2] = -1;
	}
	return ret;
}

static int request_session(struct gpumap_session *s,
			   const struct gm_session_open *open)
{
	struct gm_session_reply reply;
	struct gm_call call = { GM_REQUEST(GM_CONTROL_SESSION_OPEN, *open),
				GM_REPLY(reply) };
	int ret = gm_link_open(s->map, &s->link, call.why);

	if (ret == 0)
		ret = gm_link_call(s->map, &s->link, &call, 3);
	if (ret == -EPIPE)
		ret = -ECONNRESET;
	if (ret == 0)
		ret = accept_reply(s, &call, &reply, open);
	gm_call_close_fds(&call);
	return gm_refuse_call(s->map, ret, &call);
}

int gpumap_session_open(struct gpumap *map,
			const struct gpumap_session_opts *opts,
			struct gpumap_session **ret_session)
{
	struct gpumap_session_opts ours = { 0 };
	struct gm_session_open open;
	struct gpumap_session *s;
	int ret = gm_map_begin(map);

	if (ret == 0 && opts != NULL)
		ret = gm_map_size_in(map, &ours, sizeof(ours), opts);
	if (ret != 0)
		return ret;
	if ((ours.flags & ~(GPUMAP_SESSION_POLLABLE | GPUMAP_SESSION_SPARSE |
			    GPUMAP_SESSION_PROGRAMS)) != 0)
		return gm_refuse_unknown(map);
	if (ours.depth != 0 && !valid_depth(ours.depth))
		return gm_refuse(map, -EINVAL,
				 "a depth is a power of two from %u to %u, and "
				 "not %u",
				 GM_DEPTH_MIN, GM_DEPTH_MAX, ours.depth);
	s = calloc(1, sizeof(*s));
	if (s == NULL)
		return gm_refuse_memory(map, sizeof(*s));
	s->map = map;
	s->link.fd = -1;
	s->wake_fd = -1;
	s->sparse = (ours.flags & GPUMAP_SESSION_SPARSE) != 0;
	s->runs_programs = (ours.flags & GPUMAP_SESSION_PROGRAMS) != 0;
	s->done_last = &s->done_first;
	s->gap_ns = FIRST_GAP_NS;
	s->epoch = gm_get(&map->map.header->epoch);
	open = (struct gm_session_open){ .depth = ours.depth,
					 .flags = ours.flags &
						  ~GPUMAP_SESSION_SPARSE,
					 .range_bytes = ours.arena_bytes };
	ret = gm_fork_guard_make(&s->mine);
	if (ret == 0)
		ret = gm_client_buffers_init(&s->buffers);
	if (ret == 0)
		ret = request_session(s, &open);
	if (ret != 0) {
		gpumap_session_close(s);
		return ret;
	}
	s->looked_ns = gm_now_ns();
	*ret_session = s;
	return 0;
}

static void close_pair(struct gm_queue_pair *pair)
{
	if (pair->doorbell >= 0)
		close(pair->doorbell);
	gm_arena_fini(&pair->arena);
	free(pair->tickets);
	free(pair);
}

void gpumap_session_close(struct gpumap_session *session)
{
	struct gpumap_session *s = session;

	if (s == NULL)
		return;
	gm_parts_drop(s);
	/* In a forked child these addresses are unmapped, or map something
	 * else. */
	if (gm_guard_mine(&s->mine)) {
		if (s->client != NULL)
			munmap(s->client, s->queues_bytes);
		if (s->arena != NULL)
			munmap(s->arena, s->arena_bytes);
		gm_link_close(&s->link);
	}
	gm_link_forget(&s->link);
	for (uint32_t row = 0; row < GM_ROWS; row++)
		if (s->pairs[row] != NULL)
			close_pair(s->pairs[row]);
	gm_spread_drop_session(s);
	gm_shares_fini(s);
	gm_buffers_fini(&s->buffers);
	gm_huge_fini(&s->huge);
	if (s->wake_fd >= 0)
		close(s->wake_fd);
	gm_fork_guard_drop(&s->mine);
	free(s);
}

int gm_session_begin(const struct gpumap_session *session)
{
	return gm_refuse_plain(session->map, gm_session_usable(session));
}

int gm_session_call(struct gpumap_session *session, struct gm_call *call,
		    uint32_t max_fds)
{
	int ret = gm_link_call(session->map, &session->link, call, max_fds);

	if (session->link.fd < 0)
		gm_session_lose(session);
	return gm_refuse_call(session->map, ret == -EPIPE ? -ECONNRESET : ret,
			      call);
}

/* ---- queue pairs -------------------------------------------------------- */

static int request_queue(struct gpumap_session *s, struct gm_queue_pair *pair)
{
	struct gm_queue_open open = { .row = pair->row };
	struct gm_queue_reply reply;
	struct gm_call call = { GM_REQUEST(GM_CONTROL_QUEUE_OPEN, open),
				GM_REPLY(reply) };
	int ret = gm_session_call(s, &call, 1);

	if (ret == 0 &&
	    (call.n_fds != 1 || reply.at != gm_queue_at(pair->row, s->depth) ||
	     reply.bytes != gm_queue_bytes(s->depth)))
		ret = -EPROTO;
	if (ret == 0) {
		pair->doorbell = call.fds[0];
		call.n_fds = 0;
	}
	gm_call_close_fds(&call);
	return ret;
}

static void set_up_rings(struct gpumap_session *s, struct gm_queue_pair *pair)
{
	char *at = (char *)s->client + gm_queue_at(pair->row, s->depth);
	struct gm_queue *queue = (struct gm_queue *)(void *)at;

	pair->queue = queue;
	pair->timeline = gm_queue_timeline(queue, s->depth);
	pair->out.slots = gm_queue_entries(queue);
	pair->out.mask = s->depth - 1;
	pair->in.slots = gm_queue_done(queue, s->depth);
	pair->in.mask = s->depth - 1;
	pair->waker.parked = &queue->parked;
	/* Populate its pages now, not during the first job.  A failure does no
	 * harm. */
	madvise(queue, gm_queue_bytes(s->depth), MADV_POPULATE_WRITE);
}

static int open_pair(struct gpumap_session *s, uint32_t row)
{
	struct gm_queue_pair *pair = calloc(1, sizeof(*pair));
	int ret;

	if (pair == NULL)
		return gm_refuse_memory(s->map, sizeof(*pair));
	pair->row = row;
	pair->doorbell = -1;
	pair->tickets = calloc(s->depth, sizeof(*pair->tickets));
	ret = pair->tickets != NULL
		      ? gm_arena_init(&pair->arena, row * s->range_bytes,
				      s->range_bytes)
		      : -ENOMEM;
	if (ret != 0)
		gm_refuse_memory(s->map, s->depth * sizeof(*pair->tickets));
	else
		ret = request_queue(s, pair);
	if (ret != 0) {
		close_pair(pair);
		return ret;
	}
	set_up_rings(s, pair);
	s->pairs[row] = pair;
	return 0;
}

int gm_session_lacks(struct gpumap_session *session, uint32_t row)
{
	const struct gm_map *map = &session->map->map;
	struct gm_row_image facts;

	if (row >= gm_rows_used(map))
		return gm_refuse(session->map, -ENODEV, "there is no such row");
	if (gm_rows_facts(map, row, &facts) == 0 &&
	    (facts.flags & GPUMAP_DEVICE_SERVES) == 0)
		return gm_refuse(session->map, -ENODEV,
				 "this row is a dummy: dummy rows plan and "
				 "account, but hold no data");
	return gm_refuse(session->map, -ENODEV,
			 "this row is newer than the session; open another");
}

int gm_session_pair(struct gpumap_session *session, uint32_t row,
		    struct gm_queue_pair **ret_pair)
{
	int ret = 0;

	if (row >= session->n_rows)
		return gm_session_lacks(session, row);
	if (session->pairs[row] == NULL)
		ret = open_pair(session, row);
	if (ret == 0)
		*ret_pair = session->pairs[row];
	return ret;
}

/* ---- arena -------------------------------------------------------------- */

int gm_session_take(struct gpumap_session *session, struct gm_queue_pair *pair,
		    uint64_t bytes, uint64_t *ret_at)
{
	int ret = gm_arena_take(&pair->arena, bytes, ret_at);

	if (ret == -ENOMEM)
		return gm_refuse(session->map, ret,
				 "the range of row %u has %" PRIu64
				 " bytes, and no %" PRIu64
				 " of them free in one piece: free some, or "
				 "open the session with more arena_bytes",
				 pair->row, session->range_bytes, bytes);
	return ret;
}

int gpumap_alloc(struct gpumap_session *session, uint32_t row, uint64_t bytes,
		 void **ret_memory)
{
	struct gm_queue_pair *pair;
	uint64_t at;
	int ret = gm_session_begin(session);

	if (ret == 0 && bytes == 0)
		ret = gm_refuse(session->map, -EINVAL,
				"an allocation has at least a byte");
	if (ret == 0)
		ret = gm_session_pair(session, row, &pair);
	if (ret == 0)
		ret = gm_session_take(session, pair, bytes, &at);
	if (ret != 0)
		return ret;
	at += row * session->range_bytes;
	/* Opening the queue pair has made the row's worker bind the range to
	 * its node: populate it only now. */
	if (!session->sparse)
		ret = gm_huge_fill(&session->huge, at, bytes);
	if (ret != 0) {
		gm_arena_give(&pair->arena, at - row * session->range_bytes);
		return gm_refuse_memory(session->map, bytes);
	}
	*ret_memory = session->arena + at;
	return 0;
}

int gpumap_free(struct gpumap_session *session, void *memory)
{
	uintptr_t at = (uintptr_t)memory - (uintptr_t)session->arena;
	uint64_t row = at / session->range_bytes;
	int ret = -EINVAL;

	if (memory == NULL)
		return 0;
	if (row < session->n_rows && session->pairs[row] != NULL)
		ret = gm_arena_give(&session->pairs[row]->arena,
				    at % session->range_bytes);
	if (ret != 0)
		return gm_refuse(session->map, ret,
				 "gpumap_alloc() has not given this memory, or "
				 "it was freed");
	gm_spread_free(session, at);
	return 0;
}

/* ---- other facts ------------------------------------------------------- */

int gpumap_session_fd(const struct gpumap_session *session)
{
	if (!gm_guard_mine(&session->mine))
		return gm_refuse_plain(session->map, -EOWNERDEAD);
	if (session->wake_fd >= 0)
		return session->wake_fd;
	return gm_refuse(session->map, -ENOTSUP,
			 "the session has no descriptor: open it with "
			 "GPUMAP_SESSION_POLLABLE");
}

int gpumap_session_counts(const struct gpumap_session *session,
			  struct gpumap_session_counts *ret_counts)
{
	struct gpumap_session_counts counts = {
		.submitted = session->submitted,
		.completed = session->completed,
		.doorbells = session->doorbells,
		.parks = session->parks,
	};
	int ret = gm_map_size_out(session->map, ret_counts,
				  offsetof(struct gpumap_session_counts,
					   doorbells));

	if (ret == 0)
		gm_size_put(ret_counts, &counts, sizeof(counts));
	return ret;
}
