/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Names for buffers that other sessions may open.  The agent records which
 * sessions hold a share; this file keeps the shares that this session holds,
 * and what it has imported from them.
 */

#include "lib/internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

_Static_assert(GPUMAP_SHARE_BUFFERS_MAX == GM_SHARE_BUFFERS_MAX, "limits");
_Static_assert(GPUMAP_SHARE_UIDS_MAX == GM_SHARE_UIDS_MAX, "limits");
_Static_assert(GPUMAP_SHARE_ABOUT_MAX == GM_SHARE_ABOUT_MAX, "limits");
_Static_assert(GPUMAP_SHARE_FIELDS_MAX == GM_SHARE_FIELDS_MAX, "limits");
_Static_assert(sizeof(((struct gpumap_fingerprint *)0)->hash) ==
			       GM_SHARE_HASH_BYTES &&
		       sizeof(((struct gpumap_share_info *)0)->fingerprint) ==
			       GM_SHARE_HASH_BYTES,
	       "copied");

/* The first and the longest nap between two requests for a claim. */
#define CLAIM_NAP_NS      UINT64_C(2000000)
#define CLAIM_NAP_MOST_NS UINT64_C(100000000)

/* One buffer of a share.  The handle may be that of a buffer which has been
 * freed. */
struct part {
	uint64_t id;
	uint64_t bytes;
	uint64_t handle; /* in this session; 0: not imported yet */
	uint32_t row;
};

struct gm_share {
	struct gm_share *next;
	struct gpumap_share_info info; /* @about is mapped */
	bool read_only;                /* as this session opened it */
	struct part parts[];           /* info.n_buffers */
};

static struct gm_share *find(const struct gpumap_session *session,
			     uint64_t share)
{
	struct gm_share *s = session->shares;

	while (s != NULL && s->info.share != share)
		s = s->next;
	return s;
}

static int refuse_share(const struct gpumap_session *session)
{
	return gm_refuse(session->map, -ENOENT,
			 "the session holds no such share: it is another's, or "
			 "was closed");
}

static void drop(struct gm_share *share)
{
	if (share->info.about != NULL)
		munmap((void *)share->info.about, share->info.about_bytes);
	free(share);
}

void gm_shares_fini(struct gpumap_session *session)
{
	struct gm_share *share;

	while ((share = session->shares) != NULL) {
		session->shares = share->next;
		drop(share);
	}
}

/* ---- the agent's answer ------------------------------------------------ */

struct answer {
	struct gm_share_reply reply;
	struct gm_share_buffer buffers[GM_SHARE_BUFFERS_MAX];
};

static void await(struct gm_call *call, struct answer *answer)
{
	call->reply = &answer->reply;
	call->reply_bytes = sizeof(answer->reply);
	call->reply_tail = answer->buffers;
	call->reply_tail_room = sizeof(answer->buffers);
}

static bool is_sound(const struct gm_call *call, const struct answer *answer)
{
	uint32_t n = answer->reply.n_buffers;

	if (answer->reply.id == 0 || n == 0 || n > GM_SHARE_BUFFERS_MAX ||
	    call->reply_tail_bytes != n * sizeof(answer->buffers[0]) ||
	    answer->reply.about_bytes > GM_SHARE_ABOUT_MAX)
		return false;
	for (uint32_t i = 0; i < n; i++) {
		const struct gm_share_buffer *b = &answer->buffers[i];

		if (b->id == 0 || b->bytes == 0 ||
		    gm_export_row(b->id) != b->row)
			return false;
	}
	return true;
}

/* Make a share from the agent's answer.  Its @about is mapped from @fd, where
 * there is one. */
