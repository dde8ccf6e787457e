/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Checks LOAD through the whole system: files of every size from every offset,
 * descriptors that are no files, files that change meanwhile, and clients and
 * workers that die in the middle of it.
 */

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gpumap.h"
#include "tests/support/story_rows.h"
#include "tests/support/load_file.h"

#define ARENA (8 * MIB)

static struct agent agent;
static struct gpumap *map;
static int held; /* descriptors of the agent, before the first client */

/* ---- helpers ----------------------------------------------------------- */

static struct gpumap_session *session_open(struct gpumap *of)
{
	struct gpumap_session_opts opts = { .size = sizeof(opts),
					    .arena_bytes = ARENA };
	struct gpumap_session *session = NULL;

	if (!EQ(gpumap_session_open(of, &opts, &session), 0))
		NOTE("%s", gpumap_refusal(of));
	return session;
}

static char *arena(struct gpumap_session *session, uint32_t row, uint64_t bytes)
{
	void *memory = NULL;

	if (gpumap_alloc(session, row, bytes, &memory) != 0)
		exit(99);
	return memory;
}

static uint64_t buffer(struct gpumap_session *session, uint32_t row,
		       uint64_t bytes)
{
	uint64_t name = 0;

	EQ(gpumap_buffer_alloc(session, row, bytes, 0, GPUMAP_NO_DEADLINE,
			       &name),
	   0);
	return name;
}

/* Load to a buffer, and copy the buffer to @to by a job of the same row. */
static int load_by_buffer(struct gpumap_session *session, uint32_t row,
			  const struct gpumap_job *like, uint64_t name,
			  uint64_t at, char *to)
{
	struct gpumap_job job = *like;
	int ret;

	job.dst_buffer = name;
	job.dst_at = at;
	ret = story_run(session, row, &job);
	if (ret < 0)
		return ret;
	job = (struct gpumap_job){ .op = GPUMAP_OP_COPY,
				   .dtype = GPUMAP_DTYPE_U8,
				   .dst = to,
				   .n = like->n,
				   .src_buffer = name,
				   .src_at = at };
	return story_run(session, row, &job);
}

static void gives_back(void)
{
	OK(story_gives_back(agent.pid, held));
}

/* Check that row 0's worker has none of this test's files open. */
static void worker_lets_go(void)
{
	story_lets_go((pid_t)story_device(map, 0).worker_pid, "agent-load.");
}

/* ---- every byte --------------------------------------------------------- */

static const uint64_t sizes[] = {
	0, 1, 511, 512, 513, 4095, 4096, 4097, 3 * MIB + 123,
};

/* Load from one file at every offset, and of every size, that can make a
 * difference. */
static void all_of(struct gpumap_session *session, uint32_t row, int fd,
		   uint64_t size, char *memory)
{
	const uint64_t from[] = { 0,    1,    511,      512,
				  4095, 4096, size / 2, size ? size - 1 : 0,
				  size };
	uint64_t file = load_register(session, fd);
	unsigned wrong = 0;

	for (size_t i = 0; i < sizeof(from) / sizeof(from[0]); i++) {
		uint64_t left = from[i] < size ? size - from[i] : 0;
		char *to = memory + i;

		memset(to, 0, left + 1);
		wrong += load(session, row, file, from[i], left, to) != 0;
		wrong += !load_matches(to, from[i], left) || to[left] != 0;
		wrong += load(session, row, file, from[i], left + 1, to) !=
			 -ENODATA;
		wrong += load(session, row, file, from[i], left / 3, to) != 0;
	}
	wrong +=
		load(session, row, file, size + 5 * MIB, 1, memory) != -ENODATA;
	if (!EQ(wrong, 0))
		NOTE("a file of %lu bytes", (unsigned long)size);
	EQ(gpumap_buffer_unregister(session, file), 0);
	EQ(load(session, row, file, 0, 0, memory), -ESTALE);
}

static void files_of_all_sizes_load(const char *folder)
{
	struct gpumap_session *session = session_open(map);
	char *memory = arena(session, 0, 4 * MIB);

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		int fd = load_file(folder, sizes[i]);

		all_of(session, 0, fd, sizes[i], memory);
		/* Nothing else in the memory has changed. */
		EQ(lseek(fd, 0, SEEK_CUR), 0);
		EQ(fcntl(fd, F_GETFL) & (O_DIRECT | O_NONBLOCK), 0);
		close(fd);
	}
	gpumap_session_close(session);
	worker_lets_go();
	gives_back();
}

