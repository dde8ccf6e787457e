/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "tests/support/probe_rig.h"

#include <unistd.h>

#include "agent/daemon/base/parts.h"
#include "agent/daemon/config.h"
#include "agent/daemon/health/watchers.h"

#define PROBE_WAIT_S 30 /* a limit that only a failing test reaches */

/* ---- the watchers' process ----------------------------------------------- */

static struct gm_loop loop;
static struct gm_config config;
static struct gm_watchers watchers;
static struct gm_daemon d = { .instance = "probe",
			      .runtime_dir = "/nonexistent",
			      .loop = &loop,
			      .config = &config,
			      .watchers = &watchers,
			      .is_open = true };
static struct gm_source from_test;

static void tell(const struct gm_probe_wire *wire)
{
	/* The test has hung up. */
	if (send(from_test.fd, wire, sizeof(*wire), MSG_NOSIGNAL) < 0)
		_exit(EXIT_SUCCESS);
}

static void tell_only(uint32_t type, const uint8_t *uuid, const char *text)
{
	struct gm_probe_wire wire = { .type = type };

	if (uuid)
		memcpy(wire.uuid, uuid, sizeof(wire.uuid));
	snprintf(wire.text, sizeof(wire.text), "%.*s",
		 (int)sizeof(wire.text) - 1, text);
	tell(&wire);
}

static void put_verdict(struct gm_probe_wire *wire, const uint8_t uuid[16],
			const struct gm_verdict *verdict)
{
	memcpy(wire->uuid, uuid, sizeof(wire->uuid));
	wire->health = verdict->health;
	wire->code = verdict->code;
	memcpy(wire->text, verdict->text, sizeof(wire->text));
}

static void on_device(struct gm_daemon *of, const uint8_t uuid[16],
		      const struct gm_probe_device *device,
		      const struct gm_verdict *verdict)
{
	struct gm_probe_wire wire = { .type = GM_PROBE_DEVICE };

	(void)of;
	put_verdict(&wire, uuid, verdict);
	wire.device = *device;
	tell(&wire);
}

static void on_verdict(struct gm_daemon *of, const uint8_t uuid[16],
		       const struct gm_verdict *verdict)
{
	struct gm_probe_wire wire = { .type = PROBE_VERDICT };

	(void)of;
	put_verdict(&wire, uuid, verdict);
	tell(&wire);
}

static void on_record(struct gm_daemon *of, const struct gm_probe_wire *wire)
{
	(void)of;
	tell(wire);
}

static void on_listed(struct gm_daemon *of)
{
	(void)of;
	tell_only(PROBE_LISTED, NULL, "");
}

static void on_absent(struct gm_daemon *of, const char *why)
{
	tell_only(PROBE_ABSENT, NULL, why);
	gm_watchers_exit(of);
	_exit(EXIT_SUCCESS);
}

static void on_broken(struct gm_daemon *of, const char *why)
{
	tell_only(PROBE_BROKEN, NULL, why);
	gm_watchers_exit(of);
	_exit(EXIT_FAILURE);
}

static void on_released(struct gm_daemon *of, const uint8_t uuid[16])
{
	(void)of;
	tell_only(PROBE_RELEASED, uuid, "");
}

static const struct gm_watchers_reader reader = {
	.device = on_device,
	.verdict = on_verdict,
	.record = on_record,
	.listed = on_listed,
	.absent = on_absent,
	.broken = on_broken,
	.released = on_released,
};

static void hear_test(struct gm_source *source, uint32_t events)
{
	struct gm_probe_wire wire;

	(void)events;
	if (recv(source->fd, &wire, sizeof(wire), 0) != sizeof(wire)) {
		gm_watchers_exit(&d);
		_exit(EXIT_SUCCESS);
	}
	if (wire.type == PROBE_RESUME)
		gm_watchers_resume(&d, wire.uuid);
	else if (!gm_watchers_release(&d, wire.uuid))
		on_released(&d, wire.uuid);
}

static uint64_t probe_ns(const char *text)
{
	char *end;
	uint64_t n = strtoull(text, &end, 10);

	return n * (strcmp(end, "s") == 0 ? 1000000000u : 1000000u);
}

