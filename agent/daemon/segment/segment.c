/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/segment/segment.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/common/log.h"
#include "agent/common/node_clock.h"
#include "agent/common/read_file.h"
#include "agent/daemon/base/loop.h"
#include "agent/daemon/segment/folder.h"
#include "include/gpumap/types.h"
#include "shm/point.h"

#define FROZEN      64u /* bytes of the header that every major has */
#define MAP         "map"
#define NEW         "map.new"
#define MIB         (UINT64_C(1) << 20)
#define MS          UINT64_C(1000000)
#define WAKE_NS     (1000 * MS) /* from a change on */
#define BOOT_ID     "/proc/sys/kernel/random/boot_id"
#define FULL_REMEDY "give it more (docker: --shm-size) or set segment.size"

/* A file under the segment's name, mapped whole. */
struct file {
	int fd;
	void *base;
	uint64_t bytes;
};

static int failed(char *ret_why, const char *what, int error)
{
	snprintf(ret_why, GM_WHY_BYTES, "%s: %s", what, strerror(-error));
	return error;
}

/* "01234567-89ab-..." as the two numbers that its digits are. */
static int read_boot_id(uint64_t ret_id[2])
{
	uint64_t id[2] = { 0, 0 };
	char text[64];
	int n = gm_read_file(BOOT_ID, text, sizeof(text));
	int digits = 0;

	if (n < 0)
		return n;
	for (int i = 0; i < n && digits < 32; i++) {
		static const char hex[] = "0123456789abcdef";
		const char *digit = strchr(hex, text[i]);

		if (digit == NULL)
			continue;
		id[digits / 16] =
			id[digits / 16] << 4 | (uint64_t)(digit - hex);
		digits++;
	}
	if (digits != 32)
		return -EPROTO;
	memcpy(ret_id, id, sizeof(id));
	return 0;
}

static void unmap(struct file *file)
{
	if (file->base != NULL)
		munmap(file->base, file->bytes);
	close(file->fd);
}

/* May we trust that only agents of ours have written it? */
static int check_file(const char *path, const struct stat *st, char *ret_why)
{
	const char *what = NULL;

	if (!S_ISREG(st->st_mode))
		what = "is no regular file";
	else if (st->st_uid != geteuid())
		what = "belongs to another user";
	else if ((st->st_mode & (S_IWGRP | S_IWOTH)) != 0)
		what = "can be written by others";
	if (what == NULL)
		return 0;
	snprintf(ret_why, GM_WHY_BYTES,
		 "%s %s: remove it, or take another --instance", path, what);
	return -EPERM;
}

/* Map what has the name, as far as it is a segment's size at all: an empty
 * file has no base. */
static int map_present(const char *path, struct file *ret_file, char *ret_why)
{
	struct file file = { .base = NULL };
	struct stat st;
	int ret;

	file.fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (file.fd < 0 && errno == ENOENT)
		return -ENOENT;
	if (file.fd < 0 && errno == ELOOP) {
		snprintf(ret_why, GM_WHY_BYTES,
			 "%s is a link: remove it, or take another --instance",
			 path);
		return -EPERM;
	}
	if (file.fd < 0)
		return failed(ret_why, path, -errno);
	ret = fstat(file.fd, &st) == 0 ? check_file(path, &st, ret_why)
				       : failed(ret_why, path, -errno);
	if (ret == 0 && st.st_size >= FROZEN) {
		file.bytes = (uint64_t)st.st_size < GM_SEGMENT_MAX
				     ? (uint64_t)st.st_size
				     : GM_SEGMENT_MAX;
		file.base = mmap(NULL, file.bytes, PROT_READ | PROT_WRITE,
				 MAP_SHARED, file.fd, 0);
		if (file.base == MAP_FAILED)
			ret = failed(ret_why, path, -errno);
	}
	if (ret != 0) {
		close(file.fd);
		return ret;
	}
	*ret_file = file;
	return 0;
}

/* Returns how many were woken. */
static long wake(gm_a32 *word, int most)
{
	return syscall(SYS_futex, word, FUTEX_WAKE, most, NULL, NULL, 0);
}

