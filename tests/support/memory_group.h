/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * memory_group - control groups of the test's own, with a limit of memory.
 *
 * Each is removed by memory_group_end(), or when this process exits.
 */
#ifndef GM_TEST_SUPPORT_MEMORY_GROUP_H
#define GM_TEST_SUPPORT_MEMORY_GROUP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct memory_group {
	char path[128];
	bool is_old; /* before the unified hierarchy */
};

/* Returns false where this process may make no such group. */
bool memory_group_make(struct memory_group *ret_group, const char *name,
		       uint64_t limit);

/* Move this process there, or to the group that all are in. */
bool memory_group_enter(const struct memory_group *group);
bool memory_group_leave(const struct memory_group *group);

/* The bytes that its processes pay for. */
uint64_t memory_group_usage(const struct memory_group *group);

/* Once its processes have ended or are elsewhere. */
void memory_group_end(struct memory_group *group);

#endif
