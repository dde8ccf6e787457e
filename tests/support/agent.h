/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * agent - a gpumapd of the test's own: instance, runtime directory and
 * configuration.
 *
 * Each name contains the pid of this process, and is removed when the process
 * exits; a killed process takes its agents along.  The agent's log goes to a
 * file, so that a test can wait for an event, also for one that came before it
 * looked.
 *
 * Waits have no time to meet: their limits only end a test that hangs.
 */
#ifndef GM_TEST_SUPPORT_AGENT_H
#define GM_TEST_SUPPORT_AGENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "tests/support/shm_names.h"

#define AGENT_LIMIT_MS 30000

struct agent_kept;

struct agent {
	pid_t pid; /* 0: does not run */
	char instance[48];
	char dir[64];    /* of the control socket, and of what follows */
	char config[96]; /* file */
	char log[96];    /* file */
	char segment[GM_NAMES_BYTES]; /* file in /dev/shm */
	char lock[GM_NAMES_BYTES];    /* likewise */
	char state_dir[96];           /* directory there, to sync at no cost */
	char state[160];              /* of the instance, in it */
	const char *worker;           /* program, NULL: $GPUMAP_WORKER */
	const char *probe;            /* likewise, NULL: $GPUMAP_PROBE */
	const char *loader;           /* likewise, NULL: $GPUMAPCTL */
	/* How many descriptors gpumap-fdstore keeps, which has @pid then and
	 * starts gpumapd; 0: it is not used. */
	unsigned int kept_most;
	const char *env[8];    /* "NAME=value" for the next start, to a NULL */
	void (*prepare)(void); /* in the process of each start; or NULL */
	off_t log_from;        /* where the last start's lines begin */
	struct agent_kept *kept;
};

/*
 * agent_make - names and an empty directory
 *
 * config	text of gpumapd.conf, NULL for every default
 *
 * Its host rows are of one NUMA node, whatever the machine has, it has no CUDA
 * rows unless @config has a section about them, and the segment of 4 MiB unless
 * @config has a section about that.
 * Ends the test program where it fails: nothing can be tested then.
 */
void agent_make(struct agent *a, const char *config);

/* Let the next start have host rows of every node after all. */
void agent_every_node(struct agent *a);

/* Write another configuration for the next start. */
void agent_configure(struct agent *a, const char *config);

/* Likewise, with the dummy rows of a node file with this text, which is in
 * DIR/node.yaml. */
void agent_configure_dummies(struct agent *a, const char *node,
			     const char *config);

/* Start gpumapd and return at once.  @option may be NULL. */
void agent_spawn(struct agent *a, const char *option);

/* Start gpumapd and wait for "event=@event".  Returns whether it came. */
bool agent_start_until(struct agent *a, const char *event);

/* Start gpumapd and wait until every worker is READY. */
bool agent_start(struct agent *a);

/* Wait for a text in the lines of this start; false when the agent has ended
 * without it. */
bool agent_wait_log(struct agent *a, const char *text);

/* Is the text in the lines of this start now? */
bool agent_logged(const struct agent *a, const char *text);

/* The number behind " @key=" in the last line of this start that says
 * "event=@event", UINT64_MAX: there is none. */
uint64_t agent_logged_number(const struct agent *a, const char *event,
			     const char *key);

/* How often is it there? */
unsigned int agent_count_log(const struct agent *a, const char *text);

/* Does a line of this start warn of anything, or say an error?  A warning that
 * no memory can be bound to nodes does not count.  Notes the line. */
bool agent_warned(const struct agent *a);

/* Print the lines of this start as comments: for a test that failed. */
void agent_show_log(const struct agent *a);

/* Wait for the end.  Returns the exit status, or -signal. */
int agent_wait(struct agent *a);

/* Send a signal and wait for the end.  An agent that ends well and says that
 * something of its clients is left over, or leaves a file that the next agent
 * does not need, fails the test. */
int agent_kill(struct agent *a, int signal);

/* Run gpumapd with @option to its end.  Returns as agent_wait(). */
int agent_run(struct agent *a, const char *option);

/* The pid of gpumapd itself, as its last start logged it. */
pid_t agent_main_pid(const struct agent *a);

/* The agent that runs is @pid from now on: for who started two of them. */
void agent_own(struct agent *a, pid_t pid);

/* Forget all published maps that are kept in files: for the next start. */
void agent_forget(const struct agent *a);

/* Kill it if it runs, and remove every file of its. */
void agent_remove(struct agent *a);

#endif
