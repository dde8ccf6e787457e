/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* say - sends records to gpumapd (agent/common/probe_wire.h). */
#ifndef GM_PROBE_SAY_H
#define GM_PROBE_SAY_H

#include "agent/common/probe_wire.h"

/* Send it.  A process whose reader is gone ends here. */
void gm_say_record(const struct gm_probe_wire *wire);

/* CALL: constant text. */
void gm_say_call(const char *what);

/* The text of a record, cut where it is longer than fits. */
void gm_say_text(struct gm_probe_wire *wire, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* Send the last record, and end without exit handlers: a library of a vendor's
 * may hang in its own. */
void __attribute__((noreturn)) gm_say_done(struct gm_probe_wire *wire);

#endif
