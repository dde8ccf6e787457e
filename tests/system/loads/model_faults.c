/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Checks checkpoints that cannot be loaded, or not to the end: each is refused
 * for a reason of its own that names the file, and nothing of it is left.  Also
 * checks clients that die or cancel in the middle.
 */

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gpumap.h"
#include "gpumap/model.h"
#include "tests/support/fuse.h"
#include "tests/support/process.h"
#include "tests/support/story_rows.h"
#include "tests/support/shards.h"

#define HUGE_MIB UINT64_C(8388608) /* 8 TiB: ext4 has no files of 16 */

static struct agent agent;
static struct gpumap *map;
static struct fuse fuse;

static const struct shard_tensor tensors[] = {
	{ "layers.0.a", "U8", "[3000]", 3000, 0, false },
	{ "layers.0.b", "U8", "[50000]", 50000, 0, false },
	{ "layers.1.a", "BF16", "[3,5]", 30, 1, false },
	{ "tail", "U8", "[100663296]", 100663296, 1, true },
};

#define FIRST "model-00001-of-00002.safetensors"
#define LAST  "model-00002-of-00002.safetensors"
#define INDEX "model.safetensors.index.json"

static struct gpumap_session *session_open(struct gpumap *of)
{
	struct gpumap_session_opts opts = { .size = sizeof(opts),
					    .arena_bytes = MIB };
	struct gpumap_session *session = NULL;

	if (!EQ(gpumap_session_open(of, &opts, &session), 0))
		NOTE("%s", gpumap_refusal(of));
	return session;
}

/* Open a session in a child, whose checks must not be printed. */
static struct gpumap_session *open_quietly(struct gpumap *of)
{
	struct gpumap_session_opts opts = { .size = sizeof(opts),
					    .arena_bytes = MIB };
	struct gpumap_session *session = NULL;

	if (!of || gpumap_session_open(of, &opts, &session) != 0)
		_exit(2);
	return session;
}

static int begin(struct gpumap_session *session, const char *path,
		 const char *layers, struct gpumap_model **ret_model)
{
	static const uint32_t row;
	struct gpumap_model_opts opts = { .size = sizeof(opts),
					  .path = path,
					  .layers = layers,
					  .rows = layers ? NULL : &row,
					  .n_rows = layers ? 0 : 1 };

	return gpumap_model_load(session, &opts, ret_model);
}

static int wait_for(struct gpumap_model *model)
{
	return gpumap_model_wait(model, story_now() + STORY_LIMIT_NS);
}

/* Returns the result of a load, or of the attempt to begin it. */
static int outcome(struct gpumap_session *session, const char *path,
		   const char *layers)
{
	struct gpumap_model *model = NULL;
	int ret = begin(session, path, layers, &model);

	if (ret == 0)
		ret = wait_for(model);
	if (ret != 0)
		NOTE("%s", gpumap_refusal(map));
	/* A failed load has given all of its memory back before it is freed. */
	if (model != NULL && ret != 0) {
		OK(shards_taken(map, 0));
		shards_let_go(map);
	}
	gpumap_model_close(model, GPUMAP_NO_DEADLINE);
	return ret;
}

static bool it_says(const char *what)
{
	return strstr(gpumap_refusal(map), what) != NULL;
}

/* ---- refusals ------------------------------------------------------------ */

static void replace(const struct shards *s, const char *name, const char *text,
		    size_t n)
{
	int fd = shards_open(s, name, O_RDWR | O_CREAT | O_TRUNC);

	if (write(fd, text, n) != (ssize_t)n)
		exit(99);
	close(fd);
}

