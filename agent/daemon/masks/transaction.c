/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/masks/transaction.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "agent/common/log.h"
#include "agent/daemon/base/deferred_close.h"
#include "agent/daemon/base/io_thread.h"
#include "agent/daemon/base/loop.h"
#include "agent/daemon/base/parts.h"
#include "agent/daemon/devices/rows.h"
#include "agent/daemon/map/transaction.h"
#include "agent/daemon/masks/device_replicas.h"
#include "agent/daemon/masks/masks.h"
#include "agent/daemon/masks/numa_segments.h"
#include "agent/daemon/masks/state.h"
#include "agent/daemon/segment/directory.h"
#include "agent/daemon/state/state.h"
#include "agent/mask/mask.h"
#include "gpumap.h"
#include "lib/model/plan/size_text.h"
#include "shm/point.h"

static struct gm_mask_change *of(struct gm_change *change)
{
	return gm_mask_change_of(change);
}

static struct gm_mask_change *of_job(struct gm_io_job *job)
{
	return of(gm_owner(job, struct gm_change, job));
}

static size_t staging_bytes(const struct gm_mask_change *p)
{
	return (p->image.bytes + 7) / 8 * 8;
}

static void drop_staging(struct gm_mask_change *p)
{
	if (p->staging != NULL)
		munmap(p->staging, staging_bytes(p));
	p->staging = NULL;
}

static void drop_parts(struct gm_mask_change *p)
{
	for (uint32_t i = 0; i < p->n_parts; i++)
		gm_numa_segments_drop(p->parts[i].span);
	p->n_parts = 0;
}

struct gm_mask_change *gm_mask_change_new(const struct gm_change_kind *kind)
{
	struct gm_mask_change *p = calloc(1, sizeof(*p));

	if (p == NULL)
		return NULL;
	p->fd = -1;
	p->change.kind = kind;
	p->change.bytes = sizeof(*p);
	return p;
}

static void leave_targets(struct gm_mask_change *p)
{
	for (uint32_t i = 0; i < GM_ROWS; i++) {
		struct gm_mask_target *target = &p->targets[i];

		gm_mask_device_leave(&target->wait);
		gm_mask_device_drop(target->device);
		target->device = NULL;
	}
}

void gm_mask_change_free(struct gm_change *change)
{
	struct gm_mask_change *p = of(change);

	/* A refused change still has it, and it may be large. */
	if (p->staging != NULL && change->d->server != NULL) {
		gm_close_thread_unmap(&change->d->server->close_thread,
				      p->staging, staging_bytes(p));
		p->staging = NULL;
	}
	drop_staging(p);
	leave_targets(p);
	drop_parts(p);
	if (p->source != NULL)
		gm_numa_segments_drop(p->source);
	/* A client's, with as many pages as it likes, and ours may be the
	 * last. */
	gm_deferred_close_close(p->fd, change->uid);
	free(p->uuids);
	free(p);
}

/* ---- which, and may it be? ----------------------------------------------- */

/* Replicas with bytes of their own. */
static uint32_t count_nodes(const struct gm_mask_change *p)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < p->image.n_replicas; i++)
		n += gm_masks_is_first(p->replicas, i);
	return n;
}

uint32_t gm_mask_change_places(const struct gm_mask_change *p)
{
	uint32_t n = count_nodes(p);

	for (uint32_t i = 0; i < p->image.n_replicas; i++)
		n += p->replicas[i].place == GM_REPLICA_DEVICE;
	return n;
}

