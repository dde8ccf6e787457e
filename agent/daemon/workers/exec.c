/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/workers/exec.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include "agent/daemon/base/environment.h"
#include "agent/daemon/base/parts.h"
#include "agent/daemon/config.h"
#include "agent/daemon/devices/rows.h"
#include "gpumap.h"
#include "shm/device_kinds.h"

#define SECOND        UINT64_C(1000000000)

#define ARGUMENTS     48
#define READY_NS      (10 * SECOND)
#define READY_CARD_NS (120 * SECOND) /* the driver starts one at a time */

struct launch {
	char *argv[ARGUMENTS + 1]; /* and a NULL */
	uint32_t n;                /* also what there was no room for */
	char row[16];
	char node[16];
	char uid[16];
	char gid[16];
	char depth[16];
	char bytes[16];
	char slice[16];
	char limit[24];
	char cpus[4096];
	char threads[16];
	char cache[PATH_MAX], operators[PATH_MAX];
	struct gm_environment env;
};

static void argue(struct launch *l, const char *option, const char *value)
{
	const char *const words[] = { option, value };

	for (size_t i = 0; i < 2 && words[i]; i++, l->n++) {
		if (l->n < ARGUMENTS)
			l->argv[l->n] = (char *)(uintptr_t)words[i];
	}
}

static int make_command(const struct gm_worker_process *worker,
			enum gm_exec_part part, struct launch *l)
{
	const struct gm_daemon *d = worker->d;
	const struct gm_device *device = d->devices->of[worker->row];

	if (gm_idset_format(&device->cpus, l->cpus, sizeof(l->cpus)) < 0)
		return -E2BIG;
	snprintf(l->row, sizeof(l->row), "%u", worker->row);
	snprintf(l->node, sizeof(l->node), "%d", device->facts.numa_node);
	snprintf(l->uid, sizeof(l->uid), "%u", (unsigned)d->config->worker_uid);
	snprintf(l->gid, sizeof(l->gid), "%u", (unsigned)d->config->worker_gid);
	snprintf(l->depth, sizeof(l->depth), "%u", d->config->load_depth);
	snprintf(l->bytes, sizeof(l->bytes), "%u",
		 (unsigned)d->config->load_bytes / GM_LOAD_ALIGN *
			 GM_LOAD_ALIGN);
	snprintf(l->slice, sizeof(l->slice), "%u",
		 (unsigned)d->config->slice_bytes / GM_SLICE_LEAST *
			 GM_SLICE_LEAST);
	argue(l, d->worker_path, NULL);
	argue(l, "--row", l->row);
	argue(l, "--name", device->facts.object.name);
	argue(l, "--node", l->node);
	argue(l, "--cpus", l->cpus);
	argue(l, "--lock", worker->lock_path);
	argue(l, "--uid", l->uid);
	argue(l, "--gid", l->gid);
	argue(l, "--load-depth", l->depth);
	argue(l, "--load-bytes", l->bytes);
	argue(l, "--slice", l->slice);
	if (part == GM_EXEC_RECOVERY)
		argue(l, "--recover", NULL);
	else if (worker->group->runs_programs)
		argue(l, "--programs", NULL);
	return 0;
}

/* Has the row's card another one to meet?  Parts of cards have none. */
static bool has_peer(const struct gm_daemon *d, uint32_t row)
{
	const struct gm_devices *devices = d->devices;
	uint32_t n = 0;

	for (uint32_t i = 0; i < devices->n; i++)
		n += devices->of[i]->facts.kind ==
			     devices->of[row]->facts.kind &&
		     gm_device_can(devices->of[i], GPUMAP_DEVICE_CLIQUES);
	return n > 1 && gm_device_can(devices->of[row], GPUMAP_DEVICE_CLIQUES);
}

static const struct gm_config_cliques *
cliques_of(const struct gm_worker_process *worker)
{
	return gm_config_cliques(
		worker->d->config,
		worker->d->devices->of[worker->row]->facts.kind);
}

/* Client programs have no part in collectives, and must not reach sockets. */
static bool has_nccl(const struct gm_worker_process *worker)
{
	uint32_t may = cliques_of(worker)->may;

	if (worker->group->runs_programs)
		return false;
	return may == GM_CONFIG_NCCL_YES ||
	       (may == GM_CONFIG_NCCL_AUTO && has_peer(worker->d, worker->row));
}

static void add_nccl(const struct gm_worker_process *worker, struct launch *l)
{
	const struct gm_config_cliques *cliques = cliques_of(worker);

	if (!has_nccl(worker))
		return;
	snprintf(l->limit, sizeof(l->limit), "%" PRIu64,
		 cliques->limit_ns / 1000000);
	argue(l, "--nccl", cliques->library ? cliques->library : "-");
	argue(l, "--nccl-limit", l->limit);
}

