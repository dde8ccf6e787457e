/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * listed - the maps of [map NAME] are published before the agent is ready, and
 * the models of [model NAME] are there while it serves.
 *
 * Both are made by children, one at a time: gpumapctl publish --keep, which
 * leaves a map alone that is as listed, and gpumapctl load --detach, which
 * reads the files and hands the share over.  A map is made once; a name that is
 * shared is left as it is, and the log says where it is another user's, or not
 * as the section says; when it is free again, the model is loaded.  Children of
 * one name begin at least load.retry apart, and twice as far after each that
 * fails.
 */
#ifndef GM_DAEMON_SHARING_LISTED_H
#define GM_DAEMON_SHARING_LISTED_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/daemon/base/child.h"
#include "agent/daemon/base/loop.h"

#define GM_LISTED_BYTES 48 /* of gm_listed_tell() */

struct gm_config_map;
struct gm_config_model;
struct gm_daemon;

struct gm_listed {
	const struct gm_config_map *map; /* NULL: it is a model */
	const struct gm_config_model *model;
	bool is_tried, is_published; /* of a map */
	uint64_t due_ns;             /* no child begins before */
	uint64_t wait_ns;            /* after the next one that fails */
	uint64_t compared; /* the share of its name that was compared last */
};

struct gm_listed_things {
	struct gm_daemon *d;
	struct gm_listed *of; /* maps, then models */
	uint32_t n;
	struct gm_timer timer; /* to when the next one is due */
	uint64_t limit_ns;     /* the agent is ready without maps then */

	struct gm_listed *in_hand; /* NULL: there is no child */
	struct gm_child child;
	uint64_t begun_ns;
};

/* To be called after each turn of the loop, once clients are served.
 * is_ready	models are loaded, too */
void gm_listed_look(struct gm_daemon *d, bool is_ready);

/* Was each map published, or could not be, or are ten seconds over? */
bool gm_listed_maps_tried(const struct gm_daemon *d);

/* For people: "; 2 models, 1 loading", or nothing where none is listed. */
void gm_listed_tell(const struct gm_daemon *d, char ret_text[GM_LISTED_BYTES]);

/* The agent has begun to end: no child begins any more. */
void gm_listed_drain(struct gm_daemon *d);

void gm_listed_exit(struct gm_daemon *d);

#endif
