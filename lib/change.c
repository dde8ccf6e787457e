/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * A descriptor that becomes readable after a change of the map.
 *
 * A connection of its own asks the agent to answer when the generation is no
 * longer the one that the caller has seen.  The answer makes it readable, and
 * so does its end when the agent ends.  Callers get an epoll instance that has
 * the connection in it: the instance stays when the next agent is connected to.
 */

#include "lib/internal.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

void gm_change_init(struct gm_change_wait *change)
{
	pthread_mutex_init(&change->lock, NULL);
	change->epoll = -1;
	change->link.fd = -1;
}

void gm_change_fini(struct gm_change_wait *change)
{
	if (gm_guard_mine(&change->mine))
		gm_link_close(&change->link);
	gm_link_forget(&change->link);
	if (change->epoll >= 0)
		close(change->epoll);
	gm_fork_guard_drop(&change->mine);
	pthread_mutex_destroy(&change->lock);
}

/* Make the descriptor, if there is none. */
static int make(struct gpumap *map, struct gm_change_wait *change)
{
	int ret;

	if (change->epoll >= 0)
		return 0;
	ret = gm_get(&change->mine.mine) != NULL
		      ? 0
		      : gm_fork_guard_make(&change->mine);
	if (ret != 0)
		return gm_refuse_memory(map, sizeof(uint64_t));
	change->epoll = epoll_create1(EPOLL_CLOEXEC);
	return change->epoll < 0 ? gm_refuse_plain(map, -errno) : 0;
}

/* May this process use what has been made? */
static int begin(const struct gpumap *map)
{
	bool made = gm_get(&map->change.mine.mine) != NULL;
	int ret = made && !gm_guard_mine(&map->change.mine)
			  ? -EOWNERDEAD
			  : gm_fork_map_mine(map);

	return gm_refuse_plain(map, ret);
}

int gpumap_change_fd(struct gpumap *map)
{
	struct gm_change_wait *change = &map->change;
	int ret = begin(map);

	if (ret != 0)
		return ret;
	pthread_mutex_lock(&change->lock);
	ret = make(map, change);
	if (ret == 0)
		ret = change->epoll;
	pthread_mutex_unlock(&change->lock);
	return ret;
}

/* A forked child may have the connection, too, so closing it is not enough. */
static void leave(struct gm_change_wait *change)
{
	epoll_ctl(change->epoll, EPOLL_CTL_DEL, change->link.fd, NULL);
	gm_link_close(&change->link);
	change->asked = false;
}

/* Take the answer, if it has come.  An agent that has ended gives none, and may
 * have a successor.  Returns 0, or the agent's refusal. */
static int take(struct gm_change_wait *change, struct gm_call *call)
{
	int ret;

	if (change->link.fd < 0)
		return 0;
	ret = gm_link_take(&change->link, call);
	if (ret == -EAGAIN)
		return 0;
	change->asked = false;
	if (ret != 0)
		leave(change);
	return ret == -ECONNRESET ? 0 : ret;
}

static int connect_again(struct gpumap *map, struct gm_change_wait *change,
			 struct gm_call *call)
{
	struct epoll_event readable = { .events = EPOLLIN };
	int ret = gm_link_open(map, &change->link, call->why);

	if (ret == 0 && epoll_ctl(change->epoll, EPOLL_CTL_ADD, change->link.fd,
				  &readable) != 0) {
		ret = -errno;
		gm_link_close(&change->link);
	}
	return ret;
}

static int ask(struct gpumap *map, struct gm_change_wait *change,
	       struct gm_call *call)
{
	int ret = 0;

	if (change->asked)
		return 0;
	if (change->link.fd < 0)
		ret = connect_again(map, change, call);
	if (ret != 0)
		return ret;
	ret = gm_link_send(map, &change->link, call);
	change->asked = ret == 0;
	if (ret != 0)
		leave(change);
	return ret == -EPIPE ? -ECONNRESET : ret;
}

static int arm(struct gpumap *map, struct gm_change_wait *change, uint32_t seen)
{
	struct gm_change_ask body = { .seen = seen };
	struct gm_change_reply reply;
	struct gm_call call = { GM_REQUEST(GM_CONTROL_CHANGE, body),
				GM_REPLY(reply) };
	int ret = make(map, change);

	if (ret != 0)
		return ret;
	ret = take(change, &call);
	if (ret == 0 && gpumap_generation(map) != seen)
		return 1;
	if (ret == 0)
		ret = ask(map, change, &call);
	return ret == 0 ? 0 : gm_refuse_call(map, ret, &call);
}

int gpumap_change_arm(struct gpumap *map, uint32_t seen)
{
	int ret = begin(map);

	if (ret == 0 && gm_health_retired(map))
		ret = gm_refuse_plain(map, -ESTALE);
	if (ret != 0)
		return ret;
	pthread_mutex_lock(&map->change.lock);
	ret = arm(map, &map->change, seen);
	pthread_mutex_unlock(&map->change.lock);
	return ret;
}
