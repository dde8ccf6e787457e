/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Checks copies between rows, through the whole system: from every row to every
 * other, out of memory that the other row's worker can import and out of memory
 * that it has to borrow, while workers die and buffers are freed.
 *
 * With STAGE_CUDA the links of one card corrupt the data they carry.  The
 * results must be right all the same.
 */

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "gpumap.h"
#include "tests/support/process.h"
#include "tests/support/story.h"
#include "tests/support/story_rows.h"

#ifdef STAGE_CUDA
#define ROWS (STAGE_ROWS + 2) /* the host rows behind the cards */
#else
#define ROWS STAGE_ROWS
#endif

#define MIB   (UINT64_C(1) << 20)
#define BYTES (5 * MIB + 4099) /* pieces, slices, and a rest of each */
#define BIG   (48 * MIB)

static struct agent agent;
static struct gpumap *map;

/* ---- helpers ------------------------------------------------------------- */

struct side {
	struct gpumap_session *session;
	unsigned char *here[ROWS]; /* BIG bytes in each row's range */
};

static bool open_side(struct side *s)
{
	struct gpumap_session_opts opts = { .size = sizeof(opts),
					    .arena_bytes = BIG + MIB };

	memset(s, 0, sizeof(*s));
	if (!EQ(gpumap_session_open(map, &opts, &s->session), 0)) {
		NOTE("%s", gpumap_refusal(map));
		return false;
	}
	for (uint32_t row = 0; row < ROWS; row++) {
		void *memory = NULL;

		if (!EQ(gpumap_alloc(s->session, row, BIG, &memory), 0))
			return false;
		s->here[row] = memory;
	}
	return true;
}

static unsigned char byte_of(uint64_t i, unsigned seed)
{
	return (unsigned char)((i + seed) * 2654435761u >> 13);
}

static void paint(unsigned char *at, uint64_t n, unsigned seed)
{
	for (uint64_t i = 0; i < n; i++)
		at[i] = byte_of(i, seed);
}

static bool is_painted(const unsigned char *at, uint64_t n, uint64_t from,
		       unsigned seed)
{
	for (uint64_t i = 0; i < n; i++) {
		if (at[i] == byte_of(from + i, seed))
			continue;
		NOTE("byte %llu of %llu is wrong", (unsigned long long)i,
		     (unsigned long long)n);
		return false;
	}
	return true;
}

static int run(struct side *s, uint32_t row, const struct gpumap_job *job)
{
	int ret = gpumap_submit(s->session, row, job, 1);

	return ret < 0 ? ret : story_end(s->session);
}

static uint64_t buffer_make(struct side *s, uint32_t row, uint64_t bytes,
			    uint32_t flags)
{
	uint64_t buffer = 0;

	if (!EQ(gpumap_buffer_alloc(s->session, row, bytes, flags,
				    story_now() + STORY_LIMIT_NS, &buffer),
		0))
		NOTE("row %u: %s", row, gpumap_refusal(map));
	return buffer;
}

/* Make a buffer with a pattern in it. */
static uint64_t painted(struct side *s, uint32_t row, uint64_t bytes,
			uint32_t flags, unsigned seed)
{
	struct gpumap_job job = { .op = GPUMAP_OP_COPY,
				  .dtype = GPUMAP_DTYPE_U8,
				  .src = s->here[row],
				  .n = bytes };

	paint(s->here[row], bytes, seed);
	job.dst_buffer = buffer_make(s, row, bytes, flags);
	EQ(run(s, row, &job), 0);
	return job.dst_buffer;
}

static struct gpumap_job copy_of(uint64_t to, uint64_t from, uint64_t n)
{
	return (struct gpumap_job){ .op = GPUMAP_OP_COPY,
				    .dtype = GPUMAP_DTYPE_U8,
				    .dst_buffer = to,
				    .src_buffer = from,
				    .n = n };
}

/* Copy a buffer to the row's range.  Returns its bytes there. */
static const unsigned char *brought(struct side *s, uint32_t row,
				    uint64_t buffer, uint64_t n)
{
	struct gpumap_job job = copy_of(0, buffer, n);

	job.dst = s->here[row];
	memset(s->here[row], 0xee, n);
	EQ(run(s, row, &job), 0);
	return s->here[row];
}

static void kill_worker(uint32_t row)
{
	struct gpumap_device device = story_device(map, row);

	kill((pid_t)device.worker_pid, SIGKILL);
	OK(story_back(map, row, device.restarts));
}

