/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* Attacks through the contents of entries. */

#include "tests/system/hostile/attack.h"

#include <errno.h>
#include <string.h>

#include "gpumap.h"

#define DEPTH 64u
#define RANGE (UINT64_C(1) << 20)

/* ---- reserved bits, unknown operations --------------------------------- */

/* Set one bit or field that no library sets.  Returns its name. */
static const char *break_contract(struct hostile *h, struct gm_entry *entry)
{
	uint64_t pick = hostile_below(h, 8 + 8 + 32 + 64);

	if (pick < 8) {
		/* A client may set CANCELLED: add a flag that it may not. */
		entry->flags = (uint8_t)(1u << pick);
		if (entry->flags == GM_ENTRY_CANCELLED)
			entry->flags |= GM_ENTRY_CANCELLED << 1;
		return "an unknown flag";
	}
	if (pick < 16) {
		entry->to = (uint8_t)(1u << (pick - 8));
		return "a dtype of dst that has none";
	}
	if (pick < 48) {
		entry->zero = UINT32_C(1) << (pick - 16);
		return "a reserved bit of word 1";
	}
	do
		entry->op =
			(uint8_t)(GPUMAP_OP_MASK_BOOL + 1 +
				  hostile_below(h, 255 - GPUMAP_OP_MASK_BOOL));
	while (entry->op >= GPUMAP_OP_LOAD && entry->op <= GPUMAP_OP_RECV);
	return "an unknown operation";
}

static void reserved_bits(struct hostile *h)
{
	struct raw c;
	struct raw_queue *q;

	while ((q = hostile_session(h, &c, DEPTH, 0, RANGE)) != NULL) {
		struct gm_entry batch[3];
		uint64_t at = hostile_below(h, 3);
		const char *what;

		/* The broken entry comes between good ones, with any other
		 * operation. */
		for (int i = 0; i < 3; i++)
			batch[i] = raw_entry(q, GPUMAP_OP_NOP);
		batch[at].op = (uint8_t)hostile_below(h, GPUMAP_OP_AXPY + 1);
		what = break_contract(h, &batch[at]);
		raw_post(q, batch, 3);
		hostile_must_end(h, &c, what);
		hostile_round(h);
	}
}

/* ---- second slots ------------------------------------------------------ */

/* Make a pair of slots as the library makes it, with a random deadline or
 * none. */
static void make_pair(struct hostile *h, const struct raw_queue *q,
		      struct gm_entry pair[2])
{
	uint64_t deadline = hostile_below(h, 2) ? hostile_random(h) : 0;

	pair[0] = raw_entry(q, (uint8_t)hostile_below(h, GPUMAP_OP_AXPY + 1));
	/* The third operand and its number of elements are random. */
	if (hostile_below(h, 3) == 0) {
		pair[0].op =
			(uint8_t)(GPUMAP_OP_MASK_ADD + hostile_below(h, 2));
		pair[0].value = hostile_random(h) >> hostile_below(h, 64);
	}
	pair[0].dtype = GPUMAP_DTYPE_F32;
	pair[0].flags = GM_ENTRY_MORE;
	pair[0].src = RANGE / 2;
	pair[0].n = hostile_below(h, RANGE / 16);
	/* A second slot's words have the names of a first slot's fields
	 * here. */
	pair[1] = (struct gm_entry){ .op = GM_OP_MORE,
				     .incarnation = (uint32_t)deadline,
				     .zero = (uint32_t)(deadline >> 32),
				     .dst_buffer = hostile_random(h),
				     .src_buffer = hostile_random(h) };
}

/* Make the pair one that the library never makes.  Returns the name of its
 * defect. */
static const char *break_pair(struct hostile *h, struct gm_entry pair[2])
{
	switch (hostile_below(h, 6)) {
	case 0:
		pair[0].flags = 0;
		return "a second slot without a first";
	case 1:
		pair[1].op = (uint8_t)hostile_below(h, GM_OP_MORE);
		return "a first slot without a second";
	case 2:
		pair[0] = pair[1];
		return "two second slots";
	case 3:
		pair[1].dtype = (uint8_t)(1u << hostile_below(h, 8));
		return "a reserved bit of a second slot";
	case 4:
		pair[1].flags =
			(uint8_t)(GM_WAITS_MAX + 1 + hostile_below(h, 251));
		return "too many waits";
	default:
		pair[1].value = UINT64_C(1) << hostile_below(h, 64);
		return "a wait past the last";
	}
}