static void files_that_are_missing_are_named(struct gpumap_session *session)
{
	struct shards s = shards_make(tensors, 3, 2);
	char path[160], text[64];

	EQ(outcome(session, "no-such-folder", NULL), -ENOENT);
	OK(it_says("no-such-folder"));
	EQ(outcome(session, s.path, "no-such-map"), -ENOENT);
	OK(it_says("no layer map is named \"no-such-map\""));
	shards_path(&s, LAST, path);
	unlink(path);
	EQ(outcome(session, s.path, NULL), -ENOENT);
	OK(it_says(LAST));
	EQ(mkdir(path, 0700), 0);
	EQ(outcome(session, s.path, NULL), -EINVAL);
	OK(it_says(LAST " is not a regular file"));
	rmdir(path);
	EQ(mkfifo(path, 0600), 0);
	EQ(outcome(session, s.path, NULL), -EINVAL);
	unlink(path);
	snprintf(text, sizeof(text), "version https://git-lfs");
	replace(&s, LAST, text, strlen(text));
	EQ(outcome(session, s.path, NULL), -EINVAL);
	OK(it_says("git lfs pull"));
	replace(&s, LAST, "GGUF....", 8);
	EQ(outcome(session, s.path, NULL), -EINVAL);
	OK(it_says("by its own path"));
	shards_path(&s, INDEX, path);
	unlink(path);
	shards_path(&s, LAST, path);
	unlink(path);
	EQ(outcome(session, s.path, NULL), -ENOENT);
	OK(it_says(LAST));
	shards_path(&s, FIRST, path);
	unlink(path);
	EQ(outcome(session, s.path, NULL), -ENOENT);
	OK(it_says("no .safetensors file"));
	shards_remove(&s);
}

static void files_that_are_short_are_named(struct gpumap_session *session)
{
	struct shards s = shards_make(tensors, 3, 2);
	char path[160];

	shards_path(&s, LAST, path);
	for (int bytes = 0; bytes < 160; bytes += 40) {
		EQ(truncate(path, bytes), 0);
		EQ(outcome(session, s.path, NULL), -ENODATA);
		OK(it_says(LAST " is truncated"));
		shards_write_file(&s, 1);
	}
	EQ(outcome(session, s.path, NULL), 0);
	EQ(truncate(path, 1000), 0);
	EQ(outcome(session, s.path, NULL), -EINVAL);
	OK(it_says("belong to none"));
	shards_remove(&s);
}

static void files_that_may_not_be_read_are_named(void)
{
	struct shards s = shards_make(tensors, 3, 2);
	char path[160];
	int status = -1;
	pid_t pid;

	shards_path(&s, FIRST, path);
	chmod(path, 0644);
	shards_path(&s, INDEX, path);
	chmod(path, 0644);
	shards_path(&s, LAST, path);
	chmod(path, 0);
	if (geteuid() != 0) {
		SKIP(1, "needs root, to be somebody else");
		shards_remove(&s);
		return;
	}
	pid = fork();
	if (pid == 0) {
		struct gpumap *own = story_attach(&agent);
		struct gpumap_session *session = open_quietly(own);
		struct gpumap_model *model = NULL;
		int ret;

		if (chdir(s.path) != 0 || setgid(12345) != 0 ||
		    setuid(12345) != 0)
			_exit(3);
		ret = begin(session, ".", NULL, &model);
		_exit(ret != -EACCES || !strstr(gpumap_refusal(own), LAST));
	}
	waitpid(pid, &status, 0);
	EQ(status, 0);
	shards_remove(&s);
}

/* Which headers and indexes are right tests/unit/lib knows.  Here one of each
 * is wrong. */
static void files_that_are_wrong_are_named(struct gpumap_session *session)
{
	static const char header[] = "{\"a\":{}}";
	struct shards s = shards_make(tensors, 3, 2);
	char path[160], text[32] = { (char)strlen(header) };

	replace(&s, INDEX, "{}", 2);
	EQ(outcome(session, s.path, NULL), -EINVAL);
	OK(it_says(INDEX ": it names no tensor"));
	shards_path(&s, INDEX, path);
	unlink(path);
	EQ(outcome(session, s.path, NULL), 0);
	memcpy(text + 8, header, strlen(header));
	replace(&s, LAST, text, 8 + strlen(header));
	EQ(outcome(session, s.path, NULL), -EINVAL);
	OK(it_says(LAST ": tensor a: its dtype, its shape or its data_offsets "
			"are missing"));
	shards_remove(&s);
}

