/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * gpumap-exporter - the map that gpumapd publishes, as metrics for Prometheus.
 *
 * The exporter is a client like others: it reads the map, and asks the agent
 * for nothing unless --usage is given.  Without an agent the exporter goes on.
 */

#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "agent/exporter/http.h"
#include "agent/exporter/textfile.h"

#define LISTEN_DEFAULT ":9940"
#define INTERVAL_MAX   86400ul

struct options {
	struct gpumap_attach_opts attach;
	const char *listen;       /* NULL: no server */
	const char *textfile;     /* NULL: none */
	unsigned long interval_s; /* 0: write the file once */
	bool usage;
};

static int print_usage(FILE *to)
{
	fputs("usage: gpumap-exporter [--listen ADDRESS:PORT] [--usage]\n"
	      "       gpumap-exporter --textfile FILE [--interval SECONDS] "
	      "[--usage]\n"
	      "options: --instance NAME, --runtime-dir DIR\n"
	      "See gpumap-exporter(8).\n",
	      to);
	return to == stdout ? EXIT_SUCCESS : 2;
}

static bool read_interval(const char *text, unsigned long *ret_s)
{
	char *end;

	errno = 0;
	*ret_s = strtoul(text, &end, 10);
	if (errno == 0 && text[0] >= '0' && text[0] <= '9' && *end == '\0' &&
	    *ret_s > 0 && *ret_s <= INTERVAL_MAX)
		return true;
	fprintf(stderr,
		"gpumap-exporter: --interval %s: give a number of seconds, 1 "
		"to %lu\n",
		text, INTERVAL_MAX);
	return false;
}

/* Returns -1, or the exit status. */
static int read_options(int argc, char **argv, struct options *o)
{
	static const struct option longs[] = {
		{ "listen", required_argument, NULL, 'l' },
		{ "textfile", required_argument, NULL, 't' },
		{ "interval", required_argument, NULL, 'i' },
		{ "usage", no_argument, NULL, 'u' },
		{ "instance", required_argument, NULL, 'n' },
		{ "runtime-dir", required_argument, NULL, 'r' },
		{ "help", no_argument, NULL, 'h' },
		{ "version", no_argument, NULL, 'V' },
		{ NULL, 0, NULL, 0 },
	};
	int c;

	while ((c = getopt_long(argc, argv, "", longs, NULL)) >= 0) {
		switch (c) {
		case 'l':
			o->listen = optarg;
			break;
		case 't':
			o->textfile = optarg;
			break;
		case 'i':
			if (!read_interval(optarg, &o->interval_s))
				return 2;
			break;
		case 'u':
			o->usage = true;
			break;
		case 'n':
			o->attach.instance = optarg;
			break;
		case 'r':
			o->attach.runtime_dir = optarg;
			break;
		case 'h':
			return print_usage(stdout);
		case 'V':
			printf("gpumap-exporter %s\n", PACKAGE_VERSION);
			return EXIT_SUCCESS;
		default:
			return print_usage(stderr);
		}
	}
	if (optind < argc) {
		fprintf(stderr, "gpumap-exporter: it takes no operand: %s\n",
			argv[optind]);
		return 2;
	}
	if (o->textfile == NULL && o->interval_s > 0) {
		fputs("gpumap-exporter: --interval is for --textfile\n",
		      stderr);
		return 2;
	}
	if (o->textfile == NULL && o->listen == NULL)
		o->listen = LISTEN_DEFAULT;
	return -1;
}

/* Wait for a signal that ends the program.  Returns false after @seconds
 * without one; 0: never. */
static bool is_told(const sigset_t *ends, unsigned long seconds)
{
	struct timespec limit = { .tv_sec = (time_t)seconds };
	int ret;

	do {
		ret = seconds > 0 ? sigtimedwait(ends, NULL, &limit)
				  : sigwaitinfo(ends, NULL);
	} while (ret < 0 && errno == EINTR);
	return ret >= 0;
}

static int serve(struct gm_target *target, const struct options *o,
		 const sigset_t *ends)
{
	struct gm_http http = { .target = target, .usage = o->usage };
	int fd = gm_http_listen(o->listen);

	if (fd < 0 || !gm_http_start(&http, fd))
		return EXIT_FAILURE;
	is_told(ends, 0);
	gm_http_stop(&http);
	return EXIT_SUCCESS;
}

static int write_files(struct gm_target *target, const struct options *o,
		       const sigset_t *ends)
{
	bool done;

	do {
		done = gm_textfile_write(target, o->usage, o->textfile);
		if (o->interval_s == 0)
			return done ? EXIT_SUCCESS : EXIT_FAILURE;
	} while (!is_told(ends, o->interval_s));
	return EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
	struct options o = { .attach = { .size = sizeof(o.attach) } };
	struct gm_target target = { 0 };
	sigset_t ends;
	int ret = read_options(argc, argv, &o);

	if (ret >= 0)
		return ret;
	if (o.textfile != NULL && o.listen != NULL) {
		fputs("gpumap-exporter: --listen or --textfile, not both: "
		      "start "
		      "it twice\n",
		      stderr);
		return 2;
	}
	/* Blocked in the server's thread, too. */
	sigemptyset(&ends);
	sigaddset(&ends, SIGTERM);
	sigaddset(&ends, SIGINT);
	sigprocmask(SIG_BLOCK, &ends, NULL);
	signal(SIGPIPE, SIG_IGN);
	target.opts = o.attach;
	ret = o.textfile != NULL ? write_files(&target, &o, &ends)
				 : serve(&target, &o, &ends);
	gm_target_close(&target);
	return ret;
}
