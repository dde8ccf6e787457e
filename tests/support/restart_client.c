/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* Scatter a job for each line that comes, and go on with the next agent.  The
 * inner loop is an example of gpumap(3). */

#include <errno.h>
#include <gpumap.h>
#include <stdio.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	struct gpumap_attach_opts opts = { .size = sizeof(opts) };
	struct gpumap_job job = { .op = GPUMAP_OP_FILL, .n = 1 << 20 };
	struct gpumap_session *session = NULL;
	struct gpumap *map = NULL;
	char line[8];
	int ret;

	if (argc > 2) {
		opts.instance = argv[1];
		opts.runtime_dir = argv[2];
	}
	do {
		ret = session != NULL
			      ? gpumap_scatter(session, &job, NULL, NULL, 0)
			      : -ECONNRESET;
		while (ret == -ECONNRESET || ret == -ECONNREFUSED ||
		       ret == -ESHUTDOWN || ret == -ENOENT || ret == -ESTALE) {
			gpumap_session_close(session);
			session = NULL;
			if (ret == -ESTALE) { /* another map has its name */
				gpumap_detach(map);
				map = NULL;
			}
			if (ret == -ENOENT) /* no agent has made a map */
				sleep(1);
			ret = map == NULL ? gpumap_attach(&opts, &map) : 0;
			if (ret == 0)
				ret = gpumap_wait_ready(map,
							GPUMAP_NO_DEADLINE);
			if (ret == 0)
				ret = gpumap_session_open(map, NULL, &session);
			if (ret == 0)
				ret = gpumap_alloc(session, 0, job.n, &job.dst);
			if (ret == 0)
				ret = gpumap_scatter(session, &job, NULL, NULL,
						     0);
		}
		printf("%d tiles: %s\n", ret, gpumap_strerror(ret));
		fflush(stdout);
	} while (ret > 0 && fgets(line, sizeof(line), stdin) != NULL);
	gpumap_session_close(session);
	gpumap_detach(map);
	return ret < 0;
}
