/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * A store in etcd whose server is killed, is slow, is silent or lies; a member
 * of three that is lost; certificates, users and passwords.
 */

#include <dlfcn.h>
#include <errno.h>
#include <netdb.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "tests/support/tap.h"
#include "tests/support/nodes/etcd_server.h"
#include "tests/support/nodes/store_rig.h"

#define ROOT "/gpumap/v1/test/"

static struct etcd_server server;
static struct etcd_way way;
static const struct gm_store_opts direct = { .endpoints = server.url,
					     .root = ROOT };

/* ---- the server ---------------------------------------------------------- */

/* A killed server comes again: nothing that was acknowledged is lost, and a
 * lease goes on. */
static void a_killed_server_comes_again(void)
{
	struct gm_store_opts opts = { .endpoints = server.url, .root = ROOT };
	struct gm_store *store = rig_open(&opts);
	struct rig_watch watch;
	struct rig_lease lease;
	unsigned int n;
	char key[32];

	rig_watch(store, &watch, "");
	OK(rig_resyncs(store, &watch, 1));
	OK(rig_lease(store, &lease, 30000));
	EQ(rig_put(store, "leased", "1", &lease.lease, NULL), 0);
	for (int round = 0; round < 3; round++) {
		snprintf(key, sizeof(key), "k/%d", round);
		EQ(rig_put(store, key, key, NULL, NULL), 0);
		n = watch.n_cuts;
		etcd_kill(&server);
		OK(rig_cuts(store, &watch, n + 1));
		n = watch.n_resyncs;
		etcd_start(&server);
		OK(rig_resyncs(store, &watch, n + 1));
		STR(rig_seen(&watch, key), key);
	}
	EQ(watch.values.n, 4);
	EQ(watch.n_puts, 4);
	EQ(lease.n_lost, 0);
	EQ(rig_put(store, "k/3", "3", &lease.lease, NULL), 0);
	OK(rig_sees(store, &watch, "k/3", "3"));
	/* A server without its data is another cluster. */
	n = watch.n_resyncs;
	etcd_kill(&server);
	etcd_remove(&server);
	EQ(mkdir(server.data, 0700), 0);
	etcd_start(&server);
	OK(rig_resyncs(store, &watch, n + 1));
	EQ(watch.values.n, 0);
	EQ(watch.n_deletes, 5);
	EQ(rig_put(store, "k/4", "4", NULL, NULL), 0);
	OK(rig_sees(store, &watch, "k/4", "4"));
	rig_remove_all(store);
	OK(rig_sees(store, &watch, "k/4", ""));
	gm_store_close(store);
	rig_watch_end(&watch);
}

/* Every request takes a second: all works, and no lease is lost. */
static void a_slow_server_serves(void)
{
	struct gm_store_opts opts = { .endpoints = way.url, .root = ROOT };
	struct gm_store *store, *other = rig_open(&direct);
	struct rig_watch watch;
	struct rig_lease lease;
	uint64_t since_ns;

	etcd_way_open(&way, 1000);
	store = rig_open(&opts);
	rig_watch(store, &watch, "");
	OK(rig_lease(store, &lease, 5000));
	EQ(rig_put(store, "slow", "1", &lease.lease, NULL), 0);
	OK(rig_sees(store, &watch, "slow", "1"));
	OK(rig_resyncs(store, &watch, 1));
	since_ns = rig_now();
	EQ(rig_put(other, "quick", "1", NULL, NULL), 0);
	OK(rig_sees(store, &watch, "quick", "1"));
	NOTE("seen after %u ms",
	     (unsigned int)((rig_now() - since_ns) / 1000000));
	rig_run(store, 3000);
	EQ(lease.n_lost, 0);
	EQ(watch.n_cuts, 0);
	rig_remove_all(other);
	gm_store_close(other);
	gm_store_close(store);
	rig_watch_end(&watch);
	etcd_way_close(&way);
}