static void probe_option(const char *option, const char *value)
{
	if (strcmp(option, "--refresh") == 0)
		config.refresh_ns = probe_ns(value);
	else if (strcmp(option, "--limit") == 0)
		watchers.limit_ns = probe_ns(value);
	else if (strcmp(option, "--driver-limit") == 0)
		watchers.driver_limit_ns = probe_ns(value);
	else if (strcmp(option, "--sysfs") == 0)
		config.cuda_sysfs = strdup(value);
	else if (strcmp(option, "--library") == 0)
		config.cuda_library = strdup(value);
}

static void __attribute__((noreturn))
probe_serve(const struct scene *scene, int fd, const char *const *options)
{
	static char program[PATH_MAX], library[PATH_MAX];
	const char *build = getenv("abs_top_builddir");

	snprintf(program, sizeof(program), "%s/agent/probe/gpumap-probe",
		 build ? build : ".");
	snprintf(library, sizeof(library), "%s/tests/fake/.libs",
		 build ? build : ".");
	d.probe_path = getenv("GPUMAP_PROBE");
	if (!d.probe_path)
		d.probe_path = program;
	config.cuda_library = library;
	config.cuda_pass = (char *)"GPUMAP_FAKE_HARDWARE";
	config.refresh_ns = UINT64_C(1000000000);
	config.worker_uid = geteuid();
	config.worker_gid = getegid();
	for (; options && options[0] && options[1]; options += 2)
		probe_option(options[0], options[1]);
	if (scene)
		setenv("GPUMAP_FAKE_HARDWARE", scene->path, 1);
	else
		unsetenv("GPUMAP_FAKE_HARDWARE");
	from_test = (struct gm_source){ fd, hear_test };
	if (gm_loop_init(&loop) != 0 ||
	    gm_loop_add(&loop, &from_test, EPOLLIN) != 0)
		_exit(126);
	gm_watchers_start(&d, &reader);
	gm_loop_run(&loop);
	_exit(127);
}

/* ---- the test ------------------------------------------------------------ */

bool probe_start(struct probe *p, const struct scene *scene,
		 const char *const *options)
{
	int pair[2];

	memset(p, 0, sizeof(*p));
	if (!EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0))
		return false;
	p->fd = pair[0];
	fflush(stdout);
	p->pid = fork();
	if (p->pid == 0) {
		close(pair[0]);
		probe_serve(scene, pair[1], options);
	}
	close(pair[1]);
	return OK(p->pid > 0);
}

struct probe_seen *probe_find(struct probe *p, const uint8_t uuid[16])
{
	for (uint32_t i = 0; i < p->n_seen; i++)
		if (memcmp(p->seen[i].device.uuid, uuid, 16) == 0)
			return &p->seen[i];
	return NULL;
}

static void probe_take_device(struct probe *p, const struct gm_probe_wire *wire)
{
	struct probe_seen *seen = probe_find(p, wire->uuid);

	if (!seen) {
		if (p->n_seen == PROBE_SEEN) {
			OK(!"more devices than there can be");
			return;
		}
		seen = &p->seen[p->n_seen++];
	}
	seen->device = *wire;
	seen->n_devices++;
	seen->health = wire->health;
	seen->code = wire->code;
	memcpy(seen->text, wire->text, sizeof(seen->text));
}

/* A look is told from its first process to its MOVING, and begins anew where it
 * could not be told to the end. */
static void probe_take_process(struct probe *p,
			       const struct gm_probe_wire *wire)
{
	struct probe_seen *seen = probe_find(p, wire->uuid);
	uint32_t i = wire->process.index;

	if (!seen || (i != 0 && i != seen->n_processes)) {
		OK(!"PROCESS before DEVICE, or out of turn");
		return;
	}
	seen->processes[i] = wire->process;
	seen->n_processes = i + 1;
}

/* A change is reported only for a card that was listed before. */
static void probe_take_moving(struct probe *p, const struct gm_probe_wire *wire)
{
	struct probe_seen *seen = probe_find(p, wire->uuid);

	if (!seen) {
		OK(!"MOVING before DEVICE");
		return;
	}
	seen->moving = *wire;
	seen->n_moving++;
	if (wire->moving.n_processes != 0)
		EQ(wire->moving.n_processes, seen->n_processes);
	seen->n_processes = 0;
}

static void probe_take_verdict(struct probe *p,
			       const struct gm_probe_wire *wire)
{
	struct probe_seen *seen = probe_find(p, wire->uuid);

	if (!OK(seen != NULL))
		return;
	seen->health = wire->health;
	seen->code = wire->code;
	memcpy(seen->text, wire->text, sizeof(seen->text));
}

