/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/masks/numa_segments.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/common/log.h"
#include "agent/common/node_clock.h"
#include "agent/common/numa_bind.h"
#include "agent/daemon/base/loop.h"
#include "agent/daemon/base/parts.h"
#include "agent/daemon/config.h"
#include "agent/daemon/segment/folder.h"
#include "agent/daemon/segment/mount.h"
#include "agent/daemon/segment/segment.h"
#include "lib/model/plan/size_text.h"
#include "shm/point.h"

/* The path of a node's segment.  Returns as gm_folder_path(). */
static int path_of(char *ret_path, const char *instance, uint32_t node)
{
	char file[16];

	gm_names_node(file, node);
	return gm_folder_path(ret_path, instance, file);
}

static int failed(char *ret_why, const char *what, int error)
{
	return gm_why(ret_why, error, "%.160s: %s", what, strerror(-error));
}

/* ---- the file ---------------------------------------------------------- */

static int map_file(struct gm_node_segment *segment)
{
	void *base = mmap(NULL, segment->bytes, PROT_READ | PROT_WRITE,
			  MAP_SHARED | MAP_NORESERVE, segment->fd, 0);

	if (base == MAP_FAILED)
		return -errno;
	segment->base = base;
	madvise(base, segment->bytes, MADV_DONTDUMP);
	return 0;
}

/* A file of another user is not used, and not removed. */
static int check_file(const char *path, const struct stat *st, char *ret_why)
{
	if (S_ISREG(st->st_mode) && st->st_uid == geteuid() &&
	    (st->st_mode & (S_IWGRP | S_IWOTH)) == 0)
		return 0;
	return gm_why(ret_why, -EPERM,
		      "%.120s is no file of this agent's: remove it, or take "
		      "another --instance",
		      path);
}

/* -EPROTO: ours, and not of use. */
static int open_present(const struct gm_daemon *d, const char *path,
			struct gm_node_segment *segment, char *ret_why)
{
	const struct gm_header *map = d->segment->map.header;
	const struct gm_node_header *header;
	struct stat st;
	int ret;

	segment->fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (segment->fd < 0)
		return errno == ENOENT ? -ENOENT
				       : failed(ret_why, path, -errno);
	ret = fstat(segment->fd, &st) == 0 ? check_file(path, &st, ret_why)
					   : -errno;
	if (ret == 0 && st.st_size < (off_t)(2 * GM_SPAN_UNIT))
		ret = -EPROTO;
	segment->bytes = (uint64_t)st.st_size;
	if (ret == 0)
		ret = map_file(segment);
	if (ret != 0)
		return ret;
	header = (const void *)segment->base;
	ret = gm_replicas_check_node(header, segment->bytes, segment->node,
				     &segment->made);
	if (ret == 0 &&
	    (gm_get(&header->boot_id[0]) != gm_get(&map->boot_id[0]) ||
	     gm_get(&header->boot_id[1]) != gm_get(&map->boot_id[1])))
		ret = -EPROTO;
	return ret;
}

static void sign(const struct gm_daemon *d, struct gm_node_segment *segment)
{
	struct gm_node_header *header = (void *)segment->base;
	const struct gm_header *map = d->segment->map.header;

	segment->made = gm_node_clock_now();
	gm_put(&header->major, GM_LAYOUT_MAJOR);
	gm_put(&header->minor, GM_LAYOUT_MINOR);
	gm_put(&header->byte_order, GM_BYTE_ORDER);
	gm_put(&header->node, segment->node);
	gm_put(&header->size, segment->bytes);
	gm_put(&header->boot_id[0], gm_get(&map->boot_id[0]));
	gm_put(&header->boot_id[1], gm_get(&map->boot_id[1]));
	gm_put(&header->made, segment->made);
	gm_put(&header->magic, GM_NODE_MAGIC);
}

/* Pages that are there now cannot be missed later. */
static int take_pages(int fd, uint64_t at, uint64_t bytes)
{
	const uint64_t step = UINT64_C(1) << 20;

	while (bytes > 0) {
		uint64_t n = bytes < step ? bytes : step;
		int error = posix_fallocate(fd, (off_t)at, (off_t)n);

		if (error == EINTR)
			continue;
		if (error != 0)
			return -error;
		at += n;
		bytes -= n;
	}
	return 0;
}

