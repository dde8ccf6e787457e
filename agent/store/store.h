/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * store - values that nodes share by names, in a directory or in etcd.
 *
 * Six functions: put, cas, list, lease, watch, close.  None of them waits: a
 * request belongs to the store until its done() is called, by
 * gm_store_dispatch(), and never by the function that made the request.
 *
 *   - A store has one descriptor.  Poll it, and call gm_store_dispatch() when
 *     it can be read.  There are no threads, and no time to watch.
 *   - A revision names one value of a key.  No other value ever has the same
 *     one, also not after the key was deleted and made anew, and 0 is none.
 *     Only equality means anything.
 *   - cas() writes if the key has the expected revision.  At most one of all
 *     that expect the same revision succeeds.
 *   - A success is on the disk of the store.  After -ETIMEDOUT the request was
 *     perhaps carried out: list the key to know.
 *   - A watch says the newest value of a key, perhaps not each.  Whenever it
 *     may have missed something it lists anew by itself, so that a consumer
 *     that follows the events has no key that the store has not: no deletion
 *     is lost.
 *   - A key with a lease is gone when its owner has not renewed the lease for
 *     the lease's time: the process may be killed at any instant.
 *   - No wall clock matters.  See store_file.c about leases.
 *   - Other nodes write the values: check them.
 *
 * Threads	one store, one thread
 */
#ifndef GM_STORE_H
#define GM_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GM_STORE_KEY_BYTES   200u        /* of a key, with its NUL */
#define GM_STORE_VALUE_BYTES (16u << 10) /* of a value, at most */
#define GM_STORE_KEYS        8192u       /* of a list or a watch, at most */
#define GM_STORE_WHY_BYTES   256u        /* of a reason, with its NUL */
#define GM_STORE_LEASE_MIN   1000u       /* ms; etcd counts seconds */
#define GM_STORE_LEASE_MAX   600000u     /* ms */

struct gm_store;

/* The place of the values: a directory, or etcd.  The strings are copied. */
struct gm_store_opts {
	const char *directory; /* that all nodes have; NULL: etcd */
	const char *endpoints; /* "http://HOST:PORT,https://HOST:PORT" */
	const char *root;      /* before each key in etcd: "/gpumap/v1/NAME/" */
	const char *ca;        /* file of certificates; NULL: the system's */
	const char *cert;      /* file of the client's own; NULL: none */
	const char *key;       /* file of its key */
	const char *user;      /* NULL: none, and no password */
	const char *password;
	uint32_t timeout_ms; /* of a request to etcd; 0: 5000 */
};

/* How a request ended.  Valid during done(). */
struct gm_store_result {
	/*
	 * 0
	 * -ESTALE	cas: the key has another revision, @revision; 0: none
	 * -EOWNERDEAD	the lease is not held
	 * -EHOSTUNREACH	nothing was done: there is no directory, or no
	 *		endpoint answers
	 * -ETIMEDOUT	it was perhaps done
	 * -EACCES, -EPERM, -ENOSPC, -EIO, -EPROTO, -E2BIG and what open() and
	 * write() return; nothing was done
	 * -ECANCELED	the store was closed
	 */
	int status;
	uint64_t revision; /* that the key has now, of put and cas */
	const char *why;   /* what failed and what helps; "" for 0 */
};

/* A request of the store's own list.  For the store. */
struct gm_store_link {
	struct gm_store_link *next;
	uint32_t kind;
};

struct gm_store_lease;

/* A value to write.  The caller's memory, @key and @value too, until done(). */
struct gm_store_write {
	const char *key;
	const void *value; /* NULL: delete the key */
	size_t bytes;
	struct gm_store_lease *lease; /* the key ends with it; NULL: stays */
	uint64_t expected; /* cas: its revision now; 0: there is no key */
	void (*done)(struct gm_store_write *write,
		     const struct gm_store_result *result);
	struct gm_store_link link; /* the store's */
};

