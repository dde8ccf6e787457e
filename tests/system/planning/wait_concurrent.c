/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Many processes reserve, wait, start and are killed at random and all at once,
 * and the agent is killed in the middle of it.  No row is promised for more
 * than it has, no two processes start on one row at a time, each that is left
 * alone gets what it waits for, and in the end nothing is left.
 */

#include <sys/mman.h>

#include "tests/support/dice.h"
#include "tests/support/reserve_clients.h"

#define CLIENTS  32u
#define SHORT_MS 3000  /* in make check */
#define LONG_MS  60000 /* in check-torture */
#define LIVES_US 20000 /* of a reservation, at most */

static pid_t clients[CLIENTS];
static uint32_t n_born;

/* In memory that all share. */
static struct tally {
	_Atomic bool is_over; /* no client is to request any more */
	_Atomic uint32_t granted, refused, unheard, wrong, overlaps, started;
	_Atomic uint64_t longest_ns[CLIENTS]; /* of a wait */
	/* A client that is in its start window, and its rows. */
	struct {
		_Atomic int pid;
		_Atomic uint32_t rows;
	} windows[CLIENTS];
} * tally;

/* ---- a client ------------------------------------------------------------ */

/* The agent died during the request, so its outcome is unknown. */
static bool is_unheard(int ret)
{
	return ret == -ECONNRESET || ret == -ECONNREFUSED || ret == -ESTALE;
}

static struct want any_want(uint32_t place)
{
	struct want want = { .is_held = true, .wait_ns = LONG_NS };
	uint32_t first = (uint32_t)dice(N_ROWS);

	snprintf(want.name, sizeof(want.name), "c%u", place);
	want.n_rows = 1 + (uint32_t)dice(3);
	want.is_one = dice(2) != 0;
	for (uint32_t k = 0; k < want.n_rows; k++)
		want.rows[k] = (first + k) % N_ROWS;
	want.bytes = 1 + dice(dice(2) ? 5 * GIB : 16 * GIB);
	if (dice(8) == 0)
		want.wait_ns = 0;
	if (dice(2) == 0)
		want.start_ns = LONG_NS;
	return want;
}

/* A process that is dead keeps no window, though none has said so. */
static void look_for_others(uint32_t place, uint32_t rows)
{
	for (uint32_t i = 0; i < CLIENTS; i++) {
		int pid = tally->windows[i].pid;

		if (i == place || pid == 0 ||
		    (tally->windows[i].rows & rows) == 0)
			continue;
		if (story_lives(pid) && tally->windows[i].pid == pid &&
		    (tally->windows[i].rows & rows) != 0)
			tally->overlaps++;
	}
}

static void start(uint32_t place, const struct want *want,
		  const struct outcome *out)
{
	uint32_t rows = 0;

	for (uint32_t i = 0; i < out->n_rows; i++)
		rows |= 1u << out->rows[i];
	tally->windows[place].rows = rows;
	tally->windows[place].pid = getpid();
	look_for_others(place, rows);
	story_nap((long)dice(2000));
	tally->windows[place].pid = 0;
	tally->started++;
	if (dice(4) != 0 && is_unheard(gpumap_started(map, want->name)))
		tally->unheard++;
}

static void release(const char *name)
{
	int ret;

	do
		ret = gpumap_layers_release(map, name);
	while (is_unheard(ret));
	tally->wrong += ret != 0 && ret != -ENOENT;
}

static void tell_wait(uint32_t place, uint64_t ns)
{
	if (ns > tally->longest_ns[place])
		tally->longest_ns[place] = ns;
}

static void reserve_one(uint32_t place)
{
	struct want want = any_want(place);
	uint64_t since = story_now();
	struct outcome out = reserve_now(&want);

	if (is_unheard(out.ret)) {
		tally->unheard++;
	} else if (out.ret != 0) {
		bool is_hasty = want.wait_ns == 0 &&
				(out.ret == -ENOSPC || out.ret == -EBUSY);

		tally->refused++;
		tally->wrong += !is_hasty;
		return;
	} else {
		tally->granted++;
		tell_wait(place, out.at_ns - since);
		if (want.start_ns != 0)
			start(place, &want, &out);
		story_nap((long)dice(LIVES_US));
	}
	release(want.name);
}

