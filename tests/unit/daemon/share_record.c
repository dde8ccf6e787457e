/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* share_record: what the next agent reads is what this one wrote, and a record
 * that is none is refused. */

#include "agent/daemon/sharing/share_record.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "agent/daemon/base/parts.h"
#include "agent/daemon/base/server.h"
#include "agent/daemon/daemon.h"
#include "agent/daemon/devices/rows.h"
#include "agent/daemon/sharing/export_accounting.h"
#include "agent/daemon/sharing/share.h"
#include "tests/support/dice.h"
#include "tests/support/tap.h"

#define BUFFERS 3u

static struct gm_daemon *d;
static struct gm_control_server s;
static struct gm_device device;
static struct gm_user user = { .uid = 77 };
static struct gm_export export[BUFFERS];
static struct gm_export *buffers[BUFFERS];
static uint32_t uids[] = { 5, 6, 7 };
static char fields[] = "model=tiny\n";
static struct gm_shared shared = {
	.server = &s,
	.user = &user,
	.id = 9,
	.about_bytes = 100,
	.key = { .hash = { 1, 2 }, .fields = fields, .bytes = sizeof(fields) },
	.flags = GPUMAP_SHARE_READ_ONLY,
	.n_buffers = BUFFERS,
	.n_uids = 3,
	.buffers = buffers,
	.uids = uids,
	.name = "weights",
};

static void set_the_scene(void)
{
	s.d = d;
	memset(device.facts.uuid, 0xab, sizeof(device.facts.uuid));
	d->devices->of[0] = &device;
	d->devices->n = 1;
	for (uint32_t i = 0; i < BUFFERS; i++) {
		export[i] = (struct gm_export){ .server = &s,
						.bytes = 4096u << i,
						.read_only = i > 0,
						.is_sealed = i > 1 };
		buffers[i] = &export[i];
	}
}

static void what_was_written_is_read(void)
{
	struct gm_share_record made, read;
	const struct gm_share_head *head;

	EQ(gm_share_record_make(&shared, &made), 0);
	EQ(gm_share_record_open(made.fd, &read), 0);
	head = read.head;
	EQ(head->id, 9);
	EQ(head->uid, 77);
	EQ(head->about_bytes, 100);
	EQ(head->flags, GPUMAP_SHARE_READ_ONLY);
	EQ(gm_get(&head->ended), 0);
	STR(head->name, "weights");
	EQ(memcmp(head->hash, shared.key.hash, sizeof(head->hash)), 0);
	EQ(head->n_buffers, BUFFERS);
	for (uint32_t i = 0; i < BUFFERS; i++) {
		EQ(read.parts[i].bytes, 4096u << i);
		EQ(read.parts[i].flags,
		   (i > 0 ? GM_SHARE_PART_READ_ONLY : 0) |
			   (i > 1 ? GM_SHARE_PART_SEALED : 0));
		EQ(memcmp(read.parts[i].uuid, device.facts.uuid, 16), 0);
	}
	EQ(head->n_uids, 3);
	EQ(memcmp(read.uids, uids, sizeof(uids)), 0);
	EQ(head->fields_bytes, sizeof(fields));
	STR(read.fields, fields);
	/* And later changes, too. */
	gm_put_release(&made.head->ended, 1);
	EQ(gm_get_acquire(&head->ended), 1);
	gm_share_record_close(&read);
	gm_share_record_close(&made);
	gm_share_record_close(&made);
}

/* Pid 1000 + i and start time i in place i, but for every third, which left. */
static uint32_t count_wrong(const struct gm_share_record *record, uint32_t n)
{
	uint32_t wrong = 0;

	for (uint32_t i = 0; i < record->n_places; i++) {
		const struct gm_share_place *place = &record->places[i];
		uint64_t first = i == 1 ? GM_SHARE_PLACE_FIRST : 0;
		uint64_t want = i < n && i % 3 ? (1000 + i) | first : 0;

		wrong += gm_get(&place->word) != want;
		wrong += want && (place->start != i || place->uid != i + 1);
	}
	return wrong;
}

