/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "tests/system/containers/container.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <seccomp.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "tests/support/ctl.h"
#include "tests/support/run.h"
#include "tests/support/users.h"

#define ROOT     "/mnt" /* where the container's root is put together */
#define AHEAD_S  100000
#define PF_ALG   38
#define PF_VSOCK 40

static bool machine_refuses;

/* Whatever else fails is a fault of this test, or of what it tests. */
static bool leave(int flags)
{
	machine_refuses = unshare(flags) != 0;
	return !machine_refuses;
}

static void __attribute__((noreturn)) give_up(void)
{
	_exit(machine_refuses ? CONTAINER_LACKS : CONTAINER_FAILED);
}

/* ---- a root of its own --------------------------------------------------- */

static bool make_dirs(const char *path)
{
	char part[PATH_MAX];

	snprintf(part, sizeof(part), "%s", path);
	for (char *at = part + 1; (at = strchr(at, '/')) != NULL; *at++ = '/') {
		*at = '\0';
		if (mkdir(part, 0755) != 0 && errno != EEXIST)
			return false;
	}
	return mkdir(part, 0755) == 0 || errno == EEXIST;
}

static bool bring(const char *from, const char *to, unsigned long flags)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s%s", ROOT, to);
	return make_dirs(path) &&
	       mount(from, path, NULL, MS_BIND | MS_REC, NULL) == 0 &&
	       mount(NULL, path, NULL, MS_BIND | MS_REMOUNT | flags, NULL) == 0;
}

/* /usr/lib and the like, as the node's root leads there. */
static bool bring_link(const char *name)
{
	char to[PATH_MAX], path[64];
	ssize_t n = readlink(name, to, sizeof(to) - 1);

	if (n < 0)
		return errno == ENOENT || bring(name, name, MS_RDONLY);
	to[n] = '\0';
	snprintf(path, sizeof(path), "%s%s", ROOT, name);
	return symlink(to, path) == 0;
}

/* The folder of @path, which is absolute. */
static bool bring_folder(const char *path)
{
	char folder[PATH_MAX], *end;

	if (realpath(path, folder) == NULL || !(end = strrchr(folder, '/')))
		return false;
	*end = '\0';
	return bring(folder, folder, MS_RDONLY);
}

static bool bring_programs(void)
{
	char library[PATH_MAX];

	run_find_program();
	snprintf(library, sizeof(library), "%s/libgpumap.so",
		 strchr(run_libraries, '=') + 1);
	return bring("/usr", "/usr", MS_RDONLY) && bring_link("/lib") &&
	       bring_link("/lib64") && bring_link("/bin") &&
	       bring_folder(run_program) &&
	       (access(library, F_OK) != 0 || bring_folder(library));
}

static bool make_root(const struct container *c, const char *runtime_dir)
{
	return mount("root", ROOT, "tmpfs", 0, "mode=755") == 0 &&
	       bring_programs() && bring("/proc", "/proc", 0) &&
	       bring(runtime_dir, "/run/gpumap", MS_RDONLY) &&
	       make_dirs(ROOT "/dev") &&
	       (c->shm == NULL || make_dirs(ROOT "/dev/shm")) &&
	       chdir(ROOT) == 0 && syscall(SYS_pivot_root, ".", ".") == 0 &&
	       umount2(".", MNT_DETACH) == 0 && chdir("/") == 0;
}

static bool mount_all(const struct container *c, const char *runtime_dir)
{
	if (!c->bare && c->shm == NULL)
		return true;
	if (!leave(CLONE_NEWNS) ||
	    mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
	    (c->bare && !make_root(c, runtime_dir)) ||
	    (c->shm != NULL &&
	     mount("shm", "/dev/shm", "tmpfs", 0, c->shm) != 0))
		return false;
	return !c->bare || mount(NULL, "/", NULL,
				 MS_BIND | MS_REMOUNT | MS_RDONLY, NULL) == 0;
}

/* ---- namespaces ---------------------------------------------------------- */

static bool put(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	ssize_t n = fd >= 0 ? write(fd, text, strlen(text)) : -1;

	if (fd >= 0)
		close(fd);
	return n == (ssize_t)strlen(text);
}

/* Its root is the user that the process has been so far. */
static bool enter_user_namespace(void)
{
	char users[32], groups[32];

	snprintf(users, sizeof(users), "0 %u 1", geteuid());
	snprintf(groups, sizeof(groups), "0 %u 1", getegid());
	return leave(CLONE_NEWUSER) && put("/proc/self/setgroups", "deny") &&
	       put("/proc/self/uid_map", users) &&
	       put("/proc/self/gid_map", groups);
}

/* The files in /proc of a process that has become another user are root's,
 * unless the process may be dumped. */
static bool become_user(const struct container *c)
{
	return c->uid == 0 ||
	       (user_become(c->uid, c->uid) && prctl(PR_SET_DUMPABLE, 1) == 0);
}

