/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/common/memory_file.h"
#include "agent/daemon/base/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/common/close_thread.h"
#include "agent/common/wire.h"
#include "agent/daemon/base/fd_limits.h"
#include "agent/daemon/base/oom.h"

#define UNDONE_MAX 64u
#define FD_CLEAR   16  /* above every number that a child finds something at */
#define NOT_LOADED 127 /* by the dynamic linker */

#ifndef SYS_process_mrelease /* Linux 5.15; the same for all machines */
#define SYS_process_mrelease 448
#endif
/* Killed, and not known to have ended: looked at now and then. */
static pid_t undone[UNDONE_MAX];
static uint32_t n_undone;

/* While another process reads the child's files in /proc, as ps does, the
 * kernel takes them out of its caches during the reaping, and spins there for
 * as long as a thread of the ending process has no CPU: seconds, on a busy
 * machine.  So a thread of this process reaps. */
static struct gm_close_thread reaper;
static pthread_once_t reaper_once = PTHREAD_ONCE_INIT;

static void make_reaper(void)
{
	gm_close_thread_init(&reaper);
}

static void reap_now(void *pid)
{
	waitpid((pid_t)(intptr_t)pid, NULL, 0);
}

static void reap(pid_t pid)
{
	pthread_once(&reaper_once, make_reaper);
	gm_close_thread_call(&reaper, reap_now, (void *)(intptr_t)pid);
}

/* The child stays a zombie until reap(). */
static bool has_ended(pid_t pid, siginfo_t *ret_info)
{
	*ret_info = (siginfo_t){ 0 };
	return waitid(P_PID, (id_t)pid, ret_info,
		      WEXITED | WNOHANG | WNOWAIT) == 0 &&
	       ret_info->si_pid != 0;
}

void gm_spawn_tidy(void)
{
	siginfo_t info;
	uint32_t left = 0;

	for (uint32_t i = 0; i < n_undone; i++) {
		if (has_ended(undone[i], &info))
			reap(undone[i]);
		else
			undone[left++] = undone[i];
	}
	n_undone = left;
}

/* One that sleeps in a driver does not end at once, if ever. */
static void undo(pid_t pid)
{
	kill(pid, SIGKILL);
	gm_spawn_tidy();
	/* With so many of them, a zombie more until we end is the least. */
	if (n_undone < UNDONE_MAX)
		undone[n_undone++] = pid;
}

/* Move @fd out of the way of the numbers that dup2 will take. */
static int clear_of_children(int fd)
{
	int moved, error;

	if (fd < 0 || fd >= FD_CLEAR)
		return fd;
	moved = fcntl(fd, F_DUPFD_CLOEXEC, FD_CLEAR);
	error = errno;
	close(fd);
	errno = error;
	return moved;
}

int gm_spawn_memfd(const char *name, uint64_t bytes)
{
	int fd = gm_memory_file(name), error;

	if (fd < 0)
		return fd;
	fd = clear_of_children(fd);
	if (fd < 0)
		return -errno;
	if (ftruncate(fd, (off_t)bytes) == 0 &&
	    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_SEAL) == 0)
		return fd;
	error = errno;
	close(fd);
	return -error;
}

/* Both ends, out of the way. */
static int make_pair(int ret_pair[2])
{
	int pair[2], error;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0)
		return -errno;
	pair[0] = clear_of_children(pair[0]);
	pair[1] = clear_of_children(pair[1]);
	if (pair[0] >= 0 && pair[1] >= 0 &&
	    fcntl(pair[0], F_SETFL, O_NONBLOCK) == 0) {
		ret_pair[0] = pair[0];
		ret_pair[1] = pair[1];
		return 0;
	}
	error = errno;
	if (pair[0] >= 0)
		close(pair[0]);
	if (pair[1] >= 0)
		close(pair[1]);
	return -error;
}

/* Descriptors of a child, beside the socket. */
struct child_fds {
	int journal, group_page; /* -1 twice: neither */
	bool is_heard;           /* both of its outputs are the socket */
};

static int describe_heard(posix_spawn_file_actions_t *files, int socket)
{
	int error =
		posix_spawn_file_actions_adddup2(files, socket, STDOUT_FILENO);

	if (error == 0)
		error = posix_spawn_file_actions_adddup2(files, socket,
							 STDERR_FILENO);
	if (error == 0)
		error = posix_spawn_file_actions_addclosefrom_np(
			files, STDERR_FILENO + 1);
	return error;
}

static int describe(posix_spawn_file_actions_t *files, int socket,
		    const struct child_fds *fds)
{
	int error;

	error = posix_spawn_file_actions_addopen(files, STDIN_FILENO,
						 "/dev/null", O_RDONLY, 0);
	if (fds->is_heard)
		return error ? error : describe_heard(files, socket);
	if (error == 0)
		error = posix_spawn_file_actions_adddup2(files, STDERR_FILENO,
							 STDOUT_FILENO);
	if (error == 0)
		error = posix_spawn_file_actions_adddup2(files, socket,
							 GM_FD_SUPERVISOR);
	if (error == 0 && fds->journal >= 0)
		error = posix_spawn_file_actions_adddup2(files, fds->journal,
							 GM_FD_JOURNAL);
	if (error == 0 && fds->group_page >= 0)
		error = posix_spawn_file_actions_adddup2(files, fds->group_page,
							 GM_FD_GROUP_PAGE);
	if (error == 0)
		error = posix_spawn_file_actions_addclosefrom_np(
			files, fds->group_page >= 0 ? GM_FD_GROUP_PAGE + 1
						    : GM_FD_SUPERVISOR + 1);
	return error;
}

