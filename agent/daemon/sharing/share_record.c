/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/sharing/share_record.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "agent/common/node_clock.h"
#include "agent/daemon/base/memfd.h"
#include "agent/daemon/base/parts.h"
#include "agent/daemon/base/spawn.h"
#include "agent/daemon/devices/rows.h"
#include "agent/daemon/sharing/export_accounting.h"
#include "agent/daemon/sharing/share.h"

#define PLACES 64u /* at first, and more with each growth */

_Static_assert(sizeof(struct gm_share_head) == 152, "a format");
_Static_assert(offsetof(struct gm_share_head, ended) == 52, "a format");
_Static_assert(sizeof(struct gm_share_part) == 32, "a format");
_Static_assert(sizeof(struct gm_share_place) == 24, "a format");

static size_t round_up(size_t bytes)
{
	return (bytes + 7) / 8 * 8;
}

/* The bytes before the holders. */
static size_t fixed_bytes(const struct gm_share_head *head)
{
	return sizeof(*head) +
	       (size_t)head->n_buffers * sizeof(struct gm_share_part) +
	       round_up((size_t)head->n_uids * sizeof(uint32_t)) +
	       round_up(head->fields_bytes);
}

static void locate(struct gm_share_record *record, void *base, size_t bytes)
{
	struct gm_share_head *head = base;
	size_t fixed = fixed_bytes(head);

	record->bytes = bytes;
	record->head = head;
	record->parts = (void *)(head + 1);
	record->uids = (void *)(record->parts + head->n_buffers);
	record->fields = (char *)base + fixed - round_up(head->fields_bytes);
	record->places = (void *)((char *)base + fixed);
	record->n_places =
		(uint32_t)((bytes - fixed) / sizeof(struct gm_share_place));
}

static int map(int fd, size_t bytes, void **ret_base)
{
	void *base =
		mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	*ret_base = base;
	return base == MAP_FAILED ? -errno : 0;
}

/* ---- one of our own ------------------------------------------------------ */

static struct gm_share_head head_of(const struct gm_shared *shared)
{
	struct gm_share_head head = {
		.magic = GM_SHARE_RECORD_MAGIC,
		.id = shared->id,
		.made_ns = gm_node_clock_read(CLOCK_BOOTTIME),
		.about_bytes = shared->about_bytes,
		.uid = shared->user->uid,
		.flags = shared->flags,
		.n_buffers = shared->n_buffers,
		.n_uids = shared->n_uids,
		.fields_bytes = shared->key.bytes,
	};

	memcpy(head.hash, shared->key.hash, sizeof(head.hash));
	memcpy(head.name, shared->name, sizeof(head.name));
	return head;
}

static struct gm_share_part part_of(const struct gm_export *export)
{
	const struct gm_daemon *d = export->server->d;
	struct gm_share_part part = {
		.bytes = export->bytes,
		.flags = (export->read_only ? GM_SHARE_PART_READ_ONLY : 0) |
			 (export->is_sealed ? GM_SHARE_PART_SEALED : 0),
	};

	memcpy(part.uuid, d->devices->of[export->row]->facts.uuid,
	       sizeof(part.uuid));
	return part;
}

int gm_share_record_make(const struct gm_shared *shared,
			 struct gm_share_record *ret_record)
{
	struct gm_share_head head = head_of(shared);
	size_t bytes =
		fixed_bytes(&head) + PLACES * sizeof(struct gm_share_place);
	struct gm_share_record record = { .fd = -1 };
	void *base;
	int error;

	record.fd = gm_spawn_memfd("gpumap-share", bytes);
	if (record.fd < 0)
		return record.fd;
	/* A page that is not there when it is written is a SIGBUS. */
	error = fallocate(record.fd, 0, 0, (off_t)bytes) != 0
			? -ENOMEM
			: map(record.fd, bytes, &base);
	if (error) {
		close(record.fd);
		return error;
	}
	memcpy(base, &head, sizeof(head));
	locate(&record, base, bytes);
	for (uint32_t i = 0; i < shared->n_buffers; i++)
		record.parts[i] = part_of(shared->buffers[i]);
	memcpy(record.uids, shared->uids,
	       shared->n_uids * sizeof(record.uids[0]));
	if (shared->key.bytes)
		memcpy(record.fields, shared->key.fields, shared->key.bytes);
	*ret_record = record;
	return 0;
}

void gm_share_record_close(struct gm_share_record *record)
{
	if (!record->head)
		return;
	munmap(record->head, record->bytes);
	close(record->fd);
	*record = (struct gm_share_record){ .fd = -1 };
}

/* ---- one of an earlier agent --------------------------------------------- */

