/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/exporter/metrics.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/exporter/cluster_metrics.h"
#include "agent/exporter/job_metrics.h"
#include "agent/exporter/usage.h"
#include "agent/reader/device_text.h"

#define NS 1e9

struct scrape {
	struct gm_exposition *e;
	const struct gpumap *map;
	struct gm_metrics_row *rows;
	uint32_t n_rows;
};

/* ---- the agent ----------------------------------------------------------- */

static void write_one(struct gm_exposition *e, const struct gm_family *family,
		      const struct gm_labels *labels, double value)
{
	gm_exposition_family(e, family);
	gm_exposition_sample(e, labels, value);
}

static void write_up(struct gm_exposition *e,
		     const struct gpumap_health *health)
{
	static const struct gm_family up = {
		"gpumap_up",
		"1 if the agent answers and its map is READY, else 0.",
		.type = GM_FAMILY_GAUGE
	};

	write_one(e, &up, NULL,
		  health != NULL && health->state == GPUMAP_READY &&
			  !health->stale);
}

static void write_version(struct gm_labels *labels, const char *name,
			  uint32_t version)
{
	char text[40];

	if (version == 0)
		return;
	snprintf(text, sizeof(text), "%u.%u.%u", version / 10000,
		 version / 100 % 100, version % 100);
	gm_labels_add(labels, name, text);
}

static void write_build(struct gm_exposition *e, const struct gm_target *target,
			const struct gpumap_health *health)
{
	static const struct gm_family build = {
		"gpumap_build", "Versions of the exporter and of the agent.",
		.type = GM_FAMILY_INFO
	};
	const char *instance = target->opts.instance;
	struct gm_labels labels = { 0 };

	gm_labels_add(&labels, "agent_instance",
		      instance != NULL ? instance : "node");
	write_version(&labels, "version", gpumap_version());
	if (health != NULL)
		write_version(&labels, "agent_version", health->agent_version);
	write_one(e, &build, &labels, 1);
}

static void write_health(struct gm_exposition *e,
			 const struct gpumap_health *health)
{
	static const struct gm_family age = {
		"gpumap_heartbeat_age_seconds",
		"Time since the agent's last heartbeat.", "seconds",
		GM_FAMILY_GAUGE
	};
	static const struct gm_family starts = {
		"gpumap_agent_starts",
		"Agents that have written this map; the map is new after a "
		"reboot.",
		.type = GM_FAMILY_COUNTER
	};
	static const struct gm_family generation = {
		"gpumap_generation",
		"A number that changes when an object or a row's state does.",
		.type = GM_FAMILY_GAUGE
	};
	static const struct gm_family bytes = { "gpumap_map_bytes",
						"Size of the map's segment.",
						"bytes", GM_FAMILY_GAUGE };

	write_one(e, &age, NULL, (double)health->age_ns / NS);
	write_one(e, &starts, NULL, (double)health->epoch);
	write_one(e, &generation, NULL, (double)health->generation);
	write_one(e, &bytes, NULL, (double)health->bytes);
}

/* ---- rows ---------------------------------------------------------------- */

/* DCGM prefixes a card's UUID with GPU-, and an instance's with MIG-. */
static void add_card(struct gm_labels *labels, const struct gpumap_device *d)
{
	char uuid[GM_DEVICE_UUID], text[8 + GM_DEVICE_UUID];
	char pci[GM_DEVICE_PCI], name[24];

	if (d->nvml_index >= 0)
		gm_labels_number(labels, "gpu", (uint64_t)d->nvml_index);
	gm_device_uuid(d, uuid);
	snprintf(text, sizeof(text), "%s-%s", d->mig_gi >= 0 ? "MIG" : "GPU",
		 uuid);
	gm_labels_add(labels, "UUID", text);
	/* As NVML writes it, with a domain of eight digits. */
	if (gm_device_pci(d, pci)) {
		char wide[8 + GM_DEVICE_PCI];

		snprintf(wide, sizeof(wide), "%08X%s", d->pci_domain,
			 strchr(pci, ':'));
		for (char *c = wide; *c != '\0'; c++)
			if (*c >= 'a' && *c <= 'f')
				*c = (char)(*c - 'a' + 'A');
		gm_labels_add(labels, "pci_bus_id", wide);
	}
	if (d->minor_number >= 0) {
		snprintf(name, sizeof(name), "nvidia%d", d->minor_number);
		gm_labels_add(labels, "device", name);
	}
	gm_labels_add(labels, "modelName", d->name);
	if (d->mig_gi >= 0) {
		gm_labels_add(labels, "GPU_I_PROFILE", d->mig_profile);
		gm_labels_number(labels, "GPU_I_ID", (uint64_t)d->mig_gi);
	}
}

