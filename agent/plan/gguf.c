/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/plan/gguf.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/plan/checked.h"
#include "agent/plan/placement.h"

#define AGAIN      "fetch the file again"
#define MOST_DIMS  4u
#define MOST_NAME  1024u
#define MOST_DEPTH 4u /* of arrays in arrays */
#define FIRST_READ ((size_t)4 << 20)

/* The names of types as the format's own programs print them, by number. */
static const struct {
	const char *name;
	uint16_t block; /* elements */
	uint16_t bytes; /* of a block */
} types[] = {
	[0] = { "F32", 1, 4 },         [1] = { "F16", 1, 2 },
	[2] = { "Q4_0", 32, 18 },      [3] = { "Q4_1", 32, 20 },
	[6] = { "Q5_0", 32, 22 },      [7] = { "Q5_1", 32, 24 },
	[8] = { "Q8_0", 32, 34 },      [9] = { "Q8_1", 32, 36 },
	[10] = { "Q2_K", 256, 84 },    [11] = { "Q3_K", 256, 110 },
	[12] = { "Q4_K", 256, 144 },   [13] = { "Q5_K", 256, 176 },
	[14] = { "Q6_K", 256, 210 },   [15] = { "Q8_K", 256, 292 },
	[16] = { "IQ2_XXS", 256, 66 }, [17] = { "IQ2_XS", 256, 74 },
	[18] = { "IQ3_XXS", 256, 98 }, [19] = { "IQ1_S", 256, 50 },
	[20] = { "IQ4_NL", 32, 18 },   [21] = { "IQ3_S", 256, 110 },
	[22] = { "IQ2_S", 256, 82 },   [23] = { "IQ4_XS", 256, 136 },
	[24] = { "I8", 1, 1 },         [25] = { "I16", 1, 2 },
	[26] = { "I32", 1, 4 },        [27] = { "I64", 1, 8 },
	[28] = { "F64", 1, 8 },        [29] = { "IQ1_M", 256, 56 },
	[30] = { "BF16", 1, 2 },       [34] = { "TQ1_0", 256, 54 },
	[35] = { "TQ2_0", 256, 66 },   [39] = { "MXFP4", 32, 17 },
};

#define N_TYPES (sizeof(types) / sizeof(types[0]))

_Static_assert(N_TYPES == GM_GGUF_TYPES, "callers count by it");

/* The types of metadata values. */
enum value_type {
	VALUE_U8,
	VALUE_I8,
	VALUE_U16,
	VALUE_I16,
	VALUE_U32,
	VALUE_I32,
	VALUE_F32,
	VALUE_BOOL,
	VALUE_STRING,
	VALUE_LIST,
	VALUE_U64,
	VALUE_I64,
	VALUE_F64
};

static const uint8_t value_bytes[] = { 1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8 };

struct text {
	const char *at;
	size_t len;
};

/* A header that is being read.  Once @r is set nothing more is read. */
struct reader {
	const char *path;
	const unsigned char *at, *end;
	uint64_t file_bytes;
	size_t n;
	int r;
	struct gm_plan_error *err;
};

/* The metadata that planning needs. */
struct facts {
	struct text architecture;
	uint64_t alignment;
	uint64_t n_parts, part, n_split_tensors;
	uint64_t n_layers, width, n_heads, n_kv_heads, k_dim, v_dim;
	uint64_t kv_lora_rank, rope_dim;
	bool kv_is_list; /* a number of heads for each layer */
};

const char *gm_gguf_type(uint32_t type)
{
	return type < N_TYPES ? types[type].name : NULL;
}

static int refuse(struct reader *rd, int code, const char *what)
{
	if (rd->r == 0)
		rd->r = gm_error_set(rd->err, code, AGAIN, "%s: %s", rd->path,
				     what);
	return rd->r;
}

/* The next @n bytes, or NULL. */
static const void *take(struct reader *rd, uint64_t n)
{
	const unsigned char *at = rd->at;

	if (rd->r)
		return NULL;
	if (n <= (uint64_t)(rd->end - at)) {
		rd->at += n;
		return at;
	}
	if (rd->n < rd->file_bytes)
		rd->r = -EAGAIN;
	else
		refuse(rd, -ENODATA, "the file ends inside its header");
	return NULL;
}

