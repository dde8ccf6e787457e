/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * core.h - gpumap._core, the C half of the Python package.
 *
 * The extension has a type for each handle of the library, and methods that
 * convert arguments and results.  All that can be said in Python is in Python:
 * the package derives its classes from these types.
 *
 * Lifetimes	An object holds those that it was made from.  close() ends the
 *		handle; what the library has behind it ends with its last user.
 * Threads	The global lock is released around each call that may wait.  A
 *		session has a lock of its own, since the library wants one
 *		thread at a time.
 * Fork		A child counts its forks: session calls raise Forked there
 *		before they touch a lock that another thread may have held.
 */
#ifndef GPUMAP_PYTHON_CORE_H
#define GPUMAP_PYTHON_CORE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <gpumap.h>
#include <gpumap/model.h>

/* Let other threads have the interpreter in between; once in a block. */
#define CORE_UNLOCK() PyThreadState *core_state = PyEval_SaveThread()
#define CORE_LOCK()   PyEval_RestoreThread(core_state)

#define CORE_WAIT_NS  UINT64_C(100000000) /* between two looks for signals */

/* ---- errors ------------------------------------------------------------- */

/* Raise the exception for what @call returned, with the reason of @map; NULL:
 * that of an attach.  Returns NULL. */
PyObject *core_fail(const struct gpumap *map, const char *call, int error);

/* Likewise for calls that store no reason. */
PyObject *core_fail_bare(const char *call, int error);

/* ---- structs and dictionaries ------------------------------------------- */

enum core_kind {
	CORE_U32 = 1,
	CORE_I32,
	CORE_U64,
	CORE_F32,
	CORE_F64,
	CORE_CHARS,   /* char[n], a text with a NUL */
	CORE_BYTES,   /* uint8_t[n] */
	CORE_U64S,    /* uint64_t[n / 8], a tuple */
	CORE_TEXT,    /* const char *, or NULL for None */
	CORE_POINTER, /* an address, or NULL for None */
	/* const T *, and the count in another field */
	CORE_U32_LIST,
	CORE_U64_LIST,
	CORE_F64_LIST,
	CORE_BLOB /* const void * to bytes; the count is 64 bits */
};

struct core_field {
	const char *name;
	uint32_t at;
	uint32_t kind;     /* enum core_kind */
	uint32_t bytes;    /* of the field */
	uint32_t count_at; /* of lists */
};

/* clang-format off */

/* The kind of a member, by its type. */
#define CORE_KIND(type, member)                \
	_Generic(((struct type *)0)->member,   \
		 uint32_t: CORE_U32,           \
		 int32_t: CORE_I32,            \
		 uint64_t: CORE_U64,           \
		 float: CORE_F32,              \
		 double: CORE_F64,             \
		 char *: CORE_CHARS,           \
		 uint8_t *: CORE_BYTES,        \
		 uint64_t *: CORE_U64S,        \
		 const char *: CORE_TEXT,      \
		 void *: CORE_POINTER,         \
		 const void *: CORE_POINTER)

#define CORE_LIST_KIND(type, member)                 \
	_Generic(((struct type *)0)->member,         \
		 const uint32_t *: CORE_U32_LIST,    \
		 const uint64_t *: CORE_U64_LIST,    \
		 const double *: CORE_F64_LIST,      \
		 const void *: CORE_BLOB)

#define CORE_FIELD(type, member)                                           \
	{ #member, offsetof(struct type, member), CORE_KIND(type, member), \
	  sizeof(((struct type *)0)->member), 0 }

/* A list, and the member that has its count. */
#define CORE_LIST(type, member, count)                                 \
	{ #member, offsetof(struct type, member),                      \
	  CORE_LIST_KIND(type, member),                                \
	  sizeof(((struct type *)0)->member), offsetof(struct type, count) }

/* CORE_FIELDS(type, member, ...): a CORE_FIELD and a comma for each of up to 64
 * members.  A macro does not expand itself: CORE_AGAIN stays as it is until the
 * next pass over the text, and CORE_PASSES makes as many. */
#define CORE_PASS(...)   __VA_ARGS__
#define CORE_PASS4(...)  CORE_PASS(CORE_PASS(CORE_PASS(CORE_PASS(__VA_ARGS__))))
#define CORE_PASS16(...) \
	CORE_PASS4(CORE_PASS4(CORE_PASS4(CORE_PASS4(__VA_ARGS__))))
#define CORE_PASSES(...) \
	CORE_PASS16(CORE_PASS16(CORE_PASS16(CORE_PASS16(__VA_ARGS__))))
