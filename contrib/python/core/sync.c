/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "core.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* sync.c - connections to gpumap-sync: values, gangs and cohorts. */

struct core_sync {
	PyObject_HEAD struct gpumap_sync *sync; /* NULL once it is closed */
	unsigned users;                         /* calls under way */
	bool closed;
};

static struct gpumap_sync *sync_use(PyObject *object)
{
	struct core_sync *self = (struct core_sync *)object;

	if (self->sync == NULL || self->closed) {
		PyErr_SetString(PyExc_ValueError, "the connection is closed");
		return NULL;
	}
	self->users++;
	return self->sync;
}

static void sync_unuse(PyObject *object)
{
	struct core_sync *self = (struct core_sync *)object;

	if (--self->users != 0 || !self->closed)
		return;
	gpumap_sync_close(self->sync);
	self->sync = NULL;
}

/* Ends a call: raise for ret < 0, or return None. */
static PyObject *sync_result(PyObject *object, const char *call, int ret)
{
	sync_unuse(object);
	if (ret < 0)
		return core_fail(NULL, call, ret);
	Py_RETURN_NONE;
}

static PyObject *sync_new(PyTypeObject *type, PyObject *args, PyObject *named)
{
	static char *names[] = { "path", NULL };
	struct gpumap_sync *sync = NULL;
	const char *path = NULL;
	struct core_sync *self;
	int ret;

	if (!PyArg_ParseTupleAndKeywords(args, named, "|z", names, &path))
		return NULL;
	self = (struct core_sync *)PyType_GenericAlloc(type, 0);
	if (self == NULL)
		return NULL;
	self->closed = true;
	CORE_UNLOCK();
	ret = gpumap_sync_open(path, &sync);
	CORE_LOCK();
	if (ret < 0) {
		core_fail(NULL, "gpumap_sync_open", ret);
		Py_DECREF(self);
		return NULL;
	}
	self->sync = sync;
	self->closed = false;
	return (PyObject *)self;
}

static PyObject *sync_close(PyObject *object, PyObject *unused)
{
	struct core_sync *self = (struct core_sync *)object;

	(void)unused;
	if (self->closed)
		Py_RETURN_NONE;
	self->users++;
	self->closed = true;
	sync_unuse(object);
	Py_RETURN_NONE;
}

static void sync_end(PyObject *self)
{
	gpumap_sync_close(((struct core_sync *)self)->sync);
}

static void sync_dealloc(PyObject *self)
{
	core_dealloc(self, sync_end);
}

static PyObject *sync_closed(PyObject *object, void *unused)
{
	(void)unused;
	return PyBool_FromLong(((struct core_sync *)object)->closed);
}

static void *sync_begin(PyObject *self)
{
	return sync_use(self);
}

static PyObject *sync_fail(PyObject *self, const char *call, int error)
{
	(void)self;
	return core_fail(NULL, call, error);
}

static const struct core_handle core_sync_asks = { sync_begin, sync_unuse,
						   sync_fail, true };

CORE_CALL(sync_fileno, sync, asks, "", "i", gpumap_sync_fd, (sync));

CORE_CALL(sync_check, sync, asks, "", "", gpumap_sync_check, (sync));

/* ---- values -------------------------------------------------------------- */

/* key -> (value, revision), or None */
static PyObject *sync_value_get(PyObject *object, PyObject *arg)
{
	const char *key = core_name(arg);
	char value[GPUMAP_VALUE_BYTES_MAX];
	struct gpumap_sync *sync;
	uint64_t revision = 0;
	size_t bytes = 0;
	int ret;

	if (key == NULL)
		return NULL;
	sync = sync_use(object);
	if (sync == NULL)
		return NULL;
	CORE_UNLOCK();
	ret = gpumap_value_get(sync, key, value, sizeof(value), &bytes,
			       &revision);
	CORE_LOCK();
	if (ret == -ENOENT)
		ret = 0;
	if (ret != 0 || revision == 0)
		return sync_result(object, "gpumap_value_get", ret);
	sync_unuse(object);
	return Py_BuildValue("y#K", value, (Py_ssize_t)bytes,
			     (unsigned long long)revision);
}

/* (key, value or None, expected, flags) -> (written, revision) */
static int write_value(struct gpumap_sync *sync, const union core_value *in,
		       uint64_t *ret_revision)
{
	const struct gpumap_value_write write = {
		.size = sizeof(write),
		.key = in[0].text,
		.value = in[1].text,
		.bytes = in[1].text != NULL ? (size_t)in[2].n : 0,
		.expected = in[3].u64,
		.flags = in[4].u32,
	};
	int ret;

	*ret_revision = 0;
	ret = gpumap_value_cas(sync, &write, ret_revision);
	return ret == -ESTALE ? 0 : ret == 0 ? 1 : ret;
}

