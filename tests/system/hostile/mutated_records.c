/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Clients of the library and gpumapctl work through a proxy, which changes some
 * of their records: bits, sizes, types, descriptors, or it sends an earlier one
 * again.  So each request arrives in every state of a session that a real
 * client brings about.  The agent and its workers live on, and serve.
 *
 * GM_ROUNDS says how many thousand records.
 */

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shm/control.h"
#include "tests/support/nodes/cluster_nodes.h"
#include "tests/support/ctl.h"
#include "tests/support/dice.h"
#include "tests/support/story.h"

#define RECORD_MOST 65536u
#define FDS_MOST    253u
#define REMEMBERED  64u
#define PLAYERS     4
#define PIECE       65536u
#define PATIENCE_MS 200 /* of a client whose answer will not come */

static struct agent agent;
static char folder[96];
static _Atomic uint64_t n_records, n_changed;
static uint64_t enough;

/* ---- records ------------------------------------------------------------- */

struct record {
	union {
		struct gm_control header;
		unsigned char bytes[RECORD_MOST];
	};
	size_t n;
	int fds[FDS_MOST];
	unsigned n_fds;
};

static void close_fds(struct record *r)
{
	for (unsigned i = 0; i < r->n_fds; i++)
		close(r->fds[i]);
	r->n_fds = 0;
}

static bool take(int from, struct record *r)
{
	union {
		struct cmsghdr head;
		char bytes[CMSG_SPACE(sizeof(r->fds))];
	} control;
	struct iovec data = { r->bytes, sizeof(r->bytes) };
	struct msghdr head = { .msg_iov = &data,
			       .msg_iovlen = 1,
			       .msg_control = control.bytes,
			       .msg_controllen = sizeof(control.bytes) };
	ssize_t n = recvmsg(from, &head, MSG_CMSG_CLOEXEC);

	r->n_fds = 0;
	if (n <= 0)
		return false;
	r->n = (size_t)n;
	for (struct cmsghdr *part = CMSG_FIRSTHDR(&head); part;
	     part = CMSG_NXTHDR(&head, part)) {
		size_t bytes = part->cmsg_len - CMSG_LEN(0);

		if (part->cmsg_level != SOL_SOCKET ||
		    part->cmsg_type != SCM_RIGHTS)
			continue;
		memcpy(r->fds, CMSG_DATA(part), bytes);
		r->n_fds = (unsigned)(bytes / sizeof(int));
	}
	return true;
}

static bool give(int to, struct record *r)
{
	union {
		struct cmsghdr head;
		char bytes[CMSG_SPACE(sizeof(r->fds))];
	} control = { .bytes = { 0 } };
	struct iovec data = { r->bytes, r->n };
	struct msghdr head = { .msg_iov = &data, .msg_iovlen = 1 };

	if (r->n_fds) {
		head.msg_control = control.bytes;
		head.msg_controllen = CMSG_SPACE(r->n_fds * sizeof(int));
		control.head.cmsg_level = SOL_SOCKET;
		control.head.cmsg_type = SCM_RIGHTS;
		control.head.cmsg_len = CMSG_LEN(r->n_fds * sizeof(int));
		memcpy(CMSG_DATA(&control.head), r->fds,
		       r->n_fds * sizeof(int));
	}
	return sendmsg(to, &head, MSG_NOSIGNAL) >= 0;
}

/* ---- changes ------------------------------------------------------------- */

static struct record *memory; /* of requests without descriptors */
static unsigned n_memory;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* The proxy has many threads. */
static uint64_t draw(uint64_t n)
{
	static pthread_mutex_t throws = PTHREAD_MUTEX_INITIALIZER;
	uint64_t number;

	pthread_mutex_lock(&throws);
	number = dice(n);
	pthread_mutex_unlock(&throws);
	return number;
}

static uint64_t odd_number(void)
{
	static const uint64_t odd[] = { 0,
					1,
					2,
					3,
					7,
					63,
					64,
					65,
					255,
					256,
					1023,
					1024,
					4095,
					4096,
					65535,
					65536,
					INT32_MAX,
					UINT32_MAX,
					UINT64_C(1) << 31,
					UINT64_C(1) << 32,
					UINT64_C(1) << 47,
					UINT64_C(1) << 56,
					INT64_MAX,
					UINT64_C(1) << 63,
					UINT64_MAX,
					UINT64_MAX - 4095 };

	return odd[draw(sizeof(odd) / sizeof(odd[0]))];
}

static void flip_bits(struct record *r, size_t from)
{
	for (uint64_t k = draw(4) + 1; k > 0 && r->n > from; k--)
		r->bytes[from + draw(r->n - from)] ^=
			(unsigned char)(1u << draw(8));
}