/* All of @n entries must end, each in its turn. */
static void take_in_order(struct hostile *h, struct raw *c, struct raw_queue *q,
			  uint32_t first, uint32_t n)
{
	uint64_t until = raw_now() + RAW_PATIENCE_NS;
	uint32_t position = first;
	int32_t status;

	for (uint32_t i = 0; i < n;) {
		if (!raw_take(q, &position, &status)) {
			if (raw_is_over(c) || raw_now() > until) {
				hostile_lapse(h, "%u of %u ended", i, n);
				return;
			}
			raw_nap(20000);
			continue;
		}
		if (position != first + i)
			hostile_lapse(h, "position %u ended for %u", position,
				      first + i);
		i++;
	}
}

static void second_slots(struct hostile *h)
{
	struct raw c;
	struct raw_queue *q;

	while ((q = hostile_session(h, &c, DEPTH, 0, RANGE)) != NULL) {
		struct gm_entry pair[2];
		const char *what;

		for (uint64_t i = hostile_below(h, 20); i > 0; i--) {
			uint32_t first = q->entries.pos;

			make_pair(h, q, pair);
			raw_post(q, pair, 2);
			take_in_order(h, &c, q, first, 2);
		}
		make_pair(h, q, pair);
		what = break_pair(h, pair);
		raw_post(q, pair, 2);
		hostile_must_end(h, &c, what);
		hostile_round(h);
	}
}

/* ---- waits ------------------------------------------------------------- */

/* Entries of one row wait for entries of the other that come later. */
static void post_waiter(struct hostile *h, struct raw_queue *q,
			const struct raw_queue *other, uint32_t row)
{
	uint32_t far = other->entries.pos + (uint32_t)hostile_below(h, 200);
	uint32_t era = gm_time_incarnation(gm_get(&other->queue->incarnation));
	struct gm_entry pair[2] = { raw_entry(q, GPUMAP_OP_NOP) };

	pair[0].flags = GM_ENTRY_MORE;
	pair[1] = (struct gm_entry){ .op = GM_OP_MORE,
				     .flags = 1,
				     .dst = gm_time_make(row, era, far) };
	raw_post(q, pair, 2);
}

static void post_nops(struct raw_queue *q, uint32_t n)
{
	struct gm_entry batch[DEPTH];

	for (uint32_t i = 0; i < n; i++)
		batch[i] = raw_entry(q, GPUMAP_OP_NOP);
	if (n)
		raw_post(q, batch, n);
}

/* One row ends its entries, and at each end a waiting row checks its own
 * condition. */
static void waits(struct hostile *h)
{
	struct raw c;
	struct raw_queue *q;

	while ((q = hostile_session(h, &c, DEPTH, 0, RANGE)) != NULL) {
		uint32_t row = (uint32_t)(q - c.row + 1) % h->n_rows;
		struct raw_queue *other = &c.row[row];

		if (other != q && raw_queue(&c, row) != 0)
			other = q;
		while (hostile_goes_on(h) && !raw_is_over(&c)) {
			hostile_take_all(q);
			hostile_take_all(other);
			if (hostile_credit(q) >= 2)
				post_waiter(h, q, other, row);
			post_nops(other,
				  (uint32_t)hostile_below(
					  h, hostile_credit(other) / 2 + 1));
			hostile_round(h);
		}
		if (raw_is_over(&c))
			hostile_lapse(h, "a wait has ended the session");
		raw_close(&c);
	}
}

/* ---- numbers ----------------------------------------------------------- */

