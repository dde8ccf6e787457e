/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Checks LOADs that come behind a LOAD whose last reads have not ended: they
 * are read meanwhile, end in their turn, and have the status that they would
 * have had anyway.
 *
 * The first LOAD's file belongs to a file system that answers when the test
 * tells it to.
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gpumap.h"
#include "tests/support/story_rows.h"
#include "tests/support/fuse.h"

#define CONFIG "[host]\nrows = 2\n[load]\ndepth = 4\nread = 64K\n"
#define READ   (UINT64_C(64) << 10)
#define FROM   (8 * MIB) /* offset of the held reads */
#define JOBS   3

static struct agent agent;
static struct gpumap *map;
static struct fuse fuse;
static uint32_t n_read; /* reads answered when the holding began */

struct loads {
	struct gpumap_session *session;
	struct gpumap_job job[JOBS];
	char *memory;
	int fd;
	uint64_t file;
};

static void open_loads(struct loads *l)
{
	struct gpumap_session_opts opts = { .size = sizeof(opts),
					    .arena_bytes = 8 * MIB };
	void *memory = NULL;

	memset(l, 0, sizeof(*l));
	if (gpumap_session_open(map, &opts, &l->session) != 0 ||
	    gpumap_alloc(l->session, 0, 4 * MIB, &memory) != 0)
		exit(99);
	l->memory = memory;
	memset(l->memory, 0, 4 * MIB);
	l->fd = fuse_open(&fuse);
	l->file = load_register(l->session, l->fd);
	/* The first LOAD takes half of the reads that may be under way. */
	l->job[0] = load_job(l->file, FROM, 2 * READ, l->memory);
}

static void release(void)
{
	fuse.orders->holds = false;
	close(fuse_open(&fuse)); /* so that it sees the change */
}

/* Submit the LOADs.  The reads of the first begin and get no answer. */
static void hold(struct loads *l, uint32_t n)
{
	fuse.orders->holds_from = FROM;
	fuse.orders->holds = true;
	n_read = fuse.orders->n_read;
	for (uint32_t i = 0; i < n; i++)
		l->job[i].cookie = i;
	EQ(gpumap_submit(l->session, 0, l->job, n), 0);
	STORY_WAIT_WHILE(fuse.orders->held < 2);
	EQ(fuse.orders->held, 2);
}

/* Wait until @n reads of the other LOADs have been answered. */
static bool are_read(uint32_t n)
{
	STORY_WAIT_WHILE(fuse.orders->n_read - n_read < n);
	return fuse.orders->n_read - n_read >= n;
}

/* The LOADs end in order, each with its status. */
static void expect(struct loads *l, const int *status, uint32_t n)
{
	uint64_t until = story_now() + STORY_LIMIT_NS;
	struct gpumap_done done;

	for (uint32_t i = 0; i < n; i++) {
		if (!EQ(gpumap_wait(l->session, &done, 1, until), 1))
			return;
		EQ(done.cookie, i);
		EQ(done.status, status[i]);
	}
	EQ(gpumap_poll(l->session, &done, 1), 0);
}

static void close_loads(struct loads *l)
{
	gpumap_session_close(l->session);
	close(l->fd);
}

static bool is_zero(const char *at, uint64_t n)
{
	for (uint64_t i = 0; i < n; i++)
		if (at[i] != 0)
			return false;
	return true;
}

/* The two LOADs' destinations overlap, and a job behind both reads them. */
static void the_next_is_read_and_waits_its_turn(void)
{
	struct gpumap_done done;
	struct loads l;

	open_loads(&l);
	l.job[1] = load_job(l.file, 0, MIB, l.memory + READ);
	l.job[2] = (struct gpumap_job){ .op = GPUMAP_OP_COPY,
					.dtype = GPUMAP_DTYPE_U8,
					.dst = l.memory + 2 * MIB,
					.src = l.memory,
					.n = MIB + READ };
	hold(&l, 3);
	OK(are_read(2));
	EQ(fuse.orders->held, 2);
	EQ(gpumap_poll(l.session, &done, 1), 0);
	OK(is_zero(l.memory, 4 * MIB));
	release();
	expect(&l, (int[]){ 0, 0, 0 }, 3);
	for (int i = 0; i < 2; i++) {
		OK(load_matches(l.memory + 2 * MIB * i, FROM, READ));
		OK(load_matches(l.memory + 2 * MIB * i + READ, 0, MIB));
	}
	close_loads(&l);
}

