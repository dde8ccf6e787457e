/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * connection: the order in which records of many connections are taken, and how
 * often gpumapd looks at a client that does not read.  The test runs the loop
 * turn by turn, and plays the handlers.
 */

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "agent/common/node_clock.h"
#include "agent/daemon/base/connection.h"
#include "agent/daemon/base/parts.h"
#include "agent/daemon/config.h"
#include "agent/daemon/daemon.h"
#include "tests/support/standing_clock.h"
#include "tests/support/tap.h"

#define CROWD       8u  /* connections of one uid */
#define RECORDS     40u /* of each */
#define LIMIT_S     30  /* against hanging */

#define TYPE_PLAIN  1
#define TYPE_FD     2
#define TYPE_COSTLY 3
#define COST_NS     100000

static struct gm_daemon *d;
static struct gm_control_server server;

struct peer {
	struct gm_connection *c;
	int socket;
	uint32_t n_taken;
};

static struct peer peers[CROWD + 1];

/* ---- handlers ------------------------------------------------------------ */

static void count(const struct gm_connection *c)
{
	for (uint32_t i = 0; i <= CROWD; i++)
		peers[i].n_taken += peers[i].c == c;
}

static int handle_plain(struct gm_connection *c, const struct gm_request *r)
{
	(void)r;
	count(c);
	return 0;
}

static int handle_fd(struct gm_connection *c, const struct gm_request *r)
{
	int fd = STDOUT_FILENO;

	count(c);
	gm_connection_reply(c, &r->header,
			    &(struct gm_reply){ .fds = &fd, .n_fds = 1 });
	return 0;
}

static int handle_costly(struct gm_connection *c, const struct gm_request *r)
{
	(void)r;
	count(c);
	standing_ns += COST_NS;
	return 0;
}

static const struct gm_request_kind *kind_of(uint16_t type)
{
	static const struct gm_request_kind kinds[] = {
		[TYPE_PLAIN] = { .has_tail = true, .handle = handle_plain },
		[TYPE_FD] = { .handle = handle_fd },
		[TYPE_COSTLY] = { .handle = handle_costly },
	};

	return type < sizeof(kinds) / sizeof(kinds[0]) && kinds[type].handle
		       ? &kinds[type]
		       : NULL;
}

static bool never(struct gm_connection *c, const struct gm_request *r,
		  int status, uint64_t limit_ns)
{
	(void)c;
	(void)r;
	(void)status;
	(void)limit_ns;
	return false;
}

/* ---- one turn ------------------------------------------------------------ */

static void stop(struct gm_loop *loop)
{
	gm_loop_stop(loop);
}

static void turn(void)
{
	standing_ns += standing_ns != 0 ? 1000000 : 0;
	d->loop->turned = stop;
	EQ(gm_loop_run(d->loop), 0);
	d->loop->stop = false;
}

/* A client of @uid, as far as turns go. */
static void come(struct peer *peer, uid_t uid)
{
	struct gm_connection *c;
	int ends[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK,
		       0, ends) != 0 ||
	    gm_connection_open(&server, ends[0], false) != 0)
		exit(99);
	c = TAILQ_LAST(&server.silent, gm_connection_list);
	TAILQ_REMOVE(&server.silent, c, entry);
	TAILQ_INSERT_TAIL(&server.known, c, entry);
	c->said_hello = true;
	c->user->connections--;
	gm_user_drop(&server, c->user);
	c->user = gm_user_hold(&server, uid);
	c->user->connections++;
	*peer = (struct peer){ .c = c, .socket = ends[1] };
}

static void send_records(const struct peer *peer, uint16_t type, uint32_t n,
			 uint32_t tail_bytes)
{
	static char room[1 << 17];
	struct gm_control header = { .magic = GM_CONTROL_MAGIC,
				     .bytes = (uint32_t)sizeof(header) +
					      tail_bytes,
				     .version = GM_CONTROL_VERSION,
				     .type = type };

	memcpy(room, &header, sizeof(header));
	for (uint32_t i = 0; i < n; i++)
		if (send(peer->socket, room, header.bytes, 0) < 0)
			exit(99);
}

static uint32_t taken_of_crowd(void)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < CROWD; i++)
		n += peers[i].n_taken;
	return n;
}

/* ---- tests --------------------------------------------------------------- */

static void all_come(void)
{
	standing_ns = gm_node_clock_now();
	for (uint32_t i = 0; i < CROWD; i++)
		come(&peers[i], 1000);
	come(&peers[CROWD], 2000);
}

static void all_leave(void)
{
	standing_ns = 0;
	for (uint32_t i = 0; i <= CROWD; i++)
		gm_connection_drop(peers[i].c, GM_DROP_AGENT, NULL);
	for (uint32_t i = 0; i <= CROWD; i++)
		close(peers[i].socket);
	OK(TAILQ_EMPTY(&server.known));
	OK(TAILQ_EMPTY(&server.ready));
	gm_user_forget_idle(&server, UINT64_MAX);
	OK(TAILQ_EMPTY(&server.users));
}

