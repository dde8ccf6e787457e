/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * fake_worker_process - a worker, its standby and its recovery process, played
 * by a test.
 *
 * The memory that they share with the test says what they do next, and how they
 * were started.
 */
#ifndef GM_TEST_SUPPORT_FAKE_WORKER_PROCESS_H
#define GM_TEST_SUPPORT_FAKE_WORKER_PROCESS_H

#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/common/wire.h"
#include "shm/atomic.h"
#include "shm/journal.h"

#define ID "GPU-00010203-0405-0607-0809-0a0b0c0d0e0f"

/* In shared memory.  The script of the next worker, and the records that the
 * last one saw. */
struct play {
	gm_a32 fails_at_once; /* with this number, before READY */
	gm_a32 fails_now;     /* with this number, while it serves */
	gm_a32 hesitates;     /* any of them, to exit when asked */
	gm_a32 is_mute;       /* the worker, about attachments and requests */
	gm_a32 has_nccl;      /* the next ones have to be told of it */
	gm_a32 workers;       /* started so far, and so on */
	gm_a32 standbys;
	gm_a32 recoveries;
	gm_a32 gos;
	gm_a32 ends;             /* DRAINs that were obeyed */
	gm_a32 recovery_status;  /* of the last ATTACH to a recovery process */
	gm_a32 wrong;            /* what it was started with is not right */
	char what_is_wrong[128]; /* and what of it */
};

/* ---- the played processes ------------------------------------------------ */

static struct play *play;

static inline void is_wrong(const char *what)
{
	snprintf(play->what_is_wrong, sizeof(play->what_is_wrong), "%s", what);
	gm_put_release(&play->wrong, 1);
}

static inline void add(gm_a32 *to)
{
	gm_put_release(to, gm_get(to) + 1);
}

static inline void want_variable(const char *name, const char *value)
{
	const char *got = getenv(name);

	if (!got || (value && strcmp(got, value) != 0))
		is_wrong(name);
}

