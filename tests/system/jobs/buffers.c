/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Checks memory outside the arena, through the whole system: a client's own
 * files and buffers of host rows, shared with other sessions and with plain
 * processes, while workers, exporters and importers come and go.
 */

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gpumap.h"
#include "shm/queue.h"
#include "tests/support/story.h"
#include "tests/support/story_rows.h"

#define ROWS   2u
#define BYTES  (UINT64_C(1) << 20)
#define FLOATS (BYTES / sizeof(float))
#define MANY   200 /* registrations */

static struct agent agent;
static struct gpumap *map;
static int held; /* descriptors of the agent, before the first client */

/* ---- helpers ----------------------------------------------------------- */

static struct gpumap_session *session_open(void)
{
	struct gpumap_session_opts opts = { .size = sizeof(opts),
					    .arena_bytes = 4 * BYTES };
	struct gpumap_session *session = NULL;

	if (!EQ(gpumap_session_open(map, &opts, &session), 0))
		NOTE("%s", gpumap_refusal(map));
	return session;
}

/* Make and map a file of this process that cannot shrink. */
static float *file_make(const char *name, uint64_t bytes, int *ret_fd)
{
	int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	void *at;

	if (fd < 0 || ftruncate(fd, (off_t)bytes) != 0 ||
	    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK) != 0)
		exit(99);
	at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (at == MAP_FAILED)
		exit(99);
	*ret_fd = fd;
	return at;
}

static int fill(struct gpumap_session *session, uint32_t row, uint64_t buffer,
		uint64_t at, uint64_t n, float value)
{
	struct gpumap_job job = { .op = GPUMAP_OP_FILL,
				  .dtype = GPUMAP_DTYPE_F32,
				  .dst_buffer = buffer,
				  .dst_at = at,
				  .n = n };

	memcpy(&job.pattern, &value, sizeof(value));
	return story_run(session, row, &job);
}

static int copy(struct gpumap_session *session, uint32_t row, uint64_t to,
		uint64_t from, uint64_t n)
{
	struct gpumap_job job = { .op = GPUMAP_OP_COPY,
				  .dtype = GPUMAP_DTYPE_F32,
				  .dst_buffer = to,
				  .src_buffer = from,
				  .n = n };

	return story_run(session, row, &job);
}

/* Copy a buffer to the arena.  Returns the value of its elements as a whole
 * number: -1 where they differ, less where the copy failed. */
static int value_of(struct gpumap_session *session, uint32_t row,
		    uint64_t buffer, uint64_t n)
{
	struct gpumap_job job = { .op = GPUMAP_OP_COPY,
				  .dtype = GPUMAP_DTYPE_F32,
				  .src_buffer = buffer,
				  .n = n };
	int value, ret;
	void *memory;
	float *at;

	if (gpumap_alloc(session, row, n * sizeof(float), &memory) != 0)
		return -2;
	job.dst = at = memory;
	ret = story_run(session, row, &job);
	value = ret == 0 ? (int)at[0] : ret - 1000;
	for (uint64_t i = 1; i < n && ret == 0; i++)
		value = at[i] == at[0] ? value : -1;
	gpumap_free(session, memory);
	return value;
}

static bool all_are(const float *at, uint64_t n, float value)
{
	for (uint64_t i = 0; i < n; i++) {
		if (at[i] != value)
			return false;
	}
	return true;
}

static pid_t worker_of(uint32_t row)
{
	return (pid_t)story_device(map, row).worker_pid;
}

/* Check whether a worker holds memory of this name now. */
static void holds(uint32_t row, const char *name, bool some)
{
	if (story_sees(worker_of(row), 1))
		EQ(story_holds(worker_of(row), name) > 0, some);
}

static void gives_back(void)
{
	OK(story_gives_back(agent.pid, held));
}

static void kill_worker(uint32_t row)
{
	struct gpumap_device device = story_device(map, row);

	kill((pid_t)device.worker_pid, SIGKILL);
	OK(story_back(map, row, device.restarts));
}

/* ---- registered memory ------------------------------------------------- */

