/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* gang_ask - the gangs that processes of this node ask for. */
#ifndef GM_GANG_ASK_H
#define GM_GANG_ASK_H

#include "agent/sync/gangs.h"

void gm_gang_ask_reserve(struct gm_sync_client *client,
			 const struct gm_sync_message *message);
void gm_gang_ask_release(struct gm_sync_client *client,
			 const struct gm_sync_message *message);
void gm_gang_ask_gone(struct gm_sync_client *client);

/* An event of this node's record @id. */
void gm_gang_ask_event(struct gm_gangs *gangs, const char *id,
		       const struct gm_store_event *event);
void gm_gang_ask_tick(struct gm_gangs *gangs, uint64_t now_ns);
void gm_gang_ask_close(struct gm_gangs *gangs);

#endif
