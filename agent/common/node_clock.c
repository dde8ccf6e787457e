/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/common/node_clock.h"

#include <string.h>
#include <unistd.h>

#include "agent/common/read_file.h"
#include "shm/timens.h"

uint64_t gm_node_clock_offset;

void gm_node_clock_begin(void)
{
	char text[GM_TIMENS_BYTES] = "";
	ssize_t n = readlink(GM_TIMENS_LINK, text, sizeof(text) - 1);

	if (n < 0 || strcmp(text, GM_TIMENS_INITIAL) == 0 ||
	    gm_read_file(GM_TIMENS_OFFSETS, text, sizeof(text)) < 0)
		return;
	gm_node_clock_offset = gm_timens_offset(text);
}
