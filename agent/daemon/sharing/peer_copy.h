/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* peer_copy - open a mapping of another row's memory, by an import or by a
 * copy in pieces. */
#ifndef GM_DAEMON_SHARING_PEER_COPY_H
#define GM_DAEMON_SHARING_PEER_COPY_H

struct gm_peer_mapping;

/* Ask for what comes first.  Returns 0, or an error with server->why; later
 * ones answer the client and free the mapping. */
int gm_peer_mapping_begin(struct gm_peer_mapping *x);

#endif
