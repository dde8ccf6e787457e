/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/ctl/run/run.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/ctl/export.h"
#include "agent/ctl/parse.h"
#include "agent/plan/number.h"

#define NAME_MARK 8 /* hexadecimal digits at the end of a name */

/* ---- options ------------------------------------------------------------- */

/* Bytes that a name may not have, or that a shell would want in quotes. */
static void make_plain(char *name)
{
	static const char plain[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
		"0123456789_-+.";

	while (name[strspn(name, plain)] != '\0')
		name[strspn(name, plain)] = '_';
}

/* Make @run->name of --name, or "run.COMMAND.1a2b3c4d", which no other run
 * has.  Returns an exit status. */
static int make_name(struct gm_run *run)
{
	const char *command = run->ctl->args[0], *slash = strrchr(command, '/');
	uint32_t mark;

	if (GM_TEXT(run->ctl, NAME) != NULL) {
		if (strlen(GM_TEXT(run->ctl, NAME)) > GPUMAP_NAME_MAX ||
		    GM_TEXT(run->ctl, NAME)[0] == '\0')
			return gm_run_wrong("--name has 1 to 63 bytes");
		strcpy(run->name, GM_TEXT(run->ctl, NAME));
		return GM_EXIT_OK;
	}
	if (getrandom(&mark, sizeof(mark), 0) != sizeof(mark))
		return gm_run_failed("getrandom: %s", strerror(errno));
	snprintf(run->name, sizeof(run->name), "run.%.*s.%08x",
		 GPUMAP_NAME_MAX - 5 - NAME_MARK,
		 slash != NULL ? slash + 1 : command, mark);
	make_plain(run->name);
	return GM_EXIT_OK;
}

static int read_gate(const struct gm_ctl *ctl)
{
	if (!GM_GIVEN(ctl, GATE) &&
	    (GM_TEXT(ctl, READY_FILE) != NULL ||
	     GM_NUMBER(ctl, READY_TCP) != 0 || GM_NUMBER(ctl, START_LIMIT) > 0))
		return gm_run_wrong("--ready-file, --ready-tcp and "
				    "--start-limit need --gate");
	if (GM_TEXT(ctl, READY_FILE) != NULL &&
	    GM_TEXT(ctl, READY_FILE)[0] == '\0')
		return gm_run_wrong("--ready-file is a path");
	if (GM_NUMBER(ctl, READY_TCP) > UINT16_MAX)
		return gm_run_wrong("--ready-tcp is a port: 1 to 65535");
	return GM_EXIT_OK;
}

static int read_options(struct gm_run *run)
{
	const struct gm_ctl *ctl = run->ctl;
	const char *no_agent = GM_TEXT(ctl, NO_AGENT);

	if ((GM_TEXT(ctl, RESERVE) != NULL) + (GM_TEXT(ctl, MAP) != NULL) +
		    (GM_TEXT(ctl, MODEL) != NULL) !=
	    1)
		return gm_run_wrong("give one of --reserve, --map and --model");
	if (GM_TEXT(ctl, RESERVE) != NULL &&
	    gm_number_size(GM_TEXT(ctl, RESERVE), &run->bytes) != 0) {
		fprintf(stderr,
			"gpumapctl: run: --reserve: \"%s\" " GM_NUMBER_NO_SIZE
			"; see gpumapctl-run(1)\n",
			GM_TEXT(ctl, RESERVE));
		return GM_EXIT_USAGE;
	}
	if (GM_TEXT(ctl, MAP) != NULL &&
	    (ctl->n_rows > 0 || GM_GIVEN(ctl, ANY)))
		return gm_run_wrong("--map has its rows: give neither --rows "
				    "nor --any");
	if (GM_TEXT(ctl, MODEL) == NULL && (ctl->given & GM_OPTS_PLACING) != 0)
		return gm_run_wrong("the options of plan need --model");
	if (GM_TEXT(ctl, MODEL) != NULL && GM_GIVEN(ctl, ANY))
		return gm_run_wrong("--any is for --reserve");
	if (no_agent != NULL && strcmp(no_agent, "run") != 0 &&
	    strcmp(no_agent, "fail") != 0)
		return gm_run_wrong("--no-agent is run or fail");
	if (ctl->json && !GM_GIVEN(ctl, PRINT_ENV))
		return gm_run_wrong("--json is for --print-env");
	if (GM_TEXT(ctl, FOR) != NULL &&
	    gm_ctl_engine(GM_TEXT(ctl, FOR), &run->engine) != GM_EXIT_OK)
		return GM_EXIT_USAGE;
	if (read_gate(ctl) != GM_EXIT_OK)
		return GM_EXIT_USAGE;
	return make_name(run);
}

/* ---- the command --------------------------------------------------------- */

/* Can the file be executed?  Returns 0 or a negative errno. */
static int try_file(const char *path)
{
	struct stat st;

	if (stat(path, &st) != 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -EACCES;
	return faccessat(AT_FDCWD, path, X_OK, AT_EACCESS) == 0 ? 0 : -errno;
}

/* Search PATH as execvp() does.  Returns 0, or the negative errno of the file
 * that comes nearest. */
static int search(const char *file)
{
	const char *path = getenv("PATH");
	int worst = -ENOENT;

	if (strchr(file, '/') != NULL)
		return try_file(file);
	if (path == NULL)
		path = "/bin:/usr/bin";
	for (;; path++) {
		size_t n = strcspn(path, ":");
		char *whole;
		int ret;

		if (asprintf(&whole, "%.*s%s%s", (int)n, path, n > 0 ? "/" : "",
			     file) < 0)
			return -ENOMEM;
		ret = try_file(whole);
		free(whole);
		if (ret == 0)
			return 0;
		if (ret == -EACCES)
			worst = ret;
		path += n;
		if (*path == '\0')
			return worst;
	}
}

static int no_command(const char *file, int error)
{
	bool missing = error == -ENOENT || error == -ENOTDIR;

	gm_run_say("%s: %s", file,
		   missing ? "there is no such command" : strerror(-error));
	return missing ? GM_RUN_NOT_FOUND : GM_RUN_NOT_EXECUTABLE;
}

/* Look the command up in PATH.  Returns an exit status, after printing what was
 * wrong. */
static int find_command(const char *file)
{
	int ret = search(file);

	return ret == 0 ? GM_EXIT_OK : no_command(file, ret);
}

/* Become the command.  Returns only where that fails, as find_command(). */
static int become(const struct gm_run *run)
{
	struct gm_run_words env = { 0 };
	int ret;

	gm_run_environment_merge(run, &env);
	fflush(NULL);
	execvpe(run->argv.v[0], run->argv.v, env.v);
	ret = no_command(run->argv.v[0], -errno);
	gm_run_words_free(&env);
	return ret;
}

/* ---- without an agent ---------------------------------------------------- */

/* Attach, or find that there is no agent. */
static int attach(struct gm_run *run)
{
	struct gpumap_attach_opts opts = { .size = sizeof(opts),
					   .instance = run->ctl->instance,
					   .runtime_dir =
						   run->ctl->runtime_dir };
	int error = gpumap_attach(&opts, &run->ctl->map);

	if (error == 0 || (error == -ENOENT && gm_run_without_agent(run)))
		return GM_EXIT_OK;
	return gm_ctl_not_attached(error);
}

/* ---- the order ----------------------------------------------------------- */

/* Before anything is reserved: what can be refused. */
static int prepare(struct gm_run *run)
{
	int ret = gm_run_place_find(run);

	return ret == GM_EXIT_OK ? gm_run_engine_check(run) : ret;
}

static int show(struct gm_run *run)
{
	int ret = run->unreserved ? GM_EXIT_OK : prepare(run);

	if (ret == GM_EXIT_OK && !run->unreserved)
		ret = gm_run_place_ask(run);
	if (ret == GM_EXIT_OK && !run->unreserved)
		ret = gm_run_engine_set(run);
	if (ret == GM_EXIT_OK && !run->unreserved)
		gm_run_environment_set(run);
	if (ret == GM_EXIT_OK)
		ret = gm_run_environment_caches(run, false);
	return ret == GM_EXIT_OK ? gm_run_environment_show(run) : ret;
}

static int run_reserved(struct gm_run *run)
{
	int ret = prepare(run);

	if (ret == GM_EXIT_OK)
		ret = gm_run_start_open(run);
	if (ret == GM_EXIT_OK)
		ret = gm_run_place_reserve(run);
	if (ret != GM_EXIT_OK || run->unreserved)
		return ret;
	ret = gm_run_engine_set(run);
	if (ret != GM_EXIT_OK)
		return ret;
	gm_run_environment_set(run);
	if (!GM_GIVEN(run->ctl, NO_BIND))
		gm_run_bind(run);
	return run->start != NULL ? gm_run_start_watch(run) : GM_EXIT_OK;
}

static int run_all(struct gm_run *run)
{
	struct gm_ctl *ctl = run->ctl;
	int ret = read_options(run);

	if (ret != GM_EXIT_OK)
		return ret;
	ret = find_command(ctl->args[0]);
	if (ret != GM_EXIT_OK)
		return ret;
	for (int i = 0; i < ctl->n_args; i++)
		gm_run_add(&run->argv, "%s", ctl->args[i]);
	run->map_name = run->name;
	ret = attach(run);
	if (ret != GM_EXIT_OK)
		return ret;
	if (GM_GIVEN(ctl, PRINT_ENV))
		return show(run);
	ret = gm_run_environment_caches(run, true);
	if (ret == GM_EXIT_OK && !run->unreserved)
		ret = run_reserved(run);
	if (ret != GM_EXIT_OK)
		return ret;
	if (run->unreserved)
		gm_run_say("no agent: %s runs without a reservation",
			   ctl->args[0]);
	return become(run);
}

int gm_ctl_run(struct gm_ctl *ctl)
{
	struct gm_run run = { .ctl = ctl };
	int ret = run_all(&run);

	gm_run_start_free(&run);
	gm_run_place_free(&run);
	gm_run_words_free(&run.env);
	gm_run_words_free(&run.argv);
	return ret;
}
