/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/store/store_http.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/store/store_json.h"

#define TIMEOUT_MS   5000u
#define LEAST_MS     200u
#define PAUSE_NS     (50 * GM_STORE_NS_MS)
#define PAUSE_MAX_NS (400 * GM_STORE_NS_MS)
#define DOUBLINGS    3u
#define TOKENS       3u /* that may be refused, of one call */

uint64_t gm_store_http_pause(unsigned int n_failures)
{
	unsigned int doubled = n_failures < DOUBLINGS ? n_failures : DOUBLINGS;
	uint64_t ns = PAUSE_NS << doubled;

	ns = ns < PAUSE_MAX_NS ? ns : PAUSE_MAX_NS;
	return ns / 2 + gm_store_random() % ns;
}

/* ---- sockets ------------------------------------------------------------- */

static int on_socket(CURL *easy, curl_socket_t fd, int what, void *data,
		     void *socket_data)
{
	struct gm_store_http *http = data;
	struct epoll_event event = { .data.fd = fd };

	if (what == CURL_POLL_REMOVE) {
		epoll_ctl(http->store->epoll, EPOLL_CTL_DEL, fd, NULL);
		return 0;
	}
	event.events = ((what & CURL_POLL_IN) != 0 ? EPOLLIN : 0) |
		       ((what & CURL_POLL_OUT) != 0 ? EPOLLOUT : 0);
	if (epoll_ctl(http->store->epoll, EPOLL_CTL_MOD, fd, &event) != 0)
		epoll_ctl(http->store->epoll, EPOLL_CTL_ADD, fd, &event);
	return 0;
}

static int on_timer(CURLM *multi, long ms, void *data)
{
	struct gm_store_http *http = data;

	http->curl_ns = ms < 0 ? GM_STORE_NEVER
			       : gm_store_now() + (uint64_t)ms * GM_STORE_NS_MS;
	return 0;
}

/* ---- opening ------------------------------------------------------------- */

static bool is_endpoint(const char *text)
{
	size_t n = strncmp(text, "https://", 8) == 0  ? 8
		   : strncmp(text, "http://", 7) == 0 ? 7
						      : 0;

	return n > 0 && text[n] != '\0' &&
	       strpbrk(text + n, "/ \t\r\n@?#") == NULL;
}

/* Split at commas. */
static int add_endpoints(struct gm_store_http *http, const char *list,
			 char ret_why[GM_STORE_WHY_BYTES])
{
	char *copy = strdup(list), *rest = copy, *piece;
	int ret = 0;

	if (copy == NULL)
		return -ENOMEM;
	while (ret == 0 && (piece = strsep(&rest, ",")) != NULL) {
		piece += strspn(piece, " ");
		piece[strcspn(piece, " ")] = '\0';
		if (!is_endpoint(piece) ||
		    http->n_endpoints == GM_STORE_HTTP_ENDPOINTS) {
			snprintf(ret_why, GM_STORE_WHY_BYTES,
				 "%s is no endpoint, or one too many: give up "
				 "to %u of http://HOST:PORT or "
				 "https://HOST:PORT",
				 piece, GM_STORE_HTTP_ENDPOINTS);
			ret = -EINVAL;
			break;
		}
		http->endpoints[http->n_endpoints] = strdup(piece);
		if (http->endpoints[http->n_endpoints] != NULL)
			http->n_endpoints++;
		else
			ret = -ENOMEM;
	}
	free(copy);
	return ret;
}

static char *copy_of(const char *text, int *ret)
{
	char *copy = text != NULL ? strdup(text) : NULL;

	if (text != NULL && copy == NULL)
		*ret = -ENOMEM;
	return copy;
}

