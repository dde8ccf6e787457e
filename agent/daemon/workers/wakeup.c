/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/workers/wakeup.h"

#include <errno.h>
#include <sys/eventfd.h>

#include "agent/common/log.h"
#include "agent/daemon/base/parts.h"
#include "agent/daemon/workers/worker_child.h"

static int waker_of(struct gm_worker_process *worker)
{
	if (worker->waker < 0)
		worker->waker = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	return worker->waker < 0 ? -errno : worker->waker;
}

void gm_wakeup_send(struct gm_worker_process *worker, uint32_t row)
{
	struct gm_wire wire = { .type = GM_WIRE_WAKER, .place = row };
	struct gm_worker_process *asked = NULL;
	int fd;

	if (row < GM_ROWS)
		asked = worker->group->workers[row];
	if (!asked)
		return; /* it has gone, or never was */
	fd = waker_of(asked);
	if (fd < 0)
		gm_log(GM_LOG_WARNING, "no_waker", "row=%u error=%d", row, -fd);
	else
		/* Without room now it asks again. */
		gm_worker_child_send(worker, &wire, &fd, 1);
}
