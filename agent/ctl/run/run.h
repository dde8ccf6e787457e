/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * run - gpumapctl run: reserve memory in this process, and become the command.
 *
 *	run.c			options, rows, the reservation and what it
 *				waits for, and exec
 *	run_environment.c	what the command is given: devices, the settings
 *				of its engine, CPUs, variables, cache folders
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

struct gm_ctl_planning;
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
	struct gm_run_start *start; /* NULL: there is no --gate */
	struct {
		struct gm_ctl_planning *planning; /* of --model */
		uint32_t rows[GPUMAP_ROWS_MAX];   /* candidates */
		uint64_t bytes[GPUMAP_ROWS_MAX];  /* of each, or of one */
		uint32_t n_rows;   /* 0: the agent's own choice */
		uint32_t n_layers; /* n_rows; or 1: of one of them */
		bool is_committed; /* the map is reserved, for all of us */
	} ask;
	uint32_t rows[GPUMAP_ROWS_MAX]; /* of the command */
	uint64_t row_bytes[GPUMAP_ROWS_MAX];
	uint32_t n_rows;
	/* of the plan of --model: the row of each layer, and of the rest */
	uint32_t *layers;
	uint32_t base_row;
	struct gm_words env;  /* "NAME=VALUE", what is set */
	struct gm_words argv; /* the command, and what is added to it */
};

/* Refuse an engine before anything is reserved, where that can be known; and
 * set its variables and arguments, those that name the devices, and those that
 * tell the command of its reservation. */
void gm_run_engine_check(struct gm_run *run);
void gm_run_environment_set(struct gm_run *run);

/* Set the command's cache directories, which are made if @makes. */
void gm_run_environment_caches(struct gm_run *run, bool makes);

/* The caller's environment with what is set. */
void gm_run_environment_merge(const struct gm_run *run,
			      struct gm_words *ret_words);

/* Print what would be set. */
void gm_run_environment_show(const struct gm_run *run);

/* Bind this process to the CPUs and the memory of its rows' NUMA nodes.  A
 * failure is a warning. */
void gm_run_environment_bind(const struct gm_run *run);

/* With --gate: make @run->start, by which the end of the start window is
 * noticed; open its socket and set NOTIFY_SOCKET. */
void gm_run_start_open(struct gm_run *run);

/* How long the window may last; 0: there is none. */
uint64_t gm_run_start_limit_ns(const struct gm_run *run);

/* Start the process that ends the window. */
void gm_run_start_watch(const struct gm_run *run);

#endif