int gm_mask_change_choose(struct gm_mask_change *p)
{
	struct gm_change *change = &p->change;
	struct gm_daemon *d = change->d;
	int ret = gm_mask_check_rows(d, p->image.map, p->image.bytes != 0,
				     &p->rows, change->why);

	if (ret != 0)
		return ret;
	p->image.n_replicas = p->rows.n;
	for (uint32_t i = 0; i < p->rows.n; i++) {
		const struct gm_row_image *facts =
			&d->devices->of[p->rows.of[i]]->facts;
		struct gm_replica_image *replica = &p->replicas[i];

		*replica = (struct gm_replica_image){
			.row = facts->row,
			.row_generation = facts->generation,
			.bytes = p->image.bytes,
		};
		if (p->image.bytes == 0)
			continue;
		if ((facts->flags & GPUMAP_DEVICE_MAPPED) == 0) {
			replica->place = GM_REPLICA_DEVICE;
			replica->node = gm_mask_devices_home(d, facts->row);
			continue;
		}
		replica->place = GM_REPLICA_NODE;
		replica->node = (uint32_t)facts->numa_node;
	}
	return 0;
}

int gm_mask_change_quota(struct gm_mask_change *p, uint32_t uid)
{
	uint64_t bytes;

	if (__builtin_mul_overflow(p->image.bytes, count_nodes(p), &bytes))
		bytes = UINT64_MAX;
	return gm_masks_admit_quota(p->change.d, uid, p->image.object.name,
				    bytes, p->change.why);
}

/* ---- the tensor: on the I/O thread
 * ----------------------------------------- */

static uint64_t stir(uint64_t sum, uint64_t word)
{
	sum = (sum ^ word) * UINT64_C(0x9e3779b97f4a7c15);
	return sum ^ sum >> 29;
}

/* Eight bytes at a time, four sums that do not wait for each other.  No secret
 * is at stake: what has equal hashes is compared. */
static uint64_t hash_of(const uint64_t *words, uint64_t n)
{
	uint64_t a = 1, b = 2, c = 3, d = 4, i = 0;

	for (; i + 4 <= n; i += 4) {
		a = stir(a, words[i]);
		b = stir(b, words[i + 1]);
		c = stir(c, words[i + 2]);
		d = stir(d, words[i + 3]);
	}
	for (; i < n; i++)
		a = stir(a, words[i]);
	return stir(stir(stir(stir(n, a), b), c), d);
}

void gm_mask_change_sum(struct gm_mask_change *p)
{
	p->image.hash = hash_of(p->staging, staging_bytes(p) / 8);
}

int gm_mask_change_stage(struct gm_mask_change *p)
{
	p->staging = mmap(NULL, staging_bytes(p), PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p->staging == MAP_FAILED) {
		p->staging = NULL;
		return gm_why(p->change.why, -ENOMEM, "no memory to make %s in",
			      gm_size_up(p->image.bytes).text);
	}
	madvise(p->staging, staging_bytes(p), MADV_HUGEPAGE);
	return 0;
}

int gm_mask_change_generate(struct gm_mask_change *p)
{
	const struct gm_mask_spec spec = gm_mask_check_spec(&p->image);
	int ret = gm_mask_change_stage(p);

	if (ret != 0)
		return ret;
	gm_mask_fill(&spec, p->image.dtype, 0, p->image.shape[0], p->staging);
	gm_mask_change_sum(p);
	return 0;
}

/* ---- settle, copy -------------------------------------------------------- */

static int take_part(struct gm_mask_change *p, uint32_t node,
		     struct gm_mask_part *part)
{
	struct gm_change *change = &p->change;
	struct gm_node_segment *segment;
	int ret = gm_numa_segments_open(change->d, node, true, change->why,
					&segment);

	if (ret != 0)
		return ret;
	part->span = p->is_alone
			     ? NULL
			     : gm_numa_segments_find(segment, p->image.bytes,
						     p->image.hash);
	part->is_shared = part->span != NULL;
	if (part->span == NULL)
		return gm_numa_segments_take(segment, p->image.bytes,
					     p->image.hash, change->why,
					     &part->span);
	part->span->refs++;
	return 0;
}

static const struct gm_mask_part *part_of(const struct gm_mask_change *p,
					  uint32_t node)
{
	uint32_t i = 0;

	while (p->parts[i].span->segment->node != node)
		i++;
	return &p->parts[i];
}

