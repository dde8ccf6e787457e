/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Each type of transformers that generates text (tests/caches/types.json): its
 * caches are as large as counted there; and a field of config.json that is
 * missing, or nonsense, makes no cache smaller in silence.
 */

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "gpumap/model.h"
#include "lib/model/checkpoint/checkpoint.h"
#include "lib/model/plan/cache.h"
#include "tests/support/tap.h"

#define COUNT(a)   (sizeof(a) / sizeof((a)[0]))
#define LAYERS_MAX 256u
#define HUGE       "a number of more than 64 bits"
#define DIGITS     "1000000000000000000000000000000"

static const uint64_t lengths[] = { 1024, 32768, 131072 };

#define N_LENGTHS COUNT(lengths)

/* A plan's caches. */
struct planned {
	int ret;
	uint32_t n_layers;
	uint32_t n_unknown; /* layers that a plan warns of */
	uint32_t n_cross;
	uint64_t bytes[LAYERS_MAX][N_LENGTHS];
	bool is_known[LAYERS_MAX];
	uint64_t total[N_LENGTHS];
};

static struct gm_reason why;

struct type {
	const char *name;
	json_t *entry;
	json_t *config;
	struct gm_weights weights;
	struct planned base; /* by its config as it is */
	struct gm_weights_config facts;
	bool is_bare; /* no tensor shows what a layer keeps */
};

/* ---- the table ----------------------------------------------------------- */

/* Mark the numbers of "0-40!5-35:6,41". */
static void mark(bool *set, const char *text, bool value)
{
	for (const char *at = text; *at >= '0' && *at <= '9';) {
		char *end;
		unsigned long first = strtoul(at, &end, 10), last = first;
		unsigned long step = 1;

		if (*end == '-')
			last = strtoul(end + 1, &end, 10);
		if (*end == ':')
			step = strtoul(end + 1, &end, 10);
		for (; first <= last && first < LAYERS_MAX; first += step)
			set[first] = value;
		at = end + (*end == ',');
	}
}

static void spread(bool set[LAYERS_MAX], const char *text)
{
	const char *but = strchr(text, '!');

	memset(set, 0, LAYERS_MAX * sizeof(set[0]));
	mark(set, text, true);
	if (but != NULL)
		mark(set, but + 1, false);
}

/* ["*", 2, ["a", "b"], "c"] is a, b, a, b, c. */
static json_t *unfold_list(const json_t *list)
{
	const char *first = json_string_value(json_array_get(list, 0));
	json_t *items = json_array();
	size_t i = 0;

	if (first != NULL && strcmp(first, "*") == 0) {
		json_int_t n = json_integer_value(json_array_get(list, 1));

		for (i = 3; n > 0; n--)
			json_array_extend(items, json_array_get(list, 2));
	}
	for (; i < json_array_size(list); i++)
		json_array_append(items, json_array_get(list, i));
	return items;
}

static void unfold(json_t *object)
{
	const char *key;
	json_t *value;
	void *next;

	json_object_foreach_safe(object, next, key, value)
	{
		if (json_is_object(value))
			unfold(value);
		else if (json_is_array(value))
			json_object_set_new(object, key, unfold_list(value));
	}
}

static void begin_weights(struct gm_weights *ws)
{
	*ws = (struct gm_weights){ .why = &why, .folder = strdup("model/") };
	OK(ws->folder != NULL && gm_weights_add_file(ws, "f") == 0);
}

static void end_weights(struct gm_weights *ws)
{
	for (size_t i = 0; i < ws->n; i++)
		free((char *)ws->v[i].name);
	gm_weights_free(ws);
}

