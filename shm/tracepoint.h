/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * tracepoint - static probes of the provider "gpumap", for bpftrace, perf and
 * SystemTap.
 *
 * A probe is one instruction that does nothing until a tracer replaces it.
 * gpumapd(8) lists the probes with their arguments.
 */
#ifndef GM_TRACEPOINT_H
#define GM_TRACEPOINT_H

#ifdef HAVE_SYS_SDT_H

#include <sys/sdt.h>

/* GM_TRACEPOINT(name, up to five arguments) */
#define GM_TRACEPOINT(...)                                                     \
	GM_TRACEPOINT_PICK(__VA_ARGS__, STAP_PROBE5, STAP_PROBE4, STAP_PROBE3, \
			   STAP_PROBE2, STAP_PROBE1, STAP_PROBE, ~)            \
	(gpumap, __VA_ARGS__)
#define GM_TRACEPOINT_PICK(n, a, b, c, d, e, probe, ...) probe

#else

#define GM_TRACEPOINT(...) ((void)0)

#endif

#endif
