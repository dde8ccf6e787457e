/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/device/spirv.h"

#include <string.h>

#define NAME_AT 3u /* words of an entry point before its name */

bool gm_spirv_is(const void *bytes, size_t n)
{
	uint32_t magic = GM_SPIRV_MAGIC;

	return n >= sizeof(magic) && memcmp(bytes, &magic, sizeof(magic)) == 0;
}

/* Words that are looked at of every such instruction. */
static uint32_t least_of(uint32_t op)
{
	switch (op) {
	case GM_SPIRV_FUNCTION:
		return 5;
	case GM_SPIRV_ENTRY_POINT:
	case GM_SPIRV_TYPE_INT:
	case GM_SPIRV_TYPE_POINTER:
		return 4;
	case GM_SPIRV_EXECUTION_MODE:
	case GM_SPIRV_FUNCTION_PARAMETER:
	case GM_SPIRV_DECORATE:
		return 3;
	case GM_SPIRV_CAPABILITY:
	case GM_SPIRV_TYPE_STRUCT:
		return 2;
	default:
		return 1;
	}
}

const char *gm_spirv_check(const void *bytes, size_t n)
{
	size_t at = GM_SPIRV_HEAD * sizeof(uint32_t);
	uint32_t word = 0;

	if (!gm_spirv_is(bytes, n))
		return "it is no SPIR-V";
	if (n < at || n % sizeof(word))
		return "the module is cut off";
	for (; at < n; at += (size_t)(word >> 16) * sizeof(word)) {
		memcpy(&word, (const char *)bytes + at, sizeof(word));
		if (word >> 16 < least_of(word & 0xffff) ||
		    word >> 16 > (n - at) / sizeof(word))
			return "the module is cut off";
	}
	return (word & 0xffff) == GM_SPIRV_FUNCTION_END
		       ? NULL
		       : "the module is cut off";
}

bool gm_spirv_is_entry(const uint32_t *at, uint32_t model, const char *name)
{
	const char *text = (const char *)(at + NAME_AT);
	size_t room = ((*at >> 16) - NAME_AT) * sizeof(*at);

	return at[1] == model && strnlen(text, room) < room &&
	       strcmp(text, name) == 0;
}