static void each_has_a_status_of_its_own(void)
{
	int few = load_file(".", READ);
	struct loads l;

	open_loads(&l);
	l.job[1] = load_job(load_register(l.session, few), 0, 2 * READ,
			    l.memory + MIB);
	l.job[2] = load_job(l.file, 4096, READ, l.memory + 2 * MIB);
	hold(&l, 3);
	/* On most machines this is long enough for the read to be tried. */
	story_nap(20000);
	EQ(fuse.orders->held, 2);
	release();
	expect(&l, (int[]){ 0, -ENODATA, 0 }, 3);
	OK(load_matches(l.memory, FROM, 2 * READ));
	OK(load_matches(l.memory + 2 * MIB, 4096, READ));
	close_loads(&l);
	close(few);
}

/* Bytes that were read for a canceled LOAD are not written. */
static void one_that_is_read_may_be_cancelled(void)
{
	struct loads l;

	open_loads(&l);
	l.job[1] = load_job(l.file, 0, 4 * READ, l.memory + MIB);
	hold(&l, 2);
	OK(are_read(2));
	EQ(gpumap_cancel(l.session, 0), 0);
	release();
	expect(&l, (int[]){ 0, -ECANCELED }, 2);
	OK(load_matches(l.memory, FROM, 2 * READ));
	OK(is_zero(l.memory + MIB, 4 * READ));
	EQ(load(l.session, 0, l.file, 5, MIB, l.memory), 0);
	OK(load_matches(l.memory, 5, MIB));
	close_loads(&l);
}

/* One LOAD's memory is the next one's file.  The next one must find the bytes
 * that the first has loaded. */
static void what_one_writes_the_next_reads(void)
{
	int shared = memfd_create("agent-load", MFD_ALLOW_SEALING);
	struct gpumap_done done;
	uint64_t memory = 0;
	struct loads l;

	open_loads(&l);
	if (ftruncate(shared, (off_t)MIB) != 0 ||
	    fcntl(shared, F_ADD_SEALS, F_SEAL_SHRINK) != 0)
		exit(99);
	EQ(gpumap_buffer_register(l.session, shared, 0, MIB, 0, &memory), 0);
	l.job[0].dst = NULL;
	l.job[0].dst_buffer = memory;
	l.job[1] = load_job(load_register(l.session, shared), 0, 2 * READ,
			    l.memory);
	hold(&l, 2);
	/* On most machines this is long enough for the read to be done. */
	story_nap(20000);
	EQ(gpumap_poll(l.session, &done, 1), 0);
	release();
	expect(&l, (int[]){ 0, 0 }, 2);
	OK(load_matches(l.memory, FROM, 2 * READ));
	close_loads(&l);
	close(shared);
}

/* Reads that are under way hold up no session that closes. */
static void who_has_read_ahead_can_leave(void)
{
	pid_t worker = (pid_t)story_device(map, 0).worker_pid;
	struct loads l;

	open_loads(&l);
	l.job[1] = load_job(l.file, 0, MIB, l.memory + MIB);
	hold(&l, 2);
	OK(are_read(2));
	close_loads(&l);
	STORY_WAIT_WHILE(gpumap_session_list(map, NULL, 0) != 0);
	EQ(gpumap_session_list(map, NULL, 0), 0);
	EQ(fuse.orders->held, 2);
	release();
	open_loads(&l);
	EQ(load(l.session, 0, l.file, 0, MIB, l.memory), 0);
	OK(load_matches(l.memory, 0, MIB));
	EQ(story_device(map, 0).worker_pid, worker);
	close_loads(&l);
}

TAP_CASE()
{
	char folder[128];

	stage_make(&agent, CONFIG);
	snprintf(folder, sizeof(folder), "%s/fuse", agent.dir);
	if (geteuid() != 0 || !fuse_begin(&fuse, folder)) {
		SKIP(1, "needs root, and /dev/fuse");
		stage_end(&agent);
		return tap_done();
	}
	if (OK(agent_start(&agent)) && OK((map = story_attach(&agent)))) {
		the_next_is_read_and_waits_its_turn();
		each_has_a_status_of_its_own();
		one_that_is_read_may_be_cancelled();
		what_one_writes_the_next_reads();
		who_has_read_ahead_can_leave();
	}
	gpumap_detach(map);
	/* fuse_end() lets go of processes that wait for the file system, so
	 * that they can end. */
	fuse_end(&fuse);
	EQ(agent_kill(&agent, SIGTERM), 0);
	if (tap_failures)
		agent_show_log(&agent);
	stage_end(&agent);
	return tap_done();
}
