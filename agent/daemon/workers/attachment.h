/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * attachment - the sessions that a row's process serves, and the messages to
 * it.
 */
#ifndef GM_DAEMON_WORKERS_ATTACHMENT_H
#define GM_DAEMON_WORKERS_ATTACHMENT_H

#include "agent/daemon/workers/worker_process.h"

/* Say what there is to say, as far as there is room. */
void gm_attachments_flush(struct gm_worker_process *worker);

/* The child is gone: who was leaving has left, all others wait again, and what
 * a worker was told of is owed.  Returns whether anything is. */
bool gm_attachments_child_gone(struct gm_worker_process *worker);

/* May a new session come to the worker?  Returns 0, or -ENODEV. */
int gm_attachments_admit(const struct gm_worker_process *worker,
			 char ret_why[GM_WHY_BYTES]);

/* Refuse the sessions that have never been attached, with the reason. */
void gm_attachments_refuse_newcomers(struct gm_worker_process *worker,
				     const char *why);

/* The same if the row's state is the reason.  gm_attachments_admit() refuses
 * new sessions as long as the state lasts. */
void gm_attachments_refuse(struct gm_worker_process *worker);

/* Mark the jobs of all sessions as owed, although no worker has heard of them.
 * Returns whether there is a session. */
bool gm_attachments_owe_all(struct gm_worker_process *worker);

/* Ask the child to end when its rings are empty.  The child is told of no
 * attachment afterwards. */
void gm_attachments_send_drain(struct gm_worker_process *worker);

/* The child has answered about an attachment, or says that its session breaks
 * the rules.  An answer may come late: about an attachment that has left, or
 * that is about to leave. */
void gm_attachments_on_message(struct gm_worker_process *worker,
			       const struct gm_wire *wire);

/* The journal says that the memory of the session at @place keeps the worker
 * waiting. */
void gm_attachments_stalled(struct gm_worker_process *worker, uint32_t place);

/* Give an attachment a place in the worker's journal.  Returns as
 * gm_supervisor_attach(), which tells the worker. */
int gm_attachments_add(struct gm_worker_process *worker,
		       struct gm_attachment *attachment,
		       char ret_why[GM_WHY_BYTES]);

/* As gm_supervisor_leave(). */
void gm_attachments_leave(struct gm_attachment *attachment);

/*
 * gm_attachments_ask - have an attachment's worker hold a request
 *
 * attachment	see gm_supervisor_attach()
 * request	zero but for what its owner fills
 * ret_why	what was wrong and what to do
 *
 * request->held() or request->gone() is called, perhaps before this returns.
 *
 * Returns	0
 *		-ENODEV		no worker, and none soon
 *		-ESHUTDOWN	the attachment is being given up
 */
int gm_attachments_ask(struct gm_attachment *attachment,
		       struct gm_worker_request *request,
		       char ret_why[GM_WHY_BYTES]);

/* Give a request up.  request->gone() follows, perhaps before this returns. */
void gm_attachments_give_back(struct gm_worker_request *request);

#endif
