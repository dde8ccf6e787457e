/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * deferred_close - where descriptors go that came from clients.
 *
 * A close may take as long as whoever made the file likes: a socket lingers, a
 * file system asks its server and the server is silent.  The same holds for the
 * close of a socket with descriptors in it that were not received.  So none of
 * these is closed by the loop, nor by the thread that gives back our own
 * memory: threads of the gutter's own do it, and those that are stuck are left
 * to it.
 *
 * Uids take turns, and one may have as many threads as it leaves to all others:
 * half of them by itself, half of the rest where another has its half.  So it
 * takes many uids, each with much that is stuck, to hold anybody up.
 *
 * What is not closed yet is counted by uid, for those who hand over: a uid that
 * has sent too much of the kind is listened to no more until some of it is
 * gone.  There is one gutter for the process, and it ends with the process.
 */
#ifndef GM_DAEMON_BASE_DEFERRED_CLOSE_H
#define GM_DAEMON_BASE_DEFERRED_CLOSE_H

#include <stdbool.h>
#include <sys/types.h>

#define GM_DEFERRED_CLOSE_THREADS 16u /* of them 8 for one uid alone */
#define GM_DEFERRED_CLOSE_PER_UID 32u /* from here on it is_full() */

/* Close @fd, which is ours and came from @uid, soon.  A negative one is nothing
 * to close.  Without memory for that it is closed here and now. */
void gm_deferred_close_close(int fd, uid_t uid);

/* Has so much of this uid not been closed yet that it is enough? */
bool gm_deferred_close_is_full(uid_t uid);

#endif
