/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * A record that no process here wants is deleted, until the watch says that it
 * is gone: a write of it may come late, or be that of a predecessor.
 */

#include "agent/sync/gang_ask.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "agent/common/log.h"
#include "agent/sync/config.h"
#include "agent/sync/peers.h"

#define RETRY_NS UINT64_C(500000000) /* of a delete that has failed */

enum gang_state {
	GANG_ASKED = 1, /* the process waits for the answer */
	GANG_TOLD,      /* the process has it */
	GANG_RELEASED,  /* the process waits for the end */
	GANG_OVER       /* no process has it */
};

struct gm_gang {
	LIST_ENTRY(gm_gang) entry;
	struct gm_gangs *gangs;
	struct gm_sync_client *client; /* NULL: none */
	struct gm_control request;     /* that the process waits for */
	enum gang_state state;
	struct gm_gang_record record;
	char path[GM_GANG_PATH_BYTES]; /* "NODE/ID" */
	char key[GM_GANG_KEY_BYTES];
	char *value;
	size_t bytes;
	bool is_begun; /* the record has been written, or failed to be */
	struct gm_store_write write;
	bool is_writing;
	bool is_put; /* it is, or may be, in the store */
	int failed;  /* of the put; 0: it has not failed */
	char why[GM_STORE_WHY_BYTES];
	uint64_t revision; /* of the put; 0: not known */
	uint64_t deadline_ns;
	uint64_t retry_ns;
	uint64_t free_ns; /* when no event of it is to come any more */
};

/* ---- records ------------------------------------------------------------- */

static struct gm_gang *make(struct gm_gangs *gangs, const char *id)
{
	struct gm_gang *gang = calloc(1, sizeof(*gang));

	if (gang == NULL)
		return NULL;
	gang->gangs = gangs;
	gang->state = GANG_OVER;
	snprintf(gang->path, sizeof(gang->path), "%s/%s",
		 gangs->sync->config->node, id);
	snprintf(gang->key, sizeof(gang->key), GM_GANG_RECORDS "%s",
		 gang->path);
	LIST_INSERT_HEAD(&gangs->asked, gang, entry);
	return gang;
}

static void free_gang(struct gm_gang *gang)
{
	LIST_REMOVE(gang, entry);
	gm_gang_record_free(&gang->record);
	free(gang->value);
	free(gang);
}

static struct gm_gang *gang_of(struct gm_store_write *write)
{
	return (struct gm_gang *)((char *)write -
				  offsetof(struct gm_gang, write));
}

/* The write was refused with no call to come. */
static void write_done(struct gm_gang *gang, int status, const char *why)
{
	gang->is_writing = false;
	snprintf(gang->why, sizeof(gang->why), "%s", why);
	gm_gangs_wake(gang->gangs, 0);
	if (gang->write.value != NULL) {
		gang->is_put = status == 0 || status == -ETIMEDOUT;
		gang->failed = status;
	} else if (status == 0) {
		gang->is_put = false;
		gang->free_ns = gang->gangs->ops->now() +
				gang->gangs->sync->config->ttl_ns;
	} else {
		gang->retry_ns = gang->gangs->ops->now() + RETRY_NS;
	}
}

static void put_or_deleted(struct gm_store_write *write,
			   const struct gm_store_result *result)
{
	struct gm_gang *gang = gang_of(write);

	if (result->status == 0 && write->value != NULL)
		gang->revision = result->revision;
	write_done(gang, result->status, result->why);
}

/* Put the record, or delete it. */
static void start_write(struct gm_gang *gang, const char *value, size_t bytes)
{
	struct gm_sync *sync = gang->gangs->sync;
	int r;

	gang->write = (struct gm_store_write){
		.key = gang->key,
		.value = value,
		.bytes = bytes,
		.lease = value != NULL ? sync->lease : NULL,
		.done = put_or_deleted,
	};
	gang->is_writing = true;
	r = gm_store_put(sync->store, &gang->write);
	if (r != 0)
		write_done(gang, r, strerror(-r));
}

void gm_gang_ask_event(struct gm_gangs *gangs, const char *id,
		       const struct gm_store_event *event)
{
	struct gm_gang *gang;

	LIST_FOREACH(gang, &gangs->asked, entry)
	if (strcmp(strchr(gang->path, '/') + 1, id) == 0)
		break;
	if (event->kind == GM_STORE_DELETE) {
		if (gang == NULL || gang->is_writing)
			return;
		if (gang->state == GANG_OVER && !gang->is_put)
			gang->free_ns = 0;
		gang->is_put = false;
		return;
	}
	if (gang == NULL)
		gang = make(gangs, id);
	if (gang != NULL &&
	    (gang->revision == 0 || gang->revision != event->revision))
		gang->is_put = true;
}

