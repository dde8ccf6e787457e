/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* Print a plan as text or JSON, or the reason why there is none. */

#include <stdio.h>
#include <string.h>

#include "agent/ctl/plan.h"
#include "lib/model/plan/rule.h"
#include "shm/ops.h"

#define GIB       1073741824.0
#define BAR_CELLS 24u

/* The parts of a charge, in the order in which a bar shows them. */
enum part { WEIGHTS, KV, ACTIVATIONS, KEPT_BACK, N_PARTS };

static const char part_marks[N_PARTS] = { '#', '=', '+', '-' };

static uint64_t part_of(const struct gpumap_plan_charge *c, enum part part)
{
	switch (part) {
	case WEIGHTS:
		return c->weight_bytes;
	case KV:
		return c->kv_bytes;
	case ACTIVATIONS:
		return c->activation_bytes;
	default:
		return c->reserve_bytes;
	}
}

static const struct gpumap_plan_charge *charge_of(const struct gm_plan *plan,
						  uint32_t row)
{
	for (uint32_t i = 0; i < plan->n_charges; i++)
		if (plan->charges[i].row == row)
			return &plan->charges[i];
	return NULL;
}

/* Draw each part's share of the memory that the row had.  A part that is not
 * empty has at least one cell while cells are left. */
static void draw_bar(const struct gpumap_plan_charge *c, uint64_t avail,
		     char bar[BAR_CELLS + 1])
{
	uint64_t sum = 0;
	uint32_t at = 0;

	memset(bar, '.', BAR_CELLS);
	bar[BAR_CELLS] = '\0';
	for (uint32_t i = 0; c != NULL && avail > 0 && i < N_PARTS; i++) {
		uint64_t bytes = part_of(c, (enum part)i);
		uint32_t end;

		sum += bytes;
		end = (uint32_t)((double)sum / (double)avail * BAR_CELLS + 0.5);
		if (end <= at && bytes > 0)
			end = at + 1;
		while (at < end && at < BAR_CELLS)
			bar[at++] = part_marks[i];
	}
}

/* Print "0-39", or "8 of them" if they are not contiguous, or "-". */
static const char *layers_text(const struct gm_plan *plan,
			       const struct gpumap_plan_charge *c,
			       char text[32])
{
	uint32_t first = 0, end;

	if (c == NULL || c->n_layers == 0)
		return strcpy(text, "-");
	if (c->n_layers == plan->n_layers) {
		snprintf(text, 32, "0-%u", plan->n_layers - 1);
		return text;
	}
	while (plan->rows[first] != c->row)
		first++;
	end = first;
	while (end < plan->n_layers && plan->rows[end] == c->row)
		end++;
	if (end - first != c->n_layers)
		snprintf(text, 32, "%u of them", c->n_layers);
	else if (c->n_layers == 1)
		snprintf(text, 32, "%u", first);
	else
		snprintf(text, 32, "%u-%u", first, end - 1);
	return text;
}

/* Is this a host whose memory an integrated row uses?  The memory is counted
 * there. */
static bool is_shared(const struct gm_ctl_planning *p, uint32_t i)
{
	for (uint32_t j = 0; j < p->node.n; j++)
		if (p->node.devices[j].is_integrated &&
		    charge_of(&p->plan, p->node.devices[j].row) != NULL)
			return p->node.devices[i].is_host;
	return false;
}

/* Does the row hold weights of no layer?  With nccl every rank does. */
static bool has_other(const struct gm_ctl_planning *p, uint32_t row)
{
	if (p->q.ask.setting == GPUMAP_SETTING_NCCL)
		return charge_of(&p->plan, row) != NULL;
	return row == p->plan.base_row;
}

/* The row's name, marked if the row is a dummy. */
static const char *name_text(const struct gm_ctl_planning *p,
			     const struct gm_plan_device *device, char text[32])
{
	snprintf(text, 32, device->is_dummy ? "%.20s (dummy)" : "%.28s",
		 p->node.names[device->row]);
	return text;
}

