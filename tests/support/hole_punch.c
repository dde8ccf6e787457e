/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "tests/support/hole_punch.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define MAPPINGS 60000
#define FEWEST   20000
#define PUNCHERS 3

static int file;
static uint64_t length;

static void *punch(void *nothing)
{
	(void)nothing;
	while (fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
			 (off_t)length) == 0)
		;
	_exit(1);
}

/* Neighbours differ in length, so the kernel does not join them. */
static int map_often(void)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	int n = 0;

	while (n < MAPPINGS && mmap(NULL, page << (n & 1), PROT_READ,
				    MAP_SHARED, file, 0) != MAP_FAILED)
		n++;
	return n;
}

static void run(int ready)
{
	pthread_t thread;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (map_often() < FEWEST || write(ready, "", 1) != 1)
		_exit(1);
	for (int i = 1; i < PUNCHERS; i++)
		pthread_create(&thread, NULL, punch, NULL);
	punch(NULL);
}

pid_t hole_punch_start(int fd, uint64_t bytes)
{
	int ready[2];
	pid_t child;
	char byte;
	ssize_t n;

	if (pipe2(ready, O_CLOEXEC) < 0)
		return -1;
	file = fd;
	length = bytes;
	child = fork();
	if (child == 0)
		run(ready[1]);
	close(ready[1]);
	n = read(ready[0], &byte, 1);
	close(ready[0]);
	if (child > 0 && n != 1) {
		waitpid(child, NULL, 0);
		child = -1;
	}
	return child;
}

void hole_punch_stop(pid_t puncher)
{
	kill(puncher, SIGKILL);
	waitpid(puncher, NULL, 0);
}

int hole_punch_is_shown(void)
{
	char text[64] = "";
	pid_t child = fork();
	int fd, n = 0;

	if (child == 0) {
		pause();
		_exit(0);
	}
	/* Until it sleeps. */
	for (int i = 0; i < 300000 && n <= 1; i++) {
		char path[64];

		snprintf(path, sizeof(path), "/proc/%d/wchan", (int)child);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		n = fd < 0 ? 0 : (int)read(fd, text, sizeof(text) - 1);
		if (fd >= 0)
			close(fd);
		usleep(100);
	}
	hole_punch_stop(child);
	return n > 1;
}
