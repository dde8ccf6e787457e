/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Checks gpumapctl's commands for layer maps: maps, layers, publish and
 * release, of a spec, of a small model, and of two published models at their
 * real size.
 */

#include <dirent.h>
#include <signal.h>
#include <sys/stat.h>

#include <gpumap/plan.h>

#include "tests/support/ctl.h"
#include "tests/support/ctl_model.h"

#define CONFIG                    \
	"[host]\nrows = 2\n"      \
	"[socket]\nmode = 0666\n" \
	"[map model]\nspec = 0:2;1:3\n"

static void maps_are_listed(void)
{
	const json_t *m;
	json_t *json;

	EQ(CTL("maps"), DONE);
	OK(prints("\nmodel ") && prints("  0:2;1:3\n"));
	EQ(CTL("maps", "--json"), DONE);
	json = object();
	m = json_array_get(list(json, "maps", 1), 0);
	OK(has_fields(m, MAP_FIELDS));
	STR(text(m, "name"), "model");
	STR(text(m, "spec"), "0:2;1:3");
	EQ(number(m, "n_layers"), 5);
	EQ(number(m, "n_rows"), 2);
	EQ(number(m, "owner_uid"), geteuid());
	OK(json_is_false(json_object_get(m, "committed")));
	OK(json_is_false(json_object_get(m, "held")));
	STR(text(m, "setting"), "manual");
	OK(json_is_null(json_object_get(m, "strategy")));
	OK(json_is_null(json_object_get(m, "compute_dtype")));
	json_decref(json);
}

/* ---- reservations -------------------------------------------------------- */

static int commit(struct gpumap *map, const char *name, uint32_t flags)
{
	static const uint64_t sizes[] = { 100, 200, 300 };
	struct gpumap_plan_request request = {
		.size = sizeof(request),
		.name = name,
		.flags = GPUMAP_PLAN_COMMIT | flags,
		.setting = GPUMAP_SETTING_MANUAL,
		.text = "1:2;0:1",
		.n_layers = 3,
		.layer_bytes = sizes,
	};
	struct gpumap_plan plan = { .size = sizeof(plan) };

	return gpumap_plan_make(map, &request, &plan, NULL, 0, NULL, 0);
}

static void reservations_are_listed(void)
{
	struct gpumap_attach_opts opts = { .size = sizeof(opts),
					   .instance = agent.instance,
					   .runtime_dir = agent.dir };
	const json_t *r, *rows;
	struct gpumap *map;
	json_t *json;

	EQ(CTL("who", "--json"), DONE);
	json = object();
	list(json, "reservations", 0);
	json_decref(json);
	if (!EQ(gpumap_attach(&opts, &map), 0))
		return;
	EQ(commit(map, "mine", 0), 0);
	EQ(commit(map, "ours", GPUMAP_PLAN_HELD), 0);
	EQ(CTL("who"), DONE);
	OK(prints("mine ") && prints("ours ") && !prints("model "));
	EQ(CTL("maps"), DONE);
	OK(prints(" committed ") && prints(" held "));
	EQ(CTL("who", "--json"), DONE);
	json = object();
	r = json_array_get(list(json, "reservations", 2), 0);
	OK(has_fields(r, "name version since_ns uid user pid command "
			 "command_line bytes rows start_ns"));
	OK(json_is_null(json_object_get(r, "start_ns")));
	list(json, "waits", 0);
	STR(text(r, "name"), "mine");
	OK(json_is_null(json_object_get(r, "pid")));
	OK(number(r, "bytes") >= 600);
	rows = list(r, "rows", 2);
	EQ(number(json_array_get(rows, 0), "row"), 1);
	OK(has_fields(json_array_get(rows, 0), "row bytes used_bytes"));
	EQ(number(json_array_get(rows, 0), "used_bytes"), 0);
	EQ(number(json_array_get(rows, 0), "bytes") +
		   number(json_array_get(rows, 1), "bytes"),
	   number(r, "bytes"));
	r = json_array_get(list(json, "reservations", 2), 1);
	EQ(number(r, "pid"), getpid());
	OK(strstr(text(r, "command_line"), "map") != NULL);
	json_decref(json);
	EQ(CTL("release", "ours"), DONE);
	EQ(CTL("release", "mine"), DONE);
	EQ(CTL("who"), DONE);
	OK(!prints("mine ") && !prints("ours "));
	gpumap_detach(map);
}

