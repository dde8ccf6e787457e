/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Checks LOADs from a file system that fails or never answers: only the user
 * whose file it is has to wait, other users do not, and every client can leave.
 */

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gpumap.h"
#include "tests/support/fuse.h"
#include "tests/support/story.h"

#define DEPTH      4
#define READ_BYTES (64 << 10)
#define MS         UINT64_C(1000000)

static struct agent agent;
static struct gpumap *map;
static struct fuse fuse;

static struct gpumap_session *session_open(char **ret_memory)
{
	struct gpumap_session_opts opts = { .size = sizeof(opts),
					    .arena_bytes = 8 * MIB };
	struct gpumap_session *session = NULL;
	void *memory = NULL;

	if (gpumap_session_open(map, &opts, &session) != 0 ||
	    gpumap_alloc(session, 0, 4 * MIB, &memory) != 0)
		exit(99);
	*ret_memory = memory;
	return session;
}

/* At most [load] depth reads are under way, of [load] read bytes each.  They go
 * past the cache, which asks this file system for one page at a time. */
static void so_many_reads_are_under_way(void)
{
	char *memory;
	struct gpumap_session *session = session_open(&memory);
	int fd = fuse_open(&fuse);
	struct gpumap_job job =
		load_job(load_register(session, fd), 0, 3 * MIB, memory);
	struct gpumap_done done = { .status = 1 };

	fuse.orders->held_bytes = 0;
	fuse.orders->holds = true;
	EQ(gpumap_submit(session, 0, &job, 1), 0);
	for (int i = 0; i < STORY_LOOKS && fuse.orders->held < DEPTH; i++)
		story_nap(1000);
	/* A read beyond the limit would arrive about now. */
	story_nap(20000);
	EQ(fuse.orders->held, DEPTH);
	EQ(fuse.orders->held_bytes, READ_BYTES);
	EQ(gpumap_poll(session, &done, 1), 0);
	fuse.orders->holds = false;
	close(fuse_open(&fuse)); /* so that it sees the change */
	EQ(gpumap_wait(session, &done, 1, story_now() + STORY_LIMIT_NS), 1);
	EQ(done.status, 0);
	OK(load_matches(memory, 0, 3 * MIB));
	gpumap_session_close(session);
	close(fd);
}

/* A file system may let a file be opened for reads past the cache and then
 * refuse those reads. */
static void the_cache_will_do(void)
{
	const uint64_t n = 2 * MIB - 7;
	char *memory;
	struct gpumap_session *session = session_open(&memory);
	int fd = fuse_open(&fuse);
	uint64_t file = load_register(session, fd);

	fuse.orders->refuses_direct = true;
	for (int i = 0; i < 2; i++) {
		memset(memory, 0, n);
		EQ(load(session, 0, file, 4096, n, memory), 0);
		OK(load_matches(memory, 4096, n));
	}
	fuse.orders->refuses_direct = false;
	gpumap_session_close(session);
	close(fd);
}

static void errors_are_told_apart(void)
{
	static const struct {
		int says;
		int want;
	} errors[] = {
		{ -EIO, -EREMOTEIO },    { -EUCLEAN, -EREMOTEIO },
		{ -ESTALE, -EREMOTEIO }, { -ENODATA, -EREMOTEIO },
		{ -EACCES, -EACCES },    { -EINVAL, -EREMOTEIO },
		{ -EINTR, -EREMOTEIO },  { -EAGAIN, -EREMOTEIO },
	};
	char *memory;
	struct gpumap_session *session = session_open(&memory);
	int fd = fuse_open(&fuse);
	uint64_t file = load_register(session, fd);

	fuse.orders->fails_from = MIB + 5;
	for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
		fuse.orders->error = errors[i].says;
		if (!EQ(load(session, 0, file, 0, 2 * MIB, memory),
			errors[i].want))
			NOTE("of %s", strerror(-errors[i].says));
		EQ(load(session, 0, file, 0, MIB, memory), 0);
	}
	OK(load_matches(memory, 0, MIB));
	fuse.orders->fails_from = UINT64_MAX;
	gpumap_session_close(session);
	close(fd);
}

/* A file system may return less than it was asked for in the middle of a file,
 * and always does so at the end. */
