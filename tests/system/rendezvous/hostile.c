/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * A process that sends gpumap-sync arbitrary records, and one that writes or
 * asks as much as it can: others are served all the same.
 */

#include <sys/socket.h>
#include <sys/un.h>

#include "shm/control_sync.h"
#include "tests/support/dice.h"
#include "tests/support/process.h"
#include "tests/support/nodes/store_rig.h"
#include "tests/system/rendezvous/place.h"

#define RECORDS 4000
#define VALUES  2048 /* that a user may have */
#define ASKED   16   /* requests that a process may make at a time */
#define ASKERS  32   /* so many processes make all that a user may */
#define TTL_MS  8000 /* a lease that no load of the machine ends */

static int connect_raw(const char *path)
{
	struct sockaddr_un to = { .sun_family = AF_UNIX };
	struct timeval limit = { .tv_sec = SYNC_LIMIT_MS / 1000 };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
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

/* Write values through @a, in turn through @b, until each refuses.  Returns how
 * many were written, after it has deleted them. */
static int write_lasting(struct gpumap_sync *a, struct gpumap_sync *b)
{
	struct gpumap_sync *const to[] = { a, b };
	uint64_t revisions[VALUES];
	char key[32];
	int n = 0, ret;

	for (int i = 0; i < 2; i++) {
		do {
			snprintf(key, sizeof(key), "lasting/%d", n);
			ret = place_put(to[i], key, "v", 0, 0, &revisions[n]);
			n += ret == 0;
		} while (ret == 0 && n < VALUES);
		EQ(ret, -EDQUOT);
	}
	for (int i = 0; i < n; i++) {
		snprintf(key, sizeof(key), "lasting/%d", i);
		EQ(place_put(a, key, NULL, revisions[i], 0, &revisions[i]), 0);
	}
	return n;
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
	/* Values that are gone count until the watch tells of it. */
	OK(n > VALUES - 100 && n <= VALUES);
	NOTE("%d values", n);
	/* Those that are to last count with them, on other nodes too. */
	n = write_lasting(a, b);
	NOTE("%d more", n);
	gpumap_sync_close(a);
	OK(place_sees(b, "many/0", ""));
	ret = -EDQUOT;
	for (int i = 0; i < 6000 && ret == -EDQUOT; i++) {
		ret = place_put(b, "more", "v", 0, GPUMAP_VALUE_EPHEMERAL,
				&revision);
		story_nap(5000);
	}
	EQ(ret, 0);
	gpumap_sync_close(b);
}

struct value_request {
	struct gm_control header;
	char key[128];
};

/* The status of the next reply, and whose it is; 1: there is none. */
static int hear(int fd, uint32_t *ret_serial)
{
	static char record[GM_SYNC_BYTES_MAX];
	struct gm_control header;

	if (recv(fd, record, sizeof(record), 0) < (ssize_t)sizeof(header))
		return 1;
	memcpy(&header, record, sizeof(header));
	*ret_serial = header.serial;
	return header.status;
}

static void send_request(int fd, uint16_t type, const char *key,
			 uint32_t serial)
{
	struct value_request request = {
		.header = { .magic = GM_CONTROL_MAGIC,
			    .bytes = sizeof(request),
			    .version = GM_CONTROL_VERSION,
			    .type = type,
			    .serial = serial,
			    .body = sizeof(request.key) },
	};

	snprintf(request.key, sizeof(request.key), "%s", key);
	EQ(send(fd, &request, sizeof(request), MSG_NOSIGNAL), sizeof(request));
}

/* A process that has said HELLO.  Returns its socket. */
static int connect_known(const struct place *place, int node)
{
	struct gm_control hello = { .magic = GM_CONTROL_MAGIC,
				    .bytes = sizeof(hello),
				    .version = GM_CONTROL_VERSION,
				    .type = GM_SYNC_HELLO };
	int fd = connect_raw(place->nodes[node].socket);
	uint32_t serial;

	EQ(send(fd, &hello, sizeof(hello), MSG_NOSIGNAL), sizeof(hello));
	EQ(hear(fd, &serial), 0);
	return fd;
}

/* Returns how many replies come, of those that are to come. */
static int count_answers(int fd)
{
	uint32_t serial;
	int n = 0;

	while (n < ASKED && hear(fd, &serial) <= 0)
		n++;
	return n;
}

/* As many requests that read much as a user may make.  Returns how many were
 * answered. */
static int ask_for_much(struct place *place)
{
	int fds[ASKERS], n_answers = 0;

	for (int i = 0; i < ASKERS; i++) {
		fds[i] = connect_known(place, 1);
		for (uint32_t n = 1; n <= ASKED; n++)
			send_request(fds[i],
				     i % 2 == 0 ? GM_SYNC_VALUE_LIST
						: GM_SYNC_VALUE_GET,
				     "large", n);
	}
	for (int i = 0; i < ASKERS; i++) {
		n_answers += count_answers(fds[i]);
		close(fds[i]);
	}
	return n_answers;
}

/* They delay other requests, but not the lease, for as long as it is valid. */
static void requests_cost_no_lease(struct place *place)
{
	enum { LARGE = 500 };
	struct gpumap_sync *a = place_connect(place, 0);
	struct gpumap_sync *b = place_connect(place, 1);
	static char value[GPUMAP_VALUE_BYTES_MAX + 1];
	uint64_t revision = 0, since_ns;
	int n_written = 0;
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
	while (story_now() - since_ns < TTL_MS * UINT64_C(1000000))
		EQ(ask_for_much(place), ASKERS * ASKED);
	for (int i = 0; i < PLACE_NODES; i++)
		EQ(sync_node_count_log(&place->nodes[i], "lease_lost"), 0);
	gpumap_sync_close(a);
	OK(place_sees(b, "large0", ""));
	gpumap_sync_close(b);
}

/* The oldest end where a process begins more. */
static void a_process_has_few_waits(struct place *place)
{
	enum { WAITS = 8 };
	struct {
		struct gm_control header;
		struct gm_sync_value_wait body;
	} request = { .header = { .magic = GM_CONTROL_MAGIC,
				  .bytes = sizeof(request),
				  .version = GM_CONTROL_VERSION,
				  .type = GM_SYNC_VALUE_WAIT,
				  .body = sizeof(request.body) },
		      .body = { .prefix = "quiet/",
				.timeout_ns = UINT64_MAX } };
	struct gm_sync_value_wait_reply reply = { .seen = 0 };
	struct gpumap_sync *a = place_connect(place, 0);
	int fd = connect_known(place, 0);
	char record[sizeof(request.header) + sizeof(reply)];
	uint64_t revision = 0;
	uint32_t serial = 0;

	EQ(send(fd, &request, sizeof(request), MSG_NOSIGNAL), sizeof(request));
	EQ(recv(fd, record, sizeof(record), 0), sizeof(record));
	memcpy(&reply, record + sizeof(request.header), sizeof(reply));
	request.body.seen = reply.seen;
	for (uint32_t i = 1; i <= WAITS + 2; i++) {
		request.header.serial = i;
		EQ(send(fd, &request, sizeof(request), MSG_NOSIGNAL),
		   sizeof(request));
	}
	for (uint32_t i = 1; i <= 2; i++) {
		EQ(hear(fd, &serial), -ECANCELED);
		EQ(serial, i);
	}
	close(fd);
	/* The next process does not hear what this one waited for. */
	fd = connect_known(place, 0);
	EQ(place_put(a, "quiet/x", "v", 0, 0, &revision), 0);
	OK(place_sees(a, "quiet/x", "v"));
	send_request(fd, GM_SYNC_VALUE_GET, "quiet/x", 99);
	EQ(hear(fd, &serial), 0);
	EQ(serial, 99);
	close(fd);
	EQ(place_put(a, "quiet/x", NULL, revision, 0, &revision), 0);
	gpumap_sync_close(a);
}

/* Requests that the store does not answer are counted, by client and by user.
 * Those that were taken are answered. */
static void nobody_asks_without_end(struct place *place)
{
	int fds[ASKERS + 1], n_answered = 0;
	uint32_t serial = 0;

	if (place->where.directory[0] != '\0')
		return; /* files are always read */
	for (int i = 0; i <= ASKERS; i++)
		fds[i] = connect_known(place, 0);
	OK(process_stop(place->where.server.pid));
	for (int i = 0; i < ASKERS; i++) {
		for (uint32_t n = 1; n <= ASKED + 1; n++)
			send_request(fds[i], GM_SYNC_VALUE_GET, "x/y", n);
		EQ(hear(fds[i], &serial), -EDQUOT);
		EQ(serial, ASKED + 1);
	}
	send_request(fds[ASKERS], GM_SYNC_VALUE_GET, "x/y", 1);
	EQ(hear(fds[ASKERS], &serial), -EDQUOT);
	kill(place->where.server.pid, SIGCONT);
	for (int i = 0; i < ASKERS; i++)
		n_answered += count_answers(fds[i]);
	EQ(n_answered, ASKERS * ASKED);
	send_request(fds[ASKERS], GM_SYNC_VALUE_GET, "x/y", 2);
	EQ(hear(fds[ASKERS], &serial), 0);
	for (int i = 0; i <= ASKERS; i++)
		close(fds[i]);
}

/* All users together have half of what a store may have. */
static void all_have_no_more_than_half(struct place *place)
{
	struct gpumap_sync *a = place_connect(place, 0);
	struct gm_store *store;
	char key[48];
	int n = 0;

	if (place->where.directory[0] != '\0' || a == NULL) {
		gpumap_sync_close(a);
		return; /* no quicker there, and no other code */
	}
	store = sync_place_open(&place->where);
	for (uint32_t i = 0; i < GM_STORE_KEYS / 2; i++) {
		snprintf(key, sizeof(key), "cohorts/u1/%u", i);
		n += rig_put(store, key, "v", NULL, NULL) == 0;
	}
	EQ(n, GM_STORE_KEYS / 2);
	gm_store_close(store);
	n = write_lasting(a, a);
	NOTE("%d values, and half", n);
	OK(n < VALUES - 100);
	gpumap_sync_close(a);
}

static void tell(struct place *place)
{
	any_record_is_survived(place);
	nobody_asks_without_end(place);
	a_process_has_few_waits(place);
	a_user_has_no_more_than_its_share(place);
	requests_cost_no_lease(place);
	all_have_no_more_than_half(place);
}

TAP_CASE()
{
	place_each(tell, TTL_MS);
	return tap_done();
}
