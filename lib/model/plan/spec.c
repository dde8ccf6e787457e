/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "lib/model/plan/spec.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/model/plan/number.h"
#include "shm/chars.h"

#define FORMAT_REMEDY "write ROW:LAYERS entries parted by ';', as in 0:16;1:16"

/* For "%.*s", whose length is an int; no message has room for more. */
static int shown(struct gm_chars p)
{
	return p.n < 200 ? (int)p.n : 200;
}

static int bad_number(struct gm_plan_error *err, struct gm_chars p)
{
	return gm_error_set(err, -EINVAL, FORMAT_REMEDY,
			    "Failed to parse %.*s as integer.", shown(p), p.at);
}

/* Adds one entry; @spec has room for it. */
static int parse_entry(struct gm_chars item, struct gm_spec *spec,
		       struct gm_plan_error *err)
{
	const char *colon = item.n ? memchr(item.at, ':', item.n) : NULL;
	struct gm_spec_entry entry;
	struct gm_chars row, layers;

	if (!colon)
		return gm_error_set(
			err, -EINVAL, FORMAT_REMEDY,
			"Expected layer to be of format ORD:NUM, got %.*s",
			shown(item), item.at);
	row = (struct gm_chars){ item.at, (size_t)(colon - item.at) };
	layers = (struct gm_chars){ colon + 1, item.n - row.n - 1 };
	if (gm_number_parse(row.at, row.n, &entry.row))
		return bad_number(err, row);
	if (gm_number_parse(layers.at, layers.n, &entry.layers))
		return bad_number(err, layers);
	for (size_t i = 0; i < spec->n_entries; i++)
		if (spec->entries[i].row == entry.row)
			return gm_error_set(err, -EINVAL,
					    "give each row one entry with the "
					    "sum of its layers",
					    "Duplicate ordinal %" PRIu64,
					    entry.row);
	spec->entries[spec->n_entries++] = entry;
	return 0;
}

/* The next of a list's items, or of a text's. */
static struct gm_chars next_piece(const char *const **items, const char **text)
{
	struct gm_chars piece;

	if (!*text)
		return gm_chars_of(*(*items)++);
	piece = (struct gm_chars){ *text, strcspn(*text, ";") };
	*text += piece.n + 1;
	return piece;
}

/* Parse @n items, or so many of @text. */
static int parse(const char *const *items, const char *text, size_t n,
		 struct gm_spec *ret_spec, struct gm_plan_error *err)
{
	struct gm_spec spec = { 0 };
	int r = 0;

	if (n > GM_SPEC_ENTRIES)
		return gm_error_set(err, -E2BIG, "give each row one entry",
				    "The spec has %zu entries, at most %u are "
				    "allowed",
				    n, GM_SPEC_ENTRIES);
	spec.entries = calloc(n + 1, sizeof(spec.entries[0]));
	if (!spec.entries)
		return gm_error_no_memory(err);
	for (size_t i = 0; i < n && r == 0; i++) {
		struct gm_chars piece = next_piece(&items, &text);

		if (n == 1 && !gm_number_parse(piece.at, piece.n,
					       &spec.entries[0].layers))
			spec.n_entries = 1;
		else
			r = parse_entry(piece, &spec, err);
	}
	if (r)
		gm_spec_free(&spec);
	else
		*ret_spec = spec;
	return r;
}

int gm_spec_parse(const char *text, struct gm_spec *ret_spec,
		  struct gm_plan_error *ret_err)
{
	size_t n = 1;

	if (!text) {
		*ret_spec = (struct gm_spec){ .is_auto = true };
		return 0;
	}
	for (const char *at = text; *at; at++)
		n += *at == ';';
	return parse(NULL, text, n, ret_spec, ret_err);
}

int gm_spec_parse_list(const char *const *items, size_t n,
		       struct gm_spec *ret_spec, struct gm_plan_error *ret_err)
{
	return parse(items, NULL, n, ret_spec, ret_err);
}

int gm_spec_print(const struct gm_spec *spec, char **ret_text)
{
	/* Twenty digits each, a colon, and a semicolon or the terminator. */
	const size_t most = 20 + 1 + 20 + 1;
	char *text, *end;

	if (spec->n_entries == 0) {
		*ret_text = NULL;
		return 0;
	}
	text = end = malloc(spec->n_entries * most);
	if (!text)
		return -ENOMEM;
	for (size_t i = 0; i < spec->n_entries; i++)
		end += sprintf(end, "%s%" PRIu64 ":%" PRIu64, i ? ";" : "",
			       spec->entries[i].row, spec->entries[i].layers);
	*ret_text = text;
	return 0;
}

int gm_spec_sum(const struct gm_spec *spec, uint64_t *ret_sum,
		struct gm_plan_error *ret_err)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < spec->n_entries; i++)
		if (__builtin_add_overflow(sum, spec->entries[i].layers, &sum))
			return gm_error_set(
				ret_err, -EINVAL, "check the numbers of layers",
				"The map's layers sum to 2^64 or more");
	*ret_sum = sum;
	return 0;
}

int gm_spec_share(const struct gm_spec *spec, uint64_t n_layers,
		  uint64_t host_layers, uint64_t *ret_host,
		  struct gm_plan_error *ret_err)
{
	uint64_t placed = 0;
	int r = gm_spec_sum(spec, &placed, ret_err);

	if (r)
		return r;
	if (n_layers == 0)
		return gm_error_no_layers(ret_err);
	if (placed > n_layers)
		return gm_error_set(ret_err, -EINVAL,
				    "lower the numbers of layers in the spec",
				    "The map places %" PRIu64 " layers but the "
				    "model has %" PRIu64,
				    placed, n_layers);
	if (host_layers != GM_LAYERS_REST && host_layers != n_layers - placed)
		return gm_error_set(ret_err, -EINVAL,
				    "leave the number of host layers out",
				    "Expected the total number of GPU (%" PRIu64
				    ") and host layers (%" PRIu64
				    ") to sum to the number of model hidden "
				    "layers (%" PRIu64 ")",
				    placed, host_layers, n_layers);
	*ret_host = n_layers - placed;
	return 0;
}

void gm_spec_free(struct gm_spec *spec)
{
	if (!spec)
		return;
	free(spec->entries);
	*spec = (struct gm_spec){ 0 };
}
