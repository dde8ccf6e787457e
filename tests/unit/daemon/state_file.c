/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * state/file: of each kind, what is written is read, by devices and not by
 * rows; a file that is damaged anywhere, or that makes no sense though its sum
 * is right, is not believed.
 */

#include <errno.h>

#include "shm/objects.h"
#include "tests/support/state_files.h"
#include "tests/support/tap.h"

static const uint32_t in_order[] = { 0, 1, 2 }, moved[] = { 2, 0, 1 };
static char why[GM_WHY_BYTES];

static int check(uint32_t kind, const struct gm_state_file *file, size_t bytes)
{
	why[0] = '\0';
	return gm_state_file_check(state_kinds[kind], state_names[kind], file,
				   bytes, why);
}

/* ---- good files ---------------------------------------------------------- */

static void good_files_are_believed(void)
{
	for (uint32_t kind = 0; kind < N_STATE_KINDS; kind++) {
		struct gm_state_file *file = state_file(kind);

		if (!EQ(check(kind, file, file->bytes), 0))
			NOTE("%s: %s", state_names[kind], why);
		free(file);
	}
}

/* Are these the words of the same object, with rows as they are now? */
static void comes_back(uint32_t kind, struct gm_state_file *file,
		       uint64_t *want)
{
	uint64_t *words = NULL;
	bool is_lost = true;

	EQ(gm_state_file_block(&state_daemon, state_kinds[kind], file, &words,
			       &is_lost),
	   0);
	OK(!is_lost);
	((struct gm_object_image *)want)->version = 5;
	OK(words != NULL &&
	   memcmp(words, want, gm_state_file_word_bytes(file)) == 0);
	free(words);
	free(want);
}

/* Rows that have other numbers after a reboot are found by their devices. */
static void rows_are_devices(void)
{
	static const uint32_t of_layers[] = { 1, 2, 1 }, of_mesh[] = { 0, 1 };
	struct gm_charge_image charges[2];
	struct gm_state_file *files[2] = { state_file(MAP), state_file(MESH) };
	struct gm_layers map = state_map();
	struct gm_meshes mesh = state_mesh();
	uint64_t *words;
	bool is_lost;

	EQ(files[MAP]->n_uuids, 2);
	EQ(files[MAP]->uuids[0][0], 0x33);
	EQ(files[MAP]->uuids[1][15], 0x11);
	comes_back(MAP, files[MAP], gm_map_kind_words(&map));
	comes_back(MESH, files[MESH], gm_mesh_kind_words(&mesh));
	state_devices(moved);
	memcpy(charges, map.charges, sizeof(charges));
	charges[0].row = 1;
	charges[1].row = 2;
	map.charges = charges;
	map.rows = of_layers;
	map.base = 1;
	mesh.rows = of_mesh;
	comes_back(MAP, files[MAP], gm_map_kind_words(&map));
	comes_back(MESH, files[MESH], gm_mesh_kind_words(&mesh));
	state_daemon.devices->of[2]->present = false;
	EQ(gm_state_file_block(&state_daemon, &gm_map_kind, files[MAP], &words,
			       &is_lost),
	   0);
	OK(is_lost);
	free(words);
	state_daemon.devices->n = 2;
	EQ(gm_state_file_block(&state_daemon, &gm_map_kind, files[MAP], &words,
			       &is_lost),
	   -ENODEV);
	free(files[MAP]);
	free(files[MESH]);
	state_devices(in_order);
}

/* ---- names --------------------------------------------------------------- */

