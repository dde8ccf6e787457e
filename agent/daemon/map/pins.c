/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/map/pins.h"

#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/common/lineage.h"
#include "agent/common/log.h"
#include "agent/common/node_clock.h"
#include "agent/daemon/account/credit.h"
#include "agent/daemon/base/loop.h"
#include "agent/daemon/base/parts.h"
#include "agent/daemon/base/user.h"
#include "agent/daemon/config.h"
#include "agent/daemon/segment/directory.h"
#include "agent/daemon/segment/segment.h"
#include "lib/model/plan/size_text.h"
#include "shm/layers.h"
#include "shm/point.h"
#include "shm/seq.h"

#define WORDS (sizeof(struct gm_holder_image) / 8)

/* One process that holds something, watched by one pidfd. */
struct gm_holder_process {
	struct gm_source source;
	struct gm_timer late; /* set: it has ended, and has things to leave */
	struct gm_daemon *d;
	struct gm_lineage_member is;
	uint32_t n_claims; /* places in the table */
	bool ended;
};

static void store(struct gm_daemon *d, uint32_t index,
		  const struct gm_holder_image *image)
{
	gm_a64 *w = d->segment->map.holders[index].w;
	uint64_t words[WORDS];

	memcpy(words, image, sizeof(words));
	gm_seq_fill(w + 1, words + 1, WORDS - 1);
	GM_POINT("pin_filled");
	gm_seq_publish(w, words[0]);
	GM_POINT("pin_visible");
}

/* Is it pinned by a process that may use it: of the map's user, or of root? */
static bool is_used(const struct gm_daemon *d,
		    const struct gm_holder_image *image)
{
	const struct gm_block *block = &d->directory->objects[image->slot];

	return block->unit == image->unit && block->version == image->version &&
	       (block->flags & GM_OBJECT_COMMITTED) != 0 &&
	       (block->owner_uid == image->uid ||
		gm_user_is_privileged(image->uid));
}

/* The process's memory is credited to what it holds or uses. */
static void bind(struct gm_daemon *d, uint32_t index)
{
	const struct gm_holder_image *image = &d->holders->table[index];

	if (image->kind == GM_HOLDER_RESERVE || is_used(d, image))
		gm_credit_bind(d, index, image->slot,
			       &d->holders->of[index]->is);
}

static void forget(struct gm_holder_process *process)
{
	gm_timer_stop(process->d->loop, &process->late);
	gm_loop_del(process->d->loop, &process->source);
	close(process->source.fd);
	free(process);
}

static bool is_to_come(const struct gm_holder_image *image)
{
	return image->kind == GM_HOLDER_RESERVE && image->unit == 0;
}

/* The claim's process stays, for it may have more of them. */
static void drop(struct gm_daemon *d, uint32_t index)
{
	struct gm_holder_image old = d->holders->table[index];

	if (!is_to_come(&old)) {
		gm_seq_publish(d->segment->map.holders[index].w,
			       GM_HOLDER_FREE);
		GM_POINT("unpin_visible");
	}
	gm_credit_unbind(d, index);
	memset(&d->holders->table[index], 0, sizeof(old));
	if (d->holders->of[index] != NULL)
		d->holders->of[index]->n_claims--;
	d->holders->of[index] = NULL;
	if (old.kind == GM_HOLDER_PIN)
		gm_directory_unpinned(d, old.unit, (uint32_t)old.bytes);
}

static void drop_last(struct gm_daemon *d, uint32_t index)
{
	struct gm_holder_process *process = d->holders->of[index];

	drop(d, index);
	if (process != NULL && process->n_claims == 0)
		forget(process);
}

/* The end of the process that held it.  A map leaves the directory first, and
 * takes its entry along. */
static void give_up(struct gm_daemon *d, uint32_t index)
{
	const struct gm_holder_image image = d->holders->table[index];

	if (image.kind == GM_HOLDER_RESERVE)
		gm_directory_withdraw(d, image.unit, image.version);
	if (d->holders->table[index].kind != GM_HOLDER_FREE)
		drop(d, index);
}

