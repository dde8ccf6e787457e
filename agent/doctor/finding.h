/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* finding - what a check of gpumapctl doctor has found. */
#ifndef GM_FINDING_H
#define GM_FINDING_H

enum gm_verdict {
	GM_VERDICT_PASS,
	GM_VERDICT_WARN, /* it works, and could be better or soon be worse */
	GM_VERDICT_FAIL,
	GM_VERDICT_SKIP /* it does not apply, or cannot be seen from here */
};

struct gm_finding {
	enum gm_verdict verdict;
	char text[320];
	char remedy[320]; /* of WARN and FAIL */
};

/* Store what was found. */
void gm_finding_pass(struct gm_finding *finding, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
void gm_finding_skip(struct gm_finding *finding, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
void gm_finding_warn(struct gm_finding *finding, const char *remedy,
		     const char *format, ...)
	__attribute__((format(printf, 3, 4)));
void gm_finding_fail(struct gm_finding *finding, const char *remedy,
		     const char *format, ...)
	__attribute__((format(printf, 3, 4)));

#endif
