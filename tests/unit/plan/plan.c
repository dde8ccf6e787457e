/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* plan: every setting's rows and charges, the type, and advice that holds. */

#include <errno.h>
#include <string.h>

#include "agent/files/topology_file.h"
#include "lib/model/plan/plan.h"
#include "shm/ops.h"
#include "tests/support/dice.h"
#include "tests/support/layer_caches.h"
#include "tests/support/tap.h"

#define MIB      (UINT64_C(1) << 20)
#define GIB      (UINT64_C(1) << 30)
#define LAYERS   16u
#define MOST     6u

#define MANUAL   GPUMAP_SETTING_MANUAL
#define AUTO     GPUMAP_SETTING_AUTO
#define TOPOLOGY GPUMAP_SETTING_TOPOLOGY
#define DUMMY    GPUMAP_SETTING_DUMMY
#define NCCL     GPUMAP_SETTING_NCCL
#define PIPELINE GPUMAP_SETTING_PIPELINE
#define FIRST    GM_ROW_FIRST
#define ALL      3, false
#define CHOSEN   3, true
#define CUDA                                                               \
	"ISQ type on CUDA must be one of `Q4_0`, `Q4_1`, `Q5_0`, `Q5_1`, " \
	"`Q8_0`, `Q2K`, `Q3K`, `Q4K`, `Q5K`, `Q6K`, `HQQ8`, `HQQ4`, "      \
	"`FP8`, `AFQ8`, `AFQ6`, `AFQ4`, `AFQ3`, `AFQ2`, `F8Q8`, `MXFP4`"

struct scene {
	struct gm_plan_device devices[MOST];
	uint64_t layers[LAYERS];
	struct gpumap_layer_cache caches[LAYERS];
	struct gm_plan_request q;
	struct gm_plan_error err;
};

static struct gm_plan_device card(uint32_t row, int ordinal, uint64_t avail)
{
	return (struct gm_plan_device){
		.row = row,
		.is_cuda = true,
		.cc_major = 8,
		.avail = avail,
		.total = avail,
		.speed = gm_plan_speed(false, 100, avail, 8),
		.at = { GM_LOCATION_CUDA, (uint64_t)ordinal },
	};
}

static struct gm_plan_device host(uint32_t row, uint64_t avail)
{
	return (struct gm_plan_device){
		.row = row,
		.is_host = true,
		.avail = avail,
		.total = avail,
		.speed = gm_plan_speed(true, 16, avail, 0),
	};
}

/* 16 layers of 1 GiB, 1 GiB more; a host on row 0, cards on rows 3 and 5. */
static void set_scene(struct scene *s, uint32_t setting, const char *text)
{
	memset(s, 0, sizeof(*s));
	for (uint32_t i = 0; i < LAYERS; i++)
		s->layers[i] = GIB;
	s->devices[0] = host(0, 64 * GIB);
	s->devices[1] = card(3, 0, 24 * GIB);
	s->devices[2] = card(5, 1, 12 * GIB);
	s->q = (struct gm_plan_request){
		.devices = s->devices,
		.n_devices = 3,
		.ask = { .setting = setting,
			 .text = text,
			 .n_layers = LAYERS,
			 .layer_bytes = s->layers,
			 .other_bytes = GIB,
			 .n_heads = 8,
			 .caches = fill_caches(s->caches, LAYERS, 8, 128),
			 .n_caches = LAYERS },
		.weight_bytes = 2,
		.must_fit = true,
	};
}

static void set_base(struct scene *s, uint32_t row)
{
	s->q.ask.flags |= row != GM_ROW_FIRST ? GPUMAP_PLAN_BASE : 0;
	s->q.ask.base_row = row;
}

/* Read a topology first, as callers do. */
static int make(struct scene *s, struct gm_plan *plan)
{
	const char *text = s->q.ask.text;
	struct gm_topology topology = { 0 };
	int r = 0;

	if (s->q.ask.setting == TOPOLOGY && text) {
		r = gm_topology_file_parse(text, strlen(text), &topology,
					   &s->err);
		s->q.topology = &topology;
	}
	if (r == 0)
		r = gm_plan_make(&s->q, plan, NULL, &s->err);
	gm_topology_free(&topology);
	s->q.topology = NULL;
	return r;
}

