/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Reservations that come, wait, start, and end by chance, beside a model of the
 * line.
 *
 * One thing happens at a time.  Then the agent has to let in what the model may
 * let in, in an order and on rows that the model's rules allow, until nothing
 * more may move.
 */

#include "tests/support/dice.h"
#include "tests/support/reserve_clients.h"

#define PLACES 14u
#define STEPS  40 /* of a round */

enum state { ABSENT, WAITS, HOLDS };

/* A client and what the model knows of it. */
static struct entry {
	struct client client;
	enum state state;
	uint64_t number; /* grows with the arrival */
	uint64_t since;  /* waits */
	uint32_t rows[N_ROWS];
	uint64_t bytes; /* of each of @rows */
	uint32_t n_rows;
	bool is_starting;
} entries[PLACES];

static uint64_t n_arrived, n_admitted, n_waited, n_refused, n_agents;
static uint64_t named_bytes[N_ROWS]; /* of the administrator's maps */
static struct story_times waits, settled;

/* ---- the model ----------------------------------------------------------- */

static uint64_t model_reserved(uint32_t row)
{
	uint64_t sum = named_bytes[row];

	for (uint32_t i = 0; i < PLACES; i++) {
		const struct entry *e = &entries[i];

		for (uint32_t k = 0; e->state == HOLDS && k < e->n_rows; k++)
			sum += e->rows[k] == row ? e->bytes : 0;
	}
	return sum;
}

static uint64_t model_free(uint32_t row)
{
	return row_bytes[row] - model_reserved(row);
}

/* The rows that @want may take: a bit for each. */
static uint32_t model_set(const struct want *want)
{
	uint32_t set = 0;

	for (uint32_t k = 0; k < want->n_rows; k++) {
		uint32_t row = want->rows[k];

		if (!want->is_one || want->bytes <= row_bytes[row])
			set |= 1u << row;
	}
	return set;
}

static bool model_is_starting(uint32_t row)
{
	for (uint32_t i = 0; i < PLACES; i++) {
		const struct entry *e = &entries[i];

		for (uint32_t k = 0; e->state == HOLDS && k < e->n_rows; k++)
			if (e->is_starting && e->rows[k] == row)
				return true;
	}
	return false;
}

/* The bytes of @row once all that is held has ended. */
static uint64_t model_lasting(uint32_t row)
{
	return row_bytes[row] - named_bytes[row];
}

/* The rows that one keeps from those behind it: those that it will have one
 * day, and none where it needs all of its rows and will not have one. */
static uint32_t model_kept(const struct want *want)
{
	uint32_t set = model_set(want), kept = 0;

	for (uint32_t row = 0; row < N_ROWS; row++)
		if ((set & 1u << row) != 0 && want->bytes <= model_lasting(row))
			kept |= 1u << row;
	return want->is_one || kept == set ? kept : 0;
}

/* The bytes of a row that those hold which came after @number. */
static uint64_t model_passed(uint64_t number, uint32_t row)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < PLACES; i++) {
		const struct entry *e = &entries[i];

		for (uint32_t k = 0; e->state == HOLDS && k < e->n_rows; k++)
			if (e->number > number && e->rows[k] == row)
				sum += e->bytes;
	}
	return sum;
}

/* May one pass all that came before @number, by the bytes of a row? */
static bool model_may_pass(uint64_t bytes, uint64_t number, uint32_t row)
{
	for (uint32_t i = 0; i < PLACES; i++) {
		const struct entry *e = &entries[i];
		const struct want *want = &e->client.want;

		if (e->state == WAITS && e->number < number &&
		    (model_kept(want) & 1u << row) != 0 &&
		    bytes + want->bytes + model_passed(e->number, row) >
			    model_lasting(row))
			return false;
	}
	return true;
}

/* The rows of @want that have room, and are its by its turn. */
static uint32_t model_room(const struct want *want, uint64_t number)
{
	uint32_t set = model_set(want), room = 0;

	for (uint32_t row = 0; row < N_ROWS; row++)
		if ((set & 1u << row) != 0 && want->bytes <= model_free(row) &&
		    model_may_pass(want->bytes, number, row))
			room |= 1u << row;
	return room;
}

/* The rows that those which came before @number wait to start on.  Whether one
 * waits for that alone the agent found when it tried last: @is_sure leaves out
 * those of which the model does not know it. */
static uint32_t model_starts(uint64_t number, bool is_sure)
{
	uint32_t set = 0;

	for (uint32_t i = 0; i < PLACES; i++) {
		const struct entry *e = &entries[i];
		const struct want *want = &e->client.want;
		uint32_t room;

		if (e->state != WAITS || e->number >= number ||
		    want->start_ns == 0)
			continue;
		room = model_room(want, e->number);
		if (!is_sure ||
		    (want->is_one ? room != 0 : room == model_set(want)))
			set |= model_kept(want);
	}
	return set;
}

