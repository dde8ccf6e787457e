/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "core.h"

#include <errno.h>

/* arena.c - memory of a session's arena, as a writable buffer of bytes. */

struct arena_memory {
	PyObject_HEAD struct core_session *session;
	char *data; /* NULL: freed */
	uint64_t bytes;
	uint32_t row;
	unsigned exports; /* buffers that somewhere are in use */
	bool freed;
};

/* Memory(session, row, nbytes) */
static PyObject *arena_new(PyTypeObject *type, PyObject *args, PyObject *named)
{
	static char *names[] = { "session", "row", "nbytes", NULL };
	struct gpumap_session *session;
	struct core_session *owner;
	struct arena_memory *self;
	unsigned long long bytes;
	unsigned int row;
	void *data;
	int ret;

	if (!PyArg_ParseTupleAndKeywords(args, named, "O!IK", names,
					 core_session_type, &owner, &row,
					 &bytes))
		return NULL;
	if (owner->closed) {
		PyErr_SetString(PyExc_ValueError, "the session is closed");
		return NULL;
	}
	session = core_session_enter(owner);
	if (session == NULL)
		return NULL;
	CORE_UNLOCK();
	ret = gpumap_alloc(session, row, bytes, &data);
	CORE_LOCK();
	if (ret < 0)
		return core_session_result(owner, "gpumap_alloc", ret);
	self = (struct arena_memory *)PyType_GenericAlloc(type, 0);
	if (self == NULL) {
		gpumap_free(session, data);
		core_session_leave(owner);
		return NULL;
	}
	self->session = (struct core_session *)Py_NewRef((PyObject *)owner);
	self->data = data;
	self->bytes = bytes;
	self->row = row;
	core_session_leave(owner);
	return (PyObject *)self;
}

static void arena_release(PyObject *object)
{
	struct arena_memory *self = (struct arena_memory *)object;

	if (self->data != NULL && !core_session_forked(self->session))
		core_session_defer(self->session, CORE_DEAD_MEMORY, self->data,
				   0);
	self->data = NULL;
}

static PyObject *arena_free(PyObject *object, PyObject *unused)
{
	struct arena_memory *self = (struct arena_memory *)object;

	(void)unused;
	self->freed = true;
	if (self->exports == 0)
		arena_release(object);
	Py_RETURN_NONE;
}

static int arena_getbuffer(PyObject *object, Py_buffer *view, int flags)
{
	struct arena_memory *self = (struct arena_memory *)object;

	if (self->data == NULL || self->freed ||
	    self->session->session == NULL ||
	    (self->session->closed && self->session->users == 0)) {
		PyErr_SetString(PyExc_BufferError,
				"the memory was freed, or its session closed");
		view->obj = NULL;
		return -1;
	}
	/* In a forked child the arena is not mapped. */
	if (core_session_forked(self->session)) {
		PyErr_SetString(PyExc_BufferError,
				"the memory belongs to the parent process");
		view->obj = NULL;
		return -1;
	}
	if (PyBuffer_FillInfo(view, object, self->data, (Py_ssize_t)self->bytes,
			      0, flags) != 0)
		return -1;
	self->exports++;
	core_session_use(self->session);
	return 0;
}

static void arena_releasebuffer(PyObject *object, Py_buffer *view)
{
	struct arena_memory *self = (struct arena_memory *)object;

	(void)view;
	if (--self->exports == 0 && self->freed)
		arena_release(object);
	core_session_unuse(self->session);
}

static void arena_dealloc(PyObject *self)
{
	core_dealloc_owned(self, arena_release);
}

static PyObject *arena_address(PyObject *object, void *unused)
{
	struct arena_memory *self = (struct arena_memory *)object;

	(void)unused;
	if (self->data == NULL || self->freed)
		return PyErr_Format(PyExc_ValueError, "the memory was freed");
	return PyLong_FromVoidPtr(self->data);
}

static PyObject *arena_nbytes(PyObject *object, void *unused)
{
	(void)unused;
	return PyLong_FromUnsignedLongLong(
		((struct arena_memory *)object)->bytes);
}

static PyObject *arena_row(PyObject *object, void *unused)
{
	(void)unused;
	return PyLong_FromUnsignedLong(((struct arena_memory *)object)->row);
}

static PyMethodDef arena_methods[] = {
	{ "free", arena_free, METH_NOARGS,
	  "free($self, /)\n--\n\n"
	  "Give the memory back, once no buffer of it is in use any more.\n\n"
	  "No job that names it may be in flight." },
	{ NULL, NULL, 0, NULL },
};

static PyGetSetDef arena_getset[] = {
	{ "address", arena_address, NULL, "Where it is in this process.",
	  NULL },
	{ "nbytes", arena_nbytes, NULL, "How large it is.", NULL },
	{ "row", arena_row, NULL, "The row near which it is.", NULL },
	{ NULL, NULL, NULL, NULL, NULL },
};

const struct core_type core_memory_spec = {
	.name = "gpumap._core.Memory",
	.doc = "Memory near a row, as a buffer of bytes.",
	.bytes = sizeof(struct arena_memory),
	.new = arena_new,
	.dealloc = arena_dealloc,
	.traverse = core_traverse_owned,
	.methods = (PyMethodDef *const[]){ arena_methods, NULL },
	.getset = arena_getset,
	.getbuffer = arena_getbuffer,
	.releasebuffer = arena_releasebuffer,
};