/* ---- the process --------------------------------------------------------- */

static void leave(struct gm_gang *gang)
{
	if (gang->client != NULL)
		gang->client->gang = NULL;
	gang->client = NULL;
	gang->state = GANG_OVER;
}

static void fail(struct gm_gang *gang, int status, const char *why)
{
	gm_sync_client_refuse(gang->client, &gang->request, status, why);
	leave(gang);
}

static void lose(struct gm_gang *gang, const char *why)
{
	gm_log_of(gang->record.uid, GM_LOG_WARNING, "gang_lost",
		  "name=%s uid=%u why=%s", gm_quote(gang->record.name).text,
		  (unsigned)gang->record.uid, gm_quote(why).text);
	gm_sync_client_tell(gang->client, -ENOLINK, why);
	leave(gang);
}

/* Read the members behind the body.  Returns 0 or a negative errno. */
static int read_members(const struct gm_sync_gang *body,
			const struct gm_sync_message *message,
			struct gm_gang_record *record, char why[GM_WHY_BYTES])
{
	const char *at = message->tail, *end = at + message->tail_bytes;

	for (uint32_t i = 0; i < body->n_members; i++) {
		struct gm_sync_gang_member from;
		struct gm_gang_member *member;
		size_t bytes;

		if ((size_t)(end - at) < sizeof(from))
			return gm_why(why, -EINVAL, "the request is cut short");
		memcpy(&from, at, sizeof(from));
		at += sizeof(from);
		bytes = from.n_parts * sizeof(struct gm_sync_gang_part);
		if (from.n_parts > GM_GANG_PARTS_MAX ||
		    (size_t)(end - at) < bytes)
			return gm_why(why, -EINVAL,
				      "a node has more than %u devices, or "
				      "the request is cut short",
				      GM_GANG_PARTS_MAX);
		member = gm_gang_record_add(record, from.n_parts);
		if (member == NULL)
			return gm_why(why, -ENOMEM,
				      "gpumap-sync is out of "
				      "memory");
		snprintf(member->node, sizeof(member->node), "%.63s",
			 from.node);
		memcpy(member->parts, at, bytes);
		at += bytes;
	}
	return at == end ? 0 : gm_why(why, -EINVAL, "the request is too long");
}

static int read_request(struct gm_gang *gang, const struct gm_sync_client *of,
			const struct gm_sync_message *message,
			char why[GM_WHY_BYTES])
{
	const struct gm_sync_gang *body = message->body;
	uint64_t limit_ns = gang->gangs->sync->config->ttl_ns;
	int r;

	if (body->n_members == 0 || body->n_members > GM_GANG_MEMBERS_MAX)
		return gm_why(why, -EINVAL, "a gang has 1 to %u nodes",
			      GM_GANG_MEMBERS_MAX);
	snprintf(gang->record.name, sizeof(gang->record.name), "%.63s",
		 body->name);
	gang->record.uid = of->uid;
	r = read_members(body, message, &gang->record, why);
	if (r == 0)
		r = gm_gang_record_check(&gang->record, why);
	/* No node holds for longer while others do not. */
	if (body->timeout_ns != 0 && body->timeout_ns < limit_ns)
		limit_ns = body->timeout_ns;
	gang->deadline_ns = gang->gangs->ops->now() + limit_ns;
	return r;
}

/* Are all members there, as far as they have said? */
static int check_nodes(const struct gm_gang *gang, char why[GM_WHY_BYTES])
{
	const struct gm_peers *peers = gang->gangs->sync->peers;

	if (peers == NULL || !gm_peers_known(peers))
		return 0;
	for (uint32_t i = 0; i < gang->record.n_members; i++) {
		const char *node = gang->record.members[i].node;
		const struct gm_peer *peer = gm_peers_find(peers, node);

		if (peer == NULL)
			return gm_why(why, -EHOSTUNREACH,
				      "no node %s is in the cluster: gpumapctl "
				      "cluster nodes lists them",
				      node);
		if (peer->summary.node.state == GPUMAP_CLUSTER_GONE)
			return gm_why(why, -EHOSTUNREACH,
				      "node %s is gone: it was stopped, is cut "
				      "off, or has died",
				      node);
	}
	return 0;
}

