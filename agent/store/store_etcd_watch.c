/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/store/store_etcd.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/store/store_json.h"

#define PROBE_NS (2000 * GM_STORE_NS_MS)

enum watch_state {
	WAITS,  /* until @due_ns */
	LISTS,  /* @list is under way */
	ASKS,   /* @stream is, and etcd has not answered; until @due_ns */
	LISTENS /* it has */
};

struct gm_store_etcd_watch {
	struct gm_store_call stream; /* the first: a call is its watch */
	struct gm_store_call probe;
	struct gm_store_etcd_list list;
	struct gm_store_etcd_watch *next;
	struct gm_store_etcd *etcd;
	struct gm_store_watch *watch;
	struct gm_keys said;
	uint64_t n_lists;
	uint64_t due_ns;
	uint32_t state; /* enum watch_state */
	unsigned int n_failures;
	bool is_cut; /* and that was said */
	bool probes;
};

static struct gm_store_etcd_watch *
watch_of_list(struct gm_store_etcd_list *list)
{
	return list->data;
}

/* ---- events -------------------------------------------------------------- */

static void say(struct gm_store_etcd_watch *w,
		const struct gm_store_event *event)
{
	w->watch->event(w->watch, event);
}

static void say_kind(struct gm_store_etcd_watch *w, uint32_t kind)
{
	char why[GM_STORE_WHY_BYTES];
	struct gm_store_event event = { .kind = kind, .why = why };

	memcpy(why, w->etcd->store.why, sizeof(why));
	say(w, &event);
}

static void say_put(struct gm_store_etcd_watch *w,
		    const struct gm_store_event *put)
{
	struct gm_key *said = gm_keys_add(&w->said, put->key);

	if (said == NULL)
		return;
	said->mark = w->n_lists;
	if (said->revision == put->revision)
		return;
	said->revision = put->revision;
	say(w, put);
}

static void say_deleted(struct gm_store_etcd_watch *w, size_t at)
{
	struct gm_key *said = w->said.list[at];
	struct gm_store_event event = { .kind = GM_STORE_DELETE,
					.key = said->key,
					.revision = said->revision };

	say(w, &event);
	gm_keys_remove(&w->said, at);
}

/* The connection is gone, or the list.  List anew, after a pause. */
static void begin_again(struct gm_store_etcd_watch *w)
{
	w->state = WAITS;
	w->due_ns = gm_store_now() + gm_store_http_pause(w->n_failures++);
	if (!w->is_cut) {
		w->is_cut = true;
		say_kind(w, GM_STORE_CUT);
	}
}

/* ---- listening ----------------------------------------------------------- */

static bool take_event(struct gm_store_etcd_watch *w, const json_t *event)
{
	const json_t *kv = json_object_get(event, "kv");
	const char *type = json_string_value(json_object_get(event, "type"));
	struct gm_store_event put;

	if (!gm_store_etcd_read(w->etcd, kv, &put))
		return true; /* not a key of ours */
	if (type == NULL || strcmp(type, "PUT") == 0) {
		say_put(w, &put);
		return gm_keys_find(&w->said, put.key) != NULL;
	}
	if (strcmp(type, "DELETE") != 0)
		return false;
	for (size_t i = 0; i < w->said.n; i++) {
		if (strcmp(w->said.list[i]->key, put.key) == 0) {
			say_deleted(w, i);
			break;
		}
	}
	return true;
}

/* A line of the watch.  Returns false to begin again. */
static bool on_line(struct gm_store_call *call, const json_t *value)
{
	struct gm_store_etcd_watch *w =
		(struct gm_store_etcd_watch *)(void *)call;
	const json_t *result = json_object_get(value, "result");
	const json_t *header = json_object_get(result, "header"), *event;
	struct gm_store *store = &w->etcd->store;
	uint64_t cluster = gm_store_json_number(header, "cluster_id");
	size_t i;

	if (json_is_true(json_object_get(result, "canceled"))) {
		gm_store_fail(store, 0,
			      gm_store_json_number(result,
						   "compact_revision") != 0
				      ? "etcd has compacted what was missed"
				      : "etcd has cancelled the watch");
		return false;
	}
	if (result == NULL || cluster != w->list.cluster) {
		gm_store_fail(store, 0, "it is another cluster");
		return false;
	}
	if (json_is_true(json_object_get(result, "created")) &&
	    gm_store_json_number(header, "revision") < w->list.revision) {
		gm_store_fail(store, 0, "etcd has lost the last revisions");
		return false;
	}
	if (w->state == ASKS) {
		w->state = LISTENS;
		w->is_cut = false;
		say_kind(w, GM_STORE_RESYNC);
	}
	w->n_failures = 0;
	json_array_foreach(json_object_get(result, "events"), i, event) if (
		!take_event(
			w,
			event)) return gm_store_fail(store, 0,
						     "an event makes no sense");
	return true;
}

static void on_stream_end(struct gm_store_call *call, int status,
			  const json_t *answer)
{
	struct gm_store_etcd_watch *w =
		(struct gm_store_etcd_watch *)(void *)call;

	begin_again(w);
}

