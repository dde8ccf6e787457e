/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "core.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include <gpumap/model.h>

/* session.c - sessions: their lock, buffers, files, programs and shares. */

PyTypeObject *core_session_type;

/* ---- one thread at a time ----------------------------------------------- */

bool core_session_forked(const struct core_session *self)
{
	return self->forks != core_forks;
}

/* Give back what objects have left since the last call. */
static void session_release(struct core_session *self)
{
	struct core_dead **next = &self->dead;

	while (*next != NULL) {
		struct core_dead *dead = *next;
		int ret = 0;

		switch (dead->kind) {
		case CORE_DEAD_MEMORY:
			gpumap_free(self->session, dead->object);
			break;
		case CORE_DEAD_BUFFER:
			ret = gpumap_buffer_free(self->session, dead->buffer);
			if (ret == -EINVAL)
				ret = gpumap_buffer_unregister(self->session,
							       dead->buffer);
			break;
		case CORE_DEAD_MODEL:
			ret = gpumap_model_close(dead->object, 0);
			break;
		}
		/* A queue is full, or a model still ends: next time. */
		if (ret == -EAGAIN || ret == -ETIME) {
			next = &dead->next;
			continue;
		}
		*next = dead->next;
		free(dead);
	}
}

/* The session has no users any more. */
static void session_end(struct core_session *self)
{
	struct core_dead *dead;

	if (self->session == NULL)
		return;
	gpumap_session_close(self->session);
	self->session = NULL;
	while ((dead = self->dead) != NULL) {
		self->dead = dead->next;
		if (dead->kind == CORE_DEAD_MODEL)
			gpumap_model_close(dead->object, 0);
		free(dead);
	}
	core_map_unuse(self->map);
}

struct gpumap_session *core_session_enter(struct core_session *self)
{
	if (core_session_forked(self)) {
		core_fail_bare("gpumap_session_open", -EOWNERDEAD);
		return NULL;
	}
	if (!PyThread_acquire_lock(self->lock, NOWAIT_LOCK)) {
		self->waiting++;
		CORE_UNLOCK();
		PyThread_acquire_lock(self->lock, WAIT_LOCK);
		CORE_LOCK();
		self->waiting--;
	}
	if (self->session == NULL) {
		PyThread_release_lock(self->lock);
		PyErr_SetString(PyExc_ValueError, "the session is closed");
		return NULL;
	}
	self->users++;
	if (self->dead != NULL)
		session_release(self);
	return self->session;
}

void core_session_leave(struct core_session *self)
{
	PyThread_release_lock(self->lock);
	core_session_unuse(self);
}

void core_session_yield(const struct core_session *self)
{
	struct timespec moment = { 0, 50000 };

	if (self->waiting == 0)
		return;
	CORE_UNLOCK();
	nanosleep(&moment, NULL);
	CORE_LOCK();
}

void core_session_use(struct core_session *self)
{
	self->users++;
}

void core_session_unuse(struct core_session *self)
{
	if (--self->users == 0 && self->closed)
		session_end(self);
}

PyObject *core_session_result(struct core_session *self, const char *call,
			      int ret)
{
	PyObject *made = ret < 0 ? core_fail(self->map->map, call, ret)
				 : PyLong_FromLong(ret);

	core_session_leave(self);
	return made;
}

void core_session_defer(struct core_session *self, enum core_dead_kind kind,
			void *object, uint64_t buffer)
{
	struct core_dead *dead;

	if (self->session == NULL)
		return;
	dead = malloc(sizeof(*dead));
	if (dead == NULL)
		return; /* the end of the session frees it */
	*dead = (struct core_dead){ self->dead, kind, object, buffer };
	self->dead = dead;
}

/* Enter for a call that the user makes, not for an object that is left. */
static struct gpumap_session *session_call(struct core_session *self)
{
	if (!self->closed)
		return core_session_enter(self);
	PyErr_SetString(PyExc_ValueError, "the session is closed");
	return NULL;
}

