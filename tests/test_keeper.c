/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* keeper: a CUDA row's processes, from the first seat to the last and over every
 * kind of death.  The processes are this program. */

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "agent/cuda/abi.h"
#include "agent/daemon/daemon.h"
#include "agent/daemon/keeper.h"
#include "gpumap.h"
#include "keeper_play.h"
#include "shm/rows.h"
#include "tap.h"

#define LIMIT_NS UINT64_C(20000000000) /* against hanging */
#define STEP_NS  UINT64_C(2000000)

/* ---- an agent's inside --------------------------------------------------- */

static struct gm_daemon *d;
static struct gm_keeper *keeper;
static char instance[48], self[256], lock[64];

static struct gm_device *row(void)
{
	return d->devices.of[0];
}

static bool make_segment(void)
{
	struct gm_past *past = calloc(1, sizeof(*past));
	char why[GM_WHY_BYTES] = "";
	bool good;

	good = past &&
	       gm_segment_open(instance, 1 << 20, past, why, &d->segment) == 0;
	if (good)
		d->directory.heap = past->heap;
	else
		NOTE("%s", why);
	free(past);
	return good;
}

static void make_row(void)
{
	struct gm_device *device = calloc(1, sizeof(*device));

	if (!device)
		exit(99);
	device->present = true;
	device->facts.kind = GPUMAP_DEVICE_CUDA;
	device->facts.numa_node = -1;
	device->facts.uuid[0] = 1;
	snprintf(device->facts.object.name, GM_NAME_BYTES, "a card");
	snprintf(device->id, sizeof(device->id), "%s", ID);
	device->cpus = d->allowed.cpus;
	device->moving.state = GPUMAP_DEVICE_PROBING;
	d->devices.of[0] = device;
	d->devices.n = 1;
	gm_rows_move(&d->segment.map.rows[0], &device->moving);
	gm_publish_row(d, &device->facts);
	gm_put(&d->segment.map.header->rows_used, 1);
}

static bool begin(void)
{
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

	snprintf(instance, sizeof(instance), "test.%d", (int)getpid());
	snprintf(lock, sizeof(lock), "/tmp/%s.row0.lock", instance);
	play = open_play(lock, O_CREAT | O_EXCL);
	d = calloc(1, sizeof(*d));
	if (!OK(n > 0) || !OK(play && d))
		return false;
	setenv("KEEPER_PLAY", "1", 1);
	setenv("CUDA_LAUNCH_BLOCKING", "1", 1);
	setenv("NVIDIA_VISIBLE_DEVICES", "all", 1);
	setenv("NCCL_DEBUG", "INFO", 1);
	gm_config_init(&d->config);
	d->config.cuda_idle_ns = LIMIT_NS;
	d->config.cuda_library = strdup("/opt/driver");
	d->config.cuda_cache = strdup("/var/cache/gpumap");
	d->config.cuda_pass = strdup(" NOT_SET_AT_ALL  KEEPER_PLAY ");
	d->instance = instance;
	d->runtime_dir = "/tmp";
	d->worker_path = self;
	gm_pin_allowed(NULL, &d->allowed);
	if (!EQ(gm_loop_init(&d->loop), 0) || !OK(make_segment()))
		return false;
	make_row();
	if (!EQ(gm_supervisor_start(d), 0))
		return false;
	keeper = d->supervisor->keepers[0];
	return OK(keeper != NULL);
}

static void end(void)
{
	char path[128];

	gm_supervisor_exit(d);
	gm_devices_exit(d);
	gm_heap_exit(&d->directory.heap);
	gm_segment_close(&d->segment);
	gm_loop_exit(&d->loop);
	gm_config_free(&d->config);
	snprintf(path, sizeof(path), "/dev/shm/gpumap.1.%s", instance);
	unlink(path);
	unlink(lock);
	snprintf(path, sizeof(path), "%s.play", lock);
	unlink(path);
	snprintf(path, sizeof(path), "/tmp/%s.no-mps", instance);
	EQ(access(path, F_OK), -1);
	free(d);
}

/* Turn the loop until @holds, or for too long. */
static bool (*awaited)(void);
static uint64_t until_ns;

static void look(struct gm_timer *timer)
{
	if (awaited() || gm_loop_now() > until_ns)
		gm_loop_stop(&d->loop);
	else
		gm_timer_set(&d->loop, timer, gm_loop_now() + STEP_NS);
}

static bool until(bool (*holds)(void))
{
	struct gm_timer timer = { .fired = look };

	awaited = holds;
	until_ns = gm_loop_now() + LIMIT_NS;
	d->loop.stop = false;
	gm_timer_set(&d->loop, &timer, 1);
	gm_loop_run(&d->loop);
	gm_timer_stop(&d->loop, &timer);
	return holds();
}

