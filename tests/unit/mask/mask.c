/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* mask: every element of every small mask, and sizes that nothing can have. */

#include <errno.h>
#include <math.h>

#include "agent/mask/mask.h"
#include "gpumap.h"
#include "tests/support/tap.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

#define TGT      12
#define PAST     6
#define REACH    14 /* of windows and chunks */
#define COLS     (PAST + TGT)
#define ROOM     (TGT * COLS * 4)
#define GUARD    0xa5
#define NO_LIMIT UINT64_MAX

static const uint32_t dtypes[] = { GPUMAP_DTYPE_U8, GPUMAP_DTYPE_F16,
				   GPUMAP_DTYPE_BF16, GPUMAP_DTYPE_F32 };

/* ---- the rules, an element at a time ------------------------------------- */

static bool is_masked(const struct gm_mask_spec *s, int64_t i, int64_t j)
{
	int64_t past = (int64_t)s->past_kv_len;
	int64_t window = (int64_t)s->sliding_window;
	int64_t chunk = (int64_t)s->chunk_size;

	switch (s->form) {
	case GM_MASK_CAUSAL:
		return j > i + past;
	case GM_MASK_SLIDING:
		return j > past + i || j + window < past + i;
	case GM_MASK_CHUNKED:
		if (j < past)
			return false;
		return i / chunk != (j - past) / chunk || j - past > i;
	case GM_MASK_BIDIRECTIONAL_SLIDING:
		return (i > j ? i - j : j - i) >= window;
	}
	return false;
}

/* 0, 1, or 2 for what is neither. */
static int value_at(const unsigned char *bytes, uint32_t dtype, uint64_t i)
{
	uint16_t half;
	float f;

	switch (dtype) {
	case GPUMAP_DTYPE_U8:
		return bytes[i] <= 1 ? bytes[i] : 2;
	case GPUMAP_DTYPE_F32:
		memcpy(&f, bytes + i * sizeof(f), sizeof(f));
		if (f == 0 && !signbit(f))
			return 0;
		return isinf(f) && f < 0 ? 1 : 2;
	default:
		memcpy(&half, bytes + i * sizeof(half), sizeof(half));
		if (half == 0)
			return 0;
		/* Sign, all ones in the exponent, and no fraction. */
		if (dtype == GPUMAP_DTYPE_F16)
			return half == (0x8000 | 0x1f << 10) ? 1 : 2;
		return half == (0x8000 | 0xff << 7) ? 1 : 2;
	}
}

/* Rows [first, first + n) of @spec agree with the rules, and nothing else was
 * written. */
static bool rows_agree(const struct gm_mask_spec *spec, uint32_t dtype,
		       const struct gm_mask_size *size, uint64_t first,
		       uint64_t n)
{
	/* One byte in front: fills may not count on alignment. */
	static unsigned char raw[1 + ROOM + 1];
	unsigned char *bytes = raw + 1;
	size_t end = n * size->cols * gm_mask_dtype_bytes(dtype);

	memset(raw, GUARD, sizeof(raw));
	gm_mask_fill(spec, dtype, first, n, bytes);
	for (uint64_t i = 0; i < n; i++)
		for (uint64_t j = 0; j < size->cols; j++)
			if (value_at(bytes, dtype, i * size->cols + j) !=
			    is_masked(spec, (int64_t)(first + i), (int64_t)j))
				return false;
	for (size_t i = end; i < ROOM + 1; i++)
		if (bytes[i] != GUARD)
			return false;
	return raw[0] == GUARD;
}

static bool spans_are_in_order(const struct gm_mask_spec *spec,
			       const struct gm_mask_size *size)
{
	for (uint64_t i = 0; i < size->rows; i++) {
		struct gm_mask_row row = gm_mask_row(spec, i);

		if (row.head > row.begin || row.begin > row.end ||
		    row.end > size->cols)
			return false;
	}
	return true;
}