/* "3:16@3" with the base row after the @; or why there is none. */
static const char *show(struct scene *s)
{
	static char text[512];
	struct gm_plan plan;
	char *at = text;
	uint32_t n;

	if (make(s, &plan))
		return s->err.text;
	for (uint32_t i = 0; i < plan.n_layers; i += n) {
		for (n = 1; i + n < plan.n_layers; n++)
			if (plan.rows[i + n] != plan.rows[i])
				break;
		at += sprintf(at, "%s%" PRIu32 ":%" PRIu32, i ? ";" : "",
			      plan.rows[i], n);
	}
	sprintf(at, "@%" PRIu32, plan.base_row);
	gm_plan_free(&plan);
	return text;
}

static void settings_have_their_rows_or_say_what_is_wrong(void)
{
	static const struct {
		uint32_t setting;
		const char *text, *weights;
		uint32_t base;
		uint32_t n_devices; /* 3, or 1: the host */
		bool is_chosen;
		int code;
		const char *want;
	} cases[] = {
		{ MANUAL, "3:10;5:6", 0, FIRST, ALL, 0, "3:10;5:6@3" },
		{ MANUAL, "5:4", 0, FIRST, ALL, 0, "5:4;0:12@5" },
		{ MANUAL, "3:16", 0, 0, ALL, 0, "3:16@0" },
		{ AUTO, 0, 0, FIRST, ALL, 0, "3:16@3" },
		{ DUMMY, 0, 0, FIRST, ALL, 0, "3:16@3" },
		{ DUMMY, 0, 0, 0, ALL, 0, "0:16@0" },
		{ NCCL, 0, 0, FIRST, ALL, 0, "3:16@3" },
		{ NCCL, 0, 0, 5, ALL, 0, "5:16@5" },
		{ PIPELINE, 0, 0, FIRST, ALL, 0, "3:8;5:8@3" },
		{ PIPELINE, "10,6", 0, FIRST, ALL, 0, "3:10;5:6@3" },
		{ PIPELINE, "16,0", 0, 5, ALL, 0, "3:16@5" },
		{ TOPOLOGY, "0-2: {device: 'cuda[1]'}", 0, FIRST, ALL, 0,
		  "5:2;3:14@3" },
		{ TOPOLOGY, "0-8: {device: cpu}\n8-12: {device: 'cuda[1]'}", 0,
		  3, ALL, 0, "0:8;5:4;3:4@3" },
		{ TOPOLOGY, "0-8: {isq: Q4K}", 0, FIRST, ALL, 0, "3:16@3" },
		/* Types that CUDA lacks stay off its rows. */
		{ TOPOLOGY, "0-8: {isq: Q8_1}", 0, FIRST, ALL, -EINVAL, CUDA },
		{ TOPOLOGY, "0-8: {isq: Q8K, device: 'cuda[0]'}", 0, FIRST, ALL,
		  -EINVAL, CUDA },
		{ TOPOLOGY, "0-8: {isq: Q8K}\n8: {device: cpu}", 0, FIRST, ALL,
		  -EINVAL, CUDA },
		{ TOPOLOGY, "0-8: {isq: Q8K, device: cpu}", 0, FIRST, ALL, 0,
		  "0:8;3:8@3" },
		{ TOPOLOGY, "0-8: {isq: Q8_1}", 0, FIRST, 1, 0, 0, "0:16@0" },
		/* Ranks are hosts only where they are chosen. */
		{ PIPELINE, "4,8,4", 0, FIRST, ALL, -EINVAL,
		  "RING_LAYER_SPLIT has 3 entries but world_size is 2" },
		{ PIPELINE, "4,8,4", 0, FIRST, CHOSEN, 0, "0:4;3:8;5:4@0" },
		{ PIPELINE, 0, "24,12", FIRST, ALL, 0, "3:11;5:5@3" },
		{ PIPELINE, 0, 0, FIRST, 1, 0, 0, "0:16@0" },
		{ NCCL, 0, 0, FIRST, CHOSEN, -EINVAL,
		  "Tensor parallelism needs a power of 2 of rows, not 3" },
		{ MANUAL, "3:17", 0, FIRST, ALL, -EINVAL,
		  "The map places 17 layers but the model has 16" },
		{ MANUAL, "4:16", 0, FIRST, ALL, -ENODEV,
		  "Could not find row 4: the rows are 0, 3, 5" },
		{ MANUAL, 0, 0, FIRST, ALL, -EINVAL,
		  "An automatic map has no rows yet" },
		{ AUTO, 0, 0, 3, ALL, -EINVAL,
		  "An automatic map chooses its base row" },
		{ DUMMY, 0, 0, 4, ALL, -ENODEV, "Could not find row 4" },
		{ NCCL, 0, 0, 0, ALL, -ENODEV, "Row 0 is none of the ranks" },
		{ TOPOLOGY, 0, 0, FIRST, ALL, -EINVAL,
		  "A topology without a text" },
		{ TOPOLOGY, "0-17: {device: cpu}", 0, FIRST, ALL, -EINVAL,
		  "A topology range ends at layer 17 but the model has 16" },
		{ TOPOLOGY, "0-2: {device: 'cuda[2]'}", 0, FIRST, ALL, -ENODEV,
		  "Could not find cuda device with ordinal 2" },
		{ 0, 0, 0, FIRST, ALL, -EINVAL, "0 is no setting" },
		{ DUMMY, 0, 0, FIRST, 0, 0, -ENODEV,
		  "There are no rows to plan on" },
	};
	struct scene s;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		set_scene(&s, cases[i].setting, cases[i].text);
		set_base(&s, cases[i].base);
		s.q.ask.weights = cases[i].weights;
		s.q.n_devices = cases[i].n_devices;
		s.q.ask.n_rows = cases[i].is_chosen;
		STR(show(&s), cases[i].want);
		EQ(s.err.code, cases[i].code);
	}
	set_scene(&s, DUMMY, NULL);
	s.q.ask.n_layers = 0;
	STR(show(&s), "The model has no layers");
	set_scene(&s, AUTO, NULL);
	s.q.ask.layer_bytes = NULL;
	STR(show(&s), "An automatic map needs the bytes of each layer");
	/* A cpu that is not there is found last. */
	set_scene(&s, TOPOLOGY, "0-2: {device: cpu}");
	s.devices[0] = s.devices[1];
	s.q.n_devices = 1;
	STR(show(&s), "The topology names the cpu, and there is no host row");
}

