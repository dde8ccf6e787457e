/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * bench_lookup - lookups beside a writer that publishes, and a second reader.
 *
 * The agent does not publish thousands of times a second, so the segment and
 * its writer are this program's own.  The writer stores a layer map of 256
 * layers anew each time, on another CPU; the reader looks up through a view and
 * refreshes it whenever it is told to.  Everything is the mean of the reader's
 * own CPU time, so that a reader which starves shows.
 */

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/bench/measure/lookup.h"
#include "tests/bench/measure/peer.h"
#include "tests/bench/measure/raw.h"
#include "tests/bench/measure/series.h"
#include "tests/bench/measure/ticks.h"
#include "tests/support/segment_file.h"

#define NAME         "bench"
#define ROUNDS       9
#define TRIES        4       /* times the rounds, where the CPU is not ours */
#define KEPT_UP      0.7     /* of its rate, by a writer that counts */
#define CHAINS       120000u /* of 64: some ten milliseconds */
#define CHAINS_RACED 8000u
#define FLAT_OUT     UINT64_C(1) /* ns: no client can */

struct writer {
	struct segment *segment;
	uint64_t period_ns; /* FLAT_OUT: as fast as it can */
	gm_a64 *count;      /* in shared memory: publications so far */
};

struct reader {
	const struct gpumap *map;
	gm_a64 *ready; /* in shared memory */
};

/* This end of everything. */
struct bench {
	struct segment_file file;
	struct gpumap *map;
	struct gpumap_view view;
	gm_a64 *shared;
	int there; /* the CPU of the disturbing thread */
};

struct disturbance {
	const char *name; /* of the row, "_independent" or so is added */
	uint64_t period_ns;
	bool against_plain; /* or else against our own quiet figure */
	double goal[GM_LOOKUP_KINDS];
};

static const struct disturbance writers[] = {
	{ "lookup_writer_1khz", 1000000, false, { 1.2, 1.2 } },
	{ "lookup_writer_100khz", 10000, false, { 1.5, 1.5 } },
	{ "lookup_writer_flat_out", FLAT_OUT, true, { 8, 12 } },
};

static const char *const kinds[GM_LOOKUP_KINDS] = { "independent",
						    "dependent" };

static void die(const char *what, int error)
{
	fprintf(stderr, "bench_lookup: %s: %s\n", what, gpumap_strerror(error));
	exit(1);
}

static void make_layers(struct gm_layers *ret_layers)
{
	static uint32_t rows[GM_LOOKUP_LAYERS];
	static const struct gm_charge_image charge = { 0 };

	*ret_layers = (struct gm_layers){ .name = NAME,
					  .spec = "256",
					  .n_layers = GM_LOOKUP_LAYERS,
					  .n_rows = 1,
					  .setting = GPUMAP_SETTING_MANUAL,
					  .rows = rows,
					  .charges = &charge };
}

/* The agent's smallest cost of a publication: the stores alone. */
static void publish(void *arg)
{
	struct writer *writer = arg;
	gm_a64 *slot = &writer->segment->map.objects[0].slot;
	struct gm_object_image *image;
	struct gm_layers layers;
	uint64_t *words, bytes, next = gm_ticks(), period;

	make_layers(&layers);
	bytes = gm_layers_bytes(&layers);
	words = calloc(1, bytes);
	if (words == NULL)
		return;
	gm_layers_build(&layers, 0, words);
	image = (struct gm_object_image *)(void *)words;
	period = (uint64_t)((double)writer->period_ns / gm_ticks_ns());
	for (;;) {
		while ((int64_t)(gm_ticks() - next) < 0)
			gm_pause();
		/* A thread that was kept from the CPU does not make up for
		 * it. */
		if (gm_ticks() - next > 10 * period)
			next = gm_ticks();
		next += period;
		image->version = gm_seq_version(gm_get(slot)) + 1;
		segment_publish(writer->segment, slot, words, bytes);
		gm_put(writer->count, gm_get(writer->count) + 1);
	}
}

static void read_on(void *arg)
{
	struct reader *reader = arg;
	struct gpumap_view view;
	struct gm_lookup_cost cost;

	if (gpumap_layers_view(reader->map, NAME, &view) != 0)
		return;
	for (;;) {
		gm_put(reader->ready, 1);
		if (gm_lookup_view(reader->map, &view, GM_LOOKUP_INDEPENDENT,
				   CHAINS, &cost, NULL) != 0)
			return;
	}
}

static double quiet(struct bench *b, enum gm_lookup_kind kind,
		    bool against_plain)
{
	struct gm_lookup_cost cost;
	int ret;

	if (against_plain) {
		gm_lookup_plain(kind, CHAINS, &cost);
		return cost.mean_ns;
	}
	ret = gm_lookup_view(b->map, &b->view, kind, CHAINS, &cost, NULL);
	if (ret != 0)
		die("lookup", ret);
	return cost.mean_ns;
}

/* The writer of a round has just been started: let it come up to speed. */
static void await_some(const gm_a64 *count, uint64_t more)
{
	uint64_t until = gm_get(count) + more, from = gm_ticks();

	while (gm_get(count) < until) {
		gm_pause();
		if ((double)(gm_ticks() - from) * gm_ticks_ns() > 2e9)
			die("the writer does not write", -ETIMEDOUT);
	}
}

