/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "tests/support/nodes/sync_nodes.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/story.h"
#include "tests/support/nodes/store_rig.h"
#include "tests/support/tap.h"

#define STEP_US 2000
#define ROOT    "/gpumap/v1/" SYNC_CLUSTER "/"

static void __attribute__((noreturn)) die(const char *what)
{
	printf("Bail out! %s: %s\n", what, strerror(errno));
	exit(99);
}

static uint64_t ms_since(uint64_t since_ns)
{
	return (story_now() - since_ns) / 1000000;
}

/* ---- the place ----------------------------------------------------------- */

void sync_place_file(struct sync_place *place, const char *directory)
{
	*place = (struct sync_place){ 0 };
	snprintf(place->directory, sizeof(place->directory), "%s", directory);
	snprintf(place->text, sizeof(place->text), "directory = %s\n",
		 directory);
	if (mkdir(directory, 0755) != 0 && errno != EEXIST)
		die(directory);
}

void sync_place_etcd_is(struct sync_place *place)
{
	etcd_start(&place->server);
	if (!etcd_serves(&place->server))
		die("etcd");
	snprintf(place->url, sizeof(place->url), "%s", place->server.url);
	snprintf(place->text, sizeof(place->text), "etcd = %s\n", place->url);
}

void sync_place_etcd_at(struct sync_place *place, const char *address)
{
	*place = (struct sync_place){ 0 };
	etcd_make(&place->server, 0);
	etcd_live_at(&place->server, address);
	sync_place_etcd_is(place);
}

void sync_place_etcd(struct sync_place *place)
{
	sync_place_etcd_at(place, "127.0.0.1");
}

struct gm_store *sync_place_open(const struct sync_place *place)
{
	const struct gm_store_opts opts = {
		.directory =
			place->directory[0] != '\0' ? place->directory : NULL,
		.endpoints = place->url,
		.root = ROOT,
	};

	return rig_open(&opts);
}

/* ---- a node -------------------------------------------------------------- */

void sync_node_make(struct sync_node *node, const char *name,
		    const char *config)
{
	*node = (struct sync_node){ .ttl_ms = SYNC_TTL_MS };
	agent_make(&node->agent, config);
	snprintf(node->name, sizeof(node->name), "%s", name);
	snprintf(node->dir, sizeof(node->dir), "%s/sync", node->agent.dir);
	snprintf(node->config, sizeof(node->config), "%s/conf", node->dir);
	snprintf(node->log, sizeof(node->log), "%s/log", node->dir);
	snprintf(node->socket, sizeof(node->socket), "%s/socket", node->dir);
	if (mkdir(node->dir, 0755) != 0)
		die(node->dir);
}

static void configure(const struct sync_node *node,
		      const struct sync_place *place)
{
	FILE *file = fopen(node->config, "we");

	if (file == NULL ||
	    fprintf(file,
		    "[cluster]\nname = " SYNC_CLUSTER "\nnode = %s\n"
		    "address = 127.0.0.1\nttl = %ums\n[store]\n%s"
		    "[socket]\npath = %s\n"
		    "[agent]\ninstance = %s\nruntime-dir = %s\n%s",
		    node->name, node->ttl_ms,
		    node->store != NULL ? node->store : place->text,
		    node->socket, node->agent.instance, node->agent.dir,
		    node->more != NULL ? node->more : "") < 0 ||
	    fclose(file) != 0)
		die(node->config);
}

static const char *program(void)
{
	const char *path = getenv("GPUMAP_SYNC");

	if (path == NULL) {
		puts("Bail out! run me by make check: no GPUMAP_SYNC");
		exit(99);
	}
	return path;
}

/* In the child.  Its parent's death is its own. */
static void become(const struct sync_node *node)
{
	int log = open(node->log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC,
		       0644);

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (log < 0)
		_exit(98);
	dup2(log, STDERR_FILENO);
	if (node->prepare != NULL)
		node->prepare();
	execl(program(), program(), "--config", node->config, NULL);
	_exit(97);
}

void sync_node_spawn(struct sync_node *node, const struct sync_place *place)
{
	struct stat st;

	configure(node, place);
	node->log_from = stat(node->log, &st) == 0 ? st.st_size : 0;
	fflush(stdout);
	node->pid = fork();
	if (node->pid < 0)
		die("fork");
	if (node->pid == 0)
		become(node);
}

bool sync_node_start(struct sync_node *node, const struct sync_place *place)
{
	bool starts;

	if (node->agent.pid == 0 && !agent_start(&node->agent))
		return false;
	sync_node_attach(node);
	sync_node_spawn(node, place);
	starts = sync_node_sees(node, node->name, GPUMAP_CLUSTER_LIVE,
				SYNC_LIMIT_MS) >= 0;
	if (!starts)
		agent_show_log(&node->agent);
	return starts;
}