/* ---- charges ------------------------------------------------------------- */

/* "5:4 4096+64+16+512, 11000 left" for each row, in MiB. */
static const char *show_charges(const struct gm_plan *plan)
{
	static char text[512];
	char *at = text;

	for (uint32_t i = 0; i < plan->n_charges; i++) {
		const struct gpumap_charge *c = &plan->charges[i];

		at += sprintf(at,
			      "%s%" PRIu32 ":%" PRIu32 " %" PRIu64 "+%" PRIu64
			      "+%" PRIu64 "+%" PRIu64 ", %" PRIu64 " left",
			      i ? "; " : "", c->row, c->n_layers,
			      c->weight_bytes / MIB, c->kv_bytes / MIB,
			      c->activation_bytes / MIB, c->reserve_bytes / MIB,
			      c->left_bytes / MIB);
	}
	return text;
}

static void charges_have_every_part(void)
{
	struct gm_plan plan = { 0 };
	struct scene s;

	/* A layer's cache: 4096 tokens, 8 heads of 128 + 128, two bytes.
	 * Activations: 8 heads of 1024^2.  The base row holds no layer: it
	 * comes last. */
	set_scene(&s, MANUAL, "5:4;3:12");
	set_base(&s, 0);
	EQ(gm_plan_make(&s.q, &plan, NULL, &s.err), 0);
	STR(show_charges(&plan), "5:4 4096+64+16+512, 7600 left; "
				 "3:12 12288+192+16+512, 11568 left; "
				 "0:0 1024+0+0+0, 64512 left");
	EQ(plan.kv_bytes, 16 * MIB);
	EQ(gm_plan_charge_bytes(&plan.charges[2]), GIB);
	STR(plan.spec, "5:4;3:12");
	STR(plan.warnings, NULL);
	gm_plan_free(&plan);

	/* A tied embedding is on the last layer's row again. */
	s.q.ask.tied_bytes = 256 * MIB;
	EQ(gm_plan_make(&s.q, &plan, NULL, &s.err), 0);
	STR(show_charges(&plan), "5:4 4096+64+16+512, 7600 left; "
				 "3:12 12544+192+16+512, 11312 left; "
				 "0:0 1024+0+0+0, 64512 left");
	gm_plan_free(&plan);
	s.q.ask.text = "3:12;5:4";
	set_base(&s, 5);
	EQ(gm_plan_make(&s.q, &plan, NULL, &s.err), 0);
	STR(show_charges(&plan), "3:12 12288+192+16+512, 11568 left; "
				 "5:4 5120+64+16+512, 6576 left");
	gm_plan_free(&plan);

	/* Ranks of nccl are charged their part, 4 of 7 heads and a half of each
	 * layer, and all weights of no layer. */
	set_scene(&s, NCCL, NULL);
	s.q.ask.n_heads = 7;
	fill_caches(s.caches, LAYERS, 7, 128);
	s.layers[0] += 2 * MIB;
	EQ(gm_plan_make(&s.q, &plan, NULL, &s.err), 0);
	STR(show_charges(&plan), "3:16 9217+128+8+512, 14711 left; "
				 "5:16 9217+128+8+512, 2423 left");
	STR(plan.warnings,
	    "The model's 7 attention heads are not to be divided by 2 tensor "
	    "parallel ranks: engines refuse that; take 1");
	gm_plan_free(&plan);
	/* A head of keys and values may be that of several ranks. */
	s.q.ask.n_heads = 8;
	fill_caches(s.caches, LAYERS, 1, 128);
	EQ(gm_plan_make(&s.q, &plan, NULL, &s.err), 0);
	STR(plan.warnings, NULL);
	gm_plan_free(&plan);
	fill_caches(s.caches, LAYERS, 3, 128);
	EQ(gm_plan_make(&s.q, &plan, NULL, &s.err), 0);
	STR(plan.warnings,
	    "The model's 3 heads of keys and values are not to be divided by 2 "
	    "tensor parallel ranks: engines refuse that; take 1");
	gm_plan_free(&plan);
	s.q.ask.n_heads = 7;
	s.layers[0]++;
	EQ(gm_plan_make(&s.q, &plan, NULL, &s.err), 0);
	EQ(plan.charges[0].weight_bytes, 9217 * MIB + 1);
	gm_plan_free(&plan);
}