CORE_METHOD(sync_value_cas, sync, asks, "sz#KI", "bK", "gpumap_value_cas",
	    write_value(sync, in, out->numbers));

/* prefix -> [end of a key] */
static PyObject *sync_value_list(PyObject *object, PyObject *arg)
{
	bool failed = false;
	const char *prefix = core_text(arg, &failed);
	char ends[32 << 10];
	struct gpumap_sync *sync;
	PyObject *list;
	size_t bytes = 0;
	int ret;

	if (failed)
		return NULL;
	sync = sync_use(object);
	if (sync == NULL)
		return NULL;
	CORE_UNLOCK();
	ret = gpumap_value_list(sync, prefix != NULL ? prefix : "", ends,
				sizeof(ends), &bytes);
	CORE_LOCK();
	if (ret != 0)
		return sync_result(object, "gpumap_value_list", ret);
	sync_unuse(object);
	list = PyList_New(0);
	for (size_t at = 0; list != NULL && at < bytes;
	     at += strlen(ends + at) + 1)
		core_append(&list, PyUnicode_FromString(ends + at));
	return list;
}

/* (prefix, seen, seconds) -> seen; -ETIMEDOUT is raised.  Signals are looked
 * for now and then. */
static PyObject *sync_value_wait(PyObject *object, PyObject *args)
{
	unsigned long long seen;
	uint64_t deadline_ns, now_seen = 0;
	struct gpumap_sync *sync;
	const char *prefix;
	PyObject *seconds;
	int ret;

	if (!PyArg_ParseTuple(args, "sKO", &prefix, &seen, &seconds) ||
	    !core_deadline(seconds, &deadline_ns))
		return NULL;
	sync = sync_use(object);
	if (sync == NULL)
		return NULL;
	do {
		CORE_UNLOCK();
		ret = gpumap_value_wait(sync, prefix, seen,
					core_slice(deadline_ns), &now_seen);
		CORE_LOCK();
		if (PyErr_CheckSignals() != 0) {
			sync_unuse(object);
			return NULL;
		}
	} while (ret == -ETIMEDOUT && core_now_ns() < deadline_ns);
	if (ret != 0)
		return sync_result(object, "gpumap_value_wait", ret);
	sync_unuse(object);
	return PyLong_FromUnsignedLongLong(now_seen);
}

/* ---- gangs --------------------------------------------------------------- */

/* Read (node, [(uuid, bytes)]).  The node's text is of @pair.  Returns false
 * with an exception. */
static bool read_member(PyObject *pair, struct gpumap_gang_part *parts,
			struct gpumap_gang_member *ret_member)
{
	PyObject *list;
	Py_ssize_t n;

	if (!core_is_tuple(pair) ||
	    !PyArg_ParseTuple(pair, "sO!", &ret_member->node, &PyList_Type,
			      &list))
		return false;
	n = PyList_Size(list);
	if (n > GPUMAP_GANG_PARTS_MAX) {
		PyErr_Format(PyExc_ValueError, "%d devices of a node at most",
			     GPUMAP_GANG_PARTS_MAX);
		return false;
	}
	for (Py_ssize_t i = 0; i < n; i++) {
		PyObject *part = PyList_GetItem(list, i);
		unsigned long long bytes;
		const char *uuid;
		Py_ssize_t length;

		if (!core_is_tuple(part) ||
		    !PyArg_ParseTuple(part, "y#K", &uuid, &length, &bytes))
			return false;
		if (length != sizeof(parts[i].uuid)) {
			PyErr_SetString(PyExc_ValueError,
					"a UUID has 16 bytes");
			return false;
		}
		memcpy(parts[i].uuid, uuid, sizeof(parts[i].uuid));
		parts[i].bytes = bytes;
	}
	ret_member->parts = parts;
	ret_member->n_parts = (uint32_t)n;
	return true;
}

