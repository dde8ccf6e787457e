/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "lib/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "shm/timens.h"

uint64_t gm_health_clock_offset(void)
{
	char text[GM_TIMENS_BYTES] = "";
	ssize_t n = readlink(GM_TIMENS_LINK, text, sizeof(text) - 1);
	int fd;

	if (n < 0 || strcmp(text, GM_TIMENS_INITIAL) == 0)
		return 0;
	fd = open(GM_TIMENS_OFFSETS, O_RDONLY | O_CLOEXEC);
	n = fd >= 0 ? read(fd, text, sizeof(text) - 1) : 0;
	text[n > 0 ? n : 0] = '\0';
	if (fd >= 0)
		close(fd);
	return gm_timens_offset(text);
}

uint64_t gm_health_map_age(const struct gpumap *map)
{
	/* SEGMENT.changed */
	uint64_t beat = gm_get_acquire(&map->map.header->heartbeat);
	uint64_t now = gm_now_ns();
	uint64_t age = now - gm_get(&map->clock_offset) - beat;

	/* A fork may have taken this process into another time namespace, where
	 * the agent seems to be silent, or ahead: an age that wraps. */
	if (age >= GM_STALE_NS) {
		uint64_t offset = gm_health_clock_offset();

		gm_put(&((struct gpumap *)(uintptr_t)map)->clock_offset,
		       offset);
		age = now - offset - beat;
	}
	return age <= INT64_MAX ? age : 0;
}

bool gm_health_retired(const struct gpumap *map)
{
	return gm_get(&map->replaced) != 0 ||
	       gm_get(&map->map.header->state) == GM_STATE_RETIRED;
}

int gpumap_health(const struct gpumap *map, struct gpumap_health *ret_health)
{
	const struct gm_header *header = map->map.header;
	struct gpumap_health health = { 0 };
	int ret =
		gm_size_out(ret_health, offsetof(struct gpumap_health, age_ns));

	if (ret != 0)
		return ret;
	/* The age before the state: a new agent has stored STARTING over its
	 * predecessor's READY before its first heartbeat. */
	health.age_ns = gm_health_map_age(map);
	health.state = gm_health_retired(map) ? GPUMAP_RETIRED
					      : gm_get(&header->state);
	health.stale = health.age_ns >= GM_STALE_NS;
	health.epoch = gm_get(&header->epoch);
	health.tick = gm_get(&header->tick);
	health.generation = gm_get(&header->generation);
	health.agent_pid = gm_get(&header->agent_pid);
	health.bytes = map->map.bytes;
	health.agent_version = gm_get(&header->agent_version);
	health.layout_minor = gm_get(&header->minor);
	gm_size_put(ret_health, &health, sizeof(health));
	return 0;
}

uint32_t gpumap_generation(const struct gpumap *map)
{
	/* A reader that sees the generation change also sees the change
	 * itself. */
	return gm_get_acquire(
		&map->map.header->generation); /* SEGMENT.changed */
}

/* FUTEX_WAIT works on a read-only mapping; FUTEX_WAKE would not. */
void gm_health_sleep(const struct gpumap *map, uint32_t seen, uint64_t ns)
{
	struct timespec timeout = { .tv_sec = (time_t)(ns / GM_SECOND),
				    .tv_nsec = (long)(ns % GM_SECOND) };

	/* Woken, timed out, raced, interrupted: the caller checks again. */
	syscall(SYS_futex, &map->map.header->generation, FUTEX_WAIT, seen,
		&timeout, NULL, 0);
}

int gpumap_wait_change(const struct gpumap *map, uint32_t seen,
		       uint64_t deadline_ns)
{
	uint64_t due = UINT64_MAX; /* the end of the last nap */

	while (gpumap_generation(map) == seen) {
		uint64_t now = gm_now_ns();
		uint64_t nap = GM_SECOND;

		if (gm_health_retired(map) ||
		    (!gm_health_stood_still(due, now) &&
		     gm_health_map_age(map) >= GM_STALE_NS))
			return gm_refuse_plain(map, -ESTALE);
		if (now >= deadline_ns)
			return gm_refuse_plain(map, -ETIME);
		if (deadline_ns - now < nap)
			nap = deadline_ns - now;
		due = now + nap;
		gm_health_sleep(map, seen, nap);
	}
	return 0;
}