static void row_line(const struct gm_ctl_planning *p, uint32_t i)
{
	const struct gm_plan_device *device = &p->node.devices[i];
	const struct gpumap_plan_charge *c = charge_of(&p->plan, device->row);
	char bar[BAR_CELLS + 1], layers[32], name[32];

	printf("%3u%c %-28s %-10s", device->row,
	       has_other(p, device->row) ? '*' : ' ',
	       name_text(p, device, name), layers_text(&p->plan, c, layers));
	for (uint32_t part = 0; part < N_PARTS; part++)
		printf(" %8.2f",
		       c != NULL ? (double)part_of(c, (enum part)part) / GIB
				 : 0.0);
	if (c == NULL && is_shared(p, i)) {
		puts("            shared with an integrated row");
		return;
	}
	draw_bar(c, device->avail, bar);
	printf(" %9.2f  %s\n",
	       (double)(c != NULL ? c->left_bytes : device->avail) / GIB, bar);
}

static void head_lines(const struct gm_ctl_planning *p)
{
	const char *release = gm_rule_of(p->q.ask.engine)->release;
	char size[32], kv[32];

	gm_ctl_print_plain(GM_TEXT(p->ctl, MODEL));
	printf(": %u layers, %s of %s%s%s%s%s\n", p->plan.n_layers,
	       gm_size_text(p->model.total_bytes, size),
	       gm_weights_type(p->model.type),
	       p->isq != GM_ISQ_N ? ", as if quantised to " : "",
	       p->isq != GM_ISQ_N ? gm_isq_name(p->isq) : "",
	       p->node.name[0] != '\0' ? ", on " : "", p->node.name);
	printf("%s%s%s, %s, %llu tokens, batch %llu, %s of %sKV cache a "
	       "layer%s%s%s\n\n",
	       gm_ctl_setting(p->q.ask.setting),
	       p->q.ask.setting == GPUMAP_SETTING_AUTO ? " by " : "",
	       p->q.ask.setting == GPUMAP_SETTING_AUTO
		       ? gm_auto_strategy_name(p->q.ask.strategy)
		       : "",
	       gm_ops_dtype_name(p->plan.compute_dtype),
	       (unsigned long long)p->q.ask.max_seq_len,
	       (unsigned long long)p->q.ask.max_batch_size,
	       gm_size_text(p->plan.kv_bytes, kv),
	       p->plan.is_paged ? "paged " : "",
	       p->model.n_caches > 1 && p->q.like == NULL ? ", the mean" : "",
	       release != NULL ? ", as kept by " : "",
	       release != NULL ? release : "");
}

static const char *next_line(const char *at)
{
	const char *end = strchr(at, '\n');

	return end != NULL ? end + 1 : NULL;
}

static void table(const struct gm_ctl_planning *p)
{
	head_lines(p);
	printf("row  %-28s %-10s %8s %8s %8s %8s %9s\n", "GiB", "layers",
	       "weights", "KV", "act.", "kept", "left");
	for (uint32_t i = 0; i < p->node.n; i++)
		row_line(p, i);
	printf("\n  * also what is no layer's   # weights  = KV cache  "
	       "+ activations  - kept back\n");
	if (p->plan.spec != NULL)
		printf("  spec %s\n", p->plan.spec);
	for (const char *at = p->plan.warnings; at; at = next_line(at))
		printf("  warning: %.*s\n", (int)strcspn(at, "\n"), at);
	if (p->version != 0)
		printf("  committed as %s, version %llu\n",
		       GM_TEXT(p->ctl, COMMIT), (unsigned long long)p->version);
}

/* ---- JSON ---------------------------------------------------------------- */

static json_t *whole(uint64_t value)
{
	return json_integer((json_int_t)value);
}

static json_t *layers_json(const struct gm_plan *plan)
{
	json_t *layers = json_array();
	uint32_t n;

	for (uint32_t i = 0; i < plan->n_layers; i += n) {
		for (n = 1; i + n < plan->n_layers; n++)
			if (plan->rows[i + n] != plan->rows[i])
				break;
		json_array_append_new(layers,
				      json_pack("[o, o]", whole(plan->rows[i]),
						whole(n)));
	}
	return layers;
}

