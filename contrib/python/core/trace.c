/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "core.h"

#include <stdlib.h>

/* trace.c - records of the jobs of rows. */

#define TRACE_MOST 65536u /* records that a call takes */

struct core_trace {
	PyObject_HEAD struct core_map *map; /* a user of it until close() */
	struct gpumap_trace *trace;         /* NULL once it is closed */
};

struct trace_opts {
	const uint32_t *rows; /* NULL: all */
	uint32_t n_rows;
};

static const struct core_struct opts_fields = {
	sizeof(struct trace_opts),
	{ CORE_LIST(trace_opts, rows, n_rows), { 0 } },
};

/* Trace(map, opts) */
static PyObject *trace_new(PyTypeObject *type, PyObject *args, PyObject *named)
{
	static char *names[] = { "map", "opts", NULL };
	PyObject *dict, *keep = PyList_New(0);
	struct trace_opts opts = { 0 };
	struct gpumap_trace *trace = NULL;
	struct core_trace *self = NULL;
	struct core_map *owner;
	struct gpumap *map;
	int ret;

	if (keep == NULL ||
	    !PyArg_ParseTupleAndKeywords(args, named, "O!O", names,
					 core_map_type, &owner, &dict) ||
	    core_write(&opts_fields, &opts, dict, keep) != 0 ||
	    (map = core_map_use(owner)) == NULL)
		goto out;
	CORE_UNLOCK();
	ret = gpumap_trace_open(map, opts.rows, opts.n_rows, &trace);
	CORE_LOCK();
	if (ret < 0) {
		core_map_result(owner, "gpumap_trace_open", ret);
		goto out;
	}
	self = (struct core_trace *)PyType_GenericAlloc(type, 0);
	if (self == NULL) {
		gpumap_trace_close(trace);
		core_map_unuse(owner);
		goto out;
	}
	self->map = (struct core_map *)Py_NewRef((PyObject *)owner);
	self->trace = trace;
out:
	Py_XDECREF(keep);
	return (PyObject *)self;
}

static void trace_end(PyObject *object)
{
	struct core_trace *self = (struct core_trace *)object;

	if (self->trace == NULL)
		return;
	gpumap_trace_close(self->trace);
	self->trace = NULL;
	core_map_unuse(self->map);
}

static PyObject *trace_close(PyObject *object, PyObject *unused)
{
	(void)unused;
	trace_end(object);
	Py_RETURN_NONE;
}

static void trace_dealloc(PyObject *self)
{
	core_dealloc_owned(self, trace_end);
}

static PyObject *trace_closed(PyObject *object, void *unused)
{
	(void)unused;
	return PyBool_FromLong(((struct core_trace *)object)->trace == NULL);
}

CORE_STRUCT(job_fields, gpumap_trace_job, session, read_ns, started_ns,
	    ended_ns, n, row, uid, status, op, dtype);

/* (most) -> ([job], how many more were lost).  The call does not wait: it keeps
 * the interpreter's lock, so that one thread at a time reads. */
static PyObject *trace_read(PyObject *object, PyObject *args)
{
	struct core_trace *self = (struct core_trace *)object;
	struct gpumap_trace_job *jobs;
	uint64_t lost = 0;
	unsigned int most;
	PyObject *list;
	int n;

	if (!PyArg_ParseTuple(args, "I", &most))
		return NULL;
	if (self->trace == NULL)
		return PyErr_Format(PyExc_ValueError, "the trace is closed");
	if (most > TRACE_MOST)
		most = TRACE_MOST;
	jobs = calloc((size_t)most + 1, sizeof(*jobs));
	if (jobs == NULL)
		return PyErr_NoMemory();
	n = gpumap_trace_read(self->trace, jobs, most, &lost);
	list = n < 0 ? NULL : PyList_New(0);
	for (int i = 0; list != NULL && i < n; i++)
		core_append(&list, core_read(&job_fields, &jobs[i]));
	free(jobs);
	if (n < 0)
		return core_fail_bare("gpumap_trace_read", n);
	return Py_BuildValue("NK", list, (unsigned long long)lost);
}

static PyMethodDef trace_methods[] = {
	{ "close", trace_close, METH_NOARGS,
	  "close($self, /)\n--\n\n"
	  "End the recording." },
	{ "_read", trace_read, METH_VARARGS, NULL },
	{ NULL, NULL, 0, NULL },
};

static PyGetSetDef trace_getset[] = {
	{ "closed", trace_closed, NULL, "Has close() been called?", NULL },
	{ NULL, NULL, NULL, NULL, NULL },
};

const struct core_type core_trace_spec = {
	.name = "gpumap._core.Trace",
	.doc = "A recording of the jobs of rows.",
	.bytes = sizeof(struct core_trace),
	.new = trace_new,
	.dealloc = trace_dealloc,
	.traverse = core_traverse_owned,
	.methods = (PyMethodDef *const[]){ trace_methods, NULL },
	.getset = trace_getset,
};
