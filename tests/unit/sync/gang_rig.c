/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "tests/unit/sync/gang_rig.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/sync/gang_ask.h"
#include "tests/support/dice.h"

#define KEYS    2048u
#define VALUE   1024u
#define LATE    64u
#define STEP_NS (5 * RIG_MS)
#define SKEW_NS (50 * RIG_MS) /* a node gives up before the store does */

static const char names[RIG_NODES][2] = { "a", "b", "c" };

/* A key that was there; without bytes it is not there now. */
struct key {
	char key[GM_STORE_KEY_BYTES];
	char value[VALUE];
	size_t bytes;
	uint64_t revision; /* 0: it was deleted */
	uint64_t change;   /* when it changed last */
	uint64_t lease_id; /* 0: none */
};

/* A write that comes late. */
struct late {
	struct key what;
	bool is_cas, is_used, deletes;
	uint64_t expected;
	uint64_t due_ns;
};

struct rig_node rig_nodes[RIG_NODES];
struct rig_client rig_clients[RIG_CLIENTS];
uint64_t rig_now, rig_timeout_ns;
bool rig_fails;
void (*rig_on_reserve)(unsigned int node, const char *name);

static struct key keys[KEYS];
static struct late late[LATE];
static unsigned int n_keys;
static uint64_t last_change, last_lease, last_version;

static void __attribute__((noreturn)) die(const char *what)
{
	printf("Bail out! %s\n", what);
	exit(99);
}

static unsigned int index_of(const struct gm_sync *sync)
{
	for (unsigned int i = 0; i < RIG_NODES; i++)
		if (sync == &rig_nodes[i].sync)
			return i;
	die("no such node");
}

/* ---- the store ----------------------------------------------------------- */

static bool is_alive(uint64_t lease_id)
{
	for (unsigned int i = 0; i < RIG_NODES; i++)
		if (rig_nodes[i].lease_id == lease_id)
			return rig_now < rig_nodes[i].lapse_ns;
	return false;
}

static struct key *find(const char *key)
{
	for (unsigned int i = 0; i < n_keys; i++)
		if (strcmp(keys[i].key, key) == 0)
			return &keys[i];
	return NULL;
}

static void delete (struct key *key)
{
	if (key->revision != 0)
		key->change = ++last_change;
	key->revision = 0;
}

/* Places of keys that all nodes know to be gone are free. */
static struct key *add(const char *key)
{
	struct key *at = find(key);

	for (unsigned int i = 0; at == NULL && i < n_keys; i++) {
		bool is_known = keys[i].revision == 0;

		for (unsigned int j = 0; j < RIG_NODES; j++)
			is_known = is_known &&
				   (!rig_nodes[j].is_up ||
				    (rig_nodes[j].seen[0] >= keys[i].change &&
				     rig_nodes[j].seen[1] >= keys[i].change));
		if (is_known)
			at = &keys[i];
	}
	if (at == NULL && n_keys == KEYS)
		die("too many keys");
	if (at == NULL)
		at = &keys[n_keys++];
	if (strcmp(at->key, key) != 0)
		*at = (struct key){ 0 };
	snprintf(at->key, sizeof(at->key), "%s", key);
	return at;
}

/* Returns 0 with the revision, -ESTALE with that of the key, -EOWNERDEAD. */
static int carry_out(const struct key *what, bool deletes, bool is_cas,
		     uint64_t expected, uint64_t *ret_revision)
{
	struct key *key = find(what->key);
	uint64_t revision = key != NULL ? key->revision : 0;

	*ret_revision = revision;
	if (is_cas && revision != expected)
		return -ESTALE;
	*ret_revision = 0;
	if (deletes) {
		if (key != NULL)
			delete (key);
		return 0;
	}
	if (what->lease_id != 0 && !is_alive(what->lease_id))
		return -EOWNERDEAD;
	key = add(what->key);
	memcpy(key->value, what->value, what->bytes);
	key->bytes = what->bytes;
	key->lease_id = what->lease_id;
	key->change = ++last_change;
	*ret_revision = key->revision = key->change;
	return 0;
}

