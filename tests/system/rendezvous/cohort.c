/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * A cohort: its ranks meet over three nodes and receive one id, which no rank
 * receives alone; a rank that ends, breaks or comes anew moves the epoch on,
 * one that leaves does not; a rank that does not come is named; and the last to
 * leave leaves nothing behind.
 */

#include <inttypes.h>
#include <poll.h>
#include <pthread.h>

#include "tests/system/rendezvous/place.h"

#define WORLD 3

/* A rank, in a thread of its own. */
struct rank {
	struct gpumap_sync *sync;
	struct gpumap_cohort_join join;
	pthread_t thread;
	int status;
	uint64_t epoch;
	uint8_t ours[GPUMAP_COHORT_ID_BYTES];
	uint8_t id[GPUMAP_COHORT_ID_BYTES];
	char why[256];
};

static struct rank ranks[WORLD];

static void *act(void *data)
{
	struct rank *rank = data;

	rank->status = gpumap_cohort_join(rank->sync, &rank->join, rank->id,
					  &rank->epoch);
	snprintf(rank->why, sizeof(rank->why), "%s", gpumap_refusal(NULL));
	return NULL;
}

static void begin(struct rank *rank, const char *name, uint32_t number,
		  uint32_t limit_ms)
{
	rank->join = (struct gpumap_cohort_join){
		.size = sizeof(rank->join),
		.name = name,
		.world = WORLD,
		.rank = number,
		.version = 21903,
		.id = number == 0 ? rank->ours : NULL,
		.deadline_ns = place_in(limit_ms),
	};
	memset(rank->ours, (int)(story_now() % 251) + 1, sizeof(rank->ours));
	memset(rank->id, 0, sizeof(rank->id));
	rank->status = 1;
	pthread_create(&rank->thread, NULL, act, rank);
}

static int end(struct rank *rank)
{
	pthread_join(rank->thread, NULL);
	return rank->status;
}

/* All join, and have one id and epoch. */
static bool all_meet(const char *name)
{
	bool met = true;

	for (uint32_t i = 0; i < WORLD; i++)
		begin(&ranks[i], name, i, 60000);
	for (uint32_t i = 0; i < WORLD; i++)
		if (!EQ(end(&ranks[i]), 0)) {
			NOTE("rank %u: %s", i, ranks[i].why);
			met = false;
		}
	for (uint32_t i = 0; i < WORLD && met; i++)
		met = OK(memcmp(ranks[i].id, ranks[0].ours,
				sizeof(ranks[i].id)) == 0) &&
		      EQ(ranks[i].epoch, ranks[0].epoch);
	return met;
}

static bool is_told(const struct rank *rank)
{
	struct pollfd told = { .fd = gpumap_sync_fd(rank->sync),
			       .events = POLLIN };

	return poll(&told, 1, 30000) == 1;
}

/* Wait until the rank is told of a new epoch. */
static int wait_told(struct rank *rank)
{
	int ret = 0;

	while (ret == 0 && is_told(rank))
		ret = gpumap_sync_check(rank->sync);
	return ret;
}

static bool connect_all(const struct place *place)
{
	bool connected = true;

	for (int i = 0; i < WORLD; i++) {
		ranks[i].sync = place_connect(place, i);
		connected = connected && ranks[i].sync != NULL;
	}
	return connected;
}

static void close_all(void)
{
	for (int i = 0; i < WORLD; i++) {
		gpumap_sync_close(ranks[i].sync);
		ranks[i].sync = NULL;
	}
}

/* ---- meeting ------------------------------------------------------------- */

static void ranks_meet_and_leave(struct place *place)
{
	uint64_t epoch;

	if (!connect_all(place) || !all_meet("meet"))
		return;
	epoch = ranks[0].epoch;
	EQ(gpumap_cohort_join(ranks[0].sync, &ranks[0].join, ranks[0].id, NULL),
	   -EALREADY);
	for (int i = 0; i < WORLD; i++)
		EQ(gpumap_sync_check(ranks[i].sync), 0);
	/* One that has left tells no other rank to begin anew. */
	EQ(gpumap_cohort_leave(ranks[1].sync, 0), 0);
	EQ(gpumap_cohort_leave(ranks[1].sync, 0), -ENOENT);
	OK(is_told(&ranks[0]));
	EQ(gpumap_sync_check(ranks[0].sync), 0);
	EQ(gpumap_cohort_leave(ranks[0].sync, 0), 0);
	OK(strstr(place_text(ranks[0].sync, "meet/state"), " ended ") != NULL);
	EQ(gpumap_cohort_leave(ranks[2].sync, 0), 0);
	STR(place_text(ranks[0].sync, "meet/state"), "");
	/* Again, and it is another epoch. */
	OK(all_meet("meet"));
	OK(ranks[0].epoch != epoch);
	close_all();
}