static void jobs_use_our_own_memory(void)
{
	struct gpumap_session *session = session_open();
	int fd;
	float *ours = file_make("agent-buffers-own", 2 * BYTES, &fd);
	uint64_t all = 0, half = 0, source = 0;

	EQ(gpumap_buffer_register(session, fd, 0, 2 * BYTES, 0, &all), 0);
	EQ(gpumap_buffer_register(session, fd, BYTES, BYTES, 0, &half), 0);
	EQ(gpumap_buffer_register(session, fd, 0, BYTES,
				  GPUMAP_BUFFER_READ_ONLY, &source),
	   0);
	for (uint32_t row = 0; row < ROWS; row++) {
		int value = (int)row + 1;

		EQ(fill(session, row, all, 0, FLOATS, (float)value), 0);
		OK(all_are(ours, FLOATS, (float)value));
		EQ(copy(session, row, half, source, FLOATS), 0);
		OK(all_are(ours + FLOATS, FLOATS, (float)value));
		EQ(value_of(session, row, half, FLOATS), value);
		EQ(fill(session, row, all, 2 * BYTES - 4, 2, 9), -ERANGE);
		EQ(copy(session, row, source, half, 1), -EACCES);
	}
	holds(0, "agent-buffers-own", true);
	EQ(gpumap_buffer_unregister(session, all), 0);
	EQ(gpumap_buffer_unregister(session, half), 0);
	EQ(gpumap_buffer_unregister(session, source), 0);
	/* No worker holds the memory when that returns. */
	holds(0, "agent-buffers-own", false);
	holds(1, "agent-buffers-own", false);
	EQ(fill(session, 0, all, 0, 1, 1), -ESTALE);
	gpumap_session_close(session);
	munmap(ours, 2 * BYTES);
	close(fd);
	gives_back();
}

/* A job cannot tell where one registration ends in its file.  Data that crosses
 * the end is named through a registration that covers both sides. */
static void masks_lie_in_one_registration(void)
{
	struct gpumap_session *session = session_open();
	struct gpumap_job job = { .op = GPUMAP_OP_MASK_ADD,
				  .dtype = GPUMAP_DTYPE_F32,
				  .n = 16,
				  .mask_n = 8,
				  .mask_at = BYTES - 16 };
	int fd;
	float *ours = file_make("agent-buffers-mask", 2 * BYTES, &fd);
	uint64_t left = 0, all = 0;
	void *memory = NULL;

	EQ(gpumap_buffer_register(session, fd, 0, BYTES, 0, &left), 0);
	EQ(gpumap_buffer_register(session, fd, 0, 2 * BYTES, 0, &all), 0);
	for (uint32_t i = 0; i < 8; i++)
		ours[FLOATS - 4 + i] = (float)i;
	for (uint32_t row = 0; row < ROWS; row++) {
		float *at;
		int wrong = 0;

		EQ(gpumap_alloc(session, row, 64, &memory), 0);
		memset(memory, 0, 64);
		at = memory;
		job.dst = at;
		job.src = at;
		job.mask_buffer = left;
		EQ(gpumap_submit(session, row, &job, 1), -ERANGE);
		OK(strstr(gpumap_refusal(map), "beyond the end") != NULL);
		job.mask_buffer = all;
		EQ(story_run(session, row, &job), 0);
		for (uint32_t i = 0; i < 16; i++)
			wrong += at[i] != (float)(i % 8);
		EQ(wrong, 0);
		gpumap_free(session, memory);
	}
	gpumap_session_close(session);
	munmap(ours, 2 * BYTES);
	close(fd);
	gives_back();
}

static void our_memory_outlives_workers(void)
{
	struct gpumap_session *session = session_open();
	uint64_t buffer = 0;
	int fd;
	float *ours = file_make("agent-buffers-kept", BYTES, &fd);

	EQ(gpumap_buffer_register(session, fd, 0, BYTES, 0, &buffer), 0);
	for (int round = 0; round < 3; round++) {
		float value = (float)round + 1;

		EQ(fill(session, 0, buffer, 0, FLOATS, value), 0);
		OK(all_are(ours, FLOATS, value));
		kill_worker(0);
		holds(0, "agent-buffers-kept", true);
	}
	gpumap_session_close(session);
	story_lets_go(worker_of(0), "agent-buffers-kept");
	munmap(ours, BYTES);
	close(fd);
	gives_back();
}

/* The first job of a new worker may name any registration, while the worker is
 * still being told of the others. */
