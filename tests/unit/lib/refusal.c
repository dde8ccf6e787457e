/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * The reason of a thread's last failed call: while another thread's request
 * waits for the agent, calls that make no request do not wait for it, neither
 * in this process nor in a forked child, and each thread has its own reason.
 */

#include <sys/wait.h>

#include "tests/support/peer/peer_session.h"

#define LIMIT_S 30 /* against hanging */

/* ---- another thread's request ------------------------------------------ */

static struct {
	pthread_t thread;
	int ret;
	char why[256];
} request;

static void *publish_theirs(void *unused)
{
	struct gpumap_layers_request theirs = { .size = sizeof(theirs),
						.name = "theirs",
						.spec = "1" };

	request.ret = gpumap_layers_publish(map, &theirs);
	memcpy(request.why, gpumap_refusal(map), sizeof(request.why));
	return unused;
}

/* Returns while the request of another thread waits for the peer. */
static void begin_request(void)
{
	gm_put(&peer.left, 0);
	gm_put(&peer.deaf, PEER_BUSY);
	pthread_create(&request.thread, NULL, publish_theirs, NULL);
	while (gm_get(&peer.left) == 0)
		usleep(100);
}

static void end_request(void)
{
	gm_put(&peer.deaf, PEER_HEARS);
	pthread_join(request.thread, NULL);
	EQ(request.ret, -EPERM);
	STR(request.why, "not yours");
}

/* ---- calls beside it ---------------------------------------------------- */

static struct gpumap_session *session;

static void *fail_without_request(void *unused)
{
	struct gpumap_job job = { .op = GPUMAP_OP_FILL, .n = 1 };

	job.dst_buffer = UINT64_MAX;
	EQ(gpumap_submit(session, 0, &job, 1), -ERANGE);
	OK(strstr(gpumap_refusal(map), "no such buffer") != NULL);
	return unused;
}

static void refused_calls_wait_for_no_request(void)
{
	struct timespec until;
	pthread_t thread;
	int waited;

	begin_request();
	pthread_create(&thread, NULL, fail_without_request, NULL);
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += LIMIT_S;
	waited = pthread_timedjoin_np(thread, NULL, &until);
	EQ(waited, 0);
	end_request();
	if (waited != 0)
		pthread_join(thread, NULL);
}

static int child_says(void)
{
	struct gpumap_mask *mask;
	uint32_t rows[4];

	alarm(LIMIT_S);
	if (gpumap_visible(map, NULL, NULL, rows, 4) != 0)
		return 1;
	if (gpumap_mask_open(map, "none", 0, &mask) != -ENOENT)
		return 2;
	if (gpumap_sessions(map, NULL, 0) != -EOWNERDEAD ||
	    gpumap_layers_release(map, "model") != -EOWNERDEAD)
		return 3;
	return 0;
}

static void a_child_does_not_wait_for_a_thread_it_lacks(void)
{
	int status = -1;
	pid_t child;

	begin_request();
	child = fork();
	if (child == 0)
		_exit(child_says());
	waitpid(child, &status, 0);
	OK(WIFEXITED(status));
	EQ(WEXITSTATUS(status), 0);
	end_request();
}

static void each_thread_has_its_own_reason(void)
{
	struct gpumap_layers_request mine = { .size = sizeof(mine),
					      .name = "mine",
					      .spec = NULL };

	EQ(gpumap_layers_publish(map, &mine), -EINVAL);
	STR(gpumap_refusal(map), "a layer map needs a spec");
	begin_request();
	end_request();
	STR(gpumap_refusal(map), "a layer map needs a spec");
}

TAP_CASE()
{
	if (!client_begin("refusal"))
		return tap_done();
	session = open_session(16, 0);
	EQ(gpumap_sessions(map, NULL, 0), 100); /* connects */
	refused_calls_wait_for_no_request();
	a_child_does_not_wait_for_a_thread_it_lacks();
	each_thread_has_its_own_reason();
	gpumap_session_close(session);
	return client_end();
}
