/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* List, show and release published masks. */

#include "agent/ctl/mask.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/mask/mask.h"
#include "agent/mask/picture.h"
#include "agent/plan/wide_json.h"
#include "gpumap/view.h"

/* ---- one mask ----------------------------------------------------------- */

int gm_ctl_mask_read(const struct gm_ctl *ctl, const char *name,
		     struct gm_ctl_mask *ret_mask)
{
	ret_mask->info = (struct gpumap_mask_info){
		.size = sizeof(ret_mask->info),
	};
	return gpumap_mask_read(ctl->map, name, &ret_mask->info, ret_mask->rows,
				GPUMAP_ROWS_MAX);
}

static bool has_tensor(const struct gpumap_mask_info *info)
{
	return info->kind == GPUMAP_MASK_CUSTOM;
}

const char *gm_ctl_mask_name(const struct gpumap_mask_info *info)
{
	return has_tensor(info) ? gm_ctl_mask_form(info->form)
				: gm_ctl_mask_kind(info->kind);
}

const char *gm_ctl_mask_shape(const struct gpumap_mask_info *info,
			      char ret_text[96])
{
	size_t at = 0;

	strcpy(ret_text, "-");
	for (uint32_t i = 0; i < info->rank && i < GPUMAP_MASK_RANK_MAX; i++)
		at += (size_t)snprintf(ret_text + at, 96 - at, "%s%" PRIu64,
				       i ? " x " : "", info->shape[i]);
	return ret_text;
}

static json_t *numbers(const uint64_t *from, uint32_t n)
{
	json_t *list = json_array();

	for (uint32_t i = 0; i < n && i < GPUMAP_MASK_RANK_MAX; i++)
		json_array_append_new(list, gm_wide_integer(from[i]));
	return list;
}

/* The number, or null if the form does not use it. */
static json_t *number_if(bool used, uint64_t value)
{
	return used ? gm_wide_integer(value) : json_null();
}

/* The parameters that it was generated from. */
static json_t *rule_json(const struct gpumap_mask_info *info)
{
	const uint32_t form = has_tensor(info) ? info->form : 0;
	const bool sliding = form == GPUMAP_MASK_SLIDING;
	const bool both = form == GPUMAP_MASK_BIDIRECTIONAL_SLIDING;

	return json_pack(
		"{s:o, s:o, s:o, s:o}", "tgt_len",
		number_if(form != 0, info->tgt_len), "past_kv_len",
		number_if(form != 0 && !both, info->past_kv_len),
		"sliding_window",
		number_if(sliding || both, info->sliding_window), "chunk_size",
		number_if(form == GPUMAP_MASK_CHUNKED, info->chunk_size));
}

json_t *gm_ctl_mask_json(const struct gm_ctl_mask *mask)
{
	const struct gpumap_mask_info *info = &mask->info;
	json_t *object, *rule = rule_json(info), *rows = json_array();
	char hash[20];

	snprintf(hash, sizeof(hash), "%016" PRIx64, info->hash);
	for (uint32_t i = 0; i < info->n_rows && i < GPUMAP_ROWS_MAX; i++)
		json_array_append_new(rows, json_integer(mask->rows[i]));
	object = json_pack(
		"{s:s, s:I, s:I, s:I, s:s, s:o, s:o, s:o, s:o, s:I, s:s, s:o, "
		"s:o}",
		"name", info->name, "version", (json_int_t)info->version,
		"published_ns", (json_int_t)info->published_ns, "owner_uid",
		(json_int_t)info->owner_uid, "kind",
		gm_ctl_mask_kind(info->kind), "form",
		has_tensor(info) ? json_string(gm_ctl_mask_form(info->form))
				 : json_null(),
		"dtype",
		has_tensor(info) ? json_string(gm_ctl_dtype(info->dtype))
				 : json_null(),
		"shape", numbers(info->shape, info->rank), "strides",
		numbers(info->strides, info->rank), "bytes",
		(json_int_t)info->bytes, "hash", hash, "map",
		info->map[0] != '\0' ? json_string(info->map) : json_null(),
		"rows", rows);
	if (object != NULL && rule != NULL)
		json_object_update(object, rule);
	json_decref(rule);
	return object;
}

int gm_ctl_mask_print(json_t *object)
{
	char *text = object != NULL ? gm_wide_dump(object) : NULL;
	bool good = text != NULL && puts(text) >= 0;

	if (!good)
		fputs("gpumapctl: cannot print\n", stderr);
	json_decref(object);
	free(text);
	return good ? GM_EXIT_OK : GM_EXIT_FAILED;
}

