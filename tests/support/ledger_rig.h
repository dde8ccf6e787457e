/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * ledger_rig - an agent's inside, without the agent: segment, directory,
 * holders and ledger over rows of a test's own.
 */
#ifndef GM_TEST_SUPPORT_LEDGER_RIG_H
#define GM_TEST_SUPPORT_LEDGER_RIG_H

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/daemon/account/credit.h"
#include "agent/daemon/account/ledger.h"
#include "agent/daemon/base/loop.h"
#include "agent/daemon/base/parts.h"
#include "agent/daemon/config.h"
#include "agent/daemon/daemon.h"
#include "agent/daemon/devices/rows.h"
#include "agent/daemon/map/pins.h"
#include "agent/daemon/map/map_kind.h"
#include "agent/daemon/segment/directory.h"
#include "agent/daemon/segment/segment.h"
#include "agent/daemon/subscribers.h"
#include "gpumap.h"
#include "shm/device_kinds.h"
#include "shm/rows.h"
#include "tests/support/publish_map.h"
#include "tests/support/shm_names.h"
#include "tests/support/tap.h"

#define OTHER 54321u /* a uid that is neither root's nor ours */
#define ROWS  3u
#define TOTAL UINT64_C(1000) /* bytes of each row */

static struct gm_daemon *d;
static char instance[48], why[GM_WHY_BYTES];

/* ---- an agent's inside, without the agent -------------------------------- */

/* Adopt the state of the segment, as an agent does at its start. */
static inline bool take_over(void)
{
	struct gm_adopted_state *past = malloc(sizeof(*past));
	bool good;

	good = past != NULL && shm_names_make(instance) &&
	       gm_segment_open(instance, 16 << 20, past, why, d->segment) == 0;
	if (good) {
		d->directory->heap = past->heap;
		memcpy(d->directory->objects, past->objects,
		       sizeof(past->objects));
		memcpy(d->directory->rows, past->rows, sizeof(past->rows));
		memcpy(d->holders->table, past->holders, sizeof(past->holders));
	}
	free(past);
	return good && gm_pins_adopt(d) == 0;
}

/* As if killed: whatever is private is gone. */
static inline void die(void)
{
	gm_pins_exit(d);
	gm_ledger_exit(d);
	gm_credit_exit(d);
	gm_blocks_exit(&d->directory->heap);
	gm_segment_close(d->segment);
	memset(d->directory, 0, sizeof(*d->directory));
	memset(d->holders, 0, sizeof(*d->holders));
	memset(d->ledger, 0, sizeof(*d->ledger));
}

static inline bool come_back(void)
{
	return OK(take_over()) && OK(d->segment->adopted) &&
	       EQ(gm_ledger_adopt(d), 0);
}

static inline void make_rows(void)
{
	for (uint32_t row = 0; row < ROWS; row++) {
		struct gm_device *device = calloc(1, sizeof(*device));

		if (device == NULL)
			exit(99);
		device->present = true;
		device->facts.row = row;
		device->facts.uuid[0] = (uint8_t)(row + 1);
		device->facts.kind = GPUMAP_DEVICE_HOST;
		device->facts.flags = gm_device_kind(GPUMAP_DEVICE_HOST)->flags;
		device->facts.total_bytes = TOTAL;
		snprintf(device->facts.object.name, GM_NAME_BYTES, "row %u",
			 row);
		device->moving.state = GPUMAP_DEVICE_READY;
		device->moving.free_bytes = TOTAL;
		d->devices->of[row] = device;
		d->devices->n = row + 1;
		gm_rows_move(&d->segment->map.rows[row], &device->moving);
		gm_directory_row(d, &device->facts);
	}
	gm_put(&d->segment->map.header->rows_used, ROWS);
}

static inline uint64_t reserved(uint32_t row)
{
	struct gm_moving_image moving;

	if (gm_rows_moving(&d->segment->map, row, &moving) != 0)
		return UINT64_MAX;
	return moving.reserved_bytes;
}

static inline bool is_published(const char *name)
{
	return gm_directory_find(d, GM_KIND_LAYERS, name) != NULL;
}

/* ---- maps ---------------------------------------------------------------- */

