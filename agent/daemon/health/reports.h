/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* reports - what processes of gpumap-probe say, as state of the watchers. */
#ifndef GM_DAEMON_HEALTH_REPORTS_H
#define GM_DAEMON_HEALTH_REPORTS_H

#include "agent/daemon/health/watchers.h"

/*
 * gm_reports_check - may a process of this role say this?
 *
 * The process runs a library that is not ours, so its records are believed no
 * further than a stranger's: texts are made to end, and numbers that choose
 * something are in range.
 */
bool gm_reports_check(struct gm_probe_wire *wire, enum gm_probe_role role);

/* A record that was checked, of a process but that of a list. */
void gm_reports_hear(struct gm_prober *prober,
		     const struct gm_probe_wire *wire);

/* The process has ended: how, and its exit status. */
void gm_reports_ended(struct gm_prober *prober, const char *how, int status);

/* The card of that uuid; with @make one is made where there is none.  NULL:
 * none, or the table is full. */
struct gm_watched *gm_reports_card(struct gm_watchers *w,
				   const uint8_t uuid[16], bool make);

/* The process of that role; role and index 0: room for one.  NULL: none. */
struct gm_prober *gm_reports_prober(struct gm_watchers *w,
				    enum gm_probe_role role, uint32_t index);

/* The time of another try: the refresh from now, doubled with each failure up
 * to 64 times. */
uint64_t gm_reports_later(const struct gm_watchers *w, uint32_t failures);

/* End a process that has done nothing wrong. */
void gm_reports_end(struct gm_prober *prober);

/* The census cannot be started, or does not end by SIGKILL. */
void gm_reports_broken(struct gm_watchers *w, const char *why);

/* Set when the next census is started, after one that was broken. */
void gm_reports_rest(struct gm_watchers *w);

/* Store a verdict over all cards of a slot, or over a slot that has none. */
void gm_reports_set_slot(struct gm_watchers *w, uint32_t slot,
			 enum gm_verdict_source source,
			 const struct gm_verdict *verdict);

#endif
