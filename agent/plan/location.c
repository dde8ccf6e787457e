/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/plan/location.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "agent/plan/number.h"

#define PATTERN "^(cpu|cuda\\[(\\d+)\\]|metal\\[(\\d+)\\])$"

/* In the order of enum gm_location_kind. */
static const char *const kinds[] = { "cpu", "cuda", "metal", "other" };

static int refuse(struct gm_plan_error *err)
{
	return gm_error_set(err, -EINVAL, NULL,
			    "Device specifier must match regex " PATTERN
			    ". Examples: `cpu`, `cuda[ORD]`, `metal[ORD]`");
}

int gm_location_parse(const char *text, struct gm_location *ret_location,
		      struct gm_plan_error *ret_err)
{
	struct gm_location location = { 0 };
	size_t kind = strcspn(text, "[");
	const char *digits = text + kind + 1;
	const char *wrong;
	size_t n;

	if (strcmp(text, kinds[GM_LOCATION_CPU]) == 0) {
		*ret_location = location;
		return 0;
	}
	if (kind == 4 && memcmp(text, kinds[GM_LOCATION_CUDA], kind) == 0)
		location.kind = GM_LOCATION_CUDA;
	else if (kind == 5 && memcmp(text, kinds[GM_LOCATION_METAL], kind) == 0)
		location.kind = GM_LOCATION_METAL;
	else
		return refuse(ret_err);
	if (text[kind] == '\0')
		return refuse(ret_err);
	n = strspn(digits, "0123456789");
	if (n == 0 || strcmp(digits + n, "]") != 0)
		return refuse(ret_err);
	wrong = gm_number_parse(digits, n, &location.ordinal);
	if (wrong)
		return gm_error_set(ret_err, -EINVAL, NULL, "%s", wrong);
	*ret_location = location;
	return 0;
}

const char *gm_location_print(const struct gm_location *location,
			      char text[GM_LOCATION_TEXT])
{
	if (location->kind == GM_LOCATION_CPU)
		return strcpy(text, kinds[GM_LOCATION_CPU]);
	snprintf(text, GM_LOCATION_TEXT, "%s[%" PRIu64 "]",
		 kinds[location->kind], location->ordinal);
	return text;
}
