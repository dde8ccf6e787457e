/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "lib/model/checkpoint/checkpoint.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define AGAIN      "; fetch it again"
#define FIRST_READ (UINT64_C(4) << 20) /* most headers fit in this */
#define MOST_DIMS  64u   /* as many as numpy has, which reads it elsewhere */
#define MOST_DEPTH 1000u /* of arrays in arrays: as many as Python reads */
#define ALIGNMENT  32u
#define SUFFIX     24u /* bytes of "-00002-of-00003.gguf", at most, and a NUL */

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

/* A header that is being read.  Once @ret is set nothing more is read. */
struct reader {
	struct gm_weights *ws;
	uint32_t file;
	unsigned char *start, *at, *end;
	uint64_t file_bytes;
	uint64_t alignment;
	struct gm_weights_split split;
	gm_weights_pair_fn *visit; /* each pair */
	void *data;
	int ret;
};

static const char *name_of(const struct reader *rd)
{
	return gm_reason_path(rd->ws->files[rd->file].name);
}

static void bad(struct reader *rd, const char *what)
{
	if (rd->ret == 0)
		rd->ret = gm_reason_set(rd->ws->why, -EINVAL, "%s: %s" AGAIN,
					name_of(rd), what);
}

static void bad_tensor(struct reader *rd, const char *tensor, const char *what)
{
	if (rd->ret == 0)
		rd->ret = gm_reason_set(rd->ws->why, -EINVAL,
					"%s: tensor %.60s: %s" AGAIN,
					name_of(rd), tensor, what);
}

static void truncated(struct reader *rd, const char *where)
{
	if (rd->ret == 0)
		rd->ret = gm_reason_set(rd->ws->why, -ENODATA,
					"%s is truncated: it ends inside %s; "
					"wait until it is complete, or fetch "
					"it again",
					name_of(rd), where);
}

/* ---- values -------------------------------------------------------------- */

/* The next @n bytes, or NULL. */
static void *take(struct reader *rd, uint64_t n)
{
	unsigned char *at = rd->at;

	if (rd->ret != 0)
		return NULL;
	if (n <= (uint64_t)(rd->end - at)) {
		rd->at += n;
		return at;
	}
	if ((uint64_t)(rd->end - rd->start) < rd->file_bytes)
		rd->ret = -EAGAIN;
	else
		truncated(rd, "its header");
	return NULL;
}

static uint64_t number(struct reader *rd, unsigned int bytes)
{
	const unsigned char *at = take(rd, bytes);
	uint64_t value = 0;

	while (at != NULL && bytes-- > 0)
		value = value << 8 | at[bytes];
	return value;
}

static struct gm_weights_text string(struct reader *rd)
{
	uint64_t n = number(rd, 8);
	char *at = take(rd, n);

	return (struct gm_weights_text){ at, at != NULL ? n : 0 };
}

bool gm_weights_text_is(struct gm_weights_text text, const char *word)
{
	return text.n == strlen(word) && memcmp(text.at, word, text.n) == 0;
}

static bool is_whole(uint32_t type)
{
	return type <= VALUE_I32 || type == VALUE_U64 || type == VALUE_I64;
}

/* @pair receives the items, NULL: they are in a list of lists. */
static void read_list(struct reader *rd, unsigned int depth,
		      struct gm_weights_pair *pair)
{
	uint32_t type = (uint32_t)number(rd, 4);
	uint64_t n = number(rd, 8);

	if (rd->ret != 0 || n == 0) /* an empty one may be of any type */
		return;
	if (type > VALUE_F64 || depth > MOST_DEPTH) {
		bad(rd, "a list in its metadata is none");
		return;
	}
	if (value_bytes[type] > 0) {
		uint64_t bytes;

		if (__builtin_mul_overflow(n, value_bytes[type], &bytes))
			bytes = UINT64_MAX;
		if (pair != NULL && (is_whole(type) || type == VALUE_BOOL)) {
			pair->items = take(rd, bytes);
			pair->n_items = pair->items != NULL ? n : 0;
			pair->item_bytes = value_bytes[type];
		} else {
			take(rd, bytes);
		}
		return;
	}
	/* Each element has eight bytes at least, so this ends. */
	for (; n > 0 && rd->ret == 0; n--) {
		if (type == VALUE_STRING)
			string(rd);
		else
			read_list(rd, depth + 1, NULL);
	}
}

uint64_t gm_weights_item(const struct gm_weights_pair *pair, uint64_t i)
{
	const unsigned char *at = pair->items + i * pair->item_bytes;
	uint64_t value = 0;

	for (uint32_t k = pair->item_bytes; k-- > 0;)
		value = value << 8 | at[k];
	return value;
}

