/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include <errno.h>
#include <string.h>

#include "lib/sync/shared_value.h"

/* Beyond the time that gpumap-sync was told to wait. */
#define WAIT_EXTRA_NS (5 * GM_SECOND)

/* gpumap-sync checks the form. */
static int put_key(const char *key, char ret_key[GPUMAP_VALUE_KEY_MAX + 1])
{
	size_t n = key != NULL ? strnlen(key, GPUMAP_VALUE_KEY_MAX + 1) : 0;

	if (key == NULL || n > GPUMAP_VALUE_KEY_MAX)
		return gm_refuse(NULL, -EINVAL,
				 "a key is NULL, or has more than %d bytes",
				 GPUMAP_VALUE_KEY_MAX);
	memcpy(ret_key, key, n);
	memset(ret_key + n, 0, GPUMAP_VALUE_KEY_MAX + 1 - n);
	return 0;
}

int gm_shared_value_get(struct gpumap_sync *sync, const char *key,
			void *ret_value, size_t n, size_t *ret_bytes,
			uint64_t *ret_revision)
{
	struct gm_sync_value_get body;
	struct gm_sync_value_get_reply reply;
	char value[GPUMAP_VALUE_BYTES_MAX];
	struct gm_call call = { .type = GM_SYNC_VALUE_GET,
				.body = &body,
				.body_bytes = sizeof(body),
				.reply = &reply,
				.reply_bytes = sizeof(reply),
				.reply_tail = value,
				.reply_tail_room = sizeof(value) };
	int ret = put_key(key, body.key);

	if (ret == 0)
		ret = gm_sync_link_call(sync, &call);
	if (ret != 0)
		return ret;
	if (reply.revision == 0) {
		*ret_revision = 0;
		return gm_refuse(NULL, -ENOENT, "there is no value %s", key);
	}
	*ret_bytes = call.reply_tail_bytes;
	if (call.reply_tail_bytes > n)
		return gm_refuse(NULL, -ENOBUFS, "%s has %u bytes", key,
				 call.reply_tail_bytes);
	if (call.reply_tail_bytes > 0)
		memcpy(ret_value, value, call.reply_tail_bytes);
	*ret_revision = reply.revision;
	return 0;
}

int gm_shared_value_cas(struct gpumap_sync *sync,
			const struct gpumap_value_write *write,
			uint64_t *ret_revision)
{
	struct gm_sync_value_cas body = { .expected = write->expected,
					  .flags = write->flags,
					  .delete = write->value == NULL };
	struct gm_sync_value_cas_reply reply;
	struct {
		struct gm_refusal why;
		struct gm_sync_value_cas_reply now;
	} refused;
	struct gm_call call = { .type = GM_SYNC_VALUE_CAS,
				.body = &body,
				.body_bytes = sizeof(body),
				.reply = &reply,
				.reply_bytes = sizeof(reply),
				.refusal = &refused,
				.refusal_bytes = sizeof(refused) };
	int ret = put_key(write->key, body.key);

	if (ret != 0)
		return ret;
	if (write->reserved != 0)
		return gm_refuse(NULL, -EINVAL,
				 "a field of a write that has to be 0 is not");
	if (write->value != NULL && write->bytes > GPUMAP_VALUE_BYTES_MAX)
		return gm_refuse(NULL, -E2BIG,
				 "a value has %d bytes at most, and not %zu",
				 GPUMAP_VALUE_BYTES_MAX, write->bytes);
	if (write->value != NULL && write->bytes > 0) {
		call.tail[0] =
			(struct iovec){ (void *)write->value, write->bytes };
		call.n_tail = 1;
	}
	ret = gm_sync_link_call(sync, &call);
	if (ret == 0)
		*ret_revision = reply.revision;
	if (ret != -ESTALE)
		return ret;
	*ret_revision = refused.now.revision;
	return gm_refuse(NULL, -ESTALE,
			 refused.now.revision != 0
				 ? "%s has another revision: get it, and write "
				   "again"
				 : "there is no value %s any more",
			 write->key);
}

/* A request to wait, with room for its answer. */
struct wait {
	struct gm_sync_value_wait body;
	struct gm_sync_value_wait_reply reply;
	struct gm_call call;
};

static int put_wait(struct wait *wait, const char *prefix, uint64_t seen,
		    uint64_t timeout_ns)
{
	memset(wait, 0, sizeof(*wait));
	wait->body.seen = seen;
	wait->body.timeout_ns = timeout_ns;
	wait->reply.seen = seen; /* where an event ends it */
	wait->call.type = GM_SYNC_VALUE_WAIT;
	wait->call.body = &wait->body;
	wait->call.body_bytes = sizeof(wait->body);
	wait->call.reply = &wait->reply;
	wait->call.reply_bytes = sizeof(wait->reply);
	return put_key(prefix, wait->body.prefix);
}

