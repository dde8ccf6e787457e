/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Checks entries that wait for ends no library would let them wait for: each
 * other, entries that are never submitted, rows that are not there.  The
 * session that submits them waits, and no other session does.  A deadline, a
 * cancel, a death or a drain ends the wait.
 */

#include "tests/support/raw.h"
#include "tests/support/story.h"
#include "tests/support/story_rows.h"

#define DEPTH 16u
#define RANGE (UINT64_C(1) << 20)
#define NEVER 1000u /* a value that no queue here reaches */

static struct agent agent;
static struct gpumap *map;
static char path[192];

static bool open_raw(struct raw *c)
{
	if (EQ(raw_open_queue(c, path, 0, DEPTH, RANGE), 0) &&
	    EQ(raw_queue(c, 1), 0))
		return true;
	raw_close(c);
	return false;
}

static uint64_t time_of(const struct raw *c, uint32_t row, uint64_t value)
{
	uint32_t incarnation = 0;

	if (c->row[row].queue)
		incarnation = gm_get(&c->row[row].queue->incarnation);
	return gm_time_make(row, gm_time_incarnation(incarnation), value);
}

/* Post a no-op that waits until a row's timeline comes to @until. */
static void post(struct raw *c, uint32_t row, uint64_t until,
		 uint64_t deadline_ns)
{
	struct gm_entry pair[2] = { raw_entry(&c->row[row], GPUMAP_OP_NOP) };

	pair[0].flags = GM_ENTRY_MORE;
	/* A second slot's words have the names of a first slot's fields
	 * here. */
	pair[1] = (struct gm_entry){ .op = GM_OP_MORE,
				     .flags = 1,
				     .incarnation = (uint32_t)deadline_ns,
				     .zero = (uint32_t)(deadline_ns >> 32),
				     .dst = until };
	raw_post(&c->row[row], pair, 2);
}

/* Returns the status of the next entry that ends on a row, or 1 when none
 * does. */
static int32_t end_of(struct raw *c, uint32_t row)
{
	uint64_t until = raw_now() + RAW_PATIENCE_NS;
	uint32_t position;
	int32_t status;

	while (!raw_take(&c->row[row], &position, &status)) {
		if (raw_is_over(c) || raw_now() > until)
			return 1;
		raw_nap(100000);
	}
	return status;
}

/* Take both slots of an entry.  Returns the status of the first, or 1 unless
 * the second ends with 0. */
static int32_t end_of_pair(struct raw *c, uint32_t row)
{
	int32_t status = end_of(c, row);

	return end_of(c, row) == 0 ? status : 1;
}

static bool waits_still(const struct raw *c, uint32_t row)
{
	struct raw_queue q = c->row[row];
	uint32_t position;
	int32_t status;

	return !raw_take(&q, &position, &status);
}

/* Run some jobs of another session on both rows.  Returns how many did not end
 * well and in time. */
static int neighbours(void)
{
	struct gpumap_job nop = { .op = GPUMAP_OP_NOP };
	uint64_t until = story_now() + STORY_LIMIT_NS;
	struct gpumap_session *s;
	struct gpumap_done done;
	int wrong = 0;

	if (gpumap_session_open(map, NULL, &s) != 0)
		return 1;
	for (uint32_t i = 0; i < 200; i++)
		wrong += gpumap_submit(s, i % 2, &nop, 1) != 0 ||
			 gpumap_wait(s, &done, 1, until) != 1 ||
			 done.status != 0;
	gpumap_session_close(s);
	return wrong;
}

static void cycles_hold_up_nobody_else(void)
{
	uint64_t deadline = raw_now() + 200 * 1000 * 1000;
	struct gm_timeline *timeline;
	struct raw c;

	if (!open_raw(&c))
		return;
	post(&c, 0, time_of(&c, 1, 1), 0);
	post(&c, 1, time_of(&c, 0, 1), 0);
	EQ(neighbours(), 0);
	OK(waits_still(&c, 0));
	OK(waits_still(&c, 1));
	/* A cancel on one row ends the waits of both. */
	timeline = gm_queue_timeline(c.row[1].queue, DEPTH);
	gm_put(&timeline->cancel, gm_cancel_make(c.row[1].entries.pos));
	raw_ring(&c.row[1]);
	EQ(end_of_pair(&c, 1), -ECANCELED);
	EQ(end_of_pair(&c, 0), 0);

	/* Again, with deadlines: each wait ends by its own deadline or with the
	 * other. */
	gm_put(&timeline->cancel, 0);
	post(&c, 0, time_of(&c, 1, 3), deadline);
	post(&c, 1, time_of(&c, 0, NEVER), deadline);
	EQ(end_of_pair(&c, 1), -ETIME);
	OK(raw_now() >= deadline);
	OK(end_of_pair(&c, 0) <= 0);
	EQ(neighbours(), 0);
	raw_close(&c);
}