static void what_does_not_fit_says_where(void)
{
	struct gm_plan_advice advice = { 0 };
	struct gm_plan plan = { 0 };
	struct scene s;

	set_scene(&s, MANUAL, "5:12;3:4");
	EQ(gm_plan_make(&s.q, &plan, &advice, &s.err), -ENOSPC);
	STR(s.err.text, "Row 5 lacks 1.7 GiB: 13.0 GiB for weights, 192 MiB "
			"for the KV cache, 16.0 MiB for activations, 512 MiB "
			"kept back");
	EQ(advice.missing_row, 5);
	/* All above 12 GiB; up to 25 GiB the reserve does not grow. */
	EQ(advice.missing_bytes, (1024 + 12 * 16 + 16 + 512) * MIB);
	EQ(advice.max_seq_len, 0);
	EQ(advice.isq, GM_ISQ_Q8_0);
	s.q.must_fit = false;
	EQ(gm_plan_make(&s.q, &plan, NULL, &s.err), 0);
	EQ(plan.missing_bytes, advice.missing_bytes);
	EQ(plan.missing_row, 5);
	EQ(plan.charges[0].left_bytes, 0);
	gm_plan_free(&plan);

	set_scene(&s, AUTO, NULL);
	s.q.n_devices = 2;
	s.devices[0].avail = 0;
	s.devices[1].avail = 2 * GIB;
	s.q.ask.other_bytes = 2 * GIB;
	STR(show(&s), "The model does not fit: it takes 18.2 GiB and "
		      "activations, 16.8 GiB more than the rows have; the 2.0 "
		      "GiB that are no layer's find no room beside one");
	s.devices[0].avail = 18 * GIB;
	s.devices[1].avail = GIB;
	s.q.ask.other_bytes = GIB;
	STR(show(&s), "0:16@0");
	for (uint32_t i = 0; i < LAYERS; i++)
		s.layers[i] = i < 3 ? 6 * GIB : 1;
	s.devices[0].avail = s.devices[1].avail = 10 * GIB;
	OK(strstr(show(&s), " but not in whole layers") != NULL);
}

static void sums_beyond_64_bits_are_refused(void)
{
	struct scene s;

	for (int i = 0; i < 4; i++) {
		set_scene(&s, i % 2 ? DUMMY : AUTO, NULL);
		s.q.must_fit = false;
		if (i == 0)
			s.layers[0] = UINT64_MAX;
		else if (i == 1)
			s.q.ask.other_bytes = UINT64_MAX - 15 * GIB;
		else if (i == 2)
			s.q.ask.max_seq_len = UINT64_MAX;
		else
			s.q.ask.max_batch_size = s.q.ask.n_heads = UINT32_MAX;
		show(&s);
		EQ(s.err.code, -EOVERFLOW);
	}
	/* Up to there all is well, whatever is left beside it. */
	set_scene(&s, AUTO, NULL);
	s.devices[0].avail = UINT64_MAX;
	s.devices[1].avail = UINT64_C(3) << 62;
	s.q.ask.other_bytes = UINT64_C(1) << 63;
	STR(show(&s), "3:16@3");
}