#define CORE_NOTHING()
#define CORE_AGAIN() CORE_NEXT
#define CORE_NEXT(type, member, ...)  \
	CORE_FIELD(type, member),     \
	__VA_OPT__(CORE_AGAIN CORE_NOTHING()()(type, __VA_ARGS__))
#define CORE_FIELDS(type, ...) CORE_PASSES(CORE_NEXT(type, __VA_ARGS__))

#define CORE_STRUCT_MAX 1024 /* bytes of the largest struct */

#define CORE_STRUCT_FITS(type) \
	_Static_assert(sizeof(struct type) <= CORE_STRUCT_MAX, #type)

/* CORE_STRUCT(name, type, member, ...) */
#define CORE_STRUCT(name, type, ...)                      \
	CORE_STRUCT_FITS(type);                           \
	static const struct core_struct name = {          \
		sizeof(struct type),                      \
		{ CORE_FIELDS(type, __VA_ARGS__) { 0 } }, \
	}

/* CORE_STRUCT_LISTS(name, type, (CORE_LIST(), ...), member, ...) */
#define CORE_STRUCT_LISTS(name, type, lists, ...)                           \
	CORE_STRUCT_FITS(type);                                             \
	static const struct core_struct name = {                            \
		sizeof(struct type),                                        \
		{ CORE_FIELDS(type, __VA_ARGS__) CORE_PASS lists, { 0 } },  \
	}

/* clang-format on */

/* The fields of a struct that dictionaries have. */
struct core_struct {
	size_t bytes;
	struct core_field fields[]; /* the last has no name */
};

/* A new dictionary of the fields of @from. */
PyObject *core_read(const struct core_struct *fields, const void *from);

/*
 * Store a dictionary's entries in the fields of @to, which was zeroed.  Lists
 * are copied into objects that are appended to @keep, and their counts stored;
 * a count that the dictionary has must agree.  Returns 0, or -1 with an
 * exception.
 */
int core_write(const struct core_struct *fields, void *to, PyObject *from,
	       PyObject *keep);

/* Append an object that was just made, and give it up; *list is NULL after an
 * exception. */
void core_append(PyObject **list, PyObject *one);

/* A name that is required.  Returns NULL with an exception. */
const char *core_name(PyObject *object);

/* A tuple of n numbers. */
PyObject *core_u32_tuple(const uint32_t *numbers, size_t n);
PyObject *core_u64_tuple(const uint64_t *numbers, size_t n);

/* PyArg_ParseTuple() wants a tuple: is it one?  Else TypeError. */
bool core_is_tuple(PyObject *object);

/* A fingerprint of (hash, fields or None), or NULL for None.  Returns false
 * with an exception. */
bool core_fingerprint(PyObject *pair, struct gpumap_fingerprint *ret,
		      const struct gpumap_fingerprint **ret_pointer);

/* An absolute time for seconds from now; None: no deadline.  Returns false with
 * an exception. */
bool core_deadline(PyObject *seconds, uint64_t *ret_deadline_ns);
uint64_t core_now_ns(void);

/* The earlier of a deadline and the next look for signals. */
uint64_t core_slice(uint64_t deadline_ns);

/* ---- methods that call one function -------------------------------------- */

#define CORE_TAKES_MAX 7   /* arguments */
#define CORE_GIVES_MAX 4   /* results */
#define CORE_ID_BYTES  128 /* of a mesh's id */

/* An argument.  A method names each that it takes by a letter: one of
 * PyArg_ParseTuple(), or
 *
 *	R	a row (u32); what is larger becomes UINT32_MAX
 *	B	a number of 64 bits (u64), that of a buffer for instance
 *	D	seconds from now, or None (deadline_ns)
 *	W	likewise, of a wait in slices, between which signals are
 *		handled and others may have the handle
 *	F	a fingerprint's pair, or None (print)
 *	J	an id, or None (text)
 *	S	a dictionary (request), of the struct that the call names
 */
union core_value {
	unsigned int u32;
	unsigned long long u64;
	uint64_t deadline_ns;
	int i32;
	const char *text;
	const struct gpumap_fingerprint *print;
	void *request;
	PyObject *object;
};

/* The results that the function stores.  A method names each that it gives by a
 * letter; several are a tuple, and without a letter there is None:
 *
 *	i	what the function returned
 *	b	likewise, as a bool
 *	K	the next of the numbers
 *	J	the id
 *	S	the facts, as a dictionary
 *	T	the next of the lists of rows, as a tuple
 */
struct core_out {
	const char *call; /* of the library, that failed */
	uint64_t numbers[3];
	void *facts; /* a struct that begins with its size */
	uint32_t n_rows;
	uint32_t rows[2][GPUMAP_ROWS_MAX];
	uint8_t id[CORE_ID_BYTES];
};

/* How the objects of a type are used by a call. */
struct core_handle {
	void *(*begin)(PyObject *self); /* NULL with an exception */
	void (*end)(PyObject *self);
	PyObject *(*fail)(PyObject *self, const char *call, int error);
	bool waits; /* so other threads have the interpreter meanwhile */
	/* between two slices of a wait, for those that want it; or NULL */
	void (*yield)(PyObject *self);
};

struct core_call {
	const struct core_handle *handle;
	const char *takes;
	const char *gives;
	const char *name; /* in exceptions */
	int (*function)(void *handle, const union core_value *in,
			struct core_out *out);
	const struct core_struct *request;
	const struct core_struct *facts;
	bool (*again)(int ret); /* is this the end of a slice? */
	bool late_is_false;     /* -ETIME is no exception, but 0 */
};

/* Is it -ETIME? */
bool core_again(int ret);

PyObject *core_call(PyObject *self, PyObject *args,
		    const struct core_call *call);

#define CORE_OF_map     struct gpumap *map
#define CORE_OF_session struct gpumap_session *session
#define CORE_OF_comm    struct gpumap_comm *comm
#define CORE_OF_model   struct gpumap_model *model

/*
 * CORE_METHOD(method, of, how, takes, gives, name, does, ...) - define a method
 *
 * of		map, session, comm or model: the handle's name in @does
 * how		which core_handle: core_<of>_<how>
 * name		of the library's function
 * does		an expression of the handle, of @in and @out
 * ...		.request, .facts and .again, where there are some
 */
#define CORE_METHOD(method, of, how, takes, gives, name, does, ...)        \
	static int method##_call(void *handle, const union core_value *in, \
				 struct core_out *out)                     \
	{                                                                  \
		CORE_OF_##of = handle;                                     \
		(void)in;                                                  \
		(void)out;                                                 \
		return does;                                               \
	}                                                                  \
	static PyObject *method(PyObject *self, PyObject *args)            \
	{                                                                  \
		static const struct core_call call = {                     \
			&core_##of##_##how, takes,      gives, name,       \
			method##_call,      __VA_ARGS__                    \
		};                                                         \
		return core_call(self, args, &call);                       \
	}                                                                  \
	struct core_call /* for the semicolon */