int gm_store_http_open(struct gm_store_http *http,
		       const struct gm_store_opts *opts,
		       char ret_why[GM_STORE_WHY_BYTES])
{
	int ret = curl_global_init(CURL_GLOBAL_DEFAULT) == 0 ? 0 : -ENOMEM;

	if (ret != 0)
		return ret;
	http->multi = curl_multi_init();
	http->curl_ns = GM_STORE_NEVER;
	http->timeout_ms =
		opts->timeout_ms != 0 ? opts->timeout_ms : TIMEOUT_MS;
	http->ca = copy_of(opts->ca, &ret);
	http->cert = copy_of(opts->cert, &ret);
	http->key = copy_of(opts->key, &ret);
	http->user = copy_of(opts->user, &ret);
	http->password = copy_of(opts->password, &ret);
	if (ret == 0 && http->multi == NULL)
		ret = -ENOMEM;
	if (ret == 0)
		ret = add_endpoints(http, opts->endpoints, ret_why);
	if (ret != 0) {
		gm_store_http_close(http);
		return ret;
	}
	/* Nodes do not all begin with the same one. */
	http->endpoint = gm_store_random() % http->n_endpoints;
	curl_multi_setopt(http->multi, CURLMOPT_SOCKETFUNCTION, on_socket);
	curl_multi_setopt(http->multi, CURLMOPT_SOCKETDATA, http);
	curl_multi_setopt(http->multi, CURLMOPT_TIMERFUNCTION, on_timer);
	curl_multi_setopt(http->multi, CURLMOPT_TIMERDATA, http);
	return 0;
}

/* ---- one call ------------------------------------------------------------ */

static void stop(struct gm_store_call *call)
{
	if (call->easy == NULL)
		return;
	curl_multi_remove_handle(call->http->multi, call->easy);
	curl_easy_cleanup(call->easy);
	curl_slist_free_all(call->headers);
	call->easy = NULL;
	call->headers = NULL;
	call->n = 0;
}

static void forget(struct gm_store_call *call)
{
	struct gm_store_call **at = &call->http->calls;

	stop(call);
	free(call->body);
	free(call->answer);
	call->body = NULL;
	call->answer = NULL;
	call->room = 0;
	while (*at != call)
		at = &(*at)->next;
	*at = call->next;
}

static void end(struct gm_store_call *call, int status, const json_t *answer)
{
	forget(call);
	call->done(call, status, answer);
}

/* Bytes come.  Returns fewer than there are to end the call. */
static size_t on_bytes(char *bytes, size_t one, size_t n, void *data)
{
	struct gm_store_call *call = data;

	if (n > GM_STORE_HTTP_MOST - call->n) {
		call->too_long = true;
		return 0;
	}
	if (call->n + n > call->room) {
		size_t room = 2 * (call->n + n) + 4096;
		char *answer = realloc(call->answer, room);

		if (answer == NULL)
			return 0;
		call->answer = answer;
		call->room = room;
	}
	memcpy(call->answer + call->n, bytes, n);
	call->n += n;
	return n;
}

static void set_secrets(struct gm_store_call *call)
{
	struct gm_store_http *http = call->http;

	if (http->ca != NULL)
		curl_easy_setopt(call->easy, CURLOPT_CAINFO, http->ca);
	if (http->cert != NULL)
		curl_easy_setopt(call->easy, CURLOPT_SSLCERT, http->cert);
	if (http->key != NULL)
		curl_easy_setopt(call->easy, CURLOPT_SSLKEY, http->key);
}

static bool add_header(struct gm_store_call *call, const char *text)
{
	struct curl_slist *list = curl_slist_append(call->headers, text);

	if (list == NULL)
		return false;
	call->headers = list;
	return true;
}

static bool set_headers(struct gm_store_call *call)
{
	const char *token = call->is_auth ? NULL : call->http->token;
	char *text = NULL;
	bool done = add_header(call, "Content-Type: application/json") &&
		    add_header(call, "Expect:") &&
		    /* A member without a leader answers no watch. */
		    add_header(call, "Grpc-Metadata-hasleader: true");

	if (token != NULL) {
		done = done && asprintf(&text, "Authorization: %s", token) > 0;
		done = done && add_header(call, text);
		free(text);
	}
	curl_easy_setopt(call->easy, CURLOPT_HTTPHEADER, call->headers);
	return done;
}