/* Those of its rows that it could have now: @is_sure, or perhaps. */
static uint32_t model_open(const struct want *want, uint64_t number,
			   bool is_sure)
{
	uint32_t room = model_room(want, number), open = 0;
	uint32_t starts =
		want->start_ns != 0 ? model_starts(number, !is_sure) : 0;

	for (uint32_t row = 0; row < N_ROWS; row++)
		if ((room & ~starts & 1u << row) != 0 &&
		    (want->start_ns == 0 || !model_is_starting(row)))
			open |= 1u << row;
	return open;
}

static bool model_enters(const struct want *want, uint64_t number, bool is_sure)
{
	uint32_t open = model_open(want, number, is_sure);

	return want->is_one ? open != 0 : open == model_set(want) && open != 0;
}

/* The one with the fewest bytes among those rows; of several, that which was
 * named first. */
static uint32_t model_best(const struct want *want, uint32_t open)
{
	uint32_t best = N_ROWS;

	for (uint32_t k = 0; k < want->n_rows; k++) {
		uint32_t row = want->rows[k];

		if ((open & 1u << row) != 0 &&
		    (best == N_ROWS || model_free(row) < model_free(best)))
			best = row;
	}
	return best;
}

/* ---- the agent and the model --------------------------------------------- */

static void describe(const struct entry *e, const char *what)
{
	const struct want *want = &e->client.want;

	NOTE("%s: %s: number %" PRIu64 ", rows %#x, %s, %" PRIu64
	     " bytes, wait %" PRIu64 ", start %" PRIu64,
	     what, want->name, e->number, model_set(want),
	     want->is_one ? "one of them" : "all", want->bytes, want->wait_ns,
	     want->start_ns);
}

static void describe_all(void)
{
	for (uint32_t row = 0; row < N_ROWS; row++)
		NOTE("row %u: the model has %" PRIu64 ", the agent %" PRIu64
		     " reserved",
		     row, model_reserved(row), reserved(row));
	for (uint32_t i = 0; i < PLACES; i++)
		if (entries[i].state != ABSENT)
			describe(&entries[i],
				 entries[i].state == WAITS ? "waits" : "holds");
}

/* With the windows that are known, or with those that may be. */
static bool may_be_best(const struct entry *e, uint32_t row)
{
	const struct want *want = &e->client.want;

	return row == model_best(want, model_open(want, e->number, false)) ||
	       row == model_best(want, model_open(want, e->number, true));
}

/* An entry was let in; may it have been?  Tells the model. */
static bool admit(struct entry *e, const struct outcome *out)
{
	const struct want *want = &e->client.want;
	bool good = model_enters(want, e->number, false);

	if (good && want->is_one)
		good = out->n_rows == 1 && may_be_best(e, out->rows[0]);
	else if (good)
		good = out->n_rows == want->n_rows;
	if (!good) {
		describe(e, "was let in");
		NOTE("on %u rows, the first is %u", out->n_rows, out->rows[0]);
		describe_all();
	}
	if (out->at_ns > e->since)
		story_time(&waits, e->since);
	n_admitted++;
	e->state = HOLDS;
	e->n_rows = out->n_rows < N_ROWS ? out->n_rows : N_ROWS;
	memcpy(e->rows, out->rows, sizeof(e->rows));
	e->bytes = want->bytes;
	e->is_starting = want->start_ns != 0;
	return good;
}

static bool is_in(const struct gpumap_wait_info *line, int n,
		  const struct entry *e)
{
	for (int i = 0; i < n; i++)
		if (strcmp(line[i].name, e->client.want.name) == 0)
			return true;
	return false;
}

/* Insert one among those that were let in, by the version of its map. */
static void sort_in(struct outcome *out, struct entry **by, uint32_t n,
		    const struct outcome *new, struct entry *e)
{
	uint32_t at = n;

	for (; at > 0 && out[at - 1].version > new->version; at--) {
		out[at] = out[at - 1];
		by[at] = by[at - 1];
	}
	out[at] = *new;
	by[at] = e;
}

/* The answers to those that have left the line, in the order of the agent's
 * decisions.  The last to come may not have been there yet. */
