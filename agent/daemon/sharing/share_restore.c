/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* Shares of an earlier agent, made anew at the start. */

#include "agent/daemon/sharing/share_store.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "agent/common/log.h"
#include "agent/daemon/base/fd_store.h"
#include "agent/daemon/base/loop.h"
#include "agent/daemon/base/manager.h"
#include "agent/daemon/base/parts.h"
#include "agent/daemon/devices/rows.h"
#include "agent/daemon/sharing/export_accounting.h"
#include "agent/daemon/sharing/share.h"
#include "shm/point.h"

/* ---- is it whole? -------------------------------------------------------- */

static const char *check_part(const struct gm_daemon *d,
			      const struct gm_share_record *record, uint32_t i)
{
	const struct gm_share_part *part = &record->parts[i];
	const struct gm_device *device = gm_devices_find(d, part->uuid);
	int fd = gm_fd_store_find(d->fd_store,
				  gm_share_part_name(record->head->id, i).text);

	if (fd < 0)
		return "a buffer of it is missing";
	/* A card may be named later. */
	if (!device || device->bars ||
	    (device->facts.kind == GPUMAP_DEVICE_HOST && !device->present))
		return "a row of it is not there";
	if (!gm_share_store_row_stays(d, device->facts.row))
		return "memory of a card ends with its worker";
	return NULL;
}

/* Why it cannot be made anew, or NULL. */
static const char *find_fault(const struct gm_daemon *d,
			      const struct gm_share_record *record, uint64_t id)
{
	const struct gm_share_head *head = record->head;
	const char *fault = NULL;
	int about = gm_fd_store_find(
		d->fd_store, gm_share_part_name(id, GM_SHARE_ABOUT).text);

	if (gm_get_acquire(&head->ended)) /* SHARE.ended */
		return "it has ended";
	if (head->id != id || gm_shared_find(d->server, head->name))
		return "its record is wrong";
	if (head->about_bytes && about < 0)
		return "what is said about it is missing";
	for (uint32_t i = 0; i < head->n_buffers && !fault; i++)
		fault = check_part(d, record, i);
	return fault;
}

/* ---- made anew ----------------------------------------------------------- */

static uint64_t made_at(const struct gm_share_head *head)
{
	uint64_t now = gm_loop_now();
	struct timespec boot;
	uint64_t age;

	clock_gettime(CLOCK_BOOTTIME, &boot);
	age = (uint64_t)boot.tv_sec * 1000000000 + (uint64_t)boot.tv_nsec -
	      head->made_ns;
	return age < now ? now - age : 0;
}

static struct gm_shared *make(struct gm_control_server *s,
			      const struct gm_share_record *record)
{
	const struct gm_share_head *head = record->head;
	struct gm_shared *shared = calloc(1, sizeof(*shared));

	if (!shared)
		return NULL;
	*shared = (struct gm_shared){
		.server = s,
		.user = gm_user_hold(s, head->uid),
		.id = head->id,
		.since_ns = made_at(head),
		.about = -1,
		.about_bytes = head->about_bytes,
		.flags = head->flags,
		.n_uids = head->n_uids,
		.buffers = calloc(head->n_buffers, sizeof(*shared->buffers)),
		.uids = calloc(head->n_uids + 1, sizeof(*shared->uids)),
		.key.fields = calloc(1, (size_t)head->fields_bytes + 1),
		.key.bytes = head->fields_bytes,
		.record.fd = -1,
	};
	TAILQ_INIT(&shared->holders);
	if (!shared->user || !shared->buffers || !shared->uids ||
	    !shared->key.fields) {
		if (shared->user)
			gm_user_drop(s, shared->user);
		free(shared->buffers);
		free(shared->uids);
		free(shared->key.fields);
		free(shared);
		return NULL;
	}
	memcpy(shared->uids, record->uids,
	       head->n_uids * sizeof(shared->uids[0]));
	memcpy(shared->key.fields, record->fields, head->fields_bytes);
	memcpy(shared->key.hash, head->hash, sizeof(shared->key.hash));
	memcpy(shared->name, head->name, sizeof(shared->name));
	shared->charged = gm_shared_pages(shared);
	shared->user->arena_bytes += shared->charged;
	return shared;
}