static uint64_t number(struct reader *rd, unsigned int bytes)
{
	const unsigned char *at = take(rd, bytes);
	uint64_t value = 0;

	if (!at)
		return 0;
	while (bytes-- > 0)
		value = value << 8 | at[bytes];
	return value;
}

static struct text string(struct reader *rd)
{
	uint64_t n = number(rd, 8);
	const char *at = take(rd, n);

	return (struct text){ at ? at : "", at ? n : 0 };
}

static bool is(struct text text, const char *word)
{
	return text.len == strlen(word) && memcmp(text.at, word, text.len) == 0;
}

/* Is @key "llama.block_count", for "llama" and ".block_count"? */
static bool is_of(struct text key, struct text architecture, const char *suffix)
{
	if (key.len != architecture.len + strlen(suffix) ||
	    memcmp(key.at, architecture.at, architecture.len) != 0)
		return false;
	return memcmp(key.at + architecture.len, suffix, strlen(suffix)) == 0;
}

static void skip_list(struct reader *rd, unsigned int depth)
{
	uint32_t type = (uint32_t)number(rd, 4);
	uint64_t n = number(rd, 8);
	bool over = false;

	if (rd->r)
		return;
	if (type > VALUE_F64 || depth > MOST_DEPTH) {
		refuse(rd, -EINVAL, "a list in its metadata that is none");
		return;
	}
	if (value_bytes[type] > 0) {
		n = gm_checked_mul(&over, n, value_bytes[type]);
		take(rd, over ? UINT64_MAX : n);
		return;
	}
	/* Each element has eight bytes at least, so this ends. */
	for (; n > 0 && rd->r == 0; n--) {
		if (type == VALUE_STRING)
			string(rd);
		else
			skip_list(rd, depth + 1);
	}
}

static bool is_whole(uint32_t type)
{
	return type <= VALUE_I32 || type == VALUE_U64 || type == VALUE_I64;
}

/* The place to store the number of @key, or NULL. */
static uint64_t *wanted(struct facts *f, struct text key)
{
	const struct {
		const char *suffix;
		uint64_t *to;
	} table[] = {
		{ ".block_count", &f->n_layers },
		{ ".embedding_length", &f->width },
		{ ".attention.head_count", &f->n_heads },
		{ ".attention.head_count_kv", &f->n_kv_heads },
		{ ".attention.key_length", &f->k_dim },
		{ ".attention.value_length", &f->v_dim },
		{ ".attention.kv_lora_rank", &f->kv_lora_rank },
		{ ".rope.dimension_count", &f->rope_dim },
	};

	if (is(key, "general.alignment"))
		return &f->alignment;
	if (is(key, "split.count"))
		return &f->n_parts;
	if (is(key, "split.no"))
		return &f->part;
	if (is(key, "split.tensors.count"))
		return &f->n_split_tensors;
	if (f->architecture.len == 0)
		return NULL;
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
		if (is_of(key, f->architecture, table[i].suffix))
			return table[i].to;
	return NULL;
}

static void read_pair(struct reader *rd, struct facts *f)
{
	struct text key = string(rd);
	uint32_t type = (uint32_t)number(rd, 4);
	uint64_t *to = wanted(f, key);

	if (rd->r)
		return;
	if (type > VALUE_F64) {
		refuse(rd, -EINVAL, "metadata of a type that is none");
	} else if (type == VALUE_STRING) {
		struct text value = string(rd);

		if (is(key, "general.architecture"))
			f->architecture = value;
	} else if (type == VALUE_LIST) {
		f->kv_is_list |= to == &f->n_kv_heads || to == &f->n_heads;
		skip_list(rd, 1);
	} else if (to && is_whole(type)) {
		*to = number(rd, value_bytes[type]);
	} else {
		take(rd, value_bytes[type]);
	}
}

/* Read the metadata twice: the architecture may come after the keys that begin
 * with it. */
