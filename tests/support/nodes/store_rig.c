/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "tests/support/nodes/store_rig.h"

#include <poll.h>
#include <time.h>

#include "tests/support/tap.h"

uint64_t rig_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * UINT64_C(1000000000) +
	       (uint64_t)now.tv_nsec;
}

struct gm_store *rig_open(const struct gm_store_opts *opts)
{
	char why[GM_STORE_WHY_BYTES];
	struct gm_store *store = NULL;
	int ret = gm_store_open(opts, &store, why);

	if (ret == 0)
		return store;
	printf("Bail out! no store: %d, %s\n", ret, why);
	exit(99);
}

bool rig_until(struct gm_store *store, bool (*done)(void *data), void *data)
{
	uint64_t until_ns = rig_now() + RIG_LIMIT_NS;

	while (!done(data)) {
		struct pollfd ready = { gm_store_fd(store), POLLIN, 0 };

		if (rig_now() > until_ns)
			return false;
		if (poll(&ready, 1, 100) > 0)
			gm_store_dispatch(store);
	}
	return true;
}

static bool is_over(void *data)
{
	return rig_now() >= *(const uint64_t *)data;
}

void rig_run(struct gm_store *store, uint32_t ms)
{
	uint64_t until_ns = rig_now() + ms * UINT64_C(1000000);

	rig_until(store, is_over, &until_ns);
}

/* ---- requests ------------------------------------------------------------ */

struct rig_request {
	struct gm_store_write write;
	struct gm_store_list list;
	struct rig_result result;
	char *text;           /* of the key that is asked for; NULL: count */
	struct gm_keys *keys; /* to be found; or NULL */
	uint64_t revision;
	int n;
};

static void keep_result(struct rig_result *ret_result,
			const struct gm_store_result *result)
{
	ret_result->status = result->status;
	ret_result->revision = result->revision;
	snprintf(ret_result->why, sizeof(ret_result->why), "%s", result->why);
	ret_result->done = true;
}

static void written(struct gm_store_write *write,
		    const struct gm_store_result *result)
{
	keep_result(&((struct rig_request *)(void *)write)->result, result);
}

static struct rig_request *request_of(struct gm_store_list *list)
{
	return (struct rig_request *)(void *)((char *)list -
					      offsetof(struct rig_request,
						       list));
}

static void listed(struct gm_store_list *list,
		   const struct gm_store_result *result)
{
	keep_result(&request_of(list)->result, result);
}

static void found(struct gm_store_list *list, const struct gm_store_event *put)
{
	struct rig_request *request = request_of(list);

	request->n++;
	if (request->keys != NULL)
		gm_keys_add(request->keys, put->key);
	if (request->text == NULL || strcmp(put->key, list->prefix) != 0)
		return;
	request->revision = put->revision;
	if (put->value == NULL) {
		strcpy(request->text, "?");
		return;
	}
	memcpy(request->text, put->value, put->bytes);
	request->text[put->bytes] = '\0';
}

static bool is_done(void *data)
{
	return ((const struct rig_request *)data)->result.done;
}

static int ask(struct gm_store *store, struct rig_request *request, int ret,
	       struct rig_result *ret_result)
{
	if (ret != 0)
		return ret;
	if (!rig_until(store, is_done, request)) {
		puts("Bail out! a request has no end");
		exit(99);
	}
	if (ret_result != NULL)
		*ret_result = request->result;
	return request->result.status;
}

static struct rig_request write_of(const char *key, const char *text)
{
	return (struct rig_request){
		.write = { .key = key,
			   .value = text,
			   .bytes = text != NULL ? strlen(text) : 0,
			   .done = written }
	};
}

int rig_put(struct gm_store *store, const char *key, const char *text,
	    struct gm_store_lease *lease, struct rig_result *ret_result)
{
	struct rig_request request = write_of(key, text);

	request.write.lease = lease;
	return ask(store, &request, gm_store_put(store, &request.write),
		   ret_result);
}

int rig_cas(struct gm_store *store, const char *key, const char *text,
	    uint64_t expected, struct rig_result *ret_result)
{
	struct rig_request request = write_of(key, text);

	request.write.expected = expected;
	return ask(store, &request, gm_store_cas(store, &request.write),
		   ret_result);
}

int rig_get(struct gm_store *store, const char *key,
	    char ret_text[GM_STORE_VALUE_BYTES + 1], uint64_t *ret_revision)
{
	struct rig_request request = {
		.list = { .prefix = key, .item = found, .done = listed },
		.text = ret_text
	};
	int ret;

	ret_text[0] = '\0';
	ret = ask(store, &request, gm_store_list(store, &request.list), NULL);
	if (ret_revision != NULL)
		*ret_revision = request.revision;
	return ret;
}

int rig_count(struct gm_store *store, const char *prefix)
{
	struct rig_request request = {
		.list = { .prefix = prefix, .item = found, .done = listed }
	};
	int ret =
		ask(store, &request, gm_store_list(store, &request.list), NULL);

	return ret != 0 ? ret : request.n;
}

