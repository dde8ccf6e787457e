/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/exporter/http.h"

#include <errno.h>
#include <microhttpd.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define CONNECTIONS      32u
#define CONNECTION_LIMIT 10u /* seconds without a byte */

static const char index_page[] =
	"<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
	"<title>gpumap-exporter</title></head>\n"
	"<body><h1>gpumap-exporter</h1>\n"
	"<p><a href=\"/metrics\">Metrics</a></p></body></html>\n";

/* ---- listening ----------------------------------------------------------- */

/* Split at the last colon.  Returns false if there is none, or no room. */
static bool split(const char *where, char ret_host[256], const char **ret_port)
{
	const char *colon = strrchr(where, ':');
	size_t n;

	if (colon == NULL)
		return false;
	*ret_port = colon + 1;
	n = (size_t)(colon - where);
	if (n >= 2 && where[0] == '[' && where[n - 1] == ']') {
		where++;
		n -= 2;
	}
	if (n >= 256)
		return false;
	memcpy(ret_host, where, n);
	ret_host[n] = '\0';
	return true;
}

static int listen_at(const struct addrinfo *at)
{
	int fd = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int on = 1, off = 0;

	if (fd < 0)
		return -1;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	/* All addresses are those of IPv4, too. */
	if (at->ai_family == AF_INET6)
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
	if (bind(fd, at->ai_addr, at->ai_addrlen) != 0 ||
	    listen(fd, SOMAXCONN) != 0) {
		int error = errno;

		close(fd);
		errno = error;
		return -1;
	}
	return fd;
}

/* Print where, with the port that the kernel has chosen for port 0. */
static void tell(int fd)
{
	struct sockaddr_storage address;
	socklen_t bytes = sizeof(address);
	char host[64], port[8];

	if (getsockname(fd, (struct sockaddr *)&address, &bytes) == 0 &&
	    getnameinfo((struct sockaddr *)&address, bytes, host, sizeof(host),
			port, sizeof(port),
			NI_NUMERICHOST | NI_NUMERICSERV) == 0)
		fprintf(stderr,
			strchr(host, ':') != NULL
				? "gpumap-exporter: listening on [%s]:%s\n"
				: "gpumap-exporter: listening on %s:%s\n",
			host, port);
}

int gm_http_listen(const char *where)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM,
				  .ai_flags = AI_PASSIVE };
	struct addrinfo *list;
	const char *port;
	char host[256];
	int fd = -1, ret;

	if (!split(where, host, &port)) {
		fprintf(stderr,
			"gpumap-exporter: --listen %s: give ADDRESS:PORT, "
			"[ADDRESS]:PORT or :PORT\n",
			where);
		return -1;
	}
	ret = getaddrinfo(host[0] != '\0' ? host : NULL, port, &hints, &list);
	if (ret != 0) {
		fprintf(stderr, "gpumap-exporter: --listen %s: %s\n", where,
			gai_strerror(ret));
		return -1;
	}
	/* IPv6 first: of all addresses, that one serves both. */
	for (int pass = 0; pass < 2 && fd < 0; pass++)
		for (const struct addrinfo *at = list; at != NULL && fd < 0;
		     at = at->ai_next)
			if ((at->ai_family == AF_INET6) == (pass == 0))
				fd = listen_at(at);
	if (fd < 0)
		fprintf(stderr, "gpumap-exporter: --listen %s: %s\n", where,
			strerror(errno));
	else
		tell(fd);
	freeaddrinfo(list);
	return fd;
}

/* ---- answers ------------------------------------------------------------- */

static enum MHD_Result answer(struct MHD_Connection *connection,
			      unsigned int status, const char *type, char *body,
			      size_t bytes)
{
	struct MHD_Response *response = MHD_create_response_from_buffer(
		bytes, body, MHD_RESPMEM_MUST_FREE);
	enum MHD_Result ret;

	if (response == NULL) {
		free(body);
		return MHD_NO;
	}
	MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
	if (status == MHD_HTTP_METHOD_NOT_ALLOWED)
		MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW,
					"GET, HEAD");
	ret = MHD_queue_response(connection, status, response);
	MHD_destroy_response(response);
	return ret;
}

static enum MHD_Result say(struct MHD_Connection *connection,
			   unsigned int status, const char *type,
			   const char *text)
{
	char *body = strdup(text);

	if (body == NULL)
		return MHD_NO;
	return answer(connection, status, type, body, strlen(body));
}

static enum MHD_Result answer_metrics(struct gm_http *http,
				      struct MHD_Connection *connection)
{
	const char *accept = MHD_lookup_connection_value(
		connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_ACCEPT);
	struct gm_metrics_opts opts = {
		.openmetrics =
			accept != NULL &&
			strstr(accept, "application/openmetrics-text") != NULL,
		.usage = http->usage,
	};
	size_t bytes;
	char *body = gm_metrics_write(http->target, &opts, &bytes);

	if (body == NULL)
		return say(connection, MHD_HTTP_INTERNAL_SERVER_ERROR,
			   "text/plain", "out of memory\n");
	return answer(connection, MHD_HTTP_OK,
		      gm_exposition_type(opts.openmetrics), body, bytes);
}

static enum MHD_Result handle(void *data, struct MHD_Connection *connection,
			      const char *url, const char *method,
			      const char *version, const char *upload,
			      size_t *upload_bytes, void **context)
{
	struct gm_http *http = data;

	if (strcmp(method, MHD_HTTP_METHOD_GET) != 0 &&
	    strcmp(method, MHD_HTTP_METHOD_HEAD) != 0)
		return say(connection, MHD_HTTP_METHOD_NOT_ALLOWED,
			   "text/plain", "only GET and HEAD\n");
	if (strcmp(url, "/metrics") == 0)
		return answer_metrics(http, connection);
	if (strcmp(url, "/") == 0)
		return say(connection, MHD_HTTP_OK, "text/html; charset=utf-8",
			   index_page);
	return say(connection, MHD_HTTP_NOT_FOUND, "text/plain",
		   "not found: the metrics are at /metrics\n");
}

/* ---- the server ---------------------------------------------------------- */

bool gm_http_start(struct gm_http *http, int socket)
{
	http->server =
		MHD_start_daemon(MHD_USE_AUTO | MHD_USE_INTERNAL_POLLING_THREAD,
				 0, NULL, NULL, handle, http,
				 MHD_OPTION_LISTEN_SOCKET, socket,
				 MHD_OPTION_CONNECTION_LIMIT, CONNECTIONS,
				 MHD_OPTION_CONNECTION_TIMEOUT,
				 CONNECTION_LIMIT, MHD_OPTION_END);
	if (http->server == NULL) {
		fputs("gpumap-exporter: the HTTP server does not start: is "
		      "memory short, or the number of descriptors?\n",
		      stderr);
		close(socket);
	}
	return http->server != NULL;
}

void gm_http_stop(struct gm_http *http)
{
	MHD_stop_daemon(http->server);
	http->server = NULL;
}
