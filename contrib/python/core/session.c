/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "core.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

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

static void session_dealloc(PyObject *object)
{
	struct core_session *self = (struct core_session *)object;
	PyTypeObject *type = Py_TYPE(object);

	PyObject_GC_UnTrack(object);
	session_end(self);
	if (self->lock != NULL)
		PyThread_free_lock(self->lock);
	Py_XDECREF((PyObject *)self->map);
	((freefunc)PyType_GetSlot(type, Py_tp_free))(object);
	Py_DECREF(type);
}

static int session_traverse(PyObject *object, visitproc visit, void *arg)
{
	Py_VISIT(Py_TYPE(object));
	Py_VISIT((PyObject *)((struct core_session *)object)->map);
	return 0;
}

static PyObject *session_closed(PyObject *object, void *unused)
{
	(void)unused;
	return PyBool_FromLong(((struct core_session *)object)->closed);
}

static PyObject *session_fileno(PyObject *object, PyObject *unused)
{
	struct core_session *self = (struct core_session *)object;
	struct gpumap_session *session = session_call(self);

	(void)unused;
	if (session == NULL)
		return NULL;
	return core_session_result(self, "gpumap_session_fd",
				   gpumap_session_fd(session));
}

static PyObject *session_arm(PyObject *object, PyObject *unused)
{
	struct core_session *self = (struct core_session *)object;
	struct gpumap_session *session = session_call(self);

	(void)unused;
	if (session == NULL)
		return NULL;
	return core_session_result(self, "gpumap_session_arm",
				   gpumap_session_arm(session));
}

CORE_STRUCT(counts_fields, gpumap_session_counts, submitted, completed,
	    doorbells, parks);

static PyObject *session_counts(PyObject *object, PyObject *unused)
{
	struct core_session *self = (struct core_session *)object;
	struct gpumap_session_counts counts = { .size = sizeof(counts) };
	struct gpumap_session *session = session_call(self);
	int ret;

	(void)unused;
	if (session == NULL)
		return NULL;
	ret = gpumap_session_counts(session, &counts);
	if (ret < 0)
		return core_session_result(self, "gpumap_session_counts", ret);
	core_session_leave(self);
	return core_read(&counts_fields, &counts);
}

/* ---- buffers ------------------------------------------------------------ */

/* (row, bytes, flags, seconds) -> buffer */
static PyObject *session_buffer_alloc(PyObject *object, PyObject *args)
{
	struct core_session *self = (struct core_session *)object;
	struct gpumap_session *session;
	unsigned int row, flags;
	unsigned long long bytes;
	PyObject *seconds = Py_None;
	uint64_t buffer, deadline_ns, slice_ns;
	int ret;

	if (!PyArg_ParseTuple(args, "IKI|O", &row, &bytes, &flags, &seconds) ||
	    !core_deadline(seconds, &deadline_ns))
		return NULL;
	slice_ns = deadline_ns;
	session = session_call(self);
	if (session == NULL)
		return NULL;
	CORE_UNLOCK();
	ret = gpumap_buffer_alloc(session, row, bytes, flags, slice_ns,
				  &buffer);
	CORE_LOCK();
	if (ret < 0)
		return core_session_result(self, "gpumap_buffer_alloc", ret);
	core_session_leave(self);
	return PyLong_FromUnsignedLongLong(buffer);
}

/* The calls that take a session and a buffer. */
static PyObject *
session_with_buffer(PyObject *object, PyObject *arg, const char *call,
		    int (*function)(struct gpumap_session *, uint64_t))
{
	struct core_session *self = (struct core_session *)object;
	unsigned long long buffer = PyLong_AsUnsignedLongLong(arg);
	struct gpumap_session *session;
	int ret;

	if (buffer == (unsigned long long)-1 && PyErr_Occurred())
		return NULL;
	session = session_call(self);
	if (session == NULL)
		return NULL;
	CORE_UNLOCK();
	ret = function(session, buffer);
	CORE_LOCK();
	return core_session_result(self, call, ret);
}

