/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * gpumap-build - compiles programs for a worker.  Started by a worker only.
 *
 * The process that a worker starts reads requests (build_wire.h) and looks at
 * no text.  For each the process has a child, which it ends when the time is
 * over, or when the worker is gone.
 *
 * The process that compiles reads and runs what the system's packages brought,
 * writes below the worker's own folder, reaches no network, and uses limited
 * time and memory.  A text can take it over, and gets no more than that.
 */

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/common/fds.h"
#include "agent/common/write_all.h"
#include "agent/device/opencl.h"
#include "agent/worker/control/sandbox.h"

#define MEMORY_BYTES (UINT64_C(8) << 30)

struct options {
	const char *library;
	const char *device; /* "": the first */
	const char *cache;
	unsigned long limit_s;
};

static void __attribute__((noreturn)) usage(const char *why)
{
	fprintf(stderr,
		"gpumap-build: %s\n"
		"gpumap-build is started by gpumap-worker, see gpumapd(8).\n"
		"usage: gpumap-build --library FILE --device ID --cache DIR\n"
		"       [--limit SECONDS]\n",
		why);
	exit(2);
}

static struct options parse(int argc, char **argv)
{
	static const struct option known[] = {
		{ "library", required_argument, NULL, 0 },
		{ "device", required_argument, NULL, 0 },
		{ "cache", required_argument, NULL, 0 },
		{ "limit", required_argument, NULL, 0 },
		{ 0 },
	};
	const char *given[] = { NULL, "", NULL, NULL };
	struct options o = { .limit_s = GM_BUILD_LIMIT_S };
	int c, i = 0;

	opterr = 0;
	while ((c = getopt_long(argc, argv, "", known, &i)) == 0)
		given[i] = optarg;
	o.library = given[0];
	o.device = given[1];
	o.cache = given[2];
	if (given[3])
		o.limit_s = strtoul(given[3], NULL, 10);
	if (c != -1 || !o.library || !o.cache || o.limit_s < 1 ||
	    o.limit_s > 3600)
		usage("--library and --cache are needed, and a limit of 1 to "
		      "3600");
	return o;
}

/* ---- one text ------------------------------------------------------------ */

static void limit(int what, uint64_t most)
{
	const struct rlimit both = { most, most };

	if (setrlimit(what, &both) < 0)
		usage(strerror(errno));
}

/* Without Landlock the folders of other workers of this user are open to it. */
static void confine(const struct options *o)
{
	const char *step;
	int rc;

	limit(RLIMIT_CPU, o->limit_s);
	limit(RLIMIT_FSIZE, GM_BUILD_MAX);
	limit(RLIMIT_CORE, 0);
#ifndef GM_SANITIZED
	limit(RLIMIT_DATA, MEMORY_BYTES);
#endif
	rc = gm_sandbox_files(o->cache);
	if (rc == 0)
		rc = gm_sandbox_reads(o->library, o->cache, NULL);
	if (rc < 0 && rc != -ENOSYS && rc != -EOPNOTSUPP && rc != -EPERM)
		usage(strerror(-rc));
	rc = gm_sandbox_self(GM_CONFINE_BUILD, &step);
	if (rc < 0)
		usage(step);
}

static struct gm_kernel_image read_image(int fd, const char *kernel)
{
	struct stat st;
	char *text = NULL;

	if (fstat(fd, &st) == 0 && (uint64_t)st.st_size <= GM_BUILD_MAX)
		text = malloc((size_t)st.st_size + 1);
	if (!text || pread(fd, text, (size_t)st.st_size, 0) != st.st_size)
		usage("the text cannot be read");
	text[st.st_size] = '\0';
	return (struct gm_kernel_image){ text, (size_t)st.st_size, kernel };
}

/* A client writes no line of the agent's log. */
static void set_output(const char *kernel)
{
	int fd = kernel[0] ? open("/dev/null", O_WRONLY | O_CLOEXEC)
			   : STDERR_FILENO;

	if (fd < 0 || dup2(fd, STDERR_FILENO) < 0 ||
	    dup2(fd, STDOUT_FILENO) < 0)
		usage("there is no /dev/null");
}

/* In a process of its own.  No exit handlers: a library may hang in its own. */
static void __attribute__((noreturn))
build_one(const struct options *o, const struct gm_build_ask *ask,
	  const int fds[2])
{
	struct gm_build_answer answer = { 0 };
	struct gm_kernel_image image, binary = { 0 };

	setpgid(0, 0);
	prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	prctl(PR_SET_DUMPABLE, 1, 0, 0, 0); /* compilers read /proc/self */
	close(GM_BUILD_FD);
	set_output(ask->kernel);
	setenv("TMPDIR", o->cache, 1);
	confine(o);
	image = read_image(fds[0], ask->kernel);
	answer.status =
		gm_opencl_compile(o->library, o->device[0] ? o->device : NULL,
				  &image, ask->options, &binary, answer.why);
	if (gm_write_all(fds[1], &answer, sizeof(answer)) < 0 ||
	    gm_write_all(fds[1], binary.bytes, binary.n) < 0)
		_exit(EXIT_FAILURE);
	_exit(EXIT_SUCCESS);
}