static void a_map_is_published_and_released(void)
{
	const json_t *rows;
	json_t *json;

	EQ(CTL("publish", "small", "--spec", "1:1", "--layers", "3"), DONE);
	OK(prints("small: version ") && prints(", 3 layers over 2 rows\n"));
	EQ(CTL("layers", "small"), DONE);
	OK(prints("layers     0 - 0      row   1"));
	OK(prints("layers     1 - 2      row   0"));
	EQ(CTL("layers", "small", "--json"), DONE);
	json = object();
	OK(has_fields(json, MAP_FIELDS " layers charges"));
	rows = list(json, "layers", 3);
	EQ(number(json_array_get(rows, 0), "row"), 1);
	EQ(number(json_array_get(rows, 1), "row"), 0);
	EQ(number(json_array_get(rows, 2), "row"), 0);
	EQ(number(json_array_get(rows, 2), "bytes"), 0);
	json_decref(json);

	EQ(CTL("publish", "small", "--spec", "2", "--json"), DONE);
	json = object();
	OK(has_fields(json, MAP_FIELDS " n_tensors"));
	EQ(number(json, "n_layers"), 2);
	json_decref(json);

	EQ(CTL("release", "small", "--json"), DONE);
	json = object();
	OK(has_fields(json, "released held_bytes"));
	STR(text(json, "released"), "small");
	EQ(number(json, "held_bytes"), 0);
	json_decref(json);
	EQ(CTL("layers", "small"), FAILED);
	OK(complains("there is no layer map \"small\""));
	EQ(CTL("release", "small"), FAILED);
	OK(complains("there is no layer map \"small\"; gpumapctl maps lists"));
}

static void what_is_wrong_with_a_spec_is_said(void)
{
	static const struct {
		const char *spec, *layers, *says;
	} wrong[] = {
		{ "0:x", "4", "Failed to parse x as integer" },
		{ "0:1;2", "4", "Expected layer to be of format ORD:NUM" },
		{ "0:1;0:2", "4", "Duplicate ordinal 0" },
		{ "7:1", "4", "Could not find row 7: the rows are 0-1" },
		{ "0:5", "4", "places 5 layers" },
		{ "0:1", "65537", "at most 65536 layers" },
	};

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		EQ(CTL("publish", "bad", "--spec", wrong[i].spec, "--layers",
		       wrong[i].layers),
		   FAILED);
		OK(complains(wrong[i].says));
	}
	EQ(CTL("publish", "two words", "--spec", "1"), FAILED);
	OK(complains("a name has no blanks"));
	EQ(CTL("layers", "bad"), FAILED);
}

static void others_maps_are_left_alone(void)
{
	if (!ctl_as_another(1))
		return;
	EQ(CTL("layers", "model"), DONE);
	EQ(CTL("release", "model"), FAILED);
	OK(complains("belongs to uid 0"));
	EQ(CTL("publish", "model", "--spec", "1"), FAILED);
	OK(complains("belongs to uid 0"));
	EQ(CTL("publish", "theirs", "--spec", "1"), DONE);
	user = 0;
	EQ(CTL("release", "theirs"), DONE);
}

/* ---- models -------------------------------------------------------------- */

/* Two layers of 8 and 16 bytes, and 4 bytes that belong to none. */
static void make_small_model(void)
{
	static const char header[] =
		"{\"model.embed.weight\":{\"dtype\":\"F32\",\"shape\":[1],"
		"\"data_offsets\":[0,4]},"
		"\"model.layers.0.w\":{\"dtype\":\"F32\",\"shape\":[2],"
		"\"data_offsets\":[4,12]},"
		"\"model.layers.1.w\":{\"dtype\":\"F32\",\"shape\":[2,2],"
		"\"data_offsets\":[12,28]}}";

	write_model("{\"num_hidden_layers\":2}", header, 28);
}