void rig_put(const char *key, const char *value)
{
	struct key what = { .bytes = strlen(value) };
	uint64_t revision;

	snprintf(what.key, sizeof(what.key), "%s", key);
	memcpy(what.value, value, what.bytes);
	carry_out(&what, false, false, 0, &revision);
}

unsigned int rig_count_keys(void)
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < n_keys; i++)
		n += keys[i].revision != 0;
	return n;
}

static void lapse(void)
{
	for (unsigned int i = 0; i < n_keys; i++)
		if (keys[i].revision != 0 && keys[i].lease_id != 0 &&
		    !is_alive(keys[i].lease_id))
			delete (&keys[i]);
}

static int start_watch(struct gm_store *store, struct gm_store_watch *watch)
{
	struct rig_node *node = (struct rig_node *)store;
	unsigned int at = node->watches[0] != NULL;

	node->watches[at] = watch;
	node->needs_list[at] = true;
	watch->own = node;
	return 0;
}

static const struct gm_store_backend backend = { .watch = start_watch };

/* The value that a request would write. */
static struct key value_of(const struct rig_node *node,
			   const struct gm_store_write *write)
{
	struct key what = { .bytes = write->value != NULL ? write->bytes : 0,
			    .lease_id =
				    write->lease != NULL ? node->lease_id : 0 };

	snprintf(what.key, sizeof(what.key), "%s", write->key);
	if (what.bytes > VALUE)
		die("too long a value");
	if (write->value != NULL)
		memcpy(what.value, write->value, write->bytes);
	return what;
}

bool rig_deliver(unsigned int i)
{
	struct rig_node *node = &rig_nodes[i];
	struct gm_store_link *link =
		node->is_up ? gm_store_take(&node->store) : NULL;
	struct gm_store_write *write;
	uint64_t revision = 0;
	struct key what;
	int r;

	if (link == NULL)
		return false;
	write = GM_STORE_WRITE_OF(link);
	what = value_of(node, write);
	r = node->is_cut ? -EHOSTUNREACH
			 : carry_out(&what, write->value == NULL,
				     link->kind == GM_STORE_REQUEST_CAS,
				     write->expected, &revision);
	gm_store_fail(&node->store, r, "the test's store says %d", r);
	gm_store_finish(&node->store, link, r, revision);
	return true;
}

static void keep_late(const struct rig_node *node,
		      const struct gm_store_link *link)
{
	const struct gm_store_write *write =
		GM_STORE_WRITE_OF((struct gm_store_link *)link);

	for (unsigned int i = 0; i < LATE; i++) {
		if (late[i].is_used)
			continue;
		late[i] = (struct late){ .what = value_of(node, write),
					 .is_used = true,
					 .is_cas = link->kind ==
						   GM_STORE_REQUEST_CAS,
					 .deletes = write->value == NULL,
					 .expected = write->expected,
					 .due_ns = rig_now + dice(RIG_TTL) };
		return;
	}
}

void rig_deliver_late(unsigned int i)
{
	struct rig_node *node = &rig_nodes[i];
	struct gm_store_link *link =
		node->is_up ? gm_store_take(&node->store) : NULL;

	if (link == NULL)
		return;
	if (dice(4) != 0 && !node->is_cut)
		keep_late(node, link);
	gm_store_fail(&node->store, 0, "the test's store was too slow");
	gm_store_finish(&node->store, link, -ETIMEDOUT, 0);
}

static void arrive_late(void)
{
	uint64_t revision;

	for (unsigned int i = 0; i < LATE; i++) {
		if (!late[i].is_used || late[i].due_ns > rig_now)
			continue;
		late[i].is_used = false;
		carry_out(&late[i].what, late[i].deletes, late[i].is_cas,
			  late[i].expected, &revision);
	}
}

