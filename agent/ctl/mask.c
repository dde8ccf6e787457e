/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* List, show and release published masks, and publish them: by a rule, or from
 * a file. */

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/ctl/fields.h"
#include "agent/ctl/progress.h"
#include "agent/ctl/usage.h"
#include "agent/mask/mask.h"
#include "agent/mask/mask_tensor.h"
#include "agent/mask/picture.h"
#include "agent/reader/wide_json.h"
#include "gpumap/view.h"

/* ---- one mask ------------------------------------------------------------ */

/* The parts that a mask may have: a tensor, and numbers of a rule. */
enum { TENSOR = 1, SIZE = 2, PAST = 4, WINDOW = 8, CHUNK = 16 };

/* Options that describe a mask. */
#define FACTS                                                           \
	(GM_OPT(SIZE) | GM_OPT(PAST) | GM_OPT(WINDOW) | GM_OPT(CHUNK) | \
	 GM_OPT(DTYPE))

static const struct kind {
	const char *name;
	uint32_t kind;    /* enum gpumap_mask_kind */
	uint32_t form;    /* enum gpumap_mask_form */
	gm_ctl_set needs; /* of FACTS */
	gm_ctl_set takes; /* options that it may have besides */
} kinds[] = {
	{ "none", GPUMAP_MASK_NONE, 0, 0, 0 },
	{ "causal_flash", GPUMAP_MASK_CAUSAL_FLASH, 0, 0, 0 },
	{ "causal", GPUMAP_MASK_CUSTOM, GPUMAP_MASK_CAUSAL, GM_OPT(SIZE),
	  GM_OPT(PAST) | GM_OPT(DTYPE) },
	{ "sliding", GPUMAP_MASK_CUSTOM, GPUMAP_MASK_SLIDING,
	  GM_OPT(SIZE) | GM_OPT(WINDOW), GM_OPT(PAST) | GM_OPT(DTYPE) },
	{ "chunked", GPUMAP_MASK_CUSTOM, GPUMAP_MASK_CHUNKED,
	  GM_OPT(SIZE) | GM_OPT(CHUNK), GM_OPT(PAST) | GM_OPT(DTYPE) },
	{ "bidirectional_sliding", GPUMAP_MASK_CUSTOM,
	  GPUMAP_MASK_BIDIRECTIONAL_SLIDING, GM_OPT(SIZE) | GM_OPT(WINDOW),
	  GM_OPT(DTYPE) },
	/* Made of a file, and by no --kind. */
	{ "loaded", GPUMAP_MASK_CUSTOM, GPUMAP_MASK_LOADED, 0, 0 },
};

#define N_KINDS (sizeof(kinds) / sizeof(kinds[0]))

const struct gm_ctl_choice gm_ctl_mask_rules = { "--kind", kinds,
						 sizeof(kinds[0]),
						 N_KINDS - 1 };

static const struct kind *find_kind(uint32_t kind, uint32_t form)
{
	size_t i = 0;

	while (i + 1 < N_KINDS &&
	       (kinds[i].kind != kind || kinds[i].form != form))
		i++;
	return &kinds[i];
}

static const char *kind_name(uint32_t kind)
{
	return kind == GPUMAP_MASK_CUSTOM ? "custom" : find_kind(kind, 0)->name;
}

static const char *form_name(uint32_t form)
{
	return find_kind(GPUMAP_MASK_CUSTOM, form)->name;
}

/* A published mask, and the rows that have a replica. */
struct mask {
	struct gpumap_mask_info info;
	uint32_t rows[GPUMAP_ROWS_MAX];
	uint32_t n_rows, rank; /* of these arrays */
	uint32_t known;        /* what it has */
	char hash[20];
	char shape[96];   /* "96 x 100"; "": it has no tensor */
	const char *rule; /* the name for --kind, or "loaded" */
};