static void set_number(struct record *r, size_t from)
{
	uint64_t number = odd_number();
	size_t bytes = draw(2) ? 8 : 4, at;

	if (r->n < from + bytes)
		return;
	at = from + draw((r->n - from - bytes) / 4 + 1) * 4;
	memcpy(r->bytes + at, &number, bytes);
}

/* With a header that says so. */
static void change_length(struct record *r)
{
	size_t before = r->n, n = draw(3) ? before + draw(64) : draw(before);

	if (n < sizeof(r->header))
		n = sizeof(r->header);
	if (draw(4) == 0)
		n = sizeof(r->header) + draw(RECORD_MOST);
	if (n > sizeof(r->bytes))
		n = sizeof(r->bytes);
	if (n > before)
		memset(r->bytes + before, (int)draw(256), n - before);
	r->n = n;
	r->header.bytes = (uint32_t)n;
	if (draw(2))
		r->header.body = (uint32_t)(n - sizeof(r->header));
}

static void change_fds(struct record *r)
{
	static const char *const paths[] = { "/dev/null", "/dev/zero", "/",
					     "/proc/self/maps", "/dev/full" };

	switch (draw(4)) {
	case 0:
		close_fds(r);
		break;
	case 1:
		if (r->n_fds < FDS_MOST)
			r->fds[r->n_fds++] =
				open(paths[draw(5)], O_RDONLY | O_CLOEXEC);
		break;
	case 2:
		if (r->n_fds && r->n_fds < FDS_MOST) {
			r->fds[r->n_fds] = fcntl(r->fds[0], F_DUPFD_CLOEXEC, 0);
			r->n_fds++;
		}
		break;
	default: /* the memory shrinks, where it may */
		if (r->n_fds)
			(void)!ftruncate(r->fds[0], (off_t)draw(8192));
	}
}

static void remember(const struct record *r)
{
	pthread_mutex_lock(&lock);
	memory[n_memory % REMEMBERED] = *r;
	memory[n_memory % REMEMBERED].n_fds = 0;
	n_memory++;
	pthread_mutex_unlock(&lock);
}

/* An earlier request of any client instead, by this one's number. */
static void recall(struct record *r)
{
	uint32_t serial = r->header.serial;

	pthread_mutex_lock(&lock);
	if (n_memory > REMEMBERED) {
		const struct record *old = &memory[draw(REMEMBERED)];

		memcpy(r->bytes, old->bytes, old->n);
		r->n = old->n;
		r->header.serial = serial;
	}
	pthread_mutex_unlock(&lock);
}

static void change(struct record *r)
{
	const size_t body = sizeof(r->header);

	n_changed++;
	switch (draw(16)) {
	case 0:
	case 1:
	case 2:
		flip_bits(r, body);
		break;
	case 3:
	case 4:
	case 5:
	case 6:
	case 7:
		set_number(r, body);
		break;
	case 8:
		change_length(r);
		break;
	case 9:
		r->header.type = (uint16_t)draw(GM_CONTROL_CLUSTER + 8);
		break;
	case 10:
	case 11:
		change_fds(r);
		break;
	case 12:
		flip_bits(r, 0);
		break;
	default:
		recall(r);
	}
}

/* ---- the proxy ----------------------------------------------------------- */

static struct sockaddr_un address_in(const char *dir)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	char path[192];

	snprintf(path, sizeof(path), "%s/%s.sock", dir, agent.instance);
	memcpy(address.sun_path, path, sizeof(address.sun_path) - 1);
	return address;
}

static int connect_agent(void)
{
	struct sockaddr_un to = address_in(agent.dir);
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	if (connect(fd, (struct sockaddr *)&to, sizeof(to)) == 0)
		return fd;
	close(fd);
	return -1;
}

static bool pass_request(int client, int server, struct record *r)
{
	bool is_sent;

	if (!take(client, r))
		return false;
	n_records++;
	if (r->header.type != GM_CONTROL_HELLO || draw(8) == 0) {
		if (r->n_fds == 0)
			remember(r);
		if (draw(3) == 0)
			change(r);
	}
	is_sent = give(server, r);
	if (is_sent && draw(16) == 0)
		is_sent = give(server, r);
	close_fds(r);
	return is_sent;
}

static bool pass_answer(int server, int client, struct record *r)
{
	bool is_sent = take(server, r) && give(client, r);

	close_fds(r);
	return is_sent;
}