/* Tell the readers of whatever this is that it will not be written again.
 * Only the frozen bytes mean the same in a layout that we do not know. */
static void retire(const char *path, struct file *file, const char *why)
{
	struct gm_header *header = file->base;
	struct gm_map map;

	if (file->base != NULL && gm_get(&header->magic) == GM_MAGIC &&
	    gm_get(&header->byte_order) == GM_BYTE_ORDER) {
		/* SEGMENT.changed */
		gm_put_release(&header->state, GM_STATE_RETIRED);
		GM_POINT("segment_retired");
		if (gm_check_map(file->base, file->bytes, &map) == 0) {
			uint32_t generation = gm_get(&header->generation);

			/* SEGMENT.changed */
			gm_put_release(&header->generation, generation + 1);
			wake(&header->generation, INT_MAX);
		}
	}
	/* Without a name of its own, this would be another file's. */
	if (gm_folder_has(file->fd))
		unlink(path);
	GM_POINT("segment_unlinked");
	gm_log(GM_LOG_WARNING, "segment_retired", "path=%s why=%s", path,
	       gm_quote(why).text);
}

static void sign(struct gm_header *header)
{
	gm_put(&header->minor, GM_LAYOUT_MINOR);
	gm_put(&header->agent_pid, (uint32_t)getpid());
	gm_put(&header->agent_version, GPUMAP_VERSION);
	gm_put(&header->agent_start, gm_node_clock_now());
	/* SEGMENT.changed */
	gm_put_release(&header->heartbeat, gm_node_clock_now());
}

static bool is_our_layout(const struct file *file)
{
	const struct gm_header *header = file->base;

	return file->base != NULL && file->bytes >= sizeof(*header) &&
	       gm_get(&header->magic) == GM_MAGIC &&
	       gm_get(&header->major) == GM_LAYOUT_MAJOR &&
	       gm_get(&header->layout) == gm_layout_hash();
}

/* All pages now.  tmpfs gives up, and gives back, when anything disturbs this
 * process (a debugger, a signal, io_uring ending), so in steps that end. */
static int take_pages(int fd, uint64_t bytes)
{
	const uint64_t step = UINT64_C(1) << 20;
	uint64_t at = 0;

	while (at < bytes) {
		uint64_t n = bytes - at < step ? bytes - at : step;
		int error = posix_fallocate(fd, (off_t)at, (off_t)n);

		if (error == EINTR)
			continue;
		if (error != 0)
			return -error;
		at += n;
	}
	return 0;
}

static int adopt(const char *path, struct file *file,
		 struct gm_adopted_state *past, struct gm_segment *ret_segment,
		 char *ret_why)
{
	struct gm_segment segment = { .fd = file->fd, .adopted = true };
	struct gm_header *header = file->base;
	uint64_t boot_id[2];
	int ret;

	if (file->base == NULL ||
	    gm_check_map(file->base, file->bytes, &segment.map) != 0) {
		snprintf(ret_why, GM_WHY_BYTES, "%s",
			 is_our_layout(file) ? "its header is damaged"
					     : "it is of another layout");
		return -EPROTO;
	}
	/* A hole in the file would end us where we touch it. */
	ret = take_pages(file->fd, file->bytes);
	if (ret != 0)
		return failed(ret_why, path, ret);
	ret = read_boot_id(boot_id);
	if (ret != 0)
		return failed(ret_why, BOOT_ID, ret);
	ret = gm_segment_check(&segment.map, boot_id, past, ret_why);
	if (ret != 0)
		return ret;

	segment.epoch = gm_get(&header->epoch) + 1;
	/* Before the heartbeat: a killed agent has left the state READY. */
	gm_segment_state(&segment, GM_STATE_STARTING);
	sign(header);
	GM_POINT("adopt_signed");
	gm_put(&header->epoch, segment.epoch);
	GM_POINT("adopt_epoch");
	snprintf(segment.path, sizeof(segment.path), "%s", path);
	*ret_segment = segment;
	return 0;
}

