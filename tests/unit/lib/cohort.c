/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * A rank that joins a cohort, while others take steps between its own: a
 * gpumap-sync of the test's has the values, and changes them when asked for
 * one.
 */

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "gpumap/sync.h"
#include "lib/internal.h"
#include "shm/control_sync.h"
#include "tests/support/tap.h"

#define VALUES   16
#define EPOCH    5
#define NCCL     21903
#define LEASE_NS UINT64_C(100000000)
#define STATE    "c/state"
#define OTHER    "another token of thirty-two byte"
#define ID       (2 * GPUMAP_COHORT_ID_BYTES) /* digits */

/* ---- values -------------------------------------------------------------- */

static struct value {
	char key[128];
	char text[512];
	uint64_t revision; /* 0: there is none */
} values[VALUES];

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t last_revision;

static struct value *find(const char *key)
{
	for (size_t i = 0; i < VALUES; i++)
		if (values[i].revision != 0 && strcmp(values[i].key, key) == 0)
			return &values[i];
	return NULL;
}

static uint64_t put(const char *key, const char *text, size_t bytes)
{
	struct value *value = find(key);

	for (size_t i = 0; value == NULL && i < VALUES; i++)
		if (values[i].revision == 0)
			value = &values[i];
	if (value == NULL || bytes >= sizeof(value->text))
		exit(99);
	snprintf(value->key, sizeof(value->key), "%s", key);
	memcpy(value->text, text, bytes);
	value->text[bytes] = '\0';
	return value->revision = ++last_revision;
}

static void delete_value(const char *key)
{
	struct value *value = find(key);

	if (value != NULL)
		value->revision = 0;
}

/* Write the state; an id is all of a digit. */
static void put_state(uint64_t epoch, uint32_t world, const char *phase,
		      char digit)
{
	char text[512];
	int n = snprintf(text, sizeof(text),
			 "gpumap-cohort 1 epoch=%" PRIu64
			 " world=%u version=%d %s -",
			 epoch, world, NCCL, phase);

	if (digit != '\0') {
		memset(text + n - 1, digit, ID);
		n += ID - 1;
	}
	put(STATE, text, (size_t)n);
}

static bool state_says(const char *phase)
{
	const struct value *state = find(STATE);

	return state != NULL && strstr(state->text, phase) != NULL;
}

static uint64_t state_epoch(void)
{
	const struct value *state = find(STATE);

	return state != NULL ? strtoull(state->text + 22, NULL, 10) : 0;
}

/* ---- gpumap-sync --------------------------------------------------------- */

struct request {
	struct gm_control header;
	union {
		char key[128]; /* the first field of each */
		struct gm_sync_value_cas cas;
		char bytes[1024];
	} body;
};

static char path[108];
static int listener, peer;
static void (*before)(uint32_t type, const char *key);

static void reply(const struct gm_control *to, int status, const void *body,
		  size_t body_bytes, const void *tail, size_t tail_bytes)
{
	struct gm_refusal refusal = { .text = "the test says so" };
	size_t before_body = status < 0 ? sizeof(refusal) : 0;
	struct gm_control header = *to;
	struct iovec parts[4] = { { &header, sizeof(header) },
				  { &refusal, before_body },
				  { (void *)(uintptr_t)body, body_bytes },
				  { (void *)(uintptr_t)tail, tail_bytes } };
	const struct msghdr message = { .msg_iov = parts, .msg_iovlen = 4 };

	header.status = status;
	header.body = (uint32_t)(before_body + body_bytes);
	header.bytes = (uint32_t)(sizeof(header) + header.body + tail_bytes);
	if (sendmsg(peer, &message, MSG_NOSIGNAL) < 0)
		return; /* the process has gone */
}

/* This node has lost its lease. */
static void tell_lost(void)
{
	const struct gm_control event = { .magic = GM_CONTROL_MAGIC,
					  .version = GM_CONTROL_VERSION,
					  .type = GM_SYNC_EVENT };

	reply(&event, -ESTALE, NULL, 0, NULL, 0);
}

static void get(const struct request *request)
{
	const struct value *value = find(request->body.key);
	struct gm_sync_value_get_reply body = { .revision = 0 };

	if (value != NULL)
		body.revision = value->revision;
	reply(&request->header, 0, &body, sizeof(body),
	      value != NULL ? value->text : NULL,
	      value != NULL ? strlen(value->text) : 0);
}