static void no_rank_receives_the_id_alone(struct place *place)
{
	static const uint8_t none[GPUMAP_COHORT_ID_BYTES];

	if (!connect_all(place))
		return;
	begin(&ranks[0], "alone", 0, 3000);
	begin(&ranks[2], "alone", 2, 3000);
	for (int i = 0; i < WORLD; i += 2) {
		EQ(end(&ranks[i]), -ETIMEDOUT);
		OK(memcmp(ranks[i].id, none, sizeof(none)) == 0);
	}
	/* The first to give up knows which rank was missing. */
	if (!OK(strstr(ranks[0].why, "joined in time: 1") != NULL ||
		strstr(ranks[2].why, "joined in time: 1") != NULL))
		NOTE("%s, %s", ranks[0].why, ranks[2].why);
	OK(strstr(place_text(ranks[0].sync, "alone/state"), " forming -") !=
	   NULL);
	/* One that gives up disturbs no rank that waits on. */
	begin(&ranks[1], "alone", 1, 60000);
	begin(&ranks[2], "alone", 2, 200);
	EQ(end(&ranks[2]), -ETIMEDOUT);
	begin(&ranks[2], "alone", 2, 60000);
	begin(&ranks[0], "alone", 0, 60000);
	for (int i = 0; i < WORLD; i++)
		EQ(end(&ranks[i]), 0);
	OK(memcmp(ranks[1].id, ranks[0].ours, sizeof(none)) == 0);
	close_all();
}

/* All have met, and rank 0 has left, before another rank reads that. */
static void one_that_leaves_takes_no_id_away(struct place *place)
{
	char text[512], key[64];
	uint64_t epoch = 0, revision = 0;
	size_t bytes = 0;
	int n;

	if (!connect_all(place))
		return;
	begin(&ranks[1], "brief", 1, 60000);
	while (gpumap_value_list(ranks[0].sync, "brief/rank/", key, sizeof(key),
				 &bytes) == 0 &&
	       bytes == 0)
		story_nap(1000);
	EQ(gpumap_value_get(ranks[0].sync, "brief/state", text,
			    sizeof(text) - 1, &bytes, &revision),
	   0);
	text[bytes] = '\0';
	EQ(sscanf(text, "gpumap-cohort 1 epoch=%" SCNu64, &epoch), 1);
	n = snprintf(text, sizeof(text),
		     "gpumap-cohort 1 epoch=%" PRIu64
		     " world=3 version=21903 ended ",
		     epoch);
	for (int i = 0; i < GPUMAP_COHORT_ID_BYTES; i++)
		n += sprintf(text + n, "5a");
	EQ(place_put(ranks[0].sync, "brief/state", text, revision, 0,
		     &revision),
	   0);
	EQ(end(&ranks[1]), 0);
	EQ(ranks[1].epoch, epoch);
	EQ(ranks[1].id[0], 0x5a);
	EQ(gpumap_cohort_leave(ranks[1].sync, 0), 0);
	STR(place_text(ranks[0].sync, "brief/state"), "");
	close_all();
}

/* ---- moving on ----------------------------------------------------------- */

static void a_rank_that_ends_moves_the_epoch_on(struct place *place)
{
	uint64_t epoch;

	if (!connect_all(place) || !all_meet("moved"))
		return;
	epoch = ranks[0].epoch;
	gpumap_sync_close(ranks[1].sync);
	EQ(wait_told(&ranks[0]), -ESTALE);
	EQ(gpumap_sync_check(ranks[0].sync), -ESTALE);
	EQ(wait_told(&ranks[2]), -ESTALE);
	ranks[1].sync = place_connect(place, 1);
	OK(all_meet("moved"));
	OK(ranks[0].epoch > epoch);
	epoch = ranks[0].epoch;
	EQ(gpumap_cohort_leave(ranks[2].sync, GPUMAP_COHORT_BROKEN), 0);
	EQ(wait_told(&ranks[0]), -ESTALE);
	EQ(wait_told(&ranks[1]), -ESTALE);
	EQ(gpumap_cohort_leave(ranks[1].sync, 0), 0);
	OK(all_meet("moved"));
	OK(ranks[0].epoch > epoch);
	close_all();
}

/* A rank whose gpumap-sync stands still is no rank any more. */
static void a_lost_lease_ends_a_rank(struct place *place)
{
	pid_t pid = place->nodes[2].pid;

	if (!connect_all(place) || !all_meet("lease"))
		return;
	OK(process_stop(pid));
	EQ(wait_told(&ranks[0]), -ESTALE);
	kill(pid, SIGCONT);
	EQ(wait_told(&ranks[2]), -ESTALE);
	EQ(wait_told(&ranks[1]), -ESTALE);
	OK(all_meet("lease"));
	close_all();
}