static void our_memory_is_there_first(void)
{
	struct gpumap_session *session = session_open();
	uint64_t buffers[MANY];
	int ret, fd;
	float *ours = file_make("agent-buffers-many", BYTES, &fd);

	for (int i = 0; i < MANY; i++)
		EQ(gpumap_buffer_register(session, fd, 0, BYTES, 0,
					  &buffers[i]),
		   0);
	for (int i = 0; i < MANY; i++)
		EQ(fill(session, 0, buffers[i], 0, 1, 0), 0);
	for (int round = 0; round < 3; round++) {
		struct gpumap_device device = story_device(map, 0);

		kill((pid_t)device.worker_pid, SIGKILL);
		do
			ret = fill(session, 0, buffers[MANY - 1], 0, FLOATS,
				   (float)round + 1);
		while (ret == -EIO);
		EQ(ret, 0);
		OK(all_are(ours, FLOATS, (float)round + 1));
		OK(story_back(map, 0, device.restarts));
	}
	gpumap_session_close(session);
	munmap(ours, BYTES);
	close(fd);
	gives_back();
}

/* A client that dies in the middle of its jobs leaves nothing behind. */
static void who_dies_registering_leaves_nothing(void)
{
	for (int round = 0; round < 5; round++) {
		pid_t pid = fork();

		if (pid == 0) {
			struct gpumap *own = story_attach(&agent);
			struct gpumap_session *session = NULL;
			uint64_t buffer;
			int fd;

			file_make("agent-buffers-dead", 64 * BYTES, &fd);
			if (!own ||
			    gpumap_session_open(own, NULL, &session) != 0 ||
			    gpumap_buffer_register(session, fd, 0, 64 * BYTES,
						   0, &buffer) != 0)
				_exit(1);
			for (;;)
				fill(session, 0, buffer, 0, 16 * FLOATS, 1);
		}
		story_nap(1000 + story_moment(round, 60000));
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
	}
	story_lets_go(worker_of(0), "agent-buffers-dead");
	gives_back();
}

/* A hole that a client punches into its memory harms its own session alone. */
static void holes_hit_their_own_session(void)
{
	struct gpumap_session *session = session_open();
	struct gpumap_session *other = session_open();
	uint32_t restarts = story_device(map, 0).restarts;
	uint64_t buffer = 0;
	int fd, ret = 0;
	float *ours = file_make("agent-buffers-hole", BYTES, &fd);
	void *memory;

	EQ(gpumap_alloc(other, 0, 64, &memory), 0);
	EQ(gpumap_buffer_register(session, fd, 0, BYTES, 0, &buffer), 0);
	for (int i = 0; i < 20 && ret == 0; i++) {
		EQ(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
			     (off_t)BYTES),
		   0);
		ret = fill(session, 0, buffer, 0, FLOATS, (float)i);
	}
	OK(ret == 0 || ret == -ECONNRESET);
	EQ(story_run(other, 0, &(struct gpumap_job){ .op = GPUMAP_OP_NOP }), 0);
	EQ(story_device(map, 0).restarts, restarts);
	gpumap_session_close(session);
	gpumap_session_close(other);
	munmap(ours, BYTES);
	close(fd);
	gives_back();
}

/* ---- buffers of a row -------------------------------------------------- */

static uint64_t buffer_make(struct gpumap_session *session, uint32_t row,
			    float value)
{
	uint64_t buffer = 0;

	EQ(gpumap_buffer_alloc(session, row, BYTES, GPUMAP_BUFFER_EXPORTABLE,
			       GPUMAP_NO_DEADLINE, &buffer),
	   0);
	EQ(fill(session, row, buffer, 0, FLOATS, value), 0);
	return buffer;
}

/* Only a card's driver can read a card's memory, so this reads host rows'
 * memory alone. */
static void look_into(int fd)
{
#ifndef STAGE_CUDA
	float *plain = mmap(NULL, BYTES, PROT_READ, MAP_SHARED, fd, 0);

	if (OK(plain != MAP_FAILED)) {
		OK(all_are(plain, FLOATS, 8));
		munmap(plain, BYTES);
	}
	/* No process can take the memory away from the others. */
	OK(ftruncate(fd, 0) != 0);
	OK(fcntl(fd, F_GET_SEALS) & F_SEAL_SHRINK);
#else
	OK(fcntl(fd, F_GETFD) & FD_CLOEXEC);
#endif
}

static void a_plain_process_has_it(uint64_t id)
{
	struct gpumap_export_info info = { .size = sizeof(info) };
	int fd = -1;

	if (!EQ(gpumap_export_fd(map, id, &info, &fd), 0))
		return;
	EQ(info.bytes, BYTES);
	EQ(info.row, 1);
	look_into(fd);
	close(fd);
}