/* The time of an attempt.  A call that may be made again gets less than it has,
 * because another endpoint may answer when this one does not. */
static void set_times(struct gm_store_call *call, uint64_t now_ns)
{
	uint64_t left_ms = (call->until_ns - now_ns) / GM_STORE_NS_MS + 1;
	uint64_t attempt_ms = call->http->timeout_ms * 3 / 10;
	/* With the default less than the second after which the kernel asks for
	 * a connection again: what was asked while the network was cut must not
	 * hold up what is asked when it is back. */
	uint64_t connect_ms = call->http->timeout_ms / 6;

	if (call->again && left_ms > attempt_ms)
		left_ms = attempt_ms;
	curl_easy_setopt(call->easy, CURLOPT_CONNECTTIMEOUT_MS,
			 (long)(left_ms < connect_ms ? left_ms : connect_ms));
	if (call->line == NULL)
		curl_easy_setopt(call->easy, CURLOPT_TIMEOUT_MS, (long)left_ms);
}

/* Returns false if it has ended: out of memory. */
static bool make(struct gm_store_call *call, uint64_t now_ns)
{
	struct gm_store_http *http = call->http;
	char url[512];
	CURL *easy = curl_easy_init();

	call->endpoint = http->endpoint;
	call->easy = easy;
	call->n = 0;
	call->error[0] = '\0';
	call->is_late = false;
	call->too_long = false;
	snprintf(url, sizeof(url), "%s%s", http->endpoints[call->endpoint],
		 call->path);
	if (easy == NULL || !set_headers(call)) {
		curl_slist_free_all(call->headers);
		curl_easy_cleanup(easy);
		call->headers = NULL;
		call->easy = NULL;
		gm_store_fail(http->store, 0, "out of memory");
		end(call, -ENOMEM, NULL);
		return false;
	}
	curl_easy_setopt(easy, CURLOPT_PRIVATE, call);
	curl_easy_setopt(easy, CURLOPT_URL, url);
	curl_easy_setopt(easy, CURLOPT_POSTFIELDS, call->body);
	curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_bytes);
	curl_easy_setopt(easy, CURLOPT_WRITEDATA, call);
	curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, call->error);
	curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
#if LIBCURL_VERSION_NUM >= 0x075700
	/* A thread that waits for a name server is left behind: this one would
	 * have to wait for it. */
	curl_easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L);
#endif
	curl_easy_setopt(easy, CURLOPT_PROXY, "");
	curl_easy_setopt(easy, CURLOPT_HTTP_VERSION,
			 (long)CURL_HTTP_VERSION_1_1);
	curl_easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
	curl_easy_setopt(easy, CURLOPT_TCP_KEEPIDLE, 5L);
	curl_easy_setopt(easy, CURLOPT_TCP_KEEPINTVL, 2L);
	/* libcurl makes a call again if an old connection turns out to be
	 * closed, and cannot know whether it was carried out. */
	if (call->once)
		curl_easy_setopt(easy, CURLOPT_FRESH_CONNECT, 1L);
	set_secrets(call);
	set_times(call, now_ns);
	curl_multi_add_handle(http->multi, easy);
	return true;
}

/* ---- endpoints ----------------------------------------------------------- */

/* An endpoint is not well: go to the next, and end what comes from it. */
static void leave(struct gm_store_http *http, size_t endpoint)
{
	if (http->endpoint == endpoint) {
		http->endpoint = (endpoint + 1) % http->n_endpoints;
		http->n_failures++;
	}
	for (struct gm_store_call *call = http->calls; call != NULL;
	     call = call->next)
		if (call->easy != NULL && call->line != NULL &&
		    call->endpoint == endpoint)
			call->is_late = true;
}