static int make(const struct gpumap_session *s, const struct answer *answer,
		const char *name, int fd, struct gm_share **ret_share)
{
	uint32_t n = answer->reply.n_buffers;
	struct gm_share *share =
		calloc(1, sizeof(*share) + n * sizeof(share->parts[0]));
	struct gpumap_share_info *info;

	if (share == NULL)
		return gm_refuse_memory(s->map, n * sizeof(share->parts[0]));
	info = &share->info;
	info->share = answer->reply.id;
	info->uid = answer->reply.uid;
	info->flags = answer->reply.flags;
	info->n_buffers = n;
	info->about_bytes = answer->reply.about_bytes;
	memcpy(info->fingerprint, answer->reply.hash,
	       sizeof(info->fingerprint));
	memcpy(info->name, name, strlen(name) + 1);
	for (uint32_t i = 0; i < n; i++) {
		share->parts[i].id = answer->buffers[i].id;
		share->parts[i].bytes = answer->buffers[i].bytes;
		share->parts[i].row = answer->buffers[i].row;
		info->bytes += answer->buffers[i].bytes;
	}
	if (info->about_bytes != 0) {
		info->about = mmap(NULL, info->about_bytes, PROT_READ,
				   MAP_SHARED, fd, 0);
		if (info->about == MAP_FAILED) {
			free(share);
			return gm_refuse_memory(s->map,
						answer->reply.about_bytes);
		}
	}
	*ret_share = share;
	return 0;
}

static int request_close(struct gpumap_session *s, uint64_t share)
{
	struct gm_share_close body = { .id = share };
	struct gm_call call = { GM_REQUEST(GM_CONTROL_SHARE_CLOSE, body) };
	int ret = gm_session_call(s, &call, 0);

	return ret == -ENOENT ? 0 : ret; /* the share has ended by itself */
}

/* Keep the share that the agent has granted, or give it back on failure. */
static int keep(struct gpumap_session *s, const struct gm_call *call,
		const struct answer *answer, const char *name, int fd,
		struct gm_share **ret_share)
{
	struct gm_share *share = NULL;
	int ret = is_sound(call, answer) ? 0 : -EPROTO;

	if (ret == 0 && answer->reply.about_bytes != 0 && fd < 0)
		ret = -EPROTO;
	if (ret == 0)
		ret = make(s, answer, name, fd, &share);
	if (ret != 0) {
		char why[GM_WHY];

		memcpy(why, gpumap_refusal(s->map), sizeof(why));
		request_close(s, answer->reply.id);
		gm_map_refuse(s->map, why);
		return ret;
	}
	share->next = s->shares;
	s->shares = share;
	*ret_share = share;
	return 0;
}

static int check_name(const struct gpumap *map, const char *name)
{
	size_t n = name != NULL ? strnlen(name, GPUMAP_NAME_MAX + 1) : 0;

	if (n > 0 && n <= GPUMAP_NAME_MAX)
		return 0;
	return gm_refuse(map, -EINVAL, "a name has 1 to 63 bytes");
}

/* ---- fingerprints -------------------------------------------------------- */

/* A fingerprint as requests have it.  Returns 0, -EINVAL or -E2BIG with the
 * refusal stored. */
static int key_of(const struct gpumap_session *s,
		  const struct gpumap_fingerprint *fingerprint,
		  struct gm_share_key *ret_key, struct iovec *ret_fields)
{
	static const struct gpumap_fingerprint none;
	struct gpumap_fingerprint ours;
	size_t n;
	int ret;

	*ret_key = (struct gm_share_key){ .fields_bytes = 0 };
	*ret_fields = (struct iovec){ NULL, 0 };
	if (fingerprint == NULL)
		return 0;
	ret = gm_map_size_in(s->map, &ours, sizeof(ours), fingerprint);
	if (ret != 0)
		return ret;
	if (memcmp(ours.hash, none.hash, sizeof(none.hash)) == 0)
		return gm_refuse(s->map, -EINVAL,
				 "the hash of the fingerprint is all 0");
	n = ours.fields != NULL ? strnlen(ours.fields, GM_SHARE_FIELDS_MAX + 1)
				: 0;
	if (n > GM_SHARE_FIELDS_MAX)
		return gm_refuse(s->map, -E2BIG,
				 "the fields of a fingerprint have at most %u "
				 "bytes",
				 GM_SHARE_FIELDS_MAX);
	memcpy(ret_key->hash, ours.hash, sizeof(ret_key->hash));
	ret_key->fields_bytes = (uint32_t)n;
	*ret_fields = (struct iovec){ (void *)ours.fields, n };
	return 0;
}