static int set_all(struct launch *l, size_t n, const char *const told[][2])
{
	int error = 0;

	for (size_t i = 0; error == 0 && i < n; i++)
		if (told[i][1])
			error = gm_environment_set(&l->env, told[i][0],
						   told[i][1]);
	return error;
}

#define SET_ALL(l, told) set_all(l, sizeof(told) / sizeof((told)[0]), told)

/* RCCL reads the same variables. */
static int make_nccl_environment(const struct gm_worker_process *worker,
				 struct launch *l)
{
	const char *const told[][2] = {
		/* No worker is on another node. */
		{ "NCCL_SOCKET_IFNAME", "lo" },
		{ "NCCL_IB_DISABLE", "1" },
		{ "NCCL_LAUNCH_ORDER_IMPLICIT", "1" },
		/* A service that answers any local user about all ranks. */
		{ "NCCL_RAS_ENABLE", "0" },
		/* Memory by descriptor: the other way reads /proc of the
		 * peers, which is closed.  RCCL has no other way than its own,
		 * and fails where it is told to take NCCL's. */
		{ "NCCL_CUMEM_ENABLE",
		  worker->d->devices->of[worker->row]->facts.kind ==
				  GPUMAP_DEVICE_HIP
			  ? "0"
			  : "1" },
		/* Libraries that the administrator has not named here. */
		{ "NCCL_NET_PLUGIN", "none" },
		{ "NCCL_TUNER_PLUGIN", "none" },
		{ "NCCL_ENV_PLUGIN", "none" },
		{ "NCCL_PROFILER_PLUGIN", "none" },
		{ "NCCL_GIN_PLUGIN", "none" },
		{ "NCCL_RMA_PLUGIN", "none" },
	};

	return has_nccl(worker) ? SET_ALL(l, told) : 0;
}

/* The options by which a worker and its standby learn of their card. */
static void add_cuda(const struct gm_worker_process *worker,
		     enum gm_exec_part part, struct launch *l)
{
	const struct gm_daemon *d = worker->d;

	argue(l, "--backend", "cuda");
	argue(l, "--device", d->devices->of[worker->row]->id);
	if (d->config->cuda_library)
		argue(l, "--library", d->config->cuda_library);
	add_nccl(worker, l);
	if (part == GM_EXEC_STANDBY)
		argue(l, "--standby", NULL);
}

/*
 * The card by its identity and not by a number, which is another one in another
 * order.  As many queues as the driver can have, for lanes must not wait for
 * each other.  Code is loaded when its function is asked for: gpumap's and
 * clients' before the first job, and of libnccl's some hundred MiB that alone
 * which is used.  No worker may load code that another user's program can have
 * written: programs have no cache of compiled code.
 */
static int make_cuda_environment(const struct gm_worker_process *worker,
				 struct launch *l)
{
	const struct gm_daemon *d = worker->d;
	const struct gm_config *config = d->config;
	bool programs = worker->group->runs_programs;
	const char *const told[][2] = {
		{ "CUDA_VISIBLE_DEVICES", d->devices->of[worker->row]->id },
		{ "CUDA_DEVICE_MAX_CONNECTIONS", "32" },
		{ "CUDA_MODULE_LOADING", "LAZY" },
		{ "CUDA_CACHE_PATH", programs ? NULL : config->cuda_cache },
		{ "CUDA_CACHE_DISABLE", programs ? "1" : NULL },
		/* A worker of programs may not open a daemon's pipes. */
		{ "CUDA_MPS_PIPE_DIRECTORY", config->cuda_mps && !programs
						     ? NULL
						     : d->supervisor->no_mps },
	};
	int error = SET_ALL(l, told);

	if (error == 0)
		error = make_nccl_environment(worker, l);
	return error == 0 ? gm_environment_pass(&l->env, config->cuda_pass)
			  : error;
}

/* The driver of rows of this kind; NULL: a host, or CUDA. */
static const struct gm_config_driver *driver_of(const struct gm_config *config,
						uint32_t kind)
{
	switch (kind) {
	case GPUMAP_DEVICE_HIP:
		return &config->drivers[GM_CONFIG_HIP];
	case GPUMAP_DEVICE_OPENCL:
		return &config->drivers[GM_CONFIG_OPENCL];
	case GPUMAP_DEVICE_VULKAN:
		return &config->drivers[GM_CONFIG_VULKAN];
	default:
		return NULL;
	}
}

/* Compilers of a row's own worker keep what they made, from one worker to the
 * next, and the worker keeps its operators, which workers for programs read.
 * Such a worker clears its own folder, where another program of the same user
 * may have left anything. */
