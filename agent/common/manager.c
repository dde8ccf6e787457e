/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/common/manager.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FIRST_FD 3 /* of those that a manager passes */

/* A number of the environment.  Returns false where there is none. */
static bool number_of(const char *name, uint64_t *ret_number)
{
	const char *text = getenv(name);
	char *end;

	if (text == NULL || *text < '0' || *text > '9')
		return false;
	errno = 0;
	*ret_number = strtoull(text, &end, 10);
	return errno == 0 && *end == '\0';
}

/* A process that passes its environment on does not pass its manager on. */
static bool is_for_us(const char *name)
{
	uint64_t pid;

	return number_of(name, &pid) && pid == (uint64_t)getpid();
}

/* ---- states -------------------------------------------------------------- */

/* A path, or with '@' a name without one. */
socklen_t gm_manager_address(struct sockaddr_un *ret_to)
{
	const char *path = getenv("NOTIFY_SOCKET");
	size_t n = path != NULL ? strlen(path) : 0;

	if (n < 2 || n >= sizeof(ret_to->sun_path) ||
	    (path[0] != '/' && path[0] != '@'))
		return 0;
	*ret_to = (struct sockaddr_un){ .sun_family = AF_UNIX };
	memcpy(ret_to->sun_path, path, n);
	if (path[0] == '@')
		ret_to->sun_path[0] = '\0';
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n);
}

static void tell(struct gm_manager *m, const char *state)
{
	if (m->socket >= 0)
		sendto(m->socket, state, strlen(state),
		       MSG_DONTWAIT | MSG_NOSIGNAL,
		       (const struct sockaddr *)&m->to, m->to_bytes);
}

void gm_manager_ready(struct gm_manager *m)
{
	tell(m, "READY=1");
}

void gm_manager_stopping(struct gm_manager *m)
{
	tell(m, "STOPPING=1");
}

void gm_manager_status(struct gm_manager *m, const char *status)
{
	char state[sizeof("STATUS=") + GM_MANAGER_STATUS_BYTES];

	if (m->socket < 0 || strcmp(m->status, status) == 0)
		return;
	snprintf(m->status, sizeof(m->status), "%s", status);
	snprintf(state, sizeof(state), "STATUS=%s", m->status);
	tell(m, state);
}

/* Four times in each period: managers count from the last one that came. */
void gm_manager_feed(struct gm_manager *m, uint64_t now_ns)
{
	if (m->watchdog_ns == 0 ||
	    (m->fed_ns != 0 && now_ns - m->fed_ns < m->watchdog_ns / 4))
		return;
	m->fed_ns = now_ns;
	tell(m, "WATCHDOG=1");
}

/* ---- the socket ---------------------------------------------------------- */

static int option_of(int fd, int option)
{
	socklen_t bytes = sizeof(int);
	int value = -1;

	return getsockopt(fd, SOL_SOCKET, option, &value, &bytes) == 0 ? value
								       : -1;
}

static int check_listener(int fd, char *ret_why)
{
	if (option_of(fd, SO_DOMAIN) != AF_UNIX ||
	    option_of(fd, SO_TYPE) != SOCK_SEQPACKET ||
	    option_of(fd, SO_ACCEPTCONN) != 1)
		return gm_why(
			ret_why, -EINVAL,
			"descriptor %d, which the service manager passed, "
			"is no listening SOCK_SEQPACKET socket: "
			"the socket unit wants ListenSequentialPacket=",
			fd);
	if (fcntl(fd, F_SETFL, O_NONBLOCK) != 0)
		return gm_why(ret_why, -errno, "descriptor %d: %s", fd,
			      strerror(errno));
	return 0;
}

static int take_listener(struct gm_manager *m, int fd, char *ret_why)
{
	int ret;

	if (m->listener >= 0)
		return gm_why(ret_why, -EINVAL,
			      "the service manager passed a second socket, "
			      "descriptor %d: the socket unit has one "
			      "ListenSequentialPacket=, and no more",
			      fd);
	ret = check_listener(fd, ret_why);
	if (ret == 0)
		m->listener = fd;
	return ret;
}

/* The next name of a list with colons between them; "" behind its end. */
static void next_name(const char **names, char ret_name[GM_MANAGER_NAME_BYTES])
{
	size_t n = strcspn(*names, ":");

	snprintf(ret_name, GM_MANAGER_NAME_BYTES, "%.*s", (int)n, *names);
	*names += n + ((*names)[n] == ':');
}

