/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Checks the control socket against peers that break its rules: the agent
 * answers or drops each of them, and serves an honest client all the while.
 */

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gpumap/plan.h>

#include "shm/control.h"
#include "shm/layout.h"
#include "shm/queue.h"
#include "tests/support/raw.h"
#include "tests/support/story.h"
#include "tests/support/users.h"

/* Users, in the log with their numbers. */
#define MANY  54321
#define ONE   54322
#define OTHER 54323

static struct agent agent;
static int held; /* descriptors of the agent, before the first client */

/* ---- a client without the library -------------------------------------- */

static int connect_raw(void)
{
	struct sockaddr_un to = { .sun_family = AF_UNIX };
	struct timeval limit = { .tv_sec = 10 };
	int room = 2 * GM_CONTROL_BYTES_MAX;
	char path[128];
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	snprintf(path, sizeof(path), "%s/%s.sock", agent.dir, agent.instance);
	memcpy(to.sun_path, path, sizeof(to.sun_path));
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &room, sizeof(room));
	if (connect(fd, (struct sockaddr *)&to, sizeof(to)) == 0)
		return fd;
	close(fd);
	return -1;
}

struct record {
	struct gm_control header;
	char body[1024];
};

static struct record request(uint16_t type, const void *body, uint32_t bytes)
{
	struct record r = { .header = { .magic = GM_CONTROL_MAGIC,
					.version = GM_CONTROL_VERSION,
					.type = type,
					.serial = 7,
					.body = bytes,
					.bytes = (uint32_t)sizeof(r.header) +
						 bytes } };

	if (bytes)
		memcpy(r.body, body, bytes);
	return r;
}

static struct record hello(void)
{
	struct gm_hello h = { GM_LAYOUT_MAJOR, GM_LAYOUT_MINOR,
			      gm_layout_hash() };

	return request(GM_CONTROL_HELLO, &h, sizeof(h));
}

/* Send @bytes of a record and take the reply.  Returns the reply's status, 1
 * when the connection has ended instead, or 2 when nothing has come. */
static int ask_bytes(int fd, const struct record *r, size_t bytes,
		     struct record *ret_reply)
{
	ssize_t n;

	if (send(fd, r, bytes, MSG_NOSIGNAL) != (ssize_t)bytes)
		return 1;
	n = recv(fd, ret_reply, sizeof(*ret_reply), 0);
	if (n == 0 || (n < 0 && errno != EAGAIN))
		return 1;
	if (n < (ssize_t)sizeof(ret_reply->header))
		return 2;
	return ret_reply->header.status;
}

static int ask(int fd, const struct record *r, struct record *ret_reply)
{
	return ask_bytes(fd, r, r->header.bytes, ret_reply);
}

static int connect_known(void)
{
	struct record reply, h = hello();
	int fd = connect_raw();

	if (fd >= 0 && ask(fd, &h, &reply) == 0)
		return fd;
	close(fd);
	return -1;
}

/* An honest client must still be served. */
static bool others_are_served(void)
{
	struct record reply, r = request(GM_CONTROL_LIST, NULL, 0);
	int fd = connect_known();
	bool good = fd >= 0 && ask(fd, &r, &reply) == 0;

	close(fd);
	return good;
}

/* Returns the reply's status to this record on a connection after HELLO, or as
 * ask_bytes() does. */
static int fate(const struct record *r, size_t bytes)
{
	struct record reply;
	int fd = connect_known(), ret;

	if (fd < 0)
		return -1000;
	ret = ask_bytes(fd, r, bytes, &reply);
	close(fd);
	return ret;
}

/* ---- records ----------------------------------------------------------- */

static void broken_records_end_the_connection(void)
{
	struct gm_list_ask body = { 0 };
	struct record good = request(GM_CONTROL_LIST, &body, sizeof(body));
	struct record r;

	EQ(fate(&good, good.header.bytes), 0);
	EQ(fate(&good, 1), 1);
	EQ(fate(&good, sizeof(good.header) - 1), 1);
	EQ(fate(&good, good.header.bytes - 1), 1);
	EQ(fate(&good, good.header.bytes + 1), 1);
	r = good;
	r.header.magic ^= 1;
	EQ(fate(&r, r.header.bytes), 1);
	r = good;
	r.header.body = UINT32_MAX;
	EQ(fate(&r, r.header.bytes), 1);
	r = good;
	r.header.body -=
		1; /* the body is shorter than known, so a tail follows */
	EQ(fate(&r, r.header.bytes), 1);
	OK(others_are_served());
}

static int break_connections(int n)
{
	struct record r = request(GM_CONTROL_LIST, NULL, 0);

	while (n > 0 && fate(&r, 1) == 1)
		n--;
	return n > 0;
}

static int break_many(void)
{
	return break_connections(600);
}

static int break_one(void)
{
	return break_connections(1);
}