static void *session_begin(PyObject *self)
{
	return session_call((struct core_session *)self);
}

static void *session_begin_late(PyObject *self)
{
	return core_session_enter((struct core_session *)self);
}

static void session_leave(PyObject *self)
{
	core_session_leave((struct core_session *)self);
}

static PyObject *session_fail(PyObject *self, const char *call, int error)
{
	return core_fail(((struct core_session *)self)->map->map, call, error);
}

static void session_yield(PyObject *self)
{
	core_session_yield((struct core_session *)self);
}

const struct core_handle core_session_asks = { session_begin, session_leave,
					       session_fail, true,
					       session_yield };
const struct core_handle core_session_reads = { session_begin, session_leave,
						session_fail, false,
						session_yield };
const struct core_handle core_session_late = { session_begin_late,
					       session_leave, session_fail,
					       true, session_yield };

/* ---- open and close ----------------------------------------------------- */

CORE_STRUCT(opts_fields, gpumap_session_opts, depth, flags, arena_bytes);

/* Session(map, {field: value}) */
static PyObject *session_new(PyTypeObject *type, PyObject *args,
			     PyObject *named)
{
	static char *names[] = { "map", "opts", NULL };
	struct gpumap_session_opts opts = { .size = sizeof(opts) };
	PyObject *owner, *dict;
	struct core_session *self;
	struct gpumap_session *session = NULL;
	struct core_map *map;
	int ret;

	if (!PyArg_ParseTupleAndKeywords(args, named, "O!O!", names,
					 core_map_type, &owner, &PyDict_Type,
					 &dict) ||
	    core_write(&opts_fields, &opts, dict, NULL))
		return NULL;
	map = (struct core_map *)owner;
	self = (struct core_session *)PyType_GenericAlloc(type, 0);
	if (self == NULL)
		return NULL;
	self->closed = true;
	self->forks = core_forks;
	self->lock = PyThread_allocate_lock();
	if (self->lock == NULL) {
		PyErr_NoMemory();
		goto out;
	}
	if (core_map_use(map) == NULL)
		goto out;
	self->map = (struct core_map *)Py_NewRef(owner);
	CORE_UNLOCK();
	ret = gpumap_session_open(map->map, &opts, &session);
	CORE_LOCK();
	if (ret < 0) {
		core_map_result(map, "gpumap_session_open", ret);
		goto out;
	}
	self->session = session;
	self->closed = false;
	return (PyObject *)self;
out:
	Py_DECREF(self);
	return NULL;
}

static PyObject *session_close(PyObject *object, PyObject *unused)
{
	struct core_session *self = (struct core_session *)object;

	(void)unused;
	if (self->closed)
		Py_RETURN_NONE;
	if (core_session_forked(self)) {
		self->closed = true;
		if (self->users == 0)
			session_end(self);
		Py_RETURN_NONE;
	}
	if (core_session_enter(self) == NULL)
		return NULL;
	self->closed = true;
	core_session_leave(self);
	Py_RETURN_NONE;
}

static void session_free(PyObject *object)
{
	struct core_session *self = (struct core_session *)object;

	session_end(self);
	if (self->lock != NULL)
		PyThread_free_lock(self->lock);
}

static void session_dealloc(PyObject *self)
{
	core_dealloc_owned(self, session_free);
}

static PyObject *session_closed(PyObject *object, void *unused)
{
	(void)unused;
	return PyBool_FromLong(((struct core_session *)object)->closed);
}

CORE_CALL(session_fileno, session, reads, "", "i", gpumap_session_fd,
	  (session));

CORE_CALL(session_arm, session, reads, "", "i", gpumap_session_arm, (session));

CORE_STRUCT(counts_fields, gpumap_session_counts, submitted, completed,
	    doorbells, parks);

CORE_CALL(session_counts, session, reads, "", "S", gpumap_session_counts,
	  (session, out->facts), .facts = &counts_fields);

/* ---- buffers ------------------------------------------------------------ */