static bool agrees(const struct gm_mask_spec *spec)
{
	bool square = spec->form == GM_MASK_BIDIRECTIONAL_SLIDING;
	uint64_t cols = spec->tgt_len + (square ? 0 : spec->past_kv_len);

	for (size_t d = 0; d < COUNT(dtypes); d++) {
		struct gm_mask_size size = { 0 };
		uint64_t n = spec->tgt_len, third = n / 3;

		if (gm_mask_check(spec, dtypes[d], NO_LIMIT, &size, NULL) ||
		    size.rows != n || size.cols != cols ||
		    size.bytes != n * cols * gm_mask_dtype_bytes(dtypes[d]) ||
		    !spans_are_in_order(spec, &size))
			return false;
		if (!rows_agree(spec, dtypes[d], &size, 0, n) ||
		    !rows_agree(spec, dtypes[d], &size, third, n - third) ||
		    !rows_agree(spec, dtypes[d], &size, third, third))
			return false;
	}
	return true;
}

/* Counts the specs tried, so that a loop which does nothing is seen. */
static int disagreements(enum gm_mask_form form, int *ret_tried)
{
	struct gm_mask_spec s = { .form = form };
	uint64_t windows = gm_mask_has_window(form) ? REACH : 0;
	uint64_t chunks = gm_mask_has_chunk(form) ? REACH : 0;
	int wrong = 0;

	for (s.tgt_len = 0; s.tgt_len <= TGT; s.tgt_len++)
		for (s.past_kv_len = 0; s.past_kv_len <= PAST; s.past_kv_len++)
			for (uint64_t w = 0; w <= windows; w++)
				for (uint64_t c = 0; c <= chunks; c++) {
					if (chunks && c == 0)
						continue;
					s.sliding_window = w;
					s.chunk_size = c;
					++*ret_tried;
					if (agrees(&s))
						continue;
					if (wrong++ == 0)
						NOTE("tgt %d past %d window %d "
						     "chunk %d",
						     (int)s.tgt_len,
						     (int)s.past_kv_len, (int)w,
						     (int)c);
				}
	return wrong;
}

static void every_small_mask_follows_its_rule(void)
{
	static const int specs[] = {
		[GM_MASK_CAUSAL] = 13 * 7,
		[GM_MASK_SLIDING] = 13 * 7 * 15,
		[GM_MASK_CHUNKED] = 13 * 7 * 14,
		[GM_MASK_BIDIRECTIONAL_SLIDING] = 13 * 7 * 15,
	};

	for (size_t form = 0; form < GM_MASK_FORMS; form++) {
		int tried = 0;

		NOTE("%s", gm_mask_form_name((enum gm_mask_form)form));
		EQ(disagreements((enum gm_mask_form)form, &tried), 0);
		EQ(tried, specs[form]);
	}
}

/* Longer than the block that a run is copied from, and no multiple of it. */
static void long_rows_follow_it_too(void)
{
	static const struct gm_mask_spec specs[] = {
		{ GM_MASK_CAUSAL, 2, 9001, 0, 0 },
		{ GM_MASK_SLIDING, 2, 20003, 5001, 0 },
		{ GM_MASK_CHUNKED, 4100, 1, 0, 4097 },
		{ GM_MASK_BIDIRECTIONAL_SLIDING, 5003, 0, 7, 0 },
	};

	for (size_t i = 0; i < COUNT(specs); i++)
		for (size_t d = 0; d < COUNT(dtypes); d++) {
			struct gm_mask_size size;
			unsigned char *bytes;
			uint64_t wrong = 0, at = 0;

			EQ(gm_mask_check(&specs[i], dtypes[d], NO_LIMIT, &size,
					 NULL),
			   0);
			bytes = malloc(size.bytes);
			if (!OK(bytes))
				return;
			gm_mask_fill(&specs[i], dtypes[d], 0, size.rows, bytes);
			for (uint64_t r = 0; r < size.rows; r++)
				for (uint64_t c = 0; c < size.cols; c++)
					wrong +=
						value_at(bytes, dtypes[d],
							 at++) !=
						is_masked(&specs[i], (int64_t)r,
							  (int64_t)c);
			EQ(wrong, 0);
			free(bytes);
		}
}