/* Keys in an order by chance. */
static void tell_changes(struct rig_node *node, unsigned int at)
{
	struct gm_store_watch *watch = node->watches[at];
	unsigned int from = n_keys > 0 ? (unsigned int)dice(n_keys) : 0;

	for (unsigned int i = 0; i < n_keys; i++) {
		const struct key *key = &keys[(from + i) % n_keys];
		struct gm_store_event event = {
			.kind = key->revision != 0 ? GM_STORE_PUT
						   : GM_STORE_DELETE,
			.key = key->key,
			.value = key->revision != 0 ? key->value : NULL,
			.bytes = key->bytes,
			.revision = key->revision
		};

		if (key->change > node->seen[at] &&
		    gm_keys_begins(key->key, watch->prefix))
			watch->event(watch, &event);
	}
	node->seen[at] = last_change;
}

void rig_watch(unsigned int i)
{
	struct rig_node *node = &rig_nodes[i];
	unsigned int first = (unsigned int)dice(2);

	if (!node->is_up)
		return;
	for (unsigned int k = 0; k < 2; k++) {
		unsigned int at = (first + k) % 2;
		struct gm_store_event say = { .kind = GM_STORE_CUT,
					      .why = "cut" };

		if (node->is_cut && !node->needs_list[at]) {
			node->needs_list[at] = true;
			node->watches[at]->event(node->watches[at], &say);
		}
		if (node->is_cut)
			continue;
		tell_changes(node, at);
		say.kind = GM_STORE_RESYNC;
		if (node->needs_list[at])
			node->watches[at]->event(node->watches[at], &say);
		node->needs_list[at] = false;
	}
}

/* ---- agents -------------------------------------------------------------- */

/* One of @n calls. */
static bool fails(struct rig_node *node, uint64_t n)
{
	node->has_failed = rig_fails && !node->has_failed && dice(n) == 0;
	return node->has_failed;
}

static struct rig_map *find_map(unsigned int node, const char *name)
{
	for (unsigned int i = 0; i < RIG_MAPS; i++)
		if (rig_nodes[node].maps[i].version != 0 &&
		    strcmp(rig_nodes[node].maps[i].name, name) == 0)
			return &rig_nodes[node].maps[i];
	return NULL;
}

const struct rig_map *rig_map(unsigned int node, const char *name)
{
	return find_map(node, name);
}

uint64_t rig_promised(unsigned int node)
{
	uint64_t sum = rig_nodes[node].rival;

	for (unsigned int i = 0; i < RIG_MAPS; i++)
		if (rig_nodes[node].maps[i].version != 0)
			sum += rig_nodes[node].maps[i].bytes;
	return sum;
}

static uint64_t clock_of(void)
{
	return rig_now;
}

static bool answers(const struct gm_sync *sync)
{
	return rig_nodes[index_of(sync)].agent_up;
}

/* As the agent does it, also in the place of a map of the same holder. */
static int reserve(struct gm_sync *sync, const struct gm_gang_record *record,
		   const struct gm_gang_member *member, uint64_t *ret_version,
		   char ret_why[GM_WHY_BYTES])
{
	unsigned int i = index_of(sync);
	const char *name = record->name;
	struct rig_map *map = find_map(i, name);
	uint64_t bytes = member->parts[0].bytes;
	uint64_t own = map != NULL ? map->bytes : 0;

	if (rig_nodes[i].is_taken)
		return gm_why(ret_why, -EEXIST, "another process has it");
	if (rig_promised(i) - own + bytes > RIG_ROOM)
		return gm_why(ret_why, -ENOSPC, "no room");
	if (map != NULL)
		map->version = 0;
	for (map = rig_nodes[i].maps; map->version != 0; map++)
		if (map == &rig_nodes[i].maps[RIG_MAPS - 1])
			die("too many maps");
	snprintf(map->name, sizeof(map->name), "%s", name);
	map->bytes = bytes;
	map->version = *ret_version = ++last_version;
	if (rig_on_reserve != NULL)
		rig_on_reserve(i, name);
	/* The answer may be lost. */
	if (fails(&rig_nodes[i], 50)) {
		*ret_version = 0;
		return dice(2) == 0 ? -ETIMEDOUT : -EAGAIN;
	}
	return 0;
}

