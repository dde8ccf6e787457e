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
 *
 * A split card is none itself: its ordinal, before CUDA 12.8, and its UUID are
 * its first instance's.  Such drivers show one instance and nothing beside it,
 * and refuse a list of both GPU- and MIG-; later ones count every instance.
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "tests/fake/driver.h"

/* The driver that shows more than one instance. */
#define MANY_PARTS 12080

enum form { ORDINALS, CARDS, PARTS };

struct view {
	const struct fake_board *board;
	bool is_many;
	uint32_t n, gpus[FAKE_GPUS]; /* what may be seen, in order */
};

static const struct fake_gpu *card_of(const struct view *v, uint32_t i)
{
	const struct fake_gpu *gpus = v->board->gpus;

	return &gpus[gpus[v->gpus[i]].parent];
}

static uint64_t speed(const struct fake_gpu *gpu)
{
	return (uint64_t)gpu->sms * gpu->threads_per_sm *
	       (10 * gpu->cc_major + gpu->cc_minor);
}

static uint64_t place(const struct fake_gpu *gpu)
{
	return (uint64_t)gpu->domain << 32 | gpu->bus << 8 | gpu->device;
}

/* An instance comes where its card would. */
static bool is_before(const struct fake_gpu *gpus, uint32_t i, uint32_t j,
		      bool is_by_place)
{
	const struct fake_gpu *a = &gpus[gpus[i].parent];
	const struct fake_gpu *b = &gpus[gpus[j].parent];

	if (!is_by_place && speed(a) != speed(b))
		return speed(a) > speed(b);
	if (place(a) != place(b))
		return place(a) < place(b);
	return gpus[i].gi < gpus[j].gi;
}

/* In a container, a card is there whose device nodes are. */
static bool is_reachable(const struct fake_board *board, uint32_t gpu)
{
	const struct fake_gpu *g = &board->gpus[gpu];
	char path[FAKE_NODE_BYTES];

	if (g->is_lost || g->is_split)
		return false;
	for (int k = 0; k < FAKE_NODES && board->dev[0]; k++)
		if (fake_node(board->dev, g, k, path) &&
		    access(path, R_OK | W_OK))
			return false;
	return true;
}

static void look(const struct fake_board *board, int version, struct view *v)
{
	const char *order = getenv("CUDA_DEVICE_ORDER");
	bool is_by_place = order && strcmp(order, "PCI_BUS_ID") == 0;

	*v = (struct view){ .board = board, .is_many = version >= MANY_PARTS };
	for (uint32_t g = 0; g < board->n_gpus; g++) {
		uint32_t i = v->n;

		if (!is_reachable(board, g))
			continue;
		while (i > 0 &&
		       is_before(board->gpus, g, v->gpus[i - 1], is_by_place)) {
			v->gpus[i] = v->gpus[i - 1];
			i--;
		}
		v->gpus[i] = g;
		v->n++;
	}
}

/* Whether a name begins with these bytes. */
static bool begins(const struct fake_gpu *gpu, const char *entry, size_t length)
{
	char name[FAKE_UUID_TEXT];

	fake_uuid_print(gpu, name);
	return length <= strlen(name) && strncasecmp(name, entry, length) == 0;
}

/* The index of the card whose name begins so, or of its first instance; -1. */
static int by_card(const struct view *v, const char *entry, size_t length)
{
	int found = -1;

	for (uint32_t i = 0; i < v->n; i++) {
		if (!begins(card_of(v, i), entry, length))
			continue;
		if (found >= 0 && card_of(v, (uint32_t)found) != card_of(v, i))
			return -1;
		if (found < 0)
			found = (int)i;
	}
	return found;
}

/* "MIG-UUID", or "MIG-GPU-UUID/1/0" by the card and the instance on it. */
static int by_part(const struct view *v, const char *entry, size_t length)
{
	bool is_by_card = length > 8 && strncmp(entry + 4, "GPU-", 4) == 0;
	const char *slash = memchr(entry, '/', length);
	unsigned int gi = 0, ci = 0;
	int found = -1;

	if (is_by_card && (!slash || sscanf(slash, "/%u/%u", &gi, &ci) != 2))
		return -1;
	for (uint32_t i = 0; i < v->n; i++) {
		const struct fake_gpu *g = &v->board->gpus[v->gpus[i]];

		if (!fake_is_part(g))
			continue;
		if (is_by_card ? g->gi != gi || g->ci != ci ||
					 !begins(card_of(v, i), entry + 4,
						 (size_t)(slash - entry) - 4)
			       : !begins(g, entry, length))
			continue;
		if (found >= 0)
			return -1;
		found = (int)i;
	}
	return found;
}

/* Whether ordinals count it: an old driver counts a card once. */
static bool is_counted(const struct view *v, uint32_t i)
{
	return v->is_many || i == 0 || card_of(v, i) != card_of(v, i - 1);
}

static int by_ordinal(const struct view *v, const char *entry)
{
	char *end;
	long left = strtol(entry, &end, 10);

	if (end == entry || left < 0)
		return -1;
	for (uint32_t i = 0; i < v->n; i++)
		if (is_counted(v, i) && left-- == 0)
			return (int)i;
	return -1;
}

static enum form form_of(const char *entry)
{
	if (strncmp(entry, "GPU-", 4) == 0)
		return CARDS;
	return strncmp(entry, "MIG-", 4) == 0 ? PARTS : ORDINALS;
}

static int find(const struct view *v, enum form first, const char *entry,
		size_t length)
{
	enum form form = form_of(entry);

	if (form != first &&
	    (!v->is_many || form == ORDINALS || first == ORDINALS))
		return -1;
	if (form == ORDINALS)
		return by_ordinal(v, entry);
	return form == CARDS ? by_card(v, entry, length)
			     : by_part(v, entry, length);
}

/* Those of a list.  Returns how many. */
static uint32_t choose(const struct view *v, const char *list,
		       uint32_t ret_gpus[FAKE_GPUS])
{
	enum form first;
	uint64_t seen = 0;
	uint32_t n = 0;

	list += strspn(list, " ");
	first = form_of(list);
	for (;;) {
		size_t length = strcspn(list, ",");
		int i = find(v, first, list, length);

		if (i < 0)
			return n;
		if (seen & UINT64_C(1) << i)
			return 0;
		seen |= UINT64_C(1) << i;
		ret_gpus[n++] = v->gpus[i];
		if (!list[length])
			return n;
		list += length + 1;
	}
}

uint32_t fake_visible(const struct fake_board *board, int version,
		      uint32_t ret_gpus[FAKE_GPUS])
{
	const char *list = getenv("CUDA_VISIBLE_DEVICES");
	struct view v;
	uint32_t n = 0;

	look(board, version, &v);
	if (list) {
		n = choose(&v, list, ret_gpus);
	} else {
		for (uint32_t i = 0; i < v.n; i++)
			if (is_counted(&v, i))
				ret_gpus[n++] = v.gpus[i];
	}
	/* An instance stands alone. */
	for (uint32_t i = 0; i < n && !v.is_many; i++)
		if (fake_is_part(&board->gpus[ret_gpus[i]])) {
			ret_gpus[0] = ret_gpus[i];
			return 1;
		}
	return n;
}
