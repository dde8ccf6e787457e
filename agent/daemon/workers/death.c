/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* What is said of a worker's death, to readers and to the log. */

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "agent/common/log.h"
#include "agent/cuda/cuerror.h"
#include "agent/daemon/daemon.h"
#include "agent/daemon/workers/worker_process.h"
#include "agent/daemon/workers/worker_users.h"

#define MS UINT64_C(1000000)

void gm_death_begins(struct gm_keeper *keeper)
{
	if (keeper->times.failed_ns == 0)
		keeper->times.failed_ns = gm_loop_now();
}

/* With the driver's number and name in front, unless the worker has put them
 * there. */
static void make_reason(const struct gm_keeper *keeper, const char *why,
			char ret_reason[GM_WHY_BYTES])
{
	gm_cu_result code = (gm_cu_result)keeper->code;

	if (keeper->code <= 0 || strncmp(why, "CUDA ", 5) == 0)
		snprintf(ret_reason, GM_WHY_BYTES, "%s", why);
	else
		snprintf(ret_reason, GM_WHY_BYTES, "CUDA %u %s: %s", code,
			 gm_cuerror_name(code), why);
}

/* A worker that finds no such device has lost it: until the probe has seen it
 * again there is nobody to start. */
void gm_death_show(struct gm_keeper *keeper, const char *why)
{
	struct gm_device *device = keeper->d->devices.of[keeper->row];
	bool is_lost = keeper->is_card && keeper->code > 0 &&
		       gm_cuerror_class((gm_cu_result)keeper->code) ==
			       GM_CUERROR_ABSENT;
	char reason[GM_WHY_BYTES];

	/* Who bars it has said why; a program has no device to lose. */
	if (device->bars || !gm_keeper_is_shown(keeper))
		return;
	make_reason(keeper, why, reason);
	if (is_lost)
		device->bars |= GM_BAR_LOST;
	gm_devices_state(keeper->d, keeper->row,
			 is_lost ? GPUMAP_DEVICE_LOST : GPUMAP_DEVICE_FAILED,
			 reason, keeper->code);
	if (is_lost) {
		gm_worker_users_row_closing(keeper->d, keeper->row);
		gm_spare_end(keeper);
		gm_seats_refuse_newcomers(keeper, reason);
	}
}

/* Who bars the row has said why, and takes it away with that. */
void gm_death_stuck(struct gm_keeper *keeper)
{
	char reason[GM_WHY_BYTES];

	if (gm_keeper_is_barred(keeper))
		return;
	snprintf(reason, sizeof(reason), "stuck%s: %d does not end by SIGKILL",
		 keeper->is_card ? " in driver" : "", (int)keeper->child.pid);
	gm_keeper_show(keeper, GPUMAP_DEVICE_FAILED, reason, 0);
}

void gm_death_log(const struct gm_keeper *keeper, bool well, const char *why)
{
	const char *remedy =
		keeper->code > 0 ? gm_cuerror_remedy((gm_cu_result)keeper->code)
				 : NULL;

	gm_log(well ? GM_LOG_INFO : GM_LOG_WARNING,
	       well ? "worker_ended" : "worker_died",
	       "row=%u%s pid=%d reason=%s completed=%" PRIu64 "%s%s",
	       keeper->row, keeper->of, (int)keeper->child.pid,
	       gm_quote(why).text,
	       gm_get(&keeper->journal->completed) - keeper->completed,
	       remedy ? " remedy=" : "", remedy ? gm_quote(remedy).text : "");
}

/* How long it was away, and with what. */
void gm_death_over(struct gm_keeper *keeper)
{
	struct gm_keeper_times t = keeper->times;
	uint64_t now = gm_loop_now();

	memset(&keeper->times, 0, sizeof(keeper->times));
	if (t.failed_ns == 0)
		return;
	gm_log(GM_LOG_INFO, "row_back",
	       "row=%u%s restarts=%u away_ms=%" PRIu64 " exit_ms=%" PRIu64
	       " bury_ms=%" PRIu64 " start_ms=%" PRIu64,
	       keeper->row, keeper->of, keeper->restarts,
	       (now - t.failed_ns) / MS, (t.gone_ns - t.failed_ns) / MS,
	       t.buried_ns ? (t.buried_ns - t.gone_ns) / MS : 0,
	       t.started_ns > t.gone_ns ? (now - t.started_ns) / MS : 0);
}
