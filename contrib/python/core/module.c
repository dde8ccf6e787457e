/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "core.h"

#include <errno.h>
#include <pthread.h>
#include <time.h>

unsigned core_forks;

static PyObject *make_error; /* gpumap.errors.make */

static PyObject *module_raise(const char *call, int error, const char *reason)
{
	PyObject *exception;

	if (make_error == NULL) {
		PyErr_Format(PyExc_OSError, "%s: %s", call,
			     gpumap_strerror(error));
		return NULL;
	}
	exception = PyObject_CallFunction(make_error, "siss", call, -error,
					  gpumap_strerror(error), reason);
	if (exception != NULL) {
		PyErr_SetObject((PyObject *)Py_TYPE(exception), exception);
		Py_DECREF(exception);
	}
	return NULL;
}

PyObject *core_fail(const struct gpumap *map, const char *call, int error)
{
	return module_raise(call, error, gpumap_refusal(map));
}

PyObject *core_fail_bare(const char *call, int error)
{
	return module_raise(call, error, "");
}

PyTypeObject *core_add_type(PyObject *module, PyType_Spec *spec,
			    const char *name)
{
	PyObject *type = PyType_FromSpec(spec);

	if (type != NULL && PyModule_AddObjectRef(module, name, type) != 0)
		Py_CLEAR(type);
	return (PyTypeObject *)type;
}

static PyObject *module_set_errors(PyObject *self, PyObject *make)
{
	(void)self;
	Py_XDECREF(make_error);
	make_error = Py_NewRef(make);
	Py_RETURN_NONE;
}

static PyObject *module_strerror(PyObject *self, PyObject *arg)
{
	long error = PyLong_AsLong(arg);

	(void)self;
	if (error == -1 && PyErr_Occurred())
		return NULL;
	if (error < INT32_MIN || error > INT32_MAX)
		return PyErr_Format(PyExc_ValueError, "no error: %ld", error);
	return PyUnicode_FromString(gpumap_strerror((int)error));
}

static PyObject *module_version(PyObject *self, PyObject *unused)
{
	(void)self;
	(void)unused;
	return PyLong_FromUnsignedLong(gpumap_version());
}

static PyMethodDef module_methods[] = {
	{ "_set_errors", module_set_errors, METH_O,
	  "_set_errors($module, make, /)\n--\n\n"
	  "Have make(call, errno, sentence, refusal) make exceptions." },
	{ "strerror", module_strerror, METH_O,
	  "strerror($module, error, /)\n--\n\n"
	  "A sentence about a negative errno of the library." },
	{ "_pool_find", core_pool_find, METH_O, NULL },
	{ "version", module_version, METH_NOARGS,
	  "version($module, /)\n--\n\n"
	  "The library's version: 10000 * major + 100 * minor + patch." },
	{ NULL, NULL, 0, NULL },
};

static struct PyModuleDef module_def = {
	.m_base = PyModuleDef_HEAD_INIT,
	.m_name = "gpumap._core",
	.m_doc = "The C half of the package gpumap.",
	.m_size = -1,
	.m_methods = module_methods,
};

static void module_forked(void)
{
	core_forks++;
}

PyMODINIT_FUNC PyInit__core(void);

PyMODINIT_FUNC PyInit__core(void)
{
	static int (*const parts[])(PyObject *) = {
		core_add_map,   core_add_layers, core_add_session,
		core_add_arena, core_add_tensor, core_add_model,
		core_add_mask,  core_add_comm,   core_add_sync,
		core_add_trace,
	};
	static bool watched;
	PyObject *module = PyModule_Create(&module_def);

	for (size_t i = 0;
	     module != NULL && i < sizeof(parts) / sizeof(parts[0]); i++)
		if (parts[i](module) != 0)
			Py_CLEAR(module);
	if (module != NULL && !watched)
		watched = pthread_atfork(NULL, NULL, module_forked) == 0;
	return module;
}