/* How NCCL finds its peers on this machine, and nothing more than they need. */
static inline void check_nccl(void)
{
	static const char *const told[][2] = {
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
	const int n = sizeof(told) / sizeof(told[0]);
	extern char **environ;
	int n_nccl = 0;

	for (char **at = environ; *at; at++)
		n_nccl += strncmp(*at, "NCCL_", 5) == 0;
	if (n_nccl != (gm_get(&play->has_nccl) ? n : 0))
		is_wrong("variables of NCCL's");
	for (int i = 0; i < n && gm_get(&play->has_nccl); i++)
		want_variable(told[i][0], told[i][1]);
}

/* The card and nothing else of CUDA's, whatever gpumapd was started with. */
static inline void check_environment(void)
{
	extern char **environ;
	int n_cuda = 0;

	want_variable("CUDA_VISIBLE_DEVICES", ID);
	want_variable("CUDA_DEVICE_MAX_CONNECTIONS", "32");
	want_variable("CUDA_MODULE_LOADING", "LAZY");
	want_variable("CUDA_CACHE_PATH", "/var/cache/gpumap");
	want_variable("CUDA_MPS_PIPE_DIRECTORY", NULL);
	want_variable("KEEPER_PLAY", NULL);
	for (char **at = environ; *at; at++) {
		n_cuda += strncmp(*at, "CUDA_", 5) == 0;
		if (strncmp(*at, "NVIDIA_", 7) == 0 ||
		    strncmp(*at, "LD_", 3) == 0)
			is_wrong(*at);
	}
	if (n_cuda != 5)
		is_wrong("another CUDA variable");
	check_nccl();
}

static inline const char *option(char **argv, const char *name)
{
	for (; *argv; argv++) {
		if (strcmp(*argv, name) == 0)
			return argv[1] ? argv[1] : "";
	}
	return NULL;
}

static inline void check_options(char **argv)
{
	const char *backend = option(argv, "--backend");
	const char *device = option(argv, "--device");
	const char *library = option(argv, "--library");
	const char *nccl = option(argv, "--nccl");

	if (!backend || strcmp(backend, "cuda") != 0)
		is_wrong("--backend");
	if (!device || strcmp(device, ID) != 0)
		is_wrong("--device");
	if (!library || strcmp(library, "/opt/driver") != 0)
		is_wrong("--library");
	if ((nccl != NULL) != (gm_get(&play->has_nccl) != 0))
		is_wrong("--nccl");
}

static inline void say(uint32_t type, const struct gm_wire *about, int code,
		       const char *text)
{
	struct gm_wire wire = { .type = type, .code = code };

	if (about) {
		wire.session = about->session;
		wire.place = about->place;
	}
	snprintf(wire.text, sizeof(wire.text), "%s", text);
	send(GM_FD_SUPERVISOR, &wire, sizeof(wire), MSG_NOSIGNAL);
}

static inline void __attribute__((noreturn)) fail(uint32_t code)
{
	gm_put_release(&play->fails_now, 0);
	say(GM_WIRE_FAILED, NULL, (int)code, "a launch failed");
	_exit(1);
}

/* The next record, or 0 after a step without one; ends when hung up. */
static inline uint32_t hear(struct gm_wire *ret_wire)
{
	struct pollfd p = { GM_FD_SUPERVISOR, POLLIN, 0 };
	ssize_t n;

	if (poll(&p, 1, 2) <= 0)
		return 0;
	n = recv(GM_FD_SUPERVISOR, ret_wire, sizeof(*ret_wire), 0);
	if (n != sizeof(*ret_wire))
		_exit(n == 0 ? 0 : 2);
	return ret_wire->type;
}

/* A worker that has done something does not die early. */
static inline void add_job(void)
{
	struct gm_journal *journal =
		mmap(NULL, sizeof(*journal), PROT_READ | PROT_WRITE, MAP_SHARED,
		     GM_FD_JOURNAL, 0);

	if (journal == MAP_FAILED)
		_exit(2);
	gm_put(&journal->completed, gm_get(&journal->completed) + 1);
	munmap(journal, sizeof(*journal));
}

static inline void obey(const struct gm_wire *wire, uint32_t type,
			bool is_recovery)
{
	if (!is_recovery && gm_get(&play->is_mute) && type != GM_WIRE_DRAIN) {
		return;
	} else if (type == GM_WIRE_ATTACH) {
		if (is_recovery)
			gm_put_release(&play->recovery_status,
				       (uint32_t)wire->status);
		else
			add_job();
		say(GM_WIRE_ATTACHED, wire, 0, "");
	} else if (type == GM_WIRE_DETACH) {
		say(GM_WIRE_DETACHED, wire, 0, "");
	} else if (type == GM_WIRE_DRAIN) {
		while (gm_get(&play->hesitates))
			usleep(1000);
		if (!is_recovery)
			add(&play->ends);
		_exit(0);
	}
}

/* Beside the row's lock, which every one of them is told of. */
static inline struct play *open_play(const char *lock, int flags)
{
	char path[160];
	void *at;
	int fd;

	snprintf(path, sizeof(path), "%s.play", lock);
	fd = open(path, O_RDWR | O_CLOEXEC | flags, 0600);
	if (fd < 0 || (flags && ftruncate(fd, sizeof(*play)) != 0))
		return NULL;
	at = mmap(NULL, sizeof(*play), PROT_READ | PROT_WRITE, MAP_SHARED, fd,
		  0);
	close(fd);
	return at == MAP_FAILED ? NULL : at;
}

static inline int be_a_child(char **argv)
{
	bool is_recovery = option(argv, "--recover") != NULL;
	bool is_standby = option(argv, "--standby") != NULL;
	struct gm_wire wire;

	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
	if (is_recovery) {
		add(&play->recoveries);
	} else {
		add(is_standby ? &play->standbys : &play->workers);
		check_environment();
		check_options(argv);
	}
	if (is_standby) {
		say(GM_WIRE_STANDBY, NULL, 0, "");
		while (hear(&wire) != GM_WIRE_GO)
			;
		add(&play->gos);
	}
	if (!is_recovery && gm_get(&play->fails_at_once))
		fail(gm_get(&play->fails_at_once));
	say(GM_WIRE_READY, NULL, 0, "init_ms=480 context_ms=190");
	for (;;) {
		obey(&wire, hear(&wire), is_recovery);
		if (!is_recovery && gm_get(&play->fails_now))
			fail(gm_get(&play->fails_now));
	}
}

#endif
