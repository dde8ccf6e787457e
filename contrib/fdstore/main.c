/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * gpumap-fdstore - run gpumapd, keep the descriptors of its shares, and start
 * it anew when it has ended, where systemd does not.
 *
 * The messages of one agent are read before the next one starts, so that the
 * next one gets all that was sent.
 */

#include <errno.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/common/log.h"
#include "contrib/fdstore/store.h"

#define MOST_DEFAULT  4096ul
#define MOST_MAX      4096ul /* names of gpumapd's that fit in a variable */
#define DELAY_DEFAULT 200ul  /* ms, as RestartSec= of gpumapd.service */
#define DELAY_MAX     3600000ul
#define EXIT_CONFIG   2 /* gpumapd's: the next start would fail, too */

struct supervisor {
	struct store store;
	char **command;
	int signals;
	unsigned long delay_ms;
	struct rlimit files; /* as the command shall have it */
	pid_t child;         /* 0: none runs */
	bool is_ending;
	bool is_told; /* by SIGHUP, to start the command again */
};

static int usage(FILE *to)
{
	fputs("usage: gpumap-fdstore [--max N] [--delay MS] [--] COMMAND...\n"
	      "See gpumap-fdstore(8).\n",
	      to);
	return to == stdout ? EXIT_SUCCESS : EXIT_CONFIG;
}

/* ---- the command --------------------------------------------------------- */

static _Noreturn void run(const struct supervisor *v, pid_t parent)
{
	char number[24];
	sigset_t none;
	int ret;

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (getppid() != parent)
		_exit(EXIT_FAILURE);
	ret = store_hand_over(&v->store);
	snprintf(number, sizeof(number), "%d", (int)getpid());
	setenv("LISTEN_PID", number, 1);
	snprintf(number, sizeof(number), "%u", v->store.most);
	setenv("FDSTORE", number, 1);
	setenv("NOTIFY_SOCKET", v->store.path, 1);
	unsetenv("WATCHDOG_USEC");
	unsetenv("WATCHDOG_PID");
	setrlimit(RLIMIT_NOFILE, &v->files);
	if (ret == 0) {
		execvp(v->command[0], v->command);
		ret = -errno;
	}
	gm_log(GM_LOG_ERROR, "not_started", "command=%s why=%s",
	       gm_quote(v->command[0]).text, gm_quote(strerror(-ret)).text);
	_exit(ret == -ENOENT ? EXIT_CONFIG : EXIT_FAILURE);
}

static int start(struct supervisor *v)
{
	pid_t parent = getpid();

	v->child = fork();
	if (v->child == 0)
		run(v, parent);
	if (v->child < 0) {
		int error = errno;

		v->child = 0;
		gm_log(GM_LOG_ERROR, "not_started", "why=%s",
		       gm_quote(strerror(error)).text);
		return -error;
	}
	gm_log(GM_LOG_INFO, "started", "pid=%d kept=%u", (int)v->child,
	       v->store.n);
	return 0;
}

/* ---- signals ------------------------------------------------------------- */

static void take_signal(struct supervisor *v)
{
	struct signalfd_siginfo info;

	if (read(v->signals, &info, sizeof(info)) != sizeof(info) ||
	    info.ssi_signo == SIGCHLD)
		return;
	/* A hang-up is for a restart: the command ends, and is started anew. */
	v->is_told |= info.ssi_signo == SIGHUP;
	v->is_ending |= info.ssi_signo != SIGHUP;
	if (v->child > 0)
		kill(v->child, SIGTERM);
}

/* Wait for a signal or a message, up to @ms; -1: for ever. */
static void wait_for(struct supervisor *v, int ms)
{
	struct pollfd fds[2] = { { .fd = v->signals, .events = POLLIN },
				 { .fd = v->store.socket, .events = POLLIN } };

	/* Messages count while the command runs, and are read at its end. */
	if (poll(fds, v->child > 0 ? 2 : 1, ms) <= 0)
		return;
	if (fds[1].revents && v->child > 0)
		store_read(&v->store, v->child);
	if (fds[0].revents)
		take_signal(v);
}

/* The first process of a container has the orphans of its pid namespace as
 * children, too. */
static bool has_ended(pid_t child, int *ret_status)
{
	pid_t pid;

	do
		pid = waitpid(-1, ret_status, WNOHANG);
	while (pid > 0 && pid != child);
	return pid == child;
}