int gm_share_fingerprint_copy(const struct gpumap_session *session,
			      const struct gpumap_fingerprint *fingerprint,
			      struct gpumap_fingerprint *ret_copy)
{
	struct gpumap_fingerprint copy = { .size = sizeof(copy) };
	struct gm_share_key key;
	struct iovec fields;
	int ret = key_of(session, fingerprint, &key, &fields);

	if (ret != 0)
		return ret;
	memcpy(copy.hash, key.hash, sizeof(copy.hash));
	if (fields.iov_len > 0) {
		copy.fields = strndup(fields.iov_base, fields.iov_len);
		if (copy.fields == NULL)
			return gm_refuse_memory(session->map, fields.iov_len);
	}
	*ret_copy = copy;
	return 0;
}

/* ---- gpumap_share_publish() --------------------------------------------- */

static int check(struct gpumap_session *s, const struct gpumap_share_request *r)
{
	const char *why = NULL;
	int ret = check_name(s->map, r->name);

	if (ret != 0)
		return ret;
	if ((r->flags & ~GM_SHARE_FLAGS) != 0)
		return gm_refuse_unknown(s->map);
	if (r->n_buffers == 0 || r->n_buffers > GPUMAP_SHARE_BUFFERS_MAX)
		why = "a share has 1 to 1024 buffers";
	else if (r->n_uids > GPUMAP_SHARE_UIDS_MAX)
		why = "a share names at most 64 users: have it for any user";
	else if (r->reserved != 0)
		why = "a reserved field is set";
	for (uint32_t i = 0; why == NULL && i < r->n_buffers; i++) {
		const struct gm_client_buffer *b =
			gm_buffer_find(s, r->buffers[i]);

		if (b == NULL)
			return gm_buffer_missing(s, r->buffers[i]);
		if ((b->flags & GPUMAP_BUFFER_EXPORTABLE) == 0)
			why = "what is shared is allocated here, with "
			      "GPUMAP_BUFFER_EXPORTABLE";
	}
	if (why != NULL)
		return gm_refuse(s->map, -EINVAL, "%s", why);
	if (r->about_bytes > GPUMAP_SHARE_ABOUT_MAX)
		return gm_refuse(s->map, -E2BIG,
				 "a share says at most 64 MiB about itself: "
				 "share the rest as a buffer");
	return 0;
}

static int request_share(struct gpumap_session *s,
			 const struct gpumap_share_request *r, int fd,
			 struct gm_share **ret_share)
{
	struct gm_share_ask body = { .flags = r->flags,
				     .n_buffers = r->n_buffers,
				     .n_uids = r->n_uids,
				     .about_bytes = r->about_bytes };
	struct gm_call call = { GM_REQUEST(GM_CONTROL_SHARE, body), .n_tail = 3,
				.carries = fd >= 0 ? &fd : NULL };
	struct answer answer;
	int ret = key_of(s, r->fingerprint, &body.key, &call.tail[2]);

	if (ret != 0)
		return ret;
	memcpy(body.name, r->name, strlen(r->name));
	call.tail[0] = (struct iovec){ (void *)r->buffers,
				       r->n_buffers * sizeof(uint64_t) };
	call.tail[1] =
		(struct iovec){ (void *)r->uids, r->n_uids * sizeof(uint32_t) };
	await(&call, &answer);
	ret = gm_session_call(s, &call, 0);
	if (ret == 0)
		ret = keep(s, &call, &answer, r->name, fd, ret_share);
	return ret;
}

/* End the exports of the first @n buffers, where no other session can use them
 * yet, or any more.  The caller's last refusal stays: it is the reason of the
 * failure. */
static void take_back(struct gpumap_session *s, const uint64_t *buffers,
		      uint32_t n)
{
	char why[GM_WHY];

	memcpy(why, gpumap_refusal(s->map), sizeof(why));
	for (uint32_t i = 0; i < n && s->broken == 0; i++) {
		struct gm_client_buffer *b = gm_buffer_find(s, buffers[i]);

		if (b != NULL && b->share == 0 && !b->numbered)
			gm_buffer_end_export(s, b);
	}
	gm_map_refuse(s->map, why);
}

