/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "tests/system/containers/client.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <gpumap/plan.h>

#include "tests/support/run.h"
#include "tests/support/story.h"

#define ROWS        2u
#define SIDE        8u
#define WORDS_N     (UINT64_C(1) << 18)
#define WHOLE       (WORDS_N * 4)
#define SHARED      77u
#define NOT_REACHED 1 /* an act that comes after one that failed */
#define NOT_OURS    2 /* the user may not search the folder of the program */

const char *const client_names[CLIENT_ACTS] = {
	"attach", "read", "plan",    "hold", "scatter",
	"share",  "pin",  "figures", "who",
};

/* The results, which the process in a container leaves for the test. */
struct report {
	int result[CLIENT_ACTS];
	bool is_filtered;
	char why[256];  /* the agent's last refusal */
	char said[256]; /* by gpumapctl */
};

static struct client_node *of;
static const struct container *in;
static struct report *report;
static char own_name[64];

/* ---- what there is to find ----------------------------------------------- */

static int reserve(struct gpumap *map, const char *name, uint32_t flags)
{
	const uint64_t bytes[ROWS] = { 2 * WHOLE, 2 * WHOLE };
	struct gpumap_plan_request request = {
		.size = sizeof(request),
		.name = name,
		.flags = GPUMAP_PLAN_COMMIT | flags,
		.setting = GPUMAP_SETTING_MANUAL,
		.text = "0:1;1:1",
		.n_layers = ROWS,
		.layer_bytes = bytes,
	};
	struct gpumap_plan plan = { .size = sizeof(plan) };

	return gpumap_plan_make(map, &request, &plan, NULL, 0, NULL, 0);
}

static int publish_mask(struct gpumap *map)
{
	const uint32_t rows[ROWS] = { 0, 1 };
	const struct gpumap_mask_request request = {
		.size = sizeof(request),
		.name = "mask",
		.kind = GPUMAP_MASK_CUSTOM,
		.form = GPUMAP_MASK_CAUSAL,
		.dtype = GPUMAP_DTYPE_U8,
		.tgt_len = SIDE,
		.rows = rows,
		.n_rows = ROWS,
	};

	return gpumap_mask_publish(map, &request, NULL);
}

static int publish_share(struct gpumap_session *session)
{
	uint64_t buffer, id;
	struct gpumap_job job = { .op = GPUMAP_OP_FILL,
				  .dtype = GPUMAP_DTYPE_U32,
				  .n = WORDS_N,
				  .pattern = SHARED };
	struct gpumap_share_request request = {
		.size = sizeof(request),
		.name = "share",
		.buffers = &buffer,
		.n_buffers = 1,
		.flags = GPUMAP_SHARE_READ_ONLY | GPUMAP_SHARE_ANY_USER
	};
	int ret =
		gpumap_buffer_alloc(session, 0, WHOLE, GPUMAP_BUFFER_EXPORTABLE,
				    GPUMAP_NO_DEADLINE, &buffer);

	job.dst_buffer = buffer;
	if (ret == 0)
		ret = story_run(session, 0, &job);
	return ret == 0 ? gpumap_share_publish(session, &request, &id) : ret;
}

