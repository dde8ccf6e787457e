/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * host - the backend of host rows: a NUMA node's CPUs and memory.
 *
 * The worker has pinned itself, so every calling thread runs on the node, and
 * client memory is mapped: an operator is a loop over it.  The bytes of the
 * whole task decide how results are written.  Below the threshold they stay in
 * the caches for the next reader; above it stores bypass the caches, since the
 * results would displace everything else there.
 */

#include "agent/device/device.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/common/meminfo.h"
#include "agent/device/host_kernels.h"
#include "agent/device/host_memory.h"
#include "agent/device/reduce.h"
#include "gpumap.h"

struct host {
	struct gm_backend_device dev;
	struct gm_meminfo info;
	uint32_t parts; /* rows that share the node's memory and caches */
	const struct gm_host_kernels *kernels;
	gm_host_copy *copy_large;
	uint64_t large_bytes; /* tasks from here on write past the caches */
};

#define LARGE_MAX (UINT64_C(8) << 20)
#define LARGE_MIN (UINT64_C(1) << 20)

/*
 * Source and destination of a copy are half of the last-level cache when it
 * has a quarter of that cache's bytes; from about there on, measured, writing
 * past the caches is faster (tests/bench/bench_host_kernels).  Rows on one
 * node run at once and share the cache.
 */
static uint64_t large_bytes(uint32_t parts)
{
	uint64_t large = LARGE_MAX;
#if defined(_SC_LEVEL3_CACHE_SIZE)
	long l3 = sysconf(_SC_LEVEL3_CACHE_SIZE);

	if (l3 > 0 && (uint64_t)l3 / 4 < large)
		large = (uint64_t)l3 / 4;
#endif
	large /= parts;
	return large < LARGE_MIN ? LARGE_MIN : large;
}

static int host_open(const struct gm_device_config *config,
		     struct gm_backend_device **ret_dev)
{
	struct host *host = calloc(1, sizeof(*host));
	int rc;

	if (!host)
		return -ENOMEM;
	rc = gm_meminfo_open(config->root, config->node, &host->info);
	if (rc < 0) {
		free(host);
		return rc;
	}
	gm_host_memory_init();
	host->dev.backend = &gm_host_backend;
	host->dev.slice_bytes = config->slice_bytes;
	host->parts = config->parts ? config->parts : 1;
	host->kernels = gm_host_kernels_choose();
	host->copy_large = gm_host_copy_large(host->kernels);
	host->large_bytes = large_bytes(host->parts);
	*ret_dev = &host->dev;
	return 0;
}

static void host_close(struct gm_backend_device *dev)
{
	free(dev);
}

static int host_memory(struct gm_backend_device *dev,
		       struct gm_device_memory *ret_memory)
{
	struct host *host = (struct host *)dev;
	uint64_t total, free_bytes;
	int rc = gm_meminfo_read(&host->info, &total, &free_bytes);

	if (rc < 0)
		return rc;
	ret_memory->total = total / host->parts;
	ret_memory->free = free_bytes / host->parts;
	return 0;
}

static int reduce(struct host *host, const struct gm_task *task, uint64_t first,
		  uint64_t count, const char *src)
{
	struct gm_reduce own, *r = task->so_far ? task->so_far : &own;

	if (!(gm_ops_has(task->op) & GM_OPS_ONE))
		return -EOPNOTSUPP;
	if (first == 0)
		gm_reduce_begin(r, task->op, task->dtype);
	else if (r == &own || r->n != first)
		return -ERANGE;
	gm_reduce_add(r, host->kernels, task->op, task->dtype, src, count);
	if (r->n == task->n)
		gm_reduce_end(r, task->op, task->dtype, task->dst);
	return r->n == task->n || r != &own ? 0 : -ERANGE;
}

#define NEAR 1024u /* elements of a mask that are begun again at once */

/* A short mask is laid out several times, so that its beginnings are rare. */
struct masking {
	unsigned char near[NEAR * sizeof(double)];
	const unsigned char *mask;
	uint64_t n;
};

static void lay_out(struct masking *m, const struct gm_task *task,
		    uint32_t each, uint64_t count)
{
	uint64_t bytes = (uint64_t)task->mask_n * each;

	m->mask = task->mask;
	m->n = task->mask_n;
	if (m->n > NEAR / 2 || count <= m->n)
		return;
	for (m->n = 0; m->n + task->mask_n <= NEAR; m->n += task->mask_n)
		memcpy(m->near + m->n * each, task->mask, bytes);
	m->mask = m->near;
}

static void mask(struct host *host, const struct gm_task *task,
		 const struct gm_task_sizes *s, uint64_t first, uint64_t count)
{
	void (*make)(void *dst, const void *src, const void *mask, size_t n);
	const char *src = (const char *)task->src + first * s->src_each;
	char *dst = (char *)task->dst + first * s->dst_each;
	uint64_t at = (task->mask_first + first % task->mask_n) % task->mask_n;
	struct masking m;

	make = task->op == GPUMAP_OP_MASK_ADD
		       ? host->kernels->mask_add[task->dtype]
		       : host->kernels->mask_bool[task->dtype];
	lay_out(&m, task, s->mask_each, count);
	for (uint64_t n; count > 0; count -= n, at = 0) {
		n = count < m.n - at ? count : m.n - at;
		make(dst, src, m.mask + at * s->mask_each, n);
		dst += n * s->dst_each;
		src += n * s->src_each;
	}
}

static int host_run(struct gm_backend_device *dev, const struct gm_task *task,
		    uint64_t first, uint64_t count)
{
	struct host *host = (struct host *)dev;
	const struct gm_host_kernels *k = host->kernels;
	int rc = gm_ops_takes(task->op, task->dtype, task->to);
	struct gm_task_sizes s = { 0 };
	const char *src;
	char *dst;
	bool large;

	if (rc < 0)
		return rc;
	if (first > task->n || count > task->n - first)
		return -ERANGE;
	if (task->op == GPUMAP_OP_NOP || count == 0)
		return 0;

	rc = gm_task_sizes(task, &s);
	if (rc < 0)
		return rc;
	large = s.dst >= host->large_bytes;
	dst = (char *)task->dst + first * s.dst_each;
	src = task->src ? (const char *)task->src + first * s.src_each : NULL;
	switch (task->op) {
	case GPUMAP_OP_FILL:
		(large ? k->fill_past : k->fill)(
			dst, gm_host_pattern(task->pattern, s.dst_each),
			count * s.dst_each);
		break;
	case GPUMAP_OP_COPY:
		(large ? host->copy_large : k->copy)(dst, src,
						     count * s.dst_each);
		break;
	case GPUMAP_OP_SCALE:
		k->scale[task->dtype](dst, src, task->alpha, count);
		break;
	case GPUMAP_OP_AXPY:
		k->axpy[task->dtype](dst, src, task->alpha, count);
		break;
	case GPUMAP_OP_CAST:
		k->cast[task->dtype][task->to](dst, src, count);
		break;
	case GPUMAP_OP_MASK_ADD:
	case GPUMAP_OP_MASK_BOOL:
		mask(host, task, &s, first, count);
		break;
	default:
		return reduce(host, task, first, count, src);
	}
	return 0;
}

const struct gm_backend gm_host_backend = {
	.name = "host",
	.kind = GPUMAP_DEVICE_HOST,
	.open = host_open,
	.close = host_close,
	.memory = host_memory,
	.run = host_run,
	.alloc = gm_host_alloc,
	.populate = gm_host_populate,
	.free = gm_host_free,
	.export_fd = gm_host_export_fd,
	.import_fd = gm_host_import_fd,
};
