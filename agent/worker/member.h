/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * member - what group.c and relay.c share, and nobody else looks into.
 */
#ifndef GM_MEMBER_H
#define GM_MEMBER_H

#include "agent/worker/worker.h"

/* A group of a session's, of which this row is a rank. */
struct gm_member {
	LIST_ENTRY(gm_member) entry;
	struct gm_session *session;
	uint64_t number;
	uint64_t bytes;  /* of the page, with its windows */
	uint64_t copied; /* between windows and this rank's memory so far */
	struct gm_comm comm;

	/* Of a group that has windows: */
	char *windows;              /* NULL: it has none */
	struct gm_region *region;   /* the device reaches ours; or NULL */
	struct gm_errand_job *last; /* that gives it all back */
	bool is_ready;
	bool is_leaving; /* as soon as its part has ended */
	bool is_awaited; /* gpumapd waits for that */
};

static inline char *gm_member_windows(const struct gm_member *m, uint32_t rank)
{
	return m->windows + rank * gm_comm_windows_bytes();
}

#endif