static void names_are_files(void)
{
	static const struct {
		const char *name, *file;
	} pairs[] = {
		{ "llama-2.70b_f16", "llama-2.70b_f16.layers" },
		{ "../x", "%2E.%2Fx.layers" },
		{ "a%/\xfe", "a%25%2F%FE.layers" },
	};
	static const char *const nobodys[] = {
		".layers",    "layers",     "a.layers.replaced", "%2Ex",
		"a/b.layers", "%61.layers", /* an a */
		"%00.layers", "%2.layers",  "..layers",          "a.mesh",
		"%",          "%2",         "%.layers",          "% 2.layers",
	};
	char file[3 * GM_STATE_NAME_BYTES], name[GM_NAME_BYTES];
	char widest[GM_NAME_BYTES + 1];

	for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
		gm_state_file_name(&gm_map_kind, pairs[i].name, file);
		STR(file, pairs[i].file);
		OK(gm_state_file_owner(&gm_map_kind, file, name));
		STR(name, pairs[i].name);
	}
	memset(widest, 0xff, sizeof(widest));
	widest[GM_NAME_BYTES - 1] = '\0';
	gm_state_file_name(&gm_map_kind, widest, file);
	EQ(strlen(file), 3 * (GM_NAME_BYTES - 1) + 7);
	OK(gm_state_file_owner(&gm_map_kind, file, name));
	STR(name, widest);
	memset(widest, 'w', sizeof(widest));
	widest[GM_NAME_BYTES] = '\0';
	snprintf(file, sizeof(file), "%s.layers", widest);
	OK(!gm_state_file_owner(&gm_map_kind, file, name));
	memset(file, 'w', sizeof(file));
	strcpy(file + sizeof(file) - 8, ".layers");
	OK(!gm_state_file_owner(&gm_map_kind, file, name));
	for (size_t i = 0; i < sizeof(nobodys) / sizeof(nobodys[0]); i++)
		OK(!gm_state_file_owner(&gm_map_kind, nobodys[i], name));
}

/* ---- what a disk does ---------------------------------------------------- */

/* Each cut and each flipped bit of each kind. */
static void damage_is_noticed(void)
{
	int passed = 0;

	for (uint32_t kind = 0; kind < N_STATE_KINDS; kind++) {
		struct gm_state_file *file = state_file(kind);
		size_t bytes = file->bytes;
		char *text = (char *)file;

		for (size_t cut = 0; cut < bytes; cut++)
			passed += check(kind, file, cut) == 0;
		EQ(check(kind, file, bytes - 1), -EBADMSG);
		STR(why, "its length or its sum is wrong: it was cut, or "
			 "changed");
		for (size_t i = 0; i < 8 * bytes; i++) {
			text[i / 8] = (char)(text[i / 8] ^ (1 << i % 8));
			passed += check(kind, file, bytes) == 0;
			text[i / 8] = (char)(text[i / 8] ^ (1 << i % 8));
		}
		EQ(check(kind, file, bytes), 0);
		free(file);
	}
	EQ(passed, 0);
}

/* ---- what makes no sense, though its sum is right ------------------------ */

/* Half of a word of a file of a kind. */
struct change {
	uint32_t kind;
	size_t at; /* from the file's start */
	uint32_t value;
};

#define HEAD(kind, field, value)                                   \
	{                                                          \
		kind, offsetof(struct gm_state_file, field), value \
	}
/* The words of the map and the mask follow two UUIDs each, those of the mesh
 * likewise. */
#define WORDS (sizeof(struct gm_state_file) + 32)
#define OBJECT(kind, field, value)                                           \
	{                                                                    \
		kind, WORDS + offsetof(struct gm_object_image, field), value \
	}
#define LAYERS(field, value)                                                \
	{                                                                   \
		MAP, WORDS + offsetof(struct gm_layers_image, field), value \
	}
#define MESHES(field, value)                                               \
	{                                                                  \
		MESH, WORDS + offsetof(struct gm_mesh_image, field), value \
	}
#define GROUP(i, field, value)                                          \
	{                                                               \
		MESH,                                                   \
			WORDS + sizeof(struct gm_mesh_image) +          \
				(i) * sizeof(struct gm_group_image) +   \
				offsetof(struct gm_group_image, field), \
			value                                           \
	}