/* (name, [(node, [(uuid, bytes)])], seconds or None) */
static PyObject *sync_gang_reserve(PyObject *object, PyObject *args)
{
	struct gpumap_gang_member members[GPUMAP_GANG_NODES_MAX] = { 0 };
	struct gpumap_gang_part(*parts)[GPUMAP_GANG_PARTS_MAX];
	struct gpumap_gang_request request = { .size = sizeof(request),
					       .members = members };
	PyObject *list, *seconds, *made = NULL;
	struct gpumap_sync *sync;
	Py_ssize_t n;
	int ret;

	if (!PyArg_ParseTuple(args, "sO!O", &request.name, &PyList_Type, &list,
			      &seconds) ||
	    !core_deadline(seconds, &request.deadline_ns))
		return NULL;
	if (seconds == Py_None)
		request.deadline_ns = 0; /* the lease's time */
	else if (request.deadline_ns == 0)
		request.deadline_ns = 1; /* it has passed */
	n = PyList_Size(list);
	if (n > GPUMAP_GANG_NODES_MAX)
		return PyErr_Format(PyExc_ValueError, "%d nodes at most",
				    GPUMAP_GANG_NODES_MAX);
	parts = calloc((size_t)n + 1, sizeof(*parts));
	if (parts == NULL)
		return PyErr_NoMemory();
	for (Py_ssize_t i = 0; i < n; i++)
		if (!read_member(PyList_GetItem(list, i), parts[i],
				 &members[i]))
			goto out;
	request.n_members = (uint32_t)n;
	sync = sync_use(object);
	if (sync == NULL)
		goto out;
	CORE_UNLOCK();
	ret = gpumap_gang_reserve(sync, &request);
	CORE_LOCK();
	made = sync_result(object, "gpumap_gang_reserve", ret);
out:
	free(parts);
	return made;
}

CORE_CALL(sync_gang_release, sync, asks, "", "", gpumap_gang_release, (sync));

/* ---- cohorts ------------------------------------------------------------- */

/* (name, world, rank, version, id or None, seconds) -> (id, epoch) */
static int join_cohort(struct gpumap_sync *sync, const union core_value *in,
		       struct core_out *out)
{
	struct gpumap_cohort_join join = {
		.size = sizeof(join),
		.name = in[0].text,
		.world = in[1].u32,
		.rank = in[2].u32,
		.version = in[3].u32,
		.id = in[4].text,
		/* 1: it has passed; 0 would be none */
		.deadline_ns = in[5].deadline_ns == 0 ? 1 : in[5].deadline_ns,
	};

	out->numbers[0] = 0;
	return gpumap_cohort_join(sync, &join, out->id, out->numbers);
}

CORE_METHOD(sync_cohort_join, sync, asks, "sIIIJD", "JK", "gpumap_cohort_join",
	    join_cohort(sync, in, out));

CORE_CALL(sync_cohort_leave, sync, asks, "I", "", gpumap_cohort_leave,
	  (sync, in[0].u32));

static PyMethodDef sync_methods[] = {
	{ "close", sync_close, METH_NOARGS,
	  "close($self, /)\n--\n\n"
	  "End the connection, with its gang, rank and ephemeral values." },
	{ "fileno", sync_fileno, METH_VARARGS,
	  "fileno($self, /)\n--\n\n"
	  "A descriptor that can be read when check() has something to say." },
	{ "check", sync_check, METH_VARARGS,
	  "check($self, /)\n--\n\n"
	  "Raise where the gang, the rank or ephemeral values are lost." },
	{ "_value_get", sync_value_get, METH_O, NULL },
	{ "_value_cas", sync_value_cas, METH_VARARGS, NULL },
	{ "_value_list", sync_value_list, METH_O, NULL },
	{ "_value_wait", sync_value_wait, METH_VARARGS, NULL },
	{ "_gang_reserve", sync_gang_reserve, METH_VARARGS, NULL },
	{ "_gang_release", sync_gang_release, METH_VARARGS, NULL },
	{ "_cohort_join", sync_cohort_join, METH_VARARGS, NULL },
	{ "_cohort_leave", sync_cohort_leave, METH_VARARGS, NULL },
	{ NULL, NULL, 0, NULL },
};

static PyGetSetDef sync_getset[] = {
	{ "closed", sync_closed, NULL, "Has close() been called?", NULL },
	{ NULL, NULL, NULL, NULL, NULL },
};

const struct core_type core_sync_spec = {
	.name = "gpumap._core.Sync",
	.doc = "A connection to this node's gpumap-sync.",
	.bytes = sizeof(struct core_sync),
	.new = sync_new,
	.dealloc = sync_dealloc,
	.traverse = core_traverse,
	.methods = (PyMethodDef *const[]){ sync_methods, NULL },
	.getset = sync_getset,
};
