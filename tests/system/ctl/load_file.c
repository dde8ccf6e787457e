/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Checks gpumapctl load --as-file: another program reads the file by the path
 * and by the link that the command makes, as long as the command runs; a killed
 * command leaves a link that leads nowhere, and nothing else.
 */

#include <signal.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <gpumap/model.h>

#include "tests/support/ctl.h"
#include "tests/support/load_file.h"
#include "tests/support/users.h"

#define BYTES (5 * MIB + 77)

static struct gpumap *map;
static char path[160], folder[128], link_path[160], out_path[128],
	err_path[128];

/* Begin "load NAME ..." with these words, to a NULL. */
static pid_t begin(const char *first, ...)
{
	const char *argv[24] = { ctl_program(), "--runtime-dir", agent.dir,
				 "--instance", agent.instance };
	const char *word = first;
	size_t n = 5;
	va_list words;
	pid_t pid;

	va_start(words, first);
	for (; word != NULL && n < 23; word = va_arg(words, const char *))
		argv[n++] = word;
	va_end(words);
	unlink(out_path);
	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		become(argv, out_path, err_path);
		_exit(96);
	}
	return pid;
}

static int end_of(pid_t pid)
{
	int status = -1;

	waitpid(pid, &status, 0);
	ctl_read(out_path, out, sizeof(out));
	ctl_read(err_path, err, sizeof(err));
	return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static bool comes_to(const char *text)
{
	uint64_t until = story_now() + STORY_LIMIT_NS;

	do {
		story_nap(1000);
		ctl_read(out_path, out, sizeof(out));
	} while (strstr(out, text) == NULL && story_now() < until);
	return strstr(out, text) != NULL;
}

static bool is_the_file(const char *by)
{
	int fd = open(by, O_RDONLY | O_CLOEXEC);
	char *bytes = malloc(BYTES + 1);
	struct stat facts = { .st_size = -1 };
	bool right = fd >= 0 && bytes != NULL && fstat(fd, &facts) == 0 &&
		     facts.st_size == BYTES &&
		     pread(fd, bytes, BYTES + 1, 0) == BYTES &&
		     load_matches(bytes, 0, BYTES);

	free(bytes);
	if (fd >= 0)
		close(fd);
	return right;
}

static int shares(void)
{
	return gpumap_share_list(map, NULL, 0);
}

static bool comes_to_none(void)
{
	STORY_WAIT_WHILE(shares() != 0);
	return shares() == 0;
}

static bool has_link(void)
{
	struct stat facts;

	return lstat(link_path, &facts) == 0 && S_ISLNK(facts.st_mode);
}

static void it_is_a_file_to_others(void)
{
	char by[64] = "";
	pid_t pid =
		begin("load", "f", "--as-file", path, "--link", folder, NULL);

	OK(comes_to("holding it"));
	OK(strstr(out, "  link ") && strstr(out, link_path));
	if (OK(strstr(out, "  file /proc/")))
		sscanf(strstr(out, "  file ") + 7, "%63s", by);
	OK(is_the_file(by));
	OK(is_the_file(link_path));
	EQ(shares(), 1);
	OK(open(link_path, O_RDWR | O_TRUNC | O_CLOEXEC) < 0);
	if (geteuid() == 0) {
		pid_t other = fork();
		int status = -1;

		if (other == 0)
			_exit(!user_become(61357, 61357) ||
			      open(link_path, O_RDONLY | O_CLOEXEC) >= 0);
		waitpid(other, &status, 0);
		EQ(status, 0);
	} else {
		SKIP(1, "this needs root, to be somebody else");
	}
	kill(pid, SIGTERM);
	EQ(end_of(pid), DONE);
	OK(!has_link());
	OK(!is_the_file(link_path));
	OK(comes_to_none());
}

static void a_killed_one_leaves_no_file(void)
{
	pid_t pid =
		begin("load", "f", "--as-file", path, "--link", folder, NULL);
	int fd;

	OK(comes_to("holding it"));
	kill(pid, SIGKILL);
	EQ(end_of(pid), -SIGKILL);
	OK(comes_to_none());
	OK(has_link());
	OK(!is_the_file(link_path));
	/* The next one has the same name. */
	pid = begin("--json", "load", "f", "--as-file", path, "--link", folder,
		    "--rows", "0", NULL);
	OK(comes_to("\"tensors\""));
	OK(is_the_file(link_path));
	OK(strstr(out, "\"path\":\"/proc/") != NULL);
	/* A reader keeps the file that it has open. */
	fd = open(link_path, O_RDONLY | O_CLOEXEC);
	kill(pid, SIGINT);
	EQ(end_of(pid), DONE);
	OK(!has_link());
	if (OK(fd >= 0)) {
		char by[48];

		snprintf(by, sizeof(by), "/proc/self/fd/%d", fd);
		OK(is_the_file(by));
		close(fd);
	}
}

static void files_are_not_replaced(void)
{
	int fd = open(link_path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	OK(fd >= 0);
	close(fd);
	EQ(end_of(begin("load", "f", "--as-file", path, "--link", folder,
			NULL)),
	   FAILED);
	OK(strstr(err, "File exists"));
	OK(!has_link());
	EQ(unlink(link_path), 0);
	OK(comes_to_none());
	EQ(end_of(begin("load", "f", "--as-file", path, "--link",
			"/proc/nowhere", NULL)),
	   FAILED);
	OK(comes_to_none());
}

#define PRINT "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"

static void it_has_the_fingerprint(void)
{
	struct gpumap_fingerprint print = { .size = sizeof(print) };
	struct gpumap_session *session = NULL;
	struct gpumap_model *model = NULL;
	pid_t pid = begin("load", "f", "--as-file", path, "--fingerprint",
			  PRINT, NULL);

	OK(comes_to("holding it"));
	EQ(gpumap_session_open(map, NULL, &session), 0);
	for (unsigned i = 0; i < 32; i++)
		print.hash[i] = (uint8_t)(i % 16 * 0x11);
	EQ(gpumap_model_open(session, "f", GPUMAP_SHARE_READ_ONLY, &print,
			     &model),
	   0);
	EQ(gpumap_model_close(model, GPUMAP_NO_DEADLINE), 0);
	print.hash[31]++;
	EQ(gpumap_model_open(session, "f", GPUMAP_SHARE_READ_ONLY, &print,
			     &model),
	   -EKEYREJECTED);
	gpumap_session_close(session);
	EQ(CTL("shares"), DONE);
	OK(strstr(out, "  001122334455\n"));
	EQ(CTL("--json", "shares"), DONE);
	OK(strstr(out, "\"fingerprint\":\"" PRINT "\""));
	EQ(end_of(begin("load", "f", "--as-file", path, "--fingerprint",
			&PRINT[1], NULL)),
	   USAGE);
	OK(strstr(err, "64 hexadecimal digits"));
	EQ(end_of(begin("load", "f", "--as-file", path, "--once",
			"--fingerprint", PRINT, NULL)),
	   USAGE);
	kill(pid, SIGTERM);
	EQ(end_of(pid), DONE);
	OK(comes_to_none());
}

static void words_are_checked(void)
{
	EQ(end_of(begin("load", "f", NULL)), USAGE);
	EQ(end_of(begin("load", "f", "--as-file", path, "--model", folder,
			NULL)),
	   USAGE);
	EQ(end_of(begin("load", "f", "--as-file", path, "--writable", NULL)),
	   USAGE);
	EQ(end_of(begin("load", "f", "--model", folder, "--link", folder,
			NULL)),
	   USAGE);
	EQ(end_of(begin("load", "f", "--as-file", path, "--once", "--link",
			folder, NULL)),
	   USAGE);
	EQ(end_of(begin("load", "f", "--as-file", "no-such-file", NULL)),
	   FAILED);
	OK(strstr(err, "no-such-file"));
	EQ(end_of(begin("load", "f", "--as-file", folder, NULL)), FAILED);
	OK(strstr(err, "is a directory"));
	EQ(end_of(begin("load", "f", "--as-file", path, "--rows", "0,1", NULL)),
	   FAILED);
	EQ(end_of(begin("load", "f", "--as-file", path, "--once", NULL)), DONE);
	OK(comes_to_none());
}

TAP_CASE()
{
	int fd;

	agent_make(&agent, "[host]\nrows = 2\n");
	snprintf(path, sizeof(path), "%s/model.gguf", agent.dir);
	snprintf(folder, sizeof(folder), "%s/links", agent.dir);
	snprintf(link_path, sizeof(link_path), "%s/model.gguf", folder);
	snprintf(out_path, sizeof(out_path), "%s/out", agent.dir);
	snprintf(err_path, sizeof(err_path), "%s/err", agent.dir);
	if (!OK(agent_start(&agent)) || !OK((map = story_attach(&agent))))
		return tap_done();
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
	load_write(fd, 0, BYTES);
	close(fd);
	it_is_a_file_to_others();
	a_killed_one_leaves_no_file();
	files_are_not_replaced();
	it_has_the_fingerprint();
	words_are_checked();
	unlink(path);
	rmdir(folder);
	unlink(out_path);
	unlink(err_path);
	story_finish(&agent, map);
	return tap_done();
}
