/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "core.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* map.c - attachments: health, devices and what the map lists. */

PyTypeObject *core_map_type;

struct gpumap *core_map_use(struct core_map *self)
{
	if (self->map == NULL || self->closed) {
		PyErr_SetString(PyExc_ValueError, "the map is closed");
		return NULL;
	}
	self->users++;
	return self->map;
}

void core_map_unuse(struct core_map *self)
{
	if (--self->users != 0 || !self->closed)
		return;
	gpumap_detach(self->map);
	self->map = NULL;
}

PyObject *core_map_result(struct core_map *self, const char *call, int ret)
{
	PyObject *result = ret < 0 ? core_fail(self->map, call, ret)
				   : PyLong_FromLong(ret);

	core_map_unuse(self);
	return result;
}

/* Calls that store no reason, and make no system call that waits. */
static PyObject *map_fail_bare(PyObject *self, const char *call, int error)
{
	(void)self;
	return core_fail_bare(call, error);
}

static PyObject *map_fail(PyObject *self, const char *call, int error)
{
	return core_fail(((struct core_map *)self)->map, call, error);
}

static void *map_begin(PyObject *self)
{
	return core_map_use((struct core_map *)self);
}

static void map_end(PyObject *self)
{
	core_map_unuse((struct core_map *)self);
}

const struct core_handle core_map_asks = { map_begin, map_end, map_fail, true };
const struct core_handle core_map_reads = { map_begin, map_end, map_fail_bare,
					    false };

static PyObject *map_new(PyTypeObject *type, PyObject *args, PyObject *named)
{
	static char *names[] = { "instance", "runtime_dir", NULL };
	struct gpumap_attach_opts opts = { .size = sizeof(opts) };
	struct gpumap *map = NULL;
	struct core_map *self;
	int ret;

	if (!PyArg_ParseTupleAndKeywords(args, named, "|zz", names,
					 &opts.instance, &opts.runtime_dir))
		return NULL;
	self = (struct core_map *)PyType_GenericAlloc(type, 0);
	if (self == NULL)
		return NULL;
	self->closed = true;
	CORE_UNLOCK();
	ret = gpumap_attach(&opts, &map);
	CORE_LOCK();
	if (ret < 0) {
		core_fail(NULL, "gpumap_attach", ret);
		Py_DECREF(self);
		return NULL;
	}
	self->map = map;
	self->closed = false;
	return (PyObject *)self;
}

static PyObject *map_close(PyObject *object, PyObject *unused)
{
	struct core_map *self = (struct core_map *)object;

	(void)unused;
	if (self->closed)
		Py_RETURN_NONE;
	self->users++;
	self->closed = true;
	core_map_unuse(self);
	Py_RETURN_NONE;
}

static void map_end_all(PyObject *self)
{
	gpumap_detach(((struct core_map *)self)->map);
}

static void map_dealloc(PyObject *self)
{
	core_dealloc(self, map_end_all);
}

static PyObject *map_closed(PyObject *object, void *unused)
{
	(void)unused;
	return PyBool_FromLong(((struct core_map *)object)->closed);
}

/* ---- health and changes ------------------------------------------------- */

CORE_STRUCT(health_fields, gpumap_health, state, stale, age_ns, epoch, tick,
	    generation, agent_pid, bytes, agent_version, layout_minor);

CORE_CALL(map_health, map, reads, "", "S", gpumap_health, (map, out->facts),
	  .facts = &health_fields);

static PyObject *map_generation(PyObject *object, void *unused)
{
	struct core_map *self = (struct core_map *)object;
	const struct gpumap *map = core_map_use(self);
	uint32_t generation;

	(void)unused;
	if (map == NULL)
		return NULL;
	generation = gpumap_generation(map);
	core_map_unuse(self);
	return PyLong_FromUnsignedLong(generation);
}

/* While no agent answers, the next slice looks for one. */
static bool wait_again(int ret)
{
	return ret == -ETIME || ret == -ECONNREFUSED || ret == -ECONNRESET ||
	       ret == -ESHUTDOWN;
}

CORE_CALL(map_wait_ready, map, asks, "|W", "i", gpumap_wait_ready,
	  (map, in[0].deadline_ns), .again = wait_again);

