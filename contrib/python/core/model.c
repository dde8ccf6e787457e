/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "core.h"

#include <errno.h>
#include <string.h>

#include <gpumap/model.h>

/* model.c - models: loading, and where each tensor is. */

struct core_model {
	PyObject_HEAD struct core_session
		*session;           /* a user of it until the model is closed */
	struct gpumap_model *model; /* NULL: closed */
};

CORE_STRUCT(sizes_fields, gpumap_model_sizes, other_bytes, tied_bytes, dtype,
	    n_heads, conv_taps, state_bytes);

CORE_STRUCT(cache_fields, gpumap_layer_cache, n_layers, n_heads, window,
	    token_elements, conv_elements, state_elements);

/* List the caches, each a dictionary. */
static PyObject *list_caches(const struct gpumap_model_sizes *sizes)
{
	PyObject *list = PyList_New(0);

	for (uint32_t i = 0; list != NULL && i < sizes->n_caches; i++)
		core_append(&list, core_read(&cache_fields, &sizes->caches[i]));
	return list;
}

PyObject *core_model_measure(PyObject *self, PyObject *args)
{
	struct gpumap_model_sizes *sizes = NULL;
	PyObject *path, *made, *layers, *caches;
	int ret;

	(void)self;
	if (!PyArg_ParseTuple(args, "O&", PyUnicode_FSConverter, &path))
		return NULL;
	CORE_UNLOCK();
	ret = gpumap_model_measure(PyBytes_AsString(path), &sizes);
	CORE_LOCK();
	Py_DECREF(path);
	if (ret < 0)
		return core_fail(NULL, "gpumap_model_measure", ret);
	made = core_read(&sizes_fields, sizes);
	layers = core_u64_tuple(sizes->layer_bytes, sizes->n_layers);
	caches = list_caches(sizes);
	if (made == NULL || layers == NULL || caches == NULL ||
	    PyDict_SetItemString(made, "layer_bytes", layers) != 0 ||
	    PyDict_SetItemString(made, "caches", caches) != 0)
		Py_CLEAR(made);
	Py_XDECREF(layers);
	Py_XDECREF(caches);
	gpumap_model_sizes_free(sizes);
	return made;
}

CORE_STRUCT_LISTS(opts_fields, gpumap_model_opts,
		  (CORE_LIST(gpumap_model_opts, rows, n_rows),
		   CORE_LIST(gpumap_model_opts, uids, n_uids)),
		  path, layers, flags, name, share_flags);

static struct gpumap_model *model_enter(struct core_model *self)
{
	if (self->model == NULL) {
		PyErr_SetString(PyExc_ValueError, "the model is closed");
		return NULL;
	}
	if (core_session_enter(self->session) == NULL)
		return NULL;
	if (self->model == NULL) {
		core_session_leave(self->session);
		PyErr_SetString(PyExc_ValueError, "the model is closed");
	}
	return self->model;
}

/* Model(session, opts, fingerprint=f) loads, and Model(session, None, name,
 * flags, f) opens. */
static PyObject *model_new(PyTypeObject *type, PyObject *args, PyObject *named)
{
	static char *names[] = { "session", "opts",        "name",
				 "flags",   "fingerprint", NULL };
	const struct gpumap_fingerprint *expect;
	struct gpumap_fingerprint print;
	struct gpumap_model_opts opts = { .size = sizeof(opts) };
	struct gpumap_model *model = NULL;
	PyObject *dict, *pair = NULL, *keep = NULL;
	struct gpumap_session *session;
	struct core_session *owner;
	struct core_model *self = NULL;
	const char *name = NULL;
	unsigned int flags = 0;
	int ret;

	if (!PyArg_ParseTupleAndKeywords(args, named, "O!O|zIO", names,
					 core_session_type, &owner, &dict,
					 &name, &flags, &pair) ||
	    !core_fingerprint(pair, &print, &expect))
		return NULL;
	keep = PyList_New(0);
	if (keep == NULL ||
	    (name == NULL && core_write(&opts_fields, &opts, dict, keep) != 0))
		goto out;
	opts.fingerprint = expect;
	if (owner->closed) {
		PyErr_SetString(PyExc_ValueError, "the session is closed");
		goto out;
	}
	session = core_session_enter(owner);
	if (session == NULL)
		goto out;
	CORE_UNLOCK();
	if (name != NULL)
		ret = gpumap_model_open(session, name, flags, expect, &model);
	else
		ret = gpumap_model_load(session, &opts, &model);
	CORE_LOCK();
	if (ret < 0) {
		core_session_result(owner,
				    name != NULL ? "gpumap_model_open"
						 : "gpumap_model_load",
				    ret);
		goto out;
	}
	self = (struct core_model *)PyType_GenericAlloc(type, 0);
	if (self == NULL) {
		core_session_defer(owner, CORE_DEAD_MODEL, model, 0);
		core_session_leave(owner);
		goto out;
	}
	core_session_use(owner);
	self->session = (struct core_session *)Py_NewRef((PyObject *)owner);
	self->model = model;
	core_session_leave(owner);
out:
	Py_XDECREF(keep);
	return (PyObject *)self;
}

