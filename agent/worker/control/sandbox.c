/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/worker/control/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <linux/landlock.h>
#include <sched.h>
#include <stdbool.h>
#include <seccomp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define N_OF(array) (sizeof(array) / sizeof((array)[0]))

/* Index of the flags among the arguments of clone(). */
#ifdef __s390__
#define FLAGS_OF_CLONE 1
#else
#define FLAGS_OF_CLONE 0
#endif

/* The calls after set-up, including those that the C library makes. */
static const int allowed[] = {
	/* the loop */
	SCMP_SYS(io_uring_enter),
	SCMP_SYS(clock_gettime),
	SCMP_SYS(getcpu),
	/* gpumapd, and clients that sleep */
	SCMP_SYS(recvmsg),
	SCMP_SYS(sendto),
	SCMP_SYS(sendmsg),
	SCMP_SYS(futex),
	/* sessions, their memory, and faults in it */
	SCMP_SYS(fstat),
	SCMP_SYS(newfstatat),
	SCMP_SYS(mmap),
	SCMP_SYS(munmap),
	SCMP_SYS(mbind),
	SCMP_SYS(get_mempolicy),
	SCMP_SYS(mincore),
	SCMP_SYS(close),
	SCMP_SYS(pread64),
	SCMP_SYS(sched_yield),
	SCMP_SYS(rt_sigaction),
	SCMP_SYS(rt_sigreturn),
	SCMP_SYS(restart_syscall),
	/* malloc and stdio */
	SCMP_SYS(brk),
	SCMP_SYS(madvise),
	SCMP_SYS(mprotect),
	SCMP_SYS(mremap),
	SCMP_SYS(write),
	/* buffers, those that are exported too */
	SCMP_SYS(memfd_create),
	SCMP_SYS(fallocate),
	SCMP_SYS(fcntl),
	SCMP_SYS(sysinfo),
	/* abort, with its reason, and exit */
	SCMP_SYS(rt_sigprocmask),
	SCMP_SYS(gettid),
	SCMP_SYS(getpid),
	SCMP_SYS(tgkill),
	SCMP_SYS(exit),
	SCMP_SYS(exit_group),
#ifdef GM_TESTPOINTS
	SCMP_SYS(kill),
	SCMP_SYS(unlink),
	SCMP_SYS(unlinkat),
	SCMP_SYS(nanosleep),
	SCMP_SYS(clock_nanosleep),
#endif
};

/* The further calls of the C library's loader for a program. */
static const int allowed_loader[] = {
	SCMP_SYS(read),
	SCMP_SYS(lseek),
};

/* Answered by a handler, see programs/program.c. */
static const int trapped[] = {
	SCMP_SYS(openat),
#ifdef __NR_open
	SCMP_SYS(open),
#endif
};

