/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* List the holders of reservations, from the directory and the table of
 * holders; and list sessions, usage, reservations, requests that wait and
 * shares, from the agent. */

#include "lib/internal.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

#include "shm/objects.h"

/* Read the entry of a held map, whose process it names, if there is one.
 *
 * The entry was there before the slot named the block and stays until after the
 * slot has moved on, so a reader that finds the slot unchanged afterwards has
 * read a whole entry.
 */
static bool find_holder(const struct gm_map *map,
			const struct gm_object *object,
			struct gm_holder_image *ret_image)
{
	uint32_t slot = (uint32_t)((const struct gm_object_slot *)object->slot -
				   map->objects);

	for (uint32_t i = 0; i < map->n_holders; i++) {
		uint64_t words[sizeof(*ret_image) / 8];

		gm_seq_read(map->holders[i].w, words, sizeof(words) / 8);
		memcpy(ret_image, words, sizeof(*ret_image));
		if (ret_image->kind == GM_HOLDER_RESERVE &&
		    ret_image->unit == gm_seq_unit(object->word) &&
		    ret_image->version == object->image.version &&
		    ret_image->slot == slot)
			return true;
	}
	return false;
}

static int read_once(const struct gpumap *map, const gm_a64 *slot,
		     struct gpumap_holder *holder)
{
	struct gm_holder_image held;
	struct gm_object object;
	uint64_t now;
	int ret = gm_object_open(&map->map, slot, &object);

	if (ret != 0)
		return ret;
	if ((object.image.flags & GM_OBJECT_COMMITTED) == 0)
		return -ENOENT;
	memcpy(holder->name, object.image.name, sizeof(holder->name));
	holder->version = object.image.version;
	holder->since_ns = object.image.published;
	holder->uid = object.image.owner_uid;
	holder->pid = 0;
	holder->start_ns = 0;
	if ((object.image.flags & GM_OBJECT_HELD) != 0 &&
	    find_holder(&map->map, &object, &held)) {
		holder->pid = held.pid;
		/* The rest of the start window, by the node's clock. */
		now = gm_now_ns() - gm_get(&map->clock_offset);
		if (held.start_until > now)
			holder->start_ns = held.start_until - now;
	}
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
			ret = read_once(map, slot, &holder);
		if (ret == 0) {
			gm_size_put(ret_holder, &holder, sizeof(holder));
			return 1;
		}
	}
	return 0;
}

/* ---- lists from the agent ------------------------------------------------ */

/* A list that the agent gives in portions. */
struct list {
	uint32_t kind; /* enum gm_list_kind */
	size_t item_bytes;
	size_t least; /* bytes of an element that every caller has */
	void (*put)(const void *item, size_t size, void *ret_element);
};

/* Fill in up to @n elements of @size bytes.  Returns how many items there are,
 * or an error. */
static int list_all(struct gpumap *map, const struct list *list, size_t size,
		    void *ret_array, size_t n)
{
	struct gm_list_ask ask = { .kind = list->kind };
	uint64_t items[GM_LIST_BYTES / 8];
	struct gm_list_reply reply;
	size_t got = 0;
	struct gm_call call = { GM_REQUEST(GM_CONTROL_LIST, ask),
				GM_REPLY(reply), .reply_tail = items,
				.reply_tail_room = sizeof(items) };

	do {
		const char *item = (const char *)items;
		int ret = gm_map_call(map, &call, 0);

		if (ret != 0)
			return ret;
		if (call.reply_tail_bytes != reply.n * list->item_bytes)
			return gm_refuse_plain(map, -EPROTO);
		for (uint32_t i = 0; i < reply.n; i++) {
			struct gm_list_key key;

			memcpy(&key, item, sizeof(key));
			if (!gm_list_key_follows(&key, &ask.after))
				return gm_refuse_plain(map, -EPROTO);
			ask.after = key;
			if (got < n)
				list->put(item, size,
					  (char *)ret_array + size * got++);
			item += list->item_bytes;
		}
	} while (reply.n != 0 && got < n);
	/* Each portion is of another instant: all that were got are all there
	 * are, as long as there is room for more. */
	if (got == n && got < reply.total)
		got = reply.total;
	return got < INT_MAX ? (int)got : INT_MAX;
}

/* Likewise, with elements that begin with their own size. */
static int list_sized(struct gpumap *map, const struct list *list,
		      void *ret_array, size_t n)
{
	int ret = n == 0 ? 0 : gm_map_size_out(map, ret_array, list->least);
	size_t size = 0;

	if (ret != 0)
		return ret;
	if (n > 0)
		memcpy(&size, ret_array, sizeof(size));
	return list_all(map, list, size, ret_array, n);
}

/* ---- sessions ------------------------------------------------------------ */

static void put_session(const void *item, size_t size, void *ret_element)
{
	const struct gm_session_item *is = item;
	struct gpumap_session_info info = { .id = is->key.first,
					    .pid = is->pid,
					    .uid = is->uid,
					    .n_queues = is->n_queues,
					    .depth = is->depth,
					    .arena_bytes = is->arena_bytes,
					    .age_ns = is->age_ns,
					    .load_bytes = is->load_bytes,
					    .load_total_bytes =
						    is->load_total };

	_Static_assert(sizeof(info.rows) == sizeof(is->rows), "a bit each");
	memcpy(info.rows, is->rows, sizeof(info.rows));
	memcpy(ret_element, &info, size);
}

