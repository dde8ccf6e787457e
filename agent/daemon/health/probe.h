/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * probe - start and watch gpumap-probe, the only process that calls NVML.
 *
 *	OFF       not wanted, or there is no driver: polled again, slowly
 *	RUNNING
 *	ENDING    it was sent SIGKILL, and has not ended
 *	STUCK     it does not end by SIGKILL in time
 *	RESTING   it has ended; another is started soon
 *
 * Its messages go to a reader (cuda.h).  The death of the probe changes no row,
 * and the next probe lists every device anew.  The agent never waits for it.
 */
#ifndef GM_DAEMON_HEALTH_PROBE_H
#define GM_DAEMON_HEALTH_PROBE_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/daemon/base/loop.h"
#include "agent/common/refusal.h"
#include "agent/daemon/base/spawn.h"

struct gm_daemon;
struct gm_probe_wire;

enum gm_probe_state {
	GM_PROBE_OFF,
	GM_PROBE_RUNNING,
	GM_PROBE_ENDING,
	GM_PROBE_STUCK,
	GM_PROBE_RESTING
};

/* The module that takes what the probe reports. */
struct gm_probe_reader {
	void (*started)(struct gm_daemon *d); /* another probe runs */
	void (*record)(struct gm_daemon *d, const struct gm_probe_wire *wire);

	/* The driver tells nothing, or no probe could be started. */
	void (*broken)(struct gm_daemon *d, const char *why);

	/* Moving facts are not known any more, and no card is open. */
	void (*ended)(struct gm_daemon *d);

	/* Should the probe report now and then? */
	bool (*is_watched)(const struct gm_daemon *d);
};

struct gm_probe {
	struct gm_daemon *d;
	const struct gm_probe_reader *reader;
	enum gm_probe_state state;
	struct gm_spawned child;
	struct gm_source pidfd;
	struct gm_source socket;
	struct gm_timer timer;   /* of the state */
	struct gm_timer look;    /* does it make progress? */
	uint64_t since_ns;       /* when it was started */
	uint64_t last_record_ns; /* when it last said anything */
	uint32_t early_deaths;   /* in a row, before it had listed everything */
	uint32_t restarts;
	uint32_t last_release;  /* serial of the last RELEASE */
	uint32_t times_stopped; /* looks in a row that found it stopped */
	bool has_listed;
	bool found_none;         /* it said that there is no driver */
	bool found_none_before;  /* and so did the one before it */
	bool looks_again;        /* at once, when this one has ended */
	char why[GM_WHY_BYTES];  /* why it is ending, when that is known */
	char said[GM_WHY_BYTES]; /* why the last one was BROKEN, for the log */
};

/* Start the first one.  A failure is told to @reader, which has to stay. */
void gm_probe_start(struct gm_daemon *d, const struct gm_probe_reader *reader);

/* Where there was no driver: look again now. */
void gm_probe_look_again(struct gm_daemon *d);

/* Kill it, and start no other. */
void gm_probe_exit(struct gm_daemon *d);

/* Does no process of it exist?  One that was killed may take its time, and has
 * its cards open until then. */
bool gm_probe_is_gone(const struct gm_daemon *d);

/*
 * gm_probe_send - RELEASE or RESUME a card
 *
 * serial	of a RELEASE, for its answer
 *
 * Returns	0, or a negative errno: there is none, or it does not listen,
 *		and is killed for that
 */
int gm_probe_send(struct gm_daemon *d, uint32_t type, const uint8_t uuid[16],
		  uint32_t serial);

/* The texts of a record of a child's end. */
void gm_probe_close_texts(struct gm_probe_wire *wire);

#endif
