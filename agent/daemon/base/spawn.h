/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * spawn - start a child with what it may have, and nothing else.
 *
 * The child gets /dev/null for standard input, our standard error for its log,
 * and descriptor 3, or 3, 4 and 5 (wire.h); every other one is closed, whoever
 * left it open.  It stands in a process group of its own: an interrupt from the
 * terminal is for gpumapd, which drains.
 */
#ifndef GM_DAEMON_BASE_SPAWN_H
#define GM_DAEMON_BASE_SPAWN_H

#include <stdint.h>
#include <sys/types.h>

/* A child that runs, or has ended and was not reaped yet. */
struct gm_child {
	pid_t pid;
	int pidfd;  /* readable once it has ended */
	int socket; /* our end of the pair, non-blocking */
};

/*
 * gm_spawn - start a worker, an undertaker or a probe
 *
 * argv, env	argv[0] is the program's path; NULL-terminated
 * journal, commons	what the child finds as descriptors 4 and 5, -1 twice
 *		for one that has neither
 *
 * Returns	0
 *		-ENOENT, -EACCES, -ENOEXEC, ...	the program cannot be run
 *		-EAGAIN, -ENOMEM, -EMFILE	from the kernel
 */
int gm_spawn(char *const argv[], char *const env[], int journal, int group_page,
	     struct gm_child *ret_child);

/* End a child that was started and is of no use.  It is not waited for: whoever
 * starts or undoes the next one, or tidies, reaps it when it has ended.  Its
 * descriptors are the caller's to close. */
void gm_spawn_undo(const struct gm_child *child);

/* Reap those that have ended.  To be called now and then. */
void gm_spawn_tidy(void);

/*
 * gm_spawn_reap - has it ended, and how?
 *
 * One that has is reaped by a thread, soon: a caller must not ask again.
 *
 * Returns	1 with a text such as "killed by SIGKILL" and its exit status,
 *		-1 where a signal ended it; 0 while it runs
 */
int gm_spawn_reap(const struct gm_child *child, char ret_how[64],
		  int *ret_status);

/* Is it stopped, by SIGSTOP or from a terminal?  A debugger's stop is none. */
int gm_spawn_stopped(const struct gm_child *child);

/* A memfd of @bytes that only we and our children have, clear of the numbers
 * that children get theirs at.  Returns it, or a negative errno. */
int gm_spawn_memfd(const char *name, uint64_t bytes);

#endif
