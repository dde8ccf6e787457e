/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Checks gpumapctl run --gate: the start windows of commands on one row never
 * overlap, however a command says that it is ready; messages reach the service
 * manager of the caller; and the process that watches the command holds nothing
 * of the caller's, and ends with the command.
 *
 * The commands are this program: it is run again with the part that it plays.
 */

#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <gpumap/plan.h>

#include "tests/support/run.h"
#include "tests/support/users.h"

#define N_RUNS  8
#define LIMIT_S 60 /* against hanging */

static struct gpumap *map;
static char self[512], cache[96], log_path[96];

/* ---- the parts ----------------------------------------------------------- */

/* One line for the log, at once. */
static void note(const char *path, const char *word, const char *number)
{
	int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
	char line[64];
	int n = snprintf(line, sizeof(line), "%s %s\n", word, number);

	if (fd < 0 || write(fd, line, (size_t)n) != n)
		_exit(90);
	close(fd);
}

static void name_socket(const char *name, struct sockaddr_un *ret,
			socklen_t *ret_bytes)
{
	size_t n = strlen(name);

	*ret = (struct sockaddr_un){ .sun_family = AF_UNIX };
	memcpy(ret->sun_path, name, n);
	if (name[0] == '@')
		ret->sun_path[0] = '\0';
	*ret_bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n +
				 (name[0] == '/'));
}

/* As sd_notify() sends it, with a descriptor unless that is -1. */
static bool notify(const char *name, const char *text, int passed)
{
	union {
		struct cmsghdr head;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control = { .bytes = { 0 } };
	struct iovec part = { (void *)(uintptr_t)text, strlen(text) };
	struct sockaddr_un to;
	struct msghdr head = { .msg_name = &to,
			       .msg_iov = &part,
			       .msg_iovlen = 1 };
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	bool sent;

	name_socket(name, &to, &head.msg_namelen);
	if (passed >= 0) {
		control.head.cmsg_level = SOL_SOCKET;
		control.head.cmsg_type = SCM_RIGHTS;
		control.head.cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(&control.head), &passed, sizeof(passed));
		head.msg_control = &control;
		head.msg_controllen = sizeof(control);
	}
	sent = sendmsg(fd, &head, MSG_NOSIGNAL) == (ssize_t)part.iov_len;
	close(fd);
	return sent;
}

