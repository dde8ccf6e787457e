/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * NCCL with one rank, which is all that one card has, as a worker uses it: by
 * the backend of CUDA rows, in a process of another user under the filter of
 * workers that have NCCL, with their environment.  A sum comes back, and the
 * time is told that an abort takes.
 */

#include <errno.h>
#include <glob.h>

#include "agent/device/device.h"
#include "agent/worker/control/sandbox.h"
#include "tests/gpu/agent.h"

#define N        262144u
#define PATIENCE 60e3 /* ms */

/* Where NCCL is, as [cuda] nccl-library says it: "" is wherever the linker
 * finds it. */
static char folder[512];

/* Where Python's packages have it; the system's own is looked for first. */
static bool find_package(void)
{
	static const char *const patterns[] = {
		"/opt/*/.venv/lib/python3*/site-packages/nvidia/nccl/lib",
		"/usr/local/lib/python3*/*-packages/nvidia/nccl/lib",
		"/opt/*/lib/python3*/site-packages/nvidia/nccl/lib",
	};

	for (size_t i = 0; i < 3 && !folder[0]; i++) {
		glob_t found;

		if (glob(patterns[i], 0, NULL, &found) == 0)
			snprintf(folder, sizeof(folder), "%s",
				 found.gl_pathv[0]);
		globfree(&found);
	}
	return folder[0] != '\0';
}

struct figures {
	int version;
	double id_ms, meet_ms, sum_ms, abort_ms;
	unsigned char id[GM_NCCL_GROUP_ID_BYTES];
};

/* A magic number and a socket's address, since 2.14. */
static void tell_of_the_rendezvous(const unsigned char *id)
{
	uint16_t family, port;
	uint64_t magic;

	memcpy(&magic, id, sizeof(magic));
	memcpy(&family, id + 8, sizeof(family));
	memcpy(&port, id + 10, sizeof(port));
	FACT("\"rendezvous_magic\":\"%#" PRIx64 "\",\"family\":%u,\"port\":%u",
	     magic, family, (unsigned int)(port >> 8 | (port & 0xff) << 8));
	OK(!gpu_is_real() || family == AF_INET || family == AF_INET6);
}

/* ---- a worker ----------------------------------------------------------- */

static const struct gm_backend *const cuda = &gm_cuda_backend;
static struct gm_backend_device *dev;
static struct gm_nccl_group *group;
static struct gm_buffer *buffer;

/* Until a call says something else than 0: "not yet". */
static int until(int (*call)(struct gm_backend_device *,
			     struct gm_nccl_group *))
{
	double from = contract_now_ms();
	int rc = 0;

	while (rc == 0 && contract_now_ms() - from < PATIENCE)
		rc = call(dev, group);
	return rc;
}

static void sum(void)
{
	static float in[N], out[N];
	const struct gm_nccl_group_task task = {
		.op = GM_NCCL_GROUP_ALL_REDUCE,
		.dtype = GPUMAP_DTYPE_F32,
		.reduce = GPUMAP_REDUCE_SUM,
		.n = N,
		.send = buffer->address,
		.recv = buffer->address + sizeof(in),
	};

	for (uint32_t i = 0; i < N; i++)
		in[i] = (float)i;
	WANT(!gm_device_store(dev, task.send, in, sizeof(in)));
	WANT(!cuda->clique_start(dev, group, &task));
	WANT(until(cuda->clique_ended) == 1);
	WANT(!gm_device_fetch(dev, task.recv, out, sizeof(out)));
	WANT(memcmp(in, out, sizeof(in)) == 0);
}

static int work(void)
{
	struct gm_device_config config = { .nccl = getenv("GPU_NCCL_FOLDER") };
	struct figures f = { 0 };
	const char *step = "";
	double from;

	WANT(!gm_sandbox_user(65534, 65534));
	WANT(!cuda->open(&config, &dev));
	WANT(!cuda->alloc(dev, 1, 2 * N * sizeof(float), 0, &buffer));
	WANT(!gm_sandbox_self(GM_CONFINE_MEETING, &step));
	f.version = cuda->clique_version(dev);
	if (f.version > 0) {
		from = contract_now_ms();
		WANT(!cuda->clique_id(dev, f.id));
		f.id_ms = contract_now_ms() - from;
		WANT(!cuda->clique_begin(dev, f.id, 0, 1, &group));
		WANT(until(cuda->clique_ready) == 1);
		f.meet_ms = contract_now_ms() - from - f.id_ms;
		from = contract_now_ms();
		sum();
		f.sum_ms = contract_now_ms() - from;
		from = contract_now_ms();
		cuda->clique_abort(dev, group);
		f.abort_ms = contract_now_ms() - from;
	}
	WANT(gpu_tell(GPU_PART_SOCKET, &f, sizeof(f), -1));
	/* The device is as it was. */
	WANT(!gm_device_fetch(dev, buffer->address, &from, sizeof(from)));
	cuda->free(dev, buffer);
	cuda->close(dev);
	return 0;
}

/* ---- the test ----------------------------------------------------------- */

static bool one_rank_is_a_group(void)
{
	struct gpu_part part = { .socket = -1 };
	struct figures f = { 0 };

	setenv("GPU_NCCL_FOLDER", folder, 1);
	if (!OK(gpu_part_begin("worker", 0, &part)))
		return true;
	OK(gpu_hear(part.socket, &f, sizeof(f), NULL));
	EQ(gpu_part_end(&part), 0);
	if (f.version == -ENOENT)
		return false;
	if (!OK(f.version > 0))
		return true;
	tell_of_the_rendezvous(f.id);
	FACT("\"nccl\":%d,\"id_ms\":%.1f,\"meet_ms\":%.1f,\"sum_ms\":%.1f,"
	     "\"abort_ms\":%.1f",
	     f.version, f.id_ms, f.meet_ms, f.sum_ms, f.abort_ms);
	return true;
}

TAP_CASE_ARGS(argc, argv)
{
	static const char *const environment[][2] = {
		{ "NCCL_SOCKET_IFNAME", "lo" },
		{ "NCCL_IB_DISABLE", "1" },
		{ "NCCL_LAUNCH_ORDER_IMPLICIT", "1" },
		{ "NCCL_RAS_ENABLE", "0" },
		{ "NCCL_CUMEM_ENABLE", "1" },
		{ "NCCL_NET_PLUGIN", "none" },
		{ "NCCL_TUNER_PLUGIN", "none" },
		{ "NCCL_ENV_PLUGIN", "none" },
		{ "NCCL_PROFILER_PLUGIN", "none" },
		{ "NCCL_GIN_PLUGIN", "none" },
		{ "NCCL_RMA_PLUGIN", "none" },
	};

	gpu_agent_go_under(argv);
	if (argc == 3)
		return work();
	for (size_t i = 0; i < sizeof(environment) / sizeof(environment[0]);
	     i++)
		setenv(environment[i][0], environment[i][1], 0);
	if (!gpu_begin(argv))
		return tap_done();
	snprintf(folder, sizeof(folder), "%s",
		 getenv("GPU_NCCL") ? getenv("GPU_NCCL") : "");
	if (!one_rank_is_a_group() &&
	    (folder[0] || !find_package() || !one_rank_is_a_group()))
		LACK("nccl", 1,
		     "no libnccl.so.2; $GPU_NCCL may say its folder");
	if (getenv("GPU_NODES"))
		gpu_remove_machine();
	return tap_done();
}
