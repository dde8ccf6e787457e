/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Read masks: their facts, and the place of each row's replica.
 *
 * An opened mask's views are filled when it is opened and when it was published
 * again, so that a lookup finds one ready.  Node segments are mapped whole,
 * once per attachment, and stay so until it ends: a segment has its full length
 * from the start, and pages wherever a replica was ever published.  Threads add
 * to the attachment's list of them without a lock, because a forked child goes
 * on reading masks and must not find a lock held.
 */

#include "lib/internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shm/names.h"
#include "shm/replicas.h"

/* A node segment.  A node's later segment has an entry of its own. */
struct gm_node_map {
	struct gm_node_map *next;
	uint32_t node;
	uint64_t made;
	uint64_t bytes;
	char *base;
};

struct opened {
	struct gpumap_mask mask; /* the part that callers see */
	uint64_t pin;            /* 0: not pinned */
	char name[GM_NAME_BYTES];
	struct gpumap_mask_view views[GM_ROWS];
	/* the views while they are being filled */
	struct gpumap_mask_view fresh[GM_ROWS];
};

/* ---- node segments ------------------------------------------------------ */

void gm_masks_unmap(struct gpumap *map)
{
	struct gm_node_map *node;

	while ((node = gm_get(&map->nodes)) != NULL) {
		gm_put(&map->nodes, node->next);
		munmap(node->base, node->bytes);
		free(node);
	}
}

static void explain_access(struct gpumap *map, const char *file)
{
	char path[GM_NAMES_BYTES], why[GM_WHY];
	struct stat st;

	gm_names_file(path, map->owner, map->instance, file);
	if (stat(path, &st) == 0)
		snprintf(why, sizeof(why),
			 "%s is for its owner and group %u: add this user to "
			 "that group, or set group in [socket] of gpumapd.conf "
			 "to one that it is in",
			 path, (unsigned int)st.st_gid);
	else
		snprintf(why, sizeof(why), "%s cannot be read", path);
	gm_map_refuse(map, why);
}

/* Map an open file if it is of the user whose map this is.  Returns -EAGAIN
 * when it is another segment of the node. */
static int map_fd(const struct gpumap *map, int fd, uint32_t node,
		  uint64_t made, struct gm_node_map *ret_node)
{
	struct gm_node_map ours = { .node = node };
	struct stat file;
	void *base;
	int ret = gm_named_file_check(fd, map->owner, &file);

	if (ret != 0)
		return ret;
	if (file.st_size < (off_t)GM_SPAN_UNIT)
		return -EPROTO;
	ours.bytes = (uint64_t)file.st_size;
	base = mmap(NULL, ours.bytes, PROT_READ, MAP_SHARED | MAP_NORESERVE, fd,
		    0);
	if (base == MAP_FAILED)
		return -errno;
	ours.base = base;
	ret = gm_replicas_check_node(base, ours.bytes, node, &ours.made);
	if (ret == 0 && ours.made != made)
		ret = -EAGAIN;
	if (ret != 0)
		munmap(base, ours.bytes);
	else
		*ret_node = ours;
	return ret;
}

static int map_by_agent(struct gpumap *map, uint32_t node, uint64_t made,
			struct gm_node_map *ret_node)
{
	struct gm_mask_node body = { .node = node };
	struct gm_call call = { GM_REQUEST(GM_CONTROL_MASK_NODE, body) };
	int ret = gm_map_call(map, &call, 1);

	if (ret == 0)
		ret = call.n_fds == 1
			      ? map_fd(map, call.fds[0], node, made, ret_node)
			      : -EPROTO;
	gm_call_close_fds(&call);
	return ret;
}

static int map_by_name(const struct gpumap *map, uint32_t node, uint64_t made,
		       struct gm_node_map *ret_node)
{
	char file[16];
	int fd, ret;

	gm_names_node(file, node);
	fd = gm_named_file_open(map, map->owner, file);
	if (fd < 0)
		return fd;
	ret = map_fd(map, fd, node, made, ret_node);
	close(fd);
	return ret;
}

static int map_node(struct gpumap *map, uint32_t node, uint64_t made,
		    struct gm_node_map *ret_node)
{
	int ret = map_by_name(map, node, made, ret_node);
	char file[16];
	int asked;

	if (ret == 0)
		return 0;
	asked = map_by_agent(map, node, made, ret_node);
	if (asked == 0 || ret == -ENOENT)
		return asked;
	if (ret == -EACCES) {
		gm_names_node(file, node);
		explain_access(map, file);
	}
	return ret;
}

static struct gm_node_map *search(struct gm_node_map *first, uint32_t node,
				  uint64_t made)
{
	while (first != NULL && (first->node != node || first->made != made))
		first = first->next;
	return first;
}

/* Add a node to the list, unless another thread has just added it: unmap it
 * then.  Returns the node in the list, or NULL: no memory. */