void rig_remove_all(struct gm_store *store)
{
	struct gm_keys keys = { .entry_bytes = sizeof(struct gm_key) };
	struct rig_request request = {
		.list = { .prefix = "", .item = found, .done = listed },
		.keys = &keys
	};

	EQ(ask(store, &request, gm_store_list(store, &request.list), NULL), 0);
	for (size_t i = 0; i < keys.n; i++)
		if (rig_put(store, keys.list[i]->key, NULL, NULL, NULL) != 0)
			OK(!"deleted");
	gm_keys_free(&keys);
}

/* ---- watches ------------------------------------------------------------- */

static struct rig_watch *watch_of(void *watch)
{
	return watch;
}

static void keep_value(struct rig_watch *w, const struct gm_store_event *event)
{
	struct rig_value *value =
		(struct rig_value *)(void *)gm_keys_add(&w->values, event->key);
	size_t n = event->bytes < 63 ? event->bytes : 63;

	w->n_puts++;
	if (event->revision == 0 || value->key.revision == event->revision)
		w->n_wrong++;
	value->key.revision = event->revision;
	value->refused = event->value == NULL;
	value->text[0] = '\0';
	if (value->refused) {
		strcpy(value->text, "?");
		snprintf(w->why, sizeof(w->why), "%s", event->why);
		return;
	}
	memcpy(value->text, event->value, n);
	value->text[n] = '\0';
}

static void forget_value(struct rig_watch *w,
			 const struct gm_store_event *event)
{
	w->n_deletes++;
	for (size_t i = 0; i < w->values.n; i++) {
		if (strcmp(w->values.list[i]->key, event->key) == 0) {
			gm_keys_remove(&w->values, i);
			return;
		}
	}
	w->n_wrong++; /* it was not there */
}

static void on_event(struct gm_store_watch *watch,
		     const struct gm_store_event *event)
{
	struct rig_watch *w = watch_of(watch);

	if (event->kind == GM_STORE_PUT) {
		keep_value(w, event);
	} else if (event->kind == GM_STORE_DELETE) {
		forget_value(w, event);
	} else if (event->kind == GM_STORE_RESYNC) {
		w->n_resyncs++;
	} else if (event->kind == GM_STORE_CUT) {
		w->n_cuts++;
		snprintf(w->why, sizeof(w->why), "%s", event->why);
	} else {
		w->n_wrong++;
	}
}

void rig_watch(struct gm_store *store, struct rig_watch *watch,
	       const char *prefix)
{
	*watch = (struct rig_watch){
		.watch = { .prefix = prefix, .event = on_event },
		.values = { .entry_bytes = sizeof(struct rig_value) }
	};
	if (gm_store_watch(store, &watch->watch) != 0) {
		puts("Bail out! no watch");
		exit(99);
	}
}

const char *rig_seen(const struct rig_watch *watch, const char *key)
{
	const struct rig_value *value =
		(const struct rig_value *)(const void *)gm_keys_find(
			&watch->values, key);

	return value != NULL ? value->text : "";
}

struct rig_wish {
	struct rig_watch *watch;
	const char *key;
	const char *text;
	unsigned int n;
};

static bool is_seen(void *data)
{
	const struct rig_wish *wish = data;

	return strcmp(rig_seen(wish->watch, wish->key), wish->text) == 0;
}

static bool is_resynced(void *data)
{
	const struct rig_wish *wish = data;

	return wish->watch->n_resyncs >= wish->n;
}

static bool is_cut(void *data)
{
	const struct rig_wish *wish = data;

	return wish->watch->n_cuts >= wish->n;
}

bool rig_sees(struct gm_store *store, struct rig_watch *watch, const char *key,
	      const char *text)
{
	struct rig_wish wish = { watch, key, text, 0 };
	bool seen = rig_until(store, is_seen, &wish);

	if (!seen)
		NOTE("%s is \"%s\", not \"%s\"", key, rig_seen(watch, key),
		     text);
	return seen;
}

bool rig_resyncs(struct gm_store *store, struct rig_watch *watch,
		 unsigned int n)
{
	struct rig_wish wish = { watch, NULL, NULL, n };

	return rig_until(store, is_resynced, &wish);
}

bool rig_cuts(struct gm_store *store, struct rig_watch *watch, unsigned int n)
{
	struct rig_wish wish = { watch, NULL, NULL, n };

	return rig_until(store, is_cut, &wish);
}

void rig_watch_end(struct rig_watch *watch)
{
	EQ(watch->n_wrong, 0);
	gm_keys_free(&watch->values);
}

/* ---- leases -------------------------------------------------------------- */

static void on_lease(struct gm_store_lease *lease, const char *why)
{
	struct rig_lease *l = (struct rig_lease *)(void *)lease;

	if (lease->held)
		l->n_held++;
	else
		l->n_lost++;
}

static bool is_held(void *data)
{
	return ((const struct rig_lease *)data)->lease.held;
}

bool rig_lease(struct gm_store *store, struct rig_lease *lease, uint32_t ms)
{
	*lease = (struct rig_lease){ .lease = { .ttl_ms = ms,
						.event = on_lease } };
	return gm_store_lease(store, &lease->lease) == 0 &&
	       rig_until(store, is_held, lease);
}
