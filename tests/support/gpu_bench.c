/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "tests/support/gpu_bench.h"

#include "agent/device/stream.h"

#include "tests/support/operators/operators_ref.h"

uint64_t bench_now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

static int bench_sleep(struct gm_backend_device *dev)
{
	struct pollfd fd = { .fd = dev->ended_fd, .events = POLLIN };
	uint64_t drained;
	int rc;

	/* A worker looks for what is written; we, for what is in it. */
	if (read(dev->ended_fd, &drained, sizeof(drained)) < 0 &&
	    errno != EAGAIN)
		return -errno;
	rc = dev->backend->arm(dev);
	if (rc != 0)
		return rc < 0 ? rc : 0;
	return poll(&fd, 1, BENCH_WAIT) == 1 ? 0 : -ETIME;
}

int bench_wait(struct bench *b, const struct gm_async_exec *flight)
{
	uint64_t until = bench_now_ms() + BENCH_WAIT;
	int rc;

	while ((rc = b->dev->backend->ended(b->dev, flight)) == 0) {
		if (b->sleeps) {
			b->n_sleeps++;
			rc = bench_sleep(b->dev);
		}
		if (rc < 0)
			return rc;
		if (bench_now_ms() > until)
			return -ETIME;
		usleep(20); /* the device may be a thread on this CPU */
	}
	return rc < 0 ? rc : 0;
}

int bench_start(struct bench *b, const struct gm_task *task, uint64_t first,
		uint64_t count, struct gm_async_exec *ret_flight)
{
	struct gm_async_exec *after = b->has_last ? &b->last : NULL;
	int rc = b->dev->backend->start(b->dev, task, first, count, after,
					ret_flight);

	if (rc < 0)
		return rc;
	b->last = *ret_flight;
	b->has_last = true;
	return 0;
}

int bench_run(struct bench *b, const struct gm_task *task)
{
	uint64_t most, next = 0, count;
	struct gm_task_sizes sizes;
	struct gm_async_exec flights[16];
	uint32_t begun = 0, ended = 0;
	int rc = gm_task_sizes(task, &sizes);

	if (rc < 0)
		return rc;
	most = gm_device_slice(b->dev, task) / sizes.each;
	while (rc == 0 && (next < task->n || ended < begun)) {
		count = task->n - next < most ? task->n - next : most;
		if (count > 0 && begun - ended < b->dev->slices) {
			rc = bench_start(b, task, next, count,
					 &flights[begun % 16]);
			if (rc == 0) {
				next += count;
				begun++;
				continue;
			}
			if (rc != -EAGAIN || begun == ended)
				return rc;
		}
		rc = bench_wait(b, &flights[ended++ % 16]);
	}
	return rc;
}

void bench_close(struct bench *b)
{
	for (uint32_t i = 0; i < BENCH_SIDES; i++) {
		if (b->buffer[i])
			b->backend->free(b->dev, b->buffer[i]);
	}
	if (b->region)
		b->backend->unreach(b->dev, b->region);
	if (b->client)
		munmap(b->client, BENCH_SIDES * BENCH_ROOM);
	free(b->want);
	free(b->kept);
	gm_host_backend.close(b->host);
	b->backend->close(b->dev);
}

char *bench_map(uint64_t bytes)
{
	int fd = memfd_create("bench", MFD_CLOEXEC);
	char *at;

	if (fd < 0 || ftruncate(fd, (off_t)bytes) < 0)
		return NULL;
	at = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		  MAP_SHARED | MAP_POPULATE, fd, 0);
	close(fd);
	return at == MAP_FAILED ? NULL : at;
}

/* Is this a card of HIP's for which there are operators? */
static bool has_code(const char *uuid)
{
#ifdef HAVE_HIP_OPERATORS
	return uuid && strncmp(uuid, BENCH_SET ":", sizeof(BENCH_SET)) == 0;
#else
	(void)uuid;
	return false;
#endif
}

