/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/plan/stack.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>

#include "agent/plan/placement.h"
#include "shm/layer_name.h"

/* A tensor whose name puts it into a layer. */
struct member {
	struct gm_layer_name name; /* first */
	uint64_t bytes;
};

struct members {
	const char *what; /* the model, for messages */
	struct member *v; /* sorted by prefix, then layer */
	size_t n;
};

/* The members with one prefix. */
struct run {
	size_t first, end;
	uint64_t n_layers; /* highest number + 1 */
	uint64_t missing;  /* lowest number that no tensor has, or n_layers */
	uint64_t bytes;
};

static int find_members(const struct gm_tensors *t, struct members *m,
			struct gm_plan_error *err)
{
	m->v = calloc(t->n + 1, sizeof(m->v[0])); /* never 0 */
	if (!m->v)
		return gm_error_no_memory(err);
	for (size_t i = 0; i < t->n; i++) {
		struct member *member = &m->v[m->n];

		if (!gm_layer_name_parse(t->v[i].name, &member->name))
			continue;
		if (member->name.layer >= GM_PLACEMENT_LAYERS)
			return gm_error_set(
				err, -E2BIG, "is this a model?",
				"%s: tensor %.128s: more than the %u layers "
				"that a map may have",
				m->what, member->name.text,
				GM_PLACEMENT_LAYERS);
		member->bytes = t->v[i].bytes;
		m->n++;
	}
	qsort(m->v, m->n, sizeof(m->v[0]), gm_layer_name_compare);
	return 0;
}

static int measure_run(const struct members *m, size_t first, struct run *ret,
		       struct gm_plan_error *err)
{
	struct run run = { .first = first };
	size_t i = first;

	for (; i < m->n && gm_layer_name_compare_stack(&m->v[i].name,
						       &m->v[first].name) == 0;
	     i++) {
		if (__builtin_add_overflow(run.bytes, m->v[i].bytes,
					   &run.bytes))
			return gm_error_set(err, -EOVERFLOW,
					    "fetch the model again",
					    "%s: %.*s has 2^64 bytes or more",
					    m->what, (int)m->v[i].name.prefix,
					    m->v[i].name.text);
		run.missing += m->v[i].name.layer == run.missing;
		run.n_layers = m->v[i].name.layer + 1;
	}
	run.end = i;
	*ret = run;
	return 0;
}

static bool agrees(const struct run *run, const struct gm_model_config *config)
{
	return config->n_layers == 0 || run->n_layers == config->n_layers ||
	       run->n_layers == config->n_layers + config->n_extra;
}

static bool better(const struct run *a, const struct run *b,
		   const struct gm_model_config *config)
{
	bool a_agrees = agrees(a, config), b_agrees = agrees(b, config);

	if (a_agrees != b_agrees)
		return a_agrees;
	return a->bytes > b->bytes;
}

static int choose_run(const struct members *m,
		      const struct gm_model_config *config, struct run *ret,
		      struct gm_plan_error *err)
{
	struct run best = { 0 }, run = { 0 };

	while (run.end < m->n) {
		int r = measure_run(m, run.end, &run, err);

		if (r)
			return r;
		if (best.n_layers == 0 || better(&run, &best, config))
			best = run;
	}
	if (best.n_layers == 0)
		return gm_error_set(
			err, -EINVAL,
			"layers are named layers.N., layer.N., blocks.N., "
			"block.N., h.N. or blk.N. with or without a prefix",
			"%s: no tensor's name has the number of a layer",
			m->what);
	*ret = best;
	return 0;
}

static int check_run(const struct members *m,
		     const struct gm_model_config *config,
		     const struct run *run, struct gm_plan_error *err)
{
	const char *name = m->v[run->first].name.text;
	int shown = (int)(m->v[run->first].name.prefix < 128
				  ? m->v[run->first].name.prefix
				  : 128);

	if (run->missing != run->n_layers)
		return gm_error_set(err, -EINVAL,
				    "fetch the model's missing files",
				    "%s: no tensor of layer %.*s%" PRIu64
				    ", but there are of layer %" PRIu64,
				    m->what, shown, name, run->missing,
				    run->n_layers - 1);
	if (!agrees(run, config))
		return gm_error_set(
			err, -EINVAL,
			"fetch the model's missing files, or the config.json "
			"that belongs to them",
			"%s: config.json says %" PRIu32
			" layers, there are tensors of %" PRIu64 " (%.*sN.)",
			m->what, config->n_layers, run->n_layers, shown, name);
	return 0;
}

static int sum_layers(const struct members *m, const struct run *run,
		      const struct gm_model_config *config,
		      struct gm_stack *ret, struct gm_plan_error *err)
{
	struct gm_stack stack = { 0 };

	stack.n_layers =
		config->n_layers ? config->n_layers : (uint32_t)run->n_layers;
	stack.layer_bytes = calloc(stack.n_layers, sizeof(uint64_t));
	if (!stack.layer_bytes)
		return gm_error_no_memory(err);
	/* No sum overflows: that of all layers did not. */
	for (size_t i = run->first; i < run->end; i++)
		if (m->v[i].name.layer < stack.n_layers)
			stack.layer_bytes[m->v[i].name.layer] += m->v[i].bytes;
	*ret = stack;
	return 0;
}

int gm_stack_find(const char *what, const struct gm_tensors *tensors,
		  const struct gm_model_config *config,
		  struct gm_stack *ret_stack, struct gm_plan_error *ret_err)
{
	struct members m = { .what = what };
	struct run run = { 0 };
	int r;

	r = find_members(tensors, &m, ret_err);
	if (r == 0)
		r = choose_run(&m, config, &run, ret_err);
	if (r == 0)
		r = check_run(&m, config, &run, ret_err);
	if (r == 0)
		r = sum_layers(&m, &run, config, ret_stack, ret_err);
	free(m.v);
	return r;
}
