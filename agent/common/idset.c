/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/common/idset.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

/* Only digits: strtoul would take signs, blanks and what wraps. */
static int parse_id(const char **text, int *ret_id)
{
	const char *p = *text;
	int id = 0;

	if (!isdigit((unsigned char)*p))
		return -EINVAL;
	for (; isdigit((unsigned char)*p); p++) {
		id = id * 10 + (*p - '0');
		if (id >= GM_IDSET_MAX)
			return -ERANGE;
	}
	*text = p;
	*ret_id = id;
	return 0;
}

static int parse_range(const char **text, struct gm_idset *set)
{
	int first, last;
	int rc = parse_id(text, &first);

	if (rc < 0)
		return rc;
	last = first;
	if (**text == '-') {
		++*text;
		rc = parse_id(text, &last);
		if (rc < 0)
			return rc;
	}
	if (last < first)
		return -EINVAL;
	for (int id = first; id <= last; id++)
		gm_idset_add(set, id);
	return 0;
}

static const char *skip_blanks(const char *p)
{
	while (isspace((unsigned char)*p))
		p++;
	return p;
}

int gm_idset_parse(const char *text, struct gm_idset *ret_set)
{
	struct gm_idset set = { 0 };
	const char *p = skip_blanks(text);
	int rc;

	while (*p != '\0') {
		rc = parse_range(&p, &set);
		if (rc < 0)
			return rc;
		if (*p == ',') {
			if (!isdigit((unsigned char)*++p))
				return -EINVAL;
			continue;
		}
		p = skip_blanks(p);
		if (*p != '\0')
			return -EINVAL;
	}
	*ret_set = set;
	return gm_idset_count(&set);
}

int gm_idset_format(const struct gm_idset *set, char *ret_text, size_t bytes)
{
	/* Two passes, so that a text which does not fit leaves no half. */
	for (int pass = 0; pass < 2; pass++) {
		size_t used = 0;
		int id = -1;

		while ((id = gm_idset_next(set, id)) >= 0) {
			const char *comma = used ? "," : "";
			char item[32];
			int last = id, len;

			while (gm_idset_has(set, last + 1))
				last++;
			if (last == id)
				len = snprintf(item, sizeof(item), "%s%d",
					       comma, id);
			else
				len = snprintf(item, sizeof(item), "%s%d-%d",
					       comma, id, last);
			if (pass == 1)
				memcpy(ret_text + used, item, (size_t)len);
			used += (size_t)len;
			id = last;
		}
		if (used >= bytes)
			return -ENOBUFS;
		if (pass == 1) {
			ret_text[used] = '\0';
			return (int)used;
		}
	}
	return -ENOBUFS;
}

bool gm_idset_has(const struct gm_idset *set, int id)
{
	if (id < 0 || id >= GM_IDSET_MAX)
		return false;
	return set->word[(size_t)id / GM_IDSET_WORD_BITS] >>
		       ((size_t)id % GM_IDSET_WORD_BITS) &
	       1;
}

void gm_idset_add(struct gm_idset *set, int id)
{
	if (id < 0 || id >= GM_IDSET_MAX)
		return;
	set->word[(size_t)id / GM_IDSET_WORD_BITS] |=
		1ul << ((size_t)id % GM_IDSET_WORD_BITS);
}

int gm_idset_count(const struct gm_idset *set)
{
	int n = 0;

	for (size_t i = 0; i < GM_IDSET_MAX / GM_IDSET_WORD_BITS; i++)
		n += __builtin_popcountl(set->word[i]);
	return n;
}

int gm_idset_next(const struct gm_idset *set, int after)
{
	int id = after < 0 ? 0 : after + 1;

	while (id < GM_IDSET_MAX) {
		size_t shift = (size_t)id % GM_IDSET_WORD_BITS;
		unsigned long rest =
			set->word[(size_t)id / GM_IDSET_WORD_BITS] >> shift;

		if (rest)
			return id + __builtin_ctzl(rest);
		id += (int)(GM_IDSET_WORD_BITS - shift);
	}
	return -1;
}

int gm_idset_and(struct gm_idset *set, const struct gm_idset *other)
{
	for (size_t i = 0; i < GM_IDSET_MAX / GM_IDSET_WORD_BITS; i++)
		set->word[i] &= other->word[i];
	return gm_idset_count(set);
}
