/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/map/calibration.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/common/log.h"
#include "agent/common/node_clock.h"
#include "agent/daemon/base/parts.h"
#include "agent/daemon/base/server.h"
#include "agent/daemon/base/user.h"
#include "agent/daemon/devices/rows.h"
#include "agent/daemon/map/transaction.h"
#include "agent/daemon/segment/segment.h"
#include "agent/daemon/state/state.h"
#include "gpumap.h"

struct calibrate {
	struct gm_change change;
	uint32_t row;
	uint32_t generation;
	uint64_t least[GM_WORKS];
};

static struct calibrate *calibrate_of(struct gm_change *change)
{
	return gm_owner(change, struct calibrate, change);
}

/* ---- the file ------------------------------------------------------------ */

static const struct gm_calibration *
calibrations_in(const struct gm_state_file *file)
{
	return (const void *)gm_state_file_words(file);
}

static uint32_t count_in(const struct gm_state_file *file)
{
	return (uint32_t)(gm_state_file_word_bytes(file) /
			  sizeof(struct gm_calibration));
}

/* Its words are struct gm_calibration, and it has no UUIDs. */
static int validate(const struct gm_state_file *file,
		    char ret_why[GM_WHY_BYTES])
{
	const struct gm_calibration *of = calibrations_in(file);
	uint32_t n = count_in(file);

	if (file->n_uuids != 0 || n == 0 || n > GM_ROWS ||
	    gm_state_file_word_bytes(file) != n * sizeof(*of))
		return gm_why(ret_why, -EPROTO, "it is cut");
	for (uint32_t i = 0; i < n; i++) {
		if (of[i].device[0] == '\0' ||
		    memchr(of[i].device, '\0', sizeof(of[i].device)) == NULL)
			return gm_why(ret_why, -EPROTO,
				      "a device of it has no name");
		for (uint32_t j = 0; j < i; j++)
			if (strcmp(of[i].device, of[j].device) == 0)
				return gm_why(ret_why, -EPROTO,
					      "it has a device twice");
	}
	return 0;
}

const struct gm_state_kind gm_calibrations_kind = {
	.number = GM_STATE_CALIBRATIONS,
	.layout = 1,
	.what = "calibration",
	.suffix = "calibrations",
	.validate = validate,
};

/* ---- the rows ------------------------------------------------------------ */

static void print_device(const struct gm_row_image *facts,
			 char ret_device[GM_CALIBRATION_DEVICE])
{
	snprintf(ret_device, GM_CALIBRATION_DEVICE,
		 "%u %s, %u.%u, units %u, threads %u, shared %u, l2 %u, "
		 "bytes %" PRIu64 ", driver %u, cuda %u, mig %s",
		 facts->kind, facts->object.name, facts->cc_major,
		 facts->cc_minor, facts->units, facts->threads_per_unit,
		 facts->shared_bytes, facts->l2_bytes, facts->total_bytes,
		 facts->driver_version, facts->cuda_version,
		 facts->mig_profile);
}

/* The calibration of the device, or NULL. */
static const struct gm_calibration *find(const struct gm_daemon *d,
					 const struct gm_row_image *facts)
{
	const struct gm_state_file *file =
		gm_state_single(d, &gm_calibrations_kind);
	char device[GM_CALIBRATION_DEVICE];
	uint32_t n = file != NULL ? count_in(file) : 0;

	print_device(facts, device);
	for (uint32_t i = 0; i < n; i++) {
		if (strcmp(calibrations_in(file)[i].device, device) == 0)
			return &calibrations_in(file)[i];
	}
	return NULL;
}

/* Store a word where it differs.  Returns whether it did. */
static bool store(gm_a64 *word, uint64_t value)
{
	if (gm_get(word) == value)
		return false;
	gm_put(word, value);
	return true;
}

/* Those of matrix work are the gam runtime's; its default for a kernel over
 * rows is ours for each operation of jobs. */
static uint64_t default_of(uint32_t work)
{
	switch (work) {
	case GPUMAP_WORK_GEMM:
	case GPUMAP_WORK_XTWX:
		return 100000000;
	case GPUMAP_WORK_POTRF:
		return 512;
	default:
		return 50000;
	}
}

static bool publish_row(struct gm_daemon *d, uint32_t row)
{
	const struct gm_calibration *of = find(d, &d->devices->of[row]->facts);
	struct gm_row *slot = &d->segment->map.rows[row];
	bool changed = false;

	for (uint32_t i = 0; i < GM_WORKS; i++) {
		uint64_t least = of != NULL ? of->least[i] : 0;

		if (least == 0)
			least = default_of(i);
		changed |= store(&slot->least[i], least);
	}
	return store(&slot->calibrated, of != NULL ? of->set_ns : 0) || changed;
}

