/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * lineage - the processes that a process descends from.
 *
 * A pid alone names no process, because the kernel gives it away again.  Pid
 * and start time together do, until the machine ends.
 */
#ifndef GM_COMMON_LINEAGE_H
#define GM_COMMON_LINEAGE_H

#include <stdint.h>
#include <sys/types.h>

/* One process. */
struct gm_lineage_member {
	uint64_t start; /* field 22 of /proc/pid/stat: clock ticks since boot */
	uint32_t pid;
	uint32_t parent; /* its pid; 0: none that is seen from here */
};

/*
 * gm_lineage_stat - the start time and the parent of a process
 *
 * The process can have the call wait for as long as it likes: by a reader of
 * its folder in /proc that does not go on.  So gpumapd's loop makes it of no
 * client.
 *
 * Returns	0
 *		-ESRCH		there is no such process
 *		-EPROTO		/proc/pid/stat is not as it should be
 *		and what open and read return
 * Threads	any
 */
int gm_lineage_stat(pid_t pid, struct gm_lineage_member *ret_member);

/*
 * gm_lineage_read - a process, its parent, the parent's parent and so on
 *
 * max		room in ret_line, at least 1; the line ends there at the latest
 *
 * A line ends early where the process or a parent of it ends meanwhile: each
 * of its members is a process that the one before descends from.
 *
 * Returns	the members, at least 1
 *		-ESRCH, -EPROTO and so on	as gm_lineage_stat()
 * Cost		three files of /proc for each member
 * Threads	any
 */
int gm_lineage_read(pid_t pid, struct gm_lineage_member *ret_line,
		    uint32_t max);

/* The start time that a process would have that started now. */
uint64_t gm_lineage_now(void);

#endif
