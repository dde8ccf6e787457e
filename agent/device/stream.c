/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/device/stream.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "agent/common/log.h"

/* Why the last opening failed. */
static struct {
	char why[GM_GPU_WHY_BYTES];
	int code;
} failed;

/* ---- a device that is lost ----------------------------------------------- */

void gm_stream_tell(struct gm_gpu *gpu)
{
	const uint64_t one = 1;
	/* The write fails when the counter is at its end, after 2^64 times:
	 * then it is readable already. */
	ssize_t n = write(gpu->ended_fd, &one, sizeof(one));

	(void)n;
}

int gm_stream_lose(struct gm_gpu *gpu, int code, const char *why)
{
	bool is_first;

	pthread_mutex_lock(&gpu->lock);
	is_first = !gm_stream_is_lost(gpu);
	if (is_first) {
		snprintf(gpu->why, sizeof(gpu->why), "%s", why);
		gpu->code = code;
		gm_put(&gpu->lost, 1);
	}
	pthread_mutex_unlock(&gpu->lock);
	if (is_first)
		gm_stream_tell(gpu);
	return -ENOTRECOVERABLE;
}

int gm_stream_lose_by(struct gm_gpu *gpu, int code)
{
	const char *name;
	char why[64];

	(void)gpu->ops->meaning(code, &name);
	snprintf(why, sizeof(why), "%s %d %s", gpu->ops->maker, code, name);
	return gm_stream_lose(gpu, code, why);
}

int gm_stream_check(struct gm_gpu *gpu, int code)
{
	const char *name;
	int rc = gpu->ops->meaning(code, &name);

	return rc == -ENOTRECOVERABLE ? gm_stream_lose_by(gpu, code) : rc;
}

int gm_stream_step(struct gm_gpu *gpu, int code, const char *what)
{
	const char *name;
	int rc = gpu->ops->meaning(code, &name);

	if (rc == 0)
		return 0;
	gpu->code = code;
	snprintf(gpu->why, sizeof(gpu->why), "%s: %s %d %s", what,
		 gpu->ops->maker, code, name);
	return rc == -ENOTRECOVERABLE ? -EIO : rc;
}

int gm_stream_lacks(struct gm_gpu *gpu, const char *what)
{
	snprintf(gpu->why, sizeof(gpu->why), "the device has no %s", what);
	return -EOPNOTSUPP;
}

void gm_stream_told(struct gm_gpu *gpu, gm_a64 *word, uint64_t value)
{
	uint64_t before = gm_get(word);

	/* LANE.word LANE.armed */
	while (before < value && !gm_try_ordered(word, &before, value))
		;
	/* LANE.armed */
	if (gm_get_ordered(&gpu->armed) && gm_swap_ordered(&gpu->armed, 0))
		gm_stream_tell(gpu);
}

int gm_stream_bind(struct gm_stream *stream)
{
	if (gm_stream_is_lost(stream->gpu))
		return -ENOTRECOVERABLE;
	return gm_stream_bind_thread(stream->ops, stream->gpu);
}

const char *gm_stream_fault(struct gm_backend_device *dev, int *ret_code)
{
	struct gm_gpu *gpu;

	if (!dev) {
		*ret_code = failed.code;
		return failed.why;
	}
	gpu = ((struct gm_stream *)dev)->gpu;
	/* The thread that lost the device may still be writing why. */
	pthread_mutex_lock(&gpu->lock);
	*ret_code = gpu->code;
	pthread_mutex_unlock(&gpu->lock);
	return gpu->why;
}

/* ---- one device ---------------------------------------------------------- */

void gm_stream_find_kernels(struct gm_stream *stream)
{
	const struct gm_gpu_ops *ops = stream->ops;
	struct gm_stream_kernels *k = &stream->kernels;

	k->of[GPUMAP_OP_FILL][GPUMAP_DTYPE_U8] =
		ops->find(stream->gpu, GPUMAP_OP_FILL, GPUMAP_DTYPE_U8, 0);
	for (uint32_t d = 0; d < GM_STREAM_DTYPES; d++) {
		for (uint32_t op = 0; op < GM_OPS; op++)
			if (op != GPUMAP_OP_FILL && op != GPUMAP_OP_CAST)
				k->of[op][d] = ops->find(stream->gpu, op, d, 0);
		for (uint32_t to = 0; to < GM_STREAM_DTYPES; to++)
			k->cast[d][to] =
				ops->find(stream->gpu, GPUMAP_OP_CAST, d, to);
	}
}

