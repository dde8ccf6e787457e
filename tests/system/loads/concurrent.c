/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Checks the loading of a model in parts: rows read at the same time, data that
 * has come is copied while more is read, and a waiting caller sees the
 * progress.
 *
 * The file belongs to a file system that answers when the test tells it to.
 */

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gpumap.h"
#include "gpumap/model.h"
#include "tests/support/story_rows.h"
#include "tests/support/fuse.h"
#include "tests/support/shards.h"

#define DEPTH  4u
#define CONFIG "[host]\nrows = 2\n[load]\ndepth = 4\nread = 64K\n"

static struct agent agent;
static struct gpumap *map;
static struct fuse fuse;

static struct gpumap_session *session_open(uint64_t arena_bytes)
{
	struct gpumap_session_opts opts = { .size = sizeof(opts),
					    .arena_bytes = arena_bytes };
	struct gpumap_session *session = NULL;

	if (!EQ(gpumap_session_open(map, &opts, &session), 0))
		NOTE("%s", gpumap_refusal(map));
	return session;
}

/* ---- a checkpoint of two layers ------------------------------------------ */

#define HEAD   1024u
#define FIRST  (UINT64_C(4) << 20)
#define SECOND (FUSE_FILE_BYTES - HEAD - FIRST)
#define BEHIND (HEAD + FIRST + 4096) /* with the page layer 0 ends in */

static const char header[] =
	"{\"layers.0.a\":{\"dtype\":\"U8\",\"shape\":[4194304],"
	"\"data_offsets\":[0,4194304]},"
	"\"layers.1.a\":{\"dtype\":\"U8\",\"shape\":[12581888],"
	"\"data_offsets\":[4194304,16776192]}}";

static void write_header(void)
{
	char *head = (char *)(uintptr_t)fuse.orders->head;

	memset(head, ' ', HEAD);
	memset(head, 0, 8);
	head[0] = (char)((HEAD - 8) % 256);
	head[1] = (char)((HEAD - 8) / 256);
	memcpy(head + 8, header, strlen(header));
	fuse.orders->head_bytes = HEAD;
}

static void hold_from(uint64_t offset)
{
	fuse.orders->holds_from = offset;
	fuse.orders->holds = true;
}

static void let_go(void)
{
	fuse.orders->holds = false;
	close(fuse_open(&fuse)); /* so that it sees the change */
}

/* Begin to load the model.  The file system holds its answers from @offset of
 * the file on. */
static struct gpumap_model *begin(struct gpumap_session *session,
				  uint64_t offset)
{
	struct gpumap_model_opts opts = { .size = sizeof(opts),
					  .layers = "two" };
	struct gpumap_model *model = NULL;
	char path[160];

	snprintf(path, sizeof(path), "%s/file", fuse.folder);
	opts.path = path;
	/* This reads the header alone, and waits for nothing behind it. */
	if (!EQ(gpumap_model_load(session, &opts, &model), 0))
		NOTE("%s", gpumap_refusal(map));
	hold_from(offset);
	return model;
}

/* Every row has as many reads under way as it may. */
static void rows_read_at_once(void)
{
	struct gpumap_session *session = session_open(MIB);
	struct gpumap_model *model = begin(session, HEAD);
	uint64_t until = story_now() + STORY_LIMIT_NS;

	while (fuse.orders->held < 2 * DEPTH && story_now() < until)
		gpumap_model_wait(model, story_now() + 1000000);
	EQ(fuse.orders->held, 2 * DEPTH);
	let_go();
	EQ(gpumap_model_wait(model, story_now() + STORY_LIMIT_NS), 0);
	EQ(gpumap_model_close(model, GPUMAP_NO_DEADLINE), 0);
	OK(shards_taken(map, 0));
	gpumap_session_close(session);
}

/* Is @part the same as @whole, but for rounding? */
static bool is_about(double part, double whole)
{
	return part > whole * 0.999 && part < whole * 1.001;
}

