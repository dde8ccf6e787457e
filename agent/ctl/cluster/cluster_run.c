/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* Reserve a plan on all its nodes or none, and become the command. */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "agent/ctl/clock.h"
#include "agent/ctl/cluster/cluster_hold.h"
#include "agent/ctl/cluster/cluster_plan.h"

#define SECOND       UINT64_C(1000000000)
#define FOLDER_BYTES 96u

static int wrong(const char *what)
{
	fprintf(stderr,
		"gpumapctl: cluster run: %s; see gpumapctl-cluster(1)\n", what);
	return GM_EXIT_USAGE;
}

/* ---- the request --------------------------------------------------------- */

/* A request, with what it points to. */
struct gang {
	struct gpumap_gang_request request;
	struct gpumap_gang_member members[GPUMAP_GANG_NODES_MAX];
	struct gpumap_gang_part *parts;
};

_Static_assert(GPUMAP_GANG_NODES_MAX >= GM_CLUSTER_PLAN_TAKEN,
	       "a gang has all nodes of a plan");

static int make_gang(const struct gm_ctl_cluster_job *job, const char *name,
		     struct gang *ret)
{
	const struct gm_cluster_plan *p = &job->plan;
	uint32_t at = 0;

	*ret = (struct gang){
		.request = { .size = sizeof(ret->request),
			     .name = name,
			     .n_members = p->n_nodes },
		.parts = calloc(p->n_ranks, sizeof(*ret->parts)),
	};
	ret->request.members = ret->members;
	if (ret->parts == NULL)
		return gm_ctl_fail(job->ctl, -ENOMEM, "cluster run");
	for (uint32_t i = 0; i < p->n_nodes; i++) {
		struct gpumap_gang_member *m = &ret->members[i];

		m->node = gm_ctl_cluster_taken(job, i)->info.name;
		m->parts = &ret->parts[at];
		for (uint32_t r = 0; r < p->n_ranks; r++) {
			if (p->ranks[r].node != i)
				continue;
			memcpy(ret->parts[at].uuid,
			       gm_ctl_cluster_rank(job, r)->uuid, 16);
			ret->parts[at++].bytes =
				gm_cluster_plan_bytes(&p->ranks[r]);
			m->n_parts++;
		}
	}
	return GM_EXIT_OK;
}

/* ---- waiting ------------------------------------------------------------- */

/* Could it be otherwise at another time? */
static bool may_pass(int error)
{
	return error == -ENOSPC || error == -ENODEV || error == -EHOSTUNREACH ||
	       error == -ETIMEDOUT || error == -ENOLINK;
}

static int make_folder(char ret_folder[FOLDER_BYTES])
{
	const char *base = getenv("XDG_RUNTIME_DIR");

	if (base == NULL || base[0] != '/' || strlen(base) > 64)
		base = "/tmp";
	snprintf(ret_folder, FOLDER_BYTES, "%s/gpumap-cluster.XXXXXX", base);
	if (mkdtemp(ret_folder) != NULL)
		return GM_EXIT_OK;
	fprintf(stderr, "gpumapctl: cluster run: cannot make %s: %s\n",
		ret_folder, strerror(errno));
	return GM_EXIT_FAILED;
}

/* On success the folder is the holder's. */
static int reserve_once(struct gm_ctl_cluster_job *job, struct gm_run *run,
			char ret_folder[FOLDER_BYTES],
			char why[GM_CLUSTER_HOLD_WHY], int *ret_error)
{
	struct gm_cluster_hold hold = {
		.path = job->ctl->cluster.sync,
		.command = job->ctl->args[0],
		.folder = ret_folder,
		.stops = job->ctl->cluster.stop_when_lost,
	};
	struct gang gang;
	int ret = make_gang(job, run->name, &gang);

	if (ret != GM_EXIT_OK)
		return ret;
	hold.request = &gang.request;
	ret = make_folder(ret_folder);
	if (ret == GM_EXIT_OK) {
		*ret_error = gm_cluster_hold(&hold, why);
		ret = *ret_error == 0 ? GM_EXIT_OK : GM_EXIT_FAILED;
		if (*ret_error != 0)
			gm_cluster_hold_remove(ret_folder);
	}
	free(gang.parts);
	return ret;
}

static int check_self(const struct gm_ctl_cluster_job *job)
{
	bool starts_others = job->launcher == GM_LAUNCHER_NONE ||
			     gm_ctl_cluster_has_head(job);

	if (starts_others || gm_ctl_cluster_self(job) != UINT32_MAX)
		return GM_EXIT_OK;
	fprintf(stderr,
		"gpumapctl: cluster run: this node, %s, is not in the plan, "
		"and %s runs on nodes that are: run it on %s, or give --only\n",
		job->cluster.head.node, job->ctl->export.engine,
		gm_ctl_cluster_taken(job, 0)->info.name);
	return GM_EXIT_FAILED;
}