int gm_mask_change_settle(struct gm_change *change)
{
	struct gm_mask_change *p = of(change);

	for (uint32_t i = 0; i < p->image.n_replicas; i++) {
		struct gm_replica_image *replica = &p->replicas[i];
		const struct gm_mask_part *part;
		int ret;

		if (gm_masks_is_first(p->replicas, i)) {
			ret = take_part(p, replica->node,
					&p->parts[p->n_parts]);
			if (ret != 0)
				return ret;
			p->n_parts++;
		}
		if (replica->place == GM_REPLICA_NOWHERE)
			continue;
		part = part_of(p, replica->node);
		replica->id = replica->place == GM_REPLICA_NODE
				      ? part->span->segment->made
				      : 0;
		replica->at = (uint64_t)part->span->unit * GM_SPAN_UNIT;
	}
	return 0;
}

static void do_copy(struct gm_io_job *job)
{
	struct gm_mask_change *p = of_job(job);
	const void *bytes =
		p->source != NULL ? gm_nodes_at(p->source) : p->staging;

	p->change.status = 0;
	p->differs = false;
	p->n_copies = 0;
	for (uint32_t i = 0; i < p->n_parts; i++) {
		struct gm_mask_part *part = &p->parts[i];

		if (part->is_shared) {
			p->differs = memcmp(gm_nodes_at(part->span), bytes,
					    p->image.bytes) != 0;
			if (p->differs)
				return;
			continue;
		}
		p->change.status =
			gm_numa_segments_fill(part->span, bytes, p->change.why);
		if (p->change.status != 0)
			return;
		p->n_copies++;
	}
	drop_staging(p);
}

/* ---- file, show ---------------------------------------------------------- */

/* A replica may have been lost while others were made, or become possible on a
 * row that was to do without.  Those who looked then found no mask yet that
 * could have been published anew. */
static void look_again(const struct gm_mask_change *p)
{
	struct gm_daemon *d = p->change.d;

	for (uint32_t i = 0; i < p->image.n_replicas; i++) {
		const struct gm_replica_image *replica = &p->replicas[i];

		if (replica->place == GM_REPLICA_DEVICE &&
		    p->targets[i].n_looks !=
			    d->mask_devices->n_looks[replica->row])
			gm_mask_devices_recheck(d, replica->row);
	}
}

static void show(struct gm_mask_change *p)
{
	struct gm_change *change = &p->change;

	/* The references are the block's from here on. */
	p->n_parts = 0;
	for (uint32_t i = 0; i < p->image.n_replicas; i++)
		p->targets[i].device = NULL;
	gm_directory_store(change->d, &p->put);
	look_again(p);
	gm_state_replaced(change->d, &gm_mask_kind, p->image.object.name);
	change->version = p->put.block.version;
	gm_log_of(p->image.object.owner_uid, GM_LOG_INFO, "mask_published",
		  "name=%s rows=%u bytes=%llu copies=%u version=%llu uid=%u",
		  p->image.object.name, p->image.n_replicas,
		  (unsigned long long)p->image.bytes, p->n_copies,
		  (unsigned long long)change->version,
		  p->image.object.owner_uid);
}

static void do_write(struct gm_io_job *job)
{
	struct gm_mask_change *p = of_job(job);
	struct gm_change *change = &p->change;

	/* The bytes of a span do not change, and this span stays. */
	change->file = gm_mask_state_make(
		&p->image, p->uuids ? p->rows.n : 0,
		(const uint8_t(*)[16])p->uuids,
		p->n_parts != 0 ? gm_nodes_at(p->parts[0].span) : NULL);
	change->status =
		change->file != NULL
			? gm_state_file_write(&change->d->state->dir,
					      &gm_mask_kind, change->file,
					      change->why)
			: gm_why(change->why, -ENOMEM, "out of memory");
}

