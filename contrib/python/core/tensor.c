/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "core.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* tensor.c - mapped memory, and tensors in it as buffers. */

/* ---- types of elements -------------------------------------------------- */

#define TENSOR_INT    0
#define TENSOR_UINT   1
#define TENSOR_FLOAT  2
#define TENSOR_BFLOAT 4
#define TENSOR_BOOL   6
#define TENSOR_NONE   255

/* Those without a format are bytes for the buffer protocol. */
static const struct core_element elements[] = {
	{ "F64", "d", 8, TENSOR_FLOAT }, { "F32", "f", 4, TENSOR_FLOAT },
	{ "F16", "e", 2, TENSOR_FLOAT }, { "BF16", NULL, 2, TENSOR_BFLOAT },
	{ "I64", "q", 8, TENSOR_INT },   { "I32", "i", 4, TENSOR_INT },
	{ "I16", "h", 2, TENSOR_INT },   { "I8", "b", 1, TENSOR_INT },
	{ "U64", "Q", 8, TENSOR_UINT },  { "U32", "I", 4, TENSOR_UINT },
	{ "U16", "H", 2, TENSOR_UINT },  { "U8", "B", 1, TENSOR_UINT },
	{ "BOOL", "?", 1, TENSOR_BOOL }, { "C64", "Zf", 8, 5 },
	{ "F8_E4M3", NULL, 1, 10 },      { "F8_E4M3FNUZ", NULL, 1, 11 },
	{ "F8_E5M2", NULL, 1, 12 },      { "F8_E5M2FNUZ", NULL, 1, 13 },
	{ "F8_E8M0", NULL, 1, 14 },
};

const struct core_element *core_element_find(const char *type)
{
	for (size_t i = 0; i < sizeof(elements) / sizeof(elements[0]); i++)
		if (strcmp(elements[i].type, type) == 0)
			return &elements[i];
	return NULL;
}

/* ---- mappings ----------------------------------------------------------- */

struct tensor_mapping {
	PyObject_HEAD void *data;
	size_t bytes;
	int fd; /* kept, for Tensor.fd() */
	bool writable;
};

/* Mapping(fd, nbytes, private=False, writable=False) takes the descriptor over,
 * where it fails, too. */
static PyObject *mapping_new(PyTypeObject *type, PyObject *args,
			     PyObject *named)
{
	static char *names[] = { "fd", "nbytes", "private", "writable", NULL };
	struct tensor_mapping *self;
	unsigned long long bytes;
	int fd, private = 0, writable = 0;
	void *data;

	if (!PyArg_ParseTupleAndKeywords(args, named, "iK|pp", names, &fd,
					 &bytes, &private, &writable))
		return NULL;
	writable |= private;
	data = mmap(NULL, (size_t)bytes,
		    writable ? PROT_READ | PROT_WRITE : PROT_READ,
		    private ? MAP_PRIVATE | MAP_NORESERVE : MAP_SHARED, fd, 0);
	if (data == MAP_FAILED) {
		PyErr_SetFromErrno(PyExc_OSError);
		close(fd);
		return NULL;
	}
	self = (struct tensor_mapping *)PyType_GenericAlloc(type, 0);
	if (self == NULL) {
		munmap(data, (size_t)bytes);
		close(fd);
		return NULL;
	}
	self->data = data;
	self->bytes = (size_t)bytes;
	self->fd = fd;
	self->writable = writable != 0;
	return (PyObject *)self;
}

static void mapping_end(PyObject *object)
{
	struct tensor_mapping *self = (struct tensor_mapping *)object;

	if (self->data != NULL) {
		munmap(self->data, self->bytes);
		close(self->fd);
	}
}

static void mapping_dealloc(PyObject *self)
{
	core_dealloc(self, mapping_end);
}

static int mapping_getbuffer(PyObject *object, Py_buffer *view, int flags)
{
	struct tensor_mapping *self = (struct tensor_mapping *)object;

	return PyBuffer_FillInfo(view, object, self->data,
				 (Py_ssize_t)self->bytes, !self->writable,
				 flags);
}

static PyObject *mapping_fd(PyObject *object, PyObject *unused)
{
	(void)unused;
	return PyLong_FromLong(((struct tensor_mapping *)object)->fd);
}