static PyObject *session_buffer_free(PyObject *self, PyObject *buffer)
{
	return session_with_buffer(self, buffer, "gpumap_buffer_free",
				   gpumap_buffer_free);
}

static PyObject *session_buffer_unregister(PyObject *self, PyObject *buffer)
{
	return session_with_buffer(self, buffer, "gpumap_buffer_unregister",
				   gpumap_buffer_unregister);
}

static PyObject *session_buffer_unexport(PyObject *self, PyObject *buffer)
{
	return session_with_buffer(self, buffer, "gpumap_buffer_unexport",
				   gpumap_buffer_unexport);
}

static PyObject *session_program_unload(PyObject *self, PyObject *program)
{
	return session_with_buffer(self, program, "gpumap_program_unload",
				   gpumap_program_unload);
}

static PyObject *session_share_close(PyObject *self, PyObject *share)
{
	return session_with_buffer(self, share, "gpumap_share_close",
				   gpumap_share_close);
}

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

static PyObject *session_buffer_export(PyObject *object, PyObject *arg)
{
	struct core_session *self = (struct core_session *)object;
	unsigned long long buffer = PyLong_AsUnsignedLongLong(arg);
	struct gpumap_session *session;
	uint64_t number;
	int ret;

	if (buffer == (unsigned long long)-1 && PyErr_Occurred())
		return NULL;
	session = session_call(self);
	if (session == NULL)
		return NULL;
	CORE_UNLOCK();
	ret = gpumap_buffer_export(session, buffer, &number);
	CORE_LOCK();
	if (ret < 0)
		return core_session_result(self, "gpumap_buffer_export", ret);
	core_session_leave(self);
	return PyLong_FromUnsignedLongLong(number);
}

/* (export, flags) -> buffer */
static PyObject *session_buffer_import(PyObject *object, PyObject *args)
{
	struct core_session *self = (struct core_session *)object;
	struct gpumap_session *session;
	unsigned long long number;
	unsigned int flags;
	uint64_t buffer;
	int ret;

	if (!PyArg_ParseTuple(args, "KI", &number, &flags))
		return NULL;
	session = session_call(self);
	if (session == NULL)
		return NULL;
	CORE_UNLOCK();
	ret = gpumap_buffer_import(session, number, flags, &buffer);
	CORE_LOCK();
	if (ret < 0)
		return core_session_result(self, "gpumap_buffer_import", ret);
	core_session_leave(self);
	return PyLong_FromUnsignedLongLong(buffer);
}

/* (fd, at, bytes, flags) -> buffer */
static PyObject *session_buffer_register(PyObject *object, PyObject *args)
{
	struct core_session *self = (struct core_session *)object;
	struct gpumap_session *session;
	unsigned long long at, bytes;
	unsigned int flags;
	uint64_t buffer;
	int fd, ret;

	if (!PyArg_ParseTuple(args, "iKKI", &fd, &at, &bytes, &flags))
		return NULL;
	session = session_call(self);
	if (session == NULL)
		return NULL;
	ret = gpumap_buffer_register(session, fd, at, bytes, flags, &buffer);
	if (ret < 0)
		return core_session_result(self, "gpumap_buffer_register", ret);
	core_session_leave(self);
	return PyLong_FromUnsignedLongLong(buffer);
}

static PyObject *session_file_register(PyObject *object, PyObject *args)
{
	struct core_session *self = (struct core_session *)object;
	struct gpumap_session *session;
	uint64_t buffer;
	int fd, ret;

	if (!PyArg_ParseTuple(args, "i", &fd))
		return NULL;
	session = session_call(self);
	if (session == NULL)
		return NULL;
	CORE_UNLOCK();
	ret = gpumap_buffer_register_file(session, fd, 0, &buffer);
	CORE_LOCK();
	if (ret < 0)
		return core_session_result(self, "gpumap_buffer_register_file",
					   ret);
	core_session_leave(self);
	return PyLong_FromUnsignedLongLong(buffer);
}

