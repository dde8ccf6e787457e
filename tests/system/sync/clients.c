/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Processes that connect to gpumap-sync: those that keep to the rules, and
 * those that do not.  There is no agent, and no store.
 */

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "agent/sync/server.h"
#include "gpumap.h"
#include "shm/control_sync.h"
#include "tests/support/story.h"
#include "tests/support/users.h"
#include "tests/support/nodes/sync_nodes.h"
#include "tests/support/tap.h"

#define OTHER 54333

static struct sync_node node;
static struct sync_place place;

struct answer {
	struct gm_control header;
	char rest[1024];
};

static int call_up(void)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	struct timeval limit = { .tv_sec = SYNC_LIMIT_MS / 1000 };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	snprintf(at.sun_path, sizeof(at.sun_path), "%s", node.socket);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	if (connect(fd, (const struct sockaddr *)&at, sizeof(at)) != 0) {
		close(fd);
		return -errno;
	}
	return fd;
}

/* A request without a body. */
static struct gm_control request_of(uint16_t type, uint32_t serial)
{
	return (struct gm_control){ .magic = GM_CONTROL_MAGIC,
				    .bytes = sizeof(struct gm_control),
				    .version = GM_CONTROL_VERSION,
				    .type = type,
				    .serial = serial };
}

/* Returns the bytes of the answer; 0: it has hung up. */
static ssize_t hear(int fd, struct answer *ret_answer)
{
	ssize_t n = recv(fd, ret_answer, sizeof(*ret_answer), 0);

	return n < 0 && errno == ECONNRESET ? 0 : n;
}

static ssize_t ask(int fd, const void *record, size_t bytes,
		   struct answer *ret_answer)
{
	if (send(fd, record, bytes, MSG_NOSIGNAL) != (ssize_t)bytes)
		return -errno;
	return hear(fd, ret_answer);
}

static int say_hello(void)
{
	struct gm_control hello = request_of(GM_SYNC_HELLO, 7);
	struct answer answer = { 0 };
	int fd = call_up();

	OK(ask(fd, &hello, sizeof(hello), &answer) > 0);
	return fd;
}

/* ---- those that keep to the rules ---------------------------------------- */

static void hello_says_where_it_is(void)
{
	struct gm_control hello = request_of(GM_SYNC_HELLO, 7);
	struct gm_sync_hello_reply reply;
	struct answer answer = { 0 };
	int fd = call_up();

	EQ(ask(fd, &hello, sizeof(hello), &answer),
	   sizeof(answer.header) + sizeof(reply));
	EQ(answer.header.serial, 7);
	EQ(answer.header.status, 0);
	memcpy(&reply, answer.rest, sizeof(reply));
	STR(reply.cluster, SYNC_CLUSTER);
	STR(reply.node, "lone");
	EQ(reply.lease_ns, SYNC_TTL_MS * UINT64_C(1000000));
	EQ(reply.version, GPUMAP_VERSION);
	close(fd);
}

static void an_unknown_request_is_refused(void)
{
	struct gm_control unknown = request_of(999, 8);
	struct answer answer = { 0 };
	int fd = say_hello();

	EQ(ask(fd, &unknown, sizeof(unknown), &answer),
	   sizeof(answer.header) + sizeof(struct gm_refusal));
	EQ(answer.header.serial, 8);
	EQ(answer.header.status, -EOPNOTSUPP);
	OK(strstr(answer.rest, "update") != NULL);
	/* The connection goes on. */
	EQ(ask(fd, &unknown, sizeof(unknown), &answer),
	   sizeof(answer.header) + sizeof(struct gm_refusal));
	close(fd);
}

/* ---- those that do not --------------------------------------------------- */

/* Send a record over a new connection, after HELLO or not; it ends. */
static void ends(bool says_hello, const void *record, size_t bytes)
{
	struct answer answer;
	int fd = says_hello ? say_hello() : call_up();

	EQ(ask(fd, record, bytes, &answer), 0);
	close(fd);
}