static void bind_to_node(const struct gm_node_segment *segment)
{
	int ret = gm_numa_bind_range(segment->base, segment->bytes,
				     (int)segment->node, GM_NUMA_BIND_PREFER);

	if (ret != 0)
		gm_log(GM_LOG_WARNING, "not_bound", "node=%u why=%s",
		       segment->node, gm_quote(gm_numa_bind_why(ret)).text);
}

/* The file gets its name when it is whole: an agent that dies before that
 * leaves no file. */
static int make_file(const struct gm_daemon *d, const char *path,
		     struct gm_node_segment *segment, char *ret_why)
{
	char here[32];
	int ret = 0;

	segment->bytes = d->config->mask_bytes / GM_SPAN_UNIT * GM_SPAN_UNIT;
	segment->fd = open(GM_NAMES_SHM, O_TMPFILE | O_RDWR | O_CLOEXEC,
			   S_IRUSR | S_IWUSR);
	if (segment->fd < 0 ||
	    (d->config->socket_gid != (gid_t)-1 &&
	     fchown(segment->fd, (uid_t)-1, d->config->socket_gid) != 0) ||
	    fchmod(segment->fd, S_IRUSR | S_IWUSR | S_IRGRP) != 0 ||
	    ftruncate(segment->fd, (off_t)segment->bytes) != 0)
		return failed(ret_why, path, -errno);
	ret = map_file(segment);
	if (ret == 0) {
		bind_to_node(segment);
		ret = take_pages(segment->fd, 0, GM_SPAN_UNIT);
	}
	if (ret != 0)
		return failed(ret_why, path, ret);
	sign(d, segment);
	GM_POINT("node_signed");
	snprintf(here, sizeof(here), "/proc/self/fd/%d", segment->fd);
	if (linkat(AT_FDCWD, here, AT_FDCWD, path, AT_SYMLINK_FOLLOW) != 0)
		return failed(ret_why, path, -errno);
	GM_POINT("node_visible");
	return 0;
}

static void close_segment(struct gm_node_segment *segment)
{
	struct gm_span *span;

	while ((span = LIST_FIRST(&segment->spans)) != NULL) {
		LIST_REMOVE(span, entry);
		free(span);
	}
	gm_blocks_exit(&segment->heap);
	if (segment->base != NULL)
		munmap(segment->base, segment->bytes);
	if (segment->fd >= 0)
		close(segment->fd);
	if (segment->reader >= 0)
		close(segment->reader);
	if (segment->share >= 0)
		close(segment->share);
	free(segment);
}

static int open_file(struct gm_daemon *d, struct gm_node_segment *segment,
		     bool make, char *ret_why)
{
	char path[GM_NAMES_BYTES];
	int ret = path_of(path, d->instance, segment->node);
	uint32_t end;

	if (ret == 0)
		ret = open_present(d, path, segment, ret_why);
	/* Whatever an agent before us had there is all there. */
	segment->high = UINT32_MAX;
	if ((ret == -ENOENT || ret == -EPROTO) && !make)
		return -ENOENT;
	if (ret == -EPROTO) {
		munmap(segment->base, segment->base ? segment->bytes : 0);
		segment->base = NULL;
		close(segment->fd);
		segment->fd = -1;
		unlink(path);
	}
	if (ret == -ENOENT || ret == -EPROTO) {
		ret = make_file(d, path, segment, ret_why);
		segment->high = 1;
	}
	if (ret != 0)
		return ret;
	end = segment->bytes / GM_SPAN_UNIT < UINT32_MAX
		      ? (uint32_t)(segment->bytes / GM_SPAN_UNIT)
		      : UINT32_MAX;
	return gm_blocks_init(&segment->heap, 1, end, 1);
}

int gm_numa_segments_open(struct gm_daemon *d, uint32_t node, bool make,
			  char ret_why[GM_WHY_BYTES],
			  struct gm_node_segment **ret_segment)
{
	struct gm_node_segment *segment = d->nodes->of[node];
	int ret;