static int no_mask(const struct gm_ctl *ctl, int error, const char *name)
{
	if (error != -ENOENT)
		return gm_ctl_fail(ctl, error, "mask \"%s\"", name);
	return gm_ctl_unknown("mask", name, "mask list");
}

/* ---- list ---------------------------------------------------------------- */

static void list_line(const struct gm_ctl_mask *mask)
{
	const struct gpumap_mask_info *info = &mask->info;
	char size[32], shape[96];

	printf("%-24s %8llu %-21s %-5s %-17s %10s %5u %6u  %s\n", info->name,
	       (unsigned long long)info->version, gm_ctl_mask_name(info),
	       has_tensor(info) ? gm_ctl_dtype(info->dtype) : "-",
	       gm_ctl_mask_shape(info, shape), gm_size_text(info->bytes, size),
	       info->n_rows, info->owner_uid,
	       info->map[0] != '\0' ? info->map : "-");
}

int gm_ctl_mask_list(struct gm_ctl *ctl)
{
	json_t *list = ctl->json ? json_array() : NULL;
	char name[GPUMAP_NAME_MAX + 1];
	uint32_t cursor = 0;

	if (!ctl->json)
		printf("%-24s %8s %-21s %-5s %-17s %10s %5s %6s  %s\n", "name",
		       "version", "kind", "dtype", "shape", "bytes", "rows",
		       "uid", "map");
	while (gpumap_mask_next(ctl->map, &cursor, name) == 1) {
		struct gm_ctl_mask mask;
		int ret = gm_ctl_mask_read(ctl, name, &mask);

		if (ret == -ENOENT)
			continue; /* released meanwhile */
		if (ret != 0) {
			json_decref(list);
			return gm_ctl_fail(ctl, ret, "mask \"%s\"", name);
		}
		if (ctl->json)
			json_array_append_new(list, gm_ctl_mask_json(&mask));
		else
			list_line(&mask);
	}
	if (!ctl->json)
		return GM_EXIT_OK;
	return gm_ctl_mask_print(json_pack("{s:o}", "masks", list));
}

/* ---- show ---------------------------------------------------------------- */

/* An opened and pinned mask, with its facts at that time. */
struct shown {
	struct gm_ctl_mask mask;
	struct gpumap_mask *opened;
	const struct gpumap_mask_view *view; /* of one row */
};

/* Find the view of the requested row; else of a row where it can be drawn, or
 * of the first row with one.  NULL: none. */
static const struct gpumap_mask_view *find_view(struct gm_ctl *ctl,
						const struct shown *s)
{
	const uint32_t *rows = ctl->n_rows != 0 ? ctl->rows : s->mask.rows;
	uint32_t n = ctl->n_rows != 0 ? 1 : s->mask.info.n_rows;
	const struct gpumap_mask_view *view, *first = NULL;

	for (uint32_t i = 0; i < n; i++) {
		if (gpumap_mask_get(ctl->map, s->opened, rows[i], &view) != 0)
			continue;
		if (view->data != NULL)
			return view;
		if (first == NULL)
			first = view;
	}
	return first;
}

