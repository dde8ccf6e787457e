/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/sharing/share_key.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "agent/common/log.h"
#include "agent/common/text.h"
#include "agent/daemon/base/parts.h"

#define SHOWN_BYTES 41u /* of a key, of a value, with the NUL */
#define HEX_BYTES   (2 * GM_SHARE_HASH_BYTES + 1)

static const uint8_t none[GM_SHARE_HASH_BYTES];

static bool is_none(const struct gm_kept_key *key)
{
	return memcmp(key->hash, none, sizeof(none)) == 0;
}

int gm_share_key_take(struct gm_connection *c, const struct gm_share_key *key,
		      const char *fields, struct gm_kept_key *ret_key)
{
	struct gm_kept_key ours = { .bytes = key->fields_bytes };

	memcpy(ours.hash, key->hash, sizeof(ours.hash));
	if (key->reserved || key->fields_bytes > GM_SHARE_FIELDS_MAX)
		return gm_connection_bad(c, -EINVAL,
					 "the fields of a fingerprint have %u "
					 "bytes; give at most %u",
					 key->fields_bytes,
					 GM_SHARE_FIELDS_MAX);
	if (key->fields_bytes &&
	    (is_none(&ours) || memchr(fields, '\0', key->fields_bytes)))
		return gm_connection_bad(c, -EINVAL,
					 "fields are text, and of a "
					 "fingerprint that is not 0");
	if (key->fields_bytes) {
		ours.fields = malloc((size_t)key->fields_bytes + 1);
		if (!ours.fields)
			return -ENOMEM;
		memcpy(ours.fields, fields, key->fields_bytes);
		ours.fields[key->fields_bytes] = '\0';
	}
	*ret_key = ours;
	return 0;
}

void gm_share_key_drop(struct gm_kept_key *key)
{
	free(key->fields);
	key->fields = NULL;
}

/* ---- what differs -------------------------------------------------------- */

/* One line, as it may be shown: the bytes are a client's. */
struct field {
	char key[SHOWN_BYTES];
	char value[SHOWN_BYTES];
};

static void show(const char *text, size_t bytes, char ret_shown[SHOWN_BYTES])
{
	size_t n = bytes < SHOWN_BYTES - 1 ? bytes : SHOWN_BYTES - 1;

	memcpy(ret_shown, text, n);
	ret_shown[n] = '\0';
	gm_text_make_plain(ret_shown, n);
}

static struct field field_at(const char *line)
{
	size_t bytes = strcspn(line, "\n"), key = strcspn(line, "=\n");
	struct field field;

	show(line, key, field.key);
	show(line + key + (key < bytes), bytes - key - (key < bytes),
	     field.value);
	return field;
}

static size_t line_bytes(const char *line)
{
	size_t bytes = strcspn(line, "\n");

	return bytes + (line[bytes] == '\n');
}

/* Find the first line that the two texts do not share.  Returns whether there
 * is one. */
static bool find_difference(const char **has, const char **asked)
{
	while (**has != '\0' || **asked != '\0') {
		size_t bytes = line_bytes(*has);

		if (bytes != line_bytes(*asked) ||
		    memcmp(*has, *asked, bytes) != 0)
			return true;
		*has += bytes;
		*asked += bytes;
	}
	return false;
}

/* In words, where both have told their fields. */
static int refuse_field(struct gm_connection *c, const char *name,
			const char *has, const char *asked)
{
	struct field ours = field_at(has), theirs = field_at(asked);

	if (*has != '\0' && *asked != '\0' && strcmp(ours.key, theirs.key) == 0)
		return gm_connection_bad(c, -EKEYREJECTED,
					 "%s has another fingerprint: %s is "
					 "%s, and %s was asked for",
					 name, ours.key,
					 gm_quote(ours.value).text,
					 gm_quote(theirs.value).text);
	return gm_connection_bad(c, -EKEYREJECTED,
				 "%s has another fingerprint: it has %s%s, and "
				 "%s%s was asked for",
				 name, *has ? "the field " : "no more fields",
				 ours.key, *asked ? "the field " : "none more",
				 theirs.key);
}

static void put_hex(const uint8_t hash[GM_SHARE_HASH_BYTES],
		    char ret_hex[HEX_BYTES])
{
	for (size_t i = 0; i < GM_SHARE_HASH_BYTES; i++)
		snprintf(ret_hex + 2 * i, 3, "%02x", hash[i]);
}

bool gm_share_key_is(const struct gm_kept_key *key, const char *hex)
{
	char ours[HEX_BYTES];

	put_hex(key->hash, ours);
	return strcasecmp(ours, hex) == 0;
}

int gm_share_key_match(struct gm_connection *c, const char *name,
		       const struct gm_kept_key *has,
		       const struct gm_kept_key *asked)
{
	const char *ours = has->fields, *theirs = asked->fields;
	char had[HEX_BYTES], wanted[HEX_BYTES];

	if (is_none(asked) ||
	    memcmp(has->hash, asked->hash, sizeof(has->hash)) == 0)
		return 0;
	if (is_none(has))
		return gm_connection_bad(c, -EKEYREJECTED,
					 "%s has no fingerprint, and one was "
					 "asked for",
					 name);
	if (ours && theirs && find_difference(&ours, &theirs))
		return refuse_field(c, name, ours, theirs);
	put_hex(has->hash, had);
	put_hex(asked->hash, wanted);
	return gm_connection_bad(c, -EKEYREJECTED,
				 "%s has the fingerprint %s, and %s was asked "
				 "for",
				 name, had, wanted);
}