static void cas(const struct request *request)
{
	const struct gm_sync_value_cas *ask = &request->body.cas;
	const struct value *value = find(ask->key);
	uint64_t revision = value != NULL ? value->revision : 0;
	struct gm_sync_value_cas_reply body = { .revision = revision };

	if (revision != ask->expected) {
		reply(&request->header, -ESTALE, &body, sizeof(body), NULL, 0);
		return;
	}
	body.revision = 0;
	if (ask->delete)
		delete_value(ask->key);
	else
		body.revision =
			put(ask->key, request->body.bytes + sizeof(*ask),
			    request->header.bytes - sizeof(request->header) -
				    sizeof(*ask));
	reply(&request->header, 0, &body, sizeof(body), NULL, 0);
}

static void list(const struct request *request)
{
	struct gm_sync_value_list_reply body = { .n = 0 };
	size_t n = strlen(request->body.key), bytes = 0;
	char ends[512];

	for (size_t i = 0; i < VALUES; i++) {
		if (values[i].revision == 0 ||
		    strncmp(values[i].key, request->body.key, n) != 0)
			continue;
		strcpy(ends + bytes, values[i].key + n);
		bytes += strlen(ends + bytes) + 1;
		body.n++;
	}
	reply(&request->header, 0, &body, sizeof(body), ends, bytes);
}

static void handle(const struct request *request)
{
	struct gm_sync_hello_reply hello = { .lease_ns = LEASE_NS };
	struct gm_sync_value_wait_reply wait = { .seen = ++last_revision };

	if (before != NULL)
		before(request->header.type, request->body.key);
	switch (request->header.type) {
	case GM_SYNC_HELLO:
		reply(&request->header, 0, &hello, sizeof(hello), NULL, 0);
		break;
	case GM_SYNC_VALUE_GET:
		get(request);
		break;
	case GM_SYNC_VALUE_CAS:
		cas(request);
		break;
	case GM_SYNC_VALUE_LIST:
		list(request);
		break;
	default: /* something may have changed */
		reply(&request->header, 0, &wait, sizeof(wait), NULL, 0);
	}
}

static void *serve(void *unused)
{
	struct request request;

	(void)unused;
	peer = accept(listener, NULL, NULL);
	for (;;) {
		memset(&request, 0, sizeof(request));
		if (recv(peer, &request, sizeof(request), 0) <= 0)
			break;
		pthread_mutex_lock(&lock);
		handle(&request);
		pthread_mutex_unlock(&lock);
	}
	close(peer);
	return NULL;
}

/* ---- a rank -------------------------------------------------------------- */

static struct gpumap_sync *sync_of;
static pthread_t server;
static uint8_t id[GPUMAP_COHORT_ID_BYTES];
static uint64_t epoch, deadline_ns;

static void begin(void (*changes)(uint32_t type, const char *key))
{
	memset(values, 0, sizeof(values));
	memset(id, 0, sizeof(id));
	before = changes;
	epoch = 0;
	pthread_create(&server, NULL, serve, NULL);
	EQ(gpumap_sync_open(path, &sync_of), 0);
}

static void end(void)
{
	gpumap_sync_close(sync_of);
	pthread_join(server, NULL);
}

/* Rank 0 brings an id of sevens. */
static int join(uint32_t world, uint32_t rank, uint32_t limit_ms)
{
	uint8_t sevens[GPUMAP_COHORT_ID_BYTES];
	struct gpumap_cohort_join ask = { .size = sizeof(ask),
					  .name = "c",
					  .world = world,
					  .rank = rank,
					  .version = NCCL,
					  .id = rank == 0 ? sevens : NULL };

	memset(sevens, 0x77, sizeof(sevens));
	deadline_ns = gm_now_ns() + limit_ms * UINT64_C(1000000);
	ask.deadline_ns = deadline_ns;
	return gpumap_cohort_join(sync_of, &ask, id, &epoch);
}

static bool has_id(uint8_t byte)
{
	for (size_t i = 0; i < sizeof(id); i++)
		if (id[i] != byte)
			return false;
	return true;
}

/* ---- stories ------------------------------------------------------------- */

static void a_rank_meets_itself(void)
{
	begin(NULL);
	EQ(join(1, 0, 60000), 0);
	OK(has_id(0x77));
	OK(state_says(" whole "));
	EQ(epoch, (intmax_t)state_epoch());
	EQ(gpumap_cohort_leave(sync_of, 0), 0);
	OK(find(STATE) == NULL);
	end();
}

/* A rank has received the id, and has died, before rank 0 sees that it is
 * out. */
static void move_on_at_once(uint32_t type, const char *key)
{
	if (type == GM_SYNC_VALUE_GET && strcmp(key, STATE) == 0 &&
	    state_says(" whole "))
		put_state(state_epoch() + 1, 1, "forming", '\0');
}