static void a_model_is_read(void)
{
	const json_t *layers, *charges;
	char path[192];
	json_t *json;

	make_small_model();
	EQ(CTL("publish", "tiny", "--spec", "0:1;1:1", "--model", model), DONE);
	OK(prints(", 2 layers over 2 rows, 3 tensors, 28 B\n"));
	EQ(CTL("layers", "tiny", "--json"), DONE);
	json = object();
	EQ(number(json, "layer_bytes"), 24);
	EQ(number(json, "other_bytes"), 4);
	STR(text(json, "dtype"), "F32");
	layers = list(json, "layers", 2);
	EQ(number(json_array_get(layers, 0), "bytes"), 8);
	EQ(number(json_array_get(layers, 1), "bytes"), 16);
	charges = list(json, "charges", 2);
	EQ(number(json_array_get(charges, 0), "weight_bytes"), 12);
	EQ(number(json_array_get(charges, 1), "weight_bytes"), 16);
	json_decref(json);
	EQ(CTL("release", "tiny"), DONE);

	EQ(CTL("publish", "tiny", "--spec", "0:3", "--model", model), FAILED);
	OK(complains("places 3 layers"));
	in_model(path, "model.safetensors");
	EQ(truncate(path, 100), 0);
	EQ(CTL("publish", "tiny", "--spec", "2", "--model", model), FAILED);
	OK(complains("is truncated"));
	remove_model();
	EQ(CTL("publish", "tiny", "--spec", "2", "--model", model), FAILED);
	OK(complains(model));
	EQ(CTL("publish", "tiny", "--spec", "2", "--model", "meta-llama/Llama"),
	   FAILED);
	OK(complains("nothing is fetched by a model's name"));
}

struct published {
	const char *name;
	json_int_t n_layers, n_tensors, layer_bytes;
	json_int_t head_bytes; /* with the norm before it */
	json_int_t total_bytes;
};

/* Half of the layers on each row. */
static void a_published_model_is_right(const struct published *m)
{
	json_int_t charged = 0, n_layers = m->n_layers;
	json_int_t of_layers = n_layers * m->layer_bytes + m->head_bytes;
	const char *name = m->name;
	const json_t *layers, *value;
	char spec[64];
	json_t *json;
	size_t i, wrong = 0;

	snprintf(spec, sizeof(spec), "0:%d;1:%d", (int)n_layers / 2,
		 (int)n_layers / 2);
	EQ(CTL("publish", name, "--spec", spec, "--model", model, "--json"),
	   DONE);
	json = object();
	EQ(number(json, "n_tensors"), m->n_tensors);
	EQ(number(json, "n_layers"), n_layers);
	EQ(number(json, "layer_bytes"), of_layers);
	EQ(number(json, "other_bytes"), m->total_bytes - of_layers);
	json_decref(json);

	EQ(CTL("layers", name, "--json"), DONE);
	json = object();
	layers = list(json, "layers", (size_t)n_layers);
	json_array_foreach(layers, i, value) wrong +=
		number(value, "row") != ((json_int_t)i >= n_layers / 2) ||
		number(value, "bytes") !=
			m->layer_bytes + ((json_int_t)i == n_layers - 1
						  ? m->head_bytes
						  : 0);
	EQ((intmax_t)wrong, 0);
	json_array_foreach(list(json, "charges", 2), i, value) charged +=
		number(value, "weight_bytes");
	EQ(charged, m->total_bytes);
	json_decref(json);
	EQ(CTL("release", name), DONE);
}

static void published_models_are_right(void)
{
	/* Multiplied out by hand from each model's published shapes. */
	static const struct published models[] = {
		{ "llama-2-70b", 80, 723, 1711308800, 1048592384,
		  139001872384 },
		{ "qwen2.5-14b", 48, 579, 550537216, 1553059840, 29531895808 },
	};
	const char *top = getenv("abs_top_srcdir");
	char script[512], from[512];

	for (size_t i = 0; i < sizeof(models) / sizeof(models[0]); i++) {
		snprintf(script, sizeof(script),
			 "%s/../shared/models/make-checkpoint",
			 top ? top : ".");
		snprintf(from, sizeof(from), "%s/../shared/models/%s",
			 top ? top : ".", models[i].name);
		if (access(script, X_OK) != 0 || access(from, F_OK) != 0) {
			SKIP(1, "the metadata of published models is not here");
			continue;
		}
		if (run(WORDS("python3", "-c", "")) != 0) {
			SKIP(1, "making a checkpoint needs python3");
			continue;
		}
		EQ(run(WORDS(script, from, model)), 0);
		a_published_model_is_right(&models[i]);
		remove_model();
	}
}

TAP_CASE()
{
	if (!ctl_start(CONFIG))
		return tap_done();
	snprintf(model, sizeof(model), "%s.model", agent.dir);
	maps_are_listed();
	reservations_are_listed();
	a_map_is_published_and_released();
	what_is_wrong_with_a_spec_is_said();
	others_maps_are_left_alone();
	a_model_is_read();
	published_models_are_right();
	EQ(agent_kill(&agent, SIGTERM), 0);
	agent_remove(&agent);
	return tap_done();
}
