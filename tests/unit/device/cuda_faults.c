/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * cuda: drivers and devices that lack something, and those that fail.  Each
 * part is this program again, on a stand-in machine with a plan of faults.
 */

#include <sys/socket.h>

#include "agent/device/stream.h"
#include "tests/support/gpu_bench.h"
#include "tests/support/fake_machine.h"

#define MIB (UINT64_C(1) << 20)

static const struct gm_backend *cuda = &gm_cuda_backend;
static struct bench b;

/* ---- parts --------------------------------------------------------------- */

static int end(int line)
{
	bench_close(&b);
	return line;
}

/* Everything, by looking and by sleeping. */
static int works(void)
{
	struct trial large = { .op = GPUMAP_OP_AXPY,
			       .dtype = GPUMAP_DTYPE_F32,
			       .n = 5 * MIB / 4,
			       .at = { 8, 16 } };

	WANT(bench_open(&b, NULL) == 0);
	WANT(trials_failed(&b, 3000) == 0);
	b.sleeps = true;
	WANT(trials_failed(&b, 100) == 0);
	b.room = BENCH_LARGE;
	WANT(trial_holds(&b, &large));
	large.op = GPUMAP_OP_COPY;
	large.on_device[0] = dice(2);
	WANT(trial_holds(&b, &large));
	return end(0);
}

/* No word of a lane is in memory that moves. */
static int ends_are_events(void)
{
	WANT(bench_open(&b, NULL) == 0);
	for (uint32_t i = 0; i < GM_GPU_LANES; i++)
		WANT(((struct gm_stream *)b.dev)->gpu->words[i] == NULL);
	return end(0);
}

/* A session's memory without pages, of which few are touched. */
static char *map_much(uint64_t bytes)
{
	int fd = memfd_create("much", MFD_CLOEXEC);
	char *at = MAP_FAILED;

	if (fd >= 0 && ftruncate(fd, (off_t)bytes) == 0)
		at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
			  0);
	close(fd);
	return at;
}

/* Words around each 32 MiB go to the card and come back elsewhere. */
static int borders_are_crossed(char *at, uint64_t bytes)
{
	struct gm_task in = { .op = GPUMAP_OP_COPY,
			      .dst_address = b.buffer[0]->address,
			      .n = 8192 };
	struct gm_task out = { .op = GPUMAP_OP_COPY,
			       .src_address = b.buffer[0]->address,
			       .dst = b.client,
			       .n = 8192 };

	for (uint64_t i = 32 * MIB; i < bytes; i += 32 * MIB) {
		memset(at + i - 4096, (int)(i / MIB), 4096);
		memset(at + i, (int)(i / MIB) + 1, 4096);
		in.src = at + i - 4096;
		WANT(bench_run(&b, &in) == 0 && bench_run(&b, &out) == 0);
		WANT(memcmp(b.client, at + i - 4096, 8192) == 0);
	}
	return 0;
}

/* The machine pins less at once than a piece has. */
static int pieces_are_halved(void)
{
	uint64_t bytes = 200 * MIB;
	struct gm_region *region = NULL;
	char *at = map_much(bytes);
	int line;

	WANT(at != MAP_FAILED && bench_open(&b, NULL) == 0);
	for (int i = 0; i < 2; i++) {
		WANT(cuda->reach(b.dev, at, bytes, true, &region) == 0);
		WANT(region->address != 0); /* not staged */
		line = borders_are_crossed(at, bytes);
		cuda->unreach(b.dev, region);
		if (line)
			return line;
	}
	munmap(at, bytes);
	return end(0);
}

/* None is small enough. */
static int much_is_staged(void)
{
	uint64_t bytes = 200 * MIB;
	struct gm_region *region = NULL;
	char *at = map_much(bytes);
	int line;

	WANT(at != MAP_FAILED && bench_open(&b, NULL) == 0);
	WANT(cuda->reach(b.dev, at, bytes, true, &region) == 0);
	WANT(region->address == 0);
	line = borders_are_crossed(at, bytes);
	cuda->unreach(b.dev, region);
	munmap(at, bytes);
	return end(line);
}

