/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/worker/control/send_queue.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/worker/control/agent_socket.h"

struct gm_queued_wire {
	STAILQ_ENTRY(gm_queued_wire) entry;
	struct gm_wire wire;
	int fd; /* descriptor to send with it, or -1 */
};

void gm_send_queue_init(struct gm_send_queue *outbox)
{
	STAILQ_INIT(&outbox->letters);
	outbox->is_polled = false;
}

/* Returns whether the record left the queue: sent, or lost because the socket
 * is broken, which ends the loop elsewhere. */
static bool is_sent(int pair, const struct gm_wire *wire, int fd, int flags)
{
	if (gm_agent_socket_send(pair, wire, fd, flags) == -EAGAIN)
		return false;
	if (fd >= 0)
		close(fd);
	return true;
}

void gm_send_queue_put(struct gm_send_queue *outbox, int pair,
		       const struct gm_wire *wire, int fd)
{
	struct gm_queued_wire *letter;

	if (!gm_send_queue_waits(outbox) &&
	    is_sent(pair, wire, fd, MSG_DONTWAIT))
		return;
	letter = malloc(sizeof(*letter));
	if (!letter) {
		gm_send_queue_flush(outbox, pair, true);
		is_sent(pair, wire, fd, 0);
		return;
	}
	letter->wire = *wire;
	letter->fd = fd;
	STAILQ_INSERT_TAIL(&outbox->letters, letter, entry);
}

void gm_send_queue_flush(struct gm_send_queue *outbox, int pair, bool all)
{
	struct gm_queued_wire *letter;

	while ((letter = STAILQ_FIRST(&outbox->letters)) != NULL) {
		if (!is_sent(pair, &letter->wire, letter->fd,
			     all ? 0 : MSG_DONTWAIT))
			return;
		STAILQ_REMOVE_HEAD(&outbox->letters, entry);
		free(letter);
	}
}