static void add_vendor(const struct gm_worker_process *worker,
		       const struct gm_config_driver *driver,
		       enum gm_exec_part part, struct launch *l)
{
	const struct gm_daemon *d = worker->d;
	const struct gm_device *device = d->devices->of[worker->row];

	argue(l, "--backend", gm_device_kind(device->facts.kind)->name);
	argue(l, "--device", device->id);
	if (device->facts.kind != GPUMAP_DEVICE_HIP)
		argue(l, "--library", device->library ? device->library : "");
	else {
		if (driver->vendors)
			argue(l, "--library", driver->vendors);
		add_nccl(worker, l);
	}
	if (part == GM_EXEC_STANDBY)
		argue(l, "--standby", NULL);
	if (!driver->cache)
		return; /* the worker says where it needs one */
	snprintf(l->operators, sizeof(l->operators), "%s/%u", driver->cache,
		 worker->row);
	if (worker->group->runs_programs)
		snprintf(l->cache, sizeof(l->cache), "%s/%u-%u", driver->cache,
			 worker->row, (unsigned)worker->group->uid);
	else
		snprintf(l->cache, sizeof(l->cache), "%s", l->operators);
	argue(l, "--cache", l->cache);
	argue(l, "--operators", l->operators);
}

/* One card by its number, and then the first of those: a runtime of HIP may
 * end a process that sees a card which it cannot use.  A card without a number
 * is seen with the others. */
static int make_hip_environment(const struct gm_worker_process *worker,
				const struct gm_config_driver *driver,
				struct launch *l)
{
	const char *number =
		strstr(worker->d->devices->of[worker->row]->id, "GPU-");
	const char *const told[][2] = {
		{ "ROCR_VISIBLE_DEVICES", number },
		{ "HIP_VISIBLE_DEVICES", number ? "0" : NULL },
	};
	int error = SET_ALL(l, told);

	if (error == 0)
		error = make_nccl_environment(worker, l);
	return error == 0 ? gm_environment_pass(&l->env, driver->pass) : error;
}

/* Kernels of PoCL are linked when they are compiled, and not for the size of
 * each launch, which a confined process cannot do.  Other libraries do not read
 * what is not theirs. */
static int make_vendor_environment(const struct gm_worker_process *worker,
				   const struct gm_config_driver *driver,
				   struct launch *l)
{
	const struct gm_daemon *d = worker->d;
	const char *const told[][2] = {
		{ "POCL_WORK_GROUP_SPECIALIZATION", "0" },
		{ "POCL_MAX_PTHREAD_COUNT", l->threads },
		{ "POCL_CACHE_DIR", l->cache },
		{ "LP_NUM_THREADS", l->threads },
		{ "MESA_SHADER_CACHE_DIR", l->cache },
		{ "CUDA_CACHE_PATH", l->cache },
		{ "XDG_CACHE_HOME", l->cache },
	};
	int error;

	snprintf(l->threads, sizeof(l->threads), "%d",
		 gm_idset_count(&d->devices->of[worker->row]->cpus));
	error = SET_ALL(l, told);
	return error == 0 ? gm_environment_pass(&l->env, driver->pass) : error;
}

int gm_worker_exec(const struct gm_worker_process *worker,
		   enum gm_exec_part part, struct gm_spawned *ret_child)
{
	uint32_t kind = worker->d->devices->of[worker->row]->facts.kind;
	struct launch *l = calloc(1, sizeof(*l));
	const struct gm_config_driver *driver;
	int error;

	if (!l)
		return -ENOMEM;
	gm_environment_init(&l->env);
	error = make_command(worker, part, l);
	if (part == GM_EXEC_RECOVERY)
		kind = GPUMAP_DEVICE_HOST; /* it opens no device */
	if (error == 0 && kind == GPUMAP_DEVICE_CUDA) {
		add_cuda(worker, part, l);
		error = make_cuda_environment(worker, l);
	}
	driver = driver_of(worker->d->config, kind);
	if (error == 0 && driver) {
		add_vendor(worker, driver, part, l);
		error = kind == GPUMAP_DEVICE_HIP
				? make_hip_environment(worker, driver, l)
				: make_vendor_environment(worker, driver, l);
	}
	if (error == 0 && l->n > ARGUMENTS)
		error = -E2BIG;
	if (error == 0)
		error = gm_spawn(l->argv, l->env.of, worker->journal_fd,
				 worker->group->group_page_fd, ret_child);
	free(l);
	return error;
}

uint64_t gm_worker_exec_limit(const struct gm_worker_process *worker)
{
	return worker->is_card ? READY_CARD_NS : READY_NS;
}
