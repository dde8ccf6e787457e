/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * The agent is killed again and again under processes that hash a share's
 * memory all the time, and that open the share anew after each start: no hash
 * is ever wrong, the name is there after each start, and the charges are as
 * they were.
 *
 * GM_ROUNDS says how many rounds, GM_SHARE_MIB how large the share is.
 */

#include <sys/prctl.h>

#include "shm/atomic.h"
#include "tests/support/share_sessions.h"

#define NAME     "weights"
#define HASHERS  8
#define FIRST_ID 61400u /* of the users of half of them */

/* All processes have these. */
struct counts {
	gm_a64 right; /* the hash; 0: the share is not made yet */
	gm_a64 hashes;
	gm_a64 wrong;
	gm_a32 opened[HASHERS]; /* how often */
};

static struct counts *counts;
static uint64_t bytes;
static struct player hasher[HASHERS];

static uint64_t hash_of(const void *memory)
{
	const uint64_t *at = memory;
	uint64_t hash = 1;

	for (uint64_t i = 0; i < bytes / 8; i++)
		hash = (hash ^ at[i]) * UINT64_C(1099511628211);
	return hash | 1;
}

/* ---- a process that hashes ----------------------------------------------- */

/* By its share, and this session, which stays open.  NULL: not now. */
static void *map_share(struct gpumap_session *session, uint64_t id, int prot)
{
	struct gpumap_export_info info = { .size = sizeof(info) };
	void *memory;
	int fd;

	if (gpumap_share_fd(session, id, 0, &info, &fd) != 0)
		return NULL;
	memory = mmap(NULL, bytes, prot, MAP_SHARED, fd, 0);
	close(fd);
	return memory == MAP_FAILED ? NULL : memory;
}

/* Another session, and the share by it. */
static void *open_share(struct gpumap **own, struct gpumap_session **session)
{
	void *memory = NULL;
	uint64_t id;

	gpumap_session_close(*session);
	gpumap_detach(*own);
	*own = story_attach(&agent);
	*session = *own ? session_open(*own) : NULL;
	if (*session &&
	    gpumap_share_open(*session, NAME, GPUMAP_SHARE_READ_ONLY, NULL,
			      &id) == 0)
		memory = map_share(*session, id, PROT_READ);
	return memory;
}

/* Random words, shared with every user. */
static void *make_share(struct gpumap **own, struct gpumap_session **session)
{
	struct gpumap_share_request request = { .size = sizeof(request),
						.name = NAME,
						.n_buffers = 1,
						.flags =
							GPUMAP_SHARE_ANY_USER };
	uint64_t buffer, id, word = UINT64_C(88172645463325252), *at;

	*own = story_attach(&agent);
	*session = *own ? session_open(*own) : NULL;
	request.buffers = &buffer;
	if (!*session ||
	    gpumap_buffer_alloc(*session, 0, bytes, GPUMAP_BUFFER_EXPORTABLE,
				GPUMAP_NO_DEADLINE, &buffer) != 0 ||
	    gpumap_share_publish(*session, &request, &id) != 0)
		return NULL;
	at = map_share(*session, id, PROT_READ | PROT_WRITE);
	for (uint64_t i = 0; at && i < bytes / 8; i++) {
		word ^= word << 13;
		word ^= word >> 7;
		word ^= word << 17;
		at[i] = word;
	}
	if (at)
		gm_put(&counts->right, hash_of(at));
	return at;
}

/* A session whose agent lives holds the share already. */
static bool is_lost(struct gpumap_session *session)
{
	uint64_t id;

	return !session ||
	       gpumap_share_open(session, NAME, GPUMAP_SHARE_READ_ONLY, NULL,
				 &id) != -EALREADY;
}

/* Mapped memory stays, whether there is an agent or not. */
static _Noreturn void hash_for_ever(int me)
{
	struct gpumap *own = NULL;
	struct gpumap_session *session = NULL;
	void *memory, *next;

	memory = me == 0 ? make_share(&own, &session) : NULL;
	for (gm_add_ordered(&counts->opened[me], memory != NULL);;) {
		next = is_lost(session) ? open_share(&own, &session) : NULL;
		if (next) {
			if (memory)
				munmap(memory, bytes);
			memory = next;
			gm_add_ordered(&counts->opened[me], 1);
		}
		if (!memory)
			continue;
		if (hash_of(memory) != gm_get(&counts->right))
			gm_add_ordered(&counts->wrong, 1);
		gm_add_ordered(&counts->hashes, 1);
	}
}

