/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Two hundred processes at once: they plan a model of 80 layers over any rows,
 * reserve bytes of some, wait, and end; some are killed, and some are stopped,
 * in their turn as well, and go on later.  Half of the rows are barred by a
 * request that comes first, and that is admitted when half of them have ended.
 * No row is promised for more than it has, a refusal for want of room says how
 * much is missing, each that waits is admitted, and nothing is left.
 */

#include <sys/mman.h>

#include "tests/support/dice.h"
#include "tests/support/reserve_clients.h"

#define CROWD    200u
#define ROWS     8u
#define BARRED   4u /* the first rows */
#define LAYERS   80u
#define ROUNDS   5    /* in make check */
#define LIVES_US 3000 /* of a reservation, at most */

static const char node[] =
	"rows:\n"
	"- { name: A, kind: cuda, count: 8, memory: 16G,\n"
	"    compute-capability: 9.0, sm-count: 100, threads-per-sm: 2048 }\n";

/* Counts of all clients, in memory that they share. */
static struct tally {
	_Atomic uint32_t planned, reserved, refused, wrong;
	_Atomic int error; /* of one that was wrong */
} * tally;

static struct {
	pid_t pid;
	uint64_t goes_on_ns; /* it is stopped until then; 0: it is not */
} crowd[CROWD];

static struct client holder, bar;
static uint32_t n_stopped, n_killed, n_bars;
static uint64_t n_over;

/* ---- a client ------------------------------------------------------------ */

static struct outcome plan_now(const char *name, uint64_t wait_ns)
{
	static uint64_t sizes[LAYERS];
	uint64_t most = dice(2) == 0 ? GIB / 80 : GIB / 3;
	struct gpumap_plan_request request = {
		.size = sizeof(request),
		.name = name,
		.flags = GPUMAP_PLAN_COMMIT | GPUMAP_PLAN_HELD,
		.setting = GPUMAP_SETTING_AUTO,
		.strategy = 1 + (uint32_t)dice(3),
		.n_layers = LAYERS,
		.layer_bytes = sizes,
		.wait_ns = wait_ns,
	};
	struct gpumap_plan answer = { .size = sizeof(answer) };
	struct outcome out;

	for (uint32_t i = 0; i < LAYERS; i++)
		sizes[i] = 1 + dice(most);
	out.ret = gpumap_plan_make(map, &request, &answer, NULL, 0, NULL, 0);
	out.missing_bytes = answer.missing_bytes;
	snprintf(out.refusal, sizeof(out.refusal), "%s", gpumap_refusal(map));
	return out;
}

static struct want any_want(const char *name, uint64_t wait_ns)
{
	struct want want = { .is_held = true, .wait_ns = wait_ns };
	uint32_t first = (uint32_t)dice(ROWS);

	snprintf(want.name, sizeof(want.name), "%s", name);
	want.n_rows = 1 + (uint32_t)dice(3);
	want.is_one = dice(2) != 0;
	for (uint32_t k = 0; k < want.n_rows; k++)
		want.rows[k] = (first + k) % ROWS;
	want.bytes = 1 + dice(dice(2) == 0 ? 2 * GIB : 12 * GIB);
	return want;
}

/* Returns whether the answer to a request is one that it may have.  There is no
 * room where bytes are missing, or where others have a right to them. */
static bool is_right(const struct outcome *out, bool waits)
{
	if (out->ret == 0)
		return true;
	tally->refused++;
	if (waits)
		return false;
	return out->ret == -EAGAIN ||
	       (out->ret == -ENOSPC &&
		(out->missing_bytes != 0 ||
		 strstr(out->refusal,
			"requests that came before wait for it")));
}

static void live(uint32_t place, uint64_t seed)
{
	bool waits, plans;
	struct outcome out;
	struct want want;
	char name[16];

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	dice_state = seed;
	map = story_attach(&agent);
	if (map == NULL)
		_exit(2);
	snprintf(name, sizeof(name), "c%u", place);
	waits = dice(6) != 0;
	plans = dice(2) != 0;
	if (plans) {
		out = plan_now(name, waits ? LONG_NS : 0);
	} else {
		want = any_want(name, waits ? LONG_NS : 0);
		out = reserve_now(&want);
	}
	if (!is_right(&out, waits)) {
		tally->error = out.ret;
		tally->wrong++;
	}
	if (out.ret == 0) {
		(plans ? &tally->planned : &tally->reserved)[0]++;
		story_nap((long)dice(LIVES_US));
	}
	_exit(0);
}

/* ---- who watches --------------------------------------------------------- */

static uint64_t sum_reserved(void)
{
	uint64_t sum = 0;

	for (uint32_t row = 0; row < ROWS; row++) {
		struct gpumap_device device = story_device(map, row);

		n_over += device.reserved_bytes > device.total_bytes;
		sum += device.reserved_bytes;
	}
	return sum;
}

