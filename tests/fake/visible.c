/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Which cards a process sees, and in which order.
 *
 * A lost card is none, nor is one whose device node cannot be opened.
 * CUDA_DEVICE_ORDER=PCI_BUS_ID orders by bus, anything else fastest first.
 * The form of the first entry of CUDA_VISIBLE_DEVICES decides: either all are
 * ordinals, read as far as they are digits, or all are UUIDs, of which a
 * beginning that only one card has will do.  The first entry that is no card
 * ends the list; one that stands there twice empties it.
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "tests/fake/driver.h"

static uint64_t speed(const struct fake_gpu *gpu)
{
	return (uint64_t)gpu->sms * gpu->threads_per_sm *
	       (10 * gpu->cc_major + gpu->cc_minor);
}

static uint64_t place(const struct fake_gpu *gpu)
{
	return (uint64_t)gpu->domain << 32 | gpu->bus << 8 | gpu->device;
}

static bool is_before(const struct fake_gpu *a, const struct fake_gpu *b,
		      bool is_by_place)
{
	if (is_by_place || speed(a) == speed(b))
		return place(a) < place(b);
	return speed(a) > speed(b);
}

/* In a container, a card is there whose device node is. */
static bool is_reachable(const struct fake_board *board, uint32_t gpu)
{
	char path[192];

	if (board->gpus[gpu].is_lost)
		return false;
	if (!board->dev[0])
		return true;
	snprintf(path, sizeof(path), "%s/nvidia%u", board->dev,
		 board->gpus[gpu].minor);
	return access(path, R_OK | W_OK) == 0;
}

static uint32_t in_order(const struct fake_board *board,
			 uint32_t gpus[FAKE_GPUS])
{
	const char *order = getenv("CUDA_DEVICE_ORDER");
	bool is_by_place = order && strcmp(order, "PCI_BUS_ID") == 0;
	uint32_t n = 0;

	for (uint32_t g = 0; g < board->n_gpus; g++) {
		uint32_t i = n;

		if (!is_reachable(board, g))
			continue;
		while (i > 0 &&
		       is_before(&board->gpus[g], &board->gpus[gpus[i - 1]],
				 is_by_place)) {
			gpus[i] = gpus[i - 1];
			i--;
		}
		gpus[i] = g;
		n++;
	}
	return n;
}

/* The index in @gpus of the one whose name begins so, -1. */
static int by_name(const struct fake_board *board, const uint32_t *gpus,
		   uint32_t n, const char *entry, size_t length)
{
	int found = -1;
	char name[FAKE_UUID_TEXT];

	for (uint32_t i = 0; i < n; i++) {
		fake_uuid_print(&board->gpus[gpus[i]], name);
		if (length > strlen(name) ||
		    strncasecmp(name, entry, length) != 0)
			continue;
		if (found >= 0)
			return -1;
		found = (int)i;
	}
	return found;
}

static int by_ordinal(uint32_t n, const char *entry)
{
	char *end;
	long ordinal = strtol(entry, &end, 10);

	return end == entry || ordinal < 0 || ordinal >= (long)n ? -1
								 : (int)ordinal;
}

uint32_t fake_visible(const struct fake_board *board,
		      uint32_t ret_gpus[FAKE_GPUS])
{
	const char *list = getenv("CUDA_VISIBLE_DEVICES");
	uint32_t gpus[FAKE_GPUS], n = in_order(board, gpus), n_seen = 0;
	uint64_t seen = 0;
	bool is_names;

	if (!list) {
		memcpy(ret_gpus, gpus, sizeof(gpus));
		return n;
	}
	list += strspn(list, " ");
	is_names = strncmp(list, "GPU-", 4) == 0;
	for (;;) {
		size_t length = strcspn(list, ",");
		int i = is_names ? by_name(board, gpus, n, list, length)
				 : by_ordinal(n, list);

		if (i < 0)
			return n_seen;
		if (seen & UINT64_C(1) << i)
			return 0;
		seen |= UINT64_C(1) << i;
		ret_gpus[n_seen++] = gpus[i];
		if (!list[length])
			return n_seen;
		list += length + 1;
	}
}
