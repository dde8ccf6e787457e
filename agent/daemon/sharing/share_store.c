/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/sharing/share_store.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "agent/common/log.h"
#include "agent/daemon/base/fd_store.h"
#include "agent/daemon/base/loop.h"
#include "agent/common/manager.h"
#include "agent/daemon/base/parts.h"
#include "agent/daemon/config.h"
#include "agent/daemon/devices/rows.h"
#include "agent/daemon/sessions/session.h"
#include "agent/daemon/sharing/export_accounting.h"
#include "agent/daemon/sharing/share.h"
#include "shm/point.h"

#define USER_PART 4u /* of the store is for one user, unless privileged */

/* ---- what the manager keeps ---------------------------------------------- */

bool gm_share_store_row_stays(const struct gm_daemon *d, uint32_t row)
{
	return gm_device_can(d->devices->of[row], GPUMAP_DEVICE_MAPPED) ||
	       d->config->cuda_keep_shares;
}

/* How many descriptors the manager keeps of it: the record, what is said about
 * it, and the buffers, in this order. */
static uint32_t count_kept(const struct gm_shared *shared)
{
	return 1 + (shared->about >= 0) + shared->n_buffers;
}

/* Why the share ends with us, or NULL. */
static const char *find_hindrance(const struct gm_shared *shared)
{
	const struct gm_daemon *d = shared->server->d;

	if (!gm_fd_store_has_room(d->fd_store, count_kept(shared)))
		return "the service manager has no room for its descriptors: "
		       "raise FileDescriptorStoreMax of gpumapd.service";
	if (!gm_user_is_privileged(shared->user->uid) &&
	    shared->user->kept_fds + count_kept(shared) >
		    d->manager->keeps_most / USER_PART)
		return "its user has a quarter of what the service manager "
		       "keeps: raise FileDescriptorStoreMax of "
		       "gpumapd.service";
	for (uint32_t i = 0; i < shared->n_buffers; i++) {
		if (!gm_share_store_row_stays(d, shared->buffers[i]->row))
			return "memory of a card ends with its worker: set "
			       "keep-shares in [cuda] of gpumapd.conf";
	}
	return NULL;
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

	gm_put_release(&shared->record.head->ended, 1); /* SHARE.ended */
	GM_POINT("share_end_kept");
	for (uint32_t i = 0; i < n; i++)
		gm_fd_store_remove(shared->server->d->fd_store,
				   nth_name(shared, i, &fd).text);
}

/* systemd keeps no second descriptor of one open file, which a client may have
 * shared twice: so each memfd is opened anew, where /proc has it.  A client may
 * hold a lease of it: with O_NONBLOCK the open does not wait for that.  A
 * driver's descriptors are of open files of their own. */
static int put(const struct gm_shared *shared, uint32_t i)
{
	const struct gm_daemon *d = shared->server->d;
	uint32_t before = 1 + (shared->about >= 0);
	int fd, own = -1, error;
	struct gm_share_name name = nth_name(shared, i, &fd);
	char path[32];

	if (i < before ||
	    gm_device_can(d->devices->of[shared->buffers[i - before]->row],
			  GPUMAP_DEVICE_MAPPED)) {
		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		own = open(path, (fcntl(fd, F_GETFL) & O_ACCMODE) | O_CLOEXEC |
					 O_NONBLOCK);
	}
	error = gm_fd_store_put(d->fd_store, name.text, own < 0 ? fd : own);
	if (own >= 0)
		close(own);
	return error;
}

static int put_all(struct gm_shared *shared)
{
	uint32_t n = count_kept(shared);
	int error = 0;

	for (uint32_t i = 0; i < n && error == 0; i++) {
		if (i > 0)
			GM_POINT("share_put_half");
		error = put(shared, i);
		if (error)
			remove_first(shared, i);
	}
	shared->mark = gm_fd_store_mark(shared->server->d->fd_store);
	if (error == 0)
		shared->user->kept_fds += n;
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
	shared->user->kept_fds -= count_kept(shared);
	close_record(shared);
}

/* ---- holders ------------------------------------------------------------- */

/* Could the next agent not tell that the session's process has ended? */
static bool is_unknown(const struct gm_share_holder *holder)
{
	struct pollfd end = { .fd = holder->session->connection->process.fd,
			      .events = POLLIN };

	return holder->pid <= 0 || end.fd < 0 || poll(&end, 1, 0) != 0;
}

int gm_share_store_hold(struct gm_share_holder *holder)
{
	struct gm_share_record *in = &holder->shared->record;
	const struct gm_lineage_member process = {
		.pid = (uint32_t)holder->pid,
		.start = gm_lineage_now(),
	};
	int error;

	if (!in->head || is_unknown(holder))
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