static void maps_of_other_models_are_refused(struct gpumap_session *session)
{
	struct shards s = shards_make(tensors, 3, 2);
	struct gpumap_model_opts opts = { .size = sizeof(opts),
					  .path = s.path };
	struct gpumap_model *model = NULL;

	EQ(shards_map(map, "one", "0:1"), 0);
	EQ(shards_map(map, "three", "0:3"), 0);
	EQ(outcome(session, s.path, "one"), -EINVAL);
	EQ(outcome(session, s.path, "three"), -EINVAL);
	OK(it_says("\"three\" has 3 layers, the model 2 (layers.N.)"));
	EQ(gpumap_model_load(session, &opts, &model), -EINVAL);
	opts.layers = "one";
	opts.flags = GPUMAP_BUFFER_READ_ONLY;
	EQ(gpumap_model_load(session, &opts, &model), -EINVAL);
	opts.flags = UINT32_C(1) << 31;
	EQ(gpumap_model_load(session, &opts, &model), -E2BIG);
	opts = (struct gpumap_model_opts){ .size = sizeof(opts),
					   .path = s.path,
					   .rows = (const uint32_t[]){ 99 },
					   .n_rows = 1 };
	EQ(gpumap_model_load(session, &opts, &model), -ENODEV);
	shards_remove(&s);
}

/* ---- failures in the middle ---------------------------------------------- */

static void what_does_not_fit_takes_nothing(struct gpumap_session *session)
{
	const struct shard_tensor huge[] = {
		{ "layers.0.a", "U8", "[3000]", 3000, 0, false },
		{ "layers.1.a", "U8", "[8388608,1048576]", HUGE_MIB * MIB, 1,
		  true },
	};
	struct shards s = { .v = huge, .n = 1, .n_files = 2 };
	char path[160];
	int ret;

	s = shards_make(huge, 1, 2);
	shards_path(&s, LAST, path);
	if (truncate(path, (off_t)(HUGE_MIB * MIB)) != 0 ||
	    truncate(path, 0) != 0) {
		SKIP(1, "this file system has no files of 8 TiB");
		shards_remove(&s);
		return;
	}
	s.n = 2;
	shards_write_file(&s, 1);
	shards_write_index(&s);
	EQ(shards_map(map, "two", "1:1;0:1"), 0);
	ret = outcome(session, s.path, "two");
	OK(ret == -ENOMEM || ret == -EDQUOT);
	OK(it_says("row 0"));
	shards_remove(&s);
}

static void files_that_change_are_not_mixed(struct gpumap_session *session)
{
	struct shards s = shards_make(tensors, 3, 2);
	struct gpumap_model *model = NULL;
	char path[160];

	shards_path(&s, LAST, path);
	EQ(begin(session, s.path, NULL, &model), 0);
	EQ(truncate(path, 100), 0);
	EQ(wait_for(model), -ENODATA);
	OK(it_says(LAST " has become shorter"));
	OK(shards_taken(map, 0));
	shards_let_go(map);
	gpumap_model_close(model, GPUMAP_NO_DEADLINE);
	shards_write_file(&s, 1);
	EQ(begin(session, s.path, NULL, &model), 0);
	unlink(path);
	shards_write_file(&s, 1);
	EQ(wait_for(model), -ESTALE);
	OK(it_says(LAST " has been changed"));
	gpumap_model_close(model, GPUMAP_NO_DEADLINE);
	EQ(begin(session, s.path, NULL, &model), 0);
	unlink(path);
	EQ(wait_for(model), -ENOENT);
	OK(it_says(LAST));
	/* A failed load returns its error each time. */
	EQ(outcome(session, "no-such-folder", NULL), -ENOENT);
	EQ(gpumap_model_progress(model, NULL), -ENOENT);
	OK(it_says(LAST));
	EQ(gpumap_model_close(model, GPUMAP_NO_DEADLINE), 0);
	shards_remove(&s);
}

static void a_file_is_truncated_meanwhile(struct gpumap_session *session)
{
	struct shards s = shards_make(tensors, 4, 2);
	int short_ones = 0;
	char path[160];

	shards_path(&s, LAST, path);
	for (int round = 0; round < story_rounds(); round++) {
		struct gpumap_model *model = NULL;
		uint64_t left = (uint64_t)story_moment(round, 100000) * 1000;
		uint64_t until = story_now() +
				 1000 * (uint64_t)story_moment(round, 60000);
		int ret;

		EQ(begin(session, s.path, NULL, &model), 0);
		ret = gpumap_model_wait(model, until);
		OK(ret == 0 || ret == -ETIME);
		EQ(truncate(path, (off_t)left), 0);
		ret = wait_for(model);
		OK(ret == 0 || (ret == -ENODATA && it_says(LAST)));
		short_ones += ret != 0;
		OK(ret == 0 || shards_taken(map, 0));
		EQ(gpumap_model_close(model, GPUMAP_NO_DEADLINE), 0);
		shards_write_file(&s, 1);
	}
	NOTE("%d were too short", short_ones);
	OK(shards_taken(map, 0));
	shards_let_go(map);
	shards_remove(&s);
}

