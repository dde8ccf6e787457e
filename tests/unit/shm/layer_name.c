/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* layer_name: names with and without a layer, and their order. */

#include <stdlib.h>
#include <string.h>

#include "shm/layer_name.h"
#include "tests/support/tap.h"

static void names_tell_their_layers(void)
{
	static const struct {
		const char *text;
		size_t prefix;
		uint64_t layer;
	} table[] = {
		{ "layers.0.w", 7, 0 },
		{ "model.layers.17.self_attn.q_proj.weight", 13, 17 },
		{ "transformer.h.3.w", 14, 3 },
		{ "blk.9.w", 4, 9 },
		{ "blocks.10.w", 7, 10 },
		{ "block.2.w", 6, 2 },
		{ "encoder.layer.1.w", 14, 1 },
		/* The first number behind such a word counts. */
		{ "layers.1.layers.2.w", 7, 1 },
		{ "layers.x.layers.2.w", 16, 2 },
		{ "layers.layers.2.w", 14, 2 },
		{ "layers.4294967295.w", 7, UINT32_MAX },
	};

	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		struct gm_layer_name name = { 0 };

		OK(gm_layer_name_parse(table[i].text, &name));
		OK(name.text == table[i].text);
		EQ(name.prefix, table[i].prefix);
		EQ(name.layer, table[i].layer);
	}
}

static void other_names_have_none(void)
{
	static const char *const texts[] = {
		"",
		".",
		"layers",
		"layers.",
		"layers.0",
		"layers.0.",
		"layers.00.w",
		"layers.01.w",
		"layers..w",
		"layers.1a.w",
		"layers.-1.w",
		"layers.+1.w",
		"layers. 1.w",
		"Layers.0.w",
		"mylayers.0.w",
		"layersx.0.w",
		"0.w",
		"norm.0.w",
		"lm_head.weight",
	};

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		struct gm_layer_name name;

		OK(!gm_layer_name_parse(texts[i], &name));
	}
}

static void large_numbers_do_not_wrap(void)
{
	struct gm_layer_name name = { 0 };

	OK(gm_layer_name_parse("h.4294967296.w", &name));
	OK(name.layer > UINT32_MAX);
	OK(gm_layer_name_parse("h.18446744073709551617.w", &name));
	OK(name.layer > UINT32_MAX);
	OK(gm_layer_name_parse("h.99999999999999999999999999.w", &name));
	OK(name.layer > UINT32_MAX);
}

static void names_are_in_order(void)
{
	static const char *const ordered[] = { "h.0.w", "h.2.a", "h.10.a",
					       "a.h.1.w", "b.h.0.w" };
	struct gm_layer_name names[5];

	for (size_t i = 0; i < 5; i++)
		OK(gm_layer_name_parse(ordered[4 - i], &names[i]));
	qsort(names, 5, sizeof(names[0]), gm_layer_name_compare);
	for (size_t i = 0; i < 5; i++)
		OK(strcmp(names[i].text, ordered[i]) == 0);
	EQ(gm_layer_name_compare_stack(&names[0], &names[2]), 0);
	OK(gm_layer_name_compare_stack(&names[2], &names[3]) < 0);
	OK(gm_layer_name_compare_stack(&names[4], &names[3]) > 0);
}

TAP_CASE()
{
	names_tell_their_layers();
	other_names_have_none();
	large_numbers_do_not_wrap();
	names_are_in_order();
	return tap_done();
}
