/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * sched_hint - what the kernel's scheduler should know of a thread.
 *
 * Both only ask: what is refused, or not known to this kernel, leaves the
 * thread as it was.
 */
#ifndef GM_COMMON_SCHED_HINT_H
#define GM_COMMON_SCHED_HINT_H

/*
 * gm_sched_hint_prompt - others wait for the calling thread's work
 *
 * The thread takes its share of the CPUs in the shortest slices that there are,
 * so it gets a CPU sooner when it wakes, and gives one up sooner to a thread
 * that wakes while it is busy (Linux 6.12). Threads and processes that it
 * starts are alike. Another policy than the usual one stays.
 */
void gm_sched_hint_prompt(void);

/*
 * gm_sched_hint_patient - the calling thread preempts no other when it wakes
 *
 * The thread has the batch policy, whatever policy its process has, and keeps
 * its nice value. A higher one would hurt: while such a thread exits it holds
 * entries of
 * /proc that a parent which reaps the process waits for in a busy loop, and on
 * a busy machine the parent then spins for as long as the thread gets no CPU.
 */
void gm_sched_hint_patient(void);

#endif
