/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include <stdlib.h>

#include "tests/fake/driver.h"

/*
 * Handle n of a kind is entry n of the kind's table, for ever: what one test
 * makes and destroys is thousands, not millions.  The lowest is 16, so that
 * none is one of the few values that the interface gives a meaning.
 */
#define FIRST_HANDLE 16
#define KIND_SHIFT   48

static struct table {
	uint64_t n, room;
	void **objects;
	unsigned int left;
} tables[FAKE_KINDS];

uint64_t fake_handle_new(enum fake_kind kind, void *object)
{
	struct table *t = &tables[kind];

	if (t->n == t->room) {
		uint64_t room = t->room ? 2 * t->room : 64;
		void **more = realloc(t->objects, room * sizeof(*more));

		if (!more)
			return 0;
		t->objects = more;
		t->room = room;
	}
	t->objects[t->n++] = object;
	t->left++;
	return (uint64_t)kind << KIND_SHIFT | (t->n - 1 + FIRST_HANDLE);
}

static void **entry(enum fake_kind kind, uint64_t handle)
{
	struct table *t = &tables[kind];
	uint64_t n = (handle & ((UINT64_C(1) << KIND_SHIFT) - 1));

	if (handle >> KIND_SHIFT != kind || n < FIRST_HANDLE ||
	    n - FIRST_HANDLE >= t->n)
		return NULL;
	return &t->objects[n - FIRST_HANDLE];
}

void *fake_handle_get(enum fake_kind kind, uint64_t handle)
{
	void **at = entry(kind, handle);

	return at ? *at : NULL;
}

void fake_handle_drop(enum fake_kind kind, uint64_t handle)
{
	void **at = entry(kind, handle);

	if (!at || !*at)
		return;
	*at = NULL;
	tables[kind].left--;
}

unsigned int fake_handles_left(enum fake_kind kind)
{
	return tables[kind].left;
}