/* Until it has ended.  Returns its exit status, or 128 and the signal. */
static int watch(struct supervisor *v)
{
	pid_t child = v->child;
	int status;

	while (!has_ended(child, &status))
		wait_for(v, -1);
	store_read(&v->store, child);
	v->child = 0;
	status = WIFEXITED(status) ? WEXITSTATUS(status)
				   : 128 + WTERMSIG(status);
	gm_log(GM_LOG_INFO, "ended", "pid=%d status=%d kept=%u", (int)child,
	       status, v->store.n);
	return status;
}

/* The next start would end as this one did, and the shares would be lost with
 * us: the administrator is to look. */
static void wait_for_advice(struct supervisor *v)
{
	gm_log(GM_LOG_ERROR, "waiting", "kept=%u remedy=%s", v->store.n,
	       gm_quote("see the command's error, and send SIGHUP").text);
	v->is_told = false;
	while (!v->is_told && !v->is_ending)
		wait_for(v, -1);
}

static int supervise(struct supervisor *v)
{
	int status = EXIT_FAILURE;

	while (!v->is_ending) {
		if (start(v) == 0)
			status = watch(v);
		if (status == EXIT_CONFIG && v->store.n == 0)
			break;
		if (status == EXIT_CONFIG)
			wait_for_advice(v);
		else if (!v->is_ending)
			wait_for(v, (int)v->delay_ms);
	}
	return status;
}

/* ---- the command line ---------------------------------------------------- */

static bool number_of(const char *text, unsigned long max, unsigned long *ret)
{
	char *end;

	errno = 0;
	*ret = strtoul(text, &end, 10);
	return text[0] >= '0' && text[0] <= '9' && *end == '\0' && errno == 0 &&
	       *ret <= max;
}

static int prepare(struct supervisor *v, unsigned long most)
{
	struct rlimit all = { .rlim_max = 0 };
	sigset_t set;
	int ret;

	if (getrlimit(RLIMIT_NOFILE, &v->files) == 0) {
		all = v->files;
		all.rlim_cur = all.rlim_max;
		setrlimit(RLIMIT_NOFILE, &all);
	}
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	sigaddset(&set, SIGCHLD);
	sigprocmask(SIG_BLOCK, &set, NULL);
	/* Each is open twice while the next command is started. */
	if (all.rlim_max / 2 < most + 64) {
		most = all.rlim_max / 2 > 128 ? all.rlim_max / 2 - 64 : 64;
		gm_log(GM_LOG_WARNING, "few_descriptors",
		       "limit=%llu max=%lu remedy=\"raise ulimit -Hn\"",
		       (unsigned long long)all.rlim_max, most);
	}
	v->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	ret = v->signals < 0 ? -errno : store_open(&v->store, (unsigned)most);
	if (ret != 0)
		gm_log(GM_LOG_ERROR, "no_socket", "why=%s",
		       gm_quote(strerror(-ret)).text);
	return ret;
}

int main(int argc, char *argv[])
{
	static const struct option options[] = {
		{ "max", required_argument, NULL, 'm' },
		{ "delay", required_argument, NULL, 'd' },
		{ "help", no_argument, NULL, 'h' },
		{ "version", no_argument, NULL, 'V' },
		{ NULL, 0, NULL, 0 }
	};
	struct supervisor v = { .delay_ms = DELAY_DEFAULT };
	unsigned long most = MOST_DEFAULT;
	int c, status = EXIT_FAILURE;

	gm_log_stamp();
	while ((c = getopt_long(argc, argv, "+", options, NULL)) != -1) {
		if (c == 'h')
			return usage(stdout);
		if (c == 'V') {
			puts("gpumap-fdstore " PACKAGE_VERSION);
			return EXIT_SUCCESS;
		}
		if ((c != 'm' || !number_of(optarg, MOST_MAX, &most) ||
		     most == 0) &&
		    (c != 'd' || !number_of(optarg, DELAY_MAX, &v.delay_ms)))
			return usage(stderr);
	}
	if (optind == argc)
		return usage(stderr);
	v.command = argv + optind;
	if (prepare(&v, most) == 0)
		status = supervise(&v);
	store_close(&v.store);
	return status;
}