static int read_mask(const struct gm_ctl *ctl, const char *name, void *ret_mask)
{
	struct mask *mask = ret_mask;
	const struct gpumap_mask_info *info = &mask->info;
	const struct kind *kind;
	gm_ctl_set has;
	size_t at = 0;
	int ret;

	mask->info = (struct gpumap_mask_info){ .size = sizeof(*info) };
	ret = gpumap_mask_read(ctl->map, name, &mask->info, mask->rows,
			       GPUMAP_ROWS_MAX);
	kind = find_kind(info->kind,
			 info->kind == GPUMAP_MASK_CUSTOM ? info->form : 0);
	has = kind->needs | kind->takes;
	mask->known = (kind->kind == GPUMAP_MASK_CUSTOM ? TENSOR : 0) |
		      ((has & GM_OPT(SIZE)) != 0 ? SIZE : 0) |
		      ((has & GM_OPT(PAST)) != 0 ? PAST : 0) |
		      ((has & GM_OPT(WINDOW)) != 0 ? WINDOW : 0) |
		      ((has & GM_OPT(CHUNK)) != 0 ? CHUNK : 0);
	mask->rule = kind->name;
	snprintf(mask->hash, sizeof(mask->hash), "%016" PRIx64, info->hash);
	mask->n_rows =
		info->n_rows < GPUMAP_ROWS_MAX ? info->n_rows : GPUMAP_ROWS_MAX;
	mask->rank = info->rank < GPUMAP_MASK_RANK_MAX ? info->rank
						       : GPUMAP_MASK_RANK_MAX;
	mask->shape[0] = '\0';
	for (uint32_t i = 0; i < mask->rank; i++)
		at += (size_t)snprintf(mask->shape + at,
				       sizeof(mask->shape) - at, "%s%" PRIu64,
				       i ? " x " : "", info->shape[i]);
	return ret;
}

#define MASK(name, member, ...) GM_FIELD(mask, name, info.member, __VA_ARGS__)
#define IF_KNOWN(name, member, what, ...)                                     \
	GM_FIELD_KNOWN(mask, name, info.member, known, what, .is_wide = true, \
		       __VA_ARGS__)

static const struct gm_ctl_field mask_fields[] = {
	MASK("name", name, GM_COLUMN("name", -24)),
	MASK("version", version, GM_COLUMN("version", 8)),
	MASK("published_ns", published_ns),
	MASK("owner_uid", owner_uid),
	MASK("kind", kind, .word = kind_name),
	GM_FIELD(mask, NULL, rule, GM_COLUMN("kind", -21)),
	IF_KNOWN("form", form, TENSOR, .word = form_name),
	IF_KNOWN("dtype", dtype, TENSOR, GM_COLUMN("dtype", -5),
		 .word = gm_ctl_dtype),
	GM_FIELD_LIST(mask, "shape", info.shape, rank, .is_wide = true),
	GM_FIELD(mask, NULL, shape, GM_COLUMN("shape", -17),
		 .as = GM_AS_OR_NULL),
	GM_FIELD_LIST(mask, "strides", info.strides, rank, .is_wide = true),
	MASK("bytes", bytes, GM_COLUMN("bytes", 10), .as = GM_AS_SIZE),
	MASK(NULL, n_rows, GM_COLUMN("rows", 5)),
	MASK(NULL, owner_uid, GM_COLUMN("uid", 6)),
	GM_FIELD(mask, "hash", hash),
	MASK("map", map, GM_COLUMN(" map", 0), .as = GM_AS_OR_NULL),
	GM_FIELD_LIST(mask, "rows", rows, n_rows),
	IF_KNOWN("tgt_len", tgt_len, SIZE),
	IF_KNOWN("past_kv_len", past_kv_len, PAST),
	IF_KNOWN("sliding_window", sliding_window, WINDOW),
	IF_KNOWN("chunk_size", chunk_size, CHUNK),
	{ 0 },
};

/* ---- list ---------------------------------------------------------------- */

void gm_ctl_mask_list(struct gm_ctl *ctl)
{
	static const struct gm_ctl_named masks = { "mask", "masks", mask_fields,
						   gpumap_mask_next,
						   read_mask };
	struct mask mask;

	gm_ctl_list_named(ctl, &masks, &mask);
}

/* ---- show ---------------------------------------------------------------- */

/* An opened and pinned mask, with its facts at that time. */
struct shown {
	struct mask mask;
	struct gpumap_mask *opened;
	const struct gpumap_mask_view *view; /* of one row */
};

