/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* Measure LOAD against bare loops over the same file, a round of each in
 * turn. */

#include "tests/bench/instance/bench.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/bench/measure/reads.h"
#include "tests/bench/measure/ticks.h"

#define BYTES      (UINT64_C(512) << 20)
#define PIECE      (UINT64_C(32) << 20) /* as when loading a model */
#define QUEUED     4u
#define PLAIN      (1u << 20) /* bytes of a read(2) */
#define SWEEPS     2

#define FILE_NAME  "load_file_512m"
#define READ_NAME  "load_read_512m"
#define PIECE_NAME "load_pieces_512m"

struct load {
	struct gm_bench *bench;
	char *memory; /* of the bare loops */
	int direct;   /* -1: the file system has no such reads */
	int cached;
	uint64_t file;
	uint64_t buffer;
	struct gm_reads best; /* of the sweep */
};

/* ---- the file ------------------------------------------------------------ */

/* Make the file in the working directory, which is on the storage to be
 * measured; no other process sees it. */
static int open_file(void)
{
	char path[] = "gpumap-bench.XXXXXX";
	int fd = open(".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

	if (fd >= 0)
		return fd;
	fd = mkostemp(path, O_CLOEXEC);
	if (fd < 0)
		return -errno;
	unlink(path);
	return fd;
}

static int fill_file(struct load *l)
{
	char path[32];
	uint64_t x = 88172645463325252u;

	l->cached = open_file();
	if (l->cached < 0)
		return l->cached;
	for (uint64_t i = 0; i < BYTES / 8; i++) {
		x ^= x << 13; /* storage may compress uniform data */
		x ^= x >> 7;
		x ^= x << 17;
		((uint64_t *)(void *)l->memory)[i] = x;
	}
	for (uint64_t at = 0; at < BYTES;) {
		ssize_t n = pwrite(l->cached, l->memory + at, BYTES - at,
				   (off_t)at);

		if (n < 0 && errno != EINTR)
			return -errno;
		at += n > 0 ? (uint64_t)n : 0;
	}
	if (fsync(l->cached) != 0)
		return -errno;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", l->cached);
	l->direct = open(path, O_RDONLY | O_CLOEXEC | O_DIRECT);
	return 0;
}

static int set_up(struct load *l)
{
	struct gm_bench *bench = l->bench;
	void *memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int ret;

	if (memory == MAP_FAILED)
		return -errno;
	madvise(memory, BYTES, MADV_HUGEPAGE);
	l->memory = memory;
	ret = fill_file(l);
	if (ret != 0) {
		fprintf(stderr,
			"bench: a file of 512 MiB in the working "
			"directory: %s\n",
			strerror(-ret));
		return ret;
	}
	ret = gpumap_buffer_register_file(bench->session, l->cached, 0,
					  &l->file);
	if (ret == 0)
		ret = gpumap_buffer_alloc(bench->session, bench->rows[0], BYTES,
					  0, GPUMAP_NO_DEADLINE, &l->buffer);
	return ret;
}

static void tear_down(struct load *l)
{
	gpumap_buffer_unregister(l->bench->session, l->file);
	gpumap_buffer_free(l->bench->session, l->buffer);
	if (l->direct >= 0)
		close(l->direct);
	if (l->cached >= 0)
		close(l->cached);
	if (l->memory != NULL)
		munmap(l->memory, BYTES);
}

/* ---- ---- jobs ---------------------------------------------------------- */

/* Load by jobs of @piece bytes, with @queued of them in flight. */
static int ours(const struct load *l, uint64_t piece, uint32_t queued,
		double *ret_ns)
{
	struct gpumap_session *s = l->bench->session;
	uint64_t from = gm_ticks(), at = 0, done_bytes = 0;
	uint32_t flying = 0;

	while (done_bytes < BYTES) {
		struct gpumap_done done;
		int ret = 0;

		for (; flying < queued && at < BYTES && ret == 0; flying++) {
			const struct gpumap_job job = {
				.op = GPUMAP_OP_LOAD,
				.n = piece,
				.dst_buffer = l->buffer,
				.dst_at = at,
				.src_buffer = l->file,
				.src_at = at,
			};

			ret = gpumap_submit(s, l->bench->rows[0], &job, 1);
			at += piece;
		}
		if (ret == 0)
			ret = gpumap_wait(s, &done, 1, GPUMAP_NO_DEADLINE);
		if (ret < 0)
			return ret;
		if (done.status != 0)
			return done.status;
		flying--;
		done_bytes += piece;
	}
	*ret_ns = (double)(gm_ticks() - from) * gm_ticks_ns();
	return 0;
}

/* ---- beside the others --------------------------------------------------- */

/* The best size and depth for the bare loop, each tried twice. */
static int sweep(struct load *l)
{
	static const uint32_t blocks[] = { 512u << 10, 1u << 20 };
	static const uint32_t depths[] = { 8, 16, 32 };
	double best = 0;

	for (int i = 0; i < SWEEPS * 6; i++) {
		struct gm_reads r = { .fd = l->direct,
				      .to = l->memory,
				      .bytes = BYTES,
				      .block = blocks[i % 2],
				      .depth = depths[i / 2 % 3] };
		double ns;
		int ret = gm_reads_ring(&r, &ns);

		if (ret != 0)
			return ret;
		if (best == 0 || ns < best) {
			best = ns;
			l->best = r;
		}
	}
	return 0;
}

/* Run one round of each way, over the same bytes.  GB/s are bytes in a
 * nanosecond. */
static int measure(struct load *l, struct gm_series *file,
		   struct gm_series *pieces, struct gm_series *plain)
{
	const struct gm_reads reads = {
		.fd = l->cached, .to = l->memory, .bytes = BYTES, .block = PLAIN
	};
	double whole, cut, bare = 0, read_ns;
	int ret = ours(l, BYTES, 1, &whole);

	if (ret == 0 && l->direct >= 0)
		ret = gm_reads_ring(&l->best, &bare);
	if (ret == 0)
		ret = ours(l, PIECE, QUEUED, &cut);
	if (ret == 0)
		ret = gm_reads_plain(&reads, &read_ns);
	if (ret != 0)
		return ret;
	if (l->direct >= 0) {
		gm_series_add(file, BYTES / whole, BYTES / bare);
		gm_series_add(pieces, BYTES / cut, BYTES / bare);
	}
	gm_series_add(plain, BYTES / whole, BYTES / read_ns);
	return 0;
}

static int run(struct load *l)
{
	struct gm_series file = { 0 }, pieces = { 0 }, plain = { 0 };
	struct gm_figure figure = { FILE_NAME, "GB/s", GM_AT_LEAST, 0.9 };
	char note[128] = "the file system has no reads past its cache";
	double ns;
	/* warm up: staging memory and first touches */
	int ret = ours(l, BYTES, 1, &ns);

	if (ret == 0 && l->direct >= 0)
		ret = sweep(l);
	for (uint32_t i = 0; ret == 0 && i < l->bench->rounds; i++)
		ret = measure(l, &file, &pieces, &plain);
	if (ret != 0)
		return ret;
	if (l->direct >= 0)
		snprintf(note, sizeof(note),
			 "against a bare io_uring, O_DIRECT, reads of %u KiB, "
			 "%u at once",
			 l->best.block >> 10, l->best.depth);
	gm_bench_print(l->bench, &figure, &file, note);
	figure.name = PIECE_NAME;
	gm_bench_print(l->bench, &figure, &pieces, note);
	figure.name = READ_NAME;
	figure.goal = 1;
	gm_bench_print(l->bench, &figure, &plain,
		       "against read(2) of 1 MiB, nothing cached");
	return 0;
}

int gm_bench_load(struct gm_bench *bench)
{
	struct load l = { .bench = bench, .direct = -1, .cached = -1 };
	int ret = set_up(&l);

	if (ret == 0)
		ret = run(&l);
	tear_down(&l);
	return ret == 0 ? GM_EXIT_OK : gm_bench_fail(bench, ret, "load");
}
