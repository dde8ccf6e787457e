/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "tests/support/nodes/etcd_server.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "agent/store/store_backend.h"
#include "tests/support/shm_names.h"
#include "tests/support/tap.h"

#define LIMIT_MS 30000

static void nap(uint32_t ms)
{
	struct timespec time = { .tv_sec = ms / 1000,
				 .tv_nsec = ms % 1000 * 1000000L };

	nanosleep(&time, NULL);
}

static struct sockaddr_in at_port(uint16_t port)
{
	return (struct sockaddr_in){ .sin_family = AF_INET,
				     .sin_port = htons(port),
				     .sin_addr.s_addr =
					     htonl(INADDR_LOOPBACK) };
}

static int listen_at(uint16_t port)
{
	struct sockaddr_in at = at_port(port);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;

	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (bind(fd, (struct sockaddr *)&at, sizeof(at)) == 0 &&
	    listen(fd, 64) == 0)
		return fd;
	close(fd);
	return -1;
}

static int connect_to(uint16_t port)
{
	struct sockaddr_in at = at_port(port);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (connect(fd, (struct sockaddr *)&at, sizeof(at)) == 0)
		return fd;
	close(fd);
	return -1;
}

/* Below those that the kernel gives to clients: one that connects to a server
 * which was killed could get the server's own port, and keep it. */
uint16_t etcd_free_port(void)
{
	for (;;) {
		uint16_t port = (uint16_t)(15000 + gm_store_random() % 15000);
		int fd = listen_at(port);

		if (fd >= 0) {
			close(fd);
			return port;
		}
	}
}

/* ---- members ------------------------------------------------------------- */

const char *etcd_lack(void)
{
#ifndef GM_HAVE_ETCD
	return "built without libcurl";
#endif
	if (system("etcd --version >/dev/null 2>&1") != 0)
		return "no etcd is installed";
	if (system("curl --version >/dev/null 2>&1") != 0)
		return "no curl is installed";
	return NULL;
}

void etcd_make(struct etcd_server *server, int number)
{
	*server = (struct etcd_server){ .port = etcd_free_port(),
					.peer_port = etcd_free_port() };
	snprintf(server->name, sizeof(server->name), "m%d", number);
	snprintf(server->data, sizeof(server->data), "%s/gpumap-test.%d.etcd%d",
		 shm_names_large(), getpid(), number);
	etcd_live_at(server, "127.0.0.1");
	EQ(mkdir(server->data, 0700), 0);
}

void etcd_live_at(struct etcd_server *server, const char *address)
{
	server->host = address;
	snprintf(server->url, sizeof(server->url), "http://%s:%u", address,
		 server->port);
}

void etcd_start(struct etcd_server *server)
{
	char peer[64], first[80], data[96], client[64];
	const char *argv[32] = { "etcd",
				 "--name",
				 server->name,
				 "--data-dir",
				 data,
				 "--listen-client-urls",
				 client,
				 "--advertise-client-urls",
				 client,
				 "--listen-peer-urls",
				 peer,
				 "--initial-advertise-peer-urls",
				 peer,
				 "--initial-cluster",
				 server->cluster != NULL ? server->cluster
							 : first,
				 "--heartbeat-interval",
				 "50",
				 "--election-timeout",
				 "250",
				 "--logger",
				 "zap" };
	int n = 21;

	snprintf(data, sizeof(data), "%s/data", server->data);
	snprintf(client, sizeof(client), "%s", server->url);
	snprintf(peer, sizeof(peer), "http://%s:%u", server->host,
		 server->peer_port);
	snprintf(first, sizeof(first), "%s=%s", server->name, peer);
	for (int i = 0; server->more[i] != NULL; i++)
		argv[n++] = server->more[i];
	fflush(stdout);
	server->pid = fork();
	if (server->pid == 0) {
		char log[128];
		int fd;

		snprintf(log, sizeof(log), "%s/log", server->data);
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		fd = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
		dup2(fd, STDOUT_FILENO);
		dup2(fd, STDERR_FILENO);
		execvp(argv[0], (char **)(uintptr_t)argv);
		_exit(96);
	}
}

void etcd_members_make(struct etcd_members *members)
{
	*members = (struct etcd_members){ 0 };
	for (int i = 0; i < ETCD_MEMBERS; i++) {
		struct etcd_server *one = &members->of[i];
		size_t n = strlen(members->cluster);
		size_t m = strlen(members->endpoints);

		etcd_make(one, i + 1);
		one->cluster = members->cluster;
		snprintf(members->cluster + n, sizeof(members->cluster) - n,
			 "%s%s=http://%s:%u", i > 0 ? "," : "", one->name,
			 one->host, one->peer_port);
		snprintf(members->endpoints + m, sizeof(members->endpoints) - m,
			 "%s%s", i > 0 ? "," : "", one->url);
	}
}

int etcd_tell(const struct etcd_server *server, const char *path,
	      const char *body)
{
	char command[4096];

	snprintf(command, sizeof(command),
		 "curl -s -m 10 -o /dev/null -f '%s%s' -d '%s'", server->url,
		 path, body);
	return system(command);
}

bool etcd_listens(const struct etcd_server *server)
{
	for (int ms = 0; ms < LIMIT_MS; ms += 20) {
		int fd = connect_to(server->port);

		if (fd >= 0) {
			close(fd);
			return true;
		}
		nap(20);
	}
	return false;
}

bool etcd_serves(const struct etcd_server *server)
{
	for (int ms = 0; ms < LIMIT_MS; ms += 20) {
		if (etcd_tell(server, "/v3/kv/range", "{\"key\":\"YQ==\"}") ==
		    0)
			return true;
		nap(20);
	}
	return false;
}

