/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/sessions/listener.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "agent/common/log.h"
#include "agent/daemon/account/retry_queue.h"
#include "agent/daemon/base/connection.h"
#include "agent/daemon/base/deferred_close.h"
#include "agent/daemon/base/loop.h"
#include "agent/common/manager.h"
#include "agent/daemon/base/parts.h"
#include "agent/daemon/config.h"
#include "agent/daemon/meshes/rendezvous.h"
#include "agent/daemon/sessions/dispatch.h"
#include "agent/daemon/sessions/map_waits.h"
#include "agent/daemon/sessions/session.h"
#include "agent/daemon/sharing/export_accounting.h"
#include "agent/daemon/workers/supervisor.h"

#define BACKLOG       128
#define ACCEPT_A_TURN 32
#define PAUSE_NS      UINT64_C(100000000)

/* ---- new connections
 * ------------------------------------------------------ */

/* When the oldest of those who have said nothing is to be dropped. */
static void watch_silent(struct gm_control_server *s)
{
	const struct gm_connection *oldest = TAILQ_FIRST(&s->silent);

	if (oldest)
		gm_timer_set(s->d->loop, &s->hello,
			     oldest->since_ns + s->d->config->hello_timeout_ns);
	else
		gm_timer_stop(s->d->loop, &s->hello);
}

static void drop_silent(struct gm_timer *timer)
{
	struct gm_control_server *s =
		gm_owner(timer, struct gm_control_server, hello);
	uint64_t now = gm_loop_now();
	struct gm_connection *c;

	while ((c = TAILQ_FIRST(&s->silent)) &&
	       now - c->since_ns >= s->d->config->hello_timeout_ns)
		gm_connection_drop(c, GM_DROP_SILENT, "no HELLO in time");
	watch_silent(s);
}

static int open_reserve(void)
{
	return open("/dev/null", O_RDONLY | O_CLOEXEC);
}

static void listen_again(struct gm_timer *timer)
{
	struct gm_control_server *s =
		gm_owner(timer, struct gm_control_server, pause);

	if (s->reserve < 0)
		s->reserve = open_reserve();
	s->paused = gm_loop_mod(s->d->loop, &s->listener, EPOLLIN) != 0;
	if (s->paused)
		gm_timer_set(s->d->loop, &s->pause, gm_loop_now() + PAUSE_NS);
}

/* A listening socket that cannot be accepted from stays ready: leave it. */
static void pause_listening(struct gm_control_server *s)
{
	gm_loop_mod(s->d->loop, &s->listener, 0);
	gm_timer_set(s->d->loop, &s->pause, gm_loop_now() + PAUSE_NS);
	s->paused = true;
}

/* There is no descriptor left.  Connected clients need none; a new client is
 * turned away with the descriptor that was kept for this. */
static void turn_away(struct gm_control_server *s, int error)
{
	int fd;

	gm_log(GM_LOG_ERROR, "no_descriptors", "error=%s remedy=%s",
	       gm_quote(strerror(error)).text,
	       gm_quote(error == EMFILE ? "raise LimitNOFILE of gpumapd"
					: "raise fs.file-max")
		       .text);
	if (s->reserve >= 0) {
		close(s->reserve);
		fd = accept4(s->listener.fd, NULL, NULL, SOCK_CLOEXEC);
		if (fd >= 0)
			gm_connection_turn_away(s, fd, (uid_t)-1);
		s->reserve = open_reserve();
		s->drops[GM_DROP_REFUSED]++;
	}
	pause_listening(s);
}

/* Returns false when no connection waits any more. */
static bool accept_one(struct gm_control_server *s)
{
	int fd = accept4(s->listener.fd, NULL, NULL,
			 SOCK_NONBLOCK | SOCK_CLOEXEC);
	bool is_full =
		s->n_connections - s->n_refused >= s->d->config->connections;
	int error;

	if (fd < 0) {
		if (errno == ECONNABORTED || errno == EINTR)
			return true;
		if (errno == EMFILE || errno == ENFILE)
			turn_away(s, errno);
		else if (errno != EAGAIN)
			pause_listening(s); /* ENOBUFS, ENOMEM */
		return false;
	}
	error = gm_connection_open(s, fd, is_full);
	if (error == -EUSERS)
		s->drops[GM_DROP_REFUSED]++;
	else if (error)
		gm_log(GM_LOG_WARNING, "accept_failed", "error=%s",
		       gm_quote(strerror(-error)).text);
	return true;
}