/* How far others see that this session's loads are. */
static void others_see(uint64_t bytes, uint64_t total)
{
	struct gpumap_session_info info[4];

	if (!EQ(gpumap_session_list(map, info, 4), 1))
		return;
	EQ(info[0].load_bytes, bytes);
	EQ(info[0].load_total_bytes, total);
}

/* The same of gpumap-exporter. */
static void metrics_say(uint64_t bytes, uint64_t total)
{
	const char *exporter = getenv("GPUMAP_EXPORTER");
	char path[160], command[1024], line[512];
	uint32_t found = 0;
	FILE *file;

	if (exporter == NULL || access(exporter, X_OK) != 0) {
		SKIP(1, "gpumap-exporter was not built");
		return;
	}
	snprintf(path, sizeof(path), "%s/load.prom", agent.dir);
	snprintf(command, sizeof(command),
		 "'%s' --instance '%s' --runtime-dir '%s' --usage --textfile "
		 "'%s'",
		 exporter, agent.instance, agent.dir, path);
	EQ(system(command), 0);
	file = fopen(path, "re");
	while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
		const char *value = strrchr(line, ' ');

		if (strncmp(line, "gpumap_model_loading_bytes{", 27) != 0)
			continue;
		found += strstr(line, "kind=\"read\"") != NULL &&
			 strtoull(value, NULL, 10) == bytes;
		found += strstr(line, "kind=\"total\"") != NULL &&
			 strtoull(value, NULL, 10) == total;
	}
	EQ(found, 2);
	if (file != NULL)
		fclose(file);
	unlink(path);
}

static void a_caller_sees_how_far_it_is(void)
{
	struct gpumap_model_progress p = { .size = sizeof(p) };
	struct gpumap_session *session = session_open(MIB);
	struct gpumap_model *model = begin(session, BEHIND);
	uint64_t until = story_now() + STORY_LIMIT_NS;
	int ret = 0;

	EQ(gpumap_model_progress(model, &p), 0);
	EQ(p.bytes, 0);
	EQ(p.bytes_per_second, 0);
	EQ(p.left_ns, UINT64_MAX);
	while (p.bytes == 0 && ret == 0 && story_now() < until) {
		gpumap_model_wait(model, story_now() + 1000000);
		ret = gpumap_model_progress(model, &p);
	}
	EQ(ret, 0);
	/* All of one layer has come, and nothing of the other. */
	EQ(p.state, GPUMAP_MODEL_LOADING);
	EQ(p.bytes, FIRST);
	EQ(p.total_bytes, FIRST + SECOND);
	others_see(FIRST, FIRST + SECOND);
	metrics_say(FIRST, FIRST + SECOND);
	OK(p.elapsed_ns > 0);
	OK(p.bytes_per_second > 0);
	OK(is_about((double)p.left_ns * (double)p.bytes_per_second / 1e9,
		    (double)SECOND));
	/* So much came in the elapsed time at most. */
	OK((double)p.bytes_per_second * (double)p.elapsed_ns / 1e9 >
	   (double)FIRST * 0.999);
	let_go();
	EQ(gpumap_model_wait(model, story_now() + STORY_LIMIT_NS), 0);
	EQ(gpumap_model_progress(model, &p), 1);
	EQ(p.state, GPUMAP_MODEL_LOADED);
	others_see(0, 0);
	EQ(p.bytes, FIRST + SECOND);
	EQ(p.left_ns, 0);
	OK(is_about((double)p.bytes_per_second * (double)p.elapsed_ns / 1e9,
		    (double)(FIRST + SECOND)));
	EQ(gpumap_model_close(model, GPUMAP_NO_DEADLINE), 0);
	gpumap_session_close(session);
}

#ifdef STAGE_CUDA

/* The second copy to the card hangs.  More is read all the same than fits
 * beside it. */