/* A session that posts what no library posts, ended by the worker. */
static int break_a_session(const char *path)
{
	struct gm_entry bad;
	struct raw c;
	int error = raw_open_queue(&c, path, 0, 16, 4096);

	if (error == 0) {
		bad = raw_entry(&c.row[0], GPUMAP_OP_NOP);
		bad.flags = 0x80;
		raw_post(&c.row[0], &bad, 1);
		while (raw_ask(&c, GM_CONTROL_LIST, NULL, 0, NULL, 0, NULL) ==
		       0)
			story_nap(100);
	}
	raw_close(&c);
	return error;
}

static int break_sessions(void)
{
	char path[128];
	int n = 0;

	snprintf(path, sizeof(path), "%s/%s.sock", agent.dir, agent.instance);
	/* The memory of ended sessions counts until it is free. */
	for (int tries = 0; n < 150 && tries < 100000; tries++) {
		if (break_a_session(path) == 0)
			n++;
		else
			story_nap(200);
	}
	return n < 150;
}

/* One user's lines in the log leave room for another's. */
static void a_flood_hides_no_other_user(void)
{
	if (geteuid() != 0) {
		SKIP(1, "not root");
		return;
	}
	EQ(user_run(MANY, break_many), 0);
	EQ(user_run(ONE, break_one), 0);
	OK(agent_wait_log(&agent, "uid=54322 reason="));
	/* A user who has not logged anything yet: the first lines are there. */
	EQ(user_run(OTHER, break_sessions), 0);
	OK(agent_count_log(&agent, "event=violation") > 0);
	OK(agent_count_log(&agent, "event=violation") < 100);
}

static void other_versions_are_understood(void)
{
	struct record r = request(99, NULL, 0);
	struct gm_list_ask body = { 0 };

	EQ(fate(&r, r.header.bytes), -EOPNOTSUPP);
	r.header.version--;
	EQ(fate(&r, r.header.bytes), -EPROTO);
	r = request(GM_CONTROL_LIST, NULL, 0); /* missing bytes are zero */
	EQ(fate(&r, r.header.bytes), 0);
	r = request(GM_CONTROL_LIST, &body, sizeof(body));
	r.header.body += 16; /* a longer body whose additional bytes are zero */
	r.header.bytes += 16;
	EQ(fate(&r, r.header.bytes), 0);
	r.body[sizeof(body) + 15] = 1; /* an additional byte is not zero */
	EQ(fate(&r, r.header.bytes), -E2BIG);
}

/* A map as PUBLISH has it: two charges, two runs, sizes of three layers, a row
 * that would do as well, and a spec. */
struct publication {
	struct gm_control header;
	struct gm_publish body;
	struct gm_charge_image charges[2];
	struct gm_plan_run runs[2];
	uint64_t bytes[3];
	uint32_t row;
	char spec[8];
};

static struct publication publication(void)
{
	return (struct publication){
		.header = { .magic = GM_CONTROL_MAGIC,
			    .version = GM_CONTROL_VERSION,
			    .type = GM_CONTROL_PUBLISH,
			    .bytes = offsetof(struct publication, spec) + 8,
			    .body = sizeof(struct gm_publish) },
		.body = { .map = { .name = "made",
				   .flags = GPUMAP_PLAN_PUBLISH },
			  .setting = GPUMAP_SETTING_AUTO,
			  .n_layers = 3,
			  .n_charges = 2,
			  .n_runs = 2,
			  .n_bytes = 3,
			  .n_rows = 1,
			  .spec_bytes = 8 },
		.charges = { { .row = 0 }, { .row = 1 } },
		.runs = { { 0, 2 }, { 1, 1 } },
		.spec = "0:2;1:1",
	};
}

/* The library makes no such map.  Each is refused by its own fault: as it is,
 * it is -EAGAIN, because the rows are those of no agent. */