static void read_pair(struct reader *rd)
{
	struct gm_weights_pair pair = { .key = string(rd) };
	uint32_t type = (uint32_t)number(rd, 4);

	if (rd->ret != 0)
		return;
	if (type > VALUE_F64)
		bad(rd, "its metadata has a type that is none");
	else if (type == VALUE_STRING)
		pair.text = string(rd);
	else if (type == VALUE_LIST)
		read_list(rd, 1, &pair);
	else if (is_whole(type))
		pair.number = number(rd, value_bytes[type]);
	else
		take(rd, value_bytes[type]);
	pair.is_list = type == VALUE_LIST;
	pair.is_number = is_whole(type);
	if (rd->ret == 0)
		rd->visit(rd->data, &pair);
}

/* The pairs that say where the tensors are. */
static void take_place(void *data, const struct gm_weights_pair *pair)
{
	struct reader *rd = data;
	const struct {
		const char *key;
		uint64_t *to;
	} table[] = {
		{ "general.alignment", &rd->alignment },
		{ "split.count", &rd->split.n_parts },
		{ "split.no", &rd->split.part },
		{ "split.tensors.count", &rd->split.n_tensors },
	};

	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
		if (pair->is_number &&
		    gm_weights_text_is(pair->key, table[i].key))
			*table[i].to = pair->number;
}

/* ---- tensors ------------------------------------------------------------- */

static void measure(struct reader *rd, struct gm_weight *w, uint32_t type)
{
	const uint64_t *dims = w->n_dims > 0 ? rd->ws->dims + w->shape : NULL;
	uint64_t row = w->n_dims > 0 ? dims[0] : 1, rows = 1;
	bool over = false;
	struct gm_weights_block block;

	if (!gm_weights_gguf_type(type, &block)) {
		gm_weights_type_find(GM_WEIGHTS_OTHER, &w->type);
		w->bytes = UINT64_MAX; /* see place() */
		return;
	}
	if (row % block.elements != 0) {
		bad_tensor(rd, w->name,
			   "its rows end within a block of its type");
		return;
	}
	w->type = block.type;
	for (uint32_t i = 1; i < w->n_dims; i++)
		over |= __builtin_mul_overflow(rows, dims[i], &rows);
	over |= __builtin_mul_overflow(row / block.elements, block.bytes, &row);
	over |= __builtin_mul_overflow(row, rows, &w->bytes);
	if (over)
		bad_tensor(rd, w->name,
			   "its shape comes to 2^64 bytes or more");
}

/* Read a tensor, and move its name to @names. */
static char *read_tensor(struct reader *rd, char *names)
{
	struct gm_weights *ws = rd->ws;
	struct gm_weight w = { .file = rd->file,
			       .shape = (uint32_t)ws->n_dims };
	struct gm_weights_text name = string(rd);
	uint32_t n_dims = (uint32_t)number(rd, 4), type;

	if (rd->ret == 0 &&
	    (memchr(name.at, '\0', name.n) != NULL || n_dims > MOST_DIMS))
		bad(rd, "a tensor's name or shape is none");
	if (rd->ret != 0)
		return names;
	w.name = memmove(names, name.at, name.n);
	names[name.n] = '\0'; /* n_dims has been read */
	while (rd->ret == 0 && w.n_dims < n_dims) {
		uint64_t dim = number(rd, 8);

		if (rd->ret == 0)
			rd->ret = gm_weights_add_dim(ws, &w, dim);
	}
	type = (uint32_t)number(rd, 4);
	w.begin = number(rd, 8);
	if (rd->ret == 0)
		measure(rd, &w, type);
	/* The last dimension varies fastest, as in other formats: here it is
	 * first. */
	for (uint32_t i = 0; i < w.n_dims / 2 && rd->ret == 0; i++) {
		uint64_t *a = &ws->dims[w.shape + i];
		uint64_t *b = &ws->dims[w.shape + w.n_dims - 1 - i], dim = *a;

		*a = *b;
		*b = dim;
	}
	if (rd->ret == 0)
		rd->ret = gm_weights_add(ws, &w);
	return names + name.n + 1;
}

/* A sum that overflows is less than @at, and no tensor begins there. */
static uint64_t padded(uint64_t at, uint64_t alignment)
{
	return (at + alignment - 1) & ~(alignment - 1);
}

/* Check that the tensors from @first on lie in the file one behind the other,
 * each at the next aligned byte.  Then make their offsets count from the file's
 * first byte.  Those of a type that is not known go on up to the next tensor,
 * or to the file's end. */
