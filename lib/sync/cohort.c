/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Cohorts: processes of several nodes meet over values that they share.
 *
 *	NAME/state		the epoch, and what it is in
 *	NAME/rank/EPOCH/R	ephemeral: the token of the connection that is
 *				rank R
 *
 *   - An epoch is FORMING, WHOLE with an id, then perhaps ENDED.  Each step,
 *     and the step to the next epoch, is a cas of the state: of two processes
 *     that take different steps at once one succeeds, and the other reads
 *     again.
 *   - Rank 0 makes the epoch WHOLE, with its id, once it has seen all ranks'
 *     keys.  A process joins only in a FORMING epoch, so each receives the id
 *     if its key was there, and is still its own.
 *   - A process gives up by moving the epoch on.  If rank 0 was faster, it has
 *     joined, also when a rank has left since: ENDED keeps the id.
 *   - A member that sees a rank's key gone in a WHOLE epoch moves the epoch on.
 *     A rank that leaves makes the epoch ENDED first.
 *   - The last to leave deletes the state, so the first epoch of a new one is
 *     random: no epoch ever comes again.
 */

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "lib/sync/cohort.h"
#include "lib/sync/shared_value.h"

#define KEY_ROOM   (GPUMAP_VALUE_KEY_MAX + 1)
#define STATE_ROOM 512u /* of a state as text */
/* Ends of ranks' keys: four digits and a NUL for each, and foreign ones. */
#define ENDS_ROOM (8u * GPUMAP_COHORT_RANKS_MAX)

/* For the last steps of a call whose deadline has passed. */
#define GRACE_NS (2 * GM_SECOND)

/* Beyond the lease of a node that has died. */
#define LAPSE_EXTRA_NS (2 * GM_SECOND)

enum phase { FORMING, WHOLE, ENDED };

static const char *const phases[] = { "forming", "whole", "ended" };

struct state {
	uint64_t revision; /* of the value; 0: there is none */
	uint64_t epoch;
	uint32_t world;
	uint32_t version;
	enum phase phase;
	bool has_id;
	uint8_t id[GPUMAP_COHORT_ID_BYTES];
};

/* ---- the state as text --------------------------------------------------- */

/* One form only: what is read has to be what this would write. */
static size_t write_state(const struct state *state, char text[STATE_ROOM])
{
	int n = snprintf(text, STATE_ROOM,
			 "gpumap-cohort 1 epoch=%" PRIu64
			 " world=%u version=%u %s ",
			 state->epoch, state->world, state->version,
			 phases[state->phase]);

	if (!state->has_id)
		text[n++] = '-';
	for (size_t i = 0; state->has_id && i < sizeof(state->id); i++)
		n += sprintf(text + n, "%02x", state->id[i]);
	return (size_t)n;
}

/* Take a number after @name from the text. */
static const char *take_number(const char *at, const char *name,
			       uint64_t *ret_number)
{
	size_t n = strlen(name);
	char *end;

	if (at == NULL || strncmp(at, name, n) != 0)
		return NULL;
	*ret_number = strtoull(at + n, &end, 10);
	return end;
}

static bool take_id(const char *text, uint8_t id[GPUMAP_COHORT_ID_BYTES])
{
	for (size_t i = 0; i < GPUMAP_COHORT_ID_BYTES; i++) {
		unsigned int byte;

		if (sscanf(text + 2 * i, "%2x", &byte) != 1)
			return false;
		id[i] = (uint8_t)byte;
	}
	return true;
}

static bool read_text(const char *text, size_t bytes, struct state *ret_state)
{
	struct state state = { .epoch = 0 };
	uint64_t world, version;
	char again[STATE_ROOM];
	const char *at =
		take_number(text, "gpumap-cohort 1 epoch=", &state.epoch);

	at = take_number(at, " world=", &world);
	at = take_number(at, " version=", &version);
	if (at == NULL || *at++ != ' ' || world == 0 ||
	    world > GPUMAP_COHORT_RANKS_MAX || version == 0 ||
	    version > UINT32_MAX || state.epoch == 0)
		return false;
	state.world = (uint32_t)world;
	state.version = (uint32_t)version;
	for (state.phase = FORMING; state.phase <= ENDED; state.phase++)
		if (strncmp(at, phases[state.phase],
			    strlen(phases[state.phase])) == 0)
			break;
	if (state.phase > ENDED)
		return false;
	at += strlen(phases[state.phase]);
	state.has_id = state.phase != FORMING;
	if (*at++ != ' ' || (state.has_id && !take_id(at, state.id)))
		return false;
	if (write_state(&state, again) != bytes ||
	    memcmp(again, text, bytes) != 0)
		return false;
	*ret_state = state;
	return true;
}

