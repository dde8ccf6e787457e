/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "core.h"

#include <errno.h>
#include <string.h>
#include <time.h>

static int fields_reject(const char *name, const char *why)
{
	PyErr_Format(PyExc_ValueError, "%s %s", name, why);
	return -1;
}

/* The text of a str without NULs, NULL for None; on errors *ret_failed. */
static const char *fields_text(PyObject *object, bool *ret_failed)
{
	const char *text;
	Py_ssize_t bytes;

	*ret_failed = false;
	if (object == Py_None)
		return NULL;
	text = PyUnicode_AsUTF8AndSize(object, &bytes);
	if (text != NULL && strlen(text) != (size_t)bytes) {
		PyErr_SetString(PyExc_ValueError, "a NUL in a name");
		text = NULL;
	}
	*ret_failed = text == NULL;
	return text;
}

const char *core_name(PyObject *object)
{
	bool failed;
	const char *text = fields_text(object, &failed);

	if (text == NULL && !failed)
		PyErr_SetString(PyExc_TypeError, "a name must be a str");
	return text;
}

PyObject *core_u32_tuple(const uint32_t *numbers, size_t n)
{
	PyObject *tuple = PyTuple_New((Py_ssize_t)n);

	for (size_t i = 0; tuple != NULL && i < n; i++) {
		PyObject *number = PyLong_FromUnsignedLong(numbers[i]);

		if (number == NULL)
			Py_CLEAR(tuple);
		else
			PyTuple_SetItem(tuple, (Py_ssize_t)i, number);
	}
	return tuple;
}

PyObject *core_u64_tuple(const uint64_t *numbers, size_t n)
{
	PyObject *tuple = PyTuple_New((Py_ssize_t)n);

	for (size_t i = 0; tuple != NULL && i < n; i++) {
		PyObject *number = PyLong_FromUnsignedLongLong(numbers[i]);

		if (number == NULL)
			Py_CLEAR(tuple);
		else
			PyTuple_SetItem(tuple, (Py_ssize_t)i, number);
	}
	return tuple;
}

bool core_is_tuple(PyObject *object)
{
	if (PyTuple_Check(object))
		return true;
	PyErr_SetString(PyExc_TypeError, "a tuple is needed");
	return false;
}

bool core_fingerprint(PyObject *pair, struct gpumap_fingerprint *ret,
		      const struct gpumap_fingerprint **ret_pointer)
{
	const char *hash;
	Py_ssize_t n;

	*ret_pointer = NULL;
	if (pair == NULL || pair == Py_None)
		return true;
	*ret = (struct gpumap_fingerprint){ .size = sizeof(*ret) };
	if (!core_is_tuple(pair) ||
	    !PyArg_ParseTuple(pair, "y#z", &hash, &n, &ret->fields))
		return false;
	if (n != (Py_ssize_t)sizeof(ret->hash)) {
		PyErr_SetString(PyExc_ValueError, "a hash has 32 bytes");
		return false;
	}
	memcpy(ret->hash, hash, sizeof(ret->hash));
	*ret_pointer = ret;
	return true;
}

uint64_t core_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * UINT64_C(1000000000) +
	       (uint64_t)now.tv_nsec;
}

bool core_deadline(PyObject *seconds, uint64_t *ret_deadline_ns)
{
	double s;

	*ret_deadline_ns = GPUMAP_NO_DEADLINE;
	if (seconds == NULL || seconds == Py_None)
		return true;
	s = PyFloat_AsDouble(seconds);
	if (s == -1.0 && PyErr_Occurred())
		return false;
	if (s != s) {
		PyErr_SetString(PyExc_ValueError,
				"a timeout that is no number");
		return false;
	}
	if (s <= 0)
		*ret_deadline_ns = 0;
	else if (s < 1e9)
		*ret_deadline_ns = core_now_ns() + (uint64_t)(s * 1e9);
	return true;
}

uint64_t core_slice(uint64_t deadline_ns)
{
	uint64_t next = core_now_ns() + CORE_WAIT_NS;

	return deadline_ns < next ? deadline_ns : next;
}

/* ---- out ---------------------------------------------------------------- */

