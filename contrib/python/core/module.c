/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "core.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
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
	{ "_mask_info", core_mask_info, METH_VARARGS, NULL },
	{ "_mask_publish", core_mask_publish, METH_VARARGS, NULL },
	{ "_model_measure", core_model_measure, METH_VARARGS, NULL },
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

/* ---- types --------------------------------------------------------------- */

static PyObject *module_owner(PyObject *object)
{
	PyObject *owner;

	memcpy(&owner, (const char *)object + sizeof(PyObject), sizeof(owner));
	return owner;
}

int core_traverse(PyObject *object, visitproc visit, void *arg)
{
	Py_VISIT(Py_TYPE(object));
	return 0;
}

int core_traverse_owned(PyObject *object, visitproc visit, void *arg)
{
	PyObject *owner = module_owner(object);

	Py_VISIT(Py_TYPE(object));
	Py_VISIT(owner);
	return 0;
}

void core_dealloc(PyObject *object, void (*end)(PyObject *object))
{
	PyTypeObject *type = Py_TYPE(object);

	if (PyType_IS_GC(type))
		PyObject_GC_UnTrack(object);
	if (end != NULL)
		end(object);
	((freefunc)PyType_GetSlot(type, Py_tp_free))(object);
	Py_DECREF(type);
}

void core_dealloc_owned(PyObject *object, void (*end)(PyObject *object))
{
	PyObject *owner = module_owner(object);

	core_dealloc(object, end);
	Py_XDECREF(owner);
}

/* The methods of all tables as one, which the type keeps. */
static PyMethodDef *module_join(PyMethodDef *const *tables)
{
	PyMethodDef *all;
	size_t n = 0;

	if (tables[1] == NULL)
		return tables[0];
	for (PyMethodDef *const *table = tables; *table != NULL; table++)
		for (const PyMethodDef *m = *table; m->ml_name != NULL; m++)
			n++;
	all = calloc(n + 1, sizeof(*all));
	n = 0;
	for (; all != NULL && *tables != NULL; tables++)
		for (const PyMethodDef *m = *tables; m->ml_name != NULL; m++)
			all[n++] = *m;
	return all;
}

static int module_add_type(PyObject *module, const struct core_type *type)
{
	const PyType_Slot parts[] = {
		{ Py_tp_doc, (void *)(uintptr_t)type->doc },
		{ Py_tp_new, (void *)type->new },
		{ Py_tp_dealloc, (void *)type->dealloc },
		{ Py_tp_traverse, (void *)type->traverse },
		{ Py_tp_methods,
		  type->methods == NULL ? NULL : module_join(type->methods) },
		{ Py_tp_getset, type->getset },
		{ Py_bf_getbuffer, (void *)type->getbuffer },
		{ Py_bf_releasebuffer, (void *)type->releasebuffer },
		{ Py_sq_item, (void *)type->item },
		{ Py_sq_length, (void *)type->length },
	};
	PyType_Slot slots[sizeof(parts) / sizeof(parts[0]) + 1] = { 0 },
							     *slot = slots;
	PyType_Spec spec = { type->name, (int)type->bytes, 0,
			     Py_TPFLAGS_DEFAULT, slots };
	PyObject *made;
	int ret = -1;

	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
		if (parts[i].pfunc != NULL)
			*slot++ = parts[i];
	if (type->traverse != NULL)
		spec.flags |= Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC;
	if (type->new == NULL)
		spec.flags |= Py_TPFLAGS_DISALLOW_INSTANTIATION;
	made = PyType_FromSpec(&spec);
	if (made != NULL)
		ret = PyModule_AddObjectRef(module,
					    strrchr(type->name, '.') + 1, made);
	if (type->ret_type != NULL)
		*type->ret_type = (PyTypeObject *)made;
	else
		Py_XDECREF(made); /* the module has it */
	return ret;
}

static int module_add_times(PyObject *module)
{
	uint64_t ends[GPUMAP_JOB_TIMES];
	PyObject *times;
	int ret;

	for (uint32_t i = 0; i < GPUMAP_JOB_TIMES; i++)
		ends[i] = gpumap_job_time_end(i);
	times = core_u64_tuple(ends, GPUMAP_JOB_TIMES);
	ret = PyModule_AddObjectRef(module, "JOB_TIME_ENDS", times);
	Py_XDECREF(times);
	return ret;
}

PyMODINIT_FUNC PyInit__core(void);

PyMODINIT_FUNC PyInit__core(void)
{
	static const struct core_type *const types[] = {
		&core_map_spec,    &core_view_spec,    &core_session_spec,
		&core_memory_spec, &core_mapping_spec, &core_tensor_spec,
		&core_model_spec,  &core_mask_spec,    &core_replica_spec,
		&core_comm_spec,   &core_trace_spec,
	};
	static bool watched;
	PyObject *module = PyModule_Create(&module_def);

	for (size_t i = 0;
	     module != NULL && i < sizeof(types) / sizeof(types[0]); i++)
		if (module_add_type(module, types[i]) != 0)
			Py_CLEAR(module);
	if (module != NULL && module_add_times(module) != 0)
		Py_CLEAR(module);
	if (module != NULL && !watched)
		watched = pthread_atfork(NULL, NULL, module_forked) == 0;
	return module;
}
