/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* point: the named visit acts, every other one does nothing. */

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "shm/point.h"
#include "tests/support/tap.h"

#ifdef GM_TESTPOINTS

#define VISITS 5

/*
 * Run VISITS visits to "here" under @spec in a child.
 *
 * ret_visits	receives how many of them it came back from, VISITS at most,
 *		by the time the child ended or stopped
 *
 * Returns the child's wait status; a stopped child is ended afterwards.
 */
static int visit_in_child(const char *spec, const char *ticket, int *ret_visits)
{
	int fd[2], status = -1, visits = 0;
	char c;
	pid_t pid;

	if (pipe2(fd, O_CLOEXEC) != 0)
		return -1;
	pid = fork();
	if (pid == 0) {
		setenv("GM_POINT", spec, 1);
		if (ticket)
			setenv("GM_POINT_TICKET", ticket, 1);
		for (int i = 0; i < VISITS; i++) {
			GM_POINT("elsewhere");
			GM_POINT("here");
			if (write(fd[1], "", 1) != 1)
				_exit(2);
		}
		_exit(0);
	}
	close(fd[1]);
	if (pid > 0)
		waitpid(pid, &status, WUNTRACED);
	if (pid > 0 && WIFSTOPPED(status)) {
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
	}
	while (read(fd[0], &c, 1) == 1)
		visits++;
	close(fd[0]);
	*ret_visits = visits;
	return status;
}

static void kills_at_the_nth_visit(void)
{
	int visits = -1;
	int status = visit_in_child("here:kill:3", NULL, &visits);

	OK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	EQ(visits, 2);
}

static void first_visit_when_no_number_is_given(void)
{
	int visits = -1;
	int status = visit_in_child("here:kill", NULL, &visits);

	OK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	EQ(visits, 0);
}

static void stops_for_the_test_to_look(void)
{
	int visits = -1;
	int status = visit_in_child("here:stop:2", NULL, &visits);

	OK(WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP);
	EQ(visits, 1);
}

static void pauses_and_goes_on(void)
{
	struct timespec start, end;
	int visits = -1, status;

	clock_gettime(CLOCK_MONOTONIC, &start);
	status = visit_in_child("here:pause:5", NULL, &visits);
	clock_gettime(CLOCK_MONOTONIC, &end);
	OK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	EQ(visits, VISITS);
	/* A sleep is never shorter than asked for. */
	OK((end.tv_sec - start.tv_sec) * 1000000000 + end.tv_nsec -
		   start.tv_nsec >=
	   100000000);
}

static void other_points_are_left_alone(void)
{
	int visits = -1;
	int status = visit_in_child("her:kill", NULL, &visits);

	OK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	EQ(visits, VISITS);
}

static void a_ticket_is_used_once(void)
{
	char path[] = "/tmp/gpumap-test-XXXXXX";
	int fd = mkostemp(path, O_CLOEXEC), visits = -1, status;

	if (!OK(fd >= 0))
		return;
	close(fd);
	status = visit_in_child("here:kill", path, &visits);
	OK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	EQ(access(path, F_OK), -1);
	status = visit_in_child("here:kill", path, &visits);
	OK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	EQ(visits, VISITS);
}

/* Until then the point does nothing, however often it is reached. */
static void a_ticket_may_come_late(void)
{
	char path[] = "/tmp/gpumap-test-XXXXXX";
	int fd = mkostemp(path, O_CLOEXEC), status = -1;
	pid_t pid;

	if (!OK(fd >= 0))
		return;
	close(fd);
	unlink(path);
	pid = fork();
	if (pid == 0) {
		setenv("GM_POINT", "here:kill", 1);
		setenv("GM_POINT_TICKET", path, 1);
		for (int i = 0; i < VISITS; i++)
			GM_POINT("here");
		fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
		if (fd >= 0)
			GM_POINT("here");
		_exit(0);
	}
	waitpid(pid, &status, 0);
	OK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	EQ(access(path, F_OK), -1);
}

static void a_misspelt_action_is_loud(void)
{
	int visits = -1;
	int status = visit_in_child("here:kil", NULL, &visits);

	OK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

TAP_CASE()
{
	kills_at_the_nth_visit();
	first_visit_when_no_number_is_given();
	stops_for_the_test_to_look();
	pauses_and_goes_on();
	other_points_are_left_alone();
	a_ticket_is_used_once();
	a_ticket_may_come_late();
	a_misspelt_action_is_loud();
	return tap_done();
}

#else

#define TEXT_OF(x)  TEXT_OF_(x)
#define TEXT_OF_(x) #x

TAP_CASE()
{
	STR(TEXT_OF(GM_POINT("ring_push_visible")), "((void)0)");
	SKIP(1, "needs --enable-testpoints");
	return tap_done();
}

#endif
