/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* Messages and lists of words; the CPUs and the memory of the command, its
 * variables, and where engines cache what they compile. */

#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/common/idset.h"
#include "agent/common/numa_bind.h"
#include "agent/ctl/run/run.h"

#define NODE_CACHE "/var/cache/gpumap"

extern char **environ;

/* The CPUs of the rows that this process may use, and the NUMA nodes of their
 * memory. */
struct binding {
	char cpus[GPUMAP_ROWS_MAX * 16];
	char nodes[GPUMAP_ROWS_MAX * 4];
};

/* ---- messages and words -------------------------------------------------- */

int gm_run_wrong(const char *what)
{
	return gm_ctl_wrong("run: %s; see gpumapctl-run(1)", what);
}

static void say(const char *format, va_list args)
	__attribute__((format(printf, 1, 0)));

static void say(const char *format, va_list args)
{
	char text[1024];

	vsnprintf(text, sizeof(text), format, args);
	fprintf(stderr, "gpumapctl: run: %s\n", text);
}

int gm_run_failed(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	say(format, args);
	va_end(args);
	return GM_EXIT_FAILED;
}

void gm_run_say(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	say(format, args);
	va_end(args);
}

void gm_run_add(struct gm_run_words *words, const char *format, ...)
{
	char **v = reallocarray(words->v, words->n + 2, sizeof(*v));
	char *text = NULL;
	va_list args;

	va_start(args, format);
	if (v == NULL || vasprintf(&text, format, args) < 0) {
		gm_run_say("no memory for a list of words");
		exit(GM_EXIT_FAILED);
	}
	va_end(args);
	words->v = v;
	v[words->n++] = text;
	v[words->n] = NULL;
}

void gm_run_words_free(struct gm_run_words *words)
{
	for (uint32_t i = 0; i < words->n; i++)
		free(words->v[i]);
	free(words->v);
	*words = (struct gm_run_words){ 0 };
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

/* As lists, or "". */
static void name_binding(const struct gm_run *run, struct binding *ret)
{
	struct gm_idset cpus, nodes;

	find(run, &cpus, &nodes);
	allow(&cpus);
	if (gm_idset_format(&cpus, ret->cpus, sizeof(ret->cpus)) < 0)
		ret->cpus[0] = '\0';
	if (gm_idset_format(&nodes, ret->nodes, sizeof(ret->nodes)) < 0)
		ret->nodes[0] = '\0';
}

void gm_run_bind(const struct gm_run *run)
{
	struct gm_idset cpus, nodes;
	int ret;

	find(run, &cpus, &nodes);
	if (gm_idset_count(&cpus) > 0 && allow(&cpus) == 0)
		gm_run_say("the CPUs stay as they are: this process may use "
			   "none of the rows' own");
	else if (gm_idset_count(&cpus) > 0 &&
		 sched_setaffinity(0, sizeof(cpus), (const cpu_set_t *)&cpus) !=
			 0)
		gm_run_say("the CPUs stay as they are: %s", strerror(errno));
	ret = gm_numa_bind_prefer(NULL, &nodes);
	if (ret != 0)
		gm_run_say("the memory is of any node: %s",
			   gm_numa_bind_why(ret));
}

/* ---- variables ----------------------------------------------------------- */

void gm_run_environment_set(struct gm_run *run)
{
	char rows[GPUMAP_ROWS_MAX * 4] = "";
	size_t n = 0;

	for (uint32_t i = 0; i < run->n_rows; i++)
		n += (size_t)snprintf(rows + n, sizeof(rows) - n, "%s%u",
				      i > 0 ? "," : "", run->rows[i]);
	gm_run_add(&run->env, "GPUMAP_INSTANCE=%s", run->ctl->instance);
	gm_run_add(&run->env, "GPUMAP_RUNTIME_DIR=%s", run->ctl->runtime_dir);
	gm_run_add(&run->env, "GPUMAP_MAP=%s", run->map_name);
	gm_run_add(&run->env, "GPUMAP_ROWS=%s", rows);
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

/* Could make_folders() make it? */
static bool could_be_made(const char *path)
{
	char *copy = strdup(path), *slash;
	bool could = false;

	while (copy != NULL && (slash = strrchr(copy, '/')) != NULL) {
		slash[slash == copy] = '\0';
		if (faccessat(AT_FDCWD, copy, F_OK, AT_EACCESS) != 0 &&
		    errno == ENOENT && slash != copy)
			continue;
		could = faccessat(AT_FDCWD, copy, W_OK | X_OK, AT_EACCESS) == 0;
		break;
	}
	free(copy);
	return could;
}

/* May code be loaded from this folder, and is there room for more?  A folder
 * that another user can write has that user's code.  Returns 0 or a negative
 * errno. */
static int check_folder(const char *path, bool is_chosen)
{
	int fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC |
				    (is_chosen ? 0 : O_NOFOLLOW));
	struct stat st;
	int ret = 0;

	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) != 0)
		ret = -errno;
	else if (!is_chosen && (st.st_uid != geteuid() ||
				(st.st_mode & (S_IWGRP | S_IWOTH)) != 0))
		ret = -EPERM;
	close(fd);
	if (ret == 0 && faccessat(AT_FDCWD, path, W_OK | X_OK, AT_EACCESS) != 0)
		ret = -errno;
	return ret;
}