static void stop_or_kill(uint32_t place)
{
	if (crowd[place].pid == 0 || crowd[place].goes_on_ns != 0)
		return;
	if (dice(3) == 0) {
		kill(crowd[place].pid, SIGKILL);
		n_killed++;
		return;
	}
	kill(crowd[place].pid, SIGSTOP);
	crowd[place].goes_on_ns = story_now() + dice(3 * SECOND);
	n_stopped++;
}

/* Returns how many are left. */
static uint32_t look_after(uint64_t now)
{
	uint32_t left = 0;

	for (uint32_t place = 0; place < CROWD; place++) {
		int status = 0;

		if (crowd[place].pid == 0)
			continue;
		if (crowd[place].goes_on_ns != 0 &&
		    crowd[place].goes_on_ns <= now) {
			kill(crowd[place].pid, SIGCONT);
			crowd[place].goes_on_ns = 0;
		}
		left++;
		if (waitpid(crowd[place].pid, &status, WNOHANG) == 0)
			continue;
		crowd[place].pid = 0;
		tally->wrong += WIFEXITED(status) && WEXITSTATUS(status) != 0;
	}
	return left;
}

static void give_birth(int round)
{
	fflush(stdout);
	for (uint32_t place = 0; place < CROWD; place++) {
		uint64_t seed = dice_state + place * 977 + (uint64_t)round + 1;

		crowd[place].goes_on_ns = 0;
		crowd[place].pid = fork();
		if (crowd[place].pid == 0)
			live(place, seed);
	}
}

/* A request for all of the first rows waits for what holds some of each, until
 * that ends in the middle of a round.  When the bar has ended, too, the crowd
 * gets all rows. */
static void raise_bar(void)
{
	struct want want = { .name = "held", .is_held = true };

	for (uint32_t row = 0; row < BARRED; row++)
		want.rows[row] = row;
	want.n_rows = BARRED;
	want.bytes = 2 * GIB;
	holder = client_reserve(&want);
	snprintf(want.name, sizeof(want.name), "bar");
	want.bytes = 15 * GIB;
	want.wait_ns = LONG_NS;
	bar = client_wait(&want);
}

static void lower_bar(uint32_t left)
{
	if (left < CROWD / 2)
		client_kill(&holder);
	if (bar.pid == 0 || !client_answered(&bar, 0))
		return;
	n_bars += client_outcome(&bar).ret == 0;
	client_kill(&bar);
}

/* Returns how many did not end. */
static uint32_t run(int round)
{
	uint64_t until = story_now() + 2 * STORY_LIMIT_NS, now;
	uint32_t left = CROWD, attacks = 6;

	raise_bar();
	give_birth(round);
	while ((now = story_now()) < until && left + (bar.pid != 0) != 0) {
		left = look_after(now);
		sum_reserved();
		lower_bar(left);
		if (attacks > 0 && left < CROWD && dice(4) == 0) {
			stop_or_kill((uint32_t)dice(CROWD));
			attacks--;
		}
		story_nap(500);
	}
	client_kill(&holder);
	client_kill(&bar);
	return left;
}

static bool calms_down(void)
{
	uint64_t until = story_now() + STORY_LIMIT_NS;

	while ((sum_reserved() != 0 || line_length() != 0) &&
	       story_now() < until)
		story_nap(1000);
	return sum_reserved() == 0 && line_length() == 0;
}

TAP_CASE()
{
	int rounds = story_rounds_or(ROUNDS);
	uint32_t left = 0;

	tally = mmap(NULL, sizeof(*tally), PROT_READ | PROT_WRITE,
		     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (tally == MAP_FAILED)
		return 99;
	agent_make(&agent, NULL);
	agent_configure_dummies(&agent, node,
				"[host]\nenabled = no\n"
				"[limits]\npins-per-uid = 1024\n");
	if (!OK(agent_start(&agent)))
		return tap_done();
	map = story_attach(&agent);
	for (int round = 0; round < rounds && left == 0; round++)
		left = run(round);
	NOTE("%d rounds: planned %u, reserved %u, refused %u; stopped %u, "
	     "killed %u",
	     rounds, tally->planned, tally->reserved, tally->refused, n_stopped,
	     n_killed);
	EQ(left, 0);
	EQ(n_bars, rounds);
	if (!EQ(tally->wrong, 0))
		NOTE("one got %d", tally->error);
	EQ(n_over, 0);
	OK(tally->planned > 0 && tally->reserved > 0);
	OK(calms_down());
	story_finish(&agent, map);
	agent_remove(&agent);
	return tap_done();
}
