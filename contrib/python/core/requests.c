/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "core.h"

#include <errno.h>
#include <stdlib.h>

#include <gpumap/engine.h>
#include <gpumap/plan.h>

/* requests.c - what an attachment asks the agent to do. */

CORE_CALL(request_layers_release, map, asks, "s", "i", gpumap_layers_release,
	  (map, in[0].text));

CORE_CALL(request_wait_drop, map, asks, "s", "i", gpumap_wait_drop,
	  (map, in[0].text));

CORE_CALL(request_started, map, asks, "s", "i", gpumap_started,
	  (map, in[0].text));

CORE_CALL(request_mask_release, map, asks, "s", "i", gpumap_mask_release,
	  (map, in[0].text));

CORE_CALL(request_mesh_release, map, asks, "s", "i", gpumap_mesh_release,
	  (map, in[0].text));

CORE_CALL(request_share_release, map, asks, "s", "i", gpumap_share_release,
	  (map, in[0].text));

CORE_CALL(request_drain, map, asks, "R", "i", gpumap_device_drain,
	  (map, in[0].u32));

CORE_CALL(request_undrain, map, asks, "R", "i", gpumap_device_undrain,
	  (map, in[0].u32));

CORE_CALL(request_cordon, map, asks, "R", "i", gpumap_device_cordon,
	  (map, in[0].u32));

CORE_CALL(request_uncordon, map, asks, "R", "i", gpumap_device_uncordon,
	  (map, in[0].u32));

CORE_STRUCT_LISTS(layers_fields, gpumap_layers_request,
		  (CORE_LIST(gpumap_layers_request, layer_bytes, n_layers)),
		  name, spec, n_layers, dtype, other_bytes);

CORE_CALL(request_layers_publish, map, asks, "S", "i", gpumap_layers_publish,
	  (map, in[0].request), .request = &layers_fields);

/* ---- plans -------------------------------------------------------------- */

CORE_STRUCT_LISTS(plan_fields, gpumap_plan_request,
		  (CORE_LIST(gpumap_plan_request, rows, n_rows),
		   CORE_LIST(gpumap_plan_request, layer_bytes, n_layers)),
		  name, flags, owner_uid, setting, strategy, base_row, text,
		  weights, n_layers, other_bytes, tied_bytes, dtype, n_heads,
		  compute_dtype, max_seq_len, max_batch_size, paged,
		  paged_amount, paged_share, paged_block, paged_element_bytes,
		  wait_ns, start_ns, engine, conv_taps, state_bytes);

CORE_STRUCT(plan_result_fields, gpumap_plan, n_layers, n_charges, base_row,
	    compute_dtype, kv_bytes, version, missing_bytes, missing_row, spec,
	    warnings);

CORE_STRUCT(plan_charge_fields, gpumap_charge, row, n_layers, weight_bytes,
	    kv_bytes, activation_bytes, reserve_bytes, left_bytes);

#define REQUEST_LAYERS_MAX 65536u

/* The charges of a plan as a list of dictionaries. */
static PyObject *request_charges(const struct gpumap_charge *charges,
				 uint32_t n)
{
	PyObject *list = PyList_New(0);

	if (n > GPUMAP_ROWS_MAX)
		n = GPUMAP_ROWS_MAX;
	for (uint32_t i = 0; list != NULL && i < n; i++)
		core_append(&list, core_read(&plan_charge_fields, &charges[i]));
	return list;
}

/* Point the request to what its layers keep, which are bytes of the structs; of
 * none they are not known. */
static void request_caches(struct gpumap_plan_request *request,
			   const char *bytes, Py_ssize_t n)
{
	if (n == 0)
		return;
	request->caches = (const void *)bytes;
	request->n_caches = (uint32_t)((size_t)n / sizeof(*request->caches));
}

/* (facts, rows, charges), or an exception whose attribute plan has the facts:
 * by how much it does not fit, and where. */
static PyObject *request_plan(PyObject *object, PyObject *args)
{
	struct core_map *self = (struct core_map *)object;
	struct gpumap_plan_request request = { .size = sizeof(request) };
	struct gpumap_plan plan = { .size = sizeof(plan) };
	struct gpumap_charge *charges = NULL;
	PyObject *keep = PyList_New(0), *made = NULL, *dict;
	const char *caches;
	Py_ssize_t n_caches;
	uint32_t *rows = NULL;
	struct gpumap *map;
	int ret;

	if (keep == NULL ||
	    !PyArg_ParseTuple(args, "Oy#", &dict, &caches, &n_caches) ||
	    core_write(&plan_fields, &request, dict, keep) ||
	    (map = core_map_use(self)) == NULL)
		goto out;
	request_caches(&request, caches, n_caches);
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

CORE_CALL(request_policy_read, map, reads, "I", "S", gpumap_policy_read,
	  (map, in[0].u32, out->facts), .facts = &policy_fields);

CORE_CALL(request_policy_set, map, asks, "S", "i", gpumap_policy_set,
	  (map, in[0].request), .request = &policy_fields);

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

/* Store a descriptor, and its bytes and row. */
static int export_fd(struct gpumap *map, uint64_t number, uint64_t *ret_numbers)
{
	struct gpumap_export_info info = { .size = sizeof(info) };
	int fd = -1;
	int ret = gpumap_export_fd(map, number, &info, &fd);

	ret_numbers[0] = (uint64_t)fd;
	ret_numbers[1] = info.bytes;
	ret_numbers[2] = info.row;
	return ret;
}

CORE_METHOD(request_export_fd, map, asks, "K", "KKK", "gpumap_export_fd",
	    export_fd(map, in[0].u64, out->numbers));

/* From the next request on. */
static int limit(struct gpumap *map, uint64_t deadline_ns)
{
	uint64_t now = core_now_ns();

	if (deadline_ns != GPUMAP_NO_DEADLINE)
		deadline_ns = deadline_ns > now ? deadline_ns - now : 0;
	return gpumap_request_limit(map, deadline_ns);
}

CORE_METHOD(request_limit, map, asks, "D", "i", "gpumap_request_limit",
	    limit(map, in[0].deadline_ns));

PyMethodDef core_map_request_methods[] = {
	{ "_export_fd", request_export_fd, METH_VARARGS, NULL },
	{ "_layers_release", request_layers_release, METH_VARARGS, NULL },
	{ "_wait_drop", request_wait_drop, METH_VARARGS, NULL },
	{ "_pool_open", core_pool_open, METH_VARARGS, NULL },
	{ "_request_limit", request_limit, METH_VARARGS, NULL },
	{ "_started", request_started, METH_VARARGS, NULL },
	{ "_mask_release", request_mask_release, METH_VARARGS, NULL },
	{ "_mesh_release", request_mesh_release, METH_VARARGS, NULL },
	{ "_share_release", request_share_release, METH_VARARGS, NULL },
	{ "_device_drain", request_drain, METH_VARARGS, NULL },
	{ "_device_undrain", request_undrain, METH_VARARGS, NULL },
	{ "_device_cordon", request_cordon, METH_VARARGS, NULL },
	{ "_device_uncordon", request_uncordon, METH_VARARGS, NULL },
	{ "_layers_publish", request_layers_publish, METH_VARARGS, NULL },
	{ "_plan_make", request_plan, METH_VARARGS, NULL },
	{ "_policy_read", request_policy_read, METH_VARARGS, NULL },
	{ "_policy_set", request_policy_set, METH_VARARGS, NULL },
	{ "_engine_export", request_export, METH_VARARGS, NULL },
	{ NULL, NULL, 0, NULL },
};