static int take_folder(const char *path, bool is_chosen, bool makes)
{
	int ret;

	if (makes)
		make_folders(path);
	ret = check_folder(path, is_chosen);
	if (ret == -ENOENT && !makes && could_be_made(path))
		ret = 0;
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
	char *path, *here = NULL;

	if (chosen != NULL && chosen[0] != '/')
		here = getcwd(NULL, 0);
	if (asprintf(&path, "%s%s%s", here != NULL ? here : "",
		     here != NULL ? "/" : "",
		     chosen != NULL ? chosen : NODE_CACHE) < 0)
		path = NULL;
	free(here);
	if (chosen == NULL && path != NULL) {
		free(path);
		if (asprintf(&path, NODE_CACHE "/%u", geteuid()) < 0)
			path = NULL;
	}
	*ret_error = path == NULL ? -ENOMEM
				  : take_folder(path, chosen != NULL, makes);
	if (*ret_error == 0 || chosen != NULL) {
		if (*ret_error == 0)
			return path;
		free(path);
		return NULL;
	}
	free(path);
	path = users_folder();
	*ret_error = path == NULL ? -ENOENT : take_folder(path, false, makes);
	if (*ret_error == 0)
		return path;
	free(path);
	return NULL;
}

int gm_run_environment_caches(struct gm_run *run, bool makes)
{
	char *folder;
	size_t n = 0;
	int error;

	for (size_t i = 0; i < N_CACHES; i++)
		n += getenv(caches[i].variable) != NULL;
	if (n == N_CACHES)
		return GM_EXIT_OK;
	folder = find_folder(run, makes, &error);
	if (folder == NULL && GM_TEXT(run->ctl, CACHE_DIR) != NULL)
		return gm_run_failed("--cache-dir %s: %s",
				     GM_TEXT(run->ctl, CACHE_DIR),
				     strerror(-error));
	if (folder == NULL)
		gm_run_say("no cache directories are set: neither "
			   "below " NODE_CACHE
			   " nor below this user's home is one that "
			   "only this user can write; give --cache-dir");
	for (size_t i = 0; folder != NULL && i < N_CACHES; i++)
		if (getenv(caches[i].variable) == NULL)
			gm_run_add(&run->env, "%s=%s/%s", caches[i].variable,
				   folder, caches[i].folder);
	free(folder);
	return GM_EXIT_OK;
}

/* ---- all of it ----------------------------------------------------------- */

/* Does one of these set the variable that @text sets? */
static bool sets(const struct gm_run_words *env, const char *text)
{
	size_t n = strcspn(text, "=");

	for (uint32_t i = 0; i < env->n; i++)
		if (strncmp(env->v[i], text, n) == 0 && env->v[i][n] == '=')
			return true;
	return false;
}

void gm_run_environment_merge(const struct gm_run *run,
			      struct gm_run_words *ret_words)
{
	for (char **at = environ; at != NULL && *at != NULL; at++)
		if (!sets(&run->env, *at))
			gm_run_add(ret_words, "%s", *at);
	for (uint32_t i = 0; i < run->env.n; i++)
		gm_run_add(ret_words, "%s", run->env.v[i]);
}

json_t *gm_run_env_json(const struct gm_run_words *env)
{
	json_t *object = json_object();

	for (uint32_t i = 0; i < env->n; i++) {
		size_t n = strcspn(env->v[i], "=");

		json_object_setn_new(object, env->v[i], n,
				     gm_ctl_text_json(env->v[i] + n + 1));
	}
	return object;
}

static json_t *rows_json(const struct gm_run *run, uint64_t *ret_bytes)
{
	json_t *list = json_array();

	*ret_bytes = 0;
	for (uint32_t i = 0; i < run->n_rows; i++) {
		json_array_append_new(
			list,
			json_pack("{s:I, s:I}", "row", (json_int_t)run->rows[i],
				  "bytes", (json_int_t)run->row_bytes[i]));
		*ret_bytes += run->row_bytes[i];
	}
	return list;
}

static int show_json(const struct gm_run *run)
{
	json_t *argv = json_array(), *rows;
	struct binding binding = { .cpus = "" };
	uint64_t bytes;

	if (!GM_GIVEN(run->ctl, NO_BIND) && !run->unreserved)
		name_binding(run, &binding);
	for (uint32_t i = 0; i < run->argv.n; i++)
		json_array_append_new(argv, gm_ctl_text_json(run->argv.v[i]));
	rows = rows_json(run, &bytes);
	return gm_ctl_print(json_pack(
		"{s:o, s:o, s:o, s:I, s:s?, s:s?}", "env",
		gm_run_env_json(&run->env), "argv", argv, "rows", rows, "bytes",
		(json_int_t)bytes, "cpus",
		binding.cpus[0] != '\0' ? binding.cpus : NULL, "nodes",
		binding.nodes[0] != '\0' ? binding.nodes : NULL));
}

int gm_run_environment_show(const struct gm_run *run)
{
	if (run->ctl->json)
		return show_json(run);
	for (uint32_t i = 0; i < run->env.n; i++) {
		const char *text = run->env.v[i];
		size_t n = strcspn(text, "=") + 1;

		printf("%.*s", (int)n, text);
		gm_ctl_print_word(text + n);
		putchar('\n');
	}
	for (uint32_t i = (uint32_t)run->ctl->n_args; i < run->argv.n; i++)
		gm_run_say("adds the argument %s", run->argv.v[i]);
	return GM_EXIT_OK;
}
