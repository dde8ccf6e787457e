/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* Print a plan as text or JSON, or the reason why there is none. */

#include <stdio.h>
#include <string.h>

#include "agent/ctl/fields.h"
#include "agent/ctl/plan.h"
#include "lib/model/plan/rule.h"
#include "shm/ops.h"

#define BAR_CELLS 24u

/* The parts of a charge, in the order in which a bar shows them. */
static const struct {
	char mark;
	size_t at;
} parts[] = {
	{ '#', offsetof(struct gpumap_charge, weight_bytes) },
	{ '=', offsetof(struct gpumap_charge, kv_bytes) },
	{ '+', offsetof(struct gpumap_charge, activation_bytes) },
	{ '-', offsetof(struct gpumap_charge, reserve_bytes) },
};

#define N_PARTS (sizeof(parts) / sizeof(parts[0]))

static uint64_t part_of(const struct gpumap_charge *c, size_t i)
{
	return *(const uint64_t *)(const void *)((const char *)c + parts[i].at);
}

static const struct gpumap_charge *charge_of(const struct gm_plan *plan,
					     uint32_t row)
{
	for (uint32_t i = 0; i < plan->n_charges; i++)
		if (plan->charges[i].row == row)
			return &plan->charges[i];
	return NULL;
}

/* Draw each part's share of the memory that the row had.  A part that is not
 * empty has at least one cell while cells are left. */
static void draw_bar(const struct gpumap_charge *c, uint64_t avail,
		     char bar[BAR_CELLS + 1])
{
	uint64_t sum = 0;
	uint32_t at = 0;

	memset(bar, '.', BAR_CELLS);
	bar[BAR_CELLS] = '\0';
	for (size_t i = 0; c != NULL && avail > 0 && i < N_PARTS; i++) {
		uint64_t bytes = part_of(c, i);
		uint32_t end;

		sum += bytes;
		end = (uint32_t)((double)sum / (double)avail * BAR_CELLS + 0.5);
		if (end <= at && bytes > 0)
			end = at + 1;
		while (at < end && at < BAR_CELLS)
			bar[at++] = parts[i].mark;
	}
}

/* Print "0-39", or "8 of them" if they are not contiguous, or "-". */
static const char *layers_text(const struct gm_plan *plan,
			       const struct gpumap_charge *c, char text[32])
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

static void row_line(const struct gm_ctl_planning *p, uint32_t i)
{
	const struct gm_plan_device *device = &p->node.devices[i];
	const struct gpumap_charge *c = charge_of(&p->plan, device->row);
	/* With nccl every rank holds weights of no layer. */
	bool has_other = p->q.ask.setting == GPUMAP_SETTING_NCCL
				 ? c != NULL
				 : device->row == p->plan.base_row;
	char bar[BAR_CELLS + 1], layers[32], name[32];
	bool is_shared = false;

	/* A host whose memory an integrated row uses is counted there. */
	for (uint32_t j = 0; device->is_host && j < p->node.n; j++)
		is_shared |=
			p->node.devices[j].is_integrated &&
			charge_of(&p->plan, p->node.devices[j].row) != NULL;
	snprintf(name, sizeof(name),
		 device->is_dummy ? "%.20s (dummy)" : "%.28s",
		 p->node.names[device->row]);
	printf("%3u%c %-28s %-10s", device->row, has_other ? '*' : ' ', name,
	       layers_text(&p->plan, c, layers));
	for (size_t part = 0; part < N_PARTS; part++)
		printf(" %8.2f",
		       c != NULL ? (double)part_of(c, part) / GM_CTL_GIB : 0.0);
	if (c == NULL && is_shared) {
		puts("            shared with an integrated row");
		return;
	}
	draw_bar(c, device->avail, bar);
	printf(" %9.2f  %s\n",
	       (double)(c != NULL ? c->left_bytes : device->avail) / GM_CTL_GIB,
	       bar);
}

static const char *next_line(const char *at)
{
	const char *end = strchr(at, '\n');

	return end != NULL ? end + 1 : NULL;
}