void etcd_kill(struct etcd_server *server)
{
	if (server->pid == 0)
		return;
	kill(server->pid, SIGKILL);
	waitpid(server->pid, NULL, 0);
	server->pid = 0;
}

void etcd_remove(struct etcd_server *server)
{
	etcd_kill(server);
	shm_names_remove_dir(server->data);
}

/* ---- ways ---------------------------------------------------------------- */

void etcd_way_make(struct etcd_way *way, uint16_t to)
{
	*way = (struct etcd_way){ .port = etcd_free_port(),
				  .to = to,
				  .told = { -1, -1 },
				  .go = { -1, -1 } };
	snprintf(way->url, sizeof(way->url), "http://127.0.0.1:%u", way->port);
}

/* Wait until the test lets it go on.  Returns false to end the connection. */
static bool may_go(const struct etcd_way *way)
{
	char go;

	return read(way->go[0], &go, 1) == 1 && go == 'g';
}

/* Pass on what one end sends; what has the text @mark stops.  Returns false at
 * the end. */
static bool pass_on(const struct etcd_way *way, const char *mark, int from,
		    int to)
{
	char bytes[65536];
	ssize_t n = read(from, bytes, sizeof(bytes)), done = 0;
	bool stops = mark != NULL && n > 0 &&
		     memmem(bytes, (size_t)n, mark, strlen(mark)) != NULL;

	if (stops && (write(way->told[1], "s", 1) != 1 || !may_go(way)))
		return false;
	while (n > 0 && done < n) {
		ssize_t one = send(to, bytes + done, (size_t)(n - done),
				   MSG_NOSIGNAL);

		if (one <= 0)
			return false;
		done += one;
	}
	return n > 0 && (!stops || may_go(way));
}

static void carry(const struct etcd_way *way, int client, uint32_t late_ms)
{
	int server = connect_to(way->to);
	struct pollfd ends[2] = { { client, POLLIN, 0 },
				  { server, POLLIN, 0 } };

	while (server >= 0 && poll(ends, 2, -1) > 0) {
		if (ends[0].revents != 0) {
			nap(late_ms);
			if (!pass_on(way, way->mark, client, server))
				return;
		}
		if (ends[1].revents != 0 && !pass_on(way, NULL, server, client))
			return;
	}
}

static void lie(int client, const char *answer, unsigned int n_times)
{
	char request[65536];
	size_t n = strlen(answer), last = n < 10 ? n : 10;

	if (read(client, request, sizeof(request)) <= 0 ||
	    send(client, answer, n, MSG_NOSIGNAL) < 0)
		return;
	for (unsigned int i = 1; i < n_times; i++)
		if (send(client, answer + n - last, last, MSG_NOSIGNAL) < 0)
			return;
}

static void serve(struct etcd_way *way, int listener, uint32_t late_ms)
{
	setpgid(0, 0);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	signal(SIGCHLD, SIG_IGN);
	/* No connection of the test's stores is kept open here. */
	way->told[1] =
		way->mark != NULL ? fcntl(way->told[1], F_DUPFD, 100) : 0;
	way->go[0] = way->mark != NULL ? fcntl(way->go[0], F_DUPFD, 100) : 0;
	if (dup2(listener, 3) == 3)
		listener = 3;
	close_range(4, 99, 0);
	close_range(102, ~0u, 0);
	for (;;) {
		int client = accept(listener, NULL, NULL);

		if (client < 0)
			continue;
		if (fork() == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			close(listener);
			if (way->answer != NULL)
				lie(client, way->answer, way->n_times);
			else
				carry(way, client, late_ms);
			_exit(0);
		}
		close(client);
	}
}

void etcd_way_open(struct etcd_way *way, uint32_t late_ms)
{
	int listener = listen_at(way->port);

	OK(listener >= 0);
	fflush(stdout);
	way->pid = fork();
	if (way->pid == 0)
		serve(way, listener, late_ms);
	setpgid(way->pid, way->pid);
	close(listener);
}

void etcd_liar_open(struct etcd_way *way, const char *answer,
		    unsigned int n_times)
{
	way->answer = answer;
	way->n_times = n_times;
	etcd_way_open(way, 0);
}

void etcd_way_stop(struct etcd_way *way, const char *mark)
{
	way->mark = mark;
	EQ(pipe2(way->told, O_CLOEXEC), 0);
	EQ(pipe2(way->go, O_CLOEXEC), 0);
	etcd_way_open(way, 0);
}

bool etcd_way_stopped(const struct etcd_way *way)
{
	struct pollfd told = { way->told[0], POLLIN, 0 };
	char byte;

	return poll(&told, 1, LIMIT_MS) == 1 &&
	       read(way->told[0], &byte, 1) == 1;
}

void etcd_way_go(const struct etcd_way *way)
{
	EQ(write(way->go[1], "g", 1), 1);
}

void etcd_way_drop(const struct etcd_way *way)
{
	EQ(write(way->go[1], "d", 1), 1);
}

void etcd_way_close(struct etcd_way *way)
{
	for (int i = 0; i < 2 && way->mark != NULL; i++) {
		close(way->told[i]);
		close(way->go[i]);
	}
	way->mark = NULL;
	if (way->pid == 0)
		return;
	kill(-way->pid, SIGKILL);
	waitpid(way->pid, NULL, 0);
	way->pid = 0;
}

void etcd_way_signal(const struct etcd_way *way, int signal)
{
	kill(-way->pid, signal);
}