void gm_stream_say_floats(bool has_f32, bool has_f64)
{
	if (!has_f32 || !has_f64)
		gm_log(GM_LOG_INFO, "floats_by_integers", "bits=%s",
		       has_f32   ? "64"
		       : has_f64 ? "32"
				 : "32,64");
}

static int make_scratch(struct gm_stream *stream)
{
	uint64_t bytes = GM_STREAM_SLICE_BYTES +
			 2 * GM_STREAM_REDUCERS * GM_STREAM_REDUCER_BYTES +
			 GM_STREAM_SMALL_BYTES + GM_STREAM_SLICE_BYTES;
	struct gm_gpu_at at = { .offset = GM_STREAM_SLICE_BYTES };
	int rc =
		stream->ops->alloc(stream->gpu, bytes, false, &stream->scratch);

	at.mem = stream->scratch;
	for (uint32_t l = GM_GPU_SOON; l <= GM_GPU_BULK; l++) {
		struct gm_stream_lane *lane = &stream->lanes[l];

		for (uint32_t i = 0; i < GM_STREAM_REDUCERS; i++) {
			lane->reducers[i].at = at;
			at.offset += GM_STREAM_REDUCER_BYTES;
		}
		lane->bounce = at;
		at.offset += GM_STREAM_SMALL_BYTES; /* BULK's has the rest */
	}
	return rc;
}

void gm_stream_identify(struct gm_gpu_facts *facts, uint32_t i,
			const uint8_t *uuid)
{
	struct gm_gpu_facts *f = &facts[i];
	uint32_t same = 0;
	size_t n;

	if (f->has_pci)
		snprintf(f->id, sizeof(f->id), "%04x:%02x:%02x.%x",
			 f->pci_domain, f->pci_bus >> 8, f->pci_bus >> 3 & 31,
			 f->pci_bus & 7);
	else if (uuid)
		for (uint32_t k = 0; k < 16; k++)
			snprintf(f->id + 2 * k, 3, "%02x", uuid[k]);
	else
		snprintf(f->id, sizeof(f->id), "%.*s", (int)sizeof(f->id) - 5,
			 f->name);
	n = strlen(f->id);
	for (uint32_t k = 0; k < i; k++)
		same += strncmp(facts[k].id, f->id, n) == 0 &&
			(facts[k].id[n] == '\0' || facts[k].id[n] == '/');
	if (same)
		snprintf(f->id + n, sizeof(f->id) - n, "/%u", same);
}

int gm_stream_find_id(const struct gm_gpu_facts *facts, uint32_t n,
		      const char *id, const char *library,
		      char ret_why[GM_GPU_WHY_BYTES])
{
	for (uint32_t i = 0; i < n; i++)
		if (!id || strcmp(facts[i].id, id) == 0)
			return (int)i;
	snprintf(ret_why, GM_GPU_WHY_BYTES,
		 "%.300s shows %u devices, and none is %.64s", library, n,
		 id ? id : "the first");
	return -ENODEV;
}

void gm_stream_took(const uint64_t at_ns[4], char ret_took[GM_TOOK_BYTES])
{
	snprintf(ret_took, GM_TOOK_BYTES,
		 "init_ms=%llu context_ms=%llu module_ms=%llu",
		 (unsigned long long)((at_ns[1] - at_ns[0]) / 1000000),
		 (unsigned long long)((at_ns[2] - at_ns[1]) / 1000000),
		 (unsigned long long)((at_ns[3] - at_ns[2]) / 1000000));
}

/* As many bytes as take the time of a slice over the bus, at so many times its
 * speed. */
static uint64_t own_bytes(const struct gm_stream *stream, uint32_t times)
{
	uint64_t bytes = stream->dev.slice_bytes * times;

	if (bytes < GM_STREAM_OWN_LEAST)
		return GM_STREAM_OWN_LEAST;
	return bytes < GM_STREAM_OWN_MOST ? bytes : GM_STREAM_OWN_MOST;
}

static int make_ready(struct gm_stream *stream,
		      const struct gm_device_config *config)
{
	struct gm_gpu *gpu = stream->gpu;
	int rc;

	gpu->ended_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (gpu->ended_fd < 0)
		return -errno;
	stream->dev.ended_fd = gpu->ended_fd;
	rc = stream->ops->open(gpu, config, stream->dev.took);
	if (rc < 0)
		return rc;
	stream->is_open = true;
	stream->dev.own_bytes = own_bytes(stream, gpu->own_times);
	if (gpu->copy_times)
		stream->dev.copy_bytes = own_bytes(stream, gpu->copy_times);
	rc = make_scratch(stream);
	if (rc == 0)
		rc = gm_stream_lanes_open(stream);
	if (rc == 0)
		gm_stream_find_kernels(stream);
	return rc;
}

