/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * daemon - gpumapd's start, its one thread, and its end.
 *
 * Start-up goes down this list and a clean end goes up: configuration, the node
 * file that it names, lock, state directory, segment, directory, holders,
 * probe, devices, ledger, maps of state files and of the configuration, I/O
 * thread, workers, socket.  Where there is a probe the loop runs from there on:
 * devices wait for its list.
 */
#ifndef GM_DAEMON_H
#define GM_DAEMON_H

struct gm_daemon; /* base/parts.h */

/* The exit status of gpumapd. */
enum gm_exit {
	GM_EXIT_OK = 0,
	GM_EXIT_FAILURE = 1,   /* the log says what */
	GM_EXIT_CONFIG = 2,    /* command line or configuration */
	GM_EXIT_LOCKED = 3,    /* another agent runs this instance */
	GM_EXIT_URING = 4,     /* io_uring is refused */
	GM_EXIT_FULL = 5,      /* /dev/shm is too small */
	GM_EXIT_PERMISSION = 6 /* not allowed, or a file is not ours */
};

/* Parts that are zeroed but for the pointers to them, or NULL without memory.
 * gm_daemon_free() frees this memory, and nothing that the parts refer to. */
struct gm_daemon *gm_daemon_new(void);
void gm_daemon_free(struct gm_daemon *d);

/*
 * gm_daemon_run - start, serve until told to end, and end
 *
 * d		new but for command line and configuration
 *
 * Returns	enum gm_exit; the reason has been logged
 */
int gm_daemon_run(struct gm_daemon *d);

/* Retire and unlink the segment of an instance that no agent runs.  Returns as
 * gm_daemon_run(). */
int gm_daemon_remove(const char *instance);

/* The exit status for a negative errno of the start-up. */
int gm_exit_status(int error);

#endif