static bool enter(const struct container *c)
{
	char ahead[32];

	if ((c->flags & CLONE_NEWUSER) != 0 &&
	    (!become_user(c) || !enter_user_namespace()))
		return false;
	if (!leave(c->flags & ~CLONE_NEWUSER))
		return false;
	snprintf(ahead, sizeof(ahead), "monotonic %d 0", AHEAD_S);
	return (c->flags & CLONE_NEWTIME) == 0 ||
	       put("/proc/self/timens_offsets", ahead);
}

/* In the first process of the pid namespace. */
static bool mount_proc(const struct container *c)
{
	const int both = CLONE_NEWPID | CLONE_NEWNS;

	return (c->flags & both) != both ||
	       (mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
		mount("proc", "/proc", "proc", 0, NULL) == 0);
}

/* ---- system calls -------------------------------------------------------- */

/* The list of moby/profiles, seccomp/default.json of June 2026, for a container
 * without capabilities on a kernel since 4.8, and on x86-64 and Arm: what it
 * does not allow. */
static const char *const refused[] = {
	"_sysctl",
	"acct",
	"add_key",
	"bpf",
	"chroot",
	"clock_settime",
	"delete_module",
	"fanotify_init",
	"finit_module",
	"fsconfig",
	"fsmount",
	"fsopen",
	"fspick",
	"get_mempolicy",
	"init_module",
	"io_uring_enter",
	"io_uring_register",
	"io_uring_setup",
	"ioperm",
	"iopl",
	"kcmp",
	"kexec_file_load",
	"kexec_load",
	"keyctl",
	"lookup_dcookie",
	"mbind",
	"migrate_pages",
	"mount",
	"mount_setattr",
	"move_mount",
	"move_pages",
	"nfsservctl",
	"open_by_handle_at",
	"open_tree",
	"perf_event_open",
	"pidfd_getfd",
	"pivot_root",
	"process_madvise",
	"quotactl",
	"quotactl_fd",
	"reboot",
	"request_key",
	"set_mempolicy",
	"set_mempolicy_home_node",
	"setdomainname",
	"sethostname",
	"setns",
	"settimeofday",
	"swapoff",
	"swapon",
	"sysfs",
	"syslog",
	"umount2",
	"unshare",
	"uselib",
	"userfaultfd",
	"ustat",
	"vhangup",
};

static int refuse(scmp_filter_ctx filter)
{
	int ret = 0;

	for (size_t i = 0; i < sizeof(refused) / sizeof(*refused); i++) {
		int call = seccomp_syscall_resolve_name(refused[i]);

		if (call != __NR_SCMP_ERROR && ret == 0)
			ret = seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM),
					       call, 0);
	}
	return ret;
}

static bool be_filtered(void)
{
	scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);
	bool is_made =
		filter != NULL && refuse(filter) == 0 &&
		seccomp_rule_add(filter, SCMP_ACT_ERRNO(ENOSYS),
				 SCMP_SYS(clone3), 0) == 0 &&
		seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM),
				 SCMP_SYS(socket), 1,
				 SCMP_A0(SCMP_CMP_EQ, PF_ALG, 0)) == 0 &&
		seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM),
				 SCMP_SYS(socket), 1,
				 SCMP_A0(SCMP_CMP_EQ, PF_VSOCK, 0)) == 0 &&
		seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(clone),
				 1,
				 SCMP_A0(SCMP_CMP_MASKED_EQ, CLONE_NEWUSER,
					 CLONE_NEWUSER)) == 0 &&
		seccomp_load(filter) == 0;

	seccomp_release(filter);
	return is_made;
}

bool container_is_filtered(void)
{
	return syscall(SYS_io_uring_setup, 0, NULL) == -1 && errno == EPERM &&
	       syscall(SYS_pidfd_getfd, -1, 0, 0) == -1 && errno == EPERM;
}

/* ---- a container --------------------------------------------------------- */

static void __attribute__((noreturn))
begin(const struct container *c, int (*act)(void))
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (!mount_proc(c) ||
	    ((c->flags & CLONE_NEWUSER) == 0 && !become_user(c)) ||
	    (c->filter && !be_filtered()))
		give_up();
	_exit(act());
}

static int status_of(pid_t pid)
{
	int status = -1;

	if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
		return CONTAINER_KILLED;
	return WEXITSTATUS(status);
}

int container_run(const struct container *c, const char *runtime_dir,
		  int (*act)(void))
{
	pid_t pid;

	fflush(NULL);
	pid = fork();
	if (pid != 0)
		return status_of(pid);
	if (!mount_all(c, runtime_dir) || !enter(c))
		give_up();
	pid = fork();
	if (pid == 0)
		begin(c, act);
	_exit(status_of(pid));
}