static void publish(struct gm_daemon *d)
{
	bool changed = false;

	for (uint32_t row = 0; row < d->devices->n; row++)
		changed |= publish_row(d, row);
	if (changed)
		gm_segment_changed(d->segment);
}

void gm_calibration_row_came(struct gm_daemon *d)
{
	publish(d);
}

void gm_calibration_start(struct gm_daemon *d)
{
	gm_state_load(d, &gm_calibrations_kind,
		      "look at the disk and restart: rows have the default "
		      "thresholds");
	publish(d);
}

/* ---- the change ---------------------------------------------------------- */

static bool is_default(const uint64_t least[GM_WORKS])
{
	for (uint32_t i = 0; i < GM_WORKS; i++)
		if (least[i] != 0)
			return false;
	return true;
}

/* The file with the calibration of the row anew, or without it. */
static int make_file(struct gm_change *change, const struct gm_calibration *was)
{
	const struct calibrate *ask = calibrate_of(change);
	const struct gm_daemon *d = change->d;
	const struct gm_state_file *now =
		gm_state_single(d, &gm_calibrations_kind);
	uint32_t n = now != NULL ? count_in(now) : 0;
	uint32_t kept = was != NULL ? n - 1 : n;
	bool has_one = !is_default(ask->least);
	struct gm_calibration *to;

	if (kept + has_one > GM_ROWS)
		return gm_why(change->why, -ENOSPC,
			      "%u devices are calibrated: gpumapctl policy "
			      "--reset for some, or remove %s/%s and restart "
			      "the agent",
			      GM_ROWS, d->state->dir.path,
			      gm_calibrations_kind.suffix);
	change->object = &gm_calibrations_kind;
	change->file = gm_state_file_new(&gm_calibrations_kind, 0,
					 (kept + has_one) * sizeof(*to));
	if (change->file == NULL)
		return gm_why(change->why, -ENOMEM, "out of memory");
	to = (void *)gm_state_file_words(change->file);
	for (uint32_t i = 0; i < n; i++) {
		if (&calibrations_in(now)[i] != was)
			*to++ = calibrations_in(now)[i];
	}
	if (has_one) {
		print_device(&d->devices->of[ask->row]->facts, to->device);
		to->set_ns = gm_node_clock_read(CLOCK_REALTIME);
		memcpy(to->least, ask->least, sizeof(ask->least));
	}
	change->act = GM_CHANGE_PUT;
	return 0;
}

static int check(struct gm_change *change)
{
	const struct calibrate *ask = calibrate_of(change);
	const struct gm_daemon *d = change->d;
	const struct gm_calibration *was;
	const struct gm_row_image *facts;
	int ret;

	if (ask->row >= d->devices->n)
		return gm_why(change->why, -ENODEV, "there is no row %u",
			      ask->row);
	facts = &d->devices->of[ask->row]->facts;
	if (facts->generation != ask->generation)
		return gm_why(change->why, -EAGAIN,
			      "row %u was given to another device: measure "
			      "that",
			      ask->row);
	ret = gm_state_may_write(d, &gm_calibrations_kind, change->why);
	if (ret != 0)
		return ret;
	was = find(d, facts);
	change->act = GM_CHANGE_NOTHING;
	if (was == NULL && is_default(ask->least))
		return 0; /* it is so already */
	return make_file(change, was);
}

static void show(struct gm_change *change)
{
	const struct calibrate *ask = calibrate_of(change);

	gm_log(GM_LOG_INFO, "row_calibrated", "row=%u default=%s", ask->row,
	       is_default(ask->least) ? "yes" : "no");
	publish(change->d);
}

static void free_calibrate(struct gm_change *change)
{
	free(calibrate_of(change));
}

static const struct gm_change_kind calibrate_kind = {
	.check = check,
	.before_show = show,
	.free = free_calibrate,
};

int gm_calibration_handle(struct gm_connection *c, const struct gm_request *r)
{
	const struct gm_calibrate *ask = (const void *)r->body;
	struct calibrate *calibrate;

	if (!gm_user_is_privileged(c->uid))
		return gm_connection_bad(
			c, -EPERM,
			"uid %u may not set thresholds: only root and uid %u, "
			"which runs the agent, may",
			(unsigned)c->uid, (unsigned)geteuid());
	calibrate = calloc(1, sizeof(*calibrate));
	if (calibrate == NULL)
		return -ENOMEM;
	calibrate->row = ask->row;
	calibrate->generation = ask->generation;
	/* A later version may have other defaults. */
	for (uint32_t i = 0; i < GM_WORKS; i++)
		if (ask->least[i] != default_of(i))
			calibrate->least[i] = ask->least[i];
	calibrate->change.kind = &calibrate_kind;
	return gm_transactions_add(c, &r->header, &calibrate->change);
}