static bool listen_on(uint16_t port)
{
	struct sockaddr_in at = { .sin_family = AF_INET,
				  .sin_port = htons(port),
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	const int on = 1;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	return bind(fd, (struct sockaddr *)&at, sizeof(at)) == 0 &&
	       listen(fd, 8) == 0;
}

/* "LOG NUMBER HOW [WHAT]": start, log that, be ready, log that before, and
 * stay.  A command that is never ready logs no more. */
static _Noreturn void play_command(char **argv)
{
	const char *path = argv[1], *number = argv[2], *how = argv[3];
	bool done = true;

	note(path, "begin", number);
	/* Longer than a look of the watcher's, which would end a window too
	 * soon by a file that was there. */
	story_nap(250000);
	if (strcmp(how, "never") != 0)
		note(path, "ready", number);
	if (strcmp(how, "notify") == 0)
		done = notify(getenv("NOTIFY_SOCKET"), "STATUS=up\nREADY=1",
			      -1);
	if (strcmp(how, "file") == 0)
		note(argv[4], "I am", "up");
	if (strcmp(how, "tcp") == 0)
		done = listen_on((uint16_t)atoi(argv[4]));
	if (!done)
		note(path, "fails", number);
	for (;;)
		pause();
}

/* "talk": print the socket's name, and say more and more of itself. */
static _Noreturn void play_talker(void)
{
	const char *name = getenv("NOTIFY_SOCKET");
	int ends[2];

	printf("%s\n", name);
	fflush(stdout);
	if (pipe2(ends, O_CLOEXEC) != 0 || write(ends[1], "piped", 5) != 5)
		_exit(90);
	notify(name, "STATUS=loading", -1);
	notify(name, "FDSTORE=1\nFDNAME=pipe", ends[0]);
	notify(name, "X_READY=1\nREADY=10", -1);
	notify(name, "READY=1\nMAINPID=7", -1);
	notify(name, "STOPPING=1", -1);
	for (;;)
		pause();
}

/* "last words": print the socket's name, and at a signal say a few words and
 * end. */
static int play_last_words(void)
{
	const char *name = getenv("NOTIFY_SOCKET");
	sigset_t go;
	int signal;

	sigemptyset(&go);
	sigaddset(&go, SIGUSR1);
	sigprocmask(SIG_BLOCK, &go, NULL);
	printf("%s\n", name);
	fflush(stdout);
	sigwait(&go, &signal);

	return notify(name, "STATUS=one", -1) &&
			       notify(name, "STATUS=two", -1) &&
			       notify(name, "STATUS=three", -1)
		       ? 0
		       : 90;
}

/* ---- windows ------------------------------------------------------------- */

#define GATED(job, ...)                                                        \
	RUN_START(job, "--cache-dir", cache, "--rows", "1", "--reserve", "1M", \
		  "--wait", "600", "--gate", __VA_ARGS__)

/* A port that was free a moment ago. */
static uint16_t free_port(void)
{
	struct sockaddr_in at = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	socklen_t bytes = sizeof(at);

	OK(bind(fd, (struct sockaddr *)&at, sizeof(at)) == 0 &&
	   getsockname(fd, (struct sockaddr *)&at, &bytes) == 0);
	close(fd);
	return ntohs(at.sin_port);
}

/* Start command @i, which is ready in one of four ways. */
static void start_one(struct run_job *job, int i)
{
	char number[8], file[128], port[8];

	snprintf(number, sizeof(number), "%d", i);
	switch (i % 4) {
	case 0:
		GATED(job, "--", self, log_path, number, "notify");
		break;
	case 1: /* there already, and written again */
		snprintf(file, sizeof(file), "%s/up%d", agent.dir, i);
		if (i > 1)
			note(file, "of", "yesterday");
		GATED(job, "--ready-file", file, "--", self, log_path, number,
		      "file", file);
		break;
	case 2:
		snprintf(port, sizeof(port), "%u", free_port());
		GATED(job, "--ready-tcp", port, "--", self, log_path, number,
		      "tcp", port);
		break;
	default:
		GATED(job, "--start-limit", "1", "--", self, log_path, number,
		      "never");
	}
}

static int count_lines(const char *word, char text[4096])
{
	int n = 0;

	ctl_read(log_path, text, 4096);
	for (char *at = text; (at = strstr(at, word)) != NULL; at++)
		n++;
	return n;
}

/* Wait until so many lines of the log begin with @word. */
static bool logged(const char *word, int n)
{
	uint64_t until = story_now() + LIMIT_S * UINT64_C(1000000000);
	char text[4096];

	while (count_lines(word, text) < n) {
		if (story_now() > until) {
			NOTE("the log: %s", text);
			return false;
		}
		story_nap(1000);
	}
	return true;
}

/* Between a line that a command begins and the next such line is the line that
 * it is ready, unless it never is; and no other. */
static bool windows_are_apart(void)
{
	char text[4096], *line;
	int open = -1, number;

	ctl_read(log_path, text, sizeof(text));
	NOTE("windows, in their order:");
	for (line = strtok(text, "\n"); line != NULL;
	     line = strtok(NULL, "\n")) {
		bool begins = sscanf(line, "begin %d", &number) == 1;

		NOTE("  %s", line);
		if (begins && open >= 0 && open % 4 != 3)
			return false;
		if (!begins &&
		    (sscanf(line, "ready %d", &number) != 1 || number != open))
			return false;
		open = begins ? number : -1;
	}
	return true;
}

static void windows_never_overlap(void)
{
	struct run_job jobs[N_RUNS];
	char file[128];

	for (int i = 0; i < N_RUNS; i++)
		start_one(&jobs[i], i);
	OK(logged("begin", N_RUNS));
	OK(logged("ready", N_RUNS - N_RUNS / 4));
	OK(windows_are_apart());
	for (int i = 0; i < N_RUNS; i++) {
		kill(jobs[i].pid, SIGTERM);
		EQ(run_end(&jobs[i]), -SIGTERM);
	}
	OK(run_all_gone(map));
	for (int i = 1; i < N_RUNS; i += 4) {
		snprintf(file, sizeof(file), "%s/up%d", agent.dir, i);
		unlink(file);
	}
	unlink(log_path);
}

/* A window is closed to those that do not wait. */
static void a_window_refuses(void)
{
	struct run_job job;
	char holder[96];

	GATED(&job, "--name", "first", "--", "sh", "-c",
	      "echo up; exec sleep 600");
	OK(run_printed(&job, job.out, "up"));
	EQ(CTL("who"), DONE);
	OK(prints("(starting)"));
	EQ(CTL("run", "--cache-dir", cache, "--rows", "1", "--reserve", "1M",
	       "--gate", "true"),
	   NOT_NOW);
	snprintf(holder, sizeof(holder),
		 "process %d, which holds first, is in its start window on "
		 "row 1",
		 job.pid);
	OK(complains(holder));
	EQ(CTL("run", "--cache-dir", cache, "--rows", "2", "--reserve", "1M",
	       "--gate", "true"),
	   0);
	EQ(CTL("run", "--cache-dir", cache, "--rows", "1", "--reserve", "1M",
	       "true"),
	   0);
	kill(job.pid, SIGKILL);
	EQ(run_end(&job), -SIGKILL);
	OK(run_all_gone(map));
}

/* A map that is committed for all of this user's processes has no window: the
 * run holds one of its own beside it, also where the map has all of a row. */
static void a_committed_map_has_a_window(void)
{
	struct gpumap_plan_request commit = { .size = sizeof(commit),
					      .name = "kept",
					      .flags = GPUMAP_PLAN_COMMIT,
					      .setting = GPUMAP_SETTING_RESERVE,
					      .rows = (const uint32_t[]){ 1 },
					      .n_rows = 1,
					      .n_layers = 1,
					      .layer_bytes = (const uint64_t[]){
						      UINT64_C(1) << 30 } };
	struct gpumap_plan plan = { .size = sizeof(plan) };
	struct run_job job;
	json_t *json, *one;
	size_t i;

	EQ(gpumap_plan_make(map, &commit, &plan, NULL, 0, NULL, 0), 0);
	RUN_START(&job, "--cache-dir", cache, "--map", "kept", "--name",
		  "beside", "--gate", "--", "sh", "-c",
		  "echo up for $GPUMAP_MAP; exec sleep 600");
	OK(run_printed(&job, job.out, "up for kept"));
	EQ(CTL("who", "--json"), DONE);
	json = object();
	json_array_foreach(list(json, "reservations", 2), i, one)
		OK((strcmp(text(one, "name"), "beside") == 0) ==
		   (number(one, "start_ns") > 0));
	json_decref(json);
	EQ(CTL("run", "--cache-dir", cache, "--map", "kept", "--gate", "true"),
	   NOT_NOW);
	OK(complains("which holds beside, is in its start window on row 1"));
	kill(job.pid, SIGKILL);
	EQ(run_end(&job), -SIGKILL);
	EQ(CTL("run", "--cache-dir", cache, "--rows", "1", "--reserve", "0",
	       "true"),
	   0);
	EQ(gpumap_layers_release(map, "kept"), 0);
	OK(run_all_gone(map));
}

static void a_port_that_is_taken_is_refused(void)
{
	uint16_t port = free_port();
	char text[8];
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		if (!listen_on(port))
			_exit(90);
		note(log_path, "listens", "");
		for (;;)
			pause();
	}
	OK(logged("listens", 1));
	snprintf(text, sizeof(text), "%u", port);
	EQ(CTL("run", "--cache-dir", cache, "--rows", "1", "--reserve", "1M",
	       "--gate", "--ready-tcp", text, "true"),
	   FAILED);
	OK(complains("another process has this port"));
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	unlink(log_path);
}