static void give_up_all(struct gm_daemon *d, struct gm_holder_process *of)
{
	uint32_t pins = 0, held = 0;
	uid_t uid = 0;

	of->n_claims++; /* it is used here */
	for (uint32_t i = 0; i < GM_HOLDERS; i++) {
		const struct gm_holder_image *image = &d->holders->table[i];

		if (d->holders->of[i] != of || is_to_come(image))
			continue;
		if (image->kind == GM_HOLDER_PIN)
			pins++;
		else
			held++;
		uid = image->uid;
		give_up(d, i);
	}
	of->n_claims--;
	gm_log_of(uid, GM_LOG_INFO, "holder_gone", "holder=%d pins=%u held=%u",
		  (int)of->is.pid, pins, held);
}

/* The object that it was about to hold is part of a transaction: the pin is
 * dropped when the transaction has been published. */
static void end(struct gm_holder_process *process)
{
	give_up_all(process->d, process);
	if (process->n_claims == 0) {
		forget(process);
		return;
	}
	process->ended = true;
	gm_loop_del(process->d->loop, &process->source);
}

static void process_ended(struct gm_source *source, uint32_t events)
{
	(void)events;
	end(gm_owner(source, struct gm_holder_process, source));
}

static void ended_before(struct gm_timer *timer)
{
	end(gm_owner(timer, struct gm_holder_process, late));
}

/* The process has begun by now, and no later: nothing is read of it, because to
 * look up a name in its folder of /proc waits for a lock that it can hold. */
static int watch(struct gm_daemon *d, pid_t pid,
		 struct gm_holder_process **ret_process)
{
	struct gm_holder_process *process = calloc(1, sizeof(*process));
	int ret;

	if (process == NULL)
		return -ENOMEM;
	process->d = d;
	process->source.ready = process_ended;
	process->late.fired = ended_before;
	process->source.fd = (int)syscall(SYS_pidfd_open, pid, 0);
	if (process->source.fd < 0) {
		/* The error for a thread is EINVAL, or ENOENT since Linux
		 * 6.15. */
		ret = errno == EINVAL || errno == ENOENT ? -ESRCH : -errno;
		free(process);
		return ret;
	}
	process->is.pid = (uint32_t)pid;
	process->is.start = gm_lineage_now();
	ret = gm_loop_add(d->loop, &process->source, EPOLLIN);
	if (ret != 0) {
		close(process->source.fd);
		free(process);
		return ret;
	}
	*ret_process = process;
	return 0;
}

static struct gm_holder_process *known(const struct gm_daemon *d, pid_t pid)
{
	for (uint32_t i = 0; i < GM_HOLDERS; i++) {
		struct gm_holder_process *process = d->holders->of[i];

		if (process != NULL && process->is.pid == (uint32_t)pid &&
		    !process->ended)
			return process;
	}
	return NULL;
}

/* One that we know may have ended just now, and its pid be another's. */
static int watched(struct gm_daemon *d, pid_t pid,
		   struct gm_holder_process **ret_process)
{
	struct gm_holder_process *process = known(d, pid);
	struct pollfd ended = { .events = POLLIN };

	if (process != NULL) {
		ended.fd = process->source.fd;
		if (poll(&ended, 1, 0) == 0) {
			*ret_process = process;
			return 0;
		}
		end(process);
	}
	return watch(d, pid, ret_process);
}

