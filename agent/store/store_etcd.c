/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/store/store_etcd.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/store/store_json.h"

#define PAGE     64u
#define KEYS     1024u                  /* of a page without values */
#define CLOSE_NS (500 * GM_STORE_NS_MS) /* to give leases back */
#define NS_S     UINT64_C(1000000000)

struct gm_store_etcd_lease {
	struct gm_store_call call; /* the first: a call is its lease */
	struct gm_store_etcd_lease *next;
	struct gm_store_etcd *etcd;
	struct gm_store_lease *lease;
	uint64_t id;       /* 0: not held */
	uint64_t ttl_ns;   /* as etcd has granted it */
	uint64_t since_ns; /* before the last call that has renewed it */
	uint64_t asked_ns; /* before the call under way */
	uint64_t due_ns;   /* the next call; GM_STORE_NEVER: one is under way */
	unsigned int n_failures;
};

/* A put or cas under way. */
struct etcd_write {
	struct gm_store_call call; /* the first: a call is its write */
	struct gm_store_etcd *etcd;
	struct gm_store_link *request;
};

static struct gm_store_etcd *etcd_of(struct gm_store *store)
{
	return (struct gm_store_etcd *)(void *)store;
}

/* ---- keys and values ----------------------------------------------------- */

/* The root and the key, with the last byte one higher for @is_end. */
static json_t *full_key(const struct gm_store_etcd *etcd, const char *key,
			bool is_end)
{
	size_t n = etcd->root_bytes + strlen(key);
	char *full = malloc(n + 1);
	json_t *string;

	if (full == NULL)
		return NULL;
	snprintf(full, n + 1, "%s%s", etcd->root, key);
	if (is_end)
		full[n - 1]++;
	string = gm_store_json_bytes(full, n);
	free(full);
	return string;
}

json_t *gm_store_etcd_key(const struct gm_store_etcd *etcd, const char *key)
{
	return full_key(etcd, key, false);
}

json_t *gm_store_etcd_end(const struct gm_store_etcd *etcd, const char *prefix)
{
	return full_key(etcd, prefix, true);
}

bool gm_store_etcd_read(const struct gm_store_etcd *etcd, const json_t *kv,
			struct gm_store_event *ret_put)
{
	static char key[1024], value[GM_STORE_VALUE_BYTES];
	const char *key_text = json_string_value(json_object_get(kv, "key"));
	const char *text = json_string_value(json_object_get(kv, "value"));
	int n = key_text != NULL
			? gm_store_json_decode(key_text, sizeof(key) - 1, key)
			: -EPROTO;

	if (n < 0 || (size_t)n <= etcd->root_bytes)
		return false;
	key[n] = '\0';
	*ret_put = (struct gm_store_event){
		.kind = GM_STORE_PUT,
		.key = key + etcd->root_bytes,
		.revision = gm_store_json_number(kv, "mod_revision"),
		.lease = gm_store_json_number(kv, "lease"),
		.why = ""
	};
	if (strlen(key) != (size_t)n ||
	    memcmp(key, etcd->root, etcd->root_bytes) != 0 ||
	    !gm_store_check_key(ret_put->key) || ret_put->revision == 0)
		return false;
	n = gm_store_json_decode(text != NULL ? text : "", sizeof(value),
				 value);
	if (n < 0) {
		ret_put->why = "the value has more than 16384 bytes";
		return true;
	}
	ret_put->value = value;
	ret_put->bytes = (size_t)n;
	return true;
}

/* ---- lists --------------------------------------------------------------- */

static void ask_for_page(struct gm_store_etcd_list *list);

/* The key behind the last of a page: the same with a byte 0. */
static char *find_next(const json_t *kvs)
{
	const json_t *last = json_array_get(kvs, json_array_size(kvs) - 1);
	const char *text = json_string_value(json_object_get(last, "key"));
	size_t most = text != NULL ? strlen(text) : 0; /* as others name keys */
	char *key = malloc(most + 1), *next = NULL;
	int n = text != NULL && key != NULL
			? gm_store_json_decode(text, most, key)
			: -EPROTO;

	if (n >= 0)
		next = malloc(GM_STORE_JSON_BASE64((size_t)n + 1));
	if (next != NULL) {
		key[n] = '\0';
		gm_store_json_encode(key, (size_t)n + 1, next);
	}
	free(key);
	return next;
}

