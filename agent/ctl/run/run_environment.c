/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* Give the command its engine's settings, as gpumapctl export makes them; its
 * devices, or the share of its card's memory that it has; CPUs and memory,
 * variables, and the folders where engines cache what they compile. */

#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <gpumap/engine.h>

#include "agent/common/idset.h"
#include "agent/common/numa_bind.h"
#include "agent/ctl/plan.h"
#include "agent/ctl/run/run.h"
#include "lib/model/plan/heads.h"

#define NODE_CACHE "/var/cache/gpumap"

extern char **environ;

/* ---- arguments of an engine ---------------------------------------------- */

/* Other spellings of an option that export writes. */
static const struct {
	const char *option;
	const char *alias;
} aliases[] = {
	{ "--tensor-parallel-size", "-tp" },
	{ "--tensor-parallel-size", "--tp-size" },
	{ "--tensor-parallel-size", "--tp" },
	{ "--pipeline-parallel-size", "-pp" },
	{ "--pipeline-parallel-size", "--pp-size" },
	{ "--pipeline-parallel-size", "--pp" },
};

/* Is @word the option, alone or with its value?  Engines of Python take '_' for
 * '-'. */
static bool is_option(const char *word, const char *option)
{
	for (; *option != '\0'; word++, option++)
		if (*word != *option && !(*word == '_' && *option == '-'))
			return false;
	return *word == '\0' || *word == '=';
}

/* Add an option with its value, unless the command has it. */
static void add_option(struct gm_run *run, const char *option,
		       const char *value)
{
	for (int i = 1; i < run->ctl->n_args; i++) {
		const char *word = run->ctl->args[i];
		bool has = is_option(word, option);

		for (size_t k = 0; k < sizeof(aliases) / sizeof(aliases[0]);
		     k++)
			has = has || (strcmp(aliases[k].option, option) == 0 &&
				      is_option(word, aliases[k].alias));
		if (!has)
			continue;
		gm_ctl_say("run: %s stays as the command has it; without it, "
			   "it would be %s %s",
			   word, option, value);
		return;
	}
	gm_ctl_words_add(&run->argv, "%s", option);
	gm_ctl_words_add(&run->argv, "%s", value);
}

/* ---- the settings of a map ----------------------------------------------- */

/* Export the map @name, or the plan of --model. */
static struct gpumap_engine_settings *export(const struct gm_run *run,
					     const char *name)
{
	const struct gm_ctl_planning *planning = run->ask.planning;
	struct gpumap_engine_request request = {
		.size = sizeof(request),
		.engine = run->engine,
		.flags = run->engine == GPUMAP_ENGINE_LLAMA_CPP
				 ? GPUMAP_ENGINE_BY_ENV
				 : 0,
		.model = GM_TEXT(run->ctl, MODEL),
	};
	struct gpumap_engine_settings *settings;
	int ret;

	if (planning != NULL) {
		request.rows = run->layers;
		request.layer_bytes = planning->q.ask.layer_bytes;
		request.n_layers = planning->q.ask.n_layers;
		request.base_row = run->base_row;
		name = NULL;
	}
	ret = gpumap_engine_export(run->ctl->map, name, &request, &settings);
	if (ret != 0)
		gm_ctl_fail(run->ctl, ret, "run: --for %s",
			    GM_TEXT(run->ctl, FOR));
	return settings;
}

/* ---- bytes alone --------------------------------------------------------- */

/* Name the rows of the command that are cards, in their order, to any
 * program. */
static void set_devices(struct gm_run *run)
{
	uint32_t cards[GPUMAP_ROWS_MAX];
	struct gpumap_engine_request request = { .size = sizeof(request),
						 .engine = GPUMAP_ENGINE_ENV,
						 .rows = cards };
	struct gpumap_engine_settings *settings;
	int ret;

	for (uint32_t i = 0; i < run->n_rows; i++) {
		struct gpumap_device device = { .size = sizeof(device) };

		if (gpumap_device_read(run->ctl->map, run->rows[i], &device) ==
			    0 &&
		    (device.flags & GPUMAP_DEVICE_CARD) != 0)
			cards[request.n_layers++] = run->rows[i];
	}
	if (request.n_layers == 0) {
		/* As gpumap_engine_export() does: some programs take an empty
		 * text for none. */
		gm_ctl_words_add(&run->env, "CUDA_VISIBLE_DEVICES=-1");
		gm_ctl_words_add(&run->env, "CUDA_DEVICE_ORDER=PCI_BUS_ID");
		return;
	}
	request.base_row = cards[0];
	ret = gpumap_engine_export(run->ctl->map, NULL, &request, &settings);
	if (ret != 0)
		gm_ctl_fail(run->ctl, ret, "run");
	for (uint32_t i = 0; i < settings->n_env; i++)
		gm_ctl_words_add(&run->env, "%s", settings->env[i]);
	gpumap_engine_free(settings);
}