static void maps_that_are_none_are_refused(void)
{
	struct publication p = publication();
	const void *record = &p;

	EQ(fate(record, p.header.bytes), -EAGAIN);
#define REFUSED(error, field, value)                     \
	do {                                             \
		p = publication();                       \
		p.field = value;                         \
		EQ(fate(record, p.header.bytes), error); \
	} while (0)
	REFUSED(-EINVAL, charges[1].row, 0);
	REFUSED(-EINVAL, charges[1].row, UINT32_MAX);
	REFUSED(-EINVAL, charges[1].kv_bytes, UINT64_MAX);
	REFUSED(-EINVAL, charges[0].reserve_bytes, UINT64_C(1) << 63);
	REFUSED(-EINVAL, charges[1].spare[1], 1);
	REFUSED(-EINVAL, runs[1].row, 256);
	REFUSED(-EINVAL, runs[1].n_layers, 2);
	REFUSED(-EINVAL, runs[1].n_layers, UINT32_MAX);
	REFUSED(-ENODEV, row, 256);
	REFUSED(-EINVAL, body.base_row, 256);
	REFUSED(-EINVAL, body.n_layers, 2);
	REFUSED(-EINVAL, body.n_layers, 0);
	REFUSED(-EINVAL, body.n_charges, 0);
	REFUSED(-EINVAL, body.n_charges, GM_ROWS + 1);
	REFUSED(-EINVAL, body.n_runs, GM_PLAN_RUNS_MAX + 1);
	REFUSED(-EINVAL, body.n_bytes, UINT32_C(1) << 29 | 3);
	REFUSED(-EINVAL, body.n_rows, UINT32_C(1) << 30 | 1);
	REFUSED(-EINVAL, body.setting, GPUMAP_SETTING_RESERVE);
	REFUSED(-EINVAL, body.setting, 0);
	REFUSED(-EINVAL, body.dtype, 200);
	REFUSED(-EINVAL, body.compute_dtype, 200);
	REFUSED(-EINVAL, body.map.flags, 0);
	REFUSED(-EINVAL, body.map.flags, UINT32_C(1) << 31 | 1);
	REFUSED(-EINVAL, body.map.owner_uid, 1);
	REFUSED(-EINVAL, body.map.wait_ns, 1);
	REFUSED(-EINVAL, body.spec_bytes, 0);
	REFUSED(-EINVAL, spec[0], '\n');
	REFUSED(-EINVAL, spec[3], '\0');
	REFUSED(-EINVAL, spec[7], '1');
	REFUSED(-EOVERFLOW, bytes[2], UINT64_C(1) << 63);
	REFUSED(-EOVERFLOW, body.other_bytes, UINT64_MAX);
	REFUSED(-EINVAL, body.strategy, 99);
#undef REFUSED
	/* Sums that wrap, and a row that is charged twice. */
	for (int i = 0; i < 5; i++) {
		struct gm_charge_image *charge;

		p = publication();
		charge = &p.charges[0];
		charge->weight_bytes = p.body.other_bytes = 1;
		if (i == 0)
			charge->kv_bytes = UINT64_MAX;
		else if (i == 1)
			charge->activation_bytes = UINT64_MAX;
		else if (i == 2)
			charge->reserve_bytes = UINT64_MAX;
		else if (i == 3)
			p.charges[1].row = p.runs[1].row = 0;
		else
			p.bytes[0] = UINT64_MAX;
		EQ(fate(record, p.header.bytes), i == 4 ? -EOVERFLOW : -EINVAL);
	}
	p = publication();
	memset(p.body.map.name, 'x', sizeof(p.body.map.name));
	EQ(fate(record, p.header.bytes), -EINVAL);
	OK(others_are_served());
}

/* Bytes that a record lacks are zero, whatever the record before had there. */
static void records_do_not_meet(void)
{
	struct gm_session_open open = { .depth = 16, .range_bytes = 4096 };
	struct gm_list_ask last = { .after = { UINT64_MAX } };
	struct record none = request(GM_CONTROL_LIST, &last, sizeof(last));
	struct record all = request(GM_CONTROL_LIST, NULL, 0), reply;
	struct record session =
		request(GM_CONTROL_SESSION_OPEN, &open, sizeof(open));
	struct gm_list_reply list;
	int owner, fd;

	OK(story_gives_back(agent.pid, held)); /* no session is ending */
	owner = connect_known();
	fd = connect_known();
	EQ(ask(owner, &session, &reply), 0);
	EQ(ask(fd, &none, &reply), 0);
	memcpy(&list, reply.body, sizeof(list));
	EQ(list.n, 0);
	EQ(ask(fd, &all, &reply), 0);
	memcpy(&list, reply.body, sizeof(list));
	EQ(list.n, 1);
	close(fd);
	close(owner);
	OK(story_gives_back(agent.pid, held));
}

static void hello_comes_first(void)
{
	struct record reply, r = request(GM_CONTROL_LIST, NULL, 0);
	struct gm_hello other = { GM_LAYOUT_MAJOR + 1, 0, gm_layout_hash() };
	int fd = connect_raw();

	EQ(ask(fd, &r, &reply), 1);
	close(fd);
	fd = connect_raw();
	r = request(GM_CONTROL_HELLO, &other, sizeof(other));
	EQ(ask(fd, &r, &reply), -EPROTO);
	OK(strstr(reply.body, "layout") != NULL);
	close(fd);
	/* No minor changes what the hash is of. */
	other = (struct gm_hello){ GM_LAYOUT_MAJOR, GM_LAYOUT_MINOR + 1,
				   gm_layout_hash() + 1 };
	fd = connect_raw();
	r = request(GM_CONTROL_HELLO, &other, sizeof(other));
	EQ(ask(fd, &r, &reply), -EPROTO);
	close(fd);
	other.layout = gm_layout_hash();
	fd = connect_raw();
	r = request(GM_CONTROL_HELLO, &other, sizeof(other));
	EQ(ask(fd, &r, &reply), 0);
	close(fd);
}

static void silent_peers_are_dropped(void)
{
	int fd = connect_raw();
	struct pollfd p = { fd, POLLIN, 0 };

	EQ(poll(&p, 1, 20000), 1);
	OK(agent_logged(&agent, "reason=silent"));
	OK(others_are_served());
	close(fd);
}

/* A peer only sends requests.  Its replies fill the socket, and the agent drops
 * the connection. */