/* Whatever the arithmetic could leave at the ends of 64 bits. */
static void far_rows_are_found(void)
{
	struct gm_mask_spec s = { GM_MASK_SLIDING, 3, UINT64_MAX - 3,
				  UINT64_MAX, 0 };
	struct gm_mask_row row = gm_mask_row(&s, 2);

	OK(row.head == 0 && row.begin == 0 && row.end == UINT64_MAX);
	s.sliding_window = 1;
	row = gm_mask_row(&s, 2);
	OK(row.begin == UINT64_MAX - 2 && row.end == UINT64_MAX);
	s.form = GM_MASK_CHUNKED;
	s.chunk_size = UINT64_MAX;
	row = gm_mask_row(&s, 2);
	OK(row.head == UINT64_MAX - 3 && row.begin == UINT64_MAX - 3 &&
	   row.end == UINT64_MAX);
	s.form = GM_MASK_BIDIRECTIONAL_SLIDING;
	s.tgt_len = UINT64_MAX;
	s.sliding_window = UINT64_MAX;
	row = gm_mask_row(&s, UINT64_MAX - 1);
	OK(row.head == 0 && row.begin == 0 && row.end == UINT64_MAX);
	s.sliding_window = 0;
	row = gm_mask_row(&s, UINT64_MAX - 1);
	OK(row.head == 0 && row.begin == 0 && row.end == 0);
}

/* ---- judging ------------------------------------------------------------- */

#define MAX UINT64_MAX

static const struct {
	struct gm_mask_spec spec;
	uint32_t dtype;
	uint64_t limit;
	int code;
	const char *text;
} refused[] = {
	{ { GM_MASK_CHUNKED, 4, 0, 9, 0 },
	  GPUMAP_DTYPE_U8,
	  MAX,
	  -EINVAL,
	  "chunk_size is 0: a chunk has at least one position" },
	{ { (enum gm_mask_form)4, 1, 0, 1, 1 },
	  GPUMAP_DTYPE_U8,
	  MAX,
	  -EINVAL,
	  "there is no mask kind 4" },
	{ { GM_MASK_CAUSAL, 1, 0, 0, 0 },
	  GPUMAP_DTYPE_F64,
	  MAX,
	  -EINVAL,
	  "no mask can be of dtype 6" },
	{ { GM_MASK_CAUSAL, 1, MAX, 0, 0 },
	  GPUMAP_DTYPE_U8,
	  MAX,
	  -EOVERFLOW,
	  "a mask over 18446744073709551615 cached and 1 new positions has "
	  "2^64 columns or more" },
	{ { GM_MASK_CAUSAL, UINT64_C(1) << 32, 0, 0, 0 },
	  GPUMAP_DTYPE_U8,
	  MAX,
	  -EOVERFLOW,
	  "a mask of 4294967296 x 4294967296 elements has 2^64 bytes or more" },
	/* 2^62 elements of 4 bytes. */
	{ { GM_MASK_BIDIRECTIONAL_SLIDING, UINT64_C(1) << 31, MAX, 0, 0 },
	  GPUMAP_DTYPE_F32,
	  MAX,
	  -EOVERFLOW,
	  "a mask of 2147483648 x 2147483648 elements has 2^64 bytes or more" },
	{ { GM_MASK_SLIDING, 8, 8, 1, 0 },
	  GPUMAP_DTYPE_BF16,
	  255,
	  -EFBIG,
	  "a mask of 8 x 16 elements has 256 bytes, more than the 255 "
	  "allowed" },
};

