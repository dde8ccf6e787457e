/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* State files of layer maps: whatever is taken makes sense, and is taken again
 * when it is written down. */

#include "tests/fuzz/fuzz_state.h"

#include "agent/daemon/map/state_text.h"

static int read_text(const char *text, size_t bytes, struct gm_state_map *map)
{
	char why[GM_WHY_BYTES] = "";

	return fuzz_state_must(
		gm_map_text_read("m.layers", text, bytes, map, why), why);
}

static void check_sense(const struct gm_state_map *map)
{
	const struct gm_layers *layers = &map->layers;

	MUST(strcmp(layers->name, "m") == 0);
	MUST((layers->flags & ~GM_OBJECT_COMMITTED) == 0);
	MUST(map->version > 0 && map->version >> (64 - GM_UNIT_BITS) == 0);
	MUST(layers->n_layers > 0 && layers->n_layers <= GM_LAYERS_MAX);
	MUST(layers->n_rows > 0 && layers->n_rows <= GM_ROWS);
	MUST(layers->base < layers->n_rows);
	for (uint32_t i = 0; i < layers->n_layers; i++)
		MUST(layers->rows[i] < layers->n_rows);
	for (uint32_t i = 0; i < layers->n_rows; i++)
		MUST(layers->charges[i].row == i);
}

static uint64_t *block_of(const struct gm_layers *layers, uint64_t bytes)
{
	uint64_t *words = malloc(bytes);

	MUST(words != NULL);
	gm_layers_build(layers, 1, words);
	return words;
}

static void check_again(const struct gm_state_map *map)
{
	uint64_t bytes = gm_layers_bytes(&map->layers), *words, *again;
	struct gm_state_map copy;
	size_t n;
	char *text;

	MUST(gm_map_text_make(map, &text, &n) == 0);
	MUST(read_text(text, n, &copy) == 0);
	MUST(gm_layers_bytes(&copy.layers) == bytes);
	MUST(copy.version == map->version);
	MUST(memcmp(copy.uuids, map->uuids, 16 * copy.layers.n_rows) == 0);
	words = block_of(&map->layers, bytes);
	again = block_of(&copy.layers, bytes);
	MUST(memcmp(words, again, bytes) == 0);
	free(words);
	free(again);
	free(text);
	gm_state_map_free(&copy);
}

static void try_text(const char *text, size_t bytes)
{
	struct gm_state_map map;

	if (read_text(text, bytes, &map) != 0)
		return;
	check_sense(&map);
	check_again(&map);
	gm_state_map_free(&map);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	fuzz_state(data, size, try_text);
	return 0;
}
