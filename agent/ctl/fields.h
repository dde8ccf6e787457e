/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * fields - what commands print of a struct: one table of its fields gives the
 * members of a JSON object, and the columns of a line of text, in its order.
 *
 *	- A table ends with { 0 }.
 *	- A field without a name is a column only, and one without a heading is
 *	  a member only.
 *	- Blanks before a heading stand before its column as well, beside the
 *	  one that is between two columns.
 */
#ifndef GM_CTL_FIELDS_H
#define GM_CTL_FIELDS_H

#include "agent/ctl/ctl.h"

#define GM_CTL_GIB  1073741824.0
#define GM_CTL_CELL 8192 /* bytes of a column's text; more are cut */

/* The type of a struct's member. */
enum gm_ctl_type {
	GM_TYPE_OTHER, /* only its own functions can print it */
	GM_TYPE_U32,
	GM_TYPE_I32,
	GM_TYPE_U64,
	GM_TYPE_I64,
	GM_TYPE_DOUBLE,
	GM_TYPE_BOOL,
	GM_TYPE_CHARS, /* char[] */
	GM_TYPE_TEXT,  /* const char * */
	GM_TYPE_ROWS,  /* uint64_t[]: a set of rows, as a list */
	/* @n of them, of @bytes each: numbers, texts, structs of @fields. */
	GM_TYPE_LIST,
	GM_TYPE_RECORD /* a struct of @fields, which may be columns */
};

/* How it is printed. */
enum gm_ctl_as {
	/* Null, and "-", for "", an unsigned 0, and a signed number below. */
	GM_AS_OR_NULL = 1 << 0,
	/* Are @bits of it set, or any where that is 0?  "yes" or "no" */
	GM_AS_FLAG = 1 << 1,
	GM_AS_SIZE = 1 << 2,    /* as text "3.0 MiB" */
	GM_AS_AGE = 1 << 3,     /* nanoseconds, as text "1.5 s" */
	GM_AS_SECONDS = 1 << 4, /* and "1.5" */
	GM_AS_USER = 1 << 5,    /* the name of this uid */
	/* The program of a process of this uid; @with is its pid. */
	GM_AS_COMMAND = 1 << 6,
	GM_AS_COMMAND_LINE = 1 << 7,
	/* Null, unless @bits of the member @with are set. */
	GM_AS_KNOWN = 1 << 8,
	GM_AS_OR_MAX = 1 << 9,   /* null above INT64_MAX */
	GM_AS_POINTER = 1 << 10, /* a list is where the member points to */
	GM_AS_IF = 1 << 11       /* null where the uint64_t @with is 0 */
};

struct gm_ctl_field {
	const char *name;
	enum gm_ctl_type type;
	size_t at;
	uint32_t as; /* a set of enum gm_ctl_as */
	uint32_t bits;
	size_t with;
	bool is_wide; /* up to 2^64 - 1: see gm_ctl_print_wide() */
	/* A list has as many items as the uint32_t @with says. */
	const struct gm_ctl_field *fields;
	enum gm_ctl_type of;
	size_t bytes;
	const char *heading;
	int width; /* of the column; less than 0: text begins at its left */
	const char *none; /* the text of null, "-" */
	/* The word for a number; NULL for none, which is null. */
	const char *(*word)(uint32_t value);
	/* In the place of all this: text, which stays "" for null. */
	void (*text)(const struct gm_ctl *ctl, const void *item,
		     char ret_text[GM_CTL_CELL]);
	json_t *(*json)(const struct gm_ctl *ctl, const void *item);
};

/* clang-format off */

#define GM_CTL_TYPE(tag, member)               \
	_Generic(((struct tag *)0)->member,    \
		 uint32_t: GM_TYPE_U32,        \
		 int32_t: GM_TYPE_I32,         \
		 uint64_t: GM_TYPE_U64,        \
		 int64_t: GM_TYPE_I64,         \
		 double: GM_TYPE_DOUBLE,       \
		 bool: GM_TYPE_BOOL,           \
		 char *: GM_TYPE_CHARS,        \
		 const char *: GM_TYPE_TEXT,   \
		 uint64_t *: GM_TYPE_ROWS,     \
		 default: GM_TYPE_OTHER)

/* GM_MEMBERS(tag, member, ...): up to 16 plain fields of struct @tag, that have
 * the names of its members.  A macro does not expand itself: GM_AGAIN stays as
 * it is until the next pass over the text. */
