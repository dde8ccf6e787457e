/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * accelerate, and transformers, which calls it: a device_map names modules, and
 * the ordinal, or "cpu", of each.  A tensor is where the longest of its name's
 * beginnings is that the map has; every tensor has to be somewhere.
 *
 * The names are those of the model's files.  A layer is a module; whatever
 * belongs to no layer is in the largest module that has no layer of the map in
 * it.  So each tensor of the files is in one module exactly.
 *
 * Files do not say everything: they have no head where the head is the
 * embeddings again, and some have the names of a model without a head, which
 * lack the word that the whole model has before them.  Modules for these are
 * added; a module that the model does not have is a warning of accelerate's.
 */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/engines/engine.h"

/* A module: @n bytes of a tensor's name. */
struct module {
	const char *name;
	size_t n;
};

struct names {
	struct gm_weights weights;
	struct gm_layers_stack stack;
	int32_t *layers;
	struct module *rest; /* modules of the base row, in order */
	size_t n_rest;
};

/* Does the module have the layers in it? */
static bool has_layers(const struct gm_layers_stack *stack, struct module m)
{
	return m.n < stack->prefix_bytes && stack->prefix[m.n] == '.' &&
	       memcmp(m.name, stack->prefix, m.n) == 0;
}

/* The largest module with this tensor that has no layers in it. */
static struct module module_of(const struct gm_layers_stack *stack,
			       const char *name)
{
	struct module m = { name, strcspn(name, ".") };

	while (has_layers(stack, m) && name[m.n] != '\0')
		m.n += 1 + strcspn(name + m.n + 1, ".");
	return m;
}

static int by_name(const void *a, const void *b)
{
	const struct module *x = a, *y = b;
	int order = memcmp(x->name, y->name, x->n < y->n ? x->n : y->n);

	return order != 0 ? order : (x->n > y->n) - (x->n < y->n);
}

static int list_rest(struct names *names)
{
	const struct gm_weights *weights = &names->weights;
	size_t n = 0, n_kept = 0;
	struct module *v = calloc(weights->n + 1, sizeof(*v));

	if (v == NULL)
		return -ENOMEM;
	for (size_t i = 0; i < weights->n; i++)
		if (names->layers[i] < 0)
			v[n++] = module_of(&names->stack, weights->v[i].name);
	qsort(v, n, sizeof(*v), by_name);
	for (size_t i = 0; i < n; i++)
		if (n_kept == 0 || by_name(&v[n_kept - 1], &v[i]) != 0)
			v[n_kept++] = v[i];
	names->rest = v;
	names->n_rest = n_kept;
	return 0;
}

/* Is it what computes a token from the last layer's output? */
static bool is_head(struct module m)
{
	static const char *const heads[] = { "lm_head", "head", "embed_out",
					     "output" };

	for (size_t i = 0; i < sizeof(heads) / sizeof(heads[0]); i++) {
		size_t n = strlen(heads[i]);

		if (m.n >= n && memcmp(m.name + m.n - n, heads[i], n) == 0 &&
		    (m.n == n || m.name[m.n - n - 1] == '.'))
			return true;
	}
	return false;
}

static bool has_head(const struct names *names)
{
	for (size_t i = 0; i < names->n_rest; i++)
		if (is_head(names->rest[i]))
			return true;
	return false;
}

/* The word that the names of a model without a head lack, or NULL. */
static const char *missing_word(const struct gm_layers_stack *stack)
{
	if (stack->prefix_bytes == 2 && memcmp(stack->prefix, "h.", 2) == 0)
		return "transformer.";
	if (stack->prefix_bytes == 7 &&
	    memcmp(stack->prefix, "layers.", 7) == 0)
		return "model.";
	return NULL;
}

/* ---- the text ------------------------------------------------------------ */

