/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Records of the jobs of rows.
 *
 * A connection of its own asks the agent for each row's memory.  The recording
 * ends with the connection.
 */

#include "lib/internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "shm/trace.h"

#define TAKEN_AT_ONCE 64u

struct traced_row {
	const struct gm_trace *ring;
	uint64_t pos;
	uint32_t row;
};

struct gpumap_trace {
	struct gpumap *map;
	struct gm_link link;
	uint32_t n;
	uint32_t next; /* the row to read next */
	struct traced_row rows[];
};

static int map_ring(struct traced_row *row, int fd)
{
	struct stat stat;
	void *at;

	if (fstat(fd, &stat) != 0)
		return -errno;
	if (stat.st_size < (off_t)GM_TRACE_BYTES)
		return -EPROTO;
	at = mmap(NULL, GM_TRACE_BYTES, PROT_READ, MAP_SHARED, fd, 0);
	if (at == MAP_FAILED)
		return -errno;
	row->ring = at;
	return 0;
}

static int add_row(struct gpumap_trace *trace, uint32_t number)
{
	struct traced_row *row = &trace->rows[trace->n];
	struct gm_trace_ask body = { .row = number };
	struct gm_call call = { GM_REQUEST(GM_CONTROL_TRACE, body) };
	int ret = gm_link_call(trace->map, &trace->link, &call, 1);

	if (ret == -EPIPE)
		ret = -ECONNRESET;
	if (ret == 0 && call.n_fds != 1)
		ret = -EPROTO;
	if (ret == 0)
		ret = map_ring(row, call.fds[0]);
	gm_call_close_fds(&call);
	if (ret != 0)
		return gm_refuse_call(trace->map, ret, &call);
	row->row = number;
	trace->n++;
	return 0;
}

/* Those without a worker are left out. */
static int add_all(struct gpumap_trace *trace)
{
	uint32_t n = gpumap_device_count(trace->map);

	for (uint32_t row = 0; row < n; row++) {
		int ret = add_row(trace, row);

		if (ret != 0 && ret != -ENODEV)
			return ret;
	}
	return trace->n != 0 ? 0 : -ENODEV;
}

int gpumap_trace_open(struct gpumap *map, const uint32_t *rows, uint32_t n,
		      struct gpumap_trace **ret_trace)
{
	uint32_t room = rows != NULL ? n : GPUMAP_ROWS_MAX;
	int ret = gm_map_begin(map);
	struct gpumap_trace *trace;
	char why[GM_WHY] = "";

	if (ret != 0)
		return ret;
	if ((rows == NULL) != (n == 0) || n > GPUMAP_ROWS_MAX)
		return gm_refuse(map, -EINVAL,
				 "%u rows: name up to %d, or none with NULL", n,
				 GPUMAP_ROWS_MAX);
	trace = calloc(1, sizeof(*trace) + room * sizeof(trace->rows[0]));
	if (trace == NULL)
		return gm_refuse_memory(map, sizeof(*trace));
	trace->map = map;
	ret = gm_link_open(map, &trace->link, why);
	if (ret != 0)
		gm_map_refuse(map, why);
	else if (rows == NULL)
		ret = add_all(trace);
	for (uint32_t i = 0; ret == 0 && i < n; i++)
		ret = add_row(trace, rows[i]);
	if (ret != 0) {
		gpumap_trace_close(trace);
		return ret;
	}
	*ret_trace = trace;
	return 0;
}

static void put_job(const struct gpumap_trace *trace,
		    const struct traced_row *row,
		    const struct gm_trace_record *record,
		    struct gpumap_trace_job *ret_job)
{
	uint64_t offset = gm_get(&trace->map->clock_offset);

	*ret_job = (struct gpumap_trace_job){
		.session = record->session,
		.read_ns = record->read_ns + offset,
		.started_ns = record->started_ns + offset,
		.ended_ns = record->ended_ns + offset,
		.n = record->n,
		.row = row->row,
		.uid = record->uid,
		.status = record->status,
		.op = record->op,
		.dtype = record->dtype,
	};
}

static uint32_t read_row(const struct gpumap_trace *trace,
			 struct traced_row *row,
			 struct gpumap_trace_job *ret_jobs, uint32_t n,
			 uint64_t *lost)
{
	struct gm_trace_record records[TAKEN_AT_ONCE];
	uint32_t taken = 0, got;

	do {
		uint32_t room = n - taken;
		uint64_t gone;

		got = gm_trace_get(row->ring, &row->pos, records,
				   room < TAKEN_AT_ONCE ? room : TAKEN_AT_ONCE,
				   &gone);
		for (uint32_t i = 0; i < got; i++)
			put_job(trace, row, &records[i], &ret_jobs[taken + i]);
		taken += got;
		*lost += gone;
	} while (got == TAKEN_AT_ONCE && taken < n);
	return taken;
}

/* Each pass begins with another row, so that none waits for others. */
static uint32_t read_rows(struct gpumap_trace *trace,
			  struct gpumap_trace_job *ret_jobs, uint32_t n,
			  uint64_t *lost)
{
	uint32_t taken = 0;

	for (uint32_t i = 0; i < trace->n && taken < n; i++)
		taken += read_row(trace,
				  &trace->rows[(trace->next + i) % trace->n],
				  ret_jobs + taken, n - taken, lost);
	trace->next = (trace->next + 1) % trace->n;
	return taken;
}

int gpumap_trace_read(struct gpumap_trace *trace,
		      struct gpumap_trace_job *ret_jobs, uint32_t n,
		      uint64_t *ret_lost)
{
	uint64_t lost = 0;
	uint32_t taken = read_rows(trace, ret_jobs, n, &lost);
	bool over = taken == 0 && n > 0 && gm_link_lost(&trace->link);

	/* Records that came before the end of the agent are not lost. */
	if (over)
		taken = read_rows(trace, ret_jobs, n, &lost);
	if (ret_lost != NULL)
		*ret_lost = lost;
	return over && taken == 0 ? -ECONNRESET : (int)taken;
}

void gpumap_trace_close(struct gpumap_trace *trace)
{
	if (trace == NULL)
		return;
	for (uint32_t i = 0; i < trace->n; i++)
		munmap((void *)(uintptr_t)trace->rows[i].ring, GM_TRACE_BYTES);
	gm_link_close(&trace->link);
	gm_link_forget(&trace->link);
	free(trace);
}