static void files_load_to_all_kinds_of_memory(void)
{
	struct gpumap_session *session = session_open(map);
	char *memory = arena(session, 1, 4 * MIB);
	char *other = arena(session, 0, MIB);
	uint64_t name = buffer(session, 1, 4 * MIB), own = 0, fixed = 0;
	int fd = load_file(".", 3 * MIB + 123);
	int shared = memfd_create("agent-load", MFD_ALLOW_SEALING);
	uint64_t file = load_register(session, fd);
	struct gpumap_job job = load_job(file, 777, 3 * MIB - 777, memory);

	EQ(load_by_buffer(session, 1, &job, name, 13, memory), 0);
	OK(load_matches(memory, 777, job.n));
	/* Load to another row's range of the arena, which no device has used
	 * yet. */
	EQ(load(session, 1, file, 100, MIB, other), 0);
	OK(load_matches(other, 100, MIB));
	if (ftruncate(shared, (off_t)MIB) != 0 ||
	    fcntl(shared, F_ADD_SEALS, F_SEAL_SHRINK) != 0)
		exit(99);
	EQ(gpumap_buffer_register(session, shared, 0, MIB, 0, &own), 0);
	EQ(gpumap_buffer_register(session, shared, 0, MIB,
				  GPUMAP_BUFFER_READ_ONLY, &fixed),
	   0);
	job = load_job(file, 4097, MIB - 1, NULL);
	EQ(load_by_buffer(session, 1, &job, own, 1, memory), 0);
	OK(load_matches(memory, 4097, job.n));
	EQ(load_by_buffer(session, 1, &job, fixed, 0, memory), -EACCES);
	EQ(load_by_buffer(session, 1, &job, own, 2, memory), -ERANGE);
	gpumap_session_close(session);
	close(shared);
	close(fd);
	gives_back();
}

static void holes_are_zero(void)
{
	struct gpumap_session *session = session_open(map);
	char *memory = arena(session, 0, 4 * MIB);
	int fd = load_file(".", 0);
	uint64_t file = load_register(session, fd), wrong = 0;

	load_write(fd, 1 * MIB + 5, 3000);
	EQ(ftruncate(fd, (off_t)(2 * MIB)), 0);
	memset(memory, 1, 2 * MIB);
	EQ(load(session, 0, file, 0, 2 * MIB, memory), 0);
	OK(load_matches(memory + MIB + 5, MIB + 5, 3000));
	for (uint64_t i = 0; i < 2 * MIB; i++)
		wrong += memory[i] != 0 && (i < MIB + 5 || i >= MIB + 3005);
	EQ(wrong, 0);
	gpumap_session_close(session);
	close(fd);
}

/* Files load whichever process opened them, and however. */
static void descriptors_of_all_kinds_load(void)
{
	struct gpumap_session *session = session_open(map);
	char *memory = arena(session, 0, MIB), path[64];
	int fd = load_file(".", MIB);
	int flags[] = { O_RDONLY, O_RDWR | O_APPEND, O_RDONLY | O_NONBLOCK,
			O_RDONLY | O_DIRECT };

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
		int again = open(path, flags[i] | O_CLOEXEC);
		uint64_t file;

		if (again < 0) /* no O_DIRECT here */
			continue;
		file = load_register(session, again);
		close(again);
		memset(memory, 0, 1000);
		EQ(load(session, 0, file, 7, 1000, memory), 0);
		OK(load_matches(memory, 7, 1000));
	}
	gpumap_session_close(session);
	close(fd);
}

/* ---- descriptors that are no files -------------------------------------- */

static int try(struct gpumap_session *session, int fd)
{
	uint64_t file = 0;
	char byte;
	int ret = gpumap_buffer_register_file(session, fd, 0, &file);

	if (ret == 0) {
		ret = load(session, 0, file, 0, 1,
			   arena(session, 0, sizeof(byte)));
		gpumap_buffer_unregister(session, file);
	}
	close(fd);
	return ret;
}

/* A queue of messages is a regular file, and a read of an empty one waits until
 * a message comes. */
