/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Models of [model NAME]: the agent has them loaded after its start, and again
 * when one is gone or its loader has failed; the agent keeps them for the users
 * that the configuration names, and says in its log and status what it does.
 */

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <gpumap/model.h>

#include "tests/support/ctl.h"
#include "tests/support/shards.h"
#include "tests/support/story.h"

#define OTHER 61357u /* a uid that no user has */

static struct gpumap *map;
static struct shards model;
static char config[2048], loader[128], mark[128], files[160];

static const struct shard_tensor tensors[] = {
	{ "layers.0.a", "U8", "[3000]", 3000, 0, false },
	{ "layers.1.a", "BF16", "[300000]", 600000, 1, false },
};

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

/* Wait until the agent has a share of this name, without a session, and another
 * one than @share. */
static uint64_t comes(const char *name, uint64_t share)
{
	uint64_t until = story_now() + STORY_LIMIT_NS;
	struct gpumap_share_info info;

	do {
		story_nap(1000);
		info = shared(name);
	} while ((info.share == 0 || info.share == share ||
		  info.n_holders > 0) &&
		 story_now() < until);
	OK(info.share != 0 && info.share != share);
	OK(info.flags & GPUMAP_SHARE_KEEP);
	EQ(info.n_holders, 0);
	return info.share;
}

static int opens(const char *name)
{
	struct gpumap_session_opts opts = { .size = sizeof(opts),
					    .arena_bytes = 4096 };
	struct gpumap_session *session = NULL;
	struct gpumap_model *opened = NULL;
	struct gpumap *own = story_attach(&agent);
	int ret = gpumap_session_open(own, &opts, &session);

	if (ret == 0)
		ret = gpumap_model_open(session, name, GPUMAP_SHARE_READ_ONLY,
					NULL, &opened);
	gpumap_model_close(opened, GPUMAP_NO_DEADLINE);
	gpumap_session_close(session);
	gpumap_detach(own);
	return -ret;
}

