/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/base/oom.h"

#include <stdio.h>
#include <stdlib.h>

#include "agent/common/read_file.h"

#define OWN   "/proc/self/oom_score_adj"
#define LAST  (-900)
#define FIRST 400 /* above gpumapd's */

static void put(const char *path, int score)
{
	FILE *file = fopen(path, "we");

	if (!file)
		return;
	fprintf(file, "%d\n", score);
	fclose(file); /* where the kernel refuses it, or not */
}

static int own(void)
{
	char text[32];

	return gm_read_file(OWN, text, sizeof(text)) > 0 ? atoi(text) : 1;
}

void gm_oom_protect(void)
{
	if (own() == 0)
		put(OWN, LAST);
}

void gm_oom_offer(pid_t child)
{
	int score = own();
	char path[64];

	if (score >= 0)
		return;
	snprintf(path, sizeof(path), "/proc/%d/oom_score_adj", (int)child);
	put(path, score + FIRST);
}