/* Tell the engine its share of the card on which it has least: it takes as much
 * of each. */
static void set_share(struct gm_run *run)
{
	const char *option =
		run->engine == GPUMAP_ENGINE_VLLM ? "--gpu-memory-utilization"
		: run->engine == GPUMAP_ENGINE_SGLANG ? "--mem-fraction-static"
						      : NULL;
	uint64_t least = UINT64_MAX; /* thousandths */
	char value[16];

	for (uint32_t i = 0; i < run->n_rows; i++) {
		struct gpumap_device d = { .size = sizeof(d) };
		uint64_t share = 1000;

		if (gpumap_device_read(run->ctl->map, run->rows[i], &d) != 0 ||
		    (d.flags & GPUMAP_DEVICE_CARD) == 0)
			continue;
		if (run->row_bytes[i] < d.total_bytes)
			share = run->row_bytes[i] * 1000 / d.total_bytes;
		else if (d.total_bytes == 0)
			share = 0;
		least = share < least ? share : least;
	}
	if (option != NULL && least > 0 && least <= 1000) {
		snprintf(value, sizeof(value), "%u.%03u",
			 (uint32_t)least / 1000, (uint32_t)least % 1000);
		add_option(run, option, value);
	} else if (run->engine != GPUMAP_ENGINE_ENV) {
		gm_ctl_say("run: %s is not told how much memory is reserved: "
			   "%s",
			   GM_TEXT(run->ctl, FOR),
			   option == NULL ? "it has no setting for that"
					  : "that is less than a thousandth of "
					    "a card");
	}
}

/* Is the plan for ranks that each have a part of every layer? */
static bool has_ranks(const struct gm_run *run)
{
	return run->ask.planning != NULL &&
	       run->ask.planning->q.ask.setting == GPUMAP_SETTING_NCCL;
}

/* Has it an engine that is told of the plan's ranks? */
static bool tells_ranks(const struct gm_run *run)
{
	return has_ranks(run) && run->engine != 0 &&
	       run->engine != GPUMAP_ENGINE_ENV;
}

void gm_run_engine_check(struct gm_run *run)
{
	const char *map = GM_TEXT(run->ctl, MAP),
		   *name = GM_TEXT(run->ctl, FOR);
	struct gm_plan_error error = { .code = 0 };
	const struct gm_plan_request *q;
	uint32_t ranks[GPUMAP_ROWS_MAX], n;

	if (run->engine == GPUMAP_ENGINE_ACCELERATE)
		gm_ctl_wrong("run: accelerate has its device_map from the "
			     "program: use gpumapctl export; see "
			     "gpumapctl-run(1)");
	if (!tells_ranks(run)) {
		if (run->engine != 0 && map != NULL)
			gpumap_engine_free(export(run, map));
		return;
	}
	/* Refuse ranks that the engine would refuse, or is not told of. */
	if (run->engine != GPUMAP_ENGINE_VLLM &&
	    run->engine != GPUMAP_ENGINE_SGLANG)
		gm_ctl_failed("run: %s is told of no ranks of tensor "
			      "parallelism: leave --for out, and say it "
			      "yourself",
			      name);
	q = &run->ask.planning->q;
	n = gm_plan_ranks(q, ranks);
	if (gm_heads_check(&q->ask, n, &error) != 0)
		gm_ctl_plan_error(&error);
	for (uint32_t i = 0; i < n; i++)
		if (q->devices[ranks[i]].is_host)
			gm_ctl_failed("run: row %u is a host row, and %s has "
				      "ranks on GPUs only: name others with "
				      "--rows",
				      q->devices[ranks[i]].row, name);
}