/* (row, bytes, flags, seconds) -> buffer */
CORE_CALL(session_buffer_alloc, session, asks, "IKI|D", "K",
	  gpumap_buffer_alloc,
	  (session, in[0].u32, in[1].u64, in[2].u32, in[3].deadline_ns,
	   out->numbers));

CORE_CALL(session_buffer_free, session, asks, "B", "i", gpumap_buffer_free,
	  (session, in[0].u64));

CORE_CALL(session_buffer_unregister, session, asks, "B", "i",
	  gpumap_buffer_unregister, (session, in[0].u64));

CORE_CALL(session_buffer_unexport, session, asks, "B", "i",
	  gpumap_buffer_unexport, (session, in[0].u64));

CORE_CALL(session_program_unload, session, asks, "B", "i",
	  gpumap_program_unload, (session, in[0].u64));

CORE_CALL(session_share_close, session, asks, "B", "i", gpumap_share_close,
	  (session, in[0].u64));

/* For a Buffer that is collected: it is freed with the next call. */
static PyObject *session_buffer_defer(PyObject *object, PyObject *arg)
{
	struct core_session *self = (struct core_session *)object;
	unsigned long long buffer = PyLong_AsUnsignedLongLong(arg);

	if (buffer == (unsigned long long)-1 && PyErr_Occurred())
		return NULL;
	if (!core_session_forked(self))
		core_session_defer(self, CORE_DEAD_BUFFER, NULL, buffer);
	Py_RETURN_NONE;
}

CORE_CALL(session_buffer_export, session, asks, "B", "K", gpumap_buffer_export,
	  (session, in[0].u64, out->numbers));

/* (export, flags) -> buffer */
CORE_CALL(session_buffer_import, session, asks, "KI", "K", gpumap_buffer_import,
	  (session, in[0].u64, in[1].u32, out->numbers));

/* (fd, at, bytes, flags) -> buffer */
CORE_CALL(session_buffer_register, session, reads, "iKKI", "K",
	  gpumap_buffer_register,
	  (session, in[0].i32, in[1].u64, in[2].u64, in[3].u32, out->numbers));

CORE_CALL(session_file_register, session, asks, "i", "K",
	  gpumap_buffer_register_file, (session, in[0].i32, 0, out->numbers));

/* name -> (buffer, version) */
CORE_CALL(session_mask_register, session, asks, "s", "KK",
	  gpumap_buffer_register_mask,
	  (session, in[0].text, &out->numbers[0], &out->numbers[1]));

CORE_STRUCT(buffer_fields, gpumap_buffer_info, bytes, row, kind, flags);

CORE_CALL(session_buffer_info, session, reads, "B", "S", gpumap_buffer_info,
	  (session, in[0].u64, out->facts), .facts = &buffer_fields);

/* (row, name) -> program */
CORE_CALL(session_program_load, session, asks, "Is", "K", gpumap_program_load,
	  (session, in[0].u32, in[1].text, out->numbers));

/* ---- shares ------------------------------------------------------------- */

CORE_STRUCT_LISTS(share_fields, gpumap_share_request,
		  (CORE_LIST(gpumap_share_request, buffers, n_buffers),
		   CORE_LIST(gpumap_share_request, about, about_bytes),
		   CORE_LIST(gpumap_share_request, uids, n_uids)),
		  name, flags);

/* (request, fingerprint or None) -> share */
static int publish(struct gpumap_session *session,
		   struct gpumap_share_request *request,
		   const struct gpumap_fingerprint *print, uint64_t *ret_share)
{
	request->fingerprint = print;
	return gpumap_share_publish(session, request, ret_share);
}

CORE_METHOD(session_share_publish, session, asks, "SF", "K",
	    "gpumap_share_publish",
	    publish(session, in[0].request, in[1].print, out->numbers),
	    .request = &share_fields);

