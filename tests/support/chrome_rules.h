/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * chrome_rules - is a document a trace as viewers of Chrome's JSON take it?
 *
 * The rules of the format: an object with a list traceEvents; each event has a
 * phase, a process and a thread, both numbers; a complete event ("X") has a
 * name, a time stamp and a duration of at least 0; slices of a thread are apart
 * or one is within the other; and a process or thread has one name at most.
 * gpumap names each that has slices.
 */
#ifndef GM_TEST_SUPPORT_CHROME_RULES_H
#define GM_TEST_SUPPORT_CHROME_RULES_H

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/tap.h"

#define CHROME_SLICES 65536

struct chrome_slice {
	double pid, tid, ts, end;
};

static struct chrome_slice chrome_slices[CHROME_SLICES];
static size_t chrome_n;

static inline int chrome_order(const void *left, const void *right)
{
	const struct chrome_slice *a = left, *b = right;

	if (a->pid != b->pid)
		return a->pid < b->pid ? -1 : 1;
	if (a->tid != b->tid)
		return a->tid < b->tid ? -1 : 1;
	if (a->ts != b->ts)
		return a->ts < b->ts ? -1 : 1;
	return a->end > b->end ? -1 : a->end < b->end;
}

static inline double chrome_number(const json_t *event, const char *key)
{
	const json_t *value = json_object_get(event, key);

	return json_is_number(value) ? json_number_value(value) : -1;
}

/* How many names of this kind the thread, or the process, has. */
static inline unsigned int chrome_names(const json_t *events, const char *kind,
					double pid, double tid)
{
	unsigned int n = 0;
	json_t *event;
	size_t i;

	json_array_foreach(events, i, event)
	{
		const char *name =
			json_string_value(json_object_get(event, "name"));

		n += name != NULL && strcmp(name, kind) == 0 &&
		     chrome_number(event, "pid") == pid &&
		     (tid < 0 || chrome_number(event, "tid") == tid);
	}
	return n;
}

/* Reads the slices; returns how many events break the rules. */
static inline unsigned int chrome_read(const json_t *events)
{
	unsigned int wrong = 0;
	json_t *event;
	size_t i;

	chrome_n = 0;
	json_array_foreach(events, i, event)
	{
		const char *phase =
			json_string_value(json_object_get(event, "ph"));
		double ts = chrome_number(event, "ts"),
		       dur = chrome_number(event, "dur");

		wrong += phase == NULL || chrome_number(event, "pid") < 1 ||
			 chrome_number(event, "tid") < 0 ||
			 !json_is_string(json_object_get(event, "name"));
		if (phase == NULL || strcmp(phase, "X") != 0)
			continue;
		wrong += ts < 0 || dur < 0 || chrome_n == CHROME_SLICES;
		if (chrome_n < CHROME_SLICES)
			chrome_slices[chrome_n++] = (struct chrome_slice){
				chrome_number(event, "pid"),
				chrome_number(event, "tid"), ts, ts + dur
			};
	}
	return wrong;
}

/* Check a document.  Returns the number of slices. */
static inline size_t chrome_check(const json_t *trace)
{
	const json_t *events = json_object_get(trace, "traceEvents");
	const struct chrome_slice *last = NULL;
	unsigned int across = 0, unnamed = 0;

	if (!OK(json_is_array(events)))
		return 0;
	EQ(chrome_read(events), 0);
	qsort(chrome_slices, chrome_n, sizeof(chrome_slices[0]), chrome_order);
	for (size_t i = 0; i < chrome_n; i++) {
		const struct chrome_slice *s = &chrome_slices[i];

		if (last == NULL || last->pid != s->pid || last->tid != s->tid)
			unnamed += chrome_names(events, "thread_name", s->pid,
						s->tid) != 1 ||
				   chrome_names(events, "process_name", s->pid,
						-1) != 1;
		/* A millionth of a microsecond is what doubles lose. */
		else if (s->ts < last->end - 1e-6 && s->end > last->end + 1e-6)
			across++;
		last = s;
	}
	EQ(across, 0);
	EQ(unnamed, 0);
	return chrome_n;
}

#endif
