/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * The ring of a trace: a reader that comes at any store of the writer, a writer
 * that dies there, and readers that are too slow.  No record is torn, and each
 * is read or counted as lost.
 */

#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/tap.h"

/* The writer's instants: the real code is compiled in here. */
#define GM_POINT_H
#define GM_POINT(name) writer_step(name)

static jmp_buf death;
static int steps_to_live;
static void (*meanwhile)(void);

static void writer_step(const char *name)
{
	if (strcmp(name, "trace_word") != 0)
		exit(99);
	if (meanwhile)
		meanwhile();
	if (steps_to_live > 0 && --steps_to_live == 0)
		longjmp(death, 1);
}

#include "shm/trace.c"

static struct gm_trace *ring;
static uint64_t written; /* records that the writer has finished */

/* The reader. */
static uint64_t pos, taken, lost, torn, disorder, last;

static void begin(void)
{
	memset((void *)ring, 0, GM_TRACE_BYTES);
	written = pos = taken = lost = torn = disorder = last = 0;
	steps_to_live = 0;
	meanwhile = NULL;
}

/* A record whose every word is made of its number, from 1. */
static struct gm_trace_record record_of(uint64_t number)
{
	return (struct gm_trace_record){ .session = number,
					 .read_ns = number * 3,
					 .started_ns = number * 5,
					 .ended_ns = number * 7,
					 .n = number * 11,
					 .uid = (uint32_t)number,
					 .status = -(int32_t)number,
					 .op = (uint8_t)number,
					 .dtype = (uint8_t)(number >> 8) };
}

static void put(uint64_t number)
{
	struct gm_trace_record record = record_of(number);

	gm_trace_put(ring, &record);
	written = number;
}

static void read_up_to(uint32_t n)
{
	struct gm_trace_record records[64], whole;
	uint64_t gone;
	uint32_t got = gm_trace_get(ring, &pos, records, n, &gone);

	lost += gone;
	taken += got;
	for (uint32_t i = 0; i < got; i++) {
		whole = record_of(records[i].session);
		torn += memcmp(&records[i], &whole, sizeof(whole)) != 0;
		disorder += records[i].session <= last;
		last = records[i].session;
	}
}

static void read_some(void)
{
	read_up_to(64);
}

static void read_one_now_and_then(void)
{
	static int calls;

	if (++calls % 61 == 0)
		read_up_to(1);
}

/* Let the reader catch up, and compare the sums. */
static void all_is_accounted_for(void)
{
	meanwhile = NULL;
	while (pos < written)
		read_some();
	EQ(pos, written);
	EQ(taken + lost, written);
	EQ(torn, 0);
	EQ(disorder, 0);
	EQ(last, written);
}

static void an_empty_ring_gives_nothing(void)
{
	begin();
	read_some();
	EQ(taken, 0);
	EQ(lost, 0);
}

static void a_reader_in_time_loses_nothing(void)
{
	begin();
	for (uint64_t i = 1; i <= 3 * GM_TRACE_RECORDS; i++) {
		put(i);
		if (i % 64 == 0)
			read_some();
	}
	all_is_accounted_for();
	EQ(lost, 0);
}

/* The reader begins when the ring has gone round. */
static void a_late_reader_counts_what_it_lost(void)
{
	begin();
	for (uint64_t i = 1; i <= 2 * GM_TRACE_RECORDS + 5; i++)
		put(i);
	read_some();
	OK(lost >= GM_TRACE_RECORDS + 5);
	OK(lost < 2 * GM_TRACE_RECORDS);
	all_is_accounted_for();
}

/* The reader takes one record of about eight that are written, at any store of
 * the writer, which passes it again and again. */
static void a_slow_reader_gets_no_torn_record(void)
{
	begin();
	for (uint64_t i = 1; i <= GM_TRACE_RECORDS; i++)
		put(i);
	meanwhile = read_one_now_and_then;
	pos = 1; /* the next record to be overwritten, nearly */
	taken = 1;
	for (uint64_t i = 1; i <= 2 * GM_TRACE_RECORDS; i++)
		put(GM_TRACE_RECORDS + i);
	all_is_accounted_for();
	OK(lost > 0);
}

/* The reader takes the record that the writer has begun to overwrite. */
static void read_first_once(void)
{
	meanwhile = NULL;
	pos = 0;
	read_up_to(1);
}

static void a_record_that_is_begun_anew_is_lost(void)
{
	begin();
	for (uint64_t i = 1; i <= GM_TRACE_RECORDS; i++)
		put(i);
	meanwhile = read_first_once;
	put(GM_TRACE_RECORDS + 1);
	EQ(torn, 0);
	EQ(taken, 1);
	EQ(lost, GM_TRACE_RECORDS / 2 + 1);
	all_is_accounted_for();
}

static void die_at(int step, uint64_t number)
{
	steps_to_live = step;
	if (setjmp(death) == 0) {
		put(number);
		OK(!"the writer outlived its death");
	}
	steps_to_live = 0;
}

/* The next worker writes the record that the dead one had begun. */
static void a_writer_may_die_at_each_store(void)
{
	begin();
	meanwhile = read_some;
	for (uint32_t step = 1; step <= GM_TRACE_WORDS; step++) {
		die_at((int)step, step);
		put(step);
	}
	all_is_accounted_for();
	EQ(taken, GM_TRACE_WORDS);
	EQ(lost, 0);
}

TAP_CASE()
{
	ring = aligned_alloc(4096, GM_TRACE_BYTES);
	if (ring == NULL)
		exit(99);
	an_empty_ring_gives_nothing();
	a_reader_in_time_loses_nothing();
	a_late_reader_counts_what_it_lost();
	a_slow_reader_gets_no_torn_record();
	a_record_that_is_begun_anew_is_lost();
	a_writer_may_die_at_each_store();
	free(ring);
	return tap_done();
}
