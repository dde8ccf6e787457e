/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/workers/worker_messages.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/common/fds.h"
#include "agent/common/log.h"
#include "agent/daemon/base/loop.h"
#include "agent/daemon/base/parts.h"
#include "agent/daemon/workers/attachment.h"
#include "agent/daemon/workers/demand.h"
#include "agent/daemon/workers/wakeup.h"
#include "agent/daemon/workers/worker_child.h"
#include "agent/daemon/workers/worker_users.h"

#define MS             UINT64_C(1000000)
#define RECORDS_A_TURN 64

static void is_ready(struct gm_worker_process *worker, const char *took)
{
	if (worker->state != GM_PROCESS_STARTING)
		return;
	gm_log(GM_LOG_INFO, "worker_ready",
	       "row=%u%s pid=%d after_ms=%" PRIu64 "%s%s", worker->row,
	       worker->of, (int)worker->child.pid,
	       (gm_loop_now() - worker->since_ns) / MS, took[0] ? " " : "",
	       took);
	gm_worker_child_enter(worker, GM_PROCESS_SERVING, 0);
	if (worker->drain_requested)
		gm_demand_end(worker);
	gm_attachments_flush(worker);
	if (!gm_worker_process_is_needed(worker))
		gm_worker_child_unneeded(worker);
}

static void has_failed(struct gm_worker_process *worker,
		       const struct gm_wire *wire)
{
	gm_worker_child_failing(worker);
	if (worker->why[0])
		return;
	snprintf(worker->why, sizeof(worker->why), "%s", wire->text);
	worker->code = wire->code;
}

/* Whether it has the node's cards open, the worker says in its journal before
 * it answers JOIN. */
static bool takes_answer(struct gm_worker_process *worker,
			 const struct gm_wire *wire, int fd)
{
	if (!gm_worker_requests_on_message(worker, wire, fd))
		return false;
	if (wire->type == GM_WIRE_JOINED)
		gm_demand_recheck(worker->d->supervisor);
	return true;
}

/* @fd came with it, or is -1. */
static void on_message(struct gm_worker_process *worker, struct gm_wire *wire,
		       int fd)
{
	wire->text[sizeof(wire->text) - 1] = '\0';
	if (!worker->is_recovery &&
	    (takes_answer(worker, wire, fd) ||
	     gm_worker_users_on_message(worker, wire, fd)))
		return;
	if (fd >= 0)
		close(fd);
	switch (wire->type) {
	case GM_WIRE_READY:
		is_ready(worker, wire->text);
		break;
	case GM_WIRE_FAILED:
		has_failed(worker, wire);
		break;
	case GM_WIRE_DRAINED:
		gm_demand_drained(worker);
		break;
	case GM_WIRE_STANDBY: /* of a standby that was needed before that */
		break;
	case GM_WIRE_WAKER:
		gm_wakeup_send(worker, wire->place);
		break;
	case GM_WIRE_ATTACHED:
	case GM_WIRE_DETACHED:
	case GM_WIRE_VIOLATION:
		gm_attachments_on_message(worker, wire);
		break;
	default:
		gm_worker_child_kill(worker, "it said what no worker says");
	}
}

/* One record, and the descriptor that came with it, or -1.  Returns its bytes,
 * 0, or -1 with errno set, as recvmsg(). */
static ssize_t receive(struct gm_worker_process *worker,
		       struct gm_wire *ret_wire, int *ret_fd)
{
	struct iovec record = { ret_wire, sizeof(*ret_wire) };
	struct msghdr message = { .msg_iov = &record, .msg_iovlen = 1 };
	union gm_fds_room room;
	ssize_t n;

	*ret_fd = -1;
	gm_fds_expect(&message, &room, 1);
	n = recvmsg(worker->socket.fd, &message,
		    MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	if (n > 0)
		(void)gm_fds_take(&message, ret_fd);
	return n;
}

int gm_worker_messages_receive(struct gm_worker_process *worker)
{
	for (int i = 0; i < RECORDS_A_TURN && worker->socket.fd >= 0; i++) {
		struct gm_wire wire;
		int fd;
		ssize_t n = receive(worker, &wire, &fd);

		if (n == (ssize_t)sizeof(wire)) {
			on_message(worker, &wire, fd);
			continue;
		}
		if (fd >= 0)
			close(fd);
		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return 0;
		if (n > 0)
			gm_worker_child_kill(worker, "it sent half a record");
		return -EPIPE;
	}
	return worker->socket.fd >= 0 ? 1 : -EPIPE;
}