/* A server that says nothing any more is noticed without any request. */
static void a_silent_server_is_left(void)
{
	struct gm_store_opts opts = { .endpoints = way.url,
				      .root = ROOT,
				      .timeout_ms = 1000 };
	struct gm_store *store = rig_open(&opts);
	struct rig_watch watch;
	unsigned int n;

	etcd_way_open(&way, 0);
	rig_watch(store, &watch, "");
	OK(rig_resyncs(store, &watch, 1));
	n = watch.n_cuts;
	etcd_way_signal(&way, SIGSTOP);
	OK(rig_cuts(store, &watch, n + 1));
	NOTE("%s", watch.why);
	n = watch.n_resyncs;
	etcd_way_signal(&way, SIGCONT);
	OK(rig_resyncs(store, &watch, n + 1));
	gm_store_close(store);
	rig_watch_end(&watch);
	etcd_way_close(&way);
}

static void keep(struct gm_store_write *write,
		 const struct gm_store_result *result)
{
	*(int *)write->value = result->status;
}

static bool is_kept(void *data)
{
	return *(const int *)data != 1;
}

/* The process stands still while a request waits for its next attempt, and its
 * time is over when it goes on: a server that accepts and says nothing does not
 * keep it. */
static void a_request_whose_time_is_over_ends(void)
{
	struct gm_store_opts opts = { .endpoints = way.url,
				      .root = ROOT,
				      .timeout_ms = 3000 };
	struct gm_store *store = rig_open(&opts);
	int status = 1;
	struct gm_store_write write = {
		.key = "key", .value = &status, .bytes = 1, .done = keep
	};

	EQ(gm_store_cas(store, &write), 0);
	rig_run(store, 100); /* nothing listens there */
	EQ(status, 1);
	usleep(3100000);
	etcd_way_open(&way, 0);
	etcd_way_signal(&way, SIGSTOP);
	OK(rig_until(store, is_kept, &status));
	EQ(status, -EHOSTUNREACH);
	gm_store_close(store);
	etcd_way_signal(&way, SIGCONT);
	etcd_way_close(&way);
}

/* A proxy that keeps the answers of watches back is no way to changes: the
 * watch is not whole, and says so. */
static void a_watch_that_says_nothing_is_not_whole(void)
{
	struct gm_store_opts opts = { .endpoints = way.url,
				      .root = ROOT,
				      .timeout_ms = 3000 };
	struct gm_store *store;
	struct rig_watch watch;

	etcd_way_stop(&way, "POST /v3/watch");
	store = rig_open(&opts);
	rig_watch(store, &watch, "");
	OK(rig_cuts(store, &watch, 1));
	EQ(watch.n_resyncs, 0);
	OK(strstr(watch.why, "proxy") != NULL);
	EQ(rig_put(store, "key", "1", NULL, NULL), 0);
	EQ(rig_put(store, "key", NULL, NULL, NULL), 0);
	gm_store_close(store);
	rig_watch_end(&watch);
	etcd_way_close(&way);
}

/* ---- names --------------------------------------------------------------- */

static sem_t names_are_told;
static atomic_int n_asked, n_untold;

/* In place of libc's: the name server of one name does not answer. */
__attribute__((visibility("default"))) int
getaddrinfo(const char *name, const char *service, const struct addrinfo *hints,
	    struct addrinfo **ret_list)
{
	static int (*libc)(const char *, const char *, const struct addrinfo *,
			   struct addrinfo **);
	struct timespec limit;

	if (libc == NULL)
		libc = dlsym(RTLD_NEXT, "getaddrinfo");
	if (name == NULL || strcmp(name, "silent.test") != 0)
		return libc(name, service, hints, ret_list);
	n_asked++;
	clock_gettime(CLOCK_REALTIME, &limit);
	limit.tv_sec += 30;
	if (sem_timedwait(&names_are_told, &limit) != 0)
		n_untold++;
	sem_post(&names_are_told);
	return EAI_AGAIN;
}