/* ---- every row to every other -------------------------------------------- */

static void copy_between(struct side *s, uint32_t to, uint32_t from,
			 uint32_t flags)
{
	unsigned seed = to * 17 + from * 5 + flags;
	uint64_t source = painted(s, from, BYTES, flags, seed);
	uint64_t target = buffer_make(s, to, BYTES, 0);
	struct gpumap_job job = copy_of(target, source, BYTES);
	bool right;
	int ret = run(s, to, &job);

	if (!EQ(ret, 0))
		NOTE("row %u from %u: %s", to, from, gpumap_refusal(map));
	right = OK(is_painted(brought(s, to, target, BYTES), BYTES, 0, seed));
	/* Copy the middle of the source straight to the arena. */
	job = copy_of(0, source, MIB);
	job.src_at = 4 * MIB + 1;
	job.dst = s->here[to] + 3;
	EQ(run(s, to, &job), 0);
	right &= OK(is_painted(s->here[to] + 3, MIB, job.src_at, seed));
	if (!right)
		NOTE("row %u from %u, flags %u", to, from, flags);
	EQ(gpumap_buffer_free(s->session, source), 0);
	EQ(gpumap_buffer_free(s->session, target), 0);
	EQ(run(s, to, &job), -ESTALE);
}

static void every_row_copies_from_every_other(void)
{
	struct side s;

	if (!open_side(&s))
		return;
	for (uint32_t to = 0; to < ROWS; to++)
		for (uint32_t from = 0; from < ROWS; from++) {
			if (to == from)
				continue;
			copy_between(&s, to, from, 0);
			copy_between(&s, to, from, GPUMAP_BUFFER_EXPORTABLE);
		}
	gpumap_session_close(s.session);
	OK(agent_logged(&agent, "way=stage"));
	OK(agent_logged(&agent, "way=map"));
}

/* Jobs take effect in the order of their submission, whichever way their data
 * takes. */
static void order_is_kept(void)
{
	uint64_t a, b, target;
	struct gpumap_job jobs[6];
	struct side s;

	if (!open_side(&s))
		return;
	a = painted(&s, 1, BYTES, 0, 1);
	b = painted(&s, 1, BYTES, GPUMAP_BUFFER_EXPORTABLE, 2);
	target = buffer_make(&s, 0, BYTES, 0);
	jobs[0] = copy_of(target, b, BYTES);
	jobs[1] = copy_of(target, a, BYTES);
	jobs[2] = copy_of(0, target, MIB);
	jobs[2].dst = s.here[0];
	jobs[3] = copy_of(target, b, BYTES);
	jobs[4] = copy_of(0, target, MIB);
	jobs[4].dst = s.here[0] + MIB;
	jobs[5] = copy_of(target, a, BYTES);
	EQ(gpumap_submit(s.session, 0, jobs, 6), 0);
	for (int i = 0; i < 6; i++)
		EQ(story_end(s.session), 0);
	OK(is_painted(s.here[0], MIB, 0, 1));
	OK(is_painted(s.here[0] + MIB, MIB, 0, 2));
	OK(is_painted(brought(&s, 0, target, BYTES), BYTES, 0, 1));
	gpumap_session_close(s.session);
}

static void only_copies_only_read(void)
{
	uint64_t mine, theirs;
	struct gpumap_job job;
	struct side s, other;

	if (!open_side(&s) || !open_side(&other))
		return;
	mine = painted(&s, 0, BYTES, 0, 3);
	theirs = painted(&s, 1, BYTES, GPUMAP_BUFFER_EXPORTABLE, 4);
	job = copy_of(theirs, mine, 64);
	EQ(run(&s, 0, &job), -EOPNOTSUPP);
	OK(strstr(gpumap_refusal(map), "submit the job to that row") != NULL);
	job = copy_of(mine, theirs, 16);
	job.op = GPUMAP_OP_AXPY;
	job.dtype = GPUMAP_DTYPE_F32;
	EQ(run(&s, 0, &job), -EOPNOTSUPP);
	OK(strstr(gpumap_refusal(map), "COPY it to this row") != NULL);
	job = copy_of(mine, theirs, BYTES + 1);
	EQ(run(&s, 0, &job), -ERANGE);
	/* Another session may not copy from this session's buffer. */
	job = copy_of(0, theirs, 64);
	job.dst = other.here[0];
	EQ(run(&other, 0, &job), -EPERM);
	gpumap_session_close(s.session);
	gpumap_session_close(other.session);
}