/* Add "REST 8,8" of the layer. */
static void add_tensor(struct gm_weights *ws, const char *head,
		       const char *number, const char *rest)
{
	struct gm_weight w = { .shape = (uint32_t)ws->n_dims, .bytes = 2 };
	const char *space = strchr(rest, ' ');
	char *name = NULL, *end;

	if (space == NULL || asprintf(&name, "%s%s.%.*s", head, number,
				      (int)(space - rest), rest) < 0)
		return;
	w.name = name;
	gm_weights_type_find("BF16", &w.type);
	do {
		uint64_t dim = strtoull(space + 1, &end, 10);

		w.bytes *= dim;
		gm_weights_add_dim(ws, &w, dim);
		space = end;
	} while (*end == ',');
	gm_weights_add(ws, &w);
}

/* "model.layers.{0-3}.": "REST 8,8;REST 8" */
static void add_tensors(struct gm_weights *ws, const char *prefix,
			const char *tensors)
{
	const char *brace = strchr(prefix, '{');
	char *text = strdup(tensors), *at = text, *one;
	size_t n = brace != NULL ? (size_t)(brace - prefix)
				 : strcspn(prefix, "0123456789");
	char *head = strndup(prefix, n);
	bool set[LAYERS_MAX];

	spread(set, prefix + n + (brace != NULL));
	while ((one = strsep(&at, ";")) != NULL)
		for (unsigned int i = 0; i < LAYERS_MAX; i++) {
			char number[12];

			snprintf(number, sizeof(number), "%u", i);
			if (set[i])
				add_tensor(ws, head, number, one);
		}
	free(head);
	free(text);
}

/* ---- plans --------------------------------------------------------------- */

static void sum_up(const struct gm_weights_sizes *sizes, struct planned *p)
{
	struct gm_plan_error err = { .code = 0 };
	uint64_t sums[LAYERS_MAX + 1];

	p->n_layers = sizes->n_layers;
	p->n_cross = sizes->config.n_cross;
	for (size_t n = 0; n < N_LENGTHS; n++) {
		struct gm_cache_request q = {
			.caches = sizes->caches,
			.n_caches = sizes->n_caches,
			.n_layers = sizes->n_layers,
			.dtype_bytes = 2,
			.max_seq_len = lengths[n],
			.max_batch_size = 1,
		};

		if (gm_cache_sums(&q, NULL, sums, &err) != 0) {
			p->ret = -EOVERFLOW;
			return;
		}
		for (uint32_t i = 0; i < sizes->n_layers; i++)
			p->bytes[i][n] = sums[i + 1] - sums[i];
		p->total[n] = sums[sizes->n_layers];
	}
	for (uint32_t i = 0, layer = 0; i < sizes->n_caches; i++) {
		const struct gpumap_layer_cache *cache = &sizes->caches[i];

		for (uint32_t n = cache->n_layers; n > 0; n--)
			p->is_known[layer++] = cache->n_heads > 0;
		p->n_unknown += cache->n_heads > 0 ? 0 : cache->n_layers;
	}
}

/* Plan for the type's tensors by a config.json of this text, whose facts
 * @ret_facts receives.  The same facts make the same plan. */
static void plan(struct type *t, const char *config, struct planned *p,
		 struct gm_weights_config *ret_facts)
{
	struct gm_weights_meta meta = { .data = strdup(config),
					.bytes = strlen(config),
					.format = GPUMAP_META_CONFIG_JSON };
	struct gm_weights_sizes sizes = { .n_layers = 0 };

	*p = (struct planned){ .ret = -ENOMEM };
	why.text[0] = '\0';
	if (meta.data != NULL)
		p->ret = gm_weights_config_read(&meta, &why, &sizes.config);
	*ret_facts = sizes.config;
	if (p->ret == 0 && ret_facts != &t->facts &&
	    memcmp(ret_facts, &t->facts, sizeof(t->facts)) == 0) {
		*p = t->base;
	} else if (p->ret == 0) {
		p->ret = gm_weights_measure_layers(&t->weights, &sizes);
		if (p->ret == 0 && sizes.n_layers > LAYERS_MAX)
			p->ret = -E2BIG;
		if (p->ret == 0)
			sum_up(&sizes, p);
	}
	gm_weights_sizes_free(&sizes);
	free(meta.data);
}

