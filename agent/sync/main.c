/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * gpumap-sync - join this node's map with those of other nodes.
 *
 * Exit status
 *
 *	0	ended by SIGTERM, SIGINT or SIGHUP, or --check-config, --help,
 *		--version
 *	1	failed; the log says why
 *	2	command line or configuration
 *	3	another gpumap-sync has the socket
 */

#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include "agent/common/log.h"
#include "agent/common/manager.h"
#include "agent/common/sched_hint.h"
#include "agent/sync/config.h"
#include "agent/sync/sync.h"

#define CONFIG_DEFAULT GM_SYSCONFDIR "/gpumap/gpumap-sync.conf"

enum { EXIT_CONFIG = 2, EXIT_RUNS = 3 };

static const char usage[] =
	"Usage: gpumap-sync [OPTION]...\n"
	"Join this node's map with those of other nodes.\n"
	"\n"
	"  --config FILE       configuration, with FILE.d/*.conf (default:\n"
	"                      " CONFIG_DEFAULT ")\n"
	"  --check-config      read it, say what is wrong, and exit\n"
	"  --instance NAME     of the agent; goes before the configuration\n"
	"  --runtime-dir DIR   of the agent; goes before the configuration\n"
	"  --help, --version\n";

struct options {
	const char *config;
	bool config_named;
	bool check;
	char *instance;
	char *runtime_dir;
};

/* Returns -1 to go on, or a status to exit with. */
static int read_options(struct options *o, int argc, char **argv)
{
	static const struct option longs[] = {
		{ "config", required_argument, NULL, 'c' },
		{ "check-config", no_argument, NULL, 'k' },
		{ "instance", required_argument, NULL, 'n' },
		{ "runtime-dir", required_argument, NULL, 'r' },
		{ "help", no_argument, NULL, 'h' },
		{ "version", no_argument, NULL, 'V' },
		{ NULL, 0, NULL, 0 },
	};
	int c;

	while ((c = getopt_long(argc, argv, "", longs, NULL)) >= 0) {
		switch (c) {
		case 'c':
			o->config = optarg;
			o->config_named = true;
			break;
		case 'k':
			o->check = true;
			break;
		case 'n':
			o->instance = optarg;
			break;
		case 'r':
			o->runtime_dir = optarg;
			break;
		case 'h':
			fputs(usage, stdout);
			return EXIT_SUCCESS;
		case 'V':
			puts("gpumap-sync " PACKAGE_VERSION);
			return EXIT_SUCCESS;
		default:
			fputs("See gpumap-sync --help.\n", stderr);
			return EXIT_CONFIG;
		}
	}
	if (optind == argc)
		return -1;
	fprintf(stderr,
		"gpumap-sync: %s is no option, and nothing else is taken: see "
		"gpumap-sync --help\n",
		argv[optind]);
	return EXIT_CONFIG;
}

static int replace(char **to, const char *by)
{
	char *copy = by != NULL ? strdup(by) : NULL;

	if (by == NULL)
		return 0;
	if (copy == NULL)
		return -ENOMEM;
	free(*to);
	*to = copy;
	return 0;
}

static int read_config(struct gm_sync_config *config, const struct options *o)
{
	char why[GM_INI_WHY_BYTES];
	int n = gm_sync_config_read(config, o->config, o->config_named, why);
	int ret = n < 0 ? n : replace(&config->instance, o->instance);

	if (ret == 0)
		ret = replace(&config->runtime_dir, o->runtime_dir);
	if (ret != 0)
		gm_log(GM_LOG_ERROR, "config", "why=%s", gm_quote(why).text);
	else if (!o->check)
		gm_log(GM_LOG_INFO, "config", "path=%s files=%d",
		       gm_quote(o->config).text, n);
	return ret;
}

/* Neither this process nor a successor of it gets privileges, and no process
 * of its user reads its memory, which may have a password. */
static int confine(void)
{
	struct rlimit files;

	if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
		files.rlim_cur = files.rlim_max;
		setrlimit(RLIMIT_NOFILE, &files);
	}
	signal(SIGPIPE, SIG_IGN);
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
	    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0)
		return -errno;
	return 0;
}

static int run(const struct gm_sync_config *config)
{
	struct gm_manager manager;
	char why[GM_WHY_BYTES] = "";
	int ret = gm_manager_init(&manager, why);

	if (ret == 0)
		ret = confine();
	if (ret != 0) {
		gm_log(GM_LOG_ERROR, "start", "why=%s",
		       gm_quote(why[0] != '\0' ? why : strerror(-ret)).text);
		return EXIT_FAILURE;
	}
	gm_sched_hint_prompt();
	ret = gm_sync_run(config, &manager);
	gm_manager_exit(&manager);
	if (ret == -EADDRINUSE)
		return EXIT_RUNS;
	return ret == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

int main(int argc, char **argv)
{
	struct options o = { .config = CONFIG_DEFAULT };
	struct gm_sync_config config;
	int status = read_options(&o, argc, argv);

	if (status >= 0)
		return status;
	gm_log_stamp();
	status = EXIT_CONFIG;
	if (read_config(&config, &o) == 0)
		status = o.check ? EXIT_SUCCESS : run(&config);
	gm_sync_config_free(&config);
	return status;
}
