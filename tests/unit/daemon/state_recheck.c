/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* state, changes: files that wait for a device are published while no change
 * is in the middle of its steps, also where their publication causes others. */

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/daemon/base/connection.h"
#include "agent/daemon/base/events.h"
#include "agent/daemon/base/loop.h"
#include "agent/daemon/base/parts.h"
#include "agent/daemon/config.h"
#include "agent/daemon/daemon.h"
#include "agent/daemon/map/transaction.h"
#include "agent/daemon/segment/directory.h"
#include "agent/daemon/segment/segment.h"
#include "tests/support/shm_names.h"
#include "tests/support/state_files.h"
#include "tests/support/tap.h"

#define CLIENTS 2

static struct gm_daemon *d;
static struct gm_control_server server;
static struct gm_user users[CLIENTS];
static struct gm_connection clients[CLIENTS];
static int theirs[CLIENTS]; /* the other ends */
static int gate[2];         /* a pipe: a byte for the first one's plan */
static char why[GM_WHY_BYTES];

static uint64_t *words_of(const char *name)
{
	struct gm_layers map = state_map();

	map.name = name;
	map.flags = 0;
	return gm_map_kind_words(&map);
}

/* ---- changes ------------------------------------------------------------- */

static int check_nothing(struct gm_change *change)
{
	change->act = GM_CHANGE_NOTHING;
	return 0;
}

static int wait_at_gate(struct gm_change *change)
{
	char byte;

	(void)change;
	return read(gate[0], &byte, 1) == 1 ? 0 : -EIO;
}

static int check_put(struct gm_change *change)
{
	change->act = GM_CHANGE_PUT;
	change->object = &gm_map_kind;
	change->words = words_of("c");
	return 0;
}

static void free_change(struct gm_change *change)
{
	free(change);
}

static const struct gm_change_kind slow = { .check = check_nothing,
					    .plan = wait_at_gate,
					    .free = free_change };
static const struct gm_change_kind own = { .check = check_nothing,
					   .free = free_change };
static const struct gm_change_kind publish = { .check = check_put,
					       .free = free_change };

static void ask(int client, const struct gm_change_kind *kind)
{
	const struct gm_control request = { .type = GM_CONTROL_RELEASE };
	struct gm_change *change = calloc(1, sizeof(*change));

	change->kind = kind;
	EQ(gm_transactions_add(&clients[client], &request, change), 0);
}

/* ---- events -------------------------------------------------------------- */

/* As a mask that follows the map. */
static void map_published(struct gm_daemon *daemon, const char *name)
{
	struct gm_change *change = calloc(1, sizeof(*change));

	(void)name;
	change->kind = &own;
	gm_transactions_add_own(daemon, change);
}

static void slot_stored(struct gm_daemon *daemon, uint32_t slot,
			const struct gm_put *put)
{
	(void)daemon;
	(void)slot;
	(void)put;
}

static void object_moved(struct gm_daemon *daemon, const struct gm_block *old,
			 const struct gm_block *new_block)
{
	(void)daemon;
	(void)old;
	(void)new_block;
}

static bool block_pinned(const struct gm_daemon *daemon, uint32_t unit)
{
	(void)daemon;
	(void)unit;
	return false;
}

static void block_freed(struct gm_daemon *daemon, uint32_t unit)
{
	(void)daemon;
	(void)unit;
}

static const struct gm_events events = { .map_published = map_published,
					 .slot_stored = slot_stored,
					 .object_moved = object_moved,
					 .block_pinned = block_pinned,
					 .block_freed = block_freed };
static const struct gm_state_kind *const kinds[] = { &gm_map_kind, NULL };

/* ---- the case ------------------------------------------------------------ */

static void let_wait(const char *name)
{
	struct gm_state_waiting *waiting = calloc(1, sizeof(*waiting));
	uint64_t *words = words_of(name);

	((struct gm_object_image *)words)->version = 5;
	waiting->kind = &gm_map_kind;
	waiting->file = gm_state_file_make(d, &gm_map_kind, words);
	strcpy(waiting->name, name);
	TAILQ_INSERT_TAIL(&d->state->waiting, waiting, entry);
	free(words);
}

