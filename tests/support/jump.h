/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * jump - make the monotonic clock of gpumap's programs jump, as that of a
 * virtual machine does which stood still (tests/fake/clock.c).
 */
#ifndef GM_TEST_SUPPORT_JUMP_H
#define GM_TEST_SUPPORT_JUMP_H

#include <stdbool.h>
#include <stdint.h>

#include "tests/support/agent.h"

enum jump_who { JUMP_CLIENT, JUMP_AGENT, JUMP_WORKER, JUMP_PROBE, JUMPS };

#define JUMP_ALL ((1u << JUMPS) - 1)

/* Run the test again with a clock of its own, which is the clients'.  Returns
 * whether this process has it; a test without it cannot run. */
bool jump_exec(char **argv);

/* Give the agent's programs such clocks, from the next start on.  Its workers
 * and its probe do not begin while there is a file @hold; recovery does. */
bool jump_agent(struct agent *a, const char *hold);

/* The clocks of @who, a bit of enum jump_who each, go on by @seconds at
 * once. */
void jump(unsigned int who, int64_t seconds);

/* Remove the files. */
void jump_end(void);

#endif