int bench_open(struct bench *b, const char *uuid)
{
	const char *build = getenv("abs_top_builddir");
	char builder[4096];
	const struct gm_device_config config = { .uuid = uuid,
						 .library = b->library,
						 .builder = builder,
						 .cache = b->cache,
						 .operators = b->operators };
	int rc = gm_host_backend.open(&config, &b->host);

	snprintf(builder, sizeof(builder), "%s/agent/worker/gpumap-build",
		 build ? build : ".");
	b->room = BENCH_SMALL;
	if (!b->backend)
		b->backend = &gm_cuda_backend;
	b->can_export = b->backend != &gm_opencl_backend;
	b->copies_alone = b->backend == &gm_hip_backend && !has_code(uuid);
	if (rc == 0)
		rc = b->backend->open(&config, &b->dev);
	if (rc < 0)
		return rc;
	b->client = bench_map(BENCH_SIDES * BENCH_ROOM);
	b->want = malloc(BENCH_ROOM);
	b->kept = malloc(BENCH_SIDES * BENCH_ROOM);
	if (!b->client || !b->want || !b->kept)
		return -ENOMEM;
	for (uint32_t i = 0; i < BENCH_SIDES && rc == 0; i++)
		rc = b->backend->alloc(b->dev, 1, BENCH_ROOM, 0, &b->buffer[i]);
	if (rc == 0)
		rc = b->backend->reach(b->dev, b->client,
				       BENCH_SIDES * BENCH_ROOM, true,
				       &b->region);
	return rc;
}

bool bench_is_open(struct bench *b, const char *thing)
{
	int code = 0, rc = bench_open(b, NULL);
	const char *why = b->backend->fault(NULL, &code);

	if (rc == 0)
		return true;
	if (rc == -ENOENT || rc == -ENODEV)
		LACK(thing, 1, why);
	else
		NOTE("%s", why);
	EQ(rc, 0);
	return false;
}

bool bench_again(const struct bench *b, const char *thing,
		 struct bench *ret_other)
{
	*ret_other = (struct bench){ .backend = b->backend,
				     .library = b->library,
				     .cache = b->cache,
				     .operators = b->operators,
				     .sleeps = true };
	return bench_is_open(ret_other, thing);
}

bool bench_reach(struct bench *b, uint32_t flags)
{
	b->backend->unreach(b->dev, b->region);
	b->region = NULL;
	((struct gm_stream *)b->dev)->gpu->flags = flags;
	return EQ(b->backend->reach(b->dev, b->client, BENCH_SIDES * BENCH_ROOM,
				    true, &b->region),
		  0);
}

struct gm_task bench_task(struct bench *b, double alpha)
{
	return (struct gm_task){
		.op = b->copies_alone ? GPUMAP_OP_COPY : GPUMAP_OP_AXPY,
		.dtype = GPUMAP_DTYPE_F32,
		.dst_address = b->buffer[0]->address,
		.src_address = b->buffer[1]->address,
		.n = 256,
		.alpha = alpha,
	};
}

/* ---- programs ------------------------------------------------------------ */

bool bench_square(struct bench *b, const struct gm_kernel_image *image,
		  struct gm_kernel **ret_kernel, struct gm_task *ret_task)
{
	static char params[256];
	char why[GM_KERNEL_WHY_BYTES] = "";
	float *dst = (float *)(void *)b->client, alpha = 3;
	float *src = (float *)(void *)(b->client + BENCH_ROOM);
	struct gm_kernel *kernel = NULL;
	struct gm_async_exec flight;
	int wrong = 0;

	if (!EQ(b->backend->load_kernel(b->dev, image, &kernel, why), 0)) {
		NOTE("%s", why);
		return false;
	}
	memcpy(params, &alpha, sizeof(alpha));
	for (int i = 0; i <= 1000; i++) {
		src[i] = (float)i;
		dst[i] = -1;
	}
	*ret_task = (struct gm_task){ .op = GPUMAP_OP_RUN,
				      .dtype = GPUMAP_DTYPE_F32,
				      .n = 1000,
				      .dst = dst,
				      .src = src,
				      .pattern = 4 | UINT64_C(4) << 32,
				      .kernel = kernel,
				      .mask = params,
				      .mask_n = sizeof(alpha) };
	EQ(bench_start(b, ret_task, 0, ret_task->n, &flight), 0);
	EQ(bench_wait(b, &flight), 0);
	for (int i = 0; i < 1000; i++)
		wrong += dst[i] != alpha * src[i] * src[i];
	EQ(wrong, 0);
	OK(dst[1000] == -1);
	*ret_kernel = kernel;
	return true;
}

/* ---- trials: one job, on the device and on the host --------------------- */

struct gm_task trial_copy(struct bench *b, uint32_t side, bool is_out)
{
	char *client = b->client + side * BENCH_ROOM;
	uint64_t address = b->buffer[side]->address;

	return (struct gm_task){
		.op = GPUMAP_OP_COPY,
		.dtype = GPUMAP_DTYPE_U8,
		.n = b->room,
		.dst = is_out ? client : NULL,
		.src = is_out ? NULL : client,
		.dst_address = is_out ? 0 : address,
		.src_address = is_out ? address : 0,
	};
}

/* Bytes behind src at which its mask begins. */
static uint64_t trial_mask_at(const struct trial *t)
{
	return t->n * gm_ops_dtype_bytes(t->dtype);
}