void gm_run_environment_set(struct gm_run *run)
{
	struct gpumap_engine_settings *s;
	const char *map = GM_TEXT(run->ctl, MAP);
	char rows[GPUMAP_ROWS_MAX * 4] = "", number[16];
	size_t n = 0;

	if (run->engine == 0 || has_ranks(run) || GM_GIVEN(run->ctl, RESERVE)) {
		set_devices(run);
	} else {
		s = export(run, map != NULL ? map : run->name);
		for (uint32_t i = 0; i < s->n_argv; i++)
			if (strcmp(s->argv[i], "--topology") == 0)
				gm_ctl_failed("run: this map needs a topology "
					      "file: write it with gpumapctl "
					      "export --format yaml, and give "
					      "its arguments to the command, "
					      "without --for");
		for (uint32_t i = 0; i < s->n_env; i++)
			gm_ctl_words_add(&run->env, "%s", s->env[i]);
		for (uint32_t i = 0; i + 1 < s->n_argv; i += 2)
			add_option(run, s->argv[i], s->argv[i + 1]);
		if (s->exact == 0 && run->engine != GPUMAP_ENGINE_ENV)
			gm_ctl_say("run: the engine's settings do not place "
				   "every layer as the map does");
		for (uint32_t i = 0; i < s->n_notes; i++)
			gm_ctl_say("run: %s", s->notes[i]);
		gpumap_engine_free(s);
	}
	if (tells_ranks(run)) {
		snprintf(number, sizeof(number), "%u", run->n_rows);
		add_option(run, "--tensor-parallel-size", number);
	}
	if (run->engine != 0)
		set_share(run);
	for (uint32_t i = 0; i < run->n_rows; i++)
		n += (size_t)snprintf(rows + n, sizeof(rows) - n, "%s%u",
				      i > 0 ? "," : "", run->rows[i]);
	gm_ctl_words_add(&run->env, "GPUMAP_INSTANCE=%s", run->ctl->instance);
	gm_ctl_words_add(&run->env, "GPUMAP_RUNTIME_DIR=%s",
			 run->ctl->runtime_dir);
	gm_ctl_words_add(&run->env, "GPUMAP_MAP=%s", run->map_name);
	gm_ctl_words_add(&run->env, "GPUMAP_ROWS=%s", rows);
}

/* ---- CPUs and memory ----------------------------------------------------- */

/* The CPUs and the nodes of all rows.  A row of which nothing is known leaves
 * nothing to bind to. */
static void find(const struct gm_run *run, struct gm_idset *ret_cpus,
		 struct gm_idset *ret_nodes)
{
	bool has_cpus = run->n_rows > 0, has_nodes = run->n_rows > 0;

	*ret_cpus = (struct gm_idset){ 0 };
	*ret_nodes = (struct gm_idset){ 0 };
	for (uint32_t i = 0; i < run->n_rows; i++) {
		struct gpumap_device d = { .size = sizeof(d) };
		struct gm_idset cpus;

		if (gpumap_device_read(run->ctl->map, run->rows[i], &d) != 0)
			d.known = 0;
		has_cpus = has_cpus && (d.known & GPUMAP_KNOWN_CPUS) != 0 &&
			   gm_idset_parse(d.cpus, &cpus) > 0;
		has_nodes = has_nodes && (d.known & GPUMAP_KNOWN_NUMA) != 0 &&
			    d.numa_node >= 0;
		for (int cpu = -1;
		     has_cpus && (cpu = gm_idset_next(&cpus, cpu)) >= 0;)
			gm_idset_add(ret_cpus, cpu);
		gm_idset_add(ret_nodes, has_nodes ? d.numa_node : -1);
	}
	if (!has_cpus)
		*ret_cpus = (struct gm_idset){ 0 };
	if (!has_nodes)
		*ret_nodes = (struct gm_idset){ 0 };
}

/* Leave of @cpus those that this process may use now. */
static int allow(struct gm_idset *cpus)
{
	struct gm_idset allowed = { 0 };

	if (sched_getaffinity(0, sizeof(allowed), (cpu_set_t *)&allowed) < 0)
		return 0;
	return gm_idset_and(cpus, &allowed);
}