/* ---- dtype --------------------------------------------------------------- */

/* The rows in use choose the type; an automatic map settles on one. */
static void rows_in_use_choose_the_type(void)
{
	static const struct {
		uint32_t setting, base;
		uint32_t major, minor; /* of row 5 */
		uint64_t gib;          /* of row 3 */
		uint32_t asked;
		const char *type;
		uint64_t kv_mib; /* of a layer, and of activations */
	} cases[] = {
		{ MANUAL, FIRST, 5, 0, 24, 0, "bf16", 16 },
		/* The weights of no layer are a part of the model. */
		{ MANUAL, 5, 5, 0, 24, 0, "f32", 32 },
		{ MANUAL, 5, 5, 3, 24, 0, "f16", 16 },
		{ MANUAL, 5, 5, 3, 24, GPUMAP_DTYPE_F32, "f32", 32 },
		{ NCCL, FIRST, 7, 0, 24, 0, "f16", 8 },
		{ DUMMY, 0, 8, 0, 24, 0, "bf16", 16 },
		{ AUTO, FIRST, 5, 0, 24, 0, "bf16", 16 }, /* row 3 alone */
		/* A long cache needs the old card; in f32 all the more. */
		{ AUTO, FIRST, 5, 0, 12, 0, "f32", 32 },
		{ AUTO, FIRST, 7, 0, 12, 0, "f16", 16 },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct gm_plan plan = { 0 };
		struct scene s;

		set_scene(&s, cases[i].setting,
			  cases[i].setting == MANUAL ? "3:16" : NULL);
		set_base(&s, cases[i].base);
		s.devices[1].avail = cases[i].gib * GIB;
		s.devices[2].cc_major = cases[i].major;
		s.devices[2].cc_minor = cases[i].minor;
		s.q.ask.compute_dtype = cases[i].asked;
		EQ(gm_plan_make(&s.q, &plan, NULL, &s.err), 0);
		STR(gm_ops_dtype_name(plan.compute_dtype), cases[i].type);
		EQ(plan.kv_bytes, cases[i].kv_mib * MIB);
		EQ(plan.charges[0].activation_bytes, cases[i].kv_mib * MIB);
		gm_plan_free(&plan);
	}
}

/* The cache fits in 16 bits alone, so not on the old card; one of the others
 * has no bf16, and that decides. */
static void the_rows_that_are_left_settle_on_a_type(void)
{
	struct gm_plan plan = { 0 };
	struct scene s;

	set_scene(&s, AUTO, NULL);
	s.devices[0] = host(0, 11 * GIB);
	s.devices[1] = card(3, 0, 12 * GIB);
	s.devices[2] = card(5, 1, 17 * GIB);
	s.devices[3] = card(7, 2, 3 * GIB);
	s.devices[1].cc_major = 7;
	s.devices[3].cc_major = 5;
	s.q.n_devices = 4;
	s.q.ask.max_seq_len = 64 * 4096;
	if (!EQ(gm_plan_make(&s.q, &plan, NULL, &s.err), 0))
		return;
	for (uint32_t i = 0; i < plan.n_layers; i++)
		OK(plan.rows[i] != 7);
	EQ(plan.compute_dtype, GPUMAP_DTYPE_F16);
	gm_plan_free(&plan);
}

/* ---- what is not known --------------------------------------------------- */

