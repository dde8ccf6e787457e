/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Find what each layer keeps of a sequence: keys and values of its tokens, or
 * states whose size does not depend on their number.
 *
 * The shapes of a layer's own tensors tell it.  The rows of k_proj and v_proj
 * are the elements of a token; of a fused qkv_proj those that the columns of
 * the output do not take; of kv_a_proj_with_mqa (DeepSeek's latent attention)
 * all of its rows, once.  Layers of convolutions and recurrences keep what the
 * shapes of these say.  The metadata tell what shapes do not: windows, and
 * which layers read what others keep; and the attention where weights are
 * packed so that their shapes say nothing.
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lib/model/checkpoint/checkpoint.h"
#include "shm/layer_name.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define TAPS_MAX 1024u /* of a convolution over tokens */

/* The kinds of tensors that tell something. */
enum part {
	NONE,
	QUERIES,
	KEYS,
	VALUES,
	FUSED,  /* queries, keys and values */
	TURNED, /* likewise, perhaps with rows and columns changed */
	OUTPUT,
	LATENT,
	PER_HEAD, /* a latent is expanded before it is kept: llama.cpp did so */
	INDEXER,
	NORM,     /* one for each element of a head */
	CONV,     /* a convolution over tokens */
	HEADS,    /* of a recurrence: one for each head, or each element */
	ELEMENTS, /* likewise: one for each element */
	WKV,      /* RWKV's recurrence: one for each channel */
	RATIO,    /* of how many tokens one is kept: a row for each */
	CROSS,    /* keys and values of an encoder's output */
	N_PARTS
};

/* A tensor by its name without "weight". */
static const struct {
	char name[20];
	enum part part;
} names[] = {
	{ "q_proj", QUERIES },
	{ "q_b_proj", QUERIES },
	{ "query_proj", QUERIES },
	{ "to_q", QUERIES },
	{ "wq", QUERIES },
	{ "wq_du", QUERIES },
	{ "query", QUERIES },
	{ "q", QUERIES },
	{ "q_lin", QUERIES },
	{ "attn_q", QUERIES },
	{ "k_proj", KEYS },
	{ "key_proj", KEYS },
	{ "to_k", KEYS },
	{ "wk", KEYS },
	{ "wk_dv", KEYS },
	{ "key", KEYS },
	{ "k", KEYS },
	{ "k_lin", KEYS },
	{ "attn_k", KEYS },
	{ "cross_attn_k", KEYS },
	{ "v_proj", VALUES },
	{ "value_proj", VALUES },
	{ "to_v", VALUES },
	{ "wv", VALUES },
	{ "wv_dv", VALUES },
	{ "value", VALUES },
	{ "v", VALUES },
	{ "v_lin", VALUES },
	{ "attn_v", VALUES },
	{ "cross_attn_v", VALUES },
	{ "qkv_proj", FUSED },
	{ "att_proj", FUSED },
	{ "query_key_value", FUSED },
	{ "Wqkv", FUSED },
	{ "wqkv", FUSED },
	{ "W_pack", FUSED },
	{ "c_attn", TURNED },
	{ "attn_qkv", FUSED },
	{ "o_proj", OUTPUT },
	{ "out_proj", OUTPUT },
	{ "to_out", OUTPUT },
	{ "attn_out", OUTPUT },
	{ "wo", OUTPUT },
	{ "wo_ud", OUTPUT },
	{ "dense", OUTPUT },
	{ "c_proj", OUTPUT },
	{ "attn_output", OUTPUT },
	{ "ssm_out", OUTPUT },
	{ "time_mix_output", OUTPUT },
	{ "kv_a_proj_with_mqa", LATENT },
	{ "kv_proj", LATENT }, /* JetMoe's: both of all heads */
	{ "attn_kv_a_mqa", LATENT },
	{ "wkv", LATENT },
	{ "wkv_a_with_mqa", LATENT },
	{ "attn_kv_b", PER_HEAD },
	{ "q_norm", NORM },
	{ "k_norm", NORM },
	{ "attn_q_norm", NORM },
	{ "attn_k_norm", NORM },
	{ "conv1d", CONV },
	{ "q_conv1d", CONV },
	{ "k_conv1d", CONV },
	{ "v_conv1d", CONV },
	{ "conv_1d", CONV },
	{ "conv", CONV },
	{ "k_sconv", CONV },
	{ "v_sconv", CONV },
	{ "attn_sconv", CONV },
	{ "mlp_sconv", CONV },
	{ "static_w", CONV },
	{ "conv_qk_depthwise", CONV },
	{ "ssm_conv1d", CONV },
	{ "ssm_conv1d_q", CONV },
	{ "ssm_conv1d_k", CONV },
	{ "ssm_conv1d_v", CONV },
	{ "igate_preact", HEADS },
	{ "A_log", HEADS },
	{ "ssm_a", HEADS },
	{ "recurrent_param", ELEMENTS },
	{ "time_first", WKV },
	{ "ape", RATIO },
};

/* The shapes of one layer's tensors; 0: it has no such tensor. */
struct shapes {
	uint64_t rows[N_PARTS];
	uint64_t columns[N_PARTS];
	uint64_t scaled[N_PARTS]; /* rows by scales, which count where no weight
				   * has rows: MLX has both */
	uint64_t conv;            /* elements of all convolutions */
	uint64_t inner;           /* columns of the output of a recurrence */
	uint32_t n_convs;
	uint32_t taps;   /* columns of a convolution */
	bool attends;    /* a tensor is part of an attention */
	bool is_matrix;  /* its recurrence keeps keys by values: mLSTM's */
	bool mixes_time; /* it is RWKV's */
	bool is_hidden;  /* the shape of its keys or values says nothing */
	bool is_hybrid;  /* Zamba's: an attention is beside its recurrence */
};

/* ---- tensors ------------------------------------------------------------- */

static bool has(const char *text, size_t n, const char *word)
{
	return memmem(text, n, word, strlen(word)) != NULL;
}

/* The type of numbers of which each holds several weights. */
static bool is_packed(uint32_t type)
{
	const char *name = gm_weights_type(type);

	return strcmp(name, "U8") == 0 || strcmp(name, "I32") == 0 ||
	       strcmp(name, "U32") == 0;
}

/* The rows of a matrix whose shape is packed may be known all the same; its
 * columns are 0 then. */
static bool find_shape(const struct gm_weights *ws, const struct gm_weight *w,
		       const char *last, uint64_t *ret_rows,
		       uint64_t *ret_columns)
{
	const uint64_t *dims = ws->dims + w->shape;
	uint32_t n = w->n_dims;

	*ret_rows = n > 0 ? dims[0] : 0;
	*ret_columns = n > 1 ? dims[n - 1] : 1;
	if (strcmp(last, "scales") == 0) {
		*ret_rows = *ret_columns; /* of GPTQ and AWQ: by groups */
		*ret_columns = 0;
		return n == 2;
	}
	if (strcmp(last, "weight_packed") == 0) {
		*ret_columns = 0;
		return n == 2;
	}
	if (strcmp(last, "weight") != 0 || n == 0)
		return false;
	/* bitsandbytes stores one column of bytes. */
	if (n == 2 && *ret_columns == 1 && *ret_rows > 1 &&
	    gm_weights_bits(w->type) == 8)
		return false;
	if (is_packed(w->type))
		*ret_columns = 0;
	return true;
}

static enum part find_part(const char *name, size_t n)
{
	for (size_t i = 0; i < COUNT(names); i++)
		if (names[i].name[0] == name[0] &&
		    gm_layer_name_is(names[i].name, name, n))
			return names[i].part;
	return NONE;
}

/* A tensor's name in its layer: its parts, and what it is. */
struct named {
	const char *name;
	const char *leaf; /* of what has the weight; or the last part */
	size_t n_leaf;
	size_t n_path; /* bytes before the leaf */
	enum part part;
	bool is_hidden; /* its shape says nothing of its rows */
	bool is_scale;  /* it is that of the packed weights */
	uint64_t rows, columns, elements;
};

static bool is_leaf(const struct named *t, const char *word)
{
	return gm_layer_name_is(word, t->leaf, t->n_leaf);
}

/* Find the part of the name before @end; where a module is within another, as
 * an adapter's is, that of the outer one. */
static void find_leaf(const char *name, const char *end, struct named *t)
{
	do {
		const char *dot = memrchr(name, '.', (size_t)(end - 1 - name));

		t->leaf = dot != NULL ? dot + 1 : name;
		t->n_leaf = (size_t)(end - 1 - t->leaf);
		end = t->leaf;
	} while (end > name &&
		 (is_leaf(t, "linear") || is_leaf(t, "base_layer")));
}

/* A layer may have two attentions. */
static void add_shape(struct shapes *s, enum part part, const struct named *t)
{
	if (t->is_scale)
		s->scaled[part] += t->rows;
	else
		s->rows[part] += t->rows;
	s->columns[part] += t->columns;
}

/* Returns false: it tells nothing. */
static bool find_named(const struct gm_weights *ws, const struct gm_weight *w,
		       const char *name, struct named *ret)
{
	const uint64_t *dims = w->n_dims > 0 ? ws->dims + w->shape : NULL;
	const char *last = strrchr(name, '.');
	struct named t = { .name = name, .elements = 1 };

	if (dims == NULL)
		return false;
	for (uint32_t i = 0; i < w->n_dims; i++)
		t.elements *= dims[i];
	if (t.elements == 0) /* its other dimensions may be any */
		return false;
	last = last != NULL ? last + 1 : name;
	t.leaf = last;
	t.n_leaf = strlen(last);
	if (strcmp(last, "weight") != 0)
		t.part = find_part(t.leaf, t.n_leaf);
	/* Those are no matrices, and have no "weight". */
	if (t.part >= HEADS || t.part == CONV) {
		t.rows = t.part == RATIO ? dims[0] : t.elements;
		t.columns = w->n_dims > 1 ? dims[w->n_dims - 1] : 1;
	} else {
		if (last == name)
			return false;
		find_leaf(name, last, &t);
		t.part = find_part(t.leaf, t.n_leaf);
		if (t.part == NONE && !is_leaf(&t, "norm"))
			return false;
		t.is_hidden = !find_shape(ws, w, last, &t.rows, &t.columns);
		if (t.is_hidden && strcmp(last, "weight") != 0)
			return false;
		t.is_scale = strcmp(last, "scales") == 0;
		if (t.part == TURNED) { /* GPT-2's are, others' are not */
			t.rows = t.rows > t.columns ? t.rows : t.columns;
			t.part = FUSED;
		}
		if (t.part == HEADS) /* a matrix that computes one for each */
			t.columns = 1;
	}
	t.n_path = (size_t)(t.leaf - name);
	*ret = t;
	return true;
}

static bool is_below(const struct named *t, const char *word)
{
	return has(t->name, t->n_path, word);
}

/* Take a part of DeepSeek's attention that chooses or compresses tokens. */
static bool take_sparse(struct shapes *s, const struct named *t)
{
	bool compresses = is_below(t, "compressor");

	if (is_below(t, "indexer")) {
		if (t->part == KEYS || (compresses && is_leaf(t, "norm")))
			s->rows[INDEXER] = t->rows;
		return true;
	}
	if (compresses && t->part == RATIO)
		s->rows[RATIO] = t->rows;
	return compresses;
}

/* Is it part of an attention? */
static bool attends(const char *name)
{
	return strstr(name, "att") != NULL || strstr(name, "Att") != NULL;
}

static void take_projection(struct shapes *s, const struct named *t)
{
	bool is_cross = has(t->name, strlen(t->name), "cross") ||
			is_below(t, "encoder_") || is_below(t, "EncDec");

	s->is_matrix |= is_below(t, "mlstm");
	if (!attends(t->name) && !s->is_matrix && !is_below(t, "mixer") &&
	    !is_below(t, "temporal_block") && !is_cross)
		return;
	if (t->is_hidden)
		s->is_hidden |= t->part != QUERIES;
	else if (!is_cross)
		add_shape(s, t->part, t);
	else if (t->part == KEYS || t->part == VALUES)
		add_shape(s, CROSS, t);
}

static void take_output(struct shapes *s, const struct named *t)
{
	s->mixes_time |= has(t->leaf, t->n_leaf, "time_mix");
	if (t->is_hidden)
		return;
	if (is_below(t, "linear_att") || is_below(t, "mamba") ||
	    is_below(t, "mixer") || s->mixes_time ||
	    has(t->leaf, t->n_leaf, "ssm"))
		s->inner = t->columns;
	else if (attends(t->name))
		add_shape(s, OUTPUT, t);
}

/* Without keys a layer may attend to those of another: a tensor shows it.  The
 * norm behind an attention is there without it, too. */
static void see_attention(struct shapes *s, const char *name)
{
	s->attends |= attends(name) && strstr(name, "norm") == NULL;
	s->is_hybrid |= strstr(name, "mamba_decoder") != NULL;
}

/* Take the tensor, whose name in its layer is @name. */
static void take_tensor(struct shapes *s, const struct gm_weights *ws,
			const struct gm_weight *w, const char *name)
{
	struct named t;

	if (!find_named(ws, w, name, &t))
		return;
	if (take_sparse(s, &t))
		return;
	switch (t.part) {
	case NONE:
		return;
	case QUERIES:
	case KEYS:
	case VALUES:
	case FUSED:
		take_projection(s, &t);
		return;
	case CONV:
		s->rows[CONV] += t.rows;
		s->conv += t.elements;
		s->n_convs++;
		if (t.columns > 1 && t.columns <= TAPS_MAX)
			s->taps = (uint32_t)t.columns;
		return;
	case NORM:
		s->rows[NORM] = t.columns > 1 ? t.columns : t.rows;
		return;
	case OUTPUT:
		take_output(s, &t);
		return;
	case WKV:
		s->mixes_time = true;
		/* fallthrough */
	default:
		if (t.is_hidden)
			s->is_hidden = true;
		else
			add_shape(s, t.part, &t);
	}
}

/* The name behind the layer's number.  The layers are those of one stack: the
 * names of their tensors have the same @prefix, whose length is stored. */
static const char *name_in_layer(const struct gm_weight *w, size_t *prefix)
{
	struct gm_layer_name name;
	const char *at;

	if (*prefix == 0 && gm_layer_name_parse(w->name, &name))
		*prefix = name.prefix;
	at = w->name + *prefix;
	while (*at >= '0' && *at <= '9')
		at++;
	return at + (*at == '.');
}

/* Keys and values are told by the shapes, where some layer's tell them; else by
 * the metadata of each layer that a tensor shows to attend; or by those of
 * every layer, where no tensor has a name that is known. */
enum sight { SHAPES, BOTH, METADATA };

/* ---- layers -------------------------------------------------------------- */

/* A recurrence's elements. */
static uint64_t find_state(const struct gm_weights_config *config,
			   const struct shapes *s, uint32_t kind)
{
	/* The convolution has no less, and is never packed. */
	uint64_t inner = s->inner > 0 ? s->inner : s->rows[CONV];
	uint64_t heads = s->rows[HEADS], rest;

	if (s->rows[ELEMENTS] > 0)
		return s->rows[ELEMENTS];
	/* RWKV 4 keeps a sum, its weight and the largest exponent. */
	if (s->mixes_time)
		return s->rows[WKV] > 0 ? 3 * s->rows[WKV]
					: s->inner * config->state_width;
	/* Lightning attention has no tensor of its own. */
	if (heads == 0)
		return kind == GM_LAYER_STATE
			       ? s->rows[FUSED] / 3 * config->k_dim
			       : 0;
	/* Mamba: a number for each element. */
	if (s->columns[HEADS] > 1)
		return heads;
	/* Kimi's delta attention has a convolution for each of q, k and v. */
	if (s->is_matrix || (s->n_convs == 3 && s->rows[KEYS] > 0))
		return s->rows[VALUES] * (s->rows[KEYS] / heads) +
		       (s->is_matrix ? s->rows[KEYS] + heads : 0);
	if (config->state_width > 0)
		return inner * config->state_width;
	/* Mamba 2 has the inputs of both matrices in its convolution. */
	rest = s->rows[CONV] > inner ? (s->rows[CONV] - inner) / 2 : 0;
	return inner * rest;
}

/* The heads of so many elements: by the layer's norm of a head, or the
 * metadata; 1 if neither tells. */
static uint32_t count_heads(const struct gm_weights_config *config,
			    const struct shapes *s, uint64_t keys)
{
	uint32_t n_kv_heads = config->n_kv_heads;
	uint64_t dim = s->rows[NORM];

	/* OLMo's norm is one of all heads. */
	if (dim == keys && keys == (uint64_t)n_kv_heads * config->k_dim)
		return n_kv_heads;
	if (dim == 0 || keys % dim != 0) {
		/* A layer may have others than the metadata say, of the same
		 * width; and these may not say it. */
		if (!config->says_dim && n_kv_heads < config->n_heads &&
		    n_kv_heads > 0 && keys % n_kv_heads == 0)
			return n_kv_heads;
		dim = config->k_dim;
	}
	if (dim > 0 && keys % dim == 0 && keys / dim <= UINT32_MAX)
		return (uint32_t)(keys / dim);
	return n_kv_heads > 0 && keys % n_kv_heads == 0 ? n_kv_heads : 1;
}

/* Is the layer's attention a recurrence? */
static bool is_linear(const struct shapes *s, uint32_t kind)
{
	if (kind >= GM_LAYER_STATE || s->mixes_time || s->is_matrix)
		return true;
	return s->rows[HEADS] > 0 &&
	       (s->n_convs == 3 ||
		(s->rows[FUSED] > 0 && s->columns[OUTPUT] == 0));
}

/* By the metadata. */
static bool guess_heads(const struct gm_weights_config *config,
			struct gpumap_layer_cache *c)
{
	c->token_elements = (uint64_t)config->n_kv_heads *
			    ((uint64_t)config->k_dim + config->v_dim);
	c->n_heads = config->n_kv_heads;
	return c->token_elements > 0;
}

static bool guess(const struct gm_weights_config *config,
		  struct gpumap_layer_cache *c)
{
	if (config->kv_lora_rank == 0)
		return guess_heads(config, c);
	c->token_elements = config->kv_lora_rank + config->kpe_head_dim;
	c->n_heads = 1;
	return true;
}

/* Find the keys and values of a token.  Returns false where they are not
 * known. */
static bool find_token(const struct gm_weights_config *config,
		       const struct shapes *s, enum sight sight,
		       struct gpumap_layer_cache *c)
{
	uint64_t keys = s->rows[KEYS], values = s->rows[VALUES];

	c->n_heads = 1;
	if (s->rows[PER_HEAD] > 0)
		return guess_heads(config, c);
	if (s->is_hidden)
		return guess(config, c);
	if (s->rows[LATENT] > 0) {
		c->token_elements = s->rows[LATENT] + s->rows[INDEXER];
		return true;
	}
	if (keys > 0) {
		/* Some layers of Gemma 4 have keys that are their values. */
		c->token_elements = keys + (values > 0 ? values : keys);
		c->n_heads = count_heads(config, s, keys);
		return true;
	}
	if (s->rows[FUSED] > 0) {
		uint64_t rows = s->rows[FUSED];
		uint64_t out = s->columns[OUTPUT];

		if (out == 0 || out >= rows)
			return guess(config, c);
		c->token_elements = rows - out;
		c->n_heads = count_heads(config, s, (rows - out) / 2);
		return true;
	}
	/* With queries alone it reads what another layer keeps. */
	if (sight == SHAPES ? s->rows[QUERIES] > 0 || !s->attends ||
				      s->rows[HEADS] > 0 || s->conv > 0 ||
				      s->rows[CROSS] > 0
			    : sight == BOTH && !s->attends)
		return true;
	return guess(config, c);
}

static bool has_keys(const struct shapes *s)
{
	return s->rows[KEYS] > 0 || s->rows[LATENT] > 0 || s->rows[FUSED] > 0;
}

static bool keeps(const struct gpumap_layer_cache *c)
{
	return c->n_heads > 0 &&
	       (c->token_elements > 0 || c->conv_elements > 0 ||
		c->state_elements > 0);
}

/* Add the keys and values of an encoder's output.  All of its tokens are kept,
 * whatever window the sequence has. */
static void take_cross(const struct gm_weights_config *config,
		       const struct shapes *s, struct gpumap_layer_cache *c)
{
	uint64_t elements = s->rows[CROSS];

	/* One attention is for both. */
	if (strcmp(config->type, "t5gemma2") == 0)
		elements = c->token_elements;
	if (config->n_cross > 0) {
		c->conv_elements += elements * config->n_cross;
	} else if (elements > 0) {
		c->token_elements += elements;
		c->window = 0;
	}
}

static void find_layer(const struct gm_weights_config *config, uint32_t layer,
		       uint32_t n_layers, const struct shapes *s,
		       enum sight sight, struct gpumap_layer_cache *ret)
{
	uint32_t kind = layer < GM_WEIGHTS_KINDS ? config->kinds[layer]
						 : GM_LAYER_UNKNOWN;
	struct gpumap_layer_cache c = { .n_heads = 1,
					.conv_elements = s->conv };
	bool is_known = true;

	c.state_elements = find_state(config, s, kind);
	/* RWKV keeps the last token's inputs of both of its halves. */
	if (s->mixes_time)
		c.conv_elements += 2 * (s->rows[WKV] + s->inner);
	if (is_linear(s, kind))
		is_known = !s->is_hidden;
	else if (layer + config->n_shared < n_layers)
		is_known = find_token(config, s, sight, &c);
	if ((s->rows[HEADS] > 0 && c.state_elements == 0) ||
	    (kind == GM_LAYER_STATE && !keeps(&c)))
		is_known = false;
	/* Ranks have whole heads of a recurrence as well. */
	if (c.token_elements == 0 && s->rows[HEADS] > 0 &&
	    s->columns[HEADS] <= 1 && s->rows[HEADS] <= UINT32_MAX)
		c.n_heads = (uint32_t)s->rows[HEADS];
	if (kind == GM_LAYER_WINDOW)
		c.window = config->window;
	/* DeepSeek V4 keeps the last tokens, and one of so many of all. */
	if (s->rows[RATIO] > 0 && c.window > 0) {
		c.conv_elements += s->rows[LATENT] * c.window;
		c.token_elements = (c.token_elements + s->rows[RATIO] - 1) /
				   s->rows[RATIO];
		c.window = 0;
	}
	take_cross(config, s, &c);
	if (layer >= config->loop_first && layer < config->loop_end) {
		/* Each pass of a loop over the layer keeps its own. */
		c.token_elements *= config->n_passes;
		c.conv_elements *= config->n_passes;
		c.state_elements *= config->n_passes;
		is_known &= config->n_passes > 0;
	}
	if (!is_known)
		c = (struct gpumap_layer_cache){ .n_heads = 0 };
	*ret = c;
}

/* Returns whether any layer is known to keep something. */
static bool find_layers(const struct gm_weights_config *config,
			const struct shapes *shapes, uint32_t n_layers,
			enum sight sight, struct gpumap_layer_cache *ret_caches)
{
	const struct gpumap_layer_cache *block = NULL;
	bool any = false;

	for (uint32_t i = 0; i < n_layers; i++) {
		find_layer(config, i, n_layers, &shapes[i], sight,
			   &ret_caches[i]);
		any |= keeps(&ret_caches[i]);
		if (block == NULL && has_keys(&shapes[i]))
			block = &ret_caches[i];
	}
	/* Zamba's layers share the tensors of one block, not what it keeps. */
	for (uint32_t i = 0; i < n_layers && i < GM_WEIGHTS_KINDS; i++)
		if (block != NULL && !has_keys(&shapes[i]) &&
		    shapes[i].rows[QUERIES] == 0 &&
		    (shapes[i].is_hybrid ||
		     config->kinds[i] == GM_LAYER_FULL)) {
			ret_caches[i].token_elements = block->token_elements;
			ret_caches[i].n_heads = block->n_heads;
		}
	return any;
}

int gm_weights_cache_find(const struct gm_weights *weights,
			  struct gm_weights_config *config,
			  const int32_t *layers, uint32_t n_layers,
			  struct gpumap_layer_cache *ret_caches)
{
	struct shapes *shapes = calloc(n_layers, sizeof(*shapes));
	enum sight sight = BOTH;
	size_t prefix = 0;

	if (shapes == NULL)
		return -ENOMEM;
	for (size_t i = 0; i < weights->n; i++)
		if (layers[i] >= 0)
			take_tensor(&shapes[layers[i]], weights, &weights->v[i],
				    name_in_layer(&weights->v[i], &prefix));
	for (uint32_t i = 0; i < n_layers; i++)
		for (size_t part = 0; part < N_PARTS; part++)
			if (shapes[i].rows[part] == 0)
				shapes[i].rows[part] = shapes[i].scaled[part];
	for (size_t i = 0; i < weights->n; i++)
		if (layers[i] >= 0 && !has_keys(&shapes[layers[i]]))
			see_attention(&shapes[layers[i]],
				      name_in_layer(&weights->v[i], &prefix));
	for (uint32_t i = 0; i < n_layers; i++) {
		uint64_t dim = shapes[i].rows[NORM];
		uint64_t q = shapes[i].rows[QUERIES] > 0
				     ? shapes[i].rows[QUERIES]
				     : shapes[i].columns[OUTPUT];
		uint64_t heads = dim > 0 ? q / dim : 0;

		if (has_keys(&shapes[i]))
			sight = SHAPES;
		if (shapes[i].taps > config->conv_taps)
			config->conv_taps = shapes[i].taps;
		if (config->n_heads == 0 && heads <= UINT32_MAX)
			config->n_heads = (uint32_t)heads;
	}
	if (!find_layers(config, shapes, n_layers, sight, ret_caches) &&
	    !find_layers(config, shapes, n_layers, METADATA, ret_caches))
		for (uint32_t i = 0; i < n_layers; i++)
			ret_caches[i].n_heads = 0;
	free(shapes);
	return 0;
}
