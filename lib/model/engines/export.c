/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "lib/model/engines/engine.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/model/model.h"

static const struct {
	const char *name;
	int (*run)(struct gm_engine_job *job);
	bool takes_ranks; /* each with a part of every layer */
} engines[] = {
	[GPUMAP_ENGINE_ENV] = { "the program", gm_engine_env, true },
	[GPUMAP_ENGINE_LLAMA_CPP] = { "llama.cpp", gm_engine_llama_cpp, false },
	[GPUMAP_ENGINE_OLLAMA] = { "ollama", gm_engine_llama_cpp, false },
	[GPUMAP_ENGINE_VLLM] = { "vLLM", gm_engine_pipeline, true },
	[GPUMAP_ENGINE_SGLANG] = { "SGLang", gm_engine_pipeline, true },
	[GPUMAP_ENGINE_MISTRAL_RS] = { "mistral.rs", gm_engine_mistral_rs,
				       false },
	[GPUMAP_ENGINE_ACCELERATE] = { "accelerate", gm_engine_accelerate,
				       false },
};

#define N_ENGINES (sizeof(engines) / sizeof(engines[0]))

/* ---- lists --------------------------------------------------------------- */

static void append(struct gm_engine_job *job, struct gm_engine_list *list,
		   char *text)
{
	if (text != NULL && list->n + 1 >= list->room) {
		uint32_t room = list->room > 0 ? 2 * list->room : 8;
		char **v = realloc(list->v, room * sizeof(*v));

		if (v == NULL) {
			free(text);
			text = NULL;
		} else {
			list->v = v;
			list->room = room;
		}
	}
	if (text == NULL) {
		job->no_memory = true;
		return;
	}
	list->v[list->n++] = text;
	list->v[list->n] = NULL;
}

static void add(struct gm_engine_job *job, struct gm_engine_list *list,
		const char *format, va_list args)
	__attribute__((format(printf, 3, 0)));

static void add(struct gm_engine_job *job, struct gm_engine_list *list,
		const char *format, va_list args)
{
	char *text;

	if (vasprintf(&text, format, args) < 0)
		text = NULL;
	append(job, list, text);
}

void gm_engine_add(struct gm_engine_job *job, struct gm_engine_list *list,
		   const char *format, ...)
{
	va_list args;

	va_start(args, format);
	add(job, list, format, args);
	va_end(args);
}

void gm_engine_option(struct gm_engine_job *job, const char *option,
		      const char *format, ...)
{
	va_list args;

	append(job, &job->argv, strdup(option));
	va_start(args, format);
	add(job, &job->argv, format, args);
	va_end(args);
}

static void free_list(char **v)
{
	for (char **at = v; at != NULL && *at != NULL; at++)
		free(*at);
	free(v);
}

/* ---- the model ----------------------------------------------------------- */

int gm_engine_read_model(struct gm_engine_job *job,
			 struct gm_weights *ret_weights, int32_t **ret_layers,
			 struct gm_layers_stack *ret_stack)
{
	const struct gm_layers_sought sought = { .map = job->map_name,
						 .bytes = job->layer_bytes,
						 .n_layers = job->n_layers };
	struct gm_reason why = { .text = "" };
	struct gm_weights weights;
	int32_t *layers = NULL;
	int ret = gm_weights_read(job->request.model, NULL, &why, &weights);

	if (ret != 0)
		return gm_refuse(job->map, ret, "%s", why.text);
	layers = calloc(weights.n + 1, sizeof(*layers));
	ret = layers == NULL ? -ENOMEM
			     : gm_weights_layers(&weights, &sought, layers,
						 ret_stack, &why);
	if (ret == 0) {
		*ret_weights = weights;
		*ret_layers = layers;
		return 0;
	}
	gm_weights_free(&weights);
	free(layers);
	return gm_refuse(job->map, ret, "%s", why.text);
}

/* ---- any program --------------------------------------------------------- */

int gm_engine_env(struct gm_engine_job *job)
{
	int ret = gm_engine_devices(job, true);

	if (ret == 0)
		ret = gm_engine_one_host(job);
	if (ret == 0 &&
	    job->n_cards + (job->host_row != GM_ENGINE_NO_ROW) > 1) {
		job->exact = false;
		gm_engine_add(job, &job->notes,
			      "Which layer goes to which device is for the "
			      "program to decide.");
	}
	return ret;
}

/* ---- the map and the table ----------------------------------------------- */

/* Memory that a job reads. */
struct input {
	struct gpumap_device *devices;
	struct gm_model_layers map;
};

static int read_map(struct gm_engine_job *job, const char *name,
		    struct gm_model_layers *l)
{
	int ret = gm_model_layers_read(job->map, name, l);

	if (ret == -ENOENT)
		return gm_refuse(job->map, ret,
				 "there is no layer map \"%s\"; gpumapctl maps "
				 "lists them",
				 name);
	if (ret == -ENOMEM)
		return gm_refuse_memory(job->map,
					12 * (size_t)l->facts.n_layers);
	if (ret != 0)
		return gm_refuse_plain(job->map, ret);
	job->rows = l->rows;
	job->layer_bytes = l->bytes;
	job->n_layers = l->facts.n_layers;
	job->base_row = l->facts.base_row;
	job->has_ranks = l->facts.setting == GPUMAP_SETTING_NCCL;
	if (job->has_ranks)
		job->n_layers = l->facts.n_rows;
	for (uint32_t i = 0; i < job->n_layers && job->has_ranks; i++)
		l->rows[i] = l->charges[i].row;
	return 0;
}

static int read_table(const struct gpumap *map,
		      const struct gpumap_engine_request *request,
		      struct input *input, uint32_t *ret_n)
{
	uint32_t n =
		map != NULL ? gpumap_device_count(map) : request->n_devices;
	const char *from = (const char *)request->devices;
	int ret = 0;