/* ---- the watcher --------------------------------------------------------- */

/* The window of the reservation: is it open? */
static bool in_window(const char *name)
{
	struct gpumap_holder holder;

	return run_holder(map, name, &holder) && holder.start_ns > 0;
}

static bool window_ends(const char *name)
{
	uint64_t until = story_now() + STORY_LIMIT_NS;

	while (in_window(name)) {
		if (story_now() > until)
			return false;
		story_nap(1000);
	}
	return true;
}

/* The inode of an abstract socket, 0 if there is none of this name. */
static unsigned long socket_inode(const char *name)
{
	char line[256];
	FILE *file = fopen("/proc/net/unix", "re");
	unsigned long inode, found = 0;

	while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
		line[strcspn(line, "\n")] = '\0';
		if (strchr(line, '@') != NULL &&
		    strcmp(strchr(line, '@'), name) == 0 &&
		    sscanf(line, "%*s %*s %*s %*s %*s %*s %lu", &inode) == 1)
			found = inode;
	}
	if (file != NULL)
		fclose(file);
	return found;
}

static bool socket_exists(const char *name)
{
	return socket_inode(name) != 0;
}

/* The process that has the socket: it is the watcher. */
static pid_t watcher_of(const char *name)
{
	DIR *proc = opendir("/proc");
	struct dirent *entry;
	char inode[32];
	pid_t found = 0;

	snprintf(inode, sizeof(inode), "socket:[%lu]", socket_inode(name));
	while (proc != NULL && found == 0 && (entry = readdir(proc)) != NULL)
		if (atoi(entry->d_name) > 0 &&
		    story_holds(atoi(entry->d_name), inode) > 0)
			found = atoi(entry->d_name);
	if (proc != NULL)
		closedir(proc);
	return found;
}

