/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "tests/support/gpu_cases.h"

#include <fcntl.h>
#include <signal.h>

#include "agent/device/stream.h"
#include "shm/atomic.h"

#define KIB       UINT64_C(1024)
#define MIB       (UINT64_C(1) << 20)
#define GIB       (UINT64_C(1) << 30)
#define PAGE      UINT64_C(4096)
#define N_BUFFERS 64

static struct bench *b;

#define WANT(condition)                  \
	do {                             \
		if (!(condition))        \
			return __LINE__; \
	} while (0)

static const struct gm_backend *gpu; /* the bench's */

/* The bytes of a buffer from some place on, by way of client memory. */
static bool read_out(uint64_t address, uint64_t bytes)
{
	const struct gm_task task = { .op = GPUMAP_OP_COPY,
				      .dst = b->client,
				      .src_address = address,
				      .n = bytes };

	memset(b->client, 0x5a, bytes);
	return bench_run(b, &task) == 0;
}

static bool fill(uint64_t address, uint64_t bytes, uint8_t value)
{
	const struct gm_task task = { .op = GPUMAP_OP_FILL,
				      .dst_address = address,
				      .pattern = value,
				      .n = bytes };

	return bench_run(b, &task) == 0;
}

static bool holds(uint64_t address, uint64_t bytes, uint8_t value)
{
	if (!read_out(address, bytes))
		return false;
	for (uint64_t i = 0; i < bytes; i++) {
		if ((uint8_t)b->client[i] != value)
			return false;
	}
	return true;
}

static struct gm_buffer *get(uint64_t owner, uint64_t bytes, uint32_t flags)
{
	struct gm_buffer *buffer = NULL;

	return EQ(gpu->alloc(b->dev, owner, bytes, flags, &buffer), 0) ? buffer
								       : NULL;
}

/* ---- slabs --------------------------------------------------------------- */

static void nobody_gets_what_another_left(void)
{
	static const uint64_t sizes[] = { 1000, 300 * KIB, 9 * MIB };

	for (uint32_t i = 0; i < 3; i++) {
		uint64_t bytes = sizes[i], seen = bytes < MIB ? bytes : MIB;
		struct gm_buffer *one = get(1, bytes, 0), *two;
		uint64_t address;

		if (!one)
			return;
		address = one->address;
		OK(one->bytes == bytes && one->charged >= bytes);
		OK(holds(address, seen, 0)); /* as the driver gave it to us */
		OK(fill(address, seen, 0xaa));
		gpu->free(b->dev, one);
		two = get(2, bytes, 0);
		if (!two)
			return;
		NOTE("%s place",
		     two->address == address ? "the same" : "another");
		OK(holds(two->address, seen, 0));
		gpu->free(b->dev, two);
	}
}

/* Two neighbours are freed in any order, and the next owner finds no bytes of
 * theirs. */
static void neighbours_that_merge_are_cleared(void)
{
	struct gm_buffer *one = get(1, 64 * KIB, 0);
	struct gm_buffer *two = get(2, 64 * KIB, 0), *both;
	uint64_t first;

	if (!one || !two)
		return;
	EQ(two->address - one->address, 64 * KIB);
	first = one->address;
	OK(fill(one->address, 64 * KIB, 0x11));
	OK(fill(two->address, 64 * KIB, 0x22));
	gpu->free(b->dev, one);
	gpu->free(b->dev, two);
	both = get(1, 128 * KIB, 0);
	if (!both)
		return;
	EQ(both->address, first);
	OK(holds(both->address, 128 * KIB, 0));
	gpu->free(b->dev, both);
}

static bool overlap(struct gm_buffer *const *held, int n)
{
	for (int i = 0; i < n; i++) {
		for (int j = i + 1; j < n; j++) {
			uint64_t p = held[i]->address, q = held[j]->address;

			if (p < q ? q - p < held[i]->charged
				  : p - q < held[j]->charged)
				return true;
		}
	}
	return false;
}

