/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * calibration - the least sizes of work of which each row is worth it.
 *
 * A client measures them and sends them with CALIBRATE.  They are in a file of
 * the state directory before the client is answered, each under the
 * fingerprint of its device: all facts that make the device as fast as it is,
 * without those of its place and load.  So they outlive agents, segments and
 * boots, and apply to every device that is alike.  Rows of devices without an
 * entry have the defaults.
 */
#ifndef GM_DAEMON_MAP_CALIBRATION_H
#define GM_DAEMON_MAP_CALIBRATION_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/daemon/base/connection.h"
#include "shm/layout.h"

struct gm_daemon;
struct gm_state_kind;

#define GM_CALIBRATION_DEVICE 512u /* bytes of a fingerprint with the NUL */

/* The words of the file are an array of these, zero behind a fingerprint. */
struct gm_calibration {
	char device[GM_CALIBRATION_DEVICE];
	uint64_t set_ns; /* CLOCK_REALTIME */
	uint64_t least[GM_WORKS];
};

extern const struct gm_state_kind gm_calibrations_kind;

/* Read the file, and publish the thresholds of the rows that there are: at the
 * start.  A file that makes no sense is logged and set aside.  One that cannot
 * be read is logged and stays: CALIBRATE is refused then, which would replace
 * it. */
void gm_calibration_start(struct gm_daemon *d);

/* Event; see base/events.h: publish the thresholds of rows that came since. */
void gm_calibration_row_came(struct gm_daemon *d);

/* CALIBRATE.  Returns 0: the answer comes; or a status to refuse with. */
int gm_calibration_handle(struct gm_connection *c, const struct gm_request *r);

#endif
