/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/plan/topology_yaml.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/plan/topology.h"
#include "agent/plan/yaml.h"

struct reader {
	struct gm_yaml yaml;
	struct gm_topology_texts texts;
};

/* Copy the current word, for the caller to free(). */
static int copy_word(struct reader *rd, const char *otherwise, char **ret_text)
{
	const char *word;
	char *text;
	int r = gm_yaml_word(&rd->yaml, otherwise, &word);

	if (r)
		return r;
	text = strdup(word);
	if (!text)
		return gm_error_no_memory(rd->yaml.err);
	*ret_text = text;
	return 0;
}

/* Skip the value that begins with the current event. */
static int skip_value(struct reader *rd)
{
	unsigned int depth = 0;
	int r;

	for (;;) {
		switch (rd->yaml.event.type) {
		case YAML_MAPPING_START_EVENT:
		case YAML_SEQUENCE_START_EVENT:
			if (++depth > GM_TOPOLOGY_DEPTH)
				return gm_yaml_refuse(&rd->yaml,
						      "nested too deep");
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
		r = gm_yaml_next(&rd->yaml);
		if (r)
			return r;
	}
}

/* Read "device: cuda[0]"; the current event is the key.  @seen has a bit for
 * each of the two keys. */
static int read_field(struct reader *rd, struct gm_topology_text *entry,
		      unsigned int *seen)
{
	const char *key;
	char **to = NULL;
	unsigned int bit;
	int r;

	r = gm_yaml_word(&rd->yaml, "a key that is not a word", &key);
	if (r)
		return r;
	if (strcmp(key, "isq") == 0)
		to = &entry->isq;
	else if (strcmp(key, "device") == 0)
		to = &entry->device;
	bit = to == &entry->isq ? 1 : 2;
	if (to && *seen & bit)
		return gm_yaml_refuse(&rd->yaml, "a key twice in one entry");
	if (to)
		*seen |= bit;
	r = gm_yaml_next(&rd->yaml);
	if (r)
		return r;
	if (!to)
		return skip_value(rd);
	if (gm_yaml_is_null(&rd->yaml))
		return 0;
	return copy_word(rd, "isq and device are words", to);
}

static int grow(struct reader *rd)
{
	struct gm_topology_texts *texts = &rd->texts;
	size_t room = texts->room ? 2 * texts->room : 32;
	void *v;

	if (texts->n == GM_TOPOLOGY_ENTRIES)
		return gm_error_set(rd->yaml.err, -E2BIG,
				    "join entries to ranges",
				    "Topology: more than %u entries",
				    GM_TOPOLOGY_ENTRIES);
	if (texts->n < texts->room)
		return 0;
	v = reallocarray(texts->v, room, sizeof(*texts->v));
	if (!v)
		return gm_error_no_memory(rd->yaml.err);
	texts->v = v;
	texts->room = room;
	return 0;
}

/* Read "0-16: { ... }"; the current event is the selector. */
static int read_entry(struct reader *rd)
{
	struct gm_topology_text *entry;
	unsigned int seen = 0;
	int r;

	r = grow(rd);
	if (r)
		return r;
	entry = &rd->texts.v[rd->texts.n];
	*entry = (struct gm_topology_text){ 0 };
	r = copy_word(rd, "a selector that is not a word", &entry->selector);
	if (r)
		return r;
	rd->texts.n++;
	r = gm_yaml_next(&rd->yaml);
	if (r)
		return r;
	if (rd->yaml.event.type != YAML_MAPPING_START_EVENT)
		return gm_yaml_refuse(&rd->yaml,
				      "an entry that is not a mapping");
	for (r = gm_yaml_next(&rd->yaml); r == 0; r = gm_yaml_next(&rd->yaml)) {
		if (rd->yaml.event.type == YAML_MAPPING_END_EVENT)
			return 0;
		r = read_field(rd, entry, &seen);
		if (r)
			break;
	}
	return r;
}

static int read_document(struct reader *rd)
{
	int r = gm_yaml_begin(&rd->yaml);

	if (r || rd->yaml.event.type == YAML_STREAM_END_EVENT)
		return r;
	if (rd->yaml.event.type == YAML_MAPPING_START_EVENT) {
		for (r = gm_yaml_next(&rd->yaml); r == 0;
		     r = gm_yaml_next(&rd->yaml)) {
			if (rd->yaml.event.type == YAML_MAPPING_END_EVENT)
				break;
			r = read_entry(rd);
			if (r)
				break;
		}
	} else if (!gm_yaml_is_null(&rd->yaml)) {
		r = gm_yaml_refuse(&rd->yaml, "it is not a mapping");
	}
	return r ? r : gm_yaml_end(&rd->yaml);
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
		return gm_error_no_memory(rd->yaml.err);
	for (size_t i = 0; i < rd->texts.n; i++)
		sorted[i] = rd->texts.v[i].selector;
	qsort(sorted, rd->texts.n, sizeof(*sorted), by_selector);
	for (size_t i = 1; i < rd->texts.n && r == 0; i++)
		if (strcmp(sorted[i - 1], sorted[i]) == 0)
			r = gm_error_set(rd->yaml.err, -EINVAL,
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
	struct reader rd = { .texts = { 0 } };
	int r;

	if (n > GM_TOPOLOGY_BYTES)
		return gm_error_set(ret_err, -E2BIG, "is this a topology?",
				    "Topology: longer than %u bytes",
				    GM_TOPOLOGY_BYTES);
	r = gm_yaml_open(&rd.yaml, text, n, "Topology, line ",
			 "write SELECTOR: { device: ..., isq: ... } entries",
			 ret_err);
	if (r)
		return r;
	r = read_document(&rd);
	if (r == 0)
		r = check_duplicates(&rd);
	gm_yaml_close(&rd.yaml);
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
