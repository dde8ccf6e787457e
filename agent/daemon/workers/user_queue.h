/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * user_queue - choose the user whose request a row's worker gets next.
 *
 * A worker has a limited number of requests that it has not answered; others
 * wait here (worker_request.h).  A free place goes to the user who has the
 * fewest requests, and among equals to the one served longest ago.  Sessions of
 * one user take turns.  So no user waits longer because another one asks for
 * more, or came earlier.
 *
 * Pieces of copies between rows (FETCH) wait by the same rule.  They leave half
 * of the places to other requests, and one user leaves half of these pieces'
 * places to the others.
 */
#ifndef GM_DAEMON_WORKERS_USER_QUEUE_H
#define GM_DAEMON_WORKERS_USER_QUEUE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

struct gm_worker_process;
struct gm_attachment;

#define GM_USER_QUEUE_MOST    16u /* questions without an answer, of a worker */
#define GM_USER_QUEUE_FETCHES 8u  /* of these, for pieces; and half of them */

/* A uid, as long as it has a session there. */
struct gm_user_queue {
	LIST_ENTRY(gm_user_queue) entry;
	uint32_t uid;
	uint32_t n_attachments;
	uint32_t n_asked; /* its requests that are not answered */
	uint32_t n_fetches;
	uint64_t asked; /* number of the last */
};

LIST_HEAD(gm_user_queue_list, gm_user_queue);

/* An attachment comes, or goes.  Returns 0 or -ENOMEM. */
int gm_user_queue_join(struct gm_worker_process *worker,
		       struct gm_attachment *attachment);
void gm_user_queue_leave(struct gm_attachment *attachment);

/* Is there a place for such a question of the seat's? */
bool gm_user_queue_have_place(const struct gm_worker_process *worker,
			      const struct gm_attachment *attachment,
			      bool is_fetch);

/* Is it rather @attachment's turn than @other's? */
bool gm_user_queue_are_before(const struct gm_attachment *attachment,
			      const struct gm_attachment *other);

/* A request of an attachment was sent. */
void gm_user_queue_asked(struct gm_worker_process *worker,
			 struct gm_attachment *attachment, bool is_fetch);

/* One was answered; @attachment NULL: for one that is not there any more. */
void gm_user_queue_answered(struct gm_worker_process *worker,
			    struct gm_attachment *attachment, bool is_fetch);

/* The worker is gone, and answers none. */
void gm_user_queue_silence(struct gm_worker_process *worker);

#endif
