/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* shares - export a session's buffers to other sessions, and import theirs. */
#ifndef GM_LIB_SHARES_H
#define GM_LIB_SHARES_H

#include "lib/internal.h"

/* Free the shares of a session that ends.  The agent ends its part with the
 * session. */
void gm_shares_fini(struct gpumap_session *session);

#endif
