/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* Print a layer map in the settings of an inference engine. */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <gpumap/engine.h>

#include "agent/ctl/plan.h"
#include "agent/files/nodefile.h"
#include "lib/model/plan/heads.h"
#include "lib/model/plan/place.h"
#include "shm/device_kinds.h"

/* Where a table has no driver: one that shows all MIG instances of a map. */
#define CUDA_VERSION 13000u

static const struct {
	const char *name; /* first, as in each choice */
	uint32_t engine;
} engines[] = {
	{ "llama.cpp", GPUMAP_ENGINE_LLAMA_CPP },
	{ "ollama", GPUMAP_ENGINE_OLLAMA },
	{ "vllm", GPUMAP_ENGINE_VLLM },
	{ "sglang", GPUMAP_ENGINE_SGLANG },
	{ "mistralrs", GPUMAP_ENGINE_MISTRAL_RS },
	{ "accelerate", GPUMAP_ENGINE_ACCELERATE },
	{ "env", GPUMAP_ENGINE_ENV },
};

enum format { JSON, ARGV, ENV, YAML };

static const char *const formats[] = { "json", "argv", "env", "yaml" };

static const struct gm_ctl_choice choice = GM_CHOICE("--format", formats);

const struct gm_ctl_choice gm_ctl_engines = GM_CHOICE("--for", engines);

uint32_t gm_ctl_engine(const struct gm_ctl *ctl)
{
	return engines[gm_ctl_choose_word(&gm_ctl_engines, GM_TEXT(ctl, FOR))]
		.engine;
}

static _Noreturn void wrong(const char *what)
{
	gm_ctl_wrong("export: %s; see gpumapctl(1)", what);
}

/* ---- a map on the rows of a node file ------------------------------------ */

struct offline {
	struct gpumap_device devices[GPUMAP_ROWS_MAX];
	struct gm_plan_device rows[GPUMAP_ROWS_MAX];
	struct gm_place place;
	uint32_t *layers; /* the row of each */
};

static void export_offline(const struct gm_ctl *ctl,
			   struct gpumap_engine_request *request,
			   struct gpumap_engine_settings **ret_settings)
{
	struct offline *to = gm_ctl_alloc(1, sizeof(*to));
	uint64_t base = GM_NUMBER(ctl, BASE);
	struct gm_place_request ask = {
		.devices = to->rows,
		.n_layers = GM_GIVEN(ctl, LAYERS) ? GM_NUMBER(ctl, LAYERS)
						  : GM_LAYERS_UNKNOWN,
		.host_layers = GM_LAYERS_REST,
		.base_row = GM_GIVEN(ctl, BASE) ? (uint32_t)base : GM_ROW_FIRST,
	};
	struct gm_plan_error error = { .code = 0 };
	struct gm_nodefile node;
	struct gm_spec spec;

	if (gm_nodefile_read(GM_TEXT(ctl, NODE), &node, &error) != 0)
		gm_ctl_plan_error(&error);
	gm_nodefile_devices(&node, to->rows);
	/* A node file has no addresses: each card gets one of its own, in the
	 * order of the file. */
	for (uint32_t row = 0; row < node.n_rows; row++) {
		const struct gm_nodefile_row *from = &node.rows[row];
		bool is_part = from->mig[0] != '\0';

		to->devices[row] = (struct gpumap_device){
			.size = sizeof(struct gpumap_device),
			.row = row,
			.kind = from->kind,
			.flags = gm_device_kind(from->kind)->flags |
				 (from->is_split ? GPUMAP_DEVICE_MIG : 0),
			.numa_node = from->numa_node,
			.pci_bus = (is_part ? from->parent : row) << 8,
			.mig_gi = is_part ? (int32_t)(row - from->parent) : -1,
			.mig_ci = is_part ? 0 : -1,
			.cuda_version = CUDA_VERSION,
		};
	}
	ask.n_devices = node.n_rows;
	if (GM_GIVEN(ctl, BASE) && base >= node.n_rows)
		gm_ctl_no_row(
			(uint32_t)(base < UINT32_MAX ? base : UINT32_MAX));
	if (gm_spec_parse(GM_TEXT(ctl, SPEC), &spec, &error) != 0)
		gm_ctl_plan_error(&error);
	ask.map = &spec;
	if (gm_place_make(&ask, &to->place, &error) != 0)
		gm_ctl_plan_error(&error);
	to->layers = gm_place_rows(&to->place);
	if (to->layers == NULL)
		gm_ctl_fail(ctl, -ENOMEM, "export");
	request->rows = to->layers;
	request->n_layers = (uint32_t)to->place.n_layers;
	request->base_row = to->place.base_row;
	request->devices = to->devices;
	request->n_devices = node.n_rows;
	if (gpumap_engine_export(NULL, NULL, request, ret_settings) != 0)
		gm_ctl_failed("export: %s", gpumap_refusal(NULL));
	gm_nodefile_free(&node);
	gm_spec_free(&spec);
	gm_place_free(&to->place);
	free(to->layers);
	free(to);
}

