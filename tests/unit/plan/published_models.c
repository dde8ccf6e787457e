/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Published models at their real size, on every node of tests/nodes: by each
 * strategy and each setting, with sums that come to the checkpoint's bytes.
 */

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "agent/files/nodefile.h"
#include "agent/files/topology_file.h"
#include "lib/model/checkpoint/checkpoint.h"
#include "lib/model/plan/plan.h"
#include "tests/support/tap.h"

#define NO_MODELS "the metadata of published models is not here"

struct scene {
	struct gm_weights_sizes model;
	struct gm_plan_device devices[GPUMAP_ROWS_MAX];
	struct gm_plan_request q;
};

static const char *top;

static bool set_node(struct scene *s, const char *name)
{
	struct gm_plan_error err = { 0 };
	struct gm_nodefile node;
	char path[512];

	snprintf(path, sizeof(path), "%s/tests/nodes/%s.yaml", top, name);
	if (!OK(gm_nodefile_read(path, &node, &err) == 0)) {
		NOTE("%s", err.text);
		return false;
	}
	gm_nodefile_devices(&node, s->devices);
	s->q = (struct gm_plan_request){
		.devices = s->devices,
		.n_devices = node.n_rows,
	};
	s->q.weight_bytes = gm_plan_of_sizes(&s->model, &s->q.ask);
	gm_nodefile_free(&node);
	return true;
}

/* Each part of the charges against the model and its config. */
static void sums_come_out(const struct scene *s, const struct gm_plan *plan)
{
	uint64_t weights = 0, kv = 0, layers = 0, missing;
	bool holds = true;

	for (uint32_t i = 0; i < plan->n_charges; i++) {
		const struct gpumap_charge *c = &plan->charges[i];

		weights += c->weight_bytes;
		kv += c->kv_bytes;
		layers += c->n_layers;
		missing = gm_plan_charge_bytes(c) + c->left_bytes -
			  s->devices[c->row].avail;
		holds &= missing <= plan->missing_bytes &&
			 (missing == 0 || c->left_bytes == 0);
	}
	OK(holds);
	EQ((intmax_t)layers, s->model.n_layers);
	EQ((intmax_t)weights, (intmax_t)s->model.total_bytes);
	/* 4096 tokens, 8 heads of 128 + 128 elements, 2 bytes: both models' */
	EQ((intmax_t)kv, (intmax_t)(s->model.n_layers * (UINT64_C(16) << 20)));
}

static void is_planned_by_each_strategy(struct scene *s, bool fits)
{
	struct gm_plan_error err = { 0 };
	struct gm_plan plan = { 0 };

	s->q.ask.setting = GPUMAP_SETTING_AUTO;
	for (int i = 0; i < 3; i++) {
		int r;

		s->q.ask.strategy = GPUMAP_STRATEGY_FILL + (uint32_t)i;
		r = gm_plan_make(&s->q, &plan, NULL, &err);
		EQ(r, fits ? 0 : -ENOSPC);
		if (r)
			continue;
		sums_come_out(s, &plan);
		gm_plan_free(&plan);
	}
}

static void is_planned_by_each_setting(struct scene *s)
{
	static const struct {
		uint32_t setting;
		const char *text;
	} cases[] = {
		{ GPUMAP_SETTING_MANUAL, "0:20" },
		{ GPUMAP_SETTING_TOPOLOGY, NULL },
		{ GPUMAP_SETTING_DUMMY, NULL },
		{ GPUMAP_SETTING_PIPELINE, NULL },
	};
	static const char text[] = "0-10:\n  device: cpu\n";
	struct gm_topology topology = { 0 };
	struct gm_plan_error err = { 0 };
	struct gm_plan plan = { 0 };

	EQ(gm_topology_file_parse(text, strlen(text), &topology, &err), 0);
	s->q.topology = &topology;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		int r;

		s->q.ask.setting = cases[i].setting;
		s->q.ask.text = cases[i].text;
		r = gm_plan_make(&s->q, &plan, NULL, &err);
		if (!EQ(r, 0)) {
			NOTE("%s", err.text);
			continue;
		}
		sums_come_out(s, &plan);
		gm_plan_free(&plan);
	}
	s->q.ask.text = NULL;
	gm_topology_free(&topology);
}

static void is_planned_on_every_node(struct scene *s, bool is_large)
{
	static const struct {
		const char *name;
		bool fits_large;
	} nodes[] = {
		{ "eight-gpu", true }, { "mixed", true },
		{ "laptop", false },   { "cpu-only", true },
		{ "unified", false },
	};

	for (size_t i = 0; i < sizeof(nodes) / sizeof(nodes[0]); i++) {
		NOTE("%s", nodes[i].name);
		if (!set_node(s, nodes[i].name))
			continue;
		is_planned_by_each_strategy(s,
					    !is_large || nodes[i].fits_large);
		if (i !=
		    3) /* whose first row is a host, and there spec's rest */
			is_planned_by_each_setting(s);
	}
}

static void is_published(const char *name, bool is_large)
{
	struct gm_reason why;
	char command[2048], dir[128];
	struct scene s;

	snprintf(dir, sizeof(dir), "/tmp/gpumap-test-plan.%ld.%s",
		 (long)getpid(), name);
	snprintf(command, sizeof(command),
		 "'%s/../shared/models/make-checkpoint' "
		 "'%s/../shared/models/%s' '%s' >/dev/null",
		 top, top, name, dir);
	if (EQ(system(command), 0) &&
	    OK(gm_weights_measure(dir, NULL, &why, &s.model) == 0)) {
		is_planned_on_every_node(&s, is_large);
		gm_weights_sizes_free(&s.model);
	}
	snprintf(command, sizeof(command), "rm -rf '%s'", dir);
	EQ(system(command), 0);
}

TAP_CASE()
{
	static const struct {
		const char *name;
		bool is_large;
	} models[] = { { "llama-2-70b", true }, { "qwen2.5-14b", false } };
	char path[1024];

	top = getenv("abs_top_srcdir");
	if (!top) {
		puts("Bail out! run me by make check: no abs_top_srcdir");
		return 99;
	}
	for (size_t i = 0; i < sizeof(models) / sizeof(models[0]); i++) {
		snprintf(path, sizeof(path), "%s/../shared/models/%s", top,
			 models[i].name);
		if (access(path, F_OK))
			SKIP(1, NO_MODELS);
		else if (system("python3 -c '' 2>/dev/null"))
			SKIP(1, "making a checkpoint needs python3");
		else
			is_published(models[i].name, models[i].is_large);
	}
	return tap_done();
}
