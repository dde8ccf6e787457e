/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * plan_form - is a PLAN request well-formed, whatever the rows are like?
 */
#ifndef GM_DAEMON_MAP_PLAN_FORM_H
#define GM_DAEMON_MAP_PLAN_FORM_H

#include "agent/daemon/base/connection.h"

/* The bytes that a text takes of the tail. */
static inline uint64_t gm_plan_form_padded(uint32_t bytes)
{
	return ((uint64_t)bytes + 7) / 8 * 8;
}

/*
 * gm_plan_form_check - check the request and the lengths of its tail's parts
 *
 * Returns	0; -EINVAL or -E2BIG, with the server's refusal set
 */
int gm_plan_form_check(struct gm_connection *c,
		       const struct gm_control_plan *ask,
		       const struct gm_request *r);

#endif
