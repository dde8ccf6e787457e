/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* Read what a plan is asked for: options, the model and the rows. */

#include "agent/ctl/plan.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/ctl/progress.h"
#include "agent/files/file.h"
#include "agent/files/nodefile.h"
#include "agent/files/topology_file.h"
#include "gpumap/engine.h"
#include "shm/point.h"

_Noreturn void gm_ctl_plan_wrong(const struct gm_ctl *ctl, const char *what)
{
	bool on_nodes = GM_GIVEN(ctl, NODES);

	gm_ctl_wrong("plan%s: %s; see gpumapctl%s(1)",
		     on_nodes ? " --nodes" : "", what,
		     on_nodes ? "-cluster" : "");
}

uint32_t gm_ctl_plan_dtype(const struct gm_ctl *ctl)
{
	uint32_t dtype = 0;

	if (GM_GIVEN(ctl, DTYPE) && strcmp(GM_TEXT(ctl, DTYPE), "auto") != 0 &&
	    (gm_dtype_parse(GM_TEXT(ctl, DTYPE), &dtype, NULL) != 0 ||
	     !gm_dtype_computes(dtype)))
		gm_ctl_plan_wrong(ctl,
				  "--dtype is auto, bf16, f16, f32 or f64");
	return dtype;
}

/* The setting: that of --setting, or what the text that is given implies. */
static uint32_t read_setting(const struct gm_ctl *ctl)
{
	static const struct {
		gm_ctl_set option;
		uint32_t setting;
	} texts[] = {
		{ GM_OPT(SPEC), GPUMAP_SETTING_MANUAL },
		{ GM_OPT(TOPOLOGY), GPUMAP_SETTING_TOPOLOGY },
		{ GM_OPT(SPLIT), GPUMAP_SETTING_PIPELINE },
		{ GM_OPT(WEIGHTS), GPUMAP_SETTING_PIPELINE },
	};
	uint32_t implied = GPUMAP_SETTING_AUTO, n_given = 0, setting;

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		if ((ctl->given & texts[i].option) != 0) {
			implied = texts[i].setting;
			n_given++;
		}
	if (n_given > 1)
		gm_ctl_plan_wrong(ctl,
				  "give one of --spec, --topology, --split "
				  "and --weights");
	if (!GM_GIVEN(ctl, SETTING))
		return implied;
	setting = gm_ctl_setting_named(GM_TEXT(ctl, SETTING));
	if (setting == 0)
		gm_ctl_plan_wrong(ctl, "--setting is manual, auto, topology, "
				       "dummy, nccl or pipeline");
	if (n_given > 0 && setting != implied)
		gm_ctl_plan_wrong(ctl, "--setting says one thing, and a text "
				       "that is given another");
	if (n_given == 0 && setting == GPUMAP_SETTING_MANUAL)
		gm_ctl_plan_wrong(ctl, "--setting manual needs --spec");
	if (n_given == 0 && setting == GPUMAP_SETTING_TOPOLOGY)
		gm_ctl_plan_wrong(ctl, "--setting topology needs --topology");
	return setting;
}

static void read_paged(const struct gm_ctl *ctl,
		       struct gpumap_plan_request *ask)
{
	const char *share = GM_TEXT(ctl, PAGED_SHARE);
	const char *cache = GM_TEXT(ctl, CACHE_TYPE);
	uint64_t block = GM_NUMBER(ctl, PAGED_BLOCK);
	gm_ctl_set given = ctl->given & GM_OPTS_PAGED;
	char *end;

