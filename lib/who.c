/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* List the holders of reservations, from the directory and the table of
 * holders; and list usage and shares, from the agent. */

#include "lib/internal.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

#include "shm/objects.h"

/*
 * The process that a held map's entry names, or 0.
 *
 * The entry was there before the slot named the block and stays until after the
 * slot has moved on, so a reader that finds the slot unchanged afterwards has
 * read a whole entry.
 */
static uint32_t holder_of(const struct gm_map *map,
			  const struct gm_object *object)
{
	uint32_t slot = (uint32_t)((const struct gm_object_slot *)object->slot -
				   map->objects);

	for (uint32_t i = 0; i < map->n_holders; i++) {
		struct gm_holder_image image;
		uint64_t words[sizeof(image) / 8];

		gm_seq_read(map->holders[i].w, words, sizeof(words) / 8);
		memcpy(&image, words, sizeof(image));
		if (image.kind == GM_HOLDER_RESERVE &&
		    image.unit == gm_seq_unit(object->word) &&
		    image.version == object->image.version &&
		    image.slot == slot)
			return image.pid;
	}
	return 0;
}

static int read_once(const struct gm_map *map, const gm_a64 *slot,
		     struct gpumap_holder *holder)
{
	struct gm_object object;
	int ret = gm_object_open(map, slot, &object);

	if (ret != 0)
		return ret;
	if ((object.image.flags & GM_OBJECT_COMMITTED) == 0)
		return -ENOENT;
	memcpy(holder->name, object.image.name, sizeof(holder->name));
	holder->version = object.image.version;
	holder->since_ns = object.image.published;
	holder->uid = object.image.owner_uid;
	holder->pid = 0;
	if ((object.image.flags & GM_OBJECT_HELD) != 0)
		holder->pid = holder_of(map, &object);
	return gm_object_whole(&object) ? 0 : -EAGAIN;
}

int gpumap_holder_next(const struct gpumap *map, uint32_t *cursor,
		       struct gpumap_holder *ret_holder)
{
	struct gpumap_holder holder = { 0 };
	const struct gm_map *m = &map->map;
	int ret;

	ret = gm_size_out(ret_holder, offsetof(struct gpumap_holder, version));
	if (ret != 0)
		return ret;
	while (*cursor < m->n_objects) {
		const gm_a64 *slot = &m->objects[(*cursor)++].slot;

		ret = -EAGAIN;
		for (int i = 0; i < GM_OBJECT_ATTEMPTS && ret == -EAGAIN; i++)
			ret = read_once(m, slot, &holder);
		if (ret == 0) {
			gm_size_put(ret_holder, &holder, sizeof(holder));
			return 1;
		}
	}
	return 0;
}

/* ---- usage -------------------------------------------------------------- */

static bool comes_after(const struct gm_usage_item *item,
			const struct gm_usage_ask *ask)
{
	if (!ask->goes_on || item->session > ask->session)
		return true;
	if (item->session < ask->session)
		return false;
	if (item->session == 0 && item->uid != ask->uid)
		return item->uid > ask->uid;
	return item->row > ask->row;
}

static void put_usage(const struct gm_usage_item *item, size_t size, void *to)
{
	struct gpumap_usage usage = { .session = item->session,
				      .pid = item->pid,
				      .uid = item->uid,
				      .row = item->row,
				      .importers = item->importers,
				      .bytes = item->bytes,
				      .lent_bytes = item->lent_bytes,
				      .borrowed_bytes = item->borrowed_bytes };

	gm_size_put_item(to, size, &usage, sizeof(usage));
}

int gpumap_usage_list(struct gpumap *map, struct gpumap_usage *ret_usage,
		      size_t n)
{
	size_t size, got = 0;
	struct gm_usage_item items[GM_USAGE_MAX];
	struct gm_usage_ask body = { .goes_on = 0 };
	struct gm_usage_reply reply;
	struct gm_call call = { .type = GM_CONTROL_USAGE,
				.body = &body,
				.body_bytes = sizeof(body),
				.reply = &reply,
				.reply_bytes = sizeof(reply),
				.reply_tail = items,
				.reply_tail_room = sizeof(items) };
	int ret = n == 0 ? 0
			 : gm_map_size_out(map, ret_usage,
					   offsetof(struct gpumap_usage,
						    lent_bytes));

	if (ret != 0)
		return ret;
	size = n > 0 ? ret_usage->size : 0;
	do {
		ret = gm_map_call(map, &call, 0);
		if (ret != 0)
			return ret;
		if (!gm_call_lists(&call, reply.n, GM_USAGE_MAX,
				   sizeof(items[0])))
			return -EPROTO;
		for (uint32_t i = 0; i < reply.n; i++) {
			if (!comes_after(&items[i], &body))
				return -EPROTO;
			body = (struct gm_usage_ask){ items[i].session,
						      items[i].uid,
						      items[i].row, 1, 0 };
			if (got < n)
				put_usage(&items[i], size,
					  (char *)ret_usage + size * got++);
		}
	} while (reply.n != 0 && got < n);
	return reply.total < INT_MAX ? (int)reply.total : INT_MAX;
}

