/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * The session's table of buffers: memory outside the arena, which is a device's
 * own, a file of the client's, or imported from another session.  Jobs name a
 * buffer by a handle that is made here and is valid in this session only.
 *
 * Indices belong to the whole session, whatever row uses them.  An index is
 * free again when no worker can still have something there: after FREE on a
 * ring that is when its completion arrives, after FORGET on the control socket
 * when the reply does.
 */

#include "lib/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shm/rows.h"

#define ROOM_FIRST 64u

_Static_assert(GM_ROWS <= 256, "a row fits a handle");

/* ---- the table ----------------------------------------------------------- */

static struct gm_client_buffer *vacant(struct gm_client_buffers *b)
{
	for (uint32_t i = 0; i < b->room; i++) {
		uint32_t index = (b->next + i) % b->room;

		if (b->table[index].handle == 0 && !b->table[index].leaving) {
			b->next = index + 1;
			return &b->table[index];
		}
	}
	return NULL;
}

static int grow(struct gm_client_buffers *b)
{
	uint32_t room = b->room != 0 ? 2 * b->room : ROOM_FIRST;
	struct gm_client_buffer *table =
		realloc(b->table, room * sizeof(*table));

	if (table == NULL)
		return -ENOMEM;
	memset(table + b->room, 0, (room - b->room) * sizeof(*table));
	b->table = table;
	b->next = b->room;
	b->room = room;
	return 0;
}

/* Generations start at a random number.  Otherwise the first buffers of two
 * sessions would have the same handle, and a mix-up would hit the wrong
 * memory. */
int gm_client_buffers_init(struct gm_client_buffers *buffers)
{
	ssize_t n;

	do
		n = getrandom(&buffers->first, sizeof(buffers->first), 0);
	while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : 0;
}

int gm_buffers_take(struct gpumap_session *s, uint32_t kind, uint32_t row,
		    struct gm_client_buffer **ret_buffer)
{
	struct gm_client_buffers *b = &s->buffers;
	struct gm_client_buffer *buffer = vacant(b);

	if (buffer == NULL) {
		/* Completions of FREE may be waiting in the rings: take
		 * them. */
		gm_session_reap(s, NULL, 0);
		buffer = vacant(b);
	}
	if (buffer == NULL && b->room < GM_BUFFERS_MAX) {
		if (grow(b) != 0)
			return gm_refuse_memory(
				s->map, 2 * b->room * sizeof(*b->table));
		buffer = vacant(b);
	}
	if (buffer == NULL || b->made == UINT32_MAX)
		return gm_refuse(s->map, -EDQUOT,
				 "this session has 4096 buffers, or has had "
				 "2^32: free some, or open another session");
	if (b->first + b->made == 0)
		b->made++;
	*buffer = (struct gm_client_buffer){
		.handle = gm_handle_make(b->first + b->made++, kind, row,
					 (uint32_t)(buffer - b->table)),
		.fd = -1,
	};
	*ret_buffer = buffer;
	return 0;
}

void gm_buffer_drop(struct gm_client_buffer *buffer)
{
	if (buffer->fd >= 0)
		close(buffer->fd);
	free(buffer->name);
	*buffer = (struct gm_client_buffer){ .fd = -1 };
}

void gm_buffers_left(struct gpumap_session *session, uint64_t index)
{
	gm_buffer_drop(&session->buffers.table[index]);
}

void gm_buffers_fini(struct gm_client_buffers *buffers)
{
	for (uint32_t i = 0; i < buffers->room; i++)
		if (buffers->table[i].handle != 0)
			gm_buffer_drop(&buffers->table[i]);
	free(buffers->table);
}

/* ---- a device's own ------------------------------------------------------ */

static int find_credit(struct gpumap_session *s, struct gm_queue_pair *pair,
		       uint32_t n)
{
	if (gm_pair_begin(s, pair, n))
		return 0;
	/* The library's own entries may have ended, and no gpumap_poll() asks
	 * for those: take them. */
	gm_session_reap(s, NULL, 0);
	if (s->broken != 0)
		return gm_session_begin(s);
	return gm_pair_begin(s, pair, n) ? 0 : gm_refuse_plain(s->map, -EAGAIN);
}

/* The FREE goes behind all entries of the ring that use the buffer; its
 * completion frees the index. */