/* Nothing holds the node's locks for long. */
static int pieces_are_small(void)
{
	uint64_t bytes = UINT64_C(5) << 30;
	struct gm_region *region = NULL;
	const struct gm_stream_places *pieces;
	char *at = map_much(bytes);
	uint32_t n = 0;

	WANT(at != MAP_FAILED && bench_open(&b, NULL) == 0);
	WANT(cuda->reach(b.dev, at, bytes, true, &region) == 0);
	pieces = &((struct gm_stream *)b.dev)->client;
	for (uint32_t i = 0; i < pieces->n; i++) {
		WANT(pieces->place[i].bytes <= UINT64_C(1) << 30);
		n += pieces->place[i].from - (uintptr_t)at < bytes;
	}
	WANT(n == 5);
	cuda->unreach(b.dev, region);
	munmap(at, bytes);
	return end(0);
}

/* A staged region reads what was brought back, however late that was. */
static int staging_keeps_order(void)
{
	struct gm_task out = { .op = GPUMAP_OP_COPY, .n = 4096 };
	struct gm_task in = out, fill = { .op = GPUMAP_OP_FILL, .n = 4096 };
	struct gm_async_exec flights[3];
	int rc;

	WANT(bench_open(&b, NULL) == 0);
	out.dst = b.client;
	out.src_address = fill.dst_address = b.buffer[0]->address;
	in.src = b.client;
	in.dst_address = b.buffer[1]->address;
	for (uint32_t i = 1; i < 40; i++) {
		fill.pattern = i;
		WANT(bench_start(&b, &fill, 0, 4096, &flights[0]) == 0);
		WANT(bench_start(&b, &out, 0, 4096, &flights[1]) == 0);
		rc = bench_start(&b, &in, 0, 4096, &flights[2]);
		WANT(rc == -EAGAIN);
		WANT(bench_wait(&b, &flights[0]) == 0);
		WANT(bench_wait(&b, &flights[1]) == 0);
		WANT(bench_start(&b, &in, 0, 4096, &flights[2]) == 0);
		WANT(bench_wait(&b, &flights[2]) == 0);
		out.src_address = b.buffer[1]->address;
		WANT(bench_run(&b, &out) == 0);
		out.src_address = b.buffer[0]->address;
		WANT((uint8_t)b.client[0] == i && (uint8_t)b.client[4095] == i);
	}
	return end(0);
}

/* The same memory twice, by a client's whim: written in place, and read through
 * staging. */
static int staging_sees_what_is_in_place(void)
{
	int fd = memfd_create("client", MFD_CLOEXEC);
	struct gm_task fill = { .op = GPUMAP_OP_FILL, .n = 4096 };
	struct gm_task out = { .op = GPUMAP_OP_COPY, .n = 4096 };
	struct gm_task in = out, back = out;
	struct gm_region *place, *staged;

	WANT(bench_open(&b, NULL) == 0);
	WANT(fd >= 0 && ftruncate(fd, 4096) == 0);
	out.dst = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_POPULATE, fd, 0);
	in.src = mmap(NULL, 4096, PROT_READ, MAP_SHARED | MAP_POPULATE, fd, 0);
	close(fd);
	WANT(cuda->reach(b.dev, out.dst, 4096, true, &place) == 0);
	WANT(cuda->reach(b.dev, (char *)(uintptr_t)in.src, 4096, false,
			 &staged) == 0);
	WANT(place->address && !staged->address);
	fill.dst_address = out.src_address = b.buffer[0]->address;
	in.dst_address = back.src_address = b.buffer[1]->address;
	back.dst = b.client;
	for (uint32_t i = 1; i < 20; i++) {
		struct gm_async_exec flights[3];

		fill.pattern = i;
		WANT(bench_start(&b, &fill, 0, 4096, &flights[0]) == 0);
		WANT(bench_start(&b, &out, 0, 4096, &flights[1]) == 0);
		if (bench_start(&b, &in, 0, 4096, &flights[2]) < 0) {
			WANT(bench_wait(&b, &flights[0]) == 0);
			WANT(bench_wait(&b, &flights[1]) == 0);
			WANT(bench_start(&b, &in, 0, 4096, &flights[2]) == 0);
		}
		WANT(bench_wait(&b, &flights[0]) == 0);
		WANT(bench_wait(&b, &flights[1]) == 0);
		WANT(bench_wait(&b, &flights[2]) == 0);
		WANT(bench_run(&b, &back) == 0);
		WANT((uint8_t)b.client[0] == i && (uint8_t)b.client[4095] == i);
	}
	cuda->unreach(b.dev, staged);
	cuda->unreach(b.dev, place);
	munmap((void *)(uintptr_t)in.src, 4096);
	munmap(out.dst, 4096);
	return end(0);
}

