/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "core.h"

#include <errno.h>
#include <stdlib.h>

/* requests.c - what an attachment asks the agent to do. */

/* Is this one of the calls that take a map and a name? */
static PyObject *request_named(PyObject *object, PyObject *arg,
			       const char *call,
			       int (*function)(struct gpumap *, const char *))
{
	struct core_map *self = (struct core_map *)object;
	const char *name = core_name(arg);
	struct gpumap *map;
	int ret;

	if (name == NULL)
		return NULL;
	map = core_map_use(self);
	if (map == NULL)
		return NULL;
	CORE_UNLOCK();
	ret = function(map, name);
	CORE_LOCK();
	return core_map_result(self, call, ret);
}

static PyObject *request_row(PyObject *object, PyObject *arg, const char *call,
			     int (*function)(struct gpumap *, uint32_t))
{
	struct core_map *self = (struct core_map *)object;
	unsigned long row = PyLong_AsUnsignedLong(arg);
	struct gpumap *map;
	int ret;

	if (row == (unsigned long)-1 && PyErr_Occurred())
		return NULL;
	map = core_map_use(self);
	if (map == NULL)
		return NULL;
	if (row > UINT32_MAX)
		row = UINT32_MAX;
	CORE_UNLOCK();
	ret = function(map, (uint32_t)row);
	CORE_LOCK();
	return core_map_result(self, call, ret);
}

static PyObject *request_layers_release(PyObject *self, PyObject *name)
{
	return request_named(self, name, "gpumap_layers_release",
			     gpumap_layers_release);
}

static PyObject *request_started(PyObject *self, PyObject *name)
{
	return request_named(self, name, "gpumap_started", gpumap_started);
}

static PyObject *request_mask_release(PyObject *self, PyObject *name)
{
	return request_named(self, name, "gpumap_mask_release",
			     gpumap_mask_release);
}

static PyObject *request_mesh_release(PyObject *self, PyObject *name)
{
	return request_named(self, name, "gpumap_mesh_release",
			     gpumap_mesh_release);
}

static PyObject *request_share_release(PyObject *self, PyObject *name)
{
	return request_named(self, name, "gpumap_share_release",
			     gpumap_share_release);
}

static PyObject *request_drain(PyObject *self, PyObject *row)
{
	return request_row(self, row, "gpumap_device_drain",
			   gpumap_device_drain);
}

static PyObject *request_undrain(PyObject *self, PyObject *row)
{
	return request_row(self, row, "gpumap_device_undrain",
			   gpumap_device_undrain);
}

static PyObject *request_cordon(PyObject *self, PyObject *row)
{
	return request_row(self, row, "gpumap_device_cordon",
			   gpumap_device_cordon);
}

static PyObject *request_uncordon(PyObject *self, PyObject *row)
{
	return request_row(self, row, "gpumap_device_uncordon",
			   gpumap_device_uncordon);
}

CORE_STRUCT_LISTS(layers_fields, gpumap_layers_request,
		  (CORE_LIST(gpumap_layers_request, layer_bytes, n_layers)),
		  name, spec, n_layers, dtype, other_bytes);

static PyObject *request_layers_publish(PyObject *object, PyObject *dict)
{
	struct core_map *self = (struct core_map *)object;
	struct gpumap_layers_request request = { .size = sizeof(request) };
	PyObject *keep = PyList_New(0), *made = NULL;
	struct gpumap *map;
	int ret;

	if (keep == NULL || core_write(&layers_fields, &request, dict, keep) ||
	    (map = core_map_use(self)) == NULL)
		goto out;
	CORE_UNLOCK();
	ret = gpumap_layers_publish(map, &request);
	CORE_LOCK();
	made = core_map_result(self, "gpumap_layers_publish", ret);
out:
	Py_XDECREF(keep);
	return made;
}

/* ---- plans -------------------------------------------------------------- */

CORE_STRUCT_LISTS(plan_fields, gpumap_plan_request,
		  (CORE_LIST(gpumap_plan_request, rows, n_rows),
		   CORE_LIST(gpumap_plan_request, layer_bytes, n_layers)),
		  name, flags, setting, strategy, base_row, text, weights,
		  n_layers, other_bytes, dtype, n_heads, n_kv_heads, k_dim,
		  v_dim, kv_lora_rank, kpe_head_dim, compute_dtype, max_seq_len,
		  max_batch_size, paged, paged_amount, paged_share, paged_block,
		  paged_element_bytes, wait_ns, start_ns);

CORE_STRUCT(plan_result_fields, gpumap_plan, n_layers, n_charges, base_row,
	    compute_dtype, kv_bytes, version, missing_bytes, missing_row, spec,
	    warnings);