static void send_away(struct gpumap_session *s, struct gm_queue_pair *pair,
		      struct gm_client_buffer *buffer)
{
	struct gpumap_job job = {
		.op = GPUMAP_OP_FREE,
		.dst_buffer = buffer->handle,
		.cookie = (uint64_t)(buffer - s->buffers.table),
	};

	buffer->handle = 0;
	buffer->leaving = true;
	gm_pair_push(s, pair, &job, 1, GM_TICKET_BUFFER, true);
}

/* The caller has two credits: the second is for the FREE of an ALLOC that ends
 * too late. */
static int allocate(struct gpumap_session *s, struct gm_queue_pair *pair,
		    struct gm_client_buffer *buffer, uint64_t deadline_ns)
{
	struct gpumap_tile tile = { .row = pair->row, .status = -ETIME };
	struct gpumap_job job = { .op = GPUMAP_OP_ALLOC,
				  .dtype = GPUMAP_DTYPE_U8,
				  .n = buffer->bytes,
				  .pattern = buffer->flags,
				  .dst_buffer = buffer->handle };
	int ret;

	gm_session_tell_cpu(s);
	s->tiles = &tile;
	s->tiles_left = 1;
	gm_pair_push(s, pair, &job, 1, GM_TICKET_TILE, true);
	ret = gm_tiles_wait(s, deadline_ns);
	if (ret == 0)
		ret = tile.status;
	else
		gm_tiles_abandon(pair);
	s->tiles = NULL;
	s->tiles_left = 0;
	if (ret == -ETIME)
		send_away(s, pair, buffer);
	else if (ret != 0)
		gm_buffer_drop(buffer);
	return ret;
}

/* The worker has answered with a status alone. */
static void refuse_device_memory(const struct gpumap_session *s, uint32_t row,
				 uint64_t bytes, int error)
{
	struct gm_moving_image moving = { .state = 0 };
	struct gm_row_image facts = { .kind = 0 };
	const struct gm_map *map = &s->map->map;

	if (gm_rows_facts(map, row, &facts) != 0 ||
	    gm_rows_moving(map, row, &moving) != 0)
		return;
	if (error == -ENOMEM)
		gm_refuse(s->map, error,
			  "row %u has no %" PRIu64 " bytes in one piece: "
			  "%" PRIu64 " of its %" PRIu64 " are free; free "
			  "some, or use another row",
			  row, bytes, moving.free_bytes, facts.total_bytes);
	else
		gm_refuse(s->map, error,
			  "%" PRIu64 " bytes more are too many on row %u: one "
			  "user's sessions may have what is free (%" PRIu64
			  " now), half of its %" PRIu64 " at most, or what "
			  "the user has reserved; free some, or plan with "
			  "--commit",
			  bytes, row, moving.free_bytes, facts.total_bytes);
}

int gpumap_buffer_alloc(struct gpumap_session *session, uint32_t row,
			uint64_t bytes, uint32_t flags, uint64_t deadline_ns,
			uint64_t *ret_buffer)
{
	struct gm_client_buffer *buffer;
	struct gm_queue_pair *pair;
	int ret = gm_session_begin(session);

	if (ret == 0 && (bytes == 0 || (flags & GPUMAP_BUFFER_READ_ONLY) != 0))
		ret = gm_refuse(session->map, -EINVAL,
				"a buffer has at least a byte, and its "
				"session may write to it");
	if (ret == 0 && (flags & ~GPUMAP_BUFFER_EXPORTABLE) != 0)
		ret = gm_refuse_unknown(session->map);
	if (ret == 0)
		ret = gm_session_pair(session, row, &pair);
	if (ret == 0)
		ret = find_credit(session, pair, 2);
	if (ret == 0)
		ret = gm_buffers_take(session, GM_BUFFER_DEVICE, row, &buffer);
	if (ret != 0)
		return ret;
	buffer->bytes = bytes;
	buffer->flags = flags;
	ret = allocate(session, pair, buffer, deadline_ns);
	if (ret == -EDQUOT || ret == -ENOMEM)
		refuse_device_memory(session, row, bytes, ret);
	if (ret != 0)
		return ret;
	*ret_buffer = buffer->handle;
	return 0;
}

