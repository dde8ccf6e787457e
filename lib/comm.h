/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * comm - turn the completions of a collective's parts into one completion.
 *
 * Each rank's part is an entry of its own in the queue of its row, with a
 * GM_TICKET_PART.  The caller receives one completion, by a ticket that is in
 * no queue, when the last part has ended, or when the deadline has passed and a
 * part does not answer.  A part that has not ended then keeps its place here.
 */
#ifndef GM_LIB_COMM_H
#define GM_LIB_COMM_H

#include "lib/internal.h"

/* Note that a GM_TICKET_PART of this cookie has ended.  If the collective ends
 * with it, returns its ticket, in flight and with its status. */
struct gm_ticket *gm_part_ended(uint64_t cookie, int32_t status);

/* Find a collective whose deadline has passed.  Returns its ticket, as above,
 * or NULL where none is left; session->late_ns then says when to call again. */
struct gm_ticket *gm_comms_late(struct gpumap_session *session);

/* Detach the communicators from a session that is being closed. */
void gm_comms_drop_session(struct gpumap_session *session);

#endif
