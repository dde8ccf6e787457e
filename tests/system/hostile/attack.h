/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * hostile - clients that try to do harm: each attack is a function that runs in
 * a process of its own until its time is over.
 *
 * An attack's choices come from its seed alone.  Their effects differ from run
 * to run, for the attack races with the agent.  An attack counts its rounds, so
 * that an attack that never took place is noticed, and its lapses: effects that
 * should never be possible.
 */
#ifndef GM_TEST_SYSTEM_HOSTILE_ATTACK_H
#define GM_TEST_SYSTEM_HOSTILE_ATTACK_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "tests/support/raw.h"

/* Shared with the test that started the attack. */
struct hostile_score {
	_Atomic uint64_t rounds; /* of the attack */
	_Atomic uint64_t ended;  /* sessions or connections that were ended */
	_Atomic uint64_t
		lapses;  /* effects that must not be possible, and occurred */
	char lapse[160]; /* describes the first lapse */
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
	uint32_t n_threads; /* of the attack, that hardly ever sleep */
};

/* The tables end with a NULL name. */
extern const struct hostile_attack hostile_entries[];
extern const struct hostile_attack hostile_memory[];
extern const struct hostile_attack hostile_records[];
extern const struct hostile_attack hostile_clients[];
extern const struct hostile_attack hostile_buffers[];

uint64_t hostile_random(struct hostile *h);

/* A random number from 0 to n - 1. */
uint64_t hostile_below(struct hostile *h, uint64_t n);

/* Returns true while there is time left, and before the first round. */
bool hostile_goes_on(const struct hostile *h);

void hostile_round(struct hostile *h);

/* Note a lapse, with a description. */
void hostile_lapse(struct hostile *h, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/*
 * Open a session with the queue of a random row.  Retry while there is time,
 * for other attacks may have taken all sessions there are.
 *
 * Returns the queue, or NULL when the time is over.
 */
struct raw_queue *hostile_session(struct hostile *h, struct raw *c,
				  uint32_t depth, uint32_t flags,
				  uint64_t range_bytes);

/* Wait for the session's end, which must come; count it, and close. */
void hostile_must_end(struct hostile *h, struct raw *c, const char *what);

/* Take every completion.  Returns how many there were. */
uint32_t hostile_take_all(struct raw_queue *q);

/* Returns how many entries fit into the ring beside those whose completions
 * were not taken. */
uint32_t hostile_credit(const struct raw_queue *q);

/* Start a thread that calls @step again and again until hostile_stop(). */
struct hostile_thread;
struct hostile_thread *hostile_beside(void (*step)(void *arg), void *arg);
void hostile_stop(struct hostile_thread *thread);

#endif