/* name -> (buffer, version) */
static PyObject *session_mask_register(PyObject *object, PyObject *arg)
{
	struct core_session *self = (struct core_session *)object;
	struct gpumap_session *session;
	const char *name = core_name(arg);
	uint64_t buffer, version = 0;
	int ret;

	if (name == NULL)
		return NULL;
	session = session_call(self);
	if (session == NULL)
		return NULL;
	CORE_UNLOCK();
	ret = gpumap_buffer_register_mask(session, name, &buffer, &version);
	CORE_LOCK();
	if (ret < 0)
		return core_session_result(self, "gpumap_buffer_register_mask",
					   ret);
	core_session_leave(self);
	return Py_BuildValue("KK", (unsigned long long)buffer,
			     (unsigned long long)version);
}

CORE_STRUCT(buffer_fields, gpumap_buffer_info, bytes, row, kind, flags);

static PyObject *session_buffer_info(PyObject *object, PyObject *arg)
{
	struct core_session *self = (struct core_session *)object;
	struct gpumap_buffer_info info = { .size = sizeof(info) };
	unsigned long long buffer = PyLong_AsUnsignedLongLong(arg);
	struct gpumap_session *session;
	int ret;

	if (buffer == (unsigned long long)-1 && PyErr_Occurred())
		return NULL;
	session = session_call(self);
	if (session == NULL)
		return NULL;
	ret = gpumap_buffer_info(session, buffer, &info);
	if (ret < 0)
		return core_session_result(self, "gpumap_buffer_info", ret);
	core_session_leave(self);
	return core_read(&buffer_fields, &info);
}

/* (row, name) -> program */
static PyObject *session_program_load(PyObject *object, PyObject *args)
{
	struct core_session *self = (struct core_session *)object;
	struct gpumap_session *session;
	const char *name;
	unsigned int row;
	uint64_t program;
	int ret;

	if (!PyArg_ParseTuple(args, "Is", &row, &name))
		return NULL;
	session = session_call(self);
	if (session == NULL)
		return NULL;
	CORE_UNLOCK();
	ret = gpumap_program_load(session, row, name, &program);
	CORE_LOCK();
	if (ret < 0)
		return core_session_result(self, "gpumap_program_load", ret);
	core_session_leave(self);
	return PyLong_FromUnsignedLongLong(program);
}

/* ---- shares ------------------------------------------------------------- */

CORE_STRUCT_LISTS(share_fields, gpumap_share_request,
		  (CORE_LIST(gpumap_share_request, buffers, n_buffers),
		   CORE_LIST(gpumap_share_request, about, about_bytes),
		   CORE_LIST(gpumap_share_request, uids, n_uids)),
		  name, flags);

/* (request, fingerprint or None) -> share */
static PyObject *session_share_publish(PyObject *object, PyObject *args)
{
	struct core_session *self = (struct core_session *)object;
	struct gpumap_share_request request = { .size = sizeof(request) };
	PyObject *dict, *pair, *keep = PyList_New(0), *made = NULL;
	struct gpumap_fingerprint print;
	struct gpumap_session *session;
	uint64_t share;
	int ret;

	if (keep == NULL ||
	    !PyArg_ParseTuple(args, "O!O", &PyDict_Type, &dict, &pair) ||
	    !core_fingerprint(pair, &print, &request.fingerprint) ||
	    core_write(&share_fields, &request, dict, keep) ||
	    (session = session_call(self)) == NULL)
		goto out;
	CORE_UNLOCK();
	ret = gpumap_share_publish(session, &request, &share);
	CORE_LOCK();
	if (ret < 0) {
		made = core_session_result(self, "gpumap_share_publish", ret);
		goto out;
	}
	core_session_leave(self);
	made = PyLong_FromUnsignedLongLong(share);
out:
	Py_XDECREF(keep);
	return made;
}

