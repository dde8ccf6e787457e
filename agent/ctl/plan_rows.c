/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* List the rows to plan on: of a node file, or as the agent publishes them. */

#include <stdio.h>
#include <string.h>

#include "agent/ctl/plan.h"
#include "agent/plan/nodefile.h"

_Static_assert(GM_PLAN_ROWS >= GPUMAP_ROWS_MAX, "a plan takes all rows");
_Static_assert(GM_NODEFILE_NAME == GPUMAP_NAME_MAX + 1, "names are copied");

int gm_ctl_rows_of_file(const char *path, struct gm_ctl_node *ret_node)
{
	struct gm_plan_error error = { .code = 0 };
	struct gm_nodefile file;

	if (gm_nodefile_read(path, &file, &error) != 0)
		return gm_ctl_plan_error(&error);
	memcpy(ret_node->name, file.name, sizeof(ret_node->name));
	gm_plan_of_node(&file, ret_node->devices);
	ret_node->n = file.n_rows;
	for (uint32_t i = 0; i < file.n_rows; i++)
		memcpy(ret_node->names[i], file.rows[i].name,
		       sizeof(ret_node->names[i]));
	gm_nodefile_free(&file);
	return GM_EXIT_OK;
}

int gm_ctl_rows_of_agent(struct gm_ctl *ctl, struct gm_ctl_node *ret_node)
{
	uint32_t n = gpumap_device_count(ctl->map);

	for (uint32_t row = 0; row < n; row++) {
		struct gpumap_device d = { .size = sizeof(d) };
		int ret = gpumap_device_read(ctl->map, row, &d);
		bool is_host;

		if (ret != 0)
			return gm_ctl_fail(ctl, ret, "row %u", row);
		if (!gm_ctl_is_usable(&d))
			continue;
		is_host = (d.flags & GPUMAP_DEVICE_MAIN_MEMORY) != 0;
		memcpy(ret_node->names[row], d.name, sizeof(d.name));
		ret_node->devices[ret_node->n++] = (struct gm_plan_device){
			.row = row,
			.is_host = is_host,
			.is_cuda = (d.known & GPUMAP_KNOWN_CC) != 0,
			.is_integrated =
				(d.flags & GPUMAP_DEVICE_INTEGRATED) != 0,
			.is_drained = d.state == GPUMAP_DEVICE_DRAINING ||
				      (d.flags & GPUMAP_DEVICE_CORDONED) != 0,
			.is_dummy = (d.flags & GPUMAP_DEVICE_SERVES) == 0,
			.cc_major = d.cc_major,
			.cc_minor = d.cc_minor,
			.avail = gm_ctl_avail(&d),
			.total = d.total_bytes,
			.speed = gm_plan_speed(is_host, d.units, d.free_bytes,
					       d.cc_major),
		};
	}
	return GM_EXIT_OK;
}

int gm_ctl_choose_rows(struct gm_ctl_planning *p)
{
	const struct gm_ctl *ctl = p->ctl;
	struct gm_ctl_node *node = &p->node;
	uint32_t n = node->n, row = 0;
	int ret;

	p->q.ask.rows = ctl->rows;
	p->q.ask.n_rows = ctl->n_rows;
	ret = gm_plan_choose(&p->q, node->devices, n, node->drained,
			     p->q.ask.setting == GPUMAP_SETTING_MANUAL, &row);
	node->n = p->q.n_devices;
	if (ret == 0)
		return GM_EXIT_OK;
	if (gm_plan_is_drained(&p->q, row))
		fprintf(stderr,
			"gpumapctl: row %u is drained or cordoned: gpumapctl "
			"undrain or uncordon brings it back; or leave it out\n",
			row);
	else if (GM_TEXT(ctl, NODE) != NULL)
		fprintf(stderr,
			"gpumapctl: there is no row %u to plan on: %s has 0 to "
			"%u\n",
			row, GM_TEXT(ctl, NODE), n - 1);
	else
		fprintf(stderr,
			"gpumapctl: there is no row %u to plan on: see "
			"gpumapctl devices\n",
			row);
	return GM_EXIT_FAILED;
}