static void what_is_no_request_ends_the_client(void)
{
	static char longest[GM_SYNC_BYTES_MAX + 1];
	struct gm_control bad = request_of(999, 1);

	ends(false, &bad, sizeof(bad)); /* HELLO comes first */
	bad = request_of(GM_SYNC_HELLO, 1);
	ends(true, &bad, sizeof(bad)); /* and once */
	bad = request_of(999, 1);
	ends(true, &bad, sizeof(bad) - 1);
	ends(true, &bad, 1);
	bad.magic++;
	ends(true, &bad, sizeof(bad));
	bad = request_of(999, 1);
	bad.version++;
	ends(true, &bad, sizeof(bad));
	bad = request_of(999, 1);
	bad.bytes++;
	ends(true, &bad, sizeof(bad));
	bad = request_of(999, 1);
	bad.body = 1;
	ends(true, &bad, sizeof(bad));
	bad = request_of(999, 1);
	bad.bytes = sizeof(longest);
	memcpy(longest, &bad, sizeof(bad));
	ends(true, longest, sizeof(longest));
}

static void descriptors_are_not_taken(void)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control = { .bytes = { 0 } };
	struct gm_control request = request_of(999, 1);
	struct iovec record = { &request, sizeof(request) };
	struct msghdr message = { .msg_iov = &record,
				  .msg_iovlen = 1,
				  .msg_control = control.bytes,
				  .msg_controllen = sizeof(control.bytes) };
	struct cmsghdr *head = CMSG_FIRSTHDR(&message);
	int before = story_holds_at_rest(node.pid), pair[2], fd = say_hello();
	struct answer answer;
	char byte;

	EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	head->cmsg_level = SOL_SOCKET;
	head->cmsg_type = SCM_RIGHTS;
	head->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(head), &pair[1], sizeof(int));
	if (sendmsg(fd, &message, MSG_NOSIGNAL) < 0) {
		EQ(errno, EPERM); /* the kernel refuses them */
	} else {
		EQ(hear(fd, &answer), 0);
	}
	close(fd);
	close(pair[1]);
	/* The last copy is closed with the connection. */
	EQ(read(pair[0], &byte, 1), 0);
	close(pair[0]);
	if (story_sees(node.pid, 1))
		OK(story_gives_back(node.pid, before));
}

/* Replies that the client does not read fill the socket. */
static void a_client_that_does_not_read_is_ended(void)
{
	struct gm_control unknown = request_of(999, 8);
	int fd = say_hello(), n = 0;

	while (n < 1000000 &&
	       send(fd, &unknown, sizeof(unknown), MSG_NOSIGNAL) > 0)
		n++;
	OK(errno == EPIPE || errno == ECONNRESET);
	NOTE("it was ended after %d requests", n);
	OK(sync_node_wait_log(&node, "it does not read its replies"));
	close(fd);
}

static void a_silent_client_is_ended(void)
{
	struct answer answer;
	int fd = call_up();

	EQ(hear(fd, &answer), 0);
	OK(sync_node_wait_log(&node, "it has said nothing for five seconds"));
	close(fd);
}

static void a_crowd_is_refused(void)
{
	static int fds[GM_SYNC_CLIENTS_OF_UID + 1];
	struct gm_control hello = request_of(GM_SYNC_HELLO, 7);
	struct answer answer = { 0 };

	for (uint32_t i = 0; i < GM_SYNC_CLIENTS_OF_UID; i++) {
		fds[i] = call_up();
		ask(fds[i], &hello, sizeof(hello), &answer);
		if (answer.header.status != 0)
			EQ(answer.header.status, 0);
	}
	fds[GM_SYNC_CLIENTS_OF_UID] = call_up();
	OK(ask(fds[GM_SYNC_CLIENTS_OF_UID], &hello, sizeof(hello), &answer) >
	   0);
	EQ(answer.header.status, -EUSERS);
	EQ(hear(fds[GM_SYNC_CLIENTS_OF_UID], &answer), 0);
	for (uint32_t i = 0; i <= GM_SYNC_CLIENTS_OF_UID; i++)
		close(fds[i]);
	close(say_hello());
}

static int say_hello_as_other(void)
{
	struct gm_control hello = request_of(GM_SYNC_HELLO, 7);
	struct answer answer = { 0 };
	int fd = call_up();

	return fd < 0 || ask(fd, &hello, sizeof(hello), &answer) <= 0 ||
	       answer.header.status != 0;
}