	if (n > GPUMAP_ROWS_MAX || (map == NULL && n > 0 && from == NULL))
		return gm_refuse(map, -EINVAL, "a table has at most %u devices",
				 GPUMAP_ROWS_MAX);
	input->devices = calloc(n + 1, sizeof(*input->devices));
	if (input->devices == NULL)
		return gm_refuse_memory(map, n * sizeof(*input->devices));
	for (uint32_t row = 0; ret == 0 && row < n; row++) {
		struct gpumap_device *d = &input->devices[row];

		d->size = sizeof(*d);
		if (map == NULL)
			ret = gm_map_size_in(
				map, d, sizeof(*d),
				from + row * request->devices->size);
		else
			ret = gpumap_device_read(map, row, d);
	}
	*ret_n = n;
	return ret == 0 || map == NULL ? ret : gm_refuse_plain(map, ret);
}

static int read_input(struct gm_engine_job *job, const char *name,
		      struct input *input)
{
	const struct gpumap_engine_request *request = &job->request;
	int ret = read_table(job->map, request, input, &job->n_devices);

	job->devices = input->devices;
	job->rows = request->rows;
	job->layer_bytes = request->layer_bytes;
	job->n_layers = request->n_layers;
	job->base_row = request->base_row;
	if (ret == 0 && name != NULL)
		ret = read_map(job, name, &input->map);
	if (ret != 0)
		return ret;
	if (job->n_layers > GM_LAYERS_MAX)
		return gm_refuse(job->map, -E2BIG,
				 "a layer map has at most %u layers",
				 GM_LAYERS_MAX);
	if (job->n_layers == 0 || job->rows == NULL)
		return gm_refuse(job->map, -EINVAL,
				 "the request has no layers, and no map is "
				 "named");
	if (job->base_row >= job->n_devices)
		return gm_refuse(job->map, -ENODEV,
				 "base row %u does not exist", job->base_row);
	return 0;
}

/* ---- the public calls ---------------------------------------------------- */

/* Settings, and what they are freed by. */
struct gm_engine_result {
	struct gpumap_engine_settings settings; /* first */
	char **argv, **env, **notes;
	char *file;
	uint32_t rows[GPUMAP_ROWS_MAX];
};

static const char *const no_texts[] = { NULL };

static const char *const *texts_of(const struct gm_engine_list *list)
{
	return list->n > 0 ? (const char *const *)list->v : no_texts;
}

static struct gpumap_engine_settings *finish(const struct gm_engine_job *job)
{
	struct gm_engine_result *result = calloc(1, sizeof(*result));

	if (result == NULL)
		return NULL;
	result->argv = job->argv.v;
	result->env = job->env.v;
	result->notes = job->notes.v;
	result->file = job->file;
	memcpy(result->rows, job->cards, job->n_cards * sizeof(job->cards[0]));
	result->settings = (struct gpumap_engine_settings){
		.exact = job->exact,
		.n_argv = job->argv.n,
		.n_env = job->env.n,
		.n_notes = job->notes.n,
		.argv = texts_of(&job->argv),
		.env = texts_of(&job->env),
		.notes = texts_of(&job->notes),
		.file = job->file,
		.rows = result->rows,
		.n_rows = job->n_cards,
	};
	return &result->settings;
}

static int run(struct gm_engine_job *job,
	       struct gpumap_engine_settings **ret_settings)
{
	struct gpumap_engine_settings *settings = NULL;
	int ret;

	if (job->has_ranks && !engines[job->request.engine].takes_ranks)
		return gm_refuse(
			job->map, -EOPNOTSUPP,
			"the map has a part of every layer on each of "
			"%u rows, and the settings of %s are for whole "
			"layers: publish a map by another setting",
			job->n_layers, job->name);
	ret = engines[job->request.engine].run(job);

	if (ret == 0 && !job->no_memory)
		settings = finish(job);
	if (settings != NULL) {
		*ret_settings = settings;
		return 0;
	}
	free_list(job->argv.v);
	free_list(job->env.v);
	free_list(job->notes.v);
	free(job->file);
	return ret != 0 ? ret : gm_refuse_memory(job->map, job->n_layers);
}

int gpumap_engine_export(struct gpumap *map, const char *name,
			 const struct gpumap_engine_request *request,
			 struct gpumap_engine_settings **ret_settings)
{
	struct gm_engine_job job = { .map = map, .exact = true };
	struct input input = { .devices = NULL };
	uint32_t engine;
	int ret;

	gm_refuse_plain(map, 0);
	ret = gm_map_size_in(map, &job.request, sizeof(job.request), request);
	if (ret != 0)
		return ret;
	engine = job.request.engine;
	if (engine >= N_ENGINES || engines[engine].run == NULL)
		return gm_refuse(map, -EINVAL, "there is no engine %u", engine);
	if ((job.request.flags & ~GPUMAP_ENGINE_BY_ENV) != 0)
		return gm_refuse(map, -E2BIG,
				 "flags that this library does not know");
	if (map == NULL && name != NULL)
		return gm_refuse(map, -EINVAL,
				 "a map's name needs an attachment");
	job.name = engines[engine].name;
	job.map_name = name != NULL ? name : "of this request";
	ret = read_input(&job, name, &input);
	if (ret == 0)
		ret = run(&job, ret_settings);
	gm_model_layers_free(&input.map);
	free(input.devices);
	return ret;
}

void gpumap_engine_free(struct gpumap_engine_settings *settings)
{
	struct gm_engine_result *result = (struct gm_engine_result *)settings;

	if (result == NULL)
		return;
	free_list(result->argv);
	free_list(result->env);
	free_list(result->notes);
	free(result->file);
	free(result);
}