static int check_quota(const struct gm_daemon *d, uid_t uid, uint32_t bytes,
		       char *ret_why)
{
	uint64_t total = bytes;
	uint32_t n = 1;

	for (uint32_t i = 0; i < GM_HOLDERS; i++) {
		const struct gm_holder_image *image = &d->holders->table[i];

		if (image->kind == GM_HOLDER_FREE || image->uid != uid)
			continue;
		if (image->kind == GM_HOLDER_PIN)
			total += image->bytes;
		n++;
	}
	if (n > d->config->pins_per_uid)
		return gm_why(
			ret_why, -EDQUOT,
			"uid %u has %u pins and held maps: give one back, "
			"or raise pins-per-uid in [limits] of gpumapd.conf",
			(unsigned int)uid, n - 1);
	if (total > d->config->pin_bytes_per_uid)
		return gm_why(ret_why, -EDQUOT,
			      "uid %u would pin %s: unpin something, or raise "
			      "pin-bytes-per-uid in [limits] of gpumapd.conf",
			      (unsigned int)uid, gm_size_up(total).text);
	return 0;
}

static uint32_t free_place(const struct gm_daemon *d)
{
	uint32_t i = 0;

	while (i < GM_HOLDERS && d->holders->table[i].kind != GM_HOLDER_FREE)
		i++;
	return i;
}

/* Find a place for a claim: the uid's quota allows it, and its process can be
 * watched.  @image has the pid and the uid, and gets the other fields that all
 * claims have. */
static int claim(struct gm_daemon *d, uint32_t bytes, char *ret_why,
		 struct gm_holder_image *image, uint32_t *ret_place)
{
	struct gm_holder_process *process;
	pid_t pid = (pid_t)image->pid;
	uid_t uid = image->uid;
	uint32_t place;
	int ret = check_quota(d, uid, bytes, ret_why);

	if (ret != 0)
		return ret;
	if (pid <= 0)
		return gm_why(ret_why, -ESRCH,
			      "gpumapd does not see this process, which is "
			      "beside gpumapd's pid namespace: run gpumapd in "
			      "the host's (docker --pid=host, hostPID of a "
			      "pod)");
	ret = watched(d, pid, &process);
	if (ret == -ESRCH)
		return gm_why(ret_why, ret,
			      "process %d cannot be watched: it is gone",
			      (int)pid);
	if (ret != 0)
		return gm_why(ret_why, ret, "process %d cannot be watched: %s",
			      (int)pid, strerror(-ret));
	place = free_place(d);
	if (place == GM_HOLDERS) {
		if (process->n_claims == 0)
			forget(process);
		return gm_why(ret_why, -ENOSPC,
			      "all %u pins of this node are in use",
			      GM_HOLDERS);
	}
	process->n_claims++;
	d->holders->of[place] = process;
	image->start = process->is.start;
	image->claim = ++d->holders->last_claim;
	*ret_place = place;
	return 0;
}

static void put_block(struct gm_holder_image *image,
		      const struct gm_block *block)
{
	image->unit = block->unit;
	image->slot = block->slot;
	image->version = block->version;
	image->bytes = block->bytes;
}

int gm_pins_pin(struct gm_daemon *d, struct gm_pin_owner owner, uint32_t kind,
		const char *name, char ret_why[GM_WHY_BYTES],
		struct gm_pin *ret_pin)
{
	const struct gm_block *block = gm_directory_find(d, kind, name);
	struct gm_holder_image image = { .pid = (uint32_t)owner.pid,
					 .uid = owner.uid };
	uint32_t place;
	int ret;

	if (block == NULL)
		return gm_why(ret_why, -ENOENT, "nothing is published as %s",
			      name);
	ret = claim(d, block->bytes, ret_why, &image, &place);
	if (ret != 0)
		return ret;
	/* The search for a place may have found that the holder is gone. */
	block = gm_directory_find(d, kind, name);
	if (block == NULL) {
		drop_last(d, place);
		return gm_why(ret_why, -ENOENT, "nothing is published as %s",
			      name);
	}
	image.kind = GM_HOLDER_PIN;
	put_block(&image, block);
	d->holders->table[place] = image;
	store(d, place, &image);
	bind(d, place);
	gm_credit_recount_slot(d, image.slot);
	*ret_pin = (struct gm_pin){ .claim = image.claim,
				    .unit = image.unit,
				    .version = image.version };
	return 0;
}

