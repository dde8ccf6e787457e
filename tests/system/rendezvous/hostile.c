/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * A process that sends gpumap-sync arbitrary records, and one that writes
 * as many values as it can: others are served all the same.
 */

#include <sys/socket.h>
#include <sys/un.h>

#include "shm/control_sync.h"
#include "tests/support/dice.h"
#include "tests/system/rendezvous/place.h"

#define RECORDS 4000
#define VALUES  2048 /* that a user may have */
#define ASKED   16   /* requests that a process may make at a time */

static int connect_raw(const char *path)
{
	struct sockaddr_un to = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	snprintf(to.sun_path, sizeof(to.sun_path), "%s", path);
	if (fd >= 0 && connect(fd, (struct sockaddr *)&to, sizeof(to)) != 0) {
		close(fd);
		fd = -1;
	}
	return fd;
}

/* A record with a header that is right more often than not.  Returns its
 * bytes. */
static size_t make_record(char *record, size_t room, bool is_hello)
{
	static const char *const keys[] = { "x/y", "", "/", "x//y", "../x" };
	struct gm_control header = { .magic = GM_CONTROL_MAGIC,
				     .version = GM_CONTROL_VERSION,
				     .type = (uint16_t)dice(12),
				     .serial = (uint32_t)dice(1u << 16) };
	size_t bytes = sizeof(header) + dice(dice(8) == 0 ? room : 300);

	if (bytes > room)
		bytes = room;
	if (is_hello) {
		header.type = GM_SYNC_HELLO;
		bytes = sizeof(header);
	}
	for (size_t i = sizeof(header); i < bytes; i++)
		record[i] = dice(4) == 0 ? (char)dice(256) : '\0';
	if (bytes >= sizeof(header) + 16 && dice(2) == 0)
		strcpy(record + sizeof(header), keys[dice(5)]);
	header.bytes = (uint32_t)bytes;
	header.body = (uint32_t)dice(bytes - sizeof(header) + 1);
	if (dice(40) == 0)
		((char *)&header)[dice(sizeof(header))] ^= (char)dice(256);
	memcpy(record, &header, sizeof(header));
	return bytes;
}

static void any_record_is_survived(struct place *place)
{
	struct gpumap_sync *a = place_connect(place, 0);
	static char record[GM_SYNC_BYTES_MAX + 64];
	int fd = -1, n_connections = 0;
	uint64_t revision = 0;

	if (a == NULL)
		return;
	for (int i = 0; i < RECORDS; i++) {
		bool is_new = fd < 0;
		size_t bytes;

		if (is_new) {
			fd = connect_raw(place->nodes[0].socket);
			n_connections++;
		}
		if (fd < 0)
			break;
		bytes = make_record(record, sizeof(record), is_new);
		if (send(fd, record, bytes, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 ||
		    dice(50) == 0) {
			close(fd);
			fd = -1;
		}
		while (fd >= 0 && recv(fd, record, 16, MSG_DONTWAIT) > 0)
			;
	}
	if (fd >= 0)
		close(fd);
	OK(n_connections > 50);
	EQ(place_put(a, "after", "all", 0, 0, &revision), 0);
	STR(place_text(a, "after"), "all");
	EQ(place_put(a, "after", NULL, revision, 0, &revision), 0);
	gpumap_sync_close(a);
}

/* All ephemeral: they are gone with the process, and there is room again. */
static void a_user_has_no_more_than_its_share(struct place *place)
{
	struct gpumap_sync *a = place_connect(place, 0);
	struct gpumap_sync *b = place_connect(place, 1);
	uint64_t revision = 0;
	char key[32];
	int n = 0, ret;

	if (a == NULL || b == NULL)
		return;
	do {
		snprintf(key, sizeof(key), "many/%d", n);
		ret = place_put(a, key, "v", 0, GPUMAP_VALUE_EPHEMERAL,
				&revision);
		n += ret == 0;
	} while (ret == 0 && n < 2 * VALUES);
	EQ(ret, -EDQUOT);
	/* Values that the watch has not told of do not count yet. */
	OK(n > VALUES - 100 && n <= VALUES + 16);
	NOTE("%d values", n);
	gpumap_sync_close(a);
	OK(place_sees(b, "many/0", ""));
	ret = -EDQUOT;
	for (int i = 0; i < 3000 && ret == -EDQUOT; i++) {
		ret = place_put(b, "more", "v", 0, GPUMAP_VALUE_EPHEMERAL,
				&revision);
		story_nap(5000);
	}
	EQ(ret, 0);
	gpumap_sync_close(b);
}

/* Send as many requests as a process may, and read no answer. */
static int ask_much(const char *path, uint16_t type, const char *key)
{
	struct {
		struct gm_control header;
		char key[128];
	} record = { .header = { .magic = GM_CONTROL_MAGIC,
				 .version = GM_CONTROL_VERSION,
				 .type = GM_SYNC_HELLO,
				 .bytes = sizeof(record.header) } };
	int fd = connect_raw(path);

	send(fd, &record, sizeof(record.header), MSG_NOSIGNAL);
	record.header.type = type;
	record.header.bytes = sizeof(record);
	record.header.body = sizeof(record.key);
	snprintf(record.key, sizeof(record.key), "%s", key);
	for (int i = 0; i < ASKED; i++)
		send(fd, &record, sizeof(record), MSG_NOSIGNAL);
	return fd;
}

/* To HELLO, too. */
static int count_answers(int fd)
{
	static char record[GM_SYNC_BYTES_MAX];
	int n = 0;

	while (n <= ASKED && recv(fd, record, sizeof(record), 0) > 0)
		n++;
	return n;
}

/* Requests that read much, as many as a user may make, delay other requests,
 * but not the lease. */
static void requests_cost_no_lease(struct place *place)
{
	enum { ASKERS = 32, LARGE = 500 };
	struct gpumap_sync *a = place_connect(place, 0);
	struct gpumap_sync *b = place_connect(place, 1);
	static char value[GPUMAP_VALUE_BYTES_MAX + 1];
	uint64_t revision = 0, since_ns;
	int fds[ASKERS], n_written = 0, n_answers = 0;
	char key[32];

	if (a == NULL || b == NULL)
		return;
	memset(value, 'v', GPUMAP_VALUE_BYTES_MAX);
	for (int i = 0; i < LARGE; i++) {
		snprintf(key, sizeof(key), "large%d", i);
		n_written += place_put(a, key, value, 0, GPUMAP_VALUE_EPHEMERAL,
				       &revision) == 0;
	}
	EQ(n_written, LARGE);
	since_ns = story_now();
	for (int i = 0; i < ASKERS; i++)
		fds[i] = ask_much(place->nodes[1].socket,
				  i % 2 == 0 ? GM_SYNC_VALUE_LIST
					     : GM_SYNC_VALUE_GET,
				  "large");
	for (int i = 0; i < ASKERS; i++) {
		n_answers += count_answers(fds[i]);
		close(fds[i]);
	}
	EQ(n_answers, ASKERS * (ASKED + 1));
	NOTE("%d requests took %u ms", ASKERS * ASKED,
	     (unsigned int)((story_now() - since_ns) / 1000000));
	for (int i = 0; i < PLACE_NODES; i++)
		EQ(sync_node_count_log(&place->nodes[i], "lease_lost"), 0);
	gpumap_sync_close(a);
	OK(place_sees(b, "large0", ""));
	gpumap_sync_close(b);
}

static void tell(struct place *place)
{
	any_record_is_survived(place);
	a_user_has_no_more_than_its_share(place);
	requests_cost_no_lease(place);
}

TAP_CASE()
{
	place_each(tell);
	return tap_done();
}
