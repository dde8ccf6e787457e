/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Give the cards of a map their ordinals, and name them in
 * CUDA_VISIBLE_DEVICES.
 *
 * The text is then read as the driver reads it: a driver that would show other
 * devices than those of the map, or in another order, is an error here.
 */

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "lib/cuda_visible_devices.h"
#include "lib/model/engines/engine.h"

#define UUID_BYTES 16u

static bool has_uuid(const struct gpumap_device *d)
{
	static const uint8_t none[UUID_BYTES];

	return memcmp(d->uuid, none, sizeof(none)) != 0;
}

static bool is_part(const struct gpumap_device *d)
{
	return d->mig_gi >= 0;
}

static bool is_split(const struct gpumap_device *d)
{
	return !is_part(d) && (d->flags & GPUMAP_DEVICE_MIG) != 0;
}

/* "layer 5", or what is on a row that holds no layer. */
static const char *content_of(const struct gm_engine_job *job, uint32_t row,
			      char ret_text[32])
{
	uint32_t i = 0;

	while (i < job->n_layers && job->rows[i] != row)
		i++;
	if (i == job->n_layers)
		return "what belongs to no layer";
	snprintf(ret_text, 32, "layer %u", i);
	return ret_text;
}

/* May settings name the row? */
static int check_row(const struct gm_engine_job *job, uint32_t row)
{
	const struct gpumap_device *d = &job->devices[row];
	char text[32];

	if (row >= job->n_devices)
		return gm_refuse(job->map, -ENODEV,
				 "%s is on row %u, which does not exist",
				 content_of(job, row, text), row);
	if ((d->flags & GPUMAP_DEVICE_SERVES) == 0)
		return gm_refuse(job->map, -EOPNOTSUPP,
				 "%s is on row %u, a dummy, which holds no "
				 "data: publish the map with a host row or a "
				 "card in its place",
				 content_of(job, row, text), row);
	if (is_split(d))
		return gm_refuse(job->map, -EOPNOTSUPP,
				 "%s is on row %u, a card that is split into "
				 "MIG instances: publish the map with the "
				 "instances' rows",
				 content_of(job, row, text), row);
	if (d->state == GPUMAP_DEVICE_LOST || d->state == GPUMAP_DEVICE_FAILED)
		return gm_refuse(job->map, -ENODEV,
				 "%s is on row %u, which is %s: publish the "
				 "map without it",
				 content_of(job, row, text), row,
				 d->state == GPUMAP_DEVICE_LOST ? "lost"
								: "failed");
	return 0;
}

static int add_row(struct gm_engine_job *job, uint32_t row)
{
	int ret = check_row(job, row);

	if (ret == 0 && (job->devices[row].flags & GPUMAP_DEVICE_CARD) != 0 &&
	    job->ordinal[row] < 0) {
		job->ordinal[row] = (int32_t)job->n_cards;
		job->cards[job->n_cards++] = row;
	}
	return ret;
}

static int number_cards(struct gm_engine_job *job, bool base_first)
{
	int ret = base_first ? add_row(job, job->base_row) : 0;

	for (uint32_t i = 0; ret == 0 && i < job->n_layers; i++) {
		ret = add_row(job, job->rows[i]);
		if (ret == 0 && gm_engine_card(job, i) < 0 &&
		    job->host_row == GM_ENGINE_NO_ROW)
			job->host_row = job->rows[i];
	}
	return ret;
}

/* ---- CUDA_VISIBLE_DEVICES ------------------------------------------------ */

static void list_devices(const struct gm_engine_job *job,
			 struct gm_visible_device ret_devices[GPUMAP_ROWS_MAX],
			 struct gm_visible_node *ret_node)
{
	*ret_node = (struct gm_visible_node){ .devices = ret_devices,
					      .order = GM_VISIBLE_PCI_BUS_ID };
	for (uint32_t row = 0; row < job->n_devices; row++) {
		const struct gpumap_device *d = &job->devices[row];

		if (d->kind != GPUMAP_DEVICE_CUDA ||
		    d->state == GPUMAP_DEVICE_LOST)
			continue;
		ret_devices[ret_node->n_devices] = gm_visible_of(d);
		ret_devices[ret_node->n_devices++].row = row;
		if (d->cuda_version > ret_node->cuda_version)
			ret_node->cuda_version = d->cuda_version;
	}
	gm_visible_pair(ret_devices, ret_node->n_devices);
}

/* The name of a device for CUDA_VISIBLE_DEVICES: its UUID; or, as @all has
 * every device that is enumerated, its place among them. */
static void name_device(const struct gpumap_device *d, uint32_t row,
			const struct gm_visible_list *all,
			char ret_name[GM_VISIBLE_NAME])
{
	uint32_t place = 0;

	if (all == NULL) {
		gm_visible_name(is_part(d) ? "MIG-" : "GPU-", d->uuid,
				ret_name);
		return;
	}
	while (place < all->n && all->rows[place] != row)
		place++;
	snprintf(ret_name, GM_VISIBLE_NAME, "%u", place);
}

