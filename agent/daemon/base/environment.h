/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * environment - what a child of gpumapd is told by its environment.
 *
 * Made anew for each child: nothing of ours that changes what it loads or does
 * is in it, but what is put there by name.
 */
#ifndef GM_DAEMON_BASE_ENVIRONMENT_H
#define GM_DAEMON_BASE_ENVIRONMENT_H

#include <stddef.h>
#include <stdint.h>

#define GM_ENVIRONMENT_MAX   64
#define GM_ENVIRONMENT_BYTES 16384

struct gm_environment {
	char *of[GM_ENVIRONMENT_MAX + 1]; /* NAME=value, then NULL */
	uint32_t n;
	size_t used;
	char text[GM_ENVIRONMENT_BYTES];
};

/* Variables that every child may see: the program path and the time zone. */
void gm_environment_init(struct gm_environment *env);

/* Returns 0, or -E2BIG where there is no room for it. */
int gm_environment_set(struct gm_environment *env, const char *name,
		       const char *value);

/*
 * gm_environment_pass - hand on variables of our own environment
 *
 * names	words with blanks between them, NULL for none; one that we do
 *		not have is left out
 *
 * Returns	0, or -E2BIG
 */
int gm_environment_pass(struct gm_environment *env, const char *names);

#endif