/* Random numbers around every limit there is. */
static uint64_t edge(struct hostile *h, uint64_t arena)
{
	static const uint64_t far[] = { UINT64_C(1) << 31, UINT64_C(1) << 32,
					UINT64_C(1) << 46, UINT64_C(1) << 61,
					UINT64_C(1) << 62, UINT64_C(1) << 63,
					UINT64_MAX - 4095, UINT64_MAX - 63,
					UINT64_MAX };
	uint64_t n = sizeof(far) / sizeof(far[0]);

	switch (hostile_below(h, 4)) {
	case 0:
		return far[hostile_below(h, n)] - hostile_below(h, 9) + 4;
	case 1:
		return arena - hostile_below(h, 9) + 4;
	case 2:
		return arena / (1 + hostile_below(h, 16));
	default:
		return hostile_random(h);
	}
}

static bool is_inside(uint64_t at, uint64_t n, uint64_t each, uint64_t size)
{
	return n <= size / each && at <= size - n * each;
}

static bool is_cast(uint8_t dtype)
{
	return dtype == GPUMAP_DTYPE_F16 || dtype == GPUMAP_DTYPE_BF16 ||
	       dtype == GPUMAP_DTYPE_F32;
}

/* Do the dtypes go with the operation? */
static bool goes_together(const struct gm_entry *e)
{
	switch (e->op) {
	case GPUMAP_OP_SCALE:
	case GPUMAP_OP_AXPY:
		return is_cast(e->dtype) || e->dtype == GPUMAP_DTYPE_F64;
	case GPUMAP_OP_CAST:
		return is_cast(e->dtype) && is_cast(e->to) && e->dtype != e->to;
	default:
		return true;
	}
}

/* Returns whether an entry that is right in all but its numbers may end with 0.
 * The test decides that by rules of its own. */
static bool may_be_done(const struct gm_entry *e, uint64_t arena)
{
	static const uint8_t each[] = { 1, 2, 2, 4, 4, 8, 8, 2, 4, 8 };
	uint64_t to, from, n = e->n;

	if (e->dtype >= sizeof(each) || !goes_together(e))
		return false;
	if (e->op == GPUMAP_OP_NOP)
		return true;
	from = each[e->dtype];
	to = e->op == GPUMAP_OP_CAST ? each[e->to] : from;
	if (e->op >= GPUMAP_OP_SUM && e->op <= GPUMAP_OP_MAX) {
		if (n == 0)
			return false;
		n = 1;
		if (e->op == GPUMAP_OP_SUM)
			to = from == 2 && e->dtype != GPUMAP_DTYPE_U16 ? 4
			     : e->dtype == GPUMAP_DTYPE_F32            ? 4
								       : 8;
	}
	if (!is_inside(e->dst, n, to, arena) || e->dst % to)
		return false;
	if (e->op == GPUMAP_OP_FILL)
		return true;
	if (!is_inside(e->src, e->n, from, arena) || e->src % from)
		return false;
	if ((e->op == GPUMAP_OP_SCALE || e->op == GPUMAP_OP_AXPY) &&
	    e->src == e->dst)
		return true;
	/* Both ranges are inside the arena, so none of these sums wraps. */
	return e->n == 0 || e->dst + n * to <= e->src ||
	       e->src + e->n * from <= e->dst;
}

/* Pick any operation of a job, with its operands beside the numbers. */
static void pick_op(struct hostile *h, struct gm_entry *e)
{
	static const uint8_t ops[] = { GPUMAP_OP_NOP,  GPUMAP_OP_FILL,
				       GPUMAP_OP_COPY, GPUMAP_OP_SCALE,
				       GPUMAP_OP_AXPY, GPUMAP_OP_CAST,
				       GPUMAP_OP_SUM,  GPUMAP_OP_MIN,
				       GPUMAP_OP_MAX };

	e->op = ops[hostile_below(h, sizeof(ops))];
	e->dtype = (uint8_t)(hostile_below(h, 8) ? GPUMAP_DTYPE_F32
						 : hostile_random(h));
	if (e->op == GPUMAP_OP_CAST)
		e->to = (uint8_t)(hostile_below(h, 8) ? GPUMAP_DTYPE_F16
						      : hostile_random(h) % 12);
}