static void peers_that_do_not_read_are_dropped(void)
{
	struct record r = request(GM_CONTROL_LIST, NULL, 0);
	int fd = connect_known(), n = 0;

	while (n < 1000000 && send(fd, &r, r.header.bytes, MSG_NOSIGNAL) > 0)
		n++;
	OK(n < 1000000);
	OK(agent_wait_log(&agent, "reason=does_not_read"));
	OK(others_are_served());
	close(fd);
}

/* ---- descriptors ------------------------------------------------------- */

static bool send_with_fds(int fd, const struct record *r, int n_fds)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(200 * sizeof(int))];
	} control = { 0 };
	struct iovec io = { (void *)r, r->header.bytes };
	struct msghdr message = { .msg_iov = &io,
				  .msg_iovlen = 1,
				  .msg_control = control.bytes,
				  .msg_controllen = CMSG_SPACE((size_t)n_fds *
							       sizeof(int)) };
	struct cmsghdr *head = CMSG_FIRSTHDR(&message);

	head->cmsg_level = SOL_SOCKET;
	head->cmsg_type = SCM_RIGHTS;
	head->cmsg_len = CMSG_LEN((size_t)n_fds * sizeof(int));
	for (int i = 0; i < n_fds; i++)
		memcpy(CMSG_DATA(head) + (size_t)i * sizeof(int), &fd,
		       sizeof(fd));
	return sendmsg(fd, &message, MSG_NOSIGNAL) > 0;
}

static void unasked_descriptors_stay_out(void)
{
	struct gm_session_open open = { .depth = 16, .range_bytes = 4096 };
	struct record session =
		request(GM_CONTROL_SESSION_OPEN, &open, sizeof(open));
	struct record reply, r = request(GM_CONTROL_LIST, NULL, 0);

	for (int n = 1; n <= 200; n += n < 4 ? 1 : 49) {
		int fd = connect_known();

		/* A kernel with SO_PASSRIGHTS refuses descriptors on
		 * connections without a session. */
		if (fd >= 0 && !send_with_fds(fd, &r, n)) {
			EQ(errno, EPERM);
			EQ(ask(fd, &session, &reply), 0);
			OK(send_with_fds(fd, &r, n));
		}
		OK(recv(fd, &reply, sizeof(reply), 0) <= 0);
		close(fd);
	}
	OK(agent_logged(&agent, "reason=descriptors"));
	OK(others_are_served());
	OK(story_gives_back(agent.pid, held));
}

/* ---- limits ------------------------------------------------------------ */

#define PER_UID 24 /* as the configuration says */

static void connections_are_limited_by_uid(void)
{
	struct record reply, h = hello();
	int fds[PER_UID], fd, n = 0;

	while (n < PER_UID && (fds[n] = connect_known()) >= 0)
		n++;
	EQ(n, PER_UID);
	fd = connect_raw();
	EQ(ask(fd, &h, &reply), -EUSERS);
	OK(strstr(reply.body, "connections-per-uid") != NULL);
	EQ(recv(fd, &reply, sizeof(reply), 0), 0);
	close(fd);
	while (n > 0)
		close(fds[--n]);
	OK(others_are_served());
}

static void sessions_are_limited(void)
{
	struct gm_session_open open = { .depth = 16, .range_bytes = 4096 };
	struct record reply;
	struct record r = request(GM_CONTROL_SESSION_OPEN, &open, sizeof(open));
	int fds[3], fd = connect_known();

	for (int i = 0; i < 3; i++) {
		fds[i] = connect_known();
		EQ(ask(fds[i], &r, &reply), 0);
	}
	EQ(ask(fds[0], &r, &reply), -EBUSY);
	EQ(ask(fd, &r, &reply), -EUSERS);
	OK(strstr(reply.body, "sessions-per-uid") != NULL);
	for (int i = 0; i < 3; i++)
		close(fds[i]);
	for (int i = 0; i < 5000 && ask(fd, &r, &reply) == -EUSERS; i++)
		story_nap(1000);
	EQ(ask(fd, &r, &reply), -EBUSY); /* the agent's loop opened it */
	close(fd);
}

static void requests_of_sessions_need_one(void)
{
	static const uint16_t types[] = {
		GM_CONTROL_QUEUE_OPEN,  GM_CONTROL_LOADING,
		GM_CONTROL_REGISTER,    GM_CONTROL_FORGET,
		GM_CONTROL_REACH,       GM_CONTROL_UNREACH,
		GM_CONTROL_MASK_USE,    GM_CONTROL_MASK_SHOW,
		GM_CONTROL_PROGRAM,     GM_CONTROL_SHARE,
		GM_CONTROL_SHARE_OPEN,  GM_CONTROL_SHARE_CLOSE,
		GM_CONTROL_SHARE_CLAIM, GM_CONTROL_SHARE_FDS,
		GM_CONTROL_COMM_OPEN,   GM_CONTROL_COMM_CLOSE,
		GM_CONTROL_EXPORT,
	};
	char path[128];
	struct raw c;

	snprintf(path, sizeof(path), "%s/%s.sock", agent.dir, agent.instance);
	EQ(raw_open(&c, path), 0);
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		EQ(raw_ask(&c, types[i], NULL, 0, NULL, 0, NULL), -EINVAL);
		STR(c.refusal, "this connection is no session");
	}
	raw_close(&c);
}

