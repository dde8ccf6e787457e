/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * yaml - one YAML document, event by event, without what a file of settings
 * has no use for.
 *
 * Aliases are refused, so a short text cannot mean a long one, and so is a
 * second document.  Whoever reads takes the events in the order of the file
 * and refuses what it does not expect: nothing is kept that nobody asked for,
 * and nothing is nested deeper than its reader goes.
 *
 * Functions that return an int return 0, or a negative errno with the error
 * set; then nothing but gm_yaml_close() may follow.
 */
#ifndef GM_YAML_H
#define GM_YAML_H

#include <stdbool.h>
#include <stddef.h>
#include <yaml.h>

#include "agent/plan/error.h"

struct gm_yaml {
	yaml_parser_t parser;
	yaml_event_t event;   /* the one in hand */
	const char *place;    /* what messages say before a line's number */
	const char *expected; /* the remedy: what the file should look like */
	struct gm_plan_error *err;
};

/*
 * gm_yaml_open - begin to read @n bytes
 *
 * place	"Topology, line ", to be followed by a number
 * expected	a remedy for whoever wrote something else
 *
 * All of them, and @err, must outlive the reader.
 *
 * Returns	0
 *		-ENOMEM
 * Threads	any, one per reader
 */
int gm_yaml_open(struct gm_yaml *yaml, const char *text, size_t n,
		 const char *place, const char *expected,
		 struct gm_plan_error *err);
void gm_yaml_close(struct gm_yaml *yaml);

/* Take the first event of the document in hand: that of the stream's end where
 * there is no document. */
int gm_yaml_begin(struct gm_yaml *yaml);

/* Take the next one in hand. */
int gm_yaml_next(struct gm_yaml *yaml);

/* After the document's last event: does it end here, and the stream? */
int gm_yaml_end(struct gm_yaml *yaml);

/* The scalar in hand as text, until the next event; what is none is refused
 * with @otherwise. */
int gm_yaml_word(struct gm_yaml *yaml, const char *otherwise,
		 const char **ret_text);

/* Is the scalar in hand YAML's null? */
bool gm_yaml_is_null(const struct gm_yaml *yaml);

/* The line of what is in hand, from 1. */
size_t gm_yaml_line(const struct gm_yaml *yaml);

/* Say what is wrong with what is in hand.  Returns -EINVAL. */
int gm_yaml_refuse(struct gm_yaml *yaml, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* The same of what stood on another line. */
int gm_yaml_refuse_at(struct gm_yaml *yaml, size_t line, const char *format,
		      ...) __attribute__((format(printf, 3, 4)));

#endif