/* No signal blocked or ignored, whatever we do with ours. */
static int behave(posix_spawnattr_t *how)
{
	sigset_t none, all;

	sigemptyset(&none);
	sigfillset(&all);
	posix_spawnattr_setsigmask(how, &none);
	posix_spawnattr_setsigdefault(how, &all);
	posix_spawnattr_setpgroup(how, 0);
	return posix_spawnattr_setflags(how, POSIX_SPAWN_SETSIGMASK |
						     POSIX_SPAWN_SETSIGDEF |
						     POSIX_SPAWN_SETPGROUP);
}

static int start(char *const argv[], char *const env[], int socket,
		 const struct child_fds *fds, pid_t *ret_pid)
{
	posix_spawn_file_actions_t files;
	posix_spawnattr_t how;
	int error;

	posix_spawn_file_actions_init(&files);
	posix_spawnattr_init(&how);
	error = describe(&files, socket, fds);
	if (error == 0)
		error = behave(&how);
	if (error == 0)
		error = posix_spawn(ret_pid, argv[0], &files, &how, argv, env);
	if (error == 0)
		gm_oom_offer(*ret_pid);
	posix_spawnattr_destroy(&how);
	posix_spawn_file_actions_destroy(&files);
	return -error;
}

static int spawn(char *const argv[], char *const env[],
		 const struct child_fds *fds, struct gm_spawned *ret_child)
{
	struct gm_spawned child;
	int pair[2] = { -1, -1 };
	int error = make_pair(pair);

	if (error)
		return error;
	error = start(argv, env, pair[1], fds, &child.pid);
	close(pair[1]);
	if (error) {
		close(pair[0]);
		return error;
	}

	/* The child is ours and not reaped, so its pid is still its own. */
	child.pidfd = (int)syscall(SYS_pidfd_open, child.pid, 0);
	if (child.pidfd < 0) {
		error = -errno;
		undo(child.pid);
		close(pair[0]);
		return error;
	}
	child.socket = pair[0];
	*ret_child = child;
	return 0;
}

/* The child has the whole limit. */
static int spawn_unlimited(char *const argv[], char *const env[],
			   const struct child_fds *fds,
			   struct gm_spawned *ret_child)
{
	int error;

	gm_spawn_tidy();
	gm_fd_limits_open_reserve();
	error = spawn(argv, env, fds, ret_child);
	gm_fd_limits_close_reserve();
	return error;
}

int gm_spawn(char *const argv[], char *const env[], int journal, int group_page,
	     struct gm_spawned *ret_child)
{
	const struct child_fds fds = { journal, group_page, false };

	return spawn_unlimited(argv, env, &fds, ret_child);
}

int gm_spawn_heard(char *const argv[], char *const env[],
		   struct gm_spawned *ret_child)
{
	static const struct child_fds fds = { -1, -1, true };

	return spawn_unlimited(argv, env, &fds, ret_child);
}

void gm_spawn_undo(const struct gm_spawned *child)
{
	undo(child->pid);
}

static void free_memory(void *pidfd)
{
	int fd = (int)(intptr_t)pidfd;

	syscall(SYS_process_mrelease, fd, 0);
	close(fd);
}

/* Not the reaper: this may wait for the child. */
void gm_spawn_abandon(const struct gm_spawned *child)
{
	static struct gm_close_thread releaser;
	static bool is_made;
	int fd = fcntl(child->pidfd, F_DUPFD_CLOEXEC, FD_CLEAR);

	if (!is_made)
		gm_close_thread_init(&releaser);
	is_made = true;
	if (fd >= 0)
		gm_close_thread_call(&releaser, free_memory,
				     (void *)(intptr_t)fd);
	undo(child->pid);
}

bool gm_spawn_lost(const struct gm_spawned *child, pid_t thread)
{
	return syscall(SYS_tgkill, child->pid, thread, 0) != 0 &&
	       errno == ESRCH;
}

int gm_spawn_reap(const struct gm_spawned *child, char ret_how[64],
		  int *ret_status)
{
	siginfo_t info;
	const char *name;

	if (!has_ended(child->pid, &info))
		return 0;
	reap(child->pid);
	if (info.si_code == CLD_EXITED) {
		snprintf(ret_how, 64, "exited with status %d%s", info.si_status,
			 info.si_status == NOT_LOADED
				 ? ": ldd shows which library it lacks"
				 : "");
		*ret_status = info.si_status;
		return 1;
	}
	name = sigabbrev_np(info.si_status);
	snprintf(ret_how, 64, "killed by SIG%s", name ? name : "?");
	*ret_status = -1;
	return 1;
}

int gm_spawn_stopped(const struct gm_spawned *child)
{
	siginfo_t info = { 0 };

	return waitid(P_PID, (id_t)child->pid, &info,
		      WSTOPPED | WNOHANG | WNOWAIT) == 0 &&
	       info.si_pid != 0;
}
