/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* Read what a plan is asked for: options, the model and the rows. */

#include "agent/ctl/plan.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/ctl/export.h"
#include "agent/ctl/progress.h"
#include "agent/files/file.h"
#include "agent/files/nodefile.h"
#include "agent/files/topology_file.h"
#include "gpumap/engine.h"
#include "shm/point.h"

static int wrong(const char *what)
{
	return gm_ctl_wrong("plan: %s; see gpumapctl(1)", what);
}

/* The setting that the other options imply without --setting. */
static uint32_t implied(const struct gm_ctl *ctl)
{
	if (GM_TEXT(ctl, SPEC) != NULL)
		return GPUMAP_SETTING_MANUAL;
	if (GM_TEXT(ctl, TOPOLOGY) != NULL)
		return GPUMAP_SETTING_TOPOLOGY;
	if (GM_TEXT(ctl, SPLIT) != NULL || GM_TEXT(ctl, WEIGHTS) != NULL)
		return GPUMAP_SETTING_PIPELINE;
	return GPUMAP_SETTING_AUTO;
}

static int read_setting(struct gm_ctl_planning *p)
{
	const struct gm_ctl *ctl = p->ctl;
	uint32_t setting = implied(ctl);
	uint32_t i;

	if ((GM_TEXT(ctl, SPEC) != NULL) + (GM_TEXT(ctl, TOPOLOGY) != NULL) +
		    (GM_TEXT(ctl, SPLIT) != NULL) +
		    (GM_TEXT(ctl, WEIGHTS) != NULL) >
	    1)
		return wrong("give one of --spec, --topology, --split and "
			     "--weights");
	p->q.ask.setting = setting;
	if (GM_TEXT(ctl, SETTING) == NULL)
		return GM_EXIT_OK;
	i = gm_ctl_setting_named(GM_TEXT(ctl, SETTING));
	if (i == 0)
		return wrong("--setting is manual, auto, topology, dummy, nccl "
			     "or pipeline");
	if (setting != GPUMAP_SETTING_AUTO && i != setting)
		return wrong("--setting says one thing, and a text that is "
			     "given another");
	if (setting == GPUMAP_SETTING_AUTO && i == GPUMAP_SETTING_MANUAL)
		return wrong("--setting manual needs --spec");
	if (setting == GPUMAP_SETTING_AUTO && i == GPUMAP_SETTING_TOPOLOGY)
		return wrong("--setting topology needs --topology");
	p->q.ask.setting = i;
	return GM_EXIT_OK;
}

static int read_texts(struct gm_ctl_planning *p)
{
	const struct gm_ctl *ctl = p->ctl;
	struct gm_plan_error error = { .code = 0 };
	char *text = NULL;
	size_t n;
	int ret;

	p->q.ask.weights = GM_TEXT(ctl, WEIGHTS);
	p->q.ask.text = GM_TEXT(ctl, SPEC) != NULL ? GM_TEXT(ctl, SPEC)
						   : GM_TEXT(ctl, SPLIT);
	if (GM_TEXT(ctl, TOPOLOGY) == NULL)
		return GM_EXIT_OK;
	ret = gm_file_text(GM_TEXT(ctl, TOPOLOGY),
			   "give the path of a topology file",
			   GM_TOPOLOGY_FILE_BYTES, &text, &n, &error);
	if (ret == 0)
		ret = gm_topology_file_parse(text, strlen(text), &p->topology,
					     &error);
	free(text);
	if (ret != 0)
		return gm_ctl_plan_error(&error);
	p->text = gm_topology_print(&p->topology);
	if (p->text == NULL)
		return gm_ctl_fail(ctl, -ENOMEM, "plan");
	p->q.ask.text = p->text;
	p->q.topology = &p->topology;
	return GM_EXIT_OK;
}