static int share_all(struct gpumap_session *s,
		     const struct gpumap_share_request *r, int fd,
		     struct gm_share **ret_share)
{
	uint32_t flags = GM_EXPORT_NAMED, n = 0;
	uint64_t id;
	int ret = 0;

	if ((r->flags & GPUMAP_SHARE_READ_ONLY) != 0)
		flags |= GM_EXPORT_READ_ONLY;
	while (ret == 0 && n < r->n_buffers)
		ret = gm_buffer_export(s, gm_buffer_find(s, r->buffers[n++]),
				       flags, &id);
	if (ret == 0)
		ret = request_share(s, r, fd, ret_share);
	if (ret != 0)
		take_back(s, r->buffers, n);
	return ret;
}

int gpumap_share_publish(struct gpumap_session *session,
			 const struct gpumap_share_request *request,
			 uint64_t *ret_share)
{
	struct gpumap_share_request r;
	struct gm_share *share;
	int fd = -1, ret = gm_session_begin(session);

	if (ret == 0)
		ret = gm_map_size_in(session->map, &r, sizeof(r), request);
	if (ret == 0)
		ret = check(session, &r);
	if (ret != 0)
		return ret;
	if (r.about_bytes != 0) {
		fd = gm_client_memory_file("gpumap-about", r.about,
					   r.about_bytes);
		if (fd == -ENOMEM || fd == -ENOSPC)
			return gm_refuse_memory(session->map, r.about_bytes);
		if (fd < 0)
			return fd;
	}
	ret = share_all(session, &r, fd, &share);
	if (fd >= 0)
		close(fd);
	if (ret != 0)
		return ret;
	for (uint32_t i = 0; i < share->info.n_buffers && i < r.n_buffers;
	     i++) {
		gm_buffer_find(session, r.buffers[i])->share =
			share->info.share;
		share->parts[i].handle = r.buffers[i];
	}
	share->read_only = (r.flags & GPUMAP_SHARE_READ_ONLY) != 0;
	*ret_share = share->info.share;
	return 0;
}

/* ---- claims -------------------------------------------------------------- */

int gm_share_claim(struct gpumap_session *session, const char *name,
		   uint32_t flags, const struct gpumap_fingerprint *fingerprint)
{
	struct gm_share_claim body = { .flags = flags };
	struct gm_call call = { GM_REQUEST(GM_CONTROL_SHARE_CLAIM, body),
				.n_tail = 1 };
	int ret = key_of(session, fingerprint, &body.key, &call.tail[0]);

	if (ret != 0)
		return ret;
	memcpy(body.name, name, strlen(name));
	return gm_session_call(session, &call, 0);
}

int gpumap_share_claim(struct gpumap_session *session, const char *name,
		       uint32_t flags,
		       const struct gpumap_fingerprint *fingerprint,
		       uint64_t deadline_ns)
{
	uint64_t nap = CLAIM_NAP_NS, now;
	int ret = gm_session_begin(session);
	uint32_t asks = 0;

	if (ret == 0 &&
	    (flags & ~(GPUMAP_SHARE_ANY_USER | GPUMAP_SHARE_KEEP)) != 0)
		ret = gm_refuse_unknown(session->map);
	if (ret == 0)
		ret = check_name(session->map, name);
	if (ret != 0)
		return ret;
	if ((flags & GPUMAP_SHARE_ANY_USER) != 0)
		asks |= GM_SHARE_CLAIM_OTHERS;
	if ((flags & GPUMAP_SHARE_KEEP) != 0)
		asks |= GM_SHARE_CLAIM_KEEP;
	while ((ret = gm_share_claim(session, name, asks, fingerprint)) ==
	       -EBUSY) {
		struct timespec ns = { 0 };

		now = gm_now_ns();
		if (now >= deadline_ns)
			return -ETIME; /* the reason is the agent's */
		if (nap > deadline_ns - now)
			nap = deadline_ns - now;
		ns.tv_nsec = (long)nap;
		nanosleep(&ns, NULL);
		nap = 2 * nap < CLAIM_NAP_MOST_NS ? 2 * nap : CLAIM_NAP_MOST_NS;
	}
	return ret;
}

