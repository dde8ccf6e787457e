/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "lib/internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "shm/objects.h"

int gm_map_put_name(struct gpumap *map, const char *name, char ret_name[64])
{
	size_t n = gm_object_name(name);

	if (n == 0)
		return gm_refuse(map, -EINVAL,
				 "a name has between 1 and 63 bytes");
	memset(ret_name, 0, 64);
	memcpy(ret_name, name, n);
	return 0;
}

static int release(struct gpumap *map, uint32_t kind, uint32_t flags,
		   const char *name)
{
	struct gm_object_name body = { .kind = kind, .flags = flags };
	struct gm_call call = { GM_REQUEST(GM_CONTROL_RELEASE, body) };
	int ret = gm_map_begin(map);

	if (ret == 0)
		ret = gm_map_put_name(map, name, body.name);
	return ret == 0 ? gm_map_call(map, &call, 0) : ret;
}

int gm_map_release(struct gpumap *map, uint32_t kind, const char *name)
{
	return release(map, kind, 0, name);
}

int gpumap_layers_release(struct gpumap *map, const char *name)
{
	return release(map, GM_KIND_LAYERS, 0, name);
}

int gpumap_wait_drop(struct gpumap *map, const char *name)
{
	return release(map, GM_KIND_LAYERS, GM_RELEASE_WAITS, name);
}

/* ---- pins --------------------------------------------------------------- */

/* Take room before the request, so that a pin that was granted is never
 * lost, however many threads make one. */
static int reserve_pin(struct gpumap *map)
{
	uint64_t *pins = NULL;
	size_t room;

	pthread_mutex_lock(&map->lock);
	room = map->room_pins;
	if (map->n_pins + map->asked_pins == room) {
		room = room != 0 ? 2 * room : 8;
		pins = realloc(map->pins, room * sizeof(*pins));
		map->pins = pins != NULL ? pins : map->pins;
		map->room_pins = pins != NULL ? room : map->room_pins;
	}
	room = map->room_pins - map->n_pins - map->asked_pins;
	map->asked_pins += room > 0;
	pthread_mutex_unlock(&map->lock);
	return room > 0 ? 0 : -ENOMEM;
}

/* @claim: the pin that was granted, or NULL. */
static void store_pin(struct gpumap *map, const uint64_t *claim)
{
	pthread_mutex_lock(&map->lock);
	map->asked_pins--;
	if (claim != NULL)
		map->pins[map->n_pins++] = *claim;
	pthread_mutex_unlock(&map->lock);
}

static void forget_pin(struct gpumap *map, uint64_t claim)
{
	size_t i = 0;

	pthread_mutex_lock(&map->lock);
	while (i < map->n_pins && map->pins[i] != claim)
		i++;
	if (i < map->n_pins)
		map->pins[i] = map->pins[--map->n_pins];
	pthread_mutex_unlock(&map->lock);
}

int gm_map_pin(struct gpumap *map, uint32_t kind, const char *name,
	       struct gm_pin_reply *ret_pin)
{
	struct gm_object_name body = { .kind = kind };
	struct gm_call call = { GM_REQUEST(GM_CONTROL_PIN, body),
				GM_REPLY(*ret_pin) };
	int ret = gm_map_begin(map);

	if (ret == 0)
		ret = gm_map_put_name(map, name, body.name);
	if (ret == 0)
		ret = reserve_pin(map);
	if (ret == -ENOMEM)
		gm_refuse_memory(map, sizeof(*map->pins));
	if (ret != 0)
		return ret;
	ret = gm_map_call(map, &call, 0);
	store_pin(map, ret == 0 ? &ret_pin->claim : NULL);
	return ret;
}

int gm_map_pin_view(struct gpumap *map, const char *name, const char *group,
		    uint32_t table, struct gpumap_view *ret_view,
		    uint64_t *ret_pin)
{
	struct gm_pin_reply reply;
	int ret = gm_map_pin(map, table == 0 ? GM_KIND_LAYERS : GM_KIND_MESH,
			     name, &reply);

	if (ret != 0)
		return ret;
	ret = -EPROTO;
	if (reply.unit >> GM_UNIT_BITS == 0)
		ret = gm_view_pinned(map, name, group, table,
				     gm_seq_word(reply.version,
						 (uint32_t)reply.unit),
				     ret_view);
	if (ret != 0) {
		gpumap_unpin(map, reply.claim);
		return ret;
	}
	*ret_pin = reply.claim;
	return 0;
}

int gpumap_layers_pin(struct gpumap *map, const char *name,
		      struct gpumap_view *ret_view, uint64_t *ret_pin)
{
	return gm_map_pin_view(map, name, NULL, 0, ret_view, ret_pin);
}

int gpumap_unpin(struct gpumap *map, uint64_t pin)
{
	struct gm_unpin body = { .claim = pin };
	struct gm_call call = { GM_REQUEST(GM_CONTROL_UNPIN, body) };
	int ret = gm_map_call(map, &call, 0);

	if (ret == 0 || ret == -ENOENT)
		forget_pin(map, pin);
	return ret;
}

/* ---- devices ------------------------------------------------------------ */

static int drain(struct gpumap *map, uint32_t row, bool undrain)
{
	struct gm_drain body = { .row = row, .undrain = undrain };
	struct gm_call call = { GM_REQUEST(GM_CONTROL_DRAIN, body),
				.wait_ns = UINT64_MAX };

	return gm_map_call(map, &call, 0);
}

int gpumap_device_drain(struct gpumap *map, uint32_t row)
{
	return drain(map, row, false);
}

int gpumap_device_undrain(struct gpumap *map, uint32_t row)
{
	return drain(map, row, true);
}

static int cordon(struct gpumap *map, uint32_t row, bool undo)
{
	struct gm_cordon body = { .row = row, .undo = undo };
	struct gm_call call = { GM_REQUEST(GM_CONTROL_CORDON, body) };

	return gm_map_call(map, &call, 0);
}

int gpumap_device_cordon(struct gpumap *map, uint32_t row)
{
	return cordon(map, row, false);
}

int gpumap_device_uncordon(struct gpumap *map, uint32_t row)
{
	return cordon(map, row, true);
}

int gpumap_started(struct gpumap *map, const char *name)
{
	return release(map, GM_KIND_LAYERS, GM_RELEASE_START, name);
}