/* ---- values of a cohort -------------------------------------------------- */

static void name_state(const char *name, char key[KEY_ROOM])
{
	snprintf(key, KEY_ROOM, "%s/state", name);
}

static void name_ranks(const char *name, uint64_t epoch, char key[KEY_ROOM])
{
	snprintf(key, KEY_ROOM, "%s/rank/%" PRIu64 "/", name, epoch);
}

static void name_rank(const char *name, uint64_t epoch, uint32_t rank,
		      char key[KEY_ROOM])
{
	snprintf(key, KEY_ROOM, "%s/rank/%" PRIu64 "/%u", name, epoch, rank);
}

/* Returns 0, also when there is none: with revision 0. */
static int get_state(struct gpumap_sync *sync, const char *name,
		     struct state *ret_state)
{
	char key[KEY_ROOM], text[STATE_ROOM];
	uint64_t revision = 0;
	size_t bytes;
	int ret;

	memset(ret_state, 0, sizeof(*ret_state));
	name_state(name, key);
	ret = gm_shared_value_get(sync, key, text, sizeof(text) - 1, &bytes,
				  &revision);
	if (ret == -ENOENT)
		return 0;
	if (ret == 0)
		text[bytes] = '\0';
	if (ret == -ENOBUFS || (ret == 0 && !read_text(text, bytes, ret_state)))
		return gm_refuse(NULL, -EPROTO,
				 "the value %s is no state of a cohort that "
				 "this library knows: delete it, or give the "
				 "cohort another name",
				 key);
	ret_state->revision = revision;
	return ret;
}

/* Replace the state; @next NULL: delete it.  Returns as
 * gm_shared_value_cas(). */
static int put_state(struct gpumap_sync *sync, const char *name,
		     const struct state *now, struct state *next)
{
	char key[KEY_ROOM], text[STATE_ROOM];
	uint64_t revision = 0;
	size_t n = next != NULL ? write_state(next, text) : 0;
	int ret;

	name_state(name, key);
	ret = gm_shared_value_cas(sync,
				  &(struct gpumap_value_write){
					  .key = key,
					  .value = next != NULL ? text : NULL,
					  .bytes = n,
					  .expected = now->revision },
				  &revision);
	if (ret == 0 && next != NULL)
		next->revision = revision;
	return ret;
}

/* Move the epoch on, by a cas of the state. */
static int move_on(struct gpumap_sync *sync, const char *name,
		   const struct state *now, uint32_t world, uint32_t version)
{
	struct state next = { .epoch = now->epoch + 1,
			      .world = world,
			      .version = version };

	return put_state(sync, name, now, &next);
}

/*
 * List the ranks that are there.
 *
 * ret_bits	a bit for each rank of the world; NULL: their number alone
 *
 * Returns	their number, or as gm_shared_value_list()
 */
static int list_ranks(struct gpumap_sync *sync, const char *name,
		      const struct state *state, uint64_t *ret_bits)
{
	char prefix[KEY_ROOM], ends[ENDS_ROOM];
	uint64_t bits[GPUMAP_COHORT_RANKS_MAX / 64] = { 0 };
	size_t bytes;
	int ret, found = 0;

	name_ranks(name, state->epoch, prefix);
	ret = gm_shared_value_list(sync, prefix, ends, sizeof(ends), &bytes);
	if (ret != 0 && ret != -ENOBUFS)
		return ret;
	for (size_t at = 0; at < bytes; at += strlen(ends + at) + 1) {
		char again[12], *end;
		unsigned long rank = strtoul(ends + at, &end, 10);

		if (rank >= state->world)
			continue;
		snprintf(again, sizeof(again), "%lu", rank);
		if (strcmp(again, ends + at) != 0)
			continue;
		bits[rank / 64] |= UINT64_C(1) << (rank % 64);
		found++;
	}
	if (ret_bits != NULL)
		memcpy(ret_bits, bits, sizeof(bits));
	return found;
}

/* Is the rank's key this connection's own?  Returns 1, 0: another's, -ENOENT:
 * there is none, or as gm_shared_value_get(). */
