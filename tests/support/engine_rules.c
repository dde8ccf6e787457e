/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "tests/support/engine_rules.h"

#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <gpumap/engine.h>

#define NO_DEVICE (-2)

const char *rules_option(const struct gpumap_engine_settings *s,
			 const char *name)
{
	for (uint32_t i = 0; i + 1 < s->n_argv; i++)
		if (strcmp(s->argv[i], name) == 0)
			return s->argv[i + 1];
	return NULL;
}

const char *rules_variable(const struct gpumap_engine_settings *s,
			   const char *name)
{
	size_t n = strlen(name);

	for (uint32_t i = 0; i < s->n_env; i++)
		if (strncmp(s->env[i], name, n) == 0 && s->env[i][n] == '=')
			return s->env[i] + n + 1;
	return NULL;
}

int rules_row(const struct gpumap_engine_settings *s, uint32_t ordinal)
{
	const char *at = rules_variable(s, "CUDA_VISIBLE_DEVICES");
	unsigned int byte;

	for (uint32_t i = 0; at != NULL && i < ordinal; i++) {
		at = strchr(at, ',');
		at = at != NULL ? at + 1 : NULL;
	}
	if (at == NULL || strcmp(at, "-1") == 0 ||
	    (sscanf(at, "GPU-%2x", &byte) != 1 &&
	     sscanf(at, "MIG-%2x", &byte) != 1))
		return NO_DEVICE;
	return (int)byte - 1;
}

/* ---- llama.cpp ----------------------------------------------------------- */

struct llama {
	int devices[16]; /* rows */
	uint32_t n_devices;
	float shares[16];
	uint32_t n_shares;
	long n_gpu_layers;
};

/* An option, or the variable that stands for it. */
static const char *either(const struct gpumap_engine_settings *s,
			  const char *option, const char *variable)
{
	const char *text = rules_option(s, option);

	return text != NULL ? text : rules_variable(s, variable);
}

/* "CUDA0" as the name of a device or of its buffers; "CPU" of buffers only. */
static int named_row(const struct gpumap_engine_settings *s, const char *name,
		     size_t n)
{
	unsigned int ordinal;

	if (n == 3 && memcmp(name, "CPU", 3) == 0)
		return RULES_CPU;
	if (n < 5 || sscanf(name, "CUDA%u", &ordinal) != 1)
		return NO_DEVICE;
	return rules_row(s, ordinal);
}

static bool read_llama(const struct gpumap_engine_settings *s,
		       struct llama *ret)
{
	const char *text = either(s, "--device", "LLAMA_ARG_DEVICE");
	const char *fit = either(s, "--fit", "LLAMA_ARG_FIT");
	const char *mode = either(s, "--split-mode", "LLAMA_ARG_SPLIT_MODE");
	const char *count =
		either(s, "--n-gpu-layers", "LLAMA_ARG_N_GPU_LAYERS");
	char *end;

	memset(ret, 0, sizeof(*ret));
	if (fit == NULL || strcmp(fit, "off") != 0 || text == NULL ||
	    count == NULL || (mode != NULL && strcmp(mode, "layer") != 0))
		return false;
	ret->n_gpu_layers = strtol(count, &end, 10);
	if (*end != '\0' || ret->n_gpu_layers < 0)
		return false;
	if (strcmp(text, "none") == 0)
		return true;
	for (;; text++) {
		size_t n = strcspn(text, ",");
		int row = named_row(s, text, n);

		if (row < 0 || ret->n_devices == 16)
			return false;
		ret->devices[ret->n_devices++] = row;
		text += n;
		if (*text == '\0')
			break;
	}
	text = either(s, "--tensor-split", "LLAMA_ARG_TENSOR_SPLIT");
	if (text == NULL)
		return false;
	for (;; text = end + 1) {
		if (ret->n_shares == 15)
			return false; /* as many as there can be devices */
		ret->shares[ret->n_shares++] = strtof(text, &end);
		if (end == text)
			return false;
		if (*end == '\0')
			return true;
	}
}

