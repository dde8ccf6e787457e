/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * store_http - calls of etcd's gateway: POST of a JSON object, whose answer is
 * another, or one after the other, each in a line.
 *
 *   - A call that has reached no endpoint is made again at the next one, after
 *     times that grow and that chance makes different, until its time is over.
 *     A call that was perhaps carried out is made again only if it says so.
 *   - An endpoint that answers late, or says that it has no leader, is left for
 *     the next one, and what comes from it line by line is ended.
 *   - An answer has a limit, and so has a line.
 *   - A token is got where there is a user, and got anew when it is refused.
 *   - No proxy of the environment is used, and no redirection is followed.
 */
#ifndef GM_STORE_HTTP_H
#define GM_STORE_HTTP_H

#include <curl/curl.h>
#include <jansson.h>

#include "agent/store/store_backend.h"

#define GM_STORE_HTTP_MOST      (4u << 20) /* bytes of an answer, or a line */
#define GM_STORE_HTTP_ENDPOINTS 16u

/* Codes of gRPC that matter, in answers. */
enum gm_store_http_code {
	GM_STORE_HTTP_DEADLINE = 4,
	GM_STORE_HTTP_DENIED = 7,
	GM_STORE_HTTP_UNAVAILABLE = 14,
	GM_STORE_HTTP_UNAUTHENTICATED = 16
};

struct gm_store_http;

struct gm_store_call {
	/* Set by the caller. */
	const char *path; /* "/v3/kv/range" */
	bool again;       /* to carry it out twice does no harm */
	bool once;        /* and this must never be carried out twice */
	/* A line of an answer without an end.  Returns false to end it.  NULL:
	 * the answer is one value. */
	bool (*line)(struct gm_store_call *call, const json_t *value);
	/*
	 * The end.  @answer is there for status 0 without line().  A negative
	 * errno has the store's reason:
	 * -EHOSTUNREACH, -ETIMEDOUT, -EACCES, -ENOSPC, -EOWNERDEAD (a lease is
	 * not there), -ERANGE (a revision was compacted), -E2BIG, -EPROTO,
	 * -ENOMEM.
	 */
	void (*done)(struct gm_store_call *call, int status,
		     const json_t *answer);

	/* This module's. */
	struct gm_store_call *next;
	struct gm_store_http *http;
	CURL *easy; /* NULL: it is not under way */
	struct curl_slist *headers;
	char *body;
	char *answer;
	size_t n, room;
	uint64_t due_ns;   /* to be made */
	uint64_t until_ns; /* to be over */
	size_t endpoint;
	bool too_long;
	bool is_late; /* its endpoint is left */
	bool is_auth;
	unsigned int n_tokens; /* that were refused */
	char error[CURL_ERROR_SIZE];
};

struct gm_store_http {
	struct gm_store *store; /* gets reasons, and has the epoll */
	CURLM *multi;
	char *endpoints[GM_STORE_HTTP_ENDPOINTS];
	size_t n_endpoints;
	size_t endpoint;         /* that is used now */
	unsigned int n_failures; /* one after the other */
	uint64_t good_ns;        /* when an answer came */
	char *ca, *cert, *key, *user, *password;
	char *token;                       /* NULL: none yet */
	char no_token[GM_STORE_WHY_BYTES]; /* why the last request gave none */
	struct gm_store_call *calls;
	struct gm_store_call auth;
	bool is_asking; /* for a token */
	uint64_t timeout_ms;
	uint64_t curl_ns; /* when libcurl is to be called */
};

int gm_store_http_open(struct gm_store_http *http,
		       const struct gm_store_opts *opts,
		       char ret_why[GM_STORE_WHY_BYTES]);

/* The endpoint of a call is not well: go to the next. */
void gm_store_http_leave(struct gm_store_call *call);

/* Forget a call, or all, without done(). */
void gm_store_http_drop(struct gm_store_call *call);
void gm_store_http_cancel(struct gm_store_http *http);

/* Likewise, and free. */
void gm_store_http_close(struct gm_store_http *http);

/* Make a call, with a body that this takes over; a NULL body is for want of
 * memory, and the call ends with -ENOMEM.  @timeout_ms 0 is the store's.  Its
 * done() comes from gm_store_http_run(). */
void gm_store_http_call(struct gm_store_http *http, struct gm_store_call *call,
			json_t *body, uint64_t timeout_ms);

/* Do what is due.  Returns when to be called again. */
uint64_t gm_store_http_run(struct gm_store_http *http,
			   const struct epoll_event *events, int n);

/* A time to wait after failures, in ns. */
uint64_t gm_store_http_pause(unsigned int n_failures);

/* Are calls under way? */
bool gm_store_http_busy(const struct gm_store_http *http);

#endif
