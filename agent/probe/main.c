/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * gpumap-probe - finds this node's GPUs and watches them.  Started by gpumapd
 * only: see probe.h.
 */

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <grp.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/common/log.h"
#include "agent/common/node_clock.h"
#include "agent/common/probe_wire.h"
#include "agent/probe/probe.h"

#define MS_MAX 3600000ul /* of --refresh */

static uid_t uid = (uid_t)-1;
static gid_t gid = (gid_t)-1;

static void __attribute__((noreturn)) usage(const char *why)
{
	fprintf(stderr,
		"gpumap-probe: %s\n"
		"gpumap-probe is started by gpumapd, see gpumapd(8).\n"
		"usage: gpumap-probe --census | --watch N | --peers LIST |\n"
		"       --driver ORDER [--device ID] | --list DRIVER\n"
		"       [--library DIR] [--sysfs DIR] [--refresh TIME]\n"
		"       [--uid U] [--gid G]\n",
		why);
	exit(2);
}

static unsigned long number(const char *text, unsigned long max,
			    const char *what)
{
	unsigned long n;
	char *end;

	errno = 0;
	n = strtoul(text, &end, 10);
	if (errno || text[0] < '0' || text[0] > '9' || *end || n > max)
		usage(what);
	return n;
}

static void set_option(struct gm_probe_options *o, int c)
{
	switch (c) {
	case 'l':
		o->library = optarg;
		return;
	case 's':
		o->sysfs = optarg;
		return;
	case 'r':
		o->refresh_ms =
			(uint32_t)number(optarg, MS_MAX, "bad --refresh");
		return;
	case 'u':
		uid = (uid_t)number(optarg, UINT_MAX - 1ul, "bad --uid");
		return;
	case 'g':
		gid = (gid_t)number(optarg, UINT_MAX - 1ul, "bad --gid");
		return;
	case 'd':
		o->device = optarg;
		return;
	case 'o':
		o->devices = optarg;
		return;
	case 'n':
		o->with_nvidia = true;
		return;
	case '?':
		usage("unknown option");
	}
	if (o->role != 0)
		usage("one role only");
	o->role = (uint32_t)c;
	o->list = o->order = o->driver = optarg;
	if (c == GM_ROLE_WATCH)
		o->index = (uint32_t)number(optarg, GM_PROBE_GPUS - 1,
					    "bad --watch");
}

static struct gm_probe_options parse(int argc, char **argv)
{
	static const struct option known[] = {
		{ "library", required_argument, NULL, 'l' },
		{ "sysfs", required_argument, NULL, 's' },
		{ "refresh", required_argument, NULL, 'r' },
		{ "uid", required_argument, NULL, 'u' },
		{ "gid", required_argument, NULL, 'g' },
		{ "census", no_argument, NULL, GM_ROLE_CENSUS },
		{ "watch", required_argument, NULL, GM_ROLE_WATCH },
		{ "peers", required_argument, NULL, GM_ROLE_PEERS },
		{ "driver", required_argument, NULL, GM_ROLE_DRIVER },
		{ "device", required_argument, NULL, 'd' },
		{ "list", required_argument, NULL, GM_ROLE_LIST },
		{ "devices", required_argument, NULL, 'o' },
		{ "with-nvidia", no_argument, NULL, 'n' },
		{ 0 },
	};
	struct gm_probe_options o = { .refresh_ms = 1000 };
	int c;

	opterr = 0;
	while ((c = getopt_long(argc, argv, "", known, NULL)) != -1)
		set_option(&o, c);
	if (optind < argc)
		usage("what is left is no option");
	if (o.role == 0)
		usage("no role");
	if (o.role == GM_ROLE_LIST && (!o.library || !o.devices))
		usage("--list needs --library and --devices");
	return o;
}

static void check_socket(void)
{
	struct stat st;

	if (fstat(GM_PROBE_FD, &st) < 0 || !S_ISSOCK(st.st_mode) ||
	    fcntl(GM_PROBE_FD, F_SETFD, FD_CLOEXEC) < 0)
		usage("descriptor 3 is no socket");
}

/* A driver's nodes are made before we start; what we are then does for all. */
static void drop_privileges(void)
{
	if (geteuid() == 0 && gid != (gid_t)-1 &&
	    (setgroups(0, NULL) < 0 || setresgid(gid, gid, gid) < 0))
		usage(strerror(errno));
	if (geteuid() == 0 && uid != (uid_t)-1 && setresuid(uid, uid, uid) < 0)
		usage(strerror(errno));
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		usage(strerror(errno));
}

/* The parent may have died before we asked to die with it. */
static void follow_parent(void)
{
	struct pollfd parent = { .fd = GM_PROBE_FD };

	prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	if (poll(&parent, 1, 0) > 0)
		exit(EXIT_FAILURE);
}

int main(int argc, char **argv)
{
	static int (*const roles[])(const struct gm_probe_options *o) = {
		[GM_ROLE_CENSUS] = gm_enumerate_run,
		[GM_ROLE_WATCH] = gm_watch_run,
		[GM_ROLE_PEERS] = gm_peers_run,
		[GM_ROLE_DRIVER] = gm_driver_query_run,
		[GM_ROLE_LIST] = gm_list_run,
	};
	struct gm_probe_options o = parse(argc, argv);

	check_socket();
	/* A terminal's interrupt is for gpumapd, which ends us. */
	signal(SIGINT, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	signal(SIGPIPE, SIG_IGN);
	gm_log_stamp();
	gm_node_clock_begin();
	gm_log_context("by=probe");
	drop_privileges();
	/* After the change of user, which would undo it. */
	follow_parent();
	return roles[o.role](&o);
}