/* Info and pin may be of different versions: retry a few times. */
static int open_mask(struct gm_ctl *ctl, const char *name, struct shown *s)
{
	const struct gpumap_mask_view *view;
	int ret = -EAGAIN;

	for (int i = 0; i < 100 && ret == -EAGAIN; i++) {
		ret = gpumap_mask_open(ctl->map, name, GPUMAP_MASK_PIN,
				       &s->opened);
		if (ret != 0)
			return ret;
		ret = read_mask(ctl, name, &s->mask);
		s->view = NULL;
		/* The view of the requested row; else of a row where it can be
		 * drawn, or of the first row with one. */
		for (uint32_t k = 0;
		     ret == 0 && k < (ctl->n_rows > 0 ? 1 : s->mask.n_rows) &&
		     (s->view == NULL || s->view->data == NULL);
		     k++)
			if (gpumap_mask_get(ctl->map, s->opened,
					    ctl->n_rows > 0 ? ctl->rows[0]
							    : s->mask.rows[k],
					    &view) == 0 &&
			    (s->view == NULL || view->data != NULL))
				s->view = view;
		if (ret == 0 && s->view != NULL &&
		    s->view->version != s->mask.info.version)
			ret = -EAGAIN;
		if (ret != 0) {
			gpumap_mask_close(ctl->map, s->opened);
			s->opened = NULL;
		}
	}
	return ret;
}

/* @drawn: the picture; NULL: there is none. */
static void print_shown(const struct gm_ctl *ctl, const struct shown *s,
			const char *drawn)
{
	const struct gpumap_mask_info *info = &s->mask.info;
	char size[32];

	if (ctl->json) {
		json_t *object =
			gm_ctl_fields_json(ctl, mask_fields, &s->mask, NULL);
		json_t *lines = drawn != NULL ? json_array() : json_null();

		for (const char *end; drawn != NULL && *drawn != '\0';
		     drawn = end + 1) {
			end = strchr(drawn, '\n');
			json_array_append_new(
				lines,
				json_stringn(drawn, (size_t)(end - drawn)));
		}
		json_object_set_new(object, "row", json_integer(s->view->row));
		json_object_set_new(object, "picture", lines);
		gm_ctl_print_wide(object);
		return;
	}
	printf("%s  version %llu, %s", info->name,
	       (unsigned long long)info->version, s->mask.rule);
	if (s->mask.known != 0)
		printf(", %s of %s, %s, hash %s", s->mask.shape,
		       gm_ctl_dtype(info->dtype),
		       gm_size_text(info->bytes, size), s->mask.hash);
	printf("\n  rows");
	for (uint32_t i = 0; i < s->mask.n_rows; i++)
		printf(" %u", s->mask.rows[i]);
	if (info->map[0] != '\0')
		printf(", those of map %s", info->map);
	printf("\n%s", drawn != NULL ? drawn : "");
	if (drawn == NULL && s->mask.known != 0)
		printf("  not drawn: row %u is a card, which has it in memory "
		       "of its own\n",
		       s->view->row);
}

static void show(const struct gm_ctl *ctl, const struct shown *s)
{
	const struct gpumap_mask_view *view = s->view;
	/* The matrix of the last two dimensions; with more dimensions the first
	 * such matrix. */
	const struct gm_picture picture = {
		.elements = view->data,
		.dtype = view->dtype,
		.rows = view->rank > 1 ? view->shape[view->rank - 2] : 1,
		.cols = view->rank > 0 ? view->shape[view->rank - 1] : 0,
	};
	const char *path = GM_TEXT(ctl, PGM);
	char text[GM_PICTURE_TEXT], *drawn = NULL;

	if (view->data != NULL)
		drawn = gm_picture_print(&picture, text);
	if (path != NULL && drawn == NULL)
		gm_ctl_failed(
			"mask \"%s\" has nothing to draw on row %u: give the "
			"row of a host with --rows, or a mask with a tensor",
			s->mask.info.name, view->row);
	if (path != NULL) {
		FILE *to = fopen(path, "we");
		int ret = to != NULL ? gm_picture_write(&picture, to) : -errno;

		if (to != NULL && fclose(to) != 0 && ret == 0)
			ret = -errno;
		if (ret != 0)
			gm_ctl_failed("%s: %s", path, strerror(-ret));
	}
	print_shown(ctl, s, drawn);
}

void gm_ctl_mask_show(struct gm_ctl *ctl)
{
	const char *name = ctl->args[0];
	struct shown s = { .opened = NULL };
	int ret;

	if (ctl->n_rows > 1)
		gm_ctl_wrong("mask show looks at one row: give one to --rows");
	ret = open_mask(ctl, name, &s);
	if (ret == -ENOENT)
		gm_ctl_unknown("mask", name, "mask list");
	if (ret != 0)
		gm_ctl_fail(ctl, ret, "mask \"%s\"", name);
	if (s.view == NULL) {
		fprintf(stderr, "gpumapctl: mask \"%s\" has no replica", name);
		if (ctl->n_rows != 0)
			fprintf(stderr, " on row %u: give --rows one of",
				ctl->rows[0]);
		else
			fputs(" that can be used now, of", stderr);
		for (uint32_t i = 0; i < s.mask.n_rows; i++)
			fprintf(stderr, " %u", s.mask.rows[i]);
		fputs("; see gpumapctl devices\n", stderr);
		gm_ctl_exit(GM_EXIT_FAILED);
	}
	show(ctl, &s);
	gpumap_mask_close(ctl->map, s.opened);
}

