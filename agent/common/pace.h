/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * pace - what the kernel's scheduler should know of a thread.
 *
 * Both only ask: what is refused, or not known to this kernel, leaves the
 * thread as it was.
 */
#ifndef GM_PACE_H
#define GM_PACE_H

/*
 * gm_pace_prompt - others wait for what this thread does
 *
 * It takes its share of the CPUs in the shortest slices that there are, so it
 * gets a CPU sooner when it wakes, and gives one up sooner to whoever wakes
 * while it is busy (Linux 6.12).  Threads and processes that it starts are
 * alike.  Another policy than the usual one stays.
 */
void gm_pace_prompt(void);

/*
 * gm_pace_patient - nobody waits for what this thread does
 *
 * It takes what the others leave, and a tenth of a CPU's time where they leave
 * nothing: not the idle policy, under which it might never end, nor a real-time
 * one, whatever the others have.
 */
void gm_pace_patient(void);

#endif