static int read_names(struct gm_ctl_planning *p)
{
	const struct gm_ctl *ctl = p->ctl;

	p->q.ask.strategy = GPUMAP_STRATEGY_FILL;
	if (GM_TEXT(ctl, STRATEGY) != NULL &&
	    gm_auto_strategy_parse(GM_TEXT(ctl, STRATEGY), &p->q.ask.strategy,
				   NULL) != 0)
		return wrong("--strategy is fill, balance or fewest");
	if (GM_TEXT(ctl, STRATEGY) != NULL &&
	    p->q.ask.setting != GPUMAP_SETTING_AUTO &&
	    p->q.ask.setting != GPUMAP_SETTING_TOPOLOGY)
		return wrong("--strategy is for automatic maps: leave it out, "
			     "or what places the layers");
	if (GM_TEXT(ctl, DTYPE) != NULL &&
	    strcmp(GM_TEXT(ctl, DTYPE), "auto") != 0 &&
	    (gm_dtype_parse(GM_TEXT(ctl, DTYPE), &p->q.ask.compute_dtype,
			    NULL) != 0 ||
	     !gm_dtype_computes(p->q.ask.compute_dtype)))
		return wrong("--dtype is auto, bf16, f16, f32 or f64");
	return GM_EXIT_OK;
}

static int read_paged(struct gm_ctl_planning *p)
{
	const struct gm_ctl *ctl = p->ctl;
	struct gpumap_plan_request *ask = &p->q.ask;
	gm_ctl_set given = ctl->given & GM_OPTS_PAGED;
	char *end;

	if (given == 0)
		return GM_NUMBER(ctl, PAGED_BLOCK) == 0 &&
				       GM_TEXT(ctl, CACHE_TYPE) == NULL
			       ? GM_EXIT_OK
			       : wrong("--paged-block and --cache-type need a "
				       "paged cache");
	if ((given & (given - 1)) != 0)
		return wrong("give one of --paged-mib, --paged-share and "
			     "--paged-tokens");
	if (GM_NUMBER(ctl, PAGED_BLOCK) != 0 &&
	    GM_NUMBER(ctl, PAGED_BLOCK) != 8 &&
	    GM_NUMBER(ctl, PAGED_BLOCK) != 16 &&
	    GM_NUMBER(ctl, PAGED_BLOCK) != 32)
		return wrong("--paged-block is 8, 16 or 32");
	ask->paged_block = (uint32_t)GM_NUMBER(ctl, PAGED_BLOCK);
	ask->paged = GPUMAP_PAGED_MIB;
	ask->paged_amount = GM_NUMBER(ctl, PAGED_MIB);
	if (GM_TEXT(ctl, PAGED_SHARE) != NULL) {
		ask->paged = GPUMAP_PAGED_SHARE;
		ask->paged_share = strtof(GM_TEXT(ctl, PAGED_SHARE), &end);
		if (end == GM_TEXT(ctl, PAGED_SHARE) || *end != '\0' ||
		    !(ask->paged_share > 0 && ask->paged_share <= 1))
			return wrong("--paged-share is above 0, and 1 at most");
	} else if (GM_NUMBER(ctl, PAGED_TOKENS) != 0) {
		ask->paged = GPUMAP_PAGED_TOKENS;
		ask->paged_amount = GM_NUMBER(ctl, PAGED_TOKENS);
	}
	if (GM_TEXT(ctl, CACHE_TYPE) == NULL ||
	    strcmp(GM_TEXT(ctl, CACHE_TYPE), "auto") == 0)
		return GM_EXIT_OK;
	if (strcmp(GM_TEXT(ctl, CACHE_TYPE), "f8e4m3") != 0)
		return wrong("--cache-type is auto or f8e4m3");
	ask->paged_element_bytes = 1;
	return GM_EXIT_OK;
}

static int read_numbers(struct gm_ctl_planning *p)
{
	const struct gm_ctl *ctl = p->ctl;

	p->q.ask.max_seq_len = GM_NUMBER(ctl, MAX_SEQ_LEN) != 0
				       ? GM_NUMBER(ctl, MAX_SEQ_LEN)
				       : GM_PLAN_SEQ_LEN;
	p->q.ask.max_batch_size = GM_NUMBER(ctl, MAX_BATCH) != 0
					  ? (uint32_t)GM_NUMBER(ctl, MAX_BATCH)
					  : GM_PLAN_BATCH_SIZE;
	if (GM_NUMBER(ctl, BASE) >= GPUMAP_ROWS_MAX ||
	    GM_NUMBER(ctl, MAX_BATCH) > UINT32_MAX)
		return wrong("a number is too large");
	if (GM_GIVEN(ctl, BASE)) {
		p->q.ask.flags |= GPUMAP_PLAN_BASE;
		p->q.ask.base_row = (uint32_t)GM_NUMBER(ctl, BASE);
	}
	/* A map to commit must fit. */
	p->q.must_fit = true;
	return GM_EXIT_OK;
}

