/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "core.h"

#include <errno.h>
#include <stdlib.h>

/* jobs.c - a session's jobs, completions and scatters. */

CORE_STRUCT(job_fields, gpumap_job, op, dtype, dst, src, n, alpha, pattern,
	    cookie, dst_buffer, src_buffer, dst_at, src_at, deadline_ns, to,
	    mask_n, mask_first, mask, mask_buffer, mask_at, program,
	    src_item_bytes, dst_item_bytes, params, params_bytes);

int core_times(PyObject *list, struct gpumap_time *ret_times, uint32_t *ret_n)
{
	Py_ssize_t n;

	*ret_n = 0;
	if (list == NULL || list == Py_None)
		return 0;
	n = PySequence_Size(list);
	if (n < 0)
		return -1;
	if (n > GPUMAP_WAITS_MAX) {
		PyErr_Format(PyExc_ValueError, "a job waits for %u at most",
			     GPUMAP_WAITS_MAX);
		return -1;
	}
	for (Py_ssize_t i = 0; i < n; i++) {
		PyObject *item = PySequence_GetItem(list, i);
		unsigned long long value;
		unsigned int row;
		int ok = item != NULL && core_is_tuple(item) &&
			 PyArg_ParseTuple(item, "IK", &row, &value);

		Py_XDECREF(item);
		if (!ok)
			return -1;
		ret_times[i] = (struct gpumap_time){ row, 0, value };
	}
	*ret_n = (uint32_t)n;
	return 0;
}

/* A job's dictionary, with a list (row, value) of what it waits for. */
static int jobs_one(PyObject *dict, struct gpumap_job *ret_job,
		    struct gpumap_time *waits, PyObject *keep)
{
	PyObject *list, *copy;
	int ret;

	if (!PyDict_Check(dict)) {
		PyErr_SetString(PyExc_TypeError, "a job is a dict");
		return -1;
	}
	list = PyDict_GetItemString(dict, "waits");
	if (list == NULL)
		return core_write(&job_fields, ret_job, dict, keep);
	if (core_times(list, waits, &ret_job->n_waits) != 0)
		return -1;
	ret_job->waits = ret_job->n_waits == 0 ? NULL : waits;
	copy = PyDict_Copy(dict);
	ret = copy == NULL || PyDict_DelItemString(copy, "waits") != 0
		      ? -1
		      : core_write(&job_fields, ret_job, copy, keep);
	Py_XDECREF(copy);
	return ret;
}

struct jobs_made {
	struct gpumap_job *jobs;
	struct gpumap_time (*waits)[GPUMAP_WAITS_MAX];
	PyObject *keep;
	uint32_t n;
};

static void jobs_free(struct jobs_made *made)
{
	free(made->jobs);
	free(made->waits);
	Py_XDECREF(made->keep);
}

static int jobs_make(PyObject *list, struct jobs_made *made)
{
	Py_ssize_t n = PyList_Size(list);

	*made = (struct jobs_made){ 0 };
	if (n < 0 || n > 4096) {
		if (n > 0)
			PyErr_SetString(PyExc_ValueError, "too many jobs");
		return -1;
	}
	made->keep = PyList_New(0);
	made->jobs = calloc((size_t)n + 1, sizeof(*made->jobs));
	made->waits = calloc((size_t)n + 1, sizeof(*made->waits));
	made->n = (uint32_t)n;
	if (made->jobs == NULL || made->waits == NULL || made->keep == NULL) {
		if (!PyErr_Occurred())
			PyErr_NoMemory();
		return -1;
	}
	for (Py_ssize_t i = 0; i < n; i++)
		if (jobs_one(PyList_GetItem(list, i), &made->jobs[i],
			     made->waits[i], made->keep) != 0)
			return -1;
	return 0;
}

/* (row, [job, ...]) -> the place in time of the last one */
static PyObject *jobs_submit(PyObject *object, PyObject *args)
{
	struct core_session *self = (struct core_session *)object;
	struct gpumap_time time = { 0 };
	struct gpumap_session *session;
	struct jobs_made made;
	unsigned int row;
	PyObject *list;
	int ret;

	if (!PyArg_ParseTuple(args, "IO!", &row, &PyList_Type, &list))
		return NULL;
	if (jobs_make(list, &made) != 0)
		goto failed;
	if (self->closed) {
		PyErr_SetString(PyExc_ValueError, "the session is closed");
		goto failed;
	}
	session = core_session_enter(self);
	if (session == NULL)
		goto failed;
	CORE_UNLOCK();
	ret = gpumap_submit(session, row, made.jobs, made.n);
	if (ret == 0)
		ret = gpumap_submitted(session, row, &time);
	CORE_LOCK();
	jobs_free(&made);
	if (ret < 0)
		return core_session_result(self, "gpumap_submit", ret);
	core_session_leave(self);
	return PyLong_FromUnsignedLongLong(time.value);
failed:
	jobs_free(&made);
	return NULL;
}

#define JOBS_DONE_MAX 256

static PyObject *jobs_done(const struct gpumap_done *done, int n)
{
	PyObject *list = PyList_New(n > 0 ? n : 0);

	for (int i = 0; list != NULL && i < n; i++) {
		PyObject *one =
			Py_BuildValue("KIi", (unsigned long long)done[i].cookie,
				      done[i].row, done[i].status);

		if (one == NULL)
			Py_CLEAR(list);
		else
			PyList_SetItem(list, i, one);
	}
	return list;
}

