/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/doctor/doctor.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/common/read_file.h"

static const struct gm_check *const tables[] = {
	gm_doctor_machine, gm_doctor_service, gm_doctor_rows,
	gm_doctor_cards,   gm_doctor_cluster,
};

const struct gm_check *gm_doctor_check(size_t i)
{
	for (size_t k = 0; k < sizeof(tables) / sizeof(tables[0]); k++)
		for (const struct gm_check *c = tables[k]; c->id != NULL; c++)
			if (i-- == 0)
				return c;
	return NULL;
}

/* ---- files --------------------------------------------------------------- */

bool gm_doctor_file(const struct gm_doctor *doctor, const char *path,
		    char *ret_text, size_t bytes)
{
	char full[PATH_MAX];

	ret_text[0] = '\0';
	if (gm_read_file_path(full, sizeof(full), doctor->root, "%s", path) !=
		    0 ||
	    gm_read_file(full, ret_text, bytes) < 0) {
		ret_text[0] = '\0';
		return false;
	}
	return true;
}

bool gm_doctor_line(const struct gm_doctor *doctor, const char *path,
		    char *ret_text, size_t bytes)
{
	char text[4096];

	gm_doctor_file(doctor, path, text, sizeof(text));
	text[strcspn(text, "\n")] = '\0';
	snprintf(ret_text, bytes, "%s", text);
	return text[0] != '\0';
}

int64_t gm_doctor_number(const struct gm_doctor *doctor, const char *path,
			 int64_t missing)
{
	char text[64], *end;
	int64_t number;

	if (!gm_doctor_line(doctor, path, text, sizeof(text)))
		return missing;
	number = strtoll(text, &end, 10);
	return end != text ? number : missing;
}

uint64_t gm_doctor_meminfo(const struct gm_doctor *doctor, const char *name)
{
	char text[8192], *line;
	size_t n = strlen(name);
	uint64_t kib;

	if (!gm_doctor_file(doctor, "/proc/meminfo", text, sizeof(text)))
		return 0;
	for (line = text; line != NULL && *line != '\0';
	     line = strchr(line, '\n')) {
		line += *line == '\n';
		if (strncmp(line, name, n) == 0 && line[n] == ':' &&
		    sscanf(line + n + 1, "%" SCNu64, &kib) == 1)
			return kib << 10;
	}
	return 0;
}

bool gm_doctor_exists(const struct gm_doctor *doctor, const char *path)
{
	char full[PATH_MAX];

	return gm_read_file_path(full, sizeof(full), doctor->root, "%s",
				 path) == 0 &&
	       access(full, F_OK) == 0;
}

/* ---- the map ------------------------------------------------------------- */

/* Pids of the map are those of the agent's namespace: is this one an agent? */
static pid_t agent_of(const struct gpumap_health *health)
{
	static const struct gm_doctor here = { .root = "" };
	char path[48], name[64];

	snprintf(path, sizeof(path), "/proc/%u/comm", health->agent_pid);
	if (health->agent_pid == 0 ||
	    !gm_doctor_line(&here, path, name, sizeof(name)) ||
	    strstr(name, "gpumapd") == NULL)
		return 0;
	return (pid_t)health->agent_pid;
}

static int read_rows(struct gm_doctor *doctor)
{
	uint32_t n = gpumap_device_count(doctor->map);

	doctor->rows = calloc((size_t)n + 1, sizeof(*doctor->rows));
	if (doctor->rows == NULL)
		return -ENOMEM;
	for (uint32_t row = 0; row < n; row++) {
		struct gpumap_device *d = &doctor->rows[doctor->n_rows];

		d->size = sizeof(*d);
		if (gpumap_device_read(doctor->map, row, d) == 0)
			doctor->n_rows++;
	}
	return 0;
}

static int read_cluster(struct gm_doctor *doctor)
{
	struct gpumap_cluster cluster = { .size = sizeof(cluster) };
	uint32_t cursor = 0;

	if (gpumap_cluster_read(doctor->map, &cluster) != 0)
		return 0;
	doctor->nodes =
		calloc((size_t)cluster.n_nodes + 1, sizeof(*doctor->nodes));
	if (doctor->nodes == NULL)
		return -ENOMEM;
	doctor->cluster = cluster;
	while (doctor->n_nodes < cluster.n_nodes) {
		struct gpumap_cluster_node *node =
			&doctor->nodes[doctor->n_nodes];

		node->size = sizeof(*node);
		if (gpumap_cluster_next_node(doctor->map, &cursor, node) != 1)
			break;
		doctor->n_nodes++;
	}
	return 0;
}

int gm_doctor_begin(struct gm_doctor *doctor)
{
	struct gpumap_attach_opts opts = { .size = sizeof(opts),
					   .instance = doctor->instance,
					   .runtime_dir = doctor->runtime_dir };

	if (gpumap_attach(&opts, &doctor->map) != 0) {
		snprintf(doctor->not_attached, sizeof(doctor->not_attached),
			 "%s", gpumap_refusal(NULL));
		return 0;
	}
	doctor->health.size = sizeof(doctor->health);
	gpumap_health(doctor->map, &doctor->health);
	if (!doctor->health.stale)
		doctor->agent = agent_of(&doctor->health);
	return read_rows(doctor) == 0 ? read_cluster(doctor) : -ENOMEM;
}

void gm_doctor_end(struct gm_doctor *doctor)
{
	free(doctor->nodes);
	free(doctor->rows);
	gpumap_detach(doctor->map);
}
