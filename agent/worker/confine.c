/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/worker/confine.h"

#include <errno.h>
#include <grp.h>
#include <seccomp.h>
#include <sys/prctl.h>
#include <unistd.h>

#define N_OF(array) (sizeof(array) / sizeof((array)[0]))

/* What is called after set-up, and what the C library calls for us then. */
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

/* What no driver needs once it is open. */
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
	/* other hosts, other services */
	SCMP_SYS(connect),
	SCMP_SYS(bind),
	SCMP_SYS(listen),
	SCMP_SYS(accept),
	SCMP_SYS(accept4),
	/* who we are */
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
	/* where we are */
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
#ifndef GM_TESTPOINTS
	SCMP_SYS(kill),
	SCMP_SYS(pidfd_send_signal),
#endif
};

static const struct {
	uint32_t usual; /* for what is not in the list */
	uint32_t listed;
	const int *list;
	size_t n;
} filters[] = {
	[GM_CONFINE_TO_LIST] = { SCMP_ACT_KILL_PROCESS, SCMP_ACT_ALLOW, allowed,
				 N_OF(allowed) },
	[GM_CONFINE_BUT_LIST] = { SCMP_ACT_ALLOW, SCMP_ACT_ERRNO(EPERM), denied,
				  N_OF(denied) },
};

int gm_confine_user(uid_t uid, gid_t gid)
{
	if (geteuid() != 0)
		return 0;
	if (setgroups(0, NULL) < 0 || setresgid(gid, gid, gid) < 0 ||
	    setresuid(uid, uid, uid) < 0)
		return -errno;
	/* Not taken on trust: of all calls this one must not fail quietly. */
	if (uid != 0 && (setresuid(-1, 0, -1) == 0 || geteuid() != uid))
		return -EPERM;
	return 0;
}

static int load_filter(enum gm_confine_how how)
{
	scmp_filter_ctx filter = seccomp_init(filters[how].usual);
	int rc;

	if (!filter)
		return -ENOMEM;
	/* The closer's thread runs already. */
	rc = seccomp_attr_set(filter, SCMP_FLTATR_CTL_TSYNC, 1);
	/* The worker runs no code but its own: a slower speculation of its
	 * loads would protect nobody. */
	if (rc == 0)
		rc = seccomp_attr_set(filter, SCMP_FLTATR_CTL_SSB, 1);
	for (size_t i = 0; rc == 0 && i < filters[how].n; i++)
		rc = seccomp_rule_add(filter, filters[how].listed,
				      filters[how].list[i], 0);
	if (rc == 0)
		rc = seccomp_load(filter);
	seccomp_release(filter);
	return rc;
}

int gm_confine_self(enum gm_confine_how how, const char **ret_step)
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
	/* A core would hold what clients computed, and a debugger of the same
	 * user could be a client. */
	*ret_step = "PR_SET_DUMPABLE";
	if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
		return -errno;
	*ret_step = "seccomp";
	rc = load_filter(how);
#endif
	return rc;
}
