/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "tests/unit/store/store_stories.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/dice.h"
#include "tests/support/process.h"
#include "tests/support/tap.h"
#include "tests/support/nodes/store_rig.h"

static char text[GM_STORE_VALUE_BYTES + 2];

/* A process with a store of its own.  @act does not return. */
static pid_t start(const struct gm_store_opts *opts,
		   void (*act)(struct gm_store *store, int out), int *ret_out)
{
	int ends[2] = { -1, -1 };
	pid_t pid;

	*ret_out = -1;
	if (pipe(ends) != 0)
		return -1;
	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(ends[0]);
		act(rig_open(opts), ends[1]);
		_exit(0);
	}
	close(ends[1]);
	*ret_out = ends[0];
	return pid;
}

static void end(pid_t pid)
{
	kill(pid, SIGKILL);
	EQ(waitpid(pid, NULL, 0), pid);
}

/* ---- values -------------------------------------------------------------- */

static void texts_come_back(struct gm_store *store)
{
	struct rig_result result;
	uint64_t first, second;

	EQ(rig_get(store, "nodes/a", text, NULL), 0);
	STR(text, "");
	EQ(rig_put(store, "nodes/a", "one", NULL, &result), 0);
	first = result.revision;
	OK(first != 0);
	EQ(rig_get(store, "nodes/a", text, &second), 0);
	STR(text, "one");
	OK(first == second);
	EQ(rig_put(store, "nodes/a", "two", NULL, &result), 0);
	OK(result.revision != first);
	EQ(rig_get(store, "nodes/a", text, &second), 0);
	STR(text, "two");
	OK(result.revision == second);
	EQ(rig_put(store, "nodes/a", "", NULL, NULL), 0);
	EQ(rig_count(store, "nodes/a"), 1);
	EQ(rig_put(store, "nodes/a", NULL, NULL, NULL), 0);
	EQ(rig_put(store, "nodes/a", NULL, NULL, NULL), 0);
	EQ(rig_count(store, ""), 0);
}

static void lists_have_what_begins_so(struct gm_store *store)
{
	static const char *const keys[] = { "nodes/a",    "nodes/ab",
					    "nodes/b",    "nodesX",
					    "groups/a/1", "groups/a-1.2_3" };

	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		EQ(rig_put(store, keys[i], keys[i], NULL, NULL), 0);
	EQ(rig_count(store, ""), 6);
	EQ(rig_count(store, "nodes/"), 3);
	EQ(rig_count(store, "nodes/a"), 2);
	EQ(rig_count(store, "nodes"), 4);
	EQ(rig_count(store, "groups/"), 2);
	EQ(rig_count(store, "none/"), 0);
	EQ(rig_get(store, "groups/a/1", text, NULL), 0);
	STR(text, "groups/a/1");
	rig_remove_all(store);
	EQ(rig_count(store, ""), 0);
}

static void keys_are_of_few_characters(struct gm_store *store)
{
	static const char *const bad[] = { "",    "/a",   "a/",       "a//b",
					   ".a",  "a/.b", "a/../b",   "a b",
					   "a+b", "a@b",  "\xc3\xa9", "a\n",
					   "a=b", "a\\b" };
	char key[GM_STORE_KEY_BYTES + 1];

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		EQ(rig_put(store, bad[i], "x", NULL, NULL), -EINVAL);
	memset(key, 'k', sizeof(key));
	key[GM_STORE_KEY_BYTES] = '\0';
	EQ(rig_put(store, key, "x", NULL, NULL), -EINVAL);
	key[GM_STORE_KEY_BYTES - 1] = '\0';
	EQ(rig_put(store, key, "x", NULL, NULL), 0);
	EQ(rig_get(store, key, text, NULL), 0);
	STR(text, "x");
	EQ(rig_put(store, key, NULL, NULL, NULL), 0);
}

