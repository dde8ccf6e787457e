/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* Attach to an agent's map, or say why that fails. */

#include "agent/ctl/ctl.h"

#include <errno.h>
#include <stdio.h>

int gm_ctl_not_attached(int error)
{
	fprintf(stderr, "gpumapctl: %s\n", gpumap_refusal(NULL));
	return error == -ENOENT   ? GM_EXIT_NO_AGENT
	       : error == -EINVAL ? GM_EXIT_USAGE
				  : GM_EXIT_FAILED;
}

int gm_ctl_attach(struct gm_ctl *ctl)
{
	struct gpumap_attach_opts opts = { .size = sizeof(opts),
					   .instance = ctl->instance,
					   .runtime_dir = ctl->runtime_dir };
	int error = gpumap_attach(&opts, &ctl->map);

	return error == 0 ? GM_EXIT_OK : gm_ctl_not_attached(error);
}