static char *text_of(const json_t *config)
{
	char *text = json_dumps(config, JSON_COMPACT), *at;

	at = text != NULL ? strstr(text, "\"" HUGE "\"") : NULL;
	if (at != NULL) {
		memset(at, ' ', strlen(HUGE) + 2);
		memcpy(at, DIGITS, strlen(DIGITS));
	}
	return text;
}

/* ---- what the classes keep ----------------------------------------------- */

/* The bytes that a layer of these parts holds after @n tokens. */
static uint64_t count(const json_t *parts, uint64_t n)
{
	uint64_t bytes = 0;
	const json_t *part;
	size_t i;

	json_array_foreach(parts, i, part)
	{
		json_int_t kv = 0, window = INT64_MAX, every = 1, state = 0;
		json_int_t size = 2;
		uint64_t tokens = n;

		json_unpack((json_t *)part, "{s?I s?I s?I s?I s?I}", "kv", &kv,
			    "window", &window, "every", &every, "state", &state,
			    "size", &size);
		if (tokens > (uint64_t)window)
			tokens = (uint64_t)window;
		bytes += (uint64_t)(kv * size) * (tokens / (uint64_t)every) +
			 (uint64_t)(state * size);
	}
	return bytes;
}

static uint64_t count_all(const json_t *layers, uint64_t n)
{
	uint64_t bytes = 0;
	bool set[LAYERS_MAX];
	const char *key;
	json_t *parts;

	json_object_foreach((json_t *)layers, key, parts)
	{
		spread(set, key);
		for (size_t i = 0; i < LAYERS_MAX; i++)
			bytes += set[i] ? count(parts, n) : 0;
	}
	return bytes;
}

/* Does the plan hold what the class does? */
static void agrees(struct type *t)
{
	const json_t *refused = json_object_get(t->entry, "refused");
	const json_t *planned = json_object_get(t->entry, "planned");
	const json_t *layers = json_object_get(t->entry, "layers");
	const json_t *cross = json_object_get(t->entry, "cross");
	const struct planned *p = &t->base;

	if (refused != NULL) {
		OK(p->ret == -EINVAL &&
		   strstr(why.text, json_string_value(refused)) != NULL);
		return;
	}
	if (!EQ(p->ret, 0))
		NOTE("%s: %s", t->name, why.text);
	for (size_t i = 0; p->ret == 0 && i < N_LENGTHS; i++) {
		uint64_t n = lengths[i];
		uint64_t want = count_all(layers, n) +
				count_all(cross, p->n_cross ? p->n_cross : n);

		if (planned != NULL)
			want = (uint64_t)json_integer_value(
				json_array_get(planned, i));
		/* A class that does not run keeps something, too. */
		if (!(layers != NULL || planned != NULL
			      ? EQ((intmax_t)p->total[i], (intmax_t)want)
			      : OK(p->total[i] > 0)))
			NOTE("%s, %u tokens", t->name, (unsigned int)n);
	}
	if (!EQ(p->n_unknown, 0))
		NOTE("%s", t->name);
}

/* ---- fields -------------------------------------------------------------- */

/* Fields that tell a window or a kind of layers, or how many run.  Without them
 * a layer is charged for more. */
static const char *const may_grow[] = {
	"sliding_window",
	"sliding_window_size",
	"attention_window_size",
	"attention_chunk_size",
	"sliding_window_pattern",
	"global_attn_every_n_layers",
	"full_attention_interval",
	"use_sliding_window",
	"max_window_layers",
	"num_kv_shared_layers",
	"layer_types",
	"layers_block_type",
	"hybrid_layer_pattern",
	"attn_type_list",
	"linear_key_head_dim",
	"mamba_d_state",
	"ssm_state_size",
	"state_size",
	"loop_layer_index_start",
	"loop_layer_index_end",
	"max_source_positions",
};

