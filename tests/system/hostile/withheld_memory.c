/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * A client punches holes into its session's memory, so that the worker waits
 * for it: that session is ended, and with the second one all sessions of its
 * user.  The worker lives, and the jobs of others go on.  Where another user
 * may have punched them, the session's user is held back for the second time
 * only.
 */

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gpumap.h"
#include "tests/support/hole_punch.h"
#include "tests/support/tap.h"
#include "tests/support/users.h"
#include "tests/system/hostile/honest_client.h"

#define STRANGER 61358u /* a uid without other processes */
#define OWNER    61359u
#define IMPORTER 61360u
#define PUNCHER  61361u
#define DEPTH    64u
#define RANGE    (UINT64_C(64) << 10)
#define BUFFER   (UINT64_C(64) << 10)
#define LIMIT_NS UINT64_C(60000000000)

enum {
	ATTACK_DONE,
	ATTACK_NO_SESSION,
	ATTACK_NO_HOLES,
	ATTACK_SESSION_STAYS,
	ATTACK_OTHER_ENDED,
	ATTACK_OTHER_STAYS
};

static const char config[] = "[socket]\n"
			     "mode = 0666\n"
			     "[host]\n"
			     "rows = 1\n"
			     "[cuda]\n"
			     "share = any\n";

static struct agent agent;
static struct good good;
static char socket_path[160];

/* Have the worker look at the session's memory until the agent has ended the
 * session. */
static bool is_ended(struct raw *c)
{
	const struct gm_entry nop = raw_entry(&c->row[0], GPUMAP_OP_NOP);
	uint64_t until = raw_now() + LIMIT_NS;
	uint32_t position;
	int32_t status;

	while (!raw_is_over(c) && raw_now() < until) {
		raw_post(&c->row[0], &nop, 1);
		raw_ring(&c->row[0]);
		while (raw_take(&c->row[0], &position, &status))
			;
	}
	return raw_is_over(c);
}

static int withhold(struct raw *c)
{
	pid_t puncher = hole_punch_start(c->queues, c->queues_bytes);
	bool is_over;

	if (puncher < 0)
		return ATTACK_NO_HOLES;
	is_over = is_ended(c);
	hole_punch_stop(puncher);
	return is_over ? ATTACK_DONE : ATTACK_SESSION_STAYS;
}

/* Returns the exit status of the attacker, which needs its sessions before the
 * first one is ended: its user is held back then. */
static int withhold_twice(void)
{
	struct raw c[3];
	int ret;

	for (int i = 0; i < 3; i++) {
		raw_init(&c[i]);
		if (raw_open_queue(&c[i], socket_path, 0, DEPTH, RANGE) != 0)
			return ATTACK_NO_SESSION;
	}
	ret = withhold(&c[0]);
	if (ret == ATTACK_DONE && (raw_is_over(&c[1]) || raw_is_over(&c[2])))
		ret = ATTACK_OTHER_ENDED;
	if (ret == ATTACK_DONE && geteuid() == STRANGER)
		ret = withhold(&c[1]);
	if (ret == ATTACK_DONE && geteuid() == STRANGER &&
	    !raw_wait_over(&c[2]))
		ret = ATTACK_OTHER_STAYS;
	return ret;
}

static pid_t start(void)
{
	pid_t parent = getpid(), pid = fork();

	if (pid != 0)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent ||
	    (geteuid() == 0 && !user_become(STRANGER, STRANGER)))
		_exit(97);
	_exit(withhold_twice());
}

static struct gpumap_device row(void)
{
	struct gpumap_device device = { .size = sizeof(device) };

	EQ(gpumap_device_read(good.map, 0, &device), 0);
	return device;
}

static void worker_and_others_go_on(void)
{
	const struct gpumap_device before = row();
	pid_t attacker = start();
	int status = 0;

	while (waitpid(attacker, &status, WNOHANG) == 0)
		good_job(&good, 0);
	if (!OK(WIFEXITED(status)))
		return;
	if (WEXITSTATUS(status) == ATTACK_NO_HOLES) {
		SKIP(1, "vm.max_map_count is too small");
		return;
	}
	EQ(WEXITSTATUS(status), ATTACK_DONE);
	OK(agent_wait_log(&agent, "event=user_held_back"));
	EQ(agent_count_log(&agent, "event=user_held_back"),
	   geteuid() == 0 ? 2 : 1);
	good_job(&good, 0);
	EQ(row().worker_pid, before.worker_pid);
	EQ(row().restarts, before.restarts);
}

