/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "core.h"

#include <errno.h>

/* layers.c - views: one lookup for each call, at the speed of a method. */

struct layers_view {
	PyObject_HEAD struct core_map *map;
	struct gpumap_view view;
};

static PyObject *layers_fail(int error)
{
	if (error == -ERANGE) {
		PyErr_SetString(PyExc_IndexError, "no such entry");
		return NULL;
	}
	return core_fail_bare("gpumap_view_refresh", error);
}

/* An entry, of the publication of this moment. */
static int layers_get(struct layers_view *self, uint32_t index)
{
	int ret = gpumap_view_get(&self->view, index);

	for (int i = 0; ret == -EAGAIN && i < 64; i++) {
		int err = gpumap_view_refresh(self->map->map, &self->view);

		if (err != 0 && err != -EAGAIN)
			return err;
		ret = gpumap_view_get(&self->view, index);
	}
	return ret;
}

static PyObject *layers_row(PyObject *object, PyObject *arg)
{
	struct layers_view *self = (struct layers_view *)object;
	Py_ssize_t index = PyLong_AsSsize_t(arg);
	int ret;

	if (index == -1 && PyErr_Occurred())
		return NULL;
	if (self->map->map == NULL || self->map->closed)
		return PyErr_Format(PyExc_ValueError, "the map is closed");
	if (index < 0 && index >= -(Py_ssize_t)self->view.n)
		index += self->view.n;
	ret = index < 0 || index > UINT32_MAX
		      ? -ERANGE
		      : layers_get(self, (uint32_t)index);
	return ret < 0 ? layers_fail(ret) : PyLong_FromLong(ret);
}

static PyObject *layers_item(PyObject *object, Py_ssize_t index)
{
	struct layers_view *self = (struct layers_view *)object;
	int ret;

	if (self->map->map == NULL || self->map->closed)
		return PyErr_Format(PyExc_ValueError, "the map is closed");
	ret = index < 0 || index > UINT32_MAX
		      ? -ERANGE
		      : layers_get(self, (uint32_t)index);
	return ret < 0 ? layers_fail(ret) : PyLong_FromLong(ret);
}

static Py_ssize_t layers_length(PyObject *object)
{
	struct layers_view *self = (struct layers_view *)object;

	/* Another publication may have another length. */
	if (self->map->map != NULL && !self->map->closed)
		layers_get(self, 0);
	return self->view.n;
}

/* View(map, name, group=None, table=0): of a layer map, or of a mesh's group if
 * there is a table. */
static PyObject *layers_new(PyTypeObject *type, PyObject *args, PyObject *named)
{
	static char *names[] = { "map", "name", "group", "table", NULL };
	const char *name, *group = NULL;
	struct layers_view *self;
	struct gpumap_view view;
	unsigned int table = 0;
	const struct gpumap *map;
	PyObject *owner;
	int ret;

	if (!PyArg_ParseTupleAndKeywords(args, named, "O!s|zI", names,
					 core_map_type, &owner, &name, &group,
					 &table))
		return NULL;
	map = core_map_use((struct core_map *)owner);
	if (map == NULL)
		return NULL;
	ret = table == 0 ? gpumap_layers_view(map, name, &view)
			 : gpumap_mesh_view(map, name, group, table, &view);
	core_map_unuse((struct core_map *)owner);
	if (ret < 0)
		return core_fail_bare(table == 0 ? "gpumap_layers_view"
						 : "gpumap_mesh_view",
				      ret);
	self = (struct layers_view *)PyType_GenericAlloc(type, 0);
	if (self == NULL)
		return NULL;
	self->map = (struct core_map *)Py_NewRef(owner);
	self->view = view;
	return (PyObject *)self;
}

static void layers_dealloc(PyObject *self)
{
	core_dealloc_owned(self, NULL);
}

static PyMethodDef layers_methods[] = {
	{ "row", layers_row, METH_O,
	  "row($self, index, /)\n--\n\n"
	  "The entry at index: of a layer map, the row that holds the layer.\n"
	  "\n"
	  "IndexError: no such entry.  NotFound: it was released.  Stale: the\n"
	  "map was retired, attach again.  Two loads, no system call." },
	{ NULL, NULL, 0, NULL },
};

const struct core_type core_view_spec = {
	.name = "gpumap._core.View",
	.doc = "A table of the map that follows publications.",
	.bytes = sizeof(struct layers_view),
	.new = layers_new,
	.dealloc = layers_dealloc,
	.traverse = core_traverse_owned,
	.methods = (PyMethodDef *const[]){ layers_methods, NULL },
	.item = layers_item,
	.length = layers_length,
};
