/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/plan/topology_yaml.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "agent/plan/topology.h"

struct reader {
	yaml_parser_t parser;
	yaml_event_t event; /* the one in hand */
	struct gm_topology_texts texts;
	struct gm_plan_error *err;
};

static int refuse(struct reader *rd, const char *what)
{
	return gm_error_set(rd->err, -EINVAL,
			    "write SELECTOR: { device: ..., isq: ... } entries",
			    "Topology, line %zu: %s",
			    rd->event.start_mark.line + 1, what);
}

/* The next event, in the place of the one in hand. */
static int next(struct reader *rd)
{
	yaml_event_delete(&rd->event);
	if (yaml_parser_parse(&rd->parser, &rd->event)) {
		if (rd->event.type == YAML_ALIAS_EVENT)
			return refuse(rd, "aliases are not allowed");
		return 0;
	}
	if (rd->parser.error == YAML_MEMORY_ERROR)
		return gm_error_no_memory(rd->err);
	return gm_error_set(
		rd->err, -EINVAL, "correct the YAML", "Topology, line %zu: %s",
		rd->parser.problem_mark.line + 1,
		rd->parser.problem ? rd->parser.problem : "it is not YAML");
}

static bool is_null(const yaml_event_t *event)
{
	static const char *const nulls[] = { "", "~", "null", "Null", "NULL" };
	const char *value = (const char *)event->data.scalar.value;

	if (event->data.scalar.style != YAML_PLAIN_SCALAR_STYLE)
		return false;
	for (size_t i = 0; i < sizeof(nulls) / sizeof(nulls[0]); i++)
		if (strcmp(value, nulls[i]) == 0)
			return true;
	return false;
}

/* The scalar in hand, for the caller to free(). */
static int copy_scalar(struct reader *rd, char **ret_text)
{
	const char *value = (const char *)rd->event.data.scalar.value;
	char *text;

	if (strlen(value) != rd->event.data.scalar.length)
		return refuse(rd, "a NUL byte");
	text = strdup(value);
	if (!text)
		return gm_error_no_memory(rd->err);
	*ret_text = text;
	return 0;
}

/* Pass over the value that begins with the event in hand. */
static int skip_value(struct reader *rd)
{
	unsigned int depth = 0;
	int r;

	for (;;) {
		switch (rd->event.type) {
		case YAML_MAPPING_START_EVENT:
		case YAML_SEQUENCE_START_EVENT:
			if (++depth > GM_TOPOLOGY_DEPTH)
				return refuse(rd, "nested too deep");
			break;
		case YAML_MAPPING_END_EVENT:
		case YAML_SEQUENCE_END_EVENT:
			depth--;
			break;
		default:
			break;
		}
		if (depth == 0)
			return 0;
		r = next(rd);
		if (r)
			return r;
	}
}

/* "device: cuda[0]", key in hand; @seen has a bit for each of the two. */
static int read_field(struct reader *rd, struct gm_topology_text *entry,
		      unsigned int *seen)
{
	const char *key;
	char **to = NULL;
	unsigned int bit;
	int r;

	if (rd->event.type != YAML_SCALAR_EVENT)
		return refuse(rd, "a key that is not a word");
	key = (const char *)rd->event.data.scalar.value;
	if (strcmp(key, "isq") == 0)
		to = &entry->isq;
	else if (strcmp(key, "device") == 0)
		to = &entry->device;
	bit = to == &entry->isq ? 1 : 2;
	if (to && *seen & bit)
		return refuse(rd, "a key twice in one entry");
	if (to)
		*seen |= bit;
	r = next(rd);
	if (r)
		return r;
	if (!to)
		return skip_value(rd);
	if (rd->event.type != YAML_SCALAR_EVENT)
		return refuse(rd, "isq and device are words");
	return is_null(&rd->event) ? 0 : copy_scalar(rd, to);
}

static int grow(struct reader *rd)
{
	struct gm_topology_texts *texts = &rd->texts;
	size_t room = texts->room ? 2 * texts->room : 32;
	void *v;

	if (texts->n == GM_TOPOLOGY_ENTRIES)
		return gm_error_set(rd->err, -E2BIG, "join entries to ranges",
				    "Topology: more than %u entries",
				    GM_TOPOLOGY_ENTRIES);
	if (texts->n < texts->room)
		return 0;
	v = reallocarray(texts->v, room, sizeof(*texts->v));
	if (!v)
		return gm_error_no_memory(rd->err);
	texts->v = v;
	texts->room = room;
	return 0;
}

