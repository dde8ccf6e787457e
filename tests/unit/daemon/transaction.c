/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* changes: whose turn it is, who has left, and what is finished at the end. */

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/daemon/base/connection.h"
#include "agent/daemon/base/io_thread.h"
#include "agent/daemon/base/loop.h"
#include "agent/daemon/base/parts.h"
#include "agent/daemon/daemon.h"
#include "agent/daemon/map/release.h"
#include "agent/daemon/map/transaction.h"
#include "tests/support/tap.h"

#define CLIENTS 6

static struct gm_daemon *d;
static struct gm_control_server *server;
static struct gm_user users[3];
static struct gm_connection *clients[CLIENTS];
static int theirs[CLIENTS]; /* the other ends */

static char order[64]; /* a letter for each step, as it was made */
static int n_freed;
static int gate[2]; /* a pipe: a byte for each plan */
static int yard[2]; /* likewise, of heavy ones */

struct wish {
	struct gm_change change;
	char letter;
	int status; /* of check() */
};

static struct wish *wish_of(struct gm_change *change)
{
	return gm_owner(change, struct wish, change);
}

static void note(char letter)
{
	size_t n = strlen(order);

	order[n] = letter;
	order[n + 1] = '\0';
}

static int check(struct gm_change *change)
{
	note(wish_of(change)->letter);
	if (wish_of(change)->status != 0)
		return gm_why(change->why, wish_of(change)->status, "no");
	return 0;
}

static int plan(struct gm_change *change)
{
	char byte;

	(void)change;
	return read(gate[0], &byte, 1) == 1 ? 0 : -EIO;
}

static int settle(struct gm_change *change)
{
	(void)change;
	note('+');
	return 0;
}

static void answer(struct gm_change *change, struct gm_connection *c,
		   const struct gm_control *request)
{
	(void)change;
	gm_connection_reply(c, request, NULL);
}

static void free_wish(struct gm_change *change)
{
	n_freed++;
	free(wish_of(change));
}

static const struct gm_change_kind quick = { .check = check,
					     .answer = answer,
					     .free = free_wish };
static const struct gm_change_kind slow = { .check = check,
					    .plan = plan,
					    .settle = settle,
					    .answer = answer,
					    .free = free_wish };

static int plan_away(struct gm_change *change)
{
	char byte;

	(void)change;
	return read(yard[0], &byte, 1) == 1 ? 0 : -EIO;
}

static const struct gm_change_kind heavy = { .check = check,
					     .plan = plan_away,
					     .settle = settle,
					     .is_heavy = true,
					     .answer = answer,
					     .free = free_wish };

static int ask_with(int client, const struct gm_change_kind *kind, char letter,
		    int status, size_t bytes)
{
	const struct gm_control request = { .type = GM_CONTROL_RELEASE,
					    .serial = (uint32_t)letter };
	struct wish *wish = calloc(1, sizeof(*wish));

	wish->change.kind = kind;
	wish->change.bytes = bytes;
	wish->letter = letter;
	wish->status = status;
	return gm_transactions_add(clients[client], &request, &wish->change);
}

static void ask_for(int client, const struct gm_change_kind *kind, char letter,
		    int status)
{
	EQ(ask_with(client, kind, letter, status, 0), 0);
}

/* The last answer to a client: the letter it asked by and the status, or
 * nothing yet. */
static void told(int client, char letter, int status)
{
	struct gm_control reply = { .serial = 0 };

	if (letter == 0) {
		EQ(recv(theirs[client], &reply, sizeof(reply), MSG_DONTWAIT),
		   -1);
		return;
	}
	OK(recv(theirs[client], &reply, sizeof(reply), MSG_DONTWAIT) > 0);
	EQ(reply.serial, letter);
	EQ(reply.status, status);
	OK(!clients[client]->waits);
}

static void open_gate(int times)
{
	while (times-- > 0)
		OK(write(gate[1], "x", 1) == 1);
}

static void turn(void)
{
	struct epoll_event event;

	if (epoll_wait(d->loop->epoll, &event, 1, 10000) == 1) {
		struct gm_source *source = event.data.ptr;

		source->ready(source, event.events);
	}
}