/* Another build may have had the manager keep other things than shares. */
static bool is_kept(int fd, const char *name)
{
	return strncmp(name, GM_MANAGER_KEPT, strlen(GM_MANAGER_KEPT)) == 0 ||
	       (name[0] != '\0' && option_of(fd, SO_DOMAIN) < 0);
}

static int take_passed(struct gm_manager *m, int fd, const char **names,
		       char *ret_why)
{
	struct gm_manager_kept *kept = &m->kept[m->n_kept];

	if (fcntl(fd, F_SETFD, FD_CLOEXEC) != 0)
		return gm_why(ret_why, -errno,
			      "descriptor %d, which the service manager was to "
			      "pass: %s",
			      fd, strerror(errno));
	next_name(names, kept->name);
	if (!is_kept(fd, kept->name))
		return take_listener(m, fd, ret_why);
	kept->fd = fd;
	m->n_kept++;
	return 0;
}

static int find_passed(struct gm_manager *m, char *ret_why)
{
	const char *names = getenv("LISTEN_FDNAMES");
	uint64_t n;
	int ret = 0;

	if (!number_of("LISTEN_FDS", &n) || n == 0 || n > INT_MAX / 2 ||
	    !is_for_us("LISTEN_PID"))
		return 0;
	m->kept = calloc(n, sizeof(*m->kept));
	if (m->kept == NULL)
		return gm_why(ret_why, -ENOMEM, "out of memory");
	if (names == NULL)
		names = "";
	for (uint64_t i = 0; i < n && ret == 0; i++)
		ret = take_passed(m, FIRST_FD + (int)i, &names, ret_why);
	return ret;
}

bool gm_manager_has_kept(void)
{
	const char *names = getenv("LISTEN_FDNAMES");

	return names != NULL && strstr(names, GM_MANAGER_KEPT) != NULL &&
	       is_for_us("LISTEN_PID");
}

int gm_manager_take_listener(struct gm_manager *m, const char *path,
			     char ret_why[GM_WHY_BYTES])
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	socklen_t bytes = sizeof(at);
	int fd = m->listener;

	if (fd < 0)
		return -ENOENT;
	if (getsockname(fd, (struct sockaddr *)&at, &bytes) != 0)
		return gm_why(ret_why, -errno, "descriptor %d: %s", fd,
			      strerror(errno));
	if (strncmp(at.sun_path, path, sizeof(at.sun_path)) != 0)
		return gm_why(ret_why, -EINVAL,
			      "the service manager listens on %.90s, and "
			      "clients look for %.90s: make them the same, see "
			      "--runtime-dir and --instance",
			      at.sun_path[0] != '\0' ? at.sun_path : "no path",
			      path);
	m->listener = -1;
	return fd;
}

int gm_manager_init(struct gm_manager *m, char ret_why[GM_WHY_BYTES])
{
	uint64_t us, n;
	int ret;

	*m = (struct gm_manager){ .socket = -1, .listener = -1 };
	m->to_bytes = gm_manager_address(&m->to);
	if (m->to_bytes > 0)
		m->socket = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (number_of("WATCHDOG_USEC", &us) && us <= INT64_MAX / 1000 &&
	    (getenv("WATCHDOG_PID") == NULL || is_for_us("WATCHDOG_PID")))
		m->watchdog_ns = us * 1000;
	/* The unit's own is for systemd before 254. */
	if ((number_of("FDSTORE", &n) || number_of("GPUMAP_FDSTORE_MAX", &n)) &&
	    m->socket >= 0)
		m->keeps_most = n < GM_MANAGER_KEEPS_MAX ? (uint32_t)n
							 : GM_MANAGER_KEEPS_MAX;
	ret = find_passed(m, ret_why);
	unsetenv("NOTIFY_SOCKET");
	unsetenv("WATCHDOG_USEC");
	unsetenv("WATCHDOG_PID");
	unsetenv("LISTEN_FDS");
	unsetenv("LISTEN_PID");
	unsetenv("LISTEN_FDNAMES");
	unsetenv("FDSTORE");
	unsetenv("GPUMAP_FDSTORE_MAX");
	return ret;
}

void gm_manager_exit(struct gm_manager *m)
{
	if (m->socket >= 0)
		close(m->socket);
	if (m->listener >= 0)
		close(m->listener);
	m->socket = m->listener = -1;
	for (uint32_t i = 0; i < m->n_kept; i++) {
		if (m->kept[i].fd >= 0)
			close(m->kept[i].fd);
	}
	free(m->kept);
	m->kept = NULL;
	m->n_kept = 0;
}