static const struct gm_node_map *add_node(struct gpumap *map,
					  const struct gm_node_map *node)
{
	struct gm_node_map *first = gm_get_acquire(&map->nodes); /* NODE.add */
	struct gm_node_map *found, *own = malloc(sizeof(*own));

	while ((found = search(first, node->node, node->made)) == NULL &&
	       own != NULL) {
		*own = *node;
		own->next = first;
		if (gm_try_ordered(&map->nodes, &first, own)) /* NODE.add */
			return own;
	}
	munmap(node->base, node->bytes);
	free(own);
	return found;
}

/* Returns -EAGAIN when the node has another segment: the mask's publication has
 * changed too, or will soon. */
static int find_node(struct gpumap *map, uint32_t node, uint64_t made,
		     const struct gm_node_map **ret_node)
{
	const struct gm_node_map *at =
		search(gm_get_acquire(&map->nodes), node, made); /* NODE.add */
	struct gm_node_map found;
	int ret;

	if (at == NULL) {
		ret = map_node(map, node, made, &found);
		if (ret != 0)
			return ret;
		at = add_node(map, &found);
		if (at == NULL)
			return -ENOMEM;
	}
	*ret_node = at;
	return 0;
}

/* ---- views --------------------------------------------------------------- */

/* A device that is out of service has no replica, even if its row is to have
 * one. */
static bool is_there(const struct gm_replica_image *replica)
{
	return replica->place != GM_REPLICA_DEVICE || replica->id != 0;
}

static int put_view(struct gpumap *map, const struct gm_mask_image *image,
		    const struct gm_replica_image *replica,
		    struct gpumap_mask_view *view)
{
	const struct gm_node_map *node;
	int ret;

	*view = (struct gpumap_mask_view){ .bytes = image->bytes,
					   .version = image->object.version,
					   .kind = image->kind,
					   .dtype = image->dtype,
					   .rank = image->rank,
					   .row = replica->row };
	memcpy(view->shape, image->shape, sizeof(view->shape));
	memcpy(view->strides, image->strides, sizeof(view->strides));
	if (replica->place == GM_REPLICA_DEVICE)
		view->export_id = replica->id;
	if (replica->place != GM_REPLICA_NODE)
		return 0;
	ret = find_node(map, replica->node, replica->id, &node);
	if (ret != 0)
		return ret;
	if (!gm_check_span(replica->at, replica->bytes, node->bytes))
		return -EPROTO;
	view->data = node->base + replica->at;
	return 0;
}

/* Fill the views of one publication.  The replicas are validated before a node
 * is mapped for them. */
static int fill_views(struct gpumap *map, const struct gm_object *object,
		      struct opened *o)
{
	struct gm_replica_image replicas[GM_ROWS];
	struct gm_mask_image image;
	int ret = gm_replicas_image(object, &image);

	if (ret != 0)
		return ret;
	for (uint32_t i = 0; i < image.n_replicas && ret == 0; i++)
		ret = gm_replicas_read(object, &image, i, &replicas[i]);
	if (!gm_object_whole(object))
		return -EAGAIN;
	memset(o->fresh, 0, sizeof(o->fresh));
	for (uint32_t i = 0; i < image.n_replicas && ret == 0; i++)
		if (is_there(&replicas[i]))
			ret = put_view(map, &image, &replicas[i],
				       &o->fresh[replicas[i].row]);
	return ret;
}

static void take_views(struct opened *o, const uint64_t *check, uint64_t expect)
{
	memcpy(o->views, o->fresh, sizeof(o->views));
	o->mask = (struct gpumap_mask){ .check = check,
					.expect = expect,
					.views = o->views,
					.n_rows = GM_ROWS };
}

static int look(struct gpumap *map, struct opened *o)
{
	struct gm_object object;
	int ret = -EAGAIN;

	for (int i = 0; i < GM_OBJECT_ATTEMPTS && ret == -EAGAIN; i++) {
		ret = gm_object_find(&map->map, GM_KIND_MASK, o->name, &object);
		if (ret == 0)
			ret = fill_views(map, &object, o);
	}
	if (ret == 0)
		take_views(o, (const uint64_t *)object.slot, object.word);
	return ret;
}

int gpumap_mask_renew(struct gpumap *map, struct gpumap_mask *mask)
{
	struct opened *o = (struct opened *)(void *)mask;
	int ret;

	gm_map_refuse(map, "");
	if (o->pin != 0) /* the views stay as they are */
		ret = gm_fork_map_mine(map);
	else if (gm_health_retired(map))
		ret = -ESTALE;
	else
		ret = look(map, o);
	return ret == 0 ? -EAGAIN : ret;
}

/* ---- open, close --------------------------------------------------------- */

/* This process has pinned the block: it does not change. */
static int look_at_pinned(struct gpumap *map, struct opened *o,
			  const struct gm_pin_reply *pin)
{
	gm_a64 slot = gm_seq_word(pin->version, (uint32_t)pin->unit);
	struct gm_object object;
	int ret = -EPROTO;

	if (pin->unit >> GM_UNIT_BITS == 0 &&
	    gm_object_open(&map->map, &slot, &object) == 0 &&
	    object.image.version == pin->version)
		ret = fill_views(map, &object, o);
	if (ret == 0)
		take_views(o, gm_get(&map->mine.mine), GM_GUARD_MINE);
	return ret;
}