/* "0-16: { ... }", selector in hand. */
static int read_entry(struct reader *rd)
{
	struct gm_topology_text *entry;
	unsigned int seen = 0;
	int r;

	if (rd->event.type != YAML_SCALAR_EVENT)
		return refuse(rd, "a selector that is not a word");
	r = grow(rd);
	if (r)
		return r;
	entry = &rd->texts.v[rd->texts.n];
	*entry = (struct gm_topology_text){ 0 };
	r = copy_scalar(rd, &entry->selector);
	if (r)
		return r;
	rd->texts.n++;
	r = next(rd);
	if (r)
		return r;
	if (rd->event.type != YAML_MAPPING_START_EVENT)
		return refuse(rd, "an entry that is not a mapping");
	for (r = next(rd); r == 0; r = next(rd)) {
		if (rd->event.type == YAML_MAPPING_END_EVENT)
			return 0;
		r = read_field(rd, entry, &seen);
		if (r)
			break;
	}
	return r;
}

/* Everything from the stream's start to its end. */
static int read_stream(struct reader *rd)
{
	int r = next(rd); /* the stream starts */

	if (r == 0)
		r = next(rd);
	if (r || rd->event.type == YAML_STREAM_END_EVENT)
		return r;
	r = next(rd); /* past the start of the document */
	if (r)
		return r;
	if (rd->event.type == YAML_MAPPING_START_EVENT) {
		for (r = next(rd); r == 0; r = next(rd)) {
			if (rd->event.type == YAML_MAPPING_END_EVENT)
				break;
			r = read_entry(rd);
			if (r)
				break;
		}
	} else if (rd->event.type != YAML_SCALAR_EVENT || !is_null(&rd->event))
		r = refuse(rd, "it is not a mapping");
	if (r == 0)
		r = next(rd); /* the document ends */
	if (r == 0)
		r = next(rd);
	if (r == 0 && rd->event.type != YAML_STREAM_END_EVENT)
		r = refuse(rd, "more than one document");
	return r;
}

static int by_selector(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static int check_duplicates(struct reader *rd)
{
	const char **sorted = calloc(rd->texts.n + 1, sizeof(*sorted));
	int r = 0;

	if (!sorted)
		return gm_error_no_memory(rd->err);
	for (size_t i = 0; i < rd->texts.n; i++)
		sorted[i] = rd->texts.v[i].selector;
	qsort(sorted, rd->texts.n, sizeof(*sorted), by_selector);
	for (size_t i = 1; i < rd->texts.n && r == 0; i++)
		if (strcmp(sorted[i - 1], sorted[i]) == 0)
			r = gm_error_set(rd->err, -EINVAL,
					 "give each selector one entry",
					 "Topology: selector %.200s is there "
					 "twice",
					 sorted[i]);
	free(sorted);
	return r;
}

int gm_topology_yaml(const char *text, size_t n,
		     struct gm_topology_texts *ret_texts,
		     struct gm_plan_error *ret_err)
{
	struct reader rd = { .err = ret_err };
	int r;

	if (n > GM_TOPOLOGY_BYTES)
		return gm_error_set(ret_err, -E2BIG, "is this a topology?",
				    "Topology: longer than %u bytes",
				    GM_TOPOLOGY_BYTES);
	if (!yaml_parser_initialize(&rd.parser))
		return gm_error_no_memory(ret_err);
	yaml_parser_set_input_string(&rd.parser, (const unsigned char *)text,
				     n);
	r = read_stream(&rd);
	if (r == 0)
		r = check_duplicates(&rd);
	yaml_event_delete(&rd.event);
	yaml_parser_delete(&rd.parser);
	if (r)
		gm_topology_texts_free(&rd.texts);
	else
		*ret_texts = rd.texts;
	return r;
}

void gm_topology_texts_free(struct gm_topology_texts *texts)
{
	while (texts->n > 0) {
		struct gm_topology_text *entry = &texts->v[--texts->n];

		free(entry->selector);
		free(entry->isq);
		free(entry->device);
	}
	free(texts->v);
	*texts = (struct gm_topology_texts){ 0 };
}
