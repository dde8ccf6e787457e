/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * worker_process_rig - the inside of an agent with one CUDA row, whose
 * processes are played by the test itself, and a session of it.
 */
#ifndef GM_TEST_SUPPORT_WORKER_PROCESS_RIG_H
#define GM_TEST_SUPPORT_WORKER_PROCESS_RIG_H

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/common/numa_bind.h"
#include "agent/daemon/base/loop.h"
#include "agent/daemon/base/parts.h"
#include "agent/daemon/config.h"
#include "agent/daemon/daemon.h"
#include "agent/daemon/devices/rows.h"
#include "agent/daemon/segment/directory.h"
#include "agent/daemon/segment/segment.h"
#include "agent/daemon/subscribers.h"
#include "agent/daemon/workers/worker_process.h"
#include "gpumap.h"
#include "shm/device_kinds.h"
#include "shm/rows.h"
#include "tests/support/fake_worker_process.h"
#include "tests/support/shm_names.h"
#include "tests/support/tap.h"

#define LIMIT_NS UINT64_C(30000000000) /* against hanging */
#define STEP_NS  UINT64_C(2000000)

/* ---- an agent's inside --------------------------------------------------- */

static struct gm_daemon *d;
static struct gm_worker_process *worker;
static char instance[48], folder[64], self[160], lock[GM_NAMES_BYTES];

static inline struct gm_device *row(void)
{
	return d->devices->of[0];
}

static inline bool make_segment(void)
{
	struct gm_adopted_state *past = calloc(1, sizeof(*past));
	char why[GM_WHY_BYTES] = "";
	bool good;

	good = past && shm_names_make(instance) &&
	       gm_segment_open(instance, 1 << 20, past, why, d->segment) == 0;
	if (good)
		d->directory->heap = past->heap;
	else
		NOTE("%s", why);
	free(past);
	return good;
}

/* Row @at, whose UUID has its number, plus one. */
static inline void make_row(uint32_t at)
{
	struct gm_device *device = calloc(1, sizeof(*device));

	if (!device)
		exit(99);
	device->present = true;
	device->facts.kind = GPUMAP_DEVICE_CUDA;
	device->facts.flags = gm_device_kind(GPUMAP_DEVICE_CUDA)->flags;
	device->facts.numa_node = -1;
	device->facts.mig_gi = device->facts.mig_ci = -1;
	device->facts.row = at;
	device->facts.uuid[0] = (uint8_t)(at + 1);
	snprintf(device->facts.object.name, GM_NAME_BYTES, "a card");
	snprintf(device->id, sizeof(device->id), "%s", ID);
	device->cpus = d->allowed->cpus;
	device->moving.state = GPUMAP_DEVICE_PROBING;
	d->devices->of[at] = device;
	d->devices->n = at + 1;
	gm_rows_move(&d->segment->map.rows[at], &device->moving);
	gm_directory_row(d, &device->facts);
	gm_put(&d->segment->map.header->rows_used, at + 1);
}

/* Their environment is made anew, so a link's name tells them which case they
 * are of (tests/support/suite.c). */
static inline bool make_worker(void)
{
	char program[256] = "";

	snprintf(folder, sizeof(folder), "/tmp/%s", instance);
	snprintf(self, sizeof(self), "%s/%s", folder, getenv("TAP_CASE"));
	return readlink("/proc/self/exe", program, sizeof(program) - 1) > 0 &&
	       mkdir(folder, 0755) == 0 && symlink(program, self) == 0;
}

static inline bool begin(void)
{
	snprintf(instance, sizeof(instance), "test.%d", (int)getpid());
	shm_names_file(lock, instance, "row0.lock");
	if (!OK(shm_names_make(instance)))
		return false;
	play = open_play(lock, O_CREAT | O_EXCL);
	d = gm_daemon_new();
	if (!OK(make_worker()) || !OK(play && d))
		return false;
	setenv("KEEPER_PLAY", "1", 1);
	setenv("CUDA_LAUNCH_BLOCKING", "1", 1);
	setenv("NVIDIA_VISIBLE_DEVICES", "all", 1);
	setenv("NCCL_DEBUG", "INFO", 1);
	gm_config_init(d->config);
	d->config->cuda_idle_ns = LIMIT_NS;
	d->config->cuda_library = strdup("/opt/driver");
	d->config->cuda_cache = strdup("/var/cache/gpumap");
	d->config->cuda_pass = strdup(" NOT_SET_AT_ALL  KEEPER_PLAY ");
	d->instance = instance;
	d->runtime_dir = "/tmp";
	d->worker_path = self;
	gm_subscribers_set(d);
	gm_numa_bind_allowed(NULL, d->allowed);
	if (!EQ(gm_loop_init(d->loop), 0) || !OK(make_segment()))
		return false;
	make_row(0);
	if (!EQ(gm_supervisor_start(d), 0))
		return false;
	worker = d->supervisor->rows.workers[0];
	return OK(worker != NULL);
}

