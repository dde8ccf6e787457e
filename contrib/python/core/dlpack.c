/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "core.h"

#include <stdlib.h>
#include <string.h>

/* dlpack.c - tensors as DLPack's capsules, of either kind. */

/* The structs of DLPack 1.1, as their documentation lays them out. */
struct dlpack_tensor {
	void *data;
	int32_t device_type; /* 1: CPU */
	int32_t device_id;
	int32_t n_dims;
	uint8_t code;
	uint8_t bits;
	uint16_t lanes;
	int64_t *shape;
	int64_t *strides; /* in elements */
	uint64_t byte_offset;
};

struct dlpack_managed {
	struct dlpack_tensor tensor;
	void *context;
	void (*deleter)(struct dlpack_managed *self);
};

struct dlpack_versioned {
	uint32_t major;
	uint32_t minor;
	void *context;
	void (*deleter)(struct dlpack_versioned *self);
	uint64_t flags;
	struct dlpack_tensor tensor;
};

_Static_assert(sizeof(void *) != 8 || (sizeof(struct dlpack_tensor) == 48 &&
				       sizeof(struct dlpack_managed) == 64 &&
				       sizeof(struct dlpack_versioned) == 80),
	       "DLPack's structs have these sizes");

#define DLPACK_CPU       1
#define DLPACK_READ_ONLY UINT64_C(1)

/* The consumer may be done at any moment, on any thread, and after the
 * interpreter has ended: there is no object to give back then. */
static void dlpack_drop(PyObject *object)
{
	PyGILState_STATE state;

	if (!Py_IsInitialized())
		return;
	state = PyGILState_Ensure();
	Py_DECREF(object);
	PyGILState_Release(state);
}

static void dlpack_delete(struct dlpack_managed *self)
{
	PyObject *object = self->context;

	if (!Py_IsInitialized())
		return;
	free(self);
	dlpack_drop(object);
}

static void dlpack_delete_versioned(struct dlpack_versioned *self)
{
	PyObject *object = self->context;

	if (!Py_IsInitialized())
		return;
	free(self);
	dlpack_drop(object);
}

/* A consumer renames a capsule that it takes. */
static void dlpack_unused(PyObject *capsule)
{
	struct dlpack_managed *managed;
	struct dlpack_versioned *versioned;

	if (PyCapsule_IsValid(capsule, "dltensor")) {
		managed = PyCapsule_GetPointer(capsule, "dltensor");
		managed->deleter(managed);
	} else if (PyCapsule_IsValid(capsule, "dltensor_versioned")) {
		versioned = PyCapsule_GetPointer(capsule, "dltensor_versioned");
		versioned->deleter(versioned);
	}
}

static void dlpack_fill(struct core_tensor *self, struct dlpack_tensor *ret,
			int64_t *dims)
{
	const struct core_element *element = self->element;
	bool bytes = element == NULL || element->dl_code == 255;
	int n = bytes ? 1 : self->n_dims;
	int64_t stride = 1;

	for (int i = n - 1; i >= 0; i--) {
		dims[i] = bytes ? (int64_t)self->bytes : self->shape[i];
		dims[n + i] = stride;
		stride *= dims[i];
	}
	*ret = (struct dlpack_tensor){
		.data = self->bytes == 0 ? NULL : (void *)(uintptr_t)self->data,
		.device_type = DLPACK_CPU,
		.n_dims = n,
		.code = bytes ? 1 : element->dl_code,
		.bits = bytes ? 8 : (uint8_t)(element->bytes * 8),
		.lanes = 1,
		.shape = dims,
		.strides = dims + n,
	};
}

/* Does the caller know versioned capsules?  -1 with an exception. */
static int dlpack_is_versioned(PyObject *max_version)
{
	long major;

	if (max_version == Py_None)
		return 0;
	if (!PyTuple_Check(max_version) || PyTuple_Size(max_version) < 1) {
		PyErr_SetString(PyExc_TypeError, "max_version is a tuple");
		return -1;
	}
	major = PyLong_AsLong(PyTuple_GetItem(max_version, 0));
	if (major == -1 && PyErr_Occurred())
		return -1;
	return major >= 1;
}

static bool dlpack_allowed(struct core_tensor *self, PyObject *stream,
			   PyObject *device, PyObject *copy)
{
	long type, id;

	if (self->data == NULL) {
		PyErr_SetString(PyExc_BufferError,
				"the tensor is not in memory that this process "
				"can read; its row is a GPU");
		return false;
	}
	if (stream != Py_None) {
		PyErr_SetString(PyExc_BufferError,
				"memory of the CPU has no stream");
		return false;
	}
	if (copy != Py_None && PyObject_IsTrue(copy)) {
		PyErr_SetString(PyExc_BufferError,
				"gpumap makes no copies: copy the result");
		return false;
	}
	if (device == Py_None)
		return true;
	if (!core_is_tuple(device) ||
	    !PyArg_ParseTuple(device, "ll", &type, &id))
		return false;
	if (type == DLPACK_CPU && id == 0)
		return true;
	PyErr_SetString(PyExc_BufferError, "the tensor is on the CPU");
	return false;
}

PyObject *core_tensor_dlpack(PyObject *object, PyObject *args, PyObject *named)
{
	static char *names[] = { "stream", "max_version", "dl_device", "copy",
				 NULL };
	struct core_tensor *self = (struct core_tensor *)object;
	PyObject *stream = Py_None, *max_version = Py_None;
	PyObject *device = Py_None, *copy = Py_None, *capsule;
	size_t dims_bytes = 2 * ((size_t)self->n_dims + 1) * sizeof(int64_t);
	int versioned;
	void *block;

	if (!PyArg_ParseTupleAndKeywords(args, named, "|$OOOO", names, &stream,
					 &max_version, &device, &copy) ||
	    !dlpack_allowed(self, stream, device, copy))
		return NULL;
	versioned = dlpack_is_versioned(max_version);
	if (versioned < 0)
		return NULL;
	/* The struct and its shape are one block. */
	block = calloc(1, sizeof(struct dlpack_versioned) + dims_bytes);
	if (block == NULL)
		return PyErr_NoMemory();
	if (versioned) {
		struct dlpack_versioned *made = block;

		*made = (struct dlpack_versioned){
			.major = 1,
			.minor = 1,
			.context = object,
			.deleter = dlpack_delete_versioned,
			.flags = self->writable ? 0 : DLPACK_READ_ONLY,
		};
		dlpack_fill(self, &made->tensor, (int64_t *)(void *)(made + 1));
		capsule = PyCapsule_New(made, "dltensor_versioned",
					dlpack_unused);
	} else {
		struct dlpack_managed *made = block;

		*made = (struct dlpack_managed){
			.context = object,
			.deleter = dlpack_delete,
		};
		dlpack_fill(self, &made->tensor, (int64_t *)(void *)(made + 1));
		capsule = PyCapsule_New(made, "dltensor", dlpack_unused);
	}
	if (capsule == NULL)
		free(block);
	else
		Py_INCREF(object); /* the capsule's, or the consumer's */
	return capsule;
}

PyObject *core_tensor_dlpack_device(PyObject *object, PyObject *unused)
{
	(void)unused;
	if (((struct core_tensor *)object)->data == NULL)
		return PyErr_Format(PyExc_BufferError,
				    "the tensor is not in memory that this "
				    "process can read; its row is a GPU");
	return Py_BuildValue("ii", DLPACK_CPU, 0);
}