static void label_row(struct gm_metrics_row *row, const char *host)
{
	const struct gpumap_device *d = &row->device;
	struct gm_labels *labels = &row->labels;

	gm_labels_number(labels, "row", d->row);
	gm_labels_add(labels, "device_kind", gm_device_kind(d->kind));
	if ((d->known & GPUMAP_KNOWN_NUMA) != 0 && d->numa_node >= 0)
		gm_labels_number(labels, "numa_node", (uint64_t)d->numa_node);
	if (d->kind == GPUMAP_DEVICE_CUDA)
		add_card(labels, d);
	if (host[0] != '\0')
		gm_labels_add(labels, "hostname", host);
}

static bool read_rows(struct scrape *s)
{
	char host[256] = "";

	gethostname(host, sizeof(host) - 1);
	s->n_rows = gpumap_device_count(s->map);
	s->rows = calloc((size_t)s->n_rows + 1, sizeof(*s->rows));
	for (uint32_t i = 0; s->rows != NULL && i < s->n_rows; i++) {
		struct gm_metrics_row *row = &s->rows[i];

		row->device.size = sizeof(row->device);
		row->is_there =
			gpumap_device_read(s->map, i, &row->device) == 0;
		if (row->is_there)
			label_row(row, host);
	}
	return s->rows != NULL;
}

static bool is_cuda(const struct gpumap_device *d, double value,
		    double *ret_value)
{
	*ret_value = value;
	return d->kind == GPUMAP_DEVICE_CUDA;
}

static bool is_known(const struct gpumap_device *d, uint32_t bit, double value,
		     double *ret_value)
{
	*ret_value = value;
	return (d->known & bit) != 0;
}

static bool of_cordon(const struct gpumap_device *d, double *ret_value)
{
	*ret_value = (d->flags & GPUMAP_DEVICE_CORDONED) != 0;
	return true;
}

static bool of_score(const struct gpumap_device *d, double *ret_value)
{
	*ret_value = d->score;
	return true;
}

static bool of_utilisation(const struct gpumap_device *d, double *ret_value)
{
	return is_known(d, GPUMAP_KNOWN_UTILISATION, d->utilisation / 1e3,
			ret_value);
}

static bool of_temperature(const struct gpumap_device *d, double *ret_value)
{
	return is_known(d, GPUMAP_KNOWN_TEMPERATURE, d->temperature / 1e3,
			ret_value);
}

static bool of_power(const struct gpumap_device *d, double *ret_value)
{
	return is_known(d, GPUMAP_KNOWN_POWER, d->power / 1e3, ret_value);
}

static bool of_restarts(const struct gpumap_device *d, double *ret_value)
{
	*ret_value = d->restarts;
	return d->kind != GPUMAP_DEVICE_DUMMY;
}

static bool of_xids(const struct gpumap_device *d, double *ret_value)
{
	return is_cuda(d, (double)d->xids, ret_value);
}

static bool of_last_xid(const struct gpumap_device *d, double *ret_value)
{
	return is_cuda(d, d->last_xid, ret_value);
}

static bool of_recovery(const struct gpumap_device *d, double *ret_value)
{
	return is_cuda(d, d->recovery != GPUMAP_RECOVERY_NONE, ret_value) &&
	       d->recovery != UINT32_MAX;
}

