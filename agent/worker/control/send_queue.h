/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * send_queue - sends the loop's records to gpumapd without blocking.
 *
 * A gpumapd that is slow to receive must not delay the row.  Records for which
 * the socket has no room wait here, in order, until there is room.
 */
#ifndef GM_WORKER_CONTROL_SEND_QUEUE_H
#define GM_WORKER_CONTROL_SEND_QUEUE_H

#include <stdbool.h>
#include <sys/queue.h>

#include "agent/common/wire.h"

struct gm_queued_wire;

struct gm_send_queue {
	STAILQ_HEAD(, gm_queued_wire) letters;
	bool is_polled; /* a poll for room is pending */
};

void gm_send_queue_init(struct gm_send_queue *outbox);

static inline bool gm_send_queue_waits(const struct gm_send_queue *outbox)
{
	return !STAILQ_EMPTY(&outbox->letters);
}

/* Send a record, now or later, with a descriptor, which is closed afterwards,
 * or -1.  Blocks only if memory for the queue is missing. */
void gm_send_queue_put(struct gm_send_queue *outbox, int pair,
		       const struct gm_wire *wire, int fd);

/* Send the records that the socket has room for.  With @all, wait until all are
 * sent. */
void gm_send_queue_flush(struct gm_send_queue *outbox, int pair, bool all);

#endif