static void read_metadata(struct reader *rd, uint64_t n, struct facts *f)
{
	const unsigned char *start = rd->at;

	for (int pass = 0; pass < 2 && rd->r == 0; pass++) {
		rd->at = start;
		for (uint64_t i = 0; i < n && rd->r == 0; i++)
			read_pair(rd, f);
	}
	if (rd->r)
		return;
	if (f->alignment == 0)
		f->alignment = 32;
	if (f->alignment > 1u << 20 || f->alignment & (f->alignment - 1))
		refuse(rd, -EINVAL, "its alignment is no power of two");
}

static int bad_tensor(struct reader *rd, const char *name, int code,
		      const char *what)
{
	return rd->r = gm_error_set(rd->err, code, AGAIN,
				    "%s: tensor %.128s: %s", rd->path, name,
				    what);
}

static void measure(struct reader *rd, struct gm_tensor *t, uint64_t row,
		    uint64_t rows, bool over)
{
	if (!gm_gguf_type(t->dtype)) {
		rd->r = gm_error_set(rd->err, -EINVAL,
				     "use a type that this version knows",
				     "%s: tensor %.128s: unknown type %" PRIu32,
				     rd->path, t->name, t->dtype);
		return;
	}
	if (row % types[t->dtype].block) {
		bad_tensor(rd, t->name, -EINVAL,
			   "its rows end within a block of its type");
		return;
	}
	row = gm_checked_mul(&over, row / types[t->dtype].block,
			     types[t->dtype].bytes);
	t->bytes = gm_checked_mul(&over, row, rows);
	if (over)
		bad_tensor(rd, t->name, -EOVERFLOW,
			   "its dimensions come to 2^64 or more");
}

static void read_tensor(struct reader *rd, struct gm_tensors *tensors)
{
	char text[MOST_NAME + 1];
	struct gm_tensor t = { .name = text };
	struct text name = string(rd);
	uint32_t n_dims = (uint32_t)number(rd, 4);
	uint64_t row = 1, rows = 1;
	bool over = false;

	if (rd->r)
		return;
	if (name.len > MOST_NAME || name.len == 0 ||
	    memchr(name.at, '\0', name.len) || n_dims > MOST_DIMS) {
		refuse(rd, -EINVAL, "a tensor whose name or shape is none");
		return;
	}
	memcpy(text, name.at, name.len);
	text[name.len] = '\0';
	for (uint32_t i = 0; i < n_dims; i++) {
		uint64_t dim = number(rd, 8);

		row = i == 0 ? dim : row;
		rows = i == 0 ? 1 : gm_checked_mul(&over, rows, dim);
	}
	t.dtype = (uint32_t)number(rd, 4);
	t.begin = number(rd, 8);
	if (rd->r == 0)
		measure(rd, &t, row, rows, over);
	if (rd->r == 0 && gm_safetensors_add(tensors, &t))
		rd->r = gm_error_no_memory(rd->err);
}

static int by_place(const void *a, const void *b)
{
	const struct gm_tensor *x = a, *y = b;

	if (x->begin != y->begin)
		return x->begin < y->begin ? -1 : 1;
	return x->bytes < y->bytes ? -1 : x->bytes > y->bytes;
}

static uint64_t padded(uint64_t at, uint64_t alignment)
{
	return (at + alignment - 1) & ~(alignment - 1);
}

/* Check that the tensors lie one behind the other, each at the next aligned
 * byte, and in the file. */
static void check_places(struct reader *rd, const struct gm_tensors *tensors,
			 uint64_t alignment)
{
	uint64_t header = rd->n - (uint64_t)(rd->end - rd->at);
	uint64_t data_bytes =
		gm_minus(rd->file_bytes, padded(header, alignment));
	uint64_t at = 0;

	for (size_t i = 0; i < tensors->n && rd->r == 0; i++) {
		const struct gm_tensor *t = &tensors->v[i];

		if (t->begin != padded(at, alignment)) {
			bad_tensor(rd, t->name, -EINVAL,
				   t->begin < at ? "it overlaps another"
						 : "a gap is before it");
		} else if (t->begin > data_bytes ||
			   t->bytes > data_bytes - t->begin) {
			bad_tensor(rd, t->name, -ENODATA,
				   "the file ends before it does");
		}
		at = t->begin + t->bytes;
	}
}

