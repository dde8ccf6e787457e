/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/common/ini_value.h"

#include <ctype.h>
#include <errno.h>
#include <grp.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

#define NS_PER_MS UINT64_C(1000000)
#define NS_PER_S  UINT64_C(1000000000)
#define KIB       (UINT64_C(1) << 10)
#define TIB       (UINT64_C(1) << 40)

/* Digits, then one of the @units or nothing, for a value of at most 2^64 - 1;
 * scales are those of the units, the first of them that of no unit. */
static int parse_scaled(const char *text, const char *const *units,
			const uint64_t *scales, size_t n, uint64_t *ret_value)
{
	uint64_t value;
	char *end;

	if (!isdigit((unsigned char)text[0]))
		return -EINVAL;
	errno = 0;
	value = strtoull(text, &end, 10);
	if (errno != 0)
		return -EINVAL;
	for (size_t i = 0; i < n; i++) {
		if (strcmp(end, units[i]) != 0)
			continue;
		return __builtin_mul_overflow(value, scales[i], ret_value)
			       ? -EINVAL
			       : 0;
	}
	return -EINVAL;
}

int gm_ini_value_number(const char *text, uint64_t least, uint64_t most,
			uint64_t *ret_value)
{
	static const char *const none[] = { "" };
	static const uint64_t one[] = { 1 };
	uint64_t value;

	if (parse_scaled(text, none, one, 1, &value) != 0 || value < least ||
	    value > most)
		return -EINVAL;
	*ret_value = value;
	return 0;
}

/* The largest unit that says it without a fraction. */
static void print_size(uint64_t bytes, char *ret_text, size_t n)
{
	static const char units[] = "KMGT";
	char unit[2] = "";

	for (int i = 0; units[i] != '\0' && bytes != 0 && bytes % KIB == 0;
	     i++) {
		bytes /= KIB;
		unit[0] = units[i];
	}
	snprintf(ret_text, n, "%" PRIu64 "%s", bytes, unit);
}

static int set_size(uint64_t *to, const struct gm_ini_key *key,
		    const char *value, char *ret_right)
{
	static const char *const units[] = { "", "K", "M", "G", "T" };
	static const uint64_t scales[] = { 1, KIB, KIB << 10, KIB << 20, TIB };
	char least[32], most[32];
	uint64_t bytes;

	if (parse_scaled(value, units, scales, 5, &bytes) == 0 &&
	    bytes >= key->least && bytes <= key->most) {
		*to = bytes;
		return 0;
	}
	print_size(key->least, least, sizeof(least));
	print_size(key->most, most, sizeof(most));
	snprintf(ret_right, GM_INI_RIGHT_BYTES,
		 "a size from %s to %s, as 4096, 64K, 16M or 1G", least, most);
	return -EINVAL;
}

static int set_time(uint64_t *to, const struct gm_ini_key *key,
		    const char *value, char *ret_right)
{
	static const char *const units[] = { "ms", "s" };
	static const uint64_t scales[] = { NS_PER_MS, NS_PER_S };
	uint64_t ns;

	/* Nothing is nothing in any unit. */
	if (strcmp(value, "0") == 0)
		value = "0ms";
	if (parse_scaled(value, units, scales, 2, &ns) == 0 &&
	    ns >= key->least && ns <= key->most) {
		*to = ns;
		return 0;
	}
	snprintf(ret_right, GM_INI_RIGHT_BYTES,
		 "a time from %" PRIu64 "ms to %" PRIu64 "s, as 500ms or 2s",
		 key->least / NS_PER_MS, key->most / NS_PER_S);
	return -EINVAL;
}

int gm_ini_value_count(uint32_t *to, const struct gm_ini_key *key,
		       const char *value, char ret_right[GM_INI_RIGHT_BYTES])
{
	uint64_t n;

	if (gm_ini_value_number(value, key->least, key->most, &n) == 0) {
		*to = (uint32_t)n;
		return 0;
	}
	snprintf(ret_right, GM_INI_RIGHT_BYTES,
		 "a number from %" PRIu64 " to %" PRIu64, key->least,
		 key->most);
	return -EINVAL;
}

static int set_switch(bool *to, const char *value, char *ret_right)
{
	if (strcmp(value, "yes") != 0 && strcmp(value, "no") != 0) {
		snprintf(ret_right, GM_INI_RIGHT_BYTES, "yes or no");
		return -EINVAL;
	}
	*to = strcmp(value, "yes") == 0;
	return 0;
}

static int set_mode(mode_t *to, const char *value, char *ret_right)
{
	size_t n = strlen(value);

	if (n < 3 || n > 4 || strspn(value, "01234567") != n ||
	    strtoul(value, NULL, 8) > 0777) {
		snprintf(ret_right, GM_INI_RIGHT_BYTES,
			 "an octal mode, as 0660");
		return -EINVAL;
	}
	*to = (mode_t)strtoul(value, NULL, 8);
	return 0;
}

static int set_group(gid_t *to, const char *value, char *ret_right)
{
	const struct group *group = getgrnam(value);
	uint64_t id;

	if (group != NULL) {
		*to = group->gr_gid;
	} else if (gm_ini_value_number(value, 0, UINT32_MAX - 1, &id) == 0) {
		*to = (gid_t)id;
	} else {
		snprintf(ret_right, GM_INI_RIGHT_BYTES,
			 "a group of this machine, or its number");
		return -EINVAL;
	}
	return 0;
}

int gm_ini_value_text(char **to, const char *value, bool is_right,
		      const char *right, char ret_right[GM_INI_RIGHT_BYTES])
{
	char *text = is_right ? strdup(value) : NULL;

	if (text == NULL) {
		snprintf(ret_right, GM_INI_RIGHT_BYTES, "%s",
			 is_right ? "out of memory" : right);
		return -EINVAL;
	}
	free(*to);
	*to = text;
	return 0;
}

int gm_ini_value_path(char **to, const char *value,
		      char ret_right[GM_INI_RIGHT_BYTES])
{
	return gm_ini_value_text(to, value, value[0] == '/', "an absolute path",
				 ret_right);
}

static int set_word(uint32_t *to, const struct gm_ini_key *key,
		    const char *value, char *ret_right)
{
	size_t n = 0;

	for (uint32_t i = 0; key->words[i] != NULL; i++) {
		const char *before = i == 0                      ? ""
				     : key->words[i + 1] == NULL ? " or "
								 : ", ";

		if (strcmp(value, key->words[i]) == 0) {
			*to = i;
			return 0;
		}
		n += (size_t)snprintf(ret_right + n, GM_INI_RIGHT_BYTES - n,
				      "%s%s", before, key->words[i]);
	}
	return -EINVAL;
}

int gm_ini_value_set(void *config, const struct gm_ini_key *key,
		     const char *value, char ret_right[GM_INI_RIGHT_BYTES])
{
	void *to = (char *)config + key->at;

	switch (key->form) {
	case GM_INI_COUNT:
		return gm_ini_value_count(to, key, value, ret_right);
	case GM_INI_SIZE:
		return set_size(to, key, value, ret_right);
	case GM_INI_TIME:
		return set_time(to, key, value, ret_right);
	case GM_INI_SWITCH:
		return set_switch(to, value, ret_right);
	case GM_INI_MODE:
		return set_mode(to, value, ret_right);
	case GM_INI_GROUP:
		return set_group(to, value, ret_right);
	case GM_INI_PATH:
		return gm_ini_value_path(to, value, ret_right);
	case GM_INI_WORD:
		return set_word(to, key, value, ret_right);
	case GM_INI_OWN:
		return key->set(config, key, value, ret_right);
	}
	return -EINVAL;
}