	if (given == 0 && (block != 0 || cache != NULL))
		gm_ctl_plan_wrong(ctl, "--paged-block and --cache-type need a "
				       "paged cache");
	if (given == 0)
		return;
	if ((given & (given - 1)) != 0)
		gm_ctl_plan_wrong(ctl, "give one of --paged-mib, --paged-share "
				       "and --paged-tokens");
	if (block != 0 && block != 8 && block != 16 && block != 32)
		gm_ctl_plan_wrong(ctl, "--paged-block is 8, 16 or 32");
	ask->paged_block = (uint32_t)block;
	ask->paged = share != NULL                 ? GPUMAP_PAGED_SHARE
		     : GM_GIVEN(ctl, PAGED_TOKENS) ? GPUMAP_PAGED_TOKENS
						   : GPUMAP_PAGED_MIB;
	ask->paged_amount =
		GM_NUMBER(ctl, PAGED_MIB) + GM_NUMBER(ctl, PAGED_TOKENS);
	if (share != NULL) {
		ask->paged_share = strtof(share, &end);
		if (end == share || *end != '\0' ||
		    !(ask->paged_share > 0 && ask->paged_share <= 1))
			gm_ctl_plan_wrong(
				ctl, "--paged-share is above 0, and 1 at most");
	}
	if (cache == NULL || strcmp(cache, "auto") == 0)
		return;
	if (strcmp(cache, "f8e4m3") != 0)
		gm_ctl_plan_wrong(ctl, "--cache-type is auto or f8e4m3");
	ask->paged_element_bytes = 1;
}

/* Find the engine whose rule charges the caches: without --engine the one that
 * run starts. */
static uint32_t read_engine(const struct gm_ctl *ctl)
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
	static const struct gm_ctl_choice choice =
		GM_CHOICE("--engine", engines);

	if (!GM_GIVEN(ctl, ENGINE))
		return GM_GIVEN(ctl, FOR) ? gm_ctl_engine(ctl) : 0;
	if (GM_GIVEN(ctl, LIKE))
		gm_ctl_plan_wrong(ctl, "--like charges as mistral.rs does: "
				       "leave it or --engine out");
	return engines[gm_ctl_choose_word(&choice, GM_TEXT(ctl, ENGINE))]
		.engine;
}

static void read_request(struct gm_ctl_planning *p)
{
	const struct gm_ctl *ctl = p->ctl;
	struct gpumap_plan_request *ask = &p->q.ask;
	struct gm_plan_error error = { .code = 0 };
	char *text = NULL;
	size_t n;

	if (GM_TEXT(ctl, MODEL) == NULL)
		gm_ctl_plan_wrong(ctl, "give --model, a checkpoint's directory "
				       "or a GGUF file");
	if (GM_TEXT(ctl, NODE) != NULL && GM_TEXT(ctl, COMMIT) != NULL)
		gm_ctl_plan_wrong(ctl, "what is planned on a --node file "
				       "cannot be committed");
	if (GM_GIVEN(ctl, LIKE) &&
	    strcmp(GM_TEXT(ctl, LIKE), "mistral.rs") != 0)
		gm_ctl_plan_wrong(ctl, "--like is mistral.rs");
	if (GM_GIVEN(ctl, LIKE) && GM_TEXT(ctl, COMMIT) != NULL)
		gm_ctl_plan_wrong(ctl, "a plan with --like shows what another "
				       "engine would do, and cannot be "
				       "committed: commit its spec");
	ask->setting = read_setting(ctl);
	ask->engine = read_engine(ctl);
	ask->strategy = GPUMAP_STRATEGY_FILL;
	if (GM_GIVEN(ctl, STRATEGY) &&
	    gm_auto_strategy_parse(GM_TEXT(ctl, STRATEGY), &ask->strategy,
				   NULL) != 0)
		gm_ctl_plan_wrong(ctl, "--strategy is fill, balance or fewest");
	if (GM_GIVEN(ctl, STRATEGY) && ask->setting != GPUMAP_SETTING_AUTO &&
	    ask->setting != GPUMAP_SETTING_TOPOLOGY)
		gm_ctl_plan_wrong(ctl,
				  "--strategy is for automatic maps: leave "
				  "it out, or what places the layers");
	ask->compute_dtype = gm_ctl_plan_dtype(ctl);
	read_paged(ctl, ask);
	ask->max_seq_len = GM_NUMBER(ctl, MAX_SEQ_LEN) != 0
				   ? GM_NUMBER(ctl, MAX_SEQ_LEN)
				   : GM_PLAN_SEQ_LEN;
	ask->max_batch_size = GM_NUMBER(ctl, MAX_BATCH) != 0
				      ? (uint32_t)GM_NUMBER(ctl, MAX_BATCH)
				      : GM_PLAN_BATCH_SIZE;
	if (GM_NUMBER(ctl, BASE) >= GPUMAP_ROWS_MAX ||
	    GM_NUMBER(ctl, MAX_BATCH) > UINT32_MAX)
		gm_ctl_plan_wrong(ctl, "a number is too large");
	if (GM_GIVEN(ctl, BASE)) {
		ask->flags |= GPUMAP_PLAN_BASE;
		ask->base_row = (uint32_t)GM_NUMBER(ctl, BASE);
	}
	/* A map to commit must fit. */
	p->q.must_fit = true;
	ask->weights = GM_TEXT(ctl, WEIGHTS);
	ask->text = GM_TEXT(ctl, SPEC) != NULL ? GM_TEXT(ctl, SPEC)
					       : GM_TEXT(ctl, SPLIT);
	if (!GM_GIVEN(ctl, TOPOLOGY))
		return;
	if (gm_file_text(GM_TEXT(ctl, TOPOLOGY),
			 "give the path of a topology file",
			 GM_TOPOLOGY_FILE_BYTES, &text, &n, &error) != 0 ||
	    gm_topology_file_parse(text, strlen(text), &p->topology, &error) !=
		    0)
		gm_ctl_plan_error(&error);
	free(text);
	p->text = gm_topology_print(&p->topology);
	if (p->text == NULL)
		gm_ctl_fail(ctl, -ENOMEM, "plan");
	ask->text = p->text;
	p->q.topology = &p->topology;
}