/* In each turn of the loop a uid has 16 records, however many connections it
 * has, and its connections have as many of them as each other. */
static void uids_take_turns(void)
{
	all_come();
	for (uint32_t i = 0; i < CROWD; i++)
		send_records(&peers[i], TYPE_PLAIN, RECORDS, 0);
	send_records(&peers[CROWD], TYPE_PLAIN, 20, 0);
	for (uint32_t n = 1; n <= CROWD * RECORDS / 16; n++) {
		turn();
		EQ(taken_of_crowd(), 16 * n);
		EQ(peers[0].n_taken, 16 * n / CROWD);
		EQ(peers[CROWD].n_taken, n == 1 ? 16 : 20);
	}
	all_leave();
}

/* Long records count by their bytes. */
static void bytes_count(void)
{
	all_come();
	for (uint32_t i = 0; i < CROWD; i++)
		send_records(&peers[i], TYPE_PLAIN, 1, 100000);
	send_records(&peers[CROWD], TYPE_PLAIN, 2, 0);
	turn();
	EQ(taken_of_crowd(), 1);
	EQ(peers[CROWD].n_taken, 2);
	all_leave();
}

/* A uid's turn ends after 200 us, too, and another uid has its own. */
static void time_counts(void)
{
	all_come();
	for (uint32_t i = 0; i < CROWD; i++)
		send_records(&peers[i], TYPE_COSTLY, 2, 0);
	send_records(&peers[CROWD], TYPE_PLAIN, 20, 0);
	turn();
	EQ(taken_of_crowd(), 2);
	EQ(peers[CROWD].n_taken, 16);
	turn();
	EQ(taken_of_crowd(), 4);
	EQ(peers[CROWD].n_taken, 20);
	all_leave();
}

/* A uid that has ended is found in one turn. */
static void ends_are_no_records(void)
{
	all_come();
	for (uint32_t i = 0; i <= CROWD; i++)
		close(peers[i].socket);
	turn();
	OK(TAILQ_EMPTY(&server.known));
	standing_ns = 0;
}

static void reads_reply(const struct peer *peer)
{
	char control[256], room[256];
	struct iovec part = { room, sizeof(room) };
	struct msghdr message = { .msg_iov = &part,
				  .msg_iovlen = 1,
				  .msg_control = control,
				  .msg_controllen = sizeof(control) };
	struct cmsghdr *head;
	int fd = -1;

	if (!OK(recvmsg(peer->socket, &message, MSG_CMSG_CLOEXEC) > 0))
		return;
	head = CMSG_FIRSTHDR(&message);
	if (OK(head != NULL)) {
		memcpy(&fd, CMSG_DATA(head), sizeof(fd));
		close(fd);
	}
}

/* The rest of a client that does not read doubles, from 20 ms to a second. */
static void unread_replies_are_looked_at_less_often(void)
{
	const uint64_t ms = 1000000;
	struct peer *peer = &peers[0];
	uint64_t want = 20 * ms;

	come(peer, 1000);
	send_records(peer, TYPE_FD, 3, 0);
	turn();
	EQ(peer->n_taken, 1);
	for (int i = 0; i < 8; i++) {
		EQ(peer->c->full_ns, want);
		OK(peer->c->rest.due_ns != 0);
		want = 2 * want < 1000 * ms ? 2 * want : 1000 * ms;
		gm_timer_set(d->loop, &peer->c->rest, 1);
		turn(); /* the rest ends */
		turn(); /* and another begins */
	}
	reads_reply(peer);
	gm_timer_set(d->loop, &peer->c->rest, 1);
	turn();
	turn();
	EQ(peer->n_taken, 2);
	EQ(peer->c->full_ns, 20 * ms);
	gm_connection_drop(peer->c, GM_DROP_AGENT, NULL);
	close(peer->socket);
}

TAP_CASE()
{
	d = gm_daemon_new();
	if (!OK(d && gm_loop_init(d->loop) == 0))
		return tap_done();
	alarm(LIMIT_S);
	d->server = &server;
	server.d = d;
	server.kind_of = kind_of;
	server.waits_for_room = never;
	d->config->connections = d->config->connections_per_uid = 2 * CROWD;
	TAILQ_INIT(&server.silent);
	TAILQ_INIT(&server.known);
	TAILQ_INIT(&server.users);
	gm_connection_init_turns(&server);

	uids_take_turns();
	bytes_count();
	time_counts();
	ends_are_no_records();
	unread_replies_are_looked_at_less_often();

	gm_loop_exit(d->loop);
	gm_daemon_free(d);
	return tap_done();
}
