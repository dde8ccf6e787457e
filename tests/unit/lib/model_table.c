/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * model_table: what is written is what is read, and a table of which one word
 * lies is refused, with a reason.
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <gpumap/model.h>

#include "lib/model/table.h"
#include "tests/support/tap.h"

#define N 3u

static struct gm_weight weights[N] = {
	{ .name = "a", .bytes = 24, .shape = 0, .n_dims = 2 },
	{ .name = "b.long.name", .bytes = 0, .shape = 2, .n_dims = 1 },
	{ .name = "c", .bytes = 100, .shape = 3, .n_dims = 0 },
};
static uint64_t dims[3] = { 2, 3, 0 };
static struct gm_model_place places[N] = {
	{ .row = 1, .layer = 0, .buffer = 1, .at = 256 },
	{ .row = 0, .layer = -1, .buffer = UINT32_MAX, .at = 0 },
	{ .row = 0, .layer = 7, .buffer = 0, .at = 0 },
};

static void *table;
static uint64_t bytes;

/* The share as an opener sees it. */
static struct gpumap_model opener(void)
{
	struct gpumap_model m = { .n_buffers = 2 };

	m.buffers = calloc(2, sizeof(*m.buffers));
	m.buffers[0] = (struct gm_model_buffer){ .bytes = 100, .row = 0 };
	m.buffers[1] = (struct gm_model_buffer){ .bytes = 280, .row = 1 };
	return m;
}

static void drop(struct gpumap_model *m)
{
	gm_weights_free(&m->weights);
	free(m->names);
	free(m->places);
	free(m->buffers);
}

static char meta[] = "general.name";

static void it_is_read_as_it_was_written(void)
{
	char path[] = "/models/an\033one"; /* which a terminal might obey */
	struct gpumap_model loader = { .n_buffers = 2,
				       .places = places,
				       .order.path = path };
	struct gpumap_model m = opener();

	gm_weights_type_find("F32", &weights[0].type);
	gm_weights_type_find("F8_E4M3FNUZ", &weights[2].type);
	loader.meta = (struct gm_weights_meta){ .data = meta,
						.bytes = sizeof(meta),
						.format = GPUMAP_META_GGUF };
	loader.weights = (struct gm_weights){
		.v = weights, .n = N, .dims = dims, .n_dims = 3
	};
	EQ(gm_model_table_make(&loader, &table, &bytes), 0);
	EQ(gm_model_table_read(&m, table, bytes), 0);
	EQ(m.weights.n, N);
	EQ(m.total, 124);
	OK(m.fingerprint == gm_fingerprint_weights(&loader.weights));
	OK(m.fingerprint_files != 0 &&
	   m.fingerprint_files == gm_fingerprint_files(&loader.weights));
	STR(m.path, "/models/an?one");
	EQ(m.meta.bytes, sizeof(meta));
	EQ(m.meta.format, GPUMAP_META_GGUF);
	OK(m.meta.data && memcmp(m.meta.data, meta, sizeof(meta)) == 0);
	for (size_t i = 0; i < N; i++) {
		const struct gm_weight *w = &m.weights.v[i];

		OK(strcmp(w->name, weights[i].name) == 0);
		EQ(w->type, weights[i].type);
		EQ(w->bytes, weights[i].bytes);
		EQ(w->n_dims, weights[i].n_dims);
		EQ(m.places[i].row, places[i].row);
		EQ(m.places[i].layer, places[i].layer);
		EQ(m.places[i].buffer, places[i].buffer);
		EQ(m.places[i].at, places[i].at);
	}
	EQ(m.weights.dims[m.weights.v[0].shape + 1], 3);
	OK(gm_weights_find(&m.weights, "c") == &m.weights.v[2]);
	drop(&m);
}

/* With @n bytes at @at as they are here. */
static int with(uint64_t at, const void *value, size_t n)
{
	struct gpumap_model m = opener();
	char *copy = malloc(bytes);
	int ret;

	memcpy(copy, table, bytes);
	memcpy(copy + at, value, n);
	ret = gm_model_table_read(&m, copy, bytes);
	if (ret != 0)
		OK(m.why.text[0] != '\0');
	free(copy);
	drop(&m);
	return ret;
}

static int with32(uint64_t at, uint32_t value)
{
	return with(at, &value, sizeof(value));
}

static int with64(uint64_t at, uint64_t value)
{
	return with(at, &value, sizeof(value));
}

#define HEAD(field) offsetof(struct gm_model_table, field)
#define TENSOR(i, field)                        \
	(sizeof(struct gm_model_table) +        \
	 (i) * sizeof(struct gm_model_tensor) + \
	 offsetof(struct gm_model_tensor, field))