static json_t *caches_json(const struct gm_ctl_planning *p)
{
	json_t *caches = json_array();

	for (uint32_t i = 0; i < p->model.n_caches; i++) {
		const struct gpumap_layer_cache *c = &p->model.caches[i];

		json_array_append_new(
			caches,
			json_pack("{s:o, s:o, s:o, s:o, s:o, s:o}", "n_layers",
				  whole(c->n_layers), "n_heads",
				  c->n_heads > 0 ? whole(c->n_heads)
						 : json_null(),
				  "window",
				  c->window > 0 ? whole(c->window)
						: json_null(),
				  "token_elements", whole(c->token_elements),
				  "conv_elements", whole(c->conv_elements),
				  "state_elements", whole(c->state_elements)));
	}
	return caches;
}

static json_t *charges_json(const struct gm_ctl_planning *p)
{
	json_t *charges = json_array();

	for (uint32_t i = 0; i < p->plan.n_charges; i++) {
		const struct gpumap_plan_charge *c = &p->plan.charges[i];
		uint32_t at = 0;

		while (at + 1 < p->node.n && p->node.devices[at].row != c->row)
			at++;
		json_array_append_new(
			charges,
			json_pack("{s:o, s:s, s:b, s:o, s:o, s:o, s:o, s:o, "
				  "s:o}",
				  "row", whole(c->row), "name",
				  p->node.names[c->row], "dummy",
				  p->node.devices[at].is_dummy, "n_layers",
				  whole(c->n_layers), "weight_bytes",
				  whole(c->weight_bytes), "kv_bytes",
				  whole(c->kv_bytes), "activation_bytes",
				  whole(c->activation_bytes), "reserve_bytes",
				  whole(c->reserve_bytes), "left_bytes",
				  whole(c->left_bytes)));
	}
	return charges;
}

static json_t *warnings_json(const struct gm_plan *plan)
{
	json_t *warnings = json_array();

	for (const char *at = plan->warnings; at; at = next_line(at))
		json_array_append_new(warnings,
				      json_stringn(at, strcspn(at, "\n")));
	return warnings;
}

static int print_json(const struct gm_ctl_planning *p)
{
	const struct gm_plan_request *q = &p->q;
	bool is_auto = q->ask.setting == GPUMAP_SETTING_AUTO;

	return gm_ctl_print(json_pack(
		"{s:o, s:s?, s:s, s:s?, s:s, s:s?, s:s, s:o, s:o, s:o, s:o, "
		"s:o, "
		"s:s?, s:b, s:o, s:s?, s:o, s:o, s:o, s:o, s:s?, s:o}",
		"model", gm_ctl_text_json(GM_TEXT(p->ctl, MODEL)), "node",
		p->node.name[0] != '\0' ? p->node.name : NULL, "setting",
		gm_ctl_setting(q->ask.setting), "strategy",
		is_auto ? gm_auto_strategy_name(q->ask.strategy) : NULL,
		"stored_dtype", gm_weights_type(p->model.type), "isq",
		p->isq != GM_ISQ_N ? gm_isq_name(p->isq) : NULL, "dtype",
		gm_ops_dtype_name(p->plan.compute_dtype), "n_layers",
		whole(p->plan.n_layers), "model_bytes",
		whole(p->model.total_bytes), "max_seq_len",
		whole(q->ask.max_seq_len), "max_batch_size",
		whole(q->ask.max_batch_size), "kv_bytes",
		whole(p->plan.kv_bytes), "engine",
		gm_rule_of(q->ask.engine)->release, "paged", p->plan.is_paged,
		"base_row", whole(p->plan.base_row), "spec", p->plan.spec,
		"layers", layers_json(&p->plan), "caches", caches_json(p),
		"charges", charges_json(p), "warnings", warnings_json(&p->plan),
		"committed", p->version != 0 ? GM_TEXT(p->ctl, COMMIT) : NULL,
		"version", p->version != 0 ? whole(p->version) : json_null()));
}

int gm_ctl_plan_show(const struct gm_ctl_planning *p)
{
	if (p->ctl->json)
		return print_json(p);
	table(p);
	return GM_EXIT_OK;
}