bool client_prepare(struct client_node *node)
{
	report = mmap(NULL, sizeof(*report), PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	node->map = story_attach(&node->agent);
	return OK(report != MAP_FAILED) && OK(node->map != NULL) &&
	       EQ(reserve(node->map, "map", 0), 0) &&
	       EQ(publish_mask(node->map), 0) &&
	       EQ(gpumap_session_open(node->map, NULL, &node->session), 0) &&
	       EQ(publish_share(node->session), 0);
}

void client_finish(struct client_node *node)
{
	gpumap_session_close(node->session);
	story_finish(&node->agent, node->map);
	munmap(report, sizeof(*report));
	node->session = NULL;
	node->map = NULL;
}

/* ---- acts: 0, or a negative errno ---------------------------------------- */

static int attach(struct gpumap **ret_map)
{
	struct gpumap_attach_opts opts = { .size = sizeof(opts),
					   .instance = of->agent.instance };
	struct gpumap_health health = { .size = sizeof(health) };
	struct gpumap *map;
	int ret;

	opts.runtime_dir = in->bare ? NULL : of->agent.dir;
	ret = gpumap_attach(&opts, &map);
	if (ret != 0)
		return ret;
	*ret_map = map;
	ret = gpumap_health(map, &health);
	if (ret != 0 || health.stale)
		return ret != 0 ? ret : -ESTALE;
	ret = gpumap_wait_change(map, gpumap_generation(map),
				 story_now() + 1000000);
	return ret == -ETIME || ret == 0 ? 0 : ret;
}

static int read_mask(struct gpumap *map)
{
	const struct gpumap_mask_view *view;
	struct gpumap_mask *mask = NULL;
	int ret = gpumap_mask_open(map, "mask", 0, &mask);
	unsigned int hidden = 0;

	if (ret == 0)
		ret = gpumap_mask_get(map, mask, 1, &view);
	for (uint32_t i = 0; ret == 0 && i < SIDE * SIDE; i++)
		hidden += ((const unsigned char *)view->data)[i];
	gpumap_mask_close(map, mask);
	return ret != 0 || hidden == SIDE * (SIDE - 1) / 2 ? ret : -EBADMSG;
}

static int read_map(struct gpumap *map)
{
	struct gpumap_view view;
	int ret = gpumap_layers_view(map, "map", &view);

	if (ret != 0)
		return ret;
	if (story_device(map, 1).state != GPUMAP_DEVICE_READY ||
	    gpumap_view_get(&view, 0) != 0 || gpumap_view_get(&view, 1) != 1)
		return -EBADMSG;
	return read_mask(map);
}

/* A map that no process holds stays if another user releases it, also one whose
 * pid the agent does not see. */
static int plan(struct gpumap *map)
{
	int ret = reserve(map, own_name, 0);

	if (ret == 0)
		ret = gpumap_layers_release(map, own_name);
	if (ret == 0 && in->uid != 0 &&
	    gpumap_layers_release(map, "map") != -EPERM)
		ret = -EBADMSG;
	return ret;
}

static int scatter(struct gpumap_session *session)
{
	struct gpumap_job job = { .op = GPUMAP_OP_FILL,
				  .n = WHOLE,
				  .pattern = 'x' };
	int ret = gpumap_alloc(session, 0, WHOLE, &job.dst);
	const char *at = job.dst;

	if (ret == 0)
		ret = gpumap_scatter(session, &job, NULL, NULL, 0);
	for (uint64_t i = 0; ret >= 0 && i < WHOLE; i++)
		ret = at[i] == 'x' ? ret : -EBADMSG;
	return ret < 0 ? ret : 0;
}

/* By the descriptor, whose memory no mapping of may be written. */
static int read_by_descriptor(struct gpumap_session *session, uint64_t id)
{
	int fd, ret = gpumap_share_fds(session, id, 0, 1, &fd);
	const uint32_t *at;

	if (ret != 1)
		return ret < 0 ? ret : -EBADMSG;
	at = mmap(NULL, WHOLE, PROT_READ, MAP_SHARED, fd, 0);
	ret = at == MAP_FAILED ? -errno
	      : at[WORDS_N - 1] == SHARED &&
			      mmap(NULL, WHOLE, PROT_READ | PROT_WRITE,
				   MAP_SHARED, fd, 0) == MAP_FAILED
		      ? 0
		      : -EBADMSG;
	close(fd);
	return ret;
}

static int open_share(struct gpumap_session *session)
{
	struct gpumap_job job = { .op = GPUMAP_OP_COPY,
				  .dtype = GPUMAP_DTYPE_U32,
				  .n = WORDS_N };
	uint64_t id;
	int ret = gpumap_share_open(session, "share", GPUMAP_SHARE_READ_ONLY,
				    NULL, &id);

	if (ret == 0)
		ret = gpumap_share_buffer(session, id, 0, NULL,
					  &job.src_buffer);
	if (ret == 0)
		ret = gpumap_alloc(session, 0, WHOLE, &job.dst);
	if (ret == 0)
		ret = story_run(session, 0, &job);
	if (ret == 0 && ((const uint32_t *)job.dst)[WORDS_N - 1] != SHARED)
		ret = -EBADMSG;
	return ret == 0 ? read_by_descriptor(session, id) : ret;
}

static int pin(struct gpumap *map)
{
	struct gpumap_view view;
	uint64_t id;
	int ret = gpumap_layers_pin(map, "map", &view, &id);

	if (ret == 0 && gpumap_view_get(&view, 1) != 1)
		ret = -EBADMSG;
	return ret == 0 ? gpumap_unpin(map, id) : ret;
}

static uint64_t own_session_bytes(struct gpumap *map)
{
	struct gpumap_reservation all[16] = { { .size = sizeof(all[0]) } };
	int n = gpumap_reservation_list(map, all, 16);

	for (int i = 0; i < n && i < 16; i++) {
		if (strcmp(all[i].name, own_name) == 0 && all[i].row == 0)
			return all[i].session_bytes;
	}
	return 0;
}

/* The agent comes to count the session's memory as a part of what this process
 * has reserved. */
static int figures(struct gpumap *map, struct gpumap_session *session)
{
	uint64_t until = story_now() + STORY_LIMIT_NS, buffer;
	int ret = gpumap_buffer_alloc(session, 0, WHOLE, 0, GPUMAP_NO_DEADLINE,
				      &buffer);

	while (ret == 0 && own_session_bytes(map) < WHOLE) {
		story_nap(1000);
		ret = story_now() < until ? 0 : -ETIME;
	}
	return ret;
}

/* gpumapctl in the container, which has nowhere to write. */
static int who(void)
{
	char text[8192] = "";
	size_t n = 0;
	ssize_t more;
	int ends[2], status = -1;
	pid_t pid;

	if ((in->uid != 0 || (in->flags & CLONE_NEWUSER) != 0) &&
	    access(run_program, X_OK) != 0 && errno == EACCES)
		return NOT_OURS;
	if (pipe(ends) != 0)
		return -errno;
	pid = fork();
	if (pid == 0) {
		const char *const argv[] = { run_program,
					     "--instance",
					     of->agent.instance,
					     "--json",
					     "who",
					     in->bare ? NULL : "--runtime-dir",
					     of->agent.dir,
					     NULL };

		putenv(run_libraries);
		dup2(ends[1], STDOUT_FILENO);
		dup2(ends[1], STDERR_FILENO);
		close(ends[0]);
		execv(argv[0], (char **)(uintptr_t)argv);
		_exit(96);
	}
	close(ends[1]);
	while ((more = read(ends[0], text + n, sizeof(text) - 1 - n)) > 0)
		n += (size_t)more;
	close(ends[0]);
	if (waitpid(pid, &status, 0) != pid || status != 0 ||
	    strstr(text, "\"usage\"") == NULL ||
	    strstr(text, "\"name\":\"map\"") == NULL) {
		snprintf(report->said, sizeof(report->said), "%d: %.200s",
			 status, text);
		return -EBADMSG;
	}
	return 0;
}

/* ---- a client ------------------------------------------------------------ */

static void with_session(struct gpumap *map, int *result)
{
	struct gpumap_session_opts opts = { .size = sizeof(opts),
					    .arena_bytes = 8 * WHOLE };
	struct gpumap_session *session = NULL;
	int ret = gpumap_session_open(map, &opts, &session);

	if (ret != 0) {
		result[CLIENT_SCATTER] = result[CLIENT_SHARE] = ret;
		return;
	}
	result[CLIENT_SCATTER] = scatter(session);
	result[CLIENT_SHARE] = open_share(session);
	if (result[CLIENT_HOLD] == 0)
		result[CLIENT_FIGURES] = figures(map, session);
	gpumap_session_close(session);
}

static int be_client(void)
{
	int *result = report->result;
	struct gpumap *map = NULL;

	report->is_filtered = container_is_filtered();
	result[CLIENT_ATTACH] = attach(&map);
	result[CLIENT_WHO] = who();
	if (map == NULL) {
		for (int i = CLIENT_READ; i < CLIENT_WHO; i++)
			result[i] = result[CLIENT_ATTACH];
		snprintf(report->why, sizeof(report->why), "%s",
			 gpumap_refusal(NULL));
		return 0;
	}
	result[CLIENT_READ] = read_map(map);
	result[CLIENT_PLAN] = plan(map);
	result[CLIENT_PIN] = pin(map);
	result[CLIENT_HOLD] = reserve(map, own_name, GPUMAP_PLAN_HELD);
	if (result[CLIENT_HOLD] != 0)
		result[CLIENT_FIGURES] = result[CLIENT_HOLD];
	snprintf(report->why, sizeof(report->why), "%s", gpumap_refusal(map));
	with_session(map, result);
	gpumap_detach(map);
	return 0;
}

static bool play(struct client_node *node, const struct container *c)
{
	int ret;

	of = node;
	in = c;
	run_find_program();
	snprintf(own_name, sizeof(own_name), "own");
	*report = (struct report){ .is_filtered = false };
	for (int i = 0; i < CLIENT_ACTS; i++)
		report->result[i] = NOT_REACHED;
	ret = container_run(c, node->agent.dir, be_client);
	if (ret != CONTAINER_LACKS)
		return EQ(ret, 0);
	SKIP(CLIENT_ACTS, "this machine lets us make no such container");
	return false;
}

/* gpumapctl has no error number, only a status. */
static int expected(int act, const struct client_refusal *but)
{
	if (but == NULL || (but->acts & CLIENT_BIT(act)) == 0)
		return 0;
	return act == CLIENT_WHO ? -EBADMSG : but->error;
}

void client_check(struct client_node *node, const struct container *c,
		  const struct client_refusal *but)
{
	if (!play(node, c))
		return;
	NOTE("%s", c->name);
	EQ(report->is_filtered, c->filter);
	for (int i = 0; i < CLIENT_ACTS; i++) {
		if (report->result[i] == NOT_OURS)
			SKIP(1, "another user cannot run what was built here");
		else if (!EQ(report->result[i], expected(i, but)))
			NOTE("%s in %s: %s%s", client_names[i], c->name,
			     report->why, report->said);
	}
	if (but != NULL && !OK(strstr(report->why, but->says) != NULL))
		NOTE("%s", report->why);
}