/* ---- what is refused ----------------------------------------------------- */

static void a_rank_is_one_process(struct place *place)
{
	struct rank other = { .sync = NULL };

	if (!connect_all(place) || !all_meet("busy"))
		return;
	other.sync = place_connect(place, 0);
	begin(&other, "busy", 1, 60000);
	EQ(end(&other), -EBUSY);
	OK(strstr(other.why, "another process is rank 1") != NULL);
	begin(&other, "busy", 1, 3000);
	EQ(end(&other), -EBUSY);
	/* Another world, while the ranks are there and afterwards. */
	other.join.world = 1;
	other.join.rank = 0;
	other.join.id = other.ours;
	other.join.deadline_ns = place_in(60000);
	act(&other);
	EQ(other.status, -EPROTO);
	OK(strstr(other.why, "world 3") != NULL);
	for (int i = 0; i < WORLD; i++)
		EQ(gpumap_sync_check(ranks[i].sync), 0);
	close_all();
	other.join.deadline_ns = place_in(60000);
	act(&other);
	EQ(other.status, 0);
	gpumap_sync_close(other.sync);
}

/* Ranks with another version give up first, and are missing then. */
static void another_version_is_said_after_it_has_left(struct place *place)
{
	struct rank first = { .sync = place_connect(place, 0) };
	struct rank other = { .sync = place_connect(place, 1) };
	uint64_t until = story_now() + STORY_LIMIT_NS;
	char ends[64];
	size_t bytes = 0;

	if (first.sync == NULL || other.sync == NULL)
		return;
	begin(&first, "mixed", 1, 3000);
	while (bytes == 0 && story_now() < until)
		EQ(gpumap_value_list(other.sync, "mixed/rank/", ends,
				     sizeof(ends), &bytes),
		   0);
	other.join = first.join;
	other.join.rank = 2;
	other.join.version = 22706;
	other.join.deadline_ns = place_in(6000);
	act(&other);
	EQ(end(&first), -ETIMEDOUT);
	EQ(other.status, -EPROTO);
	OK(strstr(other.why, "2.19.3") != NULL &&
	   strstr(other.why, "2.27.6") != NULL);
	gpumap_sync_close(first.sync);
	gpumap_sync_close(other.sync);
}

static void what_is_no_join_is_refused(struct place *place)
{
	struct rank rank = { .sync = place_connect(place, 0) };
	const struct gpumap_cohort_join good = { .size = sizeof(good),
						 .name = "bad",
						 .world = 2,
						 .rank = 1,
						 .version = 1,
						 .deadline_ns =
							 place_in(60000) };
	struct gpumap_cohort_join bad;
	uint64_t revision = 0;

	if (rank.sync == NULL)
		return;
#define REFUSED(field, value, error)      \
	(bad = good, bad.field = (value), \
	 EQ(gpumap_cohort_join(rank.sync, &bad, rank.id, NULL), (error)))
	REFUSED(name, NULL, -EINVAL);
	REFUSED(name, "", -EINVAL);
	REFUSED(name, "a/b", -EINVAL);
	REFUSED(name, "..", -EINVAL);
	REFUSED(world, 0, -EINVAL);
	REFUSED(world, GPUMAP_COHORT_RANKS_MAX + 1, -EINVAL);
	REFUSED(rank, 2, -EINVAL);
	REFUSED(rank, 0, -EINVAL);
	REFUSED(id, rank.ours, -EINVAL);
	REFUSED(version, 0, -EINVAL);
	REFUSED(reserved, 1, -EINVAL);
	REFUSED(size, 0, -EINVAL);
	EQ(gpumap_cohort_leave(rank.sync, 2), -EINVAL);
	/* A state that this library did not write. */
	EQ(place_put(rank.sync, "bad/state",
		     "gpumap-cohort 1 epoch=01 world=2 version=1 forming -", 0,
		     0, &revision),
	   0);
	REFUSED(rank, 1, -EPROTO);
	OK(strstr(gpumap_refusal(NULL), "bad/state") != NULL);
	gpumap_sync_close(rank.sync);
}

static void tell(struct place *place)
{
	ranks_meet_and_leave(place);
	no_rank_receives_the_id_alone(place);
	one_that_leaves_takes_no_id_away(place);
	a_rank_that_ends_moves_the_epoch_on(place);
	a_lost_lease_ends_a_rank(place);
	a_rank_is_one_process(place);
	another_version_is_said_after_it_has_left(place);
	what_is_no_join_is_refused(place);
}

TAP_CASE()
{
	place_each(tell, SYNC_TTL_MS);
	return tap_done();
}
