/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * plan_form - is a PLAN request well-formed, whatever the rows are like?
 */
#ifndef GM_DAEMON_MAP_PLAN_FORM_H
#define GM_DAEMON_MAP_PLAN_FORM_H

#include "agent/daemon/base/connection.h"
#include "gpumap.h"

/*
 * gm_plan_form_check - check the request and the lengths of its tail's parts
 *
 * Returns	0; -EINVAL or -E2BIG, with the server's refusal set
 */
int gm_plan_form_check(struct gm_connection *c,
		       const struct gm_control_plan *ask,
		       const struct gm_request *r);

/*
 * gm_plan_form_read - read the request, which was checked, as clients make it
 *
 * tail		a copy of the request's, aligned to 8 bytes
 * ret_ask	points into @ask and @tail
 */
void gm_plan_form_read(const struct gm_control_plan *ask, const char *tail,
		       struct gpumap_plan_request *ret_ask);

#endif