static int is_ours(struct gpumap_sync *sync, const char *name, uint64_t epoch,
		   uint32_t rank, uint64_t *ret_revision)
{
	char key[KEY_ROOM], token[GM_SYNC_TOKEN_BYTES];
	uint64_t revision = 0;
	size_t bytes;
	int ret;

	name_rank(name, epoch, rank, key);
	ret = gm_shared_value_get(sync, key, token, sizeof(token), &bytes,
				  &revision);
	if (ret == -ENOBUFS)
		return 0;
	if (ret != 0)
		return ret;
	*ret_revision = revision;
	return bytes == sizeof(token) &&
	       memcmp(token, sync->token, sizeof(token)) == 0;
}

/* Delete this connection's key of a rank, if there is one. */
static int drop_rank(struct gpumap_sync *sync, const char *name, uint64_t epoch,
		     uint32_t rank)
{
	char key[KEY_ROOM];
	uint64_t revision;
	int ret = is_ours(sync, name, epoch, rank, &revision);

	if (ret != 1)
		return ret == 0 || ret == -ENOENT ? 0 : ret;
	name_rank(name, epoch, rank, key);
	ret = gm_shared_value_cas(sync,
				  &(struct gpumap_value_write){
					  .key = key, .expected = revision },
				  &revision);
	return ret == -ESTALE ? 0 : ret;
}

/* ---- joining ------------------------------------------------------------- */

/* An attempt ends with another one, or with the result of the call. */
enum { AGAIN = 1 };

struct joining {
	struct gpumap_sync *sync;
	const struct gpumap_cohort_join *join;
	uint64_t seen;  /* from before the state was read */
	uint64_t epoch; /* in which this connection has a rank's key; 0: none */
	/* Rank 0: the id may have been written in @epoch, and may have been
	 * received. */
	bool is_id_out;
	/* Until when what is in the way may be that of a dead process. */
	uint64_t lapse_ns;
	/* for the caller, if that is still so at the deadline; 0: nothing */
	int obstacle;
	char why[GM_WHY];
	/* that others had another world or version; "": they had not */
	char others[GM_WHY];
	struct state state;
	uint8_t *ret_id;
};

/* Sleep until something changes, or the deadline.  Returns AGAIN, or an
 * error. */
static int sleep_until(struct joining *j, const char *prefix, uint64_t until_ns)
{
	int ret = gm_shared_value_wait(j->sync, prefix, j->seen, until_ns,
				       &j->seen);

	return ret == 0 || ret == -ETIMEDOUT || ret == -ECANCELED ? AGAIN : ret;
}

static bool is_late(const struct joining *j)
{
	return gm_now_ns() >= j->sync->until_ns;
}

/* A rank that is in the way may end with a dead node's lease.  Returns AGAIN,
 * or @error when it has stayed. */
static int wait_for_lapse(struct joining *j, int error)
{
	char prefix[KEY_ROOM];
	uint64_t until = j->sync->until_ns;

	if (j->lapse_ns == 0)
		j->lapse_ns = gm_now_ns() + j->sync->lease_ns + LAPSE_EXTRA_NS;
	if (gm_now_ns() >= j->lapse_ns)
		return error;
	if (j->lapse_ns < until)
		until = j->lapse_ns;
	j->obstacle = error;
	snprintf(j->why, sizeof(j->why), "%s", gpumap_refusal(NULL));
	snprintf(prefix, sizeof(prefix), "%s/", j->join->name);
	return sleep_until(j, prefix, until);
}

static int refuse_others(struct joining *j)
{
	uint32_t theirs = j->state.version, ours = j->join->version;

	/* As NCCL prints its version. */
	gm_refuse(NULL, -EPROTO,
		  "processes have joined cohort %s with world %u and version "
		  "%u.%u.%u, and not %u and %u.%u.%u: give each job a cohort "
		  "of its own, and all its ranks one version",
		  j->join->name, j->state.world, theirs / 10000,
		  theirs / 100 % 100, theirs % 100, j->join->world,
		  ours / 10000, ours / 100 % 100, ours % 100);
	snprintf(j->others, sizeof(j->others), "%s", gpumap_refusal(NULL));
	return wait_for_lapse(j, -EPROTO);
}

static int refuse_busy(struct joining *j)
{
	gm_refuse(NULL, -EBUSY,
		  "another process is rank %u of cohort %s: end it, or give "
		  "each job a cohort of its own",
		  j->join->rank, j->join->name);
	return wait_for_lapse(j, -EBUSY);
}