/* Without these an image has as many tokens as the sequence. */
static const char *const of_images[] = {
	"image_size",
	"patch_size",
	"max_num_tiles",
};

/* Without these another field says the number. */
static const char *const of_layers[] = {
	"decoder_layers",    "num_decoder_layers",       "num_hidden_layers",
	"layers_block_type", "num_nextn_predict_layers",
};

/* May this make a layer smaller?  Classes have a window of their own where none
 * is said, and heads their part of the width. */
static bool is_default(const struct type *t, const char *key,
		       const json_t *value)
{
	bool is_unsaid =
		value == NULL || json_is_null(value) ||
		(json_is_integer(value) && json_integer_value(value) == 0);

	if (strcmp(key, "max_source_positions") == 0)
		return is_unsaid;
	if (strcmp(key, "head_dim") == 0 || strcmp(key, "kv_channels") == 0)
		return t->is_bare && is_unsaid;
	return value == NULL && strcmp(key, "sliding_window") == 0 &&
	       strcmp(t->name, "mistral3") == 0;
}

#define IS_AMONG(key, list) is_among(key, list, COUNT(list))

static bool is_among(const char *key, const char *const *keys, size_t n)
{
	size_t i = 0;

	while (i < n && strcmp(key, keys[i]) != 0)
		i++;
	return i < n;
}

/* Say why the plan @p is wrong, of a type whose class has another value for the
 * field @key; NULL: it is right. */
static const char *find_fault(const struct type *t, const char *key,
			      const json_t *value, const struct planned *p)
{
	const struct planned *base = &t->base;

	if (p->ret == -EINVAL && strstr(why.text, key) != NULL)
		return value == NULL || json_is_null(value)
			       ? "an error, though it is not said"
			       : NULL;
	if (p->ret == -EINVAL && IS_AMONG(key, of_layers) &&
	    strstr(why.text, "there are tensors of") != NULL)
		return NULL;
	if (p->ret != 0)
		return "an error that does not name it";
	if (p->n_layers != base->n_layers)
		return IS_AMONG(key, of_layers) ? NULL
						: "another number of layers";
	for (uint32_t i = 0; i < p->n_layers; i++)
		for (size_t n = 0; p->is_known[i] && n < N_LENGTHS; n++) {
			if (p->bytes[i][n] < base->bytes[i][n] &&
			    !is_default(t, key, value) &&
			    !IS_AMONG(key, of_images))
				return "less in silence";
			if (p->bytes[i][n] > base->bytes[i][n] &&
			    !IS_AMONG(key, of_images) &&
			    !IS_AMONG(key, may_grow) && !t->is_bare)
				return "more, by a field that does not count";
		}
	return NULL;
}

static const char *const values_shown[] = {
	"absent", "null", "0", "-1", "1.5", "\"x\"", "[1,2]", "2^32", DIGITS,
};

/* Try values for a field of an object in the type's config. */
static bool try_field(struct type *t, json_t *object, const char *key)
{
	json_t *values[] = {
		NULL,
		json_null(),
		json_integer(0),
		json_integer(-1),
		json_real(1.5),
		json_string("x"),
		json_pack("[ii]", 1, 2),
		json_integer(INT64_C(1) << 32),
		json_string(HUGE),
	};
	json_t *before = json_incref(json_object_get(object, key));
	struct gm_weights_config facts;
	static struct planned p;
	bool is_good = true;

	for (size_t i = 0; i < COUNT(values); i++) {
		const char *wrong;
		char *text;

		if (values[i] != NULL)
			json_object_set(object, key, values[i]);
		else
			json_object_del(object, key);
		text = text_of(t->config);
		plan(t, text, &p, &facts);
		wrong = find_fault(t, key, values[i], &p);
		if (wrong != NULL)
			NOTE("%s: %s is %s: %s: %ju bytes for %ju; %s", t->name,
			     key, values_shown[i], wrong, (uintmax_t)p.total[1],
			     (uintmax_t)t->base.total[1], why.text);
		is_good &= wrong == NULL;
		free(text);
		json_decref(values[i]);
	}
	if (before != NULL)
		json_object_set_new(object, key, before);
	else
		json_object_del(object, key);
	return is_good;
}

