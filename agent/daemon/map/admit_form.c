/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/map/admit_form.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "agent/daemon/base/connection.h"
#include "agent/daemon/base/parts.h"
#include "agent/daemon/devices/rows.h"
#include "gpumap.h"
#include "lib/model/plan/dtype.h"

#define START_MAX_NS UINT64_C(3600000000000)
#define SPEC_BYTES   4096u

#define ALL_FLAGS                                                      \
	(GPUMAP_PLAN_PUBLISH | GPUMAP_PLAN_COMMIT | GPUMAP_PLAN_HELD | \
	 GPUMAP_PLAN_BASE | GPUMAP_PLAN_NEW | GPUMAP_PLAN_FOR)

static int do_not_fit(struct gm_connection *c)
{
	return gm_connection_bad(
		c, -EINVAL,
		"the request's parts do not fit together; this "
		"is a client's fault");
}

int gm_admit_check_head(struct gm_connection *c, const struct gm_room *head)
{
	if (memchr(head->name, '\0', sizeof(head->name)) == NULL)
		return do_not_fit(c);
	if ((head->flags & ~ALL_FLAGS) != 0 ||
	    (head->owner_uid != 0 && (head->flags & GPUMAP_PLAN_FOR) == 0))
		return gm_connection_bad(c, -EINVAL,
					 "a flag of the plan is none that this "
					 "agent knows, or an owner without "
					 "GPUMAP_PLAN_FOR");
	if ((head->flags & GPUMAP_PLAN_FOR) != 0 && !gm_connection_is_sync(c))
		return gm_connection_bad(
			c, -EPERM,
			"uid %u may not make maps for others: root may, uid "
			"%u, which runs the agent, and the user in [cluster] "
			"of gpumapd.conf",
			(unsigned)c->uid, (unsigned)geteuid());
	if ((head->flags & GPUMAP_PLAN_HELD) != 0 &&
	    (head->flags & GPUMAP_PLAN_COMMIT) == 0)
		return gm_connection_bad(c, -EINVAL,
					 "only what is committed can be held: "
					 "ask for both");
	if ((head->wait_ns != 0 && (head->flags & GPUMAP_PLAN_COMMIT) == 0) ||
	    (head->start_ns != 0 && (head->flags & GPUMAP_PLAN_HELD) == 0))
		return gm_connection_bad(c, -EINVAL,
					 "only what is committed waits for "
					 "room, and only what is held has a "
					 "start window");
	if (head->start_ns > START_MAX_NS)
		return gm_connection_bad(c, -EINVAL,
					 "a start window has at most an hour, "
					 "in which others may not start: ask "
					 "for less");
	return 0;
}

static int check_rows(struct gm_connection *c, const uint32_t *rows, uint32_t n)
{
	bool named[GM_ROWS] = { false };

	for (uint32_t i = 0; i < n; i++) {
		if (rows[i] >= GM_ROWS)
			return gm_connection_bad(
				c, -ENODEV,
				"row %u is not there, is lost or has failed: "
				"gpumapctl devices shows which can be used",
				rows[i]);
		if (named[rows[i]])
			return gm_connection_bad(
				c, -EINVAL, "row %u is among the rows twice",
				rows[i]);
		named[rows[i]] = true;
	}
	return 0;
}

/* ---- PUBLISH ------------------------------------------------------------- */

/* A map that is shown has a row for each layer; a request that only waits, or
 * waits no more, has none.  Maps of certain rows have no turn to wait for. */
static bool fits_together(const struct gm_publish *ask, uint32_t tail_bytes)
{
	bool is_shown = ask->n_runs != 0;
	bool has_turns = ask->n_rows != 0 || ask->map.wait_ns == 0;

	return ask->n_charges <= GM_ROWS && ask->n_runs <= GM_PLAN_RUNS_MAX &&
	       ask->n_layers <= GM_LAYERS_MAX && ask->n_rows <= GM_ROWS &&
	       ask->spec_bytes >= 1 && ask->spec_bytes <= SPEC_BYTES &&
	       (ask->n_bytes == 0 || ask->n_bytes == ask->n_layers) &&
	       (is_shown ? ask->n_charges != 0 && ask->n_layers != 0
			 : has_turns) &&
	       sizeof(struct gm_charge_image) * (uint64_t)ask->n_charges +
			       sizeof(struct gm_plan_run) *
				       (uint64_t)ask->n_runs +
			       8 * (uint64_t)ask->n_bytes +
			       4 * (uint64_t)ask->n_rows + ask->spec_bytes ==
		       tail_bytes;
}

static bool is_known(const struct gm_publish *ask)
{
	return ask->setting >= GPUMAP_SETTING_MANUAL &&
	       ask->setting < GPUMAP_SETTING_RESERVE &&
	       ask->strategy <= GPUMAP_STRATEGY_FEWEST &&
	       ask->dtype <= GPUMAP_DTYPE_F8_E5M2 &&
	       (ask->compute_dtype == 0 ||
		gm_dtype_computes(ask->compute_dtype));
}