/* (name, flags, fingerprint or None) -> share */
CORE_CALL(session_share_open, session, asks, "sIF", "K", gpumap_share_open,
	  (session, in[0].text, in[1].u32, in[2].print, out->numbers));

/* (name, flags, fingerprint or None, seconds) -> True: this session has the
 * claim; False: the share is there */
static int claim(struct gpumap_session *session, const union core_value *in)
{
	int ret = gpumap_share_claim(session, in[0].text, in[1].u32,
				     in[2].print, in[3].deadline_ns);

	return ret == 0 ? 1 : ret == -EEXIST ? 0 : ret;
}

CORE_METHOD(session_share_claim, session, asks, "sIFW", "b",
	    "gpumap_share_claim", claim(session, in), .again = core_again);

CORE_CALL(session_share_unclaim, session, asks, "s", "i", gpumap_share_unclaim,
	  (session, in[0].text));

CORE_STRUCT(share_info_fields, gpumap_share_info, name, uid, flags, n_buffers,
	    bytes, fingerprint);

/* share -> facts, with the bytes that describe it */
static PyObject *session_share_info(PyObject *object, PyObject *arg)
{
	struct core_session *self = (struct core_session *)object;
	struct gpumap_share_info info = { .size = sizeof(info) };
	unsigned long long share = PyLong_AsUnsignedLongLong(arg);
	struct gpumap_session *session;
	PyObject *made, *about;
	int ret;

	if (share == (unsigned long long)-1 && PyErr_Occurred())
		return NULL;
	session = session_call(self);
	if (session == NULL)
		return NULL;
	ret = gpumap_share_info(session, share, &info);
	if (ret < 0)
		return core_session_result(self, "gpumap_share_info", ret);
	made = core_read(&share_info_fields, &info);
	about = PyBytes_FromStringAndSize(
		info.about,
		info.about == NULL ? 0 : (Py_ssize_t)info.about_bytes);
	core_session_leave(self);
	if (made == NULL || about == NULL ||
	    PyDict_SetItemString(made, "about", about) != 0)
		Py_CLEAR(made);
	Py_XDECREF(about);
	return made;
}

/* (share, index) -> (buffer, bytes, row) */
static int share_buffer(struct gpumap_session *session, uint64_t share,
			uint32_t index, uint64_t *ret_numbers)
{
	struct gpumap_export_info info = { .size = sizeof(info) };
	int ret = gpumap_share_buffer(session, share, index, &info,
				      &ret_numbers[0]);

	ret_numbers[1] = info.bytes;
	ret_numbers[2] = info.row;
	return ret;
}

CORE_METHOD(session_share_buffer, session, asks, "KI", "KKK",
	    "gpumap_share_buffer",
	    share_buffer(session, in[0].u64, in[1].u32, out->numbers));

/* (share, index) -> (fd, bytes, row).  A model that was left by close() of its
 * session may still be read. */
static int share_fd(struct gpumap_session *session, uint64_t share,
		    uint32_t index, uint64_t *ret_numbers)
{
	struct gpumap_export_info info = { .size = sizeof(info) };
	int fd = -1;
	int ret = gpumap_share_fd(session, share, index, &info, &fd);

	ret_numbers[0] = (uint64_t)fd;
	ret_numbers[1] = info.bytes;
	ret_numbers[2] = info.row;
	return ret;
}

CORE_METHOD(session_share_fd, session, late, "KI", "KKK", "gpumap_share_fd",
	    share_fd(session, in[0].u64, in[1].u32, out->numbers));

