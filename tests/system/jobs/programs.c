/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Checks programs: which users may run them, which files are accepted, and what
 * a program can do.
 */

#include <malloc.h>
#include <sys/wait.h>

#include "tests/support/program_agent.h"

#define ITEMS 1000u

/* ---- permission -------------------------------------------------------- */

/* Returns the status of opening a session for programs in a process of @uid. */
static int asked_as(uint32_t uid)
{
	int status = 0;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		struct gpumap_session_opts opts = {
			.size = sizeof(opts), .flags = GPUMAP_SESSION_PROGRAMS
		};
		struct gpumap_session *session;

		if (uid != geteuid() && setresuid(uid, uid, uid) != 0)
			_exit(98);
		map = story_attach(&agent);
		_exit(map ? -gpumap_session_open(map, &opts, &session) : 97);
	}
	waitpid(pid, &status, 0);
	return WIFEXITED(status) ? -WEXITSTATUS(status) : -1000;
}

static void ask_stranger(int want)
{
	if (geteuid() == 0)
		EQ(asked_as(STRANGER), want);
	else
		SKIP(1, "only root can be somebody else");
}

static void nobody_may_by_default(void)
{
	struct gpumap_session_opts opts = { .size = sizeof(opts),
					    .flags = GPUMAP_SESSION_PROGRAMS };
	struct gpumap_session *session = NULL;

	if (!OK(start("")))
		return;
	EQ(gpumap_session_open(map, &opts, &session), -EPERM);
	OK(strstr(gpumap_refusal(map), "policy in [programs]") != NULL);
	ask_stranger(-EPERM);
	stop();
	if (!OK(start("policy = operators-only\n")))
		return;
	EQ(asked_as((uint32_t)geteuid()), -EPERM);
	stop();
}

static void the_policy_decides(void)
{
	if (!OK(start("policy = same-user\n")))
		return;
	EQ(asked_as((uint32_t)geteuid()), 0);
	ask_stranger(-EPERM);
	stop();
	if (!OK(start("policy = any\n")))
		return;
	ask_stranger(0);
	stop();
}

/* ---- running ----------------------------------------------------------- */

static float *arena(struct gpumap_session *session, uint32_t row)
{
	void *memory = NULL;

	if (gpumap_alloc(session, row, 64 << 10, &memory) != 0)
		exit(99);
	for (uint32_t i = 0; i < ITEMS; i++)
		((float *)memory)[i] = (float)i;
	return memory;
}

static struct gpumap_job square_job(uint64_t program, float *memory)
{
	return (struct gpumap_job){ .op = GPUMAP_OP_RUN,
				    .dtype = GPUMAP_DTYPE_F32,
				    .src = memory,
				    .dst = memory + ITEMS,
				    .src_item_bytes = 4,
				    .dst_item_bytes = 4,
				    .n = ITEMS,
				    .program = program };
}

static bool squared(const float *memory, float scale)
{
	for (uint32_t i = 0; i < ITEMS; i++)
		if (memory[ITEMS + i] != scale * (float)i * (float)i)
			return false;
	return true;
}

static void it_runs(struct gpumap_session *session, uint64_t square)
{
	float *memory = arena(session, 0), *scale = memory + 3 * ITEMS;
	struct gpumap_job job = square_job(square, memory);
	uint64_t buffer = 0;

	EQ(story_run(session, 0, &job), 0);
	OK(squared(memory, 1));
	*scale = 3;
	job.params = scale;
	job.params_bytes = sizeof(*scale);
	EQ(story_run(session, 0, &job), 0);
	OK(squared(memory, 3));

	/* The program runs in place, in a buffer, with a COPY before it and
	 * another after it. */
	EQ(gpumap_buffer_alloc(session, 0, 4 * ITEMS, 0, GPUMAP_NO_DEADLINE,
			       &buffer),
	   0);
	job = (struct gpumap_job){ .op = GPUMAP_OP_COPY,
				   .dtype = GPUMAP_DTYPE_F32,
				   .src = memory,
				   .dst_buffer = buffer,
				   .n = ITEMS };
	EQ(story_run(session, 0, &job), 0);
	job = square_job(square, memory);
	job.src_buffer = job.dst_buffer = buffer;
	EQ(story_run(session, 0, &job), 0);
	memset(memory + ITEMS, 0, 4 * ITEMS);
	job = (struct gpumap_job){ .op = GPUMAP_OP_COPY,
				   .dtype = GPUMAP_DTYPE_F32,
				   .src_buffer = buffer,
				   .dst = memory + ITEMS,
				   .n = ITEMS };
	EQ(story_run(session, 0, &job), 0);
	OK(squared(memory, 1));
	EQ(gpumap_buffer_free(session, buffer), 0);
	gpumap_free(session, memory);
}