static void *serve(void *argument)
{
	int client = (int)(intptr_t)argument, server = connect_agent();
	struct record *r = malloc(sizeof(*r));
	bool goes_on = r && server >= 0;

	while (goes_on) {
		struct pollfd ready[2] = { { client, POLLIN, 0 },
					   { server, POLLIN, 0 } };

		if (poll(ready, 2, -1) < 0)
			break;
		if (ready[1].revents)
			goes_on = pass_answer(server, client, r);
		else if (ready[0].revents)
			goes_on = pass_request(client, server, r);
	}
	free(r);
	close(client);
	if (server >= 0)
		close(server);
	return NULL;
}

static void *listens(void *argument)
{
	int fd = (int)(intptr_t)argument;

	for (;;) {
		int client = accept4(fd, NULL, NULL, SOCK_CLOEXEC);
		pthread_t thread;

		if (client < 0)
			return NULL;
		if (pthread_create(&thread, NULL, serve,
				   (void *)(intptr_t)client) == 0)
			pthread_detach(thread);
		else
			close(client);
	}
}

static void start_proxy(void)
{
	struct sockaddr_un at;
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	pthread_t thread;

	snprintf(folder, sizeof(folder), "%s/proxy", agent.dir);
	EQ(mkdir(folder, 0711), 0);
	at = address_in(folder);
	EQ(bind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
	EQ(listen(fd, 64), 0);
	EQ(pthread_create(&thread, NULL, listens, (void *)(intptr_t)fd), 0);
	pthread_detach(thread);
}

/* ---- clients ------------------------------------------------------------- */

static void plays_with_buffers(struct gpumap_session *session)
{
	struct gpumap_export_info info = { .size = sizeof(info) };
	struct gpumap_job job = { .op = GPUMAP_OP_FILL, .n = 64 };
	uint64_t buffer = 0, export = 0, other = 0, id = 0;
	struct gpumap_share_request share = { .size = sizeof(share),
					      .name = dice(2) ? "a" : "b",
					      .buffers = &buffer,
					      .n_buffers = 1,
					      .about = "about",
					      .about_bytes = 6 };
	int fd = -1;

	share.flags = dice(2) ? GPUMAP_SHARE_KEEP : 0;
	gpumap_buffer_alloc(session, (uint32_t)dice(2), PIECE,
			    GPUMAP_BUFFER_EXPORTABLE, GPUMAP_NO_DEADLINE,
			    &buffer);
	job.dst_buffer = buffer;
	gpumap_submit(session, (uint32_t)dice(2), &job, 1);
	switch (dice(3)) {
	case 0:
		gpumap_share_claim(session, share.name, 0, NULL, 0);
		gpumap_share_publish(session, &share, &id);
		gpumap_share_fd(session, id, 0, &info, &fd);
		break;
	case 1:
		gpumap_share_open(session, share.name, 0, NULL, &id);
		gpumap_share_buffer(session, id, 0, &info, &other);
		break;
	default:
		gpumap_buffer_export(session, buffer, &export);
		gpumap_buffer_import(session, export, 0, &other);
	}
	if (fd >= 0)
		close(fd);
	if (dice(2))
		gpumap_share_close(session, id);
	if (dice(2))
		gpumap_buffer_free(session, other);
	if (dice(2))
		gpumap_buffer_free(session, buffer);
}

static void plays_with_memory(struct gpumap_session *session)
{
	int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	uint64_t handle = 0;

	(void)!ftruncate(fd, PIECE);
	fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK);
	gpumap_buffer_register_file(session, fd, 0, &handle);
	close(fd);
	if (dice(2))
		gpumap_buffer_unregister(session, handle);
}

static void plays_with_lists(struct gpumap *map)
{
	struct gpumap_usage usage = { .size = sizeof(usage) };
	struct gpumap_share_info share = { .size = sizeof(share) };

	gpumap_usage_list(map, &usage, 1);
	gpumap_share_list(map, &share, 1);
	gpumap_share_release(map, dice(2) ? "a" : "b");
}

static void plays_with_nodes(struct gpumap *map)
{
	const struct cluster_nodes nodes = { (uint32_t)dice(4),
					     (uint32_t)dice(4),
					     (uint32_t)dice(4),
					     (uint32_t)dice(9) };
	struct gpumap_cluster_request request =
		cluster_request(NULL, 0, GPUMAP_CLUSTER_HEARD);
	struct gpumap_cluster cluster = { .size = sizeof(cluster) };

	cluster_nodes_publish(map, &nodes, 0);
	gpumap_cluster_publish(map, &request);
	gpumap_cluster_read(map, &cluster);
}