static int open_pinned(struct gpumap *map, struct opened *o)
{
	struct gm_pin_reply reply;
	char why[GM_WHY];
	int ret = gm_map_pin(map, GM_KIND_MASK, o->name, &reply);

	if (ret != 0)
		return ret;
	ret = look_at_pinned(map, o, &reply);
	if (ret == 0) {
		o->pin = reply.claim;
		return 0;
	}
	/* Giving the pin back is a request too, which stores a sentence of its
	 * own. */
	memcpy(why, gpumap_refusal(map), sizeof(why));
	gpumap_unpin(map, reply.claim);
	gm_map_refuse(map, why);
	return ret;
}

int gpumap_mask_open(struct gpumap *map, const char *name, uint32_t flags,
		     struct gpumap_mask **ret_mask)
{
	size_t n = gm_object_name(name);
	struct opened *o;
	int ret;

	gm_map_refuse(map, "");
	if (n == 0)
		return gm_refuse(map, -EINVAL,
				 "a name has between 1 and 63 bytes");
	if ((flags & ~GPUMAP_MASK_PIN) != 0)
		return gm_refuse_unknown(map);
	o = calloc(1, sizeof(*o));
	if (o == NULL)
		return gm_refuse_memory(map, sizeof(*o));
	memcpy(o->name, name, n);
	ret = (flags & GPUMAP_MASK_PIN) != 0 ? open_pinned(map, o)
					     : look(map, o);
	if (ret != 0) {
		free(o);
		return ret;
	}
	*ret_mask = &o->mask;
	return 0;
}

void gpumap_mask_close(struct gpumap *map, struct gpumap_mask *mask)
{
	struct opened *o = (struct opened *)(void *)mask;

	if (o != NULL && o->pin != 0 && gm_fork_map_mine(map) == 0)
		gpumap_unpin(map, o->pin);
	free(o);
}

/* ---- facts --------------------------------------------------------------- */

static int read_once(const struct gpumap *map, const char *name,
		     struct gpumap_mask_info *info, uint32_t *rows, size_t n)
{
	uint32_t all[GM_ROWS];
	struct gm_mask_image image;
	struct gm_object object;
	int ret = gm_replicas_open(&map->map, name, &object, &image);

	if (ret != 0)
		return ret;
	memcpy(info->name, image.object.name, sizeof(info->name));
	info->version = image.object.version;
	info->published_ns = image.object.published;
	info->owner_uid = image.object.owner_uid;
	info->kind = image.kind;
	info->form = image.form;
	info->dtype = image.dtype;
	info->rank = image.rank;
	info->n_rows = image.n_replicas;
	memcpy(info->shape, image.shape, sizeof(info->shape));
	memcpy(info->strides, image.strides, sizeof(info->strides));
	info->bytes = image.bytes;
	info->hash = image.hash;
	info->tgt_len = image.tgt_len;
	info->past_kv_len = image.past_kv_len;
	info->sliding_window = image.sliding_window;
	info->chunk_size = image.chunk_size;
	memcpy(info->map, image.map, sizeof(info->map));
	info->n_rows = 0;
	for (uint32_t i = 0; i < image.n_replicas && ret == 0; i++) {
		struct gm_replica_image replica;

		ret = gm_replicas_read(&object, &image, i, &replica);
		if (ret != 0 || !is_there(&replica))
			continue;
		all[info->n_rows++] = replica.row;
	}
	if (!gm_object_whole(&object))
		return -EAGAIN;
	if (ret != 0 || rows == NULL)
		return ret;
	if (n < info->n_rows)
		return -ENOBUFS;
	memcpy(rows, all, info->n_rows * sizeof(rows[0]));
	return 0;
}

int gpumap_mask_read(const struct gpumap *map, const char *name,
		     struct gpumap_mask_info *ret_info, uint32_t *ret_rows,
		     size_t n)
{
	struct gpumap_mask_info info = { 0 };
	int ret = -EAGAIN;

	if (ret_info != NULL) {
		ret = gm_size_out(ret_info,
				  offsetof(struct gpumap_mask_info, version));
		if (ret != 0)
			return ret;
		ret = -EAGAIN;
	}
	for (int i = 0; i < GM_OBJECT_ATTEMPTS && ret == -EAGAIN; i++)
		ret = read_once(map, name, &info, ret_rows, n);
	if (ret_info != NULL && (ret == 0 || ret == -ENOBUFS))
		gm_size_put(ret_info, &info, sizeof(info));
	return ret;
}

int gpumap_mask_next(const struct gpumap *map, uint32_t *cursor,
		     char ret_name[GPUMAP_NAME_MAX + 1])
{
	return gm_layers_next_name(map, GM_KIND_MASK, cursor, ret_name);
}