static PyObject *mapping_address(PyObject *object, void *unused)
{
	(void)unused;
	return PyLong_FromVoidPtr(((struct tensor_mapping *)object)->data);
}

/* ---- tensors ------------------------------------------------------------ */

static bool tensor_shape(struct core_tensor *self, PyObject *shape)
{
	Py_ssize_t n = PyTuple_Size(shape);
	uint64_t elements_of = 1;

	if (n < 0 || n > 64) {
		PyErr_SetString(PyExc_ValueError, "too many dimensions");
		return false;
	}
	self->n_dims = (int)n;
	self->shape = calloc((size_t)(2 * n + 1), sizeof(*self->shape));
	if (self->shape == NULL) {
		PyErr_NoMemory();
		return false;
	}
	for (Py_ssize_t i = n - 1; i >= 0; i--) {
		Py_ssize_t one = PyLong_AsSsize_t(PyTuple_GetItem(shape, i));

		if (one < 0) {
			if (!PyErr_Occurred())
				PyErr_SetString(PyExc_ValueError,
						"a negative dimension");
			return false;
		}
		self->shape[i] = one;
		if (self->element != NULL)
			self->shape[n + i] = (Py_ssize_t)(elements_of *
							  self->element->bytes);
		if (__builtin_mul_overflow(elements_of, (uint64_t)one,
					   &elements_of) ||
		    elements_of > PY_SSIZE_T_MAX / 8) {
			PyErr_SetString(PyExc_ValueError, "too many elements");
			return false;
		}
	}
	/* Blocks of several elements, or a lying header: bytes only. */
	if (self->element != NULL &&
	    elements_of * self->element->bytes != self->bytes)
		self->element = NULL;
	return true;
}

/* Tensor(owner, at, nbytes, type, shape): a part of the buffer that owner has;
 * None: in memory that this process does not reach. */
static PyObject *tensor_new(PyTypeObject *type, PyObject *args, PyObject *named)
{
	unsigned long long at, bytes;
	struct core_tensor *self;
	PyObject *owner, *shape;
	const char *text;

	if (named != NULL && PyDict_Size(named) != 0) {
		PyErr_SetString(PyExc_TypeError, "no keywords here");
		return NULL;
	}
	if (!PyArg_ParseTuple(args, "OKKsO!", &owner, &at, &bytes, &text,
			      &PyTuple_Type, &shape))
		return NULL;
	self = (struct core_tensor *)PyType_GenericAlloc(type, 0);
	if (self == NULL)
		return NULL;
	self->element = core_element_find(text);
	self->bytes = bytes;
	if (!tensor_shape(self, shape))
		goto failed;
	self->flat[0] = (Py_ssize_t)bytes;
	self->flat[1] = 1;
	if (owner == Py_None)
		return (PyObject *)self;
	if (PyObject_GetBuffer(owner, &self->memory, PyBUF_SIMPLE) != 0)
		goto failed;
	if (at > (uint64_t)self->memory.len ||
	    bytes > (uint64_t)self->memory.len - at) {
		PyErr_SetString(PyExc_ValueError, "past the end of its memory");
		goto failed;
	}
	self->data = (const char *)self->memory.buf + at;
	self->writable = !self->memory.readonly;
	return (PyObject *)self;
failed:
	Py_DECREF(self);
	return NULL;
}

static void tensor_end(PyObject *object)
{
	struct core_tensor *self = (struct core_tensor *)object;

	free(self->shape);
	PyBuffer_Release(&self->memory); /* nothing if there is none */
}

static void tensor_dealloc(PyObject *self)
{
	core_dealloc(self, tensor_end);
}

static int tensor_traverse(PyObject *object, visitproc visit, void *arg)
{
	Py_VISIT(Py_TYPE(object));
	Py_VISIT(((struct core_tensor *)object)->memory.obj);
	return 0;
}