static void written(struct gm_io_job *job)
{
	struct gm_mask_change *p = of_job(job);
	int ret = p->change.status;

	if (ret == 0)
		show(p);
	else
		gm_directory_abandon(p->change.d, &p->put);
	gm_transactions_end(&p->change, ret);
}

static int name_rows(struct gm_mask_change *p)
{
	const struct gm_daemon *d = p->change.d;

	if (p->image.map[0] != '\0')
		return 0;
	p->uuids = calloc(p->rows.n, sizeof(*p->uuids));
	if (p->uuids == NULL)
		return gm_why(p->change.why, -ENOMEM, "out of memory");
	for (uint32_t i = 0; i < p->rows.n; i++)
		memcpy(p->uuids[i], d->devices->of[p->rows.of[i]]->facts.uuid,
		       sizeof(*p->uuids));
	return 0;
}

/* Others have had their turns since the rows were chosen. */
static int check_again(struct gm_mask_change *p)
{
	struct gm_replica_image before[GM_ROWS];
	uint32_t n = p->image.n_replicas;
	struct gm_change *change = &p->change;
	int ret;

	memcpy(before, p->replicas, n * sizeof(before[0]));
	ret = change->kind->check(change);
	if (ret != 0 || change->act == GM_CHANGE_NOTHING)
		return ret;
	if (p->image.n_replicas != n)
		ret = -EAGAIN;
	for (uint32_t i = 0; i < n && ret == 0; i++) {
		const struct gm_replica_image *now = &p->replicas[i];

		if (now->row != before[i].row ||
		    now->row_generation != before[i].row_generation ||
		    now->place != before[i].place ||
		    now->node != before[i].node)
			ret = -EAGAIN;
	}
	if (ret != 0)
		return gm_why(change->why, ret,
			      "the rows that the mask is for are others now: "
			      "ask again");
	memcpy(p->replicas, before, n * sizeof(before[0]));
	return 0;
}

static int prepare_block(struct gm_mask_change *p)
{
	uint64_t *words = malloc(gm_replicas_bytes(p->image.n_replicas));
	int ret;

	if (words == NULL)
		return gm_why(p->change.why, -ENOMEM, "out of memory");
	gm_replicas_build(&p->image, p->replicas, 0, words);
	ret = gm_directory_prepare(p->change.d, words, p->least_version,
				   p->change.why, &p->put);
	/* With its version and time, for the file. */
	if (ret == 0)
		memcpy(&p->image, words, sizeof(p->image));
	free(words);
	return ret;
}

static void prepare(struct gm_mask_change *p)
{
	struct gm_change *change = &p->change;
	int ret = check_again(p);

	if (ret != 0 || change->act == GM_CHANGE_NOTHING) {
		gm_transactions_end(change, ret);
		return;
	}
	p->image.homes =
		gm_masks_homes(change->d, p->replicas, p->image.n_replicas);
	ret = p->has_file ? name_rows(p) : 0;
	if (ret == 0)
		ret = prepare_block(p);
	if (ret == 0 && p->has_file) {
		gm_transactions_give(change, do_write, written);
		return;
	}
	if (ret == 0)
		show(p);
	gm_transactions_end(change, ret);
}

/* ---- rows with a device: workers are asked for replicas ------------------ */

static bool is_for_want_of_room(int status)
{
	return status == -ENOSPC || status == -EDQUOT || status == -ENOMEM;
}

/* A row has no replica: the request of a client ends, and a change of the
 * agent's own goes on without this row. */
static void lacks(struct gm_mask_change *p, uint32_t i, int status,
		  const char *why)
{
	struct gm_mask_target *target = &p->targets[i];

	gm_mask_device_drop(target->device);
	target->device = NULL;
	if (p->is_lenient) {
		if (is_for_want_of_room(status))
			gm_mask_devices_want(p->change.d, p->replicas[i].row,
					     p->image.object.owner_uid,
					     p->image.bytes);
		gm_log_of(p->image.object.owner_uid, GM_LOG_WARNING,
			  "mask_without", "name=%s row=%u why=%s",
			  p->image.object.name, p->replicas[i].row,
			  gm_quote(why).text);
	} else if (p->refusal == 0) {
		p->refusal = status;
		if (why != p->change.why)
			gm_why(p->change.why, status, "%s", why);
	}
}

