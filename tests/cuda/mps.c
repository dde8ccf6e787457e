/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * A daemon of MPS that workers may join is looked for where the driver will:
 * the log says when it is not there, for workers have contexts of their own
 * then.
 */

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/agent.h"
#include "tests/support/tap.h"

static struct agent agent;

/* An agent that may join the daemon in @folder, NULL: where it usually is. */
static bool start(const char *mps, const char *folder)
{
	static char told[128];
	char text[160];

	snprintf(text, sizeof(text),
		 "[cuda]\nmps = %s\n"
		 "pass-environment = CUDA_MPS_PIPE_DIRECTORY\n"
		 "[host]\nrows = 1\n",
		 mps);
	if (agent.kept == NULL)
		agent_make(&agent, text);
	else
		agent_configure(&agent, text);
	snprintf(told, sizeof(told), "CUDA_MPS_PIPE_DIRECTORY=%s", folder);
	agent.env[0] = told;
	agent.env[1] = NULL;
	return OK(agent_start(&agent));
}

TAP_CASE()
{
	char folder[64], pipe[80];
	int fd;

	snprintf(folder, sizeof(folder), "/tmp/gpumap-mps.%d", (int)getpid());
	snprintf(pipe, sizeof(pipe), "%s/control", folder);
	EQ(mkdir(folder, 0755), 0);
	if (start("no", folder)) {
		OK(!agent_logged(&agent, "event=mps_absent"));
		EQ(agent_kill(&agent, SIGTERM), 0);
	}
	fd = open(pipe, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	close(fd);
	if (start("yes", folder)) {
		OK(!agent_logged(&agent, "event=mps_absent"));
		EQ(agent_kill(&agent, SIGTERM), 0);
	}
	unlink(pipe);
	if (start("yes", folder)) {
		OK(agent_logged(&agent, "event=mps_absent path="));
		OK(agent_logged(&agent, pipe));
		EQ(agent_kill(&agent, SIGTERM), 0);
	}
	EQ(rmdir(folder), 0);
	agent_remove(&agent);
	return tap_done();
}