/* Find the engine whose rule charges the caches: without --engine the one that
 * run starts. */
static int read_engine(struct gm_ctl_planning *p)
{
	static const struct {
		const char *name;
		uint32_t engine;
	} engines[] = {
		{ "vllm", GPUMAP_ENGINE_VLLM },
		{ "sglang", GPUMAP_ENGINE_SGLANG },
		{ "llama.cpp", GPUMAP_ENGINE_LLAMA_CPP },
		{ "hf", GPUMAP_ENGINE_ACCELERATE },
	};
	const struct gm_ctl *ctl = p->ctl;
	int i;

	if (!GM_GIVEN(ctl, ENGINE))
		return GM_GIVEN(ctl, FOR) ? gm_ctl_engine(GM_TEXT(ctl, FOR),
							  &p->q.ask.engine)
					  : GM_EXIT_OK;
	if (GM_GIVEN(ctl, LIKE))
		return wrong("--like charges as mistral.rs does: leave it or "
			     "--engine out");
	i = gm_ctl_find_word("--engine", GM_TEXT(ctl, ENGINE), engines,
			     sizeof(engines[0]),
			     sizeof(engines) / sizeof(engines[0]));
	if (i < 0)
		return GM_EXIT_USAGE;
	p->q.ask.engine = engines[i].engine;
	return GM_EXIT_OK;
}

static int read_request(struct gm_ctl_planning *p)
{
	const struct gm_ctl *ctl = p->ctl;
	int ret;

	if (GM_TEXT(ctl, MODEL) == NULL)
		return wrong("give --model, a checkpoint's directory or a GGUF "
			     "file");
	if (GM_TEXT(ctl, NODE) != NULL && GM_TEXT(ctl, COMMIT) != NULL)
		return wrong("what is planned on a --node file cannot be "
			     "committed");
	if (GM_TEXT(ctl, LIKE) != NULL &&
	    strcmp(GM_TEXT(ctl, LIKE), "mistral.rs") != 0)
		return wrong("--like is mistral.rs");
	if (GM_GIVEN(ctl, LIKE) && GM_TEXT(ctl, COMMIT) != NULL)
		return wrong("a plan with --like shows what another engine "
			     "would do, and cannot be committed: commit its "
			     "spec");
	ret = read_setting(p);
	if (ret == GM_EXIT_OK)
		ret = read_engine(p);
	if (ret == GM_EXIT_OK)
		ret = read_names(p);
	if (ret == GM_EXIT_OK)
		ret = read_paged(p);
	if (ret == GM_EXIT_OK)
		ret = read_numbers(p);
	if (ret == GM_EXIT_OK)
		ret = read_texts(p);
	return ret;
}

static void file_read(void *data, uint32_t n_read, uint32_t n_files)
{
	struct gm_progress *progress = data;

	gm_progress_tell(progress, n_read, n_files);
	GM_POINT("progress_told");
}

int gm_ctl_measure(const struct gm_ctl *ctl, struct gm_weights_sizes *ret_sizes)
{
	struct gm_progress progress = { .ctl = ctl,
					.what = "read headers",
					.unit = "files" };
	const struct gm_weights_watch watch = { file_read, &progress };
	struct gm_plan_error error;
	struct gm_reason why;
	int ret;

	gm_progress_begin(&progress, 0);
	ret = gm_weights_measure(GM_TEXT(ctl, MODEL), &watch, &why, ret_sizes);
	gm_progress_end(&progress, ret == 0);
	if (ret == 0)
		return GM_EXIT_OK;
	gm_error_of_sentence(&error, ret, why.text);
	return gm_ctl_plan_error(&error);
}

/* Divide what the model takes by what quantising would save. */
static int quantise(const struct gm_ctl *ctl, struct gm_weights_sizes *sizes,
		    struct gpumap_plan_request *ask, uint32_t *weight_bytes,
		    enum gm_isq *ret_isq)
{
	struct gm_plan_error error = { .code = 0 };
	uint32_t factor;

