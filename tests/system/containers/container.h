/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * container - a child of the test in namespaces of its own, as container
 * engines start a process.
 */
#ifndef GM_TEST_CONTAINERS_CONTAINER_H
#define GM_TEST_CONTAINERS_CONTAINER_H

#include <sched.h>
#include <stdbool.h>
#include <sys/types.h>

#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x80
#endif

/* All that there are: time_namespaces(7) are since Linux 5.6. */
#define CONTAINER_ALL                                                \
	(CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWNS | \
	 CLONE_NEWNET | CLONE_NEWUTS | CLONE_NEWCGROUP | CLONE_NEWTIME)

struct container {
	const char *name;
	int flags; /* CLONE_NEW*; another user namespace has one user alone */
	uid_t uid; /* the process's user on the node, 0: the test's */
	/* Options of a tmpfs in /dev/shm; NULL: the node's /dev/shm, or none
	 * where @bare is set. */
	const char *shm;
	/* A read-only root: /usr, the programs under test, and the runtime
	 * directory as /run/gpumap, which is read-only as well. */
	bool bare;
	bool filter; /* refuse the system calls that docker's profile does */
};

#define CONTAINER_LACKS  77  /* this machine does not let us make one */
#define CONTAINER_FAILED 78  /* it does, and something else went wrong */
#define CONTAINER_KILLED 255 /* a signal has ended the process */

/*
 * container_run - run @act as the first process of a container
 *
 * runtime_dir	of the agent, on the node
 *
 * Returns @act's result, which is below 77, or one of these.
 */
int container_run(const struct container *c, const char *runtime_dir,
		  int (*act)(void));

/* Does this process have that filter? */
bool container_is_filtered(void);

#endif
