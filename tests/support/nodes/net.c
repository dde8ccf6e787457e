/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "tests/support/nodes/net.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/tap.h"

/* Run a line of the shell.  Returns whether it succeeded. */
__attribute__((format(printf, 1, 2))) static bool shell(const char *format, ...)
{
	char line[512];
	va_list args;

	va_start(args, format);
	vsnprintf(line, sizeof(line), format, args);
	va_end(args);
	return system(line) == 0;
}

/* A descriptor of a namespace that nothing else has, or -1. */
static int new_namespace(void)
{
	int home = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	int ns = -1;

	if (unshare(CLONE_NEWNET) == 0)
		ns = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	if (setns(home, CLONE_NEWNET) != 0)
		abort();
	close(home);
	return ns;
}

static bool join(struct net_place *place, int number)
{
	place->number = number;
	snprintf(place->address, sizeof(place->address), "10.231.0.%d",
		 number + 10);
	place->ns = new_namespace();
	if (place->ns < 0)
		return false;
	return shell("ip link add n%d type veth peer name eth0 netns "
		     "/proc/%d/fd/%d && ip link set n%d master br0 up",
		     number, getpid(), place->ns, number) &&
	       shell("nsenter --net=/proc/%d/fd/%d sh -c 'ip addr add %s/24 "
		     "dev eth0 && ip link set eth0 up && ip link set lo up'",
		     getpid(), place->ns, place->address);
}

const char *net_make(struct net_place *ret_places, int n)
{
	if (!shell("ip -V >/dev/null 2>&1"))
		return "there is no ip (iproute2)";
	if (unshare(CLONE_NEWNET) != 0)
		return "this user may not make network namespaces";
	if (!shell("ip link set lo up && ip link add br0 type bridge "
		   "2>/dev/null && ip addr add " NET_HOME "/24 dev br0 && "
		   "ip link set br0 up"))
		return "this kernel has no bridges";
	for (int i = 0; i < n; i++) {
		if (!join(&ret_places[i], i))
			return "this kernel joins no namespaces";
	}
	return NULL;
}

void net_enter(const struct net_place *place)
{
	if (setns(place->ns, CLONE_NEWNET) != 0)
		_exit(97);
}

void net_cut(const struct net_place *place)
{
	OK(shell("ip link set n%d nomaster", place->number));
}

void net_heal(const struct net_place *place)
{
	OK(shell("ip link set n%d master br0", place->number));
}
