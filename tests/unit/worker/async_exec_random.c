/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* flight: whatever sessions ask for, and however late a device is, it comes to
 * what it would have come to at once. */

#include "tests/support/worker/async_rig.h"
#include "tests/support/dice.h"

static struct rig r;

#define CROWD  3u
#define OWN    3u /* buffers of each */
#define EACH   (16 * KIB)
#define ROUNDS 400u
#define DEPTH  32u

/* One session, and what its memory has to be: every entry is done at once in
 * the copy, so what the device does late has to come to the same. */
struct member {
	struct hand_client c;
	struct gm_worker_session *s;
	char *copy; /* the arena, and behind it its buffers */
	uint32_t submitted, taken;
	uint32_t wrong;
};

static struct member crowd[CROWD];

/* A place of @bytes in the arena or in a buffer; which, and where in the
 * copy. */
static char *somewhere(struct member *m, uint64_t bytes, uint64_t *ret_buffer,
		       uint64_t *ret_at)
{
	uint64_t in = dice(OWN + 1);

	*ret_buffer = in ? hand_handle(ROW, (uint32_t)in) : 0;
	*ret_at = dice(EACH - bytes + 1);
	return m->copy + in * EACH + *ret_at;
}

static struct gm_entry anything(struct member *m)
{
	uint64_t n = 1 + dice(dice(4) ? 200 : EACH / 2), from, at;
	struct gm_entry e = hand_copy(&m->c, 0, 0, n);
	char *dst = somewhere(m, n, &e.dst_buffer, &e.dst), *src;

	if (dice(4) == 0)
		return hand_nop(&m->c);
	if (dice(3) == 0) {
		e.op = GPUMAP_OP_FILL;
		e.value = dice(256);
		memset(dst, (int)e.value, n);
		return e;
	}
	do {
		src = somewhere(m, n, &from, &at);
	} while (src < dst + n && dst < src + n);
	e.src_buffer = from;
	e.src = at;
	memcpy(dst, src, n);
	return e;
}

static void take(struct member *m)
{
	uint32_t pos;
	int32_t status;

	while (hand_take(&m->c, &pos, &status)) {
		m->wrong += pos != m->taken || status != 0;
		m->taken++;
	}
}

static void submit_some(struct member *m)
{
	uint64_t n = dice(DEPTH - (m->submitted - m->taken) + 1);

	for (; n > 0; n--) {
		struct gm_entry e = anything(m);

		hand_submit(&m->c, &e, 1);
		m->submitted++;
	}
}

static void join(struct member *m, uint32_t i)
{
	struct gm_entry e[OWN];

	memset(m, 0, sizeof(*m));
	hand_open(&m->c, i + 1, i, ROW, DEPTH, EACH);
	m->s = rig_attach(&r, &m->c);
	m->copy = calloc(OWN + 1, EACH);
	for (uint32_t k = 0; k < OWN; k++)
		e[k] = hand_alloc(&m->c, hand_handle(ROW, k + 1), EACH, 0);
	hand_submit(&m->c, e, OWN);
	m->submitted = OWN;
	rig_serve(&r, m->s);
	for (uint32_t k = 0; k < OWN; k++) {
		e[k] = hand_copy_between(&m->c, hand_handle(ROW, k + 1), 0, 0,
					 0, EACH);
		hand_submit(&m->c, &e[k], 1);
		m->submitted++;
	}
}

static void settle(struct member *m)
{
	for (uint32_t i = 0; i < 1000 && m->taken != m->submitted; i++) {
		rig_serve(&r, m->s);
		late_land_all(&r.late);
		rig_serve(&r, m->s);
		take(m);
	}
}

static uint32_t leave(struct member *m)
{
	settle(m);
	m->wrong += m->taken != m->submitted;
	for (uint32_t k = 0; k <= OWN; k++) {
		struct gm_entry e = hand_copy_between(
			&m->c, 0, 0, hand_handle(ROW, k), 0, EACH);

		if (k) {
			hand_submit(&m->c, &e, 1);
			m->submitted++;
			settle(m);
		}
		m->wrong += memcmp(m->c.memory, m->copy + k * EACH, EACH) != 0;
	}
	free(m->copy);
	rig_end(&r, &m->c, m->s);
	return m->wrong;
}

/* One of the last that were started: most of them are under way. */
static uint64_t recent(void)
{
	uint64_t last = r.late.n_started;

	return last - dice(last < 6 ? last : 6);
}

static void whatever_comes_ends_as_it_would_at_once(void)
{
	uint32_t wrong = 0;

	rig_open(&r, 4 * KIB, 3);
	r.late.room = 6;
	for (uint32_t i = 0; i < CROWD; i++)
		join(&crowd[i], i);
	for (uint32_t round = 0; round < ROUNDS; round++) {
		struct member *m = &crowd[dice(CROWD)];

		if (r.late.n_started < LATE_SLICES / 2)
			submit_some(m);
		rig_serve(&r, m->s);
		for (uint64_t n = r.late.n_started ? dice(4) : 0; n > 0; n--)
			late_land(&r.late, recent());
		if (r.w.n_in_flight >= 6)
			late_land_all(&r.late);
		rig_serve(&r, crowd[dice(CROWD)].s);
		take(m);
	}
	for (uint32_t i = 0; i < CROWD; i++)
		wrong += leave(&crowd[i]);
	EQ(wrong, 0);
	OK(r.late.n_started > 500);
	OK(r.late.most <= 6);
	EQ(r.w.n_in_flight, 0);
	EQ(r.late.n_buffers, 0);
	NOTE("%u slices", (unsigned)r.late.n_started);
	rig_close(&r);
}

TAP_CASE()
{
	EQ(gm_sigbus_init(), 0);
	whatever_comes_ends_as_it_would_at_once();
	return tap_done();
}
