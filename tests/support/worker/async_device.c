/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "tests/support/worker/async_device.h"

#include <unistd.h>

static struct late *late_of(struct gm_backend_device *dev)
{
	return (struct late *)dev;
}

int late_start(struct gm_backend_device *dev, const struct gm_task *task,
	       uint64_t first, uint64_t count,
	       const struct gm_async_exec *after,
	       struct gm_async_exec *ret_flight)
{
	struct late *l = late_of(dev);
	int rc = l->start_rc;

	l->start_rc = 0;
	if (l->lost)
		return -ENOTRECOVERABLE;
	if (rc < 0)
		return rc;
	if (l->n_started - l->n_landed >= l->room)
		return -EAGAIN;
	if (++l->n_started >= LATE_SLICES)
		abort();
	if (l->n_started - l->n_landed > l->most)
		l->most = l->n_started - l->n_landed;
	l->slice[l->n_started] =
		(struct late_slice){ .task = *task,
				     .first = first,
				     .count = count,
				     .after = after ? after->value : 0 };
	*ret_flight = (struct gm_async_exec){ .value = l->n_started };
	return 0;
}

int late_ended(struct gm_backend_device *dev,
	       const struct gm_async_exec *flight)
{
	struct late *l = late_of(dev);
	const struct late_slice *s = &l->slice[flight->value];

	if (l->lost)
		return -ENOTRECOVERABLE;
	if (!s->landed)
		return 0;
	return s->rc < 0 ? s->rc : 1;
}

void late_land(struct late *l, uint64_t value)
{
	struct late_slice *s = &l->slice[value];
	struct gm_task task = s->task;

	if (s->landed)
		return;
	if (s->after)
		late_land(l, s->after);
	if (!task.dst)
		task.dst = (void *)(uintptr_t)task.dst_address;
	if (!task.src)
		task.src = (const void *)(uintptr_t)task.src_address;
	s->rc = l->land_rc;
	l->land_rc = 0;
	if (s->rc == 0)
		l->host->backend->run(l->host, &task, s->first, s->count);
	s->landed = true;
	l->n_landed++;
}

void late_land_all(struct late *l)
{
	for (uint64_t v = 1; v <= l->n_started; v++)
		late_land(l, v);
}

void late_quit(struct gm_backend_device *dev, const struct gm_task *task)
{
	(void)task;
	late_of(dev)->n_quit++;
}

int late_arm(struct gm_backend_device *dev)
{
	struct late *l = late_of(dev);

	l->n_armed++;
	return l->lost ? -ENOTRECOVERABLE : 0;
}

int late_alloc(struct gm_backend_device *dev, uint64_t owner, uint64_t bytes,
	       uint32_t flags, struct gm_buffer **ret_buffer)
{
	struct late *l = late_of(dev);
	struct gm_buffer *b;

	(void)owner;
	while (gm_get(&l->hold))
		sched_yield();
	if (l->lost)
		return -ENOTRECOVERABLE;
	if (bytes > l->bytes_free)
		return -ENOMEM;
	b = calloc(1, sizeof(*b));
	b->address = (uintptr_t)malloc(bytes);
	b->bytes = bytes;
	b->charged = (bytes + 255) / 256 * 256;
	b->flags = flags;
	l->bytes_free -= bytes;
	l->n_buffers++;
	*ret_buffer = b;
	return 0;
}

void late_free(struct gm_backend_device *dev, struct gm_buffer *buffer)
{
	struct late *l = late_of(dev);

	l->bytes_free += buffer->bytes;
	l->n_buffers--;
	free((void *)(uintptr_t)buffer->address);
	free(buffer);
}

int late_reach(struct gm_backend_device *dev, char *at, uint64_t bytes,
	       bool writable, struct gm_region **ret_region)
{
	struct late *l = late_of(dev);
	struct gm_region *r;

	(void)writable;
	if (l->reach_rc < 0)
		return l->reach_rc;
	r = malloc(sizeof(*r));
	*r = (struct gm_region){ .at = at,
				 .bytes = bytes,
				 .address = (uintptr_t)at };
	l->n_reached++;
	*ret_region = r;
	return 0;
}

void late_unreach(struct gm_backend_device *dev, struct gm_region *region)
{
	late_of(dev)->n_unreached++;
	free(region);
}

const char *late_fault(struct gm_backend_device *dev, int *ret_code)
{
	(void)dev;
	*ret_code = 700;
	return "CUDA 700 ILLEGAL_ADDRESS: somebody's kernel";
}

const struct gm_backend late_backend = {
	.name = "late",
	.start = late_start,
	.quit = late_quit,
	.ended = late_ended,
	.arm = late_arm,
	.alloc = late_alloc,
	.free = late_free,
	.reach = late_reach,
	.unreach = late_unreach,
	.fault = late_fault,
};

void late_open(struct late *l, uint64_t slice_bytes, uint32_t slices)
{
	struct gm_device_config config = { 0 };

	memset(l, 0, sizeof(*l));
	l->dev.backend = &late_backend;
	l->dev.slice_bytes = slice_bytes;
	l->dev.own_bytes = slice_bytes;
	l->dev.slices = slices;
	l->dev.ended_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	l->room = LATE_SLICES;
	l->bytes_free = UINT64_C(1) << 20;
	if (gm_host_backend.open(&config, &l->host) < 0)
		abort();
}

void late_close(struct late *l)
{
	gm_host_backend.close(l->host);
	close(l->dev.ended_fd);
}
