/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "tests/support/probe_rig.h"

#define PROBE_WAIT_S 30 /* a limit that only a failing test reaches */

static void probe_exec(const struct scene *scene, int fd,
		       const char *const *options)
{
	const char *build = getenv("abs_top_builddir");
	const char *program = getenv("GPUMAP_PROBE");
	const char *argv[32] = { "gpumap-probe" };
	char library[PATH_MAX];
	size_t n = 1;

	snprintf(library, sizeof(library), "%s/tests/fake/.libs",
		 build ? build : ".");
	argv[n++] = "--library";
	argv[n++] = library;
	while (options && *options && n < 31)
		argv[n++] = *options++;
	if (scene)
		setenv("GPUMAP_FAKE_HARDWARE", scene->path, 1);
	else
		unsetenv("GPUMAP_FAKE_HARDWARE");
	if (fd == GM_PROBE_FD)
		fcntl(fd, F_SETFD, 0);
	else if (dup2(fd, GM_PROBE_FD) < 0)
		_exit(126);
	execv(program ? program : "agent/probe/gpumap-probe",
	      (char *const *)argv);
	_exit(127);
}

bool probe_start(struct probe *p, const struct scene *scene,
		 const char *const *options)
{
	int pair[2];

	memset(p, 0, sizeof(*p));
	if (!EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0))
		return false;
	p->fd = pair[0];
	p->pid = fork();
	if (p->pid == 0)
		probe_exec(scene, pair[1], options);
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
	seen->health = wire->device.health;
	seen->code = wire->device.code;
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
	seen->health = wire->moving.health;
	seen->code = wire->moving.code;
	memcpy(seen->text, wire->text, sizeof(seen->text));
}

static void probe_take(struct probe *p, const struct gm_probe_wire *wire)
{
	struct probe_seen *seen;

	switch (wire->type) {
	case GM_PROBE_ABSENT:
	case GM_PROBE_BROKEN:
		p->last = *wire;
		break;
	case GM_PROBE_DEVICE:
		probe_take_device(p, wire);
		break;
	case GM_PROBE_LISTED:
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
	case GM_PROBE_RELEASED:
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
