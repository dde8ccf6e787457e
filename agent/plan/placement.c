/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/plan/placement.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* The number of layers, and the number of them that go to the host row. */
struct shares {
	uint64_t n_layers;
	uint64_t host;
};

static const struct gm_plan_row *find_row(const struct gm_placement_request *q,
					  uint64_t row)
{
	for (size_t i = 0; i < q->n_rows; i++)
		if (q->rows[i].row == row)
			return &q->rows[i];
	return NULL;
}

static const struct gm_plan_row *find_host(const struct gm_placement_request *q)
{
	for (size_t i = 0; i < q->n_rows; i++)
		if (q->rows[i].is_host)
			return &q->rows[i];
	return NULL;
}

/* Print "0-3, 6", and "..." if there is no room for more. */
static void print_rows(const struct gm_placement_request *q, char *text,
		       size_t size)
{
	size_t used = 0;

	text[0] = '\0';
	for (size_t i = 0; i < q->n_rows; i++) {
		const struct gm_plan_row *first = &q->rows[i];
		char run[32];

		while (i + 1 < q->n_rows &&
		       q->rows[i + 1].row == q->rows[i].row + 1)
			i++;
		if (&q->rows[i] == first)
			snprintf(run, sizeof(run), "%" PRIu32, first->row);
		else
			snprintf(run, sizeof(run), "%" PRIu32 "-%" PRIu32,
				 first->row, q->rows[i].row);
		if (used + sizeof(run) + 2 > size)
			snprintf(run, sizeof(run), "...");
		used += (size_t)snprintf(text + used, size - used, "%s%s",
					 used ? ", " : "", run);
		if (run[0] == '.')
			break;
	}
}

int gm_placement_no_row(uint64_t row, const uint32_t *drained, size_t n_drained,
			const char *rows, struct gm_plan_error *ret_err)
{
	for (size_t i = 0; i < n_drained; i++) {
		if (drained[i] == row)
			return gm_error_set(ret_err, -ENODEV,
					    "bring it back with gpumapctl "
					    "undrain or uncordon, or use "
					    "another row",
					    "Row %" PRIu64
					    " is drained or cordoned",
					    row);
	}
	return gm_error_set(ret_err, -ENODEV,
			    "use the rows that gpumapctl devices shows",
			    "Could not find row %" PRIu64 "%s%s", row,
			    rows ? ": the rows are " : "", rows ? rows : "");
}

static int no_such_row(const struct gm_placement_request *q, uint64_t row,
		       struct gm_plan_error *err)
{
	char rows[256];

	if (q->n_rows == 0)
		return gm_error_set(err, -ENODEV,
				    "look at gpumapctl devices for the reason",
				    "Could not find row %" PRIu64
				    ": there are no rows",
				    row);
	print_rows(q, rows, sizeof(rows));
	return gm_placement_no_row(row, q->drained, q->n_drained, rows, err);
}

static int too_many(struct gm_plan_error *err)
{
	return gm_error_set(err, -E2BIG, "check the numbers of layers",
			    "More than the %u layers that a map may have",
			    GM_PLACEMENT_LAYERS);
}

/* The shares of a model whose number of layers only the spec gives. */
static int share_of_unknown(const struct gm_spec *spec,
			    const struct gm_placement_request *q,
			    struct shares *ret, struct gm_plan_error *err)
{
	uint64_t host = q->host_layers == GM_LAYERS_REST ? 0 : q->host_layers;
	uint64_t placed = 0;
	int r = gm_spec_sum(spec, &placed, err);

	if (r)
		return r;
	if (placed > GM_PLACEMENT_LAYERS || host > GM_PLACEMENT_LAYERS - placed)
		return too_many(err);
	if (placed + host == 0)
		return gm_error_set(err, -EINVAL,
				    "name the model, or place its layers",
				    "The map places no layers and the model's "
				    "number of layers is not known");
	*ret = (struct shares){ placed + host, host };
	return 0;
}

static void take(struct gm_placement *place, uint32_t row, uint64_t layers)
{
	uint32_t i = 0;

	if (layers == 0)
		return;
	while (i < place->n_unique && place->unique[i] != row)
		i++;
	if (i == place->n_unique)
		place->unique[place->n_unique++] = row;
	for (; layers > 0; layers--)
		place->rows[place->n_layers++] = row;
}

/* Each row that the spec names must exist, even if it gets no layers. */
static int check_rows(const struct gm_spec *spec,
		      const struct gm_placement_request *q,
		      const struct shares *shares, struct gm_plan_error *err)
{
	for (size_t i = 0; i < spec->n_entries; i++)
		if (!find_row(q, spec->entries[i].row))
			return no_such_row(q, spec->entries[i].row, err);
	if (q->base_row != GM_ROW_FIRST && !find_row(q, q->base_row))
		return no_such_row(q, q->base_row, err);
	if (shares->host > 0 && !find_host(q))
		return gm_error_set(
			err, -ENODEV,
			"place every layer, or configure a host row",
			"%" PRIu64 " of %" PRIu64 " layers are left over, and "
			"there is no host row to take them",
			shares->host, shares->n_layers);
	return 0;
}

static int share_out(const struct gm_spec *spec,
		     const struct gm_placement_request *q, struct shares *ret,
		     struct gm_plan_error *err)
{
	if (spec->is_auto)
		return gm_error_set(err, -EINVAL,
				    "plan it first, or give a spec",
				    "An automatic map has no rows yet");
	if (q->n_layers == GM_LAYERS_UNKNOWN)
		return share_of_unknown(spec, q, ret, err);
	if (q->n_layers > GM_PLACEMENT_LAYERS)
		return too_many(err);
	ret->n_layers = q->n_layers;
	return gm_spec_share(spec, q->n_layers, q->host_layers, &ret->host,
			     err);
}

int gm_placement_make(const struct gm_spec *spec,
		      const struct gm_placement_request *request,
		      struct gm_placement *ret_place,
		      struct gm_plan_error *ret_err)
{
	struct gm_placement place = { 0 };
	struct shares shares = { 0 };
	int r;

	r = share_out(spec, request, &shares, ret_err);
	if (r == 0)
		r = check_rows(spec, request, &shares, ret_err);
	if (r)
		return r;

	assert(shares.n_layers > 0);
	place.rows = calloc(shares.n_layers, sizeof(*place.rows));
	place.unique = calloc(spec->n_entries + 1, sizeof(*place.unique));
	if (!place.rows || !place.unique) {
		gm_placement_free(&place);
		return gm_error_no_memory(ret_err);
	}
	for (size_t i = 0; i < spec->n_entries; i++)
		take(&place, (uint32_t)spec->entries[i].row,
		     spec->entries[i].layers);
	if (shares.host > 0)
		take(&place, find_host(request)->row, shares.host);
	place.base_row = request->base_row == GM_ROW_FIRST ? place.rows[0]
							   : request->base_row;
	*ret_place = place;
	return 0;
}

void gm_placement_free(struct gm_placement *place)
{
	if (!place)
		return;
	free(place->rows);
	free(place->unique);
	*place = (struct gm_placement){ 0 };
}
