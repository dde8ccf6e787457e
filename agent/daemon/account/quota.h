/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * quota - how much of a row's memory one uid may have in buffers.
 *
 * A uid always has its own reservation, however much is free.  Without one the
 * quota is half of the row at most, and never includes bytes that other uids
 * have reserved and do not use yet.  Memory of an export is charged to the uid
 * that exported it until the last importer that the agent knows of is gone.
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

/* Memory of a row that was no session's has been given back. */
void gm_quota_freed(struct gm_daemon *d, uint32_t row, uint64_t bytes);

/* The bytes of a row that a uid may have exported in all. */
uint64_t gm_quota_exports(const struct gm_daemon *d, uint32_t row,
			  uint32_t uid);

#endif