static int take_page(struct gm_store_etcd_list *list, const json_t *answer)
{
	const json_t *header = json_object_get(answer, "header");
	const json_t *kvs = json_object_get(answer, "kvs"), *kv;
	struct gm_store *store = &list->etcd->store;
	struct gm_store_event put;
	size_t i;

	if (list->from == NULL) {
		list->revision = gm_store_json_number(header, "revision");
		list->cluster = gm_store_json_number(header, "cluster_id");
	}
	if (list->revision == 0 || json_array_size(kvs) > list->limit)
		return gm_store_fail(store, -EPROTO, "no answer to a range");
	json_array_foreach(kvs, i, kv)
	{
		if (++list->n_keys > GM_STORE_KEYS)
			return gm_store_fail(store, -E2BIG,
					     "there are more than %u keys",
					     GM_STORE_KEYS);
		if (gm_store_etcd_read(list->etcd, kv, &put))
			list->item(list, &put);
	}
	free(list->from);
	list->from = NULL;
	if (!json_is_true(json_object_get(answer, "more")))
		return 0;
	list->from = i > 0 ? find_next(kvs) : NULL;
	if (list->from == NULL)
		return gm_store_fail(store, -EPROTO, "a page without an end");
	return 1;
}

static void on_page(struct gm_store_call *call, int status,
		    const json_t *answer)
{
	struct gm_store_etcd_list *list =
		(struct gm_store_etcd_list *)(void *)call;

	if (status == -E2BIG && list->limit > 1) {
		list->limit /= 4;
		ask_for_page(list);
		return;
	}
	if (status == 0)
		status = take_page(list, answer);
	if (status > 0)
		ask_for_page(list);
	else
		list->end(list, status);
}

static void ask_for_page(struct gm_store_etcd_list *list)
{
	json_t *from = list->from != NULL
			       ? json_string(list->from)
			       : gm_store_etcd_key(list->etcd, list->prefix);
	json_t *body = json_pack("{s:o, s:o, s:b}", "key", from, "limit",
				 gm_store_json_text(list->limit), "keys_only",
				 list->keys);

	if (!list->one && body != NULL)
		json_object_set_new(body, "range_end",
				    gm_store_etcd_end(list->etcd,
						      list->prefix));
	if (list->from != NULL && body != NULL)
		json_object_set_new(body, "revision",
				    gm_store_json_text(list->revision));
	list->call = (struct gm_store_call){ .path = "/v3/kv/range",
					     .again = true,
					     .done = on_page };
	gm_store_http_call(&list->etcd->http, &list->call, body, 0);
}

void gm_store_etcd_list_begin(struct gm_store_etcd_list *list)
{
	list->limit = list->keys ? KEYS : PAGE;
	list->n_keys = 0;
	free(list->from);
	list->from = NULL;
	ask_for_page(list);
}

void gm_store_etcd_list_free(struct gm_store_etcd_list *list)
{
	if (list == NULL)
		return;
	free(list->from);
	free(list);
}

static void say_item(struct gm_store_etcd_list *list,
		     const struct gm_store_event *put)
{
	struct gm_store_list *user = GM_STORE_LIST_OF(list->data);
	struct gm_store_event event = *put;

	if (user->keys)
		event.value = NULL;
	user->item(user, &event);
}

static void end_list(struct gm_store_etcd_list *list, int status)
{
	gm_store_finish(&list->etcd->store, list->data, status, 0);
	gm_store_etcd_list_free(list);
}

static bool begin_list(struct gm_store_etcd *etcd,
		       struct gm_store_link *request)
{
	struct gm_store_etcd_list *list = calloc(1, sizeof(*list));

	if (list == NULL)
		return false;
	list->etcd = etcd;
	list->prefix = GM_STORE_LIST_OF(request)->prefix;
	list->one = GM_STORE_LIST_OF(request)->one;
	list->keys = GM_STORE_LIST_OF(request)->keys;
	list->item = say_item;
	list->end = end_list;
	list->data = request;
	gm_store_etcd_list_begin(list);
	return true;
}

/* ---- writes -------------------------------------------------------------- */

static void finish_write(struct etcd_write *w, int status, uint64_t revision)
{
	gm_store_finish(&w->etcd->store, w->request, status, revision);
	free(w);
}

static void on_put(struct gm_store_call *call, int status, const json_t *answer)
{
	struct etcd_write *w = (struct etcd_write *)(void *)call;
	const struct gm_store_write *write = GM_STORE_WRITE_OF(w->request);
	uint64_t revision = 0;

	if (status == 0 && write->value != NULL) {
		revision = gm_store_json_number(
			json_object_get(answer, "header"), "revision");
		if (revision == 0)
			status = gm_store_fail(&w->etcd->store, -ETIMEDOUT,
					       "no answer to a put");
	}
	finish_write(w, status, revision);
}