/* The device of one of the layers, of which the output is the last. */
static int device_of(const struct llama *llama, uint32_t layer, uint32_t n)
{
	long start = (long)n + 1 - llama->n_gpu_layers;
	long on_devices = llama->n_gpu_layers < (long)n + 1
				  ? llama->n_gpu_layers
				  : (long)n + 1;
	float until[16], sum = 0.0f, at;

	if (start < 0)
		start = 0;
	if (llama->n_devices == 0 || (long)layer < start ||
	    (long)layer - start >= on_devices)
		return RULES_CPU;
	for (uint32_t i = 0; i < llama->n_devices; i++) {
		sum += llama->shares[i];
		until[i] = sum;
	}
	at = (float)((long)layer - start) / (float)on_devices;
	for (uint32_t i = 0; i < llama->n_devices; i++)
		if (until[i] / sum > at)
			return llama->devices[i];
	return NO_DEVICE;
}

/* Where the first override that is for a tensor of the layer puts it. */
static bool overridden(const struct gpumap_engine_settings *s, uint32_t layer,
		       int *ret_row)
{
	const char *text =
		either(s, "--override-tensor", "LLAMA_ARG_OVERRIDE_TENSOR");
	char name[64];

	snprintf(name, sizeof(name), "blk.%u.attn_q.weight", layer);
	while (text != NULL && *text != '\0') {
		size_t n = strcspn(text, ","), m = strcspn(text, "=");
		char *pattern = strndup(text, m);
		regex_t expression;
		bool is_for;

		if (m > n || pattern == NULL ||
		    regcomp(&expression, pattern, REG_EXTENDED) != 0)
			abort();
		is_for = regexec(&expression, name, 0, NULL, 0) == 0;
		regfree(&expression);
		free(pattern);
		if (is_for) {
			*ret_row = named_row(s, text + m + 1, n - m - 1);
			return true;
		}
		text += n + (text[n] == ',');
	}
	return false;
}

bool rules_llama_cpp(const struct gpumap_engine_settings *s, uint32_t n,
		     struct rules_place *ret_place)
{
	struct llama llama;

	if (!read_llama(s, &llama))
		return false;
	ret_place->n_named = 0;
	for (uint32_t i = 0; i <= n; i++) {
		int row = device_of(&llama, i, n);

		ret_place->weights[i] = row;
		if (i == n)
			break;
		ret_place->caches[i] = row;
		ret_place->n_named += overridden(s, i, &ret_place->weights[i]);
	}
	return true;
}

/* ---- vLLM and SGLang ----------------------------------------------------- */

bool rules_pipeline(const struct gpumap_engine_settings *s,
		    const char *variable, uint32_t n,
		    struct rules_place *ret_place)
{
	const char *ranks = rules_option(s, "--pipeline-parallel-size");
	const char *tensor = rules_option(s, "--tensor-parallel-size");
	const char *text = rules_variable(s, variable);
	uint32_t n_ranks = ranks != NULL ? (uint32_t)atoi(ranks) : 1;
	uint32_t layer = 0, rank = 0;
	char *end = NULL;

	if (tensor == NULL || strcmp(tensor, "1") != 0)
		return false;
	if (text == NULL && n_ranks > 1)
		return false; /* equal parts: not what is tested */
	for (; text != NULL && rank < n_ranks; text = end + 1) {
		unsigned long length = strtoul(text, &end, 10);

		if (end == text)
			return false;
		while (length-- > 0 && layer < n)
			ret_place->weights[layer++] = rules_row(s, rank);
		rank++;
		if (*end == '\0')
			break;
	}
	if (text == NULL)
		for (rank = 1; layer < n; layer++)
			ret_place->weights[layer] = rules_row(s, 0);
	memcpy(ret_place->caches, ret_place->weights,
	       sizeof(ret_place->caches));
	return rank == n_ranks && layer == n && (end == NULL || *end == '\0') &&
	       rules_row(s, n_ranks) == NO_DEVICE;
}

/* ---- mistral.rs ---------------------------------------------------------- */

static int mistral_device(const struct gpumap_engine_settings *s,
			  const char *text)
{
	unsigned int ordinal;

	if (strncmp(text, "cpu\n", 4) == 0)
		return RULES_CPU;
	return sscanf(text, "cuda[%u]\n", &ordinal) == 1 ? rules_row(s, ordinal)
							 : NO_DEVICE;
}