static struct gm_task trial_task(struct bench *b, const struct trial *t)
{
	struct gm_task task = {
		.op = t->op,
		.dtype = t->dtype,
		.to = t->to,
		.n = t->n,
	};

	if (t->op == GPUMAP_OP_FILL)
		task.pattern = dice(UINT64_MAX);
	else
		task.alpha = -1.7;
	if (t->on_device[0])
		task.dst_address = b->buffer[0]->address + t->at[0];
	else
		task.dst = b->client + t->at[0];
	if (!(gm_ops_has(t->op) & GM_OPS_SRC))
		return task;
	if (t->on_device[1])
		task.src_address = b->buffer[1]->address + t->at[1];
	else
		task.src = b->client + BENCH_ROOM + t->at[1];
	if (!t->mask_n)
		return task;
	task.mask_n = t->mask_n;
	task.mask_first = t->mask_n / 3;
	if (t->on_device[1] && !b->mask_is_here)
		task.mask_address = task.src_address + trial_mask_at(t);
	else
		task.mask =
			b->client + BENCH_ROOM + t->at[1] + trial_mask_at(t);
	return task;
}

/* No hard number, as which float it is ever read. */
static uint16_t tame_bits(void)
{
	return (uint16_t)(0x3f00 + dice(0x200));
}

/* The whole of a short float, or the upper bits of a longer one: subnormals,
 * the least that is none, infinities, NaNs, and what is beside them. */
static uint16_t hard_bits(void)
{
	static const uint16_t edges[] = { 0x7f80, 0x7c00, 0x7ff0, 0x0080,
					  0x0400, 0x0010, 0x4780, 0x3880 };

	switch (dice(8)) {
	case 0:
		return (uint16_t)dice(0x10000);
	case 1:
		return (uint16_t)dice(0x20);
	case 2:
		return (uint16_t)(0x8000 + dice(0x20));
	case 3:
		return (uint16_t)(edges[dice(8)] + dice(3) - 1);
	case 4:
		return (uint16_t)(0x8000 + edges[dice(8)] + dice(3) - 1);
	default:
		return tame_bits();
	}
}

static void trial_throw(struct bench *b)
{
	for (uint32_t side = 0; side < BENCH_SIDES; side++) {
		char *at = b->client + side * BENCH_ROOM;
		uint16_t *to = (uint16_t *)(void *)at;

		for (uint64_t i = 0; i < b->room / 2; i++)
			to[i] = b->is_hard ? hard_bits() : tame_bits();
		memcpy(b->kept + side * BENCH_ROOM, at, b->room);
	}
	memcpy(b->want, b->client, b->room);
}

int trial_run(struct bench *b, const struct trial *t)
{
	struct gm_task copies[BENCH_SIDES] = { trial_copy(b, 0, false),
					       trial_copy(b, 1, false) };
	struct gm_task task = trial_task(b, t), host = task;
	struct gm_task back = trial_copy(b, 0, true);
	int rc;

	trial_throw(b);
	host.dst = b->want + t->at[0];
	host.src = b->kept + BENCH_ROOM + t->at[1];
	host.mask = (const char *)host.src + trial_mask_at(t);
	rc = b->host->backend->run(b->host, &host, 0, t->n);
	for (uint32_t i = 0; i < BENCH_SIDES && rc == 0; i++) {
		if (t->on_device[i])
			rc = bench_run(b, &copies[i]);
	}
	if (rc == 0)
		rc = bench_run(b, &task);
	if (rc == 0 && t->on_device[0])
		rc = bench_run(b, &back);
	return rc;
}

/* Elements of dst that are other NaNs than the host row's count as the same. */
static void trial_forgive(struct bench *b, const struct trial *t)
{
	uint32_t dtype = gm_ops_result(t->op, t->dtype, t->to);
	uint64_t n = gm_ops_has(t->op) & GM_OPS_ONE ? 1 : t->n;
	char *got = b->client + t->at[0], *want = b->want + t->at[0];

	for (uint64_t i = 0; b->is_hard && i < n; i++) {
		uint64_t bits = ref_load(got, i, dtype);

		if (ref_same(dtype, bits, ref_load(want, i, dtype)))
			ref_store(want, i, dtype, bits);
	}
}

/* All but copies, and bytes of the device's memory that are all the same. */
static bool trial_needs_operator(const struct trial *t)
{
	return t->op != GPUMAP_OP_COPY &&
	       (t->op != GPUMAP_OP_FILL || !t->on_device[0] ||
		gm_ops_dtype_bytes(t->dtype) > 1);
}

