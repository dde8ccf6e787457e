/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/sync/node_name.h"

#include <string.h>

#include "gpumap/types.h"

#define LETTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"

static bool is_word(const char *text, const char *allowed)
{
	size_t n = strspn(text, allowed);

	return n > 0 && n <= GPUMAP_NAME_MAX && text[n] == '\0' &&
	       text[0] != '-';
}

bool gm_node_name_check(const char *name)
{
	return is_word(name, LETTERS "._-") && name[0] != '.';
}

bool gm_node_name_check_address(const char *address)
{
	return is_word(address, LETTERS "._-:%");
}
