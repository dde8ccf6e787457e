/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* placement: specs against rows and models, and what does not go together. */

#include <errno.h>
#include <stdlib.h>

#include "agent/plan/placement.h"
#include "tests/support/tap.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* Three devices with a hole in the numbers, then two hosts. */
static const struct gm_plan_row node[] = {
	{ 0, false }, { 1, false }, { 4, false }, { 5, true }, { 6, true },
};

static const struct gm_plan_row devices_only[] = { { 0, false }, { 1, false } };

static const struct gm_placement_request on_node = {
	.rows = node,
	.n_rows = COUNT(node),
	.n_layers = GM_LAYERS_UNKNOWN,
	.host_layers = GM_LAYERS_REST,
	.base_row = GM_ROW_FIRST,
};

static int place(const char *text, const struct gm_placement_request *q,
		 struct gm_placement *ret, struct gm_plan_error *err)
{
	struct gm_spec spec = { 0 };
	int r = text ? gm_spec_parse(text, &spec, err)
		     : gm_spec_parse_list(NULL, 0, &spec, err);

	if (r == 0)
		r = gm_placement_make(&spec, q, ret, err);
	gm_spec_free(&spec);
	return r;
}

/* The rows of all layers, one digit each. */
static const char *rows_of(const struct gm_placement *p)
{
	static char text[64];
	uint32_t i;

	for (i = 0; i < p->n_layers && i < sizeof(text) - 1; i++)
		text[i] = (char)('0' + p->rows[i]);
	text[i] = '\0';
	return text;
}

static const char *unique_of(const struct gm_placement *p)
{
	static char text[64];
	uint32_t i;

	for (i = 0; i < p->n_unique && i < sizeof(text) - 1; i++)
		text[i] = (char)('0' + p->unique[i]);
	text[i] = '\0';
	return text;
}

static void each_layer_gets_the_row_its_entry_names(void)
{
	static const struct {
		const char *text; /* NULL for the empty list */
		uint64_t n_layers, host_layers;
		uint32_t base_row;
		const char *rows, *unique;
		uint32_t base;
	} table[] = {
		{ "0:2;1:3", 5, GM_LAYERS_REST, GM_ROW_FIRST, "00111", "01",
		  0 },
		{ "4:1;0:2", 3, GM_LAYERS_REST, GM_ROW_FIRST, "400", "40", 4 },
		/* The size of the model may be left to the spec. */
		{ "0:2;1:3", GM_LAYERS_UNKNOWN, GM_LAYERS_REST, GM_ROW_FIRST,
		  "00111", "01", 0 },
		{ "0:2", GM_LAYERS_UNKNOWN, 2, GM_ROW_FIRST, "0055", "05", 0 },
		/* A single entry means the row it names. */
		{ "1:3", 3, GM_LAYERS_REST, GM_ROW_FIRST, "111", "1", 1 },
		{ "3", 3, GM_LAYERS_REST, GM_ROW_FIRST, "000", "0", 0 },
		/* The rest goes to the first host row, and comes last. */
		{ "1:2", 5, GM_LAYERS_REST, GM_ROW_FIRST, "11555", "15", 1 },
		{ "1:2", 5, 3, GM_ROW_FIRST, "11555", "15", 1 },
		{ NULL, 3, GM_LAYERS_REST, GM_ROW_FIRST, "555", "5", 5 },
		/* A host row is a row like any other. */
		{ "6:1;0:1", 2, GM_LAYERS_REST, GM_ROW_FIRST, "60", "60", 6 },
		{ "5:1;0:1", 4, GM_LAYERS_REST, GM_ROW_FIRST, "5055", "50", 5 },
		/* No layers, no use. */
		{ "0:0;1:2", 2, GM_LAYERS_REST, GM_ROW_FIRST, "11", "1", 1 },
		{ "1:2", 2, GM_LAYERS_REST, 4, "11", "1", 4 },
	};

	for (size_t i = 0; i < COUNT(table); i++) {
		struct gm_placement_request q = on_node;
		struct gm_plan_error err = { 0 };
		struct gm_placement p = { 0 };

		q.n_layers = table[i].n_layers;
		q.host_layers = table[i].host_layers;
		q.base_row = table[i].base_row;
		EQ(place(table[i].text, &q, &p, &err), 0);
		STR(rows_of(&p), table[i].rows);
		STR(unique_of(&p), table[i].unique);
		EQ(p.base_row, table[i].base);
		STR(err.text, "");
		gm_placement_free(&p);
	}
}

