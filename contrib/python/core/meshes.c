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
	    units, n_cards, n_host, n_dummy, n_ready);

/* name -> (facts, rows) */
static int read_mesh(const struct gpumap *map, const char *name,
		     struct gpumap_mesh *mesh, struct core_out *out)
{
	int ret = gpumap_mesh_read(map, name, mesh, out->rows[0],
				   GPUMAP_ROWS_MAX);

	out->n_rows = mesh->world;
	return ret;
}

CORE_METHOD(meshes_read, map, reads, "s", "ST", "gpumap_mesh_read",
	    read_mesh(map, in[0].text, out->facts, out), .facts = &mesh_fields);

/* (name, group or None) -> (facts, ranks, rows) */
static int read_group(const struct gpumap *map, const union core_value *in,
		      struct gpumap_mesh_group *group, struct core_out *out)
{
	int ret =
		gpumap_mesh_group(map, in[0].text, in[1].text, group,
				  out->rows[0], out->rows[1], GPUMAP_ROWS_MAX);

	out->n_rows = group->n;
	return ret;
}

CORE_METHOD(meshes_group, map, reads, "sz", "STT", "gpumap_mesh_group",
	    read_group(map, in, out->facts, out), .facts = &group_fields);

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
static int read_place(const struct gpumap *map, const char *name, uint32_t rank,
		      struct core_out *out)
{
	struct gpumap_mesh mesh = { .size = sizeof(mesh) };
	struct gpumap_mesh_place place = { 0 };
	int ret = gpumap_mesh_read(map, name, &mesh, NULL, 0);

	if (ret < 0)
		return ret;
	out->call = "gpumap_mesh_place";
	ret = gpumap_mesh_place(&mesh, rank, &place);
	out->numbers[0] = place.tp;
	out->numbers[1] = place.pp;
	out->numbers[2] = place.dp;
	return ret;
}

CORE_METHOD(meshes_place, map, reads, "sI", "KKK", "gpumap_mesh_read",
	    read_place(map, in[0].text, in[1].u32, out));

CORE_CALL(meshes_stats, map, reads, "s", "S", gpumap_mesh_stats,
	  (map, in[0].text, out->facts), .facts = &stats_fields);

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
static int join_mesh(struct gpumap *map, const union core_value *in,
		     struct core_out *out)
{
	struct gpumap_mesh_join join = {
		.size = sizeof(join),
		.mesh = in[0].text,
		.group = in[1].text,
		.epoch = in[2].u64,
		.rank = in[3].u32,
		.version = in[4].u32,
		.id = in[5].text,
		/* 1: it has passed; 0 would be none */
		.deadline_ns = in[6].deadline_ns == 0 ? 1 : in[6].deadline_ns,
	};

	return gpumap_mesh_join(map, &join, out->id, out->numbers);
}

CORE_METHOD(meshes_join, map, asks, "szKIIJD", "JK", "gpumap_mesh_join",
	    join_mesh(map, in, out));

CORE_CALL(meshes_leave, map, asks, "KI", "i", gpumap_mesh_leave,
	  (map, in[0].u64, in[1].u32));

PyMethodDef core_map_mesh_methods[] = {
	{ "_mesh_read", meshes_read, METH_VARARGS, NULL },
	{ "_mesh_group", meshes_group, METH_VARARGS, NULL },
	{ "_mesh_groups", meshes_groups, METH_VARARGS, NULL },
	{ "_mesh_place", meshes_place, METH_VARARGS, NULL },
	{ "_mesh_stats", meshes_stats, METH_VARARGS, NULL },
	{ "_mesh_publish", meshes_publish, METH_VARARGS, NULL },
	{ "_mesh_join", meshes_join, METH_VARARGS, NULL },
	{ "_mesh_leave", meshes_leave, METH_VARARGS, NULL },
	{ NULL, NULL, 0, NULL },
};
