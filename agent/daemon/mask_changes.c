/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/mask_changes.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <gpumap.h>

#include "agent/common/log.h"
#include "agent/daemon/changes.h"
#include "agent/daemon/daemon.h"
#include "agent/daemon/mask_judge.h"
#include "agent/daemon/masks.h"
#include "agent/mask/mask.h"
#include "shm/point.h"

/* A node's replica. */
struct part {
	struct gm_node_segment *segment;
	struct gm_span *span;
	bool is_shared; /* it has bytes already: the same, if the hash is right */
};

struct publish {
	struct gm_change change;
	struct gm_mask_image image;
	struct gm_replica_image replicas[GM_ROWS];
	struct gm_masks_rows rows; /* that are asked for, or their map's */
	struct part parts[GM_NODES];
	uint32_t n_parts;
	uint32_t n_copies;
	bool is_alone; /* the same hash, other bytes: it shares with nobody */
	bool differs;

	/* Where the tensor comes from: generated, or a file, or a span. */
	int fd;
	uint64_t at;
	struct gm_node_segment *source_segment;
	struct gm_span *source;
	void *staging; /* image.bytes, rounded up to words */
};

static struct publish *of(struct gm_change *change)
{
	return gm_owner(change, struct publish, change);
}

static size_t staging_bytes(const struct publish *p)
{
	return (p->image.bytes + 7) / 8 * 8;
}

static void drop_staging(struct publish *p)
{
	if (p->staging != NULL)
		munmap(p->staging, staging_bytes(p));
	p->staging = NULL;
}

static void drop_parts(struct publish *p)
{
	for (uint32_t i = 0; i < p->n_parts; i++)
		gm_nodes_drop(p->parts[i].segment, p->parts[i].span);
	p->n_parts = 0;
}

static void free_publish(struct gm_change *change)
{
	struct publish *p = of(change);

	drop_staging(p);
	drop_parts(p);
	if (p->source != NULL)
		gm_nodes_drop(p->source_segment, p->source);
	if (p->fd >= 0)
		close(p->fd);
	free(p);
}

/* ---- judge -------------------------------------------------------------- */

static uint64_t count_nodes(const struct publish *p)
{
	uint64_t n = 0;

	for (uint32_t i = 0; i < p->image.n_replicas; i++)
		n += gm_masks_is_first(p->replicas, i);
	return n;
}

/* Which rows, and on which nodes; the spans come later. */
static int choose_rows(struct publish *p)
{
	struct gm_change *change = &p->change;
	struct gm_daemon *d = change->d;
	int ret = gm_mask_judge_rows(d, p->image.map, p->image.bytes != 0,
				     &p->rows, change->why);

	if (ret != 0)
		return ret;
	p->image.n_replicas = p->rows.n;
	for (uint32_t i = 0; i < p->rows.n; i++) {
		const struct gm_row_image *facts =
			&d->devices.of[p->rows.of[i]]->facts;
		struct gm_replica_image *replica = &p->replicas[i];

		*replica = (struct gm_replica_image){
			.row = facts->row,
			.row_generation = facts->generation,
			.bytes = p->image.bytes,
		};
		if (p->image.bytes == 0)
			continue;
		replica->place = GM_REPLICA_NODE;
		replica->node = (uint32_t)facts->numa_node;
	}
	return 0;
}

static int judge_publish(struct gm_change *change)
{
	struct publish *p = of(change);
	const char *name = p->image.object.name;
	uint64_t bytes;
	int ret = choose_rows(p);

	if (ret == 0)
		ret = gm_publish_may_replace(
			change->d, GM_KIND_MASK, name, change->uid,
			gm_replicas_bytes(p->image.n_replicas), change->why);
	if (ret == 0 &&
	    __builtin_mul_overflow(p->image.bytes, count_nodes(p), &bytes))
		bytes = UINT64_MAX;
	if (ret == 0)
		ret = gm_masks_judge_quota(change->d, change->uid, name, bytes,
					   change->why);
	change->act = GM_CHANGE_OWN;
	return ret;
}

/* ---- plan: by the clerk -------------------------------------------------- */

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

static int read_file(struct publish *p)
{
	uint64_t done = 0;

	while (done < p->image.bytes) {
		ssize_t n = pread(p->fd, (char *)p->staging + done,
				  p->image.bytes - done, (off_t)(p->at + done));

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return gm_why(p->change.why, -EIO,
				      "the tensor cannot be read: %s",
				      n < 0 ? strerror(errno) : "it has ended");
		done += (uint64_t)n;
	}
	return 0;
}

static void generate(struct publish *p)
{
	const struct gm_mask_spec spec = gm_mask_judge_spec(&p->image);

	gm_mask_fill(&spec, p->image.dtype, 0, p->image.shape[0], p->staging);
}