/* (seen, seconds) -> the generation */
static int wait_change(struct gpumap *map, const union core_value *in,
		       uint64_t *ret_generation)
{
	int ret = gpumap_wait_change(map, in[0].u32, in[1].deadline_ns);

	*ret_generation = gpumap_generation(map);
	return ret;
}

CORE_METHOD(map_wait_change, map, asks, "I|W", "K", "gpumap_wait_change",
	    wait_change(map, in, out->numbers), .again = wait_again);

CORE_CALL(map_fileno, map, asks, "", "i", gpumap_change_fd, (map));

CORE_CALL(map_arm, map, asks, "I", "i", gpumap_change_arm, (map, in[0].u32));

/* ---- devices ------------------------------------------------------------ */

CORE_STRUCT(device_fields, gpumap_device, row, generation, kind, known, flags,
	    numa_node, uuid, name, cpus, pci_domain, pci_bus, nvml_index,
	    minor_number, ordinal_pci, ordinal_fastest, mig_gi, mig_ci,
	    mig_profile, cc_major, cc_minor, units, threads_per_unit,
	    shared_bytes, l2_bytes, total_bytes, driver_version, cuda_version,
	    state, error, reason, since_ns, free_bytes, reserved_bytes,
	    budget_bytes, score, utilisation, temperature, power, worker_pid,
	    restarts, recovery, last_xid, xids, used_by_holders, figures);

CORE_METHOD(map_device_count, map, reads, "", "i", "gpumap_device_count",
	    (int)gpumap_device_count(map));

CORE_CALL(map_device_read, map, reads, "R", "S", gpumap_device_read,
	  (map, in[0].u32, out->facts), .facts = &device_fields);

CORE_STRUCT(path_fields, gpumap_device_path, to, from, nvlinks, peer);

CORE_CALL(map_device_path_read, map, reads, "RR", "S", gpumap_device_path_read,
	  (map, in[0].u32, in[1].u32, out->facts), .facts = &path_fields);

CORE_STRUCT(jobs_fields, gpumap_device_jobs, row, generation, ended, failed, ns,
	    times, loaded_bytes);

CORE_CALL(map_device_jobs_read, map, reads, "R", "S", gpumap_device_jobs_read,
	  (map, in[0].u32, out->facts), .facts = &jobs_fields);

static PyObject *map_device_find(PyObject *object, PyObject *args)
{
	struct core_map *self = (struct core_map *)object;
	const struct gpumap *map;
	const uint8_t *uuid;
	Py_ssize_t n;
	int ret;

	if (!PyArg_ParseTuple(args, "y#", &uuid, &n))
		return NULL;
	if (n != 16)
		return PyErr_Format(PyExc_ValueError, "a UUID has 16 bytes");
	map = core_map_use(self);
	if (map == NULL)
		return NULL;
	ret = gpumap_device_find(map, uuid);
	core_map_unuse(self);
	return ret < 0 ? core_fail_bare("gpumap_device_find", ret)
		       : PyLong_FromLong(ret);
}

static PyObject *map_device_visible(PyObject *object, PyObject *args)
{
	struct core_map *self = (struct core_map *)object;
	uint32_t rows[GPUMAP_ROWS_MAX];
	const char *visible, *order;
	PyObject *made = NULL;
	struct gpumap *map;
	int ret;

	if (!PyArg_ParseTuple(args, "zz", &visible, &order))
		return NULL;
	map = core_map_use(self);
	if (map == NULL)
		return NULL;
	CORE_UNLOCK();
	ret = gpumap_device_visible(map, visible, order, rows, GPUMAP_ROWS_MAX);
	CORE_LOCK();
	if (ret < 0)
		return core_map_result(self, "gpumap_device_visible", ret);
	if (ret > GPUMAP_ROWS_MAX)
		ret = GPUMAP_ROWS_MAX;
	made = Py_BuildValue("Ns", core_u32_tuple(rows, (size_t)ret),
			     gpumap_refusal(map));
	core_map_unuse(self);
	return made;
}

CORE_STRUCT_LISTS(choice_fields, gpumap_choice,
		  (CORE_LIST(gpumap_choice, rows, n_rows)), prefer,
		  compute_capability, cuda_version, total_bytes, free_bytes,
		  by);

static int choose(struct gpumap *map, const struct gpumap_choice *choice,
		  struct core_out *out)
{
	int ret = gpumap_device_choose(map, choice, out->rows[0],
				       GPUMAP_ROWS_MAX);