static bool socket_goes(const char *name)
{
	uint64_t until = story_now() + STORY_LIMIT_NS;

	while (socket_exists(name)) {
		if (story_now() > until)
			return false;
		story_nap(1000);
	}
	return true;
}

/* The caller's end of a pipe is the last one when the command has closed
 * its own. */
static void pipes_of_the_caller_see_their_end(void)
{
	struct pollfd fd = { .events = POLLIN };
	char text[64] = "";
	int ends[2];
	pid_t pid;

	if (!EQ(pipe(ends), 0))
		return;
	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		dup2(ends[1], STDOUT_FILENO);
		dup2(ends[1], STDERR_FILENO);
		close(ends[0]);
		execl(ctl_program(), "gpumapctl", "--instance", agent.instance,
		      "--runtime-dir", agent.dir, "run", "--cache-dir", cache,
		      "--rows", "1", "--reserve", "1M", "--gate", "--", "sh",
		      "-c",
		      "echo $NOTIFY_SOCKET; exec sleep 600 >&- 2>&- "
		      "3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&-",
		      NULL);
		_exit(96);
	}
	close(ends[1]);
	fd.fd = ends[0];
	OK(read(ends[0], text, sizeof(text) - 1) > 0 && text[0] == '@');
	text[strcspn(text, "\n")] = '\0';
	EQ(poll(&fd, 1, LIMIT_S * 1000), 1);
	EQ(read(ends[0], text + 32, 1), 0);
	close(ends[0]);
	OK(socket_exists(text));
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	OK(socket_goes(text));
	OK(run_all_gone(map));
}

/* ---- the service manager of the caller ----------------------------------- */

static int manager;

static bool open_manager(char path[108])
{
	struct sockaddr_un at;
	socklen_t bytes;
	const int on = 1;

	snprintf(path, 108, "%s/manager", agent.dir);
	name_socket(path, &at, &bytes);
	manager = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	return bind(manager, (struct sockaddr *)&at, bytes) == 0 &&
	       chmod(path, 0666) == 0 &&
	       setsockopt(manager, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)) ==
		       0;
}

/* The next message, who sent it, and its descriptor or -1. */
static const char *told(struct ucred *ret_from, int *ret_fd)
{
	static char text[256];
	union {
		struct cmsghdr head;
		char bytes[CMSG_SPACE(sizeof(int)) +
			   CMSG_SPACE(sizeof(struct ucred))];
	} control;
	struct iovec part = { text, sizeof(text) - 1 };
	struct msghdr head = { .msg_iov = &part,
			       .msg_iovlen = 1,
			       .msg_control = &control,
			       .msg_controllen = sizeof(control) };
	struct pollfd fd = { .fd = manager, .events = POLLIN };
	ssize_t n;

	*ret_fd = -1;
	if (poll(&fd, 1, LIMIT_S * 1000) != 1)
		return "nothing";
	n = recvmsg(manager, &head, MSG_CMSG_CLOEXEC);
	text[n > 0 ? n : 0] = '\0';
	for (struct cmsghdr *c = CMSG_FIRSTHDR(&head); c != NULL;
	     c = CMSG_NXTHDR(&head, c)) {
		if (c->cmsg_type == SCM_CREDENTIALS)
			memcpy(ret_from, CMSG_DATA(c), sizeof(*ret_from));
		if (c->cmsg_type == SCM_RIGHTS)
			memcpy(ret_fd, CMSG_DATA(c), sizeof(*ret_fd));
	}
	return text;
}