/* The calls that no driver needs once it is open. */
static const int denied[] = {
	/* other programs, other processes */
	SCMP_SYS(execve),
	SCMP_SYS(execveat),
	SCMP_SYS(ptrace),
	SCMP_SYS(process_vm_readv),
	SCMP_SYS(process_vm_writev),
	SCMP_SYS(process_madvise),
	SCMP_SYS(pidfd_getfd),
	SCMP_SYS(kcmp),
	/* credentials */
	SCMP_SYS(setuid),
	SCMP_SYS(setgid),
	SCMP_SYS(setreuid),
	SCMP_SYS(setregid),
	SCMP_SYS(setresuid),
	SCMP_SYS(setresgid),
	SCMP_SYS(setfsuid),
	SCMP_SYS(setfsgid),
	SCMP_SYS(setgroups),
	SCMP_SYS(capset),
	/* namespaces and mounts */
	SCMP_SYS(unshare),
	SCMP_SYS(setns),
	SCMP_SYS(chroot),
	SCMP_SYS(pivot_root),
	SCMP_SYS(mount),
	SCMP_SYS(umount2),
	SCMP_SYS(move_mount),
	SCMP_SYS(open_tree),
	SCMP_SYS(mount_setattr),
	SCMP_SYS(fsopen),
	SCMP_SYS(fsconfig),
	SCMP_SYS(fsmount),
	SCMP_SYS(fspick),
	SCMP_SYS(name_to_handle_at),
	SCMP_SYS(open_by_handle_at),
	/* ways around this filter, and into the kernel */
	SCMP_SYS(io_uring_setup),
	SCMP_SYS(io_uring_register),
	SCMP_SYS(bpf),
	SCMP_SYS(userfaultfd),
	SCMP_SYS(perf_event_open),
	SCMP_SYS(add_key),
	SCMP_SYS(request_key),
	SCMP_SYS(keyctl),
	SCMP_SYS(fanotify_init),
	/* the machine */
	SCMP_SYS(init_module),
	SCMP_SYS(finit_module),
	SCMP_SYS(delete_module),
	SCMP_SYS(kexec_load),
	SCMP_SYS(kexec_file_load),
	SCMP_SYS(reboot),
	SCMP_SYS(swapon),
	SCMP_SYS(swapoff),
	SCMP_SYS(acct),
	SCMP_SYS(quotactl),
	SCMP_SYS(syslog),
	SCMP_SYS(settimeofday),
	SCMP_SYS(clock_settime),
	SCMP_SYS(clock_adjtime),
	SCMP_SYS(adjtimex),
	SCMP_SYS(sethostname),
	SCMP_SYS(setdomainname),
	SCMP_SYS(iopl),
	SCMP_SYS(ioperm),
	/* signals to workers of the same user; tgkill() may be to itself */
	SCMP_SYS(tkill),
	SCMP_SYS(rt_sigqueueinfo),
	SCMP_SYS(rt_tgsigqueueinfo),
#ifndef GM_TESTPOINTS
	SCMP_SYS(kill),
	SCMP_SYS(pidfd_send_signal),
#endif
};

/* Calls that reach another process of the same user by an argument: to signal
 * it, to have it signalled by a file, or to limit it. */
static const struct {
	int call;
	struct scmp_arg_cmp arg;
} denied_arguments[] = {
	{ SCMP_SYS(prlimit64), { 0, SCMP_CMP_NE, 0, 0 } },
	{ SCMP_SYS(fcntl), { 1, SCMP_CMP_EQ, F_SETOWN, 0 } },
	{ SCMP_SYS(fcntl), { 1, SCMP_CMP_EQ, F_SETOWN_EX, 0 } },
	{ SCMP_SYS(ioctl), { 1, SCMP_CMP_EQ, FIOSETOWN, 0 } },
	{ SCMP_SYS(ioctl), { 1, SCMP_CMP_EQ, SIOCSPGRP, 0 } },
};

/* Connections to other hosts and services.  NCCL makes them. */
static const int denied_meeting[] = {
	SCMP_SYS(connect), SCMP_SYS(bind),    SCMP_SYS(listen),
	SCMP_SYS(accept),  SCMP_SYS(accept4),
};

/*
 * A message to an address, which no driver sends.  NCCL does: the C library's
 * getifaddrs() sends its question to the kernel so.  The target of sendmsg() is
 * invisible to a filter, so a message from an existing socket may still reach
 * another socket of the same kind on this machine.  There are no sockets of
 * other kinds.
 */
static const struct scmp_arg_cmp denied_address = { 4, SCMP_CMP_NE, 0, 0 };

/* Families other than AF_UNIX that NCCL uses to query interfaces and reach its
 * peers. */
static const int meeting_families[] = { AF_INET, AF_INET6, AF_NETLINK };

/* New namespaces.  A new user namespace would include the right to any
 * other. */
static const uint64_t denied_flags[] = {
	CLONE_NEWNS,   CLONE_NEWCGROUP, CLONE_NEWUTS, CLONE_NEWIPC,
	CLONE_NEWUSER, CLONE_NEWPID,    CLONE_NEWNET,
};

