/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * A file that is shared as it is: other programs have the same bytes and the
 * same length by a descriptor, can change nothing of them, and none is left
 * when a process that loads it is killed.
 */

#include <gpumap/model.h>

#include "tests/support/story_rows.h"
#include "tests/support/load_file.h"
#include "tests/support/share_sessions.h"

#define NAME  "file"
#define ODD   (3 * MIB + 123)
#define PARTS 6 /* of 32 MiB, in the file of the kills */

static char path[200], folder[160];

static int begin_at(struct gpumap_session *session, const char *file,
		    struct gpumap_model **ret_model)
{
	static const uint32_t row = 0;
	struct gpumap_model_opts opts = { .size = sizeof(opts),
					  .path = file,
					  .rows = &row,
					  .n_rows = 1,
					  .flags = GPUMAP_MODEL_AS_FILE,
					  .name = NAME,
					  .share_flags =
						  GPUMAP_SHARE_READ_ONLY };

	return gpumap_model_load(session, &opts, ret_model);
}

static int wait_for(struct gpumap_model *model)
{
	return gpumap_model_wait(model, story_now() + STORY_LIMIT_NS);
}

static void write_file(uint64_t bytes)
{
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	if (fd < 0)
		exit(99);
	load_write(fd, 0, bytes);
	close(fd);
}

static int fd_of(struct gpumap_session *session, struct gpumap_model *model)
{
	struct gpumap_model_progress p = { .size = sizeof(p) };
	struct gpumap_export_info info = { .size = sizeof(info) };
	int fd = -1;

	EQ(gpumap_model_progress(model, &p), 1);
	EQ(p.n_tensors, 1);
	EQ(p.n_buffers, 1);
	EQ(gpumap_share_fd(session, p.share, 0, &info, &fd), 0);
	EQ(info.bytes, p.total_bytes);
	return fd;
}

/* As another program has it, from its beginning to its end. */
static bool is_the_file(int fd, uint64_t bytes)
{
	struct stat facts = { .st_size = -1 };
	char *at = mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, 0), more;
	bool right = at != MAP_FAILED && fstat(fd, &facts) == 0 &&
		     (uint64_t)facts.st_size == bytes &&
		     load_matches(at, 0, bytes) &&
		     pread(fd, &more, 1, (off_t)bytes) == 0;

	if (at != MAP_FAILED)
		munmap(at, bytes);
	return right;
}

/* Neither this descriptor, nor one that was opened anew. */
static void it_cannot_be_changed(int fd, uint64_t bytes)
{
	char proc[64], *at;
	int fds[2] = { fd };

	snprintf(proc, sizeof(proc), "/proc/%d/fd/%d", (int)getpid(), fd);
	OK(open(proc, O_RDWR | O_TRUNC | O_CLOEXEC) < 0);
	fds[1] = open(proc, O_RDWR | O_CLOEXEC);
	for (int i = 0; i < 2 && fds[i] >= 0; i++) {
		OK(ftruncate(fds[i], 0) != 0);
		OK(ftruncate(fds[i], (off_t)bytes + 4096) != 0);
		OK(pwrite(fds[i], "x", 1, 0) < 0);
		OK(fallocate(fds[i], FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
			     0, 4096) != 0);
		OK(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fds[i],
			0) == MAP_FAILED);
		at = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE,
			  fds[i], 0);
		if (OK(at != MAP_FAILED)) {
			memset(at, 0x55, 4096); /* a copy of its own */
			munmap(at, 4096);
		}
	}
	if (fds[1] >= 0)
		close(fds[1]);
	OK(is_the_file(fd, bytes));
}

static void it_is_shared_as_it_is(uint64_t bytes)
{
	struct gpumap_session *a = session_open(map), *b = session_open(map);
	struct gpumap_model *first = NULL, *second = NULL, *third = NULL;
	struct gpumap_tensor t = { .size = sizeof(t) };
	struct gpumap_model_meta meta = { .size = sizeof(meta) };
	int fd;

	write_file(bytes);
	EQ(begin_at(a, path, &first), 0);
	EQ(wait_for(first), 0);
	EQ(gpumap_model_find(first, "the.gguf", &t), 0);
	EQ(t.bytes, bytes);
	EQ(t.at, 0);
	EQ(t.dtype, GPUMAP_DTYPE_U8);
	OK(t.n_dims == 1 && t.shape[0] == bytes);
	EQ(gpumap_model_meta(first, &meta), -ENODATA);
	EQ(gpumap_model_open(b, NAME, GPUMAP_SHARE_READ_ONLY, NULL, &second),
	   0);
	fd = fd_of(b, second);
	OK(is_the_file(fd, bytes));
	it_cannot_be_changed(fd, bytes);
	/* Another state of the file is another file. */
	write_file(bytes + 1);
	EQ(gpumap_model_close(second, GPUMAP_NO_DEADLINE), 0);
	EQ(begin_at(b, path, &third), -EEXIST);
	gpumap_session_close(a);
	gpumap_session_close(b);
	EQ(gpumap_model_close(first, GPUMAP_NO_DEADLINE), 0);
	/* The descriptor keeps the bytes, and the name is free. */
	settles(0, 0);
	OK(is_the_file(fd, bytes));
	close(fd);
}

