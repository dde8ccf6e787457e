/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* Shares of an earlier agent, made anew at the start. */

#include "agent/daemon/sharing/share_store.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/common/log.h"
#include "agent/common/name.h"
#include "agent/common/node_clock.h"
#include "agent/daemon/base/fd_store.h"
#include "agent/daemon/base/loop.h"
#include "agent/common/manager.h"
#include "agent/daemon/base/memfd.h"
#include "agent/daemon/base/parts.h"
#include "agent/daemon/devices/rows.h"
#include "agent/daemon/sharing/export_accounting.h"
#include "agent/daemon/sharing/share.h"
#include "shm/point.h"

/* ---- is it whole? -------------------------------------------------------- */

/*
 * The descriptors that the manager hands back are input: another build may have
 * sent them, or any process that the manager takes for this agent.  The agent
 * maps none, and hands none on, before it knows that the descriptor is what the
 * record says.
 */

/* Nothing is known yet of a card that is named late. */
static uint64_t most_bytes(const struct gm_device *device)
{
	return device->facts.total_bytes ? device->facts.total_bytes
					 : UINT64_C(1) << 48;
}

/* A driver's descriptor is of a kind of its own, which the driver checks. */
static int check_memory(struct gm_daemon *d, const struct gm_device *device,
			const struct gm_share_part *part, int fd)
{
	bool is_read_only = part->flags & GM_SHARE_PART_READ_ONLY;
	bool is_sealed = part->flags & GM_SHARE_PART_SEALED;
	char *why = d->server->why;
	int error;

	if (gm_device_can(device, GPUMAP_DEVICE_CARD))
		return part->bytes - 1 < most_bytes(device)
			       ? 0
			       : gm_why(why, -ERANGE,
					"a buffer of it is larger than its "
					"row");
	error = gm_memfd_check(fd, 0, part->bytes, !is_read_only, why);
	if (error == 0 &&
	    !(fcntl(fd, F_GET_SEALS) & F_SEAL_FUTURE_WRITE) == is_sealed)
		error = gm_why(why, -EPERM,
			       "a buffer of it is not sealed as its record "
			       "says");
	return error;
}

static int check_part(struct gm_daemon *d, const struct gm_share_record *record,
		      uint32_t i)
{
	const struct gm_share_part *part = &record->parts[i];
	const struct gm_device *device = gm_devices_find(d, part->uuid);
	int fd = gm_fd_store_find(d->fd_store,
				  gm_share_part_name(record->head->id, i).text);
	char *why = d->server->why;

	if (fd < 0)
		return gm_why(why, -ENOENT, "a buffer of it is missing");
	/* A card may be named later. */
	if (!device || device->bars ||
	    !gm_device_can(device, GPUMAP_DEVICE_SERVES) ||
	    (!gm_device_can(device, GPUMAP_DEVICE_CARD) && !device->present))
		return gm_why(why, -ENODEV, "a row of it is not there");
	if (!gm_share_store_row_stays(d, device->facts.row))
		return gm_why(why, -ENODEV,
			      "memory of a card ends with its worker");
	if (part->flags & ~(GM_SHARE_PART_READ_ONLY | GM_SHARE_PART_SEALED))
		return gm_why(why, -EPROTO, "its record is wrong");
	return check_memory(d, device, part, fd);
}

static int check_about(struct gm_daemon *d, const struct gm_share_head *head)
{
	char *why = d->server->why;
	int fd = gm_fd_store_find(
		d->fd_store, gm_share_part_name(head->id, GM_SHARE_ABOUT).text);

	if (head->about_bytes == 0)
		return 0;
	return fd < 0 ? gm_why(why, -ENOENT, "what is said about it is missing")
		      : gm_shared_check_about(fd, head->about_bytes, why);
}

/* The rest of its counts is checked, see share_record.c. */
static bool is_head_right(const struct gm_share_record *record, uint64_t id)
{
	const struct gm_share_head *head = record->head;
	char why[GM_WHY_BYTES];

	return head->id == id && head->uid != (uint32_t)-1 &&
	       !(head->flags & ~GM_SHARED_FLAGS) &&
	       gm_name_check(head->name, why) == 0 &&
	       !memchr(record->fields, '\0', head->fields_bytes);
}

/* Can it be made anew?  Returns 0, or an error with the reason. */
static int check(struct gm_daemon *d, const struct gm_share_record *record,
		 uint64_t id)
{
	const struct gm_share_head *head = record->head;
	char *why = d->server->why;
	int error;

	if (!is_head_right(record, id))
		return gm_why(why, -EPROTO, "its record is wrong");
	if (gm_shared_find(d->server, head->name))
		return gm_why(why, -EEXIST, "another share has its name");
	error = check_about(d, head);
	for (uint32_t i = 0; i < head->n_buffers && error == 0; i++)
		error = check_part(d, record, i);
	return error;
}