/* Returns AGAIN, also when another process has been faster. */
static int begin_anew(struct joining *j)
{
	int ret = move_on(j->sync, j->join->name, &j->state, j->join->world,
			  j->join->version);

	return ret == 0 || ret == -ESTALE || ret == -ETIMEDOUT ? AGAIN : ret;
}

static int make_state(struct joining *j)
{
	struct state state = { .world = j->join->world,
			       .version = j->join->version };
	int ret;

	if (getrandom(&state.epoch, sizeof(state.epoch), 0) !=
	    (ssize_t)sizeof(state.epoch))
		return gm_refuse_plain(NULL, -errno);
	state.epoch = (state.epoch >> 16) + 1; /* room to grow */
	ret = put_state(j->sync, j->join->name, &j->state, &state);
	return ret == 0 || ret == -ESTALE || ret == -ETIMEDOUT ? AGAIN : ret;
}

/* The epoch is one that this process cannot join. */
static int pass_by(struct joining *j, bool is_other)
{
	char prefix[KEY_ROOM];
	int n = list_ranks(j->sync, j->join->name, &j->state, NULL);

	if (n < 0)
		return n;
	if (n == 0)
		return begin_anew(j);
	if (is_other)
		return refuse_others(j);
	/* Its ranks are leaving. */
	snprintf(prefix, sizeof(prefix), "%s/", j->join->name);
	return sleep_until(j, prefix, j->sync->until_ns);
}

/* The epoch has its id: is it this rank's, too? */
static int enter_whole(struct joining *j)
{
	uint64_t revision;
	int ret = is_ours(j->sync, j->join->name, j->state.epoch, j->join->rank,
			  &revision);

	if (ret == 0)
		return refuse_busy(j);
	if (ret == -ENOENT && j->state.phase == ENDED)
		return pass_by(j, false);
	if (ret == -ENOENT)
		return begin_anew(j);
	if (ret != 1)
		return ret;
	memcpy(j->ret_id, j->state.id, sizeof(j->state.id));
	return 0;
}

/* Have this rank's key in the epoch.  Returns 0 with it. */
static int take_rank(struct joining *j)
{
	const struct gpumap_cohort_join *join = j->join;
	char key[KEY_ROOM];
	uint64_t revision;
	int ret;

	if (j->epoch == j->state.epoch)
		return 0;
	if (j->epoch != 0)
		drop_rank(j->sync, join->name, j->epoch, join->rank);
	j->epoch = 0;
	name_rank(join->name, j->state.epoch, join->rank, key);
	ret = gm_shared_value_cas(
		j->sync,
		&(struct gpumap_value_write){ .key = key,
					      .value = j->sync->token,
					      .bytes = GM_SYNC_TOKEN_BYTES,
					      .flags = GPUMAP_VALUE_EPHEMERAL },
		&revision);
	if (ret == 0)
		j->epoch = j->state.epoch;
	if (ret != -ESTALE)
		/* The epoch may have moved on meanwhile. */
		return ret == 0 || ret == -ETIMEDOUT ? AGAIN : ret;
	ret = is_ours(j->sync, join->name, j->state.epoch, join->rank,
		      &revision);
	if (ret == 0)
		return refuse_busy(j);
	if (ret == 1)
		j->epoch = j->state.epoch;
	return ret == 1 || ret == -ENOENT ? AGAIN : ret;
}

/* Rank 0, with its key: give out the id when all have come. */
static int give_id(struct joining *j)
{
	const struct gpumap_cohort_join *join = j->join;
	bool was_out = j->is_id_out;
	struct state next = j->state;
	char prefix[KEY_ROOM];
	int n = list_ranks(j->sync, join->name, &j->state, NULL);

	if (n < 0)
		return n;
	if ((uint32_t)n < join->world) {
		snprintf(prefix, sizeof(prefix), "%s/", join->name);
		return sleep_until(j, prefix, j->sync->until_ns);
	}
	next.phase = WHOLE;
	next.has_id = true;
	memcpy(next.id, join->id, sizeof(next.id));
	j->is_id_out = true;
	n = put_state(j->sync, join->name, &j->state, &next);
	if (n == 0 || n == -ETIMEDOUT)
		return AGAIN; /* read it back, with this rank's key */
	j->is_id_out = was_out;
	return n == -ESTALE ? AGAIN : n;
}

