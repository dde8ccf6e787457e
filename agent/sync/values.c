/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * values - what processes of a user share on all nodes: GET, CAS, LIST, WAIT.
 *
 * A value is a key of the store, below a folder of the user's.  Reads and
 * writes go to the store.  A watch says that keys change, for processes that
 * wait; of a key its revision is kept, and no value.
 *
 *   - The user is the one that the kernel names: no process reads another
 *     user's values, or writes them.
 *   - A user has VALUES_OF_UID values on all nodes, and all users together half
 *     of what a store may have.  Two nodes that write at once may exceed this
 *     by what is on its way.
 *   - A client may send no more than REQUESTS_OF_CLIENT requests before they
 *     are answered, a user REQUESTS_OF_UID.  The store has ASKED_OF_UID of a
 *     user's at a time, so that what a user asks for does not hold up others.
 */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/store/keys.h"
#include "agent/sync/client.h"
#include "agent/sync/ephemerals.h"
#include "agent/sync/parts.h"
#include "agent/sync/value_waits.h"

#define FOLDER             "cohorts/"

#define VALUES_OF_UID      2048u
#define VALUES_OF_ALL      (GM_STORE_KEYS / 2)
#define REQUESTS_OF_CLIENT 16u
#define REQUESTS_OF_UID    512u
#define ASKED_OF_UID       16u

struct gm_values {
	struct gm_sync *sync;
	struct gm_store_watch watch;
	struct gm_keys keys; /* of all users, as the watch says */
	struct gm_value_waits waits;
	struct gm_ephemerals ephemerals;
	TAILQ_HEAD(, request) requests;
};

/* A request that the store has not answered. */
struct request {
	TAILQ_ENTRY(request) entry;
	struct gm_values *values;
	struct gm_sync_client *client; /* NULL: gone */
	struct gm_control header;
	uid_t uid;
	bool is_asked;                  /* the store has it */
	struct gm_ephemeral *ephemeral; /* NULL: it writes none */
	struct gm_store_write write;
	struct gm_store_list list;
	size_t folder;     /* bytes of the key before the client's */
	uint64_t revision; /* of the value that was read */
	uint32_t n;        /* keys in @data */
	uint32_t more;
	int status; /* of the value itself */
	char why[GM_STORE_WHY_BYTES];
	char key[GM_STORE_KEY_BYTES]; /* or a prefix */
	size_t bytes;                 /* of @data */
	size_t room;
	char *data;
};

/* ---- requests ------------------------------------------------------------ */

static void drop(struct request *request)
{
	TAILQ_REMOVE(&request->values->requests, request, entry);
	free(request->data);
	free(request);
}

static void ask_next(struct gm_values *values, uid_t uid);

static void finish(struct request *request, const struct gm_sync_reply *reply)
{
	struct gm_values *values = request->values;
	uid_t uid = request->uid;

	if (request->client != NULL)
		gm_sync_client_reply(request->client, &request->header, reply);
	drop(request);
	ask_next(values, uid);
}

static void refuse(struct request *request, int status, const char *why)
{
	const struct gm_sync_reply reply = { .status = status, .why = why };

	finish(request, &reply);
}

static uint32_t count_requests(const struct gm_values *values, uid_t uid,
			       const struct gm_sync_client *client)
{
	const struct request *request;
	uint32_t n = 0;

	TAILQ_FOREACH(request, &values->requests, entry)
	n += request->uid == uid &&
	     (client == NULL || request->client == client);
	return n;
}

/* Write the store's key or prefix for a client's. */
static size_t put_folder(uid_t uid, const char *theirs, char *ret_key)
{
	int n = snprintf(ret_key, GM_STORE_KEY_BYTES, FOLDER "u%u/",
			 (unsigned int)uid);

	snprintf(ret_key + n, GM_STORE_KEY_BYTES - (size_t)n, "%.*s",
		 GPUMAP_VALUE_KEY_MAX, theirs);
	return (size_t)n;
}

/* Read the key or prefix of a request.  Returns its first byte after the
 * folder, or 0 after a refusal. */