static void file_read(void *data, uint32_t n_read, uint32_t n_files)
{
	struct gm_progress *progress = data;

	gm_progress_tell(progress, n_read, n_files);
	GM_POINT("progress_told");
}

void gm_ctl_measure(const struct gm_ctl *ctl,
		    struct gm_weights_sizes *ret_sizes)
{
	struct gm_progress progress = { .look = NULL };
	const struct gm_weights_watch watch = { file_read, &progress };
	struct gm_plan_error error;
	struct gm_reason why;
	int ret;

	gm_progress_begin(&progress, ctl, "read headers", NULL, "files", 0);
	ret = gm_weights_measure(GM_TEXT(ctl, MODEL), &watch, &why, ret_sizes);
	gm_progress_end(&progress, ret == 0);
	if (ret == 0)
		return;
	gm_error_of_sentence(&error, ret, why.text);
	gm_ctl_plan_error(&error);
}

/* Take --kv-elements for the layers of which it is not known what they keep.
 * Too little would be reserved for them, and a plan without any cache is of no
 * use; mistral.rs keeps what config.json says. */
static void complete_caches(const struct gm_ctl *ctl,
			    struct gm_weights_sizes *sizes)
{
	bool is_bound = GM_TEXT(ctl, COMMIT) != NULL || GM_GIVEN(ctl, NODES);
	uint32_t layer = 0, n_known = 0;

	for (uint32_t i = 0; i < sizes->n_caches; i++)
		n_known += sizes->caches[i].n_heads > 0;
	if (n_known == 0 && !GM_GIVEN(ctl, LIKE))
		is_bound = true;
	for (uint32_t i = 0; i < sizes->n_caches; i++) {
		struct gpumap_layer_cache *c = &sizes->caches[i];

		if (c->n_heads == 0 && GM_GIVEN(ctl, KV_ELEMENTS)) {
			c->n_heads = 1;
			c->token_elements = GM_NUMBER(ctl, KV_ELEMENTS);
		} else if (c->n_heads == 0 && is_bound) {
			gm_ctl_failed("neither the tensors nor the metadata of "
				      "%s say what layer %u keeps of a "
				      "sequence: give --kv-elements, the "
				      "elements of its keys and values of a "
				      "token",
				      gm_reason_path(GM_TEXT(ctl, MODEL)),
				      layer);
		}
		layer += c->n_layers;
	}
}

uint32_t gm_ctl_plan_model(const struct gm_ctl *ctl,
			   struct gm_weights_sizes *ret_sizes,
			   struct gpumap_plan_request *ret_ask,
			   enum gm_isq *ret_isq)
{
	struct gm_plan_error error = { .code = 0 };
	uint32_t weight_bytes, factor;