static void refused(const char *file, int error, const char *words)
{
	struct gpumap_session *session = session_open(map);
	struct gpumap_model *model = NULL;

	EQ(begin_at(session, file, &model), error);
	if (!OK(strstr(gpumap_refusal(map), words)))
		NOTE("%s", gpumap_refusal(map));
	gpumap_session_close(session);
}

static void what_is_no_file_is_refused(void)
{
	static const uint32_t rows[2] = { 0, 1 };
	struct gpumap_session *session = session_open(map);
	struct gpumap_model_opts opts = { .size = sizeof(opts),
					  .path = path,
					  .rows = rows,
					  .n_rows = 2,
					  .flags = GPUMAP_MODEL_AS_FILE };
	struct gpumap_model *model = NULL;

	write_file(0);
	refused(path, -EINVAL, "is empty");
	refused(folder, -EINVAL, "is a directory");
	refused("/dev/null", -EINVAL, "not a regular file");
	refused("no-such-file", -ENOENT, "No such file");
	EQ(gpumap_model_load(session, &opts, &model), -EINVAL);
	OK(strstr(gpumap_refusal(map), "one row"));
	opts.n_rows = 1;
	opts.layers = "m";
	EQ(gpumap_model_load(session, &opts, &model), -EINVAL);
	opts.layers = NULL;
	opts.rows = (uint32_t[]){ 99 };
	EQ(gpumap_model_load(session, &opts, &model), -ENODEV);
	gpumap_session_close(session);
}

/* 'l' loads it for ever, or until it is killed. */
static int64_t loads(struct gpumap_session *session, struct line *line)
{
	struct gpumap_model *model = NULL;
	char point[48];

	if (line->value > 0) {
		snprintf(point, sizeof(point), "model_submitted:kill:%d",
			 (int)line->value);
		setenv("GM_POINT", point, 1);
	}
	for (;;) {
		if (begin_at(session, path, &model) != 0 ||
		    wait_for(model) != 0)
			return -1;
		if (line->what == 'l')
			return 0;
		gpumap_model_close(model, GPUMAP_NO_DEADLINE);
	}
}

static void is_gone(struct player *p)
{
	player_end(p, SIGKILL);
	settles(0, 0);
	EQ(shares_n(), 0);
}

static void a_killed_loader_leaves_nothing(void)
{
	int held;

	write_file(PARTS * 32 * MIB);
	held = story_holds_at_rest(agent.pid);
	for (int round = 0; round < story_rounds() / 4 + 1; round++) {
		struct player p = player_start(0, loads);

		tell_only(&p, 'x', "", 0);
		story_nap(story_moment(round, 60000));
		is_gone(&p);
	}
#ifdef GM_TESTPOINTS
	/* The allocation, then each piece. */
	for (int nth = 1; nth <= 1 + PARTS; nth++) {
		struct player p = player_start(0, loads);

		EQ(tell(&p, 'x', "", nth), -EPIPE);
		is_gone(&p);
	}
#endif
	OK(story_gives_back(agent.pid, held));
}

TAP_CASE()
{
	shares_stage("", "[host]\nrows = 2\n");
	if (!OK(agent_start(&agent)) || !OK((map = story_attach(&agent))))
		return tap_done();
	snprintf(folder, sizeof(folder), "%s/files", agent.dir);
	snprintf(path, sizeof(path), "%s/the.gguf", folder);
	if (mkdir(folder, 0755) != 0)
		exit(99);
	it_is_shared_as_it_is(ODD);
	it_is_shared_as_it_is(5);
	it_is_shared_as_it_is(64 * MIB);
	it_is_shared_as_it_is(64 * MIB + 4097);
	what_is_no_file_is_refused();
	a_killed_loader_leaves_nothing();
	unlink(path);
	rmdir(folder);
	gpumap_detach(map);
	EQ(agent_kill(&agent, SIGTERM), 0);
	stage_end(&agent);
	return tap_done();
}