/* The option for it is of libcurl 7.87. */
static bool curl_leaves_names(void)
{
	const char *(*curl_version)(void) = dlsym(RTLD_DEFAULT, "curl_version");
	unsigned int major = 0, minor = 0;

	return curl_version != NULL &&
	       sscanf(curl_version(), "libcurl/%u.%u", &major, &minor) == 2 &&
	       (major > 7 || (major == 7 && minor >= 87));
}

/* A request ends while the name server is silent: nothing waits for it. */
static void a_silent_name_server_is_not_waited_for(void)
{
	struct gm_store_opts opts = { .endpoints = "http://silent.test:1",
				      .root = ROOT,
				      .timeout_ms = 600 };
	struct gm_store *store;

	if (!curl_leaves_names()) {
		LACK("libcurl 7.87", 1, "this libcurl waits for names");
		return;
	}
	store = rig_open(&opts);
	EQ(sem_init(&names_are_told, 0, 0), 0);
	EQ(rig_put(store, "key", "1", NULL, NULL), -EHOSTUNREACH);
	gm_store_close(store);
	OK(n_asked > 0);
	EQ(n_untold, 0);
	sem_post(&names_are_told);
}

/* ---- three members ------------------------------------------------------- */

static void a_lost_member_is_replaced(void)
{
	struct etcd_members members;
	struct gm_store_opts opts = { .endpoints = members.endpoints,
				      .root = ROOT,
				      .timeout_ms = 2000 };
	struct gm_store *store;
	struct rig_watch watch;
	struct rig_lease lease;
	char key[8], value[16];

	etcd_members_make(&members);
	for (int i = 0; i < ETCD_MEMBERS; i++)
		etcd_start(&members.of[i]);
	store = rig_open(&opts);
	rig_watch(store, &watch, "");
	OK(rig_resyncs(store, &watch, 1));
	OK(rig_lease(store, &lease, 10000));
	EQ(rig_put(store, "leased", "1", &lease.lease, NULL), 0);
	/* Each in turn, the leader among them, stops and goes on.  A write that
	 * was given up may be done later, so each has a key of its own. */
	for (int i = 0; i < ETCD_MEMBERS; i++) {
		kill(members.of[i].pid, SIGSTOP);
		snprintf(key, sizeof(key), "k%d", i);
		snprintf(value, sizeof(value), "%d", i);
		while (rig_put(store, key, value, NULL, NULL) != 0)
			rig_run(store, 20);
		OK(rig_sees(store, &watch, key, value));
		kill(members.of[i].pid, SIGCONT);
	}
	for (int i = 0; i < ETCD_MEMBERS; i++) {
		etcd_kill(&members.of[i]);
		snprintf(key, sizeof(key), "d%d", i);
		snprintf(value, sizeof(value), "killed %d", i);
		while (rig_put(store, key, value, NULL, NULL) != 0)
			rig_run(store, 20);
		OK(rig_sees(store, &watch, key, value));
		etcd_start(&members.of[i]);
		OK(etcd_listens(&members.of[i]));
	}
	EQ(lease.n_lost, 0);
	STR(rig_seen(&watch, "leased"), "1");
	NOTE("%u cuts, %u lists", watch.n_cuts, watch.n_resyncs);
	gm_store_close(store);
	rig_watch_end(&watch);
	for (int i = 0; i < ETCD_MEMBERS; i++)
		etcd_remove(&members.of[i]);
}

/* ---- liars --------------------------------------------------------------- */

#define ANSWER(body_) "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" body_