static void session_sizes_are_checked(void)
{
	static const struct {
		struct gm_session_open open;
		int status;
	} cases[] = {
		{ { .depth = 17 }, -EINVAL },
		{ { .depth = 8 }, -EINVAL },
		{ { .depth = 2048 }, -EINVAL },
		{ { .depth = UINT32_MAX }, -EINVAL },
		{ { .flags = 0x80000000 }, -EINVAL },
		{ { .range_bytes = UINT64_MAX }, -EDQUOT },
		{ { .range_bytes = UINT64_C(1) << 45 }, -EDQUOT },
	};
	struct gm_queue_open queue = { .row = 0 };
	struct record r = request(GM_CONTROL_QUEUE_OPEN, &queue, sizeof(queue));
	struct gm_session_open open = { .range_bytes = 4096 };
	struct record reply;
	int fd;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct record s =
			request(GM_CONTROL_SESSION_OPEN, &cases[i].open,
				sizeof(cases[i].open));

		EQ(fate(&s, s.header.bytes), cases[i].status);
	}
	EQ(fate(&r, r.header.bytes), -EINVAL); /* no session */
	fd = connect_known();
	r = request(GM_CONTROL_SESSION_OPEN, &open, sizeof(open));
	EQ(ask(fd, &r, &reply), 0);
	queue.row = 9;
	r = request(GM_CONTROL_QUEUE_OPEN, &queue, sizeof(queue));
	EQ(ask(fd, &r, &reply), -ENODEV);
	queue.row = UINT32_MAX;
	r = request(GM_CONTROL_QUEUE_OPEN, &queue, sizeof(queue));
	EQ(ask(fd, &r, &reply), -ENODEV);
	queue.row = 0;
	r = request(GM_CONTROL_QUEUE_OPEN, &queue, sizeof(queue));
	EQ(ask(fd, &r, &reply), 0);
	EQ(ask(fd, &r, &reply), -EALREADY);
	close(fd);
}

/* How far a session's loads are, as others see it.  The agent may not have
 * ended those yet whose connections were closed a moment ago. */
static void others_see(uint64_t bytes, uint64_t total)
{
	uint64_t limit = story_now() + STORY_LIMIT_NS;
	struct gpumap *map = story_attach(&agent);
	struct gpumap_session_info info = { 0 };
	int n = gpumap_session_list(map, &info, 1);

	for (; n > 1 && story_now() < limit; story_nap(1000))
		n = gpumap_session_list(map, &info, 1);
	EQ(n, 1);
	EQ((intmax_t)info.load_bytes, (intmax_t)bytes);
	EQ((intmax_t)info.load_total_bytes, (intmax_t)total);
	gpumap_detach(map);
}

/* A session may say anything of the models that it loads. */
static void words_about_loads_are_checked(void)
{
	static const struct {
		struct gm_loading loading;
		int status;
		uint64_t want_bytes, want_total;
	} cases[] = {
		{ { 3, 5 }, 0, 3, 5 },
		{ { 6, 5 }, -EINVAL, 3, 5 },
		{ { INT64_MAX, INT64_MAX }, 0, INT64_MAX, INT64_MAX },
		{ { 1, (uint64_t)INT64_MAX + 1 },
		  -EINVAL,
		  INT64_MAX,
		  INT64_MAX },
		{ { 1, 0 }, -EINVAL, INT64_MAX, INT64_MAX },
		{ { 0, 0 }, 0, 0, 0 },
	};
	struct gm_loading any = { 1, 2 };
	char path[128];
	struct raw c;

	snprintf(path, sizeof(path), "%s/%s.sock", agent.dir, agent.instance);
	EQ(raw_open(&c, path), 0);
	EQ(raw_ask(&c, GM_CONTROL_LOADING, &any, sizeof(any), NULL, 0, NULL),
	   -EINVAL); /* no session */
	raw_close(&c);
	EQ(raw_open_queue(&c, path, 0, 16, 4096), 0);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		EQ(raw_ask(&c, GM_CONTROL_LOADING, &cases[i].loading,
			   sizeof(cases[i].loading), NULL, 0, NULL),
		   cases[i].status);
		others_see(cases[i].want_bytes, cases[i].want_total);
	}
	raw_close(&c);
}

/* To read the memory of a session waits for as long as its client likes: the
 * client punches holes into a page that it has mapped very often. */
static void session_memory_is_not_read(void)
{
	char path[128];
	struct raw c;

	snprintf(path, sizeof(path), "%s/%s.sock", agent.dir, agent.instance);
	EQ(raw_open_queue(&c, path, 0, 16, 4096), 0);
	/* Behind the words that the worker reads. */
	memset((char *)c.page + offsetof(struct gm_client, reserved), 1,
	       offsetof(struct gm_client, wake) -
		       offsetof(struct gm_client, reserved));
	others_see(0, 0);
	raw_close(&c);
}

