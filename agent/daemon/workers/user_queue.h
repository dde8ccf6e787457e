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

struct gm_keeper;
struct gm_seat;

#define GM_ASKERS_MOST    16u /* questions without an answer, of a worker */
#define GM_ASKERS_FETCHES 8u  /* of these, for pieces; and half of them */

/* A uid, as long as it has a seat there. */
struct gm_asker {
	LIST_ENTRY(gm_asker) entry;
	uint32_t uid;
	uint32_t n_seats;
	uint32_t n_asked; /* questions for him that are not answered */
	uint32_t n_fetches;
	uint64_t asked; /* number of the last */
};

LIST_HEAD(gm_asker_list, gm_asker);

/* A seat comes, or goes.  Returns 0 or -ENOMEM. */
int gm_askers_join(struct gm_keeper *keeper, struct gm_seat *seat);
void gm_askers_leave(struct gm_seat *seat);

/* Is there a place for such a question of the seat's? */
bool gm_askers_have_place(const struct gm_keeper *keeper,
			  const struct gm_seat *seat, bool is_fetch);

/* Is it rather @seat's turn than @other's? */
bool gm_askers_are_before(const struct gm_seat *seat,
			  const struct gm_seat *other);

/* One was asked for a seat. */
void gm_askers_asked(struct gm_keeper *keeper, struct gm_seat *seat,
		     bool is_fetch);

/* One was answered; @seat NULL: for one that is not there any more. */
void gm_askers_answered(struct gm_keeper *keeper, struct gm_seat *seat,
			bool is_fetch);

/* The worker is gone, and answers none. */
void gm_askers_silence(struct gm_keeper *keeper);

#endif
