/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * role - a role in a process of its own, which may hang and may be killed.
 *
 * The process is this program again, with descriptor 3 for its reports, our
 * standard error for its log, and no other descriptor; it ends when this
 * process does.
 */
#ifndef GM_ROLE_H
#define GM_ROLE_H

#include <sys/types.h>

#include "agent/probe/probe.h"
#include "agent/probe/protocol.h"

struct gm_probe_child {
	uint32_t role;  /* enum gm_probe_role; 0: none */
	uint32_t index; /* of the purpose that the monitor started it for */
	pid_t pid;
	int pidfd;      /* readable once it has ended */
	int socket;     /* our end, non-blocking; -1: it has closed its own */
	uint64_t began; /* ns, gm_role_now() */
	uint64_t heard; /* when it said something last; at first @began */
	bool is_killed;
	bool has_said; /* more than which call it is in */
	bool is_done;  /* it has said all that it was started for */
	char call[64]; /* what it was in last */
};

/* The clock of limits on children, which stands still while the machine does
 * (running_clock.h), in ns. */
uint64_t gm_role_now(void);

/* This process is about to sleep for up to @ns. */
void gm_role_sleep(uint64_t ns);

/*
 * gm_role_start - start a role
 *
 * options	with the role and what is the role's
 *
 * Returns	0, or -errno with @ret_child untouched
 */
int gm_role_start(const struct gm_probe_options *options, uint32_t index,
		  struct gm_probe_child *ret_child);

/*
 * gm_role_read - one note that it has sent
 *
 * Returns	1; 0: none now; -EPIPE: there will be none any more
 */
int gm_role_read(struct gm_probe_child *child, struct gm_note *ret_note);

/* End the child.  Its exit may take long, or never come; gm_role_reap()
 * tells. */
void gm_role_kill(struct gm_probe_child *child);

/* Has it ended?  Then it is gone, and @ret_how says how: "exit status 1",
 * "signal 11".  Returns 1, or 0 while it runs. */
int gm_role_reap(struct gm_probe_child *child, char ret_how[32]);

#endif
