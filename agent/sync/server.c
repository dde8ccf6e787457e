/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/sync/server.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "agent/common/close_thread.h"
#include "agent/common/log.h"
#include "agent/sync/config.h"
#include "agent/sync/sync.h"

#ifndef SO_PASSRIGHTS
#define SO_PASSRIGHTS 83
#endif

#define BODY_BYTES  256u /* of any request */
#define BACKLOG     128
#define REFUSED_MAX 16u                  /* that are told why */
#define SILENT_NS   UINT64_C(5000000000) /* before HELLO */
#define PAUSE_NS    UINT64_C(1000000000) /* without descriptors for more */

struct gm_sync_server {
	struct gm_sync *sync;
	struct gm_sync_source listener;
	int lock;
	uint64_t pause_ns; /* until we accept again; 0: we do */
	LIST_HEAD(, gm_sync_client) clients;
	uint32_t n_clients; /* without those that are refused */
	uint32_t n_refused;
	bool keeps_fds_out;
	struct gm_close_thread close_thread;
	char record[GM_SYNC_BYTES_MAX] __attribute__((aligned(8)));
};

/* ---- the socket ---------------------------------------------------------- */

static int fail(const char *path, int error, const char *remedy)
{
	gm_log(GM_LOG_ERROR, "socket", "path=%s why=%s remedy=%s",
	       gm_quote(path).text, gm_quote(strerror(error)).text,
	       gm_quote(remedy).text);
	return -error;
}

/* One gpumap-sync at a time has the path: the kernel gives the lock back with
 * the process. */
static int take_lock(struct gm_sync_server *server, const char *path)
{
	char name[sizeof(((struct sockaddr_un *)0)->sun_path) + 8];

	snprintf(name, sizeof(name), "%s.lock", path);
	server->lock = open(name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW,
			    S_IRUSR | S_IWUSR);
	if (server->lock < 0)
		return fail(path, errno,
			    "make the directory of [socket] path, for the "
			    "user of gpumap-sync");
	if (flock(server->lock, LOCK_EX | LOCK_NB) != 0)
		return fail(path, errno == EWOULDBLOCK ? EADDRINUSE : errno,
			    "another gpumap-sync has this socket: end it, or "
			    "give this one another [socket] path");
	return 0;
}

static int listen_at(struct gm_sync_server *server, const char *path)
{
	const struct gm_sync_config *config = server->sync->config;
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	int no = 0, fd;

	memcpy(at.sun_path, path, strlen(path) + 1);
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	server->listener.fd = fd;
	if (fd < 0 || (unlink(path) != 0 && errno != ENOENT))
		return fail(path, errno, "see the directory of [socket] path");
	/* Before Linux 6.16 each record is looked at first. */
	server->keeps_fds_out =
		setsockopt(fd, SOL_SOCKET, SO_PASSRIGHTS, &no, sizeof(no)) == 0;
	umask(0777);
	if (bind(fd, (const struct sockaddr *)&at, sizeof(at)) != 0)
		return fail(path, errno, "see the directory of [socket] path");
	if (config->socket_gid != (gid_t)-1 &&
	    config->socket_gid != getegid() &&
	    chown(path, (uid_t)-1, config->socket_gid) != 0)
		gm_log(GM_LOG_WARNING, "socket_group", "why=%s remedy=%s",
		       gm_quote(strerror(errno)).text,
		       gm_quote("add the user of gpumap-sync to the group, or "
				"name one of its own as [socket] group")
			       .text);
	umask(022);
	if (chmod(path, config->socket_mode) != 0 || listen(fd, BACKLOG) != 0)
		return fail(path, errno, "see the directory of [socket] path");
	return 0;
}

/* ---- clients ------------------------------------------------------------- */

/* The last close of a descriptor that a client has sent may take as long as
 * the client likes. */
static void close_socket(struct gm_sync_server *server, int fd)
{
	if (server->keeps_fds_out) {
		close(fd);
		return;
	}
	shutdown(fd, SHUT_RDWR);
	gm_close_thread_close(&server->close_thread, fd);
}

static uint32_t count_of(const struct gm_sync_server *server, uid_t uid)
{
	const struct gm_sync_client *client;
	uint32_t n = 0;

	LIST_FOREACH(client, &server->clients, entry)
	n += client->uid == uid && !client->is_refused;
	return n;
}

static void end(struct gm_sync_client *client, const char *why)
{
	if (!client->is_over && why != NULL)
		gm_log_of(client->uid, GM_LOG_WARNING, "client_ended",
			  "pid=%d uid=%u why=%s", (int)client->pid,
			  (unsigned)client->uid, gm_quote(why).text);
	client->is_over = true;
}