/*
 * Two sessions whose jobs are all under way at once, over three lanes each,
 * and slow: neither overtakes itself, and what the other does is not in its
 * way.
 */
static int order_is_kept_under_way(void)
{
	struct gm_async_exec flights[2][4];
	struct gm_task job[4] = { { .op = GPUMAP_OP_FILL },
				  { .op = GPUMAP_OP_COPY },
				  { .op = GPUMAP_OP_COPY },
				  { .op = GPUMAP_OP_COPY } };

	WANT(bench_open(&b, NULL) == 0);
	for (uint32_t i = 1; i < 8; i++) {
		for (uint32_t s = 0; s < 2; s++) {
			char *client = b.client + s * 65536;
			uint64_t at[2] = { b.buffer[0]->address + s * 65536,
					   b.buffer[1]->address + s * 65536 };

			job[0].pattern = 16 * s + i;
			job[0].dst_address = job[1].src_address = at[0];
			job[1].dst = client;
			job[2].src = client;
			job[2].dst_address = job[3].src_address = at[1];
			job[3].dst = client + 8192;
			for (uint32_t n = 0; n < 4; n++) {
				job[n].n = 8192;
				WANT(cuda->start(b.dev, &job[n], 0, 8192,
						 n ? &flights[s][n - 1] : NULL,
						 &flights[s][n]) == 0);
			}
		}
		b.sleeps = i & 1;
		for (uint32_t n = 0; n < 8; n++)
			WANT(bench_wait(&b, &flights[n & 1][n / 2]) == 0);
		for (uint32_t s = 0; s < 2; s++) {
			uint8_t *got = (uint8_t *)b.client + s * 65536;

			WANT(got[0] == 16 * s + i && got[8191] == got[0]);
			WANT(memcmp(got, got + 8192, 8192) == 0);
		}
	}
	return end(0);
}

/* Copies of all kinds, and bytes; nothing that has to be compiled. */
static int copies_without_operators(void)
{
	struct trial t = { .op = GPUMAP_OP_COPY,
			   .dtype = GPUMAP_DTYPE_U8,
			   .n = 5000,
			   .at = { 3, 5 },
			   .on_device = { false, true } };

	WANT(bench_open(&b, NULL) == 0);
	for (uint32_t i = 0; i < 4; i++) {
		t.on_device[0] = i & 1;
		t.on_device[1] = i & 2;
		WANT(trial_holds(&b, &t));
	}
	t.op = GPUMAP_OP_FILL;
	t.on_device[0] = true;
	WANT(trial_holds(&b, &t));
	t.on_device[0] = false;
	WANT(trial_run(&b, &t) == -EOPNOTSUPP);
	t = (struct trial){ .op = GPUMAP_OP_SCALE,
			    .dtype = GPUMAP_DTYPE_F32,
			    .n = 100,
			    .on_device = { true, true } };
	WANT(trial_run(&b, &t) == -EOPNOTSUPP);
	return end(0);
}