/* The value of the record.  Returns its bytes or a negative errno. */
static int encode(struct gm_gang *gang, char why[GM_WHY_BYTES])
{
	int n;

	gang->value = malloc(GM_STORE_VALUE_BYTES);
	n = gang->value != NULL
		    ? gm_gang_record_encode(&gang->record, gang->value)
		    : -ENOMEM;
	if (n == -ENOMEM)
		gm_why(why, n, "gpumap-sync is out of memory");
	else if (n < 0)
		gm_why(why, n,
		       "the gang has more than the %u bytes that a record may "
		       "have, some 240 devices: make two of it",
		       GM_STORE_VALUE_BYTES);
	return n;
}

static void name_it(char ret_id[GM_GANG_ID_BYTES])
{
	uint64_t number = 0;

	while (getrandom(&number, sizeof(number), 0) != sizeof(number))
		;
	snprintf(ret_id, GM_GANG_ID_BYTES, "%016" PRIx64, number);
}

void gm_gang_ask_reserve(struct gm_sync_client *client,
			 const struct gm_sync_message *message)
{
	struct gm_gangs *gangs = client->sync->gangs;
	char why[GM_WHY_BYTES] = "", id[GM_GANG_ID_BYTES];
	struct gm_gang *gang;
	int n;

	if (client->gang != NULL) {
		gm_sync_client_refuse(client, message->header, -EALREADY,
				      "this connection has a gang: release it "
				      "first, or open another connection");
		return;
	}
	name_it(id);
	gang = make(gangs, id);
	if (gang == NULL) {
		gm_sync_client_refuse(client, message->header, -ENOMEM, NULL);
		return;
	}
	gang->client = client;
	gang->request = *message->header;
	n = read_request(gang, client, message, why);
	if (n == 0)
		n = check_nodes(gang, why);
	if (n == 0)
		n = encode(gang, why);
	if (n < 0) {
		fail(gang, n, why);
		free_gang(gang);
		return;
	}
	client->gang = gang;
	gang->state = GANG_ASKED;
	gang->bytes = (size_t)n;
	gm_gangs_wake(gangs, 0);
}

void gm_gang_ask_release(struct gm_sync_client *client,
			 const struct gm_sync_message *message)
{
	struct gm_gang *gang = client->gang;

	if (gang == NULL || gang->state != GANG_TOLD) {
		gm_sync_client_refuse(client, message->header, -ENOENT,
				      "this connection has no gang");
		return;
	}
	gang->request = *message->header;
	gang->state = GANG_RELEASED;
	gm_gangs_wake(gang->gangs, 0);
}

void gm_gang_ask_gone(struct gm_sync_client *client)
{
	if (client->gang == NULL)
		return;
	gm_gangs_wake(client->gang->gangs, 0);
	leave(client->gang);
}

/* ---- the next step -------------------------------------------------- */

/* How many members hold.  Negative: one does not any more, or refuses; not
 * one that does so because of another, if there is a better reason. */
static int count_held(const struct gm_gang *gang, bool all,
		      char why[GM_WHY_BYTES])
{
	int n = 0, r = 0;

	for (uint32_t i = 0; i < gang->record.n_members; i++) {
		const char *node = gang->record.members[i].node;
		const struct gm_gang_seen *seen =
			gm_gangs_answer(gang->gangs, node, gang->path);

		if (seen == NULL && all)
			return gm_why(why, -ENOLINK,
				      "node %s is gone, or cut off from the "
				      "store",
				      node);
		n += seen != NULL;
		if (seen == NULL || seen->answer.status == 0 ||
		    (r != 0 && seen->answer.status == -ECANCELED))
			continue;
		r = gm_why(why, seen->answer.status, "node %s: %s", node,
			   seen->answer.why);
		if (r != -ECANCELED)
			return r == -EPROTO ? -EHOSTUNREACH : r;
	}
	return r == 0 ? n : -ENOLINK;
}

