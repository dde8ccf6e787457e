/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/devices/p2p.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/common/log.h"
#include "agent/daemon/base/parts.h"
#include "agent/daemon/devices/rows.h"
#include "agent/daemon/segment/segment.h"

#define DEATHS_MAX 2u /* over one path; the first may be of anything */

static struct gm_path *find(const struct gm_paths *paths, const uint8_t to[16],
			    const uint8_t from[16])
{
	for (uint32_t i = 0; i < paths->n; i++) {
		struct gm_path *path = &paths->path[i];

		if (memcmp(path->to, to, 16) == 0 &&
		    memcmp(path->from, from, 16) == 0)
			return path;
	}
	return NULL;
}

/* NULL for want of memory: then it is not known. */
static struct gm_path *add(struct gm_paths *paths, const uint8_t to[16],
			   const uint8_t from[16])
{
	struct gm_path *path;

	if (paths->n == paths->room) {
		uint32_t room = paths->room ? 2 * paths->room : 16;

		path = realloc(paths->path, room * sizeof(*path));
		if (!path)
			return NULL;
		paths->path = path;
		paths->room = room;
	}
	path = &paths->path[paths->n++];
	memset(path, 0, sizeof(*path));
	memcpy(path->to, to, 16);
	memcpy(path->from, from, 16);
	return path;
}

/* The row of a card, or GM_ROWS: it has none. */
static uint32_t row_of(const struct gm_daemon *d, const uint8_t uuid[16])
{
	for (uint32_t row = 0; row < d->devices->n; row++)
		if (memcmp(d->devices->of[row]->facts.uuid, uuid, 16) == 0)
			return row;
	return GM_ROWS;
}

static void publish(struct gm_daemon *d, const struct gm_path *path)
{
	static const uint8_t peers[] = { [GM_PATH_NONE] = GPUMAP_PEER_NONE,
					 [GM_PATH_UNTRIED] =
						 GPUMAP_PEER_REPORTED,
					 [GM_PATH_GOOD] = GPUMAP_PEER_RIGHT,
					 [GM_PATH_BAD] = GPUMAP_PEER_WRONG };
	uint32_t to = row_of(d, path->to), from = row_of(d, path->from);

	if (to < GM_ROWS && from < GM_ROWS)
		gm_path_put(&d->segment->map.rows[to], from,
			    gm_path_make(path->peers.links,
					 peers[path->state]));
}

void gm_p2p_paths_on_report(struct gm_daemon *d, const uint8_t uuid[16],
			    const struct gm_probe_peers *peers)
{
	struct gm_path *path = find(d->paths, uuid, peers->other);

	/* Another probe says the same again. */
	if (path && memcmp(&path->peers, peers, sizeof(*peers)) == 0)
		return;
	if (!path)
		path = add(d->paths, uuid, peers->other);
	if (!path)
		return;
	path->peers = *peers;
	path->state = peers->read ? GM_PATH_UNTRIED : GM_PATH_NONE;
	path->deaths = 0;
	publish(d, path);
}

void gm_p2p_paths_show(struct gm_daemon *d)
{
	for (uint32_t i = 0; i < d->paths->n; i++)
		publish(d, &d->paths->path[i]);
}

static struct gm_path *between(const struct gm_daemon *d, uint32_t to,
			       uint32_t from)
{
	return find(d->paths, d->devices->of[to]->facts.uuid,
		    d->devices->of[from]->facts.uuid);
}

enum gm_path_state gm_p2p_paths_state(const struct gm_daemon *d, uint32_t to,
				      uint32_t from)
{
	const struct gm_path *path = between(d, to, from);

	return path ? path->state : GM_PATH_NONE;
}

uint32_t gm_p2p_paths_links(const struct gm_daemon *d, uint32_t to,
			    uint32_t from)
{
	const struct gm_path *path = between(d, to, from);

	return path ? path->peers.links : 0;
}

void gm_p2p_paths_tried(struct gm_daemon *d, uint32_t to, uint32_t from,
			int status)
{
	struct gm_path *path = between(d, to, from);

	if (!path || path->state != GM_PATH_UNTRIED)
		return;
	if (status == -ESTALE && ++path->deaths < DEATHS_MAX)
		return;
	path->state = status ? GM_PATH_BAD : GM_PATH_GOOD;
	publish(d, path);
	if (status == 0)
		gm_log(GM_LOG_INFO, "peers_good", "row=%u from=%u links=%u", to,
		       from, path->peers.links);
	else
		gm_log(GM_LOG_WARNING, "peers_bad",
		       "row=%u from=%u links=%u why=%s", to, from,
		       path->peers.links,
		       gm_quote(status == -EIO ? "a copy from card to card was "
						 "wrong though the driver "
						 "allows it; such copies go by "
						 "way of the host"
					       : "card to card does not work; "
						 "such copies go by way of the "
						 "host")
			       .text);
}

void gm_p2p_paths_exit(struct gm_daemon *d)
{
	free(d->paths->path);
	*d->paths = (struct gm_paths){ 0 };
}