	out->n_rows = ret > GPUMAP_ROWS_MAX ? GPUMAP_ROWS_MAX : (uint32_t)ret;
	return ret;
}

CORE_METHOD(map_device_choose, map, asks, "S", "T", "gpumap_device_choose",
	    choose(map, in[0].request, out), .request = &choice_fields);

/* ---- what the map lists ------------------------------------------------- */

static PyObject *map_names(struct core_map *self,
			   int (*next)(const struct gpumap *, uint32_t *,
				       char *))
{
	const struct gpumap *map = core_map_use(self);
	PyObject *list = map == NULL ? NULL : PyList_New(0);
	char name[GPUMAP_NAME_MAX + 1];
	uint32_t cursor = 0;

	while (list != NULL && next(map, &cursor, name) == 1)
		core_append(&list,
			    PyUnicode_DecodeUTF8(
				    name,
				    (Py_ssize_t)strnlen(name, sizeof(name)),
				    "surrogateescape"));
	if (map != NULL)
		core_map_unuse(self);
	return list;
}

static PyObject *map_layers_names(PyObject *object, PyObject *unused)
{
	(void)unused;
	return map_names((struct core_map *)object, gpumap_layers_next);
}

static PyObject *map_mesh_names(PyObject *object, PyObject *unused)
{
	(void)unused;
	return map_names((struct core_map *)object, gpumap_mesh_next);
}

static PyObject *map_mask_names(PyObject *object, PyObject *unused)
{
	(void)unused;
	return map_names((struct core_map *)object, gpumap_mask_next);
}

CORE_STRUCT(layers_fields, gpumap_layers, name, version, published_ns,
	    owner_uid, setting, n_layers, n_rows, base_row, dtype, layer_bytes,
	    other_bytes, spec, flags, strategy, compute_dtype, max_batch_size,
	    max_seq_len);

CORE_STRUCT(charge_fields, gpumap_charge, row, n_layers, weight_bytes, kv_bytes,
	    activation_bytes, reserve_bytes);

/* One publication, with room that is made anew while maps grow. */
static int map_layers_one(const struct gpumap *map, const char *name,
			  struct gpumap_layers *ret_layers, PyObject **ret_rows,
			  PyObject **ret_bytes, struct gpumap_charge *charges)
{
	int ret;

	for (int attempt = 0; attempt < 8; attempt++) {
		Py_ssize_t n;

		ret = gpumap_layers_read(map, name, ret_layers, NULL, NULL, 0,
					 NULL, 0);
		if (ret != 0)
			return ret;
		n = ret_layers->n_layers;
		*ret_rows = PyBytes_FromStringAndSize(NULL, 4 * n);
		*ret_bytes = PyBytes_FromStringAndSize(NULL, 8 * n);
		if (*ret_rows == NULL || *ret_bytes == NULL)
			return -ENOMEM;
		ret = gpumap_layers_read(
			map, name, ret_layers,
			(uint32_t *)(void *)PyBytes_AsString(*ret_rows),
			(uint64_t *)(void *)PyBytes_AsString(*ret_bytes),
			(size_t)n, charges, GPUMAP_ROWS_MAX);
		if (ret == 0 && ret_layers->n_layers == n)
			return 0;
		Py_CLEAR(*ret_rows);
		Py_CLEAR(*ret_bytes);
		if (ret != 0 && ret != -ENOBUFS && ret != -EAGAIN)
			return ret;
	}
	return -EAGAIN;
}

static PyObject *map_layers_read(PyObject *object, PyObject *arg)
{
	struct core_map *self = (struct core_map *)object;
	struct gpumap_layers layers = { .size = sizeof(layers) };
	struct gpumap_charge *charges;
	PyObject *rows = NULL, *bytes = NULL, *list, *facts;
	const char *name = core_name(arg);
	const struct gpumap *map;
	int ret;

	if (name == NULL)
		return NULL;
	map = core_map_use(self);
	if (map == NULL)
		return NULL;
	charges = calloc(GPUMAP_ROWS_MAX, sizeof(*charges));
	ret = charges == NULL ? -ENOMEM
			      : map_layers_one(map, name, &layers, &rows,
					       &bytes, charges);
	core_map_unuse(self);
	if (ret != 0) {
		Py_XDECREF(rows);
		Py_XDECREF(bytes);
		free(charges);
		return PyErr_Occurred()
			       ? NULL
			       : core_fail_bare("gpumap_layers_read", ret);
	}
	facts = core_read(&layers_fields, &layers);
	list = PyList_New(0);
	for (uint32_t i = 0;
	     list != NULL && i < layers.n_rows && i < GPUMAP_ROWS_MAX; i++)
		core_append(&list, core_read(&charge_fields, &charges[i]));
	free(charges);
	return Py_BuildValue("NNNN", facts, rows, bytes, list);
}

