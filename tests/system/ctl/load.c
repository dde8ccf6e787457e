/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Checks gpumapctl load: its output as text and as JSON; that other processes
 * open the weights by name as long as the command holds them, and no longer.
 */

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gpumap.h"
#include "gpumap/model.h"
#include "tests/support/shards.h"

static struct agent agent;
static struct gpumap *map;
static char out[1 << 20], err[1 << 16];

static const struct shard_tensor tensors[] = {
	{ "layers.0.a", "U8", "[3000]", 3000, 0, false },
	{ "layers.0.b", "F32", "[2,3]", 24, 0, false },
	{ "layers.1.a", "BF16", "[300000]", 600000, 1, false },
	{ "tail", "U8", "[5]", 5, 1, false },
};

/* ---- calling it ---------------------------------------------------------- */

static void read_back(const char *name, char *ret_text, size_t bytes)
{
	char path[160];
	size_t n;
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", agent.dir, name);
	file = fopen(path, "re");
	n = file ? fread(ret_text, 1, bytes - 1, file) : 0;
	ret_text[n] = '\0';
	if (file)
		fclose(file);
}

static int create(const char *name)
{
	char path[160];

	snprintf(path, sizeof(path), "%s/%s", agent.dir, name);
	return open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
}

static pid_t begin(const char *a, const char *b, const char *c)
{
	const char *gpumapctl = getenv("GPUMAPCTL");
	int to = create("out"), tell = create("err");
	const char *const argv[] = { gpumapctl,
				     "--runtime-dir",
				     agent.dir,
				     "--instance",
				     agent.instance,
				     "load",
				     "two",
				     "--model",
				     a,
				     b,
				     c,
				     NULL };
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		if (dup2(to, STDOUT_FILENO) < 0 ||
		    dup2(tell, STDERR_FILENO) < 0)
			_exit(98);
		execv(gpumapctl, (char **)(uintptr_t)argv);
		_exit(97);
	}
	close(to);
	close(tell);
	return pid;
}