/* (most, seconds) -> [(cookie, row, status)]; [] if the time has passed.  0
 * seconds: poll. */
static PyObject *jobs_wait(PyObject *object, PyObject *args)
{
	struct core_session *self = (struct core_session *)object;
	struct gpumap_done done[JOBS_DONE_MAX];
	PyObject *seconds = Py_None, *list;
	unsigned int most = JOBS_DONE_MAX;
	uint64_t deadline_ns;
	int ret;

	if (!PyArg_ParseTuple(args, "|IO", &most, &seconds) ||
	    !core_deadline(seconds, &deadline_ns))
		return NULL;
	if (most > JOBS_DONE_MAX)
		most = JOBS_DONE_MAX;
	for (;;) {
		uint64_t slice_ns = core_slice(deadline_ns);
		struct gpumap_session *session = core_session_enter(self);

		if (session == NULL)
			return NULL;
		CORE_UNLOCK();
		ret = deadline_ns == 0
			      ? gpumap_poll(session, done, most)
			      : gpumap_wait(session, done, most, slice_ns);
		CORE_LOCK();
		if (ret != -ETIME)
			break;
		core_session_leave(self);
		if (slice_ns == deadline_ns)
			return PyList_New(0);
		if (PyErr_CheckSignals() != 0)
			return NULL;
		core_session_yield(self);
	}
	if (ret < 0)
		return core_session_result(
			self, deadline_ns == 0 ? "gpumap_poll" : "gpumap_wait",
			ret);
	core_session_leave(self);
	list = jobs_done(done, ret);
	return list;
}

CORE_CALL(jobs_credit, session, late, "I", "i", gpumap_credit,
	  (session, in[0].u32));

CORE_CALL(jobs_cancel, session, late, "I", "i", gpumap_cancel,
	  (session, in[0].u32));

CORE_CALL(jobs_cancel_job, session, late, "IK", "i", gpumap_cancel_job,
	  (session, in[0].u32, in[1].u64));

CORE_STRUCT_LISTS(scatter_fields, gpumap_scatter_opts,
		  (CORE_LIST(gpumap_scatter_opts, rows, n_rows),
		   CORE_LIST(gpumap_scatter_opts, weights, n_rows),
		   CORE_LIST(gpumap_scatter_opts, dst_buffers, n_rows),
		   CORE_LIST(gpumap_scatter_opts, src_buffers, n_rows)),
		  flags, deadline_ns);

CORE_STRUCT(tile_fields, gpumap_tile, row, status, first, n, value);

static PyObject *jobs_tiles(const struct gpumap_tile *tiles)
{
	PyObject *list = PyList_New(0);

	for (uint32_t i = 0; list != NULL && i < GPUMAP_ROWS_MAX; i++) {
		if (tiles[i].n == 0)
			break;
		core_append(&list, core_read(&tile_fields, &tiles[i]));
	}
	return list;
}

/* (job, opts, combined) -> ([tile], the combination's 8 bytes or None) */
static PyObject *jobs_scatter(PyObject *object, PyObject *args)
{
	struct core_session *self = (struct core_session *)object;
	struct gpumap_scatter_opts opts = { .size = sizeof(opts) };
	struct gpumap_tile *tiles = NULL;
	uint64_t combined = 0;
	struct gpumap_session *session;
	struct jobs_made made = { 0 };
	PyObject *list, *dict, *result = NULL;
	int wanted, ret;

	if (!PyArg_ParseTuple(args, "O!O!p", &PyList_Type, &list, &PyDict_Type,
			      &dict, &wanted))
		return NULL;
	if (jobs_make(list, &made) != 0 ||
	    core_write(&scatter_fields, &opts, dict, made.keep) != 0)
		goto out;
	if (made.n != 1) {
		PyErr_SetString(PyExc_ValueError, "a scatter is one job");
		goto out;
	}
	opts.ret_combined = wanted ? &combined : NULL;
	tiles = calloc(GPUMAP_ROWS_MAX, sizeof(*tiles));
	if (tiles == NULL) {
		PyErr_NoMemory();
		goto out;
	}
	session = core_session_enter(self);
	if (session == NULL)
		goto out;
	CORE_UNLOCK();
	ret = gpumap_scatter(session, made.jobs, &opts, tiles, GPUMAP_ROWS_MAX);
	CORE_LOCK();
	if (ret < 0) {
		result = core_session_result(self, "gpumap_scatter", ret);
		goto out;
	}
	core_session_leave(self);
	result = Py_BuildValue("Ny#", jobs_tiles(tiles), (char *)&combined,
			       (Py_ssize_t)sizeof(combined));
out:
	free(tiles);
	jobs_free(&made);
	return result;
}

PyMethodDef core_session_job_methods[] = {
	{ "_submit", jobs_submit, METH_VARARGS, NULL },
	{ "_wait", jobs_wait, METH_VARARGS, NULL },
	{ "_credit", jobs_credit, METH_VARARGS, NULL },
	{ "_cancel", jobs_cancel, METH_VARARGS, NULL },
	{ "_cancel_job", jobs_cancel_job, METH_VARARGS, NULL },
	{ "_scatter", jobs_scatter, METH_VARARGS, NULL },
	{ NULL, NULL, 0, NULL },
};