/* A user who makes connections without end is refused, and no other user. */
static void a_crowd_is_in_nobodys_way(void)
{
	enum { CROWD = GM_SYNC_CLIENTS + 300 };
	static int fds[CROWD];

	if (getuid() != 0) {
		SKIP(1, "only root becomes another user");
		return;
	}
	for (int i = 0; i < CROWD; i++)
		fds[i] = call_up();
	EQ(user_run(OTHER, say_hello_as_other), 0);
	for (int i = 0; i < CROWD; i++)
		close(fds[i]);
	close(say_hello());
}

/* ---- the socket ---------------------------------------------------------- */

static void one_process_has_the_socket(void)
{
	pid_t first = node.pid;
	struct stat st;

	EQ(stat(node.socket, &st), 0);
	EQ(st.st_mode & 07777, 0666);
	node.pid = 0;
	sync_node_spawn(&node, &place);
	EQ(sync_node_kill(&node, 0), 3);
	node.pid = first;
	close(say_hello());
	/* A killed one leaves its socket to the next. */
	EQ(sync_node_kill(&node, SIGKILL), -SIGKILL);
	EQ(call_up(), -ECONNREFUSED);
	sync_node_spawn(&node, &place);
	OK(sync_node_wait_log(&node, "event=ready"));
	close(say_hello());
}

/* ---- the service manager ------------------------------------------------- */

static char manager_path[108];

static void name_manager(void)
{
	setenv("NOTIFY_SOCKET", manager_path, 1);
	setenv("WATCHDOG_USEC", "2000000", 1);
}

/* The next state that is told; "" after the limit. */
static const char *told(int manager)
{
	static char state[128];
	ssize_t n = recv(manager, state, sizeof(state) - 1, 0);

	state[n > 0 ? n : 0] = '\0';
	return state;
}

static void the_manager_is_told(void)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	struct timeval limit = { .tv_sec = SYNC_LIMIT_MS / 1000 };
	int manager = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	const char *state;

	snprintf(manager_path, sizeof(manager_path), "%.90s/manager", node.dir);
	memcpy(at.sun_path, manager_path, sizeof(manager_path));
	setsockopt(manager, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	EQ(bind(manager, (const struct sockaddr *)&at, sizeof(at)), 0);
	node.prepare = name_manager;
	sync_node_spawn(&node, &place);
	STR(told(manager), "READY=1");
	for (int i = 0; i < 3; i++)
		STR(told(manager), "WATCHDOG=1");
	EQ(sync_node_kill(&node, SIGTERM), 0);
	do {
		state = told(manager);
	} while (strcmp(state, "WATCHDOG=1") == 0);
	STR(state, "STOPPING=1");
	node.prepare = NULL;
	close(manager);
}

static void a_wrong_configuration_says_so(void)
{
	node.pid = 0;
	node.store = "etcd = x y\n";
	sync_node_spawn(&node, &place);
	EQ(sync_node_kill(&node, 0), 2);
	OK(sync_node_logged(&node, "conf:7: etcd = x y: a text without "
				   "blanks"));
}

TAP_CASE()
{
	char directory[96];

	sync_node_make(&node, "lone", NULL);
	node.more = "[socket]\nmode = 0666\n";
	snprintf(directory, sizeof(directory), "%.80s/store", node.agent.dir);
	sync_place_file(&place, directory);
	sync_node_spawn(&node, &place);
	OK(sync_node_wait_log(&node, "event=ready"));
	hello_says_where_it_is();
	an_unknown_request_is_refused();
	what_is_no_request_ends_the_client();
	descriptors_are_not_taken();
	a_client_that_does_not_read_is_ended();
	a_silent_client_is_ended();
	a_crowd_is_refused();
	a_crowd_is_in_nobodys_way();
	one_process_has_the_socket();
	EQ(sync_node_kill(&node, SIGTERM), 0);
	the_manager_is_told();
	a_wrong_configuration_says_so();
	sync_node_remove(&node);
	return tap_done();
}