void gm_stream_close(struct gm_backend_device *dev)
{
	struct gm_stream *stream = (struct gm_stream *)dev;
	struct gm_gpu *gpu = stream ? stream->gpu : NULL;

	if (!stream)
		return;
	if (stream->is_open) {
		/* A device that is lost refuses all this, and harmlessly. */
		(void)gm_stream_bind_thread(stream->ops, gpu);
		(void)stream->ops->finish(gpu, GM_GPU_ALL);
		gm_stream_lanes_close(stream);
		gm_stream_slabs_close(stream);
		gm_stream_regions_close(stream);
		if (stream->scratch)
			stream->ops->release(gpu, stream->scratch);
	}
	stream->ops->close(gpu);
	if (gpu->ended_fd >= 0)
		close(gpu->ended_fd);
	pthread_mutex_destroy(&gpu->lock);
	pthread_mutex_destroy(&stream->lock);
	free(gpu);
	free(stream);
}

/* A staging unit takes all of one. */
static uint64_t slice_bytes(const struct gm_device_config *config)
{
	uint64_t bytes = config->slice_bytes;

	return bytes && bytes < GM_STREAM_SLICE_BYTES ? bytes
						      : GM_STREAM_SLICE_BYTES;
}

int gm_stream_open(const struct gm_backend *backend,
		   const struct gm_gpu_ops *ops,
		   const struct gm_device_config *config,
		   struct gm_backend_device **ret_dev)
{
	struct gm_stream *stream = calloc(1, sizeof(*stream));
	struct gm_gpu *gpu = calloc(1, ops->bytes);
	int rc;

	if (!stream || !gpu) {
		free(stream);
		free(gpu);
		return -ENOMEM;
	}
	stream->dev.backend = backend;
	stream->dev.slice_bytes = slice_bytes(config);
	stream->dev.slices = GM_STREAM_SESSION_SLICES;
	stream->ops = ops;
	stream->gpu = gpu;
	gpu->ops = ops;
	stream->piece_bytes = GM_STREAM_PIECE_BYTES;
	TAILQ_INIT(&stream->slabs);
	pthread_mutex_init(&stream->lock, NULL);
	pthread_mutex_init(&gpu->lock, NULL);
	rc = make_ready(stream, config);
	if (rc < 0) {
		failed.code = gpu->code;
		snprintf(failed.why, sizeof(failed.why), "%s",
			 gpu->why[0] ? gpu->why : strerror(-rc));
		gm_stream_close(&stream->dev);
		return rc;
	}
	*ret_dev = &stream->dev;
	return 0;
}

int gm_stream_memory(struct gm_backend_device *dev,
		     struct gm_device_memory *ret_memory)
{
	struct gm_stream *stream = (struct gm_stream *)dev;
	int rc = gm_stream_bind(stream);

	return rc < 0 ? rc : stream->ops->memory(stream->gpu, ret_memory);
}

/* ---- programs of clients ------------------------------------------------- */

void gm_stream_flatten(char *log)
{
	size_t n = 0;

	for (const char *at = log; *at; at++) {
		bool is_blank = (unsigned char)*at <= ' ';

		if (is_blank && (n == 0 || log[n - 1] == ' '))
			continue;
		log[n++] = (char)(is_blank ? ' ' : *at);
	}
	log[n && log[n - 1] == ' ' ? n - 1 : n] = '\0';
}

int gm_stream_load_kernel(struct gm_backend_device *dev,
			  const struct gm_kernel_image *image,
			  struct gm_kernel **ret_kernel,
			  char ret_why[GM_KERNEL_WHY_BYTES])
{
	struct gm_stream *stream = (struct gm_stream *)dev;
	struct gm_kernel *kernel;
	int rc = gm_stream_bind(stream);

	if (rc < 0)
		return rc;
	kernel = calloc(1, sizeof(*kernel));
	if (!kernel)
		return -ENOMEM;
	rc = stream->ops->load(stream->gpu, image, &kernel->program,
			       &kernel->kernel, ret_why);
	if (rc < 0) {
		free(kernel);
		return rc;
	}
	*ret_kernel = kernel;
	return 0;
}

void gm_stream_unload_kernel(struct gm_backend_device *dev,
			     struct gm_kernel *kernel)
{
	struct gm_stream *stream = (struct gm_stream *)dev;

	/* With the device goes what it has. */
	if (gm_stream_bind(stream) == 0)
		stream->ops->unload(stream->gpu, kernel->program);
	free(kernel);
}
