/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/store/store.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "agent/store/store_backend.h"

#define EVENTS 64

/* ---- keys ---------------------------------------------------------------- */

static bool is_safe(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
	       (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';
}

bool gm_store_check_prefix(const char *prefix)
{
	size_t n = strlen(prefix);

	if (n >= GM_STORE_KEY_BYTES)
		return false;
	for (size_t i = 0; i < n; i++) {
		bool begins = i == 0 || prefix[i - 1] == '/';

		if (prefix[i] == '/' ? begins
				     : !is_safe(prefix[i]) ||
					       (begins && prefix[i] == '.'))
			return false;
	}
	return true;
}

bool gm_store_check_key(const char *key)
{
	size_t n = strlen(key);

	return n > 0 && key[n - 1] != '/' && gm_store_check_prefix(key);
}

/* ---- what back ends use -------------------------------------------------- */

uint64_t gm_store_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_BOOTTIME, &now);
	return (uint64_t)now.tv_sec * UINT64_C(1000000000) +
	       (uint64_t)now.tv_nsec;
}

uint64_t gm_store_random(void)
{
	uint64_t number = 0;

	while (number == 0)
		if (getrandom(&number, sizeof(number), 0) != sizeof(number))
			number = 0;
	return number;
}

int gm_store_fail(struct gm_store *store, int status, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(store->why, sizeof(store->why), format, args);
	va_end(args);
	return status;
}

struct gm_store_link *gm_store_take(struct gm_store *store)
{
	struct gm_store_link *request = store->first;

	if (request == NULL)
		return NULL;
	store->first = request->next;
	if (store->first == NULL)
		store->last = &store->first;
	request->next = NULL;
	return request;
}

void gm_store_finish(struct gm_store *store, struct gm_store_link *request,
		     int status, uint64_t revision)
{
	char why[GM_STORE_WHY_BYTES] = "";
	struct gm_store_result result = { .status = status,
					  .revision = revision,
					  .why = why };

	/* The callback may make requests, which have reasons of their own. */
	if (status != 0)
		memcpy(why, store->why, sizeof(why));
	if (request->kind == GM_STORE_REQUEST_LIST) {
		struct gm_store_list *list = GM_STORE_LIST_OF(request);

		list->done(list, &result);
	} else {
		struct gm_store_write *write = GM_STORE_WRITE_OF(request);

		write->done(write, &result);
	}
}

void gm_store_cancel(struct gm_store *store, struct gm_store_link *request)
{
	gm_store_fail(store, 0, "the store was closed");
	gm_store_finish(store, request, -ECANCELED, 0);
}

void gm_store_hold(struct gm_store *store, struct gm_store_lease *lease,
		   uint64_t id)
{
	char why[GM_STORE_WHY_BYTES] = "";

	if (id == 0)
		memcpy(why, store->why, sizeof(why));
	lease->held = id != 0;
	lease->id = id;
	lease->event(lease, why);
}

/* ---- the store ----------------------------------------------------------- */

/* Be called at a time, at once if that is over. */
static void set_timer(struct gm_store *store, uint64_t due_ns)
{
	struct itimerspec at = { .it_interval = { 0 } };

	if (due_ns == store->due_ns)
		return;
	store->due_ns = due_ns;
	if (due_ns != GM_STORE_NEVER) {
		at.it_value.tv_sec = (time_t)(due_ns / 1000000000);
		at.it_value.tv_nsec = (long)(due_ns % 1000000000);
		if (due_ns == 0)
			at.it_value.tv_nsec = 1;
	}
	timerfd_settime(store->timer, TFD_TIMER_ABSTIME, &at, NULL);
}

static int prepare(struct gm_store *store)
{
	struct epoll_event in = { .events = EPOLLIN };

	store->last = &store->first;
	store->due_ns = GM_STORE_NEVER;
	in.data.fd = store->timer;
	return store->epoll < 0 || store->timer < 0 ||
			       epoll_ctl(store->epoll, EPOLL_CTL_ADD,
					 store->timer, &in) != 0
		       ? -errno
		       : 0;
}

static int open_etcd(const struct gm_store_opts *opts,
		     struct gm_store **ret_store,
		     char ret_why[GM_STORE_WHY_BYTES])
{
#ifdef GM_HAVE_ETCD
	return gm_store_etcd_open(opts, ret_store, ret_why);
#else
	snprintf(ret_why, GM_STORE_WHY_BYTES,
		 "this program was built without libcurl, which etcd needs: "
		 "give a directory");
	return -EOPNOTSUPP;
#endif
}