/* One sample of each row that has it. */
static const struct of_row {
	struct gm_family family;
	bool (*value)(const struct gpumap_device *device, double *ret_value);
} of_rows[] = {
	{ { "gpumap_device_cordoned",
	    "1 if the row takes no new sessions and plans.", NULL,
	    GM_FAMILY_GAUGE },
	  of_cordon },
	{ { "gpumap_device_score",
	    "Weight of the row in a scatter; higher is faster.", NULL,
	    GM_FAMILY_GAUGE },
	  of_score },
	{ { "gpumap_device_utilisation_ratio",
	    "Part of the time in which the card computed, as its driver says.",
	    "ratio", GM_FAMILY_GAUGE },
	  of_utilisation },
	{ { "gpumap_device_temperature_celsius",
	    "Temperature of the card, as its driver says.", "celsius",
	    GM_FAMILY_GAUGE },
	  of_temperature },
	{ { "gpumap_device_power_watts",
	    "Power that the card draws, as its driver says.", "watts",
	    GM_FAMILY_GAUGE },
	  of_power },
	{ { "gpumap_device_xids",
	    "Xid errors that the driver has reported of the card.", NULL,
	    GM_FAMILY_COUNTER },
	  of_xids },
	{ { "gpumap_device_last_xid",
	    "Number of the newest Xid error; 0: none was seen.", NULL,
	    GM_FAMILY_GAUGE },
	  of_last_xid },
	{ { "gpumap_device_needs_recovery",
	    "1 if the driver says that the card needs a reset or a reboot.",
	    NULL, GM_FAMILY_GAUGE },
	  of_recovery },
	{ { "gpumap_worker_restarts",
	    "Times that the row's worker has died and was started again.", NULL,
	    GM_FAMILY_COUNTER },
	  of_restarts },
};

static void write_series(const struct scrape *s)
{
	for (size_t k = 0; k < sizeof(of_rows) / sizeof(of_rows[0]); k++) {
		gm_exposition_family(s->e, &of_rows[k].family);
		for (uint32_t i = 0; i < s->n_rows; i++) {
			const struct gm_metrics_row *row = &s->rows[i];
			double value;

			if (row->is_there &&
			    of_rows[k].value(&row->device, &value))
				gm_exposition_sample(s->e, &row->labels, value);
		}
	}
}

static void write_states(const struct scrape *s)
{
	static const struct gm_family state = {
		"gpumap_device_state",
		"1 for the state that the row is in, 0 for the others.",
		.type = GM_FAMILY_GAUGE
	};

	gm_exposition_family(s->e, &state);
	for (uint32_t i = 0; i < s->n_rows; i++) {
		const struct gm_metrics_row *row = &s->rows[i];

		for (uint32_t is = GPUMAP_DEVICE_PROBING;
		     row->is_there && is <= GPUMAP_DEVICE_LOST; is++) {
			struct gm_labels labels = row->labels;

			gm_labels_add(&labels, "state", gm_device_state(is));
			gm_exposition_sample(s->e, &labels,
					     row->device.state == is);
		}
	}
}

static void write_memory(const struct scrape *s)
{
	static const struct gm_family memory = {
		"gpumap_device_memory_bytes",
		"Memory of the row: all of it, what is free, what is reserved, "
		"and what of that its holders have already.",
		"bytes", GM_FAMILY_GAUGE
	};

	gm_exposition_family(s->e, &memory);
	for (uint32_t i = 0; i < s->n_rows; i++) {
		const struct gpumap_device *d = &s->rows[i].device;
		const struct {
			const char *kind;
			uint64_t bytes;
		} kinds[] = {
			{ "total", d->total_bytes },
			{ "free", d->free_bytes },
			{ "reserved", d->reserved_bytes },
			{ "used_by_holders", d->used_by_holders },
		};

		for (size_t k = 0; s->rows[i].is_there &&
				   k < sizeof(kinds) / sizeof(kinds[0]);
		     k++) {
			struct gm_labels labels = s->rows[i].labels;

			gm_labels_add(&labels, "kind", kinds[k].kind);
			gm_exposition_sample(s->e, &labels,
					     (double)kinds[k].bytes);
		}
	}
}