static int attempt(struct joining *j)
{
	const struct gpumap_cohort_join *join = j->join;
	char key[KEY_ROOM];
	bool is_other;
	int ret;

	j->obstacle = 0;
	ret = get_state(j->sync, join->name, &j->state);
	if (ret != 0)
		return ret;
	if (j->is_id_out && j->state.epoch != j->epoch)
		return gm_refuse(NULL, -ESTALE,
				 "the epoch of cohort %s has moved on since "
				 "rank 0 gave out its id: make another",
				 join->name);
	if (j->state.revision == 0)
		return make_state(j);
	is_other = j->state.world != join->world ||
		   j->state.version != join->version;
	/* All ranks have met, and some of them may have left since. */
	if (!is_other && j->state.phase == ENDED && j->epoch == j->state.epoch)
		return enter_whole(j);
	if (is_other || j->state.phase == ENDED)
		return pass_by(j, is_other);
	if (j->state.phase == WHOLE)
		return enter_whole(j);
	ret = take_rank(j);
	if (ret != 0)
		return ret;
	if (join->rank == 0)
		return give_id(j);
	name_state(join->name, key);
	return sleep_until(j, key, j->sync->until_ns);
}

/* Say which ranks have not come. */
static void name_missing(struct joining *j)
{
	uint64_t bits[GPUMAP_COHORT_RANKS_MAX / 64];
	char ranks[128];
	uint32_t missing = 0;
	size_t n = 0;
	int found = list_ranks(j->sync, j->join->name, &j->state, bits);

	ranks[0] = '\0';
	for (uint32_t i = 0; found >= 0 && i < j->state.world; i++)
		if ((bits[i / 64] >> (i % 64) & 1) == 0 && missing++ < 8)
			n += (size_t)snprintf(ranks + n, sizeof(ranks) - n,
					      "%s%u", n > 0 ? ", " : "", i);
	gm_refuse(NULL, -ETIMEDOUT,
		  "of cohort %s ranks have not joined in time: %s%s",
		  j->join->name, n > 0 ? ranks : "gpumap-sync cannot say which",
		  missing > 8 ? " and more" : "");
}

/* The deadline has passed: move the epoch on, unless rank 0 has given out the
 * id.  Returns 0: then this rank has joined; or an error. */
static int give_up(struct joining *j)
{
	char why[GM_WHY];
	int ret;

	j->sync->until_ns = gm_now_ns() + GRACE_NS;
	for (;;) {
		ret = get_state(j->sync, j->join->name, &j->state);
		if (ret != 0 || j->epoch == 0 || j->state.epoch != j->epoch)
			break;
		if (j->state.phase != FORMING)
			return enter_whole(j);
		name_missing(j);
		snprintf(why, sizeof(why), "%s", gpumap_refusal(NULL));
		ret = move_on(j->sync, j->join->name, &j->state, j->state.world,
			      j->state.version);
		if (ret == -ESTALE && !is_late(j))
			continue;
		gm_map_refuse(NULL, why);
		return -ETIMEDOUT;
	}
	if (ret == 0)
		ret = gm_refuse(NULL, -ETIMEDOUT,
				"the ranks of cohort %s did not meet in time",
				j->join->name);
	return ret;
}

static int meet(struct joining *j)
{
	char why[GM_WHY];
	int ret;

	do {
		ret = attempt(j);
		if (ret == -ETIMEDOUT && !is_late(j))
			ret = AGAIN; /* the store's time was up */
		if (ret == AGAIN && j->sync->lease_lost) {
			j->sync->lease_lost = false;
			gm_map_refuse(NULL, j->sync->lease_why);
			ret = -ESTALE;
		}
	} while (ret == AGAIN && !is_late(j));
	if (ret == AGAIN && j->obstacle != 0) {
		gm_map_refuse(NULL, j->why);
		ret = j->obstacle;
	}
	if ((ret == AGAIN || ret == -ETIMEDOUT) && !j->sync->is_lost)
		ret = give_up(j);
	if (ret == 0)
		return 0;
	if (ret == AGAIN)
		ret = -ETIMEDOUT;
	/* They gave up just before, and this is why ranks are missing. */
	if (ret == -ETIMEDOUT && j->others[0] != '\0') {
		gm_map_refuse(NULL, j->others);
		ret = -EPROTO;
	}
	if (j->epoch == 0 || j->sync->is_lost)
		return ret;
	snprintf(why, sizeof(why), "%s", gpumap_refusal(NULL));
	j->sync->until_ns = gm_now_ns() + GRACE_NS;
	drop_rank(j->sync, j->join->name, j->epoch, j->join->rank);
	gm_map_refuse(NULL, why);
	return ret;
}

