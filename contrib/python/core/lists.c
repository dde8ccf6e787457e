/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "core.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* lists.c - what the agent lists: sessions, their memory, shares and
 * reservations. */

static const struct core_field session_fields[] = {
	CORE_FIELD(gpumap_session_info, CORE_U64, id),
	CORE_FIELD(gpumap_session_info, CORE_U32, pid),
	CORE_FIELD(gpumap_session_info, CORE_U32, uid),
	CORE_FIELD(gpumap_session_info, CORE_U32, n_queues),
	CORE_FIELD(gpumap_session_info, CORE_U32, depth),
	CORE_FIELD(gpumap_session_info, CORE_U64, arena_bytes),
	CORE_FIELD(gpumap_session_info, CORE_U64, age_ns),
	CORE_FIELD(gpumap_session_info, CORE_U64, load_bytes),
	CORE_FIELD(gpumap_session_info, CORE_U64, load_total_bytes),
	CORE_FIELD(gpumap_session_info, CORE_U64S, rows),
};

static const struct core_field usage_fields[] = {
	CORE_FIELD(gpumap_usage, CORE_U64, session),
	CORE_FIELD(gpumap_usage, CORE_U32, pid),
	CORE_FIELD(gpumap_usage, CORE_U32, uid),
	CORE_FIELD(gpumap_usage, CORE_U32, row),
	CORE_FIELD(gpumap_usage, CORE_U32, importers),
	CORE_FIELD(gpumap_usage, CORE_U64, bytes),
	CORE_FIELD(gpumap_usage, CORE_U64, lent_bytes),
	CORE_FIELD(gpumap_usage, CORE_U64, borrowed_bytes),
};

static const struct core_field share_fields[] = {
	CORE_FIELD(gpumap_share_info, CORE_U64, share),
	CORE_FIELD(gpumap_share_info, CORE_CHARS, name),
	CORE_FIELD(gpumap_share_info, CORE_U32, uid),
	CORE_FIELD(gpumap_share_info, CORE_U32, flags),
	CORE_FIELD(gpumap_share_info, CORE_U32, n_buffers),
	CORE_FIELD(gpumap_share_info, CORE_U32, n_holders),
	CORE_FIELD(gpumap_share_info, CORE_U64, bytes),
	CORE_FIELD(gpumap_share_info, CORE_U64, about_bytes),
	CORE_FIELD(gpumap_share_info, CORE_U64, age_ns),
	CORE_FIELD(gpumap_share_info, CORE_U32, pid),
	CORE_FIELD(gpumap_share_info, CORE_U64S, rows),
	CORE_FIELD(gpumap_share_info, CORE_BYTES, fingerprint),
};

static const struct core_field reservation_fields[] = {
	CORE_FIELD(gpumap_reservation, CORE_CHARS, name),
	CORE_FIELD(gpumap_reservation, CORE_U64, version),
	CORE_FIELD(gpumap_reservation, CORE_U32, row),
	CORE_FIELD(gpumap_reservation, CORE_U32, uid),
	CORE_FIELD(gpumap_reservation, CORE_U32, pid),
	CORE_FIELD(gpumap_reservation, CORE_U64, bytes),
	CORE_FIELD(gpumap_reservation, CORE_U64, own_bytes),
	CORE_FIELD(gpumap_reservation, CORE_U64, session_bytes),
};

static const struct core_field wait_fields[] = {
	CORE_FIELD(gpumap_wait_info, CORE_CHARS, name),
	CORE_FIELD(gpumap_wait_info, CORE_U32, uid),
	CORE_FIELD(gpumap_wait_info, CORE_U32, pid),
	CORE_FIELD(gpumap_wait_info, CORE_U32, flags),
	CORE_FIELD(gpumap_wait_info, CORE_U64S, rows),
	CORE_FIELD(gpumap_wait_info, CORE_U64, missing_bytes),
	CORE_FIELD(gpumap_wait_info, CORE_U32, missing_row),
	CORE_FIELD(gpumap_wait_info, CORE_U64, bytes),
	CORE_FIELD(gpumap_wait_info, CORE_U64, age_ns),
	CORE_FIELD(gpumap_wait_info, CORE_U64, left_ns),
};

