/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * llama.cpp, and ollama, whose llama-server gets the variables that ollama was
 * started with.
 *
 * llama.cpp counts N + 1 layers in a model of N: the last is the output.  The
 * last --n-gpu-layers of them go to devices, and the others to the
 * CPU.  The device of layer i, of those on devices, is the first whose share of
 * --tensor-split, added to those before it and divided by the sum, is above
 * i / layers on devices, in floats.  Whole numbers of layers as shares give
 * exactly these layers to each device: fewer than 2^17 layers on 15 devices
 * leave no rounding that could move one.
 *
 * So the settings can say what the CPU has first and then each device in one
 * range.  Layers elsewhere are named one by one, by --override-tensor: that
 * moves their weights, and not their KV cache.
 */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "lib/model/engines/engine.h"

#define DEVICES_MAX 15u /* of --tensor-split: one less than there can be */
/* Layers that are named one by one.  They become one regular expression, which
 * std::regex matches by recursion. */
#define MOVED_MAX 512u
#define TEXT_MAX  4096u

/* Where the shares place each layer, and which layers are to be elsewhere. */
struct split {
	uint32_t n_cpu;   /* layers before those on devices */
	uint32_t n_extra; /* layers of the file past the map's */
	uint32_t shares[GPUMAP_ROWS_MAX]; /* with the output's */
	uint32_t n_moved;
	uint32_t moved[MOVED_MAX];
};

static int count_extra(struct gm_engine_job *job, uint32_t *ret_n)
{
	struct gm_layers_stack stack = { .n_layers = 0 };
	struct gm_weights weights;
	int32_t *layers = NULL;
	int ret;

	*ret_n = 0;
	if (job->request.model == NULL)
		return 0;
	ret = gm_engine_read_model(job, &weights, &layers, &stack);
	if (ret != 0)
		return ret;
	*ret_n = (uint32_t)(stack.n_layers - job->n_layers);
	gm_weights_free(&weights);
	free(layers);
	return 0;
}

static int move(const struct gm_engine_job *job, struct split *split,
		uint32_t layer)
{
	if (split->n_moved == MOVED_MAX)
		return gm_refuse(
			job->map, -EOPNOTSUPP,
			"layer %u is on row %u: %s takes layers of the "
			"CPU first and then a range for each GPU, and "
			"not more than %u others; publish the map in "
			"that order",
			layer, job->rows[layer], job->name, MOVED_MAX);
	split->moved[split->n_moved++] = layer;
	return 0;
}

/* Each device's range begins where the map names the device for the first
 * time. */
static int make_split(struct gm_engine_job *job, struct split *split)
{
	int32_t at = -1;
	int ret = count_extra(job, &split->n_extra);

	for (uint32_t i = 0; ret == 0 && i < job->n_layers; i++) {
		int32_t card = gm_engine_card(job, i);

		if (card > at)
			at = card;
		if (at >= (int32_t)DEVICES_MAX)
			return gm_refuse(job->map, -EOPNOTSUPP,
					 "layer %u is on row %u: %s shares "
					 "layers out over %u GPUs at most; "
					 "publish the map with fewer rows",
					 i, job->rows[i], job->name,
					 DEVICES_MAX);
		if (at < 0)
			split->n_cpu++;
		else
			split->shares[at]++;
		if (at != card)
			ret = move(job, split, i);
	}
	if (at >= 0)
		split->shares[at] += 1 + split->n_extra;
	return ret;
}

/* ---- texts --------------------------------------------------------------- */

/* "1,2", or "CUDA0,CUDA1". */
static void list_shares(const struct gm_engine_job *job,
			const struct split *split, char ret_shares[TEXT_MAX],
			char ret_devices[TEXT_MAX])
{
	size_t n = 0, m = 0;

	for (uint32_t i = 0; i < job->n_cards; i++) {
		const char *comma = i > 0 ? "," : "";

		n += (size_t)snprintf(ret_shares + n, TEXT_MAX - n, "%s%u",
				      comma, split->shares[i]);
		m += (size_t)snprintf(ret_devices + m, TEXT_MAX - m, "%sCUDA%u",
				      comma, i);
	}
}