static void it_is_scattered(struct gpumap_session *session, uint64_t square)
{
	static const uint32_t rows[] = { 0, 1 };
	static const double weights[] = { 1, 3 };
	struct gpumap_scatter_opts opts = { .size = sizeof(opts),
					    .rows = rows,
					    .weights = weights,
					    .n_rows = 2 };
	float *memory = arena(session, 0);
	struct gpumap_job job = square_job(square, memory);
	struct gpumap_tile tiles[2];

	EQ(gpumap_scatter(session, &job, &opts, tiles, 2), 2);
	EQ(tiles[0].status, 0);
	EQ(tiles[1].status, 0);
	EQ(tiles[0].n, ITEMS / 4);
	OK(squared(memory, 1));
	/* Each tile that fails has the error. */
	job.dst_item_bytes = 8;
	EQ(gpumap_scatter(session, &job, &opts, tiles, 2), -EINVAL);
	EQ(tiles[0].status, -EINVAL);
	EQ(tiles[1].status, -EINVAL);
	gpumap_free(session, memory);
}

static void wrong_jobs_are_refused(struct gpumap_session *session,
				   uint64_t square)
{
	float *memory = arena(session, 0);
	struct gpumap_job job = square_job(square, memory);

	job.dst = memory + 1; /* neither apart nor the same */
	EQ(story_run(session, 0, &job), -EINVAL);
	job = square_job(square, memory);
	job.src = (char *)memory + 1;
	EQ(story_run(session, 0, &job), -EINVAL);
	job = square_job(square, memory);
	job.n = 1 << 20;
	EQ(story_run(session, 0, &job), -ERANGE);
	job = square_job(square, memory);
	job.params = memory;
	job.params_bytes = GPUMAP_PARAMS_MAX + 1;
	EQ(story_run(session, 0, &job), -EINVAL);
	job = square_job(square, memory);
	job.dst_buffer = square; /* a program is no memory */
	EQ(story_run(session, 0, &job), -EINVAL);
	job = square_job(square + 1, memory);
	EQ(story_run(session, 0, &job), -ESTALE);
	job = square_job(0, memory);
	EQ(story_run(session, 0, &job), -EINVAL);
	job = square_job(square, memory);
	job.n = 0;
	EQ(story_run(session, 0, &job), 0);
	EQ(gpumap_buffer_unregister(session, square), -EINVAL);
	EQ(gpumap_buffer_free(session, square), -EINVAL);
	gpumap_free(session, memory);
}

static void it_is_unloaded(struct gpumap_session *session, uint64_t square)
{
	float *memory = arena(session, 0);
	struct gpumap_job job = square_job(square, memory);
	pid_t worker = program_worker(0);
	bool sees = story_sees(worker, 2);
	uint64_t again = 0;

	if (sees)
		OK(story_holds(worker, "gpumap-program") > 0);
	EQ(story_buffer(session, square).kind, GPUMAP_BUFFER_PROGRAM);
	EQ(story_buffer(session, square).bytes, 0);
	EQ(story_buffer(session, square).row, UINT32_MAX);
	EQ(gpumap_program_unload(session, square), 0);
	EQ(gpumap_program_unload(session, square), -ESTALE);
	EQ(story_run(session, 0, &job), -ESTALE);
	if (sees)
		EQ(story_holds(worker, "gpumap-program"), 0);
	EQ(gpumap_program_load(session, 0, "square", &again), 0);
	OK(again != square);
	job = square_job(again, memory);
	EQ(story_run(session, 0, &job), 0);
	EQ(gpumap_program_unload(session, 0), 0);
	gpumap_free(session, memory);
}

/* Bytes that malloc() has given out, where the C library tells; else 0. */
static size_t bytes_in_use(void)
{
#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 33)
	return mallinfo2().uordblks;
#else
	return 0;
#endif
}

