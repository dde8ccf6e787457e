/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * fake_machine - a stand-in machine of a test's own, and processes on it.
 *
 * A process is the test's program again, with the name of its part as its
 * first argument.  The machine is a memfd, so that it goes with the test.
 */
#ifndef GM_TEST_SUPPORT_FAKE_MACHINE_H
#define GM_TEST_SUPPORT_FAKE_MACHINE_H

#include <dirent.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/fake/machine.h"
#include "tests/support/tap.h"

struct scene {
	int fd;
	char path[64]; /* for $GPUMAP_FAKE_HARDWARE */
	char dev[32];  /* folder of its device nodes */
	struct fake_hardware hw;
};

/* Our processes find the stand-ins where the tool would let them. */
void scene_find_libraries(void);

/* @node is the name of a file in tests/nodes, @plan may be NULL. */
bool scene_set(struct scene *scene, const char *node, const char *plan);
void scene_clear(struct scene *scene);

/* @plan is for the process alone, or NULL. */
pid_t scene_begin(struct scene *scene, const char *part, const char *plan);

/* Its exit status, or the signal that ended it, negative. */
int scene_end(pid_t pid);

/* Free bytes of a card. */
uint64_t scene_left(struct scene *scene, uint32_t gpu);

/* More faults, for a machine that runs. */
bool scene_add(struct scene *scene, const char *plan);

/* How many descriptors a process has in the folder of device nodes. */
int scene_nodes_of(const struct scene *scene, pid_t pid);

/* Wait until it has @n of them. */
bool scene_holds(const struct scene *scene, pid_t pid, int n);

/* A part of the test, and the faults of its machine: NULL for none. */
struct scene_part {
	const char *name, *plan;
	int (*play)(void);
};

/* In a process of scene_begin()'s: play its part.  Returns what main() does. */
int scene_play(const char *name, const struct scene_part *parts, size_t n);

/* One part on a machine and in a process of its own, after which that machine
 * has nothing to complain of. */
void scene_run(const char *node, const char *plan, const char *part);

/*
 * Each part on mixed.yaml with its faults.  Parts of one name are one part.
 *
 * kernels	from the top of the build, of the stand-in's driver; NULL: those
 *		that it has anyway
 *
 * Returns	what main() does
 */
int scene_main(int argc, char **argv, const char *kernels,
	       const struct scene_part *parts, size_t n);

/* For parts: go on, or end with the line of what went wrong. */
#define WANT(condition)                            \
	do {                                       \
		if (!(condition))                  \
			return __LINE__ % 250 + 1; \
	} while (0)

#endif
