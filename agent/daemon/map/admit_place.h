/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * admit_place - the places of maps in the line (account/wait_line.h), and their
 * turns.
 *
 * Bytes of rows, and layers that lie on certain rows, are tried again by the
 * agent.  A map whose layers may lie elsewhere is its client's to make again:
 * the client is told that it is its turn, and the place stays its connection's.
 * A turn that the client has not used after a second passes; after the second
 * one that it missed it comes last in the line, and keeps nothing from others
 * until it asks again.
 */
#ifndef GM_DAEMON_MAP_ADMIT_PLACE_H
#define GM_DAEMON_MAP_ADMIT_PLACE_H

#include "agent/common/refusal.h"
#include "agent/daemon/account/wait_line.h"

struct gm_change;
struct gm_connection;

struct gm_admit_place {
	struct gm_wait_place wait;
	struct gm_daemon *d;
	struct gm_change *request; /* NULL: the place is its connection's */
	struct gm_connection *connection;
	struct gm_timer turn; /* the end of the turn, */
	uint64_t end_ns;      /* at this time */
	bool is_again;        /* the request has waited */
	bool replaces;      /* there was a map of its name, which may be gone */
	bool has_missed;    /* the last turn */
	bool is_late;       /* one has passed since its client was told */
	struct gm_room map; /* as it was asked for first */
	uint64_t least_bytes;   /* of all rows together, where any would do */
	char why[GM_WHY_BYTES]; /* it waits */
};

/* The user that a map is to belong to. */
uint32_t gm_admit_place_uid(const struct gm_connection *c,
			    const struct gm_room *map);

/* The place that the connection has in the turn of such a map, or NULL. */
struct gm_admit_place *gm_admit_place_of(const struct gm_connection *c,
					 const struct gm_room *map);

/* Take that place for a request, or a new one.  NULL: no memory. */
struct gm_admit_place *gm_admit_place_take(struct gm_connection *c,
					   const struct gm_room *map,
					   struct gm_change *request);

/* The end of a place, in the line or not. */
void gm_admit_place_drop(struct gm_admit_place *place);

/* Is its time over, or was it dropped? */
bool gm_admit_place_is_over(const struct gm_admit_place *place);

/* Its client, in its turn, has not taken what there is. */
void gm_admit_place_miss_turn(struct gm_admit_place *place);

/* Its request waits. */
void gm_admit_place_wait(struct gm_admit_place *place);

/* The client has its turn: the place becomes the connection's.  A request that
 * came too late makes a turn no longer. */
void gm_admit_place_give(struct gm_admit_place *place, struct gm_connection *c);

/* Events; see base/events.h. */
void gm_admit_place_map_published(struct gm_daemon *d, const char *name);
void gm_admit_place_connection_dropped(struct gm_connection *c,
				       const char *why);

#endif
