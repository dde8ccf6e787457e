/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* Bind this process to the CPUs and the memory of its rows' NUMA nodes. */

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "agent/common/idset.h"
#include "agent/common/numa_bind.h"
#include "agent/ctl/run/run.h"

/* The CPUs and the nodes of all rows.  A row of which nothing is known leaves
 * nothing to bind to. */
static void find(const struct gm_run *run, struct gm_idset *ret_cpus,
		 struct gm_idset *ret_nodes)
{
	bool has_cpus = run->n_rows > 0, has_nodes = run->n_rows > 0;

	*ret_cpus = (struct gm_idset){ 0 };
	*ret_nodes = (struct gm_idset){ 0 };
	for (uint32_t i = 0; i < run->n_rows; i++) {
		struct gpumap_device d = { .size = sizeof(d) };
		struct gm_idset cpus;

		if (gpumap_device_read(run->ctl->map, run->rows[i], &d) != 0)
			d.known = 0;
		has_cpus = has_cpus && (d.known & GPUMAP_KNOWN_CPUS) != 0 &&
			   gm_idset_parse(d.cpus, &cpus) > 0;
		has_nodes = has_nodes && (d.known & GPUMAP_KNOWN_NUMA) != 0 &&
			    d.numa_node >= 0;
		for (int cpu = -1;
		     has_cpus && (cpu = gm_idset_next(&cpus, cpu)) >= 0;)
			gm_idset_add(ret_cpus, cpu);
		gm_idset_add(ret_nodes, has_nodes ? d.numa_node : -1);
	}
	if (!has_cpus)
		*ret_cpus = (struct gm_idset){ 0 };
	if (!has_nodes)
		*ret_nodes = (struct gm_idset){ 0 };
}

/* Leave of @cpus those that this process may use now. */
static int allow(struct gm_idset *cpus)
{
	struct gm_idset allowed = { 0 };

	if (sched_getaffinity(0, sizeof(allowed), (cpu_set_t *)&allowed) < 0)
		return 0;
	return gm_idset_and(cpus, &allowed);
}

void gm_run_bind_find(const struct gm_run *run, struct gm_run_binding *ret)
{
	struct gm_idset cpus, nodes;

	find(run, &cpus, &nodes);
	allow(&cpus);
	if (gm_idset_format(&cpus, ret->cpus, sizeof(ret->cpus)) < 0)
		ret->cpus[0] = '\0';
	if (gm_idset_format(&nodes, ret->nodes, sizeof(ret->nodes)) < 0)
		ret->nodes[0] = '\0';
}

void gm_run_bind(const struct gm_run *run)
{
	struct gm_idset cpus, nodes;
	int ret;

	find(run, &cpus, &nodes);
	if (gm_idset_count(&cpus) > 0 && allow(&cpus) == 0)
		gm_run_say("the CPUs stay as they are: this process may use "
			   "none of the rows' own");
	else if (gm_idset_count(&cpus) > 0 &&
		 sched_setaffinity(0, sizeof(cpus), (const cpu_set_t *)&cpus) !=
			 0)
		gm_run_say("the CPUs stay as they are: %s", strerror(errno));
	ret = gm_numa_bind_prefer(NULL, &nodes);
	if (ret != 0)
		gm_run_say("the memory is of any node: %s",
			   gm_numa_bind_why(ret));
}
