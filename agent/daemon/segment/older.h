/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * older - what agents of older layouts have left in /dev/shm.
 *
 * An agent adopts the files of its own layout only (shm/names.h).  After an
 * upgrade those of the older one would take memory for ever.
 */
#ifndef GM_DAEMON_SEGMENT_OLDER_H
#define GM_DAEMON_SEGMENT_OLDER_H

/*
 * gm_older_remove - remove the instance's files of older majors
 *
 * To be called with the instance's lock taken.  Removes only files of our user,
 * of an agent that has ended with all of its workers: their locks are free.
 * The older instance's lock stays, so that an agent of that major that starts
 * now meets no other.
 */
void gm_older_remove(const char *instance);

#endif