/* Not longer than we would make it. */
static bool is_record(const struct gm_share_head *head, size_t bytes)
{
	return head->magic == GM_SHARE_RECORD_MAGIC && head->id != 0 &&
	       head->n_buffers > 0 && head->n_buffers <= GM_SHARE_BUFFERS_MAX &&
	       head->n_uids <= GM_SHARE_UIDS_MAX &&
	       head->fields_bytes <= GM_SHARE_FIELDS_MAX &&
	       head->about_bytes <= GM_SHARE_ABOUT_MAX &&
	       memchr(head->name, '\0', sizeof(head->name)) &&
	       fixed_bytes(head) <= bytes &&
	       (bytes - fixed_bytes(head)) / sizeof(struct gm_share_place) <=
		       GM_SHARE_PLACES_MAX;
}

int gm_share_record_open(int fd, struct gm_share_record *ret_record)
{
	char why[GM_WHY_BYTES];
	uint64_t bytes = 0;
	void *base;
	int error = gm_memfd_bytes(fd, &bytes, why);

	if (error == 0)
		error = gm_memfd_check(fd, 0, bytes, true, why);
	if (error == 0 && bytes < sizeof(struct gm_share_head))
		error = -EPROTO;
	if (error == 0)
		error = map(fd, bytes, &base);
	if (error)
		return error == -ENOMEM || error == -EMFILE ? error : -EPROTO;
	if (!is_record(base, bytes)) {
		munmap(base, bytes);
		return -EPROTO;
	}
	*ret_record =
		(struct gm_share_record){ .fd = fcntl(fd, F_DUPFD_CLOEXEC, 0) };
	locate(ret_record, base, bytes);
	if (ret_record->fd >= 0)
		return 0;
	munmap(base, bytes);
	*ret_record = (struct gm_share_record){ .fd = -1 };
	return -EMFILE;
}

/* ---- holders ------------------------------------------------------------- */

/* The file is longer first: what is behind its end cannot be touched. */
static int grow(struct gm_share_record *record)
{
	size_t bytes = record->bytes + PLACES * sizeof(struct gm_share_place);
	void *base;

	if (record->n_places + PLACES > GM_SHARE_PLACES_MAX)
		return -ENOMEM;
	if (fallocate(record->fd, 0, (off_t)record->bytes,
		      (off_t)(bytes - record->bytes)) != 0)
		return -ENOMEM;
	base = mremap(record->head, record->bytes, bytes, MREMAP_MAYMOVE);
	if (base == MAP_FAILED)
		return -ENOMEM;
	locate(record, base, bytes);
	return 0;
}

int gm_share_record_hold(struct gm_share_record *record,
			 const struct gm_lineage_member *process, uint32_t uid,
			 bool is_first, uint32_t *ret_place)
{
	struct gm_share_place *place;
	uint32_t i = 0;

	while (i < record->n_places && gm_get(&record->places[i].word))
		i++;
	if (i == record->n_places && grow(record) != 0)
		return -ENOMEM;
	place = &record->places[i];
	place->start = process->start;
	place->uid = uid;
	/* SHARE.place */
	gm_put_release(&place->word,
		       process->pid | (is_first ? GM_SHARE_PLACE_FIRST : 0));
	*ret_place = i;
	return 0;
}

void gm_share_record_let_go(struct gm_share_record *record, uint32_t place)
{
	gm_put_release(&record->places[place].word, 0); /* SHARE.place */
}

void gm_share_record_set_first(struct gm_share_record *record, uint32_t place)
{
	gm_a64 *word = &record->places[place].word;

	/* SHARE.place */
	gm_put_release(word, gm_get(word) | GM_SHARE_PLACE_FIRST);
}

/* ---- names --------------------------------------------------------------- */

struct gm_share_name gm_share_name(uint64_t id)
{
	struct gm_share_name name;

	snprintf(name.text, sizeof(name.text), GM_MANAGER_KEPT "%" PRIu64, id);
	return name;
}

struct gm_share_name gm_share_part_name(uint64_t id, uint32_t index)
{
	struct gm_share_name name;

	if (index == GM_SHARE_ABOUT)
		snprintf(name.text, sizeof(name.text),
			 GM_MANAGER_KEPT "%" PRIu64 "-about", id);
	else
		snprintf(name.text, sizeof(name.text),
			 GM_MANAGER_KEPT "%" PRIu64 "-%" PRIu32, id, index);
	return name;
}

/* Only a name that we would write. */
uint64_t gm_share_name_id(const char *name, bool *ret_is_record)
{
	const char *digits = name + strlen(GM_MANAGER_KEPT);
	struct gm_share_name ours;
	uint64_t id;
	size_t n;

	*ret_is_record = false;
	if (strncmp(name, GM_MANAGER_KEPT, strlen(GM_MANAGER_KEPT)) != 0)
		return 0;
	id = strtoull(digits, NULL, 10);
	ours = gm_share_name(id);
	n = strlen(ours.text);
	if (id == 0 || id > GM_SHARE_ID_MAX ||
	    strncmp(name, ours.text, n) != 0 ||
	    (name[n] != '\0' && name[n] != '-'))
		return 0;
	*ret_is_record = name[n] == '\0';
	return id;
}