static void short_answers_are_made_up_for(void)
{
	static const uint32_t most[] = { 4096, 12288, 65536 };
	char *memory;
	struct gpumap_session *session = session_open(&memory);
	int fd = fuse_open(&fuse);
	uint64_t file = load_register(session, fd);

	for (size_t i = 0; i < sizeof(most) / sizeof(most[0]); i++) {
		uint64_t n = 2 * MIB - 7;

		fuse.orders->most = most[i];
		memset(memory, 0, 3 * MIB);
		if (!EQ(load(session, 0, file, 4096, n, memory), 0) ||
		    !OK(load_matches(memory, 4096, n)))
			NOTE("of %u bytes", most[i]);
		EQ(load(session, 0, file, FUSE_FILE_BYTES - 3, 3, memory), 0);
		OK(load_matches(memory, FUSE_FILE_BYTES - 3, 3));
		EQ(load(session, 0, file, FUSE_FILE_BYTES - 3, 4, memory),
		   -ENODATA);
	}
	close(fd);
	/* With such flags the kernel would not complete a short read. */
	fuse.orders->open_flags = FOPEN_DIRECT_IO;
	fd = fuse_open(&fuse);
	EQ(gpumap_buffer_register_file(session, fd, 0, &file), -EOPNOTSUPP);
	OK(strstr(gpumap_refusal(map), "mount it without"));
	fuse.orders->open_flags = 0;
	fuse.orders->most = 0;
	gpumap_session_close(session);
	close(fd);
}

/* Begin @n LOADs that are never answered, each of its own session. */
static void get_stuck(struct gpumap_session **sessions, int n, int fd)
{
	fuse.orders->error = 0;
	fuse.orders->fails_from = MIB;
	for (int i = 0; i < n; i++) {
		char *memory;
		struct gpumap_job job;

		sessions[i] = session_open(&memory);
		job = load_job(load_register(sessions[i], fd), 0, 4 * MIB,
			       memory);
		EQ(gpumap_submit(sessions[i], 0, &job, 1), 0);
	}
	for (int i = 0; i < STORY_LOOKS && fuse.orders->unanswered == 0; i++)
		story_nap(1000);
	OK(fuse.orders->unanswered > 0);
}

static bool no_session_is_left(void)
{
	STORY_WAIT_WHILE(gpumap_session_list(map, NULL, 0) != 0);
	return gpumap_session_list(map, NULL, 0) == 0;
}

/* Root's hanging loads concern root alone.  Other jobs of root run, and a
 * session that closes can leave. */
static void who_is_stuck_can_leave(void)
{
	struct gpumap_session *sessions[3], *other;
	struct gpumap_done done;
	char *memory;
	int fd = fuse_open(&fuse);
	pid_t worker = (pid_t)story_device(map, 0).worker_pid;

	get_stuck(sessions, 3, fd);
	other = session_open(&memory);
	EQ(story_run(other, 0, &(struct gpumap_job){ .op = GPUMAP_OP_NOP }), 0);
	EQ(gpumap_poll(sessions[0], &done, 1), 0);
	for (int i = 0; i < 3; i++)
		gpumap_session_close(sessions[i]);
	gpumap_session_close(other);
	OK(no_session_is_left());
	EQ(story_device(map, 0).worker_pid, worker);
	close(fd);
}

/* The hanging load still holds bounce buffers.  Another user's load has its
 * own. */
static void others_load_meanwhile(void)
{
	struct gpumap_session *stuck[1];
	int fd = fuse_open(&fuse), good = load_file(".", 4 * MIB);
	pid_t pid;
	int status = -1;

	get_stuck(stuck, 1, fd);
	pid = fork();
	if (pid == 0) {
		struct gpumap_session *session;
		uint64_t file = 0;
		char *memory;

		if (setresuid(65533, 65533, 65533) != 0)
			_exit(2);
		map = story_attach(&agent);
		if (!map)
			_exit(3);
		session = session_open(&memory);
		gpumap_buffer_register_file(session, good, 0, &file);
		_exit(load(session, 0, file, 0, 4 * MIB, memory) != 0 ||
		      !load_matches(memory, 0, 4 * MIB));
	}
	EQ(waitpid(pid, &status, 0), pid);
	EQ(status, 0);
	gpumap_session_close(stuck[0]);
	OK(no_session_is_left());
	close(fd);
	close(good);
}

/* Returns how many reads are under way at once for a user who begins to load
 * now. */