static void probe_take(struct probe *p, const struct gm_probe_wire *wire)
{
	struct probe_seen *seen;

	switch (wire->type) {
	case PROBE_ABSENT:
	case PROBE_BROKEN:
		p->last = *wire;
		break;
	case GM_PROBE_DEVICE:
		probe_take_device(p, wire);
		break;
	case PROBE_VERDICT:
		probe_take_verdict(p, wire);
		break;
	case PROBE_LISTED:
		if (p->n_listed++ == 0)
			p->n_before = p->n_seen;
		break;
	case GM_PROBE_PROCESS:
		probe_take_process(p, wire);
		break;
	case GM_PROBE_MOVING:
		probe_take_moving(p, wire);
		break;
	case GM_PROBE_EVENT:
		if (p->n_events < PROBE_EVENTS)
			p->events[p->n_events++] = *wire;
		break;
	case GM_PROBE_PEERS:
		if (p->n_peers < PROBE_SEEN)
			p->peers[p->n_peers++] = *wire;
		break;
	case PROBE_RELEASED:
		seen = probe_find(p, wire->uuid);
		if (seen)
			seen->n_released++;
		break;
	default:
		OK(!"a record that is none of the probe's");
	}
}

void probe_pump(struct probe *p, int ms)
{
	struct pollfd polled = { .fd = p->fd, .events = POLLIN };
	struct gm_probe_wire wire;

	while (!p->is_closed && poll(&polled, 1, ms) > 0) {
		ssize_t n = recv(p->fd, &wire, sizeof(wire), MSG_DONTWAIT);

		ms = 0;
		if (n < 0 && errno == EAGAIN)
			break;
		if (n <= 0) {
			p->is_closed = true;
			break;
		}
		if (n != (ssize_t)sizeof(wire)) {
			OK(!"a record of another size");
			continue;
		}
		wire.text[sizeof(wire.text) - 1] = '\0';
		probe_take(p, &wire);
	}
}

bool probe_late(time_t from)
{
	return time(NULL) - from > PROBE_WAIT_S;
}

struct probe_seen *probe_gpu(struct probe *p, const struct scene *scene,
			     uint32_t i)
{
	static struct probe_seen nobody = { .health = UINT32_MAX };
	struct probe_seen *seen = probe_find(p, scene->hw.board->gpus[i].uuid);

	return seen ? seen : &nobody;
}

struct probe_seen *probe_meet(struct probe *p, const struct scene *scene,
			      uint32_t i)
{
	UNTIL(p, probe_gpu(p, scene, i)->n_devices > 0);
	return probe_gpu(p, scene, i);
}

void probe_say(struct probe *p, uint32_t type, const uint8_t uuid[16])
{
	struct gm_probe_wire wire = { .type = type };

	memcpy(wire.uuid, uuid, sizeof(wire.uuid));
	EQ(send(p->fd, &wire, sizeof(wire), MSG_NOSIGNAL),
	   (ssize_t)sizeof(wire));
}

int probe_end(struct probe *p)
{
	int status = -1;

	close(p->fd);
	waitpid(p->pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

/* Processes that use the machine's cards, NVML or driver. */
static uint32_t probe_users(struct scene *scene)
{
	uint32_t n = 0;

	fake_lock(&scene->hw);
	fake_sweep(&scene->hw);
	for (uint32_t i = 0; i < FAKE_PROCESSES; i++)
		n += scene->hw.board->processes[i].serial != 0;
	fake_unlock(&scene->hw);
	return n;
}

uint32_t probe_holders(struct scene *scene, uint32_t i)
{
	uint32_t n = 0;

	fake_lock(&scene->hw);
	fake_sweep(&scene->hw);
	for (uint32_t k = 0; k < FAKE_PROCESSES; k++)
		n += scene->hw.board->processes[k].serial != 0 &&
		     scene->hw.board->processes[k].holds >> i & 1;
	fake_unlock(&scene->hw);
	return n;
}

void probe_nobody_left(struct scene *scene)
{
	time_t from = time(NULL);

	while (probe_users(scene) && !probe_late(from))
		nanosleep(&(struct timespec){ .tv_nsec = 2000000 }, NULL);
	EQ(probe_users(scene), 0);
}