/* Returns an errno. */
static int opens_as(uid_t uid, const char *name)
{
	int status = -1;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid == 0)
		_exit(uid == 0 || (setgid(uid) == 0 && setuid(uid) == 0)
			      ? opens(name)
			      : 199);
	waitpid(pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
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

/* A loader that runs shell code first where @word is among its arguments. */
static void play_loader(const char *word, const char *code)
{
	FILE *file = fopen(loader, "we");

	if (!OK(file != NULL))
		return;
	fprintf(file,
		"#!/bin/sh\ncase \" $* \" in *' %s '*)\n%s\n;; esac\n"
		"exec '%s' \"$@\"\n",
		word, code, ctl_program());
	fclose(file);
	EQ(chmod(loader, 0755), 0);
	agent.loader = loader;
}

static bool begin(const char *models)
{
	snprintf(config, sizeof(config),
		 "[socket]\nmode = 0666\n[host]\nrows = 2\n"
		 "[cuda]\nenabled = off\nshare = any\n"
		 "[load]\nretry = 20ms\n"
		 "[map two]\nspec = 1:1;0:1\n%s",
		 models);
	agent_configure(&agent, config);
	return OK(agent_start(&agent)) && OK((map = story_attach(&agent)));
}

static void end(void)
{
	gpumap_detach(map);
	EQ(agent_kill(&agent, SIGTERM), 0);
	agent.loader = NULL;
	unlink(mark);
	if (tap_failures)
		agent_show_log(&agent);
}

static const char *listed(const char *name, const char *more)
{
	static char text[2][512];
	static int turn;

	turn = !turn;
	snprintf(text[turn], sizeof(text[turn]),
		 "[model %s]\npath = %s\nmap = two\n%s", name, files, more);
	return text[turn];
}

/* ---- stories ------------------------------------------------------------- */

static void they_are_there_after_the_start(void)
{
	char two[1024];
	uint64_t share;

	snprintf(two, sizeof(two), "%s%s", listed("chat", ""),
		 listed("talk", "users = 1,61357\n"));
	if (!begin(two))
		return;
	share = comes("chat", 0);
	comes("talk", 0);
	EQ(shared("chat").uid, geteuid());
	EQ(opens_as(0, "chat"), 0);
	EQ(opens_as(0, "talk"), 0);
	if (geteuid() == 0) {
		EQ(opens_as(OTHER, "chat"), EACCES);
		EQ(opens_as(OTHER, "talk"), 0);
		EQ(opens_as(NOBODY, "talk"), EACCES);
	} else {
		SKIP(3, "another user needs root");
	}
	OK(agent_wait_log(&agent, "event=model_loaded name=\"talk\""));
	EQ(agent_count_log(&agent, "event=model_loading"), 2);
	/* Released, it comes back as long as it is listed. */
	EQ(CTL("shares", "release", "chat"), DONE);
	comes("chat", share);
	/* Others may not take its place. */
	EQ(CTL("load", "chat", "--map", "two", "--detach", "--model",
	       model.path),
	   DONE);
	OK(prints("were there"));
	/* Each is loaded when it is gone, and at no other time. */
	EQ(agent_count_log(&agent, "event=model_loading"), 3);
	end();
	/* And after another start. */
	if (!OK(agent_start(&agent)) || !OK((map = story_attach(&agent))))
		return;
	comes("chat", 0);
	comes("talk", 0);
	EQ(opens_as(0, "chat"), 0);
	end();
}

/* The service manager has kept it: no process loads it again. */
static void a_next_agent_has_it(void)
{
	uint64_t until = story_now() + STORY_LIMIT_NS, share;

	agent.kept_most = 64;
	if (!begin(listed("chat", "")))
		return;
	share = comes("chat", 0);
	OK(agent_wait_log(&agent, "event=model_loaded name=\"chat\""));
	for (unsigned i = 0; i < 2; i++) {
		kill(agent_main_pid(&agent), i ? SIGTERM : SIGKILL);
		while (agent_count_log(&agent, "event=ready") < i + 2 &&
		       story_now() < until)
			story_nap(1000);
		EQ(shared("chat").share, share);
		EQ(shared("chat").n_holders, 0);
		OK(shared("chat").flags & GPUMAP_SHARE_KEEP);
		EQ(opens_as(0, "chat"), 0);
	}
	EQ(agent_count_log(&agent, "event=share_restored"), 2);
	EQ(agent_count_log(&agent, "event=model_loading"), 1);
	end();
	agent.kept_most = 0;
}

static void a_lost_row_brings_it_back(void)
{
	uint64_t share;

	if (!begin(listed("chat", "")))
		return;
	share = comes("chat", 0);
	EQ(gpumap_device_drain(map, 1), 0);
	EQ(shared("chat").share, 0);
	OK(agent_wait_log(&agent, "event=model_failed name=\"chat\""));
	EQ(gpumap_device_undrain(map, 1), 0);
	comes("chat", share);
	end();
}

/* The first one is killed, the second one says why it fails. */
static void a_failed_load_is_tried_again(void)
{
	char code[1024];

	snprintf(code, sizeof(code),
		 "if ! test -e '%s'; then echo 1 >'%s'; kill -9 $$; fi\n"
		 "if test \"$(cat '%s')\" = 1; then echo 2 >'%s'\n"
		 "echo 'gpumapctl: the disk is gone' >&2; exit 7; fi",
		 mark, mark, mark, mark);
	play_loader("load", code);
	if (!begin(listed("chat", "")))
		return;
	comes("chat", 0);
	OK(agent_wait_log(&agent, "event=model_loaded"));
	EQ(agent_count_log(&agent, "event=model_loading"), 3);
	OK(agent_logged(&agent, "reason=\"killed by SIGKILL\" "
				"said=\"\" retry_ms=20\n"));
	OK(agent_logged(&agent, "reason=\"exited with status 7\" said=\"the "
				"disk is gone\" retry_ms=40\n"));
	EQ(agent_logged_number(&agent, "model_loaded", "after_ms") < UINT64_MAX,
	   true);
	end();
}

/* The agent is ready without a map that cannot be published, and has it
 * published later. */
static void a_map_is_tried_again(void)
{
	char code[512];

	snprintf(code, sizeof(code),
		 "if ! test -e '%s'; then echo 1 >'%s'; kill -9 $$; fi", mark,
		 mark);
	play_loader("late", code);
	if (!begin("[map late]\nspec = 0:1\n"))
		return;
	OK(agent_logged(&agent, "event=map_failed name=\"late\" "));
	OK(agent_logged(&agent, "reason=\"killed by SIGKILL\" said=\"\" "
				"retry_ms=20\n"));
	OK(agent_wait_log(&agent, "kind=layers name=late layers=1 "));
	end();
}

/* The words are those of gpumapctl. */
static void the_reason_is_logged(void)
{
	if (!begin("[model chat]\npath = /no-such-folder\nmap = two\n"))
		return;
	OK(agent_wait_log(&agent, "event=model_failed name=\"chat\" "));
	OK(agent_wait_log(&agent, "reason=\"exited with status 1\" said=\"load "
				  "\\\"chat\\\": "));
	OK(agent_wait_log(&agent, "retry_ms=40\n"));
	end();
	agent.loader = "/no-such-program";
	if (!begin(listed("chat", "")))
		return;
	OK(agent_wait_log(&agent, "reason=\"No such file or directory\" "
				  "said=\"/no-such-program\""));
	end();
}

/* A loader that takes its time is ended with the agent, and meanwhile holds no
 * other request up. */
static void one_loads_at_a_time(void)
{
	char two[1024], code[512];

	snprintf(two, sizeof(two), "%s%s", listed("chat", ""),
		 listed("talk", ""));
	snprintf(code, sizeof(code), "echo $$ >'%s'; exec sleep 1000", mark);
	play_loader("load", code);
	if (!begin(two))
		return;
	OK(agent_wait_log(&agent, "event=model_loading name=\"chat\""));
	EQ(CTL("devices"), DONE);
	EQ(agent_count_log(&agent, "event=model_loading"), 1);
	end();
	OK(!story_lives(
		(pid_t)agent_logged_number(&agent, "model_loading", "pid")));
}

static void it_is_loaded_for_its_user(void)
{
	if (!ctl_as_another(5))
		return;
	user = 0;
	if (!begin(listed("chat", "user = 65534\n")))
		return;
	comes("chat", 0);
	EQ(shared("chat").uid, NOBODY);
	EQ(opens_as(0, "chat"), EACCES);
	EQ(opens_as(NOBODY, "chat"), 0);
	/* The user may keep what is listed, and nothing else. */
	user = NOBODY;
	EQ(CTL("load", "more", "--map", "two", "--detach", "--model",
	       model.path),
	   FAILED);
	OK(complains("kept-shares-per-uid"));
	user = 0;
	end();
}

/* Until its user, whose loader fails again and again, claims the name no
 * more. */
static int load_without_claim(void)
{
	uint64_t until = story_now() + STORY_LIMIT_NS;
	int end;

	do
		end = CTL("load", "chat", "--map", "two", "--detach", "--model",
			  model.path);
	while (end == FAILED && complains("is about to share chat") &&
	       story_now() < until);
	return end;
}

/* From before it is loaded on.  Root's share of the name is not the model. */
static void the_name_is_its_users(void)
{
	if (!ctl_as_another(7))
		return;
	user = NOBODY;
	if (!begin("[model chat]\npath = /no-such-folder\nuser = 1\n"))
		return;
	EQ(load_without_claim(), FAILED);
	OK(complains("[model chat]"));
	EQ(shared("chat").share, 0);
	user = 0;
	EQ(load_without_claim(), DONE);
	OK(agent_wait_log(&agent,
			  "event=model_differs name=\"chat\" key=user uid=0 "));
	EQ(agent_count_log(&agent, "event=model_differs"), 1);
	end();
}

static void it_has_its_fingerprint_for_all(void)
{
	if (!begin(listed("chat", "users = any\nfingerprint = a1"
				  "00000000000000000000000000000000"
				  "000000000000000000000000000000\n")))
		return;
	comes("chat", 0);
	EQ(shared("chat").fingerprint[0], 0xa1);
	if (geteuid() == 0)
		EQ(opens_as(NOBODY, "chat"), 0);
	else
		SKIP(1, "another user needs root");
	end();
}

/* Wait for a state with this text. */
static void is_told(int fd, const char *text, char ret_state[256])
{
	uint64_t until = story_now() + STORY_LIMIT_NS;

	ret_state[0] = '\0';
	while (strstr(ret_state, text) == NULL && story_now() < until) {
		ssize_t n = recv(fd, ret_state, 255, 0);

		ret_state[n > 0 ? n : 0] = '\0';
		if (n <= 0)
			story_nap(1000);
	}
}

/* Another user's share of the name does not count. */
static void a_manager_is_told_of_models_alone(int fd)
{
	char two[1024], code[256], state[256];

	snprintf(code, sizeof(code), "while test -e '%s'; do sleep 0.01; done",
		 mark);
	play_loader("load", code);
	snprintf(two, sizeof(two),
		 "[model chat]\npath = /no-such-folder\nuser = 1\n%s",
		 listed("talk", ""));
	if (!begin(two))
		return;
	comes("talk", 0);
	EQ(load_without_claim(), DONE);
	is_told(fd, "; 1 models, 0 loading", state);
	fclose(fopen(mark, "we"));
	EQ(CTL("shares", "release", "talk"), DONE);
	is_told(fd, "; 0 models, 1 loading", state);
	OK(strstr(state, "; 0 models, 1 loading") != NULL);
	unlink(mark);
	end();
}

static void a_manager_is_told(void)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	static char variable[160];
	char state[256];
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	snprintf(at.sun_path, sizeof(at.sun_path), "%s/notify", agent.dir);
	snprintf(variable, sizeof(variable), "NOTIFY_SOCKET=%s", at.sun_path);
	if (!OK(fd >= 0) ||
	    !EQ(bind(fd, (struct sockaddr *)&at, sizeof(at)), 0))
		return;
	agent.env[0] = variable;
	if (begin(listed("chat", ""))) {
		comes("chat", 0);
		is_told(fd, "; 1 models, 0 loading", state);
		OK(strstr(state, "STATUS=serving; 2 of 2 rows ready; ") ==
		   state);
		end();
	}
	if (geteuid() == 0)
		a_manager_is_told_of_models_alone(fd);
	else
		SKIP(1, "another user needs root");
	agent.env[0] = NULL;
	close(fd);
	unlink(at.sun_path);
}

TAP_CASE()
{
	agent_make(&agent, NULL);
	snprintf(loader, sizeof(loader), "%s/loader", agent.dir);
	snprintf(mark, sizeof(mark), "%s/mark", agent.dir);
	/* An absolute path that every user can reach. */
	if (chdir(agent.dir) != 0)
		return 99;
	model = shards_make(tensors, 2, 2);
	snprintf(files, sizeof(files), "%s/%s", agent.dir, model.path);
	show();
	they_are_there_after_the_start();
	a_next_agent_has_it();
	a_lost_row_brings_it_back();
	a_failed_load_is_tried_again();
	a_map_is_tried_again();
	the_reason_is_logged();
	one_loads_at_a_time();
	it_is_loaded_for_its_user();
	the_name_is_its_users();
	it_has_its_fingerprint_for_all();
	a_manager_is_told();
	unlink(loader);
	shards_remove(&model);
	agent_remove(&agent);
	return tap_done();
}
