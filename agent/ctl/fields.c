/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/ctl/fields.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/reader/wide_json.h"

static bool has_more(const struct gm_ctl_field *f)
{
	return f->name != NULL || f->heading != NULL;
}

struct value {
	enum { NOTHING, FLAG, NUMBER, REAL, TEXT } is;
	uint64_t number;
	double real;
	const char *text;
};

static struct value load(enum gm_ctl_type type, const void *at)
{
	struct value v = { NUMBER, 0, 0, NULL };

	switch (type) {
	case GM_TYPE_U32:
		v.number = *(const uint32_t *)at;
		break;
	case GM_TYPE_I32:
		v.number = (uint64_t)((const int32_t *)at)[0];
		break;
	case GM_TYPE_DOUBLE:
		v.is = REAL;
		v.real = *(const double *)at;
		break;
	case GM_TYPE_BOOL:
		v.is = FLAG;
		v.number = *(const bool *)at;
		break;
	case GM_TYPE_CHARS:
	case GM_TYPE_TEXT:
		v.is = TEXT;
		v.text = type == GM_TYPE_CHARS ? at : *(const char *const *)at;
		break;
	default:
		v.number = *(const uint64_t *)at;
	}
	return v;
}

/* Is it none, by @f? */
static bool is_none(const struct gm_ctl_field *f, const struct value *v)
{
	if (v->is == TEXT)
		return v->text == NULL ||
		       ((f->as & GM_AS_OR_NULL) != 0 && v->text[0] == '\0');
	if ((f->as & GM_AS_OR_MAX) != 0)
		return v->number > INT64_MAX;
	if (f->type == GM_TYPE_I32 || f->type == GM_TYPE_I64)
		return (f->as & GM_AS_OR_NULL) != 0 && (int64_t)v->number < 0;
	return (f->as & GM_AS_OR_NULL) != 0 && v->number == 0;
}

static struct value value_of(const struct gm_ctl *ctl,
			     const struct gm_ctl_field *f, const void *item,
			     char room[GM_CTL_CELL])
{
	const uint32_t *with = (const void *)((const char *)item + f->with);
	struct value v = { TEXT, .text = room };
	uint32_t number;

	room[0] = '\0';
	if (f->text != NULL) {
		f->text(ctl, item, room);
		v.is = room[0] != '\0' ? TEXT : NOTHING;
		return v;
	}
	v = load(f->type, (const char *)item + f->at);
	number = (uint32_t)v.number;
	if (is_none(f, &v) ||
	    ((f->as & GM_AS_KNOWN) != 0 && (*with & f->bits) == 0) ||
	    ((f->as & GM_AS_IF) != 0 &&
	     *(const uint64_t *)(const void *)with == 0)) {
		v.is = NOTHING;
		return v;
	}
	if ((f->as & GM_AS_FLAG) != 0) {
		v.is = FLAG;
		v.number =
			(v.number & (f->bits != 0 ? f->bits : UINT64_MAX)) != 0;
		return v;
	}
	if ((f->as & GM_AS_USER) != 0)
		v.text = gm_ctl_user(number, room);
	else if ((f->as & GM_AS_COMMAND) != 0)
		v.text = gm_ctl_command(ctl, *with, number, room);
	else if ((f->as & GM_AS_COMMAND_LINE) != 0)
		v.text = gm_ctl_command_line(ctl, *with, number, room);
	else if (f->word != NULL)
		v.text = f->word(number);
	else
		return v;
	v.is = v.text != NULL && strcmp(v.text, "-") != 0 ? TEXT : NOTHING;
	return v;
}

/* ---- JSON ---------------------------------------------------------------- */

static json_t *number_json(const struct gm_ctl_field *f, uint64_t number)
{
	return f->is_wide ? gm_wide_integer(number)
			  : json_integer((json_int_t)number);
}

static json_t *list_json(const struct gm_ctl *ctl, const struct gm_ctl_field *f,
			 const void *item)
{
	const char *at = (const char *)item + f->at;
	uint32_t n = *(const uint32_t *)((const char *)item + f->with);
	json_t *list;

	if ((f->as & GM_AS_POINTER) != 0)
		at = *(const char *const *)at;
	if (f->fields != NULL)
		return gm_ctl_fields_array(ctl, f->fields, at, n, f->bytes);
	list = json_array();
	for (uint32_t i = 0; i < n; i++) {
		struct value v = load(f->of, at + i * f->bytes);

		json_array_append_new(list, v.is == TEXT
						    ? gm_ctl_text_json(v.text)
						    : number_json(f, v.number));
	}
	return list;
}

static json_t *to_json(const struct gm_ctl *ctl, const struct gm_ctl_field *f,
		       const void *item)
{
	const void *at = (const char *)item + f->at;
	char room[GM_CTL_CELL];
	struct value v;
	json_t *list;

	if (f->json != NULL)
		return f->json(ctl, item);
	/* These have a text as columns only. */
	if (f->type == GM_TYPE_ROWS) {
		list = json_array();
		for (uint32_t row = 0; row < GPUMAP_ROWS_MAX; row++)
			if (gm_ctl_has_row(at, row))
				json_array_append_new(list, json_integer(row));
		return list;
	}
	if (f->type == GM_TYPE_LIST)
		return list_json(ctl, f, item);
	if (f->type == GM_TYPE_RECORD)
		return gm_ctl_fields_json(ctl, f->fields, at, NULL);
	v = value_of(ctl, f, item, room);
	switch (v.is) {
	case FLAG:
		return json_boolean(v.number != 0);
	case NUMBER:
		return number_json(f, v.number);
	case REAL:
		return json_real(v.real);
	case TEXT:
		return gm_ctl_text_json(v.text);
	default:
		return json_null();
	}
}