static void messages_do_not_load(struct gpumap_session *session)
{
	char name[32];
	int fd;

	snprintf(name, sizeof(name), "gpumap-test-%d", (int)getpid());
	fd = (int)syscall(SYS_mq_open, name, O_RDWR | O_CREAT | O_EXCL, 0600,
			  NULL);
	if (fd < 0) {
		SKIP(2, "needs a message queue");
		return;
	}
	syscall(SYS_mq_unlink, name);
	EQ(try(session, fd), -EINVAL);
	OK(strstr(gpumap_refusal(map), "copy it to a disk"));
}

static void only_files_load(void)
{
	struct gpumap_session *session = session_open(map);
	uint64_t file = 0;
	int ends[2];

	EQ(try(session, -1), -EBADF);
	EQ(pipe(ends), 0);
	EQ(try(session, ends[0]), -EINVAL);
	EQ(try(session, ends[1]), -EBADF);
	EQ(try(session, socket(AF_UNIX, SOCK_STREAM, 0)), -EINVAL);
	EQ(try(session, open(".", O_RDONLY)), -EINVAL);
	EQ(try(session, open("/dev/zero", O_RDONLY)), -EINVAL);
	EQ(try(session, open("/", O_PATH)), -EBADF);
	EQ(try(session, open("/proc/self/status", O_RDONLY)), -EINVAL);
	OK(strstr(gpumap_refusal(map), "copy it to a disk"));
	EQ(try(session, open("/sys/kernel/mm/ksm/run", O_RDONLY)), -EINVAL);
	messages_do_not_load(session);
	EQ(gpumap_buffer_register_file(session, 0, 1, &file), -E2BIG);
	gpumap_session_close(session);
	gives_back();
}

static void files_are_no_memory(void)
{
	struct gpumap_session *session = session_open(map);
	char *memory = arena(session, 0, 4096);
	uint64_t name = buffer(session, 0, 4096);
	int fd = load_file(".", 4096);
	uint64_t file = load_register(session, fd);
	struct gpumap_job job = load_job(name, 0, 1, memory);

	EQ(story_run(session, 0, &job), -EINVAL);
	job.src_buffer = 0;
	EQ(story_run(session, 0, &job), -EINVAL);
	job = load_job(file, 0, 1, NULL);
	job.dst_buffer = file;
	EQ(story_run(session, 0, &job), -EINVAL);
	job = load_job(file, 0, 1, memory);
	job.op = GPUMAP_OP_COPY;
	EQ(story_run(session, 0, &job), -EINVAL);
	job.op = GPUMAP_OP_LOAD;
	job.dtype = GPUMAP_DTYPE_F32;
	EQ(story_run(session, 0, &job), -EINVAL);
	EQ(load(session, 0, file, UINT64_MAX - 10, 11, memory), -ERANGE);
	EQ(load(session, 0, file, INT64_MAX, 1, memory), -ERANGE);
	EQ(load(session, 0, file, 0, ARENA * STAGE_ROWS * 4, memory), -ERANGE);
	EQ(gpumap_buffer_free(session, file), -EINVAL);
	EQ(load(session, 0, file, 0, 4096, memory), 0);
	gpumap_session_close(session);
	close(fd);
	gives_back();
}

/* Each row reads its part of the file.  A row that cannot is not replaced by
 * another, for the file may have changed by then. */
static void a_file_is_spread_over_rows(void)
{
	const uint32_t rows[] = { 1, 0 };
	struct gpumap_scatter_opts opts = { .size = sizeof(opts),
					    .rows = rows,
					    .n_rows = 2 };
	struct gpumap_session *session = session_open(map);
	char *memory = arena(session, 0, 2 * MIB);
	int fd = load_file(".", 2 * MIB);
	struct gpumap_job job =
		load_job(load_register(session, fd), 5, 2 * MIB - 5, memory);
	struct gpumap_tile tiles[2];
	int n = gpumap_scatter(session, &job, &opts, tiles, 2);

	EQ(n, 2);
	OK(load_matches(memory, 5, 2 * MIB - 5));
	job.n++;
	EQ(gpumap_scatter(session, &job, &opts, tiles, 2), -ENODATA);
	EQ(tiles[0].status, 0);
	job.n--;
	opts.flags = GPUMAP_SCATTER_FALLBACK;
	EQ(gpumap_scatter(session, &job, &opts, tiles, 2), -EINVAL);
	gpumap_session_close(session);
	close(fd);
}

/* ---- changes meanwhile -------------------------------------------------- */

