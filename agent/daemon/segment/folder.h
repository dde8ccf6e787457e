/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * folder - the instance's folder in /dev/shm (shm/names.h).
 *
 * The map, the node segments, and the locks of the instance and of its rows are
 * there.  gpumapd's loop adds and removes names in this folder alone: in a
 * directory that others may list, any of them could make such a call wait for
 * ever.
 */
#ifndef GM_DAEMON_SEGMENT_FOLDER_H
#define GM_DAEMON_SEGMENT_FOLDER_H

#include <stdbool.h>

#include "agent/common/refusal.h"
#include "shm/names.h"

/*
 * gm_folder_make - make the folder of this user's instances, and the instance's
 *
 * A folder that is ours gets its mode back.  Root moves what another user has
 * put in the place of its folder aside, and logs that; other users cannot.
 *
 * Returns	0
 *		-EINVAL		no instance can have this name
 *		-EPERM		the name of a folder is taken by another user,
 *				or by a file
 *		and what mkdir and chmod return; ret_why names the remedy
 */
int gm_folder_make(const char *instance, char ret_why[GM_WHY_BYTES]);

/* Has an open file of the folder still a name?  The owner of the folder, or a
 * program that cleans /dev/shm, may have removed it. */
bool gm_folder_has(int fd);

/* The path of a file of the instance.  Returns 0, or -EINVAL: no instance can
 * have this name. */
int gm_folder_path(char ret_path[GM_NAMES_BYTES], const char *instance,
		   const char *file);

#endif
