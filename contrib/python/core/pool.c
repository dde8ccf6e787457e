/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "core.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

/*
 * pool.c - the two functions of a CUDAPluggableAllocator of torch.
 *
 * A device that has a pool gets memory that is a buffer of its row, exportable,
 * and mapped by the driver that torch has loaded.  torch calls the functions
 * from any thread, with the device's context current and without the
 * interpreter's lock: a mutex guards the sessions, and no function here takes
 * the interpreter's lock while it has the mutex.
 *
 * The agent counts memory of which a process has had a descriptor as in use
 * until the process ends.  So memory that torch frees stays with the pool, and
 * later allocations have it.
 */

#define POOLS 64 /* devices of a process */

/* From the driver's header: CUmemLocation, CUmemAccessDesc, and
 * CUmemAllocationProp. */
struct pool_location {
	int type; /* 1: a device */
	int id;
};

struct pool_access {
	struct pool_location location;
	int flags; /* 3: kernels read and write */
};

struct pool_prop {
	int type;    /* 1: pinned */
	int handles; /* 1: a file descriptor */
	struct pool_location location;
	void *security;
	unsigned char more[8];
};

struct pool_driver {
	int (*device)(int *);
	int (*import)(uint64_t *, void *, int);
	int (*granule)(size_t *, const struct pool_prop *, int);
	int (*reserve)(uint64_t *, size_t, size_t, uint64_t, uint64_t);
	int (*map)(uint64_t, size_t, size_t, uint64_t, uint64_t);
	int (*access)(uint64_t, size_t, const struct pool_access *, size_t);
	int (*unmap)(uint64_t, size_t);
	int (*free)(uint64_t, size_t);
	int (*release)(uint64_t);
};

static const struct {
	const char *name;
	size_t at;
} pool_symbols[] = {
	{ "cuCtxGetDevice", offsetof(struct pool_driver, device) },
	{ "cuMemImportFromShareableHandle",
	  offsetof(struct pool_driver, import) },
	{ "cuMemGetAllocationGranularity",
	  offsetof(struct pool_driver, granule) },
	{ "cuMemAddressReserve", offsetof(struct pool_driver, reserve) },
	{ "cuMemMap", offsetof(struct pool_driver, map) },
	{ "cuMemSetAccess", offsetof(struct pool_driver, access) },
	{ "cuMemUnmap", offsetof(struct pool_driver, unmap) },
	{ "cuMemAddressFree", offsetof(struct pool_driver, free) },
	{ "cuMemRelease", offsetof(struct pool_driver, release) },
};

struct pool_block {
	struct pool_block *next;
	uint64_t address;
	uint64_t bytes;
	uint64_t mapped; /* whole granules, from @address on */
	uint64_t buffer;
	uint64_t number; /* of its export */
	bool used;       /* by torch, or free for it */
};

static struct pool {
	struct gpumap *map;
	struct gpumap_session *session; /* NULL: the device has no pool */
	uint32_t row;
	struct pool_block *blocks;
} pools[POOLS];

static pthread_mutex_t pool_lock = PTHREAD_MUTEX_INITIALIZER;
static struct pool_driver driver;

/* ---- the driver ---------------------------------------------------------- */

/* Returns NULL, or the name that the driver lacks. */
static const char *driver_find(void)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);

	if (library == NULL)
		return "libcuda.so.1";
	for (size_t i = 0; i < sizeof(pool_symbols) / sizeof(pool_symbols[0]);
	     i++) {
		void *symbol = dlsym(library, pool_symbols[i].name);

		if (symbol == NULL)
			return pool_symbols[i].name;
		*(void **)((char *)&driver + pool_symbols[i].at) = symbol;
	}
	return NULL;
}

/* Map a block's memory, in the context that is current. */
static int block_map(struct pool_block *b, uint64_t memory, size_t granule,
		     const struct pool_access *access)
{
	int ret;

	b->mapped = (b->bytes + granule - 1) / granule * granule;
	ret = driver.reserve(&b->address, b->mapped, 0, 0, 0);
	if (ret != 0)
		return ret;
	ret = driver.map(b->address, b->mapped, 0, memory, 0);
	if (ret == 0) {
		ret = driver.access(b->address, b->mapped, access, 1);
		if (ret != 0)
			driver.unmap(b->address, b->mapped);
	}
	if (ret != 0)
		driver.free(b->address, b->mapped);
	return ret;
}

static int block_import(struct pool_block *b, int fd)
{
	struct pool_access access = { { 1, 0 }, 3 };
	struct pool_prop prop = { .type = 1, .handles = 1 };
	uint64_t memory;
	size_t granule;
	int ret = driver.device(&access.location.id);

	if (ret != 0)
		return ret;
	ret = driver.import(&memory, (void *)(intptr_t)fd, 1);
	if (ret != 0)
		return ret;
	prop.location = access.location;
	ret = driver.granule(&granule, &prop, 0);
	if (ret == 0)
		ret = block_map(b, memory, granule, &access);
	driver.release(memory); /* the mapping keeps it */
	return ret;
}

/* ---- what torch calls ---------------------------------------------------- */

__attribute__((visibility("default"))) void *
gpumap_pool_alloc(ssize_t size, int device, void *stream);
__attribute__((visibility("default"))) void
gpumap_pool_free(void *address, size_t size, int device, void *stream);