static bool take_answers(void)
{
	struct gpumap_wait_info line[PLACES + 1];
	struct outcome out[PLACES];
	struct entry *by[PLACES];
	int in_line = line_read(line, PLACES + 1);
	uint32_t n = 0;
	bool good = true;

	for (uint32_t i = 0; i < PLACES; i++) {
		struct entry *e = &entries[i];
		struct outcome new;

		if (e->state != WAITS || is_in(line, in_line, e) ||
		    (e->number == n_arrived && !client_answered(&e->client, 0)))
			continue;
		new = client_outcome(&e->client);
		if (new.ret != 0) {
			describe(e, "was refused");
			NOTE("%d: %s", new.ret, new.refusal);
			return false;
		}
		sort_in(out, by, n++, &new, e);
	}
	for (uint32_t i = 0; i < n; i++)
		good &= admit(by[i], &out[i]);
	return good;
}

static bool may_any_enter(void)
{
	for (uint32_t i = 0; i < PLACES; i++)
		if (entries[i].state == WAITS &&
		    model_enters(&entries[i].client.want, entries[i].number,
				 true))
			return true;
	return false;
}

/* Are the agent's line and its rows as the model has them? */
static bool agrees(void)
{
	struct gpumap_wait_info line[PLACES + 1];
	uint64_t last = 0;
	uint32_t waiting = 0;
	int n = line_read(line, PLACES + 1);

	for (uint32_t i = 0; i < PLACES; i++)
		waiting += entries[i].state == WAITS;
	if (n != (int)waiting)
		return false;
	for (int k = 0; k < n; k++) {
		uint32_t i = (uint32_t)atoi(line[k].name + 1) % PLACES;

		if (entries[i].state != WAITS || entries[i].number <= last ||
		    line[k].pid != (uint32_t)entries[i].client.pid ||
		    line[k].rows[0] != model_set(&entries[i].client.want))
			return false;
		last = entries[i].number;
	}
	for (uint32_t row = 0; row < N_ROWS; row++)
		if (reserved(row) != model_reserved(row))
			return false;
	return true;
}

/* Wait until nothing may move any more, in the model and in the agent.  An
 * answer that the model does not expect ends it. */
static bool settles(void)
{
	uint64_t since = story_now(), until = since + STORY_LIMIT_NS;

	do {
		if (!take_answers())
			return false;
		if (!may_any_enter() && agrees()) {
			story_time(&settled, since);
			return true;
		}
		story_nap(300);
	} while (story_now() < until);
	NOTE("the line does not move; %d wait", line_length());
	describe_all();
	return false;
}

/* ---- what happens -------------------------------------------------------- */

static struct entry *any_in(enum state state)
{
	uint32_t from = (uint32_t)dice(PLACES);

	for (uint32_t i = 0; i < PLACES; i++) {
		struct entry *e = &entries[(from + i) % PLACES];

		if (e->state == state)
			return e;
	}
	return NULL;
}

static void end(struct entry *e)
{
	client_kill(&e->client);
	e->state = ABSENT;
}

static struct want any_want(uint32_t place)
{
	struct want want = { .is_held = true, .wait_ns = LONG_NS };
	uint32_t first = (uint32_t)dice(N_ROWS);

	snprintf(want.name, sizeof(want.name), "c%u", place);
	want.n_rows = dice(2) ? 1 : 1 + (uint32_t)dice(N_ROWS);
	want.is_one = want.n_rows > 1 && dice(3) != 0;
	for (uint32_t k = 0; k < want.n_rows; k++)
		want.rows[k] = (first + k) % N_ROWS;
	want.bytes = 1 + dice(dice(3) ? 7 * GIB : 16 * GIB);
	if (want.is_one && dice(8) == 0)
		want.bytes = 16 * GIB + dice(40 * GIB); /* for the host */
	if (dice(5) == 0)
		want.wait_ns = 0;
	if (dice(3) == 0)
		want.start_ns = LONG_NS;
	return want;
}

/* One that does not wait is told at once whether it may enter. */
static bool hasty_is_told(struct entry *e, bool is_possible)
{
	struct outcome out = client_outcome(&e->client);

	if (out.ret == 0)
		return admit(e, &out);
	n_refused++;
	if ((out.ret == -ENOSPC || out.ret == -EBUSY) &&
	    !(is_possible && model_enters(&e->client.want, e->number, true))) {
		end(e);
		return true;
	}
	describe(e, "was refused");
	NOTE("%d: %s", out.ret, out.refusal);
	describe_all();
	return false;
}

static bool one_comes(void)
{
	struct entry *e = any_in(ABSENT);
	struct want want;
	bool is_possible;

	if (e == NULL)
		return true;
	want = any_want((uint32_t)(e - entries));
	is_possible = model_set(&want) != 0;
	*e = (struct entry){ .number = ++n_arrived, .since = story_now() };
	e->client = client_start(&want);
	if (want.wait_ns == 0 || !is_possible)
		return hasty_is_told(e, is_possible);
	e->state = WAITS;
	n_waited += !model_enters(&want, e->number, true);
	return true;
}

