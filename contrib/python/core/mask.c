/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "core.h"

#include <errno.h>
#include <string.h>

/* mask.c - masks: published, and read near a row. */

struct core_mask {
	PyObject_HEAD struct core_map
		*map; /* a user of it until the mask is closed */
	struct gpumap_mask *mask;
	bool pinned;
};

/* A pinned replica in this process's memory. */
struct mask_replica {
	PyObject_HEAD struct core_mask *mask;
	const void *data;
	uint64_t bytes;
};

static PyTypeObject *mask_replica_type;

CORE_STRUCT(info_fields, gpumap_mask_info, name, version, published_ns,
	    owner_uid, kind, form, dtype, rank, n_rows, shape, strides, bytes,
	    hash, tgt_len, past_kv_len, sliding_window, chunk_size, map);

CORE_STRUCT_LISTS(request_fields, gpumap_mask_request,
		  (CORE_LIST(gpumap_mask_request, rows, n_rows)), name, kind,
		  form, dtype, tgt_len, past_kv_len, sliding_window, chunk_size,
		  rank, shape, map);

CORE_STRUCT(result_fields, gpumap_mask_result, version, bytes, n_copies,
	    n_shared);

/* The bytes that a loaded mask's shape and type say, or more than any. */
static uint64_t mask_bytes(const struct gpumap_mask_request *request)
{
	uint64_t bytes = request->dtype == GPUMAP_DTYPE_U8    ? 1
			 : request->dtype == GPUMAP_DTYPE_F32 ? 4
							      : 2;

	for (uint32_t i = 0; i < request->rank && i < GPUMAP_MASK_RANK_MAX; i++)
		if (__builtin_mul_overflow(bytes, request->shape[i], &bytes))
			return UINT64_MAX;
	return bytes;
}

/* publish_mask(map, request, data or None) */
PyObject *core_mask_publish(PyObject *module, PyObject *args)
{
	struct gpumap_mask_request request = { .size = sizeof(request) };
	struct gpumap_mask_result result = { .size = sizeof(result) };
	PyObject *dict, *data, *keep = PyList_New(0), *made = NULL;
	Py_buffer view = { 0 };
	struct core_map *self;
	struct gpumap *map;
	int ret;

	(void)module;
	if (keep == NULL ||
	    !PyArg_ParseTuple(args, "O!O!O", core_map_type, &self, &PyDict_Type,
			      &dict, &data) ||
	    core_write(&request_fields, &request, dict, keep) != 0)
		goto out;
	if (data != Py_None) {
		if (PyObject_GetBuffer(data, &view, PyBUF_C_CONTIGUOUS) != 0)
			goto out;
		if (mask_bytes(&request) != (uint64_t)view.len) {
			PyErr_SetString(PyExc_ValueError,
					"the data is not of this shape");
			goto out;
		}
		request.data = view.buf;
	}
	map = core_map_use(self);
	if (map == NULL)
		goto out;
	CORE_UNLOCK();
	ret = gpumap_mask_publish(map, &request, &result);
	CORE_LOCK();
	if (ret < 0) {
		made = core_map_result(self, "gpumap_mask_publish", ret);
		goto out;
	}
	core_map_unuse(self);
	made = core_read(&result_fields, &result);
out:
	PyBuffer_Release(&view);
	Py_XDECREF(keep);
	return made;
}

/* mask_info(map, name) -> (facts, rows) */
PyObject *core_mask_info(PyObject *module, PyObject *args)
{
	struct gpumap_mask_info info = { .size = sizeof(info) };
	uint32_t rows[GPUMAP_ROWS_MAX];
	struct core_map *self;
	const struct gpumap *map;
	const char *name;
	int ret;

	(void)module;
	if (!PyArg_ParseTuple(args, "O!s", core_map_type, &self, &name))
		return NULL;
	map = core_map_use(self);
	if (map == NULL)
		return NULL;
	ret = gpumap_mask_read(map, name, &info, rows, GPUMAP_ROWS_MAX);
	core_map_unuse(self);
	if (ret < 0)
		return core_fail_bare("gpumap_mask_read", ret);
	return Py_BuildValue("NN", core_read(&info_fields, &info),
			     core_u32_tuple(rows, info.n_rows));
}

/* ---- an opened mask ----------------------------------------------------- */

/* Mask(map, name, pin) */
static PyObject *mask_new(PyTypeObject *type, PyObject *args, PyObject *named)
{
	static char *names[] = { "map", "name", "pin", NULL };
	struct gpumap_mask *mask = NULL;
	struct core_mask *self;
	struct core_map *owner;
	const char *name;
	struct gpumap *map;
	int pin, ret;

	if (!PyArg_ParseTupleAndKeywords(args, named, "O!sp", names,
					 core_map_type, &owner, &name, &pin))
		return NULL;
	map = core_map_use(owner);
	if (map == NULL)
		return NULL;
	CORE_UNLOCK();
	ret = gpumap_mask_open(map, name, pin ? GPUMAP_MASK_PIN : 0, &mask);
	CORE_LOCK();
	if (ret < 0)
		return core_map_result(owner, "gpumap_mask_open", ret);
	self = (struct core_mask *)PyType_GenericAlloc(type, 0);
	if (self == NULL) {
		gpumap_mask_close(map, mask);
		core_map_unuse(owner);
		return NULL;
	}
	self->map = (struct core_map *)Py_NewRef((PyObject *)owner);
	self->mask = mask;
	self->pinned = pin != 0;
	return (PyObject *)self;
}