/* Fill in a block.  Returns 0 or an error, of either side. */
static int block_make(struct pool *pool, struct pool_block *b)
{
	struct gpumap_export_info info = { .size = sizeof(info) };
	int fd = -1;
	int ret = gpumap_buffer_alloc(pool->session, pool->row, b->bytes,
				      GPUMAP_BUFFER_EXPORTABLE,
				      GPUMAP_NO_DEADLINE, &b->buffer);

	if (ret != 0)
		return ret;
	ret = gpumap_buffer_export(pool->session, b->buffer, &b->number);
	if (ret == 0)
		ret = gpumap_export_fd(pool->map, b->number, &info, &fd);
	if (ret == 0) {
		ret = block_import(b, fd);
		close(fd);
	}
	if (ret != 0)
		gpumap_buffer_free(pool->session, b->buffer);
	return ret;
}

/* The smallest free block that is not more than twice as large. */
static struct pool_block *block_find(struct pool *pool, uint64_t bytes)
{
	struct pool_block *best = NULL;

	for (struct pool_block *b = pool->blocks; b != NULL; b = b->next)
		if (!b->used && b->bytes >= bytes && b->bytes / 2 <= bytes &&
		    (best == NULL || b->bytes < best->bytes))
			best = b;
	return best;
}

static struct pool_block *block_new(struct pool *pool, uint64_t bytes)
{
	struct pool_block *b = calloc(1, sizeof(*b));

	if (b == NULL)
		return NULL;
	b->bytes = bytes;
	if (block_make(pool, b) != 0) {
		free(b);
		return NULL;
	}
	b->next = pool->blocks;
	pool->blocks = b;
	return b;
}

void *gpumap_pool_alloc(ssize_t size, int device, void *stream)
{
	struct pool_block *b = NULL;
	struct pool *pool;

	(void)stream;
	if (size <= 0 || device < 0 || device >= POOLS)
		return NULL;
	pthread_mutex_lock(&pool_lock);
	pool = &pools[device];
	if (pool->session != NULL) {
		b = block_find(pool, (uint64_t)size);
		if (b == NULL)
			b = block_new(pool, (uint64_t)size);
	}
	if (b != NULL)
		b->used = true;
	pthread_mutex_unlock(&pool_lock);
	return b != NULL ? (void *)(uintptr_t)b->address : NULL;
}

/* torch has waited for the kernels that use it. */
void gpumap_pool_free(void *address, size_t size, int device, void *stream)
{
	(void)size;
	(void)stream;
	if (device < 0 || device >= POOLS)
		return;
	pthread_mutex_lock(&pool_lock);
	for (struct pool_block *b = pools[device].blocks; b != NULL;
	     b = b->next)
		if (b->address == (uintptr_t)address)
			b->used = false;
	pthread_mutex_unlock(&pool_lock);
}

/* ---- for Python ---------------------------------------------------------- */

static int pool_open(struct gpumap *map, unsigned int row, unsigned int device)
{
	struct gpumap_session_opts opts = { .size = sizeof(opts),
					    .depth = 16,
					    .arena_bytes = 4096 };
	struct pool *pool = &pools[device];
	int ret;

	pthread_mutex_lock(&pool_lock);
	ret = pool->session != NULL
		      ? -EEXIST
		      : gpumap_session_open(map, &opts, &pool->session);
	if (ret == 0) {
		pool->map = map;
		pool->row = row;
	}
	pthread_mutex_unlock(&pool_lock);
	return ret;
}

/* (map, row, device): the device's memory will be the row's from now on, as
 * long as the process runs. */
PyObject *core_pool_open(PyObject *object, PyObject *args)
{
	struct core_map *self = (struct core_map *)object;
	unsigned int row, device;
	const char *lacking;
	struct gpumap *map;
	int ret;

	if (!PyArg_ParseTuple(args, "II", &row, &device))
		return NULL;
	if (device >= POOLS)
		return PyErr_Format(PyExc_ValueError, "device %u", device);
	lacking = driver_find();
	if (lacking != NULL)
		return PyErr_Format(PyExc_OSError, "there is no %s", lacking);
	map = core_map_use(self);
	if (map == NULL)
		return NULL;
	CORE_UNLOCK();
	ret = pool_open(map, row, device);
	CORE_LOCK();
	if (ret != 0)
		return core_map_result(self, "gpumap_session_open", ret);
	Py_RETURN_NONE; /* the pool uses the map to the end */
}

/* The address of a byte in a pool -> (export, offset, bytes of the buffer) or
 * None. */
PyObject *core_pool_find(PyObject *self, PyObject *arg)
{
	uint64_t address = PyLong_AsUnsignedLongLong(arg);
	struct pool_block found = { .bytes = 0 };

	(void)self;
	if (PyErr_Occurred())
		return NULL;
	CORE_UNLOCK();
	pthread_mutex_lock(&pool_lock);
	for (size_t i = 0; i < POOLS; i++)
		for (struct pool_block *b = pools[i].blocks; b != NULL;
		     b = b->next)
			if (b->used && address - b->address < b->bytes)
				found = *b;
	pthread_mutex_unlock(&pool_lock);
	CORE_LOCK();
	if (found.bytes == 0)
		Py_RETURN_NONE;
	return Py_BuildValue("KKK", (unsigned long long)found.number,
			     (unsigned long long)(address - found.address),
			     (unsigned long long)found.bytes);
}