static const struct {
	uint32_t usual; /* action for calls outside of the list */
	uint32_t listed;
	const int *list;
	size_t n;
} filters[] = {
	[GM_CONFINE_TO_LIST] = { SCMP_ACT_KILL_PROCESS, SCMP_ACT_ALLOW, allowed,
				 N_OF(allowed) },
	[GM_CONFINE_PROGRAMS] = { SCMP_ACT_KILL_PROCESS, SCMP_ACT_ALLOW,
				  allowed, N_OF(allowed) },
	[GM_CONFINE_MEETING] = { SCMP_ACT_ALLOW, SCMP_ACT_ERRNO(EPERM), denied,
				 N_OF(denied) },
	[GM_CONFINE_BUILD] = { SCMP_ACT_ALLOW, SCMP_ACT_ERRNO(EPERM), denied,
			       N_OF(denied) },
	[GM_CONFINE_BUT_LIST] = { SCMP_ACT_ALLOW, SCMP_ACT_ERRNO(EPERM), denied,
				  N_OF(denied) },
	[GM_CONFINE_ALONE] = { SCMP_ACT_ALLOW, SCMP_ACT_ERRNO(EPERM), denied,
			       N_OF(denied) },
};

int gm_sandbox_user(uid_t uid, gid_t gid)
{
	if (geteuid() != 0)
		return 0;
	if (setgroups(0, NULL) < 0 || setresgid(gid, gid, gid) < 0 ||
	    setresuid(uid, uid, uid) < 0)
		return -errno;
	/* Verify the result, because this call must not fail unnoticed. */
	if (uid != 0 && (setresuid(-1, 0, -1) == 0 || geteuid() != uid))
		return -EPERM;
	return 0;
}

/* Every version of Landlock knows these.  No node of a device is made. */
#define WRITES                                                            \
	(LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_REMOVE_FILE | \
	 LANDLOCK_ACCESS_FS_MAKE_REG | LANDLOCK_ACCESS_FS_MAKE_DIR |      \
	 LANDLOCK_ACCESS_FS_REMOVE_DIR | LANDLOCK_ACCESS_FS_MAKE_FIFO |   \
	 LANDLOCK_ACCESS_FS_MAKE_SOCK | LANDLOCK_ACCESS_FS_MAKE_SYM |     \
	 LANDLOCK_ACCESS_FS_MAKE_CHAR | LANDLOCK_ACCESS_FS_MAKE_BLOCK)
/* Since the second version, with Linux 5.19, and the third, with 6.2. */
#define REFER    (UINT64_C(1) << 13)
#define TRUNCATE (UINT64_C(1) << 14)
#define WRITES_OF_DEV                                                     \
	(LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_REMOVE_FILE | \
	 LANDLOCK_ACCESS_FS_MAKE_REG)
#define READS                                                         \
	(LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR | \
	 LANDLOCK_ACCESS_FS_EXECUTE)
#define READS_OF_A_FILE \
	(LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_EXECUTE)

/* Landlock knows no right for these, or only since Linux 6.2 (truncate). */
static const int denied_files[] = {
	SCMP_SYS(chmod),        SCMP_SYS(fchmod),      SCMP_SYS(fchmodat),
	SCMP_SYS(chown),        SCMP_SYS(fchown),      SCMP_SYS(lchown),
	SCMP_SYS(fchownat),     SCMP_SYS(setxattr),    SCMP_SYS(lsetxattr),
	SCMP_SYS(fsetxattr),    SCMP_SYS(removexattr), SCMP_SYS(lremovexattr),
	SCMP_SYS(fremovexattr), SCMP_SYS(truncate),    SCMP_SYS(utime),
	SCMP_SYS(utimes),       SCMP_SYS(utimensat),
};

static int deny_attributes(void)
{
	scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);
	int rc = filter ? 0 : -ENOMEM;

	for (size_t i = 0; rc == 0 && i < N_OF(denied_files); i++)
		rc = seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM),
				      denied_files[i], 0);
	if (rc == 0)
		rc = seccomp_load(filter);
	if (filter)
		seccomp_release(filter);
	return rc;
}