/* The load is canceled or freed at any stage.  After that only free is left to
 * call. */
static void who_gives_up_has_nothing(struct gpumap_session *session)
{
	struct shards s = shards_make(tensors, 4, 2);
	int in_time = 0;

	EQ(shards_map(map, "two", "1:1;0:1"), 0);
	for (int round = 0; round < story_rounds(); round++) {
		struct gpumap_model *model = NULL;
		uint64_t until = story_now() +
				 1000 * (uint64_t)story_moment(round, 60000);

		EQ(begin(session, s.path, "two", &model), 0);
		gpumap_model_wait(model, until);
		if (round % 2) {
			EQ(gpumap_model_cancel(model), 0);
			in_time += wait_for(model) == -ECANCELED;
			OK(gpumap_model_progress(model, NULL) == 1 ||
			   shards_taken(map, 0));
		}
		EQ(gpumap_model_close(model, GPUMAP_NO_DEADLINE), 0);
		OK(shards_taken(map, 0));
		shards_let_go(map);
	}
	NOTE("%d were not whole yet", in_time);
	shards_remove(&s);
}

/* The worker stands: the model cannot be closed in time, and can be later. */
static void a_close_has_a_deadline(struct gpumap_session *session)
{
	struct shards s = shards_make(tensors, 4, 2);
	pid_t pid = (pid_t)story_device(map, 0).worker_pid;
	struct gpumap_model *model = NULL;

	OK(process_stop(pid));
	EQ(begin(session, s.path, NULL, &model), 0);
	EQ(gpumap_model_close(model, 0), -ETIME);
	EQ(gpumap_model_close(model, story_now() + 1000000), -ETIME);
	EQ(kill(pid, SIGCONT), 0);
	EQ(gpumap_model_close(model, GPUMAP_NO_DEADLINE), 0);
	OK(shards_taken(map, 0));
	shards_let_go(map);
	shards_remove(&s);
}

static void a_session_is_closed_at_any_stage(void)
{
	struct shards s = shards_make(tensors, 4, 2);

	EQ(shards_map(map, "two", "1:1;0:1"), 0);
	for (int round = 0; round < story_rounds(); round++) {
		struct gpumap_session *session = session_open(map);
		struct gpumap_tensor t = { .size = sizeof(t) };
		struct gpumap_model *model = NULL;

		EQ(begin(session, s.path, "two", &model), 0);
		gpumap_model_wait(model,
				  story_now() + 1000 * (uint64_t)story_moment(
							       round, 60000));
		gpumap_session_close(session);
		EQ(gpumap_model_progress(model, NULL), -ECANCELED);
		EQ(gpumap_model_find(model, "tail", &t), 0);
		EQ(t.buffer, 0);
		EQ(gpumap_model_close(model, GPUMAP_NO_DEADLINE), 0);
		OK(shards_taken(map, 0));
		shards_let_go(map);
	}
	shards_remove(&s);
}

static void a_client_dies_at_any_stage(void)
{
	struct shards s = shards_make(tensors, 4, 2);

	EQ(shards_map(map, "two", "1:1;0:1"), 0);
	for (int round = 0; round < story_rounds(); round++) {
		pid_t pid = fork();

		if (pid == 0) {
			struct gpumap *own = story_attach(&agent);
			struct gpumap_session *session = open_quietly(own);
			struct gpumap_model *model = NULL;

			begin(session, s.path, "two", &model);
			wait_for(model);
			pause();
		}
		story_nap(5000 + story_moment(round, 80000));
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
		OK(shards_taken(map, 0));
		shards_let_go(map);
	}
	shards_remove(&s);
}

