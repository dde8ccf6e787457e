/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * confine: what a worker cannot do any more, and what it and a driver in it
 * still can.
 */

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/worker/control/sandbox.h"
#include "tests/support/tap.h"

#ifndef SYS_clone3
#define SYS_clone3 435
#endif

#if defined(GM_SANITIZED) || defined(GM_COVERED)
#define CONFINES false
#else
#define CONFINES true
#endif

/* A process that the filter should have stopped goes no further. */
static int refused(long rc, int error)
{
	if (rc == 0)
		_exit(99);
	return rc < 0 && errno == error;
}

static long clone_with(unsigned long flags)
{
	return syscall(SYS_clone, flags | SIGCHLD, 0, 0, 0, 0);
}

/* ---- beside a driver --------------------------------------------------- */

static int no_namespaces(void)
{
	static const unsigned long flags[] = {
		CLONE_NEWUSER,   CLONE_NEWNS,
		CLONE_NEWNET,    CLONE_NEWPID,
		CLONE_NEWIPC,    CLONE_NEWUTS,
		CLONE_NEWCGROUP, CLONE_NEWUSER | CLONE_NEWNET | CLONE_FS,
	};

	for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
		pid_t pid = (pid_t)clone_with(flags[i]);

		if (!refused(pid, EPERM))
			return 1;
	}
	return !refused(unshare(CLONE_NEWUSER), EPERM);
}

/* The C library makes threads without it then. */
static int no_clone3(void)
{
	return !refused(syscall(SYS_clone3, NULL, 0), ENOSYS);
}

static int no_other_sockets(void)
{
	return !refused(socket(AF_INET, SOCK_DGRAM, 0), EPERM) ||
	       !refused(socket(AF_NETLINK, SOCK_RAW, 0), EPERM);
}

/* The calls by which NCCL meets its peers, and no others. */
static int meets_by_sockets(void)
{
	struct sockaddr_in at = { .sin_family = AF_INET };
	struct ifaddrs *interfaces = NULL;
	socklen_t bytes = sizeof(at);
	int server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (server < 0 || client < 0 ||
	    bind(server, (void *)&at, sizeof(at)) != 0 ||
	    listen(server, 1) != 0 ||
	    getsockname(server, (void *)&at, &bytes) != 0 ||
	    connect(client, (void *)&at, sizeof(at)) != 0 ||
	    accept(server, NULL, NULL) < 0)
		return 1;
	/* The C library sends to an address of AF_NETLINK for it. */
	if (getifaddrs(&interfaces) != 0)
		return 2;
	freeifaddrs(interfaces);
	return !refused(socket(AF_PACKET, SOCK_RAW, 0), EPERM) ||
	       !refused(socket(AF_VSOCK, SOCK_STREAM, 0), EPERM) ||
	       !refused(socket(AF_IPX, SOCK_DGRAM, 0), EPERM) ||
	       !refused(execl("/bin/true", "true", (char *)NULL), EPERM);
}

/* The machine's NCCL, which needs no card for the name of a group. */
static int (*make_nccl_id)(void *id);

static int nccl_makes_an_id(void)
{
	char id[128];

	return make_nccl_id(id);
}

static int no_address(void)
{
	struct sockaddr_un to = { .sun_family = AF_UNIX, .sun_path = "/none" };
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	return fd < 0 ||
	       !refused(sendto(fd, "x", 1, 0, (void *)&to, sizeof(to)),
			EPERM) ||
	       !refused(connect(fd, (void *)&to, sizeof(to)), EPERM) ||
	       !refused(bind(fd, (void *)&to, sizeof(to)), EPERM);
}

static int peers_are_reached(void)
{
	char letter = 'y';
	struct iovec data = { &letter, 1 };
	struct msghdr msg = { .msg_iov = &data, .msg_iovlen = 1 };
	int pair[2];
	char byte;

	return socketpair(AF_UNIX, SOCK_DGRAM, 0, pair) != 0 ||
	       send(pair[0], "x", 1, MSG_DONTWAIT | MSG_NOSIGNAL) != 1 ||
	       sendmsg(pair[0], &msg, 0) != 1 ||
	       recv(pair[1], &byte, 1, 0) != 1 || byte != 'x' ||
	       recv(pair[1], &byte, 1, 0) != 1 || byte != 'y';
}

