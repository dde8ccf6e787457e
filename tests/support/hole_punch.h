/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * hole_punch.h - keep processes waiting for pages of shared memory.
 *
 * A process has the file mapped many thousand times, so that the kernel takes
 * long to punch a hole into it, and threads of it do that without a pause.  An
 * access by any process waits meanwhile.
 */
#ifndef GM_TEST_SUPPORT_HOLE_PUNCH_H
#define GM_TEST_SUPPORT_HOLE_PUNCH_H

#include <stdint.h>
#include <sys/types.h>

/* Begin to punch holes into the first @bytes.  Returns the process, or -1 where
 * the machine does not let one have enough mappings. */
pid_t hole_punch_start(int fd, uint64_t bytes);

void hole_punch_stop(pid_t puncher);

/* Does this kernel show that a thread waits for such memory?  Without it the
 * worker cannot tell. */
int hole_punch_is_shown(void);

#endif
