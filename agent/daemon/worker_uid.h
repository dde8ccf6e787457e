/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * worker_uid - a uid for workers that no other process has.
 *
 * Processes of one uid may kill, stop and trace each other.  So workers must
 * not share theirs, and least of all uid 65534, which many programs take that
 * need no user of their own.  Where the administrator has made no user for
 * workers, root's gpumapd takes a uid from GM_WORKER_UID_FIRST on down: Debian
 * and systemd reserve these, and give them to no user.
 *
 * @root is put before /etc and /proc, for tests with a machine of their own;
 * NULL is the machine that we run on.
 */
#ifndef GM_DAEMON_WORKER_UID_H
#define GM_DAEMON_WORKER_UID_H

#include <stdbool.h>
#include <sys/types.h>

#define GM_WORKER_UID_FIRST 65533u
#define GM_WORKER_UID_LAST  65520u

/* Is it the uid that stands for no user: 65534, or what the kernel shows for
 * users of other namespaces? */
bool gm_worker_uid_is_nobody(const char *root, uid_t uid);

/*
 * gm_worker_uid_free - a uid that is no user's and no group's number, in no
 * range of /etc/subuid, and there in this user namespace
 *
 * Returns	the uid, also to be the gid; (uid_t)-1 where there is none
 */
uid_t gm_worker_uid_free(const char *root);

#endif
