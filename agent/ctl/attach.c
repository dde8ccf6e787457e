/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* Attach to an agent's map, or say why that fails. */

#include "agent/ctl/ctl.h"

#include <errno.h>
#include <stdio.h>

int gm_ctl_not_attached(int error)
{
	gm_ctl_say("%s", gpumap_refusal(NULL));
	return error == -ENOENT   ? GM_EXIT_NO_AGENT
	       : error == -EINVAL ? GM_EXIT_USAGE
				  : GM_EXIT_FAILED;
}

struct gpumap_attach_opts gm_ctl_where(const struct gm_ctl *ctl)
{
	return (struct gpumap_attach_opts){
		.size = sizeof(struct gpumap_attach_opts),
		.instance = ctl->instance,
		.runtime_dir = ctl->runtime_dir,
	};
}

int gm_ctl_attach(struct gm_ctl *ctl)
{
	struct gpumap_attach_opts opts = gm_ctl_where(ctl);
	int error = gpumap_attach(&opts, &ctl->map);

	return error == 0 ? GM_EXIT_OK : gm_ctl_not_attached(error);
}

bool gm_ctl_next_device(const struct gpumap *map, uint32_t *cursor,
			struct gpumap_device *ret_device)
{
	while (*cursor < gpumap_device_count(map)) {
		*ret_device =
			(struct gpumap_device){ .size = sizeof(*ret_device) };
		if (gpumap_device_read(map, (*cursor)++, ret_device) == 0)
			return true;
	}
	return false;
}