static void a_worker_dies_at_any_stage(struct gpumap_session *session)
{
	struct shards s = shards_make(tensors, 4, 2);
	int well = 0;

	EQ(shards_map(map, "two", "1:1;0:1"), 0);
	for (int round = 0; round < story_rounds(); round++) {
		struct gpumap_model *model = NULL;
		struct gpumap_device device = story_device(map, 1);
		int ret;

		EQ(begin(session, s.path, "two", &model), 0);
		ret = gpumap_model_wait(
			model, story_now() + 1000 * (uint64_t)story_moment(
							    round, 60000));
		kill((pid_t)device.worker_pid, SIGKILL);
		if (ret == -ETIME)
			ret = wait_for(model);
		well += ret == 0;
		if (!OK(ret == 0 || ret == -EIO || ret == -ESTALE))
			NOTE("%d: %s", ret, gpumap_refusal(map));
		if (!OK(story_back(map, 1, device.restarts)))
			break;
		OK(ret == 0 || shards_taken(map, 0));
		EQ(gpumap_model_close(model, GPUMAP_NO_DEADLINE), 0);
		OK(shards_taken(map, 0));
		shards_let_go(map);
		EQ(outcome(session, s.path, "two"), 0);
	}
	NOTE("%d were whole before", well);
	shards_remove(&s);
}

/* ---- storage that fails -------------------------------------------------- */

/* The one file of the file system is a checkpoint with one tensor. */
static const char fuse_header[] =
	"{\"a\":{\"dtype\":\"U8\",\"shape\":[16776192],"
	"\"data_offsets\":[0,16776192]}}";

static void storage_fails(struct gpumap_session *session)
{
	char path[160];
	struct gpumap_model *model = NULL;

	snprintf(path, sizeof(path), "%s/file", fuse.folder);
	EQ(outcome(session, path, NULL), 0);
	fuse.orders->fails_from = 9 * MIB;
	fuse.orders->error = -EIO;
	EQ(outcome(session, path, NULL), -EREMOTEIO);
	OK(it_says("file: its storage, or its file system, failed a read"));
	/* The file system does not answer.  Closing the session gives all
	 * memory back. */
	fuse.orders->error = 0;
	session = session_open(map);
	EQ(begin(session, path, NULL, &model), 0);
	for (int i = 0; i < STORY_LOOKS && fuse.orders->unanswered == 0; i++)
		gpumap_model_wait(model, story_now() + 1000000);
	EQ(gpumap_model_cancel(model), 0);
	EQ(gpumap_model_close(model, story_now() + 20000000), -ETIME);
	gpumap_session_close(session);
	EQ(gpumap_model_close(model, 0), 0);
	OK(shards_taken(map, 0));
	fuse.orders->fails_from = UINT64_MAX;
}

static void with_storage_of_our_own(struct gpumap_session *session)
{
	char folder[64];

	snprintf(folder, sizeof(folder), "agent-model-fuse.%d", (int)getpid());
	if (!fuse_begin(&fuse, folder)) {
		SKIP(1, "no file system of our own can be mounted");
		return;
	}
	memset((void *)(uintptr_t)fuse.orders->head, ' ', 1024);
	fuse.orders->head_bytes = 1024;
	memset((void *)(uintptr_t)fuse.orders->head, 0, 8);
	fuse.orders->head[0] = (char)(1016 % 256);
	fuse.orders->head[1] = (char)(1016 / 256);
	memcpy((char *)(uintptr_t)fuse.orders->head + 8, fuse_header,
	       strlen(fuse_header));
	storage_fails(session);
	fuse_end(&fuse);
}

TAP_CASE()
{
	struct gpumap_session *session;

	stage_make(&agent, "[host]\nrows = 2\n");
	if (!OK(agent_start(&agent)) || !OK((map = story_attach(&agent))))
		return tap_done();
	session = session_open(map);
	files_that_are_missing_are_named(session);
	files_that_are_short_are_named(session);
	files_that_may_not_be_read_are_named();
	files_that_are_wrong_are_named(session);
	maps_of_other_models_are_refused(session);
	what_does_not_fit_takes_nothing(session);
	files_that_change_are_not_mixed(session);
	a_file_is_truncated_meanwhile(session);
	who_gives_up_has_nothing(session);
	a_close_has_a_deadline(session);
	with_storage_of_our_own(session);
	a_worker_dies_at_any_stage(session);
	gpumap_session_close(session);
	a_session_is_closed_at_any_stage();
	a_client_dies_at_any_stage();
	gpumap_detach(map);
	EQ(agent_kill(&agent, SIGTERM), 0);
	if (tap_failures)
		agent_show_log(&agent);
	stage_end(&agent);
	return tap_done();
}
