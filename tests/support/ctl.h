/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * ctl - an agent, and gpumapctl called on it: what it prints, as a table and as
 * JSON, what it complains of, and its exit status.
 */
#ifndef GM_TEST_SUPPORT_CTL_H
#define GM_TEST_SUPPORT_CTL_H

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gpumap.h"
#include "tests/support/agent.h"
#include "tests/support/tap.h"

#define WORDS_MAX 24
#define MIB       (UINT64_C(1) << 20)

/* gpumapctl's exit statuses, as gpumapctl(1) has them. */
enum { DONE, FAILED, USAGE, NO_AGENT, UNWELL };

static struct agent agent;

/* How to call it, and what the last call printed. */
static const char *output; /* instead of a file that is read */
static uid_t user;
static char out[4 << 20], err[64 << 10];

/* ---- calling it ---------------------------------------------------------- */

/* The program.  Ends the test where it is not known. */
static inline const char *ctl_program(void)
{
	const char *path = getenv("GPUMAPCTL");

	if (path == NULL) {
		puts("Bail out! run me by make check: no GPUMAPCTL");
		exit(99);
	}
	return path;
}

static inline void ctl_read(const char *path, char *ret_text, size_t bytes)
{
	FILE *file = fopen(path, "re");
	size_t n = file != NULL ? fread(ret_text, 1, bytes - 1, file) : 0;

	ret_text[n] = '\0';
	if (file != NULL)
		fclose(file);
}

static inline void become(const char *const argv[], const char *out_path,
			  const char *err_path)
{
	int flags = O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC;
	int to = open(out_path, flags, 0600),
	    tell = open(err_path, flags, 0600);

	if (to < 0 || tell < 0 || dup2(to, STDOUT_FILENO) < 0 ||
	    dup2(tell, STDERR_FILENO) < 0)
		_exit(98);
	if (user != 0 && (setgid(user) != 0 || setuid(user) != 0))
		_exit(97);
	execvp(argv[0], (char **)(uintptr_t)argv);
	_exit(96);
}

/* Run it to its end.  Returns the exit status, or -signal. */
static inline int run(const char *const argv[])
{
	char out_path[96], err_path[96];
	int status = 0;
	pid_t pid;

	snprintf(out_path, sizeof(out_path), "%s/out", agent.dir);
	snprintf(err_path, sizeof(err_path), "%s/err", agent.dir);
	unlink(out_path);
	fflush(stdout);
	pid = fork();
	if (pid == 0)
		become(argv, output != NULL ? output : out_path, err_path);
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		return -errno;
	ctl_read(out_path, out, sizeof(out));
	ctl_read(err_path, err, sizeof(err));
	return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static inline int ctl_of(const char *instance, const char *const words[])
{
	const char *argv[WORDS_MAX + 6] = { ctl_program(), "--instance",
					    instance, "--runtime-dir",
					    agent.dir };
	int n = 5;

	while (n < WORDS_MAX + 5 && words[n - 5] != NULL) {
		argv[n] = words[n - 5];
		n++;
	}
	return run(argv);
}

#define WORDS(...) ((const char *const[]){ __VA_ARGS__, NULL })
#define CTL(...)   ctl_of(agent.instance, WORDS(__VA_ARGS__))

#define NOBODY     65534

/* Let the calls until @user is 0 again be those of another user.  Returns
 * false, and skips @n checks, where they cannot be. */
static inline bool ctl_as_another(int n)
{
	if (geteuid() != 0) {
		SKIP(n, "another user needs root");
		return false;
	}
	user = NOBODY;
	if (CTL("--version") == DONE)
		return true;
	user = 0;
	SKIP(n, "another user cannot run what was built here");
	return false;
}

/* Is @text in what the last call printed? */
static inline bool prints(const char *text)
{
	if (strstr(out, text) != NULL)
		return true;
	NOTE("printed: %.400s", out);
	return false;
}

/* One line on standard error, with @text in it; nothing on standard output. */
static inline bool complains(const char *text)
{
	const char *end = strchr(err, '\n');

	if (out[0] == '\0' && end != NULL && end[1] == '\0' &&
	    strncmp(err, "gpumapctl: ", 11) == 0 && strstr(err, text) != NULL)
		return true;
	NOTE("printed: %.200s, complained: %.400s", out, err);
	return false;
}

/* The JSON object that was printed, on one line: to be given back.  Its
 * numbers are checked by their names. */
static inline json_t *object(void)
{
	const char *end = strchr(out, '\n');
	json_error_t error;
	json_t *json = json_loads(out, JSON_REJECT_DUPLICATES, &error);

	if (!OK(json_is_object(json) && end != NULL && end[1] == '\0' &&
		err[0] == '\0'))
		NOTE("printed: %.400s, complained: %.400s", out, err);
	return json;
}

static inline json_int_t number(const json_t *json, const char *key)
{
	const json_t *value = json_object_get(json, key);

	return json_is_integer(value) ? json_integer_value(value) : -1;
}

static inline const char *text(const json_t *json, const char *key)
{
	return json_string_value(json_object_get(json, key));
}

static inline const json_t *list(const json_t *json, const char *key, size_t n)
{
	const json_t *array = json_object_get(json, key);

	OK(json_is_array(array));
	EQ((intmax_t)json_array_size(array), (intmax_t)n);
	return array;
}

/* Does it have these fields, parted by blanks, and no others?  gpumapctl(1)
 * promises that they stay. */
static inline bool has_fields(const json_t *json, const char *names)
{
	char name[64];
	size_t n = 0;
	int at;

	for (; sscanf(names, "%63s%n", name, &at) == 1; names += at, n++) {
		if (json_object_get(json, name) != NULL)
			continue;
		NOTE("there is no %s", name);
		return false;
	}
	if (json_object_size(json) == n)
		return true;
	NOTE("%zu fields, not %zu", json_object_size(json), n);
	return false;
}

#define MAP_FIELDS                                                      \
	"name version published_ns owner_uid n_layers n_rows base_row " \
	"dtype layer_bytes other_bytes spec committed held setting "    \
	"strategy compute_dtype max_seq_len max_batch_size"

/* An agent that is READY, and the program that asks it. */
static inline bool ctl_start(const char *config)
{
	agent_make(&agent, config);
	return OK(agent_start(&agent));
}

#endif