#define GM_PASS(...)   __VA_ARGS__
#define GM_PASS4(...)  GM_PASS(GM_PASS(GM_PASS(GM_PASS(__VA_ARGS__))))
#define GM_PASS16(...) GM_PASS4(GM_PASS4(GM_PASS4(GM_PASS4(__VA_ARGS__))))
#define GM_NOTHING()
#define GM_AGAIN()     GM_NEXT
#define GM_NEXT(tag, member, ...)      \
	GM_FIELD(tag, #member, member) \
	__VA_OPT__(, GM_AGAIN GM_NOTHING()()(tag, __VA_ARGS__))
#define GM_MEMBERS(tag, ...) GM_PASS16(GM_NEXT(tag, __VA_ARGS__))

/* clang-format on */

/* A field of struct @tag; what follows are other members of it. */
#define GM_FIELD(tag, key, member, ...)                         \
	{                                                       \
		.name = key, .type = GM_CTL_TYPE(tag, member),  \
		.at = offsetof(struct tag, member), __VA_ARGS__ \
	}

/* A list of numbers or texts, and one of structs: @count items of @member, a
 * pointer to the first or an array, whose size is not that of a pointer.  And a
 * record: one struct. */
#define GM_FIELD_LIST(tag, key, member, count, ...)                       \
	{                                                                 \
		.name = key, .type = GM_TYPE_LIST,                        \
		.of = GM_CTL_TYPE(tag, member[0]),                        \
		.at = offsetof(struct tag, member),                       \
		.with = offsetof(struct tag, count),                      \
		.bytes = sizeof(((struct tag *)0)->member[0]),            \
		.as = sizeof(((struct tag *)0)->member) == sizeof(void *) \
			      ? GM_AS_POINTER                             \
			      : 0,                                        \
		__VA_ARGS__                                               \
	}
#define GM_FIELD_ITEMS(tag, key, member, count, those) \
	GM_FIELD_LIST(tag, key, member, count, .fields = (those))
#define GM_FIELD_RECORD(tag, key, member, those)                      \
	{                                                             \
		.name = key, .type = GM_TYPE_RECORD,                  \
		.at = offsetof(struct tag, member), .fields = (those) \
	}

/* A member char *, which is not an array. */
#define GM_FIELD_TEXT(tag, key, member, ...)                    \
	{                                                       \
		.name = key, .type = GM_TYPE_TEXT,              \
		.at = offsetof(struct tag, member), __VA_ARGS__ \
	}

/* Null where the uint64_t @of is 0. */
#define GM_FIELD_IF(tag, key, member, of)          \
	GM_FIELD(tag, key, member, .as = GM_AS_IF, \
		 .with = offsetof(struct tag, of))

#define GM_COLUMN(text, n) .heading = (text), .width = (n)
#define GM_SET(those)      .as = GM_AS_FLAG, .bits = (those)

/* Null, unless bits of the member @of are set. */
#define GM_FIELD_KNOWN(tag, key, member, of, those, ...)               \
	GM_FIELD(tag, key, member, .as = GM_AS_KNOWN, .bits = (those), \
		 .with = offsetof(struct tag, of), __VA_ARGS__)

/* The user @uid, and the program of the process @pid of that. */
#define GM_FIELD_USER(tag, key, uid, ...) \
	GM_FIELD(tag, key, uid, .as = GM_AS_USER, __VA_ARGS__)
#define GM_FIELD_COMMAND(tag, key, uid, pid, ...)    \
	GM_FIELD(tag, key, uid, .as = GM_AS_COMMAND, \
		 .with = offsetof(struct tag, pid), __VA_ARGS__)
#define GM_FIELD_COMMAND_LINE(tag, key, uid, pid)         \
	GM_FIELD(tag, key, uid, .as = GM_AS_COMMAND_LINE, \
		 .with = offsetof(struct tag, pid))

/* The members of an object; those are added to @object, which may be NULL for a
 * new one. */
json_t *gm_ctl_fields_json(const struct gm_ctl *ctl,
			   const struct gm_ctl_field *fields, const void *item,
			   json_t *object);

/* An array of @n structs of @bytes each. */
json_t *gm_ctl_fields_array(const struct gm_ctl *ctl,
			    const struct gm_ctl_field *fields,
			    const void *items, size_t n, size_t bytes);

/* Print a line of columns, or the headings where @item is NULL. */
void gm_ctl_fields_line(const struct gm_ctl *ctl,
			const struct gm_ctl_field *fields, const void *item);

/* As gm_ctl_print(), with integers up to 2^64 - 1. */
void gm_ctl_print_wide(json_t *object);

/* A list that a command prints: lines below their headings, or an array. */
struct gm_ctl_list {
	const struct gm_ctl *ctl;
	const struct gm_ctl_field *fields;
	json_t *items; /* NULL: it is text */
};

/* Print the headings, or begin an array with --json. */
struct gm_ctl_list gm_ctl_list_begin(const struct gm_ctl *ctl,
				     const struct gm_ctl_field *fields);
void gm_ctl_list_add(const struct gm_ctl_list *list, const void *item);

/* Print the array as the member @name of an object. */
void gm_ctl_list_end(const struct gm_ctl_list *list, const char *name);

/* A list of objects that have names. */
struct gm_ctl_named {
	const char *what;   /* one is */
	const char *plural; /* the array's name */
	const struct gm_ctl_field *fields;
	int (*next)(const struct gpumap *map, uint32_t *cursor,
		    char ret_name[GPUMAP_NAME_MAX + 1]);
	/* Returns 0, or a negative errno: -ENOENT for one that is gone. */
	int (*read)(const struct gm_ctl *ctl, const char *name, void *ret_item);
};

/* Print all of them, each of which is read into @item. */
void gm_ctl_list_named(const struct gm_ctl *ctl,
		       const struct gm_ctl_named *named, void *item);

/* All of that for an array of @n items of @bytes each, which is freed; or say
 * why there is none, where @n is a negative errno. */
void gm_ctl_list_all(const struct gm_ctl *ctl, const char *name,
		     const struct gm_ctl_field *fields, void *items, int n,
		     size_t bytes);

#endif
