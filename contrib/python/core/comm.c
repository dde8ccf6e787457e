/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "core.h"

#include <errno.h>
#include <stdlib.h>

/* comm.c - communicators: collectives of a session's rows. */

struct core_comm {
	PyObject_HEAD struct core_session
		*session; /* a user of it until it is closed */
	struct gpumap_comm *comm;
};

/* Comm(session, mesh, group, flags) */
static PyObject *comm_new(PyTypeObject *type, PyObject *args, PyObject *named)
{
	static char *names[] = { "session", "mesh", "group", "flags", NULL };
	struct gpumap_comm_opts opts = { .size = sizeof(opts) };
	const char *mesh, *group;
	struct gpumap_session *session;
	struct gpumap_comm *comm = NULL;
	struct core_session *owner;
	struct core_comm *self;
	int ret;

	if (!PyArg_ParseTupleAndKeywords(args, named, "O!szI", names,
					 core_session_type, &owner, &mesh,
					 &group, &opts.flags))
		return NULL;
	if (owner->closed)
		return PyErr_Format(PyExc_ValueError, "the session is closed");
	session = core_session_enter(owner);
	if (session == NULL)
		return NULL;
	CORE_UNLOCK();
	ret = gpumap_comm_open_opts(session, mesh, group, &opts, &comm);
	CORE_LOCK();
	if (ret < 0)
		return core_session_result(owner, "gpumap_comm_open_opts", ret);
	self = (struct core_comm *)PyType_GenericAlloc(type, 0);
	if (self == NULL) {
		gpumap_comm_close(comm);
		core_session_leave(owner);
		return NULL;
	}
	core_session_use(owner);
	self->session = (struct core_session *)Py_NewRef((PyObject *)owner);
	self->comm = comm;
	core_session_leave(owner);
	return (PyObject *)self;
}

static struct gpumap_comm *comm_enter(struct core_comm *self)
{
	if (self->comm == NULL) {
		PyErr_SetString(PyExc_ValueError, "the communicator is closed");
		return NULL;
	}
	if (core_session_enter(self->session) == NULL)
		return NULL;
	if (self->comm == NULL) {
		core_session_leave(self->session);
		PyErr_SetString(PyExc_ValueError, "the communicator is closed");
	}
	return self->comm;
}

static void comm_end(PyObject *object)
{
	struct core_comm *self = (struct core_comm *)object;
	struct gpumap_comm *comm = self->comm;

	if (comm == NULL)
		return;
	if (core_session_forked(self->session)) {
		self->comm = NULL; /* the parent's */
		core_session_unuse(self->session);
		return;
	}
	if (core_session_enter(self->session) == NULL)
		return;
	self->comm = NULL;
	CORE_UNLOCK();
	gpumap_comm_close(comm); /* freed, whatever it returns */
	CORE_LOCK();
	core_session_unuse(self->session);
	core_session_leave(self->session);
}

static PyObject *comm_close(PyObject *object, PyObject *unused)
{
	(void)unused;
	comm_end(object);
	return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
}

/* An exception that is on its way stays. */
static void comm_end_quietly(PyObject *self)
{
	PyObject *kind, *value, *trace;

	PyErr_Fetch(&kind, &value, &trace);
	comm_end(self);
	PyErr_Restore(kind, value, trace);
}

static void comm_dealloc(PyObject *self)
{
	core_dealloc_owned(self, comm_end_quietly);
}

static void *comm_begin(PyObject *self)
{
	return comm_enter((struct core_comm *)self);
}

static void comm_leave(PyObject *self)
{
	core_session_leave(((struct core_comm *)self)->session);
}

static PyObject *comm_fail(PyObject *self, const char *call, int error)
{
	return core_fail(((struct core_comm *)self)->session->map->map, call,
			 error);
}

static const struct core_handle core_comm_asks = { comm_begin, comm_leave,
						   comm_fail, true };

CORE_CALL(comm_renew, comm, asks, "", "i", gpumap_comm_renew, (comm));