static size_t read_key(struct gm_sync_client *client,
		       const struct gm_sync_message *message, bool is_prefix,
		       char ret_key[GM_STORE_KEY_BYTES])
{
	const char *theirs = message->body; /* the first field of each */
	size_t n = strnlen(theirs, GPUMAP_VALUE_KEY_MAX + 1);
	size_t folder = put_folder(client->uid, theirs, ret_key);

	if (n <= GPUMAP_VALUE_KEY_MAX &&
	    (is_prefix ? gm_store_check_prefix(ret_key)
		       : gm_store_check_key(ret_key)))
		return folder;
	gm_sync_client_refuse(client, message->header, -EINVAL,
			      "a key is parts of A-Z a-z 0-9 . _ - with '/' "
			      "between them, none empty or with a '.' first, "
			      "of 127 bytes at most");
	return 0;
}

/* Begin a request, with room for so much data when the store is asked.  Returns
 * NULL after a refusal. */
static struct request *begin(struct gm_sync_client *client,
			     const struct gm_sync_message *message,
			     bool is_prefix, size_t room)
{
	struct gm_values *values = client->sync->values;
	char key[GM_STORE_KEY_BYTES];
	size_t folder = read_key(client, message, is_prefix, key);
	struct request *request;

	if (folder == 0)
		return NULL;
	if (count_requests(values, client->uid, client) >= REQUESTS_OF_CLIENT ||
	    count_requests(values, client->uid, NULL) >= REQUESTS_OF_UID) {
		gm_sync_client_refuse(client, message->header, -EDQUOT,
				      "too many requests of this user wait for "
				      "the store: make fewer at a time");
		return NULL;
	}
	request = calloc(1, sizeof(*request));
	if (request == NULL) {
		gm_sync_client_refuse(client, message->header, -ENOMEM, NULL);
		return NULL;
	}
	request->values = values;
	request->client = client;
	request->header = *message->header;
	request->uid = client->uid;
	request->folder = folder;
	request->room = room;
	memcpy(request->key, key, sizeof(key));
	TAILQ_INSERT_TAIL(&values->requests, request, entry);
	return request;
}

/* In the words of gpumap/sync.h. */
static int status_of(const struct gm_store_result *result)
{
	switch (result->status) {
	case -EOWNERDEAD:
		return -EHOSTUNREACH;
	case -EPERM:
		return -EACCES;
	default:
		return result->status;
	}
}

/* ---- GET and LIST -------------------------------------------------------- */

static struct request *request_of(struct gm_store_list *list)
{
	return (void *)((char *)list - offsetof(struct request, list));
}

static void take_value(struct gm_store_list *list,
		       const struct gm_store_event *put)
{
	struct request *request = request_of(list);

	if (strcmp(put->key, request->key) != 0)
		return;
	if (put->value == NULL || put->bytes > request->room) {
		request->status = -EPROTO;
		snprintf(request->why, sizeof(request->why), "%s",
			 put->value == NULL ? put->why
					    : "it is longer than any value");
		return;
	}
	request->revision = put->revision;
	request->bytes = put->bytes;
	memcpy(request->data, put->value, put->bytes);
}

static void got(struct gm_store_list *list,
		const struct gm_store_result *result)
{
	struct request *request = request_of(list);
	const struct gm_sync_value_get_reply body = { request->revision };
	const struct gm_sync_reply reply = {
		.body = &body,
		.body_bytes = sizeof(body),
		.tail = request->data,
		.tail_bytes = (uint32_t)request->bytes,
	};

	if (result->status != 0)
		refuse(request, status_of(result), result->why);
	else if (request->status != 0)
		refuse(request, request->status, request->why);
	else
		finish(request, &reply);
}

static void take_end(struct gm_store_list *list,
		     const struct gm_store_event *put)
{
	struct request *request = request_of(list);
	const char *end = put->key + strlen(request->key);
	size_t n = strlen(end) + 1;

	if (n > request->room - request->bytes) {
		request->more++;
		return;
	}
	memcpy(request->data + request->bytes, end, n);
	request->bytes += n;
	request->n++;
}

static void listed(struct gm_store_list *list,
		   const struct gm_store_result *result)
{
	struct request *request = request_of(list);
	const struct gm_sync_value_list_reply body = { request->n,
						       request->more };
	const struct gm_sync_reply reply = {
		.body = &body,
		.body_bytes = sizeof(body),
		.tail = request->data,
		.tail_bytes = (uint32_t)request->bytes,
	};

	if (result->status != 0)
		refuse(request, status_of(result), result->why);
	else
		finish(request, &reply);
}