static void model_leave_behind(PyObject *object)
{
	struct core_model *self = (struct core_model *)object;

	if (self->model == NULL)
		return;
	core_session_defer(self->session, CORE_DEAD_MODEL, self->model, 0);
	core_session_unuse(self->session);
}

static void model_dealloc(PyObject *self)
{
	core_dealloc_owned(self, model_leave_behind);
}

/* Close, waiting for jobs in flight in slices. */
static PyObject *model_close(PyObject *object, PyObject *args)
{
	struct core_model *self = (struct core_model *)object;
	PyObject *seconds = Py_None;
	uint64_t deadline_ns;
	int ret;

	if (!PyArg_ParseTuple(args, "|O", &seconds) ||
	    !core_deadline(seconds, &deadline_ns))
		return NULL;
	while (self->model != NULL) {
		uint64_t slice_ns = core_slice(deadline_ns);
		struct gpumap_model *model;

		if (core_session_forked(self->session)) {
			core_session_unuse(self->session);
			self->model = NULL; /* the parent's */
			break;
		}
		model = model_enter(self);
		if (model == NULL)
			return NULL;
		CORE_UNLOCK();
		ret = gpumap_model_close(model, slice_ns);
		CORE_LOCK();
		if (ret == -ETIME && slice_ns != deadline_ns) {
			core_session_leave(self->session);
			if (PyErr_CheckSignals() != 0)
				return NULL;
			core_session_yield(self->session);
			continue;
		}
		if (ret == -ETIME || ret == -EAGAIN)
			return core_session_result(self->session,
						   "gpumap_model_close", ret);
		self->model = NULL;
		core_session_unuse(self->session);
		core_session_leave(self->session);
	}
	Py_RETURN_NONE;
}

CORE_STRUCT(progress_fields, gpumap_model_progress, state, status, bytes,
	    total_bytes, elapsed_ns, bytes_per_second, left_ns, n_tensors,
	    n_buffers, was_there, share);

/* (facts, the sentence of the agent while it is WAITING); a model that has
 * failed is no exception here. */
static PyObject *model_progress(PyObject *object, PyObject *unused)
{
	struct core_model *self = (struct core_model *)object;
	struct gpumap_model_progress progress = { .size = sizeof(progress) };
	struct gpumap_model *model = model_enter(self);
	PyObject *made;
	int ret;

	(void)unused;
	if (model == NULL)
		return NULL;
	CORE_UNLOCK();
	ret = gpumap_model_progress(model, &progress);
	CORE_LOCK();
	if (ret == -EOWNERDEAD)
		return core_session_result(self->session,
					   "gpumap_model_progress", ret);
	made = Py_BuildValue("Ns", core_read(&progress_fields, &progress),
			     gpumap_refusal(self->session->map->map));
	core_session_leave(self->session);
	return made;
}

static void *model_begin(PyObject *self)
{
	return model_enter((struct core_model *)self);
}

static void model_leave(PyObject *self)
{
	core_session_leave(((struct core_model *)self)->session);
}

static PyObject *model_fail(PyObject *self, const char *call, int error)
{
	return core_fail(((struct core_model *)self)->session->map->map, call,
			 error);
}

static void model_yield(PyObject *self)
{
	core_session_yield(((struct core_model *)self)->session);
}

static const struct core_handle core_model_asks = { model_begin, model_leave,
						    model_fail, true,
						    model_yield };

/* seconds -> is it LOADED?  Raises for one that has failed. */
static int wait_loaded(struct gpumap_model *model, uint64_t deadline_ns)
{
	int ret = gpumap_model_wait(model, deadline_ns);

	return ret < 0 ? ret : 1;
}

CORE_METHOD(model_wait, model, asks, "|W", "b", "gpumap_model_wait",
	    wait_loaded(model, in[0].deadline_ns), .again = core_again,
	    .late_is_false = true);

CORE_CALL(model_renew, model, asks, "", "i", gpumap_model_renew, (model));

CORE_CALL(model_cancel, model, asks, "", "i", gpumap_model_cancel, (model));

/* (name, type, shape, row, layer, buffer, at, bytes, part) */
static PyObject *model_tensor(const struct gpumap_tensor *tensor)
{
	return Py_BuildValue("ssNIiKKKI", tensor->name, tensor->type,
			     core_u64_tuple(tensor->shape, tensor->n_dims),
			     tensor->row, tensor->layer,
			     (unsigned long long)tensor->buffer,
			     (unsigned long long)tensor->at,
			     (unsigned long long)tensor->bytes, tensor->part);
}