bool trial_holds(struct bench *b, const struct trial *t)
{
	int rc = trial_run(b, t);

	if (b->copies_alone && trial_needs_operator(t) && rc == -EOPNOTSUPP)
		return true;
	trial_forgive(b, t);
	if (rc == 0 && memcmp(b->client, b->want, b->room) == 0 &&
	    memcmp(b->client + BENCH_ROOM, b->kept + BENCH_ROOM, b->room) == 0)
		return true;
	NOTE("%s, dtype %u, %" PRIu64 " elements at %" PRIu64 " and %" PRIu64
	     ", device %d%d: %d",
	     gm_ops_name(t->op), t->dtype, t->n, t->at[0], t->at[1],
	     t->on_device[0], t->on_device[1], rc);
	return false;
}

int trials_failed(struct bench *b, uint64_t n)
{
	static const struct {
		uint32_t op, dtype, to, mask_n;
	} jobs[] = {
		{ GPUMAP_OP_COPY, GPUMAP_DTYPE_U8, 0, 0 },
		{ GPUMAP_OP_COPY, GPUMAP_DTYPE_I64, 0, 0 },
		{ GPUMAP_OP_FILL, GPUMAP_DTYPE_BF16, 0, 0 },
		{ GPUMAP_OP_FILL, GPUMAP_DTYPE_U8, 0, 0 },
		{ GPUMAP_OP_SCALE, GPUMAP_DTYPE_F32, 0, 0 },
		{ GPUMAP_OP_AXPY, GPUMAP_DTYPE_F32, 0, 0 },
		{ GPUMAP_OP_SCALE, GPUMAP_DTYPE_F16, 0, 0 },
		{ GPUMAP_OP_SCALE, GPUMAP_DTYPE_F64, 0, 0 },
		{ GPUMAP_OP_AXPY, GPUMAP_DTYPE_BF16, 0, 0 },
		{ GPUMAP_OP_AXPY, GPUMAP_DTYPE_F64, 0, 0 },
		{ GPUMAP_OP_CAST, GPUMAP_DTYPE_F32, GPUMAP_DTYPE_F16, 0 },
		{ GPUMAP_OP_CAST, GPUMAP_DTYPE_F16, GPUMAP_DTYPE_BF16, 0 },
		{ GPUMAP_OP_CAST, GPUMAP_DTYPE_BF16, GPUMAP_DTYPE_F32, 0 },
		{ GPUMAP_OP_SUM, GPUMAP_DTYPE_F32, 0, 0 },
		{ GPUMAP_OP_SUM, GPUMAP_DTYPE_F16, 0, 0 },
		{ GPUMAP_OP_SUM, GPUMAP_DTYPE_F64, 0, 0 },
		{ GPUMAP_OP_SUM, GPUMAP_DTYPE_U8, 0, 0 },
		{ GPUMAP_OP_SUM, GPUMAP_DTYPE_I32, 0, 0 },
		{ GPUMAP_OP_MIN, GPUMAP_DTYPE_BF16, 0, 0 },
		{ GPUMAP_OP_MAX, GPUMAP_DTYPE_F64, 0, 0 },
		{ GPUMAP_OP_MAX, GPUMAP_DTYPE_U16, 0, 0 },
		{ GPUMAP_OP_MASK_ADD, GPUMAP_DTYPE_F16, 0, 5 },
		{ GPUMAP_OP_MASK_ADD, GPUMAP_DTYPE_F64, 0, 300 },
		{ GPUMAP_OP_MASK_BOOL, GPUMAP_DTYPE_F32, 0, 1000 },
		{ GPUMAP_OP_MASK_BOOL, GPUMAP_DTYPE_BF16, 0, 2 },
		/* Parts of it are met, and begun again, by 3000 bytes and by 3
		 * pages. */
		{ GPUMAP_OP_MASK_ADD, GPUMAP_DTYPE_BF16, 0, 500 },
		{ GPUMAP_OP_MASK_ADD, GPUMAP_DTYPE_F16, 0, 2000 },
		{ GPUMAP_OP_MASK_BOOL, GPUMAP_DTYPE_F32, 0, 2000 },
	};
	int failed = 0;

	for (uint32_t i = 0; i < sizeof(jobs) / sizeof(jobs[0]); i++) {
		for (uint32_t place = 0; place < 4; place++) {
			struct trial t = {
				.op = jobs[i].op,
				.dtype = jobs[i].dtype,
				.n = n / 8 + dice(40),
				.at = { dice(64) * 8, dice(64) * 8 },
				.on_device = { place & 1, place & 2 },
				.to = jobs[i].to,
				.mask_n = jobs[i].mask_n,
			};

			failed += !trial_holds(b, &t);
		}
	}
	return failed;
}