int gm_buffer_forget(struct gpumap_session *session, uint64_t handle)
{
	struct gm_forget body = { .handle = handle };
	struct gm_call call = { GM_REQUEST(GM_CONTROL_FORGET, body) };
	int ret = gm_session_call(session, &call, 0);

	return ret == -ENOENT || ret == -ESTALE ? 0 : ret;
}

/* An export ends with its buffer, or before. */
int gm_buffer_end_export(struct gpumap_session *session,
			 struct gm_client_buffer *buffer)
{
	int ret = 0;

	if (buffer->exported)
		ret = gm_buffer_forget(session, buffer->handle);
	if (ret == 0)
		buffer->exported = buffer->numbered = false;
	return ret;
}

/* The agent tells the worker, past the ring: the jobs have ended. */
static int free_import(struct gpumap_session *s,
		       struct gm_client_buffer *buffer)
{
	int ret = gm_buffer_end_reach(s, buffer);

	if (ret == 0)
		ret = gm_buffer_forget(s, buffer->handle);
	if (ret == 0)
		gm_buffer_drop(buffer);
	return ret;
}

static int free_own(struct gpumap_session *s, struct gm_client_buffer *buffer)
{
	struct gm_queue_pair *pair = s->pairs[gm_handle_row(buffer->handle)];
	int ret = find_credit(s, pair, 1);

	if (ret != 0)
		return gm_refuse_plain(s->map, ret);
	ret = gm_buffer_end_reach(s, buffer);
	if (ret == 0)
		ret = gm_buffer_end_export(s, buffer);
	if (ret != 0)
		return ret;
	gm_session_tell_cpu(s);
	send_away(s, pair, buffer);
	return 0;
}

static uint32_t kind_of(const struct gm_client_buffer *buffer)
{
	switch (gm_handle_kind(buffer->handle)) {
	case GM_BUFFER_FILE:
		return GPUMAP_BUFFER_FILE;
	case GM_BUFFER_PROGRAM:
		return GPUMAP_BUFFER_PROGRAM;
	case GM_BUFFER_REGISTERED:
		return buffer->is_mask ? GPUMAP_BUFFER_MASK
				       : GPUMAP_BUFFER_REGISTERED;
	default:
		return buffer->imported ? GPUMAP_BUFFER_IMPORTED
					: GPUMAP_BUFFER_ALLOCATED;
	}
}

int gpumap_buffer_info(const struct gpumap_session *session, uint64_t buffer,
		       struct gpumap_buffer_info *ret_info)
{
	struct gpumap_buffer_info info = { 0 };
	const struct gm_client_buffer *found;
	int ret = gm_map_begin(session->map);

	if (ret == 0)
		ret = gm_map_size_out(session->map, ret_info,
				      offsetof(struct gpumap_buffer_info,
					       flags));
	if (ret != 0)
		return ret;
	found = gm_buffer_find(session, buffer);
	if (found == NULL)
		return gm_buffer_missing(session, buffer);
	info.kind = kind_of(found);
	if (info.kind != GPUMAP_BUFFER_PROGRAM &&
	    info.kind != GPUMAP_BUFFER_FILE)
		info.bytes = found->bytes;
	info.row = gm_handle_kind(buffer) == GM_BUFFER_DEVICE
			   ? gm_handle_row(buffer)
			   : UINT32_MAX;
	info.flags = found->flags;
	gm_size_put(ret_info, &info, sizeof(info));
	return 0;
}

int gm_buffer_mine(struct gpumap_session *session, uint64_t handle,
		   struct gm_client_buffer **ret_mine)
{
	int ret = gm_session_usable(session);

	if (ret != 0)
		return gm_refuse_plain(session->map, ret);
	if (handle == 0)
		return 0;
	*ret_mine = gm_buffer_find(session, handle);
	return *ret_mine != NULL ? 0 : gm_buffer_missing(session, handle);
}

int gpumap_buffer_free(struct gpumap_session *session, uint64_t buffer)
{
	struct gm_client_buffer *mine;
	int ret = gm_buffer_mine(session, buffer, &mine);

	if (ret != 0 || buffer == 0)
		return ret;
	if (gm_handle_kind(buffer) != GM_BUFFER_DEVICE)
		return gm_refuse(session->map, -EINVAL,
				 "the handle is no device memory's: give it "
				 "back with gpumap_buffer_unregister() or "
				 "gpumap_program_unload()");
	return mine->imported ? free_import(session, mine)
			      : free_own(session, mine);
}