static void on_txn(struct gm_store_call *call, int status, const json_t *answer)
{
	struct etcd_write *w = (struct etcd_write *)(void *)call;
	const struct gm_store_write *write = GM_STORE_WRITE_OF(w->request);
	const json_t *first;
	uint64_t revision;

	if (status != 0) {
		finish_write(w, status, 0);
		return;
	}
	revision = gm_store_json_number(json_object_get(answer, "header"),
					"revision");
	if (json_is_true(json_object_get(answer, "succeeded"))) {
		finish_write(w, 0, write->value != NULL ? revision : 0);
		return;
	}
	first = json_object_get(
		json_array_get(json_object_get(answer, "responses"), 0),
		"response_range");
	if (first == NULL || revision == 0) {
		gm_store_fail(&w->etcd->store, 0, "no answer to a txn");
		finish_write(w, -ETIMEDOUT, 0);
		return;
	}
	gm_store_fail(&w->etcd->store, 0, "%s has another revision",
		      write->key);
	finish_write(w, -ESTALE,
		     gm_store_json_number(
			     json_array_get(json_object_get(first, "kvs"), 0),
			     "mod_revision"));
}

/* The request of a put or a deletion. */
static json_t *pack_write(const struct gm_store_etcd *etcd,
			  const struct gm_store_write *write, uint64_t lease)
{
	json_t *key = gm_store_etcd_key(etcd, write->key), *body;

	if (write->value == NULL)
		return json_pack("{s:o}", "key", key);
	body = json_pack("{s:o, s:o}", "key", key, "value",
			 gm_store_json_bytes(write->value, write->bytes));
	if (lease != 0 && body != NULL)
		json_object_set_new(body, "lease", gm_store_json_text(lease));
	return body;
}

/* The same if the key has the expected revision; else what it has. */
static json_t *pack_txn(const struct gm_store_etcd *etcd,
			const struct gm_store_write *write, uint64_t lease)
{
	return json_pack(
		"{s:[{s:o, s:s, s:s, s:o}], s:[{s:o}], s:[{s:{s:o}}]}",
		"compare", "key", gm_store_etcd_key(etcd, write->key), "target",
		"MOD", "result", "EQUAL", "mod_revision",
		gm_store_json_text(write->expected), "success",
		write->value != NULL ? "request_put" : "request_delete_range",
		pack_write(etcd, write, lease), "failure", "request_range",
		"key", gm_store_etcd_key(etcd, write->key));
}

/* The ID of the lease of a write, 0 without one.  Returns false: not held. */
static bool find_lease(const struct gm_store_lease *lease, uint64_t *ret_id)
{
	const struct gm_store_etcd_lease *l = lease != NULL ? lease->own : NULL;

	*ret_id = l != NULL ? l->id : 0;
	return lease == NULL || (l != NULL && l->id != 0 &&
				 gm_store_now() - l->since_ns < l->ttl_ns);
}

static bool begin_write(struct gm_store_etcd *etcd,
			struct gm_store_link *request, uint64_t lease)
{
	const struct gm_store_write *write = GM_STORE_WRITE_OF(request);
	struct etcd_write *w = calloc(1, sizeof(*w));
	bool is_cas = request->kind == GM_STORE_REQUEST_CAS;

	if (w == NULL)
		return false;
	w->etcd = etcd;
	w->request = request;
	w->call =
		(struct gm_store_call){ .path = is_cas ? "/v3/kv/txn"
						: write->value != NULL
							? "/v3/kv/put"
							: "/v3/kv/deleterange",
					.once = is_cas,
					.done = is_cas ? on_txn : on_put };
	gm_store_http_call(&etcd->http, &w->call,
			   is_cas ? pack_txn(etcd, write, lease)
				  : pack_write(etcd, write, lease),
			   0);
	return true;
}

static void take_requests(struct gm_store_etcd *etcd)
{
	struct gm_store_link *request;

	while ((request = gm_store_take(&etcd->store)) != NULL) {
		bool is_list = request->kind == GM_STORE_REQUEST_LIST;
		uint64_t lease = 0;

		if (!is_list &&
		    !find_lease(GM_STORE_WRITE_OF(request)->lease, &lease)) {
			gm_store_fail(&etcd->store, 0, "the lease is not held");
			gm_store_finish(&etcd->store, request, -EOWNERDEAD, 0);
		} else if (is_list ? !begin_list(etcd, request)
				   : !begin_write(etcd, request, lease)) {
			gm_store_fail(&etcd->store, 0, "out of memory");
			gm_store_finish(&etcd->store, request, -ENOMEM, 0);
		}
	}
}

/* ---- leases -------------------------------------------------------------- */

