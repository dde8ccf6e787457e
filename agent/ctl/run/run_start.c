/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * The start window: a process of its own watches the command, and ends the
 * window as soon as the command is ready.
 *
 * The watcher is no child of the command, has no terminal, holds none of the
 * caller's descriptors, takes no signal but SIGKILL, and ends with the command.
 * The agent ends the window by itself when its time is over, so nothing depends
 * on the watcher but the time of the next command in the line.
 */

#include "agent/ctl/run/run.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/common/manager.h"
#include "agent/ctl/clock.h"

#define SECOND      GM_CLOCK_SECOND
#define LOOK_MS     100 /* between two looks at a file or a port */
#define MANAGER_S   5   /* for a service manager that does not read */
#define MESSAGE_MAX 65536
#define FDS_MAX     253  /* of one message: SCM_MAX_FD */
#define START_S     600u /* without --start-limit */

struct gm_run_start {
	struct gpumap_attach_opts opts;
	char name[GPUMAP_NAME_MAX + 1]; /* of the held map */
	const char *file;               /* --ready-file, or NULL */
	struct stat before;             /* st_ino 0: it was not there */
	uint16_t port;                  /* --ready-tcp, or 0 */
	uint64_t limit_ns;
	uint64_t until_ns;
	bool open; /* the window */
	bool ready;
	int command; /* a pidfd */
	int socket;
	int here; /* the directory where @file begins */
	/* The service manager's socket, if it had one for us. */
	struct sockaddr_un manager;
	socklen_t manager_bytes; /* 0: none */
};

/* ---- before the command starts ------------------------------------------- */

static struct stat look_at(const struct gm_run_start *s)
{
	struct stat st = { .st_ino = 0 };

	return fstatat(s->here, s->file, &st, 0) == 0 ? st : (struct stat){ 0 };
}

static bool is_new(const struct stat *a, const struct stat *b)
{
	return b->st_ino != 0 &&
	       (a->st_ino != b->st_ino || a->st_dev != b->st_dev ||
		a->st_size != b->st_size ||
		memcmp(&a->st_mtim, &b->st_mtim, sizeof(a->st_mtim)) != 0);
}

static bool connects(const struct sockaddr *to, socklen_t bytes)
{
	const struct timeval limit = { .tv_sec = 1 };
	int fd = socket(to->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	bool does;

	if (fd < 0)
		return false;
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
	does = connect(fd, to, bytes) == 0;
	close(fd);
	return does;
}

/* Does a process of this network namespace listen on the port? */
static bool listens(uint16_t port)
{
	const struct sockaddr_in four = { .sin_family = AF_INET,
					  .sin_port = htons(port),
					  .sin_addr.s_addr =
						  htonl(INADDR_LOOPBACK) };
	const struct sockaddr_in6 six = { .sin6_family = AF_INET6,
					  .sin6_port = htons(port),
					  .sin6_addr = IN6ADDR_LOOPBACK_INIT };

	return connects((const struct sockaddr *)&four, sizeof(four)) ||
	       connects((const struct sockaddr *)&six, sizeof(six));
}

/* Open a socket with a name that the kernel chooses, and tell it. */
static int open_socket(struct gm_run *run, struct gm_run_start *s)
{
	struct sockaddr_un own = { .sun_family = AF_UNIX };
	socklen_t bytes = sizeof(own.sun_family);
	const int on = 1;

	s->socket = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (s->socket < 0 ||
	    setsockopt(s->socket, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)) !=
		    0 ||
	    bind(s->socket, (struct sockaddr *)&own, bytes) != 0)
		return -errno;
	bytes = sizeof(own);
	if (getsockname(s->socket, (struct sockaddr *)&own, &bytes) != 0)
		return -errno;
	gm_ctl_words_add(
		&run->env, "NOTIFY_SOCKET=@%.*s",
		(int)(bytes - offsetof(struct sockaddr_un, sun_path) - 1),
		own.sun_path + 1);
	return 0;
}

void gm_run_start_open(struct gm_run *run)
{
	const struct gm_ctl *ctl = run->ctl;
	struct gm_run_start *s;
	int ret;

	if (!GM_GIVEN(ctl, GATE))
		return;
	if (GM_NUMBER(ctl, READY_TCP) != 0 &&
	    listens((uint16_t)GM_NUMBER(ctl, READY_TCP)))
		gm_ctl_failed("run: --ready-tcp %llu: another process has this "
			      "port",
			      (unsigned long long)GM_NUMBER(ctl, READY_TCP));
	run->start = s = gm_ctl_alloc(1, sizeof(*s));
	s->opts = gm_ctl_where(ctl);
	s->file = GM_TEXT(ctl, READY_FILE);
	s->port = (uint16_t)GM_NUMBER(ctl, READY_TCP);
	s->here = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	s->manager_bytes = gm_manager_address(&s->manager);
	ret = open_socket(run, s);
	if (ret != 0)
		gm_ctl_failed("run: a socket for NOTIFY_SOCKET: %s",
			      strerror(-ret));
}