static void files_may_shrink_meanwhile(void)
{
	struct gpumap_session *session = session_open(map);
	char *memory = arena(session, 0, 6 * MIB);
	int fd = load_file(".", 6 * MIB), short_ones = 0;
	uint64_t file = load_register(session, fd);

	for (int round = 0; round < story_rounds(); round++) {
		struct gpumap_job job = load_job(file, 3, 6 * MIB - 3, memory);
		struct gpumap_done done = { .status = 1 };
		uint64_t left = (uint64_t)story_moment(round, 5000) * 1000;

		EQ(gpumap_submit(session, 0, &job, 1), 0);
		story_nap(story_moment(round, 3000));
		EQ(ftruncate(fd, (off_t)left), 0);
		EQ(gpumap_wait(session, &done, 1, story_now() + STORY_LIMIT_NS),
		   1);
		OK(done.status == 0 || done.status == -ENODATA);
		short_ones += done.status != 0;
		load_write(fd, left, 6 * MIB - left);
	}
	NOTE("%d were too short", short_ones);
	EQ(load(session, 0, file, 3, 6 * MIB - 3, memory), 0);
	OK(load_matches(memory, 3, 6 * MIB - 3));
	gpumap_session_close(session);
	close(fd);
}

static void a_load_has_a_deadline(void)
{
	struct gpumap_session *session = session_open(map);
	char *memory = arena(session, 0, MIB);
	int fd = load_file(".", MIB);
	struct gpumap_job job =
		load_job(load_register(session, fd), 0, MIB, memory);

	job.deadline_ns = story_now() - 1;
	EQ(story_run(session, 0, &job), -ETIME);
	job.deadline_ns = story_now() + STORY_LIMIT_NS;
	EQ(story_run(session, 0, &job), 0);
	OK(load_matches(memory, 0, MIB));
	gpumap_session_close(session);
	close(fd);
}

/* The jobs before a LOAD end before it begins, and those behind it find the
 * bytes that it loaded. */
static void a_load_keeps_its_place(void)
{
	struct gpumap_session *session = session_open(map);
	char *memory = arena(session, 0, 2 * MIB);
	int fd = load_file(".", MIB);
	struct gpumap_job jobs[3] = {
		{ .op = GPUMAP_OP_FILL, .dst = memory, .n = MIB },
		load_job(load_register(session, fd), 1, MIB - 1, memory),
		{ .op = GPUMAP_OP_COPY,
		  .dst = memory + MIB,
		  .src = memory,
		  .n = MIB },
	};
	struct gpumap_done done[3];
	int n = 0, ret = 0;

	jobs[0].pattern = 'x';
	for (int i = 0; i < 3; i++) {
		jobs[i].dtype = GPUMAP_DTYPE_U8;
		jobs[i].cookie = (uint64_t)i;
	}
	EQ(gpumap_submit(session, 0, jobs, 3), 0);
	while (n < 3 && ret >= 0) {
		ret = gpumap_wait(session, done + n, (uint32_t)(3 - n),
				  story_now() + STORY_LIMIT_NS);
		n += ret > 0 ? ret : 0;
	}
	for (int i = 0; EQ(n, 3) && i < 3; i++) {
		EQ(done[i].cookie, i);
		EQ(done[i].status, 0);
	}
	OK(load_matches(memory + MIB, 1, MIB - 1));
	EQ(memory[2 * MIB - 1], 'x');
	gpumap_session_close(session);
	close(fd);
}

/* ---- several at once ---------------------------------------------------- */

struct loader {
	struct gpumap_session *session;
	char *memory;
	uint64_t file;
	uint64_t from;
	unsigned n;
	bool busy;
};

#define LOADS 6u

/* Take the load that has ended, check it, and begin the next. */
static void loader_look(struct loader *l)
{
	struct gpumap_job job = load_job(l->file, l->from, 4 * MIB, l->memory);
	struct gpumap_done done;

	if (l->busy && gpumap_poll(l->session, &done, 1) == 1) {
		EQ(done.status, 0);
		OK(load_matches(l->memory, l->from, 4 * MIB));
		memset(l->memory, 0, 4 * MIB);
		l->busy = false;
		l->n++;
	}
	if (!l->busy && l->n < LOADS)
		l->busy = EQ(gpumap_submit(l->session, 0, &job, 1), 0);
}

