/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* http - serve the metrics to Prometheus. */
#ifndef GM_HTTP_H
#define GM_HTTP_H

#include "agent/exporter/metrics.h"

struct gm_http {
	struct gm_target *target; /* of the server's thread while it runs */
	bool usage;
	struct MHD_Daemon *server;
};

/* Listen on "ADDRESS:PORT", "[ADDRESS]:PORT", or ":PORT" of all addresses.
 * Returns the socket, or -1 after printing why. */
int gm_http_listen(const char *where);

/* Serve on the socket, which the server then owns, in a thread of its own.
 * Returns false after printing why. */
bool gm_http_start(struct gm_http *http, int socket);

void gm_http_stop(struct gm_http *http);

#endif