/* Publish a mask of 4096 bytes from a memfd with these seals. */
static int publish_tensor(struct raw *c, int seals)
{
	struct gm_mask_publish body = { .name = "sealed",
					.kind = GPUMAP_MASK_CUSTOM,
					.form = GPUMAP_MASK_LOADED,
					.dtype = GPUMAP_DTYPE_U8,
					.rank = 1,
					.shape = { 4096 },
					.n_rows = 1 };
	uint32_t row = 0;
	int fd = memfd_create("tensor", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	struct raw_record record = { .header = raw_header(
					     c, GM_CONTROL_MASK_PUBLISH,
					     sizeof(body), sizeof(row)),
				     .body = &body,
				     .body_bytes = sizeof(body),
				     .tail = &row,
				     .tail_bytes = sizeof(row),
				     .fds = &fd,
				     .n_fds = 1 };
	struct gm_control header = { .status = -ENOMSG };
	int none[GM_CONTROL_FDS_MAX];

	EQ(ftruncate(fd, 4096), 0);
	EQ(fcntl(fd, F_ADD_SEALS, seals), 0);
	EQ(raw_send(c, &record, 0), 0);
	OK(raw_receive(c, &header, c->refusal, sizeof(c->refusal), none) >= 0);
	close(fd);
	return header.status;
}

/* gpumapd reads it, and a hole in it would keep the thread waiting. */
static void a_tensor_that_can_change_is_not_read(void)
{
	const int rest = F_SEAL_SHRINK | F_SEAL_GROW;
	char path[128];
	struct raw c;

	snprintf(path, sizeof(path), "%s/%s.sock", agent.dir, agent.instance);
	EQ(raw_open_queue(&c, path, 0, 16, 4096), 0);
	EQ(publish_tensor(&c, rest), -EPERM);
	OK(strstr(c.refusal, "F_SEAL_WRITE") != NULL);
	EQ(publish_tensor(&c, rest | F_SEAL_WRITE), 0);
	raw_close(&c);
}

/* A client cannot change the size of its session's memory. */
static void session_memory_is_sealed(void)
{
	struct gm_session_open open = { .range_bytes = 4096 };
	struct record reply,
		r = request(GM_CONTROL_SESSION_OPEN, &open, sizeof(open));
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(4 * sizeof(int))];
	} control;
	struct iovec io = { &reply, sizeof(reply) };
	struct msghdr message = { .msg_iov = &io,
				  .msg_iovlen = 1,
				  .msg_control = control.bytes,
				  .msg_controllen = sizeof(control.bytes) };
	int fd = connect_known(), fds[2] = { -1, -1 };
	struct stat st;

	OK(send(fd, &r, r.header.bytes, 0) > 0);
	if (!OK(recvmsg(fd, &message, MSG_CMSG_CLOEXEC) > 0) ||
	    !OK(CMSG_FIRSTHDR(&message) != NULL))
		return;
	EQ(CMSG_FIRSTHDR(&message)->cmsg_len, CMSG_LEN(sizeof(fds)));
	memcpy(fds, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(fds));
	for (int i = 0; i < 2; i++) {
		int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

		EQ(fcntl(fds[i], F_GET_SEALS) & seals, seals);
		EQ(ftruncate(fds[i], 0), -1);
	}
	/* The memory is as large as the rows need and no larger, for no quota
	 * counts it. */
	EQ(fstat(fds[0], &st), 0);
	EQ(st.st_size, gm_queue_at(2, 256));
	close(fds[0]);
	close(fds[1]);
	close(fd);
}

static int pin(int fd)
{
	struct gm_object_name name = { .kind = GM_KIND_LAYERS,
				       .name = "model" };
	struct record reply, r = request(GM_CONTROL_PIN, &name, sizeof(name));

	return ask(fd, &r, &reply);
}

static int reserve(int fd)
{
	struct {
		struct gm_reserve_ask ask;
		uint64_t bytes;
	} body = { { .map = { .name = "dead",
			      .flags = GPUMAP_PLAN_COMMIT | GPUMAP_PLAN_HELD },
		     .n_bytes = 1 },
		   1 };
	struct record reply,
		r = request(GM_CONTROL_RESERVE, &body, sizeof(body));

	r.header.body = sizeof(body.ask);
	return ask(fd, &r, &reply);
}

static int unpin(int fd, uint64_t claim)
{
	const struct gm_unpin body = { claim };
	struct record reply, r = request(GM_CONTROL_UNPIN, &body, sizeof(body));

	return ask(fd, &r, &reply);
}

static int release_held(int fd)
{
	struct gm_object_name name = { .kind = GM_KIND_LAYERS, .name = "held" };
	struct record reply,
		r = request(GM_CONTROL_RELEASE, &name, sizeof(name));

	return ask(fd, &r, &reply);
}

/* A process connects, leaves the connection to a child, and exits.  The child
 * asks for a pin and for a map to be held when told to, and reports the
 * replies' statuses; or asks for what is the business of the process that has
 * made the claim it is told of. */
