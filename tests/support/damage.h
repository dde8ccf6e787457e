/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * damage.h - an object that an agent left, "m" or the cluster, is damaged: its
 * readers do not believe it, and the next agent retires the segment and makes
 * it anew.
 */
#ifndef GM_TEST_SUPPORT_DAMAGE_H
#define GM_TEST_SUPPORT_DAMAGE_H

#include <signal.h>

#include "tests/support/agent_segment.h"
#include "tests/support/story.h"

/* One way of it. */
struct damage {
	void (*do_it)(struct agent_map *m);
	const char *why;  /* in the log */
	bool is_readable; /* for who does not know rows and keys */
};

/* The kind of the object. */
struct damaged {
	struct agent *agent;
	bool (*start)(struct gpumap **ret_map);
	bool (*publish)(struct gpumap *map);
	bool (*reads_right)(struct gpumap *map, bool is_readable);
	bool (*is_as_published)(struct gpumap *map);
};

/* Word @at of its block. */
gm_a64 *damage_word(const struct agent_map *m, uint32_t kind, size_t at);

/* Half of a word: @at counts bytes from the block's start. */
void damage_set(const struct agent_map *m, uint32_t kind, size_t at,
		uint32_t value);
void damage_is_noticed(const struct damaged *of, const struct damage *damage);

#endif