static int tensor_getbuffer(PyObject *object, Py_buffer *view, int flags)
{
	struct core_tensor *self = (struct core_tensor *)object;
	const struct core_element *element = self->element;
	bool bytes = element == NULL || element->format == NULL;

	view->obj = NULL;
	if (self->data == NULL) {
		PyErr_SetString(PyExc_BufferError,
				"the tensor is not in memory that this process "
				"can read; its row is a GPU");
		return -1;
	}
	if ((flags & PyBUF_WRITABLE) == PyBUF_WRITABLE && !self->writable) {
		PyErr_SetString(PyExc_BufferError,
				"shared tensors are read-only; copy it, or use "
				"a private mapping");
		return -1;
	}
	view->buf = (void *)(uintptr_t)self->data;
	view->obj = Py_NewRef(object);
	view->len = (Py_ssize_t)self->bytes;
	view->readonly = !self->writable;
	view->itemsize = bytes ? 1 : element->bytes;
	view->ndim = bytes ? 1 : self->n_dims;
	view->shape = bytes ? self->flat : self->shape;
	view->strides = bytes ? self->flat + 1 : self->shape + self->n_dims;
	view->suboffsets = NULL;
	view->internal = NULL;
	view->format = (flags & PyBUF_FORMAT) != PyBUF_FORMAT ? NULL
		       : bytes                                ? (char *)"B"
			       : (char *)(uintptr_t)element->format;
	if ((flags & PyBUF_ND) != PyBUF_ND) {
		view->shape = NULL;
		view->ndim = 1;
	}
	if ((flags & PyBUF_STRIDES) != PyBUF_STRIDES)
		view->strides = NULL;
	return 0;
}

static PyObject *tensor_address(PyObject *object, void *unused)
{
	(void)unused;
	return PyLong_FromVoidPtr(
		(void *)(uintptr_t)((struct core_tensor *)object)->data);
}

static PyObject *tensor_nbytes(PyObject *object, void *unused)
{
	(void)unused;
	return PyLong_FromUnsignedLongLong(
		((struct core_tensor *)object)->bytes);
}

static PyMethodDef mapping_methods[] = {
	{ "fileno", mapping_fd, METH_NOARGS,
	  "fileno($self, /)\n--\n\nThe descriptor, which the mapping owns." },
	{ NULL, NULL, 0, NULL },
};

static PyGetSetDef mapping_getset[] = {
	{ "address", mapping_address, NULL, "Where it is in this process.",
	  NULL },
	{ NULL, NULL, NULL, NULL, NULL },
};

static PyMethodDef tensor_methods[] = {
	{ "__dlpack__", (PyCFunction)(void (*)(void))core_tensor_dlpack,
	  METH_VARARGS | METH_KEYWORDS,
	  "__dlpack__($self, /, *, stream=None, max_version=None,\n"
	  "           dl_device=None, copy=None)\n--\n\n"
	  "A capsule of the tensor's own memory, which keeps it alive.\n\n"
	  "BufferError: the memory is out of reach, its type is none of\n"
	  "DLPack's, or a copy was asked for." },
	{ "__dlpack_device__", core_tensor_dlpack_device, METH_NOARGS,
	  "__dlpack_device__($self, /)\n--\n\n"
	  "(1, 0): the memory of the CPU." },
	{ NULL, NULL, 0, NULL },
};

static PyGetSetDef tensor_getset[] = {
	{ "address", tensor_address, NULL,
	  "Where it is in this process; 0: out of reach.", NULL },
	{ "nbytes", tensor_nbytes, NULL, "How large it is.", NULL },
	{ NULL, NULL, NULL, NULL, NULL },
};

const struct core_type core_mapping_spec = {
	.name = "gpumap._core.Mapping",
	.doc = "A descriptor's memory, mapped.",
	.bytes = sizeof(struct tensor_mapping),
	.new = mapping_new,
	.dealloc = mapping_dealloc,
	.methods = (PyMethodDef *const[]){ mapping_methods, NULL },
	.getset = mapping_getset,
	.getbuffer = mapping_getbuffer,
};

const struct core_type core_tensor_spec = {
	.name = "gpumap._core.Tensor",
	.doc = "Elements in memory that an object keeps.",
	.bytes = sizeof(struct core_tensor),
	.new = tensor_new,
	.dealloc = tensor_dealloc,
	.traverse = tensor_traverse,
	.methods = (PyMethodDef *const[]){ tensor_methods, NULL },
	.getset = tensor_getset,
	.getbuffer = tensor_getbuffer,
};
