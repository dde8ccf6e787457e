/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Agents in containers with a read-only root: what their clients outside and
 * beside them get depends on the pid namespace, and on CAP_SYS_ADMIN, and not
 * on whose /dev/shm it is.
 */

#include <errno.h>
#include <fcntl.h>
#include <seccomp.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "tests/support/story.h"
#include "tests/system/containers/client.h"

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

static struct client_node node;

static const struct container outside = { .name = "a client on the node" };
static const struct container user = { .name = "a user's client",
				       .uid = CLIENT_USER };
static const struct container root = { .name = "a container's root",
				       .flags = CONTAINER_ALL & ~CLONE_NEWUSER,
				       .shm = "size=64m",
				       .bare = true,
				       .filter = true };
static const struct container rootless = { .name = "rootless container",
					   .flags = CONTAINER_ALL,
					   .uid = CLIENT_USER,
					   .shm = "size=64m",
					   .bare = true,
					   .filter = true };

#define OWN_SHM "mount -t tmpfs -o size=64m shm /dev/shm && exec"

/* A program that becomes gpumapd in namespaces of its own.  @with: how it is
 * executed there. */
static bool box(const char *with)
{
	char path[96];
	FILE *file;
	bool written;

	snprintf(path, sizeof(path), "%s/gpumapd", node.agent.dir);
	file = fopen(path, "we");
	if (file == NULL)
		return false;
	written = fprintf(file,
			  "#!/bin/sh\n"
			  "exec unshare -m -i -u -n -C sh -c '\n"
			  "mount -t proc proc /proc &&\n"
			  "mount --bind %s %s &&\n"
			  "mount -o remount,bind,ro / &&\n"
			  "%s \"$0\" \"$@\"' %s \"$@\"\n",
			  node.agent.dir, node.agent.dir, with,
			  getenv("GPUMAPD")) > 0;
	return fclose(file) == 0 && written && chmod(path, 0755) == 0;
}

/* Children of this process are in this pid namespace again. */
static void stay(int pids)
{
	OK(setns(pids, CLONE_NEWPID) == 0);
	close(pids);
}

/* @flags: CLONE_NEWPID, or 0 for the node's pid namespace.  @kept: as
 * agent.kept_most. */
static bool begin(const char *with, int flags, unsigned int kept)
{
	int pids = open("/proc/self/ns/pid", O_RDONLY | O_CLOEXEC);
	const char *gpumapd = getenv("GPUMAPD");
	char path[96];
	bool begun;

	agent_make(&node.agent, CLIENT_CONFIG);
	node.agent.kept_most = kept;
	snprintf(path, sizeof(path), "%s/gpumapd", node.agent.dir);
	if (!OK(gpumapd != NULL) || !OK(box(with)) || !OK(unshare(flags) == 0))
		return false;
	setenv("GPUMAPD", path, 1);
	begun = agent_start(&node.agent);
	setenv("GPUMAPD", gpumapd, 1);
	stay(pids);
	return OK(begun) && client_prepare(&node);
}

static void end(void)
{
	client_finish(&node);
	agent_remove(&node.agent);
}

/* As in a pod with hostPID. */
static void in_the_pid_namespace_of_the_node(void)
{
	if (begin(OWN_SHM, 0, 0)) {
		client_check(&node, &outside, NULL);
		client_check(&node, &user, NULL);
		client_check(&node, &root, NULL);
		client_check(&node, &rootless, NULL);
	}
	end();
}

/* Pins and the like belong to a process that the agent has to see. */
static void in_a_pid_namespace_of_its_own(void)
{
	const struct client_refusal but = { .acts = CLIENT_BIT(CLIENT_HOLD) |
						    CLIENT_BIT(CLIENT_PIN) |
						    CLIENT_BIT(CLIENT_FIGURES),
					    .error = -ESRCH,
					    .says = "docker --pid=host" };

	if (begin(OWN_SHM, CLONE_NEWPID, 0)) {
		client_check(&node, &outside, &but);
		client_check(&node, &user, &but);
		client_check(&node, &root, &but);
		client_check(&node, &rootless, &but);
	}
	end();
}

/* The agent can give root no map that root could not write.  A client that
 * finds the map by its name does not ask. */
static void without_cap_sys_admin(void)
{
	const struct client_refusal but = { .acts = ~0u,
					    .error = -EACCES,
					    .says = "CAP_SYS_ADMIN" };

	if (begin("exec setpriv --bounding-set=-sys_admin", 0, 0)) {
		client_check(&node, &outside, NULL);
		client_check(&node, &rootless, NULL);
		client_check(&node, &root, &but);
	}
	end();
}

/* Before Linux 6.5 the agent cannot watch a process that it does not see.  For
 * good, of this process and its children. */
static bool age_the_kernel(void)
{
	scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);
	bool is_made =
		filter != NULL &&
		seccomp_rule_add(filter, SCMP_ACT_ERRNO(ENOPROTOOPT),
				 SCMP_SYS(getsockopt), 1,
				 SCMP_A2(SCMP_CMP_EQ, SO_PEERPIDFD, 0)) == 0 &&
		seccomp_load(filter) == 0;

	seccomp_release(filter);
	return is_made;
}

/* The children of the supervisor, as the node sees them.  Returns how many of
 * them have ended, and are still there. */
static int children(pid_t *ret_first)
{
	char path[64];
	FILE *file;
	int pid, n = 0;

	*ret_first = 0;
	snprintf(path, sizeof(path), "/proc/%d/task/%d/children",
		 (int)node.agent.pid, (int)node.agent.pid);
	file = fopen(path, "re");
	while (file != NULL && fscanf(file, "%d", &pid) == 1) {
		if (*ret_first == 0)
			*ret_first = pid;
		n += process_state(pid) == 'Z';
	}
	if (file != NULL)
		fclose(file);
	return n;
}

/* gpumap-fdstore is the first process of its pid namespace, as in the image.
 * Workers of an agent that was killed become its children. */
static void the_first_process_reaps(void)
{
	uint64_t until = story_now() + STORY_LIMIT_NS;
	pid_t killed, first;

	if (begin(OWN_SHM, CLONE_NEWPID, 64)) {
		children(&killed);
		OK(killed > 0 && kill(killed, SIGKILL) == 0);
		do
			story_nap(1000);
		while ((children(&first) > 0 || first == killed ||
			agent_count_log(&node.agent, "event=ready ") < 2) &&
		       story_now() < until);
		EQ(children(&first), 0);
		OK(first > 0 && first != killed);
	}
	end();
}

static int nothing(void)
{
	return 0;
}

static bool can_box(void)
{
	const struct container like_box = {
		.flags = CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC |
			 CLONE_NEWUTS | CLONE_NEWNET | CLONE_NEWCGROUP
	};

	return geteuid() == 0 && container_run(&like_box, "/", nothing) == 0;
}

TAP_CASE()
{
	if (!can_box()) {
		SKIP(1, "this machine lets us make no namespaces");
		return tap_done();
	}
	in_the_pid_namespace_of_the_node();
	in_a_pid_namespace_of_its_own();
	without_cap_sys_admin();
	the_first_process_reaps();
	if (OK(age_the_kernel()))
		in_a_pid_namespace_of_its_own();
	return tap_done();
}
