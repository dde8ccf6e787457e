/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/doctor/finding.h"

#include <stdarg.h>
#include <stdio.h>

static void __attribute__((format(printf, 4, 0)))
store(struct gm_finding *finding, enum gm_verdict verdict, const char *remedy,
      const char *format, va_list list)
{
	finding->verdict = verdict;
	vsnprintf(finding->text, sizeof(finding->text), format, list);
	snprintf(finding->remedy, sizeof(finding->remedy), "%s", remedy);
}

void gm_finding_pass(struct gm_finding *finding, const char *format, ...)
{
	va_list list;

	va_start(list, format);
	store(finding, GM_VERDICT_PASS, "", format, list);
	va_end(list);
}

void gm_finding_skip(struct gm_finding *finding, const char *format, ...)
{
	va_list list;

	va_start(list, format);
	store(finding, GM_VERDICT_SKIP, "", format, list);
	va_end(list);
}

void gm_finding_warn(struct gm_finding *finding, const char *remedy,
		     const char *format, ...)
{
	va_list list;

	va_start(list, format);
	store(finding, GM_VERDICT_WARN, remedy, format, list);
	va_end(list);
}

void gm_finding_fail(struct gm_finding *finding, const char *remedy,
		     const char *format, ...)
{
	va_list list;

	va_start(list, format);
	store(finding, GM_VERDICT_FAIL, remedy, format, list);
	va_end(list);
}
