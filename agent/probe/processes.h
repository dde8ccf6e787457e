/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * processes - how much of a device's memory each process has.
 *
 * gpumapd subtracts what a holder's processes have from what the holder has
 * reserved, so a figure may be too small, and must not be too large: at the
 * instant at which the free bytes are read, the process has had at least that
 * much.  So NVML is asked before and after that reading, and the lower of both
 * answers counts.
 *
 * NVML tells pids of the initial pid namespace, or 0 for a process that it
 * cannot name, and a pid may be another process's by the time that /proc is
 * read.  A process has a line, without which it is a stranger to every holder,
 * only if it had started before NVML was asked, and was the process of that pid
 * in every look since NVML has begun to list the pid.
 */
#ifndef GM_PROBE_PROCESSES_H
#define GM_PROBE_PROCESSES_H

#include "agent/cuda/nvml.h"
#include "agent/probe/say.h"

/* A pid that NVML lists. */
struct gm_processes_item {
	uint32_t pid;
	bool is_listed;  /* in the last answer */
	bool is_told;    /* the bytes of both answers are known */
	bool is_changed; /* the pid was another process's in an earlier look */
	uint64_t start;  /* of the process that has the pid; 0: not known */
	uint64_t bytes[2];
};

/* The processes of one device; zero before the first look. */
struct gm_processes {
	uint32_t figures; /* enum gm_probe_figures, of this look */
	uint32_t n;
	uint64_t began; /* start time of what would start with this look */
	struct gm_processes_item items[GM_PROBE_PROCESSES];
};

/*
 * gm_processes_begin - ask NVML, right before the free bytes are read
 *
 * sysfs	before /proc where the namespace of pids is looked up; or NULL
 */
void gm_processes_begin(struct gm_processes *processes,
			const struct gm_nvml *nvml, struct nvmlDevice_st *dev,
			const char *sysfs);

/* Ask again, right after. */
void gm_processes_end(struct gm_processes *processes,
		      const struct gm_nvml *nvml, struct nvmlDevice_st *dev);

/* The record of one of them: a PROCESS but for the uuid. */
void gm_processes_note(const struct gm_processes *processes, uint32_t i,
		       struct gm_probe_wire *ret_note);

#endif
