/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "agent/reader/list.h"
#include "agent/top/top.h"
#include "agent/reader/device_text.h"

/* After so many reads names are looked up again: a pid may be another process
 * by then. */
#define CACHE_READS 10u

/* A read in progress. */
struct reading {
	struct gpumap *map;
	const struct gm_top_names *names;
	struct gm_top_cache *cache;
	struct gm_top_facts *facts;
};

/* One more item behind @n of an array.  Returns NULL without memory. */
static void *grow(void *items, size_t n, size_t bytes)
{
	return realloc(items, (n + 1) * bytes);
}

/* ---- names --------------------------------------------------------------- */

static struct gm_top_process process_of(struct reading *r, uint32_t pid,
					uint32_t uid)
{
	struct gm_top_process process = { .pid = pid, .uid = uid };
	struct gm_top_cache *cache = r->cache;
	struct gm_top_process *v;

	for (size_t i = 0; i < cache->n; i++)
		if (cache->v[i].pid == pid && cache->v[i].uid == uid)
			return cache->v[i];
	r->names->user(uid, process.user);
	r->names->command(r->names->context, pid, uid, process.command);
	v = grow(cache->v, cache->n, sizeof(*v));
	if (v != NULL) {
		cache->v = v;
		v[cache->n++] = process;
	}
	return process;
}

void gm_top_cache_free(struct gm_top_cache *cache)
{
	free(cache->v);
	*cache = (struct gm_top_cache){ .n = 0 };
}

/* ---- rows ---------------------------------------------------------------- */

static int read_row(struct reading *r, struct gm_top_row *row, uint32_t i)
{
	struct gpumap_device_jobs jobs = { .size = sizeof(jobs) };
	struct gm_device_room memory;
	int ret;

	row->device.size = sizeof(row->device);
	ret = gpumap_device_read(r->map, i, &row->device);
	if (ret != 0)
		return ret;
	memory = gm_device_room(&row->device);
	row->used = memory.used;
	row->promised = memory.promised;
	row->left = memory.left;
	if (gpumap_device_jobs_read(r->map, i, &jobs) == 0) {
		row->jobs = jobs.ended;
		row->failed = jobs.failed;
	}
	return 0;
}

static void count_ours(struct gm_top_facts *f)
{
	for (int i = 0; i < f->n_usages; i++)
		if (f->usages[i].info.row < f->n_rows)
			f->rows[f->usages[i].info.row].ours +=
				f->usages[i].info.bytes;
	for (uint32_t i = 0; i < f->n_rows; i++)
		if (f->rows[i].ours > f->rows[i].used)
			f->rows[i].ours = f->rows[i].used;
}

static int read_rows(struct reading *r)
{
	uint32_t n = gpumap_device_count(r->map);
	int ret = 0;

	r->facts->rows = calloc((size_t)n + 1, sizeof(*r->facts->rows));
	if (r->facts->rows == NULL)
		return -ENOMEM;
	for (uint32_t i = 0; i < n && ret == 0; i++) {
		ret = read_row(r, &r->facts->rows[i], i);
		if (ret == 0)
			r->facts->n_rows++;
	}
	count_ours(r->facts);
	return ret;
}

/* ---- reservations and layer maps, of the map ----------------------------- */

static uint64_t charged(const struct gpumap_charge *charge)
{
	return charge->weight_bytes + charge->kv_bytes +
	       charge->activation_bytes + charge->reserve_bytes;
}

/* Returns 1, or 0: it was released or replaced meanwhile. */
static int read_charges(struct reading *r, const char *name,
			struct gpumap_layers *ret_layers,
			struct gpumap_charge *ret_charges)
{
	*ret_layers = (struct gpumap_layers){ .size = sizeof(*ret_layers) };
	return gpumap_layers_read(r->map, name, ret_layers, NULL, NULL, 0,
				  ret_charges, GPUMAP_ROWS_MAX) == 0;
}

static int add_holder(struct reading *r, const struct gpumap_holder *holder,
		      const struct gpumap_charge *charges, uint32_t n)
{
	struct gm_top_facts *f = r->facts;
	struct gm_top_holder *v = grow(f->holders, f->n_holders, sizeof(*v));

	if (v == NULL)
		return -ENOMEM;
	f->holders = v;
	v += f->n_holders;
	*v = (struct gm_top_holder){
		.holder = *holder,
		.process = process_of(r, holder->pid, holder->uid),
		.charges = calloc((size_t)n + 1, sizeof(*charges)),
		.n = n,
	};
	if (v->charges == NULL)
		return -ENOMEM;
	f->n_holders++;
	memcpy(v->charges, charges, n * sizeof(*charges));
	for (uint32_t i = 0; i < n; i++)
		v->bytes += charged(&charges[i]);
	return 0;
}

