/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "lib/model/checkpoint/checkpoint.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "lib/model/checkpoint/json_scan.h"

#define AGAIN "; fetch it again"

/* The fields of an entry that have been read. */
enum { HAS_TYPE = 1, HAS_SHAPE = 2, HAS_PLACE = 4, HAS_ALL = 7 };

static const char *name_of(const struct gm_weights *ws, uint32_t file)
{
	return gm_reason_path(ws->files[file].name);
}

static int bad_header(struct gm_weights *ws, uint32_t file)
{
	return gm_reason_set(ws->why, -EINVAL,
			     "%s: its header is not the JSON that it should "
			     "be" AGAIN,
			     name_of(ws, file));
}

static int bad(struct gm_weights *ws, const struct gm_weight *w,
	       const char *what)
{
	return gm_reason_set(ws->why, -EINVAL, "%s: tensor %.60s: %s" AGAIN,
			     name_of(ws, w->file), w->name, what);
}

static int read_type(struct gm_weights *ws, struct gm_scan *scan,
		     struct gm_weight *w)
{
	char *name;

	if (!gm_json_scan_string(scan, &name))
		return bad(ws, w, "its dtype is not a string");
	/* A type of GGUF that comes in blocks is not one of safetensors. */
	if (gm_weights_type_find(name, &w->type) &&
	    gm_weights_bits(w->type) != 0)
		return 0;
	return gm_reason_set(ws->why, -EINVAL,
			     "%s: tensor %.60s has the dtype %.20s, which is "
			     "none of the format's; convert the model",
			     name_of(ws, w->file), w->name, name);
}

static int read_shape(struct gm_weights *ws, struct gm_scan *scan,
		      struct gm_weight *w)
{
	uint64_t dim;
	int ret;

	w->shape = (uint32_t)ws->n_dims;
	if (!gm_json_scan_enter(scan, '['))
		return bad(ws, w, "its shape is not a list");
	while ((ret = gm_json_scan_item(scan)) == 1) {
		if (!gm_json_scan_number(scan, &dim))
			return bad(ws, w, "its shape is not all whole numbers");
		ret = gm_weights_add_dim(ws, w, dim);
		if (ret != 0)
			return ret;
	}
	return ret == 0 ? 0 : bad_header(ws, w->file);
}

/* The offsets count from the data's first byte until the header has been read
 * whole. */
static int read_place(struct gm_weights *ws, struct gm_scan *scan,
		      struct gm_weight *w)
{
	uint64_t end = 0;

	if (!gm_json_scan_enter(scan, '[') || gm_json_scan_item(scan) != 1 ||
	    !gm_json_scan_number(scan, &w->begin) ||
	    gm_json_scan_item(scan) != 1 || !gm_json_scan_number(scan, &end) ||
	    gm_json_scan_item(scan) != 0)
		return bad(ws, w, "its data_offsets are not two whole numbers");
	if (end < w->begin)
		return bad(ws, w, "it ends before it begins");
	w->bytes = end - w->begin;
	return 0;
}

/* Do type, shape and place agree? */
static int check_size(struct gm_weights *ws, const struct gm_weight *w)
{
	uint64_t bits = 1;
	bool over = false;

	/* From the first to the last, as the format's own library: none behind
	 * a 0 is too many, and a 0 behind too many undoes nothing. */
	for (uint32_t i = 0; i < w->n_dims; i++)
		over |= __builtin_mul_overflow(bits, ws->dims[w->shape + i],
					       &bits);
	over |= __builtin_mul_overflow(bits, gm_weights_bits(w->type), &bits);
	if (over)
		return bad(ws, w, "its shape comes to 2^64 bits or more");
	if (bits % 8 != 0)
		return bad(ws, w, "it ends within a byte");
	return bits / 8 == w->bytes
		       ? 0
		       : bad(ws, w,
			     "dtype and shape come to another size than "
			     "its data_offsets");
}

static int read_field(struct gm_weights *ws, struct gm_scan *scan,
		      const char *key, struct gm_weight *w, uint32_t *has)
{
	static const struct {
		const char *key;
		uint32_t has;
		int (*read)(struct gm_weights *ws, struct gm_scan *scan,
			    struct gm_weight *w);
	} fields[] = {
		{ "dtype", HAS_TYPE, read_type },
		{ "shape", HAS_SHAPE, read_shape },
		{ "data_offsets", HAS_PLACE, read_place },
	};

	for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
		if (strcmp(fields[i].key, key) != 0)
			continue;
		if ((*has & fields[i].has) != 0)
			return bad(ws, w, "it says something twice");
		*has |= fields[i].has;
		return fields[i].read(ws, scan, w);
	}
	return gm_json_scan_skip(scan) ? 0 : bad_header(ws, w->file);
}

static int read_tensor(struct gm_weights *ws, struct gm_scan *scan,
		       struct gm_weight *w)
{
	uint32_t has = 0;
	char *key;
	int ret;