/* ---- files of the client's ----------------------------------------------- */

/* Check what this process can see.  The agent validates the file again. */
static int check_file(struct gpumap_session *s, int fd, uint64_t at,
		      uint64_t bytes)
{
	const char *why = NULL;
	struct stat file;
	int seals = fcntl(fd, F_GET_SEALS);

	if (fstat(fd, &file) != 0)
		return gm_refuse_plain(s->map, -errno);
	if (seals < 0 || (seals & F_SEAL_SHRINK) == 0)
		why = "memory is registered by a memfd that cannot shrink: "
		      "make it with MFD_ALLOW_SEALING and add F_SEAL_SHRINK";
	else if (bytes == 0 || at % GM_PAGE != 0)
		why = "a registration starts at a page and has at least a byte";
	else if (at > (uint64_t)file.st_size ||
		 bytes > (uint64_t)file.st_size - at)
		why = "the file ends before the bytes that were to be "
		      "registered";
	if (why == NULL)
		return 0;
	return gm_refuse(s->map, -EINVAL, "%s", why);
}

int gpumap_buffer_register(struct gpumap_session *session, int fd, uint64_t at,
			   uint64_t bytes, uint32_t flags, uint64_t *ret_buffer)
{
	struct gm_client_buffer *buffer;
	int ret = gm_session_begin(session);
	int own;

	if (ret == 0 && (flags & GPUMAP_BUFFER_EXPORTABLE) != 0)
		ret = gm_refuse(session->map, -EINVAL,
				"registered memory is not exported: share its "
				"file instead");
	if (ret == 0 && (flags & ~GPUMAP_BUFFER_READ_ONLY) != 0)
		ret = gm_refuse_unknown(session->map);
	if (ret == 0)
		ret = check_file(session, fd, at, bytes);
	if (ret != 0)
		return ret;
	own = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (own < 0)
		return -errno;
	ret = gm_buffers_take(session, GM_BUFFER_REGISTERED, 0, &buffer);
	if (ret != 0) {
		close(own);
		return ret;
	}
	buffer->fd = own;
	buffer->at = at;
	buffer->bytes = bytes;
	buffer->flags = flags;
	*ret_buffer = buffer->handle;
	return 0;
}

int gpumap_buffer_unregister(struct gpumap_session *session, uint64_t buffer)
{
	struct gm_client_buffer *mine;
	int ret = gm_buffer_mine(session, buffer, &mine);

	if (ret != 0 || buffer == 0)
		return ret;
	if (gm_handle_kind(buffer) != GM_BUFFER_REGISTERED &&
	    gm_handle_kind(buffer) != GM_BUFFER_FILE)
		return gm_refuse(session->map, -EINVAL,
				 "the handle was not registered: give it back "
				 "with gpumap_buffer_free() or "
				 "gpumap_program_unload()");
	if (gm_buffer_is_shown(mine) || mine->is_mask)
		ret = gm_buffer_forget(session, buffer);
	if (ret == 0)
		gm_buffer_drop(mine);
	return ret;
}

/* ---- sharing ------------------------------------------------------------- */

int gm_buffer_export(struct gpumap_session *session,
		     struct gm_client_buffer *buffer, uint32_t flags,
		     uint64_t *ret_export)
{
	struct gm_export_ask body = { .handle = buffer->handle,
				      .flags = flags };
	struct gm_export_reply reply;
	struct gm_call call = { GM_REQUEST(GM_CONTROL_EXPORT, body),
				GM_REPLY(reply) };
	int ret = gm_session_call(session, &call, 0);

	if (ret != 0)
		return ret;
	if (reply.id == 0 ||
	    gm_export_row(reply.id) != gm_handle_row(buffer->handle))
		return -EPROTO;
	buffer->exported = true;
	*ret_export = reply.id;
	return 0;
}