static void table(const struct gm_ctl_planning *p)
{
	const char *release = gm_rule_of(p->q.ask.engine)->release;
	const char *isq = gm_ctl_isq(p->isq);
	bool is_auto = p->q.ask.setting == GPUMAP_SETTING_AUTO;
	char size[32], kv[32];

	gm_ctl_print_plain(GM_TEXT(p->ctl, MODEL));
	printf(": %u layers, %s of %s%s%s%s%s\n", p->plan.n_layers,
	       gm_size_text(p->model.total_bytes, size),
	       gm_weights_type(p->model.type),
	       isq != NULL ? ", as if quantised to " : "",
	       isq != NULL ? isq : "", p->node.name[0] != '\0' ? ", on " : "",
	       p->node.name);
	printf("%s%s%s, %s, %llu tokens, batch %llu, %s of %sKV cache a "
	       "layer%s%s%s\n\n",
	       gm_ctl_setting(p->q.ask.setting), is_auto ? " by " : "",
	       is_auto ? gm_auto_strategy_name(p->q.ask.strategy) : "",
	       gm_ops_dtype_name(p->plan.compute_dtype),
	       (unsigned long long)p->q.ask.max_seq_len,
	       (unsigned long long)p->q.ask.max_batch_size,
	       gm_size_text(p->plan.kv_bytes, kv),
	       p->plan.is_paged ? "paged " : "",
	       p->model.n_caches > 1 && p->q.like == NULL ? ", the mean" : "",
	       release != NULL ? ", as kept by " : "",
	       release != NULL ? release : "");
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

/* A charge, and the row that has it. */
struct charged {
	struct gpumap_charge of;
	const char *name;
	bool is_dummy;
};

static const struct gm_ctl_field charge_fields[] = {
	GM_FIELD(charged, "row", of.row),
	GM_FIELD(charged, "name", name),
	GM_FIELD(charged, "dummy", is_dummy),
	GM_FIELD(charged, "n_layers", of.n_layers),
	GM_FIELD(charged, "weight_bytes", of.weight_bytes),
	GM_FIELD(charged, "kv_bytes", of.kv_bytes),
	GM_FIELD(charged, "activation_bytes", of.activation_bytes),
	GM_FIELD(charged, "reserve_bytes", of.reserve_bytes),
	GM_FIELD(charged, "left_bytes", of.left_bytes),
	{ 0 },
};

static json_t *charges(const struct gm_ctl *ctl, const void *planning)
{
	const struct gm_ctl_planning *p = planning;
	struct charged charged[GPUMAP_ROWS_MAX];

	for (uint32_t i = 0; i < p->plan.n_charges; i++) {
		uint32_t row = p->plan.charges[i].row, at = 0;

		while (at + 1 < p->node.n && p->node.devices[at].row != row)
			at++;
		charged[i] = (struct charged){ p->plan.charges[i],
					       p->node.names[row],
					       p->node.devices[at].is_dummy };
	}
	return gm_ctl_fields_array(ctl, charge_fields, charged,
				   p->plan.n_charges, sizeof(charged[0]));
}

/* [[row, number of layers], ...] */
static json_t *layers(const struct gm_ctl *ctl, const void *planning)
{
	const struct gm_plan *plan =
		&((const struct gm_ctl_planning *)planning)->plan;
	json_t *list = json_array();
	uint32_t n;

	for (uint32_t i = 0; i < plan->n_layers; i += n) {
		for (n = 1; i + n < plan->n_layers; n++)
			if (plan->rows[i + n] != plan->rows[i])
				break;
		json_array_append_new(list, json_pack("[I, I]",
						      (json_int_t)plan->rows[i],
						      (json_int_t)n));
	}
	return list;
}

static json_t *warnings(const struct gm_ctl *ctl, const void *planning)
{
	const struct gm_ctl_planning *p = planning;
	json_t *list = json_array();

	for (const char *at = p->plan.warnings; at; at = next_line(at))
		json_array_append_new(list,
				      json_stringn(at, strcspn(at, "\n")));
	return list;
}

static void strategy(const struct gm_ctl *ctl, const void *planning,
		     char ret_text[GM_CTL_CELL])
{
	const struct gpumap_plan_request *ask =
		&((const struct gm_ctl_planning *)planning)->q.ask;

	if (ask->setting == GPUMAP_SETTING_AUTO)
		strcpy(ret_text, gm_auto_strategy_name(ask->strategy));
}

static json_t *committed(const struct gm_ctl *ctl, const void *planning)
{
	const struct gm_ctl_planning *p = planning;

	return gm_ctl_text_json(p->version != 0 ? GM_TEXT(ctl, COMMIT) : NULL);
}

const char *gm_ctl_isq(uint32_t isq)
{
	return isq != GM_ISQ_N ? gm_isq_name((enum gm_isq)isq) : NULL;
}

static const char *release_of(uint32_t engine)
{
	return gm_rule_of(engine)->release;
}

#define PLAN(name, member, ...) \
	GM_FIELD(gm_ctl_planning, name, member, __VA_ARGS__)

static const struct gm_ctl_field cache_fields[] = {
	GM_MEMBERS(gpumap_layer_cache, n_layers),
	GM_FIELD(gpumap_layer_cache, "n_heads", n_heads, .as = GM_AS_OR_NULL),
	GM_FIELD(gpumap_layer_cache, "window", window, .as = GM_AS_OR_NULL),
	GM_MEMBERS(gpumap_layer_cache, token_elements, conv_elements,
		   state_elements),
	{ 0 },
};

static const struct gm_ctl_field plan_fields[] = {
	PLAN("node", node.name, .as = GM_AS_OR_NULL),
	PLAN("setting", q.ask.setting, .word = gm_ctl_setting),
	PLAN("strategy", q.ask.strategy, .text = strategy),
	PLAN("stored_dtype", model.type, .word = gm_weights_type),
	PLAN("isq", isq, .word = gm_ctl_isq),
	PLAN("dtype", plan.compute_dtype, .word = gm_ops_dtype_name),
	PLAN("n_layers", plan.n_layers),
	PLAN("model_bytes", model.total_bytes),
	PLAN("max_seq_len", q.ask.max_seq_len),
	PLAN("max_batch_size", q.ask.max_batch_size),
	PLAN("kv_bytes", plan.kv_bytes),
	PLAN("engine", q.ask.engine, .word = release_of),
	PLAN("paged", plan.is_paged),
	PLAN("base_row", plan.base_row),
	GM_FIELD_TEXT(gm_ctl_planning, "spec", plan.spec),
	PLAN("layers", plan, .json = layers),
	GM_FIELD_ITEMS(gm_ctl_planning, "caches", model.caches, model.n_caches,
		       cache_fields),
	PLAN("charges", plan, .json = charges),
	PLAN("warnings", plan, .json = warnings),
	PLAN("committed", version, .json = committed),
	PLAN("version", version, .as = GM_AS_OR_NULL),
	{ 0 },
};

void gm_ctl_plan_show(const struct gm_ctl_planning *p)
{
	if (p->ctl->json)
		gm_ctl_print(gm_ctl_fields_json(
			p->ctl, plan_fields, p,
			json_pack("{s:o}", "model",
				  gm_ctl_text_json(GM_TEXT(p->ctl, MODEL)))));
	else
		table(p);
}

/* ---- refused ------------------------------------------------------------- */

#define ADVICE(member, ...)                       \
	GM_FIELD(gm_plan_advice, #member, member, \
		 .as = GM_AS_OR_NULL __VA_OPT__(, ) __VA_ARGS__)

static const struct gm_ctl_field advice_fields[] = {
	ADVICE(missing_bytes),
	GM_FIELD_IF(gm_plan_advice, "missing_row", missing_row, missing_bytes),
	ADVICE(more_rows),
	GM_FIELD_KNOWN(gm_plan_advice, "like_row", like_row, more_rows,
		       UINT32_MAX),
	ADVICE(max_seq_len),
	ADVICE(max_batch_size),
	GM_FIELD(gm_plan_advice, "isq", isq, .word = gm_ctl_isq),
	{ 0 },
};

/* Print the changes that would suffice, on one line: any one of them does. */
static void print_advice(const struct gm_ctl_planning *p,
			 const struct gm_plan_advice *a)
{
	const char *between = "; it would fit with ";
	const struct gm_plan_device *d = p->node.devices;
	uint64_t more = a->missing_bytes;
	char size[32];

	while (more > 0 && d->row != a->missing_row)
		d++;
	/* Can the row have that much: are there bytes that others use now, or
	 * is it a host? */
	if (more > 0 && (a->more_rows == 0 || d->is_host ||
			 (more <= d->total && d->avail <= d->total - more))) {
		fprintf(stderr, "%s%s more on row %u", between,
			gm_size_text(more, size), a->missing_row);
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

_Noreturn void gm_ctl_plan_refused(const struct gm_ctl_planning *p,
				   const struct gm_plan_error *error,
				   const struct gm_plan_advice *advice)
{
	static const char no_row[] = "Could not find row ";

	/* A row that a node file does not have: the agent's rows are others. */
	if (advice == NULL && GM_TEXT(p->ctl, NODE) != NULL &&
	    p->ctl->n_rows == 0 &&
	    strncmp(error->text, no_row, strlen(no_row)) == 0)
		gm_ctl_failed("%s; %s has rows 0 to %u", error->text,
			      GM_TEXT(p->ctl, NODE), p->node.n - 1);
	if (advice == NULL)
		gm_ctl_plan_error(error);
	if (p->ctl->json) {
		gm_ctl_print(gm_ctl_fields_json(p->ctl, advice_fields, advice,
						json_pack("{s:s, s:s}", "error",
							  error->text, "remedy",
							  error->remedy)));
		gm_ctl_exit(GM_EXIT_FAILED);
	}
	fprintf(stderr, "gpumapctl: %s", error->text);
	print_advice(p, advice);
	fputc('\n', stderr);
	gm_ctl_exit(GM_EXIT_FAILED);
}
