/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * reserve_clients - an agent on dummy rows, and processes that reserve bytes of
 * them, wait for them, and do what they are told.
 *
 * A client requests one map, reports the answer, and then obeys: see enum
 * order.  Its end is that of its reservation or of its wait.
 */
#ifndef GM_TEST_SUPPORT_RESERVE_CLIENTS_H
#define GM_TEST_SUPPORT_RESERVE_CLIENTS_H

#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <gpumap/plan.h>

#include "tests/support/story.h"
#include "tests/support/users.h"

#define GIB      (UINT64_C(1) << 30)
#define SECOND   UINT64_C(1000000000)
#define LONG_NS  (600 * SECOND) /* of a wait that is to be ended otherwise */
#define N_ROWS   4u
#define ALL_ROWS 16u /* of one list */

/* Rows 0 to 2 are cards of 16 GiB, row 3 is a host. */
static const char reserve_node[] =
	"rows:\n"
	"- { name: A, kind: cuda, count: 3, memory: 16G,\n"
	"    compute-capability: 9.0, sm-count: 100, threads-per-sm: 2048 }\n"
	"- { name: B, kind: host, cpus: 8, memory: 64G }\n";

static const uint64_t row_bytes[N_ROWS] = { 16 * GIB, 16 * GIB, 16 * GIB,
					    64 * GIB };

static struct agent agent;
static struct gpumap *map;

/* ORDER_SHRINK: reserve 1 byte of each of the rows that were taken. */
enum order { ORDER_RELEASE = 'r', ORDER_START = 's', ORDER_SHRINK = 'm' };

/* The wish of a client.  Without @is_one it takes @bytes of each row. */
struct want {
	char name[64];
	uint32_t rows[ALL_ROWS];
	uint32_t n_rows; /* 0: any one */
	bool is_one;     /* of the rows */
	bool is_held;
	bool is_for; /* made for @owner */
	uid_t owner;
	uint64_t bytes;
	uint64_t wait_ns;
	uint64_t start_ns;
	uid_t uid; /* 0: as the test */
};

struct outcome {
	int ret;
	uint32_t n_rows; /* that were taken */
	uint32_t rows[ALL_ROWS];
	uint64_t version;
	uint64_t missing_bytes;
	uint32_t missing_row;
	uint64_t at_ns; /* when the answer came */
	char refusal[256];
};

struct client {
	pid_t pid; /* 0: there is none */
	int fd;
	struct want want;
};

static inline void reserve_configure(const char *limits)
{
	char config[512];

	snprintf(config, sizeof(config), "[host]\nenabled = no\n%s", limits);
	agent_configure_dummies(&agent, reserve_node, config);
}

/* A map of @bytes of row @row, held and waited for. */
static inline struct want want_of(const char *name, uint32_t row,
				  uint64_t bytes)
{
	struct want want = { .n_rows = 1,
			     .rows = { row },
			     .is_held = true,
			     .bytes = bytes,
			     .wait_ns = LONG_NS };

	snprintf(want.name, sizeof(want.name), "%s", name);
	return want;
}

/* Likewise of one among two rows. */
static inline struct want want_either(const char *name, uint32_t row,
				      uint32_t other, uint64_t bytes)
{
	struct want want = want_of(name, row, bytes);

	want.rows[1] = other;
	want.n_rows = 2;
	want.is_one = true;
	return want;
}

/* Request it with this process's attachment. */
static inline struct outcome reserve_now(const struct want *want)
{
	bool is_one = want->is_one || want->n_rows == 0;
	uint64_t bytes[ALL_ROWS];
	struct outcome out = { .ret = 0 };
	struct gpumap_charge charges[ALL_ROWS];
	struct gpumap_plan answer = { .size = sizeof(answer) };
	struct gpumap_plan_request request = {
		.size = sizeof(request),
		.name = want->name,
		.flags = GPUMAP_PLAN_COMMIT |
			 (want->is_held ? GPUMAP_PLAN_HELD : 0) |
			 (want->is_for ? GPUMAP_PLAN_FOR : 0),
		.setting = GPUMAP_SETTING_RESERVE,
		.rows = want->n_rows != 0 ? want->rows : NULL,
		.n_rows = want->n_rows,
		.n_layers = is_one ? 1 : want->n_rows,
		.layer_bytes = bytes,
		.owner_uid = want->owner,
		.wait_ns = want->wait_ns,
		.start_ns = want->start_ns,
	};

	for (uint32_t i = 0; i < ALL_ROWS; i++)
		bytes[i] = want->bytes;
	out.ret = gpumap_plan_make(map, &request, &answer, NULL, 0, charges,
				   ALL_ROWS);
	out.at_ns = story_now();
	out.version = answer.version;
	out.missing_bytes = answer.missing_bytes;
	out.missing_row = answer.missing_row;
	snprintf(out.refusal, sizeof(out.refusal), "%s", gpumap_refusal(map));
	for (uint32_t i = 0; out.ret == 0 && i < answer.n_charges; i++)
		out.rows[out.n_rows++] = charges[i].row;
	return out;
}

/* ---- in the client ------------------------------------------------------- */

static inline int obey(struct want *want, char order)
{
	switch (order) {
	case ORDER_RELEASE:
		return gpumap_layers_release(map, want->name);
	case ORDER_START:
		return gpumap_started(map, want->name);
	default:
		want->bytes = 1;
		want->wait_ns = want->start_ns = 0;
		return reserve_now(want).ret;
	}
}