static void run(void)
{
	struct epoll_event event;

	while (d->changes->in_hand != NULL ||
	       !TAILQ_EMPTY(&d->changes->waiting)) {
		struct gm_source *source;

		if (epoll_wait(d->loop->epoll, &event, 1, 10000) != 1)
			return;
		source = event.data.ptr;
		source->ready(source, event.events);
	}
}

/* The device comes while one change is made and another one waits. */
static void each_gets_a_place_of_its_own(void)
{
	static const char *const names[] = { "a", "b", "c" };
	const struct gm_block *blocks[3];

	let_wait("a");
	let_wait("b");
	ask(0, &slow);
	ask(1, &publish);
	gm_transactions_row_came(d);
	EQ(write(gate[1], "x", 1), 1);
	run();
	for (int i = 0; i < 3; i++) {
		blocks[i] = gm_directory_find(d, GM_KIND_LAYERS, names[i]);
		if (!OK(blocks[i] != NULL))
			NOTE("%s is lost", names[i]);
	}
	OK(TAILQ_EMPTY(&d->state->waiting));
	OK(!clients[1].waits);
}

/* One that waits for nothing begins although no change ends. */
static void what_it_causes_begins(void)
{
	let_wait("d");
	gm_transactions_row_came(d);
	OK(gm_directory_find(d, GM_KIND_LAYERS, "d") != NULL);
	OK(TAILQ_EMPTY(&d->changes->waiting));
	OK(gm_transactions_drained(d));
}

static void connect_all(void)
{
	server.d = d;
	for (int i = 0; i < CLIENTS; i++) {
		int pair[2];

		OK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0,
			      pair) == 0);
		clients[i] =
			(struct gm_connection){ .server = &server,
						.source = { .fd = pair[0] },
						.user = &users[i],
						.busy = 1 };
		theirs[i] = pair[1];
	}
}

static void clear(const char *parent)
{
	static const char *const files[] = { "it/c.layers", "it", "" };
	char path[128];

	for (int i = 0; i < 3; i++) {
		snprintf(path, sizeof(path), "%s/%s", parent, files[i]);
		EQ(i == 0 ? unlink(path) : rmdir(path), 0);
	}
}

TAP_CASE()
{
	static const uint32_t in_order[] = { 0, 1, 2 };
	struct gm_adopted_state *past = malloc(sizeof(*past));
	char instance[48], parent[] = "/tmp/gpumap-recheck.XXXXXX";

	d = gm_daemon_new();
	snprintf(instance, sizeof(instance), "test-recheck.%d", (int)getpid());
	if (d == NULL || past == NULL || pipe(gate) != 0 ||
	    mkdtemp(parent) == NULL || gm_loop_init(d->loop) != 0 ||
	    !shm_names_make(instance) ||
	    gm_segment_open(instance, 2 << 20, past, why, d->segment) != 0)
		return 99;
	shm_names_remove(instance);
	gm_config_init(d->config);
	d->directory->heap = past->heap;
	free(past);
	state_devices(in_order);
	d->devices->n = STATE_DEVICES;
	memcpy(d->devices->of, state_daemon.devices->of,
	       sizeof(d->devices->of));
	d->events = &events;
	d->state_kinds = kinds;
	d->state_dir = parent;
	d->instance = "it";
	EQ(gm_state_start(d, why), 0);
	gm_transactions_init(d->changes);
	EQ(gm_io_thread_start(d->io_thread, d->loop, "a"), 0);
	EQ(gm_io_thread_start(d->heavy_thread, d->loop, "b"), 0);
	connect_all();
	if (freopen("/dev/null", "w", stderr) == NULL)
		return 99;

	each_gets_a_place_of_its_own();
	what_it_causes_begins();

	EQ(gm_transactions_exit(d, UINT64_MAX), 0);
	gm_state_exit(d);
	clear(parent);
	for (int i = 0; i < CLIENTS; i++) {
		close(clients[i].source.fd);
		close(theirs[i]);
	}
	gm_blocks_exit(&d->directory->heap);
	gm_segment_close(d->segment);
	gm_loop_exit(d->loop);
	gm_daemon_free(d);
	return tap_done();
}
