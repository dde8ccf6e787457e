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

static int load_filter(void)
{
	scmp_filter_ctx filter = seccomp_init(SCMP_ACT_KILL_PROCESS);
	int rc;

	if (!filter)
		return -ENOMEM;
	/* The closer's thread runs already. */
	rc = seccomp_attr_set(filter, SCMP_FLTATR_CTL_TSYNC, 1);
	/* The worker runs no code but its own: a slower speculation of its
	 * loads would protect nobody. */
	if (rc == 0)
		rc = seccomp_attr_set(filter, SCMP_FLTATR_CTL_SSB, 1);
	for (size_t i = 0; rc == 0 && i < N_OF(allowed); i++)
		rc = seccomp_rule_add(filter, SCMP_ACT_ALLOW, allowed[i], 0);
	if (rc == 0)
		rc = seccomp_load(filter);
	seccomp_release(filter);
	return rc;
}

int gm_confine_self(const char **ret_step)
{
	int rc;

	*ret_step = "PR_SET_NO_NEW_PRIVS";
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return -errno;
#if defined(GM_SANITIZED) || defined(GM_COVERED)
	(void)load_filter;
	rc = 0;
#else
	/* A core would hold what clients computed, and a debugger of the same
	 * user could be a client. */
	*ret_step = "PR_SET_DUMPABLE";
	if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
		return -errno;
	*ret_step = "seccomp";
	rc = load_filter();
#endif
	return rc;
}