static void what_cannot_be_is_an_error(void)
{
	struct raw c;

	if (!open_raw(&c))
		return;
	post(&c, 0, time_of(&c, 0, NEVER), 0); /* its own end, or a later one */
	EQ(end_of_pair(&c, 0), -EINVAL);
	post(&c, 0, time_of(&c, 255, 1), 0); /* no such row */
	EQ(end_of_pair(&c, 0), -EINVAL);
	post(&c, 0, gm_time_make(1, GM_TIME_DEAD, 0), 0);
	EQ(end_of_pair(&c, 0), -EIO);
	/* another incarnation of row 1 */
	post(&c, 0, time_of(&c, 1, 0) + (UINT64_C(1) << 40), 0);
	EQ(end_of_pair(&c, 0), -EIO);
	post(&c, 0, time_of(&c, 2, 0), 0); /* a queue not opened */
	EQ(end_of_pair(&c, 0), -EIO);
	post(&c, 0, time_of(&c, 1, 0), 0); /* the first value of a timeline */
	EQ(end_of_pair(&c, 0), 0);
	raw_close(&c);
}

/* A client that stores a false value for another row lets its own jobs begin,
 * and no others. */
static void lies_harm_the_liar_alone(void)
{
	struct gm_timeline *timeline;
	struct raw c;

	if (!open_raw(&c))
		return;
	timeline = gm_queue_timeline(c.row[1].queue, DEPTH);
	post(&c, 0, time_of(&c, 1, NEVER), 0);
	for (uint32_t i = 0; i < 1000; i++) {
		/* Change the value back and forth, while the worker polls
		 * it. */
		gm_put(&timeline->ended, i * UINT64_C(0x9e3779b97f4a7c15));
		if (i % 50 == 0)
			raw_ring(&c.row[0]);
	}
	gm_put(&timeline->ended, time_of(&c, 1, NEVER));
	raw_ring(&c.row[0]);
	OK(end_of_pair(&c, 0) <= 0);
	EQ(neighbours(), 0);
	raw_close(&c);
}

static void a_death_is_found_without_a_word(void)
{
	struct gpumap_device device = story_device(map, 1);
	struct raw c;

	if (!open_raw(&c))
		return;
	post(&c, 0, time_of(&c, 1, NEVER), 0);
	EQ(neighbours(), 0);
	OK(waits_still(&c, 0));
	EQ(kill((pid_t)device.worker_pid, SIGKILL), 0);
	EQ(end_of_pair(&c, 0), -EIO);
	OK(story_back(map, 1, device.restarts));
	raw_close(&c);
}

/* Sessions close, rows drain and agents end, although entries wait. */
static void nobody_is_held_for_ever(void)
{
	struct raw c;

	if (!open_raw(&c))
		return;
	post(&c, 0, time_of(&c, 1, NEVER), 0);
	EQ(gpumap_device_drain(map, 0), 0);
	OK(end_of(&c, 0) < 0);
	OK(end_of(&c, 0) <= 0);
	EQ(gpumap_device_undrain(map, 0), 0);
	raw_close(&c);
	EQ(neighbours(), 0);

	/* Waiting entries end with their session. */
	for (int i = 0; i < 20; i++) {
		if (!open_raw(&c))
			return;
		post(&c, 0, time_of(&c, 1, NEVER), 0);
		post(&c, 1, time_of(&c, 0, NEVER), 0);
		if (i % 2)
			raw_nap(1000000);
		raw_close(&c);
	}
	EQ(neighbours(), 0);

	/* An entry is still waiting when the agent ends. */
	if (open_raw(&c)) {
		post(&c, 0, time_of(&c, 1, NEVER), 0);
		EQ(agent_kill(&agent, SIGTERM), 0);
	}
	raw_close(&c);
}

TAP_CASE()
{
	agent_make(&agent, "[host]\nrows = 3\n");
	snprintf(path, sizeof(path), "%s/%s.sock", agent.dir, agent.instance);
	if (OK(agent_start(&agent)) && OK((map = story_attach(&agent)))) {
		cycles_hold_up_nobody_else();
		what_cannot_be_is_an_error();
		lies_harm_the_liar_alone();
		a_death_is_found_without_a_word();
		nobody_is_held_for_ever();
	}
	gpumap_detach(map);
	if (tap_failures)
		agent_show_log(&agent);
	agent_remove(&agent);
	return tap_done();
}
