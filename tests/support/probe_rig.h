/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * probe_rig - the watchers of gpumapd on a stand-in machine, in a process of
 * their own, and a test in the place of their reader: it keeps the last word on
 * each device, as gpumapd would.
 */
#ifndef GM_TEST_SUPPORT_PROBE_RIG_H
#define GM_TEST_SUPPORT_PROBE_RIG_H

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>

#include "agent/common/probe_wire.h"
#include "agent/cuda/nvml.h"
#include "gpumap.h"
#include "tests/support/fake_machine.h"

#define PROBE_SEEN   64u
#define PROBE_EVENTS 512u

/* The reader is told and tells this, too, in a record of the probe's with one
 * of these types. */
enum {
	PROBE_VERDICT = 100,
	PROBE_LISTED,
	PROBE_ABSENT,
	PROBE_BROKEN,
	PROBE_RELEASED,
	PROBE_RELEASE,
	PROBE_RESUME
};

struct probe_seen {
	struct gm_probe_wire device; /* the last of each */
	struct gm_probe_wire moving;
	uint32_t n_devices;
	uint32_t n_moving;
	uint32_t n_released;
	uint32_t n_processes; /* of the look that is under way */
	struct gm_probe_process processes[GM_PROBE_PROCESSES];
	uint32_t health; /* of whichever came last */
	int32_t code;
	char text[160];
};

struct probe {
	pid_t pid;
	int fd; /* gpumapd's end of the pair */
	bool is_closed;
	uint32_t n_seen;
	struct probe_seen seen[PROBE_SEEN];
	uint32_t n_listed;         /* LISTED records */
	uint32_t n_before;         /* devices that came before the first */
	struct gm_probe_wire last; /* ABSENT or BROKEN */
	uint32_t n_peers;
	struct gm_probe_wire peers[PROBE_SEEN];
	uint32_t n_events;
	struct gm_probe_wire events[PROBE_EVENTS];
};

/* @options ends with NULL; @scene may be NULL: a machine without a driver. */
bool probe_start(struct probe *p, const struct scene *scene,
		 const char *const *options);
struct probe_seen *probe_find(struct probe *p, const uint8_t uuid[16]);

/* Take what comes within @ms. */
void probe_pump(struct probe *p, int ms);
bool probe_late(time_t from);

/* Take what comes until @condition holds. */
#define UNTIL(p, condition)                                                   \
	do {                                                                  \
		time_t from_ = time(NULL);                                    \
                                                                              \
		while (!(condition) && !(p)->is_closed && !probe_late(from_)) \
			probe_pump((p), 20);                                  \
		tap_check((condition), #condition, __FILE__, __LINE__);       \
	} while (0)

/* The card that the machine's file has at @i. */
struct probe_seen *probe_gpu(struct probe *p, const struct scene *scene,
			     uint32_t i);

/* The same, once it is known: on a slow machine that may be after LISTED. */
struct probe_seen *probe_meet(struct probe *p, const struct scene *scene,
			      uint32_t i);
void probe_say(struct probe *p, uint32_t type, const uint8_t uuid[16]);

/* Hang up, or take the end that came.  Returns its exit status, or -signal. */
int probe_end(struct probe *p);

/* Processes that have the node of card @i open. */
uint32_t probe_holders(struct scene *scene, uint32_t i);

/* A child process ends with its parent, a little later. */
void probe_nobody_left(struct scene *scene);

#endif
