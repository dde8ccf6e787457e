/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * cuda_agent - a gpumapd of the test's own on a stand-in machine of its own.
 *
 * The machine is a file in /dev/shm, for workers are another user.  CUDA rows
 * come in PCI order, which is not the order in which a plan of faults counts
 * the cards: cuda_scene_gpu() tells them apart.
 */
#ifndef GM_TEST_SUPPORT_CUDA_AGENT_H
#define GM_TEST_SUPPORT_CUDA_AGENT_H

#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/fake/machine.h"
#include "tests/support/agent.h"
#include "tests/support/driver_copy.h"
#include "tests/support/story.h"
#include "tests/support/tap.h"

struct cuda_scene {
	char dev[64];       /* folder of the device nodes */
	char driver[64];    /* folder of the libraries */
	char hardware[160]; /* "GPUMAP_FAKE_HARDWARE=...", the file behind it */
	char kernels[128];  /* "GPUMAP_FAKE_KERNELS=..." */
	struct fake_hardware hw;
};

/* @node is the name of a file in tests/nodes; @plan may be NULL. */
bool cuda_scene_make(struct cuda_scene *scene, const char *node,
		     const char *plan);

/*
 * Make the agent, on these cards.
 *
 * cuda		lines of [cuda] beside what leads to the stand-in, or ""
 * more		further sections, or ""
 */
void cuda_scene_agent(struct cuda_scene *scene, struct agent *a,
		      const char *cuda, const char *more);

/* More faults, for a machine that runs. */
bool cuda_scene_add(struct cuda_scene *scene, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* No more faults. */
void cuda_scene_mend(struct cuda_scene *scene);

/* Which of the machine's cards a row is, UINT32_MAX for none. */
uint32_t cuda_scene_gpu(const struct cuda_scene *scene,
			const struct gpumap_device *device);
uint64_t cuda_scene_launches(struct cuda_scene *scene, uint32_t gpu);
uint64_t cuda_scene_copies(struct cuda_scene *scene, uint32_t gpu);

/* How often a call took the lock of a context there. */
uint64_t cuda_scene_locks(struct cuda_scene *scene, uint32_t gpu);
uint64_t cuda_scene_free(struct cuda_scene *scene, uint32_t gpu);

/* Drivers and NVMLs of processes that have a card's device node open. */
uint32_t cuda_scene_users(struct cuda_scene *scene, uint32_t gpu);

/* The objects of the driver that still exist, and the process that left each
 * behind. */
uint32_t cuda_scene_leaks(struct cuda_scene *scene);

/* After the agent has ended. */
void cuda_scene_end(struct cuda_scene *scene);

#endif
