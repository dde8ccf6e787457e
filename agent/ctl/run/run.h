/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * run - gpumapctl run: reserve memory in this process, and become the command.
 *
 *	run.c			options, the order of the steps, and exec
 *	run_place.c		rows, the reservation, and what it waits for
 *	run_engine.c		the settings that tell an engine of the rows
 *	run_environment.c	messages; CPUs, variables, cache directories,
 *				and --print-env
 *	run_start.c		the start window, and the process that ends it
 *
 * A held reservation is bound to this process's pid and start time, which exec
 * keeps.  So the command is the holder, and no process of ours is between it
 * and its caller: signals, its exit status and job control are its own.
 */
#ifndef GM_CTL_RUN_H
#define GM_CTL_RUN_H

#include "agent/ctl/ctl.h"

/* Exit statuses of run's own, beside those of ctl.h. */
enum gm_run_exit {
	GM_RUN_NOT_NOW = 75, /* no room, or not in time: sysexits' TEMPFAIL */
	GM_RUN_NOT_EXECUTABLE = 126,
	GM_RUN_NOT_FOUND = 127
};

int gm_ctl_run(struct gm_ctl *ctl);

/* Words, with a NULL behind the last. */
struct gm_run_words {
	char **v;
	uint32_t n;
};

struct gm_run_place;
struct gm_run_start;

struct gm_run {
	struct gm_ctl *ctl;
	uint32_t engine; /* enum gpumap_engine, or 0 */
	uint64_t bytes;  /* of --reserve */
	bool unreserved; /* no agent, and that is allowed */
	char name[GPUMAP_NAME_MAX + 1];
	/* The map that the command finds in GPUMAP_MAP: @name, or one that was
	 * committed before. */
	const char *map_name;
	struct gm_run_place *place;
	struct gm_run_start *start;     /* NULL: there is no --gate */
	uint32_t rows[GPUMAP_ROWS_MAX]; /* of the command */
	uint64_t row_bytes[GPUMAP_ROWS_MAX];
	uint32_t n_rows;
	struct gm_run_words env;  /* "NAME=VALUE", what is set */
	struct gm_run_words argv; /* the command, and what is added to it */
};

/* Print "gpumapctl: run: @what".  Return GM_EXIT_USAGE; or GM_EXIT_FAILED. */
int gm_run_wrong(const char *what);
int gm_run_failed(const char *format, ...)
	__attribute__((format(printf, 1, 2)));

/* Print it as a warning, or as news. */
void gm_run_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Append a word.  Ends the process where there is no memory for it. */
void gm_run_add(struct gm_run_words *words, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

void gm_run_words_free(struct gm_run_words *words);

/* Words "NAME=VALUE" as an object. */
json_t *gm_run_env_json(const struct gm_run_words *env);

/* There is no agent.  May the command run all the same? */
bool gm_run_without_agent(struct gm_run *run);

/* Each function from here on returns an exit status, after printing what was
 * wrong, unless it says otherwise. */

/* Find out on which rows the command may be, and what it takes of them. */
int gm_run_place_find(struct gm_run *run);

/* Only ask which rows these would be now; or reserve them, and wait for that
 * as the options say.  Fills in the rows of @run. */
int gm_run_place_ask(struct gm_run *run);
int gm_run_place_reserve(struct gm_run *run);

void gm_run_place_free(struct gm_run *run);

/* Refuse an engine before anything is reserved, where that can be known; and
 * set its variables and arguments, and those that name the devices. */
int gm_run_engine_check(struct gm_run *run);
int gm_run_engine_set(struct gm_run *run);

/* Set what tells the command of its reservation; and its cache directories,
 * which are made if @makes. */
void gm_run_environment_set(struct gm_run *run);
int gm_run_environment_caches(struct gm_run *run, bool makes);

/* The caller's environment with what is set. */
void gm_run_environment_merge(const struct gm_run *run,
			      struct gm_run_words *ret_words);

/* Print what would be set. */
int gm_run_environment_show(const struct gm_run *run);

/* Bind this process to the CPUs and the memory of its rows' NUMA nodes.  A
 * failure is a warning. */
void gm_run_bind(const struct gm_run *run);

/* With --gate: make @run->start, by which the end of the start window is
 * noticed; open its socket and set NOTIFY_SOCKET. */
int gm_run_start_open(struct gm_run *run);
void gm_run_start_free(struct gm_run *run);

/* How long the window may last; 0: there is none. */
uint64_t gm_run_start_limit_ns(const struct gm_run *run);

/* Start the process that ends the window. */
int gm_run_start_watch(const struct gm_run *run);

#endif