static PyObject *fields_value(const struct core_field *field, const char *from)
{
	uint32_t u32;
	uint64_t u64;
	int32_t i32;
	float f32;
	double f64;

	from += field->at;
	switch (field->kind) {
	case CORE_U32:
		memcpy(&u32, from, sizeof(u32));
		return PyLong_FromUnsignedLong(u32);
	case CORE_I32:
		memcpy(&i32, from, sizeof(i32));
		return PyLong_FromLong(i32);
	case CORE_U64:
		memcpy(&u64, from, sizeof(u64));
		return PyLong_FromUnsignedLongLong(u64);
	case CORE_F32:
		memcpy(&f32, from, sizeof(f32));
		return PyFloat_FromDouble((double)f32);
	case CORE_F64:
		memcpy(&f64, from, sizeof(f64));
		return PyFloat_FromDouble(f64);
	case CORE_CHARS:
		return PyUnicode_DecodeUTF8(
			from, (Py_ssize_t)strnlen(from, field->bytes),
			"replace");
	case CORE_BYTES:
		return PyBytes_FromStringAndSize(from, field->bytes);
	case CORE_U64S:
		return core_u64_tuple((const uint64_t *)(const void *)from,
				      field->bytes / 8);
	default:
		return Py_NewRef(Py_None);
	}
}

PyObject *core_read(const struct core_struct *fields, const void *from)
{
	PyObject *dict = PyDict_New();

	for (const struct core_field *field = fields->fields;
	     dict != NULL && field->name != NULL; field++) {
		PyObject *value = fields_value(field, from);

		if (value == NULL ||
		    PyDict_SetItemString(dict, field->name, value) != 0)
			Py_CLEAR(dict);
		Py_XDECREF(value);
	}
	return dict;
}

void core_append(PyObject **list, PyObject *one)
{
	if (*list != NULL && (one == NULL || PyList_Append(*list, one) != 0))
		Py_CLEAR(*list);
	Py_XDECREF(one);
}

/* ---- in ----------------------------------------------------------------- */

static int fields_number(const struct core_field *field, char *to,
			 PyObject *value)
{
	unsigned long long u64;
	long long i64;
	double f64;
	float f32;

	switch (field->kind) {
	case CORE_F32:
	case CORE_F64:
		f64 = PyFloat_AsDouble(value);
		if (f64 == -1.0 && PyErr_Occurred())
			return -1;
		f32 = (float)f64;
		if (field->kind == CORE_F32)
			memcpy(to, &f32, sizeof(f32));
		else
			memcpy(to, &f64, sizeof(f64));
		return 0;
	case CORE_I32:
		i64 = PyLong_AsLongLong(value);
		if (i64 == -1 && PyErr_Occurred())
			return -1;
		if (i64 < INT32_MIN || i64 > INT32_MAX)
			return fields_reject(field->name, "is out of range");
		memcpy(to, &(int32_t){ (int32_t)i64 }, 4);
		return 0;
	default:
		break;
	}
	u64 = PyLong_AsUnsignedLongLong(value);
	if (u64 == (unsigned long long)-1 && PyErr_Occurred())
		return -1;
	if (field->kind == CORE_U32) {
		if (u64 > UINT32_MAX)
			return fields_reject(field->name, "is out of range");
		memcpy(to, &(uint32_t){ (uint32_t)u64 }, 4);
	} else {
		memcpy(to, &(uint64_t){ u64 }, 8);
	}
	return 0;
}

static size_t fields_element(uint32_t kind)
{
	return kind == CORE_BLOB ? 1 : kind == CORE_U32_LIST ? 4 : 8;
}

/* The elements of a list as one object of bytes. */
static PyObject *fields_pack(const struct core_field *field, PyObject *list)
{
	static const uint32_t kinds[] = {
		[CORE_U32_LIST] = CORE_U32,
		[CORE_U64_LIST] = CORE_U64,
		[CORE_F64_LIST] = CORE_F64,
	};
	size_t element = fields_element(field->kind);
	struct core_field one = { field->name, 0, kinds[field->kind], 0, 0 };
	Py_ssize_t n = PySequence_Size(list);
	PyObject *packed;

	if (n < 0)
		return NULL;
	packed = PyBytes_FromStringAndSize(NULL, n * (Py_ssize_t)element);
	for (Py_ssize_t i = 0; packed != NULL && i < n; i++) {
		PyObject *item = PySequence_GetItem(list, i);

		if (item == NULL ||
		    fields_number(&one,
				  PyBytes_AsString(packed) +
					  i * (Py_ssize_t)element,
				  item) != 0)
			Py_CLEAR(packed);
		Py_XDECREF(item);
	}
	return packed;
}