	gm_ctl_measure(ctl, ret_sizes);
	complete_caches(ctl, ret_sizes);
	weight_bytes = gm_plan_of_sizes(ret_sizes, ret_ask);
	*ret_isq = GM_ISQ_N;
	if (!GM_GIVEN(ctl, ISQ))
		return weight_bytes;
	if (gm_isq_parse(GM_TEXT(ctl, ISQ), ret_isq, &error) != 0)
		gm_ctl_wrong("--isq: %s", error.text);
	if (weight_bytes == 0)
		gm_ctl_failed("--isq: the weights are %s, which is not "
			      "quantised further: leave it out",
			      gm_weights_type(ret_sizes->type));
	/* Divide what the model takes by what quantising would save. */
	factor = gm_isq_pack_factor(*ret_isq, weight_bytes);
	for (uint32_t i = 0; i < ret_ask->n_layers; i++)
		ret_sizes->layer_bytes[i] /= factor;
	ret_ask->other_bytes /= factor;
	ret_ask->tied_bytes /= factor;
	ret_sizes->head_bytes /= factor;
	return 0; /* advice packs no more */
}

/* ---- rows ---------------------------------------------------------------- */

static void rows_of_agent(const struct gm_ctl *ctl,
			  struct gm_ctl_node *ret_node)
{
	uint32_t n = gpumap_device_count(ctl->map);

	for (uint32_t row = 0; row < n; row++) {
		struct gpumap_device d = { .size = sizeof(d) };
		int ret = gpumap_device_read(ctl->map, row, &d);
		bool is_host;

		if (ret != 0)
			gm_ctl_fail(ctl, ret, "row %u", row);
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
			.avail = gm_ctl_avail(d.free_bytes, d.reserved_bytes,
					      d.used_by_holders),
			.total = d.total_bytes,
			.speed = gm_plan_speed(is_host, d.units, d.free_bytes,
					       d.cc_major),
		};
	}
}

/* Keep only the rows of --rows, in its order, or those that a plan may take
 * without it. */
static void choose_rows(struct gm_ctl_planning *p)
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
		return;
	if (gm_plan_is_drained(&p->q, row))
		gm_ctl_failed("row %u is drained or cordoned: gpumapctl "
			      "undrain or uncordon brings it back; or leave it "
			      "out",
			      row);
	if (GM_TEXT(ctl, NODE) != NULL)
		gm_ctl_failed("there is no row %u to plan on: %s has 0 to %u",
			      row, GM_TEXT(ctl, NODE), n - 1);
	gm_ctl_failed("there is no row %u to plan on: see gpumapctl devices",
		      row);
}

struct gm_ctl_planning *gm_ctl_plan_read(struct gm_ctl *ctl)
{
	struct gm_ctl_planning *p = gm_ctl_alloc(1, sizeof(*p));
	struct gm_plan_error error = { .code = 0 };
	struct gm_nodefile file;

	p->ctl = ctl;
	read_request(p);
	p->q.weight_bytes =
		gm_ctl_plan_model(ctl, &p->model, &p->q.ask, &p->isq);
	if (GM_GIVEN(ctl, LIKE)) {
		const struct gm_weights_config *config = &p->model.config;

		/* The shape that mistral.rs reads in config.json. */
		p->like = (struct gm_kv_shape){
			.n_heads = config->n_kv_heads,
			.k_dim = config->k_dim,
			.v_dim = config->v_dim,
			.is_mla = config->kv_lora_rank > 0,
			.kv_lora_rank = config->kv_lora_rank,
			.kpe_head_dim = config->kpe_head_dim,
		};
		/* There the head is with the other weights of no layer. */
		p->model.layer_bytes[p->model.n_layers - 1] -=
			p->model.head_bytes;
		p->q.ask.other_bytes += p->model.head_bytes;
		p->q.ask.tied_bytes = 0;
		p->q.like = &p->like;
	}
	if (GM_TEXT(ctl, NODE) != NULL) {
		if (gm_nodefile_read(GM_TEXT(ctl, NODE), &file, &error) != 0)
			gm_ctl_plan_error(&error);
		memcpy(p->node.name, file.name, sizeof(p->node.name));
		gm_nodefile_devices(&file, p->node.devices);
		p->node.n = file.n_rows;
		for (uint32_t i = 0; i < file.n_rows; i++)
			memcpy(p->node.names[i], file.rows[i].name,
			       sizeof(p->node.names[i]));
		gm_nodefile_free(&file);
	} else {
		if (ctl->map == NULL)
			gm_ctl_attach(ctl);
		rows_of_agent(ctl, &p->node);
	}
	choose_rows(p);
	return p;
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
