/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include <errno.h>
#include <signal.h>
#include <string.h>

#include "agent/top/top.h"

/* Requests of one attachment wait for each other, and a drain takes as long as
 * the row's jobs do: this one has its own. */
static void *drain_row(void *data)
{
	struct gm_top_drain *drain = data;
	struct gpumap_attach_opts opts = { .size = sizeof(opts),
					   .instance = drain->instance,
					   .runtime_dir = drain->runtime_dir };
	struct gpumap *map = NULL;
	const char *why;
	int ret = gpumap_attach(&opts, &map);

	if (ret == 0)
		ret = drain->is_back ? gpumap_device_undrain(map, drain->row)
				     : gpumap_device_drain(map, drain->row);
	why = gpumap_refusal(map);
	drain->error = ret;
	snprintf(drain->why, sizeof(drain->why), "%s",
		 why[0] != '\0' ? why : gpumap_strerror(ret));
	gpumap_detach(map);
	return NULL;
}

int gm_top_drain_start(struct gm_top_drain *drain, uint32_t row, bool is_back)
{
	sigset_t all, before;
	int ret;

	if (drain->runs)
		return -EBUSY;
	drain->row = row;
	drain->is_back = is_back;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	ret = pthread_create(&drain->thread, NULL, drain_row, drain);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	drain->runs = ret == 0;
	return -ret;
}

bool gm_top_drain_tell(struct gm_top_drain *drain, char *ret_text, size_t bytes)
{
	const char *what = drain->is_back ? "undrain" : "drain";

	if (!drain->runs)
		return false;
	if (pthread_tryjoin_np(drain->thread, NULL) != 0) {
		snprintf(ret_text, bytes, "%s of row %u: under way", what,
			 drain->row);
		return true;
	}
	drain->runs = false;
	snprintf(ret_text, bytes, "%s of row %u: %s", what, drain->row,
		 drain->error == 0 ? "done" : drain->why);
	return true;
}