/* ---- a session ----------------------------------------------------------- */

static struct gm_seat seat;
static int seated_status; /* 1: not yet */
static bool has_left_it;

static void is_seated(struct gm_seat *s, int status, const char *why)
{
	(void)s;
	(void)why;
	seated_status = status;
}

static void is_broken(struct gm_seat *s, const char *why)
{
	(void)s;
	NOTE("broken: %s", why);
}

static void has_left(struct gm_seat *s)
{
	(void)s;
	has_left_it = true;
}

static int take_seat(void)
{
	static uint64_t session;
	char why[GM_WHY_BYTES] = "";
	int ret;

	seat = (struct gm_seat){ .session = ++session,
				 .depth = 16,
				 .queues = 2,
				 .arena = 2,
				 .doorbell = 2,
				 .socket = -1,
				 .seated = is_seated,
				 .broken = is_broken,
				 .left = has_left };
	seated_status = 1;
	has_left_it = false;
	ret = gm_supervisor_seat(d, 0, &seat, why);
	if (ret)
		NOTE("%s", why);
	return ret;
}

static bool is_answered(void)
{
	return seated_status <= 0;
}

static bool left_it(void)
{
	return has_left_it;
}

static bool leave(void)
{
	gm_supervisor_leave(d, &seat);
	return until(left_it);
}

/* ---- what is waited for -------------------------------------------------- */

static bool spare_stands_by(void)
{
	return keeper->spare.state == GM_SPARE_STANDBY;
}

static bool spare_rests(void)
{
	return keeper->spare.state == GM_SPARE_RESTING;
}

static bool no_process(void)
{
	return !gm_keeper_has_child(keeper) && !gm_spare_runs(&keeper->spare);
}

static bool is_back(void)
{
	return row()->moving.state == GPUMAP_DEVICE_READY &&
	       keeper->state == GM_KEEPER_SERVING &&
	       seat.state == GM_SEAT_TAKEN;
}

static bool is_failed(void)
{
	return row()->moving.state == GPUMAP_DEVICE_FAILED;
}

static bool is_idle(void)
{
	return keeper->state == GM_KEEPER_IDLE;
}

static bool is_barred_and_empty(void)
{
	return keeper->state == GM_KEEPER_BARRED &&
	       !gm_spare_runs(&keeper->spare);
}

static bool is_denied(void)
{
	return gm_get(&play->burial_status) == (uint32_t)-ENODEV;
}

static uint32_t seen;

static bool another_undertaker(void)
{
	return gm_get(&play->undertakers) > seen &&
	       keeper->state == GM_KEEPER_BARRED;
}

static bool rests_long(void)
{
	return gm_keeper_rests_long(keeper);
}

/* ---- stories ------------------------------------------------------------- */

static void nobody_needs_a_worker_yet(void)
{
	EQ(row()->moving.state, GPUMAP_DEVICE_READY);
	EQ(row()->moving.worker_pid, 0);
	EQ(keeper->state, GM_KEEPER_IDLE);
	OK(no_process());
}

static void first_seat_starts_a_worker(void)
{
	EQ(take_seat(), 0);
	OK(until(is_answered));
	EQ(seated_status, 0);
	EQ(row()->moving.state, GPUMAP_DEVICE_READY);
	EQ(row()->moving.worker_pid, keeper->child.pid);
	EQ(row()->moving.restarts, 0);
	EQ(gm_get(&play->workers), 1);
	OK(until(spare_stands_by));
	EQ(gm_get(&play->wrong), 0);
	STR(play->what_is_wrong, "");
}

static void poisoned_worker_is_replaced_by_the_spare(void)
{
	pid_t spare = keeper->spare.child.pid;
	uint32_t workers = gm_get(&play->workers);
	uint32_t undertakers = gm_get(&play->undertakers);
	uint32_t restarts = row()->moving.restarts;

	OK(until(spare_stands_by));
	gm_put_release(&play->burial_status, 1);
	gm_put_release(&play->hesitates, 1);
	gm_put_release(&play->fails_now, GM_CU_ILLEGAL_ADDRESS);
	OK(until(is_failed));
	gm_put_release(&play->hesitates, 0);
	EQ(row()->moving.error, GM_CU_ILLEGAL_ADDRESS);
	STR(row()->moving.reason, "CUDA 700 ILLEGAL_ADDRESS: a launch failed");
	OK(until(is_back));
	EQ(keeper->child.pid, spare);
	EQ(row()->moving.worker_pid, spare);
	EQ(row()->moving.restarts, restarts + 1);
	EQ(gm_get(&play->workers), workers); /* no other was started */
	EQ(gm_get(&play->undertakers), undertakers + 1);
	EQ(gm_get(&play->burial_status), 0); /* so -EIO */
	EQ(keeper->times.failed_ns, 0);
	OK(until(spare_stands_by));
	OK(keeper->spare.child.pid != spare);
}