int sync_node_kill(struct sync_node *node, int signal)
{
	uint64_t since_ns = story_now();
	int status = 0;

	if (node->pid == 0)
		return -ECHILD;
	kill(node->pid, signal);
	while (waitpid(node->pid, &status, WNOHANG) == 0) {
		if (ms_since(since_ns) > SYNC_LIMIT_MS)
			kill(node->pid, SIGKILL);
		story_nap(STEP_US);
	}
	node->pid = 0;
	return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

void sync_node_attach(struct sync_node *node)
{
	gpumap_detach(node->map);
	node->map = story_attach(&node->agent);
}

void sync_node_remove(struct sync_node *node)
{
	sync_node_kill(node, SIGKILL);
	gpumap_detach(node->map);
	node->map = NULL;
	agent_remove(&node->agent);
}

/* ---- changes ------------------------------------------------------------- */

uint64_t sync_node_step(const struct sync_node *node)
{
	return story_device(node->map, 0).total_bytes / 128;
}

int sync_node_reserve(struct sync_node *node, uint64_t bytes)
{
	const uint32_t row = 0;
	struct gpumap_plan answer = { .size = sizeof(answer) };
	struct gpumap_plan_charge charge;
	const struct gpumap_plan_request request = {
		.size = sizeof(request),
		.name = "moved",
		.flags = GPUMAP_PLAN_COMMIT | GPUMAP_PLAN_HELD,
		.setting = GPUMAP_SETTING_RESERVE,
		.rows = &row,
		.n_rows = 1,
		.n_layers = 1,
		.layer_bytes = &bytes,
	};

	if (bytes == 0)
		return gpumap_layers_release(node->map, "moved");
	return gpumap_plan_make(node->map, &request, &answer, NULL, 0, &charge,
				1);
}

/* ---- the log ------------------------------------------------------------- */

/* The lines of this start, for the caller to free. */
static char *read_log(const struct sync_node *node)
{
	int fd = open(node->log, O_RDONLY | O_CLOEXEC);
	struct stat st = { 0 };
	ssize_t n = 0;
	char *text;

	if (fd >= 0 && fstat(fd, &st) != 0)
		die(node->log);
	if (st.st_size < node->log_from)
		st.st_size = node->log_from;
	text = calloc(1, (size_t)(st.st_size - node->log_from) + 1);
	if (text == NULL)
		die("calloc");
	if (fd >= 0) {
		n = pread(fd, text, (size_t)(st.st_size - node->log_from),
			  node->log_from);
		close(fd);
	}
	text[n > 0 ? n : 0] = '\0';
	return text;
}

unsigned int sync_node_count_log(const struct sync_node *node, const char *text)
{
	char *log = read_log(node);
	unsigned int n = 0;

	for (const char *at = log; (at = strstr(at, text)) != NULL; at++)
		n++;
	free(log);
	return n;
}

bool sync_node_logged(const struct sync_node *node, const char *text)
{
	return sync_node_count_log(node, text) > 0;
}

bool sync_node_wait_log(struct sync_node *node, const char *text)
{
	uint64_t since_ns = story_now();

	while (!sync_node_logged(node, text)) {
		if (ms_since(since_ns) > SYNC_LIMIT_MS) {
			NOTE("%s says no \"%s\"", node->name, text);
			sync_node_show_log(node);
			return false;
		}
		story_nap(STEP_US);
	}
	return true;
}

void sync_node_show_log(const struct sync_node *node)
{
	char *log = read_log(node), *rest = log, *line;

	while ((line = strsep(&rest, "\n")) != NULL)
		NOTE("%s: %s", node->name, line);
	free(log);
}

/* ---- what a node sees ---------------------------------------------------- */

bool sync_node_read(const struct sync_node *node, const char *name,
		    struct gpumap_cluster_node *ret_node)
{
	uint32_t cursor = 0;

	*ret_node = (struct gpumap_cluster_node){ .size = sizeof(*ret_node) };
	while (gpumap_cluster_next_node(node->map, &cursor, ret_node) == 1)
		if (strcmp(ret_node->name, name) == 0)
			return true;
	return false;
}

uint32_t sync_node_state(const struct sync_node *node, const char *name)
{
	struct gpumap_cluster_node seen;

	return sync_node_read(node, name, &seen) ? seen.state : 0;
}

/* Whether any device of the node has so many reserved bytes. */
static bool has_reserved(const struct sync_node *node, const char *name,
			 uint64_t bytes)
{
	struct gpumap_cluster_device device = { .size = sizeof(device) };
	struct gpumap_cluster_node seen;
	uint32_t cursor = 0;

	if (!sync_node_read(node, name, &seen))
		return false;
	while (gpumap_cluster_next_device(node->map, seen.index, &cursor,
					  &device) == 1)
		if (device.reserved_bytes == bytes)
			return true;
	return false;
}

/* Wait for a state, or for reserved bytes. */
static int wait_for(struct sync_node *node, const char *name,
		    const uint32_t *state, uint64_t bytes, uint32_t limit_ms)
{
	uint64_t since_ns = story_now();

	for (;;) {
		uint64_t ms = ms_since(since_ns);

		if (state != NULL ? sync_node_state(node, name) == *state
				  : has_reserved(node, name, bytes))
			return (int)ms;
		if (ms > limit_ms)
			break;
		story_nap(STEP_US);
	}
	NOTE("after %u ms %s has %s as %u", limit_ms, node->name, name,
	     sync_node_state(node, name));
	sync_node_show_log(node);
	return -1;
}

int sync_node_sees(struct sync_node *node, const char *name, uint32_t state,
		   uint32_t limit_ms)
{
	return wait_for(node, name, &state, 0, limit_ms);
}

int sync_node_sees_reserved(struct sync_node *node, const char *name,
			    uint64_t bytes, uint32_t limit_ms)
{
	return wait_for(node, name, NULL, bytes, limit_ms);
}
