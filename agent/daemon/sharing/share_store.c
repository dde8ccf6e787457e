/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/sharing/share_store.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "agent/common/log.h"
#include "agent/daemon/base/fd_store.h"
#include "agent/daemon/base/loop.h"
#include "agent/daemon/base/manager.h"
#include "agent/daemon/base/parts.h"
#include "agent/daemon/config.h"
#include "agent/daemon/devices/rows.h"
#include "agent/daemon/sessions/session.h"
#include "agent/daemon/sharing/export_accounting.h"
#include "agent/daemon/sharing/share.h"
#include "shm/point.h"

/* ---- what the manager keeps ---------------------------------------------- */

bool gm_share_store_row_stays(const struct gm_daemon *d, uint32_t row)
{
	return d->devices->of[row]->facts.kind == GPUMAP_DEVICE_HOST ||
	       d->config->cuda_keep_shares;
}

/* Why the share ends with us, or NULL. */
static const char *find_hindrance(const struct gm_shared *shared)
{
	const struct gm_daemon *d = shared->server->d;

	if (!gm_fd_store_has_room(d->fd_store, shared->n_buffers + 2))
		return "the service manager has no room for its descriptors: "
		       "raise FileDescriptorStoreMax of gpumapd.service";
	for (uint32_t i = 0; i < shared->n_buffers; i++) {
		if (!gm_share_store_row_stays(d, shared->buffers[i]->row))
			return "memory of a card ends with its worker: set "
			       "keep-shares in [cuda] of gpumapd.conf";
	}
	return NULL;
}

/* How many descriptors the manager keeps of it: the record, what is said about
 * it, and the buffers, in this order. */
static uint32_t count_kept(const struct gm_shared *shared)
{
	return 1 + (shared->about >= 0) + shared->n_buffers;
}

static struct gm_share_name nth_name(const struct gm_shared *shared, uint32_t i,
				     int *ret_fd)
{
	uint32_t before = 1 + (shared->about >= 0);

	if (i == 0) {
		*ret_fd = shared->record.fd;
		return gm_share_name(shared->id);
	}
	if (i < before) {
		*ret_fd = shared->about;
		return gm_share_part_name(shared->id, GM_SHARE_ABOUT);
	}
	*ret_fd = shared->buffers[i - before]->fd;
	return gm_share_part_name(shared->id, i - before);
}

/* @ended first: the agent may die before the manager knows. */
static void remove_first(struct gm_shared *shared, uint32_t n)
{
	int fd;

	gm_put_release(&shared->record.head->ended, 1);
	GM_POINT("share_end_kept");
	for (uint32_t i = 0; i < n; i++)
		gm_fd_store_remove(shared->server->d->fd_store,
				   nth_name(shared, i, &fd).text);
}

static int put_all(struct gm_shared *shared)
{
	uint32_t n = count_kept(shared);
	int error = 0, fd;

	for (uint32_t i = 0; i < n && error == 0; i++) {
		struct gm_share_name name = nth_name(shared, i, &fd);

		if (i > 0)
			GM_POINT("share_put_half");
		error = gm_fd_store_put(shared->server->d->fd_store, name.text,
					fd);
		if (error)
			remove_first(shared, i);
	}
	return error;
}

static int record(struct gm_shared *shared)
{
	struct gm_share_holder *holder;
	int error = gm_share_record_make(shared, &shared->record);

	if (error)
		return error;
	TAILQ_FOREACH(holder, &shared->holders, entry)
	{
		error = gm_share_store_hold(holder);
		if (error)
			return error;
	}
	return put_all(shared);
}

static void close_record(struct gm_shared *shared)
{
	struct gm_share_holder *holder;

	TAILQ_FOREACH(holder, &shared->holders, entry)
	holder->has_place = false;
	gm_share_record_close(&shared->record);
}

void gm_share_store_put(struct gm_shared *shared)
{
	const struct gm_daemon *d = shared->server->d;
	const char *hindrance;
	int error = 0;

	if (d->manager->keeps_most == 0)
		return;
	hindrance = find_hindrance(shared);
	if (!hindrance)
		error = record(shared);
	if (error) {
		hindrance = strerror(-error);
		close_record(shared);
	}
	if (hindrance)
		gm_log_of(shared->user->uid, GM_LOG_WARNING, "share_not_kept",
			  "share=%" PRIu64 " name=%s why=%s", shared->id,
			  gm_quote(shared->name).text,
			  gm_quote(hindrance).text);
}

void gm_share_store_end(struct gm_shared *shared)
{
	if (!shared->record.head)
		return;
	if (!shared->server->is_ending)
		remove_first(shared, count_kept(shared));
	close_record(shared);
}

/* ---- holders ------------------------------------------------------------- */

/* The session's process, by its start time; false where the next agent could
 * not tell that it has ended.  The process is alive after the reading, so that
 * what was read is of no other one. */
static bool identify(const struct gm_share_holder *holder,
		     struct gm_lineage_member *ret_process)
{
	struct pollfd end = { .fd = holder->session->connection->process.fd,
			      .events = POLLIN };

	return holder->pid > 0 && end.fd >= 0 &&
	       gm_lineage_stat(holder->pid, ret_process) == 0 &&
	       poll(&end, 1, 0) == 0;
}

int gm_share_store_hold(struct gm_share_holder *holder)
{
	struct gm_share_record *in = &holder->shared->record;
	struct gm_lineage_member process;
	int error;

	if (!in->head || !identify(holder, &process))
		return 0;
	error = gm_share_record_hold(in, &process, holder->user->uid,
				     holder->is_first, &holder->place);
	holder->has_place = error == 0;
	return error;
}

void gm_share_store_set_first(const struct gm_share_holder *holder)
{
	if (holder->has_place)
		gm_share_record_set_first(&holder->shared->record,
					  holder->place);
}

/* While the agent ends, the next one is to find it as it is. */
void gm_share_store_let_go(struct gm_share_holder *holder)
{
	struct gm_shared *shared = holder->shared;

	if (holder->has_place && !shared->server->is_ending)
		gm_share_record_let_go(&shared->record, holder->place);
	if (holder->process.fd < 0)
		return;
	gm_loop_del(shared->server->d->loop, &holder->process);
	close(holder->process.fd);
}