static void unknown_parts_are_said(void)
{
	static const struct gm_kv_shape nothing = { .n_heads = 0 };
	struct gm_plan plan = { 0 };
	struct scene s;

	set_scene(&s, MANUAL, "3:4;5:4");
	s.q.ask = (struct gpumap_plan_request){ .setting = MANUAL,
						.text = "3:4;5:4",
						.other_bytes = GIB };
	EQ(gm_plan_make(&s.q, &plan, NULL, &s.err), 0);
	EQ(plan.n_layers, 8);
	STR(plan.warnings,
	    "The bytes of the layers are not known: they are not charged\n"
	    "What the layers keep of a sequence is not known: no KV cache is "
	    "charged\n"
	    "The number of attention heads is not known: no activations are "
	    "charged");
	EQ(plan.charges[0].weight_bytes, GIB);
	EQ(plan.charges[1].weight_bytes, 0);
	EQ(plan.charges[1].kv_bytes + plan.charges[1].activation_bytes, 0);
	gm_plan_free(&plan);

	set_scene(&s, AUTO, NULL);
	s.q.ask.caches = NULL;
	s.q.ask.n_caches = 0;
	s.q.ask.paged = GPUMAP_PAGED_MIB; /* not looked at */
	EQ(gm_plan_make(&s.q, &plan, NULL, &s.err), 0);
	EQ(plan.kv_bytes, 0);
	STR(plan.warnings, "What the layers keep of a sequence is not known: "
			   "no KV cache is charged");
	gm_plan_free(&plan);

	/* Nor is it known what mistral.rs would keep. */
	s.q.like = &nothing;
	EQ(gm_plan_make(&s.q, &plan, NULL, &s.err), 0);
	EQ(plan.kv_bytes, 0);
	STR(plan.warnings, "What the layers keep of a sequence is not known: "
			   "no KV cache is charged");
	gm_plan_free(&plan);

	/* Some layers say nothing. */
	set_scene(&s, AUTO, NULL);
	s.caches[3].n_heads = 0;
	EQ(gm_plan_make(&s.q, &plan, NULL, &s.err), 0);
	STR(plan.warnings, "It is not known what layer 3 keeps of a sequence: "
			   "no cache is charged for it; say it (gpumapctl: "
			   "--kv-elements)");
	gm_plan_free(&plan);
	s.caches[7].n_heads = s.caches[8].n_heads = 0;
	EQ(gm_plan_make(&s.q, &plan, NULL, &s.err), 0);
	STR(plan.warnings,
	    "It is not known what layer 3 and 2 others keep of a "
	    "sequence: no cache is charged for them; say it "
	    "(gpumapctl: --kv-elements)");
	gm_plan_free(&plan);

	set_scene(&s, TOPOLOGY,
		  "0-8:\n  device: cuda[0]\n8-9:\n  device: cuda[1]\n");
	EQ(make(&s, &plan), 0);
	STR(plan.spec, NULL); /* row 3 comes up twice */
	gm_plan_free(&plan);
}

static void fill_names_the_rows_it_passed_over(void)
{
	struct gm_plan plan = { 0 };
	struct scene s;

	set_scene(&s, AUTO, NULL);
	s.devices[1].avail = GIB;
	EQ(gm_plan_make(&s.q, &plan, NULL, &s.err), 0);
	STR(plan.warnings,
	    "Row 3 can fit 0 layers\n6 of 16 layers are on host rows: CPUs "
	    "compute them, which takes far longer; lower max_seq_len or the "
	    "batch, quantise, or name more rows");
	STR(plan.spec, "5:10;0:6");
	gm_plan_free(&plan);

	/* Where there are only hosts nothing else can be had. */
	s.q.n_devices = 1;
	EQ(gm_plan_make(&s.q, &plan, NULL, &s.err), 0);
	STR(plan.warnings, NULL);
	gm_plan_free(&plan);
}

/* Rows 0, 3, 5 and 7: a host, and cards of which one is a dummy and one may be
 * drained. */
static void requests_get_the_rows_that_they_may_have(void)
{
	static const struct {
		uint32_t rows[3];
		uint32_t n_rows;
		bool is_drained, takes_dummies, all_are_dummies;
		uint32_t wrong; /* the row that cannot be had */
		const char *want;
	} cases[] = {
		{ { 0 }, 0, false, false, false, 0, "0 5 7, 1 dummies" },
		{ { 0 }, 0, false, true, false, 0, "0 3 5 7, 0 dummies" },
		/* A node that has nothing else. */
		{ { 0 }, 0, false, false, true, 0, "0 3 5 7, 0 dummies" },
		{ { 0 }, 0, true, false, false, 0, "0 7, 1 dummies" },
		{ { 7, 3 }, 2, false, false, false, 0, "7 3, 0 dummies" },
		{ { 7, 4 }, 2, false, false, false, 4, NULL },
		{ { 7, 5 }, 2, true, false, false, 5, NULL },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct gm_plan_device devices[] = { host(0, GIB),
						    card(3, 9, GIB),
						    card(5, 9, GIB),
						    card(7, 9, GIB) };
		struct gm_plan_request q = {
			.ask = { .rows = cases[i].rows,
				 .n_rows = cases[i].n_rows }
		};
		uint32_t drained[4], wrong = 0;
		char text[64], *at = text;
		int r;

		devices[1].is_dummy = true;
		devices[2].is_drained = cases[i].is_drained;
		for (int k = 0; k < 4 && cases[i].all_are_dummies; k++)
			devices[k].is_dummy = true;
		r = gm_plan_choose(&q, devices, 4, drained,
				   cases[i].takes_dummies, &wrong);
		EQ(r, cases[i].want ? 0 : -ENODEV);
		if (r != 0) {
			EQ(wrong, cases[i].wrong);
			OK(gm_plan_is_drained(&q, wrong) ==
			   cases[i].is_drained);
			continue;
		}
		for (uint32_t k = 0; k < q.n_devices; k++) {
			const struct gm_plan_device *device = &q.devices[k];

			at += sprintf(at, "%s%" PRIu32, k ? " " : "",
				      device->row);
			/* Numbers are those of all rows. */
			if (!device->is_host)
				EQ(device->at.ordinal, (device->row - 3) / 2);
		}
		sprintf(at, ", %" PRIu32 " dummies", q.n_dummies);
		STR(text, cases[i].want);
	}
}

