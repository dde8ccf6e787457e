/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * engine: a thousand maps in the settings of each engine, more in the torture
 * target, which the engine's own rules turn into the map again, or which say
 * that they do not; refusals name a layer, and are of maps that the engine
 * cannot follow.
 */

#include <errno.h>
#include <stdlib.h>

#include <gpumap/engine.h>

#include "tests/support/dice.h"
#include "tests/support/engine_table.h"
#include "tests/support/tap.h"

/* ---- maps by chance ------------------------------------------------------ */

/* Ranges of rows in a random order, mostly each row once. */
static void make_map(void)
{
	uint32_t n_rows = n_cards + n_hosts, order[16], at = 0, used = 0;
	bool wild = dice(4) == 0;

	n_layers = 1 + (uint32_t)dice(dice(3) == 0 ? RULES_LAYERS : 40);
	for (uint32_t i = 0; i < n_rows; i++)
		order[i] = i;
	for (uint32_t i = n_rows; i > 1; i--) {
		uint32_t k = (uint32_t)dice(i), other = order[i - 1];

		order[i - 1] = order[k];
		order[k] = other;
	}
	while (at < n_layers) {
		uint32_t row =
			wild ? (uint32_t)dice(n_rows)
			     : order[used < n_rows ? used++ : n_rows - 1];
		uint32_t n = 1 + (uint32_t)dice(n_layers);

		if (!wild && row >= n_cards && dice(2) == 0 && used < n_rows)
			continue;
		for (; n > 0 && at < n_layers; n--)
			rows[at++] = row;
	}
	base_row = dice(3) > 0 ? rows[0] : (uint32_t)dice(n_rows);
}

/* ---- what is so of a map ------------------------------------------------- */

static bool on_host(uint32_t layer)
{
	return rows[layer] >= n_cards;
}

/* Has each of the cards, or each row, one range of layers? */
static bool in_ranges(bool hosts_too)
{
	for (uint32_t i = 1; i < n_layers; i++)
		for (uint32_t k = 0; k + 1 < i; k++)
			if (rows[k] == rows[i] && rows[i - 1] != rows[i] &&
			    (hosts_too || !on_host(i)))
				return false;
	return true;
}

static uint32_t rows_in_use(bool hosts)
{
	bool seen[16] = { false };
	uint32_t n = 0;

	for (uint32_t i = 0; i < n_layers; i++) {
		n += on_host(i) == hosts && !seen[rows[i]];
		seen[rows[i]] = true;
	}
	return n;
}

static bool has_parts(void)
{
	for (uint32_t i = 0; i < n_layers; i++)
		if (!on_host(i) && table[rows[i]].mig_gi >= 0)
			return true;
	return false;
}

/* With several hosts an engine's memory is any node's. */
static bool host_is_one(void)
{
	return rows_in_use(true) == 0 || n_hosts == 1;
}

/* The layers of the host come first, and each card has one range. */
static bool is_llamas(void)
{
	for (uint32_t i = 1; i < n_layers; i++)
		if (on_host(i) && !on_host(i - 1))
			return false;
	return in_ranges(false);
}

static bool is_place(int row, uint32_t layer)
{
	return row == (on_host(layer) ? RULES_CPU : (int)rows[layer]);
}

/* How many layers the engine places, or caches, elsewhere? */
static uint32_t n_elsewhere(const int *places)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < n_layers; i++)
		n += !is_place(places[i], i);
	return n;
}

static bool names_a_layer(int ret)
{
	const char *why = gpumap_refusal(NULL);
	unsigned int layer, row;

	return ret == -EOPNOTSUPP &&
	       sscanf(why, "layer %u is on row %u", &layer, &row) == 2 &&
	       layer < n_layers && rows[layer] == row &&
	       strstr(why, "publish") != NULL;
}

/* ---- each engine --------------------------------------------------------- */

static struct {
	uint32_t exact, told, refused;
} count;

