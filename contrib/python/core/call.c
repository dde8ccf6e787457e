/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "core.h"

#include <errno.h>
#include <string.h>

/* call.c - methods that call one function of the library. */

/* The memory of one call. */
struct call_room {
	union core_value in[CORE_TAKES_MAX];
	struct gpumap_fingerprint print;
	PyObject *keep;          /* what the request points to */
	union core_value *slice; /* the end of a slice; NULL: no wait */
	uint64_t deadline_ns;    /* of the wait */
	_Alignas(16) char request[CORE_STRUCT_MAX];
	_Alignas(16) char facts[CORE_STRUCT_MAX];
};

/* A zeroed struct that begins with its size. */
static void *call_struct(char *at, const struct core_struct *fields)
{
	memset(at, 0, fields->bytes);
	memcpy(at, &fields->bytes, sizeof(fields->bytes));
	return at;
}

static bool call_id(PyObject *object, const char **ret_id)
{
	*ret_id = NULL;
	if (object == Py_None)
		return true;
	*ret_id = PyBytes_AsString(object);
	if (*ret_id == NULL)
		return false;
	if (PyBytes_Size(object) == CORE_ID_BYTES)
		return true;
	PyErr_Format(PyExc_ValueError, "an id has %d bytes", CORE_ID_BYTES);
	return false;
}

/* Make what the letter says of the object in @value.  Returns false with an
 * exception. */
static bool call_convert(const struct core_call *call, char letter,
			 struct call_room *room, union core_value *value)
{
	PyObject *object = value->object;
	unsigned long row;

	switch (letter) {
	case 'R':
		row = PyLong_AsUnsignedLong(object);
		value->u32 = row > UINT32_MAX ? UINT32_MAX : (unsigned int)row;
		return !PyErr_Occurred();
	case 'B':
		value->u64 = PyLong_AsUnsignedLongLong(object);
		return !PyErr_Occurred();
	case 'D':
		return core_deadline(object, &value->deadline_ns);
	case 'W':
		room->slice = value;
		return core_deadline(object, &room->deadline_ns);
	case 'F':
		return core_fingerprint(object, &room->print, &value->print);
	case 'J':
		return call_id(object, &value->text);
	case 'S':
		room->keep = PyList_New(0);
		value->request = call_struct(room->request, call->request);
		return room->keep != NULL &&
		       core_write(call->request, room->request, object,
				  room->keep) == 0;
	default: /* PyArg_ParseTuple() has made it */
		return true;
	}
}

static bool call_takes(const struct core_call *call, PyObject *args,
		       struct call_room *room)
{
	union core_value *in = room->in;
	char format[CORE_TAKES_MAX + 2];
	size_t n = strlen(call->takes);

	for (size_t i = 0; i < n; i++)
		format[i] = strchr("RBDWFJS", call->takes[i]) == NULL
				    ? call->takes[i]
				    : 'O';
	format[n] = '\0';
	memset(in, 0, sizeof(room->in));
	if (!PyArg_ParseTuple(args, format, &in[0], &in[1], &in[2], &in[3],
			      &in[4], &in[5], &in[6]))
		return false;
	for (size_t i = 0; i < n; i++)
		if (call->takes[i] != '|' &&
		    !call_convert(call, call->takes[i], room, in++))
			return false;
	return true;
}

static PyObject *call_gives(const struct core_call *call, int ret,
			    const struct core_out *out)
{
	const uint64_t *number = out->numbers;
	const uint32_t(*rows)[GPUMAP_ROWS_MAX] = out->rows;
	size_t n = strlen(call->gives);
	PyObject *made[CORE_GIVES_MAX] = { NULL }, *tuple;

	if (n == 0)
		Py_RETURN_NONE;
	for (size_t i = 0; i < n; i++) {
		switch (call->gives[i]) {
		case 'i':
			made[i] = PyLong_FromLong(ret);
			break;
		case 'b':
			made[i] = PyBool_FromLong(ret);
			break;
		case 'K':
			made[i] = PyLong_FromUnsignedLongLong(*number++);
			break;
		case 'J':
			made[i] = PyBytes_FromStringAndSize(
				(const char *)out->id, CORE_ID_BYTES);
			break;
		case 'S':
			made[i] = core_read(call->facts, out->facts);
			break;
		case 'T':
			made[i] = core_u32_tuple(*rows++, out->n_rows);
			break;
		}
	}
	if (n == 1)
		return made[0];
	tuple = PyTuple_New((Py_ssize_t)n);
	for (size_t i = 0; i < n; i++)
		if (tuple == NULL || made[i] == NULL ||
		    PyTuple_SetItem(tuple, (Py_ssize_t)i, Py_NewRef(made[i])) !=
			    0)
			Py_CLEAR(tuple);
	for (size_t i = 0; i < n; i++)
		Py_XDECREF(made[i]);
	return tuple;
}

bool core_again(int ret)
{
	return ret == -ETIME;
}

/* Make one slice of the call, or all of it.  Returns false with an exception,
 * or else the handle is in use. */
static bool call_once(PyObject *self, const struct core_call *call,
		      struct call_room *room, struct core_out *out,
		      int *ret_result)
{
	void *handle;

	if (room->slice != NULL)
		room->slice->deadline_ns = core_slice(room->deadline_ns);
	handle = call->handle->begin(self);
	if (handle == NULL)
		return false;
	if (call->handle->waits) {
		CORE_UNLOCK();
		*ret_result = call->function(handle, room->in, out);
		CORE_LOCK();
	} else {
		*ret_result = call->function(handle, room->in, out);
	}
	return true;
}

PyObject *core_call(PyObject *self, PyObject *args,
		    const struct core_call *call)
{
	const struct core_handle *handle = call->handle;
	struct core_out out;
	struct call_room room;
	PyObject *made = NULL;
	int ret;

	room.keep = NULL;
	room.slice = NULL;
	out.call = call->name;
	if (!call_takes(call, args, &room))
		goto out;
	if (call->facts != NULL)
		out.facts = call_struct(room.facts, call->facts);
	for (;;) {
		if (!call_once(self, call, &room, &out, &ret))
			goto out;
		if (room.slice == NULL || !call->again(ret) ||
		    room.slice->deadline_ns == room.deadline_ns)
			break;
		handle->end(self);
		if (PyErr_CheckSignals() != 0)
			goto out;
		if (handle->yield != NULL)
			handle->yield(self);
	}
	if (ret == -ETIME && call->late_is_false)
		ret = 0;
	made = ret < 0 ? handle->fail(self, out.call, ret)
		       : call_gives(call, ret, &out);
	handle->end(self);
out:
	Py_XDECREF(room.keep);
	return made;
}
