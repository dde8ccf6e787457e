/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * gpumapctl cluster run on two nodes: the reservation is on both while the
 * command lives, and no longer; the command is told of its part, and the other
 * node's command has the other; and when a node is gone, that is said.
 */

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tests/support/ctl_cluster.h"
#include "tests/support/run.h"
#include "tests/support/nodes/sync_nodes.h"

static struct sync_node nodes[2];
static struct sync_place place;
static char folder[128];

/* Call gpumapctl as on this node. */
static void be_on(uint32_t i)
{
	agent = nodes[i].agent;
}

#define START(job, ...)                                                        \
	run_start_ctl(job,                                                     \
		      WORDS("cluster", "run", "--sync", nodes[0].socket,       \
			    "--cache-dir", folder, "--layers", "8", "--bytes", \
			    "64M", "--nodes", "2", __VA_ARGS__))

static bool all_gone(void)
{
	uint64_t until = story_now() + STORY_LIMIT_NS;

	while (lab_count_files(folder) > 0 && story_now() < until)
		story_nap(1000);
	return run_all_gone(nodes[0].map) && run_all_gone(nodes[1].map) &&
	       lab_count_files(folder) == 0;
}

/* The files and the variables of the command here. */
#define SHOW                                                                \
	"cat \"$GPUMAP_HOSTS\"; test -s \"$GPUMAP_RANKS\" && echo ranks; "  \
	"echo $GPUMAP_MAP $GPUMAP_CLUSTER $GPUMAP_NODE $GPUMAP_NODE_RANK "  \
	"$GPUMAP_NODES $GPUMAP_WORLD_SIZE $CUDA_VISIBLE_DEVICES; echo up; " \
	"exec sleep 600"

static void both_nodes_hold_while_the_command_lives(void)
{
	struct gpumap_holder holder = { .size = sizeof(holder) };
	struct run_job job;

	be_on(0);
	START(&job, "--name", "g", "--", "sh", "-c", SHOW);
	if (!OK(run_printed(&job, job.out, "up\n")))
		run_printed(&job, job.err, "\n");
	OK(run_holder(nodes[0].map, "g", &holder));
	OK(run_holder(nodes[1].map, "g", &holder));
	EQ(lab_count_files(folder), 1);

	/* The other node's command is the same user's there. */
	be_on(1);
	EQ(CTL("run", "--map", "g", "--cache-dir", folder, "--", "sh", "-c",
	       "echo $GPUMAP_MAP $GPUMAP_ROWS $CUDA_VISIBLE_DEVICES"),
	   DONE);
	STR(out, "g 0 -1\n");
	if (ctl_as_another(2)) {
		EQ(CTL("run", "--cache-dir", "/tmp", "--map", "g", "true"),
		   FAILED);
		OK(complains("is reserved by root already"));
		user = 0;
	}
	OK(run_holder(nodes[1].map, "g", &holder));

	kill(job.pid, SIGTERM);
	EQ(run_end(&job), -SIGTERM);
	OK(prints(" slots=1\n") && prints("\nranks\n") &&
	   prints("\ng test a 0 2 2 -1\nup\n"));
	STR(err, "");
	OK(all_gone());
	EQ(CTL("run", "--map", "g", "--", "true"), FAILED);
}

/* On each node the map is the user's, whose process may use it there. */
static void another_user_has_its_own(void)
{
	struct gpumap_holder holder = { .size = sizeof(holder) };
	struct run_job job;

	be_on(0);
	if (!ctl_as_another(11))
		return;
	EQ(chmod(nodes[0].socket, 0666), 0);
	unsetenv("XDG_RUNTIME_DIR");
	run_start_ctl(&job, WORDS("cluster", "run", "--sync", nodes[0].socket,
				  "--cache-dir", "/tmp", "--layers", "8",
				  "--bytes", "64M", "--nodes", "2", "--name",
				  "theirs", "--", "sh", "-c", SHOW));
	if (!OK(run_printed(&job, job.out, "up\n")))
		run_printed(&job, job.err, "\n");
	for (uint32_t i = 0; i < 2; i++) {
		OK(run_holder(nodes[i].map, "theirs", &holder));
		EQ(holder.uid, NOBODY);
	}
	be_on(1);
	EQ(CTL("run", "--cache-dir", "/tmp", "--map", "theirs", "--", "sh",
	       "-c", "echo $GPUMAP_MAP"),
	   DONE);
	STR(out, "theirs\n");
	kill(job.pid, SIGTERM);
	EQ(run_end(&job), -SIGTERM);
	user = 0;
	setenv("XDG_RUNTIME_DIR", folder, 1);
	OK(all_gone());
}

static void the_status_is_the_commands(void)
{
	struct run_job job;

	be_on(0);
	START(&job, "--", "sh", "-c", "exit 7");
	EQ(run_end(&job), 7);
	START(&job, "--for", "mpirun", "--", "echo", "ran");
	/* There is no mpirun here, or it finds no such hosts. */
	OK(run_end(&job) != 0);
	START(&job, "--for", "vllm", "--", "echo", "--tp", "5");
	EQ(run_end(&job), DONE);
	OK(prints("--tp 5 --pipeline-parallel-size 2 --nnodes 2 --node-rank 0 "
		  "--distributed-executor-backend mp --master-addr "));
	OK(strstr(err, "--tp stays as the command has it") != NULL);
	START(&job, "--for", "torchrun", "--name", "t", "--", "sh", "-c",
	      "echo $PET_NNODES $PET_NODE_RANK $PET_NPROC_PER_NODE "
	      "$PET_RDZV_BACKEND $PET_RDZV_ID");
	EQ(run_end(&job), DONE);
	STR(out, "2 0 1 static t\n");
	START(&job, "--for", "llama.cpp", "--", "sh", "-c",
	      "echo $LLAMA_ARG_N_GPU_LAYERS $LLAMA_ARG_FIT $LLAMA_ARG_RPC");
	EQ(run_end(&job), DONE);
	OK(prints("5 off ") && prints(":50052\n"));
	OK(all_gone());
}

