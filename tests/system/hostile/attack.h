/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * hostile - clients that want harm: each attack is a function that goes on
 * until its time is over, in a process of its own.
 *
 * What an attack does comes from its seed alone; what it meets is another
 * matter, for it races.  It counts what it did, so that an attack that never
 * took place is seen, and what should never have been possible.
 */
#ifndef GM_TEST_SYSTEM_HOSTILE_ATTACK_H
#define GM_TEST_SYSTEM_HOSTILE_ATTACK_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "tests/support/raw.h"

/* Shared with the test that started it. */
struct hostile_score {
	_Atomic uint64_t rounds; /* of the attack */
	_Atomic uint64_t ended;  /* sessions or connections that were ended */
	_Atomic uint64_t lapses; /* what must not be possible, and was */
	char lapse[160];         /* the first of them */
};

struct hostile {
	const char *path; /* of the control socket */
	uint32_t n_rows;
	uint64_t random; /* state */
	uint64_t until_ns;
	struct hostile_score *score;
};

struct hostile_attack {
	const char *name;
	void (*run)(struct hostile *h);
	uint32_t n_threads; /* of its own that hardly ever sleep */
};

/* To a NULL name. */
extern const struct hostile_attack hostile_entries[];
extern const struct hostile_attack hostile_memory[];
extern const struct hostile_attack hostile_records[];
extern const struct hostile_attack hostile_clients[];
extern const struct hostile_attack hostile_buffers[];

uint64_t hostile_random(struct hostile *h);

/* 0 to n - 1. */
uint64_t hostile_below(struct hostile *h, uint64_t n);

/* Is there time left, or was there no round yet? */
bool hostile_goes_on(const struct hostile *h);

void hostile_round(struct hostile *h);

/* Note what must not be, in words. */
void hostile_lapse(struct hostile *h, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/*
 * A session with the queue of a random row, as often as it takes, as long as
 * there is time: other attacks may have taken all there are.
 *
 * Returns the queue, or NULL when the time is over.
 */
struct raw_queue *hostile_session(struct hostile *h, struct raw *c,
				  uint32_t depth, uint32_t flags,
				  uint64_t range_bytes);

/* The session's end must come; count it, and close. */
void hostile_must_end(struct hostile *h, struct raw *c, const char *what);

/* Take every completion; returns how many there were. */
uint32_t hostile_take_all(struct raw_queue *q);

/* Entries that fit beside those whose completions were not taken. */
uint32_t hostile_credit(const struct raw_queue *q);

/* A thread that runs until it is told to stop: call @step again and again. */
struct hostile_thread;
struct hostile_thread *hostile_beside(void (*step)(void *arg), void *arg);
void hostile_stop(struct hostile_thread *thread);

#endif
