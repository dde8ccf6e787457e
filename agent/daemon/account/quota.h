/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * quota - how much of a row's memory one uid may have in buffers.
 *
 * A reservation is the uid's own, whatever is free.  Without one it is half of
 * the row at most, and never what others have been promised.  What others can
 * still import of it, or have imported, is charged to the uid until the last
 * one that we know of is gone.
 *
 * What is free is looked at once a second, by others, who may be heard late:
 * what sessions have given back is counted here until a look that began after
 * it.
 */
#ifndef GM_DAEMON_ACCOUNT_QUOTA_H
#define GM_DAEMON_ACCOUNT_QUOTA_H

#include <stdint.h>

struct gm_daemon;
struct gm_device;

/*
 * gm_quota_of - as an ATTACH says it, for all sessions of the uid together
 *
 * has		bytes that they have now, which are not free for that reason
 *
 * Returns	bytes; UINT64_MAX where the row's size is not known
 */
uint64_t gm_quota_of(const struct gm_daemon *d, uint32_t row, uint32_t uid,
		     uint64_t has);

/* Sessions have given back so much of a row. */
void gm_quota_freed(struct gm_daemon *d, uint32_t row, uint64_t bytes);

/* What a uid may have exported of a row in all. */
uint64_t gm_quota_exports(const struct gm_daemon *d, uint32_t row,
			  uint32_t uid);

#endif