#define MASKS(field, value)                                                \
	{                                                                  \
		MASK, WORDS + offsetof(struct gm_mask_image, field), value \
	}

/* Where the parts of these blocks are: shm/layers.c, shm/meshes.c. */
#define ROWS_AT    sizeof(struct gm_layers_image)
#define BYTES_AT   (ROWS_AT + 16)
#define CHARGES_AT (BYTES_AT + 24)
#define RANKS_AT \
	(sizeof(struct gm_mesh_image) + 3 * sizeof(struct gm_group_image))

static const struct change changes[] = {
	/* Heads: of another kind, of another layout, of more devices. */
	HEAD(MAP, kind, GM_KIND_MESH),
	HEAD(MESH, kind, GM_KIND_LAYERS),
	HEAD(MASK, kind, GM_KIND_CLUSTER),
	HEAD(CORDONS, kind, GM_STATE_CALIBRATIONS),
	HEAD(CALIBRATIONS, kind, 0),
	HEAD(MAP, layout, 0),
	HEAD(MAP, layout, 2),
	HEAD(MESH, layout, 2),
	HEAD(MASK, layout, UINT32_MAX),
	HEAD(CORDONS, layout, 2),
	HEAD(CALIBRATIONS, layout, 2),
	HEAD(MAP, magic, 0),
	HEAD(MAP, unused, 1),
	HEAD(MAP, n_uuids, 0),
	HEAD(MAP, n_uuids, 1),
	HEAD(MAP, n_uuids, 3),
	HEAD(MAP, n_uuids, UINT32_MAX),
	HEAD(MESH, n_uuids, 1),
	HEAD(MESH, n_uuids, GM_ROWS + 1),
	HEAD(MASK, n_uuids, 0),
	HEAD(MASK, n_uuids, 30),
	HEAD(CORDONS, n_uuids, 0),
	HEAD(CORDONS, n_uuids, 1),
	HEAD(CORDONS, n_uuids, 3),
	HEAD(CALIBRATIONS, n_uuids, 2),
	/* Objects: another's name, no version, flags that no file has. */
	OBJECT(MAP, name, 'n'),
	OBJECT(MAP, name, 0),
	OBJECT(MAP, name, 'm' | ' ' << 8),
	OBJECT(MAP, name, 'm' | 'x' << 16),
	OBJECT(MESH, name, 'n'),
	OBJECT(MASK, name, 'n'),
	OBJECT(MASK, name, 'm' | 7 << 8),
	OBJECT(MASK, name, 'm' | 'x' << 16),
	OBJECT(MAP, kind, GM_KIND_MESH),
	OBJECT(MESH, kind, GM_KIND_LAYERS),
	OBJECT(MESH, kind, 9),
	OBJECT(MAP, version, 0),
	OBJECT(MESH, version, 0),
	OBJECT(MASK, version, 0),
	OBJECT(MAP, bytes, 0),
	OBJECT(MAP, bytes, 64),
	OBJECT(MESH, bytes, UINT32_MAX),
	OBJECT(MASK, bytes, 352),
	OBJECT(MAP, flags, GM_OBJECT_COMMITTED | GM_OBJECT_HELD),
	OBJECT(MAP, flags, GM_OBJECT_HELD),
	OBJECT(MAP, flags, 4),
	OBJECT(MESH, flags, GM_OBJECT_COMMITTED),
	OBJECT(MASK, flags, GM_OBJECT_COMMITTED),
	OBJECT(MAP, image_bytes, 0),
	OBJECT(MAP, image_bytes, 7),
	OBJECT(MAP, image_bytes, UINT32_MAX - 7),
	OBJECT(MESH, image_bytes, 8),
	OBJECT(MASK, image_bytes, 8),
	/* Layer maps. */
	LAYERS(n_layers, 0),
	LAYERS(n_layers, GM_LAYERS_MAX + 1),
	LAYERS(n_layers, 5),
	LAYERS(n_rows, GM_ROWS + 1),
	LAYERS(n_rows, 3),
	LAYERS(base, 2),
	LAYERS(base, UINT32_MAX),
	LAYERS(spec_bytes, 0),
	LAYERS(spec_bytes, 4096),
	LAYERS(spec_bytes, 5),
	LAYERS(rows_at, 0),
	LAYERS(rows_at, ROWS_AT + 4),
	LAYERS(rows_at, BYTES_AT),
	LAYERS(rows_at, UINT32_MAX - 7),
	LAYERS(bytes_at, ROWS_AT),
	LAYERS(bytes_at, CHARGES_AT),
	LAYERS(charges_at, ROWS_AT),
	LAYERS(charges_at, UINT32_MAX - 7),
	LAYERS(charges_at, CHARGES_AT + 8),
	LAYERS(spec_at, ROWS_AT),
	LAYERS(spec_at, UINT32_MAX - 7),
	{ MAP, WORDS + ROWS_AT, 2 },
	{ MAP, WORDS + ROWS_AT + 8, UINT32_MAX },
	{ MAP, WORDS + CHARGES_AT, 1 }, /* as the second one */
	{ MAP, WORDS + CHARGES_AT, 2 },
	{ MAP, WORDS + CHARGES_AT + 56, UINT32_MAX },
	{ MAP,
	  WORDS + CHARGES_AT + offsetof(struct gm_charge_image, kv_bytes) + 4,
	  UINT32_MAX },
	/* Meshes. */
	MESHES(topology, 0),
	MESHES(topology, 5),
	MESHES(world, 0),
	MESHES(world, 1),
	MESHES(world, 3),
	MESHES(world, GM_ROWS + 1),
	MESHES(tp, 0),
	MESHES(pp, 3),
	MESHES(dp, UINT32_MAX),
	MESHES(n_groups, 0),
	MESHES(n_groups, 4),
	MESHES(n_groups, GM_MESH_GROUPS + 1),
	MESHES(n_added, 3),
	MESHES(groups_at, 0),
	MESHES(groups_at, UINT32_MAX - 7),
	GROUP(0, n, 1),
	GROUP(1, n, 0),
	GROUP(1, n, 3),
	GROUP(1, name, 0),
	GROUP(2, name[3], '0'), /* as the second one */
	GROUP(1, backend, 0),
	GROUP(1, backend, GPUMAP_MESH_MPI + 1),
	GROUP(1, ranks_at, 0),
	GROUP(1, ranks_at, RANKS_AT),
	GROUP(1, ranks_at, UINT32_MAX - 7),
	GROUP(1, rows_at, RANKS_AT),
	GROUP(1, rows_at, RANKS_AT + 12),
	GROUP(2, rows_at, RANKS_AT + 8),
	GROUP(1, rows_at, RANKS_AT + 24 + 4),
	{ MESH, WORDS + RANKS_AT, 2 },
	{ MESH, WORDS + RANKS_AT, 1 },
	{ MESH, WORDS + RANKS_AT + 8, 2 },
	{ MESH, WORDS + RANKS_AT + 8, 1 },
	{ MESH, WORDS + RANKS_AT + 16, 1 },
	{ MESH, WORDS + RANKS_AT + 24, 1 },
	{ MESH, WORDS + RANKS_AT + 24, UINT32_MAX },
	/* Masks. */
	MASKS(kind, 0),
	MASKS(kind, GPUMAP_MASK_CUSTOM + 1),
	MASKS(kind, GPUMAP_MASK_CAUSAL_FLASH),
	MASKS(form, GPUMAP_MASK_BIDIRECTIONAL_SLIDING + 1),
	MASKS(form, GPUMAP_MASK_SLIDING),
	MASKS(dtype, GPUMAP_DTYPE_U64 + 1),
	MASKS(dtype, GPUMAP_DTYPE_BF16),
	MASKS(rank, 0),
	MASKS(rank, 2),
	MASKS(rank, GM_MASK_RANK_MAX + 1),
	MASKS(rank, UINT32_MAX),
	MASKS(shape, 12),
	MASKS(shape, 0),
	MASKS(strides, 2),
	MASKS(bytes, 12),
	MASKS(bytes, 0),
	MASKS(bytes, UINT32_MAX),
	MASKS(n_replicas, 1),
	MASKS(map, 'm'),
	MASKS(map, ' '),
	MASKS(map, 'x' << 8),
	/* Calibrations. */
	{ CALIBRATIONS, sizeof(struct gm_state_file), 0 },
	{ CALIBRATIONS,
	  sizeof(struct gm_state_file) + sizeof(struct gm_calibration), 0 },
};