static void values_have_a_limit(struct gm_store *store)
{
	static char most[GM_STORE_VALUE_BYTES + 2];

	for (size_t i = 0; i < GM_STORE_VALUE_BYTES; i++)
		most[i] = (char)(1 + dice(255));
	EQ(rig_put(store, "big", most, NULL, NULL), 0);
	EQ(rig_get(store, "big", text, NULL), 0);
	OK(strcmp(text, most) == 0);
	most[GM_STORE_VALUE_BYTES] = 'x';
	EQ(rig_put(store, "big", most, NULL, NULL), -E2BIG);
	EQ(rig_put(store, "big", NULL, NULL, NULL), 0);
}

static void many_keys_are_listed(struct gm_store *store)
{
	enum { MANY = 200 };
	char key[32];

	for (int i = 0; i < MANY; i++) {
		snprintf(key, sizeof(key), "many/%d", i);
		if (rig_put(store, key, key, NULL, NULL) != 0)
			OK(!"put");
	}
	EQ(rig_count(store, "many/"), MANY);
	rig_remove_all(store);
	EQ(rig_count(store, ""), 0);
}

void stories_of_values(const struct store_place *place)
{
	struct gm_store *store = rig_open(&place->opts);

	texts_come_back(store);
	lists_have_what_begins_so(store);
	keys_are_of_few_characters(store);
	values_have_a_limit(store);
	many_keys_are_listed(store);
	gm_store_close(store);
}

/* ---- cas ----------------------------------------------------------------- */

static void one_revision_is_expected(struct gm_store *store)
{
	struct rig_result result;
	uint64_t first, second;

	EQ(rig_cas(store, "id", "a", 0, &result), 0);
	first = result.revision;
	EQ(rig_cas(store, "id", "b", 0, &result), -ESTALE);
	OK(result.revision == first);
	OK(strstr(result.why, "id") != NULL);
	EQ(rig_cas(store, "id", "b", first, &result), 0);
	second = result.revision;
	EQ(rig_cas(store, "id", "c", first, &result), -ESTALE);
	OK(result.revision == second);
	EQ(rig_cas(store, "id", NULL, first, NULL), -ESTALE);
	EQ(rig_cas(store, "id", NULL, second, NULL), 0);
	EQ(rig_cas(store, "id", "d", second, &result), -ESTALE);
	OK(result.revision == 0);
	EQ(rig_cas(store, "id", NULL, 0, NULL), 0);
}

/* A key that is made anew has none of its earlier revisions. */
static void revisions_do_not_come_back(struct gm_store *store)
{
	uint64_t old[16];
	struct rig_result result;

	for (int i = 0; i < 16; i++) {
		EQ(rig_cas(store, "again", "x", 0, &result), 0);
		old[i] = result.revision;
		for (int j = 0; j < i; j++)
			if (old[j] == old[i] ||
			    rig_cas(store, "again", "y", old[j], NULL) !=
				    -ESTALE)
				OK(!"an old revision is not expected");
		EQ(rig_cas(store, "again", NULL, old[i], NULL), 0);
	}
}

enum { RACERS = 8, RACES = 40, KILLED = 2 };

/* A racer has written a number. */
struct race {
	uint64_t expected, revision;
	uint64_t number;
};

static void race(struct gm_store *store, int out)
{
	char number[GM_STORE_VALUE_BYTES + 1];

	for (int won = 0; won < RACES;) {
		struct rig_result result;
		struct race race = { 0 };
		int ret = rig_get(store, "race", number, &race.expected);

		if (ret != 0)
			_exit(2);
		race.number = strtoull(number, NULL, 10) + 1;
		snprintf(number, sizeof(number), "%" PRIu64 " by %d",
			 race.number, getpid());
		ret = rig_cas(store, "race", number, race.expected, &result);
		if (ret == -ESTALE || ret == -EBUSY)
			continue;
		if (ret != 0)
			_exit(3);
		race.revision = result.revision;
		if (write(out, &race, sizeof(race)) != sizeof(race))
			_exit(4);
		won++;
	}
}

/* Kill some in the middle.  Returns what all have said. */
static struct race *run_race(const struct store_place *place, size_t *ret_n)
{
	struct race *races = calloc(RACERS * RACES + 1, sizeof(*races));
	pid_t pids[RACERS];
	int outs[RACERS];

