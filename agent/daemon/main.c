/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * gpumapd - publish this node's map, and run a worker for each of its devices.
 *
 * Exit status
 *
 *	0	ended by SIGTERM or SIGINT, or --remove, --help, --version
 *	1	failed; the log says why
 *	2	command line or configuration: "file:line: what is wrong"; with
 *		shares that a service manager keeps it is 1
 *	3	another process runs this instance
 *	4	io_uring is refused
 *	5	/dev/shm is too small for the segment
 *	6	no permission, or a file in /dev/shm is not ours
 */

#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "agent/common/log.h"
#include "agent/common/node_clock.h"
#include "agent/common/sched_hint.h"
#include "agent/daemon/base/deferred_close.h"
#include "agent/daemon/base/fd_limits.h"
#include "agent/common/manager.h"
#include "agent/daemon/base/oom.h"
#include "agent/daemon/base/parts.h"
#include "agent/daemon/config.h"
#include "agent/daemon/daemon.h"
#include "shm/names.h"

#define ADVICE_S 10u /* from one look at a wrong configuration to the next */

static const char usage[] =
	"Usage: gpumapd [OPTION]...\n"
	"Publish this node's map and run a worker for each of its devices.\n"
	"\n"
	"  --instance NAME     name of the map (default: node)\n"
	"  --runtime-dir DIR   where the control socket is (default: "
	"/run/gpumap)\n"
	"  --state-dir DIR     where published maps are kept (default:\n"
	"                      /var/lib/gpumap)\n"
	"  --config FILE       configuration, with FILE.d/*.conf (default:\n"
	"                      " GM_SYSCONFDIR "/gpumap/gpumapd.conf)\n"
	"  --worker PATH       worker program (default:\n"
	"                      " GM_PKGLIBEXECDIR "/gpumap-worker)\n"
	"  --probe PATH        program that looks for GPUs (default:\n"
	"                      " GM_PKGLIBEXECDIR "/gpumap-probe)\n"
	"  --loader PATH       program that loads listed models (default:\n"
	"                      " GM_BINDIR "/gpumapctl)\n"
	"  --remove            retire and unlink the map of an instance that\n"
	"                      is not running, then exit\n"
	"  --help, --version\n";

enum option_value {
	OPT_INSTANCE = 1,
	OPT_RUNTIME_DIR,
	OPT_STATE_DIR,
	OPT_CONFIG,
	OPT_WORKER,
	OPT_PROBE,
	OPT_LOADER,
	OPT_REMOVE,
	OPT_HELP,
	OPT_VERSION
};

static const struct option options[] = {
	{ "instance", required_argument, NULL, OPT_INSTANCE },
	{ "runtime-dir", required_argument, NULL, OPT_RUNTIME_DIR },
	{ "state-dir", required_argument, NULL, OPT_STATE_DIR },
	{ "config", required_argument, NULL, OPT_CONFIG },
	{ "worker", required_argument, NULL, OPT_WORKER },
	{ "probe", required_argument, NULL, OPT_PROBE },
	{ "loader", required_argument, NULL, OPT_LOADER },
	{ "remove", no_argument, NULL, OPT_REMOVE },
	{ "help", no_argument, NULL, OPT_HELP },
	{ "version", no_argument, NULL, OPT_VERSION },
	{ NULL, 0, NULL, 0 },
};

struct command {
	bool remove;
	const char *config_path; /* never NULL */
	bool config_named;
};

/* getopt_long() has stopped, with @c. */
static int bad_option(int c, char **argv)
{
	const char letter[] = { '-', (char)optopt, '\0' };
	const char *what = argv[optind - 1], *why;

	if (c == ':')
		why = "wants a value";
	else if (optopt >= OPT_INSTANCE && optopt <= OPT_VERSION)
		why = "takes no value";
	else if (optopt != 0)
		what = letter, why = "is no option";
	else
		why = "is no option, or the beginning of several";
	fprintf(stderr, "gpumapd: %s %s: see gpumapd --help\n", what, why);
	return GM_EXIT_CONFIG;
}

/* Returns -1 to go on, or a status to exit with. */
static int read_options(struct gm_daemon *d, struct command *ret_command,
			int argc, char **argv)
{
	int c;

	opterr = 0;
	while ((c = getopt_long(argc, argv, ":", options, NULL)) != -1) {
		switch (c) {
		case OPT_INSTANCE:
			d->instance = optarg;
			break;
		case OPT_RUNTIME_DIR:
			d->runtime_dir = optarg;
			break;
		case OPT_STATE_DIR:
			d->state_dir = optarg;
			break;
		case OPT_CONFIG:
			ret_command->config_path = optarg;
			ret_command->config_named = true;
			break;
		case OPT_WORKER:
			d->worker_path = optarg;
			break;
		case OPT_PROBE:
			d->probe_path = optarg;
			break;
		case OPT_LOADER:
			d->loader_path = optarg;
			break;
		case OPT_REMOVE:
			ret_command->remove = true;
			break;
		case OPT_HELP:
			fputs(usage, stdout);
			return GM_EXIT_OK;
		case OPT_VERSION:
			puts("gpumapd " PACKAGE_VERSION);
			return GM_EXIT_OK;
		default:
			return bad_option(c, argv);
		}
	}
	if (optind == argc)
		return -1;
	fprintf(stderr,
		"gpumapd: %s is no option, and nothing else is taken: see "
		"gpumapd --help\n",
		argv[optind]);
	return GM_EXIT_CONFIG;
}