/* Its buffers, which leave the manager's list. */
static int take_parts(struct gm_shared *shared,
		      const struct gm_share_record *record)
{
	const struct gm_daemon *d = shared->server->d;
	bool is_others =
		shared->n_uids || shared->flags & GPUMAP_SHARE_ANY_USER;

	for (uint32_t i = 0; i < record->head->n_buffers; i++) {
		const struct gm_share_part *part = &record->parts[i];
		struct gm_export *export =
			gm_export_restore(shared->server, shared->user);
		bool is_sealed = part->flags & GM_SHARE_PART_SEALED;

		if (!export)
			return -ENOMEM;
		export->shared = shared;
		export->row = gm_devices_find(d, part->uuid)->facts.row;
		export->id = (uint64_t) export->row << 56 |
			     ++shared->server->last_export;
		export->bytes = part->bytes;
		export->read_only = part->flags & GM_SHARE_PART_READ_ONLY;
		export->is_sealed = is_sealed;
		export->is_lent = is_others && !is_sealed;
		export->fd = gm_fd_store_take(
			d->fd_store, gm_share_part_name(shared->id, i).text);
		shared->buffers[shared->n_buffers++] = export;
	}
	shared->about = gm_fd_store_take(
		d->fd_store,
		gm_share_part_name(shared->id, GM_SHARE_ABOUT).text);
	return 0;
}

/* ---- holders ------------------------------------------------------------- */

static void process_ended(struct gm_source *source, uint32_t events)
{
	(void)events;
	gm_shared_leave(gm_owner(source, struct gm_share_holder, process));
}

/* A descriptor of the process, whose pid may be another's by now: then -ESRCH.
 * The descriptor first, see map/pins.c. */
static int open_process(pid_t pid, uint64_t start)
{
	int fd = (int)syscall(SYS_pidfd_open, pid, 0);
	struct gm_lineage_member now;
	int error;

	/* The error for a thread is EINVAL, or ENOENT since Linux 6.15. */
	if (fd < 0)
		return errno == EINVAL || errno == ENOENT ? -ESRCH : -errno;
	error = gm_lineage_stat(pid, &now);
	if (error == 0 && now.start == start)
		return fd;
	close(fd);
	return error ? error : -ESRCH;
}

static int hold(struct gm_shared *shared, uint32_t i)
{
	const struct gm_share_place *place = &shared->record.places[i];
	struct gm_control_server *s = shared->server;
	struct gm_share_holder *holder;
	uint64_t word = gm_get_acquire(&place->word); /* SHARE.place */
	pid_t pid = (pid_t)(word & ~GM_SHARE_PLACE_FIRST);
	int fd = open_process(pid, place->start);

	if (fd == -ESRCH) {
		gm_share_record_let_go(&shared->record, i);
		return 0;
	}
	if (fd < 0)
		return fd;
	holder = calloc(1, sizeof(*holder));
	if (holder)
		*holder = (struct gm_share_holder){
			.shared = shared,
			.user = gm_user_hold(s, place->uid),
			.pid = pid,
			.is_first = word & GM_SHARE_PLACE_FIRST,
			.place = i,
			.has_place = true,
			.process = { fd, process_ended },
		};
	if (!holder || !holder->user ||
	    gm_loop_add(s->d->loop, &holder->process, EPOLLIN) != 0) {
		if (holder && holder->user)
			gm_user_drop(s, holder->user);
		close(fd);
		free(holder);
		return -ENOMEM;
	}
	gm_shared_count(holder);
	return 0;
}