void gm_sync_server_reap(struct gm_sync_server *server)
{
	struct gm_sync_client *client, *next;

	for (client = LIST_FIRST(&server->clients); client != NULL;
	     client = next) {
		next = LIST_NEXT(client, entry);
		if (!client->is_over)
			continue;
		for (size_t i = 0; gm_sync_parts[i] != NULL; i++)
			if (gm_sync_parts[i]->client_gone != NULL)
				gm_sync_parts[i]->client_gone(client);
		LIST_REMOVE(client, entry);
		if (client->is_refused)
			server->n_refused--;
		else
			server->n_clients--;
		gm_sync_remove(server->sync, &client->source);
		close_socket(server, client->source.fd);
		free(client);
	}
}

/* ---- requests ------------------------------------------------------------ */

static const struct gm_sync_request *find_request(uint32_t type)
{
	for (size_t i = 0; gm_sync_parts[i] != NULL; i++) {
		const struct gm_sync_part *part = gm_sync_parts[i];

		for (size_t j = 0; j < part->n_requests; j++)
			if (part->requests[j].type == type)
				return &part->requests[j];
	}
	return NULL;
}

static void hello(struct gm_sync_client *client,
		  const struct gm_control *header)
{
	const struct gm_sync_config *config = client->sync->config;
	struct gm_sync_hello_reply body = { .lease_ns = config->ttl_ns,
					    .version = GPUMAP_VERSION };
	const struct gm_sync_reply reply = { .body = &body,
					     .body_bytes = sizeof(body) };

	client->said_hello = true;
	if (client->is_refused) {
		gm_sync_client_refuse(client, header, -EUSERS,
				      "too many processes are connected to "
				      "gpumap-sync: end some of this user's");
		end(client, NULL);
		return;
	}
	snprintf(body.cluster, sizeof(body.cluster), "%s", config->cluster);
	snprintf(body.node, sizeof(body.node), "%s", config->node);
	gm_sync_client_reply(client, header, &reply);
}

/* Returns the fault of a record, or NULL. */
static const char *check_record(const struct gm_sync_client *client,
				const struct gm_control *header, size_t bytes)
{
	if (bytes < sizeof(*header))
		return "shorter than a header";
	if (header->magic != GM_CONTROL_MAGIC)
		return "wrong magic";
	if (header->version != GM_CONTROL_VERSION)
		return "unknown version";
	if (header->bytes != bytes)
		return "its length is not its header's";
	if (header->body > bytes - sizeof(*header))
		return "its body is longer than itself";
	if (client->said_hello == (header->type == GM_SYNC_HELLO))
		return "the first request, and only that, is HELLO";
	return NULL;
}

/* Call the part that knows the request. */
static void dispatch(struct gm_sync_client *client, const char *record,
		     const struct gm_control *header)
{
	const struct gm_sync_request *request = find_request(header->type);
	const char *body = record + sizeof(*header);
	char known[BODY_BYTES] __attribute__((aligned(8))) = { 0 };
	struct gm_sync_message message = { .header = header, .body = known };
	uint32_t bytes = header->body;

	if (request == NULL) {
		gm_sync_client_refuse(client, header, -EOPNOTSUPP,
				      "this gpumap-sync does not know the "
				      "request: update it");
		return;
	}
	message.body_bytes = request->body_bytes;
	message.tail = body + bytes;
	message.tail_bytes = header->bytes - (uint32_t)sizeof(*header) - bytes;
	if (message.tail_bytes != 0 && !request->has_tail) {
		end(client, "a tail after its body");
		return;
	}
	for (uint32_t i = 0; i < bytes; i++) {
		if (i < request->body_bytes) {
			known[i] = body[i];
		} else if (body[i] != 0) {
			gm_sync_client_refuse(
				client, header, -E2BIG,
				"the request sets a field that this "
				"gpumap-sync does not know: update it");
			return;
		}
	}
	request->handle(client, &message);
}

static void take(struct gm_sync_client *client, const char *record,
		 size_t bytes)
{
	struct gm_control header = { 0 };
	const char *wrong;

	memcpy(&header, record,
	       bytes < sizeof(header) ? bytes : sizeof(header));
	wrong = check_record(client, &header, bytes);
	if (wrong != NULL)
		end(client, wrong);
	else if (header.type == GM_SYNC_HELLO)
		hello(client, &header);
	else
		dispatch(client, record, &header);
}

/* May the next record be received?  One with descriptors never is. */
static bool look(struct gm_sync_client *client)
{
	char byte;
	struct iovec room = { &byte, sizeof(byte) };
	struct msghdr message = { .msg_iov = &room, .msg_iovlen = 1 };
	ssize_t n =
		recvmsg(client->source.fd, &message, MSG_DONTWAIT | MSG_PEEK);

	if (n > 0 && (message.msg_flags & MSG_CTRUNC) == 0)
		return true;
	if (n > 0)
		end(client, "no request carries a descriptor");
	else if (n == 0 || (errno != EAGAIN && errno != EINTR))
		end(client, NULL);
	return false;
}