/* An answer that makes no sense ends the request, with a reason. */
static void a_liar_is_not_believed(const char *answer, unsigned int n_times)
{
	struct etcd_way liar;
	struct gm_store_opts opts = { .endpoints = liar.url,
				      .root = ROOT,
				      .timeout_ms = n_times > 1 ? 60000 : 300 };
	struct gm_store *store;
	struct rig_watch watch;
	/* Without an event(): it is never granted. */
	struct rig_lease lease = { .lease = { .ttl_ms = 1000 } };
	struct rig_result result;
	uint64_t revision;
	char value[GM_STORE_VALUE_BYTES + 1];

	etcd_way_make(&liar, 0);
	etcd_liar_open(&liar, answer, n_times);
	store = rig_open(&opts);
	rig_watch(store, &watch, "");
	EQ(gm_store_lease(store, &lease.lease), 0);
	OK(rig_put(store, "k", "1", NULL, &result) < 0);
	OK(result.why[0] != '\0');
	NOTE("%s", result.why);
	if (n_times > 1)
		EQ(result.status, -E2BIG);
	OK(rig_cas(store, "k", "1", 0, NULL) < 0);
	OK(rig_get(store, "k", value, &revision) < 0);
	EQ(watch.n_puts, 0);
	EQ(watch.n_resyncs, 0);
	gm_store_close(store);
	rig_watch_end(&watch);
	etcd_way_close(&liar);
}

/* Words of etcd's gateway itself, which are no JSON. */
static void a_line_of_text_is_said(void)
{
	struct etcd_way liar;
	struct gm_store_opts opts = { .endpoints = liar.url,
				      .root = ROOT,
				      .timeout_ms = 10000 };
	struct gm_store *store;
	struct rig_result result;

	etcd_way_make(&liar, 0);
	etcd_liar_open(&liar,
		       "HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n"
		       "CommonName of client sending a request against gateway "
		       "will be ignored and not used as expected\n",
		       1);
	store = rig_open(&opts);
	EQ(rig_put(store, "k", "1", NULL, &result), -EACCES);
	if (!OK(strstr(result.why, "will be ignored") != NULL &&
		strstr(result.why, "without a common name") != NULL))
		NOTE("%s", result.why);
	gm_store_close(store);
	etcd_way_close(&liar);
}

/* A 200 without sense may be that of a proxy: the write may have been done. */
static void a_write_may_be_behind_nonsense(void)
{
	struct etcd_way liar;
	struct gm_store_opts opts = { .endpoints = liar.url,
				      .root = ROOT,
				      .timeout_ms = 10000 };
	struct gm_store *store;
	struct rig_result result;

	etcd_way_make(&liar, 0);
	etcd_liar_open(&liar, ANSWER("[1]"), 1);
	store = rig_open(&opts);
	EQ(rig_cas(store, "k", "1", 0, &result), -ETIMEDOUT);
	OK(strstr(result.why, "is it etcd?") != NULL);
	gm_store_close(store);
	etcd_way_close(&liar);
}

static void liars(void)
{
	a_write_may_be_behind_nonsense();
	a_line_of_text_is_said();
	a_liar_is_not_believed("what?\n", 1);
	a_liar_is_not_believed("HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{",
			       1);
	a_liar_is_not_believed("HTTP/1.1 301 Moved\r\nLocation: "
			       "http://127.0.0.1:1/\r\nContent-Length: 0\r\n"
			       "Connection: close\r\n\r\n",
			       1);
	a_liar_is_not_believed(ANSWER(""), 1);
	a_liar_is_not_believed(ANSWER("[1]"), 1);
	a_liar_is_not_believed(ANSWER("{}"), 1);
	a_liar_is_not_believed(ANSWER("{\"header\":{\"revision\":\"-5\"}}"), 1);
	a_liar_is_not_believed(
		ANSWER("{\"header\":{\"revision\":\"99999999999999999999\"},"
		       "\"kvs\":7,\"responses\":[[]],\"ID\":{},\"TTL\":5}"),
		1);
	a_liar_is_not_believed(ANSWER("{\"a\":\"0123456789abcdef") "0123456789",
			       600000);
	a_liar_is_not_believed(ANSWER("[[[[[[[[[[[[[[[["), 600000);
}

