/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * comm - collectives, as the session's completions see them.
 *
 * Each rank's part is an entry of its own in the queue of its row, with a
 * GM_TICKET_PART.  The caller is given one completion, by a ticket that is in
 * no queue: when the last part has ended, or when the deadline has passed and
 * one of them does not answer.  What has not ended then keeps its place here.
 */
#ifndef GM_LIB_COMM_H
#define GM_LIB_COMM_H

#include "lib/internal.h"

/* A GM_TICKET_PART of this cookie has ended.  Returns the whole's ticket if it
 * has ended with it, in flight and with its status. */
struct gm_ticket *gm_part_ended(uint64_t cookie, int32_t status);

/* One whose deadline has passed: its ticket, as above.  NULL: none is left, and
 * session->late_ns says when to look again. */
struct gm_ticket *gm_comms_late(struct gpumap_session *session);

/* The session is being closed. */
void gm_comms_orphan(struct gpumap_session *session);

#endif