	*ret_n = 0;
	for (int i = 0; i < RACERS; i++)
		pids[i] = start(&place->direct, race, &outs[i]);
	for (int i = 0; i < RACERS; i++) {
		int status, n = 0;

		while (read(outs[i], &races[*ret_n], sizeof(*races)) ==
		       sizeof(*races)) {
			(*ret_n)++;
			if (i < KILLED && ++n == RACES / 2)
				kill(pids[i], SIGKILL);
		}
		close(outs[i]);
		EQ(waitpid(pids[i], &status, 0), pids[i]);
		if (i >= KILLED)
			EQ(status, 0);
	}
	return races;
}

static int by_number(const void *a, const void *b)
{
	const struct race *x = a, *y = b;

	return x->number < y->number ? -1 : x->number > y->number;
}

/* Every number was written by one racer, over the value before it. */
static void one_wins_each(struct gm_store *store,
			  const struct store_place *place)
{
	uint64_t last, lost = 0, wrong = 0;
	struct race *races;
	size_t n;

	races = run_race(place, &n);
	qsort(races, n, sizeof(*races), by_number);
	EQ(rig_get(store, "race", text, NULL), 0);
	last = strtoull(text, NULL, 10);
	OK(n >= (RACERS - KILLED) * RACES);
	/* A killed racer may not have said the last that it wrote. */
	for (size_t i = 0; i < n; i++) {
		uint64_t before = i > 0 ? races[i - 1].number : 0;

		if (races[i].number == before)
			wrong++;
		else
			lost += races[i].number - before - 1;
		if (i > 0 && races[i].number == before + 1 &&
		    races[i].expected != races[i - 1].revision)
			wrong++;
	}
	EQ(wrong, 0);
	OK(last >= races[n - 1].number);
	lost += last - races[n - 1].number;
	OK(lost <= KILLED);
	NOTE("%zu said, the last is %" PRIu64, n, last);
	free(races);
	EQ(rig_put(store, "race", NULL, NULL, NULL), 0);
}

void stories_of_cas(const struct store_place *place)
{
	struct gm_store *store = rig_open(&place->opts);

	one_revision_is_expected(store);
	revisions_do_not_come_back(store);
	one_wins_each(store, place);
	EQ(rig_count(store, ""), 0);
	gm_store_close(store);
}

/* ---- watches ------------------------------------------------------------- */

static void changes_are_seen(struct gm_store *store, struct gm_store *other)
{
	struct rig_watch nodes, all;

	EQ(rig_put(other, "nodes/a", "a1", NULL, NULL), 0);
	EQ(rig_put(other, "groups/x", "x1", NULL, NULL), 0);
	rig_watch(store, &nodes, "nodes/");
	OK(rig_resyncs(store, &nodes, 1));
	STR(rig_seen(&nodes, "nodes/a"), "a1");
	EQ(nodes.n_puts, 1);
	EQ(gm_store_watch(store, &nodes.watch), -EBUSY);
	rig_watch(store, &all, "");
	OK(rig_resyncs(store, &all, 1));
	EQ(all.n_puts, 2);
	EQ(rig_put(other, "nodes/a", "a2", NULL, NULL), 0);
	OK(rig_sees(store, &nodes, "nodes/a", "a2"));
	OK(rig_sees(store, &all, "nodes/a", "a2"));
	EQ(rig_put(other, "nodes/b", "b1", NULL, NULL), 0);
	OK(rig_sees(store, &nodes, "nodes/b", "b1"));
	EQ(rig_put(other, "nodes/a", NULL, NULL, NULL), 0);
	OK(rig_sees(store, &nodes, "nodes/a", ""));
	EQ(rig_cas(other, "nodes/a", "a3", 0, NULL), 0);
	OK(rig_sees(store, &nodes, "nodes/a", "a3"));
	EQ(rig_put(other, "groups/x", NULL, NULL, NULL), 0);
	OK(rig_sees(store, &all, "groups/x", ""));
	STR(rig_seen(&nodes, "groups/x"), "");
	EQ(nodes.n_cuts, 0);
	EQ(nodes.n_deletes, 1);
	rig_remove_all(other);
	OK(rig_sees(store, &all, "nodes/b", ""));
	gm_store_close(store);
	rig_watch_end(&nodes);
	rig_watch_end(&all);
}