void gm_run_environment_bind(const struct gm_run *run)
{
	struct gm_idset cpus, nodes;
	int ret;

	find(run, &cpus, &nodes);
	if (gm_idset_count(&cpus) > 0 && allow(&cpus) == 0)
		gm_ctl_say(
			"run: the CPUs stay as they are: this process may use "
			"none of the rows' own");
	else if (gm_idset_count(&cpus) > 0 &&
		 sched_setaffinity(0, sizeof(cpus), (const cpu_set_t *)&cpus) !=
			 0)
		gm_ctl_say("run: the CPUs stay as they are: %s",
			   strerror(errno));
	ret = gm_numa_bind_prefer(NULL, &nodes);
	if (ret != 0)
		gm_ctl_say("run: the memory is of any node: %s",
			   gm_numa_bind_why(ret));
}

/* ---- cache directories --------------------------------------------------- */

/* Kernels that engines compile for the node's cards, on a disk of the node: a
 * home directory may be shared with nodes that have others. */
static const struct {
	const char *variable;
	const char *folder;
} caches[] = {
	{ "TRITON_CACHE_DIR", "triton" },
	{ "TORCHINDUCTOR_CACHE_DIR", "inductor" },
	{ "VLLM_CACHE_ROOT", "vllm" },
	{ "CUDA_CACHE_PATH", "cuda" },
};

#define N_CACHES (sizeof(caches) / sizeof(caches[0]))

/* Make what is missing of the path.  The last error tells. */
static void make_folders(const char *path)
{
	char *copy = strdup(path);

	for (char *at = copy; at != NULL && *at != '\0';) {
		char *next = strchr(at + 1, '/');

		if (next != NULL)
			*next = '\0';
		mkdir(copy, strcmp(copy, NODE_CACHE) == 0 ? 0755 : 0700);
		if (next != NULL)
			*next = '/';
		at = next;
	}
	free(copy);
}

/* May code be loaded from this folder, and is there room for more?  A folder
 * that another user can write has that user's code.  One that is missing is
 * made, or could be.  Returns 0 or a negative errno. */
static int take_folder(const char *path, bool is_chosen, bool makes)
{
	char *copy = strdup(path), *slash;
	struct stat st;
	int fd, ret;

	if (makes)
		make_folders(path);
	fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC |
				(is_chosen ? 0 : O_NOFOLLOW));
	if (fd >= 0 && fstat(fd, &st) == 0)
		ret = !is_chosen && (st.st_uid != geteuid() ||
				     (st.st_mode & (S_IWGRP | S_IWOTH)) != 0)
			      ? -EPERM
		      : faccessat(AT_FDCWD, path, W_OK | X_OK, AT_EACCESS) != 0
			      ? -errno
			      : 0;
	else
		ret = -errno;
	if (fd >= 0)
		close(fd);
	/* The nearest folder that is there has to be writable. */
	while (ret == -ENOENT && !makes && copy != NULL &&
	       (slash = strrchr(copy, '/')) != NULL) {
		slash[slash == copy] = '\0';
		if (faccessat(AT_FDCWD, copy, F_OK, AT_EACCESS) != 0 &&
		    errno == ENOENT && slash != copy)
			continue;
		if (faccessat(AT_FDCWD, copy, W_OK | X_OK, AT_EACCESS) == 0)
			ret = 0;
		break;
	}
	free(copy);
	return ret;
}

/* The folder of this host below the user's own; NULL: the user has none. */
static char *users_folder(void)
{
	const char *base = getenv("XDG_CACHE_HOME"), *below = "";
	const struct passwd *user;
	char host[65] = "", *path;

	if (base == NULL || base[0] != '/') {
		base = getenv("HOME");
		below = "/.cache";
	}
	if (base == NULL || base[0] != '/') {
		user = getpwuid(geteuid());
		base = user != NULL ? user->pw_dir : NULL;
	}
	if (gethostname(host, sizeof(host) - 1) != 0 || host[0] == '\0')
		strcpy(host, "localhost");
	for (char *at = host; (at = strchr(at, '/')) != NULL;)
		*at = '_';
	if (base == NULL || base[0] != '/' ||
	    asprintf(&path, "%s%s/gpumap/%s", base, below, host) < 0)
		return NULL;
	return path;
}

/* The folder that --cache-dir names, or the first that will do; NULL: there is
 * none, and *ret_error why. */
