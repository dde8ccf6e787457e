/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * retry_queue - retries requests that are refused for memory that is about to
 * be free.
 *
 * A session that has ended counts, and its memory, until the memory is free.  A
 * client that closes a session and opens another at once would be refused for
 * what it has given back already.  So its request waits, and is handled again
 * in the next turn of the loop and whenever a session is gone or its memory is
 * free, for as long as something that it is refused for is on its way back: of
 * its own user's, or of any user's where a limit of all users refuses it.
 */
#ifndef GM_DAEMON_ACCOUNT_RETRY_QUEUE_H
#define GM_DAEMON_ACCOUNT_RETRY_QUEUE_H

#include "agent/daemon/base/connection.h"

/*
 * gm_retry_queue_add - let a request wait that would be refused with @status
 *
 * Takes the descriptor that came with it.  After @limit_ns it is handled a last
 * time.
 *
 * Returns	whether it waits; it is to be refused if not
 */
bool gm_retry_queue_add(struct gm_connection *c, const struct gm_request *r,
			int status, uint64_t limit_ns);

/* Its connection has ended.  Allowed where nothing waits. */
void gm_retry_queue_connection_dropped(struct gm_connection *c,
				       const char *why);

/* A session is gone, or none will be let in any more: look soon. */
void gm_retry_queue_changed(struct gm_control_server *s);

void gm_retry_queue_init(struct gm_control_server *s);
void gm_retry_queue_exit(struct gm_control_server *s);

#endif
