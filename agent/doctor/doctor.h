/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * doctor - look for what is wrong with a node, its cards and its agent.
 *
 * A check reads files, asks the kernel or reads the map, and changes nothing.
 * Each has an id, which stays, and a finding, whose remedy is what an
 * administrator can do.  The checks are in tables, one for each subject:
 *
 *	machine.c	kernel, memory, time, containers
 *	service.c	the agent: its limits, its map, its socket, its folders
 *	rows.c		what the map says of the rows
 *	cards.c		NVIDIA's driver and cards, from files alone
 *	cluster.c	what the map says of other nodes
 */
#ifndef GM_DOCTOR_H
#define GM_DOCTOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "agent/doctor/finding.h"
#include "gpumap.h"

struct gm_doctor {
	const char *root; /* "": of this machine; else files are below it */
	const char *instance;
	const char *runtime_dir;
	struct gpumap *map;     /* NULL: not attached, */
	char not_attached[320]; /* because of this */
	struct gpumap_health health;
	pid_t agent; /* its pid here; 0: not seen */
	struct gpumap_device *rows;
	uint32_t n_rows;
	struct gpumap_cluster cluster; /* @size 0: it is in none */
	struct gpumap_cluster_node *nodes;
	uint32_t n_nodes;
};

struct gm_check {
	const char *id; /* "kernel.io_uring": never changes its meaning */
	void (*look)(const struct gm_doctor *doctor,
		     struct gm_finding *finding);
};

/* Each by its index; NULL past the last. */
const struct gm_check *gm_doctor_check(size_t i);

/* Attach, and read the rows.  @root, @instance and @runtime_dir are set.
 * Returns 0, also without an agent, or -ENOMEM. */
int gm_doctor_begin(struct gm_doctor *doctor);

void gm_doctor_end(struct gm_doctor *doctor);

/* ---- for the checks ------------------------------------------------------ */

/* Tables of checks, which end with an id of NULL. */
extern const struct gm_check gm_doctor_machine[];
extern const struct gm_check gm_doctor_service[];
extern const struct gm_check gm_doctor_rows[];
extern const struct gm_check gm_doctor_cards[];
extern const struct gm_check gm_doctor_cluster[];

/* Read a file below the root as one line, or all of it.  Returns false, with
 * "", if there is none. */
bool gm_doctor_line(const struct gm_doctor *doctor, const char *path,
		    char *ret_text, size_t bytes);
bool gm_doctor_file(const struct gm_doctor *doctor, const char *path,
		    char *ret_text, size_t bytes);

/* The number that begins a file, or @missing. */
int64_t gm_doctor_number(const struct gm_doctor *doctor, const char *path,
			 int64_t missing);

/* The KiB behind "@name:" in /proc/meminfo as bytes; 0: it is not there. */
uint64_t gm_doctor_meminfo(const struct gm_doctor *doctor, const char *name);

bool gm_doctor_exists(const struct gm_doctor *doctor, const char *path);

#endif