static int reads_of_another(int fd)
{
	struct gpumap_session *session;
	struct gpumap_job job;
	uint64_t file = 0;
	char *memory;

	if (setresuid(65533, 65533, 65533) != 0)
		return 100;
	map = story_attach(&agent);
	if (!map)
		return 101;
	session = session_open(&memory);
	if (gpumap_buffer_register_file(session, fd, 0, &file) != 0)
		return 102;
	job = load_job(file, 0, 4 * MIB, memory);
	if (gpumap_submit(session, 0, &job, 1) != 0)
		return 103;
	STORY_WAIT_WHILE(fuse.orders->held < DEPTH);
	return (int)fuse.orders->held;
}

/* Reads of a session that has left no longer count, so the whole depth is free
 * for the next user. */
static void who_is_stuck_and_has_left_takes_no_part(void)
{
	struct gpumap_session *stuck[1];
	int fd = fuse_open(&fuse), status = -1;
	pid_t pid;

	get_stuck(stuck, 1, fd);
	gpumap_session_close(stuck[0]);
	OK(no_session_is_left());
	fuse.orders->fails_from = UINT64_MAX;
	fuse.orders->held_bytes = 0;
	fuse.orders->holds = true;
	pid = fork();
	if (pid == 0)
		_exit(reads_of_another(fd));
	EQ(waitpid(pid, &status, 0), pid);
	EQ(status, DEPTH << 8);
	fuse.orders->holds = false;
	close(fuse_open(&fuse)); /* so that it sees the change */
	OK(no_session_is_left());
	close(fd);
}

static void a_deadline_ends_what_is_stuck(void)
{
	char *memory;
	struct gpumap_session *session = session_open(&memory);
	int fd = fuse_open(&fuse);
	struct gpumap_job job =
		load_job(load_register(session, fd), 0, 4 * MIB, memory);

	fuse.orders->fails_from = MIB;
	job.deadline_ns = story_now() + UINT64_C(100000000);
	EQ(story_run(session, 0, &job), -ETIME);
	EQ(story_run(session, 0, &(struct gpumap_job){ .op = GPUMAP_OP_NOP }),
	   0);
	gpumap_session_close(session);
	close(fd);
}

/* Nothing else wakes the worker, so it must have set a timer.  Without one the
 * worker's next poll would be late by 450 ms each time. */
static void a_deadline_is_not_slept_over(void)
{
	uint64_t until = story_now() + STORY_LIMIT_NS, late_ns = UINT64_MAX;
	char *memory;
	struct gpumap_session *session = session_open(&memory);
	int fd = fuse_open(&fuse), tries = 0;
	struct gpumap_job job =
		load_job(load_register(session, fd), 0, 4 * MIB, memory);

	for (; late_ns > 250 * MS && story_now() < until; tries++) {
		job.deadline_ns = story_now() + 50 * MS;
		EQ(story_run(session, 0, &job), -ETIME);
		late_ns = story_now() - job.deadline_ns;
	}
	NOTE("late by %.1f ms, after %d tries", (double)late_ns / 1e6, tries);
	OK(late_ns <= 250 * MS);
	gpumap_session_close(session);
	close(fd);
}

/* A read that nothing waits for any more ends, also one that the file system
 * would never answer, so that its bounce buffer is free again. */
static void reads_of_who_has_left_are_cancelled(void)
{
	struct gpumap_session *stuck[1];
	uint64_t until;
	int fd = fuse_open(&fuse);

	fuse.orders->interruptible = true;
	fuse.orders->n_interrupted = 0;
	fuse.orders->unanswered = 0;
	get_stuck(stuck, 1, fd);
	EQ(fuse.orders->n_interrupted, 0);
	gpumap_session_close(stuck[0]);
	OK(no_session_is_left());
	until = story_now() + STORY_LIMIT_NS;
	while (fuse.orders->n_interrupted < fuse.orders->unanswered &&
	       story_now() < until)
		story_nap(1000);
	OK(fuse.orders->n_interrupted >= fuse.orders->unanswered);
	fuse.orders->interruptible = false;
	close(fd);
}

