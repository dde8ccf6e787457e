/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * send_queue - what the loop has to say to gpumapd.
 *
 * A gpumapd that is slow to listen must not keep the row from its work: what
 * the socket has no room for waits here, in order, until there is room.
 */
#ifndef GM_WORKER_CONTROL_SEND_QUEUE_H
#define GM_WORKER_CONTROL_SEND_QUEUE_H

#include <stdbool.h>
#include <sys/queue.h>

#include "agent/common/wire.h"

struct gm_letter;

struct gm_outbox {
	STAILQ_HEAD(, gm_letter) letters;
	bool is_polled; /* somebody waits for room */
};

void gm_outbox_init(struct gm_outbox *outbox);

static inline bool gm_outbox_waits(const struct gm_outbox *outbox)
{
	return !STAILQ_EMPTY(&outbox->letters);
}

/* Send, now or later, with a descriptor, which is closed then, or -1.  Blocks
 * for want of memory only. */
void gm_outbox_put(struct gm_outbox *outbox, int pair,
		   const struct gm_wire *wire, int fd);

/* Send what there is room for; everything, however long it takes, where @all
 * is true. */
void gm_outbox_flush(struct gm_outbox *outbox, int pair, bool all);

#endif