int gm_pins_unpin(struct gm_daemon *d, pid_t pid, uint64_t claim)
{
	for (uint32_t i = 0; i < GM_HOLDERS; i++) {
		const struct gm_holder_image *image = &d->holders->table[i];

		if (image->kind != GM_HOLDER_PIN || image->claim != claim ||
		    image->pid != (uint32_t)pid)
			continue;
		drop_last(d, i);
		return 0;
	}
	return -ENOENT;
}

/* ---- held maps ----------------------------------------------------------- */

int gm_pins_hold(struct gm_daemon *d, pid_t pid, uid_t uid,
		 char ret_why[GM_WHY_BYTES], uint32_t *ret_place)
{
	struct gm_holder_image image = { .pid = (uint32_t)pid, .uid = uid };
	int ret = claim(d, 0, ret_why, &image, ret_place);

	if (ret != 0)
		return ret;
	image.kind = GM_HOLDER_RESERVE;
	d->holders->table[*ret_place] = image;
	return 0;
}

void gm_pins_keep(struct gm_daemon *d, uint32_t place,
		  const struct gm_block *block)
{
	struct gm_holder_process *process = d->holders->of[place];
	struct gm_holder_image *image = &d->holders->table[place];

	put_block(image, block);
	store(d, place, image);
	bind(d, place);
	if (process->ended)
		gm_timer_set(d->loop, &process->late, gm_loop_now());
}

/* An entry that is left of an earlier map of the slot has another version. */
static bool holds(const struct gm_daemon *d,
		  const struct gm_holder_image *image, uint32_t slot)
{
	return image->kind == GM_HOLDER_RESERVE && image->slot == slot &&
	       image->unit != 0 &&
	       image->version == d->directory->objects[slot].version;
}

pid_t gm_pins_holder(const struct gm_daemon *d, uint32_t slot)
{
	for (uint32_t i = 0; i < GM_HOLDERS; i++) {
		if (holds(d, &d->holders->table[i], slot))
			return (pid_t)d->holders->table[i].pid;
	}
	return 0;
}

/* ---- start windows ------------------------------------------------------- */

void gm_pins_set_start(struct gm_daemon *d, uint32_t place, uint64_t start_ns)
{
	d->holders->table[place].start_until = gm_node_clock_now() + start_ns;
}

int gm_pins_started(struct gm_daemon *d, uint32_t slot)
{
	const size_t word = offsetof(struct gm_holder_image, start_until) / 8;

	for (uint32_t i = 0; i < GM_HOLDERS; i++) {
		if (!holds(d, &d->holders->table[i], slot))
			continue;
		d->holders->table[i].start_until = 0;
		gm_put(d->segment->map.holders[i].w + word, 0);
		return 0;
	}
	return -ENOENT;
}

/* Has the map in this slot the row, also if it takes no bytes of it? */
static bool has_row(const struct gm_daemon *d, uint32_t slot, uint32_t row)
{
	const gm_a64 *word = &d->segment->map.objects[slot].slot;
	struct gm_layers_image image;
	struct gm_object object;

	if (gm_object_open(&d->segment->map, word, &object) != 0 ||
	    gm_layers_image(&object, &image) != 0)
		return false;
	for (uint32_t i = 0; i < image.n_rows; i++) {
		struct gm_charge_image charge;

		if (gm_object_read(&object,
				   image.charges_at + i * sizeof(charge),
				   &charge, sizeof(charge)) == 0 &&
		    charge.row == row)
			return true;
	}
	return false;
}

const struct gm_holder_image *gm_pins_starting(const struct gm_daemon *d,
					       uint32_t row, uint32_t slot)
{
	uint64_t now = gm_node_clock_now();

	for (uint32_t i = 0; i < GM_HOLDERS; i++) {
		const struct gm_holder_image *image = &d->holders->table[i];

		if (image->start_until > now && image->slot != slot &&
		    holds(d, image, image->slot) &&
		    has_row(d, image->slot, row))
			return image;
	}
	return NULL;
}

