/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Checks gpumapctl load --detach: the agent keeps the weights when the command
 * has ended, for the users that were named, until the share is released.
 */

#include <sys/stat.h>

#include <gpumap/model.h>

#include "tests/support/ctl.h"
#include "tests/support/shards.h"
#include "tests/support/story.h"

#define BYTES 603029u /* of all tensors */

static struct gpumap *map;
static struct shards model;

static const struct shard_tensor tensors[] = {
	{ "layers.0.a", "U8", "[3000]", 3000, 0, false },
	{ "layers.0.b", "F32", "[2,3]", 24, 0, false },
	{ "layers.1.a", "BF16", "[300000]", 600000, 1, false },
	{ "tail", "U8", "[5]", 5, 1, false },
};

static const char closed[] = "[socket]\n"
			     "mode = 0666\n"
			     "[host]\n"
			     "rows = 2\n";
static const char open_to_others[] = "[socket]\n"
				     "mode = 0666\n"
				     "[host]\n"
				     "rows = 2\n"
				     "[limits]\n"
				     "kept-shares-per-uid = 1\n"
				     "[cuda]\n"
				     "enabled = off\n"
				     "share = any\n";

#define LOAD(...) CTL("load", "two", "--model", model.path, __VA_ARGS__)

static struct gpumap_share_info shared(const char *name)
{
	struct gpumap_share_info all[8] = { { .size = sizeof(all[0]) } };
	int n = gpumap_share_list(map, all, 8);

	for (int i = 0; i < n && i < 8; i++) {
		if (strcmp(all[i].name, name) == 0)
			return all[i];
	}
	return (struct gpumap_share_info){ .share = 0 };
}

/* The session of a command ends a little later than the command. */
static bool has_holders(const char *name, uint32_t n)
{
	STORY_WAIT_WHILE(shared(name).n_holders != n);
	return EQ(shared(name).n_holders, n) && shared(name).share != 0;
}

/* A process opens it, reads a tensor, and ends. */
static int reads_it(const char *name)
{
	struct gpumap_session_opts opts = { .size = sizeof(opts),
					    .arena_bytes = 8 * MIB };
	struct gpumap_job job = { .op = GPUMAP_OP_COPY };
	struct gpumap_tensor t = { .size = sizeof(t) };
	struct gpumap_session *session = NULL;
	struct gpumap_model *opened = NULL;
	struct gpumap *own = story_attach(&agent);
	int ret = gpumap_session_open(own, &opts, &session);

	if (ret == 0)
		ret = gpumap_model_open(session, name, GPUMAP_SHARE_READ_ONLY,
					NULL, &opened);
	if (ret == 0)
		ret = gpumap_model_find(opened, "layers.1.a", &t);
	if (ret == 0)
		ret = gpumap_alloc(session, t.row, MIB, &job.dst);
	if (ret == 0) {
		job.n = t.bytes;
		job.src_buffer = t.buffer;
		job.src_at = t.at;
		ret = story_run(session, t.row, &job);
	}
	if (ret == 0 && !shards_match(&model, 2, job.dst, 0, t.bytes))
		ret = -EIO;
	gpumap_model_close(opened, GPUMAP_NO_DEADLINE);
	gpumap_session_close(session);
	gpumap_detach(own);
	return -ret;
}

static int reads_two(void)
{
	return reads_it("two");
}