/* (name, flags, fingerprint or None) -> share */
static PyObject *session_share_open(PyObject *object, PyObject *args)
{
	struct core_session *self = (struct core_session *)object;
	const struct gpumap_fingerprint *expect;
	struct gpumap_fingerprint print;
	struct gpumap_session *session;
	unsigned int flags;
	const char *name;
	PyObject *pair;
	uint64_t share;
	int ret;

	if (!PyArg_ParseTuple(args, "sIO", &name, &flags, &pair) ||
	    !core_fingerprint(pair, &print, &expect))
		return NULL;
	session = session_call(self);
	if (session == NULL)
		return NULL;
	CORE_UNLOCK();
	ret = gpumap_share_open(session, name, flags, expect, &share);
	CORE_LOCK();
	if (ret < 0)
		return core_session_result(self, "gpumap_share_open", ret);
	core_session_leave(self);
	return PyLong_FromUnsignedLongLong(share);
}

/* (name, flags, fingerprint or None, seconds) -> True: this session has the
 * claim; False: the share is there */
static PyObject *session_share_claim(PyObject *object, PyObject *args)
{
	struct core_session *self = (struct core_session *)object;
	const struct gpumap_fingerprint *expect;
	struct gpumap_fingerprint print;
	struct gpumap_session *session;
	uint64_t deadline_ns, slice_ns;
	PyObject *pair, *seconds;
	unsigned int flags;
	const char *name;
	int ret;

	if (!PyArg_ParseTuple(args, "sIOO", &name, &flags, &pair, &seconds) ||
	    !core_fingerprint(pair, &print, &expect) ||
	    !core_deadline(seconds, &deadline_ns))
		return NULL;
	for (;;) {
		slice_ns = core_slice(deadline_ns);
		session = session_call(self);
		if (session == NULL)
			return NULL;
		CORE_UNLOCK();
		ret = gpumap_share_claim(session, name, flags, expect,
					 slice_ns);
		CORE_LOCK();
		if (ret != -ETIME || slice_ns == deadline_ns)
			break;
		core_session_leave(self);
		if (PyErr_CheckSignals() != 0)
			return NULL;
		core_session_yield(self);
	}
	if (ret < 0 && ret != -EEXIST)
		return core_session_result(self, "gpumap_share_claim", ret);
	core_session_leave(self);
	return PyBool_FromLong(ret == 0);
}

static PyObject *session_share_unclaim(PyObject *object, PyObject *arg)
{
	struct core_session *self = (struct core_session *)object;
	const char *name = core_name(arg);
	struct gpumap_session *session;
	int ret;

	if (name == NULL)
		return NULL;
	session = session_call(self);
	if (session == NULL)
		return NULL;
	CORE_UNLOCK();
	ret = gpumap_share_unclaim(session, name);
	CORE_LOCK();
	return core_session_result(self, "gpumap_share_unclaim", ret);
}

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
static PyObject *session_share_buffer(PyObject *object, PyObject *args)
{
	struct core_session *self = (struct core_session *)object;
	struct gpumap_export_info info = { .size = sizeof(info) };
	struct gpumap_session *session;
	unsigned long long share;
	unsigned int index;
	uint64_t buffer;
	int ret;

	if (!PyArg_ParseTuple(args, "KI", &share, &index))
		return NULL;
	session = session_call(self);
	if (session == NULL)
		return NULL;
	CORE_UNLOCK();
	ret = gpumap_share_buffer(session, share, index, &info, &buffer);
	CORE_LOCK();
	if (ret < 0)
		return core_session_result(self, "gpumap_share_buffer", ret);
	core_session_leave(self);
	return Py_BuildValue("KKI", (unsigned long long)buffer,
			     (unsigned long long)info.bytes, info.row);
}