void gm_pins_let_go(struct gm_daemon *d, uint32_t place)
{
	drop_last(d, place);
}

void gm_pins_object_moved(struct gm_daemon *d, const struct gm_block *old,
			  const struct gm_block *new_block)
{
	(void)new_block;
	if ((old->flags & GM_OBJECT_COMMITTED) == 0)
		return;
	for (uint32_t i = 0; i < GM_HOLDERS; i++) {
		const struct gm_holder_image *image = &d->holders->table[i];

		if (image->kind == GM_HOLDER_FREE || image->unit != old->unit ||
		    image->version != old->version)
			continue;
		if (image->kind == GM_HOLDER_RESERVE)
			drop_last(d, i);
		else
			gm_credit_unbind(d, i);
	}
}

bool gm_pins_have(const struct gm_daemon *d, uint32_t unit)
{
	for (uint32_t i = 0; i < GM_HOLDERS; i++) {
		if (d->holders->table[i].kind == GM_HOLDER_PIN &&
		    d->holders->table[i].unit == unit)
			return true;
	}
	return false;
}

/* Stored for a slot that never came, or left behind by one that moved on. */
static bool is_meant(const struct gm_daemon *d,
		     const struct gm_holder_image *image)
{
	if (image->kind != GM_HOLDER_RESERVE)
		return true;
	for (uint32_t i = 0; i < GM_OBJECTS; i++) {
		const struct gm_block *block = &d->directory->objects[i];

		if (block->unit == image->unit &&
		    block->version == image->version &&
		    block->slot == image->slot)
			return (block->flags & GM_OBJECT_HELD) != 0;
	}
	return false;
}

/* Open a pidfd of a claim's process, if it still runs.  Returns 0, or why its
 * end cannot be seen. */
static int adopt(struct gm_daemon *d, uint32_t index)
{
	const struct gm_holder_image *image = &d->holders->table[index];
	struct gm_holder_process *process;
	struct gm_lineage_member now;
	int ret = watched(d, (pid_t)image->pid, &process);

	if (ret != 0)
		return ret == -ESRCH ? 0 : ret;
	ret = gm_lineage_stat((pid_t)image->pid, &now);
	if (ret == 0 && now.start <= image->start) {
		d->holders->of[index] = process;
		process->n_claims++;
		bind(d, index);
	} else if (process->n_claims == 0) {
		forget(process); /* the pid is another's by now */
	}
	return ret == -ESRCH ? 0 : ret;
}

int gm_pins_adopt(struct gm_daemon *d)
{
	struct gm_holders *holders = d->holders;
	uint32_t pins = 0, held = 0, gone = 0;
	int ret = 0;

	/* Later than any claim of an agent before us, for it gave them out at
	 * less than one a nanosecond. */
	holders->last_claim = gm_node_clock_now();
	for (uint32_t i = 0; i < GM_HOLDERS && ret == 0; i++) {
		if (holders->table[i].kind == GM_HOLDER_FREE)
			continue;
		if (!is_meant(d, &holders->table[i])) {
			drop(d, i);
			continue;
		}
		if (holders->table[i].kind == GM_HOLDER_PIN)
			pins++;
		else
			held++;
		ret = adopt(d, i);
	}
	for (uint32_t i = 0; i < GM_HOLDERS && ret == 0; i++) {
		if (holders->table[i].kind == GM_HOLDER_FREE ||
		    holders->of[i] != NULL)
			continue;
		give_up(d, i);
		gone++;
	}
	if (ret == 0 && pins + held != 0)
		gm_log(GM_LOG_INFO, "holders_adopted",
		       "pins=%u held=%u gone=%u", pins, held, gone);
	return ret;
}

void gm_pins_exit(struct gm_daemon *d)
{
	for (uint32_t i = 0; i < GM_HOLDERS; i++) {
		struct gm_holder_process *process = d->holders->of[i];

		d->holders->of[i] = NULL;
		if (process != NULL && --process->n_claims == 0)
			forget(process);
	}
}
