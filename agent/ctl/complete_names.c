/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* Offer names of what the agent has, without a word of errors. */

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/ctl/complete.h"
#include "agent/reader/list.h"

#define LIMIT_S 1u /* a Tab waits so long for an agent that does not answer */

static bool is_plain(const char *text)
{
	for (; *text != '\0'; text++)
		if ((unsigned char)*text < ' ' || *text == 0x7f)
			return false;
	return true;
}

void gm_ctl_offer(const struct gm_ctl_line *line, const char *text,
		  const char *about)
{
	if (strncmp(text, line->word, strlen(line->word)) == 0 &&
	    is_plain(text))
		printf("%.*s%s\t%s\n", (int)line->n_head, line->head, text,
		       is_plain(about) ? about : "");
}

typedef int next_name(const struct gpumap *map, uint32_t *cursor,
		      char ret_name[GPUMAP_NAME_MAX + 1]);

static void offer_each(const struct gm_ctl_line *line, next_name *next)
{
	char name[GPUMAP_NAME_MAX + 1];
	uint32_t cursor = 0;

	while (next(line->ctl.map, &cursor, name) == 1)
		gm_ctl_offer(line, name, "");
}

static void offer_rows(const struct gm_ctl_line *line)
{
	uint32_t n = gpumap_device_count(line->ctl.map);
	char text[12];

	for (uint32_t row = 0; row < n; row++) {
		struct gpumap_device device = { .size = sizeof(device) };

		if (gpumap_device_read(line->ctl.map, row, &device) != 0)
			continue;
		snprintf(text, sizeof(text), "%u", row);
		gm_ctl_offer(line, text, device.name);
	}
}

static void offer_groups(const struct gm_ctl_line *line)
{
	struct gpumap_mesh_group group = { .size = sizeof(group) };
	uint32_t cursor = 0;

	while (line->ctl.n_args > 0 &&
	       gpumap_mesh_next_group(line->ctl.map, line->ctl.args[0],
				      GPUMAP_MESH_ANY, &cursor, &group) == 1)
		gm_ctl_offer(line, group.name, "");
}

static void offer_shares(const struct gm_ctl_line *line)
{
	struct gpumap_share_info *shares = NULL;
	int n = gm_list_share(line->ctl.map, &shares);

	for (int i = 0; i < n; i++)
		gm_ctl_offer(line, shares[i].name, "");
	free(shares);
}

static void offer_nodes(const struct gm_ctl_line *line)
{
	struct gpumap_cluster_node node = { .size = sizeof(node) };
	uint32_t cursor = 0;

	while (gpumap_cluster_next_node(line->ctl.map, &cursor, &node) == 1)
		gm_ctl_offer(line, node.name, node.address);
}

/* A model that several nodes have is offered once. */
static void offer_models(const struct gm_ctl_line *line)
{
	struct gpumap_cluster_share share = { .size = sizeof(share) },
				    other = { .size = sizeof(other) };
	uint32_t cursor = 0;

	while (gpumap_cluster_next_share(line->ctl.map, GPUMAP_CLUSTER_ANY,
					 NULL, &cursor, &share) == 1) {
		uint32_t first = 0;

		if (gpumap_cluster_next_share(line->ctl.map, GPUMAP_CLUSTER_ANY,
					      share.name, &first,
					      &other) == 1 &&
		    first == cursor)
			gm_ctl_offer(line, share.name, "");
	}
}

static void give_up(int signal)
{
	(void)signal;
	_exit(GM_EXIT_OK);
}

void gm_ctl_offer_names(struct gm_ctl_line *line, const char *kind)
{
	struct gpumap_attach_opts opts = { .size = sizeof(opts),
					   .instance = line->ctl.instance,
					   .runtime_dir =
						   line->ctl.runtime_dir };

	signal(SIGALRM, give_up);
	alarm(LIMIT_S);
	if (gpumap_attach(&opts, &line->ctl.map) != 0)
		return;
	if (strcmp(kind, "MAP") == 0)
		offer_each(line, gpumap_layers_next);
	else if (strcmp(kind, "MASK") == 0)
		offer_each(line, gpumap_mask_next);
	else if (strcmp(kind, "MESH") == 0)
		offer_each(line, gpumap_mesh_next);
	else if (strcmp(kind, "ROW") == 0)
		offer_rows(line);
	else if (strcmp(kind, "GROUP") == 0)
		offer_groups(line);
	else if (strncmp(kind, "NODE", 4) == 0)
		offer_nodes(line);
	else if (strcmp(kind, "MODEL") == 0)
		offer_models(line);
	else
		offer_shares(line);
	gpumap_detach(line->ctl.map);
	line->ctl.map = NULL;
}