static void *set(void *flag)
{
	*(int *)flag = 1;
	return NULL;
}

/* As a driver does later on, too. */
static int threads_and_children_come_and_go(void)
{
	pthread_t thread;
	int flag = 0, status = 1;
	pid_t pid;

	if (pthread_create(&thread, NULL, set, &flag) != 0 ||
	    pthread_join(thread, NULL) != 0 || !flag)
		return 1;
	pid = fork();
	if (pid == 0)
		_exit(0);
	return pid < 0 || waitpid(pid, &status, 0) != pid || status != 0;
}

/* Workers have one user, who may signal and limit all of them. */
static int others_are_let_alone(void)
{
	pid_t other = getppid();
	siginfo_t info = { .si_code = SI_QUEUE };
	struct rlimit limit;
	int pair[2];

	return pipe(pair) != 0 || getrlimit(RLIMIT_CPU, &limit) != 0 ||
	       syscall(SYS_tgkill, getpid(), gettid(), 0) != 0 ||
	       !refused(syscall(SYS_tgkill, other, other, 0), EPERM) ||
	       !refused(syscall(SYS_tkill, other, 0), EPERM) ||
	       !refused(syscall(SYS_rt_sigqueueinfo, other, 0, &info), EPERM) ||
	       !refused(syscall(SYS_rt_tgsigqueueinfo, other, other, 0, &info),
			EPERM) ||
	       !refused(prlimit(other, RLIMIT_CPU, &limit, NULL), EPERM) ||
	       !refused(fcntl(pair[0], F_SETOWN, other), EPERM) ||
	       !refused(ioctl(pair[0], FIOSETOWN, &other), EPERM);
}

static int no_children(void)
{
	pthread_t thread;
	int flag = 0;
	pid_t pid = fork();

	if (!refused(pid, EPERM) || !refused(clone_with(CLONE_VM), EPERM))
		return 1;
	return pthread_create(&thread, NULL, set, &flag) != 0 ||
	       pthread_join(thread, NULL) != 0 || !flag;
}

static int children_stay_in_the_group(void)
{
	pid_t pid = fork();
	int status = 1;

	if (pid == 0)
		_exit(!refused(setsid(), EPERM) ||
		      !refused(setpgid(0, 0), EPERM));
	return pid < 0 || waitpid(pid, &status, 0) != pid || status != 0;
}

static int a_drivers_calls_are_left(void)
{
	int fd = memfd_create("driver", MFD_CLOEXEC), n = 0;
	void *at = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);

	return fd < 0 || ftruncate(fd, 4096) != 0 || at == MAP_FAILED ||
	       munmap(at, 4096) != 0 ||
	       (ioctl(fd, FIONREAD, &n) != 0 && errno == EPERM) ||
	       close(fd) != 0 || access("/dev/null", R_OK) != 0;
}

/* ---- known calls only -------------------------------------------------- */

static int opens_a_socket(void)
{
	return socket(AF_UNIX, SOCK_DGRAM, 0) < 0;
}

static int asks_what_is_there(void)
{
	unsigned char there;
	void *at = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return at == MAP_FAILED || mincore(at, 4096, &there) != 0 ||
	       munmap(at, 4096) != 0;
}

static int opens_a_file(void)
{
	return open("/dev/null", O_RDONLY | O_CLOEXEC) < 0;
}

static int signals_itself(void)
{
	return syscall(SYS_tgkill, getpid(), gettid(), 0) != 0;
}

static int signals_another(void)
{
	return syscall(SYS_tgkill, 1, 1, 0) != 0;
}

static int reads_what_it_has(void)
{
	char byte;
	int fd = memfd_create("program", MFD_CLOEXEC);

	return write(fd, "x", 1) != 1 || pread(fd, &byte, 1, 0) != 1 ||
	       lseek(fd, 0, SEEK_SET) != 0 || read(fd, &byte, 1) != 1;
}

/* Run a process that does this once it is confined.  Returns its exit status,
 * or 1000 and the signal that ended it. */