	if (segment == NULL) {
		segment = calloc(1, sizeof(*segment));
		if (segment == NULL)
			return gm_why(ret_why, -ENOMEM, "out of memory");
		segment->node = node;
		segment->fd = segment->reader = segment->share = -1;
		LIST_INIT(&segment->spans);
		ret = open_file(d, segment, make, ret_why);
		if (ret != 0) {
			close_segment(segment);
			return ret;
		}
		d->nodes->of[node] = segment;
	}
	*ret_segment = segment;
	return 0;
}

/* ---- spans ------------------------------------------------------------- */

static uint32_t units_of(uint64_t bytes)
{
	return (uint32_t)((bytes + GM_SPAN_UNIT - 1) / GM_SPAN_UNIT);
}

static struct gm_span *add(struct gm_node_segment *segment, uint32_t unit,
			   uint64_t bytes, uint64_t hash)
{
	struct gm_span *span = calloc(1, sizeof(*span));

	if (span == NULL)
		return NULL;
	*span = (struct gm_span){ .segment = segment,
				  .unit = unit,
				  .refs = 1,
				  .bytes = bytes,
				  .hash = hash };
	LIST_INSERT_HEAD(&segment->spans, span, entry);
	return span;
}

struct gm_span *gm_numa_segments_find(const struct gm_node_segment *segment,
				      uint64_t bytes, uint64_t hash)
{
	struct gm_span *span;

	LIST_FOREACH(span, &segment->spans, entry)
	{
		if (span->bytes == bytes && span->hash == hash)
			break;
	}
	return span;
}

int gm_numa_segments_take(struct gm_node_segment *segment, uint64_t bytes,
			  uint64_t hash, char ret_why[GM_WHY_BYTES],
			  struct gm_span **ret_span)
{
	struct gm_heap *heap = &segment->heap;
	struct gm_span *span;
	uint32_t unit;

	assert(bytes > 0);
	/* The lowest gap, and not the one that was free for longest: pages
	 * stay, and a file takes no more of them than it has to. */
	heap->rotor = heap->first;
	if (bytes > segment->bytes ||
	    gm_blocks_alloc(heap, units_of(bytes), &unit) != 0)
		return gm_why(ret_why, -ENOSPC,
			      "no room for %s on node %u, %s of %s are free: "
			      "release masks, or raise bytes in [masks] of "
			      "gpumapd.conf and restart with --remove",
			      gm_size_up(bytes).text, segment->node,
			      gm_size_down(heap->n_free * GM_SPAN_UNIT).text,
			      gm_size_down(segment->bytes).text);
	span = add(segment, unit, bytes, hash);
	if (span == NULL) {
		gm_blocks_free(heap, unit, units_of(bytes));
		return gm_why(ret_why, -ENOMEM, "out of memory");
	}
	*ret_span = span;
	return 0;
}

static struct gm_span *find_at(const struct gm_node_segment *segment,
			       uint64_t at, uint64_t bytes)
{
	struct gm_span *span;

	LIST_FOREACH(span, &segment->spans, entry)
	{
		if ((uint64_t)span->unit * GM_SPAN_UNIT == at &&
		    span->bytes == bytes)
			break;
	}
	return span;
}

int gm_numa_segments_claim(struct gm_node_segment *segment, uint64_t at,
			   uint64_t bytes, uint64_t hash)
{
	struct gm_span *span = find_at(segment, at, bytes);
	uint32_t unit = (uint32_t)(at / GM_SPAN_UNIT);

	if (span != NULL) {
		span->refs++;
		return 0;
	}
	if (!gm_check_span(at, bytes, segment->bytes) ||
	    gm_blocks_claim(&segment->heap, unit, units_of(bytes)) != 0)
		return -EPROTO;
	if (add(segment, unit, bytes, hash) != NULL)
		return 0;
	gm_blocks_free(&segment->heap, unit, units_of(bytes));
	return -ENOMEM;
}

struct gm_span *gm_numa_segments_span(const struct gm_numa_segments *nodes,
				      const struct gm_replica_image *replica)
{
	struct gm_node_segment *segment;

	if (replica->place == GM_REPLICA_NOWHERE || replica->node >= GM_NODES)
		return NULL;
	segment = nodes->of[replica->node];
	if (segment == NULL ||
	    (replica->place == GM_REPLICA_NODE && segment->made != replica->id))
		return NULL;
	return find_at(segment, replica->at, replica->bytes);
}