	if (!gm_json_scan_enter(scan, '{'))
		return bad(ws, w, "its entry is not an object");
	while ((ret = gm_json_scan_key(scan, &key)) == 1) {
		ret = read_field(ws, scan, key, w, &has);
		if (ret != 0)
			return ret;
	}
	if (ret < 0)
		return bad_header(ws, w->file);
	if (has != HAS_ALL)
		return bad(ws, w,
			   "its dtype, its shape or its data_offsets "
			   "are missing");
	ret = check_size(ws, w);
	return ret == 0 ? gm_weights_add(ws, w) : ret;
}

/* Check that the tensors from @first on cover all of the data, each byte
 * once. */
static int check_cover(struct gm_weights *ws, uint32_t file, size_t first,
		       uint64_t bytes)
{
	uint64_t at = 0;

	gm_weights_sort_places(ws, first);
	for (size_t i = first; i < ws->n; i++) {
		const struct gm_weight *w = &ws->v[i];

		if (w->begin < at)
			return bad(ws, w, "it overlaps another");
		if (w->begin > at)
			return bad(ws, w, "there is a gap before it");
		at += w->bytes;
	}
	if (at > bytes)
		return gm_reason_set(
			ws->why, -ENODATA,
			"%s is truncated: its tensors have %" PRIu64
			" bytes, the file holds %" PRIu64
			" of them; wait until it is complete, or "
			"fetch it again",
			name_of(ws, file), at, bytes);
	if (at < bytes)
		return gm_reason_set(ws->why, -EINVAL,
				     "%s: %" PRIu64 " bytes behind its last "
				     "tensor belong to none" AGAIN,
				     name_of(ws, file), bytes - at);
	return 0;
}

static int read_tensors(struct gm_weights *ws, uint32_t file,
			struct gm_scan *scan)
{
	char *names = scan->at, *name;
	bool has_metadata = false;
	int ret;

	while ((ret = gm_json_scan_key(scan, &name)) == 1) {
		struct gm_weight w = { .name = name, .file = file };
		size_t n = strlen(name) + 1;

		if (strcmp(name, "__metadata__") == 0) {
			/* An object or null, and there once. */
			ret = has_metadata || !gm_json_scan_is(scan, "{n") ||
					      !gm_json_scan_skip(scan)
				      ? -EINVAL
				      : 0;
			has_metadata = true;
		} else {
			ret = read_tensor(ws, scan, &w);
			/* Only names are kept of what has been read. */
			if (ret == 0)
				ws->v[ws->n - 1].name = memmove(names, name, n);
			names += n;
		}
		if (ret != 0)
			break;
	}
	return ret;
}

int gm_weights_length(struct gm_weights *weights, const char *name,
		      const void *raw, uint64_t size, uint64_t *ret_bytes)
{
	const unsigned char *byte = raw;
	uint64_t n = 0;

	if (memcmp(raw, "version ", GM_WEIGHTS_LENGTH) == 0)
		return gm_reason_set(weights->why, -EINVAL,
				     "%s is a Git LFS pointer, not the file "
				     "that it stands for; git lfs pull",
				     gm_reason_path(name));
	if (memcmp(raw, "GGUF", 4) == 0)
		return gm_reason_set(weights->why, -EINVAL,
				     "%s is a GGUF file and not named so; give "
				     "it as the model, by its own path",
				     gm_reason_path(name));
	for (unsigned int i = GM_WEIGHTS_LENGTH; i-- > 0;)
		n = n << 8 | byte[i];
	if (n > GM_WEIGHTS_HEADER)
		return gm_reason_set(weights->why, -EINVAL,
				     "%s is not a safetensors file: its header "
				     "would have %" PRIu64 " bytes; give a "
				     "safetensors file",
				     gm_reason_path(name), n);
	if (n > size - GM_WEIGHTS_LENGTH)
		return gm_reason_set(weights->why, -ENODATA,
				     "%s is truncated: its header has %" PRIu64
				     " bytes, the file holds %" PRIu64
				     " of them; wait until it is complete, or "
				     "fetch it again",
				     gm_reason_path(name), n,
				     size - GM_WEIGHTS_LENGTH);
	*ret_bytes = n;
	return 0;
}

int gm_weights_header(struct gm_weights *weights, uint32_t file, char *text,
		      size_t n, uint64_t at, uint64_t bytes)
{
	struct gm_scan scan = gm_scan_begin(text, n);
	size_t first = weights->n, first_dim = weights->n_dims;
	int ret = -EINVAL;

	weights->why->text[0] = '\0';
	if (gm_json_scan_enter(&scan, '{'))
		ret = read_tensors(weights, file, &scan);
	if (ret == 0 && !gm_json_scan_at_end(&scan))
		ret = -EINVAL;
	if (ret == 0) {
		/* As the format's own library has it. */
		weights->n =
			first + gm_weights_keep_last(weights->v + first,
						     weights->n - first,
						     sizeof(weights->v[0]));
		ret = check_cover(weights, file, first, bytes);
	}
	for (size_t i = first; ret == 0 && i < weights->n; i++)
		weights->v[i].begin += at;
	if (ret == 0)
		return 0;
	weights->n = first;
	weights->n_dims = first_dim;
	return ret == -EINVAL && weights->why->text[0] == '\0'
		       ? bad_header(weights, file)
		       : ret;
}
