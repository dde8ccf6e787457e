/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * store_backend - what a back end of store.h is made of.
 *
 * The back end embeds struct gm_store as its first member.  store.c checks
 * arguments, keeps requests in a list and calls run() from the dispatch.
 */
#ifndef GM_STORE_BACKEND_H
#define GM_STORE_BACKEND_H

#include <sys/epoll.h>

#include "agent/store/store.h"

#define GM_STORE_NS_MS UINT64_C(1000000)
#define GM_STORE_NEVER UINT64_MAX

enum gm_store_request_kind {
	GM_STORE_REQUEST_PUT = 1,
	GM_STORE_REQUEST_CAS,
	GM_STORE_REQUEST_LIST
};

struct gm_store_backend {
	int (*lease)(struct gm_store *store, struct gm_store_lease *lease);
	int (*watch)(struct gm_store *store, struct gm_store_watch *watch);
	/* Carry requests out and do what is due at @now_ns.  @events are those
	 * of descriptors in the store's epoll, but for the timer.  Returns when
	 * to be called again, or GM_STORE_NEVER. */
	uint64_t (*run)(struct gm_store *store,
			const struct epoll_event *events, int n,
			uint64_t now_ns);
	void (*close)(struct gm_store *store);
};

struct gm_store {
	const struct gm_store_backend *backend;
	int epoll;
	int timer;                   /* a timerfd, in it */
	struct gm_store_link *first; /* requests that wait for run() */
	struct gm_store_link **last;
	uint64_t due_ns; /* the timer's time */
	bool closing;
	char why[GM_STORE_WHY_BYTES];
};

#define GM_STORE_WRITE_OF(link_)             \
	((struct gm_store_write *)(void *)(( \
		char *)(link_)-offsetof(struct gm_store_write, link)))
#define GM_STORE_LIST_OF(link_)             \
	((struct gm_store_list *)(void *)(( \
		char *)(link_)-offsetof(struct gm_store_list, link)))

/* The time, in which a suspended machine counts. */
uint64_t gm_store_now(void);

/* A random number, never 0. */
uint64_t gm_store_random(void);

/* The next request, or NULL. */
struct gm_store_link *gm_store_take(struct gm_store *store);

/* End a request.  @status 0 has no reason; others have @store->why. */
void gm_store_finish(struct gm_store *store, struct gm_store_link *request,
		     int status, uint64_t revision);

/* End it, because the store is closed. */
void gm_store_cancel(struct gm_store *store, struct gm_store_link *request);

/* A lease is held now, or is lost, for @id 0: say so. */
void gm_store_hold(struct gm_store *store, struct gm_store_lease *lease,
		   uint64_t id);

/* Set the reason.  Returns @status. */
int gm_store_fail(struct gm_store *store, int status, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* Make the descriptors of a store whose bytes are 0, and close them again. */
int gm_store_prepare(struct gm_store *store,
		     const struct gm_store_backend *backend);
void gm_store_release(struct gm_store *store);

int gm_store_file_open(const struct gm_store_opts *opts,
		       struct gm_store **ret_store,
		       char ret_why[GM_STORE_WHY_BYTES]);
int gm_store_etcd_open(const struct gm_store_opts *opts,
		       struct gm_store **ret_store,
		       char ret_why[GM_STORE_WHY_BYTES]);

#endif
