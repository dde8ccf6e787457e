/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/ctl/cluster/cluster_hold.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/ctl/run/run.h"

/* The process tells the caller once how it has started. */
struct answer {
	int status;
	char why[GM_CLUSTER_HOLD_WHY];
};

void gm_cluster_hold_remove(const char *folder)
{
	DIR *dir = opendir(folder);
	const struct dirent *entry;

	while (dir != NULL && (entry = readdir(dir)) != NULL)
		if (entry->d_name[0] != '.')
			unlinkat(dirfd(dir), entry->d_name, 0);
	if (dir != NULL)
		closedir(dir);
	rmdir(folder);
}

/* ---- the process --------------------------------------------------------- */

static struct gpumap_sync *reserve(const struct gm_cluster_hold *hold,
				   struct answer *ret_answer)
{
	struct gpumap_sync *sync = NULL;
	int ret = gpumap_sync_open(hold->path, &sync);

	if (ret == 0)
		ret = gpumap_gang_reserve(sync, hold->request);
	ret_answer->status = ret;
	if (ret == 0)
		return sync;
	snprintf(ret_answer->why, sizeof(ret_answer->why), "%s",
		 gpumap_refusal(NULL)[0] != '\0' ? gpumap_refusal(NULL)
						 : gpumap_strerror(ret));
	gpumap_sync_close(sync);
	return NULL;
}

/* The command has no reservation any more. */
static void tell_lost(const struct gm_cluster_hold *hold, int command,
		      int error)
{
	const char *why = gpumap_refusal(NULL);

	fprintf(stderr,
		"gpumapctl: cluster: the reservation of %s is lost on all "
		"nodes: %s; %s\n",
		hold->command, why[0] != '\0' ? why : gpumap_strerror(error),
		hold->stops ? "it is sent SIGTERM" : "it goes on without");
	if (hold->stops)
		syscall(SYS_pidfd_send_signal, command, SIGTERM, NULL, 0);
}

/* Hold the gang until the command has ended. */
static void hold_on(const struct gm_cluster_hold *hold, int command,
		    struct gpumap_sync *sync)
{
	struct pollfd fds[] = {
		{ .fd = command, .events = POLLIN },
		{ .fd = gpumap_sync_fd(sync), .events = POLLIN },
	};
	bool is_lost = false;

	while (fds[0].revents == 0) {
		int ret;

		if (poll(fds, is_lost ? 1 : 2, -1) < 0)
			continue;
		if (is_lost || fds[1].revents == 0)
			continue;
		ret = gpumap_sync_check(sync);
		if (ret != -ENOLINK && ret != -ECONNRESET)
			continue;
		is_lost = true;
		if (fds[0].revents == 0)
			tell_lost(hold, command, ret);
	}
}

static _Noreturn void be_holder(const struct gm_cluster_hold *hold, int command,
				int out)
{
	struct answer answer = { .status = 0 };
	struct gpumap_sync *sync = reserve(hold, &answer);
	ssize_t n = write(out, &answer, sizeof(answer));

	close(out);
	/* Without a reader the caller has ended. */
	if (sync != NULL && n == sizeof(answer))
		hold_on(hold, command, sync);
	gpumap_sync_close(sync);
	if (sync != NULL)
		gm_cluster_hold_remove(hold->folder);
	_exit(0);
}

/* In the child: start the process as no child of the command's. */
static _Noreturn void detach(const struct gm_cluster_hold *hold, int command,
			     int out)
{
	int keep[] = { command, out };

	gm_run_orphan();
	gm_run_close_others(keep, 2, true);
	be_holder(hold, command, out);
}

/* ---- the caller ---------------------------------------------------------- */

static int start(const struct gm_cluster_hold *hold, int command, int out)
{
	sigset_t pending;
	bool was_pending;
	pid_t pid;

	sigpending(&pending);
	was_pending = sigismember(&pending, SIGCHLD) == 1;
	pid = fork();
	if (pid == 0)
		detach(hold, command, out);
	if (pid < 0)
		return -errno;
	return gm_run_reap(pid, was_pending) ? 0 : -EAGAIN;
}

int gm_cluster_hold(const struct gm_cluster_hold *hold,
		    char ret_why[GM_CLUSTER_HOLD_WHY])
{
	struct answer answer = { .status = -EPIPE };
	int command, ends[2], ret;
	ssize_t n = 0;

	strcpy(answer.why, "the process that holds the reservation has died");
	command = (int)syscall(SYS_pidfd_open, getpid(), 0);
	if (command < 0 || pipe2(ends, O_CLOEXEC) != 0) {
		ret = -errno;
		snprintf(ret_why, GM_CLUSTER_HOLD_WHY, "%s", strerror(-ret));
		if (command >= 0)
			close(command);
		return ret;
	}
	fflush(NULL);
	ret = start(hold, command, ends[1]);
	close(ends[1]);
	close(command);
	if (ret != 0)
		snprintf(answer.why, sizeof(answer.why),
			 "cannot start the process that holds it: %s",
			 strerror(-ret));
	/* A record of a pipe is whole. */
	while (ret == 0 && (n = read(ends[0], &answer, sizeof(answer))) < 0 &&
	       errno == EINTR)
		continue;
	close(ends[0]);
	if (ret == 0)
		ret = answer.status;
	if (ret == 0 && n != sizeof(answer))
		ret = -EPIPE;
	strcpy(ret_why, answer.why);
	return ret;
}