/* The other endpoints are tried first, and then one after a pause. */
static uint64_t find_pause(const struct gm_store_http *http)
{
	if (http->n_failures < http->n_endpoints)
		return gm_store_http_pause(0) / 10;
	return gm_store_http_pause(
		(unsigned int)(http->n_failures / http->n_endpoints));
}

/* Make it again later, unless its time is over then. */
static void make_later(struct gm_store_call *call, int status, uint64_t now_ns)
{
	stop(call);
	call->due_ns = now_ns + find_pause(call->http);
	/* A last attempt in no time would only hide the reason. */
	if (call->due_ns + LEAST_MS * GM_STORE_NS_MS >= call->until_ns)
		end(call, status, NULL);
}

/* ---- tokens -------------------------------------------------------------- */

static void on_token(struct gm_store_call *call, int status,
		     const json_t *answer)
{
	struct gm_store_http *http = call->http;
	const char *token = json_string_value(json_object_get(answer, "token"));
	struct gm_store_call *other, *next;

	http->is_asking = false;
	if (status == 0 && token != NULL) {
		http->token = strdup(token);
		return;
	}
	if (status == 0)
		status = gm_store_fail(http->store, -EPROTO,
				       "etcd gives no token");
	memcpy(http->no_token, http->store->why, sizeof(http->no_token));
	/* Those who wait for it were not carried out. */
	for (other = http->calls; other != NULL; other = next) {
		next = other->next;
		if (other->easy != NULL || other->is_auth)
			continue;
		if (status == -EHOSTUNREACH || status == -ETIMEDOUT)
			make_later(other, -EHOSTUNREACH, gm_store_now());
		else
			end(other, status, NULL);
	}
}

static void ask_for_token(struct gm_store_http *http)
{
	json_t *body;

	if (http->is_asking)
		return;
	http->is_asking = true;
	body = json_pack("{s:s, s:s}", "name", http->user, "password",
			 http->password != NULL ? http->password : "");
	http->auth = (struct gm_store_call){ .path = "/v3/auth/authenticate",
					     .again = true,
					     .is_auth = true,
					     .done = on_token };
	gm_store_http_call(http, &http->auth, body, 0);
}

/* ---- answers ------------------------------------------------------------- */

static const char *message_of(const json_t *answer)
{
	const char *text =
		json_string_value(json_object_get(answer, "message"));

	return text != NULL ? text : "no reason";
}

/* Take what etcd's gateway says itself, or a proxy: a line of text. */
static const char *line_of(const struct gm_store_call *call, char text[128])
{
	size_t n = call->n < 127 ? call->n : 127;

	memcpy(text, call->n > 0 ? call->answer : "", n);
	text[n] = '\0';
	text[strcspn(text, "\r\n")] = '\0';
	return text[0] != '\0' ? text : "no reason";
}

/* etcd has refused a call.  Returns the status. */
static int refusal(struct gm_store_call *call, long http_status,
		   const json_t *answer)
{
	struct gm_store *store = call->http->store;
	const char *where = call->http->endpoints[call->endpoint];
	char line[128];
	const char *why = json_is_object(answer) ? message_of(answer)
						 : line_of(call, line);
	json_int_t code = json_integer_value(json_object_get(answer, "code"));

	gm_store_fail(store, 0, "%s: %s (HTTP %ld)", where, why, http_status);
	if (strstr(why, "lease not found") != NULL)
		return -EOWNERDEAD;
	if (strstr(why, "compacted") != NULL)
		return -ERANGE;
	if (strstr(why, "space exceeded") != NULL)
		return gm_store_fail(store, -ENOSPC,
				     "%s: %s: compact and defragment it, and "
				     "disarm the alarm (etcdctl)",
				     where, why);
	if (strstr(why, "user name is empty") != NULL)
		return gm_store_fail(store, -EACCES,
				     "%s: %s: give a user and a password",
				     where, why);
	if (strstr(why, "authentication failed") != NULL)
		return gm_store_fail(store, -EACCES,
				     "%s: %s: etcd has no user %s with this "
				     "password (etcd-node)",
				     where, why, call->http->user);
	if (strstr(why, "CommonName") != NULL)
		return gm_store_fail(store, -EACCES,
				     "%s: %s: give this node a certificate "
				     "without a common name",
				     where, why);
	if (code == GM_STORE_HTTP_DENIED || http_status == 403)
		return gm_store_fail(store, -EACCES,
				     "%s: %s: give the user the rights of this "
				     "node and cluster (etcd-node)",
				     where, why);
	if (code == GM_STORE_HTTP_UNAVAILABLE ||
	    code == GM_STORE_HTTP_DEADLINE || http_status >= 500)
		return -ETIMEDOUT;
	return -EPROTO;
}