static void caches_are_paged_with_every_setting(void)
{
	static const struct {
		uint32_t setting;
		const char *text;
		uint64_t kv_mib; /* of a layer; 16: it is not paged */
	} cases[] = {
		{ MANUAL, "3:16", 128 }, { MANUAL, "3:15", 16 },
		{ AUTO, NULL, 128 },     { DUMMY, NULL, 128 },
		{ NCCL, NULL, 128 }, /* of each rank's pool */
		{ PIPELINE, NULL, 128 },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct gm_plan plan = { 0 };
		struct scene s;

		set_scene(&s, cases[i].setting, cases[i].text);
		s.q.ask.paged = GPUMAP_PAGED_MIB;
		s.q.ask.paged_amount = 2048;
		EQ(gm_plan_make(&s.q, &plan, NULL, &s.err), 0);
		EQ(plan.kv_bytes, cases[i].kv_mib * MIB);
		EQ(plan.is_paged, cases[i].kv_mib == 128);
		/* With layers on a host, and again since they are there. */
		OK((plan.warnings != NULL) == (cases[i].kv_mib != 128));
		gm_plan_free(&plan);
		s.q.ask.paged_amount = 0;
		if (cases[i].kv_mib == 128)
			STR(show(&s),
			    "The paged KV cache has no room for a "
			    "block of 32 tokens; ask for more, or for "
			    "a cache without pages");
	}
}

/* ---- advice -------------------------------------------------------------- */

static void throw_scene(struct scene *s)
{
	static const uint32_t settings[] = { AUTO, AUTO, DUMMY, PIPELINE };

	set_scene(s, settings[dice(4)], NULL);
	s->q.ask.strategy = 1 + (uint32_t)dice(3);
	s->q.n_devices = 1 + (uint32_t)dice(MOST);
	for (uint32_t i = 0; i < s->q.n_devices; i++) {
		uint64_t avail = dice(12 * 1024) * MIB;

		s->devices[i] =
			dice(4) == 0 ? host(i, avail) : card(i, (int)i, avail);
		s->devices[i].is_integrated = dice(20) == 0;
		s->devices[i].cc_major = dice(5) == 0 ? 5 : 8;
	}
	for (uint32_t i = 0; i < LAYERS; i++)
		s->layers[i] = (1 + dice(20)) * 100 * MIB;
	s->q.ask.other_bytes = dice(2000) * MIB;
	s->q.ask.max_seq_len = 1 + dice(30000);
	s->q.ask.max_batch_size = 1 + dice(8);
}

static bool fits(const struct gm_plan_request *q)
{
	struct gm_plan plan;
	int r = gm_plan_make(q, &plan, NULL, NULL);

	if (r == 0)
		gm_plan_free(&plan);
	return r == 0;
}

/* Does it fit with so much memory on that row? */
static bool fits_with(struct scene *s, uint64_t *avail, uint64_t bytes)
{
	uint64_t before = *avail;
	bool ret;

	*avail = bytes;
	ret = fits(&s->q);
	*avail = before;
	return ret;
}

