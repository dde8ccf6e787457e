/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "tests/bench/measure/peer.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shm/atomic.h"

int gm_peer_pin(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET((size_t)cpu, &set);
	return sched_setaffinity(0, sizeof(set), &set) == 0 ? 0 : -errno;
}

int gm_peer_other_cpu(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	if (sched_getaffinity(0, sizeof(set), &set) != 0)
		return -1;
	for (int by = 1; by < CPU_SETSIZE; by++) {
		if (cpu + by < CPU_SETSIZE && CPU_ISSET(cpu + by, &set))
			return cpu + by;
		if (cpu - by >= 0 && CPU_ISSET(cpu - by, &set))
			return cpu - by;
	}
	return -1;
}

void *gm_peer_memory(size_t bytes)
{
	void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			    MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

	if (memory == MAP_FAILED) {
		perror("gpumap bench: mmap");
		exit(1);
	}
	return memory;
}

pid_t gm_peer_start(int cpu, void (*run)(void *arg), void *arg)
{
	pid_t parent = getpid(), pid = fork();

	if (pid != 0)
		return pid > 0 ? pid : -errno;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() == parent && gm_peer_pin(cpu) == 0)
		run(arg);
	_exit(1);
}

void gm_peer_stop(pid_t pid)
{
	if (pid <= 0)
		return;
	kill(pid, SIGKILL);
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
}

static void spin(void *arg)
{
	struct sched_param param = { 0 };

	if (sched_setscheduler(0, SCHED_IDLE, &param) != 0)
		return;
	for (;;)
		gm_pause();
}

void gm_busy_start(struct gm_busy *busy, const int *cpus, uint32_t n)
{
	busy->n = 0;
	for (uint32_t i = 0; i < n && i < GM_BUSY_MAX; i++) {
		pid_t pid = gm_peer_start(cpus[i], spin, NULL);

		if (pid > 0)
			busy->pids[busy->n++] = pid;
	}
}

void gm_busy_stop(struct gm_busy *busy)
{
	while (busy->n > 0)
		gm_peer_stop(busy->pids[--busy->n]);
}

int gm_peer_facts(pid_t pid, struct gm_peer_facts *ret_facts)
{
	unsigned long long faults;
	char path[64], line[1024];
	const char *after = NULL;
	int cpu;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	file = fopen(path, "re");
	if (file == NULL)
		return -ESRCH;
	/* A program's name may contain any byte, even a parenthesis: search
	 * from the end. */
	if (fgets(line, sizeof(line), file) != NULL)
		after = strrchr(line, ')');
	fclose(file);
	/* From field 3 on: field 10 is minflt, field 39 processor. */
	if (after == NULL ||
	    sscanf(after + 1,
		   " %*s %*s %*s %*s %*s %*s %*s %llu %*s %*s %*s %*s %*s %*s"
		   " %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s"
		   " %*s %*s %*s %*s %*s %*s %*s %*s %d",
		   &faults, &cpu) != 2)
		return -ESRCH;
	*ret_facts =
		(struct gm_peer_facts){ .minor_faults = faults, .cpu = cpu };
	return 0;
}
