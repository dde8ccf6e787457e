/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * gpu_agent - a gpumapd of the test's own with the machine's cards for rows.
 *
 * Where $CONTRACT_UNDER leads to a stand-in, the test begins again with a
 * machine of that in a file: workers are another user, who could not open one
 * that only this process has.
 */
#ifndef GM_TEST_GPU_AGENT_H
#define GM_TEST_GPU_AGENT_H

#include <limits.h>
#include <sys/syscall.h>

#include "tests/gpu/gpu.h"
#include "tests/support/agent.h"
#include "tests/support/driver_copy.h"
#include "tests/support/story.h"

struct gpu_agent {
	struct agent agent;
	struct gpumap *map;
	struct gpumap_session *session;
	uint32_t row;  /* the first CUDA row that is READY */
	uint32_t host; /* a host row */
};

/* The folder of device nodes. */
static inline const char *gpu_nodes(void)
{
	const char *nodes = getenv("GPU_NODES");

	return nodes ? nodes : "/dev";
}

static inline void gpu_remove_machine(void)
{
	char path[128];

	for (int i = 0; i < 32; i++) {
		snprintf(path, sizeof(path), "%s/nvidia%d", gpu_nodes(), i);
		unlink(path);
	}
	rmdir(gpu_nodes());
	driver_copy_remove(getenv("GPU_DRIVER"));
	unlink(getenv("GPUMAP_FAKE_HARDWARE"));
}

/* Begin again with a machine in a file, where there is to be one. */
static inline void gpu_agent_go_under(char **argv)
{
	const char *under = getenv("CONTRACT_UNDER");
	const char *libraries = getenv("LD_LIBRARY_PATH");
	const char *top = getenv("abs_top_builddir");
	char path[64], nodes[64], driver[64], text[2 * PATH_MAX];

	if (!under || !top)
		return;
	snprintf(path, sizeof(path), "%s/gpumap-hardware.%d", shm_names_large(),
		 getpid());
	snprintf(nodes, sizeof(nodes), "/tmp/gpumap-nodes.%d", getpid());
	snprintf(driver, sizeof(driver), "/tmp/gpumap-driver.%d", getpid());
	snprintf(text, sizeof(text),
		 "mkdir -m 0755 %s && %.*s make -d %s %s && "
		 "chmod 0666 %s %s/*",
		 nodes, (int)strcspn(under, " "), under, nodes, path, path,
		 nodes);
	setenv("GPUMAP_FAKE_HARDWARE", path, 1);
	setenv("GPU_NODES", nodes, 1);
	setenv("GPU_DRIVER", driver, 1);
	if (system(text) != 0 || !driver_copy_make(driver))
		return;
	snprintf(text, sizeof(text), "%s/operators_kernels.so", driver);
	setenv("GPUMAP_FAKE_KERNELS", text, 1);
	snprintf(text, sizeof(text), "%s%s%s", driver, libraries ? ":" : "",
		 libraries ? libraries : "");
	setenv("LD_LIBRARY_PATH", text, 1);
	unsetenv("CONTRACT_UNDER");
	execv("/proc/self/exe", argv);
}

/* The first row of a kind that is READY, UINT32_MAX: none. */
static inline uint32_t gpu_agent_row(const struct gpumap *map, uint32_t kind)
{
	for (uint32_t row = 0; row < gpumap_device_count(map); row++) {
		struct gpumap_device device = story_device(map, row);

		if (device.kind == kind && device.state == GPUMAP_DEVICE_READY)
			return row;
	}
	return UINT32_MAX;
}

/* gpumapd needs it; some machines that lend a card refuse it. */
static inline bool gpu_has_io_uring(void)
{
	char params[256] = "";
	long fd = syscall(__NR_io_uring_setup, 4, params);

	if (fd >= 0)
		close((int)fd);
	return fd >= 0;
}

/* False, with a line that says why: there is nothing to test. */
static inline bool gpu_agent_make(struct gpu_agent *g, const char *more)
{
	char text[PATH_MAX + 1024], stand_in[PATH_MAX + 256] = "";

	memset(g, 0, sizeof(*g));
	if (!gpu_has_io_uring()) {
		LACK("io_uring", 1, "io_uring is refused here: no gpumapd");
		return false;
	}
	if (!gpu_is_real())
		snprintf(stand_in, sizeof(stand_in),
			 "library = %s\n"
			 "pass-environment = GPUMAP_FAKE_HARDWARE "
			 "GPUMAP_FAKE_KERNELS\n",
			 getenv("GPU_DRIVER"));
	snprintf(text, sizeof(text),
		 "[cuda]\nenabled = required\nlist-limit = 60s\n%s%s", stand_in,
		 more);
	agent_make(&g->agent, text);
	if (!OK(agent_start(&g->agent))) {
		agent_show_log(&g->agent);
		return false;
	}
	g->map = story_attach(&g->agent);
	if (!OK(g->map != NULL))
		return false;
	g->row = gpu_agent_row(g->map, GPUMAP_DEVICE_CUDA);
	g->host = gpu_agent_row(g->map, GPUMAP_DEVICE_HOST);
	return OK(g->row != UINT32_MAX) && OK(g->host != UINT32_MAX);
}

static inline bool gpu_agent_session(struct gpu_agent *g, uint64_t arena_bytes)
{
	struct gpumap_session_opts opts = { .size = sizeof(opts),
					    .arena_bytes = arena_bytes };

	return EQ(gpumap_session_open(g->map, &opts, &g->session), 0);
}

/* One job to its end.  Its status, or what refused it. */
static inline int gpu_agent_do(struct gpumap_session *session, uint32_t row,
			       const struct gpumap_job *job)
{
	struct gpumap_done done = { .status = -EIO };
	int r = gpumap_submit(session, row, job, 1);

	if (r)
		return r;
	r = gpumap_wait(session, &done, 1, story_now() + STORY_LIMIT_NS);
	return r < 0 ? r : done.status;
}

static inline void gpu_agent_remove(struct gpu_agent *g)
{
	gpumap_session_close(g->session);
	gpumap_detach(g->map);
	if (g->agent.pid)
		EQ(agent_kill(&g->agent, SIGTERM), 0);
	if (getenv("GPU_NODES"))
		gpu_remove_machine();
	if (g->agent.kept && tap_failures)
		agent_show_log(&g->agent);
	if (g->agent.kept)
		agent_remove(&g->agent);
}

#endif
