/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * A client keeps descriptors of its session's memory beyond the session's end.
 * The memory is freed all the same, and the user's quotas of memory and
 * sessions come back when it is: not before, though the client holds the
 * freeing up, and for no other user later.  Only an agent that ends leaves the
 * memory to the client, which may not have read yet what its jobs have done.
 */

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/fuse.h"
#include "tests/support/raw.h"
#include "tests/support/story.h"

#define ARENA  (32 * MIB)
#define USER   61362u
#define OTHER  61363u
#define ROUNDS 6

static const char config[] = "[socket]\nmode = 0666\n"
			     "[host]\nrows = 1\n"
			     "[limits]\narena-per-uid = 48M\n"
			     "sessions-per-uid = 2\n";

static struct agent agent;
static char path[160];

/* A session of this user with an arena of so many bytes.  Returns what the
 * agent says. */
static int open_as(struct raw *c, uid_t uid, uint64_t bytes)
{
	int ret;

	raw_init(c);
	if (geteuid() == 0 && !EQ(seteuid(uid), 0))
		return -EPERM;
	ret = raw_open_queue(c, path, 0, 16, bytes);
	if (getuid() == 0)
		EQ(seteuid(0), 0);
	return ret;
}

/* One with an arena of 32 MiB, all of it filled. */
static int open_filled(struct raw *c, uid_t uid)
{
	struct gm_entry entry;
	int ret = open_as(c, uid, ARENA);

	if (ret != 0)
		return ret;
	entry = raw_entry(&c->row[0], GPUMAP_OP_FILL);
	entry.n = ARENA;
	entry.value = 'x';
	return raw_do(c, &c->row[0], &entry);
}

static uint64_t bytes_of(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 ? (uint64_t)st.st_blocks * 512 : 0;
}

static bool gets_empty(int fd)
{
	STORY_WAIT_WHILE(bytes_of(fd) > 0);
	return bytes_of(fd) == 0;
}

/* Each has all of the quota, so the next begins when the last is freed. */
static void what_is_kept_is_empty(void)
{
	int arena[ROUNDS], queues[ROUNDS];

	for (int i = 0; i < ROUNDS; i++) {
		struct raw c;

		EQ(open_filled(&c, USER), 0);
		arena[i] = dup(c.arena);
		queues[i] = dup(c.queues);
		OK(bytes_of(arena[i]) >= ARENA);
		OK(bytes_of(queues[i]) > 0);
		if (i > 0) {
			EQ(bytes_of(arena[i - 1]), 0);
			EQ(bytes_of(queues[i - 1]), 0);
		}
		raw_close(&c);
	}
	OK(gets_empty(arena[ROUNDS - 1]));
	OK(gets_empty(queues[ROUNDS - 1]));
	for (int i = 0; i < ROUNDS; i++) {
		close(arena[i]);
		close(queues[i]);
	}
}

/* Write a page that never comes to the session's arena: this keeps the file's
 * lock, which a hole needs. */
static pid_t hold_lock(const struct fuse *fuse, const struct raw *c)
{
	pid_t pid;

	fuse->orders->fails_from = 0;
	fuse->orders->error = 0;
	fuse->orders->unanswered = 0;
	pid = fork();
	if (pid == 0) {
		int fd = fuse_open(fuse);
		const void *page =
			mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);

		if (page == MAP_FAILED)
			_exit(1);
		close(c->socket); /* would keep the session */
		_exit(pwrite(c->arena, page, 4096, 0) != 4096);
	}
	STORY_WAIT_WHILE(fuse->orders->unanswered == 0);
	OK(fuse->orders->unanswered > 0);
	return pid;
}

static void one_that_cannot_be_freed_counts(void)
{
	struct fuse fuse;
	struct raw c, again, more, other;
	char folder[128], gone[64];
	pid_t holder;
	int arena;

	snprintf(folder, sizeof(folder), "%s/fuse", agent.dir);
	if (geteuid() != 0 || !fuse_begin(&fuse, folder)) {
		SKIP(1, "needs root, and /dev/fuse");
		return;
	}
	EQ(open_filled(&c, USER), 0);
	arena = dup(c.arena);
	holder = hold_lock(&fuse, &c);
	snprintf(gone, sizeof(gone), "event=session_gone session=%" PRIu64 " ",
		 c.session.id);
	raw_close(&c);
	OK(agent_wait_log(&agent, gone));
	/* The request waits for the memory, and is refused in the end. */
	EQ(open_filled(&again, USER), -EDQUOT);
	raw_close(&again);
	EQ(open_as(&again, USER, MIB), 0);
	EQ(open_as(&more, USER, MIB), -EUSERS);
	OK(strstr(more.refusal, "1 of them ended") != NULL);
	raw_close(&more);
	raw_close(&again);
	EQ(open_filled(&other, OTHER), 0);
	raw_close(&other);
	OK(bytes_of(arena) >= ARENA);
	fuse_end(&fuse); /* the write fails */
	OK(gets_empty(arena));
	EQ(open_filled(&again, USER), 0);
	raw_close(&again);
	kill(holder, SIGKILL);
	waitpid(holder, NULL, 0);
	close(arena);
}

/* The client takes the completions, and what the jobs have written, once the
 * agent has ended. */
static void the_end_of_the_agent_takes_nothing(void)
{
	struct gpumap_session_opts opts = { .size = sizeof(opts),
					    .arena_bytes = 2 * MIB };
	struct gpumap_job job = { .op = GPUMAP_OP_FILL,
				  .dtype = GPUMAP_DTYPE_U32,
				  .pattern = 7,
				  .n = MIB / 4 };
	struct gpumap *map = story_attach(&agent);
	struct gpumap_session *session = NULL;
	struct gpumap_done done = { 0 };
	uint32_t *at = NULL, wrong = 0;
	void *memory = NULL;

	if (!OK(map != NULL) ||
	    !EQ(gpumap_session_open(map, &opts, &session), 0) ||
	    !EQ(gpumap_alloc(session, 0, MIB, &memory), 0))
		return;
	job.dst = at = memory;
	EQ(gpumap_submit(session, 0, &job, 1), 0);
	STORY_WAIT_WHILE(at[MIB / 4 - 1] != 7);
	EQ(agent_kill(&agent, SIGTERM), 0);
	EQ(gpumap_poll(session, &done, 1), 1);
	EQ(done.status, 0);
	for (size_t i = 0; i < MIB / 4; i++)
		wrong += at[i] != 7;
	EQ(wrong, 0);
	gpumap_session_close(session);
	gpumap_detach(map);
}

TAP_CASE()
{
	agent_make(&agent, config);
	snprintf(path, sizeof(path), "%s/%s.sock", agent.dir, agent.instance);
	if (OK(agent_start(&agent))) {
		what_is_kept_is_empty();
		one_that_cannot_be_freed_counts();
		the_end_of_the_agent_takes_nothing();
	}
	agent_remove(&agent);
	return tap_done();
}