int gpumap_share_unclaim(struct gpumap_session *session, const char *name)
{
	int ret = gm_session_begin(session);

	if (ret == 0)
		ret = check_name(session->map, name);
	if (ret == 0)
		ret = gm_share_claim(session, name, GM_SHARE_CLAIM_DROP, NULL);
	return ret;
}

/* ---- open a share ------------------------------------------------------- */

int gpumap_share_open(struct gpumap_session *session, const char *name,
		      uint32_t flags, const struct gpumap_fingerprint *expect,
		      uint64_t *ret_share)
{
	struct gm_share_open body = { .flags = flags };
	struct gm_call call = { GM_REQUEST(GM_CONTROL_SHARE_OPEN, body),
				.n_tail = 1 };
	struct gm_share *share;
	struct answer answer;
	int ret = gm_session_begin(session);

	if (ret == 0 && (flags & ~GPUMAP_SHARE_READ_ONLY) != 0)
		ret = gm_refuse_unknown(session->map);
	if (ret == 0)
		ret = check_name(session->map, name);
	if (ret == 0)
		ret = key_of(session, expect, &body.key, &call.tail[0]);
	if (ret != 0)
		return ret;
	memcpy(body.name, name, strlen(name));
	await(&call, &answer);
	ret = gm_session_call(session, &call, 1);
	if (ret != 0)
		return ret;
	ret = keep(session, &call, &answer, name,
		   call.n_fds > 0 ? call.fds[0] : -1, &share);
	gm_call_close_fds(&call);
	if (ret != 0)
		return ret;
	share->read_only = (flags & GPUMAP_SHARE_READ_ONLY) != 0;
	*ret_share = share->info.share;
	return 0;
}

int gpumap_share_info(struct gpumap_session *session, uint64_t share,
		      struct gpumap_share_info *ret_info)
{
	const struct gm_share *s;
	int ret = gm_session_begin(session);

	if (ret == 0)
		ret = gm_map_size_out(session->map, ret_info,
				      offsetof(struct gpumap_share_info,
					       age_ns));
	if (ret != 0)
		return ret;
	s = find(session, share);
	if (s == NULL)
		return refuse_share(session);
	gm_size_put(ret_info, &s->info, sizeof(s->info));
	return 0;
}

/* Find a part of a share that this session holds. */
static int find_part(const struct gpumap_session *session, uint64_t share,
		     uint32_t index, struct gm_share **ret_share)
{
	struct gm_share *s;
	int ret = gm_session_begin(session);

	if (ret != 0)
		return ret;
	s = find(session, share);
	if (s == NULL)
		return refuse_share(session);
	if (index >= s->info.n_buffers)
		return -ERANGE;
	*ret_share = s;
	return 0;
}

static int describe(const struct gpumap *map, const struct part *part,
		    struct gpumap_export_info *ret_info)
{
	struct gpumap_export_info info = { .bytes = part->bytes,
					   .row = part->row };
	int ret = gm_map_size_out(
		map, ret_info, offsetof(struct gpumap_export_info, reserved));

	if (ret == 0)
		gm_size_put(ret_info, &info, sizeof(info));
	return ret;
}

int gpumap_share_buffer(struct gpumap_session *session, uint64_t share,
			uint32_t index, struct gpumap_export_info *ret_info,
			uint64_t *ret_buffer)
{
	struct gm_client_buffer *buffer;
	struct gm_share *s;
	struct part *part;
	int ret = find_part(session, share, index, &s);

	if (ret != 0)
		return ret;
	part = &s->parts[index];
	if (ret_info != NULL)
		ret = describe(session->map, part, ret_info);
	if (ret != 0 || ret_buffer == NULL)
		return ret;
	if (gm_buffer_find(session, part->handle) == NULL) {
		ret = gm_buffer_import(
			session, part->id,
			s->read_only ? GPUMAP_BUFFER_READ_ONLY : 0, &buffer);
		if (ret != 0)
			return ret;
		buffer->share = share;
		part->handle = buffer->handle;
	}
	*ret_buffer = part->handle;
	return 0;
}

