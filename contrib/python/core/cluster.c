/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "core.h"

#include <errno.h>
#include <string.h>

/* cluster.c - the nodes of a cluster, their devices and shares. */

#define CLUSTER_ATTEMPTS 100 /* at a whole cluster of one publication */

CORE_STRUCT(head_fields, gpumap_cluster, name, node, version, published_ns,
	    age_ns, limit_ns, stale, n_nodes, n_gone, n_refused, n_devices,
	    n_shares);

CORE_STRUCT(node_fields, gpumap_cluster_node, name, address, state, flags,
	    age_ns, epoch, agent_version, more_devices, more_shares);

CORE_STRUCT(device_fields, gpumap_cluster_device, row, uuid, name, kind, state,
	    flags, numa_node, cc_major, cc_minor, total_bytes, free_bytes,
	    reserved_bytes, used_by_holders, links);

CORE_STRUCT(share_fields, gpumap_cluster_share, uid, flags, name, bytes, rows,
	    fingerprint);

/* ---- read ---------------------------------------------------------------- */

/* The list calls return 1 with an item.  Anything else, after a node was read,
 * is of another publication, unless it is an error. */
static int one_of(int ret, uint64_t version, uint64_t wanted)
{
	if (ret == 0 || ret == -ERANGE || ret == -ENOENT ||
	    (ret == 1 && version != wanted))
		return -EAGAIN;
	return ret < 0 ? ret : 0;
}

/* Append the node that @cursor is at: (facts, [device], [share]).  Returns 0 or
 * a negative errno; *list is NULL after an exception. */
static int append_node(const struct gpumap *map, uint64_t version,
		       uint32_t *cursor, PyObject **list)
{
	struct gpumap_cluster_node node = { .size = sizeof(node) };
	int ret = gpumap_cluster_next_node(map, cursor, &node);
	PyObject *devices, *shares;
	uint32_t at = 0;

	ret = one_of(ret, node.version, version);
	if (ret != 0)
		return ret;
	devices = PyList_New(0);
	shares = PyList_New(0);
	for (uint32_t i = 0; ret == 0 && i < node.n_devices; i++) {
		struct gpumap_cluster_device one = { .size = sizeof(one) };

		ret = gpumap_cluster_next_device(map, node.index, &at, &one);
		ret = one_of(ret, one.version, version);
		if (ret == 0)
			core_append(&devices, core_read(&device_fields, &one));
	}
	at = 0;
	for (uint32_t i = 0; ret == 0 && i < node.n_shares; i++) {
		struct gpumap_cluster_share one = { .size = sizeof(one) };

		ret = gpumap_cluster_next_share(map, node.index, NULL, &at,
						&one);
		ret = one_of(ret, one.version, version);
		if (ret == 0)
			core_append(&shares, core_read(&share_fields, &one));
	}
	core_append(list, Py_BuildValue("NNN", core_read(&node_fields, &node),
					devices, shares));
	return ret;
}

/* The facts without the nodes: no more work where there are many. */
static PyObject *cluster_totals(PyObject *object, PyObject *unused)
{
	struct core_map *self = (struct core_map *)object;
	struct gpumap_cluster head = { .size = sizeof(head) };
	const struct gpumap *map = core_map_use(self);
	int ret;

	(void)unused;
	if (map == NULL)
		return NULL;
	ret = gpumap_cluster_read(map, &head);
	core_map_unuse(self);
	return ret == 0 ? core_read(&head_fields, &head)
			: core_fail_bare("gpumap_cluster_read", ret);
}

/* (facts, [(facts, [device], [share])]), all of one publication */
static PyObject *cluster_read(PyObject *object, PyObject *unused)
{
	struct core_map *self = (struct core_map *)object;
	struct gpumap_cluster head = { .size = sizeof(head) };
	const struct gpumap *map = core_map_use(self);
	PyObject *nodes = NULL;
	int ret = -EAGAIN;

	(void)unused;
	if (map == NULL)
		return NULL;
	for (int i = 0; ret == -EAGAIN && i < CLUSTER_ATTEMPTS; i++) {
		uint32_t cursor = 0;

		Py_XDECREF(nodes);
		nodes = PyList_New(0);
		ret = gpumap_cluster_read(map, &head);
		for (uint32_t n = 0;
		     ret == 0 && nodes != NULL && n < head.n_nodes; n++)
			ret = append_node(map, head.version, &cursor, &nodes);
		if (nodes == NULL)
			break;
	}
	core_map_unuse(self);
	if (nodes != NULL && ret == 0)
		return Py_BuildValue("NN", core_read(&head_fields, &head),
				     nodes);
	Py_XDECREF(nodes);
	return PyErr_Occurred() ? NULL
				: core_fail_bare("gpumap_cluster_read", ret);
}

/* ---- publish ------------------------------------------------------------- */

