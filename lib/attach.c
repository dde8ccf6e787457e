/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "lib/internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shm/names.h"

#define DEFAULT_INSTANCE    "node"
#define DEFAULT_RUNTIME_DIR "/run/gpumap"

/* A retired segment loses its name within moments; try to attach this often. */
#define ATTEMPTS 3

/* Map an open file if it is @owner's, whose agent is believed. */
static int map_file(struct gpumap *map, int fd, uid_t owner)
{
	struct stat file;
	void *base;
	int ret = gm_named_file_check(fd, owner, &file);

	if (ret != 0)
		return ret;
	if (file.st_size < (off_t)sizeof(struct gm_header) ||
	    file.st_size > (off_t)GM_SEGMENT_MAX)
		return -EPROTO;
	base = mmap(NULL, (size_t)file.st_size, PROT_READ, MAP_SHARED, fd, 0);
	if (base == MAP_FAILED)
		return -errno;
	map->dev = file.st_dev;
	map->ino = file.st_ino;
	ret = gm_check_map(base, (uint64_t)file.st_size, &map->map);
	if (ret != 0)
		munmap(base, (size_t)file.st_size);
	else
		map->owner = owner;
	return ret;
}

static int map_named(struct gpumap *map, uid_t owner)
{
	int fd = gm_named_file_open(map, owner, "map");
	int ret;

	if (fd < 0)
		return fd;
	ret = map_file(map, fd, owner);
	close(fd);
	return ret;
}

/* The owner of the runtime directory decides which process answers on the
 * socket there.  Where this process does not see the directory, it believes
 * root's agent, and one of its own user.  The reason of a failure is that of a
 * file which is there. */
static int map_by_name(struct gpumap *map)
{
	struct stat dir;
	int ret, own;

	if (stat(map->runtime_dir, &dir) == 0 && S_ISDIR(dir.st_mode))
		return map_named(map, dir.st_uid);
	ret = map_named(map, 0);
	if (ret == 0 || geteuid() == 0)
		return ret;
	own = map_named(map, geteuid());
	return own == 0 || ret == -ENOENT ? own : ret;
}

/* The agent that hands the file over owns it.  @why receives a sentence on
 * failure, or "". */
static int map_by_agent(struct gpumap *map, char why[GM_WHY])
{
	struct gm_call call = { .type = GM_CONTROL_MAP };
	struct ucred peer = { .uid = (uid_t)-1 };
	socklen_t bytes = sizeof(peer);
	struct gm_link link;
	int ret;

	why[0] = '\0';
	ret = gm_link_open(map, &link, why);
	if (ret != 0)
		return ret;
	if (getsockopt(link.fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) != 0)
		ret = -errno;
	if (ret == 0)
		ret = gm_link_call(map, &link, &call, 1);
	if (ret == 0)
		ret = call.n_fds == 1 ? map_file(map, call.fds[0], peer.uid)
				      : -EPROTO;
	memcpy(why, call.why, GM_WHY);
	gm_call_close_fds(&call);
	gm_link_close(&link);
	return ret;
}

/* @says: the agent's part in the failure, or "". */
static int refuse(const struct gpumap *map, int error, const char *says)
{
	const char *why, *to = says[0] != '\0' ? "; " : "";

	switch (error) {
	case -EACCES:
		why = "there is no map of this name here, and the agent does "
		      "not hand over its own";
		break;
	case -ENOENT:
		why = "no agent has published it: start gpumapd, or name "
		      "another instance or runtime directory";
		break;
	case -EPERM:
		why = "its map is another user's, or others could have "
		      "written it: for an agent that you trust, name its "
		      "runtime directory";
		break;
	case -EPROTO:
		why = "its map is of another version of gpumap, or damaged: "
		      "use its agent's version, or start this version's "
		      "gpumapd, which replaces it";
		break;
	default:
		why = gpumap_strerror(error);
	}
	return gm_refuse(NULL, error, "instance \"%s\": %s%s%s", map->instance,
			 why, to, says);
}

static void unmap(struct gpumap *map)
{
	if (map->map.base != NULL)
		munmap(map->map.base, map->map.bytes);
	map->map.base = NULL;
	map->map.header = NULL;
}