static void a_buffer_is_had_by_many(void)
{
	struct gpumap_session *owner = session_open(), *other = session_open();
	uint64_t buffer = buffer_make(owner, 1, 7), id = 0, again = 0;
	uint64_t theirs = 0, gone = 0;

	EQ(gpumap_buffer_export(owner, buffer, &id), 0);
	EQ(gpumap_buffer_export(owner, buffer, &again), 0);
	EQ(again, id);
	EQ(gpumap_buffer_import(other, id, 0, &theirs), 0);
	EQ(value_of(other, 1, theirs, FLOATS), 7);
	EQ(fill(other, 1, theirs, 0, FLOATS, 8), 0);
	EQ(value_of(owner, 1, buffer, FLOATS), 8);

	a_plain_process_has_it(id);
	EQ(gpumap_buffer_free(owner, buffer), 0);
	EQ(gpumap_buffer_import(other, id, 0, &gone), -ENOENT);
	gpumap_session_close(owner);
	EQ(value_of(other, 1, theirs, FLOATS), 8);
	EQ(gpumap_buffer_free(other, theirs), 0);
	EQ(fill(other, 1, theirs, 0, 1, 0), -ESTALE);
	gpumap_session_close(other);
	gives_back();
}

/* Check the answer of every call to the name of a buffer that the session
 * cannot have. */
static void nobody_has(struct gpumap_session *session, uint64_t buffer,
		       int error)
{
	struct gpumap_share_request request = { .size = sizeof(request),
						.name = "not-ours",
						.buffers = &buffer,
						.n_buffers = 1 };
	uint64_t mine = buffer_make(session, 0, 5), id = 0;
	struct gpumap_job job = { .op = GPUMAP_OP_COPY,
				  .dtype = GPUMAP_DTYPE_F32,
				  .src_buffer = buffer,
				  .n = 1 };
	const uint32_t last = ROWS - 1;
	struct gpumap_scatter_opts opts = { .size = sizeof(opts),
					    .rows = &last,
					    .n_rows = 1 };
	struct gpumap_tile tile;

	EQ(gpumap_alloc(session, last, sizeof(float), &job.dst), 0);
	EQ(gpumap_scatter(session, &job, &opts, &tile, 1), error);
	OK(gpumap_refusal(map)[0] != '\0');
	EQ(gpumap_free(session, job.dst), 0);
	EQ(fill(session, 0, buffer, 0, FLOATS, 9), error);
	EQ(copy(session, 0, mine, buffer, FLOATS), error);
	EQ(copy(session, 0, buffer, mine, FLOATS), error);
	EQ(gpumap_buffer_export(session, buffer, &id), error);
	EQ(gpumap_share_publish(session, &request, &id), error);
	EQ(gpumap_program_unload(session, buffer), error);
	EQ(gpumap_buffer_unregister(session, buffer), error);
	EQ(gpumap_buffer_unexport(session, buffer), error);
	EQ(gpumap_buffer_free(session, buffer), error);
	EQ(value_of(session, 0, mine, FLOATS), 5);
	EQ(gpumap_buffer_free(session, mine), 0);
}

/* Sessions give their first buffers the same index.  A buffer's name must not
 * be valid in another session, which would use the wrong memory by mistake. */
static void a_name_is_good_in_its_own_session(void)
{
	struct gpumap_session *owner = session_open(), *other = session_open();
	uint64_t ours = buffer_make(owner, 0, 3);
	uint64_t theirs = buffer_make(other, 0, 4);
	uint32_t generation = gm_handle_generation(ours);

	EQ(gm_handle_index(ours), gm_handle_index(theirs));
	nobody_has(other, ours, -EPERM);
	EQ(gpumap_buffer_free(other, ours), -EPERM);
	OK(strstr(gpumap_refusal(map), "another session's") != NULL);
	EQ(value_of(owner, 0, ours, FLOATS), 3);
	EQ(value_of(other, 0, theirs, FLOATS), 4);

	nobody_has(owner, gm_handle_make(generation, 0, 0, 4096), -ERANGE);
	nobody_has(owner, gm_handle_make(generation, 0, 255, 0), -ERANGE);
	nobody_has(owner, gm_handle_make(0, 0, 0, 1), -ERANGE);
	EQ(gpumap_buffer_free(owner, gm_handle_make(0, 0, 0, 1)), -ERANGE);
	OK(strstr(gpumap_refusal(map), "no such buffer") != NULL);

	EQ(gpumap_buffer_free(owner, ours), 0);
	nobody_has(owner, ours, -ESTALE);
	nobody_has(other, ours, -EPERM);
	gpumap_session_close(other);
	other = session_open();
	buffer_make(other, 0, 6);
	nobody_has(other, theirs, -EPERM);
	gpumap_session_close(owner);
	gpumap_session_close(other);
	gives_back();
}