static int lists_waits(struct gpumap *map, void *list, size_t n)
{
	return gpumap_wait_list(map, list, n);
}

static int lists_sessions(struct gpumap *map, void *list, size_t n)
{
	return gpumap_session_list(map, list, n);
}

static int lists_usage(struct gpumap *map, void *list, size_t n)
{
	return gpumap_usage_list(map, list, n);
}

static int lists_shares(struct gpumap *map, void *list, size_t n)
{
	return gpumap_share_list(map, list, n);
}

static int lists_reservations(struct gpumap *map, void *list, size_t n)
{
	return gpumap_reservation_list(map, list, n);
}

/* One of these calls, which say how much room they would have needed. */
struct lists_call {
	const char *name;
	int (*list)(struct gpumap *map, void *list, size_t n);
	size_t bytes; /* of an item */
	bool sized;   /* the item begins with its size */
	const struct core_field *fields;
	size_t n_fields;
};

#define LISTS_CALL(name, list, type, sized, fields)             \
	{                                                       \
		name, list, sizeof(struct type), sized, fields, \
			sizeof(fields) / sizeof((fields)[0])    \
	}

static PyObject *lists_dicts(const struct lists_call *call, const char *items,
			     size_t n)
{
	PyObject *list = PyList_New(0);

	for (size_t i = 0; list != NULL && i < n; i++) {
		PyObject *one = core_fields_read(call->fields, call->n_fields,
						 items + i * call->bytes);

		if (one == NULL || PyList_Append(list, one) != 0)
			Py_CLEAR(list);
		Py_XDECREF(one);
	}
	return list;
}

static PyObject *lists_read(PyObject *object, const struct lists_call *call)
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
		items = calloc(room, call->bytes);
		if (items == NULL) {
			core_map_unuse(self);
			return PyErr_NoMemory();
		}
		if (call->sized)
			memcpy(items, &call->bytes, sizeof(call->bytes));
		CORE_UNLOCK();
		n = call->list(map, items, room);
		CORE_LOCK();
		if (n < 0 || (size_t)n <= room)
			break;
		room = (size_t)n + 64;
	}
	if (n < 0) {
		free(items);
		return core_map_result(self, call->name, n);
	}
	core_map_unuse(self);
	made = lists_dicts(call, items, (size_t)n);
	free(items);
	return made;
}

static PyObject *lists_session(PyObject *self, PyObject *unused)
{
	static const struct lists_call call =
		LISTS_CALL("gpumap_session_list", lists_sessions,
			   gpumap_session_info, false, session_fields);

	(void)unused;
	return lists_read(self, &call);
}

static PyObject *lists_use(PyObject *self, PyObject *unused)
{
	static const struct lists_call call =
		LISTS_CALL("gpumap_usage_list", lists_usage, gpumap_usage, true,
			   usage_fields);

	(void)unused;
	return lists_read(self, &call);
}

static PyObject *lists_share(PyObject *self, PyObject *unused)
{
	static const struct lists_call call =
		LISTS_CALL("gpumap_share_list", lists_shares, gpumap_share_info,
			   true, share_fields);

	(void)unused;
	return lists_read(self, &call);
}

static PyObject *lists_reservation(PyObject *self, PyObject *unused)
{
	static const struct lists_call call =
		LISTS_CALL("gpumap_reservation_list", lists_reservations,
			   gpumap_reservation, true, reservation_fields);

	(void)unused;
	return lists_read(self, &call);
}

static PyObject *lists_wait(PyObject *self, PyObject *unused)
{
	static const struct lists_call call =
		LISTS_CALL("gpumap_wait_list", lists_waits, gpumap_wait_info,
			   true, wait_fields);

	(void)unused;
	return lists_read(self, &call);
}

PyMethodDef core_map_list_methods[] = {
	{ "_wait_list", lists_wait, METH_NOARGS, NULL },
	{ "_session_list", lists_session, METH_NOARGS, NULL },
	{ "_usage_list", lists_use, METH_NOARGS, NULL },
	{ "_share_list", lists_share, METH_NOARGS, NULL },
	{ "_reservation_list", lists_reservation, METH_NOARGS, NULL },
	{ NULL, NULL, 0, NULL },
};