/* Names are UTF-8, as the files' headers have to be. */
static void print_escaped(FILE *to, const char *text, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		unsigned char c = (unsigned char)text[i];

		if (c < 0x20)
			fprintf(to, "\\u%04x", c);
		else if (c == '"' || c == '\\')
			fprintf(to, "\\%c", c);
		else
			fputc(c, to);
	}
}

static void print_place(FILE *to, int32_t card)
{
	if (card < 0)
		fputs("\": \"cpu\"", to);
	else
		fprintf(to, "\": %d", card);
}

/* All modules, with @word before each. */
static void print_modules(const struct gm_engine_job *job,
			  const struct names *names, const char *word, FILE *to)
{
	for (uint32_t i = 0; i < job->n_layers; i++) {
		fprintf(to, "%s\"%s", ftell(to) > 1 ? ", " : "", word);
		print_escaped(to, names->stack.prefix,
			      names->stack.prefix_bytes);
		fprintf(to, "%u", i);
		print_place(to, gm_engine_card(job, i));
	}
	for (size_t i = 0; i < names->n_rest; i++) {
		fprintf(to, ", \"%s", word);
		print_escaped(to, names->rest[i].name, names->rest[i].n);
		print_place(to, job->ordinal[job->base_row]);
	}
}

static void print_map(struct gm_engine_job *job, const struct names *names)
{
	const char *word = missing_word(&names->stack);
	size_t n;
	FILE *to = open_memstream(&job->file, &n);

	if (to == NULL) {
		job->no_memory = true;
		return;
	}
	fputc('{', to);
	print_modules(job, names, "", to);
	if (word != NULL)
		print_modules(job, names, word, to);
	if (!has_head(names)) {
		fputs(", \"lm_head", to);
		print_place(to, job->ordinal[job->base_row]);
	}
	fputc('}', to);
	if (fclose(to) != 0)
		job->no_memory = true;
}

static void tell(struct gm_engine_job *job, const struct names *names)
{
	const char *word = missing_word(&names->stack);

	/* Which card that is follows from the order of a set of Python's. */
	if (job->host_row != GM_ENGINE_NO_ROW && job->n_cards > 0) {
		job->exact = false;
		gm_engine_add(
			job, &job->notes,
			"accelerate keeps the weights of layers on \"cpu\" "
			"there, but copies them to one of the map's GPUs for "
			"each use, and has their KV cache there.");
	}
	if (word != NULL)
		gm_engine_add(job, &job->notes,
			      "The names in the files lack what a model with a "
			      "head has before them: each is here with "
			      "\"%s\" before it as well, and accelerate warns "
			      "of those that the model does not have.",
			      word);
	if (!has_head(names))
		gm_engine_add(
			job, &job->notes,
			"The files have no head: lm_head is taken for the "
			"embeddings again.");
}

int gm_engine_accelerate(struct gm_engine_job *job)
{
	struct names names = { .layers = NULL };
	int ret;

	if (job->request.model == NULL)
		return gm_refuse(job->map, -EINVAL,
				 "the names of accelerate's modules are in the "
				 "model's files: name the model");
	ret = gm_engine_devices(job, true);
	if (ret == 0)
		ret = gm_engine_one_host(job);
	if (ret == 0)
		ret = gm_engine_read_model(job, &names.weights, &names.layers,
					   &names.stack);
	if (ret != 0)
		return ret;
	ret = list_rest(&names);
	if (ret != 0)
		ret = gm_refuse_memory(job->map, names.weights.n);
	else if (names.stack.prefix_bytes == 4 &&
		 memcmp(names.stack.prefix, "blk.", 4) == 0)
		ret = gm_refuse(job->map, -EINVAL,
				"%.200s has the names of GGUF, and accelerate "
				"those of safetensors",
				gm_reason_path(job->request.model));
	if (ret == 0) {
		print_map(job, &names);
		tell(job, &names);
	}
	gm_weights_free(&names.weights);
	free(names.layers);
	free(names.rest);
	return ret;
}