/* Does the published one say the same already? */
static bool is_as_before(const struct gm_mask_change *p)
{
	const struct gm_daemon *d = p->change.d;
	const struct gm_block *present =
		gm_directory_find(d, GM_KIND_MASK, p->image.object.name);
	struct gm_masks_block block;

	return p->is_lenient && present != NULL &&
	       gm_masks_read(d, present->unit, &block) &&
	       block.image.n_replicas == p->image.n_replicas &&
	       memcmp(block.replicas, p->replicas,
		      p->image.n_replicas * sizeof(p->replicas[0])) == 0;
}

static void go_on(struct gm_mask_change *p)
{
	for (uint32_t i = 0; i < p->image.n_replicas; i++) {
		if (p->targets[i].device != NULL) {
			p->n_copies += p->targets[i].is_new;
			p->replicas[i].id =
				gm_mask_device_id(p->targets[i].device);
		}
	}
	if (p->refusal != 0)
		gm_transactions_end(&p->change, p->refusal);
	else if (is_as_before(p))
		gm_transactions_end(&p->change, 0);
	else
		prepare(p);
}

static void all_told(struct gm_io_job *job)
{
	go_on(gm_mask_change_of(gm_owner(job, struct gm_change, job)));
}

static void told(struct gm_mask_wait *wait, int status, const char *why)
{
	struct gm_mask_target *target =
		gm_owner(wait, struct gm_mask_target, wait);
	struct gm_mask_change *p = target->of;

	if (status != 0)
		lacks(p, (uint32_t)(target - p->targets), status, why);
	if (--p->n_awaited == 0)
		gm_transactions_return(&p->change);
}

static void aim(struct gm_mask_change *p, uint32_t i)
{
	const struct gm_replica_image *replica = &p->replicas[i];
	const struct gm_mask_part *part = part_of(p, replica->node);
	struct gm_mask_target *target = &p->targets[i];
	char *why = p->change.why;
	int ret;

	target->of = p;
	target->n_looks = p->change.d->mask_devices->n_looks[replica->row];
	target->wait.done = told;
	ret = gm_mask_devices_take(p->change.d, replica->row,
				   p->image.object.owner_uid, part->span, why,
				   &target->device);
	if (ret != 0) {
		lacks(p, i, ret, why);
		return;
	}
	if (gm_mask_device_is_ready(target->device))
		return;
	target->is_new = true;
	p->n_awaited++;
	gm_mask_device_wait(target->device, &target->wait);
}

static void ask_targets(struct gm_mask_change *p)
{
	for (uint32_t i = 0; i < p->image.n_replicas; i++) {
		if (p->replicas[i].place == GM_REPLICA_DEVICE &&
		    p->refusal == 0)
			aim(p, i);
	}
	if (p->n_awaited == 0)
		go_on(p);
	else
		gm_transactions_go(&p->change, all_told);
}

static void copied(struct gm_io_job *job)
{
	struct gm_mask_change *p = of_job(job);
	struct gm_change *change = &p->change;
	int ret = change->status;

	if (ret == 0 && p->differs) {
		drop_parts(p);
		p->is_alone = true;
		ret = gm_mask_change_settle(change);
		if (ret == 0) {
			gm_transactions_give_away(change, do_copy, copied);
			return;
		}
	}
	if (ret == 0)
		ask_targets(p);
	else
		gm_transactions_end(change, ret);
}

void gm_mask_change_proceed(struct gm_change *change)
{
	struct gm_mask_change *p = of(change);

	if (p->n_parts > 0)
		gm_transactions_give_away(change, do_copy, copied);
	else
		prepare(p);
}