/* Run until the I/O threads have no more jobs. */
static void run(void)
{
	while (!gm_transactions_drained(d))
		turn();
}

static void start_again(void)
{
	order[0] = '\0';
	n_freed = 0;
}

static void those_without_a_plan_are_answered_at_once(void)
{
	start_again();
	ask_for(0, &quick, 'a', 0);
	told(0, 'a', 0);
	ask_for(0, &quick, 'b', -EACCES);
	told(0, 'b', -EPERM);
	ask_for(0, &quick, 'c', -ENOENT);
	told(0, 'c', -ENOENT);
	STR(order, "abc");
	EQ(n_freed, 3);
}

/* Three of the first user came before one of each other. */
static void the_uid_served_least_recently_is_next(void)
{
	start_again();
	ask_for(0, &slow, 'a', 0);
	ask_for(1, &slow, 'b', 0);
	ask_for(2, &quick, 'c', -EINVAL);
	ask_for(3, &slow, 'd', 0);
	ask_for(4, &quick, 'e', 0);
	ask_for(5, &slow, 'f', 0);
	STR(order, "a");
	for (int i = 0; i < CLIENTS; i++)
		told(i, 0, 0);
	open_gate(4);
	run();
	STR(order, "a+d+f+b+ce");
	EQ(n_freed, 6);
	told(0, 'a', 0);
	told(1, 'b', 0);
	told(2, 'c', -EINVAL);
	told(3, 'd', 0);
	told(4, 'e', 0);
	told(5, 'f', 0);
}

static void who_hangs_up_before_its_turn_has_asked_for_nothing(void)
{
	start_again();
	ask_for(0, &slow, 'a', 0);
	ask_for(1, &slow, 'b', 0);
	gm_transactions_leave(clients[1]->change);
	OK(clients[1]->change == NULL);
	EQ(n_freed, 1);
	gm_transactions_leave(clients[0]->change);
	OK(clients[0]->change == NULL);
	EQ(n_freed, 1);
	open_gate(1);
	run();
	STR(order, "a+");
	EQ(n_freed, 2);
	told(0, 0, 0);
	told(1, 0, 0);
	clients[0]->waits = clients[1]->waits = false;
}

static void what_waits_is_limited_for_each_uid(void)
{
	const struct gm_control release = { .type = GM_CONTROL_RELEASE };
	const size_t most = GM_CHANGES_BYTES;

	start_again();
	EQ(ask_with(0, &slow, 'a', 0, most - 1), 0);
	EQ(ask_with(1, &slow, 'b', 0, 2), -EDQUOT);
	EQ(n_freed, 1);
	OK(clients[1]->change == NULL && !clients[1]->waits);
	/* A change that gives memory back is admitted all the same. */
	EQ(gm_release_change(clients[1], &release, GM_KIND_LAYERS, "map"), 0);
	gm_transactions_leave(clients[1]->change);
	clients[1]->waits = false;
	EQ(ask_with(1, &slow, 'c', 0, 1), 0);
	EQ(ask_with(2, &quick, 'd', 0, 1), -EDQUOT);
	EQ(ask_with(3, &slow, 'e', 0, most), 0); /* another uid's */
	gm_transactions_leave(clients[1]->change);
	clients[1]->waits = false;
	EQ(users[0].waiting_bytes, most - 1);
	open_gate(2);
	run();
	STR(order, "a+e+");
	EQ(n_freed, 5);
	told(0, 'a', 0);
	told(3, 'e', 0);
	EQ(users[0].waiting_bytes + users[1].waiting_bytes, 0);
}

static void the_heavy_hold_nobody_up(void)
{
	start_again();
	ask_for(0, &heavy, 'a', 0);
	ask_for(1, &quick, 'b', 0);
	told(1, 'b', 0);
	ask_for(2, &heavy, 'c', 0);
	ask_for(3, &slow, 'd', 0);
	open_gate(1);
	while (clients[3]->waits)
		turn();
	told(3, 'd', 0);
	told(0, 0, 0);
	OK(!gm_transactions_drained(d));
	STR(order, "abd+");
	/* One at a time, and back when no other change has its turn. */
	ask_for(4, &slow, 'e', 0);
	OK(write(yard[1], "x", 1) == 1);
	turn();
	told(0, 0, 0);
	open_gate(1);
	while (clients[0]->waits)
		turn();
	STR(order, "abd+e++c");
	OK(write(yard[1], "x", 1) == 1);
	run();
	STR(order, "abd+e++c+");
	EQ(n_freed, 5);
	told(0, 'a', 0);
	told(2, 'c', 0);
	told(4, 'e', 0);
}

