/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* lineage: who descends from whom, by pids and start times. */

#include "agent/common/lineage.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/tap.h"

#define LINE 16

static struct gm_lineage_member line[LINE];

/* A process that has this name, and a child that waits.  The child's pid comes
 * through @pipe. */
static pid_t start_pair(const char *name, int pipe[2])
{
	pid_t parent, child;

	fflush(stdout);
	parent = fork();
	if (parent != 0)
		return parent;
	prctl(PR_SET_NAME, name);
	child = fork();
	if (child == 0) {
		pause();
		_exit(0);
	}
	if (write(pipe[1], &child, sizeof(child)) != sizeof(child))
		_exit(1);
	pause();
	_exit(0);
}

static pid_t hear_of(int pipe[2])
{
	pid_t pid = -1;

	EQ(read(pipe[0], &pid, sizeof(pid)), (ssize_t)sizeof(pid));
	return pid;
}

static int read_line(pid_t pid)
{
	memset(line, 0, sizeof(line));
	return gm_lineage_read(pid, line, LINE);
}

static void a_line_leads_to_us(const char *name)
{
	struct gm_lineage_member us;
	int pipes[2], n;
	pid_t parent, child;

	EQ(pipe(pipes), 0);
	parent = start_pair(name, pipes);
	child = hear_of(pipes);
	EQ(gm_lineage_stat(getpid(), &us), 0);
	EQ(us.pid, getpid());
	EQ(us.parent, getppid());
	n = read_line(child);
	OK(n >= 3);
	EQ(line[0].pid, child);
	EQ(line[0].parent, parent);
	EQ(line[1].pid, parent);
	EQ(line[2].pid, us.pid);
	EQ(line[2].start, us.start);
	for (int i = 1; i < n; i++)
		OK(line[i].start <= line[i - 1].start);
	OK(line[0].start <= gm_lineage_now());
	EQ(gm_lineage_read(child, line, 1), 1);
	EQ(gm_lineage_read(child, line, 2), 2);
	kill(child, SIGKILL);
	kill(parent, SIGKILL);
	waitpid(parent, NULL, 0);
	close(pipes[0]);
	close(pipes[1]);
}

/* An orphan has another parent, which need not be one of ours. */
static void orphans_have_left_the_line(void)
{
	int pipes[2], n;
	pid_t parent, child;

	EQ(pipe(pipes), 0);
	parent = start_pair("orphanage", pipes);
	child = hear_of(pipes);
	kill(parent, SIGKILL);
	EQ(waitpid(parent, NULL, 0), parent);
	n = read_line(child);
	OK(n >= 1);
	EQ(line[0].pid, child);
	for (int i = 1; i < n; i++)
		OK(line[i].pid != (uint32_t)parent);
	EQ(gm_lineage_read(parent, line, LINE), -ESRCH);
	kill(child, SIGKILL);
	close(pipes[0]);
	close(pipes[1]);
}

TAP_CASE()
{
	a_line_leads_to_us("plain");
	a_line_leads_to_us("a) R 1 2 (b");
	orphans_have_left_the_line();
	EQ(gm_lineage_stat(0x7ffffffe, line), -ESRCH);
	return tap_done();
}