/* (share, first, n) -> [fd], one or more of the n */
static PyObject *session_share_fds(PyObject *object, PyObject *args)
{
	struct core_session *self = (struct core_session *)object;
	int fds[32], ret; /* no more come at a time */
	unsigned int first, n;
	struct gpumap_session *session;
	unsigned long long share;
	PyObject *list;

	if (!PyArg_ParseTuple(args, "KII", &share, &first, &n))
		return NULL;
	session = core_session_enter(self);
	if (session == NULL)
		return NULL;
	CORE_UNLOCK();
	ret = gpumap_share_fds(session, share, first, n < 32 ? n : 32, fds);
	CORE_LOCK();
	if (ret < 0)
		return core_session_result(self, "gpumap_share_fds", ret);
	core_session_leave(self);
	list = PyList_New(ret);
	for (int i = 0; list != NULL && i < ret; i++) {
		PyObject *one = PyLong_FromLong(fds[i]);

		if (one == NULL || PyList_SetItem(list, i, one) != 0)
			Py_CLEAR(list);
	}
	for (int i = 0; list == NULL && i < ret; i++)
		close(fds[i]);
	return list;
}

static PyMethodDef session_methods[] = {
	{ "close", session_close, METH_NOARGS,
	  "close($self, /)\n--\n\n"
	  "End this handle.  The session ends with the last object made from\n"
	  "it: memory that is in use, or a model." },
	{ "fileno", session_fileno, METH_VARARGS,
	  "fileno($self, /)\n--\n\n"
	  "A descriptor that becomes readable when a job ends.\n\n"
	  "Unsupported: the session was not opened with pollable=True.  Call\n"
	  "arm() before each sleep on it." },
	{ "arm", session_arm, METH_VARARGS,
	  "arm($self, /)\n--\n\n"
	  "Have the descriptor made readable by the next completion.\n\n"
	  "0: sleep now, for a second at most; 1: completions are waiting." },
	{ "_counts", session_counts, METH_VARARGS, NULL },
	{ "_buffer_alloc", session_buffer_alloc, METH_VARARGS, NULL },
	{ "_buffer_free", session_buffer_free, METH_VARARGS, NULL },
	{ "_buffer_defer", session_buffer_defer, METH_O, NULL },
	{ "_buffer_unregister", session_buffer_unregister, METH_VARARGS, NULL },
	{ "_buffer_export", session_buffer_export, METH_VARARGS, NULL },
	{ "_buffer_unexport", session_buffer_unexport, METH_VARARGS, NULL },
	{ "_buffer_import", session_buffer_import, METH_VARARGS, NULL },
	{ "_buffer_register", session_buffer_register, METH_VARARGS, NULL },
	{ "_buffer_register_file", session_file_register, METH_VARARGS, NULL },
	{ "_buffer_register_mask", session_mask_register, METH_VARARGS, NULL },
	{ "_buffer_info", session_buffer_info, METH_VARARGS, NULL },
	{ "_program_load", session_program_load, METH_VARARGS, NULL },
	{ "_program_unload", session_program_unload, METH_VARARGS, NULL },
	{ "_share_publish", session_share_publish, METH_VARARGS, NULL },
	{ "_share_claim", session_share_claim, METH_VARARGS, NULL },
	{ "_share_unclaim", session_share_unclaim, METH_VARARGS, NULL },
	{ "_share_open", session_share_open, METH_VARARGS, NULL },
	{ "_share_close", session_share_close, METH_VARARGS, NULL },
	{ "_share_info", session_share_info, METH_O, NULL },
	{ "_share_buffer", session_share_buffer, METH_VARARGS, NULL },
	{ "_share_fd", session_share_fd, METH_VARARGS, NULL },
	{ "_share_fds", session_share_fds, METH_VARARGS, NULL },
	{ NULL, NULL, 0, NULL },
};

static PyGetSetDef session_getset[] = {
	{ "closed", session_closed, NULL, "Has close() been called?", NULL },
	{ NULL, NULL, NULL, NULL, NULL },
};

const struct core_type core_session_spec = {
	.name = "gpumap._core.Session",
	.doc = "Queues to the rows, and memory for payloads.",
	.ret_type = &core_session_type,
	.bytes = sizeof(struct core_session),
	.new = session_new,
	.dealloc = session_dealloc,
	.traverse = core_traverse_owned,
	.methods = (PyMethodDef *const[]){ session_methods,
					   core_session_job_methods, NULL },
	.getset = session_getset,
};
