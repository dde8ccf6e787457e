/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Clients in containers, with the agent on the node: each namespace by itself
 * and all of them, other users, /dev/shm small, empty or absent, a read-only
 * root with nothing but the runtime directory, and docker's system calls.  The
 * table CONTAINERS in gpumapd(8) has these rows.
 */

#include <errno.h>

#include "tests/support/story.h"
#include "tests/support/tap.h"
#include "tests/system/containers/client.h"

static const struct container containers[] = {
	{ .name = "no container" },
	{ .name = "another user", .uid = CLIENT_USER },
	{ .name = "pid namespace", .flags = CLONE_NEWPID },
	{ .name = "pid namespace with its own /proc",
	  .flags = CLONE_NEWPID | CLONE_NEWNS },
	{ .name = "ipc namespace", .flags = CLONE_NEWIPC },
	{ .name = "mount namespace", .flags = CLONE_NEWNS },
	{ .name = "network namespace", .flags = CLONE_NEWNET },
	{ .name = "uts namespace", .flags = CLONE_NEWUTS },
	{ .name = "cgroup namespace", .flags = CLONE_NEWCGROUP },
	{ .name = "time namespace", .flags = CLONE_NEWTIME },
	{ .name = "user namespace of root", .flags = CLONE_NEWUSER },
	{ .name = "user namespace of a user",
	  .flags = CLONE_NEWUSER,
	  .uid = CLIENT_USER },
	{ .name = "empty /dev/shm of 64 MiB", .shm = "size=64m" },
	{ .name = "empty /dev/shm without room", .shm = "size=4k" },
	{ .name = "read-only root without /dev/shm", .bare = true },
	{ .name = "system calls", .filter = true },
	{ .name = "all, root",
	  .flags = CONTAINER_ALL & ~CLONE_NEWUSER,
	  .shm = "size=64m",
	  .bare = true,
	  .filter = true },
	{ .name = "all, a user",
	  .flags = CONTAINER_ALL & ~CLONE_NEWUSER,
	  .uid = CLIENT_USER,
	  .shm = "size=64m",
	  .bare = true,
	  .filter = true },
	{ .name = "all, rootless",
	  .flags = CONTAINER_ALL,
	  .uid = CLIENT_USER,
	  .shm = "size=64m",
	  .bare = true,
	  .filter = true },
};

/* The map is for every user that finds it by its name, and all else for those
 * who may connect. */
static void outside_the_group(struct client_node *node)
{
	const struct container plain = { .name = "outside the group",
					 .uid = CLIENT_USER + 1 };
	const struct container apart = { .name = "the same, without the name",
					 .uid = CLIENT_USER + 1,
					 .shm = "size=64m" };
	struct client_refusal but = { .acts = ~CLIENT_BIT(CLIENT_ATTACH),
				      .error = -EACCES,
				      .says = "[socket] of gpumapd.conf" };

	client_check(node, &plain, &but);
	but.acts |= CLIENT_BIT(CLIENT_ATTACH);
	client_check(node, &apart, &but);
}

TAP_CASE()
{
	static struct client_node node;

	if (geteuid() != 0) {
		SKIP(1, "containers need root");
		return tap_done();
	}
	agent_make(&node.agent, CLIENT_CONFIG);
	if (OK(agent_start(&node.agent)) && client_prepare(&node)) {
		for (size_t i = 0; i < sizeof(containers) / sizeof(*containers);
		     i++)
			client_check(&node, &containers[i], NULL);
		outside_the_group(&node);
	}
	client_finish(&node);
	agent_remove(&node.agent);
	return tap_done();
}