/* Likewise, with a function of the library and its arguments. */
#define CORE_CALL(method, of, how, takes, gives, function, arguments, ...) \
	CORE_METHOD(method, of, how, takes, gives, #function,              \
		    function arguments, __VA_ARGS__)

/* ---- attachments -------------------------------------------------------- */

struct core_map {
	PyObject_HEAD struct gpumap *map; /* NULL once it is detached */
	unsigned users; /* calls under way, and objects made from it */
	bool closed;
};

/* The attachment for one more user.  Returns NULL with an exception where it
 * was closed.  Counterpart: core_map_unuse(). */
struct gpumap *core_map_use(struct core_map *self);
void core_map_unuse(struct core_map *self);

/* Ends a call: unuse, then raise for ret < 0, or return it as a number. */
PyObject *core_map_result(struct core_map *self, const char *call, int ret);

extern PyTypeObject *core_map_type;
extern PyMethodDef core_map_request_methods[]; /* requests.c */
extern PyMethodDef core_map_mesh_methods[];    /* meshes.c */
extern PyMethodDef core_map_list_methods[];    /* lists.c */
extern PyMethodDef core_map_cluster_methods[]; /* cluster.c */

/* Handles for CORE_METHOD(). */
extern const struct core_handle core_map_asks, core_map_reads;

/* ---- sessions ----------------------------------------------------------- */

/* Things to give back when the session's thread comes next. */
enum core_dead_kind { CORE_DEAD_MEMORY, CORE_DEAD_BUFFER, CORE_DEAD_MODEL };

struct core_dead {
	struct core_dead *next;
	enum core_dead_kind kind;
	void *object; /* memory of the arena, or a model */
	uint64_t buffer;
};

struct core_session {
	PyObject_HEAD struct core_map
		*map; /* a user of it, as long as there is a session */
	struct gpumap_session *session; /* NULL once it has ended */
	PyThread_type_lock lock;
	struct core_dead *dead;
	unsigned users;   /* objects made from it */
	unsigned waiting; /* threads that want the lock */
	unsigned forks;   /* of this process when it was opened */
	bool closed;
};

/* Be the session's own thread.  Returns NULL with an exception.  Counterpart:
 * core_session_leave(). */
