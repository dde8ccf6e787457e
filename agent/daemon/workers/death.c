/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/workers/death.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "agent/common/log.h"
#include "agent/cuda/cuerror.h"
#include "agent/daemon/base/loop.h"
#include "agent/daemon/base/parts.h"
#include "agent/daemon/devices/rows.h"
#include "agent/daemon/workers/worker_child.h"

#define MS UINT64_C(1000000)

/* Its numbers are CUDA's, where both have them. */
static bool is_hip(const struct gm_worker_process *worker)
{
	return worker->d->devices->of[worker->row]->facts.kind ==
	       GPUMAP_DEVICE_HIP;
}

/* With the driver's number and name in front, unless the worker has put them
 * there. */
static void make_reason(const struct gm_worker_process *worker, const char *why,
			char ret_reason[GM_WHY_BYTES])
{
	gm_cu_result code = (gm_cu_result)worker->code;

	const char *maker = is_hip(worker) ? "HIP" : "CUDA";
	size_t n = strlen(maker);

	if (worker->code <= 0 || (strncmp(why, maker, n) == 0 && why[n] == ' '))
		snprintf(ret_reason, GM_WHY_BYTES, "%s", why);
	else
		snprintf(ret_reason, GM_WHY_BYTES, "%s %u %s: %s", maker, code,
			 gm_cuerror_name(code), why);
}

/* A worker that finds no such device has lost it: no worker is started until
 * the probe has seen the device again. */
bool gm_death_show(struct gm_worker_process *worker, const char *why,
		   char ret_reason[GM_WHY_BYTES])
{
	struct gm_device *device = worker->d->devices->of[worker->row];
	bool is_lost = worker->is_card && worker->code > 0 &&
		       gm_cuerror_class((gm_cu_result)worker->code) ==
			       GM_CUERROR_ABSENT;
	/* A bar of the row has a reason already, and a program has no device to
	 * lose. */
	if (device->bars || !gm_worker_process_is_shown(worker))
		return false;
	make_reason(worker, why, ret_reason);
	if (is_lost)
		device->bars |= GM_BAR_LOST;
	gm_devices_state(worker->d, worker->row,
			 is_lost ? GPUMAP_DEVICE_LOST : GPUMAP_DEVICE_FAILED,
			 ret_reason, worker->code);
	return is_lost;
}

/* A bar of the row has a reason already, which ends with the bar. */
void gm_death_stuck(struct gm_worker_process *worker)
{
	char reason[GM_WHY_BYTES];

	if (gm_worker_child_is_barred(worker))
		return;
	snprintf(reason, sizeof(reason), "stuck%s: %d does not end by SIGKILL",
		 worker->is_card ? " in driver" : "", (int)worker->child.pid);
	gm_worker_child_show(worker, GPUMAP_DEVICE_FAILED, reason, 0);
}

void gm_death_log(const struct gm_worker_process *worker, bool well,
		  const char *why)
{
	const char *(*remedy_of)(gm_cu_result) =
		is_hip(worker) ? gm_cuerror_remedy_hip : gm_cuerror_remedy;
	const char *remedy =
		worker->code > 0 ? remedy_of((gm_cu_result)worker->code) : NULL;

	gm_log(well ? GM_LOG_INFO : GM_LOG_WARNING,
	       well ? "worker_ended" : "worker_died",
	       "row=%u%s pid=%d reason=%s completed=%" PRIu64 "%s%s",
	       worker->row, worker->of, (int)worker->child.pid,
	       gm_quote(why).text,
	       gm_get(&worker->journal->completed) - worker->completed,
	       remedy ? " remedy=" : "", remedy ? gm_quote(remedy).text : "");
}

static void log_return(struct gm_worker_process *worker)
{
	struct gm_worker_process_times t = worker->times;
	uint64_t now = gm_loop_now();

	memset(&worker->times, 0, sizeof(worker->times));
	if (t.failed_ns == 0)
		return;
	gm_log(GM_LOG_INFO, "row_back",
	       "row=%u%s restarts=%u away_ms=%" PRIu64 " exit_ms=%" PRIu64
	       " recovery_ms=%" PRIu64 " start_ms=%" PRIu64,
	       worker->row, worker->of, worker->restarts,
	       (now - t.failed_ns) / MS, (t.gone_ns - t.failed_ns) / MS,
	       t.recovered_ns ? (t.recovered_ns - t.gone_ns) / MS : 0,
	       t.started_ns > t.gone_ns ? (now - t.started_ns) / MS : 0);
}

void gm_death_over(struct gm_worker_process *worker)
{
	if (gm_worker_process_is_shown(worker) &&
	    worker->d->devices->of[worker->row]->moving.state !=
		    GPUMAP_DEVICE_READY)
		gm_worker_child_show(worker, GPUMAP_DEVICE_READY, NULL, 0);
	log_return(worker);
}