static void value_get(struct gm_sync_client *client,
		      const struct gm_sync_message *message)
{
	struct request *request =
		begin(client, message, false, GPUMAP_VALUE_BYTES_MAX);

	if (request == NULL)
		return;
	request->list.item = take_value;
	request->list.done = got;
	request->list.one = true;
	ask_next(request->values, request->uid);
}

static void value_list(struct gm_sync_client *client,
		       const struct gm_sync_message *message)
{
	struct request *request =
		begin(client, message, true, GM_SYNC_ENDS_BYTES);

	if (request == NULL)
		return;
	request->list.item = take_end;
	request->list.done = listed;
	request->list.keys = true;
	ask_next(request->values, request->uid);
}

/* ---- CAS ----------------------------------------------------------------- */

static void written(struct gm_store_write *write,
		    const struct gm_store_result *result)
{
	struct request *request =
		(void *)((char *)write - offsetof(struct request, write));
	struct gm_values *values = request->values;
	const struct gm_sync_value_cas_reply body = {
		write->value != NULL || result->status != 0 ? result->revision
							    : 0
	};
	struct gm_sync_reply reply = { .status = status_of(result),
				       .why = result->why };

	if (result->status == 0 && write->expected != 0)
		gm_ephemerals_replaced(&values->ephemerals, write->key,
				       write->expected);
	if (request->ephemeral != NULL)
		reply.status = gm_ephemerals_end(
			request->ephemeral, reply.status, result->revision);
	if (reply.status != result->status && result->status == 0)
		reply.why = "this node's lease was lost meanwhile: get the "
			    "value to know";
	if (reply.status == 0 || reply.status == -ESTALE) {
		reply.body = &body;
		reply.body_bytes = sizeof(body);
	}
	finish(request, &reply);
}

/* How many keys the user has. */
static size_t count_values(const struct gm_values *values, uid_t uid)
{
	char folder[GM_STORE_KEY_BYTES];
	size_t n = 0;

	put_folder(uid, "", folder);
	for (size_t i = 0; i < values->keys.n; i++)
		n += gm_keys_begins(values->keys.list[i]->key, folder);
	return n;
}

/* May the client write this?  Returns 0, or a status and its reason. */
static int check_cas(const struct gm_sync_client *client,
		     const struct gm_sync_message *message,
		     const char **ret_why)
{
	const struct gm_sync_value_cas *body = message->body;
	const struct gm_values *values = client->sync->values;
	bool is_ephemeral = body->flags == GPUMAP_VALUE_EPHEMERAL;

	if ((body->flags & ~GPUMAP_VALUE_EPHEMERAL) != 0 || body->delete > 1 ||
	    (body->delete &&(message->tail_bytes != 0 || is_ephemeral))) {
		*ret_why = "a flag is not known, or a deletion has a value or "
			   "is ephemeral";
		return -EINVAL;
	}
	if (message->tail_bytes > GPUMAP_VALUE_BYTES_MAX) {
		*ret_why = "a value has 16384 bytes at most";
		return -E2BIG;
	}
	if (is_ephemeral && !client->sync->lease->held) {
		*ret_why = "this node's lease is not held: see the log of "
			   "gpumap-sync";
		return -EHOSTUNREACH;
	}
	if ((body->expected == 0 &&
	     !body->delete &&(count_values(values, client->uid) >=
				      VALUES_OF_UID ||
			      values->keys.n >= VALUES_OF_ALL)) ||
	    (is_ephemeral &&
	     gm_ephemerals_count(&values->ephemerals, client->uid) >=
		     VALUES_OF_UID)) {
		*ret_why = "this user, or all together, have as many values "
			   "as there may be: delete some";
		return -EDQUOT;
	}
	return 0;
}

