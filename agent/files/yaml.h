/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * yaml - read one YAML document, event by event, with the features that files
 * of settings need.
 *
 * Aliases are refused, so that a short text cannot expand to a long one.
 * Directives are refused because the YAML library compares each with all that
 * precede it: a megabyte of them takes seconds.  So is a second document.  The
 * text is UTF-8.  The reader takes the events in the order of the file and
 * refuses those that it does not expect: nothing else is stored, and nesting is
 * limited by the depth of the reader.
 *
 * Functions that return an int return 0, or a negative errno with the error
 * set; then nothing but gm_yaml_close() may follow.
 */
#ifndef GM_YAML_H
#define GM_YAML_H

#include <stdbool.h>
#include <stddef.h>
#include <yaml.h>

#include "lib/model/plan/error.h"

struct gm_yaml {
	yaml_parser_t parser;
	yaml_event_t event; /* the current event */
	const char *place;  /* the text of messages before a line's number */
	/* the remedy: the form that the file should have */
	const char *expected;
	struct gm_plan_error *err;
};

/*
 * gm_yaml_open - begin to read @n bytes
 *
 * place	"Topology, line ", to be followed by a number
 * expected	the remedy for a file of another form
 *
 * All of them, and @err, must outlive the reader.
 *
 * Returns	0
 *		-EINVAL	a line begins with '%', as directives do; nothing is
 *			open then
 *		-ENOMEM
 * Threads	any, one per reader
 */
int gm_yaml_open(struct gm_yaml *yaml, const char *text, size_t n,
		 const char *place, const char *expected,
		 struct gm_plan_error *err);
void gm_yaml_close(struct gm_yaml *yaml);

/* Make the document's first event current; the stream's end if there is no
 * document. */
int gm_yaml_begin(struct gm_yaml *yaml);

/* Make the next event current. */
int gm_yaml_next(struct gm_yaml *yaml);

/*
 * gm_yaml_each - read the mapping or the list that the current event begins
 *
 * read_item	is called with each key or element as the current event, and
 *		leaves the last of its value; 0 to go on
 *
 * Then the current event is the end.
 */
int gm_yaml_each(struct gm_yaml *yaml, int (*read_item)(void *data),
		 void *data);

/* After the document's last event: check that the document ends here, and the
 * stream. */
int gm_yaml_end(struct gm_yaml *yaml);

/* The current scalar as text, valid until the next event; anything else is
 * refused with @otherwise. */
int gm_yaml_word(struct gm_yaml *yaml, const char *otherwise,
		 const char **ret_text);

/* Is the current scalar YAML's null? */
bool gm_yaml_is_null(const struct gm_yaml *yaml);

/* The line of the current event, from 1. */
size_t gm_yaml_line(const struct gm_yaml *yaml);

/* Store what is wrong with the current event.  Returns -EINVAL. */
int gm_yaml_refuse(struct gm_yaml *yaml, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* The same for an earlier event on another line. */
int gm_yaml_refuse_at(struct gm_yaml *yaml, size_t line, const char *format,
		      ...) __attribute__((format(printf, 3, 4)));

#endif