/* A session that imports for reading can read, and its writes are refused. */
static void an_import_can_be_for_reading(void)
{
	struct gpumap_session *owner = session_open(), *other = session_open();
	uint64_t buffer = buffer_make(owner, 0, 3), id = 0, theirs = 0;

	EQ(gpumap_buffer_export(owner, buffer, &id), 0);
	EQ(gpumap_buffer_import(other, id, GPUMAP_BUFFER_READ_ONLY, &theirs),
	   0);
	EQ(fill(other, 0, theirs, 0, 1, 1), -EACCES);
	EQ(value_of(other, 0, theirs, FLOATS), 3);
	EQ(story_buffer(other, theirs).kind, GPUMAP_BUFFER_IMPORTED);
	EQ(story_buffer(other, theirs).bytes, BYTES);
	EQ(story_buffer(other, theirs).row, 0);
	EQ(story_buffer(other, theirs).flags, GPUMAP_BUFFER_READ_ONLY);
	EQ(story_buffer(owner, buffer).kind, GPUMAP_BUFFER_ALLOCATED);
	EQ(story_buffer(owner, buffer).flags, GPUMAP_BUFFER_EXPORTABLE);
	gpumap_session_close(owner);
	gpumap_session_close(other);
	gives_back();
}

static void a_buffer_ends_with_its_worker(void)
{
	struct gpumap_session *owner = session_open(), *other = session_open();
	uint64_t buffer = buffer_make(owner, 0, 3), id = 0, theirs = 0;

	EQ(gpumap_buffer_export(owner, buffer, &id), 0);
	EQ(gpumap_buffer_import(other, id, 0, &theirs), 0);
	kill_worker(0);
	EQ(fill(owner, 0, buffer, 0, 1, 1), -ESTALE);
	EQ(fill(other, 0, theirs, 0, 1, 1), -ESTALE);
	EQ(gpumap_buffer_import(other, id, 0, &theirs), -ENOENT);
	EQ(gpumap_buffer_free(other, theirs), 0);
	EQ(gpumap_buffer_free(owner, buffer), 0);
	buffer = buffer_make(owner, 0, 4);
	EQ(gpumap_buffer_export(owner, buffer, &id), 0);
	EQ(gpumap_buffer_import(other, id, 0, &theirs), 0);
	EQ(value_of(other, 0, theirs, FLOATS), 4);
	gpumap_session_close(other);
	gpumap_session_close(owner);
	gives_back();
}

/* A session cannot have more of a row than its uid may. */
static void a_row_is_not_for_one_alone(void)
{
	struct gpumap_session *session = session_open();
	uint64_t total = story_device(map, 0).total_bytes, buffer = 0;
	int ret = gpumap_buffer_alloc(session, 0, total / 2 + BYTES, 0,
				      GPUMAP_NO_DEADLINE, &buffer);

	EQ(ret, -EDQUOT);
	EQ(gpumap_buffer_alloc(session, 0, BYTES, 0, GPUMAP_NO_DEADLINE,
			       &buffer),
	   0);
	EQ(gpumap_buffer_export(session, buffer, &buffer), -EINVAL);
	gpumap_session_close(session);
	gives_back();
}

static void wake_workers(void)
{
	struct gpumap_session *session = session_open();
	void *memory;

	for (uint32_t row = 0; row < ROWS; row++)
		EQ(gpumap_alloc(session, row, 64, &memory), 0);
	gpumap_session_close(session);
	STORY_WAIT_WHILE(gpumap_session_list(map, NULL, 0) != 0);
}

TAP_CASE()
{
	stage_make(&agent, "[host]\nrows = 2\n");
	if (!OK(agent_start(&agent)) || !OK((map = story_attach(&agent))))
		return tap_done();
	/* The count shall include the library's connection for exports, and
	 * workers that start on demand. */
	wake_workers();
	held = story_holds_at_rest(agent.pid);
	jobs_use_our_own_memory();
	masks_lie_in_one_registration();
	our_memory_outlives_workers();
	our_memory_is_there_first();
	who_dies_registering_leaves_nothing();
	holes_hit_their_own_session();
	a_buffer_is_had_by_many();
	a_name_is_good_in_its_own_session();
	an_import_can_be_for_reading();
	a_buffer_ends_with_its_worker();
	a_row_is_not_for_one_alone();
	gpumap_detach(map);
	EQ(agent_kill(&agent, SIGTERM), 0);
	stage_end(&agent);
	return tap_done();
}
