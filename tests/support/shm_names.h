/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* shm_names.h - folders in /dev/shm for instances that a test makes up. */
#ifndef GM_TEST_SUPPORT_SHM_NAMES_H
#define GM_TEST_SUPPORT_SHM_NAMES_H

#include <stdbool.h>

#include "shm/names.h"

/* A file of this user's instance. */
void shm_names_file(char ret_path[GM_NAMES_BYTES], const char *instance,
		    const char *file);

/*
 * Give this process, and what it starts, a /dev/shm of its own, empty, in a
 * mount namespace of its own.  False where the process may not do so, because
 * it is not root or the machine forbids it.  A later call gives another one.
 */
bool shm_names_own(void);

/* The folder of a test's large files, as an etcd's log and a stand-in's memory:
 * /dev/shm, or /tmp where that has less than 1 GiB in all. */
const char *shm_names_large(void);

/* Make the folder of this user's instance, as gpumapd does. */
bool shm_names_make(const char *instance);

/* Does the folder have no file but those that an agent leaves for the next one:
 * the map, the node segments, the locks of the instance and of its rows?  Notes
 * others. */
bool shm_names_rest(const char *instance);

/* Remove that folder with all in it, and the user's if it is empty then. */
void shm_names_remove(const char *instance);

/* Remove a folder with all in it.  Waits for a process
 * that is still making a file there. */
void shm_names_remove_dir(const char *path);

#endif
