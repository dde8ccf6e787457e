/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * A hundred reader processes beside a writer that republishes flat out: no
 * whole-object copy may be torn.  Every word of a map's arrays follows from its
 * version, so each copy carries its own checksum.
 *
 *	GM_ROUNDS	half a million accepted copies each (default 4; the 200
 *			of make check-torture are 10^8)
 *	GM_READERS	processes (default 100)
 */

#include <errno.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <signal.h>
#include <unistd.h>

#include "tests/support/segment.h"
#include "tests/support/tap.h"

#define LAYERS 80

/* The readers' results for the parent. */
struct report {
	gm_a64 whole;
	gm_a64 torn;
	gm_a64 retries;
	gm_a64 failed;
	gm_a32 stop;
};

static struct report *report;

static uint64_t number(const char *name, uint64_t otherwise)
{
	const char *text = getenv(name);

	return text != NULL ? strtoull(text, NULL, 10) : otherwise;
}

static void fill(uint64_t version, uint32_t rows[LAYERS],
		 uint64_t bytes[LAYERS])
{
	for (uint32_t i = 0; i < LAYERS; i++) {
		rows[i] = (uint32_t)(version * 31 + i) & 0xff;
		bytes[i] = version * 0x9e3779b97f4a7c15 + i;
	}
}

static void write_flat_out(struct segment *segment)
{
	struct gm_charge_image charge = { .n_layers = LAYERS };
	uint64_t bytes[LAYERS], version;
	uint32_t rows[LAYERS];
	struct gm_layers layers = { .name = "busy",
				    .spec = "80",
				    .n_layers = LAYERS,
				    .n_rows = 1,
				    .rows = rows,
				    .bytes = bytes,
				    .charges = &charge };

	while (gm_get(&report->stop) == 0) {
		version = gm_seq_version(gm_get(&segment->map.objects[0].slot));
		fill(version + 1, rows, bytes);
		segment_layers(segment, 0, &layers);
	}
}

/* One whole copy; returns 1, 0 when it was raced, or a negative errno. */
static int read_once(const struct gm_map *map, uint64_t *ret_torn)
{
	uint64_t bytes[LAYERS], want_bytes[LAYERS];
	uint32_t rows[LAYERS], want_rows[LAYERS];
	struct gm_layers_image image;
	struct gm_object object;
	int ret;

	ret = gm_object_open(map, &map->objects[0].slot, &object);
	if (ret == 0)
		ret = gm_layers_image(&object, &image);
	if (ret != 0)
		return ret == -EAGAIN ? 0 : ret;
	if (gm_object_read(&object, image.rows_at, rows, sizeof(rows)) != 0 ||
	    gm_object_read(&object, image.bytes_at, bytes, sizeof(bytes)) != 0)
		return -EPROTO;
	if (!gm_object_whole(&object))
		return 0;
	fill(image.object.version, want_rows, want_bytes);
	*ret_torn += memcmp(rows, want_rows, sizeof(rows)) != 0 ||
		     memcmp(bytes, want_bytes, sizeof(bytes)) != 0 ||
		     image.object.version != gm_seq_version(object.word);
	return 1;
}

static void read_many(const struct gm_map *map, uint64_t want)
{
	uint64_t whole = 0, torn = 0, retries = 0, failed = 0;

	while (whole < want && failed == 0) {
		int ret = read_once(map, &torn);

		whole += ret == 1;
		retries += ret == 0;
		failed += ret < 0;
	}
	gm_add_ordered(&report->whole, whole);     /* TORTURE.sum */
	gm_add_ordered(&report->torn, torn);       /* TORTURE.sum */
	gm_add_ordered(&report->retries, retries); /* TORTURE.sum */
	gm_add_ordered(&report->failed, failed);   /* TORTURE.sum */
}

static pid_t child(void (*body)(void *), void *arg)
{
	pid_t pid = fork();

	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		body(arg);
		_exit(0);
	}
	return pid;
}

static struct segment segment;
static uint64_t share;

static void writer_body(void *unused)
{
	(void)unused;
	write_flat_out(&segment);
}

static void reader_body(void *unused)
{
	(void)unused;
	read_many(&segment.map, share);
}

TAP_CASE()
{
	uint64_t reads = 500000 * number("GM_ROUNDS", 4);
	uint64_t readers = number("GM_READERS", 100);
	void *memory = mmap(NULL, SEGMENT_BYTES, PROT_READ | PROT_WRITE,
			    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t writer, pid;
	int bad = 0, status;

	report = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED || report == MAP_FAILED || readers == 0)
		return 1;
	EQ(segment_make(memory, 4096, &segment), 0);
	share = (reads + readers - 1) / readers;

	writer = child(writer_body, NULL);
	while (gm_seq_unit(gm_seq_open(&segment.map.objects[0].slot)) == 0)
		gm_pause();
	for (uint64_t i = 0; i < readers; i++)
		if (child(reader_body, NULL) < 0)
			bad++;
	while ((pid = wait(&status)) > 0) {
		if (pid == writer)
			bad++;
		bad += status != 0;
		if (--readers == 0)
			break;
	}
	gm_put(&report->stop, 1);
	waitpid(writer, &status, 0);

	NOTE("%" PRIu64 " copies, %" PRIu64 " retries, %" PRIu64 " versions",
	     gm_get(&report->whole), gm_get(&report->retries),
	     gm_seq_version(gm_get(&segment.map.objects[0].slot)));
	EQ(bad, 0);
	EQ(gm_get(&report->failed), 0);
	OK(gm_get(&report->whole) >= reads);
	EQ(gm_get(&report->torn), 0);
	return tap_done();
}