int gpumap_session_list(struct gpumap *map,
			struct gpumap_session_info *ret_info, size_t n)
{
	static const struct list list = {
		.kind = GM_LIST_SESSIONS,
		.item_bytes = sizeof(struct gm_session_item),
		.put = put_session,
	};

	return list_all(map, &list, sizeof(ret_info[0]), ret_info, n);
}

/* ---- usage --------------------------------------------------------------- */

static void put_usage(const void *item, size_t size, void *ret_element)
{
	const struct gm_usage_item *is = item;
	struct gpumap_usage usage = { .session = is->key.first,
				      .pid = is->pid,
				      .uid = is->uid,
				      .row = is->row,
				      .importers = is->importers,
				      .bytes = is->bytes,
				      .lent_bytes = is->lent_bytes,
				      .borrowed_bytes = is->borrowed_bytes };

	gm_size_put_item(ret_element, size, &usage, sizeof(usage));
}

int gpumap_usage_list(struct gpumap *map, struct gpumap_usage *ret_usage,
		      size_t n)
{
	static const struct list list = {
		.kind = GM_LIST_USAGE,
		.item_bytes = sizeof(struct gm_usage_item),
		.least = offsetof(struct gpumap_usage, lent_bytes),
		.put = put_usage,
	};

	return list_sized(map, &list, ret_usage, n);
}

/* ---- reservations -------------------------------------------------------- */

static void put_reservation(const void *item, size_t size, void *ret_element)
{
	const struct gm_reservation_item *is = item;
	struct gpumap_reservation reservation = {
		.version = is->version,
		.row = is->row,
		.uid = is->uid,
		.pid = is->pid,
		.bytes = is->bytes,
		.own_bytes = is->own_bytes,
		.session_bytes = is->session_bytes,
	};

	memcpy(reservation.name, is->name, sizeof(reservation.name) - 1);
	gm_size_put_item(ret_element, size, &reservation, sizeof(reservation));
}

int gpumap_reservation_list(struct gpumap *map,
			    struct gpumap_reservation *ret_list, size_t n)
{
	static const struct list list = {
		.kind = GM_LIST_RESERVATIONS,
		.item_bytes = sizeof(struct gm_reservation_item),
		.least = offsetof(struct gpumap_reservation, own_bytes),
		.put = put_reservation,
	};

	return list_sized(map, &list, ret_list, n);
}

/* ---- requests that wait -------------------------------------------------- */

static void put_wait(const void *item, size_t size, void *ret_element)
{
	const struct gm_wait_item *is = item;
	struct gpumap_wait_info info = {
		.uid = is->uid,
		.pid = is->pid,
		.flags = is->flags,
		.missing_bytes = is->missing_bytes,
		.missing_row = is->missing_row,
		.n_before = is->n_before,
		.bytes = is->bytes,
		.age_ns = is->age_ns,
		.left_ns = is->left_ns,
	};

	memcpy(info.name, is->name, sizeof(info.name) - 1);
	_Static_assert(sizeof(info.rows) == sizeof(is->rows), "a bit each");
	memcpy(info.rows, is->rows, sizeof(info.rows));
	for (uint32_t i = 0; i < GM_ROW_WORDS; i++)
		info.n_rows += (uint32_t)__builtin_popcountll(is->rows[i]);
	gm_size_put_item(ret_element, size, &info, sizeof(info));
}

int gpumap_wait_list(struct gpumap *map, struct gpumap_wait_info *ret_list,
		     size_t n)
{
	static const struct list list = {
		.kind = GM_LIST_WAITS,
		.item_bytes = sizeof(struct gm_wait_item),
		.least = offsetof(struct gpumap_wait_info, missing_bytes),
		.put = put_wait,
	};

	return list_sized(map, &list, ret_list, n);
}

/* ---- shares -------------------------------------------------------------- */

static void put_share(const void *item, size_t size, void *ret_element)
{
	const struct gm_shares_item *is = item;
	struct gpumap_share_info info = { .share = is->key.first,
					  .uid = is->uid,
					  .flags = is->flags,
					  .n_buffers = is->n_buffers,
					  .n_holders = is->n_holders,
					  .bytes = is->bytes,
					  .about_bytes = is->about_bytes,
					  .age_ns = is->age_ns,
					  .pid = is->pid };

	memcpy(info.name, is->name, sizeof(info.name) - 1);
	memcpy(info.fingerprint, is->hash, sizeof(info.fingerprint));
	_Static_assert(sizeof(info.rows) == sizeof(is->rows), "a bit each");
	memcpy(info.rows, is->rows, sizeof(info.rows));
	gm_size_put_item(ret_element, size, &info, sizeof(info));
}

int gpumap_share_list(struct gpumap *map, struct gpumap_share_info *ret_info,
		      size_t n)
{
	static const struct list list = {
		.kind = GM_LIST_SHARES,
		.item_bytes = sizeof(struct gm_shares_item),
		.least = offsetof(struct gpumap_share_info, age_ns),
		.put = put_share,
	};

	return list_sized(map, &list, ret_info, n);
}