static void lies_are_told(void)
{
	const char no_end[GM_MODEL_TYPE_BYTES] = "F32 F32 F32 F32";
	char full[GM_MODEL_TYPE_BYTES], path[GM_MODEL_PATH_BYTES];
	struct gpumap_model m = opener();

	EQ(with64(HEAD(magic), 1), -EINVAL);
	EQ(with32(HEAD(version), 1), -EPROTO);
	memset(path, 'p', sizeof(path));
	EQ(with(HEAD(path), path, sizeof(path)), -EPROTO);
	EQ(with32(HEAD(n_buffers), 1), -EPROTO);
	EQ(with64(HEAD(n_tensors), 2), -EPROTO);
	EQ(with64(HEAD(n_tensors), UINT64_MAX / 64 + 4), -EPROTO);
	EQ(with64(HEAD(n_dims), 2), -EPROTO);
	EQ(with64(HEAD(n_dims), UINT64_MAX / 8 + 4), -EPROTO);
	EQ(with64(HEAD(name_bytes), 1), -EPROTO);
	EQ(with64(HEAD(meta_bytes), 0), -EPROTO);
	EQ(with64(HEAD(meta_bytes), UINT64_MAX), -EPROTO);
	EQ(with32(HEAD(meta_format), 0), -EPROTO);
	EQ(with32(HEAD(meta_format), 3), -EPROTO);
	EQ(with32(HEAD(reserved), 1), -EPROTO);
	EQ(with64(TENSOR(0, name), bytes), -EPROTO);
	EQ(with64(TENSOR(0, name), 14), -EPROTO); /* is "c", as the third */
	EQ(with64(TENSOR(1, shape), 4), -EPROTO);
	EQ(with64(TENSOR(1, shape), UINT64_MAX), -EPROTO);
	EQ(with32(TENSOR(2, n_dims), 1), -EPROTO);
	EQ(with32(TENSOR(0, buffer), 2), -EPROTO);
	EQ(with32(TENSOR(0, buffer), 0), -EPROTO); /* of another row */
	EQ(with32(TENSOR(0, row), 0), -EPROTO);
	EQ(with64(TENSOR(0, at), 257), -EPROTO);
	EQ(with64(TENSOR(0, at), UINT64_MAX), -EPROTO);
	EQ(with64(TENSOR(0, bytes), 25), -EPROTO);
	EQ(with64(TENSOR(0, bytes), UINT64_MAX), -EPROTO);
	EQ(with(TENSOR(0, type), no_end, sizeof(no_end)), -EPROTO);
	memset(full, 'F', sizeof(full));
	EQ(with(TENSOR(0, type), full, sizeof(full)), -EPROTO);
	EQ(with64(TENSOR(0, bytes), 24), 0); /* as it was */
	EQ(gm_model_table_read(&m, table, bytes - 1), -EPROTO);
	drop(&m);
	m = opener();
	EQ(gm_model_table_read(&m, table, 167), -EINVAL);
	drop(&m);
	m = opener();
	EQ(gm_model_table_read(&m, NULL, 0), -EINVAL);
	drop(&m);
}

/* Each type that a program can compute with has its own dtype. */
static void types_have_their_dtypes(void)
{
	static const struct {
		const char *name;
		uint32_t dtype, bits;
	} types[] = {
		{ "BOOL", GPUMAP_DTYPE_BOOL, 8 },
		{ "I8", GPUMAP_DTYPE_I8, 8 },
		{ "I16", GPUMAP_DTYPE_I16, 16 },
		{ "F8_E4M3", GPUMAP_DTYPE_F8_E4M3, 8 },
		{ "F8_E5M2", GPUMAP_DTYPE_F8_E5M2, 8 },
		{ "U16", GPUMAP_DTYPE_U16, 16 },
		/* other numbers by the same bits */
		{ "F8_E4M3FNUZ", GPUMAP_DTYPE_U8, 8 },
		{ "Q4_K", GPUMAP_DTYPE_U8, 0 },
	};
	struct gm_weights_block block;

	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		uint32_t type = UINT32_MAX;

		if (!OK(gm_weights_type_find(types[i].name, &type)))
			continue;
		EQ(gm_weights_dtype(type), types[i].dtype);
		EQ(gm_weights_bits(type), types[i].bits);
	}
	OK(gm_weights_gguf_type(24, &block));
	EQ(gm_weights_dtype(block.type), GPUMAP_DTYPE_I8);
	OK(gm_weights_gguf_type(25, &block));
	EQ(gm_weights_dtype(block.type), GPUMAP_DTYPE_I16);
}

TAP_CASE()
{
	types_have_their_dtypes();
	it_is_read_as_it_was_written();
	lies_are_told();
	free(table);
	return tap_done();
}