static void all_or_none(void)
{
	struct run_job job;

	be_on(1);
	EQ(CTL("publish", "taken", "--spec", "0:1"), DONE);
	be_on(0);
	START(&job, "--name", "taken", "--", "echo", "ran");
	EQ(run_end(&job), FAILED);
	STR(out, "");
	OK(strstr(err, "cluster run: node b: there is a map of this name") !=
	   NULL);
	OK(run_all_gone(nodes[0].map));
	be_on(1);
	EQ(CTL("release", "taken"), DONE);
	OK(all_gone());
}

/* The bytes of a model of which both nodes together have room for one and not
 * for two, as text. */
static const char *more_than_half(void)
{
	static char text[32];
	uint64_t least = UINT64_MAX;
	json_t *json;

	be_on(0);
	EQ(CTL("--json", "cluster", "devices"), DONE);
	json = object();
	for (size_t i = 0; i < 2; i++) {
		const json_t *d =
			json_array_get(json_object_get(json, "devices"), i);
		uint64_t bytes = (uint64_t)number(d, "available_bytes");

		least = bytes < least ? bytes : least;
	}
	json_decref(json);
	snprintf(text, sizeof(text), "%" PRIu64, least / 10 * 14);
	return text;
}

static void a_second_command_waits_for_the_first(void)
{
	const char *bytes = more_than_half();
	struct run_job first, second;

	START(&first, "--bytes", bytes, "--", "sh", "-c",
	      "echo up; exec sleep 600");
	OK(run_printed(&first, first.out, "up\n"));
	START(&second, "--bytes", bytes, "--", "echo", "ran");
	EQ(run_end(&second), NOT_NOW);
	/* One that is interrupted while it waits leaves nothing behind. */
	START(&second, "--bytes", bytes, "--wait", "600", "--", "echo", "ran");
	OK(run_printed(&second, second.err, "gpumapctl: "));
	kill(second.pid, SIGINT);
	EQ(run_end(&second), -SIGINT);
	EQ(lab_count_files(folder), 1);
	START(&second, "--bytes", bytes, "--wait", "600", "--", "echo", "ran");
	OK(run_printed(&second, second.err, "gpumapctl: "));
	kill(first.pid, SIGTERM);
	EQ(run_end(&first), -SIGTERM);
	EQ(run_end(&second), DONE);
	STR(out, "ran\n");
	OK(all_gone());
}

/* A command that waits for its children waits for its own alone. */
static void the_holder_is_no_child_of_the_command(void)
{
	struct run_job job;
	char path[64], children[64] = "";

	be_on(0);
	START(&job, "--", "sh", "-c", SHOW);
	OK(run_printed(&job, job.out, "up\n"));
	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", job.pid,
		 job.pid);
	ctl_read(path, children, sizeof(children));
	STR(children, "");
	kill(job.pid, SIGKILL);
	EQ(run_end(&job), -SIGKILL);
	OK(all_gone());
}

/* @stops: the command is to be ended. */
static void a_lost_node_is_said(bool stops)
{
	struct run_job job;

	be_on(0);
	if (stops)
		START(&job, "--stop-when-lost", "--", "sh", "-c", SHOW);
	else
		START(&job, "--", "sh", "-c", SHOW);
	OK(run_printed(&job, job.out, "up\n"));
	EQ(sync_node_kill(&nodes[1], SIGKILL), -SIGKILL);
	OK(run_printed(&job, job.err,
		       stops ? "is lost on all nodes: "
			     : "; it goes on without\n"));
	OK(run_all_gone(nodes[0].map));
	if (!stops)
		kill(job.pid, SIGTERM);
	EQ(run_end(&job), -SIGTERM);
	/* The agent hears of it after gpumap-sync. */
	OK(sync_node_sees(&nodes[0], "b", GPUMAP_CLUSTER_GONE, SYNC_LIMIT_MS) >=
	   0);
	sync_node_spawn(&nodes[1], &place);
	OK(sync_node_sees(&nodes[0], "b", GPUMAP_CLUSTER_LIVE, SYNC_LIMIT_MS) >=
	   0);
	OK(all_gone());
}

TAP_CASE()
{
	sync_node_make(&nodes[0], "a", NULL);
	sync_node_make(&nodes[1], "b", NULL);
	sync_place_file(&place, nodes[0].agent.dir);
	snprintf(folder, sizeof(folder), "%s/files", nodes[0].agent.dir);
	EQ(mkdir(folder, 0700), 0);
	setenv("XDG_RUNTIME_DIR", folder, 1);
	for (uint32_t i = 0; i < 2; i++) {
		if (!OK(sync_node_start(&nodes[i], &place)))
			return tap_done();
		sync_node_attach(&nodes[i]);
	}
	OK(sync_node_sees(&nodes[0], "b", GPUMAP_CLUSTER_LIVE, SYNC_LIMIT_MS) >=
	   0);
	both_nodes_hold_while_the_command_lives();
	another_user_has_its_own();
	the_status_is_the_commands();
	all_or_none();
	a_second_command_waits_for_the_first();
	the_holder_is_no_child_of_the_command();
	a_lost_node_is_said(false);
	a_lost_node_is_said(true);
	for (uint32_t i = 0; i < 2; i++)
		sync_node_remove(&nodes[i]);
	return tap_done();
}