/* Messages come as they were sent: as the command's by root, and else as the
 * watcher's. */
static void messages_reach_the_manager(bool as_root)
{
	char path[108], name[64], bytes[8] = "";
	struct ucred from = { .pid = 0 };
	struct run_job job;
	pid_t command;
	int fd;

	if (!OK(open_manager(path)))
		return;
	setenv("NOTIFY_SOCKET", path, 1);
	GATED(&job, "--name", "service", "--", self, "talk");
	unsetenv("NOTIFY_SOCKET");
	command = job.pid;
	STR(told(&from, &fd), "STATUS=loading");
	EQ(from.uid, user != 0 ? user : geteuid());
	OK((from.pid == command) == as_root);
	STR(told(&from, &fd), "FDSTORE=1\nFDNAME=pipe");
	OK(fd >= 0 && read(fd, bytes, sizeof(bytes)) == 5);
	close(fd);
	STR(bytes, "piped");
	STR(told(&from, &fd), "X_READY=1\nREADY=10");
	OK(run_printed(&job, job.out, "\n"));
	STR(told(&from, &fd), "READY=1\nMAINPID=7");
	STR(told(&from, &fd), "STOPPING=1");
	OK(window_ends("service"));
	OK(story_lives(command));
	ctl_read(job.out, name, sizeof(name));
	name[strcspn(name, "\n")] = '\0';
	OK(socket_exists(name));
	/* The socket takes messages as long as the command lives. */
	OK(notify(name, "STATUS=late", -1));
	if (user == 0)
		STR(told(&from, &fd), "STATUS=late");
	kill(command, SIGKILL);
	EQ(run_end(&job), -SIGKILL);
	OK(socket_goes(name));
	OK(run_all_gone(map));
	close(manager);
	unlink(path);
}

/* The command has ended before the watcher reads a word. */
static void last_words_are_heard(void)
{
	char path[108], name[64];
	struct ucred from;
	struct run_job job;
	pid_t watcher;
	int fd;

	if (!OK(open_manager(path)))
		return;
	setenv("NOTIFY_SOCKET", path, 1);
	GATED(&job, "--name", "service", "--", self, "last", "words");
	unsetenv("NOTIFY_SOCKET");
	OK(run_printed(&job, job.out, "\n"));
	ctl_read(job.out, name, sizeof(name));
	name[strcspn(name, "\n")] = '\0';
	watcher = watcher_of(name);
	OK(watcher > 1 && process_stop(watcher));
	kill(job.pid, SIGUSR1);
	EQ(run_end(&job), 0);
	kill(watcher, SIGCONT);
	STR(told(&from, &fd), "STATUS=one");
	STR(told(&from, &fd), "STATUS=two");
	STR(told(&from, &fd), "STATUS=three");
	OK(run_all_gone(map));
	close(manager);
	unlink(path);
}

static const char *told_to;

static int say_ready(void)
{
	return notify(told_to, "READY=1", -1) ? 0 : 1;
}

/* The message is there, and its sender is not any more: as systemd-notify's. */
static void the_dead_are_heard(const char *name)
{
	struct ucred from = { .pid = 0 };
	pid_t watcher = watcher_of(name), pid;
	int fd;

	if (!OK(watcher > 1) || !OK(process_stop(watcher)))
		return;
	fflush(stdout);
	pid = fork();
	if (pid == 0)
		_exit(!notify(name, "STATUS=gone", -1));
	waitpid(pid, NULL, 0);
	kill(watcher, SIGCONT);
	STR(told(&from, &fd), "STATUS=gone");
	EQ(from.pid, watcher);
}

