/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "lib/model/checkpoint/json_scan.h"

#include <errno.h>
#include <string.h>

static void skip_space(struct gm_scan *s)
{
	while (s->at < s->end && (*s->at == ' ' || *s->at == '\t' ||
				  *s->at == '\n' || *s->at == '\r'))
		s->at++;
}

/* Is @byte the next byte?  If so, it is taken. */
static bool take(struct gm_scan *s, char byte)
{
	if (s->at == s->end || *s->at != byte)
		return false;
	s->at++;
	return true;
}

static bool is_digit(const struct gm_scan *s)
{
	return s->at < s->end && *s->at >= '0' && *s->at <= '9';
}

/* ---- strings ------------------------------------------------------------- */

/* Take four digits of a \u.  Returns -1 where they are none. */
static int32_t take_hex(struct gm_scan *s)
{
	int32_t value = 0;

	if (s->end - s->at < 4)
		return -1;
	for (int i = 0; i < 4; i++) {
		char c = *s->at++;

		if (c >= '0' && c <= '9')
			value = 16 * value + (c - '0');
		else if ((c | 32) >= 'a' && (c | 32) <= 'f')
			value = 16 * value + ((c | 32) - 'a' + 10);
		else
			return -1;
	}
	return value;
}

/* Take the code behind "\u", with its other half where it is a surrogate. */
static int32_t take_code(struct gm_scan *s)
{
	int32_t high = take_hex(s), low;
	char *behind = s->at;

	if (high < 0xd800 || high > 0xdfff)
		return high;
	if (high <= 0xdbff && take(s, '\\') && take(s, 'u')) {
		low = take_hex(s);
		if (low >= 0xdc00 && low <= 0xdfff)
			return 0x10000 + ((high & 0x3ff) << 10) + (low & 0x3ff);
	}
	s->at = behind;
	return s->python ? high : -1;
}

/* Store a code in UTF-8: at most as many bytes as its escape had.  A NUL takes
 * two, so that it ends nothing. */
static char *put_code(char *to, int32_t code)
{
	if (code < 0x80 && code != 0) {
		*to++ = (char)code;
		return to;
	}
	if (code < 0x800) {
		*to++ = (char)(0xc0 | code >> 6);
	} else if (code < 0x10000) {
		*to++ = (char)(0xe0 | code >> 12);
		*to++ = (char)(0x80 | (code >> 6 & 0x3f));
	} else {
		*to++ = (char)(0xf0 | code >> 18);
		*to++ = (char)(0x80 | (code >> 12 & 0x3f));
		*to++ = (char)(0x80 | (code >> 6 & 0x3f));
	}
	*to++ = (char)(0x80 | (code & 0x3f));
	return to;
}

/* Take the escape behind a backslash.  Returns NULL where it is none, or a NUL
 * that may not be. */
static char *escape(struct gm_scan *s, char *to, bool has_nul)
{
	static const char from[] = "\"\\/bfnrt", into[] = "\"\\/\b\f\n\r\t";
	const char *which;
	int32_t code;

	if (s->at == s->end)
		return NULL;
	if (take(s, 'u')) {
		code = take_code(s);
		return code >= !has_nul ? put_code(to, code) : NULL;
	}
	which = *s->at != '\0' ? strchr(from, *s->at) : NULL;
	if (which == NULL)
		return NULL;
	s->at++;
	*to++ = into[which - from];
	return to;
}

/* Take a character of several bytes, in its shortest encoding only. */
static char *long_char(struct gm_scan *s, char *to)
{
	static const int32_t least[] = { 0, 0x80, 0x800, 0x10000 };
	unsigned char first = (unsigned char)*s->at;
	int more = first >= 0xf0 ? 3 : first >= 0xe0 ? 2 : 1;
	int32_t code = first & (0x3f >> more);

	if (first < 0xc2 || first > 0xf4 || s->end - s->at <= more)
		return NULL;
	for (int i = 1; i <= more; i++) {
		unsigned char c = (unsigned char)s->at[i];

		if ((c & 0xc0) != 0x80)
			return NULL;
		code = code << 6 | (c & 0x3f);
	}
	if (code < least[more] || code > 0x10ffff ||
	    (code >= 0xd800 && code <= 0xdfff))
		return NULL;
	memmove(to, s->at, (size_t)more + 1);
	s->at += more + 1;
	return to + more + 1;
}

static bool scan_string(struct gm_scan *s, bool has_nul, char **ret_text)
{
	char *text, *to;

	skip_space(s);
	if (!take(s, '"'))
		return false;
	text = to = s->at;
	while (to != NULL && s->at < s->end) {
		unsigned char c = (unsigned char)*s->at;

		if (c == '"') {
			s->at++;
			s->fresh = false;
			*to = '\0';
			*ret_text = text;
			return true;
		}
		if (c < 0x20)
			return false;
		if (take(s, '\\'))
			to = escape(s, to, has_nul);
		else if (c >= 0x80)
			to = long_char(s, to);
		else
			*to++ = *s->at++;
	}
	return false;
}

