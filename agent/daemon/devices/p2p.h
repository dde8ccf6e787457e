/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * p2p - between each two cards: may one read the other's memory?
 *
 * NVML's answer for ordered pairs comes from the probe.  If NVML reports no
 * path, none is tried; a reported path is verified once, by a copy of the
 * workers of both: there are machines on which a copy from card to card reports
 * success and is wrong.
 *
 * The rows' words in the segment have all of it for readers.
 */
#ifndef GM_DAEMON_DEVICES_P2P_H
#define GM_DAEMON_DEVICES_P2P_H

#include <stdint.h>

#include "agent/common/probe_wire.h"

struct gm_daemon;

enum gm_path_state {
	GM_PATH_NONE,    /* not known to exist */
	GM_PATH_UNTRIED, /* NVML says that there is one */
	GM_PATH_GOOD,    /* and it was tried */
	GM_PATH_BAD      /* and is wrong */
};

struct gm_path {
	uint8_t from[16]; /* the card whose memory is read */
	uint8_t to[16];
	struct gm_probe_peers peers;
	enum gm_path_state state;
	uint32_t deaths; /* of workers that tried it */
};

struct gm_paths {
	struct gm_path *path;
	uint32_t n;
	uint32_t room;
};

/* One PEERS record: of the card @uuid, as the one that reads. */
void gm_p2p_paths_on_report(struct gm_daemon *d, const uint8_t uuid[16],
			    const struct gm_probe_peers *peers);

/* Rows are new: readers see of their paths what was heard before. */
void gm_p2p_paths_show(struct gm_daemon *d);

enum gm_path_state gm_p2p_paths_state(const struct gm_daemon *d, uint32_t to,
				      uint32_t from);

/* NVLinks between them. */
uint32_t gm_p2p_paths_links(const struct gm_daemon *d, uint32_t to,
			    uint32_t from);

/* The path was tried: 0, -ESTALE when a worker died over it, or the error. */
void gm_p2p_paths_tried(struct gm_daemon *d, uint32_t to, uint32_t from,
			int status);

void gm_p2p_paths_exit(struct gm_daemon *d);

#endif