static int by_name(const void *a, const void *b)
{
	const struct gm_tensor *const *x = a, *const *y = b;

	return strcmp((*x)->name, (*y)->name);
}

static void check_names(struct reader *rd, const struct gm_tensors *tensors)
{
	const struct gm_tensor **sorted =
		calloc(tensors->n + 1, sizeof(*sorted));

	if (!sorted) {
		rd->r = gm_error_no_memory(rd->err);
		return;
	}
	for (size_t i = 0; i < tensors->n; i++)
		sorted[i] = &tensors->v[i];
	qsort(sorted, tensors->n, sizeof(*sorted), by_name);
	for (size_t i = 1; i < tensors->n && rd->r == 0; i++)
		if (strcmp(sorted[i - 1]->name, sorted[i]->name) == 0)
			bad_tensor(rd, sorted[i]->name, -EINVAL,
				   "it is there twice");
	free(sorted);
}

static void check_facts(struct reader *rd, const struct facts *f,
			struct gm_model_config *ret)
{
	struct gm_model_config c = { .n_layers = (uint32_t)f->n_layers,
				     .n_heads = f->n_heads };
	struct gm_kv_shape kv = { .n_layers = f->n_layers,
				  .n_heads = f->n_kv_heads ? f->n_kv_heads
							   : f->n_heads,
				  .k_dim = f->k_dim,
				  .v_dim = f->v_dim };

	if (f->n_layers > GM_PLACEMENT_LAYERS ||
	    gm_max(gm_max(gm_max(f->n_heads, f->n_kv_heads),
			  gm_max(f->k_dim, f->v_dim)),
		   gm_max(f->kv_lora_rank, f->rope_dim)) > GM_MODEL_NUMBER) {
		refuse(rd, -EINVAL, "numbers in its metadata that cannot be");
		return;
	}
	if (kv.k_dim == 0 && f->n_heads > 0)
		kv.k_dim = f->width / f->n_heads;
	if (kv.v_dim == 0)
		kv.v_dim = kv.k_dim;
	if (f->kv_lora_rank > 0 && f->rope_dim > 0) {
		kv.is_mla = true;
		kv.kv_lora_rank = f->kv_lora_rank;
		kv.kpe_head_dim = f->rope_dim;
	}
	c.has_kv = kv.n_heads > 0 && kv.k_dim > 0 && !f->kv_is_list;
	if (c.has_kv)
		c.kv = kv;
	snprintf(c.type, sizeof(c.type), "%.*s",
		 (int)gm_min(f->architecture.len, sizeof(c.type) - 1),
		 f->architecture.at ? f->architecture.at : "");
	*ret = c;
}

static void check_split(struct reader *rd, const struct facts *f,
			struct gm_gguf_split *ret)
{
	if (f->n_parts > 1 && !ret) {
		rd->r = gm_error_set(rd->err, -EINVAL,
				     "join the files: llama-gguf-split --merge",
				     "%s is one of %" PRIu64
				     " files of a model",
				     rd->path, f->n_parts);
	} else if (f->n_parts > GM_GGUF_PARTS) {
		refuse(rd, -E2BIG, "more files than a model can have");
	} else if (f->n_parts > 1 && f->part >= f->n_parts) {
		refuse(rd, -EINVAL, "the number of a file that cannot be");
	} else if (ret) {
		*ret = (struct gm_gguf_split){ (uint32_t)f->n_parts,
					       (uint32_t)f->part,
					       f->n_split_tensors };
	}
}

static void check_start(struct reader *rd)
{
	const void *magic = take(rd, 4);
	uint64_t version = number(rd, 4);

	if (magic && memcmp(magic, "GGUF", 4) != 0) {
		rd->r = gm_error_set(rd->err, -EINVAL,
				     "give a GGUF file, or the directory of a "
				     "checkpoint",
				     "%s is not a GGUF file", rd->path);
	} else if (rd->r == 0 && version != 2 && version != 3) {
		rd->r = gm_error_set(rd->err, -EINVAL,
				     "convert it to version 3, little-endian",
				     "%s: version %" PRIu64
				     " of the format, or its bytes are the "
				     "other way round",
				     rd->path, version);
	}
}