CORE_STRUCT(plan_charge_fields, gpumap_plan_charge, row, n_layers, weight_bytes,
	    kv_bytes, activation_bytes, reserve_bytes, left_bytes);

#define REQUEST_LAYERS_MAX 65536u

/* The charges of a plan as a list of dictionaries. */
static PyObject *request_charges(const struct gpumap_plan_charge *charges,
				 uint32_t n)
{
	PyObject *list = PyList_New(0);

	if (n > GPUMAP_ROWS_MAX)
		n = GPUMAP_ROWS_MAX;
	for (uint32_t i = 0; list != NULL && i < n; i++)
		core_append(&list, core_read(&plan_charge_fields, &charges[i]));
	return list;
}

/* (facts, rows, charges), or an exception whose attribute plan has the facts:
 * by how much it does not fit, and where. */
static PyObject *request_plan(PyObject *object, PyObject *dict)
{
	struct core_map *self = (struct core_map *)object;
	struct gpumap_plan_request request = { .size = sizeof(request) };
	struct gpumap_plan plan = { .size = sizeof(plan) };
	struct gpumap_plan_charge *charges = NULL;
	PyObject *keep = PyList_New(0), *made = NULL;
	uint32_t *rows = NULL;
	struct gpumap *map;
	int ret;

	if (keep == NULL || core_write(&plan_fields, &request, dict, keep) ||
	    (map = core_map_use(self)) == NULL)
		goto out;
	rows = calloc(REQUEST_LAYERS_MAX, sizeof(*rows));
	charges = calloc(GPUMAP_ROWS_MAX, sizeof(*charges));
	if (rows == NULL || charges == NULL) {
		core_map_unuse(self);
		PyErr_NoMemory();
		goto out;
	}
	CORE_UNLOCK();
	ret = gpumap_plan_make(map, &request, &plan, rows, REQUEST_LAYERS_MAX,
			       charges, GPUMAP_ROWS_MAX);
	CORE_LOCK();
	if (ret < 0) {
		core_map_result(self, "gpumap_plan_make", ret);
		made = NULL;
		if (ret == -ENOSPC || ret == -ETIMEDOUT) {
			PyObject *type, *value, *trace, *facts;

			facts = core_read(&plan_result_fields, &plan);
			PyErr_Fetch(&type, &value, &trace);
			PyErr_NormalizeException(&type, &value, &trace);
			if (facts == NULL ||
			    PyObject_SetAttrString(value, "_plan", facts) != 0)
				PyErr_Clear();
			Py_XDECREF(facts);
			PyErr_Restore(type, value, trace);
		}
		goto out;
	}
	core_map_unuse(self);
	if (plan.n_layers > REQUEST_LAYERS_MAX)
		plan.n_layers = REQUEST_LAYERS_MAX;
	made = Py_BuildValue("Ny#N", core_read(&plan_result_fields, &plan),
			     (const char *)rows, (Py_ssize_t)plan.n_layers * 4,
			     request_charges(charges, plan.n_charges));
out:
	free(rows);
	free(charges);
	Py_XDECREF(keep);
	return made;
}

/* ---- policies ----------------------------------------------------------- */

CORE_STRUCT(policy_fields, gpumap_policy, row, generation, calibrated_ns,
	    least);

static PyObject *request_policy_read(PyObject *object, PyObject *args)
{
	struct core_map *self = (struct core_map *)object;
	struct gpumap_policy policy = { .size = sizeof(policy) };
	const struct gpumap *map;
	unsigned int row;
	int ret;

	if (!PyArg_ParseTuple(args, "I", &row))
		return NULL;
	map = core_map_use(self);
	if (map == NULL)
		return NULL;
	ret = gpumap_policy_read(map, row, &policy);
	core_map_unuse(self);
	if (ret < 0)
		return core_fail_bare("gpumap_policy_read", ret);
	return core_read(&policy_fields, &policy);
}

static PyObject *request_policy_set(PyObject *object, PyObject *dict)
{
	struct core_map *self = (struct core_map *)object;
	struct gpumap_policy policy = { .size = sizeof(policy) };
	PyObject *keep = PyList_New(0), *made = NULL;
	struct gpumap *map;
	int ret;

	if (keep == NULL || core_write(&policy_fields, &policy, dict, keep) ||
	    (map = core_map_use(self)) == NULL)
		goto out;
	CORE_UNLOCK();
	ret = gpumap_policy_set(map, &policy);
	CORE_LOCK();
	made = core_map_result(self, "gpumap_policy_set", ret);
out:
	Py_XDECREF(keep);
	return made;
}

/* ---- settings of engines ------------------------------------------------ */