/* A client that loads and unloads for ever does not grow. */
static void unloading_leaves_nothing(struct gpumap_session *session)
{
	size_t before = 0;
	int done = 0;

	for (int i = 0; i < 50; i++) {
		uint64_t square = 0;

		done += gpumap_program_load(session, 0, "square", &square) == 0;
		done += gpumap_program_unload(session, square) == 0;
		if (i == 9)
			before = bytes_in_use();
	}
	EQ(done, 100);
	EQ(bytes_in_use(), before);
}

static void others_know_nothing_of_it(uint64_t square)
{
	struct gpumap_session *plain = open_with(false);
	float *memory = plain ? arena(plain, 0) : NULL;
	struct gpumap_job job = square_job(square, memory);
	uint64_t program = 0;

	if (!OK(plain != NULL))
		return;
	EQ(gpumap_program_load(plain, 0, "square", &program), -EINVAL);
	OK(strstr(gpumap_refusal(map), "GPUMAP_SESSION_PROGRAMS") != NULL);
	EQ(story_run(plain, 0, &job), -EINVAL);
	gpumap_session_close(plain);
}

static void they_do_their_work(void)
{
	struct gpumap_session *session;
	uint64_t square = 0;
	pid_t worker;

	put("square", "square");
	if (!OK(start("policy = any\n")))
		return;
	session = open_with(true);
	if (!OK(session != NULL) ||
	    !EQ(gpumap_program_load(session, 0, "square", &square), 0)) {
		NOTE("%s", gpumap_refusal(map));
		agent_show_log(&agent);
		exit(1);
	}
	worker = program_worker(0);
	OK(worker > 0);
	OK(worker != (pid_t)story_device(map, 0).worker_pid);
	it_runs(session, square);
	it_is_scattered(session, square);
	wrong_jobs_are_refused(session, square);
	others_know_nothing_of_it(square);
	it_is_unloaded(session, square);
	unloading_leaves_nothing(session);
	gpumap_session_close(session);
	/* The workers end with the last session that used the program. */
	OK(gone_soon(worker));
	OK(gone_soon(program_worker(1)));
	EQ(log_lines("event=worker_died", "", NULL), 0);
	OK(unlocked_soon(0));
	OK(unlocked_soon(1));
	stop();
}

/* The agent removes every worker's lock at its end. */
static void an_end_leaves_no_locks(void)
{
	struct gpumap_session *session;
	uint64_t square = 0;

	if (!OK(start("policy = any\n[agent]\ndrain = 60s\n")))
		return;
	session = open_with(true);
	if (!OK(session != NULL))
		return;
	EQ(gpumap_program_load(session, 0, "square", &square), 0);
	EQ(gpumap_program_load(session, 1, "square", &square), 0);
	OK(has_lock(0));
	OK(has_lock(1));
	EQ(agent_kill(&agent, SIGTERM), 0);
	OK(!has_lock(0));
	OK(!has_lock(1));
	gpumap_session_close(session);
	gpumap_detach(map);
	map = NULL;
}

/* Each loaded program is a copy in a worker and counts against its user's
 * quota. */
static void copies_are_paid_for(void)
{
	struct gpumap_session *session;
	uint64_t last = 0, program = 0;
	int ret = 0, n = 0;

	/* A session for programs takes 2 MiB of the quota. */
	if (!OK(start("policy = any\n[limits]\narena-per-uid = 3M\n")))
		return;
	session = open_with(true);
	if (!OK(session != NULL))
		return;
	for (; ret == 0 && n < 400; n++) {
		last = program;
		ret = gpumap_program_load(session, 0, "square", &program);
	}
	EQ(ret, -EDQUOT);
	OK(n > 1 && n < 400);
	OK(strstr(gpumap_refusal(map), "arena-per-uid") != NULL);
	/* An unloaded program no longer counts. */
	EQ(gpumap_program_unload(session, last), 0);
	EQ(gpumap_program_load(session, 0, "square", &program), 0);
	gpumap_session_close(session);
	stop();
}

/* ---- files ------------------------------------------------------------- */

static struct gpumap_session *asking;