static inline struct gm_charge_image charge_of(uint32_t row, uint64_t bytes)
{
	/* Every kind of charge counts. */
	return (struct gm_charge_image){ .row = row,
					 .weight_bytes = bytes / 2,
					 .kv_bytes = bytes - bytes / 2 -
						     bytes / 4 - bytes / 8,
					 .activation_bytes = bytes / 4,
					 .reserve_bytes = bytes / 8 };
}

static inline struct gm_layers map_of(const char *name, uint32_t uid,
				      uint32_t flags,
				      const struct gm_charge_image *charges,
				      uint32_t n)
{
	static uint32_t rows[GM_LAYERS_MAX];

	return (struct gm_layers){ .name = name,
				   .spec = "0:1",
				   .owner_uid = uid,
				   .flags = flags,
				   .n_layers = 1,
				   .n_rows = n,
				   .rows = rows,
				   .charges = charges };
}

static inline int commit(const char *name, uint32_t uid, uint32_t row,
			 uint64_t bytes)
{
	struct gm_charge_image charge = charge_of(row, bytes);
	struct gm_layers layers =
		map_of(name, uid, GM_OBJECT_COMMITTED, &charge, 1);
	uint64_t version;

	return publish_map(d, &layers, why, &version);
}

static inline int release(const char *name)
{
	return gm_directory_remove(d, GM_KIND_LAYERS, name, 0, why);
}

/* The words of a map's block, until the next call. */
static inline uint64_t *words_of(const struct gm_layers *layers,
				 uint64_t version)
{
	static uint64_t words[512];

	gm_layers_build(layers, version, words);
	return words;
}

/* The steps of a held map, up to the one that is said. */
enum step { KEPT, SHOWN };

static inline int hold(const char *name, pid_t pid, uint32_t row,
		       uint64_t bytes, enum step last)
{
	struct gm_charge_image charge = charge_of(row, bytes);
	struct gm_layers layers = map_of(
		name, 0, GM_OBJECT_COMMITTED | GM_OBJECT_HELD, &charge, 1);
	struct gm_put put;
	uint32_t place;
	int ret = gm_pins_hold(d, pid, 0, why, &place);

	if (ret != 0)
		return ret;
	ret = gm_publish_prepare(d, &gm_map_kind, words_of(&layers, 0), why,
				 &put);
	if (ret != 0) {
		gm_pins_let_go(d, place);
		return ret;
	}
	gm_pins_keep(d, place, &put.block);
	if (last == SHOWN)
		gm_publish_store(d, &gm_map_kind, words_of(&layers, 0), &put);
	else
		free(put.reservation); /* who dies now gives nothing back */
	return 0;
}

static inline uint32_t entries(void)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < GM_HOLDERS; i++) {
		uint32_t kind =
			(uint32_t)gm_get(&d->segment->map.holders[i].w[0]);

		n += kind != GM_HOLDER_FREE;
	}
	return n;
}

static inline pid_t start_child(void)
{
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		pause();
		_exit(0);
	}
	return pid;
}

static inline void end_child(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static inline void stop_when_free(struct gm_timer *timer)
{
	if (entries() != 0)
		gm_timer_set(d->loop, timer, gm_loop_now() + 1000000);
	else
		gm_loop_stop(d->loop);
}

/* Let the kernel's word of deaths come in, until no entry is left. */
static inline void hear_of_deaths(void)
{
	struct gm_timer timer = { .fired = stop_when_free };

	d->loop->stop = false; /* again */
	gm_timer_set(d->loop, &timer, gm_loop_now());
	EQ(gm_loop_run(d->loop), 0);
	gm_timer_stop(d->loop, &timer);
}

/* Returns false where nothing can be tested. */
static inline bool ledger_begin(const char *name)
{
	d = gm_daemon_new();
	snprintf(instance, sizeof(instance), "%s.%d", name, (int)getpid());
	if (d == NULL || gm_loop_init(d->loop) != 0 ||
	    freopen("/dev/null", "w", stderr) == NULL || !take_over())
		return false;
	gm_config_init(d->config);
	gm_subscribers_set(d);
	make_rows();
	return true;
}

static inline void ledger_end(void)
{
	shm_names_remove(instance);
	die();
	gm_devices_exit(d);
	gm_loop_exit(d->loop);
	gm_daemon_free(d);
}

#endif