static void numbers(struct hostile *h)
{
	struct raw c;
	struct raw_queue *q = hostile_session(h, &c, DEPTH, 0, RANGE);

	while (q && hostile_goes_on(h)) {
		struct gm_entry e = raw_entry(q, GPUMAP_OP_NOP);
		int32_t status;

		pick_op(h, &e);
		e.dst = edge(h, c.arena_bytes);
		e.src = edge(h, c.arena_bytes);
		e.n = edge(h, c.arena_bytes / 4);
		if (hostile_below(h, 2)) {
			e.dst &= ~UINT64_C(63);
			e.src &= ~UINT64_C(63);
		}
		e.value = hostile_random(h);
		status = raw_do(&c, q, &e);
		if (status == -ECONNRESET || status == -ETIME) {
			hostile_lapse(h, "numbers alone ended it: %d", status);
			break;
		}
		if ((status == 0) != may_be_done(&e, c.arena_bytes))
			hostile_lapse(
				h,
				"op %u dtype %u to %u dst %#llx src %#llx n "
				"%#llx ended with %d",
				e.op, e.dtype, e.to, (unsigned long long)e.dst,
				(unsigned long long)e.src,
				(unsigned long long)e.n, status);
		hostile_round(h);
	}
	raw_close(&c);
}

/* ---- incarnations ------------------------------------------------------ */

static void incarnations(struct hostile *h)
{
	struct raw c;
	struct raw_queue *q = hostile_session(h, &c, DEPTH, 0, RANGE);

	while (q && hostile_goes_on(h)) {
		struct gm_entry e = raw_entry(q, GPUMAP_OP_NOP);
		int32_t status;

		/* A wrong incarnation must be refused even if the shared word
		 * has the same value. */
		e.incarnation += 1 + (uint32_t)hostile_below(h, UINT32_MAX);
		if (hostile_below(h, 2))
			gm_put(&q->queue->incarnation, e.incarnation);
		status = raw_do(&c, q, &e);
		gm_put(&q->queue->incarnation, 1);
		if (status != -EIO)
			hostile_lapse(h, "incarnation %u ended with %d",
				      e.incarnation, status);
		hostile_round(h);
	}
	raw_close(&c);
}

/* ---- after publication ------------------------------------------------- */

struct flipper {
	struct hostile hostile; /* a random state of its own */
	const struct raw_queue *q;
};

/* Flip one bit of the slots that were filled last, while their reader may be at
 * any of them.  The sequence is kept, for a slot with another sequence is not
 * read. */
static void flip(void *arg)
{
	struct flipper *f = arg;
	struct hostile *h = &f->hostile;

	for (int i = 0; i < 16; i++) {
		uint32_t back = 1 + (uint32_t)hostile_below(h, 16);
		uint64_t at = hostile_below(h, GM_ENTRY_WORDS);
		uint64_t bit = UINT64_C(1) << hostile_below(h, 64);
		gm_a64 *slot =
			gm_ring_slot(&f->q->entries, f->q->entries.pos - back,
				     GM_ENTRY_WORDS);

		if (at == 0)
			bit &= ~UINT64_C(0xffffffff);
		gm_put(&slot[at], gm_get(&slot[at]) ^ bit);
	}
}

static void batch_of_copies(struct hostile *h, const struct raw *c,
			    struct raw_queue *q, uint32_t n)
{
	struct gm_entry batch[DEPTH];
	uint64_t half = c->arena_bytes / 2;

	for (uint32_t i = 0; i < n; i++) {
		batch[i] = raw_entry(q, GPUMAP_OP_COPY);
		batch[i].incarnation = 1;
		batch[i].n = hostile_below(h, half / 16);
		batch[i].dst = hostile_below(h, half / 2);
		batch[i].src = half + hostile_below(h, half / 2);
	}
	raw_post(q, batch, n);
}

