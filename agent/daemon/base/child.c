/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/base/child.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define TURNS      64   /* records that are read in one go */
#define LAST_TURNS 4096 /* of a child that has ended */

static void close_source(struct gm_child *child, struct gm_source *source)
{
	if (source->fd < 0)
		return;
	gm_loop_del(child->loop, source);
	close(source->fd);
	source->fd = -1;
}

static void close_all(struct gm_child *child)
{
	gm_timer_stop(child->loop, &child->timer);
	close_source(child, &child->socket);
	close_source(child, &child->pidfd);
	child->state = GM_CHILD_NONE;
}

/* ---- what it says -------------------------------------------------------- */

/* Keep the last line, which may come in pieces. */
static void keep_line(struct gm_child *child, const char *text, size_t n)
{
	for (; n > 0; n--, text++) {
		if (*text == '\n') {
			child->line_ends = true;
			continue;
		}
		if (child->line_ends)
			child->n_line = 0;
		child->line_ends = false;
		if (child->n_line < sizeof(child->line) - 1)
			child->line[child->n_line++] = *text;
		child->line[child->n_line] = '\0';
	}
}

/* Returns 1 when there may be more, 0 when there is not, -EPIPE at the end. */
static int listen_once(struct gm_child *child)
{
	_Alignas(16) char record[GM_CHILD_RECORD_BYTES];
	size_t bytes = child->kind->record_bytes;
	ssize_t n;

	if (child->socket.fd < 0)
		return -EPIPE;
	n = recv(child->socket.fd, record, sizeof(record),
		 MSG_DONTWAIT | MSG_TRUNC);
	if (n < 0 && errno == EINTR)
		return 1;
	if (n < 0 && errno == EAGAIN)
		return 0;
	if (n <= 0)
		return -EPIPE;
	if (bytes == 0)
		keep_line(child, record,
			  (size_t)n < sizeof(record) ? (size_t)n
						     : sizeof(record));
	else if ((size_t)n != bytes || !child->kind->said(child, record)) {
		gm_child_kill(child, "it says what is no record: is it of "
				     "this build?");
		return -EPIPE;
	}
	return 1;
}

static void on_said(struct gm_source *source, uint32_t events)
{
	struct gm_child *child = gm_owner(source, struct gm_child, socket);
	int ret = 1;

	(void)events;
	for (int i = 0; i < TURNS && ret > 0; i++)
		ret = listen_once(child);
	if (ret < 0)
		close_source(child, &child->socket);
}

bool gm_child_is_unheard(const struct gm_child *child)
{
	struct pollfd unread = { .fd = child->socket.fd, .events = POLLIN };

	return child->socket.fd >= 0 && poll(&unread, 1, 0) > 0;
}

int gm_child_send(struct gm_child *child, const void *record, size_t bytes)
{
	if (child->socket.fd < 0)
		return -EPIPE;
	if (send(child->socket.fd, record, bytes,
		 MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)bytes)
		return 0;
	return -errno;
}

/* ---- its end ------------------------------------------------------------- */

static void on_ended(struct gm_source *source, uint32_t events)
{
	struct gm_child *child = gm_owner(source, struct gm_child, pidfd);
	char how[64];
	int status;

	(void)events;
	/* Its last words first.  One of them may have dropped it. */
	for (int i = 0; i < LAST_TURNS && listen_once(child) > 0; i++)
		;
	if (child->state == GM_CHILD_NONE ||
	    !gm_spawn_reap(&child->process, how, &status))
		return;
	close_all(child);
	child->kind->ended(child, how, status);
}

static void on_limit(struct gm_timer *timer)
{
	struct gm_child *child = gm_owner(timer, struct gm_child, timer);

	if (child->state == GM_CHILD_RUNNING) {
		gm_child_kill(child, child->limit_why);
		return;
	}
	child->state = GM_CHILD_STUCK;
	if (child->kind->stuck)
		child->kind->stuck(child);
}

void gm_child_limit(struct gm_child *child, uint64_t ns, const char *why)
{
	if (child->state != GM_CHILD_RUNNING)
		return;
	child->limit_why = why;
	gm_timer_set(child->loop, &child->timer, gm_loop_now() + ns);
}

void gm_child_kill(struct gm_child *child, const char *why)
{
	if (child->state != GM_CHILD_RUNNING)
		return;
	snprintf(child->why, sizeof(child->why), "%s", why);
	kill(child->process.pid, SIGKILL);
	child->state = GM_CHILD_ENDING;
	gm_timer_set(child->loop, &child->timer,
		     gm_loop_now() + GM_CHILD_STUCK_NS);
}

void gm_child_hang_up(struct gm_child *child, uint64_t ns, const char *why)
{
	close_source(child, &child->socket);
	gm_child_limit(child, ns, why);
}

void gm_child_drop(struct gm_child *child)
{
	if (child->state == GM_CHILD_NONE)
		return;
	gm_spawn_undo(&child->process);
	close_all(child);
}

void gm_child_abandon(struct gm_child *child)
{
	gm_spawn_abandon(&child->process);
	close_all(child);
}

void gm_child_exit(struct gm_child *child, uint64_t until_ns)
{
	struct pollfd p = { child->pidfd.fd, POLLIN, 0 };
	char how[64];
	int status;

	if (child->state == GM_CHILD_NONE)
		return;
	kill(child->process.pid, SIGKILL);
	while (!gm_spawn_reap(&child->process, how, &status) &&
	       gm_loop_now() < until_ns)
		poll(&p, 1, 50);
	close_all(child);
}

/* ---- its start ----------------------------------------------------------- */

int gm_child_adopt(struct gm_child *child, struct gm_loop *loop,
		   const struct gm_child_kind *kind,
		   const struct gm_spawned *process)
{
	int error;

	*child = (struct gm_child){
		.loop = loop,
		.kind = kind,
		.state = GM_CHILD_RUNNING,
		.process = *process,
		.pidfd = { process->pidfd, on_ended },
		.socket = { process->socket, on_said },
		.timer = { .fired = on_limit },
		.began_ns = gm_loop_now(),
	};
	error = gm_loop_add(loop, &child->pidfd, EPOLLIN);
	if (error == 0)
		error = gm_loop_add(loop, &child->socket, EPOLLIN);
	if (error != 0)
		gm_child_drop(child);
	return error;
}

int gm_child_start(struct gm_child *child, struct gm_loop *loop,
		   const struct gm_child_kind *kind, const char *const argv[],
		   char *const env[])
{
	char *const *words = (char *const *)(uintptr_t)argv;
	struct gm_spawned process;
	int error;

	error = kind->record_bytes ? gm_spawn(words, env, -1, -1, &process)
				   : gm_spawn_heard(words, env, &process);
	return error ? error : gm_child_adopt(child, loop, kind, &process);
}

struct gm_spawned gm_child_hand_over(struct gm_child *child)
{
	gm_timer_stop(child->loop, &child->timer);
	gm_loop_del(child->loop, &child->socket);
	gm_loop_del(child->loop, &child->pidfd);
	child->socket.fd = -1;
	child->pidfd.fd = -1;
	child->state = GM_CHILD_NONE;
	return child->process;
}

uint64_t gm_child_rest(uint64_t first_ns, uint32_t factor, uint32_t n,
		       uint64_t most_ns)
{
	uint64_t rest = first_ns;

	while (n-- > 1 && rest < most_ns)
		rest *= factor;
	return rest < most_ns ? rest : most_ns;
}