/* The advised number fits, and one more does not. */
static int wrong_advice(struct scene *s, const struct gm_plan_advice *a)
{
	struct gm_plan_request longer = s->q, larger = s->q;
	int wrong = 0;

	longer.ask.max_seq_len = a->max_seq_len;
	larger.ask.max_batch_size = (uint32_t)a->max_batch_size;
	wrong += a->max_seq_len > 0 && !fits(&longer);
	wrong += a->max_batch_size > 0 && !fits(&larger);
	longer.ask.max_seq_len++;
	larger.ask.max_batch_size++;
	wrong += fits(&longer) + fits(&larger);
	for (uint32_t i = 0; i < s->q.n_devices; i++) {
		uint64_t *avail = &s->devices[i].avail;

		if (s->devices[i].row == a->missing_row)
			wrong +=
				!fits_with(s, avail, *avail + a->missing_bytes);
		/* Nor is there a row on which less would do. */
		wrong += a->missing_bytes > 0 &&
			 fits_with(s, avail, *avail + a->missing_bytes - 1);
	}
	return wrong;
}

/* So many rows like that one, and not one less.  The automatic map alone takes
 * what there is. */
static int wrong_rows(struct scene *s, const struct gm_plan_advice *a)
{
	struct gm_plan_device devices[GPUMAP_ROWS_MAX], *like = s->devices;
	struct gm_plan_request q = s->q;
	struct gm_plan plan;
	int wrong = 0;

	if (a->more_rows == 0)
		return 0;
	memcpy(devices, s->devices, q.n_devices * sizeof(devices[0]));
	while (like->row != a->like_row)
		like++;
	q.devices = devices;
	for (uint32_t i = 0; i < a->more_rows; i++) {
		wrong += gm_plan_make(&q, &plan, NULL, NULL) != -ENOSPC;
		devices[q.n_devices] = *like;
		devices[q.n_devices].avail = like->total;
		devices[q.n_devices].row = 100 + i;
		q.n_devices++;
	}
	if (gm_plan_make(&q, &plan, NULL, NULL) != 0)
		return wrong + 1;
	gm_plan_free(&plan);
	return wrong + like->is_host;
}

static void advice_holds_and_is_the_best(void)
{
	int failed = 0, shorter = 0, memory = 0, rows = 0, wrong = 0;

	for (int i = 0; i < 400; i++) {
		struct gm_plan_advice a = { 0 };
		struct gm_plan plan;
		struct scene s;
		int r;

		throw_scene(&s);
		r = gm_plan_make(&s.q, &plan, &a, NULL);
		if (r == 0) {
			gm_plan_free(&plan);
			continue;
		}
		failed++;
		shorter += a.max_seq_len > 0;
		memory += a.missing_bytes > 0;
		wrong += r != -ENOSPC;
		rows += a.more_rows > 0;
		wrong += wrong_advice(&s, &a) + wrong_rows(&s, &a);
	}
	NOTE("%d of 400 do not fit, %d with shorter sequences, %d with more "
	     "memory on one row",
	     failed, shorter, memory);
	EQ(wrong, 0);
	OK(failed > 50 && shorter > 10 && memory > 20 && rows > 10);
}

/* On 10 GiB: 17 GiB over 2, and caches of 256 MiB. */
static void quantisation_is_advised_as_little_as_will_do(void)
{
	static const struct {
		uint64_t gib;
		uint32_t weight_bytes; /* 0: quantised already */
		enum gm_isq want;
	} cases[] = { { 10, 2, GM_ISQ_Q8_0 },
		      { 6, 2, GM_ISQ_Q4K },
		      { 6, 0, GM_ISQ_N },
		      { 1, 2, GM_ISQ_N } };

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct gm_plan_advice a = { 0 };
		struct gm_plan plan;
		struct scene s;

		set_scene(&s, AUTO, NULL);
		s.q.n_devices = 2;
		s.devices[0].avail = 0;
		s.devices[1].avail = cases[i].gib * GIB;
		s.q.weight_bytes = cases[i].weight_bytes;
		EQ(gm_plan_make(&s.q, &plan, &a, NULL), -ENOSPC);
		EQ(a.isq, cases[i].want);
		if (cases[i].gib == 6)
			EQ(a.max_seq_len, 0);
	}
}

TAP_CASE()
{
	settings_have_their_rows_or_say_what_is_wrong();
	charges_have_every_part();
	what_does_not_fit_says_where();
	sums_beyond_64_bits_are_refused();
	rows_in_use_choose_the_type();
	the_rows_that_are_left_settle_on_a_type();
	unknown_parts_are_said();
	fill_names_the_rows_it_passed_over();
	requests_get_the_rows_that_they_may_have();
	caches_are_paged_with_every_setting();
	advice_holds_and_is_the_best();
	quantisation_is_advised_as_little_as_will_do();
	return tap_done();
}