static void no_two_buffers_overlap(void)
{
	struct gm_buffer *held[N_BUFFERS];
	int n = 0, failed = 0;

	for (int i = 0; i < 600; i++) {
		uint64_t bytes = 1 + dice(dice(8) ? 40 * KIB : 3 * MIB);

		if (n == N_BUFFERS || (n > 0 && dice(2))) {
			uint64_t which = dice((uint64_t)n);

			gpu->free(b->dev, held[which]);
			held[which] = held[--n];
		} else {
			failed += gpu->alloc(b->dev, 1 + dice(3), bytes, 0,
					     &held[n]) != 0;
			n++;
		}
		if (failed)
			break;
		failed += overlap(held, n);
	}
	EQ(failed, 0);
	while (n > 0)
		gpu->free(b->dev, held[--n]);
}

static uint64_t left(void)
{
	struct gm_device_memory memory = { 0 };

	EQ(gpu->memory(b->dev, &memory), 0);
	return memory.free;
}

static void too_much_is_refused(void)
{
	struct gm_buffer *none = NULL;

	EQ(gpu->alloc(b->dev, 1, left() + GIB, 0, &none), -ENOMEM);
	EQ(gpu->alloc(b->dev, 1, left() + GIB, GPUMAP_BUFFER_EXPORTABLE, &none),
	   b->can_export ? -ENOMEM : -EOPNOTSUPP);
	EQ(gpu->alloc(b->dev, 1, UINT64_MAX, 0, &none), -ENOMEM);
	EQ(gpu->alloc(b->dev, 1, 0, 0, &none), -EINVAL);
	EQ(gpu->alloc(b->dev, 1, 4096, GPUMAP_BUFFER_READ_ONLY, &none),
	   -EINVAL);
	OK(none == NULL);
	EQ(trials_failed(b, 100), 0);
}

/* ---- exports ------------------------------------------------------------- */