/* ---- release ------------------------------------------------------------- */

void gm_ctl_mask_release(struct gm_ctl *ctl)
{
	gm_ctl_released(ctl, gpumap_mask_release(ctl->map, ctl->args[0]),
			"mask", "mask list");
}

/* ---- publish ------------------------------------------------------------- */

_Static_assert(GM_MASK_TENSOR_RANK == GPUMAP_MASK_RANK_MAX,
	       "shapes are copied");

#define PIECE (UINT64_C(16) << 20) /* read of a file at a time */

/* Say so of the first of these options. */
static _Noreturn void wrong(const char *what, const char *verb,
			    gm_ctl_set options)
{
	size_t i = 0;

	while ((options >> i & 1) == 0)
		i++;
	gm_ctl_wrong("a mask %s %s --%s; see gpumapctl(1)", what, verb,
		     gm_ctl_option_at(i)->name);
}

/* ---- by a rule ----------------------------------------------------------- */

static void by_rule(const struct gm_ctl *ctl, struct gpumap_mask_request *r)
{
	const gm_ctl_set given = ctl->given & FACTS;
	const struct kind *kind = &kinds[gm_ctl_choose_word(
		&gm_ctl_mask_rules, GM_TEXT(ctl, KIND))];
	struct gm_plan_error error;
	char what[64];

	snprintf(what, sizeof(what), "of kind %s", kind->name);
	if ((kind->needs & ~given) != 0)
		wrong(what, "needs", kind->needs & ~given);
	if ((given & ~(kind->needs | kind->takes)) != 0)
		wrong(what, "does not take",
		      given & ~(kind->needs | kind->takes));
	r->kind = kind->kind;
	r->form = kind->form;
	r->dtype = kind->kind == GPUMAP_MASK_CUSTOM ? GPUMAP_DTYPE_BF16 : 0;
	if (GM_TEXT(ctl, DTYPE) != NULL &&
	    gm_mask_dtype_parse(GM_TEXT(ctl, DTYPE), &r->dtype, &error) != 0)
		gm_ctl_wrong("%s%s%s", error.text,
			     error.remedy[0] != '\0' ? "; " : "", error.remedy);
	r->tgt_len = GM_NUMBER(ctl, SIZE);
	r->past_kv_len = GM_NUMBER(ctl, PAST);
	r->sliding_window = GM_NUMBER(ctl, WINDOW);
	r->chunk_size = GM_NUMBER(ctl, CHUNK);
}

/* ---- from a file --------------------------------------------------------- */

/* Read the mask's elements.  Returns them, to free(). */
static void *from_file(const struct gm_ctl *ctl, struct gpumap_mask_request *r)
{
	struct gm_progress progress = { .look = NULL };
	struct gm_mask_tensor tensor;
	struct gm_plan_error error;
	struct gm_file file;
	uint64_t at = 0, n;
	char *data;
	int ret = 0;

	if ((ctl->given & FACTS) != 0)
		wrong("from a file", "does not take", ctl->given & FACTS);
	if (gm_file_open(GM_TEXT(ctl, FILE),
			 "give the path of a .npy or a safetensors file", &file,
			 &error) != 0 ||
	    gm_mask_tensor_read(&file, GM_TEXT(ctl, TENSOR), &tensor, &error) !=
		    0)
		gm_ctl_plan_error(&error);
	data = gm_ctl_alloc(1, tensor.bytes);
	gm_progress_begin(&progress, ctl, "read", ctl->args[0], NULL,
			  tensor.bytes);
	for (; ret == 0 && at < tensor.bytes; at += n) {
		n = tensor.bytes - at < PIECE ? tensor.bytes - at : PIECE;
		ret = gm_file_read(&file, tensor.offset + at, data + at, n,
				   &error);
		gm_progress_tell(&progress, at + n, tensor.bytes);
	}
	gm_progress_end(&progress, ret == 0);
	gm_file_close(&file);
	if (ret != 0) {
		free(data);
		gm_ctl_plan_error(&error);
	}
	r->kind = GPUMAP_MASK_CUSTOM;
	r->form = GPUMAP_MASK_LOADED;
	r->dtype = tensor.dtype;
	r->rank = tensor.rank;
	memcpy(r->shape, tensor.shape, sizeof(r->shape));
	r->data = data;
	return data;
}

