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
 * Files do not say everything.  They have no head where the head is the
 * embeddings again; some have the names of a model without a head; and those of
 * older models of text and images have names that transformers changes as it
 * reads them.  Modules with the other names are added: accelerate only warns of
 * a module that the model does not have.  Which names are changed depends on
 * the model and on the release, so a model with modules beside the one with the
 * layers is not said to be followed whole.
 */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/model/engines/engine.h"

/* A module: @n bytes of a tensor's name. */
struct module {
	const char *name;
	size_t n;
	bool is_last; /* it is with the last layer */
};

struct names {
	struct gm_weights weights;
	struct gm_layers_stack stack;
	int32_t *layers;
	struct module *rest; /* modules beside the layers', in order */
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
	struct module m = { .name = name, .n = strcspn(name, ".") };

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
		if (names->layers[i] < 0) {
			v[n] = module_of(&names->stack, weights->v[i].name);
			v[n++].is_last = names->layers[i] <= GM_OF_LAST_NORM;
		}
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

/* Other names of the modules. */
struct other_names {
	const char *stack; /* the beginning of the layers' names */
	/* Beginnings of names, and what they become; the first that a name has
	 * counts, and one is of all names. */
	const char *changes[3][2];
};

static const struct other_names *find_other(const struct gm_layers_stack *stack)
{
	static const struct other_names all[] = {
		{ "h.", { { "", "transformer." } } },
		{ "layers.", { { "", "model." } } },
		{ "language_model.model.layers.",
		  { { "language_model.model.", "model.language_model." },
		    { "language_model.", "" },
		    { "", "model." } } },
	};

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		if (strlen(all[i].stack) == stack->prefix_bytes &&
		    memcmp(all[i].stack, stack->prefix, stack->prefix_bytes) ==
			    0)
			return &all[i];
	return NULL;
}

/* Is every module beside the one with the layers known to keep its name? */
static bool is_plain(const struct names *names)
{
	const struct gm_layers_stack *stack = &names->stack;
	size_t word = strcspn(stack->prefix, ".") + 1;

	if (word == stack->prefix_bytes)
		return true; /* the layers' module is the model */
	if (memcmp(stack->prefix, "language_model.", word) == 0)
		return false;
	for (size_t i = 0; i < names->n_rest; i++) {
		struct module m = names->rest[i];

		if (!is_head(m) &&
		    (m.n < word || memcmp(m.name, stack->prefix, word) != 0))
			return false;
	}
	return true;
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

/* A module's name, or the other one. */
static void print_name(FILE *to, const struct other_names *other,
		       struct module m)
{
	const char *before = "";

	for (size_t i = 0; other != NULL; i++) {
		size_t n = strlen(other->changes[i][0]);

		if (m.n < n || memcmp(m.name, other->changes[i][0], n) != 0)
			continue;
		before = other->changes[i][1];
		m.name += n;
		m.n -= n;
		break;
	}
	fprintf(to, "%s\"%s", ftell(to) > 1 ? ", " : "", before);
	print_escaped(to, m.name, m.n);
}

static void print_modules(const struct gm_engine_job *job,
			  const struct names *names,
			  const struct other_names *other, FILE *to)
{
	for (uint32_t i = 0; i < job->n_layers; i++) {
		print_name(to, other,
			   (struct module){ .name = names->stack.prefix,
					    .n = names->stack.prefix_bytes });
		fprintf(to, "%u", i);
		print_place(to, gm_engine_card(job, i));
	}
	for (size_t i = 0; i < names->n_rest; i++) {
		print_name(to, other, names->rest[i]);
		print_place(to, names->rest[i].is_last
					? gm_engine_card(job, job->n_layers - 1)
					: job->ordinal[job->base_row]);
	}
}

static void print_map(struct gm_engine_job *job, const struct names *names)
{
	const struct other_names *other = find_other(&names->stack);
	size_t n;
	FILE *to = open_memstream(&job->file, &n);

	if (to == NULL) {
		job->no_memory = true;
		return;
	}
	fputc('{', to);
	print_modules(job, names, NULL, to);
	if (other != NULL)
		print_modules(job, names, other, to);
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
	/* Which card that is follows from the order of a set of Python's. */
	if (job->host_row != GM_ENGINE_NO_ROW && job->n_cards > 0) {
		job->exact = false;
		gm_engine_add(
			job, &job->notes,
			"accelerate keeps the weights of layers on \"cpu\" "
			"there, but copies them to one of the map's GPUs for "
			"each use, and has their KV cache there.");
	}
	if (find_other(&names->stack) != NULL)
		gm_engine_add(
			job, &job->notes,
			"A model may have other names for its modules than "
			"the files have: the device_map has both, and "
			"accelerate warns of those that are not the "
			"model's.");
	if (!is_plain(names)) {
		job->exact = false;
		gm_engine_add(
			job, &job->notes,
			"The model has modules beside those of its layers, "
			"which some releases of transformers call by other "
			"names than the files: look for ValueError when "
			"the model is made.");
	}
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