static void lose(struct gm_store_etcd_lease *l)
{
	l->id = 0;
	gm_store_hold(&l->etcd->store, l->lease, 0);
}

/* How long a lease is that an answer grants or renews; 0: it has ended. */
static uint64_t granted_ns(const json_t *answer)
{
	uint64_t seconds = gm_store_json_number(answer, "TTL");

	return seconds <= GM_STORE_LEASE_MAX / 1000 ? seconds * NS_S : 0;
}

static void on_grant(struct gm_store_call *call, int status,
		     const json_t *answer)
{
	struct gm_store_etcd_lease *l =
		(struct gm_store_etcd_lease *)(void *)call;
	uint64_t ttl_ns = granted_ns(answer);

	l->due_ns = gm_store_now() + gm_store_http_pause(l->n_failures++);
	if (status != 0 || ttl_ns == 0 ||
	    gm_store_now() - l->asked_ns >= ttl_ns)
		return;
	l->id = gm_store_json_number(answer, "ID");
	if (l->id == 0)
		return;
	l->n_failures = 0;
	l->ttl_ns = ttl_ns;
	l->since_ns = l->asked_ns;
	l->due_ns = l->since_ns + ttl_ns / 3;
	gm_store_hold(&l->etcd->store, l->lease, l->id);
}

static void on_renewal(struct gm_store_call *call, int status,
		       const json_t *answer)
{
	struct gm_store_etcd_lease *l =
		(struct gm_store_etcd_lease *)(void *)call;
	uint64_t ttl_ns = granted_ns(json_object_get(answer, "result"));

	l->due_ns = gm_store_now();
	if (l->id == 0)
		return; /* it was lost meanwhile */
	if (status == -EOWNERDEAD || (status == 0 && ttl_ns == 0)) {
		gm_store_fail(&l->etcd->store, 0, "etcd has ended the lease");
		lose(l);
	} else if (status == 0) {
		l->since_ns = l->asked_ns;
		l->ttl_ns = ttl_ns;
		l->due_ns = l->since_ns + ttl_ns / 3;
	} else {
		l->due_ns += gm_store_http_pause(0);
	}
}

static void ask_for_lease(struct gm_store_etcd_lease *l, uint64_t now_ns)
{
	bool is_new = l->id == 0;
	uint64_t seconds = (l->lease->ttl_ms + 999) / 1000;
	uint64_t ttl_ns = is_new ? seconds * NS_S : l->ttl_ns;
	json_t *body =
		is_new ? json_pack("{s:o}", "TTL", gm_store_json_text(seconds))
		       : json_pack("{s:o}", "ID", gm_store_json_text(l->id));

	l->call = (struct gm_store_call){
		.path = is_new ? "/v3/lease/grant" : "/v3/lease/keepalive",
		.again = !is_new, /* a lease more stays until its end */
		.done = is_new ? on_grant : on_renewal
	};
	l->asked_ns = now_ns;
	l->due_ns = GM_STORE_NEVER;
	gm_store_http_call(&l->etcd->http, &l->call, body,
			   is_new ? 0 : ttl_ns / 2 / GM_STORE_NS_MS);
}

static void run_lease(struct gm_store_etcd_lease *l)
{
	uint64_t now_ns = gm_store_now();

	if (l->id != 0 && now_ns - l->since_ns >= l->ttl_ns) {
		gm_store_fail(&l->etcd->store, 0,
			      "the lease was not renewed for %llu ms",
			      (unsigned long long)(l->ttl_ns / GM_STORE_NS_MS));
		lose(l);
	}
	if (now_ns >= l->due_ns)
		ask_for_lease(l, now_ns);
}

static uint64_t find_lease_due(const struct gm_store_etcd_lease *l)
{
	uint64_t end_ns = l->since_ns + l->ttl_ns;

	return l->id != 0 && end_ns < l->due_ns ? end_ns : l->due_ns;
}

static int add_lease(struct gm_store *store, struct gm_store_lease *lease)
{
	struct gm_store_etcd *etcd = etcd_of(store);
	struct gm_store_etcd_lease *l = calloc(1, sizeof(*l));

	if (l == NULL)
		return -ENOMEM;
	l->etcd = etcd;
	l->lease = lease;
	l->next = etcd->leases;
	etcd->leases = l;
	lease->own = l;
	return 0;
}

static void on_return(struct gm_store_call *call, int status,
		      const json_t *answer)
{
}