static int make_tensor(struct gm_change *change)
{
	struct publish *p = of(change);
	int ret = 0;

	if (p->image.bytes == 0 || p->source != NULL)
		return 0;
	p->staging = mmap(NULL, staging_bytes(p), PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p->staging == MAP_FAILED) {
		p->staging = NULL;
		return gm_why(change->why, -ENOMEM,
			      "no memory to make %llu bytes in",
			      (unsigned long long)p->image.bytes);
	}
	madvise(p->staging, staging_bytes(p), MADV_HUGEPAGE);
	if (p->image.form == GPUMAP_MASK_LOADED)
		ret = read_file(p);
	else
		generate(p);
	if (ret == 0)
		p->image.hash = hash_of(p->staging, staging_bytes(p) / 8);
	return ret;
}

/* ---- settle, copy -------------------------------------------------------- */

static int take_part(struct publish *p, uint32_t node, struct part *part)
{
	struct gm_change *change = &p->change;
	int ret = gm_nodes_open(change->d, node, true, change->why,
				&part->segment);

	if (ret != 0)
		return ret;
	part->span = p->is_alone ? NULL
				 : gm_nodes_find(part->segment, p->image.bytes,
						 p->image.hash);
	part->is_shared = part->span != NULL;
	if (part->span == NULL)
		return gm_nodes_take(part->segment, p->image.bytes,
				     p->image.hash, change->why, &part->span);
	part->span->refs++;
	return 0;
}

static const struct part *part_of(const struct publish *p, uint32_t node)
{
	uint32_t i = 0;

	while (p->parts[i].segment->node != node)
		i++;
	return &p->parts[i];
}

static int take_spans(struct gm_change *change)
{
	struct publish *p = of(change);

	for (uint32_t i = 0; i < p->image.n_replicas; i++) {
		struct gm_replica_image *replica = &p->replicas[i];
		const struct part *part;
		int ret;

		if (gm_masks_is_first(p->replicas, i)) {
			ret = take_part(p, replica->node,
					&p->parts[p->n_parts]);
			if (ret != 0)
				return ret;
			p->n_parts++;
		}
		if (replica->place != GM_REPLICA_NODE)
			continue;
		part = part_of(p, replica->node);
		replica->id = part->segment->made;
		replica->at = (uint64_t)part->span->unit * GM_SPAN_UNIT;
	}
	return 0;
}

static void do_copy(struct gm_clerk_job *job)
{
	struct publish *p = of(gm_owner(job, struct gm_change, job));
	const void *bytes = p->source != NULL
				    ? gm_nodes_at(p->source_segment, p->source)
				    : p->staging;

	p->change.status = 0;
	p->differs = false;
	p->n_copies = 0;
	for (uint32_t i = 0; i < p->n_parts; i++) {
		struct part *part = &p->parts[i];

		if (part->is_shared) {
			p->differs =
				memcmp(gm_nodes_at(part->segment, part->span),
				       bytes, p->image.bytes) != 0;
			if (p->differs)
				return;
			continue;
		}
		p->change.status = gm_nodes_fill(part->segment, part->span,
						 bytes, p->change.why);
		if (p->change.status != 0)
			return;
		p->n_copies++;
	}
	drop_staging(p);
}

/* ---- show ---------------------------------------------------------------- */

static int show(struct publish *p)
{
	struct gm_change *change = &p->change;
	struct gm_put put;
	int ret = gm_publish_prepare_mask(change->d, &p->image, p->replicas, 0,
					  change->why, &put);

	if (ret != 0)
		return ret;
	/* The references are the block's from here on. */
	p->n_parts = 0;
	gm_publish_show(change->d, &put);
	change->version = put.block.version;
	gm_log(GM_LOG_INFO, "mask_published",
	       "name=%s rows=%u bytes=%llu copies=%u version=%llu uid=%u",
	       p->image.object.name, p->image.n_replicas,
	       (unsigned long long)p->image.bytes, p->n_copies,
	       (unsigned long long)change->version, p->image.object.owner_uid);
	return 0;
}

static void copied(struct gm_clerk_job *job)
{
	struct gm_change *change = gm_owner(job, struct gm_change, job);
	struct publish *p = of(change);
	int ret = change->status;

	if (ret == 0 && p->differs) {
		drop_parts(p);
		p->is_alone = true;
		ret = take_spans(change);
		if (ret == 0) {
			gm_changes_give(change, do_copy, copied);
			return;
		}
	}
	if (ret == 0)
		ret = show(p);
	gm_changes_end(change, ret);
}

static void proceed(struct gm_change *change)
{
	if (of(change)->n_parts > 0)
		gm_changes_give(change, do_copy, copied);
	else
		gm_changes_end(change, show(of(change)));
}

static void answer_publish(struct gm_change *change, struct gm_connection *c,
			   const struct gm_control *request)
{
	const struct publish *p = of(change);
	struct gm_mask_publish_reply reply = {
		.version = change->version,
		.bytes = p->image.bytes,
		.n_copies = p->n_copies,
		.n_shared = (uint32_t)count_nodes(p) - p->n_copies,
	};

	gm_connection_reply(c, request, &reply, sizeof(reply), NULL, 0, NULL,
			    0);
}

static const struct gm_change_kind publish_kind = {
	.judge = judge_publish,
	.plan = make_tensor,
	.settle = take_spans,
	.proceed = proceed,
	.answer = answer_publish,
	.free = free_publish,
};