/* Two sessions load, and a third does no-ops again and again. */
static void sessions_load_beside_each_other(void)
{
	int fd = load_file(".", 5 * MIB);
	struct loader l[2] = { 0 };
	struct gpumap_session *idle = session_open(map);
	struct gpumap_job nop = { .op = GPUMAP_OP_NOP };
	uint64_t until = story_now() + STORY_LIMIT_NS;
	unsigned nops = 0;

	for (unsigned i = 0; i < 2; i++) {
		l[i].session = session_open(map);
		l[i].memory = arena(l[i].session, 0, 4 * MIB);
		l[i].file = load_register(l[i].session, fd);
		l[i].from = i * 4095;
	}
	while (l[0].n + l[1].n < 2 * LOADS && story_now() < until) {
		nops += story_run(idle, 0, &nop) == 0;
		loader_look(&l[0]);
		loader_look(&l[1]);
	}
	EQ(l[0].n, LOADS);
	EQ(l[1].n, LOADS);
	NOTE("%u jobs of another went by", nops);
	gpumap_session_close(l[0].session);
	gpumap_session_close(l[1].session);
	gpumap_session_close(idle);
	close(fd);
	gives_back();
}

/* A forgotten file is closed once its LOAD has ended, as after any other
 * job. */
static void a_file_is_forgotten_when_it_is_loaded(void)
{
	struct gpumap_session *session = session_open(map);
	char *memory = arena(session, 0, 4 * MIB);
	int fd = load_file(".", 4 * MIB);

	for (int round = 0; round < story_rounds(); round++) {
		uint64_t file = load_register(session, fd);
		struct gpumap_job job = load_job(file, 0, 4 * MIB, memory);
		struct gpumap_done done = { .status = 1 };

		memset(memory, 0, 4 * MIB);
		EQ(gpumap_submit(session, 0, &job, 1), 0);
		story_nap(story_moment(round, 2000));
		EQ(gpumap_buffer_unregister(session, file), 0);
		EQ(gpumap_wait(session, &done, 1, story_now() + STORY_LIMIT_NS),
		   1);
		/* -ESTALE: the LOAD's turn had not come yet. */
		OK(done.status == 0 || done.status == -ESTALE);
		OK(done.status != 0 || load_matches(memory, 0, 4 * MIB));
		EQ(gpumap_submit(session, 0, &job, 1), -ESTALE);
	}
	/* The files are closed before the session is. */
	worker_lets_go();
	gpumap_session_close(session);
	close(fd);
	gives_back();
}

/* Register more files than a session has places for at first.  Each place is
 * given back. */
static void files_come_and_go(void)
{
	struct gpumap_session *session = session_open(map);
	char *memory = arena(session, 0, 4096);
	int fd = load_file(".", 4096), status = 0;

	for (int i = 0; i < 150 && status == 0; i++) {
		uint64_t file = 0;

		status = gpumap_buffer_register_file(session, fd, 0, &file);
		if (status == 0)
			status = load(session, 0, file, 0, 4096, memory);
		if (status == 0)
			status = gpumap_buffer_unregister(session, file);
	}
	EQ(status, 0);
	worker_lets_go();
	gpumap_session_close(session);
	close(fd);
	gives_back();
}

/* The count shall include the library's connection and standby workers. */
static void count_what_is_held(void)
{
	struct gpumap_session *session = session_open(map);

	arena(session, 0, 64);
	arena(session, 1, 64);
	gpumap_session_close(session);
	while (gpumap_session_list(map, NULL, 0) != 0)
		story_nap(1000);
	held = story_holds_at_rest(agent.pid);
}

TAP_CASE()
{
	stage_make(&agent, "[host]\nrows = 2\n[load]\ndepth = 4\nread = 64K\n");
	if (!OK(agent_start(&agent)) || !OK((map = story_attach(&agent))))
		return tap_done();
	count_what_is_held();
	files_of_all_sizes_load(".");
	files_of_all_sizes_load("/dev/shm");
	files_load_to_all_kinds_of_memory();
	holes_are_zero();
	descriptors_of_all_kinds_load();
	only_files_load();
	files_are_no_memory();
	a_file_is_spread_over_rows();
	files_may_shrink_meanwhile();
	a_load_has_a_deadline();
	a_load_keeps_its_place();
	sessions_load_beside_each_other();
	a_file_is_forgotten_when_it_is_loaded();
	files_come_and_go();
	return stage_finish(&agent, map);
}