/* Rights of this kernel's Landlock beyond WRITES. */
static uint64_t later_rights(void)
{
	long version = syscall(SYS_landlock_create_ruleset, NULL, 0,
			       LANDLOCK_CREATE_RULESET_VERSION);

	return (version >= 2 ? REFER : 0) | (version >= 3 ? TRUNCATE : 0);
}

/* Returns a set of rules over @handled, or -errno.  Rules that do not know
 * REFER forbid it everywhere, and a compiler moves files in its folder. */
static int make_rules(uint64_t handled, const char *folder)
{
	const struct landlock_ruleset_attr rights = { .handled_access_fs =
							      handled };
	int rules = (int)syscall(SYS_landlock_create_ruleset, &rights,
				 sizeof(rights), 0);

	if (rules < 0)
		return -errno;
	if (!folder || (handled & REFER))
		return rules;
	close(rules);
	return -EOPNOTSUPP;
}

/* A path that does not exist needs no rule. */
static int allow(int rules, const char *path, uint64_t rights)
{
	struct landlock_path_beneath_attr rule = { .allowed_access = rights };
	struct stat st;
	int rc = 0;

	rule.parent_fd = open(path, O_PATH | O_CLOEXEC);
	if (rule.parent_fd < 0)
		return errno == ENOENT || errno == EACCES ? 0 : -errno;
	if (fstat(rule.parent_fd, &st) == 0 && !S_ISDIR(st.st_mode))
		rule.allowed_access &= READS_OF_A_FILE;
	if (syscall(SYS_landlock_add_rule, rules, LANDLOCK_RULE_PATH_BENEATH,
		    &rule, 0) < 0)
		rc = -errno;
	close(rule.parent_fd);
	return rc;
}

/* The rules are closed, whatever @rc says. */
static int keep_rules(int rules, int rc)
{
	if (rc == 0 && (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
			syscall(SYS_landlock_restrict_self, rules, 0) < 0))
		rc = -errno;
	close(rules);
	return rc;
}

int gm_sandbox_files(const char *folder)
{
#ifdef GM_COVERED
	(void)folder;
	return 0; /* the runtime writes files at the end */
#else
	uint64_t later = later_rights();
	int rules = make_rules(WRITES | later, folder), rc;

	if (rules < 0)
		return rules;
	rc = allow(rules, "/dev", WRITES_OF_DEV | (later & TRUNCATE));
	if (rc == 0 && folder)
		rc = allow(rules, folder, WRITES | later);
	rc = keep_rules(rules, rc);
	return rc == 0 ? deny_attributes() : rc;
#endif
}

static int allow_folder_of(int rules, const char *file)
{
	char path[PATH_MAX], *slash;

	if (!realpath(file, path))
		return 0; /* a name that the loader looks for */
	slash = strrchr(path, '/');
	if (slash && slash != path)
		*slash = '\0';
	return allow(rules, path, READS);
}

static int allow_listed(int rules, const char *list)
{
	char path[PATH_MAX];
	int rc = 0;

	while (rc == 0 && list && *list) {
		size_t n = strcspn(list, ":;");

		snprintf(path, sizeof(path), "%.*s", (int)n, list);
		if (path[0] == '/')
			rc = allow(rules, path, READS);
		list += n + (list[n] != '\0');
	}
	return rc;
}

int gm_sandbox_reads(const char *library, const char *folder, const char *other)
{
#ifdef GM_COVERED
	(void)library;
	(void)folder;
	(void)other;
	return 0;
#else
	static const char *const systems[] = {
		"/usr",
		"/bin",
		"/lib",
		"/lib64",
		"/opt",
		"/etc/OpenCL",
		"/etc/alternatives",
		"/etc/ld.so.cache",
		"/etc/ld.so.preload",
		"/proc",
		"/sys",
		"/dev",
	};
	uint64_t refer = later_rights() & REFER;
	int rules = make_rules(READS | refer, folder), rc = 0;

	if (rules < 0)
		return rules;
	for (size_t i = 0; rc == 0 && i < N_OF(systems); i++)
		rc = allow(rules, systems[i], READS);
	if (rc == 0)
		rc = allow_folder_of(rules, "/proc/self/exe");
	if (rc == 0 && library[0] == '/')
		rc = allow_folder_of(rules, library);
	if (rc == 0)
		rc = allow_listed(rules, getenv("LD_LIBRARY_PATH"));
	if (rc == 0)
		rc = allow(rules, folder, READS | refer);
	if (rc == 0 && other)
		rc = allow(rules, other, READS);
	return keep_rules(rules, rc);
#endif
}

