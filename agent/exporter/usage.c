/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/exporter/usage.h"

#include <stdlib.h>

#include "agent/reader/list.h"

/* A sum over a list: of a user, or of a user on a row. */
struct sum {
	uint32_t uid;
	uint32_t row; /* UINT32_MAX: of none */
	uint64_t n;
	uint64_t bytes;
};

struct sums {
	struct sum *v;
	size_t n;
};

/* There is room for as many sums as the list has items. */
static struct sum *sum_of(struct sums *sums, uint32_t uid, uint32_t row)
{
	for (size_t i = 0; i < sums->n; i++)
		if (sums->v[i].uid == uid && sums->v[i].row == row)
			return &sums->v[i];
	sums->v[sums->n] = (struct sum){ .uid = uid, .row = row };
	return &sums->v[sums->n++];
}

static void write_sums(struct gm_exposition *e, const struct gm_family *family,
		       const struct sums *sums, bool bytes)
{
	gm_exposition_family(e, family);
	for (size_t i = 0; i < sums->n; i++) {
		const struct sum *sum = &sums->v[i];
		struct gm_labels labels = { 0 };

		gm_labels_number(&labels, "uid", sum->uid);
		if (sum->row != UINT32_MAX)
			gm_labels_number(&labels, "row", sum->row);
		gm_exposition_sample(e, &labels,
				     (double)(bytes ? sum->bytes : sum->n));
	}
}

/* Loads that are under way. */
static void write_loads(struct gm_exposition *e,
			const struct gpumap_session_info *list, int n)
{
	static const struct gm_family loading = {
		"gpumap_model_loading_bytes",
		"Bytes of the models that the session is loading: all of them, "
		"and those that were read.",
		"bytes", GM_FAMILY_GAUGE
	};

	gm_exposition_family(e, &loading);
	for (int i = 0; i < n; i++) {
		struct gm_labels labels = { 0 }, total;

		if (list[i].load_total_bytes == 0)
			continue;
		gm_labels_number(&labels, "session", list[i].id);
		gm_labels_number(&labels, "uid", list[i].uid);
		total = labels;
		gm_labels_add(&labels, "kind", "read");
		gm_labels_add(&total, "kind", "total");
		gm_exposition_sample(e, &labels, (double)list[i].load_bytes);
		gm_exposition_sample(e, &total,
				     (double)list[i].load_total_bytes);
	}
}

static bool write_sessions(struct gm_exposition *e, struct gpumap *map)
{
	static const struct gm_family count = { "gpumap_sessions",
						"Sessions of the user.", NULL,
						GM_FAMILY_GAUGE };
	static const struct gm_family arenas = {
		"gpumap_session_arena_bytes",
		"Memory of the user's sessions for payloads.", "bytes",
		GM_FAMILY_GAUGE
	};
	struct gpumap_session_info *list;
	int n = gm_list_session(map, &list);
	struct sums sums = { 0 };

	if (n < 0)
		return false;
	sums.v = calloc((size_t)n + 1, sizeof(*sums.v));
	for (int i = 0; sums.v != NULL && i < n; i++) {
		struct sum *sum = sum_of(&sums, list[i].uid, UINT32_MAX);

		sum->n++;
		sum->bytes += list[i].arena_bytes;
	}
	write_sums(e, &count, &sums, false);
	write_sums(e, &arenas, &sums, true);
	write_loads(e, list, n);
	free(sums.v);
	free(list);
	return true;
}

static bool write_buffers(struct gm_exposition *e, struct gpumap *map)
{
	static const struct gm_family family = {
		"gpumap_buffer_bytes",
		"Memory of the row that buffers of the user take.", "bytes",
		GM_FAMILY_GAUGE
	};
	struct gpumap_usage *list;
	int n = gm_list_usage(map, &list);
	struct sums sums = { 0 };

	if (n < 0)
		return false;
	sums.v = calloc((size_t)n + 1, sizeof(*sums.v));
	for (int i = 0; sums.v != NULL && i < n; i++)
		sum_of(&sums, list[i].uid, list[i].row)->bytes += list[i].bytes;
	write_sums(e, &family, &sums, true);
	free(sums.v);
	free(list);
	return true;
}

static bool write_shares(struct gm_exposition *e, struct gpumap *map)
{
	static const struct gm_family bytes = { "gpumap_share_bytes",
						"Size of the share.", "bytes",
						GM_FAMILY_GAUGE };
	static const struct gm_family holders = {
		"gpumap_share_holders", "Sessions that hold the share.", NULL,
		GM_FAMILY_GAUGE
	};
	const struct gm_family *const families[] = { &bytes, &holders };
	struct gpumap_share_info *list;
	int n = gm_list_share(map, &list);

	if (n < 0)
		return false;
	for (size_t k = 0; k < 2; k++) {
		gm_exposition_family(e, families[k]);
		for (int i = 0; i < n; i++) {
			struct gm_labels labels = { 0 };

			gm_labels_add(&labels, "share", list[i].name);
			gm_labels_number(&labels, "uid", list[i].uid);
			gm_exposition_sample(e, &labels,
					     families[k] == &bytes
						     ? (double)list[i].bytes
						     : list[i].n_holders);
		}
	}
	free(list);
	return true;
}

static bool write_reservations(struct gm_exposition *e, struct gpumap *map)
{
	static const struct gm_family family = {
		"gpumap_reservation_used_bytes",
		"What of the reservation its processes and sessions have.",
		"bytes", GM_FAMILY_GAUGE
	};
	struct gpumap_reservation *list;
	int n = gm_list_reservation(map, &list);

	if (n < 0)
		return false;
	gm_exposition_family(e, &family);
	for (int i = 0; i < n; i++) {
		struct gm_labels labels = { 0 };

		gm_labels_add(&labels, "map", list[i].name);
		gm_labels_number(&labels, "uid", list[i].uid);
		gm_labels_number(&labels, "row", list[i].row);
		gm_exposition_sample(
			e, &labels,
			(double)(list[i].own_bytes + list[i].session_bytes));
	}
	free(list);
	return true;
}

static bool write_waits(struct gm_exposition *e, struct gpumap *map)
{
	static const struct gm_family length = {
		"gpumap_start_queue_length",
		"Requests for memory that wait for room.", NULL, GM_FAMILY_GAUGE
	};
	static const struct gm_family oldest = {
		"gpumap_start_queue_oldest_seconds",
		"Time that the first of them has waited.", "seconds",
		GM_FAMILY_GAUGE
	};
	struct gpumap_wait_info *list;
	int n = gm_list_wait(map, &list);

	if (n < 0)
		return false;
	gm_exposition_family(e, &length);
	gm_exposition_sample(e, NULL, n);
	gm_exposition_family(e, &oldest);
	gm_exposition_sample(e, NULL, n > 0 ? (double)list[0].age_ns / 1e9 : 0);
	free(list);
	return true;
}

void gm_usage_write(struct gm_exposition *e, struct gpumap *map)
{
	static const struct gm_family up = {
		"gpumap_usage_up",
		"1 if the agent has answered with its lists, else 0.", NULL,
		GM_FAMILY_GAUGE
	};
	/* An agent that does not answer costs the wait for one answer. */
	bool answers = write_sessions(e, map) && write_buffers(e, map) &&
		       write_shares(e, map) && write_reservations(e, map) &&
		       write_waits(e, map);

	gm_exposition_family(e, &up);
	gm_exposition_sample(e, NULL, answers);
}