/* (share, index) -> (fd, bytes, row) */
static PyObject *session_share_fd(PyObject *object, PyObject *args)
{
	struct core_session *self = (struct core_session *)object;
	struct gpumap_export_info info = { .size = sizeof(info) };
	struct gpumap_session *session;
	unsigned long long share;
	unsigned int index;
	int fd, ret;

	if (!PyArg_ParseTuple(args, "KI", &share, &index))
		return NULL;
	/* A model that was left by close() of its session may still be read. */
	session = core_session_enter(self);
	if (session == NULL)
		return NULL;
	CORE_UNLOCK();
	ret = gpumap_share_fd(session, share, index, &info, &fd);
	CORE_LOCK();
	if (ret < 0)
		return core_session_result(self, "gpumap_share_fd", ret);
	core_session_leave(self);
	return Py_BuildValue("iKI", fd, (unsigned long long)info.bytes,
			     info.row);
}

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
	{ "fileno", session_fileno, METH_NOARGS,
	  "fileno($self, /)\n--\n\n"
	  "A descriptor that becomes readable when a job ends.\n\n"
	  "Unsupported: the session was not opened with pollable=True.  Call\n"
	  "arm() before each sleep on it." },
	{ "arm", session_arm, METH_NOARGS,
	  "arm($self, /)\n--\n\n"
	  "Have the descriptor made readable by the next completion.\n\n"
	  "0: sleep now, for a second at most; 1: completions are waiting." },
	{ "_counts", session_counts, METH_NOARGS, NULL },
	{ "_buffer_alloc", session_buffer_alloc, METH_VARARGS, NULL },
	{ "_buffer_free", session_buffer_free, METH_O, NULL },
	{ "_buffer_defer", session_buffer_defer, METH_O, NULL },
	{ "_buffer_unregister", session_buffer_unregister, METH_O, NULL },
	{ "_buffer_export", session_buffer_export, METH_O, NULL },
	{ "_buffer_unexport", session_buffer_unexport, METH_O, NULL },
	{ "_buffer_import", session_buffer_import, METH_VARARGS, NULL },
	{ "_buffer_register", session_buffer_register, METH_VARARGS, NULL },
	{ "_buffer_register_file", session_file_register, METH_VARARGS, NULL },
	{ "_buffer_register_mask", session_mask_register, METH_O, NULL },
	{ "_buffer_info", session_buffer_info, METH_O, NULL },
	{ "_program_load", session_program_load, METH_VARARGS, NULL },
	{ "_program_unload", session_program_unload, METH_O, NULL },
	{ "_share_publish", session_share_publish, METH_VARARGS, NULL },
	{ "_share_claim", session_share_claim, METH_VARARGS, NULL },
	{ "_share_unclaim", session_share_unclaim, METH_O, NULL },
	{ "_share_open", session_share_open, METH_VARARGS, NULL },
	{ "_share_close", session_share_close, METH_O, NULL },
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

int core_add_session(PyObject *module)
{
	static PyMethodDef all[64];
	static PyType_Slot slots[] = {
		{ Py_tp_new, session_new },
		{ Py_tp_dealloc, session_dealloc },
		{ Py_tp_traverse, session_traverse },
		{ Py_tp_methods, all },
		{ Py_tp_getset, session_getset },
		{ Py_tp_doc, "Queues to the rows, and memory for payloads." },
		{ 0, NULL },
	};
	static PyType_Spec spec = {
		.name = "gpumap._core.Session",
		.basicsize = sizeof(struct core_session),
		.flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE |
			 Py_TPFLAGS_HAVE_GC,
		.slots = slots,
	};
	PyMethodDef *const tables[] = { session_methods,
					core_session_job_methods };
	size_t n = 0;

	for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++)
		for (const PyMethodDef *m = tables[i]; m->ml_name != NULL; m++)
			all[n++] = *m;
	core_session_type = core_add_type(module, &spec, "Session");
	return core_session_type == NULL ? -1 : 0;
}