static bool is_family_left(enum gm_confine_how how, int family)
{
	if (family == AF_UNIX)
		return true;
	for (size_t i = 0;
	     how == GM_CONFINE_MEETING && i < N_OF(meeting_families); i++)
		if (meeting_families[i] == family)
			return true;
	return false;
}

/* One rule for each denied family up to the greatest allowed one, and one for
 * all above. */
static int deny_sockets(scmp_filter_ctx filter, enum gm_confine_how how)
{
	const struct scmp_arg_cmp beyond = { 0, SCMP_CMP_GT, AF_NETLINK, 0 };
	int rc = 0, family = AF_UNSPEC;

	for (; rc == 0 && family <= AF_NETLINK; family++) {
		struct scmp_arg_cmp arg = { 0, SCMP_CMP_EQ, (uint64_t)family,
					    0 };

		if (!is_family_left(how, family))
			rc = seccomp_rule_add_array(filter,
						    SCMP_ACT_ERRNO(EPERM),
						    SCMP_SYS(socket), 1, &arg);
	}
	if (rc == 0)
		rc = seccomp_rule_add_array(filter, SCMP_ACT_ERRNO(EPERM),
					    SCMP_SYS(socket), 1, &beyond);
	return rc;
}

static int deny_meeting(scmp_filter_ctx filter)
{
	int rc = seccomp_rule_add_array(filter, SCMP_ACT_ERRNO(EPERM),
					SCMP_SYS(sendto), 1, &denied_address);

	for (size_t i = 0; rc == 0 && i < N_OF(denied_meeting); i++)
		rc = seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM),
				      denied_meeting[i], 0);
	return rc;
}

/* The arguments of clone3() are invisible to a filter, and glibc works without
 * that call. */
static int deny_namespaces(scmp_filter_ctx filter)
{
	int rc = seccomp_rule_add(filter, SCMP_ACT_ERRNO(ENOSYS),
				  SCMP_SYS(clone3), 0);

	/* One rule for each flag: a filter can compare one bit for equality,
	 * but cannot test for any of several bits. */
	for (size_t i = 0; rc == 0 && i < N_OF(denied_flags); i++) {
		struct scmp_arg_cmp arg = { FLAGS_OF_CLONE, SCMP_CMP_MASKED_EQ,
					    denied_flags[i], denied_flags[i] };

		rc = seccomp_rule_add_array(filter, SCMP_ACT_ERRNO(EPERM),
					    SCMP_SYS(clone), 1, &arg);
	}
	return rc;
}

static int deny_others(scmp_filter_ctx filter)
{
	struct scmp_arg_cmp other = { 0, SCMP_CMP_NE, (uint64_t)getpid(), 0 };
	int rc = seccomp_rule_add_array(filter, SCMP_ACT_ERRNO(EPERM),
					SCMP_SYS(tgkill), 1, &other);

	for (size_t i = 0; rc == 0 && i < N_OF(denied_arguments); i++)
		rc = seccomp_rule_add_array(filter, SCMP_ACT_ERRNO(EPERM),
					    denied_arguments[i].call, 1,
					    &denied_arguments[i].arg);
	return rc;
}