static bool one_dies(enum state state)
{
	struct entry *e = any_in(state);

	if (e != NULL)
		end(e);
	return true;
}

static bool one_releases(void)
{
	struct entry *e = any_in(HOLDS);

	if (e == NULL)
		return true;
	if (client_do(&e->client, ORDER_RELEASE) != 0) {
		NOTE("%s cannot release", e->client.want.name);
		return false;
	}
	end(e);
	return true;
}

static bool one_shrinks(void)
{
	struct entry *e = any_in(HOLDS);
	int ret;

	if (e == NULL)
		return true;
	ret = client_do(&e->client, ORDER_SHRINK);
	e->bytes = 1;
	e->number = ++n_arrived; /* it is a map that was asked for now */
	e->is_starting = false;
	if (ret != 0)
		NOTE("%s cannot shrink: %d", e->client.want.name, ret);
	return ret == 0;
}

static bool one_starts(void)
{
	struct entry *e = any_in(HOLDS);

	if (e == NULL)
		return true;
	e->is_starting = false;
	return client_do(&e->client, ORDER_START) == 0;
}

/* The administrator overtakes, and gives back. */
static bool a_name_comes_or_goes(void)
{
	uint32_t row = (uint32_t)dice(N_ROWS);
	struct want want = { .n_rows = 1, .rows = { row } };
	struct outcome out;

	snprintf(want.name, sizeof(want.name), "named%u", row);
	if (named_bytes[row] != 0) {
		named_bytes[row] = 0;
		return gpumap_layers_release(map, want.name) == 0;
	}
	want.bytes = 1 + dice(8 * GIB);
	out = reserve_now(&want);
	if (out.ret != (want.bytes <= model_free(row) ? 0 : -ENOSPC)) {
		NOTE("%d: %s", out.ret, out.refusal);
		return false;
	}
	named_bytes[row] = out.ret == 0 ? want.bytes : 0;
	return true;
}

/* Those who wait do so no more; what is held is, and its windows are. */
static bool the_agent_dies(void)
{
	bool good;

	gpumap_detach(map);
	agent_kill(&agent, dice(2) ? SIGKILL : SIGTERM);
	for (uint32_t i = 0; i < PLACES; i++) {
		if (entries[i].state == WAITS)
			end(&entries[i]);
	}
	good = agent_start(&agent);
	map = story_attach(&agent);
	n_agents++;
	return good && map != NULL;
}

static bool step(void)
{
	uint64_t what = dice(100);

	if (what < 50)
		return one_comes();
	if (what < 60)
		return one_dies(WAITS);
	if (what < 72)
		return one_dies(HOLDS);
	if (what < 80)
		return one_releases();
	if (what < 85)
		return one_shrinks();
	if (what < 95)
		return one_starts();
	return a_name_comes_or_goes();
}

static bool one_round(int round)
{
	dice_state = 0x9e3779b97f4a7c15 + (uint64_t)round;
	for (int i = 0; i < STEPS; i++) {
		if (step() && settles())
			continue;
		NOTE("in round %d, step %d", round, i);
		return false;
	}
	return the_agent_dies() && settles();
}

static void end_all(void)
{
	for (uint32_t i = 0; i < PLACES; i++)
		end(&entries[i]);
	for (uint32_t row = 0; row < N_ROWS; row++) {
		char name[16];

		snprintf(name, sizeof(name), "named%u", row);
		if (named_bytes[row] != 0)
			gpumap_layers_release(map, name);
	}
}

TAP_CASE()
{
	int rounds = story_rounds(), round = 0;

	agent_make(&agent, NULL);
	reserve_configure("");
	if (!OK(agent_start(&agent))) {
		agent_show_log(&agent);
		return tap_done();
	}
	map = story_attach(&agent);
	while (round < rounds && one_round(round))
		round++;
	EQ(round, rounds);
	NOTE("%" PRIu64 " came, %" PRIu64 " were let in, %" PRIu64
	     " of them after others; %" PRIu64 " refused; %" PRIu64 " agents",
	     n_arrived, n_admitted, n_waited, n_refused, n_agents);
	OK(n_admitted > 0 && n_waited > 0 && n_refused > 0);
	end_all();
	OK(reserve_calms_down());
	story_tell(&waits, "from the arrival to the reservation");
	story_tell(&settled, "from an event to rest");
	story_finish(&agent, map);
	agent_remove(&agent);
	return tap_done();
}