/* ---- what is printed ----------------------------------------------------- */

static void show(uint32_t engine, enum format format,
		 const struct gpumap_engine_settings *s)
{
	if (format == JSON) {
		json_t *object =
			json_pack("{s:o, s:o, s:b, s:o}", "argv",
				  gm_ctl_words_json(s->argv, s->n_argv), "env",
				  gm_ctl_words_env_json(s->env, s->n_env),
				  "exact", (int)s->exact, "notes",
				  gm_ctl_words_json(s->notes, s->n_notes));

		if (engine == GPUMAP_ENGINE_ACCELERATE)
			json_object_set_new(object, "device_map",
					    json_loads(s->file, 0, NULL));
		else if (s->file != NULL)
			json_object_set_new(object, "topology",
					    json_string(s->file));
		gm_ctl_print(object);
		return;
	}
	if (format == YAML && s->file == NULL)
		wrong("--format yaml is the topology of mistralrs, or the "
		      "device_map of accelerate");
	if (s->exact == 0)
		gm_ctl_say("these settings are not exact");
	for (uint32_t i = 0; i < s->n_notes; i++)
		gm_ctl_say("%s", s->notes[i]);
	for (uint32_t i = 0; format == ARGV && i < s->n_argv; i++) {
		if (i > 0)
			putchar(' ');
		gm_ctl_print_word(s->argv[i]);
	}
	if (format == ARGV)
		putchar('\n');
	for (uint32_t i = 0; format == ENV && i < s->n_env; i++)
		gm_ctl_words_print_env(s->env[i]);
	if (format == YAML)
		printf("%s%s", s->file,
		       engine == GPUMAP_ENGINE_ACCELERATE ? "\n" : "");
}

/* ---- the command --------------------------------------------------------- */

/* Can the ranks of the map divide the heads of --model? */
static void check_ranks(const struct gm_ctl *ctl)
{
	struct gpumap_layers head = { .size = sizeof(head) };
	struct gpumap_plan_request ask = { .size = sizeof(ask) };
	struct gm_plan_error error = { .code = 0 };
	struct gm_weights_sizes sizes;

	if (GM_TEXT(ctl, MODEL) == NULL ||
	    gpumap_layers_read(ctl->map, ctl->args[0], &head, NULL, NULL, 0,
			       NULL, 0) != 0 ||
	    head.setting != GPUMAP_SETTING_NCCL || head.n_rows == 0)
		return;
	gm_ctl_measure(ctl, &sizes);
	gm_plan_of_sizes(&sizes, &ask);
	if (gm_heads_check(&ask, head.n_rows, &error) != 0)
		gm_ctl_plan_error(&error);
	gm_weights_sizes_free(&sizes);
}

void gm_ctl_export(struct gm_ctl *ctl)
{
	bool offline = GM_TEXT(ctl, NODE) != NULL;
	struct gpumap_engine_request request = {
		.size = sizeof(request),
		.model = GM_TEXT(ctl, MODEL),
		.file_name = GM_TEXT(ctl, TOPOLOGY),
	};
	struct gpumap_engine_settings *settings = NULL;
	enum format format = JSON;
	int ret;

	if (offline == (ctl->n_args > 0) ||
	    offline != (GM_TEXT(ctl, SPEC) != NULL) ||
	    (!offline && (ctl->given & (GM_OPT(LAYERS) | GM_OPT(BASE))) != 0))
		wrong("give the NAME of a layer map, or --node with --spec");
	if (GM_NUMBER(ctl, LAYERS) > UINT32_MAX)
		wrong("--layers: a layer map has at most 65536");
	if (GM_TEXT(ctl, FOR) == NULL)
		wrong("give --for and an engine");
	if (GM_TEXT(ctl, FORMAT) != NULL)
		format = (enum format)gm_ctl_choose_word(&choice,
							 GM_TEXT(ctl, FORMAT));
	if (ctl->json && format != JSON)
		wrong("--json is a format of its own");
	request.engine = gm_ctl_engine(ctl);
	request.flags = format == ENV ? GPUMAP_ENGINE_BY_ENV : 0;
	if (offline) {
		export_offline(ctl, &request, &settings);
	} else {
		gm_ctl_attach(ctl);
		check_ranks(ctl);
		ret = gpumap_engine_export(ctl->map, ctl->args[0], &request,
					   &settings);
		if (ret != 0)
			gm_ctl_fail(ctl, ret, "export \"%s\"", ctl->args[0]);
	}
	show(request.engine, format, settings);
	gpumap_engine_free(settings);
}