#define N_CHANGES (sizeof(changes) / sizeof(changes[0]))

static void nonsense_is_not_believed(void)
{
	for (size_t i = 0; i < N_CHANGES; i++) {
		const struct change *change = &changes[i];
		struct gm_state_file *file = state_file(change->kind);

		memcpy((char *)file + change->at, &change->value,
		       sizeof(change->value));
		gm_state_file_seal(file);
		if (!EQ(check(change->kind, file, file->bytes), -EPROTO) ||
		    !OK(why[0] != '\0'))
			NOTE("%s, %zu: %u", state_names[change->kind],
			     change->at, change->value);
		free(file);
	}
	OK(N_CHANGES >= 125);
}

/* A device that is there twice, and a file of every other kind and name. */
static void files_of_others_are_not_believed(void)
{
	for (uint32_t kind = 0; kind < N_STATE_KINDS; kind++) {
		struct gm_state_file *file = state_file(kind);

		for (uint32_t other = 0; other < N_STATE_KINDS; other++)
			EQ(check(other, file, file->bytes),
			   other == kind ? 0 : -EPROTO);
		if (kind != CORDONS && kind != CALIBRATIONS) {
			EQ(gm_state_file_check(state_kinds[kind], "n.layers",
					       file, file->bytes, why),
			   -EPROTO);
			STR(why, "name is not its file's");
		}
		if (file->n_uuids != 0) {
			memcpy(file->uuids[1], file->uuids[0], 16);
			gm_state_file_seal(file);
			EQ(check(kind, file, file->bytes), -EPROTO);
			STR(why, "it has a device twice");
		}
		free(file);
	}
}

