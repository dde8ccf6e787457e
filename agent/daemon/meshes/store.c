/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/meshes/store.h"

#include "agent/common/log.h"
#include "agent/daemon/base/parts.h"
#include "agent/daemon/meshes/epochs.h"
#include "agent/daemon/segment/directory.h"

static void build_mesh(const struct gm_draft *draft, uint64_t published,
		       uint64_t version, uint64_t *ret_words)
{
	struct gm_meshes dated = *(const struct gm_meshes *)draft->content;

	dated.published = published;
	gm_meshes_build(&dated, version, ret_words);
}

int gm_mesh_store_prepare(struct gm_daemon *d, const struct gm_meshes *mesh,
			  uint64_t least_version, char ret_why[GM_WHY_BYTES],
			  struct gm_put *ret_put)
{
	const struct gm_draft draft = { .build = build_mesh,
					.content = mesh,
					.kind = GM_KIND_MESH,
					.owner_uid = mesh->owner_uid,
					.name = mesh->name,
					.bytes = gm_meshes_bytes(mesh),
					.published = mesh->published };
	int ret = gm_directory_prepare(d, &draft, least_version, ret_why,
				       ret_put);

	if (ret == 0)
		ret_put->n_rows = mesh->world;
	return ret;
}

static void store(struct gm_daemon *d, const struct gm_put *put,
		  bool is_restored)
{
	const struct gm_block *block = &d->directory->objects[put->slot];

	gm_epochs_give(d, &put->block);
	gm_directory_store(d, put);
	gm_log_of(block->owner_uid, GM_LOG_INFO,
		  is_restored ? "restored" : "published",
		  "kind=mesh name=%s world=%u version=%llu uid=%u", block->name,
		  put->n_rows, (unsigned long long)block->version,
		  block->owner_uid);
}

void gm_mesh_store(struct gm_daemon *d, const struct gm_put *put)
{
	store(d, put, false);
}

int gm_mesh_store_restore(struct gm_daemon *d, const struct gm_meshes *mesh,
			  uint64_t version, char ret_why[GM_WHY_BYTES])
{
	struct gm_put put;
	int ret = gm_mesh_store_prepare(d, mesh, version + 1, ret_why, &put);

	if (ret == 0)
		store(d, &put, true);
	return ret;
}