/* name -> the tensor, or None */
static PyObject *model_find(PyObject *object, PyObject *arg)
{
	struct core_model *self = (struct core_model *)object;
	struct gpumap_tensor tensor = { .size = sizeof(tensor) };
	const char *name = core_name(arg);
	struct gpumap_model *model;
	PyObject *made;
	int ret;

	if (name == NULL)
		return NULL;
	model = model_enter(self);
	if (model == NULL)
		return NULL;
	ret = gpumap_model_find(model, name, &tensor);
	made = ret == -ENOENT ? Py_NewRef(Py_None)
	       : ret < 0      ? core_fail_bare("gpumap_model_find", ret)
			      : model_tensor(&tensor);
	core_session_leave(self->session);
	return made;
}

/* The names of all tensors. */
static PyObject *model_names(PyObject *object, PyObject *unused)
{
	struct core_model *self = (struct core_model *)object;
	struct gpumap_tensor tensor = { .size = sizeof(tensor) };
	struct gpumap_model *model = model_enter(self);
	PyObject *list = model == NULL ? NULL : PyList_New(0);
	uint32_t cursor = 0;

	(void)unused;
	while (list != NULL && gpumap_model_next(model, &cursor, &tensor) == 1)
		core_append(&list, PyUnicode_FromString(tensor.name));
	if (model != NULL)
		core_session_leave(self->session);
	return list;
}

/* (format, bytes); (0, b"") where there is none */
static PyObject *model_meta(PyObject *object, PyObject *unused)
{
	struct core_model *self = (struct core_model *)object;
	struct gpumap_model_meta meta = { .size = sizeof(meta) };
	struct gpumap_model *model = model_enter(self);
	PyObject *made;
	int ret;

	(void)unused;
	if (model == NULL)
		return NULL;
	ret = gpumap_model_meta(model, &meta);
	if (ret < 0 && ret != -ENODATA)
		made = core_fail_bare("gpumap_model_meta", ret);
	else
		made = Py_BuildValue("Iy#", meta.format,
				     ret < 0 ? "" : (const char *)meta.data,
				     ret < 0 ? (Py_ssize_t)0
					     : (Py_ssize_t)meta.bytes);
	core_session_leave(self->session);
	return made;
}

/* [(buffer, bytes, row)], in the order of the share */
static PyObject *model_buffers(PyObject *object, PyObject *unused)
{
	struct core_model *self = (struct core_model *)object;
	struct gpumap_model_buffer buffers[GPUMAP_SHARE_BUFFERS_MAX];
	struct gpumap_model *model = model_enter(self);
	PyObject *list;
	uint32_t n;

	(void)unused;
	if (model == NULL)
		return NULL;
	n = gpumap_model_buffers(model, buffers, GPUMAP_SHARE_BUFFERS_MAX);
	core_session_leave(self->session);
	if (n > GPUMAP_SHARE_BUFFERS_MAX)
		n = GPUMAP_SHARE_BUFFERS_MAX;
	list = PyList_New(0);
	for (uint32_t i = 0; list != NULL && i < n; i++)
		core_append(&list,
			    Py_BuildValue("KKI",
					  (unsigned long long)buffers[i].buffer,
					  (unsigned long long)buffers[i].bytes,
					  buffers[i].row));
	return list;
}

static PyObject *model_closed(PyObject *object, void *unused)
{
	(void)unused;
	return PyBool_FromLong(((struct core_model *)object)->model == NULL);
}

static PyMethodDef model_methods[] = {
	{ "_close", model_close, METH_VARARGS, NULL },
	{ "_progress", model_progress, METH_NOARGS, NULL },
	{ "_wait", model_wait, METH_VARARGS, NULL },
	{ "_renew", model_renew, METH_VARARGS, NULL },
	{ "_cancel", model_cancel, METH_VARARGS, NULL },
	{ "_find", model_find, METH_O, NULL },
	{ "_names", model_names, METH_NOARGS, NULL },
	{ "_meta", model_meta, METH_NOARGS, NULL },
	{ "_buffers", model_buffers, METH_NOARGS, NULL },
	{ NULL, NULL, 0, NULL },
};

static PyGetSetDef model_getset[] = {
	{ "closed", model_closed, NULL, "Has close() been called?", NULL },
	{ NULL, NULL, NULL, NULL, NULL },
};

const struct core_type core_model_spec = {
	.name = "gpumap._core.Model",
	.doc = "A checkpoint in the memory of rows.",
	.bytes = sizeof(struct core_model),
	.new = model_new,
	.dealloc = model_dealloc,
	.traverse = core_traverse_owned,
	.methods = (PyMethodDef *const[]){ model_methods, NULL },
	.getset = model_getset,
};
