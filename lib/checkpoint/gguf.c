/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "lib/checkpoint/checkpoint.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define AGAIN      "; fetch it again"
#define FIRST_READ (UINT64_C(4) << 20) /* most headers fit in this */
#define MOST_DIMS  4u
#define MOST_NAME  1024u
#define MOST_DEPTH 4u /* of arrays in arrays */
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

struct text {
	char *at;
	uint64_t n;
};

/* A header that is being read.  Once @ret is set nothing more is read. */
struct reader {
	struct gm_weights *ws;
	uint32_t file;
	unsigned char *start, *at, *end;
	uint64_t file_bytes;
	uint64_t alignment;
	struct gm_weights_split *split;
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

static struct text string(struct reader *rd)
{
	uint64_t n = number(rd, 8);
	char *at = take(rd, n);

	return (struct text){ at, at != NULL ? n : 0 };
}

static bool is(struct text text, const char *word)
{
	return text.n == strlen(word) && memcmp(text.at, word, text.n) == 0;
}

static void skip_list(struct reader *rd, unsigned int depth)
{
	uint32_t type = (uint32_t)number(rd, 4);
	uint64_t n = number(rd, 8);

	if (rd->ret != 0)
		return;
	if (type > VALUE_F64 || depth > MOST_DEPTH) {
		bad(rd, "a list in its metadata is none");
		return;
	}
	if (value_bytes[type] > 0) {
		if (__builtin_mul_overflow(n, value_bytes[type], &n))
			n = UINT64_MAX;
		take(rd, n);
		return;
	}
	/* Each element has eight bytes at least, so this ends. */
	for (; n > 0 && rd->ret == 0; n--) {
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

static uint64_t *wanted(struct reader *rd, struct text key)
{
	if (is(key, "general.alignment"))
		return &rd->alignment;
	if (is(key, "split.count"))
		return &rd->split->n_parts;
	if (is(key, "split.no"))
		return &rd->split->part;
	if (is(key, "split.tensors.count"))
		return &rd->split->n_tensors;
	return NULL;
}

static void read_pair(struct reader *rd)
{
	struct text key = string(rd);
	uint32_t type = (uint32_t)number(rd, 4);
	uint64_t *to = rd->ret == 0 ? wanted(rd, key) : NULL;

	if (rd->ret != 0)
		return;
	if (type > VALUE_F64)
		bad(rd, "its metadata has a type that is none");
	else if (type == VALUE_STRING)
		string(rd);
	else if (type == VALUE_LIST)
		skip_list(rd, 1);
	else if (to != NULL && is_whole(type))
		*to = number(rd, value_bytes[type]);
	else
		take(rd, value_bytes[type]);
}

/* ---- tensors ------------------------------------------------------------- */

/* The last dimension varies fastest, as in other formats: here it is first. */
static void add_shape(struct reader *rd, struct gm_weight *w,
		      const uint64_t dims[MOST_DIMS])
{
	struct gm_weights *ws = rd->ws;

	w->shape = ws->n_dims;
	for (uint32_t i = w->n_dims; i-- > 0;) {
		uint64_t *all = gm_weights_grow(ws->dims, ws->n_dims,
						&ws->room_dims, sizeof(*all));

		if (all == NULL) {
			rd->ret = -ENOMEM;
			return;
		}
		ws->dims = all;
		all[ws->n_dims++] = dims[i];
	}
}

static void measure(struct reader *rd, struct gm_weight *w, uint32_t type,
		    const uint64_t dims[MOST_DIMS])
{
	uint64_t row = w->n_dims > 0 ? dims[0] : 1, rows = 1;
	struct gm_weights_block block;
	bool over = false;

	if (!gm_weights_gguf_type(type, &block)) {
		rd->ret = gm_reason_set(rd->ws->why, -EOPNOTSUPP,
					"%s: tensor %.60s has the type "
					"%" PRIu32 ", which this library does "
					"not know; convert it, or use a newer "
					"release",
					name_of(rd), w->name, type);
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

static void add(struct reader *rd, const struct gm_weight *w)
{
	struct gm_weights *ws = rd->ws;
	struct gm_weight *list;

	if (rd->ret != 0)
		return;
	if (ws->n == GM_WEIGHTS_TENSORS) {
		rd->ret = gm_reason_set(ws->why, -E2BIG,
					"%s: with it the model has more than "
					"%u tensors; is this a model?",
					name_of(rd), GM_WEIGHTS_TENSORS);
		return;
	}
	list = gm_weights_grow(ws->v, ws->n, &ws->room, sizeof(*list));
	if (list == NULL) {
		rd->ret = -ENOMEM;
		return;
	}
	ws->v = list;
	list[ws->n++] = *w;
}

static void read_tensor(struct reader *rd)
{
	struct gm_weight w = { .file = rd->file };
	struct text name = string(rd);
	uint64_t dims[MOST_DIMS] = { 0 };
	uint32_t type;

	w.n_dims = (uint32_t)number(rd, 4);
	if (rd->ret != 0)
		return;
	if (name.n > MOST_NAME || name.n == 0 ||
	    memchr(name.at, '\0', name.n) != NULL || w.n_dims > MOST_DIMS) {
		bad(rd, "a tensor's name or shape is none");
		return;
	}
	name.at[name.n] = '\0'; /* n_dims lay here and has been read */
	w.name = name.at;
	for (uint32_t i = 0; i < w.n_dims; i++)
		dims[i] = number(rd, 8);
	type = (uint32_t)number(rd, 4);
	w.begin = number(rd, 8);
	if (rd->ret == 0)
		measure(rd, &w, type, dims);
	if (rd->ret == 0)
		add_shape(rd, &w, dims);
	add(rd, &w);
}

static int by_place(const void *a, const void *b)
{
	const struct gm_weight *x = a, *y = b;

	if (x->begin != y->begin)
		return x->begin < y->begin ? -1 : 1;
	return (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

/* A sum that overflows is less than @at, and no tensor begins there. */
static uint64_t padded(uint64_t at, uint64_t alignment)
{
	return (at + alignment - 1) & ~(alignment - 1);
}

/* Check that the tensors from @first on lie in the file one behind the other,
 * each at the next aligned byte.  Then make their offsets count from the file's
 * first byte. */
static void place(struct reader *rd, size_t first)
{
	struct gm_weights *ws = rd->ws;
	uint64_t data = padded((uint64_t)(rd->at - rd->start), rd->alignment);
	uint64_t bytes = data < rd->file_bytes ? rd->file_bytes - data : 0;
	uint64_t at = 0;

	if (rd->ret == 0 && ws->n > first)
		qsort(ws->v + first, ws->n - first, sizeof(ws->v[0]), by_place);
	for (size_t i = first; i < ws->n && rd->ret == 0; i++) {
		struct gm_weight *w = &ws->v[i];

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

static void check_start(struct reader *rd)
{
	const char *magic = take(rd, 4);
	uint64_t version = number(rd, 4);

	if (rd->ret != 0)
		return;
	if (memcmp(magic, "GGUF", 4) != 0)
		rd->ret = gm_reason_set(rd->ws->why, -EINVAL,
					"%s is not a GGUF file, as the others "
					"of the model are" AGAIN,
					name_of(rd));
	else if (version != 2 && version != 3)
		rd->ret = gm_reason_set(
			rd->ws->why, -EOPNOTSUPP,
			"%s: version %" PRIu64
			" of GGUF, or its bytes are the other way round; "
			"convert it to version 3, little-endian",
			name_of(rd), version);
}

int gm_weights_gguf_header(struct gm_weights *weights, uint32_t file,
			   void *bytes, size_t n, uint64_t file_bytes,
			   struct gm_weights_split *ret_split)
{
	struct gm_weights_split split = { 0 };
	struct reader rd = { .ws = weights,
			     .file = file,
			     .start = bytes,
			     .at = bytes,
			     .end = (unsigned char *)bytes + n,
			     .file_bytes = file_bytes,
			     .alignment = ALIGNMENT,
			     .split = &split };
	size_t first = weights->n, first_dim = weights->n_dims;
	uint64_t n_tensors, n_pairs, pairs_end;

	weights->why->text[0] = '\0';
	check_start(&rd);
	n_tensors = number(&rd, 8);
	n_pairs = number(&rd, 8);
	for (uint64_t i = 0; i < n_pairs && rd.ret == 0; i++)
		read_pair(&rd);
	pairs_end = (uint64_t)(rd.at - rd.start);
	if (rd.ret == 0 && (rd.alignment == 0 || rd.alignment > 1u << 20 ||
			    (rd.alignment & (rd.alignment - 1)) != 0))
		bad(&rd, "its alignment is no power of two");
	for (uint64_t i = 0; i < n_tensors && rd.ret == 0; i++)
		read_tensor(&rd);
	place(&rd, first);
	if (rd.ret == 0) {
		*ret_split = split;
		weights->files[file].pairs_end = pairs_end;
		return 0;
	}
	weights->n = first;
	weights->n_dims = first_dim;
	return rd.ret;
}

/* Keep only the names: the rest of a header is many times as long. */
static int keep_names(struct gm_weights *ws, uint32_t file, size_t first)
{
	size_t bytes = 1;
	char *names, *at;

	for (size_t i = first; i < ws->n; i++)
		bytes += strlen(ws->v[i].name) + 1;
	at = names = malloc(bytes);
	if (names == NULL)
		return -ENOMEM;
	for (size_t i = first; i < ws->n; i++) {
		size_t n = strlen(ws->v[i].name) + 1;

		memcpy(at, ws->v[i].name, n);
		ws->v[i].name = at;
		at += n;
	}
	ws->files[file].header = names;
	return 0;
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
		if (split->n_parts > GM_WEIGHTS_FILES ||
		    split->part >= split->n_parts)
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
	uint64_t size = (uint64_t)ws->files[file].stat.st_size;
	struct gm_weights_split split;
	size_t first = ws->n;
	uint64_t n = FIRST_READ;
	int ret = -EAGAIN;

	for (; ret == -EAGAIN; n *= 4) {
		char *bytes;

		if (n > GM_WEIGHTS_HEADER)
			return gm_reason_set(
				ws->why, -E2BIG,
				"%s: its header is longer than "
				"allowed; is this a model?",
				gm_reason_path(ws->files[file].name));
		n = n < size ? n : size;
		bytes = malloc(n + 1); /* never 0 */
		if (bytes == NULL)
			return -ENOMEM;
		ret = gm_weights_read_at(ws, ws->files[file].name, fd, 0, bytes,
					 n);
		if (ret == 0)
			ret = gm_weights_gguf_header(ws, file, bytes, n, size,
						     &split);
		if (ret == 0)
			ret = keep_names(ws, file, first);
		free(bytes);
	}
	return ret == 0 ? check_split(ws, file, &split) : ret;
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
