/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* Tell the command's engine which devices and which layers it has, as
 * gpumapctl export does; or which share of its card's memory. */

#include <stdio.h>
#include <string.h>

#include <gpumap/engine.h>

#include "agent/ctl/run/run.h"

/* Other spellings of an option that export writes. */
static const struct {
	const char *option;
	const char *alias;
} aliases[] = {
	{ "--tensor-parallel-size", "-tp" },
	{ "--tensor-parallel-size", "--tp-size" },
	{ "--tensor-parallel-size", "--tp" },
	{ "--pipeline-parallel-size", "-pp" },
	{ "--pipeline-parallel-size", "--pp-size" },
	{ "--pipeline-parallel-size", "--pp" },
};

static bool of_a_map(const struct gm_run *run)
{
	return GM_TEXT(run->ctl, RESERVE) == NULL;
}

/* The rows of the command that are cards, in their order.  Returns how many.
 */
static uint32_t cards_of(const struct gm_run *run,
			 uint32_t ret_cards[GPUMAP_ROWS_MAX])
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < run->n_rows; i++) {
		struct gpumap_device device = { .size = sizeof(device) };

		if (gpumap_device_read(run->ctl->map, run->rows[i], &device) ==
			    0 &&
		    (device.flags & GPUMAP_DEVICE_CARD) != 0)
			ret_cards[n++] = run->rows[i];
	}
	return n;
}

/* ---- arguments ----------------------------------------------------------- */

/* Is @word the option, alone or with its value?  Engines of Python take '_' for
 * '-'. */
static bool is_option(const char *word, const char *option)
{
	for (; *option != '\0'; word++, option++)
		if (*word != *option && !(*word == '_' && *option == '-'))
			return false;
	return *word == '\0' || *word == '=';
}

/* The word of COMMAND that is this option already; NULL: none. */
static const char *has_option(const struct gm_run *run, const char *option)
{
	for (int i = 1; i < run->ctl->n_args; i++) {
		const char *word = run->ctl->args[i];

		if (is_option(word, option))
			return word;
		for (size_t k = 0; k < sizeof(aliases) / sizeof(aliases[0]);
		     k++)
			if (strcmp(aliases[k].option, option) == 0 &&
			    is_option(word, aliases[k].alias))
				return word;
	}
	return NULL;
}

/* Add an option with its value, unless the command has it. */
static void add_option(struct gm_run *run, const char *option,
		       const char *value)
{
	const char *word = has_option(run, option);

	if (word != NULL) {
		gm_run_say("%s stays as the command has it; without it, it "
			   "would be %s %s",
			   word, option, value);
		return;
	}
	gm_run_add(&run->argv, "%s", option);
	gm_run_add(&run->argv, "%s", value);
}

/* ---- the settings of a map ----------------------------------------------- */

static int take(struct gm_run *run, const struct gpumap_engine_settings *s)
{
	for (uint32_t i = 0; i < s->n_argv; i++)
		if (strcmp(s->argv[i], "--topology") == 0)
			return gm_run_failed(
				"this map needs a topology file: write it with "
				"gpumapctl export --format yaml, and give its "
				"arguments to the command, without --for");
	for (uint32_t i = 0; i < s->n_env; i++)
		gm_run_add(&run->env, "%s", s->env[i]);
	for (uint32_t i = 0; i + 1 < s->n_argv; i += 2)
		add_option(run, s->argv[i], s->argv[i + 1]);
	if (s->exact == 0 && run->engine != GPUMAP_ENGINE_ENV)
		gm_run_say("the engine's settings do not place every layer as "
			   "the map does");
	for (uint32_t i = 0; i < s->n_notes; i++)
		gm_run_say("%s", s->notes[i]);
	return GM_EXIT_OK;
}

/* Export the map @name.  @ret_settings may be NULL. */
static int export(const struct gm_run *run, const char *name,
		  struct gpumap_engine_settings **ret_settings)
{
	struct gpumap_engine_request request = {
		.size = sizeof(request),
		.engine = run->engine,
		.flags = run->engine == GPUMAP_ENGINE_LLAMA_CPP
				 ? GPUMAP_ENGINE_BY_ENV
				 : 0,
		.model = GM_TEXT(run->ctl, MODEL),
	};
	struct gpumap_engine_settings *settings = NULL;
	int ret =
		gpumap_engine_export(run->ctl->map, name, &request, &settings);

