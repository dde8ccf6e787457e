/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * recover - the recovery process: ends each entry that a dead worker left
 * exactly once.
 *
 * The recovery process may die from the same client's memory and be started
 * again: gm_journal_recover() can be repeated.
 */

#include "agent/worker/worker.h"

#include <errno.h>
#include <stdlib.h>

#include "agent/worker/control/agent_socket.h"
#include "agent/worker/memory/stall_guard.h"
#include "agent/worker/queue/dependency.h"
#include "shm/point.h"

static void end_entries(struct gm_worker_session *s, const struct gm_wire *wire)
{
	GM_ACCESSES(&s->mapping);

	/* Mark the timeline before any entry ends, so that entries that wait
	 * for this queue fail and do not begin. */
	gm_time_end(s);
	gm_journal_recover(s->owed, &s->entries, &s->done, wire->status);
	GM_POINT("worker_recovered");
	/* Wake in any case: whether the dead worker woke the client is
	 * unknown. */
	gm_session_wake(s, true);
}

static int recover(struct gm_worker *w, const struct gm_wire *wire, int *fds)
{
	struct gm_worker_session *s;
	int rc;

	rc = gm_session_map(wire, fds, w->journal, -1, false, &s);
	if (rc < 0)
		return rc;
	end_entries(s, wire);
	if (gm_get(&s->mapping.broken) == GM_MAPPING_WITHHELD)
		rc = -EBUSY;
	gm_session_unmap(s, &w->close_thread, free);
	return rc;
}

int gm_recover_run(struct gm_worker *worker)
{
	struct gm_wire wire, reply;
	int fds[GM_SESSION_FDS];
	int rc;

	for (;;) {
		rc = gm_agent_socket_receive(worker->pair, 0, &wire, fds);
		if (rc <= 0)
			return EXIT_FAILURE; /* gpumapd starts another */
		if (wire.type == GM_WIRE_DRAIN)
			return EXIT_SUCCESS;
		if (wire.type != GM_WIRE_ATTACH) {
			gm_agent_socket_close_fds(fds);
			continue;
		}
		reply = gm_agent_socket_about(GM_WIRE_ATTACHED, wire.session,
					      wire.place);
		reply.status = recover(worker, &wire, fds);
		gm_agent_socket_close_fds(fds);
		gm_agent_socket_send(worker->pair, &reply, -1, 0);
	}
}