static pid_t leave_connection(uid_t uid, int go, int said)
{
	pid_t pid = fork();
	uint64_t claim;
	int fd, status[2];

	if (pid != 0) {
		waitpid(pid, NULL, 0);
		return pid;
	}
	if (uid != 0 && !user_become(uid, uid))
		_exit(1);
	fd = connect_known();
	if (fork() == 0 && read(go, &claim, sizeof(claim)) == sizeof(claim)) {
		status[0] = claim == 0 ? pin(fd) : release_held(fd);
		status[1] = claim == 0 ? reserve(fd) : unpin(fd, claim);
		_exit(write(said, status, sizeof(status)) < 0);
	}
	_exit(0);
}

/* Have the next process get the pid @pid, where the kernel lets us choose. */
static void choose_pid(pid_t pid)
{
	FILE *file = fopen("/proc/sys/kernel/ns_last_pid", "we");

	if (file) {
		fprintf(file, "%d", (int)pid - 1);
		fclose(file);
	}
}

static void *say_id(void *ret_id)
{
	*(pid_t *)ret_id = (pid_t)syscall(SYS_gettid);
	return pause() < 0 ? NULL : ret_id;
}

/* Start a process or a thread that stays until end_other(). */
static pid_t start_other(bool is_thread, pthread_t *ret_thread)
{
	static volatile pid_t id;
	pid_t pid;

	if (is_thread) {
		id = 0;
		if (pthread_create(ret_thread, NULL, say_id, (void *)&id) != 0)
			return -1;
		while (id == 0)
			story_nap(1000);
		return id;
	}
	pid = fork();
	if (pid == 0) {
		pause();
		_exit(0);
	}
	return pid;
}

static void end_other(bool is_thread, pthread_t thread, pid_t pid)
{
	if (is_thread) {
		pthread_cancel(thread);
		pthread_join(thread, NULL);
	} else {
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
	}
}

/* A process that was given the pid of a dead peer must not hold the peer's pin
 * or map. */
static void the_pid_of_a_dead_peer_pins_nothing(bool to_thread)
{
	int go[2], said[2], status[2] = { 0 };
	const uint64_t no_claim = 0;
	pthread_t thread = 0;
	pid_t peer, other;

	EQ(pipe(go) | pipe(said), 0);
	peer = leave_connection(0, go[0], said[1]);
	/* Before SO_PEERPIDFD (Linux 6.5) the agent compares start times in
	 * clock ticks, with a tolerance of one tick. */
	usleep(3 * 1000000 / (useconds_t)sysconf(_SC_CLK_TCK));
	choose_pid(peer);
	other = start_other(to_thread, &thread);
	if (other != peer)
		NOTE("no process could be given the pid of another");
	EQ(write(go[1], &no_claim, sizeof(no_claim)), sizeof(no_claim));
	EQ(read(said[0], status, sizeof(status)), sizeof(status));
	EQ(status[0], -ESRCH);
	EQ(status[1], -ESRCH);
	end_other(to_thread, thread, other);
	for (int i = 0; i < 2; i++) {
		close(go[i]);
		close(said[i]);
	}
}

/* Hold a map and pin another, say the pin's claim, and stay. */
static void hold_and_pin(int said)
{
	const uint64_t bytes = 1 << 20;
	const uint32_t row = 0;
	struct gpumap_plan plan = { .size = sizeof(plan) };
	const struct gpumap_plan_request request = {
		.size = sizeof(request),
		.name = "held",
		.flags = GPUMAP_PLAN_COMMIT | GPUMAP_PLAN_HELD,
		.setting = GPUMAP_SETTING_RESERVE,
		.rows = &row,
		.n_rows = 1,
		.n_layers = 1,
		.layer_bytes = &bytes,
	};
	struct gpumap_view view;
	struct gpumap *map;
	uint64_t claim = 0;

	if (!user_become(ONE, ONE))
		_exit(1);
	map = story_attach(&agent);
	if (map == NULL || gpumap_layers_pin(map, "model", &view, &claim) != 0)
		_exit(1);
	if (gpumap_plan_make(map, &request, &plan, NULL, 0, NULL, 0) != 0)
		claim = 0;
	if (write(said, &claim, sizeof(claim)) < 0)
		_exit(1);
	pause();
	_exit(0);
}

/* Start it with this pid, which other processes may get for a while. */
static pid_t start_holder(pid_t pid, int said)
{
	for (int i = 0; i < 100; i++) {
		int go[2];
		char byte;
		pid_t child;

		EQ(pipe(go), 0);
		choose_pid(pid);
		child = fork();
		if (child == 0) {
			close(go[1]);
			if (read(go[0], &byte, 1) == 1)
				hold_and_pin(said);
			_exit(0);
		}
		close(go[0]);
		if (child == pid)
			EQ(write(go[1], "", 1), 1);
		close(go[1]);
		if (child == pid)
			return child;
		waitpid(child, NULL, 0);
		story_nap(10000000);
	}
	return -1;
}

/* Nor may what asks on its connection end what another user's process of that
 * pid holds and has pinned. */