static struct player start_hasher(int me)
{
	struct player p = { .fd = -1 };
	uid_t uid = FIRST_ID + (uid_t)me;

	fflush(stdout);
	p.pid = fork();
	if (p.pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (me % 2 && !user_become(uid, uid))
			_exit(1);
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		hash_for_ever(me);
	}
	return p;
}

/* ---- rounds -------------------------------------------------------------- */

/* Wait until each has opened it so often. */
static bool all_have_opened(const uint32_t before[HASHERS])
{
	uint64_t until = story_now() + STORY_LIMIT_NS;
	int n;

	do {
		story_nap(1000);
		n = 0;
		for (int i = 0; i < HASHERS; i++)
			n += gm_get(&counts->opened[i]) > before[i];
	} while (n < HASHERS && story_now() < until);
	return EQ(n, HASHERS);
}

static void note_opened(uint32_t ret_opened[HASHERS])
{
	for (int i = 0; i < HASHERS; i++)
		ret_opened[i] = gm_get(&counts->opened[i]);
}

/* By a client that comes then, as soon as there is an agent. */
static bool can_be_opened(void)
{
	uint64_t until = story_now() + STORY_LIMIT_NS;
	struct gpumap_session *session = NULL;
	struct gpumap *own = NULL;
	void *memory = NULL;

	while (!memory && story_now() < until) {
		memory = open_share(&own, &session);
		if (!memory)
			story_nap(1000);
	}
	if (memory)
		munmap(memory, bytes);
	gpumap_session_close(session);
	gpumap_detach(own);
	return memory != NULL;
}

/* No other process holds it, and its user is charged as ever. */
static void is_as_before(void)
{
	uint64_t until = story_now() + STORY_LIMIT_NS;

	while (shared(NAME).n_holders != HASHERS && story_now() < until)
		story_nap(1000);
	EQ(shared(NAME).n_holders, HASHERS);
	EQ(shared(NAME).uid, 0);
	EQ(shared(NAME).pid, hasher[0].pid);
	EQ(charged(), bytes);
}

static void rounds(void)
{
	static const uint32_t never[HASHERS];
	struct story_times times = { 0 };
	uint32_t opened[HASHERS];
	uint64_t began;

	if (!all_have_opened(never))
		return;
	is_as_before();
	for (int round = 0; round < story_rounds(); round++) {
		note_opened(opened);
		story_nap(story_moment(round, 30000));
		began = story_now();
		kill(agent_main_pid(&agent), round % 3 ? SIGKILL : SIGTERM);
		/* The old one may still answer. */
		while (agent_count_log(&agent, "event=ended") <=
		       (unsigned)round)
			story_nap(500);
		if (!OK(can_be_opened()))
			return;
		story_time(&times, began);
		if (!all_have_opened(opened))
			return;
		is_as_before();
	}
	story_tell(&times, "from the agent's end until it can be opened");
	EQ(gm_get(&counts->wrong), 0);
	NOTE("%llu hashes of %llu MiB",
	     (unsigned long long)gm_get(&counts->hashes),
	     (unsigned long long)(bytes >> 20));
	OK(gm_get(&counts->hashes) > 0);
}

TAP_CASE()
{
	static const char config[] = "[socket]\nmode = 0666\n"
				     "[limits]\nsessions-per-second = 1000\n"
				     "import-bytes-per-uid = 1G\n";
	const char *mib = getenv("GM_SHARE_MIB");

	if (geteuid() != 0) {
		SKIP(1, "needs root, for other users");
		return tap_done();
	}
	bytes = (mib ? strtoull(mib, NULL, 10) : 16) << 20;
	counts = mmap(NULL, sizeof(*counts), PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (!OK(counts != MAP_FAILED))
		return tap_done();
	shares_stage("share = any\n", config);
	agent.kept_most = 64;
	if (!OK(agent_start(&agent)) || !OK((map = story_attach(&agent))))
		return tap_done();
	hasher[0] = start_hasher(0);
	while (gm_get(&counts->right) == 0)
		story_nap(1000);
	for (int i = 1; i < HASHERS; i++)
		hasher[i] = start_hasher(i);
	rounds();
	for (int i = 0; i < HASHERS; i++)
		player_end(&hasher[i], SIGKILL);
	settles(0, 0);
	if (tap_failures)
		agent_show_log(&agent);
	gpumap_detach(map);
	EQ(agent_kill(&agent, SIGTERM), 0);
	stage_end(&agent);
	return tap_done();
}