static bool can_be_charged(const struct gm_charge_image *charge)
{
	uint64_t sum = charge->weight_bytes;

	return !__builtin_add_overflow(sum, charge->kv_bytes, &sum) &&
	       !__builtin_add_overflow(sum, charge->activation_bytes, &sum) &&
	       !__builtin_add_overflow(sum, charge->reserve_bytes, &sum) &&
	       sum <= INT64_MAX;
}

/* Each row is charged once, and layers lie on rows that are charged. */
static int check_map(struct gm_connection *c, const struct gm_publish *ask,
		     const struct gm_publish_parts *parts)
{
	uint32_t n_rows = c->server->d->devices->n;
	bool charged[GM_ROWS] = { false };
	uint64_t n_layers = 0;

	for (uint32_t i = 0; i < ask->n_charges; i++) {
		uint32_t row = parts->charges[i].row;

		if (row >= n_rows || charged[row] ||
		    !can_be_charged(&parts->charges[i]))
			return do_not_fit(c);
		charged[row] = true;
	}
	for (uint32_t i = 0; i < ask->n_runs; i++) {
		if (parts->runs[i].row >= n_rows ||
		    !charged[parts->runs[i].row])
			return do_not_fit(c);
		n_layers += parts->runs[i].n_layers;
	}
	if (ask->n_runs != 0 &&
	    (n_layers != ask->n_layers || ask->base_row >= n_rows))
		return do_not_fit(c);
	return 0;
}

/* Sizes that wrap when they are summed would make every charge a lie. */
static bool add_up(const struct gm_publish *ask, const uint64_t *bytes)
{
	uint64_t sum = ask->other_bytes;

	for (uint32_t i = 0; i < ask->n_bytes && sum <= INT64_MAX; i++)
		if (__builtin_add_overflow(sum, bytes[i], &sum))
			return false;
	return sum <= INT64_MAX;
}

static bool is_text(const char *text, uint32_t bytes)
{
	if (strnlen(text, bytes) != bytes - 1)
		return false;
	for (uint32_t i = 0; i + 1 < bytes; i++)
		if (text[i] < ' ' || text[i] > '~')
			return false;
	return true;
}

int gm_admit_check_publish(struct gm_connection *c,
			   const struct gm_publish *ask, const char *tail,
			   uint32_t tail_bytes,
			   struct gm_publish_parts *ret_parts)
{
	struct gm_publish_parts parts;
	int ret;

	if (!fits_together(ask, tail_bytes))
		return do_not_fit(c);
	parts.charges = (const void *)tail;
	parts.runs = (const void *)(parts.charges + ask->n_charges);
	parts.bytes = (const void *)(parts.runs + ask->n_runs);
	parts.rows = (const void *)(parts.bytes + ask->n_bytes);
	parts.spec = (const void *)(parts.rows + ask->n_rows);
	if (ask->n_bytes == 0)
		parts.bytes = NULL;
	if (!is_known(ask))
		return gm_connection_bad(
			c, -EINVAL,
			"the setting, the strategy or a dtype of the plan is "
			"none that this agent knows");
	if ((ask->map.flags & (GPUMAP_PLAN_PUBLISH | GPUMAP_PLAN_COMMIT)) ==
		    0 ||
	    !is_text(parts.spec, ask->spec_bytes))
		return do_not_fit(c);
	ret = check_map(c, ask, &parts);
	if (ret == 0)
		ret = check_rows(c, parts.rows, ask->n_rows);
	if (ret != 0)
		return ret;
	if (!add_up(ask, parts.bytes))
		return gm_connection_bad(c, -EOVERFLOW,
					 "the model has 2^63 bytes or more");
	*ret_parts = parts;
	return 0;
}

/* ---- RESERVE ------------------------------------------------------------- */

int gm_admit_check_reserve(struct gm_connection *c,
			   const struct gm_reserve_ask *ask, const char *tail,
			   uint32_t tail_bytes)
{
	const uint32_t *rows = (const void *)(tail + 8 * (size_t)ask->n_bytes);

	if (ask->n_rows > GM_ROWS || ask->n_bytes > GM_ROWS ||
	    8 * (uint64_t)ask->n_bytes + 4 * (uint64_t)ask->n_rows !=
		    tail_bytes ||
	    ask->dtype > GPUMAP_DTYPE_F8_E5M2)
		return do_not_fit(c);
	if (ask->n_bytes == 0)
		return gm_connection_bad(c, -EINVAL,
					 "a reservation has bytes of rows "
					 "(layer_bytes), and no model");
	return check_rows(c, rows, ask->n_rows);
}