/* ---- TLS ----------------------------------------------------------------- */

static bool make_certificates(const char *folder)
{
	char command[1024];

	snprintf(command, sizeof(command),
		 "cd '%s' && for n in server other; do openssl req -x509 "
		 "-newkey rsa:2048 -nodes -days 2 -subj /CN=$n "
		 "-addext subjectAltName=IP:127.0.0.1 -keyout $n.key "
		 "-out $n.pem >/dev/null 2>&1 || exit; done",
		 folder);
	return system(command) == 0;
}

/* A request that has no way in: its reason has the word. */
static void tls_refuses(const struct gm_store_opts *opts, const char *word)
{
	struct gm_store *store = rig_open(opts);
	struct rig_result result;

	EQ(rig_put(store, "k", "2", NULL, &result), -EACCES);
	if (!OK(strstr(result.why, word) != NULL))
		NOTE("%s", result.why);
	gm_store_close(store);
}

/* The same of one that is tried until its time is up, in which a busy machine
 * may not hear of the reason. */
static void no_way_in(const struct gm_store_opts *opts, const char *word)
{
	struct gm_store *store = rig_open(opts);
	struct rig_result result;

	for (int i = 0; i < 20; i++) {
		OK(rig_put(store, "k", "2", NULL, &result) < 0);
		if (strstr(result.why, word) != NULL)
			break;
	}
	if (!OK(strstr(result.why, word) != NULL))
		NOTE("%s", result.why);
	gm_store_close(store);
}

static void certificates_are_checked(void)
{
	struct etcd_server secure;
	char pem[128], key[128], other[128], other_key[128];
	struct gm_store_opts opts = { .endpoints = secure.url,
				      .root = ROOT,
				      .ca = pem,
				      .cert = pem,
				      .key = key,
				      .timeout_ms = 3000 };
	struct gm_store *store;
	struct rig_watch watch;

	etcd_make(&secure, 8);
	if (!make_certificates(secure.data)) {
		SKIP(1, "openssl makes no certificates");
		etcd_remove(&secure);
		return;
	}
	snprintf(secure.url, sizeof(secure.url), "https://127.0.0.1:%u",
		 secure.port);
	snprintf(pem, sizeof(pem), "%s/server.pem", secure.data);
	snprintf(key, sizeof(key), "%s/server.key", secure.data);
	snprintf(other, sizeof(other), "%s/other.pem", secure.data);
	snprintf(other_key, sizeof(other_key), "%s/other.key", secure.data);
	memcpy(secure.more,
	       (const char *[]){ "--cert-file", pem, "--key-file", key,
				 "--client-cert-auth", "--trusted-ca-file",
				 pem },
	       7 * sizeof(char *));
	etcd_start(&secure);
	OK(etcd_listens(&secure));
	store = rig_open(&opts);
	rig_watch(store, &watch, "");
	while (rig_put(store, "k", "1", NULL, NULL) != 0)
		rig_run(store, 20);
	OK(rig_sees(store, &watch, "k", "1"));
	gm_store_close(store);
	rig_watch_end(&watch);
	/* The server wants a certificate, before it gives a token. */
	opts.cert = opts.key = NULL;
	no_way_in(&opts, "give cert and key");
	opts.user = "node";
	opts.password = "secret";
	no_way_in(&opts, "give cert and key");
	opts.user = opts.password = NULL;
	opts.cert = pem;
	opts.key = key;
	opts.ca = other;
	tls_refuses(&opts, "certificate");
	opts.ca = "/nonexistent";
	tls_refuses(&opts, "/nonexistent");
	opts.ca = pem;
	opts.key = "/nonexistent.key";
	tls_refuses(&opts, "/nonexistent.key");
	etcd_remove(&secure);
}

/* ---- users --------------------------------------------------------------- */

/* Let the user node, with the password secret, and no other have what is below
 * ROOT. */