/* ---- requests ------------------------------------------------------------ */

/* Returns 1; 0: the worker is gone, or says what is none. */
static int receive(struct gm_build_ask *ret_ask, int ret_fds[2])
{
	struct iovec part = { ret_ask, sizeof(*ret_ask) };
	struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1 };
	union gm_fds_room room;
	ssize_t n;

	gm_fds_expect(&message, &room, 2);
	do {
		n = recvmsg(GM_BUILD_FD, &message, MSG_CMSG_CLOEXEC);
	} while (n < 0 && errno == EINTR);
	if (n != (ssize_t)sizeof(*ret_ask) ||
	    (message.msg_flags & MSG_CTRUNC) ||
	    gm_fds_take(&message, ret_fds) != 2)
		return 0;
	ret_ask->options[GM_BUILD_OPTIONS - 1] = '\0';
	ret_ask->kernel[GM_BUILD_NAME - 1] = '\0';
	return 1;
}

/* The compiler's CPU has the limit; the clock ends one that waits.  Returns 0;
 * -ETIMEDOUT; -EPIPE: the worker is gone. */
static int wait_for(int pidfd)
{
	struct pollfd polled[] = { { .fd = pidfd, .events = POLLIN },
				   { .fd = GM_BUILD_FD } };
	int rc;

	do {
		rc = poll(polled, 2, (int)GM_BUILD_WAIT_S * 1000);
	} while (rc < 0 && errno == EINTR);
	if (rc <= 0)
		return rc < 0 ? -errno : -ETIMEDOUT;
	return polled[0].revents ? 0 : -EPIPE;
}

static unsigned long ms_of(const struct timeval *time)
{
	return (unsigned long)(time->tv_sec * 1000 + time->tv_usec / 1000);
}

static void explain(const struct options *o, int status,
		    const struct rusage *used, struct gm_build_answer *answer)
{
	unsigned long cpu_ms = ms_of(&used->ru_utime) + ms_of(&used->ru_stime);

	if (WIFEXITED(status) && WEXITSTATUS(status) == EXIT_SUCCESS)
		return;
	answer->status = -ENOEXEC;
	if (WIFEXITED(status)) {
		snprintf(answer->why, sizeof(answer->why),
			 "the compiler ended with status %d",
			 WEXITSTATUS(status));
	} else if (WTERMSIG(status) == SIGKILL && cpu_ms >= o->limit_s * 500) {
		/* Limits count whole ticks, and rusage what was used. */
		answer->status = -ETIMEDOUT;
		snprintf(answer->why, sizeof(answer->why),
			 "compiling it takes more than %lu s of a CPU",
			 o->limit_s);
	} else {
		snprintf(answer->why, sizeof(answer->why),
			 "the compiler was ended by signal %d: see what the "
			 "text does to it",
			 WTERMSIG(status));
	}
}

/* The programs that the process has started are in its group, and end with
 * it. */
static int finish(const struct options *o, pid_t pid,
		  struct gm_build_answer *answer)
{
	int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	int rc = pidfd < 0 ? -errno : wait_for(pidfd);
	struct rusage used;
	int status;

	kill(-pid, SIGKILL);
	while (wait4(pid, &status, 0, &used) < 0 && errno == EINTR)
		;
	if (pidfd >= 0)
		close(pidfd);
	if (rc == -ETIMEDOUT) {
		answer->status = rc;
		snprintf(answer->why, sizeof(answer->why),
			 "compiling it takes more than %u s", GM_BUILD_WAIT_S);
	} else if (rc == 0) {
		explain(o, status, &used, answer);
	}
	return rc == -ETIMEDOUT ? 0 : rc;
}

static int serve(const struct options *o)
{
	struct gm_build_ask ask;
	int fds[2], rc = 0;

	/* The worker's thread that started this process is its first. */
	prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		usage(strerror(errno));
	while (rc == 0 && receive(&ask, fds)) {
		struct gm_build_answer answer = { 0 };
		pid_t pid = fork();

		if (pid == 0)
			build_one(o, &ask, fds);
		if (pid > 0)
			setpgid(pid, pid);
		rc = pid < 0 ? -errno : finish(o, pid, &answer);
		close(fds[0]);
		close(fds[1]);
		if (rc == 0 && send(GM_BUILD_FD, &answer, sizeof(answer),
				    MSG_NOSIGNAL) < 0)
			rc = -errno;
	}
	return rc == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

int main(int argc, char **argv)
{
	struct options o = parse(argc, argv);

	return serve(&o);
}