static bool has(const struct gm_sync *sync, const struct gm_gang_record *record,
		uint64_t version)
{
	const struct rig_map *map = find_map(index_of(sync), record->name);

	return map != NULL && (version == 0 || map->version == version);
}

static int release(struct gm_sync *sync, const char *name)
{
	unsigned int i = index_of(sync);
	struct rig_map *map = find_map(i, name);

	if (map == NULL)
		return -ENOENT;
	if (rig_nodes[i].n_refused != 0) {
		rig_nodes[i].n_refused--;
		return -EPERM;
	}
	if (fails(&rig_nodes[i], 20))
		return -ECONNRESET;
	map->version = 0;
	return 0;
}

static const struct gm_gangs_ops ops = { .now = clock_of,
					 .agent_answers = answers,
					 .reserve = reserve,
					 .has = has,
					 .release = release };

/* ---- nodes --------------------------------------------------------------- */

static void hold(struct rig_node *node, bool is_held)
{
	if (node->lease.held == is_held)
		return;
	node->lease.held = is_held;
	gm_gangs_wake(node->sync.gangs, 0);
}

static void new_lease(struct rig_node *node)
{
	node->lease_id = ++last_lease;
	node->lapse_ns = rig_now + RIG_TTL;
	node->own_ns = node->lapse_ns - SKEW_NS;
	hold(node, true);
}

/* A process that was killed: its lease goes on in the store for a while, in the
 * place of this node's own. */
static void renew(struct rig_node *node)
{
	if (node->is_up && rig_now >= node->own_ns)
		hold(node, false);
	if (!node->is_up || node->is_cut)
		return;
	if (!node->lease.held) {
		if (rig_now >= node->lapse_ns)
			new_lease(node);
		return;
	}
	node->lapse_ns = rig_now + RIG_TTL;
	node->own_ns = node->lapse_ns - SKEW_NS;
}

void rig_start(unsigned int i)
{
	struct rig_node *node = &rig_nodes[i];
	static unsigned int starts;

	node->store = (struct gm_store){ .backend = &backend,
					 .epoll = -1,
					 .timer = -1,
					 .last = &node->store.first };
	node->config = (struct gm_sync_config){ .node = (char *)names[i],
						.gangs = true,
						.ttl_ns = RIG_TTL };
	node->lease = (struct gm_store_lease){ .ttl_ms = RIG_TTL / RIG_MS };
	node->sync = (struct gm_sync){ .config = &node->config,
				       .store = &node->store,
				       .lease = &node->lease };
	snprintf(node->sync.instance, sizeof(node->sync.instance), "%016x",
		 ++starts);
	node->watches[0] = node->watches[1] = NULL;
	node->seen[0] = node->seen[1] = 0;
	if (gm_gangs_open(&node->sync, &ops, &node->sync.gangs) != 0)
		die("gm_gangs_open");
	node->is_up = true;
}

void rig_kill(unsigned int i)
{
	struct rig_node *node = &rig_nodes[i];
	struct gm_store_link *link;

	if (!node->is_up)
		return;
	for (unsigned int k = 0; k < RIG_CLIENTS; k++)
		if (rig_clients[k].is_open && rig_clients[k].node == i)
			rig_close(k);
	while (dice(2) == 0 && rig_deliver(i))
		;
	while ((link = gm_store_take(&node->store)) != NULL) {
		if (dice(3) == 0 && !node->is_cut)
			keep_late(node, link);
		gm_store_cancel(&node->store, link);
	}
	gm_gangs_close(node->sync.gangs);
	node->sync.gangs = NULL;
	node->lease.held = false;
	node->is_up = false;
	for (unsigned int k = 0; k < RIG_MAPS; k++)
		node->maps[k].version = 0;
}

void rig_cut(unsigned int i, bool is_cut)
{
	rig_nodes[i].is_cut = is_cut;
}

void rig_begin(void)
{
	memset(rig_nodes, 0, sizeof(rig_nodes));
	memset(keys, 0, sizeof(keys));
	memset(late, 0, sizeof(late));
	n_keys = 0;
	for (unsigned int i = 0; i < RIG_NODES; i++) {
		rig_nodes[i].agent_up = true;
		rig_start(i);
	}
	rig_settle(RIG_TTL);
}