	*ret_isq = GM_ISQ_N;
	if (GM_TEXT(ctl, ISQ) == NULL)
		return GM_EXIT_OK;
	if (gm_isq_parse(GM_TEXT(ctl, ISQ), ret_isq, &error) != 0)
		return gm_ctl_wrong("--isq: %s", error.text);
	if (*weight_bytes == 0)
		return gm_ctl_failed("--isq: the weights are %s, which is not "
				     "quantised further: leave it out",
				     gm_weights_type(sizes->type));
	factor = gm_isq_pack_factor(*ret_isq, *weight_bytes);
	for (uint32_t i = 0; i < ask->n_layers; i++)
		sizes->layer_bytes[i] /= factor;
	ask->other_bytes /= factor;
	ask->tied_bytes /= factor;
	sizes->head_bytes /= factor;
	*weight_bytes = 0; /* advice packs no more */
	return GM_EXIT_OK;
}

/* Is it known of any layer what it keeps? */
static bool knows_caches(const struct gm_weights_sizes *sizes)
{
	uint32_t i = 0;

	while (i < sizes->n_caches && sizes->caches[i].n_heads == 0)
		i++;
	return i < sizes->n_caches;
}

/* Take --kv-elements for the layers of which it is not known what they keep.
 * Too little would be reserved for them, and a plan without any cache is of no
 * use; mistral.rs keeps what config.json says. */
static int complete_caches(const struct gm_ctl *ctl,
			   struct gm_weights_sizes *sizes)
{
	bool is_bound = GM_TEXT(ctl, COMMIT) != NULL || GM_GIVEN(ctl, NODES) ||
			(!knows_caches(sizes) && GM_TEXT(ctl, LIKE) == NULL);
	uint32_t layer = 0;

	for (uint32_t i = 0; i < sizes->n_caches; i++) {
		struct gpumap_layer_cache *c = &sizes->caches[i];

		layer += c->n_layers;

		if (c->n_heads > 0)
			continue;
		if (GM_GIVEN(ctl, KV_ELEMENTS)) {
			c->n_heads = 1;
			c->token_elements = GM_NUMBER(ctl, KV_ELEMENTS);
		} else if (is_bound) {
			fprintf(stderr,
				"gpumapctl: neither the tensors nor the "
				"metadata of %s say what layer %u keeps of a "
				"sequence: give --kv-elements, the elements of "
				"its keys and values of a token\n",
				gm_reason_path(GM_TEXT(ctl, MODEL)),
				layer - c->n_layers);
			return GM_EXIT_FAILED;
		}
	}
	return GM_EXIT_OK;
}

int gm_ctl_plan_model(const struct gm_ctl *ctl,
		      struct gm_weights_sizes *ret_sizes,
		      struct gpumap_plan_request *ret_ask,
		      uint32_t *ret_weight_bytes, enum gm_isq *ret_isq)
{
	int ret = gm_ctl_measure(ctl, ret_sizes);

	if (ret != GM_EXIT_OK)
		return ret;
	ret = complete_caches(ctl, ret_sizes);
	if (ret != GM_EXIT_OK)
		return ret;
	*ret_weight_bytes = gm_plan_of_sizes(ret_sizes, ret_ask);
	return quantise(ctl, ret_sizes, ret_ask, ret_weight_bytes, ret_isq);
}

/* The shape that mistral.rs reads in config.json. */
static struct gm_kv_shape shape_of(const struct gm_weights_config *config)
{
	return (struct gm_kv_shape){
		.n_heads = config->n_kv_heads,
		.k_dim = config->k_dim,
		.v_dim = config->v_dim,
		.is_mla = config->kv_lora_rank > 0,
		.kv_lora_rank = config->kv_lora_rank,
		.kpe_head_dim = config->kpe_head_dim,
	};
}

/* ---- rows ---------------------------------------------------------------- */

static int rows_of_file(const char *path, struct gm_ctl_node *ret_node)
{
	struct gm_plan_error error = { .code = 0 };
	struct gm_nodefile file;

	if (gm_nodefile_read(path, &file, &error) != 0)
		return gm_ctl_plan_error(&error);
	memcpy(ret_node->name, file.name, sizeof(ret_node->name));
	gm_nodefile_devices(&file, ret_node->devices);
	ret_node->n = file.n_rows;
	for (uint32_t i = 0; i < file.n_rows; i++)
		memcpy(ret_node->names[i], file.rows[i].name,
		       sizeof(ret_node->names[i]));
	gm_nodefile_free(&file);
	return GM_EXIT_OK;
}

