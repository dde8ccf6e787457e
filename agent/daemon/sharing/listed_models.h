/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * listed_models - the models of [model NAME] are there while the agent serves.
 *
 * A model is loaded by a child, gpumapctl load --detach, which reads the files,
 * and hands the share over.  One child runs at a time.  A name that is shared
 * is left as it is, and the log says where it is another user's, or not as the
 * section says; when it is free again, the model is loaded.  Loads of one model
 * begin at least load.retry apart, and twice as far after each that fails.
 */
#ifndef GM_DAEMON_SHARING_LISTED_MODELS_H
#define GM_DAEMON_SHARING_LISTED_MODELS_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/daemon/base/loop.h"
#include "agent/daemon/base/spawn.h"

#define GM_LISTED_MODELS_BYTES 48  /* of gm_listed_models_tell() */
#define GM_LOADER_SAYS_BYTES   512 /* of what a child says, its last line */

struct gm_config_model;
struct gm_daemon;

struct gm_listed_model {
	const struct gm_config_model *what;
	uint64_t due_ns;   /* no load begins before */
	uint64_t wait_ns;  /* after the next one that fails */
	uint64_t compared; /* the share of its name that was compared last */
};

struct gm_listed_models {
	struct gm_daemon *d;
	struct gm_listed_model *of;
	uint32_t n;
	struct gm_timer timer; /* to when the next one is due */

	struct gm_listed_model *loading; /* NULL: there is no child */
	struct gm_child child;
	struct gm_source ended, said;
	uint64_t begun_ns;
	char says[GM_LOADER_SAYS_BYTES];
	size_t n_says;
	bool line_ends; /* the next byte begins another */
};

/* To be called after each turn of the loop, once the agent is ready. */
void gm_listed_models_look(struct gm_daemon *d);

/* For people: "; 2 models, 1 loading", or nothing where none is listed. */
void gm_listed_models_tell(const struct gm_daemon *d,
			   char ret_text[GM_LISTED_MODELS_BYTES]);

/* The agent has begun to end: nothing is loaded any more. */
void gm_listed_models_drain(struct gm_daemon *d);

void gm_listed_models_exit(struct gm_daemon *d);

#endif