/* A range with a higher end prevails; the ranges here have no layer twice. */
static bool read_topology(const struct gpumap_engine_settings *s, uint32_t n,
			  struct rules_place *ret_place)
{
	const char *text = s->file;
	uint32_t n_found = 0;

	while (text != NULL && *text != '\0') {
		unsigned int first, end;
		int used = 0, row;

		if (sscanf(text, "%u-%u:\n  device:%n", &first, &end, &used) !=
			    2 ||
		    used == 0 || end <= first || end > n)
			return false;
		row = mistral_device(s, text + used + 1);
		for (; first < end; first++, n_found++)
			ret_place->weights[first] = row;
		text = strchr(text + used, '\n');
		text = text != NULL ? text + 1 : NULL;
	}
	return n_found == n;
}

static bool read_entries(const struct gpumap_engine_settings *s,
			 const char *text, uint32_t n,
			 struct rules_place *ret_place)
{
	bool is_only = strchr(text, ';') == NULL;
	uint64_t used = 0;
	uint32_t at = 0;

	for (;;) {
		unsigned int ordinal, layers;
		int bytes = 0;

		if (sscanf(text, "%u:%u%n", &ordinal, &layers, &bytes) != 2 ||
		    ordinal >= 64 || (used >> ordinal & 1) != 0 ||
		    rules_row(s, ordinal) < 0)
			return false;
		used |= UINT64_C(1) << ordinal;
		for (; layers > 0; layers--) {
			if (at == n)
				return false; /* more than the model has */
			ret_place->weights[at++] =
				rules_row(s, is_only ? 0 : ordinal);
		}
		text += bytes;
		if (*text == '\0')
			break;
		if (*text++ != ';')
			return false;
	}
	while (at < n)
		ret_place->weights[at++] = RULES_CPU;
	return true;
}

bool rules_mistral_rs(const struct gpumap_engine_settings *s, uint32_t n,
		      struct rules_place *ret_place)
{
	const char *entries = rules_option(s, "-n");
	const char *no_nccl = rules_variable(s, "MISTRALRS_NO_NCCL");
	bool is_cpu = s->n_argv == 1 && strcmp(s->argv[0], "--cpu") == 0;
	bool good;

	/* NCCL replaces the map where there are several devices. */
	if (rules_row(s, 1) >= 0 &&
	    (no_nccl == NULL || strcmp(no_nccl, "1") != 0))
		return false;
	ret_place->other = is_cpu ? RULES_CPU : rules_row(s, 0);
	if (is_cpu) {
		for (uint32_t i = 0; i < n; i++)
			ret_place->weights[i] = RULES_CPU;
		good = true;
	} else if (rules_option(s, "--topology") != NULL) {
		good = entries != NULL && read_topology(s, n, ret_place);
	} else {
		good = entries != NULL &&
		       read_entries(s, entries, n, ret_place);
	}
	memcpy(ret_place->caches, ret_place->weights,
	       sizeof(ret_place->caches));
	return good;
}

/* ---- accelerate ---------------------------------------------------------- */

/* One entry of the JSON object: names here have no escapes. */
static const char *next_entry(const char *text, const char **ret_name,
			      size_t *ret_n, const char **ret_value)
{
	const char *name = strchr(text, '"');
	const char *end = name != NULL ? strchr(name + 1, '"') : NULL;

	if (end == NULL || strncmp(end, "\": ", 3) != 0)
		return NULL;
	*ret_name = name + 1;
	*ret_n = (size_t)(end - name - 1);
	*ret_value = end + 3;
	return end + 3 + strcspn(end + 3, ",}");
}

int rules_accelerate(const struct gpumap_engine_settings *s, const char *tensor,
		     uint32_t *ret_n)
{
	const char *text = s->file, *name, *value;
	size_t n, longest = 0;
	int row = NO_DEVICE;

	*ret_n = 0;
	while (text != NULL &&
	       (text = next_entry(text, &name, &n, &value)) != NULL) {
		if (strncmp(tensor, name, n) != 0 ||
		    (tensor[n] != '.' && tensor[n] != '\0'))
			continue;
		++*ret_n;
		if (n < longest)
			continue;
		longest = n;
		row = strncmp(value, "\"cpu\"", 5) == 0
			      ? RULES_CPU
			      : rules_row(s, (uint32_t)atoi(value));
	}
	return row;
}