/* ---- what is published --------------------------------------------------- */

static const struct gm_ctl_field result_fields[] = {
	GM_MEMBERS(gpumap_mask_result, n_copies, n_shared),
	{ 0 },
};

static void say_published(const struct mask *mask,
			  const struct gpumap_mask_result *result)
{
	const struct gpumap_mask_info *info = &mask->info;
	unsigned long long window = info->sliding_window;
	char size[32];

	printf("%s: version %llu, %s", info->name,
	       (unsigned long long)info->version, mask->rule);
	if (mask->known != 0)
		printf(", %s of %s, %s", mask->shape, gm_ctl_dtype(info->dtype),
		       gm_size_text(info->bytes, size));
	printf(", on %u row%s: written %u time%s, %u time%s there already\n",
	       info->n_rows, gm_ctl_s(info->n_rows), result->n_copies,
	       gm_ctl_s(result->n_copies), result->n_shared,
	       gm_ctl_s(result->n_shared));
	/* How many keys a query sees of the window; engines count
	 * differently. */
	if (info->form == GPUMAP_MASK_SLIDING)
		printf("  window %llu: each query sees its own key and the "
		       "%llu before it; for vLLM and transformers that is "
		       "window %llu\n",
		       window, window, window + 1);
	if (info->form == GPUMAP_MASK_BIDIRECTIONAL_SLIDING && window > 0)
		printf("  window %llu: each query sees its own key and %llu on "
		       "either side\n",
		       window, window - 1);
}

void gm_ctl_mask_publish(struct gm_ctl *ctl)
{
	struct gpumap_mask_request request = { .size = sizeof(request),
					       .name = ctl->args[0] };
	struct gpumap_mask_result result = { .size = sizeof(result) };
	struct gm_progress progress = { .look = NULL };
	bool are_chosen = GM_GIVEN(ctl, MAP) || ctl->n_rows > 0;
	struct gpumap_device d;
	struct mask mask;
	uint32_t row = 0;
	void *data = NULL;
	int ret;

	if ((GM_TEXT(ctl, KIND) != NULL) == (GM_TEXT(ctl, FILE) != NULL) ||
	    (GM_TEXT(ctl, TENSOR) != NULL && GM_TEXT(ctl, FILE) == NULL) ||
	    (GM_TEXT(ctl, MAP) != NULL && ctl->n_rows != 0))
		gm_ctl_wrong("mask publish needs --kind, or --file with or "
			     "without --tensor; and takes --map or --rows");
	if (GM_TEXT(ctl, KIND) != NULL)
		by_rule(ctl, &request);
	else
		data = from_file(ctl, &request);
	/* All rows that can have a replica, if the command line names none. */
	while (!are_chosen && gm_ctl_next_device(ctl->map, &row, &d))
		if (request.kind != GPUMAP_MASK_CUSTOM ||
		    ((d.flags & GPUMAP_DEVICE_EXPORTS) != 0 &&
		     ((d.flags & GPUMAP_DEVICE_MAPPED) != 0 ||
		      d.state == GPUMAP_DEVICE_READY)))
			ctl->rows[ctl->n_rows++] = d.row;
	request.map = GM_TEXT(ctl, MAP);
	request.rows = ctl->rows;
	request.n_rows = ctl->n_rows;
	/* All replicas become visible at once, so none is there until all
	 * are. */
	gm_progress_begin(&progress, ctl, "publish", request.name, "masks", 1);
	ret = gpumap_mask_publish(ctl->map, &request, &result);
	gm_progress_end(&progress, ret == 0);
	free(data);
	if (ret != 0)
		gm_ctl_fail(ctl, ret, "publish \"%s\"", request.name);
	ret = read_mask(ctl, request.name, &mask);
	if (ret != 0)
		gm_ctl_fail(ctl, ret, "mask \"%s\"", request.name);
	if (ctl->json)
		gm_ctl_print_wide(gm_ctl_fields_json(
			ctl, result_fields, &result,
			gm_ctl_fields_json(ctl, mask_fields, &mask, NULL)));
	else
		say_published(&mask, &result);
}