static void fill(struct gm_header *header, uint64_t bytes,
		 const uint64_t boot_id[2])
{
	gm_put(&header->major, GM_LAYOUT_MAJOR);
	gm_put(&header->byte_order, GM_BYTE_ORDER);
	gm_put(&header->size, bytes);
	gm_put(&header->layout, gm_layout_hash());
	gm_put(&header->boot_id[0], boot_id[0]);
	gm_put(&header->boot_id[1], boot_id[1]);
	gm_put(&header->epoch, 1);
	gm_put(&header->n_rows, GM_ROWS);
	gm_put(&header->rows_at, GM_ROWS_AT);
	gm_put(&header->n_objects, GM_OBJECTS);
	gm_put(&header->n_holders, GM_HOLDERS);
	gm_put(&header->objects_at, GM_OBJECTS_AT);
	gm_put(&header->holders_at, GM_HOLDERS_AT);
	gm_put(&header->heap_at, GM_HEAP_AT);
	gm_put(&header->heap_bytes, bytes - GM_HEAP_AT);
	gm_put(&header->rotor, GM_HEAP_AT / GM_UNIT);
	sign(header);
	gm_put(&header->magic, GM_MAGIC);
	/* SEGMENT.changed */
	gm_put_release(&header->state, GM_STATE_STARTING);
}

/* All pages now: later would be a SIGBUS, here or in a reader. */
static int reserve(int fd, uint64_t bytes, char *ret_why)
{
	int ret = take_pages(fd, bytes);
	struct statvfs fs;

	if (ret == 0)
		return 0;
	/* Bytes that were allocated before the room ran out count as free. */
	if (ret != -ENOSPC || ftruncate(fd, 0) != 0 || fstatvfs(fd, &fs) != 0)
		return failed(ret_why, GM_NAMES_SHM, ret);
	snprintf(ret_why, GM_WHY_BYTES,
		 "the segment takes %" PRIu64 " MiB, %s has %" PRIu64
		 " MiB free of %" PRIu64 ": " FULL_REMEDY,
		 (bytes + MIB - 1) / MIB, GM_NAMES_SHM,
		 (uint64_t)fs.f_bavail * fs.f_bsize / MIB,
		 (uint64_t)fs.f_blocks * fs.f_bsize / MIB);
	return -ENOSPC;
}

/* The file gets its name when it is whole, so no reader maps half of one. */
static int create_file(const char *path, const char *new_path, uint64_t bytes,
		       struct file *ret_file, char *ret_why)
{
	struct file file = { .bytes = bytes };
	uint64_t boot_id[2];
	int ret;

	unlink(new_path); /* of an agent that died right here */
	file.fd =
		open(new_path,
		     O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
	if (file.fd < 0)
		return failed(ret_why, new_path, -errno);
	ret = reserve(file.fd, bytes, ret_why);
	if (ret == 0) {
		file.base = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
				 MAP_SHARED, file.fd, 0);
		if (file.base == MAP_FAILED) {
			file.base = NULL;
			ret = failed(ret_why, new_path, -errno);
		}
	}
	if (ret == 0) {
		ret = read_boot_id(boot_id);
		if (ret != 0)
			failed(ret_why, BOOT_ID, ret);
	}
	if (ret == 0) {
		fill(file.base, bytes, boot_id);
		GM_POINT("segment_filled");
		if (rename(new_path, path) != 0)
			ret = failed(ret_why, path, -errno);
	}
	if (ret != 0) {
		unlink(new_path);
		unmap(&file);
		return ret;
	}
	GM_POINT("segment_visible");
	*ret_file = file;
	return 0;
}

static int create(const char *path, const char *new_path, uint64_t bytes,
		  struct gm_adopted_state *past, struct gm_segment *ret_segment,
		  char *ret_why)
{
	struct gm_segment segment = { .epoch = 1 };
	struct file file = { .fd = -1 };
	int ret;

	/* Slot words count in units. */
	bytes = bytes / GM_UNIT * GM_UNIT;
	memset(past, 0, sizeof(*past));
	ret = gm_blocks_init(&past->heap, GM_HEAP_AT / GM_UNIT,
			     (uint32_t)(bytes / GM_UNIT), GM_HEAP_AT / GM_UNIT);
	if (ret != 0)
		return failed(ret_why, "heap", ret);
	ret = create_file(path, new_path, bytes, &file, ret_why);
	if (ret == 0 && gm_check_map(file.base, bytes, &segment.map) != 0) {
		unmap(&file);
		ret = failed(ret_why, path, -EPROTO);
	}
	if (ret != 0) {
		gm_blocks_exit(&past->heap);
		return ret;
	}
	segment.fd = file.fd;
	snprintf(segment.path, sizeof(segment.path), "%s", path);
	*ret_segment = segment;
	return 0;
}