enum gm_store_event_kind {
	GM_STORE_PUT = 1, /* the key has this value */
	GM_STORE_DELETE,  /* the key is gone */
	GM_STORE_RESYNC,  /* all until here is what a whole list had */
	GM_STORE_CUT      /* what follows may come late, until RESYNC */
};

/* Valid during the call. */
struct gm_store_event {
	uint32_t kind; /* enum gm_store_event_kind */
	const char *key;
	/* NULL for PUT: no value that this store would write.  @why says what
	 * is wrong with it. */
	const void *value;
	size_t bytes;
	uint64_t revision;
	uint64_t lease;  /* PUT: that the key ends with, its ID; 0: none */
	const char *why; /* CUT, and PUT without a value */
};

/* A list of the keys that begin with @prefix; "" is all.  As above. */
struct gm_store_list {
	const char *prefix;
	bool one;  /* the key @prefix alone */
	bool keys; /* and no values: each event has NULL and no reason */
	void (*item)(struct gm_store_list *list,
		     const struct gm_store_event *put);
	void (*done)(struct gm_store_list *list,
		     const struct gm_store_result *result);
	struct gm_store_link link;
};

/* The caller's until gm_store_close(). */
struct gm_store_watch {
	const char *prefix;
	void (*event)(struct gm_store_watch *watch,
		      const struct gm_store_event *event);
	void *own; /* the store's */
};

/* The caller's until gm_store_close().  The store asks for the lease until it
 * is granted, renews it, and asks anew when it was lost: its keys are gone
 * then. */
struct gm_store_lease {
	uint32_t ttl_ms;
	bool held;
	uint64_t id; /* while it is held; no other ever has it */
	/* @held has changed.  @why of a loss. */
	void (*event)(struct gm_store_lease *lease, const char *why);
	void *own; /* the store's */
};

/*
 * gm_store_open - a store; nothing is asked of it yet
 *
 * ret_why	what is wrong with @opts
 *
 * Returns	0
 *		-EINVAL		@opts, see @ret_why
 *		-EOPNOTSUPP	this was built without etcd
 *		-ENOMEM, -EMFILE
 */
int gm_store_open(const struct gm_store_opts *opts, struct gm_store **ret_store,
		  char ret_why[GM_STORE_WHY_BYTES]);

/* To be polled for POLLIN. */
int gm_store_fd(const struct gm_store *store);

/* Do what is due, and call back.  Cost: the system calls of a directory, which
 * a dead NFS server holds up; with etcd nothing waits. */
void gm_store_dispatch(struct gm_store *store);

/*
 * gm_store_put - write a key, whatever it has, or delete it
 * gm_store_cas - write a key if it has the expected revision
 * gm_store_list - call item() for each key, then done()
 * gm_store_lease - call event() when it is held, and when it was lost
 * gm_store_watch - call event() for each key, then RESYNC, then as keys change
 *
 * Callbacks may call any of these.
 *
 * Returns	0; or, with no call to come,
 *		-EINVAL		a key or prefix is none, see
 *				gm_store_check_key(), or a lease's time
 *		-E2BIG		a value of more than GM_STORE_VALUE_BYTES
 *		-EBUSY		it has been called for this lease or watch
 *		-ECANCELED	the store is being closed
 *		-ENOMEM
 */
int gm_store_put(struct gm_store *store, struct gm_store_write *write);
int gm_store_cas(struct gm_store *store, struct gm_store_write *write);
int gm_store_list(struct gm_store *store, struct gm_store_list *list);
int gm_store_lease(struct gm_store *store, struct gm_store_lease *lease);
int gm_store_watch(struct gm_store *store, struct gm_store_watch *watch);

/* End: requests get -ECANCELED, leases are given back if that takes no second,
 * and lapse by themselves otherwise.  Not from a callback.  NULL is allowed. */
void gm_store_close(struct gm_store *store);

/* Is it a key?  Parts of A-Z a-z 0-9 . _ - with '/' between them; no part is
 * empty or begins with a '.'. */
bool gm_store_check_key(const char *key);

/* Is it a key, or one without its end, or ""? */
bool gm_store_check_prefix(const char *prefix);

#endif