/* ---- the end of buffers -------------------------------------------------- */

static void freed_in_flight(uint32_t flags)
{
	uint64_t source, target;
	struct gpumap_job jobs[4];
	struct side s, other;
	int right = 0, stale = 0;

	if (!open_side(&s) || !open_side(&other))
		return;
	target = buffer_make(&s, 0, BIG, 0);
	for (int round = 0; round < 4; round++) {
		source = painted(&s, 1, BIG, flags, 5);
		for (int i = 0; i < 4; i++)
			jobs[i] = copy_of(target, source, BIG);
		EQ(gpumap_submit(s.session, 0, jobs, 4), 0);
		story_nap(story_moment(round, 20000));
		EQ(gpumap_buffer_free(s.session, source), 0);
		/* A buffer of another session takes the place of the freed
		 * one. */
		painted(&other, 1, BIG, flags, 6);
		for (int i = 0; i < 4; i++) {
			int ret = story_end(s.session);

			right += ret == 0;
			stale += ret == -ESTALE;
		}
	}
	EQ(right + stale, 16);
	NOTE("%d copies ended before their source did, %d were stale", right,
	     stale);
	if (right > 0)
		OK(is_painted(brought(&s, 0, target, BIG), BIG, 0, 5));
	gpumap_session_close(s.session);
	gpumap_session_close(other.session);
}

static void buffers_end_with_workers(uint32_t flags)
{
	uint64_t source, target;
	struct gpumap_job job;
	struct side s;

	if (!open_side(&s))
		return;
	source = painted(&s, 1, BYTES, flags, 7);
	target = buffer_make(&s, 0, BYTES, 0);
	job = copy_of(target, source, BYTES);
	EQ(run(&s, 0, &job), 0);
	/* With the copying row's worker its buffers are gone, and the source is
	 * not. */
	kill_worker(0);
	EQ(run(&s, 0, &job), -ESTALE);
	EQ(gpumap_buffer_free(s.session, target), 0);
	target = buffer_make(&s, 0, BYTES, 0);
	job = copy_of(target, source, BYTES);
	EQ(run(&s, 0, &job), 0);
	OK(is_painted(brought(&s, 0, target, BYTES), BYTES, 0, 7));
	/* With the source row's worker the source is gone. */
	kill_worker(1);
	for (int i = 0; i < STORY_LOOKS && run(&s, 0, &job) == 0; i++)
		story_nap(1000);
	EQ(run(&s, 0, &job), -ESTALE);
	EQ(gpumap_buffer_free(s.session, source), 0);
	EQ(run(&s, 0, &job), -ESTALE);
	source = painted(&s, 1, BYTES, flags, 8);
	job = copy_of(target, source, BYTES);
	EQ(run(&s, 0, &job), 0);
	OK(is_painted(brought(&s, 0, target, BYTES), BYTES, 0, 8));
	gpumap_session_close(s.session);
}

/* ---- a worker that the library has not seen ------------------------------ */

struct reach {
	struct side *side;
	struct gpumap_job job;
	_Atomic pid_t thread; /* 0: not running yet */
	int ret;
};

static void *submit_to_row_0(void *arg)
{
	struct reach *r = arg;

	r->thread = (pid_t)syscall(SYS_gettid);
	r->ret = run(r->side, 0, &r->job);
	return NULL;
}

/* Submit the job while row 0 has no worker and the agent stands, and let the
 * agent go on once the library waits for its reply. */
static int reach_next_worker(struct side *s, const struct gpumap_job *job)
{
	struct reach r = { .side = s, .job = *job };
	struct gpumap_device device = story_device(map, 0);
	uint64_t until = story_now() + STORY_LIMIT_NS;
	pthread_t thread;

	OK(process_stop(agent.pid));
	kill((pid_t)device.worker_pid, SIGKILL);
	while (story_lives((pid_t)device.worker_pid) && story_now() < until)
		story_nap(100);
	if (!EQ(pthread_create(&thread, NULL, submit_to_row_0, &r), 0))
		return -EAGAIN;
	while ((r.thread == 0 || process_state(r.thread) != 'S') &&
	       story_now() < until)
		story_nap(100);
	kill(agent.pid, SIGCONT);
	pthread_join(thread, NULL);
	OK(story_back(map, 0, device.restarts));
	return r.ret;
}

/* The agent tells the row's next worker of a source before the library has seen
 * that there is one.  Once the source is freed, each handle is free there. */