static void no_device_is_calibrated_twice(void)
{
	struct gm_state_file *file = state_file(CALIBRATIONS);
	struct gm_calibration *of = (void *)gm_state_file_words(file);

	strcpy(of[1].device, of[0].device);
	gm_state_file_seal(file);
	EQ(check(CALIBRATIONS, file, file->bytes), -EPROTO);
	STR(why, "it has a device twice");
	free(file);
}

/* Their reasons, as they are logged. */
static void reasons_are_given(void)
{
	struct gm_state_file *file = state_file(MAP);
	static const char old[64] = "gpumap-state 1 400 0123456789abcdef\n{";

	file->layout = 3;
	gm_state_file_seal(file);
	EQ(check(MAP, file, file->bytes), -EPROTO);
	STR(why, "it has layout 3 of a map, and this agent reads 1");
	EQ(check(MESH, file, file->bytes), -EPROTO);
	STR(why, "it is no file of a mesh");
	free(file);
	EQ(check(MAP, (const void *)old, sizeof(old)), -EPROTO);
	STR(why, "it is no state file");
	EQ(check(MAP, (const void *)old, 0), -EPROTO);
}

TAP_CASE()
{
	state_devices(in_order);
	good_files_are_believed();
	rows_are_devices();
	names_are_files();
	damage_is_noticed();
	nonsense_is_not_believed();
	files_of_others_are_not_believed();
	no_device_is_calibrated_twice();
	reasons_are_given();
	return tap_done();
}
