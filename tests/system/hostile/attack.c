/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "tests/system/hostile/attack.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* A Weyl sequence with its bits mixed.  Every seed will do, zero included. */
uint64_t hostile_random(struct hostile *h)
{
	uint64_t z = h->random += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ z >> 32) * UINT64_C(0xd6e8feb86659fd93);
	z = (z ^ z >> 32) * UINT64_C(0xd6e8feb86659fd93);
	return z ^ z >> 32;
}

uint64_t hostile_below(struct hostile *h, uint64_t n)
{
	return hostile_random(h) % n;
}

bool hostile_goes_on(const struct hostile *h)
{
	uint64_t now = raw_now();

	/* On a busy machine the time may be over before the attack begins. */
	return now < h->until_ns ||
	       (h->score->rounds == 0 && now < h->until_ns + RAW_PATIENCE_NS);
}

void hostile_round(struct hostile *h)
{
	h->score->rounds++;
}

void hostile_lapse(struct hostile *h, const char *format, ...)
{
	va_list args;

	if (h->score->lapses++ != 0)
		return;
	va_start(args, format);
	vsnprintf(h->score->lapse, sizeof(h->score->lapse), format, args);
	va_end(args);
}

struct raw_queue *hostile_session(struct hostile *h, struct raw *c,
				  uint32_t depth, uint32_t flags,
				  uint64_t range_bytes)
{
	while (hostile_goes_on(h)) {
		uint32_t row = (uint32_t)hostile_below(h, h->n_rows);
		int error = raw_open(c, h->path);

		if (error == 0)
			error = raw_session(c, depth, flags, range_bytes);
		if (error == 0)
			error = raw_queue(c, row);
		if (error == 0)
			return &c->row[row];
		raw_close(c);
		raw_nap(200000);
	}
	return NULL;
}

void hostile_must_end(struct hostile *h, struct raw *c, const char *what)
{
	if (raw_wait_over(c))
		h->score->ended++;
	else
		hostile_lapse(h, "the session goes on after %s", what);
	raw_close(c);
}

uint32_t hostile_take_all(struct raw_queue *q)
{
	uint32_t n = 0, position;
	int32_t status;

	while (raw_take(q, &position, &status))
		n++;
	return n;
}

uint32_t hostile_credit(const struct raw_queue *q)
{
	return q->entries.mask + 1 - (q->entries.pos - q->done.pos);
}

/* ---- threads ----------------------------------------------------------- */

struct hostile_thread {
	pthread_t thread;
	_Atomic bool stops;
	void (*step)(void *arg);
	void *arg;
};

static void *again_and_again(void *arg)
{
	struct hostile_thread *t = arg;

	while (!t->stops)
		t->step(t->arg);
	return NULL;
}

struct hostile_thread *hostile_beside(void (*step)(void *arg), void *arg)
{
	struct hostile_thread *t = calloc(1, sizeof(*t));

	if (!t)
		_exit(99);
	t->step = step;
	t->arg = arg;
	if (pthread_create(&t->thread, NULL, again_and_again, t) != 0)
		_exit(99);
	return t;
}

void hostile_stop(struct hostile_thread *thread)
{
	thread->stops = true;
	pthread_join(thread->thread, NULL);
	free(thread);
}
