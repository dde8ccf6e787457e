/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * spec - parse and print layer maps that are written by hand: "0:16;1:16".
 *
 * An entry ROW:LAYERS gives the next LAYERS layers to ROW; entries are
 * separated by ';' or come as a list.  A lone number N is short for "0:N".  No
 * text at all asks for an automatic map.  Numbers are what Rust's usize parser
 * takes: decimal, an optional '+', leading zeros, no blank and no '-', below
 * 2^64.  The forms, the order of the checks and the texts of the errors are
 * those of mistral.rs, so that its users and their scripts need no change.
 *
 * The ordinals of mistral.rs are rows here.  A row has one entry at most.
 */
#ifndef GM_SPEC_H
#define GM_SPEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/model/plan/error.h"

#define GM_SPEC_ENTRIES 4096u /* most entries of one spec */

struct gm_spec_entry {
	uint64_t row;
	uint64_t layers;
};

struct gm_spec {
	bool is_auto; /* then there are no entries */
	size_t n_entries;
	struct gm_spec_entry *entries;
};

/*
 * gm_spec_parse - read a spec from one text, entries separated by ';'
 *
 * text		NULL asks for an automatic map.  An empty text is one empty
 *		entry, and an error.
 * ret_spec	give it back with gm_spec_free()
 *
 * Returns	0
 *		-EINVAL	an entry is malformed, or its row has one already
 *		-E2BIG	more than GM_SPEC_ENTRIES entries
 *		-ENOMEM
 * Threads	any
 */
int gm_spec_parse(const char *text, struct gm_spec *ret_spec,
		  struct gm_plan_error *ret_err);

/*
 * gm_spec_parse_list - read a spec from a list of entries
 *
 * items	@n texts, none of them NULL.  No item at all is a map that
 *		leaves every layer to the host.
 *
 * Returns	as gm_spec_parse()
 * Threads	any
 */
int gm_spec_parse_list(const char *const *items, size_t n,
		       struct gm_spec *ret_spec, struct gm_plan_error *ret_err);

/*
 * gm_spec_print - the text that parses to this spec
 *
 * ret_text	receives "ROW:LAYERS;ROW:LAYERS" for the caller to free(), or
 *		NULL where there are no entries to print
 *
 * Returns	0, -ENOMEM
 * Threads	any
 */
int gm_spec_print(const struct gm_spec *spec, char **ret_text);

#define GM_LAYERS_REST UINT64_MAX /* all layers that the entries leave over */

/*
 * gm_spec_share - compute the layers that a spec leaves for the host
 *
 * spec		not automatic
 * n_layers	of the model
 * host_layers	layers for the host, or GM_LAYERS_REST
 *
 * Returns	0
 *		-EINVAL	a model without layers, entries that sum to more than it
 *			has, or another number for the host than remains
 * Threads	any
 */
int gm_spec_share(const struct gm_spec *spec, uint64_t n_layers,
		  uint64_t host_layers, uint64_t *ret_host,
		  struct gm_plan_error *ret_err);

/* Sum all entries' layers.  Returns 0, -EINVAL: 2^64 or more. */
int gm_spec_sum(const struct gm_spec *spec, uint64_t *ret_sum,
		struct gm_plan_error *ret_err);

/* Free the result of a parse.  NULL is allowed. */
void gm_spec_free(struct gm_spec *spec);

#endif
