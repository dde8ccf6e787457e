/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/files/pattern.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* A pattern that is being read, each byte once. */
struct reader {
	const char *at, *end;
	uint32_t depth;     /* open groups */
	bool is_repeatable; /* an element precedes, for a quantifier */
	const char *why;
};

static bool refuse(struct reader *r, const char *why)
{
	r->why = why;
	return false;
}

static bool escape(struct reader *r)
{
	char c;

	if (++r->at == r->end)
		return refuse(r, "trailing backslash");
	c = *r->at++;
	if (c != '\0' && strchr("dDwWsSbB", c))
		return true;
	if (ispunct((unsigned char)c) && c != '<' && c != '>' && c != '`' &&
	    c != '\'')
		return true;
	return refuse(r, "an escape that is not supported");
}

/* One character or class in brackets.  A class is -1, and no end of a range. */
static bool in_bracket(struct reader *r, int *ret_c)
{
	char c = *r->at++;

	*ret_c = (unsigned char)c;
	/* Sets such as [[:alpha:]] and [a&&b]. */
	if (c == '[' || c == '&' || c == '~')
		return refuse(r, "a set in brackets is not supported");
	if (c != '\\')
		return true;
	if (r->at == r->end)
		return refuse(r, "unmatched [");
	c = *r->at++;
	*ret_c = (unsigned char)c;
	if (c == 'd' || c == 'w' || c == 's')
		*ret_c = -1;
	else if (!ispunct((unsigned char)c) || strchr("[]^-\\", c))
		return refuse(r, "an escape in brackets that is not supported");
	return true;
}

static bool bracket(struct reader *r)
{
	bool is_empty = true;
	int from, to;

	r->at++;
	if (r->at < r->end && *r->at == '^')
		r->at++;
	for (; r->at < r->end && (is_empty || *r->at != ']');
	     is_empty = false) {
		if (!in_bracket(r, &from))
			return false;
		if (r->end - r->at < 2 || r->at[0] != '-' || r->at[1] == ']')
			continue;
		r->at++;
		if (!in_bracket(r, &to))
			return false;
		if (from < 0 || to < from)
			return refuse(r, "a range in brackets that is none");
	}
	if (r->at == r->end)
		return refuse(r, "unmatched [");
	r->at++;
	return true;
}

/* A number of repetitions; UINT64_MAX: no digit. */
static uint64_t count(struct reader *r)
{
	uint64_t n = UINT64_MAX;

	for (; r->at < r->end && isdigit((unsigned char)*r->at); r->at++) {
		n = n == UINT64_MAX ? 0 : 10 * n;
		n += (uint64_t)(*r->at - '0');
		if (n > GM_PATTERN_COPIES)
			n = GM_PATTERN_COPIES + 1;
	}
	return n;
}

/* "{n}", "{n,}" or "{n,m}". */
static bool interval(struct reader *r)
{
	uint64_t least, most;

	r->at++;
	least = most = count(r);
	if (r->at < r->end && *r->at == ',' && least != UINT64_MAX) {
		r->at++;
		most = count(r);
		if (most == UINT64_MAX)
			most = least;
	}
	if (r->at == r->end || *r->at != '}' || least == UINT64_MAX ||
	    most < least)
		return refuse(r, "a repetition that is none");
	if (most > GM_PATTERN_COPIES)
		return refuse(r, "too many repetitions");
	r->at++;
	return true;
}

/* A '?' behind it makes it lazy, which does not change whether there is a
 * match. */
static bool quantifier(struct reader *r)
{
	if (!r->is_repeatable)
		return refuse(r, "a quantifier of nothing");
	if (*r->at != '{')
		r->at++;
	else if (!interval(r))
		return false;
	if (r->at < r->end && *r->at == '?')
		r->at++;
	if (r->at < r->end && strchr("*+?{", *r->at))
		return refuse(r, "a quantifier of a quantifier");
	return true;
}

static bool open_group(struct reader *r)
{
	r->depth++;
	r->at++;
	if (r->at == r->end || *r->at != '?')
		return true;
	if (r->end - r->at < 2 || r->at[1] != ':')
		return refuse(r, "flags and named groups are not supported");
	r->at += 2;
	return true;
}

static bool close_group(struct reader *r)
{
	if (r->depth == 0)
		return refuse(r, "unmatched )");
	r->depth--;
	r->at++;
	return true;
}

static bool element(struct reader *r)
{
	switch (*r->at) {
	case '\0':
		return refuse(r, "a NUL byte");
	case '\\':
		return escape(r);
	case '[':
		return bracket(r);
	case '(':
		return open_group(r);
	case ')':
		return close_group(r);
	case '*':
	case '+':
	case '?':
	case '{':
		return quantifier(r);
	}
	r->at++;
	return true;
}

int gm_pattern_check(const char *text, size_t n, char ret_why[128])
{
	struct reader r = { .at = text, .end = text + n };

	if (n > GM_PATTERN_BYTES) {
		snprintf(ret_why, 128, "longer than the %u bytes allowed",
			 GM_PATTERN_BYTES);
		return -EINVAL;
	}
	while (!r.why && r.at < r.end) {
		char c = *r.at;

		if (element(&r))
			r.is_repeatable = c != '(' && c != '|';
	}
	if (!r.why && r.depth > 0)
		refuse(&r, "unmatched (");
	if (!r.why)
		return 0;
	snprintf(ret_why, 128, "%s", r.why);
	return -EINVAL;
}