static void spares_death_is_its_own(void)
{
	uint32_t restarts = row()->moving.restarts;
	pid_t worker = keeper->child.pid;

	kill(keeper->spare.child.pid, SIGKILL);
	OK(until(spare_rests));
	EQ(row()->moving.state, GPUMAP_DEVICE_READY);
	EQ(row()->moving.restarts, restarts);
	EQ(keeper->child.pid, worker);
	OK(until(spare_stands_by)); /* another, after a rest */
}

static void lost_card_has_no_worker_until_it_is_seen(void)
{
	uint32_t workers, gos;

	gm_put_release(&play->fails_now, GM_CU_NO_DEVICE);
	OK(until(is_barred_and_empty));
	EQ(row()->moving.state, GPUMAP_DEVICE_LOST);
	EQ(row()->moving.error, GM_CU_NO_DEVICE);
	OK(is_denied());
	workers = gm_get(&play->workers);
	gos = gm_get(&play->gos);

	/* What its sessions submit is denied again and again. */
	seen = gm_get(&play->undertakers);
	OK(until(another_undertaker));
	EQ(gm_get(&play->workers), workers);
	EQ(gm_get(&play->gos), gos);

	gm_supervisor_unbar(d, 0, GM_BAR_HEALTH | GM_BAR_LOST);
	row()->present = true;
	OK(until(is_back));
	EQ(gm_get(&play->workers), workers + 1);
	gm_put_release(&play->burial_status, 1);
}

static int n_closed;

static void is_closed(struct gm_daemon *daemon, uint32_t of)
{
	(void)daemon;
	EQ(of, 0);
	OK(no_process());
	n_closed++;
}

static bool closed(void)
{
	return n_closed > 0;
}

static void drained_row_has_nothing_open(void)
{
	uint32_t ends = gm_get(&play->ends);
	uint32_t restarts = row()->moving.restarts;
	struct gm_seat *before = &seat;

	n_closed = 0;
	gm_devices_state(d, 0, GPUMAP_DEVICE_DRAINING, "by hand", 0);
	gm_supervisor_bar(d, 0, GM_BAR_DRAIN, true, "by hand", is_closed);
	EQ(n_closed, 0);
	OK(until(closed));
	EQ(n_closed, 1);
	EQ(gm_get(&play->ends), ends + 1);
	EQ(row()->moving.state, GPUMAP_DEVICE_DRAINING);
	EQ(row()->moving.worker_pid, 0);
	EQ(row()->moving.restarts, restarts);
	OK(is_denied());
	EQ(before->state, GM_SEAT_WAITING);

	/* Another reason keeps it so. */
	gm_supervisor_bar(d, 0, GM_BAR_HEALTH, false, "ECC", NULL);
	gm_supervisor_unbar(d, 0, GM_BAR_DRAIN);
	EQ(keeper->state, GM_KEEPER_BARRED);
	gm_supervisor_unbar(d, 0, GM_BAR_HEALTH | GM_BAR_LOST);
	OK(until(is_back));
	OK(leave());

	/* Newcomers are told at once. */
	gm_supervisor_bar(d, 0, GM_BAR_DRAIN, true, "by hand", NULL);
	EQ(take_seat(), -ENODEV);
	gm_supervisor_unbar(d, 0, GM_BAR_DRAIN);
	EQ(take_seat(), 0);
	OK(until(is_answered));
	EQ(seated_status, 0);
}

static void idle_worker_ends(void)
{
	uint32_t ends = gm_get(&play->ends);
	uint32_t restarts = row()->moving.restarts;

	OK(until(is_back));
	d->config.cuda_idle_ns = 1000000;
	OK(leave());
	OK(until(no_process));
	EQ(keeper->state, GM_KEEPER_IDLE);
	EQ(gm_get(&play->ends), ends + 1);
	EQ(row()->moving.state, GPUMAP_DEVICE_READY);
	EQ(row()->moving.worker_pid, 0);
	EQ(row()->moving.restarts, restarts);
}

static bool told_end(void)
{
	return keeper->told_end;
}

