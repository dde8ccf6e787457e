/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/map/calibration.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "agent/common/log.h"
#include "agent/daemon/base/parts.h"
#include "agent/daemon/base/server.h"
#include "agent/daemon/base/user.h"
#include "agent/daemon/devices/rows.h"
#include "agent/daemon/map/transaction.h"
#include "agent/daemon/segment/segment.h"
#include "agent/daemon/state/field.h"
#include "agent/daemon/state/state.h"
#include "gpumap.h"

#define FILE_NAME "calibrations"

struct calibrate {
	struct gm_change change;
	uint32_t row;
	uint32_t generation;
	uint64_t least[GM_WORKS];
	struct gm_calibrations next; /* the I/O thread's */
};

static struct calibrate *calibrate_of(struct gm_change *change)
{
	return gm_owner(change, struct calibrate, change);
}

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

/* The index of the device, or n. */
static uint32_t find(const struct gm_calibrations *calibrations,
		     const struct gm_row_image *facts)
{
	char device[GM_CALIBRATION_DEVICE];
	uint32_t i = 0;

	print_device(facts, device);
	while (i < calibrations->n &&
	       strcmp(calibrations->of[i].device, device) != 0)
		i++;
	return i;
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
	const struct gm_calibrations *all = d->calibrations;
	uint32_t at = find(all, &d->devices->of[row]->facts);
	struct gm_row *slot = &d->segment->map.rows[row];
	bool changed = false;

	for (uint32_t i = 0; i < GM_WORKS; i++) {
		uint64_t least = at < all->n ? all->of[at].least[i] : 0;

		if (least == 0)
			least = default_of(i);
		changed |= store(&slot->least[i], least);
	}
	return store(&slot->calibrated, at < all->n ? all->of[at].set_ns : 0) ||
	       changed;
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

/* ---- the file ------------------------------------------------------------ */

static void read_least(struct gm_fields *f, uint64_t least[GM_WORKS])
{
	const json_t *list = gm_json_field_list(f, "least");

	/* A later version may have more kinds of work. */
	for (size_t i = 0; i < json_array_size(list) && i < GM_WORKS; i++)
		if (!gm_wide_number(json_array_get(list, i), &least[i]))
			gm_json_field_refuse(f, "least", "has what is none");
}

static void read_device(struct gm_fields *f,
			char ret_device[GM_CALIBRATION_DEVICE])
{
	const char *text = gm_json_field_text(f, "device");

	if (text != NULL && (strlen(text) >= GM_CALIBRATION_DEVICE ||
			     gm_state_text_unescape(text, ret_device) < 0))
		gm_json_field_refuse(f, "device", "is none");
}

static void read_all(struct gm_fields *f, struct gm_calibrations *ret)
{
	const json_t *list = gm_json_field_list(f, "calibrations");

	if (json_array_size(list) > GM_ROWS)
		gm_json_field_refuse(f, "calibrations", "has too many");
	for (size_t i = 0; f->r == 0 && i < json_array_size(list); i++) {
		struct gm_fields one = { json_array_get(list, i),
					 "calibrations: ", f->err, 0 };
		struct gm_calibration *to = &ret->of[ret->n++];

		memset(to, 0, sizeof(*to));
		read_device(&one, to->device);
		to->set_ns = gm_json_field_number(&one, "set_ns");
		read_least(&one, to->least);
		f->r = one.r;
	}
}

/* Returns 0, or as gm_map_text_read(). */
static int parse(const char *text, size_t bytes, void *ret_calibrations,
		 char *ret_why)
{
	struct gm_state_reading reading;
	int r = gm_state_reading_begin(&reading, text, bytes, ret_why);

	if (r != 0)
		return r;
	read_all(&reading.fields, ret_calibrations);
	return gm_state_reading_end(&reading, ret_why);
}

void gm_calibration_start(struct gm_daemon *d)
{
	struct gm_calibrations *all = d->calibrations;

	all->n = 0;
	if (!gm_state_files_read(d, FILE_NAME, parse,
				 "look at the disk and restart: rows have the "
				 "default thresholds",
				 all, &all->is_unread))
		all->n = 0;
	publish(d);
}

static void print(FILE *to, const void *calibrations)
{
	const struct gm_calibrations *all = calibrations;

	fputs("{\"calibrations\":[", to);
	for (uint32_t i = 0; i < all->n; i++) {
		const struct gm_calibration *one = &all->of[i];

		fprintf(to, "%s\n{", i == 0 ? "" : ",");
		gm_state_text_put(to, "device", one->device);
		fprintf(to, "\"set_ns\":%" PRIu64 ",\"least\":[", one->set_ns);
		for (uint32_t k = 0; k < GM_WORKS; k++)
			fprintf(to, "%s%" PRIu64, k == 0 ? "" : ",",
				one->least[k]);
		fputs("]}", to);
	}
	fputs("]}\n", to);
}

static int write_file(const struct gm_state_dir *dir,
		      const struct gm_calibrations *all, char *ret_why)
{
	if (all->n == 0)
		return gm_state_dir_remove(dir, FILE_NAME, ret_why);
	return gm_state_files_write(dir, FILE_NAME, print, all, ret_why);
}

/* ---- the change ---------------------------------------------------------- */

static bool is_default(const uint64_t least[GM_WORKS])
{
	for (uint32_t i = 0; i < GM_WORKS; i++)
		if (least[i] != 0)
			return false;
	return true;
}

static uint64_t realtime_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static int check(struct gm_change *change)
{
	struct calibrate *ask = calibrate_of(change);
	const struct gm_daemon *d = change->d;
	struct gm_calibrations *next = &ask->next;
	const struct gm_row_image *facts;
	uint32_t at;

	if (ask->row >= d->devices->n)
		return gm_why(change->why, -ENODEV, "there is no row %u",
			      ask->row);
	facts = &d->devices->of[ask->row]->facts;
	if (facts->generation != ask->generation)
		return gm_why(change->why, -EAGAIN,
			      "row %u was given to another device: measure "
			      "that",
			      ask->row);
	if (d->calibrations->is_unread)
		return gm_state_files_keep(d, FILE_NAME, change->why);
	*next = *d->calibrations;
	at = find(next, facts);
	change->act = GM_CHANGE_OWN;
	if (is_default(ask->least)) {
		if (at == next->n)
			change->act = GM_CHANGE_NOTHING; /* it is so already */
		else
			next->of[at] = next->of[--next->n];
		return 0;
	}
	if (at == GM_ROWS)
		return gm_why(change->why, -ENOSPC,
			      "%u devices are calibrated: gpumapctl policy "
			      "--reset for some, or remove %s/" FILE_NAME
			      " and restart the agent",
			      GM_ROWS, d->state->dir.path);
	next->n += at == next->n;
	print_device(facts, next->of[at].device);
	next->of[at].set_ns = realtime_ns();
	memcpy(next->of[at].least, ask->least, sizeof(ask->least));
	return 0;
}

static void do_write(struct gm_io_job *job)
{
	struct gm_change *change = gm_owner(job, struct gm_change, job);

	change->status = write_file(&change->d->state->dir,
				    &calibrate_of(change)->next, change->why);
}

static void written(struct gm_io_job *job)
{
	struct gm_change *change = gm_owner(job, struct gm_change, job);

	if (change->status == 0) {
		*change->d->calibrations = calibrate_of(change)->next;
		gm_log(GM_LOG_INFO, "row_calibrated", "row=%u default=%s",
		       calibrate_of(change)->row,
		       is_default(calibrate_of(change)->least) ? "yes" : "no");
		publish(change->d);
	}
	gm_transactions_end(change, change->status);
}

static void proceed(struct gm_change *change)
{
	gm_transactions_give(change, do_write, written);
}

static void free_calibrate(struct gm_change *change)
{
	free(calibrate_of(change));
}

static const struct gm_change_kind calibrate_kind = {
	.check = check,
	.proceed = proceed,
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