/* ---- made anew ----------------------------------------------------------- */

static uint64_t made_at(const struct gm_share_head *head)
{
	uint64_t now = gm_node_clock_now();
	uint64_t age = gm_node_clock_read(CLOCK_BOOTTIME) - head->made_ns;

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
	if (shared->about_bytes)
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
	if (error == 0 && now.start <= start)
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

uint32_t gm_share_store_processes(const struct gm_daemon *d)
{
	const struct gm_share_holder *holder;
	const struct gm_shared *shared;
	uint32_t n = 0;

	if (!d->server)
		return 0;
	TAILQ_FOREACH(shared, &d->server->shares, entry)
	{
		TAILQ_FOREACH(holder, &shared->holders, entry)
		n += !holder->session;
	}
	return n;
}

/* ---- all of them --------------------------------------------------------- */

/* Where it fails it has ended, or was never in the list. */
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
	if (error) {
		gm_shared_end(shared, "it could not be taken back");
		return error;
	}
	GM_POINT("share_restored");
	gm_log(GM_LOG_INFO, "share_restored",
	       "share=%" PRIu64 " name=%s buffers=%u uid=%u holders=%u",
	       shared->id, gm_quote(shared->name).text, shared->n_buffers,
	       (unsigned)shared->user->uid, shared->n_holders);
	if (shared->n_holders == 0 && !gm_shared_is_kept(shared))
		gm_shared_end(shared, "no process that has held it lives");
	return 0;
}

static int no_room(char ret_why[GM_WHY_BYTES], int error)
{
	return gm_why(ret_why, error, "%s",
		      error == -EMFILE || error == -ENFILE
			      ? "no descriptor is left for it: raise "
				"LimitNOFILE of gpumapd.service (ulimit -Hn)"
			      : strerror(-error));
}

static int open_record(struct gm_daemon *d, uint64_t id,
		       struct gm_share_record *ret_record)
{
	int fd = gm_fd_store_find(d->fd_store, gm_share_name(id).text);
	int error = gm_share_record_open(fd, ret_record);

	if (error == -EPROTO)
		return gm_why(d->server->why, error,
			      "its record is of another build, or is none");
	return error ? no_room(d->server->why, error) : 0;
}

/* The agent serves without a share that it cannot take back. */
static void restore(struct gm_daemon *d, uint64_t id)
{
	struct gm_share_record record = { .fd = -1 };
	char name[GPUMAP_NAME_MAX + 1] = "", *why = d->server->why;
	bool has_ended = false;
	int error = open_record(d, id, &record);

	/* SHARE.ended */
	has_ended = error == 0 && gm_get_acquire(&record.head->ended);
	if (error == 0 && !has_ended) {
		memcpy(name, record.head->name, sizeof(name));
		error = check(d, &record, id);
		if (error == 0 && (error = make_anew(d, &record)))
			no_room(why, error);
	}
	if (error)
		gm_log(GM_LOG_WARNING, "share_not_restored",
		       "share=%" PRIu64 " name=%s why=%s", id,
		       gm_quote(name).text, gm_quote(why).text);
	gm_share_record_close(&record);
}

/* Descriptors of no share that is there.  A name that several have is removed
 * with all of them. */
static void remove_rest(struct gm_daemon *d)
{
	struct gm_manager *m = d->manager;
	const char *first = NULL;
	uint32_t n = 0;

	for (uint32_t i = 0; i < m->n_kept; i++) {
		struct gm_manager_kept *kept = &m->kept[i];

		if (kept->fd < 0)
			continue;
		gm_close_thread_close(&d->server->close_thread, kept->fd);
		kept->fd = -1;
		gm_fd_store_remove(d->fd_store, kept->name);
		if (n++ == 0)
			first = kept->name;
	}
	if (n > 0)
		gm_log(GM_LOG_INFO, "fd_store_tidied",
		       "descriptors=%u first=%s", n, gm_quote(first).text);
}

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

int gm_share_store_restore(struct gm_daemon *d)
{
	const struct gm_manager *m = d->manager;
	uint64_t *ids, id, last = 0;
	uint32_t n = 0;
	bool is_record;

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
		id = gm_share_name_id(m->kept[i].name, &is_record);
		if (id > last)
			last = id;
		if (is_record)
			ids[n++] = id;
	}
	d->server->last_share = last;
	qsort(ids, n, sizeof(ids[0]), compare);
	for (uint32_t i = 0; i < n; i++) {
		if (i == 0 || ids[i] != ids[i - 1])
			restore(d, ids[i]);
	}
	free(ids);
	remove_rest(d);
	return 0;
}