static void holders_come_and_go(void)
{
	struct gm_share_record made, read;
	uint32_t place, wrong = 0;

	EQ(gm_share_record_make(&shared, &made), 0);
	for (uint32_t i = 0; i < 1000; i++) {
		struct gm_lineage_member process = { .pid = 1000 + i,
						     .start = i };

		wrong += gm_share_record_hold(&made, &process, i + 1, false,
					      &place) != 0;
		wrong += place != i;
	}
	EQ(wrong, 0);
	for (uint32_t i = 0; i < 1000; i += 3)
		gm_share_record_let_go(&made, i);
	gm_share_record_set_first(&made, 1);
	EQ(gm_share_record_open(made.fd, &read), 0);
	OK(read.n_places >= 1000);
	EQ(count_wrong(&read, 1000), 0);
	/* The first free place is taken again. */
	EQ(gm_share_record_hold(&made, &(struct gm_lineage_member){ .pid = 4 },
				0, true, &place),
	   0);
	EQ(place, 0);
	EQ(gm_get(&read.places[0].word), 4 | GM_SHARE_PLACE_FIRST);
	gm_share_record_close(&read);
	gm_share_record_close(&made);
}

/* ---- what is no record --------------------------------------------------- */

static int file_of(const void *bytes, size_t n)
{
	int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0 || write(fd, bytes, n) != (ssize_t)n)
		abort();
	return fd;
}

/* All that the agent looks at, so that a sanitizer sees it. */
static uint64_t touch(const struct gm_share_record *record)
{
	uint64_t sum = strlen(record->head->name);

	for (uint32_t i = 0; i < record->head->n_buffers; i++)
		sum += record->parts[i].bytes + record->parts[i].uuid[15];
	for (uint32_t i = 0; i < record->head->n_uids; i++)
		sum += record->uids[i];
	for (uint32_t i = 0; i < record->head->fields_bytes; i++)
		sum += (uint64_t)record->fields[i];
	for (uint32_t i = 0; i < record->n_places; i++)
		sum += gm_get(&record->places[i].word) + record->places[i].uid;
	return sum;
}

static int opens(const void *bytes, size_t n)
{
	struct gm_share_record read = { .fd = -1 };
	int fd = file_of(bytes, n), ret;

	if (fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK) != 0)
		abort();
	ret = gm_share_record_open(fd, &read);
	if (ret == 0)
		touch(&read);
	gm_share_record_close(&read);
	close(fd);
	return ret;
}

static void no_record_is_read_beyond_its_end(void)
{
	struct gm_share_record made;
	struct gm_share_head *head;
	uint32_t n_refused = 0, wrong = 0;
	size_t n;
	char *copy;

	EQ(gm_share_record_make(&shared, &made), 0);
	n = made.bytes;
	copy = malloc(n);
	if (!OK(copy))
		return;
	for (size_t cut = 0; cut < 400; cut++) {
		memcpy(copy, made.head, n);
		wrong += opens(copy, cut) != (cut < 280 ? -EPROTO : 0);
	}
	EQ(wrong, 0);
	for (int i = 0; i < 20000; i++) {
		memcpy(copy, made.head, n);
		for (uint64_t k = dice(4) + 1; k > 0; k--)
			copy[dice(sizeof(*head) + 40)] ^= (char)(1u << dice(8));
		n_refused += opens(copy, n) == -EPROTO;
	}
	OK(n_refused > 1000);
	OK(n_refused < 20000);
	free(copy);
	gm_share_record_close(&made);
	EQ(gm_share_record_open(STDIN_FILENO, &made), -EPROTO);
	EQ(gm_share_record_open(-1, &made), -EPROTO);
}