static void lock(struct etcd_server *locked)
{
	etcd_make(locked, 9);
	locked->more[0] = "--auth-token-ttl";
	locked->more[1] = "1";
	etcd_start(locked);
	OK(etcd_listens(locked));
	while (etcd_tell(locked, "/v3/auth/user/add",
			 "{\"name\":\"root\",\"password\":\"r\"}") != 0)
		usleep(20000);
	EQ(etcd_tell(locked, "/v3/auth/role/add", "{\"name\":\"root\"}"), 0);
	EQ(etcd_tell(locked, "/v3/auth/user/grant",
		     "{\"user\":\"root\",\"role\":\"root\"}"),
	   0);
	EQ(etcd_tell(locked, "/v3/auth/user/add",
		     "{\"name\":\"node\",\"password\":\"secret\"}"),
	   0);
	EQ(etcd_tell(locked, "/v3/auth/role/add", "{\"name\":\"nodes\"}"), 0);
	/* To read and write "/gpumap/v1/test/" to "/gpumap/v1/test0" */
	EQ(etcd_tell(locked, "/v3/auth/role/grant",
		     "{\"name\":\"nodes\",\"perm\":{\"permType\":\"READWRITE\","
		     "\"key\":\"L2dwdW1hcC92MS90ZXN0Lw==\","
		     "\"range_end\":\"L2dwdW1hcC92MS90ZXN0MA==\"}}"),
	   0);
	EQ(etcd_tell(locked, "/v3/auth/user/grant",
		     "{\"user\":\"node\",\"role\":\"nodes\"}"),
	   0);
	EQ(etcd_tell(locked, "/v3/auth/enable", "{}"), 0);
}

/* A put is refused, for this reason. */
static void is_denied(const struct gm_store_opts *opts, const char *why)
{
	struct gm_store *store = rig_open(opts);
	struct rig_result result;

	EQ(rig_put(store, "k", "1", NULL, &result), -EACCES);
	OK(strstr(result.why, why) != NULL);
	gm_store_close(store);
}

static void users_have_passwords(void)
{
	struct etcd_server locked;
	struct gm_store_opts opts = { .endpoints = locked.url,
				      .root = ROOT,
				      .user = "node",
				      .password = "secret",
				      .timeout_ms = 10000 };
	struct rig_result result;
	struct rig_watch watch;
	struct gm_store *store;

	lock(&locked);
	store = rig_open(&opts);
	rig_watch(store, &watch, "");
	EQ(rig_put(store, "k", "1", NULL, &result), 0);
	OK(rig_sees(store, &watch, "k", "1"));
	/* The token ends, and another is got. */
	rig_run(store, 2500);
	EQ(rig_put(store, "k", "2", NULL, &result), 0);
	OK(rig_sees(store, &watch, "k", "2"));
	gm_store_close(store);
	rig_watch_end(&watch);

	opts.root = "/other/";
	is_denied(&opts, "permission denied: give the user the rights of this");
	opts.root = ROOT;
	opts.password = "wrong";
	is_denied(&opts, "invalid user ID or password: etcd has no user node");
	opts.user = NULL;
	is_denied(&opts, "give a user and a password");
	etcd_remove(&locked);
}

TAP_CASE()
{
	if (etcd_lack() != NULL) {
		LACK("etcd", 1, etcd_lack());
		return tap_done();
	}
	etcd_make(&server, 0);
	etcd_start(&server);
	OK(etcd_serves(&server));
	etcd_way_make(&way, server.port);
	a_killed_server_comes_again();
	a_slow_server_serves();
	a_silent_server_is_left();
	a_request_whose_time_is_over_ends();
	a_watch_that_says_nothing_is_not_whole();
	a_silent_name_server_is_not_waited_for();
	etcd_remove(&server);
	liars();
	certificates_are_checked();
	users_have_passwords();
	a_lost_member_is_replaced();
	return tap_done();
}