int gm_gguf_header(const struct gm_file_header *header,
		   struct gm_tensors *tensors,
		   struct gm_model_config *ret_config,
		   struct gm_gguf_split *ret_split,
		   struct gm_plan_error *ret_err)
{
	const unsigned char *first = header->bytes;
	struct reader rd = { header->path,
			     first,
			     first + header->n,
			     header->n + header->rest,
			     header->n,
			     0,
			     ret_err };
	struct facts facts = { .alignment = 0 };
	uint64_t n_tensors, n_pairs;

	check_start(&rd);
	n_tensors = number(&rd, 8);
	n_pairs = number(&rd, 8);
	if (rd.r == 0 && n_tensors > GM_GGUF_TENSORS)
		refuse(&rd, -E2BIG, "more tensors than a model can have");
	if (rd.r == 0)
		read_metadata(&rd, n_pairs, &facts);
	for (uint64_t i = 0; i < n_tensors && rd.r == 0; i++)
		read_tensor(&rd, tensors);
	if (rd.r)
		return rd.r;
	if (tensors->n > 0)
		qsort(tensors->v, tensors->n, sizeof(tensors->v[0]), by_place);
	check_places(&rd, tensors, facts.alignment);
	if (rd.r == 0)
		check_names(&rd, tensors);
	if (rd.r == 0)
		check_split(&rd, &facts, ret_split);
	if (rd.r == 0)
		check_facts(&rd, &facts, ret_config);
	return rd.r;
}

int gm_gguf_read(const struct gm_file *file, struct gm_tensors *tensors,
		 struct gm_model_config *ret_config,
		 struct gm_gguf_split *ret_split, struct gm_plan_error *ret_err)
{
	size_t n = FIRST_READ;
	char *bytes;
	int r;

	for (;;) {
		n = (size_t)gm_min(n, file->size);
		bytes = malloc(n + 1); /* never 0 */
		if (!bytes)
			return gm_error_no_memory(ret_err);
		r = gm_file_read(file, 0, bytes, n, ret_err);
		if (r == 0)
			r = gm_gguf_header(
				&(struct gm_file_header){ file->path, bytes, n,
							  file->size - n },
				tensors, ret_config, ret_split, ret_err);
		free(bytes);
		if (r != -EAGAIN)
			return r;
		if (n >= GM_GGUF_HEADER)
			return gm_error_set(ret_err, -EFBIG, "is this a model?",
					    "%s: a header longer than the %zu "
					    "bytes allowed",
					    file->path, GM_GGUF_HEADER);
		gm_safetensors_free(tensors);
		n *= 4;
	}
}

/* "-00002-of-00003.gguf" */
static void print_suffix(char text[40], uint32_t part, uint32_t n_parts)
{
	snprintf(text, 40, "-%05" PRIu32 "-of-%05" PRIu32 ".gguf", part + 1,
		 n_parts);
}

int gm_gguf_part_path(const char *path, const struct gm_gguf_split *split,
		      uint32_t part, char **ret_path,
		      struct gm_plan_error *ret_err)
{
	char suffix[40];
	size_t n = strlen(path);

	print_suffix(suffix, split->part, split->n_parts);
	if (n < strlen(suffix) ||
	    strcmp(path + n - strlen(suffix), suffix) != 0)
		return gm_error_set(ret_err, -EINVAL,
				    "give all files the names that they had",
				    "%s is file %" PRIu32 " of %" PRIu32
				    " of a model, and its name does not end "
				    "in %s",
				    path, split->part + 1, split->n_parts,
				    suffix);
	n -= strlen(suffix);
	print_suffix(suffix, part, split->n_parts);
	if (asprintf(ret_path, "%.*s%s", (int)n, path, suffix) < 0)
		return gm_error_no_memory(ret_err);
	return 0;
}