/* Another user's word does not end a window. */
static void another_user_is_not_heard(void)
{
	char path[108], name[64];
	struct ucred from;
	struct run_job job;
	int fd;

	if (geteuid() != 0) {
		SKIP(13, "another user needs root");
		return;
	}
	if (!OK(open_manager(path)))
		return;
	setenv("NOTIFY_SOCKET", path, 1);
	GATED(&job, "--name", "service", "--", "sh", "-c",
	      "echo $NOTIFY_SOCKET; exec sleep 600");
	unsetenv("NOTIFY_SOCKET");
	OK(run_printed(&job, job.out, "\n"));
	ctl_read(job.out, name, sizeof(name));
	name[strcspn(name, "\n")] = '\0';
	told_to = name;
	EQ(user_run(NOBODY, say_ready), 0);
	/* Messages come in their order, so the other one has had its effect. */
	OK(notify(name, "STATUS=mine", -1));
	STR(told(&from, &fd), "STATUS=mine");
	OK(in_window("service"));
	the_dead_are_heard(name);
	OK(notify(name, "READY=1", -1));
	STR(told(&from, &fd), "READY=1");
	OK(window_ends("service"));
	kill(job.pid, SIGKILL);
	EQ(run_end(&job), -SIGKILL);
	close(manager);
	unlink(path);
}

/* The agent sees the process from its own pid namespace; in the other one the
 * command is process 1, to which the watcher falls as a child. */
static void a_container_has_its_window(void)
{
	char file[128];
	const char *const argv[] = { "unshare",
				     "-p",
				     "-f",
				     "--kill-child",
				     ctl_program(),
				     "--instance",
				     agent.instance,
				     "--runtime-dir",
				     agent.dir,
				     "run",
				     "--cache-dir",
				     agent.dir,
				     "--reserve",
				     "1M",
				     "--name",
				     "boxed",
				     "--gate",
				     "--ready-file",
				     file,
				     "--",
				     "sh",
				     "-c",
				     "echo $$; exec sleep 600",
				     NULL };
	struct gpumap_holder holder = { .pid = 0 };
	struct run_job job;

	if (run((const char *const[]){ "unshare", "-p", "-f", "true", NULL }) !=
	    0) {
		SKIP(5, "a pid namespace needs root");
		return;
	}
	snprintf(file, sizeof(file), "%s/boxed", agent.dir);
	run_start(&job, argv);
	OK(run_printed(&job, job.out, "1\n"));
	OK(run_holder(map, "boxed", &holder) && holder.start_ns > 0);
	OK(holder.pid > 1 && story_lives((pid_t)holder.pid));
	note(file, "I am", "up");
	OK(window_ends("boxed"));
	unlink(file);
	kill((pid_t)holder.pid, SIGKILL);
	run_end(&job);
	OK(run_all_gone(map));
}

TAP_CASE_ARGS(argc, argv)
{
	ssize_t n;

	if (argc > 3)
		play_command(argv);
	if (argc == 3)
		return play_last_words();
	if (argc == 2)
		play_talker();
	n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	self[n > 0 ? n : 0] = '\0';
	agent_make(&agent, NULL);
	agent_configure_dummies(&agent, RUN_NODE,
				"[host]\nrows = 1\n[socket]\nmode = 0666\n");
	snprintf(cache, sizeof(cache), "%s/cache", agent.dir);
	snprintf(log_path, sizeof(log_path), "%s/windows", agent.dir);
	if (!OK(agent_start(&agent)))
		return tap_done();
	map = story_attach(&agent);
	windows_never_overlap();
	a_window_refuses();
	a_committed_map_has_a_window();
	a_port_that_is_taken_is_refused();
	pipes_of_the_caller_see_their_end();
	messages_reach_the_manager(geteuid() == 0);
	if (ctl_as_another(16)) {
		strcpy(cache, "/tmp");
		messages_reach_the_manager(false);
		user = 0;
	}
	last_words_are_heard();
	another_user_is_not_heard();
	a_container_has_its_window();
	snprintf(cache, sizeof(cache), "%s/cache", agent.dir);
	rmdir(cache);
	story_finish(&agent, map);
	return tap_done();
}
