/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * share_answer - answers to sessions that have shared buffers, or opened a
 * share: once the service manager has been sent all that the next agent needs.
 */
#ifndef GM_DAEMON_SHARING_SHARE_ANSWER_H
#define GM_DAEMON_SHARING_SHARE_ANSWER_H

#include "agent/daemon/base/connection.h"

struct gm_daemon;
struct gm_shared;

/*
 * gm_share_answer - answer a request of a session that holds the share
 *
 * with_about	what is said about the share goes along
 *
 * If the share has ended by the time of the answer, that is -ENOENT.
 */
void gm_share_answer(struct gm_connection *c, const struct gm_control *request,
		     const struct gm_shared *shared, bool with_about);

/* Events; see base/events.h. */
void gm_share_answers_sent(struct gm_daemon *d);
void gm_share_answers_connection_dropped(struct gm_connection *c,
					 const char *why);

#endif
