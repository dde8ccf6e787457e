/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/sharing/peer_mapping.h"

#include <stdlib.h>

#include "agent/daemon/base/parts.h"
#include "agent/daemon/sessions/session.h"
#include "agent/daemon/workers/attachment.h"
#include "agent/daemon/workers/demand.h"
#include "shm/point.h"
#include "shm/queue.h"

/* ---- stages -------------------------------------------------------------- */

void gm_bounce_buffer_drop(struct gm_session *session,
			   struct gm_bounce_buffer *stage)
{
	if (--stage->holds || !stage->is_retired)
		return;
	gm_close_thread_close(&session->server->close_thread, stage->fd);
	free(stage);
}

void gm_bounce_buffer_retire(struct gm_session *session,
			     struct gm_bounce_buffer *stage)
{
	if (stage->is_retired)
		return;
	TAILQ_REMOVE(&session->peer_mappings.stages, stage, entry);
	session->user->arena_bytes -= GM_STAGE_BYTES;
	stage->is_retired = true;
	stage->holds++;
	gm_bounce_buffer_drop(session, stage);
}

/* ---- the end ------------------------------------------------------------- */

void gm_peer_mapping_leave_source(struct gm_peer_mapping *x)
{
	if (!x->has_source)
		return;
	x->has_source = false;
	gm_attachments_give_back(&x->source);
}

void gm_peer_mapping_free(struct gm_peer_mapping *x)
{
	struct gm_session *session = x->session;
	struct gm_peer_mappings *all = &session->peer_mappings;
	struct gm_connection *c = session->connection;
	bool was_last = x->is_forgotten && --all->n_forgotten == 0;

	gm_peer_mapping_leave_source(x);
	if (x->stage)
		gm_bounce_buffer_drop(session, x->stage);
	gm_close_thread_close(&session->server->close_thread, x->fd);
	gm_close_thread_close(&session->server->close_thread, x->proof_fd);
	TAILQ_REMOVE(&all->list, x, entry);
	all->n--;
	free(x);
	gm_demand_recheck(session->server->d->supervisor);
	GM_POINT("peer_mapping_gone");
	if (c && was_last)
		gm_connection_answer(c, 0, NULL, NULL, 0, -1);
}

void gm_peer_mapping_close(struct gm_peer_mapping *x)
{
	x->state = GM_PEER_MAPPING_CLOSING;
	gm_attachments_give_back(&x->reach);
}

void gm_peer_mappings_init(struct gm_peer_mappings *peer_mappings)
{
	TAILQ_INIT(&peer_mappings->list);
	TAILQ_INIT(&peer_mappings->stages);
}

void gm_peer_mappings_free(struct gm_session *session)
{
	struct gm_peer_mappings *all = &session->peer_mappings;
	struct gm_peer_mapping *x;
	struct gm_bounce_buffer *stage;

	/* Their requests ended with the attachments. */
	while ((x = TAILQ_FIRST(&all->list))) {
		x->has_source = false;
		gm_peer_mapping_free(x);
	}
	while ((stage = TAILQ_FIRST(&all->stages)))
		gm_bounce_buffer_retire(session, stage);
}

uint64_t gm_peer_mappings_bytes(const struct gm_control_server *s, uint32_t row,
				const struct gm_user *user)
{
	const struct gm_session *session;
	const struct gm_peer_mapping *x;
	uint64_t bytes = 0;

	TAILQ_FOREACH(session, &s->sessions, entry)
	{
		if (session->user != user)
			continue;
		TAILQ_FOREACH(x, &session->peer_mappings.list, entry)
		{
			if (gm_handle_row(x->handle) == row)
				bytes += x->bytes;
		}
	}
	return bytes;
}