/* ---- reservations -------------------------------------------------------- */

static void put_reservation(const struct gm_reservation_item *item, size_t size,
			    void *to)
{
	struct gpumap_reservation is = { .version = item->version,
					 .row = item->row,
					 .uid = item->uid,
					 .pid = item->pid,
					 .bytes = item->bytes,
					 .own_bytes = item->own_bytes,
					 .session_bytes = item->session_bytes };

	memcpy(is.name, item->name, sizeof(is.name) - 1);
	gm_size_put_item(to, size, &is, sizeof(is));
}

int gpumap_reservation_list(struct gpumap *map,
			    struct gpumap_reservation *ret_list, size_t n)
{
	size_t size, got = 0;
	struct gm_reservation_item items[GM_RESERVATIONS_MAX];
	struct gm_reservations_ask body = { .goes_on = 0 };
	struct gm_reservations_reply reply;
	struct gm_call call = { .type = GM_CONTROL_RESERVATIONS,
				.body = &body,
				.body_bytes = sizeof(body),
				.reply = &reply,
				.reply_bytes = sizeof(reply),
				.reply_tail = items,
				.reply_tail_room = sizeof(items) };
	int ret = n == 0 ? 0
			 : gm_map_size_out(map, ret_list,
					   offsetof(struct gpumap_reservation,
						    own_bytes));

	if (ret != 0)
		return ret;
	size = n > 0 ? ret_list->size : 0;
	do {
		ret = gm_map_call(map, &call, 0);
		if (ret != 0)
			return ret;
		if (!gm_call_lists(&call, reply.n, GM_RESERVATIONS_MAX,
				   sizeof(items[0])))
			return -EPROTO;
		for (uint32_t i = 0; i < reply.n; i++) {
			if (body.goes_on && (items[i].slot < body.slot ||
					     (items[i].slot == body.slot &&
					      items[i].row <= body.row)))
				return -EPROTO;
			body = (struct gm_reservations_ask){ items[i].slot,
							     items[i].row, 1,
							     0 };
			if (got < n)
				put_reservation(&items[i], size,
						(char *)ret_list +
							size * got++);
		}
	} while (reply.n != 0 && got < n);
	return reply.total < INT_MAX ? (int)reply.total : INT_MAX;
}

/* ---- shares -------------------------------------------------------------- */

static void put_share(const struct gm_shares_item *item, size_t size, void *to)
{
	struct gpumap_share_info info = { .share = item->id,
					  .uid = item->uid,
					  .flags = item->flags,
					  .n_buffers = item->n_buffers,
					  .n_holders = item->n_holders,
					  .bytes = item->bytes,
					  .about_bytes = item->about_bytes,
					  .age_ns = item->age_ns,
					  .pid = item->pid };

	memcpy(info.name, item->name, sizeof(info.name) - 1);
	_Static_assert(sizeof(info.rows) == sizeof(item->rows), "a bit each");
	memcpy(info.rows, item->rows, sizeof(info.rows));
	gm_size_put_item(to, size, &info, sizeof(info));
}

int gpumap_share_list(struct gpumap *map, struct gpumap_share_info *ret_info,
		      size_t n)
{
	size_t size, got = 0;
	struct gm_shares_item items[GM_SHARES_MAX];
	struct gm_shares body = { .after = 0 };
	struct gm_shares_reply reply;
	struct gm_call call = { .type = GM_CONTROL_SHARES,
				.body = &body,
				.body_bytes = sizeof(body),
				.reply = &reply,
				.reply_bytes = sizeof(reply),
				.reply_tail = items,
				.reply_tail_room = sizeof(items) };
	int ret = n == 0 ? 0
			 : gm_map_size_out(map, ret_info,
					   offsetof(struct gpumap_share_info,
						    age_ns));

	if (ret != 0)
		return ret;
	size = n > 0 ? ret_info->size : 0;
	do {
		ret = gm_map_call(map, &call, 0);
		if (ret != 0)
			return ret;
		if (reply.n > GM_SHARES_MAX ||
		    call.reply_tail_bytes != reply.n * sizeof(items[0]))
			return -EPROTO;
		for (uint32_t i = 0; i < reply.n; i++) {
			if (items[i].id <= body.after)
				return -EPROTO;
			body.after = items[i].id;
			if (got < n)
				put_share(&items[i], size,
					  (char *)ret_info + size * got++);
		}
	} while (reply.n != 0 && got < n);
	return reply.total < INT_MAX ? (int)reply.total : INT_MAX;
}