CORE_STRUCT(holder_fields, gpumap_holder, name, version, since_ns, uid, pid,
	    start_ns);

static PyObject *map_holders(PyObject *object, PyObject *unused)
{
	struct core_map *self = (struct core_map *)object;
	struct gpumap_holder holder = { .size = sizeof(holder) };
	const struct gpumap *map = core_map_use(self);
	PyObject *list = map == NULL ? NULL : PyList_New(0);
	uint32_t cursor = 0;

	(void)unused;
	while (list != NULL && gpumap_holder_next(map, &cursor, &holder) == 1)
		core_append(&list, core_read(&holder_fields, &holder));
	if (map != NULL)
		core_map_unuse(self);
	return list;
}

/* ---- worth -------------------------------------------------------------- */

/* (row, work, size) */
static int worth(const struct gpumap *map, const union core_value *in)
{
	struct gpumap_policy_view view;
	int ret = gpumap_policy_view(map, in[0].u32, &view);

	return ret < 0 ? ret : gpumap_worth(&view, in[1].u32, in[2].u64);
}

CORE_METHOD(map_worth, map, reads, "IIK", "b", "gpumap_policy_view",
	    worth(map, in));

static PyMethodDef map_methods[] = {
	{ "close", map_close, METH_NOARGS,
	  "close($self, /)\n--\n\n"
	  "End this handle.  Objects made from it still work." },
	{ "fileno", map_fileno, METH_VARARGS,
	  "fileno($self, /)\n--\n\n"
	  "A descriptor that becomes readable after a change of the map.\n\n"
	  "Call arm() before each sleep on it, and do not read from it." },
	{ "arm", map_arm, METH_VARARGS,
	  "Have the descriptor made readable by the next change.\n\n"
	  "0: sleep now; 1: the generation differs from seen already." },
	{ "_health", map_health, METH_VARARGS, NULL },
	{ "_wait_change", map_wait_change, METH_VARARGS, NULL },
	{ "_wait_ready", map_wait_ready, METH_VARARGS, NULL },
	{ "_device_count", map_device_count, METH_VARARGS, NULL },
	{ "_device_read", map_device_read, METH_VARARGS, NULL },
	{ "_device_path_read", map_device_path_read, METH_VARARGS, NULL },
	{ "_device_jobs_read", map_device_jobs_read, METH_VARARGS, NULL },
	{ "_device_find", map_device_find, METH_VARARGS, NULL },
	{ "_device_visible", map_device_visible, METH_VARARGS, NULL },
	{ "_device_choose", map_device_choose, METH_VARARGS, NULL },
	{ "_layers_names", map_layers_names, METH_NOARGS, NULL },
	{ "_mesh_names", map_mesh_names, METH_NOARGS, NULL },
	{ "_mask_names", map_mask_names, METH_NOARGS, NULL },
	{ "_layers_read", map_layers_read, METH_O, NULL },
	{ "_holders", map_holders, METH_NOARGS, NULL },
	{ "_worth", map_worth, METH_VARARGS, NULL },
	{ NULL, NULL, 0, NULL },
};

static PyGetSetDef map_getset[] = {
	{ "closed", map_closed, NULL, "Has close() been called?", NULL },
	{ "generation", map_generation, NULL,
	  "A number that changes when an object or a row's state does.", NULL },
	{ NULL, NULL, NULL, NULL, NULL },
};

const struct core_type core_map_spec = {
	.name = "gpumap._core.Map",
	.doc = "One process's view of one agent.",
	.ret_type = &core_map_type,
	.bytes = sizeof(struct core_map),
	.new = map_new,
	.dealloc = map_dealloc,
	.traverse = core_traverse,
	.methods =
		(PyMethodDef *const[]){ map_methods, core_map_request_methods,
					core_map_mesh_methods,
					core_map_list_methods,
					core_map_cluster_methods, NULL },
	.getset = map_getset,
};
