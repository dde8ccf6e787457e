/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "core.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* lists.c - what the agent lists: sessions, their memory, shares and
 * reservations. */

CORE_STRUCT(session_fields, gpumap_session_info, id, pid, uid, n_queues, depth,
	    arena_bytes, age_ns, load_bytes, load_total_bytes, rows);

CORE_STRUCT(usage_fields, gpumap_usage, session, pid, uid, row, importers,
	    bytes, lent_bytes, borrowed_bytes);

CORE_STRUCT(share_fields, gpumap_share_info, share, name, uid, flags, n_buffers,
	    n_holders, bytes, about_bytes, age_ns, pid, rows, fingerprint);

CORE_STRUCT(reservation_fields, gpumap_reservation, name, version, row, uid,
	    pid, bytes, own_bytes, session_bytes);

CORE_STRUCT(wait_fields, gpumap_wait_info, name, uid, pid, flags, rows,
	    missing_bytes, missing_row, n_before, bytes, age_ns, left_ns);

/* The calls say how much room they would have needed. */
static PyObject *
lists_read(PyObject *object, const char *call, const struct core_struct *item,
	   bool sized, int (*list)(struct gpumap *map, void *items, size_t n))
{
	struct core_map *self = (struct core_map *)object;
	struct gpumap *map = core_map_use(self);
	char *items = NULL;
	PyObject *made;
	size_t room = 64;
	int n = 0;

	if (map == NULL)
		return NULL;
	/* Others come and go meanwhile: make more room than was needed. */
	for (;;) {
		free(items);
		items = calloc(room, item->bytes);
		if (items == NULL) {
			core_map_unuse(self);
			return PyErr_NoMemory();
		}
		if (sized)
			memcpy(items, &item->bytes, sizeof(item->bytes));
		CORE_UNLOCK();
		n = list(map, items, room);
		CORE_LOCK();
		if (n < 0 || (size_t)n <= room)
			break;
		room = (size_t)n + 64;
	}
	if (n < 0) {
		free(items);
		return core_map_result(self, call, n);
	}
	core_map_unuse(self);
	made = PyList_New(0);
	for (int i = 0; made != NULL && i < n; i++)
		core_append(&made,
			    core_read(item, items + (size_t)i * item->bytes));
	free(items);
	return made;
}

/* A method that lists what @function does; @sized: an item has its size. */
#define LISTS_METHOD(method, function, sized, fields)                       \
	static int method##_call(struct gpumap *map, void *items, size_t n) \
	{                                                                   \
		return function(map, items, n);                             \
	}                                                                   \
	static PyObject *method(PyObject *self, PyObject *unused)           \
	{                                                                   \
		(void)unused;                                               \
		return lists_read(self, #function, &fields, sized,          \
				  method##_call);                           \
	}

LISTS_METHOD(lists_session, gpumap_session_list, false, session_fields)
LISTS_METHOD(lists_use, gpumap_usage_list, true, usage_fields)
LISTS_METHOD(lists_share, gpumap_share_list, true, share_fields)
LISTS_METHOD(lists_reservation, gpumap_reservation_list, true,
	     reservation_fields)
LISTS_METHOD(lists_wait, gpumap_wait_list, true, wait_fields)

PyMethodDef core_map_list_methods[] = {
	{ "_wait_list", lists_wait, METH_NOARGS, NULL },
	{ "_session_list", lists_session, METH_NOARGS, NULL },
	{ "_usage_list", lists_use, METH_NOARGS, NULL },
	{ "_share_list", lists_share, METH_NOARGS, NULL },
	{ "_reservation_list", lists_reservation, METH_NOARGS, NULL },
	{ NULL, NULL, 0, NULL },
};