/* Give the leases back, if etcd answers soon. */
static void return_leases(struct gm_store_etcd *etcd)
{
	uint64_t until_ns = gm_store_now() + CLOSE_NS;

	for (struct gm_store_etcd_lease *l = etcd->leases; l != NULL;
	     l = l->next) {
		if (l->id == 0)
			continue;
		l->call = (struct gm_store_call){ .path = "/v3/lease/revoke",
						  .done = on_return };
		gm_store_http_call(&etcd->http, &l->call,
				   json_pack("{s:o}", "ID",
					     gm_store_json_text(l->id)),
				   CLOSE_NS / GM_STORE_NS_MS);
	}
	while (gm_store_http_busy(&etcd->http) && gm_store_now() < until_ns) {
		struct epoll_event events[16];
		int n = epoll_wait(etcd->store.epoll, events, 16, 10);

		gm_store_http_run(&etcd->http, events, n > 0 ? n : 0);
	}
}

/* ---- the store ----------------------------------------------------------- */

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static uint64_t run(struct gm_store *store, const struct epoll_event *events,
		    int n, uint64_t now_ns)
{
	struct gm_store_etcd *etcd = etcd_of(store);
	struct gm_store_etcd_lease *l;
	uint64_t due_ns;

	/* A request has to see that its lease has ended. */
	for (l = etcd->leases; l != NULL; l = l->next)
		run_lease(l);
	take_requests(etcd);
	gm_store_http_run(&etcd->http, events, n);
	gm_store_etcd_watch_run(etcd);
	for (l = etcd->leases; l != NULL; l = l->next)
		run_lease(l);
	/* The calls of watches and leases are made, and may end at once: all
	 * times are looked at when nothing changes them any more. */
	due_ns = gm_store_http_run(&etcd->http, NULL, 0);
	due_ns = least(due_ns, gm_store_etcd_watch_due(etcd));
	for (l = etcd->leases; l != NULL; l = l->next)
		due_ns = least(due_ns, find_lease_due(l));
	return due_ns;
}

/* A call of a request is cancelled: so is the request. */
static void cancel_requests(struct gm_store_etcd *etcd)
{
	struct gm_store_call *call, *next;

	for (call = etcd->http.calls; call != NULL; call = next) {
		struct gm_store_link *request = NULL;

		next = call->next;
		if (call->done == on_put || call->done == on_txn)
			request = ((struct etcd_write *)(void *)call)->request;
		else if (call->done == on_page &&
			 ((struct gm_store_etcd_list *)(void *)call)->end ==
				 end_list)
			request = ((struct gm_store_etcd_list *)(void *)call)
					  ->data;
		if (request == NULL)
			continue;
		gm_store_http_drop(call);
		gm_store_cancel(&etcd->store, request);
		if (call->done == on_page)
			gm_store_etcd_list_free(
				(struct gm_store_etcd_list *)(void *)call);
		else
			free(call);
	}
	gm_store_http_cancel(&etcd->http);
}

static void close_etcd(struct gm_store *store)
{
	struct gm_store_etcd *etcd = etcd_of(store);

	cancel_requests(etcd);
	gm_store_etcd_watch_free(etcd);
	return_leases(etcd);
	gm_store_http_close(&etcd->http);
	while (etcd->leases != NULL) {
		struct gm_store_etcd_lease *l = etcd->leases;

		etcd->leases = l->next;
		free(l);
	}
	gm_store_release(store);
	free(etcd->root);
	free(etcd);
}

static const struct gm_store_backend backend = {
	.lease = add_lease,
	.watch = gm_store_etcd_watch_add,
	.run = run,
	.close = close_etcd
};

int gm_store_etcd_open(const struct gm_store_opts *opts,
		       struct gm_store **ret_store,
		       char ret_why[GM_STORE_WHY_BYTES])
{
	struct gm_store_etcd *etcd;
	int ret;

	if (opts->endpoints == NULL || opts->root == NULL ||
	    opts->root[0] == '\0') {
		snprintf(ret_why, GM_STORE_WHY_BYTES,
			 "give a directory, or endpoints and a root");
		return -EINVAL;
	}
	etcd = calloc(1, sizeof(*etcd));
	if (etcd == NULL)
		return -ENOMEM;
	etcd->root = strdup(opts->root);
	etcd->root_bytes = strlen(opts->root);
	etcd->http.store = &etcd->store;
	ret = etcd->root != NULL ? gm_store_prepare(&etcd->store, &backend)
				 : -ENOMEM;
	if (ret == 0) {
		ret = gm_store_http_open(&etcd->http, opts, ret_why);
		if (ret != 0)
			gm_store_release(&etcd->store);
	}
	if (ret != 0) {
		free(etcd->root);
		free(etcd);
		return ret;
	}
	*ret_store = &etcd->store;
	return 0;
}