static void mask_end(PyObject *object)
{
	struct core_mask *self = (struct core_mask *)object;

	if (self->mask == NULL)
		return;
	gpumap_mask_close(self->map->map, self->mask);
	core_map_unuse(self->map);
}

static void mask_dealloc(PyObject *self)
{
	core_dealloc_owned(self, mask_end);
}

/* The replica of a row in the publication of this moment. */
static const struct gpumap_mask_view *mask_view(struct core_mask *self,
						PyObject *arg)
{
	const struct gpumap_mask_view *view = NULL;
	unsigned long row = PyLong_AsUnsignedLong(arg);
	int ret = -EAGAIN;

	if (row == (unsigned long)-1 && PyErr_Occurred())
		return NULL;
	for (int i = 0; ret == -EAGAIN && i < 64; i++)
		ret = gpumap_mask_get(
			self->map->map, self->mask,
			row > UINT32_MAX ? UINT32_MAX : (uint32_t)row, &view);
	if (ret >= 0)
		return view;
	core_fail(self->map->map, "gpumap_mask_get", ret);
	return NULL;
}

static PyObject *mask_facts(const struct gpumap_mask_view *view)
{
	uint32_t rank = view->rank > GPUMAP_MASK_RANK_MAX ? GPUMAP_MASK_RANK_MAX
							  : view->rank;

	return Py_BuildValue("{s:K,s:K,s:K,s:K,s:N,s:N,s:I,s:I,s:I,s:O}",
			     "version", (unsigned long long)view->version,
			     "bytes", (unsigned long long)view->bytes, "export",
			     (unsigned long long)view->export_id, "at",
			     (unsigned long long)view->at, "shape",
			     core_u64_tuple(view->shape, rank), "strides",
			     core_u64_tuple(view->strides, rank), "kind",
			     view->kind, "dtype", view->dtype, "row", view->row,
			     "here", view->data != NULL ? Py_True : Py_False);
}

/* row -> (facts, bytes or None), all of one version */
static PyObject *mask_read(PyObject *object, PyObject *row)
{
	struct core_mask *self = (struct core_mask *)object;

	for (int i = 0; i < 64; i++) {
		const struct gpumap_mask_view *view = mask_view(self, row);
		PyObject *data, *facts;

		if (view == NULL)
			return NULL;
		facts = mask_facts(view);
		if (view->data == NULL)
			return Py_BuildValue("NO", facts, Py_None);
		data = PyBytes_FromStringAndSize(view->data,
						 (Py_ssize_t)view->bytes);
		if (gpumap_mask_holds(self->mask))
			return Py_BuildValue("NN", facts, data);
		Py_XDECREF(facts);
		Py_XDECREF(data);
	}
	return core_fail_bare("gpumap_mask_get", -EAGAIN);
}

/* row -> (facts, buffer), of a pinned mask: no copy is made */
static PyObject *mask_pinned(PyObject *object, PyObject *row)
{
	struct core_mask *self = (struct core_mask *)object;
	const struct gpumap_mask_view *view;
	struct mask_replica *replica;

	if (!self->pinned)
		return PyErr_Format(PyExc_ValueError, "the mask is not pinned");
	view = mask_view(self, row);
	if (view == NULL)
		return NULL;
	if (view->data == NULL)
		return Py_BuildValue("NO", mask_facts(view), Py_None);
	replica = (struct mask_replica *)PyType_GenericAlloc(mask_replica_type,
							     0);
	if (replica == NULL)
		return NULL;
	replica->mask = (struct core_mask *)Py_NewRef(object);
	replica->data = view->data;
	replica->bytes = view->bytes;
	return Py_BuildValue("NN", mask_facts(view), (PyObject *)replica);
}

static int mask_replica_getbuffer(PyObject *object, Py_buffer *view, int flags)
{
	struct mask_replica *self = (struct mask_replica *)object;

	return PyBuffer_FillInfo(view, object, (void *)(uintptr_t)self->data,
				 (Py_ssize_t)self->bytes, 1, flags);
}

static void mask_replica_end(PyObject *self)
{
	Py_XDECREF((PyObject *)((struct mask_replica *)self)->mask);
}

static void mask_replica_dealloc(PyObject *self)
{
	core_dealloc(self, mask_replica_end);
}

static PyMethodDef mask_methods[] = {
	{ "_read", mask_read, METH_O, NULL },
	{ "_pinned", mask_pinned, METH_O, NULL },
	{ NULL, NULL, 0, NULL },
};

const struct core_type core_mask_spec = {
	.name = "gpumap._core.Mask",
	.doc = "A published mask.",
	.bytes = sizeof(struct core_mask),
	.new = mask_new,
	.dealloc = mask_dealloc,
	.traverse = core_traverse_owned,
	.methods = (PyMethodDef *const[]){ mask_methods, NULL },
};

const struct core_type core_replica_spec = {
	.name = "gpumap._core.Replica",
	.ret_type = &mask_replica_type,
	.bytes = sizeof(struct mask_replica),
	.dealloc = mask_replica_dealloc,
	.getbuffer = mask_replica_getbuffer,
};