/* The facts of a device that are text: for joins, and for people. */
static void write_infos(const struct scrape *s)
{
	static const struct gm_family info = { "gpumap_device",
					       "The device in each row.",
					       .type = GM_FAMILY_INFO };

	gm_exposition_family(s->e, &info);
	for (uint32_t i = 0; i < s->n_rows; i++) {
		const struct gpumap_device *d = &s->rows[i].device;
		struct gm_labels labels = s->rows[i].labels;
		char text[16];

		if (!s->rows[i].is_there)
			continue;
		gm_labels_add(&labels, "name", d->name);
		if (d->cpus[0] != '\0')
			gm_labels_add(&labels, "cpus", d->cpus);
		if ((d->known & GPUMAP_KNOWN_CC) != 0) {
			snprintf(text, sizeof(text), "%u.%u", d->cc_major,
				 d->cc_minor);
			gm_labels_add(&labels, "compute_capability", text);
		}
		gm_exposition_sample(s->e, &labels, 1);
	}
}

/* ---- objects ------------------------------------------------------------- */

/* Every layer map is read once for each of these families. */
enum { MAP_LAYERS, MAP_BYTES, MAP_RESERVED, MAP_FAMILIES };

static const struct gm_family map_families[MAP_FAMILIES] = {
	[MAP_LAYERS] = { "gpumap_layer_map_layers",
			 "Layers of the layer map that the row holds.", NULL,
			 GM_FAMILY_GAUGE },
	[MAP_BYTES] = { "gpumap_layer_map_bytes",
			"Memory of the row that the layer map plans for, by "
			"what it is for.",
			"bytes", GM_FAMILY_GAUGE },
	[MAP_RESERVED] = { "gpumap_reservation_bytes",
			   "Memory of the row that is reserved for the "
			   "committed layer map of this name.",
			   "bytes", GM_FAMILY_GAUGE },
};

static void write_bytes(struct gm_exposition *e, const struct gm_labels *labels,
			const struct gpumap_charge *charge)
{
	const struct {
		const char *kind;
		uint64_t bytes;
	} kinds[] = {
		{ "weights", charge->weight_bytes },
		{ "kv_cache", charge->kv_bytes },
		{ "activations", charge->activation_bytes },
		{ "reserve", charge->reserve_bytes },
	};

	for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
		struct gm_labels full = *labels;

		gm_labels_add(&full, "kind", kinds[k].kind);
		gm_exposition_sample(e, &full, (double)kinds[k].bytes);
	}
}

static void write_charge(struct gm_exposition *e, int family,
			 const struct gpumap_layers *layers,
			 const struct gpumap_charge *charge)
{
	struct gm_labels labels = { 0 };

	gm_labels_add(&labels, "map", layers->name);
	gm_labels_number(&labels, "uid", layers->owner_uid);
	gm_labels_number(&labels, "row", charge->row);
	if (family == MAP_LAYERS)
		gm_exposition_sample(e, &labels, charge->n_layers);
	else if (family == MAP_BYTES)
		write_bytes(e, &labels, charge);
	else if ((layers->flags & GPUMAP_LAYERS_COMMITTED) != 0)
		gm_exposition_sample(e, &labels,
				     (double)(charge->weight_bytes +
					      charge->kv_bytes +
					      charge->activation_bytes +
					      charge->reserve_bytes));
}

static void write_maps(const struct scrape *s)
{
	struct gpumap_charge charges[GPUMAP_ROWS_MAX];
	char name[GPUMAP_NAME_MAX + 1];

	for (int family = 0; family < MAP_FAMILIES; family++) {
		uint32_t cursor = 0;

		gm_exposition_family(s->e, &map_families[family]);
		while (gpumap_layers_next(s->map, &cursor, name) == 1) {
			struct gpumap_layers layers = { .size = sizeof(
								layers) };

			if (gpumap_layers_read(s->map, name, &layers, NULL,
					       NULL, 0, charges,
					       GPUMAP_ROWS_MAX) != 0)
				continue;
			for (uint32_t i = 0; i < layers.n_rows; i++)
				write_charge(s->e, family, &layers,
					     &charges[i]);
		}
	}
}