/* A process that can write there could replace the socket.  One that can list
 * the directory can keep this process from adding or removing the socket.
 * Returns 0 or an errno. */
static int check_runtime_dir(const char *path, const struct stat *st)
{
	if (!S_ISDIR(st->st_mode))
		return ENOTDIR;
	if ((st->st_mode & (S_IWGRP | S_IWOTH)) != 0 ||
	    (st->st_uid != 0 && st->st_uid != geteuid()))
		return EPERM;
	if ((st->st_mode & (S_IRGRP | S_IROTH)) != 0)
		gm_log(GM_LOG_WARNING, "runtime_dir_listed",
		       "path=%s why=%s remedy=%s", gm_quote(path).text,
		       gm_quote("a user who lists it for ever can keep "
				"gpumapd from starting or ending")
			       .text,
		       gm_quote("chmod go-r").text);
	return 0;
}

/* mkdir() alone would wait for those who list the directory above, also where
 * this one is there. */
static int make_runtime_dir(const char *path)
{
	const char *why;
	struct stat st;
	int error = 0;

	if (stat(path, &st) != 0 && errno == ENOENT &&
	    mkdir(path, GM_NAMES_MODE) != 0 && errno != EEXIST)
		error = errno;
	if (error == 0)
		error = stat(path, &st) == 0 ? check_runtime_dir(path, &st)
					     : errno;
	if (error == 0)
		return 0;
	why = error == EPERM ? "another user may write it or owns it"
			     : strerror(error);
	gm_log(GM_LOG_ERROR, "runtime_dir", "path=%s why=%s remedy=%s",
	       gm_quote(path).text, gm_quote(why).text,
	       gm_quote(error == ENOENT
				? "make the directory that it is to be in"
				: "give a directory with --runtime-dir that is "
				  "root's or yours, and that no other may "
				  "write (chmod go-w)")
		       .text);
	return gm_exit_status(-error);
}

/* All that gpumapd has opened is closed at its end, but for descriptors whose
 * close takes long. */
static void tell_left_over(int before)
{
	/* Counted first: one that is closed meanwhile is not left over. */
	int closing = (int)gm_deferred_close_left();
	int after = gm_fd_limits_count() - closing;

	if (before >= 0 && after > before)
		gm_log(GM_LOG_WARNING, "left_over", "descriptors=%d",
		       after - before);
}

static int run(struct gm_daemon *d, const struct command *command)
{
	char why[GM_CONFIG_WHY_BYTES];
	int ret, status, n_open = gm_fd_limits_count();

	/* 0711 directories, 0644 segment, 0600 lock: no surprises. */
	umask(022);
	gm_fd_limits_raise();
	gm_sched_hint_prompt();
	gm_oom_protect();
	if (command->remove)
		return gm_daemon_remove(d->instance);

	gm_config_init(d->config);
	ret = gm_config_read(d->config, command->config_path,
			     command->config_named, why);
	if (ret < 0) {
		gm_log(GM_LOG_ERROR, "config", "why=%s", gm_quote(why).text);
		gm_config_free(d->config);
		return GM_EXIT_CONFIG;
	}
	gm_log(GM_LOG_INFO, "config", "path=%s files=%d",
	       gm_quote(command->config_path).text, ret);
	if (d->config->worker_is_unnamed)
		gm_log(GM_LOG_INFO, "worker_uid",
		       "uid=%u why=\"there is no user gpumap, and no user in "
		       "[worker] of gpumapd.conf\"",
		       (unsigned)d->config->worker_uid);
	status = make_runtime_dir(d->runtime_dir);
	if (status == 0)
		status = gm_daemon_run(d);
	tell_left_over(n_open);
	gm_config_free(d->config);
	return status;
}

/* A manager that sees exit status 2 starts no next agent, and systemd closes
 * what it has kept.  With shares the status is another one, and the next agent
 * comes after a while, or at a signal. */
static int wait_for_advice(void)
{
	const struct timespec limit = { .tv_sec = ADVICE_S };
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	sigprocmask(SIG_BLOCK, &set, NULL);
	gm_log(GM_LOG_WARNING, "waiting", "retry_s=%u why=%s remedy=%s",
	       ADVICE_S,
	       gm_quote("the service manager keeps shares for the next agent")
		       .text,
	       gm_quote("mend what the error before this line says").text);
	sigtimedwait(&set, NULL, &limit);
	return GM_EXIT_FAILURE;
}

int main(int argc, char **argv)
{
	bool has_kept = gm_manager_has_kept();
	struct gm_daemon *d = gm_daemon_new();
	struct command command = { .config_path = GM_SYSCONFDIR
				   "/gpumap/gpumapd.conf" };
	int status;

	gm_log_stamp();
	gm_node_clock_begin();
	if (d == NULL)
		return GM_EXIT_FAILURE;
	d->instance = "node";
	d->runtime_dir = "/run/gpumap";
	d->state_dir = "/var/lib/gpumap";
	d->worker_path = GM_PKGLIBEXECDIR "/gpumap-worker";
	d->probe_path = GM_PKGLIBEXECDIR "/gpumap-probe";
	d->loader_path = GM_BINDIR "/gpumapctl";
	status = read_options(d, &command, argc, argv);
	if (status < 0)
		status = run(d, &command);
	gm_daemon_free(d);
	return status == GM_EXIT_CONFIG && has_kept ? wait_for_advice()
						    : status;
}
