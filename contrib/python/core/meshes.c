/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "core.h"

#include <errno.h>

/* meshes.c - meshes and their groups. */

CORE_STRUCT(mesh_fields, gpumap_mesh, name, version, published_ns, owner_uid,
	    topology, world, expected, tp, pp, dp, n_groups, n_added);

CORE_STRUCT(group_fields, gpumap_mesh_group, name, version, epoch, backend, n,
	    index, within, whole);

CORE_STRUCT(stats_fields, gpumap_mesh_stats, world, n_groups, total_bytes,
	    units, n_cuda, n_host, n_dummy, n_ready);

/* name -> (facts, rows) */
static PyObject *meshes_read(PyObject *object, PyObject *arg)
{
	struct core_map *self = (struct core_map *)object;
	struct gpumap_mesh mesh = { .size = sizeof(mesh) };
	const char *name = core_name(arg);
	uint32_t rows[GPUMAP_ROWS_MAX];
	const struct gpumap *map;
	int ret;

	if (name == NULL)
		return NULL;
	map = core_map_use(self);
	if (map == NULL)
		return NULL;
	ret = gpumap_mesh_read(map, name, &mesh, rows, GPUMAP_ROWS_MAX);
	core_map_unuse(self);
	if (ret < 0)
		return core_fail_bare("gpumap_mesh_read", ret);
	return Py_BuildValue("NN", core_read(&mesh_fields, &mesh),
			     core_u32_tuple(rows, mesh.world));
}

/* (name, group or None) -> (facts, ranks, rows) */
static PyObject *meshes_group(PyObject *object, PyObject *args)
{
	struct core_map *self = (struct core_map *)object;
	struct gpumap_mesh_group group = { .size = sizeof(group) };
	uint32_t ranks[GPUMAP_ROWS_MAX], rows[GPUMAP_ROWS_MAX];
	const char *name, *which;
	const struct gpumap *map;
	int ret;

	if (!PyArg_ParseTuple(args, "sz", &name, &which))
		return NULL;
	map = core_map_use(self);
	if (map == NULL)
		return NULL;
	ret = gpumap_mesh_group(map, name, which, &group, ranks, rows,
				GPUMAP_ROWS_MAX);
	core_map_unuse(self);
	if (ret < 0)
		return core_fail_bare("gpumap_mesh_group", ret);
	return Py_BuildValue("NNN", core_read(&group_fields, &group),
			     core_u32_tuple(ranks, group.n),
			     core_u32_tuple(rows, group.n));
}

/* (name, rank or GPUMAP_MESH_ANY) -> [facts] of one publication */
static PyObject *meshes_groups(PyObject *object, PyObject *args)
{
	struct core_map *self = (struct core_map *)object;
	struct gpumap_mesh_group group = { .size = sizeof(group) };
	PyObject *list = NULL;
	const struct gpumap *map;
	uint64_t version = 0;
	unsigned int rank;
	const char *name;
	int ret = -EAGAIN;

	if (!PyArg_ParseTuple(args, "sI", &name, &rank))
		return NULL;
	map = core_map_use(self);
	if (map == NULL)
		return NULL;
	for (int i = 0; ret == -EAGAIN && i < 16; i++) {
		uint32_t cursor = 0;

		Py_XDECREF(list);
		list = PyList_New(0);
		while (list != NULL &&
		       (ret = gpumap_mesh_next_group(map, name, rank, &cursor,
						     &group)) == 1) {
			if (PyList_Size(list) == 0)
				version = group.version;
			if (group.version != version) {
				ret = -EAGAIN;
				break;
			}
			core_append(&list, core_read(&group_fields, &group));
		}
		if (list == NULL)
			break;
	}
	core_map_unuse(self);
	if (list == NULL || ret >= 0)
		return list;
	Py_DECREF(list);
	return core_fail_bare("gpumap_mesh_next_group", ret);
}

/* (name, rank) -> (tp, pp, dp) */
static PyObject *meshes_place(PyObject *object, PyObject *args)
{
	struct core_map *self = (struct core_map *)object;
	struct gpumap_mesh mesh = { .size = sizeof(mesh) };
	struct gpumap_mesh_place place;
	const struct gpumap *map;
	unsigned int rank;
	const char *name;
	int ret;

	if (!PyArg_ParseTuple(args, "sI", &name, &rank))
		return NULL;
	map = core_map_use(self);
	if (map == NULL)
		return NULL;
	ret = gpumap_mesh_read(map, name, &mesh, NULL, 0);
	core_map_unuse(self);
	if (ret < 0)
		return core_fail_bare("gpumap_mesh_read", ret);
	ret = gpumap_mesh_place(&mesh, rank, &place);
	if (ret < 0)
		return core_fail_bare("gpumap_mesh_place", ret);
	return Py_BuildValue("III", place.tp, place.pp, place.dp);
}

static PyObject *meshes_stats(PyObject *object, PyObject *arg)
{
	struct core_map *self = (struct core_map *)object;
	struct gpumap_mesh_stats stats = { .size = sizeof(stats) };
	const char *name = core_name(arg);
	const struct gpumap *map;
	int ret;

	if (name == NULL)
		return NULL;
	map = core_map_use(self);
	if (map == NULL)
		return NULL;
	ret = gpumap_mesh_stats(map, name, &stats);
	core_map_unuse(self);
	if (ret < 0)
		return core_fail_bare("gpumap_mesh_stats", ret);
	return core_read(&stats_fields, &stats);
}