static void write_masks(const struct scrape *s)
{
	static const struct gm_family bytes = { "gpumap_mask_bytes",
						"Size of the mask's tensor.",
						"bytes", GM_FAMILY_GAUGE };
	static const struct gm_family replicas = {
		"gpumap_mask_replicas", "Rows that have a replica of the mask.",
		NULL, GM_FAMILY_GAUGE
	};
	const struct gm_family *const families[] = { &bytes, &replicas };
	char name[GPUMAP_NAME_MAX + 1];

	for (size_t k = 0; k < 2; k++) {
		uint32_t cursor = 0;

		gm_exposition_family(s->e, families[k]);
		while (gpumap_mask_next(s->map, &cursor, name) == 1) {
			struct gpumap_mask_info info = { .size = sizeof(info) };
			struct gm_labels labels = { 0 };

			if (gpumap_mask_read(s->map, name, &info, NULL, 0) != 0)
				continue;
			gm_labels_add(&labels, "mask", name);
			gm_labels_number(&labels, "uid", info.owner_uid);
			gm_exposition_sample(s->e, &labels,
					     families[k] == &bytes
						     ? (double)info.bytes
						     : info.n_rows);
		}
	}
}

static void write_meshes(const struct scrape *s)
{
	static const struct gm_family ranks = { "gpumap_mesh_ranks",
						"Ranks of the mesh.", NULL,
						GM_FAMILY_GAUGE };
	static const struct gm_family ready = {
		"gpumap_mesh_ready_rows", "Rows of the mesh that are READY.",
		NULL, GM_FAMILY_GAUGE
	};
	const struct gm_family *const families[] = { &ranks, &ready };
	char name[GPUMAP_NAME_MAX + 1];

	for (size_t k = 0; k < 2; k++) {
		uint32_t cursor = 0;

		gm_exposition_family(s->e, families[k]);
		while (gpumap_mesh_next(s->map, &cursor, name) == 1) {
			struct gpumap_mesh_stats stats = { .size = sizeof(
								   stats) };
			struct gm_labels labels = { 0 };

			if (gpumap_mesh_stats(s->map, name, &stats) != 0)
				continue;
			gm_labels_add(&labels, "mesh", name);
			gm_exposition_sample(s->e, &labels,
					     families[k] == &ranks
						     ? stats.world
						     : stats.n_ready);
		}
	}
}

/* ---- all ----------------------------------------------------------------- */

static bool write_map(struct gm_exposition *e, const struct gpumap *map)
{
	struct scrape s = { .e = e, .map = map };

	if (!read_rows(&s))
		return false;
	write_infos(&s);
	write_states(&s);
	write_memory(&s);
	write_series(&s);
	gm_job_metrics_write(e, map, s.rows, s.n_rows);
	write_maps(&s);
	write_masks(&s);
	write_meshes(&s);
	gm_cluster_metrics_write(e, map);
	free(s.rows);
	return true;
}

char *gm_metrics_write(struct gm_target *target,
		       const struct gm_metrics_opts *opts, size_t *ret_bytes)
{
	struct gpumap_health now = { .size = sizeof(now) };
	struct gpumap *map = gm_target_map(target);
	const struct gpumap_health *health = NULL;
	struct gm_exposition e;
	bool is_whole = true;

	if (map != NULL && gpumap_health(map, &now) == 0)
		health = &now;
	gm_exposition_init(&e, opts->openmetrics);
	write_up(&e, health);
	write_build(&e, target, health);
	if (health != NULL) {
		write_health(&e, health);
		is_whole = write_map(&e, map);
		if (opts->usage)
			gm_usage_write(&e, map);
	}
	if (is_whole)
		return gm_exposition_end(&e, ret_bytes);
	gm_exposition_drop(&e);
	return NULL;
}
