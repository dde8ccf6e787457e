/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* Masks by a rule: equal rows that follow each other are written once. */

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/mask/mask.h"
#include "gpumap.h"
#include "lib/model/plan/checked.h"
#include "tests/answers/answers.h"

/* Elements that an answer may write out. */
#define ELEMENTS_MAX (UINT64_C(1) << 28)

/* Bytes of a run besides its elements, and of an answer besides its runs. */
#define RUN_ROOM    32u
#define ANSWER_ROOM 96u

/* ---- request ------------------------------------------------------------- */

/* Take a number that is required if @kind needs it. */
static uint64_t take(struct gm_fields *f, const char *key, const char *kind)
{
	char why[64];

	if (!kind || gm_json_field_given(f, key))
		return answers_number_or(f, key, 0);
	snprintf(why, sizeof(why), "is missing: kind %s needs it", kind);
	gm_json_field_refuse(f, key, why);
	return 0;
}

static void read_form(struct gm_fields *f, const char *kind,
		      enum gm_mask_form *ret_form)
{
	for (uint32_t i = 0; i < GM_MASK_FORMS && f->r == 0; i++) {
		if (strcmp(kind, gm_mask_form_name(i)) == 0) {
			*ret_form = i;
			return;
		}
	}
	if (f->r == 0)
		f->r = gm_error_set(
			f->err, -EINVAL, "use one of those",
			"mask kind \"%.64s\" is not causal, sliding, "
			"chunked or bidirectional_sliding",
			kind);
}

static void read_spec(struct gm_fields *f, struct gm_mask_spec *spec)
{
	const char *kind = gm_json_field_text(f, "kind");
	enum gm_mask_form form = GM_MASK_CAUSAL;
	bool square;

	read_form(f, kind, &form);
	square = form == GM_MASK_BIDIRECTIONAL_SLIDING;
	*spec = (struct gm_mask_spec){
		.form = form,
		.tgt_len = take(f, "tgt_len", kind),
		.past_kv_len = take(f, "past_kv_len", square ? NULL : kind),
		.sliding_window = take(f, "sliding_window",
				       gm_mask_has_window(form) ? kind : NULL),
		.chunk_size = take(f, "chunk_size",
				   gm_mask_has_chunk(form) ? kind : NULL),
	};
}

/* ---- answer -------------------------------------------------------------- */

static bool same_row(struct gm_mask_row a, struct gm_mask_row b)
{
	return a.head == b.head && a.begin == b.begin && a.end == b.end;
}

/* Count the rows from @i on that equal it. */
static uint64_t run_at(const struct gm_mask_spec *spec, uint64_t rows,
		       uint64_t i)
{
	const struct gm_mask_row row = gm_mask_row(spec, i);
	uint64_t n = 1;

	while (i + n < rows && same_row(gm_mask_row(spec, i + n), row))
		n++;
	return n;
}

static int count_runs(const struct gm_mask_spec *spec,
		      const struct gm_mask_size *size, uint64_t *ret_runs,
		      struct gm_plan_error *ret_err)
{
	const uint64_t most = size->cols ? ELEMENTS_MAX / size->cols : 0;
	uint64_t runs = 0;

	for (uint64_t i = 0; i < size->rows; runs++) {
		if (runs == most)
			return gm_error_set(
				ret_err, -EFBIG,
				"ask for fewer queries or a shorter cache",
				"a mask of %" PRIu64 " x %" PRIu64
				" elements: its rows that differ have more "
				"than the %" PRIu64
				" elements that an answer may have",
				size->rows, size->cols, ELEMENTS_MAX);
		i += run_at(spec, size->rows, i);
	}
	*ret_runs = runs;
	return 0;
}

/* Print ["0011", n], without a NUL. */
static char *put_run(char *to, const struct gm_mask_size *size,
		     struct gm_mask_row row, uint64_t n)
{
	to = stpcpy(to, "[\"");
	memset(to, '1', size->cols);
	memset(to, '0', row.head);
	memset(to + row.begin, '0', row.end - row.begin);
	to += size->cols;
	return to + sprintf(to, "\",%" PRIu64 "],", n);
}

static char *show(const struct gm_mask_spec *spec,
		  const struct gm_mask_size *size, uint64_t runs)
{
	char *text = malloc(ANSWER_ROOM + runs * (RUN_ROOM + size->cols));
	char *to = text;

	if (!text)
		return NULL;
	to += sprintf(to, "{\"shape\":[%" PRIu64 ",%" PRIu64 "],\"rows\":[",
		      size->rows, size->cols);
	for (uint64_t i = 0, n; i < size->rows; i += n) {
		n = run_at(spec, size->rows, i);
		to = put_run(to, size, gm_mask_row(spec, i), n);
	}
	/* Overwrite the last comma. */
	strcpy(to - (runs > 0), "]}");
	return text;
}

char *answers_mask(struct gm_fields *f)
{
	struct gm_mask_spec spec = { .tgt_len = 0 };
	struct gm_mask_size size = { .rows = 0 };
	uint64_t runs = 0;

	read_spec(f, &spec);
	if (f->r == 0)
		f->r = gm_mask_check(&spec, GPUMAP_DTYPE_U8, UINT64_MAX, &size,
				     f->err);
	if (f->r == 0)
		f->r = count_runs(&spec, &size, &runs, f->err);
	return f->r ? NULL : show(&spec, &size, runs);
}