static int not_now(const struct gm_ctl_cluster_job *job, int status)
{
	uint64_t s = job->ctl->run.wait_s;

	if (s > 0)
		fprintf(stderr,
			"gpumapctl: cluster run: there was no room for %llu "
			"s\n",
			(unsigned long long)s);
	return status == GM_EXIT_STALE ? status : GM_RUN_NOT_NOW;
}

/* Plan and reserve, again and again until --wait is over: what is free changes,
 * and so do nodes. */
static int reserve(struct gm_ctl_cluster_job *job, struct gm_run *run,
		   char ret_folder[FOLDER_BYTES])
{
	uint64_t wait_s = job->ctl->run.wait_s, until = gm_clock_ns();

	until += wait_s < UINT64_MAX / SECOND / 4 ? wait_s * SECOND
						  : UINT64_MAX / 4;
	for (;;) {
		char why[GM_CLUSTER_HOLD_WHY] = "";
		int error = 0;
		int ret = gm_ctl_cluster_job_plan(job);

		if (ret == GM_EXIT_OK)
			ret = check_self(job);
		else
			error = ret == GM_EXIT_STALE ? -EHOSTUNREACH
						     : job->refusal;
		if (ret == GM_EXIT_OK)
			ret = reserve_once(job, run, ret_folder, why, &error);
		if (ret == GM_EXIT_OK)
			return ret;
		if (why[0] != '\0' && !job->quiet)
			fprintf(stderr, "gpumapctl: cluster run: %s\n", why);
		if (error == -ECONNREFUSED)
			return GM_EXIT_NO_AGENT;
		if (!may_pass(error))
			return ret;
		if (gm_clock_ns() >= until)
			return not_now(job, ret);
		job->quiet = true; /* it is said once */
		gm_ctl_cluster_job_reset(job);
		nanosleep(&(struct timespec){ .tv_sec = 1 }, NULL);
	}
}

/* ---- what the command is told -------------------------------------------- */

static int write_files(const struct gm_ctl_cluster_job *job, const char *name,
		       const char *folder)
{
	json_t *plan = gm_ctl_cluster_plan_json(job, name);
	char path[512];
	FILE *file;
	int ret;

	snprintf(path, sizeof(path), "%s/ranks.json", folder);
	ret = plan != NULL ? json_dump_file(plan, path, JSON_INDENT(2)) : -1;
	json_decref(plan);
	snprintf(path, sizeof(path), "%s/hosts", folder);
	file = fopen(path, "we");
	if (file != NULL)
		gm_ctl_cluster_hosts(job, file);
	if (file == NULL || fclose(file) != 0)
		ret = -1;
	if (ret == 0)
		return GM_EXIT_OK;
	fprintf(stderr, "gpumapctl: cluster run: cannot write to %s: %s\n",
		folder, strerror(errno));
	return GM_EXIT_FAILED;
}

/* "--n-gpu-layers" and its value as "LLAMA_ARG_N_GPU_LAYERS=81"; "--nnodes=2"
 * as "PET_NNODES=2". */
static void add_variable(struct gm_run *run, const char *prefix,
			 const char *option, const char *value)
{
	char name[64];
	size_t n = strcspn(option + 2, "=");

	snprintf(name, sizeof(name), "%.*s", (int)n, option + 2);
	for (char *c = name; *c != '\0'; c++)
		*c = *c == '-'                ? '_'
		     : *c >= 'a' && *c <= 'z' ? (char)(*c - 'a' + 'A')
					      : *c;
	gm_run_add(&run->env, "%s%s=%s", prefix, name,
		   value != NULL ? value : option + 2 + n + 1);
}

/* The options of an engine are behind those of the user's. */
static void append_options(struct gm_run *run, const struct gm_run_words *argv)
{
	uint32_t i = 0;

	while (strcmp(argv->v[i], GM_CTL_CLUSTER_COMMAND) != 0)
		i++;
	while (++i < argv->n) {
		bool has_value = i + 1 < argv->n &&
				 strncmp(argv->v[i + 1], "--", 2) != 0;

		gm_run_option(run, argv->v[i],
			      has_value ? argv->v[i + 1] : NULL);
		i += has_value;
	}
}

/* Put the command in the place of the word that stands for it. */
static void put_launcher(struct gm_run *run, const struct gm_run_words *argv)
{
	const struct gm_ctl *ctl = run->ctl;

	gm_run_words_free(&run->argv);
	for (uint32_t i = 0; i < argv->n; i++) {
		if (strcmp(argv->v[i], GM_CTL_CLUSTER_COMMAND) != 0)
			gm_run_add(&run->argv, "%s", argv->v[i]);
		else
			for (int k = 0; k < ctl->n_args; k++)
				gm_run_add(&run->argv, "%s", ctl->args[k]);
	}
}