static _Noreturn void lives_by_library(uint64_t seed)
{
	struct gpumap_attach_opts where = { .size = sizeof(where),
					    .instance = agent.instance,
					    .runtime_dir = folder };

	dice_state = seed;
	for (;;) {
		struct gpumap_session_opts opts = { .size = sizeof(opts),
						    .arena_bytes = PIECE };
		struct gpumap_session *session = NULL;
		struct gpumap *map = NULL;

		alarm(3);
		if (gpumap_attach(&where, &map) != 0)
			continue;
		gpumap_request_limit(map, UINT64_C(1000000000));
		opts.flags = dice(2) ? GPUMAP_SESSION_POLLABLE : 0;
		if (gpumap_session_open(map, &opts, &session) == 0) {
			for (uint64_t n = dice(8); n > 0; n--) {
				plays_with_buffers(session);
				plays_with_memory(session);
				plays_with_lists(map);
				plays_with_nodes(map);
			}
			gpumap_session_close(session);
		}
		gpumap_detach(map);
	}
}

static _Noreturn void becomes_gpumapctl(uint64_t seed)
{
	static const char *const commands[] = {
		"plan --spec 0:2;1:2 --commit m1 --layers 4",
		"publish m2 --spec 0:2;1:2",
		"publish m1 --spec 0:1;1:1",
		"release m1",
		"release m2",
		"mask publish k1 --kind causal --size 64 --rows 0,1",
		"mask publish k2 --kind causal --size 64 --map m2",
		"mask show k1",
		"mask release k1",
		"mask release k2",
		"mesh publish h1 --topology tensor=2 --rows 0,1",
		"mesh release h1",
		"collective h1 world --op all_reduce --bytes 64K",
		"scatter --bytes 64K",
		"who",
		"shares",
		"sessions",
		"cordon 1",
		"uncordon 1",
		"policy set 1 --bytes 4K",
		"run --reserve 1M --rows 0 --wait 1 -- true",
		"wait --for ready",
	};
	const char *argv[24] = { ctl_program(), "--instance", agent.instance,
				 "--runtime-dir", folder };
	char text[128];
	int n = 5, null = open("/dev/null", O_RDWR | O_CLOEXEC);

	dice_state = seed;
	snprintf(text, sizeof(text), "%s",
		 commands[dice(sizeof(commands) / sizeof(commands[0]))]);
	for (char *rest = text, *word; (word = strsep(&rest, " "));)
		argv[n++] = word;
	argv[n] = NULL;
	dup2(null, 1);
	dup2(null, 2);
	alarm(3);
	execv(argv[0], (char **)(uintptr_t)argv);
	_exit(97);
}

static pid_t begin(int i)
{
	uint64_t seed = draw(UINT64_MAX) | 1;
	pid_t pid, parent = getpid();

	fflush(stdout);
	pid = fork();
	if (pid != 0)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(98);
	if (i % 2)
		becomes_gpumapctl(seed);
	lives_by_library(seed);
}

/* Clients that have ended, by a fault of their own or a command's end, are
 * begun anew. */
static void play(void)
{
	pid_t players[PLAYERS] = { 0 };
	int status, died = 0;

	while (n_records < enough && kill(agent.pid, 0) == 0 &&
	       waitpid(agent.pid, NULL, WNOHANG) == 0) {
		for (int i = 0; i < PLAYERS; i++) {
			if (players[i] &&
			    waitpid(players[i], &status, WNOHANG) == 0)
				continue;
			if (players[i] && WIFSIGNALED(status) &&
			    WTERMSIG(status) != SIGALRM)
				died++;
			players[i] = begin(i);
		}
		story_nap(1000);
	}
	for (int i = 0; i < PLAYERS; i++) {
		kill(players[i], SIGKILL);
		waitpid(players[i], NULL, 0);
	}
	EQ(died, 0);
}

TAP_CASE()
{
	struct gpumap *map;

	agent_make(&agent, "[host]\nrows = 2\n[limits]\n"
			   "sessions-per-second = 100000\n");
	memory = calloc(REMEMBERED, sizeof(*memory));
	if (!OK(memory) || !OK(agent_start(&agent)))
		return tap_done();
	enough = 1000 * (uint64_t)story_rounds_or(3);
	start_proxy();
	play();
	map = story_attach(&agent);
	if (OK(map)) {
		NOTE("%u records, %u of them changed", (unsigned)n_records,
		     (unsigned)n_changed);
		gpumap_detach(map);
	}
	EQ(agent_count_log(&agent, "event=worker_died"), 0);
	EQ(agent_count_log(&agent, "event=worker_killed"), 0);
	if (tap_failures)
		agent_show_log(&agent);
	EQ(agent_kill(&agent, SIGTERM), 0);
	agent_remove(&agent);
	free(memory);
	return tap_done();
}
