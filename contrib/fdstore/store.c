/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "contrib/fdstore/store.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/kcmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "agent/common/log.h"

#define FDS_MAX     253 /* of one message: SCM_MAX_FD */
#define FIRST_FD    3
#define TEXT_BYTES  4096
#define QUEUE_BYTES (1 << 20)
/* A string of the environment has 128 KiB at most, with its name and NUL. */
#define NAMES_MAX ((128u << 10) - sizeof("LISTEN_FDNAMES="))

/* ---- the socket ---------------------------------------------------------- */

/* In the folder that no other user may enter, so that none can fill it. */
static int make_folder(struct store *s)
{
	const char *names[] = { getenv("XDG_RUNTIME_DIR"), "/run",
				getenv("TMPDIR"), "/tmp" };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		int n;

		if (names[i] == NULL || names[i][0] != '/')
			continue;
		n = snprintf(s->folder, sizeof(s->folder),
			     "%s/gpumap-fdstore-XXXXXX", names[i]);
		if (n < (int)sizeof(s->folder) && mkdtemp(s->folder) != NULL)
			return 0;
	}
	s->folder[0] = '\0';
	return errno ? -errno : -ENOENT;
}

int store_open(struct store *s, unsigned most)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	const int on = 1, bytes = QUEUE_BYTES;
	int ret;

	*s = (struct store){ .socket = -1, .most = most };
	s->kept = calloc(most, sizeof(*s->kept));
	if (s->kept == NULL)
		return -ENOMEM;
	ret = make_folder(s);
	if (ret != 0)
		return ret;
	snprintf(s->path, sizeof(s->path), "%s/notify", s->folder);
	if (strlen(s->path) >= sizeof(address.sun_path))
		return -ENAMETOOLONG;
	memcpy(address.sun_path, s->path, strlen(s->path) + 1);
	s->socket =
		socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (s->socket < 0 ||
	    bind(s->socket, (const struct sockaddr *)&address,
		 sizeof(address)) != 0 ||
	    setsockopt(s->socket, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)) !=
		    0)
		return -errno;
	setsockopt(s->socket, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes));
	return 0;
}

void store_close(struct store *s)
{
	if (s->socket >= 0)
		close(s->socket);
	if (s->path[0] != '\0')
		unlink(s->path);
	if (s->folder[0] != '\0')
		rmdir(s->folder);
	for (unsigned i = 0; i < s->n; i++)
		close(s->kept[i].fd);
	free(s->kept);
}

/* ---- messages ------------------------------------------------------------ */

struct message {
	char text[TEXT_BYTES];
	int fds[FDS_MAX];
	unsigned n_fds;
	pid_t pid;
};

static void take_control(struct message *m, struct msghdr *head)
{
	struct cmsghdr *part;

	for (part = CMSG_FIRSTHDR(head); part != NULL;
	     part = CMSG_NXTHDR(head, part)) {
		size_t bytes = part->cmsg_len - CMSG_LEN(0);

		if (part->cmsg_level != SOL_SOCKET)
			continue;
		if (part->cmsg_type == SCM_RIGHTS) {
			memcpy(m->fds, CMSG_DATA(part), bytes);
			m->n_fds = (unsigned)(bytes / sizeof(int));
		} else if (part->cmsg_type == SCM_CREDENTIALS) {
			struct ucred sender;

			memcpy(&sender, CMSG_DATA(part), sizeof(sender));
			m->pid = sender.pid;
		}
	}
}