static void place(struct reader *rd, size_t first)
{
	struct gm_weights *ws = rd->ws;
	uint64_t data = padded((uint64_t)(rd->at - rd->start), rd->alignment);
	uint64_t bytes = data < rd->file_bytes ? rd->file_bytes - data : 0;
	uint64_t at = 0;

	if (rd->ret == 0)
		gm_weights_sort_places(ws, first);
	for (size_t i = first; i < ws->n && rd->ret == 0; i++) {
		struct gm_weight *w = &ws->v[i];
		uint64_t next = i + 1 < ws->n ? w[1].begin : bytes;

		if (w->bytes == UINT64_MAX && next > w->begin)
			w->bytes = next - w->begin;
		if (w->begin < at)
			bad_tensor(rd, w->name, "it overlaps another");
		else if (w->begin != padded(at, rd->alignment))
			bad_tensor(rd, w->name, "there is a gap before it");
		else if (w->begin > bytes || w->bytes > bytes - w->begin)
			truncated(rd, w->name);
		at = w->begin + w->bytes;
		w->begin += data;
	}
}

/* ---- a header ------------------------------------------------------------ */

/* Returns the number of tensors. */
static uint64_t check_start(struct reader *rd)
{
	const char *magic = take(rd, 4);
	uint64_t version = number(rd, 4);

	if (rd->ret == 0 && memcmp(magic, "GGUF", 4) != 0)
		rd->ret = gm_reason_set(rd->ws->why, -EINVAL,
					"%s is not a GGUF file, as the others "
					"of the model are" AGAIN,
					name_of(rd));
	else if (rd->ret == 0 && version != 2 && version != 3)
		rd->ret = gm_reason_set(
			rd->ws->why, -EOPNOTSUPP,
			"%s: version %" PRIu64
			" of GGUF, or its bytes are the other way round; "
			"convert it to version 3, little-endian",
			name_of(rd), version);
	return number(rd, 8);
}

int gm_weights_gguf_header(struct gm_weights *weights, uint32_t file,
			   void *bytes, size_t n, uint64_t file_bytes,
			   struct gm_weights_split *ret_split)
{
	struct reader rd = { .ws = weights,
			     .file = file,
			     .start = bytes,
			     .at = bytes,
			     .end = (unsigned char *)bytes + n,
			     .file_bytes = file_bytes,
			     .alignment = ALIGNMENT,
			     .visit = take_place,
			     .data = &rd };
	size_t first = weights->n, first_dim = weights->n_dims;
	uint64_t n_tensors, n_pairs, pairs_end;
	char *names = bytes;

	weights->why->text[0] = '\0';
	n_tensors = check_start(&rd);
	n_pairs = number(&rd, 8);
	if (rd.ret == 0 && n_tensors > GM_WEIGHTS_TENSORS)
		rd.ret = gm_reason_set(weights->why, -E2BIG,
				       "%s says that it has %" PRIu64
				       " tensors, more than a model can have; "
				       "is this a model?",
				       name_of(&rd), n_tensors);
	for (uint64_t i = 0; i < n_pairs && rd.ret == 0; i++)
		read_pair(&rd);
	pairs_end = (uint64_t)(rd.at - rd.start);
	if (rd.ret == 0 && (rd.alignment == 0 || rd.alignment > UINT32_MAX ||
			    (rd.alignment & (rd.alignment - 1)) != 0))
		bad(&rd, "its alignment is no power of two");
	for (uint64_t i = 0; i < n_tensors && rd.ret == 0; i++)
		names = read_tensor(&rd, names);
	place(&rd, first);
	if (rd.ret == 0) {
		*ret_split = rd.split;
		weights->files[file].pairs_end = pairs_end;
		return 0;
	}
	weights->n = first;
	weights->n_dims = first_dim;
	return rd.ret;
}

int gm_weights_gguf_pairs(const struct gm_weights_meta *meta,
			  gm_weights_pair_fn *visit, void *data)
{
	char name[] = "the metadata";
	struct gm_weight_file file = { .name = name };
	struct gm_reason why;
	struct gm_weights ws = { .files = &file, .why = &why };
	struct reader rd = { .ws = &ws,
			     .start = meta->data,
			     .at = meta->data,
			     .end = (unsigned char *)meta->data + meta->bytes,
			     .file_bytes = meta->bytes,
			     .visit = visit,
			     .data = data };
	uint64_t n_pairs;

	check_start(&rd);
	n_pairs = number(&rd, 8);
	for (uint64_t i = 0; i < n_pairs && rd.ret == 0; i++)
		read_pair(&rd);
	return rd.ret;
}

/* ---- the files of a model ------------------------------------------------ */