static void what_does_not_fit_is_refused(void)
{
	static const struct {
		const char *text;
		uint64_t n_layers, host_layers;
		uint32_t base_row;
		int code;
		const char *error;
	} table[] = {
		{ "0:16;1:16", 31, GM_LAYERS_REST, GM_ROW_FIRST, -EINVAL,
		  "The map places 32 layers but the model has 31" },
		{ "32", 31, GM_LAYERS_REST, GM_ROW_FIRST, -EINVAL,
		  "The map places 32 layers but the model has 31" },
		{ "0:1", 0, GM_LAYERS_REST, GM_ROW_FIRST, -EINVAL,
		  "The model has no layers" },
		{ "0:16", 32, 15, GM_ROW_FIRST, -EINVAL,
		  "Expected the total number of GPU (16) and host layers (15) "
		  "to sum to the number of model hidden layers (32)" },
		{ "2:1;9:1", 2, GM_LAYERS_REST, GM_ROW_FIRST, -ENODEV,
		  "Could not find row 2: the rows are 0-1, 4-6" },
		{ "0:1;9:0", 1, GM_LAYERS_REST, GM_ROW_FIRST, -ENODEV,
		  "Could not find row 9: the rows are 0-1, 4-6" },
		{ "4294967296:1", 1, GM_LAYERS_REST, GM_ROW_FIRST, -ENODEV,
		  "Could not find row 4294967296: the rows are 0-1, 4-6" },
		{ "0:1", 1, GM_LAYERS_REST, 3, -ENODEV,
		  "Could not find row 3: the rows are 0-1, 4-6" },
		{ "0:0", GM_LAYERS_UNKNOWN, GM_LAYERS_REST, GM_ROW_FIRST,
		  -EINVAL,
		  "The map places no layers and the model's number of layers "
		  "is not known" },
		{ "0:18446744073709551615;1:1", GM_LAYERS_UNKNOWN,
		  GM_LAYERS_REST, GM_ROW_FIRST, -EINVAL,
		  "The map's layers sum to 2^64 or more" },
		{ "0:65537", GM_LAYERS_UNKNOWN, GM_LAYERS_REST, GM_ROW_FIRST,
		  -E2BIG, "More than the 65536 layers that a map may have" },
		{ "0:65536", GM_LAYERS_UNKNOWN, 1, GM_ROW_FIRST, -E2BIG,
		  "More than the 65536 layers that a map may have" },
		{ "0:1", 65537, GM_LAYERS_REST, GM_ROW_FIRST, -E2BIG,
		  "More than the 65536 layers that a map may have" },
	};

	for (size_t i = 0; i < COUNT(table); i++) {
		struct gm_placement_request q = on_node;
		struct gm_placement p = { .n_layers = 77 };
		struct gm_plan_error err = { 0 };

		q.n_layers = table[i].n_layers;
		q.host_layers = table[i].host_layers;
		q.base_row = table[i].base_row;
		EQ(place(table[i].text, &q, &p, &err), table[i].code);
		EQ(err.code, table[i].code);
		STR(err.text, table[i].error);
		OK(err.remedy[0] != '\0');
		EQ(p.n_layers, 77);
	}
}

static void the_rest_needs_a_host_row(void)
{
	struct gm_placement_request q = on_node;
	struct gm_plan_error err = { 0 };
	struct gm_placement p = { 0 };

	q.rows = devices_only;
	q.n_rows = COUNT(devices_only);
	q.n_layers = 32;
	EQ(place("0:10;1:10", &q, &p, &err), -ENODEV);
	STR(err.text, "12 of 32 layers are left over, and there is no host "
		      "row to take them");
	EQ(place("0:16;1:16", &q, &p, &err), 0);
	gm_placement_free(&p);
}

static void a_node_without_rows_says_so(void)
{
	struct gm_placement_request q = on_node;
	struct gm_plan_error err = { 0 };
	struct gm_placement p = { 0 };

	q.rows = NULL;
	q.n_rows = 0;
	EQ(place("0:1", &q, &p, &err), -ENODEV);
	STR(err.text, "Could not find row 0: there are no rows");
}

static void two_hundred_scattered_rows_fit_the_message(void)
{
	struct gm_plan_row rows[200];
	struct gm_placement_request q = on_node;
	struct gm_plan_error err = { 0 };
	struct gm_placement p = { 0 };

	for (uint32_t i = 0; i < COUNT(rows); i++)
		rows[i] = (struct gm_plan_row){ .row = 2 * i };
	q.rows = rows;
	q.n_rows = COUNT(rows);
	EQ(place("1:1", &q, &p, &err), -ENODEV);
	OK(strstr(err.text, "Could not find row 1: the rows are 0, 2, 4"));
	OK(strstr(err.text, "..."));
}

static void an_automatic_spec_has_no_rows(void)
{
	const struct gm_spec spec = { .is_auto = true };
	struct gm_plan_error err = { 0 };
	struct gm_placement p = { 0 };

	EQ(gm_placement_make(&spec, &on_node, &p, &err), -EINVAL);
	STR(err.text, "An automatic map has no rows yet");
}

static void the_largest_model_is_placed(void)
{
	struct gm_placement_request q = on_node;
	struct gm_placement p = { 0 };

	q.n_layers = GM_PLACEMENT_LAYERS;
	EQ(place("0:65535", &q, &p, NULL), 0);
	EQ(p.n_layers, GM_PLACEMENT_LAYERS);
	EQ(p.rows[GM_PLACEMENT_LAYERS - 2], 0);
	EQ(p.rows[GM_PLACEMENT_LAYERS - 1], 5);
	gm_placement_free(&p);
}

TAP_CASE()
{
	each_layer_gets_the_row_its_entry_names();
	what_does_not_fit_is_refused();
	the_rest_needs_a_host_row();
	a_node_without_rows_says_so();
	two_hundred_scattered_rows_fit_the_message();
	an_automatic_spec_has_no_rows();
	the_largest_model_is_placed();
	return tap_done();
}