/* The same for a load whose entry has ended with -ETIME. */
static void reads_past_the_deadline_are_cancelled(void)
{
	struct gpumap_session *session;
	struct gpumap_job job;
	char *memory;
	int fd = fuse_open(&fuse);

	fuse.orders->interruptible = true;
	fuse.orders->n_interrupted = 0;
	fuse.orders->unanswered = 0;
	fuse.orders->fails_from = MIB;
	session = session_open(&memory);
	job = load_job(load_register(session, fd), 0, 4 * MIB, memory);
	job.deadline_ns = story_now() + 100 * MS;
	EQ(story_run(session, 0, &job), -ETIME);
	STORY_WAIT_WHILE(fuse.orders->n_interrupted < fuse.orders->unanswered);
	OK(fuse.orders->unanswered > 0);
	OK(fuse.orders->n_interrupted >= fuse.orders->unanswered);
	fuse.orders->interruptible = false;
	gpumap_session_close(session);
	close(fd);
}

static bool is_ready_again(pid_t before)
{
	uint64_t until = story_now() + STORY_LIMIT_NS;
	struct gpumap_device device;

	do {
		story_nap(1000);
		device = story_device(map, 0);
	} while ((device.state != GPUMAP_DEVICE_READY ||
		  (pid_t)device.worker_pid == before) &&
		 story_now() < until);
	return device.state == GPUMAP_DEVICE_READY &&
	       (pid_t)device.worker_pid != before;
}

/* The read that is never answered keeps the process, and not the row: neither
 * after a kill that gpumapd has not seen, nor beyond the end of gpumapd. */
static void a_worker_that_cannot_end_is_replaced(void)
{
	struct gpumap_session *stuck[1], *other;
	struct gpumap_done done = { .status = 1 };
	int fd = fuse_open(&fuse);
	char *memory;
	pid_t killed = (pid_t)story_device(map, 0).worker_pid;

	get_stuck(stuck, 1, fd);
	EQ(kill(killed, SIGKILL), 0);
	OK(is_ready_again(killed));
	OK(agent_logged(&agent, "event=worker_abandoned"));
	EQ(kill(killed, 0), 0); /* it is there still */
	EQ(gpumap_wait(stuck[0], &done, 1, story_now() + STORY_LIMIT_NS), 1);
	EQ(done.status, -EIO);
	other = session_open(&memory);
	EQ(story_run(other, 0, &(struct gpumap_job){ .op = GPUMAP_OP_NOP }), 0);
	gpumap_session_close(stuck[0]);
	gpumap_session_close(other);
	OK(no_session_is_left());

	fuse.orders->unanswered = 0;
	get_stuck(stuck, 1, fd);
	killed = (pid_t)story_device(map, 0).worker_pid;
	agent_kill(&agent, SIGKILL);
	gpumap_session_close(stuck[0]);
	gpumap_detach(map);
	OK(agent_start(&agent));
	map = story_attach(&agent);
	EQ(kill(killed, 0), 0);
	other = session_open(&memory);
	EQ(story_run(other, 0, &(struct gpumap_job){ .op = GPUMAP_OP_NOP }), 0);
	gpumap_session_close(other);
	close(fd);
}

TAP_CASE()
{
	char folder[128];

	agent_make(&agent, "[host]\nrows = 1\n[load]\ndepth = 4\nread = 64K\n"
			   "[socket]\nmode = 0666\n");
	snprintf(folder, sizeof(folder), "%s/fuse", agent.dir);
	if (geteuid() != 0 || !fuse_begin(&fuse, folder)) {
		SKIP(1, "needs root, and /dev/fuse");
		agent_remove(&agent);
		return tap_done();
	}
	if (OK(agent_start(&agent)) && OK((map = story_attach(&agent)))) {
		so_many_reads_are_under_way();
		the_cache_will_do();
		errors_are_told_apart();
		short_answers_are_made_up_for();
		reads_of_who_has_left_are_cancelled();
		reads_past_the_deadline_are_cancelled();
		who_is_stuck_can_leave();
		others_load_meanwhile();
		who_is_stuck_and_has_left_takes_no_part();
		a_deadline_ends_what_is_stuck();
		a_deadline_is_not_slept_over();
		a_worker_that_cannot_end_is_replaced();
	}
	gpumap_detach(map);
	/* fuse_end() lets go of processes that wait for the file system, so
	 * that they can end. */
	fuse_end(&fuse);
	EQ(agent_kill(&agent, SIGTERM), 0);
	if (tap_failures)
		agent_show_log(&agent);
	agent_remove(&agent);
	return tap_done();
}