/* Info and pin may be of different versions: retry a few times. */
static int open_mask(struct gm_ctl *ctl, const char *name, struct shown *s)
{
	int ret = -EAGAIN;

	for (int i = 0; i < 100 && ret == -EAGAIN; i++) {
		ret = gpumap_mask_open(ctl->map, name, GPUMAP_MASK_PIN,
				       &s->opened);
		if (ret != 0)
			return ret;
		ret = gm_ctl_mask_read(ctl, name, &s->mask);
		s->view = ret == 0 ? find_view(ctl, s) : NULL;
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

/* The matrix of the last two dimensions; with more dimensions the first such
 * matrix. */
static struct gm_picture picture_of(const struct gpumap_mask_view *view)
{
	const uint32_t rank = view->rank;

	return (struct gm_picture){
		.elements = view->data,
		.dtype = view->dtype,
		.rows = rank > 1 ? view->shape[rank - 2] : 1,
		.cols = view->shape[rank - 1],
	};
}

static int write_image(const struct gm_picture *picture, const char *path)
{
	FILE *to = fopen(path, "we");
	int ret = to != NULL ? gm_picture_write(picture, to) : -errno;

	if (to != NULL && fclose(to) != 0 && ret == 0)
		ret = -errno;
	if (ret == 0)
		return GM_EXIT_OK;
	fprintf(stderr, "gpumapctl: %s: %s\n", path, strerror(-ret));
	return GM_EXIT_FAILED;
}

static int show_json(const struct shown *s, const char *drawn)
{
	json_t *object = gm_ctl_mask_json(&s->mask), *lines = json_null();

	if (drawn != NULL) {
		lines = json_array();
		for (const char *end; *drawn != '\0'; drawn = end + 1) {
			end = strchr(drawn, '\n');
			json_array_append_new(
				lines,
				json_stringn(drawn, (size_t)(end - drawn)));
		}
	}
	json_object_set_new(object, "row", json_integer(s->view->row));
	json_object_set_new(object, "picture", lines);
	return gm_ctl_mask_print(object);
}

static void show_text(const struct shown *s, const char *drawn)
{
	const struct gpumap_mask_info *info = &s->mask.info;
	char size[32], shape[96];

	printf("%s  version %llu, %s", info->name,
	       (unsigned long long)info->version, gm_ctl_mask_name(info));
	if (has_tensor(info))
		printf(", %s of %s, %s, hash %016" PRIx64,
		       gm_ctl_mask_shape(info, shape),
		       gm_ctl_dtype(info->dtype),
		       gm_size_text(info->bytes, size), info->hash);
	printf("\n  rows");
	for (uint32_t i = 0; i < info->n_rows; i++)
		printf(" %u", s->mask.rows[i]);
	if (info->map[0] != '\0')
		printf(", those of map %s", info->map);
	printf("\n%s", drawn != NULL ? drawn : "");
	if (drawn == NULL && has_tensor(info))
		printf("  not drawn: row %u is a card, which has it in memory "
		       "of "
		       "its own\n",
		       s->view->row);
}

static int show(const struct gm_ctl *ctl, const struct shown *s)
{
	const struct gm_picture picture =
		s->view->data != NULL ? picture_of(s->view)
				      : (struct gm_picture){ .elements = NULL };
	char text[GM_PICTURE_TEXT], *drawn = NULL;
	int ret = GM_EXIT_OK;

	if (picture.elements != NULL)
		drawn = gm_picture_print(&picture, text);
	if (ctl->mask.pgm != NULL && drawn == NULL) {
		fprintf(stderr,
			"gpumapctl: mask \"%s\" has nothing to draw on row "
			"%u: give the row of a host with --rows, or a mask "
			"with a tensor\n",
			s->mask.info.name, s->view->row);
		return GM_EXIT_FAILED;
	}
	if (ctl->mask.pgm != NULL)
		ret = write_image(&picture, ctl->mask.pgm);
	if (ret == GM_EXIT_OK && ctl->json)
		ret = show_json(s, drawn);
	else if (ret == GM_EXIT_OK)
		show_text(s, drawn);
	return ret;
}

static int no_replica(const struct gm_ctl *ctl, const struct shown *s)
{
	const struct gpumap_mask_info *info = &s->mask.info;

	fprintf(stderr, "gpumapctl: mask \"%s\" has no replica", info->name);
	if (ctl->n_rows != 0)
		fprintf(stderr, " on row %u: give --rows one of", ctl->rows[0]);
	else
		fputs(" that can be used now, of", stderr);
	for (uint32_t i = 0; i < info->n_rows; i++)
		fprintf(stderr, " %u", s->mask.rows[i]);
	fputs("; see gpumapctl devices\n", stderr);
	return GM_EXIT_FAILED;
}

int gm_ctl_mask_show(struct gm_ctl *ctl)
{
	const char *name = ctl->args[0];
	struct shown s = { .opened = NULL };
	int ret;

	if (ctl->n_rows > 1) {
		fputs("gpumapctl: mask show looks at one row: give one to "
		      "--rows\n",
		      stderr);
		return GM_EXIT_USAGE;
	}
	ret = open_mask(ctl, name, &s);
	if (ret != 0)
		return no_mask(ctl, ret, name);
	if (s.view != NULL) {
		ret = show(ctl, &s);
	} else {
		ret = no_replica(ctl, &s);
	}
	gpumap_mask_close(ctl->map, s.opened);
	return ret;
}

/* ---- release ------------------------------------------------------------- */

int gm_ctl_mask_release(struct gm_ctl *ctl)
{
	const char *name = ctl->args[0];
	int ret = gpumap_mask_release(ctl->map, name);

	if (ret == -ENOENT)
		return gm_ctl_unknown("mask", name, "mask list");
	if (ret != 0)
		return gm_ctl_fail(ctl, ret, "release \"%s\"", name);
	if (ctl->json)
		return gm_ctl_print(json_pack("{s:s}", "released", name));
	printf("%s: released\n", name);
	return GM_EXIT_OK;
}