static void names_are_told_apart(void)
{
	bool is_record;

	STR(gm_share_name(12).text, "share-12");
	STR(gm_share_part_name(12, 3).text, "share-12-3");
	STR(gm_share_part_name(12, GM_SHARE_ABOUT).text, "share-12-about");
	EQ(gm_share_name_id("share-12", &is_record), 12);
	OK(is_record);
	EQ(gm_share_name_id("share-12-3", &is_record), 12);
	OK(!is_record);
	EQ(gm_share_name_id("share-12-about", &is_record), 12);
	OK(!is_record);
	EQ(gm_share_name_id("share-9223372036854775807", &is_record),
	   INT64_MAX);
	OK(is_record);
}

/* The next id is one more than the largest. */
static void names_of_no_share_count_as_none(void)
{
	static const char *const names[] = { "share-",
					     "share-0",
					     "share-0-1",
					     "share-012",
					     "share-+1",
					     "share--5",
					     "share- 7",
					     "share-9x",
					     "share-x",
					     "share-9223372036854775808",
					     "share-18446744073709551615",
					     "share-18446744073709551616",
					     "share-18446744073709551617-0",
					     "shares-1",
					     "mask-1",
					     "" };
	bool is_record;

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		is_record = true;
		EQ(gm_share_name_id(names[i], &is_record), 0);
		OK(!is_record);
	}
}

static int with_seals(const void *bytes, size_t n, int seals)
{
	struct gm_share_record read = { .fd = -1 };
	int fd = file_of(bytes, n), ret;

	EQ(fcntl(fd, F_ADD_SEALS, seals), 0);
	ret = gm_share_record_open(fd, &read);
	gm_share_record_close(&read);
	close(fd);
	return ret;
}

/* The agent would be killed by a record that shrinks, and writes into it. */
static void a_record_is_sealed_and_can_be_written(void)
{
	struct gm_share_record made, read = { .fd = -1 };
	char path[32];
	int fd;

	EQ(gm_share_record_make(&shared, &made), 0);
	EQ(ftruncate(made.fd, 64), -1);
	EQ(with_seals(made.head, made.bytes, 0), -EPROTO);
	EQ(with_seals(made.head, made.bytes, F_SEAL_GROW), -EPROTO);
	EQ(with_seals(made.head, made.bytes, F_SEAL_SHRINK), 0);
	EQ(with_seals(made.head, made.bytes, F_SEAL_SHRINK | F_SEAL_WRITE),
	   -EPROTO);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", made.fd);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	EQ(gm_share_record_open(fd, &read), -EPROTO);
	close(fd);
	gm_share_record_close(&made);
}

static void a_record_has_only_so_many_places(void)
{
	struct gm_lineage_member process = { .pid = 1 };
	struct gm_share_record made, read = { .fd = -1 };
	uint32_t place, n = 0;
	size_t most, bytes = sizeof(struct gm_share_place);
	int error, fd;

	EQ(gm_share_record_make(&shared, &made), 0);
	do
		error = gm_share_record_hold(&made, &process, 0, false, &place);
	while (error == 0 && ++n <= GM_SHARE_PLACES_MAX);
	EQ(error, -ENOMEM);
	EQ(n, GM_SHARE_PLACES_MAX);
	EQ(gm_share_record_open(made.fd, &read), 0);
	EQ(read.n_places, GM_SHARE_PLACES_MAX);
	gm_share_record_close(&read);
	most = made.bytes;
	fd = file_of(made.head, most);
	EQ(ftruncate(fd, (off_t)(most + bytes)), 0);
	EQ(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
	EQ(gm_share_record_open(fd, &read), -EPROTO);
	/* However long it says to be. */
	EQ(ftruncate(fd, INT64_C(1) << 45), 0);
	EQ(gm_share_record_open(fd, &read), -EPROTO);
	close(fd);
	gm_share_record_close(&made);
}

TAP_CASE()
{
	d = gm_daemon_new();
	if (!OK(d))
		return tap_done();
	set_the_scene();
	what_was_written_is_read();
	holders_come_and_go();
	no_record_is_read_beyond_its_end();
	names_are_told_apart();
	names_of_no_share_count_as_none();
	a_record_is_sealed_and_can_be_written();
	a_record_has_only_so_many_places();
	gm_daemon_free(d);
	return tap_done();
}