static void impossible_masks_are_refused(void)
{
	for (size_t i = 0; i < COUNT(refused); i++) {
		struct gm_mask_size size = { 1, 2, 3 };
		struct gm_plan_error err = { 0 };

		EQ(gm_mask_check(&refused[i].spec, refused[i].dtype,
				 refused[i].limit, &size, &err),
		   refused[i].code);
		EQ(err.code, refused[i].code);
		STR(err.text, refused[i].text);
		OK(err.remedy[0] != '\0');
		OK(size.rows == 1 && size.cols == 2 && size.bytes == 3);
	}
}

static void the_largest_are_taken(void)
{
	struct gm_mask_spec s = { GM_MASK_SLIDING, 8, 8, 1, 0 };
	struct gm_mask_size size;

	EQ(gm_mask_check(&s, GPUMAP_DTYPE_BF16, 256, &size, NULL), 0);
	s = (struct gm_mask_spec){ GM_MASK_CAUSAL, 0, MAX, 0, 0 };
	EQ(gm_mask_check(&s, GPUMAP_DTYPE_F32, 0, &size, NULL), 0);
	OK(size.rows == 0 && size.cols == MAX && size.bytes == 0);
	/* A cache is nothing to it. */
	s = (struct gm_mask_spec){ GM_MASK_BIDIRECTIONAL_SLIDING, 3, MAX, 1,
				   0 };
	EQ(gm_mask_check(&s, GPUMAP_DTYPE_U8, 9, &size, NULL), 0);
	EQ(size.cols, 3);
	/* Only who has chunks needs a size for them. */
	s = (struct gm_mask_spec){ GM_MASK_CAUSAL, 1, MAX - 1, 0, 0 };
	EQ(gm_mask_check(&s, GPUMAP_DTYPE_U8, MAX, &size, NULL), 0);
	OK(size.bytes == MAX);
}

/* ---- names --------------------------------------------------------------- */

static void names_are_known(void)
{
	static const char *const forms[] = { "causal", "sliding", "chunked",
					     "bidirectional_sliding" };

	for (size_t i = 0; i < COUNT(forms); i++)
		STR(gm_mask_form_name((enum gm_mask_form)i), forms[i]);
	OK(gm_mask_form_name((enum gm_mask_form)GM_MASK_FORMS) == NULL);
}

static void dtypes_are_known(void)
{
	static const struct {
		const char *name;
		uint32_t dtype;
		uint32_t bytes;
	} table[] = {
		{ "u8", GPUMAP_DTYPE_U8, 1 },
		{ "bool", GPUMAP_DTYPE_U8, 1 },
		{ "f16", GPUMAP_DTYPE_F16, 2 },
		{ "BF16", GPUMAP_DTYPE_BF16, 2 },
		{ "f32", GPUMAP_DTYPE_F32, 4 },
	};
	struct gm_plan_error err;
	uint32_t dtype = 99;

	EQ(gm_mask_dtype_parse("f64", &dtype, &err), -EINVAL);
	STR(err.text, "mask dtype \"f64\" is not u8, bool, f16, bf16 or f32");
	EQ(dtype, 99);
	for (size_t i = 0; i < COUNT(table); i++) {
		EQ(gm_mask_dtype_parse(table[i].name, &dtype, NULL), 0);
		EQ(dtype, table[i].dtype);
		EQ(gm_mask_dtype_bytes(dtype), table[i].bytes);
	}
	EQ(gm_mask_dtype_bytes(GPUMAP_DTYPE_F64), 0);
	EQ(gm_mask_dtype_bytes(GPUMAP_DTYPE_U16), 0);
	EQ(gm_mask_dtype_bytes(UINT32_MAX), 0);
}

TAP_CASE()
{
	every_small_mask_follows_its_rule();
	long_rows_follow_it_too();
	far_rows_are_found();
	impossible_masks_are_refused();
	the_largest_are_taken();
	names_are_known();
	dtypes_are_known();
	return tap_done();
}