static void a_descriptor_stands_for_memory(void)
{
	struct gm_buffer *maker = get(1, 100 * KIB, GPUMAP_BUFFER_EXPORTABLE);
	struct gm_buffer *taker = NULL;
	uint64_t before = left();
	int fd;

	if (!maker)
		return;
	OK(maker->flags & GPUMAP_BUFFER_EXPORTABLE);
	OK(maker->charged >= maker->bytes);
	OK(holds(maker->address, 100 * KIB, 0));
	OK(fill(maker->address, 100 * KIB, 0x42));
	fd = gpu->export_fd(b->dev, maker);
	if (!OK(fd >= 0))
		return;
	OK(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	EQ(gpu->import_fd(b->dev, fd, maker->charged * 4, &taker), -EINVAL);
	EQ(gpu->import_fd(b->dev, fd, 0, &taker), -EINVAL);
	EQ(gpu->import_fd(b->dev, fd, 100 * KIB, &taker), 0);
	close(fd);
	if (!taker)
		return;
	OK(taker->imported && taker->bytes == 100 * KIB);
	OK(taker->address != maker->address);
	EQ(gpu->export_fd(b->dev, taker), -EOPNOTSUPP);
	/* Two addresses of the same memory, which outlives its maker. */
	OK(fill(taker->address + 5, 1, 0x43));
	OK(holds(maker->address + 5, 1, 0x43));
	gpu->free(b->dev, maker);
	OK(holds(taker->address, 5, 0x42));
	EQ(left(), before);
	gpu->free(b->dev, taker);
	OK(left() > before);
}

static void other_descriptors_are_refused(void)
{
	struct gm_buffer *plain = get(1, 4096, 0), *none = NULL;
	int fd = memfd_create("stranger", MFD_CLOEXEC);

	EQ(ftruncate(fd, 4 << 20), 0);
	EQ(gpu->import_fd(b->dev, fd, 4096, &none), -EINVAL);
	EQ(gpu->import_fd(b->dev, -1, 4096, &none), -EINVAL);
	close(fd);
	OK(none == NULL);
	if (!plain)
		return;
	EQ(gpu->export_fd(b->dev, plain), -EOPNOTSUPP);
	gpu->free(b->dev, plain);
	/* None of it was held against the context. */
	EQ(trials_failed(b, 100), 0);
}

/* ---- client memory ------------------------------------------------------- */

/* Registered a few pages at a time, so that every job crosses borders. */
static void pieces_make_no_difference(void)
{
	struct gm_stream *c = (struct gm_stream *)b->dev;
	struct gm_region *again = NULL;
	char *at = b->client;

	gpu->unreach(b->dev, b->region);
	b->region = NULL;
	c->piece_bytes = PAGE;
	if (!EQ(gpu->reach(b->dev, at, BENCH_SIDES * BENCH_ROOM, true,
			   &b->region),
		0))
		return;
	OK(b->region->at == at);
	EQ(trials_failed(b, 3 * PAGE), 0);
	/* Not every driver sees that. */
	if (b->backend == &gm_cuda_backend)
		EQ(gpu->reach(b->dev, at + PAGE, PAGE, true, &again), -EINVAL);
	OK(again == NULL);
	gpu->unreach(b->dev, b->region);
	b->region = NULL;
	c->piece_bytes = GM_STREAM_PIECE_BYTES;
	EQ(gpu->reach(b->dev, at, BENCH_SIDES * BENCH_ROOM, true, &b->region),
	   0);
	EQ(trials_failed(b, 1000), 0);
}

static void regions_come_and_go(void)
{
	char *at = bench_map(64 * PAGE);
	struct gm_region *regions[64] = { NULL };
	struct gm_task task = { .op = GPUMAP_OP_COPY,
				.dst_address = b->buffer[0]->address,
				.n = 8 };
	struct gm_async_exec flight;
	int wrong = 0;

	for (int i = 0; i < 500; i++) {
		uint64_t which = dice(64);
		int rc;

		if (regions[which]) {
			gpu->unreach(b->dev, regions[which]);
			regions[which] = NULL;
		} else {
			wrong += gpu->reach(b->dev, at + which * PAGE, PAGE,
					    true, &regions[which]) != 0;
		}
		which = dice(64);
		task.src = at + which * PAGE + dice(PAGE - 8);
		rc = gpu->start(b->dev, &task, 0, 8, NULL, &flight);
		wrong += rc != (regions[which] ? 0 : -EINVAL);
		if (rc == 0)
			wrong += bench_wait(b, &flight) != 0;
	}
	EQ(wrong, 0);
	for (int i = 0; i < 64; i++) {
		if (regions[i])
			gpu->unreach(b->dev, regions[i]);
	}
	munmap(at, 64 * PAGE);
}

static void read_only_memory_is_read_only(void)
{
	int fd = memfd_create("client", MFD_CLOEXEC);
	struct gm_task task = { .op = GPUMAP_OP_COPY,
				.dst_address = b->buffer[0]->address,
				.n = PAGE };
	struct gm_region *region = NULL;
	char *at;

	EQ(ftruncate(fd, (off_t)PAGE), 0);
	EQ(pwrite(fd, "words", 5, 0), 5);
	at = mmap(NULL, PAGE, PROT_READ, MAP_SHARED | MAP_POPULATE, fd, 0);
	close(fd);
	EQ(gpu->reach(b->dev, at, PAGE, false, &region), 0);
	task.src = at;
	EQ(bench_run(b, &task), 0);
	OK(read_out(b->buffer[0]->address, PAGE));
	EQ(memcmp(b->client, "words", 6), 0);
	task.src = NULL;
	task.src_address = b->buffer[0]->address;
	task.dst = at;
	EQ(bench_run(b, &task), -EINVAL);
	if (region)
		gpu->unreach(b->dev, region);
	munmap(at, PAGE);
}

/* One page is reached in place, the next, which may only be read, by staging on
 * a card that cannot register such memory. */
static void a_slice_may_be_staged_in_part(void)
{
	struct gm_gpu *driver = ((struct gm_stream *)b->dev)->gpu;
	uint32_t flags = driver->flags;
	int fd = memfd_create("client", MFD_CLOEXEC);
	char *at = bench_map(2 * PAGE);
	struct gm_task task = { .op = GPUMAP_OP_COPY,
				.dst_address = b->buffer[0]->address,
				.src = at,
				.n = 2 * PAGE };
	struct gm_region *first = NULL, *second = NULL;

	memset(at, 1, PAGE);
	EQ(ftruncate(fd, (off_t)PAGE), 0);
	EQ(pwrite(fd, "two", 3, (off_t)PAGE - 3), 3);
	OK(mmap(at + PAGE, PAGE, PROT_READ,
		MAP_SHARED | MAP_POPULATE | MAP_FIXED, fd, 0) == at + PAGE);
	close(fd);
	EQ(gpu->reach(b->dev, at, PAGE, true, &first), 0);
	driver->flags &= ~GM_GPU_READ_ONLY;
	EQ(gpu->reach(b->dev, at + PAGE, PAGE, false, &second), 0);
	driver->flags = flags;
	OK(first && first->address && second && !second->address);
	EQ(bench_run(b, &task), 0);
	OK(read_out(b->buffer[0]->address, 2 * PAGE));
	EQ(memcmp(b->client, at, 2 * PAGE), 0);
	/* Nothing of it is written where a part must not be. */
	task.src = NULL;
	task.src_address = b->buffer[0]->address;
	task.dst = at;
	EQ(bench_run(b, &task), -EINVAL);
	gpu->unreach(b->dev, second);
	gpu->unreach(b->dev, first);
	munmap(at, 2 * PAGE);
}

/* Half of it is on its lane before the other half is found to be nowhere. */
static void a_slice_may_fail_alone(void)
{
	char *at = bench_map(2 * PAGE);
	struct gm_task task = { .op = GPUMAP_OP_COPY,
				.dst_address = b->buffer[0]->address,
				.src = at,
				.n = 2 * PAGE };
	struct gm_region *region = NULL;
	struct gm_async_exec flight, next;

	EQ(gpu->reach(b->dev, at, PAGE, true, &region), 0);
	EQ(gpu->start(b->dev, &task, 0, 2 * PAGE, NULL, &flight), 0);
	EQ(bench_wait(b, &flight), -EIO);
	task.n = PAGE;
	EQ(gpu->start(b->dev, &task, 0, PAGE, &flight, &next), 0);
	EQ(bench_wait(b, &next), 0);
	EQ(gpu->ended(b->dev, &flight), -EIO);
	EQ(gpu->ended(b->dev, &next), 1);
	if (region)
		gpu->unreach(b->dev, region);
	munmap(at, 2 * PAGE);
}

/* ---- the slow thread beside dispatch ------------------------------------- */

static int slow_round(struct gm_backend_device *dev, char *at)
{
	struct gm_device_memory memory;
	struct gm_buffer *buffers[2], *import;
	struct gm_region *region;
	int fd = -1;

	WANT(gpu->alloc(dev, 7, 300 * KIB + 1, 0, &buffers[0]) == 0);
	WANT(gpu->alloc(dev, 7, 4096,
			b->can_export ? GPUMAP_BUFFER_EXPORTABLE : 0,
			&buffers[1]) == 0);
	if (b->can_export) {
		fd = gpu->export_fd(dev, buffers[1]);
		WANT(fd >= 0 && gpu->import_fd(dev, fd, 4096, &import) == 0);
	}
	WANT(gpu->reach(dev, at, 4 * PAGE, true, &region) == 0);
	WANT(gpu->memory(dev, &memory) == 0);
	gpu->unreach(dev, region);
	if (b->can_export) {
		gpu->free(dev, import);
		close(fd);
	}
	gpu->free(dev, buffers[0]);
	gpu->free(dev, buffers[1]);
	return 0;
}

static gm_a32 dispatch_is_through;

static void *be_slow(void *arg)
{
	char *at = bench_map(4 * PAGE);
	intptr_t wrong = 0;

	while (!wrong && !gm_get(&dispatch_is_through))
		wrong = slow_round(arg, at);
	munmap(at, 4 * PAGE);
	return (void *)wrong;
}

static void both_threads_are_inside_at_once(void)
{
	pthread_t slow;
	void *wrong = NULL;

	if (!EQ(pthread_create(&slow, NULL, be_slow, b->dev), 0))
		return;
	EQ(trials_failed(b, 200), 0);
	b->sleeps = true;
	EQ(trials_failed(b, 200), 0);
	b->sleeps = false;
	gm_put(&dispatch_is_through, 1);
	pthread_join(slow, &wrong);
	EQ((intptr_t)wrong, 0);
}

void gpu_cases_memory(struct bench *bench)
{
	b = bench;
	gpu = bench->backend;
	nobody_gets_what_another_left();
	neighbours_that_merge_are_cleared();
	no_two_buffers_overlap();
	too_much_is_refused();
	if (b->can_export) {
		a_descriptor_stands_for_memory();
		other_descriptors_are_refused();
	}
	pieces_make_no_difference();
	regions_come_and_go();
	read_only_memory_is_read_only();
	if (b->region->address) { /* the device reaches it */
		a_slice_may_be_staged_in_part();
		a_slice_may_fail_alone();
	}
	if (!b->is_serial)
		both_threads_are_inside_at_once();
}

/* ---- memory that goes away ----------------------------------------------- */

static gm_a32 n_replaced;

/* As a worker has it: pages that a client took away are replaced. */
static void replace(int number, siginfo_t *info, void *context)
{
	uintptr_t at = (uintptr_t)info->si_addr & ~(uintptr_t)4095;

	(void)number;
	(void)context;
	gm_add_ordered(&n_replaced, 1); /* a count */
	if (mmap((void *)at, 4096, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED)
		_exit(1);
}

/* The driver's threads meet it within a kernel and within a copy, or, of a
 * driver whose threads block SIGBUS, this thread that stages. */
void gpu_cases_taken_away(struct bench *bench)
{
	const uint64_t bytes = 64 * UINT64_C(4096);
	const struct sigaction action = { .sa_sigaction = replace,
					  .sa_flags = SA_SIGINFO };
	struct sigaction before;
	int fd = memfd_create("client", MFD_CLOEXEC);
	struct gm_task task = { .op = GPUMAP_OP_AXPY,
				.dtype = GPUMAP_DTYPE_F32,
				.dst_address = bench->buffer[0]->address,
				.n = bytes / 4,
				.alpha = 1 };
	struct gm_region *region = NULL;
	char *at;

	EQ(ftruncate(fd, (off_t)bytes), 0);
	at = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		  MAP_SHARED | MAP_POPULATE, fd, 0);
	if (!OK(at != MAP_FAILED) ||
	    !EQ(bench->backend->reach(bench->dev, at, bytes, true, &region), 0))
		return;
	task.src = at;
	EQ(bench_run(bench, &task), 0);
	sigaction(SIGBUS, &action, &before);
	EQ(ftruncate(fd, 4096), 0);
	EQ(bench_run(bench, &task), 0);
	OK(gm_get(&n_replaced) >= 63);
	EQ(ftruncate(fd, 0), 0);
	task.op = GPUMAP_OP_COPY;
	EQ(bench_run(bench, &task), 0);
	OK(gm_get(&n_replaced) >= 64);
	sigaction(SIGBUS, &before, NULL);
	bench->backend->unreach(bench->dev, region);
	munmap(at, bytes);
	close(fd);
}

/* A sleeper is woken. */
void gpu_cases_lost(struct bench *bench, int rc, int code)
{
	struct gm_task task = bench_task(bench, 1);
	struct gm_device_memory memory;
	struct gm_async_exec flight;
	int got = 0;

	EQ(rc, -ENOTRECOVERABLE);
	EQ(bench_start(bench, &task, 0, task.n, &flight), -ENOTRECOVERABLE);
	EQ(bench->backend->memory(bench->dev, &memory), -ENOTRECOVERABLE);
	OK(bench->backend->fault(bench->dev, &got));
	EQ(got, code);
}
