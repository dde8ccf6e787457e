/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/sharing/peer_mapping.h"

#include <errno.h>
#include <stdlib.h>

#include "agent/daemon/daemon.h"
#include "agent/daemon/sessions/session.h"
#include "agent/daemon/workers/worker_process.h"
#include "shm/point.h"
#include "shm/queue.h"

/* ---- stages -------------------------------------------------------------- */

void gm_stage_drop(struct gm_session *session, struct gm_stage *stage)
{
	if (--stage->holds || !stage->is_retired)
		return;
	gm_closer_close(&session->server->closer, stage->fd);
	free(stage);
}

void gm_stage_retire(struct gm_session *session, struct gm_stage *stage)
{
	if (stage->is_retired)
		return;
	TAILQ_REMOVE(&session->crossings.stages, stage, entry);
	session->user->arena_bytes -= GM_STAGE_BYTES;
	stage->is_retired = true;
	stage->holds++;
	gm_stage_drop(session, stage);
}

/* ---- the end ------------------------------------------------------------- */

void gm_crossing_leave_source(struct gm_crossing *x)
{
	if (!x->has_source)
		return;
	x->has_source = false;
	gm_claims_leave(&x->source);
}

void gm_crossing_free(struct gm_crossing *x)
{
	struct gm_session *session = x->session;
	struct gm_crossings *all = &session->crossings;
	struct gm_connection *c = session->connection;
	bool was_last = x->is_forgotten && --all->n_forgotten == 0;

	gm_crossing_leave_source(x);
	if (x->stage)
		gm_stage_drop(session, x->stage);
	gm_closer_close(&session->server->closer, x->fd);
	gm_closer_close(&session->server->closer, x->proof_fd);
	TAILQ_REMOVE(&all->list, x, entry);
	all->n--;
	free(x);
	gm_need_look(session->server->d->supervisor);
	GM_POINT("crossing_gone");
	if (c && was_last)
		gm_connection_answer(c, 0, NULL, NULL, 0, -1);
}

void gm_crossing_close(struct gm_crossing *x)
{
	x->state = GM_CROSSING_CLOSING;
	gm_claims_leave(&x->reach);
}

void gm_crossings_init(struct gm_crossings *crossings)
{
	TAILQ_INIT(&crossings->list);
	TAILQ_INIT(&crossings->stages);
}

void gm_crossings_free(struct gm_session *session)
{
	struct gm_crossings *all = &session->crossings;
	struct gm_crossing *x;
	struct gm_stage *stage;

	/* Their claims went with the seats. */
	while ((x = TAILQ_FIRST(&all->list))) {
		x->has_source = false;
		gm_crossing_free(x);
	}
	while ((stage = TAILQ_FIRST(&all->stages)))
		gm_stage_retire(session, stage);
}

uint64_t gm_crossings_bytes(const struct gm_control_server *s, uint32_t row,
			    const struct gm_user *user)
{
	const struct gm_session *session;
	const struct gm_crossing *x;
	uint64_t bytes = 0;

	TAILQ_FOREACH(session, &s->sessions, entry)
	{
		if (session->user != user)
			continue;
		TAILQ_FOREACH(x, &session->crossings.list, entry)
		{
			if (gm_handle_row(x->handle) == row)
				bytes += x->bytes;
		}
	}
	return bytes;
}