/* torchrun and llama.cpp read variables for their options. */
static void set_variables(struct gm_run *run, const struct gm_run_words *argv,
			  enum gm_ctl_launcher launcher)
{
	for (uint32_t i = 0; i < argv->n; i++) {
		if (strncmp(argv->v[i], "--", 2) != 0)
			continue;
		if (launcher == GM_LAUNCHER_TORCHRUN)
			add_variable(run, "PET_", argv->v[i], NULL);
		else
			add_variable(run, "LLAMA_ARG_", argv->v[i],
				     argv->v[i + 1]);
	}
}

static void take_words(const struct gm_ctl_cluster_job *job, struct gm_run *run,
		       const struct gm_ctl_cluster_words *words)
{
	for (uint32_t i = 0; i < words->env.n; i++)
		gm_run_add(&run->env, "%s", words->env.v[i]);
	if (words->argv.n == 0)
		return;
	switch (job->launcher) {
	case GM_LAUNCHER_MPIRUN:
		put_launcher(run, &words->argv);
		break;
	case GM_LAUNCHER_TORCHRUN:
	case GM_LAUNCHER_LLAMA_CPP:
		set_variables(run, &words->argv, job->launcher);
		break;
	case GM_LAUNCHER_VLLM:
	case GM_LAUNCHER_SGLANG:
		append_options(run, &words->argv);
		break;
	default:
		break;
	}
}

/* A command on a node outside the plan knows the plan, and has no device. */
static void set_outside(const struct gm_ctl_cluster_job *job,
			struct gm_run *run)
{
	gm_run_add(&run->env, "GPUMAP_CLUSTER=%s", job->cluster.head.name);
	gm_run_add(&run->env, "GPUMAP_MAP=%s", run->name);
	gm_run_add(&run->env, "GPUMAP_NODES=%u", job->plan.n_nodes);
	gm_run_add(&run->env, "GPUMAP_WORLD_SIZE=%u", job->plan.n_ranks);
}

static void set_all(const struct gm_ctl_cluster_job *job, struct gm_run *run,
		    const char *folder)
{
	uint32_t self = gm_ctl_cluster_self(job);
	struct gm_ctl_cluster_words words;

	gm_run_add(&run->env, "GPUMAP_INSTANCE=%s", run->ctl->instance);
	gm_run_add(&run->env, "GPUMAP_RUNTIME_DIR=%s", run->ctl->runtime_dir);
	gm_run_add(&run->env, "GPUMAP_RANKS=%s/ranks.json", folder);
	gm_run_add(&run->env, "GPUMAP_HOSTS=%s/hosts", folder);
	if (self != UINT32_MAX) {
		gm_ctl_cluster_words(job, self, run->name, &words);
		take_words(job, run, &words);
		gm_ctl_cluster_words_free(&words);
	} else {
		set_outside(job, run);
	}
	if (gm_ctl_cluster_has_head(job)) {
		gm_ctl_cluster_head_words(job, run->name, &words);
		take_words(job, run, &words);
		gm_ctl_cluster_words_free(&words);
	}
	for (uint32_t r = 0; r < job->plan.n_ranks; r++)
		if (job->plan.ranks[r].node == self)
			run->rows[run->n_rows++] = job->plan.ranks[r].row;
}

/* ---- the command --------------------------------------------------------- */

static int run_all(struct gm_ctl_cluster_job *job, struct gm_run *run)
{
	const struct gm_ctl *ctl = job->ctl;
	char folder[FOLDER_BYTES];
	int ret = gm_ctl_cluster_job_read(job);

	if (ret == GM_EXIT_OK && ctl->json)
		ret = wrong("--json is for cluster plan");
	if (ret == GM_EXIT_OK)
		ret = gm_run_find_command(ctl->args[0]);
	if (ret == GM_EXIT_OK)
		ret = gm_run_name(run);
	if (ret == GM_EXIT_OK)
		ret = gm_run_environment_caches(run, true);
	if (ret != GM_EXIT_OK)
		return ret;
	for (int i = 0; i < ctl->n_args; i++)
		gm_run_add(&run->argv, "%s", ctl->args[i]);
	ret = reserve(job, run, folder);
	if (ret != GM_EXIT_OK)
		return ret;
	set_all(job, run, folder);
	ret = write_files(job, run->name, folder);
	if (ret != GM_EXIT_OK)
		return ret;
	if (gm_ctl_cluster_self(job) != UINT32_MAX) {
		run->map_name = run->name;
		gm_run_use_map(run);
	}
	if (!ctl->run.no_bind)
		gm_run_bind(run);
	return gm_run_become(run);
}

int gm_ctl_cluster_run(struct gm_ctl *ctl)
{
	struct gm_ctl_cluster_job job = { .ctl = ctl };
	struct gm_run run = { .ctl = ctl };
	int ret = run_all(&job, &run);

	gm_run_words_free(&run.env);
	gm_run_words_free(&run.argv);
	gm_ctl_cluster_job_free(&job);
	return ret;
}