int gpumap_share_fd(struct gpumap_session *session, uint64_t share,
		    uint32_t index, struct gpumap_export_info *ret_info,
		    int *ret_fd)
{
	struct gm_import body = { .handle = 0 };
	struct gm_import_reply reply;
	struct gm_call call = { GM_REQUEST(GM_CONTROL_IMPORT, body),
				GM_REPLY(reply) };
	struct gm_share *s;
	int ret = find_part(session, share, index, &s);

	if (ret == 0)
		ret = describe(session->map, &s->parts[index], ret_info);
	if (ret != 0)
		return ret;
	body.id = s->parts[index].id;
	body.row = s->parts[index].row;
	ret = gm_session_call(session, &call, 1);
	if (ret != 0)
		return ret;
	if (call.n_fds != 1) {
		gm_call_close_fds(&call);
		return -EPROTO;
	}
	*ret_fd = call.fds[0];
	return 0;
}

int gpumap_share_fds(struct gpumap_session *session, uint64_t share,
		     uint32_t first, uint32_t n, int *ret_fds)
{
	struct gm_share_fds body = { .id = share, .first = first, .n = n };
	struct gm_call call = { GM_REQUEST(GM_CONTROL_SHARE_FDS, body) };
	uint32_t most = n < GM_CONTROL_FDS_MAX ? n : GM_CONTROL_FDS_MAX;
	struct gm_share *s;
	int ret = find_part(session, share, first, &s);

	if (ret == 0 && n == 0)
		ret = gm_refuse(session->map, -EINVAL,
				"room for no descriptor: n is at least 1");
	if (ret == 0)
		ret = gm_session_call(session, &call, most);
	if (ret != 0)
		return ret;
	if (call.n_fds == 0)
		return -EPROTO;
	memcpy(ret_fds, call.fds, call.n_fds * sizeof(*ret_fds));
	return (int)call.n_fds;
}

/* ---- gpumap_share_close() ------------------------------------------------ */

/* Free the share's imports, or end the exports of the session's own buffers in
 * it. */
static int let_go(struct gpumap_session *s, uint64_t share, bool imports)
{
	int ret = 0;

	for (uint32_t i = 0; i < s->buffers.room && ret == 0; i++) {
		struct gm_client_buffer *b = &s->buffers.table[i];

		if (b->handle == 0 || b->share != share ||
		    b->imported != imports)
			continue;
		if (imports)
			ret = gpumap_buffer_free(s, b->handle);
		else if (!b->numbered)
			ret = gm_buffer_end_export(s, b);
		if (ret == 0 && !imports)
			b->share = 0;
	}
	return ret;
}

int gpumap_share_close(struct gpumap_session *session, uint64_t share)
{
	int ret = gm_session_begin(session);
	struct gm_share **at = &session->shares, *s;

	if (ret != 0 || share == 0)
		return ret;
	s = find(session, share);
	if (s == NULL)
		return refuse_share(session);
	ret = let_go(session, share, true);
	if (ret == 0)
		ret = request_close(session, share);
	if (ret == 0)
		ret = let_go(session, share, false);
	if (ret != 0)
		return ret;
	while (*at != s)
		at = &(*at)->next;
	*at = s->next;
	gm_parts_share_closed(session, share);
	drop(s);
	return 0;
}

int gpumap_share_release(struct gpumap *map, const char *name)
{
	struct gm_share_end body = { .name = "" };
	struct gm_call call = { GM_REQUEST(GM_CONTROL_SHARE_END, body) };
	int ret = check_name(map, name);

	if (ret != 0)
		return ret;
	memcpy(body.name, name, strlen(name));
	return gm_map_call(map, &call, 0);
}