static void the_pid_of_a_dead_peer_ends_nothing(void)
{
	int go[2], said[2], status[2] = { 0 };
	uint64_t claim = 0;
	pid_t peer, other;

	if (geteuid() != 0) {
		SKIP(1, "needs root, to choose a pid");
		return;
	}
	EQ(pipe(go) | pipe(said), 0);
	peer = leave_connection(OTHER, go[0], said[1]);
	usleep(3 * 1000000 / (useconds_t)sysconf(_SC_CLK_TCK));
	other = start_holder(peer, said[1]);
	if (OK(other == peer) &&
	    EQ(read(said[0], &claim, sizeof(claim)), sizeof(claim)) &&
	    OK(claim != 0)) {
		EQ(write(go[1], &claim, sizeof(claim)), sizeof(claim));
		EQ(read(said[0], status, sizeof(status)), sizeof(status));
		EQ(status[0], -EPERM);
		EQ(status[1], -ESRCH);
	}
	if (other > 0)
		end_other(false, 0, other);
	for (int i = 0; i < 2; i++) {
		close(go[i]);
		close(said[i]);
	}
}

/* The agent runs out of descriptors: it serves connected clients, turns new
 * ones away, and does not spin. */
static void descriptors_may_run_out(void)
{
	struct record reply, r = request(GM_CONTROL_LIST, NULL, 0);
	struct rlimit before, low;
	int fd = connect_known(), newcomer;

	EQ(prlimit(agent.pid, RLIMIT_NOFILE, NULL, &before), 0);
	low = before;
	low.rlim_cur =
		3; /* below the number of open ones, so none can be opened */
	EQ(prlimit(agent.pid, RLIMIT_NOFILE, &low, NULL), 0);
	newcomer = connect_raw();
	OK(agent_wait_log(&agent, "event=no_descriptors"));
	EQ(ask(fd, &r, &reply), 0);
	EQ(prlimit(agent.pid, RLIMIT_NOFILE, &before, NULL), 0);
	OK(others_are_served());
	close(newcomer);
	close(fd);
}

/* ---- the segment, for clients that cannot open it ----------------------- */

static int fetch_map(void)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control;
	struct record reply, r = request(GM_CONTROL_MAP, NULL, 0);
	struct iovec io = { &reply, sizeof(reply) };
	struct msghdr message = { .msg_iov = &io,
				  .msg_iovlen = 1,
				  .msg_control = control.bytes,
				  .msg_controllen = sizeof(control.bytes) };
	int fd = connect_known(), map = -1;

	if (send(fd, &r, r.header.bytes, 0) > 0 &&
	    recvmsg(fd, &message, MSG_CMSG_CLOEXEC) > 0) {
		map = reply.header.status;
		if (map == 0 && CMSG_FIRSTHDR(&message))
			memcpy(&map, CMSG_DATA(CMSG_FIRSTHDR(&message)),
			       sizeof(map));
	}
	close(fd);
	return map;
}

static void shared_segment_cannot_be_written(void)
{
	struct stat here, there;
	char again[64];
	int map = fetch_map();

	if (map == -EPERM) {
		SKIP(4, "no CAP_SYS_ADMIN: our own uid is refused");
		return;
	}
	if (!OK(map > 0))
		return;
	EQ(stat(agent.segment, &here), 0);
	EQ(fstat(map, &there), 0);
	EQ(here.st_ino, there.st_ino);
	snprintf(again, sizeof(again), "/proc/self/fd/%d", map);
	EQ(open(again, O_RDWR | O_CLOEXEC) < 0 ? errno : 0, EROFS);
	close(map);
}

TAP_CASE()
{
	agent_make(&agent, "[host]\nrows = 2\n[limits]\n"
			   "connections-per-uid = 24\nsessions-per-uid = 3\n"
			   "hello-timeout = 2s\nsessions-per-second = 10000\n"
			   "[socket]\nmode = 0666\n"
			   "[map model]\nspec = 0:2\n");
	if (OK(agent_start(&agent))) {
		held = story_holds_at_rest(agent.pid);
		broken_records_end_the_connection();
		a_flood_hides_no_other_user();
		other_versions_are_understood();
		maps_that_are_none_are_refused();
		records_do_not_meet();
		hello_comes_first();
		silent_peers_are_dropped();
		peers_that_do_not_read_are_dropped();
		unasked_descriptors_stay_out();
		connections_are_limited_by_uid();
		sessions_are_limited();
		requests_of_sessions_need_one();
		session_sizes_are_checked();
		words_about_loads_are_checked();
		session_memory_is_not_read();
		a_tensor_that_can_change_is_not_read();
		session_memory_is_sealed();
		the_pid_of_a_dead_peer_pins_nothing(false);
		the_pid_of_a_dead_peer_pins_nothing(true);
		the_pid_of_a_dead_peer_ends_nothing();
		descriptors_may_run_out();
		shared_segment_cannot_be_written();
	}
	EQ(agent_kill(&agent, SIGTERM), 0);
	if (tap_failures)
		agent_show_log(&agent);
	agent_remove(&agent);
	return tap_done();
}