int gm_mask_change_publish(struct gm_connection *c, const struct gm_request *r)
{
	struct publish *p = calloc(1, sizeof(*p));
	int ret;

	if (p == NULL)
		return -ENOMEM;
	p->fd = -1;
	p->change.kind = &publish_kind;
	p->change.bytes = sizeof(*p);
	ret = gm_mask_judge_request(c, r, &p->image, &p->rows, &p->at);
	if (ret != 0) {
		free(p);
		return ret;
	}
	if (p->image.kind == GPUMAP_MASK_CUSTOM &&
	    p->image.form == GPUMAP_MASK_LOADED) {
		p->fd = c->fd;
		c->fd = -1;
	}
	return gm_changes_add(c, &r->header, &p->change);
}

/* ---- following a map ----------------------------------------------------- */

static bool has_these_rows(const struct gm_masks_block *block,
			   const struct gm_masks_rows *rows)
{
	if (block->image.n_replicas != rows->n)
		return false;
	for (uint32_t i = 0; i < rows->n; i++)
		if (block->replicas[i].row != rows->of[i])
			return false;
	return true;
}

/* It may have been released since, or follow another map. */
static int judge_follow(struct gm_change *change)
{
	struct publish *p = of(change);
	struct gm_daemon *d = change->d;
	const struct gm_block *present =
		gm_publish_find(d, GM_KIND_MASK, p->image.object.name);
	struct gm_masks_block block;
	int ret;

	change->act = GM_CHANGE_NOTHING;
	if (present == NULL || !gm_masks_read(d, present->unit, &block) ||
	    strcmp(block.image.map, p->image.map) != 0)
		return 0;
	p->image = block.image;
	p->image.object.published = 0;
	ret = choose_rows(p);
	if (ret == 0 && has_these_rows(&block, &p->rows))
		return 0;
	if (ret != 0) {
		gm_log(GM_LOG_WARNING, "mask_stays", "name=%s map=%s why=%s",
		       p->image.object.name, p->image.map,
		       gm_quote(change->why).text);
		return ret;
	}
	for (uint32_t i = 0; i < block.image.n_replicas && !p->source; i++)
		p->source = gm_nodes_span(&d->nodes, &block.replicas[i],
					  &p->source_segment);
	if (p->source != NULL)
		p->source->refs++;
	change->act = GM_CHANGE_OWN;
	return 0;
}

static int settle_follow(struct gm_change *change)
{
	return change->act == GM_CHANGE_OWN ? take_spans(change) : 0;
}

static const struct gm_change_kind follow_kind = {
	.judge = judge_follow,
	.settle = settle_follow,
	.proceed = proceed,
	.free = free_publish,
};

void gm_mask_changes_follow(struct gm_daemon *d, const char *map)
{
	char name[GM_NAME_BYTES];

	memcpy(name, map, sizeof(name));
	for (uint32_t i = 0; i < GM_OBJECTS; i++) {
		const struct gm_block *block = &d->directory.objects[i];
		struct gm_masks_block mask;
		struct publish *p;

		if (block->unit == 0 || block->kind != GM_KIND_MASK ||
		    !gm_masks_read(d, block->unit, &mask) ||
		    strcmp(mask.image.map, name) != 0)
			continue;
		p = calloc(1, sizeof(*p));
		if (p == NULL) {
			gm_log(GM_LOG_ERROR, "mask_stays",
			       "name=%s map=%s why=\"out of memory\"",
			       block->name, name);
			continue;
		}
		p->fd = -1;
		p->image = mask.image;
		p->change.kind = &follow_kind;
		p->change.uid = block->owner_uid;
		gm_changes_add_own(d, &p->change);
	}
}

/* ---- release ------------------------------------------------------------- */

struct release {
	struct gm_change change;
	char name[GM_NAME_BYTES];
};

static struct release *release_of(struct gm_change *change)
{
	return gm_owner(change, struct release, change);
}

static int judge_release(struct gm_change *change)
{
	change->act = GM_CHANGE_OWN;
	return gm_publish_may_remove(change->d, GM_KIND_MASK,
				     release_of(change)->name, change->uid,
				     change->why);
}

static void take_out(struct gm_change *change)
{
	gm_changes_end(change, gm_publish_remove(change->d, GM_KIND_MASK,
						 release_of(change)->name,
						 change->uid, change->why));
}

static void answer_release(struct gm_change *change, struct gm_connection *c,
			   const struct gm_control *request)
{
	gm_connection_reply(c, request, NULL, 0, NULL, 0, NULL, 0);
}

static void free_release(struct gm_change *change)
{
	free(release_of(change));
}

static const struct gm_change_kind release_kind = {
	.judge = judge_release,
	.proceed = take_out,
	.answer = answer_release,
	.free = free_release,
};

int gm_mask_change_release(struct gm_connection *c,
			   const struct gm_control *header, const char *name)
{
	struct release *release = calloc(1, sizeof(*release));

	if (release == NULL)
		return -ENOMEM;
	strncpy(release->name, name, sizeof(release->name) - 1);
	release->change.kind = &release_kind;
	return gm_changes_add(c, header, &release->change);
}
