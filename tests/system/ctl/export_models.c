/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Checks the device_map that gpumapctl export writes for accelerate against the
 * indices of published models: each tensor of an index is in one module, on the
 * device of its layer, and each module has a tensor.
 */

#include <dirent.h>

#include "tests/support/ctl.h"
#include "tests/support/ctl_model.h"

#define CARDS 2

static char models[512], node[128];

static bool make_node(void)
{
	FILE *file = fopen(node, "we");

	return file != NULL &&
	       fputs("name: shelf\nrows:\n"
		     "  - name: card\n    kind: cuda\n    memory: 80G\n"
		     "    compute-capability: 9.0\n    count: 2\n"
		     "  - name: board\n    kind: host\n    memory: 512G\n",
		     file) >= 0 &&
	       fclose(file) == 0;
}

/* ---- where accelerate has a tensor --------------------------------------- */

/* The modules of the map that a tensor of this name is in, one within the
 * other.  @ret_key gets the innermost. */
static int modules_of(const json_t *map, const char *name, const char **ret_key)
{
	char module[256];
	int n = 0;

	snprintf(module, sizeof(module), "%s", name);
	*ret_key = NULL;
	for (char *end; (end = strrchr(module, '.')) != NULL;) {
		const char *key;

		*end = '\0';
		key = json_object_iter_key(
			json_object_iter_at((json_t *)(uintptr_t)map, module));
		if (key == NULL)
			continue;
		if (n++ == 0)
			*ret_key = key;
	}
	return n;
}

/* The number behind "layers." or "h."; -1: it is of no layer. */
static int layer_of(const char *name)
{
	static const char *const words[] = { "layers.", "h." };
	int layer;

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		const char *at = strstr(name, words[i]);

		if (at != NULL && (at == name || at[-1] == '.') &&
		    sscanf(at + strlen(words[i]), "%d.", &layer) == 1)
			return layer;
	}
	return -1;
}

/* Is it the device of the row?  @visible has the cards in their order, each a
 * digit. */
static bool is_on(const json_t *place, int row, const char *visible)
{
	const char *at = row < CARDS ? strchr(visible, '0' + row) : NULL;

	if (row < CARDS)
		return json_is_integer(place) && at != NULL &&
		       json_integer_value(place) == (at - visible) / 2;
	return json_is_string(place) &&
	       strcmp(json_string_value(place), "cpu") == 0;
}

/* ---- one model ----------------------------------------------------------- */

struct part {
	int row, n_layers;
};

static int row_of(const struct part parts[3], int layer)
{
	int row = parts[0].row;

	for (int i = 0; i < 3 && layer >= 0; i++) {
		row = parts[i].row;
		layer -= parts[i].n_layers;
	}
	return row;
}

/* The head and the norm before it are with the last layer. */
static int row_of_tensor(const struct part parts[3], const char *name)
{
	int n = 0;

	if (strcmp(name, "lm_head.weight") != 0 &&
	    strcmp(name, "model.norm.weight") != 0)
		return row_of(parts, layer_of(name));
	for (int i = 0; i < 3; i++)
		n += parts[i].n_layers;
	return row_of(parts, n - 1);
}

static void covers(const json_t *tensors, const json_t *json,
		   const struct part parts[3])
{
	const json_t *map = json_object_get(json, "device_map");
	const char *visible =
		text(json_object_get(json, "env"), "CUDA_VISIBLE_DEVICES");
	int n_wrong = 0, n_misplaced = 0;
	const char *name, *key;
	json_t *used = json_object();
	json_t *value;

	json_object_foreach((json_t *)(uintptr_t)tensors, name, value)
	{
		if (modules_of(map, name, &key) != 1) {
			n_wrong++;
			continue;
		}
		n_misplaced += !is_on(json_object_get(map, key),
				      row_of_tensor(parts, name), visible);
		json_object_set_new(used, key, json_true());
	}
	EQ(n_wrong, 0);
	EQ(n_misplaced, 0);
	EQ((intmax_t)json_object_size(used), (intmax_t)json_object_size(map));
	json_decref(used);
}

static int count_layers(const json_t *tensors)
{
	const char *name;
	json_t *value;
	int n = 0;

	json_object_foreach((json_t *)(uintptr_t)tensors, name, value)
	{
		if (layer_of(name) >= n)
			n = layer_of(name) + 1;
	}
	return n;
}

static void export_as(const json_t *tensors, const struct part parts[3])
{
	char spec[64];
	json_t *json;
	int n = 0;

	for (int i = 0; i < 3; i++)
		if (parts[i].n_layers > 0)
			n += snprintf(spec + n, sizeof(spec) - (size_t)n,
				      "%s%d:%d", n > 0 ? ";" : "", parts[i].row,
				      parts[i].n_layers);
	NOTE("%s", spec);
	EQ(CTL("export", "--node", node, "--spec", spec, "--for", "accelerate",
	       "--model", model, "--format", "json"),
	   DONE);
	json = object();
	covers(tensors, json, parts);
	json_decref(json);
}

static void an_index_is_covered(const json_t *index)
{
	const json_t *tensors = json_object_get(index, "weight_map");
	int n = count_layers(tensors);

	NOTE("%zu tensors of %d layers", json_object_size(tensors), n);
	if (!OK(n > 4))
		return;
	export_as(tensors, (const struct part[]){ { 0, n }, { 0 }, { 0 } });
	export_as(tensors, (const struct part[]){
				   { 1, n / 2 }, { 0, n - n / 2 }, { 0 } });
	export_as(tensors,
		  (const struct part[]){ { 2, 3 }, { 0, n - 4 }, { 1, 1 } });
}

/* ---- all models ---------------------------------------------------------- */

static void check_model(const char *name)
{
	char script[640], from[1024], path[1280];
	json_t *index;

	snprintf(script, sizeof(script), "%s/make-checkpoint", models);
	snprintf(from, sizeof(from), "%s/%s", models, name);
	snprintf(path, sizeof(path), "%s/model.safetensors.index.json", from);
	index = json_load_file(path, 0, NULL);
	if (index == NULL)
		return; /* no model */
	NOTE("%s", name);
	if (EQ(run(WORDS(script, from, model)), 0))
		an_index_is_covered(index);
	remove_model();
	json_decref(index);
}

TAP_CASE()
{
	const char *top = getenv("abs_top_srcdir");
	struct dirent *entry;
	DIR *dir;

	snprintf(models, sizeof(models), "%s/../shared/models",
		 top != NULL ? top : ".");
	dir = opendir(models);
	if (dir == NULL) {
		SKIP(1, "the metadata of published models is not here");
		return tap_done();
	}
	agent_make(&agent, NULL);
	snprintf(model, sizeof(model), "%s.model", agent.dir);
	snprintf(node, sizeof(node), "%s/node.yaml", agent.dir);
	OK(make_node());
	if (run(WORDS("python3", "-c", "")) != 0)
		SKIP(1, "making a checkpoint needs python3");
	else
		while ((entry = readdir(dir)) != NULL)
			if (entry->d_name[0] != '.')
				check_model(entry->d_name);
	closedir(dir);
	unlink(node);
	agent_remove(&agent);
	return tap_done();
}