static void receive(struct gm_sync *sync, struct gm_sync_source *source)
{
	struct gm_sync_client *client = gm_sync_client_of(source);
	struct gm_sync_server *server = sync->server;
	ssize_t n;

	if (client->is_over || !look(client))
		return;
	n = recv(source->fd, server->record, sizeof(server->record),
		 MSG_DONTWAIT | MSG_TRUNC);
	if (n > (ssize_t)sizeof(server->record))
		end(client, "longer than any request is");
	else if (n > 0)
		take(client, server->record, (size_t)n);
}

/* ---- accepting ----------------------------------------------------------- */

/* Take a connection.  Returns false if it is to be closed.  One that is refused
 * takes no place of a client that is not. */
static bool admit(struct gm_sync_server *server, int fd)
{
	struct gm_sync_client *client;
	struct ucred peer;
	socklen_t bytes = sizeof(peer);
	bool is_refused;

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) != 0)
		return false;
	is_refused = server->n_clients >= GM_SYNC_CLIENTS ||
		     count_of(server, peer.uid) >= GM_SYNC_CLIENTS_OF_UID;
	if (is_refused && server->n_refused >= REFUSED_MAX)
		return false;
	client = calloc(1, sizeof(*client));
	if (client == NULL)
		return false;
	client->sync = server->sync;
	client->source = (struct gm_sync_source){ fd, receive };
	client->uid = peer.uid;
	client->pid = peer.pid;
	client->since_ns = gm_sync_now();
	client->is_refused = is_refused;
	if (gm_sync_add(server->sync, &client->source) != 0) {
		free(client);
		return false;
	}
	LIST_INSERT_HEAD(&server->clients, client, entry);
	if (is_refused)
		server->n_refused++;
	else
		server->n_clients++;
	return true;
}

static void accept_one(struct gm_sync *sync, struct gm_sync_source *source)
{
	struct gm_sync_server *server = sync->server;
	int fd = accept4(source->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

	if (fd >= 0) {
		if (!admit(server, fd))
			close_socket(server, fd);
		return;
	}
	if (errno != EMFILE && errno != ENFILE && errno != ENOMEM &&
	    errno != ENOBUFS)
		return;
	gm_log(GM_LOG_WARNING, "accept", "why=%s",
	       gm_quote(strerror(errno)).text);
	gm_sync_remove(sync, source);
	server->pause_ns = gm_sync_now() + PAUSE_NS;
}

/* When the oldest client that says nothing is ended. */
static uint64_t silent_due(const struct gm_sync_server *server)
{
	const struct gm_sync_client *client;
	uint64_t due_ns = GM_SYNC_NEVER;

	LIST_FOREACH(client, &server->clients, entry)
	if (!client->said_hello && client->since_ns + SILENT_NS < due_ns)
		due_ns = client->since_ns + SILENT_NS;
	return due_ns;
}

uint64_t gm_sync_server_due(const struct gm_sync_server *server)
{
	uint64_t due_ns = silent_due(server);

	return server->pause_ns != 0 && server->pause_ns < due_ns
		       ? server->pause_ns
		       : due_ns;
}

void gm_sync_server_tick(struct gm_sync_server *server, uint64_t now_ns)
{
	struct gm_sync_client *client;

	LIST_FOREACH(client, &server->clients, entry)
	if (!client->said_hello && now_ns >= client->since_ns + SILENT_NS)
		end(client, "it has said nothing for five seconds");
	if (server->pause_ns == 0 || now_ns < server->pause_ns)
		return;
	server->pause_ns = gm_sync_add(server->sync, &server->listener) == 0
				   ? 0
				   : now_ns + PAUSE_NS;
}

/* ---- begin and end ------------------------------------------------------- */

int gm_sync_server_open(struct gm_sync *sync,
			struct gm_sync_server **ret_server)
{
	const char *path = sync->config->socket_path;
	struct gm_sync_server *server = calloc(1, sizeof(*server));
	int ret;

	if (server == NULL)
		return -ENOMEM;
	*ret_server = server;
	server->sync = sync;
	server->listener = (struct gm_sync_source){ -1, accept_one };
	server->lock = -1;
	LIST_INIT(&server->clients);
	gm_close_thread_init(&server->close_thread);
	if (strlen(path) >= sizeof(((struct sockaddr_un *)0)->sun_path))
		return fail(path, ENAMETOOLONG, "give [socket] a shorter path");
	ret = take_lock(server, path);
	if (ret == 0)
		ret = listen_at(server, path);
	return ret == 0 ? gm_sync_add(sync, &server->listener) : ret;
}

void gm_sync_server_close(struct gm_sync_server *server)
{
	struct gm_sync_client *client;

	if (server == NULL)
		return;
	LIST_FOREACH(client, &server->clients, entry)
	client->is_over = true;
	gm_sync_server_reap(server);
	if (server->listener.fd >= 0) {
		unlink(server->sync->config->socket_path);
		close(server->listener.fd);
	}
	if (server->lock >= 0)
		close(server->lock);
	gm_close_thread_stop(&server->close_thread);
	free(server);
}