int gpumap_buffer_export(struct gpumap_session *session, uint64_t buffer,
			 uint64_t *ret_export)
{
	struct gm_client_buffer *mine;
	int ret = gm_session_begin(session);

	if (ret != 0)
		return ret;
	mine = gm_buffer_find(session, buffer);
	if (mine == NULL)
		return gm_buffer_missing(session, buffer);
	if ((mine->flags & GPUMAP_BUFFER_EXPORTABLE) == 0)
		return gm_refuse(session->map, -EINVAL,
				 "only memory that was allocated with "
				 "GPUMAP_BUFFER_EXPORTABLE is exported");
	ret = gm_buffer_export(session, mine, 0, ret_export);
	if (ret == 0)
		mine->numbered = true;
	return ret;
}

int gpumap_buffer_unexport(struct gpumap_session *session, uint64_t buffer)
{
	struct gm_client_buffer *mine;
	int ret = gm_buffer_mine(session, buffer, &mine);

	if (ret != 0 || buffer == 0)
		return ret;
	if (gm_handle_kind(buffer) != GM_BUFFER_DEVICE || mine->imported)
		return gm_refuse(session->map, -EINVAL,
				 "only memory that was allocated here is "
				 "exported");
	return gm_buffer_end_export(session, mine);
}

static int request_import(struct gpumap_session *s,
			  struct gm_client_buffer *buffer, uint64_t id)
{
	struct gm_import body = { .id = id,
				  .handle = buffer->handle,
				  .row = gm_export_row(id),
				  .flags = buffer->flags };
	struct gm_import_reply reply;
	struct gm_call call = { GM_REQUEST(GM_CONTROL_IMPORT, body),
				GM_REPLY(reply) };
	int ret = gm_session_call(s, &call, 0);

	if (ret != 0)
		return ret;
	if (reply.row != body.row || reply.bytes == 0)
		return -EPROTO;
	buffer->bytes = reply.bytes;
	return 0;
}

int gm_buffer_import(struct gpumap_session *session, uint64_t export_id,
		     uint32_t flags, struct gm_client_buffer **ret_buffer)
{
	uint32_t row = gm_export_row(export_id);
	struct gm_client_buffer *buffer;
	struct gm_queue_pair *pair;
	int ret = gm_session_pair(session, row, &pair);

	if (ret == 0)
		ret = gm_buffers_take(session, GM_BUFFER_DEVICE, row, &buffer);
	if (ret != 0)
		return ret;
	buffer->flags = flags;
	buffer->imported = true;
	ret = request_import(session, buffer, export_id);
	if (ret != 0) {
		gm_buffer_drop(buffer);
		return ret;
	}
	*ret_buffer = buffer;
	return 0;
}

int gpumap_buffer_import(struct gpumap_session *session, uint64_t export_id,
			 uint32_t flags, uint64_t *ret_buffer)
{
	struct gm_client_buffer *buffer;
	int ret = gm_session_begin(session);

	if (ret == 0 && (flags & GPUMAP_BUFFER_EXPORTABLE) != 0)
		ret = gm_refuse(session->map, -EINVAL,
				"an import is not exported: its exporter's "
				"number is for all");
	if (ret == 0 && (flags & ~GPUMAP_BUFFER_READ_ONLY) != 0)
		ret = gm_refuse_unknown(session->map);
	if (ret == 0)
		ret = gm_buffer_import(session, export_id, flags, &buffer);
	if (ret == 0)
		*ret_buffer = buffer->handle;
	return ret;
}

int gpumap_export_fd(struct gpumap *map, uint64_t export_id,
		     struct gpumap_export_info *ret_info, int *ret_fd)
{
	struct gpumap_export_info info = { 0 };
	struct gm_import body = { .id = export_id,
				  .row = gm_export_row(export_id) };
	struct gm_import_reply reply;
	struct gm_call call = { GM_REQUEST(GM_CONTROL_IMPORT, body),
				GM_REPLY(reply) };
	int ret = gm_map_size_out(
		map, ret_info, offsetof(struct gpumap_export_info, reserved));

	if (ret == 0)
		ret = gm_map_call(map, &call, 1);
	if (ret != 0)
		return ret;
	if (call.n_fds != 1 || reply.bytes == 0) {
		gm_call_close_fds(&call);
		return -EPROTO;
	}
	info.bytes = reply.bytes;
	info.row = reply.row;
	gm_size_put(ret_info, &info, sizeof(info));
	*ret_fd = call.fds[0];
	return 0;
}
