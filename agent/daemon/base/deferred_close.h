/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * deferred_close - closes descriptors that clients have, too, off the event
 * loop, and frees memory that they stand for.
 *
 * A close() may take as long as the file's maker likes: a socket lingers, a
 * file system asks its server and the server is silent.  The same holds for the
 * close of a socket with descriptors in it that were not received.  So neither
 * the loop closes these, nor the thread that gives back the agent's own memory:
 * threads of this module do, and those that are stuck stay stuck.
 *
 * Uids take turns, and one uid may have as many threads as it leaves to all
 * others: half of them by itself, half of the rest where another uid has its
 * half.  So only many uids, each with many stuck descriptors, can hold up the
 * others.
 *
 * Memory is freed by punching a hole, which waits for a lock of the file that
 * the client can hold as long as it likes.
 *
 * Descriptors that are not closed yet are counted by uid: nothing is read from
 * a uid that has sent too many until some are closed.  There is one such module
 * in the process, and it ends with the process.
 */
#ifndef GM_DAEMON_BASE_DEFERRED_CLOSE_H
#define GM_DAEMON_BASE_DEFERRED_CLOSE_H

#include <stdbool.h>
#include <sys/queue.h>
#include <sys/types.h>

#include "agent/daemon/base/loop.h"

#define GM_DEFERRED_CLOSE_THREADS 16u /* of them 8 for one uid alone */
#define GM_DEFERRED_CLOSE_PER_UID 32u /* from here on it is_full() */

/* Memory to be freed; embedded in its owner. */
struct gm_deferred_memory {
	/* By the loop: the memory is free, but for what the client has touched
	 * since, and the descriptor is closed. */
	void (*freed)(struct gm_deferred_memory *memory);
	/* This module's own. */
	STAILQ_ENTRY(gm_deferred_memory) entry;
	int fd;
	bool is_punched; /* a hole is punched before the close */
};

/* Have freed() called by this loop, until the second.  Returns 0, or a negative
 * errno of eventfd or epoll_ctl. */
int gm_deferred_close_start(struct gm_loop *loop);
void gm_deferred_close_stop(struct gm_loop *loop);

/* Free all memory of the file behind @fd, soon, and close @fd.  Such memory
 * does not count for is_full(). */
void gm_deferred_close_free(struct gm_deferred_memory *memory, int fd,
			    uid_t uid);

/* Close @fd, which is ours and came from @uid, soon.  A negative one is nothing
 * to close.  Without memory for that it is closed here and now. */
void gm_deferred_close_close(int fd, uid_t uid);

/* How many descriptors are not closed yet, of all uids? */
unsigned gm_deferred_close_left(void);

/* Has so much of this uid not been closed yet that it is enough? */
bool gm_deferred_close_is_full(uid_t uid);

#endif