int gm_store_open(const struct gm_store_opts *opts, struct gm_store **ret_store,
		  char ret_why[GM_STORE_WHY_BYTES])
{
	struct gm_store *store = NULL;
	int ret;

	ret_why[0] = '\0';
	ret = opts->directory != NULL
		      ? gm_store_file_open(opts, &store, ret_why)
		      : open_etcd(opts, &store, ret_why);
	if (ret != 0)
		return ret;
	*ret_store = store;
	return 0;
}

int gm_store_prepare(struct gm_store *store,
		     const struct gm_store_backend *backend)
{
	int ret;

	store->backend = backend;
	store->epoll = epoll_create1(EPOLL_CLOEXEC);
	store->timer =
		timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
	ret = prepare(store);
	if (ret != 0)
		gm_store_release(store);
	return ret;
}

void gm_store_release(struct gm_store *store)
{
	if (store->epoll >= 0)
		close(store->epoll);
	if (store->timer >= 0)
		close(store->timer);
}

int gm_store_fd(const struct gm_store *store)
{
	return store->epoll;
}

void gm_store_dispatch(struct gm_store *store)
{
	struct epoll_event events[EVENTS];
	uint64_t ignored, due_ns;
	int n = epoll_wait(store->epoll, events, EVENTS, 0), kept = 0;

	for (int i = 0; i < n; i++)
		if (events[i].data.fd != store->timer)
			events[kept++] = events[i];
	if (read(store->timer, &ignored, sizeof(ignored)) > 0)
		store->due_ns = GM_STORE_NEVER;
	due_ns = store->backend->run(store, events, kept, gm_store_now());
	/* A callback of the last request may have made another. */
	set_timer(store, store->first != NULL ? 0 : due_ns);
}

static int enqueue(struct gm_store *store, struct gm_store_link *request,
		   uint32_t kind)
{
	if (store->closing)
		return -ECANCELED;
	*request = (struct gm_store_link){ .kind = kind };
	*store->last = request;
	store->last = &request->next;
	set_timer(store, 0);
	return 0;
}

static int check_write(const struct gm_store_write *write)
{
	if (!gm_store_check_key(write->key))
		return -EINVAL;
	return write->value != NULL && write->bytes > GM_STORE_VALUE_BYTES
		       ? -E2BIG
		       : 0;
}

int gm_store_put(struct gm_store *store, struct gm_store_write *write)
{
	int ret = check_write(write);

	return ret != 0 ? ret
			: enqueue(store, &write->link, GM_STORE_REQUEST_PUT);
}

int gm_store_cas(struct gm_store *store, struct gm_store_write *write)
{
	int ret = check_write(write);

	return ret != 0 ? ret
			: enqueue(store, &write->link, GM_STORE_REQUEST_CAS);
}

int gm_store_list(struct gm_store *store, struct gm_store_list *list)
{
	if (!(list->one ? gm_store_check_key(list->prefix)
			: gm_store_check_prefix(list->prefix)))
		return -EINVAL;
	return enqueue(store, &list->link, GM_STORE_REQUEST_LIST);
}

int gm_store_lease(struct gm_store *store, struct gm_store_lease *lease)
{
	int ret;

	if (lease->own != NULL)
		return -EBUSY;
	if (lease->ttl_ms < GM_STORE_LEASE_MIN ||
	    lease->ttl_ms > GM_STORE_LEASE_MAX)
		return -EINVAL;
	lease->held = false;
	ret = store->backend->lease(store, lease);
	if (ret == 0)
		set_timer(store, 0);
	return ret;
}

int gm_store_watch(struct gm_store *store, struct gm_store_watch *watch)
{
	int ret;

	if (watch->own != NULL)
		return -EBUSY;
	if (!gm_store_check_prefix(watch->prefix))
		return -EINVAL;
	ret = store->backend->watch(store, watch);
	if (ret == 0)
		set_timer(store, 0);
	return ret;
}

void gm_store_close(struct gm_store *store)
{
	struct gm_store_link *request;

	if (store == NULL)
		return;
	store->closing = true;
	while ((request = gm_store_take(store)) != NULL)
		gm_store_cancel(store, request);
	store->backend->close(store);
}