static int read_holders(struct reading *r)
{
	struct gpumap_holder holder = { .size = sizeof(holder) };
	struct gpumap_charge charges[GPUMAP_ROWS_MAX];
	struct gpumap_layers layers;
	uint32_t cursor = 0;
	int ret = 0;

	while (ret == 0 && gpumap_holder_next(r->map, &cursor, &holder) == 1)
		if (read_charges(r, holder.name, &layers, charges) == 1 &&
		    layers.version == holder.version)
			ret = add_holder(r, &holder, charges, layers.n_rows);
	return ret;
}

static int read_maps(struct reading *r)
{
	struct gpumap_charge charges[GPUMAP_ROWS_MAX];
	struct gm_top_facts *f = r->facts;
	char name[GPUMAP_NAME_MAX + 1];
	struct gpumap_layers layers;
	uint32_t cursor = 0;

	while (gpumap_layers_next(r->map, &cursor, name) == 1) {
		struct gm_top_map *v;

		if (read_charges(r, name, &layers, charges) != 1)
			continue;
		v = grow(f->maps, f->n_maps, sizeof(*v));
		if (v == NULL)
			return -ENOMEM;
		f->maps = v;
		v += f->n_maps++;
		*v = (struct gm_top_map){
			.layers = layers,
			.process = process_of(r, 0, layers.owner_uid),
		};
		for (uint32_t i = 0; i < layers.n_rows; i++) {
			v->rows[charges[i].row / 64 % 4] |=
				UINT64_C(1) << charges[i].row % 64;
			v->bytes += charged(&charges[i]);
		}
	}
	return 0;
}

/* ---- lists, of the agent ------------------------------------------------- */

/* An agent that does not answer, or refuses, leaves a list unknown. */
static bool is_known(struct reading *r, int n)
{
	const char *why = gpumap_refusal(r->map);

	if (n < 0)
		snprintf(r->facts->refusal, sizeof(r->facts->refusal), "%s",
			 why[0] != '\0' ? why : gpumap_strerror(n));
	return n >= 0;
}

#define READ(of, member)                                                 \
	static int read_##of##s(struct reading *r)                       \
	{                                                                \
		struct gm_top_facts *f = r->facts;                       \
		member *list;                                            \
		int n = gm_list_##of(r->map, &list);                     \
                                                                         \
		if (!is_known(r, n))                                     \
			return n == -ENOMEM ? n : 0;                     \
		f->of##s = calloc((size_t)n + 1, sizeof(*f->of##s));     \
		for (int i = 0; f->of##s != NULL && i < n; i++) {        \
			f->of##s[i].info = list[i];                      \
			f->of##s[i].process =                            \
				process_of(r, list[i].pid, list[i].uid); \
		}                                                        \
		free(list);                                              \
		if (f->of##s == NULL)                                    \
			return -ENOMEM;                                  \
		f->n_##of##s = n;                                        \
		return 0;                                                \
	}

READ(session, struct gpumap_session_info)
READ(share, struct gpumap_share_info)
READ(usage, struct gpumap_usage)
READ(wait, struct gpumap_wait_info)

/* The agent may go between two requests: none is made of one that is gone. */
static bool is_seen(const struct reading *r)
{
	struct gpumap_health health = { .size = sizeof(health) };

	return r->facts->refusal[0] == '\0' &&
	       gpumap_health(r->map, &health) == 0 && !health.stale &&
	       health.state != GPUMAP_RETIRED;
}

static int read_lists(struct reading *r, unsigned int panels)
{
	const struct {
		enum gm_top_panel panel;
		int (*read)(struct reading *r);
	} lists[] = {
		{ GM_TOP_ROWS, read_usages },
		{ GM_TOP_SESSIONS, read_sessions },
		{ GM_TOP_MODELS, read_shares },
		{ GM_TOP_WAITS, read_waits },
	};
	int ret = 0;

	for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++)
		if (ret == 0 && (panels >> lists[i].panel & 1) != 0 &&
		    is_seen(r))
			ret = lists[i].read(r);
	return ret;
}

/* ---- the agent itself ---------------------------------------------------- */

/* When its process started, since the boot: field 22 of its stat.  0: this
 * process does not see those of the agent. */
static uint64_t started_ns(uint32_t pid)
{
	char path[32], text[1024];
	unsigned long long ticks;
	const char *behind;
	size_t n;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%u/stat", pid);
	file = fopen(path, "re");
	if (file == NULL)
		return 0;
	n = fread(text, 1, sizeof(text) - 1, file);
	fclose(file);
	text[n] = '\0';
	behind = strrchr(text, ')');
	if (behind == NULL || strstr(text, "(gpumapd)") == NULL ||
	    sscanf(behind,
		   ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u "
		   "%*d %*d %*d %*d %*d %*d %llu",
		   &ticks) != 1)
		return 0;
	return ticks * (UINT64_C(1000000000) / (uint64_t)sysconf(_SC_CLK_TCK));
}