static void listen_after_list(struct gm_store_etcd_watch *w)
{
	json_t *body = json_pack("{s:{s:o, s:o, s:o}}", "create_request", "key",
				 gm_store_etcd_key(w->etcd, w->watch->prefix),
				 "range_end",
				 gm_store_etcd_end(w->etcd, w->watch->prefix),
				 "start_revision",
				 gm_store_json_text(w->list.revision + 1));

	w->state = ASKS;
	w->due_ns = gm_store_now() + w->etcd->http.timeout_ms * GM_STORE_NS_MS;
	w->stream = (struct gm_store_call){ .path = "/v3/watch",
					    .line = on_line,
					    .done = on_stream_end };
	gm_store_http_call(&w->etcd->http, &w->stream, body, 0);
}

/* ---- listing ------------------------------------------------------------- */

static void on_item(struct gm_store_etcd_list *list,
		    const struct gm_store_event *put)
{
	say_put(watch_of_list(list), put);
}

static void on_list_end(struct gm_store_etcd_list *list, int status)
{
	struct gm_store_etcd_watch *w = watch_of_list(list);

	if (status != 0) {
		begin_again(w);
		return;
	}
	for (size_t i = w->said.n; i-- > 0;)
		if (w->said.list[i]->mark != w->n_lists)
			say_deleted(w, i);
	listen_after_list(w);
}

/* The list was answered, and the watch is not.  Probes would be. */
static void give_up(struct gm_store_etcd_watch *w)
{
	gm_store_http_leave(&w->stream);
	gm_store_http_drop(&w->stream);
	gm_store_fail(&w->etcd->store, 0,
		      "etcd does not answer a watch: no proxy between may keep "
		      "answers back");
	begin_again(w);
}

static void begin_list(struct gm_store_etcd_watch *w)
{
	w->state = LISTS;
	w->n_lists++;
	w->list.etcd = w->etcd;
	w->list.prefix = w->watch->prefix;
	w->list.item = on_item;
	w->list.end = on_list_end;
	w->list.data = w;
	gm_store_etcd_list_begin(&w->list);
}

/* ---- probing ------------------------------------------------------------- */

/* A failure has ended the watch: the endpoint was left. */
static void on_probe(struct gm_store_call *call, int status,
		     const json_t *answer)
{
	struct gm_store_etcd_watch *w =
		(struct gm_store_etcd_watch
			 *)(void *)((char *)call -
				    offsetof(struct gm_store_etcd_watch,
					     probe));

	w->probes = false;
}

static void begin_probe(struct gm_store_etcd_watch *w)
{
	json_t *body = json_pack("{s:o, s:o, s:b}", "key",
				 gm_store_etcd_key(w->etcd, w->watch->prefix),
				 "range_end",
				 gm_store_etcd_end(w->etcd, w->watch->prefix),
				 "count_only", 1);

	w->probes = true;
	w->probe = (struct gm_store_call){ .path = "/v3/kv/range",
					   .done = on_probe };
	gm_store_http_call(&w->etcd->http, &w->probe, body, 0);
}

/* ---- the watches --------------------------------------------------------- */

int gm_store_etcd_watch_add(struct gm_store *store,
			    struct gm_store_watch *watch)
{
	struct gm_store_etcd *etcd = (struct gm_store_etcd *)(void *)store;
	struct gm_store_etcd_watch *w = calloc(1, sizeof(*w));

	if (w == NULL)
		return -ENOMEM;
	w->etcd = etcd;
	w->watch = watch;
	w->said.entry_bytes = sizeof(struct gm_key);
	w->next = etcd->watches;
	etcd->watches = w;
	watch->own = w;
	return 0;
}

/* When there is something to do, GM_STORE_NEVER while a call is under way. */
static uint64_t find_due(const struct gm_store_etcd_watch *w)
{
	if (w->state == WAITS || w->state == ASKS)
		return w->due_ns;
	return w->state == LISTENS && !w->probes
		       ? w->etcd->http.good_ns + PROBE_NS
		       : GM_STORE_NEVER;
}

void gm_store_etcd_watch_run(struct gm_store_etcd *etcd)
{
	uint64_t now_ns = gm_store_now();

	for (struct gm_store_etcd_watch *w = etcd->watches; w != NULL;
	     w = w->next) {
		if (now_ns < find_due(w))
			continue;
		if (w->state == WAITS)
			begin_list(w);
		else if (w->state == ASKS)
			give_up(w);
		else
			begin_probe(w);
	}
}

uint64_t gm_store_etcd_watch_due(const struct gm_store_etcd *etcd)
{
	uint64_t due_ns = GM_STORE_NEVER;

	for (const struct gm_store_etcd_watch *w = etcd->watches; w != NULL;
	     w = w->next)
		if (find_due(w) < due_ns)
			due_ns = find_due(w);
	return due_ns;
}

void gm_store_etcd_watch_free(struct gm_store_etcd *etcd)
{
	while (etcd->watches != NULL) {
		struct gm_store_etcd_watch *w = etcd->watches;

		etcd->watches = w->next;
		gm_keys_free(&w->said);
		free(w->list.from);
		free(w);
	}
}
