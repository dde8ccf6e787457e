/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * point - named instants at which a test may end or hold a process.
 *
 * A point stands right after a store that another process can see, or right
 * before one that it must not see yet.  Its name is the module and the instant,
 * "ring_push_visible", and unique in the tree.
 *
 * Built with --enable-testpoints, a process obeys
 *
 *	GM_POINT=name:action[:nth]
 *
 * the nth time (counted from 1, per process, 1 when left out) that it comes to
 * @name, and @action is one of
 *
 *	kill	SIGKILL itself
 *	stop	SIGSTOP itself; the test sends SIGCONT
 *	pause	sleep for 100 ms, this time and every later one
 *
 * GM_POINT_TICKET=path gives the action to one process among many: only the
 * process that unlinks @path acts.  So a process that is started again with the
 * same environment does not die at the same point again.  With a ticket and
 * without @nth the first visit of any process that finds @path acts: a test
 * creates @path when the time has come.
 *
 * Any other build has no code here, no string and no call.
 */
#ifndef GM_POINT_H
#define GM_POINT_H

#ifdef GM_TESTPOINTS

/* Do the action that the environment requests at @name.  Threads: any. */
void gm_point_reach(const char *name);

#define GM_POINT(name) gm_point_reach(name)

#else

#define GM_POINT(name) ((void)0)

#endif
#endif