static int end_of(enum gm_confine_how how, int (*play)(void))
{
	const char *step;
	int status = -1;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		if (gm_sandbox_self(how, &step) != 0)
			_exit(98);
		_exit(play());
	}
	waitpid(pid, &status, 0);
	return WIFSIGNALED(status) ? 1000 + WTERMSIG(status)
				   : WEXITSTATUS(status);
}

/* ---- files --------------------------------------------------------------- */

static char folder[64]; /* with a file "there" */

static int is_open(const char *path, int flags)
{
	int fd = open(path, flags | O_CLOEXEC, 0600);

	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

static void *write_in_a_thread(void *wrong)
{
	*(int *)wrong = is_open("there", O_WRONLY);
	return NULL;
}

static int nothing_is_written(void)
{
	pthread_t thread;
	int wrong = 1;

	if (chdir(folder) != 0 || !is_open("there", O_RDONLY) ||
	    is_open("there", O_WRONLY) || is_open("new", O_CREAT | O_WRONLY) ||
	    !refused(unlink("there"), EACCES) ||
	    !refused(rename("there", "here"), EACCES) ||
	    !refused(link("there", "too"), EACCES) ||
	    !refused(mkdir("more", 0700), EACCES) ||
	    !refused(symlink("there", "by"), EACCES) ||
	    !refused(chmod(".", 0777), EPERM) ||
	    !refused(fchmodat(AT_FDCWD, "there", 0666, 0), EPERM) ||
	    !refused(chown("there", geteuid(), getegid()), EPERM) ||
	    !refused(truncate("there", 0), EPERM) ||
	    !refused(utimensat(AT_FDCWD, "there", NULL, 0), EPERM))
		return 1;
	return pthread_create(&thread, NULL, write_in_a_thread, &wrong) != 0 ||
	       pthread_join(thread, NULL) != 0 || wrong;
}

/* A driver needs them. */
static int devices_are_used(void)
{
	char path[64];

	snprintf(path, sizeof(path), "/dev/shm/gpumap-test.%d", (int)getpid());
	return !is_open("/dev/null", O_RDWR) ||
	       !is_open(path, O_CREAT | O_RDWR) || unlink(path) != 0;
}

/* As end_of(), of a process that has given up its files.  98: this kernel
 * cannot take them away. */
static int end_without_files(int (*play)(void), bool has_folder)
{
	int status = -1;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		int rc = gm_sandbox_files(has_folder ? folder : NULL);

		if (rc == 0 && has_folder)
			rc = gm_sandbox_reads("libm.so.6", folder, NULL);

		_exit(rc == -ENOSYS || rc == -EOPNOTSUPP ? 98
		      : rc < 0                           ? 97
							 : play());
	}
	waitpid(pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1000;
}

static void files_are_given_up(void)
{
	char path[80];
	int status;

	snprintf(folder, sizeof(folder), "/tmp/gpumap-sandbox.%d",
		 (int)getpid());
	snprintf(path, sizeof(path), "%s/there", folder);
	if (!EQ(mkdir(folder, 0700), 0) ||
	    !OK(is_open(path, O_CREAT | O_WRONLY)))
		return;
	status = end_without_files(nothing_is_written, false);
	if (status == 98) {
		LACK("landlock", 2, "this kernel has no Landlock");
	} else {
		EQ(status, 0);
		EQ(end_without_files(devices_are_used, false), 0);
	}
	unlink(path);
	EQ(rmdir(folder), 0);
}

/* A compiler has its folder, and reads no other that is not the system's. */
static int a_folder_is_kept(void)
{
	char deep[96], from[96], to[96], other[96];

	snprintf(deep, sizeof(deep), "%s/deep", folder);
	snprintf(from, sizeof(from), "%s/new", folder);
	snprintf(to, sizeof(to), "%s/deep/new", folder);
	snprintf(other, sizeof(other), "%s.beside", folder);
	return mkdir(deep, 0700) != 0 || !is_open(from, O_CREAT | O_WRONLY) ||
	       rename(from, to) != 0 || !is_open(to, O_RDONLY) ||
	       chmod(to, 0777) == 0 || unlink(to) != 0 || rmdir(deep) != 0 ||
	       is_open(other, O_RDONLY) || is_open(other, O_WRONLY) ||
	       !is_open("/usr/bin/env", O_RDONLY) ||
	       is_open("/etc/passwd", O_RDONLY);
}

static void a_compiler_has_its_folder(void)
{
	char other[96];
	int status;

	snprintf(folder, sizeof(folder), "/tmp/gpumap-sandbox.%d",
		 (int)getpid());
	snprintf(other, sizeof(other), "%s.beside", folder);
	if (!EQ(mkdir(folder, 0700), 0) ||
	    !OK(is_open(other, O_CREAT | O_WRONLY)))
		return;
	status = end_without_files(a_folder_is_kept, true);
	if (status == 98)
		LACK("landlock", 1, "this kernel's Landlock moves no files");
	else
		EQ(status, 0);
	unlink(other);
	EQ(rmdir(folder), 0);
}

static void the_real_nccl_starts(void)
{
	void *library = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);

	if (library)
		*(void **)&make_nccl_id = dlsym(library, "ncclGetUniqueId");
	if (!make_nccl_id) {
		LACK("nccl", 1, "the linker finds no libnccl.so.2");
		return;
	}
	setenv("NCCL_SOCKET_IFNAME", "lo", 1);
	setenv("NCCL_IB_DISABLE", "1", 1);
	setenv("NCCL_RAS_ENABLE", "0", 1);
	EQ(end_of(GM_CONFINE_MEETING, nccl_makes_an_id), 0);
}