static inline void client_live(struct want want, int fd)
{
	struct outcome out = { .ret = -ENOTCONN };
	char order;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (want.uid != 0 && !user_become(want.uid, want.uid))
		_exit(99);
	map = story_attach(&agent);
	/* An agent that has no CPU for two seconds is lost to those who wait:
	 * they ask again. */
	do
		if (map != NULL)
			out = reserve_now(&want);
	while (out.ret == -ECONNRESET);
	want.is_one = false;
	want.n_rows = out.n_rows;
	memcpy(want.rows, out.rows, sizeof(want.rows));
	if (send(fd, &out, sizeof(out), MSG_NOSIGNAL) != sizeof(out))
		_exit(1);
	while (recv(fd, &order, 1, 0) == 1) {
		int ret = obey(&want, order);

		send(fd, &ret, sizeof(ret), MSG_NOSIGNAL);
	}
	_exit(0);
}

/* ---- in the test --------------------------------------------------------- */

static inline struct client client_start(const struct want *want)
{
	struct client client = { .want = *want };
	int ends[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
		exit(99);
	fflush(stdout);
	client.pid = fork();
	if (client.pid == 0) {
		close(ends[0]);
		client_live(*want, ends[1]);
	}
	close(ends[1]);
	client.fd = ends[0];
	return client;
}

/* Its answer has come, or does so within @ms.  Says nothing. */
static inline bool client_answered(const struct client *client, int ms)
{
	struct pollfd fd = { .fd = client->fd, .events = POLLIN };

	return poll(&fd, 1, ms) == 1;
}

/* Wait for its answer. */
static inline struct outcome client_outcome(const struct client *client)
{
	struct outcome out = { .ret = -ETIME };

	if (client_answered(client, AGENT_LIMIT_MS) &&
	    recv(client->fd, &out, sizeof(out), 0) != sizeof(out))
		out.ret = -EPIPE;
	return out;
}

/* Returns what the client got for it. */
static inline int client_do(const struct client *client, enum order order)
{
	char word = (char)order;
	int ret = -EPIPE;

	if (send(client->fd, &word, 1, MSG_NOSIGNAL) != 1 ||
	    recv(client->fd, &ret, sizeof(ret), 0) != sizeof(ret))
		return -EPIPE;
	return ret;
}

static inline void client_kill(struct client *client)
{
	if (client->pid == 0)
		return;
	kill(client->pid, SIGKILL);
	waitpid(client->pid, NULL, 0);
	close(client->fd);
	client->pid = 0;
}

/* ---- what can be seen ---------------------------------------------------- */

static inline uint64_t reserved(uint32_t row)
{
	return story_device(map, row).reserved_bytes;
}

/* The line, and how many are in it; at most @n are stored. */
static inline int line_read(struct gpumap_wait_info *ret_line, size_t n)
{
	ret_line[0].size = sizeof(ret_line[0]);
	return gpumap_wait_list(map, ret_line, n);
}

/* The place of a name in the line, from 0; -1: it is not there. */
static inline int line_place(const char *name, struct gpumap_wait_info *ret)
{
	static struct gpumap_wait_info line[256];
	int n = line_read(line, 256);

	for (int i = 0; i < n && i < 256; i++) {
		if (strcmp(line[i].name, name) != 0)
			continue;
		if (ret != NULL)
			*ret = line[i];
		return i;
	}
	return -1;
}

static inline int line_length(void)
{
	struct gpumap_wait_info first;

	return line_read(&first, 1);
}

/* Wait until so many are in the line. */
static inline bool line_has(int n)
{
	uint64_t until = story_now() + STORY_LIMIT_NS;

	while (line_length() != n && story_now() < until)
		story_nap(1000);
	return line_length() == n;
}

/* Start a client and wait until it stands in the line. */
static inline struct client client_wait(const struct want *want)
{
	struct client client = client_start(want);
	uint64_t until = story_now() + STORY_LIMIT_NS;

	while (line_place(want->name, NULL) < 0 && story_now() < until &&
	       !client_answered(&client, 0))
		story_nap(1000);
	if (line_place(want->name, NULL) < 0) {
		NOTE("%s is not in the line", want->name);
		OK(false);
	}
	return client;
}

/* Start a client and wait for its answer, which must be a reservation. */
static inline struct client client_reserve(const struct want *want)
{
	struct client client = client_start(want);
	struct outcome out = client_outcome(&client);

	if (!EQ(out.ret, 0))
		NOTE("%s: %s", want->name, out.refusal);
	return client;
}

/* The holder of the map with this name, or of version 0. */
static inline struct gpumap_holder holder_of(const char *name)
{
	struct gpumap_holder holder = { .size = sizeof(holder) };
	uint32_t cursor = 0;

	while (gpumap_holder_next(map, &cursor, &holder) == 1) {
		if (strcmp(holder.name, name) == 0)
			return holder;
	}
	return (struct gpumap_holder){ .version = 0 };
}

/* All clients are gone: nothing is reserved, and none waits. */
static inline bool reserve_calms_down(void)
{
	uint64_t until = story_now() + STORY_LIMIT_NS, sum;

	do {
		sum = 0;
		for (uint32_t row = 0; row < N_ROWS; row++)
			sum += reserved(row);
		if (sum == 0 && line_length() == 0)
			return true;
		story_nap(1000);
	} while (story_now() < until);
	NOTE("%llu bytes are reserved, %d wait", (unsigned long long)sum,
	     line_length());
	return false;
}

#endif
