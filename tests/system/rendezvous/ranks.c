/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "tests/system/rendezvous/ranks.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/wait.h>

#define LATE_MS 4000 /* a join may end so long after its deadline */

void ranks_begin(struct ranks *ranks, const struct place *place,
		 const char *name, uint32_t world, uint32_t limit_ms)
{
	memset(ranks, 0, sizeof(*ranks));
	ranks->place = place;
	ranks->name = name;
	ranks->world = world;
	ranks->limit_ms = limit_ms;
	if (pipe2(ranks->pipe, O_CLOEXEC) != 0)
		abort();
}

/* ---- in the rank --------------------------------------------------------- */

static int join(const struct ranks *ranks, struct gpumap_sync *sync,
		uint32_t rank)
{
	uint8_t id[GPUMAP_COHORT_ID_BYTES];
	struct gpumap_cohort_join request = {
		.size = sizeof(request),
		.name = ranks->name,
		.world = ranks->world,
		.rank = rank,
		.version = 22000,
		.id = rank == 0 ? id : NULL,
		.deadline_ns = place_in(ranks->limit_ms),
	};
	struct ranks_word word = { .rank = rank };
	uint64_t now;

	if (getrandom(id, sizeof(id), 0) != sizeof(id))
		_exit(1);
	word.status = gpumap_cohort_join(sync, &request, word.id, &word.epoch);
	now = story_now();
	if (now > request.deadline_ns)
		word.late_ms = (now - request.deadline_ns) / 1000000;
	if (write(ranks->pipe[1], &word, sizeof(word)) != sizeof(word))
		_exit(2);
	return word.status;
}

static void __attribute__((noreturn))
live(const struct ranks *ranks, uint32_t rank)
{
	const char *socket = ranks->place->nodes[rank % PLACE_NODES].socket;
	struct gpumap_sync *sync = NULL;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (;;) {
		struct pollfd told = { .events = POLLIN };
		int ret = 0;

		if (sync == NULL && gpumap_sync_open(socket, &sync) != 0) {
			story_nap(20000);
			continue;
		}
		ret = join(ranks, sync, rank);
		told.fd = gpumap_sync_fd(sync);
		while (ret == 0)
			if (poll(&told, 1, -1) == 1)
				ret = gpumap_sync_check(sync);
		if (ret == -ECONNRESET) {
			gpumap_sync_close(sync);
			sync = NULL;
		} else if (ret != -ESTALE) {
			story_nap(20000);
		}
	}
}

/* ---- in the test --------------------------------------------------------- */

void ranks_start(struct ranks *ranks, uint32_t rank)
{
	fflush(stdout);
	ranks->last[rank].epoch = 0;
	ranks->pids[rank] = fork();
	if (ranks->pids[rank] == 0)
		live(ranks, rank);
}

void ranks_kill(struct ranks *ranks, uint32_t rank)
{
	kill(ranks->pids[rank], SIGKILL);
	waitpid(ranks->pids[rank], NULL, 0);
	ranks->last[rank].epoch = 0;
}

/* An epoch has one id. */
static void check_id(struct ranks *ranks, const struct ranks_word *word)
{
	for (int i = 0; i < ranks->n_ids; i++) {
		bool same = memcmp(ranks->ids[i].id, word->id,
				   sizeof(word->id)) == 0;

		if (same != (ranks->ids[i].epoch == word->epoch)) {
			ranks->n_wrong++;
			NOTE("rank %u: epochs %" PRIu64 " and %" PRIu64
			     " have %s",
			     word->rank, word->epoch, ranks->ids[i].epoch,
			     same ? "one id" : "two ids");
		}
		if (ranks->ids[i].epoch == word->epoch)
			return;
	}
	if (ranks->n_ids < 1024)
		ranks->ids[ranks->n_ids++] = *word;
}

static void take(struct ranks *ranks, const struct ranks_word *word)
{
	if (word->late_ms > LATE_MS) {
		ranks->n_wrong++;
		NOTE("rank %u was late by %" PRIu64 " ms", word->rank,
		     word->late_ms);
	}
	if (word->status == 0) {
		check_id(ranks, word);
		ranks->last[word->rank] = *word;
	} else if (word->status != -ETIMEDOUT && word->status != -ESTALE &&
		   word->status != -EHOSTUNREACH && word->status != -EBUSY &&
		   word->status != -ECONNRESET) {
		ranks->n_wrong++;
		NOTE("rank %u: %s", word->rank, gpumap_strerror(word->status));
	}
}

static bool have_met(const struct ranks *ranks, uint64_t before)
{
	uint64_t epoch = ranks->last[0].epoch;

	for (uint32_t i = 0; i < ranks->world; i++)
		if (ranks->last[i].epoch != epoch)
			return false;
	return epoch != 0 && epoch != before;
}

uint64_t ranks_meet(struct ranks *ranks, uint64_t before)
{
	struct pollfd words = { .fd = ranks->pipe[0], .events = POLLIN };
	uint64_t until_ns = place_in(60000);
	struct ranks_word word;

	while (!have_met(ranks, before)) {
		if (story_now() >= until_ns)
			return 0;
		if (poll(&words, 1, 1000) == 1 &&
		    read(words.fd, &word, sizeof(word)) == sizeof(word))
			take(ranks, &word);
	}
	return ranks->last[0].epoch;
}

void ranks_end(struct ranks *ranks)
{
	for (uint32_t i = 0; i < ranks->world; i++)
		ranks_kill(ranks, i);
	close(ranks->pipe[0]);
	close(ranks->pipe[1]);
}