static void a_source_is_let_go_of(uint32_t flags)
{
	struct gpumap_job job, nop = { .op = GPUMAP_OP_NOP };
	uint64_t source, target;
	struct side s;
	int bad = 0;

	if (!open_side(&s))
		return;
	EQ(run(&s, 0, &nop), 0);
	source = painted(&s, 1, BYTES, flags, 12);
	job = copy_of(0, source, MIB);
	job.dst = s.here[0];
	/* The job was for the dead worker. */
	EQ(reach_next_worker(&s, &job), -EIO);
	EQ(run(&s, 0, &nop), 0);
	EQ(gpumap_buffer_free(s.session, source), 0);
	/* One of so many has the place of the freed one. */
	for (int i = 0; i < 70; i++) {
		target = buffer_make(&s, 1, MIB, flags);
		job.src_buffer = target;
		bad += run(&s, 0, &job) != 0;
		EQ(gpumap_buffer_free(s.session, target), 0);
	}
	EQ(bad, 0);
	gpumap_session_close(s.session);
}

/* The worker of either row dies in the middle of a copy. */
static void whoever_dies_each_copy_ends_once(void)
{
	int done = 0, failed = 0, other = 0;
	struct side s;

	if (!open_side(&s))
		return;
	for (int round = 0; round < story_rounds(); round++) {
		uint32_t flags = round / 2 % 2 ? GPUMAP_BUFFER_EXPORTABLE : 0;
		uint64_t source = painted(&s, 1, BIG, flags, 9);
		uint64_t target = buffer_make(&s, 0, BIG, 0);
		struct gpumap_job jobs[2] = { copy_of(target, source, BIG),
					      copy_of(target, source, BIG) };
		uint32_t row = (uint32_t)round % 2;
		struct gpumap_device device = story_device(map, row);

		EQ(gpumap_submit(s.session, 0, jobs, 2), 0);
		story_nap(story_moment(round, 30000));
		kill((pid_t)device.worker_pid, SIGKILL);
		for (int i = 0; i < 2; i++) {
			int ret = story_end(s.session);

			done += ret == 0;
			failed += ret == -ESTALE || ret == -EIO;
			other += ret != 0 && ret != -ESTALE && ret != -EIO;
			if (ret != 0 && ret != -ESTALE && ret != -EIO)
				NOTE("round %d: %d", round, ret);
		}
		OK(story_back(map, row, device.restarts));
		EQ(gpumap_buffer_free(s.session, source), 0);
		EQ(gpumap_buffer_free(s.session, target), 0);
	}
	NOTE("%d copies were done, %d were not", done, failed);
	EQ(other, 0);
	EQ(done + failed, 2 * story_rounds());
	gpumap_session_close(s.session);
}

/* ---- deaths at marked points --------------------------------------------- */

/* Run all steps of a copy.  Any of them may fail while workers die. */
static int try_copy(struct side *s, uint32_t flags)
{
	struct gpumap_job job = copy_of(0, 0, BYTES);
	uint64_t source = 0, until = story_now() + STORY_LIMIT_NS;
	int ret = gpumap_buffer_alloc(s->session, 1, BYTES, flags, until,
				      &source);

	paint(s->here[1], BYTES, 11);
	job.dst_buffer = source;
	job.src = s->here[1];
	if (ret == 0)
		ret = run(s, 1, &job);
	job = copy_of(0, source, BYTES);
	job.dst = s->here[0];
	memset(s->here[0], 0xee, BYTES);
	if (ret == 0)
		ret = run(s, 0, &job);
	if (ret == 0 && !is_painted(s->here[0], BYTES, 0, 11))
		ret = -EBADMSG;
	while (source != 0 && gpumap_buffer_free(s->session, source) == -EAGAIN)
		story_nap(1000);
	return ret;
}

/* Copy until two copies in a row are right.  Only a worker's death may make one
 * fail. */
static void copy_until_right(const char *name, uint32_t flags)
{
	uint64_t until = story_now() + STORY_LIMIT_NS;
	int right = 0, other = 0;
	struct side s;

	if (!open_side(&s))
		return;
	while ((right < 2 || access(name, F_OK) == 0) && story_now() < until) {
		int ret = try_copy(&s, flags);

		right = ret == 0 ? right + 1 : 0;
		if (ret != 0 && ret != -EIO && ret != -ESTALE) {
			NOTE("%d: %s", ret, gpumap_refusal(map));
			other++;
		}
	}
	EQ(other, 0);
	OK(right >= 2);
	EQ(access(name, F_OK), -1); /* a worker died at the point */
	gpumap_session_close(s.session);
}

