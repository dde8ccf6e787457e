/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * user_queue - whose question to a row's worker is next (worker_request.h).
 *
 * A worker has so many questions at once that it has not answered, and what
 * else there is to be asked waits here.  A place that comes free is of the user
 * who has the fewest of them, and of those who have as many, of the one who was
 * asked for the longest ago; his sessions take turns.  So nobody waits longer
 * for how much another asks, or for having come later.
 *
 * Pieces of copies wait for their users' rounds.  They leave half of the places
 * to what others are not begun without, and one user leaves half of theirs to
 * the others.
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

/* A uid, as long as it has a seat there. */
struct gm_user_queue {
	LIST_ENTRY(gm_user_queue) entry;
	uint32_t uid;
	uint32_t n_seats;
	uint32_t n_asked; /* questions for him that are not answered */
	uint32_t n_fetches;
	uint64_t asked; /* number of the last */
};

LIST_HEAD(gm_user_queue_list, gm_user_queue);

/* A seat comes, or goes.  Returns 0 or -ENOMEM. */
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

/* One was asked for a seat. */
void gm_user_queue_asked(struct gm_worker_process *worker,
			 struct gm_attachment *attachment, bool is_fetch);

/* One was answered; @attachment NULL: for one that is not there any more. */
void gm_user_queue_answered(struct gm_worker_process *worker,
			    struct gm_attachment *attachment, bool is_fetch);

/* The worker is gone, and answers none. */
void gm_user_queue_silence(struct gm_worker_process *worker);

#endif