static int map_segment(struct gpumap *map)
{
	for (int i = 0; i < ATTEMPTS; i++) {
		int asked = 0, ret = map_by_name(map);
		char why[GM_WHY];

		if (ret != 0)
			asked = map_by_agent(map, why);
		if (asked == 0)
			ret = 0;
		/* There is no map of that name here, as in a container, and an
		 * agent that does not let this user have its own. */
		else if (ret == -ENOENT && why[0] != '\0' &&
			 (asked == -EACCES || asked == -EPERM))
			ret = -EACCES;
		if (ret != 0)
			return refuse(map, ret, why);
		if (gm_get(&map->map.header->state) != GM_STATE_RETIRED)
			return 0;
		unmap(map);
	}
	return gm_refuse(NULL, -ENOENT,
			 "instance \"%s\": its map was retired, and no other "
			 "has come: attach again",
			 map->instance);
}

static int create(const char *instance, const char *runtime_dir,
		  struct gpumap **ret_map)
{
	size_t dir_bytes = strlen(runtime_dir) + 1;
	struct gpumap *map;

	if (!gm_names_check_instance(instance))
		return gm_refuse(NULL, -EINVAL,
				 "\"%.*s\" is no name of an instance: it has 1 "
				 "to %u bytes and no '/', and is not \".\" or "
				 "\"..\"",
				 GPUMAP_NAME_MAX, instance, GPUMAP_NAME_MAX);
	if (dir_bytes > PATH_MAX)
		return gm_refuse(NULL, -EINVAL,
				 "the runtime directory has %zu bytes, which "
				 "no path may have",
				 dir_bytes - 1);
	map = calloc(1, sizeof(*map) + dir_bytes);
	if (map == NULL)
		return gm_refuse_memory(NULL, sizeof(*map) + dir_bytes);
	memcpy(map->instance, instance, strlen(instance));
	memcpy(map->runtime_dir, runtime_dir, dir_bytes);
	map->pid = getpid();
	gm_put(&map->clock_offset, gm_health_clock_offset());
	gm_put(&map->request_limit_ns, GPUMAP_REQUEST_LIMIT_NS);
	map->link.fd = -1;
	gm_change_init(&map->change);
	pthread_mutex_init(&map->link_lock, NULL);
	pthread_mutex_init(&map->lock, NULL);
	*ret_map = map;
	return 0;
}

static void destroy(struct gpumap *map)
{
	gm_masks_unmap(map);
	unmap(map);
	if (gm_fork_map_mine(map) == 0)
		gm_link_close(&map->link);
	gm_link_forget(&map->link);
	gm_change_fini(&map->change);
	gm_fork_guard_drop(&map->mine);
	pthread_mutex_destroy(&map->link_lock);
	pthread_mutex_destroy(&map->lock);
	free(map->pins);
	free(map);
}

int gpumap_attach(const struct gpumap_attach_opts *opts,
		  struct gpumap **ret_map)
{
	struct gpumap_attach_opts ours = { 0 };
	struct gpumap *map = NULL;
	int ret;

	/* There is no attachment yet: the reasons are NULL's. */
	if (opts != NULL) {
		ret = gm_map_size_in(NULL, &ours, sizeof(ours), opts);
		if (ret != 0)
			return ret;
	}
	if (ours.flags != 0)
		return gm_refuse(NULL, -E2BIG,
				 "flags %#x are newer than this library",
				 ours.flags);
	ret = create(ours.instance != NULL ? ours.instance : DEFAULT_INSTANCE,
		     ours.runtime_dir != NULL ? ours.runtime_dir
					      : DEFAULT_RUNTIME_DIR,
		     &map);
	if (ret != 0)
		return ret;
	ret = map_segment(map);
	if (ret != 0) {
		destroy(map);
		return ret;
	}
	gm_map_refuse(map, ""); /* an earlier one may have had this address */
	*ret_map = map;
	return 0;
}

void gpumap_detach(struct gpumap *map)
{
	if (map == NULL)
		return;
	/* Pins belong to the process and outlast the connection: end each. */
	if (gm_fork_map_mine(map) == 0)
		for (size_t i = map->n_pins; i-- > 0;) {
			int ret = gpumap_unpin(map, map->pins[i]);

			if (ret == -ECONNREFUSED || ret == -ECONNRESET ||
			    ret == -ETIMEDOUT || ret == -ESTALE)
				break;
		}
	destroy(map);
}