static bool is_token_refused(const struct gm_store_call *call, long http_status,
			     const json_t *answer)
{
	return !call->is_auth && call->http->user != NULL &&
	       (http_status == 401 ||
		json_integer_value(json_object_get(answer, "code")) ==
			GM_STORE_HTTP_UNAUTHENTICATED ||
		strstr(message_of(answer), "invalid auth token") != NULL ||
		strstr(message_of(answer), "user name is empty") != NULL);
}

/* The answer is there. */
static void take_answer(struct gm_store_call *call, long http_status)
{
	struct gm_store_http *http = call->http;
	json_t *answer = gm_store_json_parse(
		call->answer != NULL ? call->answer : "", call->n);
	uint64_t now_ns = gm_store_now();
	int status = 0;

	if (http_status != 200) {
		if (is_token_refused(call, http_status, answer) &&
		    call->n_tokens++ < TOKENS) {
			/* The call was not carried out. */
			free(http->token);
			http->token = NULL;
			json_decref(answer);
			make_later(call, -EACCES, now_ns);
			return;
		}
		status = refusal(call, http_status, answer);
	} else if (!json_is_object(answer)) {
		/* The write was perhaps carried out. */
		status = gm_store_fail(http->store,
				       call->once ? -ETIMEDOUT : -EPROTO,
				       "%s: no JSON object: is it etcd?",
				       http->endpoints[call->endpoint]);
	}
	if (status == 0) {
		http->n_failures = 0;
		http->good_ns = now_ns;
	} else if (status == -ETIMEDOUT || !json_is_object(answer)) {
		leave(http, call->endpoint);
	}
	if (status == -ETIMEDOUT && call->again)
		make_later(call, status, now_ns);
	else
		end(call, status, status == 0 ? answer : NULL);
	json_decref(answer);
}

/* Certificates do not fit: nothing is better a moment later. */
static bool is_refused(CURLcode code)
{
	return code == CURLE_PEER_FAILED_VERIFICATION ||
	       code == CURLE_SSL_CERTPROBLEM ||
	       code == CURLE_SSL_CACERT_BADFILE;
}

static bool was_not_sent(CURLcode code)
{
	return is_refused(code) || code == CURLE_COULDNT_RESOLVE_HOST ||
	       code == CURLE_COULDNT_CONNECT || code == CURLE_SSL_CONNECT_ERROR;
}

static void take_failure(struct gm_store_call *call, CURLcode code)
{
	struct gm_store_http *http = call->http;
	const char *where = http->endpoints[call->endpoint];
	curl_off_t connected = 0;
	bool wants_cert;
	int status;

	if (call->too_long) {
		gm_store_fail(http->store, 0,
			      "%s: an answer of more than %u "
			      "bytes",
			      where, GM_STORE_HTTP_MOST);
		end(call, -E2BIG, NULL);
		return;
	}
	curl_easy_getinfo(call->easy, CURLINFO_PRETRANSFER_TIME_T, &connected);
	status = was_not_sent(code) || connected == 0 ? -EHOSTUNREACH
						      : -ETIMEDOUT;
	wants_cert = http->cert == NULL &&
		     strstr(call->error, "alert") != NULL &&
		     strstr(call->error, "certificate") != NULL;
	gm_store_fail(http->store, 0, "%s: %s%s", where,
		      call->error[0] != '\0' ? call->error
					     : curl_easy_strerror(code),
		      wants_cert ? ": give cert and key" : "");
	leave(http, call->endpoint);
	if (is_refused(code) && http->n_failures >= http->n_endpoints)
		end(call, -EACCES, NULL);
	else if (call->line == NULL && (status == -EHOSTUNREACH || call->again))
		make_later(call, status, gm_store_now());
	else
		end(call, status, NULL);
}

