/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Sixty-four readers check every word of a mask that is published anew all the
 * time, while workers and agents are killed: what gpumap_mask_holds() lets pass
 * is of one version, on every row, and no older than what its publisher had
 * been told of before the lookup.
 *
 *	GM_ROUNDS	times 50000 gets at least, of ten versions (default 20:
 *			a million of two hundred)
 */

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "shm/atomic.h"
#include "tests/support/story.h"

#define READERS 64
#define WORDS   1024u /* of the mask: eight kilobytes */

/* Words by which readers and the publisher talk. */
struct report {
	gm_a64 acknowledged; /* seed of what the agent has said is published */
	gm_a64 checked;
	gm_a64 dropped;
	gm_a64 torn;
	gm_a64 stale;
	gm_a64 failed;
	gm_a32 stop;
};

static struct agent agent;
static struct gpumap *map;
static struct report *report;

static uint64_t word(uint64_t seed, uint64_t i)
{
	return i == 0 ? seed : (seed + i) * UINT64_C(0x9e3779b97f4a7c15);
}

/* Returns whether every word of it is of one seed. */
static bool check(const uint64_t *words, uint64_t *ret_seed)
{
	uint64_t seed = words[0], wrong = 0;

	for (uint64_t i = 1; i < WORDS; i++)
		wrong |= words[i] ^ word(seed, i);
	*ret_seed = seed;
	return wrong == 0;
}

static void get_once(struct gpumap *own, struct gpumap_mask *mask, uint32_t row)
{
	uint64_t before = gm_get_acquire(&report->acknowledged);
	const struct gpumap_mask_view *view = NULL;
	uint64_t seed = 0;
	bool good;
	int ret = gpumap_mask_get(own, mask, row, &view);

	if (ret == -EAGAIN) {
		gm_add_ordered(&report->dropped, 1);
		return;
	}
	if (ret != 0) {
		gm_add_ordered(&report->failed, 1);
		return;
	}
	good = check(view->data, &seed);
	if (!gpumap_mask_holds(mask)) {
		gm_add_ordered(&report->dropped, 1);
		return;
	}
	if (!good)
		gm_add_ordered(&report->torn, 1);
	if (seed < before)
		gm_add_ordered(&report->stale, 1);
	gm_add_ordered(&report->checked, 1);
}

static void reader(uint32_t n)
{
	struct gpumap_mask *mask = NULL;
	struct gpumap *own;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	/* An agent that gets no turn for seconds is taken for dead. */
	(void)!nice(19);
	own = story_attach(&agent);
	if (own == NULL || gpumap_mask_open(own, "busy", 0, &mask) != 0) {
		gm_add_ordered(&report->failed, 1);
		_exit(1);
	}
	while (gm_get(&report->stop) == 0)
		get_once(own, mask, n++ % 2);
	gpumap_mask_close(own, mask);
	gpumap_detach(own);
	_exit(0);
}

static int publish(uint64_t seed)
{
	static const uint32_t rows[] = { 0, 1 };
	static uint64_t words[WORDS];
	struct gpumap_mask_request r = {
		.size = sizeof(r),
		.name = "busy",
		.kind = GPUMAP_MASK_CUSTOM,
		.form = GPUMAP_MASK_LOADED,
		.dtype = GPUMAP_DTYPE_U8,
		.rank = 1,
		.shape = { sizeof(words) },
		.data = words,
		.rows = rows,
		.n_rows = 2,
	};
	int ret;

	for (uint64_t i = 0; i < WORDS; i++)
		words[i] = word(seed, i);
	ret = gpumap_mask_publish(map, &r, NULL);
	if (ret == 0)
		gm_put_release(&report->acknowledged, seed);
	return ret;
}

/* In other rounds, and never in the middle of a request of ours. */
static void kill_somebody(uint64_t seed)
{
	if (seed % 40 == 7) {
		pid_t worker =
			(pid_t)story_device(map, seed / 40 % 2).worker_pid;

		if (worker > 1)
			kill(worker, SIGKILL);
	}
	if (seed % 100 == 50) {
		agent_kill(&agent, SIGKILL);
		OK(agent_start(&agent));
	}
}

static void nobody_reads_what_is_not(uint64_t want)
{
	uint64_t until = story_now() + 20 * STORY_LIMIT_NS, seed = 1;
	pid_t readers[READERS];
	int bad = 0, status;

	for (uint32_t i = 0; i < READERS; i++) {
		readers[i] = fork();
		if (readers[i] == 0)
			reader(i);
		bad += readers[i] < 0;
	}
	while ((gm_get(&report->checked) < want || seed < want / 5000) &&
	       gm_get(&report->failed) == 0 && bad == 0 &&
	       story_now() < until) {
		int ret = publish(++seed);

		if (ret != 0)
			NOTE("publish: %d %s", ret, gpumap_refusal(map));
		bad += ret != 0;
		kill_somebody(seed);
	}
	gm_put(&report->stop, 1);
	for (uint32_t i = 0; i < READERS; i++)
		bad += waitpid(readers[i], &status, 0) < 0 || status != 0;
	NOTE("%llu gets of %llu versions, %llu thrown away",
	     (unsigned long long)gm_get(&report->checked),
	     (unsigned long long)seed,
	     (unsigned long long)gm_get(&report->dropped));
	EQ(bad, 0);
	EQ(gm_get(&report->failed), 0);
	EQ(gm_get(&report->torn), 0);
	EQ(gm_get(&report->stale), 0);
	OK(gm_get(&report->checked) >= want);
}

TAP_CASE()
{
	report = mmap(NULL, sizeof(*report), PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	agent_make(&agent, "[host]\nrows = 2\n"
			   "[limits]\nsessions-per-second = 100000\n"
			   "[masks]\nbytes = 1M\n");
	if (OK(report != MAP_FAILED) && OK(agent_start(&agent)) &&
	    OK((map = story_attach(&agent))) && EQ(publish(1), 0))
		nobody_reads_what_is_not((uint64_t)story_rounds() * 50000);
	gpumap_detach(map);
	if (tap_failures)
		agent_show_log(&agent);
	agent_remove(&agent);
	return tap_done();
}
