/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/plan/pattern.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* A pattern that is being translated; no element grows to more than 8 times its
 * length. */
struct writer {
	const char *at, *end;
	char *to;
	uint64_t copies;
	uint64_t choices; /* alternatives and optional parts */
	bool after_group; /* a group has just ended */
	bool loops;       /* a group may be repeated without limit */
	const char *why;
};

static bool refuse(struct writer *w, const char *why)
{
	w->why = why;
	return false;
}

static void put(struct writer *w, const char *s)
{
	w->to = stpcpy(w->to, s);
}

static bool escape(struct writer *w)
{
	char c;

	if (++w->at == w->end)
		return refuse(w, "trailing backslash");
	c = *w->at++;
	if (c == 'd')
		put(w, "[0-9]");
	else if (c == 'D')
		put(w, "[^0-9]");
	else if (c != '\0' && strchr("wWsSbB", c))
		put(w, (char[]){ '\\', c, '\0' });
	else if (ispunct((unsigned char)c) && c != '<' && c != '>' &&
		 c != '`' && c != '\'')
		put(w, (char[]){ '\\', c, '\0' });
	else
		return refuse(w, "an escape that is not supported");
	return true;
}

static bool escape_in_bracket(struct writer *w)
{
	char c;

	if (++w->at == w->end)
		return refuse(w, "unmatched [");
	c = *w->at++;
	if (c == 'd')
		put(w, "0-9");
	else if (c == 'w')
		put(w, "[:alnum:]_");
	else if (c == 's')
		put(w, "[:space:]");
	else if (ispunct((unsigned char)c) && !strchr("[]^-\\", c))
		put(w, (char[]){ c, '\0' });
	else
		return refuse(w, "an escape in brackets that is not supported");
	return true;
}

static bool bracket(struct writer *w)
{
	bool empty = true;

	put(w, "[");
	w->at++;
	if (w->at < w->end && *w->at == '^') {
		put(w, "^");
		w->at++;
	}
	for (; w->at < w->end && (empty || *w->at != ']'); empty = false) {
		char c = *w->at;

		if (c == '\\') {
			if (!escape_in_bracket(w))
				return false;
			continue;
		}
		/* POSIX and Rust differ here: [[:alpha:]] and sets. */
		if (c == '[' || c == '&' || c == '~')
			return refuse(w, "a set in brackets is not supported");
		put(w, (char[]){ c, '\0' });
		w->at++;
	}
	if (w->at == w->end)
		return refuse(w, "unmatched [");
	put(w, "]");
	w->at++;
	return true;
}

/* Is this "{n}", "{n,}" or "{n,m}", which both sides take as a repetition? */
static bool interval(struct writer *w)
{
	uint64_t bound = 0, most = 1;
	bool digits = false;

	for (put(w, "{"), w->at++; w->at < w->end && *w->at != '}'; w->at++) {
		if (isdigit((unsigned char)*w->at)) {
			digits = true;
			bound = 10 * bound + (uint64_t)(*w->at - '0');
			if (bound > GM_PATTERN_COPIES)
				return refuse(w, "too many repetitions");
			most = bound > most ? bound : most;
		} else if (*w->at == ',' && digits) {
			bound = 0;
		} else {
			return refuse(w, "a repetition that is none");
		}
		put(w, (char[]){ *w->at, '\0' });
	}
	if (w->at == w->end || !digits)
		return refuse(w, "a repetition that is none");
	w->loops |= w->after_group && w->at[-1] == ',';
	put(w, "}");
	w->at++;
	w->copies *= most;
	w->choices++;
	if (w->copies > GM_PATTERN_COPIES)
		return refuse(w, "too many repetitions");
	return true;
}

/* After a quantifier: a '?' makes it lazy, which does not change whether it
 * matches. */
static bool after_quantifier(struct writer *w)
{
	if (w->at < w->end && *w->at == '?')
		w->at++;
	if (w->at < w->end &&
	    (*w->at == '*' || *w->at == '+' || *w->at == '?' || *w->at == '{'))
		return refuse(w, "a quantifier of a quantifier");
	return true;
}

static bool group(struct writer *w)
{
	put(w, "(");
	w->at++;
	if (w->at == w->end || *w->at != '?')
		return true;
	if (w->end - w->at < 2 || w->at[1] != ':')
		return refuse(w, "flags and named groups are not supported");
	w->at += 2;
	return true;
}

static bool element(struct writer *w)
{
	char c = *w->at;

	switch (c) {
	case '\0':
		return refuse(w, "a NUL byte");
	case '\\':
		return escape(w);
	case '[':
		return bracket(w);
	case '(':
		return group(w);
	case '{':
		return interval(w) && after_quantifier(w);
	}
	put(w, (char[]){ c, '\0' });
	w->at++;
	w->choices += c == '|';
	if (c == '*' || c == '+' || c == '?') {
		w->choices++;
		w->loops |= w->after_group && c != '?';
		return after_quantifier(w);
	}
	return true;
}

/*
 * An estimate of the most that the compiled form takes: a kilobyte for each
 * byte of the expression with its repetitions expanded, and eight bytes for
 * each pair of its choices, because the C library lists for each choice all
 * that it leads to.  In a loop that list is computed again from every choice,
 * which costs time instead of memory: it counts as two bytes for each triple of
 * choices, so that the whole budget is about a second.
 */
static uint64_t cost_of(const struct writer *w, size_t n)
{
	uint64_t choices = w->choices * w->copies;

	return 1024 * n * w->copies + 8 * choices * choices +
	       (w->loops ? 2 * choices * choices * choices : 0);
}

int gm_pattern_compile(const char *text, size_t n, uint64_t *budget,
		       regex_t *ret_regex, char ret_why[128])
{
	char posix[10 * GM_PATTERN_BYTES + 1] = "";
	struct writer w = {
		.at = text, .end = text + n, .to = posix, .copies = 1
	};
	int r;

	if (n > GM_PATTERN_BYTES) {
		snprintf(ret_why, 128, "longer than the %u bytes allowed",
			 GM_PATTERN_BYTES);
		return -EINVAL;
	}
	while (w.at < w.end) {
		char c = *w.at;

		if (!element(&w)) {
			snprintf(ret_why, 128, "%s", w.why);
			return -EINVAL;
		}
		w.after_group = c == ')';
	}
	if (cost_of(&w, n) > *budget) {
		snprintf(ret_why, 128,
			 "patterns that take too much memory or time");
		return -EINVAL;
	}
	r = regcomp(ret_regex, posix, REG_EXTENDED | REG_NOSUB);
	if (r == 0) {
		*budget -= cost_of(&w, n);
		return 0;
	}
	regerror(r, ret_regex, ret_why, 128);
	return -EINVAL;
}
