/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <linux/io_uring.h>
#include <linux/magic.h>
#include <unistd.h>

#include "agent/common/read_file.h"
#include "agent/doctor/doctor.h"
#include "agent/plan/size_text.h"

/* The inode of the namespace that the kernel begins with. */
#define INITIAL_PID_NAMESPACE UINT32_C(0xeffffffc)

/* ---- kernel -------------------------------------------------------------- */

static void look_at_version(const struct gm_doctor *d, struct gm_finding *f)
{
	char release[128];
	unsigned int major, minor;

	gm_doctor_line(d, "/proc/sys/kernel/osrelease", release,
		       sizeof(release));
	if (sscanf(release, "%u.%u", &major, &minor) != 2)
		gm_finding_skip(f, "the kernel does not tell its version");
	else if (major < 5 || (major == 5 && minor < 12))
		gm_finding_fail(f, "run Linux 5.12 or newer",
				"Linux %s is older than 5.12", release);
	else if (major < 6 || (major == 6 && minor < 1))
		gm_finding_warn(f, "run Linux 6.1 or newer",
				"Linux %s has no huge pages for memory that is "
				"shared",
				release);
	else
		gm_finding_pass(f, "Linux %s", release);
}

/* Does the kernel give this process an io_uring?  Returns 0 or -errno. */
static int try_io_uring(void)
{
	struct io_uring_params params = { 0 };
	long fd = syscall(SYS_io_uring_setup, 1, &params);

	if (fd < 0)
		return -errno;
	close((int)fd);
	return 0;
}

static void look_at_io_uring(const struct gm_doctor *d, struct gm_finding *f)
{
	int64_t disabled =
		gm_doctor_number(d, "/proc/sys/kernel/io_uring_disabled", 0);
	int ret = d->root[0] == '\0' ? try_io_uring() : 0;

	if (disabled != 0)
		gm_finding_fail(f, "sysctl kernel.io_uring_disabled=0",
				"kernel.io_uring_disabled is %" PRId64
				": workers cannot start",
				disabled);
	else if (ret != 0)
		gm_finding_warn(
			f,
			"a client needs none; for an agent in this container "
			"allow it in the seccomp profile",
			"this process is refused an io_uring: %s",
			strerror(-ret));
	else
		gm_finding_pass(f, "io_uring is there");
}

static void look_at_pidfd(const struct gm_doctor *d, struct gm_finding *f)
{
	long fd = syscall(SYS_pidfd_open, getpid(), 0);

	if (fd >= 0) {
		close((int)fd);
		gm_finding_pass(f, "processes can be watched by pidfd");
	} else {
		gm_finding_warn(f,
				"allow pidfd_open in the container's seccomp "
				"profile",
				"this process is refused a pidfd: %s",
				strerror(errno));
	}
}

/* ---- memory -------------------------------------------------------------- */

static void look_at_shm(const struct gm_doctor *d, struct gm_finding *f)
{
	struct statvfs space;
	struct statfs type;
	char room[GM_SIZE_TEXT], all[GM_SIZE_TEXT];
	uint64_t left;

	if (d->root[0] != '\0') {
		gm_finding_skip(f, "the file system is not that of the root");
		return;
	}
	if (statfs("/dev/shm", &type) != 0 ||
	    statvfs("/dev/shm", &space) != 0 || type.f_type != TMPFS_MAGIC) {
		gm_finding_fail(
			f, "mount -t tmpfs -o mode=1777 tmpfs /dev/shm",
			"/dev/shm is no tmpfs: the map cannot be there");
		return;
	}
	left = (uint64_t)space.f_bavail * space.f_frsize;
	gm_size_text(left, room);
	gm_size_text((uint64_t)space.f_blocks * space.f_frsize, all);
	if (space.f_blocks == 0)
		gm_finding_pass(f, "/dev/shm has no limit");
	else if (left < UINT64_C(32) << 20)
		gm_finding_warn(f,
				"mount -o remount,size=1G /dev/shm, or "
				"docker --shm-size; a client needs none of it",
				"/dev/shm has %s left of %s: a new map takes "
				"16 MiB",
				room, all);
	else
		gm_finding_pass(f, "/dev/shm has %s left of %s", room, all);
}

static void look_at_available(const struct gm_doctor *d, struct gm_finding *f)
{
	uint64_t total = gm_doctor_meminfo(d, "MemTotal");
	uint64_t left = gm_doctor_meminfo(d, "MemAvailable");
	char room[GM_SIZE_TEXT], all[GM_SIZE_TEXT];

	gm_size_text(left, room);
	gm_size_text(total, all);
	if (total == 0)
		gm_finding_skip(f, "the kernel does not tell its memory");
	else if (left < total / 20)
		gm_finding_warn(f,
				"end what needs it: gpumapctl who, ps aux "
				"--sort -rss",
				"%s of %s of main memory are available", room,
				all);
	else
		gm_finding_pass(f, "%s of %s of main memory are available",
				room, all);
}

static void look_at_swap(const struct gm_doctor *d, struct gm_finding *f)
{
	uint64_t total = gm_doctor_meminfo(d, "MemTotal");
	uint64_t used = gm_doctor_meminfo(d, "SwapTotal") -
			gm_doctor_meminfo(d, "SwapFree");
	char text[GM_SIZE_TEXT];

	gm_size_text(used, text);
	if (used > total / 10)
		gm_finding_warn(f,
				"give the machine more memory, or fewer "
				"models; swapoff -a once there is room",
				"%s are swapped out: weights of host rows may "
				"be among them",
				text);
	else
		gm_finding_pass(f, "%s are swapped out", text);
}