static void value_cas(struct gm_sync_client *client,
		      const struct gm_sync_message *message)
{
	const struct gm_sync_value_cas *body = message->body;
	const char *why = NULL;
	struct request *request;
	int ret = check_cas(client, message, &why);

	if (ret != 0) {
		gm_sync_client_refuse(client, message->header, ret, why);
		return;
	}
	request = begin(client, message, false, message->tail_bytes);
	if (request == NULL)
		return;
	request->data = malloc(request->room + 1);
	if (request->data == NULL) {
		refuse(request, -ENOMEM, NULL);
		return;
	}
	memcpy(request->data, message->tail, message->tail_bytes);
	request->write = (struct gm_store_write){
		.key = request->key,
		.value = body->delete ? NULL : request->data,
		.bytes = message->tail_bytes,
		.expected = body->expected,
		.done = written,
	};
	if (body->flags == GPUMAP_VALUE_EPHEMERAL) {
		request->write.lease = client->sync->lease;
		request->ephemeral = gm_ephemerals_begin(
			&request->values->ephemerals, client, &request->write);
		if (request->ephemeral == NULL) {
			refuse(request, -ENOMEM, NULL);
			return;
		}
	}
	ask_next(request->values, request->uid);
}

/* ---- asking the store ---------------------------------------------------- */

/* Hand a request to the store.  Returns 0 or a negative errno. */
static int ask(struct request *request)
{
	struct gm_store *store = request->values->sync->store;

	request->is_asked = true;
	if (request->write.done != NULL)
		return gm_store_cas(store, &request->write);
	request->list.prefix = request->key;
	request->data = malloc(request->room);
	return request->data != NULL ? gm_store_list(store, &request->list)
				     : -ENOMEM;
}

/* The user's next request that waits; NULL: there is none, or the store has as
 * many as it may. */
static struct request *find_next(const struct gm_values *values, uid_t uid)
{
	struct request *request, *next = NULL;
	uint32_t n_asked = 0;

	TAILQ_FOREACH(request, &values->requests, entry)
	{
		if (request->uid != uid)
			continue;
		n_asked += request->is_asked;
		if (next == NULL && !request->is_asked)
			next = request;
	}
	return n_asked < ASKED_OF_UID ? next : NULL;
}

static void ask_next(struct gm_values *values, uid_t uid)
{
	struct request *request;

	while ((request = find_next(values, uid)) != NULL) {
		int ret = ask(request);

		if (ret == 0)
			continue;
		if (request->ephemeral != NULL)
			gm_ephemerals_end(request->ephemeral, ret, 0);
		gm_sync_client_refuse(request->client, &request->header, ret,
				      NULL);
		drop(request);
	}
}

/* One that the store has goes on without its client. */
static void leave(struct request *request)
{
	request->client = NULL;
	if (request->is_asked)
		return;
	if (request->ephemeral != NULL)
		gm_ephemerals_end(request->ephemeral, -ECANCELED, 0);
	drop(request);
}

/* ---- WAIT, and the watch ------------------------------------------------- */

static void value_wait(struct gm_sync_client *client,
		       const struct gm_sync_message *message)
{
	char prefix[GM_STORE_KEY_BYTES];

	if (read_key(client, message, true, prefix) != 0)
		gm_value_waits_add(&client->sync->values->waits, client,
				   message, prefix);
}

/* A key that the table has no room for is one of too many; those that wait hear
 * of it all the same. */
static void saw_put(struct gm_values *values, const struct gm_store_event *put)
{
	struct gm_key *key = gm_keys_add(&values->keys, put->key);

	if (key != NULL && key->revision == put->revision)
		return; /* listed again */
	if (key != NULL)
		key->revision = put->revision;
	gm_ephemerals_saw(&values->ephemerals, put);
	gm_value_waits_changed(&values->waits, put->key);
}

static void saw_delete(struct gm_values *values, const char *key)
{
	struct gm_keys *keys = &values->keys;

	for (size_t i = 0; i < keys->n; i++)
		if (strcmp(keys->list[i]->key, key) == 0) {
			gm_keys_remove(keys, i);
			break;
		}
	gm_value_waits_changed(&values->waits, key);
}

static void saw(struct gm_store_watch *watch,
		const struct gm_store_event *event)
{
	struct gm_values *values =
		(void *)((char *)watch - offsetof(struct gm_values, watch));

	if (event->kind == GM_STORE_PUT)
		saw_put(values, event);
	else if (event->kind == GM_STORE_DELETE)
		saw_delete(values, event->key);
}