static int read_rows(struct gpumap_comm *comm, struct core_out *out)
{
	int n = gpumap_comm_rows(comm, out->rows[0], GPUMAP_COMM_RANKS_MAX);

	out->n_rows = n > (int)GPUMAP_COMM_RANKS_MAX ? GPUMAP_COMM_RANKS_MAX
						     : (uint32_t)n;
	return n;
}

CORE_METHOD(comm_rows, comm, asks, "", "T", "gpumap_comm_rows",
	    read_rows(comm, out));

CORE_METHOD(comm_flags, comm, asks, "", "i", "gpumap_comm_flags",
	    (int)gpumap_comm_flags(comm));

/* ---- collectives -------------------------------------------------------- */

CORE_STRUCT(what_fields, gpumap_collective, op, dtype, reduce, root, peer, n,
	    deadline_ns, cookie);

CORE_STRUCT(rank_fields, gpumap_rank, send, recv, send_buffer, recv_buffer,
	    send_at, recv_at);

/* (what, [rank] or None, waits or None) */
static PyObject *comm_submit(PyObject *object, PyObject *args)
{
	struct core_comm *self = (struct core_comm *)object;
	struct gpumap_collective what = { .size = sizeof(what) };
	struct gpumap_rank ranks[GPUMAP_COMM_RANKS_MAX] = { 0 };
	struct gpumap_time waits[GPUMAP_WAITS_MAX];
	PyObject *dict, *list, *times, *keep = PyList_New(0), *made = NULL;
	struct gpumap_comm *comm;
	Py_ssize_t n = 0;
	int ret;

	if (keep == NULL ||
	    !PyArg_ParseTuple(args, "O!OO", &PyDict_Type, &dict, &list,
			      &times) ||
	    core_write(&what_fields, &what, dict, keep) != 0 ||
	    core_times(times, waits, &what.n_waits) != 0)
		goto out;
	if (list != Py_None && !PyList_Check(list)) {
		PyErr_SetString(PyExc_TypeError, "ranks are a list");
		goto out;
	}
	if (list != Py_None)
		n = PyList_Size(list);
	if (n < 0 || n > (Py_ssize_t)GPUMAP_COMM_RANKS_MAX) {
		if (n > 0)
			PyErr_SetString(PyExc_ValueError, "too many ranks");
		goto out;
	}
	for (Py_ssize_t i = 0; i < n; i++)
		if (core_write(&rank_fields, &ranks[i], PyList_GetItem(list, i),
			       keep) != 0)
			goto out;
	comm = comm_enter(self);
	if (comm == NULL)
		goto out;
	/* The library reads one for each rank. */
	if (list != Py_None && gpumap_comm_rows(comm, NULL, 0) != n) {
		core_session_leave(self->session);
		PyErr_SetString(PyExc_ValueError,
				"one dict for each rank of the group");
		goto out;
	}
	what.ranks = list == Py_None ? NULL : ranks;
	what.waits = what.n_waits == 0 ? NULL : waits;
	CORE_UNLOCK();
	ret = gpumap_comm_submit(comm, &what);
	CORE_LOCK();
	made = core_session_result(self->session, "gpumap_comm_submit", ret);
out:
	Py_XDECREF(keep);
	return made;
}

static PyMethodDef comm_methods[] = {
	{ "close", comm_close, METH_NOARGS,
	  "close($self, /)\n--\n\n"
	  "End it.  Collectives that are under way end with EIO." },
	{ "renew", comm_renew, METH_VARARGS,
	  "renew($self, /)\n--\n\n"
	  "Open its group again, after it broke or the mesh has changed." },
	{ "_rows", comm_rows, METH_VARARGS, NULL },
	{ "_flags", comm_flags, METH_VARARGS, NULL },
	{ "_submit", comm_submit, METH_VARARGS, NULL },
	{ NULL, NULL, 0, NULL },
};

const struct core_type core_comm_spec = {
	.name = "gpumap._core.Comm",
	.doc = "A session's use of a mesh's group.",
	.bytes = sizeof(struct core_comm),
	.new = comm_new,
	.dealloc = comm_dealloc,
	.traverse = core_traverse_owned,
	.methods = (PyMethodDef *const[]){ comm_methods, NULL },
};