static void copies_go_on_beside_reads(void)
{
	struct gpumap_session *session = session_open(MIB);
	struct gpumap_device device;
	uint64_t until = story_now() + STORY_LIMIT_NS, buffer = 0, copies;
	int fd = fuse_open(&fuse);
	struct gpumap_job job =
		load_job(load_register(session, fd), 0, 64 << 10, NULL);
	struct gpumap_done done;
	uint32_t gpu, before;

	EQ(gpumap_buffer_alloc(session, 0, 4 * MIB, 0, until, &buffer), 0);
	job.dst_buffer = buffer;
	EQ(story_run(session, 0, &job), 0);
	device = story_device(map, 0);
	EQ(device.kind, GPUMAP_DEVICE_CUDA);
	gpu = cuda_scene_gpu(&stage_scene, &device);
	copies = cuda_scene_copies(&stage_scene, gpu);
	cuda_scene_add(&stage_scene, "row %u: copy %u: hang", gpu,
		       (uint32_t)copies + 2);
	before = fuse.orders->n_read;
	job.n = 4 * MIB;
	EQ(gpumap_submit(session, 0, &job, 1), 0);
	while (fuse.orders->n_read - before <= DEPTH && story_now() < until)
		story_nap(1000);
	/* All free buffers were filled, and one more: that of the first piece,
	 * which had been copied. */
	OK(fuse.orders->n_read - before > DEPTH);
	EQ(gpumap_poll(session, &done, 1), 0);
	EQ(story_device(map, 0).worker_pid, device.worker_pid);
	kill((pid_t)device.worker_pid, SIGKILL);
	EQ(gpumap_wait(session, &done, 1, until), 1);
	EQ(done.status, -EIO);
	cuda_scene_mend(&stage_scene);
	gpumap_session_close(session);
	close(fd);
}

#else

/* Wait until the terminal shows @what and @and on the line that gpumapctl
 * rewrites. */
static bool reads(int pty, const char *what, const char *and)
{
	uint64_t until = story_now() + STORY_LIMIT_NS;
	static char text[1 << 16];
	size_t n = 0;

	while (story_now() < until && n + 1 < sizeof(text)) {
		ssize_t got = read(pty, text + n, sizeof(text) - 1 - n);

		n += got > 0 ? (size_t)got : 0;
		text[n] = '\0';
		if (strstr(text, what) != NULL && strstr(text, and) != NULL)
			return true;
		story_nap(5000);
	}
	NOTE("%.400s", text);
	return false;
}

static void a_person_sees_how_far_it_is(void)
{
	const char *gpumapctl = getenv("GPUMAPCTL");
	int pty = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK);
	char name[64], path[160];
	int tell, status = -1;
	pid_t pid;

	if (pty < 0 || grantpt(pty) != 0 || unlockpt(pty) != 0 ||
	    ptsname_r(pty, name, sizeof(name)) != 0 ||
	    (tell = open(name, O_RDWR | O_NOCTTY | O_CLOEXEC)) < 0) {
		SKIP(1, "no terminal can be had here");
		return;
	}
	snprintf(path, sizeof(path), "%s/file", fuse.folder);
	hold_from(BEHIND);
	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		if (dup2(tell, STDERR_FILENO) < 0 ||
		    dup2(tell, STDOUT_FILENO) < 0)
			_exit(98);
		setenv("TERM", "xterm", 1);
		execl(gpumapctl, gpumapctl, "--runtime-dir", agent.dir,
		      "--instance", agent.instance, "load", "two", "--model",
		      path, "--once", NULL);
		_exit(97);
	}
	OK(reads(pty, "load two: [", "4.0 MiB of 16.0 MiB"));
	let_go();
	EQ(waitpid(pid, &status, 0), pid);
	EQ(status, 0);
	close(tell);
	close(pty);
}

#endif

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
	write_header();
	if (OK(agent_start(&agent)) && OK((map = story_attach(&agent))) &&
	    EQ(shards_map(map, "two", "0:1;1:1"), 0)) {
		rows_read_at_once();
		a_caller_sees_how_far_it_is();
#ifdef STAGE_CUDA
		copies_go_on_beside_reads();
#else
		a_person_sees_how_far_it_is();
#endif
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