/* ---- the part ------------------------------------------------------------ */

static void close_values(struct gm_sync *sync)
{
	struct gm_values *values = sync->values;

	if (values == NULL)
		return;
	gm_value_waits_drop(&values->waits, NULL);
	gm_ephemerals_free(&values->ephemerals);
	gm_keys_free(&values->keys);
	free(values);
	sync->values = NULL;
}

static int open_values(struct gm_sync *sync)
{
	struct gm_values *values = calloc(1, sizeof(*values));
	int ret;

	if (values == NULL)
		return -ENOMEM;
	values->sync = sync;
	values->keys.entry_bytes = sizeof(struct gm_key);
	values->watch =
		(struct gm_store_watch){ .prefix = FOLDER, .event = saw };
	TAILQ_INIT(&values->requests);
	gm_ephemerals_init(&values->ephemerals, sync);
	/* Not 0, and room to grow. */
	gm_value_waits_init(&values->waits,
			    strtoull(sync->instance, NULL, 16) / 2 + 1);
	sync->values = values;
	ret = gm_store_watch(sync->store, &values->watch);
	if (ret != 0)
		close_values(sync);
	return ret;
}

static void client_gone(struct gm_sync_client *client)
{
	struct gm_values *values = client->sync->values;
	struct request *request, *next;

	if (values == NULL)
		return; /* it never began */
	for (request = TAILQ_FIRST(&values->requests); request != NULL;
	     request = next) {
		next = TAILQ_NEXT(request, entry);
		if (request->client == client)
			leave(request);
	}
	gm_value_waits_drop(&values->waits, client);
	gm_ephemerals_client_gone(&values->ephemerals, client);
}

static void tell_lost(struct gm_sync_client *client)
{
	gm_sync_client_tell(client, -ESTALE,
			    "this node was cut off from the store, and its "
			    "lease was lost: ephemeral values and ranks have "
			    "ended; write them, or join, again");
}

/* Values that the store does not have yet would be under another lease. */
static void refuse_waiting(struct gm_values *values)
{
	struct request *request, *next;

	for (request = TAILQ_FIRST(&values->requests); request != NULL;
	     request = next) {
		next = TAILQ_NEXT(request, entry);
		if (request->is_asked || request->ephemeral == NULL)
			continue;
		gm_ephemerals_end(request->ephemeral, -EHOSTUNREACH, 0);
		gm_sync_client_refuse(request->client, &request->header,
				      -EHOSTUNREACH,
				      "this node's lease was lost: see the log "
				      "of gpumap-sync");
		drop(request);
	}
}

static void lease_changed(struct gm_sync *sync)
{
	if (sync->lease->held || sync->values == NULL)
		return;
	refuse_waiting(sync->values);
	gm_ephemerals_lost(&sync->values->ephemerals, tell_lost);
}

static uint64_t due(const struct gm_sync *sync)
{
	uint64_t waits_ns = gm_value_waits_due(&sync->values->waits);
	uint64_t ephemerals_ns = gm_ephemerals_due(&sync->values->ephemerals);

	return waits_ns < ephemerals_ns ? waits_ns : ephemerals_ns;
}

static void tick(struct gm_sync *sync, uint64_t now_ns)
{
	gm_value_waits_tick(&sync->values->waits, now_ns);
	gm_ephemerals_tick(&sync->values->ephemerals, now_ns);
}

static const struct gm_sync_request requests[] = {
	{ GM_SYNC_VALUE_GET, sizeof(struct gm_sync_value_get), false,
	  value_get },
	{ GM_SYNC_VALUE_CAS, sizeof(struct gm_sync_value_cas), true,
	  value_cas },
	{ GM_SYNC_VALUE_WAIT, sizeof(struct gm_sync_value_wait), false,
	  value_wait },
	{ GM_SYNC_VALUE_LIST, sizeof(struct gm_sync_value_list), false,
	  value_list },
};

const struct gm_sync_part gm_values_part = {
	.open = open_values,
	.close = close_values,
	.requests = requests,
	.n_requests = sizeof(requests) / sizeof(requests[0]),
	.client_gone = client_gone,
	.lease = lease_changed,
	.due = due,
	.tick = tick,
};