/* A line that says why there are no more. */
static int stream_error(struct gm_store_call *call, const json_t *value)
{
	const json_t *error = json_object_get(value, "error");

	return json_is_object(error)
		       ? gm_store_fail(call->http->store, -ETIMEDOUT, "%s: %s",
				       call->http->endpoints[call->endpoint],
				       message_of(error))
		       : 0;
}

/* Take the lines that are whole.  Returns whether more may come; the call may
 * not be used otherwise. */
static bool take_lines(struct gm_store_call *call)
{
	size_t from = 0;
	char *newline;

	while (from < call->n && (newline = memchr(call->answer + from, '\n',
						   call->n - from)) != NULL) {
		size_t n = (size_t)(newline - call->answer) - from;
		json_t *value = gm_store_json_parse(call->answer + from, n);
		int status = 0;
		bool more;

		if (value == NULL)
			status = gm_store_fail(
				call->http->store, -EPROTO,
				"%s: a line is no JSON",
				call->http->endpoints[call->endpoint]);
		else
			status = stream_error(call, value);
		more = status == 0 && call->line(call, value);
		json_decref(value);
		if (!more) {
			end(call, status, NULL);
			return false;
		}
		call->http->n_failures = 0;
		call->http->good_ns = gm_store_now();
		from += n + 1;
	}
	memmove(call->answer, call->answer + from, call->n - from);
	call->n -= from;
	return true;
}

/* ---- running ------------------------------------------------------------- */

void gm_store_http_call(struct gm_store_http *http, struct gm_store_call *call,
			json_t *body, uint64_t timeout_ms)
{
	uint64_t now_ns = gm_store_now();

	call->http = http;
	call->body = body != NULL ? json_dumps(body, JSON_COMPACT) : NULL;
	json_decref(body);
	call->due_ns = now_ns;
	call->until_ns =
		now_ns + (timeout_ms != 0 ? timeout_ms : http->timeout_ms) *
				 GM_STORE_NS_MS;
	call->next = http->calls;
	http->calls = call;
}

static void take_ends(struct gm_store_http *http)
{
	CURLMsg *message;
	int left;

	while ((message = curl_multi_info_read(http->multi, &left)) != NULL) {
		struct gm_store_call *call = NULL;
		CURLcode code = message->data.result;
		long status = 0;

		if (message->msg != CURLMSG_DONE)
			continue;
		curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE,
				  &call);
		curl_easy_getinfo(message->easy_handle, CURLINFO_RESPONSE_CODE,
				  &status);
		if (code != CURLE_OK) {
			take_failure(call, code);
		} else if (call->line == NULL || status != 200) {
			take_answer(call, status);
		} else if (take_lines(call)) {
			gm_store_fail(http->store, 0,
				      "%s: it has ended the watch",
				      http->endpoints[call->endpoint]);
			end(call, -ETIMEDOUT, NULL);
		}
	}
}

/* Why a call's time passed before it was made. */
static const char *why_late(const struct gm_store_http *http)
{
	if (http->user == NULL || http->token != NULL)
		return "the time of the request is over";
	return http->no_token[0] != '\0' ? http->no_token : "no token comes";
}

