/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/meshes/mesh_kind.h"

#include <stdlib.h>

#include "agent/common/log.h"
#include "agent/daemon/base/parts.h"
#include "agent/daemon/meshes/epochs.h"
#include "agent/daemon/segment/directory.h"

static struct gm_group_image *groups_of(uint64_t *words)
{
	const struct gm_mesh_image *image = (const void *)words;

	return (void *)((char *)words + image->groups_at);
}

static void visit_rows(uint64_t *words, void (*visit)(uint32_t *row, void *arg),
		       void *arg)
{
	const struct gm_mesh_image *image = (const void *)words;
	const struct gm_group_image *groups = groups_of(words);

	for (uint32_t i = 0; i < image->n_groups; i++) {
		uint32_t *rows = (void *)((char *)words + groups[i].rows_at);

		for (uint32_t k = 0; k < groups[i].n; k++)
			visit(&rows[k], arg);
	}
}

static void clear_moving(uint64_t *words)
{
	const struct gm_mesh_image *image = (const void *)words;

	for (uint32_t i = 0; i < image->n_groups; i++)
		groups_of(words)[i].epoch = 0;
}

/* No epoch is published before its series is on the disk. */
static int before_file(struct gm_daemon *d, char ret_why[GM_WHY_BYTES])
{
	return gm_epochs_claim(d->epochs, &d->state->dir, ret_why);
}

static void after_show(struct gm_daemon *d, const struct gm_put *put,
		       const uint64_t *words, bool is_restored)
{
	const struct gm_mesh_image *image = (const void *)words;
	const struct gm_block *block = &d->directory->objects[put->slot];

	gm_log_of(block->owner_uid, GM_LOG_INFO,
		  is_restored ? "restored" : "published",
		  "kind=mesh name=%s world=%u version=%llu uid=%u", block->name,
		  image->world, (unsigned long long)block->version,
		  block->owner_uid);
}

const struct gm_state_kind gm_mesh_kind = {
	.number = GM_KIND_MESH,
	.layout = 1,
	.what = "mesh",
	.suffix = ".mesh",
	.visit_rows = visit_rows,
	.clear_moving = clear_moving,
	.expect = gm_epochs_expect,
	.before_file = before_file,
	.before_show = gm_epochs_give,
	.after_show = after_show,
};

uint64_t *gm_mesh_kind_words(const struct gm_meshes *mesh)
{
	uint64_t *words = malloc(gm_meshes_bytes(mesh));

	if (words != NULL)
		gm_meshes_build(mesh, 0, words);
	return words;
}