static void change_much(struct gm_store *store, int out)
{
	char key[32], value[32];

	for (int i = 0; i < 400; i++) {
		snprintf(key, sizeof(key), "w/%d", (int)dice(8));
		snprintf(value, sizeof(value), "%d", i);
		if (rig_put(store, key, dice(4) != 0 ? value : NULL, NULL,
			    NULL) != 0)
			_exit(1);
	}
	if (rig_put(store, "w/end", "end", NULL, NULL) != 0)
		_exit(2);
}

/* In the end a watch has said all that is there. */
static void the_last_values_are_seen(const struct store_place *place)
{
	struct gm_store *store = rig_open(&place->opts);
	struct rig_watch watch;
	pid_t pid;
	int out, status;

	rig_watch(store, &watch, "w/");
	OK(rig_resyncs(store, &watch, 1));
	pid = start(&place->direct, change_much, &out);
	OK(rig_sees(store, &watch, "w/end", "end"));
	EQ(waitpid(pid, &status, 0), pid);
	EQ(status, 0);
	close(out);
	EQ(rig_put(store, "w/last", "last", NULL, NULL), 0);
	OK(rig_sees(store, &watch, "w/last", "last"));
	EQ(rig_count(store, "w/"), watch.values.n);
	for (size_t i = 0; i < watch.values.n; i++) {
		const char *key = watch.values.list[i]->key;
		uint64_t revision;

		EQ(rig_get(store, key, text, &revision), 0);
		STR(text, rig_seen(&watch, key));
		OK(revision == watch.values.list[i]->revision);
	}
	NOTE("%u puts and %u deletes were said", watch.n_puts, watch.n_deletes);
	rig_remove_all(store);
	gm_store_close(store);
	rig_watch_end(&watch);
}

void stories_of_watches(const struct store_place *place)
{
	struct gm_store *other = rig_open(&place->direct);

	changes_are_seen(rig_open(&place->opts), other);
	gm_store_close(other);
	the_last_values_are_seen(place);
}

/* ---- leases -------------------------------------------------------------- */

static uint32_t owner_ttl_ms;

/* Have a key with a lease, and renew it. */
static void own(struct gm_store *store, int out)
{
	struct rig_lease lease;
	unsigned int n_lost = 0;

	if (!rig_lease(store, &lease, owner_ttl_ms) ||
	    rig_put(store, "owned/a", "mine", &lease.lease, NULL) != 0 ||
	    write(out, "o", 1) != 1)
		_exit(1);
	for (;;) {
		rig_run(store, 20);
		if (lease.n_lost == n_lost || !lease.lease.held)
			continue;
		n_lost = lease.n_lost;
		if (rig_put(store, "owned/a", "again", &lease.lease, NULL) !=
			    0 ||
		    write(out, "l", 1) != 1)
			_exit(2);
	}
}

static pid_t start_owner(const struct store_place *place, int *ret_out)
{
	char ready = 0;
	pid_t pid = start(&place->direct, own, ret_out);

	OK(read(*ret_out, &ready, 1) == 1 && ready == 'o');
	return pid;
}

