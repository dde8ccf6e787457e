/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * build: gpumap-build, with this test in a worker's place, and PoCL's compiler.
 */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/device/build_wire.h"
#include "tests/support/tap.h"

#define FORM                                  \
	"__global uchar *dst, ulong dst_at, " \
	"__global uchar *src, ulong src_at, ulong n"
#define WAIT_MS 120000

static char cache[] = "/tmp/gpumap-test-build.XXXXXX";
static char library[256];

struct server {
	pid_t pid;
	int socket;
	int made;
};

static bool read_icd(void)
{
	FILE *icd = fopen("/etc/OpenCL/vendors/pocl.icd", "r");

	if (icd && fgets(library, sizeof(library), icd))
		library[strcspn(library, "\n")] = '\0';
	if (icd)
		fclose(icd);
	return library[0];
}

static struct server start(const char *of, const char *limit)
{
	const char *build = getenv("abs_top_builddir");
	char path[4096];
	int pair[2];
	struct server s = { .made = -1 };

	snprintf(path, sizeof(path), "%s/agent/worker/gpumap-build",
		 build ? build : ".");
	EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	s.pid = fork();
	if (s.pid == 0) {
		dup2(pair[1], GM_BUILD_FD);
		execl(path, path, "--library", of, "--device", "", "--cache",
		      cache, "--limit", limit, (char *)NULL);
		_exit(127);
	}
	close(pair[1]);
	s.socket = pair[0];
	return s;
}

/* Without looking at the answer. */
static void ask(struct server *s, const char *text, const char *kernel)
{
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(2 * sizeof(int))];
	} control = { .head = { .cmsg_level = SOL_SOCKET,
				.cmsg_type = SCM_RIGHTS,
				.cmsg_len = CMSG_LEN(2 * sizeof(int)) } };
	struct gm_build_ask words = { .options = "-cl-kernel-arg-info" };
	struct iovec part = { &words, sizeof(words) };
	struct msghdr message = { .msg_iov = &part,
				  .msg_iovlen = 1,
				  .msg_control = &control,
				  .msg_controllen = sizeof(control) };
	int fds[2] = { memfd_create("text", MFD_CLOEXEC),
		       memfd_create("made", MFD_CLOEXEC) };

	snprintf(words.kernel, sizeof(words.kernel), "%s", kernel);
	EQ(write(fds[0], text, strlen(text)), (ssize_t)strlen(text));
	memcpy(CMSG_DATA(&control.head), fds, sizeof(fds));
	EQ(sendmsg(s->socket, &message, MSG_NOSIGNAL), (ssize_t)sizeof(words));
	close(fds[0]);
	if (s->made >= 0)
		close(s->made);
	s->made = fds[1];
}

static bool has_answered(const struct server *s)
{
	struct pollfd polled = { .fd = s->socket, .events = POLLIN };

	return poll(&polled, 1, 0) > 0;
}

/* A status of 0 is that of the file then. */
static struct gm_build_answer answer_of(struct server *s)
{
	struct pollfd polled = { .fd = s->socket, .events = POLLIN };
	struct gm_build_answer answer = { .status = -EPIPE };

	OK(poll(&polled, 1, WAIT_MS) == 1);
	if (recv(s->socket, &answer, sizeof(answer), 0) !=
	    (ssize_t)sizeof(answer))
		return (struct gm_build_answer){ .status = -EPIPE };
	if (answer.status == 0)
		EQ(pread(s->made, &answer, sizeof(answer), 0),
		   (ssize_t)sizeof(answer));
	return answer;
}

