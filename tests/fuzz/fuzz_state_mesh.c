/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* State files of meshes: whatever is taken can be arranged, and is the same
 * mesh when it is written down and read again. */

#include "tests/fuzz/fuzz_state.h"

#include "agent/daemon/meshes/state_text.h"

static int read_text(const char *text, size_t bytes, struct gm_mesh_file *mesh)
{
	char why[GM_WHY_BYTES] = "";

	return fuzz_state_must(
		gm_mesh_text_read("m.mesh", text, bytes, mesh, why), why);
}

static void check_sense(const struct gm_mesh_file *mesh)
{
	const struct gm_arrange_ask *ask = &mesh->ask;

	MUST(strcmp(ask->name, "m") == 0);
	MUST(mesh->version > 0 && mesh->version >> (64 - GM_UNIT_BITS) == 0);
	MUST(ask->n_rows > 0 && ask->n_rows <= GM_ROWS);
	for (uint32_t i = 0; i < ask->n_rows; i++)
		for (uint32_t k = 0; k < i; k++)
			MUST(memcmp(mesh->uuids[i], mesh->uuids[k], 16) != 0);
}

/* Its rows are not known until the agent finds them by uuid. */
static struct gm_arranged arranged_of(const struct gm_mesh_file *mesh)
{
	uint32_t *rows = (void *)(uintptr_t)mesh->ask.rows;
	struct gm_arranged arranged;
	char why[GM_WHY_BYTES] = "";

	for (uint32_t i = 0; i < mesh->ask.n_rows; i++)
		rows[i] = GM_ROWS - 1 - i;
	MUST(gm_arrange(&mesh->ask, why, &arranged) == 0);
	MUST(arranged.mesh.world == mesh->ask.n_rows);
	return arranged;
}

static uint64_t *block_of(const struct gm_meshes *mesh)
{
	uint64_t *words = malloc(gm_meshes_bytes(mesh));

	MUST(words != NULL);
	gm_meshes_build(mesh, 1, words);
	return words;
}

static void check_again(const struct gm_mesh_file *mesh)
{
	struct gm_arranged arranged = arranged_of(mesh), again;
	const struct gm_meshes *made = &arranged.mesh;
	struct gm_mesh_file copy;
	uint64_t *words, *same;
	size_t n;
	char *text;

	MUST(gm_mesh_text_make(made, mesh->version, mesh->ask.published,
			       (const uint8_t(*)[16])mesh->uuids, &text,
			       &n) == 0);
	MUST(read_text(text, n, &copy) == 0);
	MUST(copy.version == mesh->version);
	MUST(memcmp(copy.uuids, mesh->uuids, 16 * copy.ask.n_rows) == 0);
	again = arranged_of(&copy);
	MUST(gm_meshes_bytes(&again.mesh) == gm_meshes_bytes(made));
	words = block_of(made);
	same = block_of(&again.mesh);
	MUST(memcmp(words, same, gm_meshes_bytes(made)) == 0);
	free(words);
	free(same);
	free(text);
	gm_arranged_free(&arranged);
	gm_arranged_free(&again);
	gm_mesh_text_free(&copy);
}

static void try_text(const char *text, size_t bytes)
{
	struct gm_mesh_file mesh;

	if (read_text(text, bytes, &mesh) != 0)
		return;
	check_sense(&mesh);
	check_again(&mesh);
	gm_mesh_text_free(&mesh);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	fuzz_state(data, size, try_text);
	return 0;
}