bool gm_json_scan_string(struct gm_scan *scan, char **ret_text)
{
	return scan_string(scan, scan->python, ret_text);
}

/* ---- numbers ------------------------------------------------------------- */

static bool skip_digits(struct gm_scan *s)
{
	if (!is_digit(s))
		return false;
	while (is_digit(s))
		s->at++;
	return true;
}

static bool skip_number(struct gm_scan *s)
{
	take(s, '-');
	if (!take(s, '0') && !skip_digits(s))
		return false;
	if (take(s, '.') && !skip_digits(s))
		return false;
	if (!take(s, 'e') && !take(s, 'E'))
		return true;
	if (!take(s, '+'))
		take(s, '-');
	return skip_digits(s);
}

bool gm_json_scan_number(struct gm_scan *scan, uint64_t *ret_number)
{
	const char *from;
	bool negative;
	uint64_t n = 0;

	skip_space(scan);
	from = scan->at;
	if (!skip_number(scan))
		return false;
	negative = *from == '-';
	for (from += negative; from < scan->at; from++) {
		uint64_t digit = (uint64_t)(*from - '0');

		if (digit > 9 || n > (UINT64_MAX - digit) / 10)
			return false;
		n = 10 * n + digit;
	}
	if (negative && n != 0)
		return false;
	scan->fresh = false;
	*ret_number = n;
	return true;
}

/* ---- containers ---------------------------------------------------------- */

bool gm_json_scan_is(struct gm_scan *scan, const char *bytes)
{
	skip_space(scan);
	return scan->at < scan->end && *scan->at != '\0' &&
	       strchr(bytes, *scan->at) != NULL;
}

bool gm_json_scan_enter(struct gm_scan *scan, char opening)
{
	skip_space(scan);
	if (!take(scan, opening))
		return false;
	scan->fresh = true;
	return true;
}

/* Is there another element in the container?  Returns as
 * gm_json_scan_item(). */
static int another(struct gm_scan *s, char closing)
{
	bool first = s->fresh;

	s->fresh = false;
	skip_space(s);
	if (take(s, closing))
		return 0;
	return first || take(s, ',') ? 1 : -EINVAL;
}

static int scan_key(struct gm_scan *s, bool has_nul, char **ret_key)
{
	int ret = another(s, '}');

	if (ret != 1)
		return ret;
	if (!scan_string(s, has_nul, ret_key))
		return -EINVAL;
	skip_space(s);
	return take(s, ':') ? 1 : -EINVAL;
}

int gm_json_scan_key(struct gm_scan *scan, char **ret_key)
{
	return scan_key(scan, scan->python, ret_key);
}

int gm_json_scan_item(struct gm_scan *scan)
{
	return another(scan, ']');
}

/* ---- skipping ----------------------------------------------------------- */

static bool skip_word(struct gm_scan *s, const char *word)
{
	size_t n = strlen(word);

	if ((size_t)(s->end - s->at) < n || memcmp(s->at, word, n) != 0)
		return false;
	s->at += n;
	return true;
}

static bool skip_scalar(struct gm_scan *s)
{
	char *text;

	if (s->at == s->end)
		return false;
	if (*s->at == '"')
		return scan_string(s, true, &text);
	s->fresh = false;
	if (s->python && (skip_word(s, "NaN") || skip_word(s, "Infinity") ||
			  skip_word(s, "-Infinity")))
		return true;
	return skip_word(s, "true") || skip_word(s, "false") ||
	       skip_word(s, "null") || skip_number(s);
}

bool gm_json_scan_skip(struct gm_scan *scan)
{
	char kinds[GM_SCAN_DEPTH], *key;
	uint32_t depth = 0;

	do {
		int ret = 0;

		skip_space(scan);
		if (gm_json_scan_enter(scan, '{') ||
		    gm_json_scan_enter(scan, '[')) {
			if (depth == GM_SCAN_DEPTH)
				return false;
			kinds[depth++] = scan->at[-1];
		} else if (!skip_scalar(scan)) {
			return false;
		}
		/* Go on to the next value; leave all containers that end before
		 * it. */
		while (depth > 0 && ret == 0) {
			ret = kinds[depth - 1] == '{'
				      ? scan_key(scan, true, &key)
				      : gm_json_scan_item(scan);
			if (ret < 0)
				return false;
			depth -= ret == 0;
		}
	} while (depth > 0);
	return true;
}

bool gm_json_scan_at_end(struct gm_scan *scan)
{
	skip_space(scan);
	return scan->at == scan->end;
}