static char *find_folder(const struct gm_run *run, bool makes, int *ret_error)
{
	const char *chosen = GM_TEXT(run->ctl, CACHE_DIR);
	char *path = NULL, *here = NULL;

	if (chosen == NULL) {
		if (asprintf(&path, NODE_CACHE "/%u", geteuid()) < 0)
			path = NULL;
	} else {
		here = chosen[0] != '/' ? getcwd(NULL, 0) : NULL;
		if (asprintf(&path, "%s%s%s", here != NULL ? here : "",
			     here != NULL ? "/" : "", chosen) < 0)
			path = NULL;
		free(here);
	}
	*ret_error = path == NULL ? -ENOMEM
				  : take_folder(path, chosen != NULL, makes);
	if (*ret_error != 0 && chosen == NULL) {
		free(path);
		path = users_folder();
		*ret_error = path == NULL ? -ENOENT
					  : take_folder(path, false, makes);
	}
	if (*ret_error == 0)
		return path;
	free(path);
	return NULL;
}

void gm_run_environment_caches(struct gm_run *run, bool makes)
{
	char *folder;
	size_t n = 0;
	int error;

	for (size_t i = 0; i < N_CACHES; i++)
		n += getenv(caches[i].variable) != NULL;
	if (n == N_CACHES)
		return;
	folder = find_folder(run, makes, &error);
	if (folder == NULL && GM_TEXT(run->ctl, CACHE_DIR) != NULL)
		gm_ctl_failed("run: --cache-dir %s: %s",
			      GM_TEXT(run->ctl, CACHE_DIR), strerror(-error));
	if (folder == NULL)
		gm_ctl_say("run: no cache directories are set: neither "
			   "below " NODE_CACHE
			   " nor below this user's home is one that "
			   "only this user can write; give --cache-dir");
	for (size_t i = 0; folder != NULL && i < N_CACHES; i++)
		if (getenv(caches[i].variable) == NULL)
			gm_ctl_words_add(&run->env, "%s=%s/%s",
					 caches[i].variable, folder,
					 caches[i].folder);
	free(folder);
}

/* ---- all of it ----------------------------------------------------------- */

/* Does one of these set the variable that @text sets? */
static bool sets(const struct gm_words *env, const char *text)
{
	size_t n = strcspn(text, "=");

	for (uint32_t i = 0; i < env->n; i++)
		if (strncmp(env->v[i], text, n) == 0 && env->v[i][n] == '=')
			return true;
	return false;
}

void gm_run_environment_merge(const struct gm_run *run,
			      struct gm_words *ret_words)
{
	for (char **at = environ; at != NULL && *at != NULL; at++)
		if (!sets(&run->env, *at))
			gm_ctl_words_add(ret_words, "%s", *at);
	for (uint32_t i = 0; i < run->env.n; i++)
		gm_ctl_words_add(ret_words, "%s", run->env.v[i]);
}

/* The CPUs and the nodes as lists; null: none, or they stay as they are. */
static json_t *ids_json(const struct gm_idset *ids)
{
	char text[GPUMAP_ROWS_MAX * 16];

	return gm_idset_format(ids, text, sizeof(text)) > 0 ? json_string(text)
							    : json_null();
}

void gm_run_environment_show(const struct gm_run *run)
{
	struct gm_idset cpus = { 0 }, nodes = { 0 };
	json_t *rows;
	json_int_t bytes = 0;

	for (uint32_t i = 0; !run->ctl->json && i < run->env.n; i++)
		gm_ctl_words_print_env(run->env.v[i]);
	for (uint32_t i = (uint32_t)run->ctl->n_args;
	     !run->ctl->json && i < run->argv.n; i++)
		gm_ctl_say("run: adds the argument %s", run->argv.v[i]);
	if (!run->ctl->json)
		return;
	if (!GM_GIVEN(run->ctl, NO_BIND) && !run->unreserved) {
		find(run, &cpus, &nodes);
		allow(&cpus);
	}
	rows = json_array();
	for (uint32_t i = 0; i < run->n_rows; i++) {
		json_array_append_new(
			rows,
			json_pack("{s:I, s:I}", "row", (json_int_t)run->rows[i],
				  "bytes", (json_int_t)run->row_bytes[i]));
		bytes += (json_int_t)run->row_bytes[i];
	}
	gm_ctl_print(
		json_pack("{s:o, s:o, s:o, s:I, s:o, s:o}", "env",
			  gm_ctl_words_env_json((const char *const *)run->env.v,
						run->env.n),
			  "argv",
			  gm_ctl_words_json((const char *const *)run->argv.v,
					    run->argv.n),
			  "rows", rows, "bytes", bytes, "cpus", ids_json(&cpus),
			  "nodes", ids_json(&nodes)));
}