static int rows_of_agent(struct gm_ctl *ctl, struct gm_ctl_node *ret_node)
{
	uint32_t n = gpumap_device_count(ctl->map);

	for (uint32_t row = 0; row < n; row++) {
		struct gpumap_device d = { .size = sizeof(d) };
		int ret = gpumap_device_read(ctl->map, row, &d);
		bool is_host;

		if (ret != 0)
			return gm_ctl_fail(ctl, ret, "row %u", row);
		if (!gm_ctl_is_usable(&d))
			continue;
		is_host = (d.flags & GPUMAP_DEVICE_MAIN_MEMORY) != 0;
		memcpy(ret_node->names[row], d.name, sizeof(d.name));
		ret_node->devices[ret_node->n++] = (struct gm_plan_device){
			.row = row,
			.is_host = is_host,
			.is_cuda = (d.known & GPUMAP_KNOWN_CC) != 0,
			.is_integrated =
				(d.flags & GPUMAP_DEVICE_INTEGRATED) != 0,
			.is_drained = d.state == GPUMAP_DEVICE_DRAINING ||
				      (d.flags & GPUMAP_DEVICE_CORDONED) != 0,
			.is_dummy = (d.flags & GPUMAP_DEVICE_SERVES) == 0,
			.cc_major = d.cc_major,
			.cc_minor = d.cc_minor,
			.avail = gm_ctl_avail(&d),
			.total = d.total_bytes,
			.speed = gm_plan_speed(is_host, d.units, d.free_bytes,
					       d.cc_major),
		};
	}
	return GM_EXIT_OK;
}

/* Keep only the rows of --rows, in its order, or those that a plan may take
 * without it. */
static int choose_rows(struct gm_ctl_planning *p)
{
	const struct gm_ctl *ctl = p->ctl;
	struct gm_ctl_node *node = &p->node;
	uint32_t n = node->n, row = 0;
	int ret;

	p->q.ask.rows = ctl->rows;
	p->q.ask.n_rows = ctl->n_rows;
	ret = gm_plan_choose(&p->q, node->devices, n, node->drained,
			     p->q.ask.setting == GPUMAP_SETTING_MANUAL, &row);
	node->n = p->q.n_devices;
	if (ret == 0)
		return GM_EXIT_OK;
	if (gm_plan_is_drained(&p->q, row))
		gm_ctl_say("row %u is drained or cordoned: gpumapctl undrain "
			   "or uncordon brings it back; or leave it out",
			   row);
	else if (GM_TEXT(ctl, NODE) != NULL)
		gm_ctl_say("there is no row %u to plan on: %s has 0 to %u", row,
			   GM_TEXT(ctl, NODE), n - 1);
	else
		gm_ctl_say(
			"there is no row %u to plan on: see gpumapctl devices",
			row);
	return GM_EXIT_FAILED;
}

static int read_rows(struct gm_ctl_planning *p)
{
	struct gm_ctl *ctl = p->ctl;
	int ret = GM_EXIT_OK;

	if (GM_TEXT(ctl, NODE) != NULL) {
		ret = rows_of_file(GM_TEXT(ctl, NODE), &p->node);
	} else {
		if (ctl->map == NULL)
			ret = gm_ctl_attach(ctl);
		if (ret == GM_EXIT_OK)
			ret = rows_of_agent(ctl, &p->node);
	}
	return ret == GM_EXIT_OK ? choose_rows(p) : ret;
}

int gm_ctl_plan_read(struct gm_ctl_planning *p)
{
	int ret = read_request(p);

	if (ret == GM_EXIT_OK)
		ret = gm_ctl_plan_model(p->ctl, &p->model, &p->q.ask,
					&p->q.weight_bytes, &p->isq);
	if (ret == GM_EXIT_OK && GM_GIVEN(p->ctl, LIKE)) {
		p->like = shape_of(&p->model.config);
		/* There the head is with the other weights of no layer. */
		p->model.layer_bytes[p->model.n_layers - 1] -=
			p->model.head_bytes;
		p->q.ask.other_bytes += p->model.head_bytes;
		p->q.ask.tied_bytes = 0;
		p->q.like = &p->like;
	}
	return ret == GM_EXIT_OK ? read_rows(p) : ret;
}

void gm_ctl_plan_free(struct gm_ctl_planning *p)
{
	if (p == NULL)
		return;
	gm_plan_free(&p->plan);
	gm_weights_sizes_free(&p->model);
	gm_topology_free(&p->topology);
	free(p->text);
	free(p);
}