/* A lease holds as long as its owner lives, and no longer. */
static void a_killed_owner_s_keys_end(struct gm_store *store,
				      const struct store_place *place)
{
	struct rig_watch watch;
	unsigned int n_lost;
	uint64_t since_ns;
	char word = 0;
	pid_t pid;
	int out;

	rig_watch(store, &watch, "owned/");
	pid = start_owner(place, &out);
	OK(rig_sees(store, &watch, "owned/a", "mine"));
	rig_run(store, 3 * place->ttl_ms);
	/* An owner that did not run in time to renew it says so. */
	n_lost = watch.n_deletes;
	for (unsigned int i = 0; i < n_lost; i++)
		OK(read(out, &word, 1) == 1 && word == 'l');
	OK(rig_sees(store, &watch, "owned/a", n_lost == 0 ? "mine" : "again"));
	end(pid);
	close(out);
	since_ns = rig_now();
	OK(rig_sees(store, &watch, "owned/a", ""));
	NOTE("gone %u ms after the death, TTL %u ms",
	     (unsigned int)((rig_now() - since_ns) / 1000000), place->ttl_ms);
	EQ(rig_count(store, "owned/"), 0);
	EQ(watch.n_deletes, n_lost + 1);
	gm_store_close(store);
	rig_watch_end(&watch);
}

/* An owner that stood still learns that its lease has ended. */
static void a_stopped_owner_learns_it(struct gm_store *store,
				      const struct store_place *place)
{
	struct rig_watch watch;
	char said = 0;
	pid_t pid;
	int out;

	rig_watch(store, &watch, "owned/");
	pid = start_owner(place, &out);
	OK(rig_sees(store, &watch, "owned/a", "mine"));
	OK(process_stop(pid));
	OK(rig_sees(store, &watch, "owned/a", ""));
	kill(pid, SIGCONT);
	OK(read(out, &said, 1) == 1 && said == 'l');
	OK(rig_sees(store, &watch, "owned/a", "again"));
	end(pid);
	close(out);
	OK(rig_sees(store, &watch, "owned/a", ""));
	gm_store_close(store);
	rig_watch_end(&watch);
}

static void an_end_gives_it_back(struct gm_store *store,
				 const struct store_place *place)
{
	struct gm_store *owner = rig_open(&place->opts);
	struct rig_lease lease, unheld = { .lease = { .ttl_ms = 1 } };
	struct rig_watch watch;
	struct rig_result result;

	EQ(gm_store_lease(owner, &unheld.lease), -EINVAL);
	EQ(rig_put(owner, "owned/b", "mine", &unheld.lease, &result),
	   -EOWNERDEAD);
	OK(strstr(result.why, "lease") != NULL);
	rig_watch(store, &watch, "owned/");
	OK(rig_lease(owner, &lease, 60000));
	EQ(lease.n_held, 1);
	EQ(gm_store_lease(owner, &lease.lease), -EBUSY);
	EQ(rig_put(owner, "owned/b", "mine", &lease.lease, NULL), 0);
	EQ(rig_cas(owner, "owned/c", "mine", 0, NULL), 0);
	OK(rig_sees(store, &watch, "owned/b", "mine"));
	gm_store_close(owner);
	OK(rig_sees(store, &watch, "owned/b", ""));
	STR(rig_seen(&watch, "owned/c"), "mine");
	rig_remove_all(store);
	gm_store_close(store);
	rig_watch_end(&watch);
}

/* Another node has written the key without the lease. */
static void a_later_value_stays(struct gm_store *store,
				const struct store_place *place)
{
	struct rig_watch watch;
	pid_t pid;
	int out;

	rig_watch(store, &watch, "owned/");
	pid = start_owner(place, &out);
	OK(rig_sees(store, &watch, "owned/a", "mine"));
	EQ(rig_put(store, "owned/a", "yours", NULL, NULL), 0);
	end(pid);
	close(out);
	OK(rig_sees(store, &watch, "owned/a", "yours"));
	rig_run(store, 2 * place->ttl_ms);
	STR(rig_seen(&watch, "owned/a"), "yours");
	rig_remove_all(store);
	gm_store_close(store);
	rig_watch_end(&watch);
}

void stories_of_leases(const struct store_place *place)
{
	owner_ttl_ms = place->ttl_ms;
	a_killed_owner_s_keys_end(rig_open(&place->opts), place);
	a_stopped_owner_learns_it(rig_open(&place->opts), place);
	an_end_gives_it_back(rig_open(&place->opts), place);
	a_later_value_stays(rig_open(&place->opts), place);
}

/* ---- cuts ---------------------------------------------------------------- */

