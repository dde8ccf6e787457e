/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* Run gpumapctl plan. */

#include "agent/ctl/plan.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "agent/ctl/plan_nodes.h"

static int make(struct gm_ctl_planning *p)
{
	struct gm_plan_error error = { .code = 0 };
	struct gm_plan_advice advice = { .missing_bytes = 0 };
	int ret = gm_plan_make(&p->q, &p->plan, &advice, &error);

	if (ret != 0)
		return gm_ctl_plan_refused(p, &error,
					   ret == -ENOSPC ? &advice : NULL);
	return gm_ctl_plan_show(p);
}

static int needs_nodes(void)
{
	return gm_ctl_wrong(
		"plan: one of these options needs --nodes; see gpumapctl(1)");
}

int gm_ctl_plan(struct gm_ctl *ctl)
{
	struct gm_ctl_planning *p;
	int ret;

	if (GM_TEXT(ctl, NODES) != NULL)
		return gm_ctl_plan_nodes(ctl);
	if ((ctl->given & GM_OPTS_OF_NODES) != 0)
		return needs_nodes();
	p = calloc(1, sizeof(*p));
	if (p == NULL)
		return gm_ctl_fail(ctl, -ENOMEM, "plan");
	p->ctl = ctl;
	ret = gm_ctl_plan_read(p);
	if (ret == GM_EXIT_OK)
		ret = GM_TEXT(ctl, COMMIT) != NULL ? gm_ctl_commit(p) : make(p);
	gm_ctl_plan_free(p);
	return ret;
}