static void read_age(struct reading *r)
{
	struct gm_top_facts *f = r->facts;
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	f->time_s = (uint64_t)now.tv_sec;
	clock_gettime(CLOCK_MONOTONIC, &now);
	f->taken_ns = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
	if (r->cache->epoch != f->health.epoch) {
		r->cache->epoch = f->health.epoch;
		r->cache->since_ns = started_ns(f->health.agent_pid);
	}
	clock_gettime(CLOCK_BOOTTIME, &now);
	if (r->cache->since_ns != 0 &&
	    (uint64_t)now.tv_sec > r->cache->since_ns / 1000000000)
		f->up_s =
			(uint64_t)now.tv_sec - r->cache->since_ns / 1000000000;
}

/* ---- all ----------------------------------------------------------------- */

int gm_top_facts_read(struct gpumap *map, unsigned int panels,
		      const struct gm_top_names *names,
		      struct gm_top_cache *cache,
		      struct gm_top_facts *ret_facts)
{
	struct reading r = { map, names, cache, ret_facts };
	int ret;

	*ret_facts = (struct gm_top_facts){
		.health.size = sizeof(ret_facts->health),
		.n_usages = -1,
		.n_sessions = -1,
		.n_shares = -1,
		.n_waits = -1,
	};
	if (++cache->reads % CACHE_READS == 0)
		cache->n = 0;
	ret = gpumap_health(map, &ret_facts->health);
	if (ret == 0)
		read_age(&r);
	if (ret == 0)
		ret = read_lists(&r, panels);
	if (ret == 0)
		ret = read_rows(&r);
	if (ret == 0)
		ret = read_holders(&r);
	return ret == 0 ? read_maps(&r) : ret;
}

void gm_top_facts_free(struct gm_top_facts *f)
{
	for (uint32_t i = 0; i < f->n_holders; i++)
		free(f->holders[i].charges);
	free(f->holders);
	free(f->rows);
	free(f->maps);
	free(f->usages);
	free(f->sessions);
	free(f->shares);
	free(f->waits);
	*f = (struct gm_top_facts){ .n_rows = 0 };
}

#define KEEP(list)                                   \
	do {                                         \
		if (f->n_##list < 0) {               \
			f->list = old->list;         \
			f->n_##list = old->n_##list; \
			old->list = NULL;            \
			old->n_##list = -1;          \
		}                                    \
	} while (0)

void gm_top_facts_keep(struct gm_top_facts *f, struct gm_top_facts *old)
{
	if (!gm_top_is_gone(f) && f->refusal[0] == '\0')
		return;
	KEEP(sessions);
	KEEP(shares);
	KEEP(waits);
	if (f->n_usages < 0) {
		KEEP(usages);
		count_ours(f);
	}
}

/* ---- for whom a request waits -------------------------------------------- */

static bool have_row_of_both(const uint64_t *a, const uint64_t *b)
{
	for (uint32_t w = 0; w < GPUMAP_ROWS_MAX / 64; w++)
		if ((a[w] & b[w]) != 0)
			return true;
	return false;
}

const struct gm_top_holder *gm_top_facts_wait(const struct gm_top_facts *f,
					      int i, uint32_t *ret_before)
{
	const struct gpumap_wait_info *wait = &f->waits[i].info;
	bool starts = (wait->flags & GPUMAP_WAIT_FOR_START) != 0;
	const struct gm_top_holder *found = NULL;
	uint64_t most = 0;

	*ret_before = 0;
	for (int k = 0; k < i; k++)
		*ret_before +=
			have_row_of_both(f->waits[k].info.rows, wait->rows);
	for (uint32_t h = 0; h < f->n_holders; h++) {
		const struct gm_top_holder *holder = &f->holders[h];
		uint64_t sum = 0;

		for (uint32_t c = 0; c < holder->n; c++)
			if (gm_top_has_row(wait->rows, holder->charges[c].row))
				sum += charged(&holder->charges[c]);
		if (sum <= most || (starts && holder->holder.start_ns == 0))
			continue;
		most = sum;
		found = holder;
	}
	return found;
}

/* A row that was given to another device begins anew. */
static double rate_of(const struct gm_top_history *history,
		      const struct gm_top_facts *facts, uint32_t i)
{
	uint64_t now = facts->rows[i].jobs, before = history->jobs[i];

	if (history->n == 0 || now < before ||
	    facts->taken_ns <= history->taken_ns)
		return 0;
	return (double)(now - before) * 1e9 /
	       (double)(facts->taken_ns - history->taken_ns);
}

void gm_top_history_add(struct gm_top_history *history,
			struct gm_top_facts *facts)
{
	uint32_t at = history->n % GM_TOP_SAMPLES;

	for (uint32_t i = 0; i < facts->n_rows; i++) {
		struct gm_top_row *row = &facts->rows[i];
		double total = (double)row->device.total_bytes;

		history->used[i][at] =
			total > 0 ? (uint16_t)((double)row->used / total * 1000)
				  : 0;
		history->busy[i][at] = (uint16_t)row->device.utilisation;
		row->rate = rate_of(history, facts, i);
		history->jobs[i] = row->jobs;
	}
	history->taken_ns = facts->taken_ns;
	history->n++;
}