/* ---- holes of another user ---------------------------------------------- */

static int open_as(struct raw *c, uid_t uid)
{
	int ret;

	raw_init(c);
	if (seteuid(uid) != 0)
		return -EPERM;
	ret = raw_open_queue(c, socket_path, 0, DEPTH, RANGE);
	if (seteuid(0) != 0)
		exit(99);
	return ret;
}

/* Export a buffer of this session.  Returns the export's id. */
static uint64_t export_from(struct raw *c, uint64_t handle)
{
	struct gm_entry alloc = raw_entry(&c->row[0], GPUMAP_OP_ALLOC);
	struct gm_export_reply export = { 0 };

	alloc.dst_buffer = handle;
	alloc.n = BUFFER;
	alloc.value = GPUMAP_BUFFER_EXPORTABLE;
	EQ(raw_do(c, &c->row[0], &alloc), 0);
	EQ(raw_export(c, handle, &export), 0);
	return export.id;
}

static uint64_t import_into(struct raw *c, uint64_t id)
{
	struct gm_import ask = {
		.id = id, .handle = gm_handle_make(1, GM_BUFFER_DEVICE, 0, 2)
	};
	struct gm_import_reply reply;

	EQ(raw_import(c, &ask, &reply, NULL), 0);
	return ask.handle;
}

/* Punch holes into the export, and fill the buffer of that handle until the
 * agent has ended the session. */
static void fill_in_vain(struct raw *c, uint64_t handle, struct raw *puncher,
			 uint64_t id)
{
	struct gm_entry fill = raw_entry(&c->row[0], GPUMAP_OP_FILL);
	const struct gm_import ask = { .id = id };
	struct gm_import_reply reply;
	uint64_t until = raw_now() + LIMIT_NS;
	pid_t pid;
	int fd = -1;

	fill.dst_buffer = handle;
	fill.n = BUFFER;
	EQ(raw_do(c, &c->row[0], &fill), 0);
	EQ(raw_import(puncher, &ask, &reply, &fd), 0);
	pid = hole_punch_start(fd, BUFFER);
	if (OK(pid > 0)) {
		while (!raw_is_over(c) && raw_now() < until)
			raw_do(c, &c->row[0], &fill);
		OK(raw_is_over(c));
		hole_punch_stop(pid);
	}
	close(fd);
}

static uint32_t held_back(uid_t uid)
{
	char event[64];

	snprintf(event, sizeof(event), "event=user_held_back uid=%u ",
		 (unsigned)uid);
	return agent_count_log(&agent, event);
}

static void holes_of_others_count_twice(void)
{
	const uint64_t handle = gm_handle_make(1, GM_BUFFER_DEVICE, 0, 1);
	struct raw owner, importer, puncher;
	uint64_t id;

	EQ(open_as(&puncher, PUNCHER), 0);
	EQ(open_as(&owner, OWNER), 0);
	EQ(open_as(&importer, IMPORTER), 0);
	id = export_from(&owner, handle);
	fill_in_vain(&importer, import_into(&importer, id), &puncher, id);
	EQ(held_back(IMPORTER), 0);
	fill_in_vain(&owner, handle, &puncher, id);
	EQ(held_back(OWNER), 0);
	raw_close(&importer);
	raw_close(&owner);

	EQ(open_as(&owner, OWNER), 0);
	fill_in_vain(&owner, handle, &puncher, export_from(&owner, handle));
	EQ(held_back(OWNER), 1);
	EQ(held_back(PUNCHER), 0);
	raw_close(&owner);
	raw_close(&puncher);
}

TAP_CASE()
{
	if (!hole_punch_is_shown()) {
		SKIP(1, "the kernel does not show where a thread waits");
		return tap_done();
	}
	agent_make(&agent, config);
	if (!OK(agent_start(&agent))) {
		agent_remove(&agent);
		return tap_done();
	}
	snprintf(socket_path, sizeof(socket_path), "%s/%s.sock", agent.dir,
		 agent.instance);
	if (OK(good_open(&good, &agent, 1, 1))) {
		worker_and_others_go_on();
		if (geteuid() != 0)
			SKIP(1, "needs root, to be several users");
		else
			holes_of_others_count_twice();
		if (!EQ(good.wrong, 0))
			NOTE("%s", good.what);
	}
	good_close(&good);
	EQ(agent_kill(&agent, SIGTERM), 0);
	if (tap_failures)
		agent_show_log(&agent);
	agent_remove(&agent);
	return tap_done();
}