/* ---- publish ------------------------------------------------------------ */

CORE_STRUCT_LISTS(request_fields, gpumap_mesh_request,
		  (CORE_LIST(gpumap_mesh_request, rows, n_rows)), name,
		  topology, tp, pp, dp);

CORE_STRUCT_LISTS(added_fields, gpumap_mesh_added,
		  (CORE_LIST(gpumap_mesh_added, ranks, n)), name, backend);

#define MESHES_ADDED_MAX 64

/* (request, [added group]) */
static PyObject *meshes_publish(PyObject *object, PyObject *args)
{
	struct core_map *self = (struct core_map *)object;
	struct gpumap_mesh_request request = { .size = sizeof(request) };
	struct gpumap_mesh_added added[MESHES_ADDED_MAX] = { 0 };
	PyObject *dict, *list, *keep = PyList_New(0), *made = NULL;
	struct gpumap *map;
	Py_ssize_t n;
	int ret;

	if (keep == NULL ||
	    !PyArg_ParseTuple(args, "O!O!", &PyDict_Type, &dict, &PyList_Type,
			      &list) ||
	    core_write(&request_fields, &request, dict, keep) != 0)
		goto out;
	n = PyList_Size(list);
	if (n > MESHES_ADDED_MAX) {
		PyErr_SetString(PyExc_ValueError, "64 added groups at most");
		goto out;
	}
	for (Py_ssize_t i = 0; i < n; i++)
		if (core_write(&added_fields, &added[i],
			       PyList_GetItem(list, i), keep) != 0)
			goto out;
	request.added = n == 0 ? NULL : added;
	request.n_added = (uint32_t)n;
	map = core_map_use(self);
	if (map == NULL)
		goto out;
	CORE_UNLOCK();
	ret = gpumap_mesh_publish(map, &request);
	CORE_LOCK();
	made = core_map_result(self, "gpumap_mesh_publish", ret);
out:
	Py_XDECREF(keep);
	return made;
}

/* ---- join --------------------------------------------------------------- */

/* (mesh, group, epoch, rank, version, id or None, seconds) -> (id, ticket) */
static PyObject *meshes_join(PyObject *object, PyObject *args)
{
	struct core_map *self = (struct core_map *)object;
	struct gpumap_mesh_join join = { .size = sizeof(join) };
	uint8_t id[GPUMAP_MESH_ID_BYTES];
	unsigned long long epoch;
	PyObject *seconds;
	struct gpumap *map;
	const char *bytes;
	uint64_t ticket;
	Py_ssize_t n;
	int ret;

	if (!PyArg_ParseTuple(args, "szKIIz#O", &join.mesh, &join.group, &epoch,
			      &join.rank, &join.version, &bytes, &n,
			      &seconds) ||
	    !core_deadline(seconds, &join.deadline_ns))
		return NULL;
	if (bytes != NULL && n != GPUMAP_MESH_ID_BYTES)
		return PyErr_Format(PyExc_ValueError, "an id has %d bytes",
				    GPUMAP_MESH_ID_BYTES);
	if (join.deadline_ns == 0)
		join.deadline_ns = 1; /* it has passed; 0 would be none */
	join.epoch = epoch;
	join.id = bytes;
	map = core_map_use(self);
	if (map == NULL)
		return NULL;
	CORE_UNLOCK();
	ret = gpumap_mesh_join(map, &join, id, &ticket);
	CORE_LOCK();
	if (ret < 0)
		return core_map_result(self, "gpumap_mesh_join", ret);
	core_map_unuse(self);
	return Py_BuildValue("y#K", (const char *)id, (Py_ssize_t)sizeof(id),
			     (unsigned long long)ticket);
}

static PyObject *meshes_leave(PyObject *object, PyObject *args)
{
	struct core_map *self = (struct core_map *)object;
	unsigned long long ticket;
	struct gpumap *map;
	unsigned int flags;
	int ret;

	if (!PyArg_ParseTuple(args, "KI", &ticket, &flags))
		return NULL;
	map = core_map_use(self);
	if (map == NULL)
		return NULL;
	CORE_UNLOCK();
	ret = gpumap_mesh_leave(map, ticket, flags);
	CORE_LOCK();
	return core_map_result(self, "gpumap_mesh_leave", ret);
}

PyMethodDef core_map_mesh_methods[] = {
	{ "_mesh_read", meshes_read, METH_O, NULL },
	{ "_mesh_group", meshes_group, METH_VARARGS, NULL },
	{ "_mesh_groups", meshes_groups, METH_VARARGS, NULL },
	{ "_mesh_place", meshes_place, METH_VARARGS, NULL },
	{ "_mesh_stats", meshes_stats, METH_O, NULL },
	{ "_mesh_publish", meshes_publish, METH_VARARGS, NULL },
	{ "_mesh_join", meshes_join, METH_VARARGS, NULL },
	{ "_mesh_leave", meshes_leave, METH_VARARGS, NULL },
	{ NULL, NULL, 0, NULL },
};
