/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * private.h - declare the functions of libgpumap that libgpumap-model calls.
 *
 * libgpumap.map exports them in a node of their own, whose name has the
 * release: the dynamic loader refuses a libgpumap-model of another release, and
 * names the node that it has not found.  No other program may call them.
 * Sessions and attachments are opaque.
 */
#ifndef GM_PRIVATE_H
#define GM_PRIVATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>
#include <time.h>

#include "gpumap.h"
#include "shm/control.h"

#define GM_PRIVATE GPUMAP_API

#define GM_SECOND  UINT64_C(1000000000) /* ns */

static inline uint64_t gm_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * GM_SECOND + (uint64_t)now.tv_nsec;
}

/* The next multiple of @to. */
static inline uint64_t gm_round_up(uint64_t n, uint64_t to)
{
	return (n + to - 1) / to * to;
}

/* ---- refusals and sizes -------------------------------------------------- */

#define GM_WHY sizeof(((struct gm_refusal *)0)->text)

/* Store the sentence that gpumap_refusal() returns to this thread from now on,
 * in GM_WHY bytes. */
GM_PRIVATE void gm_map_refuse(const struct gpumap *map, const char *why);

/* The same, printed.  Returns @error. */
GM_PRIVATE int gm_refuse(const struct gpumap *map, int error,
			 const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* Store gpumap_strerror(@error), or "" for 0: there is no more to say.  Returns
 * @error. */
GM_PRIVATE int gm_refuse_plain(const struct gpumap *map, int error);

/* A flag or a field is not known.  Returns -E2BIG. */
GM_PRIVATE int gm_refuse_unknown(const struct gpumap *map);

/* The kernel gives this process no @bytes.  Returns -ENOMEM. */
GM_PRIVATE int gm_refuse_memory(const struct gpumap *map, size_t bytes);

/*
 * gm_size_out - can a struct of a caller be filled in?
 *
 * Returns	0, -EINVAL: NULL, or smaller than @least, -E2BIG: larger than
 *		GM_SIZE_MOST
 */
GM_PRIVATE int gm_size_out(const void *theirs, size_t least);

/* Fill in such a struct: fields that the library does not know become 0, and
 * its @size the bytes that the library knows. */
GM_PRIVATE void gm_size_put(void *ret_theirs, const void *ours, size_t known);

/* As gm_size_in() and gm_size_out(), with a reason. */
GM_PRIVATE int gm_map_size_in(const struct gpumap *map, void *ret_ours,
			      size_t known, const void *theirs);
GM_PRIVATE int gm_map_size_out(const struct gpumap *map, const void *theirs,
			       size_t least);

/* ---- requests to the agent ----------------------------------------------- */

/* A request and the room for its reply. */
struct gm_call {
	uint16_t type; /* enum gm_control_type */
	uint16_t n_tail;
	uint32_t body_bytes;
	const void *body;
	struct iovec tail[7];
	const int *carries; /* NULL, or a descriptor to send along */
	void *reply;        /* zero-filled past what the agent sent */
	uint32_t reply_bytes;
	uint32_t reply_tail_room;
	void *reply_tail;
	uint32_t reply_tail_bytes; /* received */
	/* descriptors received; fds[] has -1 beyond */
	uint32_t n_fds;
	int fds[GM_CONTROL_FDS_MAX];
	/* the agent's or the library's reason; "" if granted */
	char why[GM_WHY];
	/* NULL, or room for a refusal's data; zero-filled past what the agent
	 * sent */
	void *refusal;
	uint32_t refusal_bytes;
	/* for how long the agent may wait by the request itself before it
	 * begins to answer; UINT64_MAX: the agent has a limit of its own */
	uint64_t wait_ns;
	uint64_t limit_ns; /* 0: none; gm_map_call() sets it */
};

/* How a call begins: its type, a variable that is its body, and one that
 * receives the body of the reply. */
#define GM_REQUEST(of, from) \
	.type = (of), .body = &(from), .body_bytes = sizeof(from)
#define GM_REPLY(to) .reply = &(to), .reply_bytes = sizeof(to)

/* Begin a call: no reason of an earlier one is left.  Returns as
 * gm_fork_map_mine(). */
GM_PRIVATE int gm_map_begin(const struct gpumap *map);

/* A request on the attachment's own connection, which is made again once when
 * it was lost since the last; stores the refusal.  Returns as gm_link_call(),
 * or -EOWNERDEAD. */
GM_PRIVATE int gm_map_call(struct gpumap *map, struct gm_call *call,
			   uint32_t max_fds);

/* Begin a call: no reason of an earlier one is left.  Returns as
 * gm_part_state(). */
GM_PRIVATE int gm_session_begin(const struct gpumap_session *session);

/* A request on the session's own connection; stores the refusal.  Returns as
 * gm_link_call(); when the connection is lost so is the session. */
GM_PRIVATE int gm_session_call(struct gpumap_session *session,
			       struct gm_call *call, uint32_t max_fds);

/* ---- shares -------------------------------------------------------------- */

/* The flags that a share may have. */
#define GM_SHARE_FLAGS \
	(GPUMAP_SHARE_READ_ONLY | GPUMAP_SHARE_ANY_USER | GPUMAP_SHARE_KEEP)

/* Ask for the claim of a name once, with GM_SHARE_CLAIM_* flags.  Returns as
 * gpumap_share_claim(), with -EBUSY for -ETIME. */
GM_PRIVATE int gm_share_claim(struct gpumap_session *session, const char *name,
			      uint32_t flags,
			      const struct gpumap_fingerprint *fingerprint);

/* Copy a fingerprint, whose fields the copy then owns.  Returns 0, -ENOMEM, or
 * -EINVAL and -E2BIG with the refusal stored. */
GM_PRIVATE int
gm_share_fingerprint_copy(const struct gpumap_session *session,
			  const struct gpumap_fingerprint *fingerprint,
			  struct gpumap_fingerprint *ret_copy);

/* ---- completions --------------------------------------------------------- */

/* Take completions from the rings.  Jobs go to @ret_done while there is room
 * for @n, or wait in the session when @ret_done is NULL.  Returns as
 * gpumap_poll(). */
GM_PRIVATE int gm_session_reap(struct gpumap_session *session,
			       struct gpumap_done *ret_done, uint32_t n);

/* Wait until some ring has a completion, or for a while.  @first: spin before
 * sleeping.  Ends what gpumap_session_arm() began.  Returns 0, or -ETIME. */
GM_PRIVATE int gm_session_idle(struct gpumap_session *session,
			       uint64_t deadline_ns, bool first);

/* Store the CPU that this thread runs on, for the workers. */
GM_PRIVATE void gm_session_tell_cpu(struct gpumap_session *session);

/* ---- parts of a session -------------------------------------------------- */

/*
 * Communicators and models keep a part of a session.  session.c, wait.c and
 * shares.c tell them what happens, and know no more of them.
 */
struct gm_session_part;

struct gm_session_part_kind {
	size_t bytes; /* of the struct whose first member is the part */
	/* Completions were taken: go on.  Called while the part wants it. */
	void (*turn)(struct gm_session_part *part);
	/* The session closes a share, whose description is then unmapped.  May
	 * be NULL. */
	void (*share_closed)(struct gm_session_part *part, uint64_t share);
	/* The session is being closed: detach all from it.  The part itself is
	 * freed by the session. */
	void (*drop)(struct gm_session_part *part);
};

struct gm_session_part {
	struct gm_session_part *next; /* the session's next */
	const struct gm_session_part_kind *kind;
	struct gpumap_session *session;
	bool wants_turn;
};

/* The session's part of this kind, made and zeroed at the first call.  NULL: no
 * memory. */
GM_PRIVATE struct gm_session_part *
gm_part_take(struct gpumap_session *session,
	     const struct gm_session_part_kind *kind);

/* A job in flight that a part of the session has submitted: its ticket's
 * cookie.  The function is called once, wherever the completion is taken, and
 * submits nothing. */
struct gm_ending {
	void (*ended)(struct gm_ending *ending, int32_t status);
};

/* May this process use the session, and is it alive?  Returns 0, -EOWNERDEAD,
 * or why it has ended. */
GM_PRIVATE int gm_part_state(const struct gpumap_session *session);

/* The session's attachment. */
GM_PRIVATE struct gpumap *gm_part_map(const struct gpumap_session *session);

/* Make the row's queue pair, if there is none yet.  Returns 0, -ENODEV,
 * -ECONNRESET, the agent's refusal, or the kernel's error. */
GM_PRIVATE int gm_part_open_row(struct gpumap_session *session, uint32_t row);

/* The worker that serves the row now; 0: the row has no queue pair. */
GM_PRIVATE uint32_t gm_part_incarnation(const struct gpumap_session *session,
					uint32_t row);

/* Has the row's queue no job in flight, of whomever? */
GM_PRIVATE bool gm_part_row_is_idle(const struct gpumap_session *session,
				    uint32_t row);

/* Submit a job, whose completion @ending receives.  Returns 0; 1: the queue has
 * no room now; or the reason, stored. */
GM_PRIVATE int gm_part_submit(struct gpumap_session *session, uint32_t row,
			      const struct gpumap_job *job,
			      struct gm_ending *ending);

/* Begin to allocate a buffer of the row, likewise, with room for its FREE.
 * Where the job fails, gm_part_alloc_failed() forgets the handle. */
GM_PRIVATE int gm_part_alloc(struct gpumap_session *session, uint32_t row,
			     uint64_t bytes, uint32_t flags,
			     struct gm_ending *ending, uint64_t *ret_buffer);
GM_PRIVATE void gm_part_alloc_failed(struct gpumap_session *session,
				     uint64_t buffer);

/* Export a buffer of this session: @flags are GM_EXPORT_*.  Returns as
 * gm_session_call(), -ESTALE or -EPROTO. */
GM_PRIVATE int gm_part_export(struct gpumap_session *session, uint64_t buffer,
			      uint32_t flags);

#endif