static void print_suffix(char text[SUFFIX], uint64_t part, uint64_t n_parts)
{
	snprintf(text, SUFFIX, "-%05u-of-%05u.gguf", (uint32_t)part + 1,
		 (uint32_t)n_parts);
}

/* Add the model's other files to the list, by the names that the tools give
 * them. */
static int add_parts(struct gm_weights *ws, uint32_t file)
{
	const struct gm_weights_split *split = &ws->split;
	const char *name = ws->files[file].name;
	char suffix[SUFFIX], other[300];
	size_t n = strlen(name);
	int ret = 0;

	print_suffix(suffix, split->part, split->n_parts);
	if (n < strlen(suffix) || n >= sizeof(other) ||
	    strcmp(name + n - strlen(suffix), suffix) != 0)
		return gm_reason_set(ws->why, -EINVAL,
				     "%s is file %" PRIu64 " of %" PRIu64
				     " of a model, and its name does not end "
				     "in %s; give the files their names again",
				     gm_reason_path(name), split->part + 1,
				     split->n_parts, suffix);
	n -= strlen(suffix);
	for (uint64_t i = 0; i < split->n_parts && ret == 0; i++) {
		if (i == split->part)
			continue;
		print_suffix(suffix, i, split->n_parts);
		snprintf(other, sizeof(other), "%.*s%s", (int)n,
			 ws->files[file].name, suffix);
		ret = gm_weights_add_file(ws, other);
	}
	return ret;
}

/* Is this file the part that its name says?  File 0 is the one that the caller
 * named; the files behind it are the others in their order. */
static int check_split(struct gm_weights *ws, uint32_t file,
		       const struct gm_weights_split *split)
{
	uint64_t part = file - (file <= ws->split.part ? 1 : 0);

	if (file == 0) {
		if (split->n_parts <= 1)
			return 0;
		if (split->n_parts > GM_WEIGHTS_FILES)
			return gm_reason_set(ws->why, -E2BIG,
					     "%s says that its model has "
					     "%" PRIu64 " files; is this a "
					     "model?",
					     gm_reason_path(ws->files[0].name),
					     split->n_parts);
		if (split->part >= split->n_parts)
			return gm_reason_set(ws->why, -EINVAL,
					     "%s says that it is file %" PRIu64
					     " of %" PRIu64 AGAIN,
					     gm_reason_path(ws->files[0].name),
					     split->part + 1, split->n_parts);
		ws->split = *split;
		return add_parts(ws, file);
	}
	if (split->n_parts == ws->split.n_parts && split->part == part)
		return 0;
	return gm_reason_set(ws->why, -EINVAL,
			     "%s says that it is file %" PRIu64 " of %" PRIu64
			     " of a model" AGAIN,
			     gm_reason_path(ws->files[file].name),
			     split->part + 1, split->n_parts);
}

int gm_weights_gguf(struct gm_weights *weights, uint32_t file, int fd)
{
	struct gm_weights *ws = weights;
	struct gm_weight_file *f = &ws->files[file];
	uint64_t size = (uint64_t)f->stat.st_size, n = 0;
	struct gm_weights_split split;
	size_t first = ws->n;
	int ret;

	/* The names are moved while a header is read: each attempt reads it
	 * again, and a quarter more. */
	do {
		if (n == GM_WEIGHTS_GGUF_HEADER)
			return gm_reason_set(ws->why, -E2BIG,
					     "%s: its header is longer than "
					     "allowed; is this a model?",
					     gm_reason_path(f->name));
		n = n == 0 ? FIRST_READ : n + n / 4;
		n = n < GM_WEIGHTS_GGUF_HEADER ? n : GM_WEIGHTS_GGUF_HEADER;
		n = n < size ? n : size;
		free(f->header);
		f->header = malloc(n + 1); /* never 0 */
		if (f->header == NULL)
			return -ENOMEM;
		ret = gm_weights_read_at(ws, f->name, fd, 0, f->header, n);
		if (ret == 0)
			ret = gm_weights_gguf_header(ws, file, f->header, n,
						     size, &split);
	} while (ret == -EAGAIN);
	if (ret != 0)
		return ret;
	gm_weights_keep_names(ws, file, first);
	return check_split(ws, file, &split);
}

int gm_weights_gguf_check(struct gm_weights *weights)
{
	const struct gm_weights_split *split = &weights->split;

	if (split->n_tensors == 0 || split->n_tensors == weights->n)
		return 0;
	return gm_reason_set(weights->why, -EINVAL,
			     "%s: the model has %" PRIu64
			     " tensors, its files %zu" AGAIN,
			     gm_reason_path(weights->files[0].name),
			     split->n_tensors, weights->n);
}
