/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/worker/outbox.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "agent/worker/pair.h"

struct gm_letter {
	STAILQ_ENTRY(gm_letter) entry;
	struct gm_wire wire;
};

void gm_outbox_init(struct gm_outbox *outbox)
{
	STAILQ_INIT(&outbox->letters);
	outbox->is_polled = false;
}

void gm_outbox_put(struct gm_outbox *outbox, int pair,
		   const struct gm_wire *wire)
{
	struct gm_letter *letter;

	/* A socket that has broken ends the loop elsewhere. */
	if (!gm_outbox_waits(outbox) &&
	    gm_pair_send(pair, wire, MSG_DONTWAIT) != -EAGAIN)
		return;
	letter = malloc(sizeof(*letter));
	if (!letter) {
		gm_outbox_flush(outbox, pair, true);
		gm_pair_send(pair, wire, 0);
		return;
	}
	letter->wire = *wire;
	STAILQ_INSERT_TAIL(&outbox->letters, letter, entry);
}

void gm_outbox_flush(struct gm_outbox *outbox, int pair, bool all)
{
	struct gm_letter *letter;

	while ((letter = STAILQ_FIRST(&outbox->letters)) != NULL) {
		if (gm_pair_send(pair, &letter->wire, all ? 0 : MSG_DONTWAIT) ==
		    -EAGAIN)
			return;
		STAILQ_REMOVE_HEAD(&outbox->letters, entry);
		free(letter);
	}
}