/* The fault is reported, whichever call meets it, and by every later call. */
static int is_lost(int want, const char *name)
{
	struct gm_buffer *buffer = NULL;
	struct gm_device_memory memory;
	struct gm_region *region = NULL;
	struct gm_task task = { .op = GPUMAP_OP_NOP };
	struct gm_async_exec flight;
	int code = 0;

	WANT(cuda->start(b.dev, &task, 0, 0, NULL, &flight) ==
	     -ENOTRECOVERABLE);
	WANT(cuda->ended(b.dev, &b.last) == -ENOTRECOVERABLE);
	WANT(cuda->arm(b.dev) == -ENOTRECOVERABLE);
	WANT(cuda->memory(b.dev, &memory) == -ENOTRECOVERABLE);
	WANT(cuda->alloc(b.dev, 1, 4096, 0, &buffer) == -ENOTRECOVERABLE);
	WANT(cuda->reach(b.dev, b.client, 4096, true, &region) ==
	     -ENOTRECOVERABLE);
	WANT(cuda->export_fd(b.dev, b.buffer[0]) == -ENOTRECOVERABLE);
	WANT(cuda->import_fd(b.dev, 0, 4096, &buffer) == -ENOTRECOVERABLE);
	WANT(strstr(cuda->fault(b.dev, &code), name) != NULL);
	WANT(code == want);
	WANT(poll(&(struct pollfd){ b.dev->ended_fd, POLLIN, 0 }, 1, 0) == 1);
	return end(0);
}

static int run_until_lost(bool sleeps)
{
	int rc = bench_open(&b, NULL);

	b.sleeps = sleeps;
	for (int i = 0; i < 100 && rc == 0; i++) {
		const struct trial t = { .op = GPUMAP_OP_AXPY,
					 .dtype = GPUMAP_DTYPE_F32,
					 .n = 100,
					 .on_device = { true, true } };

		rc = trial_run(&b, &t);
	}
	return rc;
}

static int illegal_address(void)
{
	WANT(run_until_lost(false) == -ENOTRECOVERABLE);
	return is_lost(700, "CUDA 700 ILLEGAL_ADDRESS");
}

/* A wait that fails fails at once: the worker must not wait again and again. */
static int illegal_address_asleep(void)
{
	WANT(run_until_lost(true) == -ENOTRECOVERABLE);
	WANT(b.n_sleeps < 500);
	return is_lost(700, "CUDA 700 ILLEGAL_ADDRESS");
}

/* A number that is newer than our table, and stays. */
static int unheard_of(void)
{
	WANT(run_until_lost(true) == -ENOTRECOVERABLE);
	return is_lost(1234, "CUDA 1234 unknown error");
}

static int card_gone(void)
{
	int code = 0;

	WANT(run_until_lost(true) == -ENOTRECOVERABLE);
	(void)cuda->fault(b.dev, &code);
	WANT(code != 0);
	return is_lost(code, "CUDA ");
}

/* A lane that is stuck wakes no worker, and keeps none asleep. */
static int others_go_on_beside_a_hang(void)
{
	struct gm_task stuck = { .op = GPUMAP_OP_FILL,
				 .pattern = 0x1234,
				 .dtype = GPUMAP_DTYPE_U16,
				 .n = 100 };
	struct gm_task copy = { .op = GPUMAP_OP_COPY, .n = 100 };
	struct gm_async_exec hung, flight;

	WANT(bench_open(&b, NULL) == 0);
	stuck.dst_address = copy.src_address = b.buffer[0]->address;
	copy.dst = b.client;
	WANT(cuda->start(b.dev, &stuck, 0, 100, NULL, &hung) == 0);
	b.sleeps = true;
	for (int i = 0; i < 20; i++) {
		WANT(cuda->start(b.dev, &copy, 0, 100, NULL, &flight) == 0);
		WANT(bench_wait(&b, &flight) == 0);
		WANT(cuda->ended(b.dev, &hung) == 0);
	}
	WANT(cuda->arm(b.dev) == 0);
	_exit(0);
}