/* Returns 0, -EAGAIN where there is none, or another negative errno. */
static int receive(struct store *s, struct message *m)
{
	union {
		struct cmsghdr head;
		char bytes[CMSG_SPACE(sizeof(m->fds)) +
			   CMSG_SPACE(sizeof(struct ucred))];
	} control;
	struct iovec text = { m->text, sizeof(m->text) - 1 };
	struct msghdr head = { .msg_iov = &text,
			       .msg_iovlen = 1,
			       .msg_control = control.bytes,
			       .msg_controllen = sizeof(control.bytes) };
	ssize_t n;

	m->n_fds = 0;
	m->pid = 0;
	n = recvmsg(s->socket, &head, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
	if (n < 0)
		return -errno;
	m->text[n] = '\0';
	take_control(m, &head);
	if (head.msg_flags & (MSG_TRUNC | MSG_CTRUNC))
		gm_log(GM_LOG_WARNING, "fd_lost",
		       "why=\"a message was cut: raise the limit of open "
		       "files\"");
	return 0;
}

/* The value of a line NAME=VALUE, up to the end of the line; NULL: none. */
static const char *find(const char *text, const char *name)
{
	size_t n = strlen(name);

	while (text != NULL && *text != '\0') {
		if (strncmp(text, name, n) == 0 && text[n] == '=')
			return text + n + 1;
		text = strchr(text, '\n');
		text += text != NULL;
	}
	return NULL;
}

static bool is_set(const char *text, const char *name)
{
	const char *value = find(text, name);

	return value != NULL && value[0] == '1' &&
	       (value[1] == '\n' || value[1] == '\0');
}

/* A colon ends a name in $LISTEN_FDNAMES. */
static void name_of(const char *text, char ret_name[FDSTORE_NAME_BYTES])
{
	const char *value = find(text, "FDNAME");
	size_t n = value != NULL ? strcspn(value, "\n") : 0;

	if (n == 0 || n >= FDSTORE_NAME_BYTES || memchr(value, ':', n) != NULL)
		snprintf(ret_name, FDSTORE_NAME_BYTES, "stored");
	else
		snprintf(ret_name, FDSTORE_NAME_BYTES, "%.*s", (int)n, value);
}

/* Those that are kept are in the order of their open files, which kcmp() tells.
 * Returns where @fd has its place, and in *@ret_has whether its file is there:
 * systemd keeps one descriptor of an open file. */
static unsigned place_of(const struct store *s, int fd, bool *ret_has)
{
	unsigned low = 0, high = s->n;
	pid_t pid = getpid();

	*ret_has = false;
	while (low < high && !*ret_has) {
		unsigned middle = low + (high - low) / 2;
		long order = syscall(SYS_kcmp, pid, pid, KCMP_FILE, fd,
				     s->kept[middle].fd);

		*ret_has = order == 0;
		if (order == 2) /* it comes behind */
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* Why it is not kept, or NULL. */
static const char *find_hindrance(const struct store *s, const char *name)
{
	size_t bytes = strlen(name) + 1; /* with a colon */

	if (s->n == s->most)
		return "so many are kept: raise --max";
	for (unsigned i = 0; i < s->n; i++)
		bytes += strlen(s->kept[i].name) + 1;
	return bytes > NAMES_MAX ? "the names would not fit in a variable"
				 : NULL;
}

static void add(struct store *s, const char *name, int fd)
{
	bool has;
	struct kept *kept = &s->kept[place_of(s, fd, &has)];
	const char *why = has ? NULL : find_hindrance(s, name);

	if (why != NULL)
		gm_log(GM_LOG_WARNING, "fd_refused",
		       "name=%s kept=%u why=\"%s\"", gm_quote(name).text, s->n,
		       why);
	if (has || why != NULL) {
		close(fd);
		return;
	}
	memmove(kept + 1, kept,
		(size_t)(s->kept + s->n - kept) * sizeof(*kept));
	kept->fd = fd;
	snprintf(kept->name, sizeof(kept->name), "%s", name);
	s->n++;
}

static void take_out(struct store *s, const char *name)
{
	unsigned left = 0;

	for (unsigned i = 0; i < s->n; i++) {
		if (strcmp(s->kept[i].name, name) == 0)
			close(s->kept[i].fd);
		else
			s->kept[left++] = s->kept[i];
	}
	s->n = left;
}

void store_read(struct store *s, pid_t pid)
{
	struct message m;

	while (receive(s, &m) == 0) {
		char name[FDSTORE_NAME_BYTES];
		bool counts = m.pid == pid;

		name_of(m.text, name);
		if (counts && is_set(m.text, "FDSTOREREMOVE"))
			take_out(s, name);
		counts = counts && is_set(m.text, "FDSTORE");
		for (unsigned i = 0; i < m.n_fds; i++) {
			if (counts)
				add(s, name, m.fds[i]);
			else
				close(m.fds[i]);
		}
	}
}

/* ---- the next process ---------------------------------------------------- */

static int set_names(const struct store *s)
{
	char *names = calloc(s->n + 1, FDSTORE_NAME_BYTES), number[16];
	size_t bytes = 0;
	int ret;

	if (names == NULL)
		return -ENOMEM;
	for (unsigned i = 0; i < s->n; i++)
		bytes += (size_t)sprintf(names + bytes, "%s%s", i ? ":" : "",
					 s->kept[i].name);
	snprintf(number, sizeof(number), "%u", s->n);
	ret = setenv("LISTEN_FDNAMES", names, 1) != 0 ||
			      setenv("LISTEN_FDS", number, 1) != 0
		      ? -ENOMEM
		      : 0;
	free(names);
	return ret;
}

/* Those at numbers that others shall get make way first. */
int store_hand_over(const struct store *s)
{
	int above = FIRST_FD + (int)s->n;

	for (unsigned i = 0; i < s->n; i++) {
		int fd = fcntl(s->kept[i].fd, F_DUPFD_CLOEXEC, above);

		if (fd < 0)
			return -errno;
		s->kept[i].fd = fd;
	}
	for (unsigned i = 0; i < s->n; i++) {
		if (dup2(s->kept[i].fd, FIRST_FD + (int)i) < 0)
			return -errno;
	}
	return set_names(s);
}
