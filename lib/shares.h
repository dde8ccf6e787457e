/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* shares - export a session's buffers to other sessions, and import theirs. */
#ifndef GM_LIB_SHARES_H
#define GM_LIB_SHARES_H

#include "lib/internal.h"

/* The flags that a share may have. */
#define GM_SHARE_FLAGS \
	(GPUMAP_SHARE_READ_ONLY | GPUMAP_SHARE_ANY_USER | GPUMAP_SHARE_KEEP)

/* Free the shares of a session that ends.  The agent ends its part with the
 * session. */
void gm_shares_fini(struct gpumap_session *session);

/* Ask for the claim of a name once, with GM_SHARE_CLAIM_* flags.  Returns as
 * gpumap_share_claim(), with -EBUSY for -ETIME. */
int gm_share_claim(struct gpumap_session *session, const char *name,
		   uint32_t flags,
		   const struct gpumap_fingerprint *fingerprint);

/* Copy a fingerprint, whose fields the copy then owns.  Returns 0, -ENOMEM, or
 * -EINVAL and -E2BIG with the refusal stored. */
int gm_share_fingerprint_copy(const struct gpumap_session *session,
			      const struct gpumap_fingerprint *fingerprint,
			      struct gpumap_fingerprint *ret_copy);

#endif