/* A call that waits, whose time has come.  Returns whether it has ended. */
static bool make_due(struct gm_store_http *http, struct gm_store_call *call,
		     uint64_t now_ns)
{
	if (call->body == NULL) {
		gm_store_fail(http->store, 0, "out of memory");
		end(call, -ENOMEM, NULL);
		return true;
	}
	/* This process may have stood still. */
	if (now_ns >= call->until_ns) {
		gm_store_fail(http->store, 0, "%s", why_late(http));
		end(call, -EHOSTUNREACH, NULL);
		return true;
	}
	if (call->is_auth || http->user == NULL || http->token != NULL)
		return !make(call, now_ns);
	ask_for_token(http);
	return false;
}

/* Returns whether it has ended. */
static bool look_at_call(struct gm_store_http *http, struct gm_store_call *call,
			 uint64_t now_ns)
{
	long status = 0;

	if (call->easy == NULL)
		return now_ns >= call->due_ns && make_due(http, call, now_ns);
	if (call->is_late) {
		gm_store_fail(http->store, 0, "%s: it does not answer in time",
			      http->endpoints[call->endpoint]);
		end(call, -ETIMEDOUT, NULL);
		return true;
	}
	if (call->line == NULL)
		return false;
	curl_easy_getinfo(call->easy, CURLINFO_RESPONSE_CODE, &status);
	return status == 200 && !take_lines(call);
}

static void look_at_calls(struct gm_store_http *http)
{
	struct gm_store_call *call = http->calls;
	uint64_t now_ns = gm_store_now();

	/* The end of one may be that of others. */
	while (call != NULL)
		call = look_at_call(http, call, now_ns) ? http->calls
							: call->next;
}

static uint64_t find_due(const struct gm_store_http *http)
{
	uint64_t due_ns = http->curl_ns;

	for (const struct gm_store_call *call = http->calls; call != NULL;
	     call = call->next) {
		bool waits = http->user != NULL && http->token == NULL &&
			     !call->is_auth && http->is_asking;
		uint64_t at_ns = waits ? call->until_ns : call->due_ns;

		if (call->easy == NULL && at_ns < due_ns)
			due_ns = at_ns;
	}
	return due_ns;
}

uint64_t gm_store_http_run(struct gm_store_http *http,
			   const struct epoll_event *events, int n)
{
	int running;

	for (int i = 0; i < n; i++) {
		int mask =
			(events[i].events & EPOLLIN ? CURL_CSELECT_IN : 0) |
			(events[i].events & EPOLLOUT ? CURL_CSELECT_OUT : 0) |
			(events[i].events & (EPOLLERR | EPOLLHUP)
				 ? CURL_CSELECT_ERR
				 : 0);

		curl_multi_socket_action(http->multi, events[i].data.fd, mask,
					 &running);
	}
	if (gm_store_now() >= http->curl_ns) {
		http->curl_ns = GM_STORE_NEVER;
		curl_multi_socket_action(http->multi, CURL_SOCKET_TIMEOUT, 0,
					 &running);
	}
	take_ends(http);
	look_at_calls(http);
	return find_due(http);
}

bool gm_store_http_busy(const struct gm_store_http *http)
{
	return http->calls != NULL;
}

void gm_store_http_leave(struct gm_store_call *call)
{
	if (call->easy != NULL)
		leave(call->http, call->endpoint);
}

void gm_store_http_drop(struct gm_store_call *call)
{
	forget(call);
}

void gm_store_http_cancel(struct gm_store_http *http)
{
	while (http->calls != NULL)
		forget(http->calls);
	http->is_asking = false;
}

void gm_store_http_close(struct gm_store_http *http)
{
	gm_store_http_cancel(http);
	curl_multi_cleanup(http->multi);
	for (size_t i = 0; i < http->n_endpoints; i++)
		free(http->endpoints[i]);
	free(http->ca);
	free(http->cert);
	free(http->key);
	free(http->user);
	free(http->password);
	free(http->token);
	curl_global_cleanup();
}