	if (ret != 0)
		return gm_ctl_fail(run->ctl, ret, "run: --for %s",
				   GM_TEXT(run->ctl, FOR));
	if (ret_settings != NULL)
		*ret_settings = settings;
	else
		gpumap_engine_free(settings);
	return GM_EXIT_OK;
}

static int set_map(struct gm_run *run)
{
	const char *name = GM_TEXT(run->ctl, MAP);
	struct gpumap_engine_settings *settings;
	int ret = export(run, name != NULL ? name : run->name, &settings);

	if (ret != GM_EXIT_OK)
		return ret;
	ret = take(run, settings);
	gpumap_engine_free(settings);
	return ret;
}

/* ---- bytes alone --------------------------------------------------------- */

/* Name the devices to any program. */
static int set_devices(struct gm_run *run)
{
	uint32_t cards[GPUMAP_ROWS_MAX], n = cards_of(run, cards);
	struct gpumap_engine_request request = { .size = sizeof(request),
						 .engine = GPUMAP_ENGINE_ENV,
						 .rows = cards,
						 .n_layers = n };
	struct gpumap_engine_settings *settings;
	int ret;

	if (n == 0) {
		/* As gpumap_engine_export() does: some programs take an empty
		 * text for none. */
		gm_run_add(&run->env, "CUDA_VISIBLE_DEVICES=-1");
		gm_run_add(&run->env, "CUDA_DEVICE_ORDER=PCI_BUS_ID");
		return GM_EXIT_OK;
	}
	request.base_row = cards[0];
	ret = gpumap_engine_export(run->ctl->map, NULL, &request, &settings);
	if (ret != 0)
		return gm_ctl_fail(run->ctl, ret, "run");
	for (uint32_t i = 0; i < settings->n_env; i++)
		gm_run_add(&run->env, "%s", settings->env[i]);
	gpumap_engine_free(settings);
	return GM_EXIT_OK;
}

/* The reserved thousandths of the card that has the least; 0: there is no card.
 */
static uint32_t least_share(const struct gm_run *run)
{
	uint32_t cards[GPUMAP_ROWS_MAX], n = cards_of(run, cards);
	uint64_t least = n > 0 ? 1000 : 0;

	for (uint32_t i = 0; i < n; i++) {
		struct gpumap_device device = { .size = sizeof(device) };

		if (gpumap_device_read(run->ctl->map, cards[i], &device) != 0 ||
		    device.total_bytes == 0)
			return 0;
		if (run->bytes < device.total_bytes &&
		    run->bytes * 1000 / device.total_bytes < least)
			least = run->bytes * 1000 / device.total_bytes;
	}
	return (uint32_t)least;
}

static void set_share(struct gm_run *run)
{
	const char *option =
		run->engine == GPUMAP_ENGINE_VLLM ? "--gpu-memory-utilization"
		: run->engine == GPUMAP_ENGINE_SGLANG ? "--mem-fraction-static"
						      : NULL;
	uint32_t share = least_share(run);
	char value[16];

	if (option == NULL || share == 0) {
		if (run->engine != GPUMAP_ENGINE_ENV)
			gm_run_say(
				"%s is not told how much memory is reserved: "
				"%s",
				GM_TEXT(run->ctl, FOR),
				option == NULL
					? "it has no setting for that"
					: "that is less than a thousandth "
					  "of a card");
		return;
	}
	snprintf(value, sizeof(value), "%u.%03u", share / 1000, share % 1000);
	add_option(run, option, value);
}

/* ---- both ---------------------------------------------------------------- */

int gm_run_engine_check(struct gm_run *run)
{
	if (run->engine == GPUMAP_ENGINE_ACCELERATE)
		return gm_run_wrong("accelerate has its device_map from the "
				    "program: use gpumapctl export");
	if (run->engine == 0 || GM_TEXT(run->ctl, MAP) == NULL)
		return GM_EXIT_OK;
	return export(run, GM_TEXT(run->ctl, MAP), NULL);
}

int gm_run_engine_set(struct gm_run *run)
{
	int ret;

	if (run->engine != 0 && of_a_map(run))
		return set_map(run);
	ret = set_devices(run);
	if (ret == GM_EXIT_OK && run->engine != 0)
		set_share(run);
	return ret;
}
