/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* gpumap-worker dies, at any moment and at every marked instant, and the
 * process that recovers its queues, too: each entry ends exactly once. */

#include "tests/support/process.h"
#include "tests/support/worker/worker_row.h"

static bool recover(struct row *row, const struct hand_client *c)
{
	if (!row_start(row, true)) {
		NOTE("recovery: %s", row->failed);
		row_ended(row);
		return false;
	}
	return row_attach(row, c) == 0 && row_drain(row) == 0;
}

/* Fill the ring with jobs, long and short. */
/* Two of five have a second slot. */
static void submit_all(struct hand_client *c)
{
	for (uint32_t i = 0; i < c->depth; i++) {
		struct gm_entry e[2] = { hand_nop(c), hand_second(UINT64_MAX) };
		bool is_pair = (i % 5 == 1 || i % 5 == 3) && i + 1 < c->depth;

		if (i % 5 == 3)
			e[0] = hand_copy(c, 4 * MIB, 0, (i % 3 + 1) * MIB / 2);
		e[0].flags = is_pair ? GM_ENTRY_MORE : 0;
		hand_submit(c, e, 1u + is_pair);
		i += is_pair;
	}
}

/* Take all completions.  Returns how many are doubled or missing. */
static int count_wrong(struct hand_client *c, uint32_t first, uint32_t *ret_io)
{
	uint32_t seen[GM_DEPTH_MAX] = { 0 }, pos;
	int32_t status;
	int wrong = 0;

	while (hand_take(c, &pos, &status)) {
		if (pos - first >= c->depth || (status && status != -EIO))
			wrong++;
		else
			seen[pos - first]++;
		*ret_io += status == -EIO;
	}
	for (uint32_t i = 0; i < c->depth; i++)
		wrong += seen[i] != 1;
	return wrong;
}

static int rounds(int usual)
{
	const char *text = getenv("GM_ROUNDS");

	return text ? atoi(text) : usual;
}

static void death_ends_each_entry_once(void)
{
	struct hand_client c;
	struct gm_entry e;
	uint32_t io = 0, wake;
	struct row row;
	int wrong = 0;

	row_make(&row);
	hand_open(&c, 1, 2, ROW, 64, 8 * MIB);
	for (int i = 0; i < rounds(8); i++) {
		struct timespec some = { .tv_nsec = i % 8 * 150000 };
		uint32_t first = c.entries.pos;

		if (!row_start(&row, false) || row_attach(&row, &c) != 0) {
			OK(!"a worker could not follow");
			break;
		}
		e = hand_nop(&c);
		wrong += hand_do(&c, &e) != 0;
		first = c.entries.pos;
		/* Once before it could do any, whatever else runs here. */
		if (i == 0)
			wrong += !process_stop(row.pid);
		submit_all(&c);
		nanosleep(&some, NULL);
		kill(row.pid, SIGKILL);
		row_ended(&row);
		wake = gm_get(&c.page->wake);
		wrong += !recover(&row, &c);
		wrong += gm_get(&c.page->wake) == wake;
		wrong += count_wrong(&c, first, &io);
		c.incarnation++;
	}
	EQ(wrong, 0);
	NOTE("%u entries ended with -EIO", io);
	OK(io > 0);
	hand_close(&c, ROW);
	row_drop(&row);
}

static const char *const points[] = {
	"worker_opened",   "worker_incarnate",      "worker_adopted",
	"worker_taken",    "worker_sliced",         "worker_given",
	"worker_advanced", "worker_half_published", "worker_published",
	"worker_parked",   "worker_blocks",         "worker_wake_counted",
};

/* Wait until it has died of its point; if it need not come there, at most until
 * it has done everything.  Returns whether it died. */
