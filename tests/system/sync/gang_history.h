/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * gang_history - processes of three nodes ask for gangs, while processes,
 * gpumap-syncs and agents are killed; and a process that looks at all agents
 * all the time says what was wrong.
 */
#ifndef GM_TEST_GANG_HISTORY_H
#define GM_TEST_GANG_HISTORY_H

#include "tests/system/sync/gang_stories.h"

/* Until so many gangs have been made, between gang_begin() and gang_end(). */
void gang_history_tell(struct sync_place *place, unsigned int gangs);

#endif