int gm_segment_open(const char *instance, uint64_t bytes,
		    struct gm_adopted_state *past, char ret_why[GM_WHY_BYTES],
		    struct gm_segment *ret_segment)
{
	char path[GM_NAMES_BYTES], new_path[GM_NAMES_BYTES];
	struct file file = { .fd = -1 };
	int ret;

	ret = gm_folder_path(path, instance, MAP);
	if (ret != 0)
		return ret;
	gm_folder_path(new_path, instance, NEW);

	ret = map_present(path, &file, ret_why);
	if (ret == 0) {
		ret = adopt(path, &file, past, ret_segment, ret_why);
		if (ret == 0)
			return 0;
		if (ret == -EPROTO)
			retire(path, &file, ret_why);
		unmap(&file);
	}
	if (ret != -ENOENT && ret != -EPROTO)
		return ret;
	return create(path, new_path, bytes, past, ret_segment, ret_why);
}

void gm_segment_close(struct gm_segment *segment)
{
	if (segment->loop != NULL)
		gm_timer_stop(segment->loop, &segment->wake);
	munmap(segment->map.base, segment->map.bytes);
	close(segment->fd);
	segment->fd = -1;
}

void gm_segment_discard(struct gm_segment *segment, const char *why)
{
	struct file file = { segment->fd, segment->map.base,
			     segment->map.bytes };

	retire(segment->path, &file, why);
	gm_segment_close(segment);
}

int gm_segment_remove(const char *instance, char ret_why[GM_WHY_BYTES])
{
	char path[GM_NAMES_BYTES];
	struct file file = { .fd = -1 };
	int ret;

	ret = gm_folder_path(path, instance, MAP);
	if (ret == 0)
		ret = map_present(path, &file, ret_why);
	if (ret != 0)
		return ret;
	retire(path, &file, "asked for");
	unmap(&file);
	return 0;
}

void gm_segment_state(struct gm_segment *segment, enum gm_state state)
{
	struct gm_header *header = segment->map.header;

	gm_put_release(&header->state, state); /* SEGMENT.changed */
	GM_POINT("state_visible");
	gm_segment_changed(segment);
}

static void wake_some(struct gm_segment *segment, uint64_t now)
{
	gm_a32 *generation = &segment->map.header->generation;

	if (wake(generation, GM_SEGMENT_WAKES) == GM_SEGMENT_WAKES &&
	    segment->loop != NULL && now < segment->wake_until_ns)
		gm_timer_set(segment->loop, &segment->wake, now + MS);
}

static void wake_more(struct gm_timer *timer)
{
	wake_some(gm_owner(timer, struct gm_segment, wake), gm_loop_now());
}

void gm_segment_changed(struct gm_segment *segment)
{
	uint64_t now = gm_loop_now();
	gm_a32 *generation = &segment->map.header->generation;

	/* SEGMENT.changed */
	gm_put_release(generation, gm_get(generation) + 1);
	GM_POINT("generation_visible");
	segment->wake.fired = wake_more;
	segment->wake_until_ns = now + WAKE_NS;
	wake_some(segment, now);
}

void gm_segment_heartbeat(struct gm_segment *segment)
{
	/* SEGMENT.changed */
	gm_put_release(&segment->map.header->heartbeat, gm_node_clock_now());
}

bool gm_segment_is_ours(const struct gm_segment *segment)
{
	const struct gm_header *header = segment->map.header;

	return gm_get(&header->magic) == GM_MAGIC &&
	       gm_get(&header->epoch) == segment->epoch &&
	       gm_get(&header->agent_pid) == (uint32_t)getpid();
}