static void flips(struct hostile *h)
{
	struct raw c;
	struct raw_queue *q;

	while ((q = hostile_session(h, &c, DEPTH, 0, RANGE)) != NULL) {
		struct flipper mine = { *h, q }, other = { *h, q };
		struct hostile_thread *thread;

		other.hostile.random = hostile_random(h);
		thread = hostile_beside(flip, &other);
		while (hostile_goes_on(h) && !raw_is_over(&c)) {
			hostile_take_all(q);
			if (hostile_credit(q) >= 16) {
				batch_of_copies(h, &c, q, 16);
				flip(&mine);
			}
			raw_ring(q);
			hostile_round(h);
		}
		hostile_stop(thread);
		if (raw_is_over(&c))
			h->score->ended++;
		raw_close(&c);
	}
}

/* ---- slow jobs, and many ----------------------------------------------- */

/* Values whose products are too small for a normal float.  A CPU takes a
 * hundred times as long for those. */
static void fill_with_small(const struct raw *c)
{
	const uint32_t small = 0x00400000;

	for (uint64_t i = 0; i < c->arena_bytes / 4; i++)
		memcpy(c->memory + 4 * i, &small, sizeof(small));
}

static void post_slow(struct raw_queue *q, uint64_t dst, uint64_t n)
{
	struct gm_entry e = raw_entry(q, GPUMAP_OP_SCALE);
	const double alpha = 0.25;

	e.dtype = GPUMAP_DTYPE_F32;
	e.dst = dst;
	e.n = n;
	memcpy(&e.value, &alpha, sizeof(alpha));
	raw_post(q, &e, 1);
}

/* Fill a queue with long and short jobs. */
static void slow_work(struct hostile *h)
{
	struct raw c;
	struct raw_queue *q = hostile_session(h, &c, DEPTH, 0, RANGE);

	if (!q)
		return;
	fill_with_small(&c);
	while (hostile_goes_on(h)) {
		hostile_take_all(q);
		if (hostile_credit(q) == 0)
			raw_nap(20000);
		else
			post_slow(q, RANGE / 2,
				  hostile_below(h, 2) ? RANGE / 8 : 16384);
		hostile_round(h);
	}
	raw_close(&c);
}

#define MANY 44u

static uint32_t open_many(struct hostile *h, struct raw *c,
			  struct raw_queue **ret_q, uint32_t depth)
{
	uint32_t n = 0;

	while (n < MANY && (ret_q[n] = hostile_session(h, &c[n], depth, 0,
						       RANGE / 4)) != NULL)
		n++;
	return n;
}

/* Open as many sessions as there can be, each with a full queue. */
static void crowd(struct hostile *h)
{
	static struct raw c[MANY];
	struct raw_queue *q[MANY];
	uint32_t n = open_many(h, c, q, 16);

	while (n > 0 && hostile_goes_on(h)) {
		uint32_t i = (uint32_t)hostile_below(h, n);

		hostile_take_all(q[i]);
		if (hostile_credit(q[i]) >= 8)
			batch_of_copies(h, &c[i], q[i], 8);
		hostile_round(h);
	}
	while (n-- > 0)
		raw_close(&c[n]);
}

/* As before, with turns as long as short jobs can make them. */
static void slow_crowd(struct hostile *h)
{
	static struct raw c[MANY];
	struct raw_queue *q[MANY];
	uint32_t n = open_many(h, c, q, 512);

	for (uint32_t i = 0; i < n; i++)
		fill_with_small(&c[i]);
	while (n > 0 && hostile_goes_on(h)) {
		for (uint32_t i = 0; i < n; i++) {
			hostile_take_all(q[i]);
			while (hostile_credit(q[i]) > 0)
				post_slow(q[i], RANGE / 8, 16384);
		}
		hostile_round(h);
	}
	while (n-- > 0)
		raw_close(&c[n]);
}

const struct hostile_attack hostile_entries[] = {
	{ "reserved bits", reserved_bits, 1 },
	{ "second slots", second_slots, 1 },
	{ "waits", waits, 1 },
	{ "numbers", numbers, 1 },
	{ "incarnations", incarnations, 1 },
	{ "flips after publication", flips, 2 },
	{ "slow work", slow_work, 1 },
	{ "crowd", crowd, 1 },
	{ "slow crowd", slow_crowd, 1 },
	{ NULL, NULL, 0 },
};