/* Returns whether all is as it has to be. */
static bool try_llama(uint32_t engine, uint32_t flags)
{
	struct gpumap_engine_settings *s;
	int ret = table_export(engine, flags, &s);
	struct rules_place place;
	uint32_t n_cached, n_weights;
	bool good;

	if (ret != 0) {
		count.refused++;
		return names_a_layer(ret) && rows_in_use(true) > 1;
	}
	if (!rules_llama_cpp(s, n_layers, &place)) {
		gpumap_engine_free(s);
		return false;
	}
	n_weights = n_elsewhere(place.weights);
	n_cached = n_elsewhere(place.caches);
	good = n_weights == 0 && place.n_named == n_cached &&
	       s->exact == (n_cached == 0 && host_is_one()) &&
	       (n_cached > 0 || is_llamas()) && (n_cached == 0 || !is_llamas());
	count.exact += s->exact;
	count.told += !s->exact && s->n_notes > 0;
	good = good && (s->exact || s->n_notes > 0);
	gpumap_engine_free(s);
	return good;
}

static bool try_pipeline(uint32_t engine, const char *variable)
{
	struct gpumap_engine_settings *s;
	int ret = table_export(engine, 0, &s);
	bool can = rows_in_use(true) == 0 && in_ranges(false) &&
		   (rows_in_use(false) == 1 || !has_parts());
	struct rules_place place;
	bool good;

	if (ret != 0) {
		count.refused++;
		return names_a_layer(ret) && !can;
	}
	good = can && rules_pipeline(s, variable, n_layers, &place) &&
	       n_elsewhere(place.weights) == 0 &&
	       /* The first rank has the embeddings. */
	       s->exact == (uint32_t)(rows[0] == base_row) &&
	       s->n_notes >= (uint32_t)!s->exact;
	count.exact += s->exact;
	gpumap_engine_free(s);
	return good;
}

static bool try_mistral(void)
{
	struct gpumap_engine_settings *s;
	int ret = table_export(GPUMAP_ENGINE_MISTRAL_RS, 0, &s);
	struct rules_place place;
	bool good, no_file;

	if (ret != 0) {
		count.refused++;
		return names_a_layer(ret) && rows_in_use(true) > 1;
	}
	good = rules_mistral_rs(s, n_layers, &place) &&
	       n_elsewhere(place.weights) == 0 &&
	       s->exact == (uint32_t)host_is_one();
	/* A card that is the base row is that. */
	if (base_row < n_cards)
		good = good && place.other == (int)base_row;
	/* No file where entries can say it. */
	no_file = rules_option(s, "--topology") == NULL;
	good = good && (no_file || !in_ranges(true) || !on_host(n_layers - 1));
	count.exact += s->exact;
	gpumap_engine_free(s);
	return good;
}

static void show_map(const char *engine)
{
	char text[1024];
	size_t n = 0;

	for (uint32_t i = 0; i < n_layers && n < 900; i++)
		n += (size_t)snprintf(text + n, sizeof(text) - n, " %u",
				      rows[i]);
	NOTE("%s: %u cards, %u hosts, base %u, layers on%s; %s", engine,
	     n_cards, n_hosts, base_row, text, gpumap_refusal(NULL));
}

#define TRY(call)                             \
	do {                                  \
		if (!(call) && n_wrong++ < 5) \
			show_map(#call);      \
	} while (0)

static void each_map_comes_back(void)
{
	const char *rounds = getenv("GM_ROUNDS");
	uint32_t n_maps = rounds ? 50 * (uint32_t)atoi(rounds) : 200;
	uint32_t n_wrong = 0;

	dice_state = 20261125;
	for (uint32_t i = 0; i < n_maps; i++) {
		table_make(1 + (uint32_t)dice(8), 1 + (uint32_t)dice(2),
			   dice(8) == 0);
		make_map();
		TRY(try_llama(GPUMAP_ENGINE_LLAMA_CPP, 0));
		TRY(try_llama(GPUMAP_ENGINE_LLAMA_CPP, GPUMAP_ENGINE_BY_ENV));
		TRY(try_llama(GPUMAP_ENGINE_OLLAMA, 0));
		TRY(try_pipeline(GPUMAP_ENGINE_VLLM,
				 "VLLM_PP_LAYER_PARTITION"));
		TRY(try_pipeline(GPUMAP_ENGINE_SGLANG,
				 "SGLANG_PP_LAYER_PARTITION"));
		TRY(try_mistral());
	}
	EQ(n_wrong, 0);
	NOTE("%u exact, %u told not to be, %u refused", count.exact, count.told,
	     count.refused);
	/* Chance has met all of it. */
	OK(count.exact > n_maps && count.told > n_maps / 2 &&
	   count.refused > n_maps / 2);
}

TAP_CASE()
{
	each_map_comes_back();
	return tap_done();
}
