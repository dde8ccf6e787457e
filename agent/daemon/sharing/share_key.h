/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * share_key - what a share is of: a fingerprint, and the fields behind it.
 *
 * A client that opens a share, or waits for one, may say which fingerprint it
 * expects.  The fields are text that clients choose, a line each, KEY=VALUE.
 * Only the fingerprints decide; the first line that differs goes into the
 * refusal.
 */
#ifndef GM_DAEMON_SHARING_SHARE_KEY_H
#define GM_DAEMON_SHARING_SHARE_KEY_H

#include "agent/daemon/base/connection.h"

struct gm_kept_key {
	uint8_t hash[GM_SHARE_HASH_BYTES]; /* all 0: none */
	char *fields;                      /* NULL: not told */
	uint32_t bytes;                    /* of them, without the NUL */
};

/* Copy the key of a request, whose fields are at @fields, and of this length.
 * Returns 0 with a key to drop, -EINVAL with the reason, or -ENOMEM. */
int gm_share_key_take(struct gm_connection *c, const struct gm_share_key *key,
		      const char *fields, struct gm_kept_key *ret_key);
void gm_share_key_drop(struct gm_kept_key *key);

/* Is it the fingerprint of these hexadecimal digits? */
bool gm_share_key_is(const struct gm_kept_key *key, const char *hex);

/* Is this the fingerprint that was asked for, if one was?  Returns 0, or
 * -EKEYREJECTED with the reason. */
int gm_share_key_match(struct gm_connection *c, const char *name,
		       const struct gm_kept_key *has,
		       const struct gm_kept_key *asked);

#endif