static int end_of(pid_t pid)
{
	int status = -1;

	waitpid(pid, &status, 0);
	read_back("out", out, sizeof(out));
	read_back("err", err, sizeof(err));
	return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static int run(const char *a, const char *b, const char *c)
{
	return end_of(begin(a, b, c));
}

/* Wait until the command has printed this text. */
static bool comes_to(const char *text)
{
	uint64_t until = story_now() + STORY_LIMIT_NS;

	do {
		read_back("out", out, sizeof(out));
		if (strstr(out, text))
			return true;
		story_nap(2000);
	} while (story_now() < until);
	NOTE("it has printed: %.300s", out);
	return false;
}

/* ---- stories ------------------------------------------------------------- */

static void once_it_loads_and_leaves(const struct shards *s)
{
	EQ(run(s->path, "--once", NULL), 0);
	OK(strstr(out, "two: 589 KiB of 4 tensors in "));
	OK(strstr(out, "  row   0     586 KiB\n"));
	OK(strstr(out, "  row   1     3.3 KiB\n"));
	OK(!strstr(out, "shared") && !strstr(out, "holding"));
	EQ(strlen(err), 0);
	OK(shards_taken(map, 0));
	EQ(run(s->path, "--once", "--rows=1"), 0);
	OK(!strstr(out, "row   0") && strstr(out, "row   1"));
	/* With --once no weights are shared, so the options about sharing are
	 * refused. */
	EQ(run(s->path, "--once", "--writable"), 2);
	OK(strstr(err, "leave out --writable, or --once"));
	EQ(run(s->path, "--once", "--any-user"), 2);
	OK(strstr(err, "leave out --any-user, or --once"));
	EQ(strlen(out), 0);
}

static void what_is_wrong_is_said(const struct shards *s)
{
	char path[160];

	EQ(run("no-such-folder", NULL, NULL), 1);
	OK(strstr(err, "load \"two\": ") && strstr(err, "no-such-folder"));
	OK(strstr(err, "; give a checkpoint's directory: nothing is fetched by "
		       "a model's name"));
	EQ(run(s->path, "--rows=7", NULL), 1);
	OK(strstr(err, "there is no row 7: gpumapctl devices"));
	EQ(run(s->path, "--json", "--nodes"), 2);
	shards_path(s, "model-00002-of-00002.safetensors", path);
	EQ(truncate(path, 300), 0);
	EQ(run(s->path, NULL, NULL), 1);
	OK(strstr(err, "model-00002-of-00002.safetensors is truncated"));
	EQ(strlen(out), 0);
	shards_write_file(s, 1);
	EQ(gpumap_layers_release(map, "two"), 0);
	EQ(run(s->path, NULL, NULL), 1);
	OK(strstr(err, "no layer map is named \"two\""));
	EQ(shards_map(map, "two", "1:1;0:1"), 0);
}

/* The last line. */
static json_t *loaded_json(void)
{
	char *at = out, *next;

	while ((next = strchr(at, '\n')) != NULL && next[1] != '\0')
		at = next + 1;
	return json_loads(at, 0, NULL);
}

static uint64_t number(const json_t *object, const char *key)
{
	return (uint64_t)json_integer_value(json_object_get(object, key));
}

/* One tensor is read: as the command prints it, and as another process reads
 * it. */
static bool is_there(const json_t *loaded, const struct shards *s, size_t i,
		     struct gpumap_session *session, struct gpumap_model *model)
{
	const json_t *t = NULL, *list = json_object_get(loaded, "tensors");
	const json_t *buffer;
	struct gpumap_job job = { .op = GPUMAP_OP_COPY, .n = s->v[i].bytes };
	struct gpumap_tensor tensor = { .size = sizeof(tensor) };
	uint32_t row;

	for (size_t j = 0; j < json_array_size(list); j++)
		if (strcmp(json_string_value(json_object_get(
				   json_array_get(list, j), "name")),
			   s->v[i].name) == 0)
			t = json_array_get(list, j);
	buffer = json_array_get(json_object_get(loaded, "buffers"),
				number(t, "buffer"));
	row = (uint32_t)number(buffer, "row");
	EQ(row, number(t, "row"));
	EQ(number(t, "bytes"), s->v[i].bytes);
	EQ(gpumap_model_find(model, s->v[i].name, &tensor), 0);
	EQ(tensor.row, row);
	EQ(tensor.at, number(t, "at"));
	EQ(gpumap_alloc(session, row, MIB, &job.dst), 0);
	job.src_buffer = tensor.buffer;
	job.src_at = tensor.at;
	EQ(story_run(session, row, &job), 0);
	return shards_match(s, i, job.dst, 0, job.n);
}

static struct gpumap_session *session_open(void)
{
	struct gpumap_session_opts opts = { .size = sizeof(opts),
					    .arena_bytes = 8 * MIB };
	struct gpumap_session *session = NULL;

	EQ(gpumap_session_open(map, &opts, &session), 0);
	return session;
}

static void others_find_it_while_it_is_held(const struct shards *s)
{
	struct gpumap_session *session = session_open();
	struct gpumap_model *model = NULL;
	pid_t pid = begin(s->path, "--json", NULL);
	json_t *loaded;

	OK(comes_to("\"state\":\"loaded\"") && comes_to("]}\n"));
	loaded = loaded_json();
	EQ(number(loaded, "bytes"), 603029);
	EQ(number(loaded, "total_bytes"), 603029);
	OK(number(loaded, "share") > 0);
	OK(json_is_false(json_object_get(loaded, "was_there")));
	EQ(gpumap_model_open(session, "two", 0, NULL, &model), -EACCES);
	EQ(gpumap_model_open(session, "two", GPUMAP_SHARE_READ_ONLY, NULL,
			     &model),
	   0);
	for (size_t i = 0; i < s->n; i++)
		OK(is_there(loaded, s, i, session, model));
	json_decref(loaded);
	gpumap_session_close(session);
	gpumap_model_close(model, GPUMAP_NO_DEADLINE);
	EQ(kill(pid, SIGTERM), 0);
	EQ(end_of(pid), 0);
	EQ(strlen(err), 0);
	OK(shards_taken(map, 0));
}

/* A second command finds the weights loaded, and still holds them after the
 * first has ended. */
static void two_may_hold_it(const struct shards *s)
{
	struct gpumap_session *session = session_open();
	struct gpumap_model *model = NULL;
	pid_t first = begin(s->path, "--writable", NULL), second;

	OK(comes_to("shared as \"two\"; holding it"));
	second = begin(s->path, "--writable", NULL);
	OK(comes_to("two: 589 KiB of 4 tensors were there") &&
	   comes_to("shared as \"two\"; holding it"));
	EQ(kill(first, SIGKILL), 0);
	waitpid(first, NULL, 0);
	EQ(gpumap_model_open(session, "two", 0, NULL, &model), 0);
	gpumap_session_close(session);
	gpumap_model_close(model, GPUMAP_NO_DEADLINE);
	EQ(kill(second, SIGTERM), 0);
	EQ(end_of(second), 0);
	OK(shards_taken(map, 0));
}

/* A name is of the files that it was loaded from. */
static void other_files_are_refused(const struct shards *s)
{
	struct shards other = { .v = tensors, .n = 4, .n_files = 1 };
	const struct timespec then[2] = { { .tv_sec = 1000000000 },
					  { .tv_sec = 1000000000 } };
	char path[160];
	pid_t pid = begin(s->path, NULL, NULL);

	snprintf(other.path, sizeof(other.path), "agent-model-other.%d",
		 (int)getpid());
	EQ(mkdir(other.path, 0755), 0);
	shards_write_file(&other, 0);
	OK(comes_to("holding it"));
	EQ(run(other.path, NULL, NULL), 1);
	OK(strstr(err, "\"two\" holds other files, or an earlier state of "
		       "these, from ") &&
	   strstr(err, s->path) && strstr(err, "; load them by another name"));
	EQ(strlen(out), 0);
	EQ(run("no-such-folder", NULL, NULL), 1);
	OK(strstr(err, "no-such-folder"));
	/* The same files, which have been written again. */
	shards_path(s, "model-00002-of-00002.safetensors", path);
	EQ(utimensat(AT_FDCWD, path, then, 0), 0);
	EQ(run(s->path, NULL, NULL), 1);
	OK(strstr(err, "or an earlier state of these, from "));
	EQ(kill(pid, SIGTERM), 0);
	EQ(end_of(pid), 0);
	OK(shards_taken(map, 0));
	shards_remove(&other);
}

static void others_will_do_when_asked(const struct shards *s)
{
	pid_t first = begin(s->path, NULL, NULL), second;

	OK(comes_to("holding it"));
	second = begin("no-such-folder", "--any-files", NULL);
	OK(comes_to("two: 589 KiB of 4 tensors were there"));
	EQ(kill(first, SIGTERM), 0);
	waitpid(first, NULL, 0);
	OK(comes_to("holding it"));
	EQ(kill(second, SIGTERM), 0);
	EQ(end_of(second), 0);
	EQ(run(s->path, "--once", "--any-files"), 2);
	OK(strstr(err, "leave out --any-files, or --once"));
	OK(shards_taken(map, 0));
}

/* Releasing the map of a loaded model leaves the weights where they are. */
static void its_map_can_be_released(const struct shards *s)
{
	pid_t pid = begin(s->path, NULL, NULL);
	char command[512];

	OK(comes_to("holding it"));
	snprintf(command, sizeof(command),
		 "%s --runtime-dir %s --instance %s release two >%s/out",
		 getenv("GPUMAPCTL"), agent.dir, agent.instance, agent.dir);
	EQ(system(command), 0);
	read_back("out", out, sizeof(out));
	STR(out, "two: released\n  the share \"two\" stays, with 589 KiB for "
		 "1 session: gpumapctl shares release two ends it\n");
	EQ(kill(pid, SIGTERM), 0);
	EQ(end_of(pid), 0);
	EQ(shards_map(map, "two", "1:1;0:1"), 0);
	OK(shards_taken(map, 0));
}

static void its_name_can_be_taken_back(const struct shards *s)
{
	pid_t pid = begin(s->path, NULL, NULL);

	OK(comes_to("holding it"));
	EQ(gpumap_share_release(map, "two"), 0);
	EQ(end_of(pid), 0);
	OK(strstr(err, "\"two\" has been released"));
	OK(shards_taken(map, 0));
}

static void a_workers_death_is_told(const struct shards *s)
{
	struct gpumap_device device = story_device(map, 1);
	struct gpumap_session *session = session_open();
	struct gpumap_model *model = NULL;
	pid_t pid = begin(s->path, NULL, NULL);

	OK(comes_to("holding it"));
	kill((pid_t)device.worker_pid, SIGKILL);
	OK(story_back(map, 1, device.restarts));
	EQ(gpumap_model_open(session, "two", GPUMAP_SHARE_READ_ONLY, NULL,
			     &model),
	   0);
	gpumap_session_close(session);
	gpumap_model_close(model, GPUMAP_NO_DEADLINE);
	for (int i = 0; i < STORY_LOOKS && !strstr(err, "died"); i++) {
		story_nap(1000);
		read_back("err", err, sizeof(err));
	}
	OK(strstr(err, "worker of row 1 died; \"two\" is still there"));
	EQ(kill(pid, SIGTERM), 0);
	EQ(end_of(pid), 0);
	OK(shards_taken(map, 0));
}

static int dry_status; /* of the last dry run */

/* The output of gpumapctl drain --dry-run. */
static const char *dry_run(const char *row, const char *option)
{
	static char text[4096];
	char command[512];

	snprintf(command, sizeof(command),
		 "%s --runtime-dir %s --instance %s drain %s --dry-run %s "
		 ">%s/dry",
		 getenv("GPUMAPCTL"), agent.dir, agent.instance, row, option,
		 agent.dir);
	dry_status = WEXITSTATUS(system(command));
	read_back("dry", text, sizeof(text));
	return text;
}

static void it_ends_when_the_weights_are_lost(const struct shards *s)
{
	pid_t pid = begin(s->path, NULL, NULL);
	const json_t *list;
	char says[64];
	json_t *json;

	OK(comes_to("holding it"));
	snprintf(says, sizeof(says), " of process %d, ", (int)pid);
	OK(strstr(dry_run("1", ""), says));
	OK(strstr(dry_run("1", ""), "\n  share \"two\" of user ") &&
	   strstr(dry_run("1", ""),
		  ": all of it, 589 KiB on all its rows, for 1 "
		  "session\n"));
	OK(strstr(dry_run("1", ""),
		  "\nand would leave:\n  layer map \"two\", with 1 layer "
		  "there\n"));
	OK(!strstr(dry_run("1", ""), "nothing"));
	EQ(dry_status, 0);
	json = json_loads(dry_run("1", "--json"), 0, NULL);
	EQ(number(json, "row"), 1);
	list = json_object_get(json, "sessions");
	EQ(json_array_size(list), 1);
	EQ(number(json_array_get(list, 0), "pid"), pid);
	OK(json_object_get(json_array_get(list, 0), "user") != NULL);
	OK(json_object_get(json_array_get(list, 0), "command") != NULL);
	EQ(json_array_size(json_object_get(json, "shares")), 1);
	EQ(json_array_size(json_object_get(json, "maps")), 1);
	json_decref(json);
	/* The dry run has drained nothing. */
	EQ(story_device(map, 1).state, GPUMAP_DEVICE_READY);
	EQ(gpumap_device_drain(map, 1), 0);
	EQ(end_of(pid), 1);
	OK(strstr(err, "\"two\" is lost: the worker of row 1 died or has left "
		       "service"));
	EQ(gpumap_device_undrain(map, 1), 0);
	for (int i = 0; i < STORY_LOOKS &&
			story_device(map, 1).state != GPUMAP_DEVICE_READY;
	     i++)
		story_nap(1000);
	OK(shards_taken(map, 0));
}

static void an_idle_row_has_nothing_to_end(void)
{
	STR(dry_run("1", ""), "a drain of row 1 would end:\n  nothing\n");
	EQ(dry_status, 0);
	STR(dry_run("77", ""), "");
	OK(dry_status != 0);
}

/* The command is stopped before it can load much of the file. */
static void it_can_be_stopped(const struct shards *s)
{
	for (int round = 0; round < story_rounds(); round++) {
		pid_t pid = begin(s->path, NULL, NULL);
		int status;

		story_nap(story_moment(round, 30000));
		kill(pid,
		     SIGTERM); /* the wrapper of libtool may lose a SIGINT */
		status = end_of(pid);
		OK(status == 0 || status == 1 || status == -SIGTERM);
		OK(shards_taken(map, 0));
		shards_let_go(map);
	}
}

/* Without a store the weights end with the agent, however it ends; the command
 * hears of it from the next one. */
static void they_are_lost_with_the_agent(const struct shards *s, int signal)
{
	pid_t pid = begin(s->path, NULL, NULL);

	OK(comes_to("holding it"));
	agent_kill(&agent, signal);
	OK(agent_start(&agent));
	EQ(end_of(pid), 3);
	OK(strstr(err, "the agent is gone; waiting for the next one"));
	OK(strstr(err, "\"two\" is lost: "));
}

/* No agent comes: a signal ends the command. */
static void it_can_be_stopped_without_an_agent(const struct shards *s)
{
	pid_t pid = begin(s->path, NULL, NULL);

	OK(comes_to("holding it"));
	agent_kill(&agent, SIGKILL);
	kill(pid, SIGTERM);
	EQ(end_of(pid), 0);
	OK(agent_start(&agent));
}

/* An agent that does not run for a moment has the share, and says so. */
static void a_pause_of_the_agent_releases_nothing(const struct shards *s)
{
	pid_t pid = begin(s->path, NULL, NULL);
	struct gpumap_share_info info = { .size = sizeof(info) };
	uint64_t held, now;

	OK(comes_to("holding it"));
	held = story_now();
	OK(process_stop(agent.pid));
	while (story_now() < held + UINT64_C(1000000000))
		story_nap(10000);
	kill(agent.pid, SIGCONT);
	now = story_now();
	EQ(gpumap_share_list(map, &info, 1), 1);
	if (!OK(info.age_ns >= now - held))
		NOTE("%llu ns, and is %llu ns old",
		     (unsigned long long)info.age_ns,
		     (unsigned long long)(now - held));
	kill(pid, SIGTERM);
	EQ(end_of(pid), 0);
	OK(strstr(err, "released") == NULL);
}

/* The next agent counts shares anew, and another process is faster. */
static void another_share_is_not_held(const struct shards *s)
{
	pid_t pid = begin(s->path, NULL, NULL);
	struct gpumap_share_info info = { .size = sizeof(info) };
	struct gpumap_session *other;
	struct gpumap_share_request what = { .size = sizeof(what),
					     .name = "two",
					     .n_buffers = 1 };
	uint64_t buffer, first, share, loaded_ns = 0;

	OK(comes_to("holding it"));
	EQ(gpumap_share_list(map, &info, 1), 1);
	first = info.share;
	/* Ages are compared to the second. */
	while (loaded_ns < UINT64_C(1200000000)) {
		story_nap(10000);
		gpumap_share_list(map, &info, 1);
		loaded_ns = info.age_ns;
	}
	OK(process_stop(pid));
	agent_kill(&agent, SIGKILL);
	if (!OK(agent_start(&agent)))
		return;
	other = session_open();
	what.buffers = &buffer;
	do {
		EQ(gpumap_buffer_alloc(other, 0, 4096, GPUMAP_BUFFER_EXPORTABLE,
				       GPUMAP_NO_DEADLINE, &buffer),
		   0);
		EQ(gpumap_share_publish(other, &what, &share), 0);
		if (share < first)
			EQ(gpumap_share_close(other, share), 0);
	} while (share < first);
	EQ(share, first);
	kill(pid, SIGCONT);
	EQ(end_of(pid), 3);
	OK(strstr(err, "\"two\" is lost: "));
	gpumap_session_close(other);
}

/* With one it holds them by each next agent. */
static void it_holds_them_over_a_restart(const struct shards *s)
{
	struct gpumap_share_info info = { .size = sizeof(info) };
	pid_t pid;

	EQ(agent_kill(&agent, SIGTERM), 0);
	agent.kept_most = 64;
	if (!OK(agent_start(&agent)))
		return;
	pid = begin(s->path, NULL, NULL);
	OK(comes_to("holding it"));
	for (unsigned i = 0; i < 2; i++) {
		kill(agent_main_pid(&agent), i ? SIGTERM : SIGKILL);
		STORY_WAIT_WHILE(
			agent_count_log(&agent, "event=share_opened") < i + 1 ||
			agent_count_log(&agent, "event=ready") < i + 2);
		EQ(gpumap_share_list(map, &info, 1), 1);
		EQ(info.n_holders, 1);
		EQ(info.pid, pid);
	}
	kill(pid, SIGTERM);
	EQ(end_of(pid), 0);
	OK(strstr(err, "another agent has \"two\""));
	EQ(gpumap_share_list(map, &info, 1), 0);
	EQ(agent_kill(&agent, SIGTERM), 0);
	agent.kept_most = 0;
	OK(agent_start(&agent));
}

TAP_CASE()
{
	struct shards s;

	agent_make(&agent, "[host]\nrows = 2\n");
	if (!OK(agent_start(&agent)) || !OK((map = story_attach(&agent))))
		return tap_done();
	an_idle_row_has_nothing_to_end();
	s = shards_make(tensors, 4, 2);
	EQ(shards_map(map, "two", "1:1;0:1"), 0);
	once_it_loads_and_leaves(&s);
	what_is_wrong_is_said(&s);
	others_find_it_while_it_is_held(&s);
	two_may_hold_it(&s);
	other_files_are_refused(&s);
	others_will_do_when_asked(&s);
	its_map_can_be_released(&s);
	its_name_can_be_taken_back(&s);
	a_workers_death_is_told(&s);
	it_ends_when_the_weights_are_lost(&s);
	it_can_be_stopped(&s);
	they_are_lost_with_the_agent(&s, SIGKILL);
	they_are_lost_with_the_agent(&s, SIGTERM);
	it_can_be_stopped_without_an_agent(&s);
	a_pause_of_the_agent_releases_nothing(&s);
	another_share_is_not_held(&s);
	it_holds_them_over_a_restart(&s);
	shards_remove(&s);
	gpumap_detach(map);
	if (tap_failures)
		agent_show_log(&agent);
	agent_remove(&agent);
	return tap_done();
}