static void add_own(const struct gm_change_kind *kind, char letter)
{
	struct wish *wish = calloc(1, sizeof(*wish));

	wish->change.kind = kind;
	wish->letter = letter;
	gm_transactions_add_own(d, &wish->change);
}

/* Clients can have the agent do much on its own. */
static void our_own_heavy_ones_take_turns(void)
{
	start_again();
	add_own(&heavy, 'a');
	add_own(&heavy, 'b');
	add_own(&heavy, 'c');
	ask_for(0, &heavy, 'd', 0);
	ask_for(3, &heavy, 'e', 0);
	STR(order, "a");
	add_own(&quick, 'q');
	for (int i = 0; i < 5; i++)
		OK(write(yard[1], "x", 1) == 1);
	run();
	STR(order, "aq+e+d+b+c+");
	EQ(n_freed, 6);
	told(0, 'd', 0);
	told(3, 'e', 0);
}

static void who_is_away_may_hang_up(void)
{
	start_again();
	ask_for(0, &heavy, 'a', 0);
	gm_transactions_leave(clients[0]->change);
	OK(clients[0]->change == NULL);
	EQ(n_freed, 0);
	OK(write(yard[1], "x", 1) == 1);
	run();
	STR(order, "a+");
	EQ(n_freed, 1);
	told(0, 0, 0);
	clients[0]->waits = false;
}

static void those_in_hand_are_finished_at_the_end(void)
{
	start_again();
	ask_for(2, &heavy, 'h', 0);
	ask_for(0, &slow, 'a', 0);
	ask_for(1, &slow, 'b', 0);
	open_gate(1);
	OK(write(yard[1], "x", 1) == 1);
	EQ(gm_transactions_exit(d, UINT64_MAX), 0);
	STR(order, "ha++");
	EQ(n_freed, 3);
	told(0, 'a', 0);
	told(1, 0, 0);
	told(2, 'h', 0);
	OK(gm_transactions_drained(d));
}

static void connect_all(void)
{
	/* The first uid has three connections. */
	static const int user_of[CLIENTS] = { 0, 0, 0, 1, 0, 2 };

	for (int i = 0; i < CLIENTS; i++) {
		struct gm_connection *c = calloc(1, sizeof(*c));
		int pair[2];

		OK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0,
			      pair) == 0);
		*c = (struct gm_connection){ .server = server,
					     .source = { .fd = pair[0] },
					     .user = &users[user_of[i]],
					     .busy = 1 };
		theirs[i] = pair[1];
		clients[i] = c;
	}
}

TAP_CASE()
{
	d = gm_daemon_new();
	server = calloc(1, sizeof(*server));
	if (d == NULL || server == NULL || pipe(gate) != 0 || pipe(yard) != 0)
		return 99;
	server->d = d;
	EQ(gm_loop_init(d->loop), 0);
	gm_transactions_init(d->changes);
	EQ(gm_io_thread_start(d->io_thread, d->loop, "a"), 0);
	EQ(gm_io_thread_start(d->heavy_thread, d->loop, "b"), 0);
	connect_all();
	those_without_a_plan_are_answered_at_once();
	the_uid_served_least_recently_is_next();
	who_hangs_up_before_its_turn_has_asked_for_nothing();
	what_waits_is_limited_for_each_uid();
	the_heavy_hold_nobody_up();
	our_own_heavy_ones_take_turns();
	who_is_away_may_hang_up();
	those_in_hand_are_finished_at_the_end();
	gm_loop_exit(d->loop);
	for (int i = 0; i < CLIENTS; i++) {
		close(clients[i]->source.fd);
		close(theirs[i]);
		free(clients[i]);
	}
	free(server);
	gm_daemon_free(d);
	return tap_done();
}