/* ---- refused ------------------------------------------------------------- */

static json_t *or_null(uint64_t value, bool known)
{
	return known ? whole(value) : json_null();
}

static int refused_json(const struct gm_plan_error *error,
			const struct gm_plan_advice *a)
{
	bool more = a->missing_bytes > 0;
	int ret = gm_ctl_print(json_pack(
		"{s:s, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:s?}", "error",
		error->text, "remedy", error->remedy, "missing_bytes",
		or_null(a->missing_bytes, more), "missing_row",
		or_null(a->missing_row, more), "more_rows",
		or_null(a->more_rows, a->more_rows > 0), "like_row",
		or_null(a->like_row, a->more_rows > 0), "max_seq_len",
		or_null(a->max_seq_len, a->max_seq_len > 0), "max_batch_size",
		or_null(a->max_batch_size, a->max_batch_size > 0), "isq",
		a->isq != GM_ISQ_N ? gm_isq_name(a->isq) : NULL));

	return ret == GM_EXIT_OK ? GM_EXIT_FAILED : ret;
}

/* Can the row have that much more: are there bytes that others use now, or is
 * it a host? */
static bool can_have(const struct gm_ctl_planning *p, uint32_t row,
		     uint64_t more)
{
	const struct gm_plan_device *device = p->node.devices;

	while (device->row != row)
		device++;
	return device->is_host ||
	       (more <= device->total && device->avail <= device->total - more);
}

/* Print the changes that would suffice, on one line: any one of them does. */
static void print_advice(const struct gm_ctl_planning *p,
			 const struct gm_plan_advice *a)
{
	const char *between = "; it would fit with ";
	char size[32];

	if (a->missing_bytes > 0 &&
	    (can_have(p, a->missing_row, a->missing_bytes) ||
	     a->more_rows == 0)) {
		fprintf(stderr, "%s%s more on row %u", between,
			gm_size_text(a->missing_bytes, size), a->missing_row);
		between = ", or ";
	}
	if (a->more_rows > 0) {
		fprintf(stderr, "%s%u more row%s like row %u", between,
			a->more_rows, a->more_rows > 1 ? "s" : "", a->like_row);
		between = ", or ";
	}
	if (a->max_seq_len > 0) {
		fprintf(stderr, "%s--max-seq-len %llu", between,
			(unsigned long long)a->max_seq_len);
		between = ", or ";
	}
	if (a->max_batch_size > 0) {
		fprintf(stderr, "%s--max-batch %llu", between,
			(unsigned long long)a->max_batch_size);
		between = ", or ";
	}
	if (a->isq != GM_ISQ_N) {
		fprintf(stderr, "%sweights quantised to %s (--isq %s)", between,
			gm_isq_name(a->isq), gm_isq_name(a->isq));
		between = ", or ";
	}
	if (between[0] == ';')
		fputs("; no more memory on one row, shorter sequences, smaller "
		      "batch or quantisation alone would do",
		      stderr);
}

/* A row that a node file does not have: the agent's rows are others. */
static int no_row_of_file(const struct gm_ctl_planning *p,
			  const struct gm_plan_error *error)
{
	fprintf(stderr, "gpumapctl: %s; %s has rows 0 to %u\n", error->text,
		GM_TEXT(p->ctl, NODE), p->node.n - 1);
	return GM_EXIT_FAILED;
}

int gm_ctl_plan_refused(const struct gm_ctl_planning *p,
			const struct gm_plan_error *error,
			const struct gm_plan_advice *advice)
{
	static const char no_row[] = "Could not find row ";

	if (advice == NULL && GM_TEXT(p->ctl, NODE) != NULL &&
	    p->ctl->n_rows == 0 &&
	    strncmp(error->text, no_row, strlen(no_row)) == 0)
		return no_row_of_file(p, error);
	if (advice == NULL)
		return gm_ctl_plan_error(error);
	if (p->ctl->json)
		return refused_json(error, advice);
	fprintf(stderr, "gpumapctl: %s", error->text);
	print_advice(p, advice);
	fputc('\n', stderr);
	return GM_EXIT_FAILED;
}
