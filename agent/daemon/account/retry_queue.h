/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * retry_queue - requests that are refused for want of room while some is on its
 * way back.
 *
 * A session that has ended counts until no worker has its memory any more.  Who
 * closes one and asks for another at once would be refused for what he has
 * given back already: so his request waits, and is handled again, as if it had
 * come then, in the next turn of the loop and whenever a session is gone, for
 * as long as one that counts for it is on its way.
 */
#ifndef GM_DAEMON_ACCOUNT_RETRY_QUEUE_H
#define GM_DAEMON_ACCOUNT_RETRY_QUEUE_H

#include "agent/daemon/base/connection.h"

/*
 * gm_deferred_request - let a request wait that would be refused with @status
 *
 * Takes the descriptor that came with it.  After @limit_ns it is handled a last
 * time.
 *
 * Returns	whether it waits; it is to be refused if not
 */
bool gm_deferred_request(struct gm_connection *c, const struct gm_request *r,
			 int status, uint64_t limit_ns);

/* Its connection has ended.  Allowed where nothing waits. */
void gm_retry_queue_connection_dropped(struct gm_connection *c,
				       const char *why);

/* A session is gone, or none will be let in any more: look soon. */
void gm_retry_queue_changed(struct gm_control_server *s);

void gm_retry_queue_init(struct gm_control_server *s);
void gm_retry_queue_exit(struct gm_control_server *s);

#endif