/* The object loses fields and has them again, at its end. */
static bool try_fields(struct type *t, json_t *object)
{
	json_t *keys = json_array(), *name;
	bool is_good = true;
	const char *key;
	json_t *value;
	size_t i;

	json_object_foreach(object, key, value)
	{
		if (json_is_object(value))
			is_good &= try_fields(t, value);
		else if (strcmp(key, "model_type") != 0)
			json_array_append_new(keys, json_string(key));
	}
	json_array_foreach(keys, i, name) is_good &=
		try_field(t, object, json_string_value(name));
	json_decref(keys);
	return is_good;
}

/* Fields of other types, which this one has not. */
static void try_others(struct type *t, json_t *fields)
{
	bool is_good = true;
	const char *key;
	json_t *value;

	json_object_foreach(fields, key,
			    value) if (json_object_get(t->config, key) == NULL)
		is_good &= try_field(t, t->config, key);
	OK(is_good);
}

/* All fields of the object and of those in it. */
static void add_fields(json_t *fields, const json_t *object)
{
	const char *key;
	json_t *value;

	json_object_foreach((json_t *)object, key,
			    value) if (json_is_object(value))
		add_fields(fields, value);
	else if (strcmp(key, "model_type") != 0)
		json_object_set(fields, key, value);
}

/* Likewise where nothing but config.json tells what a layer keeps. */
static void try_bare(struct type *t)
{
	uint32_t n_layers = t->base.n_layers;
	char *text = text_of(t->config);
	char prefix[64];

	end_weights(&t->weights);
	begin_weights(&t->weights);
	snprintf(prefix, sizeof(prefix), "model.layers.{0-%u}.", n_layers - 1);
	add_tensors(&t->weights, prefix, "w.weight 8,8");
	plan(t, text, &t->base, &t->facts);
	free(text);
	t->is_bare = true;
	if (t->base.ret == 0)
		OK(try_fields(t, t->config));
}

static void try_type(json_t *entry, json_t *fields)
{
	static const char *const with_others[] = { "deepseek_v3", "gpt_oss",
						   "llama", "mamba2", "t5" };
	struct type t = { .entry = entry };
	const char *prefix;
	json_t *tensors;
	char *text;

	t.config = json_deep_copy(json_object_get(entry, "config"));
	t.name = json_string_value(json_object_get(t.config, "model_type"));
	unfold(t.config);
	begin_weights(&t.weights);
	json_object_foreach(json_object_get(entry, "tensors"), prefix, tensors)
		add_tensors(&t.weights, prefix, json_string_value(tensors));
	text = text_of(t.config);
	plan(&t, text, &t.base, &t.facts);
	free(text);
	agrees(&t);
	if (t.base.ret == 0) {
		OK(try_fields(&t, t.config));
		if (IS_AMONG(t.name, with_others))
			try_others(&t, fields);
		try_bare(&t);
	}
	end_weights(&t.weights);
	json_decref(t.config);
}

TAP_CASE()
{
	const char *top = getenv("abs_top_srcdir");
	json_error_t error;
	json_t *types, *entry, *fields;
	char path[512];
	size_t i;

	snprintf(path, sizeof(path), "%s/tests/caches/types.json",
		 top != NULL ? top : ".");
	types = json_load_file(path, 0, &error);
	if (!OK(types != NULL))
		NOTE("%s: %s", path, error.text);
	fields = json_object();
	json_array_foreach(types, i, entry)
		add_fields(fields, json_object_get(entry, "config"));
	json_array_foreach(types, i, entry) try_type(entry, fields);
	json_decref(fields);
	json_decref(types);
	return tap_done();
}
