/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include <gpumap.h>
#include <stdio.h>

int main(int argc, char **argv)
{
	struct gpumap_attach_opts opts = { .size = sizeof(opts) };
	struct gpumap_job job = { .op = GPUMAP_OP_FILL, .n = 1 << 20 };
	struct gpumap_session *session = NULL;
	struct gpumap *map = NULL;
	int ret;

	if (argc > 2) {
		opts.instance = argv[1]; /* where it is not "node" */
		opts.runtime_dir = argv[2];
	}
	job.pattern = 'x';
	ret = gpumap_attach(&opts, &map);
	if (ret == 0)
		ret = gpumap_session_open(map, NULL, &session);
	if (ret == 0)
		ret = gpumap_alloc(session, 0, job.n, &job.dst);
	if (ret == 0) /* every device fills its part */
		ret = gpumap_scatter(session, &job, NULL, NULL, 0);
	printf("%d tiles: %s\n", ret, gpumap_strerror(ret));
	gpumap_session_close(session);
	gpumap_detach(map);
	return ret < 0;
}