/* Would the driver show the cards in their order? */
static int check_visible(const struct gm_engine_job *job,
			 const struct gm_visible_node *node, const char *text)
{
	struct gm_visible_list list = { 0 };
	char what[32];

	if (gm_visible_resolve(node, text, &list) != 0)
		return -EINVAL;
	for (uint32_t i = 0; i < job->n_cards; i++) {
		uint32_t row = job->cards[i];

		if (i < list.n && list.rows[i] == row)
			continue;
		return gm_refuse(
			job->map, -EOPNOTSUPP,
			"%s is on row %u, which a driver of CUDA %u.%u "
			"does not show beside the map's other rows: "
			"publish the map without MIG instances, or "
			"with one row, or install a newer driver",
			content_of(job, row, what), row,
			node->cuda_version / 1000,
			node->cuda_version % 1000 / 10);
	}
	return 0;
}

static int set_visible(struct gm_engine_job *job)
{
	struct gm_visible_device devices[GPUMAP_ROWS_MAX];
	char text[GPUMAP_ROWS_MAX * GM_VISIBLE_NAME] = "";
	struct gm_visible_list all = { 0 };
	struct gm_visible_node node;
	bool by_uuid = true;
	size_t n = 0;
	int ret;

	for (uint32_t i = 0; i < job->n_cards; i++)
		by_uuid = by_uuid && has_uuid(&job->devices[job->cards[i]]);
	list_devices(job, devices, &node);
	ret = gm_visible_resolve(&node, NULL, &all);
	for (uint32_t i = 0; i < job->n_cards; i++) {
		uint32_t row = job->cards[i];
		char name[GM_VISIBLE_NAME];

		name_device(&job->devices[row], row, by_uuid ? NULL : &all,
			    name);
		n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%s",
				      i > 0 ? "," : "", name);
	}
	if (ret == 0)
		ret = check_visible(job, &node, text);
	/* A device that no one has hides all of them; an empty text is taken
	 * for no text by some programs. */
	gm_engine_add(job, &job->env, "CUDA_VISIBLE_DEVICES=%s",
		      job->n_cards > 0 ? text : "-1");
	gm_engine_add(job, &job->env, "CUDA_DEVICE_ORDER=PCI_BUS_ID");
	if (!by_uuid)
		gm_engine_add(job, &job->notes,
			      "The table has no UUIDs: CUDA_VISIBLE_DEVICES "
			      "counts its CUDA devices, which have to be those "
			      "of the machine in the order of their PCI "
			      "addresses.");
	return ret;
}

int gm_engine_devices(struct gm_engine_job *job, bool base_first)
{
	int ret;

	for (uint32_t row = 0; row < GPUMAP_ROWS_MAX; row++)
		job->ordinal[row] = -1;
	job->n_cards = 0;
	job->host_row = GM_ENGINE_NO_ROW;
	ret = number_cards(job, base_first);
	return ret == 0 ? set_visible(job) : ret;
}

/* ---- hosts and ranges ---------------------------------------------------- */

int gm_engine_one_host(struct gm_engine_job *job)
{
	uint32_t n_hosts = 0;

	if (job->host_row == GM_ENGINE_NO_ROW)
		return 0;
	for (uint32_t i = 0; i < job->n_layers; i++)
		if (gm_engine_card(job, i) < 0 && job->rows[i] != job->host_row)
			return gm_refuse(job->map, -EOPNOTSUPP,
					 "layer %u is on row %u, and other "
					 "layers on host row %u: %s has one "
					 "CPU device; publish the map with one "
					 "host row",
					 i, job->rows[i], job->host_row,
					 job->name);
	for (uint32_t row = 0; row < job->n_devices; row++)
		if ((job->devices[row].flags & GPUMAP_DEVICE_MAPPED) != 0)
			n_hosts++;
	if (n_hosts < 2)
		return 0;
	job->exact = false;
	gm_engine_add(job, &job->notes,
		      "Row %u is the memory of NUMA node %d, and %s takes that "
		      "of any node: run it under numactl --cpunodebind=%d "
		      "--membind=%d.",
		      job->host_row, job->devices[job->host_row].numa_node,
		      job->name, job->devices[job->host_row].numa_node,
		      job->devices[job->host_row].numa_node);
	return 0;
}

int gm_engine_ranges(const struct gm_engine_job *job, const char *what)
{
	int32_t last[GPUMAP_ROWS_MAX]; /* layer of each card so far */

	memset(last, -1, sizeof(last));
	for (uint32_t i = 0; i < job->n_layers; i++) {
		int32_t card = gm_engine_card(job, i);

		if (card < 0)
			continue;
		if (last[card] >= 0 && last[card] + 1 != (int32_t)i)
			return gm_refuse(job->map, -EOPNOTSUPP,
					 "layer %u is on row %u, which has "
					 "layer %d but not layer %u: %s",
					 i, job->rows[i], last[card], i - 1,
					 what);
		last[card] = (int32_t)i;
	}
	return 0;
}
