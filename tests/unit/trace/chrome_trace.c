/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* The file of a trace: jobs that overlap, that began before the recording, more
 * of them than there are lanes, and names that others chose. */

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "agent/trace/chrome_trace.h"
#include "tests/support/chrome_rules.h"
#include "tests/support/dice.h"

#define SINCE 1000000u
#define LANES 64 /* that a session has on a row, at most */

static char *text;
static size_t bytes;
static FILE *file;
static struct gm_chrome_trace *trace;

static void name_row(void *of, uint32_t row, char *ret_name, size_t room)
{
	snprintf(ret_name, room, "row %u: %s", row, (const char *)of);
}

static void name_session(void *of, uint64_t session, uint32_t uid,
			 char *ret_name, size_t room)
{
	snprintf(ret_name, room, "%d of %u: %s", (int)session, uid,
		 (const char *)of);
}

static void begin(void)
{
	file = open_memstream(&text, &bytes);
	trace = file != NULL ? gm_chrome_trace_begin(file, SINCE) : NULL;
	if (trace == NULL)
		exit(99);
}

static json_t *end(const char *name)
{
	const struct gm_chrome_names names = { name_row, name_session,
					       (void *)(uintptr_t)name };
	const struct gm_chrome_totals totals = { .jobs = 7, .lost = 3 };
	json_error_t error;
	json_t *json;

	gm_chrome_trace_end(trace, &names, &totals);
	fclose(file);
	json = json_loads(text, 0, &error);
	if (!OK(json != NULL))
		NOTE("%s at %d", error.text, error.position);
	free(text);
	return json;
}

static void put(uint32_t row, uint64_t session, uint64_t from, uint64_t to)
{
	struct gpumap_trace_job job = { .session = session,
					.row = row,
					.uid = 5,
					.op = GPUMAP_OP_FILL,
					.dtype = GPUMAP_DTYPE_F32,
					.n = 10,
					.read_ns = SINCE + from,
					.started_ns = SINCE + from,
					.ended_ns = SINCE + to };

	EQ(gm_chrome_trace_job(trace, &job, "fill", "f32"), 0);
}

static const json_t *event(const json_t *json, size_t i)
{
	return json_array_get(json_object_get(json, "traceEvents"), i);
}

static void an_empty_one_is_whole(void)
{
	json_t *json;

	begin();
	json = end("");
	EQ(chrome_check(json), 0);
	STR(json_string_value(json_object_get(
		    json_object_get(json, "otherData"), "lost")),
	    "3");
	json_decref(json);
}

static void times_are_exact(void)
{
	struct gpumap_trace_job job = { .row = 2,
					.session = 4,
					.op = GPUMAP_OP_LOAD,
					.n = UINT64_C(1) << 40,
					.status = -5,
					.read_ns = SINCE + 1,
					.started_ns = SINCE + 1234567,
					.ended_ns = SINCE + 2234569 };
	const json_t *args;
	json_t *json;

	begin();
	EQ(gm_chrome_trace_job(trace, &job, "load", "u8"), 0);
	json = end("h");
	EQ(chrome_check(json), 1);
	OK(chrome_slices[0].ts == 1234.567);
	OK(chrome_number(event(json, 0), "dur") == 1000.002);
	OK(chrome_slices[0].pid == 3);
	STR(json_string_value(json_object_get(event(json, 0), "name")), "load");
	args = json_object_get(event(json, 0), "args");
	OK(chrome_number(args, "elements") == (double)(UINT64_C(1) << 40));
	EQ(json_integer_value(json_object_get(args, "status")), -5);
	EQ(json_integer_value(json_object_get(args, "wait_ns")), 1234566);
	json_decref(json);
	/* Times that cannot be are none. */
	job.read_ns = job.started_ns + 1;
	begin();
	EQ(gm_chrome_trace_job(trace, &job, "fill", "u8"), 0);
	json = end("h");
	EQ(json_integer_value(json_object_get(
		   json_object_get(event(json, 0), "args"), "wait_ns")),
	   0);
	json_decref(json);
}

static void one_that_began_before_is_cut(void)
{
	struct gpumap_trace_job job = { .read_ns = 1,
					.started_ns = 2,
					.ended_ns = SINCE + 500 };
	json_t *json;

	begin();
	EQ(gm_chrome_trace_job(trace, &job, "fill", "u8"), 0);
	job.ended_ns = SINCE - 1;
	EQ(gm_chrome_trace_job(trace, &job, "fill", "u8"), 0);
	json = end("h");
	EQ(chrome_check(json), 2);
	OK(chrome_slices[0].ts == 0 && chrome_slices[1].ts == 0);
	OK(chrome_slices[0].end == 0.5 && chrome_slices[1].end == 0);
	json_decref(json);
}

/* Jobs of a session end in order, whenever they begin: as on a card. */
static void overlapping_jobs_get_lanes(void)
{
	uint64_t ended[4] = { 0 };
	json_t *json;

	begin();
	for (int i = 0; i < 4000; i++) {
		uint32_t k = (uint32_t)dice(4);
		uint64_t from = ended[k] > 600 ? ended[k] - 600 : 0;

		from += dice(900);
		ended[k] = (from > ended[k] ? from : ended[k]) + 1 + dice(300);
		put(k / 2, k % 2, from, ended[k]);
	}
	json = end("h");
	EQ(chrome_check(json), 4000);
	json_decref(json);
}

/* The thread of the job that was written as the @i-th. */
static intmax_t lane(const json_t *json, size_t i)
{
	return (intmax_t)chrome_number(event(json, i), "tid");
}

static void jobs_one_after_another_share_a_lane(void)
{
	json_t *json;

	begin();
	put(0, 1, 0, 10);
	put(0, 1, 10, 20);
	put(0, 1, 19, 30);
	json = end("h");
	EQ(chrome_check(json), 3);
	EQ(lane(json, 1), lane(json, 0));
	OK(lane(json, 2) != lane(json, 0));
	json_decref(json);
}

/* Those for which there is no lane are in the last. */
static void no_more_lanes_than_there_are(void)
{
	json_t *json;

	begin();
	for (uint32_t i = 0; i < LANES + 9; i++)
		put(0, 1, i, 1000 + i);
	put(1, 1, 0, 1);
	json = end("h");
	EQ(chrome_read(json_object_get(json, "traceEvents")), 0);
	EQ(lane(json, LANES - 1), lane(json, 0) + LANES - 1);
	for (uint32_t i = LANES; i < LANES + 9; i++)
		EQ(lane(json, i), lane(json, LANES - 1));
	EQ(lane(json, LANES + 9), lane(json, 0) + LANES);
	json_decref(json);
}

static void names_are_made_harmless(void)
{
	json_t *json;

	begin();
	put(0, 1, 0, 1);
	json = end("\"\\\n\033[2J\xff");
	EQ(chrome_check(json), 1);
	STR(json_string_value(json_object_get(
		    json_object_get(event(json, 1), "args"), "name")),
	    "row 0: \"\\??[2J?");
	json_decref(json);
}

TAP_CASE()
{
	an_empty_one_is_whole();
	times_are_exact();
	one_that_began_before_is_cut();
	overlapping_jobs_get_lanes();
	jobs_one_after_another_share_a_lane();
	no_more_lanes_than_there_are();
	names_are_made_harmless();
	return tap_done();
}