static int fields_count(const struct core_field *field, char *to, uint64_t n)
{
	uint64_t had = 0;
	size_t bytes = field->kind == CORE_BLOB ? 8 : 4;

	memcpy(&had, to + field->count_at, bytes); /* of either byte order */
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
	had >>= bytes == 4 ? 32 : 0;
#endif
	if (had != 0 && had != n)
		return fields_reject(field->name, "has another length");
	if (bytes == 4 && n > UINT32_MAX)
		return fields_reject(field->name, "is too long");
	if (bytes == 4)
		memcpy(to + field->count_at, &(uint32_t){ (uint32_t)n }, 4);
	else
		memcpy(to + field->count_at, &n, 8);
	return 0;
}

static int fields_list(const struct core_field *field, char *to,
		       PyObject *value, PyObject *keep)
{
	PyObject *packed;
	const char *data;
	int ret;

	if (value == Py_None)
		return 0;
	packed = field->kind == CORE_BLOB ? PyBytes_FromObject(value)
					  : fields_pack(field, value);
	if (packed == NULL)
		return -1;
	ret = PyList_Append(keep, packed);
	Py_DECREF(packed); /* the list has it */
	if (ret != 0)
		return -1;
	data = PyBytes_AsString(packed);
	memcpy(to + field->at, &data, sizeof(data));
	return fields_count(field, to,
			    (uint64_t)PyBytes_Size(packed) /
				    fields_element(field->kind));
}

static int fields_set(const struct core_field *field, char *to, PyObject *value,
		      PyObject *keep)
{
	const char *text;
	bool failed;
	void *pointer;
	Py_ssize_t n;

	switch (field->kind) {
	case CORE_CHARS:
		text = core_name(value);
		if (text == NULL)
			return -1;
		if (strlen(text) >= field->bytes)
			return fields_reject(field->name, "is too long");
		strcpy(to + field->at, text);
		return 0;
	case CORE_BYTES:
		n = PyBytes_Size(value);
		if (n < 0)
			return -1;
		if ((size_t)n != field->bytes)
			return fields_reject(field->name, "has another length");
		memcpy(to + field->at, PyBytes_AsString(value), (size_t)n);
		return 0;
	case CORE_TEXT:
		text = fields_text(value, &failed);
		memcpy(to + field->at, &text, sizeof(text));
		return failed ? -1 : PyList_Append(keep, value);
	case CORE_POINTER:
		pointer = value == Py_None ? NULL : PyLong_AsVoidPtr(value);
		if (pointer == NULL && PyErr_Occurred())
			return -1;
		memcpy(to + field->at, &pointer, sizeof(pointer));
		return 0;
	case CORE_U64S:
		n = PySequence_Size(value);
		if (n < 0)
			return -1;
		if ((size_t)n > field->bytes / 8)
			return fields_reject(field->name, "is too long");
		for (Py_ssize_t i = 0; i < n; i++) {
			PyObject *item = PySequence_GetItem(value, i);
			struct core_field one = { field->name, 0, CORE_U64, 0,
						  0 };
			int ret =
				item == NULL
					? -1
					: fields_number(&one,
							to + field->at + 8 * i,
							item);

			Py_XDECREF(item);
			if (ret != 0)
				return -1;
		}
		return 0;
	default:
		return fields_number(field, to + field->at, value);
	}
}

int core_write(const struct core_struct *fields, void *to, PyObject *from,
	       PyObject *keep)
{
	Py_ssize_t known = 0;

	if (from == NULL) /* a list became shorter meanwhile */
		return -1;
	if (!PyDict_Check(from)) {
		PyErr_SetString(PyExc_TypeError, "a dict is needed");
		return -1;
	}
	/* Counts come before the lists that they must agree with. */
	for (int lists = 0; lists < 2; lists++) {
		for (const struct core_field *field = fields->fields;
		     field->name != NULL; field++) {
			PyObject *value;
			int ret;

			if ((field->kind >= CORE_U32_LIST) != lists)
				continue;
			value = PyDict_GetItemString(from, field->name);
			if (value == NULL)
				continue;
			known++;
			ret = lists ? fields_list(field, to, value, keep)
				    : fields_set(field, to, value, keep);
			if (ret != 0)
				return -1;
		}
	}
	if (known == PyDict_Size(from))
		return 0;
	PyErr_Format(PyExc_TypeError, "unknown field in %R", from);
	return -1;
}
