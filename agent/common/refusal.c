/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/common/refusal.h"

#include <stdarg.h>
#include <stdio.h>

int gm_why(char ret_why[GM_WHY_BYTES], int error, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(ret_why, GM_WHY_BYTES, format, args);
	va_end(args);
	return error;
}