static void live(uint32_t place)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	dice_state += n_born * UINT64_C(0x9e3779b97f4a7c15);
	map = story_attach(&agent);
	tally->wrong += map == NULL;
	while (map != NULL && !tally->is_over)
		reserve_one(place);
	_exit(0);
}

static void give_birth(uint32_t place)
{
	n_born++;
	fflush(stdout);
	clients[place] = fork();
	if (clients[place] == 0)
		live(place);
}

static void kill_one(uint32_t place)
{
	kill(clients[place], SIGKILL);
	waitpid(clients[place], NULL, 0);
	tally->windows[place].pid = 0;
}

/* ---- who watches --------------------------------------------------------- */

static bool within(void)
{
	for (uint32_t row = 0; row < N_ROWS; row++) {
		struct gpumap_device device = story_device(map, row);

		if (device.reserved_bytes > device.total_bytes)
			return false;
	}
	return true;
}

static bool has_met_all(void)
{
	return tally->granted > CLIENTS && tally->started > 0;
}

/* Longer where the machine is slow. */
static void watch(uint64_t for_ms)
{
	uint64_t begin = story_now(), until = begin + for_ms * 1000000;
	uint64_t next = begin, over = 0, looks = 0, now;
	bool killed = false;

	while ((now = story_now()) < until ||
	       (!(killed && has_met_all()) && now < begin + STORY_LIMIT_NS)) {
		uint32_t seen = gpumap_generation(map);

		over += !within();
		looks++;
		if (now > next) {
			uint32_t place = (uint32_t)dice(CLIENTS);

			kill_one(place);
			give_birth(place);
			next = now + dice(20000000);
		}
		if (now > begin + for_ms * 500000 && !killed) {
			agent_kill(&agent, SIGKILL);
			OK(agent_start(&agent));
			killed = true;
		}
		gpumap_wait_change(map, seen, story_now() + 500000);
	}
	EQ(over, 0);
	OK(killed);
	NOTE("%u clients, %" PRIu64 " looks", n_born, looks);
}

/* No one is killed any more: each gets what it waits for, and ends. */
static void all_end(void)
{
	uint64_t until = story_now() + 2 * STORY_LIMIT_NS;
	uint32_t left = CLIENTS;

	tally->is_over = true;
	while (left != 0 && story_now() < until) {
		left = 0;
		for (uint32_t place = 0; place < CLIENTS; place++) {
			if (clients[place] != 0 &&
			    waitpid(clients[place], NULL, WNOHANG) != 0)
				clients[place] = 0;
			left += clients[place] != 0;
		}
		story_nap(1000);
	}
	EQ(left, 0);
	for (uint32_t place = 0; place < CLIENTS; place++) {
		if (clients[place] != 0)
			kill_one(place);
	}
}

static void tell_all(void)
{
	uint64_t longest = 0;

	for (uint32_t place = 0; place < CLIENTS; place++)
		if (tally->longest_ns[place] > longest)
			longest = tally->longest_ns[place];
	NOTE("granted %u, started %u, refused %u, unheard %u; the longest wait "
	     "was %" PRIu64 " ms",
	     tally->granted, tally->started, tally->refused, tally->unheard,
	     longest / 1000000);
}

TAP_CASE()
{
	tally = mmap(NULL, sizeof(*tally), PROT_READ | PROT_WRITE,
		     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (tally == MAP_FAILED)
		return 99;
	agent_make(&agent, NULL);
	reserve_configure("");
	if (!OK(agent_start(&agent))) {
		agent_show_log(&agent);
		return tap_done();
	}
	map = story_attach(&agent);
	for (uint32_t place = 0; place < CLIENTS; place++)
		give_birth(place);
	watch(story_rounds() > STORY_ROUNDS ? LONG_MS : SHORT_MS);
	all_end();
	tell_all();
	EQ(tally->wrong, 0);
	EQ(tally->overlaps, 0);
	OK(has_met_all());
	OK(reserve_calms_down());
	story_finish(&agent, map);
	agent_remove(&agent);
	return tap_done();
}
