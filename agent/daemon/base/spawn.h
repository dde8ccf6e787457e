/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * spawn - starts a child with the descriptors that it may have, and no other.
 *
 * The child gets /dev/null for standard input, our standard error for its log,
 * and descriptor 3, or 3, 4 and 5 (wire.h); every other one is closed,
 * whichever module left it open.  The child has a process group of its own: an
 * interrupt from the terminal is for gpumapd, which drains.
 */
#ifndef GM_DAEMON_BASE_SPAWN_H
#define GM_DAEMON_BASE_SPAWN_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* A child that runs, or has ended and was not reaped yet. */
struct gm_spawned {
	pid_t pid;
	int pidfd;  /* readable once it has ended */
	int socket; /* our end of the pair, non-blocking */
};

/*
 * gm_spawn - start a worker, a recovery process or a probe
 *
 * argv, env	argv[0] is the program's path; NULL-terminated
 * journal, group_page	descriptors 4 and 5 of the child, -1 twice for a child
 *		that has neither
 *
 * Returns	0
 *		-ENOENT, -EACCES, -ENOEXEC, ...	the program cannot be run
 *		-EAGAIN, -ENOMEM, -EMFILE	from the kernel
 */
int gm_spawn(char *const argv[], char *const env[], int journal, int group_page,
	     struct gm_spawned *ret_child);

/* The same for a program that knows no descriptors of ours: its standard output
 * and error are the other end of the socket, and each write is a record.
 * Returns as gm_spawn(). */
int gm_spawn_heard(char *const argv[], char *const env[],
		   struct gm_spawned *ret_child);

/* End a child that was started and is of no use.  The caller does not wait for
 * it: the next start or undo, or the tidying, reaps it when it has ended.  Its
 * descriptors are the caller's to close. */
void gm_spawn_undo(const struct gm_spawned *child);

/* The same for a child that was sent SIGKILL and does not end, because a system
 * call of it does not: it runs no code of its own any more.  Its private memory
 * is freed, by a thread, where the kernel can (Linux 5.15). */
void gm_spawn_abandon(const struct gm_spawned *child);

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
int gm_spawn_reap(const struct gm_spawned *child, char ret_how[64],
		  int *ret_status);

/* Is it stopped, by SIGSTOP or from a terminal?  A debugger's stop is none. */
int gm_spawn_stopped(const struct gm_spawned *child);

/* Has a thread of it ended?  Only of a child that is not reaped yet. */
bool gm_spawn_lost(const struct gm_spawned *child, pid_t thread);

/* A memfd of @bytes that only we and our children have, clear of the numbers
 * that children get theirs at.  The seals keep it from shrinking, because pages
 * that are gone would be a SIGBUS for us.  Returns it, or a negative errno. */
int gm_spawn_memfd(const char *name, uint64_t bytes);

#endif