static int memory_runs_out(void)
{
	struct gm_buffer *held[64], *small = NULL;
	int n = 0, rc = 0;

	WANT(bench_open(&b, NULL) == 0);
	while (n < 64 &&
	       (rc = cuda->alloc(b.dev, 1, 10 * MIB, 0, &held[n])) == 0)
		n++;
	WANT(rc == -ENOMEM && n > 2 && n < 64);
	/* No slab is left, and less than a slab will do. */
	WANT(cuda->alloc(b.dev, 1, 4096, 0, &small) == 0);
	WANT(trials_failed(&b, 100) == 0);
	cuda->free(b.dev, small);
	cuda->free(b.dev, held[--n]);
	WANT(cuda->alloc(b.dev, 1, 10 * MIB, GPUMAP_BUFFER_EXPORTABLE,
			 &held[n++]) == 0);
	while (n > 0)
		cuda->free(b.dev, held[--n]);
	return end(0);
}

/* A session that frees all leaves a slab, kept for the next allocation: other
 * sessions must not lack it. */
static int what_is_kept_is_nobodys(void)
{
	static const uint32_t flags[] = { 0, GPUMAP_BUFFER_EXPORTABLE };
	struct gm_device_memory memory;
	struct gm_buffer *few[8], *all;

	WANT(bench_open(&b, NULL) == 0);
	for (int i = 0; i < 2; i++) {
		for (int k = 0; k < 8; k++) /* more than one slab has */
			WANT(cuda->alloc(b.dev, 1, 5 * MIB, 0, &few[k]) == 0);
		for (int k = 0; k < 8; k++)
			cuda->free(b.dev, few[k]);
		WANT(cuda->memory(b.dev, &memory) == 0);
		WANT(cuda->alloc(b.dev, 2, memory.free + 16 * MIB, flags[i],
				 &all) == 0);
		cuda->free(b.dev, all);
	}
	return end(0);
}

static int cannot_open(int rc, int want_code, const char *text)
{
	int code = -1;
	const char *why;

	WANT(bench_open(&b, NULL) == rc);
	why = cuda->fault(NULL, &code);
	WANT(code == want_code);
	WANT(strstr(why, text) != NULL);
	return end(0);
}

static int fabric_not_up(void)
{
	return cannot_open(-EAGAIN, 802, "nvidia-fabricmanager");
}

static int mode_prohibited(void)
{
	return cannot_open(-ENODEV, 0, "PROHIBITED");
}