uint64_t gm_run_start_limit_ns(const struct gm_run *run)
{
	uint64_t s = GM_NUMBER(run->ctl, START_LIMIT);

	if (!GM_GIVEN(run->ctl, GATE))
		return 0;
	return gm_clock_of_seconds(s > 0 ? s : START_S);
}

/* ---- messages ------------------------------------------------------------ */

/* A datagram, who sent it, and the descriptors that came with it. */
struct message {
	char text[MESSAGE_MAX];
	size_t n;
	struct ucred from;
	int fds[FDS_MAX];
	size_t n_fds;
};

union control {
	struct cmsghdr align;
	char bytes[CMSG_SPACE(sizeof(struct ucred)) +
		   CMSG_SPACE(FDS_MAX * sizeof(int))];
};

/* Returns false when there is none. */
static bool receive(int fd, struct message *m)
{
	union control control;
	struct iovec part = { m->text, sizeof(m->text) - 1 };
	struct msghdr head = { .msg_iov = &part,
			       .msg_iovlen = 1,
			       .msg_control = &control,
			       .msg_controllen = sizeof(control) };
	ssize_t n = recvmsg(fd, &head, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);

	m->from = (struct ucred){ .uid = (uid_t)-1 };
	m->n_fds = 0;
	if (n < 0)
		return false;
	for (struct cmsghdr *c = CMSG_FIRSTHDR(&head); c != NULL;
	     c = CMSG_NXTHDR(&head, c)) {
		size_t bytes = c->cmsg_len - CMSG_LEN(0);

		if (c->cmsg_level != SOL_SOCKET)
			continue;
		if (c->cmsg_type == SCM_CREDENTIALS && bytes == sizeof(m->from))
			memcpy(&m->from, CMSG_DATA(c), bytes);
		if (c->cmsg_type == SCM_RIGHTS) {
			memcpy(m->fds, CMSG_DATA(c), bytes);
			m->n_fds = bytes / sizeof(m->fds[0]);
		}
	}
	m->n = (size_t)n;
	m->text[n] = '\0';
	if ((head.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0)
		m->from.uid = (uid_t)-1; /* no message */
	return true;
}

static void put_control(void **at, int type, const void *data, size_t n)
{
	struct cmsghdr *c = *at;

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = type;
	c->cmsg_len = CMSG_LEN(n);
	memcpy(CMSG_DATA(c), data, n);
	*at = (char *)*at + CMSG_SPACE(n);
}

/* Send it to the service manager, in the name of its sender or of this
 * process. */
static int forward(const struct gm_run_start *s, const struct message *m,
		   bool as_sender)
{
	const struct timeval limit = { .tv_sec = MANAGER_S };
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct iovec part = { (void *)(uintptr_t)m->text, m->n };
	struct msghdr head = { .msg_iov = &part,
			       .msg_iovlen = 1,
			       .msg_name = (void *)(uintptr_t)&s->manager,
			       .msg_namelen = s->manager_bytes };
	union control control = { .bytes = { 0 } };
	void *at = &control;
	int ret = 0;

	if (fd < 0)
		return -errno;
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
	if (as_sender)
		put_control(&at, SCM_CREDENTIALS, &m->from, sizeof(m->from));
	if (m->n_fds > 0)
		put_control(&at, SCM_RIGHTS, m->fds,
			    m->n_fds * sizeof(m->fds[0]));
	if (at != &control) {
		head.msg_control = &control;
		head.msg_controllen = (size_t)((char *)at - control.bytes);
	}
	if (sendmsg(fd, &head, MSG_NOSIGNAL) < 0)
		ret = -errno;
	close(fd);
	return ret;
}

/* Take one message: another one that follows is looked at after the end of the
 * window that this one may be.  Returns false when there is none. */
static bool take_message(struct gm_run_start *s)
{
	static struct message m;
	bool is_ours;
	int ret;

	if (!receive(s->socket, &m))
		return false;
	is_ours = m.from.uid == geteuid() || m.from.uid == 0;
	if (is_ours && s->manager_bytes > 0) {
		ret = forward(s, &m, true);
		/* Not every user may speak for another process, and no user
		 * for one that has ended. */
		if (ret == -EPERM || ret == -ESRCH)
			forward(s, &m, false);
	}
	for (size_t i = 0; i < m.n_fds; i++)
		close(m.fds[i]);
	for (const char *at = m.text; is_ours && at != NULL;
	     at = strchr(at, '\n')) {
		at += *at == '\n';
		if (strncmp(at, "READY=1", 7) == 0 &&
		    (at[7] == '\n' || at[7] == '\0'))
			s->ready = true;
	}
	return true;
}

/* ---- the watcher --------------------------------------------------------- */

static void look_for_end(struct gm_run_start *s)
{
	struct gpumap *map;
	struct stat now;
	int ret;

	if (!s->ready && s->file != NULL) {
		now = look_at(s);
		s->ready = is_new(&s->before, &now);
	}
	if (!s->ready && s->port != 0)
		s->ready = listens(s->port);
	if (gm_clock_ns() >= s->until_ns)
		s->open = false;
	if (!s->ready)
		return;
	/* Tell the agent that the window is over, which ends with a map that is
	 * gone; an agent that is away comes back with both. */
	ret = gpumap_attach(&s->opts, &map);
	if (ret == 0) {
		ret = gpumap_started(map, s->name);
		gpumap_detach(map);
		if (ret != -ECONNREFUSED && ret != -ECONNRESET &&
		    ret != -ESTALE)
			s->open = false;
	} else if (ret != -ENOENT) {
		s->open = false;
	}
}

static _Noreturn void watch(struct gm_run_start *s)
{
	struct pollfd fds[] = { { .fd = s->command, .events = POLLIN },
				{ .fd = s->socket, .events = POLLIN } };

	for (;;) {
		uint64_t now = gm_clock_ns();
		uint64_t left_ms = s->until_ns > now
					   ? (s->until_ns - now) / 1000000 + 1
					   : 0;

		if (s->ready || s->file != NULL || s->port != 0)
			left_ms = LOOK_MS;
		if (left_ms > 1000000)
			left_ms = 1000000;
		poll(fds, 2, s->open ? (int)left_ms : -1);
		take_message(s);
		if (s->open)
			look_for_end(s);
		if (fds[0].revents == 0)
			continue;
		while (take_message(s)) /* its last words */
			continue;
		_exit(0);
	}
}

static int by_number(const void *a, const void *b)
{
	return *(const int *)a - *(const int *)b;
}

/* Close every descriptor but the @n of @keep and the standard ones, which are
 * of /dev/null from now on. */
static void close_others(int *keep, size_t n)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	unsigned int from = 3;

	for (int fd = 0; fd < 3; fd++)
		if (null < 0 || dup2(null, fd) < 0)
			close(fd);
	qsort(keep, n, sizeof(*keep), by_number);
	for (size_t i = 0; i < n; i++) {
		if (keep[i] > (int)from)
			close_range(from, (unsigned int)keep[i] - 1, 0);
		from = (unsigned int)keep[i] + 1;
	}
	close_range(from, ~0u, 0);
}