static void refuse(const char *name, int want, const char *text)
{
	uint64_t program = 0;
	int ret = gpumap_program_load(asking, 0, name, &program);

	if (!EQ(ret, want) || !OK(strstr(gpumap_refusal(map), text) != NULL))
		NOTE("%s: \"%s\" instead of \"%s\"", name, gpumap_refusal(map),
		     text);
	EQ(program, 0);
}

static void names_are_checked(void)
{
	refuse("../square", -EINVAL, "a program's name");
	refuse("a/b", -EINVAL, "a program's name");
	refuse(".square", -EINVAL, "a program's name");
	refuse("", -EINVAL, "a program's name");
	refuse("square\n", -EINVAL, "a program's name");
	refuse("is-not-there", -ENOENT, "No such file");
}

static void files_are_checked(void)
{
	put("square", "bad");
	chmod(in_folder("bad"), 0757);
	refuse("bad", -EPERM, "can be written by others");
	chmod(in_folder("bad"), 0775);
	refuse("bad", -EPERM, "can be written by others");
	chmod(in_folder("bad"), 0755);
	if (geteuid() == 0) {
		if (chown(in_folder("bad"), STRANGER, (gid_t)-1) != 0)
			exit(99);
		refuse("bad", -EPERM, "belongs to uid 23456");
	} else {
		SKIP(3, "only root can give a file away");
	}
	unlink(in_folder("bad"));
	if (symlink("square.so", in_folder("bad")) != 0)
		exit(99);
	refuse("bad", -EPERM, "is a symbolic link");
	unlink(in_folder("bad"));
	mkdir(in_folder("bad"), 0755);
	refuse("bad", -EPERM, "no regular file");
	rmdir(in_folder("bad"));
	mkfifo(in_folder("bad"), 0755);
	refuse("bad", -EPERM, "no regular file");
	unlink(in_folder("bad"));
}

static void contents_are_checked(void)
{
	int fd;

	put("old", "old");
	refuse("old", -ENOEXEC, "version 2 of gpumap/program.h");
	put("none", "none");
	refuse("none", -ENOEXEC, "it has no gpumap_program");
	put("lacks", "lacks");
	refuse("lacks", -ENOEXEC, "nobody_has_this");
	fd = open(in_folder("text"), O_WRONLY | O_CREAT | O_CLOEXEC, 0755);
	if (fd < 0 || write(fd, "#!/bin/sh\n", 10) != 10)
		exit(99);
	close(fd);
	refuse("text", -ENOEXEC, "it cannot be loaded");
}

static void folders_are_checked(void)
{
	char other[160];

	chmod(folder, 0775);
	refuse("square", -EPERM, "can be written by others");
	/* The sticky bit protects folders above this one, not this one. */
	chmod(folder, 01777);
	refuse("square", -EPERM, "can be written by others");
	chmod(folder, 0755);
	if (geteuid() == 0) {
		if (chown(folder, STRANGER, (gid_t)-1) != 0)
			exit(99);
		refuse("square", -EPERM, "belongs to uid 23456");
		if (chown(folder, 0, (gid_t)-1) != 0)
			exit(99);
	} else {
		SKIP(3, "only root can give a folder away");
	}
	snprintf(other, sizeof(other), "%s.aside", folder);
	if (rename(folder, other) != 0 || symlink(other, folder) != 0)
		exit(99);
	refuse("square", -EPERM, "symbolic link");
	unlink(folder);
	refuse("square", -ENOENT, "No such file");
	if (rename(other, folder) != 0)
		exit(99);
}

static void only_good_ones_are_loaded(void)
{
	uint64_t square = 0;

	if (!OK(start("policy = any\n")))
		return;
	asking = open_with(true);
	if (!OK(asking != NULL))
		return;
	names_are_checked();
	files_are_checked();
	contents_are_checked();
	folders_are_checked();
	EQ(gpumap_program_load(asking, 0, "square", &square), 0);
	EQ(gpumap_program_load(asking, 1000, "square", &square), -ENODEV);
	gpumap_session_close(asking);
	stop();
}

TAP_CASE()
{
	make();
	nobody_may_by_default();
	the_policy_decides();
	they_do_their_work();
	an_end_leaves_no_locks();
	copies_are_paid_for();
	only_good_ones_are_loaded();
	agent_remove(&agent);
	return tap_done();
}