CORE_STRUCT(request_fields, gpumap_cluster_request, name, node, limit_ns,
	    flags);

/* Zeroed room for @n structs, which @keep has.  Returns NULL with an
 * exception. */
static void *cluster_room(PyObject *keep, Py_ssize_t n, size_t bytes)
{
	Py_ssize_t all = n * (Py_ssize_t)bytes;
	PyObject *room = PyBytes_FromStringAndSize(NULL, all);
	void *at = NULL;

	if (room != NULL && PyList_Append(keep, room) == 0)
		at = memset(PyBytes_AsString(room), 0, (size_t)all);
	Py_XDECREF(room);
	return at;
}

/* Read (facts, [device], [share], is it to be removed).  Returns false with an
 * exception. */
static bool cluster_entry(PyObject *tuple, PyObject *keep,
			  struct gpumap_cluster_entry *entry)
{
	struct gpumap_cluster_device *devices;
	struct gpumap_cluster_share *shares;
	struct gpumap_cluster_node *node;
	PyObject *dict, *all[2];
	Py_ssize_t n[2];
	int remove;

	if (!core_is_tuple(tuple) ||
	    !PyArg_ParseTuple(tuple, "OO!O!p", &dict, &PyList_Type, &all[0],
			      &PyList_Type, &all[1], &remove))
		return false;
	n[0] = PyList_Size(all[0]);
	n[1] = PyList_Size(all[1]);
	if (n[0] > GPUMAP_CLUSTER_ROWS_MAX ||
	    n[1] > GPUMAP_CLUSTER_SHARES_MAX) {
		PyErr_SetString(PyExc_ValueError,
				"64 devices and 64 shares of a node at most");
		return false;
	}
	node = cluster_room(keep, 1, sizeof(*node));
	devices = cluster_room(keep, n[0], sizeof(*devices));
	shares = cluster_room(keep, n[1], sizeof(*shares));
	if (node == NULL || devices == NULL || shares == NULL)
		return false;
	node->size = sizeof(*node);
	if (core_write(&node_fields, node, dict, keep) != 0)
		return false;
	for (Py_ssize_t i = 0; i < n[0]; i++) {
		devices[i].size = sizeof(devices[i]);
		if (core_write(&device_fields, &devices[i],
			       PyList_GetItem(all[0], i), keep) != 0)
			return false;
	}
	for (Py_ssize_t i = 0; i < n[1]; i++) {
		shares[i].size = sizeof(shares[i]);
		if (core_write(&share_fields, &shares[i],
			       PyList_GetItem(all[1], i), keep) != 0)
			return false;
	}
	entry->node = node;
	entry->devices = devices;
	entry->n_devices = (uint32_t)n[0];
	entry->shares = shares;
	entry->n_shares = (uint32_t)n[1];
	entry->remove = (uint32_t)remove;
	return true;
}

/* (request, [(facts, [device], [share], is it to be removed)]) */
static PyObject *cluster_publish(PyObject *object, PyObject *args)
{
	struct core_map *self = (struct core_map *)object;
	struct gpumap_cluster_request request = { .size = sizeof(request) };
	PyObject *dict, *list, *keep = PyList_New(0), *made = NULL;
	struct gpumap_cluster_entry *entries;
	struct gpumap *map;
	Py_ssize_t n;
	int ret;

	if (keep == NULL ||
	    !PyArg_ParseTuple(args, "OO!", &dict, &PyList_Type, &list) ||
	    core_write(&request_fields, &request, dict, keep) != 0)
		goto out;
	n = PyList_Size(list);
	if (n > GPUMAP_CLUSTER_NODES_MAX) {
		PyErr_Format(PyExc_ValueError, "%d nodes at most",
			     GPUMAP_CLUSTER_NODES_MAX);
		goto out;
	}
	entries = cluster_room(keep, n, sizeof(*entries));
	if (entries == NULL)
		goto out;
	for (Py_ssize_t i = 0; i < n; i++)
		if (!cluster_entry(PyList_GetItem(list, i), keep, &entries[i]))
			goto out;
	request.entries = entries;
	request.n_entries = (uint32_t)n;
	map = core_map_use(self);
	if (map == NULL)
		goto out;
	CORE_UNLOCK();
	ret = gpumap_cluster_publish(map, &request);
	CORE_LOCK();
	made = core_map_result(self, "gpumap_cluster_publish", ret);
out:
	Py_XDECREF(keep);
	return made;
}

PyMethodDef core_map_cluster_methods[] = {
	{ "_cluster_read", cluster_read, METH_NOARGS, NULL },
	{ "_cluster_totals", cluster_totals, METH_NOARGS, NULL },
	{ "_cluster_publish", cluster_publish, METH_VARARGS, NULL },
	{ NULL, NULL, 0, NULL },
};
