/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * peer_agent.h - the agent's half of peer.h: an answer to each request.
 */
#ifndef GM_TEST_SUPPORT_PEER_PEER_AGENT_H
#define GM_TEST_SUPPORT_PEER_PEER_AGENT_H

#include "tests/support/peer/peer_worker.h"

/* ---- the agent ----------------------------------------------------------- */

void peer_reply(struct peer *p, struct peer_link *l,
		const struct gm_control *request, int32_t status,
		const void *body, uint32_t bytes, const int *fds,
		uint32_t n_fds);
void peer_refuse(struct peer *p, struct peer_link *l,
		 const struct gm_control *request, int status, const char *why);
void peer_session(struct peer *p, struct peer_link *l,
		  const struct gm_control *request,
		  const struct gm_session_open *open);
void peer_queue(struct peer *p, struct peer_link *l,
		const struct gm_control *request,
		const struct gm_queue_open *open);
void peer_release_map(struct peer *p, struct peer_link *l,
		      const struct gm_control *request,
		      const struct gm_object_name *name);
void peer_pin(struct peer *p, struct peer_link *l,
	      const struct gm_control *request,
	      const struct gm_object_name *name);
void peer_sessions(struct peer *p, struct peer_link *l,
		   const struct gm_control *request,
		   const struct gm_list_ask *body);
void peer_plan(struct peer *p, struct peer_link *l,
	       const struct gm_control *request, const char *body);

/* ---- buffers ------------------------------------------------------------- */

void peer_reach(struct peer *p, struct peer_link *l,
		const struct gm_control *request, const struct gm_reach *body);

/* Returns whether the request was one of these. */
bool peer_answer_buffers(struct peer *p, struct peer_link *l,
			 const struct gm_control *head, const char *body,
			 int fd);

#endif