/* Go on in a process that is no child of the caller's, in a session of its own,
 * and that takes no signal but SIGKILL. */
static void be_orphan(void)
{
	sigset_t all;

	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	setsid();
	switch (fork()) {
	case -1:
		_exit(1);
	case 0:
		break;
	default:
		_exit(0);
	}
}

/* Reap a child, and leave no SIGCHLD of it to the command, unless one was
 * pending.  Returns whether its status was 0. */
static bool reap(pid_t pid, bool was_pending)
{
	sigset_t chld, pending;
	int status = 0;

	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		continue;
	sigemptyset(&chld);
	sigaddset(&chld, SIGCHLD);
	if (!was_pending && sigpending(&pending) == 0 &&
	    sigismember(&pending, SIGCHLD) == 1)
		sigtimedwait(&chld, NULL, &(struct timespec){ 0 });
	return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

void gm_run_start_watch(const struct gm_run *run)
{
	struct gm_run_start *s = run->start;
	uint64_t limit_ns = gm_run_start_limit_ns(run);
	sigset_t pending;
	bool was_pending;
	pid_t pid;

	strcpy(s->name, run->name);
	if (s->file != NULL)
		s->before = look_at(s);
	s->until_ns = gm_clock_ns() + limit_ns;
	s->open = true;
	s->command = (int)syscall(SYS_pidfd_open, getpid(), 0);
	sigpending(&pending);
	was_pending = sigismember(&pending, SIGCHLD) == 1;
	pid = s->command >= 0 ? fork() : -1;
	if (pid == 0) {
		int keep[] = { s->command, s->socket, s->here };

		/* The watcher is no child of the command's. */
		be_orphan();
		close_others(keep, 3);
		watch(s);
	}
	if (pid < 0 || !reap(pid, was_pending))
		gm_ctl_failed("run: cannot start the process that ends the "
			      "start window: %s",
			      strerror(errno));
}