static void newcomers(struct gm_source *source, uint32_t events)
{
	struct gm_control_server *s =
		gm_owner(source, struct gm_control_server, listener);
	int n = 0;

	while (n++ < ACCEPT_A_TURN && accept_one(s))
		;
	watch_silent(s);
}

/* ---- the socket -------------------------------------------------------- */

/* Only root gives its socket to a group; the mode is ours to set anyway. */
static int dress(const struct gm_control_server *s)
{
	const struct gm_config *config = s->d->config;

	if (config->socket_gid != (gid_t)-1 &&
	    chown(s->path, (uid_t)-1, config->socket_gid) != 0)
		return -errno;
	return chmod(s->path, config->socket_mode) ? -errno : 0;
}

/* The socket is closed to all until its owner and mode are set, so that no
 * client connects through a mode that is about to change. */
static int bind_socket(struct gm_control_server *s, int fd)
{
	struct sockaddr_un to = { .sun_family = AF_UNIX };
	mode_t before;
	int error = 0;

	memcpy(to.sun_path, s->path, sizeof(s->path));
	/* We hold the instance's lock: what lies there is a dead agent's. */
	if (unlink(s->path) != 0 && errno != ENOENT)
		return -errno;
	before = umask(0777);
	if (bind(fd, (struct sockaddr *)&to, sizeof(to)) != 0)
		error = -errno;
	umask(before);
	if (error == 0)
		error = dress(s);
	if (error == 0 && listen(fd, BACKLOG) != 0)
		error = -errno;
	return error;
}

/* A socket that a service manager passes has the owner and the mode that it
 * gave, and clients that have come before us. */
static int take_listener(struct gm_control_server *s)
{
	int fd = gm_manager_take_listener(s->d->manager, s->path, s->why);

	if (fd == -ENOENT)
		return 0;
	if (fd < 0) {
		gm_log(GM_LOG_ERROR, "manager", "why=%s",
		       gm_quote(s->why).text);
		return fd;
	}
	s->is_managers = true;
	s->keeps_fds_out = gm_connection_pass_fds(fd, false) == 0;
	s->listener = (struct gm_source){ fd, newcomers };
	return gm_loop_add(s->d->loop, &s->listener, EPOLLIN);
}

static int open_listener(struct gm_control_server *s)
{
	int n = snprintf(s->path, sizeof(s->path), "%s/%s.sock",
			 s->d->runtime_dir, s->d->instance);
	int fd, error;

	if (n < 0 || (size_t)n >= sizeof(s->path))
		return -ENAMETOOLONG;
	error = take_listener(s);
	if (error != 0 || s->is_managers)
		return error;
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	s->keeps_fds_out = gm_connection_pass_fds(fd, false) == 0;
	error = bind_socket(s, fd);
	s->listener = (struct gm_source){ fd, newcomers };
	if (error == 0)
		error = gm_loop_add(s->d->loop, &s->listener, EPOLLIN);
	return error;
}

static const char *remedy(int error)
{
	switch (error) {
	case -ENAMETOOLONG:
		return "give a shorter --runtime-dir: a socket's path has 107 "
		       "bytes";
	case -ENOENT:
		return "make the runtime directory, or give another with "
		       "--runtime-dir";
	case -EACCES:
	case -EPERM:
		return "run as the owner of the runtime directory, or give "
		       "another with --runtime-dir";
	default:
		return "see the error";
	}
}

/* The mode of a manager's socket is not in our configuration. */
static void tell_listening(const struct gm_control_server *s)
{
	char mode[16] = "manager's";

	if (!s->is_managers)
		snprintf(mode, sizeof(mode), "%04o",
			 (unsigned)s->d->config->socket_mode);
	gm_log(GM_LOG_INFO, "listening", "socket=%s mode=%s",
	       gm_quote(s->path).text, mode);
}