/* Another process has it, and ends before we do. */
static int mode_exclusive(void)
{
	int status, pair[2];
	char byte = 0;
	pid_t pid;

	WANT(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
	pid = fork();
	if (pid == 0) {
		close(pair[0]);
		byte = bench_open(&b, NULL) == 0;
		_exit(write(pair[1], &byte, 1) != 1 ||
		      read(pair[1], &byte, 1) != 0);
	}
	close(pair[1]);
	WANT(read(pair[0], &byte, 1) == 1 && byte == 1);
	status = cannot_open(-ENODEV, 46, "DEVICE_UNAVAILABLE");
	close(pair[0]);
	WANT(waitpid(pid, NULL, 0) == pid);
	return status;
}

static int cannot_export(void)
{
	struct gm_buffer *none = NULL;

	WANT(bench_open(&b, NULL) == 0);
	WANT(cuda->alloc(b.dev, 1, 4096, GPUMAP_BUFFER_EXPORTABLE, &none) ==
	     -EOPNOTSUPP);
	WANT(cuda->import_fd(b.dev, 0, 4096, &none) == -EOPNOTSUPP);
	WANT(trials_failed(&b, 100) == 0);
	return end(0);
}

/* By UUID, whichever place the driver gives it; and again after closing. */
static int each_is_found(void)
{
	struct fake_hardware hw;
	struct gm_device_memory memory;
	struct gm_backend_device *none = NULL;
	char text[FAKE_UUID_TEXT];
	int code = -1;

	WANT(fake_hardware_open(getenv("GPUMAP_FAKE_HARDWARE"), &hw) == 0);
	for (uint32_t i = 0; i < hw.board->n_gpus; i++) {
		struct gm_device_config config = { .uuid = text };
		struct gm_backend_device *dev = NULL;

		fake_uuid_print(&hw.board->gpus[i], text);
		WANT(cuda->open(&config, &dev) == 0);
		WANT(cuda->memory(dev, &memory) == 0);
		WANT(memory.total == hw.board->gpus[i].total);
		cuda->close(dev);
	}
	text[10] ^= 1;
	WANT(cuda->open(&(struct gm_device_config){ .uuid = text }, &none) ==
	     -ENODEV);
	WANT(strstr(cuda->fault(NULL, &code), text) != NULL && code == 0);
	WANT(cuda->open(&(struct gm_device_config){ .uuid = "GPU-odd" },
			&none) == -ENODEV);
	WANT(cuda->open(&(struct gm_device_config){ .uuid = "" }, &none) ==
	     -ENODEV);
	WANT(!none);
	fake_hardware_leave(&hw);
	return 0;
}

/* Memory of one card is no memory for another. */
static int cards_are_apart(void)
{
	struct fake_hardware hw;
	char text[FAKE_UUID_TEXT];
	struct gm_device_config config = { .uuid = text };
	struct gm_backend_device *dev[2] = { NULL };
	struct gm_buffer *buffer = NULL, *none = NULL;
	int fd;

	WANT(fake_hardware_open(getenv("GPUMAP_FAKE_HARDWARE"), &hw) == 0);
	WANT(hw.board->n_gpus >= 2);
	for (uint32_t i = 0; i < 2; i++) {
		fake_uuid_print(&hw.board->gpus[i], text);
		WANT(cuda->open(&config, &dev[i]) == 0);
	}
	WANT(cuda->alloc(dev[0], 1, 4096, GPUMAP_BUFFER_EXPORTABLE, &buffer) ==
	     0);
	fd = cuda->export_fd(dev[0], buffer);
	WANT(fd >= 0);
	WANT(cuda->import_fd(dev[1], fd, 4096, &none) == -EOPNOTSUPP);
	WANT(cuda->import_fd(dev[0], fd, 4096, &none) == 0);
	close(fd);
	cuda->free(dev[0], none);
	cuda->free(dev[0], buffer);
	cuda->close(dev[1]);
	cuda->close(dev[0]);
	fake_hardware_leave(&hw);
	return 0;
}

/* ---- slices of its own memory ------------------------------------------- */

/* As long as one over the bus, by what the driver says of the memory. */
static bool own_slice_is(uint64_t slice_bytes, uint64_t want)
{
	const struct gm_device_config config = { .slice_bytes = slice_bytes };
	bool is = false;

	if (gm_cuda_backend.open(&config, &b.dev) == 0)
		is = b.dev->own_bytes == want;
	if (!is)
		NOTE("%" PRIu64, b.dev->own_bytes);
	gm_cuda_backend.close(b.dev);
	b.dev = NULL;
	return is;
}

/* 1215 MHz, 4096 bits: 622 GB/s each way, 24 times the bus. */
static int own_slices_follow_the_memory(void)
{
	WANT(own_slice_is(MIB, 24 * MIB));
	WANT(own_slice_is(512 << 10, 12 * MIB));
	WANT(own_slice_is(64 << 10, 4 * MIB));
	return 0;
}

static int own_slices_of_unknown_memory(void)
{
	WANT(own_slice_is(2 * MIB, 8 * MIB));
	return 0;
}

static int own_slices_of_slow_memory(void)
{
	WANT(own_slice_is(4 * MIB, 4 * MIB));
	return 0;
}

static int own_slices_have_a_limit(void)
{
	WANT(own_slice_is(MIB, 256 * MIB));
	return 0;
}

/* ---- scenes -------------------------------------------------------------- */

static const struct scene_part parts[] = {
	{ "works", NULL, works },
	{ "works", "driver 12.0", works },
	{ "works", "driver 12.2", works },
	{ "works", "driver 12.8", works },
	{ "works", "driver 13.0", works },
	{ "works", "attribute 122 is 0", works },
	{ "works", "attribute 99 is 0", works },
	{ "works", "attribute 99 is 0; attribute 122 is 0", works },
	{ "works", "attribute 91 is 0", works },
	{ "ends_are_events", "attribute 99 is 0", ends_are_events },
	{ "ends_are_events", "attribute 122 is 0", ends_are_events },
	{ "works", "symbol missing cuStreamWriteValue64", works },
	{ "works", "symbol missing cuMemHostRegister", works },
	{ "works", "symbol missing cuMemcpyBatchAsync", works },
	{ "pieces_are_small", NULL, pieces_are_small },
	{ "pieces_are_halved", "registrations up to 80 MiB",
	  pieces_are_halved },
	{ "much_is_staged", "registrations up to 1 MiB", much_is_staged },
	{ "works", "registrations up to 1 MiB", works },
	{ "staging_keeps_order", "attribute 99 is 0", staging_keeps_order },
	{ "staging_keeps_order", "attribute 99 is 0; copies take 1 ms",
	  staging_keeps_order },
	{ "staging_sees_what_is_in_place",
	  "attribute 113 is 0; copies take 1 ms",
	  staging_sees_what_is_in_place },
	{ "order_is_kept_under_way", NULL, order_is_kept_under_way },
	{ "order_is_kept_under_way", "copies take 2 ms; launches take 4 ms",
	  order_is_kept_under_way },
	{ "order_is_kept_under_way",
	  "copies take 2 ms; launches take 4 ms; attribute 122 is 0",
	  order_is_kept_under_way },
	{ "copies_without_operators", "jit fails 221",
	  copies_without_operators },
	{ "copies_without_operators", "jit fails 222",
	  copies_without_operators },
	{ "illegal_address", "launch 2: sticky 700", illegal_address },
	{ "illegal_address", "copy 7: sticky 700", illegal_address },
	{ "illegal_address", "attribute 122 is 0; launch 2: sticky 700",
	  illegal_address },
	{ "illegal_address_asleep", "launch 2: sticky 700",
	  illegal_address_asleep },
	{ "illegal_address_asleep", "copy 7: sticky 700",
	  illegal_address_asleep },
	{ "illegal_address_asleep", "attribute 122 is 0; launch 2: sticky 700",
	  illegal_address_asleep },
	{ "unheard_of", "launch 3: sticky 1234", unheard_of },
	{ "card_gone", "launch 2: xid 79", card_gone },
	{ "others_go_on_beside_a_hang", "launch 1: hang",
	  others_go_on_beside_a_hang },
	{ "memory_runs_out", "out of memory after 700 MiB", memory_runs_out },
	{ "what_is_kept_is_nobodys", "out of memory after 700 MiB",
	  what_is_kept_is_nobodys },
	{ "fabric_not_up", "init fails 802", fabric_not_up },
	{ "mode_prohibited", "prohibited", mode_prohibited },
	{ "mode_exclusive", "exclusive process", mode_exclusive },
	{ "cannot_export", "attribute 103 is 0", cannot_export },
	{ "cannot_export", "symbol missing cuMemCreate", cannot_export },
	{ "own_slices_follow_the_memory", NULL, own_slices_follow_the_memory },
	{ "own_slices_of_unknown_memory", "attribute 36 is 0",
	  own_slices_of_unknown_memory },
	{ "own_slices_of_unknown_memory", "attribute 37 is 0",
	  own_slices_of_unknown_memory },
	{ "own_slices_of_slow_memory", "attribute 37 is 128",
	  own_slices_of_slow_memory },
	{ "own_slices_have_a_limit", "attribute 37 is 65536",
	  own_slices_have_a_limit },
	{ "each_is_found", NULL, each_is_found },
	{ "cards_are_apart", NULL, cards_are_apart },
};

TAP_CASE_ARGS(argc, argv)
{
	return scene_main(argc, argv, "tests/.libs/operators_kernels.so", parts,
			  sizeof(parts) / sizeof(parts[0]));
}