static int check_join(const struct gpumap_cohort_join *join)
{
	size_t n = join->name != NULL ? strnlen(join->name, GPUMAP_NAME_MAX + 1)
				      : 0;

	if (n == 0 || n > GPUMAP_NAME_MAX || strchr(join->name, '/') != NULL)
		return gm_refuse(NULL, -EINVAL,
				 "a cohort's name has 1 to %d bytes, and no "
				 "'/'",
				 GPUMAP_NAME_MAX);
	if (join->world == 0 || join->world > GPUMAP_COHORT_RANKS_MAX ||
	    join->rank >= join->world)
		return gm_refuse(NULL, -EINVAL,
				 "a cohort has 1 to %d ranks, from 0 on",
				 GPUMAP_COHORT_RANKS_MAX);
	if (join->version == 0 || join->reserved != 0)
		return gm_refuse(
			NULL, -EINVAL,
			"the version is 0, or a field that has to be 0 "
			"is not");
	if ((join->id != NULL) != (join->rank == 0))
		return gm_refuse(NULL, -EINVAL,
				 "rank 0 brings an id, and no other rank does");
	return 0;
}

/* The rank of an epoch that has moved on ends. */
static int end_old_rank(struct gpumap_sync *sync)
{
	struct gm_cohort *cohort = &sync->cohort;
	int ret;

	if (cohort->name[0] == '\0')
		return 0;
	if (!cohort->moved)
		return gm_refuse(NULL, -EALREADY,
				 "this connection is rank %u of cohort %s: "
				 "leave it, or use another connection",
				 cohort->rank, cohort->name);
	ret = drop_rank(sync, cohort->name, cohort->epoch, cohort->rank);
	if (ret == 0)
		memset(cohort, 0, sizeof(*cohort));
	return ret;
}

static int join_locked(struct gpumap_sync *sync,
		       const struct gpumap_cohort_join *join, uint8_t *ret_id)
{
	struct joining j = { .sync = sync, .join = join, .ret_id = ret_id };
	struct gm_cohort *cohort = &sync->cohort;
	int ret = end_old_rank(sync);

	sync->lease_lost = false;
	if (join->deadline_ns != 0)
		sync->until_ns = join->deadline_ns;
	else
		sync->until_ns = GPUMAP_NO_DEADLINE;
	if (ret == 0)
		ret = gm_shared_value_wait(sync, "", 0, sync->until_ns,
					   &j.seen);
	if (ret == 0)
		ret = meet(&j);
	if (ret != 0)
		return ret;
	snprintf(cohort->name, sizeof(cohort->name), "%s", join->name);
	cohort->epoch = j.state.epoch;
	cohort->world = join->world;
	cohort->rank = join->rank;
	cohort->seen = j.seen;
	cohort->changed = true; /* since rank 0 saw the ranks */
	return 0;
}

int gpumap_cohort_join(struct gpumap_sync *sync,
		       const struct gpumap_cohort_join *join,
		       uint8_t ret_id[GPUMAP_COHORT_ID_BYTES],
		       uint64_t *ret_epoch)
{
	uint8_t id[GPUMAP_COHORT_ID_BYTES];
	struct gpumap_cohort_join ours;
	int ret = gm_sync_link_begin(sync);

	if (ret != 0)
		return ret;
	ret = gm_map_size_in(NULL, &ours, sizeof(ours), join);
	if (ret == 0)
		ret = check_join(&ours);
	if (ret == 0)
		ret = join_locked(sync, &ours, id);
	if (ret == 0) {
		memcpy(ret_id, id, sizeof(id));
		if (ret_epoch != NULL)
			*ret_epoch = sync->cohort.epoch;
		gm_refuse_plain(NULL, 0);
	}
	return gm_sync_link_end(sync, ret);
}

/* ---- afterwards ---------------------------------------------------------- */

enum { MOVED = 2 };

/* Read the state.  Returns MOVED, 0: it has not moved on, AGAIN: look again, or
 * an error. */