/* The time to answer is over.  @otherwise: where all have answered. */
static void give_up(struct gm_gang *gang, const char *otherwise)
{
	char why[GM_WHY_BYTES];
	int r;

	if (!gang->is_put) {
		fail(gang, -EHOSTUNREACH, "the store does not answer");
		return;
	}
	r = check_nodes(gang, why);
	if (r != 0) {
		fail(gang, r, why);
		return;
	}
	for (uint32_t i = 0; i < gang->record.n_members; i++) {
		const char *node = gang->record.members[i].node;

		if (gm_gangs_answer(gang->gangs, node, gang->path) != NULL)
			continue;
		gm_why(why, 0,
		       "node %s has not answered: see the log of its "
		       "gpumap-sync",
		       node);
		fail(gang, -ETIMEDOUT, why);
		return;
	}
	fail(gang, -ETIMEDOUT, otherwise);
}

static void fail_cut_off(struct gm_gang *gang, const char *out)
{
	char why[GM_WHY_BYTES];

	gm_why(why, 0, "this node is cut off from the store: %s", out);
	fail(gang, -EHOSTUNREACH, why);
}

/* Write the record, at once or when this node has come to the store. */
static void begin(struct gm_gang *gang, uint64_t now_ns)
{
	const char *out = NULL;

	if (gm_gangs_is_in(gang->gangs, now_ns, &out)) {
		gang->is_begun = true;
		start_write(gang, gang->value, gang->bytes);
	} else if (now_ns >= gang->deadline_ns) {
		fail_cut_off(gang, out);
	}
}

static void look_at_asked(struct gm_gang *gang, uint64_t now_ns)
{
	char why[GM_WHY_BYTES] = "";
	const char *out = NULL;
	int n = count_held(gang, false, why);

	gm_gangs_wake(gang->gangs, gang->deadline_ns);
	if (!gang->is_begun) {
		begin(gang, now_ns);
	} else if (n == -ETIMEDOUT) {
		give_up(gang, why);
	} else if (n < 0) {
		fail(gang, n, why);
	} else if (gang->failed != 0) {
		gm_why(why, 0, "the store: %s", gang->why);
		fail(gang, -EHOSTUNREACH, why);
	} else if (!gm_gangs_is_in(gang->gangs, now_ns, &out)) {
		fail_cut_off(gang, out);
	} else if ((uint32_t)n == gang->record.n_members) {
		const struct gm_sync_reply reply = { 0 };

		gang->state = GANG_TOLD;
		gm_sync_client_reply(gang->client, &gang->request, &reply);
	} else if (now_ns >= gang->deadline_ns) {
		give_up(gang, "not all nodes have answered");
	}
}

static void look_at_told(struct gm_gang *gang, uint64_t now_ns)
{
	char why[GM_WHY_BYTES] = "";
	const char *out = NULL;

	if (!gm_gangs_is_in(gang->gangs, now_ns, &out))
		gm_why(why, 0, "this node is cut off from the store: %s", out);
	else if (count_held(gang, true, why) >= 0 && !gang->is_put &&
		 !gang->is_writing)
		gm_why(why, 0, "its record was removed from the store");
	if (why[0] != '\0')
		lose(gang, why);
}

/* Remove the record from the store.  @gang may be freed. */
static void clean_up(struct gm_gang *gang, uint64_t now_ns)
{
	if (gang->is_writing)
		return;
	if (gang->state == GANG_RELEASED &&
	    (!gang->is_put || gang->retry_ns != 0)) {
		const struct gm_sync_reply reply = { 0 };

		gm_sync_client_reply(gang->client, &gang->request, &reply);
		leave(gang);
	}
	if (gang->is_put && now_ns >= gang->retry_ns)
		start_write(gang, NULL, 0);
	else if (gang->is_put)
		gm_gangs_wake(gang->gangs, gang->retry_ns);
	else if (now_ns >= gang->free_ns)
		free_gang(gang);
	else
		gm_gangs_wake(gang->gangs, gang->free_ns);
}

void gm_gang_ask_tick(struct gm_gangs *gangs, uint64_t now_ns)
{
	struct gm_gang *gang, *next;

	for (gang = LIST_FIRST(&gangs->asked); gang != NULL; gang = next) {
		next = LIST_NEXT(gang, entry);
		if (gang->state == GANG_ASKED)
			look_at_asked(gang, now_ns);
		else if (gang->state == GANG_TOLD)
			look_at_told(gang, now_ns);
		if (gang->state == GANG_OVER || gang->state == GANG_RELEASED)
			clean_up(gang, now_ns);
	}
}

void gm_gang_ask_close(struct gm_gangs *gangs)
{
	struct gm_gang *gang;

	while ((gang = LIST_FIRST(&gangs->asked)) != NULL) {
		leave(gang);
		free_gang(gang);
	}
}