struct gpumap_session *core_session_enter(struct core_session *self);
void core_session_leave(struct core_session *self);

/* Between two slices of a wait, let a thread that wants the session have it. */
void core_session_yield(const struct core_session *self);

/* For an object made from the session: it stays until the object has gone. */
void core_session_use(struct core_session *self);
void core_session_unuse(struct core_session *self);

/* Leave, then as core_map_result(). */
PyObject *core_session_result(struct core_session *self, const char *call,
			      int ret);

/* Give something back when the session's own thread comes next. */
void core_session_defer(struct core_session *self, enum core_dead_kind kind,
			void *object, uint64_t buffer);

/* Is this a child that was forked after the session was opened? */
bool core_session_forked(const struct core_session *self);

/* Handles for CORE_METHOD(); late: also after close(). */
extern const struct core_handle core_session_asks, core_session_reads;
extern const struct core_handle core_session_late;

extern PyTypeObject *core_session_type;
extern PyMethodDef core_session_job_methods[]; /* jobs.c */

/* A list of (row, value), GPUMAP_WAITS_MAX at most.  Returns 0, or -1 with an
 * exception. */
int core_times(PyObject *list, struct gpumap_time *ret_times, uint32_t *ret_n);

/* ---- memory ------------------------------------------------------------- */

/* Elements of one type, as the buffer protocol and DLPack say them. */
struct core_element {
	const char *type;   /* as checkpoints name it */
	const char *format; /* of the buffer protocol; NULL: it has none */
	uint8_t bytes;
	uint8_t dl_code; /* DLPack's; 255: it has none */
};

/* NULL: not known. */
const struct core_element *core_element_find(const char *type);

struct core_tensor {
	PyObject_HEAD Py_buffer
		memory;   /* in which it is; its obj is NULL if out of reach */
	const char *data; /* NULL: out of reach */
	uint64_t bytes;
	const struct core_element *element; /* NULL: bytes only */
	Py_ssize_t *shape; /* n_dims of them, then as many strides, in bytes */
	int n_dims;
	bool writable;
	Py_ssize_t flat[2]; /* shape and stride of the bytes */
};

PyObject *core_tensor_dlpack(PyObject *self, PyObject *args, PyObject *named);
PyObject *core_tensor_dlpack_device(PyObject *self, PyObject *unused);

/* ---- the module --------------------------------------------------------- */

/* The types of the module; NULL for the parts that one does not have. */
struct core_type {
	const char *name; /* "gpumap._core.NAME" */
	const char *doc;
	PyTypeObject **ret_type; /* where others find it; may be NULL */
	size_t bytes;            /* of an object */
	newfunc new;
	destructor dealloc;
	traverseproc traverse;       /* of types that Python may derive from */
	PyMethodDef *const *methods; /* tables, and NULL */
	PyGetSetDef *getset;
	int (*getbuffer)(PyObject *self, Py_buffer *view, int flags);
	void (*releasebuffer)(PyObject *self, Py_buffer *view);
	ssizeargfunc item;
	lenfunc length;
};

extern const struct core_type core_map_spec, core_view_spec;
extern const struct core_type core_session_spec, core_memory_spec;
extern const struct core_type core_mapping_spec, core_tensor_spec;
extern const struct core_type core_model_spec, core_mask_spec;
extern const struct core_type core_replica_spec, core_comm_spec;
extern const struct core_type core_trace_spec;

/* Visit the type; of an owned object also its owner, the object from which it
 * was made: the first member of its struct, or NULL. */
int core_traverse(PyObject *object, visitproc visit, void *arg);
int core_traverse_owned(PyObject *object, visitproc visit, void *arg);

/* Free an object that @end, which may be NULL, ends; likewise one that Python
 * may derive from and that holds an owner. */
void core_dealloc(PyObject *object, void (*end)(PyObject *object));
void core_dealloc_owned(PyObject *object, void (*end)(PyObject *object));

extern unsigned core_forks; /* of this process and of those before it */

/* ---- pools of CUDA memory ------------------------------------------------ */

/* A method of Map, and a function of the module, see pool.c. */
PyObject *core_pool_open(PyObject *map, PyObject *args);
PyObject *core_pool_find(PyObject *module, PyObject *address);

/* ---- models -------------------------------------------------------------- */

/* A function of the module, see model.c. */
PyObject *core_model_measure(PyObject *module, PyObject *args);

/* ---- masks --------------------------------------------------------------- */

/* Functions of the module, see mask.c. */
PyObject *core_mask_publish(PyObject *module, PyObject *args);
PyObject *core_mask_info(PyObject *module, PyObject *args);

#endif