json_t *gm_ctl_fields_json(const struct gm_ctl *ctl,
			   const struct gm_ctl_field *fields, const void *item,
			   json_t *object)
{
	if (object == NULL)
		object = json_object();
	for (; has_more(fields); fields++)
		if (fields->name != NULL)
			json_object_set_new(object, fields->name,
					    to_json(ctl, fields, item));
	return object;
}

json_t *gm_ctl_fields_array(const struct gm_ctl *ctl,
			    const struct gm_ctl_field *fields,
			    const void *items, size_t n, size_t bytes)
{
	json_t *array = json_array();

	for (const char *at = items; n > 0; at += bytes, n--)
		json_array_append_new(array, gm_ctl_fields_json(ctl, fields, at,
								NULL));
	return array;
}

/* ---- text ---------------------------------------------------------------- */

static const char *to_text(const struct gm_ctl *ctl,
			   const struct gm_ctl_field *f, const void *item,
			   char room[GM_CTL_CELL])
{
	struct value v = value_of(ctl, f, item, room);

	switch (v.is) {
	case FLAG:
		return v.number != 0 ? "yes" : "no";
	case NUMBER:
		if ((f->as & GM_AS_SIZE) != 0)
			return gm_size_text(v.number, room);
		if ((f->as & (GM_AS_AGE | GM_AS_SECONDS)) != 0)
			sprintf(room, "%.1f%s", (double)v.number / 1e9,
				(f->as & GM_AS_AGE) != 0 ? " s" : "");
		else
			sprintf(room, "%lld", (long long)v.number);
		return room;
	case REAL:
		sprintf(room, "%.1f", v.real);
		return room;
	case TEXT:
		/* A long name of a user moves no other column. */
		if ((f->as & GM_AS_USER) != 0)
			room[-f->width] = '\0';
		return v.text;
	default:
		return f->none != NULL ? f->none : "-";
	}
}

/* @between: blanks before the next column. */
static void put_columns(const struct gm_ctl *ctl,
			const struct gm_ctl_field *fields, const void *item,
			int *between)
{
	char room[GM_CTL_CELL];

	for (; has_more(fields); fields++) {
		const char *heading = fields->heading;
		int blanks;

		if (fields->type == GM_TYPE_RECORD)
			put_columns(ctl, fields->fields,
				    item != NULL
					    ? (const char *)item + fields->at
					    : NULL,
				    between);
		if (heading == NULL)
			continue;
		blanks = (int)strspn(heading, " ");
		printf("%*s%*s", *between + blanks, "", fields->width,
		       item != NULL ? to_text(ctl, fields, item, room)
				    : heading + blanks);
		*between = 1;
	}
}

void gm_ctl_fields_line(const struct gm_ctl *ctl,
			const struct gm_ctl_field *fields, const void *item)
{
	int between = 0;

	put_columns(ctl, fields, item, &between);
	putchar('\n');
}

void gm_ctl_print_wide(json_t *object)
{
	char *text = object != NULL ? gm_wide_dump(object) : NULL;

	if (text == NULL || puts(text) < 0)
		gm_ctl_failed("cannot print");
	json_decref(object);
	free(text);
}

/* ---- a list -------------------------------------------------------------- */

struct gm_ctl_list gm_ctl_list_begin(const struct gm_ctl *ctl,
				     const struct gm_ctl_field *fields)
{
	if (!ctl->json)
		gm_ctl_fields_line(ctl, fields, NULL);
	return (struct gm_ctl_list){ ctl, fields,
				     ctl->json ? json_array() : NULL };
}

void gm_ctl_list_add(const struct gm_ctl_list *list, const void *item)
{
	if (list->items != NULL)
		json_array_append_new(
			list->items, gm_ctl_fields_json(list->ctl, list->fields,
							item, NULL));
	else
		gm_ctl_fields_line(list->ctl, list->fields, item);
}

void gm_ctl_list_end(const struct gm_ctl_list *list, const char *name)
{
	bool is_wide = false;

	if (list->items == NULL)
		return;
	for (const struct gm_ctl_field *f = list->fields; has_more(f); f++)
		is_wide = is_wide || f->is_wide;
	(is_wide ? gm_ctl_print_wide
		 : gm_ctl_print)(json_pack("{s:o}", name, list->items));
}

void gm_ctl_list_named(const struct gm_ctl *ctl,
		       const struct gm_ctl_named *named, void *item)
{
	struct gm_ctl_list list = gm_ctl_list_begin(ctl, named->fields);
	char name[GPUMAP_NAME_MAX + 1];
	uint32_t cursor = 0;

	while (named->next(ctl->map, &cursor, name) == 1) {
		int error = named->read(ctl, name, item);

		if (error == 0)
			gm_ctl_list_add(&list, item);
		else if (error != -ENOENT) /* which is released meanwhile */
			gm_ctl_fail(ctl, error, "%s \"%s\"", named->what, name);
	}
	gm_ctl_list_end(&list, named->plural);
}

void gm_ctl_list_all(const struct gm_ctl *ctl, const char *name,
		     const struct gm_ctl_field *fields, void *items, int n,
		     size_t bytes)
{
	struct gm_ctl_list list;

	if (n < 0)
		gm_ctl_fail(ctl, n, "%s", name);
	list = gm_ctl_list_begin(ctl, fields);
	for (int i = 0; i < n; i++)
		gm_ctl_list_add(&list, (const char *)items + (size_t)i * bytes);
	free(items);
	gm_ctl_list_end(&list, name);
}