static void look_at_overcommit(const struct gm_doctor *d, struct gm_finding *f)
{
	int64_t mode = gm_doctor_number(d, "/proc/sys/vm/overcommit_memory", 0);

	if (mode == 2)
		gm_finding_warn(f, "sysctl vm.overcommit_memory=0",
				"vm.overcommit_memory is 2: CUDA and arenas "
				"map more than they use, and may be refused");
	else
		gm_finding_pass(f, "vm.overcommit_memory is %" PRId64, mode);
}

static void look_at_noexec(const struct gm_doctor *d, struct gm_finding *f)
{
	int64_t mode = gm_doctor_number(d, "/proc/sys/vm/memfd_noexec", 0);

	if (mode >= 2)
		gm_finding_fail(f, "sysctl vm.memfd_noexec=1",
				"vm.memfd_noexec is %" PRId64
				": the kernel refuses memory files that may be "
				"executed, such as CUDA's",
				mode);
	else
		gm_finding_pass(f, "vm.memfd_noexec is %" PRId64, mode);
}

static void look_at_huge_pages(const struct gm_doctor *d, struct gm_finding *f)
{
	char text[256], *from;

	if (!gm_doctor_line(d,
			    "/sys/kernel/mm/transparent_hugepage/shmem_enabled",
			    text, sizeof(text))) {
		gm_finding_skip(f, "the kernel has no huge pages");
		return;
	}
	from = strchr(text, '[');
	if (from == NULL || strncmp(from, "[never]", 7) == 0 ||
	    strncmp(from, "[deny]", 6) == 0)
		gm_finding_warn(
			f,
			"echo advise >/sys/kernel/mm/transparent_hugepage/"
			"shmem_enabled",
			"shared memory gets no huge pages: %s", text);
	else
		gm_finding_pass(f, "shared memory can have huge pages: %s",
				text);
}

static bool has_nodes(const struct gm_doctor *d)
{
	return gm_doctor_exists(d, "/sys/devices/system/node/node1");
}

static void look_at_balancing(const struct gm_doctor *d, struct gm_finding *f)
{
	if (!has_nodes(d))
		gm_finding_skip(f, "the machine has one NUMA node");
	else if (gm_doctor_number(d, "/proc/sys/kernel/numa_balancing", 0) != 0)
		gm_finding_warn(f, "sysctl kernel.numa_balancing=0",
				"the kernel moves pages between NUMA nodes, "
				"which stalls reads of weights");
	else
		gm_finding_pass(f, "the kernel leaves pages where they are");
}

/* ---- time ---------------------------------------------------------------- */

static void look_at_clock(const struct gm_doctor *d, struct gm_finding *f)
{
	char text[64];

	if (!gm_doctor_line(d,
			    "/sys/devices/system/clocksource/clocksource0/"
			    "current_clocksource",
			    text, sizeof(text)))
		gm_finding_skip(f, "the kernel does not tell its clock");
	else if (strcmp(text, "hpet") == 0 || strcmp(text, "acpi_pm") == 0)
		gm_finding_warn(f,
				"look in dmesg why tsc is unstable; in a "
				"virtual machine use kvm-clock",
				"the clock is %s: each look at it takes a "
				"system call",
				text);
	else
		gm_finding_pass(f, "the clock is %s", text);
}

/* ---- containers ---------------------------------------------------------- */

static void look_at_pids(const struct gm_doctor *d, struct gm_finding *f)
{
	char path[PATH_MAX], text[64] = "";
	ssize_t n = -1;

	if (gm_read_file_path(path, sizeof(path), d->root, "%s",
			      "/proc/self/ns/pid") == 0)
		n = readlink(path, text, sizeof(text) - 1);
	if (n <= 5)
		gm_finding_skip(f, "/proc does not tell");
	else if (strtoul(text + 5, NULL, 10) != INITIAL_PID_NAMESPACE)
		gm_finding_warn(
			f,
			"for these run the container with the host's pids: "
			"docker --pid host, hostPID",
			"this process is in a pid namespace: an agent here is "
			"not told what memory processes have, and a client "
			"elsewhere cannot hold a map or a pin");
	else
		gm_finding_pass(f, "pids are the machine's");
}

static void look_at_users(const struct gm_doctor *d, struct gm_finding *f)
{
	unsigned int inside, outside, n;
	char text[256];

	if (!gm_doctor_line(d, "/proc/self/uid_map", text, sizeof(text)) ||
	    sscanf(text, "%u %u %u", &inside, &outside, &n) != 3)
		gm_finding_skip(f, "/proc does not tell");
	else if (inside != 0 || outside != 0 || n != UINT32_MAX)
		gm_finding_warn(
			f,
			"map the agent's user into the namespace, or mount the "
			"runtime directory, so that clients ask the agent",
			"this process is in a user namespace: files of users "
			"that it does not have are not believed");
	else
		gm_finding_pass(f, "users are the machine's");
}

const struct gm_check gm_doctor_machine[] = {
	{ "kernel.version", look_at_version },
	{ "kernel.io_uring", look_at_io_uring },
	{ "kernel.pidfd", look_at_pidfd },
	{ "memory.shm", look_at_shm },
	{ "memory.available", look_at_available },
	{ "memory.swap", look_at_swap },
	{ "memory.overcommit", look_at_overcommit },
	{ "memory.memfd_noexec", look_at_noexec },
	{ "memory.huge_pages", look_at_huge_pages },
	{ "memory.numa_balancing", look_at_balancing },
	{ "time.clocksource", look_at_clock },
	{ "container.pid_namespace", look_at_pids },
	{ "container.user_namespace", look_at_users },
	{ NULL, NULL },
};