static int hold_all(struct gm_shared *shared)
{
	int error = 0;

	for (uint32_t i = 0; i < shared->record.n_places && error == 0; i++) {
		if (gm_get(&shared->record.places[i].word))
			error = hold(shared, i);
	}
	return error;
}

/* ---- all of them --------------------------------------------------------- */

/* In the list also where it fails: then it ends with the agent, and the next
 * one finds it as this one did. */
static int make_anew(struct gm_daemon *d, struct gm_share_record *record)
{
	struct gm_control_server *s = d->server;
	struct gm_shared *shared = make(s, record);
	int error;

	if (!shared)
		return -ENOMEM;
	shared->record = *record;
	*record = (struct gm_share_record){ .fd = -1 };
	TAILQ_INSERT_TAIL(&s->shares, shared, entry);
	close(gm_fd_store_take(d->fd_store, gm_share_name(shared->id).text));
	error = take_parts(shared, &shared->record);
	shared->user->kept_fds += 1 + (shared->about >= 0) + shared->n_buffers;
	if (error == 0)
		error = hold_all(shared);
	if (error)
		return error;
	GM_POINT("share_restored");
	gm_log(GM_LOG_INFO, "share_restored",
	       "share=%" PRIu64 " name=%s buffers=%u uid=%u holders=%u",
	       shared->id, gm_quote(shared->name).text, shared->n_buffers,
	       (unsigned)shared->user->uid, shared->n_holders);
	if (shared->n_holders == 0 && !gm_shared_is_kept(shared))
		gm_shared_end(shared, "no process that has held it lives");
	return 0;
}

static int restore(struct gm_daemon *d, uint64_t id)
{
	int fd = gm_fd_store_find(d->fd_store, gm_share_name(id).text);
	struct gm_share_record record = { .fd = -1 };
	int error = gm_share_record_open(fd, &record);
	const char *fault =
		error == -EPROTO ? "its record is of another build" : NULL;

	if (error && !fault)
		return error;
	if (!fault)
		fault = find_fault(d, &record, id);
	if (!fault)
		error = make_anew(d, &record);
	else if (!record.head || !gm_get(&record.head->ended))
		gm_log(GM_LOG_WARNING, "share_not_restored",
		       "share=%" PRIu64 " name=%s why=%s", id,
		       gm_quote(record.head ? record.head->name : "").text,
		       gm_quote(fault).text);
	gm_share_record_close(&record);
	return fault ? 0 : error;
}

/* Descriptors of no share that is there. */
static void remove_rest(struct gm_daemon *d)
{
	struct gm_manager *m = d->manager;

	while (m->n_kept > 0) {
		struct gm_manager_kept kept = m->kept[m->n_kept - 1];

		close(gm_fd_store_take(d->fd_store, kept.name));
		gm_fd_store_remove(d->fd_store, kept.name);
	}
}

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

int gm_share_store_restore(struct gm_daemon *d)
{
	const struct gm_manager *m = d->manager;
	uint64_t *ids, last = 0;
	uint32_t n = 0;
	bool is_record;
	int error = 0;

	if (m->keeps_most == 0) {
		gm_log(GM_LOG_INFO, "no_fd_store", "why=%s",
		       gm_quote("shares end with this agent: no "
				"service manager keeps them")
			       .text);
		return 0;
	}
	ids = calloc((size_t)m->n_kept + 1, sizeof(*ids));
	if (!ids)
		return -ENOMEM;
	/* No id is given twice: a removal may still be on its way. */
	for (uint32_t i = 0; i < m->n_kept; i++) {
		ids[n] = gm_share_name_id(m->kept[i].name, &is_record);
		if (ids[n] > last)
			last = ids[n];
		n += is_record;
	}
	d->server->last_share = last;
	qsort(ids, n, sizeof(ids[0]), compare);
	for (uint32_t i = 0; i < n && error == 0; i++)
		error = restore(d, ids[i]);
	free(ids);
	if (error == 0)
		remove_rest(d);
	return error;
}
