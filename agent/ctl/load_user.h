/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * load_user - the users whose sessions may open a model, and the one that it is
 * loaded for.
 */
#ifndef GM_CTL_LOAD_USER_H
#define GM_CTL_LOAD_USER_H

#include <stdint.h>

#include "gpumap.h"

struct gm_load_users {
	uint32_t uids[GPUMAP_SHARE_UIDS_MAX];
	uint32_t n;
};

/* Read a list of names or numbers with commas between them.  Returns an exit
 * status; an error has been printed. */
int gm_load_user_list(const char *text, struct gm_load_users *ret_users);

/* Become this user, with its groups, before anything is opened.  Returns an
 * exit status; an error has been printed. */
int gm_load_user_become(const char *name);

#endif