struct beside {
	uint64_t refreshes;
	uint64_t lookups;
	uint64_t published;
	double seconds;
};

/* One round.  Returns whether the writer got the CPU to keep its rate. */
static bool beside_once(struct bench *b, const struct disturbance *d,
			enum gm_lookup_kind kind, struct gm_lookup_cost *cost,
			struct beside *sum)
{
	struct writer writer = { .segment = &b->file.segment,
				 .period_ns = d->period_ns,
				 .count = b->shared };
	uint32_t chains = d->period_ns == FLAT_OUT ? CHAINS_RACED : CHAINS;
	pid_t pid = gm_peer_start(b->there, publish, &writer);
	uint64_t refreshes, published, from;
	double seconds;
	int ret;

	await_some(writer.count, 4);
	from = gm_ticks();
	published = gm_get(writer.count);
	ret = gm_lookup_view(b->map, &b->view, kind, chains, cost, &refreshes);
	published = gm_get(writer.count) - published;
	seconds = (double)(gm_ticks() - from) * gm_ticks_ns() * 1e-9;
	gm_peer_stop(pid);
	if (ret != 0)
		die("lookup", ret);
	if (d->period_ns != FLAT_OUT &&
	    (double)published < KEPT_UP * 1e9 * seconds / (double)d->period_ns)
		return false;
	sum->refreshes += refreshes;
	sum->lookups += chains * UINT64_C(64);
	sum->published += published;
	sum->seconds += seconds;
	return true;
}

static void beside_writer(struct bench *b, const struct disturbance *d,
			  enum gm_lookup_kind kind)
{
	struct gm_series series = { 0 };
	struct beside sum = { 0 };
	char name[64], note[128] = "the writer was kept from its CPU";
	struct gm_figure figure = { .name = name,
				    .unit = "ns",
				    .sense = GM_AT_MOST,
				    .goal = d->goal[kind] };

	while (series.n < ROUNDS && series.rejected < TRIES * ROUNDS) {
		double baseline = quiet(b, kind, d->against_plain);
		struct gm_lookup_cost cost;

		if (beside_once(b, d, kind, &cost, &sum))
			gm_series_add(&series, cost.mean_ns, baseline);
		else
			series.rejected++;
	}
	snprintf(name, sizeof(name), "%s_%s", d->name, kinds[kind]);
	if (series.n > 0)
		snprintf(note, sizeof(note),
			 "mean, against %s; %.3g publications/s, "
			 "%.2g refreshes/lookup",
			 d->against_plain ? "a plain array" : "no writer",
			 (double)sum.published / sum.seconds,
			 (double)sum.refreshes / (double)sum.lookups);
	gm_series_print(&figure, &series, note);
}

static void beside_reader(struct bench *b, enum gm_lookup_kind kind)
{
	struct reader reader = { .map = b->map, .ready = b->shared };
	struct gm_series series = { 0 };
	char name[64];
	struct gm_figure figure = {
		.name = name, .unit = "ns", .sense = GM_AT_MOST, .goal = 1.2
	};

	for (int round = 0; round < ROUNDS; round++) {
		double baseline = quiet(b, kind, false), both;
		pid_t pid;

		gm_put(reader.ready, 0);
		pid = gm_peer_start(b->there, read_on, &reader);
		await_some(reader.ready, 1);
		both = quiet(b, kind, false);
		gm_peer_stop(pid);
		gm_series_add(&series, both, baseline);
	}
	snprintf(name, sizeof(name), "lookup_two_readers_%s", kinds[kind]);
	gm_series_print(&figure, &series, "mean, against one reader");
}

static void set_up(struct bench *b)
{
	struct gpumap_attach_opts opts = { .size = sizeof(opts),
					   .runtime_dir = "/nonexistent" };
	struct gm_layers layers;
	int here, ret;

	if (segment_file_make("bench", &b->file) != 0)
		die("cannot make a segment in /dev/shm", -errno);
	make_layers(&layers);
	segment_layers(&b->file.segment, 0, &layers);
	opts.instance = b->file.instance;
	ret = gpumap_attach(&opts, &b->map);
	if (ret == 0)
		ret = gpumap_layers_view(b->map, NAME, &b->view);
	/* Both have what they need: nothing is left behind, come what may. */
	shm_names_remove(b->file.instance);
	if (ret != 0)
		die("attach", ret);
	b->shared = gm_peer_memory(sizeof(*b->shared));
	b->there = gm_peer_other_cpu(0);
	here = b->there < 0 ? 0 : gm_peer_other_cpu(b->there);
	if (b->there < 0 || gm_peer_pin(here) != 0) {
		fputs("bench_lookup: skipped: this needs two CPUs\n", stderr);
		exit(0);
	}
}

int main(void)
{
	struct bench b = { 0 };

	set_up(&b);
	for (size_t i = 0; i < sizeof(writers) / sizeof(writers[0]); i++)
		for (int kind = 0; kind < GM_LOOKUP_KINDS; kind++)
			beside_writer(&b, &writers[i],
				      (enum gm_lookup_kind)kind);
	for (int kind = 0; kind < GM_LOOKUP_KINDS; kind++)
		beside_reader(&b, (enum gm_lookup_kind)kind);
	gpumap_detach(b.map);
	segment_file_remove(&b.file);
	return 0;
}