static void die_at(const char *point, uint32_t flags)
{
	char ticket[128];

	stage_death(&agent, "[host]\nrows = 2\n[worker]\nuser = root\n", point,
		    ticket);
	if (OK(agent_start(&agent)) && OK((map = story_attach(&agent))))
		copy_until_right(ticket, flags);
	story_lets_go(agent.pid, "gpumap-stage");
	stage_recovered(&agent, map, ticket);
}

static void workers_may_die_at_any_point(void)
{
	static const char *const points[] = { "worker_lent", "worker_borrowed",
					      "worker_fetches",
					      "worker_fetched",
					      "worker_stored" };

	if (!stage_has_points())
		return;
	for (size_t i = 0; i < sizeof(points) / sizeof(points[0]); i++)
		for (int n = stage_strikes(); n > 0; n--)
			die_at(points[i], 0);
#ifdef STAGE_CUDA
	for (int n = stage_strikes(); n > 0; n--) {
		die_at("worker_proven", GPUMAP_BUFFER_EXPORTABLE);
		die_at("worker_tried", GPUMAP_BUFFER_EXPORTABLE);
	}
#endif
}

/* ---- cards --------------------------------------------------------------- */

#ifdef STAGE_CUDA

/* NVML reports the links later than the rows, so copy until the agent uses
 * one. */
static bool peers_are_known(struct side *s)
{
	uint64_t until = story_now() + STORY_LIMIT_NS;

	while (!agent_logged(&agent, "way=peer") && story_now() < until) {
		copy_between(s, 3, 2, GPUMAP_BUFFER_EXPORTABLE);
		story_nap(20000);
	}
	return agent_logged(&agent, "way=peer");
}

static void links_that_lie_are_found_out(void)
{
	struct gpumap_device device = story_device(map, 2);
	struct side s;

	if (!open_side(&s) || !OK(peers_are_known(&s)))
		return;
	OK(agent_logged(&agent, "event=peers_good row=3 from=2"));
	cuda_scene_add(&stage_scene, "row %u: peer copies corrupt",
		       cuda_scene_gpu(&stage_scene, &device));
	copy_between(&s, 2, 1, GPUMAP_BUFFER_EXPORTABLE);
	OK(agent_logged(&agent, "event=peers_bad row=2 from=1"));
	copy_between(&s, 2, 1, GPUMAP_BUFFER_EXPORTABLE);
	gpumap_session_close(s.session);
}

#else

static void links_that_lie_are_found_out(void)
{
}

#endif

/* A thread of the agent closes large memory, in its own time. */
static bool holds_no_more(int held)
{
	return story_holds(agent.pid, NULL) <= held &&
	       story_holds(agent.pid, "gpumap-stage") <= 0;
}

/* The agent holds at most as many descriptors as after every row had copied
 * from every other.  There may be fewer, where a row's worker or its standby
 * has ended since. */
static void nothing_is_left(int held)
{
	STORY_WAIT_WHILE(!holds_no_more(held));
	OK(story_holds(agent.pid, NULL) <= held);
	EQ(story_holds(agent.pid, "gpumap-stage"), 0);
	for (uint32_t row = 0; row < ROWS; row++) {
		pid_t pid = (pid_t)story_device(map, row).worker_pid;

		if (pid > 0)
			story_lets_go(pid, "gpumap-stage");
	}
}

TAP_CASE()
{
	int held;

	stage_make(&agent, "[host]\nrows = 2\n");
	if (!OK(agent_start(&agent)) || !OK((map = story_attach(&agent))))
		return tap_done();
	links_that_lie_are_found_out();
	every_row_copies_from_every_other();
	held = story_holds_at_rest(agent.pid);
	order_is_kept();
	only_copies_only_read();
	freed_in_flight(0);
	freed_in_flight(GPUMAP_BUFFER_EXPORTABLE);
	buffers_end_with_workers(0);
	buffers_end_with_workers(GPUMAP_BUFFER_EXPORTABLE);
	a_source_is_let_go_of(0);
	a_source_is_let_go_of(GPUMAP_BUFFER_EXPORTABLE);
	whoever_dies_each_copy_ends_once();
	nothing_is_left(held);
	gpumap_detach(map);
	EQ(agent_kill(&agent, SIGTERM), 0);
	workers_may_die_at_any_point();
	if (tap_failures)
		agent_show_log(&agent);
	stage_end(&agent);
	return tap_done();
}