/* A child would outlive the worker: threads alone are made. */
static int deny_children(scmp_filter_ctx filter)
{
	struct scmp_arg_cmp child = { FLAGS_OF_CLONE, SCMP_CMP_MASKED_EQ,
				      CLONE_THREAD, 0 };
	int rc = seccomp_rule_add_array(filter, SCMP_ACT_ERRNO(EPERM),
					SCMP_SYS(clone), 1, &child);

	if (rc == 0)
		rc = seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM),
				      SCMP_SYS(fork), 0);
	if (rc == 0)
		rc = seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM),
				      SCMP_SYS(vfork), 0);
	return rc;
}

/* The programs that a text has started stay in the group that ends with it. */
static int deny_groups(scmp_filter_ctx filter)
{
	int rc = seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM),
				  SCMP_SYS(setsid), 0);

	return rc ? rc
		  : seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM),
				     SCMP_SYS(setpgid), 0);
}

/* Allow signals to this process, as abort() sends them, and to no other. */
static int allow_programs(scmp_filter_ctx filter)
{
	struct scmp_arg_cmp self = { 0, SCMP_CMP_EQ, (uint64_t)getpid(), 0 };
	int rc;

	rc = seccomp_rule_add_array(filter, SCMP_ACT_ALLOW, SCMP_SYS(tgkill), 1,
				    &self);
	for (size_t i = 0; rc == 0 && i < N_OF(allowed_loader); i++)
		rc = seccomp_rule_add(filter, SCMP_ACT_ALLOW, allowed_loader[i],
				      0);
	for (size_t i = 0; rc == 0 && i < N_OF(trapped); i++)
		rc = seccomp_rule_add(filter, SCMP_ACT_TRAP, trapped[i], 0);
	return rc;
}

static bool is_left_out(enum gm_confine_how how, int call)
{
	if (how == GM_CONFINE_BUILD)
		return call == SCMP_SYS(execve) || call == SCMP_SYS(execveat);
	return how == GM_CONFINE_PROGRAMS && call == SCMP_SYS(tgkill);
}

static int load_filter(enum gm_confine_how how)
{
	scmp_filter_ctx filter = seccomp_init(filters[how].usual);
	int rc;

	if (!filter)
		return -ENOMEM;
	/* The close thread runs already. */
	rc = seccomp_attr_set(filter, SCMP_FLTATR_CTL_TSYNC, 1);
	/* The worker runs no code other than its own, so slowing down
	 * speculative loads would protect no data. */
	if (rc == 0)
		rc = seccomp_attr_set(filter, SCMP_FLTATR_CTL_SSB, 1);
	for (size_t i = 0; rc == 0 && i < filters[how].n; i++)
		if (!is_left_out(how, filters[how].list[i]))
			rc = seccomp_rule_add(filter, filters[how].listed,
					      filters[how].list[i], 0);
	if (rc == 0 && how == GM_CONFINE_PROGRAMS)
		rc = allow_programs(filter);
	if (rc == 0 && how >= GM_CONFINE_MEETING)
		rc = deny_sockets(filter, how);
	if (rc == 0 && how >= GM_CONFINE_MEETING)
		rc = deny_namespaces(filter);
	if (rc == 0 && how >= GM_CONFINE_MEETING)
		rc = deny_others(filter);
	if (rc == 0 && how >= GM_CONFINE_BUILD)
		rc = deny_meeting(filter);
	if (rc == 0 && how == GM_CONFINE_BUILD)
		rc = deny_groups(filter);
	if (rc == 0 && how == GM_CONFINE_ALONE)
		rc = deny_children(filter);
	if (rc == 0)
		rc = seccomp_load(filter);
	seccomp_release(filter);
	return rc;
}

int gm_sandbox_self(enum gm_confine_how how, const char **ret_step)
{
	int rc;

	*ret_step = "PR_SET_NO_NEW_PRIVS";
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return -errno;
#if defined(GM_SANITIZED) || defined(GM_COVERED)
	(void)load_filter;
	(void)how;
	rc = 0;
#else
	/* A core dump would contain clients' data, and a debugger of the same
	 * user could be a client. */
	*ret_step = "PR_SET_DUMPABLE";
	if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
		return -errno;
	*ret_step = "seccomp";
	rc = load_filter(how);
#endif
	return rc;
}