static inline void end(void)
{
	char path[GM_NAMES_BYTES];

	gm_supervisor_exit(d);
	gm_devices_exit(d);
	gm_blocks_exit(&d->directory->heap);
	gm_segment_close(d->segment);
	gm_loop_exit(d->loop);
	gm_config_free(d->config);
	unlink(self);
	rmdir(folder);
	shm_names_file(path, instance, "no-mps");
	EQ(access(path, F_OK), -1);
	shm_names_remove(instance);
	gm_daemon_free(d);
}

/* Turn the loop until @holds, or for too long. */
static bool (*awaited)(void);
static uint64_t until_ns;

static inline void look(struct gm_timer *timer)
{
	if (awaited() || gm_loop_now() > until_ns)
		gm_loop_stop(d->loop);
	else
		gm_timer_set(d->loop, timer, gm_loop_now() + STEP_NS);
}

static inline bool until(bool (*holds)(void))
{
	struct gm_timer timer = { .fired = look };

	awaited = holds;
	until_ns = gm_loop_now() + LIMIT_NS;
	d->loop->stop = false;
	gm_timer_set(d->loop, &timer, 1);
	gm_loop_run(d->loop);
	gm_timer_stop(d->loop, &timer);
	return holds();
}

/* ---- sessions ------------------------------------------------------------ */

struct client {
	struct gm_attachment attachment;
	int status; /* of its attachment; 1: not known yet */
	bool has_left;
	uint32_t n_stalls;
	char why[GM_WHY_BYTES]; /* it was refused */
};

static struct client client;

static inline void is_attached(struct gm_attachment *attachment, int status,
			       const char *why)
{
	struct client *g = gm_owner(attachment, struct client, attachment);

	g->status = status;
	if (status < 0)
		snprintf(g->why, sizeof(g->why), "%s", why);
}

static inline void is_broken(struct gm_attachment *attachment, const char *why)
{
	(void)attachment;
	NOTE("broken: %s", why);
}

static inline void has_stalled(struct gm_attachment *attachment,
			       const char *why)
{
	gm_owner(attachment, struct client, attachment)->n_stalls++;
	NOTE("stalled: %s", why);
}

static inline void has_left(struct gm_attachment *attachment)
{
	gm_owner(attachment, struct client, attachment)->has_left = true;
}

static inline int attach_user_of(struct client *g, uint32_t uid)
{
	static uint64_t session;
	int ret;

	*g = (struct client){ .attachment = { .session = ++session,
					      .uid = uid,
					      .depth = 16,
					      .queues = 2,
					      .arena = 2,
					      .doorbell = 2,
					      .socket = -1,
					      .attached = is_attached,
					      .broken = is_broken,
					      .stalled = has_stalled,
					      .left = has_left },
			      .status = 1 };
	ret = gm_supervisor_attach(d, 0, &g->attachment, g->why);
	if (ret)
		NOTE("%s", g->why);
	return ret;
}

static inline int attach_user(struct client *g)
{
	return attach_user_of(g, 0);
}

static inline int attach_client(void)
{
	return attach_user(&client);
}

static inline bool is_answered(void)
{
	return client.status <= 0;
}

static inline bool left_it(void)
{
	return client.has_left;
}

static inline bool leave(void)
{
	gm_supervisor_leave(d, &client.attachment);
	return until(left_it);
}

/* ---- what is waited for -------------------------------------------------- */

static inline bool standby_waits(void)
{
	return worker->standby.state == GM_STANDBY_STANDBY;
}

static inline bool no_process(void)
{
	return !gm_worker_process_has_child(worker) &&
	       !gm_standby_runs(&worker->standby);
}

static inline bool is_back(void)
{
	return row()->moving.state == GPUMAP_DEVICE_READY &&
	       worker->state == GM_PROCESS_SERVING &&
	       client.attachment.state == GM_ATTACHMENT_TAKEN;
}

/* ---- main ---------------------------------------------------------------- */

/* For main(): run a played process if this is one, and do not return then. */
static inline void play_if_child(int argc, char **argv)
{
	const char *at;

	if (argc < 2)
		return;
	at = option(argv, "--lock");
	play = at ? open_play(at, 0) : NULL;
	exit(play ? be_a_child(argv) : 3);
}

#endif