void gm_numa_segments_drop(struct gm_span *span)
{
	if (--span->refs > 0)
		return;
	LIST_REMOVE(span, entry);
	gm_blocks_free(&span->segment->heap, span->unit, units_of(span->bytes));
	free(span);
}

int gm_numa_segments_reader(struct gm_node_segment *segment)
{
	if (segment->reader < 0)
		segment->reader = gm_mount_reopen(segment->fd);
	return segment->reader;
}

int gm_numa_segments_share(struct gm_node_segment *segment)
{
	if (segment->share < 0)
		segment->share = gm_mount_open(segment->fd);
	return segment->share;
}

/* Word by word, as blocks are written: who still reads what was there before
 * finds out (edge SEQ.reuse). */
static void copy(char *to, const char *bytes, uint64_t n)
{
	gm_a64 *words = (gm_a64 *)(void *)to;
	uint64_t last = 0;

	gm_seq_fill(words, (const uint64_t *)(const void *)bytes, n / 8);
	if (n % 8 == 0)
		return;
	memcpy(&last, bytes + n / 8 * 8, n % 8);
	gm_seq_fill(words + n / 8, &last, 1);
}

int gm_numa_segments_fill(const struct gm_span *span, const void *bytes,
			  char ret_why[GM_WHY_BYTES])
{
	struct gm_node_segment *segment = span->segment;
	uint64_t at = (uint64_t)span->unit * GM_SPAN_UNIT;
	uint64_t room = (uint64_t)units_of(span->bytes) * GM_SPAN_UNIT;
	int ret = take_pages(segment->fd, at, room);

	if (ret != 0) {
		/* Pages that no view has ever named can be freed at once. */
		if (span->unit >= segment->high)
			fallocate(segment->fd,
				  FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
				  (off_t)at, (off_t)room);
		return gm_why(ret_why, ret,
			      "%s: no room for %s of a mask: release masks, or "
			      "give it more (docker: --shm-size)",
			      GM_NAMES_SHM, gm_size_up(span->bytes).text);
	}
	if (segment->high < span->unit + units_of(span->bytes))
		segment->high = span->unit + units_of(span->bytes);
	GM_POINT("node_pages");
	copy(gm_nodes_at(span), bytes, span->bytes);
	GM_POINT("node_filled");
	return 0;
}

bool gm_numa_segments_have_names(const struct gm_numa_segments *nodes)
{
	for (uint32_t node = 0; node < GM_NODES; node++) {
		if (nodes->of[node] != NULL &&
		    !gm_folder_has(nodes->of[node]->fd))
			return false;
	}
	return true;
}

/* ---- the end ----------------------------------------------------------- */

/* A node segment of ours, whatever its name says. */
static bool is_ours(int dir, const char *name)
{
	int fd = openat(dir, name,
			O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	struct gm_node_header *header;
	bool is_segment = false;
	struct stat st;

	if (fd < 0)
		return false;
	header = mmap(NULL, sizeof(*header), PROT_READ, MAP_SHARED, fd, 0);
	if (header != MAP_FAILED) {
		is_segment = fstat(fd, &st) == 0 && st.st_uid == geteuid() &&
			     st.st_size >= (off_t)sizeof(*header) &&
			     gm_get(&header->magic) == GM_NODE_MAGIC;
		munmap(header, sizeof(*header));
	}
	close(fd);
	return is_segment;
}

void gm_numa_segments_remove(const char *instance)
{
	char path[GM_NAMES_BYTES];
	struct dirent *entry;
	unsigned int node;
	char again[16];
	DIR *dir = NULL;

	if (gm_folder_path(path, instance, "") == 0)
		dir = opendir(path);
	while (dir != NULL && (entry = readdir(dir)) != NULL) {
		if (sscanf(entry->d_name, "node%u", &node) != 1)
			continue;
		gm_names_node(again, node);
		if (strcmp(entry->d_name, again) == 0 &&
		    is_ours(dirfd(dir), again))
			unlinkat(dirfd(dir), again, 0);
	}
	if (dir != NULL)
		closedir(dir);
}

void gm_numa_segments_exit(struct gm_daemon *d)
{
	for (uint32_t node = 0; node < GM_NODES; node++) {
		if (d->nodes->of[node] != NULL)
			close_segment(d->nodes->of[node]);
		d->nodes->of[node] = NULL;
	}
}