TAP_CASE()
{
	files_are_given_up();
	a_compiler_has_its_folder();
	if (!CONFINES) {
		SKIP(1, "this build keeps its system calls");
		return tap_done();
	}
	EQ(end_of(GM_CONFINE_MEETING, meets_by_sockets), 0);
	the_real_nccl_starts();
	EQ(end_of(GM_CONFINE_MEETING, no_namespaces), 0);
	EQ(end_of(GM_CONFINE_MEETING, no_clone3), 0);
	EQ(end_of(GM_CONFINE_MEETING, peers_are_reached), 0);
	EQ(end_of(GM_CONFINE_MEETING, threads_and_children_come_and_go), 0);
	EQ(end_of(GM_CONFINE_MEETING, a_drivers_calls_are_left), 0);
	EQ(end_of(GM_CONFINE_MEETING, others_are_let_alone), 0);
	EQ(end_of(GM_CONFINE_BUILD, others_are_let_alone), 0);
	EQ(end_of(GM_CONFINE_BUILD, children_stay_in_the_group), 0);
	EQ(end_of(GM_CONFINE_BUT_LIST, no_namespaces), 0);
	EQ(end_of(GM_CONFINE_BUT_LIST, no_clone3), 0);
	EQ(end_of(GM_CONFINE_BUT_LIST, no_other_sockets), 0);
	EQ(end_of(GM_CONFINE_BUT_LIST, no_address), 0);
	EQ(end_of(GM_CONFINE_BUT_LIST, peers_are_reached), 0);
	EQ(end_of(GM_CONFINE_BUT_LIST, threads_and_children_come_and_go), 0);
	EQ(end_of(GM_CONFINE_BUT_LIST, a_drivers_calls_are_left), 0);
	EQ(end_of(GM_CONFINE_BUT_LIST, others_are_let_alone), 0);
	EQ(end_of(GM_CONFINE_ALONE, no_address), 0);
	EQ(end_of(GM_CONFINE_ALONE, no_children), 0);
	EQ(end_of(GM_CONFINE_ALONE, others_are_let_alone), 0);
	EQ(end_of(GM_CONFINE_TO_LIST, opens_a_socket), 1000 + SIGSYS);
	EQ(end_of(GM_CONFINE_TO_LIST, asks_what_is_there), 0);
	EQ(end_of(GM_CONFINE_PROGRAMS, opens_a_socket), 1000 + SIGSYS);
	EQ(end_of(GM_CONFINE_PROGRAMS, opens_a_file), 1000 + SIGSYS);
	EQ(end_of(GM_CONFINE_PROGRAMS, signals_another), 1000 + SIGSYS);
	EQ(end_of(GM_CONFINE_PROGRAMS, signals_itself), 0);
	EQ(end_of(GM_CONFINE_PROGRAMS, reads_what_it_has), 0);
	EQ(end_of(GM_CONFINE_PROGRAMS, asks_what_is_there), 0);
	return tap_done();
}
