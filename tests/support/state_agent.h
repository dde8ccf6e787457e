/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * state_agent - an agent whose maps are kept in files, and those files.
 */
#ifndef GM_TEST_SUPPORT_STATE_AGENT_H
#define GM_TEST_SUPPORT_STATE_AGENT_H

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <gpumap/plan.h>

#include "tests/support/story.h"

#define ROWS2 "[host]\nrows = 2\n"
#define ROWS1 "[host]\nrows = 1\n[socket]\nmode = 0666\n"
#define OTHER 54321u /* a uid that is neither root's nor ours */

static struct agent agent;
static struct gpumap *map;

/* ---- helpers ----------------------------------------------------------- */

static inline bool start(void)
{
	if (!agent_start_until(&agent, "open"))
		return false;
	map = story_attach(&agent);
	return map != NULL;
}

static inline void stop(int signal)
{
	gpumap_detach(map);
	map = NULL;
	agent_kill(&agent, signal);
}

/* The segment is gone with it, as when the machine starts anew. */
static inline bool reboot(void)
{
	stop(SIGTERM);
	unlink(agent.segment);
	return start();
}

static inline int publish(const char *name, const char *spec)
{
	static const uint64_t bytes[5] = { 10, 10, 10, 7, 10 };
	struct gpumap_layers_request request = { .size = sizeof(request),
						 .name = name,
						 .spec = spec,
						 .n_layers = 5,
						 .dtype = GPUMAP_DTYPE_BF16,
						 .layer_bytes = bytes,
						 .other_bytes = 1000 };

	return gpumap_layers_publish(map, &request);
}

static inline int hold(const char *name)
{
	struct gpumap_plan_request request = { .size = sizeof(request),
					       .name = name,
					       .flags = GPUMAP_PLAN_COMMIT |
							GPUMAP_PLAN_HELD,
					       .setting = GPUMAP_SETTING_MANUAL,
					       .text = "0:5",
					       .other_bytes = 4096 };
	struct gpumap_plan plan = { .size = sizeof(plan) };

	return gpumap_plan_make(map, &request, &plan, NULL, 0, NULL, 0);
}

/* A client of another uid publishes; @want is its errno. */
static inline void others_publish(const char *name, int want)
{
	struct gpumap_layers_request request = { .size = sizeof(request),
						 .name = name,
						 .spec = "0:1" };
	int status = 0;
	pid_t pid;

	if (geteuid() != 0) {
		SKIP(1, "only root can be somebody else");
		return;
	}
	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		map = setuid(OTHER) == 0 ? story_attach(&agent) : NULL;
		_exit(map ? -gpumap_layers_publish(map, &request) : 255);
	}
	waitpid(pid, &status, 0);
	EQ(WIFEXITED(status) ? WEXITSTATUS(status) : -1, want);
}

/* All of a map that a client can see. */
struct seen {
	int status;
	struct gpumap_layers layers;
	uint32_t rows[5];
	uint64_t bytes[5];
	struct gpumap_charge charges[2];
};

static inline struct seen look(const char *name)
{
	struct seen s;

	memset(&s, 0, sizeof(s));
	s.layers.size = sizeof(s.layers);
	s.status = gpumap_layers_read(map, name, &s.layers, s.rows, s.bytes, 5,
				      s.charges, 2);
	return s;
}

/* But for the version: is @b what @a was? */
static inline bool are_one(struct seen a, struct seen b)
{
	a.layers.version = b.layers.version;
	return a.status == 0 && memcmp(&a, &b, sizeof(a)) == 0;
}

static inline bool says(const char *name, const char *spec)
{
	struct seen s = look(name);

	return s.status == 0 && strcmp(s.layers.spec, spec) == 0;
}

static inline int count_maps(void)
{
	char name[GPUMAP_NAME_MAX + 1];
	uint32_t cursor = 0;
	int n = 0;

	while (gpumap_layers_next(map, &cursor, name) == 1)
		n++;
	return n;
}

static inline void path_of(const char *file, char ret_path[256])
{
	snprintf(ret_path, 256, "%s/%s", agent.state, file);
}

static inline bool has_file(const char *file)
{
	char path[256];

	path_of(file, path);
	return access(path, F_OK) == 0;
}

static inline void put_file(const char *file, const char *text)
{
	char path[256];
	FILE *to;

	path_of(file, path);
	to = fopen(path, "we");
	OK(to != NULL && fputs(text, to) >= 0);
	if (to != NULL)
		fclose(to);
}

static inline void move_file(const char *from, const char *to)
{
	char a[256], b[256];

	path_of(from, a);
	path_of(to, b);
	EQ(rename(a, b), 0);
}

static inline void cut_file(const char *file, off_t less)
{
	char path[256];
	struct stat st;

	path_of(file, path);
	EQ(stat(path, &st), 0);
	EQ(truncate(path, st.st_size - less), 0);
}

#endif