/* A watch that was cut off says all that has changed meanwhile. */
static void no_deletion_is_lost(const struct store_place *place, bool compact)
{
	struct gm_store *store = rig_open(&place->opts);
	struct gm_store *other = rig_open(&place->direct);
	struct rig_result result;
	struct rig_watch watch;
	unsigned int n;

	EQ(rig_put(other, "c/goes", "1", NULL, NULL), 0);
	EQ(rig_put(other, "c/stays", "1", NULL, NULL), 0);
	EQ(rig_put(other, "c/changes", "1", NULL, NULL), 0);
	EQ(rig_put(other, "c/returns", "1", NULL, NULL), 0);
	rig_watch(store, &watch, "c/");
	OK(rig_resyncs(store, &watch, 1));
	EQ(watch.n_puts, 4);
	n = watch.n_cuts;
	place->cut();
	OK(rig_cuts(store, &watch, n + 1));
	OK(watch.why[0] != '\0');
	NOTE("%s", watch.why);
	EQ(rig_put(store, "c/mine", "1", NULL, &result), -EHOSTUNREACH);
	OK(result.why[0] != '\0');
	EQ(rig_put(other, "c/goes", NULL, NULL, NULL), 0);
	EQ(rig_put(other, "c/changes", "2", NULL, NULL), 0);
	EQ(rig_put(other, "c/returns", NULL, NULL, NULL), 0);
	EQ(rig_put(other, "c/returns", "2", NULL, NULL), 0);
	EQ(rig_put(other, "c/comes", "1", NULL, NULL), 0);
	if (compact)
		place->compact();
	n = watch.n_resyncs;
	place->heal();
	OK(rig_resyncs(store, &watch, n + 1));
	STR(rig_seen(&watch, "c/goes"), "");
	STR(rig_seen(&watch, "c/stays"), "1");
	STR(rig_seen(&watch, "c/changes"), "2");
	STR(rig_seen(&watch, "c/returns"), "2");
	STR(rig_seen(&watch, "c/comes"), "1");
	STR(rig_seen(&watch, "c/mine"), "");
	EQ(watch.values.n, 4);
	EQ(rig_put(other, "c/after", "1", NULL, NULL), 0);
	OK(rig_sees(store, &watch, "c/after", "1"));
	rig_remove_all(other);
	OK(rig_sees(store, &watch, "c/after", ""));
	gm_store_close(store);
	gm_store_close(other);
	rig_watch_end(&watch);
}

/* An owner that is cut off knows that its lease has ended before others can
 * have seen it, and has another one afterwards. */
static void a_lease_is_lost_in_time(const struct store_place *place)
{
	struct gm_store *store = rig_open(&place->opts);
	struct gm_store *other = rig_open(&place->direct);
	struct rig_lease lease;
	struct rig_watch watch;

	rig_watch(other, &watch, "l/");
	OK(rig_lease(store, &lease, place->ttl_ms));
	EQ(rig_put(store, "l/a", "1", &lease.lease, NULL), 0);
	OK(rig_sees(other, &watch, "l/a", "1"));
	place->cut();
	OK(rig_sees(other, &watch, "l/a", ""));
	/* The loss was due when the other saw it: the first turn says so. */
	gm_store_dispatch(store);
	OK(!lease.lease.held);
	EQ(lease.n_lost, 1);
	EQ(rig_put(store, "l/a", "2", &lease.lease, NULL), -EOWNERDEAD);
	place->heal();
	while (!lease.lease.held)
		rig_run(store, 10);
	EQ(lease.n_held, 2);
	EQ(rig_put(store, "l/a", "3", &lease.lease, NULL), 0);
	OK(rig_sees(other, &watch, "l/a", "3"));
	gm_store_close(store);
	OK(rig_sees(other, &watch, "l/a", ""));
	gm_store_close(other);
	rig_watch_end(&watch);
}

void stories_of_cuts(const struct store_place *place)
{
	no_deletion_is_lost(place, false);
	if (place->compact != NULL)
		no_deletion_is_lost(place, true);
	a_lease_is_lost_in_time(place);
}
