/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/sessions/trace_request.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "agent/daemon/base/parts.h"
#include "agent/daemon/base/user.h"
#include "agent/daemon/workers/row_trace.h"
#include "shm/trace.h"

static struct gm_worker_process *worker_of(const struct gm_connection *c,
					   uint32_t row)
{
	const struct gm_supervisor *s = c->server->d->supervisor;

	return s && row < GM_ROWS ? s->rows.workers[row] : NULL;
}

/* May the client have the row's trace?  Its memory is the agent's, and in use
 * for as long as the reader keeps it, so not every user may. */
static int check_reader(struct gm_connection *c,
			const struct gm_worker_process *worker)
{
	const struct gm_connection *reader = worker->trace.reader;

	if (!gm_user_is_privileged(c->uid))
		return gm_connection_bad(
			c, -EPERM,
			"uid %u may not trace rows: only root "
			"and uid %u, which runs the agent, may",
			(unsigned)c->uid, (unsigned)geteuid());
	if (!reader || reader == c)
		return 0;
	return gm_connection_bad(c, -EBUSY,
				 "process %d of uid %u has a trace of row %u: "
				 "wait until it ends",
				 (int)reader->pid, (unsigned)reader->uid,
				 worker->row);
}

int gm_trace_request_handle(struct gm_connection *c, const struct gm_request *r)
{
	struct gm_worker_process *worker;
	struct gm_trace_ask ask;
	int ret, fd;

	memcpy(&ask, r->body, sizeof(ask));
	worker = worker_of(c, ask.row);
	if (c->session)
		return gm_connection_bad(c, -EINVAL,
					 "a session's connection is not to "
					 "trace: connect another");
	if (ask.reserved)
		return gm_connection_bad(c, -EINVAL, "a reserved field is set");
	if (!worker)
		return gm_connection_bad(c, -ENODEV,
					 "row %u has no worker: name one that "
					 "gpumapctl devices lists, and that is "
					 "no dummy",
					 ask.row);
	ret = check_reader(c, worker);
	if (ret == 0 && gm_connection_watch(c) == -ESRCH)
		ret = gm_connection_bad(c, -ESRCH,
					"the process that connected has ended");
	if (ret < 0)
		return ret;
	ret = gm_row_trace_begin(worker, c, &fd);
	if (ret < 0)
		return gm_connection_bad(c, ret,
					 "no memory for the trace: %s; try "
					 "again",
					 strerror(-ret));
	c->traces = true;
	gm_connection_reply(c, &r->header,
			    &(struct gm_reply){ .fds = &fd, .n_fds = 1 });
	close(fd);
	return 0;
}

void gm_trace_request_connection_dropped(struct gm_connection *c)
{
	const struct gm_supervisor *s = c->server->d->supervisor;

	if (!c->traces || !s)
		return;
	for (uint32_t row = 0; row < GM_ROWS; row++) {
		struct gm_worker_process *worker = s->rows.workers[row];

		if (worker && gm_row_trace_has(worker, c))
			gm_row_trace_end(worker);
	}
}