/* As another user, or as this one.  Returns an errno. */
static int opens_as(uid_t uid, int (*act)(void))
{
	int status = -1;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid == 0)
		_exit(uid == 0 || (setgid(uid) == 0 && setuid(uid) == 0) ? act()
									 : 199);
	waitpid(pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void releases(const char *name)
{
	EQ(CTL("shares", "release", name), DONE);
	EQ(shared(name).share, 0);
	OK(shards_taken(map, 0));
	shards_let_go(map);
}

/* ---- stories ------------------------------------------------------------- */

static void the_agent_keeps_it(void)
{
	json_t *json;

	EQ(LOAD("--detach"), DONE);
	OK(prints("two: 589 KiB of 4 tensors in "));
	OK(prints("kept as \"two\", until gpumapctl shares release two\n"));
	STR(err, "");
	OK(has_holders("two", 0));
	OK(shared("two").flags & GPUMAP_SHARE_KEEP);
	EQ(shared("two").uid, geteuid());
	OK(shared("two").bytes >= BYTES);
	for (int i = 0; i < 2; i++) {
		EQ(opens_as(0, reads_two), 0);
		OK(has_holders("two", 0));
	}
	EQ(CTL("shares"), DONE);
	OK(prints("read-only  yes "));
	/* The command finds it the next time. */
	EQ(LOAD("--detach"), DONE);
	OK(prints("were there"));
	EQ(LOAD("--detach", "--json"), DONE);
	json = object();
	OK(json_is_true(json_object_get(json, "was_there")));
	OK(json_is_true(json_object_get(json, "kept")));
	json_decref(json);
	OK(has_holders("two", 0));
	releases("two");
}

/* A held share ends with its holder, although the command says it stays. */
static void one_that_is_held_is_not_kept(void)
{
	struct gpumap_session_opts opts = { .size = sizeof(opts),
					    .arena_bytes = 4096 };
	struct gpumap_model_opts what = { .size = sizeof(what),
					  .path = model.path,
					  .layers = "two",
					  .name = "two" };
	struct gpumap_session *session = NULL;
	struct gpumap_model *held = NULL;

	what.share_flags = GPUMAP_SHARE_READ_ONLY;
	EQ(gpumap_session_open(map, &opts, &session), 0);
	EQ(gpumap_model_load(session, &what, &held), 0);
	EQ(gpumap_model_wait(held, GPUMAP_NO_DEADLINE), 0);
	EQ(LOAD("--detach"), FAILED);
	OK(complains("\"two\" is there and is not kept"));
	OK(has_holders("two", 1));
	gpumap_model_close(held, GPUMAP_NO_DEADLINE);
	gpumap_session_close(session);
	OK(shards_taken(map, 0));
}

static void it_has_another_name_than_its_map(void)
{
	EQ(CTL("load", "chat", "--model", model.path, "--map", "two",
	       "--detach"),
	   DONE);
	OK(has_holders("chat", 0));
	EQ(CTL("load", "talk", "--model", model.path, "--detach"), FAILED);
	OK(complains("no layer map is named \"talk\""));
	releases("chat");
}

static void a_file_is_kept_as_well(void)
{
	char file[160];

	shards_path(&model, "model-00001-of-00002.safetensors", file);
	EQ(CTL("load", "f", "--as-file", file, "--detach"), DONE);
	OK(!strstr(out, "/proc/") && prints("kept as \"f\""));
	OK(has_holders("f", 0));
	releases("f");
}

static void words_are_checked(void)
{
	EQ(LOAD("--detach", "--once"), USAGE);
	OK(complains("leave out one of them"));
	EQ(CTL("load", "f", "--as-file", model.path, "--detach", "--link",
	       agent.dir),
	   USAGE);
	OK(complains("leave out one of them"));
	EQ(LOAD("--any-user", "--users", "root"), USAGE);
	OK(complains("leave out --users"));
	EQ(LOAD("--once", "--users", "root"), USAGE);
	EQ(LOAD("--detach", "--users", "no-such-user"), USAGE);
	OK(complains("\"no-such-user\": neither a user"));
	EQ(LOAD("--detach", "--users", "root,,root"), USAGE);
	OK(complains("with commas between them"));
	EQ(LOAD("--detach", "--run-as", "no-such-user"), USAGE);
	OK(complains("no user of this machine"));
	/* The agent's answer. */
	EQ(LOAD("--detach", "--any-user"), FAILED);
	OK(complains("share = any"));
	OK(shards_taken(map, 0));
}

/* The agent says so before anything is loaded. */
static void others_may_not(void)
{
	if (!ctl_as_another(6))
		return;
	EQ(LOAD("--detach"), FAILED);
	OK(complains("kept-shares-per-uid in [limits] of gpumapd.conf"));
	EQ(LOAD("--detach", "--run-as", "root"), FAILED);
	OK(complains("only root can"));
	user = 0;
	EQ(LOAD("--detach", "--run-as", "65534"), FAILED);
	OK(complains("kept-shares-per-uid in [limits] of gpumapd.conf"));
	EQ(gpumap_share_list(map, NULL, 0), 0);
	OK(shards_taken(map, 0));
}

/* ---- with share = any ---------------------------------------------------- */

static void named_users_open_it(void)
{
	if (!ctl_as_another(5))
		return;
	user = 0;
	EQ(LOAD("--detach", "--users", "1,61357"), DONE);
	EQ(opens_as(NOBODY, reads_two), EACCES);
	EQ(opens_as(61357, reads_two), 0);
	OK(has_holders("two", 0));
	releases("two");
	EQ(LOAD("--detach", "--any-user"), DONE);
	EQ(opens_as(NOBODY, reads_two), 0);
	releases("two");
}

/* The memory is charged to the user that has it loaded. */
static void it_is_loaded_for_another(void)
{
	if (!ctl_as_another(6))
		return;
	EQ(LOAD("--detach"), DONE);
	EQ(shared("two").uid, NOBODY);
	EQ(CTL("load", "other", "--model", model.path, "--map", "two",
	       "--detach"),
	   FAILED);
	OK(complains("uid 65534 keeps 1 shares, which is its limit"));
	EQ(CTL("shares", "release", "two"), DONE);
	user = 0;
	EQ(LOAD("--detach", "--run-as", "65534"), DONE);
	OK(has_holders("two", 0));
	EQ(shared("two").uid, NOBODY);
	releases("two");
}

/* Let every user read the files. */
static void show(void)
{
	char path[160];

	chmod(model.path, 0755);
	shards_path(&model, "model-00001-of-00002.safetensors", path);
	chmod(path, 0644);
	shards_path(&model, "model-00002-of-00002.safetensors", path);
	chmod(path, 0644);
	shards_path(&model, "model.safetensors.index.json", path);
	chmod(path, 0644);
}

static bool begin(const char *config)
{
	agent_configure(&agent, config);
	return OK(agent_start(&agent)) && OK((map = story_attach(&agent))) &&
	       EQ(shards_map(map, "two", "1:1;0:1"), 0);
}

TAP_CASE()
{
	agent_make(&agent, closed);
	model = shards_make(tensors, 4, 2);
	show();
	if (begin(closed)) {
		the_agent_keeps_it();
		one_that_is_held_is_not_kept();
		it_has_another_name_than_its_map();
		a_file_is_kept_as_well();
		words_are_checked();
		others_may_not();
		gpumap_detach(map);
		EQ(agent_kill(&agent, SIGTERM), 0);
	}
	if (begin(open_to_others)) {
		named_users_open_it();
		it_is_loaded_for_another();
		shards_remove(&model);
		story_finish(&agent, map);
	}
	return tap_done();
}