static int look_at(struct gpumap_sync *sync)
{
	const struct gm_cohort *cohort = &sync->cohort;
	struct state state;
	int ret = get_state(sync, cohort->name, &state);

	if (ret != 0)
		return ret;
	if (state.revision == 0 || state.epoch != cohort->epoch)
		return MOVED;
	if (state.phase != WHOLE)
		return 0;
	ret = list_ranks(sync, cohort->name, &state, NULL);
	if (ret < 0)
		return ret;
	if ((uint32_t)ret == cohort->world)
		return 0;
	/* Fails if the rank has left, and not died: it says so before. */
	ret = move_on(sync, cohort->name, &state, state.world, state.version);
	if (ret == -ESTALE || ret == -ETIMEDOUT)
		return AGAIN;
	return ret == 0 ? MOVED : ret;
}

int gm_cohort_look(struct gpumap_sync *sync)
{
	struct gm_cohort *cohort = &sync->cohort;
	char prefix[KEY_ROOM];
	int ret = 0;

	if (cohort->name[0] == '\0' || cohort->moved ||
	    (!cohort->changed && !cohort->is_unsure))
		return 0;
	snprintf(prefix, sizeof(prefix), "%s/", cohort->name);
	if (cohort->changed)
		ret = gm_shared_value_ask_wait(sync, prefix, cohort->seen,
					       &cohort->serial);
	if (ret != 0)
		return ret == -ECONNRESET ? ret : 0;
	cohort->changed = false;
	sync->until_ns = gm_now_ns() + GRACE_NS;
	do
		ret = look_at(sync);
	while (ret == AGAIN && gm_now_ns() < sync->until_ns);
	if (ret == -ECONNRESET)
		return ret;
	/* Where the store cannot be reached, the next change or call looks
	 * again. */
	cohort->is_unsure = ret != 0 && ret != MOVED;
	cohort->moved = ret == MOVED || cohort->moved;
	return 0;
}

/* Write what the leaving of this rank makes of the epoch. */
static int end_epoch(struct gpumap_sync *sync, bool is_broken)
{
	const struct gm_cohort *cohort = &sync->cohort;
	struct state state, next;
	int ret;

	do {
		ret = get_state(sync, cohort->name, &state);
		if (ret != 0 || state.revision == 0 ||
		    state.epoch != cohort->epoch)
			return ret;
		next = state;
		next.phase = ENDED;
		if (is_broken)
			ret = move_on(sync, cohort->name, &state, state.world,
				      state.version);
		else if (state.phase == WHOLE)
			ret = put_state(sync, cohort->name, &state, &next);
	} while (ret == -ESTALE && gm_now_ns() < sync->until_ns);
	return ret;
}

/* After the last rank has left there is no more use for the state. */
static int clean_up(struct gpumap_sync *sync)
{
	const struct gm_cohort *cohort = &sync->cohort;
	struct state state;
	int ret = get_state(sync, cohort->name, &state);

	if (ret != 0 || state.revision == 0 || state.epoch != cohort->epoch ||
	    state.phase != ENDED)
		return ret;
	ret = list_ranks(sync, cohort->name, &state, NULL);
	if (ret != 0)
		return ret > 0 ? 0 : ret;
	ret = put_state(sync, cohort->name, &state, NULL);
	return ret == -ESTALE ? 0 : ret;
}

int gpumap_cohort_leave(struct gpumap_sync *sync, uint32_t flags)
{
	struct gm_cohort *cohort = &sync->cohort;
	bool is_broken = flags == GPUMAP_COHORT_BROKEN;
	int ret = gm_sync_link_begin(sync);

	if (ret != 0)
		return ret;
	if ((flags & ~GPUMAP_COHORT_BROKEN) != 0)
		return gm_sync_link_end(
			sync, gm_refuse(NULL, -EINVAL,
					"a flag of leaving is not known"));
	if (cohort->name[0] == '\0')
		return gm_sync_link_end(
			sync, gm_refuse(NULL, -ENOENT,
					"this connection is no rank of a "
					"cohort"));
	ret = end_epoch(sync, is_broken);
	if (ret == 0)
		ret = drop_rank(sync, cohort->name, cohort->epoch,
				cohort->rank);
	if (ret == 0 && !is_broken)
		ret = clean_up(sync);
	memset(cohort, 0, sizeof(*cohort));
	return gm_sync_link_end(sync, ret);
}

_Static_assert(GPUMAP_COHORT_ID_BYTES == GPUMAP_MESH_ID_BYTES, "one id");