void rig_end(void)
{
	for (unsigned int i = 0; i < RIG_CLIENTS; i++)
		rig_close(i);
	for (unsigned int i = 0; i < RIG_NODES; i++)
		rig_kill(i);
}

void rig_pass(uint64_t ns)
{
	rig_now += ns;
	arrive_late();
	for (unsigned int i = 0; i < RIG_NODES; i++)
		renew(&rig_nodes[i]);
	lapse();
	for (unsigned int i = 0; i < RIG_NODES; i++)
		if (rig_nodes[i].is_up &&
		    rig_nodes[i].sync.gangs->due_ns <= rig_now)
			gm_gangs_tick(rig_nodes[i].sync.gangs, rig_now);
}

void rig_settle(uint64_t ns)
{
	uint64_t until_ns = rig_now + ns;

	while (rig_now < until_ns) {
		for (unsigned int i = 0; i < RIG_NODES; i++) {
			while (rig_deliver(i))
				;
			rig_watch(i);
		}
		rig_pass(STEP_NS);
	}
}

/* ---- processes ----------------------------------------------------------- */

void rig_open(unsigned int k, unsigned int node)
{
	struct rig_client *client = &rig_clients[k];
	int ends[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, ends) != 0)
		die("socketpair");
	*client = (struct rig_client){ .fd = ends[1],
				       .node = node,
				       .is_open = true };
	client->client.sync = &rig_nodes[node].sync;
	client->client.source.fd = ends[0];
	client->client.uid = 1000;
}

void rig_close(unsigned int k)
{
	struct rig_client *client = &rig_clients[k];

	if (!client->is_open)
		return;
	client->is_open = false;
	gm_gang_ask_gone(&client->client);
	close(client->client.source.fd);
	close(client->fd);
}

void rig_reserve(unsigned int k, const char *name, uint32_t nodes,
		 uint64_t bytes)
{
	struct rig_client *client = &rig_clients[k];
	struct gm_control header = { .type = GM_SYNC_GANG_RESERVE,
				     .serial = ++client->serial };
	struct {
		struct gm_sync_gang_member member;
		struct gm_sync_gang_part part;
	} tail[RIG_NODES] = { 0 };
	struct gm_sync_gang body = { .timeout_ns = rig_timeout_ns };
	struct gm_sync_message message = { .header = &header,
					   .body = &body,
					   .body_bytes = sizeof(body),
					   .tail = tail };

	snprintf(body.name, sizeof(body.name), "%s", name);
	for (unsigned int i = 0; i < RIG_NODES; i++) {
		if ((nodes >> i & 1) == 0)
			continue;
		memcpy(tail[body.n_members].member.node, names[i], 2);
		tail[body.n_members].member.n_parts = 1;
		tail[body.n_members++].part.bytes = bytes;
	}
	message.tail_bytes = body.n_members * (uint32_t)sizeof(tail[0]);
	gm_gang_ask_reserve(&client->client, &message);
}

void rig_release(unsigned int k)
{
	struct rig_client *client = &rig_clients[k];
	struct gm_control header = { .type = GM_SYNC_GANG_RELEASE,
				     .serial = ++client->serial };
	struct gm_sync_message message = { .header = &header };

	gm_gang_ask_release(&client->client, &message);
}

int rig_hear(unsigned int k, uint16_t *ret_type, char ret_why[GM_WHY_BYTES])
{
	struct {
		struct gm_control header;
		char rest[512];
	} record = { 0 };
	ssize_t n = recv(rig_clients[k].fd, &record, sizeof(record) - 1, 0);

	if (n < (ssize_t)sizeof(record.header))
		return -EAGAIN;
	if (ret_type != NULL)
		*ret_type = record.header.type;
	if (ret_why != NULL)
		snprintf(ret_why, GM_WHY_BYTES, "%.255s", record.rest);
	return record.header.status;
}
