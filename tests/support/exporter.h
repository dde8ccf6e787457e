/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * exporter - gpumap-exporter beside an agent, and what it answers over HTTP.
 *
 * Include it after tests/support/ctl.h, whose agent and buffers it uses.
 */
#ifndef GM_TEST_SUPPORT_EXPORTER_H
#define GM_TEST_SUPPORT_EXPORTER_H

#include <arpa/inet.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/prctl.h>
#include <sys/socket.h>

#include "tests/support/ctl.h"

struct exporter {
	pid_t pid;
	int says; /* its standard error */
	uint16_t port;
};

static inline const char *exporter_program(void)
{
	const char *path = getenv("GPUMAP_EXPORTER");

	if (path == NULL) {
		puts("Bail out! run me by make check: no GPUMAP_EXPORTER");
		exit(99);
	}
	return path;
}

/* The port that it says that it listens on. */
static inline uint16_t exporter_port(int says)
{
	char line[256] = "";
	const char *colon;
	size_t n = 0;

	while (n < sizeof(line) - 1 && strchr(line, '\n') == NULL) {
		struct pollfd ready = { .fd = says, .events = POLLIN };
		ssize_t got =
			poll(&ready, 1, AGENT_LIMIT_MS) > 0
				? read(says, line + n, sizeof(line) - 1 - n)
				: 0;

		if (got <= 0)
			break;
		n += (size_t)got;
	}
	colon = strrchr(line, ':');
	if (!OK(strstr(line, "listening on 127.0.0.1:") != NULL))
		NOTE("it says: %s", line);
	return colon != NULL ? (uint16_t)strtoul(colon + 1, NULL, 10) : 0;
}

/* Start the exporter for the agent, which may not run.  @option may be NULL. */
static inline bool exporter_start(struct exporter *e, const char *option)
{
	const char *argv[] = {
		exporter_program(), "--listen",     "127.0.0.1:0",
		"--instance",       agent.instance, "--runtime-dir",
		agent.dir,          option,         NULL
	};
	int says[2];

	if (pipe2(says, O_CLOEXEC) != 0)
		return OK(false);
	fflush(stdout);
	e->pid = fork();
	if (e->pid == 0) {
		/* A test that crashes leaves nothing that holds its output. */
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		dup2(says[1], STDERR_FILENO);
		execv(argv[0], (char **)(uintptr_t)argv);
		_exit(96);
	}
	close(says[1]);
	e->says = says[0];
	e->port = exporter_port(e->says);
	return OK(e->pid > 0 && e->port != 0);
}

static inline void exporter_stop(struct exporter *e)
{
	int status;

	kill(e->pid, SIGTERM);
	EQ(waitpid(e->pid, &status, 0), e->pid);
	close(e->says);
	OK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* ---- HTTP ---------------------------------------------------------------- */

static inline int exporter_connect(const struct exporter *e)
{
	struct sockaddr_in at = { .sin_family = AF_INET,
				  .sin_port = htons(e->port),
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd >= 0 && connect(fd, (struct sockaddr *)&at, sizeof(at)) != 0) {
		close(fd);
		fd = -1;
	}
	return fd;
}

/* Send a request, and put the answer, with its headers, into the buffer of
 * ctl.h.  Returns the status, or -1. */
static inline int exporter_ask(const struct exporter *e, const char *method,
			       const char *path, const char *accept)
{
	int fd = exporter_connect(e), n, status = -1;
	char *request = NULL;
	bool is_sent = false;
	size_t at = 0;

	n = asprintf(&request,
		     "%s %s HTTP/1.1\r\nHost: test\r\nConnection: close\r\n"
		     "Accept: %s\r\n\r\n",
		     method, path, accept);
	/* The server may close before it has read a long one. */
	if (fd >= 0 && n > 0)
		is_sent = send(fd, request, (size_t)n, MSG_NOSIGNAL) > 0;
	free(request);
	if (!is_sent) {
		close(fd);
		return -1;
	}
	while (at < sizeof(out) - 1) {
		ssize_t got = read(fd, out + at, sizeof(out) - 1 - at);

		if (got <= 0)
			break;
		at += (size_t)got;
	}
	out[at] = '\0';
	close(fd);
	if (sscanf(out, "HTTP/1.1 %d ", &status) != 1)
		return -1;
	return status;
}

#define EXPORTER_PLAIN       "*/*"
#define EXPORTER_OPENMETRICS "application/openmetrics-text;version=1.0.0"

/* Scrape in the older format.  Leaves the answer in the buffer. */
static inline bool exporter_scrape(const struct exporter *e)
{
	return EQ(exporter_ask(e, "GET", "/metrics", EXPORTER_PLAIN), 200);
}

/* The text behind the headers. */
static inline const char *exporter_body(void)
{
	const char *end = strstr(out, "\r\n\r\n");

	return end != NULL ? end + 4 : out;
}

/* ---- samples ------------------------------------------------------------- */

/* Is the line a sample of @name that has all these labels? */
static inline bool exporter_is(const char *line, const char *name, va_list list)
{
	size_t n = strlen(name);
	const char *end = strchr(line, '\n'), *label;

	if (strncmp(line, name, n) != 0 || (line[n] != '{' && line[n] != ' '))
		return false;
	while ((label = va_arg(list, const char *)) != NULL) {
		const char *at = strstr(line, label);

		if (at == NULL || at > end || (at[-1] != ',' && at[-1] != '{'))
			return false;
	}
	return true;
}

/* How many samples of @name have these labels, a="b", to a NULL, and the value
 * of the last; in the answer that is in the buffer. */
static inline unsigned int exporter_find(double *ret_value, const char *name,
					 ...)
{
	const char *line = exporter_body(), *end;
	unsigned int n = 0;

	for (; (end = strchr(line, '\n')) != NULL; line = end + 1) {
		va_list list;

		va_start(list, name);
		if (exporter_is(line, name, list)) {
			const char *blank = end;

			while (*blank != ' ')
				blank--;
			*ret_value = strtod(blank, NULL);
			n++;
		}
		va_end(list);
	}
	return n;
}

/* The value of the one sample; NaN if there is none, or several. */
#define EXPORTER_VALUE(...)                                                   \
	({                                                                    \
		double value_;                                                \
                                                                              \
		exporter_find(&value_, __VA_ARGS__, NULL) == 1 ? value_       \
							       : (double)NAN; \
	})

#endif