CORE_STRUCT_LISTS(engine_fields, gpumap_engine_request,
		  (CORE_LIST(gpumap_engine_request, rows, n_layers),
		   CORE_LIST(gpumap_engine_request, layer_bytes, n_layers)),
		  engine, flags, model, file_name, base_row);

static PyObject *request_texts(const char *const *texts, uint32_t n)
{
	PyObject *list = PyList_New(0);

	for (uint32_t i = 0; list != NULL && i < n; i++)
		core_append(&list, PyUnicode_FromString(texts[i]));
	return list;
}

static PyObject *request_export(PyObject *object, PyObject *args)
{
	struct core_map *self = (struct core_map *)object;
	struct gpumap_engine_request request = { .size = sizeof(request) };
	struct gpumap_engine_settings *settings = NULL;
	PyObject *dict, *keep = PyList_New(0), *made = NULL;
	const char *name;
	struct gpumap *map;
	int ret;

	if (keep == NULL || !PyArg_ParseTuple(args, "zO", &name, &dict) ||
	    core_write(&engine_fields, &request, dict, keep) ||
	    (map = core_map_use(self)) == NULL)
		goto out;
	CORE_UNLOCK();
	ret = gpumap_engine_export(map, name, &request, &settings);
	CORE_LOCK();
	if (ret < 0) {
		made = core_map_result(self, "gpumap_engine_export", ret);
		goto out;
	}
	core_map_unuse(self);
	made = Py_BuildValue("{s:N,s:N,s:N,s:N,s:z,s:N}", "exact",
			     PyBool_FromLong((long)settings->exact), "argv",
			     request_texts(settings->argv, settings->n_argv),
			     "env",
			     request_texts(settings->env, settings->n_env),
			     "notes",
			     request_texts(settings->notes, settings->n_notes),
			     "file", settings->file, "rows",
			     core_u32_tuple(settings->rows, settings->n_rows));
	gpumap_engine_free(settings);
out:
	Py_XDECREF(keep);
	return made;
}

/* ---- exports ------------------------------------------------------------ */

/* number -> (fd, bytes, row) */
static PyObject *request_export_fd(PyObject *object, PyObject *args)
{
	struct core_map *self = (struct core_map *)object;
	struct gpumap_export_info info = { .size = sizeof(info) };
	unsigned long long number;
	struct gpumap *map;
	int fd, ret;

	if (!PyArg_ParseTuple(args, "K", &number))
		return NULL;
	map = core_map_use(self);
	if (map == NULL)
		return NULL;
	CORE_UNLOCK();
	ret = gpumap_export_fd(map, number, &info, &fd);
	CORE_LOCK();
	if (ret < 0)
		return core_map_result(self, "gpumap_export_fd", ret);
	core_map_unuse(self);
	return Py_BuildValue("iKI", fd, (unsigned long long)info.bytes,
			     info.row);
}

/* (seconds or None): from the next request on. */
static PyObject *request_limit(PyObject *object, PyObject *seconds)
{
	struct core_map *self = (struct core_map *)object;
	uint64_t deadline_ns, now = core_now_ns();
	struct gpumap *map;

	if (!core_deadline(seconds, &deadline_ns))
		return NULL;
	map = core_map_use(self);
	if (map == NULL)
		return NULL;
	if (deadline_ns != GPUMAP_NO_DEADLINE)
		deadline_ns = deadline_ns > now ? deadline_ns - now : 0;
	return core_map_result(self, "gpumap_request_limit",
			       gpumap_request_limit(map, deadline_ns));
}

PyMethodDef core_map_request_methods[] = {
	{ "_export_fd", request_export_fd, METH_VARARGS, NULL },
	{ "_layers_release", request_layers_release, METH_O, NULL },
	{ "_pool_open", core_pool_open, METH_VARARGS, NULL },
	{ "_request_limit", request_limit, METH_O, NULL },
	{ "_started", request_started, METH_O, NULL },
	{ "_mask_release", request_mask_release, METH_O, NULL },
	{ "_mesh_release", request_mesh_release, METH_O, NULL },
	{ "_share_release", request_share_release, METH_O, NULL },
	{ "_device_drain", request_drain, METH_O, NULL },
	{ "_device_undrain", request_undrain, METH_O, NULL },
	{ "_device_cordon", request_cordon, METH_O, NULL },
	{ "_device_uncordon", request_uncordon, METH_O, NULL },
	{ "_layers_publish", request_layers_publish, METH_O, NULL },
	{ "_plan_make", request_plan, METH_O, NULL },
	{ "_policy_read", request_policy_read, METH_VARARGS, NULL },
	{ "_policy_set", request_policy_set, METH_O, NULL },
	{ "_engine_export", request_export, METH_VARARGS, NULL },
	{ NULL, NULL, 0, NULL },
};
