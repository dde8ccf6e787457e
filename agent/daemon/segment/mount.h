/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * mount - the segments for processes that cannot open them by name.
 *
 * An open segment can be handed over even if its name is gone.
 *
 * A read-only descriptor is not enough for a stranger: a process that may write
 * the file opens it anew for writing through /proc/self/fd, and a container's
 * root may write every file.  So the segment is opened through a bind mount of
 * its own, detached and read-only, which no path leads to: opening it anew goes
 * through the same mount, and fails with EROFS.
 *
 * Without CAP_SYS_ADMIN there is no such mount.  Then a plain read-only
 * descriptor is given to uids that the file's mode (0644, ours) keeps from
 * writing; uid 0 and our own uid are refused, because in a container they are
 * different users.
 */
#ifndef GM_DAEMON_SEGMENT_MOUNT_H
#define GM_DAEMON_SEGMENT_MOUNT_H

#include <stdbool.h>
#include <sys/types.h>

/* Returns another descriptor of an open file, which cannot be opened anew for
 * writing, or a negative errno: -EPERM without CAP_SYS_ADMIN, -ENOSYS before
 * Linux 5.12. */
int gm_mount_open(int file);

/* A plain read-only one.  Returns it, or a negative errno of open. */
int gm_mount_reopen(int file);

/* May a peer of @uid have a plain read-only descriptor? */
bool gm_mount_is_harmless(uid_t uid, uid_t ours);

#endif