static int end_of(struct server *s)
{
	int status = -1;

	close(s->socket);
	close(s->made);
	waitpid(s->pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1000;
}

/* Processes that have our folder among their arguments, and the last one that
 * is not @other. */
static int n_processes(pid_t other, pid_t *ret_pid)
{
	DIR *proc = opendir("/proc");
	const struct dirent *entry;
	int n = 0;

	while (proc && (entry = readdir(proc))) {
		char path[300], words[2048] = "";
		ssize_t bytes;
		int fd;

		snprintf(path, sizeof(path), "/proc/%s/cmdline", entry->d_name);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		bytes = fd < 0 ? 0 : read(fd, words, sizeof(words) - 1);
		if (fd >= 0)
			close(fd);
		for (ssize_t i = 0; i < bytes; i++)
			if (words[i] == '\0')
				words[i] = ' ';
		if (!strstr(words, cache))
			continue;
		n++;
		if (ret_pid && atoi(entry->d_name) != other)
			*ret_pid = atoi(entry->d_name);
	}
	if (proc)
		closedir(proc);
	return n;
}

/* ---- cases --------------------------------------------------------------- */

static void a_text_is_compiled(void)
{
	struct server s = start(library, "60");
	struct stat st;

	ask(&s, "__kernel void one(" FORM ") { dst[dst_at] = src[src_at]; }",
	    "one");
	EQ(answer_of(&s).status, 0);
	OK(fstat(s.made, &st) == 0 &&
	   st.st_size > (off_t)sizeof(struct gm_build_answer) + 100);
	ask(&s, "__kernel void one(" FORM ") { dst[0] = nothing; }", "one");
	EQ(answer_of(&s).status, -ENOEXEC);
	ask(&s, "__kernel void one(" FORM ") { }", "two");
	EQ(answer_of(&s).status, -ENOENT);
	ask(&s, "__kernel void one(ulong n) { }", "one");
	EQ(answer_of(&s).status, -ENOEXEC);
	EQ(end_of(&s), 0);
}

static void a_library_that_is_none_is_told(void)
{
	struct server s = start("libm.so.6", "60");
	struct gm_build_answer answer;

	ask(&s, "", "");
	answer = answer_of(&s);
	EQ(answer.status, -ELIBBAD);
	OK(strstr(answer.why, "libm.so.6 is no vendor's library"));
	EQ(end_of(&s), 0);
}

/* An error quotes the line that it is about. */
static void files_of_others_are_not_read(void)
{
	struct server s = start(library, "60");
	struct gm_build_answer answer;
	char path[64], text[256];
	FILE *file;

	snprintf(path, sizeof(path), "/tmp/gpumap-test-secret.%d",
		 (int)getpid());
	file = fopen(path, "w");
	if (OK(file != NULL)) {
		fprintf(file, "the_secret is no declaration;\n");
		fclose(file);
	}
	snprintf(text, sizeof(text), "#include \"%s\"\n", path);
	ask(&s, text, "one");
	answer = answer_of(&s);
	EQ(answer.status, -ENOEXEC);
	if (strstr(answer.why, "the_secret"))
		LACK("landlock", 1, "this kernel's Landlock moves no files");
	else
		OK(strstr(answer.why, path) != NULL);
	unlink(path);
	EQ(end_of(&s), 0);
}

/* A text that doubles itself again and again. */
static void write_bomb(char *text, size_t room)
{
	size_t n = (size_t)snprintf(text, room, "#define A0 1+1\n");

	for (int i = 1; i < 40; i++)
		n += (size_t)snprintf(text + n, room - n,
				      "#define A%d A%d+A%d\n", i, i - 1, i - 1);
	snprintf(text + n, room - n,
		 "__kernel void one(" FORM ") { dst[0] = A39; }");
}

static void a_text_has_its_time(void)
{
	static char bomb[8192];
	struct server s = start(library, "2");
	struct gm_build_answer answer;

	write_bomb(bomb, sizeof(bomb));
	ask(&s, bomb, "one");
	answer = answer_of(&s);
	EQ(answer.status, -ETIMEDOUT);
	OK(strstr(answer.why, "more than 2 s of a CPU"));
	NOTE("%s", answer.why);
	EQ(n_processes(0, NULL), 1);
	EQ(end_of(&s), 0);
}

/* As on a machine whose CPUs others use. */
static void others_take_none_of_its_time(void)
{
	struct server s = start(library, "4");
	pid_t compiler = 0;

	/* One that was over before we saw it is asked for again. */
	for (;;) {
		ask(&s, "__kernel void one(" FORM ") { dst[0] = 1; }", "one");
		while (n_processes(s.pid, &compiler) < 2 && !has_answered(&s))
			usleep(100);
		if (compiler > 0 && kill(compiler, SIGSTOP) == 0)
			break;
		EQ(answer_of(&s).status, 0);
	}
	sleep(5);
	EQ(kill(compiler, SIGCONT), 0);
	EQ(answer_of(&s).status, 0);
	EQ(end_of(&s), 0);
}

static void nothing_outlives_its_worker(void)
{
	static char bomb[8192];
	struct server s = start(library, "60");

	write_bomb(bomb, sizeof(bomb));
	ask(&s, bomb, "one");
	while (n_processes(0, NULL) < 2)
		usleep(1000);
	OK(end_of(&s) != 0);
	for (int i = 0; i < WAIT_MS && n_processes(0, NULL) > 0; i++)
		usleep(1000);
	EQ(n_processes(0, NULL), 0);
}

static void what_is_no_request_ends_it(void)
{
	struct server s = start(library, "60");

	EQ(send(s.socket, "x", 1, MSG_NOSIGNAL), 1);
	EQ(answer_of(&s).status, -EPIPE);
	EQ(end_of(&s), 0);
}

static int remove_one(const char *path, const struct stat *status, int type,
		      struct FTW *at)
{
	(void)status;
	(void)type;
	(void)at;
	return remove(path);
}

TAP_CASE()
{
	if (!read_icd()) {
		LACK("opencl", 1, "there is no /etc/OpenCL/vendors/pocl.icd");
		return tap_done();
	}
	if (!OK(mkdtemp(cache)))
		return tap_done();
	setenv("POCL_CACHE_DIR", cache, 1);
	setenv("POCL_WORK_GROUP_SPECIALIZATION", "0", 1);
	a_text_is_compiled();
	a_library_that_is_none_is_told();
	files_of_others_are_not_read();
	a_text_has_its_time();
	others_take_none_of_its_time();
	nothing_outlives_its_worker();
	what_is_no_request_ends_it();
	nftw(cache, remove_one, 16, FTW_DEPTH | FTW_PHYS);
	return tap_done();
}