int gm_shared_value_wait(struct gpumap_sync *sync, const char *prefix,
			 uint64_t seen, uint64_t deadline_ns,
			 uint64_t *ret_seen)
{
	uint64_t left = gm_sync_link_left(deadline_ns);
	uint64_t until_ns = sync->until_ns;
	struct wait wait;
	int ret = put_wait(&wait, prefix, seen, left);

	if (ret != 0)
		return ret;
	sync->until_ns = left < UINT64_MAX / 2
				 ? gm_now_ns() + left + WAIT_EXTRA_NS
				 : GPUMAP_NO_DEADLINE;
	ret = gm_sync_link_call(sync, &wait.call);
	sync->until_ns = until_ns;
	if (ret == 0)
		*ret_seen = wait.reply.seen;
	return ret;
}

int gm_shared_value_ask_wait(struct gpumap_sync *sync, const char *prefix,
			     uint64_t seen, uint32_t *ret_serial)
{
	struct wait wait;
	int ret = put_wait(&wait, prefix, seen, UINT64_MAX);

	return ret == 0 ? gm_sync_link_ask(sync, &wait.call, ret_serial) : ret;
}

static bool fits(const char *ends, uint32_t bytes, size_t n)
{
	return bytes <= n && (bytes == 0 || ends[bytes - 1] == '\0');
}

int gm_shared_value_list(struct gpumap_sync *sync, const char *prefix,
			 char *ret_ends, size_t n, size_t *ret_bytes)
{
	struct gm_sync_value_list body;
	struct gm_sync_value_list_reply reply;
	char ends[GM_SYNC_ENDS_BYTES];
	struct gm_call call = { .type = GM_SYNC_VALUE_LIST,
				.body = &body,
				.body_bytes = sizeof(body),
				.reply = &reply,
				.reply_bytes = sizeof(reply),
				.reply_tail = ends,
				.reply_tail_room = sizeof(ends) };
	int ret = put_key(prefix, body.prefix);
	uint32_t bytes;

	if (ret == 0)
		ret = gm_sync_link_call(sync, &call);
	if (ret != 0)
		return ret;
	bytes = call.reply_tail_bytes;
	if (bytes > 0 && ends[bytes - 1] != '\0')
		return gm_refuse_plain(NULL, -EPROTO);
	/* Whole ones. */
	while (!fits(ends, bytes, n))
		bytes--;
	if (bytes > 0)
		memcpy(ret_ends, ends, bytes);
	*ret_bytes = bytes;
	if (bytes == call.reply_tail_bytes && reply.more == 0)
		return 0;
	return gm_refuse(NULL, -ENOBUFS,
			 "%u keys begin with %s: use a longer prefix, or more "
			 "room",
			 reply.n + reply.more, prefix);
}

int gpumap_value_get(struct gpumap_sync *sync, const char *key, void *ret_value,
		     size_t n, size_t *ret_bytes, uint64_t *ret_revision)
{
	int ret = gm_sync_link_begin(sync);

	if (ret != 0)
		return ret;
	ret = gm_shared_value_get(sync, key, ret_value, n, ret_bytes,
				  ret_revision);
	return gm_sync_link_end(sync, ret);
}

int gpumap_value_cas(struct gpumap_sync *sync,
		     const struct gpumap_value_write *write,
		     uint64_t *ret_revision)
{
	struct gpumap_value_write ours;
	int ret = gm_sync_link_begin(sync);

	if (ret != 0)
		return ret;
	ret = gm_map_size_in(NULL, &ours, sizeof(ours), write);
	if (ret == 0)
		ret = gm_shared_value_cas(sync, &ours, ret_revision);
	return gm_sync_link_end(sync, ret);
}

int gpumap_value_wait(struct gpumap_sync *sync, const char *prefix,
		      uint64_t seen, uint64_t deadline_ns, uint64_t *ret_seen)
{
	int ret = gm_sync_link_begin(sync);

	if (ret != 0)
		return ret;
	ret = gm_shared_value_wait(sync, prefix, seen, deadline_ns, ret_seen);
	return gm_sync_link_end(sync, ret);
}

int gpumap_value_list(struct gpumap_sync *sync, const char *prefix,
		      char *ret_ends, size_t n, size_t *ret_bytes)
{
	int ret = gm_sync_link_begin(sync);

	if (ret != 0)
		return ret;
	ret = gm_shared_value_list(sync, prefix, ret_ends, n, ret_bytes);
	return gm_sync_link_end(sync, ret);
}