/* The one that ends serves it no more, and the next one does. */
static void seat_may_come_while_the_worker_ends(void)
{
	uint32_t workers = gm_get(&play->workers);

	EQ(take_seat(), 0);
	OK(until(is_answered));
	gm_put_release(&play->hesitates, 1);
	OK(leave());
	OK(until(told_end));
	d->config.cuda_idle_ns = LIMIT_NS;
	EQ(take_seat(), 0);
	EQ(seated_status, 1);
	gm_put_release(&play->hesitates, 0);
	OK(until(is_answered));
	EQ(seated_status, 0);
	EQ(gm_get(&play->workers), workers + 2);
	EQ(row()->moving.state, GPUMAP_DEVICE_READY);
}

/* What is looked at now: long after the machine has booted, for there is no
 * time before that. */
static uint64_t look_ns;

static void beat(gm_a64 *at, uint32_t call, uint64_t ago_ns)
{
	gm_put(at, (uint64_t)call << 56 | (look_ns - ago_ns));
}

static bool was_killed_over(const char *why)
{
	bool was;

	gm_patience_look(keeper, look_ns);
	was = keeper->state == GM_KEEPER_ENDING &&
	      strstr(keeper->why, why) != NULL;
	gm_put(&keeper->journal->beat, 0);
	gm_put(&keeper->journal->slow, 0);
	gm_put(&keeper->journal->aloft, 0);
	return was && until(is_back);
}

static void each_call_has_its_own_limit(void)
{
	struct gm_journal *signs = keeper->journal;
	const uint64_t second = 1000000000;

	OK(until(is_back));
	look_ns = gm_loop_now() + 36000 * second;
	/* A job may take as long as it takes, and what waits for it too. */
	keeper->since_ns = 1;
	gm_put(&signs->aloft, look_ns - 7200 * second);
	beat(&signs->slow, GM_CALL_ALLOC, 3600 * second);
	gm_patience_look(keeper, look_ns);
	EQ(keeper->state, GM_KEEPER_SERVING);
	gm_put(&signs->aloft, 0);
	look_ns += 59 * second; /* from the end of the job it counts */
	gm_patience_look(keeper, look_ns);
	EQ(keeper->state, GM_KEEPER_SERVING);
	look_ns += 2 * second;
	OK(was_killed_over("an allocation took over 60 s"));

	keeper->since_ns = 1;
	beat(&signs->beat, GM_CALL_LOOP, 4 * second);
	beat(&signs->slow, GM_CALL_REGISTER, 600 * second);
	gm_patience_look(keeper, look_ns);
	EQ(keeper->state, GM_KEEPER_SERVING);
	beat(&signs->beat, GM_CALL_LOOP, 6 * second);
	OK(was_killed_over("a turn of its loop took over 5 s"));

	keeper->since_ns = 1;
	d->config.cuda_kernel_limit_ns = 10 * second;
	gm_put(&signs->aloft, look_ns - 9 * second);
	gm_patience_look(keeper, look_ns);
	EQ(keeper->state, GM_KEEPER_SERVING);
	gm_put(&signs->aloft, look_ns - 11 * second);
	OK(was_killed_over("kernel-limit"));
	d->config.cuda_kernel_limit_ns = 0;
}

/* A driver that will not start is tried less and less often. */
static void failing_driver_is_not_stormed(void)
{
	OK(until(is_back));
	OK(leave());
	d->config.cuda_spare = false;
	gm_spare_end(keeper);
	kill(keeper->child.pid, SIGKILL);
	OK(until(is_idle));
	gm_put_release(&play->fails_at_once, GM_CU_SYSTEM_NOT_READY);
	EQ(take_seat(), 0);
	OK(until(is_answered));
	EQ(seated_status, -ENODEV);
	OK(rests_long());
	EQ(row()->moving.error, GM_CU_SYSTEM_NOT_READY);
	STR(row()->moving.reason, "CUDA 802 SYSTEM_NOT_READY: a launch failed");
	EQ(take_seat(), -ENODEV);
	gm_put_release(&play->fails_at_once, 0);
}

int main(int argc, char **argv)
{
	if (argc > 1) {
		const char *at = option(argv, "--lock");

		play = at ? open_play(at, 0) : NULL;
		return play ? be_a_child(argv) : 3;
	}
	if (begin()) {
		nobody_needs_a_worker_yet();
		first_seat_starts_a_worker();
		poisoned_worker_is_replaced_by_the_spare();
		spares_death_is_its_own();
		lost_card_has_no_worker_until_it_is_seen();
		drained_row_has_nothing_open();
		idle_worker_ends();
		seat_may_come_while_the_worker_ends();
		each_call_has_its_own_limit();
		failing_driver_is_not_stormed();
		end();
	}
	return tap_done();
}