int gm_listener_start(struct gm_daemon *d)
{
	struct gm_control_server *s = calloc(1, sizeof(*s));
	int error;

	if (!s) {
		gm_log(GM_LOG_ERROR, "control_failed", "error=ENOMEM");
		return -ENOMEM;
	}
	d->server = s;
	s->d = d;
	s->listener.fd = s->share = -1;
	s->reserve = open_reserve();
	s->pause.fired = listen_again;
	s->hello.fired = drop_silent;
	TAILQ_INIT(&s->silent);
	TAILQ_INIT(&s->known);
	TAILQ_INIT(&s->users);
	gm_connection_init_turns(s);
	gm_map_waits_init(s);
	TAILQ_INIT(&s->sessions);
	TAILQ_INIT(&s->exports);
	TAILQ_INIT(&s->shares);
	TAILQ_INIT(&s->share_claims);
	TAILQ_INIT(&s->share_answers);
	TAILQ_INIT(&s->rendezvous);
	s->kind_of = gm_dispatch_request_kind;
	s->waits_for_room = gm_retry_queue_add;
	gm_retry_queue_init(s);
	gm_close_thread_init(&s->close_thread);
	error = gm_deferred_close_start(d->loop);
	if (error == 0)
		error = open_listener(s);
	if (error) {
		gm_log(GM_LOG_ERROR, "control_failed",
		       "socket=%s error=%s remedy=%s", gm_quote(s->path).text,
		       gm_quote(strerror(-error)).text,
		       gm_quote(remedy(error)).text);
		gm_listener_exit(d);
		return error;
	}
	tell_listening(s);
	return 0;
}

void gm_listener_drain(struct gm_daemon *d)
{
	if (d->server) {
		d->server->draining = true; /* sessions are refused now */
		gm_retry_queue_changed(d->server);
	}
}

/* Clients may read and ask until the workers have finished. */
bool gm_listener_drained(const struct gm_daemon *d)
{
	return !d->server || gm_supervisor_drained(d);
}

static void drop_all(struct gm_connection_list *list)
{
	struct gm_connection *c;

	while ((c = TAILQ_FIRST(list)))
		gm_connection_drop(c, GM_DROP_AGENT, "the agent is ending");
}

/* Has the user something of us, beside memory that is being freed? */
static bool has_something(const struct gm_user *user)
{
	return user->holds != user->releases || user->connections ||
	       user->sessions || user->registrations || user->comms ||
	       user->members || user->exports || user->imports ||
	       !LIST_EMPTY(&user->masks);
}

/* Every client is gone: whatever is left is a fault of ours. */
static void tell_left_over(const struct gm_control_server *s)
{
	const struct gm_user *user;
	const struct gm_export *export;
	uint32_t users = 0, exports = 0;

	TAILQ_FOREACH(user, &s->users, entry)
	users += has_something(user);
	TAILQ_FOREACH(export, &s->exports, entry)
	exports++;
	if (users == 0 && exports == 0 && s->n_connections == 0 &&
	    s->n_sessions == 0 && TAILQ_EMPTY(&s->shares) &&
	    TAILQ_EMPTY(&s->share_claims) && TAILQ_EMPTY(&s->rendezvous) &&
	    TAILQ_EMPTY(&s->room_waits))
		return;
	gm_log(GM_LOG_WARNING, "left_over",
	       "users=%u connections=%u sessions=%u exports=%u shares=%d "
	       "claims=%d rendezvous=%d requests=%d",
	       users, s->n_connections, s->n_sessions, exports,
	       !TAILQ_EMPTY(&s->shares), !TAILQ_EMPTY(&s->share_claims),
	       !TAILQ_EMPTY(&s->rendezvous), !TAILQ_EMPTY(&s->room_waits));
}

void gm_listener_exit(struct gm_daemon *d)
{
	struct gm_control_server *s = d->server;

	if (!s)
		return;
	s->is_ending = true;
	gm_timer_stop(d->loop, &s->pause);
	gm_timer_stop(d->loop, &s->hello);
	gm_timer_stop(d->loop, &s->turn);
	gm_timer_stop(d->loop, &s->map_tells);
	if (s->listener.fd >= 0) {
		gm_loop_del(d->loop, &s->listener);
		close(s->listener.fd);
		if (!s->is_managers)
			unlink(s->path);
	}
	drop_all(&s->silent);
	drop_all(&s->known);
	gm_rendezvous_exit(d);
	/* Workers that still have some mapped end with us. */
	while (!TAILQ_EMPTY(&s->sessions))
		gm_session_free(TAILQ_FIRST(&s->sessions));
	gm_shares_exit(s);
	gm_retry_queue_exit(s);
	gm_user_forget_idle(s, UINT64_MAX);
	tell_left_over(s);
	gm_close_thread_stop(&s->close_thread);
	gm_deferred_close_stop(d->loop);
	if (s->reserve >= 0)
		close(s->reserve);
	if (s->share >= 0)
		close(s->share);
	free(s);
	d->server = NULL;
}