/* "^blk\.(5|6)\.=CPU,^blk\.(9)\.=CUDA1": one for each device. */
static void list_moved(const struct gm_engine_job *job,
		       const struct split *split, char ret_text[TEXT_MAX])
{
	size_t n = 0;

	for (int32_t card = -1; card < (int32_t)job->n_cards; card++) {
		bool is_first = true;
		char name[16] = "CPU";

		if (card >= 0)
			snprintf(name, sizeof(name), "CUDA%d", card);
		for (uint32_t i = 0; i < split->n_moved; i++) {
			if (gm_engine_card(job, split->moved[i]) != card)
				continue;
			n += (size_t)snprintf(
				ret_text + n, TEXT_MAX - n, "%s%u",
				is_first ? n > 0 ? ",^blk\\.(" : "^blk\\.("
					 : "|",
				split->moved[i]);
			is_first = false;
		}
		if (!is_first)
			n += (size_t)snprintf(ret_text + n, TEXT_MAX - n,
					      ")\\.=%s", name);
	}
}

static void set(struct gm_engine_job *job, const char *option,
		const char *variable, const char *value)
{
	if (job->request.engine == GPUMAP_ENGINE_OLLAMA ||
	    (job->request.flags & GPUMAP_ENGINE_BY_ENV) != 0)
		gm_engine_add(job, &job->env, "%s=%s", variable, value);
	else
		gm_engine_option(job, option, "%s", value);
}

static void set_all(struct gm_engine_job *job, const struct split *split)
{
	char shares[TEXT_MAX], devices[TEXT_MAX], moved[TEXT_MAX] = "";
	char count[16] = "0";

	list_shares(job, split, shares, devices);
	list_moved(job, split, moved);
	if (job->n_cards > 0)
		snprintf(count, sizeof(count), "%u",
			 job->n_layers + split->n_extra + 1 - split->n_cpu);
	set(job, "--device", "LLAMA_ARG_DEVICE",
	    job->n_cards > 0 ? devices : "none");
	set(job, "--n-gpu-layers", "LLAMA_ARG_N_GPU_LAYERS", count);
	if (job->n_cards > 0) {
		set(job, "--split-mode", "LLAMA_ARG_SPLIT_MODE", "layer");
		set(job, "--tensor-split", "LLAMA_ARG_TENSOR_SPLIT", shares);
	}
	if (split->n_moved > 0)
		set(job, "--override-tensor", "LLAMA_ARG_OVERRIDE_TENSOR",
		    moved);
	set(job, "--fit", "LLAMA_ARG_FIT", "off");
}

/* ---- notes --------------------------------------------------------------- */

static void tell_rest(struct gm_engine_job *job, const struct split *split)
{
	uint32_t last = job->n_cards > 0 ? job->cards[job->n_cards - 1] : 0;

	if (job->n_cards == 0)
		return;
	gm_engine_add(job, &job->notes,
		      "%s keeps the token embeddings on the CPU; the map has "
		      "them on row %u.",
		      job->name, job->base_row);
	if (split->n_extra > 0)
		gm_engine_add(job, &job->notes,
			      "The %u layers of the file past the map's are on "
			      "row %u as well.",
			      split->n_extra, last);
}

static void tell_moved(struct gm_engine_job *job, const struct split *split)
{
	if (split->n_moved == 0)
		return;
	job->exact = false;
	gm_engine_add(job, &job->notes,
		      "The weights of %u layers, the first of them layer %u, "
		      "are on the map's rows, but their KV cache is with the "
		      "layers before them: a map with the host's layers first, "
		      "and each GPU's in one piece, is followed whole.",
		      split->n_moved, split->moved[0]);
}

static void tell_ollama(struct gm_engine_job *job)
{
	if (job->request.engine != GPUMAP_ENGINE_OLLAMA)
		return;
	if (job->n_cards > 1)
		gm_engine_add(job, &job->env, "OLLAMA_SCHED_SPREAD=1");
	gm_engine_add(
		job, &job->notes,
		"These are for ollama serve, of a release that starts "
		"llama-server, and for every model that it loads: num_gpu "
		"and main_gpu of a request or a Modelfile prevail.");
}

int gm_engine_llama_cpp(struct gm_engine_job *job)
{
	struct split split = { .n_cpu = 0 };
	int ret = gm_engine_devices(job, false);

	if (ret == 0)
		ret = gm_engine_one_host(job);
	if (ret == 0)
		ret = make_split(job, &split);
	if (ret != 0)
		return ret;
	set_all(job, &split);
	tell_rest(job, &split);
	tell_moved(job, &split);
	tell_ollama(job);
	return 0;
}
