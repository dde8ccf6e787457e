/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Checks that the agent does not wait for a file system that never answers:
 * files of one are sent to it for LOADs, in every state that makes the kernel
 * wait.
 */

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "gpumap.h"
#include "tests/support/fuse.h"
#include "tests/support/raw.h"
#include "tests/support/story.h"

#ifndef FOPEN_PARALLEL_DIRECT_WRITES /* Linux 6.2 */
#define FOPEN_PARALLEL_DIRECT_WRITES (1 << 6)
#endif

static struct agent agent;
static struct fuse fuse;
static char path[160];

/* Begin a write past the cache that is never answered.  A process that maps the
 * file would wait for its end.  Returns the writing process. */
static pid_t begin_write(void)
{
	pid_t pid = fork();

	if (pid == 0) {
		int fd = fuse_open_for(&fuse, O_RDWR);

		_exit(pwrite(fd, "", 1, 0) != 1);
	}
	STORY_WAIT_WHILE(fuse.orders->n_written == 0);
	OK(fuse.orders->n_written > 0);
	return pid;
}

static void others_are_served(void)
{
	struct raw good;

	raw_init(&good);
	EQ(raw_open(&good, path), 0);
	EQ(raw_session(&good, 16, 0, MIB), 0);
	raw_close(&good);
}

static void what_is_written_to_is_sent(void)
{
	const struct gm_register ask = {
		.handle = gm_handle_make(1, GM_BUFFER_FILE, 0, 1),
	};
	struct raw c;
	int fd;

	fuse.orders->open_flags =
		FOPEN_DIRECT_IO | FOPEN_PARALLEL_DIRECT_WRITES;
	fd = fuse_open(&fuse);
	OK(fd >= 0);
	raw_init(&c);
	EQ(raw_open_queue(&c, path, 0, 16, MIB), 0);
	EQ(raw_register(&c, &ask, fd), 0);
	others_are_served();
	raw_close(&c);
	others_are_served();
	close(fd);
}

TAP_CASE()
{
	char folder[128];
	pid_t writer;

	agent_make(&agent, "[host]\nrows = 1\n");
	snprintf(path, sizeof(path), "%s/%s.sock", agent.dir, agent.instance);
	snprintf(folder, sizeof(folder), "%s/fuse", agent.dir);
	if (geteuid() != 0 || !fuse_begin_as(&fuse, folder, true)) {
		SKIP(1, "needs root, and /dev/fuse");
		agent_remove(&agent);
		return tap_done();
	}
	if (OK(agent_start(&agent))) {
		fuse.orders->open_flags =
			FOPEN_DIRECT_IO | FOPEN_PARALLEL_DIRECT_WRITES;
		writer = begin_write();
		what_is_written_to_is_sent();
		fuse_end(&fuse); /* and with it the writer's wait */
		waitpid(writer, NULL, 0);
		others_are_served();
	}
	EQ(agent_kill(&agent, SIGTERM), 0);
	if (tap_failures)
		agent_show_log(&agent);
	agent_remove(&agent);
	return tap_done();
}