static bool dies(struct row *row, struct hand_client *c, bool must)
{
	uint64_t end = hand_now() + HAND_PATIENCE_NS;
	uint64_t words[GM_DONE_WORDS];

	while (hand_now() < end) {
		siginfo_t info = { 0 };

		waitid(P_PID, (id_t)row->pid, &info,
		       WEXITED | WNOHANG | WNOWAIT);
		if (info.si_pid == row->pid)
			return true;
		if (!must &&
		    gm_ring_peek(&c->done, GM_DONE_WORDS, c->depth - 1, words))
			break;
		hand_nap();
	}
	return false;
}

/* Kill the worker at one point, and its recovery process at another, or NULL.
 * Returns how much went wrong; ret_died says whether the worker died there, and
 * n_recoveries counts the recovery processes that did. */
static int one_point(const char *name, int nth, const char *recover_name,
		     bool *ret_died, int *n_recoveries)
{
	char spec[80];
	struct hand_client c;
	uint32_t io = 0;
	struct row row;
	int wrong = 0;

	*ret_died = false;
	row_make(&row);
	hand_open(&c, 1, 2, ROW, 64, 8 * MIB);
	gm_ring_park(&c.page->parked, &c.parked);
	snprintf(spec, sizeof(spec), "%s:kill:%d", name, nth);
	setenv("GM_POINT", spec, 1);
	if (row_start(&row, false)) {
		row_attach(&row, &c);
		submit_all(&c);
		*ret_died = dies(&row, &c, nth == 1);
		kill(row.pid, SIGKILL);
		row_ended(&row);
		unsetenv("GM_POINT");
		if (recover_name) {
			snprintf(spec, sizeof(spec), "%s:kill:2", recover_name);
			setenv("GM_POINT", spec, 1);
			*n_recoveries += !recover(&row, &c);
			unsetenv("GM_POINT");
		}
		wrong += !recover(&row, &c);
		wrong += count_wrong(&c, 0, &io);
	} else {
		wrong++;
	}
	unsetenv("GM_POINT");
	hand_close(&c, ROW);
	row_drop(&row);
	return wrong;
}

#define N_OF(array) (sizeof(array) / sizeof((array)[0]))

static const char *const recovery_points[] = { NULL, "end_given",
					       "recover_advanced",
					       "recover_posted" };

/* At the one, and then at the other.  Returns how much went wrong. */
static int death_at(const char *point, const char *recovery_point,
		    int *n_recoveries)
{
	bool died;
	int wrong = one_point(point, 1, recovery_point, &died, n_recoveries);

	if (wrong)
		NOTE("lost or doubled: %s, then %s", point,
		     recovery_point ? recovery_point : "none");
	if (!died) {
		NOTE("never came to %s", point);
		wrong++;
	}
	if (!recovery_point)
		wrong += one_point(point, 2, NULL, &died, n_recoveries);
	return wrong;
}

static void death_at_every_point(void)
{
	int recoveries[N_OF(recovery_points)] = { 0 };
	/* Each point is one of a worker's four times in each. */
	int n = rounds(4) / 4, wrong = 0;

	if (!tap_has_points()) {
		SKIP(4, "needs --enable-testpoints");
		return;
	}
	n = n > 0 ? n : 1;
	for (int i = 0; i < n && wrong == 0; i++)
		for (size_t k = 0; k < N_OF(points) * N_OF(recovery_points);
		     k++)
			wrong += death_at(
				points[k / N_OF(recovery_points)],
				recovery_points[k % N_OF(recovery_points)],
				&recoveries[k % N_OF(recovery_points)]);
	EQ(wrong, 0);
	for (size_t k = 1; k < N_OF(recovery_points); k++) {
		OK(recoveries[k] > 0);
		NOTE("an recovery died in %d of %d recovery_points at %s",
		     recoveries[k], n * (int)N_OF(points), recovery_points[k]);
	}
}

TAP_CASE()
{
	if (!row_can_run())
		return tap_done();
	death_ends_each_entry_once();
	death_at_every_point();
	return tap_done();
}