static void no_id_is_given_out_twice(void)
{
	begin(move_on_at_once);
	EQ(join(1, 0, 60000), -ESTALE);
	OK(strstr(gpumap_refusal(NULL), "make another") != NULL);
	OK(state_says(" forming -"));
	end();
}

/* Rank 0 gives out the id as this one gives up. */
static void be_late(uint32_t type, const char *key)
{
	uint64_t now_ns = gm_now_ns();

	(void)key;
	if (type == GM_SYNC_VALUE_GET && now_ns > deadline_ns)
		put_state(EPOCH, 2, "whole", '3');
	else if (type == GM_SYNC_VALUE_WAIT && find("c/rank/5/1") != NULL)
		usleep((useconds_t)((deadline_ns - now_ns) / 1000) + 1000);
}

static void a_rank_that_gives_up_may_have_joined(void)
{
	begin(be_late);
	put_state(EPOCH, 2, "forming", '\0');
	put("c/rank/5/0", OTHER, 32);
	EQ(join(2, 1, 200), 0);
	OK(has_id(0x33));
	EQ(epoch, EPOCH);
	end();
}

static void lapse(uint32_t type, const char *key)
{
	if (type == GM_SYNC_VALUE_WAIT && *key != '\0')
		delete_value("c/rank/5/0");
}

static void change_nothing(uint32_t type, const char *key)
{
	if (type == GM_SYNC_VALUE_WAIT && *key != '\0')
		usleep(10000);
}

/* The rank of a process whose node has died ends with the lease. */
static void a_rank_in_the_way_may_lapse(void)
{
	begin(lapse);
	put_state(EPOCH, 1, "forming", '\0');
	put("c/rank/5/0", OTHER, 32);
	EQ(join(1, 0, 60000), 0);
	EQ(epoch, EPOCH);
	end();
	/* One that stays is another process's. */
	begin(change_nothing);
	put_state(EPOCH, 1, "forming", '\0');
	put("c/rank/5/0", OTHER, 32);
	EQ(join(1, 0, 60000), -EBUSY);
	EQ(state_epoch(), EPOCH);
	end();
}

/* Ranks are leaving: the next ones wait until they have. */
static void an_epoch_that_ended_is_left_alone(void)
{
	begin(lapse);
	put_state(EPOCH, 1, "ended", '3');
	put("c/rank/5/0", OTHER, 32);
	EQ(join(1, 0, 60000), 0);
	EQ(epoch, EPOCH + 1);
	OK(has_id(0x77));
	end();
}

/* Another rank gives up, and all come again. */
static void move_on(uint32_t type, const char *key)
{
	if (type != GM_SYNC_VALUE_WAIT || *key == '\0')
		return;
	if (find("c/rank/6/1") == NULL)
		put_state(EPOCH + 1, 2, "forming", '\0');
	else
		put_state(EPOCH + 1, 2, "whole", '3');
}

static void a_rank_follows_the_epoch(void)
{
	begin(move_on);
	put_state(EPOCH, 2, "forming", '\0');
	EQ(join(2, 1, 60000), 0);
	EQ(epoch, EPOCH + 1);
	OK(find("c/rank/6/1") != NULL);
	OK(find("c/rank/5/1") == NULL);
	end();
}

static void lose_lease(uint32_t type, const char *key)
{
	if (type == GM_SYNC_VALUE_WAIT && *key != '\0')
		tell_lost();
}

static void a_lost_lease_ends_the_joining(void)
{
	begin(lose_lease);
	put_state(EPOCH, 2, "forming", '\0');
	EQ(join(2, 1, 60000), -ESTALE);
	OK(strstr(gpumap_refusal(NULL), "the test says so") != NULL);
	end();
}

TAP_CASE()
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	char folder[] = "/tmp/gpumap-test.cohort.XXXXXX";

	if (!OK(mkdtemp(folder) != NULL))
		return tap_done();
	snprintf(path, sizeof(path), "%s/node", folder);
	memcpy(at.sun_path, path, sizeof(path));
	listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	EQ(bind(listener, (const struct sockaddr *)&at, sizeof(at)), 0);
	EQ(listen(listener, 1), 0);
	a_rank_meets_itself();
	no_id_is_given_out_twice();
	a_rank_that_gives_up_may_have_joined();
	a_rank_in_the_way_may_lapse();
	an_epoch_that_ended_is_left_alone();
	a_rank_follows_the_epoch();
	a_lost_lease_ends_the_joining();
	close(listener);
	unlink(path);
	rmdir(folder);
	return tap_done();
}
